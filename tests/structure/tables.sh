#!/bin/bash
# tables.sh SOURCE_FOLDER: every row of the compiler's tables has its text in a document, and every card and target what tests and the choice
# need of it. UPDATE=1 writes the table of docs/device-model.md again.
set -u
cd "$1" || exit 2
git rev-parse --git-dir >/dev/null 2>&1 || { echo "SKIP: no git checkout"; exit 77; }
failures=0
fail() { echo "FAIL $1"; failures=$((failures + 1)); }
counted() { [ "$1" -ge "$2" ] || fail "only $1 rows of $3 found"; }         # the tables still read as this script reads them

# Hints: a row of the table in docs/language.md, and a name that a tune block may list.
section() { awk -v at="^## [0-9]+\\. $1\$" '/^## / { inside = $0 ~ at } inside' docs/language.md; }
n=0
for hint in $(sed -nE 's/^HINT\(([a-z_0-9]+),.*/\1/p' ir/hints.def); do
    n=$((n + 1))
    section Hints | grep -qE "^\|.*\`$hint( = [^\`]*)?\`" || fail "the table of hints in docs/language.md has no row for $hint (ir/hints.def)"
    section 'instantiate and tune' | grep -qE "\`$hint\`" || fail "docs/language.md does not say that a tune block may list $hint"
done
counted $n 11 ir/hints.def
for hint in $(sed -nE 's/^HINT\(([a-z_0-9]+),.*/\1/p' ir/hints.def); do
    git grep -qE "hints(\.|->)$hint\b|\bh(\.|->)$hint\b" -- passes backends frontend ||
        fail "no pass reads the hint $hint (ir/hints.def)"
done
for hint in $(sed -nE 's/^HINT\(([a-z_0-9]+),.*, KERNEL\).*/\1/p' ir/hints.def); do
    git grep -qE "hints(\.|->)$hint\b|\bh(\.|->)$hint\b" -- frontend passes/tile &&
        fail "$hint is for the kernel IR alone (ir/hints.def), but the front end or a pass of the tile IR reads it"
done
for hint in $(section Hints | sed -nE 's/^\| `([a-z_]+) = [a-z0-9]+` \| `hint \(\.\.\.\)`.*/\1/p'); do
    grep -qE "^HINT\($hint," ir/hints.def || fail "docs/language.md has a hint $hint, but ir/hints.def has not"
done

# Decisions of schedules: each form begins an entry of docs/schedule.md.
n=0
while IFS=$'\t' read -r word forms; do
    n=$((n + 1))
    while read -r form; do
        grep -qE "\`$word( [A-Z1])? $(sed -E 's/\<N\>/[A-Z0-9]+/g' <<<"$form")\`" docs/schedule.md || fail "docs/schedule.md has no entry for \`$word $form\`"
    done < <(tr '|' '\n' <<<"$forms")
done < <(sed -nE 's/^DECISION\([A-Z_]+, *"([^"]+)", *[A-Z]+, *"([^"]+)".*/\1\t\2/p' passes/kernel/schedule/schedule.def)
counted $n 16 passes/kernel/schedule/schedule.def

# Environment variables of tilec's own: one row each of docs/embedding.md, "Environment variables".
variables=$(git grep -hoE '(getenv|environ(\.get\(|\[))[^;]*' -- frontend ir passes backends runtime tools 'bindings/python/tile' | grep -oE '"TILE_[A-Z_]+"' | tr -d '"' | sort -u)
counted "$(wc -w <<<"$variables")" 12 'the code: variables that getenv reads'
listed=$(awk '/^## / { inside = /^## Environment variables/ } inside' docs/embedding.md | sed -nE 's/^\| (`TILE_[^|]*)\|.*/\1/p' | grep -oE 'TILE_[A-Z_]+' | sort)
diff <(echo "$variables") <(echo "$listed") || fail "docs/embedding.md, \"Environment variables\", does not have one row for each variable that the code reads (<)"

# Options of the build: one row each of docs/testing.md.
options=$(sed -nE 's/^(option|set)\((TILE_[A-Z_]+) .*(ON|OFF|CACHE .*)\)$/\2/p' CMakeLists.txt)
counted "$(wc -w <<<"$options")" 5 'CMakeLists.txt: options'
for option in $options; do
    grep -qE "^\| \`$option\` \|" docs/testing.md || fail "docs/testing.md has no row for the build's option $option"
