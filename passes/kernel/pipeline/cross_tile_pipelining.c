/* cross-tile-pipelining: joins a rotated loop (rotate.c) with the loop over programs around it.
 *
 * In a kernel with the dynamic tile scheduler, the two loops become one, over the steps of all of this
 * CTA's programs. The early part runs ahead across the border too, and what came before and after the
 * inner loop is done where a program ends:
 *
 *   next_program; before(first program); early(lo)
 *   while go:
 *       if this is the program's last step: give back its operands; go, coordinates = next_program;
 *                                           before(next program)
 *       if go: issue early products of the next step; issue late products of this one; wait; arithmetic;
 *              wait
 *       else:  issue late products of this one; wait
 *       if this was the last step: after(program)
 *
 * It pays where the early part has more arithmetic than a softmax, because its first step can then overlap
 * something (pays_cross_tile). Otherwise the loop gets checks for the border, and needs the next operands
 * before they arrive. It does not pay either where an operand that is read once a program has one stage,
 * since the next program's operand comes only when this one's last step has given the stage back.
 * bench/notes/decisions.md, "Behind the decisions", has measurements.
 *
 * Scalars of a program that steps need are carried, and so are views and tiles in registers; tiles that
 * are functions of coordinates are computed again.
 *
 * Requires: the inner loop runs at least once, by its bounds' ranges; nothing is written before it, and
 * nothing behind it goes on from memory that the early part writes. Keeps: everything. */
#include "ir/analysis/range.h"
#include "passes/kernel/pipeline/rotate.h"

/* How a step gets a value that is computed before the inner loop: it is not from there, it is computed again,
 * or it is carried. */
typedef enum Origin { UNKNOWN, ELSEWHERE, ANEW, CARRIED, LOST } Origin;

typedef struct CrossTile {
    Rotation *r;
    Instr *outer; /* the loop over programs */
    Block *home;  /* its body */
    Origin *origin;
    bool *is_before, *needed; /* by value: computed before the inner loop; computed anew by every step */
    ValueList carried;
    InstrList before, after, releases;
    int axes;
} CrossTile;

static bool is_matrix_work(const void *user, const Instr *i)
{
    (void)user;
    return i->op == OP_WGMMA || i->op == OP_RING_GET || i->op == OP_RING_RELEASE;
}

static Origin origin_of(CrossTile *x, const Value *v)
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
    CrossTile *x = user;
    switch (origin_of(x, v)) {
    case LOST: return false;
    case CARRIED:
        for (size_t k = 0; k < x->carried.len; k++)
            if (x->carried.data[k] == v) return true;
        vec_push(&x->r->c->s->arena, &x->carried, v);
        return true;
    case ANEW:
        if (x->needed[v->id]) return true;
        x->needed[v->id] = true;
        for (int k = 0; k < v->def->n_operands; k++)
            if (!need(x, ir_operand(v->def, k))) return false;
        return true;
    case UNKNOWN:
    case ELSEWHERE: return true;
    }
    return true;
}

static bool need_operands(CrossTile *x, const Instr *i) { return ir_all_operands(i, need, x); }

/* The most element-wise operations of the early part on tiles of its product's size. A masked softmax has
 * about as many. */
enum { SOFTMAX_OPS = 3 };

static int score_ops(const Instr *i, int64_t elements)
{
    const Value *v = i->n_results ? ir_result(i) : NULL;
    int n = v && (op_info[i->op].flags & OPF_ELEM) && v->type->kind == TYPE_TILE &&
            type_elements(v->type) == elements && !kernel_is_cheap(v);
    for (int b = 0; b < i->n_blocks - ir_is_rare(i); b++)
        for (const Instr *x = i->blocks[b]->first; x; x = x->next) n += score_ops(x, elements);
    return n;
}

