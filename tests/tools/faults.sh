#!/bin/bash
# faults.sh: faults that compile: what checked launches on the CPU and the interpreter report, to the letter; how outputs are poisoned
# and printed; and `--expect`.
. "$(dirname "$0")/lib.sh"
cp "$root/tests/tools/faults.tile" "$root/tests/tools/published_attention.tile" .
n=0
say() { echo "== $*"; "$tilec" run faults.tile "$@" 2>&1 </dev/null; echo "== exit $?"; }
reports() { # the same on the CPU and in the interpreter
    say --check --threads=1 "$@" | sed '1s/--check --threads=1 //' >cpu.txt
    say --target=interp "$@" | sed '1s/--target=interp //' >interp.txt
    diff cpu.txt interp.txt || fail "the CPU and the interpreter differ: $*"
    cat interp.txt >>actual.txt
    n=$((n + 1))
}
reports --kernel=floor_grid --in 'X=ones:f32[4, 70]'
reports --kernel=floor_grid --in 'X=ones:f32[4, 20]'
reports --kernel=floor_grid --in 'X=ones:f32[0, 20]'
reports --kernel=floor_grid --in 'X=ones:f32[4, 64]'
reports --kernel=corner --set M=10 --set N=9
reports --kernel=eighth --in 'X=ones:f32[1024]'
reports --kernel=overlap --in 'X=ones:f32[70]'
reports --kernel=two_places --set N=3
reports --kernel=in_place --in 'Y=ones:f32[70]'
reports --kernel=permuted --in 'I=random:i32[24]:1:0:23' --in X=ones --in Y=ones
reports --kernel=total --in L=zeros --in S=zeros --in 'X=ones:f32[32]'
reports --kernel=total --in L=zeros --in S=zeros --in 'X=ones:f32[32]' --set ORDERED=false
reports --kernel=counted --in 'X=random:i32[20]:1:0:3' --in C=zeros --in W=zeros
reports --kernel=persistent --in 'X=ones:f32[100]'
reports --kernel=persistent --in 'X=ones:f32[100]' --set Z=true

# what --print shows: poison, every type, elision, no axes, no elements
cat >print.tile <<'T'
kernel half(in T X[M, N], out T Y[M, N], const type T = f32) grid (1) { store(Y[0 +: 1, 0 +: 2], load(X[0 +: 1, 0 +: 2])); }
kernel scalar(in f64 X[], out f64 Y[], out i8 Z[]) grid (1) { store(Y[], load(X[])); store(Z[], -3); }
kernel cube(inout i32 Y[A, B, C]) grid (1) { let _ = program_id(); }
kernel special(inout f32 Y[8]) grid (1) { let x = f32(arange(8)); store(Y[0 +: 8], where(x < 2, x / 0, where(x < 4, -x / 0, x / 10))); }
T
shows() { echo "== $*"; "$tilec" run print.tile "$@" 2>&1 </dev/null; echo "== exit $?"; }
{
    for t in f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u64 u32 u16 u8 bool; do shows --kernel=half --set T=$t --in "X=random:$t[2, 3]:5" --print=Y; done
    shows --kernel=scalar --in 'X=random:f64[]:3' --print
    shows --kernel=cube --in 'Y=random:i32[2, 2, 3]:1' --print
    shows --kernel=cube --in 'Y=random:i32[7, 8, 30]:1:0:99' --print=Y
    shows --kernel=cube --in 'Y=zeros:i32[2, 0, 3]' --print=Y
    shows --kernel=cube --in 'Y=random:i32[1, 2, 40]:1:0:99' --print=Y
    shows --kernel=special --in Y=zeros --print
    shows --kernel=half --in 'X=random:f32[2, 3]:5' --print=Y --print=X --print=Q
} >>actual.txt
diff -u "$root/tests/tools/faults.expected" actual.txt || fail "the reports are not those of faults.expected"
[ $n = 15 ] || fail "$n launches"

# threads: the same elements and numbers, whichever program comes first
for _ in 1 2 3; do
    "$tilec" run faults.tile --kernel=in_place --in 'Y=ones:f32[4000]' --check --threads=4 2>threads.txt
    grep -q 'reads Y\[31\], which program 0 stores, and so with 123 elements more' threads.txt || fail "with threads: $(cat threads.txt)"
