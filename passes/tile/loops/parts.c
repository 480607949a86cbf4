/* parts: processes an axis that is too long for registers in parts.
 *
 *   %x = load %X[%r, 0] {extents = [-1, 131072]}        for %p = 0 to 131072 step 4096 with (%a = -inf) {
 *   %m = reduce_max %x {axis = 0}                  ->     %x = load %X[%r, %p] {extents = [-1, 4096]}
 *   %e = exp (sub %x, broadcast %m)                       yield max %a, %x }
 *   store %Y[%r, 0] = %e                                %m = reduce_max %a {axis = 0}
 *                                                       for %p = .. { %x = load ..; store %Y[%r, %p] = exp ..
 * }
 *
 * A reduction along the axis ends a pass over it; what uses its result belongs to the next pass. Each pass is
 * a loop that loads again what it needs: L2 mostly still holds it. The number of passes is the least that
 * the dependences allow, because everything that does not wait for a reduction is in the first loop. A sum of
 * powers about a maximum does not wait for it (parts_online.c).
 *
 * Requires: a GPU; a body without control flow; loads of tensors that are only read; element-wise operations
 * and reductions; each tensor stored once; windows that cover a whole axis of their tensors, or an extent
 * that parts divide. Keeps: every element, except that a sum may be added in another order. Does not handle:
 * scans, sorts, products, atomics; axes that clusters divide among CTAs (passes/kernel/cluster/cluster.c), if
 * the CTAs hold them; two axes of one tile that are as long.
 */
#include "ir/interp/scalar.h"
#include "passes/tile/loops/parts.h"

enum {
    MOST_BYTES = 1 << 17, /* of a tile: half of the registers of a CTA of 32 warps */
    PART_BYTES =
        1 << 15, /* of a part in memory: 64 for each lane of 16 warps; two such CTAs share a processor */
    PLACE_BYTES = 1 << 13, /* where positions are carried for each element */
    LEAST_PART = 256,      /* elements */
};

int parts_long_axis(const Parts *p, const Type *t)
{
    int axis = -1;
    for (int a = 0; t->kind == TYPE_TILE && a < t->rank; a++)
        if (t->shape[a] == p->length) axis = axis == -1 ? a : -2;
    return axis;
}

bool parts_reduces(const Parts *p, const Instr *i)
{
    return op_reduces(i->op) && parts_is_long(p, ir_operand(i, 0)) &&
           ir_attr_int(i, ATTR_AXIS, 0) == parts_long_axis(p, ir_operand(i, 0)->type);
}

/* The instruction works on the long axis: it runs in a loop. */
static bool in_loop(const Parts *p, const Instr *i)
{
    bool any = false;
    for (int k = 0; k < i->n_operands; k++) any |= parts_is_long(p, ir_operand(i, k));
    for (int k = 0; k < i->n_results; k++) any |= parts_is_long(p, &i->results[k]);
    return any;
}

/* --- what may be done in parts ------------------------------------------------------------------------- */

/* The tensor's axis along which the window is long; -1: not just one. */
static int window_axis(const Parts *p, const Instr *i)
{
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    int axis = -1;
    for (int a = 0; a < e->n; a++)
        if (e->v[a] == p->length) axis = axis < 0 ? a : -1;
    return axis;
}

/* A part that reaches beyond the window reaches beyond the tensor, too. */
static bool ends_with_tensor(const Parts *p, const MemParts *m, int axis)
{
    int64_t first;
    const Dim *d = &p->f->dims[p->f->params[m->param].dims[axis]];
    return d->extent == p->length && ir_is_const(m->idx[axis], &first) && first == 0;
}

static bool may_window(Parts *p, const Instr *i)
{
    MemParts m;
    if (!ir_mem_parts(i, &m) || m.mask) return false;
    int axis = window_axis(p, i);
    const Attr *steps = ir_attr(i, ATTR_STEPS);
    if (axis < 0 || (steps && steps->v[axis] != 1)) return false;
    if (i->op == OP_LOAD && p->f->params[m.param].kind != PARAM_IN) return false;
    return p->length % p->part == 0 || ends_with_tensor(p, &m, axis);
}

