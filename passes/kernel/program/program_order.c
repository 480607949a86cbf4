/* program-order: chooses the order in which a grid takes its programs.
 *
 * The pass reads two facts off the IR. Work: on which grid axis does the trip count of a loop with
 * products depend, and does it grow with it (causal attention: later queries see more keys)? Sharing:
 * which grid axes do the loads of that loop not depend on? Programs that differ only in such an axis read
 * the same bytes.
 *
 * Heavy first: with a work axis, programs that share their loop's operands (a stream, such as one head's K
 * and V) come in groups whose streams fit L2 together. In a group, the heaviest coordinate of all streams
 * comes first: position p -> group p / (G n), row (p % (G n)) / size, stream G group + p % size.
 *
 * Grouped rows: with two axes, and one operand of the product following each (matrix multiplication),
 * programs come in blocks of G coordinates of the first axis, so that programs that run together share
 * rows and columns.
 *
 * Along stores: without products, if the windows of the largest store neither begin nor end with a sector
 * of memory (rows that are not aligned), the grid axis that moves them along the contiguous axis comes
 * first. Two programs that write parts of one sector then run together, and the sector leaves L2 as a
 * whole.
 *
 * Scattered rows: without products, programs that change one row of a tensor at places that they load come
 * together, so that L2 holds the rows that are changed (scattered_rows.c).
 *
 * Chains: where programs wait for those before them on the first axis, for no others, and multiply in loops,
 * programs of several chains whose streams fit L2 together come in turn, the first of each chain first. Else
 * the programs of one chain start together, and each waits until those in front of it have begun.
 *
 * Programs that wait for others in another way (ir_waits_for_programs) keep the order of their numbers.
 *
 * All orders are bijections of [0, programs) for every grid size; the last group takes the size that is
 * left. A kernel's own remap or raster clause takes precedence over them, and a schedule's order over
 * both. */
#include "passes/kernel/schedule/schedule.h"

enum { UNKNOWN = -1 };

typedef struct ProgramOrder {
    Session *s;
    Func *f;
    KernelPlan *p;
    int rank, work_axis;
    bool grouped, chains;
    VEC(Instr *) streams;
    VEC(Instr *) sums; /* additions in loops to windows in memory */
    unsigned axes_a, axes_b, *axes;
    int steps;
} ProgramOrder;

/* The grid axes on which each value depends, as a set by value id. Operands come before their users. */
static void note_axes(void *user, Instr *i)
{
    ProgramOrder *c = user;
    unsigned set = i->op == OP_PROGRAM_ID ? 1u << ir_attr_int(i, ATTR_AXIS, 0) : 0;
    for (int k = 0; k < i->n_operands; k++) set |= c->axes[ir_operand(i, k)->id];
    for (int k = 0; k < i->n_results; k++) c->axes[i->results[k].id] = set;
}

static bool follows(const ProgramOrder *c, const Value *v, int axis) { return c->axes[v->id] >> axis & 1; }

/* Whether v never decreases when program id `axis` grows. The answer is conservative. */
static bool grows(ProgramOrder *c, const Value *v, int axis)
{
    if (!follows(c, v, axis)) return true;
    if (!v->def || --c->steps < 0) return false;
    int64_t by;
    const Instr *d = v->def;
    if (d->op == OP_PROGRAM_ID) return true;
    if (d->op == OP_ADD || d->op == OP_MIN || d->op == OP_MAX)
        return grows(c, ir_operand(d, 0), axis) && grows(c, ir_operand(d, 1), axis);
    if (d->op == OP_MUL || d->op == OP_DIV || d->op == OP_CDIV)
        return ir_is_const(ir_operand(d, 1), &by) && by > 0 && grows(c, ir_operand(d, 0), axis);
    if (d->op == OP_SUB) return !follows(c, ir_operand(d, 1), axis) && grows(c, ir_operand(d, 0), axis);
    if (d->op == OP_CAST)
        return dtype_is_int(ir_operand(d, 0)->type->dtype) && grows(c, ir_operand(d, 0), axis);
    return d->op == OP_WHERE && !follows(c, ir_operand(d, 0), axis) && grows(c, ir_operand(d, 1), axis) &&
           grows(c, ir_operand(d, 2), axis);
}

