/* family.c: of layout: chooses one family of layouts for a group of values, and derives each value's own
 * layout from it. */
#include "passes/kernel/layout/groups.h"

/* The number of fragments of the wave that has most. */
static int64_t busiest(const LayoutMmaInfo *info, const int64_t *box, int down, int across)
{
    int64_t m = (box[0] + info->m - 1) / info->m, n = (box[1] + info->n - 1) / info->n;
    return (m + down - 1) / down * ((n + across - 1) / across);
}

/* Warps of the rows of stacked products: as many as have whole products, or equal parts of one, and the rest
 * side by side. */
static void split_stacked(Group *g, int w)
{
    int all = g->products * g->height, down = w;
    while (all % down || w % down || (all / down % g->height && g->height % (all / down))) down--;
    g->warps[0] = down;
    g->warps[1] = w / down;
}

void group_split_warps(const KernelPlan *p, Group *g)
{
    const LayoutMmaInfo *info = layout_mma_info(g->kind);
    int w = p->warps / info->warps;
    if (w < 1) w = 1;
    g->warps[0] = g->warps[1] = 1;
    if (g->products) {
        split_stacked(g, w);
        return;
    }
    if (g->rows) {
        int64_t rows = p->target->kind == TARGET_HIP ? (g->box[0] + info->m - 1) / info->m
                       : g->box[0] <= info->m        ? 1
                                                     : w; /* of fragments */
        while (w % 2 == 0 && w > rows && g->box[1] > (int64_t)info->n * g->warps[1]) {
            g->warps[1] *= 2;
            w /= 2;
        }
        g->warps[0] = w;
        return;
    }
    int all = w;
    while (w > 1) {
        int by = w % 2 ? w : 2;
        int64_t m = g->box[0] / g->warps[0], n = g->box[1] / g->warps[1];
        bool down = m >= n && m > info->m;
        g->warps[down ? 0 : 1] *= by;
        w /= by;
    }
    /* AMD: choose another arrangement when it saves the busiest wave a fragment (64 x 224 on 8 waves of 16 x
     * 16: 7 instead of 8). */
    if (p->target->kind != TARGET_HIP) return;
    int64_t most = busiest(info, g->box, g->warps[0], g->warps[1]);
    for (int down = 1; down <= all; down++)
        if (all % down == 0 && busiest(info, g->box, down, all / down) < most) {
            g->warps[0] = down;
            g->warps[1] = all / down;
            most = busiest(info, g->box, down, all / down);
        }
}

CopyLayout kernel_copy_layout(
    Arena *a, const Instr *mem, const Type *view, const LayoutShared *s, int bytes, int wave, int warps)
{
    const Attr *e = ir_attr(mem, ATTR_EXTENTS);
    int32_t tile[TILE_MAX_RANK], order[TILE_MAX_RANK];
    int rank = 0, elem = dtype_bytes(view->dtype);
    for (int k = 0; k < view->rank; k++) tile[k] = (int32_t)view->shape[k];
    const Layout *matrix = layout_coalesced(a, view->rank, tile, s->order, elem, bytes, wave, warps);
    for (int k = 0; e && k < e->n; k++)
        if (e->v[k] != -1) tile[rank++] = (int32_t)e->v[k];
    if (rank <= view->rank) return (CopyLayout){ matrix, matrix };
    const Layout *window = layout_reshape(a, matrix, rank, tile);
    if (window) return (CopyLayout){ window, matrix };
    for (int k = 0; k < rank; k++) order[k] = rank - 1 - k;
    return (CopyLayout){ layout_coalesced(a, rank, tile, order, elem, bytes, wave, warps), NULL };
}

static bool is_tied(const Group *g) { return g->mma || g->access_bytes; }

/* Whether the group is a tied one by another shape, as the programs of a pack are that one load reads. */
static bool is_reshaped_of_tied(Layouter *c, const Group *g)
{ return g->moved && g->moved->op == OP_RESHAPE && is_tied(group_of(c, ir_operand(g->moved, 0))); }

/* Whether no operation of the group itself determines its layout, and some operation of the other group does,
 * or of the group from which that one is reshaped. */
static bool lies_where(Layouter *c, const Group *g, const Group *other)
{
    if (is_tied(g)) return false;
    return is_tied(other) || (is_reshaped_of_tied(c, other) && !is_reshaped_of_tied(c, g));
}

