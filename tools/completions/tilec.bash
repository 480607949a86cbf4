# Written by `tilec help bash` from tools/tilec/flags.def; a test compares them.

# The words that may stand for the value of option $1 of command $2; $3...: the words of the line.
_tilec_words() {
    case $1 in
        --target) echo interp cpu cuda:sm_80 cuda:sm_86 cuda:sm_89 cuda:sm_90 cuda:sm_90a cuda:sm_100 cuda:sm_100a cuda:sm_120 cuda:sm_121 hip:gfx90a hip:gfx942 hip:gfx950 hip:gfx1100 ;;
        --emit) echo ast ir kernel-ir schedule cuda hip ptx cubin sass llvm hsaco asm ;;
        --device)
            case $2 in
                explain) echo h100 h100_portable a100 rtx3090 l40s b200 rtx_pro_6000 gb10 ;;
                sim) echo mi300x mi325x mi355x h100 ;;
            esac ;;
        --passes) echo inline check specialize fold cse dce rows licm load-order exp2 mask-peel divisibility narrow unroll approx contract speculate latency remap ;;
        --skip-pass) echo inline check specialize fold cse dce rows licm load-order exp2 mask-peel divisibility narrow unroll approx contract speculate latency remap cluster split-k program-order reciprocal erfc mask-branch gather-windows split-steps warp-specialization merge-loads cp-async-producer multicast epilogue-loads persistent tile-scheduler promote lazy-rescale near software-pipelining cross-tile-pipelining pingpong multistage unaligned-vectors bulk-store fragment-prefetch hoist-loads swizzle ;;
        --with-pass|--stop-after|--dump-after)
            [[ $1 == --dump-after ]] && echo all
            echo inline check specialize fold cse dce rows licm load-order exp2 mask-peel divisibility narrow unroll approx contract speculate latency remap cluster split-k program-ids program-order mma-select reciprocal erfc mask-branch gather-windows split-steps warp-specialization merge-loads cp-async-producer multicast epilogue-loads persistent tile-scheduler promote lazy-rescale near software-pipelining cross-tile-pipelining pingpong shared multistage layout unaligned-vectors bulk-store fragment-prefetch hoist-loads swizzle registers ;;
        --bundle-source) echo never missing always ;;
        --assume) echo best aligned any ;;
        --kernel)
            local word
            for word in "${@:3}"; do
                if [[ $word == *.tile && -r $word ]]; then
                    sed -nE 's/^[[:space:]]*kernel[[:space:]]+([A-Za-z_][A-Za-z0-9_]*).*/\1/p' "$word"
                fi
            done ;;
    esac
}

_tilec() {
    local line=${COMP_LINE:0:COMP_POINT} words all cur prev command=compile option= value= files=
    COMPREPLY=()
<<<<<<< HEAD
    if declare -F _init_completion >/dev/null; then _init_completion -n = || return; else
        cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    fi
    local commands='compile run bench tune sim explain fmt help'
    if ((cword > 1)); then case ${words[1]} in
        compile) command=compile ;;
        run) command=run ;;
        bench) command=bench ;;
        tune) command=tune ;;
        sim) command=sim ;;
        explain) command=explain ;;
        fmt) command=fmt ;;
        help) command=help ;;
    esac; fi
    case $prev in
        -o) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        -h) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        -I) COMPREPLY=($(compgen -d -- "$cur")); return ;;
        --table) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        --output-dir) COMPREPLY=($(compgen -d -- "$cur")); return ;;
        --csv) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        --profile) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        --json) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        --plot) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        --schedule) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        -MF) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    esac
    case $cur in
        --target=*) COMPREPLY=($(compgen -W 'interp cpu cuda:sm_80 cuda:sm_86 cuda:sm_89 cuda:sm_90 cuda:sm_90a cuda:sm_100 cuda:sm_100a cuda:sm_120 cuda:sm_121 hip:gfx90a hip:gfx942 hip:gfx950 hip:gfx1100' -- "${cur#*=}")); return ;;
        --bundle-source=*) COMPREPLY=($(compgen -W 'never missing always' -- "${cur#*=}")); return ;;
        --emit=*) COMPREPLY=($(compgen -W 'ast ir kernel-ir schedule cuda hip ptx cubin sass llvm hsaco asm' -- "${cur#*=}")); return ;;
        --kernel=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --assume=*) COMPREPLY=($(compgen -W 'best aligned any' -- "${cur#*=}")); return ;;
        --in=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --out=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --set=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --cpu=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --threads=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --device=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --repeat=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --table=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --sweep=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --against=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --expect=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --atol=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --rtol=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --output-dir=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --csv=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --profile=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --budget=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --jobs=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --tolerance=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --work=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --per-unit=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --drift=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --sample=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --json=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --plot=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --remap=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --passes=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --skip-pass=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --with-pass=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --schedule=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --dump-after=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --stop-after=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --width=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --error-limit=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
