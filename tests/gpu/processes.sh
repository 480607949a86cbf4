#!/bin/bash
# processes.sh: processes that race for one cache give the same bits, and a bundle built here runs on the
# device.
. "$(dirname "$0")/lib.sh"
gemm $device 300 264 200 >/dev/null 2>&1 && mv c.npy want.npy || fail "gemm"
for round in 1 2 3; do
    rm -rf "$TILE_CACHE_DIR"
    pids=
    for i in 1 2 3 4; do
        mkdir -p $i
        (cd $i && gemm $device 300 264 200 >log 2>&1) & pids="$pids $!"
    done
    for p in $pids; do wait "$p" || fail "a process failed in round $round: $(cat ?/log)"; done
    for i in 1 2 3 4; do cmp -s $i/c.npy want.npy || fail "process $i of round $round has other bits"; done
    [ -z "$(find "$TILE_CACHE_DIR" -name '*.tmp*' -print -quit)" ] ||
        fail "temporary files are left in the cache"
done
targets=cuda:sm_80,cuda:sm_90a
[ $device = hip ] && targets=hip:gfx90a,hip:gfx942,hip:gfx950,hip:gfx1100
"$tilec" "$kernels/attention.tile" --bundle --bundle-source=missing --target=$targets \
    -D T=f16 -D D=64 -D CAUSAL=true,false -o attention.c -h attention.h || fail "no bundle"
"$cc" -std=c11 -O2 -I. "$root/examples/bundle/attend.c" attention.c -o attend -lm -ldl -lpthread ||
    fail "the bundle does not compile"
./attend $device || fail "attend"
finish
