#!/bin/bash
# terms.sh COSTS: a search looks at the configurations that each term of `require` allows: terms that name a constant by
# way of another one's default, that hold only behind an earlier one, and a name of no domain; and conditions that consist of others,
# each of which is asked by itself: `&&` and `||` within each other, and a choice between two by a third. Grids that need a scalar have
# the one that is given, or its default; extents that are expressions are computed.
set -u
costs=$1
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cat >"$work/k.tile" <<'KERNEL'
kernel scale(in f32 X[M, N], out f32 Y[M, N], const int TN = 64, const int TM = TN/8, const int R = 2)
    grid (cdiv(N, TN), cdiv(M, TM))
{
    let (j, i) = program_id();
    store(Y[i*TM +: TM, j*TN +: TN], load(X[i*TM +: TM, j*TN +: TN]) * 2);
}
tune scale {
    TN in {32, 64, 128, 256, 512}; warps in {2, 4, 8};
    require (CONDITION);
}
KERNEL
# expect COUNT CONDITION. `warps` has four values: it may be absent. What is declared is always looked at.
expect() {
    sed "s~CONDITION~$2~" "$work/k.tile" >"$work/t.tile"
    said=$("$costs" --choose "$work/t.tile" scale cuda:sm_90a M=8192 N=8192)
    case $said in *", of $1, in "*) ;; *) echo "FAIL: $2: $said, not of $1"; exit 1 ;; esac
}
for case in "0 12" "128 8" "256 5"; do
    read -r least want <<<"$case"
    expect "$want" "TM <= 16 \&\& 16 / (256 - TN) >= 0 \&\& R*TN >= $least"
done
for case in "0 16" "128 12" "256 9"; do
    read -r least want <<<"$case"
    expect "$want" "(TN > 100 ? TM <= 32 : R*TN >= $least) \&\& (TN == 256 || 16 / (256 - TN) >= 0 || TN == 512)"
done
expect 4 "TN == 64 \&\& warps <= 2 || TN == 32 \&\& (warps == 4 || warps == 8)"
cat >"$work/s.tile" <<'KERNEL'
kernel first(in f32 X[M, N], out f32 Y[(N + 1) / 2], i32 rows = 64, const int TN = auto)
    grid (cdiv(N, TN), rows)
{
    let (j, i) = program_id();
    atomic_add(Y[j*TN / 2 +: TN / 2], load(X[i, j*TN +: TN / 2]));
}
KERNEL
programs() { "$costs" "$work/s.tile" first cuda:sm_90a M=64 N=8192 "$@" | sed -nE 's/.*"TN=32".*"programs": ([0-9]+).*/\1/p'; }
few=$(programs) all=$(programs rows=512)
[ "${few:-0}" -gt 0 ] && [ "$all" = $((8 * few)) ] || { echo "FAIL: programs by a scalar: $few and $all"; exit 1; }
