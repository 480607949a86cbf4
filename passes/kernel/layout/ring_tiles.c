/* ring_tiles.c: of column-strips: tiles that come through rings behind a product (epilogue-loads), as strips.
 *
 *   producer:   ring_put %ra, R {count = 4};  ring_put %ra, S {count = 4}
 *   consumers:  %r = ring_read %ra {count = 4};  %s = ring_read %ra {count = 4}
 *
 * becomes, where strips read first the first columns of both,
 *
 *   producer:   ring_put %ra, R[.., %j] {count = 1};  ring_put %ra, S[.., %j] {count = 1};  ..
 *   consumers:  ring_read %ra {count = 1};  ring_read %ra {count = 1};  ..
 *
 * Both roles go through the same parts in the same order, before and behind, so that nobody waits for what
 * the other one brings later. This asks that no other operation on a ring lies between the reads, and none
 * between their puts, which lie in one block. */
#include "passes/kernel/layout/ring_tiles.h"
#include <string.h>

/* Whether the instruction is an operation on a ring, or holds one. */
static bool touches_rings(const Instr *i)
{
    if (op_family(i->op) == OPS_RING) return true;
    for (int k = 0; k < i->n_blocks; k++)
        for (const Instr *in = i->blocks[k]->first; in; in = in->next)
            if (touches_rings(in)) return true;
    return false;
}

/* The instructions of the block from `from` on that `is_one` accepts. False: other operations on rings lie
 * between them. */
static bool collect(Arena *a, Instr *from, bool (*is_one)(const Instr *), InstrList *out)
{
    bool ended = false;
    for (Instr *i = from; i; i = i->next) {
        if (is_one(i)) {
            if (ended) return false;
            vec_push(a, out, i);
        } else ended |= out->len && touches_rings(i);
    }
    return true;
}

static bool is_read(const Instr *i) { return i->op == OP_RING_READ; }

/* A put of a plain window whose parts fill a stage each. */
static bool is_put(const Instr *i) { return i->op == OP_RING_PUT && ir_attr(i, ATTR_COUNT); }

static bool is_plain(const Instr *put)
{
    return (put->n_operands == 2 + ir_operand(put, 1)->type->rank || ir_attr(put, ATTR_IM2COL)) &&
           !ir_attr(put, ATTR_STEPS) && !ir_attr(put, ATTR_ORDER);
}

/* The first put of a tile's parts, in the block or in a block of it. */
static Instr *first_put(const Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        if (is_put(i)) return i;
        for (int k = 0; k < i->n_blocks; k++) {
            Instr *in = first_put(i->blocks[k]);
            if (in) return in;
        }
    }
    return NULL;
}

static int count_in(const Block *b, bool (*is_one)(const Instr *))
{
    int n = 0;
    for (const Instr *i = b->first; i; i = i->next) {
        n += is_one(i);
        for (int k = 0; k < i->n_blocks; k++) n += count_in(i->blocks[k], is_one);
    }
    return n;
}

bool ring_tiles_find(Arena *a, Instr *behind, RingTiles *t)
{
    *t = (RingTiles){ 0 };
    const Block *consumers = behind->block;
    while (consumers->parent && consumers->parent->op != OP_ROLES) consumers = consumers->parent->block;
    if (!consumers->parent || !collect(a, behind, is_read, &t->reads)) return false;
    const Instr *roles = consumers->parent;
    Instr *first = first_put(roles->blocks[0]);
    if (!first || roles->n_blocks != 2 || !collect(a, first, is_put, &t->puts)) return false;
    /* All that come so, as their order tells which put brings which tile. */
    size_t n = t->reads.len;
    if (!n || t->puts.len != n || count_in(roles->blocks[0], is_put) != (int)n ||
        count_in(consumers, is_read) != (int)n)
        return false;
    for (size_t k = 0; k < n; k++)
        if (ir_operand(t->reads.data[k], 0) != ir_operand(t->puts.data[k], 0) || !is_plain(t->puts.data[k]))
            return false;
    return true;
}

int ring_tiles_index(const RingTiles *t, const Value *v)
{
    for (size_t k = 0; k < t->reads.len; k++)
        if (t->reads.data[k] == v->def) return (int)k;
    return -1;
}

static int64_t stage_columns(const Instr *read)
{ return ir_result(read)->type->shape[1] / ir_attr_int(read, ATTR_COUNT, 1); }

bool ring_tiles_fit(const Instr *read, int64_t columns) { return columns % stage_columns(read) == 0; }

Attrs ring_tiles_attrs(Arena *a, const Instr *read, int64_t columns)
{
    Attr *to = arena_array(a, Attr, (size_t)read->n_attrs);
    for (int k = 0; k < read->n_attrs; k++) {
        to[k] = read->attrs[k];
        if (to[k].key == ATTR_COUNT) to[k].i = columns / stage_columns(read);
    }
    return (Attrs){ to, read->n_attrs };
}

/* The tensor's axis of the columns: the last one of the window's tile. */
static int columns_axis(const Instr *put)
{
    const Attr *whole = ir_attr(put, ATTR_EXTENTS);
    int axis = -1;
    for (int a = 0; a < whole->n; a++)
        if (whole->v[a] != -1) axis = a;
    return axis;
}

static void put_strip(Session *s, Builder *b, const Instr *put, int64_t start, int64_t columns)
{
    const Attr *whole = ir_attr(put, ATTR_EXTENTS);
    int axis = columns_axis(put);
    int64_t extents[TILE_MAX_RANK];
    Value *operands[2 + 2 * TILE_MAX_RANK];
    memcpy(extents, whole->v, (size_t)whole->n * sizeof *extents);
    extents[axis] = columns;
    for (int k = 0; k < put->n_operands; k++) operands[k] = ir_operand(put, k);
    b->loc = put->loc;
    Value *at = operands[2 + axis];
    if (start) operands[2 + axis] = ir_bin(b, OP_ADD, at, ir_const_int(b, at->type->dtype, start));
    Instr *part =
        ir_build(b, OP_RING_PUT, operands, put->n_operands, (Attrs){ put->attrs, put->n_attrs }, NULL, 0);
    ir_set_attr(s, part, a_ints(ATTR_EXTENTS, extents, whole->n));
    ir_set_attr(s, part, a_int(ATTR_COUNT, ir_attr_int(put, ATTR_COUNT, 1) * columns / whole->v[axis]));
}

void ring_tiles_put(Session *s, const RingTiles *t, const RingStrip *strips, size_t n, int64_t columns)
{
    /* Before the last of them, where the offsets of all are known. */
    Builder b = ir_before(t->puts.data[t->puts.len - 1]);
    for (size_t k = 0; k < n; k++) put_strip(s, &b, t->puts.data[strips[k].tile], strips[k].start, columns);
    for (size_t k = 0; k < t->puts.len; k++) ir_erase(t->puts.data[k]);
}
