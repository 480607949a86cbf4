/* rotate.c: shape 2 of mma-pipeline: the early part of a loop's body runs one step ahead of the late part.
 *
 *     early(lo)
 *     for j = lo + step ..: issue early products of j; issue late products of j - step;
 *                           wait for the early ones; arithmetic of j; wait for the late ones
 *     late(last)
 *
 * so that the arithmetic runs while the late product of the step before is on the matrix unit. What the late part needs of its step's
 * early part is carried. Operations that repeat values (broadcasts) move to their users instead; casts that only feed the late part
 * are done after its wait, which keeps fewer registers alive.
 *
 * In a kernel that takes programs from tickets, the two loops become one, over the steps of all of this CTA's programs: the early part runs
 * ahead across the border too, and what stood before and after the inner loop is done where a program ends:
 *
 *     ticket; before(first program); early(lo)
 *     while go:
 *         if this is the program's last step: give back its operands; go, coordinates = ticket; before(next program)
 *         if go: issue early products of the next step; issue late products of this one; wait; arithmetic; wait
 *         else:  issue late products of this one; wait
 *         if this was the last step: after(program)
 *
 * That pays where the early part has more arithmetic than a softmax: its first step then has something to hide behind. Otherwise the loop gets
 * border checks and the next operands are needed earlier than they arrive (H100, D128, TFLOPS across and within: ALiBi 545, 519;
 * soft-cap 359, 350; plain causal at N 1024 390, 407, at 4096 604, 623; full 529, 562 and 660, 678). Nor does it where an operand that is read once a
 * program has one slot: the next program's comes only when this one's last step gave it back (additive bias 485, 507).
 *
 * Scalars of a program (and views, and tiles in registers) that steps need are carried; tiles that are functions of coordinates are computed anew.
 * Requires besides: the inner loop runs at least once, by its bounds' ranges; nothing is written before it. */
#include "ir/range.h"
#include "passes/kernel/overlap.h"

/* late[id]: the value belongs to the late part */
typedef struct Split { bool *late; uint32_t n; Instr *loop; Block *body; Instr *product; } Split;

typedef struct Depends { const Value *on; const Block *body; } Depends;

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

static bool late_instr(const Split *s, const Instr *i)
{
    if (i == s->product) return true;
    for (int k = 0; k < i->n_results; k++) if (s->late[i->results[k].id]) return true;
    return false;
}

static bool is_early(void *user, Value *v) { return !((const Split *)user)->late[v->id]; }
static bool uses_late(Split *s, const Instr *i) { return !ir_all_operands(i, is_early, s); }

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

typedef struct Parts { InstrList early_issue, early_rest, early_casts, late_issue, late_wait; } Parts;

static bool only_crosses(const Split *s, const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next) if (!late_instr(s, ir_within(s->body, u->user))) return false;
    return true;
}

