/* emit_mma.c: matrix products whose operands a warp holds: mma.sync, MFMA, WMMA, and plain fma. */
#include "backends/gpu/product/emit_mma.h"

static const char *operand_fn(Emit *e, const Product *p)
{
    const Type *a = ir_operand(p->instr, 0)->type, *b = ir_operand(p->instr, 1)->type;
    bool same = a->dtype == b->dtype;
    /* The name of the instruction has the dtype in place of the table's suffix for its width, as in
     * mfma_32x32x8_f16. */
    if (is_hip(e)) {
        const char *name = p->hw ? p->hw : p->info->name;
        bool xf32 = p->row && matrix_is_tf32(p->row);
        return use_product(e, str(e, "%.*s_%s%s%s", matrix_name_stem(name), name,
                                  xf32 ? "xf32" : dtype_name(p->hw ? b->dtype : a->dtype), same ? "" : "_",
                                  same ? "" : dtype_name(p->hw ? a->dtype : b->dtype)));
    }
    return use_product(e, str(e, "mma_%s_%s%s%s", p->info->name, dtype_name(a->dtype), same ? "" : "_",
                              same ? "" : dtype_name(b->dtype)));
}

/* Finds the instruction that computes a fragment, and how many of it cover K: the target's row of
 * ir/target/matrix.def. */
static void find_row(Emit *e, Product *p, LayoutMma kind)
{
    bool tf32 = ir_attr_int(p->instr, ATTR_PRECISION, 0) == PRECISION_TF32;
    p->row = matrix_instr_of(e->target, kind, ir_operand(p->instr, 0)->type->dtype, tf32);
    p->hw = p->row ? p->row->instruction : NULL;
    p->steps = p->row ? p->row->steps : 1;
}

void beyond_registers(Emit *e, const Instr *i, const Type *operand)
{
    int64_t words = type_elements(operand) * dtype_bits(operand->dtype) / 32 / e->plan->target->wave;
    if (words < LAYOUT_MAX_REGS) words = LAYOUT_MAX_REGS;
    if (words > e->largest.words)
        e->largest = (RegisterUse){ i->loc, operand, words > INT32_MAX ? INT32_MAX : (int)words };
}

/* Sets elements beyond the tile's K to zero, because they would contribute to the sum. */
static void zero_beyond(Emit *e, const Product *p, int side, const char *frag, Index *k)
{
    const Layout *l = p->frag[side];
    int axis = side ? 0 : 1, tiles = side ? p->nt : p->mt, per = (int)layout_regs(l) / (tiles * p->kt);
    DType d = ir_operand(p->instr, side)->type->dtype;
    int pw = per_word(d), bits = 32 / pw;
    if (l->cover[axis] == l->tile[axis]) return;
    int32_t *by_r = arena_array(&e->s->arena, int32_t, (size_t)per),
            *by_k = arena_array(&e->s->arena, int32_t, (size_t)p->kt), c[TILE_MAX_RANK];
    for (int r = 0; r < per; r++) {
        layout_element(l, (uint32_t)r, 0, 0, 0, c);
        by_r[r] = c[axis];
    }
    for (int q = 0; q < p->kt; q++) {
        layout_element(l, (uint32_t)((side ? q * tiles : q) * per), 0, 0, 0, c);
        by_k[q] = c[axis];
    }
    begin_unrolled(e, "t", tiles);
    begin_unrolled(e, "w", p->words[side]);
    const char *mask = NULL;
    for (int q = 0; q < pw; q++) {
        Index *r = dtype_bytes(d) == 8 ? index_other(e, "w / 2") : index_linear(e, pw, "w", q);
        const char *at = str(e, "%s + %s + %s", index_text(e, thread_coord(e, l, axis)),
            index_text(e, index_entry(e, by_k, p->kt, k)), index_text(e, index_entry(e, by_r, per, r)));
        const char *m = str(
            e, "(%s < %d ? 0x%xu : 0u)", at, l->tile[axis], pw == 1 ? ~0u : ((1u << bits) - 1) << (bits * q));
        mask = mask ? str(e, "%s | %s", mask, m) : m;
    }
    line(e, "%s[t * %d + w] &= %s;", frag, p->words[side], mask);
    end_block(e);
    end_block(e);
}

