/* layout: a layout for every tile that lives in registers.
 *
 *   %s = mma_sync %a, %b, %c              ->  f32[128, 64]@#mma<m16n8k16, c, ...>
 *   %m = reduce_max %s {axis = 1}         ->  f32[128, 1]@#slice<axis=1, keep, #mma<...>>
 *
 * ValueList that meet in element-wise operations, loops and ifs form a group; a group gets one family (the fragments of its matrix
 * product, else blocked along the unit-stride axis of its widest memory access), and each value the family's layout of its
 * own shape: an axis of extent 1 is a slice of the group's box, so a row statistic lies where its tile's rows lie. Cheap
 * functions of coordinates (masks, index tiles, constants) get none: they stay virtual and are evaluated by each user.
 * Where a user needs another layout than a value has, a `convert` (or, for virtual values, `materialize`) goes in between.
 * Operations that move elements between positions (reshape, permute, concat, slice, sort, scan, ...) take any layouts. */
#include "passes/kernel/bulk.h"

typedef struct Group {
    int parent;             /* union-find over value ids */
    bool mma;               /* holds the result of a matrix product */
    LayoutMma kind;         /* of the first one that a matrix unit computes: the others' results are converted where their fragments differ */
    int warps[2];
    bool rows;              /* rows are reduced or feed another product: warps go along M */
    bool native, fma;       /* a product on a matrix unit; one without */
    int rank;
    int64_t box[TILE_MAX_RANK];
    bool box_of_mma;
    int64_t access_bytes;   /* of the widest memory access */
    int unit;               /* its unit-stride axis */
    int access_elem;        /* bytes of its elements */
    int access_width;       /* bytes that one access of a lane can have */
    int64_t by_element, shifted;    /* what its accesses cost, by element where they are not aligned; by aligned vectors, shifted */
    bool odd, unfit;        /* one of them is not aligned; one that is not cannot be shifted, or elements are taken one by one */
    int odd_axis;
    int elem_bytes;         /* of the widest element of all */
    const Instr *reshape;   /* makes a value of the group from another group's */
    const Instr *reshape_to;    /* makes another group's value from one of this */
    const Instr *combine;   /* makes a value of the group from slices of another group's */
    bool ordered;           /* scanned or sorted: runs of it a thread (kernel_row_layout) */
    bool visiting;
} Group;

typedef struct Ctx { Session *s; Func *f; KernelPlan *p; Group *g; uint32_t n; } Ctx;

static int find(Ctx *c, uint32_t id)
{
    int r = (int)id;
    while (c->g[r].parent != r) { c->g[r].parent = c->g[c->g[r].parent].parent; r = c->g[r].parent; }
    return r;
}

static bool grouped(const Value *v) { return v->type->kind == TYPE_TILE && !kernel_is_cheap(v); }

static void unite(Ctx *c, const Value *a, const Value *b)
{
    if (!grouped(a) || !grouped(b)) return;
    int x = find(c, a->id), y = find(c, b->id);
    if (x != y) c->g[y].parent = x;
}

static void link_carried(Ctx *c, Instr *i)
{
    if (i->op == OP_FOR) {
        for (int k = 0; k < i->n_results; k++) {
            Value *arg = i->blocks[0]->args[k + 1];
            unite(c, arg, &i->results[k]);
            unite(c, arg, ir_operand(i, k + 3));
            unite(c, arg, ir_operand(ir_terminator(i->blocks[0]), k));
        }
    } else if (i->op == OP_WHILE) {
        for (int k = 0; k < i->n_results; k++) {
            Value *arg = i->blocks[0]->args[k];
            unite(c, arg, &i->results[k]);
            unite(c, arg, i->blocks[1]->args[k]);
            unite(c, arg, ir_operand(i, k));
            unite(c, arg, ir_operand(ir_terminator(i->blocks[0]), k + 1));
            unite(c, arg, ir_operand(ir_terminator(i->blocks[1]), k));
        }
    } else if (i->op == OP_IF) {
        for (int k = 0; k < i->n_results; k++)
            for (int b = 0; b < 2; b++) unite(c, &i->results[k], ir_operand(ir_terminator(i->blocks[b]), k));
    }
}

static bool follows_operand(Op op)      /* result lies where operand 0 lies (axes of extent 1 aside) */
{
    return op == OP_BROADCAST || op == OP_REDUCE_SUM || op == OP_REDUCE_PROD || op == OP_REDUCE_MAX || op == OP_REDUCE_MIN ||
           op == OP_REDUCE_ANY || op == OP_REDUCE_ALL || op == OP_ARGMAX || op == OP_ARGMIN || op == OP_REDUCE ||
           op == OP_SCAN_SUM || op == OP_SCAN_PROD || op == OP_SCAN_MAX || op == OP_SCAN || op == OP_SORT;
}

static void link_values(void *user, Instr *i)
{
    Ctx *c = user;
    const OpInfo *info = &op_info[i->op];
    if (info->flags & OPF_ELEM) {
        for (int k = 0; k < i->n_operands; k++)
            if (i->n_results && type_same_shape(ir_operand(i, k)->type, ir_result(i)->type)) unite(c, ir_result(i), ir_operand(i, k));
    } else if (follows_operand(i->op) && ir_operand(i, 0)->type->rank == ir_result(i)->type->rank) {
        unite(c, ir_result(i), ir_operand(i, 0));
    } else if (i->op == OP_MMA_SYNC || i->op == OP_WGMMA) {
        unite(c, ir_result(i), ir_operand(i, 2));
    } else if (i->op == OP_WGMMA_WAIT) {
        for (int k = 0; k < i->n_results; k++) unite(c, &i->results[k], ir_operand(i, k));
    } else if (i->op == OP_CLUSTER_COMBINE && !ir_attr(i, ATTR_AXIS)) {
        unite(c, ir_result(i), ir_operand(i, 0));
    }
    link_carried(c, i);
}

