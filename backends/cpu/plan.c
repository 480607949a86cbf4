/* plan.c: from tile IR to steps.
 *
 * A tile is virtual (computed where it is read, inside the reader's loop) or has a buffer. Steps follow the program's order;
 * a step of loops (nest) has sinks: tiles written to buffers, reductions, stores, packing of matrix operands. A sink joins an
 * earlier nest of the same shape when everything it reads is there by then. A virtual tile that several nests would
 * compute gets a buffer in the first of them.
 *
 * What must have a buffer from the start (`wanted`): loop-carried tiles, costly operands of broadcasts, operands of reshapes that
 * move elements, loads that a later store could change, tiles whose rows do not lie along their last axis (turned once). */
#include "backends/cpu/plan.h"

enum { CHEAP = 6, MUCH = 2000 };      /* nobody asks beyond that */

int squeeze(const Type *t, int64_t *shape)
{
    int n = 0;
    if (t->kind == TYPE_TILE) for (int i = 0; i < t->rank; i++) if (t->shape[i] != 1) shape[n++] = t->shape[i];
    return n;
}

bool plan_same_squeezed(const Type *a, const Type *b)
{
    int64_t x[TILE_MAX_RANK], y[TILE_MAX_RANK];
    int n = squeeze(a, x);
    return n == squeeze(b, y) && !memcmp(x, y, (size_t)n * sizeof *x);
}

static bool moves_elements(const Instr *reshape)
{
    return is_tile(ir_operand(reshape, 0)) && !plan_same_squeezed(ir_operand(reshape, 0)->type, ir_result(reshape)->type);
}

/* Does the operation make a tile that can be computed where it is read? */
bool plan_can_be_virtual(Op op)
{
    if (op_info[op].flags & OPF_ELEM) return true;
    switch ((int)op) {
    case OP_SPLAT: case OP_ARANGE: case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE: case OP_SLICE: case OP_LOAD: case OP_GATHER:
        return true;
    default: return false;
    }
}

bool plan_has_buffer(Plan *p, Value *v)
{
    ValInfo *i = plan_info(p, v);
    return i->buf || i->wanted || !v->def || !plan_can_be_virtual(v->def->op);
}

int plan_op_cost(const Instr *i)
{
    switch ((int)i->op) {
    case OP_SPLAT: return 0;
    case OP_LOAD: return ir_attr_int(i, ATTR_MASKED, 1) ? 3 : 1;
    case OP_GATHER: return 40;
    case OP_DIV: case OP_REM: case OP_CDIV: case OP_SQRT: case OP_RSQRT: return 10;
    case OP_EXP: case OP_EXP2: case OP_LOG: case OP_LOG2: case OP_SIN: case OP_COS: case OP_TANH: case OP_ERF: case OP_SIGMOID:
    case OP_PHILOX: return 25;
    default: return 1;
    }
}

/* About how many instructions it takes to compute one vector of `v` again. */
static int cost(Plan *p, Value *v, int depth)
{
    if (!is_tile(v)) return 0;
    if (plan_has_buffer(p, v)) return 1;
    if (depth > 12) return 100;
    const Instr *i = v->def;
    int c = plan_op_cost(i);
    if (i->op == OP_SPLAT || i->op == OP_ARANGE || i->op == OP_LOAD || i->op == OP_GATHER) return c;
    for (int k = 0; k < i->n_operands && c < MUCH; k++) c += cost(p, ir_operand(i, k), depth + 1);
    return c;
}

int plan_cost_at(Plan *p, Value *v) { return cost(p, v, 0); }

int plan_cost(Plan *p, Value *v)
{
    if (!is_tile(v) || !v->def || !plan_can_be_virtual(v->def->op)) return 0;
    int c = cost(p, v, 0);
    if (plan_has_buffer(p, v))
        for (int k = 0; k < v->def->n_operands; k++) c += cost(p, ir_operand(v->def, k), 0);
    return c;
}

