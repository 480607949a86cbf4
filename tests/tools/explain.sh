#!/bin/bash
# explain.sh: `tilec explain` says what passes did and draws the main loop, as text and as SVG.
. "$(dirname "$0")/lib.sh"
k=$root/examples/kernels
has() { grep -qE "$1" out.txt || fail "no \"$1\" in the explanation:"$'\n'"$(cat out.txt)"; }

"$tilec" explain "$k/attention.tile" --target=cuda:sm_90a -D D=128 -D CAUSAL=true -D T=f16 --plot=a.svg -o out.txt || fail "attention"
has '^attention<D=128, CAUSAL=true, T=f16> for cuda:sm_90a$'
has '^  exp2 +exp turned into exp2: 2'
has '^  exp +2 -> 0$'
has '^  transposes +1 -> 0$'
has '^schedule: .* of the producer'
has '^producer: one iteration of the loop at line 19$'
has 'copy K into a free stage of [0-9]+$'
has '^consumers: one iteration of the loop at line 19$'
# the second product is issued while the first is in flight, and arithmetic runs before it is waited for
awk '/^consumers/ { on = 1 } on && /\|     acc .*issued/ { over = 1 } over && /exp2/ { math = 1 } math && /wait for product acc/ { found = 1 } END { exit !found }' out.txt ||
    fail "no overlap in the timeline:"$'\n'"$(cat out.txt)"
for lane in copies waits 'matrix unit' arithmetic; do grep -q ">$lane</text>" a.svg || fail "a.svg has no lane $lane"; done
[ "$(grep -c '<rect' a.svg)" -gt 8 ] && [ "$(tail -1 a.svg)" = '</svg>' ] || fail "a.svg is not a drawing"
[ "$(grep -o '<text' a.svg | wc -l)" = "$(grep -o '</text>' a.svg | wc -l)" ] || fail "a.svg: texts are not closed"
if command -v xmllint >/dev/null; then xmllint --noout a.svg || fail "a.svg is not XML"; fi

# without the pass its line goes, and what it did is not there
"$tilec" explain "$k/attention.tile" --target=cuda:sm_90a -D D=128 -D CAUSAL=true -D T=f16 --skip-pass=exp2,warp-specialization -o out.txt || fail "attention without exp2"
grep -q '^  exp2 ' out.txt && grep -q 'exp turned' out.txt && fail "exp2 was left out and counted"
has '^  exp +2 -> 2$'
has '^every program: '

# the CPU, several variants, other targets
"$tilec" explain "$k/softmax.tile" --kernel=softmax_long -o out.txt || fail "softmax"
has '^softmax_long<T=bf16> for cpu$'
has '^  exp2 +exp turned into exp2: 3'
has '^  those in main loops +3 -> 0$'
has 'load X$'
"$tilec" explain "$k/vector_add.tile" --target=cuda:sm_80 -D T=f32 -o out.txt || fail "vector_add"
has '^every program: the whole program$'

# what a named card would choose: the configuration, its time, what bounds it; then that configuration is explained
"$tilec" explain "$k/gemm.tile" --kernel=gemm --device=h100 -D T=f16 -D M=4096 -D N=4096 -D K=4096 -o out.txt || fail "gemm on an H100"
has '^gemm<.*> for cuda:sm_90a$'
has '^chosen for NVIDIA H100 \(h100, 132 multiprocessors\):$'
has '^  TN=[0-9]+, .*, of [0-9]+ configurations; estimated at [0-9.]+ us, bound by [a-zA-Z0-9 ]+; as declared [0-9.]+ us$'
has 'TN=256, TK=64'
has '^schedule: 8 warps of consumers'
"$tilec" explain "$k/gemm.tile" --kernel=gemm --device=a100 -D T=f16 -D M=4096 -o out.txt || fail "gemm on an A100"
has '^gemm<.*> for cuda:sm_80$'
has '^  extents that -D does not give: [KN], [KN]; 1024 stands for each$'
printf 'kernel k(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 128)) { let i = program_id()*128; store(Y[i +: 128], load(X[i +: 128])); }' >plain.tile
"$tilec" explain plain.tile --device=gb10 -o out.txt || fail "a kernel without a tune block on a GB10"
has '^  nothing is to be chosen; estimated at [0-9.]+ us, bound by '
expect 2 "there is no device \`soup\`; known are h100, " "$tilec" explain "$k/silu.tile" --device=soup
expect 2 "a100 runs code for cuda:sm_80, not for cuda:sm_90a" "$tilec" explain "$k/silu.tile" --device=a100 --target=cuda:sm_90a

expect 1 "--plot draws one variant, here are" "$tilec" explain "$k/softmax.tile" --plot=none.svg
absent none.svg
expect 2 "no .tile file given" "$tilec" explain
expect 2 "there is no target \`soup\`" "$tilec" explain "$k/silu.tile" --target=soup
expect 1 "cannot open gone.tile" "$tilec" explain gone.tile
finish
