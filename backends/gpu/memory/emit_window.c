/* emit_window.c: where the elements of a window lie: pointers, offsets, which coordinates are in range, how
 * wide an access may be. */
#include "backends/gpu/emit.h"
#include "passes/kernel/layout/windows.h"

const char *pointee(DType d)
{
    switch (d) {
    case DT_BOOL:
    case DT_U8:
    case DT_F8E4M3:
    case DT_F8E5M2: return "u8";
    case DT_I8: return "i8";
    case DT_I16: return "i16";
    case DT_U16:
    case DT_F16:
    case DT_BF16: return "u16";
    case DT_I32: return "i32";
    case DT_U32: return "u32";
    case DT_I64:
    case DT_INDEX: return "i64";
    case DT_U64: return "u64";
    case DT_F32: return "float";
    case DT_F64: return "double";
    case DT_COUNT: break;
    }
    return "void";
}

static int64_t gcd64(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a < 0 ? -a : a;
}

static bool is_step_loop(const void *unused, const Instr *i)
{
    (void)unused;
    return (i->op == OP_FOR || i->op == OP_WHILE) && !ir_over_programs(i);
}

bool window_steps(const Func *f) { return ir_any_in(f->body, is_step_loop, NULL); }

/* Whether the accesses to rows that stand beside the instruction have sums of their own (window_place). In
 * front of loops and behind them there is little to gain. Where a loop has many, the parts of these sums that
 * its steps share would stay in registers. */
static bool sums_in_rows(const Emit *e, const Instr *i)
{
    enum { MANY = 16 };
    const Instr *loop = i->block->parent;
    int n = 0;
    while (loop && !is_step_loop(NULL, loop)) loop = loop->block->parent;
    if (!loop && e->steps) return false;
    for (const Instr *x = i->block->first; x && n <= MANY; x = x->next)
        n += x->op == OP_LOAD || x->op == OP_STORE;
    return n <= MANY;
}

/* The tensor and the offsets, which asynchronous copies have in other places than loads and stores. */
static void window_operands(const Instr *i, Window *w)
{
    MemParts m;
    if (kernel_copies(i->op)) {
        const Value *t = ir_operand(i, 1);
        w->param = t->index;
        w->rank = t->type->rank;
        for (int a = 0; a < w->rank; a++) w->offset[a] = ir_operand(i, 2 + a);
        return;
    }
    ir_mem_parts(i, &m);
    w->param = m.param;
    w->rank = m.rank;
    for (int a = 0; a < w->rank; a++) w->offset[a] = m.idx[a];
}

/* The axis of the tile in which axis `at` of the window lies, in the order that the access gives. */
static int ordered_axis(const Attr *order, int at)
{
    for (int k = 0; order && k < order->n; k++)
        if (order->v[k] == at) return k;
    return at;
}

/* A number of bytes that divides the address of every row's start. */
static int64_t window_alignment(const Emit *e, const Param *p, const Window *w)
{
    int64_t align = p->align;
    for (int a = 0; a < w->rank; a++) {
        int64_t d = ir_row_step(e->f, p, a);
        /* Along other axes, the address changes by whole strides whatever the offset is. Along the unit axis
         * it changes by the offset. */
        if (a == w->unit) d = kernel_divisor(e->f, w->offset[a]);
        if (d) align = gcd64(align, d * dtype_bytes(p->type->dtype));
    }
    return align;
}

void window_of(Emit *e, const Instr *i, Window *w)
{
    *w = (Window){ .unit = -1, .unit_tile = -1 };
    window_operands(i, w);
    const Param *p = &e->f->params[w->param];
    const Attr *ext = ir_attr(i, ATTR_EXTENTS), *st = ir_attr(i, ATTR_STEPS), *o = ir_attr(i, ATTR_ORDER),
               *inside = ir_attr(i, ATTR_INSIDE);
    w->masked = ir_attr_int(i, ATTR_MASKED, 1);
    w->sums = !e->multiplies && sums_in_rows(e, i);
    w->cache = ir_attr_int(i, ATTR_CACHE, CACHE_DEFAULT);
    for (int a = 0, at = 0; a < w->rank; a++) {
        w->step[a] = st ? st->v[a] : 1;
        if (w->offset[a]->type->kind == TYPE_TILE) w->picked |= 1u << a;
        if (p->stride[a] == 1) w->unit = a;
        if (inside && inside->v[a]) w->inside |= 1u << a;
        w->tile_axis[a] = ext->v[a] == -1 ? -1 : ordered_axis(o, at++);
    }
    if (w->unit >= 0) w->unit_tile = w->tile_axis[w->unit];
    w->align = window_alignment(e, p, w);
}

