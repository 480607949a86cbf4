/* paired_wide.c: of paired-programs: products of neighbouring programs that are one product.
 *
 *   %s = for .. with (%x = splat 0 [m, c]) {           %s = for .. with (%x = splat 0 [m, n * c]) {
 *     %b = load %B[.., mul %j, c] [k, c]         ->      %b = load %B[.., mul %j0, c] [k, n * c]
 *     yield mma %a, %b, %x                               yield mma %a, %b, %x
 *   }                                                  }
 *                                                      %s0 = slice %s at 0; %s1 = slice %s at c
 *
 * Windows of a right operand that lie side by side become one window. One product reads the left operand once
 * where two products of half the columns read it twice. */
#include "passes/tile/program/paired_programs.h"

enum { MOST_COLUMNS = 256 /* of an instruction of the matrix unit */ };

/* Whether the index is the program's coordinate times the width of the window. */
static bool counts_windows(const Paired *x, const Value *index, int64_t width)
{
    const Instr *mul = index->def;
    int64_t by;
    if (!mul || mul->op != OP_MUL) return false;
    for (int k = 0; k < 2; k++) {
        const Instr *id = ir_operand(mul, k)->def;
        if (ir_is_const(ir_operand(mul, 1 - k), &by) && by == width && id && id->op == OP_PROGRAM_ID)
            return ir_attr_int(id, ATTR_AXIS, 0) == x->p.axis;
    }
    return false;
}

/* The axis of the window along which it is one of several that lie side by side; -1: there is none. */
static int side_by_side(const Paired *x, const Instr *load)
{
    MemParts m;
    const Attr *e = ir_attr(load, ATTR_EXTENTS), *steps = ir_attr(load, ATTR_STEPS);
    int axis = -1;
    if (load->op != OP_LOAD || !ir_mem_parts(load, &m) || m.mask || m.token || !e || steps) return -1;
    if (ir_attr(load, ATTR_ORDER) || (m.pad && paired_is_own(x, m.pad))) return -1;
    for (int a = 0; a < m.rank; a++) {
        if (!paired_is_own(x, m.idx[a])) continue;
        if (axis >= 0 || !counts_windows(x, m.idx[a], e->v[a])) return -1;
        axis = a;
    }
    return axis;
}

/* The axis of the loaded tile that the window's axis becomes. */
static int tile_axis(const Instr *load, int axis)
{
    const Attr *e = ir_attr(load, ATTR_EXTENTS);
    int n = 0;
    for (int a = 0; a < axis; a++) n += e->v[a] >= 0;
    return n;
}

static bool is_used_once(const Value *v) { return v->uses && !v->uses->next; }

/* Whether the right operand is a window of columns, as it lies or transposed. */
static bool finds_window(const Paired *x, Wide *w)
{
    Instr *i = ir_operand(w->product, 1)->def;
    if (!i || i->block != w->product->block || !is_used_once(ir_result(i))) return false;
    w->permute = i->op == OP_PERMUTE ? i : NULL;
    if (w->permute) i = ir_operand(i, 0)->def;
    if (!i || i->block != w->product->block || !is_used_once(ir_result(i))) return false;
    w->load = i;
    w->axis = side_by_side(x, i);
    if (w->axis < 0 || ir_result(i)->type->rank != 2) return false;
    const Attr *order = w->permute ? ir_attr(w->permute, ATTR_ORDER) : NULL;
    return (order ? order->v[1] : 1) == tile_axis(i, w->axis);
}

/* Whether the program's own instructions are the product and what it needs alone. */
static bool does_nothing_else(const Paired *x, const Wide *w)
{
    for (const Instr *i = w->loop->blocks[0]->first; i != w->loop->blocks[0]->last; i = i->next) {
        bool of_product = i == w->product || i == w->load || i == w->permute;
        if (!of_product && paired_is_done_by_each(x, i) && i->op != OP_MUL) return false;
    }
    return true;
}

