/* components.c: records of a few numbers, as points, quaternions and small matrices are, whose components the
 * kernel takes one by one.
 *
 *   %x = load X[%i, 0, 0] : f32[128, 4, 4]             a lane has all of a matrix
 *   %a = slice %x {axis = 1, start = 2} : [128, 1, 4]  moves nothing, nor does what is taken of it
 *
 * A layout for coalesced vectors alone would give the components of a record to several lanes, and each of
 * them that is taken would go through shared memory. Lanes with whole records read and write the same sectors
 * with a few more instructions; the records of a warp lie side by side.
 *
 * Requires: a tile that is loaded or stored, or taken from one, or whose axes have more than two positions
 * (halves of other tiles follow each other by exchanges); records of at most 64 elements and 256 bytes; a
 * record for each lane at least. Keeps: values; the order of sums changes with the layout. */
#include "passes/kernel/layout/groups.h"

enum { MOST_ELEMENTS = 64, MOST_BYTES = 256 };

void group_note_component(Layouter *c, const Instr *i)
{
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    const Value *whole = i->op == OP_SLICE ? ir_operand(i, 0) : ir_result(i),
                *part = i->op == OP_SLICE ? ir_result(i) : ir_operand(i, 0);
    if (group_takes(whole) && part->type->kind == TYPE_TILE && part->type->shape[axis] == 1)
        group_of(c, whole)->components |= 1u << axis;
}

/* The group of the value, or of what was converted to it by this pass, whose values are in no group; NULL. */
static const Group *group_behind(Layouter *c, const Value *v)
{
    while (v->id >= c->n && v->def && v->def->op == OP_CONVERT) v = ir_operand(v->def, 0);
    return v->id < c->n ? group_of(c, v) : NULL;
}

static int64_t record_of(Layouter *, const Group *, int depth);

/* The elements of a record that is put together of components which are parts of other records themselves, as
 * the second of two transforms of a block does; 1: there are none, or too many. */
static int64_t record_joined(Layouter *c, const Group *g, int depth)
{
    const Instr *i = g->moved;
    if (!i || i->op != OP_CONCAT || i->n_operands != ir_result(i)->type->shape[ir_attr_int(i, ATTR_AXIS, 0)])
        return 1;
    int64_t n = record_of(c, group_behind(c, ir_operand(i, 0)), depth + 1) * i->n_operands;
    return n <= MOST_ELEMENTS && n * g->elem_bytes <= MOST_BYTES ? n : 1;
}

/* The elements of a record, all behind the first axis of which components are taken; 1: there are none.
 * Reshapes keep records, and what is taken of them is in the lane that has them. */
static int64_t record_of(Layouter *c, const Group *g, int depth)
{
    enum { MOST_DEPTH = 4 };
    int64_t n = 1;
    if (!g || g->mma || g->ordered || depth > MOST_DEPTH) return 1;
    if (g->components) {
        int first = 0;
        while (!(g->components >> first & 1)) first++;
        for (int a = first; a < g->rank; a++) n *= g->box[a];
        if (g->box[first] <= 2 && !g->access_bytes) return 1;
        int64_t joined = record_joined(c, g, depth);
        return joined > n ? joined : n;
    }
    const Instr *i = g->moved;
    if (i && i->op == OP_SLICE && ir_result(i)->type->shape[ir_attr_int(i, ATTR_AXIS, 0)] == 1) {
        int64_t of = ir_operand(i, 0)->type->shape[ir_attr_int(i, ATTR_AXIS, 0)];
        n = record_of(c, group_behind(c, ir_operand(i, 0)), depth + 1);
        return n % of ? 1 : n / of;
    }
    if (g->reshape) n = record_of(c, group_behind(c, ir_operand(g->reshape, 0)), depth + 1);
    if (n == 1 && g->reshape_to) n = record_of(c, group_behind(c, ir_result(g->reshape_to)), depth + 1);
    return n;
}

/* The first of the last axes that make up a record, of which there is one for each lane at least; -1: none.
 */
static int record_axis(Layouter *c, const Group *g, int rank, const int64_t *shape)
{
    int64_t record = record_of(c, g, 0), n = 1, records = 1;
    int first = rank;
    if (record < 2 || record > MOST_ELEMENTS || record * g->elem_bytes > MOST_BYTES) return -1;
    while (first > 0 && n < record) n *= shape[--first];
    for (int a = 0; a < first; a++) records *= shape[a];
    return n == record && records >= c->p->target->wave ? first : -1;
}

/* The bytes that a lane has at a time of what an operation loads or stores: an element, or a row of fewer
 * than 16 bytes. Of rows that are records it may have several, so that what all of them begin at multiples of
 * counts. */
