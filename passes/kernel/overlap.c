/* mma-pipeline: asynchronous products overlapped with the arithmetic that does not need them.
 *
 * The loop's operations form a graph; products run on the matrix unit while the warpgroup's arithmetic runs beside it, if the
 * program's order lets both be in flight. Two shapes of body follow from the dependences:
 *
 * 1. Chain: every product adds to a carried accumulator that nothing else in the body touches (matrix multiplication). The wait
 *    for step i moves behind the issue of step i+1; slots are given back one step later.
 *
 * 2. Rotation: a late product needs, through arithmetic, the result of an early product of the same step, and the early one does
 *    not need the late one's (attention: P V after softmax(Q K)). The early part runs one step ahead, so that
 *    its arithmetic runs while the late product of the step before is on the matrix unit:
 *
 *        early(lo)
 *        for j = lo + step ..: issue early products of j; issue late products of j - step;
 *                              wait for the early ones; arithmetic of j; wait for the late ones
 *        late(last)
 *
 *    What the late part needs of its step's early part is carried. Operations that repeat values (broadcasts) move to
 *    their users instead; casts that only feed the late part are done after its wait, which keeps fewer registers alive.
 *
 * Neither shape: every product is waited for where it was issued. */
#include "passes/kernel/overlap.h"

typedef VEC(Instr *) Instrs;
typedef VEC(Value *) Values;

typedef struct Ctx { Session *s; Func *f; KernelPlan *p; Instrs loops; Text note; } Ctx;

static bool is_wait_of(const Instr *w, const Instr *product)
{
    return w->op == OP_WGMMA_WAIT && w->n_operands == 1 && ir_operand(w, 0) == ir_result(product);
}

static Instr *wait_of(Instr *product)
{
    Use *u = ir_result(product)->uses;
    return u && !u->next && is_wait_of(u->user, product) ? u->user : NULL;
}

static void products_in(Ctx *c, Block *b, Instrs *out)
{
    for (Instr *i = b->first; i; i = i->next) if (i->op == OP_WGMMA) vec_push(&c->s->arena, out, i);
}

/* --- 1: chains -------------------------------------------------------------------------------------------------------------------- */

static bool is_chain(Instr *loop, Instr *product)
{
    Block *body = loop->blocks[0];
    Value *acc = ir_operand(product, 2);
    Instr *wait = wait_of(product);
    if (acc->def || acc->block != body || acc->index == 0 || ir_use_count(acc) != 1 || !wait) return false;
    Value *r = ir_result(wait);
    return r->uses && !r->uses->next && r->uses->user == ir_terminator(body) && ir_operand(ir_terminator(body), acc->index - 1) == r;
}

static int gets_of(const Block *body, const Value *ring)
{
    int n = 0;
    for (const Instr *i = body->first; i; i = i->next) n += i->op == OP_RING_GET && ir_operand(i, 0) == ring;
    return n;
}

/* A step's slots are given back after the next step's were got: rings of fewer slots than both take would never fill. */
static bool slots_for_two(Ctx *c, const Instr *loop)
{
    const Block *body = loop->blocks[0];
    for (const Instr *i = body->first; i; i = i->next) {
        if (i->op != OP_RING_GET || ir_operand(i, 0)->type->shape[0] >= 2 * gets_of(body, ir_operand(i, 0))) continue;
        diag_perf(c->s, i->loc, "products of this loop are waited for where they are issued: shared memory holds the tiles of one step only");
        return false;
    }
    return true;
}

