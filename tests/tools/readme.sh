#!/bin/bash
# readme.sh: the kernel and the command lines of README.md do what it says.
. "$(dirname "$0")/lib.sh"
sed -n '/^```c$/,/^```$/p' "$root/README.md" | sed '1d;$d' >rows.tile
[ -s rows.tile ] || fail "no kernel in README.md"
n=0
while read -r line; do
    line=${line%%   *}              # the comment behind it
    (eval "\"$tilec\" ${line#tilec }") >out 2>&1 </dev/null || fail "$line"$'\n'"$(cat out)"
    n=$((n + 1))
done < <(grep '^tilec .*rows' "$root/README.md")
[ $n -ge 4 ] || fail "only $n command lines found"
for f in rows.o rows.h rows.cu y.npy; do [ -s $f ] || fail "$f is missing"; done
while read -r file; do [ -e "$root/$file" ] || fail "README.md names $file"; done < <(grep -oE '\]\([^)]*\)' "$root/README.md" | tr -d ']()')
# examples/README.md: its commands, from the root of the tree.
ln -s "$root/examples" examples
n=0
while read -r line; do
    (eval "\"$tilec\" ${line#tilec }") >out 2>&1 </dev/null || fail "$line"$'\n'"$(cat out)"
    n=$((n + 1))
done < <(grep '^    tilec ' "$root/examples/README.md")
[ $n -ge 2 ] || fail "only $n command lines in examples/README.md"
finish