=======
    read -ra words <<<"$line"
    read -ra all <<<"$COMP_LINE"
    [[ $line == *[[:space:]] ]] && words+=('')
    local n=${#words[@]}
    cur=${words[n - 1]} prev=${words[n - 2]}
    if ((n > 2)); then case ${words[1]} in compile|run|bench|tune|sim|explain|fmt|help) command=${words[1]} ;; esac; fi
    case $cur in
    --*=*) option=${cur%%=*} value=${cur#*=} ;;
    *)
        case $prev in
        -o|-h|--target|--bundle-source|--emit|--kernel|-D|--assume|--in|--out|--set|-I|--cpu|--threads|--device|--repeat|--table|--sweep|--against|--expect|--atol|--rtol|--output-dir|--csv|--budget|--jobs|--tolerance|--work|--per-unit|--drift|--sample|--json|--plot|--remap|--passes|--skip-pass|--with-pass|--schedule|--dump-after|--stop-after|--width|--error-limit|-MF) option=$prev value=$cur ;;
        esac ;;
>>>>>>> fmt
    esac
    if [[ $option ]]; then
        local before=${cur%"$value"}
        case $option in
        -o|-h|--table|--csv|--json|--plot|--schedule|-MF) mapfile -t COMPREPLY < <(compgen -P "$before" -f -- "$value"); files=1 ;;
        -I|--output-dir) mapfile -t COMPREPLY < <(compgen -P "$before" -d -- "$value"); files=1 ;;
        *)
            # Of a list, the last word is completed.
            [[ $value == *,* ]] && before+=${value%,*},
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_tilec_words "$option" $command "${all[@]}")" -- "${value##*,}") ;;
        esac
    elif [[ $cur == -* ]]; then
        case $command in
<<<<<<< HEAD
        compile) COMPREPLY=($(compgen -W '-o -h --target= --bundle --shared --bundle-source= --emit= --kernel= -D --assume= -O0 -O1 -O2 -O3 -g --check --early-start -I --cpu= --table= --approx --ftz --remap= --passes= --skip-pass= --with-pass= --schedule= --dump-after= --stop-after= --verify-each --time-passes --check-emission --no-check-emission --werror --wperf --error-limit= -M -MD -MF --help --help=passes --version' -- "$cur")) ;;
        run) COMPREPLY=($(compgen -W '--target= --kernel= --in= --out= --set= -O0 -O1 -O2 -O3 -g --check --early-start -I --threads= --device= --no-cache --time --repeat= --table= --as-declared --approx --ftz --remap= --skip-pass= --with-pass= --wperf --help --help=passes' -- "$cur")) ;;
        bench) COMPREPLY=($(compgen -W '--target= --kernel= --in= --out= --set= -O0 -O1 -O2 -O3 -g --check --early-start -I --threads= --device= --no-cache --repeat= --table= --as-declared --ladder --sweep= --against= --expect= --atol= --rtol= --output-dir= --csv= --profile= --graph --budget= --work= --json= --plot= --approx --ftz --remap= --skip-pass= --with-pass= --wperf --help --help=passes' -- "$cur")) ;;
        tune) COMPREPLY=($(compgen -W '-o --target= --kernel= --in= --set= -O0 -O1 -O2 -O3 -I --threads= --device= --no-cache --repeat= --sweep= --budget= --jobs= --tolerance= --unchecked --warm --work= --sample= --json= --help --help=passes' -- "$cur")) ;;
        sim) COMPREPLY=($(compgen -W '--kernel= --set= -I --threads= --device= --per-unit= --drift= --sample= --json= --plot= --remap= --wperf --help --help=passes' -- "$cur")) ;;
        explain) COMPREPLY=($(compgen -W '-o --target= --kernel= -D --assume= -O0 -O1 -O2 -O3 --check --early-start -I --device= --plot= --approx --ftz --remap= --passes= --skip-pass= --with-pass= --schedule= --dump-after= --verify-each --werror --wperf --error-limit= --help --help=passes' -- "$cur")) ;;
        fmt) COMPREPLY=($(compgen -W '--check --width= --error-limit= --help --help=passes' -- "$cur")) ;;
        help) COMPREPLY=($(compgen -W '--help --help=passes' -- "$cur")) ;;
