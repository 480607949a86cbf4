/* launch_facts.c: what a launch promises of its arguments: in numbers that few launches differ in, and
 * written into the IR. */
#include "runtime/compile/compile.h"
#include <float.h>

int64_t launch_facts_most(int64_t extent)
{
    static const int8_t steps[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 };
    for (size_t i = 0; extent > 0 && i < sizeof steps; i++)
        if (extent <= steps[i]) return steps[i];
    return 0;
}

enum { QUARTERS = 64 }; /* codes from here on are 4, 5, 6 and 7 quarters of powers of two */

int64_t launch_facts_bound(unsigned code)
{
    unsigned n = code - QUARTERS;
    return code < QUARTERS ? (int64_t)code : (int64_t)(4 + n % 4) << n / 4 >> 2;
}

uint8_t launch_facts_code(int64_t extent, bool words)
{
    int64_t most = launch_facts_most(extent);
    unsigned code = QUARTERS;
    if (most || extent < 1 || extent > LAUNCH_MOST_WORDS || !words) return (uint8_t)most;
    while (launch_facts_bound(code) < extent) code++;
    return (uint8_t)code;
}

static void promise_scalar(Param *p, int sign)
{
    if (sign >= 0 && p->lo < 0) p->lo = 0;
    if (sign == 1 && p->lo <= 0) p->lo = dtype_is_float(p->type->dtype) ? DBL_TRUE_MIN : 1;
    if (sign == SIGN_SMALL && p->hi >= FITS32_EXTENT) p->hi = FITS32_EXTENT - 1;
}

/* stored: the type of the elements in memory. */
static void promise_tensor(Func *f, Param *p, const ParamFacts *facts, DType stored)
{
    int size = dtype_bytes(stored), words = size < 16 ? 16 / size : 1;
    int grain = facts->grain > size ? facts->grain : size;
    p->align = facts->align > grain ? facts->align : grain;
    p->gaps = facts->gaps;
    for (int a = 0; a < p->type->rank; a++) {
        if (a == facts->unit_axis) {
            p->stride[a] = 1;
            ir_dim_promise(&f->dims[p->dims[a]], grain / size);
        } else p->stride_div[a] = facts->stride_mask >> a & 1 ? words : grain / size;
    }
    for (int last = p->type->rank - 1, a = last - 1; a >= last - facts->dense; a--) {
        p->stride[a] = f->dims[p->dims[a + 1]].extent * p->stride[a + 1];
        /* An axis of one element counts as a multiple, whatever its stride. */
        while (p->stride[a] % p->stride_div[a]) p->stride_div[a] /= 2;
    }
}

/* Dimension d of the kernel: those with a name come first, then those that follow from others. */
static void promise_dim(Func *f, const FrontKernel *k, int d, const LaunchFacts *facts)
{
    bool named = d < k->n_dims, one = d < 64 && facts->ones >> d & 1;
    int64_t most = facts->most && named ? facts->most[d] : 0;
    const char *wanted = named ? k->dims[d] : k->derived[d - k->n_dims];
    if (!facts->dim16[d] && !one && !most) return;
    for (int i = 0; i < f->n_dims; i++) {
        Dim *dim = &f->dims[i];
        const char *own = named ? dim->name : dim->text;
        if (!own || strcmp(own, wanted)) continue;
        if (one) dim->extent = dim->div = 1;
        else if (facts->dim16[d]) ir_dim_promise(dim, 16);
        if (dim->extent < 0) dim->most = most;
    }
}

void launch_facts_promise(Func *f, const FrontKernel *k, const LaunchFacts *facts, const DType *converted)
{
    for (int i = 0; i < f->n_params && i < facts->n_params; i++) {
        Param *p = &f->params[i];
        bool other = converted && converted[i] != DT_COUNT;
        if (p->kind == PARAM_SCALAR) promise_scalar(p, facts->params[i].sign);
        else promise_tensor(f, p, &facts->params[i], other ? converted[i] : p->type->dtype);
    }
    for (int d = 0; d < facts->n_dims && d < k->n_dims + k->n_derived; d++) promise_dim(f, k, d, facts);
    f->fits32 = facts->fits32;
    f->extents31 = facts->extents31;
}