static bool pays_cross_tile(const Rotation *r)
{
    int64_t elements = 0;
    int n = 0;
    for (size_t k = 0; k < r->p.early_issue.len; k++)
        if (r->p.early_issue.data[k]->op == OP_WGMMA)
            elements = type_elements(ir_result(r->p.early_issue.data[k])->type);
    for (size_t k = 0; k < r->p.early_rest.len; k++) n += score_ops(r->p.early_rest.data[k], elements);
    return kernel_forces(r->c->p, PASS_CROSS_TILE_PIPELINING) || n > SOFTMAX_OPS;
}

/* Collects the operations before the inner loop, which the joined loop does for the next program. False: they
 * cannot be done there, or an operand that is read once a program has one stage. wanted: also then. */
static bool plan_before(CrossTile *x, bool wanted)
{
    Overlap *c = x->r->c;
    const Instr *loop = x->r->loop;
    for (Instr *i = x->home->first; i && i != loop; i = i->next) {
        bool get = i->op == OP_RING_GET;
        if (i->op == OP_PROGRAM_COORD) x->axes = (int)ir_attr_int(i, ATTR_COUNT, 1);
        if (get && kernel_gets_of(x->r->s.body, ir_operand(i, 0))) return false;
        if (get && ir_operand(i, 0)->type->shape[0] < 2 && !wanted) {
            text_printf(&c->note, "  each program by itself: one stage for what is read once a program\n");
            return false;
        }
        if (!get && (ir_any(i, is_matrix_work, NULL) || ir_has_effects(i))) return false;
        vec_push(&c->s->arena, &x->before, i);
        for (int k = 0; k < i->n_results; k++) x->is_before[i->results[k].id] = true;
    }
    return true;
}

/* Collects the operations behind the inner loop, which the joined loop does where a program ends. False: one
 * goes on from memory that the early part writes, and which the border hands on to the next program. */
static bool plan_after(CrossTile *x)
{
    Arena *a = &x->r->c->s->arena;
    const Value *results = x->r->loop->results;
    for (int k = 0; k < x->r->n; k++)
        if (results[k].type->kind == TYPE_TOKEN && results[k].uses && !is_late(x->r, k)) return false;
    for (Instr *i = x->r->loop->next; i && !(op_info[i->op].flags & OPF_TERM); i = i->next) {
        if (i->op == OP_RING_RELEASE) {
            vec_push(a, &x->releases, i);
            continue;
        }
        if (ir_any(i, is_matrix_work, NULL)) return false;
        for (int k = 0; k < i->n_operands; k++)
            if (ir_operand(i, k)->type->kind == TYPE_SHARED) return false;
        vec_push(a, &x->after, i);
        if (!need_operands(x, i)) return false;
    }
    return true;
}

/* Finds what the steps need of the program: operands of the body, the loop's bound and step, and the values
 * from which late accumulators start again in each program. */
static bool plan_steps(CrossTile *x)
{
    const Rotation *r = x->r;
    for (const Instr *i = r->s.body->first; i; i = i->next)
        if (!need_operands(x, i)) return false;
    for (int k = 1; k < 3; k++)
        if (!need(x, ir_operand(r->loop, k))) return false;
    for (int k = 0; k < r->n; k++) {
        Value *initial = ir_operand(r->loop, k + 3);
        Origin from = origin_of(x, initial);
        if (from == LOST || (is_late(r, k) && (from == CARRIED || !need(x, initial)))) return false;
    }
    return true;
}