/* Whether a vector gets an axis of extent 1 to be combined with a tile. It is read in the tile's layout then,
 * instead of moved between threads afterwards. */
static bool is_beside(const Value *own, const Value *other, const Group *from)
{
    int64_t n = type_elements(own->type), box = 1;
    int axes = 0;
    for (int a = 0; a < other->type->rank; a++) {
        box *= from->box[a] > 0 ? from->box[a] : 1;
        axes += other->type->shape[a] > 1;
    }
    return own->type->rank == 1 && other->type->rank > 1 && axes <= 1 && type_elements(other->type) == n &&
           box >= 2 * n;
}

/* Whether a reshaped value is only stored. The store brings it into a layout for its accesses itself, mostly
 * by an exchange within warps. */
static bool only_stored(const Value *own, const Group *from)
{
    bool stored = own->uses != NULL && (from->access_bytes > 0 || from->reshape);
    for (const Use *u = own->uses; u; u = u->next) stored &= u->user->op == OP_STORE;
    return stored;
}

/* The layout that a group takes from another group on the other side of a reshape, so that the reshape moves
 * nothing. Examples are a product's result that is reshaped, a tile that is loaded and reshaped, and a vector
 * that becomes a row or a column beside a tile. NULL: there is no such layout, or no reason for it. */
static const Layout *reshaped(Layouter *c, Group *g, int rank, const int32_t *tile)
{
    for (int k = 0; k < 2 && !g->mma && !g->visiting; k++) {
        const Instr *i = k ? g->reshape_to : g->reshape;
        if (!i) continue;
        Value *own = k ? ir_operand(i, 0) : ir_result(i), *other = k ? ir_result(i) : ir_operand(i, 0);
        const Group *from = group_of(c, other);
        bool same =
            own->type->rank == rank &&
            ((from->mma && !from->plain) || (!from->visiting && !g->ordered &&
                                                (lies_where(c, g, from) || is_beside(own, other, from) ||
                                                    (!k && only_stored(own, from)))));
        for (int a = 0; a < rank && same; a++) same = own->type->shape[a] == tile[a];
        if (!same) continue;
        g->visiting = true;
        group_assign(c, other);
        g->visiting = false;
        const Layout *l = other->type->layout ? layout_reshape(&c->s->arena,
                                                    layouts_get(&c->p->layouts, other->type), rank, tile)
                                              : NULL;
        if (l) return l;
    }
    return NULL;
}

/* A product's result of 32-bit elements that is transposed to be stored stays in the lanes that hold it, if
 * they fill whole sectors of memory, as the eight rows of a fragment do. */
static const Layout *transposed(Layouter *c, const Group *g, int rank, const int32_t *tile)
{
    const Instr *i = g->permute, *store = i && ir_result(i)->uses ? ir_result(i)->uses->user : NULL;
    if (!store || g->mma || rank != 2 || ir_use_count(ir_result(i)) != 1 || store->op != OP_STORE)
        return NULL;
    Value *own = ir_result(i), *other = ir_operand(i, 0);
    const Group *from = group_of(c, other);
    const Attr *order = ir_attr(i, ATTR_ORDER);
    int axis;
    kernel_unit_axis(c->f, store, &axis);
    int bytes = dtype_bytes(own->type->dtype);
    if (!from->mma || from->plain || axis < 0 || bytes != 4 || own->type->shape[0] != tile[0] ||
        own->type->shape[1] != tile[1])
        return NULL;
    group_assign(c, other);
    if (!other->type->layout) return NULL;
    const Layout *l = layout_permute(&c->s->arena, layouts_get(&c->p->layouts, other->type),
        (int32_t[]){ (int32_t)order->v[0], (int32_t)order->v[1] });
    return l && layouter_sector_use(c, l, axis, bytes, kernel_access_bytes(c->f, store)) >= 90 ? l : NULL;
}

/* Whether a few results of a reduction go back beside the tile that was reduced: whatever is computed of them
 * on the way to memory would otherwise move there and back. */
static bool returns(Layouter *c, const Group *g)
{
    return g->reduced && g->reshape_to &&
           type_elements(ir_result(g->reduced)->type) <= (int64_t)c->p->warps * c->p->target->wave &&
           group_of(c, ir_result(g->reshape_to)) == group_of(c, ir_operand(g->reduced, 0));
}

