/* groups.c: of layout: forms groups of values that meet element by element and therefore share a family of
 * layouts, and records what products, accesses and reductions want of each group. */
#include "passes/kernel/gather/runs.h"
#include "passes/kernel/layout/groups.h"
#include "passes/kernel/layout/windows.h"

static int find(Layouter *c, uint32_t id)
{
    int r = (int)id;
    while (c->parent[r] != r) {
        c->parent[r] = c->parent[c->parent[r]];
        r = c->parent[r];
    }
    return r;
}

Group *group_of(Layouter *c, const Value *v)
{
    Group **g = &c->g[find(c, v->id)];
    if (!*g) *g = arena_new(&c->s->arena, Group);
    return *g;
}

bool group_takes(const Value *v) { return v->type->kind == TYPE_TILE && !kernel_is_cheap(v); }

bool group_takes_now(Layouter *c, const Value *v)
{ return v->type->kind == TYPE_TILE && !kernel_is_cheap_in(&c->cheap, v); }

static void unite(Layouter *c, const Value *a, const Value *b)
{
    if (!group_takes_now(c, a) || !group_takes_now(c, b)) return;
    int x = find(c, a->id), y = find(c, b->id);
    if (x != y) c->parent[y] = x;
}

static void link_carried(Layouter *c, Instr *i)
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

/* The result has the layout of operand 0, except for axes of extent 1. */
static bool follows_operand(Op op)
{ return op == OP_BROADCAST || (op_is_along_axis(op) && op_family(op) != OPS_SORT); }

static void link_values(void *user, Instr *i)
{
    Layouter *c = user;
    const OpInfo *info = &op_info[i->op];
    if (info->flags & OPF_ELEM) {
        for (int k = 0; k < i->n_operands; k++)
            if (i->n_results && type_same_shape(ir_operand(i, k)->type, ir_result(i)->type))
                unite(c, ir_result(i), ir_operand(i, k));
    } else if (i->op == OP_REDUCE || i->op == OP_SCAN) {
        for (int k = 0; k < i->n_operands; k++) {
            unite(c, ir_operand(i, 0), ir_operand(i, k));
            if (ir_operand(i, k)->type->rank == i->results[k].type->rank)
                unite(c, &i->results[k], ir_operand(i, k));
        }
    } else if (follows_operand(i->op) && ir_operand(i, 0)->type->rank == ir_result(i)->type->rank) {
        unite(c, ir_result(i), ir_operand(i, 0));
    } else if (i->op == OP_MMA_SYNC || op_is_wgmma(i->op)) {
        unite(c, ir_result(i), ir_operand(i, 2));
    } else if (i->op == OP_OPAQUE) {
        unite(c, ir_result(i), ir_operand(i, 0));
    } else if (i->op == OP_WGMMA_WAIT || i->op == OP_WORKSPACE_COMBINE) {
        for (int k = 0; k < i->n_results; k++) unite(c, &i->results[k], ir_operand(i, k));
    } else if (i->op == OP_SHARE_COMBINE || (i->op == OP_CLUSTER_COMBINE && !ir_attr(i, ATTR_AXIS))) {
        unite(c, ir_result(i), ir_operand(i, 0));
    }
    link_carried(c, i);
}

static void note_shape(Layouter *c, const Value *v, bool mma)
{
    if (!group_takes_now(c, v)) return;
    Group *g = group_of(c, v);
    g->rank = v->type->rank;
    if (mma && !g->box_of_mma) {
        memset(g->box, 0, sizeof g->box);
        g->box_of_mma = true;
    }
    if (g->box_of_mma && !mma) return;
    for (int a = 0; a < v->type->rank; a++)
        if (v->type->shape[a] > g->box[a]) g->box[a] = v->type->shape[a];
    if (dtype_bytes(v->type->dtype) > g->elem_bytes) g->elem_bytes = dtype_bytes(v->type->dtype);
}

static int access_width(Layouter *c, const Instr *i)
{ return kernel_slides(c->f, c->p, i) ? 16 : kernel_access_bytes(c->f, i); }

/* The bytes of the vectors that a lane should have of what is loaded or stored. */
static int wanted_width(Layouter *c, Instr *i)
{
    int width = access_width(c, i), dense = kernel_dense_bytes(c->f, c->p, i);
    return width > dense ? width : dense;
}

