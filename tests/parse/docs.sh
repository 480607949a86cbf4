#!/bin/sh
# docs.sh TOOL SOURCE_DIR: docs/language.md against the language. Each ```tile block must check and every kernel of it lower; every
# operation of builtins.def must stand in one, and it and every public operation of ir/ops.def must have an entry (`### name` or a row that starts | `name`).
tool=$1
root=$2
page=$root/docs/language.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
status=0
awk -v dir="$dir" '
    /^```tile/ { n++; file = sprintf("%s/block%03d.tile", dir, n); printf "" > file; line = NR; print FILENAME ":" NR > (file ".where"); in_block = 1; next }
    /^```/ { in_block = 0 }
    in_block { print > file }
' "$page"
blocks=0
for file in "$dir"/block*.tile; do
    blocks=$((blocks + 1))
    if ! "$tool" all "$file" > "$dir/out" 2>&1; then
        echo "$(cat "$file.where"): this block does not compile:"
        cat "$dir/out"
        status=1
    fi
done
# An example of each, in a block that compiles.
has_example() { cat "$dir"/block*.tile | sed 's,//.*,,' | grep -q -E "(^|[^a-z0-9_])$1\("; }
has_entry() { grep -q -E "^(#+ .*|\| .*)\`$1(\`|\()" "$page"; }
for name in $(sed -n 's/^BUILTIN(\([a-z0-9_]*\),.*/\1/p' "$root/frontend/check/builtins.def"); do
    has_entry "$name" || { echo "docs/language.md has no entry for the operation $name"; status=1; }
    has_example "$name" || { echo "docs/language.md has no example of the operation $name"; status=1; }
done
# Operations of the tile IR: the page names each in the column `IR` or where the language spells it.
for name in $(sed -n '/KERNEL/!s/^[A-Z]*([A-Z0-9_]*, *"\([a-z0-9_]*\)".*/\1/p' "$root/ir/ops.def"); do
    grep -q -E "\`$name(\`|\()" "$page" || { echo "docs/language.md does not say how the IR operation $name is written"; status=1; }
done
[ "$blocks" -ge 12 ] || { echo "only $blocks blocks in docs/language.md"; status=1; }
exit $status
