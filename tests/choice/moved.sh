#!/bin/bash
# moved.sh COSTS SOURCE_FOLDER: what is counted of kernels without products, and what their estimate makes of it. Tiles whose slices and
# concatenations other threads hold go through shared memory, by vectors where words lie side by side, with the conflicts of their
# banks; programs that a pack leaves over run one by one; windows that have whole rows move no more than they hold; all of the
# arithmetic has to be issued.
set -u
costs=$1 root=$2 failures=0
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
# field NAME CONFIG KERNEL NAME=VALUE..: what is counted of it.
field() {
    local name=$1 kernel=$3
    echo "$2" >"$folder/config"
    shift 3
    "$costs" --configs="$folder/config" "$root/bench/ported/kernels/$kernel.tile" "$kernel" cuda:sm_90a "$@" |
        awk -v field="\"$name\":" '{ for (i = 1; i < NF; i++) if ($i == field) printf "%.0f\n", $(i + 1) }'
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
even=$(field meets "TW=32" nv12_to_rgb $frame W2=2048 W=4096) left=$(field meets "TW=32" nv12_to_rgb $frame W2=1920 W=3840)
check "$left" -gt $((5 * even)) "28 programs that a pack leaves over"
check "$(field wasted "TN=128" spherical_harmonics N=2097152)" = 0 "whole records"
hash=$(field estimate "TN=256" sha256_block N=4194304) work=$(field alu "TN=256" sha256_block N=4194304)
check $((hash / 1000)) -gt $((work * (4194304 / 256) / 132 / 250 / 1000)) "all of the arithmetic"
exit $failures
