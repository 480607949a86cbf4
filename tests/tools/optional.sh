#!/bin/bash
# optional.sh: optional tensors from the command line: run, tune, explain, compilation of every choice, an object and a bundle
# (argument 4: a driver in memory). Results are compared with a plain loop.
. "$(dirname "$0")/lib.sh"
cat >k.tile <<'T'
kernel rows(in f32 X[M, N], in f32 BIAS[N]?, inout f32 TOTAL[M]?, out f32 Y[M, N], out f32 SUM[M, cdiv(N, T)]?, const int T = 64)
    grid (M, cdiv(N, T))
{
    let (i, j) = program_id();
    var y = load(X[i, j*T +: T]);
    const if has(BIAS) { y += load(BIAS[j*T +: T]); }
    store(Y[i, j*T +: T], y);
    let s = sum(where(j*T + arange(T) < N, y, 0.0), drop = true);
    const if has(SUM) { store(SUM[i, j], s); }
    const if has(TOTAL) { atomic_add(TOTAL[i], s); }
}
tune rows { T in {32, 64, 128}; require (has(BIAS) || T == 32); key (N); }
T
run() { "$tilec" run k.tile "$@"; }
x='X=ones:f32[3, 100]'
first() { tail -c +129 "$1" | od -An -tf4 -N4 | tr -d ' '; }
for t in cpu interp; do
    expect 0 "" run --target=$t --in "$x" --out Y=y.npy;                                   [ "$(first y.npy)" = 1 ] || fail "$t: without: $(first y.npy)"
    expect 0 "" run --target=$t --in "$x" --in BIAS=ones --out Y=y.npy --out SUM=s.npy;    [ "$(first y.npy) $(first s.npy)" = "2 128" ] || fail "$t: with: $(first s.npy)"
    head -c 120 s.npy | grep -aq "'shape': (3,2)" || fail "$t: the shape of SUM"
    expect 0 "" run --target=$t --in "$x" --in TOTAL=ones --out TOTAL=t.npy --out Y=y.npy; [ "$(first t.npy)" = 101 ] || fail "$t: inout: $(first t.npy)"
    expect 0 "" run --target=$t --in "$x" --in TOTAL=ones --set BIAS=false --out TOTAL=t.npy; [ "$(first t.npy)" = 101 ] || fail "$t: --set: $(first t.npy)"
done
expect 2 "--set BIAS=false leaves BIAS out, but --in names it" run --in "$x" --in BIAS=ones --set BIAS=false
expect 2 "the tensor BIAS is missing: --in BIAS=FILE.npy" run --in "$x" --set BIAS=true
expect 1 "\`BIAS\` must be true or false, not \`2\`" run --in "$x" --set BIAS=2
expect 2 "the tensor X is missing" run --in BIAS=ones
expect 2 "the tensor TOTAL is missing: --in TOTAL=FILE.npy" run --in "$x" --out TOTAL=t.npy
expect 0 "BIAS=false, TOTAL=false, SUM=true" "$tilec" bench k.tile --in "$x" --out SUM=s.npy --repeat=1 --no-cache

# a table's entry is for one choice; the condition of the tune block sees it
"$tilec" tune k.tile --in "$x" --repeat=2 --no-cache -o k.tune >out 2>&1 || fail "tune: $(cat out)"
grep -q "T=128" out && fail "\`require\` does not see that BIAS is left out: $(cat out)"
grep -qF '"BIAS": false, "TOTAL": false, "SUM": false' k.tune || fail "table: $(cat k.tune)"
"$tilec" tune k.tile --in "$x" --in BIAS=ones --repeat=2 --no-cache -o k.tune >out 2>&1 || fail "tune: $(cat out)"
grep -q "T=128" out || fail "tune with BIAS: $(cat out)"
[ "$(grep -c '"kernel": "rows"' k.tune)" = 2 ] || fail "two entries: $(cat k.tune)"
entry() { printf '{ "kernel": "rows", "target": "cpu", "key": { "N": 100, "BIAS": %s }, "config": { "T": %s } }' "$1" "$2"; }
printf '{ "format": "tile-tune-1", "entries": [ %s, %s ] }' "$(entry true 128)" "$(entry false 32)" >t.tune
expect 0 "3 programs" "$tilec" bench k.tile --in "$x" --in BIAS=ones --repeat=1 --no-cache --table=t.tune
expect 0 "12 programs" "$tilec" bench k.tile --in "$x" --repeat=1 --no-cache --table=t.tune
"$tilec" k.tile --emit=ir --table=t.tune -D TOTAL=false -D SUM=false >ir || fail "compile with a table"
[ "$(grep -o 'BIAS=[a-z]*, .* T=[0-9]*' ir | sed 's/ .* / /' | tr '\n' ' ')" = "BIAS=true, T=128 BIAS=false, T=32 " ] || fail "the table's configurations: $(grep spec ir)"