/* A function whose results have no sign: sums of them keep the relative error of their terms. */
static bool never_below_zero(const Value *v, int depth)
{
    if (!v->def || depth > 8) return false;
    switch ((int)v->def->op) {
    case OP_EXP: case OP_EXP2: case OP_SIGMOID: case OP_ABS: case OP_SQRT: return true;
    case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE: case OP_SLICE: return never_below_zero(ir_operand(v->def, 0), depth + 1);
    case OP_MUL: case OP_ADD: return never_below_zero(ir_operand(v->def, 0), depth + 1) && never_below_zero(ir_operand(v->def, 1), depth + 1);
    default: return false;
    }
}

static bool is_rare(const Instr *i)
{
    const Attr *note = i->op == OP_IF ? ir_attr(i, ATTR_NOTE) : NULL;
    return note && !strcmp(note->s, "rare");
}

/* Does the comparison only choose between a guess and the long way round (passes/guess.c)? It may be wrong by some ulp. */
static bool checks_guess(const Value *v, int depth)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (!is_rare(u->user) && (depth > 8 || (u->user->op != OP_AND && u->user->op != OP_REDUCE_ALL) || !checks_guess(ir_result(u->user), depth + 1))) return false;
    return true;
}

static bool narrow_uses(const Value *v, int depth)
{
    if (v->type->dtype != DT_F32 || depth > 8) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        switch ((int)i->op) {
        case OP_CAST: {
            DType d = ir_result(i)->type->dtype;
            if (!dtype_is_float(d) || dtype_bits(d) > 16) return false;
            continue;
        }
        case OP_REDUCE_SUM: if (!never_below_zero(v, 0)) return false; break;
        case OP_WHERE: if (u == &i->operands[0]) return false; break;
        case OP_LE: case OP_GE: if (!checks_guess(ir_result(i), 0)) return false; continue;
        case OP_YIELD:
            if (!i->block->parent || i->block->parent->op != OP_IF || !narrow_uses(&i->block->parent->results[u - i->operands], depth + 1)) return false;
            continue;
        case OP_MUL: case OP_DIV: case OP_NEG: case OP_ABS: case OP_SPLAT: case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE: case OP_SLICE: break;
        default: return false;
        }
        if (!narrow_uses(ir_result(i), depth + 1)) return false;
    }
    return true;
}

/* x f(x) is NaN where x is, whatever f makes of it. */
static bool times_operand(const Value *v)
{
    if (!v->def || v->def->n_operands != 1) return false;
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->op != OP_MUL || (ir_operand(u->user, 0) != ir_operand(v->def, 0) && ir_operand(u->user, 1) != ir_operand(v->def, 0))) return false;
    return true;
}

Need plan_need(const Value *v)
{
    if (!v->uses || !narrow_uses(v, 0)) return NEED_ALL;
    return times_operand(v) ? NEED_16_BITS_NO_NAN : NEED_16_BITS;
}

static int last_axis(const Type *t)
{
    for (int a = t->rank - 1; a >= 0; a--) if (t->shape[a] != 1) return a;
    return t->rank - 1;
}

/* The axis along which the elements of `v` are best computed: where memory lies contiguous. Looks at `left` values at most. */
static int find_axis(Plan *p, Value *v, int *left)
{
    int last = last_axis(v->type);
    if (!v->def || plan_has_buffer(p, v) || --*left < 0) return last;
    const Instr *i = v->def;
    if (i->op == OP_LOAD) {
        int a = memory_unit_axis(p->func, i);
        return a >= 0 && v->type->shape[a] > 1 ? a : last;
    }
    if (i->op == OP_PERMUTE) {
        int a = find_axis(p, ir_operand(i, 0), left);
        const Attr *o = ir_attr(i, ATTR_ORDER);
        for (int k = 0; k < o->n; k++) if (o->v[k] == a) return k;
    }
    if (op_info[i->op].flags & OPF_ELEM)
        for (int k = 0; k < i->n_operands; k++) {
            int a = is_tile(ir_operand(i, k)) ? find_axis(p, ir_operand(i, k), left) : last;
            if (a != last) return a;
        }
    return last;
}

static int natural_axis(Plan *p, Value *v)
{
    int left = 64;
    return find_axis(p, v, &left);
}

