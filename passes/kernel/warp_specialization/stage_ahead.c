/* stage_ahead.c: of staged-operands: right operands that consumers compute from what the step loads are
 * written while a product of the step is on the matrix unit: those that the next step begins with a step
 * ahead, the others in their step.
 *
 *   for j { %x = f(j); %s = mma_sync %q, %x, 0; %v = g(j); .. %s ..; %o = mma_sync %p, %v, %acc }
 *
 * becomes
 *
 *   if lo < hi { shared_write stage 0, f(lo); barrier }
 *   for j { %s = mma_sync %q, stage j & 1, 0
 *           if j + 1 < hi { shared_write stage (j + 1) & 1, f(j + 1) }
 *           shared_write stage j & 1, g(j)
 *           wait for %s; barrier {half = 1}
 *           .. %s ..
 *           barrier {half = 2}; %o = mma_sync %p, stage j & 1, %acc }
 *
 * A warp arrives when it has written and has waited for the step's first products. Behind the other half it
 * reads what all warps have written, and may write stages that these products have read. The stage of a later
 * product is written again two steps on, behind the next step's halves, at which each warp arrives when it
 * has waited for that product. The second half stands in front of the first product that reads what its own
 * step has written, else at the end of the step.
 *
 * Requires: what the operands are computed from is computed of loads of the step and from outside of the
 * loop, and the stages of rings among it are taken for one operand alone; no operand is an accumulator's
 * neighbour in a chain of products. Otherwise staged_operands.c writes each operand in front of its product.
 */
#include "passes/kernel/pipeline/software_pipelining.h"
#include "passes/kernel/warp_specialization/warp_specialization.h"

enum { MOST_RIGHT = 4 };

typedef struct Ahead {
    Roles *c;
    Instr *loop, *anchor; /* the last product that is issued before operands are written */
    Block *body;
    RightOperand right[MOST_RIGHT];
    bool *in_slice[MOST_RIGHT], late[MOST_RIGHT]; /* by mark: what the operand is computed of */
    int n;
} Ahead;

/* Puts what the operand is computed of in the step to its slice. */
static bool slice(Ahead *x, int k, const Value *v)
{
    const Instr *d = v->def;
    if (ir_defined_outside(v, x->body)) return true;
    if (!d) return v->index == 0;
    if (d->block != x->body || d->n_blocks || d->n_results != 1) return false;
    if (x->in_slice[k][d->mark]) return true;
    bool reads = d->op == OP_SHARED_READ || d->op == OP_RING_GET || d->op == OP_LOAD;
    if (op_family(d->op) == OPS_PRODUCT || (!reads && !op_is_pure(d->op))) return false;
    x->in_slice[k][d->mark] = true;
    for (int o = 0; o < d->n_operands; o++)
        if (ir_operand(d, o)->type->kind == TYPE_TOKEN || !slice(x, k, ir_operand(d, o))) return false;
    return true;
}

static bool takes_stage(const Instr *i) { return i->op == OP_RING_GET || i->op == OP_SHARED_READ; }

/* The slice that alone takes the stage; -1: there is none, or something else uses it. */
static int owner(const Ahead *x, const Instr *i)
{
    int of = -1;
    for (int k = 0; k < x->n; k++) {
        if (!x->in_slice[k][i->mark]) continue;
        if (of >= 0) return -1;
        of = k;
    }
    for (const Use *u = of < 0 ? NULL : i->results[0].uses; u; u = u->next)
        if (u->user->block != x->body || !x->in_slice[of][u->user->mark]) return -1;
    return of;
}

/* Gives the slices the releases of the stages that they take. All stages of such a ring are taken for one
 * operand. */
static bool own_stages(Ahead *x)
{
    for (Instr *i = x->body->first; i; i = i->next) {
        bool any = false;
        for (int k = 0; k < x->n; k++) any |= x->in_slice[k][i->mark];
        if (!any || !takes_stage(i)) continue;
        int of = owner(x, i);
        if (of < 0) return false;
        if (i->op != OP_RING_GET) continue;
        for (Instr *r = x->body->first; r; r = r->next) {
            if (r->op == OP_RING_GET && ir_operand(r, 0) == ir_operand(i, 0) && owner(x, r) != of)
                return false;
            if (r->op == OP_RING_RELEASE && ir_operand(r, 0) == ir_operand(i, 0))
                x->in_slice[of][r->mark] = true;
        }
    }
    return true;
}

