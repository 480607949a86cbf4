#!/bin/bash
# suite_spills.sh SPILLS SOURCE_FOLDER: no kernel of bench/ported spills more than 64 bytes with the configuration that the library chooses
# at the sizes that are timed on a GPU, for each model of a card with sm_90a. 77: there is no NVRTC.
set -u
spills=$1 kernels=$2/bench/ported/kernels
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

# The heads of the kernels (bench/ported/suite.py) as problems; element types are f16 where the kernel has a choice.
for file in "$kernels"/*.tile; do
    awk -v name="$(basename "$file" .tile)" '
        /^\/\/ bench: / && !gpu { sizes = substr($0, 11) }
        /^\/\/ bench-gpu: / { sizes = substr($0, 15); gpu = 1 }
        /^\/\/ bench-consts: / { consts = substr($0, 18); given = 1 }
        /^\/\/ consts: / && !given { consts = substr($0, 12); sub(/\|.*/, "", consts) }
        /const type T[ ,=)]/ { type = 1 }
        END {
            if (type) gsub(/(^| )T=[a-z0-9]+/, "", consts)
            print name, name, (type ? "T=f16 " : "") sizes, consts
        }' "$file"
done >"$work/suite"
for model in h100 h200; do
    "$spills" --device-model=$model --kernels="$kernels" --most=64 cuda:sm_90a "$work/suite" >"$work/$model"
    case $? in
    0) ;;
    77) echo "SKIP: there is no NVRTC"; exit 77 ;;
    *) echo "FAIL: with the model of $model"; grep -A3 FAIL "$work/$model"; exit 1 ;;
    esac
    [ "$(grep -c ' spilled,' "$work/$model")" = "$(wc -l <"$work/suite")" ] || { echo "FAIL: not all were compiled"; exit 1; }
done
