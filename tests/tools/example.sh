#!/bin/bash
# example.sh: `tilec run` without an input prints a command line for the kernel, and that command runs.
. "$(dirname "$0")/lib.sh"
tilec() { timeout 300 "$tilec" "$@"; }
printed() { tilec run "$@" 2>&1 >/dev/null | sed -n 's/^  \(tilec run .*\)/\1/p'; }
while read -r file kernel; do
    cp "$root/examples/kernels/$file.tile" .
    command=$(printed "$file.tile" --kernel="$kernel")
    [ -n "$command" ] || { fail "$kernel: no command is printed"; continue; }
    (eval "$command") >log 2>&1 </dev/null || fail "$command"$'\n'"$(head -5 log)"
done <<'E2'
vector_add vector_add
gemm gemm
softmax softmax_long
conv2d conv2d_nchw
attention attention
rope rope
embedding embedding
histogram histogram
layer_norm layer_norm
spmv spmv_csr
E2
# What the user gave stays; scalars and extents that only an output has are added.
cat >k.tile <<'T'
kernel k(in f32 X[M, N], inout i32 C[M], out f32 Y[M, K], f32 s, i32 n, f32 e = 1.0) grid (M) { let i = program_id(); store(Y[i, 0], load(X[i, 0]) * s + e); }
T
[ "$(printed k.tile --set N=8 --in 'C=zeros:i32[3]')" = \
    "tilec run k.tile --in 'C=zeros:i32[3]' --set N=8 --in 'X=random:f32[3, 8]:1' --set s=0.5 --set n=1 --set K=64 --out Y=Y.npy" ] ||
    fail "$(printed k.tile --set N=8 --in 'C=zeros:i32[3]')"
finish
