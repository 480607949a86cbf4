/* load_run.c: loads an object by the loader of the CPU backend and runs its kernel: compiled for AArch64, and
 * run by an emulator. test_load_arm.c writes what it reads (load_run.h).
 *
 * load_run IN OUT */
#include "load_run.h"
#include "backends/backend.h"
#include <stdio.h>
#include <stdlib.h>

CpuModule *cpu_load(
    const void *object, size_t size, const char *entry, CpuKernelFn **fn, char *err, size_t err_size);
void cpu_unload(CpuModule *);

static void fail(const char *what)
{
    fprintf(stderr, "load_run: %s\n", what);
    exit(1);
}

static void *room(int64_t bytes)
{
    void *p = aligned_alloc(64, ((size_t)bytes + 127) & ~(size_t)63);
    if (!p) fail("out of memory");
    return p;
}

static void *read_bytes(FILE *f, int64_t bytes)
{
    void *p = room(bytes);
    if (fread(p, 1, (size_t)bytes, f) != (size_t)bytes) fail("the input ends early");
    return p;
}

int main(int argc, char **argv)
{
    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (!in) fail("usage: load_run IN OUT");
    LoadRun *h = read_bytes(in, sizeof *h);
    const char *object = read_bytes(in, h->object_bytes);
    void *tensors[LOAD_RUN_TENSORS];
    uint64_t slots[LOAD_RUN_SLOTS];
    for (int k = 0; k < h->n_tensors; k++) tensors[k] = read_bytes(in, h->tensor_bytes[k]);
    fclose(in);
    for (int k = 0; k < h->n_slots; k++)
        slots[k] =
            h->slots[k].tensor >= 0 ? (uint64_t)(uintptr_t)tensors[h->slots[k].tensor] : h->slots[k].word;
    char err[128] = "";
    CpuKernelFn *fn;
    CpuModule *m = cpu_load(object, (size_t)h->object_bytes, h->entry, &fn, err, sizeof err);
    if (!m) fail(err);
    if (fn(slots, 0, h->programs, room(h->scratch_bytes), 0)) fail("the kernel says that it failed");
    cpu_unload(m);
    FILE *out = fopen(argv[2], "wb");
    if (!out) fail("the output cannot be written");
    for (int k = 0; k < h->n_tensors; k++) fwrite(tensors[k], 1, (size_t)h->tensor_bytes[k], out);
    return fclose(out) != 0;
}
