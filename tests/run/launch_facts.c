/* launch_facts.c: see launch_facts.h. */
#include "launch_facts.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool launch_read(Session *s, const char *path, Text *t)
{
    FILE *f = fopen(path, "rb");
    char chunk[4096];
    if (!f) return false;
    text_init(t, &s->arena);
    text_puts(t, "");
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;) text_write(t, chunk, n);
    fclose(f);
    return true;
}

uint32_t launch_import(void *unused, Session *s, uint32_t from, const char *path)
{
    const char *own = diag_source(s, from)->name, *slash = strrchr(own, '/');
    const char *full =
        *path == '/' || !slash ? path : arena_printf(&s->arena, "%.*s/%s", (int)(slash - own), own, path);
    for (uint32_t i = 1; i < s->sources.len; i++)
        if (!strcmp(s->sources.data[i].name, full)) return i;
    Text t;
    if (!launch_read(s, full, &t)) return 0;
    return diag_add_source(s, full, NULL, t.data, t.len);
}

int launch_bind(Session *s, const FrontKernel *k, const Launch *l, FrontBinding *out)
{
    int n = 0;
    for (int i = 0; i < l->n_consts; i++) {
        const char *why = NULL;
        out[n].name = session_intern(s, l->consts[i].name, strlen(l->consts[i].name));
        if (frontend_parse_value(s, k, out[n].name, l->consts[i].value, &out[n].value, &why)) n++;
        else diag_error(s, k->loc, "%s=%s: %s", l->consts[i].name, l->consts[i].value, why);
    }
    for (int i = 0, arg = 0; i < k->n_params && arg < l->n_args; i++) {
        if (k->params[i].kind == FRONT_CONST || k->params[i].kind == FRONT_CONST_TYPE) continue;
        bool given = l->args[arg++].tensor;
        if (k->params[i].optional)
            out[n++] = (FrontBinding){ k->params[i].name, { FRONT_BOOL, { .b = given } } };
    }
    for (int key = 0; key < k->n_keys; key++)
        for (int i = 0, arg = 0; i < k->n_params && arg < l->n_args; i++) {
            const FrontParam *p = &k->params[i];
            if (p->kind == FRONT_CONST || p->kind == FRONT_CONST_TYPE) continue;
            const Arg *a = &l->args[arg++];
            for (int axis = 0; a->tensor && axis < p->rank; axis++)
                if (p->dims[axis].name && !strcmp(p->dims[axis].name, k->keys[key]))
                    out[n++] = (FrontBinding){ k->keys[key],
                        { FRONT_INT, { .i = a->tensor->shape[a->drop + axis] } } };
        }
    return n;
}

static int64_t power_of_two_in(uint64_t v, int64_t most)
{
    int64_t d = 1;
    while (d < most && v % (uint64_t)(2 * d) == 0) d *= 2;
    return d;
}

int64_t launch_stride(const Tensor *t, int axis)
{
    int size = (int)ref_type_size(t->type);
    if (t->shape[axis] > 1) return t->stride[axis];
    return axis == t->rank - 1 ? 1 : size < 16 ? 16 / size : 1;
}

/* As the runtime: extents from 1 to below 2^28, offsets in bytes from 0 to below 2^31. */
static bool fits_in_32_bits(const Launch *l)
{
    for (int i = 0; i < l->n_args; i++) {
        const Tensor *t = l->args[i].tensor;
        int64_t reach = 0;
        for (int axis = l->args[i].drop; t && axis < t->rank; axis++) {
            int64_t stride = launch_stride(t, axis);
            if (t->shape[axis] < 1 || t->shape[axis] >= FITS32_EXTENT || stride < 0) return false;
            reach += (t->shape[axis] - 1) * stride;
        }
        if (t && reach * (int64_t)ref_type_size(t->type) > INT32_MAX) return false;
    }
    return true;
}

static bool below_2_31(const Launch *l)
{
    for (int i = 0; i < l->n_args; i++)
        for (int axis = l->args[i].drop; l->args[i].tensor && axis < l->args[i].tensor->rank; axis++)
            if (l->args[i].tensor->shape[axis] > INT32_MAX) return false;
    return true;
}

/* As the runtime (set_facts of runtime/compile/compile.c): numbers from 0 on, floats above 0, and indices
 * below the bound of extents are classes of scalars. */