static void note_shape(Ctx *c, const Value *v, bool mma)
{
    if (!grouped(v)) return;
    Group *g = &c->g[find(c, v->id)];
    g->rank = v->type->rank;
    if (mma && !g->box_of_mma) { memset(g->box, 0, sizeof g->box); g->box_of_mma = true; }
    if (g->box_of_mma && !mma) return;
    for (int a = 0; a < v->type->rank; a++) if (v->type->shape[a] > g->box[a]) g->box[a] = v->type->shape[a];
    if (dtype_bytes(v->type->dtype) > g->elem_bytes) g->elem_bytes = dtype_bytes(v->type->dtype);
}

/* Not by vectors of 16 bytes: addresses are at no multiples of that, or rows of the tile no whole number of vectors. */
static bool is_odd(Ctx *c, const Instr *i, const Value *v, int axis)
{
    return kernel_access_bytes(c->f, i) < 16 || v->type->shape[axis] * dtype_bytes(v->type->dtype) % 16 != 0;
}

/* What the access costs by element, and by aligned vectors around its rows (shift.c). */
static void note_shift(Ctx *c, Group *g, const Instr *i, const Value *v, int axis)
{
    int elem = dtype_bytes(v->type->dtype), by_element, n = 16 / elem;
    if (!is_odd(c, i, v, axis)) return;
    g->unfit |= !kernel_may_shift(c->f, c->p, i) || (g->odd && g->odd_axis != axis);
    if (g->unfit) return;
    g->odd_axis = axis;
    int64_t all = type_elements(v->type);
    int64_t rows = all / v->type->shape[axis], row = (v->type->shape[axis] + n - 1) / n, vectors = rows * row;
    int64_t beside = rows < c->p->warps ? (c->p->warps + rows - 1) / rows : 1;     /* warps to a row */
    int chain = (int)((row + beside * c->p->target->wave - 1) / (beside * c->p->target->wave));
    g->shifted += vectors * kernel_shift_cost(c->f, i, chain, &by_element);
    g->by_element += vectors * by_element;
    g->odd = true;
}

static const LayoutShared *copied(Ctx *c, const Instr *copy) { return layouts_shared(&c->p->layouts, ir_operand(copy, 0)->type); }

static void note_anchors(void *user, Instr *i)
{
    Ctx *c = user;
    bool mma = i->op == OP_MMA_SYNC || i->op == OP_WGMMA;
    for (int k = 0; k < i->n_results; k++) note_shape(c, &i->results[k], mma);
    for (int b = 0; b < i->n_blocks; b++)
        for (int k = 0; k < i->blocks[b]->n_args; k++) note_shape(c, i->blocks[b]->args[k], false);
    if (mma) {
        Group *g = &c->g[find(c, ir_result(i)->id)];
        const char *name = ir_attr(i, ATTR_INSTR)->s;
        g->mma = true;
        if (i->op == OP_WGMMA) g->rows = true;      /* warpgroups side by side in M: each reads all of B once */
        if (!strcmp(name, "fma")) g->fma = true;
        else if (!g->native) { g->kind = kernel_mma_kind(c->s, name); g->native = true; }
        for (int k = 0; k < 2; k++) {       /* a product feeding a product: keep its rows together */
            Value *v = ir_operand(i, k);
            while (v->def && (v->def->op == OP_CAST || v->def->op == OP_CONVERT)) v = ir_operand(v->def, 0);
            if (grouped(v)) c->g[find(c, v->id)].rows = true;
        }
    }
    if (follows_operand(i->op) && i->op != OP_BROADCAST && grouped(ir_operand(i, 0)) &&
        ir_attr_int(i, ATTR_AXIS, 0) == ir_operand(i, 0)->type->rank - 1)
        c->g[find(c, ir_operand(i, 0)->id)].rows = true;
    if (i->op == OP_SCAN_SUM || i->op == OP_SCAN_PROD || i->op == OP_SCAN_MAX || i->op == OP_SCAN || i->op == OP_SORT || i->op == OP_TOPK) {
        if (grouped(ir_operand(i, 0))) c->g[find(c, ir_operand(i, 0)->id)].ordered = true;
        if (grouped(ir_result(i))) c->g[find(c, ir_result(i)->id)].ordered = true;
    }
    if (i->op == OP_CLUSTER_COMBINE && ir_attr(i, ATTR_AXIS)) c->g[find(c, ir_result(i)->id)].combine = i;
    if (i->op == OP_RESHAPE && grouped(ir_result(i)) && grouped(ir_operand(i, 0))) {
        c->g[find(c, ir_result(i)->id)].reshape = i;
        c->g[find(c, ir_operand(i, 0)->id)].reshape_to = i;
    }
    for (int k = 2; i->op == OP_COPY && k < i->n_operands; k++) {       /* positions: where the threads that copy have their rows */
        if (!grouped(ir_operand(i, k))) continue;
        Group *g = &c->g[find(c, ir_operand(i, k)->id)];
        g->access_bytes = INT32_MAX;
        g->unit = copied(c, i)->order[0];
        g->access_elem = dtype_bytes(ir_operand(i, 0)->type->dtype);
        g->access_width = 16;
    }
    MemParts m;
    if (i->op == OP_GATHER || i->op == OP_SCATTER || i->op == OP_ATOMIC_RMW || i->op == OP_ATOMIC_CAS)
        for (int k = 0; k < i->n_operands + i->n_results; k++) {
            const Value *v = k < i->n_operands ? ir_operand(i, k) : &i->results[k - i->n_operands];
            if (grouped(v)) c->g[find(c, v->id)].unfit = true;
        }
    if ((i->op == OP_LOAD || i->op == OP_STORE) && ir_mem_parts(i, &m)) {
        Value *v = m.result ? m.result : m.values[0];
        int axis;
        kernel_unit_axis(c->f, i, &axis);
        if (!grouped(v) || axis < 0) return;
        Group *g = &c->g[find(c, v->id)];
        /* A load decides before a store of equal size: a store can stage its value. */
        int64_t bytes = 2 * type_elements(v->type) * dtype_bytes(v->type->dtype) + (i->op == OP_LOAD);
        note_shift(c, g, i, v, axis);
        if (bytes > g->access_bytes) { g->access_bytes = bytes; g->unit = axis; g->access_elem = dtype_bytes(v->type->dtype); g->access_width = kernel_access_bytes(c->f, i); }
    }
}

