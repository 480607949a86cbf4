#!/bin/bash
# tune.sh: `tilec tune`: options, the list, the table and what reads it: run, and compilation ahead of time.
. "$(dirname "$0")/lib.sh"
cat >k.tile <<'T'
kernel add(in T X[N], in T Y[N], out T Z[N], const type T = f32, const int BLOCK = 64, const bool BAD = false) grid (cdiv(N, BLOCK)) {
    let i = program_id();
    let x = load(X[i*BLOCK +: BLOCK]);
    store(Z[i*BLOCK +: BLOCK], x + load(Y[i*BLOCK +: BLOCK]) + (BAD ? T(1.0) : T(0.0)));
}
tune add { BLOCK in {32, 64, 128, 4000000}; BAD in {false, true}; require (!BAD || BLOCK == 32); key (N); }
kernel none(in f32 X[N], out f32 Y[N]) grid (N) { let i = program_id(); store(Y[i +: 1], load(X[i +: 1])); }
T
in=(--in X=random:f32[5000]:1 --in Y=random:f32[5000]:2)
expect 2 "no .tile file given" "$tilec" tune
expect 2 "which kernel? --kernel=NAME" "$tilec" tune k.tile
expect 2 "--budget wants a number above 0, not \`soon\`" "$tilec" tune k.tile --kernel=add "${in[@]}" --budget=soon
expect 2 "\`tilec tune\` takes no option \`--check\`" "$tilec" tune k.tile --check
expect 1 "kernel none has no \`tune\` block" "$tilec" tune k.tile --kernel=none --in X=random:f32[8]:1
expect 0 "usage: tilec tune FILE.tile" "$tilec" tune --help

"$tilec" tune k.tile --kernel=add "${in[@]}" --repeat=3 --jobs=2 --no-cache --json=list.json >out 2>progress || fail "tune: $(cat out progress)"
for text in "add on" "GB/s  BLOCK=" "(declared)" "wrong  BLOCK=32, BAD=true: Z differs in" "failed  BLOCK=4000000, BAD=false: " "5 configurations: 3 timed, 1 failed, 1 wrong" "written to k.tune"; do
    grep -qF -- "$text" out || fail "no '$text' in: $(cat out)"
done
grep -q "compiling .*/5: BLOCK=" progress || fail "progress: $(cat progress)"
[ "$(grep -c '"state": "timed"' list.json)" = 3 ] || fail "json: $(cat list.json)"
grep -qF '"kernel": "add", "target": "cpu"' k.tune && grep -qF '"key": { "N": 5000, "T": "f32" }' k.tune || fail "table: $(cat k.tune)"

# A block of more combinations than are looked at, and names that are bound.
cat >many.tile <<'T'
kernel many(in f32 X[N], out f32 Y[N], const int B = 64, const int C = 1, const int D = 1) grid (cdiv(N, B)) {
    let i = program_id();
    store(Y[i*B +: B], load(X[i*B +: B]));
}
T
numbers() { seq -s ', ' "$1" "$2"; }
echo "tune many { B in {32, 64}; C in {$(numbers 1 500)}; D in {$(numbers 1 500)}; require (C + D < 900); key (N); }" >>many.tile
"$tilec" tune many.tile --in X=random:f32[64]:1 --budget=0.2 --no-cache -o m.tune >out 2>&1 || fail "many: $(tail -3 out)"
grep -qF "16385 configurations: " out || fail "many: $(tail -3 out)"
"$tilec" tune many.tile --in X=random:f32[64]:1 --set C=1 --set D=2 --repeat=1 --no-cache -o m.tune >out 2>&1 || fail "bound: $(tail -3 out)"
grep -qF "2 configurations: 2 timed" out || fail "bound: $(tail -3 out)"

