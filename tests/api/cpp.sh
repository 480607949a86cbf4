#!/bin/bash
# cpp.sh COMPILER INCLUDE LIBRARY SOURCE: compiles a C++ program with the sanitizers and runs it.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags="-std=c++17 -Wall -Wextra -Wpedantic -Werror"
echo 'int main() {}' >"$work/empty.cc"
if "$1" -fsanitize=address,undefined "$work/empty.cc" -o "$work/empty" 2>/dev/null && "$work/empty"; then
    flags+=" -fsanitize=address,undefined"
fi
# shellcheck disable=SC2086
"$1" $flags "$4" -I "$2" "$3" -Wl,-rpath,"$(dirname "$3")" -o "$work/program"
"$work/program"
