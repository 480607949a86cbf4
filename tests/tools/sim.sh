#!/bin/bash
# sim.sh: `tilec sim`: the two first cases, the same result every time, remaps that are refused, devices and launches that are wrong.
. "$(dirname "$0")/lib.sh"
examples=$root/examples/kernels
rate() {    # rate FILE REMAP LEVEL: a hit rate of the JSON, in thousandths
    tr '{' '\n' <"$1" | awk -v name="$2" -v level="$3" '$0 ~ "\"name\": \"" name "\"" { on = 1 } on && want { match($0, /"hit_rate": [0-9.]+/); print int(1000 * substr($0, RSTART + 12, RLENGTH - 12)); exit } on && $0 ~ "\"" level "\": $" { want = 1 }'
}

# 49,152 programs. By head each chiplet reads a head's keys and values once, in the order of ids four programs of a chiplet share them
attention=("$tilec" sim "$examples/attention.tile" --set B=32 --set H=48 --set HK=48 --set M=4096 --set N=4096 --set D=64 --set CAUSAL=false)
# in under 20 s on two cores: by processor time, which others on the machine do not lengthen, and which bounds the time on an idle core
processor_ms() { awk -F'[ms ]' 'NR == 2 { printf "%d\n", 1000 * (60 * $1 + $2 + 60 * $4 + $5) }' "$1"; }      # of this shell's children, from what `times` printed
started=$SECONDS
times >before.txt
expect 0 "49152 programs (32 x 48 x 32)" "${attention[@]}" --remap=none,head --json=a.json --plot=a.svg
times >after.txt
took=$(($(processor_ms after.txt) - $(processor_ms before.txt))) most=20000
grep -q __asan_init "$tilec" && most=120000
echo "attention B32 H48 N4096 D64, 49152 programs, two placements: $took ms of processor time, $((SECONDS - started)) s"
((took < most)) || fail "attention took $took ms of processor time"
none=$(rate a.json none l2) head=$(rate a.json head l2)
((none > 650 && none < 760)) || fail "attention in the order of ids hits L2 at $none per mille"
((head > 900)) || fail "attention by head hits L2 at $head per mille"
grep -q '^</svg>$' a.svg && grep -q '>chiplet 7<' a.svg || fail "the plot is not whole"
"${attention[@]}" --remap=none,head --sample=64 --threads=1 >one; "${attention[@]}" --remap=none,head --sample=64 --threads=2 >two; same one two

conv=(--set B=32 --set C=32 --set H=32 --set W=32 --set F=64 --set R=3 --set S=3 --set P=32 --set Q=32)
expect 0 "256 programs (1 x 8 x 32)" "$tilec" sim "$examples/conv2d.tile" --kernel=conv2d_nchw "${conv[@]}" --json=c.json
for remap in none xcd chunk head auto; do r=$(rate c.json $remap l2); ((r > 850 && r < 990)) || fail "conv2d $remap hits L2 at $r per mille"; done
expect 0 "xcd+raster:4" "$tilec" sim "$examples/gemm.tile" --set M=2048 --set N=2048 --set K=256 --remap=none,xcd+raster:4,chunk:19,head:2 --device mi355x
expect 0 "addresses depend on data" "$tilec" sim "$examples/embedding.tile" --set N=512 --set V=1000 --set D=256 --device=h100

# a placement that drops tiles looks better than any, and is refused
sed 's|^    grid (cdiv(Q, TQ), cdiv(P, TP), cdiv(F, TF)\*B)|&\n    remap (w) = (w/(num_programs()/8))%8*(num_programs()/8) + (w%(num_programs()/8))/8|' "$examples/conv2d.tile" >bad.tile
expect 1 "is no permutation of the 256 programs: programs 0 and 1 both become 0" "$tilec" sim bad.tile --kernel=conv2d_nchw "${conv[@]}"
expect 1 "bad.tile:1" "$tilec" sim bad.tile --kernel=conv2d_nchw "${conv[@]}"
cat >k.tile <<'T'
kernel k(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 16)) remap (w) = (w%8)*(num_programs()/8) + w/8 { let i = program_id(); store(Y[i*16 +: 16], load(X[i*16 +: 16])); }
kernel up(in f32 X[N], out f32 Y[N]) grid (cdiv(N, 16)) remap (w) = w + 1 { let i = program_id(); store(Y[i*16 +: 16], load(X[i*16 +: 16])); }
T
expect 0 "64 programs" "$tilec" sim k.tile --kernel=k --set N=1024
expect 1 "the remap is no permutation of the 65 programs: programs 1 and 64 both become 8" "$tilec" sim k.tile --kernel=k --set N=1040 --remap=none
expect 1 "the remap sends program 63 to 64, outside of the 64 programs" "$tilec" sim k.tile --kernel=up --set N=1024

