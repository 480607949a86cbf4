/* keep_rows.c: of hoist-loads: a row that is read again behind a reduction is kept in shared memory, as it
 * was loaded, and the program works through it in parts of a few elements for each thread.
 *
 *   %x = load X[r, :]                    %x0 = load X[r, 0 +: P] {kept = 1}; %x1 = load X[r, P +: P] ..
 *   %m = reduce_sum (cast %x)       ->   %m = reduce_sum (add (cast (opaque %x0)), (cast (opaque %x1)) ..)
 *   store Y[r, :], (sub %x, %m)          store Y[r, 0 +: P], (sub (cast (opaque %x0)), %m); ..
 *
 * The loads start copies to shared memory, each thread its own words, so that no thread waits for another's.
 * `opaque` reads them, first when its thread's copies have come. What follows from a row by operations of its
 * elements is computed again, part by part, wherever a reduction or a store needs it. No register holds a row
 * then, whatever its length, so that a multiprocessor holds as many CTAs as it has room for their rows, and
 * memory works for some while others reduce theirs. Loads that only one of these needs, such as weights, run
 * a few parts ahead, the first ones from before the reduction (bench/notes/rows.md, "Rows kept in shared
 * memory").
 *
 * Rows that begin anywhere are kept from the aligned address before them on, so that copies and stores are
 * whole vectors; weights beside them are shifted instead (backends/gpu/memory/emit_row_start.c).
 *
 * Requires: cp.async; a program of one block; tiles of one axis and one layout whose registers repeat it
 * along that; whole rows of tensors that are only read, by accesses of at least 4 bytes or from an aligned
 * address on; sums, maxima and minima of f32, and operations by element. Keeps: everything but the order of
 * sums. */
#include "passes/kernel/pipeline/keep_rows.h"
#include <math.h>

enum {
    VECTOR = 16,  /* bytes of the widest access of a thread */
    BESIDE = 40,  /* registers of a thread that holds no row: addresses, a part of it and of weights */
    SHIFTED = 64, /* the same where weights are shifted, from two vectors each, or places are asked for */
    AHEAD = 32,   /* registers beside parts of weights that run ahead */
    SHIFTED_AHEAD = 32,   /* the same where weights are shifted */
    LEAST_ROW = 16384,    /* bytes of rows that begin anywhere: shorter ones are fast in registers */
    LEAST_BESIDE = 24576, /* the same beside two vectors of weights or more, which are shifted */
    EXCHANGE = 2048,      /* bytes of shared memory beside the rows, for sums */
};

static bool is_row(const Keep *k, const Instr *i)
{
    for (size_t n = 0; n < k->rows.len; n++)
        if (k->rows.data[n] == i) return true;
    return false;
}

static bool is_wide(const Keep *k, const Type *t)
{ return t->kind == TYPE_TILE && t->rank == 1 && t->shape[0] == k->row; }

/* --- what the program is ------------------------------------------------------------------------------ */

/* Whether an access is of a whole row, whose parts are accesses too. */
static bool whole_row(const Keep *k, const Instr *i)
{
    MemParts m;
    int64_t off;
    int axis, unit = kernel_unit_axis(k->c->f, i, &axis);
    if (!ir_mem_parts(i, &m) || m.mask || m.pad || unit < 0 || axis != 0 || ir_attr(i, ATTR_STEPS) ||
        ir_attr(i, ATTR_ORDER) || (ir_attr(i, ATTR_SHIFTED) && !k->start.leads) ||
        ir_attr_int(i, ATTR_BULK, 0) || ir_attr_int(i, ATTR_MASKED, 1) || ir_adds(i) ||
        !ir_is_const(m.idx[unit], &off) || off)
        return false;
    const Param *p = &k->c->f->params[m.param];
    if (i->op == OP_LOAD && (m.token || p->kind != PARAM_IN)) return false;
    return k->c->f->dims[p->dims[unit]].extent == k->row &&
           (k->start.leads || kernel_access_bytes(k->c->f, i) >= 4); /* smaller ones: in registers */
}

static bool reduces_row(const Instr *i)
{
    bool can = i->op == OP_REDUCE_SUM || i->op == OP_REDUCE_MAX || i->op == OP_REDUCE_MIN;
    return can && ir_operand(i, 0)->type->dtype == DT_F32 && !ir_attr_int(i, ATTR_LANES, 0);
}

/* Whether each part of the tile is computed from where it lies: positions, and what follows from them alone.
 */
