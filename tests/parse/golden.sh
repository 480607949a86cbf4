#!/bin/sh
# golden.sh TOOL FILE.tile: runs each `// run: MODE ARGS` line of the file through TOOL and compares everything it prints with
# FILE.expected. UPDATE=1 writes FILE.expected instead.
tool=$1
file=$2
expected=${file%.tile}.expected
actual=$(mktemp)
trap 'rm -f "$actual"' EXIT
sed -n 's,^// run: ,,p' "$file" | while read -r mode args; do
    echo "== $mode $args"
    # shellcheck disable=SC2086
    "$tool" "$mode" "$file" $args
    echo "== exit $?"
done > "$actual" 2>&1
if [ -n "$UPDATE" ]; then cp "$actual" "$expected"; exit 0; fi
diff -u "$expected" "$actual"