static bool is_const_value(const Value *v, int64_t *c) { return ir_is_const(v, c); }

const char *window_stride(Emit *e, int param, int axis)
{
    int64_t s = e->f->params[param].stride[axis];
    return s != FACT_UNKNOWN ? str(e, "%lld", (long long)s)
                             : slot_name(e, SLOT_STRIDE, param, axis, DT_INDEX);
}

const char *window_times(Emit *e, const char *x, int param, int axis)
{
    int64_t stride = e->f->params[param].stride[axis];
    if (stride == 1) return x;
    return stride ? str(e, "%s * %s", x, window_stride(e, param, axis)) : "0";
}

/* The offset of the window's first element as a sum of products of 32 bits, which fit where `fits32` promises
 * it of the offsets of elements. NULL: it is 0, or has 64 bits. Kernels that multiply matrices keep pointers,
 * which their loops carry; AMD's loads take a buffer and a 32-bit offset. */
static const char *small_offset(Emit *e, const Window *w)
{
    const char *sum = NULL;
    int64_t c;
    if (!e->f->fits32 || e->multiplies || is_hip(e)) return NULL;
    for (int a = 0; a < w->rank; a++) {
        const int64_t stride = e->f->params[w->param].stride[a];
        const bool known = is_const_value(w->offset[a], &c);
        if (w->picked >> a & 1 || !stride || (known && !c)) continue;
        const char *x = known ? str(e, "%lld", (long long)c) : str(e, "(i32)%s", name_of(e, w->offset[a]));
        if (stride != 1) x = str(e, "%s * (i32)%s", x, window_stride(e, w->param, a));
        sum = sum ? str(e, "%s + %s", sum, x) : x;
    }
    return sum;
}

const char *window_pointer(Emit *e, const Window *w)
{
    const Param *p = &e->f->params[w->param];
    const char *name = tmp(e, p->name), *x = slot_name(e, SLOT_DATA, w->param, 0, p->type->dtype),
               *small = small_offset(e, w);
    for (int a = 0; a < w->rank && !small; a++) {
        int64_t c;
        if (w->picked >> a & 1 || (is_const_value(w->offset[a], &c) && c == 0)) continue;
        const char *o = is_const_value(w->offset[a], &c) ? str(e, "%lldll", (long long)c)
                                                         : str(e, "(i64)%s", name_of(e, w->offset[a]));
        x = str(e, "%s + %s", x, window_times(e, o, w->param, a));
    }
    if (small) x = str(e, "%s + (%s)", x, small);
    line(e, "%s%s *const %s = %s;", p->kind == PARAM_IN ? "const " : "", pointee(p->type->dtype), name, x);
    return name;
}

/* Coordinate k of an axis times its stride. */
static const char *axis_distance(Emit *e, const Window *w, int a, const char *k)
{
    int64_t stride = e->f->params[w->param].stride[a];
    if (w->step[a] != 1) k = str(e, "%s * %lld", k, (long long)w->step[a]);
    if (stride == FACT_UNKNOWN && e->f->fits32)
        return str(e, "%s * (i32)%s", k, window_stride(e, w->param, a));
    return window_times(e, stride == 1 || e->f->fits32 ? k : str(e, "(i64)%s", k), w->param, a);
}

const char *window_index(Emit *e, const Window *w, Index *const *c)
{
    const char *x = NULL;
    for (int a = 0; a < w->rank; a++) {
        if (w->tile_axis[a] < 0 || w->picked >> a & 1 || index_is(c[w->tile_axis[a]], 0)) continue;
        const char *t = axis_distance(e, w, a, index_text(e, c[w->tile_axis[a]]));
        x = x ? str(e, "%s + %s", x, t) : t;
    }
    return x ? x : "0";
}

/* A number times the distance of an axis, added to a sum of 32 bits; NULL: an empty sum. */
static const char *small_sum(Emit *e, const char *sum, const Window *w, int a, const char *x)
{
    if (e->f->params[w->param].stride[a] != 1) x = str(e, "(%s) * (i32)%s", x, window_stride(e, w->param, a));
    return sum ? str(e, "%s + %s", sum, x) : x;
}