static unsigned load_axes(const ProgramOrder *c, const Instr *load)
{
    MemParts m;
    unsigned set = 0;
    ir_mem_parts(load, &m);
    for (int a = 0; a < m.rank; a++) set |= c->axes[m.idx[a]->id];
    return set;
}

static const Instr *load_behind(const Value *v)
{
    while (v->def && (v->def->op == OP_PERMUTE || v->def->op == OP_CAST)) v = ir_operand(v->def, 0);
    return v->def && v->def->op == OP_LOAD ? v->def : NULL;
}

static void visit(void *user, Instr *i)
{
    ProgramOrder *c = user;
    const Instr *loop = i->block->parent;
    if (!loop || loop->op != OP_FOR) return;
    if (i->op == OP_STORE && ir_adds(i)) vec_push(&c->s->arena, &c->sums, i);
    if (i->op != OP_MMA) return;
    for (int a = 0; a < c->rank; a++) {
        c->steps = 256;
        if (follows(c, ir_operand(loop, 1), a) && grows(c, ir_operand(loop, 1), a) &&
            !follows(c, ir_operand(loop, 0), a))
            c->work_axis = a;
    }
    for (int k = 0; k < 2; k++) {
        const Instr *l = load_behind(ir_operand(i, k));
        if (!l || l->block != i->block) continue;
        /* Parts of a split loop contain copies of the same load, which count as one stream. */
        bool known = false;
        for (size_t x = 0; x < c->streams.len; x++)
            known |= ir_operand(c->streams.data[x], 0) == ir_operand(l, 0) &&
                     ir_result(c->streams.data[x])->type == ir_result(l)->type;
        if (!known) vec_push(&c->s->arena, &c->streams, (Instr *)l);
        *(k ? &c->axes_b : &c->axes_a) |= load_axes(c, l);
    }
}

static Value *i32(Builder *b, int64_t v) { return ir_const_int(b, DT_I32, v); }
static Value *opaque(Builder *b, Value *v) { return ir_emit(b, OP_OPAQUE, &v, 1, NO_ATTRS, NULL); }

/* An opaque value, so that the group sizes below are computed once for each program instead of kept in the
 * producer's few registers. */
static Value *grid_extent(Builder *b, int axis)
{
    return opaque(b, ir_emit(b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, axis)),
                         type_scalar(b->module->session, DT_I32)));
}

static Value *named(Value *v, const char *name)
{
    ir_set_name(v, name);
    return v;
}

/* Adds facts that hold for every program and that intervals do not show, because there are fewer than 2^31
 * programs. Divisions are then of unsigned numbers, without cases for zero and below. */
static Value *at_least(Builder *b, int64_t least, Value *v)
{
    Session *s = b->module->session;
    int64_t *r = arena_array(&s->arena, int64_t, 2);
    r[0] = least;
    r[1] = INT32_MAX;
    ir_set_attr(s, v->def, a_ints(ATTR_RANGE, r, 2));
    return v;
}

/* A copy of what a launch knows; NULL: it does not, or not by a quotient of extents. */
static Value *launch_copy(Builder *b, Value *v, int depth)
{
    int64_t n;
    const Instr *d = v->def;
    if (ir_is_const(v, &n)) return i32(b, n);
    if (!d || depth > 8) return NULL;
    if (d->op == OP_CAST) return launch_copy(b, ir_operand(d, 0), depth + 1);
    if (d->op == OP_DIM)
        return opaque(b, ir_emit(b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, ir_attr_int(d, ATTR_DIM, 0))),
                             type_scalar(b->module->session, DT_I32)));
    if (d->op != OP_DIV && d->op != OP_CDIV) return NULL;
    Value *x = launch_copy(b, ir_operand(d, 0), depth + 1), *y = launch_copy(b, ir_operand(d, 1), depth + 1);
    return x && y ? ir_bin(b, d->op, x, y) : NULL;
}

/* How many windows of its kind a program walks over one after the other: the iterations of the loops around
 * the access's own, as of the heads that share keys. NULL: one, or not known. */
