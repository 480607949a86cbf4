/* cost_walk.c: of cost: walks the kernel IR of one program and counts what it does. */
#include "runtime/choice/cost/cost_walk.h"
#include <math.h>

enum { WARPGROUP = 128 };

/* --- single operations ------------------------------------------------------------------------------- */

double cost_lanes(const CostWalk *w, const Type *t)
{
    double registers = w->plan && t->layout ? layout_regs(layouts_get(&w->plan->layouts, t)) : 1;
    return fmax((double)type_elements(t), registers * w->threads);
}

/* Lane operations by which the threads that hold parts of a row put their results together: in each step, a
 * thread gets the other one's and combines the two. */
static double exchange(const CostWalk *w, const Type *t, bool positions)
{
    const bool one = t->kind == TYPE_SCALAR; /* which each thread gets */
    if (!one && (t->kind != TYPE_TILE || !t->layout)) return 0;
    double all = one ? w->threads : cost_lanes(w, t), holders = one ? all : all / (double)type_elements(t);
    double step = positions ? w->model->position_step : w->model->exchange_step;
    return holders > 1 ? step * all * log2(holders) : 0;
}

static void arithmetic(CostWalk *w, const Instr *i, double times)
{
    const Type *t = i->n_results ? i->results[0].type : NULL;
    if (!t || t->kind != TYPE_TILE || !t->layout) return;
    double n = cost_lanes(w, t) * times;
    cost_elements(w, i, n);
    if (i->op == OP_SLIDE && ir_attr_int(i, ATTR_START, 0) * dtype_bytes(t->dtype) % 4)
        w->c.alu += n * dtype_bytes(t->dtype) / 4;
}

static void loop(CostWalk *w, const Instr *i, double times)
{
    int64_t lo = 0, hi = 0, step = 0, iterations = COST_UNKNOWN_ITERATIONS;
    double unknown = 0;
    bool programs = ir_over_programs(i), known = cost_as_int(w, ir_operand(i, 0), &lo) &
                                                 cost_as_int(w, ir_operand(i, 1), &hi) &
                                                 cost_as_int(w, ir_operand(i, 2), &step);
    if (!programs) cost_round_words(w, i);
    if (programs) iterations = 1;
    else if (!known) iterations = (int64_t)ceil(unknown = cost_unknown_iterations(w, i->blocks[0]));
    else if (step > 0) iterations = hi > lo ? (hi - lo + step - 1) / step : 0;
    const double rounds = programs || known ? (double)iterations : unknown;
    /* with shares a number above those of the clusters would be one of the last round's */
    int64_t together = w->plan && w->plan->shares && w->plan->multicast > 1 ? w->plan->multicast : 1;
    if (programs) cost_put(w, i->blocks[0]->args[0], scalar_int(w->linear / together));
    else if (known)
        cost_put(w, i->blocks[0]->args[0],
            scalar_int(
                lo + (w->traffic ? 0 : step * (iterations / 2)))); /* the first iteration names a window, the
                                                                 one in the middle stands for all */
    w->c.persistent |= programs && !(w->plan && w->plan->resident);
    bool counted = w->counted;
    CostCounter around = w->counter;
    w->counter = (CostCounter){ known && !programs ? i->blocks[0]->args[0] : NULL, lo, step, iterations };
    w->counted = false;
    if (w->producer && !programs && !w->loops) w->rounds = fmax(w->rounds, (double)iterations);
    w->loops += !programs;
    w->far += !programs && !known;
    int64_t from;
    if (w->traffic && !programs && known && iterations > 1 && iterations <= MOST_ITERATIONS_NAMED &&
        !ir_is_const(ir_operand(i, 0), &from)) {
        /* loops that begin elsewhere in each program (a sliding window) share some iterations' windows with
         * other programs and not others: each is named */
        for (int64_t t = 0; t < iterations; t++) {
            cost_put(w, i->blocks[0]->args[0], scalar_int(lo + t * step));
            cost_walk_block(w, i->blocks[0], times);
        }
    } else if (iterations > 0) {
        if (known && !programs) cost_spans(w, i->blocks[0], lo, step, iterations);
        cost_walk_block(w, i->blocks[0], times * rounds);
    }
    if (!programs && !w->traffic) cost_loop_waits(w, i, times * rounds);
    w->loops -= !programs;
    w->far -= !programs && !known;
    w->counter = around;
    w->counted = counted;
}

