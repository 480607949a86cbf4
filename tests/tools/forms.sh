#!/bin/bash
# forms.sh: the command lines that users know from elsewhere and from the documents, each in the form in which
# they are written; here with smaller sizes, fewer launches and the extents of the kernels at hand.
. "$(dirname "$0")/lib.sh"
export OMP_NUM_THREADS=1
mkdir bin && ln -s "$tilec" bin/tilec && export PATH=$work/bin:$PATH
runs() { # runs FILES COMMAND...: it succeeds, and the files are there
    local files=$1
    shift
    "$@" >out.txt 2>&1 </dev/null || fail "$*"$'\n'"$(cat out.txt)"
    for f in $files; do [ -s "$f" ] || fail "$f is missing after $*"; done
}
has() { grep -q -- "$1" "${2:-out.txt}" || fail "no \"$1\" in $(cat "${2:-out.txt}")"; }
cat >k.tile <<'T'
kernel k(in f32 X[N], out f32 O[N], const int TN = 64, const int BAD = 0) grid (cdiv(N, TN))
{
    let i = program_id();
    store(O[i*TN +: TN], load(X[i*TN +: TN]) + (BAD == 1 ? 1.0 : 0.0));
}
kernel plain(in f32 X[N], out f32 O[N]) grid (cdiv(N, 8))
{
    let i = program_id();
    store(O[i*8 +: 8], load(X[i*8 +: 8]));
}
tune k { config (TN = 64); config (TN = 128); key (N); }
ladder k { step small "tiles of 64"; step large "tiles of 256" (TN = 256); step tuned "the fastest of two" (tune); }
T
# ladders
runs "out/k.json out/k.md out/k.log" tilec bench k.tile --ladder --sweep N=1024..16384*2 --output-dir out --repeat=1
for n in 1024 2048 4096 8192 16384; do
    [ "$(grep -c "^$n," out/k.csv)" = 3 ] || fail "steps of N = $n: $(cat out/k.csv)"
done
runs ref.npy tilec run k.tile --kernel=plain --in X=random:f32[1024]:1 --out O=ref.npy
runs "" tilec bench k.tile --ladder --set N=1024 --in X=random:f32[1024]:1 --expect O=ref.npy --repeat=1
runs "" tilec bench k.tile --ladder --set N=1024 --expect=interp --atol=1e-2 --rtol=1e-2 --repeat=1
runs "" tilec bench k.tile --ladder --set N=1024 --expect=plain --repeat=1
expect 2 "--graph needs an NVIDIA GPU" tilec bench k.tile --ladder --set N=64 --graph
# sweeps: a folder with one file, whose name is left out
mkdir product && cat >product/product.tile <<'T'
kernel product(in f32 A[M, K], in f32 B[K, N], out f32 C[M, N], const int T = 32) grid (cdiv(M, T), cdiv(N, T))
{
    let (i, j) = program_id();
    var acc = zeros([T, T], f32);
    for k in 0 .. cdiv(K, T) { acc = mma(load(A[i*T +: T, k*T +: T]), load(B[k*T +: T, j*T +: T]), acc); }
    store(C[i*T +: T, j*T +: T], acc);
}
T
cd product || exit 1
runs p.svg tilec bench --sweep M=N=K=32..96:32 --against=openblas,torch --plot=p.svg --repeat=1
has 'TFLOPS.*GB/s'
[ "$(grep -c '  product .*' out.txt)" -ge 3 ] || fail "three sizes: $(cat out.txt)"
for provider in openblas torch; do
    grep -q "  $provider  *[0-9]\|$provider is left out" out.txt || fail "$provider: $(cat out.txt)"
done
cd .. || exit 1
expect 2 "no .tile file given, and the folder has not exactly one" env -C bin tilec bench --sweep N=8
runs trace.json tilec bench k.tile --kernel=k --set N=1024 --profile=trace.json --repeat=2
runs "" tilec bench k.tile --kernel=k --in X=random:f32[1024]:1 --work=1e6 --repeat=1
has TFLOPS
# tune
runs k.tune tilec tune k.tile --kernel=k --sweep N=1024..4096*2 --repeat=1 --no-cache
[ "$(grep -c '"N": ' k.tune)" = 3 ] || fail "sizes of k.tune: $(cat k.tune)"
runs k.tune tilec tune k.tile --kernel=k --in X=random:f32[1024]:1 --sample=2 --repeat=1 --no-cache
# explain
cp "$root/examples/kernels/transpose.tile" t.tile
runs r.svg tilec explain t.tile -D T=f32 --roofline=r.svg
runs page.html tilec explain t.tile -D T=f32 --target=cuda:sm_80 --html=page.html
runs "" tilec explain t.tile --memory -D TM=1 -D TN=32
has uncoalesced
for kind in map access memory timeline; do
    runs $kind.svg tilec explain t.tile -D T=f32 --target=cuda:sm_80 --plot=$kind
done
# the simulator as a loop
runs h.md tilec sim k.tile --kernel=k --set N=65536 --remap='w%8*(n/8)+w/8' --remap=xcd --history=h.md
has 'w%8\*(n/8)+w/8' h.md
runs s.svg tilec sim k.tile --kernel=k --set N=65536 --plot=s.svg
# a full disk: one error, and no file, whichever of the outputs fails
full() {
    expect 1 "cannot write /dev/full: No space left on device" "$@"
    [ "$("$@" 2>&1 >/dev/null | grep -c 'error: ')" = 1 ] || fail "not one error: $*"
    absent none.json; absent none.svg; absent none.md
}
full tilec sim k.tile --kernel=k --set N=4096 --plot=/dev/full --json=none.json --history=none.md
full tilec bench k.tile --kernel=k --sweep N=64 --repeat=1 --plot=/dev/full --json=none.json
full tilec explain t.tile -D T=f32 --target=cuda:sm_80 --html=/dev/full --plot=map:none.svg
full tilec explain t.tile -D T=f32 --target=cuda:sm_80 --plot=map:none.svg -o /dev/full
full tilec run k.tile --kernel=k --in X=ones:f32[100] --out O=/dev/full
# pictures are files: nothing that shows them is started, and no environment is needed
runs v.svg env -i "$tilec" sim k.tile --kernel=k --set N=4096 --plot=v.svg
runs v.svg env -i "$tilec" explain t.tile -D T=f32 --target=cuda:sm_80 --plot=map:v.svg
# faults
runs "" tilec run k.tile --kernel=k --in X=random:f32[100]:1 --check
runs "" tilec run k.tile --kernel=k --in X=ones:f32[100] --print
has 'f32\[100\]'
runs "" tilec run k.tile --kernel=k --in X=ones:f32[100] --print=O
runs "" tilec run k.tile --kernel=k --in X=ones:f32[100] --expect=plain
expect 1 "elements of O differ from plain" tilec run k.tile --kernel=k --in X=ones:f32[100] --expect=plain --set BAD=1
finish