/* All uses lead into matrix operands, through casts at most: packing turns the tile. */
static bool only_packed(const Value *v, int depth)
{
    if (!v->uses || depth > 4) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        bool operand = i->op == OP_MMA && (u == &i->operands[0] || u == &i->operands[1]);
        bool through = (i->op == OP_CAST || i->op == OP_PERMUTE) && only_packed(ir_result(i), depth + 1);
        if (!operand && !through) return false;
    }
    return true;
}

static bool is_zero(const Value *v)
{
    int64_t i;
    double f;
    return (ir_is_const(v, &i) && i == 0) || (ir_is_const_float(v, &f) && f == 0 && !__builtin_signbit(f));
}

static void want(Plan *p, Value *v) { if (is_tile(v)) plan_info(p, v)->wanted = true; }

static void want_operands(Plan *p, Instr *i) { for (int k = 0; k < i->n_operands; k++) want(p, ir_operand(i, k)); }

static void find_wanted(Plan *p, Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        switch ((int)i->op) {
        case OP_BROADCAST:
            if (cost(p, ir_operand(i, 0), 0) > CHEAP && !plan_same_squeezed(ir_operand(i, 0)->type, ir_result(i)->type)) want(p, ir_operand(i, 0));
            break;
        case OP_RESHAPE:
            if (moves_elements(i) && ir_operand(i, 0)->def && ir_operand(i, 0)->def->op != OP_SPLAT) want(p, ir_operand(i, 0));
            break;
        case OP_PERMUTE: case OP_LOAD:
            if (!is_tile(ir_result(i))) break;
            if (i->op == OP_LOAD && i->n_results > 1) want(p, ir_result(i));
            if (i->op == OP_PERMUTE && cost(p, ir_operand(i, 0), 0) > CHEAP) want(p, ir_operand(i, 0));
            if (natural_axis(p, ir_result(i)) != last_axis(ir_result(i)->type) && !only_packed(ir_result(i), 0)) want(p, ir_result(i));
            break;
        case OP_GATHER: if (i->n_results > 1) want(p, ir_result(i)); break;
        case OP_MMA:
            if (!is_zero(ir_operand(i, 2))) want(p, ir_operand(i, 2));
            for (int k = 0; k < 2; k++)
                if (natural_axis(p, ir_operand(i, k)) != 1 && cost(p, ir_operand(i, k), 0) > 3 * CHEAP) want(p, ir_operand(i, k));
            break;
        case OP_SCAN: case OP_SCAN_SUM: case OP_SCAN_PROD: case OP_SCAN_MAX: case OP_SORT: case OP_TOPK: want(p, ir_operand(i, 0)); break;
        case OP_PRINT: if (p->prints) want_operands(p, i); break;
        case OP_YIELD: case OP_CONDITION: want_operands(p, i); break;
        default: break;
        }
        for (int k = 0; k < i->n_blocks; k++)
            if (i->op != OP_REDUCE && i->op != OP_SCAN) find_wanted(p, i->blocks[k]);
    }
}

/* --- leaves ---------------------------------------------------------------------------------------------------------- */

static void walk_operands(Plan *p, const Instr *i, bool same, LeafFn *fn, void *user);

/* Values are shared: without the mark a walk would take as many steps as there are paths. */
static void walk_leaves(Plan *p, Value *v, bool same, LeafFn *fn, void *user)
{
    if (v->type->kind == TYPE_TENSOR || v->type->kind == TYPE_TOKEN) return;
    ValInfo *i = plan_info(p, v);
    if (i->walk[same] == p->n_walks) return;
    i->walk[same] = p->n_walks;
    if (!is_tile(v) || plan_has_buffer(p, v) || v->def->op == OP_LOAD) fn(user, v, same);
    else walk_operands(p, v->def, same, fn, user);
}

void plan_leaves(Plan *p, Value *v, bool same, LeafFn *fn, void *user)
{
    p->n_walks++;
    walk_leaves(p, v, same, fn, user);
}

