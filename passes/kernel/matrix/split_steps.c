/* split-steps: turns a step with one product, whose left operand is computed from what is loaded, into a
 * step with two products, each of half of K.
 *
 *   w = load W[j, k +: 128]; b = load B[k +: 128, n]; acc = mma_sync f(w), b, acc
 *
 * becomes
 *
 *   w = load W[j, k +: 64]; b = load B[k +: 64, n]; acc = mma_sync f(w), b, acc
 *   v = load W[j, k + 64 +: 64]; d = load B[k + 64 +: 64, n]; acc = mma_sync f(v), d, acc
 *
 * It applies to targets with asynchronous products. Registers of a product in flight must not be written,
 * so the operand of the next product needs other registers (computed_operands.c); two products in a step
 * have them. A ring counts steps, so that loads keep as many bytes in flight.
 *
 * Requires: only element-wise operations, broadcasts, permutations, joins along other axes, and reshapes that
 * keep K or split it into axes between the loads (and functions of coordinates) and the operand, and halves
 * of K whose rows have at least 64 bytes. Keeps: the order of
 * sums, so that results are equal to the bit. Does not handle: a load with positions of its own
 * (gather_windows.c), which stays whole. */
#include "passes/kernel/pipeline/software_pipelining.h"
#include "passes/kernel/warp_specialization/warp_specialization.h"

typedef struct Made {
    const Value *of;
    int axis;
    Value *half;
} Made;

typedef struct Halves {
    Session *s;
    Func *f;
    Instr *product;
    int half;
    bool make, loads;
    VEC(Made) made;
} Halves;

static Value *half_of(Halves *h, Value *v, int axis, int depth);

static const Type *half_type(Halves *h, const Type *t, int axis)
{
    int64_t shape[TILE_MAX_RANK];
    for (int a = 0; a < t->rank; a++) shape[a] = t->shape[a] / (a == axis ? 2 : 1);
    return type_tile(h->s, t->dtype, t->rank, shape);
}

static Value *clone_half(Halves *h, const Instr *i, Value *const *operands, int axis)
{
    ValueMap map;
    Builder b = ir_before(h->product);
    b.loc = i->loc;
    value_map_init(&map, &h->s->arena);
    for (int k = 0; k < i->n_operands; k++)
        if (operands[k] != ir_operand(i, k)) value_map_set(&map, ir_operand(i, k), operands[k]);
    Instr *made = ir_clone(&b, i, &map);
    ir_result(made)->type = half_type(h, ir_result(made)->type, axis);
    return ir_result(made);
}

/* Halves the window of the load along the tile's axis. */
static Value *half_window(Halves *h, Instr *load, int axis)
{
    const Attr *e = ir_attr(load, ATTR_EXTENTS), *align = ir_attr(load, ATTR_ALIGN);
    int a = kernel_tensor_axis(load, axis);
    Value *operands[2 + TILE_MAX_RANK];
    int64_t extents[TILE_MAX_RANK], by = h->half * (e->v[a] / 2);
    for (int k = 0; k < load->n_operands; k++) operands[k] = ir_operand(load, k);
    memcpy(extents, e->v, sizeof *extents * (size_t)e->n);
    extents[a] /= 2;
    Builder b = ir_before(h->product);
    b.loc = load->loc;
    if (h->half)
        operands[1 + a] =
            ir_bin(&b, OP_ADD, operands[1 + a], ir_const_int(&b, operands[1 + a]->type->dtype, by));
    Instr *made = clone_half(h, load, operands, axis)->def;
    ir_set_operand(made, 1 + a, operands[1 + a]);
    ir_set_attr(h->s, made, a_ints(ATTR_EXTENTS, extents, e->n));
    if (align && h->half) {
        int64_t x = align->i, y = by * dtype_bytes(ir_result(load)->type->dtype);
        while (y) {
            int64_t t = x % y;
            x = y;
            y = t;
        }
        ir_set_attr(h->s, made, a_int(ATTR_ALIGN, x));
    }
    return ir_result(made);
}

/* Whether halves of a window that is not contiguous along K keep the swizzle of their stages, which takes
 * eight rows. A window that has fewer rows to begin with has none. */
static bool keeps_swizzle(const Halves *h, const Instr *load, int axis)
{
    enum { ROWS = 8 };
    const Type *t = ir_result(load)->type;
    int unit;
    kernel_unit_axis(h->f, load, &unit);
    return t->rank != 2 || unit == axis || t->shape[axis] < ROWS || t->shape[axis] % (2 * ROWS) == 0;
}

static bool can_halve(const Halves *h, Instr *load, int axis)
{
    MemParts m;
    return keeps_swizzle(h, load, axis) && ir_mem_parts(load, &m) && !m.token && !m.mask && !m.pad &&
           load->n_results == 1 && load->block == h->product->block && !ir_attr(load, ATTR_STEPS) &&
           !kernel_parts(load, NULL) && kernel_tensor_axis(load, axis) >= 0;
}

/* The axis of what is reshaped whose halves make the halves of `axis`: the same axis, or the first of those
 * that became it. -1: there is none. */
