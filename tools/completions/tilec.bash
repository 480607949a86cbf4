# Written by `tilec help bash` from tools/tilec/flags.def; a test compares them.

# The words that may stand for the value of option $1 of command $2; $3...: the words of the line.
_tilec_words() {
    case $1 in
        --target) echo interp cpu cpu:aarch64 cuda:sm_80 cuda:sm_86 cuda:sm_89 cuda:sm_90 cuda:sm_90a cuda:sm_100 cuda:sm_100a cuda:sm_120 cuda:sm_121 hip:gfx90a hip:gfx942 hip:gfx950 hip:gfx1100 ;;
        --emit) echo ast ir kernel-ir schedule cuda hip ptx cubin sass llvm hsaco asm ;;
        --device)
            case $2 in
                explain) echo h100 h200 h100_portable a100 rtx3090 l40s b200 rtx_pro_6000 gb10 ;;
                sim) echo mi300x mi325x mi355x h100 h200 b200 gb10 rtx_pro_6000 ;;
            esac ;;
        --passes) echo inline check specialize fold cse dce accumulate flatten collapse pack paired-programs parts repeated-rows batches sliced-loads constant-matrices licm factors transpose-products load-order pad-products mask-trim exp2 mask-peel divisibility edge-program empty-loops grouped-steps narrow half-integers unroll approx contract speculate latency remap ;;
        --skip-pass) echo inline check specialize fold cse dce accumulate flatten collapse pack paired-programs parts repeated-rows batches sliced-loads constant-matrices licm factors transpose-products load-order pad-products mask-trim exp2 mask-peel divisibility edge-program empty-loops grouped-steps narrow half-integers unroll approx contract speculate latency remap first-reads retype mask-bytes cluster split-k program-order reciprocal erfc narrow-results rounded-integers float-sums mask-branch uniform-gathers gather-windows split-steps warp-specialization transposed-views wide-columns staged-operands ordered-adds merge-loads cp-async-producer multicast epilogue-loads stream-k persistent tile-scheduler late-sums sink-reductions promote lazy-rescale near software-pipelining cross-tile-pipelining pingpong half-words multistage lookup join-loads join-gathers join-stores paired-rows dense-windows direct-loads sliding-windows unaligned-vectors bulk-store lane-parts fragment-prefetch load-ahead hoist-loads keep-rows load-strips column-strips gather-strips backwards joint-reductions swizzle strength-reduction shared-atomics abreast ;;
        --with-pass|--stop-after|--dump-after)
            [[ $1 == --dump-after ]] && echo all
            echo inline check specialize fold cse dce accumulate flatten collapse pack paired-programs parts repeated-rows batches sliced-loads constant-matrices licm factors transpose-products load-order pad-products mask-trim exp2 mask-peel divisibility edge-program empty-loops grouped-steps narrow half-integers unroll approx contract speculate latency remap first-reads retype mask-bytes cluster split-k program-ids program-order mma-select reciprocal erfc narrow-results rounded-integers float-sums mask-branch uniform-gathers gather-windows split-steps warp-specialization transposed-views wide-columns staged-operands ordered-adds merge-loads cp-async-producer multicast epilogue-loads stream-k persistent tile-scheduler late-sums sink-reductions promote lazy-rescale near software-pipelining cross-tile-pipelining pingpong half-words shared multistage lookup layout join-loads join-gathers join-stores paired-rows dense-windows direct-loads sliding-windows unaligned-vectors bulk-store lane-parts fragment-prefetch load-ahead hoist-loads keep-rows load-strips column-strips gather-strips backwards joint-reductions swizzle strength-reduction shared-atomics abreast registers ;;
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
        -o|-h|--target|--bundle-source|--emit|--kernel|-D|--assume|--in|--out|--set|-I|--cpu|--threads|--device|--repeat|--table|--sweep|--against|--expect|--atol|--rtol|--output-dir|--csv|--profile|--budget|--jobs|--tolerance|--work|--per-unit|--drift|--sample|--history|--json|--plot|--html|--roofline|--remap|--passes|--skip-pass|--with-pass|--schedule|--dump-after|--stop-after|--width|--error-limit|-MF) option=$prev value=$cur ;;
        esac ;;
    esac
    if [[ $option ]]; then
        local before=${cur%"$value"}
        case $option in
        -o|-h|--table|--csv|--profile|--history|--json|--plot|--html|--roofline|--schedule|-MF) mapfile -t COMPREPLY < <(compgen -P "$before" -f -- "$value"); files=1 ;;
        -I|--output-dir) mapfile -t COMPREPLY < <(compgen -P "$before" -d -- "$value"); files=1 ;;
        *)
            # Of a list, the last word is completed.
            [[ $value == *,* ]] && before+=${value%,*},
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_tilec_words "$option" $command "${all[@]}")" -- "${value##*,}") ;;
        esac
    elif [[ $cur == -* ]]; then
        case $command in
        compile) mapfile -t COMPREPLY < <(compgen -W '-o -h --target= --bundle --shared --bundle-source= --emit= --kernel= -D --assume= -O0 -O1 -O2 -O3 -g --check --early-start -I --cpu= --table= --approx --ftz --remap= --passes= --skip-pass= --with-pass= --schedule= --dump-after= --stop-after= --verify-each --time-passes --check-emission --no-check-emission --werror --wperf --error-limit= -M -MD -MF --help --help=passes --version' -- "$cur") ;;
        run) mapfile -t COMPREPLY < <(compgen -W '--target= --kernel= --in= --out= --print --set= -O0 -O1 -O2 -O3 -g --check --early-start -I --threads= --device= --no-cache --time --repeat= --table= --as-declared --expect= --atol= --rtol= --approx --ftz --remap= --skip-pass= --with-pass= --werror --wperf --help --help=passes' -- "$cur") ;;
        bench) mapfile -t COMPREPLY < <(compgen -W '--target= --kernel= --in= --out= --set= -O0 -O1 -O2 -O3 -g --check --early-start -I --threads= --device= --no-cache --repeat= --table= --as-declared --ladder --sweep= --against= --expect= --atol= --rtol= --output-dir= --csv= --profile= --graph --budget= --work= --json= --plot= --approx --ftz --remap= --skip-pass= --with-pass= --wperf --help --help=passes' -- "$cur") ;;
        tune) mapfile -t COMPREPLY < <(compgen -W '-o --target= --kernel= --in= --set= -O0 -O1 -O2 -O3 -I --threads= --device= --no-cache --repeat= --sweep= --budget= --jobs= --tolerance= --unchecked --warm --work= --sample= --json= --help --help=passes' -- "$cur") ;;
        sim) mapfile -t COMPREPLY < <(compgen -W '--kernel= --set= -I --threads= --device= --per-unit= --drift= --sample= --history= --json= --plot= --remap= --skip-pass= --wperf --help --help=passes' -- "$cur") ;;
        explain) mapfile -t COMPREPLY < <(compgen -W '-o --target= --kernel= -D --assume= -O0 -O1 -O2 -O3 --check --early-start -I --device= --plot= --memory --html= --roofline= --approx --ftz --remap= --passes= --skip-pass= --with-pass= --schedule= --dump-after= --verify-each --werror --wperf --error-limit= --help --help=passes' -- "$cur") ;;
        fmt) mapfile -t COMPREPLY < <(compgen -W '--check --width= --error-limit= --help --help=passes' -- "$cur") ;;
        help) mapfile -t COMPREPLY < <(compgen -W '--help --help=passes' -- "$cur") ;;
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
