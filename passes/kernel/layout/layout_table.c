/* layout_table.c: the table between the texts of layouts on types and the structures, and small questions
 * that many kernel passes ask. */
#include "passes/kernel/layout/groups.h"
#include "passes/kernel/layout/registers.h"
#include "ir/analysis/range.h"

static size_t row_of(LayoutTable *t, const char *text)
{
    for (size_t i = 0; i < t->rows.len; i++)
        if (t->rows.data[i].text == text) return i;
    __typeof__(*t->rows.data) row = { text, NULL, NULL };
    vec_push(&t->session->arena, &t->rows, row);
    return t->rows.len - 1;
}

const Layout *layouts_get(LayoutTable *t, const Type *type)
{
    if (!type->layout) ir_fail(t->session, (Loc){ 0 }, "%s has no layout", type_string(t->session, type));
    size_t r = row_of(t, type->layout);
    if (!t->rows.data[r].layout) {
        const char *end, *err = NULL;
        t->rows.data[r].layout = layout_parse(&t->session->arena, type->layout, &end, &err);
        if (!t->rows.data[r].layout)
            ir_fail(t->session, (Loc){ 0 }, "layout %s: %s", type->layout, err ? err : "malformed");
    }
    return t->rows.data[r].layout;
}

const LayoutShared *layouts_shared(LayoutTable *t, const Type *type)
{
    if (!type->layout) ir_fail(t->session, (Loc){ 0 }, "%s has no layout", type_string(t->session, type));
    size_t r = row_of(t, type->layout);
    if (!t->rows.data[r].shared) {
        const char *end, *err = NULL;
        t->rows.data[r].shared = layout_shared_parse(&t->session->arena, type->layout, &end, &err);
        if (!t->rows.data[r].shared)
            ir_fail(t->session, (Loc){ 0 }, "layout %s: %s", type->layout, err ? err : "malformed");
    }
    return t->rows.data[r].shared;
}

const char *layouts_text(LayoutTable *t, const Layout *l)
{
    for (size_t i = 0; i < t->rows.len; i++)
        if (t->rows.data[i].layout && layout_equal(t->rows.data[i].layout, l)) return t->rows.data[i].text;
    char room[512], *buf = room;
    size_t n = layout_print(l, room, sizeof room);
    if (n >= sizeof room) {
        buf = arena_alloc(&t->session->arena, n + 1);
        layout_print(l, buf, n + 1);
    }
    const char *text = session_intern(t->session, buf, n);
    size_t r = row_of(t, text);
    t->rows.data[r].layout = l;
    return text;
}

const char *layouts_shared_text(LayoutTable *t, const LayoutShared *l)
{
    char room[256], *buf = room;
    for (size_t r = 0; r < t->rows.len; r++)
        if (t->rows.data[r].shared && layout_shared_equal(t->rows.data[r].shared, l))
            return t->rows.data[r].text;
    size_t n = layout_shared_print(l, room, sizeof room);
    if (n >= sizeof room) {
        buf = arena_alloc(&t->session->arena, n + 1);
        layout_shared_print(l, buf, n + 1);
    }
    const char *text = session_intern(t->session, buf, n);
    size_t r = row_of(t, text);
    t->rows.data[r].shared = l;
    return text;
}

const Type *layouts_typed(LayoutTable *t, const Type *type, const Layout *l)
{ return type_with_layout(t->session, type, layouts_text(t, l)); }

/* Whether the reshape only adds or drops axes of extent 1. */
static bool unit_reshape(const Type *a, const Type *b)
{
    int i = 0, j = 0, ra = a->kind == TYPE_SCALAR ? 0 : a->rank, rb = b->kind == TYPE_SCALAR ? 0 : b->rank;
    for (;;) {
        while (i < ra && a->shape[i] == 1) i++;
        while (j < rb && b->shape[j] == 1) j++;
        if (i == ra || j == rb) return i == ra && j == rb;
        if (a->shape[i++] != b->shape[j++]) return false;
    }
}

/* The operations that a virtual value may consist of. */
enum { MOST_VIRTUAL = 512 };

static bool may_be_virtual(const Value *v, const Instr *d)
{
    return op_has(d->op, OPF_VIRTUAL) &&
           (d->op != OP_RESHAPE ||
               (unit_reshape(ir_operand(d, 0)->type, v->type) && ir_operand(d, 0)->type->kind == TYPE_TILE));
}

/* Every user computes the value again, and so does every use of a part of it. `left` limits the total number
 * of operations. */
static bool is_cheap(const Value *v, int *left)
{
    if (v->type->kind == TYPE_SCALAR) return true;
    const Instr *d = v->def;
    if (!d || --*left < 0) return false;
    if (d->op == OP_SPLAT || d->op == OP_ARANGE) return true;
    if (!may_be_virtual(v, d)) return false;
    for (int k = 0; k < d->n_operands; k++)
        if (!is_cheap(ir_operand(d, k), left)) return false;
    return true;
}

