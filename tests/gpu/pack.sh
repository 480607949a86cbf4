#!/bin/bash
# pack.sh BUILD OUT: a folder to carry to a machine with a GPU that has neither compiler nor source: programs,
# kernels and scripts in one archive, and go.sh, which unpacks it and runs all.sh: go.sh [SECONDS [PATTERN]];
# '^(ops|random)' is the longer half of the work. BUILD: a build folder, best without the CPU backend
# (-DTILE_ENABLE_CPU=OFF: a tenth of the size).
set -eu
build=$1 out=$2 source=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/src/tests" "$work/src/examples"
for p in tests/run/tile_{run_test,ops_test,random_test,random_queue,functions_test,used_names} \
    tests/run/test_far tests/api/test_api_gpu tests/gpu/tile_gpu_timing tools/tilec; do
    strip -o "$work/bin/$(basename $p)" "$build/$p"
done
ldd "$build/tests/api/test_api_gpu" | awk '/libcunit/ { print $3 }' | xargs -I{} cp {} "$work/bin/"
cp -r "$source/examples/kernels" "$source/examples/bundle" "$work/src/examples/"
cp -r "$source/tests/gpu" "$work/src/tests/"
mkdir -p "$work/src/tests/run"
cp -r "$source/tests/run/finds" "$source/tests/run/kernels" "$work/src/tests/run/"
tar -C "$work" -cJf "$out/all.tar.xz" bin src
cat > "$out/go.sh" <<'GO'
# seconds: 95
work=$(mktemp -d) && tar -C "$work" -xJf all.tar.xz &&
    bash "$work/src/tests/gpu/all.sh" "$work/bin" "$work/src" "${1:-85}" "${2:-.}"
status=$?
rm -rf "$work"
exit $status
GO
