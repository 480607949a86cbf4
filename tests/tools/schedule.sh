#!/bin/bash
# schedule.sh: --emit=schedule prints what --schedule and the hint read back; one decision changed changes that one; what is not legal is an error at its place.
. "$(dirname "$0")/lib.sh"
k=$root/examples/kernels
attention=("$tilec" "$k/attention.tile" -D D=64 -D T=f16 -D CAUSAL=true)
hopper=("${attention[@]}" --target=cuda:sm_90a)
decisions() { grep -v '^#'; }

# printed and read back: the same code, the same schedule
for target in cuda:sm_90a cuda:sm_80 hip:gfx942; do
    "${attention[@]}" --target=$target --emit=schedule >own.txt || fail "$target: no schedule"
    "${attention[@]}" --target=$target -o own.cu || fail "$target: no code"
    "${attention[@]}" --target=$target --schedule=own.txt -o again.cu || fail "$target: its own schedule is refused"
    same own.cu again.cu
    "${attention[@]}" --target=$target --schedule=own.txt --emit=schedule | cmp -s - own.txt || fail "$target: another schedule comes back"
done
"$tilec" "$k/attention.tile" --target=cuda:sm_90a --emit=schedule >all.txt         # every variant, a section each
"$tilec" "$k/attention.tile" --target=cuda:sm_90a --schedule=all.txt -o again.cu && "$tilec" "$k/attention.tile" --target=cuda:sm_90a -o own.cu && same own.cu again.cu

# changes LINES: decided so, the schedule printed differs from the derived one in these lines only, and the code differs
"${hopper[@]}" --emit=schedule | decisions >own.txt
"${hopper[@]}" -o own.cu
changes() {
    printf '%s\n' "$1" >s.txt
    "${hopper[@]}" --schedule=s.txt --emit=schedule | decisions >new.txt || { fail "refused: $1"; return; }
    [ "$(diff own.txt new.txt | sed -n 's/^> //p')" = "$1" ] || fail "$1 changes more or less: $(diff own.txt new.txt)"
    [ "$(grep -c '' own.txt)" = "$(($(grep -c '' new.txt) - ${2:-0}))" ] || fail "$1 leaves lines out: $(diff own.txt new.txt)"
    "${hopper[@]}" --schedule=s.txt -o new.cu && ! cmp -s own.cu new.cu || fail "$1 changes nothing in the code"
}
changes 'load K stages 2'
changes 'loop 1 plain'
changes 'loop 1 pipelined 2 cross_tile'
changes 'programs static'
changes 'order ids'
changes 'rescale always'
changes 'registers 24 240'
changes 'store O registers'
changes 'pingpong on' 1
# and so it does what it says
printf 'loop 1 plain; load K stages 2' >s.txt
"${hopper[@]}" --schedule=s.txt -o new.cu
grep -q 'K_ring.*2 stages' new.cu || fail "K has not two stages"
[ "$(grep -c ' wgmma_wait(1)' new.cu)" = 0 ] && [ "$(grep -c ' wgmma_wait(1)' own.cu)" -gt 0 ] || fail "products of the plain order are left in flight"

# a kernel with a raster clause: its order is printed, and another takes its place; portable code: fragments ahead or not, rings on AMD straight or by registers
kernel=("$tilec" "$k/gemm.tile" -D T=f16 -D ACC=f32 -D TO=f16 -D TF32=false)
takes() {       # takes TARGET LINES: decided so, the schedule printed has these lines, and the code is another than the derived one
    printf '%s\n' "$2" | tr ';' '\n' | sed 's/^ *//' >lines.txt
    printf '%s\n' "$2" >s.txt
    "${kernel[@]}" --target="$1" -o own2.cu
    "${kernel[@]}" --target="$1" --schedule=s.txt --emit=schedule >new.txt || { fail "$1 refuses: $2"; return; }
    grep -qxFf lines.txt new.txt && [ "$(grep -cxFf lines.txt new.txt)" = "$(grep -c '' lines.txt)" ] || fail "$2 on $1: $(cat new.txt)"
    "${kernel[@]}" --target="$1" --schedule=s.txt -o new.cu && ! cmp -s own2.cu new.cu || fail "$2 on $1 changes nothing in the code"
}
for target in cuda:sm_90a cuda:sm_80 hip:gfx942; do
    "${kernel[@]}" --target=$target --emit=schedule | grep -qx 'order remap' || fail "$target: the raster clause is not told"
    takes $target 'order rows 8'
    takes $target 'order ids'
    takes $target 'order first 1'
    takes $target 'order scattered'
done
takes cuda:sm_80 'loop 1 plain'
takes hip:gfx942 'load A stages 1 by cp_async; load B stages 1 by cp_async'
"${kernel[@]}" --target=cuda:sm_80 --emit=schedule | grep -qx 'loop 1 prefetch' || fail "fragments ahead are not told"

