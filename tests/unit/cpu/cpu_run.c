/* cpu_run.c: see cpu_run.h. */
#define _GNU_SOURCE
#include "cpu_run.h"
#include "ir/interp/eval.h"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

bool cpu_run_compile(Session *s, Func *f, const BackendOptions *o, CpuRun *r)
{
    char err[256] = "";
    memset(r, 0, sizeof *r);
    if (!backend_cpu.compile(s, f->module, f, target_find("cpu"), o, &r->artifact)) return false;
    if (o->emit != EMIT_DEFAULT) return true;
    r->module =
        backend_cpu.load(r->artifact.data, r->artifact.size, r->artifact.entry, &r->fn, err, sizeof err);
    if (!r->module) fprintf(stderr, "load: %s\n", err);
    return r->module != NULL;
}

static void known(
    const Func *f, const InterpArg *args, int64_t *dims, int64_t (*strides)[TILE_MAX_RANK], Scalar *scalars)
{
    for (int d = 0; d < f->n_dims; d++) dims[d] = f->dims[d].extent;
    for (int k = 0; k < f->n_params; k++) {
        scalars[k] = args[k].scalar;
        for (int a = 0; f->params[k].type->kind == TYPE_TENSOR && a < f->params[k].type->rank; a++) {
            dims[f->params[k].dims[a]] = args[k].shape[a];
            strides[k][a] = args[k].stride[a];
        }
    }
}

/* NaN everywhere, because nothing may depend on old contents. The scratch memory of products has megabytes,
 * of which a small launch writes little: it is a private map of a file of NaN, to which the pages that were
 * written go back. */
static bool fresh_scratch(CpuRun *r)
{
    static int file = -1;
    static size_t filled;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = ((size_t)r->artifact.shape.scratch_bytes + page) / page * page;
    if (file < 0) file = memfd_create("scratch", MFD_CLOEXEC);
    if (file < 0) return false;
    if (filled < bytes) {
        char nan[4096];
        memset(nan, 0xff, sizeof nan);
        for (; filled < bytes; filled += sizeof nan)
            if (pwrite(file, nan, sizeof nan, (off_t)filled) != sizeof nan) return false;
    }
    if (r->scratch) return madvise(r->scratch, r->scratch_bytes, MADV_DONTNEED) == 0;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
    if (at == MAP_FAILED) return false;
    r->scratch = at;
    r->scratch_bytes = bytes;
    return true;
}

bool cpu_run_bind(Session *s, Func *f, const InterpArg *args, CpuRun *r)
{
    int64_t dims[64], strides[16][TILE_MAX_RANK], grid[3] = { 1, 1, 1 };
    Scalar scalars[16];
    if (f->n_dims > 64 || f->n_params > 16 || r->artifact.n_slots > 64) return false;
    known(f, args, dims, strides, scalars);
    EvalEnv env = { .dims = dims,
        .scalars = scalars,
        .strides = (const int64_t (*)[TILE_MAX_RANK])strides,
        .grid = { 1, 1, 1 } };
    int rank = f->grid ? f->grid->last->n_operands : 0;
    if (rank && !ir_eval_block(f, f->grid, &env, grid, rank)) return false;
    r->programs = grid[0] * grid[1] * grid[2];
    for (int k = 0; k < r->artifact.n_slots; k++) {
        const Slot *x = &r->artifact.slots[k];
        switch (x->kind) {
        case SLOT_DATA: r->slots[k] = (uint64_t)(uintptr_t)args[x->param].data; break;
        case SLOT_EXTENT: r->slots[k] = (uint64_t)dims[x->index]; break;
        case SLOT_STRIDE: r->slots[k] = (uint64_t)strides[x->param][x->index]; break;
        case SLOT_SCALAR: r->slots[k] = scalar_bits(x->dtype, scalars[x->param]); break;
        case SLOT_GRID: r->slots[k] = (uint64_t)grid[x->index]; break;
        case SLOT_CHECK: r->slots[k] = (uint64_t)(uintptr_t)&r->check; break;
        case SLOT_TENSOR_MAP:
        case SLOT_SCHEDULER:
        case SLOT_WORKSPACE:
        case SLOT_PRINT: return false;
        }
    }
    return fresh_scratch(r);
}

int cpu_run_launch(CpuRun *r) { return r->fn(r->slots, 0, r->programs, r->scratch, 0); }

void cpu_run_free(CpuRun *r)
{
    if (r->scratch) munmap(r->scratch, r->scratch_bytes);
    if (r->module) backend_cpu.unload(r->module);
    memset(r, 0, sizeof *r);
}
