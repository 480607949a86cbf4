#!/bin/sh
# run.sh FILE TILE-OPT FILECHECK: runs the `// RUN:` lines of FILE as lit would: %s is the file, %s.err and %s.tmp are files of this run alone,
# %examples the example kernels, tile-opt and FileCheck the given programs.
file=$1 opt=$2 check=$3
export opt check
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
lines=$(sed -n 's,^// RUN: *,,p' "$file")
[ -n "$lines" ] || { echo "$file: no RUN line"; exit 1; }
printf '%s\n' "$lines" | sed "s,%s\.\(err\|tmp\),$work/\1,g; s,%s,$file,g; s,%examples,$(dirname "$file")/../../examples/kernels,g; s,tile-opt,\"\$opt\",g; s,FileCheck,\"\$check\",g" |
    sed -E 's/(^|; *)! ([^;|]*);/\1if \2; then exit 1; fi;/g' | while IFS= read -r line; do
    sh -ec "$line" || { echo "failed: $line"; exit 1; }
done
