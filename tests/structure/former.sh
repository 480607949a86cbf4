#!/bin/bash
# former.sh SOURCE_FOLDER: prints every place of the tree that still uses a former name of a hint, a pass or a word of schedules
# (ir/former_names.def), one a line.
#
# Many of these names are ordinary words (fill, split, guess), and `shift` and `split` are functions of the language today, so the script
# looks where only a name can stand: in a literal that code looks up or compares, in a hint clause, a tune block or a binding, in a flag's
# list of passes, in a schedule, and in a document's code spans.
set -u
cd "$1" || exit 2
names() { sed -nE "s/^FORMER\(($1), *\"([^\"]+)\".*/\2/p" ir/former_names.def | sort -u | paste -sd'|'; }
hints=$(names HINT) passes=$(names PASS) words=$(names SCHEDULE)
[ -n "$hints" ] && [ -n "$passes" ] && [ -n "$words" ] || { echo "ir/former_names.def: no rows"; exit 0; }

# The table itself, the tests that old names are accepted, and records of the time when they were in use.
old='^(ir/former_names\.def|tests/parse/former\.|tests/structure/former|bench/(NOTES|RESULTS)\.md|CHANGELOG)'
files() { git ls-files "$@" | grep -vE "$old"; }
places() { files "${@:2}" | xargs -r grep -nE -e "$1" /dev/null; }

# Literals of the compiler: a whole literal that is the name. Functions of the language, names of temporaries and calls of the driver
# are other things by the same words.
places "\"($hints|$passes)\"" 'ir/*.[ch]' 'ir/*.def' 'frontend/*.[ch]' 'passes/*.[ch]' 'passes/*.def' 'backends/*.[ch]' \
    'runtime/*.[ch]' 'runtime/*.def' 'tools/*.[ch]' 'tools/*.def' 'bench/*.[ch]' |
    grep -vE '"schedule"|lower_emit\(|tmp\(|CALL\(|OP\(|\{ "(split|shift)", 1, "'

# Hints of a kernel, a tune block, IR text and a binding.
places "hint \(([^)]*[ ,(])?($hints) *=|^ *hint ([^=]*=[^=]*, *)*($hints) *=|[{;] *($hints) in \{" '*.tile' '*.ir' '*.md' '*.c' '*.h' '*.sh'
places "(-D *|\{ \")($hints)(=|\", TILE_BIND)" '*.c' '*.sh' '*.md' '*.1' '*.txt' '*.cmake' '*.ir' '*.tile' '*.yml'
places "\"config\": *\{[^}]*\"($hints)\"" '*.tune' '*.c' '*.sh' '*.md'

# Flags that name passes. options.ir tests that old names are accepted.
places "\\-\\-(skip-pass|passes|dump-after|stop-after)[= ]\"?([a-z0-9,-]*,)?($passes)([, \"']|\$)" | grep -v '^tests/passes/options.ir:.*FORMER'

# Documents: hints in code spans; passes as a row or a heading of their table. `roles` is also an operation of kernel IR.
places "\`($hints)\`" 'docs/*.md' '*README.md' 'docs/*.1' | grep -vE '^docs/(ir|kernel-ir|glossary)\.md:.*`roles`|shift\(x'
places "^(\| |## |### )\`?($passes)\`?( |\$)" 'docs/passes.md'

# Schedules: the entries of docs/schedule.md, and schedules in hints of kernels.
places "\`(load [A-Z] |loop 1 |store [A-Z] |programs )?($words)[\` ]" 'docs/schedule.md'
places "schedule = \"(.*[^a-z_])?($words)[ ;\"]" '*.tile' '*.ir' '*.md'
exit 0
