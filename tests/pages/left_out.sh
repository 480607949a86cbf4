#!/bin/bash
# left_out.sh TILEC SOURCE CC PAGE...: each entry of left_out still stands for a command of its page, and no
# command stands outside of the blocks that pages.sh runs.
. "$(dirname "$0")/../tools/lib.sh"
. "$root/tests/pages/page.sh"
shift 3
all=0 left=0
for page; do
    found=$(unmarked_commands "$root/$page")
    [ -z "$found" ] || fail "$page: commands that are in no block of \`\`\`sh:"$'\n'"$found"
    while IFS= read -r command; do
        all=$((all + 1))
        why_left_out "$page" "$command" >/dev/null && left=$((left + 1))
    done < <(page_commands "$root/$page")
done
while IFS='|' read -r page begin why; do
    page=${page%% *} begin=${begin# } begin=${begin% }
    [ -n "${why# }" ] || fail "$page, $begin: no reason"
    page_commands "$root/$page" | awk -v begin="$begin" 'index($0, begin) == 1 { found = 1 } END { exit !found }' ||
        fail "$page has no command that begins with: $begin"
done < <(grep -v '^#' "$left_out")
echo "$all commands, $left of them left out"
[ $all -ge 80 ] || fail "only $all commands"
finish