/* The result of a reduction is in every thread that holds some of what was reduced. A group of such results
 * that is stored from there in whole sectors stays there, and one of which the CTAs of a cluster combine
 * slices behind the loop: to distribute it among all threads would take shared memory and two barriers. */
static const Layout *where_reduced(Layouter *c, Group *g, int rank, const int32_t *tile)
{
    bool back = returns(c, g);
    const Instr *i = back ? g->reduced : g->dropped;
    const bool rows = c->p->cluster > 1 && !c->p->split_k; /* lie across a cluster */
    if (!i || g->mma || g->ordered || g->unfit || g->visiting || rows || (!g->access_bytes && !g->combined))
        return NULL;
    if (ir_result(i)->type->rank != rank) return NULL;
    for (int a = 0; a < rank; a++)
        if (ir_result(i)->type->shape[a] != tile[a]) return NULL;
    Value *from = ir_operand(i, 0);
    g->visiting = true;
    group_assign(c, from);
    g->visiting = false;
    if (!from->type->layout) return NULL;
    const Layout *l = layout_slice(
        &c->s->arena, layouts_get(&c->p->layouts, from->type), (int)ir_attr_int(i, ATTR_AXIS, 0), false);
    const bool stays = back || !g->access_bytes;
    return l && (stays || layouter_sector_use(c, l, g->unit, g->access_elem, g->access_width) >= 90) ? l
                                                                                                     : NULL;
}

static bool is_half(const Instr *slice)
{
    int axis = (int)ir_attr_int(slice, ATTR_AXIS, 0);
    int64_t n = ir_result(slice)->type->shape[axis];
    return 2 * n == ir_operand(slice, 0)->type->shape[axis] && ir_attr_int(slice, ATTR_START, 0) % n == 0;
}

static void basis_of(const Layout *l, LayoutInput in, int bit, int32_t *to)
{
    for (int d = 0; d < l->rank; d++)
        to[d] = (int32_t)(l->basis[in][bit] >> l->fshift[d] & ((1ull << l->fbit[d]) - 1));
}

/* The layout with what warps count and what the top registers count exchanged; NULL: there are too few. */
static const Layout *turned(Arena *a, const Layout *l)
{
    int32_t basis[LAYOUT_INPUTS][LAYOUT_MAX_BITS * LAYOUT_MAX_RANK];
    const int32_t *in[LAYOUT_INPUTS];
    int nbit[LAYOUT_INPUTS], warps = l->nbit[LAYOUT_WARP], first = l->nbit[LAYOUT_REG] - warps;
    if (l->ndigit || !warps || first < 0) return NULL;
    for (int k = 0; k < LAYOUT_INPUTS; k++) {
        nbit[k] = l->nbit[k];
        for (int b = 0; b < nbit[k]; b++) {
            bool given = k == LAYOUT_WARP || (k == LAYOUT_REG && b >= first);
            LayoutInput from = !given ? (LayoutInput)k : k == LAYOUT_WARP ? LAYOUT_REG : LAYOUT_WARP;
            basis_of(l, from, !given ? b : k == LAYOUT_WARP ? first + b : b - first, basis[k] + b * l->rank);
        }
        in[k] = basis[k];
    }
    return layout_from_basis(a, l->rank, l->tile, nbit, in, 0, NULL);
}

const Layout *group_whole_of(Layouter *c, const Instr *slice)
{
    const Type *from = ir_operand(slice, 0)->type;
    LayoutHalf h;
    if (!from->layout || !is_half(slice)) return NULL;
    const Layout *l = layouts_get(&c->p->layouts, from);
    int axis = (int)ir_attr_int(slice, ATTR_AXIS, 0);
    if (!layout_half(&c->s->arena, l, axis, &h) || h.in != LAYOUT_WARP) return NULL;
    const Layout *whole = turned(&c->s->arena, l);
    return whole && layout_half(&c->s->arena, whole, axis, &h) && h.in == LAYOUT_REG ? whole : NULL;
}

