#!/bin/bash
# sim_loop.sh: `tilec sim` as a loop over formulas: which are refused and why, what a history says, what sectors and banks make of the four transposes,
# and the wrong formulas, devices and files that each give one error.
. "$(dirname "$0")/lib.sh"
# Hundreds of short processes: what leaks, tools.sim finds under sanitizers.
export ASAN_OPTIONS=detect_leaks=0
sim() { "$tilec" sim "$@"; }
conv=("$root/tests/sim/conv2d_tiles.tile" --set B=32 --set C=32 --set H=32 --set W=32 --set F=64 --set R=3 --set S=3 --set P=30 --set Q=30 --device=mi300x)
rate() { awk -v want="$1" 'index($0, want) == 1 { $0 = substr($0, length(want) + 1); gsub(/[][%]/, ""); print int(10 * $2 + .5); exit }' "$2"; }
within() { ((${2:-0} >= $3 && $2 <= $4)) || fail "$1: ${2:-no rate} per mille, expected $3 to $4"; }

# six published swizzles of this kernel, two formulas: IntelliPerf's conv2d_log.txt, iterations 1 and 2 to 6. Measured: 88.9 without, 91.6 and 88.7 to 89.0 with
one='w/8%8*(n/8) + w%8' two='w/(n/8)%8*(n/8) + w%(n/8)/8'
sim "${conv[@]}" --remap=none,"$one","$two","$two","$two","$two","$two" --remap='w%8*(n/8) + w/8' --remap=xcd --json=conv.json >conv.txt
(($? == 1)) || fail "refused formulas: exit status 1"
grep -q "32 programs (32 x 1 x 1)" conv.txt || fail "32 programs"
grep -qF "refused: programs 4 and 8 both become 4; 20 of 32 tiles run (62.5%)" conv.txt || fail "the first formula"
(($(grep -cF "refused: programs 0 and 1 both become 0; 8 of 32 tiles run (25.0%)" conv.txt) == 5)) || fail "the second formula, five times"
within "the model of 88.9%" $(rate none conv.txt) 894 894
within "the rate that dropped tiles gain" $(rate "$one" conv.txt) 903 911
within "that of the second formula" $(rate "$two" conv.txt) 888 896
grep -qF "[90.7%" conv.txt || fail "the rate of a refused formula stands in brackets"
grep -q '"refused": {"why": "programs 4 and 8 both become 4", "programs": \[4, 8\], "become": 4, "tiles_run": 20, "tiles": 32}' conv.json || fail "refused in JSON"
cat >golden.txt <<'T'
remap                        L1 hit           L2 hit   last-level hit  from memory    to memory       ms, best to worst       x none        L2, ms to none  at best by
none                           0.0%   89.4% +- 0.00%   76.4% +- 0.00%      2.13 MB      3.69 MB      0.0049 ..   0.0059 1.00 .. 1.00    +0.0 pp   +0.0000 ms  L2
w/8%8*(n/8) + w%8            [0.0%] [90.7% +- 0.00%] [69.4% +- 0.00%]   refused: programs 4 and 8 both become 4; 20 of 32 tiles run (62.5%)
w/(n/8)%8*(n/8) + w%(n/8)/8  [0.0%] [89.2% +- 0.00%] [87.3% +- 0.00%]   refused: programs 0 and 1 both become 0; 8 of 32 tiles run (25.0%)
T
same golden.txt <(sed -n 4,7p conv.txt)
cmp <(grep '^xcd' conv.txt | cut -c29-) <(grep -F 'w%8*(n/8) + w/8' conv.txt | cut -c29-) || fail "the formula of xcd is xcd"

# the history: one that goes on gives the same rows as one that is written at once, and what else is in the file stays
sim "${conv[@]}" --remap="none,$one,xcd,n-1-w" --history=whole.md >/dev/null
sim "${conv[@]}" --remap="none" --history=parts.md >/dev/null
sim "${conv[@]}" --remap="$one" --history=parts.md >/dev/null
sim "${conv[@]}" --remap="xcd,n-1-w" --history=parts.md >/dev/null || fail "a formula that permutes"
same whole.md parts.md
cat >golden.md <<'T'
## `conv2d_tiles<B=32, C=32, H=32, W=32, F=64, R=3, S=3, P=30, Q=30>` on mi300x