# Several sizes in one call; whole configurations; hints have no meaning on a CPU; a sample; an interruption.
cat >copy.tile <<'T'
kernel copy(in f32 X[N], out f32 Y[N], const int B = 16, const int S = 1) grid (cdiv(N, B)) { let i = program_id(); store(Y[i*B +: B], load(X[i*B +: B])); }
tune copy { config (B = 32, S = 2); config (B = 64, S = 3); warps in {2, 4, 8}; key (N); }
T
"$tilec" tune copy.tile --sweep N=100..300:100 --repeat=1 --no-cache -o c.tune >out 2>&1 || fail "sweep: $(cat out)"
for n in 100 200 300; do grep -qF "\"key\": { \"N\": $n }" c.tune || fail "no entry for $n: $(cat c.tune)"; done
[ "$(grep -c "3 configurations: " out)" = 3 ] || fail "configurations: $(cat out)"
grep -q warps out && fail "a hint is tuned on a CPU: $(cat out)"
expect 2 "--json has the results of one size" "$tilec" tune copy.tile --sweep N=1,2 --json=c.json
expect 2 "--sweep \`N=2..1\` is not understood" "$tilec" tune copy.tile --sweep N=2..1
expect 0 "at most 16384 are looked at; bind C (500 values) by --set C=.., or choose how many by --sample=N" "$tilec" tune many.tile --in X=random:f32[64]:1 --budget=0.01 --no-cache -o m.tune
"$tilec" tune many.tile --in X=random:f32[64]:1 --sample=3 --repeat=1 --no-cache -o m.tune >out 2>&1 || fail "sample: $(cat out)"
grep -qF "4 configurations: " out && ! grep -q "warning" out || fail "sample: $(cat out)"
python3 - "$tilec" >out 2>&1 <<'P' || fail "interrupted: $(tail -3 out)"
import signal, subprocess, sys
run = subprocess.Popen([sys.argv[1], "tune", "many.tile", "--in", "X=random:f32[64]:1", "--budget=100", "--no-cache", "-o", "i.tune"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
for line in run.stderr:         # a line that says how long it still takes
    print(line, end="")
    if "compiling " in line and "/16385: " in line and " s left)" in line: break
run.send_signal(signal.SIGINT)
rest = run.stderr.read()
print(rest)
sys.exit(run.wait() or "interrupted: the results known so far were written" not in rest)
P
grep -q '"kernel": "many"' i.tune || fail "interrupted: $(tail -3 out)"

# the placement of programs: chosen by name, in tables as text, and without meaning on a CPU
cat >place.tile <<'T'
kernel place(in f32 X[M, N], out f32 Y[M, N], const int TM = 4) grid (cdiv(M, TM), cdiv(N, 64)) {
    let (i, j) = program_id();
    store(Y[i*TM +: TM, j*64 +: 64], load(X[i*TM +: TM, j*64 +: 64]));
}
tune place { TM in {4, 8}; remap in {none, xcd, "head+raster:2"}; key (M, N); require (TM < 8); }
T
"$tilec" tune place.tile --in X=random:f32[64,64]:1 --repeat=1 --no-cache -o p.tune >out 2>&1 || fail "remap: $(cat out)"
grep -qF "1 configuration" out && ! grep -q remap out || fail "a placement is tuned on a CPU: $(cat out)"
printf '{ "format": "tile-tune-1", "entries": [ { "kernel": "place", "target": "hip:gfx942", "key": { "M": 64, "N": 64 }, "config": { "TM": 4, "remap": "xcd" } } ] }' >p.tune
"$tilec" place.tile --target=hip:gfx942 --table=p.tune -D M=64 -D N=64 -o placed.cpp || fail "a table with remap"
"$tilec" place.tile --target=hip:gfx942 --remap=xcd -D TM=4 -D M=64 -D N=64 -o asked.cpp || fail "--remap"
cmp -s <(sed 1d placed.cpp) <(sed 1d asked.cpp) || fail "remap of a table is not --remap: $(diff placed.cpp asked.cpp | head)"
sed 's/xcd/elsewhere/' place.tile >bad.tile
expect 1 "bad.tile:5:44: error: expected a placement of programs: auto, xcd, chunk, head, none" "$tilec" bad.tile --target=hip:gfx942 -o no.cpp
expect 1 "expected none, xcd, chunk, chunk:N" "$tilec" place.tile --target=hip:gfx942 -D remap=elsewhere -o no.cpp

# another shape beside it; then what run, bench and compile make of a table
"$tilec" tune k.tile --kernel=add --in 'X=random:f16[70000]:1' --in Y=random:2 --set T=f16 --repeat=3 --no-cache -o k.tune >/dev/null 2>&1 || fail "second shape"
[ "$(grep -c '"kernel": "add"' k.tune)" = 2 ] || fail "two entries: $(cat k.tune)"
printf '{ "format": "tile-tune-1", "entries": [ { "kernel": "add", "target": "cpu", "key": { "N": 5000, "T": "f32" }, "config": { "BLOCK": 128 } } ] }' >other.tune
expect 0 "BLOCK=128" "$tilec" bench k.tile --kernel=add "${in[@]}" --repeat=1 --no-cache --table=other.tune
expect 0 "40 programs" "$tilec" bench k.tile --kernel=add "${in[@]}" --repeat=1 --no-cache --table other.tune
expect 0 "79 programs" "$tilec" bench k.tile --kernel=add "${in[@]}" --repeat=1 --no-cache --table=other.tune --set BLOCK=64
expect 1 "cannot read nothing.tune" "$tilec" run k.tile --kernel=add "${in[@]}" --table=nothing.tune
"$tilec" k.tile --kernel=add --emit=ir --table=other.tune >ir || fail "compile with a table"
grep -q "BLOCK=128" ir || fail "the table's block is not in: $(head -5 ir)"
"$tilec" k.tile --kernel=add --emit=ir --table=other.tune -D BLOCK=32 | grep -q "BLOCK=32" || fail "-D goes before a table"
"$tilec" k.tile --kernel=add --emit=ir --table=other.tune -D T=f16 | grep -q "BLOCK=128" && fail "an entry for another type was taken"
"$tilec" k.tile --kernel=add --table=other.tune -o k.o -h k.h || fail "object with a table"
grep -q "BLOCK" k.h && fail "the launcher asks for what the table says: $(grep BLOCK k.h)"
finish
