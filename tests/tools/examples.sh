#!/bin/bash
# examples.sh: every example becomes an object and a header that C takes, with nothing on the command line but its name.
. "$(dirname "$0")/lib.sh"
n=0
for kernel in "$root"/examples/kernels/*.tile; do
    name=$(basename "$kernel" .tile)
    expect 0 "" "$tilec" "$kernel" -o "$name.o" -h "$name.h"
    printf '#include "%s.h"\n' "$name" >>all.c
    n=$((n + 1))
done
[ $n -ge 30 ] || fail "only $n examples found"
expect 0 "" "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only all.c      # all together: no name twice
finish
