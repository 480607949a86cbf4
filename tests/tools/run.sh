#!/bin/bash
# run.sh: `tilec run` on .npy files: round trips through every type and both orders, scalars, extents, and files that are wrong.
. "$(dirname "$0")/lib.sh"
cat >copy.tile <<'T'
kernel copy(in T X[M, N], out T Y[M, N], const type T = f32) grid (M, cdiv(N, 32)) {
    let (i, j) = program_id();
    store(Y[i, j*32 +: 32], load(X[i, j*32 +: 32]));
}
kernel scale(in f32 X[N], inout f32 Y[N], f32 a, i32 n, bool b) grid (cdiv(N, 32)) {
    let i = program_id();
    let s = where(b, a * f32(n), 0.0);
    store(Y[i*32 +: 32], load(Y[i*32 +: 32]) + s * load(X[i*32 +: 32]));
}
kernel wide(in f32 X[N], out f32 Y[2*N], in i32 I[K], out f32 Z[K]) grid (cdiv(K, 16)) {
    let i = program_id();
    store(Z[i*16 +: 16], gather(X[load(I[i*16 +: 16])]));
    store(Y[i*32 +: 32], zeros([32], f32) + 1.0);
}
T
cat >bad_pad.tile <<'T'
kernel copy(in T X[M, N], out T Y[M, N], const type T = f32) grid (M) { let i = program_id(); store(Y[i, :], load(X[i, :], pad = -inf)); }
T
npy() {     # npy FILE DESCR ORDER SHAPE, elements from standard input
    local head="{'descr': '$2', 'fortran_order': $3, 'shape': $4, }" 
    { printf '\x93NUMPY\x01\x00'; printf "\\x$(printf %02x $(((${#head} + 1) % 256)))\\x$(printf %02x $(((${#head} + 1) / 256)))"; printf '%s\n' "$head"; cat; } >"$1"
}
elements() { tail -c "$2" "$1"; }

# every type, random bytes, odd extents: what goes in comes out
for t in bool:'|b1':1 i8:'|i1':1 u8:'|u1':1 f8e4m3:'|u1':1 f8e5m2:'|u1':1 i16:'<i2':2 u16:'<u2':2 f16:'<f2':2 bf16:'<u2':2 i32:'<i4':4 u32:'<u4':4 f32:'<f4':4 \
    i64:'<i8':8 u64:'<u8':8 f64:'<f8':8; do
    IFS=: read -r name descr size <<<"$t"
    if [ "$name" = bool ]; then head -c 231 /dev/urandom | tr '\000-\377' '\000\001[\000*]' >data; else head -c $((231 * size)) /dev/urandom >data; fi
    case $name in f16|bf16|f32|f64|f8*) head -c $((231 * size)) /dev/zero | tr '\0' '\61' >data ;; esac      # no NaNs, whose bits may change
    npy x.npy "$descr" False '(3, 77)' <data
    expect 0 "" "$tilec" run copy.tile --kernel=copy --set T=$name --in X=x.npy --out Y=y.npy
    elements y.npy $((231 * size)) >back; same data back
    "$tilec" run copy.tile --kernel=copy --set T=$name --in X=y.npy --out Y=z.npy; same y.npy z.npy
done

# column-major comes out row-major
printf '\1\2\3\4\5\6' | npy f.npy '|i1' True '(2, 3)'
expect 0 "" "$tilec" run copy.tile --kernel=copy --set T=i8 --in X=f.npy --out Y=c.npy
[ "$(elements c.npy 6 | od -An -tu1)" = "   1   3   5   2   4   6" ] || fail "column-major: $(elements c.npy 6 | od -An -tu1)"