| iteration | remap | L2 hit | to the first | to the best so far | time | to the first | to the best so far | |
|---|---|---|---|---|---|---|---|---|
| 1 | `none` | 89.43% | - | - | 0.005851 ms | - | - | |
| 2 | `w/8%8*(n/8) + w%8` | (90.71%) | (+1.28 points) | (+1.28 points) | (0.005851 ms) | (+0.000000 ms) | (+0.000000 ms) | refused: programs 4 and 8 both become 4; 20 of 32 tiles run |
| 3 | `xcd` | 92.53% | +3.10 points | +3.10 points | 0.005652 ms | -0.000199 ms | -0.000199 ms | |
T
same golden.md <(head -7 whole.md)
{ echo "# Mine"; cat whole.md; echo; echo "A remark."; } >mine.md
sim "${conv[@]}" --remap='w|0' --history=mine.md >/dev/null
grep -qF '| 5 | `w\|0` | 89.43% | +0.00 points | -3.10 points |' mine.md || fail "a bar in a formula"
sim "${conv[@]}" --remap=none --per-unit=2 --history=mine.md >/dev/null
(($(grep -c '^## ' mine.md) == 2)) && grep -q '^# Mine' mine.md && grep -q '^A remark' mine.md || fail "other launches have their own section"
(($(grep -n 'A remark' mine.md | cut -d: -f1) > $(grep -n '^| 5' mine.md | cut -d: -f1))) || fail "rows go behind rows"
sed 's/^| 2 .*/| 2 | nonsense |/' whole.md >broken.md; cp broken.md before.md
expect 1 "broken.md:6: no row of a history of placements" sim "${conv[@]}" --remap=none --history=broken.md
same broken.md before.md
expect 1 "cannot write nowhere/h.md" sim "${conv[@]}" --remap=none --history=nowhere/h.md
expect 1 "cannot write /dev/full: No space left" sim "${conv[@]}" --remap=none --history=/dev/full
# runs at the same time lose no rows
for run in 1 2 3 4 5 6 7 8; do sim "${conv[@]}" --remap=none --history=eight.md >/dev/null & done; wait
expect 0 "| 8 |" grep '^| 8 |' eight.md
printf 'a\0b' >zero.md; expect 1 "zero.md: no history of placements" sim "${conv[@]}" --remap=none --history=zero.md
expect 1 "--history wants a file" sim "${conv[@]}" --remap=none --history=-
if mkdir sealed && chmod 500 sealed && ! touch sealed/x 2>/dev/null; then expect 1 "cannot write sealed/h.md" sim "${conv[@]}" --remap=none --history=sealed/h.md; fi

