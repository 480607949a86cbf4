/* interp_mem.c: the interpreter's memory operations. Every access is checked against the tensor's shape. See
 * interp.h. */
#include "ir/interp/interp_impl.h"
#include <math.h>

/* Address of X[idx...], or NULL out of range. An index that left 64 bits is out of range. */
static char *element(Interp *in, int param, const int64_t *idx, bool in_range)
{
    const InterpArg *a = &in->args[param];
    const Type *t = in->kernel->params[param].type;
    int64_t offset = 0;
    if (!in_range) return NULL;
    for (int k = 0; k < t->rank; k++) {
        if (idx[k] < 0 || idx[k] >= a->shape[k]) return NULL;
        offset += idx[k] * a->stride[k];
    }
    return (char *)a->data + offset * dtype_bytes(t->dtype);
}

static void report(Interp *in, const Instr *i, int param, const char *p)
{
    if (in->opt->on_access)
        in->opt->on_access(in->opt->on_access_user, i, param, p - (const char *)in->args[param].data);
}

/* --- windows ----------------------------------------------------------------------------------------- */

typedef struct Window {
    int rank, box_rank; /* of the tensor; of the value (dropped axes left out) */
    int64_t off[TILE_MAX_RANK], step[TILE_MAX_RANK];
    int64_t box[TILE_MAX_RANK]; /* the value's extents, permuted */
    int axis[TILE_MAX_RANK];    /* tensor axis of the value's axis */
} Window;

static Window window_of(Interp *in, const Instr *i, const MemParts *m)
{
    Window w = { .rank = m->rank };
    const Attr *e = ir_attr(i, ATTR_EXTENTS), *st = ir_attr(i, ATTR_STEPS), *o = ir_attr(i, ATTR_ORDER);
    int axes[TILE_MAX_RANK], n = 0;
    for (int a = 0; a < m->rank; a++) {
        w.off[a] = interp_value(in, m->idx[a])->i;
        w.step[a] = st ? st->v[a] : 1;
        if (e->v[a] != -1) axes[n++] = a;
    }
    w.box_rank = n;
    for (int k = 0; k < n; k++) {
        w.axis[k] = axes[o ? o->v[k] : k];
        w.box[k] = e->v[w.axis[k]];
    }
    return w;
}

/* The tensor's indices of the value's element c; false when one leaves 64 bits. */
static bool window_index(const Window *w, const int64_t *c, int64_t *idx)
{
    bool ok = true;
    for (int a = 0; a < w->rank; a++) idx[a] = w->off[a];
    for (int k = 0; k < w->box_rank; k++) {
        int64_t by;
        int a = w->axis[k];
        ok &=
            !__builtin_mul_overflow(c[k], w->step[a], &by) && !__builtin_add_overflow(w->off[a], by, &idx[a]);
    }
    return ok;
}

/* Whether the element that is out of range lies so along an axis that is marked as proven in range. */
static bool refutes(const Interp *in, const Instr *i, const MemParts *m, const int64_t *idx)
{
    const Attr *inside = ir_attr(i, ATTR_INSIDE);
    bool refuted = ir_attr_int(i, ATTR_MASKED, 1) == 0;
    for (int a = 0; inside && a < m->rank; a++)
        refuted |= inside->v[a] && (idx[a] < 0 || idx[a] >= in->args[m->param].shape[a]);
    return refuted;
}

static void check_nan(Interp *in, const Instr *i, DType d, Scalar v, int param)
{
    if (in->opt->check && dtype_is_float(d) && isnan(v.f))
        interp_stop(in, i->loc, "NaN stored to %s by program %lld of @%s", in->kernel->params[param].name,
            (long long)in->program, in->kernel->name);
}

static Scalar rmw(int64_t how, DType d, Scalar old, Scalar v)
{
    static const Op ops[] = { [RMW_ADD] = OP_ADD,
        [RMW_MAX] = OP_MAX,
        [RMW_MIN] = OP_MIN,
        [RMW_AND] = OP_AND,
        [RMW_OR] = OP_OR,
        [RMW_XOR] = OP_XOR };
    Scalar x[3] = { old, v, v }, out = v;
    if (how != RMW_EXCH) scalar_op(ops[how], d, x, &out);
    return out;
}

