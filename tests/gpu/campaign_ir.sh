#!/bin/bash
# programs.sh SECONDS FIRST [MACHINE...]: random programs of the tile IR on all processors, in the folder
# that campaign_pack.sh made: on the CPU for two thirds of the time, and on the emulator of each machine.
# FIRST: the first seed, at least 1000000000 for extreme values. Prints a line for each machine, which also
# go to $OUT/PROGRAMS.txt; programs that failed go to $OUT/fails, what was said to
# $OUT/programs_MACHINE.txt. $JOBS: processes, else as many as processors.
here=$(cd "$(dirname "$0")" && pwd) seconds=${1:?seconds} first=${2:?first seed}
out=${OUT:-$here/out} jobs=${JOBS:-$(nproc)}
shift 2
machines=${*:-cpu sm_80 sm_90a sm_100a sm_120 gfx942 gfx950 gfx1100 gfx90a}
mkdir -p "$out/fails"
work=$(mktemp -d)
. "$here/campaign_lib.sh"
end=$(($(date +%s) + seconds))

weight() { # MACHINE...: of all these
    local sum=0 m
    for m; do [ "$m" = cpu ] && sum=$((sum + 16)) || sum=$((sum + 1)); done
    echo $sum
}
# A machine whose C library is too old gets the one of the pack.
start=
"$here/random_cpu" --first=0 --count=1 >"$work/try.txt" 2>&1 ||
    start="$here/libc/ld-linux-x86-64.so.2 --library-path $here/libc:$here"
run() { # MACHINE SECONDS
    local program="random_emu --device=tcc_$1"
    [ "$1" = cpu ] && program=random_cpu
    $start "$here"/$program --first="$first" --count=1000000000 --jobs="$jobs" --seconds="$2" --limit=120 \
        --save="$out/fails" >"$out/programs_$1.txt" 2>&1
}
set -- $machines
for m; do
    left=$((end - $(date +%s)))
    mine=$((left * $(weight "$m") / $(weight "$@")))
    ((mine >= 1)) && run "$m" "$mine"
    shift
done
{
    echo "campaign of $seconds s from seed $first on $jobs processors; compiler: $compiler"
    for m in $machines; do
        grep -h " programs on " "$out/programs_$m.txt" 2>/dev/null ||
            echo "$m: no end: $(tail -1 "$out/programs_$m.txt" 2>/dev/null)"
    done
    for m in $machines; do
        grep -h "^FAIL\|^SLIP" "$out/programs_$m.txt" 2>/dev/null | cut -c1-300 | head -30
    done
} >"$out/PROGRAMS.txt"
rm -rf "$work"
cat "$out/PROGRAMS.txt"