static void walk_operands(Plan *p, const Instr *i, bool same, LeafFn *fn, void *user)
{
    if (i->op == OP_LOAD) { fn(user, (Value *)ir_result(i), same); return; }
    bool keeps = (op_info[i->op].flags & OPF_ELEM) || i->op == OP_GATHER || i->op == OP_SCATTER || i->op == OP_ATOMIC_RMW || i->op == OP_ATOMIC_CAS ||
                 ((i->op == OP_RESHAPE || i->op == OP_BROADCAST) && is_tile(ir_operand(i, 0)) && plan_same_squeezed(ir_operand(i, 0)->type, ir_result(i)->type));
    for (int k = 0; k < i->n_operands; k++) walk_leaves(p, ir_operand(i, k), same && keeps, fn, user);
}

/* What a sink reads. */
void plan_sink_leaves(Plan *p, Sink *s, LeafFn *fn, void *user)
{
    p->n_walks++;
    switch (s->kind) {
    case SINK_BUFFER:
        if (s->value->def && plan_can_be_virtual(s->value->def->op) && s->buf == plan_info(p, s->value)->buf) walk_operands(p, s->value->def, true, fn, user);
        else walk_leaves(p, s->value, true, fn, user);
        break;
    case SINK_PACK: case SINK_REDUCE: case SINK_ASSERT: walk_leaves(p, s->value, true, fn, user); break;
    case SINK_STORE: case SINK_SCATTER: case SINK_ATOMIC: case SINK_PRINT:
        for (int k = 0; k < s->instr->n_operands; k++) walk_leaves(p, ir_operand(s->instr, k), true, fn, user);
        break;
    }
}

/* --- buffers and steps ------------------------------------------------------------------------------------------------ */

static Buf *new_buf(Plan *p, Steps *home, DType d, int rank, const int64_t *shape)
{
    Buf *b = arena_new(p->arena, Buf);
    b->dtype = d;
    b->rank = rank;
    memcpy(b->shape, shape, (size_t)rank * sizeof *shape);
    b->bytes = dtype_bytes(d);
    for (int i = 0; i < rank; i++) b->bytes *= shape[i];
    b->home = home;
    b->first = -1;
    b->last = -1;
    b->id = p->n_bufs++;
    *p->bufs_end = b;
    p->bufs_end = &b->next;
    return b;
}

Buf *plan_value_buf(Plan *p, Value *v, Steps *home)
{
    ValInfo *i = plan_info(p, v);
    if (!i->buf) i->buf = new_buf(p, home, v->type->dtype, v->type->rank, v->type->shape);
    i->mode = TILE_BUFFER;
    return i->buf;
}

static Steps *new_steps(Plan *p, Block *b, Step *parent)
{
    Steps *s = arena_new(p->arena, Steps);
    s->block = b;
    s->end = &s->first;
    s->parent = parent;
    return s;
}

Step *plan_step(Plan *p, Steps *in, StepKind kind, Instr *i)
{
    Step *s = arena_new(p->arena, Step);
    s->kind = kind;
    s->instr = i;
    s->in = in;
    s->sinks_end = &s->sinks;
    return s;
}

static Step *append(Steps *in, Step *s)
{
    s->index = in->n++;
    *in->end = s;
    in->end = &s->next;
    in->last = s;
    return s;
}

static Steps *steps_of(Steps *in, const Block *b)
{
    while (in && in->block != b) in = in->parent ? in->parent->in : NULL;
    return in;
}


/* Scalars without memory, constants and the like are available anywhere below their definition. */
typedef struct Earliest { Plan *p; Steps *in; int index; Step *nest; bool fits_nest; } Earliest;

static void leaf_available(void *user, Value *leaf, bool same)
{
    Earliest *e = user;
    ValInfo *i = plan_info(e->p, leaf);
    if (!i->avail || i->avail->in != e->in) return;
    int index = i->avail->index + (i->at == i->avail && same ? 0 : 1);
    if (index > e->index) e->index = index;
}

bool plan_shape_is(const Step *s, const Type *t)
{
    int64_t shape[TILE_MAX_RANK];
    int n = squeeze(t, shape);
    return s->rank == n && !memcmp(shape, s->shape, (size_t)n * sizeof *shape);
}