/* Rows that are not aligned go by aligned vectors where that spares an eighth of what elements cost. */
static bool shifts(const Group *g) { return g->odd && !g->unfit && !g->mma && 8 * g->shifted < 7 * g->by_element; }

static const Layout *blocked(Ctx *c, const Group *g, int rank, const int64_t *shape)
{
    int32_t tile[TILE_MAX_RANK], order[TILE_MAX_RANK];
    int unit = g->access_bytes && g->unit < rank ? g->unit : rank - 1, n = 0;
    order[n++] = unit;
    for (int a = rank - 1; a >= 0; a--) if (a != unit) order[n++] = a;
    for (int a = 0; a < rank; a++) tile[a] = (int32_t)shape[a];
    if (g->fma && !g->native && rank == 2) {          /* register blocks for a product without a matrix unit: 8 x 4 a thread where the tile allows */
        int32_t per[2] = { 1, 1 }, lanes[2] = { 1, 1 }, warps[2] = { 1, 1 };
        while (per[0] < 8 && per[0] * 8 <= tile[0]) per[0] *= 2;
        while (per[1] < 4 && per[1] * 8 <= tile[1]) per[1] *= 2;
        int32_t l = c->p->target->wave, w = c->p->warps;
        lanes[1] = 8; lanes[0] = l / 8;
        while (w > 1) {
            bool down = (int64_t)per[0] * lanes[0] * warps[0] * tile[1] < (int64_t)per[1] * lanes[1] * warps[1] * tile[0];
            int by = w % 2 ? w : 2;
            warps[down ? 0 : 1] *= by;
            w /= by;
        }
        return layout_blocked(&c->s->arena, 2, tile, per, lanes, warps, (int32_t[]){ 1, 0 });
    }
    int ctas = c->p->cluster > 1 && !c->p->split ? c->p->cluster : 1;
    const Layout *s = shifts(g) ? kernel_shift_layout(&c->s->arena, c->p, rank, tile, order, g->access_elem, ctas) : NULL;
    if (s) return ctas > 1 ? layout_split_blocks(&c->s->arena, s, ctas) : s;
    const Layout *l = layout_coalesced(&c->s->arena, rank, tile, order, g->access_elem ? g->access_elem : g->elem_bytes ? g->elem_bytes : 4, g->access_width ? g->access_width : 16, c->p->target->wave, c->p->warps * ctas);
    return l && ctas > 1 ? layout_split_blocks(&c->s->arena, l, ctas) : l;
}

const Layout *kernel_row_layout(Arena *a, const KernelPlan *p, const Type *t, int axis)
{
    int32_t tile[TILE_MAX_RANK], per[TILE_MAX_RANK], lanes[TILE_MAX_RANK], warps[TILE_MAX_RANK], order[TILE_MAX_RANK];
    int32_t wave = p->target->wave, w = p->warps, n = 0;
    order[n++] = axis;
    for (int d = t->rank - 1; d >= 0; d--) if (d != axis) order[n++] = d;
    for (int d = 0; d < TILE_MAX_RANK; d++) { tile[d] = d < t->rank ? (int32_t)t->shape[d] : 1; per[d] = lanes[d] = warps[d] = 1; }
    while (lanes[axis] < wave && lanes[axis] < tile[axis]) lanes[axis] *= 2;
    wave /= lanes[axis];
    for (int k = 1; k < t->rank; k++)
        while (wave > 1 && lanes[order[k]] < tile[order[k]]) { lanes[order[k]] *= 2; wave /= 2; }
    lanes[order[t->rank > 1]] *= wave;
    for (int k = 1; k < t->rank; k++)
        while (w % 2 == 0 && lanes[order[k]] * warps[order[k]] < tile[order[k]]) { warps[order[k]] *= 2; w /= 2; }
    warps[axis] = w;
    while ((int64_t)per[axis] * lanes[axis] * w < tile[axis]) per[axis] *= 2;
    return layout_blocked(a, t->rank, tile, per, lanes, warps, order);
}

/* Fragments of the wave that has most. */
static int64_t busiest(const LayoutMmaInfo *info, const int64_t *box, int down, int across)
{
    int64_t m = (box[0] + info->m - 1) / info->m, n = (box[1] + info->n - 1) / info->n;
    return (m + down - 1) / down * ((n + across - 1) / across);
}

