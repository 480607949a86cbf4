# lib.sh: for the scripts here: SCRIPT TILEC SOURCE_FOLDER [COMPILER [cuda|hip]]. Each runs in a folder of its
# own, and says SKIP (77) where there is no such device.
set -u
tilec=$1 root=$2 cc=${3:-cc} device=${4:-cuda}
work=$(mktemp -d) && cd "$work" || exit 1
trap 'rm -rf "$work"' EXIT
export TILE_CACHE_DIR=$work/cache
failures=0
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
skip() { echo "SKIP: $*"; exit 77; }
finish() { ((failures == 0)) && echo "all as expected"; exit $((failures > 0)); }

kernels=$root/examples/kernels
probe=$("$tilec" run "$kernels/vector_add.tile" --target=$device --kernel=vector_add \
    --in X=random:f32[64]:1 --in Y=random:f32[64]:2 2>&1) || skip "$(echo "$probe" | head -1)"

attention() {       # attention TARGET D CAUSAL M N [options...]: one head pair of each size
    local target=$1 d=$2 causal=$3 m=$4 n=$5
    shift 5
    "$@" "$tilec" run "$kernels/attention.tile" --target="$target" --kernel=attention \
        --set CAUSAL="$causal" --set scale=0.125 --in "Q=random:f16[1,2,$m,$d]:1" \
        --in "K=random:f16[1,1,$n,$d]:2" --in "V=random:f16[1,1,$n,$d]:3" --out O=o.npy
}
gemm() {            # gemm TARGET M N K [command...]
    local target=$1 m=$2 n=$3 k=$4
    shift 4
    "$@" "$tilec" run "$kernels/gemm.tile" --target="$target" --kernel=gemm --set T=f16 --set TO=f16 \
        --in "A=random:f16[$m,$k]:1" --in "B=random:f16[$k,$n]:2" --out C=c.npy
}
