#!/bin/bash
# syntax.sh: the files of editors/ against the compiler's tables and parser (syntax_test.py).
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || { echo "SKIP: no Python 3.8"; exit 77; }
"$python" "$root/tests/tools/syntax_test.py" "$root" "$tilec" || fail "syntax_test.py"
finish
