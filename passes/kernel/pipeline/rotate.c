/* rotate.c: of software-pipelining: the early part of a loop's body runs one step ahead of the late part.
 *
 *   early(lo)
 *   for j = lo + step ..: issue early products of j; issue late products of j - step;
 *                         wait for the early ones; arithmetic of j; wait for the late ones
 *   late(last)
 *
 * The arithmetic then runs while the late product of the step before is on the matrix unit. What the late
 * part needs of its step's early part is carried. Operations that repeat values (broadcasts) move to their
 * users instead. Casts that only feed the late part are done after its wait, which keeps fewer registers
 * alive. An operand in registers that is no such cast moves into registers of its own there (`opaque` with
 * `anew`), because the late product reads the former ones until the wait.
 *
 * The first step is peeled, as above. Where possible, rotate_carried.c lets it share the body of the others.
 * With the dynamic tile scheduler, cross_tile_pipelining.c may let the early part run ahead across the border
 * of two programs. */
#include "passes/kernel/pipeline/rotate.h"

typedef struct Depends {
    const Value *on;
    const Block *body;
} Depends;

static bool does_not_depend(void *user, Value *v)
{
    const Depends *d = user;
    return v != d->on && !(v->def && v->def->block == d->body && v->def->mark);
}

void kernel_mark_dependents(Block *body, const Value *on)
{
    Depends d = { on, body };
    for (Instr *i = body->first; i; i = i->next) i->mark = 0;
    for (Instr *i = body->first; i; i = i->next) i->mark = !ir_all_operands(i, does_not_depend, &d);
}

/* What was made since the values were sorted belongs to the early part (keep_operands). */
static bool late_instr(const LateValues *s, const Instr *i)
{
    if (i == s->product) return true;
    for (int k = 0; k < i->n_results; k++)
        if (i->results[k].id < s->n && s->late[i->results[k].id]) return true;
    return false;
}

static bool is_early(void *user, Value *v) { return !((const LateValues *)user)->late[v->id]; }
static bool uses_late(LateValues *s, const Instr *i) { return !ir_all_operands(i, is_early, s); }

/* Marks everything that depends on the results of the late product, through the loop's carried values too. */
static void spread(LateValues *s)
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
            for (int k = 0; k < i->n_results; k++)
                if (!s->late[i->results[k].id]) changed = s->late[i->results[k].id] = true;
        }
    }
}

static Instr *release_of(Instr *get)
{
    for (Instr *i = get->next; i; i = i->next)
        if (i->op == OP_RING_RELEASE && ir_operand(i, 0) == ir_operand(get, 0)) return i;
    return NULL;
}

static bool only_crosses(const LateValues *s, const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (!late_instr(s, ir_within(s->body, u->user))) return false;
    return true;
}

/* Sorts the body's instructions into the order of the rotated step. False when an instruction prevents it. */
static bool sort_parts(Overlap *c, LateValues *s, Parts *p, InstrList *pull)
{
    kernel_mark_dependents(s->body, ir_result(s->product));
    bool issued = false; /* After an early product was issued, the rest begins with its first wait. */
    Instr *late_get[2] = { NULL, NULL };
    for (int k = 0; k < 2; k++) {
        Value *v = ir_operand(s->product, k);
        if (v->type->kind == TYPE_SHARED && v->def && v->def->op == OP_RING_GET && v->def->block == s->body &&
            ir_use_count(v) == 1)
            late_get[k] = v->def;
        /* The producer fills a ring in the order of the program. The rotated loop cannot read a ring that
         * feeds both parts in that order. */
        if (late_get[k] && kernel_gets_of(s->body, ir_operand(late_get[k], 0)) > 1) return false;
    }
    for (Instr *i = s->body->first; i; i = i->next) {
        if (op_info[i->op].flags & OPF_TERM) break;
        if (i == late_get[0] || i == late_get[1]) {
            vec_push(&c->s->arena, &p->late_issue, i);
            continue;
        }
        if (i->op == OP_RING_RELEASE) {
            bool late = false;
            for (int k = 0; k < 2; k++)
                if (late_get[k] && release_of(late_get[k]) == i) late = true;
            vec_push(&c->s->arena, late ? &p->late_wait : &p->early_rest, i);
            continue;
        }
        if (late_instr(s, i)) {
            bool after = i->mark;
            if (i->op == OP_FOR || i->op == OP_WHILE) return false;
            vec_push(&c->s->arena, after ? &p->late_wait : &p->late_issue, i);
            continue;
        }
        if (i->op == OP_WGMMA_WAIT || (i->op == OP_IF && ir_any(i, kernel_writes_shared, NULL)))
            issued = true;
        if ((i->op == OP_BROADCAST || i->op == OP_SPLAT) && only_crosses(s, ir_result(i)) &&
            ir_result(i)->uses) {
            vec_push(&c->s->arena, pull, i);
            vec_push(&c->s->arena, &p->late_issue, i);
            s->late[ir_result(i)->id] = true;
            continue;
        }
        if (!issued) vec_push(&c->s->arena, &p->early_issue, i);
        else if (i->op == OP_CAST && only_crosses(s, ir_result(i)) && ir_result(i)->type->kind == TYPE_TILE)
            vec_push(&c->s->arena, &p->early_casts, i);
        else vec_push(&c->s->arena, &p->early_rest, i);
    }
    /* The late part keeps program order: broadcasts that were pulled forward come before their users. */
    return issued;
}

