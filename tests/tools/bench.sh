#!/bin/bash
# bench.sh: `tilec bench` with ladders and sweeps: every command of docs/bench.md, the ladders of examples/ladders, wrong input.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1
mkdir bin && ln -s "$tilec" bin/tilec && export PATH=$work/bin:$PATH
cp "$root"/examples/ladders/*.tile .
sed -n '/^```tile$/,/^```$/p' "$root/docs/bench.md" | sed '1d;$d' >scale.tile
cat >product.tile <<'T'
kernel product(in f32 A[M, K], in f32 B[K, N], out f32 C[M, N], const int T = 32) grid (cdiv(M, T), cdiv(N, T))
{
    let (i, j) = program_id();
    var acc = zeros([T, T], f32);
    for k in 0 .. cdiv(K, T) { acc = mma(load(A[i*T +: T, k*T +: T]), load(B[k*T +: T, j*T +: T]), acc); }
    store(C[i*T +: T, j*T +: T], acc);
}
T
echo 'kernel k(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 8)) { let i = program_id(); store(Y[i*8 +: 8], load(X[i*8 +: 8])); }' >copy.tile
n=0
while IFS= read -r line; do
    eval "$line" >out.txt 2>&1 </dev/null || fail "$line"$'\n'"$(cat out.txt)"
    n=$((n + 1))
done < <(sed -n '/^```sh$/,/^```$/p' "$root/docs/bench.md" | grep '^tilec ')
[ $n -ge 5 ] || fail "only $n commands in docs/bench.md"
for f in out/gemm.{txt,csv,json,md,svg,log} p.svg p.csv p.json; do [ -s $f ] || fail "$f is missing"; done
[ "$(grep -c '^64,64,64,' out/gemm.csv)" = 5 ] && [ "$(grep -c '^96,96,96,' out/gemm.csv)" = 5 ] || fail "steps of gemm: $(cat out/gemm.csv)"
grep -q 'correct; TM=' out/gemm.txt || fail "the step that tunes: $(cat out/gemm.txt)"
python3 -c 'import json, sys
r = json.load(open("out/gemm.json"))
assert [s["name"] for s in r["steps"]] == ["plain", "tiled", "unbuffered", "buffered", "tuned"]
for x in r["results"]:
    n = x["size"]["M"]
    assert x["flops"] == 2 * n**3 or n % 64, x
    assert x["state"] in ("ok", "same") and x["median_ms"] >= x["least_ms"] > 0, x' || fail "out/gemm.json"
# steps of the same code; a step left without a pass differs
expect 0 "the same code as shared" tilec bench transpose.tile --ladder --set M=64 --set N=64 --repeat=1
tilec bench scale.tile --ladder --set M=16 --set N=64 --repeat=1 >out.txt || fail "scale: $(cat out.txt)"
grep -q '  exp2 .*  correct' out.txt || fail "exp2 should differ from plain: $(cat out.txt)"
# a causal loop counts up to the diagonal
tilec bench attention.tile --ladder --set B=1 --set H=1 --set N=256 --set D=64 --repeat=1 --json=a.json >/dev/null || fail "attention"
python3 -c 'import json
flops = json.load(open("a.json"))["results"][0]["flops"]
assert flops == sum(4 * 64 * 64 * (i + 1) * 64 for i in range(4)), flops' || fail "the work of a causal loop"
# another library: not found, found, and of another operation. A stand-in with the two functions that are called serves as OpenBLAS.
python3 -c 'import ctypes; ctypes.CDLL("libopenblas.so.0")' 2>/dev/null ||
    expect 0 "openblas is left out: libopenblas.so.0 is not found here" tilec bench copy.tile --sweep N=8 --repeat=1 --against=openblas
cat >blas.c <<'T'
#define GEMM(name, type) \
    void name(int order, int ta, int tb, int m, int n, int k, type alpha, const type *a, int lda, const type *b, int ldb, type beta, type *c, int ldc) \
    { for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) { type s = 0; for (int x = 0; x < k; x++) s += a[i*lda + x] * b[x*ldb + j]; c[i*ldc + j] = alpha * s; } }
GEMM(cblas_sgemm, float)
GEMM(cblas_dgemm, double)
T
$cc -O1 -shared -fPIC blas.c -o libopenblas.so.0 || fail "the stand-in for OpenBLAS"
export LD_LIBRARY_PATH=$work
tilec bench product.tile --sweep M=N=K=40,64 --against=openblas --repeat=2 --expect=interp --plot=b.svg >out.txt 2>&1 || fail "openblas: $(cat out.txt)"
[ "$(grep -c '  openblas .*correct' out.txt)" = 2 ] && [ "$(grep -c '  product .*correct' out.txt)" = 2 ] || fail "openblas: $(cat out.txt)"
grep -q '>openblas</text>' b.svg || fail "b.svg has no line of openblas"
expect 0 "left out: the kernel is no product of two matrices" tilec bench copy.tile --sweep N=8 --repeat=1 --against=openblas
expect 2 "there is no provider \`mkl\`; there are openblas and torch" tilec bench product.tile --sweep M=N=K=8 --against=mkl
python3 -c 'import torch' 2>/dev/null || expect 0 "torch is left out" tilec bench product.tile --sweep M=N=K=8 --repeat=1 --against=torch
# a wrong step and one that does not compile: the others go on
cat >wrong.tile <<'T'
kernel k(in f32 X[N], out f32 Y[N], const int T = 16, const int BAD = 0) grid (cdiv(N, T))
{
    let i = program_id();
    const if (BAD == 2) { store(Y[i*T +: T], load(X[i*T +: T]) + zeros([T + 1], f32)); }
    else if (BAD == 3) { store(Y[i*T +: T], load(X[i*T +: T]) * 3.0); }
    else { store(Y[i*T +: T], load(X[i*T +: T]) * 2.0); }
}
kernel twice(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 8)) { let i = program_id(); store(Y[i*8 +: 8], load(X[i*8 +: 8]) * 2.0); }
ladder k { at (N = 100); step good "as it is"; step broken "no shape" (BAD = 2); step wrong "another factor" (BAD = 3); step again "as it is" (T = 8); }
T
tilec bench wrong.tile --ladder --repeat=1 --output-dir wrong >out.txt 2>&1; [ $? = 1 ] || fail "exit status of a wrong step"
grep -q '  broken .*failed: .*17' out.txt || fail "broken: $(cat out.txt)"
grep -q '  wrong .*wrong: 100 of 100 elements of Y differ from good, the first at \[0\]' out.txt || fail "wrong: $(cat out.txt)"
grep -q '  again .*correct' out.txt || fail "again: $(cat out.txt)"
for f in wrong/k.{csv,json,md,log}; do [ -s $f ] || fail "$f is missing"; done
tilec bench wrong.tile --ladder --repeat=1 --expect=twice >out.txt 2>&1
grep -q '  good .*correct' out.txt && grep -q 'differ from twice' out.txt || fail "--expect=KERNEL: $(cat out.txt)"
expect 1 "20 of 20 elements of Y differ from twice" tilec bench wrong.tile --kernel=k --set BAD=3 --set N=20 --repeat=1 --expect=twice
tilec run wrong.tile --kernel=twice --set N=20 --in X=random:1 --out Y=y.npy || fail "run twice"
expect 0 "correct" tilec bench wrong.tile --kernel=k --set N=20 --in X=random:1 --repeat=1 --expect Y=y.npy
expect 1 "differ from --expect" tilec bench wrong.tile --kernel=k --set N=20 --in X=random:2 --repeat=1 --expect Y=y.npy
expect 0 "correct" tilec bench wrong.tile --kernel=k --set N=20 --in X=random:2 --repeat=1 --expect Y=y.npy --atol=10
# wrong input: one error, and nothing is written
one_error() { [ "$(grep -c 'error: ' <<<"$(cd "$work" && "$@" 2>&1)")" = 1 ] || fail "not one error: $*"; }
for sweep in N N= =4 N=4: N=4..2 N=1..8:0 N=0..8*2 N=1..8*1 N=a N=1,,2 N=1,2x 2N=4 N=N=4; do
    expect 2 "--sweep" tilec bench wrong.tile --ladder --sweep "$sweep" --output-dir none
    one_error tilec bench wrong.tile --ladder --sweep "$sweep"
done
absent none
expect 2 "--sweep gives 100000 sizes, more than 4096" tilec bench wrong.tile --ladder --sweep N=1..1000:1 --sweep BAD=1..100:1
expect 2 "N is given by --set and by --sweep" tilec bench wrong.tile --ladder --sweep N=4 --set N=4
expect 2 "is for one size" tilec bench wrong.tile --ladder --sweep N=4,5 --expect Y=y.npy
expect 2 "expected NAME=FILE.npy, interp, or a kernel of the file" tilec bench wrong.tile --ladder --expect=nobody
expect 2 "kernel twice has no ladder" tilec bench wrong.tile --ladder=twice
sed 's/step broken "no shape" (BAD = 2)/step broken "a pass" (skip exp3)/' wrong.tile >pass.tile
expect 1 "step \`broken\`: no pass is called 'exp3'; did you mean 'exp2'?" tilec bench pass.tile --ladder --output-dir none
expect 1 "step \`broken\`: no pass is called 'exp3'" tilec pass.tile -o none.o -h none.h
expect 1 "no pass is named 'exp3'" tilec bench wrong.tile --kernel=twice --in 'X=random:f32[8]:1' --skip-pass=exp3
expect 1 "cannot make the folder no/where" tilec bench wrong.tile --ladder --output-dir no/where
touch plain
expect 1 "is no folder" tilec bench wrong.tile --ladder --output-dir plain
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod a-w locked
    expect 1 "cannot write to the folder locked" tilec bench wrong.tile --ladder --output-dir locked
fi
expect 1 "cannot write /dev/full: No space left on device" tilec bench scale.tile --ladder --set M=4 --set N=64 --repeat=1 --json=/dev/full --csv=none.csv
absent none.csv
absent none
expect 2 "--graph needs an NVIDIA GPU" tilec bench scale.tile --ladder --graph
expect 0 "GB/s of arguments" tilec bench wrong.tile --kernel=twice --in 'X=random:f32[8]:1' --skip-pass=exp2 --repeat=1
finish
