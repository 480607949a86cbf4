/* row_start.c: kernels whose rows are accessed by words, wherever they begin.
 *
 *   %x = load %X[%r, 0]; .. %s = reduce_sum %x; .. store %Y[%r, 0] = %y      rows of any number of elements
 *
 * An access of a warp has 128 bytes then, which memory needs no wider, and nothing is shifted. Rows of which
 * nothing but numbers is stored go by whole vectors from an aligned address on, as no store asks for words
 * that begin as they do:
 *
 *   %x = load %X[%r, 0]; .. %k = argmax %x; store %PLACE[%r] = %k
 *
 * Rows that begin within a word are held from that word on (backends/gpu/memory/emit_row_start.c says how):
 * the place of an element within the tile differs from row to row, so that nothing but the rows' accesses may
 * depend on it, and positions that argmax and argmin find, which count from the row's begin.
 */
#include "passes/kernel/kernel.h"

enum {
    WORD = 4,            /* bytes of an access of a lane, of which an access of a warp has 128 */
    VECTOR = 16,         /* rows that all begin at multiples of it are accessed by whole vectors */
    LONG_ROW = 16 << 10, /* bytes from which on rows are worth storing across words (bench/notes/rows.md) */
};

typedef struct RowStarts {
    const Func *f;
    const KernelPlan *p;
    int bytes, least;   /* of an element of all rows that are loaded; of the narrowest that is stored */
    int weights;        /* vectors of one dimension */
    int align;          /* bytes of which all rows begin at multiples */
    int64_t begin, row; /* row_begin of the last access; the bytes of a row */
    bool places;        /* positions along the row are allowed, and gathers from inputs */
    bool begun, odd, mixed, stores, ok;
} RowStarts;

bool kernel_is_row_tile(const Type *t) { return t->kind == TYPE_TILE && (t->rank != 1 || t->shape[0] != 1); }

/* Where all rows begin at one distance from a multiple of `wide` bytes: the multiple of which that is known
 * to be, `wide` if they begin there; 0: they may begin anywhere. */
static int64_t row_begin(const Func *f, const Param *p, const MemParts *m, int unit, int wide)
{
    for (int a = 0; a < m->rank; a++) {
        if (a != unit && ir_row_step(f, p, a) * dtype_bytes(p->type->dtype) % wide) return 0;
    }
    return p->align < wide ? p->align : wide;
}

/* Whole rows of tensors, and a vector of one dimension that all programs read. The first access is the load
 * of a row. */
static bool access_fits(RowStarts *x, const Instr *i)
{
    MemParts m;
    int axis, unit = kernel_unit_axis(x->f, i, &axis);
    int64_t off;
    if (!kernel_may_shift(x->f, x->p, i) || axis != 0 || !ir_mem_parts(i, &m) || m.mask ||
        ir_attr_int(i, ATTR_MASKED, 1) || ir_attr_int(i, ATTR_BULK, 0) || ir_attr(i, ATTR_STEPS))
        return false;
    const Param *p = &x->f->params[m.param];
    const Type *t = (m.result ? m.result : m.values[0])->type;
    int bytes = dtype_bytes(p->type->dtype);
    if (t->rank != 1 || !ir_is_const(m.idx[unit], &off) || off ||
        x->f->dims[p->dims[unit]].extent != t->shape[0])
        return false;
    if (x->begun && (i->op == OP_STORE ? bytes > x->bytes : bytes != x->bytes)) return false;
    if (m.rank == 1) return x->begun && i->op == OP_LOAD && p->align % 16 == 0 && ++x->weights;
    if (!x->begun && i->op != OP_LOAD) return false;
    if (!x->begun) x->bytes = x->least = bytes;
    int64_t begin = row_begin(x->f, p, &m, unit, VECTOR * bytes / x->bytes) * x->bytes / bytes;
    x->mixed |= x->begun && begin != x->begin;
    x->begun = true;
    x->begin = begin;
    x->odd |= begin < VECTOR;
    x->row = t->shape[0] * x->bytes;
    x->stores |= i->op == OP_STORE;
    if (bytes < x->least) x->least = bytes;
    int align = kernel_access_bytes_at(x->f, i, NULL, false) * x->bytes / bytes;
    if (!x->align || align < x->align) x->align = align;
    return true;
}

