/* plan.c: from tile IR to steps.
 *
 * A tile is virtual (computed where it is read, inside the reader's loop) or has a buffer. Steps follow the
 * program's order; a step of loops (nest) has sinks: tiles written to buffers, reductions, stores, packing of
 * matrix operands. A sink joins an earlier nest of the same shape when everything it reads is there by then.
 * A virtual tile that several nests would compute gets a buffer in the first of them. */
#include "backends/cpu/product/mma.h"
#include "backends/cpu/plan/plan.h"

/* Scalars without memory, constants and the like are available anywhere below their definition. */
typedef struct Earliest {
    Plan *p;
    Steps *in;
    int index;
    Step *nest;
    bool fits_nest;
} Earliest;

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
            if (s->kind != SINK_BUFFER ||
                (s->value->def && ir_reads_memory(s->value->def) && s->value->def->n_results > 1))
                return false;
        }
        if (s->kind == SINK_STORE && ir_operand(s->instr, 0) == ir_operand(k->instr, 0)) return false;
    }
    return true;
}

static bool is_memory_sink(const Sink *k)
{
    return k->kind == SINK_STORE || k->kind == SINK_SCATTER || k->kind == SINK_ATOMIC ||
           k->kind == SINK_ASSERT || k->kind == SINK_PRINT ||
           (k->kind == SINK_BUFFER && k->value->def &&
               (k->value->def->op == OP_LOAD || k->value->def->op == OP_GATHER) &&
               k->value->def->n_results > 1);
}

/* The block of an `if` that hardly ever runs, or one inside of it. */
bool plan_rare(const Steps *in)
{
    for (; in->parent; in = in->parent->in)
        if (ir_is_rare(in->parent->instr) && in->parent->blocks[1] == in) return true;
    return false;
}

/* Puts a sink over elements of `t` into a nest of `in`: an earlier one that fits, or a new one at the end. */
static Step *add_sink(Plan *p, Steps *in, Sink *k, const Type *t)
{
    Earliest e = { p, in, 0, NULL, false };
    plan_sink_leaves(p, k, leaf_available, &e);
    bool memory = is_memory_sink(k), alone = k->kind == SINK_ATOMIC || k->kind == SINK_SCATTER ||
                                             k->kind == SINK_PRINT || k->kind == SINK_ASSERT ||
                                             k->kind == SINK_COUNT;
    Step *nest = NULL;
    for (Step *s = in->first; s && !alone; s = s->next) {
        if (s->kind != STEP_NEST || s->index < e.index || !plan_shape_is(s, t) || s->scalar_lanes) continue;
        if (memory && in->last_memory &&
            (s->index < in->last_memory->index ||
                (s == in->last_memory && !(k->kind == SINK_STORE && stores_elsewhere(s, k)))))
            continue;
        nest = s;
    }
    if (!nest) {
        nest = plan_append(in, plan_step(p, in, STEP_NEST, k->instr));
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
        axis = plan_natural_axis(p, v);
        info->wanted = true;
    }
    int last = plan_last_axis(v->type);
    if (axis >= 0 && axis != last && v->type->shape[axis] >= 4 && v->type->shape[last] >= 4) {
        Step *s = plan_step(p, in, STEP_TRANSPOSE, i);
        s->value = v;
        s->order[0] = axis;
        s->order[1] = last;
        s->buf = plan_value_buf(p, v, in);
        if (i->n_results > 1) {
            s->memory = true;
            in->last_memory = s;
        }
        info->avail = plan_append(in, s);
        return;
    }
    Buf *b = plan_value_buf(p, v, in);
    info->avail = info->at = add_sink(p, in, plan_sink(p, SINK_BUFFER, i, v, b), v->type);
}

/* A window that nothing but the product reads, perhaps converted. */
static bool is_window_of_product(const Value *v)
{
    const Instr *i = v->def;
    for (; i && ir_use_count(ir_result(i)) == 1; i = ir_operand(i, 0)->def) {
        if (i->op == OP_LOAD) return true;
        if (i->op != OP_PERMUTE && i->op != OP_CAST) return false;
    }
    return false;
}

/* The elements from row to row of an operand: rows should be in different sets of the first cache. */
static int64_t apart(int64_t n, DType d)
{ return n * dtype_bytes(d) % 512 == 0 ? n + 64 / dtype_bytes(d) : n; }

/* A is broadcast element by element, so it may lie either way; groups of elements lie along K. */
static BufForm form_of_a(Plan *p, const Step *s, Value *a)
{
    bool grouped = mma_group(mma_operand_type(s->mma, a)) > 1 || s->thin != THIN_NONE;
    bool turned = plan_natural_axis(p, a) == 0 && a->type->shape[0] >= 4 && a->type->shape[1] >= 4;
    return turned && !grouped ? FORM_COLUMNS : FORM_ROWS;
}