bool kernel_is_cheap(const Value *v)
{
    int left = MOST_VIRTUAL;
    return is_cheap(v, &left);
}

/* The number of operations that is_cheap would count, or more than MOST_VIRTUAL if the value is not cheap.
 * Behind so many operations on one path the value that was asked for is not cheap, but values on that path
 * may be, so that none of them is kept. */
static int size_of(CheapValues *c, const Value *v, int depth)
{
    if (v->type->kind == TYPE_SCALAR) return 0;
    const Instr *d = v->def;
    if (!d) return MOST_VIRTUAL + 1;
    if (c->size[v->id]) return c->size[v->id];
    c->too_deep |= depth > MOST_VIRTUAL;
    if (depth > MOST_VIRTUAL) return MOST_VIRTUAL + 1;
    bool leaf = d->op == OP_SPLAT || d->op == OP_ARANGE;
    int n = leaf || may_be_virtual(v, d) ? 1 : MOST_VIRTUAL + 1;
    for (int k = 0; k < d->n_operands && n <= MOST_VIRTUAL && !leaf; k++)
        n += size_of(c, ir_operand(d, k), depth + 1);
    if (n > MOST_VIRTUAL) n = MOST_VIRTUAL + 1;
    if (!c->too_deep) c->size[v->id] = (uint16_t)n;
    return n;
}

bool kernel_is_cheap_in(CheapValues *c, const Value *v)
{
    c->too_deep = false;
    return size_of(c, v, 1) <= MOST_VIRTUAL;
}

bool kernel_is_zero(const Value *v)
{
    double f;
    int64_t k;
    return kernel_is_cheap(v) &&
           ((ir_is_const_float(v, &f) && f == 0 && !__builtin_signbit(f)) || (ir_is_const(v, &k) && k == 0));
}

int kernel_unit_axis(const Func *f, const Instr *mem, int *tile_axis)
{
    int unit = -1;
    if (!kernel_copies(mem->op) && op_family(mem->op) != OPS_MEMORY) return -1;
    const Value *tensor = ir_operand(mem, kernel_copies(mem->op) ? 1 : 0);
    if (tensor->type->kind != TYPE_TENSOR) return -1;
    for (int a = 0; a < tensor->type->rank; a++)
        if (f->params[tensor->index].stride[a] == 1) unit = a;
    if (unit < 0) unit = tensor->type->rank - 1;
    if (tile_axis) {
        *tile_axis = -1;
        const Attr *e = ir_attr(mem, ATTR_EXTENTS), *o = ir_attr(mem, ATTR_ORDER);
        int at = 0;
        for (int a = 0; e && a < tensor->type->rank; a++) {
            if (e->v[a] == -1) continue;
            if (a == unit) *tile_axis = at;
            at++;
        }
        if (o && *tile_axis >= 0)
            for (int i = 0; i < o->n; i++)
                if (o->v[i] == *tile_axis) {
                    *tile_axis = i;
                    break;
                }
    }
    return unit;
}

enum { DIV_ANY = 1 << 30 }; /* Zero is divisible by every number. */

static int64_t divisor(const Func *f, const Value *v, int depth)
{
    int64_t c;
    const Instr *d = v->def;
    if (!d || depth > 12) {
        /* A loop counter that begins at lo and grows by step. */
        if (!d && v->block->parent && v->block->parent->op == OP_FOR && v->index == 0 && depth <= 12)
            return range_gcd(divisor(f, ir_operand(v->block->parent, 0), depth + 1),
                divisor(f, ir_operand(v->block->parent, 2), depth + 1));
        return 1;
    }
    if (ir_is_const(v, &c)) return c ? (c < 0 ? -c : c) : DIV_ANY;
    if (d->op == OP_DIM) return f->dims[ir_attr_int(d, ATTR_DIM, 0)].div;
    if (d->op == OP_STRIDE)
        return f->params[ir_attr_int(d, ATTR_PARAM, 0)].stride_div[ir_attr_int(d, ATTR_AXIS, 0)];
    if (d->op == OP_MUL) {
        int64_t a = divisor(f, ir_operand(d, 0), depth + 1), b = divisor(f, ir_operand(d, 1), depth + 1);
        return a >= DIV_ANY || b >= DIV_ANY || a * b >= DIV_ANY ? DIV_ANY : a * b;
    }
    if (d->op == OP_ADD || d->op == OP_SUB || d->op == OP_MIN || d->op == OP_MAX)
        return range_gcd(divisor(f, ir_operand(d, 0), depth + 1), divisor(f, ir_operand(d, 1), depth + 1));
    if (d->op == OP_WHERE)
        return range_gcd(divisor(f, ir_operand(d, 1), depth + 1), divisor(f, ir_operand(d, 2), depth + 1));
    if (d->op == OP_CAST)
        return dtype_is_int(ir_operand(d, 0)->type->dtype) ? divisor(f, ir_operand(d, 0), depth + 1) : 1;
    if (d->op == OP_SHL && ir_is_const(ir_operand(d, 1), &c) && c >= 0 && c < 20)
        return divisor(f, ir_operand(d, 0), depth + 1) << c;
    return 1;
}

