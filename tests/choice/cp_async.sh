#!/bin/bash
# cp_async.sh COSTS SOURCE_FOLDER: what the busiest of the warps does that bring windows with cp.async. 64 lines of 128 bytes of which
# every second begins at a multiple of 16 bytes are four classes for three warps, so that one has two, of four units each; with seven
# warps eight classes. Lines at odd addresses are eight classes. Lines that are not uniform each need an address.
# Then windows that a producer asks TMA for, of which a column of taps has one for each; and copies of 8 bytes by warps that multiply,
# which take longer where stages leave L1 no room for the lines that the next step copies from.
set -u
costs=$1 root=$2 failures=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/fields.sh"
# count WANTED FILE KERNEL CONFIG WORDS..: units, classes and lines apart of an iteration.
count() {
    said=$(fields "cp_async cp_classes cp_apart iterations" "$4" "$root/examples/kernels/$2.tile" "$3" T=f16 "${@:5}" |
        awk '$4 { printf "%g %g %g", $1 / $4, $2 / $4, $3 / $4 }')
    [ "$said" = "$1" ] || { echo "FAIL: ${*:4}: ${said:-nothing}, not $1"; failures=1; }
}
tile() { count "$1" gemm gemm "TM=$2, TN=64, TK=$3, STAGES=4, GROUP=1, persistent=0, split_k=1, cp_async_producer=1" M="$4" N=512 K="$5" "${@:6}"; }
tile "8 2 0" 64 64 356 1024 t:A    # rows at multiples of 8 bytes
tile "16 2 0" 64 128 356 1024 t:A
tile "8 2 0" 64 64 358 1024 t:A    # of 4
tile "6 3 0" 64 64 357 1024 t:A    # of 2
tile "8 2 0" 128 64 356 1024 t:A   # seven warps
tile "6 3 0" 64 64 512 1025
conv() { count "$1" conv2d conv2d_nhwc "TF=64, TB=8, TP=2, TQ=16, TC=64, STAGES=4, persistent=1" B=8 C="$2" H=13 W=13 F=48 R=5 S=5 PAD=2 STRIDE=1 \
    P=13 Q=13; }
conv "14 2 10" 657
count "32 0 0" conv2d conv2d_planes "TF=128, TC=64, STAGES=3, TP=4" B=32 C=256 H=56 W=56 F=256 R=3 S=3 N=3136

for column in "true 4" "false 2"; do
    puts=$(fields "puts iterations" "TF=64, TP=8, TQ=8, TC=64, STAGES=4, COLUMN=${column% *}" "$root/examples/kernels/conv2d.tile" conv2d_nhwc \
        T=f16 B=8 C=128 H=16 W=16 F=64 R=3 S=3 PAD=1 STRIDE=1 P=16 Q=16 | awk '$2 { printf "%g", $1 / $2 }')
    [ "$puts" = "${column#* }" ] || { echo "FAIL: ${puts:-no} windows of a column: $column"; failures=1; }
done
stages() {
    fields estimate "TM=64, TN=64, TK=128, STAGES=$1, GROUP=1, persistent=0, split_k=8" "$root/examples/kernels/gemm.tile" gemm T=f16 \
        M=122 N=256 K=12100 t:B
}
awk -v four="$(stages 4)" -v five="$(stages 8)" 'BEGIN { exit !(four > 0 && five > 1.1 * four) }' ||
    { echo "FAIL: five stages leave L1 no room"; failures=1; }
# Three warpgroups that multiply are in the way of the warps that copy, more than two are (H200: 221.0 and 197.6 us).
beside() {
    fields estimate "TM=$1, TN=192, TK=64, STAGES=3, GROUP=1, persistent=1, stream_k=$2, cp_async_producer=1" "$root/examples/kernels/gemm.tile" \
        gemm T=f16 TO=f16 M=704 N=7816 K=2428 t:B p:A:3 p:B:3 p:C:3
}
awk -v two="$(beside 128 1)" -v three="$(beside 192 4)" 'BEGIN { exit !(two > 0 && two < three) }' ||
    { echo "FAIL: warps that copy beside three warpgroups"; failures=1; }
exit $failures
