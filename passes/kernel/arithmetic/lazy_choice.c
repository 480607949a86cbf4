/* lazy_choice.c: of lazy-rescale: makes the change, in which each warp chooses whether its rows keep their
 * maxima.
 *
 *   %top = max %m, %r; %base = %top, or 0 where it is -inf
 *   %alpha = exp2((%m - %base) c)
 *   %p = exp2((%x * scale - %base) c)
 *   %l' = fma %l, %alpha, sum(%p)
 *   %acc' = mul %acc, %alpha
 *
 * becomes, with %bar carried from -inf on,
 *
 *   %grew = warpgroup_any(not %r < %bar)
 *   %m', %alpha, %bar', %l1, %x', %k, %n =
 *       if not %grew { yield %m, 1, %bar, %l, %x, scale * c, %m * -c }
 *       else { the lines above, with %bar' = %top + 8/c where |%top c| <= 2^10 and -inf elsewhere;
 *              yield .., %l * %alpha, %x * scale - %base, c, 0 }
 *   %p = exp2(fma(%x', %k, %n))
 *   %l' = %l1 + sum(%p)
 *   %acc' = if %grew { mul %acc, %alpha } else { %acc }
 *
 * A step that keeps its maxima has one comparison for each row and nothing else. Its exponents are one
 * fma, because rows whose maximum is far from zero never have a bar to stay below (near.c says what is
 * far, and bounds the error). A maximum of -inf or NaN has no bar either, so only the other branch needs
 * guards against it.
 *
 * Scores that are more than a scaled product may grow in every step, as with biases by distance (ALiBi).
 * There the other branch chooses again: without a row that is far, it yields %x, c, %base * -c too. */
#include "passes/kernel/arithmetic/lazy_rescale.h"
#include "passes/kernel/arithmetic/near.h"
#include <math.h>

enum { MOST_SUMS = 4, MOST_EXPONENTS = 4, CHOSEN = 3 + MOST_SUMS + 3 * MOST_EXPONENTS };

/* The two choices of a warp: its maxima stay, or are replaced by those of the rows. */
typedef struct Choice {
    Lazy *c;
    /* A carried value: as long as the new maximum of a row is below it, the old maximum is kept. */
    Value *bar;
    Value *sums[MOST_SUMS]; /* carried values with as few elements as the maximum, which alpha scales */
    KernelNear near[MOST_EXPONENTS];
    int n_sums, n_near;
    bool often; /* the maxima may grow in every step */
    const Type *types[CHOSEN];
    Builder at;   /* after the maximum of the scores */
    ValueMap map; /* what was made again there */
} Choice;

static bool stands_before(const Value *v, const Instr *at)
{
    if (!v->def || v->def->block != at->block) return true;
    for (const Instr *i = at; i; i = i->prev)
        if (i == v->def) return true;
    return false;
}

/* Moves constants, and values computed from them, before the maximum, which they do not need. */
static bool movable(const Value *v, const Instr *at, int depth)
{
    if (stands_before(v, at)) return true;
    if (depth > 8 || !(op_info[v->def->op].flags & OPF_PURE) || v->def->n_blocks) return false;
    for (int k = 0; k < v->def->n_operands; k++)
        if (!movable(ir_operand(v->def, k), at, depth + 1)) return false;
    return true;
}

/* The value v in a form that is available at the choice. Operations that are copied for it are recorded in
 * the map. */
static Value *bring(Choice *h, Value *v)
{
    if (!v || stands_before(v, h->c->max) || value_map_get(&h->map, v) != v)
        return v ? value_map_get(&h->map, v) : NULL;
    for (int k = 0; k < v->def->n_operands; k++) bring(h, ir_operand(v->def, k));
    return ir_result(ir_clone(&h->at, v->def, &h->map));
}

static Value *f32_like(Builder *b, double x, const Type *t)
{ return ir_splat(b, ir_const_float(b, DT_F32, x), t->rank, t->shape); }

/* The operations of which the guard and alpha consist, in addition to the maxima. */
static bool plan_factor(Choice *h)
{
    Lazy *c = h->c;
    Value *needs[] = { c->scale, ir_operand(ir_operand(c->alpha->def, 0)->def, 1), NULL, NULL, NULL };
    if (c->base != c->top) {
        needs[2] = ir_operand(ir_operand(c->base->def, 0)->def, 1);
        needs[3] = ir_operand(c->base->def, 1) == c->top ? NULL : ir_operand(c->base->def, 1);
        needs[4] = ir_operand(c->base->def, 2) == c->top ? NULL : ir_operand(c->base->def, 2);
    }
    for (int k = 0; k < 5; k++)
        if (needs[k] && !movable(needs[k], c->max, 0)) return false;
    h->at = ir_after(c->max);
    h->at.loc = c->max->loc;
    for (int k = 0; k < 5; k++) bring(h, needs[k]);
    return true;
}

