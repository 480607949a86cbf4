#!/bin/sh
# gen.sh DIR NAME FILE KERNEL TARGET ARGS...: DIR/NAME.cu, .json and .cubin; prints registers, spills and ptxas's remarks on wgmma.
dir=$1; name=$2; file=$3; kernel=$4; target=$5; shift 5
arch=${RUN_ARCH:-${target#cuda:sm_}}     # RUN_ARCH=90: the portable code for a machine at hand
"${GEN:-build/bench/gpu/bench_gen}" "$file" "$kernel" "$target" "$dir/$name" "$@" 2>"$dir/$name.log" || { echo "$name: not generated"; cat "$dir/$name.log"; exit 1; }
nvcc -gencode=arch=compute_$arch,code=sm_$arch -cubin -o "$dir/$name.cubin" -Xptxas -v "$dir/$name.cu" >>"$dir/$name.log" 2>&1 || { echo "$name: nvcc failed"; tail -5 "$dir/$name.log"; exit 1; }
echo "$name: $(grep -oE 'Used [0-9]+ registers' "$dir/$name.log") $(grep -oE '[0-9]+ bytes spill stores' "$dir/$name.log" | head -1) $(grep -E 'C75' "$dir/$name.log" | head -1 | cut -c1-90)"
