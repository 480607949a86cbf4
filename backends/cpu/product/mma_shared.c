/* mma_shared.c: one function for two products.
 *
 *     s = mma(q, k)            tile.mma.shared(q, k, zeros, s, .., strides, panels and steps of the first)
 *     acc = mma(p, v, acc)     tile.mma.shared(p, v, acc, acc, .., strides, panels and steps of the second)
 *
 * The code of products is a large part of a kernel's, and the amount of code determines the time that LLVM
 * takes. So products of one block of steps whose blocks of sums are alike, as those of attention, have one
 * function, to which the caller gives what they differ in. The windows that they fetch have to be of the
 * same size. Other products have functions of their own, in which all of this is constant. */
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/product/mma.h"

enum {
    MOST_ROWS = 6, /* of a block: x86 has registers for their offsets */
    STEPS = 4,     /* the steps are a multiple of it, so that all blocks take as many in one iteration */
};

/* Whether the step is a product that could share its function. */
static bool can_share(const Step *s)
{
    if (s->kind != STEP_MMA) return false;
    const Type *sums = ir_result(s->instr)->type;
    return !s->thin && !mma_is_amx(s->mma) && s->mr <= MOST_ROWS && s->a->form == FORM_ROWS &&
           !s->a->offset_128 && sums->shape[1] % s->b->nr == 0 && mma_steps(s) % STEPS == 0;
}

/* Whether the blocks of both are the same, but not the products, which have one function anyway. */
static bool alike(const Step *a, const Step *b)
{
    const Type *m = ir_result(a->instr)->type, *n = ir_result(b->instr)->type;
    bool same = a->mma == b->mma && a->a->dtype == b->a->dtype && a->b->dtype == b->b->dtype &&
                a->mr == b->mr && a->b->nr == b->b->nr && m->dtype == n->dtype && m->shape[0] == n->shape[0];
    return same && (m->shape[1] != n->shape[1] || mma_steps(a) != mma_steps(b) || a->a->ld != b->a->ld ||
                       a->zero_acc != b->zero_acc);
}

static const Step *other_product(const Step *s)
{
    for (const Step *o = s->in->first; o; o = o->next)
        if (o != s && can_share(o) && alike(s, o)) return o;
    return NULL;
}

bool mma_shares(const MmaProduct *x)
{ return can_share(x->s) && other_product(x->s) && !x->real[0] && !x->real[1] && !x->real[2]; }

static int64_t blocks_of(const Step *s)
{
    const int64_t *shape = ir_result(s->instr)->type->shape;
    return shape[1] / s->b->nr * ((shape[0] + s->mr - 1) / s->mr);
}

/* A row of sums that begin as zeros: the function reads it for each row. */
static LLVMValueRef row_of_zeros(MmaProduct *x)
{
    const char *name = arena_printf(x->g->arena, "tile.zeros.%lld", (long long)x->n);
    LLVMValueRef z = LLVMGetNamedGlobal(x->g->module, name);
    if (z) return z;
    LLVMTypeRef t = LLVMArrayType2(gen_type(x->g, x->acc, 1), (uint64_t)x->n);
    z = LLVMAddGlobal(x->g->module, t, name);
    LLVMSetInitializer(z, LLVMConstNull(t));
    LLVMSetGlobalConstant(z, true);
    LLVMSetLinkage(z, LLVMInternalLinkage);
    return z;
}

int mma_add_shared(MmaProduct *x, LLVMValueRef *arguments, int n, Text *name)
{
    enum { FROM = 2 };
    Gen *g = x->g;
    const Step *s = x->s, *o = other_product(s);
    int acc_bytes = dtype_bytes(x->acc), abytes = dtype_bytes(s->a->dtype), group = mma_group(s->a->dtype);
    LLVMValueRef row = gen_int(g, x->n * acc_bytes);
    x->shared = true;
    /* The function fetches as much for each block as the one of them with the fewest blocks needs. */
    x->blocks = blocks_of(s) < blocks_of(o) ? blocks_of(s) : blocks_of(o);
    if (s->zero_acc) arguments[FROM] = row_of_zeros(x);
    LLVMValueRef own[] = { gen_int(g, s->a->ld * abytes), s->zero_acc ? gen_int(g, 0) : row, row,
        gen_int(g, s->b->nr * s->b->depth * group * abytes), gen_int(g, x->n / s->b->nr),
        gen_int(g, mma_steps(s)) };
    for (size_t k = 0; k < sizeof own / sizeof *own; k++) arguments[n++] = own[k];
    text_printf(name, ".shared.%dx%lld.%lld", s->mr, (long long)s->b->nr, (long long)x->blocks);
    return n;
}

void mma_take_shared(MmaProduct *x, LLVMValueRef function, unsigned at)
{
    LLVMValueRef *own[] = { &x->a_row, &x->from_row, &x->to_row, &x->panel_bytes, &x->panels, &x->steps };
    for (size_t k = 0; k < sizeof own / sizeof *own; k++) *own[k] = LLVMGetParam(function, at++);
}
