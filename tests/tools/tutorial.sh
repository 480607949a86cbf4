#!/bin/bash
# tutorial.sh: docs/tutorial.md, line by line (page.sh).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/page.sh"
page=$root/docs/tutorial.md
mkdir bin && ln -s "$tilec" bin/tilec && export PATH=$work/bin:$PATH
cc() { command "$cc" "$@"; }
run_page "$page"
while read -r file; do [ -e "$root/docs/$file" ] || fail "the page names $file"; done < \
    <(grep -oE '\]\([^)#]*\)' "$page" | tr -d ']()' | grep -v '^https')
echo "$commands commands, $compared outputs"
[ "$commands" -ge 15 ] && [ "$compared" -ge 8 ] || fail "only $commands commands and $compared outputs"
finish
