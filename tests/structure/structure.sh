#!/bin/bash
# structure.sh SOURCE_FOLDER [--list]: rules about the shape of the source tree that no compiler checks.
#
# Each rule finds places in the tree and has a limit in limits.txt. A rule fails when it finds more places than
# its limit, and also when it finds fewer, so that a limit is lowered by the change that made it possible and
# never rises again. --list prints every place.
set -u
cd "$1" || exit 2
list=${2:-}
limits=tests/structure/limits.txt
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
git rev-parse --git-dir >/dev/null 2>&1 || { echo "SKIP: no git checkout"; exit 77; }

c_files() { git ls-files '*.c' '*.h' "$@"; }
compiler_files() { git ls-files 'ir/*.[ch]' 'frontend/*.[ch]' 'passes/*.[ch]' 'backends/*.[ch]' 'runtime/*.[ch]' 'tools/*.[ch]'; }

# rule NAME WHAT: the places come in on standard input, one a line. Rules run at the end of pipelines, in shells
# of their own, so a file holds the names of those that failed.
rule() {
    local name=$1 what=$2 found limit
    cat >"$work/$name"
    found=$(wc -l <"$work/$name")
    limit=$(awk -v n="$name" '$1 == n { print $2 }' $limits)
    [ -n "$list" ] && sed "s/^/$name: /" "$work/$name"
    if [ -z "$limit" ]; then
        echo "FAIL $name has no limit in $limits (found $found)"
    elif ((found > limit)); then
        echo "FAIL $name: $what: found $found, the limit is $limit; the first places:"
        head -12 "$work/$name"
    elif ((found < limit)); then
        echo "FAIL $name: found $found, the limit is $limit: lower it in $limits"
    else
        echo "ok   $name: $found"
        return
    fi
    echo "$name" >>"$work/failed"
}

c_files | xargs awk 'FNR == 1 { line = 0 } length($0) > 110 { print FILENAME ":" FNR ": " length($0) }' |
    rule long-lines "lines of C over 110 columns"

# Prose outside of tables and blocks of code. Some awks count bytes: only the first byte of a character of UTF-8 counts.
git ls-files '*.md' | LC_ALL=C xargs awk 'FNR == 1 { code = 0 } /^ *```/ { code = !code; next }
    !code && !/^ *\|/ { text = $0; gsub(/[\200-\277]/, "", text); if (length(text) > 110) print FILENAME ":" FNR ": " length(text) }' |
    rule long-prose "lines of prose over 110 columns"

# Exceptions: the public header stays one file, because a program includes all of it and its readers search one place.
c_files | grep -vxE 'runtime/include/tile/tile\.h' | xargs wc -l | awk '$2 != "total" && $1 > 500 { print $2 ": " $1 }' |
    rule long-files "files of over 500 lines"

# A function begins with a brace in the first column and ends with one.
compiler_files | xargs awk '/^\{/ { begin = FNR } /^\}/ && begin { if (FNR - begin - 1 > 60) print FILENAME ":" begin ": " FNR - begin - 1; begin = 0 }
    FNR == 1 { begin = /^\{/ }' |
    rule long-functions "functions of over 60 lines"

# -Werror=switch-enum sees through no cast, and through no integer variable that an enum is copied to.
integer='(int|unsigned|long|short|size_t|u?int(8|16|32|64)_t)'
{
    c_files | xargs grep -nE "switch \(\((const )?$integer( int)?\)"
    c_files | xargs awk -v integer="$integer" '
        FNR == 1 || /^\}/ { delete copy }
        match($0, "(^|[(, ])" integer " +[a-z_]+ = [^;]*(->|\\.)(op|kind|dtype|family)[^a-z_(]") ||
        match($0, "(^|[(, ])" integer " +(op|kind|dtype|family)[,);]") {
            name = substr($0, RSTART, RLENGTH); sub(/ = .*/, "", name); gsub(/[,);]/, "", name); sub(/.* /, "", name); copy[name] = 1
        }
        match($0, /switch \([a-z_]+\)/) {
            name = substr($0, RSTART + 8, RLENGTH - 9)
            if (name in copy) print FILENAME ":" FNR ":" $0
        }'
} | rule enum-casts "switches over an enum that a cast or an integer keeps from being checked"

