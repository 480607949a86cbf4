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
cmp -s a.svg "$root/docs/attention.svg" || fail "docs/attention.svg is not what tilec draws: write it again by
  tilec explain examples/kernels/attention.tile --target=cuda:sm_90a -D D=128 -D CAUSAL=true -D T=f16 --plot=docs/attention.svg"
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
"$tilec" explain "$k/layer_norm.tile" --kernel=layer_norm_long -o out.txt || fail "layer_norm"
has '^layer_norm_long<T=bf16> for cpu$'
has '^  contract +products and sums made one fma: 5'
has '^  those in main loops +5 -> 0$'
has 'load X$'
has '^resources, as LLVM gives them:$'
has '^  registers +[1-9][0-9]* of (16|32) vector registers of (16|32|64) bytes$'
has '^  stack +[0-9]+ bytes a thread$'
has '^  occupancy +one program at a time on each thread; programs in all: [0-9]+$'
# a product of large tiles spills; a copy takes few registers
"$tilec" explain "$k/attention.tile" -D T=f32 -D D=64 -D CAUSAL=true --target=cpu:aarch64 -o out.txt || fail "spills"
has '^  spills +[1-9][0-9]* stores to the stack and [1-9][0-9]* loads from it, in the whole text$'
echo 'kernel k(in f32 X[8], out f32 Y[8]) grid (1) { store(Y[0 +: 8], load(X[0 +: 8])); }' >few.tile
"$tilec" explain few.tile --target=cpu:aarch64 -o out.txt || fail "few registers"
has '^  registers +[1-4] of 32 vector registers of 16 bytes$'
# a kernel's own name is no register, one number takes one, and nothing says that -O0 does not spill
echo 'kernel v7(in f32 X[N], out f32 Y[N]) grid (N) { let i = program_id(); store(Y[i], load(X[i]) * 2.0); }' >named.tile
"$tilec" explain named.tile --target=cpu:aarch64 -o out.txt || fail "a kernel with a register's name"
has '^  registers +1 of 32 vector registers'
sed 's/f32/i32/g; s/2[.]0/2/' named.tile >none.tile
"$tilec" explain none.tile --target=cpu:aarch64 -o out.txt || fail "no registers"
has '^  registers +0 of 32 vector registers'
"$tilec" explain few.tile --target=cpu:aarch64 -O0 -o out.txt || fail "explain at -O0"
has '^  spills +not counted at -O0$'
"$tilec" explain "$k/vector_add.tile" --target=cuda:sm_80 -D T=f32 -o out.txt || fail "vector_add"
has '^every program: the whole program$'

# as a launch on a GPU, rows of known extents have no gaps and become one axis; emitted text and CPU launches promise nothing of the kind
cat >groups.tile <<'END'
kernel groups(in f32 X[N, G, C, S], out f32 Y[N, G, C, S]) grid (G, N)
{
    let (g, n) = program_id();
    let x = load(X[n, g, :, :]);
    store(Y[n, g, :, :], x - sum(x) / f32(C * S));
}
END
for target in cuda:sm_90a cpu; do
    for known in '-D C=8 -D S=100' '-D C=8 -D S=100 --assume=any'; do
        # shellcheck disable=SC2086
        "$tilec" explain groups.tile $known --target=$target -o out.txt || fail "groups $known for $target"
        if [ "$target $known" = 'cuda:sm_90a -D C=8 -D S=100' ]; then has '^  flatten '; else grep -q '^  flatten ' out.txt && fail "flatten with $known for $target"; fi
    done
done
"$tilec" groups.tile -D C=8 -D S=100 --target=cuda:sm_90a -o groups.cu || fail "groups as text"
grep -q '[*] (i32)X_stride2' groups.cu || fail "text for launchers that do not look for gaps relies on there being none"

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
has '^  as declared, of 1 configurations; estimated at [0-9.]+ us, bound by '
sed 's/) {/) hint (warps = 1) {/' plain.tile >hinted.tile
"$tilec" explain hinted.tile --device=gb10 -o out.txt || fail "a kernel whose hints stay on a GB10"
has '^  nothing is to be chosen; estimated at [0-9.]+ us, bound by '
expect 2 "there is no device \`soup\`; known are h100, " "$tilec" explain "$k/silu.tile" --device=soup
expect 2 "a100 runs code for cuda:sm_80, not for cuda:sm_90a" "$tilec" explain "$k/silu.tile" --device=a100 --target=cuda:sm_90a

# resources; several targets; what is planned says so
"$tilec" explain "$k/transpose.tile" --kernel=transpose --target=cuda:sm_80,hip:gfx942 -o out.txt || fail "two targets"
has '^transpose<T=f32> for cuda:sm_80$'
has '^transpose<T=f32> for hip:gfx942$'
has '^resources, as planned \(NVRTC or clang is asked for one variant alone\):$'
has '^  shared memory +[0-9]+ of 65536 bytes$'
has '^  occupancy +at least [0-9]+ CTAs? of [0-9]+ threads a multiprocessor: .* bound by '
has '^  intensity +[0-9.]+ FLOP a byte: .* for M = [0-9]+, N = [0-9]+$'

