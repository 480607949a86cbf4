/* mma_block.c: the loop over K of one block of a product's sums: mr rows and nv vectors, which stay in
 * registers while k runs.
 *
 *     sums[mr][nv] = from, or zeros
 *     for k = 0 to steps
 *         for each row r, vector v: sums[r][v] += A[r][k] * B[k][v]
 *     to = sums
 */
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/product/mma.h"

enum { MAX_ACC = 64 };

typedef struct SumBlock {
    int mr, nv;
    int64_t columns; /* that are real, of those of nv vectors */
    /* The addresses of the first of the sums, as they begin (NULL: as zeros) and in the end, of the rows of A
     * and of the panel of B. */
    LLVMValueRef from, to, a, b;
    int64_t a_step; /* bytes of A from step to step along K */
    LLVMValueRef steps;
    int unroll; /* steps in one iteration */
} SumBlock;

static LLVMValueRef tail_mask(Gen *g, int lanes, int on)
{
    LLVMValueRef *m = arena_array(g->arena, LLVMValueRef, (size_t)lanes);
    for (int k = 0; k < lanes; k++) m[k] = LLVMConstInt(g->i1, k < on, false);
    return LLVMConstVector(m, (unsigned)lanes);
}

/* acc vector v of row r of a block; `on` lanes of it exist. */
static LLVMValueRef acc_load(MmaProduct *x, LLVMValueRef ptr, int on)
{
    Gen *g = x->g;
    if (on == x->lanes) return gen_load(g, x->acc, x->lanes, ptr);
    LLVMTypeRef types[] = { x->vec, g->ptr };
    LLVMValueRef v[] = { ptr, tail_mask(g, x->lanes, on), LLVMConstNull(x->vec) };
    return gen_intrinsic(g, "llvm.masked.load", types, 2, v, 3);
}

static void acc_store(MmaProduct *x, LLVMValueRef value, LLVMValueRef ptr, int on)
{
    Gen *g = x->g;
    if (on == x->lanes) {
        gen_store(g, x->acc, value, ptr);
        return;
    }
    LLVMTypeRef types[] = { x->vec, g->ptr };
    LLVMValueRef v[] = { value, ptr, tail_mask(g, x->lanes, on) };
    gen_intrinsic(g, "llvm.masked.store", types, 2, v, 3);
}

/* The steps of the loop over K, of which there is one at least: `at_once` elements along K at a time. Behind
 * those in range are zeros. */
static LLVMValueRef steps_along_k(MmaProduct *x, int64_t steps, int at_once)
{
    Gen *g = x->g;
    int group = mma_group(x->s->a->dtype);
    if (!x->real[2]) return gen_int(g, steps);
    return larger(g, gen_imul(g, mma_parts_of(g, x->real[2], at_once), at_once / group), gen_int(g, 1));
}

/* Vector v of step k of a panel of B. */
static LLVMValueRef panel_load(MmaProduct *x, LLVMValueRef panel_at_k, int64_t step, int v)
{
    Gen *g = x->g;
    const Buf *b = x->s->b;
    int group = mma_group(b->dtype), vbytes = x->lanes * dtype_bytes(x->acc);
    int64_t bstep = b->nr * group * dtype_bytes(b->dtype);
    LLVMTypeRef t = group > 1 ? gen_vec(g->i32, x->lanes) : x->vec;
    LLVMValueRef l =
        LLVMBuildLoad2(g->b, t, gen_ptr(g, panel_at_k, gen_int(g, step * bstep + v * vbytes)), "");
    LLVMSetAlignment(l, 4);
    return l;
}

/* 128 times the sums of the columns of a panel, by which the products are too large if the highest bits of A
 * are inverted: by the instruction that multiplies, with 128 in place of every element of A. */
