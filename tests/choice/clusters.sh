#!/bin/bash
# clusters.sh COSTS SOURCE_FOLDER: clusters of six lie in groups of sixteen multiprocessors, so that 19 of them do not run at once:
# parts of a product are estimated longer by a second round.
set -u
costs=$1 kernel=$2/examples/kernels/gemm.tile list=$(mktemp)
trap 'rm -f "$list"' EXIT
for parts in 6 3; do echo "TM=64, TN=144, TK=64, STAGES=8, GROUP=1, persistent=0, split_k=$parts"; done >"$list"
"$costs" --configs="$list" "$kernel" gemm cuda:sm_90a T=f16 M=1184 N=139 K=4224 t:A t:B |
    grep -o '"estimate": [0-9.e+]*' | awk '{ ns[NR] = $2 } END { print ns[1], ns[2]; exit !(NR == 2 && ns[1] > 1.2 * ns[2]) }' ||
    { echo "FAIL: six parts of 19 programs are estimated like one round"; exit 1; }
# 14 programs in six parts are one round.
sed -i 2d "$list"
"$costs" --configs="$list" "$kernel" gemm cuda:sm_90a T=f16 M=896 N=139 K=4224 t:A t:B |
    grep -o '"estimate": [0-9.e+]*' | awk '{ exit !($2 < 13000) }' || { echo "FAIL: 14 programs in six parts are estimated like two rounds"; exit 1; }