static void split_warps(const KernelPlan *p, Group *g)
{
    const LayoutMmaInfo *info = layout_mma_info(g->kind);
    int w = p->warps / info->warps;
    if (w < 1) w = 1;
    g->warps[0] = g->warps[1] = 1;
    if (g->rows) {
        int64_t rows = p->target->kind == TARGET_HIP ? (g->box[0] + info->m - 1) / info->m : g->box[0] <= info->m ? 1 : w;      /* of fragments */
        while (w % 2 == 0 && w > rows && g->box[1] > (int64_t)info->n * g->warps[1]) { g->warps[1] *= 2; w /= 2; }
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
    /* AMD: another arrangement where it spares the busiest wave a fragment (64 x 224 on 8 waves of 16 x 16: 7, not 8) */
    if (p->target->kind != TARGET_HIP) return;
    int64_t most = busiest(info, g->box, g->warps[0], g->warps[1]);
    for (int down = 1; down <= all; down++)
        if (all % down == 0 && busiest(info, g->box, down, all / down) < most) {
            g->warps[0] = down;
            g->warps[1] = all / down;
            most = busiest(info, g->box, down, all / down);
        }
}

const Layout *kernel_copy_layout(Arena *a, const Type *view, const LayoutShared *s, int wave, int warps)
{
    int32_t tile[TILE_MAX_RANK], order[TILE_MAX_RANK];
    for (int k = 0; k < view->rank; k++) { tile[k] = (int32_t)view->shape[k]; order[k] = s->order[k]; }
    return layout_coalesced(a, view->rank, tile, order, dtype_bytes(view->dtype), 16, wave, warps);
}

static void assign(Ctx *c, Value *v);

/* Nothing of the group's own says where its elements should lie, and something of the other one does. */
static bool lies_where(const Group *g, const Group *other)
{
    return !g->mma && !g->access_bytes && (other->mma || other->access_bytes);
}

/* A vector that gets an axis of extent 1 to stand beside a tile: read where the tile needs it, not moved between threads afterwards. */
static bool is_beside(const Value *own, const Value *other, const Group *from)
{
    int64_t n = type_elements(own->type), box = 1;
    int axes = 0;
    for (int a = 0; a < other->type->rank; a++) { box *= from->box[a] > 0 ? from->box[a] : 1; axes += other->type->shape[a] > 1; }
    return own->type->rank == 1 && other->type->rank > 1 && axes <= 1 && type_elements(other->type) == n && box >= 2 * n;
}

/* The layout that a group takes over from another on the other side of a reshape, so that the reshape moves nothing: a product's result
 * that is reshaped; a tile that is loaded and reshaped; a vector that becomes a row or a column beside a tile. NULL where that is no layout or nothing asks for it. */
static const Layout *reshaped(Ctx *c, Group *g, int rank, const int32_t *tile)
{
    for (int k = 0; k < 2 && !g->mma && !g->visiting; k++) {
        const Instr *i = k ? g->reshape_to : g->reshape;
        if (!i) continue;
        Value *own = k ? ir_operand(i, 0) : ir_result(i), *other = k ? ir_result(i) : ir_operand(i, 0);
        const Group *from = &c->g[find(c, other->id)];
        bool same = own->type->rank == rank && ((from->mma && !from->fma) || (!from->visiting && !g->ordered && (lies_where(g, from) || is_beside(own, other, from))));
        for (int a = 0; a < rank && same; a++) same = own->type->shape[a] == tile[a];
        if (!same) continue;
        g->visiting = true;
        assign(c, other);
        g->visiting = false;
        const Layout *l = other->type->layout ? layout_reshape(&c->s->arena, layouts_get(&c->p->layouts, other->type), rank, tile) : NULL;
        if (l) return l;
    }
    return NULL;
}

/* Slices of a product's accumulator in its own fragments, where slices side by side are the whole: then joining them moves nothing. */
static const Layout *sliced(Ctx *c, const Group *g, int rank, const int32_t *tile)
{
    const Instr *i = g->combine;
    Group *from = i ? &c->g[find(c, ir_operand(i, 0)->id)] : NULL;
    bool same = from && !g->mma && from->mma && from->native && rank == 2 && ir_result(i)->type->rank == 2;
    for (int a = 0; a < rank && same; a++) same = ir_result(i)->type->shape[a] == tile[a];
    if (!same) return NULL;
    if (!from->warps[0]) split_warps(c->p, from);
    const Layout *l = layout_mma(&c->s->arena, from->kind, LAYOUT_C, 2, tile, (int32_t[]){ from->warps[0], from->warps[1] });
    return l && layout_concat(&c->s->arena, l, (int)ir_attr_int(i, ATTR_AXIS, 0), (int)ir_attr_int(i, ATTR_COUNT, 1)) ? l : NULL;
}

/* A layout in which no lane shares the axis with another, for slices of any extent. */
static const Layout *undivided(Ctx *c, const Type *t, int axis)
{
    int32_t tile[TILE_MAX_RANK], per[TILE_MAX_RANK], lanes[TILE_MAX_RANK], warps[TILE_MAX_RANK], order[TILE_MAX_RANK];
    int n = 0, wide = axis ? 0 : t->rank - 1;
    for (int a = 0; a < t->rank; a++) if (a != axis && t->shape[a] > t->shape[wide]) wide = a;
    for (int a = 0; a < t->rank; a++) { tile[a] = (int32_t)t->shape[a]; per[a] = lanes[a] = warps[a] = 1; }
    lanes[wide] = c->p->target->wave;
    warps[wide] = c->p->warps;
    order[n++] = wide;
    for (int a = t->rank - 1; a >= 0; a--) if (a != wide) order[n++] = a;
    return layout_blocked(&c->s->arena, t->rank, tile, per, lanes, warps, order);
}

static const Layout *full_layout(Ctx *c, Group *g, int rank, const int64_t *shape)
{
    int32_t tile[TILE_MAX_RANK];
    for (int a = 0; a < rank; a++) tile[a] = (int32_t)shape[a];
    const Layout *l;
    if (g->mma && g->native && rank == 2) {
        if (!g->warps[0]) split_warps(c->p, g);
        l = layout_mma(&c->s->arena, g->kind, LAYOUT_C, 2, tile, (int32_t[]){ g->warps[0], g->warps[1] });
    } else {
        l = sliced(c, g, rank, tile);
        if (!l) l = reshaped(c, g, rank, tile);
        if (!l) l = blocked(c, g, rank, shape);
    }
    if (!l) ir_fail(c->s, c->f->loc, "no layout for a tile of rank %d", rank);
    return l;
}

static const Layout *layout_for(Ctx *c, const Value *v)
{
    Group *g = &c->g[find(c, v->id)];
    const Type *t = v->type;
    int64_t shape[TILE_MAX_RANK];
    bool sliced[TILE_MAX_RANK] = { 0 };
    for (int a = 0; a < t->rank; a++) {
        shape[a] = t->shape[a];
        if (t->shape[a] == 1 && g->box[a] > 1) { shape[a] = g->box[a]; sliced[a] = true; }
    }
    const Layout *l = full_layout(c, g, t->rank, shape);
    for (int a = 0; a < t->rank; a++) if (sliced[a]) l = layout_slice(&c->s->arena, l, a, true);
    return l;
}

static void assign(Ctx *c, Value *v)
{
    if (v->type->kind == TYPE_TILE && !v->type->layout && grouped(v)) v->type = layouts_typed(&c->p->layouts, v->type, layout_for(c, v));
}

static void assign_all(void *user, Instr *i)
{
    Ctx *c = user;
    for (int k = 0; k < i->n_results; k++) assign(c, &i->results[k]);
    for (int b = 0; b < i->n_blocks; b++)
        for (int k = 0; k < i->blocks[b]->n_args; k++) assign(c, i->blocks[b]->args[k]);
}

/* --- second walk: operands get the layouts their users need --------------------------------------------------------- */

static Value *as(Ctx *c, Builder *b, Value *v, const Layout *l)
{
    const Type *t = layouts_typed(&c->p->layouts, type_with_layout(c->s, v->type, NULL), l);
    if (v->type == t) return v;
    if (v->type->layout && layout_equal(layouts_get(&c->p->layouts, v->type), l)) return v;
    return ir_emit(b, v->type->layout ? OP_CONVERT : OP_MATERIALIZE, &v, 1, NO_ATTRS, t);
}

static void need(Ctx *c, Instr *i, int k, const Layout *l)
{
    Builder b = ir_before(i);
    Value *v = ir_operand(i, k), *w = as(c, &b, v, l);
    if (w != v) ir_set_operand(i, k, w);
}

static void need_any(Ctx *c, Instr *i, int k)
{
    Value *v = ir_operand(i, k);
    if (v->type->kind != TYPE_TILE || v->type->layout) return;
    Group g = { .rank = v->type->rank };
    need(c, i, k, blocked(c, &g, v->type->rank, v->type->shape));
}

/* The result of i as computed lies in `natural`; users see the assigned layout. */
static void result_in(Ctx *c, Instr *i, int k, const Layout *natural)
{
    Value *r = &i->results[k];
    const Type *want = r->type, *t = layouts_typed(&c->p->layouts, type_with_layout(c->s, want, NULL), natural);
    if (want == t || !want->layout || layout_equal(layouts_get(&c->p->layouts, want), natural)) { r->type = t; return; }
    r->type = t;
    Builder b = ir_after(i);
    Instr *conv = ir_build(&b, OP_CONVERT, &r, 1, NO_ATTRS, &want, 1);
    Value *w = ir_result(conv);
    ir_replace(r, w);
    ir_set_operand(conv, 0, r);
}

static void carried_operands(Ctx *c, Instr *y, int first, Value *const *like, int n)
{
    for (int k = 0; k < n; k++)
        if (like[k]->type->kind == TYPE_TILE) need(c, y, k + first, layouts_get(&c->p->layouts, like[k]->type));
}

/* Operand k of a product on a matrix unit: A, B, C. */
static const Layout *fragment(Ctx *c, Instr *mma, int k)
{
    static const LayoutRole roles[] = { LAYOUT_A, LAYOUT_B, LAYOUT_C };
    Group *g = &c->g[find(c, ir_result(mma)->id)];
    const Type *t = ir_operand(mma, k)->type;
    int32_t tile[2] = { (int32_t)t->shape[0], (int32_t)t->shape[1] };
    if (!g->warps[0]) split_warps(c->p, g);
    LayoutMma kind = kernel_mma_kind(c->s, ir_attr(mma, ATTR_INSTR)->s);
    /* WMMA reads A twice, once by each half of the wave. In registers each half keeps its half of K, as C lies: the product fetches the other. */
    bool halves = k == 0 && (kind == LAYOUT_WMMA_16x16x16_R || kind == LAYOUT_WMMA_16x16x16_8_R);
    return layout_mma(&c->s->arena, kind, halves ? g->warps[1] == 1 ? LAYOUT_C : LAYOUT_HALVES : roles[k], 2, tile, (int32_t[]){ g->warps[0], g->warps[1] });
}

static void fix_combine(Ctx *c, Instr *i)
{
    if (!ir_attr(i, ATTR_AXIS)) { need(c, i, 0, layouts_get(&c->p->layouts, ir_result(i)->type)); return; }
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0), n = (int)ir_attr_int(i, ATTR_COUNT, 1);
    const Layout *l = layouts_get(&c->p->layouts, ir_result(i)->type), *whole = layout_concat(&c->s->arena, l, axis, n);
    if (!whole) {
        l = undivided(c, ir_result(i)->type, axis);
        whole = l ? layout_concat(&c->s->arena, l, axis, n) : NULL;
        if (!whole) ir_fail(c->s, i->loc, "no layout for the slices of %s", type_string(c->s, ir_operand(i, 0)->type));
        result_in(c, i, 0, l);
    }
    need(c, i, 0, whole);
}