# scalars, inout; random inputs are the same for a seed
printf '\0\0\200\77\0\0\0\100' | npy x.npy '<f4' False '(2,)'       # 1, 2
printf '\0\0\200\77\0\0\200\77' | npy y.npy '<f4' False '(2,)'      # 1, 1
expect 0 "" "$tilec" run copy.tile --kernel=scale --in X=x.npy --in Y=y.npy --set a=0.5 --set n=4 --set b=true --out Y=z.npy
[ "$(elements z.npy 8 | od -An -tf4 | tr -s ' ')" = " 3 5" ] || fail "scale: $(elements z.npy 8 | od -An -tf4)"
expect 2 "the scalar a is missing: --set a=VALUE" "$tilec" run copy.tile --kernel=scale --in X=x.npy --in Y=y.npy
expect 2 "--set n=1.5: no value of type i32" "$tilec" run copy.tile --kernel=scale --in X=x.npy --in Y=y.npy --set a=1 --set n=1.5 --set b=1
for i in 1 2; do "$tilec" run copy.tile --kernel=copy --in 'X=random:f32[3, 5]:7' --out Y=r$i.npy; done; same r1.npy r2.npy
"$tilec" run copy.tile --kernel=copy --in 'X=random:f32[3, 5]:8' --out Y=r3.npy; cmp -s r1.npy r3.npy && fail "two seeds, the same numbers"
"$tilec" run copy.tile --kernel=copy --in X=random:7 --set M=3 --set N=5 --out Y=r4.npy; same r1.npy r4.npy
expect 0 "" "$tilec" run copy.tile --kernel=wide --in 'X=ones:f32[20]' --in 'I=random:i32[40]:1:0:19' --out Z=z.npy --out Y=y.npy
[ "$(elements z.npy 160 | od -An -v -tf4 | tr -s ' \n' '\n' | sort -u | tr -d '\n')" = 1 ] || fail "gather of ones"
[ "$(stat -c %s y.npy)" = $((128 + 160)) ] || fail "Y[2*N] is $(stat -c %s y.npy) bytes"
expect 0 "median" "$tilec" bench copy.tile --kernel=copy --in 'X=random:f32[3, 5]:7' --repeat=3
# every timed launch begins with what inout tensors held at first
echo 'kernel once(inout i32 Y[N]) grid (cdiv(N, 16)) { let i = program_id(); let y = load(Y[i*16 +: 16]); assert(y < 1, "ran on"); store(Y[i*16 +: 16], y + 1); }' >once.tile
expect 0 "3 launches: median" "$tilec" bench once.tile --check --in 'Y=zeros:i32[40]' --repeat=3 --out Y=once.npy
[ "$(elements once.npy 160 | od -An -v -td4 | tr -s ' \n' '\n' | sort -u | tr -d '\n')" = 1 ] || fail "one launch adds 1"
expect 1 "copy.tile:12: wide: gather: index out of range of \`X\`" "$tilec" run copy.tile --kernel=wide --check --in 'X=ones:f32[20]' --in 'I=random:i32[40]:1:20:30'

# --check: a gather out of range ends a launch where its mask holds; scatters and atomics leave it out; on the CPU as in the interpreter
cat >range.tile <<'T'
kernel range(in i32 I[K], in f32 X[N], inout f32 S[N], inout i32 A[N], out f32 G[K], const int WHAT = 0, const bool MASK = true) grid (1) {
    let i = load(I[0 +: 8]);
    let mask = MASK ? i >= 0 && i < 4 : i < 1000;
    const if WHAT == 0 { store(G[0 +: 8], gather(X[i], mask = mask, pad = 7.0)); } else { store(G[0 +: 8], zeros([8], f32)); }
    const if WHAT == 1 { scatter(S[i], f32(i), mask = mask); }
    const if WHAT == 2 { atomic_add(A[i], 1, mask = mask); }
    const if WHAT == 3 { atomic_cas(A[i], 0, 1, mask = mask); }
}
T
for t in cpu interp; do
    # shellcheck disable=SC2086
    for low in -6 4; do
        run="$tilec run range.tile --target=$t --in I=random:i32[8]:1:$low:$((low + 4)) --in X=ones:f32[4] --in S=zeros:f32[4] --in A=zeros:i32[4]"
        for what in 0 1 2 3; do expect 0 "" $run --check --set WHAT=$what; expect 0 "" $run --set MASK=false --set WHAT=$what; done
        expect 1 "gather" $run --check --set MASK=false --set WHAT=0
        for what in 1 2 3; do expect 0 "" $run --check --set MASK=false --set WHAT=$what; done
    done
