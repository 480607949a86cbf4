/* sliced-loads: slices of a loaded tile become loads of their own windows.
 *
 *   %k = load K[%b, 0, %j, 0] {extents = [-1, 8, 64, 128]} : [8, 64, 128]
 *   %0 = reshape (slice %k {axis = 0, start = 0}) : [64, 128]
 *   %1 = reshape (slice %k {axis = 0, start = 1}) : [64, 128]   ..
 *
 * becomes
 *
 *   %0 = load K[%b, 0, %j, 0] {extents = [-1, -1, 64, 128]} : [64, 128]
 *   %1 = load K[%b, 1, %j, 0] {extents = [-1, -1, 64, 128]} : [64, 128]   ..
 *
 * A thread would hold the whole tile from the load to the last slice. The load of a slice stands where the
 * slice stood (in front of a loop that the whole was loaded in front of), and as an operand of a product goes
 * to shared memory by itself.
 *
 * An element of a slice is out of range exactly if its place in the tensor is, for both forms. An axis that
 * is dropped behind its slice becomes a position of the window, if that is proven to be within the tensor.
 *
 * Requires: a GPU; a tensor that the kernel only reads; a load without steps that slices alone read, each
 * element at most once, along axes whose elements do not lie side by side, as those of the last one do: one
 * access loads several of them; a sector of memory or more of each position. Keeps: everything. Does not
 * handle: slices that overlap, as those of stencils do, because their elements would be loaded several times.
 */
#include "ir/analysis/range.h"
#include "passes/pass.h"

enum { MOST_SLICES = 64 };

typedef struct SlicedLoads {
    PassContext *c;
    Func *f;
    Ranges *ranges; /* NULL until they are asked for */
    InstrList loads;
    int64_t made;
} SlicedLoads;

/* The tensor's axis that the tile's axis is. */
static int tensor_axis(const Instr *load, int axis)
{
    const Attr *e = ir_attr(load, ATTR_EXTENTS), *o = ir_attr(load, ATTR_ORDER);
    if (o) axis = (int)o->v[axis];
    for (int a = 0; e && a < e->n; a++)
        if (e->v[a] != -1 && axis-- == 0) return a;
    return -1;
}

static int64_t start_of(const Instr *slice) { return ir_attr_int(slice, ATTR_START, 0); }
static int axis_of(const Instr *slice) { return (int)ir_attr_int(slice, ATTR_AXIS, 0); }
static int64_t extent_of(const Instr *slice) { return ir_result(slice)->type->shape[axis_of(slice)]; }

static bool overlap(const Instr *a, const Instr *b)
{
    return axis_of(a) != axis_of(b) ||
           (start_of(a) < start_of(b) + extent_of(b) && start_of(b) < start_of(a) + extent_of(a));
}

/* Whether elements may lie side by side along the axis: one access loads several of them. */
static bool is_contiguous(const Func *f, const MemParts *m, int axis)
{ return axis == m->rank - 1 || f->params[m->param].stride[axis] == 1; }

/* Whether the load has a sector or more of each position of the tensor's axis: less is a part of a record,
 * whose parts lie in one sector and are loaded together. */
static bool has_sectors(const SlicedLoads *x, const Instr *load, int axis)
{
    const Value *v = &load->results[0];
    int64_t bytes = dtype_bytes(v->type->dtype);
    for (int a = 0; a < v->type->rank; a++)
        if (tensor_axis(load, a) > axis) bytes *= v->type->shape[a];
    return bytes >= x->c->options->target->sector_bytes;
}

/* Whether slices alone read the load, no element twice. */
static bool is_sliced(const SlicedLoads *x, const Instr *load)
{
    const Func *f = x->f;
    MemParts m;
    int n = 0;
    if (!is_constant_read(load) || load->op != OP_LOAD || load->n_results != 1 || !ir_mem_parts(load, &m) ||
        m.mask || ir_attr(load, ATTR_STEPS) || !m.result->uses || m.result->type->kind != TYPE_TILE)
        return false;
    for (const Use *u = m.result->uses; u; u = u->next) {
        if (u->user->op != OP_SLICE || ir_result(u->user)->type->kind != TYPE_TILE || n++ == MOST_SLICES)
            return false;
        int a = tensor_axis(load, axis_of(u->user));
        if (a < 0 || is_contiguous(f, &m, a) || !has_sectors(x, load, a)) return false;
        for (const Use *v = u->next; v; v = v->next)
            if (v->user->op == OP_SLICE && overlap(u->user, v->user)) return false;
    }
    return true;
}