/* Whether vectors of 16 bytes are impossible, because addresses are not multiples of 16 or rows of the tile
 * are no whole number of vectors. */
bool group_is_odd(Layouter *c, const Instr *i, const Value *v, int axis)
{ return access_width(c, i) < 16 || v->type->shape[axis] * dtype_bytes(v->type->dtype) % 16 != 0; }

/* The cost of the access by element, and by unaligned vectors (unaligned_vectors.c). */
static void note_shift(Layouter *c, Group *g, const Instr *i, const Value *v, int axis)
{
    int elem = dtype_bytes(v->type->dtype), by_element, n = 16 / elem;
    if (!group_is_odd(c, i, v, axis)) return;
    g->unfit |= !kernel_may_shift(c->f, c->p, i) || (g->odd && g->odd_axis != axis);
    if (g->unfit) return;
    g->odd_axis = axis;
    int64_t all = type_elements(v->type);
    int64_t rows = all / v->type->shape[axis], row = (v->type->shape[axis] + n - 1) / n, vectors = rows * row;
    int64_t beside = rows < c->p->warps ? (c->p->warps + rows - 1) / rows : 1; /* warps to a row */
    int chain = (int)((row + beside * c->p->target->wave - 1) / (beside * c->p->target->wave));
    g->shifted += vectors * kernel_shift_cost(c->f, c->p, i, chain, 16, &by_element);
    g->by_element += vectors * by_element;
    g->odd = true;
}

const LayoutShared *group_copied(Layouter *c, const Instr *copy)
{ return layouts_shared(&c->p->layouts, ir_operand(copy, 0)->type); }

/* The matrices of a batch whose elements lie side by side in memory, or those of another axis that a reshape
 * merges with the operand's rows: a lane has one element of each of several matrices. Fragments have several
 * along K, so that a lane should have these, too. */
static void note_along_k(Layouter *c, const Instr *product, int side)
{
    const Value *v = ir_operand(product, side), *whole;
    if (!v->def || v->def->op != OP_RESHAPE || dtype_bytes(v->type->dtype) > 2) return;
    whole = ir_operand(v->def, 0);
    const Type *t = whole->type;
    if (c->p->target->kind != TARGET_CUDA || t->kind != TYPE_TILE || t->rank != 3 ||
        t->shape[2] != v->type->shape[1] || !group_takes_now(c, whole))
        return;
    group_of(c, whole)->along_k = 1 + (side ? 1 : 2);
}

/* A product determines the layout of its accumulator, and that its operands keep their rows together. */
static void note_product(Layouter *c, Instr *i, bool wgmma)
{
    Group *g = group_of(c, ir_result(i));
    const char *name = ir_attr(i, ATTR_INSTR)->s;
    g->mma = true;
    if (wgmma) g->rows = true; /* Warpgroups are side by side in M: each of them reads all of B once. */
    if (!strcmp(name, "fma")) g->plain = i;
    else if (!g->native) {
        g->kind = kernel_mma_kind(c->s, name);
        g->native = true;
    }
    if (ir_attr(i, ATTR_PARTS) && !g->products) {
        g->products = (int)ir_attr_int(i, ATTR_PARTS, 1);
        g->height = (int)(ir_result(i)->type->shape[0] / g->products) / layout_mma_info(g->kind)->m;
    }
    if (wgmma && group_takes_now(c, ir_operand(i, 0)) && !group_of(c, ir_operand(i, 0))->left)
        group_of(c, ir_operand(i, 0))->left = i;
    for (int k = 0; k < 2; k++) note_along_k(c, i, k);
    for (int k = 0; k < 2; k++) { /* If a product feeds another product, keep its rows together. */
        Value *v = ir_operand(i, k);
        while (v->def && (v->def->op == OP_CAST || v->def->op == OP_CONVERT)) v = ir_operand(v->def, 0);
        if (group_takes_now(c, v)) group_of(c, v)->rows = true;
    }
}

/* The positions of a copy have the layout in which the threads that copy have their rows. */
static void note_copy(Layouter *c, const Instr *i)
{
    for (int k = 2; k < i->n_operands; k++) {
        if (!group_takes_now(c, ir_operand(i, k))) continue;
        Group *g = group_of(c, ir_operand(i, k));
        g->access_bytes = INT32_MAX;
        g->in_vectors += type_elements(ir_operand(i, k)->type);
        g->unit = group_copied(c, i)->order[0];
        g->access_elem = dtype_bytes(ir_operand(i, 0)->type->dtype);
        g->access_width = 16;
    }
}

