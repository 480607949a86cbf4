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
# lines of an imported file are not marked as lines of the source
printf '\n\n\nfn twice(x) { return x + x; }\n' >twice.tile
printf 'import "twice.tile";\nkernel k(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 128))\n{ store(Y[program_id()*128 +: 128], twice(load(X[program_id()*128 +: 128]))); }\n' >imports.tile
"$tilec" explain imports.tile --target=cuda:sm_90a --html=imports.html -o /dev/null || fail "a page of a file that imports"
grep -q 'data-l="3".* load ' imports.html || fail "imports.html: no instruction of line 3"
grep -q 'data-l="4"' imports.html && fail "imports.html marks a line of twice.tile"
finish
