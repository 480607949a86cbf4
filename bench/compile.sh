#!/bin/bash
# compile.sh BEFORE NOW KERNELS [TARGET ...]: instructions that two compilers take for the same files.
# BEFORE, NOW: executables of tilec, best without the CPU backend (-DTILE_ENABLE_CPU=OFF) and of the same build type. KERNELS: a folder of .tile files (those that one
# of the two does not compile are left out). Counts whole processes in user space by cachegrind, without the check of the emitted text.
# A line a file and target: now / before, both numbers; at the end, a line a target. EXAMPLES="a b": only these files. Status 1: some file is above 1.01 (MOST).
set -u
before=$1 now=$2 kernels=$3 most=${MOST:-1.01}
shift 3
[ $# -gt 0 ] || set -- cuda:sm_90a cuda:sm_80 hip:gfx942
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
count() { # TILEC TARGET FILE: instructions, or nothing
    local check=--no-check-emission
    "$1" help 2>&1 | grep -q -- "$check" || check=
    valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --log-file="$work/log" \
        "$1" "--emit=${2%%:*}" "--target=$2" $check "$3" -o /dev/null >/dev/null 2>&1 || return
    sed -n 's/.*I *refs: *//p' "$work/log" | tr -d ,
}
compare() { # TARGET FILE
    local a b name
    name=$(basename "$2" .tile)
    a=$(count "$before" "$1" "$2") b=$(count "$now" "$1" "$2")
    [ -n "$a" ] && [ -n "$b" ] && awk -v n="$name" -v t="$1" -v a="$a" -v b="$b" 'BEGIN { printf "%.3f %s %s %.0f %.0f\n", b / a, n, t, b, a }'
}
for target; do
    for file in "$kernels"/*.tile; do
        [ -z "${EXAMPLES:-}" ] || [[ " $EXAMPLES " = *" $(basename "$file" .tile) "* ]] || continue
        compare "$target" "$file"
    done
done | tee "$work/lines"
sort -n "$work/lines" | awk -v most="$most" '
    { n[$3]++; r[$3, n[$3]] = $1; worst[$3] = $1 " " $2; bad += $1 > most }
    END { for (t in n) printf "%s: %d files, median %.3f, worst %s\n", t, n[t], r[t, int((n[t] + 1) / 2)], worst[t]; exit bad > 0 }'
