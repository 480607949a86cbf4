#!/bin/sh
# run.sh FILE EMIT_TOOL FILECHECK: runs the `// RUN:` lines of FILE: %s is the file, %examples the example kernels.
file=$1 tool=$2 check=$3
export tool check
lines=$(sed -n 's,^// RUN: *,,p' "$file")
[ -n "$lines" ] || { echo "$file: no RUN line"; exit 1; }
printf '%s\n' "$lines" | sed "s,%s,$file,g; s,%examples,$(dirname "$file")/../../examples/kernels,g; s,%dir,$(dirname "$file"),g; s,emit_tool,\"\$tool\",g; s,FileCheck,\"\$check\",g" | while IFS= read -r line; do
    sh -c "$line" || { echo "failed: $line"; exit 1; }
done
