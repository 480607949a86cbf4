#!/bin/bash
# names.sh SOURCE_FOLDER: every file and symbol that the guides to the source name exists, and each folder's
# README names all of its files, and those of folders below it that have none.
#
# In docs/architecture.md and docs/extending.md, a name in backquotes is a file or folder if it has a slash or
# the ending of a source file, and a symbol if it is an identifier with an underscore. A paragraph, a list item
# and a row of a table are looked at as a whole. A symbol must occur in one of the files that its paragraph
# names, or, where the paragraph names none, anywhere in the sources. In extending.md, whose steps name symbols
# of other files too, it may occur anywhere. In every page, `NAME` in `FILE` means that the file has the name.
set -u
cd "$1" || exit 2
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
git rev-parse --git-dir >/dev/null 2>&1 || { echo "SKIP: no git checkout"; exit 77; }
git ls-files >"$work/files"
checked=0
failures=0

fail() { echo "FAIL ${page:+$page:}$number: $1"; failures=$((failures + 1)); }
is_file() { grep -qxF -- "$1" "$work/files"; }
is_folder() { grep -qF -- "${1%/}/" "$work/files" && [ -d "$1" ]; }
# by_name NAME: the tracked files of this name (NAME may be a pattern of the shell)
by_name() { while read -r f; do [[ ${f##*/} == $1 ]] && echo "$f"; done <"$work/files"; }

check_unit() {
    local line=$1 word found symbols=() sources=()
    while read -r word; do
        case $word in
            *' '* | *'='* | *'<'* | *'{'* | *:* | -* | *'('*) continue ;;
            *.c | *.h | *.def | *.md | *.l | *.y | *.sh | *.model | *.map | *.txt | *.cmake | */*) ;;
            *_*) [[ $word =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] && symbols+=("$word"); continue ;;
            *) continue ;;
        esac
        case $word in *NAME* | *build/*) continue ;; esac
        checked=$((checked + 1))
        if is_file "$word"; then sources+=("$word"); continue; fi
        is_folder "$word" && continue
        if [[ $word == */* && $word == *'*'* ]]; then
            compgen -G "$word" >/dev/null || fail "no file matches $word"
            continue
        fi
        found=$([[ $word == */* ]] && grep -E "(^|/)${word//./\\.}(/|\$)" "$work/files" || by_name "$word")
        if [ -n "$found" ]; then sources+=($found); else fail "no file or folder $word"; fi
    done < <(grep -o '`[^`]*`' <<<"$line" | tr -d '`')
    for word in "${symbols[@]+"${symbols[@]}"}"; do
        checked=$((checked + 1))
        if [ ${#sources[@]} -gt 0 ] && [ "$page" = docs/architecture.md ]; then
            grep -qwF -- "$word" "${sources[@]}" ir/ops.def || fail "$word occurs in none of: ${sources[*]}"
        else
            git grep -qwF -- "$word" -- '*.c' '*.h' '*.def' '*.l' '*.y' '*.sh' '*.txt' '*.cmake' ||
                fail "$word occurs nowhere"
        fi
    done
}

# check_places TEXT: each `NAME` in `FILE` of it.
check_places() {
    local name file found
    while read -r name file; do
        checked=$((checked + 1))
        found=$(is_file "$file" && echo "$file" || grep -E "(^|/)${file//./\\.}\$" "$work/files")
        [ -n "$found" ] && grep -qw -- "$name" $found || fail "no $name in $file"
    done < <(grep -oE '`[A-Za-z_][A-Za-z_0-9]*`,? (in|of) `[A-Za-z_0-9/.]+\.(c|h|def|l|y|sh|py)`' <<<"$1" |
        tr -d '`,' | sed -E 's/ (in|of) / /')
}

# units PAGE: its paragraphs, list items, headings and rows of tables, one a line behind the number of the line
# where it begins
units() {
    awk '/^```/ { flush(); code = !code; next }
        code { next }
        /^ *$/ { flush(); next }
        /^ *([-*]|[0-9]+\.) / || /^[|#]/ { flush() }
        { if (text == "") begin = NR; text = text " " $0 }
        END { flush() }
        function flush() { if (text != "") print begin "\t" text; text = "" }' "$1"
}

for page in docs/architecture.md docs/extending.md; do
    while IFS=$'\t' read -r number text; do
        check_unit "$text"
    done < <(units "$page")
done
for page in $(git ls-files '*.md'); do
    while IFS=$'\t' read -r number text; do
        check_places "$text"
    done < <(units "$page" | tr -s ' ' | grep -E '`,? (in|of) `')
done
# A README.md of a folder names every C file of the folder and of the folders below that have no README.md (the
# ending may be left out), and no file that does not exist.
page=
for readme in $(git ls-files 'passes/*README.md' 'ir/README.md' 'backends/*README.md' 'frontend/README.md' \
    'runtime/*README.md'); do
    folder=${readme%/README.md}
    grep -oE '[A-Za-z0-9_./*]+\.(c|h|def|l|y)\b' "$readme" | sort -u >"$work/named"
    while read -r word; do
        checked=$((checked + 1))
        [[ $word == *'*'* ]] || grep -qE "(^|/)${word//./\\.}\$" "$work/files" || { number=$readme fail "no file $word"; }
    done <"$work/named"
    for file in $(git ls-files "$folder/*.c"); do
        near=${file%/*}
        until [ "$near" = "$folder" ] || grep -qxF "$near/README.md" "$work/files"; do near=${near%/*}; done
        [ "$near" = "$folder" ] || continue
        name=${file##*/}
        grep -qw -- "${name%.c}" "$readme" || { number=$readme fail "it does not name $name"; }
    done
done

[ "$checked" -ge 150 ] || { echo "FAIL only $checked names found"; failures=$((failures + 1)); }
echo "$checked names, $failures missing"
exit $((failures > 0))
