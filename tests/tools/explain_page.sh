#!/bin/bash
# explain_page.sh: on the page of `explain --html`, lines of an imported file are not marked as lines of the
# source.
. "$(dirname "$0")/lib.sh"
printf '\n\n\nfn twice(x) { return x + x; }\n' >twice.tile
printf 'import "twice.tile";\nkernel k(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 128))\n{ store(Y[program_id()*128 +: 128], twice(load(X[program_id()*128 +: 128]))); }\n' >imports.tile
"$tilec" explain imports.tile --target=cuda:sm_90a --html=imports.html -o /dev/null || fail "a page of a file that imports"
grep -q 'data-l="3".* load ' imports.html || fail "imports.html: no instruction of line 3"
grep -q 'data-l="4"' imports.html && fail "imports.html marks a line of twice.tile"
finish
