#!/bin/bash
# bench.sh: `tilec bench` with ladders and sweeps: the files that it writes, the ladders of examples/ladders,
# wrong input. pages.bench runs the commands of docs/bench.md.
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
expect 0 "correct" tilec bench gemm.tile --ladder --sweep M=N=K=64,96 --repeat=3 --output-dir out
expect 0 "M=N=128" tilec bench transpose.tile --sweep M=N=64..128*2 --repeat=3 --plot=p.svg --csv=p.csv --json=p.json
expect 0 "correct" tilec bench transpose.tile --ladder --set M=64 --set N=64 --repeat=3 --profile=trace.json
for f in out/gemm.{txt,csv,json,md,svg,log} p.svg p.csv p.json; do [ -s $f ] || fail "$f is missing"; done
[ "$(grep -c '^64,64,64,' out/gemm.csv)" = 5 ] && [ "$(grep -c '^96,96,96,' out/gemm.csv)" = 5 ] || fail "steps of gemm: $(cat out/gemm.csv)"
grep -q 'correct; TM=' out/gemm.txt || fail "the step that tunes: $(cat out/gemm.txt)"
python3 -c 'import json, sys
r = json.load(open("out/gemm.json"))
assert [s["name"] for s in r["steps"]] == ["plain", "tiled", "unbuffered", "buffered", "tuned"]
for x in r["results"]:
    n = x["size"]["M"]
    assert x["flops"] == 2 * n**3 or n % 64, x
    assert x["state"] in ("ok", "same") and x["median_ms"] >= x["least_ms"] > 0, x
    assert x["of_peak"] > 0, x' || fail "out/gemm.json"
grep -q '[0-9]% arithmetic' out/gemm.txt || fail "no fraction of the peak: $(cat out/gemm.txt)"
python3 -c 'import json
events = [e for e in json.load(open("trace.json"))["traceEvents"] if e["ph"] == "X"]
assert len(events) == 9, len(events)        # three launches of three steps: the fourth has the code of the third
assert {e["name"] for e in events} == {"transpose: " + s for s in ("rows", "coalesced", "shared")}
assert all(e["dur"] > 0 for e in events) and events == sorted(events, key=lambda e: e["ts"])' || fail "trace.json"
# steps of the same code; a step left without a pass differs
expect 0 "the same code as shared" tilec bench transpose.tile --ladder --set M=64 --set N=64 --repeat=1
tilec bench scale.tile --ladder --set M=16 --set N=64 --repeat=1 --json=scale.json >out.txt ||
    fail "scale: $(cat out.txt)"
# without products, operations on floats count: of each element at least the product and the exponential
python3 -c 'import json
assert all(2 * 16 * 64 <= r["flops"] <= 4 * 16 * 64 and r["tflops"] > 0
           for r in json.load(open("scale.json"))["results"])' || fail "the work of scale: $(cat scale.json)"
grep -q '  exp2 .*  correct' out.txt || fail "exp2 should differ from plain: $(cat out.txt)"
# the ladders on GPUs: their steps are emitted, and each hint reaches the code or a note says why it does not
for target in cuda:sm_80 cuda:sm_90a hip:gfx942; do
    for file in transpose gemm attention; do
        "$tilec" $file.tile --target=$target -D $([ $file = attention ] && echo D=64 || echo TM=64) --emit=schedule >/dev/null || fail "$file for $target"
    done
