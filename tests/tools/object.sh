#!/bin/bash
# object.sh: an object and its header in a C and a C++ program: right results against plain loops, every promise and thread mode,
# every error of the launcher. Nothing but the C library is linked.
. "$(dirname "$0")/lib.sh"
here=$root/tests/tools
expect 0 "" "$tilec" "$here/launch.tile" -o k.o -h k.h
expect 0 "" "$tilec" "$here/launch.tile" -o k2.o -h k.h; same k.o k2.o
expect 0 "" "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -O1 -I. "$here/launch_check.c" k.o -o check
expect 0 "all launches as expected" ./check
# a processor without AVX-512: valgrind's has AVX2 and no more, so the launcher must take the variants for x86-64-v3
if valgrind --tool=none -q true 2>/dev/null; then
    printf '#include <stdio.h>\nint main(void) { printf("%%d\\n", __builtin_cpu_supports("avx2") && !__builtin_cpu_supports("avx512f")); return 0; }\n' >has.c
    expect 0 "" "$cc" has.c -o has
    if [ "$(valgrind --tool=none -q ./has)" = 1 ]; then expect 0 "all launches as expected" valgrind --tool=none -q ./check
    else echo "valgrind has no AVX2 on this machine: variants for x86-64-v3 are not tried apart"; fi
    # what a launch costs beside its kernel: 2000 instructions and a few hundred of the C library
    cat >cost.tile <<'T'
kernel cost(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 16)) { store(Y[program_id()*16 +: 16], load(X[program_id()*16 +: 16])); }
T
    cat >cost.c <<'T'
#include "cost.h"
#include <stdlib.h>
int main(int argc, char **argv)
{
    float x[16] = { 1 }, y[16] = { 0 };
    int64_t n = 16;
    tile_view in = { x, &n, NULL }, out = { y, &n, NULL };
    for (int i = atoi(argv[argc - 1]); i > 0; i--)
        if (cost(in, out, NULL)) return 1;
    return 0;
}
T
    expect 0 "" "$tilec" cost.tile -o cost.o -h cost.h
    expect 0 "" "$cc" cost.c cost.o -o cost
    instructions() { valgrind --tool=callgrind --callgrind-out-file=/dev/null ./cost "$1" 2>&1 | sed -n 's/,//g; s/.*refs: *//p'; }
    if few=$(instructions 1) && many=$(instructions 1001) && [ -n "$few" ] && [ -n "$many" ]; then
        ((many - few < 1000 * 6000)) || fail "a launch takes $(((many - few) / 1000)) instructions"
    fi
else echo "no valgrind: variants for x86-64-v3 are not tried apart"; fi
# TILE_CPU_LEVEL: each level that this machine has, best last; one that it lacks or that does not exist is an error of the launch
cat >level.tile <<'T'
kernel level(out i32 Y[N]) grid (N) { store(Y[program_id()], i32(program_id() * 2)); }
T
cat >level.c <<'T'
#include "level.h"
#include <stdio.h>
int main(void)
{
    int y[3] = { 0 };
    int64_t n = 3;
    tile_view v = { y, &n, NULL };
    int first = level(v, NULL), second = level(v, NULL);
    printf("%d %d %d %s\n", first, second, y[2], level_error());
    return 0;
}
T
expect 0 "" "$tilec" level.tile -o level.o -h level.h
expect 0 "" "$cc" level.c level.o -o level
expect 0 "there is no level \`v9\`; there are any" env TILE_CPU_LEVEL=v9 ./level
expect 0 "0 0 4" env TILE_CPU_LEVEL= ./level
for name in $(TILE_CPU_LEVEL=v9 ./level | sed 's/.*there are //; s/,//g'); do
    case $(uname -m).$name in
    x86_64.any) expect 0 "nothing was compiled for this processor" env TILE_CPU_LEVEL=any ./level ;;
    *) expect 0 "0 0 4" env TILE_CPU_LEVEL=$name ./level
       expect 0 "all launches as expected" env TILE_CPU_LEVEL=$name ./check ;;
    esac
    expect 0 "" env TILE_CPU_LEVEL=$name "$tilec" level.tile --emit=asm -o level.s
