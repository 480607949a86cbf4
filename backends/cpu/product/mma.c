/* mma.c: matrix products.
 *
 *     acc[M][N] += A[M][K] B[K][N]      A: rows or columns (FORM_ROWS, FORM_COLUMNS), B: panels of nr
 *                                       columns (FORM_PANELS, FORM_GROUPS), acc: dense
 *
 * For each panel of B and each block of mr rows of A, mr x nv vectors of acc stay in registers while k runs:
 * nv loads of B and mr broadcasts of A for mr * nv multiply-adds. mr and nv fit the register file
 * (mma_block_shape). Packing converts once to what the products run in: f32 for f16, fp8 and f32; pairs of
 * bf16 where there are dot products of them; of i8 groups of four where the processor multiplies such, else
 * pairs of 16-bit integers. */
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/product/mma.h"
#include "backends/cpu/plan/plan.h"
#include <stdio.h>

/* --- the product ------------------------------------------------------------------------------------- */

typedef MmaProduct Kernel;

/* acc + dot products of pairs of bf16. */
LLVMValueRef mma_add_bf16_pairs(Gen *g, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef t = LLVMVectorType(LLVMBFloatTypeInContext(g->ctx), (unsigned)g->target->vector_bytes / 2);
    LLVMValueRef v[] = { acc, LLVMBuildBitCast(g->b, a, t, ""), LLVMBuildBitCast(g->b, b, t, "") };
    if (!g->target->arm) return gen_intrinsic(g, "llvm.x86.avx512bf16.dpbf16ps.512", NULL, 0, v, 3);
    return gen_intrinsic(g, "llvm.aarch64.neon.bfdot", (LLVMTypeRef[]){ LLVMTypeOf(acc), t }, 2, v, 3);
}

LLVMValueRef mma_add_i16_pairs(Gen *g, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
    int bytes = g->target->vector_bytes, lanes = bytes / 4;
    LLVMTypeRef t = gen_vec(g->i16, bytes / 2);
    LLVMValueRef v[] = { LLVMBuildBitCast(g->b, a, t, ""), LLVMBuildBitCast(g->b, b, t, "") };
    const char *name = bytes == 64   ? "llvm.x86.avx512.pmaddw.d.512"
                       : bytes == 32 ? "llvm.x86.avx2.pmadd.wd"
                                     : "llvm.x86.sse2.pmadd.wd";
    if (g->target->has & CPU_VNNI)
        return gen_intrinsic(g, bytes == 64 ? "llvm.x86.avx512.vpdpwssd.512" : "llvm.x86.avx512.vpdpwssd.256",
            NULL, 0, (LLVMValueRef[]){ acc, v[0], v[1] }, 3);
    if (!g->target->arm) return LLVMBuildAdd(g->b, acc, gen_intrinsic(g, name, NULL, 0, v, 2), "");
    int even[64], odd[64];
    LLVMTypeRef wide = gen_vec(g->i32, bytes / 2);
    LLVMValueRef p =
        LLVMBuildMul(g->b, LLVMBuildSExt(g->b, v[0], wide, ""), LLVMBuildSExt(g->b, v[1], wide, ""), "");
    for (int k = 0; k < lanes; k++) {
        even[k] = 2 * k;
        odd[k] = 2 * k + 1;
    }
    p = LLVMBuildAdd(g->b, gen_shuffle(g, p, NULL, even, lanes), gen_shuffle(g, p, NULL, odd, lanes), "");
    return LLVMBuildAdd(g->b, acc, p, "");
}

/* acc + dot products of four 8-bit integers each: the unsigned operand of two comes first. */
static LLVMValueRef add_i8_quads(Kernel *x, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
    Gen *g = x->g;
    int bytes = g->target->vector_bytes;
    LLVMTypeRef t = gen_vec(g->i8, bytes);
    bool ua = (x->s->a->dtype == DT_U8) != x->s->a->offset_128, ub = x->s->b->dtype == DT_U8;
    LLVMValueRef v[] = { acc, LLVMBuildBitCast(g->b, ub && !ua ? b : a, t, ""),
        LLVMBuildBitCast(g->b, ub && !ua ? a : b, t, "") };
    if (!g->target->arm)
        return gen_intrinsic(
            g, bytes == 64 ? "llvm.x86.avx512.vpdpbusd.512" : "llvm.x86.avx512.vpdpbusd.256", NULL, 0, v, 3);
    const char *name = ua && ub   ? "llvm.aarch64.neon.udot"
                       : ua || ub ? "llvm.aarch64.neon.usdot"
                                  : "llvm.aarch64.neon.sdot";
    return gen_intrinsic(g, name, (LLVMTypeRef[]){ LLVMTypeOf(acc), t }, 2, v, 3);
}

