/* traces.c: runs a role of a kernel on made-up scalars, and writes down what it does with rings.
 *
 * Scalars are computed; tiles are not: what follows from a tile is unknown. A condition that is unknown is
 * drawn anew each time, since no other role knows it either, and a loop whose number of iterations is unknown
 * may do nothing with rings. Elements of tensors that the kernel does not write are drawn by their place, so
 * that all roles read the same. Views are followed from the stage that they are of, through loops and ifs,
 * and products in flight with the stages that they read. So a role's own breaches show here:
 * - a stage is given back that the role does not hold: twice, or never taken;
 * - a stage is read that is none, or that has been given back;
 * - a stage is given back while a product in flight may read it;
 * - the parts of a stage are not filled one after the other. */
#include "ir/verify/trace_cells.h"

#include <string.h>

enum { PRODUCER, CONSUMER, CP_ASYNC };
/* The most steps of a run; the most iterations of a loop whose number of iterations is not known. */
enum { MOST_STEPS = 4000, MOST_ITERATIONS = 3 };

typedef struct Flying {
    Cell a, b;
} Flying; /* a product, and the stages that it reads */

/* A ring as the role sees it. begun, full: stages that it has filled; taken, oldest: that it has taken, and
 * given back in order; part: which one of a stage's parts comes next. */
typedef struct RingUse {
    int64_t begun, full, oldest, part;
    VEC(bool) taken; /* by stage: still held */
} RingUse;

/* A fill of which the last window is still on its way. */
typedef struct Late {
    const Instr *fill, *loop;
} Late;

typedef struct Actor {
    Session *s;
    const Func *f;
    const TraceLaunch *launch;
    TracePrograms *programs;
    Trace *trace;
    TraceFault *fault;
    int role;
    Cell *cells;
    RingUse *rings;
    VEC(Flying) flying;
    VEC(Late) late;
    size_t next_program;
    int steps;
    uint64_t draws;
} Actor;

static bool wrong(Actor *a, const Instr *at, const char *why)
{
    *a->fault = (TraceFault){ at, why };
    return false;
}

static uint64_t draw(Actor *a) { return trace_mix(a->launch->seed + 0x9e3779b97f4a7c15ull * ++a->draws); }

static Cell *cell(Actor *a, const Value *v) { return &a->cells[v->id]; }
static const Cell unknown;

/* The number of a ring among those of the function; what is no ring has -1. */
static int ring_number(Actor *a, const Value *ring)
{ return ring->def && ring->def->op == OP_RING ? cell(a, ring)->ring : -1; }

static bool uses_ring(const void *user, const Instr *i)
{
    (void)user;
    return i->op == OP_RING_PUT || i->op == OP_RING_CP_ASYNC || i->op == OP_RING_GET ||
           i->op == OP_RING_READ || i->op == OP_RING_RELEASE || i->op == OP_NEXT_PROGRAM ||
           i->op == OP_PROGRAM_COORD;
}

static void step(Actor *a, const Instr *at, TraceKind kind, int ring, int64_t stage)
{ vec_push(&a->s->arena, a->trace, ((TraceStep){ at, kind, ring, stage })); }

/* --- programs ----------------------------------------------------------------------------------------- */

static bool take_next_program(Actor *a, const Instr *i)
{
    bool there = a->next_program < a->programs->len;
    *cell(a, &i->results[0]) = cell_number(there);
    for (int k = 1; k < i->n_results && k <= 3; k++)
        *cell(a, &i->results[k]) = cell_number(there ? a->programs->data[a->next_program].coord[k - 1] : 0);
    a->next_program += there;
    return true;
}

/* The producer hands coordinates on, the first axis first. */
static void hand_on(Actor *a, const Instr *i)
{
    int64_t axis = ir_attr_int(i, ATTR_AXIS, 0);
    const Cell *c = cell(a, &i->results[0]);
    if (a->role != PRODUCER || c->kind != NUMBER) return;
    if (axis == 0) vec_push(&a->s->arena, a->programs, ((TraceProgram){ { 0 } }));
    if (a->programs->len && axis < 3) a->programs->data[a->programs->len - 1].coord[axis] = c->n.i;
}

/* --- stages ------------------------------------------------------------------------------------------- */

static RingUse *ring_of(Actor *a, const Instr *i, int *at)
{
    *at = ring_number(a, ir_operand(i, 0));
    return *at < 0 ? NULL : &a->rings[*at];
}

static void fill_stage(Actor *a, const Instr *i, int ring)
{
    RingUse *r = &a->rings[ring];
    step(a, i, TRACE_SPACE, ring, r->begun++);
    step(a, i, TRACE_FULL, ring, r->full++);
}