# every picture: well-formed, with a title, axes and a legend
"$tilec" explain "$k/transpose.tile" -D T=f32 --target=cuda:sm_80 --plot=map,access,memory:banks.svg -o out.txt || fail "three pictures"
for f in map access banks; do
    [ "$(grep -o '<text' $f.svg | wc -l)" = "$(grep -o '</text>' $f.svg | wc -l)" ] && [ "$(tail -1 $f.svg)" = '</svg>' ] || fail "$f.svg is not whole"
    grep -q '>transpose&lt;T=f32&gt; for cuda:sm_80: ' $f.svg || fail "$f.svg has no title"
    if command -v xmllint >/dev/null; then xmllint --noout $f.svg || fail "$f.svg is not XML"; fi
done
grep -q '>axis 1</text>' map.svg && grep -q '>last program</text>' map.svg || fail "map.svg has no axis or legend"
grep -q '>line 21: store Y: coalesced' access.svg && grep -q '>strided</text>' access.svg || fail "access.svg has no store or legend"
grep -q 'no bank conflicts</text>' banks.svg || fail "banks.svg shows conflicts"
[ "$(grep -c '>program ' map.svg)" = 256 ] || fail "map.svg does not show 256 programs"

# the report of accesses
"$tilec" explain "$k/transpose.tile" --memory -D TM=1 -o out.txt || fail "--memory"
has '^  line 21: store Y: stride 1024 on axis 0 of Y, along which lanes follow each other: 32 sectors for 128 bytes; '
has '^  Y +[0-9]+ +[0-9]+ +1.0x +32.0x +- +9[0-9.]+%$'
# an access in a function of an imported file is named by that file
mkdir part && printf '\n\nfn fetch(x, i) { return load(x[i*32 +: 32 : 2]); }\n' >part/lib.tile
printf 'import "part/lib.tile";\nkernel k(in f32 X[M], out f32 Y[N]) grid (cdiv(N, 32)) { let i = program_id(); store(Y[i*32 +: 32], fetch(X, i)); }\n' >user.tile
"$tilec" explain user.tile --target=cuda:sm_80 --memory -o out.txt || fail "--memory of an imported function"
has '^ +2  store Y ' && has '^  lib.tile:3  load X ' && has '^  lib.tile:3: load X: step 2 '
"$tilec" explain "$k/histogram.tile" --memory -D T=u8 -o out.txt || fail "--memory of a histogram"
has 'atomic_rmw COUNT .* uncoalesced: scattered'
"$tilec" explain "$k/gemm.tile" --target=cuda:sm_90a -D T=f16 -D TO=f16 --memory -o out.txt || fail "operands of wgmma"
grep -qE "wgmma B +wgmma read .* none" out.txt && grep -qE "A_ring +TMA write .* none" out.txt || fail "wgmma and TMA in shared memory: $(cat out.txt)"
"$tilec" explain "$k/gemm.tile" --target=cuda:sm_90a -D T=f32 -D TO=f32 -D TF32=true -D TURN=true -D TM=256 --memory -o out.txt || fail "--memory of tf32"
grep -qE "shared_read B +vectors read .* none" out.txt && grep -qE "store C +registers .* coalesced" out.txt || fail "a transposed tf32 product: $(cat out.txt)"
expect 2 "--memory shows the threads of a GPU" "$tilec" explain "$k/silu.tile" --memory --target=cpu
expect 1 "--plot=access: a CPU has no such threads" "$tilec" explain "$k/silu.tile" -D T=f32 --plot=access

# every variant under the roofs, of a card with a cost model and of one without
"$tilec" explain "$k/silu.tile" --roofline=roof.svg -o out.txt || fail "--roofline"
grep -q '>Roofline of h100</text>' roof.svg && grep -q '>1 silu' roof.svg && grep -q 'TFLOPS</text>' roof.svg || fail "roof.svg lacks a title, a variant or an axis"
"$tilec" explain "$k/silu.tile" --roofline=cpu.svg --target=cpu -o out.txt || fail "--roofline of a CPU"
grep -q 'no times: points lie where the roofs are' cpu.svg && grep -q '>1 silu' cpu.svg && grep -qE '>memory, [0-9.]+ TB/s, and (arithmetic|the matrix unit)' cpu.svg || fail "cpu.svg: $(cat cpu.svg)"
expect 1 "no roofs are known of a device that runs code for cpu:aarch64" "$tilec" explain "$k/silu.tile" --roofline=other.svg --target=cpu:aarch64
[ ! -e other.svg ] || fail "a picture without roofs was written"
"$tilec" explain "$k/silu.tile" --roofline=amd.svg --target=hip:gfx942 -o out.txt && grep -q 'best case of the cache model' amd.svg || fail "--roofline of an MI300X"