/* A load or a store needs vectors along the axis that is contiguous in memory. Among several, the access that
 * moves the most bytes decides. A load has priority over a store of equal size, because a store can stage its
 * value. */
static void note_wide(Group *g, const Value *v, bool loads, int axis, int width)
{
    int elem = dtype_bytes(v->type->dtype);
    int64_t bytes = 2 * type_elements(v->type) * elem + loads;
    g->in_vectors += type_elements(v->type);
    if (bytes <= g->access_bytes) return;
    g->access_bytes = bytes;
    g->unit = axis;
    g->access_elem = elem;
    g->access_width = width;
}

/* Windows of one tensor that lie a few rows apart overlap, so that a lane should have neighbouring rows. */
static void note_window(Layouter *c, Group *g, const Instr *i, const MemParts *m)
{
    MemParts n;
    int axis;
    if (i->op != OP_LOAD || m->token || m->mask || c->p->target->kind != TARGET_CUDA) return;
    if (!g->window || !ir_mem_parts(g->window, &n) || n.param != m->param) g->window = i;
    for (int k = 0; k < m->rank && !g->near; k++) {
        int64_t apart = window_apart(g->window, i, k);
        if (apart && window_tile_axis(i, k, &axis) && axis != g->unit && apart < m->result->type->shape[axis])
            g->near = 1 + axis;
    }
}

static void note_access(Layouter *c, Instr *i, const MemParts *m)
{
    Value *v = m->result ? m->result : m->values[0];
    int axis;
    kernel_unit_axis(c->f, i, &axis);
    if (!group_takes_now(c, v) || axis < 0) return;
    Group *g = group_of(c, v);
    if (type_elements(v->type) > g->most) g->most = type_elements(v->type);
    g->given++;
    note_shift(c, g, i, v, axis);
    note_wide(g, v, i->op == OP_LOAD, axis, wanted_width(c, i));
    note_window(c, g, i, m);
}

/* Whether the access gathers from a table of so few bytes that lanes touch the same lines wherever they look.
 */
static bool looks_up(const Layouter *c, const Instr *i, const MemParts *m)
{
    enum { TABLE = 2048 };
    const Param *p = &c->f->params[m->param];
    int64_t bytes = dtype_bytes(p->type->dtype);
    for (int a = 0; a < m->rank; a++) {
        int64_t extent = c->f->dims[p->dims[a]].extent;
        if (extent < 1 || extent > TABLE || (bytes *= extent) > TABLE) return false;
    }
    return i->op == OP_GATHER;
}

/* A gather, scatter or atomic operation needs vectors if its indices count by ones. Other elements are each
 * at an address of their own. */
static void note_indexed(Layouter *c, const Instr *i)
{
    MemParts m;
    int axis;
    for (int k = 0; k < i->n_operands + i->n_results; k++) {
        const Value *v = k < i->n_operands ? ir_operand(i, k) : &i->results[k - i->n_operands];
        if (group_takes_now(c, v)) group_of(c, v)->unfit = true;
    }
    if (!ir_mem_parts(i, &m)) return;
    const Value *v = m.result ? m.result : m.values[0];
    if (!group_takes_now(c, v)) return;
    int n = kernel_indexed_run(c->f, &c->ranges, i, &axis);
    if (n > 1) note_wide(group_of(c, v), v, i->op == OP_GATHER, axis, n * dtype_bytes(v->type->dtype));
    else if (!looks_up(c, i, &m)) group_of(c, v)->one_by_one += type_elements(v->type);
}

/* Of several reshapes, that of the largest tile counts, and the last one of these. */
static void note_reshape(const Instr **known, const Instr *i)
{
    if (!*known || type_elements(ir_result(*known)->type) <= type_elements(ir_result(i)->type)) *known = i;
}

static bool moves_shape(const Instr *i)
{ return i->op == OP_RESHAPE || i->op == OP_PERMUTE || i->op == OP_SLICE || i->op == OP_CONCAT; }

/* Whether the value is a single position along an axis of another one, perhaps without that axis. */
static bool is_component(const Instr *i)
{
    if (i->op == OP_RESHAPE && ir_operand(i, 0)->def) i = ir_operand(i, 0)->def;
    return i->op == OP_SLICE && ir_result(i)->type->kind == TYPE_TILE &&
           ir_result(i)->type->shape[ir_attr_int(i, ATTR_AXIS, 0)] == 1;
}