static bool stored_once(const Parts *p, const Instr *store)
{
    MemParts m;
    if (!ir_mem_parts(store, &m) || !m.token->def || m.token->def->op != OP_TOKEN) return false;
    return !m.token_out->uses && ir_use_count(m.token) == 1;
}

/* A reshape that leaves the elements before and behind the long axis as they are. */
static bool keeps_axis(const Parts *p, const Instr *i)
{
    const Type *t[2] = { ir_operand(i, 0)->type, ir_result(i)->type };
    int64_t before[2] = { 1, 1 };
    for (int k = 0; k < 2; k++) {
        int axis = parts_long_axis(p, t[k]);
        if (axis < 0) return false;
        for (int a = 0; a < axis; a++) before[k] *= t[k]->shape[a];
    }
    return before[0] == before[1];
}

static bool may_long(Parts *p, const Instr *i)
{
    if (i->op == OP_LOAD || i->op == OP_STORE) return may_window(p, i);
    if (op_is_elementwise(i->op)) return i->n_results == 1;
    if (op_family(i->op) == OPS_REDUCE || op_family(i->op) == OPS_ARG) return true;
    if (i->op == OP_RESHAPE) return keeps_axis(p, i);
    return i->op == OP_SPLAT || i->op == OP_ARANGE || i->op == OP_BROADCAST || i->op == OP_PERMUTE;
}

static bool may(Parts *p, const Instr *i)
{
    for (int k = 0; k < i->n_results; k++)
        if (parts_long_axis(p, i->results[k].type) == -2) return false;
    if (i->n_blocks) return false;
    if (i->op == OP_STORE && !stored_once(p, i)) return false;
    if (in_loop(p, i)) return may_long(p, i);
    return i->op == OP_STORE || i->op == OP_RETURN || i->op == OP_TOKEN || op_is_pure(i->op) ||
           is_constant_read(i);
}

/* Clusters know these reductions, and divide the axis among CTAs. */
static bool cluster_takes(const Instr *i)
{
    return i->op == OP_REDUCE_SUM || i->op == OP_REDUCE_PROD || i->op == OP_REDUCE_MAX ||
           i->op == OP_REDUCE_MIN || op_family(i->op) == OPS_ARG;
}

/* The pass of each instruction: behind the passes of the reductions that it depends on. */
static bool order_passes(Parts *p)
{
    /* A CTA of a cluster holds its share of the largest tile. */
    int ctas = p->f->hints.cluster == 1 ? 1 : p->c->options->target->cluster_ctas;
    p->clustered = ctas > 1 && p->bytes <= (int64_t)MOST_BYTES * ctas;
    for (Instr *i = p->f->body->first; i; i = i->next) {
        if (!may(p, i)) return false;
        int pass = 0;
        for (int k = 0; k < i->n_operands; k++) {
            const Instr *d = ir_operand(i, k)->def;
            if (!d) continue;
            int after = p->pass[d->mark] + parts_reduces(p, d);
            if (after > pass) pass = after;
        }
        if (parts_reduces(p, i) && parts_online(p, i, pass)) pass--;
        p->pass[i->mark] = pass;
        if (pass > p->passes) p->passes = pass;
        if (op_reduces(i->op) && in_loop(p, i) && !cluster_takes(i)) p->clustered = false;
    }
    return !p->clustered;
}

/* --- one pass ----------------------------------------------------------------------------------------- */

const Type *parts_type(const Parts *p, const Type *t)
{
    int64_t shape[TILE_MAX_RANK];
    int axis = parts_long_axis(p, t);
    if (axis < 0) return t;
    for (int a = 0; a < t->rank; a++) shape[a] = a == axis ? p->part : t->shape[a];
    return type_tile(p->c->session, t->dtype, t->rank, shape);
}