# programs whose length a tensor says are followed in part, all variants are reported, and a tensor that is
# sampled away is named
"$tilec" explain "$k/attention_paged.tile" --memory -o out.txt || fail "--memory of attention_paged.tile"
(($(grep -c '^used again, ' out.txt) == $(grep -c '^memory accesses of ' out.txt) &&
    $(grep -c '^memory accesses of attention_paged_prefill<' out.txt) >= 4)) ||
    fail "variants of attention_paged.tile: $(cat out.txt)"
has 'of the beginnings of the first 16 of 1024 programs' && has '^  PAGES_OF '
awk '/^used again/ { n = 0 } /^  [KV]  / { n++ } /^divergence/ && n != 2 { exit 1 }
    /^memory accesses of attention_paged_join/ { exit 0 }' out.txt || fail "K or V is missing: $(cat out.txt)"

# the steps of a ladder beside the variant
cat >ladder.tile <<'END'
kernel turn(in f32 X[M, N], out f32 Y[N, M], const int TM = 64, const int TN = 64) grid (cdiv(N, TN), cdiv(M, TM))
{
    let (j, i) = program_id();
    store(Y[j*TN +: TN, i*TM +: TM], transpose(load(X[i*TM +: TM, j*TN +: TN]) * 2.0));
}
ladder turn { at (M = 512, N = 512); step rows "by rows" (TM = 1, TN = 512); step conflicts "tiled" (skip swizzle); }
END
"$tilec" explain ladder.tile --roofline=steps.svg -o out.txt || fail "--roofline of a ladder"
for step in '1 turn for' '2 turn, step rows for' '3 turn, step conflicts for'; do grep -q ">$step" steps.svg || fail "steps.svg has no $step"; done

# a page in a folder that is not there: one error, and no other file
expect 1 "nowhere/page.html" "$tilec" explain "$k/silu.tile" -D T=f32 --html=nowhere/page.html --plot=map:kept.svg
absent kept.svg
expect 1 "--html draws one variant, here are" "$tilec" explain "$k/attention.tile" --html=none.html
absent none.html

# a launch without programs; vectors that are not registers of a layout, and aligned vectors around a row; targets
"$tilec" explain "$k/transpose.tile" --target=cuda:sm_80 -D T=f32 -D M=0 -D N=0 --memory -o out.txt || fail "no programs"
has '^used again, .* of 0 programs'
"$tilec" explain "$k/gemm.tile" --target=hip:gfx950 -D T=f16 -D TO=f16 --memory -o out.txt || fail "copies to LDS"
has ' copy A +LDS copy +16 +64 +8 +8192 +128 +128 +100%  coalesced'
"$tilec" explain "$k/softmax.tile" --target=cuda:sm_80 --kernel=softmax -D T=f16 -D N=1009 --memory -o out.txt || fail "shifted vectors"
has ' load X +shifted vectors +16 +508 +4 +2032 +67.2 +64 +99%  coalesced, rows begin within sectors'
# ... which is there twice: for programs inside the image, and at its edges
"$tilec" explain "$k/blur.tile" --target=cuda:sm_80 -D T=f16 -D R=1 -D TY=8 -D TX=64 --memory -o out.txt || fail "windows of a stencil"
has ' load X +registers +16 +128 +2 +1024 +36 +32 +100%  coalesced, rows begin within sectors x12'
# an axis of one element, as joined axes leave it, says nothing of where rows begin; the choice counts them so
"$tilec" explain "$root/tests/run/kernels/padded_channels.tile" --device=h200 -D B=17119 -D G=4 -D C=40 -D S=49 --memory \
    -o out.txt || fail "joined axes"
has ' load X +registers +16 +490 +8 +3920 '
[ "$(sed -n 's/.* estimated at \([0-9]*\)[.].*/\1/p' out.txt)" -lt 200 ] || fail "rows of joined axes: $(grep estimated out.txt)"
expect 1 "--plot draws one variant, for one target" "$tilec" explain plain.tile --target=cuda:sm_80,hip:gfx942 --plot=map

expect 1 "--plot draws one variant, here are" "$tilec" explain "$k/softmax.tile" --plot=none.svg
absent none.svg
expect 2 "no .tile file given" "$tilec" explain
expect 2 "there is no target \`soup\`" "$tilec" explain "$k/silu.tile" --target=soup
expect 1 "cannot open gone.tile" "$tilec" explain gone.tile
# a performance note is said once, however often the kernel is lowered
"$tilec" explain "$k/gemm.tile" --kernel=gemm --device=h100 -D T=f16 -D M=4096 -D N=4096 -D K=4096 --wperf \
    2>&1 >/dev/null | grep performance >notes
[ -s notes ] && [ -z "$(sort notes | uniq -d)" ] || fail "performance notes are repeated: $(cat notes)"
# a product whose sums are promoted to f32 is drawn as a product, and its loop is the main one
"$tilec" explain "$root/tests/emit/promote.tile" --kernel=full --target=cuda:sm_90a -o out.txt || fail "promoted products"
has '^consumers: one iteration of the loop at line 7$'
has 'product acc: 128x256 by 128$'
finish