static void note_moved(Layouter *c, const Instr *i)
{
    if (!moves_shape(i) || !group_takes_now(c, ir_result(i)) || !group_takes_now(c, ir_operand(i, 0))) return;
    Group *g = group_of(c, ir_result(i));
    if (g == group_of(c, ir_operand(i, 0))) return;
    if (!g->moved) g->moved = i;
    if (is_component(i)) g->component_of = g->moved == i || g->component_of;
    g->taken += is_component(i);
    if (i->op == OP_RESHAPE) group_of(c, ir_operand(i, 0))->given++;
}

/* Outside of loops a conversion of the result is done once. */
static void note_dropped(Layouter *c, const Instr *i)
{
    if (!op_reduces(i->op) || i->n_results != 1 || !ir_attr_int(i, ATTR_DROP, 0) ||
        !group_takes_now(c, ir_result(i)) || !group_takes_now(c, ir_operand(i, 0)))
        return;
    Group *g = group_of(c, ir_result(i));
    if (!g->reduced) g->reduced = i;
    if (!g->dropped && ir_loop_around(i)) g->dropped = i;
}

static void note_ordered(Group *g, int axis)
{
    g->ordered = true;
    if (axis >= 0) g->runs = g->runs && g->runs != axis + 1 ? -1 : axis + 1;
}

/* What reductions, scans and searches along an axis want of their operand's group. */
static void note_along_axis(Layouter *c, const Instr *i)
{
    const Value *x = i->n_operands ? ir_operand(i, 0) : NULL;
    bool takes = x && group_takes_now(c, x);
    if (takes && follows_operand(i->op) && i->op != OP_BROADCAST &&
        ir_attr_int(i, ATTR_AXIS, 0) == x->type->rank - 1)
        group_of(c, x)->rows = true;
    if (takes && op_reduces(i->op) && x->type->rank == 2 && !ir_attr_int(i, ATTR_AXIS, 0))
        group_of(c, x)->columns = true;
    if (!op_is_along_axis(i->op) || op_reduces(i->op)) return;
    int axis = i->op == OP_TOPK ? -1 : (int)ir_attr_int(i, ATTR_AXIS, x->type->rank - 1);
    for (int k = 0; k < i->n_operands && i->op != OP_SORT; k++)
        if (group_takes_now(c, ir_operand(i, k))) note_ordered(group_of(c, ir_operand(i, k)), axis);
    if (group_takes_now(c, ir_result(i))) note_ordered(group_of(c, ir_result(i)), axis);
}

/* Operations that make a tile of another group by shape alone. */
static void note_shape_change(Layouter *c, Instr *i)
{
    if ((i->op == OP_RESHAPE || i->op == OP_PERMUTE) && group_takes_now(c, ir_result(i)) &&
        group_takes_now(c, ir_operand(i, 0))) {
        Group *to = group_of(c, ir_result(i));
        if (i->op == OP_PERMUTE) {
            to->permute = i;
            if (group_of(c, ir_operand(i, 0)) != to) group_of(c, ir_operand(i, 0))->permute_to = i;
        } else {
            note_reshape(&to->reshape, i);
            note_reshape(&group_of(c, ir_operand(i, 0))->reshape_to, i);
        }
    }
    note_moved(c, i);
    if (i->op == OP_SLICE || i->op == OP_CONCAT) group_note_component(c, i);
}

/* A tile from which an operand is computed (pipeline/stage_computed.c) needs vectors along the axis that is
 * contiguous in its stage. With roles it has the fragments of the operand. */
static void note_read(Layouter *c, const Instr *i)
{
    const Value *v = ir_result(i), *stage = ir_operand(i, 0);
    if (!stage->def || stage->def->op != OP_SHARED_STAGE || v->type->rank != 2 || !group_takes_now(c, v))
        return;
    note_wide(group_of(c, v), v, true, group_copied(c, i)->order[0], 16);
}

/* A tile that consumers write for products (staged-operands) needs vectors along the axis that is contiguous
 * there. One that products give has their fragments. */
