#!/bin/sh
# gen.sh DIR kernels.txt [NAME ...]              every kernel of the list (or those named), two at a time
# gen.sh DIR NAME FILE KERNEL TARGET ARGS...     one: DIR/NAME.cu, .json and .cubin; prints registers, spills and ptxas's remarks on wgmma
here=$(cd "$(dirname "$0")" && pwd)
case $2 in *.txt)
    dir=$1; list=$2; shift 2
    grep -v '^#' "$list" | while read -r name rest; do
        [ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
        echo "$dir $name $rest"
    done | xargs -P 2 -L 1 sh "$0"
    exit ;;
esac
dir=$1; name=$2; file=$3; kernel=$4; target=$5; shift 5
case $file in */*) ;; *) file=$here/../../examples/kernels/$file.tile ;; esac
arch=${RUN_ARCH:-${target#cuda:sm_}}     # RUN_ARCH=80: for that machine; else portable code is compiled for the one at hand
[ -n "$RUN_ARCH" ] || [ "$arch" -ge 90 ] 2>/dev/null || case $arch in *a) ;; *) arch=90 ;; esac
"${GEN:-build/bench/gpu/bench_gen}" "$file" "$kernel" "$target" "$dir/$name" "$@" 2>"$dir/$name.log" || { echo "$name: not generated"; cat "$dir/$name.log"; exit 1; }
whole=${name%%.no-*}        # of the ladder (ladder.py): what a pass leaves as it is need not be compiled again
[ "$whole" = "$name" ] || ! cmp -s "$dir/$name.cu" "$dir/$whole.cu" || { rm -f "$dir/$name".*; exit 0; }
nvcc -gencode=arch=compute_$arch,code=sm_$arch -cubin -o "$dir/$name.cubin" -Xptxas -v "$dir/$name.cu" >>"$dir/$name.log" 2>&1 || { echo "$name: nvcc failed"; tail -5 "$dir/$name.log"; exit 1; }
echo "$name: $(grep -oE 'Used [0-9]+ registers' "$dir/$name.log") $(grep -oE '[0-9]+ bytes spill stores' "$dir/$name.log" | head -1) $(grep -E 'C75' "$dir/$name.log" | head -1 | cut -c1-90)"