# every choice is compiled, or those that are asked for
rm -f k.tune
count() { "$tilec" "$@" --emit=ir | grep -c '^kernel @rows'; }
[ "$(count k.tile)" = 8 ] || fail "choices: $(count k.tile)"
[ "$(count k.tile -D BIAS=false)" = 4 ] || fail "choices with -D"
[ "$(count k.tile -D BIAS=true,false -D SUM=false -D TOTAL=false)" = 2 ] || fail "choices by -D"
{ cat k.tile; echo 'instantiate rows(BIAS = true, SUM in {true, false}, TOTAL = false);'; } >i.tile
[ "$(count i.tile)" = 2 ] || fail "choices of instantiate"
expect 1 "-D BIAS=3: \`BIAS\` must be true or false, not \`3\`" "$tilec" k.tile --emit=ir -D BIAS=3
expect 0 "rows<BIAS=false, TOTAL=false, SUM=false> for cpu" "$tilec" explain k.tile -D BIAS=false -D TOTAL=false -D SUM=false
for t in cuda:sm_90a hip:gfx942; do
    expect 0 "" "$tilec" k.tile --target=$t -o k.cu
    [ "$(grep -c '^// rows<BIAS=' k.cu)" = 8 ] || fail "$t: $(grep '^// rows' k.cu)"
done

cat >main.c <<'C'
#include HEADER
#include <stdio.h>
static float x[3 * 100], bias[100], total[3], y[3 * 100], sum[3 * 2];
static int launch(int choice)
{
    const int64_t n[] = { 3, 100 }, two[] = { 3, 2 };
    const tile_view none = { 0 };
    for (int i = 0; i < 300; i++) x[i] = (float)(i % 5), y[i] = -1;
    for (int i = 0; i < 100; i++) bias[i] = (float)i;
    for (int i = 0; i < 3; i++) total[i] = 1;
    for (int i = 0; i < 6; i++) sum[i] = -1;
    tile_view b = { bias, n + 1, NULL }, t = { total, n, NULL }, s = { sum, two, NULL };
    int status = rows((tile_view){ x, n, NULL }, choice & 1 ? b : none, choice & 2 ? t : none, (tile_view){ y, n, NULL },
                      choice & 4 ? s : none, WHERE);
    if (status) printf("%s\n", WHY);
    if (status || !RUNS) return status;
    int wrong = 0;
    for (int i = 0; i < 3; i++) {
        float part[2] = { 0, 0 };
        for (int j = 0; j < 100; j++) {
            float want = (float)((i * 100 + j) % 5) + (choice & 1 ? (float)j : 0);
            wrong += y[i * 100 + j] != want;
            part[j / 64] += want;
        }
        wrong += total[i] != (choice & 2 ? 1 + part[0] + part[1] : 1);
        for (int k = 0; k < 2; k++) wrong += sum[i * 2 + k] != (choice & 4 ? part[k] : -1);
    }
    return wrong ? 100 + wrong : 0;
}
int main(void)
{
    for (int choice = 0; choice < 8; choice++) printf("%d ", launch(choice));
    puts("");
    return 0;
}
C
build() { "$cc" -std=c11 -Wall -Wextra -Werror -I. "$@"; }
cpu=(-DWHERE=NULL '-DWHY=""' -DRUNS=1)
expect 0 "" "$tilec" k.tile -o k.o -h k.h
grep -qF "in f32 BIAS[N]?, inout f32 TOTAL[M]?" k.h && grep -qF "marked \`?\` is left out by a view whose data is NULL" k.h || fail "the header: $(grep 'rows(in' k.h)"
expect 0 "" build -DHEADER='"k.h"' "${cpu[@]}" main.c k.o -o object
[ "$(./object)" = "0 0 0 0 0 0 0 0 " ] || fail "the object's launcher: $(./object)"
expect 0 "" "$tilec" i.tile -o i.o -h i.h               # what was not compiled is refused: no variant
expect 0 "" build -DHEADER='"i.h"' "${cpu[@]}" main.c i.o -o some
[ "$(./some | grep -o '[0-9]*' | tr '\n' ' ')" = "5 0 5 5 5 0 5 5 " ] || fail "the choices of instantiate: $(./some)"
if [ -n "${4-}" ]; then         # a driver in memory, whose compiler stands in for NVRTC
    mkdir drivers && cp "$4" drivers/libcuda.so.1
    expect 0 "" env TILE_NVRTC="$4" "$tilec" k.tile --bundle --target=cuda:sm_80,cpu -o b.c -h b.h
    gpu=(-DWHERE='&(tile_queue){ .kind = TILE_ON_CUDA }' '-DWHY=b_error()' -DRUNS=0)
    expect 0 "" build -DHEADER='"b.h"' "${gpu[@]}" main.c b.c b.cpu.o -o bundle -ldl -lpthread
    [ "$(LD_LIBRARY_PATH=$work/drivers ./bundle)" = "0 0 0 0 0 0 0 0 " ] || fail "the bundle's launcher: $(LD_LIBRARY_PATH=$work/drivers ./bundle)"
    expect 0 "" build -DHEADER='"b.h"' -DWHERE=NULL '-DWHY=b_error()' -DRUNS=1 main.c b.c b.cpu.o -o bundle_cpu -ldl -lpthread
    [ "$(./bundle_cpu)" = "0 0 0 0 0 0 0 0 " ] || fail "the bundle on the CPU: $(./bundle_cpu)"
    grep -qF '"name": "BIAS", "kind": "in", "type": "f32", "shape": ["N"], "optional": true' b.json || fail "the manifest: $(head -20 b.json)"
    grep -qF '"BIAS": false' b.json || fail "the manifest's bindings"
fi
finish
