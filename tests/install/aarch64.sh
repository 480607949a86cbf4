#!/bin/bash
# aarch64.sh CMAKE BUILD SOURCE: libtile with its JIT on AArch64. It takes Debian's arm64 packages of LLVM and CUnit
# apart in a folder, builds libtile and its API tests with aarch64-linux-gnu-gcc against them, and runs the tests and
# a part of the examples by qemu-aarch64.
#
# It takes the network, 200 MB and about ten minutes of processor time, so it runs only if TILE_AARCH64 is set: to
# `packages`, or to a folder where the packages lie in pieces already (usr/lib/aarch64-linux-gnu in it).
#
# Not run: test_api_fork, because qemu's user mode cannot fork a process of several threads, and test_api_tune, whose
# measured launches take minutes there.
cmake=$1 build=$2 source=$3
set -u
skip() { echo "SKIP: $*"; exit 77; }
fail() { echo "FAIL: $*"; exit 1; }
[ -n "${TILE_AARCH64:-}" ] || skip "set TILE_AARCH64=packages: it fetches packages and takes minutes"
for tool in aarch64-linux-gnu-gcc qemu-aarch64 apt-get dpkg-deb ninja; do
    command -v $tool >/dev/null || skip "no $tool"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$TILE_AARCH64
if [ "$root" = packages ]; then
    root=$work/root
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/packages" "$root"
    : >"$work/status"
    apt=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Debug::NoLocking=1 -o "Dir::Cache=$work/cache"
        -o "Dir::State::lists=$work/lists" -o "Dir::State::status=$work/status")
    apt-get "${apt[@]}" update >"$work/log" 2>&1 || skip "no arm64 packages: $(tail -1 "$work/log")"
    mapfile -t names < <(apt-get "${apt[@]}" -s --no-install-recommends install libllvm22 libcunit1-dev \
        2>"$work/log" | awk '/^Inst/ { print $2 }')
    ((${#names[@]})) || skip "LLVM 22 for arm64 does not install: $(tail -1 "$work/log")"
    (cd "$work/packages" && apt-get "${apt[@]}" download "${names[@]}") >"$work/log" 2>&1 ||
        skip "a package does not come: $(tail -1 "$work/log")"
    for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$root" || fail "$package"; done
fi
root=$(cd "$root" 2>/dev/null && pwd) || fail "no folder $TILE_AARCH64"
libraries=$root/usr/lib/aarch64-linux-gnu
llvm=$(echo "$libraries"/libLLVM.so.22.*)
[ -e "$llvm" ] || fail "no LLVM 22 in $libraries"
# CUnit apart from the rest: the C library that is linked is the cross compiler's.
mkdir -p "$work/include" "$work/lib"
ln -s "$root/usr/include/CUnit" "$work/include/CUnit"
cp "$libraries"/libcunit.* "$work/lib"
printf 'set(%s)\n' "CMAKE_SYSTEM_NAME Linux" "CMAKE_SYSTEM_PROCESSOR aarch64" \
    "CMAKE_C_COMPILER aarch64-linux-gnu-gcc" >"$work/toolchain.cmake"
links="-Wl,-rpath-link,$libraries -Wl,-rpath-link,$root/lib/aarch64-linux-gnu"
"$cmake" -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    "-DCMAKE_TOOLCHAIN_FILE=$work/toolchain.cmake" "-DLLVM_LIBRARY=$llvm" \
    "-DCMAKE_C_FLAGS=-isystem $work/include" "-DCMAKE_EXE_LINKER_FLAGS=-L$work/lib $links" \
    "-DCMAKE_SHARED_LINKER_FLAGS=$links" >"$work/log" 2>&1 ||
    fail "cmake: $(tail -20 "$work/log")"
tests="async cache choice cpu float kernel launch memo oom optional signature stack team threads"
# shellcheck disable=SC2046
"$cmake" --build "$work/build" --target $(printf 'test_api_%s ' $tests) tile_run_test >"$work/log" 2>&1 ||
    fail "build: $(tail -20 "$work/log")"
failures=0
run() {
    if qemu-aarch64 -L "$root" "$@" >"$work/log" 2>&1; then echo "$(basename "$1"): as expected"
    else echo "FAIL: $*: $(tail -20 "$work/log")"; failures=$((failures + 1)); fi
}
cd "$work" || exit 1
for name in $tests; do run "$work/build/tests/api/test_api_$name"; done
run "$work/build/tests/run/tile_run_test" --device=cpu --light --passes=on --share=5/32
exit $((failures > 0))
