/* ring_stages.c: whether the roles of a kernel get on with each other through its rings: each stage is
 * filled, taken and given back once, on every path, and nobody waits for ever.
 *
 * Loops are rewritten by several passes (peeled, rotated, joined), each role's on its own, so that what they
 * do with a ring no longer matches operation by operation. The roles are therefore run (traces.c) in a few
 * made-up launches, small and large, whose loops run no time, once and often, and what they did is played
 * against the rings: a role goes on until it waits for a stage that is not yet empty, or not yet full. Since
 * no role asks what another has done by then, the order in which they run does not matter: if they end in one
 * order, they do in all. A launch that takes more steps than MOST_STEPS of traces.c says nothing. */
#include "ir/interp/eval.h"
#include "ir/analysis/range.h"
#include "ir/verify/ring_stages.h"
#include "ir/verify/trace_cells.h"

enum { LAUNCHES = 10, SIZES = 5 };

/* A ring between the roles: stages made empty, full and taken so far; by stage: given back. */
typedef struct RingCount {
    const Instr *ring;
    int64_t depth, begun, full, got, returned;
    VEC(bool) back;
} RingCount;

typedef struct Replay {
    Session *s;
    const Func *f;
    RingCount *rings;
    int n_rings;
    Trace *trace; /* of each role */
    size_t at[ROLE_COUNT];
} Replay;

static bool is_back(const RingCount *r, int64_t stage)
{ return stage < 0 || (stage < (int64_t)r->back.len && r->back.data[stage]); }

/* False: the step waits. */
static bool may_take(Replay *p, const TraceStep *t)
{
    RingCount *r = &p->rings[t->ring];
    switch (t->kind) {
    case TRACE_SPACE:
        if (!is_back(r, t->stage - r->depth)) return false;
        r->begun++;
        return true;
    case TRACE_FULL: r->full++; return true;
    case TRACE_GET:
        if (r->full <= t->stage) return false;
        r->got++;
        return true;
    case TRACE_BACK:
        while ((int64_t)r->back.len <= t->stage) vec_push(&p->s->arena, &r->back, false);
        r->back.data[t->stage] = true;
        r->returned++;
        return true;
    }
    return false;
}

static bool advance(Replay *p, int role)
{
    const size_t from = p->at[role];
    while (p->at[role] < p->trace[role].len && may_take(p, &p->trace[role].data[p->at[role]])) p->at[role]++;
    return p->at[role] != from;
}

/* Counts come before the order of steps: they say more. */
static bool counts_agree(const Replay *p, TraceFault *fault)
{
    int64_t (*n)[TRACE_BACK + 1] = arena_calloc(&p->s->arena, (size_t)p->n_rings + 1, sizeof *n);
    for (int r = 0; r < ROLE_COUNT; r++) {
        const Trace *t = &p->trace[r];
        for (size_t k = 0; k < t->len; k++) n[t->data[k].ring][t->data[k].kind]++;
    }
    for (int k = 0; k < p->n_rings; k++) {
        int64_t filled = n[k][TRACE_FULL], taken = n[k][TRACE_GET], back = n[k][TRACE_BACK];
        const char *why = filled != taken ? "the ring's stages are not taken as often as they are filled"
                          : taken != back ? "the ring's stages are not given back as often as they are taken"
                                          : NULL;
        if (why) *fault = (TraceFault){ p->rings[k].ring, why };
        if (why) return false;
    }
    return true;
}

static bool plays_out(Replay *p, TraceFault *fault)
{
    bool moved = true;
    if (!counts_agree(p, fault)) return false;
    while (moved) {
        moved = false;
        for (int r = 0; r < ROLE_COUNT; r++) moved |= advance(p, r);
    }
    for (int r = ROLE_COUNT - 1; r >= 0; r--) {
        if (p->at[r] == p->trace[r].len) continue;
        *fault =
            (TraceFault){ p->trace[r].data[p->at[r]].at, "here a role waits for another, which waits for it: "
                                                         "the rings have too few stages for the order in "
                                                         "which they are filled and given back" };
        return false;
    }
    return true;
}

/* --- launches ---------------------------------------------------------------------------------------- */

