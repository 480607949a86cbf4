#!/bin/bash
# completion.sh: the bash completion: what it offers for the beginnings of command lines.
. "$(dirname "$0")/lib.sh"
. "$root/tools/completions/tilec.bash"
complete -p tilec | grep -qF -- '-F _tilec tilec' || fail "no completion of tilec"
printf 'kernel scan(in f32 X[N]) grid (N) { }\n    kernel softmax (in f32 X[N]) grid (N) { }\n// kernel other\nfn f() { }\n' >k.tile
printf 'kernel other(in f32 X[N]) grid (N) { }\n' >other.tile
touch notes.txt k.c 'two words.tile'
mkdir folder

# offers LINE WORD...: what bash would put in place of the last word (behind its last = or :), sorted
offers() { offers_at ${#1} "$@"; }
# offers_at COLUMN LINE WORD...: with the cursor there
offers_at() {
    COMP_LINE=$2 COMP_POINT=$1
    shift 2
    COMPREPLY=(none)
    _tilec
    local got wanted
    got=$(printf '%s\n' "${COMPREPLY[@]}" | sort)
    wanted=$(printf '%s\n' "$@" | sort)
    [ "$got" = "$wanted" ] || fail "\"$COMP_LINE\" offers $(echo $got), not $(echo $wanted)"
}
# offers_among LINE WORD: this word and others
offers_among() {
    COMP_LINE=$1 COMP_POINT=${#1}
    _tilec
    printf '%s\n' "${COMPREPLY[@]}" | grep -qxF -- "$2" || fail "\"$1\" does not offer $2 but $(echo "${COMPREPLY[@]}")"
}

offers "tilec run k.tile --kernel=" scan softmax
offers "tilec run k.tile --kernel=so" softmax
offers "tilec run k.tile --kernel s" scan softmax
offers_at 16 "tilec --kernel=s k.tile" scan softmax
offers "tilec k.tile other.tile --kernel=o" other
offers "tilec run notes.txt --kernel="
offers "tilec run gone.tile --kernel="
offers "tilec explain k.tile --device=h" h100 h100_portable h200
offers "tilec sim k.tile --device=mi3" mi300x mi325x mi355x
offers "tilec run k.tile --device="
offers "tilec k.tile --target=cuda:sm_9" sm_90 sm_90a
offers "tilec k.tile --target=cuda:sm_80,hip:gfx9" gfx90a gfx942 gfx950
offers "tilec k.tile --target i" interp
offers "tilec k.tile --skip-pass=cse,dc" cse,dce
offers "tilec k.tile --skip-pass=layo"      # a pass that cannot be left out
offers "tilec k.tile --stop-after=layo" layout
offers "tilec k.tile --passes=layo"         # a pass of the kernel IR
offers "tilec k.tile --dump-after=al" all
offers "tilec k.tile --emit=ke" kernel-ir
offers "tilec k.tile --assume=a" aligned any
offers "tilec run " k.tile other.tile 'two words.tile' folder
offers "tilec fmt k.tile o" other.tile
offers "tilec f" fmt folder
offers "tilec k.tile -o k" k.tile k.c
offers "tilec k.tile -I f" folder
offers "tilec run k.tile --table=n" notes.txt
offers "tilec fmt --" --check --width= --error-limit= --help --help=passes
offers "tilec run k.tile --as" --as-declared
offers "tilec help f" fmt
offers "tilec help b" bash bench
COMP_WORDBREAKS=${COMP_WORDBREAKS//[=:]/}   # a shell in which these do not end words replaces the whole word
offers "tilec k.tile --target=cuda:sm_9" --target=cuda:sm_90 --target=cuda:sm_90a
COMP_WORDBREAKS=$COMP_WORDBREAKS=:

# Every target and every pass of the compiler is offered.
for target in $("$tilec" --version | grep -oE '(cuda|hip):[a-z0-9_]+' | sort -u); do offers_among "tilec --target=$target" "${target#*:}"; done
for pass in $("$tilec" --help=passes | sed -nE 's/^ {2,4}([a-z0-9-]+) .*/\1/p' | grep -v '^passes$'); do
    offers_among "tilec --stop-after=$pass" "$pass"
done
finish
