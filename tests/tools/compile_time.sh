#!/bin/bash
# compile_time.sh: no example and no kernel of bench/ported takes more than 2 s of processor time to compile for the CPU: of an example
# all instances of the file for one processor (of more than four instances half a second each, as a slow processor
# takes 2.2 s for the eight of gemm), of a ported kernel each choice of constants with the sizes of its benchmark, and of the example that
# takes longest for each instance an object, which has code for several processors and promises.
# SHOW=1 prints the times, SHOW=objects also those of the objects of all examples.
. "$(dirname "$0")/lib.sh"
limit=2.0 slowest=0
TIMEFORMAT="%U %S"
# timed NAME N COMMAND...: at most N times the limit (N is a number or a quotient), the processor time of the command ($took); of two tries the second if the first is over
timed() {
    local name=$1 n=$2 try
    shift 2
    for try in 1 2; do
        { time "$@" >/dev/null 2>err.txt; } 2>times.txt || { fail "$name: $(head -3 err.txt)"; took=0; return; }
        took=$(awk '{ print $1 + $2 }' times.txt)
        awk -v t="$took" -v l="$limit" -v n="$n" 'BEGIN { split(n, of, "/"); exit t > l * n / (of[2] ? of[2] : 1) }' && break
        [ $try = 1 ] || fail "$name: $took s"
    done
    [ -z "${SHOW:-}" ] || echo "$took $name"
}
object() { timed "$(basename "$1" .tile), an object of $2 instances" "$2" "$tilec" "$1" -o x.o -h x.h; }
for file in "$root"/examples/kernels/*.tile; do
    n=$("$tilec" "$file" --emit=ir -o - | grep -c '^kernel ')
    timed "$(basename "$file" .tile), all instances" "$((n > 4 ? n : 4))/4" "$tilec" "$file" -O3 --emit=asm -o x.s
    [ "${SHOW:-}" != objects ] || object "$file" "$n"
    each=$(awk -v t="$took" -v n="$n" 'BEGIN { print int(1000 * t / n) }')
    ((each <= slowest)) || { slowest=$each longest=$file of=$n; }
done
object "$longest" "$of"
# The heads of ported kernels say their sizes and constants (tests/run/kernel_file.h).
for file in "$root"/bench/ported/kernels/*.tile; do
    sizes=$(sed -n 's,^// bench: ,,p' "$file")
    sed -n 's,^// consts: ,,p' "$file" | tr '|' '\n' >consts.txt
    [ -s consts.txt ] || echo >consts.txt
    while read -r consts; do
        binds=()
        for b in $consts; do binds+=(-D "$b"); done
        for b in $sizes; do # some are only named by others
            grep -v '^//' "$file" | grep -qE "[[ ]${b%%=*}[],]|const int ${b%%=*} " && binds+=(-D "$b")
        done
        timed "$(basename "$file" .tile) $consts" 1 "$tilec" "$file" -O3 --emit=asm "${binds[@]}" -o x.s
    done <consts.txt
done
finish
