#!/bin/bash
# go.sh [SECONDS [FIRST [GPU_JOBS]]]: random arrangements of products on all processors, in the folder that
# campaign_pack.sh made: on the emulators of every machine, on the GPU where there is one, and there a few
# under memcheck and racecheck. FIRST: the first seed. Prints tables, which also go to $OUT/RESULT.txt;
# kernels that failed go to $OUT/fails.
here=$(cd "$(dirname "$0")" && pwd) seconds=${1:-480} first=${2:-1000000} cores=$(nproc)
out=${OUT:-$here/out}
mkdir -p "$out/fails"
work=$(mktemp -d)
. "$here/campaign_lib.sh"
chmod +x "$here"/tile_random_queue* 2>/dev/null
end=$(($(date +%s) + seconds))

gpu_jobs=${3:-$((cores * 9 / 16))}
nvidia-smi -L >"$work/gpu.txt" 2>&1 || gpu_jobs=0
emu_jobs=$((cores - gpu_jobs))
((emu_jobs < 1)) && emu_jobs=1

left() { echo $((end - $(date +%s) - ${1:-10})); }
gpu() { # KIND FIRST JOBS NAME
    "$here/tile_random_queue" --device=cuda --kind="$1" --first="$2" --count=1000000 --jobs="$3" --batch=24 \
        --limit=40 --seconds="$(left 25)" --save="$out/fails" --list="$out/used_$4.txt" \
        >"$out/gpu_$4.txt" 2>&1
}
sanitize() { # TOOL FIRST
    timeout "$(left 5)" compute-sanitizer --tool "$1" --target-processes all \
        "$here/tile_random_queue" --device=cuda --kind=small --first="$2" --count=160 --batch=10 \
        --limit=120 --seconds="$(left 60)" --save="$out/fails" >"$out/gpu_$1.txt" 2>&1
}
emulate() { # MACHINE FIRST COUNT
    "$here/tile_random_queue_emu" --device="tcc_$1" --kind=small --first="$2" --count="$3" --batch=50 \
        --limit=120 --seconds="$(left 15)" --save="$out/fails" >"$out/emu_$1_$2.txt" 2>&1
}
export -f emulate left
export here out end
items() {
    for block in $(seq 0 1999); do
        for m in sm_90a sm_80 gfx942 sm_100a gfx950 sm_120 gfx1100 gfx90a; do
            echo "$m $((first + block * 100)) 100"
        done
    done
}
# xargs ends when a command exits with 255.
items | xargs -P "$emu_jobs" -L 1 \
    bash -c '[ "$(left 15)" -gt 2 ] || exit 255; emulate "$@" || true' _ 2>/dev/null &
pids=$!
if ((gpu_jobs > 0)); then
    large=$(((gpu_jobs - 2) / 4))
    ((large < 1)) && large=1
    gpu small $((first + 10000000)) $((gpu_jobs - 2 - large > 0 ? gpu_jobs - 2 - large : 1)) small &
    pids="$pids $!"
    gpu arrangement $((first + 20000000)) $large large &
    pids="$pids $!"
    for tool in memcheck racecheck; do
        sanitize $tool $((first + 30000000)) &
        pids="$pids $!"
    done
fi
wait $pids

# The lines end with ".. kernels on X from seed N, F failed, L larger than the device, T s".
machine_table() {
    for m in sm_80 sm_90a sm_100a sm_120 gfx942 gfx950 gfx1100 gfx90a; do
        cat "$out"/emu_${m}_*.txt 2>/dev/null | awk -v m=$m '
            / kernels on / { n += $1; f += $(NF - 8); l += $(NF - 6) }
            /only in the quick way/ { s += $1 }
            /cannot compile/ { c += $1 }
            END {
                printf "%s: %d kernels, %d failed, %d larger than the device, ", m, n, f, l
                printf "%d failed only when compiled by TinyCC, %d not compiled by it\n", s, c
            }'
    done
}
clean='ERROR SUMMARY: 0 \|(0 hazards\|: 0 hazards'
{
    echo "campaign of $seconds s on $cores processors, $emu_jobs for the emulators; compiler: $compiler;" \
        "$(head -1 "$work/gpu.txt")"
    machine_table
    cat "$out"/gpu_small.txt "$out"/gpu_large.txt 2>/dev/null | grep " kernels on "
    for tool in memcheck racecheck; do
        said=$out/gpu_$tool.txt
        [ -f "$said" ] &&
            echo "$tool: $(grep -h " kernels on " "$said"); $(grep -c "$clean" "$said") clean summaries;" \
                "others: $(grep -h SUMMARY "$said" | grep -v "$clean" | sort | uniq -c | head -5 |
                    tr '\n' ';')"
    done
    for k in small large; do
        grep -h "never used\| used$" "$out/used_$k.txt" 2>/dev/null | sed "s/^/$k: /"
    done
    echo "failures:"
    grep -h "^FAIL\|crash\|terminate" "$out"/emu_*.txt "$out"/gpu_*.txt 2>/dev/null | cut -c1-300 | head -120
    for f in "$out"/emu_*.txt; do
        grep -q " kernels on " "$f" || { echo "no end: $f" && tail -2 "$f"; }
    done 2>/dev/null | head -20
} >"$out/RESULT.txt"
rm -f "$out"/emu_*.txt
grep -h "ERROR\|WARN\|hazard" "$out"/gpu_memcheck.txt "$out"/gpu_racecheck.txt 2>/dev/null |
    sort | uniq -c | sort -rn | head -40 >"$out/sanitizers.txt"
tail -c 200000 "$out"/gpu_racecheck.txt >"$out/racecheck_tail.txt" 2>/dev/null
rm -rf "$work"
cat "$out/RESULT.txt"
