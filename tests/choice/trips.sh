#!/bin/bash
# trips.sh COSTS: what is counted of loads to registers. How often programs wait for those of loops: once for rounds that are taken together
# or loaded ahead, once for each of loads that follow each other, in each round where the place of a load follows from the round before;
# and ranges between loaded offsets count by their mean, of gathered elements and of tiles too. What taps share, lines that a warp reaches,
# additions to an element that is the same for all programs, and copies that run ahead of a loop. Loops that data may end go half of
# their way; lanes that hold nothing count as those that do. What consumers load to registers before a product.
set -u
costs=$1
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cat >"$work/k.tile" <<'KERNEL'
kernel sums(in f32 X[M, N], out f32 Y[M], const int TN = 32) grid (M) hint (warps = 1)
{
    let r = program_id();
    var s = zeros([TN], f32);
    for j in 0 .. cdiv(N, TN) { s += load(X[r, j*TN +: TN]); }
    store(Y[r], sum(s, drop = true));
}
kernel looked_up(in i32 P[M, N], in f32 X[K], out f32 Y[M], const int TN = 32) grid (M) hint (warps = 1)
{
    let r = program_id();
    var s = zeros([TN], f32);
    for j in 0 .. cdiv(N, TN) { s += gather(X[load(P[r, j*TN +: TN])]); }
    store(Y[r], sum(s, drop = true));
}
kernel chased(in i32 NEXT[K], in i32 FIRST[M], out i32 LAST[M], i32 steps = 64, const int TM = 32) grid (cdiv(M, TM)) hint (warps = 1)
{
    let r = program_id();
    var at = load(FIRST[r*TM +: TM]);
    for j in 0 .. steps { at = gather(NEXT[at]); }
    store(LAST[r*TM +: TM], at);
}
kernel ranges(in i32 START[S + 1], in f32 X[N], out f32 Y[S], const int T = 32) grid (S) hint (warps = 1)
{
    let s = program_id();
    let from = load(START[s]);
    let to = load(START[s + 1]);
    var most = -inf;
    for j in 0 .. cdiv(to - from, T) {
        let at = from + i32(j*T + arange(T));
        most = max(most, max(gather(X[at], mask = at < to, pad = -inf), axis = 0, drop = true));
    }
    store(Y[s], most);
}
kernel taps(in f32 X[H, W], out f32 Y[H, W], const int TY = 8, const int TX = 32) grid (cdiv(W, TX), cdiv(H, TY)) hint (warps = 1)
{
    let (j, i) = program_id();
    let up = load(X[i*TY - 1 +: TY, j*TX +: TX]);
    let down = load(X[i*TY + 1 +: TY, j*TX +: TX]);
    store(Y[i*TY +: TY, j*TX +: TX], up + down + load(X[i*TY +: TY, j*TX +: TX]));
}
kernel pairs(in f32 X[M, N], out f32 Y[M, 2], const int TM = 64) grid (cdiv(M, TM)) hint (warps = 1)
{
    let i = program_id();
    store(Y[i*TM +: TM, 0 +: 2], load(X[i*TM +: TM, 0 +: 2]));
}
kernel experts(in f16 X[M, K], in f16 W[E, K, N], in i32 START[E + 1], out f16 Y[M, N], const int TM = 128, const int TN = 256)
    grid (cdiv(N, TN), E)
{
    let (j, e) = program_id();
    let first = index(load(START[e]));
    let last = index(load(START[e + 1]));
    for t in 0 .. cdiv(last - first, TM) {
        let r = first + t*TM;
        var acc = zeros([TM, TN], f32);
        for k in 0 .. cdiv(K, 64) { acc = mma(load(X[r +: TM, k*64 +: 64]), load(W[e, k*64 +: 64, j*TN +: TN]), acc); }
        let rows = r + arange(TM)[:, None];
        scatter(Y[rows, j*TN + arange(TN)[None, :]], f16(acc), mask = rows < last);
    }
}
kernel least(in f32 X[M, N], out f32 Y[M], const int TM = 32) grid (cdiv(M, TM)) hint (warps = 1)
{
    let i = program_id();
    store(Y[i*TM +: TM], min(load(X[i*TM +: TM, 0 +: N]), axis = 1, drop = true));
}
kernel place(in f32 X[M, N], out i32 Y[M], const int TM = 32) grid (cdiv(M, TM)) hint (warps = 1)
{
    let i = program_id();
    store(Y[i*TM +: TM], i32(argmin(load(X[i*TM +: TM, 0 +: N]), axis = 1, drop = true)));
}
kernel totals(in f32 X[M, N], inout f32 ALL[2], inout f32 ROWS[M], const int TN = 64) grid (cdiv(N, TN), M) hint (warps = 1)
{
    let (j, i) = program_id();
    let x = load(X[i, j*TN +: TN]);
    atomic_add(ALL[0], sum(x, drop = true));
    atomic_add(ALL[1], sum(x * x, drop = true));
    atomic_add(ROWS[i], max(x, axis = 0, drop = true));
}
kernel until(in f32 X[M, N], out i32 AT[M], const int T = 32) grid (M) hint (warps = 1)
{
    let r = program_id();
    for j in 0 .. cdiv(N, T) {
        let over = any(load(X[r, j*T +: T]) > 0.5, drop = true);
        if over {
            store(AT[r], i32(j*T));
            return;
        }
    }
    store(AT[r], -1);
}
kernel filtered(in f16 X[B, H, W, C], in f16 DW[4, C], in f16 PW[C, CO], out f16 Y[B, H, W, CO], const int TX = 64)
    grid (cdiv(W, TX), H, B)
{
    let (x, h, b) = program_id();
    var acc = zeros([TX, C], f32);
    const for s in 0 .. 4 { acc += f32(load(X[b, h, x*TX + s - 1 +: TX, :])) * f32(load(DW[s, :]))[None, :]; }
    store(Y[b, h, x*TX +: TX, :], f16(mma(f16(max(acc, 0.0)), load(PW[:, :]))));
}
kernel words(in f16 A[M, K], in f16 B[N, K], out f32 C[M, N], const int STAGES = 4) grid (cdiv(N, 64), cdiv(M, 64))
{
    let (j, i) = program_id();
    var acc = zeros([64, 64], f32);
    for k in 0 .. cdiv(K, 64) {
        let b = load(B[j*64 +: 64, k*64 +: 64], latency = STAGES);
        acc = mma(load(A[i*64 +: 64, k*64 +: 64], latency = STAGES), transpose(b), acc);
    }
    store(C[i*64 +: 64, j*64 +: 64], acc);
}
KERNEL
# expect KERNEL CONFIGURATION FIELD VALUE ARGUMENTS
expect() {
    local kernel=$1 field=$3 want=$4
    echo "$2" >"$work/list"
    shift 4
    said=$("$costs" --device-model=h200 --configs="$work/list" "$work/k.tile" "$kernel" cuda:sm_90a "$@" | sed -nE "s/.*\"$field\": ([0-9.e+]+).*/\1/p")
    [ "$said" = "$want" ] || { echo "FAIL: $kernel $(cat "$work/list") $*: $field is $said, not $want"; exit 1; }
}
expect sums TN=32 trips 32 M=4096 N=8192
expect sums TN=256 trips 16 M=4096 N=8192
# Eight of 256 rounds are taken together, gathers too, and wait for two loads each.
expect looked_up TN=32 trips 64 M=4096 N=8192 K=100000
expect chased TM=32 trips 64 M=4096 K=100000
expect ranges T=32 trips 12 S=1024 N=262144 # four of them a pack, which go on until the longest ends
expect ranges T=128 trips 2 S=1024 N=262144
# 512 of 4096 rows are an expert's in the mean: four tiles of 128 and half of one more, of 64 steps each. The weights of all eight do not
# stay in L2, and come from memory for each of these tiles.
expect experts TM=128 iterations 288 M=4096 N=4096 K=4096 E=8
expect experts TM=64 iterations 544 M=4096 N=4096 K=4096 E=8
expect experts TM=128\ TN=256 memory 1.24623e+09 M=4096 N=4096 K=4096 E=8
# Of three taps whose rows lie in registers of one thread a quarter of the vectors are those of another tap. Rows of one register
# share nothing.
expect taps TY=8\ TX=32 own 4608 H=4096 W=4096
expect taps TY=1\ TX=256 own 6144 H=4096 W=4096
# Rows of 8 bytes that fill lines, and each in a line of its own: a load and a store of a warp reach 32 lines for 2.
expect pairs TM=64 alu 2048 M=8192 N=2
expect pairs TM=64 alu 15872 M=8192 N=64
# Two sums of all programs, and one of a row.
expect totals TN=64,\ pack=1 queued 2 M=131072 N=8192
expect totals TN=64,\ pack=8 queued 16 M=131072 N=8192
# A row of 64 in 16 lanes, put together in four steps: of minima, and of minima with their positions.
expect least TM=32 alu 8224 M=8192 N=64
expect place TM=32 alu 36896 M=8192 N=64
# A loop that returns when it has found something: half of 256 rounds, or of 1024. Rounds of half a warp take as long as those of a whole
# one.
expect until T=32 trips 128 M=4096 N=8192
expect until T=8 trips 512 M=4096 N=8192
expect until T=16 alu 107010 M=4096 N=8192
expect until T=32 alu 53506 M=4096 N=8192
# Four tiles of 64 x 128, which are 32 words of a thread of one warpgroup each, and four rows.
expect filtered TX=64 before 144 B=32 H=56 W=56 C=128 CO=128
# Warps that load and multiply alike wait as others do.
expect filtered TX=32 before 0 B=32 H=56 W=56 C=128 CO=128
# Ten steps are copied once each, however many of them are ahead of the loop.
expect words STAGES=8 copies 655360 M=512 N=512 K=622
expect words STAGES=4 copies 655360 M=512 N=512 K=622
expect words STAGES=3 copies 655360 M=512 N=512 K=622
