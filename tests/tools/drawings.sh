#!/bin/bash
# drawings.sh: the tables and drawings of `tilec explain` and the JSON of `tilec sim` for small kernels, to
# the letter (drawings.expected). Those of bench are in bench.expected, the picture of sim in
# sim_plot.expected, its table and history in sim_loop.sh, a timeline in docs/attention.svg. UPDATE=1 writes
# drawings.expected anew, to be read.
. "$(dirname "$0")/lib.sh"
export TILE_NVRTC=/none TILE_CLANG=/none # planned registers, wherever the test runs
cat >turn.tile <<'T'
kernel turn(in f32 X[M, N], out f32 Y[N, M], const int TM = 4, const int TN = 8) grid (cdiv(N, TN), cdiv(M, TM))
{
    let (j, i) = program_id();
    store(Y[j*TN +: TN, i*TM +: TM], transpose(load(X[i*TM +: TM, j*TN +: TN])));
}
ladder turn {
    at (M = 20, N = 40);
    step rows "by rows" (TM = 1, TN = 32);
    step square "tiles of 16 by 16" (TM = 16, TN = 16);
}
T
turn=(turn.tile -D M=20 -D N=40 --target=cuda:sm_80)
"$tilec" explain "${turn[@]}" --plot=map,access,memory --roofline=roofline.svg >explain.txt || fail "explain"
"$tilec" explain "${turn[@]}" --memory >report.txt || fail "--memory"
"$tilec" sim turn.tile --set M=20 --set N=40 --device=h100 --remap=none,chunk --json=sim.json >/dev/null ||
    fail "sim"
for f in explain.txt report.txt sim.json map.svg access.svg memory.svg roofline.svg; do
    echo "== $f"
    cat $f
done >actual.txt
expected=$root/tests/tools/drawings.expected
if [ -n "${UPDATE-}" ]; then cp actual.txt "$expected"; fi
diff -u "$expected" actual.txt || fail "not what drawings.expected has"
finish