LLVMValueRef mma_multiply_add(MmaProduct *x, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
    Gen *g = x->g;
    LLVMValueRef v[] = { a, b, acc };
    switch (x->s->mma) {
    case MMA_BF16_PAIRS: return mma_add_bf16_pairs(g, acc, a, b);
    case MMA_I16_PAIRS: return mma_add_i16_pairs(g, acc, a, b);
    case MMA_I8_QUADS: return add_i8_quads(x, acc, a, b);
    case MMA_AMX_BF16: /* amx_product */
    case MMA_AMX_F16:
    case MMA_AMX_I8:
    case MMA_I8_PAIRS: /* thin_emit */
    case MMA_I8_THIN:
    case MMA_F32:
    case MMA_F64: break;
    }
    return gen_intrinsic(
        g, g->target->fma ? "llvm.fma" : "llvm.fmuladd", (LLVMTypeRef[]){ LLVMTypeOf(acc) }, 1, v, 3);
}

enum { SECOND_CACHE = 2, MAX_UNROLLED_LINES = 16 };

/* How a product fetches its next window `w`: each block of sums fetches `each` parts, which are 2^-split of a
 * row. */
typedef struct Parts {
    int split;
    int64_t bytes, n, each;
} Parts;

static Parts parts_by(const MmaProduct *x, int w, int split)
{
    int64_t bytes = x->next[w].bytes;
    for (int k = 0; k < split; k++) bytes = (bytes + 1) / 2;
    int64_t n = x->next[w].rows << split;
    return (Parts){ split, bytes, n, (n + x->blocks - 1) / x->blocks };
}

static int64_t lines_of(const Parts *p) { return p->bytes > 1 ? (p->bytes + LINE - 1) / LINE + 1 : 1; }

/* The parts by which a block fetches the fewest lines: blocks are rarely as many as rows. */
static Parts parts_of_window(const MmaProduct *x, int w)
{
    Parts best = parts_by(x, w, 0);
    for (int split = 1;; split++) {
        Parts p = parts_by(x, w, split - 1);
        if (p.bytes <= LINE) return best;
        p = parts_by(x, w, split);
        if (p.each * lines_of(&p) < best.each * lines_of(&best)) best = p;
    }
}

/* Fetches part number `part` of next window `w`. Its last byte may be in a line more. */
static void fetch_part(MmaProduct *x, int w, const Parts *p, LLVMValueRef part)
{
    Gen *g = x->g;
    /* More parts than there are would be memory that nothing reads. */
    if (x->shared || p->each * x->blocks > p->n) part = smaller(g, part, gen_int(g, p->n - 1));
    LLVMValueRef row = LLVMBuildLShr(g->b, part, gen_int(g, p->split), ""),
                 in = LLVMBuildAnd(g->b, part, gen_int(g, ((int64_t)1 << p->split) - 1), "");
    LLVMValueRef at = gen_ptr(g, x->next[w].at, LLVMBuildMul(g->b, row, x->next[w].stride, ""));
    at = gen_ptr(g, at, gen_imul(g, in, p->bytes));
    for (int64_t b = 0; b < p->bytes; b += LINE)
        memory_prefetch(g, gen_ptr(g, at, gen_int(g, b)), SECOND_CACHE);
    if (p->bytes > 1) memory_prefetch(g, gen_ptr(g, at, gen_int(g, p->bytes - 1)), SECOND_CACHE);
}

