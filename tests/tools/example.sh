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
        # An assert of this kernel ties the output's extents to those of the inputs, which are 16 each.
        given=()
        [ "$kernel" != conv2d_nhwc ] || given=(--set P=3 --set Q=3)
        runs "$file" --kernel="$kernel" "${given[@]}"
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
# What the user gave stays; scalars and extents that only an output has are added.
cat >k.tile <<'T'
kernel k(in f32 X[M, N], inout i32 C[M], out f32 Y[M, K], f32 s, i32 n, f32 e = 1.0) grid (M) { let i = program_id(); store(Y[i, 0], load(X[i, 0]) * s + e); }
T
[ "$(printed k.tile --set N=8 --in 'C=zeros:i32[3]')" = \
    "tilec run k.tile --in 'C=zeros:i32[3]' --set N=8 --in 'X=random:f32[3, 8]:1' --set s=0.5 --set n=1 --set K=64 --out Y=Y.npy" ] ||
    fail "$(printed k.tile --set N=8 --in 'C=zeros:i32[3]')"
finish