/* Whether another product adds to the result, so that it is not waited for by itself. */
static bool is_added_to(const Instr *product)
{
    for (const Use *u = ir_result(product)->uses; u; u = u->next)
        if (u->user->op == OP_MMA_SYNC && u == &u->user->operands[2]) return true;
    return false;
}

/* Tells operands of products that need another product of the step from the others, and finds the anchor. */
static bool order(Ahead *x)
{
    Instr *first = NULL;
    for (Instr *p = x->body->first; p; p = p->next) {
        if (p->op != OP_MMA_SYNC) continue;
        if (!first) first = p;
        kernel_mark_dependents(x->body, ir_result(p));
        for (int k = 0; k < x->n; k++) x->late[k] |= x->right[k].product->mark != 0;
    }
    x->anchor = first;
    for (Instr *p = x->body->first; p; p = p->next)
        for (int k = 0; k < x->n; k++)
            if (x->right[k].product == p && !x->late[k]) x->anchor = p;
    uint32_t n = 1; /* what is added to the body has no number */
    bool passed = false;
    for (Instr *p = x->body->first; p; p = p->next) {
        for (int k = 0; k < x->n && passed; k++)
            if (x->right[k].product == p && !x->late[k]) return false;
        for (int k = 0; k < x->n && !passed; k++)
            if (x->right[k].product == p && x->late[k]) return false;
        passed |= p == x->anchor;
        p->mark = n++;
    }
    for (int k = 0; k < x->n; k++)
        if (is_added_to(x->right[k].product)) return false;
    return !is_added_to(x->anchor);
}

static bool find(Ahead *x)
{
    Roles *c = x->c;
    uint32_t n = 1;
    for (size_t k = 0; k < c->products.len; k++) {
        Instr *p = c->products.data[k];
        if (p->block != x->body) continue;
        if (roles_staged(c, p) || x->n == MOST_RIGHT) return false;
        if (roles_right_operand(c, p, &x->right[x->n])) x->n++;
    }
    if (!x->n || !order(x)) return false;
    for (const Instr *i = x->body->first; i; i = i->next) {
        if (i->op == OP_BARRIER) return false;
        n++;
    }
    for (int k = 0; k < x->n; k++) {
        x->in_slice[k] = arena_array(&c->s->arena, bool, n);
        if (!slice(x, k, x->right[k].x)) return false;
    }
    return own_stages(x);
}

/* Computes the operand of the step that `at` counts, and writes it to its stage. */
static void write_step(Ahead *x, int k, Builder *b, Value *at, Value *buffer)
{
    ValueMap map;
    value_map_init(&map, &x->c->s->arena);
    value_map_set(&map, x->body->args[0], at);
    for (Instr *i = x->body->first; i; i = i->next)
        if (x->in_slice[k][i->mark]) ir_clone(b, i, &map);
    Value *view = roles_stage_of(b, x->loop, at, buffer);
    ir_build(
        b, OP_SHARED_WRITE, (Value *[]){ view, value_map_get(&map, x->right[k].x) }, 2, NO_ATTRS, NULL, 0);
}

/* Lets the product read the stage of its step. */
static void read_stage(Ahead *x, int k, Value *buffer)
{
    const RightOperand *r = &x->right[k];
    Instr *permute = r->transposed ? ir_operand(r->product, 1)->def : NULL;
    Builder b = ir_before(r->product);
    Value *view = roles_stage_of(&b, x->loop, x->body->args[0], buffer);
    if (permute) view = roles_transposed_view(x->c, &b, view);
    view->name = r->x->name;
    ir_set_operand(r->product, 1, view);
    if (permute) ir_erase(permute);
}

