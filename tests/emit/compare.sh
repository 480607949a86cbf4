#!/bin/bash
# compare.sh OLD NEW [TARGET...]: whether two builds emit the same code. OLD and NEW are build folders. Each emits every instantiation of
# every example of this source tree for every target, with and without launch facts; the texts and schedules are compared byte for byte.
# Prints the variants that differ, and a count of them. Exit status 0 when all are equal, 1 when some differ, 2 when a build cannot be run.
set -u
[ $# -ge 2 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
old=$(cd "$1" && pwd) && new=$(cd "$2" && pwd) || exit 2
shift 2
root=$(cd "$(dirname "$0")/../.." && pwd)
targets=${*:-cuda:sm_80 cuda:sm_89 cuda:sm_90 cuda:sm_90a cuda:sm_100a cuda:sm_120 hip:gfx90a hip:gfx942 hip:gfx950 hip:gfx1100}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cd "$root" || exit 2            # the texts name the files of the kernels
emit() {            # emit BUILD FOLDER
    mkdir -p "$work/$2"
    "$1/tests/emit/emit_examples" --no-compile --quiet --all --target="$(tr ' ' ',' <<<"$targets")" --save="$work/$2" \
        examples/kernels/*.tile >"$work/$2.log" 2>&1
    [ -n "$(ls "$work/$2")" ] || { echo "$1/tests/emit/emit_examples emits nothing:"; tail -3 "$work/$2.log"; exit 2; }
}
emit "$old" old
emit "$new" new
diff -rq "$work/old" "$work/new" | sed -e "s|$work/||g" -e 's/^Files old\/\(.*\) and .* differ$/\1/' >"$work/different"
cat "$work/different"
[ -z "${DIFF:-}" ] || diff -ru "$work/old" "$work/new" >"$DIFF"      # DIFF=FILE keeps the differences
echo "$(find "$work/new" -type f | wc -l) texts and schedules, $(wc -l <"$work/different") differ"
[ ! -s "$work/different" ]