done
# More threads than processors have no higher peak: its rates are those that are kept already.
expect 0 "% of the peak" tilec bench copy.tile --in X=random:f32[4096]:1 --repeat=3
kept=$(find "$TILE_CACHE_DIR" -name '*.note' | wc -l)
((kept > 0)) || fail "no rates are kept"
expect 0 "% of the peak" tilec bench copy.tile --in X=random:f32[4096]:1 --repeat=3 --threads=500
[ "$(find "$TILE_CACHE_DIR" -name '*.note' | wc -l)" = "$kept" ] || fail "a peak of 500 threads"
# A remark that names a hint has the source's value and stands at its line, also where loads ask for different ones.
cat >hints.tile <<'T'
kernel attend(in f16 Q[M, D], in f16 K[N, D], in f16 V[N, D], out f16 O[M, D], const int T = 128)
    grid (cdiv(M, T)) hint (occupancy = 9)
{
    let i = program_id();
    let q = load(Q[i*T +: T, :]);
    var acc = zeros([T, D], f32);
    for j in 0 .. cdiv(N, T) {
        let s = mma(q, transpose(load(K[j*T +: T, :], latency = 2)), zeros([T, T], f32));
        acc = mma(f16(s), load(V[j*T +: T, :], latency = 9), acc);
    }
    store(O[i*T +: T, :], f16(acc));
}
T
for target in cuda:sm_80 cuda:sm_86 cuda:sm_90a cuda:sm_120 hip:gfx90a hip:gfx942 hip:gfx1100; do
    "$tilec" hints.tile --target=$target -D D=128 --wperf -o text.c 2>remarks || fail "hints for $target: $(cat remarks)"
    awk '/performance: latency = [0-9]/ { match($0, /latency = [0-9]+/); want = substr($0, RSTART, RLENGTH); next }
         /performance: [0-9]+ (stages are asked|buffers a load)/ { want = "latency = 9"; next }
         /performance: occupancy = / { occupancy++ }
         want != "" { seen++; if (index($0, want) == 0) { print want " at: " $0; bad = 1 }; want = "" }
         END { exit bad || !seen || !occupancy }' remarks || fail "remarks on hints for $target: $(cat remarks)"
done
# Text of a step without producer warps, without its comments; and the remarks on it.
step() {
    "$tilec" attention.tile -D D=128 -D warp_specialize=0 --target=$1 $(sed 's/[^ ]*=/-D &/g' <<<"$2") \
        --wperf -o text.c 2>remarks || fail "$2 for $1"
    grep -v '^//' text.c >"$3"
}
for target in cuda:sm_80 cuda:sm_86 cuda:sm_90a cuda:sm_100a cuda:sm_120 \
    hip:gfx90a hip:gfx942 hip:gfx950 hip:gfx1100; do
    step $target "LK=1 LV=1" step4
    step $target "LK=2 LV=4" step5
    if cmp -s step4 step5; then
        [ $target = hip:gfx1100 ] && grep -q "latency = 4: the registers of $target have no room" remarks ||
            fail "latency 2 and 4 change nothing on $target: $(cat remarks)"
    fi
    step $target "LK=2 LV=4 occupancy=2" step6
    if cmp -s step5 step6; then
        grep -q "occupancy = 2: " remarks ||
            fail "occupancy changes nothing on $target, and nothing says so: $(cat remarks)"
    fi
done
for target in cuda:sm_80 cuda:sm_90a cuda:sm_100a; do
    "$tilec" attention.tile -D D=128 -D warp_specialize=0 -D LK=2 -D LV=4 --target=$target --emit=schedule >s.txt
    grep -qx 'load K stages 2' s.txt && grep -qx 'load V stages 4' s.txt ||
        fail "latencies 2 and 4 on $target: $(cat s.txt)"
    "$tilec" attention.tile -D D=128 -D warp_specialize=0 --target=$target --emit=schedule | grep -q stages &&
        fail "latency = 1 has a ring on $target"
done
step hip:gfx1100 "LK=2 LV=4" step5; step hip:gfx1100 "LK=2 LV=4 occupancy=2" step6
cmp -s step5 step6 && fail "occupancy does not reach gfx1100"
occupied=("$tilec" attention.tile -D D=128 -D LK=2 -D LV=4 -D occupancy=2 --wperf -o a.hip)
expect 0 "occupancy = 2: a multiprocessor of hip:gfx942 holds 1 CTA of 49152 bytes of shared memory" \
    "${occupied[@]}" --target=hip:gfx942
expect 0 "occupancy = 2: the code is the same without it: 2 CTAs of 2 waves are 1 on each SIMD of hip:gfx950" \
    "${occupied[@]}" --target=hip:gfx950