static bool of_positions(const Value *v)
{
    const Instr *d = v->def;
    return d && (d->op == OP_SPLAT || d->op == OP_ARANGE || op_is_elementwise(d->op));
}

/* Whether the operation can be done part by part. */
static bool by_parts(Keep *k, const Instr *i)
{
    MemParts m;
    bool wide = false;
    for (int n = 0; n < i->n_results + i->n_operands; n++) {
        const Value *v = n < i->n_results ? &i->results[n] : ir_operand(i, n - i->n_results);
        if (!is_wide(k, v->type)) {
            /* Other tiles are row values. */
            if (v->type->kind == TYPE_TILE && type_elements(v->type) > 1) return false;
            continue;
        }
        wide = true;
        if (v->type->layout ? !layout_equal(layouts_get(&k->c->p->layouts, v->type), k->whole)
                            : !of_positions(v))
            return false;
        if (v->type->dtype == DT_BOOL && i->op == OP_LOAD) return false;
    }
    if (!wide) return !i->n_blocks;
    k->places |= i->op == OP_ARANGE;
    if (i->op == OP_ARANGE) return true;
    if (i->op == OP_GATHER) return ir_mem_parts(i, &m) && !m.token;
    if (i->op == OP_LOAD || i->op == OP_STORE) return whole_row(k, i);
    return reduces_row(i) || hoist_silent(i) || (op_has(i->op, OPF_ELEM | OPF_PURE) && i->n_results == 1);
}

/* Marks what a segment needs of rows. What two segments need is computed twice, or kept where it is loaded.
 */
static void need(Keep *k, Value *v, uint32_t segment)
{
    Instr *d = v->def;
    if (!is_wide(k, v->type) || k->seen[v->id] == segment) return;
    bool again = k->seen[v->id] != 0;
    k->seen[v->id] = segment;
    k->ok &= d != NULL;
    if (!d) return;
    if (d->op == OP_LOAD) {
        if (again && !is_row(k, d)) vec_push(&k->c->s->arena, &k->rows, d);
        return;
    }
    if (again && !hoist_silent(d) && !op_has(d->op, OPF_CHEAP) && d->op != OP_EXP2) k->ok = false;
    for (int n = 0; n < d->n_operands; n++) need(k, ir_operand(d, n), segment);
}

static bool find_rows(Keep *k)
{
    Hoist *c = k->c;
    uint32_t segment = 1;
    k->seen = arena_array(&c->s->arena, uint32_t, c->f->module->next_id + 1);
    k->ok = true;
    for (Instr *i = c->f->body->first; i && k->ok; i = i->next) {
        if (!by_parts(k, i)) return false;
        bool wide = i->op == OP_STORE ? is_wide(k, ir_operand(i, i->n_operands - 1)->type) : false;
        for (int n = 0; n < i->n_results + i->n_operands; n++)
            wide |= is_wide(k, (n < i->n_results ? &i->results[n] : ir_operand(i, n - i->n_results))->type);
        if (wide) vec_push(&c->s->arena, &k->wide, i);
        bool reduces = wide && op_reduces(i->op);
        for (int n = 0; (reduces || i->op == OP_STORE) && n < i->n_operands; n++)
            need(k, ir_operand(i, n), segment);
        segment += reduces;
    }
    return k->ok && k->rows.len > 0;
}

/* --- parts -------------------------------------------------------------------------------------------- */

static const Type *part_type(Keep *k, DType d)
{ return layouts_typed(&k->c->p->layouts, type_tile(k->c->s, d, 1, &k->chunk), k->part); }

/* Makes the access one of part `p`. */
static void at_part(Keep *k, Instr *i, int p)
{
    MemParts m;
    int axis, unit = kernel_unit_axis(k->c->f, i, &axis);
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    int64_t *extents = arena_array(&k->c->s->arena, int64_t, (size_t)e->n);
    Builder b = ir_before(i);
    ir_mem_parts(i, &m);
    for (int n = 0; n < e->n; n++) extents[n] = n == unit ? k->chunk : e->v[n];
    ir_set_attr(k->c->s, i, a_ints(ATTR_EXTENTS, extents, e->n));
    ir_del_attr(i, ATTR_SHIFTED);
    if ((p + 1) * k->chunk > k->row || (k->start.leads && !p)) ir_unprove(k->c->s, i);
    for (int n = 0, seen = 0; n < i->n_operands; n++) /* the offsets stand in the order of the axes */
        if (ir_operand(i, n)->type->kind == TYPE_SCALAR && seen++ == unit) {
            ir_set_operand(i, n, ir_const_int(&b, m.idx[unit]->type->dtype, p * k->chunk));
            break;
        }
}

