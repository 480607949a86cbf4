#!/bin/bash
# programs_file.sh RANDOM_TEST QUEUE: two random kernels with functions, written to a file and run from it.
set -u
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
kernel=$work/kernel.tile found=0
for seed in {1..60}; do
    "$1" --programs --show="$seed" >"$kernel" || { echo "FAIL: seed $seed is not written"; exit 1; }
    grep -q '^fn f0' "$kernel" || continue
    "$2" --device=interp --file="$kernel" && "$1" --device=interp "$kernel" || { echo "FAIL: seed $seed"; exit 1; }
    found=$((found + 1))
    [ $found = 2 ] && exit 0
done
echo "FAIL: of 60 kernels $found have a function"
exit 1
