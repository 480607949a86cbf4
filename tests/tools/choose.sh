#!/bin/bash
# choose.sh COSTS SOURCE: which configurations are chosen where no table speaks (docs/tuning.md), by estimate, for an H100.
costs=$1 k=$2/examples/kernels autos=$2/tests/choice/autos.tile failed=0
choice() { "$costs" --choose "$k/$1.tile" "$2" cuda:sm_90a "${@:3}"; }
expect() { [[ "$2" == $1 ]] || { echo "expected $1, chosen: $2"; failed=1; }; }
# rows that begin anywhere go by shifted vectors: a thread must have 32 elements of them under way; aligned ones as declared
under_way='@(*TN=1024*|TM=8, TN=256, warps=2:*|TM=2, warps=1:*)'
expect "$under_way" "$(choice silu silu M=131072 N=2009)"
expect "$under_way" "$(choice silu silu M=32768 N=5001)"
expect 'as declared*' "$(choice silu silu M=32768 N=4096)"
expect 'as declared*' "$(choice softmax softmax M=131072 N=1009)"
# attention: what goes on across programs is counted like the rest; few keys and D 256 want steps that fit; rows of 144 bytes are loaded as rarely as may be
expect 'TN=80*' "$(choice attention_softcap attention_softcap B=1 H=8 HK=4 M=5000 N=5000 D=256 CAUSAL=true)"
# a step of few keys spends much of its time on row statistics, barriers and addresses: of 64 rows and 64 keys a warpgroup 40% of it
expect 'TM=192, persistent*' "$(choice attention attention B=4 H=32 HK=32 M=4096 N=4096 D=64 CAUSAL=false)"
expect 'TM=192, persistent*' "$(choice attention attention B=4 H=32 HK=32 M=4096 N=4096 D=64 CAUSAL=true)"
expect 'TM=192*' "$(choice attention_alibi attention_alibi B=4 H=12 HK=12 M=1500 N=1500 D=64 CAUSAL=false)"
expect 'TM=256, TN=64*' "$(choice attention attention B=2 H=16 HK=16 M=2304 N=2304 D=72 CAUSAL=true T=bf16)"
expect 'TM=256, TN=64*split_k=2*' "$(choice attention attention B=1 H=32 HK=32 M=512 N=8192 D=64 CAUSAL=false)"
# loops of few programs are divided where the compiler chooses the sizes, not where all of them are bound
auto() { "$costs" --choose "$autos" product cuda:sm_90a M=512 N=512 K=4096 "$@" || echo none; }
expect '*split_k=2*' "$(auto)"
expect 'none' "$(auto TM=64 TN=64 TK=128)"
# stream_k: shares that are parts of one program each load their windows together, others load them from memory again (H100, measured: 174
# and 146 us in whole rounds by 128 x 192, 130 and 160 by 128 x 256); as many CTAs as there are shares draw on memory
list=$(mktemp) && trap 'rm -f "$list"' EXIT
of() { # FIELD CONFIGURATION PROBLEM...: as a whole number
    echo "$2" >"$list"
    "$costs" --device-model=h100 --configs="$list" "$k/gemm.tile" gemm cuda:sm_90a "${@:3}" | sed -n "s/.*\"$1\": \([0-9.e+]*\)[,}].*/\1/p" | awk '{ printf "%d", $1 }'
}
wide="TM=128, TN=256, TK=64, STAGES=4, GROUP=1, persistent=1" narrow="TM=128, TN=192, TK=64, STAGES=4, GROUP=1, persistent=1"
shape="M=640 N=7984 K=8256"
# shellcheck disable=SC2086
{
    [ "$(of memory "$wide, stream_k=4" $shape)" = "$(of memory "$wide" $shape)" ] || { echo "even shares load again"; failed=1; }
    [ "$(of memory "$narrow, stream_k=4" $shape)" -gt $(($(of memory "$narrow" $shape) * 3 / 2)) ] || { echo "uneven shares do not load again"; failed=1; }
    [ "$(of estimate "$wide, stream_k=4" $shape)" -lt "$(of estimate "$wide" $shape)" ] || { echo "even shares do not pay"; failed=1; }
    [ "$(of estimate "$narrow, stream_k=4" $shape)" -gt "$(of estimate "$narrow" $shape)" ] || { echo "uneven shares pay"; failed=1; }
    few=$(of estimate "$narrow, stream_k=4" M=750 N=920 K=11072 t:B)
    { [ "$few" -gt 35000 ] && [ "$few" -lt 52000 ]; } || { echo "thirty programs in four parts: $few ns, measured 43000"; failed=1; }
}
# zeros that TMA brings for what lies outside the tensor, and rows in pieces of 64 bytes, take time
turned="TM=96, TN=64, TK=128, STAGES=8, GROUP=1, TURN=true"
[ "$(of outside "$turned" M=198 N=2240 K=11840)" -gt 0 ] || { echo "windows beyond the tensor bring nothing"; failed=1; }
[ "$(of outside "$turned" M=192 N=2240 K=11776)" = 0 ] || { echo "windows within the tensor bring zeros"; failed=1; }
[ "$(of wasted "TM=64, TN=160, TK=64, STAGES=8, GROUP=1" M=1600 N=1600 K=6400)" -gt 0 ] || { echo "pieces of rows waste nothing"; failed=1; }
exit $failed
