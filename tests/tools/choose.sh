#!/bin/bash
# choose.sh COSTS SOURCE: which configurations are chosen where no table speaks (docs/tuning.md), by estimate, for an H100.
costs=$1 k=$2/examples/kernels autos=$2/tests/choice/autos.tile failed=0
choice() { "$costs" --choose "$k/$1.tile" "$2" cuda:sm_90a "${@:3}"; }
expect() { [[ "$2" == $1 ]] || { echo "expected $1, chosen: $2"; failed=1; }; }
# rows that begin anywhere go by shifted vectors: a thread must have whole rows' worth of them under way; aligned ones as declared
expect '*TN=1024*' "$(choice silu silu M=131072 N=1009)"
expect '*TN=1024*' "$(choice silu silu M=32768 N=5001)"
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
exit $failed
