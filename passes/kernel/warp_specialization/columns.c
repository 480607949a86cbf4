/* columns.c: of warp-specialization: products of 64 rows, of which the consumer warpgroups multiply some
 * columns each, all by the same left operand. Either they stand beside products of more rows, or all products
 * have 64 rows and one warpgroup has too few registers for their sums. */
#include "ir/target/matrix.h"
#include "passes/kernel/warp_specialization/warp_specialization.h"

static bool is_whole_load(const Value *v)
{ return v->def && v->def->op == OP_LOAD && roles_matrix_of(v->def) == v; }

bool roles_rows_fit(Roles *c, const Instr *i, int consumers)
{
    const Value *a = ir_operand(i, 0), *b = ir_operand(i, 1);
    int64_t m = a->type->shape[0], n = b->type->shape[1], each = n / consumers;
    DType d = a->type->dtype;
    if (m <= FEW_ROWS) m = 64;
    if (m == c->rows && !c->by_columns && n <= WGMMA_COLUMNS) return true;
    if (m == c->rows && !c->by_columns)
        return roles_refuse(c, i->loc,
            "a product of %lld x %lld: wgmma has columns in multiples of 8 up to 256, and warpgroups do not "
            "share them",
            (long long)m, (long long)n);
    /* Of columns that lie side by side a warpgroup has whole panels of the stage. Narrower ones than 64
     * columns are for products that get none otherwise (wide_columns.c). */
    bool major = roles_load_behind(c, b) && roles_k_major(c, b, 0),
         panels = major || each % 64 == 0 || n <= 64 || (c->by_columns && is_whole_load(b));
    if (m == 64 && panels && roles_load_behind(c, b) && dtype_bytes(d) == 2 &&
        (consumers & (consumers - 1)) == 0 && n % consumers == 0 &&
        (roles_staged(c, i) || roles_load_behind(c, a)) && wgmma_has(d, d, each) &&
        each % (major ? 8 : 16) == 0)
        return true;
    return roles_refuse(c, i->loc,
        "a product of %lld rows beside products of %lld rows: %d warpgroups cannot share its %lld columns",
        (long long)m, (long long)c->rows, consumers, (long long)n);
}

int roles_panel_bytes(Roles *c, const Instr *load)
{
    const Value *v = roles_matrix_of(load);
    int bytes = 0;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        if (i->op != OP_MMA_SYNC || u != &i->operands[1] || roles_k_major(c, v, 0)) continue;
        int64_t m = ir_result(i)->type->shape[0], row = v->type->shape[1] * 2, each = row / c->consumers;
        if (m <= FEW_ROWS) m = 64;
        if (m != 64 || (m == c->rows && !c->by_columns) || row <= 128) continue;
        int span = each % 128 == 0 ? 128 : each % 64 == 0 ? 64 : 32;
        if (!bytes || span < bytes) bytes = span;
    }
    return bytes == 128 ? 0 : bytes;
}

bool roles_share_columns(Roles *c)
{
    enum { REGISTERS = 256, MOST_SUMS = 224 }; /* those of a thread, and those that hold sums all the time */
    const char *why = c->why;
    int64_t words = 0;
    bool wide = false;
    for (size_t k = 0; k < c->products.len; k++) {
        const Type *t = ir_result(c->products.data[k])->type;
        words += type_elements(t);
        wide |= t->shape[1] > WGMMA_COLUMNS;
    }
    c->by_columns = c->rows == 64 && (wide || words > REGISTERS * 128) && words <= 2 * MOST_SUMS * 128;
    for (size_t k = 0; k < c->products.len && c->by_columns; k++)
        c->by_columns =
            ir_result(c->products.data[k])->type->shape[0] == 64 && roles_rows_fit(c, c->products.data[k], 2);
    c->why = why;
    return c->by_columns;
}
