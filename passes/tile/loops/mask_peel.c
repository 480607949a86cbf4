/* mask-peel: splits loops so that only edge iterations need masks.
 *
 *   for %j = 0 to %n with (%a = %z) {                       %b = min(max(floor(N / 64), 0), %n)
 *     %c = lt (%j*64 + arange 64), (splat N)                %a1 = for %j = 0 to %b with (%a = %z) {
 *     %x = load %X[%j*64] {extents = [64]}                    %x = load %X[%j*64] {masked = 0, ..}
 *     %s = where %c, %x, -inf                         ->      yield max(%a, %x)
 *     yield max(%a, %s)                                     }
 *   }                                                       for %j = %b to %n with (%a = %a1) { as before }
 *
 * Each comparison of integer tiles, and each window of a load or store in an innermost loop, is a
 * condition F(j) >= 0 that makes it true for all elements, with the affine forms of affine.h. If F falls
 * with j, it bounds the main loop above; if F rises, below. If F does not contain j, it is tested once
 * before the loop, and the main loop is empty when it fails. (With a ragged M in a loop over K, full tiles
 * of rows take the main loop, and the last tile of rows the masked one.) What is proven outright costs
 * nothing. The loop becomes up to three: edge, main, edge. Edge loops carry loop = edge.
 *
 * Requires: fold and licm before (steps of 1, invariant bounds outside). Keeps: everything, and the order
 * of iterations. Does not handle: outer loops; loops whose first iteration may be below 0; steps other
 * than 1; on targets with TMA, windows that it can move, since a TMA copy checks bounds by itself; on
 * GPUs, loops with products (left_to_kernel), for which mask-branch is cheaper.
 *
 * On a CPU, a loop stays one where comparisons mask the sums of its products, because its body is long and
 * two copies of it take twice as long to compile. Selects by these masks stand in a branch instead:
 *
 *     %s = where %c, %x, -inf     ->     %m = and (ge %j, %a), (lt %j, %b)
 *                                        %s = if %m { yield %x } else { yield (where %c, %x, -inf) }
 *
 * The windows of such a loop keep their masks, which a CPU tests once for a window or for each row of it. */
#include "passes/tile/analysis/affine.h"

enum { MAX_CONDITIONS = 32, MAX_BODY = 400 };

typedef struct Condition {
    Instr *instr;  /* a comparison, or a load or store (then one side of one of its windows) */
    Affine rest;   /* the affine form without the loop's variable */
    int64_t coef;  /* the coefficient of the loop's variable, or of its product with `stride` */
    Value *stride; /* an invariant of at least 1, as in a loop over blocks j*P + i; NULL: none */
    bool proven;   /* the condition always holds, so no bound is needed */
} Condition;

typedef struct Peel {
    PassContext *c;
    Facts *facts;
    Instr *loop;
    Condition conditions[MAX_CONDITIONS];
    int n;
    bool useful; /* an operation in the body would lose a mask */
    int64_t split, accesses, compares, branches;
} Peel;

/* --- what could be true in a range of iterations ----------------------------------------------------- */

static bool outside_only(const Peel *p, const Affine *a)
{
    const Block *body = p->loop->blocks[0];
    for (int n = 0; n < a->n; n++) {
        const Value *v = a->terms[n].atom;
        bool launch = (v->def && (v->def->op == OP_DIM || v->def->op == OP_STRIDE ||
                                     v->def->op == OP_PROGRAM_ID || v->def->op == OP_NUM_PROGRAMS)) ||
                      (!v->def && !v->block->parent);
        if (!launch && !ir_defined_outside(v, body)) return false;
    }
    return true;
}

/* False in every iteration: as a condition it would leave the main loop empty. */
static bool never(const Peel *p, const Affine *form)
{
    Affine opposite = { .constant = -1 };
    return affine_add(&opposite, form, -1) && prove_nonneg(p->facts, &opposite);
}