done

# quantize_groups: 127 divided by what is almost 0 overflows, and -1 would be what is left of an infinity in 8 bits
expect 0 "" "$tilec" run "$root/examples/kernels/gemm_w4a8.tile" --kernel=quantize_groups --in 'X=random:f32[1,128]:1:-1e-37:1e-37' \
    --set=T=f32 --set=GROUPS=1 --out A=groups.npy
[ "$(elements groups.npy 128 | od -An -v -tu1 | tr -d ' \n0')" = "" ] || fail "quantize_groups: elements of a group that is almost 0"

# integers without a range are drawn within the axes that they pick from, whatever is done to them before; where a range is given, it holds
cat >picks.tile <<'T'
kernel picks(in i32 I[K], in i32 J[K], in i32 B[K1], in i32 L[K], in f32 X[N], out f32 Y[K], const int WHAT = 0) grid (1) {
    let i = load(I[0 +: 16]);
    let j = load(J[0 +: 16]);
    let k = arange(16);
    assert(all(load(L[0 +: 16]) >= 3, drop = true) && all(load(L[0 +: 16], pad = 3) <= i32(N), drop = true), "lengths");
    var sum = gather(X[index(i) * 4 + k % 4], mask = k < K) + gather(X[reshape(N - 1 - index(j), [16])], mask = k < K);
    for e in load(B[0]) .. load(B[K]) { sum += gather(X[e]); }
    store(Y[k % 16 +: 16], sum);
}
T
sed -i 's/k % 16 +: 16/0 +: 16/; s/load(L\[0 +: 16\]) >= 3/load(L[0 +: 16], pad = 3) >= 3/' picks.tile
for n in 4 17 100; do for seed in 1 2 3; do
    set -- --in "I=random:i32[9]:$seed" --in "J=random:i32[9]:$seed" --in "B=random:i32[10]:$seed" --in "L=random:i32[9]:$seed" --in "X=ones:f32[$n]"
    expect 0 "" "$tilec" run picks.tile "$@" --check
    expect 1 "gather" "$tilec" run picks.tile "${@/#J=*/J=random:i32[9]:1:-9:-1}" --check
done; done
# floats whose roots and logarithms are taken are not negative; where a range is given, it holds
cat >roots.tile <<'T'
kernel roots(in f32 A[N, G + 1], in f32 B[N], in f32 C[N], in f32 D[N], out f32 Y[N], const int G = 2) grid (1) {
    let a = sum(load(A[0 +: 16, 0 +: 4]), axis = 1, drop = true) * 0.5;
    let b = load(B[0 +: 16]);
    let d = load(D[0 +: 16]);
    store(Y[0 +: 16], sqrt(where(b > 0.5, b, a) + d * d) + rsqrt(max(sum(load(C[0 +: 16])), 1e-3)) + log((b + 1e-3) / (a + 1e-3)));
}
T
for seed in 5 6 7; do
    set -- --check --in A=random:$seed --in "B=random:f32[9]:$seed" --in "C=random:f32[9]:$seed" --in "D=random:f32[9]:$seed"
    expect 0 "" "$tilec" run roots.tile "$@"
    expect 1 "NaN into \`Y\`" "$tilec" run roots.tile "${@/#A=*/A=random:1:-9:-8}"
done
# the printed command has extents for which asserts hold
expect 2 "SCALE=random:f16[64, 1]:3" "$tilec" run "$root/examples/kernels/gemm_int4.tile" --kernel=gemm_int4

