#!/bin/bash
# predicted.sh COSTS SOURCE_FOLDER: where predictions choose what is compiled, the choice is about as good as that of all that is
# considered, with a part of the configurations; and it is the same in one thread and in several.
set -u
costs=$1 root=$2
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
while read -r file kernel target rest; do
    case $kernel in gemm | conv2d_nhwc | attention_cross) ;; *) continue ;; esac
    for how in "" --thorough; do
        # shellcheck disable=SC2086
        "$costs" --choose $how "$root/examples/kernels/$file.tile" "$kernel" "$target" $rest >"$work/${how:-predicted}"
    done
    # shellcheck disable=SC2086
    taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')" "$costs" --choose "$root/examples/kernels/$file.tile" "$kernel" "$target" $rest \
        >"$work/alone"
    [ "$(sed 's/, in .*//' "$work/alone")" = "$(sed 's/, in .*//' "$work/predicted")" ] ||
        { echo "FAIL: $kernel $rest: in one thread $(<"$work/alone"), else $(<"$work/predicted")"; exit 1; }
    for which in predicted --thorough; do
        sed -E 's/.*: ([0-9.]+) us by .*, of ([0-9]+), in .*/\1 \2/' "$work/$which" | tr '\n' ' '
    done
    echo "$kernel $rest"
done <"$root/tests/choice/problems.txt" >"$work/all"
awk '{ ratio = $1 / $3; sum += ratio; few += $2; all += $4; if (ratio > 1.05) { print "FAIL: " ratio " of the estimate: " $0; bad = 1 } }
    END { if (NR < 10) { print "FAIL: " NR " problems"; exit 1 }
          if (sum / NR > 1.005) { print "FAIL: " sum / NR " of the estimates in the mean"; exit 1 }
          if (3 * few > all) { print "FAIL: " few " configurations of " all " are compiled"; exit 1 }
          exit bad }' "$work/all"
