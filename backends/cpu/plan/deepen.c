/* deepen.c: products of a loop over K become deeper. Tile IR before the plan is made:
 *
 *     for k = lo to hi with (acc)              for k = lo to mid step u with (acc)
 *         a = load A[i, k*16] [64, 16]             a = load A[i, k*16] [64, u*16]
 *         b = load B[k*16, j] [16, 64]    ->       b = load B[k*16, j] [u*16, 64]
 *         acc = mma(a, b, acc)                     acc = mma(a, b, acc)
 *                                              for k = mid to hi ...: as before
 *
 * A product reads and writes its accumulator once, however deep it is, so that the accumulator is moved less
 * often between memory and registers. The wide window is the windows of `u` iterations side by side, so it
 * has the same elements, and the sums are added in the same order. Both packed operands together take at most
 * a seventh of the second cache, and a panel of B at most half of the first, because each block of rows of A
 * reads all of the panel. A loop is left as it is if it holds anything else. */
#include "backends/cpu/product/mma.h"
#include "backends/cpu/product/thin.h"

enum {
    MAX_DEPTH = 512,
    PART_OF_CACHE = 7,
    PART_OF_FIRST = 2,
    MAX_THIN_DEPTH = 4096, /* of a product of few rows; */
    SHALLOWER = 8          /* and by how much the loop is shallower that takes what remains */
};

typedef struct Deep {
    Session *session;
    Func *func;
    const CpuTarget *target;
    Instr *loop, *mma;
    int64_t times; /* the iterations that one product takes */
} Deep;

/* The constant by which the value is a multiple of the loop's counter; 0: it is none. */
static int64_t times_counter(const Instr *loop, const Value *v)
{
    int64_t factor;
    const Value *k = loop->blocks[0]->args[0];
    if (!v->def || v->def->op != OP_MUL) return 0;
    if (ir_operand(v->def, 0) == k && ir_is_const(ir_operand(v->def, 1), &factor)) return factor;
    if (ir_operand(v->def, 1) == k && ir_is_const(ir_operand(v->def, 0), &factor)) return factor;
    return 0;
}

/* The axis of the tensor along which the load goes on by whole windows from iteration to iteration; -1: it
 * does something else. */
static int axis_of_steps(const Deep *d, const Instr *load)
{
    MemParts m;
    int axis = -1;
    if (!ir_mem_parts(load, &m) || m.token || ir_attr(load, ATTR_STEPS)) return -1;
    const int64_t *extents = ir_attr(load, ATTR_EXTENTS)->v;
    for (int a = 0; a < m.rank; a++) {
        if (ir_defined_outside(m.idx[a], d->loop->blocks[0])) continue;
        if (axis >= 0 || extents[a] < 1 || times_counter(d->loop, m.idx[a]) != extents[a]) return -1;
        axis = a;
    }
    return axis;
}

/* Whether tile axis `k` of the load's result is this axis of the tensor. */
static bool is_tile_axis(const Instr *load, int axis, int k)
{
    const Attr *extents = ir_attr(load, ATTR_EXTENTS), *order = ir_attr(load, ATTR_ORDER);
    int axes[TILE_MAX_RANK], n = 0;
    for (int a = 0; a < extents->n; a++)
        if (extents->v[a] != -1) axes[n++] = a;
    return k < n && axes[order ? order->v[k] : k] == axis;
}

/* Operand number `k` of the product is a load, whose tile is deep along K. */
static bool operand_fits(const Deep *d, int k)
{
    const Instr *load = ir_operand(d->mma, k)->def;
    if (!load || load->op != OP_LOAD || load->block != d->loop->blocks[0]) return false;
    if (ir_use_count(ir_result(load)) != 1) return false;
    int axis = axis_of_steps(d, load);
    return axis >= 0 && is_tile_axis(load, axis, k == 0);
}

/* The loop multiplies and does nothing else. */
static bool matches(Deep *d)
{
    const Instr *loop = d->loop;
    int64_t step;
    if (loop->op != OP_FOR || loop->n_results != 1 || ir_loop_is(loop, LOOP_EDGE)) return false;
    if (!ir_is_const(ir_operand(loop, 2), &step) || step != 1) return false;
    const Block *body = loop->blocks[0];
    d->mma = ir_operand(body->last, 0)->def;
    if (!d->mma || d->mma->op != OP_MMA || d->mma->block != body) return false;
    if (ir_operand(d->mma, 2) != body->args[1] || ir_use_count(body->args[1]) != 1) return false;
    if (ir_use_count(ir_result(d->mma)) != 1 || !operand_fits(d, 0) || !operand_fits(d, 1)) return false;
    for (const Instr *i = body->first; i != body->last; i = i->next)
        if (i != d->mma && i->op != OP_LOAD && (i->n_results != 1 || ir_result(i)->type->kind == TYPE_TILE))
            return false;
    return true;
}

/* Of AMX, the operands are packed, and the sums stay in tiles while K runs, however few rows there are. */
static bool has_few_rows(const Deep *d)
{
    return ir_operand(d->mma, 0)->type->shape[0] <= MOST_THIN_ROWS &&
           !mma_is_amx(mma_kind(d->target, d->mma));
}

/* A product of few rows (thin.c) whose B lies row by row: it moves its sums as often, however deep it is. */
static bool goes_by_rows(const Deep *d)
{ return has_few_rows(d) && memory_unit_axis(d->func, ir_operand(d->mma, 1)->def) == 1; }