const Layout *group_moved(Layouter *c, const Instr *i)
{
    Arena *a = &c->s->arena;
    const Type *t = ir_result(i)->type, *from = ir_operand(i, 0)->type;
    int32_t tile[TILE_MAX_RANK], perm[TILE_MAX_RANK];
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    LayoutHalf h;
    if (t->kind != TYPE_TILE || from->kind != TYPE_TILE || !from->layout) return NULL;
    const Layout *l = layouts_get(&c->p->layouts, from);
    for (int k = 0; k < t->rank; k++) tile[k] = (int32_t)t->shape[k];
    if (i->op == OP_RESHAPE) return layout_reshape(a, l, t->rank, tile);
    if (i->op == OP_PERMUTE) {
        for (int k = 0; k < t->rank; k++) perm[k] = (int32_t)ir_attr(i, ATTR_ORDER)->v[k];
        return layout_permute(a, l, perm);
    }
    if (i->op == OP_SLICE) {
        const Layout *whole = group_whole_of(c, i);
        return is_half(i) ? layout_half(a, whole ? whole : l, axis, &h) : NULL;
    }
    return i->op == OP_CONCAT && i->n_operands == 2 && ir_operand(i, 1)->type == from
               ? layout_concat(a, l, axis, 2)
               : NULL;
}

/* Whether more components of records come into the group than are accessed from there: each of them would be
 * moved, where accesses from lanes with whole records are a few narrow ones more. */
static bool is_of_components(const Group *g) { return g->component_of && g->taken > g->given; }

/* The layout of a group that nothing but its shape ties down: that in which its first value comes from
 * another group's. Halves, pairs of halves, reshapes and permutations then follow each other in registers,
 * and a half that lanes tell apart takes one exchange. Products' results leave their fragments in other ways
 * (`reshaped` above; backends/gpu/layout/emit_transpose.c). */
static const Layout *followed(Layouter *c, Group *g, int rank, const int32_t *tile)
{
    const Instr *i = g->moved;
    if (!i || g->mma || g->ordered || g->unfit || g->visiting) return NULL;
    bool behind = g->access_bytes && !is_of_components(g);
    if (behind && !group_is_behind_records(c, g)) return NULL;
    if (ir_result(i)->type->rank != rank || group_of(c, ir_operand(i, 0))->mma) return NULL;
    for (int a = 0; a < rank; a++)
        if (ir_result(i)->type->shape[a] != tile[a]) return NULL;
    g->visiting = true;
    for (int k = 0; k < i->n_operands; k++) group_assign(c, ir_operand(i, k));
    g->visiting = false;
    const Layout *l = group_moved(c, i);
    if (behind && l && !group_accesses_well(c, g, l)) l = NULL;
    g->followed = l != NULL;
    return l;
}

/* Gives slices of a product's accumulator its fragments, if adjacent slices form the whole. Then combining
 * them moves nothing. */
static const Layout *sliced(Layouter *c, const Group *g, int rank, const int32_t *tile)
{
    const Instr *i = g->combine;
    Group *from = i ? group_of(c, ir_operand(i, 0)) : NULL;
    bool same = from && !g->mma && from->mma && from->native && rank == 2 && ir_result(i)->type->rank == 2;
    for (int a = 0; a < rank && same; a++) same = ir_result(i)->type->shape[a] == tile[a];
    if (!same) return NULL;
    if (!from->warps[0]) group_split_warps(c->p, from);
    const Layout *l = layout_mma(
        &c->s->arena, from->kind, LAYOUT_C, 2, tile, (int32_t[]){ from->warps[0], from->warps[1] });
    return l && layout_concat(
                    &c->s->arena, l, (int)ir_attr_int(i, ATTR_AXIS, 0), (int)ir_attr_int(i, ATTR_COUNT, 1))
               ? l
               : NULL;
}

/* A layout in which each lane has the whole axis, for slices of any extent. */
const Layout *group_undivided(Layouter *c, const Type *t, int axis)
{
    int32_t tile[TILE_MAX_RANK], per[TILE_MAX_RANK], lanes[TILE_MAX_RANK], warps[TILE_MAX_RANK],
        order[TILE_MAX_RANK];
    int n = 0, wide = axis ? 0 : t->rank - 1;
    for (int a = 0; a < t->rank; a++)
        if (a != axis && t->shape[a] > t->shape[wide]) wide = a;
    for (int a = 0; a < t->rank; a++) {
        tile[a] = (int32_t)t->shape[a];
        per[a] = lanes[a] = warps[a] = 1;
    }
    lanes[wide] = c->p->target->wave;
    warps[wide] = c->p->warps;
    order[n++] = wide;
    for (int a = t->rank - 1; a >= 0; a--)
        if (a != wide) order[n++] = a;
    return layout_blocked(&c->s->arena, t->rank, tile, per, lanes, warps, order);
}