static void clone_window(Parts *p, Builder *b, Instr *i, Value **ops)
{
    Attr attrs[ATTR_N_KEYS];
    int64_t extents[TILE_MAX_RANK];
    int axis = window_axis(p, i);
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    for (int a = 0; a < e->n; a++) extents[a] = a == axis ? p->part : e->v[a];
    int n = 0;
    for (int k = 0; k < i->n_attrs; k++)
        if (i->attrs[k].key != ATTR_MASKED && i->attrs[k].key != ATTR_INSIDE && i->attrs[k].key != ATTR_ALIGN)
            attrs[n++] = i->attrs[k].key == ATTR_EXTENTS ? a_ints(ATTR_EXTENTS, extents, e->n) : i->attrs[k];
    ops[axis + 1] = ir_bin(b, OP_ADD, ops[axis + 1], ir_cast(b, p->at, ops[axis + 1]->type->dtype));
    Instr *made = ir_build(b, i->op, ops, i->n_operands, (Attrs){ attrs, n }, NULL, 0);
    value_map_set(&p->map, ir_result(i), ir_result(made));
}

/* The instruction for the part at p->at. */
static void clone_part(Parts *p, Builder *b, Instr *i)
{
    Value **ops = arena_array(p->c->scratch, Value *, (size_t)i->n_operands + 1);
    for (int k = 0; k < i->n_operands; k++) ops[k] = value_map_get(&p->map, ir_operand(i, k));
    if (i->op == OP_LOAD || i->op == OP_STORE) {
        clone_window(p, b, i, ops);
        return;
    }
    Value *v = ir_emit(
        b, i->op, ops, i->n_operands, (Attrs){ i->attrs, i->n_attrs }, parts_type(p, ir_result(i)->type));
    ir_set_name(v, ir_result(i)->name);
    if (i->op == OP_ARANGE)
        v = ir_bin(b, OP_ADD, v, ir_splat(b, ir_cast(b, p->at, v->type->dtype), 1, &p->part));
    value_map_set(&p->map, ir_result(i), v);
}

/* Clones what the value needs, in the order of the program. */
Value *parts_need(Parts *p, Builder *b, Value *v)
{
    Instr *i = v->def;
    if (!i || !parts_is_long(p, v) || value_map_get(&p->map, v) != v) return value_map_get(&p->map, v);
    for (int k = 0; k < i->n_operands; k++) parts_need(p, b, ir_operand(i, k));
    clone_part(p, b, i);
    return value_map_get(&p->map, v);
}

/* --- reductions ---------------------------------------------------------------------------------------- */

static Op join_of(Op op)
{
    if (op == OP_REDUCE_SUM) return OP_ADD;
    if (op == OP_REDUCE_PROD) return OP_MUL;
    if (op == OP_REDUCE_ANY) return OP_OR;
    if (op == OP_REDUCE_ALL) return OP_AND;
    return op == OP_REDUCE_MAX || op == OP_ARGMAX ? OP_MAX : OP_MIN;
}

Value *parts_neutral(Builder *b, const Type *t, Op join)
{
    if (join == OP_OR || join == OP_AND) return build_int(b, t, join == OP_AND);
    bool least = join == OP_MAX, one = join == OP_MUL, most = join == OP_MIN;
    Scalar end = least ? scalar_lowest(t->dtype) : scalar_highest(t->dtype);
    if (dtype_is_float(t->dtype)) return build_float(b, t, least || most ? end.f : one);
    return build_int(b, t, least || most ? end.i : one);
}

/* A tile of the shape of `t` that holds the positions of the part at `at` (NULL: of the first). */
static Value *positions(const Parts *p, Builder *b, const Type *t, int axis, DType d, Value *at)
{
    int64_t shape[TILE_MAX_RANK];
    for (int a = 0; a < t->rank; a++) shape[a] = a == axis ? p->part : 1;
    Value *l =
        ir_emit(b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)), type_tile(p->c->session, d, 1, &p->part));
    if (at) l = ir_bin(b, OP_ADD, l, ir_splat(b, ir_cast(b, at, d), 1, &p->part));
    if (t->rank == 1) return l;
    l = ir_op(b, OP_RESHAPE, type_tile(p->c->session, d, t->rank, shape), NO_ATTRS, l);
    return ir_op(b, OP_BROADCAST, type_tile(p->c->session, d, t->rank, t->shape), NO_ATTRS, l);
}