static void release_before(Ctx *c, Builder *b, Instr *loop, Instrs *releases, bool guarded)
{
    Value *some = guarded ? ir_bin(b, OP_GT, loop->blocks[0]->args[0], ir_operand(loop, 0)) : ir_bin(b, OP_LT, ir_operand(loop, 0), ir_operand(loop, 1));
    Instr *cond = ir_build(b, OP_IF, &some, 1, NO_ATTRS, NULL, 0);
    for (int k = 0; k < 2; k++) {
        Builder in = ir_at_end(cond->blocks[k]);
        for (size_t r = 0; k == 0 && r < releases->len; r++) {
            Value *ring = ir_operand(releases->data[r], 0);
            ir_build(&in, OP_RING_RELEASE, &ring, 1, NO_ATTRS, NULL, 0);
        }
        ir_build(&in, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    }
}

static void delay_waits(Ctx *c, Instr *loop, Instrs *products)
{
    Block *body = loop->blocks[0];
    Instrs releases = { 0 };
    Values accs = { 0 };
    for (size_t k = 0; k < products->len; k++) {
        Instr *p = products->data[k], *w = wait_of(p);
        vec_push(&c->s->arena, &accs, &loop->results[ir_operand(p, 2)->index - 1]);
        ir_replace(ir_result(w), ir_result(p));
        ir_erase(w);
    }
    for (Instr *i = body->first, *next; i; i = next) {
        next = i->next;
        if (i->op == OP_RING_RELEASE) { vec_push(&c->s->arena, &releases, i); ir_unlink(i); }
    }
    Builder b = ir_before(ir_terminator(body));
    ir_build(&b, OP_WGMMA_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, (int64_t)products->len)), NULL, 0);
    release_before(c, &b, loop, &releases, true);
    b = ir_after(loop);
    Instr *wait = ir_build(&b, OP_WGMMA_WAIT, accs.data, (int)accs.len, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    for (size_t k = 0; k < accs.len; k++) {
        ir_replace(accs.data[k], &wait->results[k]);
        ir_set_operand(wait, (int)k, accs.data[k]);
    }
    release_before(c, &b, loop, &releases, false);
    for (size_t r = 0; r < releases.len; r++) ir_set_operands(releases.data[r], NULL, 0);
    text_printf(&c->note, "  chain: the wait for a product stands behind the issue of the next step's\n");
}

/* --- 2: rotation --------------------------------------------------------------------------------------------------------------------- */

/* late[id]: the value belongs to the late part */
typedef struct Split { bool *late; uint32_t n; Instr *loop; Block *body; Instr *product; } Split;

static bool depends(const Value *v, const Value *on, const Block *body, int depth);

static bool instr_depends(const Instr *i, const Value *on, const Block *body, int depth)
{
    for (int k = 0; k < i->n_operands; k++) if (depends(ir_operand(i, k), on, body, depth)) return true;
    for (int b = 0; b < i->n_blocks; b++)
        for (const Instr *x = i->blocks[b]->first; x; x = x->next) if (instr_depends(x, on, body, depth)) return true;
    return false;
}

static bool depends(const Value *v, const Value *on, const Block *body, int depth)
{
    if (v == on) return true;
    if (depth > 200 || !v->def || v->def->block != body) return false;
    return instr_depends(v->def, on, body, depth + 1);
}

static bool late_instr(const Split *s, const Instr *i)
{
    if (i == s->product) return true;
    for (int k = 0; k < i->n_results; k++) if (s->late[i->results[k].id]) return true;
    return false;
}

static bool uses_late(const Split *s, const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) if (s->late[ir_operand(i, k)->id]) return true;
    for (int b = 0; b < i->n_blocks; b++)
        for (const Instr *x = i->blocks[b]->first; x; x = x->next) if (uses_late(s, x)) return true;
    return false;
}

/* Everything that the late product's results reach, around the loop's carried values too. */
static void spread(Split *s)
{
    for (int k = 0; k < s->product->n_results; k++) s->late[s->product->results[k].id] = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (Instr *i = s->body->first; i; i = i->next) {
            if (op_info[i->op].flags & OPF_TERM) {
                for (int k = 0; k < i->n_operands; k++) {
                    Value *arg = s->body->args[k + 1];
                    if (s->late[ir_operand(i, k)->id] && !s->late[arg->id]) changed = s->late[arg->id] = true;
                }
                continue;
            }
            if (!uses_late(s, i)) continue;
            for (int k = 0; k < i->n_results; k++) if (!s->late[i->results[k].id]) changed = s->late[i->results[k].id] = true;
        }
    }
}

static Instr *release_of(Instr *get)
{
    for (Instr *i = get->next; i; i = i->next)
        if (i->op == OP_RING_RELEASE && ir_operand(i, 0) == ir_operand(get, 0)) return i;
    return NULL;
}

typedef struct Parts { Instrs early_issue, early_rest, early_casts, late_issue, late_wait; } Parts;

