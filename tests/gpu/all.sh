#!/bin/bash
# all.sh: everything that `ctest -L gpu` runs on a CUDA device, from a queue that keeps all processors busy
# (most of the time is NVRTC's), within a bound.
#
#     all.sh PROGRAMS SOURCE [SECONDS [PATTERN]]
#
# PROGRAMS: a build folder, or one that pack.sh made. PATTERN: only items whose names match.
#
# With TILE_TEST_TOOL=memcheck|racecheck|synccheck|initcheck, programs that run kernels do so under that tool
# of compute-sanitizer, and what it reports is a failure. Outputs are poisoned before each launch, so
# initcheck is left with what the poison does not show: workspaces, tickets and memory beside tensors that is
# read before anything wrote it. With TILE_TEST_USED=FOLDER its programs say there what kernels used
# (tests/run/used.h), for tile_used_names.
#
# Prints a line for each item, what failed, and last how many ran. The exit status is 0, 1, or 77 without a
# device. Items that the bound kept from running count as failed.
set -u
programs=$(cd "$1" && pwd) source=$(cd "$2" && pwd) seconds=${3:-600} pattern=${4:-.}
find_program() {
    local d
    for d in . tests/run tests/api tests/gpu tools; do
        [ -x "$programs/$d/$1" ] && { echo "$programs/$d/$1"; return; }
    done
    echo "$programs/$1"
}
run=$(find_program tile_run_test) ops=$(find_program tile_ops_test) random=$(find_program tile_random_test)
far=$(find_program test_far) api=$(find_program test_api_gpu) tilec=$(find_program tilec)
timing=$(find_program tile_gpu_timing) functions=$(find_program tile_functions_test)
work=$(mktemp -d) && cd "$work" || exit 1
trap 'rm -rf "$work"' EXIT
export under=
if [ -n "${TILE_TEST_TOOL:-}" ]; then
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
        { echo "SKIP: no compute-sanitizer here"; exit 77; }
    under="$sanitizer --tool $TILE_TEST_TOOL --target-processes all --error-exitcode 9 --print-limit 4"
fi
export TILE_TEST_KERNELS=$source/examples/kernels TILE_CACHE_DIR=$work/cache
export LD_LIBRARY_PATH=$programs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
items() {       # the longest first
    local scripts=$source/tests/gpu case_kernels=$source/tests/run
    for tool in memcheck racecheck synccheck initcheck; do
        for target in cuda cuda:sm_80; do
            echo "sanitize.$tool.$target bash $scripts/sanitize.sh $tilec $source cc cuda $target $tool"
        done
    done
    echo "api $api"
    for i in $(seq 0 3); do echo "random.$i $random --device=cuda --count=50 --first=$((1 + 50 * i))"; done
    for i in $(seq 0 7); do echo "functions.$i $functions --device=cuda --share=$i/8"; done
    for mode in checked early; do echo "functions.$mode $functions --device=cuda,$mode --name=bits_f16"; done
    for folder in finds kernels; do
        ls "$case_kernels/$folder"/*.tile 2>/dev/null | xargs -n 8 |
            awk -v c="$random --device=cuda --draws=1" -v f=$folder '{ print f "." NR, c, $0 }'
    done
    for i in $(seq 0 47); do echo "ops.$i $ops --device=cuda --share=$i/48"; done
    "$run" --list | awk '{ n[$2]++ } END { for (e in n) print n[e], e }' | sort -rn |
        while read -r cases e; do
            n=$(((cases + 11) / 12))    # a dozen cases an item
            for i in $(seq 0 $((n - 1))); do
                echo "run.$e.$i $run --device=cuda --example=$e --share=$i/$n --kernels=$TILE_TEST_KERNELS"
            done
        done
    echo "far $far cuda"
    echo "processes bash $scripts/processes.sh $tilec $source cc"
    [ -x "$timing" ] && echo "timing $timing --kernels=$TILE_TEST_KERNELS --only=silu"
}
one() {         # NAME COMMAND...: its status and seconds into NAME.st
    local name=$1 left=$((end - $(date +%s))) from=$(date +%s%N)
    shift
    if ((left < 2)); then echo "$name late 0" > "$name.st"; return; fi
    case $name in sanitize.*|processes|timing|api) ;; *) set -- $under "$@" ;; esac
    timeout "$left" "$@" > "$name.log" 2>&1
    echo "$name $? $((($(date +%s%N) - from) / 1000000))" > "$name.st"
}
export -f one
"$run" --device=cuda --example=vector_add --kernels="$TILE_TEST_KERNELS" > probe 2>&1
[ $? = 77 ] && { echo "SKIP: $(head -1 probe)"; exit 77; }
export end=$(($(date +%s) + seconds))
items | grep -E "^[^ ]*($pattern)" > queue
xargs -P "$(nproc)" -L 1 bash -c 'one "$@"' _ < queue
failed=0
while read -r name rest; do
    read -r _ status ms < "$name.st" || { status=lost ms=0; }
    case $status in
    0) echo "ok $name $ms ms: $(tail -1 "$name.log")" ;;
    77) echo "skip $name: $(head -1 "$name.log")" ;;
    *)
        failed=$((failed + 1))
        [ "$status" = 124 ] && status="cut off"
        echo "FAIL $name ($status) after $ms ms"
        grep -E "FAIL|rror|Assert|Uninitialized|hazard" "$name.log" 2>/dev/null | head -6
        ;;
    esac
done < queue
echo "$(wc -l < queue) items, $failed failed, $(($(date +%s) - end + seconds)) s on $(nproc) processors"
exit $((failed > 0))
