/* row_block.c: rows that follow each other in memory without a gap, of which a program has several.
 *
 *   %x = load X[%r, 0] : f16[8, 459]        if rows of X are 459 elements apart: one piece of 7344 bytes
 *
 * Such rows begin at any address of their own, but all of them together at a multiple of 16 bytes. They are
 * copied to and from shared memory as one piece, by vectors of 16 bytes, and taken from there by element
 * or word (backends/gpu/emit_row_block.c). By element from memory, a warp moves 64 bytes with an instruction,
 * most of which begin and end within a sector. A launch does not tell the kernel how far apart rows are, so
 * each program asks; rows with gaps go to and from shared memory by element.
 *
 * Requires: CUDA; elements of 1 or 2 bytes (those of 4 fill sectors by themselves); a tile of whole rows that
 * has two axes, in a CTA that shares its program with no other and has no roles. Keeps: memory; the order of
 * sums changes with the layout. */
#include "passes/kernel/kernel.h"

enum {
    VECTOR = 16,
    WORD = 4,           /* of wider accesses, a warp moves 256 bytes with an instruction */
    MOST_BYTES = 16384, /* of a tile: more would cost CTAs of the multiprocessor */
};

bool kernel_row_block(const Func *f, const KernelPlan *p, const Instr *mem)
{
    MemParts m;
    int64_t off;
    int axis, unit = kernel_unit_axis(f, mem, &axis);
    const Attr *e = ir_attr(mem, ATTR_EXTENTS);
    if (kernel_skips(p, PASS_UNALIGNED_VECTORS) || p->target->kind != TARGET_CUDA || p->producer_warps ||
        p->cluster > 1 || (mem->op != OP_LOAD && mem->op != OP_STORE) || ir_adds(mem) || axis != 1 ||
        !ir_mem_parts(mem, &m) || m.mask || ir_attr(mem, ATTR_STEPS) || ir_attr(mem, ATTR_ORDER) || unit < 1)
        return false;
    const Param *q = &f->params[m.param];
    const Type *t = (m.result ? m.result : m.values[0])->type;
    int bytes = dtype_bytes(t->dtype);
    if (t->kind != TYPE_TILE || t->rank != 2 || t->dtype == DT_BOOL || bytes > 2 || t->shape[0] < 2 ||
        e->v[unit - 1] != t->shape[0])
        return false;
    int64_t row = t->shape[1], all = t->shape[0] * row * bytes;
    return all % VECTOR == 0 && all <= MOST_BYTES && q->align % VECTOR == 0 && q->stride[unit] == 1 &&
           (q->stride[unit - 1] == row || q->stride[unit - 1] == FACT_UNKNOWN) &&
           f->dims[q->dims[unit]].extent == row && ir_is_const(m.idx[unit], &off) && !off &&
           kernel_access_bytes(f, mem) <= WORD;
}
