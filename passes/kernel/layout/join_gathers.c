/* join-gathers: gathers of single positions beside each other become one gather of all of them. A step of
 * layout.
 *
 *   %a = gather X[%i, 0] : [128]  ->  %c = gather X[%i', %k] : [128, 2]    %i' = %i for each of two columns,
 *   %b = gather X[%i, 1] : [128]      %a = reshape (slice %c {axis = 1, start = 0}) : [128]     %k = 0, 1
 *                                     %b = reshape (slice %c {axis = 1, start = 1}) : [128]
 *
 * The fields of records that a kernel gathers one by one, the parts of complex numbers or a few features,
 * say, would be read by as many instructions, each of which touches a sector for every lane. A lane that has
 * all of them reads them by vectors (gather/runs.c).
 *
 * Proof. The tensor is only read, so that any order of its gathers gives the same. The indices along other
 * axes, mask and pad are the same values, and the positions follow each other. An element out of range has
 * the pad in both forms.
 *
 * Requires: gathers of one block, of tiles with an element for each lane at least; records of 8 bytes at
 * least (narrower ones are in one sector, which the cache keeps for the next gather); positions of which one
 * access of a lane reads several; no producer warps and no cluster. Keeps: results.
 *
 * Three words lie at any multiple of 4 bytes, so that no vector reads them; but two of them lie side by side
 * at a multiple of 8, and the third beside these. Their gathers stay as they are and become neighbours, which
 * the emitter reads by two accesses for each record (CUDA). */
#include "passes/kernel/gather/runs.h"
#include "passes/kernel/layout/groups.h"
#include "passes/kernel/layout/windows.h"

/* Bytes of a record, of a lane's access, and of each of three fields. */
enum { MOST_GATHERS = 16, LEAST_RECORD = 8, MOST_BYTES = 16, WORD = 4 };

typedef struct Field {
    Instr *gather;
    MemParts mem;
    int64_t at; /* its position along the contiguous axis */
} Field;

typedef struct Joiner {
    Session *s;
    Func *f;
    KernelPlan *p;
    Ranges *ranges;
    VEC(Field) fields;
} Joiner;

/* A gather of a single position along the contiguous axis, the last one, of a tensor that is only read. */
static bool field(const Joiner *c, Instr *i, Field *x)
{
    *x = (Field){ .gather = i };
    if (i->op != OP_GATHER || kernel_kept(i) || !ir_mem_parts(i, &x->mem) || x->mem.token) return false;
    const Param *p = &c->f->params[x->mem.param];
    const Type *t = x->mem.result->type;
    const Value *last = ir_last_index(&x->mem);
    if (!last) return false;
    if (last->def && last->def->op == OP_SPLAT) last = ir_operand(last->def, 0);
    return p->kind == PARAM_IN && ir_last_is_unit(c->f, &x->mem) && t->kind == TYPE_TILE &&
           t->dtype != DT_BOOL && t->rank < TILE_MAX_RANK && type_elements(t) >= c->p->target->wave &&
           ir_is_const(last, &x->at);
}

static void collect(void *user, Instr *i)
{
    Joiner *c = user;
    Field x;
    if (field(c, i, &x)) vec_push(&c->s->arena, &c->fields, x);
}

/* Whether both gather from one record. */
static bool beside(const Field *a, const Field *b)
{
    bool same = b->gather->block == a->gather->block && b->mem.param == a->mem.param &&
                b->mem.mask == a->mem.mask && b->mem.pad == a->mem.pad &&
                b->mem.result->type == a->mem.result->type;
    for (int k = 0; k < a->mem.rank - 1 && same; k++) same = a->mem.idx[k] == b->mem.idx[k];
    return same;
}

/* The fields of the record that the first one is of, by positions. The number of them; 0: one is missing, or
 * they are no vector. */
static int record_of(const Joiner *c, size_t first, Field *record)
{
    const Field *a = &c->fields.data[first];
    int n = 0, bytes = dtype_bytes(a->mem.result->type->dtype);
    for (size_t k = first; k < c->fields.len; k++) {
        const Field *x = &c->fields.data[k];
        if (!x->gather || !beside(a, x)) continue;
        if (n == MOST_GATHERS) return 0;
        int j = n++;
        for (; j > 0 && record[j - 1].at > x->at; j--) record[j] = record[j - 1];
        record[j] = *x;
    }
    for (int k = 1; k < n; k++)
        if (record[k].at != record[k - 1].at + 1) return 0;
    int vector = n * bytes > MOST_BYTES ? MOST_BYTES / bytes : n;
    if (n == GATHERED_WORDS && bytes == WORD && c->p->target->kind == TARGET_CUDA) {
        int64_t extent = c->f->dims[c->f->params[a->mem.param].dims[a->mem.rank - 1]].extent;
        bool loaded = false; /* places that follow from positions lie side by side for neighbouring lanes */
        for (int k = 0; k < a->mem.rank - 1; k++) loaded |= !kernel_is_cheap(a->mem.idx[k]);
        return loaded && record[0].at >= 0 && record[n - 1].at < extent ? n : 0;
    }
    return n & (n - 1) || n * bytes < LEAST_RECORD || record[0].at % vector ? 0 : n;
}

/* A tile that is the same in all positions of a new last axis of extent n. */
static Value *along(Joiner *c, Builder *b, Value *v, int n)
{
    const Type *t = v->type;
    int64_t shape[TILE_MAX_RANK];
    for (int k = 0; k < t->rank; k++) shape[k] = t->shape[k];
    shape[t->rank] = n;
    const Type *all = type_tile(c->s, t->dtype, t->rank + 1, shape);
    if (v->def && v->def->op == OP_SPLAT) return ir_splat(b, ir_operand(v->def, 0), all->rank, shape);
    shape[t->rank] = 1;
    v = ir_op(b, OP_RESHAPE, type_tile(c->s, t->dtype, t->rank + 1, shape), NO_ATTRS, v);
    return ir_op(b, OP_BROADCAST, all, NO_ATTRS, v);
}