const Layout *group_fragment(Layouter *c, const Instr *mma, int k, const int32_t *tile)
{
    static const LayoutRole roles[] = { LAYOUT_A, LAYOUT_B, LAYOUT_C };
    Group *g = group_of(c, ir_result(mma));
    if (!g->warps[0]) group_split_warps(c->p, g);
    LayoutMma kind = kernel_mma_kind(c->s, ir_attr(mma, ATTR_INSTR)->s);
    if (k == 1 && ir_attr(mma, ATTR_PARTS))
        return layout_mma_stacked(
            &c->s->arena, kind, tile, (int32_t[]){ g->warps[0], g->warps[1] }, g->products, g->height);
    /* WMMA reads A twice, once by each half of the wave. In registers, each half holds its half of K, as C is
     * held, and the product fetches the other half. */
    bool halves = k == 0 && (kind == LAYOUT_WMMA_16x16x16_R || kind == LAYOUT_WMMA_16x16x16_8_R);
    return layout_mma(&c->s->arena, kind, halves ? g->warps[1] == 1 ? LAYOUT_C : LAYOUT_HALVES : roles[k], 2,
        tile, (int32_t[]){ g->warps[0], g->warps[1] });
}

/* A left operand in registers that is read from a stage of a ring has the layout of fragments from the start.
 * Then nothing moves between threads, which would need a barrier. This does not apply if the group loads or
 * stores such a tile itself, because fragments are pieces of sectors. */
static const Layout *left_operand(Layouter *c, const Group *g, int rank, const int32_t *tile)
{
    enum { FEW = 8 };
    if (!g->left || g->mma || g->ordered || rank != 2 || FEW * g->most > g->box[0] * g->box[1]) return NULL;
    const Type *t = ir_operand(g->left, 0)->type;
    for (int a = 0; a < 2; a++)
        if (t->shape[a] != g->box[a] || tile[a] != g->box[a]) return NULL;
    return group_fragment(c, g->left, 0, tile);
}

/* The layout of a group whose tiles become a left operand by reshapes, permutations, repetition and joins:
 * the one that makes the operand's fragments (left_operand) without moving an element to another thread. NULL
 * where memory is accessed in the group's layout. */
static const Layout *toward_left(Layouter *c, Group *g, int rank, const int32_t *tile)
{
    const Instr *i = g->to_left;
    LayoutHalf h;
    if (!i || g->mma || g->access_bytes || g->ordered || g->unfit || g->visiting) return NULL;
    int k = 0;
    while (k < i->n_operands - 1 && group_of(c, ir_operand(i, k)) != g) k++;
    const Type *own = ir_operand(i, k)->type;
    bool same = own->rank == rank;
    for (int a = 0; a < rank && same; a++) same = own->shape[a] == tile[a];
    if (!same || (i->op == OP_CONCAT && i->n_operands != 2)) return NULL;
    g->visiting = true;
    group_assign(c, ir_result(i));
    g->visiting = false;
    if (!ir_result(i)->type->layout) return NULL;
    const Layout *l = layouts_get(&c->p->layouts, ir_result(i)->type);
    if (i->op == OP_RESHAPE) return layout_reshape(&c->s->arena, l, rank, tile);
    if (i->op == OP_PERMUTE) {
        int32_t back[TILE_MAX_RANK];
        for (int a = 0; a < rank; a++) back[ir_attr(i, ATTR_ORDER)->v[a]] = a;
        return layout_permute(&c->s->arena, l, back);
    }
    l = layout_half(&c->s->arena, l, (int)ir_attr_int(i, ATTR_AXIS, 0), &h);
    return l && h.in == LAYOUT_REG ? l : NULL;
}

/* The layout that a group takes from another one; NULL: from none, or from one that asks for its own, as
 * values that a loop carries and moves do. All values of the group then have a layout of its own. */
