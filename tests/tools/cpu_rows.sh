#!/bin/bash
# cpu_rows.sh: what becomes of rows on a CPU. Those whose windows are cut off at an end test the chunks between
# the ends once, and mask none; scans along a row are of whole vectors; so are gathers and scatters of rows.
. "$(dirname "$0")/lib.sh"
# Hundreds of short processes: what leaks, tools.run and tools.compile find under sanitizers.
export ASAN_OPTIONS=detect_leaks=0

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

cat >scans.tile <<'T'
fn then(p, q) { return (p[0] * q[0], p[1] * q[0] + q[1]); }
kernel scans(in T0 X[N], out T0 Y[N], out T0 Z[N], out T0 S[N], const type T0 = i32)
    grid (1)
{
    let x = load(X[:]);
    let (a, b) = scan((x, x + x), axis = 0, combine = then, reverse = true);
    store(Y[:], a - b);
    store(Z[:], cummax(x, axis = 0, reverse = true) + cumprod(x, axis = 0));
    store(S[:], cumsum(x, axis = 0));
}
T
expect 0 "" "$tilec" scans.tile --cpu=x86-64-v4 -D N=1024 --emit=llvm -o scans.ll
[ "$(grep -c 'mul <16 x i32>' scans.ll)" -ge 8 ] || fail "scans of a row take one element at a time"
for type in i32 i8 u64; do # whole numbers: no order of additions shows
    for n in 1 2 7 15 16 17 31 33 225 1023; do
        expect 0 "" "$tilec" run scans.tile --set T0=$type --in "X=random:$type[$n]:1:-3:4" --out Y=y.npy --out Z=z.npy --out S=s.npy
        expect 0 "" "$tilec" run scans.tile --set T0=$type --in "X=random:$type[$n]:1:-3:4" --out Y=y0.npy --out Z=z0.npy \
            --out S=s0.npy --target=interp
        cmp y.npy y0.npy && cmp z.npy z0.npy && cmp s.npy s0.npy || fail "scans of $n $type differ"
    done
done

cat >runs.tile <<'T'
kernel runs(in i32 ROW[E], in T0 A[M, K], out T0 Y[E, K], const type T0 = f16) grid (cdiv(E, 16), cdiv(K, 64))
{
    let (i, j) = program_id();
    let row = load(ROW[i*16 +: 16], pad = -1)[:, None];
    let col = (j*64 + arange(64))[None, :];
    store(Y[i*16 +: 16, j*64 +: 64], gather(A[row, col]));
}
kernel masked(in i32 ROW[E], in T0 A[M, K], out T0 Y[E, K], const type T0 = f16) grid (cdiv(E, 16), cdiv(K, 64))
{
    let (i, j) = program_id();
    let row = load(ROW[i*16 +: 16], pad = -1)[:, None];
    let col = (j*64 + arange(64))[None, :];
    store(Y[i*16 +: 16, j*64 +: 64], gather(A[row, col - 3], mask = col != index(row) + 5, pad = 2));
}
kernel scattered(in i32 ROW[E], in T0 A[E, K], inout T0 Y[M, K], const type T0 = f16, const bool CUT = false)
    grid (cdiv(K, 64))
{
    let j = program_id();
    let row = load(ROW[0 +: 32], pad = -1)[:, None];
    let col = (j*64 + arange(64))[None, :];
    let keeps = CUT ? col != index(row) + 5 : row != 7;
    scatter(Y[row, col - 3], load(A[0 +: 32, j*64 +: 64]), mask = keeps);
}
T
for type in f16 f32 u8 bool; do
    for k in "x86-64-v4 true" "x86-64-v4 false" "x86-64-v3 false"; do
        expect 0 "" "$tilec" runs.tile --kernel=scattered --cpu="${k% *}" -D T0=$type -D CUT="${k#* }" --emit=llvm -o runs.ll
        grep -q 'extractelement <[0-9]* x i1>' runs.ll && fail "${k% *}: a run of $type is scattered by elements"
    done
    for n in 1 63 64 225; do # some rows twice: the last one stays
        for cut in false true; do
            in=(--kernel=scattered --set T0=$type --set CUT=$cut --in 'ROW=random:i32[29]:2:-3:20')
            in+=(--in "A=random:$type[29, $n]:1:0:2" --in "Y=random:$type[17, $n]:3:0:2")
            expect 0 "" "$tilec" run runs.tile "${in[@]}" --out Y=y.npy
            expect 0 "" "$tilec" run runs.tile "${in[@]}" --out Y=y0.npy --target=interp
            cmp y.npy y0.npy || fail "scattered, $n $type, $cut: results differ"
        done
    done
done
for type in f16 f32 u8; do
    for k in "runs x86-64-v4" "runs x86-64-v3" "masked x86-64-v4"; do
        expect 0 "" "$tilec" runs.tile --kernel="${k% *}" --cpu="${k#* }" -D T0=$type --emit=llvm -o runs.ll
        grep -q 'masked\.gather' runs.ll && fail "${k#* }: a run of $type is gathered by elements"
    done
    for k in runs masked; do
        for n in 1 63 64 225; do
            in=(--kernel=$k --set T0=$type --in "A=random:$type[33, $n]:1:0:9" --in 'ROW=random:i32[41]:2:-3:40')
            expect 0 "" "$tilec" run runs.tile "${in[@]}" --out Y=y.npy
            expect 0 "" "$tilec" run runs.tile "${in[@]}" --out Y=y0.npy --target=interp
            cmp y.npy y0.npy || fail "$k of $n $type differ"
        done
    done
done
finish
