#!/bin/bash
# products.sh: which instructions the products of a type become on a processor, whatever processor is here.
. "$(dirname "$0")/lib.sh"

cat >k.tile <<'T'
kernel k(in A A0[M, K], in B B0[K, N], out C C0[M, N], const type A = i8, const type B = i8, const type C = i32)
    grid (cdiv(M, 32))
{
    let i = program_id();
    var acc = zeros([32, 32], C);
    for k in 0 .. cdiv(K, 32) {
        acc = mma(load(A0[i*32 +: 32, k*32 +: 32]), load(B0[k*32 +: 32, 0 +: 32]), acc);
    }
    store(C0[i*32 +: 32, 0 +: 32], acc);
}
T

# product PROCESSOR A B C INSTRUCTION [NOT]: the assembly has the one, and not the other
product() {
    local target=cpu
    case $1 in generic | neoverse* | cortex* | apple*) target=cpu:aarch64 ;; esac
    expect 0 "" "$tilec" k.tile --target=$target --cpu="$1" --emit=asm -D A="$2" -D B="$3" -D C="$4" -o k.s
    grep -q "[[:space:]]$5[[:space:]]" k.s || fail "$1: no $5 for $2 x $3"
    [ -z "${6-}" ] || ! grep -q "[[:space:]]$6[[:space:]]" k.s || fail "$1: $6 for $2 x $3"
}
product neoverse-v2 i8 i8 i32 sdot
product neoverse-v2 u8 u8 i32 udot
product neoverse-v2 u8 i8 i32 usdot
product neoverse-v2 i8 u8 i32 usdot
product neoverse-v2 bf16 bf16 f32 bfdot fmla
product neoverse-n1 i8 i8 i32 sdot
product neoverse-n1 u8 i8 i32 smull usdot
product neoverse-n1 bf16 bf16 f32 fmla bfdot
product cortex-a53 i8 i8 i32 smull sdot
product cortex-a53 f32 f32 f32 fmla
product znver4 i8 i8 i32 vpdpbusd vpmaddubsw
product znver4 bf16 bf16 f32 vdpbf16ps
product cascadelake i8 i8 i32 vpdpbusd vpmaddubsw
product x86-64-v4 i8 i8 i32 vpmaddwd vpdpwssd
product x86-64-v3 i8 i8 i32 vpmaddwd
product x86-64-v3 bf16 bf16 f32 'vfmadd[0-9]*ps' vdpbf16ps

# Products of few rows: dot products where B is loaded, and on AVX-512 weights of 4 bits looked up in a register.
# few PROCESSOR A B C INSTRUCTION: the assembly has the instruction
few() {
    sed 's/32 +: 32, k/4 +: 4, k/; s/i\*32 +: 32/i*4 +: 4/; s/\[32, 32\]/[4, 32]/; s/cdiv(M, 32)/cdiv(M, 4)/; s/k\*32 +: 32/k*64 +: 64/g; s/cdiv(K, 32)/cdiv(K, 64)/' k.tile >few.tile
    expect 0 "" "$tilec" few.tile --cpu="$1" --emit=asm -D A="$2" -D B="$3" -D C="$4" -o few.s
    grep -q "[[:space:]]$5[[:space:]]" few.s || fail "$1: no $5 for few rows of $2 x $3"
}
few znver4 i8 i8 i32 vpdpbusd
few znver4 u8 u8 i32 vpdpbusd
few alderlake i8 i8 i32 vpdpbusd
few znver4 bf16 bf16 f32 vdpbf16ps
few x86-64-v4 bf16 bf16 f32 'vfmadd[0-9]*ps'
few x86-64-v3 i8 i8 i32 vpmaddwd
# AVX2 widens by interleaving the halves of registers.
few x86-64-v3 bf16 bf16 f32 vpunpckhwd
[ "$(grep -c vpunpckhwd few.s)" -gt "$(grep -c vpslld few.s)" ] || fail "x86-64-v3: bf16 are widened by shifts"
few x86-64-v3 i8 i8 i32 vpcmpgtb
few x86-64-v3 u8 u8 i32 vpunpckhbw
few x86-64-v4 i8 i8 i32 vpmaddwd
cat >bits.tile <<'T'
kernel k(in f16 A0[K], in u8 B0[N, K], in f16 S[N], out f32 C0[N]) grid (cdiv(N, 32))
{
    let j = program_id();
    let s = load(S[j*32 +: 32])[:, None];
    var acc = zeros([32, 1], f32);
    for k in 0 .. cdiv(K, 64) {
        acc = mma(f16(load(B0[j*32 +: 32, k*64 +: 64]) & 15) * s, load(A0[k*64 +: 64])[:, None], acc);
    }
    store(C0[j*32 +: 32], reshape(acc, [32]));
}
T
expect 0 "" "$tilec" bits.tile --cpu=x86-64-v4 --emit=asm -o bits.s
grep -q 'vperm[ds]' bits.s || fail "weights of 4 bits are not looked up"
# Beside 16 columns AMX multiplies, and the weights are looked up where they are packed.
sed 's/in f16/in bf16/g; s/A0\[K\]/A0[16, K]/; s/C0\[N\]/C0[N, 16]/; s/f16(load/bf16(load/; s/\[32, 1\]/[32, 16]/
     s/load(A0\[k\*64 +: 64\])\[:, None\]/transpose(load(A0[:, k*64 +: 64]))/
     s/store.*/store(C0[j*32 +: 32, :], acc);/' bits.tile >packed.tile