static int axis_to_halve(const Instr *reshape, int axis)
{
    const Type *from = ir_operand(reshape, 0)->type, *to = ir_result(reshape)->type;
    int64_t before = 1, n = 1;
    int a = kernel_axis_before(reshape, axis);
    if (a >= 0 || from->kind != TYPE_TILE) return a;
    for (int k = 0; k < axis; k++) before *= to->shape[k];
    for (a = 0; a < from->rank && (n < before || from->shape[a] == 1); a++) n *= from->shape[a];
    return n == before && a < from->rank && to->shape[axis] % from->shape[a] == 0 ? a : -1;
}

static Value *half_anew(Halves *h, Value *v, int axis, int depth)
{
    Instr *i = v->def;
    if (!i || depth > 64 || i->n_results != 1 || v->type->shape[axis] % 2) return NULL;
    if (i->op == OP_LOAD) {
        h->loads = true;
        return !can_halve(h, i, axis) ? NULL : h->make ? half_window(h, i, axis) : v;
    }
    bool joins_beside = i->op == OP_CONCAT && ir_attr_int(i, ATTR_AXIS, 0) != axis;
    if (i->op != OP_SPLAT && i->op != OP_ARANGE && i->op != OP_BROADCAST && i->op != OP_RESHAPE &&
        i->op != OP_PERMUTE && !joins_beside && !(op_info[i->op].flags & OPF_ELEM))
        return NULL;
    Value **operands = arena_array(&h->s->arena, Value *, (size_t)i->n_operands + 1);
    for (int k = 0; k < i->n_operands; k++) {
        int before = i->op == OP_RESHAPE || i->op == OP_PERMUTE ? axis_to_halve(i, axis) : axis;
        operands[k] = i->op == OP_SPLAT ? ir_operand(i, k)
                      : before < 0      ? NULL
                                        : half_of(h, ir_operand(i, k), before, depth + 1);
        if (!operands[k]) return NULL;
    }
    if (!h->make) return v;
    Value *part = clone_half(h, i, operands, axis);
    if (i->op == OP_ARANGE && h->half)
        ir_set_attr(h->s, part->def, a_int(ATTR_START, ir_attr_int(i, ATTR_START, 0) + part->type->shape[0]));
    return part;
}

static Value *half_of(Halves *h, Value *v, int axis, int depth)
{
    if (v->type->kind != TYPE_TILE || v->type->shape[axis] == 1) return v;
    for (size_t k = 0; k < h->made.len; k++)
        if (h->made.data[k].of == v && h->made.data[k].axis == axis) return h->made.data[k].half;
    Value *half = half_anew(h, v, axis, depth);
    if (half && h->make) vec_push(&h->s->arena, &h->made, ((Made){ v, axis, half }));
    return half;
}

static bool is_alone(const Instr *product)
{
    const Instr *loop = product->block->parent;
    int n = 0;
    if (!loop || loop->op != OP_FOR) return false;
    for (const Instr *i = product->block->first; i; i = i->next) n += i->op == OP_MMA_SYNC;
    return n == 1 && kernel_adds_to_carried(product, ir_result(product));
}

static void halve(Halves *h)
{
    Instr *p = h->product;
    Value *sum = ir_operand(p, 2);
    h->make = true;
    for (h->half = 0; h->half < 2; h->half++) {
        h->made.len = 0;
        Value *a = half_of(h, ir_operand(p, 0), 1, 0), *b = half_of(h, ir_operand(p, 1), 0, 0);
        ValueMap map;
        Builder at = ir_before(p);
        value_map_init(&map, &h->s->arena);
        value_map_set(&map, ir_operand(p, 0), a);
        value_map_set(&map, ir_operand(p, 1), b);
        value_map_set(&map, ir_operand(p, 2), sum);
        sum = ir_result(ir_clone(&at, p, &map));
    }
    Block *body = p->block;
    ir_replace(ir_result(p), sum);
    ir_erase(p);
    ir_sweep(body);
    ir_sweep(h->f->body);
}

static void halve_steps(Session *s, Func *f, KernelPlan *p)
{
    enum { LEAST = 64 }; /* the bytes of a row of B in a stage */
    InstrList products = { 0 };
    if (kernel_skips(p, PASS_SOFTWARE_PIPELINING)) return;
    ir_collect(&s->arena, f->body, OP_MMA_SYNC, &products);
    /* The question whether a product fits is the same as in warp-specialization. */
    p->cp_async_warps = roles_cp_async_warps(p, &products);
    for (size_t k = 0; k < products.len; k++) {
        Instr *i = products.data[k];
        if (!i->block) continue; /* It was erased together with an earlier product. */
        Value *a = ir_operand(i, 0), *b = ir_operand(i, 1);
        Roles probe = { .s = s, .f = f, .p = p };
        Halves h = { .s = s, .f = f, .product = i };
        if (!is_alone(i) || (a->def && a->def->op == OP_LOAD) || !b->def || b->def->op != OP_LOAD ||
            !roles_product_fits(&probe, i) || probe.loads.len != 1)
            continue;
        if (a->type->shape[1] % 2 || a->type->shape[1] / 2 * dtype_bytes(b->type->dtype) % LEAST ||
            !half_of(&h, a, 1, 0) || !h.loads || !half_of(&h, b, 0, 0))
            continue;
        halve(&h);
    }
    p->cp_async_warps = 0;
}

bool kernel_pass_split_steps(KernelContext *c)
{
    uint32_t before = kernel_values(c);
    halve_steps(c->s, c->f, c->p);
    return kernel_grew(c, before);
}