static uint64_t next(uint64_t *x)
{
    uint64_t z = *x += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* An extent that the launch facts allow, of about the size that this launch has. */
static int64_t extent(const Func *f, int dim, int number, uint64_t *random)
{
    static const int64_t sizes[SIZES] = { 1, 40, 130, 300, 700 };
    const Dim *d = &f->dims[dim];
    RangeInfo r = range_of_dim(f, dim);
    if (d->extent >= 0) return d->extent;
    int64_t size = sizes[number % SIZES], div = r.div > 0 ? r.div : 1,
            n = number && number % SIZES == 0 ? 0 : size / 2 + (int64_t)(next(random) % (uint64_t)size);
    n = (n + div - 1) / div * div;
    return n < r.lo ? r.lo : n > r.hi ? r.hi : n;
}

static Scalar argument(const Param *p, uint64_t *random)
{
    if (dtype_is_float(p->type->dtype)) return scalar_float(p->lo > 0.5 ? p->lo : p->hi < 0.5 ? p->hi : 0.5);
    double n = (double)(next(random) % 200);
    n = n < p->lo ? p->lo : n > p->hi ? p->hi : n;
    n = n > 0x1p62 ? 0x1p62 : n < -0x1p62 ? -0x1p62 : n; /* what int64_t holds */
    return scalar_int(scalar_wrap(p->type->dtype, (int64_t)n));
}

/* False: no program would run. */
static bool make_launch(Session *s, const Func *f, const EvalCode *grid, int number, TraceLaunch *l)
{
    uint64_t random = (uint64_t)number * 77 + 1;
    EvalEnv env = { 0 };
    int64_t (*strides)[TILE_MAX_RANK] = arena_alloc(&s->arena, ((size_t)f->n_params + 1) * sizeof *strides);
    memset(strides, 0, ((size_t)f->n_params + 1) * sizeof *strides);
    *l = (TraceLaunch){ .seed = next(&random), .grid = { 1, 1, 1 } };
    l->dims = arena_array(&s->arena, int64_t, (size_t)f->n_dims + 1);
    l->scalars = arena_array(&s->arena, Scalar, (size_t)f->n_params + 1);
    for (int k = 0; k < f->n_dims; k++) l->dims[k] = extent(f, k, number, &random);
    for (int k = 0; k < f->n_params; k++)
        if (f->params[k].type->kind == TYPE_SCALAR) l->scalars[k] = argument(&f->params[k], &random);
    env = (EvalEnv){
        .dims = l->dims, .scalars = l->scalars, .strides = (const int64_t (*)[TILE_MAX_RANK])strides
    };
    if (grid && !eval_run(grid, &env, l->grid, 3)) return false;
    int rank = f->grid ? ir_terminator(f->grid)->n_operands : 1;
    if (!eval_grid_size(l->grid, rank, &l->programs) || !l->programs) return false;
    int64_t each = 1 + number % 3; /* programs that a CTA takes */
    l->ctas = (l->programs + each - 1) / each;
    return true;
}

/* Whether each ring was gone round twice: a longer loop would do the same again. */
static bool goes_round(const Replay *p)
{
    for (int k = 0; k < p->n_rings; k++)
        if (p->rings[k].full <= 2 * p->rings[k].depth) return false;
    return true;
}

/* `trace`: the roles' traces of the launch before, whose room is used again. False: it took more steps than
 * anybody wants to look at, and says nothing. *often: whether each ring was gone round. */
static bool try_launch(Session *s, const Func *f, const Instr *roles, const TraceLaunch *l, int n_rings,
    Trace *trace, TraceFault *fault, bool *often)
{
    Replay p = { .s = s, .f = f, .n_rings = n_rings, .trace = trace };
    TracePrograms programs = { 0 };
    int n = 0;
    p.rings = arena_array(&s->arena, RingCount, (size_t)n_rings + 1);
    for (const Instr *i = f->body->first; i; i = i->next)
        if (i->op == OP_RING) p.rings[n++] = (RingCount){ .ring = i, .depth = i->results[0].type->shape[0] };
    for (int r = 0; r < ROLE_COUNT; r++) trace[r].len = 0;
    for (int r = 0; r < roles->n_blocks; r++)
        if (!trace_role(s, f, roles, r, l, &programs, &p.trace[r], fault)) return fault->why != NULL;
    *often = plays_out(&p, fault) && goes_round(&p);
    return true;
}

/* Stages are given back in order, or by name. */
static const Instr *mixed_releases(const Func *f)
{
    for (const Instr *i = f->body->first; i; i = i->next) {
        bool named = false, in_order = false;
        for (const Use *u = i->op == OP_RING ? i->results[0].uses : NULL; u; u = u->next) {
            if (u->user->op == OP_RING_READ) in_order = true;
            if (u->user->op == OP_RING_RELEASE) *(u->user->n_operands == 2 ? &named : &in_order) = true;
        }
        if (named && in_order) return i;
    }
    return NULL;
}

/* soon: no launches after one that goes round each ring, and one of each size at most. */
static const Instr *fault_in(Session *s, const Func *f, bool soon, const char **why)
{
    TraceFault fault = { 0 };
    Trace trace[ROLE_COUNT] = { 0 };
    const Instr *roles = NULL;
    int rings = 0;
    for (const Instr *i = f->body->first; i; i = i->next) {
        rings += i->op == OP_RING;
        if (i->op == OP_ROLES || i->op == OP_CP_ASYNC_ROLES) roles = i;
    }
    if (!roles) return NULL;
    *why = "stages of this ring are given back both in order and by name";
    if (mixed_releases(f)) return mixed_releases(f);
    const Instr *const *skip = trace_skips(s, f);
    EvalCode *grid = f->grid ? eval_compile(&s->arena, f, f->grid, why) : NULL;
    Cell *cells = arena_array(&s->arena, Cell, f->module->next_id);
    bool often = false;
    const int launches = soon ? SIZES : LAUNCHES;
    for (int k = 0, sizes = SIZES; k < launches && !fault.why && !(soon && often); k++) {
        TraceLaunch l;
        /* Launches of the size of one that took too long would do so too. */
        if (k % SIZES >= sizes || !make_launch(s, f, grid, k, &l)) continue;
        l.skip = skip;
        l.cells = cells;
        if (!try_launch(s, f, roles, &l, rings, trace, &fault, &often)) sizes = k % SIZES;
    }
    *why = fault.why;
    return fault.at;
}

const Instr *ir_stages_fault(Session *s, const Func *f, const char **why)
{ return fault_in(s, f, false, why); }
const Instr *ir_stages_fault_soon(Session *s, const Func *f, const char **why)
{ return fault_in(s, f, true, why); }