# on a CPU hints are left out, and what changes nothing is named; also where the cache has the code
cat >hints.tile <<'T'
kernel k(in f32 X[N], out f32 Y[N], const int TN = 8) grid (cdiv(N, TN))
{
    let i = program_id();
    store(Y[i*TN +: TN], load(X[i*TN +: TN]));
}
ladder k {
    at (N = 64);
    step plain "as declared";
    step busy "two at a time" (occupancy = 2, warps = 8);
    step default "as declared" (TN = 8);
    step wide "16" (TN = 16);
}
T
for _ in 1 2; do
    tilec bench hints.tile --ladder --repeat=1 --output-dir hints >out.txt 2>&1 ||
        fail "hints: $(cat out.txt)"
    grep -q '  busy .*the same code as plain: occupancy = 2 is left out: hints have no meaning on a CPU$' out.txt ||
        fail "hints on a CPU: $(cat out.txt)"
    grep -q '  default .*the same code as busy: TN = 8 changes nothing on cpu$' out.txt &&
        grep -q '  wide .*correct$' out.txt || fail "steps of the same code: $(cat out.txt)"
done
grep -q '"reason": "plain", "why": "occupancy = 2 is left out' hints/k.json &&
    grep -q 'occupancy = 2 is left out' hints/k.md || fail "why the code is the same: $(cat hints/k.json)"
expect 0 "occupancy = 2: a CTA with producer warps has the registers" "$tilec" attention.tile --target=cuda:sm_90a -D D=64 -D occupancy=2 --wperf --emit=schedule
expect 0 "occupancy = 2: a CPU has no multiprocessors" "$tilec" attention.tile -D D=64 -D occupancy=2 --wperf -o a.o -h a.h
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

# A program for PyTorch that fails says why, and one that prints more times than are kept is read to its end.
mkdir fake
cat >fake/python3 <<'PROGRAM'
#!/bin/sh
case "$1" in -c) exit 0 ;; esac
[ "$FAKE" = fails ] && { echo "Traceback" >&2; echo "ValueError: no such shape" >&2; exit 1; }
exec seq 20000
PROGRAM
chmod +x fake/python3
FAKE=fails PATH=$PWD/fake:$PATH expect 0 "left out: the program for PyTorch failed: ValueError: no such shape" \
    tilec bench product.tile --sweep M=N=K=8 --repeat=1 --against=torch
FAKE=times PATH=$PWD/fake:$PATH expect 0 "left out: its result has another size than the kernel's" \
    tilec bench product.tile --sweep M=N=K=8 --repeat=1 --against=torch
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
# an infinity is no tolerance; integers that a double does not hold differ; a reference whose integer scalar has a default
cat >exact.tile <<'T'
kernel same(in i64 X[N], out i64 Y[N]) grid (cdiv(N, 8)) { let i = program_id(); store(Y[i*8 +: 8], load(X[i*8 +: 8])); }
kernel next(in i64 X[N], out i64 Y[N], i64 by = 1) grid (cdiv(N, 8)) { let i = program_id(); store(Y[i*8 +: 8], load(X[i*8 +: 8]) + by); }
kernel one(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 8)) { let i = program_id(); store(Y[i*8 +: 8], load(X[i*8 +: 8])); }
kernel inverse(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 8)) { let i = program_id(); store(Y[i*8 +: 8], 1.0 / load(X[i*8 +: 8])); }
T
npy() { python3 - "$@" <<'T'
import struct, sys
path, code, kind, value = sys.argv[1:]
head = "{'descr': '%s', 'fortran_order': False, 'shape': (4,), }" % kind
head += ' ' * (117 - len(head)) + '\n'
values = [float(value) if code == 'f' else int(value)] * 4
open(path, 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + struct.pack('<4' + code, *values))
T
}
npy zero.npy f '<f4' 0; npy minus.npy f '<f4' -inf; npy two.npy f '<f4' 2; npy plus.npy f '<f4' inf; npy wide.npy q '<i8' $((1 << 53))
expect 1 "4 of 4 elements of Y differ from --expect" tilec bench exact.tile --kernel=one --in X=two.npy --repeat=1 --expect Y=plus.npy
expect 1 "4 of 4 elements of Y differ from --expect" tilec bench exact.tile --kernel=inverse --in X=zero.npy --repeat=1 --expect Y=minus.npy
expect 0 "correct" tilec bench exact.tile --kernel=inverse --in X=zero.npy --repeat=1 --expect Y=plus.npy
expect 1 "4 of 4 elements of Y differ from next" tilec bench exact.tile --kernel=same --in X=wide.npy --repeat=1 --expect=next
# a size that cannot be launched: the sizes before it are written; the median of two launches lies between them
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}allocator_may_return_null=1 \
    expect 1 "no memory for a tensor" tilec bench copy.tile --sweep N=8,900000000000000 --repeat=2 --csv=part.csv