static void one(CostWalk *w, const Instr *i, double times);

/* The loop over the steps of all programs in this block, which cross-tile-pipelining joined; NULL: none. */
static const Instr *joined_in(const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next)
        if (ir_loop_is(i, LOOP_JOINED)) return i;
    return NULL;
}

/* One program ends and the next begins, which the second block of the if leaves out. */
static void change(CostWalk *w, const Instr *border, double times)
{
    const Instr *stays = border->blocks[1]->last;
    for (int k = 0; k < stays->n_operands; k++)
        if (cost_get(w, ir_operand(stays, k)).is)
            cost_put(w, &border->results[k], cost_get(w, ir_operand(stays, k)).v);
    w->loops--;
    cost_walk_block(w, border->blocks[0], times);
    w->loops++;
    w->counted = false;
}

/* The steps of one program, as many as the producer's, the one in the middle standing for all; what is done
 * where it ends, once. */
static void joined(CostWalk *w, const Instr *i, double times)
{
    const Attr *counter = ir_attr(i, ATTR_COUNTER);
    double n = w->rounds;
    for (int k = 0; k < i->n_operands; k++) {
        CostKnown x = cost_get(w, ir_operand(i, k));
        if (!x.is) continue;
        if (counter && counter->v[0] == k) x.v.i += counter->v[1] * (int64_t)(n / 2);
        cost_put(w, i->blocks[1]->args[k], x.v);
    }
    w->loops++;
    for (const Instr *x = i->blocks[1]->first; x; x = x->next) {
        int64_t part = ir_attr_int(x, ATTR_BORDER, BORDER_NONE);
        if (part == BORDER_CHANGE) change(w, x, times);
        else if (part == BORDER_END) {
            w->loops--;
            cost_walk_block(w, x->blocks[0], times);
            w->loops++;
        } else if (part == BORDER_WORK) cost_walk_block(w, x->blocks[0], times * n);
        else one(w, x, times * n);
    }
    w->loops--;
}

/* A loop whose late products are carried in flight (passes/kernel/pipeline/rotate_carried.c) counts as it
 * would with its first step peeled: that one with the first value, the others with the one in the middle. */
static void carried(CostWalk *w, const Instr *i, double times)
{
    Counted c;
    int64_t lo = 0, hi = 0, step = 0, iterations = COST_UNKNOWN_ITERATIONS;
    bool counts = ir_counted(i, &c), known = counts && cost_as_int(w, c.lo, &lo) & cost_as_int(w, c.hi, &hi) &
                                                           cost_as_int(w, c.step, &step);
    if (known && step > 0) iterations = hi > lo + step ? (hi - lo - 1) / step : 0;
    else if (!known) iterations = (int64_t)ceil(cost_unknown_iterations(w, i->blocks[1]));
    const Block *head = i->blocks[0], *issue = i->blocks[1];
    if (known) cost_put(w, head->args[c.at], scalar_int(lo));
    cost_walk_block(w, head, times);
    bool met = w->counted;
    w->counted = false;
    w->loops++;
    for (int k = 0; k < 2 && known; k++)
        cost_put(
            w, i->blocks[k]->args[c.at], scalar_int(lo + step + (w->traffic ? 0 : step * (iterations / 2))));
    if (iterations > 0) cost_walk_block(w, issue, times * (double)iterations);
    if (iterations > 0) cost_walk_block(w, head, times * (double)iterations);
    w->loops--;
    w->counted = met;
}