/* What register `reg` and the window's constant add to the coordinate along an axis of the tensor. "": 0. */
static const char *own_coordinate(
    Emit *e, const Window *w, int a, const Layout *l, Index *reg, int64_t constant)
{
    Index *own = w->tile_axis[a] >= 0 ? register_coord(e, l, w->tile_axis[a], reg) : index_number(e, 0);
    if (own->kind == INDEX_NUMBER) {
        constant += own->add * w->step[a];
        return constant ? str(e, "%lld", (long long)constant) : "";
    }
    const char *x = index_summand(e, own);
    if (w->step[a] != 1) x = str(e, "(%s) * %lld", x, (long long)w->step[a]);
    return constant ? str(e, "%s + %lld", x, (long long)constant) : x;
}

/* The offset of an element as a sum of 32 bits: what the program and the thread add, which windows that
 * overlap have in common, and then what the register and constants add. */
static const char *small_place(Emit *e, const Window *w, const Layout *l, Index *reg)
{
    const char *common = NULL, *own = NULL;
    for (int a = 0; a < w->rank; a++) {
        if (w->picked >> a & 1 || !e->f->params[w->param].stride[a]) continue;
        int64_t constant;
        Value *base = window_offset_base(w->offset[a], &constant);
        const char *x = base ? str(e, "(i32)%s", name_of(e, base)) : "";
        Index *thread = w->tile_axis[a] >= 0 ? thread_coord(e, l, w->tile_axis[a]) : index_number(e, 0);
        if (!index_is(thread, 0)) {
            const char *at = index_summand(e, thread);
            if (w->step[a] != 1) at = str(e, "(%s) * %lld", at, (long long)w->step[a]);
            x = *x ? str(e, "%s + %s", x, at) : at;
        }
        if (*x) common = small_sum(e, common, w, a, x);
        x = own_coordinate(e, w, a, l, reg, constant);
        if (*x) own = small_sum(e, own, w, a, x);
    }
    return common && own ? str(e, "%s + (%s)", common, own) : common ? common : own ? own : "0";
}

/* Where offsets have 32 bits, what the program, the thread and the register add is summed before it is added
 * to the tensor's address, if another axis than the contiguous one moves them or the access is one of a few
 * that are made often: one instruction widens the sum and adds it. A pointer to the window, to which the
 * thread's part is added, takes two sums of 64 bits. */
const char *window_place(Emit *e, const Window *w, const char *ptr, const Layout *l, Index *reg)
{
    const DType d = e->f->params[w->param].type->dtype;
    Index *c[TILE_MAX_RANK];
    bool rows = false;
    coords_at(e, l, reg, c);
    for (int a = 0; a < w->rank; a++)
        if (a != w->unit && w->tile_axis[a] >= 0 && !(w->picked >> a & 1))
            rows |= !index_is(c[w->tile_axis[a]], 0);
    const char *small = small_offset(e, w), *index = window_index(e, w, c);
    if (!small || !(rows || w->sums)) return str(e, "%s + %s", ptr, index);
    return str(e, "%s + (%s)", slot_name(e, SLOT_DATA, w->param, 0, d),
        rows ? small_place(e, w, l, reg) : str(e, "%s + %s", small, index));
}

const char *window_extent(Emit *e, int param, int axis)
{
    const Dim *d = &e->f->dims[e->f->params[param].dims[axis]];
    if (d->extent >= 0) return str(e, "%lld", (long long)d->extent);
    return slot_name(e, SLOT_EXTENT, 0, e->f->params[param].dims[axis], DT_INDEX);
}

/* The condition that coordinate k of axis a, counted from the start of the window, is in range. "" when that
 * is known. */
const char *axis_condition(Emit *e, const Window *w, int a, const char *k)
{
    if (w->step[a] != 1) k = str(e, "%s * %lld", k, (long long)w->step[a]);
    int64_t off;
    bool con = is_const_value(w->offset[a], &off);
    const Dim *d = &e->f->dims[e->f->params[w->param].dims[a]];
    if (con && w->tile_axis[a] < 0 && d->extent >= 0 && off >= 0 && off < d->extent) return "";
    /* Compare in 32 bits when offset and extent both fit. An extent that no launch key bounds may exceed 2^32
     * even if the offset cannot. */
    bool small = e->f->fits32 || (d->extent >= 0 && d->extent < INT32_MAX);
    bool narrow = small && (con ? off > -INT32_MAX / 2 && off < INT32_MAX / 2
                                : dtype_bits(w->offset[a]->type->dtype) == 32);
    const char *type = narrow ? "u32" : "u64", *from = con ? NULL : name_of(e, w->offset[a]);
    if (from && !narrow && dtype_bits(w->offset[a]->type->dtype) == 32) from = str(e, "(i64)%s", from);
    const char *pos = con && off == 0 ? k
                      : con           ? str(e, "%s + %lld", k, (long long)off)
                                      : str(e, "%s + %s", from, k);
    return str(e, "(%s)(%s) < (%s)%s", type, pos, type, window_extent(e, w->param, a));
}

