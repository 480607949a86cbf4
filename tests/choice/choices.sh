#!/bin/bash
# choices.sh COSTS SOURCE_FOLDER: the choice without a table, at the problems of problems.txt, is as choices.expected says: configuration,
# estimate and what bounds it. UPDATE=1 writes choices.expected again, for a change that means to choose otherwise.
set -u
costs=$1 root=$2 here=$2/tests/choice
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
while read -r file kernel target rest; do
    # shellcheck disable=SC2086
    said=$("$costs" --choose "$root/examples/kernels/$file.tile" "$kernel" "$target" $rest)
    echo "$kernel $target $rest: ${said%, in *}"
done <"$here/problems.txt" >"$work/choices"
# The time of a choice is that of the configurations it compiles, up to 2 ms each on an old CPU. No limit is updated with the file.
awk -v each=160 -v all=1800 '{ sub(/.*, of /, ""); n += $1; if ($1 > each) bad = 1 }
    END { if (bad || n > all) { print "FAIL: " n " configurations are compiled in all, of at most " all " and " each " a problem"; exit 1 } }' \
    "$work/choices" || exit 1
[ "${UPDATE:-0}" = 1 ] && cp "$work/choices" "$here/choices.expected"
diff -u "$here/choices.expected" "$work/choices" || { echo "FAIL: other choices"; exit 1; }