/* The product of the loop's variable with an invariant value of at least 1, if it is a term of the form. */
static Value *strided_term(const Peel *p, const Affine *form, Value **stride)
{
    const Value *j = p->loop->blocks[0]->args[0];
    for (int n = 0; n < form->n; n++) {
        Value *v = form->terms[n].atom;
        if (!v->def || v->def->op != OP_MUL) continue;
        for (int k = 0; k < 2; k++) {
            *stride = ir_operand(v->def, 1 - k);
            if (ir_operand(v->def, k) == j && ir_defined_outside(*stride, p->loop->blocks[0]) &&
                at_least_one(p->facts, *stride) && multiplies_exactly(p->facts, v->def))
                return v;
        }
    }
    return *stride = NULL;
}

/* The form as a condition on the loop's variable; false when it depends on something else in the loop. */
static bool condition_of(Peel *p, Instr *i, const Affine *form, Condition *out)
{
    Value *j = p->loop->blocks[0]->args[0];
    *out = (Condition){ .instr = i, .rest = *form };
    out->coef = affine_coef(p->facts, form, j);
    Affine var;
    Value *v = out->coef ? j : strided_term(p, form, &out->stride);
    if (!v) v = j;
    else if (v != j) out->coef = affine_coef(p->facts, form, v);
    if (!affine_of(p->facts, v, &var) || !affine_add(&out->rest, &var, -out->coef)) return false;
    out->proven = prove_nonneg(p->facts, form);
    return out->proven || (!never(p, form) && outside_only(p, &out->rest));
}

static bool full(const Peel *p, int more) { return p->n + more > MAX_CONDITIONS; }

static void add_compare(Peel *p, Instr *i)
{
    Affine form;
    Condition c;
    if (!is_tile(&i->results[0]) || full(p, 1) || !compare_form(p->facts, i, &form) ||
        !condition_of(p, i, &form, &c))
        return;
    p->conditions[p->n++] = c;
    p->useful |= !c.proven;
}

/* TMA moves windows with a contiguous inner axis, other strides and base in units of 16 bytes, pad zero,
 * steps of 1. */
static bool checked_by_hardware(const Peel *p, const Instr *i, const MemParts *m)
{
    const Target *t = p->c->options->target;
    const Param *q = &p->loop->block->func->params[m->param];
    if (!t || !target_has(t, TF_TMA) || i->op != OP_LOAD || m->pad || ir_attr(i, ATTR_STEPS) || q->align % 16)
        return false;
    int inner = 0;
    for (int a = 0; a < m->rank; a++) {
        if (q->stride[a] == 1) {
            inner++;
            continue;
        }
        int64_t d = ir_stride_step(q, a);
        if (d * dtype_bytes(q->type->dtype) % 16) return false;
    }
    return inner == 1;
}

static void add_window(Peel *p, Instr *i)
{
    MemParts m;
    Condition found[2 * TILE_MAX_RANK];
    int n = 0;
    bool open = false;
    if (!ir_attr_int(i, ATTR_MASKED, 1) || !ir_mem_parts(i, &m)) return;
    for (int a = 0; a < m.rank; a++) {
        Affine form[2];
        if (!window_forms(p->facts, i, a, &form[0], &form[1])) return;
        for (int s = 0; s < 2; s++) {
            if (!condition_of(p, i, &form[s], &found[n])) return;
            open |= !found[n].proven;
            n++;
        }
    }
    if (full(p, n)) return;
    for (int k = 0; k < n; k++) p->conditions[p->n++] = found[k];
    p->useful |= open && !checked_by_hardware(p, i, &m);
}

static int collect(Peel *p, Block *b)
{
    int size = 0;
    for (Instr *i = b->first; i; i = i->next) {
        size++;
        if (i->op == OP_LOAD || i->op == OP_STORE) add_window(p, i);
        else if (i->op == OP_LT || i->op == OP_LE || i->op == OP_GT || i->op == OP_GE) add_compare(p, i);
        for (int k = 0; k < i->n_blocks; k++) size += collect(p, i->blocks[k]);
    }
    return size;
}

/* --- bounds ------------------------------------------------------------------------------------------ */

/* Emission counts forms, not instructions: the same bound from several conditions (a mask and the load beside
 * it) is made once. */