static void note_widest(void *user, Instr *i)
{
    enum { VECTOR = 16, WORD = 4 };
    Layouter *c = user;
    MemParts m;
    const Value *v = NULL;
    if ((i->op == OP_LOAD || i->op == OP_STORE) && ir_mem_parts(i, &m)) v = m.result ? m.result : m.values[0];
    if (!v || v->id >= c->n || !group_takes(v)) return;
    const Type *t = v->type;
    int64_t elem = dtype_bytes(t->dtype), row = t->rank > 1 ? t->shape[t->rank - 1] * elem : elem;
    bool record = row < VECTOR && row > elem;
    if (type_elements(t) * elem <= c->p->target->wave * (record ? row : elem)) return;
    bool whole = record && record_axis(c, group_of(c, v), t->rank, t->shape) >= 0;
    if (record) elem = whole ? range_gcd(row, VECTOR) : VECTOR;
    if (whole && WORD / range_gcd(row, WORD) > c->together) c->together = (int)(WORD / range_gcd(row, WORD));
    if (elem > c->widest) c->widest = (int)elem;
}

/* How many records that lie side by side a lane has, along the axis in front of them. Records of bytes or of
 * 16 bits: as many as have 16 bytes of the widest tile, or 32 where they have no whole words else. */
static int32_t records_together(Layouter *c, const Group *g, int rank, const int64_t *shape, int first)
{
    enum { VECTOR = 16 };
    int64_t records = 1, threads = (int64_t)c->p->target->wave * c->p->warps;
    if (g->access_elem < 1 || g->access_elem > 2 || first < 1 || c->p->target->kind != TARGET_CUDA) return 1;
    if (!c->widest) ir_walk(c->f->body, note_widest, c);
    for (int a = 0; a < first; a++) records *= shape[a];
    int32_t n = c->widest ? VECTOR / c->widest : 1;
    if (n < c->together) n = c->together * c->widest <= 2 * VECTOR ? c->together : 1;
    while (n > 1 && (shape[first - 1] % n || records < n * threads)) n /= 2;
    return n < c->together ? 1 : n;
}

/* Whether lanes have neighbouring records along the axis. */
static bool has_neighbours(const Layout *l, int axis)
{
    int32_t at[TILE_MAX_RANK];
    for (uint32_t r = 0; r < layout_regs(l); r++) {
        layout_element(l, r, 0, 0, 0, at);
        if (at[axis] == 1) return true;
    }
    return false;
}

/* The layout of records that are sums of neighbouring ones, as of pairs of pixels, in the lanes that have
 * these; NULL: there is none. */
static const Layout *summed_records(Layouter *c, Group *g, int rank, const int64_t *shape)
{
    const Instr *i = g->reduced;
    if (!i || g->access_bytes || g->visiting || ir_result(i)->type->rank != rank) return NULL;
    for (int a = 0; a < rank; a++)
        if (ir_result(i)->type->shape[a] != shape[a]) return NULL;
    Value *of = ir_operand(i, 0);
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    if (!group_takes_now(c, of) ||
        record_axis(c, group_of(c, of), of->type->rank, of->type->shape) != axis + 1)
        return NULL;
    g->visiting = true;
    group_assign(c, of);
    g->visiting = false;
    const Layout *l = of->type->layout ? layouts_get(&c->p->layouts, of->type) : NULL;
    return l && has_neighbours(l, axis) ? layout_slice(&c->s->arena, l, axis, false) : NULL;
}

/* The layout of records of another shape that are loaded or stored, or are in turn made of such that lie side
 * by side, which the group's records are by a reshape, as those of a pack of programs; NULL: there is none.
 */
static const Layout *reshaped_records(Layouter *c, Group *g, int rank, const int64_t *shape)
{
    int32_t tile[TILE_MAX_RANK];
    for (int a = 0; a < rank; a++) tile[a] = (int32_t)shape[a];
    for (int k = 0; k < 2 && !g->access_bytes && !g->visiting; k++) {
        const Instr *i = k ? g->reshape_to : g->reshape;
        Value *own = !i ? NULL : k ? ir_operand(i, 0) : ir_result(i);
        Value *other = !i ? NULL : k ? ir_result(i) : ir_operand(i, 0);
        bool same = own && own->type->rank == rank && group_takes_now(c, other);
        for (int a = 0; a < rank && same; a++) same = own->type->shape[a] == shape[a];
        int first = same ? record_axis(c, group_of(c, other), other->type->rank, other->type->shape) : -1;
        bool accessed = same && group_of(c, other)->access_bytes;
        if (first < 0 || (!accessed && (k || first < 1))) continue;
        g->visiting = true;
        group_assign(c, other);
        g->visiting = false;
        if (!other->type->layout) continue;
        if (!accessed && !has_neighbours(layouts_get(&c->p->layouts, other->type), first - 1)) continue;
        const Layout *l = layout_reshape(&c->s->arena, layouts_get(&c->p->layouts, other->type), rank, tile);
        if (l) return l;
    }
    return NULL;
}

