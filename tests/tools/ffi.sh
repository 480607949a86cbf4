#!/bin/bash
# ffi.sh: shared libraries called by tvm-ffi's C ABI from a C program, without Python and without tvm-ffi; a library in the test
# stands for what they call back. Argument 4: a driver in memory, whose compiler stands in for NVRTC; absent under sanitizers.
. "$(dirname "$0")/lib.sh"
here=$root/tests/tools
mkdir tmp; export TMPDIR=$work/tmp
expect 0 "" "$tilec" "$here/ffi.tile" --shared -o k.so -h k.h
grep -q 'softmax_f16' k.h || fail "no header"
build() { "$cc" -std=c11 -Wall -Wextra -Werror -O1 -I"$here" -I"$root/tests/api" "$@"; }
expect 0 "" build -shared -fPIC "$here/ffi_stub.c" -o libtvm_ffi.so -Wl,-soname,libtvm_ffi.so
expect 0 "" build "$here/ffi_check.c" -o check -ldl -lm
for mode in global local none; do expect 0 "all calls as expected" ./check ./k.so $mode; done
# the launchers of the header are in the library too, and an object has the same functions
printf '#include "k.h"\n#include <stdio.h>\nint main(void) { tile_view v = { 0 }; printf("%%d: %%s\\n", softmax_f32(v, v, NULL), softmax_f32_error()); return 0; }\n' >main.c
expect 0 "" build -I. main.c ./k.so -o main
expect 0 "1: softmax<T=f32, N=40>: argument 1 (X): the shape is NULL" ./main
expect 0 "" "$tilec" "$here/ffi.tile" -o k.o -h k.h
expect 0 "" "$cc" -shared k.o -o o.so
expect 0 "all calls as expected" ./check ./o.so local
expect 0 "" build -I. main.c k.o -o main
expect 0 "1: softmax<T=f32" ./main

if [ -n "${4-}" ]; then
    mkdir drivers && cp "$4" drivers/libcuda.so.1
    export TILE_NVRTC=$4
    expect 0 "" "$tilec" "$here/ffi.tile" --shared --kernel=softmax --target=cuda:sm_80,cuda:sm_90a,cpu -o b.so
    expect 0 "all calls as expected" env LD_LIBRARY_PATH="$work/drivers" ./check ./b.so cuda
    expect 0 "" "$tilec" "$here/ffi.tile" --shared --kernel=softmax --target=cuda:sm_80 -o only.so
fi

# for another machine its compiler links, not this machine's
if [ "$(uname -m)" != aarch64 ] && "$tilec" "$here/ffi.tile" --kernel=softmax --target=cpu:aarch64 -o arm.o 2>no; then
    mkdir cross && printf '#!/bin/sh\nfor a; do [ "$p" != -o ] || echo "$0" >"$a"; p=$a; done\n' >cross/aarch64-linux-gnu-gcc
    chmod +x cross/aarch64-linux-gnu-gcc
    expect 0 "" env PATH="$work/cross:$PATH" "$tilec" "$here/ffi.tile" --kernel=softmax --shared --target=cpu:aarch64 -o arm.so
    grep -q aarch64-linux-gnu-gcc arm.so || fail "another compiler has linked for Arm"
    expect 1 "no C compiler here (looked for aarch64-linux-gnu-gcc); TILE_CC names one" env PATH="$work/none" "$tilec" "$here/ffi.tile" --kernel=softmax --shared --target=cpu:aarch64 -o none.so; absent none.so
fi

# the command line
expect 1 "no C compiler here (looked for $work/none); TILE_CC names one" env TILE_CC="$work/none" "$tilec" "$here/ffi.tile" --shared -o n.so; absent n.so
expect 1 "the C compiler failed: no output" env TILE_CC=false "$tilec" "$here/ffi.tile" --shared -o n.so; absent n.so
expect 2 "-o FILE is missing" "$tilec" "$here/ffi.tile" --shared
expect 2 "--shared does not go with --emit" "$tilec" "$here/ffi.tile" --shared --emit=ir -o n.so
expect 2 "--shared makes a bundle of several targets by itself" "$tilec" "$here/ffi.tile" --shared --bundle -o n.so
expect 2 "there is no target \`cuda:sm_1\`" "$tilec" "$here/ffi.tile" --shared --target=cpu,cuda:sm_1 -o n.so
[ -z "$(ls -A tmp)" ] || fail "folders for temporary files are left: $(ls tmp)"
finish