static bool same_condition(const Condition *a, const Condition *b)
{
    Affine d = a->rest;
    if (a->coef != b->coef || a->stride != b->stride || !affine_add(&d, &b->rest, -1)) return false;
    return d.n == 0 && d.constant == 0;
}

static bool repeated(const Peel *p, int k)
{
    for (int n = 0; n < k; n++)
        if (!p->conditions[n].proven && same_condition(&p->conditions[n], &p->conditions[k])) return true;
    return false;
}

typedef struct Split {
    Value *from, *to;
    bool below;
} Split; /* the main iterations are [from, to); below: edge iterations come before them */

/* j <= floor(rest / -coef), as an exclusive end; exact where it is >= 0, and else <= 0 (the loop starts at 0
 * or later). */
static Value *upper(Builder *b, const Condition *c)
{
    Affine a = c->rest;
    int64_t d = -c->coef;
    if (__builtin_add_overflow(a.constant, d, &a.constant)) return NULL;
    Value *v = affine_emit(b, &a);
    if (d != 1) v = ir_bin(b, OP_DIV, v, ir_index(b, d));
    if (!c->stride) return v;
    Value *s = ir_cast(b, c->stride, DT_INDEX); /* j*s < v: j < ceil(v / s) */
    return ir_bin(b, OP_DIV, ir_bin(b, OP_ADD, v, ir_bin(b, OP_SUB, s, ir_index(b, 1))), s);
}

/* j >= ceil(-rest / coef) */
static Value *lower(Builder *b, const Condition *c)
{
    Affine a = { 0 };
    if (!affine_add(&a, &c->rest, -1)) return NULL;
    Value *zero = ir_index(b, 0), *v = ir_bin(b, OP_MAX, affine_emit(b, &a), zero);
    if (c->coef != 1) v = ir_bin(b, OP_CDIV, v, ir_index(b, c->coef));
    return c->stride ? ir_bin(b, OP_CDIV, v, ir_cast(b, c->stride, DT_INDEX)) : v;
}

static bool emit_split(Peel *p, Builder *b, Split *s)
{
    DType d = p->loop->blocks[0]->args[0]->type->dtype;
    Value *lo = ir_cast(b, ir_operand(p->loop, 0), DT_INDEX),
          *hi = ir_cast(b, ir_operand(p->loop, 1), DT_INDEX), *ok = NULL;
    *s = (Split){ lo, hi, false };
    for (int k = 0; k < p->n; k++) {
        const Condition *c = &p->conditions[k];
        Value *v;
        if (c->proven || repeated(p, k)) continue;
        if (c->coef > 0) {
            if (!(v = lower(b, c))) return false;
            s->from = ir_bin(b, OP_MAX, s->from, v);
            s->below = true;
        } else if (c->coef < 0) {
            if (!(v = upper(b, c))) return false;
            s->to = ir_bin(b, OP_MIN, s->to, v);
        } else {
            Value *zero = ir_index(b, 0);
            v = ir_bin(b, OP_GE, affine_emit(b, &c->rest), zero);
            ok = ok ? ir_bin(b, OP_AND, ok, v) : v;
        }
    }
    if (s->below) s->from = ir_bin(b, OP_MAX, ir_bin(b, OP_MIN, s->from, hi), lo);
    s->to = ir_bin(b, OP_MAX, s->to, s->from);
    if (ok) s->to = ir_op(b, OP_WHERE, NULL, NO_ATTRS, ok, s->to, s->from);
    s->from = ir_cast(b, s->from, d);
    s->to = ir_cast(b, s->to, d);
    return true;
}

/* --- the split --------------------------------------------------------------------------------------- */

/* A copy of the loop over [from, to) that starts with the results of `before` (NULL: the loop's own initial
 * values). */
static Instr *copy_loop(Peel *p, Builder *b, Value *from, Value *to, Instr *before, ValueMap *map)
{
    value_map_init(map, p->c->scratch);
    Instr *copy = ir_clone(b, p->loop, map);
    ir_set_operand(copy, 0, from);
    ir_set_operand(copy, 1, to);
    for (int k = 0; before && k < copy->n_results; k++) ir_set_operand(copy, 3 + k, &before->results[k]);
    return copy;
}