kernel=("$tilec" "$k/gemm_residual.tile" -D TM=128 -D TN=256 -D TK=64 -D STAGES=4 -D T=f16)
"${kernel[@]}" --target=cuda:sm_90a --emit=schedule | grep -qx 'load R epilogue 2' || fail "stages for the residual are not told"
takes cuda:sm_90a 'load R registers'
printf '\nload R epilogue 3\n' >s.txt
expect 1 "s.txt:2:1: error: this tile takes 2 stages of the operands' ring" "${kernel[@]}" --target=cuda:sm_90a --schedule=s.txt -o no.cu

# rows: what is loaded before the reduction behind which it stands
kernel=("$tilec" "$k/layer_norm.tile" --kernel=layer_norm -D N=4096 -D T=f16)
"${kernel[@]}" --target=cuda:sm_90a --emit=schedule >new.txt
grep -qx 'load W hoisted' new.txt && grep -qx 'load B hoisted' new.txt || fail "early loads are not told: $(cat new.txt)"
takes cuda:sm_90a 'load W registers'
takes cuda:sm_80 'load W registers; load B registers'
printf '\nload X early\n' >s.txt
expect 1 's.txt:2:1: error: kernel layer_norm does nothing but load this tile to registers' "${kernel[@]}" --target=cuda:sm_90a --schedule=s.txt -o no.cu

# refused LINE TEXT: an error at its place
refused() {
    printf '# by hand\n%s\n' "$1" >s.txt
    expect 1 "s.txt:2:$2" "${hopper[@]}" --schedule=s.txt -o no.cu
    absent no.cu
}
refused 'foo 3' '1: error: a schedule decides nothing called `foo`'
refused 'load K' '1: error: `load` is decided as one of: registers|prefetch|multistage|stages N'
refused 'load Z stages 1' '6: error: `load` names a tensor of kernel attention'
refused 'load K.2 stages 1' '1: error: kernel attention loads 1 tiles of `K`'
refused 'load K stages 40' '1: error: rings of '
refused 'load K stages 0' '1: error: wgmma and TMA take this tile through at least one stage'
refused 'load K multistage' '1: error: wgmma and TMA take this tile through at least one stage'
refused 'loop 1 chain' '1: error: products of this loop are waited for where they are issued'
refused 'loop 1 pipelined 1' '1: error: the first product has none before it to run behind'
refused 'loop 1 pipelined 3' '1: error: the loop has 2 products, counted from 1'
refused 'loop 2 plain' '1: error: there is nothing like that to decide in kernel attention'
refused 'order rows 8' '1: error: groups of rows want a grid of two axes'
refused 'order remap' '1: error: the kernel has no remap or raster clause'
refused 'loop 1 prefetch' '1: error: with warp specialization products read their operands from shared memory themselves'
refused 'load K stages 0 by cp_async' '1: error: wgmma and TMA take this tile through at least one stage'
refused 'order heavy 3' '1: error: the grid has 3 axes, counted from 0'
refused 'order first 3' '1: error: the grid has 3 axes, counted from 0'
refused 'order scattered' '1: error: programs of one row come together on a grid of two axes'
refused 'warp_specialization 3' '1: error: 128 rows are 2 blocks of 64, which 3 warpgroups cannot share evenly'
refused 'registers 40 240' '1: error: 128 threads of 40 registers and 256 of 240 take 66560, and the launch gives 64512'
refused 'registers 40 152' '1: error: the launch gives 168 to each thread'
refused 'registers 41 232' '1: error: registers are handed over in eights'
refused 'store O tma 2' '1: error: a warp has 1 box, and 2 buffers are more than that'
refused 'store O tma 0' '1: error: TMA stores from one buffer'
refused 'warps 4' '1: error: with warp specialization the consumer warpgroups hold the tiles'
refused 'cluster 2' '1: error: no row of this kernel can be spread over a cluster'
refused 'cluster 3' '1: error: a cluster has 1, 2, 4 or 8 CTAs'
refused 'load K stages 2; load K stages 3' '18: error: decided twice'
refused 'load K "stages' '8: error: a schedule has words, numbers'
refused 'schedule attention for cuda:sm_1' '24: error: no target `cuda:sm_1`'
printf 'split_k 2' >s.txt
expect 1 's.txt:1:1: error: the loop is not divided: the loop carries more than sums, maxima or minima' "$tilec" "$k/chunk_scan.tile" --target=cuda:sm_90a --schedule=s.txt -o no.cu
# what is written decides, whatever the flags leave out
printf 'warp_specialization 2' >s.txt
"$tilec" "$k/attention.tile" -D D=64 -D T=f16 -D CAUSAL=true --target=cuda:sm_90a --schedule=s.txt --skip-pass=warp-specialization -o kept.cu
grep -q wgmma_m kept.cu || fail "--skip-pass wins over a written warp_specialization"