/* A branch with what is done if the loop's bound lies behind `at`. */
static Builder if_before_end(Ahead *x, Builder *b, Value *at)
{
    Value *some = ir_bin(b, OP_LT, at, ir_operand(x->loop, 1));
    Instr *cond = ir_build(b, OP_IF, &some, 1, NO_ATTRS, NULL, 0);
    for (int k = 0; k < 2; k++) {
        Builder in = ir_at_end(cond->blocks[k]);
        ir_build(&in, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    }
    return ir_before(cond->blocks[0]->first);
}

static void half(Builder *b, int which)
{ ir_build(b, OP_BARRIER, NULL, 0, which ? ATTRS(a_int(ATTR_HALF, which)) : NO_ATTRS, NULL, 0); }

static void write_operands(Ahead *x, Value **buffer)
{
    Value *counter = x->body->args[0];
    Builder before = ir_before(x->loop), behind = ir_after(x->anchor);
    bool early = false;
    for (int k = 0; k < x->n; k++) early |= !x->late[k];
    Builder first = early ? if_before_end(x, &before, ir_operand(x->loop, 0)) : before;
    Value *next = ir_bin(&behind, OP_ADD, counter, ir_operand(x->loop, 2));
    Builder ahead = early ? if_before_end(x, &behind, next) : behind;
    for (int k = 0; k < x->n; k++) {
        if (x->late[k]) continue;
        write_step(x, k, &first, ir_operand(x->loop, 0), buffer[k]);
        write_step(x, k, &ahead, next, buffer[k]);
    }
    if (early) half(&first, 0);
    for (int k = 0; k < x->n; k++)
        if (x->late[k]) write_step(x, k, &behind, counter, buffer[k]);
    half(&behind, BARRIER_ARRIVES);
}

/* Erases what the slices have taken over. */
static void erase_slices(Ahead *x, Instr *last)
{
    for (Instr *i = last, *before; i; i = before) {
        before = i->prev;
        for (int k = 0; k < x->n; k++)
            if (x->in_slice[k][i->mark] && (i->op == OP_RING_RELEASE || !ir_is_used(i))) {
                ir_erase(i);
                break;
            }
    }
}

bool roles_stage_ahead(Roles *c, Block *body)
{
    Ahead x = { .c = c, .loop = body->parent, .body = body };
    Value *buffer[MOST_RIGHT];
    if (!find(&x)) return false;
    Instr *late = NULL, *end = ir_terminator(body);
    for (int k = 0; k < x.n; k++) buffer[k] = roles_stage_buffer(c, x.right[k].x->type, x.right[k].layout);
    write_operands(&x, buffer);
    for (int k = 0; k < x.n; k++) read_stage(&x, k, buffer[k]);
    for (Instr *i = x.anchor->next; i && !late; i = i->next)
        for (int k = 0; k < x.n; k++)
            if (x.late[k] && x.right[k].product == i) late = i;
    Builder b = ir_before(late ? late : end);
    half(&b, BARRIER_WAITS);
    b = ir_after(x.loop);
    if (late) half(&b, 0);
    erase_slices(&x, end->prev);
    return true;
}

static bool is_outcome(const Instr *i) { return i->op == OP_WGMMA_WAIT || i->op == OP_RING_RELEASE; }

/* Whether something before the instruction `end`, which stands behind the wait, uses what it hands on. Marks
 * count the block's instructions. */
static bool is_used_before(const Instr *wait, const Instr *end)
{
    for (int k = 0; k < wait->n_results; k++)
        for (const Use *u = wait->results[k].uses; u; u = u->next) {
            const Instr *i = ir_within(wait->block, u->user);
            if (i && i->mark < end->mark) return true;
        }
    return false;
}

/* The waits for the products before the first half of the barrier, and the releases of what they read, stand
 * behind what is written meanwhile. */
void roles_wait_behind_writes(Roles *c, Instr *arrives)
{
    InstrList moved = { 0 };
    uint32_t n = 0;
    for (Instr *i = arrives->block->first; i; i = i->next) i->mark = n++;
    for (Instr *i = arrives->prev; i && !(i->op == OP_WGMMA_WAIT && is_used_before(i, arrives)); i = i->prev)
        if (is_outcome(i)) vec_push(&c->s->arena, &moved, i);
    Builder b = ir_before(arrives);
    for (size_t k = moved.len; k-- > 0;) {
        ir_unlink(moved.data[k]);
        ir_place(&b, moved.data[k]);
    }
}
