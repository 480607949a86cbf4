#!/bin/bash
# headings.sh SOURCE_FOLDER: every heading of bench/notes and bench/results that code or a document names
# exists, every file of these folders stands in its list (bench/NOTES.md, bench/RESULTS.md), and the links of
# documents to headings lead to one.
#
# A reference is the file's path and, behind a comma, the heading in quotes: bench/notes/FILE.md, "Heading".
# It may go over several lines of a comment, may be the text of a link, and may leave out the end of the
# heading (with "..." or without).
set -u
cd "$1" || exit 2
git rev-parse --git-dir >/dev/null 2>&1 || { echo "SKIP: no git checkout"; exit 77; }
checked=0
failures=0
fail() { echo "FAIL $1"; failures=$((failures + 1)); }

# plain FILE: its text in one line, without what begins the lines of comments
plain() { sed -E 's#^[[:space:]]*(/\*|\*|//|\#)?[[:space:]]*##' "$1" | tr '\n' ' '; }

while read -r file; do
    while IFS='|' read -r page heading; do
        [ -n "$page" ] || continue
        checked=$((checked + 1))
        heading=${heading%...}
        awk -v h="$heading" '/^#+ / { sub(/^#+ /, ""); gsub(/[`"]/, ""); if (index($0, h) == 1) found = 1 }
            END { exit !found }' "$page" 2>/dev/null || fail "$file: $page has no heading \"$heading\""
    done < <(plain "$file" |
        grep -oE 'bench/(notes|results)/[a-z0-9_]+\.md(\]\([^)]*\))?`?, (mostly under )?"[^"]+"' |
        sed -E 's/^([^]`,]+\.md)[^"]*"([^"]+[^",])[",]*$/\1|\2/')
done < <(git grep -lE 'bench/(notes|results)/[a-z0-9_]+\.md')
while IFS=: read -r file rest; do
    fail "$file: a path through a folder above: $rest"
done < <(git grep -oE 'bench/\.\./[a-z./_]*' -- 'bench/*.md' 'docs/*.md')
# Links into a page: the anchor is a heading's, in small letters, with hyphens for blanks and without other signs.
anchors() { sed -nE 's/^#+ (.*)$/\L\1/p' "$1" | sed -E 's/[^a-z0-9_ -]//g; s/ /-/g'; }
while IFS=: read -r file link; do
    page=${link%%#*} anchor=${link#*#}
    page=$([ -n "$page" ] && realpath -m --relative-to=. "$(dirname "$file")/$page" || echo "$file")
    checked=$((checked + 1))
    anchors "$page" 2>/dev/null | grep -xqF -- "$anchor" || fail "$file: $page has no heading #$anchor"
done < <(git grep -oE '\]\(([A-Za-z0-9_./-]+\.md)?#[^)]+\)' -- '*.md' | sed -E 's/\]\((.*)\)$/\1/')
for page in $(git ls-files 'bench/notes/*.md' 'bench/results/*.md'); do
    folder=${page%/*}
    list=bench/$(tr a-z A-Z <<<"${folder##*/}").md
    checked=$((checked + 1))
    grep -qF -- "](${page#bench/})" "$list" || fail "$list does not list $page"
done

[ "$checked" -ge 40 ] || fail "only $checked headings and files found"
echo "$checked headings and files, $failures missing"
exit $((failures > 0))
