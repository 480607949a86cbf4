#!/bin/bash
# measure.sh MEASURE KERNELS LIST TSV [SECONDS]: times the configurations of LIST (bench/gpu/measure.c) into TSV. After a launch that faults
# or does not end it goes on with the next problem, in another process. SECONDS (default 280) bounds the whole.
set -u
measure=$1 kernels=$2 list=$3 tsv=$4 seconds=${5:-280}
from=0 begin=$SECONDS
log=$(mktemp) && trap 'rm -f "$log"' EXIT
: >"$tsv"
while ((SECONDS - begin < seconds - 15)); do
    timeout -k 5 $((seconds - (SECONDS - begin))) "$measure" --target=cuda --kernels="$kernels" --seconds=$((seconds - 10 - (SECONDS - begin))) \
        --from=$from "$list" >>"$tsv" 2>"$log"
    status=$?
    cat "$log" >&2
    ((status == 3)) || exit $status
    from=$(sed -n 's/.*resume --from=\([0-9]*\)$/\1/p' "$log" | tail -1)
done