const char *both_conditions(Emit *e, const char *a, const char *b)
{
    if (!*a) return b;
    return *b ? str(e, "%s " AND " %s", a, b) : a;
}

const char *tile_coord(Emit *e, const Window *w, int axis, Index *const *c)
{ return w->tile_axis[axis] < 0 ? "0" : index_text(e, c[w->tile_axis[axis]]); }

const char *window_condition(Emit *e, const Window *w, Index *const *c, bool skip_unit)
{
    const char *x = "";
    for (int a = 0; w->masked && a < w->rank; a++)
        if (!((w->picked | w->inside) >> a & 1) && (!skip_unit || a != w->unit))
            x = both_conditions(e, x, axis_condition(e, w, a, tile_coord(e, w, a, c)));
    return x;
}

const char *vector_condition(Emit *e, const Window *w, Index *const *c, int n)
{
    Index *last[TILE_MAX_RANK];
    const char *first_in = window_condition(e, w, c, false);
    memcpy(last, c, sizeof last);
    last[w->unit_tile] = index_plus(e, c[w->unit_tile], n - 1);
    return both_conditions(e, first_in, window_condition(e, w, last, false));
}

int vector_along(const Layout *l, int axis, DType d, int64_t align, LayoutVector *v)
{
    uint32_t bytes = (uint32_t)dtype_bytes(d);
    *v = (LayoutVector){ .n = 1, .bytes = bytes };
    if (axis < 0 || align < 4 || d == DT_BOOL) return 1;
    layout_vector(l, axis, bytes, align > 16 ? 16 : (uint32_t)align, 16, v);
    /* Elements that share a word of the register array must be adjacent in memory too. The words themselves
     * may be anywhere in the array. */
    uint32_t pw = (uint32_t)per_word(d);
    bool plain = (v->n & (v->n - 1)) == 0 && layout_regs(l) % v->n == 0 && v->n % pw == 0 && d != DT_BOOL;
    for (uint32_t k = 0; k < v->n; k++)
        plain = plain && v->reg[k] % pw == k % pw && v->reg[k] / pw == v->reg[k / pw * pw] / pw;
    if (!plain || v->bytes < 4) {
        v->n = 1;
        v->bytes = bytes;
    }
    return (int)v->n;
}

int window_vector(Emit *e, const Window *w, const Layout *l, DType d, LayoutVector *v)
{
    bool runs = w->unit_tile >= 0 && w->step[w->unit] == 1;
    return vector_along(l, runs ? w->unit_tile : -1, d, w->align, v);
}

Index *vector_base(Emit *e, const Layout *l, const LayoutVector *v, const char *counter, bool *follow)
{
    int n = (int)layout_regs(l), count = 0;
    int32_t *base = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int r = 0; r < n; r++)
        if (layout_vector_base(v, (uint32_t)r)) base[count++] = r;
    *follow = true;
    for (uint32_t k = 0; k < v->n; k++) *follow = *follow && v->reg[k] == k;
    return index_entry(e, base, count, index_variable(e, counter));
}

Index *vector_reg(Emit *e, const LayoutVector *v, Index *base, int k)
{ return v->reg[k] ? index_plus(e, base, (int)v->reg[k]) : base; }

bool window_whole_vectors(Emit *e, const Window *w, int n)
{
    if (!w->masked) return true;
    const Dim *d = &e->f->dims[e->f->params[w->param].dims[w->unit]];
    int64_t div = d->extent >= 0 ? d->extent : d->div;
    return div % n == 0 && kernel_divisor(e->f, w->offset[w->unit]) % n == 0;
}

const char *pad_value(Emit *e, const Value *pad, DType d)
{
    if (pad) return name_of(e, pad);
    return d == DT_BOOL ? "false" : "0";
}

const char *pad_word(Emit *e, const Value *pad, DType d)
{
    if (!pad) return "0";
    const char *x = name_of(e, pad), *xs[4] = { x, x, x, x };
    return pack_expr(e, d, xs, per_word(d));
}