static bool takes_tile(const void *user, const Instr *i)
{
    (void)user;
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k)->type->kind == TYPE_TILE) return true;
    return i->n_results && i->results[0].type->kind == TYPE_TILE;
}

/* Whether a loop only searches: scalars and loads of single elements, whose time is little beside any tile's.
 */
static bool only_scalars(const Instr *loop)
{
    for (int k = 0; k < loop->n_blocks; k++)
        if (ir_any_in(loop->blocks[k], takes_tile, NULL)) return false;
    return true;
}

static void open_while(CostWalk *w, const Instr *i, double times)
{
    if (ir_loop_is(i, LOOP_CARRIED)) carried(w, i, times);
    else if (ir_loop_is(i, LOOP_JOINED)) joined(w, i, times);
    else { /* the kernel's own, whose trip count no walk decides */
        const double rounds = w->roles ? 1 : cost_open_iterations(w, i);
        w->c.uncertain |= w->roles && !w->producer && !only_scalars(i);
        w->loops++;
        for (int k = 0; k < i->n_blocks; k++) cost_walk_block(w, i->blocks[k], times * rounds);
        w->loops--;
        if (!w->traffic) cost_loop_waits(w, i, times * rounds);
    }
}

/* The part of the iterations in which the counter, or a number more, is below a bound, as for copies that run
 * ahead of a loop: the one in the middle cannot stand for all of these. False: the condition says no such
 * thing. */
static bool part_below(CostWalk *w, const Value *condition, double *part)
{
    const CostCounter *c = &w->counter;
    const Instr *d = condition->def;
    int64_t more, bound;
    if (w->traffic || !c->at || c->n < 1 || c->step < 1 || !d || d->op != OP_LT ||
        !cost_as_int(w, ir_operand(d, 1), &bound))
        return false;
    const Value *at = ir_operand(d, 0);
    for (; at->def && at->def->op == OP_ADD && ir_is_const(ir_operand(at->def, 1), &more);
        at = ir_operand(at->def, 0))
        bound -= more;
    if (at != c->at) return false;
    double below = ceil((double)(bound - c->lo) / (double)c->step);
    *part = fmax(0, fmin(1, below / (double)c->n));
    return true;
}

static void choice(CostWalk *w, const Instr *i, double times)
{
    double part;
    int64_t c;
    const Instr *inner = joined_in(i->blocks[0]);
    if (inner) { /* before it, the early part of the very first step */
        for (const Instr *x = i->blocks[0]->first; x; x = x->next) one(w, x, x == inner ? times : 0);
    } else if (part_below(w, ir_operand(i, 0), &part)) {
        if (part > 0) cost_walk_block(w, i->blocks[0], times * part);
        if (part < 1) cost_walk_block(w, i->blocks[1], times * (1 - part));
    } else if (!(ir_is_rare(i) && w->loops) && cost_as_int(w, ir_operand(i, 0), &c))
        cost_walk_block(w, i->blocks[c ? 0 : 1], times);
    else if (ir_is_rare(i))
        cost_walk_block(w, i->blocks[0], times); /* the step of a loop that is counted may be rare */
    else cost_walk_block(w, i->blocks[0], times / 2), cost_walk_block(w, i->blocks[1], times / 2);
}

static void roles(CostWalk *w, const Instr *i, double times)
{
    w->roles = true;
    w->producer = true;
    cost_walk_block(w, i->blocks[0], times);
    if (i->n_blocks > 2) cost_walk_block(w, i->blocks[2], times);
    w->producer = false;
    if (w->traffic) return;
    w->threads = 32 * w->plan->warps;
    cost_walk_block(w, i->blocks[1], times);
}

static void next_program(CostWalk *w, const Instr *i)
{
    w->c.persistent = true;
    for (int k = 0; k < i->n_results; k++) cost_put(w, &i->results[k], scalar_int(k ? w->coord[k - 1] : 1));
}

