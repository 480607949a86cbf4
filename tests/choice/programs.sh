#!/bin/bash
# programs.sh COSTS SOURCE_FOLDER: other warps for the best sizes are chosen where both estimates are clearly lower, and not where only one
# of them is; what the source says stays.
set -u
costs=$1 kernels=$2/bench/ported/kernels failures=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
# takes WANTED FILE KERNEL ARGUMENTS: what is chosen for an H200.
takes() {
    local wanted=$1 file=$2 kernel=$3
    shift 3
    said=$("$costs" --choose --device-model=h200 "$file" "$kernel" cuda:sm_90a "$@" 2>&1)
    [ "${said%%:*}" = "$wanted" ] || { echo "FAIL: $kernel $*: ${said:-nothing}, not $wanted"; failures=1; }
}
rows="M=8192 N=8192"
# shellcheck disable=SC2086
takes "TM=1, warps=4" "$kernels/sinkhorn_rows.tile" sinkhorn_rows $rows
takes TV=32 "$kernels/gated_delta_rule.tile" gated_delta_rule D=f16 B=4 T=512 H=4 HV=8 K=128 V=128
sed -E 's/^( +grid \(.*\))$/\1 hint (warps = 16)/' "$kernels/sinkhorn_rows.tile" >"$work/sinkhorn_rows.tile"
grep -q 'hint (warps = 16)' "$work/sinkhorn_rows.tile" || { echo "FAIL: the hint was not written"; failures=1; }
# shellcheck disable=SC2086
takes TM=2 "$work/sinkhorn_rows.tile" sinkhorn_rows $rows
exit $failures
