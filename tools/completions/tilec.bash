# Written by `tilec help bash` from tools/tilec/flags.def; a test compares them.
_tilec() {
    local cur prev words cword command=compile split=
    COMPREPLY=()
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
        --json) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        --plot) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        --html) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        --roofline) COMPREPLY=($(compgen -f -- "$cur")); return ;;
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
        --budget=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --jobs=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --tolerance=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --work=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --per-unit=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --drift=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --sample=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --json=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --plot=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --html=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --roofline=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --remap=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --passes=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --skip-pass=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --with-pass=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --schedule=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --dump-after=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --stop-after=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --width=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
        --error-limit=*) COMPREPLY=($(compgen -W '' -- "${cur#*=}")); return ;;
    esac
    case $cur in
    -*)
        case $command in
        compile) COMPREPLY=($(compgen -W '-o -h --target= --bundle --shared --bundle-source= --emit= --kernel= -D --assume= -O0 -O1 -O2 -O3 -g --check --early-start -I --cpu= --table= --approx --ftz --remap= --passes= --skip-pass= --with-pass= --schedule= --dump-after= --stop-after= --verify-each --time-passes --check-emission --no-check-emission --werror --wperf --error-limit= -M -MD -MF --help --help=passes --version' -- "$cur")) ;;
        run) COMPREPLY=($(compgen -W '--target= --kernel= --in= --out= --set= -O0 -O1 -O2 -O3 -g --check --early-start -I --threads= --device= --no-cache --time --repeat= --table= --as-declared --approx --ftz --remap= --skip-pass= --with-pass= --wperf --help --help=passes' -- "$cur")) ;;
        bench) COMPREPLY=($(compgen -W '--target= --kernel= --in= --out= --set= -O0 -O1 -O2 -O3 -g --check --early-start -I --threads= --device= --no-cache --repeat= --table= --as-declared --ladder --sweep= --against= --expect= --atol= --rtol= --output-dir= --csv= --graph --budget= --work= --json= --plot= --approx --ftz --remap= --skip-pass= --with-pass= --wperf --help --help=passes' -- "$cur")) ;;
        tune) COMPREPLY=($(compgen -W '-o --target= --kernel= --in= --set= -O0 -O1 -O2 -O3 -I --threads= --device= --no-cache --repeat= --budget= --jobs= --tolerance= --unchecked --warm --work= --json= --help --help=passes' -- "$cur")) ;;
        sim) COMPREPLY=($(compgen -W '--kernel= --set= -I --threads= --device= --per-unit= --drift= --sample= --json= --plot= --remap= --wperf --help --help=passes' -- "$cur")) ;;
        explain) COMPREPLY=($(compgen -W '-o --target= --kernel= -D --assume= -O0 -O1 -O2 -O3 --check --early-start -I --device= --plot= --memory --html= --roofline= --approx --ftz --remap= --passes= --skip-pass= --with-pass= --schedule= --dump-after= --verify-each --werror --wperf --error-limit= --help --help=passes' -- "$cur")) ;;
        fmt) COMPREPLY=($(compgen -W '--check --width= --error-limit= --help --help=passes' -- "$cur")) ;;
        help) COMPREPLY=($(compgen -W '--help --help=passes' -- "$cur")) ;;
        esac
        [[ ${COMPREPLY-} == *= ]] && compopt -o nospace 2>/dev/null
        return ;;
    esac
    COMPREPLY=($(compgen -f -- "$cur"))
    ((cword == 1)) && COMPREPLY+=($(compgen -W "$commands" -- "$cur"))
}
complete -o filenames -F _tilec tilec
