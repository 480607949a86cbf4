#!/bin/bash
# auto.sh: what `remap = auto` takes, by its quick form of the model, judged by the whole model: never more traffic than the order of ids, not 3% more than the
# best where the choice is promised, a quarter more elsewhere. Convolutions, whose windows overlap, attention, products; and the example that asks for it.
. "$(dirname "$0")/../tools/lib.sh"
examples=$root/examples/kernels
cost() {        # of each remap: nanoseconds that misses of L2 keep the last-level cache busy, and misses of that memory
    awk '/"name"/ { match($0, /"name": "[^"]*"/); name = substr($0, RSTART + 9, RLENGTH - 10)
        match($0, /"l2": \{"lines": [0-9]+, "hit_rate": [0-9.]+/); split(substr($0, RSTART, RLENGTH), l, /[:,]/)
        match($0, /"read_bytes": [0-9]+, "written_bytes": [0-9]+/); split(substr($0, RSTART, RLENGTH), m, /[:,]/)
        print name, int(l[3] * (1 - l[5]) * 128 / 17.2 + (m[2] + m[4]) / 5.3) }' "$1"
}
auto() {        # auto PLACED KERNEL ARGUMENTS...: "" where nothing is promised
    local want=$1 kernel=$2 best= mine= none=
    shift 2
    "$tilec" sim "$examples/${kernel%:*}.tile" --kernel=${kernel#*:} "$@" --json=out.json --sample=32 >out || fail "$kernel $*"
    while read -r name ns; do
        [ $name = auto ] && mine=$ns
        [ $name = none ] && none=$ns
        [ -z "$best" ] || ((ns < best)) && best=$ns
    done < <(cost out.json)
    echo "$kernel $*: $(grep -o '^auto = [a-z0-9:+]*' out), $mine of at best $best"
    ((mine <= none && mine * 100 <= best * ($([ -n "$want" ] && echo 103 || echo 125)))) || fail "$kernel: auto costs $mine, the best $best, the order of ids $none"
    [ -z "$want" ] || grep -q "^auto = $want" out || fail "$kernel: $(grep ^auto out), not $want"
}
for k in conv2d_nchw conv2d_nhwc; do
    auto xcd conv2d:$k --set B=32 --set C=32 --set H=32 --set W=32 --set F=64 --set R=3 --set S=3 --set P=32 --set Q=32
    auto "" conv2d:$k --set B=32 --set C=256 --set H=56 --set W=56 --set F=256 --set R=3 --set S=3 --set P=56 --set Q=56
done
auto xcd attention:attention --set B=8 --set H=16 --set HK=16 --set M=4096 --set N=4096 --set D=64 --set CAUSAL=true
auto "" attention:attention --set B=2 --set H=32 --set HK=4 --set M=2048 --set N=2048 --set D=128 --set CAUSAL=false
auto "" gemm:gemm --set M=4096 --set N=4096 --set K=4096 --set GROUP=1
expect 0 "remap = auto: xcd, by the model of mi300x" "$tilec" "$examples/attention.tile" --kernel=attention --target=hip:gfx942 -D D=128 -D CAUSAL=true -D T=f16 --wperf -o a.hip
sed 's/remap = auto/remap = none/' "$examples/attention.tile" >plain.tile
"$tilec" plain.tile --kernel=attention --target=hip:gfx942 -D D=128 -D CAUSAL=true -D T=f16 -o plain.hip || fail "plain.tile"
! cmp -s <(grep -v '^#line' a.hip) <(grep -v '^#line' plain.hip) || fail "the emitted kernel places nothing"
# one chiplet: nothing to place, nothing to say
"$tilec" "$examples/attention.tile" --kernel=attention --target=hip:gfx90a -D D=128 -D CAUSAL=true -D T=f16 --wperf -o b.hip 2>&1 | grep 'remap = auto' && fail "gfx90a has one chiplet"
finish
