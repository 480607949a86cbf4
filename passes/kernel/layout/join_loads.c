/* join-loads: loads of single positions beside each other become one load of all of them. A step of layout.
 *
 *   %a = load X[%i, 0] : [128]  ->  %c = load X[%i, 0] : [128, 2]
 *   %b = load X[%i, 1] : [128]      %a = reshape (slice %c {axis = 1, start = 0}) : [128]
 *                                   %b = reshape (slice %c {axis = 1, start = 1}) : [128]
 *
 * Loads that have all of the axes behind another one are joined along that axis in the same way.
 *
 * The fields of records, the parts of complex numbers, say, or a gate beside its value, that a kernel loads
 * one by one would be read by as many instructions, each of which touches every sector of the records. A lane
 * that has a whole record (components.c) reads it by vectors.
 *
 * Proof. The tensor is only read, so that any order of its loads gives the same. The windows differ in a
 * constant along one axis alone, and these constants follow each other. An element out of range has the pad
 * in both forms, because the joined load is masked.
 *
 * Requires: loads of one block, of tiles with a record for each lane at least; records of 8 to 64 bytes along
 * the contiguous axis (of narrower ones a lane would load less at a time than it stores of results, which
 * then change lanes), or three and more fields of 1 or 2 bytes, of which a lane has several side by side; 128
 * bytes at most in all; no producer warps and no cluster. Keeps: results. */
#include "passes/kernel/layout/groups.h"
#include "passes/kernel/layout/windows.h"

enum { MOST_LOADS = 16, LEAST_PACKED = 3 /* fields of 1 or 2 bytes */ };
enum { LEAST_RECORD = 8, MOST_VECTORS = 64, MOST_RECORD = 128 }; /* bytes of a record */

typedef struct Field {
    Instr *load;
    int64_t at;
    int axis;       /* of the tensor, of which it takes the position `at` */
    int64_t inside; /* the elements of a position: those of the axes behind */
} Field;

typedef struct Joiner {
    Session *s;
    Func *f;
    KernelPlan *p;
    int depth; /* of the axis along which loads are joined: as many before the contiguous one */
    VEC(Field) fields;
} Joiner;

/* A load of a single position along the axis, of a tensor that is only read. */
static bool field(const Joiner *c, Instr *i, Field *x)
{
    MemParts m;
    *x = (Field){ .load = i, .inside = 1 };
    if (i->op != OP_LOAD || ir_attr(i, ATTR_STEPS) || ir_attr(i, ATTR_ORDER) || kernel_kept(i) ||
        !ir_mem_parts(i, &m) || m.token || m.mask || c->f->params[m.param].kind != PARAM_IN)
        return false;
    const Type *t = m.result->type;
    int unit = kernel_unit_axis(c->f, i, NULL);
    x->axis = unit - c->depth;
    if (t->kind != TYPE_TILE || t->dtype == DT_BOOL || t->rank == TILE_MAX_RANK || x->axis < 0) return false;
    if (c->depth) x->inside = window_record(c->f, i, x->axis);
    if (!x->inside || type_elements(t) / x->inside < c->p->target->wave) return false;
    for (int a = 0; a < m.rank; a++)
        if (m.idx[a]->type->kind != TYPE_SCALAR) return false;
    return c->f->params[m.param].stride[unit] == 1 && ir_attr(i, ATTR_EXTENTS)->v[x->axis] == -1 &&
           ir_is_const(m.idx[x->axis], &x->at);
}

static void collect(void *user, Instr *i)
{
    Joiner *c = user;
    Field x;
    if (field(c, i, &x)) vec_push(&c->s->arena, &c->fields, x);
}

/* The fields of the records that the first one is of: those behind it in its block, by positions. The number
 * of them; 0: one is missing between them, or they are too many or too few. */
static int record_of(const Joiner *c, size_t first, Field *record)
{
    const Field *a = &c->fields.data[first];
    int n = 0;
    int64_t bytes = a->inside * dtype_bytes(ir_result(a->load)->type->dtype);
    for (size_t k = first; k < c->fields.len; k++) {
        Field x = c->fields.data[k];
        if (!x.load || x.load->block != a->load->block || x.axis != a->axis ||
            !window_beside(a->load, x.load, a->axis))
            continue;
        if (n == MOST_LOADS || (n + 1) * bytes > (c->depth ? MOST_RECORD : MOST_VECTORS)) return 0;
        int j = n++;
        for (; j > 0 && record[j - 1].at > x.at; j--) record[j] = record[j - 1];
        record[j] = x;
    }
    for (int k = 1; k < n; k++)
        if (record[k].at != record[k - 1].at + 1) return 0;
    bool packed = a->inside == 1 && bytes <= 2 && n >= LEAST_PACKED;
    return n * bytes < LEAST_RECORD && !packed ? 0 : n;
}

/* Makes the records' load before `first`, and the fields of it. */
static void join(Joiner *c, Instr *first, const Field *record, int n)
{
    const Instr *low = record[0].load;
    const Type *t = ir_result(low)->type;
    const Attr *e = ir_attr(low, ATTR_EXTENTS);
    int64_t one[TILE_MAX_RANK], all[TILE_MAX_RANK];
    int axis = 0, along = record[0].axis;
    for (int k = 0; k < along; k++) axis += e->v[k] >= 0;
    for (int k = 0; k <= t->rank; k++) {
        one[k] = k == axis ? 1 : t->shape[k - (k > axis)];
        all[k] = k == axis ? n : one[k];
    }
    Builder b = ir_before(first);
    Value **operands = arena_array(&c->s->arena, Value *, (size_t)low->n_operands);
    for (int k = 0; k < low->n_operands; k++) operands[k] = ir_operand(first, k); /* defined before it */
    operands[1 + along] = ir_const_int(&b, operands[1 + along]->type->dtype, record[0].at);
    Value *whole = ir_emit(&b, OP_LOAD, operands, low->n_operands, window_joined_attrs(c->s, low, along, n),
        type_tile(c->s, t->dtype, t->rank + 1, all));
    for (int k = 0; k < n; k++) {
        Value *v = ir_op(&b, OP_SLICE, type_tile(c->s, t->dtype, t->rank + 1, one),
            ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_START, k)), whole);
        ir_replace(ir_result(record[k].load), ir_op(&b, OP_RESHAPE, t, NO_ATTRS, v));
    }
}

/* Joins loads along one axis of their tensors. */
static bool join_along(Joiner *c)
{
    bool any = false;
    c->fields.len = 0;
    ir_walk(c->f->body, collect, c);
    for (size_t k = 0; k < c->fields.len; k++) {
        Field record[MOST_LOADS];
        int n = c->fields.data[k].load ? record_of(c, k, record) : 0;
        if (n < 2) continue;
        join(c, c->fields.data[k].load, record, n);
        for (size_t i = 0; i < c->fields.len; i++)
            for (int j = 0; j < n; j++)
                if (c->fields.data[i].load == record[j].load) c->fields.data[i].load = NULL;
        for (int j = 0; j < n; j++) ir_erase(record[j].load);
        any = true;
    }
    return any;
}

bool kernel_join_loads(Session *s, Func *f, KernelPlan *p)
{
    Joiner c = { .s = s, .f = f, .p = p };
    bool any = false;
    if (kernel_skips(p, PASS_JOIN_LOADS) || p->producer_warps || p->cluster > 1) return false;
    for (; c.depth < TILE_MAX_RANK; c.depth++) any |= join_along(&c);
    return any;
}
