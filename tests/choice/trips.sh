#!/bin/bash
# trips.sh COSTS: how often programs wait for what their loops load to registers is counted: once for rounds that are taken together
# or loaded ahead, once for each of loads that follow each other, in each round where the place of a load follows from the round before;
# and ranges between loaded offsets count by their mean, of gathered elements too.
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
# Gathers are not taken together, so that each of 256 rounds waits for two loads.
expect looked_up TN=32 trips 512 M=4096 N=8192 K=100000
expect chased TM=32 trips 64 M=4096 K=100000
expect ranges T=32 trips 8 S=1024 N=262144