static bool stores_elsewhere(const Step *nest, const Sink *k)
{
    for (const Sink *s = nest->sinks; s; s = s->next) {
        if (s->kind == SINK_SCATTER || s->kind == SINK_ATOMIC || s->kind == SINK_BUFFER) {
            if (s->kind != SINK_BUFFER || (s->value->def && ir_reads_memory(s->value->def) && s->value->def->n_results > 1)) return false;
        }
        if (s->kind == SINK_STORE && ir_operand(s->instr, 0) == ir_operand(k->instr, 0)) return false;
    }
    return true;
}

static bool is_memory_sink(const Sink *k)
{
    return k->kind == SINK_STORE || k->kind == SINK_SCATTER || k->kind == SINK_ATOMIC || k->kind == SINK_ASSERT || k->kind == SINK_PRINT ||
           (k->kind == SINK_BUFFER && k->value->def && (k->value->def->op == OP_LOAD || k->value->def->op == OP_GATHER) && k->value->def->n_results > 1);
}

/* The block of an `if` that hardly ever runs, or one inside of it. */
bool plan_rare(const Steps *in)
{
    for (; in->parent; in = in->parent->in) if (is_rare(in->parent->instr) && in->parent->blocks[1] == in) return true;
    return false;
}

/* Puts a sink over elements of `t` into a nest of `in`: an earlier one that fits, or a new one at the end. */
static Step *add_sink(Plan *p, Steps *in, Sink *k, const Type *t)
{
    Earliest e = { p, in, 0, NULL, false };
    plan_sink_leaves(p, k, leaf_available, &e);
    bool memory = is_memory_sink(k), alone = k->kind == SINK_ATOMIC || k->kind == SINK_SCATTER || k->kind == SINK_PRINT || k->kind == SINK_ASSERT;
    Step *nest = NULL;
    for (Step *s = in->first; s && !alone; s = s->next) {
        if (s->kind != STEP_NEST || s->index < e.index || !plan_shape_is(s, t) || s->scalar_lanes) continue;
        if (memory && in->last_memory && (s->index < in->last_memory->index ||
                                          (s == in->last_memory && !(k->kind == SINK_STORE && stores_elsewhere(s, k))))) continue;
        nest = s;
    }
    if (!nest) {
        nest = append(in, plan_step(p, in, STEP_NEST, k->instr));
        nest->rank = squeeze(t, nest->shape);
        nest->scalar_lanes = k->kind == SINK_ATOMIC || k->kind == SINK_PRINT || k->kind == SINK_ASSERT;
    }
    if (memory) {
        nest->memory = true;
        in->last_memory = nest;
    }
    *nest->sinks_end = k;
    nest->sinks_end = &k->next;
    return nest;
}

Sink *plan_sink(Plan *p, SinkKind kind, Instr *i, Value *v, Buf *b)
{
    Sink *k = arena_new(p->arena, Sink);
    k->kind = kind;
    k->instr = i;
    k->value = v;
    k->buf = b;
    return k;
}

/* Fills the buffer of a value that could be virtual. */
static void fill(Plan *p, Steps *in, Value *v)
{
    ValInfo *info = plan_info(p, v);
    Instr *i = v->def;
    int axis = i->op == OP_LOAD ? memory_unit_axis(p->func, i) : -1;
    if (i->op == OP_PERMUTE) {
        info->wanted = false;
        axis = natural_axis(p, v);
        info->wanted = true;
    }
    int last = last_axis(v->type);
    if (axis >= 0 && axis != last && v->type->shape[axis] >= 4 && v->type->shape[last] >= 4) {
        Step *s = plan_step(p, in, STEP_TURN, i);
        s->value = v;
        s->order[0] = axis;
        s->order[1] = last;
        s->buf = plan_value_buf(p, v, in);
        if (i->n_results > 1) { s->memory = true; in->last_memory = s; }
        info->avail = append(in, s);
        return;
    }
    Buf *b = plan_value_buf(p, v, in);
    info->avail = info->at = add_sink(p, in, plan_sink(p, SINK_BUFFER, i, v, b), v->type);
}