# all of u64 and of i64 by text, as a scalar and as a const; beyond it is said what the type holds
cat >whole.tile <<'T'
kernel whole(out u64 Y[1], u64 a, i64 b, u8 c = 7, const u64 K = 1, const i64 L = 2) grid (1) { store(Y[0], a + K); print("", a, b, c, K, L); }
T
for t in cpu interp; do
    w=("$tilec" run whole.tile --target=$t)
    expect 0 "18446744073709551615 -9223372036854775808 255 1 2" "${w[@]}" --set a=18446744073709551615 --set b=-9223372036854775808 --set c=255
    expect 0 "9223372036854775808 9223372036854775807 0 1 2" "${w[@]}" --set a=0x8000000000000000 --set b=0x7fffffffffffffff --set c=0
    expect 0 "3 4 7 18446744073709551615 -9223372036854775808" "${w[@]}" --set a=3 --set b=4 --set K=18446744073709551615 --set L=-9223372036854775808
    expect 2 "--set a=18446744073709551616: out of range of u64 (0 to 18446744073709551615)" "${w[@]}" --set a=18446744073709551616 --set b=0
    expect 2 "--set a=-1: out of range of u64" "${w[@]}" --set a=-1 --set b=0
    expect 2 "--set b=9223372036854775808: out of range of i64 (-9223372036854775808 to 9223372036854775807)" "${w[@]}" --set a=0 --set b=9223372036854775808
    expect 2 "--set b=-9223372036854775809: out of range of i64" "${w[@]}" --set a=0 --set b=-9223372036854775809
    expect 2 "--set c=256: out of range of u8 (0 to 255)" "${w[@]}" --set a=0 --set b=0 --set c=256
    expect 1 "constant -1 is out of range of \`u64\`" "${w[@]}" --set a=3 --set b=4 --set K=-1
    expect 1 "constant 9223372036854775808 is out of range of \`i64\`" "${w[@]}" --set a=3 --set b=4 --set L=9223372036854775808
    expect 1 "\`K\` must be an integer from -2^63 to 2^64 - 1" "${w[@]}" --set a=3 --set b=4 --set K=18446744073709551616
done

# the interpreter as the target: the same as the CPU where nothing rounds, and what is printed; from standard input too
cat >both.tile <<'T'
fn nearer(a, b) { if abs(b) < abs(a) { return b; } else if abs(b) == abs(a) { return max(a, b); } return a; }
kernel both(in i32 X[M, N], inout i32 Y[M, 2], i32 add, const int K = 3) grid (M) {
    let i = program_id();
    let x = load(X[i, :], pad = 0) * K + add;
    store(Y[i, 0], load(Y[i, 0]) + reduce(x, axis = 0, init = 1000000, combine = nearer, drop = true));
    store(Y[i, 1], sum(scan(x, axis = 0, init = 1000000, combine = nearer), drop = true));
    if i == M - 1 { print("row", i, x > 0); }
}
T
for t in cpu interp; do
    for flags in "" "-O1" "--check" "-O3 -g"; do
        # shellcheck disable=SC2086
        "$tilec" run both.tile --target=$t $flags --in 'X=random:i32[5, 37]:3:-50:50' --in 'Y=zeros:i32[5, 2]' --set add=7 --set K=5 --out Y=$t.npy >$t.txt || fail "both on $t $flags"
        [ -e first.npy ] || { cp $t.npy first.npy; cp $t.txt first.txt; }
        same first.npy $t.npy; same first.txt $t.txt
    done
done
grep -q '^row 4 \[[01, ]*\]$' first.txt || fail "print: $(cat first.txt)"
"$tilec" run - --target=interp --in 'X=random:i32[5, 37]:3:-50:50' --in 'Y=zeros:i32[5, 2]' --set add=7 --set K=5 --out Y=stdin.npy <both.tile >/dev/null; same first.npy stdin.npy
expect 1 "copy.tile:12" "$tilec" run copy.tile --kernel=wide --target=interp --check --in 'X=ones:f32[20]' --in 'I=random:i32[40]:1:20:30'
expect 1 "note: while compiling copy<T=i16, N=5>" "$tilec" run bad_pad.tile --target=interp --set T=i16 --in 'X=random:i16[3, 5]:1'
expect 2 "the interpreter is an oracle, it is not timed" "$tilec" bench copy.tile --kernel=copy --target=interp --in 'X=random:f32[3, 5]:7'

