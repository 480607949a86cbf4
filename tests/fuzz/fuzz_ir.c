/* fuzz_ir.c: any text as IR: refused with diagnostics, or a module that, once it verifies, prints to text
 * that reads back the same, has ranges, and runs in the interpreter (to an end, a limit, or an error) without
 * touching anything but its tensors. */
#include "ir/interp/eval.h"
#include "ir/interp/interp.h"
#include "ir/analysis/range.h"
#include <stdlib.h>

enum { MAX_PARAMS = 8, MAX_BYTES = 1 << 16 };

/* A tensor that keeps the parameter's promises, or false when that takes too much. Its last byte is the last
 * of its allocation. */
static bool make_tensor(Session *s, const Func *f, const Param *p, InterpArg *a, void **memory)
{
    int64_t low = 0, high = 0, size = dtype_bytes(p->type->dtype), next = 1;
    for (int k = p->type->rank - 1; k >= 0; k--) {
        const Dim *d = &f->dims[p->dims[k]];
        a->shape[k] = d->extent >= 0 ? d->extent : d->div < 8 ? 2 * d->div : d->div;
        a->stride[k] = p->stride[k] != FACT_UNKNOWN ? p->stride[k]
                       : next % p->stride_div[k]    ? p->stride_div[k]
                                                    : next;
        int64_t n = a->shape[k] > 0 ? a->shape[k] - 1 : 0;
        if (a->shape[k] > MAX_BYTES || a->stride[k] > MAX_BYTES || a->stride[k] < -MAX_BYTES) return false;
        if (a->stride[k] < 0) low += n * a->stride[k];
        else high += n * a->stride[k];
        if (next < MAX_BYTES) next *= a->shape[k] > 0 ? a->shape[k] : 1;
    }
    if (high - low >= MAX_BYTES || p->align > 4096) return false;
    int64_t before = (-low * size + p->align - 1) / p->align * p->align;
    size_t bytes = (size_t)(before + (high + 1) * size);
    *memory =
        aligned_alloc((size_t)p->align, (bytes + (size_t)p->align - 1) / (size_t)p->align * (size_t)p->align);
    if (!*memory) abort();
    memset(*memory, 1, bytes);
    a->data = (char *)*memory + before;
    return true;
}

static void run(Session *s, const Func *f)
{
    InterpArg args[MAX_PARAMS] = { 0 };
    void *memory[MAX_PARAMS] = { 0 };
    InterpOptions opt = { .max_steps = 20000, .max_bytes = 1 << 20, .check = true };
    bool ok = f->is_kernel && f->n_params <= MAX_PARAMS;
    for (int p = 0; ok && p < f->n_params; p++) {
        if (f->params[p].type->kind == TYPE_TENSOR)
            ok = make_tensor(s, f, &f->params[p], &args[p], &memory[p]);
        else if (dtype_is_float(f->params[p].type->dtype)) args[p].scalar.f = 1;
        else args[p].scalar.i = 2;
    }
    int before = s->n_errors;
    if (ok && !interp_run_with(s, f, args, f->n_params, &opt) && s->n_errors == before && !diag_full(s))
        abort();
    for (int p = 0; p < MAX_PARAMS; p++) free(memory[p]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Session s;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) abort();
    Text once, twice;
    text_init(&once, &s.arena);
    text_init(&twice, &s.arena);
    Module *m = ir_parse(&s, diag_add_source(&s, "fuzz.ir", NULL, (const char *)data, size));
    if (!m && !s.n_errors) abort();
    if (m && ir_verify(m)) {
        ir_print(m, &once);
        Module *again = ir_parse(&s, diag_add_source(&s, "again.ir", NULL, once.data, once.len));
        if (!again || !ir_verify(again)) abort();
        ir_print(again, &twice);
        if (once.len != twice.len || memcmp(once.data, twice.data, once.len)) abort();
        for (Func *f = m->funcs; f; f = f->next) {
            const char *why;
            ranges_new(f);
            if (f->grid) eval_compile(&s.arena, f, f->grid, &why);
            if (f->remap) eval_compile(&s.arena, f, f->remap, &why);
            run(&s, f);
        }
    }
    text_init(&once, &s.arena);
    diag_render_all(&s, &once);
    session_free(&s);
    return 0;
}