/* The buffer of matrix operand `v`, packed where `v` is defined (so once for all iterations of loops inside). */
static Buf *pack(Plan *p, Steps *in, Instr *mma, Value *v, BufForm form, DType d, int64_t nr)
{
    for (size_t k = 0; k < p->packs.len; k++)
        if (p->packs.data[k].value == v && p->packs.data[k].form == form && p->packs.data[k].dtype == d && p->packs.data[k].buf->nr == nr &&
            steps_of(in, p->packs.data[k].buf->home->block) == p->packs.data[k].buf->home) return p->packs.data[k].buf;
    Steps *home = steps_of(in, plan_block_of(v));
    if (!home) home = in;
    int64_t rows = v->type->shape[0], columns = v->type->shape[1], shape[2] = { rows, columns };
    bool pairs = mma_kind(p->target, mma) == MMA_BF16_PAIRS || mma_kind(p->target, mma) == MMA_I16_PAIRS;
    Buf *b = new_buf(p, home, d, 2, shape);
    b->form = form;
    b->nr = nr;
    if (form == FORM_ROWS) {
        b->ld = columns + (pairs ? columns % 2 : 0);
        if (b->ld * dtype_bytes(d) % 512 == 0) b->ld += 64 / dtype_bytes(d);    /* rows in different sets of the L1 cache */
        b->bytes = rows * b->ld * dtype_bytes(d);
    } else {
        b->bytes = (columns + nr - 1) / nr * nr * (rows + (pairs ? rows % 2 : 0)) * dtype_bytes(d);
    }
    int axis = natural_axis(p, v);
    if (axis != 1 && rows >= 4 && columns >= 4) {
        Step *s = plan_step(p, home, STEP_TURN, mma);
        s->value = v;
        s->order[0] = axis;
        s->order[1] = 1;
        s->buf = b;
        append(home, s);
    } else {
        add_sink(p, home, plan_sink(p, SINK_PACK, mma, v, b), v->type);
    }
    size_t k = p->packs.len;
    vec_push(p->arena, &p->packs, p->packs.data[0]);
    p->packs.data[k].value = v;
    p->packs.data[k].form = form;
    p->packs.data[k].dtype = d;
    p->packs.data[k].buf = b;
    return b;
}

static void plan_mma(Plan *p, Steps *in, Instr *i)
{
    Value *a = ir_operand(i, 0), *b = ir_operand(i, 1), *acc = ir_operand(i, 2);
    Step *s = plan_step(p, in, STEP_MMA, i);
    s->mma = mma_kind(p->target, i);
    int64_t m = a->type->shape[0], n = b->type->shape[1];
    mma_block_shape(p->target, s->mma, m, n, &s->mr, &s->nv);
    DType d = s->mma == MMA_F64 ? DT_F64 : s->mma == MMA_BF16_PAIRS ? DT_BF16 : s->mma == MMA_I16_PAIRS ? DT_I16 : DT_F32;
    bool pairs = s->mma == MMA_BF16_PAIRS || s->mma == MMA_I16_PAIRS;
    int64_t nr = s->nv * (p->target->vector_bytes / (s->mma == MMA_F64 ? 8 : 4));
    s->a = pack(p, in, i, a, FORM_ROWS, d, 0);
    s->b = pack(p, in, i, b, pairs ? FORM_PAIRS : FORM_PANELS, d, nr);
    s->zero_acc = is_zero(acc);
    if (!s->zero_acc) {
        if (!plan_info(p, acc)->buf) fill(p, in, acc);
        s->acc = plan_info(p, acc)->buf;
    }
    s->buf = plan_value_buf(p, ir_result(i), in);
    plan_info(p, ir_result(i))->avail = append(in, s);
}

