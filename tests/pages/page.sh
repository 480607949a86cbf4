# page.sh: reads pages of the documents. Sourced after tests/tools/lib.sh.
#
# run_page PAGE runs a page line by line in the current folder: a block of ```tile, ```c or ```make whose
# first line is a comment with a file name is saved under that name; each line of a ```sh block is run; a
# ```text block is what the commands right before it print, where `...` stands for anything. A command fails
# only where the text shows its error. Commands that left_out lists are passed over. Then the commands within
# the text are run that name a file which the page has saved.
# page_commands PAGE prints the commands, a line each. unmarked_commands PAGE prints lines that look like
# commands and are in no ```sh block.

# A text block as a pattern of the shell. A first line of `...` also stands for no line.
pattern_of() {
    local text=$1
    [[ $text == ...$'\n'* ]] && text=...${text#...$'\n'}
    text=${text//\\/\\\\} text=${text//\*/\\*} text=${text//\?/\\?} text=${text//\[/\\[} text=${text//\]/\\]}
    printf '%s' "${text//.../*}"
}

page_commands() {
    awk '/^```/ { inside = !inside && /^```sh$/ ; next } inside && NF { sub(/\\$/, "") ? held = held $0 : line() }
        function line() { print held $0; held = "" }' "$1"
}
unmarked_commands() {
    local tools='tilec|cmake|ctest|ninja|make|cc|c[+][+]|gcc|gdb|bash|sh|git|pip|python3?|[.]/[a-z]|[A-Z_]+=[^ ]+ [a-z]'
    awk -v command="^ *([$] )?($tools)( |\$)" -v indented="^(    |\t)([$] )?($tools)( |\$)" '
        /^```/ { kind = inside ? "" : $0; inside = !inside; next }
        inside && kind !~ /^```(sh|text|make|cmake)$/ && $0 ~ command || !inside && $0 ~ indented {
            print NR ": " $0
        }' "$1"
}

# why_left_out PAGE COMMAND: the reason, or nothing and a status that is not 0. An entry holds for commands
# that begin with its text.
left_out=$(dirname "${BASH_SOURCE[0]}")/left_out
why_left_out() {
    local page begin why
    while IFS='|' read -r page begin why; do
        page=${page%% *} begin=${begin# } begin=${begin% }
        [[ $page == "$1" && $2 == "$begin"* ]] && { echo "${why# }"; return 0; }
    done < <(grep -v '^#' "$left_out")
    return 1
}

TIMEFORMAT='%U %S'
commands=0 compared=0 kind="" block="" out="" pending="" code=0 passed_over=0
unexpected() {
    [ -z "$pending" ] || [ "$code" = 0 ] || fail "status $code: $pending"$'\n'"$out"
    [ -z "$pending" ] || [ -z "$out" ] || fail "output that the page does not show: $pending"$'\n'"$out"
    pending="" out="" code=0
}
run_command() {
    local line=$1 why status user system
    if why=$(why_left_out "$page_name" "$line") || why=$(cannot_run "$line"); then
        echo "left out: $line ($why)"
        passed_over=1
        return
    fi
    exec 7>>"$work/page.out"
    { time eval "$line" >&7 2>&1 7>&- </dev/null; } 2>"$work/page.time"
    status=$?
    exec 7>&-
    [ $status = 0 ] || code=$status
    read -r user system < <(tail -1 "$work/page.time")
    echo "$user $system $line" >>"$work/times"
    commands=$((commands + 1))
}
end_block() {
    local name=${block%%$'\n'*} line rest
    case $kind in
        tile|c|make)
            name=${name#// } name=${name#\# } name=${name#/\* } name=${name% \*/}
            [[ $name =~ ^(Makefile|[a-z_]+\.(tile|c))$ ]] || return
            printf '%s' "$block" >"$name" ;;
        sh)
            unexpected
            pending=$block passed_over=0
            : >"$work/page.out"
            while IFS= read -r line <&9; do
                [ -n "$line" ] || continue
                while [[ $line == *\\ ]] && IFS= read -r rest <&9; do line=${line%\\}$rest; done
                run_command "$line"
            done 9<<<"${block%$'\n'}"
            out=$(cat "$work/page.out") ;;
        text)
            # What is shown is of the whole block, so it is not compared where a command of the block was left
            # out.
            # shellcheck disable=SC2053
            if [ $passed_over = 0 ]; then
                [[ $out == $(pattern_of "${block%$'\n'}") ]] ||
                    fail "$pending printed"$'\n'"$out"$'\n'"and not"$'\n'"$block"
                [ "$code" = 0 ] || [[ $block == *error:* ]] || fail "status $code: $pending"
                compared=$((compared + 1))
            fi
            pending="" out="" code=0 ;;
    esac
}
run_page() {
    local page=$1 line
    while IFS= read -r line <&8; do
        if [[ $line == '```'* ]]; then
            if [ -n "$kind" ]; then end_block; kind=""
            else kind=${line#'```'} block=""; [ -n "$kind" ] || kind=none; fi
        elif [ -n "$kind" ]; then block+=$line$'\n'; fi
    done 8<"$page"
    unexpected
    run_spans "$page"
}
# Commands within the text, in backquotes, that name a file which the page has saved: they succeed.
run_spans() {
    local span file
    while IFS= read -r span; do
        file=$(grep -oE '[a-z_]+\.tile' <<<"$span" | head -1)
        [ -e "$file" ] || continue
        code=0 && : >"$work/page.out"
        run_command "$span"
        [ $code = 0 ] || fail "status $code: $span"$'\n'"$(cat "$work/page.out")"
    done < <(awk '/^```/ { inside = !inside; next } !inside' "$1" | tr '\n' ' ' |
        grep -oE '`tilec ([a-z]+ )?[a-z_]+\.tile[^`]*`' | tr -d '`' | grep -vE '[ =][A-Z]+$')
}