static void clone_list(Builder *b, const InstrList *list, ValueMap *map)
{
    for (size_t k = 0; k < list->len; k++) ir_clone(b, list->data[k], map);
}

void rotate_clone_rest(Overlap *c, Builder *b, const InstrList *rest, ValueMap *map)
{
    for (size_t k = 0; k < rest->len; k++) {
        Instr *n = ir_clone(b, rest->data[k], map);
        if (n->op != OP_WGMMA_WAIT) continue;
        int behind = 0;
        for (const Instr *i = n->prev; i && i != ir_operand(n, 0)->def; i = i->prev)
            behind += i->op == OP_WGMMA;
        ir_set_attr(c->s, n, a_int(ATTR_DEPTH, behind));
    }
}

void rotate_clone_early(Overlap *c, Builder *b, const Parts *p, ValueMap *map)
{
    pingpong_build(c->p, b, OP_PINGPONG_WAIT);
    clone_list(b, &p->early_issue, map);
    pingpong_build(c->p, b, OP_PINGPONG_PASS);
    rotate_clone_rest(c, b, &p->early_rest, map);
    clone_list(b, &p->early_casts, map);
}

typedef struct Crossing {
    Overlap *c;
    const LateValues *s;
    const InstrList *late_issue;
    ValueList *cross;
} Crossing;

/* Records v, which the late part uses, if the early part computes it. */
static bool crosses(void *user, Value *v)
{
    Crossing *x = user;
    const Instr *get = v->def;
    while (get && (get->op == OP_SHARED_SLICE || get->op == OP_SHARED_TRANSPOSE))
        get = ir_operand(get, 0)->def;
    if (get && get->op == OP_RING_GET &&
        get->block == x->s->body) { /* The stage would have to be kept for another step. */
        for (size_t k = 0; k < x->late_issue->len; k++)
            if (x->late_issue->data[k] == get) return true;
        return false;
    }
    if (get && get->op == OP_SHARED_STAGE && get->block == x->s->body) return false; /* likewise */
    bool known = x->s->late[v->id] || ir_defined_outside(v, x->s->body) || v->type->kind == TYPE_SHARED;
    known |= (v->def ? v->def->block : v->block) !=
             x->s->body; /* It is defined in a block inside the late part itself. */
    for (size_t k = 0; k < x->cross->len; k++) known |= x->cross->data[k] == v;
    if (!known) vec_push(&x->c->s->arena, x->cross, v);
    return true;
}

static bool lists(const InstrList *l, const Instr *i)
{
    for (size_t k = 0; k < l->len; k++)
        if (l->data[k] == i) return true;
    return false;
}

static bool computes_equal(const void *user, const Instr *i)
{
    const Value *v = user;
    for (int k = 0; i != v->def && k < i->n_results; k++)
        if (ir_same_value(&i->results[k], v)) return true;
    return false;
}