/* --- stores ------------------------------------------------------------------------------------------------------------ */

/* Bytes moved per byte of 32-byte sectors touched, in percent, when one warp stores its register vectors with unit stride along
 * `axis` and rows far apart. */
static int sector_use(const Layout *l, int axis, int bytes, int width)
{
    LayoutVector v;
    int32_t c[TILE_MAX_RANK];
    int64_t seen[64 * 4];
    int n = 0, lanes = (int)layout_lanes(l);
    layout_vector(l, axis, (uint32_t)bytes, (uint32_t)width, 16, &v);
    for (int lane = 0; lane < lanes; lane++) {
        layout_element(l, 0, (uint32_t)lane, 0, 0, c);
        int64_t row = 0;
        for (int a = 0; a < l->rank; a++) if (a != axis) row = row * 65536 + c[a];
        for (uint32_t b = 0; b < v.bytes || b == 0; b += 32) {
            int64_t sector = row * (1 << 20) + ((int64_t)c[axis] * bytes + b) / 32;
            bool found = false;
            for (int k = 0; k < n; k++) found |= seen[k] == sector;
            if (!found && n < 256) seen[n++] = sector;
        }
    }
    int64_t moved = (int64_t)v.bytes * lanes;
    int use = (int)(moved * 100 / (32 * (int64_t)n));
    return use > 100 ? 100 : use;
}

