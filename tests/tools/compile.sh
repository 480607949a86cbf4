#!/bin/bash
# compile.sh: stages, variants, dependency rules, diagnostics; outputs appear only on success.
. "$(dirname "$0")/lib.sh"
cat >part.tile <<'T'
fn twice(x) { return x + x; }
T
cat >k.tile <<'T'
import "part.tile";
kernel k(in f32 X[N], out f32 Y[N], const int T = 16, const bool B = true) grid (cdiv(N, T)) {
    let i = program_id();
    store(Y[i*T +: T], twice(load(X[i*T +: T])));
}
instantiate k(T in {16, 32});
T
cat >bad.tile <<'T'
kernel k(in f32 X[N], out f32 Y[N]) grid (1) { store(Y[0 +: 4], load(Z[0 +: 4])); }
T

# stages and where they go
expect 0 "kernel k" "$tilec" k.tile --emit=ast
expect 0 "store" "$tilec" k.tile --emit=ir -D T=16
expect 0 "// k<T=32>" "$tilec" k.tile --emit=ir
"$tilec" k.tile --emit=ir -D T=8,64 | grep -c '^// k<T=' >count; [ "$(cat count)" = 2 ] || fail "-D T=8,64 made $(cat count) variants"
cat >lines.tile <<'T'
kernel k(in T X[N], out U Y[N], const type T = f16, const type U = f16, const bool EXACT = true, const int B = 16)
    grid (cdiv(N, B))
{
    let i = program_id();
    store(Y[i*B +: B], U(load(X[i*B +: B])));
}
instantiate k(T in {f16, bf16}, U in {f16, f32});
instantiate k(T in {f32}, U in {f32}, EXACT in {false, true});
instantiate k(T in {i8}, U in {i32});
T
variants() { want=$1; shift; "$tilec" lines.tile --emit=ir "$@" | sed -n 's,^// k<\(.*\)>.*,\1,p' | tr '\n' ';' >got; [ "$(cat got)" = "$want" ] || fail "$* made $(cat got)"; }
variants "U=f16, T=f16;U=f32, T=f16;" -D T=f16
variants "T=f16, U=f32;T=bf16, U=f32;EXACT=false, T=f32, U=f32;EXACT=true, T=f32, U=f32;" -D T=f16,bf16,f32 -D U=f32
variants "U=f16, T=f64;U=f32, T=f64;U=f32, EXACT=false, T=f64;U=f32, EXACT=true, T=f64;U=i32, T=f64;" -D T=f64
expect 0 'spec "T=f32, U=f32, EXACT=false"' "$tilec" lines.tile --emit=ir -D T=f16,f32 -D EXACT=false -D U=f32
expect 0 'spec "T=i8, U=i32, B=32"' "$tilec" lines.tile --emit=ir -D T=i8 -D B=32
expect 0 'spec "T=i8, U=f32"' "$tilec" lines.tile --emit=ir -D U=f32 -D T=i8
expect 0 "" "$tilec" k.tile --emit=ir -D T=16 -o k.ir
"$tilec" k.tile --emit=ir -D T=16 >k.ir2; same k.ir k.ir2
"$tilec" - --emit=ir -D T=16 <k.tile >k.ir3; same k.ir k.ir3
printf 'k.tile\n--emit=ir -D "T=16"\n-o k.ir4\n' >k.args
expect 0 "" "$tilec" @k.args; same k.ir k.ir4
expect 0 "__global__" "$tilec" k.tile --emit=cuda --target=cuda:sm_80 -D T=32
expect 0 "" "$tilec" k.tile --target=cuda:sm_80 -D T=32 -o k.cu
grep -q '#line' k.cu || fail "no #line in k.cu"
"$tilec" k.tile --target=cuda:sm_80 -D T=32 -o k2.cu; same k.cu k2.cu
expect 0 "" "$tilec" k.tile --target=cuda:sm_80 -o both.cu
[ "$(grep -c '^namespace variant_k_T' both.cu)" = 2 ] || fail "not two variants in both.cu"
# No size of an auto constant leaves every word a register: the sizes that fit shared memory are taken.
cat >wide.tile <<'T'
kernel wide(in f16 Q[M, 512], in f16 C[N, 512], out f32 O[M, 512], const int TK = auto) grid (cdiv(M, 16))
{
    let i = program_id();
    let q = load(Q[i*16 +: 16, :]);
    var m = full([16, 1], -inf, f32);
    var acc = zeros([16, 512], f32);
    for j in 0 .. cdiv(N, TK) {
        let c = load(C[j*TK +: TK, :]);
        let s = mma(q, transpose(c));
        let top = max(m, max(s, axis = 1));
        acc = mma(f16(exp(s - top)), c, acc * exp(m - top));
        m = top;
    }
    store(O[i*16 +: 16, :], acc);
}
T
expect 0 "TK=16 is chosen for hip:gfx1100" "$tilec" wide.tile --target=hip:gfx1100 --wperf -o wide.hip
expect 0 "ret" "$tilec" k.tile --emit=asm -D T=16
expect 0 "define" "$tilec" k.tile --emit=llvm -D T=16
expect 1 "cannot open the run-time compiler" env TILE_NVRTC=/no/such/library.so "$tilec" k.tile --emit=cubin --target=cuda:sm_80 -D T=16
nvrtc="env ASAN_OPTIONS=detect_leaks=0"     # the vendor's library leaves memory of its own behind when it is unloaded
if $nvrtc "$tilec" k.tile --emit=ptx --target=cuda:sm_80 -D T=16 >k.ptx 2>ptx.err; then
    grep -q '^\.visible \.entry k' k.ptx || fail "no entry in k.ptx"
    expect 0 "" $nvrtc "$tilec" k.tile --emit=cubin --target=cuda:sm_80 -D T=16 -o k.cubin
    [ "$(head -c 4 k.cubin)" = $'\x7fELF' ] || fail "k.cubin is no ELF file"
    expect 1 "2 variants do not go into one binary" $nvrtc "$tilec" k.tile --emit=cubin --target=cuda:sm_80 -o two.cubin; absent two.cubin