# Devices are described by tables (ir/target/targets.def, ir/target/matrix.def, runtime/choice/models, runtime/drivers/gpu_facts.h); the code asks for a field.
# Comments and texts are left out: they may explain a number.
code() {
    awk 'FNR == 1 { inside = 0 } {
        out = ""; rest = $0
        gsub(/\\"/, "", rest); gsub(/"[^"]*"/, "\"\"", rest)
        while (rest != "") {
            at = index(rest, inside ? "*/" : "/*")
            if (!inside) out = out (at ? substr(rest, 1, at - 1) : rest)
            if (!at) break
            rest = substr(rest, at + 2); inside = !inside
        }
        if (out ~ /[^ ]/) print FILENAME ":" FNR ": " out }' "$@"
}
sizes='65536|232448|233472|101376|102400|166912|167936|163840|131072|196608'    # registers and shared memory of a multiprocessor or CTA
limits_of_threads='255|256|512|1024|1536|2048'                                  # registers of a thread, threads of a CTA or multiprocessor
about='wave|warps|threads|registers|ctas'
device_literals() {
    grep -E ": .*(\b($sizes|0x90a|0x942|0x950|0x1100)\b|\barch *[=!<>]=? *[0-9]|\b(48|99|100|163|164|227|228) *(\* *1024|<< *10)\b)|: .*\b($limits_of_threads)\b.*\b($about)\b|: .*\b($about)\b.*\b($limits_of_threads)\b"
}
# What the rule must find, and what it must not: lines that begin with + and -.
sed -n 's/^+ //p' tests/structure/device_literals.txt >"$work/real.c"
sed -n 's/^- //p' tests/structure/device_literals.txt >"$work/other.c"
[ "$(code "$work/real.c" | device_literals | wc -l)" = "$(wc -l <"$work/real.c")" ] && [ -s "$work/real.c" ] &&
    [ "$(code "$work/other.c" | device_literals | wc -l)" = 0 ] ||
    { echo "FAIL device-literals: the rule and tests/structure/device_literals.txt disagree"; echo device-literals >>"$work/failed"; }
code $(compiler_files | grep -vE '^ir/target/target\.[ch]$|^runtime/drivers/gpu_facts\.h$|^tools/tilec/') | device_literals |
    rule device-literals "numbers of a device outside of its table"

