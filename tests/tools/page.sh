# page.sh: runs a page of the documents line by line, in the current folder. A block of ```tile, ```c or ```make whose first line is a
# comment with a file name is saved under that name; each line of a ```sh block is run; a ```text block is what the commands right before it
# print, where `...` stands for anything. Sourced after lib.sh; run_page PAGE [HEADING] runs the page, or its section under that heading.
# PAGE_TIMES=FILE keeps the processor time of each command.

# A text block as a pattern of the shell.
pattern_of() {
    local text=$1
    text=${text//\\/\\\\} text=${text//\*/\\*} text=${text//\?/\\?} text=${text//\[/\\[} text=${text//\]/\\]}
    printf '%s' "${text//.../*}"
}

TIMEFORMAT='%U %S'
commands=0 compared=0 kind="" block="" out="" pending=""
unexpected() { [ -z "$pending" ] || [ -z "$out" ] || fail "output that the page does not show: $pending"$'\n'"$out"; }
end_block() {
    local name=${block%%$'\n'*} line rest
    case $kind in
        tile|c|make)
            name=${name#// } name=${name#\# } name=${name#/\* } name=${name% \*/}
            [[ $name =~ ^(Makefile|[a-z_]+\.(tile|c))$ ]] || { fail "a block without a file name: $name"; return; }
            printf '%s' "$block" >"$name" ;;
        sh)
            unexpected
            pending=$block
            : >page.out
            while IFS= read -r line <&9; do
                [ -n "$line" ] || continue
                while [[ $line == *\\ ]] && IFS= read -r rest <&9; do line=${line%\\}$rest; done
                { time eval "$line" >>page.out 2>&1 </dev/null; } 2>page.time
                read -r user system <page.time
                # No command of a document takes over 10 s on two cores.
                awk -v a="$user" -v b="$system" 'BEGIN { exit a + b <= 20 }' && fail "$user s of processor time: $line"
                [ -z "${PAGE_TIMES:-}" ] || echo "$user + $system s: $line" >>"$PAGE_TIMES"
                commands=$((commands + 1))
            done 9<<<"${block%$'\n'}"
            out=$(cat page.out) ;;
        text)
            # shellcheck disable=SC2053
            [[ $out == $(pattern_of "${block%$'\n'}") ]] || fail "$pending printed"$'\n'"$out"$'\n'"and not"$'\n'"$block"
            compared=$((compared + 1)) pending="" out="" ;;
    esac
}
run_page() {
    local page=$1 heading=${2:-} inside line
    [ -z "$heading" ] && inside=1 || inside=0
    while IFS= read -r line <&8; do
        if [ -z "$kind" ] && [ -n "$heading" ] && [[ $line == '## '* ]]; then
            [ "$line" = "## $heading" ] && inside=1 || inside=0
        fi
        [ $inside = 1 ] || continue
        if [[ $line == '```'* ]]; then
            if [ -n "$kind" ]; then end_block; kind=""
            else kind=${line#'```'} block=""; [ -n "$kind" ] || kind=none; fi
        elif [ -n "$kind" ]; then block+=$line$'\n'; fi
    done 8<"$page"
    unexpected
}
