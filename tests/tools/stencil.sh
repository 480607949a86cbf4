#!/bin/bash
# stencil.sh: rows whose windows are cut off at an end test the chunks between the ends once, and mask none.
. "$(dirname "$0")/lib.sh"

cat >three.tile <<'T'
kernel three(in T0 X[M, N], out T0 Y[M, N], out T0 S[M], const type T0 = f32, const int T = 256)
    grid (M)
{
    let i = program_id();
    var total = zeros([T], T0);
    for j in 0 .. cdiv(N, T) {
        let y = max(load(X[i - 1, j*T - 1 +: T]), load(X[i, j*T + 1 +: T]), load(X[i + 1, j*T + 2 +: T]));
        store(Y[i, j*T +: T], y);
        total = max(total, y);
    }
    store(S[i], max(total, drop = true));
}
T
for processor in x86-64-v4 x86-64-v3; do
    expect 0 "" "$tilec" three.tile --cpu=$processor -D N=4096 --emit=llvm -o three.ll
    # The block of a chunk in range loads whole vectors.
    sed -n '/^in_range/,/^[a-z]/p' three.ll >block.ll
    grep -q 'load <[0-9]* x float>' block.ll && ! grep -q 'masked\.load' block.ll ||
        fail "$processor: chunks in range of a row that is cut off are masked"
done
for type in f32 u8 f64; do
    for n in 1 15 16 17 33 64 225 255 256 257 1009; do
        expect 0 "" "$tilec" run three.tile --set T0=$type --in "X=random:$type[5, $n]:1:0:9" --out Y=y.npy --out S=s.npy
        expect 0 "" "$tilec" run three.tile --set T0=$type --in "X=random:$type[5, $n]:1:0:9" --out Y=y0.npy --out S=s0.npy \
            --target=interp
        cmp y.npy y0.npy && cmp s.npy s0.npy || fail "$type, rows of $n differ"
    done
done
finish