/* The instruction of the body that is, or holds, i. */
static const Instr *in_body(const Split *s, const Instr *i)
{
    while (i->block != s->body && i->block->parent) i = i->block->parent;
    return i;
}

static bool only_crosses(const Split *s, const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next) if (!late_instr(s, in_body(s, u->user))) return false;
    return true;
}

/* Sorts the body's instructions into the order of the rotated step. False when something stands in the way. */
static bool sort_parts(Ctx *c, Split *s, Parts *p, Instrs *pull)
{
    bool issued = false;        /* an early product was issued: what follows its first wait is the rest */
    Instr *late_get[2] = { NULL, NULL };
    for (int k = 0; k < 2; k++) {
        Value *v = ir_operand(s->product, k);
        if (v->type->kind == TYPE_SHARED && v->def && v->def->op == OP_RING_GET && v->def->block == s->body && ir_use_count(v) == 1) late_get[k] = v->def;
        /* the producer fills a ring in the program's order: one that feeds both parts cannot be read in the rotated one */
        if (late_get[k] && gets_of(s->body, ir_operand(late_get[k], 0)) > 1) return false;
    }
    for (Instr *i = s->body->first; i; i = i->next) {
        if (op_info[i->op].flags & OPF_TERM) break;
        if (i == late_get[0] || i == late_get[1]) { vec_push(&c->s->arena, &p->late_issue, i); continue; }
        if (i->op == OP_RING_RELEASE) {
            bool late = false;
            for (int k = 0; k < 2; k++) if (late_get[k] && release_of(late_get[k]) == i) late = true;
            vec_push(&c->s->arena, late ? &p->late_wait : &p->early_rest, i);
            continue;
        }
        if (late_instr(s, i)) {
            bool after = instr_depends(i, ir_result(s->product), s->body, 0);
            if (i->op == OP_FOR || i->op == OP_WHILE) return false;
            vec_push(&c->s->arena, after ? &p->late_wait : &p->late_issue, i);
            continue;
        }
        if (i->op == OP_WGMMA_WAIT) issued = true;
        if ((i->op == OP_BROADCAST || i->op == OP_SPLAT) && only_crosses(s, ir_result(i)) && ir_result(i)->uses) {
            vec_push(&c->s->arena, pull, i);
            vec_push(&c->s->arena, &p->late_issue, i);
            s->late[ir_result(i)->id] = true;
            continue;
        }
        if (!issued) vec_push(&c->s->arena, &p->early_issue, i);
        else if (i->op == OP_CAST && only_crosses(s, ir_result(i)) && ir_result(i)->type->kind == TYPE_TILE) vec_push(&c->s->arena, &p->early_casts, i);
        else vec_push(&c->s->arena, &p->early_rest, i);
    }
    /* the late part keeps program order: pulled broadcasts were met before their users */
    return issued;
}

static void clone_list(Ctx *c, Builder *b, const Instrs *list, ValueMap *map, int depth)
{
    for (size_t k = 0; k < list->len; k++) {
        Instr *n = ir_clone(b, list->data[k], map);
        if (n->op == OP_WGMMA_WAIT && depth >= 0) ir_set_attr(c->s, n, a_int(ATTR_DEPTH, depth));
    }
}

/* Consumer warpgroups take turns to issue: one's products run while the other does its arithmetic. */
static void turn(Ctx *c, Builder *b, Op op)
{
    if (c->p->warps > 4 && (c->p->options.turns || (c->p->warps >= 12 && !c->p->options.no_turns))) ir_build(b, op, NULL, 0, NO_ATTRS, NULL, 0);
}

static void clone_early(Ctx *c, Builder *b, const Parts *p, ValueMap *map)
{
    turn(c, b, OP_TURN_WAIT);
    clone_list(c, b, &p->early_issue, map, -1);
    turn(c, b, OP_TURN_PASS);
    clone_list(c, b, &p->early_rest, map, 0);
    clone_list(c, b, &p->early_casts, map, 0);
}