else
    grep -qE "cannot open the run-time compiler|no NVRTC on this machine" ptx.err || fail "--emit=ptx: $(cat ptx.err)"
    echo "no NVRTC here: PTX and cubins left out"
fi
expect 0 "// after fold" "$tilec" k.tile --emit=ir -D T=16 --dump-after=fold
# an instruction of a dump says its line; a line of an imported file is none of this file
"$tilec" lines.tile --emit=ir -D T=f16 --dump-after=fold 2>dump.txt >/dev/null
grep -q 'load .* loc(5)$' dump.txt || fail "--dump-after=fold: no source line: $(cat dump.txt)"
"$tilec" lines.tile --target=cuda:sm_80 -D T=f16 -D U=f16 --dump-after=layout -o lines.cu 2>dump.txt
grep -q 'store .* loc(5)$' dump.txt || fail "--dump-after=layout: no source line: $(cat dump.txt)"
for out in "--emit=ir" "-o t.o -h t.h" "--target=cuda:sm_80 -o t.cu" "--target=cuda:sm_90a --emit=kernel-ir"; do
    # shellcheck disable=SC2086
    "$tilec" k.tile $out -D T=16 --time-passes >/dev/null 2>times.txt || fail "$out --time-passes"
    for stage in "parse, check" "to tile IR" "all passes"; do grep -q "^$stage  *[0-9.]* ms" times.txt || fail "$out --time-passes: $stage is missing"; done
    [[ $out == --emit=ir ]] || grep -qE "^(kernel IR|code)[a-z, C]*  *[0-9.]* ms" times.txt || fail "$out --time-passes: no time of the backend"
