#!/bin/bash
# names.sh: kernels, tensors, scalars and constants with names that C, CUDA C, HIP C, libraries or emitted code use. A GPU's code is right
# (libclang reads it), a header's arguments get other names, and what cannot be a C function is refused.
. "$(dirname "$0")/lib.sh"
words=$(sed -n 's/^ *"\(.*\)".*/\1/p' "$root/ir/c_names.def" | tr ' ' '\n' | grep . | sort -u |
    grep -vxE 'const|for|while|if|else|return|true|false|in|out|var|let')
# Functions of the preludes, names that the emitter makes, and names that would be equal after a suffix.
words+=$' uniform thread_id shared_address mbar_wait load_f32 philox block_barrier expf sinl X_stride0 X_map0 dim0 grid0 x1 part_t0 a_7'
words+=$' shared_ shared__ exp_kernel exp_kernel_kernel N_'
count=$(wc -w <<<"$words")
[ "$count" -ge 350 ] || fail "only $count words"
for word in $words; do
    printf 'kernel %s(in f32 %s[M, N], out f32 Y[M], const int B = 32) grid (cdiv(M, B))\n' "$word" "$word"
    printf '{\n    let w = program_id() * B;\n    store(Y[w +: B], load(%s[w +: B, 0]) * 2.0);\n}\n' "$word"
done >kernels.tile
for target in cuda:sm_80 hip:gfx942; do
    expect 0 "" "$tilec" kernels.tile --target=$target -o "${target#*:}.out"
done
[ "$(grep -c '^shared_kernel(' sm_80.out)" = 1 ] && [ "$(grep -c '^exp_kernel(' sm_80.out)" = 1 ] || fail "the names of entries"

# On the CPU a kernel is not taken for the function that its own code calls.
printf '%s\n' 'kernel exp(in f64 X[N], out f64 Y[N]) grid (cdiv(N, 64))' \
    '{ let w = program_id()*64; store(Y[w +: 64], exp(load(X[w +: 64]))); }' >exp.tile
expect 0 "" "$tilec" run exp.tile --in X=ones:f64[100] --out Y=y.npy

# The arguments of launchers, of which each takes a part of the words.
split -d -l 200 <(tr ' ' '\n' <<<"$words" | grep -v '^N_$'; printf 'many%s\n' 00__launch 00_kernel 01__launch 01_kernel;
    printf '%s\n' tile_view tile_args_ tile_threads_) many
for part in many0?; do
    printf 'kernel %s(out f32 Y[N]%s) grid (1) { store(Y[0], 1.0); }\n' "$part" "$(sed 's/^./, f32 &/' "$part" | tr -d '\n')"
done >many.tile
expect 0 "" "$tilec" many.tile -o many.o -h many.h
printf '#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include "many.h"\nint main(void) { return !many00_error(); }\n' |
    tee many.c >many.cc
expect 0 "" "$cc" -Wall -Wextra -Werror -fsyntax-only many.c
! command -v c++ >/dev/null || expect 0 "" c++ -Wall -Wextra -Werror -fsyntax-only many.cc

# What cannot be the name of a C function.
for word in int:"is a word of C" printf:"is a name of the C library" class:"is a word of C" tile_view:"begins like"; do
    printf 'kernel %s(out f32 Y[N]) grid (1) { store(Y[0], 1.0); }\n' "${word%%:*}" >bad.tile
    expect 1 "bad.tile:1:8: error: there can be no C function \`${word%%:*}\` for this kernel: its name ${word#*:}" \
        "$tilec" bad.tile -o bad.o -h bad.h
    absent bad.h
    expect 1 "note: rename the kernel, for example \`kernel " "$tilec" bad.tile --bundle --bundle-source=always --target=cuda:sm_80,cpu -o bad.c -h bad.h
    expect 0 "" "$tilec" bad.tile -o bad.o
done
finish
