#!/bin/bash
# stages.sh COSTS SOURCE_FOLDER: what is counted of configurations. The stages of rings that a product's get: a tile that is stored
# transposed goes through shared memory, and no buffers of a store by TMA are kept beside it. Of a convolution whose rows of channels
# TMA does not take, by all warps alike: windows come ahead of their iterations; one that cannot, since its rows begin at odd addresses
# and are divided among threads in no regular way, is waited for once an iteration, whatever the number of its loads; and pixels that
# are copied one by one take more instructions than rows. Rows of windows that reach
# over the end of the tensor's rows, of which CTAs that load together bring a part each. Stages of which an iteration takes one for
# each tap of a column. Rows of operands that lie across two lines of L2, arithmetic behind a product's loop, in which a warp's store
# reaches a line or many, and a last round of few programs. CTAs whose warpgroups hand registers over, and what the loads of one
# iteration read together. Rows that CTAs share.
set -u
costs=$1 root=$2 failures=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/fields.sh"
while read -r least config; do
    stages=$(fields stages "$config" "$root/examples/kernels/gemm.tile" gemm M=5120 N=768 K=1024)
    [ "${stages:-0}" -ge "$least" ] || { echo "FAIL: $config: ${stages:-no} stages, not $least"; failures=1; }
done <<'CONFIGS'
3 TM=160, TN=192, TK=64, STAGES=8, TURN=true, persistent=0
3 TM=176, TN=192, TK=64, STAGES=8, TURN=true, persistent=1, cluster=2
4 TM=128, TN=256, TK=64, STAGES=8, persistent=0
CONFIGS

# count FIELD CONFIG [CHANNELS [N]]: of that convolution, an iteration; N: of that many parts.
count() {
    fields "$1 iterations" "$2" "$root/examples/kernels/conv2d.tile" conv2d_nhwc T=bf16 B=8 C="${3:-190}" H=74 W=74 F=102 R=3 S=3 P=74 Q=74 \
        STRIDE=1 PAD=1 | awk -v parts="${4:-0}" '{ printf "%.0f\n", $1 / (parts ? parts : $2) }'
}
[ "$(count waits "TF=128, TP=8, TQ=8, TC=64, STAGES=4")" = 0 ] || { echo "FAIL: a window ahead"; failures=1; }
[ "$(count waits "TF=128, TP=8, TQ=28, TC=64, STAGES=4")" = 0 ] || { echo "FAIL: a window of 28 pixels ahead"; failures=1; }
[ "$(count waits "TF=64, TP=8, TQ=28, TC=64, STAGES=4" 191)" = 1 ] || { echo "FAIL: a window of each iteration"; failures=1; }
[ "$(count waits "TF=32, TP=8, TQ=28, TC=64, STAGES=4, COLUMN=true" 191)" = 1 ] || { echo "FAIL: three windows"; failures=1; }
rows=$(count copies "TF=128, TP=8, TQ=16, TC=64, STAGES=4") pixels=$(count copies "TF=128, TP=8, TQ=16, TC=64, STAGES=4, FLAT=true")
[ $((2 * pixels)) -gt $((3 * rows)) ] || { echo "FAIL: copies of pixels take $pixels, of rows $rows"; failures=1; }

# More copies of 4 bytes a step need more registers, so that fewer CTAs of 64 channels a step fit.
wide=$(count estimate "TQ=16, TC=64, persistent=0" 114 1) narrow=$(count estimate "TQ=16, TC=32, persistent=0" 114 1)
[ "$wide" -gt "$narrow" ] || { echo "FAIL: steps of 64 channels take $wide, of 32 $narrow"; failures=1; }