done
expect 0 "store" "$tilec" k.tile --emit=ir -D T=16 --verify-each --skip-pass=fold,cse -O3 -g
expect 1 "there is no processor \`pentium9\`; there are host, x86-64," "$tilec" k.tile --emit=asm -D T=16 --cpu=pentium9
expect 0 "ymm" "$tilec" k.tile --emit=asm -D T=16 --cpu=haswell
cat >shared.tile <<'T'
kernel shared(in f32 X[N], out f32 Y[N]) grid (1)
{
    var a = load(X[0 +: 16]);
    const for j in 0 .. 60 { a = sin(a) + erf(a) + tanh(a); }     // 3^60 paths through 180 values
    store(Y[0 +: 16], a);
}
T
expect 0 "ret" timeout 300 "$tilec" shared.tile --emit=asm
# a `const for` of many operations is a loop at run time, of the same value; one that needs its counter as a constant is not
cat >grown.tile <<'T'
kernel grown(in f32 X[N], out f32 Y[N], const int R = 12) grid (cdiv(N, 64))
{
    let i = program_id() * 64;
    var written = zeros([64], f32);
    var counted = zeros([64], f32);
    const for dy in -R .. R + 1 {
        const for dx in -R .. R + 1 {
            let x = load(X[i + dx +: 64]);
            written += exp(x * f32(dy*dy + dx)) * x;
        }
    }
    for dy in -R .. R + 1 {
        for dx in -R .. R + 1 {
            let x = load(X[i + dx +: 64]);
            counted += exp(x * f32(dy*dy + dx)) * x;
        }
    }
    assert(all(written == counted), "one value");
    store(Y[i +: 64], written);
}
kernel subscript(in f32 X[N], out f32 Y[N]) grid (1)
{
    var a[4] = zeros([64], f32);
    const for k in 0 .. 300 { a[k % 4] += load(X[k +: 64]); }
    store(Y[0 +: 64], a[0] + a[1] + a[2] + a[3]);
}
T
expect 0 "\`const for\` of 25 iterations with 225 operations each is a loop at run time" "$tilec" grown.tile --kernel=grown --wperf --emit=asm -o grown.s
expect 0 "" "$tilec" grown.tile --kernel=subscript --wperf --emit=ir -o grown.ir
[ "$(grep -c ' = load ' grown.ir)" = 300 ] || fail "$(grep -c ' = load ' grown.ir) loads of 300 unrolled iterations"
for O in 0 3; do
    "$tilec" run grown.tile --kernel=grown --check -O$O --in X=random:f32[150]:1:-0.01:0.01 --no-cache >run.txt 2>&1 || fail "grown: $(cat run.txt)"
done
cat >indices.tile <<'T'
kernel indices(in f32 X[N], out f32 Y[N]) grid (1)
{
    var t = arange(16) + program_id();
    const for j in 0 .. 40 { t = (t * t + t) % 1000 + t / 3; }
    store(Y[0 +: 16], gather(X[t]));
}
T
for t in cuda:sm_80 hip:gfx942; do
    expect 0 "" timeout 300 "$tilec" indices.tile --target=$t -o indices.cu
    [ "$(wc -c <indices.cu)" -lt 200000 ] || fail "$(wc -c <indices.cu) bytes of C for 200 operations on indices"
done
expect 1 "nosuchpass" "$tilec" k.tile --emit=ir -D T=16 --skip-pass=nosuchpass

