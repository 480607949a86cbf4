#!/bin/bash
# campaign_pack.sh BUILD OUT: a folder OUT to carry to a machine with many processors, with or without a GPU: the programs of a campaign of random kernels, and go.sh
# (campaign.sh), which runs it. BUILD: a build folder, best without the CPU backend (-DTILE_ENABLE_CPU=OFF: a tenth of the size), of a machine with TinyCC.
set -eu
build=$1 out=$2 source=$(cd "$(dirname "$0")/../.." && pwd)
machines="sm_80 sm_90a sm_100a sm_120 gfx942 gfx950 gfx1100 gfx90a"
mkdir -p "$out/preludes" "$out/src/tests/emu"
for p in tests/emu/tile_random_queue_emu tests/run/tile_random_queue; do strip -o "$out/$(basename $p)" "$build/$p"; done
cp "$source"/tests/emu/*.h "$out/src/tests/emu/"        # those that kernels include, and theirs
cp "$source/tests/gpu/campaign.sh" "$out/go.sh"
# The libraries of the preludes are made by the first run.
rm -f "$out"/preludes/*
for m in $machines; do
    TILE_EMU_PRELUDES=$out/preludes "$out/tile_random_queue_emu" --device=tcc_$m --kind=small --first=1 --count=1 | tail -1
    strip "$out/preludes/prelude_$m.so"
done