/* Whether it is computed from where an element is, which whoever allows this knows in each row. Random
 * numbers are computed for several neighbours together. */
static bool of_place(const RowStarts *x, const Instr *i)
{
    MemParts m;
    bool gathers = i->op == OP_GATHER && ir_mem_parts(i, &m) && !m.token && !m.token_out;
    return x->places && (i->op == OP_ARANGE || gathers);
}

static void visit(void *user, Instr *i)
{
    RowStarts *x = user;
    bool rows = false;
    if (!x->ok) return;
    for (int k = 0; k < i->n_results; k++) rows |= kernel_is_row_tile(i->results[k].type);
    for (int k = 0; k < i->n_operands; k++) rows |= kernel_is_row_tile(ir_operand(i, k)->type);
    if (i->n_blocks) x->ok = false;
    if (!rows || !x->ok) return;
    if (x->places && op_family(i->op) == OPS_RANDOM) x->ok = false;
    else if (i->op == OP_LOAD || i->op == OP_STORE) x->ok = access_fits(x, i);
    else
        x->ok = op_has(i->op, OPF_ELEM) || of_place(x, i) || i->op == OP_CAST || i->op == OP_BROADCAST ||
                i->op == OP_SPLAT || i->op == OP_REDUCE_SUM || i->op == OP_REDUCE_MAX ||
                i->op == OP_REDUCE_MIN || i->op == OP_ARGMAX || i->op == OP_ARGMIN;
}

static RowStartAccess row_start(const Func *f, const KernelPlan *p, bool places)
{
    RowStarts x = { .f = f, .p = p, .ok = true, .places = places };
    ir_walk(f->body, visit, &x);
    /* Rows that all begin at multiples of 16 bytes are accessed by whole vectors, from their start on. Of
     * tensors whose rows are known to begin at other distances, most rows are stored across words. */
    bool across = x.mixed && x.weights < 2 && x.row <= LONG_ROW;
    if (!x.ok || !x.odd || across) return (RowStartAccess){ 0 };
    if (!x.stores && (x.weights || x.mixed)) return (RowStartAccess){ 0 };
    if (!x.stores) return (RowStartAccess){ x.bytes, x.bytes, VECTOR, 0, true };
    int word = WORD * x.bytes / x.least, unit = x.align > word ? x.align : word;
    return (RowStartAccess){ x.bytes, x.least, unit, x.weights, x.align < unit };
}

RowStartAccess kernel_row_start(const Func *f, const KernelPlan *p) { return row_start(f, p, false); }

RowStartAccess kernel_row_start_of_parts(const Func *f, const KernelPlan *p) { return row_start(f, p, true); }

bool kernel_row_runs(const Layout *l, int n)
{
    int32_t c[TILE_MAX_RANK], from[TILE_MAX_RANK];
    int regs = (int)layout_regs(l);
    if (l->rank != 1 || regs % n || !l->separable) return false;
    for (int r = 0; r < regs; r++) {
        layout_element(l, (uint32_t)r, 0, 0, 0, c);
        layout_element(l, (uint32_t)(r / n * n), 0, 0, 0, from);
        if (c[0] != from[0] + r % n || from[0] % n) return false;
    }
    layout_element(l, 0, 0, 0, 0, from);
    for (uint32_t lane = 0; lane < layout_lanes(l); lane++) {
        layout_element(l, 0, lane, 0, 0, c);
        if (c[0] != from[0] + (int32_t)lane * n) return false;
    }
    return true;
}

const Layout *kernel_row_words(Arena *a, const KernelPlan *p, int32_t tile, RowStartAccess row, int ctas)
{
    int32_t n = row.unit / row.bytes, whole = (tile + (row.leads ? 2 : 1) * (n - 1)) / n * n, order = 0;
    const Layout *l =
        layout_coalesced(a, 1, &whole, &order, row.bytes, row.unit, p->target->wave, p->warps * ctas);
    return l && kernel_row_runs(l, n) ? layout_with_tile(a, l, &tile) : NULL;
}