static Value *part_of(Keep *k, Builder *b, Value *v, int p)
{
    Value *done = value_map_get(&k->map[p], v);
    const Instr *d = v->def;
    if (done != v || !is_wide(k, v->type)) return done;
    if (d->op == OP_ARANGE) {
        Value *at = keep_places(k, b, d, p);
        value_map_set(&k->map[p], v, at);
        return at;
    }
    for (int n = 0; d->op != OP_LOAD && n < d->n_operands; n++) part_of(k, b, ir_operand(d, n), p);
    Instr *i = ir_clone(b, d, &k->map[p]);
    i->results[0].type =
        v->type->layout ? part_type(k, v->type->dtype) : type_tile(k->c->s, v->type->dtype, 1, &k->chunk);
    if (i->op == OP_LOAD) at_part(k, i, p);
    if (i->op == OP_GATHER && k->start.leads) ir_unprove(k->c->s, i);
    return ir_result(i);
}

/* Joins part p of what is reduced with the parts before it. */
static Value *reduced_part(Keep *k, Builder *b, const Instr *end, int p, Value *before)
{
    Value *narrow = keep_narrow_magnitudes(k, end), *x = narrow ? narrow : ir_operand(end, 0);
    b->loc = end->loc;
    x = part_of(k, b, x, p);
    if (narrow) x = ir_un(b, OP_ABS, x);
    x = keep_within_row(k, b, x, p, end->op);
    b->loc = end->loc;
    x = keep_join(b, before, x, end->op);
    return narrow && p + 1 == k->parts ? ir_cast(b, x, DT_F32) : x;
}

/* --- the rewrite -------------------------------------------------------------------------------------- */

/* Loads of part `p` that only this segment needs. */
static void load_part(Keep *k, Builder *b, int p)
{
    for (size_t n = 0; p < k->parts && n < k->others.len; n++) part_of(k, b, ir_result(k->others.data[n]), p);
}

/* The loads that run ahead: others than those of rows, as far as they can start in front of `before`. */
static void find_others(Keep *k, Value *v, const Instr *before)
{
    Instr *d = v->def;
    if (!is_wide(k, v->type)) return;
    if (d->op != OP_LOAD) {
        for (int n = 0; n < d->n_operands; n++) find_others(k, ir_operand(d, n), before);
        return;
    }
    if (!hoist_known_at(d, before)) return;
    for (size_t n = 0; n < k->others.len; n++)
        if (k->others.data[n] == d) return;
    if (!is_row(k, d)) vec_push(&k->c->s->arena, &k->others, d);
}

/* The parts of rows are read again in each segment. */
static void begin_segment(Keep *k, Value *const *kept)
{
    for (int p = 0; p < k->parts; p++) {
        value_map_init(&k->map[p], &k->c->s->arena);
        for (size_t n = 0; n < k->rows.len; n++)
            value_map_set(&k->map[p], ir_result(k->rows.data[n]), kept[n * (size_t)k->parts + (size_t)p]);
    }
}

/* Rows are read where a part begins to need them. */
static void read_rows(Keep *k, Builder *b, int p)
{
    for (size_t n = 0; n < k->rows.len; n++) {
        Value *row = ir_result(k->rows.data[n]), *x = value_map_get(&k->map[p], row);
        value_map_set(&k->map[p], row, ir_emit(b, OP_OPAQUE, &x, 1, NO_ATTRS, NULL));
    }
}

/* So are weights that are put together from two vectors, which thereby wait for their words no earlier. */
static void read_weights(Keep *k, Builder *b, int p)
{
    for (size_t n = 0; k->start.bytes && n < k->others.len; n++) {
        Value *w = ir_result(k->others.data[n]), *x = value_map_get(&k->map[p], w);
        MemParts m;
        if (!ir_mem_parts(k->others.data[n], &m) || k->c->f->params[m.param].type->rank != 1) continue;
        value_map_set(&k->map[p], w, ir_emit(b, OP_OPAQUE, &x, 1, NO_ATTRS, NULL));
    }
}

/* Emits in front of `end`, a reduction or the end of the program, what it and the stores before it need.
 * before: the reduction that the segment follows; NULL: the first one. */