printf 'warp_specialization 2' >s.txt
expect 1 's.txt:1:1: error: cuda:sm_80 has no TMA and no wgmma for roles' "${attention[@]}" --target=cuda:sm_80 --schedule=s.txt -o no.cu
printf 'load K stages 2 by cp_async' >s.txt
expect 1 's.txt:1:1: error: cuda:sm_80 copies to shared memory directly' "${attention[@]}" --target=cuda:sm_80 --schedule=s.txt -o no.cu
printf 'loop 1 prefetch' >s.txt
expect 1 's.txt:1:1: error: fragments are read ahead in a loop of one product' "${attention[@]}" --target=cuda:sm_80 --schedule=s.txt -o no.cu
printf 'loop 1 pipelined 2' >s.txt
expect 1 's.txt:1:1: error: this order of products needs warp specialization' "${attention[@]}" --target=cuda:sm_80 --schedule=s.txt -o no.cu
printf 'load A stages 2 by cp_async; load B stages 2' >s.txt
expect 1 's.txt:1:30: error: the loads of one loop go the same way, and another one goes by cp_async' "$tilec" "$k/gemm.tile" -D T=f16 --target=hip:gfx942 --schedule=s.txt -o no.cu
printf 'load A stages 2; load B stages 3' >s.txt
expect 0 '' "$tilec" "$k/gemm.tile" -D T=f16 --target=cuda:sm_80 --schedule=s.txt -o rings.cu
grep -q 'A_ring *2 x' rings.cu && grep -q 'B_ring *3 x' rings.cu || fail "rings of 2 and of 3 stages in one loop"

# sections: of another kernel, specialization or target they do not apply, and a file without any that does says so
printf 'schedule gemm; load K stages 9\nschedule attention "D=96"\nload K stages 9\nschedule for hip:gfx942\nload K stages 9\n' >s.txt
expect 0 'warning: s.txt has no schedule for attention (D=64, T=f16, CAUSAL=true) on cuda:sm_90a: it is derived' "${hopper[@]}" --schedule=s.txt -o again.cu
same own.cu again.cu
expect 0 "warning: --schedule is for GPU targets" "${attention[@]}" --target=cpu --schedule=s.txt -o k.o -h k.h
expect 2 "cannot open none" "${hopper[@]}" --schedule=none -o no.cu

# the hint says the same, and the flag goes before it
sed 's/^    grid (.*/&\n    hint (schedule = "schedule for cuda:sm_90a; load K stages 2")/' "$k/attention.tile" >hint.tile
[ "$("$tilec" hint.tile --kernel=attention -D D=64 -D T=f16 -D CAUSAL=true --target=cuda:sm_90a --emit=schedule | grep '^load K')" = 'load K stages 2' ] || fail "the hint is not followed"
"$tilec" hint.tile --kernel=attention -D D=64 -D T=f16 -D CAUSAL=true --target=cuda:sm_80 -o no.cu || fail "a hint for another target is in the way"
printf 'load K stages 3' >s.txt
[ "$("$tilec" hint.tile --kernel=attention -D D=64 -D T=f16 -D CAUSAL=true --target=cuda:sm_90a --schedule=s.txt --emit=schedule | grep '^load K')" = 'load K stages 3' ] || fail "the flag does not go before the hint"
sed 's/stages 2"/stages 99"/' hint.tile >bad.tile
expect 1 'schedule of attention:1:27: error: rings of ' "$tilec" bad.tile --kernel=attention -D D=64 -D T=f16 -D CAUSAL=true --target=cuda:sm_90a -o no2.cu

# former words are taken with a warning that gives today's
printf 'load K ring 2; roles 2; programs tickets; loop 1 late 2' >s.txt
expect 0 's.txt:1:8: warning: in schedules `ring` is called `stages` now' "${attention[@]}" --target=cuda:sm_90a --schedule=s.txt -o former.cu
printf 'load K stages 2; warp_specialization 2; programs dynamic; loop 1 pipelined 2' >s.txt
expect 0 "" "${attention[@]}" --target=cuda:sm_90a --schedule=s.txt -o now.cu
same former.cu now.cu

# on a CPU, keys that equal positions are counted by additions; positions that several loops compare with otherwise are
# computed where they are read: no buffer of 8192 x 64
counts=$root/bench/ported/kernels/moe_align_blocks.tile sizes="-D T=65536 -D E=64 -D TT=8192"
"$tilec" "$counts" --emit=schedule $sizes >cpu.txt
grep -q 'nest 8192 count' cpu.txt || fail "keys are not counted by additions"
sed 's/ == / <= /' "$counts" >up_to.tile
"$tilec" up_to.tile --emit=schedule $sizes >cpu.txt
grep -q 'nest 8192x64 reduce' cpu.txt || fail "the counts are not summed as expected"
! grep -q '8192x64 buffer' cpu.txt || fail "positions have a buffer"

# a panel of B takes at most half of the first cache of 32 KB: of 64 columns of 4 bytes and of 1
deep() { # DEPTH CPU BINDINGS..
    local depth=$1 cpu=$2
    shift 2
    "$tilec" "$k/gemm.tile" --emit=schedule --cpu=$cpu "$@" | grep -m1 'mr 4 nv 4' | grep -q ", $depth deep" || fail "$cpu $*: not $depth deep"
}
deep 64 x86-64-v4 -D T=f32 -D TO=f32 -D TF32=false
deep 64 x86-64-v4 -D T=f32 -D TO=f32 -D TF32=false -D TM=64 -D TN=192 # and blocks of 16 sums, not of 24
deep 256 icelake-server -D T=i8 -D ACC=i32 -D TO=i32 -D TM=64 -D TN=64
finish