/* Values of the early part that i, or what it holds, uses. */
static void crossing(Ctx *c, Split *s, Instr *i, Values *cross)
{
    for (int o = 0; o < i->n_operands; o++) {
        Value *v = ir_operand(i, o);
        bool known = s->late[v->id] || ir_defined_outside(v, s->body) || (v->def && v->def->op == OP_RING_GET);
        /* defined in a block nested in the late part itself */
        known |= (v->def ? v->def->block : v->block) != s->body;
        for (size_t x = 0; x < cross->len; x++) known |= cross->data[x] == v;
        if (!known) vec_push(&c->s->arena, cross, v);
    }
    for (int b = 0; b < i->n_blocks; b++)
        for (Instr *x = i->blocks[b]->first; x; x = x->next) crossing(c, s, x, cross);
}

static bool rotate(Ctx *c, Instr *loop, Instr *product)
{
    Arena *a = &c->s->arena;
    Block *body = loop->blocks[0];
    Split s = { .n = c->f->module->next_id, .loop = loop, .body = body, .product = product };
    Parts p = { 0 };
    Instrs pull = { 0 };
    s.late = arena_array(a, bool, s.n);
    spread(&s);
    if (!sort_parts(c, &s, &p, &pull)) return false;

    /* carried values of the early part, of the late part, and those that cross from early to late */
    Instr *yield = ir_terminator(body);
    int n = loop->n_results;
    Values cross = { 0 };
    for (int which = 0; which < 2; which++) {
        const Instrs *l = which ? &p.late_wait : &p.late_issue;
        for (size_t k = 0; k < l->len; k++) crossing(c, &s, l->data[k], &cross);
    }
    for (int k = 0; k < n; k++) {       /* a late carried value that takes an early value, or the other way: not this shape */
        bool arg_late = s.late[body->args[k + 1]->id];
        Value *y = ir_operand(yield, k);
        if (!arg_late && s.late[y->id]) return false;
        if (arg_late && !s.late[y->id] && !ir_defined_outside(y, body)) return false;
    }

    Builder b = ir_before(loop);
    Value *lo = ir_operand(loop, 0), *hi = ir_operand(loop, 1), *step = ir_operand(loop, 2), *any = ir_bin(&b, OP_LT, lo, hi);
    const Type *types[IR_MAX_RESULTS];
    for (int k = 0; k < n; k++) types[k] = loop->results[k].type;
    Instr *cond = ir_build(&b, OP_IF, &any, 1, NO_ATTRS, types, n);

    /* prologue: the early part of the first step */
    Builder in = ir_at_end(cond->blocks[0]);
    in.loc = loop->loc;
    ValueMap first;
    value_map_init(&first, a);
    value_map_set(&first, body->args[0], lo);
    for (int k = 0; k < n; k++) value_map_set(&first, body->args[k + 1], ir_operand(loop, k + 3));
    clone_early(c, &in, &p, &first);

    Value **ops = arena_array(a, Value *, (size_t)n + cross.len + 3);
    ops[0] = ir_bin(&in, OP_ADD, lo, step);
    ops[1] = hi;
    ops[2] = step;
    for (int k = 0; k < n; k++)
        ops[3 + k] = s.late[body->args[k + 1]->id] ? ir_operand(loop, k + 3) : value_map_get(&first, ir_operand(yield, k));
    for (size_t k = 0; k < cross.len; k++) ops[3 + (size_t)n + k] = value_map_get(&first, cross.data[k]);
    Instr *main = ir_build(&in, OP_FOR, ops, n + (int)cross.len + 3, NO_ATTRS, NULL, 0);
    Block *mb = main->blocks[0];
    ir_set_name(mb->args[0], body->args[0]->name);
    for (int k = 0; k < n; k++) ir_set_name(mb->args[k + 1], body->args[k + 1]->name);
    for (size_t k = 0; k < cross.len; k++) ir_set_name(mb->args[n + 1 + (int)k], cross.data[k]->name);

    /* one step: early products of this step, late products of the step before, arithmetic under them */
    Builder at = ir_at_end(mb);
    ValueMap early, late;
    value_map_init(&early, a);
    value_map_init(&late, a);
    value_map_set(&early, body->args[0], mb->args[0]);
    for (int k = 0; k < n; k++) {
        Value *arg = body->args[k + 1];
        value_map_set(s.late[arg->id] ? &late : &early, arg, mb->args[k + 1]);
    }
    for (size_t k = 0; k < cross.len; k++) value_map_set(&late, cross.data[k], mb->args[n + 1 + (int)k]);
    turn(c, &at, OP_TURN_WAIT);
    clone_list(c, &at, &p.early_issue, &early, -1);
    clone_list(c, &at, &p.late_issue, &late, -1);
    turn(c, &at, OP_TURN_PASS);
    clone_list(c, &at, &p.early_rest, &early, 1);
    clone_list(c, &at, &p.late_wait, &late, 0);
    clone_list(c, &at, &p.early_casts, &early, 0);
    Value **next = arena_array(a, Value *, (size_t)n + cross.len);
    for (int k = 0; k < n; k++) next[k] = value_map_get(s.late[body->args[k + 1]->id] ? &late : &early, ir_operand(yield, k));
    for (size_t k = 0; k < cross.len; k++) next[(size_t)n + k] = value_map_get(&early, cross.data[k]);
    ir_build(&at, OP_YIELD, next, n + (int)cross.len, NO_ATTRS, NULL, 0);

    /* epilogue: the late part of the last step */
    ValueMap last;
    value_map_init(&last, a);
    for (int k = 0; k < n; k++) value_map_set(&last, body->args[k + 1], &main->results[k]);
    for (size_t k = 0; k < cross.len; k++) value_map_set(&last, cross.data[k], &main->results[n + (int)k]);
    turn(c, &in, OP_TURN_WAIT);
    clone_list(c, &in, &p.late_issue, &last, -1);
    turn(c, &in, OP_TURN_PASS);
    clone_list(c, &in, &p.late_wait, &last, 0);
    Value **out = arena_array(a, Value *, (size_t)n);
    for (int k = 0; k < n; k++) out[k] = s.late[body->args[k + 1]->id] ? value_map_get(&last, ir_operand(yield, k)) : &main->results[k];
    ir_build(&in, OP_YIELD, out, n, NO_ATTRS, NULL, 0);
    in = ir_at_end(cond->blocks[1]);
    for (int k = 0; k < n; k++) out[k] = ir_operand(loop, k + 3);
    ir_build(&in, OP_YIELD, out, n, NO_ATTRS, NULL, 0);
    for (int k = 0; k < n; k++) ir_replace(&loop->results[k], &cond->results[k]);
    ir_erase(loop);
    text_printf(&c->note, "  rotation: the early product runs one step ahead; %d values cross\n", (int)cross.len);
    return true;
}