/* Which of the `parts` of a stage is filled: of a put its last operand, of a fill its pass. -1: unknown. */
static int64_t part_of(Actor *a, const Instr *i, int64_t parts)
{
    if (!parts) return 0;
    if (i->op == OP_RING_CP_ASYNC) return ir_attr_int(i, ATTR_SLOT, 0);
    const Cell *c = cell(a, ir_operand(i, i->n_operands - 1));
    return c->kind == NUMBER ? c->n.i : -1;
}

static bool put(Actor *a, const Instr *i)
{
    int ring;
    RingUse *r = ring_of(a, i, &ring);
    int64_t parts = ir_attr_int(i, ATTR_PARTS, 0), part = part_of(a, i, parts);
    if (!r) return wrong(a, i, "the ring is none of the kernel's");
    if (r->part != part) return wrong(a, i, "the parts of a stage are not filled one after the other");
    if (!parts) {
        for (int64_t k = ir_attr_int(i, ATTR_COUNT, 1); k > 0; k--) fill_stage(a, i, ring);
        return true;
    }
    if (part == 0) step(a, i, TRACE_SPACE, ring, r->begun++);
    if (part == parts - 1) step(a, i, TRACE_FULL, ring, r->full++);
    r->part = (part + 1) % parts;
    return true;
}

/* The windows of this fill that are in flight. Those of rows count for the whole ring. */
static int late_of(Actor *a, const Instr *fill)
{
    bool rows = ir_attr_int(fill, ATTR_PARTS, 0) > 0;
    int n = 0;
    for (size_t k = 0; k < a->late.len; k++) {
        const Instr *x = a->late.data[k].fill;
        n += x && (x == fill || (rows && ir_operand(x, 0) == ir_operand(fill, 0)));
    }
    return n;
}

static void end_late(Actor *a, const Instr *fill)
{
    int ring;
    RingUse *r = ring_of(a, fill, &ring);
    if (ir_attr_int(fill, ATTR_PARTS, 0)) step(a, fill, TRACE_FULL, ring, r->full++);
    else fill_stage(a, fill, ring);
}

/* As a put, but where the fill's loop takes the window from the stage, an iteration later. */
static bool fill(Actor *a, const Instr *i)
{
    const Instr *loop = ir_cp_async_late_in(i);
    int64_t parts = ir_attr_int(i, ATTR_PARTS, 0), part = part_of(a, i, parts);
    int ring;
    RingUse *r = ring_of(a, i, &ring);
    if (!loop || !r) return put(a, i);
    if (r->part != part) return wrong(a, i, "the parts of a stage are not filled one after the other");
    if (parts) r->part = (part + 1) % parts;
    if (parts && part == 0) step(a, i, TRACE_SPACE, ring, r->begun++);
    if (parts && part != parts - 1) return true;
    if (late_of(a, i) == ir_cp_async_lag(i)) end_late(a, i);
    else vec_push(&a->s->arena, &a->late, ((Late){ i, loop }));
    return true;
}

/* Behind a loop, which had steps or none. */
static void end_late_copies(Actor *a, const Instr *loop, bool stepped)
{
    size_t kept = 0;
    for (size_t k = 0; k < a->late.len; k++) {
        const Late *x = &a->late.data[k];
        if (x->loop == loop || (!stepped && x->fill->block->parent == loop)) end_late(a, x->fill);
        else a->late.data[kept++] = a->late.data[k];
    }
    a->late.len = kept;
}

static bool get(Actor *a, const Instr *i)
{
    int ring;
    RingUse *r = ring_of(a, i, &ring);
    if (!r) return wrong(a, i, "the ring is none of the kernel's");
    int64_t stage = (int64_t)r->taken.len;
    vec_push(&a->s->arena, &r->taken, true);
    step(a, i, TRACE_GET, ring, stage);
    *cell(a, &i->results[0]) = (Cell){ STAGE, ring, scalar_int(stage) };
    return true;
}

static bool give_back(Actor *a, const Instr *i, int ring, int64_t stage)
{
    RingUse *r = &a->rings[ring];
    if (stage >= (int64_t)r->taken.len) return wrong(a, i, "no stage is held that could be given back");
    if (!r->taken.data[stage]) return wrong(a, i, "the stage has been given back already");
    for (size_t k = 0; k < a->flying.len; k++) {
        const Cell *read[] = { &a->flying.data[k].a, &a->flying.data[k].b };
        for (int x = 0; x < 2; x++)
            if (read[x]->kind == STAGE && read[x]->ring == ring && read[x]->n.i == stage)
                return wrong(a, i, "the stage is given back while a product in flight may read it");
    }
    r->taken.data[stage] = false;
    step(a, i, TRACE_BACK, ring, stage);
    return true;
}

