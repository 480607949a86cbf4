#!/bin/bash
# stages.sh COSTS SOURCE_FOLDER: the stages of rings that a product's configurations get. A tile that is stored transposed goes through
# shared memory, and no buffers of a store by TMA are kept beside it.
set -u
costs=$1 root=$2 failures=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
while read -r least config; do
    echo "$config" >"$work/config"
    said=$("$costs" --configs="$work/config" "$root/examples/kernels/gemm.tile" gemm cuda:sm_90a M=5120 N=768 K=1024)
    stages=$(sed -n 's/.*"stages": \([0-9]*\).*/\1/p' <<<"$said")
    [ "${stages:-0}" -ge "$least" ] || { echo "FAIL: $config: ${stages:-no} stages, not $least"; failures=1; }
done <<'CONFIGS'
3 TM=160, TN=192, TK=64, STAGES=8, TURN=true, persistent=0
3 TM=176, TN=192, TK=64, STAGES=8, TURN=true, persistent=1, cluster=2
4 TM=128, TN=256, TK=64, STAGES=8, persistent=0
CONFIGS
exit $failures