/* Sorts the body's instructions into the order of the rotated step. False when something stands in the way. */
static bool sort_parts(Overlap *c, Split *s, Parts *p, InstrList *pull)
{
    kernel_mark_dependents(s->body, ir_result(s->product));
    bool issued = false;        /* an early product was issued: what follows its first wait is the rest */
    Instr *late_get[2] = { NULL, NULL };
    for (int k = 0; k < 2; k++) {
        Value *v = ir_operand(s->product, k);
        if (v->type->kind == TYPE_SHARED && v->def && v->def->op == OP_RING_GET && v->def->block == s->body && ir_use_count(v) == 1) late_get[k] = v->def;
        /* the producer fills a ring in the program's order: one that feeds both parts cannot be read in the rotated one */
        if (late_get[k] && kernel_gets_of(s->body, ir_operand(late_get[k], 0)) > 1) return false;
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
            bool after = i->mark;
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

static void clone_list(Builder *b, const InstrList *list, ValueMap *map)
{
    for (size_t k = 0; k < list->len; k++) ir_clone(b, list->data[k], map);
}

/* What follows the issue. A wait leaves those products in flight that were issued after its own. */
static void clone_rest(Overlap *c, Builder *b, const InstrList *rest, ValueMap *map)
{
    for (size_t k = 0; k < rest->len; k++) {
        Instr *n = ir_clone(b, rest->data[k], map);
        if (n->op != OP_WGMMA_WAIT) continue;
        int behind = 0;
        for (const Instr *i = n->prev; i && i != ir_operand(n, 0)->def; i = i->prev) behind += i->op == OP_WGMMA;
        ir_set_attr(c->s, n, a_int(ATTR_DEPTH, behind));
    }
}

/* Consumer warpgroups take turns to issue: one's products run while the other does its arithmetic. */
static void turn(Overlap *c, Builder *b, Op op)
{
    if (c->p->turns) ir_build(b, op, NULL, 0, NO_ATTRS, NULL, 0);
}

static void clone_early(Overlap *c, Builder *b, const Parts *p, ValueMap *map)
{
    turn(c, b, OP_TURN_WAIT);
    clone_list(b, &p->early_issue, map);
    turn(c, b, OP_TURN_PASS);
    clone_rest(c, b, &p->early_rest, map);
    clone_list(b, &p->early_casts, map);
}

typedef struct Crossing { Overlap *c; const Split *s; const InstrList *late_issue; ValueList *cross; } Crossing;

/* Notes v, which the late part uses, if the early part made it. */
static bool crosses(void *user, Value *v)
{
    Crossing *x = user;
    if (v->def && v->def->op == OP_RING_GET && v->def->block == x->s->body) {      /* the slot would have to be kept a step longer */
        for (size_t k = 0; k < x->late_issue->len; k++) if (x->late_issue->data[k] == v->def) return true;
        return false;
    }
    bool known = x->s->late[v->id] || ir_defined_outside(v, x->s->body) || v->type->kind == TYPE_SHARED;
    known |= (v->def ? v->def->block : v->block) != x->s->body;     /* defined in a block nested in the late part itself */
    for (size_t k = 0; k < x->cross->len; k++) known |= x->cross->data[k] == v;
    if (!known) vec_push(&x->c->s->arena, x->cross, v);
    return true;
}

/* A loop that can be rotated: its parts, the values that cross from early to late. */
typedef struct Rotation { Overlap *c; Split s; Parts p; ValueList cross; Instr *loop, *yield; int n; } Rotation;

static bool is_late(const Rotation *r, int k) { return r->s.late[r->s.body->args[k + 1]->id]; }

static bool plan_rotation(Rotation *r, Overlap *c, Instr *loop, Instr *product)
{
    Block *body = loop->blocks[0];
    InstrList pull = { 0 };
    *r = (Rotation){ .c = c, .s = { .n = c->f->module->next_id, .loop = loop, .body = body, .product = product }, .loop = loop, .yield = ir_terminator(body), .n = loop->n_results };
    r->s.late = arena_array(&c->s->arena, bool, r->s.n);
    spread(&r->s);
    if (!sort_parts(c, &r->s, &r->p, &pull)) return false;
    for (int which = 0; which < 2; which++) {
        const InstrList *l = which ? &r->p.late_wait : &r->p.late_issue;
        for (size_t k = 0; k < l->len; k++) if (!ir_all_operands(l->data[k], crosses, &(Crossing){ c, &r->s, &r->p.late_issue, &r->cross })) return false;
    }
    for (int k = 0; k < r->n; k++) {       /* a late carried value that takes an early value, or the other way: not this shape */
        Value *y = ir_operand(r->yield, k);
        if (!is_late(r, k) && r->s.late[y->id]) return false;
        if (is_late(r, k) && !r->s.late[y->id] && !ir_defined_outside(y, body)) return false;
    }
    return true;
}

/* One step: early products of it, late products of the step before, arithmetic under them. */
static void clone_step(Rotation *r, Builder *b, ValueMap *early, ValueMap *late)
{
    Overlap *c = r->c;
    turn(c, b, OP_TURN_WAIT);
    clone_list(b, &r->p.early_issue, early);
    clone_list(b, &r->p.late_issue, late);
    turn(c, b, OP_TURN_PASS);
    clone_rest(c, b, &r->p.early_rest, early);
    clone_rest(c, b, &r->p.late_wait, late);
    clone_list(b, &r->p.early_casts, early);
}

static void clone_late(Rotation *r, Builder *b, ValueMap *late)
{
    turn(r->c, b, OP_TURN_WAIT);
    clone_list(b, &r->p.late_issue, late);
    turn(r->c, b, OP_TURN_PASS);
    clone_rest(r->c, b, &r->p.late_wait, late);
}

/* --- within a program --------------------------------------------------------------------------------------------------------------- */

static void rotate_within(Rotation *r)
{
    Overlap *c = r->c;
    Arena *a = &c->s->arena;
    Instr *loop = r->loop;
    Block *body = loop->blocks[0];
    int n = r->n, nx = (int)r->cross.len;
    Builder b = ir_before(loop);
    Value *lo = ir_operand(loop, 0), *hi = ir_operand(loop, 1), *step = ir_operand(loop, 2), *any = ir_bin(&b, OP_LT, lo, hi);
    const Type *types[IR_MAX_RESULTS];
    for (int k = 0; k < n; k++) types[k] = loop->results[k].type;
    Instr *cond = ir_build(&b, OP_IF, &any, 1, NO_ATTRS, types, n);

    Builder in = ir_at_end(cond->blocks[0]);
    in.loc = loop->loc;
    ValueMap first;
    value_map_init(&first, a);
    value_map_set(&first, body->args[0], lo);
    for (int k = 0; k < n; k++) value_map_set(&first, body->args[k + 1], ir_operand(loop, k + 3));
    clone_early(c, &in, &r->p, &first);

    Value **ops = arena_array(a, Value *, (size_t)(n + nx + 3));
    ops[0] = ir_bin(&in, OP_ADD, lo, step);
    ops[1] = hi;
    ops[2] = step;
    for (int k = 0; k < n; k++) ops[3 + k] = is_late(r, k) ? ir_operand(loop, k + 3) : value_map_get(&first, ir_operand(r->yield, k));
    for (int k = 0; k < nx; k++) ops[3 + n + k] = value_map_get(&first, r->cross.data[k]);
    Instr *main = ir_build(&in, OP_FOR, ops, n + nx + 3, NO_ATTRS, NULL, 0);
    Block *mb = main->blocks[0];
    ir_set_name(mb->args[0], body->args[0]->name);
    for (int k = 0; k < n; k++) ir_set_name(mb->args[k + 1], body->args[k + 1]->name);
    for (int k = 0; k < nx; k++) ir_set_name(mb->args[n + 1 + k], r->cross.data[k]->name);

    Builder at = ir_at_end(mb);
    ValueMap early, late;
    value_map_init(&early, a);
    value_map_init(&late, a);
    value_map_set(&early, body->args[0], mb->args[0]);
    for (int k = 0; k < n; k++) value_map_set(is_late(r, k) ? &late : &early, body->args[k + 1], mb->args[k + 1]);
    for (int k = 0; k < nx; k++) value_map_set(&late, r->cross.data[k], mb->args[n + 1 + k]);
    clone_step(r, &at, &early, &late);
    Value **next = arena_array(a, Value *, (size_t)(n + nx));
    for (int k = 0; k < n; k++) next[k] = value_map_get(is_late(r, k) ? &late : &early, ir_operand(r->yield, k));
    for (int k = 0; k < nx; k++) next[n + k] = value_map_get(&early, r->cross.data[k]);
    ir_build(&at, OP_YIELD, next, n + nx, NO_ATTRS, NULL, 0);

    ValueMap last;
    value_map_init(&last, a);
    for (int k = 0; k < n; k++) value_map_set(&last, body->args[k + 1], &main->results[k]);
    for (int k = 0; k < nx; k++) value_map_set(&last, r->cross.data[k], &main->results[n + k]);
    clone_late(r, &in, &last);
    Value **out = arena_array(a, Value *, (size_t)n);
    for (int k = 0; k < n; k++) out[k] = is_late(r, k) ? value_map_get(&last, ir_operand(r->yield, k)) : &main->results[k];
    ir_build(&in, OP_YIELD, out, n, NO_ATTRS, NULL, 0);
    in = ir_at_end(cond->blocks[1]);
    for (int k = 0; k < n; k++) out[k] = ir_operand(loop, k + 3);
    ir_build(&in, OP_YIELD, out, n, NO_ATTRS, NULL, 0);
    for (int k = 0; k < n; k++) ir_replace(&loop->results[k], &cond->results[k]);
    ir_erase(loop);
    text_printf(&c->note, "  rotation: the early product runs one step ahead; %d values cross\n", nx);
}

/* --- across programs -------------------------------------------------------------------------------------------------------------------- */

/* How a step gets a value that is computed before the inner loop: not from there; computed anew; carried. */
typedef enum Origin { UNKNOWN, ELSEWHERE, ANEW, CARRIED, LOST } Origin;

typedef struct Across {
    Rotation *r;
    Instr *outer;           /* the loop over programs */
    Block *home;            /* its body */
    Origin *origin;
    bool *is_before, *needed;       /* by value: computed before the inner loop; computed anew by every step */
    ValueList carried;
    InstrList before, after, releases;
    int axes;
} Across;

static bool is_matrix_work(const void *user, const Instr *i)
{
    (void)user;
    return i->op == OP_WGMMA || i->op == OP_RING_GET || i->op == OP_RING_RELEASE;
}

static Origin origin_of(Across *x, const Value *v)
{
    Instr *d = v->def;
    if (v->block == x->home && !d) return LOST;
    if (!d || d->block != x->home || !x->is_before[v->id]) return ELSEWHERE;
    Origin *o = &x->origin[v->id];
    if (*o) return *o;
    if (d->op == OP_PROGRAM_COORD || v->type->kind == TYPE_SHARED) return *o = CARRIED;
    if (v->type->kind == TYPE_TOKEN) return *o = d->op == OP_TOKEN ? ANEW : LOST;
    bool pure = (op_info[d->op].flags & OPF_PURE) && !d->n_blocks, tile = v->type->kind == TYPE_TILE;
    *o = !pure || (tile && !kernel_is_cheap(v)) ? CARRIED : ANEW;
    for (int k = 0; k < d->n_operands; k++) {
        Origin from = origin_of(x, ir_operand(d, k));
        if (from == LOST) return *o = LOST;
        if (from == CARRIED && !tile) *o = CARRIED;
    }
    return *o;
}

/* A step uses v. */
static bool need(void *user, Value *v)
{
    Across *x = user;
    switch ((int)origin_of(x, v)) {
    case LOST: return false;
    case CARRIED:
        for (size_t k = 0; k < x->carried.len; k++) if (x->carried.data[k] == v) return true;
        vec_push(&x->r->c->s->arena, &x->carried, v);
        return true;
    case ANEW:
        if (x->needed[v->id]) return true;
        x->needed[v->id] = true;
        for (int k = 0; k < v->def->n_operands; k++) if (!need(x, ir_operand(v->def, k))) return false;
        return true;
    default: return true;
    }
}

static bool need_operands(Across *x, const Instr *i) { return ir_all_operands(i, need, x); }

/* Element-wise operations of the early part on tiles of its product's size, as many as a masked softmax has and more. */
enum { SOFTMAX_OPS = 3 };

static int score_ops(const Instr *i, int64_t elements)
{
    const Value *v = i->n_results ? ir_result(i) : NULL;
    int n = v && (op_info[i->op].flags & OPF_ELEM) && v->type->kind == TYPE_TILE && type_elements(v->type) == elements && !kernel_is_cheap(v);
    for (int b = 0; b < i->n_blocks; b++)
        for (const Instr *x = i->blocks[b]->first; x; x = x->next) n += score_ops(x, elements);
    return n;
}

static bool pays_across(const Rotation *r)
{
    int64_t elements = 0;
    int n = 0;
    for (size_t k = 0; k < r->p.early_issue.len; k++)
        if (r->p.early_issue.data[k]->op == OP_WGMMA) elements = type_elements(ir_result(r->p.early_issue.data[k])->type);
    for (size_t k = 0; k < r->p.early_rest.len; k++) n += score_ops(r->p.early_rest.data[k], elements);
    return r->c->p->options.across || n > SOFTMAX_OPS;
}

/* `asked`: a schedule says so; else where it pays. */
static bool plan_across(Across *x, Rotation *r, bool asked)
{
    Overlap *c = r->c;
    Arena *a = &c->s->arena;
    Instr *loop = r->loop, *outer = loop->block->parent;
    if ((!asked && (c->p->options.no_across || !pays_across(r))) || !outer || outer->op != OP_FOR || !ir_attr_int(outer, ATTR_TICKETS, 0) || outer->n_results) return false;
    Ranges *ranges = ranges_new(c->f);
    if (range_of(ranges, ir_operand(loop, 0)).hi >= range_of(ranges, ir_operand(loop, 1)).lo) {
        text_printf(&c->note, "  each program by itself: its loop is not known to run at least once\n");
        return false;
    }
    *x = (Across){ .r = r, .outer = outer, .home = loop->block };
    x->origin = arena_array(a, Origin, c->f->module->next_id);
    x->needed = arena_array(a, bool, c->f->module->next_id);
    x->is_before = arena_array(a, bool, c->f->module->next_id);
    for (Instr *i = x->home->first; i && i != loop; i = i->next) {
        if (i->op == OP_PROGRAM_COORD) x->axes = (int)ir_attr_int(i, ATTR_COUNT, 1);
        if (i->op == OP_RING_GET) {
            if (kernel_gets_of(r->s.body, ir_operand(i, 0))) return false;
            if (ir_operand(i, 0)->type->shape[0] < 2 && !c->p->options.across && !asked) {
                text_printf(&c->note, "  each program by itself: one slot for what is read once a program\n");
                return false;
            }
        } else if (ir_any(i, is_matrix_work, NULL) || ir_has_effects(i)) return false;
        vec_push(a, &x->before, i);
        for (int k = 0; k < i->n_results; k++) x->is_before[i->results[k].id] = true;
    }
    for (Instr *i = loop->next; i && !(op_info[i->op].flags & OPF_TERM); i = i->next) {
        if (i->op == OP_RING_RELEASE) { vec_push(a, &x->releases, i); continue; }
        if (ir_any(i, is_matrix_work, NULL)) return false;
        for (int k = 0; k < i->n_operands; k++) if (ir_operand(i, k)->type->kind == TYPE_SHARED) return false;
        vec_push(a, &x->after, i);
        if (!need_operands(x, i)) return false;
    }
    for (const Instr *i = r->s.body->first; i; i = i->next) if (!need_operands(x, i)) return false;
    for (int k = 1; k < 3; k++) if (!need(x, ir_operand(loop, k))) return false;
    for (int k = 0; k < r->n; k++) {        /* late accumulators start anew where a program ends */
        if (origin_of(x, ir_operand(loop, k + 3)) == LOST) return false;
        if (!is_late(r, k)) continue;
        if (origin_of(x, ir_operand(loop, k + 3)) == CARRIED || !need(x, ir_operand(loop, k + 3))) return false;
    }
    return x->axes > 0;
}

/* What stands before the inner loop, for the program of these coordinates: what the loop or a step needs. */
typedef struct Wanted { const Block *home; bool *want; } Wanted;

static bool wanted(void *user, Value *v)
{
    Wanted *w = user;
    if (w->want[v->id] || !v->def || v->def->block != w->home) return true;
    w->want[v->id] = true;
    return v->def->op == OP_PROGRAM_COORD || ir_all_operands(v->def, wanted, w);
}

static bool any_of(const bool *set, const Instr *i)
{
    for (int k = 0; k < i->n_results; k++) if (set[i->results[k].id]) return true;
    return false;
}

static void open_program(Across *x, Builder *b, const Instr *ticket, ValueMap *map)
{
    Rotation *r = x->r;
    Wanted w = { x->home, arena_array(&r->c->s->arena, bool, r->c->f->module->next_id) };
    for (size_t k = 0; k < x->carried.len; k++) wanted(&w, x->carried.data[k]);
    for (size_t k = 0; k < x->before.len; k++) if (any_of(x->needed, x->before.data[k])) wanted(&w, ir_result(x->before.data[k]));
    wanted(&w, ir_operand(r->loop, 0));
    for (int k = 0; k < r->n; k++) wanted(&w, ir_operand(r->loop, k + 3));
    for (size_t k = 0; k < x->before.len; k++) {
        Instr *i = x->before.data[k];
        if (i->op == OP_PROGRAM_COORD) {
            Value *v = &ticket->results[1 + ir_attr_int(i, ATTR_AXIS, 0)];
            if (!v->name) ir_set_name(v, ir_result(i)->name);
            value_map_set(map, ir_result(i), v);
        } else if (i->op == OP_RING_GET || any_of(w.want, i)) ir_clone(b, i, map);
    }
}

static Instr *take_ticket(Across *x, Builder *b)
{
    const Type *types[4] = { type_scalar(x->r->c->s, DT_BOOL) };
    for (int k = 1; k <= x->axes; k++) types[k] = type_scalar(x->r->c->s, DT_I32);
    return ir_build(b, OP_TICKET, NULL, 0, NO_ATTRS, types, 1 + x->axes);
}

/* Tiles and scalars that a step computes anew, from what it carries. */
static void compute_anew(Across *x, Builder *b, ValueMap *map)
{
    for (size_t k = 0; k < x->before.len; k++) if (any_of(x->needed, x->before.data[k])) ir_clone(b, x->before.data[k], map);
}

/* A list of values to hand on: to a block's end, and of what types. */
typedef struct Row { Value *v[IR_MAX_RESULTS]; const Type *t[IR_MAX_RESULTS]; int n; } Row;

static void put(Row *row, Value *v) { row->t[row->n] = v->type; row->v[row->n++] = v; }
static void yield(Builder *b, const Row *row) { ir_build(b, OP_YIELD, row->v, row->n, NO_ATTRS, NULL, 0); }

static void rotate_across(Across *x)
{
    Rotation *r = x->r;
    Overlap *c = r->c;
    Arena *a = &c->s->arena;
    Instr *loop = r->loop, *outer = x->outer;
    Block *body = r->s.body;
    int nc = (int)x->carried.len, n = r->n, nx = (int)r->cross.len;
    Builder b = ir_before(outer);
    b.loc = loop->loc;

    /* the first program, if there is one, and the early part of its first step */
    Instr *ticket = take_ticket(x, &b);
    Value *has = &ticket->results[0];
    Instr *some = ir_build(&b, OP_IF, &has, 1, NO_ATTRS, NULL, 0);
    Builder none = ir_at_end(some->blocks[1]), in = ir_at_end(some->blocks[0]);
    in.loc = loop->loc;
    ir_build(&none, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    ValueMap first;
    value_map_init(&first, a);
    open_program(x, &in, ticket, &first);
    value_map_set(&first, body->args[0], value_map_get(&first, ir_operand(loop, 0)));
    for (int k = 0; k < n; k++) value_map_set(&first, body->args[k + 1], value_map_get(&first, ir_operand(loop, k + 3)));
    clone_early(c, &in, &r->p, &first);

    /* carried: go, the program's values, the step, the loop's own, those that cross */
    Row init = { 0 };
    put(&init, ir_const_int(&in, DT_BOOL, 1));
    for (int k = 0; k < nc; k++) put(&init, value_map_get(&first, x->carried.data[k]));
    put(&init, value_map_get(&first, ir_operand(loop, 0)));
    for (int k = 0; k < n; k++) put(&init, is_late(r, k) ? value_map_get(&first, ir_operand(loop, k + 3)) : value_map_get(&first, ir_operand(r->yield, k)));
    for (int k = 0; k < nx; k++) put(&init, value_map_get(&first, r->cross.data[k]));
    Instr *steps = ir_build(&in, OP_WHILE, init.v, init.n, NO_ATTRS, NULL, 0);
    ir_build(&in, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    for (int blk = 0; blk < 2; blk++) {
        Value **args = steps->blocks[blk]->args;
        ir_set_name(args[0], "go");
        for (int k = 0; k < nc; k++) ir_set_name(args[1 + k], x->carried.data[k]->name);
        ir_set_name(args[1 + nc], body->args[0]->name);
        for (int k = 0; k < n; k++) ir_set_name(args[2 + nc + k], body->args[k + 1]->name);
        for (int k = 0; k < nx; k++) ir_set_name(args[2 + nc + n + k], r->cross.data[k]->name);
    }
    Row cond = { 0 };
    put(&cond, steps->blocks[0]->args[0]);
    for (int k = 0; k < init.n; k++) put(&cond, steps->blocks[0]->args[k]);
    Builder at = ir_at_end(steps->blocks[0]);
    at.loc = loop->loc;
    ir_build(&at, OP_CONDITION, cond.v, cond.n, NO_ATTRS, NULL, 0);

    Value **args = steps->blocks[1]->args, **own = args + 1, *j = args[1 + nc], **carried = args + 2 + nc, **cross = carried + n;
    at = ir_at_end(steps->blocks[1]);
    at.loc = loop->loc;
    ValueMap now;
    value_map_init(&now, a);
    for (int k = 0; k < nc; k++) value_map_set(&now, x->carried.data[k], own[k]);
    compute_anew(x, &at, &now);
    Value *following = ir_bin(&at, OP_ADD, j, value_map_get(&now, ir_operand(loop, 2)));
    Value *last = ir_bin(&at, OP_GE, following, value_map_get(&now, ir_operand(loop, 1)));
    ir_set_name(last, "last");

    /* the next step: of this program, or the first of the next */
    Row stay = { 0 }, enter = { 0 }, end = { 0 };
    for (int k = 0; k < nc; k++) put(&stay, own[k]);
    put(&stay, following);
    for (int k = 0; k < n; k++) if (!is_late(r, k)) put(&stay, carried[k]);
    Row going = { 0 };
    put(&going, args[0]);
    for (int k = 0; k < stay.n; k++) put(&going, stay.v[k]);
    Instr *border = ir_build(&at, OP_IF, &last, 1, NO_ATTRS, going.t, going.n);
    in = ir_at_end(border->blocks[1]);
    yield(&in, &going);
    in = ir_at_end(border->blocks[0]);
    in.loc = loop->loc;
    for (size_t k = 0; k < x->releases.len; k++) ir_clone(&in, x->releases.data[k], &now);
    ticket = take_ticket(x, &in);
    has = &ticket->results[0];
    Instr *opened = ir_build(&in, OP_IF, &has, 1, NO_ATTRS, stay.t, stay.n);
    put(&end, has);
    for (int k = 0; k < stay.n; k++) put(&end, &opened->results[k]);
    yield(&in, &end);
    in = ir_at_end(opened->blocks[1]);
    yield(&in, &stay);
    in = ir_at_end(opened->blocks[0]);
    in.loc = loop->loc;
    ValueMap fresh;
    value_map_init(&fresh, a);
    open_program(x, &in, ticket, &fresh);
    for (int k = 0; k < nc; k++) put(&enter, value_map_get(&fresh, x->carried.data[k]));
    put(&enter, value_map_get(&fresh, ir_operand(loop, 0)));
    for (int k = 0; k < n; k++) if (!is_late(r, k)) put(&enter, value_map_get(&fresh, ir_operand(loop, k + 3)));
    yield(&in, &enter);

    /* the step: early of the next one and late of this one, or late alone at the very end */
    Value *go = &border->results[0];
    ir_set_name(go, "go");
    Row out = { 0 }, alone = { 0 };
    for (int k = 0; k < n; k++) put(&out, carried[k]);
    for (int k = 0; k < nx; k++) put(&out, cross[k]);
    Instr *work = ir_build(&at, OP_IF, &go, 1, NO_ATTRS, out.t, out.n);
    in = ir_at_end(work->blocks[0]);
    in.loc = loop->loc;
    ValueMap early;
    value_map_init(&early, a);
    for (int k = 0; k < nc; k++) value_map_set(&early, x->carried.data[k], &border->results[1 + k]);
    compute_anew(x, &in, &early);
    value_map_set(&early, body->args[0], &border->results[1 + nc]);
    for (int k = 0, e = 2 + nc; k < n; k++)
        if (!is_late(r, k)) value_map_set(&early, body->args[k + 1], &border->results[e++]);
    for (int k = 0; k < n; k++) value_map_set(&now, body->args[k + 1], carried[k]);
    for (int k = 0; k < nx; k++) value_map_set(&now, r->cross.data[k], cross[k]);
    clone_step(r, &in, &early, &now);
    out.n = 0;
    for (int k = 0; k < n; k++) put(&out, value_map_get(is_late(r, k) ? &now : &early, ir_operand(r->yield, k)));
    for (int k = 0; k < nx; k++) put(&out, value_map_get(&early, r->cross.data[k]));
    yield(&in, &out);
    in = ir_at_end(work->blocks[1]);
    in.loc = loop->loc;
    clone_late(r, &in, &now);
    for (int k = 0; k < n; k++) put(&alone, is_late(r, k) ? value_map_get(&now, ir_operand(r->yield, k)) : carried[k]);
    for (int k = 0; k < nx; k++) put(&alone, cross[k]);
    yield(&in, &alone);

    /* a program's end */
    Row kept = { 0 }, anew = { 0 };
    for (int k = 0; k < n; k++) {
        value_map_set(&now, &loop->results[k], is_late(r, k) ? &work->results[k] : carried[k]);
        if (!is_late(r, k)) continue;
        put(&kept, &work->results[k]);
        put(&anew, value_map_get(&now, ir_operand(loop, k + 3)));
    }
    Instr *close = ir_build(&at, OP_IF, &last, 1, NO_ATTRS, kept.t, kept.n);
    in = ir_at_end(close->blocks[1]);
    yield(&in, &kept);
    in = ir_at_end(close->blocks[0]);
    for (size_t k = 0; k < x->after.len; k++) ir_clone(&in, x->after.data[k], &now);
    yield(&in, &anew);

    Row next = { 0 };
    for (int k = 0; k < nc + 2; k++) put(&next, &border->results[k]);
    for (int k = 0, l = 0; k < n; k++) put(&next, is_late(r, k) ? &close->results[l++] : &work->results[k]);
    for (int k = 0; k < nx; k++) put(&next, &work->results[n + k]);
    yield(&at, &next);
    ir_erase(outer);
    text_printf(&c->note, "  rotation: the early product runs one step ahead, across programs too; %d values cross, %d of a program are carried\n", nx, nc);
}

bool kernel_rotate(Overlap *c, Instr *loop, Instr *product, const Decision *asked, bool *across)
{
    Rotation r;
    Across x;
    if (!plan_rotation(&r, c, loop, product)) return false;
    *across = plan_across(&x, &r, asked && asked->form == LOOP_ACROSS) && (!asked || asked->form == LOOP_ACROSS);
    if (asked && asked->form == LOOP_ACROSS && !*across) {
        schedule_refuse(c->p, asked, "the rotation cannot cross programs: they must be taken by tickets, the loop known to run at least once, and what stands around it be free of other products and writes");
        return true;
    }
    if (*across) rotate_across(&x);
    else rotate_within(&r);
    return true;
}