static bool release(Actor *a, const Instr *i)
{
    int ring;
    RingUse *r = ring_of(a, i, &ring);
    if (!r) return wrong(a, i, "the ring is none of the kernel's");
    if (i->n_operands == 1) return give_back(a, i, ring, r->oldest++);
    const Cell *c = cell(a, ir_operand(i, 1));
    if (c->kind != STAGE) return wrong(a, i, "which stage is given back is not known");
    if (c->ring != ring) return wrong(a, i, "the stage is another ring's");
    return c->n.i < 0 || give_back(a, i, ring, c->n.i);
}

/* A tile that lies in several stages: they are taken and given back one by one. */
static bool read_stages(Actor *a, const Instr *i)
{
    int ring;
    RingUse *r = ring_of(a, i, &ring);
    if (!r) return wrong(a, i, "the ring is none of the kernel's");
    for (int64_t k = ir_attr_int(i, ATTR_COUNT, 1); k > 0; k--) {
        int64_t stage = (int64_t)r->taken.len;
        vec_push(&a->s->arena, &r->taken, true);
        step(a, i, TRACE_GET, ring, stage);
        if (!give_back(a, i, ring, r->oldest++)) return false;
    }
    return true;
}

static bool reads_held_stages(Actor *a, const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) {
        const Cell *c = cell(a, ir_operand(i, k));
        if (c->kind != STAGE) continue;
        if (c->n.i < 0) return wrong(a, i, "a stage is read that is none");
        if (!a->rings[c->ring].taken.data[c->n.i])
            return wrong(a, i, "a stage is read that has been given back");
    }
    return true;
}

static bool wait_for(Actor *a, const Instr *i)
{
    size_t keep = (size_t)ir_attr_int(i, ATTR_DEPTH, 0);
    if (keep >= a->flying.len) return true;
    memmove(a->flying.data, a->flying.data + a->flying.len - keep, keep * sizeof *a->flying.data);
    a->flying.len = keep;
    return true;
}

/* --- control ----------------------------------------------------------------------------------------- */

static bool run_block(Actor *a, const Block *b);

static void bind(Actor *a, Value *const *to, const Cell *from, int n)
{
    for (int k = 0; k < n; k++) *cell(a, to[k]) = from[k];
}

static void gather_cells(Actor *a, const Instr *end, int first, Cell *to, int n)
{
    for (int k = 0; k < n; k++) to[k] = *cell(a, ir_operand(end, first + k));
}

static void give_results(Actor *a, const Instr *i, const Cell *from)
{
    for (int k = 0; k < i->n_results; k++) *cell(a, &i->results[k]) = from[k];
}

static bool iterate(Actor *a, const Instr *loop, Cell at, Cell *carried)
{
    const Block *b = loop->blocks[0];
    *cell(a, b->args[0]) = at;
    bind(a, b->args + 1, carried, loop->n_results);
    if (!run_block(a, b)) return false;
    gather_cells(a, b->last, 0, carried, loop->n_results);
    return true;
}

static bool run_for(Actor *a, const Instr *i)
{
    Cell carried[i->n_results + 1], bound[3];
    bool known = true;
    for (int k = 0; k < 3; k++) bound[k] = *cell(a, ir_operand(i, k)), known &= bound[k].kind == NUMBER;
    gather_cells(a, i, 3, carried, i->n_results);
    if (!known && ir_any_in(i->blocks[0], uses_ring, NULL))
        return wrong(a, i, "how often the loop runs follows from what the other roles do not know");
    int64_t at = bound[0].n.i, hi = bound[1].n.i, by = bound[2].n.i,
            times = known ? 0 : (int64_t)(draw(a) % MOST_ITERATIONS);
    if (known && by <= 0) return wrong(a, i, "the step of the loop is not above zero");
    bool stepped = known ? at < hi : times > 0;
    for (; !known && times > 0; times--)
        if (!iterate(a, i, unknown, carried)) return false;
    while (known && at < hi) {
        if (!iterate(a, i, cell_number(at), carried)) return false;
        if ((uint64_t)hi - (uint64_t)at <= (uint64_t)by) break;
        at += by;
    }
    end_late_copies(a, i, stepped);
    give_results(a, i, carried);
    return true;
}

static bool holds(Actor *a, const Value *condition)
{
    const Cell *c = cell(a, condition);
    return c->kind == NUMBER ? c->n.i != 0 : draw(a) & 1;
}

static bool run_while(Actor *a, const Instr *i)
{
    Cell carried[i->n_results + 1];
    const Block *test = i->blocks[0], *body = i->blocks[1];
    gather_cells(a, i, 0, carried, i->n_results);
    for (;;) {
        bind(a, test->args, carried, i->n_results);
        if (!run_block(a, test)) return false;
        gather_cells(a, test->last, 1, carried, i->n_results);
        if (!holds(a, ir_operand(test->last, 0))) break;
        bind(a, body->args, carried, i->n_results);
        if (!run_block(a, body)) return false;
        gather_cells(a, body->last, 0, carried, i->n_results);
    }
    give_results(a, i, carried);
    return true;
}