# extents of out tensors by constants of the file, of the kernel, and by what functions of extents there are
cat >extents.tile <<'T'
const int W = 8;
kernel e(in i32 X[N], out i32 A[W], out i32 B[2*W + K], out i32 C[cdiv(N, 4), K], out i32 D[min(N, W) % 5], const int K = 3) grid (1) {
    store(A[0], 1); store(B[0], 1); store(C[0, 0], 1); store(D[0], 1);
    print("extents", extent(A, 0), extent(B, 0), extent(C, 0), extent(C, 1), extent(D, 0));
}
T
expect 0 "extents 8 19 6 3 3" "$tilec" run extents.tile --in 'X=ones:i32[22]'
expect 0 "extents 8 21 6 5 3" "$tilec" run extents.tile --in 'X=ones:i32[22]' --set K=5 --target=interp

# what is wrong: one clear error, no output
expect 2 "which kernel? --kernel=NAME, one of copy, scale, wide" "$tilec" run copy.tile --in X=x.npy
expect 1 "q" "$tilec" run copy.tile --kernel=q --in X=x.npy
expect 1 "--in X: X has 1 axis, the kernel's X has 2" "$tilec" run copy.tile --kernel=copy --in X=x.npy --out Y=bad.npy
expect 1 "x.npy holds elements of type f4, but X is f16 (<f2)" "$tilec" run copy.tile --kernel=copy --set T=f16 --in X=x.npy
printf '\0\0\200\77\0\0\200\77\0\0\200\77' | npy y3.npy '<f4' False '(3,)'
expect 1 "axis 0 of Y is the extent N, here 3, but 2 by --in X" "$tilec" run copy.tile --kernel=scale --in X=x.npy --in Y=y3.npy --set a=1 --set n=1 --set b=true
head -c 100 y.npy >cut.npy; printf 'hello' >text.npy; : >empty.npy
expect 1 "cut.npy: it is cut off" "$tilec" run copy.tile --kernel=scale --in X=cut.npy --in Y=y.npy
expect 1 "text.npy: it is no .npy file" "$tilec" run copy.tile --kernel=scale --in X=text.npy --in Y=y.npy
expect 1 "empty.npy: it is no .npy file" "$tilec" run copy.tile --kernel=scale --in X=empty.npy --in Y=y.npy
expect 1 "cannot open gone.npy: No such file or directory" "$tilec" run copy.tile --kernel=scale --in X=gone.npy --in Y=y.npy
expect 1 "cannot write no/y.npy" "$tilec" run copy.tile --kernel=copy --in 'X=random:f32[3, 5]:7' --out Y=no/y.npy
cat >rows.tile <<'T'
kernel softmax(in f32 X[M, N], out f32 Y[M, N]) grid (M)
{ let i = program_id(); let e = exp(load(X[i, :])); store(Y[i, :], e / sum(e)); }
kernel sums(in f32 X[M, N], out f32 Y[M]) grid (M)
{ let i = program_id(); store(Y[i], sum(load(X[i, :]), drop = true)); }
T
for t in cpu interp; do         # no elements: nothing to do, or nothing that could be done
    expect 0 "" "$tilec" run rows.tile --target=$t --kernel=softmax --in 'X=ones:f32[4, 0]' --out Y=none_$t.npy
    expect 0 "" "$tilec" run rows.tile --target=$t --kernel=sums --in 'X=ones:f32[0, 0]'
    expect 1 "rows.tile:4:51: error: a tile extent must be at least 1, not 0" "$tilec" run rows.tile --target=$t --kernel=sums --in 'X=ones:f32[4, 0]'
done
same none_cpu.npy none_interp.npy
# LLVM's library is opened to compile, and not for a kernel that the disk cache has
opened() { LD_DEBUG=files "$tilec" run rows.tile --kernel=sums --in 'X=ones:f32[3, 5]' 2>&1 | grep -c 'calling init: .*libLLVM'; }
first=$(opened) again=$(opened)
[ "$first" = 1 ] || fail "libLLVM is opened $first times to compile"
[ "$again" = 0 ] || [ "$(uname -m)" != x86_64 ] || fail "libLLVM is opened for a kernel that is in the cache"
expect 1 "no memory for a tensor of that shape" "$tilec" run copy.tile --kernel=copy --in 'X=zeros:f32[4000000000, 4000000000]'
absent bad.npy
finish
