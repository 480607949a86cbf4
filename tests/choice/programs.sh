#!/bin/bash
# programs.sh COSTS SOURCE_FOLDER: other warps for the best sizes, or of a kernel that lists nothing to choose, are chosen where both
# estimates are clearly lower, and not where only one of them is; of the latter kernels also not where launches of fewer programs or of
# more would take longer, nor where nothing says how many rounds a loop has. Bounds are chosen by which all programs run at once. What the source says stays.
set -u
costs=$1 kernels=$2/bench/ported/kernels failures=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
# takes WANTED FILE KERNEL ARGUMENTS: what is chosen for an H200.
takes() {
    local wanted=$1 file=$2 kernel=$3
    shift 3
    said=$("$costs" --choose --device-model=h200 "$file" "$kernel" cuda:sm_90a "$@" 2>&1)
    [ "${said%%:*}" = "$wanted" ] || { echo "FAIL: $kernel $*: ${said:-nothing is to be chosen}, not $wanted"; failures=1; }
}
rows="M=8192 N=8192"
# shellcheck disable=SC2086
takes "TM=1, warps=4" "$kernels/sinkhorn_rows.tile" sinkhorn_rows $rows
takes TV=32 "$kernels/gated_delta_rule.tile" gated_delta_rule D=f16 B=4 T=512 H=4 HV=8 K=128 V=128
sed -E 's/^( +grid \(.*\))$/\1 hint (warps = 16)/' "$kernels/sinkhorn_rows.tile" >"$work/sinkhorn_rows.tile"
grep -q 'hint (warps = 16)' "$work/sinkhorn_rows.tile" || { echo "FAIL: the hint was not written"; failures=1; }
# shellcheck disable=SC2086
takes TM=2 "$work/sinkhorn_rows.tile" sinkhorn_rows $rows
takes warps=8 "$kernels/rwkv6_recurrent.tile" rwkv6_recurrent B=8 H=16 T=1024 K=64 V=64
takes warps=4 "$kernels/viterbi.tile" viterbi B=128 T=256 S=64
takes occupancy=8 "$kernels/paged_attention_blocks.tile" paged_attention_blocks S=64 H=16 D=128 E=16 NB=4096 MB=64
takes "as declared" "$kernels/triangular_inverse.tile" triangular_inverse B=4 H=16 T=4096
takes "as declared" "$kernels/householder_qr.tile" householder_qr B=4096 M=32 N=32
takes "as declared" "$kernels/splat_tiles.tile" splat_tiles TY=64 TX=64 N=1000000 K=1048576
# A long loop with few tiles in use, whose loads run ahead: its CTAs take neither all registers nor almost none.
cat >"$work/states.tile" <<'KERNEL'
kernel states(in f16 X[B, T, C], in f32 A[C, 16], in f32 W[C, 16], out f16 Y[B, T, C], const int TC = auto) grid (cdiv(C, TC), B)
{
    let (j, b) = program_id();
    let r = sigmoid(load(A[j*TC +: TC, :]));
    let w = load(W[j*TC +: TC, :]);
    let (ar, ai) = (r * cos(w), r * sin(w));
    var sr = zeros([TC, 16], f32);
    var si = zeros([TC, 16], f32);
    for t in 0 .. T {
        let n = sr * ar - si * ai + f32(load(X[b, t, j*TC +: TC]))[:, None];
        si = sr * ai + si * ar;
        sr = n;
        store(Y[b, t, j*TC +: TC], f16(sum(r * sr - w * si, axis = 1, drop = true)));
    }
}
KERNEL
takes TC=8 "$work/states.tile" states B=8 T=512 C=2048
# Rows that begin anywhere and stay in shared memory, of a kernel that lists nothing: as one that lists warps and CTAs.
cat >"$work/norm.tile" <<'KERNEL'
kernel norm(in f16 X[M, N], in f16 W[N], in f16 B[N], out f16 Y[M, N]) grid (M)
{
    let r = program_id();
    let x = f32(load(X[r, :]));
    let d = x - sum(x, axis = 0) / f32(N);
    let v = sum(d * d, axis = 0) / f32(N);
    store(Y[r, :], f16(d * rsqrt(v + 1e-5) * f32(load(W[:])) + f32(load(B[:]))));
}
KERNEL
takes "warps=8, cluster=1" "$work/norm.tile" norm M=6973 N=19247
# Rows that registers hold are shared by fewer CTAs where both estimates are clearly lower, and by as many as the passes say where only
# one is. Scans take warps that have whole rows, which need no shared memory.
cat >"$work/rows.tile" <<'KERNEL'
kernel kl(in f16 P[M, N], in f16 Q[M, N], out f32 H[M]) grid (M)
{
    let r = program_id();
    let p = f32(load(P[r, :]));
    let q = f32(load(Q[r, :]));
    let (mp, mq) = (max(p, drop = true), max(q, drop = true));
    let ep = exp(p - mp);
    let (sp, sq) = (sum(ep, drop = true), sum(exp(q - mq), drop = true));
    store(H[r], sum(ep * ((p - mp) - (q - mq)), drop = true) / sp - log(sp) + log(sq));
}
kernel entropy(in bf16 X[M, N], out f32 H[M]) grid (M)
{
    let r = program_id();
    let x = f32(load(X[r, :]));
    let m = max(x, drop = true);
    let e = exp(x - m);
    let s = sum(e, drop = true);
    store(H[r], log(s) - sum(e * (x - m), drop = true) / s);
}
kernel running(in f16 X[M, N], out f16 Y[M, N]) grid (M)
{
    let r = program_id();
    store(Y[r, :], f16(cumsum(f32(load(X[r, :])), axis = 0)));
}
KERNEL
takes "warps=4, cluster=1" "$work/rows.tile" kl M=14913 N=9000
takes "as declared" "$work/rows.tile" entropy M=11483 N=11688
takes warps=1 "$work/rows.tile" running M=189840 N=707
sed 's/    grid (B)$/    grid (B) hint (warps = 8)/' "$kernels/viterbi.tile" >"$work/viterbi.tile"
grep -q 'hint (warps = 8)' "$work/viterbi.tile" || { echo "FAIL: the hint was not written"; failures=1; }
takes "" "$work/viterbi.tile" viterbi B=128 T=256 S=64
# Loops that only add are divided until a multiprocessor has two CTAs and more where that is clearly faster; where it is not, they are
# divided among as many CTAs as there are multiprocessors at most.
columns=$2/tests/choice/autos.tile
takes "TM=64, TN=256, warps=8, split_k=256" "$columns" columns M=131072 N=256
takes "TM=64, TN=256, warps=8, split_k=16" "$columns" columns M=16384 N=4096
cat >"$work/sums.tile" <<'KERNEL'
kernel at_the_end(in f16 X[M, N], out f32 Y[N], const int TM = auto, const int TN = auto) grid (cdiv(N, TN))
{
    let j = program_id();
    var acc = zeros([TM, TN], f32);
    for i in 0 .. cdiv(M, TM) { acc += f32(load(X[i*TM +: TM, j*TN +: TN])); }
    store(Y[j*TN +: TN], sum(acc, axis = 0, drop = true));
}
KERNEL
takes "TM=16, TN=64, warps=16, split_k=8" "$work/sums.tile" at_the_end M=32768 N=1024
exit $failures
