# lib.sh: for the scripts here: SCRIPT TILEC SOURCE_FOLDER COMPILER. Each runs in a folder of its own, which starts empty.
set -u
tilec=$1 root=$2 cc=$3
work=$(mktemp -d) && cd "$work" || exit 1
trap 'rm -rf "$work"' EXIT
export TILE_CACHE_DIR=$work/cache
failures=0

fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# expect CODE TEXT COMMAND...: the exit status, and a text that standard error (or output) must hold; '' for silence
expect() {
    local code=$1 text=$2 got out
    shift 2
    out=$("$@" 2>&1 </dev/null)
    got=$?
    [ "$got" = "$code" ] || fail "exit status $got, not $code: $*"$'\n'"$out"
    if [ -z "$text" ]; then [ -z "$out" ] || fail "not silent: $*"$'\n'"$out"
    else [[ $out == *"$text"* ]] || fail "no \"$text\" in the output of: $*"$'\n'"$out"; fi
}
same() { cmp -s "$1" "$2" || fail "$1 and $2 differ"; }
absent() { [ ! -e "$1" ] || fail "$1 should not be there"; }
finish() {
    [ -z "$(find . -name '*.tmp*' -print -quit)" ] || fail "temporary files are left: $(find . -name '*.tmp*')"
    ((failures == 0)) && echo "all as expected"
    exit $((failures > 0))
}
