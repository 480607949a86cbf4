/* search_fit.c: which configurations need not be compiled, because a tile of theirs fits nowhere (search.h).
 * The kernel passes would try to place it in several ways before they refuse it, which takes several times as
 * long as a configuration that fits. */
#include "ir/ir.h"
#include "ir/target/target.h"
#include "runtime/choice/search/search_points.h"

enum { REGISTER_BYTES = 4 };

static int64_t bytes_of(const Value *v) { return type_elements(v->type) * dtype_bits(v->type->dtype) / 8; }

/* The load that the operand is, in another shape or type; or NULL. */
static const Value *loaded(const Value *v)
{
    while (v->def && (v->def->op == OP_PERMUTE || v->def->op == OP_RESHAPE || v->def->op == OP_CAST ||
                         v->def->op == OP_BITCAST))
        v = ir_operand(v->def, 0);
    return v->def && v->def->op == OP_LOAD ? v : NULL;
}

/* The sums of a product are in registers, and each loaded operand lies whole in shared memory or in registers
 * beside them. */
static bool fits_nowhere(const Instr *mma, const CostDevice *d)
{
    int64_t registers = (int64_t)d->target->sm_registers * REGISTER_BYTES, sums = bytes_of(&mma->results[0]);
    for (int k = 0; k < 2; k++) {
        const Value *tile = loaded(ir_operand(mma, k));
        if (tile && bytes_of(tile) > d->shared_bytes && bytes_of(tile) + sums > registers) return true;
    }
    return false;
}

static bool block_fits(const Block *b, const CostDevice *d)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (i->op == OP_MMA && fits_nowhere(i, d)) return false;
        for (int k = 0; k < i->n_blocks; k++)
            if (!block_fits(i->blocks[k], d)) return false;
    }
    return true;
}

bool search_may_fit(const void *device, const Func *f)
{
    const CostDevice *d = device;
    return d->target->kind != TARGET_CUDA || block_fits(f->body, d);
}