static Value *walks(Builder *b, const Instr *l)
{
    Value *all = NULL;
    for (const Instr *o = l->block->parent->block->parent; o; o = o->block->parent) {
        int64_t low, step;
        if (o->op != OP_FOR || !ir_is_const(ir_operand(o, 0), &low) || low != 0 ||
            !ir_is_const(ir_operand(o, 2), &step) || step != 1)
            continue;
        Value *n = launch_copy(b, ir_operand(o, 1), 0);
        if (n) all = all ? ir_bin(b, OP_MUL, all, n) : n;
    }
    return all;
}

/* The bytes of the whole windowed axes of an access. */
static Value *window_bytes(ProgramOrder *c, Builder *b, const Instr *l)
{
    int param = ir_operand(l, 0)->index;
    const Attr *e = ir_attr(l, ATTR_EXTENTS);
    Value *x = ir_const_float(b, DT_F32, dtype_bytes(c->f->params[param].type->dtype));
    for (int a = 0; a < e->n; a++) {
        if (e->v[a] == -1) continue;
        const Dim *dim = &c->f->dims[c->f->params[param].dims[a]];
        Value *d = dim->extent >= 0
                       ? NULL
                       : ir_emit(b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, c->f->params[param].dims[a])),
                             type_scalar(c->s, DT_I32));
        x = ir_bin(b, OP_MUL, x,
            d ? ir_cast(b, opaque(b, d), DT_F32) : ir_const_float(b, DT_F32, (double)dim->extent));
    }
    Value *times = c->chains ? walks(b, l) : NULL;
    if (times) x = ir_bin(b, OP_MUL, x, ir_cast(b, times, DT_F32));
    named(x, "stream_bytes");
    /* An estimate: its rounding may differ by one from that of the sum. */
    if (x->def->op == OP_MUL) ir_set_attr(c->s, x->def, a_int(ATTR_APPROX, 1));
    return x;
}

/* The bytes that one stream reads and adds: the whole windowed axes of its loop's accesses. */
static Value *stream_bytes(ProgramOrder *c, Builder *b)
{
    Value *sum = NULL;
    for (size_t k = 0; k < c->streams.len + c->sums.len; k++) {
        Value *x =
            window_bytes(c, b, k < c->streams.len ? c->streams.data[k] : c->sums.data[k - c->streams.len]);
        sum = sum ? ir_bin(b, OP_ADD, sum, x) : x;
    }
    return sum;
}

/* p -> coordinates, work axis first: its last coordinate, or `ascending` its first one. */
static void heavy_first(ProgramOrder *c, Builder *b, Value *p, bool ascending, Value **coord)
{
    c->chains = ascending;
    Value *n = named(at_least(b, 1, grid_extent(b, c->work_axis)), "rows"), *streams = NULL, *one = i32(b, 1);
    for (int a = 0; a < c->rank; a++) {
        if (a == c->work_axis) continue;
        Value *g = at_least(b, 1, grid_extent(b, a));
        streams = streams ? at_least(b, 1, ir_bin(b, OP_MUL, streams, g)) : g;
    }
    if (!streams) streams = one;
    else named(streams, "streams");
    /* The streams of one group take most of L2. */
    double l2 = (double)c->p->target->l2_bytes / 100,
           share = c->p->options.l2_percent ? c->p->options.l2_percent : 62;
    /* When a stream has few rows, their queries and outputs take as much of L2 as the streams do. */
    Value *few = ir_bin(b, OP_LT, n, i32(b, 24)), *half = ir_const_float(b, DT_F32, l2 * share / 2),
          *all = ir_const_float(b, DT_F32, l2 * share);
    Value *budget = named(ir_op(b, OP_WHERE, NULL, NO_ATTRS, few, half, all), "l2_bytes"),
          *some = ir_const_float(b, DT_F32, 1);
    Value *share_of = ir_bin(b, OP_DIV, budget, ir_bin(b, OP_ADD, stream_bytes(c, b), some));
    ir_set_attr(c->s, share_of->def, a_int(ATTR_APPROX, 1)); /* any group size is right */
    Value *G = ir_cast(b, share_of, DT_I32);
    G = ir_bin(b, OP_MIN, ir_bin(b, OP_MAX, G, one), streams);
    /* Groups have about the same size, because a short last group would begin its heaviest rows when all
     * others end (bench/notes/attention.md, "D 64"). */
    G = named(
        ir_bin(b, OP_CDIV, streams, ir_bin(b, OP_CDIV, streams, named(G, "streams_that_fit"))), "group_size");
    Value *per = named(at_least(b, 1, ir_bin(b, OP_MUL, G, n)), "group_programs"),
          *g = named(ir_bin(b, OP_DIV, p, per), "group"),
          *r = named(at_least(b, 0, ir_bin(b, OP_SUB, p, ir_bin(b, OP_MUL, g, per))), "within_group");
    Value *base = named(ir_bin(b, OP_MUL, g, G), "first_stream"),
          *size = named(
              at_least(b, 1, ir_bin(b, OP_MIN, G, ir_bin(b, OP_SUB, streams, base))), "this_group_size");
    Value *row = named(ir_bin(b, OP_DIV, r, size), "row"),
          *s = at_least(b, 0, ir_bin(b, OP_ADD, base, ir_bin(b, OP_SUB, r, ir_bin(b, OP_MUL, row, size))));
    named(s, "stream");
    coord[c->work_axis] = ascending ? row : ir_bin(b, OP_SUB, ir_bin(b, OP_SUB, n, one), row);
    int last = -1;
    for (int a = 0; a < c->rank; a++)
        if (a != c->work_axis) last = a;
    for (int a = 0; a < c->rank; a++) {
        if (a == c->work_axis) continue;
        if (a == last) {
            coord[a] = s;
            break;
        }
        Value *e = at_least(b, 1, grid_extent(b, a));
        coord[a] = ir_bin(b, OP_REM, s, e);
        s = ir_bin(b, OP_DIV, s, e);
    }
}