/* Whether the loops can be joined. asked: a schedule asks for it; otherwise also whether it pays. */
static bool plan_cross_tile(CrossTile *x, Rotation *r, bool asked)
{
    Overlap *c = r->c;
    Arena *a = &c->s->arena;
    Instr *loop = r->loop, *outer = loop->block->parent;
    size_t ids = c->f->module->next_id;
    if (!asked && (kernel_skips(c->p, PASS_CROSS_TILE_PIPELINING) || !pays_cross_tile(r))) return false;
    if (!outer || outer->op != OP_FOR || !ir_loop_is(outer, LOOP_DYNAMIC) || outer->n_results) return false;
    if (ir_any_in(loop->blocks[0], kernel_writes_shared, NULL)) return false; /* stages count from lo on */
    Ranges *ranges = ranges_new(c->f);
    if (range_of(ranges, ir_operand(loop, 0)).hi >= range_of(ranges, ir_operand(loop, 1)).lo) {
        text_printf(&c->note, "  each program by itself: its loop is not known to run at least once\n");
        return false;
    }
    *x = (CrossTile){ .r = r, .outer = outer, .home = loop->block };
    x->origin = arena_array(a, Origin, ids);
    x->needed = arena_array(a, bool, ids);
    x->is_before = arena_array(a, bool, ids);
    return plan_before(x, asked || kernel_forces(c->p, PASS_CROSS_TILE_PIPELINING)) && plan_after(x) &&
           plan_steps(x) && x->axes > 0;
}

/* Copies the operations before the inner loop for the program at these coordinates, as far as the loop or a
 * step needs them. */
typedef struct Wanted {
    const Block *home;
    bool *want;
} Wanted;

static bool wanted(void *user, Value *v)
{
    Wanted *w = user;
    if (w->want[v->id] || !v->def || v->def->block != w->home) return true;
    w->want[v->id] = true;
    return v->def->op == OP_PROGRAM_COORD || ir_all_operands(v->def, wanted, w);
}

static bool any_of(const bool *set, const Instr *i)
{
    for (int k = 0; k < i->n_results; k++)
        if (set[i->results[k].id]) return true;
    return false;
}

static void open_program(CrossTile *x, Builder *b, const Instr *program, ValueMap *map)
{
    Rotation *r = x->r;
    Wanted w = { x->home, arena_array(&r->c->s->arena, bool, r->c->f->module->next_id) };
    for (size_t k = 0; k < x->carried.len; k++) wanted(&w, x->carried.data[k]);
    for (size_t k = 0; k < x->before.len; k++)
        if (any_of(x->needed, x->before.data[k])) wanted(&w, ir_result(x->before.data[k]));
    wanted(&w, ir_operand(r->loop, 0));
    for (int k = 0; k < r->n; k++) wanted(&w, ir_operand(r->loop, k + 3));
    for (size_t k = 0; k < x->before.len; k++) {
        Instr *i = x->before.data[k];
        if (i->op == OP_PROGRAM_COORD) {
            Value *v = &program->results[1 + ir_attr_int(i, ATTR_AXIS, 0)];
            if (!v->name) ir_set_name(v, ir_result(i)->name);
            value_map_set(map, ir_result(i), v);
        } else if (i->op == OP_RING_GET || any_of(w.want, i)) ir_clone(b, i, map);
    }
}

static Instr *take_next_program(CrossTile *x, Builder *b)
{
    const Type *types[4] = { type_scalar(x->r->c->s, DT_BOOL) };
    for (int k = 1; k <= x->axes; k++) types[k] = type_scalar(x->r->c->s, DT_I32);
    return ir_build(b, OP_NEXT_PROGRAM, NULL, 0, NO_ATTRS, types, 1 + x->axes);
}

/* Copies the tiles and scalars that a step computes again from its carried values. */
static void compute_anew(CrossTile *x, Builder *b, ValueMap *map)
{
    for (size_t k = 0; k < x->before.len; k++)
        if (any_of(x->needed, x->before.data[k])) ir_clone(b, x->before.data[k], map);
}

/* A list of values that a block passes on at its end, and their types. */
typedef struct Row {
    Value *v[IR_MAX_RESULTS];
    const Type *t[IR_MAX_RESULTS];
    int n;
} Row;

static void put(Row *row, Value *v)
{
    row->t[row->n] = v->type;
    row->v[row->n++] = v;
}
static void yield(Builder *b, const Row *row) { ir_build(b, OP_YIELD, row->v, row->n, NO_ATTRS, NULL, 0); }

