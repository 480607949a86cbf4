#!/bin/bash
# quick.sh CTEST BUILD SOURCE: every line of .ci/quick matches a test.
ctest=$1 build=$2 list=$3/.ci/quick
names=$("$ctest" --test-dir "$build" -N | sed -n 's/^ *Test *#[0-9]*: //p')
lines=0 bad=0
while IFS= read -r line; do
    line=${line%%#*}
    [ -n "${line// /}" ] || continue
    lines=$((lines + 1))
    grep -qxE -- "$line" <<<"$names" || { echo "no test matches: $line"; bad=1; }
done <"$list"
[ $lines -ge 10 ] && [ $bad = 0 ] && echo "$lines lines"
