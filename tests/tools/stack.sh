#!/bin/bash
# stack.sh: every command with a stack of 128 KiB, which threads that it starts get too: each example for a GPU of each vendor, objects, and what runs kernels.
. "$(dirname "$0")/lib.sh"
examples=$root/examples/kernels
small() { (ulimit -s 128 && "$@"); }
for file in "$examples"/*.tile; do
    for target in cuda:sm_90a hip:gfx942; do
        small "$tilec" "$file" --target=$target --no-check-emission -o out.txt >/dev/null 2>err.txt
        code=$?
        # some want a -D that others do not have: a message, not a signal
        [ $code -le 2 ] || fail "exit status $code: $file for $target"
        [ $code = 0 ] || grep -q error err.txt || fail "$file for $target: no message"
    done
done
k=$examples/softmax.tile
expect 0 "" small "$tilec" "$examples/vector_add.tile" -o k.o -h k.h
expect 0 "" small "$tilec" "$k" -o softmax.o -h softmax.h
expect 0 "" small "$tilec" "$k" --target=cuda:sm_80 -o k.cu
expect 0 "" small "$tilec" "$k" --emit=asm -D N=64 -D T=f32 -o k.s
cat >add.tile <<'T'
kernel add(in f32 X[N], in f32 Y[N], out f32 Z[N], const int B = 64) grid (cdiv(N, B)) {
    let i = program_id();
    store(Z[i*B +: B], load(X[i*B +: B]) + load(Y[i*B +: B]));
}
tune add { B in {64, 128, 256}; key (N); }
T
in=(--in 'X=random:f32[1000]:1' --in 'Y=ones:f32[1000]')
expect 0 "" small "$tilec" run add.tile "${in[@]}" --out Z=z.npy
expect 0 "" small "$tilec" run add.tile "${in[@]}" --out Z=i.npy --target=interp
same z.npy i.npy
expect 0 "median" small "$tilec" bench add.tile "${in[@]}" --repeat=3
expect 0 "3 configurations" small "$tilec" tune add.tile "${in[@]}" --repeat=1 -o add.tune
expect 0 "programs" small "$tilec" sim add.tile --set N=65536 --device=mi300x
expect 0 "schedule" small "$tilec" explain add.tile --target=cuda:sm_90a
# a bundle compiles in several threads, where NVRTC is found
small "$tilec" add.tile --bundle --bundle-source=missing --target=cuda:sm_80,cuda:sm_90a,cpu -o b.c -h b.h || fail "a bundle: exit status $?"
finish