# wrong formulas: one error each, and no output
cat >k.tile <<'T'
kernel k(in f32 X[N, D], out f32 Y[N, D], const int C = 2) grid (N, D) { let (i, j) = program_id(); store(Y[i, j], load(X[i, j])); }
kernel own(in f32 X[N, D], out f32 Y[N, D]) grid (N, D) remap (v) = num_programs() - 1 - v { let (i, j) = program_id(); store(Y[i, j], load(X[i, j])); }
T
k=(k.tile --kernel=k --set N=8 --set D=4)
wrong() {       # wrong TEXT FORMULA
    expect 1 "$1" sim "${k[@]}" --remap="none,$2" --json=wrong.json --history=wrong.md
    (($(sim "${k[@]}" --remap="$2" 2>&1 | grep -c 'error:') == 1)) || fail "not one error: $2"
    absent wrong.json; absent wrong.md
}
wrong "the formula divides by zero for program 0" 'w/(n-32)'
wrong "the formula divides by zero for program 3" 'w/(3-w)'
wrong "unknown name \`q\`" 'w + q'
wrong "unknown function \`swizzle\`" 'swizzle(w)'
wrong "unexpected end of file" 'w*'
wrong "unexpected \`)\`" 'w)'
wrong "cannot become \`index\`" 'w*1.5'
wrong "takes a window" 'load(X)'
wrong "expected none, xcd, chunk, chunk:N, head, head:N or auto" spiral
expect 1 "a grid of 33554432 programs is too large to check a formula (at most 16777216)" sim k.tile --kernel=k --set N=8388608 --set D=4 --remap='n-1-w'
expect 0 "n0 == 8" sim "${k[@]}" --remap='n0 == 8 && n1 == 4 && n2 == 1 && n == 32 ? n-1-w : 0,n2 == 0 ? w/(n2-1) : w'
expect 1 "refused: program 0 becomes -1, which there is not; 31 of 32 tiles run (96.9%)" sim "${k[@]}" --remap='w-1'
expect 1 "refused: programs 0 and 1 both become 2; 1 of 32 tiles run (3.1%)" sim "${k[@]}" --remap='(C)'
# a kernel's own remap comes behind the formula: reversed twice is the order of ids
sim k.tile --kernel=own --set N=8 --set D=4 --remap='n-1-w' >twice.txt || fail "own remap"
sim "${k[@]}" --remap=w >once.txt
cmp <(sed -n 's/^n-1-w *//p' twice.txt) <(sed -n 's/^w *//p' once.txt) || fail "a formula and the kernel's own remap"

# sectors and banks: the four steps of the transpose, four times, in the order of the ladder on a card of one L2
transpose=("$root/examples/ladders/transpose.tile" --set M=2048 --set N=2048 --remap=none)
time_of() { sim "${transpose[@]}" "$@" >t.txt || fail "transpose $*"; awk '$1 == "none" { for (k = 1; k < NF; k++) if ($k == "..") { print int($(k + 1) * 10000 + .5); exit } }' t.txt; }
for device in h100 mi300x; do
    rows=$(time_of --set TM=1 --set TN=1024 --device=$device)
    grep -q "ask for 33.55 MB and move" t.txt || fail "transpose: bytes asked for"
    columns=$(time_of --set TM=1024 --set TN=1 --device=$device)
    shared=$(time_of --skip-pass=swizzle --device=$device)
    grep -q "of shared memory they ask for 33.55 MB, and its banks are busy for 285 MB" t.txt || fail "the banks of the tile that is not swizzled: $(tail -1 t.txt)"
    free=$(time_of --device=$device)
    grep -q "of shared memory they ask for 33.55 MB, and its banks are busy for 33.55 MB" t.txt || fail "the banks of the swizzled tile: $(tail -1 t.txt)"
    echo "transpose on $device, 0.1 us: $rows $columns $shared $free"
    (($(printf '%s\n' $rows $columns $shared $free | sort -u | wc -l) == 4)) || fail "$device: four steps, four times"
    ((free < shared && free < columns && free < rows)) || fail "$device: without conflicts is the fastest"
    [ $device != h100 ] || ((shared < columns && shared < rows)) || fail "$device: through shared memory"
done

# devices: what the table has, and files of nonsense
for d in mi300x:8:38 mi325x:8:38 mi355x:8:32 h100:1:132 h200:1:132 b200:1:148 gb10:1:48 rtx_pro_6000:1:188; do
    IFS=: read -r name chiplets units <<<"$d"
    sim "${k[@]}" --remap=none --device=$name | grep -q "on $name: $chiplets chiplets\? of $units compute units" || fail "$name"
done
for text in "" "= 4" "chiplets" "chiplets = four" "chiplets = 1e99" "units = -1" "like = nothing" "line = 100"$'\n'"like = h100" "like = h100"$'\n'"line = 100" "wheels = 4" "name =" $'\x01\x02'; do
    printf '%s' "$text" >wrong.device
    (($(sim "${k[@]}" --remap=none --device=./wrong.device 2>&1 | grep -c 'error:') == 1)) || fail "not one error: a device of \"$text\""
done
finish