static void grouped_rows(Builder *b, Value *p, int group, Value **coord)
{
    Value *m = named(grid_extent(b, 0), "rows"), *n = named(grid_extent(b, 1), "columns"), *G = i32(b, group);
    Value *per = named(ir_bin(b, OP_MUL, G, n), "group_programs"),
          *g = named(ir_bin(b, OP_DIV, p, per), "group"),
          *r = named(ir_bin(b, OP_SUB, p, ir_bin(b, OP_MUL, g, per)), "within_group");
    Value *base = named(ir_bin(b, OP_MUL, g, G), "first_row"),
          *h = named(ir_bin(b, OP_MIN, G, ir_bin(b, OP_SUB, m, base)), "this_group_rows"),
          *col = named(ir_bin(b, OP_DIV, r, h), "column");
    coord[1] = col;
    coord[0] = ir_bin(b, OP_ADD, base, ir_bin(b, OP_SUB, r, ir_bin(b, OP_MUL, col, h)));
}

/* The grid axis along which the largest store that divides sectors continues in memory. */
typedef struct Splits {
    const ProgramOrder *c;
    int64_t bytes;
    int axis;
    bool products;
} Splits;

static void visit_store(void *user, Instr *i)
{
    Splits *s = user;
    MemParts m;
    s->products |= i->op == OP_MMA;
    if (i->op != OP_STORE || !ir_mem_parts(i, &m) || m.values[0]->type->kind != TYPE_TILE) return;
    const Type *t = m.values[0]->type;
    int64_t bytes = type_elements(t) * dtype_bytes(t->dtype);
    int unit = kernel_unit_axis(s->c->f, i, NULL);
    if (bytes <= s->bytes) return;
    unsigned axes = s->c->axes[m.idx[unit]->id];
    s->bytes = bytes;
    s->axis = UNKNOWN;
    if (s->c->f->params[m.param].stride[unit] != 1 || kernel_access_bytes(s->c->f, i) >= 16 || !axes ||
        (axes & (axes - 1)))
        return;
    for (s->axis = 0; axes >>= 1;) s->axis++;
}

/* How an atomic's element lies to the program: its own coordinates, in reverse order, on all axes but the
 * first, and there its own (0) or those of the program before it (-1). */
static bool own_element(const Instr *i, int rank, int *before)
{
    MemParts m;
    int64_t by = 0;
    if (!ir_mem_parts(i, &m) || m.rank != rank) return false;
    for (int k = 0; k < rank; k++) {
        const Value *v = m.idx[k];
        while (v->def && v->def->op == OP_CAST) v = ir_operand(v->def, 0);
        const Instr *d = v->def;
        if (d && k == rank - 1 && (d->op == OP_SUB || d->op == OP_ADD) &&
            ir_is_const(ir_operand(d, 1), &by)) {
            by = d->op == OP_SUB ? -by : by;
            d = ir_operand(d, 0)->def;
            while (d && d->op == OP_CAST) d = ir_operand(d, 0)->def;
        }
        if (!d || d->op != OP_PROGRAM_ID || ir_attr_int(d, ATTR_AXIS, 0) != rank - 1 - k) return false;
    }
    *before = (int)by;
    return by == 0 || by == -1;
}