/* Whether the position is within the tensor's axis in every program. */
static bool is_within(SlicedLoads *x, const MemParts *m, int axis, int64_t start)
{
    if (!x->ranges) x->ranges = ranges_new(x->f);
    RangeInfo first = range_of(x->ranges, m->idx[axis]),
              all = range_of_dim(x->f, x->f->params[m->param].dims[axis]);
    return first.lo >= 0 && first.hi < all.lo - start;
}

/* The reshape that drops the slice's axis, which has one position, and is all that reads it; NULL. */
static Instr *dropped_by(const Instr *slice)
{
    const Value *v = ir_result(slice);
    Instr *r = v->uses && !v->uses->next ? v->uses->user : NULL;
    if (!r || r->op != OP_RESHAPE || extent_of(slice) != 1 || ir_result(r)->type->rank != v->type->rank - 1)
        return NULL;
    for (int a = 0; a < v->type->rank - 1; a++)
        if (ir_result(r)->type->shape[a] != v->type->shape[a + (a >= axis_of(slice))]) return NULL;
    return r;
}

/* The attributes of the load of a window with `extent` positions of the axis; -1: one, without an axis. */
static Attrs slice_attrs(SlicedLoads *x, const Instr *load, int axis, int64_t extent)
{
    Attr *to = arena_array(&x->c->session->arena, Attr, (size_t)load->n_attrs);
    int tile_axis = 0;
    const Attr *e = ir_attr(load, ATTR_EXTENTS);
    for (int a = 0; a < axis; a++) tile_axis += e->v[a] != -1;
    for (int k = 0; k < load->n_attrs; k++) {
        to[k] = load->attrs[k];
        if (to[k].key != ATTR_EXTENTS && to[k].key != ATTR_ORDER) continue;
        int64_t *v = arena_array(&x->c->session->arena, int64_t, (size_t)to[k].n);
        int n = 0;
        for (int a = 0; a < to[k].n; a++) {
            int64_t was = load->attrs[k].v[a];
            if (to[k].key == ATTR_EXTENTS) v[n++] = a == axis ? extent : was;
            else if (extent != -1 || was != tile_axis) v[n++] = was - (extent == -1 && was > tile_axis);
        }
        to[k] = a_ints(to[k].key, v, n);
    }
    return (Attrs){ to, load->n_attrs };
}

/* Loads the slice's window in place of the slice. */
static void load_slice(SlicedLoads *x, Instr *load, Instr *slice)
{
    MemParts m;
    ir_mem_parts(load, &m);
    int axis = tensor_axis(load, axis_of(slice));
    Instr *drop = is_within(x, &m, axis, start_of(slice)) ? dropped_by(slice) : NULL;
    Value *operands[TILE_MAX_RANK + 2], *was = ir_result(drop ? drop : slice);
    Builder b = ir_before(slice->block == load->block ? slice : load);
    b.loc = slice->loc;
    for (int k = 0; k < load->n_operands; k++) operands[k] = ir_operand(load, k);
    if (start_of(slice))
        operands[1 + axis] =
            ir_bin(&b, OP_ADD, m.idx[axis], ir_const_int(&b, m.idx[axis]->type->dtype, start_of(slice)));
    Value *part = ir_emit(&b, OP_LOAD, operands, load->n_operands,
        slice_attrs(x, load, axis, drop ? -1 : extent_of(slice)), was->type);
    ir_set_name(part, was->name ? was->name : m.result->name);
    ir_replace(was, part);
    if (drop) ir_erase(drop);
    ir_erase(slice);
    x->made++;
}

static void note(void *user, Instr *i)
{
    SlicedLoads *x = user;
    if (is_sliced(x, i)) vec_push(x->c->scratch, &x->loads, i);
}

static bool sliced_loads_func(PassContext *c, Func *f)
{
    SlicedLoads x = { .c = c, .f = f };
    int64_t before;
    do {
        before = x.made;
        x.loads.len = 0;
        ir_walk(f->body, note, &x);
        for (size_t k = 0; k < x.loads.len; k++) {
            Instr *load = x.loads.data[k];
            while (load->results[0].uses) load_slice(&x, load, load->results[0].uses->user);
            ir_erase(load);
        }
    } while (x.made != before); /* a slice of a slice is one of a load now */
    pass_count(c, "slices of loads that are loads", x.made);
    return x.made > 0;
}

bool pass_sliced_loads(PassContext *c, Module *m)
{
    const Target *t = c->options->target;
    return t && t->kind != TARGET_CPU && pass_each_func(c, m, sliced_loads_func);
}