done
# Environment variables of the tests: in a row of docs/testing.md.
of_tests=$(git grep -hoE 'getenv\("TILE_[A-Z_0-9]+' -- 'tests/*.c' | grep -oE 'TILE_.*' | sort -u)
counted "$(wc -w <<<"$of_tests")" 8 'tests: variables that getenv reads'
for variable in $of_tests; do
    grep -qE "^\|.*\`$variable\`" docs/testing.md docs/embedding.md || fail "neither docs/testing.md nor docs/embedding.md has a row for $variable"
done

# Fields of the device model: the generated page. Where a value was fitted is said in bench/notes/choice.md.
page=docs/device-model.md
make_page() { awk -f runtime/choice/estimate/device_fields.awk runtime/choice/models/h100.model runtime/choice/estimate/device_model.def; }
if [ -n "${UPDATE:-}" ]; then make_page >$page; fi
make_page | diff $page - || fail "$page is not what runtime/choice/estimate/device_model.def says: UPDATE=1 bash tests/structure/tables.sh ."
counted "$(grep -cE '^(FIELD|CARD)\(' runtime/choice/estimate/device_model.def)" 90 runtime/choice/estimate/device_model.def
for field in $(sed -nE 's/^(FIELD|CARD)\(([a-z0-9_]+),.*/\2/p' runtime/choice/estimate/device_model.def); do
    git grep -qE "(\.|->)$field\b" -- 'runtime/*.c' || fail "nothing in runtime reads the field $field (device_model.def)"
done
while read -r found; do
    case $found in together | 'data sheet' | chosen) continue ;; esac
    awk '/^## / { inside = /^## The model of the choice/ } inside' bench/notes/choice.md | grep -qE "^- $found" ||
        fail "bench/notes/choice.md, \"The model of the choice\", has no paragraph that begins with \"$found\" (runtime/choice/estimate/device_model.def)"
done < <(sed -nE 's/^(FIELD|CARD)\([a-z0-9_]+, *"([^"]+)".*/\2/p' runtime/choice/estimate/device_model.def | sort -u)

# Device models: each file is compiled in, for targets that exist, and serves all of NVIDIA's.
targets=$(sed -nE 's/^TARGET\("([^"]+)".*/\1/p' ir/target/targets.def)
counted "$(wc -w <<<"$targets")" 14 ir/target/targets.def
models=$(sed -nE 's/^foreach\(model (.*)\)/ \1 /p' runtime/choice/choice.cmake)
for model in runtime/choice/models/*.model; do
    name=${model##*/} name=${name%.model}
    [[ $models == *" $name "* ]] || fail "$model is not in the list of runtime/choice/choice.cmake"
    for target in $(sed -n 's/^targets *//p' "$model"); do
        grep -qxF "$target" <<<"$targets" || fail "$model: ir/target/targets.def has no target $target"
    done
done
for target in $(grep '^cuda:' <<<"$targets"); do
    grep -qE "^targets .*$target( |\$)" runtime/choice/models/*.model || fail "no file of runtime/choice/models is for $target: a launch there takes the declared configuration"
done

# Targets: qemu-aarch64 runs the CPU that is not this one (tests/run); the emulators run one with the same matrix unit, LDS and features.
kind_of() { sed -nE "s/^TARGET\(\"$1\",.*, *([A-Z0-9]+), *([A-Z0-9]+), *([A-Z0-9_|]+)\)\$/\1 \2 \3/p" ir/target/targets.def; }
emulated=$(for target in $targets; do
    grep -q "{ \"one_${target#*:}\"," tests/emu/executors.c && kind_of "$target"
done)
for target in $targets; do
    [[ $target = cpu* ]] || grep -qxF "$(kind_of "$target")" <<<"$emulated" ||
        fail "no machine of tests/emu/executors.c has what $target has: $(kind_of "$target")"
done
counted "$(sort -u <<<"$emulated" | wc -l)" 8 tests/emu/executors.c

[ $failures = 0 ] && echo "every row has its text"
exit $((failures > 0))