Value *parts_inside(Parts *p, Builder *b, const Type *part, int axis)
{
    if (p->length % p->part == 0) return NULL;
    Value *at = positions(p, b, part, axis, DT_INDEX, p->at);
    return ir_bin(b, OP_LT, at, build_int(b, at->type, p->length));
}

Value *parts_operand(Parts *p, Builder *b, const Sum *s)
{
    Value *x = ir_operand(s->old, 0);
    Value *part = ir_cast(b, parts_need(p, b, x), s->dtype);
    Value *inside = parts_inside(p, b, part->type, parts_long_axis(p, x->type));
    if (!inside) return part;
    return ir_op(b, OP_WHERE, NULL, NO_ATTRS, inside, part, parts_neutral(b, part->type, s->join));
}

static Value *reduced(Builder *b, Op op, Value *x, int64_t axis, int64_t drop)
{ return ir_op(b, op, NULL, ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_DROP, drop)), x); }

/* For each place of a part the first of the best elements so far, and its position: a NaN is better than any
 * number. */
static void join_places(Parts *p, Builder *b, const Sum *s, Value *const *carried, Value **next)
{
    Value *x = parts_operand(p, b, s), *best = carried[s->first], *place = carried[s->first + 1];
    Value *at = positions(p, b, x->type, s->axis, DT_I32, p->at);
    Value *better = ir_bin(b, s->join == OP_MAX ? OP_GT : OP_LT, x, best);
    if (dtype_is_float(x->type->dtype))
        better =
            ir_bin(b, OP_OR, better, ir_bin(b, OP_AND, ir_bin(b, OP_NE, x, x), ir_bin(b, OP_EQ, best, best)));
    next[s->first] = ir_op(b, OP_WHERE, NULL, NO_ATTRS, better, x, best);
    next[s->first + 1] = ir_op(b, OP_WHERE, NULL, NO_ATTRS, better, at, place);
}

/* The least position of the best elements of all places. */
static Value *first_place(Builder *b, const Sum *s, Value *best, Value *place)
{
    Value *m = reduced(b, s->join == OP_MAX ? OP_REDUCE_MAX : OP_REDUCE_MIN, best, s->axis, 0);
    Value *hit = ir_bin(b, OP_EQ, best, ir_op(b, OP_BROADCAST, best->type, NO_ATTRS, m));
    if (dtype_is_float(best->type->dtype)) hit = ir_bin(b, OP_OR, hit, ir_bin(b, OP_NE, best, best));
    place = ir_op(b, OP_WHERE, NULL, NO_ATTRS, hit, place, build_int(b, place->type, INT32_MAX));
    return reduced(b, OP_REDUCE_MIN, place, s->axis, s->drop);
}

static Sum sum_of(Parts *p, Builder *b, Instr *i, Value **init, int n)
{
    const Type *x = parts_type(p, ir_operand(i, 0)->type);
    Sum s = { .old = i,
        .group = parts_group(p, i),
        .leads = parts_leads(p, i),
        .join = join_of(i->op),
        .dtype = x->dtype,
        .first = n,
        .n = op_family(i->op) == OPS_ARG ? 2 : 1,
        .axis = (int)ir_attr_int(i, ATTR_AXIS, 0),
        .drop = ir_attr_int(i, ATTR_DROP, 0) };
    bool rounds = s.join == OP_ADD || s.join == OP_MUL;
    if (rounds && dtype_is_float(x->dtype) && dtype_bits(x->dtype) < 32) s.dtype = DT_F32;
    init[n] = parts_neutral(b, parts_carried(p, &s, type_with_dtype(p->c->session, x, s.dtype)), s.join);
    if (s.n == 2) init[n + 1] = positions(p, b, x, s.axis, DT_I32, NULL);
    return s;
}

