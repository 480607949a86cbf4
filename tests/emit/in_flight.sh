#!/bin/bash
# in_flight.sh TILEC NVDISASM SOURCE_ROOT: kernels whose products read their left operand from registers while others run
# beside them, by in_flight.py. Exit 77: no NVRTC.
tilec=$1 nvdisasm=$2 root=$3
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
while read -r file options; do
    cubin=$dir/$(basename "$file" .tile).cubin
    # shellcheck disable=SC2086
    if ! ASAN_OPTIONS=detect_leaks=0 "$tilec" "$root/$file" --target=cuda:sm_90a --emit=cubin $options -o "$cubin" 2>"$dir/err"; then
        grep -q "cannot open the run-time compiler" "$dir/err" && exit 77
        cat "$dir/err"
        exit 1
    fi
done <<'KERNELS'
examples/kernels/attention.tile -D T=f16 -D D=64 -D CAUSAL=false
examples/kernels/gemm_int4.tile --kernel=gemm_int4
tests/run/finds/scores_without_passes.tile -O0 -D D=64
tests/run/finds/scores_in_two_walks.tile -O3 -D H=2 -D G=2 -D M=128 -D N=344 -D D=64
KERNELS
python3 "$root/tests/emit/in_flight.py" "$nvdisasm" "$dir"/*.cubin