const char *window_hint(const Emit *e, const Window *w, CachedAccess access)
{
    /* AMD's accesses have one cache policy, non-temporal. */
    if (is_hip(e)) return w->cache == CACHE_STREAM || w->cache == CACHE_BYPASS ? "_stream" : "";
    if (access == ACCESS_CP_ASYNC) return "";
    if (w->cache == CACHE_BYPASS) return access == ACCESS_VECTOR ? "_bypass" : "";
    return w->cache == CACHE_STREAM ? "_stream" : w->cache == CACHE_KEEP ? "_keep" : "";
}

const char *window_load_fn(Emit *e, const Window *w, int bytes)
{
    bool nc = e->f->params[w->param].kind == PARAM_IN;
    return use(e, str(e, "%s%s_b%d", nc ? "ldg_nc" : "ldg", window_hint(e, w, ACCESS_VECTOR), bytes * 8));
}

void coords_at(Emit *e, const Layout *l, Index *i, Index **c)
{
    for (int a = 0; a < l->rank; a++) c[a] = coord(e, l, a, i);
}

/* The coordinate along the axis is in the tile in all threads. */
static bool all_inside(const Layout *l, int axis, int reg, int32_t thread)
{
    int32_t c[TILE_MAX_RANK];
    layout_element(l, (uint32_t)reg, 0, 0, 0, c);
    return l->separable && thread + c[axis] < l->tile[axis];
}

/* The largest part of a coordinate that depends on the thread. */
static int32_t thread_most(const Layout *l, int axis)
{
    int32_t most = 0, c[TILE_MAX_RANK];
    for (uint32_t b = 0; b < l->count[LAYOUT_BLOCK]; b++)
        for (uint32_t w = 0; w < l->count[LAYOUT_WARP]; w++)
            for (uint32_t t = 0; t < l->count[LAYOUT_LANE]; t++) {
                layout_element(l, 0, t, w, b, c);
                if (c[axis] > most) most = c[axis];
            }
    return most;
}

const char *inside_axis(Emit *e, const Layout *l, int axis, Index *reg, Index *c)
{
    int n = (int)layout_regs(l), sure = 0, r;
    const char *name = index_name(reg), *ask = str(e, "%s < %d", index_text(e, c), l->tile[axis]);
    const RowStart *start = e->row_start.coord && layout_equal(l, e->row_start.layout) ? &e->row_start : NULL;
    if (start) ask = str(e, "(u32)(%s) < %du", index_text(e, c), l->tile[axis]);
    if (e->measure || !name) return ask;
    int32_t thread = thread_most(l, axis);
    while (sure < n && index_value(reg, sure, &r) && r < n && all_inside(l, axis, r, thread)) sure++;
    if (start && sure < start->n) /* the sum behind the cast would be held from one comparison to the next */
        return str(e, "(%s < %d ? %s : %s < %d)", name, start->n, ask, index_text(e, c), l->tile[axis]);
    if (start) /* registers of the first vector may be before the row, and none of them behind it */
        return str(e, "(%s < %d ? %s >= 0 : %s < %d || %s < %d)", name, start->n, index_text(e, c), name,
            sure, index_text(e, c), l->tile[axis]);
    return sure ? str(e, "(%s < %d || %s)", name, sure, ask) : ask;
}

const char *tile_condition(Emit *e, const Layout *l, Index *reg, Index *const *c)
{
    const char *x = "";
    for (int a = 0; a < l->rank; a++)
        if (l->cover[a] != l->tile[a]) x = both_conditions(e, x, inside_axis(e, l, a, reg, c[a]));
    return x;
}

const char *without_branches(Emit *e, const char *cond) { return str(e, ALL_TERMS "%s" ALL_TERMS, cond); }

const char *unique_holder(Emit *e, const Layout *l)
{
    static const char *const inputs[] = { "0", "lane", "warp", "block" };
    LayoutTerm t[LAYOUT_MAX_TERMS];
    int n = layout_unique_terms(l, t);
    const char *x = "";
    for (int k = 0; k < n; k++) {
        const char *y = str(e, "(%s >> %d)", inputs[t[k].in], t[k].shift);
        if (t[k].div > 1) y = str(e, "%s / %u", y, t[k].div);
        if (t[k].mod) y = str(e, "%s %% %u", y, t[k].mod);
        x = both_conditions(e, x, str(e, "%s == 0", y));
    }
    return x;
}
