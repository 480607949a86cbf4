#!/bin/bash
# sanitize.sh: compute-sanitizer reports nothing for attention and products: memory, races in shared memory,
# barriers, memory read before it was written. Ragged sizes, both code paths. all.sh runs the whole suite
# under one of these tools.
#     sanitize.sh TILEC SOURCE [COMPILER [cuda [TARGET [TOOL]]]]
. "$(dirname "$0")/lib.sh"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
    skip "no compute-sanitizer here"
check() {           # check TOOL WHAT ARGUMENTS...
    local tool=$1 out
    shift
    out=$("$@" "$sanitizer" --tool "$tool" --error-exitcode 9 2>&1) ||
        fail "$tool of $*:"$'\n'"$(echo "$out" | grep -v '^$' | head -${LINES_SHOWN:-12})"
}
for target in ${5:-cuda cuda:sm_80}; do
    for tool in ${6:-memcheck racecheck synccheck initcheck}; do
        check $tool attention $target 64 true 200 200
        check $tool attention $target 128 false 130 257
        check $tool gemm $target 200 264 136
    done
    [[ ${6:-memcheck} != memcheck ]] || check memcheck gemm $target 129 67 33   # rows that are not aligned
done
finish
