#!/bin/bash
# tutorial.sh: docs/tutorial.md, line by line. A block of ```tile or ```c whose first line is a comment with a file
# name is saved under that name; each line of a ```sh block is run; a ```text block is what the commands right
# before it print, where `...` stands for anything.
. "$(dirname "$0")/lib.sh"
page=$root/docs/tutorial.md
mkdir bin && ln -s "$tilec" bin/tilec && export PATH=$work/bin:$PATH
cc() { "$cc" "$@"; }

# A text block as a pattern of the shell.
pattern_of() {
    local text=$1
    text=${text//\\/\\\\} text=${text//\*/\\*} text=${text//\?/\\?} text=${text//\[/\\[} text=${text//\]/\\]}
    printf '%s' "${text//.../*}"
}

commands=0 compared=0 kind="" block="" out="" pending=""
unexpected() { [ -z "$pending" ] || [ -z "$out" ] || fail "output that the page does not show: $pending"$'\n'"$out"; }
end_block() {
    local name=${block%%$'\n'*} line
    case $kind in
        tile|c)
            name=${name#// } name=${name#/\* } name=${name% \*/}
            [[ $name =~ ^[a-z_]+\.(tile|c)$ ]] || { fail "a block without a file name: $name"; return; }
            printf '%s' "$block" >"$name" ;;
        sh)
            unexpected
            out="" pending=$block
            while IFS= read -r line; do
                [ -n "$line" ] || continue
                out+=$(eval "$line" 2>&1 </dev/null)
                commands=$((commands + 1))
            done <<<"$block" ;;
        text)
            # shellcheck disable=SC2053
            [[ $out == $(pattern_of "${block%$'\n'}") ]] || fail "$pending printed"$'\n'"$out"$'\n'"and not"$'\n'"$block"
            compared=$((compared + 1)) pending="" out="" ;;
    esac
}
while IFS= read -r line; do
    if [[ $line == '```'* ]]; then
        if [ -n "$kind" ]; then end_block; kind=""
        else kind=${line#'```'} block=""; [ -n "$kind" ] || kind=none; fi
    elif [ -n "$kind" ]; then block+=$line$'\n'; fi
done <"$page"
unexpected
while read -r file; do [ -e "$root/docs/$file" ] || fail "the page names $file"; done < \
    <(grep -oE '\]\([^)#]*\)' "$page" | tr -d ']()' | grep -v '^https')
echo "$commands commands, $compared outputs"
[ "$commands" -ge 15 ] && [ "$compared" -ge 8 ] || fail "only $commands commands and $compared outputs"
finish
