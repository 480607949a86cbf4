#!/bin/bash
# carry.sh BUILD OUT [SECONDS [PATTERN]]: `ctest -L gpu` of a build folder, carried to a machine that has a
# GPU and ctest and neither compiler nor source: one archive, and go.sh, which puts what it holds under paths
# that the build knows (a link, where nothing is) and runs the tests whose names match. BUILD: a build folder,
# best without the CPU backend (-DTILE_ENABLE_CPU=OFF: a tenth of the size).
set -eu
build=$(cd "$1" && pwd) out=$2 seconds=${3:-120} pattern=${4:-.} source=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $build in "$source"/*) ;; *) echo "carry.sh: $build is not inside of $source"; exit 2 ;; esac
inner=${build#"$source"/}
for p in tests/run/tile_{run,ops,random}_test tests/run/test_far tests/api/test_api_gpu \
    tests/gpu/tile_gpu_timing tools/tilec; do
    mkdir -p "$work/src/$inner/$(dirname $p)"
    strip -o "$work/src/$inner/$p" "$build/$p"
done
(cd "$build" && find . -name CTestTestfile.cmake -exec cp --parents {} "$work/src/$inner/" \;)
mkdir -p "$work/src/lib" "$work/src/tests" "$work/src/examples"
ldd "$build/tests/api/test_api_gpu" | awk '/libcunit/ { print $3 }' | xargs -I{} cp {} "$work/src/lib/"
cp -r "$source/examples/kernels" "$source/examples/bundle" "$work/src/examples/"
cp -r "$source/tests/gpu" "$work/src/tests/"
mkdir -p "$work/src/tests/run" && cp -r "$source/tests/run/kernels" "$work/src/tests/run/"
tar -C "$work" -cJf "$out/all.tar.xz" src
cat > "$out/go.sh" <<GO
# seconds: $seconds
work=\$(mktemp -d) && tar -C "\$work" -xJf all.tar.xz && mkdir -p "$(dirname "$source")" &&
    ln -sT "\$work/src" "$source" || { echo "$source cannot be made here"; exit 1; }
export LD_LIBRARY_PATH=\$work/src/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
mkdir -p "\${OUT:-.}"
stop=\$(date -d "+$((seconds - 8)) sec" +%H:%M:%S)
timeout -s INT $((seconds - 2)) ctest --test-dir "$build" -L gpu -R "$pattern" --stop-time "\$stop" \
    -j "\$(nproc)" --output-on-failure -O "\${OUT:-.}/ctest.txt" > /dev/null 2>&1
grep -E "FAIL|Assert|rror" "\${OUT:-.}/ctest.txt" | cut -c1-300 | head -40
awk '/Passed/ { print \$(NF - 1), \$4 }' "\${OUT:-.}/ctest.txt" | sort -rn | head -12 | tr '\n' ';'; echo
grep -c Skipped "\${OUT:-.}/ctest.txt" | sed 's/\$/ lines of skipped tests/'
sed -n '/% tests passed/,\$p' "\${OUT:-.}/ctest.txt" | grep -v hip
status=\$(grep -q "100% tests passed" "\${OUT:-.}/ctest.txt"; echo \$?)
rm "$source"
rm -rf "\$work"
exit \$status
GO