# one_heading PASS: docs/passes.md has exactly one heading of its name
one_heading() { [ "$(grep -cE "^##+ $1\$" docs/passes.md)" = 1 ] || echo "$1: not exactly one heading in docs/passes.md"; }

# The passes of the tile IR: file = name = test = heading and row of docs/passes.md.
sed -nE 's/^PASS\([A-Z0-9_]+, *"([^"]+)".*/\1/p' passes/passes.def | while read -r pass; do
    file=${pass//-/_}
    [ -n "$(git ls-files "passes/tile/*/$file.c")" ] || echo "$pass: no file $file.c below passes/tile"
    [ -f "tests/passes/$file.ir" ] || echo "$pass: no test tests/passes/$file.ir"
    grep -q "^| $pass |" docs/passes.md || echo "$pass: no row in docs/passes.md"
    one_heading "$pass"
    id=${file^^}
    grep -qE "^ *PASS_$id,$" passes/tile/pipeline.c || echo "$pass: no PASS_$id in the pipeline of passes/tile/pipeline.c"
done | rule tile-passes "tile passes whose file, test or row has another name"

# The passes of the kernel IR and their steps, likewise. lower.c runs a pass, and the enclosing pass asks for a step.
sed -nE 's/^KERNEL_(PASS|STEP)\([A-Z0-9_]+, *"([^"]+)".*/\1 \2/p' passes/passes.def | while read -r kind pass; do
    file=${pass//-/_}
    [ -n "$(git ls-files "passes/kernel/$file.c" "passes/kernel/*/$file.c")" ] || echo "$pass: no file $file.c below passes/kernel"
    [ -f "tests/passes/kernel/$file.ir" ] || echo "$pass: no test tests/passes/kernel/$file.ir"
    one_heading "$pass"
    id=${file^^}
    if [ "$kind" = PASS ]; then
        grep -qE "\bRUN\($id\)" passes/kernel/lower.c || echo "$pass: no RUN($id) in passes/kernel/lower.c"
    else
        git grep -qw "PASS_$id" -- 'passes/kernel/*.c' 'backends/*.c' || echo "$pass: nothing asks for PASS_$id"
    fi
done | rule kernel-passes "kernel passes whose file, test or heading has another name"

# The emitter knows its expressions as data (docs/emitter.md) and reads no text that it has made. Exceptions: emit_body.c prints marks, and
# emit_names.c reads formats and names. Other lines may read the program, a message, a schedule or an attribute.
git ls-files 'backends/gpu/*emit*.[ch]' | grep -vE '/emit_(body|names)\.c$' |
    xargs grep -nE "\b(strto[a-z]+|ato[a-z]+|sscanf|strn?cmp|strr?chr|strstr|strspn|strcspn|strpbrk|strlen|irtext_[a-z_]+)\(|[=!<>]=? '" |
    grep -vE 'src->text|\*message|schedule|ATTR_' | rule emitted-text "places where the emitter reads text that it has made"

# What a backend does for the operands of wgmma, it does for wgmma_promoted too: op_is_wgmma (ir/op.h) asks for either. Exceptions: the
# emitters of the two operations, sums in flight, and pointers that loops keep, for which promoted sums leave no registers.
git ls-files 'backends/gpu/*.[ch]' | grep -vE '/(emit_wgmma|emit_hopper|emit_loop|emit_along)\.c$' |
    xargs grep -nE '\bOP_WGMMA\b' | grep -v 'OP_WGMMA_PROMOTED' |
    rule wgmma-alone "places of a backend that know wgmma and not wgmma_promoted"

# Decisions are enums and fields, not text that code compares.
hints=$({ sed -nE 's/^HINT\(([a-z_0-9]+),.*/\1/p' ir/hints.def; sed -nE 's/^FORMER\(HINT, *"([^"]+)".*/\1/p' ir/former_names.def; } | paste -sd'|')
compiler_files | grep -E '^(runtime|passes)/' | xargs grep -nE "strcmp\([^)]*\"($hints)\"" |
    rule compared-hints "hints that are known by their text"

# The choice asks the card (CostDevice, device_model.h), not the row of the target, which describes the largest common part.
c_files | grep '^runtime/choice/' | grep -v '/device_model\.' | xargs grep -nE 'device_of_target|\b(t|target)->(n_sms|l2_bytes|shared_bytes)\b' |
    rule target-figures "figures of a target's row in the choice, where those of the card are meant"

bash tests/structure/former.sh . | rule former-names "former names of hints, passes or words of schedules"

# Private words: as a part of an identifier in snake_case, CAPITALS or CamelCase, one or several, and of the name of a file.
words=$(sed -nE 's/^([a-z]+) .*/\1/p' tests/structure/private_names.txt | paste -sd'|')
capital=$(tr '|' '\n' <<<"$words" | sed -E 's/^./\u&/' | paste -sd'|')
{
    code $(compiler_files | grep -v "^tools/"; git ls-files 'ir/*.def' 'passes/*.def' 'runtime/*.def' | grep -v '^ir/former_names\.def$') |
        grep -E ": .*(\b|_)(($words)(s|es)?|(${words^^})(S|ES)?)(_|\b)|: .*\b([A-Z][a-z0-9]+)*($capital)(s|es)?([A-Z]|\b)"
    git ls-files ir frontend passes backends runtime | grep -E "(^|[/_])($words)s?[_.]"
} | rule private-names "private words where docs/glossary.md has one of the field"

c_files | xargs grep -nE '\b(TODO|FIXME|XXX|HACK)\b' | rule unfinished "marks of unfinished work"

[ ! -e "$work/failed" ]
