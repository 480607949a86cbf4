#!/bin/bash
# sass.sh: machine code has what the schedule says: matrix instructions, asynchronous copies, 16-byte accesses, and no local memory.
. "$(dirname "$0")/lib.sh"
"$tilec" "$root/examples/kernels/silu.tile" -D T=f16 --target=cuda:sm_80 --emit=sass -o silu.sass 2>why || { echo "SKIP: $(head -1 why)"; exit 77; }

# sass FILE TARGET "INSTRUCTION..." OPTIONS...: each instruction occurs, spills do not
sass() {
    local file=$1 target=$2 wanted=$3 out=$1.$2.sass
    shift 3
    "$tilec" "$root/examples/kernels/$file.tile" --target="cuda:$target" --emit=sass "$@" -o "$out" || { fail "$file for $target"; return; }
    for word in $wanted; do grep -qE "\\b$word\\b" "$out" || fail "$file for $target has no $word"; done
    grep -qE '\b(LDL|STL)(\.|\b)' "$out" && fail "$file for $target uses local memory: $(grep -cE '\b(LDL|STL)(\.|\b)' "$out") accesses"
    return 0
}
gemm="--kernel=gemm -D ACC=f32 -D TF32=false -D T=f16 -D TO=f16"
attention="--kernel=attention -D T=f16 -D D=128"
sass silu sm_80 'LDG\.E\.128(\.[A-Z]+)* STG\.E\.128' -D T=f16
sass vector_add sm_80 'LDG\.E\.128(\.[A-Z]+)* STG\.E\.128' -D T=f32
sass gemm sm_80 'HMMA\.16816\.F32 LDGSTS\.E\.BYPASS(\.LTC[0-9A-Z]+)?\.128 LDSM\.16\.M88\.4' $gemm
sass gemm sm_90a 'HGMMA\.64x128x16\.F32 UTMALDG\.[0-9]D USETMAXREG' $gemm
sass attention sm_80 'HMMA\.16816\.F32 LDGSTS\.E\.BYPASS(\.LTC[0-9A-Z]+)?\.128' $attention -D CAUSAL=true
sass attention sm_90a 'HGMMA\.64x128x16\.F32 UTMALDG\.4D USETMAXREG SYNCS' $attention -D CAUSAL=true
sass attention sm_90a 'HGMMA\.64x128x16\.F32 UTMALDG\.4D' $attention -D CAUSAL=false
finish