static void remove_masks(Peel *p, const ValueMap *map)
{
    for (int k = 0; k < p->n; k++) {
        Instr *old = p->conditions[k].instr;
        if (old->n_results == 0 || (k && p->conditions[k - 1].instr == old)) continue;
        Instr *i = value_map_get(map, &old->results[0])->def;
        if (i->op == OP_LOAD || i->op == OP_STORE) {
            ir_set_attr(p->c->session, i, a_int(ATTR_MASKED, 0));
            p->accesses++;
        } else {
            Builder b = ir_before(i);
            replace_value(&i->results[0], build_int(&b, i->results[0].type, 1));
            p->compares++;
        }
    }
}

static void mark_edge(Peel *p, Instr *loop) { ir_set_attr(p->c->session, loop, a_int(ATTR_LOOP, LOOP_EDGE)); }

static bool split(Peel *p)
{
    Builder b = ir_before(p->loop);
    Split s;
    ValueMap map;
    Instr *first = NULL;
    if (!emit_split(p, &b, &s)) return false;
    Value *lo = ir_operand(p->loop, 0);
    if (s.below) {
        first = copy_loop(p, &b, lo, s.from, NULL, &map);
        mark_edge(p, first);
    }
    Instr *main = copy_loop(p, &b, s.from, s.to, first, &map);
    remove_masks(p, &map);
    ir_set_operand(p->loop, 0, s.to);
    for (int k = 0; k < p->loop->n_results; k++) ir_set_operand(p->loop, 3 + k, &main->results[k]);
    mark_edge(p, p->loop);
    p->split++;
    return true;
}

/* --- masks in a branch ------------------------------------------------------------------------------- */

static bool compares(const Instr *i) { return op_family(i->op) == OPS_COMPARE; }

/* Whether the bool tile is true for all elements where the comparisons of the conditions are. */
static bool holds(const Peel *p, const Value *v)
{
    const Instr *d = v->def;
    if (!d) return false;
    for (int k = 0; k < p->n && compares(d); k++)
        if (p->conditions[k].instr == d) return true;
    if (d->op == OP_AND) return holds(p, ir_operand(d, 0)) && holds(p, ir_operand(d, 1));
    if (d->op == OP_OR) return holds(p, ir_operand(d, 0)) || holds(p, ir_operand(d, 1));
    return op_has(d->op, OPF_WHOLE) && d->n_operands == 1 && holds(p, ir_operand(d, 0));
}

static bool used_only_in(const Value *v, const Block *b)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->block != b) return false;
    return v->uses;
}

/* Moves into the block what only it uses of the tiles computed before `branch`. */
static void move_into(Block *to, Instr *branch)
{
    for (Instr *i = branch->prev, *before; i; i = before) {
        before = i->prev;
        if (i->n_results != 1 || !is_tile(&i->results[0]) || !used_only_in(&i->results[0], to)) continue;
        if (i->op != OP_SPLAT && !op_has(i->op, OPF_ELEM) && !op_has(i->op, OPF_WHOLE)) continue;
        ir_unlink(i);
        Builder b = ir_before(to->first);
        ir_place(&b, i);
    }
}

/* Moves the select into the second block of a branch, whose first one passes the unmasked tile on. */
static void branch_around(Instr *select, Value *main)
{
    Builder b = ir_before(select);
    const Type *t = ir_result(select)->type;
    Instr *branch = ir_build(&b, OP_IF, &main, 1, NO_ATTRS, &t, 1);
    Value *unmasked = ir_operand(select, 1), *masked = ir_result(select);
    ir_replace(masked, ir_result(branch));
    Builder in = ir_at_end(branch->blocks[0]);
    ir_build(&in, OP_YIELD, &unmasked, 1, NO_ATTRS, NULL, 0);
    in = ir_at_end(branch->blocks[1]);
    ir_unlink(select);
    ir_place(&in, select);
    ir_build(&in, OP_YIELD, &masked, 1, NO_ATTRS, NULL, 0);
    move_into(branch->blocks[1], branch);
}

static bool is_masked(const Peel *p, const Instr *i)
{ return i->op == OP_WHERE && is_tile(&i->results[0]) && holds(p, ir_operand(i, 0)); }

