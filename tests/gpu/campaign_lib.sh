# campaign_lib.sh: what the scripts of a campaign's pack (campaign_pack.sh) have in common; sourced with
# $here, the pack's folder, and $work, an empty one.
export TILE_EMU_SOURCE=$here/src TILE_EMU_FOLDER=$work TILE_EMU_PRELUDES=$here/preludes OMP_NUM_THREADS=1
export LD_LIBRARY_PATH=$here:/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# Failures are confirmed by g++ where it takes the emulators' headers; elsewhere TinyCC compiles alone.
echo '#include "device.h"' >"$work/try.cpp"
if g++ -std=gnu++17 -w -ftrivial-auto-var-init=pattern -O0 -I"$here/src" -I"$here/src/tests/emu" \
    -c "$work/try.cpp" -o "$work/try.o" 2>"$work/try.txt"; then
    compiler="g++ $(g++ -dumpfullversion)"
else
    compiler="none that takes device.h: $(grep -m1 'error\|not found' "$work/try.txt")"
    export TILE_EMU_QUICK_ONLY=1
fi