/* Straight code, as the branches of loops over a few lines are hard to predict. */
void mma_fetch(MmaProduct *x, LLVMValueRef block)
{
    Gen *g = x->g;
    for (int w = 0; w < x->n_next; w++) {
        Parts p = parts_of_window(x, w);
        LLVMValueRef first = gen_imul(g, block, p.each);
        if (p.each > 1 && p.each * lines_of(&p) > MAX_UNROLLED_LINES) {
            Loop l;
            LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, p.each), 1);
            fetch_part(x, w, &p, gen_iadd(g, first, k));
            gen_loop_end(g, &l);
            continue;
        }
        for (int64_t k = 0; k < p.each; k++) fetch_part(x, w, &p, gen_iadd(g, first, gen_int(g, k)));
    }
}

/* The end of a loop over [from, to) of which position i is needed where i * size < real - first. */
static LLVMValueRef needed(Gen *g, LLVMValueRef real, int64_t first, int64_t size, int64_t from, int64_t to)
{
    if (!real) return gen_int(g, to);
    LLVMValueRef left = larger(g, LLVMBuildSub(g->b, real, gen_int(g, first), ""), gen_int(g, 0));
    return smaller(g, larger(g, mma_parts_of(g, left, size), gen_int(g, from)), gen_int(g, to));
}

/* Computes all row blocks of one panel, which have sizes as equal as possible. */
static void panel_rows(Kernel *x, int nv, int64_t columns, LLVMValueRef panel, LLVMValueRef column)
{
    Gen *g = x->g;
    int64_t blocks = (x->m + x->s->mr - 1) / x->s->mr, rows = x->m / blocks, more = x->m % blocks;
    LLVMValueRef first = gen_imul(g, LLVMBuildUDiv(g->b, column, gen_int(g, x->s->b->nr), ""), blocks);
    if (x->s->a->offset_128) mma_sum_columns(x, nv, panel);
    Loop l;
    if (more) {
        LLVMValueRef end = needed(g, x->real[0], 0, rows + 1, 0, more);
        LLVMValueRef i = gen_loop(g, &l, gen_int(g, 0), end, 1);
        mma_fetch(x, gen_iadd(g, first, i));
        mma_block(x, (int)rows + 1, nv, columns, gen_imul(g, i, rows + 1), panel, column);
        gen_loop_end(g, &l);
    }
    LLVMValueRef end = needed(g, x->real[0], more, rows, more, blocks);
    LLVMValueRef i = gen_loop(g, &l, gen_int(g, more), end, 1);
    mma_fetch(x, gen_iadd(g, first, i));
    mma_block(x, (int)rows, nv, columns, gen_iadd(g, gen_imul(g, i, rows), gen_int(g, more)), panel, column);
    gen_loop_end(g, &l);
}

static void product(Kernel *x)
{
    Gen *g = x->g;
    Step *s = x->s;
    int64_t nr = s->b->nr, full = x->n / nr, rest = x->n % nr;
    Loop l;
    if (full) {
        LLVMValueRef end = x->real[1] ? needed(g, x->real[1], 0, nr, 0, full) : x->panels;
        LLVMValueRef j = gen_loop(g, &l, gen_int(g, 0), end, 1);
        l.runs |= x->shared;
        panel_rows(
            x, s->nv, nr, gen_ptr(g, x->b, LLVMBuildMul(g->b, j, x->panel_bytes, "")), gen_imul(g, j, nr));
        gen_loop_end(g, &l);
    }
    if (!rest) return;
    LLVMValueRef at = gen_int(g, full * nr);
    If f;
    if (x->real[1]) gen_if(g, &f, icmp(g, LLVMIntSGT, x->real[1], at));
    panel_rows(x, (int)((rest + x->lanes - 1) / x->lanes), rest,
        gen_ptr(g, x->b, gen_imul(g, x->panel_bytes, full)), at);
    if (x->real[1]) gen_endif(g, &f);
}

/* The load that makes operand k of the product, if the product fetches the window of its next step. */
static const Window *window_of(Gen *g, const Instr *mma, int k)
{
    const Instr *i = ir_operand(mma, k)->def;
    while (i && (i->op == OP_PERMUTE || i->op == OP_CAST)) i = ir_operand(i, 0)->def;
    if (!i || i->op != OP_LOAD || memory_product(i) != mma) return NULL;
    const Window *w = g->windows[ir_result(i)->id];
    return w && w->in_product ? w : NULL;
}

