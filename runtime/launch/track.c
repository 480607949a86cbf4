/* track.c: what a checked launch on the CPU does beside running the kernel: it follows which program accesses
 * which element (ir/interp/faults.h) and gives what it finds to the context's callback, as warnings. */
#include "runtime/launch/launch.h"

static FaultTensor tensor_of(const tile_kernel *k, const LaunchArgs *l, int i)
{
    const View *v = &l->views[i];
    FaultTensor t = { .name = k->params[i].name,
        .followed =
            (k->params[i].kind == PARAM_OUT || k->params[i].kind == PARAM_INOUT) && !(v->facts & FACT_ABSENT),
        .out = k->params[i].kind == PARAM_OUT,
        .dtype = k->params[i].dtype,
        .rank = k->params[i].rank,
        .data = v->data };
    memcpy(t.shape, v->extent, sizeof t.shape);
    memcpy(t.stride, l->strides[i], sizeof t.stride);
    return t;
}

Faults *track_begin(tile_kernel *k, const LaunchArgs *l, int64_t programs)
{
    const FrontKernel *front = frontend_kernel_find(k->module->ast, k->name);
    FaultTensor tensors[k->n_params + 1];
    for (int i = 0; i < k->n_params; i++) {
        tensors[i] = tensor_of(k, l, i);
        for (int p = 0; front && p < front->n_params; p++)
            if (!strcmp(front->params[p].name, tensors[i].name)) tensors[i].loc = front->params[p].loc;
    }
    return faults_new(tensors, k->n_params, programs);
}

typedef struct Told {
    tile_kernel *k;
    const Faults *faults;
    const int64_t *grid;
} Told;

static tile_status tell(Session *s, void *p)
{
    const Told *told = p;
    tile_kernel *k = told->k;
    FaultGrid grid;
    for (size_t i = 0; i < k->module->sources.files.len; i++) {
        const SourceFile *f = &k->module->sources.files.data[i];
        diag_add_source(s, f->name, f->directory, f->text, f->len);
    }
    frontend_fault_grid(k->module->ast, k->name, s, told->grid, &grid);
    faults_report(told->faults, &grid, s);
    context_report(k->context, s, k->title);
    return TILE_OK;
}

tile_status track_end(tile_kernel *k, Faults *f, const int64_t *grid)
{
    Told told = { k, f, grid };
    tile_status st = context_in_session(k->context, k->title, tell, &told);
    faults_free(f);
    return st;
}
