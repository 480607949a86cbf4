#!/bin/bash
# bundle.sh: a bundle in a C and a C++ program, with nothing but the C library linked: on the CPU where there is no driver, and on a driver that exists in
# memory (argument 4), whose compiler stands in for NVRTC, so that no vendor's software is needed.
fake=$4
. "$(dirname "$0")/lib.sh"
here=$root/tests/tools
bundle="$tilec $here/bundle.tile --bundle --target=cuda:sm_80,cuda:sm_90a,cpu"
export TILE_NVRTC=$fake
expect 0 "" $bundle -o k.c -h k.h
cp k.c first.c
expect 0 "" $bundle -o k.c -h k.h; same k.c first.c
expect 0 "" "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -O1 -c k.c -o k.o
# each image is stored once, compressed where that saves an eighth; the compiler in memory gives one PTX for all kernels
awk '/^static const uint64_t image_/ { text = ""; next } /^};/ { if (text != "") print text; text = ""; } { text = text $0 }' k.c | grep ' 0x' | sort | uniq -d | grep -q . && fail "an image is stored twice"
rows=$(grep -E '^    \{ TILE_ON_[A-Z]+, IMAGE_' k.c)
[ "$(grep IMAGE_PTX <<<"$rows" | wc -l)" = 2 ] && [ "$(grep IMAGE_PTX <<<"$rows" | grep -o 'image_[0-9]*' | sort -u | wc -l)" = 1 ] || fail "images: $rows"
grep IMAGE_BINARY <<<"$rows" | grep -q ', 0 },' && fail "a binary that is not compressed: $rows"
grep IMAGE_PTX <<<"$rows" | grep -qv ', 12, 0 },' && fail "12 bytes are compressed: $rows"
expect 0 "" "$cc" -std=c11 -Wall -Wextra -Werror -O1 -I. -I"$root/tests/api" "$here/bundle_check.c" k.o k.cpu.o -o check -ldl -lpthread
expect 0 "all launches as expected" ./check cpu
mkdir drivers && cp "$fake" drivers/libcuda.so.1
expect 0 "all launches as expected" env LD_LIBRARY_PATH="$work/drivers" ./check fake
# a driver from before tensor maps: what needs them is passed over
mkdir old && cp "$(dirname "$fake")/libfakeold.so" old/libcuda.so.1
cat >old.c <<'C'
#include OLD_HEADER
#include <stdio.h>
int main(void)
{
    static _Alignas(256) unsigned short a[256 * 64], b[64 * 256], c[256 * 256];
    int64_t sa[] = { 256, 64 }, sb[] = { 64, 256 }, sc[] = { 256, 256 };
    tile_queue q = { .kind = TILE_ON_CUDA };
    int status = gemm((tile_view){ a, sa, NULL }, (tile_view){ b, sb, NULL }, (tile_view){ c, sc, NULL }, &q);
    puts(status ? k_error() : "launched");
    return status;
}
C
expect 0 "" "$cc" -std=c11 -I. -DOLD_HEADER='"k.h"' old.c k.o k.cpu.o -o oldcheck -ldl -lpthread
expect 0 "launched" env LD_LIBRARY_PATH="$work/old" ./oldcheck
expect 0 "" "$tilec" "$here/bundle.tile" --bundle --kernel=gemm --target=cuda:sm_90a -o only.c -h only.h
expect 0 "" "$cc" -std=c11 -I. -DOLD_HEADER='"only.h"' -Dk_error=only_error old.c only.c -o onlycheck -ldl -lpthread
expect 0 "launched" env LD_LIBRARY_PATH="$work/old" ./onlycheck
# kernels that wait for what is before them in their stream are launched to start early, where device and driver can
expect 0 "" "$tilec" "$here/bundle.tile" --bundle --early-start --kernel=gemm --target=cuda:sm_80,cuda:sm_90a -o early.c -h early.h
cat >early_main.c <<'C'
#include "early.h"
#include "fake_gpu.h"
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
    static _Alignas(256) unsigned short a[256 * 64], b[64 * 256], c[256 * 256];
    int64_t sa[] = { 256, 64 }, sb[] = { 64, 256 }, sc[] = { 256, 256 };
    FakeStateFn *state = (FakeStateFn *)(uintptr_t)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_state");
    for (int arch = 80; arch <= 100; arch += 10) {
        char context;
        state()->arch = arch;
        state()->stream_context = &context + arch;
        tile_queue q = { .kind = TILE_ON_CUDA, .stream = &context };
        int status = gemm((tile_view){ a, sa, NULL }, (tile_view){ b, sb, NULL }, (tile_view){ c, sc, NULL }, &q);
        printf("%d: %d %d\n", arch, status, state()->last.early_start);
    }
    return 0;
}
C
expect 0 "" "$cc" -std=c11 -I. -I"$root/tests/api" early_main.c early.c -o earlycheck -ldl -lpthread
env LD_LIBRARY_PATH="$work/drivers" ./earlycheck >early.txt; printf '80: 0 0\n90: 0 1\n100: 0 1\n' | diff - early.txt || fail "launches that start early"
env LD_LIBRARY_PATH="$work/old" ./earlycheck >early.txt; printf '80: 0 0\n90: 0 0\n100: 0 0\n' | diff - early.txt || fail "launches where the driver cannot start any early"
[ "$(grep -o '"early_start": true' early.json | wc -l)" = "$(grep -o '"target": "cuda:sm_90a*"' early.json | wc -l)" ] || fail "the manifest says otherwise who waits"
grep -q early_start k.json && fail "early starts that nobody asked for"
# a product whose parts of K meet in memory: the workspace is the caller's, or kept for the stream, or a captured launch's own; launches
# of the per-thread default stream count each with a counter of their own thread, and have its workspace
expect 0 "" "$tilec" "$root/examples/kernels/gemm.tile" --bundle --kernel=gemm --target=cuda:sm_90a -D split_k=32 -D T=f16 -D TO=f16 -o parts.c -h parts.h
cat >parts_main.c <<'C'
#include "fake_gpu.h"
#include "parts.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
enum { SLOTS = 8 }; /* the maps of A and B, the grid, K, the workspace, the counter, the map of C */
static FakeState *fake;
static _Alignas(256) unsigned char memory[32 << 20];
static _Alignas(256) unsigned short a[128 * 8192], b[8192 * 128], c[128 * 128];
static int launch(void *stream, void *workspace, size_t bytes)
{
    int64_t sa[] = { 128, 8192 }, sb[] = { 8192, 128 }, sc[] = { 128, 128 };
    tile_queue q = { .kind = TILE_ON_CUDA, .stream = stream, .workspace = workspace, .workspace_bytes = bytes };
    return gemm((tile_view){ a, sa, NULL }, (tile_view){ b, sb, NULL }, (tile_view){ c, sc, NULL }, &q);
}
typedef struct Seen {
    int status;
    uint64_t words[SLOTS];
} Seen;
static void *workspace = memory;
/* With a workspace of ours, two of these launches differ in the counter alone. */
static void *in_thread(void *out)
{
    Seen *s = out;
    s->status = launch((void *)2, workspace, workspace ? sizeof memory : 0);
    memcpy(s->words, fake->last.params, sizeof s->words);
    return NULL;
}
int main(void)
{
    fake = ((FakeStateFn *)(uintptr_t)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_state"))();
    fake->n_params = SLOTS;
    printf("%d\n", launch(NULL, NULL, 0));
    int64_t live = fake->live_memory, allocs = fake->allocs;
    for (int i = 0; i < 2; i++) {
        fake->capturing = i;
        printf("%d, ", launch(NULL, NULL, 0));
        printf("%lld of memory, %lld allocations\n", (long long)(fake->live_memory - live), (long long)(fake->allocs - allocs));
    }
    fake->capturing = 0;
    int status = launch(NULL, memory, 16);
    printf("%d: %s\n", status, parts_error());
    fake->fail_code = 2, strcpy(fake->fail_name, "cuMemAllocAsync");
    status = launch((void *)2, NULL, 0);
    printf("%d: %s\n", status, parts_error());
    fake->fail_code = 700, strcpy(fake->fail_name, "cuLaunchKernel");
    live = fake->live_memory;
    status = launch(NULL, NULL, 0);
    printf("%d, %lld of memory\n", status, (long long)(fake->live_memory - live));
    fake->fail_name[0] = 0;
    for (int kept = 0; kept < 2; kept++) {
        if (kept) workspace = NULL;
        Seen of[2];
        int other = 0;
        live = fake->live_memory;
        for (int i = 0; i < 2; i++) {
            pthread_t t;
            if (!pthread_create(&t, NULL, in_thread, &of[i])) pthread_join(t, NULL);
        }
        for (int i = 0; i < SLOTS; i++) other += of[0].words[i] != of[1].words[i];
        printf("%d %d, %d words differ, %lld of memory\n", of[0].status, of[1].status, other, (long long)(fake->live_memory - live));
    }
    return 0;
}
C
expect 0 "" "$cc" -std=c11 -Wall -Wextra -Werror -I. -I"$root/tests/api" parts_main.c parts.c -o partscheck -ldl -lpthread
env LD_LIBRARY_PATH="$work/drivers" ./partscheck >parts.txt; diff - parts.txt <<'T' || fail "workspaces and counters of parts of K"
0
0, 0 of memory, 0 allocations
0, 0 of memory, 1 allocations
15: gemm<split_k=32, T=f16, TO=f16>: needs a workspace of 262272 bytes at a multiple of 256; 16 bytes were given
2: gemm: allocating a workspace: CUDA_ERROR_OUT_OF_MEMORY (2): words of the driver
18, 0 of memory
0 0, 1 words differ, 0 of memory
0 0, 2 words differ, 2 of memory
T
[ "$(env LD_LIBRARY_PATH="$work/old" ./partscheck | head -1)" = 0 ] && fail "an old driver gives no workspace"
if command -v g++ >/dev/null; then
    printf '#include "k.h"\nint main() { return 0; }\n' >h.cpp
    expect 0 "" g++ -std=c++11 -Wall -Wextra -Werror -c h.cpp -o h.o
fi
for word in '"format": "tile-bundle-1"' '"name": "times", "kind": "scalar", "type": "i32"' '"requires": ["aligned", "divisible", "positive"]' '"target": "cuda:sm_90a"' \
            '"shape": ["M", "K"]' '"choices": ["NEGATE"]' '"form": "ptx"'; do
    grep -qF -- "$word" k.json || fail "the manifest has no $word"
done
for word in '"name": "a", "kind": "scalar", "type": "f32", "default": 1.5' '"grid": ["M", "cdiv(N, ' '"grid": ["cdiv(M, 128)", "cdiv(N, 128)"]' \
            '"target": "cpu", "cpu": "x86-64-v4" }' '"registers": 40, "spill_bytes": 12' '"stored_bytes": 12'; do
    grep -qF -- "$word" k.json || fail "the manifest has no $word"
done
expect 0 "dot<D=16, NEGATE=true> for cuda:sm_80 spills 12 bytes of registers a thread" $bundle --wperf -o k.c -h k.h
command -v python3 >/dev/null && { python3 -m json.tool k.json >/dev/null || fail "the manifest is no JSON"; }

# any number of arguments
{
    echo "kernel wide("
    for i in $(seq 100); do echo "in f32 X$i[N], "; done
    echo "out f32 Y[N]) grid (cdiv(N, 64)) { let i = program_id(); store(Y[i*64 +: 64], "
    for i in $(seq 99); do echo -n "load(X$i[i*64 +: 64]) + "; done
    echo "load(X100[i*64 +: 64])); }"
} >wide.tile
expect 0 "" "$tilec" wide.tile --bundle --target=cuda:sm_80,cpu -o wide.c -h wide.h
{
    echo '#include "wide.h"'
    echo '#include <stdio.h>'
    echo 'int main(void) { static float x[101][100]; int64_t n = 100; for (int i = 0; i < 100; i++) x[i][7] = (float)i; int status = wide('
    for i in $(seq 0 100); do echo "(tile_view){ x[$i], &n, NULL },"; done
    echo 'NULL); return status ? status : x[100][7] != 4950; }'
} >wide_main.c
expect 0 "" "$cc" -std=c11 -O1 wide_main.c wide.c wide.cpu.o -o wide -ldl -lpthread
expect 0 "" ./wide

# no compiler: an error with the way out, or source text for a compiler where the program runs
export TILE_NVRTC=$work/none.so
expect 1 "no binary for cuda:sm_80 can be made here" $bundle -o n.c -h n.h; absent n.c
expect 1 "--bundle-source=missing" $bundle -o n.c -h n.h
expect 0 "" $bundle --bundle-source=missing -o k.c -h k.h
grep -q '"form": "source"' k.json || fail "no source in the bundle"
expect 0 "" "$cc" -std=c11 -Wall -Wextra -Werror -O1 -I. k.c k.cpu.o "$here/bundle_source.c" -o source -ldl -lpthread
expect 0 "there is no NVRTC here" env LD_LIBRARY_PATH="$work/drivers" TILE_NVRTC="$work/none.so" ./source 6
expect 0 "launched" env LD_LIBRARY_PATH="$work/drivers" TILE_NVRTC="$fake" ./source 0

# code objects for AMD's, where clang is found
if "$tilec" "$root/examples/kernels/silu.tile" -D T=f16 --target=hip:gfx942 --emit=hsaco -o silu.hsaco 2>/dev/null; then
    expect 0 "" "$tilec" "$here/bundle.tile" --bundle --kernel=dot -D D=16 -D NEGATE=false --target=hip:gfx942,hip:gfx90a -o h.c -h h.h
    grep -qE '"target": "hip:gfx942".*"registers": [1-9][0-9]*, "spill_bytes": 0' h.json || fail "clang's registers are not in the manifest: $(cat h.json)"
    expect 0 "" "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -O1 -I. -I"$root/tests/api" h.c "$here/bundle_hip.c" -o hip -ldl -lpthread
    cp "$(dirname "$fake")/libfakehip.so" drivers/libamdhip64.so
    rm drivers/libcuda.so.1
    expect 0 "all launches as expected" env LD_LIBRARY_PATH="$work/drivers" ./hip
    "$tilec" "$root/examples/kernels/silu.tile" -D T=f16 --target=hip:gfx942 --emit=asm -o - | grep -q 'amdgcn-amd-amdhsa--gfx942' || fail "no assembly for gfx942"
else echo "no clang here: no code objects"; fi

# the command line
expect 2 "a bundle wants a GPU" "$tilec" "$here/bundle.tile" --bundle --target=cpu -o n.c -h n.h
expect 2 "--bundle wants -o NAME.c and -h NAME.h" "$tilec" "$here/bundle.tile" --bundle --target=cuda:sm_80 -o n.o
expect 2 "there is no target \`cuda:sm_1\`" "$tilec" "$here/bundle.tile" --bundle --target=cuda:sm_80,cuda:sm_1 -o n.c -h n.h
expect 2 "takes never|missing|always, not" $bundle --bundle-source=perhaps -o n.c -h n.h
finish
