#!/bin/bash
# campaign_pack.sh BUILD OUT [programs]: a folder OUT to carry to a machine with many processors, with or
# without a GPU: the programs of campaigns with random kernels, and the scripts that run them: go.sh
# (campaign.sh) for kernels of products in every arrangement, programs.sh (campaign_ir.sh) for programs of
# the tile IR. BUILD: a build folder of a machine with TinyCC. With `programs` only the latter. Where it has
# the CPU backend, the programs are linked again with the archives of LLVM, so that nothing of LLVM
# has to be there.
set -eu
build=$(cd "$1" && pwd) source=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$2/preludes" "$2/src/tests/emu"
out=$(cd "$2" && pwd)
machines="sm_80 sm_90a sm_100a sm_120 gfx942 gfx950 gfx1100 gfx90a"
config=$(command -v llvm-config-22 || echo /usr/lib/llvm-22/bin/llvm-config)

linked=$(ninja -C "$build" -t targets all | sed -n 's/^\([^ ]*llvm_linked\.c\.o\):.*/\1/p')
[ -z "$linked" ] || ninja -C "$build" "$linked"

# Kernels call libgcc_s.
link() { # PROGRAM: its link command, with LLVM
    local command archives to=$out/$(basename "$1")
    command=$(ninja -C "$build" -t commands "$1" | tail -1 | sed "s# -o $1 # -o $to #")
    if [ -n "$linked" ]; then
        archives=x86codegen\ x86desc\ x86info\ aarch64codegen\ aarch64desc\ aarch64info\ passes\ target\ core\ analysis\ support
        archives=$("$config" --link-static --libs $archives)
        archives="-L$("$config" --libdir) $(tr '\n' ' ' <<<"$archives")"
        archives="$archives -Wl,-Bstatic -lstdc++ -lz -Wl,-Bdynamic"
        archives="$archives -l:libzstd.so.1 -Wl,--no-as-needed -lgcc_s -Wl,--as-needed -Wl,--gc-sections"
        command=$(sed "s# -o $to #& $linked #; s#\( && :\)\?\$# $archives#" <<<"$command")
    fi
    (cd "$build" && eval "$command")
    strip "$to"
}
programs="tests/emu/random_emu tests/fuzz/random_cpu"
[ "${3:-all}" = programs ] || programs="$programs tests/emu/tile_random_queue_emu tests/run/tile_random_queue"
for p in $programs; do link "$p"; done
needed() { ldd "$out/random_cpu" "$out/random_emu" | grep -o "/[^ ]*\($1\)[^ ]*" | sort -u; }
for lib in $(needed 'lib\(zstd\|omp\|gomp\|tcc\|gcc_s\)\.'); do cp -L "$lib" "$out"; done
mkdir -p "$out/libc"
for lib in $(needed 'libc\.so\|libm\.so\|ld-linux'); do cp -L "$lib" "$out/libc"; done
cp "$source"/tests/emu/*.h "$out/src/tests/emu/"        # those that kernels include, and theirs
[ "${3:-all}" = programs ] || cp "$source/tests/gpu/campaign.sh" "$out/go.sh"
cp "$source/tests/gpu/campaign_ir.sh" "$out/programs.sh"
cp "$source/tests/gpu/campaign_lib.sh" "$out"
# The libraries of the preludes are made by the first run.
rm -f "$out"/preludes/*
for m in $machines; do
    TILE_EMU_PRELUDES=$out/preludes "$out/random_emu" --device=tcc_$m --first=1 --count=1 | tail -1
    strip "$out/preludes/prelude_$m.so"
done
