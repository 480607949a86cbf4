#!/bin/bash
# long.sh: runs that take long or never end: Ctrl-C ends them at once and says what was done, a terminal shows how far they are, and a grid that no target runs is
# refused with its size. SCRIPT TILEC SOURCE_FOLDER COMPILER [FAKE_CUDA FAKE_HIP]: drivers in memory stand in for GPUs.
. "$(dirname "$0")/lib.sh"
cat >k.tile <<'T'
kernel many(inout f32 Y[1], i64 g) grid (g) { let i = program_id(); if i < 0 { store(Y[0], 1.0); } }
kernel square(inout f32 Y[1], i64 g) grid (g, g) { let (i, j) = program_id(); if i < j - i - 5 { store(Y[0], 1.0); } }
kernel forever(inout i32 Y[1]) grid (1) { var a = i32(1); print("hello"); while a != 0 { a = a | 3; } store(Y[0], a); }
kernel slow(inout i32 Y[1], i32 n) grid (1000000) { let _ = program_id();
    var a = i32(1);
    for k in 0 .. n { a = a * 3 + i32(k); if a == 77 { a = load(Y[0]); } }
    if a == 5 { store(Y[0], a); }
}
T

# interrupted SECONDS TEXT COMMAND...: Ctrl-C after so many seconds: the signal ends the command within five seconds, and
# TEXT is a pattern of what it says. On a busy machine the command may still be compiling then: it gets twice as long.
interrupted() {
    local seconds=$1 text=$2 last=$(($1 * 32)) begin code took
    shift 2
    for (( ; ; seconds *= 2)); do
        begin=$EPOCHREALTIME
        timeout --preserve-status -s INT "$seconds" "$@" >out.txt 2>err.txt </dev/null
        code=$?
        took=$(((${EPOCHREALTIME/[.,]/} - ${begin/[.,]/}) / 1000 - seconds * 1000))
        if [ "$code" = 130 ] && ((took < 5000)) && grep -qE "$text" err.txt; then return; fi
        ((seconds < last)) || break
    done
    [ "$code" = 130 ] || fail "status $code, not 130: $*"$'\n'"$(cat err.txt)"
    ((took < 5000)) || fail "it took $took ms to end: $*"
    fail "no \"$text\" from: $*"$'\n'"$(cat err.txt)"
}
run=("$tilec" run k.tile --out Y=y.npy)
for t in cpu "cpu --threads=1" interp; do
    # shellcheck disable=SC2086
    interrupted 1 '^tilec: interrupted after [0-9]+\.[0-9] s while (running|interpreting): [0-9]+ of 1000000 programs were done' "${run[@]}" --kernel=slow --target=$t --in Y=zeros:i32[1] --set n=5000000
    # shellcheck disable=SC2086
    interrupted 1 'while (running|interpreting): 0 of 1 programs were done' "${run[@]}" --kernel=forever --target=$t --in Y=zeros:i32[1]
    grep -q hello out.txt || fail "what was printed before is lost: $t"
    absent y.npy
done
grep -qE '0 of 1 programs were done, [0-9]{3,} steps; no output was written' err.txt || fail "the interpreter's steps: $(cat err.txt)"
# programs of some milliseconds: the count moves
"${run[@]}" --kernel=many --in Y=zeros:f32[1] --set g=10 || fail "a short run"       # the cache is warm: little of the time is compiling
interrupted 2 'while running: [1-9][0-9]* of 1000000 programs' "${run[@]}" --kernel=slow --in Y=zeros:i32[1] --set n=5000000
interrupted 1 'while timing: [1-9][0-9]* launches were done' "$tilec" bench k.tile --kernel=slow --in Y=zeros:i32[1] --set n=100 --repeat=10000
# who ignores the signal is not interrupted (timeout itself handles it, so that its child would not ignore it)
(timeout --preserve-status -s INT 1 bash -c 'trap "" INT; exec "$@"' bash "${run[@]}" --kernel=many --in Y=zeros:f32[1] --set g=300000000 2>err.txt) && [ ! -s err.txt ] || fail "an ignored signal: $(cat err.txt)"

# a terminal shows progress, and nothing is left of it; without one nothing is written
if command -v script >/dev/null; then
    for seconds in 3 6 12 24; do
        timeout --preserve-status -s INT $seconds script -qec "$tilec run k.tile --kernel=slow --in Y=zeros:i32[1] --set n=5000000" /dev/null >tty.txt 2>&1 </dev/null
        grep -qE 'running: [0-9]+ of 1000000 programs \([0-9]+%\), [0-9]+ s' tty.txt && break
    done
    grep -qE 'running: [0-9]+ of 1000000 programs \([0-9]+%\), [0-9]+ s' tty.txt || fail "no progress on a terminal: $(cat tty.txt)"
else echo "no script here: the terminal is not tested"; fi
timeout -s INT 2 "${run[@]}" --kernel=slow --in Y=zeros:i32[1] --set n=5000000 2>err.txt; [ "$(wc -l <err.txt)" = 1 ] || fail "progress without a terminal: $(cat err.txt)"

# grids: 2^31 programs are too many for every target, and no product of extents overflows unseen
too_large() {
    local target=$1; shift
    expect 1 "the grid of 2147483648 programs is too large" "$@" "$tilec" run k.tile --kernel=many --target="$target" --in Y=zeros:f32[1] --set g=2147483648
    expect 1 "the grid of 1099511627776 programs is too large" "$@" "$tilec" run k.tile --kernel=many --target="$target" --in Y=zeros:f32[1] --set g=1099511627776
    expect 1 "the grid of 65536 x 65536 (4294967296 programs) is too large" "$@" "$tilec" run k.tile --kernel=square --target="$target" --in Y=zeros:f32[1] --set g=65536
    expect 1 "the grid of 4294967296 x 4294967296 programs is too large" "$@" "$tilec" run k.tile --kernel=square --target="$target" --in Y=zeros:f32[1] --set g=4294967296
}
too_large cpu env
too_large interp env
if [ $# -ge 5 ]; then
    mkdir drivers; cp "$4" drivers/libcuda.so.1; cp "$4" drivers/libnvrtc.so.13; cp "$5" drivers/libamdhip64.so.6; cp "$5" drivers/libhiprtc.so.6
    export LD_LIBRARY_PATH=$work/drivers
    too_large cuda env
    interrupted 1 'while waiting for the device; no output' env FAKE_HANG=1 "${run[@]}" --kernel=many --target=cuda --in Y=zeros:f32[1] --set g=1000
    if "$tilec" run k.tile --kernel=many --target=hip --in Y=zeros:f32[1] --set g=10 2>hip.txt; then
        too_large hip env
        expect 1 "the grid of 2000000000 programs is too large for hip:gfx942: with" "$tilec" run k.tile --kernel=many --target=hip --in Y=zeros:f32[1] --set g=2000000000
        interrupted 1 'while waiting for the device; no output' env FAKE_HANG=1 "${run[@]}" --kernel=many --target=hip --in Y=zeros:f32[1] --set g=1000
    else echo "no HIP here: $(cat hip.txt)"; fi
fi
finish