static void plan_reduce(Plan *p, Steps *in, Instr *i)
{
    Value *x = ir_operand(i, 0), *r = ir_result(i);
    Sink *k = plan_sink(p, SINK_REDUCE, i, x, NULL);
    int64_t axis = ir_attr_int(i, ATTR_AXIS, 0);
    bool arg = i->op == OP_ARGMAX || i->op == OP_ARGMIN;
    bool wide = (i->op == OP_REDUCE_SUM || i->op == OP_REDUCE_PROD) && dtype_is_float(x->type->dtype) && dtype_bits(x->type->dtype) < 32;
    if (is_tile(r)) k->buf = plan_value_buf(p, r, in);
    else plan_info(p, r)->mode = TILE_SCALAR;
    if (is_tile(r) && axis != last_axis(x->type) && x->type->shape[axis] > 1 && (arg || wide))
        k->aux = new_buf(p, in, arg ? x->type->dtype : DT_F32, r->type->rank, r->type->shape);
    plan_info(p, r)->avail = add_sink(p, in, k, x->type);
}

static void plan_block(Plan *p, Steps *in);

static bool touches_memory(const Instr *i) { return ir_has_effects(i) || ir_reads_memory(i); }

static void plan_control(Plan *p, Steps *in, Instr *i)
{
    Step *s = plan_step(p, in, i->op == OP_FOR ? STEP_FOR : i->op == OP_WHILE ? STEP_WHILE : STEP_IF, i);
    int n = i->n_results;
    s->carried = arena_array(p->arena, Buf *, (size_t)n);
    s->carried2 = arena_array(p->arena, Buf *, (size_t)n);
    /* operands that are virtual are read when the step starts: into the carried buffers directly */
    for (int k = 0; k < n; k++) if (is_tile(&i->results[k])) s->carried[k] = plan_value_buf(p, &i->results[k], in);
    for (int b = 0; b < i->n_blocks; b++) {
        s->blocks[b] = new_steps(p, i->blocks[b], s);
        int skip = i->op == OP_FOR ? 1 : 0;
        for (int k = 0; k < n && i->op != OP_IF; k++)
            if (is_tile(&i->results[k])) {
                Buf *arg = plan_value_buf(p, i->blocks[b]->args[k + skip], s->blocks[b]);
                if (i->op == OP_WHILE && b == 0) s->carried2[k] = arg;
            }
        plan_block(p, s->blocks[b]);
    }
    append(in, s);
    for (int k = 0; k < n; k++) plan_info(p, &i->results[k])->avail = s;
    for (int k = 0; k < n; k++) if (!is_tile(&i->results[k])) plan_info(p, &i->results[k])->mode = TILE_SCALAR;
    if (touches_memory(i)) { s->memory = true; in->last_memory = s; }
}

static void plan_concat(Plan *p, Steps *in, Instr *i)
{
    Buf *b = plan_value_buf(p, ir_result(i), in);
    int64_t axis = ir_attr_int(i, ATTR_AXIS, 0), at = 0;
    ValInfo *info = plan_info(p, ir_result(i));
    for (int k = 0; k < i->n_operands; k++) {
        Sink *s = plan_sink(p, SINK_BUFFER, i, ir_operand(i, k), b);
        s->base[axis] = at;
        at += ir_operand(i, k)->type->shape[axis];
        Step *nest = add_sink(p, in, s, ir_operand(i, k)->type);
        if (!info->avail || nest->index > info->avail->index) info->avail = nest;
    }
}