/* The joined loop while it is built. Of the carried values, `own` are the program's, `j` is the step,
 * `carried` are the inner loop's, and `cross` those that go from early to late. */
typedef struct Joined {
    CrossTile *x;
    Rotation *r;
    int nc, n, nx;
    Instr *steps;
    Value *go, **own, *j, **carried, **cross;
    Builder at;              /* in its body */
    ValueMap now;            /* for this step */
    Value *following, *last; /* the next step of this program; whether there is none */
} Joined;

static Builder in_block(const Joined *q, Block *b)
{
    Builder in = ir_at_end(b);
    in.loc = q->r->loop->loc;
    return in;
}

/* Begins a program at the coordinates that were handed on. Its values go to a map of their own. */
static void start_values(Joined *q, Builder *in, const Instr *program, ValueMap *map)
{
    value_map_init(map, &q->r->c->s->arena);
    open_program(q->x, in, program, map);
}

static void name_carried(const Joined *q, Value **args)
{
    const Block *body = q->r->s.body;
    ir_set_name(args[0], "go");
    for (int k = 0; k < q->nc; k++) ir_set_name(args[1 + k], q->x->carried.data[k]->name);
    ir_set_name(args[1 + q->nc], body->args[0]->name);
    for (int k = 0; k < q->n; k++) ir_set_name(args[2 + q->nc + k], body->args[k + 1]->name);
    for (int k = 0; k < q->nx; k++) ir_set_name(args[2 + q->nc + q->n + k], q->r->cross.data[k]->name);
}