done
expect 1 "there is no level \`v9\`; there are any" env TILE_CPU_LEVEL=v9 "$tilec" level.tile --emit=asm -o level.s
if [ "$(uname -m)" = x86_64 ] && ! grep -qw avx512f /proc/cpuinfo; then
    expect 0 "this processor lacks the level \`v4\`; there are any" env TILE_CPU_LEVEL=v4 ./level
    expect 1 "this processor lacks the level \`v4\`; there are any" env TILE_CPU_LEVEL=v4 "$tilec" level.tile --emit=asm -o level.s
fi
if command -v g++ >/dev/null; then
    printf '#include "k.h"\nint main() { return 0; }\n' >h.cpp
    expect 0 "" g++ -Wall -Wextra -Werror -c h.cpp -o h.o
fi
# two objects in one program, each with its launcher
expect 0 "" "$tilec" "$root/examples/kernels/silu.tile" -D T=f32 -o silu.o -h silu.h
printf '#include "k.h"\n#include "silu.h"\nint main(void) { return 0; }\n' >two.c
expect 0 "" "$cc" two.c k.o silu.o -o two
expect 0 "" "$tilec" "$here/launch.tile" -g -o g.o -h g.h
if command -v readelf >/dev/null; then
    readelf -W --debug-dump=decodedline g.o 2>/dev/null | grep -q 'launch.tile' || fail "-g: no lines of launch.tile"
    readelf -W -a k.o 2>&1 | grep -i 'warning' && fail "readelf complains"
    # profilers and debuggers walk through launchers and kernels: each function has its unwind table, in the program too
    for file in k.o check; do
        readelf -W --debug-dump=frames-interp $file >frames 2>&1; grep -i warning frames && fail "$file: unwind tables"
    done
    readelf -W -s check | awk '$4 == "FUNC" && $3 > 0 && $7 != "UND" && $8 !~ /^_/ { print $2, $8 }' >functions
    [ -s functions ] || fail "no functions of kernels in the program"
    while read -r address name; do grep -q "pc=$address" frames || fail "no unwind table for $name"; done <functions
fi

# with -g a debugger stops on a line of the .tile file, in an object and in code made at run time; print goes to standard output
cat >lines.tile <<'T'
kernel lines(out i32 Y[N]) grid (N) {
    let i = program_id();
    store(Y[i], i32(i * 2));
    print("program", i, arange(3));
}
T
cat >lines.c <<'T'
#include "lines.h"
#include <stdio.h>
int main(void)
{
    int y[3] = { 0 };
    int64_t n = 3;
    tile_view v = { y, &n, NULL };
    int status = lines(v, NULL);
    printf("%d %d\n", status, y[2]);
    return 0;
}
T
expect 0 "" "$tilec" lines.tile -g -O0 -o lines.o -h lines.h
expect 0 "" "$cc" lines.c lines.o -o lines
[ "$(./lines)" = $'program 0 [0, 1, 2]\nprogram 1 [0, 1, 2]\nprogram 2 [0, 1, 2]\n0 4' ] || fail "print in an object: $(./lines)"
expect 0 "" "$tilec" lines.tile -o quiet.o -h lines.h
expect 0 "" "$cc" lines.c quiet.o -o quiet
[ "$(./quiet)" = "0 4" ] || fail "print in an object without -g: $(./quiet)"
if gdb -batch -nx -ex run --args true 2>&1 | grep -q 'exited normally'; then      # where gdb is there and may trace
    stop=(gdb -batch -nx -ex 'set breakpoint pending on' -ex 'set debuginfod enabled off' -ex 'break lines.tile:3' -ex run -ex frame --args)
    expect 0 " (Y=...) at lines.tile:3" "${stop[@]}" ./lines
    ASAN_OPTIONS=detect_leaks=0 expect 0 " (Y=...) at lines.tile:3" "${stop[@]}" "$tilec" run lines.tile -g -O0 --set N=3 --threads=1 --no-cache
else echo "no gdb that may trace here: breakpoints are not tried"; fi
finish