typedef struct Chain {
    int rank;
    bool *semaphore; /* by parameter */
    bool holds;
} Chain;

static void find_semaphore(void *user, Instr *i)
{
    Chain *c = user;
    MemParts m;
    if (ir_orders(i) && ir_mem_parts(i, &m)) c->semaphore[m.param] = true;
}

/* Of a semaphore, programs change only elements of their own and of the program before, and wait for the
 * latter's, which that program and they themselves change. */
static void visit_semaphore(void *user, Instr *i)
{
    Chain *c = user;
    MemParts m;
    int before;
    if (!ir_mem_parts(i, &m) || !c->semaphore[m.param]) return;
    bool waits = false;
    for (const Block *b = i->block; b->parent; b = b->parent->block) waits |= b->parent->op == OP_WHILE;
    c->holds = c->holds && own_element(i, c->rank, &before) && (!waits || before == -1);
}

/* Whether programs wait for the one before them on the first axis of the grid, and for no others. Two
 * programs then start in order wherever the first coordinates of each chain ascend. */
static bool in_chains(const ProgramOrder *c)
{
    Chain chain = { c->rank, arena_array(&c->s->arena, bool, c->f->n_params), true };
    ir_walk(c->f->body, find_semaphore, &chain);
    ir_walk(c->f->body, visit_semaphore, &chain);
    return chain.holds && ir_waits_for_programs(c->f);
}

/* Chooses heavy programs first, or groups of rows, depending on the loops, or the order of the stored
 * elements; ORDER_IDS: none of them. */
static int derive(ProgramOrder *c, int *n)
{
    if (kernel_skips(c->p, PASS_PROGRAM_ORDER)) return ORDER_IDS;
    if (ir_waits_for_programs(c->f))
        return c->rank > 1 && c->streams.len && in_chains(c) ? ORDER_CHAINS : ORDER_IDS;
    if (!c->streams.len) {
        Splits s = { .c = c, .axis = UNKNOWN };
        ir_walk(c->f->body, visit_store, &s);
        *n = s.axis;
        if (s.products) return ORDER_IDS;
        if (s.axis > 0) return ORDER_FIRST;
        return kernel_scatters_rows(c->f, c->p, c->axes, c->rank) ? ORDER_SCATTERED : ORDER_IDS;
    }
    if (c->work_axis != UNKNOWN && c->rank > 1) {
        *n = c->work_axis;
        for (size_t k = 0; k < c->streams.len; k++)
            if (load_axes(c, c->streams.data[k]) >> c->work_axis & 1) return ORDER_IDS;
        return ORDER_HEAVY;
    }
    *n = c->f->hints.raster_group > 0 ? c->f->hints.raster_group : 16;
    bool apart = (c->axes_a == 1 && c->axes_b == 2) || (c->axes_a == 2 && c->axes_b == 1);
    return c->rank == 2 && apart && *n > 1 ? ORDER_ROWS : ORDER_IDS;
}