static void scalar_facts(Param *p, const ScalarArg *s, bool exact)
{
    /* A range of doubles: beyond 2^53 it would leave out the integer itself. */
    const double v = s->value;
    const bool real = ref_type_is_float(s->type), held = real || fabs(v) < 0x1p53;
    if (exact && held) p->lo = p->hi = v;
    if (exact || !(v >= 0 && v < HUGE_VAL)) return;
    if (p->type->dtype == DT_U64) return; /* its type says so; the interpreter holds it as a signed word */
    if (p->lo < 0) p->lo = 0;
    if (real && v > 0 && p->lo <= 0) p->lo = DBL_TRUE_MIN;
    if (p->type->dtype == DT_INDEX && v < FITS32_EXTENT) p->hi = FITS32_EXTENT - 1;
}

static void find_atomics(void *user, Instr *i)
{
    MemParts m;
    if (i->op == OP_ATOMIC_RMW && ir_mem_parts(i, &m) && m.param < 64) *(uint64_t *)user |= 1ull << m.param;
}

/* As the runtime: small tensors that atomics change have bounds of their extents. */
static void bound_words(Func *f, const Launch *l)
{
    uint64_t params = 0;
    ir_walk(f->body, find_atomics, &params);
    for (int i = 0; i < f->n_params && i < l->n_args && i < 64; i++) {
        const Arg *a = &l->args[i];
        if (!(params >> i & 1) || !a->tensor || a->tensor->count < 1 || a->tensor->count > 1 << 16) continue;
        for (int axis = 0; axis < a->tensor->rank - a->drop; axis++) {
            Dim *d = &f->dims[f->params[i].dims[axis]];
            int64_t most = 4, extent = a->tensor->shape[a->drop + axis];
            while (2 * most <= extent) most *= 2;
            while (most < extent) most += most / 4;
            if (d->extent < 0) d->most = most;
        }
    }
}

/* As the runtime (KernelParam.dense): strides that follow from extents which the code knows. */
static void dense_facts(const Func *f, Param *p, const Tensor *t, int drop)
{
    int rank = t->rank - drop, from = rank - 1;
    int64_t stride[TILE_MAX_RANK];
    for (int a = 0; a < rank; a++) stride[a] = launch_stride(t, drop + a);
    while (from > 0 && f->dims[p->dims[from]].name && f->dims[p->dims[from - 1]].name &&
           f->dims[p->dims[from]].extent > 0 && f->dims[p->dims[from - 1]].extent > 0)
        from--;
    if (rank < 2 || stride[rank - 1] != 1) return;
    for (int a = rank - 2; a >= from; a--)
        if (stride[a] != t->shape[drop + a + 1] * stride[a + 1]) return;
    for (int a = rank - 2; a >= from; a--) {
        p->stride[a] = stride[a];
        p->stride_div[a] = power_of_two_in((uint64_t)stride[a], p->stride_div[a]);
    }
}

void launch_facts(Func *f, const Launch *l, bool exact)
{
    f->fits32 = fits_in_32_bits(l);
    f->extents31 = below_2_31(l);
    for (int i = 0; i < f->n_params && i < l->n_args; i++) {
        const Arg *a = &l->args[i];
        const Tensor *t = a->tensor;
        Param *p = &f->params[i];
        if (!t && !a->scalar) continue;
        if (!t) {
            scalar_facts(p, a->scalar, exact);
            continue;
        }
        /* As the runtime: nothing is known of the address of a tensor without elements. */
        p->align = t->count ? power_of_two_in((uintptr_t)(t->base + t->offset), 16)
                            : (int64_t)ref_type_size(t->type);
        for (int axis = 0; axis < t->rank - a->drop; axis++) {
            int64_t stride = launch_stride(t, a->drop + axis), extent = t->shape[a->drop + axis];
            Dim *d = &f->dims[p->dims[axis]];
            if (exact || stride == 1) p->stride[axis] = stride;
            p->stride_div[axis] = stride < 0 ? 1 : stride ? power_of_two_in((uint64_t)stride, 16) : 16;
            ir_dim_promise(d, extent ? power_of_two_in((uint64_t)extent, 16) : 1);
            if (exact) d->extent = extent;
        }
        if (!ir_holds(f->body, OP_MMA)) dense_facts(f, p, t, a->drop);
        const int last = t->rank - 1, size = (int)ref_type_size(t->type);
        if (t->rank - a->drop > 1 && launch_stride(t, last) == 1)
            p->gaps = ir_gaps_matter(t->shape[last] * size, launch_stride(t, last - 1) * size, size);
    }
    if (!exact) bound_words(f, l);
}
