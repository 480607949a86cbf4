#!/bin/bash
# clusters.sh COSTS SOURCE_FOLDER: clusters of six lie in groups of sixteen multiprocessors, so that 19 of them do not run at once:
# parts of a product are estimated longer by a second round. What a cluster loads together is asked for once, with what comes beside it.
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
# The rows of B have 64 bytes, those of A 128. Each CTA of a pair along the rows of tiles asks L2 for half of B's rows, and so for half of
# what L2 fetches beside them; along the columns it asks for all of them.
for cluster in "1, cluster_axis=0" "2, cluster_axis=0" "2, cluster_axis=1"; do
    echo "TM=192, TN=192, TK=32, STAGES=8, GROUP=1, persistent=1, cluster=$cluster"
done >"$list"
"$costs" --configs="$list" "$kernel" gemm cuda:sm_90a T=f16 M=1080 N=3648 K=7680 t:A t:B |
    grep -o '"wasted": [0-9.e+]*' | awk '{ x[NR] = $2 } END { print x[1], x[2], x[3]; exit !(NR == 3 && x[1] == 2 * x[2] && x[1] == x[3]) }' ||
    { echo "FAIL: rows that a pair shares are counted whole for each of its CTAs"; exit 1; }
# 16 CTAs of 128 x 128 that follow each other load 4 rows and 4 columns of tiles in bands of four, 8 and 2 in bands of eight. Pairs along
# the rows go to the groups of multiprocessors in turn, so that nothing is counted of them.
for order in "4, persistent=0" "8, persistent=0" "8, persistent=1, cluster=2, cluster_axis=0"; do echo "TM=128, TN=128, TK=64, GROUP=$order"; done >"$list"
"$costs" --configs="$list" "$kernel" gemm cuda:sm_90a T=f16 M=1024 N=2048 K=4096 |
    grep -o '"nearby": [0-9.e+]*' | awk '{ x[NR] = $2 } END { print x[1], x[2], x[3]; exit !(NR == 3 && x[1] * 5 == x[2] * 4 && x[3] == 0) }' ||
    { echo "FAIL: what a group of multiprocessors loads does not follow from the order of programs"; exit 1; }
