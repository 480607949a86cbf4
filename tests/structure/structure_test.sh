#!/bin/bash
# structure_test.sh SOURCE_FOLDER: structure.sh and tables.sh notice each kind of thing that they look for, planted in a copy of the tree.
set -u
cd "$1" || exit 2
git rev-parse --git-dir >/dev/null 2>&1 || { echo "SKIP: no git checkout"; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
git ls-files -z | grep -zvE '^(examples|bench/gpu/.*\.py|tests/(run|emu|fuzz|gpu|api)/.*/)' | xargs -0 cp --parents -t "$work" 2>/dev/null
cd "$work" && git init -q . || exit 1
{
    printf 'int planted(int x);\n'
    printf '/* %0115d */\n' 0                                          # long-lines
    printf 'int planted(int x)\n{\n'
    for ((k = 0; k < 70; k++)); do printf '    x++;\n'; done          # long-functions
    printf '    return x;\n}\n'
    printf 'int cast(Instr *i)\n{\n    switch ((int)i->op) {\n    default: return 0;\n    }\n}\n'          # enum-casts
    printf 'int copied(Instr *i)\n{\n    int op = i->op;\n    switch (op) {\n    default: return 0;\n    }\n}\n'
    printf 'int device(const Target *t) { return t->arch == 90 ? 65536 : 0; }\n'                              # device-literals
    printf 'int hint(const char *name) { return !strcmp(name, "cluster"); }\n'                                # compared-hints
    printf 'static int take_turn(int tickets);\nenum { OP_TURN_WAIT };\ntypedef struct LdsTurn LdsTurn;\n'           # private-names
    printf '/* TODO */\n'                                             # unfinished
} >passes/planted.c
cat >backends/gpu/emit_planted.c <<'END'                              # emitted-text, wgmma-alone
long number(const char *index) { return strtol(index, NULL, 10); }
bool zero(const char *index) { return !strcmp(index, "0") || *index == '('; }
bool fenced(const Instr *i) { return i->op == OP_WGMMA; }
END
for ((k = 0; k < 501; k++)); do echo '/* a line */'; done >passes/planted_long.c                              # long-files
: >passes/planted_fillers.h
printf '%0115d\n' 0 >docs/planted.md                                  # long-prose
printf 'The hint `turns`.\n' >>docs/planted.md                        # former-names
sed -i 's/^#undef PASS$/PASS(PLANTED, "planted-pass", pass_planted, 1, 1, BITS, "")\nKERNEL_PASS(PLANTED_KERNEL, "planted-kernel", f, NEEDS_NOTHING, OPTIONAL, 1, BITS, "")\n&/' passes/passes.def
sed -i 's/^HINT(pingpong,/HINT(planted_hint, 1, 1, LAST, KERNEL)\n&/' ir/hints.def
sed -i 's/^DECISION(STORE,/DECISION(PLANTED, "planted", NOTHING, "N")\n&/' passes/kernel/schedule/schedule.def
sed -i 's/^FIELD(latency,/FIELD(planted_field, "together", "ns", "planted")\n&/' runtime/choice/estimate/device_model.def
sed -i 's/^TARGET("cuda:sm_120"/TARGET("cuda:sm_999", NVIDIA, 999, 1, 1, 1, 1, 1, 1, 1, 1, 1, PLANTED, NONE, SM_90)\n&/' ir/target/targets.def
cp runtime/choice/models/a100.model runtime/choice/models/planted.model
sed -i 's/^targets .*/targets cuda:sm_998/' runtime/choice/models/planted.model
echo 'CostDevice d = device_of_target(k->context->target);' >>runtime/choice/choose.c
git add -A . && failures=0
expect() { grep -qE "$1" said || { echo "FAIL: not noticed: $1"; failures=$((failures + 1)); }; }

bash tests/structure/structure.sh . --list >said && { echo "FAIL: structure.sh succeeds"; failures=1; }
for place in 'long-lines: passes/planted.c' 'long-functions: passes/planted.c' 'enum-casts: passes/planted.c:.*\(int\)' \
    'enum-casts: passes/planted.c:.*switch \(op\)' 'device-literals: passes/planted.c' 'compared-hints: passes/planted.c' \
    'private-names: passes/planted.c:.*take_turn' 'private-names: passes/planted.c:.*OP_TURN_WAIT' 'private-names: passes/planted.c:.*LdsTurn' \
    'private-names: passes/planted_fillers.h' 'unfinished: passes/planted.c' 'long-files: passes/planted_long.c' 'long-prose: docs/planted.md' 'former-names: docs/planted.md' \
    'tile-passes: planted-pass: no file' 'tile-passes: planted-pass: no test' 'tile-passes: planted-pass: no row' \
    'tile-passes: planted-pass: no PASS_PLANTED_PASS' 'kernel-passes: planted-kernel: no file' 'kernel-passes: planted-kernel: no test' \
    'kernel-passes: planted-kernel: not exactly one heading' 'kernel-passes: planted-kernel: no RUN' 'target-figures: runtime/choice/choose.c' \
    'emitted-text: backends/gpu/emit_planted.c:1:' 'emitted-text: backends/gpu/emit_planted.c:2:' 'wgmma-alone: backends/gpu/emit_planted.c:3:'; do
    expect "^$place"
    expect "^FAIL ${place%%:*}: .*the limit is"
done
bash tests/structure/tables.sh . >said && { echo "FAIL: tables.sh succeeds"; failures=$((failures + 1)); }
expect 'no row for planted_hint'
expect 'a tune block may list planted_hint'
expect 'no pass reads the hint planted_hint'
expect 'no entry for `planted N`'
expect 'device-model.md is not what'
expect 'reads the field planted_field'
expect 'planted.model is not in the list'
expect 'has no target cuda:sm_998'
expect 'no file of runtime/choice/models is for cuda:sm_999'
expect 'has what cuda:sm_999 has'
[ $failures = 0 ] && echo "everything planted was noticed"
exit $((failures > 0))