/* Whether selects in the loop's own block depend on comparisons of unknown result, and each of them has the
 * sums of a product: the branch passes on what is stored already. A tile that is computed would be stored for
 * it. */
static bool masks_sums(const Peel *p)
{
    bool any = false, open = false;
    for (int k = 0; k < p->n; k++) open |= compares(p->conditions[k].instr) && !p->conditions[k].proven;
    for (const Instr *i = p->loop->blocks[0]->first; i; i = i->next) {
        if (!is_masked(p, i)) continue;
        const Instr *x = ir_operand(i, 1)->def;
        if (!x || x->op != OP_MMA || x->block != i->block) return false;
        any = true;
    }
    return any && open;
}

static bool branch_loop(Peel *p)
{
    Block *body = p->loop->blocks[0];
    Split s;
    int n = 0;
    for (int k = 0; k < p->n; k++) /* windows keep their masks */
        if (compares(p->conditions[k].instr)) p->conditions[n++] = p->conditions[k];
    p->n = n;
    Builder b = ir_before(p->loop);
    if (!emit_split(p, &b, &s)) return false;
    Instr *first = body->first;
    b = ir_before(first);
    Value *j = body->args[0], *main = ir_bin(&b, OP_LT, j, s.to);
    if (s.below) main = ir_bin(&b, OP_AND, ir_bin(&b, OP_GE, j, s.from), main);
    for (Instr *i = first, *next; i; i = next) {
        next = i->next;
        if (!is_masked(p, i)) continue;
        branch_around(i, main);
        p->branches++;
    }
    return true;
}

static bool innermost(const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (is_loop(i)) return false;
        for (int k = 0; k < i->n_blocks; k++)
            if (!innermost(i->blocks[k])) return false;
    }
    return true;
}

static bool suitable(const Instr *i)
{
    int64_t step;
    if (i->op != OP_FOR || !innermost(i->blocks[0]) || ir_loop_is(i, LOOP_EDGE)) return false;
    return ir_is_const(ir_operand(i, 2), &step) && step == 1;
}

static bool is_for_cpu(const PassContext *c)
{ return c->options->target && c->options->target->kind == TARGET_CPU; }

static bool has_product(const Instr *loop)
{
    for (const Instr *i = loop->blocks[0]->first; i; i = i->next)
        if (i->op == OP_MMA) return true;
    return false;
}

/* On a GPU a loop with products stays whole: products are in flight across its iterations, and the kernel
 * IR's mask-branch makes the masks cost a uniform branch. */
static bool left_to_kernel(const PassContext *c, const Instr *loop)
{ return c->options->target && !is_for_cpu(c) && has_product(loop); }

static bool peel_block(PassContext *c, Func *f, Block *b, Peel *total)
{
    bool progress = false;
    for (Instr *i = b->first, *next; i; i = next) {
        next = i->next;
        Peel *p = total;
        p->loop = i;
        p->n = 0;
        p->useful = false;
        if (suitable(i) && left_to_kernel(c, i)) continue;
        if (suitable(i)) {
            p->facts = facts_new(c->scratch, f);
            if (value_range(p->facts, ir_operand(i, 0)).lo < 0) continue;
            if (collect(p, i->blocks[0]) > MAX_BODY || !p->useful) continue;
            progress |= has_product(i) && is_for_cpu(c) && masks_sums(p) ? branch_loop(p) : split(p);
            continue;
        }
        for (int k = 0; k < i->n_blocks; k++) progress |= peel_block(c, f, i->blocks[k], total);
    }
    return progress;
}

static bool mask_peel_func(PassContext *c, Func *f)
{
    Peel *p = arena_new(c->scratch, Peel);
    p->c = c;
    bool progress = peel_block(c, f, f->body, p);
    pass_count(c, "loops split", p->split);
    pass_count(c, "accesses without masks in main loops", p->accesses);
    pass_count(c, "comparisons true in main loops", p->compares);
    pass_count(c, "selects in branches", p->branches);
    return progress;
}

bool pass_mask_peel(PassContext *c, Module *m) { return pass_each_func(c, m, mask_peel_func); }