static void plan_choice(Choice *h)
{
    Lazy *c = h->c;
    for (Use *u = c->alpha->uses; u && h->n_sums < MOST_SUMS; u = u->next) {
        Value *x = lazy_rescaled(c, u->user);
        bool known = false;
        for (int k = 0; k < h->n_sums; k++) known |= h->sums[k] == x;
        if (x && !known && type_same_shape(x->type, c->top->type)) h->sums[h->n_sums++] = x;
    }
    for (size_t e = 0; !c->no_near && e < c->exponents.len && h->n_near < MOST_EXPONENTS; e++) {
        KernelNear *n = &h->near[h->n_near];
        if (!kernel_near_find(c->exponents.data[e].result, n) || !stands_before(n->x, c->max) ||
            !movable(n->c, c->max, 0) || (n->scale && !movable(n->scale, c->max, 0)))
            continue;
        n->c = bring(h, n->c);
        n->scale = bring(h, n->scale);
        h->often |= !n->scale;
        h->n_near++;
    }
    for (int k = 0; k < 3 + h->n_sums; k++) h->types[k] = c->top->type;
    for (int k = 0; k < h->n_near; k++) kernel_near_types(&h->near[k], &h->types[3 + h->n_sums + 3 * k]);
}

/* Selects the maximum, alpha and the bar; then the sums; then the exponents. */
static void stay(Choice *h, Builder *b)
{
    Value *out[CHOSEN] = { h->c->m, f32_like(b, 1, h->c->top->type), h->bar };
    for (int k = 0; k < h->n_sums; k++) out[3 + k] = h->sums[k];
    for (int k = 0; k < h->n_near; k++)
        kernel_near_arm(b, &h->near[k], h->c->m, false, &out[3 + h->n_sums + 3 * k]);
    ir_build(b, OP_YIELD, out, 3 + h->n_sums + 3 * h->n_near, NO_ATTRS, NULL, 0);
}

/* The bar is 8/c above the new maximum in rows for which one fma computes the exponents. In other rows, no
 * maximum is below the bar. */
static Value *new_bar(Choice *h, Builder *b, Value *top)
{
    const Type *t = top->type;
    double c;
    Value *scale = value_map_get(&h->map, h->c->scale), *room;
    if (ir_is_const_float(scale, &c)) room = ir_const_float(b, DT_F32, (float)(LAZY_THRESHOLD / fabs(c)));
    else {
        Value *factor = ir_un(b, OP_ABS, scale), *most = ir_const_float(b, DT_F32, LAZY_THRESHOLD);
        room = ir_bin(b, OP_DIV, most, factor);
    }
    Value *bar = ir_bin(b, OP_ADD, top, ir_splat(b, room, t->rank, t->shape)),
          *none = f32_like(b, -INFINITY, t);
    for (int k = 0; k < h->n_near; k++)
        bar = ir_op(b, OP_WHERE, NULL, NO_ATTRS, kernel_near_is(b, &h->near[k], top), bar, none);
    return bar;
}

/* The exponents under a new maximum: one fma each too, where no row of the warp is far from zero. */
static void take_new_exponents(Choice *h, Builder *b, Value *base, Value **out)
{
    Value *far = NULL;
    for (int k = 0; k < h->n_near; k++) {
        Value *one = ir_un(b, OP_NOT, kernel_near_is(b, &h->near[k], base));
        far = far ? ir_bin(b, OP_OR, far, one) : one;
    }
    Value *any = ir_emit(b, OP_WARPGROUP_ANY, &far, 1, NO_ATTRS, NULL), *near = ir_un(b, OP_NOT, any);
    ir_set_name(any, "far");
    Instr *choice =
        ir_build(b, OP_IF, &near, 1, ATTRS(a_int(ATTR_RARE, 1)), &h->types[3 + h->n_sums], 3 * h->n_near);
    for (int arm = 0; arm < 2; arm++) {
        Builder in = ir_at_end(choice->blocks[arm]);
        in.loc = b->loc;
        for (int k = 0; k < h->n_near; k++) kernel_near_arm(&in, &h->near[k], base, arm, &out[3 * k]);
        ir_build(&in, OP_YIELD, out, 3 * h->n_near, NO_ATTRS, NULL, 0);
    }
    for (int k = 0; k < 3 * h->n_near; k++) out[k] = &choice->results[k];
}

static Value *clone_into(Builder *b, const Value *v, ValueMap *map)
{ return ir_result(ir_clone(b, v->def, map)); }