/* WMMA: each half of the wave holds one half of A's K (the pass layout), and gets the other half from the
 * lanes of the other half. */
static void load_halves(Emit *e, const Product *p, const char *to, const char *from, const char *k)
{
    int half = p->words[0] / 2;
    begin_unrolled(e, "t", p->mt);
    begin_unrolled(e, "w", half);
    const char *own = tmp(e, "own"), *other = tmp(e, "other");
    line(e, "const u32 %s = ((const u32 *)%s)[(t * %d + %s) * %d + w], %s = %s(%s);", own, from, p->kt, k,
        half, other, use(e, "swizzle_xor16"), own);
    line(e, "%s[t * %d + w] = lane & 16 ? %s : %s;", to, 2 * half, other, own);
    line(e, "%s[t * %d + %d + w] = lane & 16 ? %s : %s;", to, 2 * half, half, own, other);
    end_block(e);
    end_block(e);
}

static void round_tf32(Emit *e, const char *words, int n)
{
    begin_unrolled(e, "t", n);
    line(e, "%s[t] = %s(%s[t]);", words, use(e, "to_tf32"), words);
    end_block(e);
}

/* Whether no other instruction reads the registers of v from here on. The result of a conversion or reshape
 * that moves nothing has the registers of its operand. */
static bool alone_in_registers(const Emit *e, const Value *v, const Block *here)
{
    if (ir_use_count(v) != 1 || (v->def ? v->def->block : v->block) != here) return false;
    for (int k = 0; v->def && k < v->def->n_operands; k++) {
        const Value *x = ir_operand(v->def, k);
        if (x->type->kind == TYPE_TILE && e->storage[x->id] == e->storage[v->id] &&
            !alone_in_registers(e, x, here))
            return false;
    }
    return true;
}

/* Updates the accumulator in place when no other instruction reads it. */
const char *product_accumulator(Emit *e, Instr *i)
{
    Value *acc = ir_operand(i, 2), *r = ir_result(i);
    const char *a = registers_of(e, acc);
    if (alone_in_registers(e, acc, i->block)) {
        e->storage[r->id] = a;
        return a;
    }
    const char *n = declare_tile(e, r);
    int words = array_len(r->type->dtype, (int)layout_regs(layout_of(e, r)));
    begin_unrolled(e, "i", words);
    line(e, "%s[i] = %s[i];", n, a);
    end_block(e);
    return n;
}

/* Emits the order of a product's reads from LDS and its instructions: 8 reads (32 registers) ahead, and then
 * both in turn. Without this, clang reads further ahead than the registers allow, or not far enough
 * (docs/amd.md). */
static void interleave(Emit *e, int reads, int kt, int products)
{
    int all = reads * kt, n = products * kt, ahead = 8;
    const char *group = use(e, "sched_group");
    if (ahead > all) ahead = all;
    line(e, "%s(256, %d);", group, ahead);
    for (int k = 0, read = ahead; k < n;) {
        /* until the next read is due */
        int run = 1;
        int due = ahead + (int)((int64_t)(k + 1) * reads / products);
        while (k + run < n && (due > all ? all : due) == read) {
            run++;
            due = ahead + (int)((int64_t)(k + run) * reads / products);
        }
        line(e, "%s(8, %d);", group, run);
        k += run;
        if (due > all) due = all;
        if (due > read) line(e, "%s(256, %d);", group, due - read);
        read = due;
    }
}

/* AMD: keeps a product where it is. Otherwise clang moves it to the use of its result, behind branches and
 * other products, and holds its fragments until then. */
static bool more_products(const Instr *i)
{
    for (i = i->next; i; i = i->next)
        if (i->op == OP_MMA_SYNC) return true;
    return false;
}

/* AMD: a tile that an earlier product of the block has read is read again, at an address that clang cannot
 * know to be the same. Otherwise clang would hold the whole tile in registers in between. */