/* The layout of components in the lanes that have neighbouring records; NULL: the group has no such, or is
 * accessed itself. */
static const Layout *where_records_are(Layouter *c, Group *g, int rank, const int64_t *shape)
{
    const Instr *i = g->moved;
    if (!i || i->op != OP_SLICE || g->mma || g->ordered || g->access_bytes || g->visiting) return NULL;
    Value *of = ir_operand(i, 0);
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    bool same = ir_result(i)->type->rank == rank && ir_result(i)->type->shape[axis] == 1;
    for (int a = 0; a < rank && same; a++) same = ir_result(i)->type->shape[a] == shape[a];
    if (!same || !group_takes_now(c, of)) return NULL;
    int first = record_axis(c, group_of(c, of), rank, of->type->shape);
    if (first < 1 || first > axis) return NULL;
    g->visiting = true;
    group_assign(c, of);
    g->visiting = false;
    const Layout *l = of->type->layout ? layouts_get(&c->p->layouts, of->type) : NULL;
    return l && has_neighbours(l, first - 1) ? layout_slice(&c->s->arena, l, axis, true) : NULL;
}

const Layout *group_of_records(Layouter *c, Group *g, int rank, const int64_t *shape)
{
    int32_t tile[TILE_MAX_RANK], per[TILE_MAX_RANK], lanes[TILE_MAX_RANK], warps[TILE_MAX_RANK],
        order[TILE_MAX_RANK];
    int first = c->p->cluster > 1 ? -1 : record_axis(c, g, rank, shape), left_lanes = c->p->target->wave,
        left_warps = c->p->warps;
    if (first < 0) return c->p->cluster > 1 ? NULL : where_records_are(c, g, rank, shape);
    const Layout *given = reshaped_records(c, g, rank, shape);
    if (!given) given = summed_records(c, g, rank, shape);
    if (given) return given;
    for (int k = 0; k < rank; k++) {
        int a = order[k] = rank - 1 - k;
        bool part = a >= first;
        tile[a] = (int32_t)shape[a];
        per[a] = lanes[a] = warps[a] = 1;
        while (part && tile[a] % (2 * per[a]) == 0) per[a] *= 2;
        if (a == first - 1) per[a] = records_together(c, g, rank, shape, first);
        while (!part && left_lanes > 1 && per[a] * lanes[a] < tile[a]) {
            lanes[a] *= 2;
            left_lanes /= 2;
        }
        while (!part && left_warps % 2 == 0 && per[a] * lanes[a] * warps[a] < tile[a]) {
            warps[a] *= 2;
            left_warps /= 2;
        }
    }
    warps[0] *= left_warps; /* what is left repeats elements */
    return layout_blocked(&c->s->arena, rank, tile, per, lanes, warps, order);
}

bool group_accesses_well(Layouter *c, const Group *g, const Layout *l)
{
    enum { GOOD_USE = 90 }; /* percent of the bytes of the sectors that a warp accesses */
    return !g->access_bytes ||
           layouter_sector_use(c, l, g->unit, g->access_elem, g->access_width) >= GOOD_USE;
}

/* Whether what the permutation makes of a group's value are records. */
static bool gives_records(Layouter *c, const Instr *permute)
{
    const Type *t = permute ? ir_result(permute)->type : NULL;
    return t && record_axis(c, group_of(c, ir_result(permute)), t->rank, t->shape) >= 0;
}

/* The operation that leads from the group to records by a permutation, perhaps behind a reshape, as rows of
 * pixels become blocks; NULL: there is none. */
static const Instr *toward_records(Layouter *c, const Group *g)
{
    if (gives_records(c, g->permute_to)) return g->permute_to;
    const Instr *i = g->reshape_to;
    const Group *to = i ? group_of(c, ir_result(i)) : NULL;
    return to && to != g && !to->access_bytes && gives_records(c, to->permute_to) ? i : NULL;
}

