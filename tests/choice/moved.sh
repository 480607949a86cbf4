#!/bin/bash
# moved.sh COSTS SOURCE_FOLDER: what is counted of kernels without products, and what their estimate makes of it. Tiles whose slices and
# concatenations other threads hold go through shared memory, by vectors where words lie side by side, with the conflicts of their
# banks; programs that a pack leaves over run one by one; windows that have whole rows move no more than they hold; all of the
# arithmetic has to be issued.
set -u
costs=$1 root=$2 failures=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/fields.sh"
# field NAME CONFIG KERNEL NAME=VALUE..: what is counted of it.
field() {
    fields "$1" "$2" "$root/bench/ported/kernels/$3.tile" "$3" "${@:4}" | awk '{ printf "%.0f\n", $1 }'
}
check() { test "$1" "$2" "$3" || { echo "FAIL: $4: $1 $2 $3"; failures=1; }; }
boxes="N=8192"
rows=$(field shared "TM=8, TN=128" nms_mask $boxes) square=$(field shared "TM=32, TN=32" nms_mask $boxes)
check "$square" -gt 8192 "columns of boxes go through shared memory"
check "$rows" -gt $((2 * square)) "the columns of many boxes meet in banks"
check "$(field estimate "TM=32, TN=32" nms_mask $boxes)" -lt "$(field estimate "TM=16, TN=64" nms_mask $boxes)" "square tiles of boxes"
check "$(field shared "TX=16" rope_2d T=f16 B=8 H=16 Y=32 X=32 D=64)" = 0 "lanes exchange shifted rows"
# Written and read once, 463872 bytes of which the shifts are most; 695296 if what is left of a slice were written, too.
words=$(field shared "warps=2" pcr_tridiagonal M=2048 N=256)
check "$words" -gt 300000 "rows shifted over warps"
check "$words" -lt 600000 "rows shifted over warps, once"
frame="H2=8640 H=17280"
four="TW=32, warps=4"
even=$(field alu "$four" nv12_to_rgb $frame W2=2048 W=4096) left=$(field alu "$four" nv12_to_rgb $frame W2=1920 W=3840)
check "$left" -gt $((2 * even)) "28 programs that a pack leaves over"
check "$(field shared "TW=32" nv12_to_rgb $frame W2=2048 W=4096)" = 0 "pixels lie where their components are"
check "$(field wasted "TN=128" spherical_harmonics N=2097152)" = 0 "whole records"
hash=$(field estimate "TN=256" sha256_block N=4194304) operations=$(field alu "TN=256" sha256_block N=4194304)
check $((hash / 1000)) -gt $((operations * (4194304 / 256) / 132 / 250 / 1000)) "all of the arithmetic"
# Taps of a stencil share what they load: a tile of 2 x 4 x 32 brings 4 x 6 rows of 6 sectors, one of 256 in a row 9 of 34. A tensor that
# is changed is read and written. Records that a warp stores side by side lie in few lines.
grid="Z=128 Y=256 X=256"
cube=$(field fetched "TZ=2, TY=4, TX=32" stencil27 $grid) line=$(field fetched "TZ=1, TY=1, TX=256" stencil27 $grid)
check "$cube" -lt $((4 * 6 * 6 * 32 + 1)) "taps of a tile"
check "$line" -gt $((2 * cube)) "taps of a row"
check "$(field estimate "TZ=1, TY=1, TX=256" stencil27 $grid)" -gt "$(field estimate "TZ=2, TY=4, TX=32" stencil27 $grid)" "a row's taps"
check "$(field memory "TN=1024" adamw T=f16 N=33554432)" -gt $((33554432 * 20)) "states that are changed"
check "$(field alu "TN=8" quat_covariance N=16777216)" -lt 131072 "records of 24 bytes"
exit $failures