static void plan_instr(Plan *p, Steps *in, Instr *i)
{
    switch ((int)i->op) {
    case OP_TOKEN: case OP_JOIN_TOKENS: return;
    case OP_FOR: case OP_WHILE: case OP_IF: plan_control(p, in, i); return;
    case OP_YIELD: case OP_CONDITION: case OP_RETURN: append(in, plan_step(p, in, STEP_YIELD, i)); return;
    case OP_MMA: plan_mma(p, in, i); return;
    case OP_CONCAT: plan_concat(p, in, i); return;
    case OP_STORE:
        if (is_tile(ir_operand(i, 1 + ir_operand(i, 0)->type->rank))) {
            Value *v = ir_operand(i, 1 + ir_operand(i, 0)->type->rank);
            add_sink(p, in, plan_sink(p, SINK_STORE, i, v, NULL), v->type);
        } else {
            Step *s = append(in, plan_step(p, in, STEP_SCALAR, i));
            in->last_memory = s;
        }
        return;
    case OP_SCATTER: case OP_ATOMIC_RMW: case OP_ATOMIC_CAS:
        if (is_tile(ir_operand(i, 1))) {
            Sink *k = plan_sink(p, i->op == OP_SCATTER ? SINK_SCATTER : SINK_ATOMIC, i, ir_operand(i, 1), NULL);
            if (i->op != OP_SCATTER && ir_result(i)->uses) k->buf = plan_value_buf(p, ir_result(i), in);
            Step *s = add_sink(p, in, k, ir_operand(i, 1)->type);
            if (i->op != OP_SCATTER) plan_info(p, ir_result(i))->avail = s;
        } else {
            Step *s = append(in, plan_step(p, in, STEP_SCALAR, i));
            if (i->op != OP_SCATTER) {
                plan_info(p, ir_result(i))->mode = TILE_SCALAR;
                plan_info(p, ir_result(i))->avail = s;
            }
            in->last_memory = s;
        }
        return;
    case OP_ASSERT: case OP_PRINT:
        if (!(i->op == OP_ASSERT ? p->checked : p->prints)) return;
        if (i->op == OP_ASSERT && is_tile(ir_operand(i, 0))) {
            add_sink(p, in, plan_sink(p, SINK_ASSERT, i, ir_operand(i, 0), NULL), ir_operand(i, 0)->type);
        } else {
            in->last_memory = append(in, plan_step(p, in, STEP_SCALAR, i));
        }
        return;
    case OP_SCAN: case OP_SCAN_SUM: case OP_SCAN_PROD: case OP_SCAN_MAX: case OP_SORT: case OP_TOPK: {
        Step *s = plan_step(p, in, i->op == OP_SORT || i->op == OP_TOPK ? STEP_SORT : STEP_SCAN, i);
        for (int k = 0; k < i->n_results; k++) {
            plan_value_buf(p, &i->results[k], in);
            plan_info(p, &i->results[k])->avail = s;
        }
        if (s->kind == STEP_SORT) {
            const Type *t = ir_operand(i, 0)->type;
            int64_t shape[1] = { 2 * t->shape[t->rank - 1] };   /* keys of 64 or 128 bits */
            s->aux = new_buf(p, in, DT_I64, 1, shape);
        }
        append(in, s);
        return;
    }
    default: break;
    }
    Value *r = ir_result(i);
    bool reduction = i->op == OP_REDUCE || i->op == OP_ARGMAX || i->op == OP_ARGMIN || (i->op >= OP_REDUCE_SUM && i->op <= OP_REDUCE_ALL);
    if (reduction) { plan_reduce(p, in, i); return; }
    ValInfo *info = plan_info(p, r);
    if (!is_tile(r)) {
        info->mode = TILE_SCALAR;
        info->avail = append(in, plan_step(p, in, STEP_SCALAR, i));
        if (i->n_results > 1) in->last_memory = info->avail;
        return;
    }
    if (!plan_can_be_virtual(i->op)) ir_fail(p->session, i->loc, "the CPU backend does not take %s", op_info[i->op].name);
    info->mode = TILE_VIRTUAL;
    if (i->op == OP_LOAD) info->avail = append(in, plan_step(p, in, STEP_WINDOW, i));
    if (info->wanted && r->uses) fill(p, in, r);
}

static void plan_block(Plan *p, Steps *in)
{
    for (Instr *i = in->block->first; i; i = i->next) plan_instr(p, in, i);
}

Plan *cpu_plan(Session *s, Func *f, const CpuTarget *t, bool checked, bool prints)
{
    Plan *p = arena_new(&s->arena, Plan);
    p->session = s;
    p->arena = &s->arena;
    p->func = f;
    p->target = t;
    p->checked = checked;
    p->prints = prints;
    p->bufs_end = &p->bufs;
    p->n_info = f->module->next_id;
    p->info = arena_array(p->arena, ValInfo, p->n_info);
    p->packs.data = arena_grow(p->arena, NULL, 0, 64 * sizeof *p->packs.data);
    p->packs.cap = 64;
    find_wanted(p, f->body);
    p->body = new_steps(p, f->body, NULL);
    plan_block(p, p->body);
    plan_share(p);
    return p;
}