const Layout *group_before_records(Layouter *c, Group *g, int rank, const int32_t *tile)
{
    if (g->mma || g->ordered || g->unfit || g->visiting || g->components || c->p->cluster > 1) return NULL;
    const Instr *i = toward_records(c, g);
    const Type *own = i ? ir_operand(i, 0)->type : NULL;
    bool same = own && own->rank == rank;
    for (int a = 0; a < rank && same; a++) same = own->shape[a] == tile[a];
    if (!same) return NULL;
    g->visiting = true;
    group_assign(c, ir_result(i));
    g->visiting = false;
    if (!ir_result(i)->type->layout) return NULL;
    const Layout *l = layouts_get(&c->p->layouts, ir_result(i)->type);
    int32_t back[TILE_MAX_RANK];
    for (int a = 0; a < rank && i->op == OP_PERMUTE; a++) back[ir_attr(i, ATTR_ORDER)->v[a]] = a;
    l = i->op == OP_PERMUTE ? layout_permute(&c->s->arena, l, back)
                            : layout_reshape(&c->s->arena, l, rank, tile);
    return l && group_accesses_well(c, g, l) ? l : NULL;
}

bool group_is_behind_records(Layouter *c, const Group *g)
{
    const Instr *i = g->moved && g->moved->op == OP_RESHAPE ? ir_operand(g->moved, 0)->def : g->moved;
    if (!i || i->op != OP_PERMUTE || !group_takes_now(c, ir_operand(i, 0)) || c->p->cluster > 1) return false;
    const Type *t = ir_operand(i, 0)->type;
    return record_axis(c, group_of(c, ir_operand(i, 0)), t->rank, t->shape) >= 0;
}

/* Whether the bytes of a record are no vector, so that rows of them go through shared memory as one piece, in
 * which it does not matter where elements come from (row_block.c). */
static bool is_odd_record(const Group *g, int64_t elements)
{
    int64_t bytes = elements * g->elem_bytes;
    return g->elem_bytes <= 2 && elements > 1 && elements <= MOST_ELEMENTS && (bytes & (bytes - 1)) != 0;
}

/* The layout of a join of whole tiles along the last axis in the lanes that hold these tiles; NULL: there is
 * none. */
static const Layout *joined_in_place(Layouter *c, const Instr *join)
{
    int axis = (int)ir_attr_int(join, ATTR_AXIS, 0);
    if (axis != ir_result(join)->type->rank - 1 ||
        !is_odd_record(group_of(c, ir_result(join)), ir_result(join)->type->shape[axis]))
        return NULL;
    for (int k = 0; k < join->n_operands; k++) {
        const Value *v = ir_operand(join, k);
        if (!group_takes_now(c, v) || group_of(c, v)->mma) return NULL;
        group_assign(c, ir_operand(join, k));
        if (!v->type->layout || v->type != ir_operand(join, 0)->type) return NULL;
    }
    const Layout *part = layouts_get(&c->p->layouts, ir_operand(join, 0)->type);
    return layout_concat(&c->s->arena, part, axis, join->n_operands);
}

const Layout *group_of_joined_records(Layouter *c, Group *g, int rank, const int32_t *tile)
{
    const Instr *i = g->moved;
    const Layout *l = NULL;
    if (!i || g->mma || g->ordered || g->visiting || c->p->cluster > 1 || ir_result(i)->type->rank != rank ||
        (i->op != OP_CONCAT && i->op != OP_RESHAPE))
        return NULL;
    for (int a = 0; a < rank; a++)
        if (ir_result(i)->type->shape[a] != tile[a]) return NULL;
    g->visiting = true;
    if (i->op == OP_CONCAT && g->components) l = joined_in_place(c, i);
    if (i->op == OP_RESHAPE) {
        Value *from = ir_operand(i, 0);
        const Instr *join = group_of(c, from)->moved;
        if (join && join->op == OP_CONCAT && group_of(c, from)->components) group_assign(c, from);
        if (group_of(c, from)->joined && from->type->layout)
            l = layout_reshape(&c->s->arena, layouts_get(&c->p->layouts, from->type), rank, tile);
    }
    g->visiting = false;
    g->joined = l != NULL;
    return l;
}

const Layout *group_beside_records(Layouter *c, const Instr *load)
{
    enum { PIECES = 4 }; /* with more of them, each takes a line of the cache for every lane */
    const Type *t = ir_result(load)->type;
    const Group *g = group_of(c, ir_result(load));
    int64_t shape[TILE_MAX_RANK];
    int32_t tile[TILE_MAX_RANK], order[TILE_MAX_RANK];
    int width = kernel_access_bytes(c->f, load), bytes = dtype_bytes(t->dtype), record = bytes;
    for (int a = 0; a < t->rank; a++) {
        shape[a] = tile[a] = (int32_t)t->shape[a];
        order[a] = t->rank - 1 - a;
    }
    int first = c->p->cluster > 1 ? -1 : record_axis(c, g, t->rank, shape);
    if (first < 0) return NULL;
    for (int a = first; a < t->rank; a++) record *= tile[a];
    return record <= PIECES * width ? NULL
                                    : layout_coalesced(&c->s->arena, t->rank, tile, order, bytes, width,
                                          c->p->target->wave, c->p->warps);
}