expect 0 "" "$tilec" packed.tile --cpu=sapphirerapids --emit=asm -o packed.s
grep -q tdpbf16ps packed.s || fail "a product of 16 columns does not use AMX"
grep -q vpmovzxbw packed.s && grep -q vpermw packed.s || fail "weights of 4 bits that AMX multiplies are computed"
# Weights of 4 bits beside few activations of 8 bits are multiplied by words, which AVX-512 transposes once for
# both halves of the bytes: four rows, and eight of 16 or of a tile of 16, four words at a time.
words() { grep -c "$1" words.s; }
expect 0 "" "$tilec" "$root/examples/kernels/gemm_w4a8.tile" --cpu=cascadelake -D N=4096 -D K=4096 --emit=asm -o words.s
[ "$(words 'vpdpbusd.*{1to16}')" = 160 ] || fail "weights of 4 bits are not multiplied by words"
transposed=$(words 'vpermt2d.*zmm')
[ "$transposed" -ge 48 ] && [ "$transposed" -lt 96 ] || fail "the bytes are transposed $transposed times"
expect 0 "" "$tilec" "$root/examples/kernels/gemm_w4a8.tile" --cpu=x86-64-v4 -D N=4096 -D K=4096 --emit=asm -o words.s
[ "$(words 'vpbroadcastd.*(.*zmm')" -ge 160 ] || fail "x86-64-v4: weights of 4 bits are not multiplied by words"
# Beside activations of floats, a loop goes through the weights row by row for a block of groups, which lie
# side by side: what is asked for is 16 KB ahead.
for level in x86-64-v3 x86-64-v4; do
    expect 0 "" "$tilec" "$root/examples/kernels/gemm_int4.tile" --cpu=$level -D N=4096 -D K=4096 --emit=asm -o blocks.s
    grep -q 'prefetcht1[[:space:]]*16384(' blocks.s || fail "$level: groups of weights are multiplied one after the other"
done
# Two products of the halves of bytes, by one table: one mask less, and sums of lanes behind the loop alone.
sed 's/in f16 A0\[K\]/in f16 A0[2*K]/; s/^    for k.*/&\n        let w = load(B0[j*32 +: 32, k*64 +: 64]);/
     s/^        acc = mma.*/        acc = mma(f16(w \& 15) * s, load(A0[k*128 +: 64])[:, None], acc);\n        acc = mma(f16(w >> 4) * s, load(A0[k*128 + 64 +: 64])[:, None], acc);/' bits.tile >halves.tile
expect 0 "" "$tilec" halves.tile --cpu=x86-64-v4 --emit=schedule -o halves.txt
grep -q 'of few columns.*, with the next' halves.txt || fail "two products are not computed at once"
grep -q 'of few columns.*, and the last' halves.txt || fail "the second product is computed alone"
expect 0 "" "$tilec" halves.tile --cpu=x86-64-v4 --emit=asm -o halves.s
[ "$(grep -c vcvtps2ph halves.s)" -lt "$((2 * $(grep -c vcvtps2ph bits.s)))" ] || fail "the products make a table each"
# AVX2 looks up the two bytes of f16, which is widened from memory, and of bf16. Elements of f32 that follow from
# their bits by few operations are computed.
expect 0 "" "$tilec" bits.tile --cpu=x86-64-v3 --emit=asm -o bits.s
! grep -q 'zmm' bits.s || fail "registers that the level does not have"
for type in bf16 f32; do
    sed "s/f16/$type/g" bits.tile >bits_$type.tile
    expect 0 "" "$tilec" bits_$type.tile --cpu=x86-64-v3 --emit=asm -o bits_$type.s