python3 -c 'import csv
[row] = csv.DictReader(open("part.csv"))
low, middle, high = (float(row[k]) for k in ("least_ms", "median_ms", "most_ms"))
assert abs(2 * middle - low - high) < 1e-6 * high, row' || fail "part.csv: $(cat part.csv)"
tilec bench copy.tile --sweep N=8 --repeat=1 --output-dir slash/ >/dev/null && [ -s slash/k.csv ] || fail "--output-dir with a slash at its end"
# wrong input: one error, and nothing is written
one_error() { [ "$(grep -c 'error: ' <<<"$(cd "$work" && "$@" 2>&1)")" = 1 ] || fail "not one error: $*"; }
for sweep in N N= =4 N=4: N=4..2 N=1..8:0 N=0..8*2 N=1..8*1 N=a N=1,,2 N=1,2x 2N=4 N=N=4; do
    expect 2 "--sweep" tilec bench wrong.tile --ladder --sweep "$sweep" --output-dir none
    one_error tilec bench wrong.tile --ladder --sweep "$sweep"
done
absent none
expect 2 "--repeat wants a number from 1 to 10000" tilec bench wrong.tile --ladder --repeat=0
one_error tilec bench wrong.tile --ladder --repeat=0
expect 2 "--sweep gives more than 4096 sizes" tilec bench wrong.tile --ladder --sweep N=1..1000:1 --sweep BAD=1..100:1
expect 2 "N is given by --set and by --sweep" tilec bench wrong.tile --ladder --sweep N=4 --set N=4
expect 2 "is for one size" tilec bench wrong.tile --ladder --sweep N=4,5 --expect Y=y.npy
expect 2 "expected NAME=FILE.npy, interp, or a kernel of the file" tilec bench wrong.tile --ladder --expect=nobody
expect 2 "kernel twice has no ladder" tilec bench wrong.tile --ladder=twice
sed 's/step broken "no shape" (BAD = 2)/step broken "a pass" (skip exp3)/' wrong.tile >pass.tile
expect 1 "step \`broken\`: no pass is called \`exp3\`; did you mean \`exp2\`?" tilec bench pass.tile --ladder --output-dir none
expect 1 "step \`broken\`: no pass is called \`exp3\`" tilec pass.tile -o none.o -h none.h
sed 's/at (N = 100);/at (N = 100); at (N = 50);/' wrong.tile >twice.tile
expect 1 "\`at\` gives \`N\` twice" tilec bench twice.tile --ladder --repeat=1
expect 1 "no pass is named \`exp3\`" tilec bench wrong.tile --kernel=twice --in 'X=random:f32[8]:1' --skip-pass=exp3
expect 1 "cannot make the folder no/where" tilec bench wrong.tile --ladder --output-dir no/where
touch plain
expect 1 "is no folder" tilec bench wrong.tile --ladder --output-dir plain
# As root by another user, if that one reaches the command.
mkdir locked && chmod 555 locked
other=()
[ "$(id -u)" = 0 ] && other=(setpriv --reuid=65534 --regid=65534 --clear-groups) && chmod 711 .
if "${other[@]}" test -x "$tilec" && "${other[@]}" test -r wrong.tile; then
    expect 1 "cannot write to the folder locked" "${other[@]}" "$tilec" bench wrong.tile --ladder --output-dir locked
    [ -z "$(ls locked)" ] || fail "files in a folder that is not writable"
fi
expect 1 "cannot write /dev/full: No space left on device" tilec bench scale.tile --ladder --set M=4 --set N=64 --repeat=1 --json=/dev/full --csv=none.csv
absent none.csv
absent none
expect 2 "--graph needs an NVIDIA GPU" tilec bench scale.tile --ladder --graph
expect 0 "GB/s of arguments" tilec bench wrong.tile --kernel=twice --in 'X=random:f32[8]:1' --skip-pass=exp2 --repeat=1
finish
