#!/bin/bash
# roofline.sh TILEC: --wperf names the resource that keeps a launch from its roofline, and the line that takes
# most of it.
tilec=$1 failed=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cat >"$work/k.tile" <<'KERNELS'
kernel copied(in f32 X[N], out f32 Y[N], const int T = 4096) grid (cdiv(N, T))
{
    let i = program_id();
    store(Y[i*T +: T], load(X[i*T +: T]));
}
kernel product(in f16 A[M, K], in f16 B[K, N], out f16 C[M, N], const int T = 64, const int TK = 32)
    grid (cdiv(M, T), cdiv(N, T))
{
    let (i, j) = program_id();
    var acc = zeros([T, T], f32);
    for k in 0 .. cdiv(K, TK) {
        let a = load(A[i*T +: T, k*TK +: TK]);
        let b = load(B[k*TK +: TK, j*T +: T]);
        acc = mma(a, b, acc);
    }
    store(C[i*T +: T, j*T +: T], f16(acc));
}
kernel few(in f32 X[M, N], out f32 Y[M]) grid (M)
{
    let i = program_id();
    var most = 0.0;
    for j in 0 .. cdiv(N, 256) { most = max(most, max(load(X[i, j*256 +: 256]), drop = true)); }
    store(Y[i], most);
}
kernel powers(in f32 X[N], out f32 Y[N], const int T = 4096) grid (cdiv(N, T))
{
    let i = program_id();
    var x = load(X[i*T +: T]);
    for k in 0 .. 2000 {
        x = x*x - 0.5; // where the time goes
    }
    store(Y[i*T +: T], x);
}
fn longer(p, q) {
    return exp(-exp(-exp(-exp(-exp(-exp(-exp(-exp(-p)))))))) + exp(-exp(-exp(-exp(-exp(-exp(-exp(-exp(-q))))))));
}
kernel combined(in f32 X[M, N], out f32 Y[M]) grid (M)
{
    let i = program_id();
    let x = load(X[i, 0 +: 256])[:, None] * f32(arange(8))[None, :];
    store(Y[i], sum(reduce(x, axis = 1, combine = longer, drop = true), drop = true));
}
KERNELS
expect() { # PATTERN, then what tilec is given
    local want=$1
    shift
    said=$("$tilec" explain "$work/k.tile" --device=h100 --wperf "$@" 2>&1 >"$work/out")
    # shellcheck disable=SC2053
    [[ "$said" == $want ]] || { echo "FAIL: $*: expected $want, said: $said"; failed=1; }
}
expect '' --kernel=copied -D N=16777216
reach='is estimated to reach * of the roofline of h100:'
expect "*k.tile:1[123]:*product<*> $reach it is bound by loads in flight, most of all in this line*products alone would take*" \
    --kernel=product -D M=4096 -D N=4096 -D K=4096
expect "*k.tile:18:8:*few<*> $reach 4 programs do not fill 132 multiprocessors*memory alone would take*" \
    --kernel=few -D M=4 -D N=1048576
expect "*k.tile:30:*powers<N=16777216> is estimated to be bound by arithmetic on h100*memory alone would take*\`approx\`*" \
    --kernel=powers -D N=16777216
expect "*k.tile:41:*combined<*> $reach it is bound by arithmetic*arithmetic alone would take*" \
    --kernel=combined -D M=65536 -D N=256
# without --wperf nothing is said
"$tilec" explain "$work/k.tile" --device=h100 --kernel=few -D M=4 -D N=4096 2>&1 | grep roofline &&
    { echo "FAIL: said without --wperf"; failed=1; }
# compiled ahead of time
said=$("$tilec" "$work/k.tile" -D M=4096 -D N=4096 -D K=4096 --target=cuda:sm_90a --emit=cuda --wperf \
    -o "$work/k.cu" 2>&1)
[[ "$said" == *"product<M=4096, K=4096, N=4096> is estimated to reach"*"of the roofline of h100"* ]] ||
    { echo "FAIL: --emit: $said"; failed=1; }
exit $failed
