#!/bin/bash
# examples.sh: every example becomes an object and a header that C takes. Most with -O0, which takes a twentieth
# of the time: run.cpu.* optimizes all of them. A few as a user would, with nothing on the command line but the
# name: their headers are the same.
. "$(dirname "$0")/lib.sh"
n=0
for kernel in "$root"/examples/kernels/*.tile; do
    name=$(basename "$kernel" .tile)
    expect 0 "" "$tilec" "$kernel" -O0 -o "$name.o" -h "$name.h"
    [ -s "$name.o" ] || fail "$name.o is empty"
    printf '#include "%s.h"\n' "$name" >>all.c
    n=$((n + 1))
done
[ $n -ge 30 ] || fail "only $n examples found"
expect 0 "" "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only all.c      # all together: no name twice
for name in softmax conv2d attention_decode; do
    expect 0 "" "$tilec" "$root/examples/kernels/$name.tile" -o optimized.o -h optimized.h
    sed 's/optimized/'"$name"'/g; s/OPTIMIZED/'"${name^^}"'/g' optimized.h | cmp - "$name.h" || fail "another header with -O2: $name"
done
finish
