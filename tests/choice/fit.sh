#!/bin/bash
# fit.sh COSTS SAMPLE FIT MEASURE SOURCE_FOLDER: the programs that measure configurations and fit a device model to them (bench/gpu), with the
# estimates of a model in place of a card's times. Times that a model gives must be predicted by that model without error, and a fit that
# starts at another card's rate of memory must find the first one's.
set -u
costs=$1 sample=$2 fit=$3 measure=$4 kernels=$5/examples/kernels failures=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $1"; failures=$((failures + 1)); }

printf 'softmax softmax T=f16 M=32768 N=4096\nrms_norm_matrix rms_norm_matrix T=f16 M=32768 N=2048\nsilu silu T=f16 M=32768 N=4096\n' >"$work/problems"
"$sample" --draws=12 --best=6 --others=3 --kernels="$kernels" cuda:sm_90a "$work/problems" >"$work/list" || fail "sample"
[ "$(cut -f1 "$work/list" | sort -u | wc -l)" = 3 ] || fail "not every problem was sampled"
[ -z "$(sort "$work/list" | uniq -d)" ] || fail "a configuration was sampled twice"

# The estimates of model h100 as times.
while IFS=$'\t' read -r words config; do
    read -r file kernel rest <<<"$words"
    echo "$config" >"$work/config"
    # shellcheck disable=SC2086
    ns=$("$costs" --configs="$work/config" --device-model=h100 "$kernels/$file.tile" "$kernel" cuda:sm_90a $rest |
        sed -n 's/.*"estimate": \([0-9.e+]*\).*/\1/p')
    printf '%s\t%s\t%s\n' "$words" "$config" "$(awk -v ns="$ns" 'BEGIN { printf "%.6f", ns / 1000 }')"
done <"$work/list" >"$work/h100.tsv"
"$fit" --kernels="$kernels" --no-fit cuda:sm_90a "$work/h100.tsv" >"$work/said" || fail "fit --no-fit"
grep -q 'h100 .* all .*error median   0.0%, p95   0.0%; regret mean 1.000' "$work/said" || fail "a model does not predict its own estimates: $(cat "$work/said")"
"$fit" --kernels="$kernels" --no-fit --model=a100 cuda:sm_90a "$work/h100.tsv" >"$work/said"
grep -q 'error median   0.0%' "$work/said" && fail "another model predicts these times too"
"$fit" --kernels="$kernels" --model=a100 --fields=memory --folds=2 --rounds=12 --keep=0 cuda:sm_90a "$work/h100.tsv" >"$work/said" || fail "fit"
awk '$1 == "memory" { found = $2 > 2700 && $2 < 3500 } END { exit !found }' "$work/said" || fail "the rate of memory was not found: $(tail -3 "$work/said")"
"$fit" --fields=memroy cuda:sm_90a "$work/h100.tsv" >/dev/null 2>&1 && fail "an unknown field was taken"

# An H200's times (bench/gpu/measured), a tenth of them: every line still names a configuration that compiles, and the model of sm_90a is no
# worse than bench/notes/choice.md says of it (the median of the error is 27% of all lines).
awk '/^#/ { print; next } n++ % 10 == 0' "$5/bench/gpu/measured/h200.tsv" >"$work/h200.tsv"
"$fit" --kernels="$kernels" --no-fit cuda:sm_90a "$work/h200.tsv" >"$work/said" || fail "fit --no-fit of the H200's times"
awk '/lines counted/ { counted = $1 == $3 && $1 > 130 } $2 == "all" { sub(/%,/, "", $9); for (i = 1; i <= NF; i++) if ($i == "median") median = $(i + 1) + 0 }
     END { exit !(counted && median > 0 && median < 40) }' "$work/said" || fail "the H200's times: $(cat "$work/said")"

# Shapes that nothing was tuned for, on both cards: every line of a tenth of them counts, and the median of chosen / best is at least 0.9.
for card in h100 h200; do
    awk -F'\t' '/^#/ { print; next } $1 != last { n++; last = $1 } n % 5 == 0' "$5/bench/gpu/measured/${card}_shapes.tsv" >"$work/shapes.tsv"
    "$fit" --kernels="$kernels" --no-fit --model=$card cuda:sm_90a "$work/shapes.tsv" >"$work/said" || fail "fit --no-fit of ${card}_shapes.tsv"
    awk '/lines counted/ { counted = $1 == $3 && $1 > 100 } $2 == "all" { for (i = 1; i <= NF; i++) if ($i == "best") median = $(i + 2) + 0 }
         END { exit !(counted && median >= 0.9) }' "$work/said" || fail "${card}_shapes.tsv: $(cat "$work/said")"
done

# Rows by warps and CTAs: clusters of many CTAs begin slowly, and the least estimate is no such configuration.
awk -F'\t' '/^#/ { print; next } $1 ~ /N=(8192|14336)$/' "$5/bench/gpu/measured/h200_rows.tsv" >"$work/rows.tsv"
"$fit" --kernels="$kernels" --no-fit --model=h200 cuda:sm_90a "$work/rows.tsv" >"$work/said" || fail "fit --no-fit of h200_rows.tsv"
awk '/lines counted/ { counted = $1 == $3 && $1 > 50 } $2 == "all" { for (i = 1; i <= NF; i++) if ($i == "minimum") least = $(i + 1) + 0 }
     END { exit !(counted && least >= 0.8) }' "$work/said" || fail "h200_rows.tsv: $(cat "$work/said")"
printf 'softmax softmax T=f16 M=8 N=64\twarps=4\t5\n# later\nsoftmax softmax T=f16 M=8 N=64\twarps=4\t9\n' >"$work/runs.tsv"
"$fit" --kernels="$kernels" --no-fit cuda:sm_90a "$work/runs.tsv" | grep -q '2 of 2 lines counted, 2 problems' || fail "times of two runs were compared"
# Times of two passes: the first says which configuration is the best, the second how long it takes.
printf 'softmax softmax T=f16 M=8 N=64\twarps=4\t9\t8\nsoftmax softmax T=f16 M=8 N=64\twarps=4\t5\t10\n' >"$work/passes.tsv"
"$fit" --kernels="$kernels" --no-fit cuda:sm_90a "$work/passes.tsv" | grep -q 'all .*regret mean 0.800' || fail "times of two passes"

# The measuring program itself, on the CPU.
printf '# a comment\nsoftmax softmax T=f16 M=8 N=64\twarps=4\ngemm gemm T=f16 M=64 N=64 K=64 t:B\tTM=64, TN=64\n' >"$work/small"
"$measure" --target=cpu --kernels="$kernels" "$work/small" >"$work/small.tsv" 2>"$work/why"
case $? in
0) [ "$(grep -c $'\t.*\t[0-9.]*$' "$work/small.tsv")" = 2 ] || fail "two configurations measured: $(cat "$work/small.tsv" "$work/why")" ;;
77) echo "the CPU backend is not built: nothing was measured" ;;
*) fail "measure: $(cat "$work/why")" ;;
esac
"$measure" --target=cpu --kernels="$kernels" --passes=2 "$work/small" >"$work/small.tsv" 2>/dev/null
[ $? = 77 ] || [ "$(grep -c $'\t[0-9.]*\t[0-9.]*$' "$work/small.tsv")" = 2 ] || fail "two passes: $(cat "$work/small.tsv")"
[ "$("$measure" --target=cpu --kernels="$kernels" --from=1 "$work/small" 2>/dev/null | grep -c '^softmax')" = 0 ] || fail "--from=1 leaves a line out"
exit $((failures > 0))
