/* row_block.c: rows that follow each other in memory without a gap, of which a program has several.
 *
 *   %x = load X[%r, 0] : f16[8, 459]        if rows of X are 459 elements apart: one piece of 7344 bytes
 *   store Y[%r, 0, 0] = %y : f32[32, 3, 6]  a lane has 72 bytes side by side; one piece of 2304 bytes
 *
 * Such rows begin at any address of their own, but all of them together at a multiple of 16 bytes. They are
 * copied to and from shared memory as one piece, by vectors of 16 bytes, and taken from there by element,
 * word or wider piece (backends/gpu/memory/emit_row_block.c). By element from memory, a warp moves 64 bytes
 * with an instruction, most of which begin and end within a sector. Rows of wider elements go so if they are
 * records that lie whole in lanes (components.c): each access of a warp would touch a part of all their
 * sectors. Other records change lanes by a conversion (sectors.c, components.c). A launch does not promise
 * how far apart rows are, so each program asks; rows with gaps go to and from shared memory by element.
 *
 * A launch says whether rows most likely have gaps (Param.gaps), though. Such rows are loaded directly, by
 * shifted vectors or by element, as their layout has it, and stored from shared memory by the aligned vectors
 * that lie in them and, at their ends, by element (backends/gpu/memory/emit_row_gaps.c), wherever they begin.
 *
 * Requires: CUDA; a tile of whole rows, of elements of 1 or 2 bytes (those of 4 fill sectors by themselves,
 * except in records), in a CTA that shares its program with no other and has no roles. Keeps: memory; the
 * order of sums changes with the layout. */
#include "passes/kernel/kernel.h"
#include "passes/kernel/layout/windows.h"

enum {
    VECTOR = 16,
    WORD = 4,            /* of wider accesses, a warp moves 256 bytes with an instruction */
    MOST_BYTES = 16384,  /* of a tile: more would cost CTAs of the multiprocessor */
    MOST_RECORD = 256,   /* of elements of 4 or 8 bytes, as in components.c */
    LEAST_APART = 64,    /* of a row with gaps whose accesses from and to memory fill sectors */
    LEAST_GAPPED = 32,   /* of a stored row with gaps: no vector has both of its ends */
    LEAST_SHIFTED = 128, /* of a row with gaps that is loaded directly */
    FEW_PIECES = 4,      /* of a record that is loaded: each line then comes from memory once, into L1 */
};

/* Whether every lane has whole rows of the layout, all axes behind the first one, and no row is in several
 * warps: all of these would wait for what one has. */
static bool whole_rows_in_lanes(const Layout *l, int64_t row)
{
    int32_t at[TILE_MAX_RANK], first[TILE_MAX_RANK];
    uint32_t regs = layout_regs(l), lanes = layout_lanes(l), warps = layout_warps(l);
    if (!l->separable || row < 2 || regs % row || layout_blocks(l) != 1) return false;
    for (int a = 0; a < l->rank; a++)
        if (l->cover[a] != l->tile[a]) return false;
    for (uint32_t t = 0; t < lanes * warps; t++) {
        layout_element(l, 0, t % lanes, t / lanes, 0, at);
        for (int a = 1; a < l->rank; a++)
            if (at[a]) return false;
        if (t && !at[0]) return false;
    }
    layout_element(l, 0, 0, 0, 0, first);
    int64_t in_row = 0;
    for (uint32_t r = 0; r < regs; r++) {
        layout_element(l, r, 0, 0, 0, at);
        in_row += at[0] == first[0];
    }
    return in_row == row;
}

/* Whether lanes have records, which go through shared memory better than by pieces from and to memory. Lanes
 * have no bank conflicts there if each has an odd number of pieces. */
static bool is_record(const KernelPlan *p, const Instr *mem, const Type *t, int64_t row, int width)
{
    int64_t bytes = row * dtype_bytes(t->dtype), pieces = bytes / range_gcd(bytes, VECTOR);
    LayoutTable layouts = p->layouts; /* what it would note of a type is only what the text says */
    return t->layout && width < VECTOR && pieces % 2 && bytes <= MOST_RECORD &&
           bytes > width * (mem->op == OP_LOAD ? FEW_PIECES : 1) &&
           whole_rows_in_lanes(layouts_get(&layouts, t), row);
}

/* Whether rows are stored with gaps between them. */
static bool goes_apart(const Param *q, const Instr *mem, const Type *t, int64_t row)
{
    int64_t bytes = row * dtype_bytes(t->dtype);
    return q->gaps && t->rank == 2 && mem->op == OP_STORE && bytes >= LEAST_GAPPED &&
           t->shape[0] * (bytes + 2 * VECTOR) <= MOST_BYTES;
}

RowBlockWay kernel_row_block(const Func *f, const KernelPlan *p, const Instr *mem)
{
    MemParts m;
    int axis, unit = kernel_unit_axis(f, mem, &axis);
    const Attr *e = ir_attr(mem, ATTR_EXTENTS);
    if (kernel_skips(p, PASS_UNALIGNED_VECTORS) || p->target->kind != TARGET_CUDA || p->producer_warps ||
        p->cluster > 1 || (mem->op != OP_LOAD && mem->op != OP_STORE) || ir_adds(mem) || axis < 1 ||
        !ir_mem_parts(mem, &m) || m.mask || ir_attr(mem, ATTR_STEPS) || ir_attr(mem, ATTR_ORDER))
        return ROWS_DIRECTLY;
    const Param *q = &f->params[m.param];
    const Type *t = (m.result ? m.result : m.values[0])->type;
    if (t->kind != TYPE_TILE || t->dtype == DT_BOOL || axis != t->rank - 1 || unit != m.rank - 1)
        return ROWS_DIRECTLY;
    int bytes = dtype_bytes(t->dtype), outer = m.rank - t->rank, width = kernel_access_bytes(f, mem);
    int64_t row = window_record(f, mem, outer), all = t->shape[0] * row * bytes, inner = row;
    /* One access that moves a whole row: neighbouring lanes have neighbouring rows. */
    if (!row || t->shape[0] < 2 || e->v[outer] != t->shape[0] || width >= row * bytes) return ROWS_DIRECTLY;
    if (q->gaps && mem->op == OP_LOAD && row * bytes >= LEAST_SHIFTED) return ROWS_DIRECTLY;
    if (goes_apart(q, mem, t, row)) return width <= WORD ? ROWS_APART : ROWS_DIRECTLY;
    if (all % VECTOR || all > MOST_BYTES || q->align % VECTOR) return ROWS_DIRECTLY;
    for (int a = outer; a < unit; a++) {
        if (q->stride[a] != inner && q->stride[a] != FACT_UNKNOWN) return ROWS_DIRECTLY;
        /* Rows that begin at multiples of more than they are long always have gaps. */
        bool gaps = q->stride[a] == FACT_UNKNOWN && q->stride_div[a] > 1 && inner % q->stride_div[a];
        if (gaps && inner * bytes >= LEAST_APART) return ROWS_DIRECTLY;
        inner /= e->v[a + 1];
    }
    return (bytes <= 2 ? width <= WORD : is_record(p, mem, t, row, width)) ? ROWS_AS_PIECE : ROWS_DIRECTLY;
}
