#!/bin/bash
# collected.sh ROOT CTEST: a file of tests, as .ci/tests.awk copies it for the run over several builds, has the
# same commands under other names: arguments with line breaks, labels, and tests that only= chooses.
root=$1 ctest=$2
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT && mkdir "$dir/build" || exit 1
fail() { printf 'FAIL: %s\n' "$1"; cat "$dir/out"; exit 1; }
cat >"$dir/CTestTestfile.cmake" <<'END'
add_test([=[lines]=] "sh" "-c" "x=three
  y=\$x
[ \$y = three ] && [ \${PWD##*/} = build ]")
set_tests_properties([=[lines]=] PROPERTIES  _BACKTRACE_TRIPLES "a;1;add_test;a;0;")
add_test(labelled "sh" "-c" "[ \${PWD##*/} = build ]")
set_tests_properties(labelled PROPERTIES  LABELS "gpu;chosen" _BACKTRACE_TRIPLES "a;2;add_test;a;0;")
END
collect() { # ONLY
    mkdir -p "$dir/all"
    awk -v prefix=copy -v only="$1" -v folder="$dir/build" -f "$root/.ci/tests.awk" "$dir/CTestTestfile.cmake" \
        >"$dir/all/CTestTestfile.cmake"
    (cd "$dir/all" && "$ctest" --no-tests=error) >"$dir/out" 2>&1
}
collect '' && [ "$(grep -c 'copy[.].* Passed' "$dir/out")" = 2 ] || fail "two tests"
collect chosen && [ "$(grep -c 'copy[.]labelled .* Passed' "$dir/out")" = 1 ] &&
    ! grep -q 'copy[.]lines' "$dir/out" || fail "those with a label"
collect -chosen && [ "$(grep -c 'copy[.]lines .* Passed' "$dir/out")" = 1 ] &&
    ! grep -q 'copy[.]labelled' "$dir/out" || fail "those without a label"
echo "three collections as expected"