static void run_window(Interp *in, const Instr *i, const MemParts *m)
{
    Window w = window_of(in, i, m);
    DType d = m->tensor->type->dtype;
    bool load = i->op == OP_LOAD;
    Scalar pad = m->pad ? *interp_value(in, m->pad) : dtype_is_float(d) ? scalar_float(0) : scalar_int(0);
    Scalar *v = interp_value(in, load ? m->result : m->values[0]);
    int64_t c[TILE_MAX_RANK] = { 0 }, idx[TILE_MAX_RANK];
    interp_count(in, i, type_elements((load ? m->result : m->values[0])->type));
    do {
        char *p = element(in, m->param, idx, window_index(&w, c, idx));
        if (!p && refutes(in, i, m, idx))
            interp_stop(in, i->loc,
                "%s of %s by program %lld of @%s is out of range, but marked as proven in range",
                op_info[i->op].name, in->kernel->params[m->param].name, (long long)in->program,
                in->kernel->name);
        if (p) report(in, i, m->param, p);
        if (load) *v = p ? scalar_load(d, p) : pad;
        else if (p) {
            check_nan(in, i, d, *v, m->param);
            scalar_store(d, ir_adds(i) ? rmw(RMW_ADD, d, scalar_load(d, p), *v) : *v, p);
        }
        v++;
    } while (interp_next(w.box_rank, w.box, c));
}

/* --- indexed ----------------------------------------------------------------------------------------- */

static int64_t as_index(DType d, int64_t i, bool *ok)
{
    if (d == DT_U64 && i < 0) *ok = false;
    return i;
}

static void run_indexed(Interp *in, const Instr *i, const MemParts *m)
{
    const Param *q = &in->kernel->params[m->param];
    DType d = m->tensor->type->dtype;
    Scalar zero = dtype_is_float(d) ? scalar_float(0) : scalar_int(0),
           pad = m->pad ? *interp_value(in, m->pad) : zero;
    Scalar *out = m->result ? interp_value(in, m->result) : NULL, *idx[TILE_MAX_RANK];
    const Scalar *mask = m->mask ? interp_value(in, m->mask) : NULL, *v[2] = { NULL, NULL };
    int64_t n = type_elements(m->idx[0]->type);
    for (int a = 0; a < m->rank; a++) idx[a] = interp_value(in, m->idx[a]);
    for (int k = 0; k < 2; k++)
        if (m->values[k]) v[k] = interp_value(in, m->values[k]);
    interp_count(in, i, n);
    for (int64_t k = 0; k < n; k++) {
        int64_t at[TILE_MAX_RANK];
        bool ok = true, on = !mask || mask[k].i;
        for (int a = 0; a < m->rank; a++) at[a] = as_index(m->idx[a]->type->dtype, idx[a][k].i, &ok);
        char *p = on ? element(in, m->param, at, ok) : NULL;
        if (on && !p && in->opt->check && i->op == OP_GATHER)
            interp_stop(in, i->loc, "%s of %s by program %lld of @%s is out of range", op_info[i->op].name,
                q->name, (long long)in->program, in->kernel->name);
        if (!p) {
            if (out) out[k] = i->op == OP_GATHER ? pad : zero;
            continue;
        }
        report(in, i, m->param, p);
        Scalar old = scalar_load(d, p);
        if (out) out[k] = old;
        if (i->op == OP_GATHER) continue;
        if (i->op == OP_ATOMIC_CAS) {
            if (scalar_bits(d, old) == scalar_bits(d, v[0][k])) scalar_store(d, v[1][k], p);
            continue;
        }
        Scalar x = i->op == OP_ATOMIC_RMW ? rmw(ir_attr_int(i, ATTR_RMW, RMW_ADD), d, old, v[0][k]) : v[0][k];
        if (i->op == OP_SCATTER) check_nan(in, i, d, x, m->param);
        scalar_store(d, x, p);
    }
}

bool interp_mem_op(Interp *in, const Instr *i)
{
    MemParts m;
    if (!ir_mem_parts(i, &m)) return false;
    if (i->op == OP_LOAD || i->op == OP_STORE) run_window(in, i, &m);
    else run_indexed(in, i, &m);
    return true;
}