static void do_segment(Keep *k, Instr *end, Instr *before, InstrList *stores)
{
    Hoist *c = k->c;
    bool reduces = op_reduces(end->op);
    Value *sum = NULL;
    k->others.len = 0;
    if (reduces) find_others(k, ir_operand(end, 0), before);
    for (size_t n = 0; n < stores->len; n++) {
        MemParts m;
        ir_mem_parts(stores->data[n], &m);
        find_others(k, m.values[0], before);
    }
    int words = 0, ahead = 1, around = k->start.bytes ? 2 : 1; /* vectors from which a weight is shifted */
    int spare = k->start.bytes ? SHIFTED_AHEAD : AHEAD;
    if (k->others.len) {
        for (size_t n = 0; n < k->others.len; n++)
            words += (k->regs * dtype_bytes(ir_result(k->others.data[n])->type->dtype) + 3) / 4 * around;
        ahead = (hoist_registers_at(c->p, c->p->min_ctas) - spare) / words;
        if (ahead < 1) ahead = 1;
    }
    Value **last = arena_array(&c->s->arena, Value *, (size_t)c->f->n_params);
    Builder first = ir_before(before ? before : end), b = ir_before(end);
    for (int p = 0; p < ahead; p++) load_part(k, &first, p);
    for (int p = 0; p < k->parts; p++) {
        if (p) load_part(k, &b, p + ahead - 1);
        read_rows(k, &b, p);
        read_weights(k, &b, p);
        if (reduces) sum = reduced_part(k, &b, end, p, sum);
        for (size_t n = 0; n < stores->len; n++) {
            Instr *i = stores->data[n];
            MemParts m;
            ir_mem_parts(i, &m);
            part_of(k, &b, m.values[0], p);
            if (m.token && last[m.param]) value_map_set(&k->map[p], m.token, last[m.param]);
            Instr *part = ir_clone(&b, i, &k->map[p]);
            at_part(k, part, p);
            if (m.token) last[m.param] = ir_result(part); /* what is stored to the tensor next waits for it */
            if (m.token_out && p + 1 == k->parts) ir_replace(m.token_out, ir_result(part));
        }
    }
    if (reduces) ir_set_operand(end, 0, sum);
}

static Value **load_rows(Keep *k)
{
    Value **kept = arena_array(&k->c->s->arena, Value *, k->rows.len * (size_t)k->parts);
    for (size_t n = 0; n < k->rows.len; n++) {
        Instr *load = k->rows.data[n];
        const Decision *d = schedule_look_at_load(k->c->p, load);
        if (d && d->form == LOAD_KEPT) schedule_asked_load(k->c->p, load);
        schedule_take_load(k->c->p, load, LOAD_KEPT, 0);
        Builder b = ir_before(load);
        for (int p = 0; p < k->parts; p++) {
            ValueMap own;
            value_map_init(&own, &k->c->s->arena);
            Instr *i = ir_clone(&b, load, &own);
            i->results[0].type = part_type(k, i->results[0].type->dtype);
            at_part(k, i, p);
            ir_set_attr(k->c->s, i, a_int(ATTR_KEPT, 1));
            kept[n * (size_t)k->parts + (size_t)p] = ir_result(i);
        }
    }
    return kept;
}

static void rewrite(Keep *k)
{
    Hoist *c = k->c;
    Value **kept = load_rows(k);
    InstrList stores = { 0 };
    Instr *before = NULL;
    for (size_t n = 0; n <= k->wide.len; n++) {
        Instr *i = n < k->wide.len ? k->wide.data[n] : c->f->body->last;
        if (i->op == OP_STORE) vec_push(&c->s->arena, &stores, i);
        if (n < k->wide.len && !op_reduces(i->op)) continue;
        begin_segment(k, kept);
        do_segment(k, i, before, &stores);
        for (size_t q = 0; q < stores.len; q++) ir_erase(stores.data[q]);
        stores.len = 0;
        before = i;
    }
    for (size_t n = k->wide.len; n-- > 0;) {
        Instr *i = k->wide.data[n];
        if (i->op != OP_STORE && !op_reduces(i->op)) ir_erase(i);
    }
    ir_sweep(c->f->body);
    for (Instr *i = c->f->body->first; i; i = i->next)
        for (int n = 0; n < i->n_results; n++) {
            Value *v = &i->results[n];
            if (v->type->kind == TYPE_TILE && v->type->layout && !strcmp(v->type->layout, k->row_value))
                v->type = layouts_typed(&c->p->layouts, type_with_layout(c->s, v->type, NULL), k->slice);
        }
}

/* --- whether ------------------------------------------------------------------------------------------ */