# passes of both IRs: dumped, timed, stopped behind; names that do not exist or do not apply are errors
cat >mm.tile <<'T'
kernel mm(in f16 A[M, K], in f16 B[K, N], out f16 C[M, N]) grid (cdiv(M, 128), cdiv(N, 128))
{
    let (i, j) = program_id();
    var c = zeros([128, 128], f32);
    for k in 0 .. cdiv(K, 64) { c = mma(load(A[i*128 +: 128, k*64 +: 64]), load(B[k*64 +: 64, j*128 +: 128]), c); }
    store(C[i*128 +: 128, j*128 +: 128], f16(c));
}
T
hopper="--target=cuda:sm_90a"
expect 0 "// after warp-specialization" "$tilec" mm.tile $hopper --dump-after=warp-specialization --verify-each -o mm.cu
expect 0 "mma_sync" "$tilec" mm.tile $hopper --stop-after=mma-select
expect 0 "mma %" "$tilec" mm.tile $hopper --stop-after=licm
"$tilec" mm.tile $hopper --stop-after=mma-select | grep -q wgmma && fail "--stop-after=mma-select does not stop"
"$tilec" mm.tile $hopper --time-passes -o mm.cu 2>&1 | grep -qE '^layout  *1 x  *[0-9.]* ms' || fail "--time-passes leaves out layout"
expect 1 "did you mean \`layout\`?" "$tilec" mm.tile $hopper --dump-after=layuot -o mm.cu
expect 0 "// after merge-loads" "$tilec" mm.tile $hopper --dump-after=merge-loads -o mm.cu
expect 1 "does not run for cuda:sm_80: it needs TMA and wgmma" "$tilec" mm.tile --target=cuda:sm_80 --dump-after=warp-specialization -o mm.cu
expect 1 "does not run for cpu" "$tilec" k.tile -D T=16 --skip-pass=near -o t.o -h t.h
expect 1 "the pass \`layout\` cannot be left out" "$tilec" mm.tile $hopper --skip-pass=layout -o mm.cu
cat >call.tile <<'T'
fn twice(x) { return x + x; }
kernel k(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 64)) {
    let i = program_id();
    store(Y[i*64 +: 64], twice(load(X[i*64 +: 64])));
}
T
expect 1 "\`k\` calls device functions: the pass \`inline\`, which puts their bodies in, was left out" "$tilec" call.tile $hopper --skip-pass=inline -o mm.cu
expect 1 "\`k\` calls device functions: the pass \`inline\`" "$tilec" call.tile --passes=fold -o t.o -h t.h
expect 1 "the pass \`near\` is one of the kernel IR" "$tilec" mm.tile $hopper --passes=fold,near -o mm.cu
expect 0 "warning: --dump-after: the pass \`warp-specialization\` did not run for the kernel \`k\`" "$tilec" k.tile -D T=16 $hopper --dump-after=warp-specialization -o mm.cu
expect 2 "--stop-after prints IR: it goes with --emit=ir or --emit=kernel-ir, not with --emit=cuda" "$tilec" mm.tile $hopper --stop-after=layout --emit=cuda
expect 0 "mbar_watch(" "$tilec" mm.tile $hopper --emit=cuda --check
"$tilec" mm.tile $hopper --emit=cuda | grep -q mbar_watch && fail "waits are watched without --check"
expect 2 "--bundle does not go with --stop-after" "$tilec" mm.tile --target=cuda:sm_80,cpu --bundle --stop-after=fold -o b.c -h b.h
expect 1 "--stop-after takes one pass, not \`fold,cse\`" "$tilec" mm.tile --emit=ir --stop-after=fold,cse
expect 0 "--stop-after: the pass \`promote\` did not run for the kernel" "$tilec" mm.tile $hopper --stop-after=promote
expect 0 "pingpong_wait" "$tilec" "$root/examples/kernels/attention.tile" -D D=64 -D T=f16 -D CAUSAL=true $hopper --emit=kernel-ir --with-pass=pingpong
expect 0 "warp-specialization" "$tilec" --help=passes