static bool run_if(Actor *a, const Instr *i)
{
    const Block *b = i->blocks[holds(a, ir_operand(i, 0)) ? 0 : 1];
    Cell out[i->n_results + 1];
    if (!run_block(a, b)) return false;
    gather_cells(a, b->last, 0, out, i->n_results);
    give_results(a, i, out);
    return true;
}

static bool run_none(Actor *a, const Instr *i)
{
    *cell(a, &i->results[0]) = (Cell){ STAGE, ring_number(a, ir_operand(i, 0)), scalar_int(-1) };
    return true;
}

static bool run_slice(Actor *a, const Instr *i)
{
    *cell(a, &i->results[0]) = *cell(a, ir_operand(i, 0));
    return true;
}

/* All other operations: they may read stages, and may compute a scalar. */
static bool run_plain(Actor *a, const Instr *i)
{
    if (op_is_elementwise(i->op) && i->results[0].type->kind == TYPE_SCALAR) {
        *cell(a, &i->results[0]) = trace_scalar(a->launch, a->cells, i);
        return true;
    }
    if (!reads_held_stages(a, i)) return false;
    if (i->op == OP_WGMMA)
        vec_push(
            &a->s->arena, &a->flying, ((Flying){ *cell(a, ir_operand(i, 0)), *cell(a, ir_operand(i, 1)) }));
    for (int k = 0; k < i->n_results; k++) *cell(a, &i->results[k]) = unknown;
    if (i->n_results == 1 && i->results[0].type->kind == TYPE_SCALAR)
        *cell(a, &i->results[0]) = trace_scalar(a->launch, a->cells, i);
    if (i->op == OP_PROGRAM_COORD) hand_on(a, i);
    return true;
}

typedef bool Run(Actor *, const Instr *);
static Run *const run_op[OP_COUNT] = { [OP_FOR] = run_for,
    [OP_WHILE] = run_while,
    [OP_IF] = run_if,
    [OP_RING_PUT] = put,
    [OP_RING_CP_ASYNC] = fill,
    [OP_RING_GET] = get,
    [OP_RING_READ] = read_stages,
    [OP_RING_RELEASE] = release,
    [OP_RING_NONE] = run_none,
    [OP_SHARED_SLICE] = run_slice,
    [OP_SHARED_TRANSPOSE] = run_slice,
    [OP_WGMMA_WAIT] = wait_for,
    [OP_NEXT_PROGRAM] = take_next_program };

bool trace_runs(Op op) { return run_op[op] != NULL; }

static bool run_instr(Actor *a, const Instr *i)
{ return run_op[i->op] ? run_op[i->op](a, i) : run_plain(a, i); }

static bool run_block(Actor *a, const Block *b)
{
    const Instr *const *skip = a->launch->skip;
    for (const Instr *i = b->first; i; i = i->next) {
        if (i->n_results && skip[i->results[0].id]) i = skip[i->results[0].id];
        if (op_info[i->op].flags & OPF_TERM) break;
        if (++a->steps > MOST_STEPS || !run_instr(a, i)) return false;
    }
    return true;
}

bool trace_role(Session *s, const Func *f, const Instr *roles, int role, const TraceLaunch *l,
    TracePrograms *programs, Trace *trace, TraceFault *fault)
{
    int rings = 0;
    Actor a = {
        .s = s, .f = f, .launch = l, .programs = programs, .trace = trace, .fault = fault, .role = role
    };
    for (const Instr *i = f->body->first; i; i = i->next) rings += i->op == OP_RING;
    a.cells = memset(l->cells, 0, f->module->next_id * sizeof *l->cells);
    a.rings = arena_array(&s->arena, RingUse, (size_t)rings + 1);
    for (int k = 0; k < f->n_params; k++)
        if (f->params[k].type->kind == TYPE_SCALAR)
            *cell(&a, f->body->args[k]) = (Cell){ NUMBER, 0, l->scalars[k] };
    for (const Instr *i = f->body->first, *ring = NULL; i && i != roles; i = i->next) {
        if (!run_instr(&a, i)) return false;
        if (i->op != OP_RING) continue;
        cell(&a, &i->results[0])->ring = ring ? cell(&a, &ring->results[0])->ring + 1 : 0;
        ring = i;
    }
    if (!run_block(&a, roles->blocks[role])) return false;
    for (int k = 0; k < rings; k++)
        if (a.rings[k].part) return wrong(&a, roles, "a stage is not filled with all of its parts");
    return true;
}