/* An accumulator's rows are spread in pairs over the lanes: lanes exchange registers so that each stores 16 bytes at once. */
static void store_layout(Ctx *c, Instr *i)
{
    MemParts m;
    int axis, unit = kernel_unit_axis(c->f, i, &axis);
    ir_mem_parts(i, &m);
    const Type *t = m.values[0]->type;
    const Param *p = &c->f->params[m.param];
    if (t->kind != TYPE_TILE || !t->layout || axis < 0 || p->stride[unit] != 1 || p->align < 16) return;
    int bytes = dtype_bytes(t->dtype);
    const Layout *l = layouts_get(&c->p->layouts, t), *v = layout_vectorize(&c->s->arena, l, axis, bytes, 16);
    if (!v || layout_equal(l, v)) return;
    if (sector_use(v, axis, bytes, 16) >= 90 && layout_convert_within(&c->s->arena, l, v, bytes)) need(c, i, m.rank + 1, v);
}

/* Is the value in a layout from which the store goes by aligned vectors for less than by element? */
static bool shift_pays(Ctx *c, const Instr *store, const Value *v, int axis)
{
    ShiftChain s;
    int heads = 0, by_element;
    if (!kernel_shift_chain(&c->s->arena, layouts_get(&c->p->layouts, v->type), axis, dtype_bytes(v->type->dtype), &s)) return false;
    for (int k = 0; k < s.vectors; k++) heads += s.before[k] < 0;
    int cost = kernel_shift_cost(c->f, store, s.vectors / heads, &by_element);
    return cost < by_element + (s.vectors > heads ? 12 : 0);    /* and the conversion to a layout from which elements are stored side by side */
}

/* The value in a layout from which it is stored in whole sectors, where its own gives poor ones: within the warp if that
 * suffices, else by way of shared memory. */
static void fix_store(Ctx *c, Instr *i)
{
    MemParts m;
    int axis;
    ir_mem_parts(i, &m);
    Value *v = m.values[0];
    if (v->type->kind != TYPE_TILE || type_elements(v->type) < 256) return;
    int unit = kernel_unit_axis(c->f, i, &axis), bytes = dtype_bytes(v->type->dtype), width = kernel_access_bytes(c->f, i);
    const Attr *steps = ir_attr(i, ATTR_STEPS);
    if (axis >= 0 && is_odd(c, i, v, axis) && kernel_may_shift(c->f, c->p, i) && shift_pays(c, i, v, axis)) return;
    if (axis >= 0 && c->p->filler_warps && is_odd(c, i, v, axis) && kernel_may_shift(c->f, c->p, i)) {      /* shared memory is the rings' and their stages' */
        ShiftChain chain;
        const Layout *runs = kernel_shift_runs(&c->s->arena, layout_vectorize(&c->s->arena, layouts_get(&c->p->layouts, v->type), axis, bytes, 16), axis);
        if (runs && kernel_shift_chain(&c->s->arena, runs, axis, bytes, &chain)) {
            for (int k = 0; k < i->n_operands; k++) if (ir_operand(i, k) == v) need(c, i, k, runs);
            return;
        }
    }
    if (axis < 0 || v->type->shape[axis] * bytes < 32 || c->f->params[m.param].stride[unit] != 1 || (steps && steps->v[unit] != 1)) return;
    const Layout *l = layouts_get(&c->p->layouts, v->type), *best = NULL;
    int now = sector_use(l, axis, bytes, width);
    if (now >= 90) return;
    const Layout *w = layout_vectorize(&c->s->arena, l, axis, bytes, width);
    if (w && w != l && sector_use(w, axis, bytes, width) >= 90) best = w;
    if (!best) {
        int32_t tile[TILE_MAX_RANK], order[TILE_MAX_RANK], n = 0;
        order[n++] = axis;
        for (int a = v->type->rank - 1; a >= 0; a--) if (a != axis) order[n++] = a;
        for (int a = 0; a < v->type->rank; a++) tile[a] = (int32_t)v->type->shape[a];
        w = layout_coalesced(&c->s->arena, v->type->rank, tile, order, bytes, width, c->p->target->wave, (int)layout_warps(l));
        if (w && sector_use(w, axis, bytes, width) >= 2 * now) best = w;
    }
    for (int k = 0; best && k < i->n_operands; k++) if (ir_operand(i, k) == v) need(c, i, k, best);
}