void mma_sum_columns(MmaProduct *x, int nv, LLVMValueRef panel)
{
    Gen *g = x->g;
    int group = mma_group(x->s->b->dtype);
    int64_t steps = (x->k + group - 1) / group, bstep = x->s->b->nr * group;
    LLVMValueRef sum[MAX_VECTORS], phi[MAX_VECTORS], zero = LLVMConstNull(x->vec);
    LLVMValueRef high = gen_splat(g, LLVMConstInt(g->i32, 0x80808080, false), x->lanes);
    Loop l;
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), steps_along_k(x, steps, group), 1);
    l.runs = true;
    for (int v = 0; v < nv; v++) phi[v] = LLVMBuildPhi(g->b, x->vec, "");
    LLVMValueRef bk = gen_ptr(g, panel, gen_imul(g, k, bstep));
    for (int v = 0; v < nv; v++) sum[v] = mma_multiply_add(x, phi[v], high, panel_load(x, bk, 0, v));
    LLVMBasicBlockRef latch = gen_here(g), before = l.before;
    gen_loop_end(g, &l);
    for (int v = 0; v < nv; v++) {
        LLVMAddIncoming(phi[v], (LLVMValueRef[]){ zero, sum[v] }, (LLVMBasicBlockRef[]){ before, latch }, 2);
        x->too_much[v] = sum[v];
    }
}

/* `more` bytes behind the beginning of row `r`. */
static LLVMValueRef in_row(Gen *g, LLVMValueRef base, LLVMValueRef row, int r, int64_t more)
{
    LLVMValueRef at = gen_imul(g, row, r);
    if (LLVMIsAConstantInt(at)) return gen_ptr(g, base, gen_iadd(g, at, gen_int(g, more)));
    return gen_ptr(g, gen_ptr(g, base, at), gen_int(g, more));
}

/* The lanes of vector v of a row of the block that exist. */
static int lanes_on(const MmaProduct *x, const SumBlock *b, int v)
{ return b->columns - v * x->lanes < x->lanes ? (int)(b->columns - v * x->lanes) : x->lanes; }

/* The sums as they are before the loop. */
static void first_sums(MmaProduct *x, const SumBlock *b, LLVMValueRef *init)
{
    Gen *g = x->g;
    int vbytes = x->lanes * dtype_bytes(x->acc);
    for (int r = 0; r < b->mr; r++)
        for (int v = 0; v < b->nv; v++) {
            LLVMValueRef *one = &init[r * b->nv + v];
            *one = b->from ? acc_load(x, in_row(g, b->from, x->from_row, r, v * vbytes), lanes_on(x, b, v))
                           : LLVMConstNull(x->vec);
            if (x->s->a->offset_128) *one = LLVMBuildSub(g->b, *one, x->too_much[v], "");
        }
}

/* `bytes` behind an address, as LLVM's strength reduction leaves it alone: the addresses of the loop are as
 * good as it makes them, for which it takes long. It passes over what is frozen. */
static LLVMValueRef next_address(Gen *g, LLVMValueRef at, int64_t bytes)
{
    LLVMValueRef by = gen_int(g, bytes);
    return LLVMBuildFreeze(g->b, LLVMBuildInBoundsGEP2(g->b, g->i8, at, &by, 1, ""), "");
}

/* The multiply-adds of one iteration, with A and the panel at `a` and `panel`. */
static void emit_steps(
    MmaProduct *x, const SumBlock *b, LLVMValueRef a, LLVMValueRef panel, LLVMValueRef *sums)
{
    Gen *g = x->g;
    DType type = x->s->a->dtype;
    LLVMTypeRef t = mma_group(type) > 1 ? g->i32 : gen_type(g, x->acc, 1);
    for (int u = 0; u < b->unroll; u++) {
        LLVMValueRef columns[MAX_VECTORS];
        for (int v = 0; v < b->nv; v++) columns[v] = panel_load(x, panel, u, v);
        for (int r = 0; r < b->mr; r++) {
            LLVMValueRef one = LLVMBuildLoad2(g->b, t, in_row(g, a, x->a_row, r, u * b->a_step), "");
            LLVMSetAlignment(one, (unsigned)dtype_bytes(type));
            LLVMValueRef row = gen_splat(g, one, x->lanes), *sum = &sums[r * b->nv];
            for (int v = 0; v < b->nv; v++) sum[v] = mma_multiply_add(x, sum[v], row, columns[v]);
        }
    }
}