/* The bytes of a panel of B for each element along K. */
static int64_t panel_row_bytes(const Deep *d, MmaKind kind)
{
    const Value *b = ir_operand(d->mma, 1);
    int mr, nv;
    mma_block_shape(d->target, kind, ir_operand(d->mma, 0)->type->shape[0], b->type->shape[1], &mr, &nv);
    return (int64_t)nv * mma_vector_lanes(d->target, kind) * dtype_bytes(mma_operand_type(kind, b));
}

/* How many iterations one product takes: as many as fit the cache, and a power of two. Of a product of few
 * rows, B is read along K, which memory delivers the faster the longer its rows are. */
static int64_t choose_times(const Deep *d)
{
    MmaKind kind = mma_kind(d->target, d->mma);
    const Value *a = ir_operand(d->mma, 0), *b = ir_operand(d->mma, 1);
    int64_t deep = a->type->shape[1], times = 1;
    if (goes_by_rows(d)) return 1;
    if (has_few_rows(d)) {
        /* What stays in the first cache: half of it, or all, where several groups of rows read B from there.
         */
        bool several = a->type->shape[0] > MOST_AT_ONCE;
        int64_t row = dtype_bytes(mma_operand_type(kind, a)) * a->type->shape[0];
        int64_t most = d->target->first_cache / (several ? 1 : 2);
        while (2 * times * deep <= MAX_THIN_DEPTH && 2 * times * deep * row <= most) times *= 2;
        return times;
    }
    int64_t bytes = deep * (a->type->shape[0] * dtype_bytes(mma_operand_type(kind, a)) +
                               b->type->shape[1] * dtype_bytes(mma_operand_type(kind, b)));
    int64_t panel = mma_is_amx(kind) ? 0 : deep * panel_row_bytes(d, kind);
    while (2 * times * deep <= MAX_DEPTH && 2 * times * bytes <= d->target->second_cache / PART_OF_CACHE &&
           2 * times * panel <= d->target->first_cache / PART_OF_FIRST)
        times *= 2;
    return times;
}

/* Replaces a load of the copied loop by one of a window that is wider along the axis of K. */
static void widen(const Deep *d, Instr *load, int axis)
{
    Value *operands[4 + TILE_MAX_RANK];
    Attr attrs[16];
    int64_t extents[TILE_MAX_RANK];
    Builder b = ir_before(load);
    int n = 0;
    for (int k = 0; k < load->n_operands; k++) operands[k] = ir_operand(load, k);
    for (int k = 0; k < load->n_attrs; k++) {
        attrs[n] = load->attrs[k];
        if (attrs[n].key == ATTR_EXTENTS) {
            memcpy(extents, attrs[n].v, (size_t)attrs[n].n * sizeof *extents);
            extents[axis] *= d->times;
            attrs[n].v = extents;
        }
        n++;
    }
    Value *wide = ir_emit(&b, OP_LOAD, operands, load->n_operands, (Attrs){ attrs, n }, NULL);
    if (ir_result(load)->name) ir_set_name(wide, ir_result(load)->name);
    ir_replace(ir_result(load), wide);
    ir_erase(load);
}

static void deepen(Deep *d)
{
    ValueMap map;
    Instr *loop = d->loop;
    Builder b = ir_before(loop);
    DType t = loop->blocks[0]->args[0]->type->dtype;
    Value *lo = ir_operand(loop, 0), *hi = ir_operand(loop, 1), *times = ir_const_int(&b, t, d->times);
    /* mid = lo + max(hi - lo, 0) / times * times */
    Value *n = ir_bin(&b, OP_SUB, ir_bin(&b, OP_MAX, hi, lo), lo);
    Value *mid = ir_bin(&b, OP_ADD, lo, ir_bin(&b, OP_MUL, ir_bin(&b, OP_DIV, n, times), times));
    value_map_init(&map, &d->session->arena);
    Instr *wide = ir_clone(&b, loop, &map);
    ir_set_operand(wide, 1, mid);
    ir_set_operand(wide, 2, times);
    for (int k = 0; k < 2; k++) {
        const Instr *load = ir_operand(d->mma, k)->def;
        widen(d, value_map_get(&map, ir_operand(d->mma, k))->def, axis_of_steps(d, load));
    }
    ir_set_operand(loop, 0, mid);
    ir_set_operand(loop, 3, ir_result(wide));
}

static void deepen_in(Session *s, Func *f, const CpuTarget *t, Block *block)
{
    for (Instr *i = block->first, *next; i; i = next) {
        next = i->next;
        Deep d = { .session = s, .func = f, .target = t, .loop = i };
        for (int k = 0; k < i->n_blocks; k++) deepen_in(s, f, t, i->blocks[k]);
        if (!matches(&d)) {
            cpu_repeat(s, t, i);
            continue;
        }
        d.times = choose_times(&d);
        for (; d.times > 1; d.times = has_few_rows(&d) ? d.times / SHALLOWER : 1) deepen(&d);
    }
}

int64_t cpu_product_depth(Session *s, Func *f, const CpuTarget *t, const Instr *mma)
{
    const int64_t deep = ir_operand(mma, 0)->type->shape[1];
    Instr *loop = mma->block->parent;
    Deep d = { .session = s, .func = f, .target = t, .loop = loop };
    return loop && matches(&d) && d.mma == mma ? deep * choose_times(&d) : deep;
}

void cpu_deepen(Session *s, Func *f, const CpuTarget *t) { deepen_in(s, f, t, f->body); }
