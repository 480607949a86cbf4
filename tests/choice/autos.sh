#!/bin/bash
# autos.sh COSTS SOURCE_FOLDER: what is chosen for the `auto` constants of autos.tile is as autos.expected says, and where there is a
# device model, its estimate is within 3% of the best of the whole space. UPDATE=1 writes autos.expected again.
set -u
export TILE_CPU_LEVEL=any # the rates of units differ from machine to machine
costs=$1 here=$2/tests/choice failed=0
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
while read -r kernel rest; do
    for target in cuda:sm_90a cuda:sm_80 hip:gfx942 cpu; do
        # shellcheck disable=SC2086
        said=$("$costs" --choose "$here/autos.tile" "$kernel" "$target" $rest)
        said=${said%, in *}
        case $target in
        cuda:*)
            # shellcheck disable=SC2086
            best=$("$costs" "$here/autos.tile" "$kernel" "$target" $rest | sed -nE 's/.*"estimate": ([0-9.e+]+).*/\1/p' | sort -g | head -1)
            awk -v said="$said" -v best="$best" 'BEGIN {
                sub(/^[^:]*: /, "", said)
                exit !(best > 0 && said * 1000 <= best * 1.03 + 50)
            }' || { echo "FAIL: $kernel $target $rest: $said, and the best is $best ns"; failed=1; } ;;
        *) said=${said%%:*} ;; # neither times nor bounds are known
        esac
        echo "$kernel $target $rest: $said"
    done
done >"$work/choices" <<'PROBLEMS'
rows M=8192 N=4096 T=f16
rows M=100003 N=96 T=f16
plane H=4096 W=4096
plane H=37 W=100
loop M=4096 N=12345
twice M=4096 N=32000
twice M=4096 N=400
twice M=256 N=128256
product M=4096 N=4096 K=4096
product M=512 N=512 K=4096
undivided M=512 N=512 K=4096
product M=16 N=8192 K=8192
nibbles K=4096 C=512 D=4096
groups M=8192 G=128 H=512
pooled B=256 H=112 W=112 Q=56 P=56
convolved B=8 H=28 W=28 C=512 F=512 R=3 S=3
scaled M=8192 N=8192
places M=8192 N=4096
lifted W=65536 N=256
spans S=4096 N=1048576 D=256
pixels H=8192 W=3840
halved H=4096 W=4096
experts M=4096 N=4096 K=4096 E=8
pieces M=262144 E=4194304 K=262144 N=64
until M=65536 N=16384
cached B=16 H=8 N=16384 S=8
blocks M=4096 N=4096 K=4096
blocks M=2048 N=7168 K=4096
matrices B=262144
logs M=256 K=256 N=256
columns M=32768 N=1024
PROBLEMS
[ "${UPDATE:-0}" = 1 ] && cp "$work/choices" "$here/autos.expected"
diff -u "$here/autos.expected" "$work/choices" || { echo "FAIL: other choices"; exit 1; }
grep -q '^FAIL' "$work/choices" && failed=1
exit $failed
