#!/bin/bash
# gdb.sh: what a debugger shows of a frame of a kernel: arguments, extents, consts, program ids, counters, scalars and tiles. In code
# made at run time and in an object; without optimization every tile with a name, with optimization every scalar.
. "$(dirname "$0")/lib.sh"
gdb -batch -nx -ex run --args true 2>&1 | grep -q 'exited normally' || { echo "SKIP: no gdb here that may trace"; exit 77; }
export ASAN_OPTIONS=detect_leaks=0
cat >frame.tile <<'T'
kernel frame(in f32 X[M, N], out f32 Y[M, N], f32 alpha, const int B = 4, const bool TWICE = true)
        grid (cdiv(M, 2), 1) {
    let i = program_id(0);
    var total = 0.0;
    for k in 0..cdiv(N, B) {
        let x = load(X[i * 2 +: 2, k * B +: B]);
        let rows = sum(x, axis = 1);
        let w = sum(sum(x, axis = 1, drop = true), axis = 0, drop = true);
        let half = f16(w);
        let wide = bf16(x);
        total += w * f32(k);
        let y = x * alpha + rows;
        store(Y[i * 2 +: 2, k * B +: B], y + f32(wide) + f32(half));
    }
    print("total", total);
}
T
# shown FILE:LINE PROGRAM ARGUMENT...: what gdb shows at the second stop on that line
shown() {
    local at=$1
    shift
    gdb -batch -nx -ex 'set breakpoint pending on' -ex 'set debuginfod enabled off' -ex 'set width 0' -ex "break $at" -ex run \
        -ex continue -ex frame -ex 'info args' -ex 'info locals' -ex 'ptype y' -ex 'whatis wide' -ex 'ptype X' --args "$@" >shown 2>&1
}
# has LINE...: what was shown has these lines
has() { for line; do grep -qxF -- "$line" shown || { fail "gdb does not show: $line"; cat shown; return; }; done; }
cat >numbers.c <<'T'
#include <stdio.h>
int main(void)      /* x.npy: f32[4, 8], the numbers 0 to 31 */
{
    FILE *f = fopen("x.npy", "wb");
    float x[32];
    for (int k = 0; k < 32; k++) x[k] = (float)k;
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, f);
    fprintf(f, "%-117s\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 8), }");
    fwrite(x, sizeof x, 1, f);
    return fclose(f);
}
T
expect 0 "" "$cc" numbers.c -o numbers
expect 0 "" ./numbers
# second stop: program 0, k = 1, x = {4 5 6 7} {12 13 14 15}
scalars=('i = 0' 'k = 1' 'w = 76' 'half = 76' 'total = 76' 'M = 4' 'N = 8' 'B = 4' 'TWICE = true' 'program_id = {0, 0}' 'alpha = 2')
types=('type = f32 [2][4]' 'type = bf16 [2][4]' '    f32 *data;' '    index extent[2];' '    index stride[2];')
run=("$tilec" run frame.tile --in X=x.npy --set alpha=2 --threads=1 --no-cache -g)
shown frame.tile:13 "${run[@]}" -O0
has "${scalars[@]}" "${types[@]}" 'rows = {{22}, {54}}' 'y = {{30, 32, 34, 36}, {78, 80, 82, 84}}' \
    'wide = {{4, 5, 6, 7}, {12, 13, 14, 15}}'
grep -q '^#0  frame (X=..., Y=..., alpha=2) at frame.tile:13$' shown || fail "the frame: $(grep '^#0' shown)"
grep -Eq '^X = \{data = 0x[0-9a-f]+, extent = \{4, 8\}, stride = \{8, 1\}\}$' shown || fail "X: $(grep '^X = ' shown)"
# Optimized code mixes lines: within the loop a scalar may still have the value of the iteration before. What the loop carries is there behind
# it; its other names have gone. Second stop there: program 1, whose last x is {20 21 22 23} {28 29 30 31}
shown frame.tile:13 "${run[@]}" -O2
has 'i = 0' 'program_id = {0, 0}' "${scalars[@]:5:4}" "${types[@]}"
for line in '^k = [01]$' '^w = (76|44)$' '^half = (76|44)$'; do grep -Eq "$line" shown || fail "-O2: no $line"; done
shown frame.tile:15 "${run[@]}" -O2
has 'i = 1' 'total = 204' 'k = <optimized out>' 'program_id = {1, 0}' "${scalars[@]:5:4}" "${types[@]}"
grep -q '^y = <optimized out>$' shown || fail "a tile without memory: $(grep '^y = ' shown)"
# In an object, which the C library alone runs
cat >main.c <<'T'
#include "frame.h"
int main(void)
{
    float x[32], y[32];
    int64_t shape[2] = { 4, 8 };
    for (int k = 0; k < 32; k++) x[k] = (float)k;
    return frame((tile_view){ x, shape, NULL }, (tile_view){ y, shape, NULL }, 2, NULL);
}
T
expect 0 "" "$tilec" frame.tile -g -O0 -o frame.o -h frame.h
expect 0 "" "$cc" -g main.c frame.o -o main
shown frame.tile:13 ./main
has "${scalars[@]}" "${types[@]}" 'y = {{30, 32, 34, 36}, {78, 80, 82, 84}}'
# A tile whose memory another one took is not shown with the elements of that one.
cat >over.tile <<'T'
kernel over(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 4)) {
    let i = program_id();
    let x = load(X[i * 4 +: 4]);
    let y = x * 2.0;
    store(Y[i * 4 +: 4], y);
}
T
shown over.tile:5 "$tilec" run over.tile --in X=random:f32[8]:1 --threads=1 --no-cache -g -O0
grep -q '^y = {' shown || fail "y: $(grep '^y = ' shown)"
same_text=$(sed -n 's/^x = //p' shown)
[ "$same_text" != "$(sed -n 's/^y = //p' shown)" ] || fail "x shows the elements of y"
# Nor in one side of a branch where the other side took the memory too.
cat >branch.tile <<'T'
kernel branch(in f32 X[N], out f32 Y[N], i32 c) grid (cdiv(N, 8)) {
    let i = program_id();
    let x = load(X[i * 8 +: 8]);
    let z = sort(x);
    let s = sum(z, axis = 0, drop = true);
    var y = x * s;
    if c > 0 {
        let a = sort(x * 3.0);
        y = sort(a + 1.0) * a;
    } else {
        let d = sort(x * 7.0);
        let e = sort(d * d);
        y = e + d;
    }
    store(Y[i * 8 +: 8], y);
}
T
for c in 0 1; do
    shown branch.tile:$((c ? 9 : 12)) "$tilec" run branch.tile --in X=random:f32[16]:1 --set c=$c --threads=1 --no-cache -g -O0
    grep -q "^$([ $c = 1 ] && echo a || echo d) = {" shown || fail "a tile of the branch c=$c"
    other_text=$(sed -n "s/^$([ $c = 1 ] && echo a || echo d) = //p" shown)
    [ "$other_text" != "$(sed -n 's/^z = //p' shown)" ] || fail "z shows the elements of a tile of the branch c=$c"
done
# Without -g nothing of this is in the code.
expect 0 "define" "$tilec" frame.tile --emit=llvm
"$tilec" frame.tile --emit=llvm | grep -q 'volatile\|!dbg' && fail "debug information without -g"
finish