/* The last product of the body that needs an earlier one of the same step. */
static Instr *late_product(Instrs *products, Block *body)
{
    for (size_t k = products->len; k-- > 1;)
        for (size_t j = 0; j < k; j++) {
            Instr *p = products->data[k], *q = products->data[j];
            for (int o = 0; o < 3; o++) if (depends(ir_operand(p, o), ir_result(q), body, 0)) return p;
        }
    return NULL;
}

static void overlap_loop(Ctx *c, Instr *loop)
{
    Instrs products = { 0 };
    loop = kernel_prefetch(c->s, c->f, loop);
    products_in(c, loop->blocks[0], &products);
    if (!products.len) return;
    bool chain = true;
    for (size_t k = 0; k < products.len; k++) chain = chain && is_chain(loop, products.data[k]);
    if (chain && slots_for_two(c, loop)) { delay_waits(c, loop, &products); return; }
    Instr *late = late_product(&products, loop->blocks[0]);
    if (!late || !rotate(c, loop, late))
        text_printf(&c->note, "  plain order: products are waited for where they are issued\n");
}

static void find_loops(void *user, Instr *i)
{
    Ctx *c = user;
    if (i->op == OP_FOR) vec_push(&c->s->arena, &c->loops, i);
}

void kernel_overlap(Session *s, Func *f, Block *consumers, KernelPlan *p)
{
    Ctx c = { .s = s, .f = f, .p = p };
    if (p->options.no_overlap) return;
    text_init(&c.note, &s->arena);
    ir_walk(consumers, find_loops, &c);
    for (size_t k = 0; k < c.loops.len; k++) overlap_loop(&c, c.loops.data[k]);
    p->schedule = arena_printf(&s->arena, "%s%s", p->schedule ? p->schedule : "", c.note.data);
}