static void emit_block(MmaProduct *x, const SumBlock *b)
{
    Gen *g = x->g;
    int vbytes = x->lanes * dtype_bytes(x->acc), n = b->mr * b->nv;
    int64_t b_step = x->s->b->nr * mma_group(x->s->a->dtype) * dtype_bytes(x->s->a->dtype);
    LLVMValueRef sums[MAX_ACC], init[MAX_ACC], phi[MAX_ACC], end = gen_imul(g, b->steps, b_step);
    end = gen_ptr(g, b->b, end);
    first_sums(x, b, init);
    LLVMBasicBlockRef before = gen_here(g), loop = gen_block(g, "steps"), done = gen_block(g, "done");
    LLVMBuildBr(g->b, loop);
    gen_at(g, loop);
    for (int c = 0; c < n; c++) sums[c] = phi[c] = LLVMBuildPhi(g->b, x->vec, "");
    LLVMValueRef a = LLVMBuildPhi(g->b, g->ptr, ""), panel = LLVMBuildPhi(g->b, g->ptr, "");
    emit_steps(x, b, a, panel, sums);
    LLVMValueRef next_a = next_address(g, a, b->unroll * b->a_step),
                 next_b = next_address(g, panel, b->unroll * b_step);
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntULT, next_b, end, ""), loop, done);
    LLVMBasicBlockRef from[] = { before, gen_here(g) };
    for (int c = 0; c < n; c++) LLVMAddIncoming(phi[c], (LLVMValueRef[]){ init[c], sums[c] }, from, 2);
    LLVMAddIncoming(a, (LLVMValueRef[]){ b->a, next_a }, from, 2);
    LLVMAddIncoming(panel, (LLVMValueRef[]){ b->b, next_b }, from, 2);
    gen_at(g, done);
    for (int r = 0; r < b->mr; r++)
        for (int v = 0; v < b->nv; v++) {
            LLVMValueRef to = in_row(g, b->to, x->to_row, r, v * vbytes);
            acc_store(x, sums[r * b->nv + v], to, lanes_on(x, b, v));
        }
}

/* The steps along K in one iteration of a block of n sums, so that the loop itself counts little. */
static int unroll_of(int64_t steps, int n)
{
    int unroll = 1;
    while (unroll * n < 16 && unroll < 4 && steps % (2 * unroll) == 0) unroll *= 2;
    return unroll;
}

void mma_block(MmaProduct *x, int mr, int nv, int64_t columns, LLVMValueRef row0, LLVMValueRef panel,
    LLVMValueRef column)
{
    Gen *g = x->g;
    const Buf *a = x->s->a;
    int group = mma_group(a->dtype);
    int64_t step = group * dtype_bytes(a->dtype), steps = mma_steps(x->s);
    LLVMValueRef in = gen_imul(g, column, dtype_bytes(x->acc));
    LLVMValueRef from = gen_iadd(g, LLVMBuildMul(g->b, row0, x->from_row, ""), in);
    SumBlock b = { .mr = mr,
        .nv = nv,
        .columns = columns,
        .from = x->from ? gen_ptr(g, x->from, from) : NULL,
        .to = gen_ptr(g, x->to, gen_iadd(g, LLVMBuildMul(g->b, row0, x->to_row, ""), in)),
        .a = gen_ptr(g, x->a, LLVMBuildMul(g->b, row0, x->a_row, "")),
        .b = panel,
        .a_step = a->form == FORM_COLUMNS ? step * a->ld : step,
        .unroll = unroll_of(steps, mr * nv) };
    b.steps = x->shared ? x->steps : steps_along_k(x, steps, b.unroll * group);
    emit_block(x, &b);
}