static void ring_put(CostWalk *w, const Instr *i, double times)
{
    double whole, bytes = cost_window_bytes(w, i, &whole) * times;
    cost_reads(w, i, ir_operand(i, 1)->index, bytes);
    const Instr *ring = ir_operand(i, 0)->def;
    int64_t ctas = ring && ring->op == OP_RING ? ir_attr_int(ring, ATTR_CLUSTER, 1) : 1,
            row = cost_row_bytes(w, i);
    double own = bytes / (double)(ctas > 1 ? ctas : 1); /* what this CTA asks for */
    w->c.puts += times;
    w->c.given += bytes - own;
    w->c.outside += fmax(0, whole * times - bytes) / (double)(ctas > 1 ? ctas : 1);
    w->c.wasted += own * (cost_narrow(w, i) + cost_pieces(w, i) - 1);
    if (row % 128 && ring && ring->results[0].type->rank > 2) /* a vector has no panels */
        w->c.panels =
            fmax(w->c.panels, row > 128 && row % 64 ? 2 : 1); /* passes/kernel/layout/layout_table.c */
    w->c.pixels |= ir_attr(i, ATTR_IM2COL) != NULL;
    w->c.torn += own * cost_torn(w, i) * cost_pieces(w, i);
    w->c.split += own * cost_split(w, i);
    w->c.cut += times / (double)(ctas > 1 ? ctas : 1) * cost_cut(w, i);
}

/* The CTAs of a cluster join the parts of a tile; without an axis they only take the largest of a row. */
static void cluster_combine(CostWalk *w, const Instr *i, double times)
{
    w->c.shared += 2.0 * cost_bytes(i->results[0].type) * times;
    w->c.joins += times * (ir_attr(i, ATTR_AXIS) ? 1 : w->model->join_rows) *
                  (1 + cost_bytes(ir_operand(i, 0)->type) / w->model->join_bytes);
}

/* The last CTA of a tile reads the parts of all clusters. */
static void workspace_combine(CostWalk *w, const Instr *i, double times)
{
    double bytes = 0;
    for (int k = 0; k < i->n_results; k++) bytes += cost_bytes(i->results[k].type) * times;
    w->c.left += bytes * (double)ir_attr_int(i, ATTR_COUNT, 1);
}

/* Meetings that a reduction takes: without products its rows lie across all warps, of which each warpgroup's
 * hand their parts on. */
static double meetings(const CostWalk *w)
{
    bool products = w->roles || ir_holds(w->f->body, OP_MMA_SYNC);
    return products ? 1 : fmax(1, w->code->threads / (double)WARPGROUP);
}

/* Everything else: reductions, scans and elementwise operations. */
static void compute(CostWalk *w, const Instr *i, double times)
{
    OpFamily f = op_family(i->op);
    bool scans = f == OPS_SCAN || f == OPS_SORT || i->op == OP_SCAN;
    if (scans || f == OPS_REDUCE || f == OPS_ARG || i->op == OP_REDUCE) {
        double n = cost_lanes(w, ir_operand(i, 0)->type) * times;
        if (i->op == OP_REDUCE) /* a function of the kernel's own combines them */
            for (const Instr *x = i->blocks[0]->first; x; x = x->next) cost_elements(w, x, n);
        else w->c.alu += n * (scans ? w->model->scan_element : 1);
        if (ir_attr_int(i, ATTR_LANES, 0) != LANES_APART)
            w->c.alu += exchange(w, i->results[0].type, f == OPS_ARG) * times;
        w->c.meets += times;
        w->c.across += times * (meetings(w) - 1);
        w->c.reductions += times;
        return;
    }
    cost_evaluate(w, i, times > 1 ? 0 : times, times);
    arithmetic(w, i, times);
}

