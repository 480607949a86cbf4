/* thin_loop.c: what products of few rows or columns of a loop leave to its end. While it runs,
 *
 *     dots            stay in lanes, which are added at the end, so that a short dot takes no sums of lanes;
 *     of 8 bits       the offsets of rows (add_quads) are added up, and taken from all sums at the end
 *
 * The loop's sums pass through such products alone, which have one place. With variables for a debugger,
 * which may look at them at each step, nothing is left. */
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/product/thin.h"

enum { TIMES_FIRST = 2 }; /* the first cache is what sums in lanes take at most */

static bool is_left(const Step *s)
{
    if (s->kind != STEP_MMA || s->zero_acc) return false;
    if (s->thin == THIN_DOTS_OF_A) return s->mma != MMA_I8_THIN;
    return s->thin == THIN_STRIPS && thin_inverts(s);
}

/* The next such product that alone takes the value as its sums; NULL: there is none. */
static Step *next_product(const Steps *in, const Value *v)
{
    const Use *u = v->uses;
    if (!u || u->next || u->user->op != OP_MMA || u != &u->user->operands[2]) return NULL;
    for (Step *s = in->first; s; s = s->next)
        if (s->instr == u->user && is_left(s)) return s;
    return NULL;
}

/* The first of the products through which the loop's carried value number k passes, if it passes through
 * nothing else; else NULL. */
static Step *products_of(const Step *loop, int k)
{
    const Value *v = loop->blocks[0]->block->args[k + 1];
    Step *first = NULL, *s;
    if (!loop->carried[k]) return NULL;
    for (; (s = next_product(loop->blocks[0], v)); v = ir_result(s->instr)) {
        if (!first) first = s;
        if (buf_root(s->buf) != buf_root(loop->carried[k]) || buf_root(s->acc) != buf_root(s->buf))
            return NULL;
        if (s->mma != first->mma || s->thin != first->thin) return NULL;
    }
    const Use *u = v->uses;
    bool out = u && !u->next && u->user == loop->instr->blocks[0]->last && u == &u->user->operands[k];
    return first && out ? first : NULL;
}

static void set_lanes(const Step *loop, Step *s, LLVMValueRef lanes)
{
    for (; s; s = next_product(loop->blocks[0], ir_result(s->instr))) s->lanes = lanes;
}

static Thin thin_of(Gen *g, Step *s)
{
    bool turned = s->thin == THIN_DOTS_OF_A;
    const Type *r = ir_result(s->instr)->type;
    Thin t = { .g = g, .s = s, .as = r->dtype, .m = r->shape[turned], .n = r->shape[!turned], .whole = true };
    t.lanes = mma_vector_lanes(g->target, s->mma);
    t.vec = gen_type(g, r->dtype, t.lanes);
    for (t.rows = MOST_AT_ONCE; t.m % t.rows; t.rows--);
    return t;
}

/* Of floats -0.0, which changes no sum it is added to, not even -0.0. */
static void clear(Thin *t, LLVMValueRef at, int64_t vectors)
{
    Gen *g = t->g;
    Loop l;
    LLVMValueRef zero = LLVMConstNull(t->vec), i = gen_loop(g, &l, gen_int(g, 0), gen_int(g, vectors), 1);
    if (dtype_is_float(t->as)) zero = LLVMBuildFNeg(g->b, zero, "");
    LLVMBuildStore(g->b, zero, LLVMBuildGEP2(g->b, t->vec, at, &i, 1, ""));
    gen_loop_end(g, &l);
}

void thin_loop_begin(Gen *g, const Step *loop)
{
    for (int k = 0; k < loop->instr->n_results; k++) {
        Step *s = products_of(loop, k);
        if (!s || g->plan->named) continue;
        Thin t = thin_of(g, s);
        int64_t vectors = s->thin == THIN_STRIPS ? t.m : t.m * t.n;
        int64_t bytes = vectors * t.lanes * dtype_bytes(t.as);
        if (bytes > g->target->first_cache * TIMES_FIRST) continue;
        LLVMValueRef at = gen_alloca(g, LLVMArrayType2(t.vec, (uint64_t)vectors), "lanes");
        clear(&t, at, vectors);
        set_lanes(loop, s, at);
    }
}

/* Adds the sums in lanes to those in memory. */
static void take_lanes(Thin *t)
{
    Gen *g = t->g;
    Loop along, rows;
    int columns = thin_columns(t);
    while (t->n % columns) columns /= 2;
    LLVMValueRef column = gen_loop(g, &along, gen_int(g, 0), gen_int(g, t->n), columns);
    t->row = gen_loop(g, &rows, gen_int(g, 0), gen_int(g, t->m), t->rows);
    thin_take_lanes(t, column, columns);
    gen_loop_end(g, &rows);
    gen_loop_end(g, &along);
}

void thin_loop_end(Gen *g, const Step *loop)
{
    for (int k = 0; k < loop->instr->n_results; k++) {
        Step *s = products_of(loop, k);
        if (!s || !s->lanes) continue;
        Thin t = thin_of(g, s);
        t.offsets = s->lanes;
        if (s->thin == THIN_STRIPS) thin_take_offsets(&t);
        else take_lanes(&t);
        set_lanes(loop, s, NULL);
    }
}
