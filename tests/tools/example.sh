#!/bin/bash
# example.sh: `tilec run` without an input prints a command line for the kernel, and that command runs: for
# every kernel of the examples.
. "$(dirname "$0")/lib.sh"
tilec() { timeout 300 "$tilec" "$@"; }
printed() { tilec run "$@" 2>&1 >/dev/null | sed -n 's/^  \(tilec run .*\)/\1/p'; }
# runs ARGUMENTS: the command that is printed for them runs, and says nothing
runs() {
    local command
    command=$(printed "$@")
    [ -n "$command" ] || { fail "tilec run $*: no command is printed"; return; }
    (eval "$command") >log 2>&1 </dev/null && [ ! -s log ] || fail "$command"$'\n'"$(head -5 log)"
}
n=0
for file in "$root"/examples/kernels/*.tile; do
    while read -r kernel; do
        n=$((n + 1))
        runs "$file" --kernel="$kernel"
    done < <(sed -nE 's/^kernel ([a-z_0-9]+).*/\1/p' "$file")
done
[ $n -ge 65 ] || fail "only $n kernels"
# Consts, types and extents that nothing tells.
cat >without.tile <<'T'
kernel sizes(out f32 Y[N], const int B, const bool TWICE, const float A, f32 s) grid (cdiv(N, B))
{
    store(Y[program_id()*B +: B], full([B], s * f32(A)));
}
kernel types(in T X[N, M]?, in U W[N], out T Y[N], const type T, const type U, const int B) grid (cdiv(N, B))
{
    let i = program_id();
    store(Y[i*B +: B], T(load(W[i*B +: B])));
}
T
runs without.tile --kernel=sizes
runs without.tile --kernel=sizes --set s=1 --set N=10
runs without.tile --kernel=types
runs without.tile --kernel=types --set U=f16
[[ $(printed without.tile --kernel=types --set U=f16) == *"'W=random:f16[64]:1'"* ]] ||
    fail "$(printed without.tile --kernel=types --set U=f16)"
expect 2 "the type T has no value: --set T=TYPE" tilec run without.tile --kernel=types
expect 1 "note: give it with a binding (--set) B=..., or with a default here" \
    tilec run without.tile --kernel=sizes --set s=1 --set N=4
# Extents by asserts: of constants, of dimensions that follow, one of another; two that need each other end.
cat >asserted.tile <<'T'
const int PAD = 2;
kernel pools(in f32 X[H, W], in f32 S[G], out f32 Y[P, Q], const int STEP = 3, const int TAPS) grid (P)
{
    const int WIDE = W + 2*PAD;
    assert(P == (H + 2*PAD - TAPS)/STEP + 1 && Q == cdiv(WIDE, STEP) && H > 0, "output size");
    assert(H == min(G, 40)*2, "two rows a group");
    let i = program_id();
    store(Y[i, :], full([Q], load(X[i, 0]) + load(S[0])));
}
kernel circle(in f32 X[M], in f32 Y[N], out f32 Z[K], const int B) grid (M)
{
    assert(M == N + 1 && N == M*2, "of each other");
    assert(K == M/0, "no number");
    assert(K == 0, "no extent of a tile");
    let i = program_id();
    store(Z[i], load(X[i]) + load(Y[i]));
}
T
[ "$(printed asserted.tile --kernel=pools --set W=20)" = \
    "tilec run asserted.tile --kernel pools --set W=20 --set TAPS=16 --in 'X=random:f32[80, 20]:1' --in 'S=random:f32[64]:2' --set P=23 --set Q=8 --out Y=Y.npy" ] ||
    fail "$(printed asserted.tile --kernel=pools --set W=20)"
runs asserted.tile --kernel=pools --check
[[ $(printed asserted.tile --kernel=circle) == *"'X=random:f32[129]:1' --in 'Y=random:f32[128]:2' --set K=64"* ]] ||
    fail "$(printed asserted.tile --kernel=circle)"
# What the user gave stays; scalars and extents that only an output has are added.
cat >k.tile <<'T'
kernel k(in f32 X[M, N], inout i32 C[M], out f32 Y[M, K], f32 s, i32 n, f32 e = 1.0) grid (M) { let i = program_id(); store(Y[i, 0], load(X[i, 0]) * s + e); }
T
[ "$(printed k.tile --set N=8 --in 'C=zeros:i32[3]')" = \
    "tilec run k.tile --in 'C=zeros:i32[3]' --set N=8 --in 'X=random:f32[3, 8]:1' --set s=0.5 --set n=1 --set K=64 --out Y=Y.npy" ] ||
    fail "$(printed k.tile --set N=8 --in 'C=zeros:i32[3]')"
finish
