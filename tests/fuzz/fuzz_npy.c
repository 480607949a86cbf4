/* fuzz_npy.c: any bytes as a .npy file: refused with a reason, or its elements lie within the file. */
#include "tools/tilec/run/npy.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena a;
    jmp_buf oom;
    arena_init(&a, allocator_libc, &oom);
    if (setjmp(oom)) abort();
    Npy npy;
    const char *why = npy_parse(&a, (const char *)data, size, &npy);
    if (!why) {
        int64_t strides[TILE_MAX_RANK], last = 0;
        npy_strides(&npy, strides);
        for (int i = 0; i < npy.rank; i++)
            last += (npy.shape[i] > 0 ? npy.shape[i] - 1 : 0) * (npy.bytes ? strides[i] : 0);
        if (npy.offset + npy.bytes != size ||
            (npy.bytes && ((uint64_t)last + 1) * (uint64_t)npy.size != npy.bytes))
            abort();
    }
    arena_free(&a);
    return 0;
}