=======
        compile) mapfile -t COMPREPLY < <(compgen -W '-o -h --target= --bundle --shared --bundle-source= --emit= --kernel= -D --assume= -O0 -O1 -O2 -O3 -g --check --early-start -I --cpu= --table= --approx --ftz --remap= --passes= --skip-pass= --with-pass= --schedule= --dump-after= --stop-after= --verify-each --time-passes --check-emission --no-check-emission --werror --wperf --error-limit= -M -MD -MF --help --help=passes --version' -- "$cur") ;;
        run) mapfile -t COMPREPLY < <(compgen -W '--target= --kernel= --in= --out= --set= -O0 -O1 -O2 -O3 -g --check --early-start -I --threads= --device= --no-cache --time --repeat= --table= --as-declared --approx --ftz --remap= --skip-pass= --with-pass= --wperf --help --help=passes' -- "$cur") ;;
        bench) mapfile -t COMPREPLY < <(compgen -W '--target= --kernel= --in= --out= --set= -O0 -O1 -O2 -O3 -g --check --early-start -I --threads= --device= --no-cache --repeat= --table= --as-declared --ladder --sweep= --against= --expect= --atol= --rtol= --output-dir= --csv= --graph --budget= --work= --json= --plot= --approx --ftz --remap= --skip-pass= --with-pass= --wperf --help --help=passes' -- "$cur") ;;
        tune) mapfile -t COMPREPLY < <(compgen -W '-o --target= --kernel= --in= --set= -O0 -O1 -O2 -O3 -I --threads= --device= --no-cache --repeat= --budget= --jobs= --tolerance= --unchecked --warm --work= --json= --help --help=passes' -- "$cur") ;;
        sim) mapfile -t COMPREPLY < <(compgen -W '--kernel= --set= -I --threads= --device= --per-unit= --drift= --sample= --json= --plot= --remap= --wperf --help --help=passes' -- "$cur") ;;
        explain) mapfile -t COMPREPLY < <(compgen -W '-o --target= --kernel= -D --assume= -O0 -O1 -O2 -O3 --check --early-start -I --device= --plot= --approx --ftz --remap= --passes= --skip-pass= --with-pass= --schedule= --dump-after= --verify-each --werror --wperf --error-limit= --help --help=passes' -- "$cur") ;;
        fmt) mapfile -t COMPREPLY < <(compgen -W '--check --width= --error-limit= --help --help=passes' -- "$cur") ;;
        help) mapfile -t COMPREPLY < <(compgen -W '--help --help=passes' -- "$cur") ;;
>>>>>>> fmt
        esac
        [[ ${COMPREPLY-} == *= ]] && compopt -o nospace 2>/dev/null
    else
        local commands='compile run bench tune sim explain fmt help'
        if [[ $command == help ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$commands man bash" -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -f -X '!*.tile' -- "$cur"; compgen -d -- "$cur")
            files=1
            ((n == 2)) && mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "$commands" -- "$cur")
        fi
    fi
    [[ $files ]] && compopt -o filenames 2>/dev/null
    # Bash replaces what follows the last `=` or `:` of the word, where these end words.
    local breaks=
    [[ $COMP_WORDBREAKS == *=* ]] && breaks+==
    [[ $COMP_WORDBREAKS == *:* ]] && breaks+=:
    [[ $breaks && $cur == *[$breaks]* ]] && COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*[$breaks]}"}"}")
    return 0
}
complete -F _tilec tilec