/* Emits the first program, if there is one, the early part of its first step, and the loop over steps. */
static void begin_steps(Joined *q)
{
    Rotation *r = q->r;
    Instr *loop = r->loop;
    Block *body = r->s.body;
    Builder b = ir_before(q->x->outer);
    b.loc = loop->loc;
    Instr *program = take_next_program(q->x, &b);
    Value *has = &program->results[0];
    Instr *some = ir_build(&b, OP_IF, &has, 1, NO_ATTRS, NULL, 0);
    Builder none = ir_at_end(some->blocks[1]), in = in_block(q, some->blocks[0]);
    ir_build(&none, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    ValueMap first;
    start_values(q, &in, program, &first);
    value_map_set(&first, body->args[0], value_map_get(&first, ir_operand(loop, 0)));
    for (int k = 0; k < q->n; k++)
        value_map_set(&first, body->args[k + 1], value_map_get(&first, ir_operand(loop, k + 3)));
    rotate_clone_early(r->c, &in, &r->p, &first);
    Row init = { 0 }, cond = { 0 };
    put(&init, ir_const_int(&in, DT_BOOL, 1));
    for (int k = 0; k < q->nc; k++) put(&init, value_map_get(&first, q->x->carried.data[k]));
    put(&init, value_map_get(&first, ir_operand(loop, 0)));
    for (int k = 0; k < q->n; k++)
        put(&init, is_late(r, k) ? value_map_get(&first, ir_operand(loop, k + 3))
                                 : value_map_get(&first, ir_operand(r->yield, k)));
    for (int k = 0; k < q->nx; k++) put(&init, value_map_get(&first, r->cross.data[k]));
    int64_t by = 0;
    int64_t *counter = arena_array(&r->c->s->arena, int64_t, 2);
    ir_is_const(ir_operand(loop, 2), &by);
    counter[0] = 1 + q->nc;
    counter[1] = by;
    q->steps = ir_build(&in, OP_WHILE, init.v, init.n,
        ATTRS(a_int(ATTR_LOOP, LOOP_JOINED), a_ints(ATTR_COUNTER, counter, 2)), NULL, 0);
    ir_build(&in, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    for (int blk = 0; blk < 2; blk++) name_carried(q, q->steps->blocks[blk]->args);
    put(&cond, q->steps->blocks[0]->args[0]);
    for (int k = 0; k < init.n; k++) put(&cond, q->steps->blocks[0]->args[k]);
    Builder head = in_block(q, q->steps->blocks[0]);
    ir_build(&head, OP_CONDITION, cond.v, cond.n, NO_ATTRS, NULL, 0);
    Value **args = q->steps->blocks[1]->args;
    q->go = args[0];
    q->own = args + 1;
    q->j = args[1 + q->nc];
    q->carried = args + 2 + q->nc;
    q->cross = q->carried + q->n;
}

static void begin_step(Joined *q)
{
    const Instr *loop = q->r->loop;
    q->at = in_block(q, q->steps->blocks[1]);
    value_map_init(&q->now, &q->r->c->s->arena);
    for (int k = 0; k < q->nc; k++) value_map_set(&q->now, q->x->carried.data[k], q->own[k]);
    compute_anew(q->x, &q->at, &q->now);
    q->following = ir_bin(&q->at, OP_ADD, q->j, value_map_get(&q->now, ir_operand(loop, 2)));
    q->last = ir_bin(&q->at, OP_GE, q->following, value_map_get(&q->now, ir_operand(loop, 1)));
    ir_set_name(q->last, "last");
}

/* Emits the choice of the next step: of this program, or the first step of the next one. Gives go, the
 * program's values, the step, and the values that the early part carries. */
static Instr *cross_border(Joined *q)
{
    const Instr *loop = q->r->loop;
    Row stay = { 0 }, enter = { 0 }, end = { 0 }, going = { 0 };
    for (int k = 0; k < q->nc; k++) put(&stay, q->own[k]);
    put(&stay, q->following);
    for (int k = 0; k < q->n; k++)
        if (!is_late(q->r, k)) put(&stay, q->carried[k]);
    put(&going, q->go);
    for (int k = 0; k < stay.n; k++) put(&going, stay.v[k]);
    Instr *border =
        ir_build(&q->at, OP_IF, &q->last, 1, ATTRS(a_int(ATTR_BORDER, BORDER_CHANGE)), going.t, going.n);
    Builder in = ir_at_end(border->blocks[1]);
    yield(&in, &going);
    in = in_block(q, border->blocks[0]);
    for (size_t k = 0; k < q->x->releases.len; k++) ir_clone(&in, q->x->releases.data[k], &q->now);
    Instr *program = take_next_program(q->x, &in);
    Value *has = &program->results[0];
    Instr *opened = ir_build(&in, OP_IF, &has, 1, NO_ATTRS, stay.t, stay.n);
    put(&end, has);
    for (int k = 0; k < stay.n; k++) put(&end, &opened->results[k]);
    yield(&in, &end);
    in = ir_at_end(opened->blocks[1]);
    yield(&in, &stay);
    in = in_block(q, opened->blocks[0]);
    ValueMap fresh;
    start_values(q, &in, program, &fresh);
    for (int k = 0; k < q->nc; k++) put(&enter, value_map_get(&fresh, q->x->carried.data[k]));
    put(&enter, value_map_get(&fresh, ir_operand(loop, 0)));
    for (int k = 0; k < q->n; k++)
        if (!is_late(q->r, k)) put(&enter, value_map_get(&fresh, ir_operand(loop, k + 3)));
    yield(&in, &enter);
    ir_set_name(&border->results[0], "go");
    return border;
}

/* Emits the early part of the next step with the late part of this one, or the late part alone at the very
 * end: what the early part carries stays then, a state of memory as the border has handed it on. */
static Instr *do_step(Joined *q, const Instr *border)
{
    Rotation *r = q->r;
    const Block *body = r->s.body;
    Value *go = (Value *)&border->results[0];
    Row out = { 0 }, alone = { 0 };
    for (int k = 0; k < q->n; k++) put(&out, q->carried[k]);
    for (int k = 0; k < q->nx; k++) put(&out, q->cross[k]);
    Instr *work = ir_build(&q->at, OP_IF, &go, 1, ATTRS(a_int(ATTR_BORDER, BORDER_WORK)), out.t, out.n);
    Builder in = in_block(q, work->blocks[0]);
    ValueMap early;
    value_map_init(&early, &r->c->s->arena);
    for (int k = 0; k < q->nc; k++) value_map_set(&early, q->x->carried.data[k], &border->results[1 + k]);
    compute_anew(q->x, &in, &early);
    value_map_set(&early, body->args[0], &border->results[1 + q->nc]);
    for (int k = 0, e = 2 + q->nc; k < q->n; k++)
        if (!is_late(r, k)) value_map_set(&early, body->args[k + 1], &border->results[e++]);
    for (int k = 0; k < q->n; k++) value_map_set(&q->now, body->args[k + 1], q->carried[k]);
    for (int k = 0; k < q->nx; k++) value_map_set(&q->now, r->cross.data[k], q->cross[k]);
    rotate_clone_step(r, &in, &early, &q->now);
    out.n = 0;
    for (int k = 0; k < q->n; k++)
        put(&out, value_map_get(is_late(r, k) ? &q->now : &early, ir_operand(r->yield, k)));
    for (int k = 0; k < q->nx; k++) put(&out, value_map_get(&early, r->cross.data[k]));
    yield(&in, &out);
    in = in_block(q, work->blocks[1]);
    rotate_clone_late(r, &in, &q->now);
    for (int k = 0, e = 2 + q->nc; k < q->n; k++) {
        Value *stays = is_late(r, k) ? NULL : (Value *)&border->results[e++];
        if (stays && stays->type->kind != TYPE_TOKEN) stays = q->carried[k];
        put(&alone, stays ? stays : value_map_get(&q->now, ir_operand(r->yield, k)));
    }
    for (int k = 0; k < q->nx; k++) put(&alone, q->cross[k]);
    yield(&in, &alone);
    return work;
}

/* Emits the operations after the inner loop when a program ends. Late values start again. */
static Instr *end_program(Joined *q, const Instr *work)
{
    const Instr *loop = q->r->loop;
    Row kept = { 0 }, anew = { 0 };
    for (int k = 0; k < q->n; k++) {
        value_map_set(&q->now, &loop->results[k], is_late(q->r, k) ? &work->results[k] : q->carried[k]);
        if (!is_late(q->r, k)) continue;
        put(&kept, &work->results[k]);
        put(&anew, value_map_get(&q->now, ir_operand(loop, k + 3)));
    }
    Instr *close =
        ir_build(&q->at, OP_IF, &q->last, 1, ATTRS(a_int(ATTR_BORDER, BORDER_END)), kept.t, kept.n);
    Builder in = ir_at_end(close->blocks[1]);
    yield(&in, &kept);
    in = ir_at_end(close->blocks[0]);
    for (size_t k = 0; k < q->x->after.len; k++) ir_clone(&in, q->x->after.data[k], &q->now);
    yield(&in, &anew);
    return close;
}

bool rotate_cross_tile(Rotation *r, bool asked, bool make)
{
    CrossTile x;
    if (!plan_cross_tile(&x, r, asked) || !make) return false;
    Joined q = { .x = &x, .r = r, .nc = (int)x.carried.len, .n = r->n, .nx = (int)r->cross.len };
    begin_steps(&q);
    begin_step(&q);
    Instr *border = cross_border(&q), *work = do_step(&q, border), *close = end_program(&q, work);
    Row next = { 0 };
    for (int k = 0; k < q.nc + 2; k++) put(&next, &border->results[k]);
    for (int k = 0, l = 0; k < q.n; k++) put(&next, is_late(r, k) ? &close->results[l++] : &work->results[k]);
    for (int k = 0; k < q.nx; k++) put(&next, &work->results[q.n + k]);
    yield(&q.at, &next);
    ir_erase(x.outer);
    text_printf(&r->c->note,
        "  rotation: the early product runs one step ahead, across programs too; %d values cross, %d of a "
        "program are carried\n",
        q.nx, q.nc);
    return true;
}