static void read_again(Emit *e, const Instr *i, const Value *view)
{
    bool earlier = false;
    for (const Use *u = view->uses; u && !earlier; u = u->next)
        for (const Instr *x = u->user->op == OP_MMA_SYNC && u->user->block == i->block ? u->user->next : NULL;
            x && !earlier; x = x->next)
            earlier = x == i;
    if (!earlier) return;
    const char *n = tmp(e, "view");
    line(e, "const u32 %s = (u32)%s((i32)%s);", n, use(e, "opaque"), name_of(e, view));
    vec_push(&e->s->arena, &e->views, ((ViewName){ view, e->storage[view->id] }));
    e->storage[view->id] = n;
}

void emit_views_close(Emit *e, size_t from)
{
    while (e->views.len > from) {
        const ViewName v = e->views.data[--e->views.len];
        e->storage[v.of->id] = v.was;
    }
}

/* The number of fragments of a warp along each axis, derived from the layout of the accumulator. */
static void count_fragments(Emit *e, Product *p)
{
    int32_t c[TILE_MAX_RANK], ext[2] = { 0, 0 };
    int per_c = p->info->m * p->info->n / p->info->lanes;
    for (uint32_t r = 0; r < layout_regs(p->c); r++) {
        layout_element(p->c, r, 0, 0, 0, c);
        for (int a = 0; a < 2; a++)
            if (c[a] + 1 > ext[a]) ext[a] = c[a] + 1;
    }
    p->mt = (ext[0] + p->info->m - 1) / p->info->m;
    p->nt = (ext[1] + p->info->n - 1) / p->info->n;
    if ((int)layout_regs(p->c) != p->mt * p->nt * per_c)
        ir_fail(e->s, p->instr->loc, "an accumulator of %u registers is not %d x %d fragments",
            layout_regs(p->c), p->mt, p->nt);
    int height =
        (int)(ir_result(p->instr)->type->shape[0] / ir_attr_int(p->instr, ATTR_PARTS, 1)) / p->info->m;
    p->stacked = ir_attr(p->instr, ATTR_PARTS) && p->mt > height ? p->mt / height : 1;
    p->mt /= p->stacked;
    p->kt = p->stacked * (int)((ir_operand(p->instr, 0)->type->shape[1] + p->info->k - 1) / p->info->k);
}

/* The layouts of the operands' fragments; false: a warp cannot hold them. */
static bool lay_fragments(Emit *e, Product *p, LayoutMma kind)
{
    const Instr *i = p->instr;
    /* The attribute `count` gives the number of warps along N. The layout alone does not tell it when there
     * are more warps than the tile needs. */
    int32_t along_n = (int32_t)ir_attr_int(i, ATTR_COUNT, p->c->cover[1] / (p->nt * p->info->n));
    int32_t warps[2] = { (int32_t)layout_warps(p->c) / p->info->warps / along_n, along_n };
    for (int side = 0; side < 2; side++) {
        const Type *t = ir_operand(i, side)->type;
        int32_t tile[2] = { (int32_t)t->shape[0], (int32_t)t->shape[1] };
        int32_t products = (int32_t)ir_attr_int(i, ATTR_PARTS, 1);
        p->frag[side] = side && products > 1
                            ? layout_mma_stacked(&e->s->arena, kind, tile, warps, products,
                                  (int32_t)ir_result(i)->type->shape[0] / products / p->info->m)
                            : layout_mma(&e->s->arena, kind, side ? LAYOUT_B : LAYOUT_A, 2, tile, warps);
        if (!p->frag[side]) {
            beyond_registers(e, i, t);
            return false;
        }
        int regs = (int)layout_regs(p->frag[side]) / ((side ? p->nt : p->mt) * p->kt);
        p->words[side] = regs * dtype_bytes(ir_operand(i, 0)->type->dtype) / 4;
    }
    return true;
}

/* For mma.sync of fp8 on sm_90 and sm_100, ptxas (CUDA 13.0) converts each half of an operand's word to f16.
 * Of a word that it finds to be constant only after it has divided the product, it takes a wrong upper half:
 * 0x10 for the zeros beyond K, for example. So no word may become a constant: each one gets the bits of a
 * zero that ptxas does not know. Words read from shared memory are no constants. */