/* The buffer of matrix operand `v`, packed where `v` is defined (so once for all iterations of loops inside).
 */
static Buf *pack(Plan *p, Steps *in, const Step *s, Value *v, BufForm form, int64_t nr)
{
    Instr *mma = s->instr;
    MmaKind kind = s->mma;
    DType d = mma_operand_type(kind, v);
    bool tiles = mma_is_amx(kind);
    bool offset = form == FORM_ROWS && mma_changes_sign(p->target, kind, ir_operand(mma, 0)->type->dtype,
                                           ir_operand(mma, 1)->type->dtype);
    for (size_t k = 0; k < p->packs.len; k++)
        if (p->packs.data[k].value == v && p->packs.data[k].form == form && p->packs.data[k].dtype == d &&
            p->packs.data[k].buf->nr == nr && p->packs.data[k].buf->in_tiles == tiles &&
            p->packs.data[k].buf->offset_128 == offset &&
            plan_steps_of(in, p->packs.data[k].buf->home->block) == p->packs.data[k].buf->home)
            return p->packs.data[k].buf;
    if (tiles && form == FORM_ROWS) {
        Buf *lies = plan_in_place(p, v, d);
        if (lies) return lies;
    }
    Steps *home = plan_steps_of(in, plan_block_of(v));
    if (!home) home = in;
    int64_t rows = v->type->shape[0], columns = v->type->shape[1], shape[2] = { rows, columns };
    /* Along K, groups are padded, and for AMX whole tiles. */
    int64_t group = mma_group(d), piece = tiles ? AMX_ROW_BYTES / dtype_bytes(d) : group;
    Buf *b = new_buf(p, home, d, 2, shape);
    b->form = form;
    b->nr = nr;
    b->in_tiles = tiles;
    b->in_memory = tiles && form == FORM_ROWS && in_place_window(p->func, mma, columns);
    b->offset_128 = offset;
    if (form == FORM_COLUMNS) {
        b->ld = apart(rows, d);
        b->bytes = columns * b->ld * dtype_bytes(d);
    } else if (form == FORM_ROWS) {
        b->ld = apart((columns + piece - 1) / piece * piece, d);
        b->bytes = (tiles ? (rows + AMX_ROWS - 1) / AMX_ROWS * AMX_ROWS : rows) * b->ld * dtype_bytes(d);
    } else {
        b->depth = (rows + piece - 1) / piece * (piece / group);
        b->bytes = (columns + nr - 1) / nr * nr * b->depth * group * dtype_bytes(d);
    }
    int axis = plan_natural_axis(p, v);
    bool in_groups = form == FORM_GROUPS && axis == 1 && is_window_of_product(v);
    if ((axis != 1 && rows >= 4 && columns >= 4) || in_groups) {
        Step *t = plan_step(p, home, STEP_TRANSPOSE, mma);
        t->value = v;
        t->order[0] = axis;
        t->order[1] = form == FORM_COLUMNS ? 0 : 1;
        t->buf = b;
        plan_append(home, t);
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
    s->thin = mma_thinness(p, i, &s->mma);
    int64_t m = a->type->shape[0], n = b->type->shape[1];
    mma_block_shape(p->target, s->mma, m, n, &s->mr, &s->nv);
    int64_t nr = mma_is_amx(s->mma) ? AMX_ROW_BYTES / 4 : s->nv * mma_vector_lanes(p->target, s->mma);
    p->amx |= mma_is_amx(s->mma);
    p->narrow_products |= dtype_bits(a->type->dtype) <= 16;
    plan_info(p, ir_result(i))->thin = s->thin != THIN_NONE;
    DType d = mma_operand_type(s->mma, b);
    if (s->thin != THIN_DOTS_OF_A) s->a = pack(p, in, s, a, form_of_a(p, s, a), 0);
    if (s->thin == THIN_NONE) s->b = pack(p, in, s, b, mma_group(d) > 1 ? FORM_GROUPS : FORM_PANELS, nr);
    if (s->thin == THIN_DOTS_OF_A) { /* filled by the product */
        s->b = new_buf(p, in, d, 2, (int64_t[]){ n, b->type->shape[0] });
        s->b->ld = b->type->shape[0];
    }
    s->zero_acc = plan_is_zero(acc);
    if (!s->zero_acc) {
        if (!plan_info(p, acc)->buf) fill(p, in, acc);
        s->acc = plan_info(p, acc)->buf;
    }
    s->buf = plan_value_buf(p, ir_result(i), in);
    s->with = p->named ? NULL : s->thin ? mma_before(in, s) : amx_before(in, s);
    if (s->with) { /* one place, whose sums are never those of the first product alone */
        s->acc = s->with->acc;
        s->zero_acc = s->with->zero_acc;
        s->with->joined = true;
        for (Step *w = s->with; w; w = w->with) w->buf = plan_info(p, ir_result(w->instr))->buf = s->buf;
    }
    plan_info(p, ir_result(i))->avail = plan_append(in, s);
}

static void plan_reduce(Plan *p, Steps *in, Instr *i)
{
    Value *x = ir_operand(i, 0), *r = ir_result(i);
    int64_t places;
    Value *keys = count_plan(p, i, &places);
    if (keys) {
        Sink *k = plan_sink(p, SINK_COUNT, i, keys, plan_value_buf(p, r, in));
        k->aux = new_buf(p, in, r->type->dtype, 1, (int64_t[]){ places + 1 });
        plan_info(p, r)->avail = add_sink(p, in, k, keys->type);
        return;
    }
    Sink *k = plan_sink(p, SINK_REDUCE, i, x, NULL);
    int64_t axis = ir_attr_int(i, ATTR_AXIS, 0);
    bool arg = i->op == OP_ARGMAX || i->op == OP_ARGMIN;
    bool wide = (i->op == OP_REDUCE_SUM || i->op == OP_REDUCE_PROD) && dtype_is_float(x->type->dtype) &&
                dtype_bits(x->type->dtype) < 32;
    if (is_tile(r)) k->buf = plan_value_buf(p, r, in);
    else plan_info(p, r)->mode = TILE_SCALAR;
    if (is_tile(r) && axis != plan_last_axis(x->type) && x->type->shape[axis] > 1 && (arg || wide))
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
    /* Virtual operands are read when the step starts, directly into the carried buffers. */
    for (int k = 0; k < n; k++)
        if (is_tile(&i->results[k])) s->carried[k] = plan_value_buf(p, &i->results[k], in);
    for (int b = 0; b < i->n_blocks; b++) {
        s->blocks[b] = plan_steps(p, i->blocks[b], s);
        int skip = i->op == OP_FOR ? 1 : 0;
        for (int k = 0; k < n && i->op != OP_IF; k++)
            if (is_tile(&i->results[k])) {
                Buf *arg = plan_value_buf(p, i->blocks[b]->args[k + skip], s->blocks[b]);
                if (i->op == OP_WHILE && b == 0) s->carried2[k] = arg;
            }
        plan_block(p, s->blocks[b]);
    }
    plan_append(in, s);
    for (int k = 0; k < n; k++) plan_info(p, &i->results[k])->avail = s;
    for (int k = 0; k < n; k++)
        if (!is_tile(&i->results[k])) plan_info(p, &i->results[k])->mode = TILE_SCALAR;
    if (touches_memory(i)) {
        s->memory = true;
        in->last_memory = s;
    }
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

static void plan_store(Plan *p, Steps *in, Instr *i)
{
    Value *v = ir_operand(i, 1 + ir_operand(i, 0)->type->rank);
    if (is_tile(v)) add_sink(p, in, plan_sink(p, SINK_STORE, i, v, NULL), v->type);
    else in->last_memory = plan_append(in, plan_step(p, in, STEP_SCALAR, i));
}

/* A scatter or an atomic, of a tile of places or of one. */
static void plan_indexed(Plan *p, Steps *in, Instr *i)
{
    Value *at = ir_operand(i, 1);
    bool scatter = i->op == OP_SCATTER;
    Step *s;
    if (is_tile(at)) {
        Sink *k = plan_sink(p, scatter ? SINK_SCATTER : SINK_ATOMIC, i, at, NULL);
        if (!scatter && ir_result(i)->uses) k->buf = plan_value_buf(p, ir_result(i), in);
        s = add_sink(p, in, k, at->type);
    } else {
        s = in->last_memory = plan_append(in, plan_step(p, in, STEP_SCALAR, i));
        if (!scatter) plan_info(p, ir_result(i))->mode = TILE_SCALAR;
    }
    if (!scatter) plan_info(p, ir_result(i))->avail = s;
}

static void plan_message(Plan *p, Steps *in, Instr *i)
{
    if (i->op == OP_ASSERT && !p->checked) return;
    if (i->op == OP_ASSERT && is_tile(ir_operand(i, 0)))
        add_sink(p, in, plan_sink(p, SINK_ASSERT, i, ir_operand(i, 0), NULL), ir_operand(i, 0)->type);
    else in->last_memory = plan_append(in, plan_step(p, in, STEP_SCALAR, i));
}

static void plan_combined(Plan *p, Steps *in, Instr *i)
{
    Step *s = plan_append(in, plan_step(p, in, STEP_COMBINED, i));
    for (int k = 0; k < i->n_results; k++) {
        if (is_tile(&i->results[k])) plan_value_buf(p, &i->results[k], in);
        else plan_info(p, &i->results[k])->mode = TILE_SCALAR;
        plan_info(p, &i->results[k])->avail = s;
    }
}

/* A scan or a sort: its results are stored. */
static void plan_ordered(Plan *p, Steps *in, Instr *i, StepKind kind)
{
    Step *s = plan_step(p, in, kind, i);
    for (int k = 0; k < i->n_results; k++) {
        plan_value_buf(p, &i->results[k], in);
        plan_info(p, &i->results[k])->avail = s;
    }
    if (kind == STEP_SORT) {
        int64_t shape[1] = { sort_room(i) };
        s->aux = new_buf(p, in, DT_I64, 1, shape);
    }
    plan_append(in, s);
}

/* A scalar, or a tile that each of its readers computes for itself. */
static void plan_value(Plan *p, Steps *in, Instr *i)
{
    Value *r = ir_result(i);
    ValInfo *info = plan_info(p, r);
    if (!is_tile(r)) {
        info->mode = TILE_SCALAR;
        info->avail = plan_append(in, plan_step(p, in, STEP_SCALAR, i));
        if (i->n_results > 1) in->last_memory = info->avail;
        return;
    }
    if (!plan_can_be_virtual(i->op))
        ir_fail(p->session, i->loc, "the CPU backend does not take %s", op_info[i->op].name);
    info->mode = TILE_VIRTUAL;
    if (i->op == OP_LOAD) info->avail = plan_append(in, plan_step(p, in, STEP_WINDOW, i));
    if (info->wanted && r->uses) fill(p, in, r);
}

static void plan_memory(Plan *p, Steps *in, Instr *i)
{
    switch (op_as_memory(i->op)) {
    case MEMORY_LOAD:
    case MEMORY_GATHER: plan_value(p, in, i); return;
    case MEMORY_STORE: plan_store(p, in, i); return;
    case MEMORY_SCATTER:
    case MEMORY_ATOMIC_RMW:
    case MEMORY_ATOMIC_CAS: plan_indexed(p, in, i); return;
    }
}

static void plan_instr(Plan *p, Steps *in, Instr *i)
{
    switch (op_family(i->op)) {
    case OPS_TOKEN: return;
    case OPS_CONTROL: plan_control(p, in, i); return;
    case OPS_TERMINATOR: plan_append(in, plan_step(p, in, STEP_YIELD, i)); return;
    case OPS_PRODUCT: plan_mma(p, in, i); return;
    case OPS_MEMORY: plan_memory(p, in, i); return;
    case OPS_MESSAGE: plan_message(p, in, i); return;
    case OPS_COMBINED: plan_combined(p, in, i); return;
    case OPS_SCAN: plan_ordered(p, in, i, STEP_SCAN); return;
    case OPS_SORT: plan_ordered(p, in, i, STEP_SORT); return;
    case OPS_REDUCE:
    case OPS_ARG: plan_reduce(p, in, i); return;
    case OPS_SHAPE:
        if (i->op == OP_CONCAT) plan_concat(p, in, i);
        else plan_value(p, in, i);
        return;
    case OPS_CONSTANT:
    case OPS_LAUNCH:
    case OPS_ARITHMETIC:
    case OPS_BITS:
    case OPS_COMPARE:
    case OPS_SELECT:
    case OPS_FUNCTION:
    case OPS_CONVERSION:
    case OPS_RANDOM: plan_value(p, in, i); return;
    case OPS_CALL:
    case OPS_REGISTERS:
    case OPS_SHARED:
    case OPS_RING:
    case OPS_ROLES:
    case OPS_ORDER:
    case OPS_PLACE:
    case OPS_COLLECTIVE: break;
    }
    ir_fail(p->session, i->loc, "the CPU backend does not take %s", op_info[i->op].name);
}

static void plan_block(Plan *p, Steps *in)
{
    for (Instr *i = in->block->first; i; i = i->next) plan_instr(p, in, i);
}

Plan *cpu_plan(Session *s, Func *f, const CpuTarget *t, const BackendOptions *o)
{
    Plan *p = arena_new(&s->arena, Plan);
    p->session = s;
    p->arena = &s->arena;
    p->func = f;
    p->target = t;
    p->checked = o->checked;
    p->named = o->debug_info && o->opt_level == 0;
    p->bufs_end = &p->bufs;
    p->n_info = f->module->next_id;
    p->info = arena_array(p->arena, ValInfo, p->n_info);
    p->packs.data = arena_grow(p->arena, NULL, 0, 64 * sizeof *p->packs.data);
    p->packs.cap = 64;
    plan_find_wanted(p, f->body);
    if (!p->checked && !p->named) plan_unseen(p);
    p->body = plan_steps(p, f->body, NULL);
    plan_block(p, p->body);
    plan_share(p);
    plan_keep(p);
    plan_line_ends(p);
    return p;
}