done
# without a check nothing is followed; --werror makes an error of a warning, and writes nothing
expect 0 "" "$tilec" run faults.tile --kernel=eighth --in 'X=ones:f32[1024]' --out O=o.npy
for how in --check --target=interp; do
    expect 1 "87.5% of O never stored: 896 of 1024 elements, O[128:1024]" "$tilec" run faults.tile --kernel=eighth --in 'X=ones:f32[1024]' $how --werror --out O=bad.npy
done
absent bad.npy

# --expect: elements that neither side stores hold poison on both, and are said; by the interpreter to the
# element
eighth() { "$tilec" run faults.tile --kernel=eighth --in 'X=ones:f32[1024]' "$@"; }
expect 0 "warning: 87.5% of O never stored: 896 of 1024 elements, O[128:1024]" eighth --expect=interp
expect 1 "error: 87.5% of O never stored" eighth --expect=interp --werror --out O=bad.npy
expect 0 "warning: 896 of 1024 elements of O, the first at [128], agree with eighth because neither stores them" \
    eighth --expect=eighth
expect 0 "agree with --expect because neither stores them" eighth --expect O=o.npy
expect 1 "error: 896 of 1024 elements of O" eighth --expect=eighth --werror --out O=bad.npy
[ "$(eighth --expect=interp --check 2>&1 | grep -c 'never stored')" = 1 ] ||
    fail "--check and --expect=interp report twice"
[ "$(eighth --expect=interp --target=interp 2>&1 | grep -c 'never stored')" = 1 ] ||
    fail "--target=interp and --expect=interp report twice"
expect 0 "warning: eighth: 896 of 1024 elements of O" \
    "$tilec" bench faults.tile --kernel=eighth --in 'X=ones:f32[1024]' --expect=interp --repeat=1
absent bad.npy

# the compiler and the simulator warn where the fault is provable
cat >unused.tile <<'T'
kernel k(in f32 X[M, N], out f32 Y[M, N], out f32 Z[M]) grid (M, cdiv(N, 32)) { let (i, j) = program_id(); store(Y[i, 0 +: 32], load(X[i, 0 +: 32])); }
T
for command in "-o k.o" "--emit=ir -o k.ir"; do
    # shellcheck disable=SC2086
    expect 0 "warning: nothing uses \`program_id(1)\`" "$tilec" unused.tile $command
done
expect 0 "warning: no path stores the \`out\` tensor \`Z\`" "$tilec" sim unused.tile --set M=8 --set N=64
expect 1 "error: no path stores" "$tilec" unused.tile -o bad.o --werror; absent bad.o

# --expect: the published attention is wrong, also with two of its three faults mended, and right with all of them
attention() { "$tilec" run published_attention.tile --kernel=published --in 'Q=random:f32[2, 48, 16]:1' --in K=random:2 --in V=random:3 "$@"; }
expect 1 "elements of O differ from plain" attention --expect=plain --out O=bad.npy
expect 1 "1536 of 1536 elements of O differ from plain, the first at [0, 0, 0]" attention --expect=plain --set MASK=true --set RESCALE=true
expect 1 "of O differ from plain, the first at [0, " attention --expect=plain --set MASK=true --set SUM=true
expect 1 "of O differ from plain, the first at [0, 16, 0]" attention --expect=plain --set RESCALE=true --set SUM=true
absent bad.npy
mended="--set MASK=true --set RESCALE=true --set SUM=true"
# shellcheck disable=SC2086
{
    expect 0 "" attention --expect=plain $mended --out O=right.npy
    expect 0 "" attention --expect=interp $mended
    expect 0 "" attention --expect=plain --target=interp $mended
    expect 0 "" attention --expect O=right.npy $mended
    expect 1 "differ from --expect" attention --expect O=right.npy --set RESCALE=true --set SUM=true
    expect 1 "differ from plain" attention --expect=plain --rtol=0 --atol=0 $mended
    expect 2 "expected NAME=FILE.npy, interp, or a kernel of the file" attention --expect=nobody $mended
}
finish
