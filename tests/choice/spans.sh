#!/bin/bash
# spans.sh COSTS SOURCE_FOLDER: memory brings once what windows of one loop have in common. The taps of a convolution whose image L2 does
# not keep lie over each other, so that little more than each tensor comes once, be they boxes or pixels in a row, with all taps of a
# column in one window. Boxes of pixels two apart are counted as if those of different taps had nothing in common.
set -u
costs=$1 root=$2 failures=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/fields.sh"
# times LEAST MOST CONFIG WORDS..: bytes from memory by those of all tensors.
times() {
    said=$(fields "memory unique" "TF=128, TC=64, STAGES=4, persistent=1, $3" "$root/examples/kernels/conv2d.tile" conv2d_nhwc T=f16 \
        "${@:4}" | awk '$2 { printf "%.2f", $1 / $2 }')
    awk -v x="${said:-0}" -v least="$1" -v most="$2" 'BEGIN { exit !(x >= least && x <= most) }' ||
        { echo "FAIL: ${*:3}: ${said:-nothing} times the tensors, not $1 to $2"; failures=1; }
}
taps() { times "$1" "$2" "$3" B=128 C=128 H=28 W=28 F=128 R=3 S=3 PAD=1 P=28 Q=28 STRIDE=1; }
taps 1 1.2 "TP=8, TQ=32, FLAT=true"
taps 1 1.7 "TB=16, TQ=4"
taps 1 2 "TP=8, TQ=16, COLUMN=true"
times 1 1.2 "TP=8, TQ=32, FLAT=true" B=128 C=128 H=28 W=28 F=128 R=1 S=1 PAD=0 P=28 Q=28 STRIDE=1
times 2 3 "TP=7, TQ=16" B=128 C=128 H=28 W=28 F=128 R=3 S=3 PAD=1 P=14 Q=14 STRIDE=2
exit $failures
