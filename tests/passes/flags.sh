#!/bin/bash
# flags.sh TILEC TILE-OPT SOURCE_FOLDER: every name of passes/passes.def under every flag that takes names of passes.
#
# A few programs run all passes and steps between them. For each name, in the first program that runs it:
# - --dump-after prints the IR behind it, and --time-passes has a line for it;
# - --stop-after prints IR that verifies, and runs none of the passes behind it, nor the rest of the pass around a step;
# - --skip-pass leaves it out, or refuses because it cannot be left out; --with-pass accepts it;
# - on a target that cannot run it each flag is an error that says why.
set -u
tilec=$1 opt=$2 root=$3
# Hundreds of short processes: what leaks, tools.compile and tools.emission find under sanitizers.
export ASAN_OPTIONS=detect_leaks=0
def=$root/passes/passes.def
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
failures=0
fail() { echo "FAIL $*"; failures=$((failures + 1)); }

cat >mm.tile <<'K'
kernel mm(in f16 A[M, K], in f16 B[K, N], out f16 C[M, N]) grid (cdiv(M, 128), cdiv(N, 128))
{
    let (i, j) = program_id();
    var c = zeros([128, 128], f32);
    for k in 0 .. cdiv(K, 64) { c = mma(load(A[i*128 +: 128, k*64 +: 64]), load(B[k*64 +: 64, j*128 +: 128]), c); }
    store(C[i*128 +: 128, j*128 +: 128], f16(c));
}
K
sed 's/kernel mm/kernel shifted/; s/k\*64 +: 64\]),/k*64 - 1 +: 64]),/' mm.tile >shifted.tile
attention="$root/examples/kernels/attention.tile -D D=64 -D T=f16 -D CAUSAL=true"
programs=(
    "$attention --target=cuda:sm_90a"
    "mm.tile --target=cuda:sm_80"
    "shifted.tile --target=cuda:sm_90a"
    "mm.tile --target=hip:gfx942"
    "mm.tile --target=cuda:sm_80 --with-pass=approx"
    "$root/examples/kernels/layer_norm.tile --kernel=layer_norm -D T=f32 -D N=32768 --target=cuda:sm_80"
)
for n in "${!programs[@]}"; do
    "$tilec" ${programs[n]} --emit=kernel-ir --verify-each --time-passes -o ran.ir 2>"ran.$n" || fail "${programs[n]}: $(head -1 "ran.$n")"
done

# kernel_ir NAME: a pass or step of the kernel IR?
kernel_ir() { grep -qE "^KERNEL_(PASS|STEP)\([A-Z0-9_]+, *\"$1\"" "$def"; }
# verifies FILE TARGET: as kernel IR, or as tile IR where TARGET is empty
verifies() {
    if [ -n "$2" ]; then "$opt" "$2" --kernel-passes= --quiet "$1" 2>"$work/invalid"; else "$opt" --passes= --quiet "$1" 2>"$work/invalid"; fi
}

walked=0
for name in $(sed -nE 's/^(KERNEL_)?(PASS|STEP)\([A-Z0-9_]+, *"([^"]+)".*/\3/p' "$def"); do
    walked=$((walked + 1))
    program=
    for n in "${!programs[@]}"; do
        grep -qE "^$name +[0-9]+ x +[0-9.]+ ms" "ran.$n" && program=${programs[n]} && break
    done
    [ -n "$program" ] || { fail "$name: no program of this test runs it: --time-passes has no line for it"; continue; }
    target=
    kernel_ir "$name" && target=$(grep -o -- '--target=[a-z0-9:_]*' <<<"$program")

    "$tilec" $program --emit=kernel-ir --dump-after="$name" -o dumped.ir >out 2>&1 || fail "$name: --dump-after: $(head -1 out)"
    awk -v head="// after $name" '$0 == head { getline; found = /^(kernel|func|module)/ || /@/ } END { exit !found }' out ||
        fail "$name: --dump-after prints no IR: $(grep -A1 "// after" out | head -2)"

    "$tilec" $program --verify-each --stop-after="$name" --dump-after=all -o stopped.ir >out 2>&1 || fail "$name: --stop-after: $(head -1 out)"
    grep -q "did not run" out && fail "$name: --stop-after: $(grep "did not run" out)"
    verifies stopped.ir "$target" || fail "$name: the IR behind it does not verify: $(head -3 invalid)"
    last=$(grep '^// after ' out | tail -1)
    [ "$last" = "// after $name" ] || fail "$name: $last runs behind --stop-after"

    "$tilec" $program --with-pass="$name" --emit=kernel-ir --verify-each -o with.ir >out 2>&1 || fail "$name: --with-pass: $(head -1 out)"
    if "$tilec" $program --emit=kernel-ir --skip-pass="$name" --verify-each -o skipped.ir >out 2>&1; then
        grep -q "\"$name\".*, REQUIRED," "$def" && fail "$name: --skip-pass accepts what cannot be left out"
    else
        grep -q "\"$name\".*, REQUIRED," "$def" || fail "$name: --skip-pass: $(head -1 out)"
        grep -q "the pass \`$name\` cannot be left out" out || fail "$name: --skip-pass does not say that it cannot be left out: $(head -1 out)"
    fi

    kernel_ir "$name" || continue
    for flag in --dump-after --stop-after --skip-pass --with-pass; do
        [ "$flag" = --skip-pass ] && grep -q "\"$name\".*, REQUIRED," "$def" && continue
        "$tilec" mm.tile --target=cpu $flag="$name" --emit=ir -o other.ir >out 2>&1 && fail "$name: $flag is accepted for the CPU"
        grep -q "the pass \`$name\` does not run for cpu" out || fail "$name: $flag does not say why it is refused for the CPU: $(head -1 out)"
    done
done
[ "$walked" -ge 50 ] || fail "only $walked names found"
echo "$walked names, $failures failures"
[ "$failures" = 0 ]