# what is wrong in the input: status 1, the place, no output
echo old >k.o; echo old >k.h
expect 1 "bad.tile:1:70: error:" "$tilec" bad.tile -o k.o -h k.h
[ "$(cat k.o k.h)" = $'old\nold' ] || fail "a failed run changed its outputs"
expect 1 "-D Q: no kernel compiled here has a const, dimension, hint or optional tensor of that name; there are T, B, N, and hints such as warps" "$tilec" k.tile -D Q=1 --emit=ir
expect 1 "-D B=7" "$tilec" k.tile -D B=7 --emit=ir
expect 1 "k.tile has no kernel \`q\`; it has " "$tilec" k.tile --kernel=q --emit=ir
expect 1 "part.tile has no kernel" "$tilec" part.tile --emit=ir
expect 1 "cannot open gone.tile: No such file or directory" "$tilec" gone.tile --emit=ast
expect 1 "cannot read .: Is a directory" "$tilec" . --emit=ast
expect 1 "cannot write no/such/k.ir: No such file or directory" "$tilec" k.tile --emit=ir -o no/such/k.ir
expect 1 "cannot write no/k.h" "$tilec" k.tile -D T=16 -o fresh.o -h no/k.h
absent fresh.o
printf 'import "gone.tile";\nkernel k(out f32 Y[N]) grid (1) { store(Y[0 +: 4], zeros([4], f32)); }' >imports.tile
expect 1 "imports.tile:1:8: error: cannot read \`gone.tile\`: No such file or directory" "$tilec" imports.tile --emit=ast
printf 'import ".";\n' >imports.tile
expect 1 "imports.tile:1:8: error: cannot read \`.\`: Is a directory" "$tilec" imports.tile --emit=ast
[ "$("$tilec" imports.tile --emit=ast 2>&1 | grep -c error)" = 1 ] || fail "an import that is a folder gives more than one error"
mkdir folder; mv part.tile folder
expect 1 "part.tile" "$tilec" k.tile --emit=ast
expect 0 "" "$tilec" k.tile --emit=ir -D T=16 -I nowhere -I folder -o k.ir5; same k.ir k.ir5
head -c 100000 /dev/urandom | tr -d '\0' >noise.tile
expect 1 "error:" "$tilec" noise.tile --emit=ast
[ "$("$tilec" noise.tile --emit=ast 2>&1 | grep -c ' error: ')" -le 20 ] || fail "more than 20 errors"
[ "$("$tilec" noise.tile --emit=ast --error-limit=3 2>&1 | grep -c ' error: ')" -le 3 ] || fail "more than 3 errors"
[ -e /dev/full ] && expect 1 "cannot write standard output" bash -c "'$tilec' k.tile -I folder --emit=ast >/dev/full"

# dependency rules
expect 0 "k.o: k.tile folder/part.tile" "$tilec" k.tile -I folder -M
expect 0 "out.o: k.tile" "$tilec" k.tile -I folder -M -o out.o; absent out.o
expect 0 "" "$tilec" k.tile -I folder -D T=16 -MD -o out.o -h out.h
grep -qx 'out.o: k.tile folder/part.tile' out.d || fail "out.d: $(cat out.d)"
grep -qx 'folder/part.tile:' out.d || fail "no empty rule for the import in out.d"
cp k.tile 'a b$.tile'
expect 0 'a\ b$$.tile' "$tilec" 'a b$.tile' -I folder -M -MF -
# a symbolic link to an output keeps being one
ln -s k.ir link.ir; expect 0 "" "$tilec" k.tile -I folder --emit=ir -D T=32 -o link.ir
[ -L link.ir ] && grep -q . k.ir && ! cmp -s k.ir k.ir5 || fail "the link's target was not replaced"

# text for GPUs, several variants in one file, read by libclang, which NVRTC takes too where it is found
if "$tilec" "$root/examples/kernels/silu.tile" --target=cuda:sm_80 --check-emission -o one.cu 2>/dev/null; then
    expect 0 "" "$tilec" "$root/examples/kernels/attention.tile" --kernel=attention -D D=64,128 -D CAUSAL=true,false -D T=f16 --target=cuda:sm_90a --check-emission -o four.cu
    [ "$(grep -c '^attention_' four.cu)" = 4 ] || fail "four variants are not four functions"
    expect 2 "--check-emission: no libclang" env TILE_LIBCLANG=/none.so "$tilec" "$root/examples/kernels/silu.tile" --target=cuda:sm_80 --check-emission -o one.cu
