/* pack_records.c: of pack: the records that a program loads, each of which lies in a lane (components.c of
 * the layouts). Warps beyond those that have records would repeat them. */
#include "passes/tile/program/pack.h"

enum {
    MOST_RECORD = 64, /* elements of a record that a lane has (kernel/layout/components.c) */
    FIELDS = 3,       /* of narrow elements, which are joined (kernel/layout/join_loads.c) */
    NARROW = 2,       /* bytes */
};

static void note(int64_t *least, int64_t n)
{
    if (!*least || n < *least) *least = n;
}

/* A slice of single components of a loaded tile. */
static void note_component(int64_t *least, const Instr *i)
{
    const Value *whole = ir_operand(i, 0), *v = whole;
    int64_t n = 1;
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    if (v->type->kind != TYPE_TILE) return;
    if (v->def && v->def->op == OP_RESHAPE) v = ir_operand(v->def, 0);
    if (!v->def || v->def->op != OP_LOAD || ir_result(i)->type->shape[axis] != 1 ||
        whole->type->shape[axis] <= 2) /* halves follow each other by exchanges */
        return;
    for (int a = 0; a < axis; a++) n *= whole->type->shape[a];
    if (type_elements(whole->type) / n <= MOST_RECORD) note(least, n);
}

int64_t pack_components(const Instr *i)
{
    MemParts m;
    int64_t at;
    if (i->op != OP_LOAD || !ir_mem_parts(i, &m) || m.token || !m.rank || m.result->type->kind != TYPE_TILE ||
        dtype_bytes(m.result->type->dtype) > NARROW)
        return 1;
    bool one = ir_attr(i, ATTR_EXTENTS)->v[m.rank - 1] == -1 && ir_is_const(m.idx[m.rank - 1], &at);
    return one && at >= FIELDS - 1 && at < MOST_RECORD ? at + 1 : 1;
}

static void count(void *least, Instr *i)
{
    if (i->op == OP_SLICE) note_component(least, i);
    if (pack_components(i) > 1) note(least, type_elements(ir_result(i)->type));
}

int64_t pack_fewest_records(const Func *f)
{
    int64_t least = 0;
    ir_walk(f->body, count, &least);
    return least;
}
