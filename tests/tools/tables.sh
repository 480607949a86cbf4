#!/bin/bash
# tables.sh: the man page and the completion in the tree are those that the tables make; completion completes.
. "$(dirname "$0")/lib.sh"
"$tilec" help man >tilec.1; "$tilec" help bash >tilec.bash
diff -u "$root/docs/tilec.1" tilec.1 || fail "docs/tilec.1 is old: tilec help man >docs/tilec.1"
diff -u "$root/tools/completions/tilec.bash" tilec.bash || fail "tools/completions/tilec.bash is old: tilec help bash >tools/completions/tilec.bash"
if command -v man >/dev/null; then
    warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ= man --warnings -E UTF-8 -l -Tutf8 -Z tilec.1 2>&1 >/dev/null)
    [ -z "$warnings" ] || fail "the man page: $warnings"
fi
complete_words() {      # complete_words WORD...: what may stand in place of the last word
    bash -c '. ./tilec.bash; COMP_LINE=$*; COMP_POINT=${#COMP_LINE}; _tilec; printf "%s\n" "${COMPREPLY[@]}"' - "$@"
}
touch attention.tile
complete_words tilec --em | grep -qx -- '--emit=' || fail "--em does not complete"
complete_words tilec '' | grep -qx run || fail "run does not complete"
complete_words tilec '' | grep -qx attention.tile || fail "a file does not complete"
complete_words tilec run --o | grep -qx -- '--out=' || fail "run --o does not complete"
complete_words tilec run --em | grep -q . && fail "run --em completes, but run has no --emit"
complete_words tilec -O | grep -qx -- -O3 || fail "-O does not complete"
complete_words tilec --emit=sch | grep -qx schedule || fail "--emit=sch does not complete"
complete_words tilec --target=cuda:sm_9 | grep -q 'sm_90a' || fail "--target=cuda:sm_9 does not complete"
# every option that a command's help shows is in its completion, and the other way round
for command in compile run bench tune sim explain fmt; do
    "$tilec" $command --help | grep -oE '^  -[-a-zA-Z]+(=passes)?' | tr -d ' ' | sed 's/^-O.*/-O/' | sort -u >shown
    sed -n "s/^        $command) mapfile .*-W '\(.*\)' -- .*/\1/p" tilec.bash | tr ' ' '\n' | sed 's/=$//; s/^-O.$/-O/' | sort -u >completed
    diff shown completed || fail "help and completion of $command differ"
done
finish