/* Whether the value is computed behind the late part's wait only. A cast that the loop has elsewhere too is
 * one cast for NVVM, which computes it before the wait where the other one stands there. */
static bool only_behind(const Rotation *r, const Value *v)
{ return v->def && lists(&r->p.early_casts, v->def) && !ir_any_in(r->s.body, computes_equal, v); }

/* Gives the late products' left operands, where the early part computes them in registers before the late
 * part's wait, registers of their own behind it. */
static void keep_operands(Rotation *r)
{
    Arena *a = &r->c->s->arena;
    for (size_t k = 0; k < r->p.late_issue.len; k++) {
        Instr *i = r->p.late_issue.data[k];
        Value *v = i->op == OP_WGMMA ? ir_operand(i, 0) : NULL;
        size_t at = 0;
        while (v && at < r->cross.len && r->cross.data[at] != v) at++;
        if (!v || v->type->kind != TYPE_TILE || at == r->cross.len) continue;
        if (only_behind(r, v)) continue;
        Builder b = ir_before(i);
        Value *own = ir_emit(&b, OP_OPAQUE, &v, 1, ATTRS(a_int(ATTR_ANEW, 1)), NULL);
        vec_push(a, &r->p.early_casts, own->def);
        ir_set_operand(i, 0, own);
        bool late = false;
        for (const Use *u = v->uses; u; u = u->next)
            late |= u->user != own->def && late_instr(&r->s, ir_within(r->s.body, u->user));
        if (late) vec_push(a, &r->cross, own);
        else r->cross.data[at] = own;
    }
}

static bool plan_rotation(Rotation *r, Overlap *c, Instr *loop, Instr *product)
{
    Block *body = loop->blocks[0];
    InstrList pull = { 0 };
    *r = (Rotation){ .c = c,
        .s = { .n = c->f->module->next_id, .loop = loop, .body = body, .product = product },
        .loop = loop,
        .yield = ir_terminator(body),
        .n = loop->n_results };
    r->s.late = arena_array(&c->s->arena, bool, r->s.n);
    spread(&r->s);
    if (!sort_parts(c, &r->s, &r->p, &pull)) return false;
    for (int which = 0; which < 2; which++) {
        const InstrList *l = which ? &r->p.late_wait : &r->p.late_issue;
        for (size_t k = 0; k < l->len; k++)
            if (!ir_all_operands(l->data[k], crosses, &(Crossing){ c, &r->s, &r->p.late_issue, &r->cross }))
                return false;
    }
    /* No rotation is possible when a late carried value becomes an early value, or the other way round. */
    for (int k = 0; k < r->n; k++) {
        Value *y = ir_operand(r->yield, k);
        if (!is_late(r, k) && r->s.late[y->id]) return false;
        if (is_late(r, k) && !r->s.late[y->id] && !ir_defined_outside(y, body)) return false;
    }
    keep_operands(r);
    return true;
}

void rotate_clone_step(Rotation *r, Builder *b, ValueMap *early, ValueMap *late)
{
    Overlap *c = r->c;
    pingpong_build(c->p, b, OP_PINGPONG_WAIT);
    clone_list(b, &r->p.early_issue, early);
    clone_list(b, &r->p.late_issue, late);
    pingpong_build(c->p, b, OP_PINGPONG_PASS);
    rotate_clone_rest(c, b, &r->p.early_rest, early);
    rotate_clone_rest(c, b, &r->p.late_wait, late);
    clone_list(b, &r->p.early_casts, early);
}

void rotate_clone_late(Rotation *r, Builder *b, ValueMap *late)
{
    pingpong_build(r->c->p, b, OP_PINGPONG_WAIT);
    clone_list(b, &r->p.late_issue, late);
    pingpong_build(r->c->p, b, OP_PINGPONG_PASS);
    rotate_clone_rest(r->c, b, &r->p.late_wait, late);
}

/* Builds the loop of the rotated steps, after the early part of the first one (`first`). It carries the
 * loop's own values and then those that go from a step's early part to its late part. */