static void hide_constants(Emit *e, const Product *p, int side, const char *frag)
{
    const Value *v = ir_operand(p->instr, side);
    const Layout *l = p->frag[side];
    int axis = side ? 0 : 1;
    bool read = v->type->kind == TYPE_SHARED || (v->def && v->def->op == OP_SHARED_READ);
    if (!(e->target->matrix & (MATRIX_HOPPER | MATRIX_BLACKWELL)) || !dtype_is_float(v->type->dtype) ||
        dtype_bytes(v->type->dtype) != 1 || (read && l->cover[axis] == l->tile[axis]))
        return;
    begin_unrolled(e, "t", (side ? p->nt : p->mt) * p->words[side]);
    line(e, "%s[t] |= %s();", frag, use(e, "hidden_zero"));
    end_block(e);
}

/* Declares the fragments of operand `side` at step k of K, and fills them. Returns their name. *reads counts
 * the reads of LDS so far; -1: the count is not known. */
static const char *operand_fragments(Emit *e, const Product *p, int side, const char *k, int *reads)
{
    Value *v = ir_operand(p->instr, side);
    Index *step = index_variable(e, k);
    int tiles = side ? p->nt : p->mt, words = p->words[side];
    const char *to = tmp(e, side ? "b" : "a");
    line(e, "u32 %s[%d];", to, tiles * words);
    if (v->type->kind == TYPE_SHARED) {
        int n = load_fragments(e, p, side, v, to, step);
        *reads = n && *reads >= 0 ? *reads + n : -1;
    } else if (side == 0 && layout_regs(layout_of(e, v)) < layout_regs(p->frag[0]))
        load_halves(e, p, to, registers_of(e, v), k);
    else {
        begin_unrolled(e, "t", tiles);
        begin_unrolled(e, "w", words);
        line(e, "%s[t * %d + w] = ((const u32 *)%s)[(%s) * %d + w];", to, words, registers_of(e, v),
            side              ? str(e, "%s * %d + t", k, tiles)
            : p->stacked == 1 ? str(e, "t * %d + %s", p->kt, k)
                              : str(e, "(%s / %d * %d + t) * %d + %s %% %d", k, p->kt / p->stacked, tiles,
                                    p->kt / p->stacked, k, p->kt / p->stacked),
            words);
        end_block(e);
        end_block(e);
    }
    zero_beyond(e, p, side, to, step);
    hide_constants(e, p, side, to);
    if (ir_attr_int(p->instr, ATTR_PRECISION, 0) == PRECISION_TF32) round_tf32(e, to, tiles * words);
    return to;
}

/* The accumulator of a warp's fragment `place` at step k, of the product's own sum or of another one. */
static const char *sum_at(Emit *e, const Product *p, const char *acc, const char *place, const char *k)
{
    int per_c = p->info->m * p->info->n / p->info->lanes, all = p->mt * p->nt * per_c;
    const char *own = str(e, "&%s[%s * %d]", acc, place, per_c);
    if (p->chains == 1) return own;
    return str(e, "%s %% %d == 0 ? %s : &%s[(%s %% %d - 1) * %d + %s * %d]", k, p->chains, own, p->others, k,
        p->chains, all, place, per_c);
}

/* Few fragments would wait for each other: an instruction adds to what the one before it gives, which takes
 * many times as long as its issue. So there are several sums of each, one behind the other along K. */
static void open_chains(Emit *e, Product *p)
{
    enum { WANTED = 4, STEPS = 8 }; /* instructions that do not wait; least steps of each sum */
    p->chains = WANTED / (p->mt * p->nt);
    if (is_hip(e) || !dtype_is_float(ir_result(p->instr)->type->dtype) || p->stacked > 1 || p->steps > 1 ||
        ir_attr(p->instr, ATTR_PART) || p->chains < 1)
        p->chains = 1;
    while (p->chains > 1 && p->kt < STEPS * p->chains) p->chains /= 2;
    if (p->chains == 1) return;
    DType d = ir_result(p->instr)->type->dtype;
    int n = (p->chains - 1) * (int)layout_regs(p->c);
    p->others = tmp(e, "sums");
    line(e, "%s %s[%d];", ctype(d), p->others, n);
    begin_unrolled(e, "i", n);
    line(e, "%s[i] = 0;", p->others);
    end_block(e);
}

static void close_chains(Emit *e, const Product *p, const char *acc)
{
    int n = (int)layout_regs(p->c);
    if (p->chains == 1) return;
    begin_unrolled(e, "i", n);
    const char *sum = str(e, "%s[i]", p->others);
    for (int k = 1; k < p->chains - 1; k++) sum = str(e, "%s + %s[i + %d]", sum, p->others, k * n);
    line(e, "%s[i] += %s;", acc, sum);
    end_block(e);
}

