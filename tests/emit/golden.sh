#!/bin/bash
# golden.sh TILEC SOURCE_FOLDER: whole emissions, to be read when they change: what a reviewer sees of a change to the schedule or to the emitter. UPDATE=1 rewrites them.
set -u
tilec=$1 root=$2 golden=$2/tests/emit/golden failures=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cd "$root" || exit 1
whole() {           # whole FILE EXAMPLE TARGET OPTIONS...: run from the root, so that #line names the same file everywhere
    local file=$1 example=$2 target=$3
    shift 3
    "$tilec" examples/kernels/$example.tile --kernel=$example --target=$target "$@" -o "$work/$file" || { failures=$((failures + 1)); return; }
    [ "${UPDATE:-0}" = 1 ] && cp "$work/$file" "$golden/$file"
    diff -u "$golden/$file" "$work/$file" || { echo "FAIL: $file differs; UPDATE=1 bash tests/emit/golden.sh TILEC SOURCE takes the new text"; failures=$((failures + 1)); }
}
whole attention_sm_90a.cu attention cuda:sm_90a -D T=f16 -D D=64 -D CAUSAL=true
whole attention_sm_80.cu attention cuda:sm_80 -D T=f16 -D D=64 -D CAUSAL=true -D TM=64 -D TN=64
whole attention_gfx942.hip.cpp attention hip:gfx942 -D T=f16 -D D=64 -D CAUSAL=true -D TM=64 -D TN=64
whole gemm_sm_90a.cu gemm cuda:sm_90a -D T=f16 -D ACC=f32 -D TO=f16 -D TF32=false -D TM=128 -D TN=128 -D TK=64
whole gemm_gfx942.hip.cpp gemm hip:gfx942 -D T=f16 -D ACC=f32 -D TO=f16 -D TF32=false -D TM=128 -D TN=128 -D TK=32
exit $((failures > 0))