static Instr *rotated_loop(Rotation *r, Builder *in, ValueMap *first)
{
    Arena *a = &r->c->s->arena;
    Instr *loop = r->loop;
    const Block *body = loop->blocks[0];
    int n = r->n, nx = (int)r->cross.len;
    Value **ops = arena_array(a, Value *, (size_t)(n + nx + 3));
    ops[0] = ir_bin(in, OP_ADD, ir_operand(loop, 0), ir_operand(loop, 2));
    ops[1] = ir_operand(loop, 1);
    ops[2] = ir_operand(loop, 2);
    for (int k = 0; k < n; k++)
        ops[3 + k] = is_late(r, k) ? ir_operand(loop, k + 3) : value_map_get(first, ir_operand(r->yield, k));
    for (int k = 0; k < nx; k++) ops[3 + n + k] = value_map_get(first, r->cross.data[k]);
    Instr *main = ir_build(in, OP_FOR, ops, n + nx + 3, NO_ATTRS, NULL, 0);
    Block *mb = main->blocks[0];
    ir_set_name(mb->args[0], body->args[0]->name);
    for (int k = 0; k < n; k++) ir_set_name(mb->args[k + 1], body->args[k + 1]->name);
    for (int k = 0; k < nx; k++) ir_set_name(mb->args[n + 1 + k], r->cross.data[k]->name);
    return main;
}

/* Builds one iteration: the late part of one step and the early part of the next. */
static void rotated_step(Rotation *r, Block *mb)
{
    Arena *a = &r->c->s->arena;
    const Block *body = r->loop->blocks[0];
    int n = r->n, nx = (int)r->cross.len;
    Builder at = ir_at_end(mb);
    ValueMap early, late;
    value_map_init(&early, a);
    value_map_init(&late, a);
    value_map_set(&early, body->args[0], mb->args[0]);
    for (int k = 0; k < n; k++)
        value_map_set(is_late(r, k) ? &late : &early, body->args[k + 1], mb->args[k + 1]);
    for (int k = 0; k < nx; k++) value_map_set(&late, r->cross.data[k], mb->args[n + 1 + k]);
    rotate_clone_step(r, &at, &early, &late);
    Value **next = arena_array(a, Value *, (size_t)(n + nx));
    for (int k = 0; k < n; k++)
        next[k] = value_map_get(is_late(r, k) ? &late : &early, ir_operand(r->yield, k));
    for (int k = 0; k < nx; k++) next[n + k] = value_map_get(&early, r->cross.data[k]);
    ir_build(&at, OP_YIELD, next, n + nx, NO_ATTRS, NULL, 0);
}

static void rotate_within(Rotation *r)
{
    Overlap *c = r->c;
    Arena *a = &c->s->arena;
    Instr *loop = r->loop;
    Block *body = loop->blocks[0];
    int n = r->n, nx = (int)r->cross.len;
    Builder b = ir_before(loop);
    Value *any = ir_bin(&b, OP_LT, ir_operand(loop, 0), ir_operand(loop, 1));
    const Type *types[IR_MAX_RESULTS];
    for (int k = 0; k < n; k++) types[k] = loop->results[k].type;
    Instr *cond = ir_build(&b, OP_IF, &any, 1, NO_ATTRS, types, n);

    Builder in = ir_at_end(cond->blocks[0]);
    in.loc = loop->loc;
    ValueMap first;
    value_map_init(&first, a);
    value_map_set(&first, body->args[0], ir_operand(loop, 0));
    for (int k = 0; k < n; k++) value_map_set(&first, body->args[k + 1], ir_operand(loop, k + 3));
    rotate_clone_early(c, &in, &r->p, &first);

    Instr *main = rotated_loop(r, &in, &first);
    rotated_step(r, main->blocks[0]);
    ValueMap last;
    value_map_init(&last, a);
    for (int k = 0; k < n; k++) value_map_set(&last, body->args[k + 1], &main->results[k]);
    for (int k = 0; k < nx; k++) value_map_set(&last, r->cross.data[k], &main->results[n + k]);
    rotate_clone_late(r, &in, &last);
    Value **out = arena_array(a, Value *, (size_t)n);
    for (int k = 0; k < n; k++)
        out[k] = is_late(r, k) ? value_map_get(&last, ir_operand(r->yield, k)) : &main->results[k];
    ir_build(&in, OP_YIELD, out, n, NO_ATTRS, NULL, 0);
    in = ir_at_end(cond->blocks[1]);
    for (int k = 0; k < n; k++) out[k] = ir_operand(loop, k + 3);
    ir_build(&in, OP_YIELD, out, n, NO_ATTRS, NULL, 0);
    for (int k = 0; k < n; k++) ir_replace(&loop->results[k], &cond->results[k]);
    ir_erase(loop);
    text_printf(&c->note, "  rotation: the early product runs one step ahead; %d values cross\n", nx);
}

