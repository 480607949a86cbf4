#!/bin/bash
# published.sh: hit rates that were measured on a card and published, beside the model's: HipKittens, arXiv 2511.08083v1, table 4 (bf16 GEMM on MI355X,
# tiles of 192 x 256 x 64; W is the raster's height, C the chunk) and arXiv 2511.02132v1, section 4.3 (attention on MI300X). The order of the
# rows must come out, and no rate may be further off than bench/notes/launches.md says.
. "$(dirname "$0")/../tools/lib.sh"
examples=$root/examples/kernels
# "order of ids" of the papers is row-major; of a tile grid here the first axis is the fastest
sed 's|^    raster (group = GROUP)|    remap (w) = w % cdiv(N, TN) * cdiv(M, TM) + w / cdiv(N, TN)|' "$examples/gemm.tile" >rows.tile
sed 's|remap = auto|remap (w) = w % H * cdiv(M, TM) + w / H|' "$examples/attention.tile" >blocks.tile
rate() { awk -v want="$1" '$1 == want { l2 = $3; llc = $6; sub("%", "", l2); sub("%", "", llc); print int(l2 * 10 + .5), int(llc * 10 + .5); exit }' table; }
off() {         # off WHAT OURS THEIRS MOST: per mille
    local d=$(($2 - $3))
    echo "$1: $2, published $3, off $d"
    ((${d#-} <= $4)) || fail "$1 is $2 per mille, published $3: off by more than $4"
}
gemm() {        # gemm SIZE FILE REMAPS
    "$tilec" sim "$2" --kernel=gemm --set T=bf16 --set TO=bf16 --set TM=192 --set TN=256 --set TK=64 --set GROUP=1 --set M=$1 --set N=$1 --set K=$1 --device=mi355x --remap=$3 --sample=16 >table || fail "gemm $1"
}
gemm 9216 rows.tile none;                                       read -r a2 a3 < <(rate none)
gemm 9216 "$examples/gemm.tile" chunk:216+raster:7,chunk:25+raster:5; read -r b2 b3 < <(rate chunk:216+raster:7); read -r c2 c3 < <(rate chunk:25+raster:5)
off "9216 rows, L2" $a2 550 190; off "9216 W7 C216, L2" $b2 790 20; off "9216 W5 C25, L2" $c2 750 30
off "9216 rows, last level" $a3 950 120; off "9216 W7 C216, last level" $b3 240 30; off "9216 W5 C25, last level" $c3 930 170
((a2 < c2 && c2 < b2 && b3 < c3 && c3 < a3)) || fail "9216: the placements are in another order"
gemm 14592 rows.tile none;                                      read -r a2 a3 < <(rate none)
gemm 14592 "$examples/gemm.tile" chunk:542+raster:8,chunk:64+raster:8; read -r b2 b3 < <(rate chunk:542+raster:8); read -r c2 c3 < <(rate chunk:64+raster:8)
off "14592 rows, L2" $a2 360 30; off "14592 W8 C542, L2" $b2 790 30; off "14592 W8 C64, L2" $c2 780 40
off "14592 rows, last level" $a3 760 50; off "14592 W8 C542, last level" $b3 70 30; off "14592 W8 C64, last level" $c3 550 60
((a2 < b2 && a2 < c2 && b3 < c3 && c3 < a3)) || fail "14592: the placements are in another order"

heads() {       # heads FILE H N REMAP
    "$tilec" sim "$1" --set B=1 --set D=128 --set CAUSAL=false --set TM=128 --set TN=64 --set H=$2 --set HK=$2 --set M=$3 --set N=$3 --device=mi300x --remap=$4 --sample=256 ${5-} >table || fail "attention $2 $3"
}
# few heads, short: all mappings hold about 90%; many: only heads kept on a chiplet do (0.80 to 0.97)
heads blocks.tile 8 8192 none;                     read -r a _ < <(rate none); off "8 heads of 8192, block-first" $a 900 80
heads "$examples/attention.tile" 8 8192 none,head; read -r a _ < <(rate none); off "8 heads of 8192, head-first" $a 900 80
read -r a _ < <(rate head);                        off "8 heads of 8192, head-first by chiplet" $a 900 80
heads blocks.tile 128 16384 none --drift=20;       read -r a _ < <(rate none)
heads "$examples/attention.tile" 128 16384 none,head --drift=20; read -r b _ < <(rate none); read -r c _ < <(rate head)
echo "128 heads of 16384, adrift: $a block-first, $b head-first, $c head-first by chiplet"
((a < 60 && a < b && b < c && c > 800)) || fail "128 heads: $a block-first, $b head-first, $c by chiplet"
finish
