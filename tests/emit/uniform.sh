#!/bin/bash
# uniform.sh TILEC NVDISASM SOURCE_ROOT: what ptxas makes of kernels that take their programs from the dynamic tile scheduler.
# Branches that divide the lanes of a warp leave BRA.DIV and WARPSYNC behind, and then nothing is kept in uniform
# registers: every descriptor of a product is moved there first (R2UR), for each of them in each step of a loop.
# Exit 77: no NVRTC.
tilec=$1 nvdisasm=$2 root=$3
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
failed=0
while read -r name options; do
    # shellcheck disable=SC2086
    if ! ASAN_OPTIONS=detect_leaks=0 "$tilec" "$root/examples/kernels/$name.tile" --target=cuda:sm_90a --emit=cubin $options \
        -o "$dir/k.cubin" 2>"$dir/err"; then
        grep -q "cannot open the run-time compiler" "$dir/err" && exit 77
        cat "$dir/err"
        exit 1
    fi
    "$nvdisasm" -c "$dir/k.cubin" >"$dir/sass" || exit 1
    grep -q HGMMA "$dir/sass" && grep -q ATOMG "$dir/sass" || { echo "FAIL $name $options: no scheduler or no products"; failed=1; }
    divided=$(grep -cE 'BRA\.DIV|WARPSYNC' "$dir/sass")
    [ "$divided" -eq 0 ] || { echo "FAIL $name $options: $divided instructions for divided warps"; failed=1; }
done <<'KERNELS'
attention -D T=f16 -D D=128 -D CAUSAL=false
attention -D T=f16 -D D=64 -D CAUSAL=true
attention_window -D D=128
gemm -D T=bf16 -D TO=bf16
KERNELS
exit $failed