/* --- loops -------------------------------------------------------------------------------------------- */

typedef struct Loop {
    Sum sums[IR_MAX_RESULTS];
    Instr *stores[IR_MAX_RESULTS];
    Value *init[IR_MAX_RESULTS + 3];
    int n_sums, n_stores, n;
} Loop;

/* The carried values: those of the reductions, and behind them the tokens of the stores. */
static void collect(Parts *p, Builder *b, int pass, Loop *l)
{
    *l = (Loop){ .init = {
                     ir_index(b, 0), ir_index(b, (p->length + p->part - 1) / p->part), ir_index(b, 1) } };
    for (Instr *i = p->f->body->first; i; i = i->next) {
        if (!i->mark || p->pass[i->mark] != pass || !in_loop(p, i)) continue;
        if (parts_reduces(p, i)) {
            l->sums[l->n_sums] = sum_of(p, b, i, l->init + 3, l->n);
            for (int k = 0; k < l->n_sums; k++)
                if (l->sums[k].old == p->lead[i->mark]) l->sums[l->n_sums].lead = &l->sums[k];
            l->n += l->sums[l->n_sums++].n;
        } else if (i->op == OP_STORE) l->stores[l->n_stores++] = i;
    }
    for (int k = 0; k < l->n_stores; k++) {
        MemParts m;
        ir_mem_parts(l->stores[k], &m);
        l->init[3 + l->n++] = m.token;
    }
}

static void fill_loop(Parts *p, Instr *loop, Loop *l)
{
    Value *next[IR_MAX_RESULTS];
    Builder in = ir_at_end(loop->blocks[0]);
    value_map_init(&p->map, p->c->scratch);
    p->at = ir_bin(&in, OP_MUL, loop->blocks[0]->args[0], ir_index(&in, p->part));
    for (int k = 0; k < l->n_sums; k++) {
        Sum *s = &l->sums[k];
        if (s->n == 2) join_places(p, &in, s, loop->blocks[0]->args + 1, next);
        else next[s->first] = parts_join(p, &in, s, loop->blocks[0]->args[s->first + 1]);
    }
    for (int k = 0; k < l->n_stores; k++) {
        Instr *i = l->stores[k];
        MemParts m;
        int carried = l->n - l->n_stores + k;
        ir_mem_parts(i, &m);
        parts_need(p, &in, m.values[0]);
        value_map_set(&p->map, m.token, loop->blocks[0]->args[carried + 1]);
        clone_part(p, &in, i);
        next[carried] = value_map_get(&p->map, ir_result(i));
    }
    ir_build(&in, OP_YIELD, next, l->n, NO_ATTRS, NULL, 0);
}

static void finish_sums(Parts *p, Builder *b, Instr *loop, Loop *l)
{
    for (int k = 0; k < l->n_sums; k++) {
        Sum *s = &l->sums[k];
        Value *v = &loop->results[s->first], *old = ir_result(s->old);
        if (s->n == 2) v = first_place(b, s, v, &loop->results[s->first + 1]);
        else {
            Value *lead = s->lead ? &loop->results[s->lead->first] : NULL;
            v = ir_cast(b, parts_finish(p, b, s, v, lead), old->type->dtype);
        }
        s->total = v;
        ir_set_name(v, old->name);
        ir_replace(old, v);
    }
}

/* What does not run in a loop, and waits for a reduction of the pass before. */
static void move_down(Parts *p, int pass)
{
    InstrList waiting = { 0 };
    Builder b = ir_before(ir_terminator(p->f->body));
    for (Instr *i = p->f->body->first; i != ir_terminator(p->f->body); i = i->next)
        if (i->mark && p->pass[i->mark] == pass && !in_loop(p, i)) vec_push(p->c->scratch, &waiting, i);
    for (size_t k = 0; k < waiting.len; k++) {
        ir_unlink(waiting.data[k]);
        ir_place(&b, waiting.data[k]);
    }
}

