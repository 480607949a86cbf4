#!/bin/bash
# extents.sh: extents that a launch derives, from the command line, in an object and in a bundle: outputs have them, and tensors of
# other extents are refused with the expression and both numbers.
. "$(dirname "$0")/lib.sh"
cat >derived.tile <<'T'
kernel quantize(in f32 X[M, N], inout f32 S[M, cdiv(N, BLOCK)], out f32 P[parts * M, N + 1], index parts, const int BLOCK = 128)
    grid (M, cdiv(N, BLOCK))
{
    let (i, j) = program_id();
    store(S[i, j], max(load(X[i, j*BLOCK +: BLOCK]), drop = true));
    if j == 0 { store(P[(parts - 1)*M + i, extent(P, 1) - 1], f32(extent(S, 1))); }
}
instantiate quantize(BLOCK in {64, 128});
T
run() { "$tilec" run derived.tile "$@"; }
for t in cpu interp; do
    left=; [ $t = cpu ] || left="of P never stored"
    expect 0 "$left" run --target=$t --in 'X=random:f32[5, 300]:1' --in S=zeros --set parts=3 --out P=p_$t.npy --out S=s_$t.npy
    head -c 120 p_$t.npy | grep -aq "'shape': (15,301)" || fail "$t: the shape of P: $(head -c 120 p_$t.npy)"
    head -c 120 s_$t.npy | grep -aq "'shape': (5,3)" || fail "$t: the shape of S"
    [ "$(tail -c 4 p_$t.npy | od -An -tf4 | tr -d ' ')" = 3 ] || fail "$t: the last element of P"
    expect 0 "$left" run --target=$t --in 'X=random:f32[5, 300]:1' --in 'S=zeros:f32[5, 5]' --set parts=1 --set BLOCK=64
    said="argument 2 (S): axis 1 (cdiv(N, 64))"; [ $t = cpu ] || said="axis 1 of S (cdiv(N, BLOCK))"
    expect 1 "$said has 3 elements, not 5" \
        run --target=$t --in 'X=random:f32[5, 300]:1' --in 'S=zeros:f32[5, 3]' --set parts=1 --set BLOCK=64
    expect 1 "axis 0 (parts * M) would have -5 elements" run --target=$t --in 'X=random:f32[5, 300]:1' --in S=zeros --set parts=-1
done
same p_cpu.npy p_interp.npy; same s_cpu.npy s_interp.npy
expect 2 "the scalar parts is missing" run --in 'X=random:f32[5, 300]:1' --in S=zeros

cat >main.c <<'C'
#include HEADER
#include <stdio.h>
static float x[5 * 300], s[5 * 5], p[16 * 301];
static int launch(int64_t axis, int64_t rows, int64_t parts, int64_t block)
{
    const int64_t shape_x[] = { 5, 300 }, shape_s[] = { 5, axis }, shape_p[] = { rows, 301 };
    int status = quantize((tile_view){ x, shape_x, NULL }, (tile_view){ s, shape_s, NULL }, (tile_view){ p, shape_p, NULL }, parts, block, WHERE);
    if (status) printf("%s", WHY);
    return status;
}
int main(void)
{
    printf("%d", launch(3, 15, 3, 128));
    printf(" %d", launch(5, 10, 2, 64));
    printf(" %d", launch(3, 15, 3, 64));
    printf(" %d", launch(3, 14, 3, 128));
    printf(" %d\n", launch(4, 15, 3, 128));
    return 0;
}
C
expect 0 "" "$tilec" derived.tile -o d.o -h d.h
grep -q 'inout f32 S\[M, cdiv(N, BLOCK)\]' d.h || fail "the header does not say the extents"
expect 0 "" "$cc" -std=c11 -Wall -Wextra -DHEADER='"d.h"' -DWHERE=NULL -DWHY='""' -I. main.c d.o -o object
[ "$(./object)" = "0 0 8 8 8" ] || fail "the object's launcher: $(./object)"
if [ -n "${4-}" ]; then         # a driver in memory, whose compiler stands in for NVRTC
    mkdir drivers && cp "$4" drivers/libcuda.so.1
    expect 0 "" env TILE_NVRTC="$4" "$tilec" derived.tile --bundle --target=cuda:sm_80 -o b.c -h b.h
    expect 0 "" "$cc" -std=c11 -Wall -Wextra -DHEADER='"b.h"' -DWHERE='&(tile_queue){ .kind = TILE_ON_CUDA }' -DWHY='b_error()' -I. main.c b.c -o bundle -ldl -lpthread
    LD_LIBRARY_PATH=$work/drivers ./bundle >said.txt
    printf '%s\n' '0 0quantize: argument 2 (S): axis 1 (cdiv(N, BLOCK)) has 3 elements, not 5 8quantize: argument 3 (P): axis 0 (parts * M) has 14 elements, not 15 8quantize: argument 2 (S): axis 1 (cdiv(N, BLOCK)) has 4 elements, not 3 8' |
        diff - said.txt || fail "the bundle's launcher"
fi
finish