# the compiler says so too, where the grid is known; other programs need no launch to be refused
expect 1 "k.tile:1:56: error: the remap is no permutation of the 65 programs: programs 1 and 64 both become 8" "$tilec" k.tile --kernel=k --target=hip:gfx942 -D N=1040 -o k.hip
expect 1 "the remap sends program 63 to 64, outside of the 64 programs" "$tilec" k.tile --kernel=up --target=hip:gfx942 -D N=1024 -o k.hip
expect 0 "" "$tilec" k.tile --kernel=k --target=hip:gfx942 -D N=1024 -o k.hip
expect 0 "" "$tilec" k.tile --kernel=k --target=hip:gfx942 -o k.hip
expect 1 "gemm.tile:15:8: error: kernel gemm needs 262144 bytes of shared memory, hip:gfx942 has 65536" "$tilec" "$examples/gemm.tile" --kernel=gemm --target=hip:gfx942 -D T=f32 -D ACC=f32 -D TO=f32 -D TF32=false -D TM=256 -D TN=256 -D TK=128 -o k.hip
expect 2 "there is no target \`hip:gfx999\`" "$tilec" k.tile --kernel=k --target=hip:gfx999 -o k.hip

expect 1 "extents are missing: --set N=.." "$tilec" sim k.tile --kernel=k
echo 'kernel tm(in f32 X[N], out f32 Y[N], const int TM) grid (cdiv(N, TM)) { let i = program_id(); store(Y[i*TM +: TM], load(X[i*TM +: TM])); }' >tm.tile
expect 1 "note: give it with --set TM=..., or with a default" "$tilec" sim tm.tile --set N=100
echo 'kernel rows(in f32 X[N, D], out f32 Y[N, D]) grid (N) { let i = program_id(); store(Y[i, :], load(X[i, :])); }' >rows.tile
expect 1 "in the file, or --set D=..." "$tilec" sim rows.tile --set N=100
expect 1 "which kernel? --kernel=NAME, one of k, up" "$tilec" sim k.tile --set N=4
expect 1 "has no kernel \`q\`" "$tilec" sim k.tile --kernel=q --set N=4
expect 1 "--set Z=4: " "$tilec" sim k.tile --kernel=k --set Z=4
expect 2 "--set wants NAME=VALUE, not \`N\`" "$tilec" sim k.tile --kernel=k --set N
expect 1 "expected none, xcd, chunk, chunk:N, head, head:N or auto" "$tilec" sim k.tile --kernel=k --set N=1024 --remap=spiral
expect 2 "there is no device \`mi9\`; there are mi300x, mi325x, mi355x, h100, h200, b200, gb10, rtx_pro_6000, or a file's path" "$tilec" sim k.tile --kernel=k --set N=1024 --device=mi9
expect 0 "conv2d_nchw" "$tilec" sim "$examples/conv2d.tile" --kernel=conv2d_nchw "${conv[@]}" --remap=none --drift=30
expect 2 "--drift wants a number from 0 to 99, not \`100\`" "$tilec" sim k.tile --kernel=k --set N=1024 --drift=100
expect 2 "--sample wants a power of two, not 12" "$tilec" sim k.tile --kernel=k --set N=1024 --sample=12
expect 2 "--per-unit wants a number from 1 to 64, not \`0\`" "$tilec" sim k.tile --kernel=k --set N=1024 --per-unit=0
printf 'like = mi300x\nname = half\nchiplets = 4\n' >half.device
expect 0 "on half: 4 chiplets of 38" "$tilec" sim k.tile --kernel=k --set N=1024 --device=./half.device
printf 'like = mi300x\nchiplets = -4\n' >bad.device
expect 1 "bad.device:2:12: error: chiplets wants a whole number from 1 to 255, not \`-4\`" "$tilec" sim k.tile --kernel=k --set N=1024 --device=bad.device
head -c 300 /dev/urandom >noise.device
expect 1 "noise.device" "$tilec" sim k.tile --kernel=k --set N=1024 --device=noise.device
expect 2 "cannot open ./nothing" "$tilec" sim k.tile --kernel=k --set N=1024 --device=./nothing
finish