static void shared_work(CostWalk *w, const Instr *i, double times)
{
    switch (op_as_shared(i->op)) {
    case KERNEL_SHARED_ALLOC: w->c.ring += cost_bytes(i->results[0].type); return;
    case KERNEL_SHARED_STAGE: cost_stages(w, i); return;
    case KERNEL_SHARED_READ: w->c.shared += cost_bytes(ir_result(i)->type) * times; return; /* of its view */
    case KERNEL_SHARED_WRITE: w->c.shared += cost_bytes(ir_operand(i, 1)->type) * times; return;
    case KERNEL_COPY: cost_copy(w, i, times); return;
    case KERNEL_COPY_WAIT:
        cost_wait_for_data(w, times);
        w->c.meets += times;
        return;
    case KERNEL_BARRIER: w->c.meets += times; return;
    case KERNEL_ATOMICS_OPEN:
    case KERNEL_ATOMICS_CLOSE: cost_gathered_words_of(w, i); return;
    case KERNEL_BULK_FLUSH:
    case KERNEL_SHARED_SLICE:
    case KERNEL_SHARED_TRANSPOSE:
    case KERNEL_COPY_COMMIT: return;
    }
}

static void ring_work(CostWalk *w, const Instr *i, double times)
{
    switch (op_as_ring(i->op)) {
    case KERNEL_RING: w->c.ring += cost_bytes(i->results[0].type); return;
    case KERNEL_RING_GET:
        cost_stages(w, i);
        cost_wait_for_data(w, times);
        return;
    case KERNEL_RING_READ:
        cost_wait_for_data(w, times);
        w->c.shared += cost_bytes(i->results[0].type) * times;
        return;
    case KERNEL_RING_PUT: /* see `one` */
    case KERNEL_RING_CP_ASYNC:
    case KERNEL_RING_NONE:
    case KERNEL_RING_RELEASE: return;
    }
}

/* What programs without warp specialization, and consumers, do beside control flow. */
static void own_work(CostWalk *w, const Instr *i, double times)
{
    OpFamily f = op_family(i->op);
    if (f == OPS_SHARED) shared_work(w, i, times);
    else if (f == OPS_RING) ring_work(w, i, times);
    else if (f == OPS_PRODUCT) cost_product(w, i, times);
    else if (f == OPS_MEMORY) cost_memory(w, i, times);
    else if (i->op == OP_CLUSTER_COMBINE) cluster_combine(w, i, times);
    else if (i->op == OP_WORKSPACE_COMBINE) workspace_combine(w, i, times);
    else if (i->op == OP_SHARE_COMBINE) w->c.shared_out += cost_bytes(i->results[0].type) * times;
    else if (i->op == OP_CONVERT) cost_convert(w, i, times);
    else if (cost_is_by_position(i)) cost_by_position(w, i, times);
    else compute(w, i, times);
}

static void visit(CostWalk *w, const Instr *i, double times)
{
    if (i->op == OP_FOR) loop(w, i, times);
    else if (i->op == OP_WHILE) open_while(w, i, times);
    else if (i->op == OP_IF) choice(w, i, times);
    else if (i->op == OP_ROLES || i->op == OP_CP_ASYNC_ROLES) roles(w, i, times);
    else if (i->op == OP_NEXT_PROGRAM) next_program(w, i);
    else if (i->op == OP_RING_CP_ASYNC) cost_cp_async(w, i, times);
    else if (i->op == OP_RING_PUT) ring_put(w, i, times);
    else if (i->op == OP_COPY) cost_copy(w, i, times);
    else if (w->producer) cost_evaluate(w, i, times > 1 ? 0 : times, times);
    else {
        double before = w->c.alu;
        own_work(w, i, times);
        if (!w->loops) w->c.ends += w->c.alu - before;
    }
}