/* Each of the orders visits every program once. The rest of the description is for texts. */
static bool legal(ProgramOrder *c, const Decision *d)
{
    if (d->form == ORDER_IDS) return true;
    if (d->form == ORDER_CHAINS)
        return (c->rank > 1 && c->streams.len && in_chains(c)) ||
               schedule_refuse(c->p, d,
                   "no programs here wait for those before them on the first of several axes and multiply");
    if (ir_waits_for_programs(c->f))
        return schedule_refuse(c->p, d,
            "its programs wait for others, and only those that start in the order of their numbers may");
    if (d->form == ORDER_SCATTERED)
        return c->rank == 2 ||
               schedule_refuse(c->p, d, "programs of one row come together on a grid of two axes");
    if (d->form == ORDER_REMAP)
        return c->f->remap ||
               schedule_refuse(c->p, d, "the kernel has no remap or raster clause, and none was asked for");
    if (d->form == ORDER_ROWS && (c->rank != 2 || d->n[0] < 1))
        return schedule_refuse(c->p, d, "groups of rows want a grid of two axes and a group of one at least");
    if (d->form == ORDER_FIRST && (c->rank < 2 || d->n[0] >= c->rank))
        return schedule_refuse(
            c->p, d, "the grid has %d axes, counted from 0, and one first wants two at least", c->rank);
    if (d->form == ORDER_HEAVY && (c->rank < 2 || d->n[0] >= c->rank))
        return schedule_refuse(
            c->p, d, "the grid has %d axes, counted from 0, and heavy first wants two at least", c->rank);
    if (d->form == ORDER_HEAVY && !c->streams.len)
        return schedule_refuse(
            c->p, d, "no loop here feeds products from memory: there are no streams to share");
    return true;
}

/* Grid axis `first` is the fastest, and the others follow in their order. */
static void axis_first(ProgramOrder *c, Builder *b, Value *p, int first, Value **coord)
{
    int order[3] = { first }, n = 1;
    for (int a = 0; a < c->rank; a++)
        if (a != first) order[n++] = a;
    for (int k = 0; k < n; k++) {
        if (k == n - 1) {
            coord[order[k]] = p;
            break;
        }
        Value *g = ir_emit(
            b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, order[k])), type_scalar(c->s, DT_I32));
        coord[order[k]] = ir_bin(b, OP_REM, p, g);
        p = ir_bin(b, OP_DIV, p, g);
    }
}

bool kernel_order_replaces_remap(KernelPlan *p)
{
    const Decision *d = schedule_asked(p, DECIDE_ORDER);
    return d && d->form != ORDER_REMAP;
}

bool kernel_order(Session *s, Func *f, KernelPlan *p, Builder *b, Value *linear, int rank, Value **coord)
{
    ProgramOrder c = { .s = s, .f = f, .p = p, .rank = rank, .work_axis = UNKNOWN };
    const Decision *d = schedule_asked(p, DECIDE_ORDER);
    int n = 0;
    if (f->remap && !d) schedule_take(p, DECIDE_ORDER, ORDER_REMAP, 0, 0);
    if ((f->remap || p->target->kind != TARGET_CUDA) && !d) return false;
    c.axes = arena_array(&s->arena, unsigned, f->module->next_id);
    ir_walk(f->body, note_axes, &c);
    ir_walk(f->body, visit, &c);
    p->waits_for_lower = in_chains(&c);
    int form = derive(&c, &n);
    if (d) {
        if (!legal(&c, d)) return false;
        form = d->form;
        n = d->n[0];
    }
    bool own = form == ORDER_IDS || form == ORDER_REMAP;
    if (c.streams.len || d || !own) schedule_take(p, DECIDE_ORDER, form, own ? 0 : n, 0);
    if (own) return false;
    if (form == ORDER_HEAVY) {
        c.work_axis = n;
        heavy_first(&c, b, linear, false, coord);
        p->schedule = arena_printf(&s->arena,
            "%s  order: heavy first along grid axis %d, in groups whose streams fit L2\n",
            p->schedule ? p->schedule : "", n);
    } else if (form == ORDER_CHAINS) {
        c.work_axis = 0;
        heavy_first(&c, b, linear, true, coord);
        p->schedule = arena_printf(&s->arena,
            "%s  order: programs of several chains in turn, in groups whose streams fit L2\n",
            p->schedule ? p->schedule : "");
    } else if (form == ORDER_FIRST) {
        axis_first(&c, b, linear, n, coord);
        p->schedule = arena_printf(&s->arena, "%s  order: grid axis %d first, along what is stored\n",
            p->schedule ? p->schedule : "", n);
    } else if (form == ORDER_SCATTERED) {
        kernel_along_rows(f, p, c.axes, b, linear, coord);
        p->schedule = arena_printf(
            &s->arena, "%s  order: programs of one scattered row together\n", p->schedule ? p->schedule : "");
    } else {
        grouped_rows(b, linear, n, coord);
        p->schedule =
            arena_printf(&s->arena, "%s  order: groups of %d rows\n", p->schedule ? p->schedule : "", n);
    }
    return true;
}