static void note_write(Layouter *c, const Instr *i)
{
    const Value *v = ir_operand(i, 1), *stage = ir_operand(i, 0);
    if (!stage->def || stage->def->op != OP_SHARED_STAGE || v->type->rank != 2 || !group_takes_now(c, v))
        return;
    note_wide(group_of(c, v), v, true, group_copied(c, i)->order[0], 16);
}

static void note_memory(Layouter *c, Instr *i)
{
    MemParts m;
    if (i->op == OP_SHARED_WRITE) note_write(c, i);
    if (i->op == OP_COPY) note_copy(c, i);
    if (i->op == OP_SHARED_READ) note_read(c, i);
    if (i->op == OP_GATHER || i->op == OP_SCATTER || i->op == OP_ATOMIC_RMW || i->op == OP_ATOMIC_CAS)
        note_indexed(c, i);
    if ((i->op == OP_LOAD || i->op == OP_STORE) && ir_mem_parts(i, &m)) note_access(c, i, &m);
}

/* Records what an operation wants of the groups of its operands and results. */
static void note_anchors(void *user, Instr *i)
{
    Layouter *c = user;
    bool wgmma = op_is_wgmma(i->op), mma = i->op == OP_MMA_SYNC || wgmma;
    for (int k = 0; k < i->n_results; k++) note_shape(c, &i->results[k], mma);
    for (int b = 0; b < i->n_blocks; b++)
        for (int k = 0; k < i->blocks[b]->n_args; k++) note_shape(c, i->blocks[b]->args[k], false);
    if (mma) note_product(c, i, wgmma);
    note_along_axis(c, i);
    if (i->op == OP_CLUSTER_COMBINE && ir_attr(i, ATTR_AXIS)) {
        group_of(c, ir_result(i))->combine = i;
        group_of(c, ir_operand(i, 0))->combined = true;
    }
    note_shape_change(c, i);
    note_dropped(c, i);
    note_memory(c, i);
}

/* Index tiles and values of gathers, scatters and atomics are used element by element, so all of them have
 * one layout. */
static void link_indexed(void *user, Instr *i)
{
    Layouter *c = user;
    MemParts m;
    if (i->op == OP_LOAD || i->op == OP_STORE || !ir_mem_parts(i, &m)) return;
    for (int k = 0; k < m.rank; k++)
        for (int j = 0; j < 2; j++) {
            if (m.result) unite(c, m.result, m.idx[k]);
            if (m.values[j]) unite(c, m.values[j], m.idx[k]);
            if (m.mask) unite(c, m.mask, m.idx[k]);
            unite(c, m.idx[0], m.idx[k]);
            if (m.result && m.values[j]) unite(c, m.result, m.values[j]);
        }
}

/* Sets Group.to_left: walks from left operands back through reshapes, permutations and joins to the tiles
 * that they are made of. */
static void note_ways_to_left(Layouter *c)
{
    InstrList moves = { 0 };
    bool again = true;
    ir_collect(&c->s->arena, c->f->body, OP_RESHAPE, &moves);
    ir_collect(&c->s->arena, c->f->body, OP_CONCAT, &moves);
    ir_collect(&c->s->arena, c->f->body, OP_PERMUTE, &moves);
    while (again) {
        again = false;
        for (size_t n = 0; n < moves.len; n++) {
            Instr *i = moves.data[n];
            if (!group_takes_now(c, ir_result(i))) continue;
            const Group *to = group_of(c, ir_result(i));
            for (int k = 0; k < i->n_operands && (to->left || to->to_left); k++) {
                Group *g = group_takes_now(c, ir_operand(i, k)) ? group_of(c, ir_operand(i, k)) : NULL;
                if (!g || g == to || g->to_left == i || g->left || g->mma) continue;
                if (g->to_left &&
                    type_elements(ir_result(g->to_left)->type) >= type_elements(ir_result(i)->type))
                    continue;
                g->to_left = i;
                again = true;
            }
        }
    }
}

void group_all(Layouter *c)
{
    c->n = c->f->module->next_id;
    c->g = arena_array(&c->s->arena, Group *, c->n);
    c->parent = arena_array(&c->s->arena, int, c->n);
    c->cheap.size = arena_array(&c->s->arena, uint16_t, c->n);
    for (uint32_t i = 0; i < c->n; i++) c->parent[i] = (int)i;
    ir_walk(c->f->body, link_values, c);
    ir_walk(c->f->body, link_indexed, c);
    ir_walk(c->f->body, note_anchors, c);
    note_ways_to_left(c);
}