/* Emits all products of one step of K. */
static void multiply(
    Emit *e, const Product *p, const char *fn, const char *acc, const char *k, const char *const *frag)
{
    const char *row = p->stacked == 1 ? "m" : str(e, "(%s / %d * %d + m)", k, p->kt / p->stacked, p->mt);
    int per_c = p->info->m * p->info->n / p->info->lanes;
    if (p->steps > 1) begin_unrolled(e, "q", p->steps);
    begin_unrolled(e, "m", p->mt);
    begin_unrolled(e, "n", p->nt);
    const char *part = p->steps > 1 ? str(e, " + q * %d", p->words[0] / p->steps) : "";
    if (p->hw)
        line(e, "%s(&%s[(m * %d + n) * %d], &%s[n * %d%s], &%s[m * %d%s]);", fn, acc, p->nt, per_c, frag[1],
            p->words[1], part, frag[0], p->words[0], part);
    else
        line(e, "%s(%s, &%s[m * %d], &%s[n * %d]);", fn,
            sum_at(e, p, acc, str(e, "(%s * %d + n)", row, p->nt), k), frag[0], p->words[0], frag[1],
            p->words[1]);
    end_block(e);
    end_block(e);
    if (p->steps > 1) end_block(e);
}

/* Emits the loop over the steps of K. Returns the number of LDS reads of a step, which is not above 0 when it
 * is not known. */
static int multiply_steps(Emit *e, Product *p, const char *fn, const char *acc)
{
    const Attr *only = ir_attr(p->instr, ATTR_PART);
    int from = only ? (int)(only->v[0] / p->info->k) : 0, reads = 0,
        steps = only ? (int)((only->v[1] + p->info->k - 1) / p->info->k) : p->kt;
    const char *k = tmp(e, "k"), *frag[2];
    const Type *a = ir_operand(p->instr, 0)->type, *b = ir_operand(p->instr, 1)->type;
    line(e, "/* [%lld, %lld] x [%lld, %lld]: %d x %d x %d fragments a warp */", (long long)a->shape[0],
        (long long)a->shape[1], (long long)b->shape[0], (long long)b->shape[1], p->mt, p->nt, p->kt);
    for (int side = 0; side < 2; side++)
        if (is_hip(e) && ir_operand(p->instr, side)->type->kind == TYPE_SHARED)
            read_again(e, p->instr, ir_operand(p->instr, side));
    const char *step = from ? tmp(e, "step") : k;
    open_chains(e, p);
    begin_unrolled(e, step, steps);
    if (from) line(e, "const int %s = %s + %d;", k, step, from);
    for (int side = 0; side < 2; side++) frag[side] = operand_fragments(e, p, side, k, &reads);
    multiply(e, p, fn, acc, k, frag);
    end_block(e);
    close_chains(e, p, acc);
    return reads;
}

void emit_mma_sync(Emit *e, Instr *i)
{
    if (!strcmp(ir_attr(i, ATTR_INSTR)->s, "fma")) {
        emit_fma(e, i);
        return;
    }
    LayoutMma kind = kernel_mma_kind(e->s, ir_attr(i, ATTR_INSTR)->s);
    Product p = { .instr = i, .info = layout_mma_info(kind), .stacked = 1 };
    p.c = layout_of(e, ir_result(i));
    find_row(e, &p, kind);
    count_fragments(e, &p);
    if (!lay_fragments(e, &p, kind)) {
        product_accumulator(e, i);
        return;
    }
    const char *acc = product_accumulator(e, i), *fn = operand_fn(e, &p);
    int reads = multiply_steps(e, &p, fn, acc);
    if (is_hip(e) && reads > 0) interleave(e, reads, p.kt, p.mt * p.nt * p.steps);
    if (is_hip(e) && more_products(i)) {
        begin_unrolled(e, "i", p.mt * p.nt);
        line(e, "%s(%s[i * %d]);", use(e, "stays"), acc, p.info->m * p.info->n / p.info->lanes);
        end_block(e);
    }
}