enum { FIXED_ARGUMENTS = 4, MAX_ARGUMENTS = FIXED_ARGUMENTS + 4 + 3 + 3 * MAX_JOINED };

/* Adds what the next windows are to the arguments of a call, and how they lie to the name of the function. */
static int next_windows(Kernel *x, LLVMValueRef *arguments, Text *name)
{
    Gen *g = x->g;
    int n = FIXED_ARGUMENTS;
    for (int k = 0; k < 2; k++) {
        const Window *w = window_of(g, x->s->instr, k);
        if (!w) continue;
        int line = w->is_unit[0] && !w->is_unit[1] ? 0 : 1; /* the axis whose elements are side by side */
        x->next[x->n_next].rows = w->shape[!line];
        x->next[x->n_next++].bytes = w->shape[line] * dtype_bytes(w->dtype);
        arguments[n] = gen_ptr(g, w->base, w->ahead);
        arguments[n + 1] = w->stride[!line];
        keep_fetch(g, k ? x->s->b : x->s->a, &arguments[n], &arguments[n + 1]);
        n += 2;
        text_printf(name, ".%lldx%lld", (long long)w->shape[!line],
            (long long)(w->shape[line] * dtype_bytes(w->dtype)));
    }
    return n;
}

/* The end of the window that makes operand k of the product, along this axis of the operand; NULL: all of it
 * is in range, or what is behind the end is not zero. */
static LLVMValueRef end_of_operand(Gen *g, const Instr *mma, int k, int axis)
{
    const Instr *i = ir_operand(mma, k)->def;
    for (; i && (i->op == OP_PERMUTE || i->op == OP_CAST); i = ir_operand(i, 0)->def)
        if (i->op == OP_PERMUTE) axis = (int)ir_attr(i, ATTR_ORDER)->v[axis];
    const Window *w = i && i->op == OP_LOAD ? g->windows[ir_result(i)->id] : NULL;
    if (!w || w->rank != 2 || (w->m.pad && !plan_is_zero(w->m.pad))) return NULL;
    return w->hi[axis];
}

/* Adds how many rows, columns and elements along K are in range to the arguments of a call, where fewer may
 * be and nothing reads the others. */
static int add_ends(Kernel *x, LLVMValueRef *arguments, int n, Text *name)
{
    Gen *g = x->g;
    const Instr *mma = x->s->instr;
    unsigned unseen = plan_info(g->plan, ir_result(mma))->unseen;
    LLVMValueRef end[3] = { NULL, NULL, end_of_operand(g, mma, 0, 1) };
    for (int a = 0; a < 2; a++)
        if (unseen >> a & 1) end[a] = end_of_operand(g, mma, a, a);
    LLVMValueRef other = end_of_operand(g, mma, 1, 0);
    end[2] = end[2] && other ? larger(g, end[2], other) : NULL;
    for (int a = 0; a < 3; a++) {
        x->real[a] = end[a];
        if (!end[a]) continue;
        arguments[n++] = end[a];
        text_printf(name, ".end%d", a);
    }
    return n;
}

/* Adds the operands of the products that are computed at once. */
static int add_parts(Kernel *x, LLVMValueRef *arguments, int n, Text *name)
{
    for (const Step *s = x->s; s; s = s->with, x->n_parts++) {
        in_place_operand(x->g, s, &arguments[n], &arguments[n + 2]);
        arguments[n + 1] = gen_buf(x->g, s->b, 0);
        n += 3;
    }
    text_printf(name, ".parts%d", x->n_parts);
    return n;
}

/* What is constant in a function of one product, or given to one that products share. */
static void take_strides(Kernel *x, LLVMValueRef f, unsigned at)
{
    Gen *g = x->g;
    const Step *s = x->s;
    if (x->shared) {
        mma_take_shared(x, f, at);
        return;
    }
    int abytes = dtype_bytes(s->a->dtype);
    int64_t nr = s->b->nr, depth = s->b->depth * mma_group(s->b->dtype) * dtype_bytes(s->b->dtype);
    x->a_row = gen_int(g, (s->a->form == FORM_COLUMNS ? 1 : s->a->ld) * abytes);
    x->from_row = x->to_row = gen_int(g, x->n * dtype_bytes(x->acc));
    x->panel_bytes = gen_int(g, nr * depth);
    x->panels = gen_int(g, x->n / nr);
    x->blocks = (x->n + nr - 1) / nr * ((x->m + s->mr - 1) / s->mr);
}