/* Adds to the line of an instruction what it added to the program. */
static void add_to_line(CostWalk *w, Loc at, const Cost *before)
{
    const Cost *c = &w->c;
    int n = 0, line, column;
    diag_position(w->s, at, &line, &column);
    while (n < w->n_lines && (w->lines[n].at.file != at.file || w->lines[n].line != line)) n++;
    if (n == MOST_LINES || !line) return;
    if (n == w->n_lines) w->lines[w->n_lines++] = (CostLine){ .at = at, .line = line };
    double *of = w->lines[n].of, in = c->in - before->in + c->wasted - before->wasted;
    of[BOUND_LOADS] += in;
    of[BOUND_L2] += in;
    of[BOUND_MEMORY] += in + c->out - before->out;
    of[BOUND_SHARED_MEMORY] += c->shared - before->shared + c->feed - before->feed;
    of[BOUND_ARITHMETIC] +=
        c->alu - before->alu + (c->special - before->special) * w->model->alu / w->model->special;
    of[BOUND_PRODUCTS] += c->wgmma - before->wgmma + c->mma - before->mma;
}

static void one(CostWalk *w, const Instr *i, double times)
{
    TrafficStep step = w->traffic ? cost_step(w, i) : (TrafficStep){ 0 };
    if (step.window) cost_meet(w, &step, times);
    else if (!w->lines || i->n_blocks) visit(w, i, times);
    if (step.window || !w->lines || i->n_blocks) return;
    Cost before = w->c;
    visit(w, i, times);
    add_to_line(w, i->loc, &before);
}

/* --- windows of many programs ------------------------------------------------------------------------- */

/* Whether the operation decides windows, after a walk of it. */
static bool matters(const CostWalk *w, const Instr *i)
{
    if (i->n_blocks || i->n_results > 1 || kernel_copies(i->op) || i->op == OP_LOAD) return true;
    return i->n_results && i->results[0].type->kind == TYPE_SCALAR && !cost_always(w, &i->results[0]);
}

/* The entry of a block that was walked before; NULL: it was not. */
static TrafficBlock *met(CostWalk *w, const Block *b)
{
    Traffic *t = w->traffic;
    for (size_t k = 0; k < t->blocks.len; k++)
        if (t->blocks.data[k].block == b) return &t->blocks.data[k];
    vec_push(&w->s->arena, &t->blocks, (TrafficBlock){ .block = b });
    return NULL;
}

static void trim(CostWalk *w, TrafficBlock *t)
{
    for (const Instr *i = t->block->first; i && !t->trimmed; i = i->next)
        if (matters(w, i)) vec_push(&w->s->arena, &t->steps, cost_step(w, i));
    t->trimmed = true;
}

static void traffic_step(CostWalk *w, const TrafficStep *t, double times)
{
    if (t->window) cost_meet(w, t, times);
    else if (t->whole && cost_whole_step(w, t)) return;
    else if (t->i->n_blocks || t->i->op == OP_NEXT_PROGRAM) visit(w, t->i, times);
    else cost_evaluate(w, t->i, 0, 0);
}

void cost_walk_block(CostWalk *w, const Block *b, double times)
{
    TrafficBlock *again = w->traffic ? met(w, b) : NULL;
    if (again) {
        trim(w, again);
        const TrafficStep *steps = again->steps.data; /* `again` moves when another block is met */
        for (size_t k = 0, n = again->steps.len; k < n; k++) traffic_step(w, &steps[k], times);
        return;
    }
    for (const Instr *i = b->first; i; i = i->next) one(w, i, times);
}

/* --- the program --------------------------------------------------------------------------------------- */

void cost_walk(CostWalk *w, int64_t linear, const int64_t *coord)
{
    w->walk++;
    w->waits = NULL;
    w->linear = linear;
    memcpy(w->coord, coord, sizeof w->coord);
    for (int p = 0; p < w->f->n_params; p++)
        if (w->f->params[p].kind == PARAM_SCALAR && w->env->scalars)
            cost_put_always(w, w->f->body->args[p], w->env->scalars[p]);
    cost_walk_block(w, w->f->body, 1);
}