/* A load in a layout from which lanes would read pieces of sectors: read in wide pieces, then exchanged within warps. */
static void fix_load(Ctx *c, Instr *i)
{
    int axis, width = kernel_access_bytes(c->f, i);
    Value *v = ir_result(i);
    kernel_unit_axis(c->f, i, &axis);
    if (v->type->kind != TYPE_TILE || !v->type->layout || axis < 0 || width < 16 || type_elements(v->type) < 256) return;
    int bytes = dtype_bytes(v->type->dtype);
    const Layout *l = layouts_get(&c->p->layouts, v->type);
    if (v->type->shape[axis] * bytes < 32 || sector_use(l, axis, bytes, width) >= 90) return;
    const Layout *w = layout_vectorize(&c->s->arena, l, axis, bytes, width);
    if (w && !layout_equal(l, w) && sector_use(w, axis, bytes, width) >= 90 && layout_convert_within(&c->s->arena, w, l, bytes)) result_in(c, i, 0, w);
}

static void fix(Ctx *c, Block *blk);

/* All tiles of a gather, scatter or atomic in one layout; virtual ones stay virtual unless there is no other. */
static void fix_indexed(Ctx *c, Instr *i)
{
    LayoutTable *lt = &c->p->layouts;
    const Layout *l = NULL;
    int tile = -1;
    for (int k = 0; k < i->n_results && !l; k++)
        if (i->results[k].type->kind == TYPE_TILE && i->results[k].type->layout) l = layouts_get(lt, i->results[k].type);
    for (int k = i->n_operands; k-- > 1 && !l;) {
        const Type *t = ir_operand(i, k)->type;
        if (t->kind != TYPE_TILE) continue;
        tile = k;
        if (t->layout) l = layouts_get(lt, t);
    }
    if (!l && tile >= 0) { need_any(c, i, tile); l = layouts_get(lt, ir_operand(i, tile)->type); }
    for (int k = 1; l && k < i->n_operands; k++)
        if (ir_operand(i, k)->type->kind == TYPE_TILE && ir_operand(i, k)->type->layout) need(c, i, k, l);
}

