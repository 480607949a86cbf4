#!/bin/bash
# object.sh: an object and its header in a C and a C++ program: right results against plain loops, every promise and thread mode,
# every error of the launcher. Nothing but the C library is linked.
. "$(dirname "$0")/lib.sh"
here=$root/tests/tools
expect 0 "" "$tilec" "$here/launch.tile" -o k.o -h k.h
expect 0 "" "$tilec" "$here/launch.tile" -o k2.o -h k.h; same k.o k2.o
expect 0 "" "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -O1 -I. "$here/launch_check.c" k.o -o check
expect 0 "all launches as expected" ./check
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
fi
finish