# cut CHANNELS CONFIG: rows of an iteration's windows that reach over the tensor's end.
cut() {
    fields "cut iterations" "$2" "$root/examples/kernels/conv2d.tile" conv2d_nhwc T=f16 B=8 C="$1" H=64 W=64 F=256 R=3 S=3 P=64 Q=64 STRIDE=1 \
        PAD=1 | awk '{ printf "%.0f\n", $1 / $2 }'
}
config="TF=128, TP=8, TQ=16, TC=64, STAGES=4, persistent=1"
while read -r want channels more; do
    said=$(cut "$channels" "$config$more")
    [ "$said" = "$want" ] || { echo "FAIL: $channels channels$more: $said rows cut, not $want"; failures=1; }
done <<'CUT'
0 64
256 40
128 72
192 40 , cluster=2, cluster_axis=0
CUT

# field NAME CONFIG FILE KERNEL NAME=VALUE..: what is counted of it.
field() {
    fields "$1" "$2" "$root/examples/kernels/$3.tile" "$4" "${@:5}" | awk '{ printf "%.0f\n", $1 }'
}
check() { test "$1" "$2" "$3" || { echo "FAIL: $4: $1 $2 $3"; failures=1; }; }
column="TF=160, TP=16, TQ=8, COLUMN=true, STAGES=8, persistent=1"
for case in "64 2" "32 4"; do
    read -r channels want <<<"$case"
    check "$(field stages "$column, TC=$channels" conv2d conv2d_nhwc T=f16 B=4 C=320 H=64 W=64 F=320 R=3 S=3 P=64 Q=64 STRIDE=1 PAD=1)" \
        = "$want" "iterations whose taps are under way"
done
product="TM=128, TN=128, TK=64, STAGES=8, persistent=1"
check "$(field split "$product" gemm gemm M=2048 N=2048 K=4096)" = 0 "rows at lines"
check "$(field split "$product" gemm gemm M=2048 N=2048 K=4000)" -gt 100000 "rows across lines"
whole=$(field ends "TM=128, TN=128, TK=64, persistent=1" gemm gemm M=3000 N=3004 K=512)
pieces=$(field ends "TM=128, TN=144, TK=64, persistent=1" gemm gemm M=3000 N=3004 K=512)
check "$whole" -gt 10000 "arithmetic behind the loop"
check "$pieces" -gt $((2 * whole)) "stores to many lines"
few=$(field estimate "TM=128, TN=256, TK=64, persistent=1" gemm gemm M=2048 N=2560 K=4096)
all=$(field estimate "TM=128, TN=256, TK=64, persistent=1" gemm gemm M=2816 N=3072 K=4096)
check $((100 * few)) -lt $((97 * all)) "a last round of few programs"
# Two consumers hand registers over, so that a multiprocessor holds one CTA of them: 264 programs are two rounds of 132.
narrow="TM=128, TN=64, TK=32, STAGES=4, persistent=0"
one=$(field estimate "$narrow" gemm gemm M=1536 N=704 K=1024)
two=$(field estimate "$narrow" gemm gemm M=3072 N=704 K=1024)
check $((10 * two)) -gt $((17 * one)) "a second round of CTAs of two consumers"
check "$(field again "$column, TC=64" conv2d conv2d_nhwc T=f16 B=4 C=320 H=64 W=64 F=320 R=3 S=3 P=64 Q=64 STRIDE=1 PAD=1)" = 0 \
    "bytes that the taps of one iteration read again"
# CTAs that share a row have two warps or more, and as few of them share it as have registers for it.
chosen=$("$costs" --device-model=h200 --choose "$root/examples/kernels/layer_norm.tile" layer_norm cuda:sm_90a T=f32 M=22795 N=5888)
config=${chosen%%:*} rows="T=f32 M=22795 N=5888"
[ "$config" != "as declared" ] || config=
# shellcheck disable=SC2086
threads=$(field threads "$config" layer_norm layer_norm $rows) ctas=$(field cluster "$config" layer_norm layer_norm $rows)
{ [ "${threads:-0}" -ge 64 ] && [ "$threads" -le 256 ] && [ "${ctas:-9}" -le 2 ]; } ||
    { echo "FAIL: rows of 5888: $chosen: $ctas CTAs of $threads threads"; failures=1; }
exit $failures