static void fix_instr(Ctx *c, Instr *i)
{
    Arena *a = &c->s->arena;
    LayoutTable *lt = &c->p->layouts;
    switch ((int)i->op) {
    case OP_FOR: carried_operands(c, i, 3, i->blocks[0]->args + 1, i->n_results); break;
    case OP_WHILE: carried_operands(c, i, 0, i->blocks[0]->args, i->n_results); break;
    case OP_YIELD: {
        Instr *p = i->block->parent;
        if (!p || p->op == OP_REDUCE || p->op == OP_SCAN) return;
        if (p->op == OP_FOR) carried_operands(c, i, 0, p->blocks[0]->args + 1, p->n_results);
        else if (p->op == OP_WHILE) carried_operands(c, i, 0, p->blocks[0]->args, p->n_results);
        else for (int k = 0; k < p->n_results; k++) if (p->results[k].type->kind == TYPE_TILE) need(c, i, k, layouts_get(lt, p->results[k].type));
        return;
    }
    case OP_CONDITION: carried_operands(c, i, 1, i->block->parent->blocks[1]->args, i->n_operands - 1); return;
    case OP_BROADCAST:
        if (ir_result(i)->type->layout) {
            const Layout *l = layouts_get(lt, ir_result(i)->type);
            for (int x = 0; x < ir_result(i)->type->rank; x++)
                if (ir_operand(i, 0)->type->shape[x] == 1 && ir_result(i)->type->shape[x] != 1) l = layout_slice(a, l, x, true);
            if (ir_operand(i, 0)->type->layout) need(c, i, 0, l);
        }
        return;
    case OP_REDUCE_SUM: case OP_REDUCE_PROD: case OP_REDUCE_MAX: case OP_REDUCE_MIN: case OP_REDUCE_ANY: case OP_REDUCE_ALL: case OP_REDUCE:
    case OP_ARGMAX: case OP_ARGMIN: {
        need_any(c, i, 0);
        const Layout *l = layouts_get(lt, ir_operand(i, 0)->type);
        int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
        if (ir_result(i)->type->kind == TYPE_TILE) result_in(c, i, 0, layout_slice(a, l, axis, !ir_attr_int(i, ATTR_DROP, 0)));
        break;
    }
    case OP_SCAN: case OP_SCAN_SUM: case OP_SCAN_PROD: case OP_SCAN_MAX: {
        const Layout *l = kernel_row_layout(a, c->p, ir_operand(i, 0)->type, (int)ir_attr_int(i, ATTR_AXIS, 0));
        if (!l) ir_fail(c->s, i->loc, "no layout to scan %s", type_string(c->s, ir_operand(i, 0)->type));
        need(c, i, 0, l);
        result_in(c, i, 0, l);
        break;
    }
    case OP_LOAD:
        for (int k = 0; k < i->n_operands; k++) need_any(c, i, k);
        fix_load(c, i);
        return;
    case OP_STORE:
        for (int k = 0; k < i->n_operands; k++) need_any(c, i, k);
        if (kernel_bulk_store(c->s, c->f, c->p, i)) return;
        store_layout(c, i);
        fix_store(c, i);
        return;
    case OP_COPY:
        for (int k = 2; k < i->n_operands; k++)
            if (grouped(ir_operand(i, k))) need(c, i, k, kernel_copy_layout(a, ir_operand(i, 0)->type, copied(c, i), c->p->target->wave, c->p->warps));
        return;
    case OP_GATHER: case OP_SCATTER: case OP_ATOMIC_RMW: case OP_ATOMIC_CAS: fix_indexed(c, i); return;
    case OP_MMA_SYNC: {
        if (!strcmp(ir_attr(i, ATTR_INSTR)->s, "fma")) {
            need(c, i, 2, layouts_get(lt, ir_result(i)->type));
            for (int k = 0; k < 2; k++) need_any(c, i, k);
        } else {
            for (int k = 0; k < 3; k++) {
                Value *v = ir_operand(i, k);
                if (v->type->kind != TYPE_TILE) continue;
                /* AMD: lanes of a fragment have 16 bytes along K: loaded as it lies */
                if (k < 2 && c->p->target->kind == TARGET_HIP && v->def && v->def->op == OP_LOAD && ir_use_count(v) == 1)
                    v->type = layouts_typed(lt, type_with_layout(c->s, v->type, NULL), fragment(c, i, k));
                need(c, i, k, fragment(c, i, k));
            }
            result_in(c, i, 0, fragment(c, i, 2));
            ir_set_attr(c->s, i, a_int(ATTR_COUNT, c->g[find(c, ir_result(i)->id)].warps[1]));
        }
        return;
    }
    case OP_WGMMA:
        if (!kernel_is_zero(ir_operand(i, 2))) need(c, i, 2, layouts_get(lt, ir_result(i)->type));     /* a virtual zero: the first step does not add */
        if (ir_operand(i, 0)->type->kind == TYPE_TILE) {
            Value *v = ir_operand(i, 0);        /* read from a slot for this product alone: as it wants it */
            if (v->def && v->def->op == OP_SHARED_READ && ir_use_count(v) == 1) v->type = layouts_typed(lt, type_with_layout(c->s, v->type, NULL), fragment(c, i, 0));
            need(c, i, 0, fragment(c, i, 0));
        }
        return;
    case OP_CLUSTER_COMBINE: fix_combine(c, i); return;
    case OP_RING_READ: {
        int parts = (int)ir_attr_int(i, ATTR_COUNT, 1);
        const Layout *l = layout_concat(a, kernel_slot_fragments(c->s, c->p, i, (int)(ir_result(i)->type->shape[1] / parts)), 1, parts);
        if (!layout_equal(l, layouts_get(lt, ir_result(i)->type))) result_in(c, i, 0, l);
        return;
    }
    case OP_CONVERT: case OP_MATERIALIZE: return;
    default: break;
    }
    if (op_info[i->op].flags & OPF_ELEM) {
        if (i->n_results && ir_result(i)->type->layout)
            for (int k = 0; k < i->n_operands; k++)
                if (ir_operand(i, k)->type->layout) need(c, i, k, layouts_get(lt, ir_result(i)->type));
    } else if (i->op != OP_SPLAT && i->op != OP_ARANGE && i->op != OP_RESHAPE && i->op != OP_PERMUTE) {
        for (int k = 0; k < i->n_operands; k++) need_any(c, i, k);
    } else if ((i->op == OP_RESHAPE || i->op == OP_PERMUTE) && ir_result(i)->type->layout) {
        need_any(c, i, 0);
    }
    for (int k = 0; k < i->n_blocks; k++) fix(c, i->blocks[k]);
}

static void fix(Ctx *c, Block *blk)
{
    for (Instr *i = blk->first, *next; i; i = next) {
        next = i->next;
        fix_instr(c, i);
    }
}

/* Index tiles and values of gathers, scatters and atomics meet element by element: one layout for all of them. */
static void link_indexed(void *user, Instr *i)
{
    Ctx *c = user;
    MemParts m;
    if (i->op == OP_LOAD || i->op == OP_STORE || !ir_mem_parts(i, &m)) return;
    for (int k = 0; k < m.rank; k++) for (int j = 0; j < 2; j++) {
        if (m.result) unite(c, m.result, m.idx[k]);
        if (m.values[j]) unite(c, m.values[j], m.idx[k]);
        if (m.mask) unite(c, m.mask, m.idx[k]);
        unite(c, m.idx[0], m.idx[k]);
        if (m.result && m.values[j]) unite(c, m.result, m.values[j]);
    }
}

void kernel_layout(Session *s, Func *f, KernelPlan *p)
{
    Ctx c = { .s = s, .f = f, .p = p, .n = f->module->next_id };
    c.g = arena_array(&s->arena, Group, c.n);
    for (uint32_t i = 0; i < c.n; i++) c.g[i].parent = (int)i;
    ir_walk(f->body, link_values, &c);
    ir_walk(f->body, link_indexed, &c);
    ir_walk(f->body, note_anchors, &c);
    ir_walk(f->body, assign_all, &c);
    fix(&c, f->body);
    kernel_bulk_loads(s, f, p);
    kernel_shift_note(s, f, p);
}