static bool takes(const InstrList *l, const Value *ring)
{
    for (size_t k = 0; k < l->len; k++)
        if (l->data[k]->op == OP_RING_GET && ir_operand(l->data[k], 0) == ring) return true;
    return false;
}

static bool early_ring(const Rotation *r, const Value *ring)
{ return takes(&r->p.early_issue, ring) || takes(&r->p.early_rest, ring); }

/* Moves the fill of a late ring behind those of the early rings of the same step. False: it cannot move. */
static bool fill_behind_early(const Rotation *r, Instr *fill)
{
    Instr *last = NULL;
    for (Instr *i = fill->next; i; i = i->next)
        if ((i->op == OP_RING_PUT || i->op == OP_RING_CP_ASYNC) && early_ring(r, ir_operand(i, 0))) last = i;
    if (!last) return true;
    if (fill->op != OP_RING_PUT) return false;
    Builder at = ir_after(last);
    ir_unlink(fill);
    ir_place(&at, fill);
    return true;
}

/* Whether the early part takes stages of a further step, of which an operand is written a step ahead
 * (stage_ahead.c). */
static bool takes_further(const Rotation *r)
{
    const InstrList *parts[] = { &r->p.early_issue, &r->p.early_rest };
    for (int p = 0; p < 2; p++)
        for (size_t k = 0; k < parts[p]->len; k++)
            for (int b = 0; b < parts[p]->data[k]->n_blocks; b++)
                if (ir_holds(parts[p]->data[k]->blocks[b], OP_RING_GET)) return true;
    return false;
}

/* A late ring with the stages of one step gives them back only after the early part of the next step has
 * taken its own. So within a step, what the early part takes is filled before those are waited for; otherwise
 * the producer would wait for the consumers, and they for it. False: the fills cannot be put into this order,
 * as where the early part takes stages of the step after the next. */
static bool early_fills_first(const Rotation *r)
{
    for (size_t k = 0; k < r->p.late_issue.len; k++) {
        const Instr *get = r->p.late_issue.data[k];
        if (get->op != OP_RING_GET) continue;
        const Value *ring = ir_operand(get, 0);
        if (ring->type->shape[0] >= 2 * kernel_gets_of(r->s.body, ring)) continue;
        if (takes_further(r)) return false;
        for (const Use *u = ring->uses; u; u = u->next)
            if ((u->user->op == OP_RING_PUT || u->user->op == OP_RING_CP_ASYNC) &&
                !fill_behind_early(r, u->user))
                return false;
    }
    return true;
}

typedef struct AcrossStep {
    Rotation *r;
    bool asked, make, made;
} AcrossStep;

static bool across_programs(void *user)
{
    AcrossStep *s = user;
    return s->made = rotate_cross_tile(s->r, s->asked, s->make);
}

bool kernel_rotate(Overlap *c, Instr *loop, Instr *product, const Decision *asked, bool *cross_tile)
{
    Rotation r;
    bool wanted = asked && asked->form == LOOP_CROSS_TILE;
    if (!plan_rotation(&r, c, loop, product) || !early_fills_first(&r)) return false;
    AcrossStep step = { .r = &r, .asked = wanted, .make = !asked || wanted };
    kernel_part(c->p, PASS_CROSS_TILE_PIPELINING, across_programs, &step);
    *cross_tile = step.made;
    if (wanted && !*cross_tile)
        schedule_refuse(c->p, asked,
            "the rotation cannot cross programs: they must be taken from the dynamic tile scheduler, the "
            "loop known to run at "
            "least once, and what stands around it be free of other products and writes");
    else if (!*cross_tile && !rotate_carried(&r)) rotate_within(&r);
    return true;
}