else echo "no libclang here: emissions are not read"; fi
# four transposes of one spec: rows, columns, a tile turned over in shared memory, the same free of bank conflicts
transpose() { "$tilec" "$root/examples/kernels/transpose.tile" --target=cuda:sm_80 -D T=f32 "$@" -o t.cu || fail "transpose $*"; sed '/^#line/d; /^ *\/\*/d' t.cu | grep -cE "$seek"; }
seek='sts_b(32|128)\(' ; [ "$(transpose -D TM=1 -D TN=1024)" = 0 ] || fail "a transpose of single rows goes through shared memory"
[ "$(transpose -D TM=64 -D TN=64)" -gt 0 ] && [ "$(transpose -D TM=64 -D TN=64 --skip-pass=swizzle)" -gt 0 ] || fail "a transpose of tiles does not go through shared memory"
seek='ldg_f32\(X'; [ "$(transpose -D TM=1024 -D TN=1)" -gt 0 ] && [ "$(transpose -D TM=64 -D TN=64)" = 0 ] || fail "columns are read by elements, tiles by vectors"
seek='o_t[0-9]+ = o_t[0-9]+ \^' ; [ "$(transpose -D TM=64 -D TN=64)" -gt 0 ] || fail "the tile is not swizzled"
[ "$(transpose -D TM=64 -D TN=64 --skip-pass=swizzle)" = 0 ] || fail "the tile is swizzled without the pass"

# what would take LLVM minutes is refused
{
    echo 'kernel big(in f32 Y[N], out f32 X[N]) grid (1) { let t = load(Y[0 +: 1024]);'
    for i in $(seq 1 320); do echo "store(X[$i +: 1024], cumsum(exp(sin(t * $i.0)), axis = 0));"; done
    echo '}'
} >big.tile
expect 1 "instructions of LLVM; the CPU backend takes at most 65536" "$tilec" big.tile --emit=asm
# LLVM's library is opened for code for CPUs alone
one="$root/examples/kernels/vector_add.tile"
export TILE_LLVM=none.so
expect 1 "code for a CPU needs LLVM's library, which does not open: none.so" "$tilec" $one --emit=asm
expect 0 "" "$tilec" $one --target=cuda:sm_90a --no-check-emission -o one.cu
export TILE_LLVM=libm.so.6
expect 1 "LLVM's library is not that of LLVM 22" "$tilec" $one --emit=asm
unset TILE_LLVM
# declared tiles that a target's shared memory does not hold give way to those of the tune block that it does; what is bound does not
wide="$root/examples/kernels/attention.tile -D D=256 -D CAUSAL=true -D T=f16 -o wide.cu"
expect 0 "is taken from its \`tune\` block" "$tilec" $wide --target=cuda:sm_86 --wperf
grep -q 'attention (D=256, T=f16, CAUSAL=true, T[MN]=' wide.cu || fail "wide.cu does not say which tiles were taken"
expect 0 "" "$tilec" $wide --target=cuda:sm_90a
grep -q 'attention (D=256, T=f16, CAUSAL=true)' wide.cu || fail "on sm_90a the declared tiles fit"
expect 1 "needs 131072 bytes of shared memory, cuda:sm_86 has 101376" "$tilec" $wide --target=cuda:sm_86 -D TM=128 -D TN=128

# a warning of the front end is given once, however many variants, levels of CPUs and targets there are
cat >relu.tile <<'T'
kernel relu(in T X[N], out T Y[N], const type T = f32) grid (cdiv(N, 16)) {
    let i = program_id();
    store(Y[i*16 +: 16], max(load(X[i*16 +: 16]), 0));
}
T
once() { "$@" 2>relu.txt || fail "$* failed"; [ "$(grep -c 'does not reduce' relu.txt)" = 1 ] || fail "not one warning: $*: $(cat relu.txt)"; }
once "$tilec" relu.tile --target=cpu -o relu.o
once "$tilec" relu.tile -D T=f16,f32 --emit=ir -o relu.txt.ir
once "$tilec" relu.tile -D T=f16,f32 --bundle --target=cpu,cuda:sm_80,cuda:sm_90a -o relu.c -h relu.h
once "$tilec" run relu.tile --in 'X=ones:f32[20]'
finish