static void split(Parts *p)
{
    Loop *l = arena_new(p->c->scratch, Loop);
    Instr *end = ir_terminator(p->f->body);
    for (int pass = 0; pass <= p->passes; pass++) {
        Builder b = ir_before(end);
        if (pass) move_down(p, pass);
        collect(p, &b, pass, l);
        if (!l->n) continue;
        Instr *loop = ir_build(&b, OP_FOR, l->init, l->n + 3, NO_ATTRS, NULL, 0);
        fill_loop(p, loop, l);
        p->loops++;
        finish_sums(p, &b, loop, l);
    }
    for (Instr *i = end->prev, *before; i; i = before) {
        before = i->prev;
        if (i->mark && in_loop(p, i)) ir_erase(i);
    }
    ir_sweep(p->f->body);
}

/* --- which axis ---------------------------------------------------------------------------------------- */

/* The bytes in memory of one element of a part, as the widest load or store has it, for all of the other
 * axes. */
static int64_t widest(const Parts *p, bool *places)
{
    int64_t most = 1;
    for (const Instr *i = p->f->body->first; i; i = i->next) {
        *places |= op_family(i->op) == OPS_ARG && parts_reduces(p, i);
        for (int k = 0; k < i->n_operands + i->n_results && (i->op == OP_LOAD || i->op == OP_STORE); k++) {
            const Value *v = k < i->n_operands ? ir_operand(i, k) : &i->results[k - i->n_operands];
            if (!parts_is_long(p, v)) continue;
            int64_t bytes = type_elements(v->type) / p->length * dtype_bytes(v->type->dtype);
            if (bytes > most) most = bytes;
        }
    }
    return most;
}

static bool find_axis(Parts *p)
{
    bool places = false;
    int64_t most = MOST_BYTES;
    uint32_t n = 1;
    for (Instr *i = p->f->body->first; i; i = i->next) {
        i->mark = n++;
        for (int k = 0; k < i->n_results; k++) {
            const Type *t = i->results[k].type;
            if (t->kind != TYPE_TILE || type_elements(t) * dtype_bytes(t->dtype) <= most) continue;
            most = type_elements(t) * dtype_bytes(t->dtype);
            p->length = 0;
            for (int a = 0; a < t->rank; a++)
                if (t->shape[a] > p->length) p->length = t->shape[a];
        }
    }
    if (!p->length) return false;
    p->bytes = most;
    int64_t each = widest(p, &places);
    p->part = places ? PLACE_BYTES : PART_BYTES;
    for (int64_t room = p->part; p->part > LEAST_PART && p->part * each > room; p->part /= 2) {}
    p->pass = arena_array(p->c->scratch, int, n);
    p->lead = arena_array(p->c->scratch, Instr *, n);
    p->rate = arena_array(p->c->scratch, double, n);
    return p->part * 2 <= p->length;
}

static int values_of(const Parts *p)
{
    int n = 0;
    for (const Instr *i = p->f->body->first; i; i = i->next)
        n += in_loop(p, i) ? parts_reduces(p, i) ? 2 : i->op == OP_STORE : 0;
    return n;
}

static bool parts_func(PassContext *c, Func *f)
{
    Parts p = { .c = c, .f = f };
    if (!f->is_kernel || f->hints.cluster > 1 || f->hints.schedule) return false;
    if (!find_axis(&p) || !order_passes(&p) || values_of(&p) > IR_MAX_RESULTS) return false;
    split(&p);
    pass_count(c, "tiles in parts", 1);
    pass_count(c, "loops over parts", p.loops);
    return true;
}

bool pass_parts(PassContext *c, Module *m)
{
    const Target *t = c->options->target;
    return t && t->kind != TARGET_CPU && pass_each_func(c, m, parts_func);
}