/* The positions from `from` on along the last axis of a tile of this type. */
static Value *positions(Joiner *c, Builder *b, const Type *all, DType d, int64_t from)
{
    int64_t shape[TILE_MAX_RANK], n = all->shape[all->rank - 1];
    for (int k = 0; k < all->rank; k++) shape[k] = k == all->rank - 1 ? n : 1;
    Value *v = ir_emit(b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, from)), type_tile(c->s, d, 1, &n));
    v = ir_op(b, OP_RESHAPE, type_tile(c->s, d, all->rank, shape), NO_ATTRS, v);
    return ir_op(b, OP_BROADCAST, type_tile(c->s, d, all->rank, all->shape), NO_ATTRS, v);
}

/* The gather of all fields, before the first one; NULL: a lane would read single elements. */
static Value *joined(Joiner *c, const Instr *first, const Field *record, int n, Builder *b)
{
    const MemParts *m = &record[0].mem;
    const Type *t = m->result->type;
    Value **operands = arena_array(&c->s->arena, Value *, (size_t)first->n_operands);
    int64_t shape[TILE_MAX_RANK];
    int axis, at = 1 + m->rank;
    for (int k = 0; k < t->rank; k++) shape[k] = t->shape[k];
    shape[t->rank] = n;
    const Type *all = type_tile(c->s, t->dtype, t->rank + 1, shape);
    for (int k = 0; k < first->n_operands; k++) operands[k] = ir_operand(first, k);
    for (int k = 0; k < m->rank - 1; k++) operands[1 + k] = along(c, b, m->idx[k], n);
    operands[m->rank] = positions(c, b, all, m->idx[m->rank - 1]->type->dtype, record[0].at);
    if (m->mask) operands[at] = along(c, b, m->mask, n);
    Value *v =
        ir_emit(b, OP_GATHER, operands, first->n_operands, (Attrs){ first->attrs, first->n_attrs }, all);
    if (kernel_indexed_run(c->f, &c->ranges, v->def, &axis) > 1 && axis == t->rank) return v;
    ir_erase(v->def);
    return NULL;
}

/* Gathers three words one behind the other, before the first one, as two accesses of a lane for each record:
 * no element moves to another lane. */
static bool side_by_side(Joiner *c, Instr *first, const Field *record)
{
    const MemParts *m = &record[0].mem;
    const Type *t = m->idx[m->rank - 1]->type;
    Value *at[GATHERED_WORDS], **operands = arena_array(&c->s->arena, Value *, (size_t)first->n_operands);
    Builder b = ir_before(first);
    b.loc = first->loc;
    for (int k = 0; k < GATHERED_WORDS; k++)
        at[k] = ir_splat(&b, ir_const_int(&b, t->dtype, record[k].at), t->rank, t->shape);
    for (int k = 0; k < GATHERED_WORDS; k++) {
        Instr *i = record[k].gather;
        for (int j = 0; j < i->n_operands; j++) operands[j] = ir_operand(i, j);
        operands[m->rank] = at[k];
        Value *v = ir_emit(
            &b, OP_GATHER, operands, i->n_operands, (Attrs){ i->attrs, i->n_attrs }, ir_result(i)->type);
        ir_set_name(v, ir_result(i)->name);
        ir_replace(ir_result(i), v);
    }
    return true;
}

static bool join(Joiner *c, Instr *first, const Field *record, int n)
{
    if (n == GATHERED_WORDS) return side_by_side(c, first, record);
    Builder b = ir_before(first);
    Value *whole = joined(c, first, record, n, &b);
    if (!whole) return false;
    const Type *t = ir_result(first)->type;
    int64_t one[TILE_MAX_RANK];
    for (int k = 0; k < t->rank; k++) one[k] = t->shape[k];
    one[t->rank] = 1;
    for (int k = 0; k < n; k++) {
        Value *v = ir_op(&b, OP_SLICE, type_tile(c->s, t->dtype, t->rank + 1, one),
            ATTRS(a_int(ATTR_AXIS, t->rank), a_int(ATTR_START, k)), whole);
        ir_replace(ir_result(record[k].gather), ir_op(&b, OP_RESHAPE, t, NO_ATTRS, v));
    }
    return true;
}

bool layouter_join_gathers(void *user)
{
    const Layouter *l = user;
    Joiner c = { .s = l->s, .f = l->f, .p = l->p };
    bool any = false;
    if (kernel_skips(c.p, PASS_JOIN_GATHERS) || c.p->producer_warps || c.p->cluster > 1) return false;
    ir_walk(c.f->body, collect, &c);
    for (size_t k = 0; k < c.fields.len; k++) {
        Field record[MOST_GATHERS];
        int n = c.fields.data[k].gather ? record_of(&c, k, record) : 0;
        if (n < 2 || !join(&c, c.fields.data[k].gather, record, n)) continue;
        for (size_t i = 0; i < c.fields.len; i++)
            for (int j = 0; j < n; j++)
                if (c.fields.data[i].gather == record[j].gather) c.fields.data[i].gather = NULL;
        for (int j = 0; j < n; j++) ir_erase(record[j].gather);
        any = true;
    }
    ir_drop_unused(c.f->body); /* indices of gathers that were not joined */
    return any;
}