static const Layout *of_others(Layouter *c, Group *g, int rank, const int32_t *tile)
{
    const Layout *l = NULL;
    g->circular |= g->visiting;
    if (g->circular) return NULL;
    if (g->moved && (g->moved->op != OP_RESHAPE || is_of_components(g))) l = followed(c, g, rank, tile);
    if (!l) l = reshaped(c, g, rank, tile);
    if (!l) l = transposed(c, g, rank, tile);
    if (!l) l = where_reduced(c, g, rank, tile);
    if (!l) l = followed(c, g, rank, tile);
    g->followed &= !g->circular;
    return g->circular ? NULL : l;
}

/* The layout of scans and of what sorts give, for a group that neither a product nor an access ties down. */
static const Layout *in_runs(Layouter *c, const Group *g, int rank, const int64_t *shape)
{
    Type t = { .kind = TYPE_TILE, .rank = rank };
    if (g->runs < 1 || g->mma || g->access_bytes || g->runs > rank || c->p->cluster > 1) return NULL;
    for (int a = 0; a < rank; a++) t.shape[a] = shape[a];
    return kernel_row_layout(&c->s->arena, c->p, &t, g->runs - 1);
}

/* The group's layout of blocks. Most of its values have one shape. */
static const Layout *blocked(Layouter *c, Group *g, int rank, const int64_t *shape)
{
    const size_t size = (size_t)rank * sizeof *shape;
    if (g->blocked && g->blocked->rank == rank && !memcmp(g->shape, shape, size)) return g->blocked;
    g->blocked = group_blocked(c, g, rank, shape);
    memcpy(g->shape, shape, size);
    return g->blocked;
}

/* The layout of a product's results, which most values of the group have. */
static const Layout *accumulators(Layouter *c, Group *g, const int32_t *tile)
{
    const Layout *l = g->accumulators;
    if (!g->warps[0]) group_split_warps(c->p, g);
    if (l && l->tile[0] == tile[0] && l->tile[1] == tile[1]) return l;
    l = layout_mma(&c->s->arena, g->kind, LAYOUT_C, 2, tile, (int32_t[]){ g->warps[0], g->warps[1] });
    return g->accumulators = l;
}

/* A slice of the layout along the axis; what was asked for last is known. */
static const Layout *slice_of(Layouter *c, const Layout *l, int axis)
{
    if (c->slice && c->slice_of == l && c->slice_axis == axis) return c->slice;
    c->slice_of = l;
    c->slice_axis = axis;
    return c->slice = layout_slice(&c->s->arena, l, axis, true);
}

static const Layout *full_layout(Layouter *c, Group *g, int rank, const int64_t *shape)
{
    int32_t tile[TILE_MAX_RANK];
    for (int a = 0; a < rank; a++) tile[a] = (int32_t)shape[a];
    const Layout *l;
    if (g->mma && g->native && rank == 2) l = accumulators(c, g, tile);
    else {
        l = left_operand(c, g, rank, tile);
        if (!l) l = sliced(c, g, rank, tile);
        if (!l) l = toward_left(c, g, rank, tile);
        if (!l) l = group_of_sums(c, g, rank, tile);
        if (!l) l = group_of_joined_records(c, g, rank, tile);
        if (!l) l = group_of_records(c, g, rank, shape);
        if (!l) l = group_before_records(c, g, rank, tile);
        if (!l) l = of_others(c, g, rank, tile);
        if (!l) l = in_runs(c, g, rank, shape);
        if (!l) l = blocked(c, g, rank, shape);
    }
    if (!l) ir_fail(c->s, c->f->loc, "no layout for a tile of rank %d", rank);
    return l;
}

static const Layout *layout_for(Layouter *c, const Value *v)
{
    Group *g = group_of(c, v);
    const Type *t = v->type;
    int64_t shape[TILE_MAX_RANK];
    bool sliced[TILE_MAX_RANK] = { 0 };
    for (int a = 0; a < t->rank; a++) {
        shape[a] = t->shape[a];
        if (t->shape[a] == 1 && g->box[a] > 1) {
            shape[a] = g->box[a];
            sliced[a] = true;
        }
    }
    const Layout *l = full_layout(c, g, t->rank, shape);
    for (int a = 0; a < t->rank; a++)
        if (sliced[a]) l = slice_of(c, l, a);
    return l;
}

void group_assign(Layouter *c, Value *v)
{
    if (v->type->kind == TYPE_TILE && !v->type->layout && group_takes_now(c, v))
        v->type = layouts_typed(&c->p->layouts, v->type, layout_for(c, v));
}
