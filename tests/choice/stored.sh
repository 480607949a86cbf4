#!/bin/bash
# stored.sh COSTS SOURCE_FOLDER: the bytes of the sectors that stores of tiles write. Boxes of TMA that overlap write columns twice; boxes
# whose rows are shorter than two sectors take as long as such of two; rows of warps and of boxes that begin within a sector write parts
# of one more. A window with axes of one element, and pixels that are scattered in order, count alike.
set -u
costs=$1 root=$2 failures=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/fields.sh"
# ratio WANTED FILE KERNEL CONFIG EXTENTS..: hundredths of `stored` by `out`.
ratio() {
    said=$(fields "stored out" "$4" "$root/examples/kernels/$2.tile" "$3" T=f16 "${@:5}" | awk '$2 { printf "%.0f", 100 * $1 / $2 }')
    [ "$said" = "$1" ] || { echo "FAIL: ${*:4}: ${said:-nothing} hundredths, not $1"; failures=1; }
}
tile() { ratio "$1" gemm gemm "TM=128, TN=$2, TK=64, STAGES=8, GROUP=1, persistent=1" M=4096 N="$3" K=128; }
tile 100 128 2304
tile 133 144 2304 # boxes of 64 columns at 0, 64 and 80
tile 109 176 2304
tile 100 160 2304 # boxes of 32 columns
tile 112 128 2312 # rows begin at multiples of 16 bytes
tile 147 160 2305 # rows of 64 bytes of a warp begin anywhere
tile 194 144 2305 # of 32 bytes
conv() { ratio "$1" conv2d conv2d_nhwc "TF=144, TB=$2, TP=8, TQ=$((16 / $2)), TC=64, STAGES=8, persistent=1, FLAT=$3" \
    B=8 C=64 H=64 W=64 F=832 R=1 S=1 P=64 Q=64 STRIDE=1 PAD=0; }
conv 133 1 false
conv 133 2 false
conv 200 1 true # pixels go in boxes of 16 columns, which do not overlap
exit $failures