done
shuffles() { grep -c 'vpshufb.*ymm' "$1"; }
[ "$(shuffles bits.s)" -ge 6 ] && grep -q 'vcvtph2ps.*(' bits.s || fail "x86-64-v3: weights of 4 bits are not looked up"
[ "$(shuffles bits_bf16.s)" -ge 6 ] || fail "x86-64-v3: bytes of bf16 are not looked up"
[ "$(shuffles bits_f32.s)" = 0 ] && grep -q 'vcvtdq2ps.*ymm' bits_f32.s || fail "x86-64-v3: elements of f32 are looked up"
expect 0 "" "$tilec" bits.tile --cpu=x86-64-v2 --emit=asm -o bits.s
! grep -q 'pshufb.*ymm' bits.s || fail "registers that the level does not have"

expect 1 "there is no processor \`pentium\`; there are generic, cortex-a53," "$tilec" k.tile --target=cpu:aarch64 --cpu=pentium --emit=asm
expect 1 "does not run on" "$tilec" run k.tile --target=cpu:aarch64
expect 1 "a bundle is for one host" "$tilec" k.tile --bundle --target=cpu,cpu:aarch64,cuda:sm_80 --bundle-source=always -o b.c -h b.h

# Blocks of sums: as many sums as hide the latency of the multiply-adds that the processor starts in a cycle.
sed 's/32 +: 32, k\*32 +: 32/128 +: 128, k*64 +: 64/; s/k\*32 +: 32, 0 +: 32/k*64 +: 64, 0 +: 128/; s/K, 32/K, 64/; s/M, 32/M, 128/
    s/i\*32 +: 32, 0 +: 32/i*128 +: 128, 0 +: 128/; s/32, 32/128, 128/' k.tile >blocks.tile
# blocks PROCESSOR TEXT: the schedule says it of a product of 128 x 128
blocks() {
    expect 0 "" "$tilec" blocks.tile --cpu="$1" --emit=schedule -D A=f32 -D B=f32 -D C=f32 -o blocks.txt
    grep -q "$2" blocks.txt || fail "$1: the schedule does not say \"$2\""
}
blocks x86-64-v3 "mr 6 nv 2, by f32: 16.0 multiply-adds a cycle"
blocks znver1 "mr 4 nv 2, by f32: 8.0 multiply-adds a cycle"

# 176 blocks of sums fetch the 128 rows of the next window of A, and no rows behind it.
expect 0 "" "$tilec" "$root/examples/kernels/gemm.tile" --kernel=gemm --cpu=x86-64-v3 --emit=asm -D T=f32 -D TO=f32 -o rows.s
awk '/^tile\.mma/ { product = 1 } /^tile\.[^m]/ { product = 0 } product && /prefetch/ { fetches++ } product && /movl[ \t]+\$127,/ { ends++ }
     END { exit !(fetches && ends) }' rows.s || fail "blocks fetch more rows than the next window has"

# A conversion that loads f16 is slower than one of a register on Zen 1 (costs.def).
# halves PROCESSOR: compiles a kernel that widens f16 from memory
halves() {
    expect 0 "" "$tilec" "$root/examples/kernels/rms_norm_matrix.tile" --kernel=rms_norm_matrix --cpu="$1" --emit=asm \
        -D T=f16 -o half.s
}
halves znver1
! grep -q 'vcvtph2ps.*(' half.s || fail "znver1: a conversion from f16 loads"
halves x86-64-v3
grep -q 'vcvtph2ps.*(' half.s || fail "x86-64-v3: no conversion from f16 loads"

# Rows of a softmax in 16 bits: their maximum is speculated where a power of any exponent is one instruction.
# speculates PROCESSOR: the schedule has the branch in which a row is computed as written
speculates() {
    expect 0 "" "$tilec" "$root/examples/kernels/softmax.tile" --kernel=softmax --cpu="$1" --emit=schedule -D T=f16 \
        -D N=4096 -o softmax.txt
    grep -q '^ *[0-9]* if$' softmax.txt
}
speculates x86-64-v4 || fail "x86-64-v4: the maximum of a softmax is not speculated"
! speculates x86-64-v3 || fail "x86-64-v3: the maximum of a softmax is speculated"

finish