int64_t kernel_divisor(const Func *f, const Value *v)
{
    int64_t d = divisor(f, v, 0);
    return d < 1 ? 1 : d;
}

bool kernel_tma_begins(const Func *f, const Instr *mem, int unit)
{
    MemParts m;
    if (!ir_mem_parts(mem, &m)) return false;
    return kernel_divisor(f, m.idx[unit]) * dtype_bytes(f->params[m.param].type->dtype) % 16 == 0 ||
           ir_attr_int(mem, ATTR_ALIGN, 1) % 16 == 0;
}

int kernel_access_bytes(const Func *f, const Instr *mem)
{ return kernel_access_bytes_at(f, mem, NULL, ir_attr_int(mem, ATTR_MASKED, 1) != 0); }

/* Of elements that follow each other along the axis `unit`, the first at a multiple of `divisor`. */
static int row_access_bytes(const Func *f, const MemParts *m, int unit, int64_t divisor, bool masked)
{
    const Param *p = &f->params[m->param];
    int elem = dtype_bytes(p->type->dtype);
    if (p->stride[unit] != 1) return elem;
    int64_t align = range_gcd(p->align, 16);
    for (int a = 0; a < m->rank; a++)
        align = range_gcd(align, elem * (a == unit ? divisor : ir_row_step(f, p, a)));
    if (masked) { /* A vector must be wholly in range or wholly out of range. */
        const Dim *d = &f->dims[p->dims[unit]];
        align = range_gcd(align, elem * (d->extent >= 0 ? d->extent : d->div));
    }
    return align > elem ? (int)align : elem;
}

int kernel_access_bytes_at(const Func *f, const Instr *mem, const int64_t *divisor, bool masked)
{
    MemParts m;
    if (kernel_copies(mem->op)) {
        m.param = ir_operand(mem, 1)->index;
        m.rank = ir_operand(mem, 1)->type->rank;
        for (int a = 0; a < m.rank; a++) m.idx[a] = ir_operand(mem, 2 + a);
    } else if (!ir_mem_parts(mem, &m)) return 0;
    const Attr *steps = ir_attr(mem, ATTR_STEPS);
    int unit = kernel_unit_axis(f, mem, NULL);
    if (unit < 0 || (steps && steps->v[unit] != 1)) return dtype_bytes(f->params[m.param].type->dtype);
    return row_access_bytes(f, &m, unit, divisor ? *divisor : kernel_divisor(f, m.idx[unit]), masked);
}

int kernel_row_access_bytes(const Func *f, const Instr *load, int64_t divisor)
{
    MemParts m;
    int unit = kernel_unit_axis(f, load, NULL);
    return ir_mem_parts(load, &m) && unit >= 0 ? row_access_bytes(f, &m, unit, divisor, true) : 0;
}

LayoutMma kernel_mma_kind(Session *s, const char *name)
{
    for (int k = 0; k < LAYOUT_MMA_COUNT; k++)
        if (!strcmp(layout_mma_info((LayoutMma)k)->name, name)) return (LayoutMma)k;
    ir_fail(s, (Loc){ 0 }, "no matrix instruction %s", name);
}

bool kernel_same_registers(Arena *a, KernelPlan *p, const Instr *i)
{
    const Type *from = i->n_operands ? ir_operand(i, 0)->type : NULL,
               *to = i->n_results ? ir_result(i)->type : NULL;
    if ((i->op != OP_RESHAPE && i->op != OP_PERMUTE) || from->kind != TYPE_TILE || to->kind != TYPE_TILE ||
        !from->layout || !to->layout)
        return false;
    bool permutes = i->op == OP_PERMUTE;
    int32_t axes[TILE_MAX_RANK];
    const Attr *order = ir_attr(i, ATTR_ORDER);
    for (int k = 0; k < to->rank; k++) axes[k] = (int32_t)(permutes ? order->v[k] : to->shape[k]);
    const Layout *l = layouts_get(&p->layouts, from),
                 *same = permutes ? layout_permute(a, l, axes) : layout_reshape(a, l, to->rank, axes);
    return same && layout_equal(same, layouts_get(&p->layouts, to));
}