/* CTAs of a multiprocessor by the room for their rows, and with some registers. */
static int ctas_with_rows(const Keep *k)
{
    const KernelPlan *p = k->c->p;
    const Target *t = p->target;
    int64_t each = k->bytes + EXCHANGE + t->cta_shared_bytes, n = t->sm_shared_bytes / each;
    int64_t most = t->sm_threads / (p->warps * t->wave);
    if (n > most) n = most;
    if (n > t->sm_ctas) n = t->sm_ctas;
    int beside = k->start.bytes && (k->start.weights || k->places) ? SHIFTED : BESIDE;
    while (n > 1 && hoist_registers_at(p, (int)n) < beside) n--;
    return k->bytes + EXCHANGE > t->shared_bytes ? 0 : (int)n;
}

/* A load for which a written schedule asks this form, or (`other`) another form; NULL: none. */
static const Decision *asked(Hoist *c, bool other)
{
    for (const Instr *i = c->f->body->first; i; i = i->next) {
        const Decision *d = i->op == OP_LOAD ? schedule_look_at_load(c->p, i) : NULL;
        if (d && (d->form == LOAD_KEPT) != other) return other ? d : schedule_asked_load(c->p, i);
    }
    return NULL;
}

typedef struct Ask {
    Hoist *c;
    int beside;
    bool fits, kept;
} Ask;

/* Whether what is held has no registers; or more words than those of the rows follow the reductions of a long
 * row: the vendor's compiler starts many together, and several go to memory for each without a register. */
static bool worth(const Keep *k, const Ask *a, int ctas)
{
    const KernelPlan *p = k->c->p;
    if (asked(k->c, false) || kernel_forces(p, PASS_KEEP_ROWS)) return true;
    if (asked(k->c, true) || k->c->f->hints.occupancy || p->min_ctas < 1) return false;
    int least = k->start.weights < 2 ? LEAST_ROW : LEAST_BESIDE;
    if (k->start.bytes) return !a->fits || k->row * k->start.bytes >= least;
    bool many = a->beside > k->bytes / 4 / (p->warps * p->target->wave);
    return !a->fits || (many && ctas >= p->min_ctas);
}

/* Finds out whether there are rows that can be kept, and their parts. */
static bool find(Keep *k)
{
    Hoist *c = k->c;
    KernelPlan *p = c->p;
    const Value *row = ir_operand(c->reductions.data[0], 0);
    if (!target_has(p->target, TF_CP_ASYNC) || row->type->rank != 1) return false;
    k->start = kernel_row_start_of_parts(c->f, p);
    if (k->start.bytes) { /* by vectors, whatever the words are by which registers would hold them */
        k->start.unit = VECTOR;
        k->start.leads = true;
    }
    k->row = row->type->shape[0];
    k->whole = layouts_get(&p->layouts, row->type);
    if (!find_rows(k)) return false;
    int least = 4, all = 0;
    for (size_t n = 0; n < k->rows.len; n++) {
        const Value *v = ir_result(k->rows.data[n]);
        int bytes = dtype_bytes(v->type->dtype);
        if (bytes > 4) return false;
        if (bytes < least) least = bytes;
        all += bytes;
    }
    if (k->start.bytes ? !keep_find_vectors(k) : !keep_find_parts(k, least)) return false;
    k->bytes = (int64_t)k->parts * k->regs * all * p->warps * p->target->wave;
    return true;
}

static bool keep(void *user)
{
    Ask *a = user;
    Keep k = { .c = a->c };
    KernelPlan *p = a->c->p;
    const Decision *d = asked(a->c, false);
    int ctas = find(&k) ? ctas_with_rows(&k) : 0;
    if (d && !ctas)
        return schedule_refuse(p, d,
            "this kernel has no rows that could be kept: whole rows of a tensor that is only read, which "
            "are needed on both sides of a reduction, and fit shared memory");
    const bool begins = k.many && worth(&k, a, 1), keeps = ctas && worth(&k, a, ctas);
    p->may_keep = begins || keeps;
    if (!d && kernel_skips(p, PASS_KEEP_ROWS)) return false;
    p->keeps_begins = begins; /* with other warps or CTAs */
    if (!keeps) return false;
    if (!a->c->f->hints.occupancy && p->min_ctas > 0) p->min_ctas = ctas;
    p->keeps_rows = true;
    p->keeps_begins = k.start.bytes > 0;
    if (k.start.leads) p->row_parts = (RowParts){ k.start, k.part, k.row, k.line };
    rewrite(&k);
    return a->kept = true;
}

bool hoist_keep_rows(Hoist *c, int beside, bool fits)
{
    Ask a = { c, beside, fits, false };
    return !kernel_step(c->p, PASS_KEEP_ROWS, keep, &a) || a.kept;
}
