#!/bin/bash
# format.sh SOURCE_FOLDER CLANG_FORMAT: all C is as clang-format 22 leaves it with the tree's .clang-format.
# FIX=1 formats it. Golden texts are emitted and stay as they are.
set -u
cd "$1" || exit 2
command -v "$2" >/dev/null || { echo "SKIP: no clang-format-22"; exit 77; }
git rev-parse --git-dir >/dev/null 2>&1 || { echo "SKIP: no git checkout"; exit 77; }
files() { git ls-files '*.c' '*.h' | grep -v '^tests/emit/golden/'; }
if [ "${FIX:-0}" = 1 ]; then files | xargs -n 40 "$2" -i; exit; fi
files | xargs -n 40 "$2" --dry-run --Werror 2>&1 | grep -E 'error:' | sort -u -t: -k1,1 | head -20 | tee /dev/stderr | grep -q . || exit 0
echo "FAIL: FIX=1 bash tests/structure/format.sh . clang-format-22 formats them" >&2
exit 1
