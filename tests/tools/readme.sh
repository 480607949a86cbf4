#!/bin/bash
# readme.sh: the commands of examples/README.md, from the root of the tree. tests/install/pages.sh runs those of README.md.
. "$(dirname "$0")/lib.sh"
ln -s "$root/examples" examples
n=0
while read -r line; do
    (eval "\"$tilec\" ${line#tilec }") >out 2>&1 </dev/null || fail "$line"$'\n'"$(cat out)"
    n=$((n + 1))
done < <(grep '^    tilec ' "$root/examples/README.md")
[ $n -ge 2 ] || fail "only $n command lines in examples/README.md"
finish