static void emit_function(Kernel *x, LLVMValueRef f)
{
    Gen *g = x->g;
    x->vec = gen_type(g, x->acc, x->lanes);
    x->a = LLVMGetParam(f, 0);
    x->b = LLVMGetParam(f, 1);
    x->from = x->s->acc || x->shared ? LLVMGetParam(f, 2) : NULL;
    x->to = LLVMGetParam(f, 3);
    for (int k = 0; k < x->n_next; k++) {
        x->next[k].at = LLVMGetParam(f, (unsigned)(FIXED_ARGUMENTS + 2 * k));
        x->next[k].stride = LLVMGetParam(f, (unsigned)(FIXED_ARGUMENTS + 2 * k + 1));
    }
    unsigned at = (unsigned)(FIXED_ARGUMENTS + 2 * x->n_next);
    for (int a = 0; a < 3; a++)
        if (x->real[a]) x->real[a] = LLVMGetParam(f, at++);
    for (int k = 0; k < x->n_parts; k++) {
        x->parts[k].a = LLVMGetParam(f, at++);
        x->parts[k].b = LLVMGetParam(f, at++);
        x->parts[k].a_row = LLVMGetParam(f, at++);
    }
    if (mma_is_amx(x->s->mma)) {
        amx_product(x);
    } else {
        take_strides(x, f, at);
        product(x);
    }
    LLVMBuildRetVoid(g->b);
}

/* Makes a function for each shape, because kernels repeat products (peeled loops), and the amount of code
 * determines compile time. */
void mma_emit(Gen *g, Step *s)
{
    if (s->thin) {
        g->reduces_strength = true;
        thin_emit(g, s);
        g->reduces_strength = false;
        return;
    }
    if (s->joined) return;
    const Type *a = ir_operand(s->instr, 0)->type, *r = ir_result(s->instr)->type;
    Kernel x = { .g = g,
        .s = s,
        .lanes = mma_vector_lanes(g->target, s->mma),
        .m = r->shape[0],
        .n = r->shape[1],
        .k = a->shape[1],
        .acc = r->dtype };
    LLVMValueRef arguments[MAX_ARGUMENTS] = { gen_buf(g, s->a, 0), gen_buf(g, s->b, 0),
        gen_buf(g, s->acc ? s->acc : s->buf, 0), gen_buf(g, s->buf, 0) };
    LLVMTypeRef types[MAX_ARGUMENTS];
    Text name, windows;
    text_init(&name, g->arena);
    text_init(&windows, g->arena);
    text_printf(&name, "tile.mma.%d.%d.%d.%lld", s->mma, s->a->dtype, s->b->dtype, (long long)x.m);
    int n = next_windows(&x, arguments, &windows);
    if (mma_is_amx(s->mma)) n = add_parts(&x, arguments, n, &windows);
    else n = add_ends(&x, arguments, n, &windows);
    if (mma_shares(&x)) n = mma_add_shared(&x, arguments, n, &name);
    else
        text_printf(&name, "x%lldx%lld.%lld.%d.%d", (long long)x.n, (long long)x.k, (long long)s->a->ld,
            s->a->form, s->zero_acc);
    text_printf(&name, "%s", windows.data);
    for (int k = 0; k < n; k++) types[k] = LLVMTypeOf(arguments[k]);
    LLVMTypeRef type = LLVMFunctionType(g->voidt, types, (unsigned)n, false);
    LLVMValueRef f = helper_find(g, name.data);
    if (!f) {
        Helper h;
        f = helper_begin(g, &h, name.data, type);
        emit_function(&x, f);
        helper_end(g, &h);
    }
    LLVMBuildCall2(g->b, type, f, arguments, (unsigned)n, "");
}
