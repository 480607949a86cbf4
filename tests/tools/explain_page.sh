#!/bin/bash
# explain_page.sh: every command of docs/explain.md runs as it stands there, and writes the files that it names.
. "$(dirname "$0")/lib.sh"
ln -sf "$root/examples" examples
n=0
while read -r line; do
    set -- $line
    shift
    "$tilec" "$@" -o out.txt || fail "$line"
    [ -s out.txt ] || fail "$line: prints nothing"
    for file in $(grep -oE '[a-z]+\.(svg|html)' <<<"$line"); do [ -s "$file" ] || fail "$line: no $file"; done
    n=$((n + 1))
done < <(awk '/^```sh/ { on = 1; next } /^```/ { on = 0 } on' "$root/docs/explain.md")
[ "$n" -ge 8 ] || fail "only $n commands in docs/explain.md"
[ -s map.svg ] && [ -s access.svg ] || fail "KIND alone writes no KIND.svg"
finish