static bool is_wide(const Paired *x, Wide *w)
{
    const Block *body = w->loop->blocks[0];
    int own = 0;
    for (int k = 0; k < w->loop->n_results; k++) {
        if (!paired_is_own(x, &w->loop->results[k])) continue;
        w->carried = k;
        own++;
    }
    if (own != 1) return false;
    const Value *sum = body->args[w->carried + 1];
    Value *begin = ir_operand(w->loop, w->carried + 3);
    w->product = ir_operand(ir_terminator(body), w->carried)->def;
    if (!w->product || w->product->op != OP_MMA || w->product->block != body ||
        ir_attr(w->product, ATTR_PARTS))
        return false;
    if (ir_operand(w->product, 2) != sum || !is_used_once(sum) || !is_used_once(ir_result(w->product)))
        return false;
    if (!begin->def || begin->def->op != OP_SPLAT || paired_is_own(x, begin) || sum->type->rank != 2)
        return false;
    return !paired_is_own(x, ir_operand(w->product, 0)) && x->p.n * sum->type->shape[1] <= MOST_COLUMNS &&
           finds_window(x, w) && does_nothing_else(x, w);
}

void paired_find_wide(Paired *x)
{
    x->n_wide = 0;
    for (Instr *i = x->p.f->body->first; i && x->n_wide < MOST_WIDE; i = i->next) {
        Wide *w = &x->wide[x->n_wide];
        *w = (Wide){ .loop = i };
        if (i->op == OP_FOR) x->n_wide += is_wide(x, w);
    }
}

/* The load of all programs' windows. */
static Value *load_all(const Paired *x, Builder *b, const Wide *w)
{
    int64_t extents[TILE_MAX_RANK];
    const Attr *e = ir_attr(w->load, ATTR_EXTENTS);
    Attr attrs[ATTR_N_KEYS];
    Value **ops = arena_array(x->p.c->scratch, Value *, (size_t)w->load->n_operands);
    for (int a = 0; a < e->n; a++) extents[a] = a == w->axis ? e->v[a] * x->p.n : e->v[a];
    for (int k = 0; k < w->load->n_attrs; k++) {
        attrs[k] = w->load->attrs[k];
        if (attrs[k].key == ATTR_EXTENTS) attrs[k] = a_ints(ATTR_EXTENTS, extents, e->n);
    }
    for (int k = 0; k < w->load->n_operands; k++) ops[k] = ir_operand(w->load, k);
    return ir_result(
        ir_build(b, OP_LOAD, ops, w->load->n_operands, (Attrs){ attrs, w->load->n_attrs }, NULL, 0));
}

/* The programs' columns of the sum. */
static void divide_sum(Paired *x, Instr *loop, Value *old, Value *sum)
{
    Builder b = ir_after(loop);
    const Type *t = old->type;
    Value *part[MOST_PAIRED];
    for (int s = 0; s < x->p.n; s++)
        part[s] =
            ir_emit(&b, OP_SLICE, &sum, 1, ATTRS(a_int(ATTR_AXIS, 1), a_int(ATTR_START, s * t->shape[1])),
                type_tile(x->p.c->session, t->dtype, 2, (int64_t[]){ t->shape[0], t->shape[1] }));
    ir_replace(old, part[0]);
    for (int s = 1; s < x->p.n; s++) value_map_set(&x->map[s], part[0], part[s]);
}

Instr *paired_widen(Paired *x, Instr *loop)
{
    const Wide *w = NULL;
    for (int k = 0; k < x->n_wide; k++)
        if (x->wide[k].loop == loop) w = &x->wide[k];
    if (!w) return NULL;
    const Type *t = loop->results[w->carried].type;
    const int64_t shape[2] = { t->shape[0], t->shape[1] * x->p.n };
    Builder b = ir_before(loop);
    Value *begin = ir_splat(&b, ir_operand(ir_operand(loop, w->carried + 3)->def, 0), 2, shape);
    loop = ir_add_carried(loop, begin, NULL);
    Block *body = loop->blocks[0];
    Instr *yield = ir_terminator(body);
    b = ir_before(w->product);
    Value *right = load_all(x, &b, w), *arg = body->args[body->n_args - 1];
    if (w->permute)
        right = ir_emit(&b, OP_PERMUTE, &right, 1, (Attrs){ w->permute->attrs, w->permute->n_attrs }, NULL);
    Value *ops[] = { ir_operand(w->product, 0), right, arg };
    Value *sum = ir_emit(&b, OP_MMA, ops, 3, (Attrs){ w->product->attrs, w->product->n_attrs }, arg->type);
    ir_set_operand(yield, loop->n_results - 1, sum);
    ir_set_operand(yield, w->carried, body->args[w->carried + 1]);
    ir_sweep(body);
    divide_sum(x, loop, &loop->results[w->carried], &loop->results[loop->n_results - 1]);
    ir_drop_carried(loop, w->carried);
    return loop;
}
