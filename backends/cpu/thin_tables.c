/* thin_tables.c: elements of few values, of products in dots (thin_dots.c). Where B is computed from integers
 * of 4 bits and from values that are the same along K, as dequantized weights are, the 16 values that an
 * element of a column may have are computed once for the column, by the operations that B is written in, and
 * kept in a register. An element is then one shuffle of that register (`vpermps`, `vpermw`), which reads no
 * more than the lowest bits of its index. */
#include "backends/cpu/thin.h"
#include "backends/cpu/plan.h"
#include "ir/range.h"

enum {
    TABLE = 16,  /* values: f32 fill a register of 64 bytes, those of 16 bits are in it twice */
    DEEPEST = 12 /* operations from an element back to its bits */
};

typedef struct Search {
    const Plan *plan;
    Ranges *ranges;
    Value *index;
} Search;

/* Whether `v` changes along its axis only as the index does, which is found. */
static bool is_table(Search *s, Value *v, int axis, int depth)
{
    if (v->type->kind != TYPE_TILE || v->type->shape[axis] == 1 || v == s->index) return true;
    const Instr *i = v->def;
    if (!i || depth > DEEPEST || plan_info(s->plan, v)->buf) return false;
    if (i->op == OP_SPLAT) return true;
    if (i->op == OP_BROADCAST) return ir_operand(i, 0)->type->shape[axis] == 1;
    if (!op_is_elementwise(i->op) || op_family(i->op) == OPS_RANDOM) return false;
    RangeInfo r = range_of(s->ranges, v);
    if (dtype_is_int(v->type->dtype) && dtype_bits(v->type->dtype) == 8 && r.lo >= 0 && r.hi < TABLE) {
        if (s->index) return false;
        s->index = v;
        return true;
    }
    for (int k = 0; k < i->n_operands; k++)
        if (!is_table(s, ir_operand(i, k), axis, depth + 1)) return false;
    return true;
}

/* What the index is made of: a shuffle reads four bits, so that a mask which keeps these is not needed, and a
 * shift of the elements is part of the shift that moves them to the lowest bits. */
static void find_bits(Thin *t)
{
    int64_t c;
    const Instr *i;
    for (t->bits = t->index; (i = t->bits->def) && !plan_info(t->g->plan, t->bits)->buf;) {
        bool constant = i->n_operands == 2 && ir_is_const(ir_operand(i, 1), &c);
        const int64_t read = (int64_t)(TABLE - 1) << t->shift;
        if (constant && i->op == OP_AND && (c & read) == read) t->bits = ir_operand(i, 0);
        else if (constant && i->op == OP_SHR && c >= 0 && t->shift + c <= 4) {
            t->shift += (int)c;
            t->bits = ir_operand(i, 0);
        } else break;
    }
}

Value *mma_table(const Plan *p, MmaKind kind, Value *a)
{
    Search s = { p, NULL, NULL };
    bool fits = kind == MMA_F32 || kind == MMA_BF16_PAIRS;
    if (!p->target->avx512 || !fits || a->type->shape[1] % LOOKED_UP) return NULL;
    s.ranges = ranges_new(p->func);
    return is_table(&s, a, 1, 0) ? s.index : NULL;
}

void thin_index(Thin *t)
{
    t->index = mma_table(t->g->plan, t->s->mma, t->b);
    if (t->index) find_bits(t);
}

/* The values of a column of B by the index. A shuffle of 16-bit elements reads five bits, so these are there
 * twice. */
LLVMValueRef thin_table(Thin *t, LLVMValueRef column)
{
    Gen *g = t->g;
    Eval e;
    LLVMValueRef coord[TILE_MAX_RANK] = { column, gen_int(g, 0) };
    int mask[2 * TABLE];
    eval_init(&e, g, TABLE);
    eval_assume(&e, t->index, coord, 1, gen_iota(g, gen_type(g, t->index->type->dtype, 1), TABLE));
    LLVMValueRef x = nest_eval(&e, t->b, coord, 1);
    if (t->as == DT_F32) return convert(g, DT_F32, t->from, x);
    LLVMValueRef halves = upper_halves_of(g, x);
    for (int k = 0; k < 2 * TABLE; k++) mask[k] = halves ? 2 * (k % TABLE) + 1 : k % TABLE;
    if (halves) x = LLVMBuildBitCast(g->b, halves, gen_vec(g->i16, 2 * TABLE), "");
    return gen_shuffle(g, x, x, mask, 2 * TABLE);
}

static LLVMValueRef look_up(Thin *t, LLVMValueRef table, LLVMValueRef index)
{
    bool wide = t->as == DT_F32;
    return gen_intrinsic(t->g, wide ? "llvm.x86.avx512.permvar.sf.512" : "llvm.x86.avx512.permvar.hi.512",
        NULL, 0, (LLVMValueRef[]){ table, index }, 2);
}

/* The vectors that elements which are looked up at once become: their elements have as many bytes. */
int thin_table_vectors(const Thin *t) { return dtype_bytes(t->as); }

/* One vector of elements after the other: of n, vector j has elements n i + j, so that a shift of words of n
 * bytes makes its indices. The columns are packed in the same order. */
void thin_table_step(
    Thin *t, LLVMValueRef k, LLVMValueRef column, int columns, const LLVMValueRef *table, LLVMValueRef *acc)
{
    Gen *g = t->g;
    int n = thin_table_vectors(t), lanes = LOOKED_UP / n;
    LLVMTypeRef word = n == 4 ? g->i32 : g->i16;
    LLVMValueRef x[MAX_SUMS];
    for (int c = 0; c < columns; c++) {
        Eval e;
        LLVMValueRef coord[TILE_MAX_RANK] = { gen_iadd(g, column, gen_int(g, c)), k };
        eval_init(&e, g, LOOKED_UP);
        x[c] = LLVMBuildBitCast(g->b, nest_eval(&e, t->bits, coord, 1), gen_vec(word, lanes), "");
    }
    for (int j = 0; j < n; j++) {
        unsigned by = (unsigned)(8 * j + t->shift);
        LLVMValueRef shift = gen_splat(g, LLVMConstInt(word, by, false), lanes), b[MAX_SUMS];
        for (int c = 0; c < columns; c++)
            b[c] = look_up(t, table[c], by ? LLVMBuildLShr(g->b, x[c], shift, "") : x[c]);
        for (int r = 0; r < t->rows; r++) {
            LLVMValueRef at = thin_a_at(t, r, gen_iadd(g, k, gen_int(g, j * lanes)));
            LLVMValueRef a = gen_load(g, t->as, lanes, at);
            for (int c = 0; c < columns; c++) {
                LLVMValueRef *to = &acc[c * t->rows + r];
                *to = thin_multiply_add(t, *to, a, b[c]);
            }
        }
    }
}
