/* windows.c: see windows.h. */
#include "passes/kernel/layout/windows.h"
#include <string.h>

Value *window_offset_base(Value *v, int64_t *constant)
{
    int64_t c;
    for (*constant = 0; v->def; v = ir_operand(v->def, 0)) {
        if (ir_is_const(v, &c)) {
            *constant += c;
            return NULL;
        }
        bool sum = v->def->op == OP_ADD || v->def->op == OP_SUB;
        if (!sum || !ir_is_const(ir_operand(v->def, 1), &c) || c > INT32_MAX || c < -INT32_MAX) break;
        *constant += v->def->op == OP_ADD ? c : -c;
    }
    return v;
}

bool window_same_offset(Value *a, Value *b)
{
    int64_t x, y;
    return a == b || (ir_is_const(a, &x) && ir_is_const(b, &y) && x == y);
}

Value *window_offset_at(Builder *b, DType like, Value *base, int64_t at)
{
    if (!base) return ir_const_int(b, like, at);
    return at ? ir_bin(b, OP_ADD, base, ir_const_int(b, like, at)) : base;
}

bool window_has_room(
    const Func *f, Ranges **ranges, DType d, const Value *base, int64_t constant, int64_t most)
{
    if (dtype_bytes(d) > 4) return true;
    if (base && !*ranges) *ranges = ranges_new(f);
    RangeInfo r = base ? range_of(*ranges, base) : (RangeInfo){ 0, 0, 1 };
    most += constant < 0 ? -constant : constant;
    return r.lo >= INT32_MIN + most && r.hi <= INT32_MAX - most;
}

bool window_beside(const Instr *a, const Instr *b, int unit)
{
    MemParts m, n;
    if (!ir_mem_parts(a, &m) || !ir_mem_parts(b, &n)) return false;
    bool same =
        m.param == n.param && m.pad == n.pad && m.result->type == n.result->type && ir_same_window(a, b);
    for (int k = 0; k < m.rank && same; k++) same = k == unit || window_same_offset(m.idx[k], n.idx[k]);
    return same;
}

int64_t window_apart(const Instr *a, const Instr *b, int k)
{
    MemParts m, n;
    int64_t from, to;
    if (a == b || !window_beside(a, b, k) || !ir_mem_parts(a, &m) || !ir_mem_parts(b, &n)) return 0;
    if (m.idx[k]->type->kind != TYPE_SCALAR || n.idx[k]->type->kind != TYPE_SCALAR) return 0;
    if (window_offset_base(m.idx[k], &from) != window_offset_base(n.idx[k], &to)) return 0;
    return to > from ? to - from : from - to;
}

bool window_tile_axis(const Instr *load, int k, int *axis)
{
    const Attr *e = ir_attr(load, ATTR_EXTENTS), *o = ir_attr(load, ATTR_ORDER);
    *axis = 0;
    if (!e || e->v[k] == -1) return false;
    for (int a = 0; a < k; a++) *axis += e->v[a] != -1;
    for (int i = 0; o && i < o->n; i++)
        if (o->v[i] == *axis) {
            *axis = i;
            break;
        }
    return true;
}

int64_t window_record(const Func *f, const Instr *i, int axis)
{
    MemParts m;
    int64_t n = 1, at;
    const Attr *e = ir_attr(i, ATTR_EXTENTS), *steps = ir_attr(i, ATTR_STEPS);
    if (!e || !ir_mem_parts(i, &m) || ir_attr(i, ATTR_ORDER) || !ir_last_is_unit(f, &m)) return 0;
    for (int a = axis + 1; a < m.rank; a++) {
        int64_t extent = f->dims[f->params[m.param].dims[a]].extent;
        if (extent < 1 || e->v[a] != extent || (steps && steps->v[a] != 1) || !ir_is_const(m.idx[a], &at) ||
            at)
            return 0;
        n *= extent;
    }
    return n;
}

bool window_has_runs(const Layout *l, int axis, int run)
{
    int32_t c[TILE_MAX_RANK] = { 0 }, from[TILE_MAX_RANK] = { 0 };
    uint32_t regs = layout_regs(l);
    bool runs = l->separable && regs % (uint32_t)run == 0;
    for (uint32_t r = 0; r < regs && runs; r++) {
        layout_element(l, r, 0, 0, 0, c);
        if (r % (uint32_t)run == 0) memcpy(from, c, sizeof from);
        for (int d = 0; d < l->rank; d++)
            runs = runs && c[d] == from[d] + (d == axis ? (int32_t)(r % (uint32_t)run) : 0);
        runs = runs && from[axis] % run == 0;
    }
    /* Lanes and warps add their parts, which are multiples of a run together where each of them is. */
    for (uint32_t k = 0; k < layout_lanes(l) && runs; k++) {
        layout_element(l, 0, k, 0, 0, c);
        runs = c[axis] % run == 0;
    }
    for (uint32_t k = 0; k < layout_warps(l) && runs; k++) {
        layout_element(l, 0, 0, k, 0, c);
        runs = c[axis] % run == 0;
    }
    return runs;
}

/* The attribute with `x` for its axis `unit`. */
static Attr with_axis(Session *s, Attr a, int unit, int64_t x)
{
    int64_t *v = arena_array(&s->arena, int64_t, (size_t)a.n);
    memcpy(v, a.v, (size_t)a.n * sizeof *v);
    v[unit] = x;
    return a_ints(a.key, v, a.n);
}

Attrs window_joined_attrs(Session *s, const Instr *low, int unit, int64_t extent)
{
    Attr *to = arena_array(&s->arena, Attr, (size_t)low->n_attrs);
    int n = 0;
    for (int k = 0; k < low->n_attrs; k++) {
        Attr a = low->attrs[k];
        if (a.key == ATTR_MASKED || a.key == ATTR_INSIDE) continue;
        if (a.key == ATTR_EXTENTS) a = with_axis(s, a, unit, extent);
        if (a.key == ATTR_STEPS) {
            bool others = false;
            for (int d = 0; d < a.n; d++) others |= d != unit && a.v[d] != 1;
            if (!others) continue;
            a = with_axis(s, a, unit, 1);
        }
        to[n++] = a;
    }
    return (Attrs){ to, n };
}
