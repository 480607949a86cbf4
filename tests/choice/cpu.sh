#!/bin/bash
# cpu.sh COSTS SOURCE_FOLDER [AMX_MACHINE]: the values of tune blocks that are chosen on a CPU are those that were measured to be fast
# (bench/notes/cpu.md, "Choice on a CPU"), and configurations as declared stay where nothing is gained.
set -u
costs=$1 kernels=$2/examples/kernels failed=0
export TILE_CPU_LEVEL=any # the rates of units differ from machine to machine
check() # EXPECTED FILE KERNEL BINDINGS..
{
    local want=$1 file=$2 kernel=$3 said
    shift 3
    said=$("$costs" --choose "$kernels/$file.tile" "$kernel" cpu "$@") || said="error"
    [ "${said%%:*}" = "$want" ] || { echo "FAIL: $kernel $*: ${said%%:*}, expected $want"; failed=1; }
}
check 'as declared' gemm gemm M=1024 N=1024 K=1024 T=f32 TO=f32
check 'as declared' gemm gemm M=1009 N=1009 K=1009 T=f32 TO=f32
# Tiles of whole panels of 64 columns: not 144.
check 'as declared' gemm gemm M=2048 N=2048 K=2048 T=f32 TO=f32
# However deep the tiles are, sums stay in registers for as long as operands fit the caches: deep tiles gain nothing.
said=$("$costs" --choose --second-cache=$((2 << 20)) "$kernels/gemm.tile" gemm cpu M=1024 N=1024 K=1024 T=f32 TO=f32) || said="error"
[ "${said%%:*}" = 'as declared' ] || { echo "FAIL: gemm f32, 2 MB: ${said%%:*}, expected as declared"; failed=1; }
# AMX multiplies A where it lies, and programs find B packed: taller tiles save little (bench/notes/cpu.md, "Tiles of A past
# the first cache"). AMX_MACHINE is what tests/unit/cpu builds.
if [ -f "${3:-}" ]; then
    for n in 1024 2048; do
        said=$(env -u TILE_CPU_LEVEL ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$3" "$costs" --choose \
            --second-cache=$((2 << 20)) "$kernels/gemm.tile" gemm cpu M=$n N=$n K=$n T=bf16 TO=bf16) || said="error"
        [ "${said%%:*}" = 'as declared' ] || { echo "FAIL: gemm bf16 $n, AMX: ${said%%:*}, expected as declared"; failed=1; }
    done
fi
# Rows of 128 bytes are read at a third of the speed of rows of 256.
check 'TN=256, TK=128' gemm gemm M=1 N=4096 K=4096 T=i8 ACC=i32 TO=i32
# Products of few rows end sooner than memory answers, so weights are asked for ahead (STAGES); and of a constant with two
# values (TN) the other one is taken if it is better.
said=$("$costs" --choose "$kernels/gemm_w4a8.tile" gemm_w4a8 cpu M=4 N=4096 K=4096 KHALF=2048 GROUPS=32 T=f16) || said="error"
[[ $said == *TN=128,\ STAGES=3:* ]] || { echo "FAIL: gemm_w4a8: ${said%%:*}, expected TN=128, STAGES=3"; failed=1; }
# Tiles that divide the image compute no columns beyond it.
check 'TP=8, TQ=28, TC=64' conv2d conv2d_nhwc B=1 H=56 W=56 C=64 F=64 R=3 S=3 P=56 Q=56 T=f32
check 'TF=128, TQ=28, TC=64' conv2d conv2d_nchw B=8 H=28 W=28 C=128 F=128 R=3 S=3 P=28 Q=28 T=f32
# Windows that are transposed stay in the first cache, or have long rows if these begin within lines.
check 'as declared' transpose transpose M=8192 N=8192
check 'TM=128, TN=128' transpose transpose M=8191 N=8193
# Half of that in the second cache of a machine, whose size is this machine's where no level is asked for.
l2=$(getconf LEVEL2_CACHE_SIZE)
if ((l2 >= 1 << 19 && l2 < 1 << 20)); then
    said=$(env -u TILE_CPU_LEVEL "$costs" --choose "$kernels/transpose.tile" transpose cpu M=8191 N=8193) || said="error"
    [ "${said%%:*}" = TM=128 ] || { echo "FAIL: transpose, 512 KB: ${said%%:*}, expected TM=128"; failed=1; }
fi
check 'as declared' silu silu M=4096 N=4096
# Pixels that are gathered one by one take longer than the same in a window (FLAT), where a fast unit leaves the
# product little time: with the rates of this machine.
said=$(env -u TILE_CPU_LEVEL "$costs" --choose "$kernels/conv2d.tile" conv2d_nhwc cpu B=1 H=56 W=56 C=64 F=64 R=3 S=3 P=56 \
    Q=56 T=bf16) || said="FLAT=true: an error"
case $said in *FLAT=true*) echo "FAIL: conv2d_nhwc of bf16: ${said%%:*}"; failed=1 ;; esac
# Where a unit takes pairs as they lie in memory, packing is cheap, and computed columns beyond the image are not.
if grep -q avx512_bf16 /proc/cpuinfo && ! grep -q amx_bf16 /proc/cpuinfo; then
    [ "${said%%:*}" = 'TP=8, TQ=28, TC=64' ] || { echo "FAIL: conv2d_nhwc of bf16: ${said%%:*}"; failed=1; }
fi
# Where the beginning of a row is dear (costs.def), products of few rows take tiles with long rows: Zen 1 is family 23,
# models below 48, and Zen 3 is family 25, models below 16 and from 32 to 95.
if awk -F: '/^cpu family/ { f = $2 } /^model[ \t]*:/ { m = $2 }
    END { exit !(f == 23 && m < 48 || f == 25 && (m < 16 || m >= 32 && m < 96)) }' /proc/cpuinfo; then
    for m in 1 4; do
        said=$(env -u TILE_CPU_LEVEL "$costs" --choose "$kernels/gemm.tile" gemm cpu M=$m N=4096 K=4096 T=f32 TO=f32) ||
            said="an error"
        case $said in
            "TM=16, TN=2048"*) ;;
            *) echo "FAIL: gemm of $m rows, f32: ${said%%:*}, expected tiles of 2048 columns"; failed=1 ;;
        esac
    done
fi
exit $failed