static void take_new(Choice *h, Builder *b)
{
    Lazy *c = h->c;
    ValueMap *map = &h->map;
    Value *out[CHOSEN] = { clone_into(b, c->top, map) }, *base = out[0];
    if (c->base != c->top) {
        clone_into(b, ir_operand(c->base->def, 0), map);
        base = clone_into(b, c->base, map);
    }
    const Value *times = ir_operand(c->alpha->def, 0);
    clone_into(b, ir_operand(times->def, 0), map);
    clone_into(b, times, map);
    out[1] = clone_into(b, c->alpha, map);
    out[2] = new_bar(h, b, out[0]);
    for (int k = 0; k < h->n_sums; k++) out[3 + k] = ir_bin(b, OP_MUL, h->sums[k], out[1]);
    Value **exponents = &out[3 + h->n_sums];
    if (h->often) take_new_exponents(h, b, base, exponents);
    for (int k = 0; k < h->n_near && !h->often; k++)
        kernel_near_arm(b, &h->near[k], base, true, &exponents[3 * k]);
    ir_build(b, OP_YIELD, out, 3 + h->n_sums + 3 * h->n_near, NO_ATTRS, NULL, 0);
}

/* The product x alpha, which is in `scaled` now; or x alpha + y. */
static void take_sums(Lazy *c, const Value *x, Value *scaled)
{
    for (Use *u = c->alpha->uses, *next; u; u = next) {
        next = u->next;
        Instr *i = u->user;
        if (lazy_rescaled(c, i) != x || !type_same_shape(ir_result(i)->type, x->type)) continue;
        Builder b = ir_before(i);
        ir_replace(ir_result(i), i->op == OP_MUL ? scaled : ir_bin(&b, OP_ADD, scaled, ir_operand(i, 2)));
    }
}

/* Skips products with alpha on large tiles when alpha is 1 in the whole warp. */
static void skip_products(Lazy *c, Value *any)
{
    for (Use *u = c->alpha->uses, *next; u; u = next) {
        next = u->next;
        if (u->user->op != OP_BROADCAST) continue;
        for (Use *w = ir_result(u->user)->uses, *wn; w; w = wn) {
            wn = w->next;
            Instr *mul = w->user;
            if (mul->op != OP_MUL || mul->block != c->loop->blocks[0]) continue;
            Value *acc = ir_operand(mul, ir_operand(mul, 0) == ir_result(u->user));
            const Type *at = ir_result(mul)->type;
            Builder mb = ir_before(mul);
            Instr *cond = ir_build(&mb, OP_IF, &any, 1, NO_ATTRS, &at, 1);
            ir_replace(ir_result(mul), ir_result(cond));
            Builder in = ir_at_end(cond->blocks[0]);
            ir_unlink(mul);
            ir_place(&in, mul);
            Value *r = ir_result(mul);
            ir_build(&in, OP_YIELD, &r, 1, NO_ATTRS, NULL, 0);
            in = ir_at_end(cond->blocks[1]);
            ir_build(&in, OP_YIELD, &acc, 1, NO_ATTRS, NULL, 0);
        }
    }
}

static void take_choice(Choice *h, Instr *choice, Value *any)
{
    Lazy *c = h->c;
    Value *r = choice->results;
    r[0].name = c->top->name;
    r[1].name = c->alpha->name;
    for (int k = 0; k < h->n_sums; k++) take_sums(c, h->sums[k], &r[3 + k]);
    for (int k = 0; k < h->n_near; k++) kernel_near_take(&h->near[k], &r[3 + h->n_sums + 3 * k]);
    skip_products(c, any);
    ir_replace(c->alpha, &r[1]);
    ir_replace(c->top, &r[0]);
    ir_set_operand(ir_terminator(choice->block), h->bar->index - 1, &r[2]);
    ir_sweep(choice->block);
}

bool lazy_choose(Lazy *c)
{
    Choice h = { .c = c };
    value_map_init(&h.map, &c->s->arena);
    if (!plan_factor(&h)) return false;
    Builder before = ir_before(c->loop);
    Value *never = f32_like(&before, -INFINITY, c->top->type);
    int at = c->loop->n_results;
    c->loop = ir_add_carried(c->loop, never, NULL);
    h.bar = c->loop->blocks[0]->args[at + 1];
    ir_set_name(h.bar, "bar");
    plan_choice(&h);

    Builder b = h.at;
    Value *row = ir_operand(c->max, ir_operand(c->max, 0) == c->m),
          *grew = ir_un(&b, OP_NOT, ir_bin(&b, OP_LT, row, h.bar));
    Value *any = ir_emit(&b, OP_WARPGROUP_ANY, &grew, 1, NO_ATTRS, NULL), *none = ir_un(&b, OP_NOT, any);
    ir_set_name(any, "grew");
    Instr *choice =
        ir_build(&b, OP_IF, &none, 1, ATTRS(a_int(ATTR_RARE, 1)), h.types, 3 + h.n_sums + 3 * h.n_near);
    for (int arm = 0; arm < 2; arm++) {
        Builder in = ir_at_end(choice->blocks[arm]);
        in.loc = b.loc;
        (arm ? take_new : stay)(&h, &in);
    }
    take_choice(&h, choice, any);
    return true;
}
