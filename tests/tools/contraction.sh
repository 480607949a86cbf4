#!/bin/bash
# contraction.sh: the vendors' compilers make no fma where docs/language.md promises that a product is rounded by itself.
# (Results: tests/run/finds/contraction.tile.)
. "$(dirname "$0")/lib.sh"
kernel() { printf 'kernel k(in T X[N], in T Z[N], out T Y[N], const type T = f32) grid (cdiv(N, 128))\n{\n    let i = program_id();\n    let x = load(X[i*128 +: 128]);\n    let z = load(Z[i*128 +: 128]);\n    %s\n    store(Y[i*128 +: 128], y);\n}\n' "$2" >"$1.tile"; }
kernel squares 'let y = x*x - z*z;'
kernel alone 'let y = fma(x, z, -0.0) + 1.0;'
kernel twice 'let p = x * z; let y = max(p + x, p - z);'
kernel row 'let p = max(x, axis = 0) * 0.75; let y = where(x > p, x - p, z + p);'
kernel fused 'let y = x * z + 1.0;'
tried=0
# fused NAME TARGET STAGE PATTERN: the machine code of the kernel has the instruction
fused() { "$tilec" $1.tile --target=$2 --emit=$3 -D T=$5 >code 2>why || { cat why; return 2; }; tried=1; grep -qE "$4" code; }
check() {       # check TARGET STAGE PATTERN TYPE
    fused fused "$@"
    case $? in
    1) fail "$1, $4: the check finds no fma" ;;
    2) echo "not tried for $1: $(head -1 why)"; return ;;
    esac
    for name in squares alone twice row; do fused $name "$@" && fail "$1, $4: $name.tile was contracted: $(grep -E "$3" code | head -3)"; done
}
check cuda:sm_80 sass '\bFFMA\b' f32
check cuda:sm_90a sass '\bDFMA\b' f64
check hip:gfx942 asm 'v_(pk_)?(fma|mad|fmac|mac)[a-z_]*_f32' f32
check hip:gfx942 asm 'v_(fma|fmac)_f64' f64
check hip:gfx1100 asm 'v_(dual_)?(pk_)?(fma|fmac|mad)[a-z_]*_f32' f32
[ $tried = 1 ] || { echo "SKIP: no compiler for GPUs here"; exit $((failures ? 1 : 77)); }
finish
