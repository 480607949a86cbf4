/* emit_indexed.c: gathers, scatters, atomics. */
#include "backends/gpu/emit.h"

static const char *indexed_value(Emit *e, const Value *v, const Layout *l, const char *i)
{ return v->type->kind == TYPE_SCALAR ? name_of(e, v) : element(e, v, l, i); }

/* Is an index in range whatever the tensor's extent may be? */
static bool in_range(Emit *e, const MemParts *m, int axis)
{
    if (!e->ranges) e->ranges = ranges_new(e->f);
    RangeInfo at = range_of(e->ranges, m->idx[axis]);
    return at.lo >= 0 && at.hi < range_of_dim(e->f, e->f->params[m->param].dims[axis]).lo;
}

void emit_indexed(Emit *e, Instr *i)
{
    MemParts m;
    ir_mem_parts(i, &m);
    keep_order(e, i);
    DType d = m.tensor->type->dtype;
    const Value *shape = m.result ? m.result : m.values[0];
    const Layout *l = NULL;
    if (shape->type->kind == TYPE_TILE) {
        const Value *tiles[TILE_MAX_RANK + 3] = { shape, m.mask, m.values[1] };
        for (int a = 0; a < m.rank; a++) tiles[3 + a] = m.idx[a];
        for (int k = 0; !l && k < m.rank + 3; k++)
            if (tiles[k] && tiles[k]->type->layout) l = layout_of(e, tiles[k]);
        if (!l) ir_fail(e->s, i->loc, "no layout for %s", op_info[i->op].name);
    }
    const char *base = slot_name(e, SLOT_DATA, m.param, 0, d), *result = NULL;
    bool atomic = i->op == OP_ATOMIC_RMW || i->op == OP_ATOMIC_CAS, writes = i->op != OP_GATHER;
    /* Where several threads hold an element, one of them does the atomic: the others get the old value
     * through shared memory. */
    const char *shared_base = NULL;
    if (atomic && l && m.result->uses && *unique_holder(e, l)) {
        int64_t at = scratch(e, type_elements(m.result->type) * dtype_bytes(d));
        shared_base = tmp(e, "sh");
        line(e, "const u32 %s = shared_base + SCRATCH + %lld;", shared_base, (long long)at);
        barrier(e);
    }
    if (m.result && !shared_base) {
        if (l) result = declare_tile(e, m.result);
        else {
            result = name_of(e, m.result);
            line(e, "%s %s = %s;", ctype(d), result, pad_value(e, m.pad, d));
            e->storage[m.result->id] = result;
        }
    }
    int64_t sem = ir_attr_int(i, ATTR_SEM, SEM_RELAXED);
    if (atomic && (sem == SEM_RELEASE || sem == SEM_ACQ_REL)) {
        memory_barrier(e);
        line(e, "%s();", use(e, "fence_device"));
    }
    int regs = l ? (int)layout_regs(l) : 1, pw = m.result && l ? per_word(d) : 1,
        groups = (regs + pw - 1) / pw;
    bool loop = regs % pw == 0 && groups > 1;
    const char *holder = !writes ? "" : l ? unique_holder(e, l) : "tid == 0";
    if (loop) begin_unrolled(e, "v", groups);
    for (int g = 0; g < (loop ? 1 : groups); g++) {
        const char *xs[4];
        if (!loop) {
            line(e, "{");
            e->indent++;
        }
        int here = regs - g * pw < pw ? regs - g * pw : pw;
        for (int k = 0; k < here; k++) {
            const char *r = loop ? (pw == 1 ? "v" : str(e, "%d * v + %d", pw, k)) : str(e, "%d", g * pw + k),
                       *cond = "", *at = NULL, *c[TILE_MAX_RANK];
            if (l) {
                coords_at(e, l, r, c);
                cond = tile_condition(e, l, c);
            }
            cond = both_conditions(e, holder, cond);
            if (m.mask) cond = both_conditions(e, cond, indexed_value(e, m.mask, l, r));
            const char *p = tmp(e, "p"), *x = tmp(e, "x");
            for (int a = 0; a < m.rank; a++) {
                const char *ix = str(e, "(i64)%s", indexed_value(e, m.idx[a], l, r));
                if (!in_range(e, &m, a))
                    cond = both_conditions(
                        e, cond, str(e, "(u64)(%s) < (u64)%s", ix, window_extent(e, m.param, a)));
                const char *t = window_times(e, ix, window_stride(e, m.param, a));
                at = at ? str(e, "%s + %s", at, t) : t;
            }
            line(e, "%s %s = %s;", ctype(d), x, pad_value(e, m.pad, d));
            line(e, *cond ? "if (%s) {" : "{", cond);
            e->indent++;
            line(e, "%s%s *const %s = %s + %s;", e->f->params[m.param].kind == PARAM_IN ? "const " : "",
                pointee(d), p, base, at);
            const char *v0 = m.values[0] ? indexed_value(e, m.values[0], l, r) : NULL;
            if (i->op == OP_GATHER) line(e, "%s = %s(%s);", x, use(e, str(e, "ldg_%s", dtype_name(d))), p);
            else if (i->op == OP_SCATTER)
                line(e, "%s(%s, %s);", use(e, str(e, "stg_%s", dtype_name(d))), p, v0);
            else if (i->op == OP_ATOMIC_RMW)
                line(e, "%s = %s(%s, %s);", x,
                    use(e, str(e, "atomic_%s_%s", attr_enum_name(ATTR_RMW, ir_attr_int(i, ATTR_RMW, 0)),
                               dtype_name(d))),
                    p, v0);
            else
                line(e, "%s = %s(%s, %s, %s);", x, use(e, str(e, "atomic_cas_%s", dtype_name(d))), p, v0,
                    indexed_value(e, m.values[1], l, r));
            end_block(e);
            if (shared_base) {
                const char *mine = both_conditions(e, holder, tile_condition(e, l, c));
                line(e, "%s%s%s%s(%s + (%s) * %d, %s);", *mine ? "if (" : "", mine, *mine ? ") " : "",
                    use(e, str(e, "sts_%s", dtype_name(d))), shared_base, row_major(e, c, m.result->type),
                    dtype_bytes(d), x);
            }
            xs[k] = x;
        }
        if (shared_base) {
        } else if (m.result && l)
            line(e, "%s[%s] = %s;", result, loop ? "v" : str(e, "%d", g), pack_expr(e, d, xs, here));
        else if (m.result) line(e, "%s = %s;", result, xs[0]);
        if (!loop) end_block(e);
    }
    if (loop) end_block(e);
    if (shared_base) {
        barrier(e);
        fill_elements(e, m.result, shared_base, row_major, m.result->type);
    }
    if (atomic && !l && m.result && m.result->uses) {
        /* one thread did it: everyone gets the old value */
        int64_t at = scratch(e, 8);
        barrier(e);
        const char *cell = shared_pointer(e, ctype(d), at);
        line(e, "if (tid == 0) *%s = %s;", cell, result);
        barrier(e);
        line(e, "%s = *%s;", result, cell);
    }
    if (atomic && (sem == SEM_ACQUIRE || sem == SEM_ACQ_REL)) {
        line(e, "%s();", use(e, "fence_device"));
        memory_barrier(e);
    }
}
