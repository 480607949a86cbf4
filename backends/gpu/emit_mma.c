/* emit_mma.c: matrix products whose operands a warp holds: mma.sync, MFMA, WMMA, and plain fma. */
#include "backends/gpu/emit.h"
#include "ir/matrix.h"

typedef struct Product {
    Instr *instr;
    const LayoutMmaInfo *info;
    const Layout *c, *frag[2]; /* operand fragments over the whole tile */
    int mt, nt, kt;            /* fragments of one warp */
    const MatrixInstr *row;    /* by which the target computes it; NULL: a fragment that is only read */
    const char *hw; /* AMD, operands exchanged: the instruction that `steps` of make the fragment's K */
    int steps;
    int words[2]; /* 32-bit words of one operand fragment (doubles count two) */
} Product;

static const char *operand_fn(Emit *e, const Product *p)
{
    const Type *a = ir_operand(p->instr, 0)->type, *b = ir_operand(p->instr, 1)->type;
    bool same = a->dtype == b->dtype;
    if (is_hip(e)) { /* mfma_32x32x8_f16: the dtype instead of the table's suffix for its width */
        const char *name = p->hw ? p->hw : p->info->name, *x = strchr(name, 'x'),
                   *end = x ? strchr(x, '_') : NULL;
        bool xf32 = p->row && matrix_is_tf32(p->row);
        return use_product(e, str(e, "%.*s_%s%s%s", (int)(end ? end - name : (long)strlen(name)), name,
                          xf32 ? "xf32" : dtype_name(p->hw ? b->dtype : a->dtype), same ? "" : "_",
                          same ? "" : dtype_name(p->hw ? a->dtype : b->dtype)));
    }
    return use_product(e, str(e, "mma_%s_%s%s%s", p->info->name, dtype_name(a->dtype), same ? "" : "_",
                              same ? "" : dtype_name(b->dtype)));
}

/* Which instruction, and how many of it along K, compute a fragment: the target's row of ir/matrix.def. */
static void find_row(Emit *e, Product *p, LayoutMma kind)
{
    bool tf32 = ir_attr_int(p->instr, ATTR_PRECISION, 0) == PRECISION_TF32;
    p->row = matrix_instr_of(e->target, kind, ir_operand(p->instr, 0)->type->dtype, tf32);
    p->hw = p->row ? p->row->instruction : NULL;
    p->steps = p->row ? p->row->steps : 1;
}

/* The address expression of ldmatrix rows: warps' part, address lane's part, register's part as a formula in
 * two loop counters. */
static const char *row_coord(Emit *e, const Layout *l, const LayoutMatrix *m, int axis, const char *reg_part)
{
    int32_t c0[TILE_MAX_RANK], c1[TILE_MAX_RANK];
    LayoutTerm terms[LAYOUT_MAX_TERMS];
    int n = layout_thread_terms(l, axis, terms);
    const char *x = reg_part;
    layout_matrix_row(l, m, 0, 0, 0, c0);
    for (int k = 0; k < n; k++) {
        if (terms[k].in != LAYOUT_WARP) continue;
        const char *y = terms[k].shift ? str(e, "(warp >> %d)", terms[k].shift) : "warp";
        if (terms[k].div > 1) y = str(e, "%s / %u", y, terms[k].div);
        if (terms[k].mod) y = str(e, "%s %% %u", y, terms[k].mod);
        x = str(e, "%s + %s * %u", x, y, terms[k].mul);
    }
    /* runs of lane bits with doubling strides become one masked term */
    for (int b = 0; 8 * m->count > 1 << b; b++) {
        layout_matrix_row(l, m, 0, 1u << b, 0, c1);
        int step = c1[axis] - c0[axis], bits = 1;
        if (!step) continue;
        for (; 8 * m->count > 1 << (b + bits); bits++) {
            layout_matrix_row(l, m, 0, 1u << (b + bits), 0, c1);
            if (c1[axis] - c0[axis] != step << bits) break;
        }
        x = str(e, "%s + ((lane >> %d) & %d) * %d", x, b, (1 << bits) - 1, step);
        b += bits - 1;
    }
    return str(e, "(%s)", x);
}

/* Fragments from a shared tile in vectors, where the byte offset of register r for a thread is linear over
 * F2: T(thread) ^ C(r). Of C the bits that T never has are added, so that they become the instruction's own
 * offset, and what is left is few values. */
static int load_vectors(Emit *e, const Product *p, int side, const Value *view, const char *to, const char *k,
    int per_tile, int tiles)
{
    const LayoutShared *s = layouts_shared(&e->plan->layouts, view->type);
    const Layout *l = p->frag[side];
    int bytes = dtype_bytes(view->type->dtype);
    LayoutVector v;
    layout_shared_vector(l, s, 16, &v);
    if (v.bytes < 8 || v.n & (v.n - 1) || per_tile % (int)v.n) return 0;
    for (uint32_t r = 0; r < v.n; r++)
        if (v.reg[r] != r) return 0;
    uint32_t *own, seen;
    if (!linear_offsets(e, l, s, (int)v.n, &own, &seen)) return 0;
    int per = per_tile / (int)v.n, total = tiles * per;
    int32_t *xt = arena_array(&e->s->arena, int32_t, (size_t)total),
            *pt = arena_array(&e->s->arena, int32_t, (size_t)total);
    int32_t *xk = arena_array(&e->s->arena, int32_t, (size_t)p->kt),
            *pk = arena_array(&e->s->arena, int32_t, (size_t)p->kt);
    bool any = false;
    for (int t = 0; t < total; t++)
        for (int q = 0; q < p->kt; q++) {
            int r = (side ? q * tiles + t / per : t / per * p->kt + q) * per_tile + t % per * (int)v.n;
            if (q == 0) {
                xt[t] = (int32_t)(own[r] & seen);
                pt[t] = (int32_t)(own[r] & ~seen);
            }
            if (t == 0) {
                xk[q] = (int32_t)(own[r] & seen);
                pk[q] = (int32_t)(own[r] & ~seen);
            }
            if ((uint32_t)(xt[t] ^ xk[q]) != (own[r] & seen) || (uint32_t)(pt[t] + pk[q]) != (own[r] & ~seen))
                return 0;
            any |= (own[r] & seen) != 0;
        }
    const char *coords[2];
    for (int a = 0; a < 2; a++) coords[a] = coord(e, l, a, "0");
    const char *o = shared_offset(e, s, coords),
               *at = any ? str(e, "(%s ^ %s ^ %s)", o, index_formula(e, xt, total, "t"),
                               index_formula(e, xk, p->kt, k))
                         : o;
    begin_unrolled(e, "t", total);
    line(e, "%s(&%s[t * %d], %s + %s + %s + %s);", use(e, str(e, "lds_b%u", v.bytes * 8)), to,
        (int)v.n * bytes / 4, name_of(e, view), at, index_formula(e, pt, total, "t"),
        index_formula(e, pk, p->kt, k));
    end_block(e);
    return total;
}

/* Byte offsets of ldmatrix rows as T(thread) ^ X(fragment) ^ X(step) + P(fragment) + P(step): see
 * load_vectors. */
typedef struct RowOffsets {
    int32_t *xt, *pt, *xk, *pk;
    bool any;
} RowOffsets;

static bool row_offsets(Emit *e, const Layout *l, const LayoutShared *s, const LayoutMatrix *m,
    const uint32_t *regs, int count, int kt, RowOffsets *o)
{
    Arena *a = &e->s->arena;
    int lanes = 8 * m->count, threads = lanes * (int)layout_warps(l);
    uint32_t *thread = arena_array(a, uint32_t, (size_t)threads),
             *own = arena_array(a, uint32_t, (size_t)(count * kt)), seen = 0;
    int32_t c[TILE_MAX_RANK];
    for (int x = 0; x < l->rank; x++)
        if (l->cover[x] != l->tile[x]) return false;
    for (int r = 0; r < count * kt; r++)
        for (int t = 0; t < threads; t++) {
            layout_matrix_row(l, m, regs[r], (uint32_t)(t % lanes), (uint32_t)(t / lanes), c);
            uint32_t at = layout_shared_offset(s, c);
            if (r == 0) {
                thread[t] = at;
                seen |= at;
            }
            if (t == 0) own[r] = at ^ thread[0];
            if (at != (thread[t] ^ own[r])) return false;
        }
    o->xt = arena_array(a, int32_t, (size_t)count);
    o->pt = arena_array(a, int32_t, (size_t)count);
    o->xk = arena_array(a, int32_t, (size_t)kt);
    o->pk = arena_array(a, int32_t, (size_t)kt);
    for (int t = 0; t < count; t++)
        for (int q = 0; q < kt; q++) {
            uint32_t w = own[t * kt + q];
            if (q == 0) {
                o->xt[t] = (int32_t)(w & seen);
                o->pt[t] = (int32_t)(w & ~seen);
            }
            if (t == 0) {
                o->xk[q] = (int32_t)(w & seen);
                o->pk[q] = (int32_t)(w & ~seen);
            }
            if ((uint32_t)(o->xt[t] ^ o->xk[q]) != (w & seen) ||
                (uint32_t)(o->pt[t] + o->pk[q]) != (w & ~seen))
                return false;
            o->any |= (w & seen) != 0;
        }
    return true;
}

/* A tile whose lanes hold what an accumulator's lanes hold (a bias added to scores) is read by ldmatrix: four
 * 8 x 8 blocks of 16 bits at a time instead of a word. */
bool emit_matrix_read(
    Emit *e, const char *to, DType d, const Layout *l, const LayoutShared *s, const char *view)
{
    LayoutMatrix m;
    RowOffsets o = { 0 };
    int bytes = dtype_bytes(d), n = 0;
    if (!target_has(e->target, TF_LDMATRIX) || bytes > 4 || l->rank != 2 || !layout_matrix(l, s, true, &m))
        return false;
    uint32_t all = layout_regs(l), *base = arena_array(&e->s->arena, uint32_t, all);
    for (uint32_t r = 0; r < all; r++)
        if (layout_matrix_base(&m, r)) base[n++] = r;
    for (int k = 0; k < 4 / bytes; k++)
        if (m.elem[k] != (uint32_t)k) return false;
    if (!n || (uint32_t)n * m.count * 4 / (uint32_t)bytes != all || !row_offsets(e, l, s, &m, base, n, 1, &o))
        return false;
    int32_t c[TILE_MAX_RANK], *word = arena_array(&e->s->arena, int32_t, (size_t)n);
    const char *coords[2], *load = use(e, str(e, "ldmatrix_x%d%s", m.count, m.trans ? "_trans" : "")),
                           *k = tmp(e, "q"), *got = tmp(e, "rows");
    layout_matrix_row(l, &m, base[0], 0, 0, c);
    for (int a = 0; a < 2; a++) coords[a] = row_coord(e, l, &m, a, str(e, "%d", c[a]));
    const char *at = tmp(e, "row");
    line(e, "const u32 %s = %s;", at, shared_offset(e, s, coords));
    begin_unrolled(e, k, n);
    bool plain = true;
    for (uint32_t w = 0; w < m.count; w++) plain = plain && m.word[w] == w * 4 / (uint32_t)bytes;
    for (int r = 0; r < n; r++) word[r] = (int32_t)base[r] * bytes / 4;
    const char *from = str(e, "%s + (%s ^ (%s)) + %s", view, at, index_formula(e, o.xt, n, k),
                   index_formula(e, o.pt, n, k)),
               *first = index_formula(e, word, n, k);
    /* registers of 4-byte elements are declared with the element's type, others as words */
    const char *words = bytes == 4 ? str(e, "((u32 *)%s)", to) : to;
    if (plain) line(e, "%s(&%s[%s], %s);", load, words, first, from);
    else {
        line(e, "u32 %s[%d];", got, (int)m.count);
        line(e, "%s(%s, %s);", load, got, from);
        for (uint32_t w = 0; w < m.count; w++)
            line(e, "%s[(%s) ^ %u] = %s[%u];", words, first, m.word[w] * (uint32_t)bytes / 4, got, w);
    }
    end_block(e);
    return true;
}

/* Loads fragment words of operand `side` for k-step `k` (a loop counter's name) into array `to`. AMD: how
 * many reads that takes, 0 where it is not in vectors. */
static int load_fragments(
    Emit *e, const Product *p, int side, const Value *view, const char *to, const char *k)
{
    const LayoutShared *s = layouts_shared(&e->plan->layouts, view->type);
    const Layout *l = p->frag[side];
    DType d = view->type->dtype;
    int tiles = side ? p->nt : p->mt,
        elems = side ? p->info->k * p->info->n / p->info->lanes : p->info->m * p->info->k / p->info->lanes;
    if (p->info->lanes < e->target->wave) elems *= e->target->wave / p->info->lanes;
    int per_tile = (int)layout_regs(l) / (tiles * p->kt);
    /* register of element r of fragment (tile t, step q) */
#define REG(t, q, r) ((side ? (q) * tiles + (t) : (t) * p->kt + (q)) * per_tile + (r))
    LayoutMatrix m;
    int pw = per_word(d);
    (void)elems;
    bool whole_k =
        l->cover[side ? 0 : 1] == l->tile[side ? 0 : 1]; /* ldmatrix cannot leave out what lies beyond */
    if (target_has(e->target, TF_LDMATRIX) && whole_k && dtype_bytes(d) <= 4 &&
        layout_matrix(l, s, true, &m)) {
        int per_instr = m.count * 4 / dtype_bytes(d),
            group = per_instr / per_tile > 0 ? per_instr / per_tile : 1;
        bool plain =
            per_tile % per_instr == 0 || (per_instr % per_tile == 0 && tiles % group == 0 && side == 1);
        /* words must come out in register order */
        for (int w = 0; w < m.count && plain; w++) plain = m.word[w] == (uint32_t)(w * 4 / dtype_bytes(d));
        if (plain) {
            int count = tiles * per_tile / per_instr;
            int32_t *by_t = arena_array(&e->s->arena, int32_t, (size_t)count),
                    *by_k = arena_array(&e->s->arena, int32_t, (size_t)p->kt), c[TILE_MAX_RANK];
            const char *coords[2], *load = use(e, str(e, "ldmatrix_x%d%s", m.count, m.trans ? "_trans" : ""));
            uint32_t *regs = arena_array(&e->s->arena, uint32_t, (size_t)(count * p->kt));
            for (int t = 0; t < count; t++)
                for (int q = 0; q < p->kt; q++)
                    regs[t * p->kt + q] =
                        (uint32_t)REG(t * per_instr / per_tile, q, t * per_instr % per_tile);
            RowOffsets ro = { 0 };
            if (row_offsets(e, l, s, &m, regs, count, p->kt, &ro)) {
                for (int a = 0; a < 2; a++) {
                    layout_matrix_row(l, &m, regs[0], 0, 0, c);
                    coords[a] = row_coord(e, l, &m, a, str(e, "%d", c[a]));
                }
                const char *o = shared_offset(e, s, coords),
                           *at = ro.any ? str(e, "(%s ^ (%s) ^ (%s))", o, index_formula(e, ro.xt, count, "t"),
                                              index_formula(e, ro.xk, p->kt, k))
                                        : o;
                begin_unrolled(e, "t", count);
                line(e, "%s(&%s[t * %d], %s + %s + %s + %s);", load, to, (int)m.count, name_of(e, view), at,
                    index_formula(e, ro.pt, count, "t"), index_formula(e, ro.pk, p->kt, k));
                end_block(e);
                return 0;
            }
            begin_unrolled(e, "t", count);
            for (int a = 0; a < 2; a++) {
                for (int t = 0; t < count; t++) {
                    int r = t * per_instr;
                    layout_matrix_row(l, &m, (uint32_t)REG(r / per_tile, 0, r % per_tile), 0, 0, c);
                    by_t[t] = c[a];
                }
                for (int q = 0; q < p->kt; q++) {
                    layout_matrix_row(l, &m, (uint32_t)REG(0, q, 0), 0, 0, c);
                    by_k[q] = c[a];
                }
                coords[a] = row_coord(e, l, &m, a,
                    str(e, "%s + %s", index_formula(e, by_t, count, "t"), index_formula(e, by_k, p->kt, k)));
                if (l->cover[a] != l->tile[a]) { /* rows of the padding: any row of the tile */
                    const char *row = tmp(e, "row");
                    line(e, "const int %s = %s;", row, coords[a]);
                    coords[a] = str(e, "(%s < %d ? %s : 0)", row, l->tile[a], row);
                }
            }
            const char *o = shared_offset(e, s, coords);
            line(e, "%s(&%s[t * %d], %s + %s);", load, to, (int)m.count, name_of(e, view), o);
            end_block(e);
            return 0;
        }
    }
    int reads = is_hip(e) ? load_vectors(e, p, side, view, to, k, per_tile, tiles) : 0;
    if (reads) return reads;
    /* element by element */
    int total = tiles * per_tile, words = (total + pw - 1) / pw;
    int32_t *by_r[2], *by_k[2], c[TILE_MAX_RANK];
    for (int a = 0; a < 2; a++) {
        by_r[a] = arena_array(&e->s->arena, int32_t, (size_t)total);
        by_k[a] = arena_array(&e->s->arena, int32_t, (size_t)p->kt);
        for (int r = 0; r < total; r++) {
            layout_element(l, (uint32_t)REG(r / per_tile, 0, r % per_tile), 0, 0, 0, c);
            by_r[a][r] = c[a];
        }
        for (int q = 0; q < p->kt; q++) {
            layout_element(l, (uint32_t)REG(0, q, 0), 0, 0, 0, c);
            by_k[a][q] = c[a];
        }
    }
#undef REG
    begin_unrolled(e, "t", words);
    const char *x[4];
    bool bytes = dtype_is_float(d) && dtype_bytes(d) == 1; /* fp8 without a way through f32 and back */
    for (int h = 0; h < pw; h++) {
        const char *idx = pw == 1 ? "t" : str(e, "%d * t + %d", pw, h), *coords[2];
        for (int a = 0; a < 2; a++)
            coords[a] = str(e, "(%s + %s + %s)", thread_coord(e, l, a), index_formula(e, by_r[a], total, idx),
                index_formula(e, by_k[a], p->kt, k));
        const char *o = shared_offset(e, s, coords);
        x[h] = str(e, "%s(%s + %s)", use(e, bytes ? "lds_b8" : str(e, "lds_%s", dtype_name(d))),
            name_of(e, view), o);
        const char *cond = NULL;
        for (int a = 0; a < 2; a++)
            if (l->cover[a] != l->tile[a])
                cond = cond ? str(e, "%s && %s < %d", cond, coords[a], l->tile[a])
                            : str(e, "%s < %d", coords[a], l->tile[a]);
        if (cond) x[h] = str(e, "(%s ? %s : 0)", cond, x[h]);
    }
    line(e, "((%s *)%s)[t] = %s;", array_type(d), to,
        bytes ? str(e, "%s(%s, %s, %s, %s)", use(e, "pack_bytes"), x[0], x[1], x[2], x[3])
              : pack_expr(e, d, x, pw));
    end_block(e);
    return 0;
}

/* No layout holds the operand: it has more elements than a warp's registers can be counted for. The kernel is
 * refused for it after emission (backend.c), with what else does not fit; no text is needed. */
static void beyond_registers(Emit *e, const Instr *i, const Type *operand)
{
    int64_t words = type_elements(operand) * dtype_bits(operand->dtype) / 32 / e->plan->target->wave;
    if (words < LAYOUT_MAX_REGS) words = LAYOUT_MAX_REGS;
    if (words > e->largest.words)
        e->largest = (RegisterUse){ i->loc, operand, words > INT32_MAX ? INT32_MAX : (int)words };
}

/* A step's fragments in registers, ahead of their product (passes/kernel/pipeline/fragment_prefetch.c). */
void emit_fragments(Emit *e, Instr *i)
{
    const Value *from = ir_operand(i, 0);
    const Type *view = from->type;
    int side = ir_attr_int(i, ATTR_AXIS, 0) == 0;
    int32_t tile[2] = { (int32_t)view->shape[0], (int32_t)view->shape[1] },
            along_n = (int32_t)ir_attr_int(i, ATTR_COUNT, 1);
    LayoutMma kind = kernel_mma_kind(e->s, ir_attr(i, ATTR_INSTR)->s);
    Product p = { .instr = i, .info = layout_mma_info(kind) };
    const Layout *own = layout_of(e, ir_result(i));
    p.frag[side] = layout_mma(&e->s->arena, kind, side ? LAYOUT_B : LAYOUT_A, 2, tile,
        (int32_t[]){ (int32_t)layout_warps(own) / p.info->warps / along_n, along_n });
    if (!p.frag[side]) {
        beyond_registers(e, i, view);
        declare_tile(e, ir_result(i));
        return;
    }
    p.kt = tile[side ? 0 : 1] / p.info->k;
    int per = (side ? p.info->k * p.info->n : p.info->m * p.info->k) / p.info->lanes;
    *(side ? &p.nt : &p.mt) = (int)layout_regs(own) / per;
    load_fragments(e, &p, side, from, declare_tile(e, ir_result(i)),
        str(e, "%lld", (long long)ir_attr_int(i, ATTR_DEPTH, 0)));
}

/* Elements beyond the tile's K become zero: they would meet others in the sum. */
static void zero_beyond(Emit *e, const Product *p, int side, const char *frag, const char *k)
{
    const Layout *l = p->frag[side];
    int axis = side ? 0 : 1, tiles = side ? p->nt : p->mt, per = (int)layout_regs(l) / (tiles * p->kt);
    DType d = ir_operand(p->instr, side)->type->dtype;
    int pw = per_word(d), bits = 32 / pw;
    const char *element = dtype_bytes(d) == 8 ? "w / 2" : "w"; /* of word w */
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
        const char *at = str(e, "%s + %s + %s", thread_coord(e, l, axis), index_formula(e, by_k, p->kt, k),
            index_formula(e, by_r, per, pw == 1 ? element : str(e, "%d * w + %d", pw, q)));
        const char *m = str(
            e, "(%s < %d ? 0x%xu : 0u)", at, l->tile[axis], pw == 1 ? ~0u : ((1u << bits) - 1) << (bits * q));
        mask = mask ? str(e, "%s | %s", mask, m) : m;
    }
    line(e, "%s[t * %d + w] &= %s;", frag, p->words[side], mask);
    end_block(e);
    end_block(e);
}

/* WMMA: a half of the wave holds one half of A's K (kernel_layout) and takes the other from the lanes of the
 * other half. */
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

/* Does nobody else read the registers of v from here on? What a conversion or reshape that moves nothing
 * gives lies where its operand does. */
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

/* The accumulator is updated in place when nobody else wants it. */
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

/* The order of a product's reads from LDS and its instructions: 8 reads (32 registers) ahead, then both in
 * turn. Left to itself clang reads further ahead than registers last, or not far enough (docs/amd.md). */
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

/* AMD: left to itself clang moves a product to where its result is needed, behind branches and other
 * products, and keeps the fragments read for it until then. */
static bool more_products(const Instr *i)
{
    for (i = i->next; i; i = i->next)
        if (i->op == OP_MMA_SYNC) return true;
    return false;
}

/* AMD: a tile that an earlier product of the block has read is read again, at an address that clang cannot
 * know to be the same: it would keep the whole tile in registers in between. */
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
    e->storage[view->id] = n;
}

void emit_mma_sync(Emit *e, Instr *i)
{
    const char *name = ir_attr(i, ATTR_INSTR)->s;
    if (!strcmp(name, "fma")) {
        emit_fma(e, i);
        return;
    }
    Product p = { .instr = i };
    LayoutMma kind = LAYOUT_MMA_COUNT;
    for (int k = 0; k < LAYOUT_MMA_COUNT; k++)
        if (!strcmp(layout_mma_info((LayoutMma)k)->name, name)) kind = (LayoutMma)k;
    p.info = layout_mma_info(kind);
    p.c = layout_of(e, ir_result(i));
    find_row(e, &p, kind);
    int per_c = p.info->m * p.info->n / p.info->lanes;
    const Type *tc = ir_result(i)->type, *ta = ir_operand(i, 0)->type;
    DType d = ta->dtype;
    /* the warps' arrangement is read off the accumulator: how many fragments one warp holds along each axis
     */
    int32_t c0[TILE_MAX_RANK], ext[2] = { 0, 0 };
    for (uint32_t r = 0; r < layout_regs(p.c); r++) {
        layout_element(p.c, r, 0, 0, 0, c0);
        for (int a = 0; a < 2; a++)
            if (c0[a] + 1 > ext[a]) ext[a] = c0[a] + 1;
    }
    p.mt = (ext[0] + p.info->m - 1) / p.info->m;
    p.nt = (ext[1] + p.info->n - 1) / p.info->n;
    if ((int)layout_regs(p.c) != p.mt * p.nt * per_c)
        ir_fail(e->s, i->loc, "an accumulator of %u registers is not %d x %d fragments", layout_regs(p.c),
            p.mt, p.nt);
    p.kt = (int)((ta->shape[1] + p.info->k - 1) / p.info->k);
    const Attr *only = ir_attr(i, ATTR_PART);
    int from = only ? (int)(only->v[0] / p.info->k) : 0,
        steps = only ? (int)((only->v[1] + p.info->k - 1) / p.info->k) : p.kt;
    /* `count` warps along N: where they are more than the tile needs, the layout alone does not tell */
    int32_t along_n = (int32_t)ir_attr_int(i, ATTR_COUNT, p.c->cover[1] / (p.nt * p.info->n));
    int32_t warps[2] = { (int32_t)layout_warps(p.c) / p.info->warps / along_n, along_n };
    for (int side = 0; side < 2; side++) {
        const Type *t = ir_operand(i, side)->type;
        int32_t tile[2] = { (int32_t)t->shape[0], (int32_t)t->shape[1] };
        p.frag[side] = layout_mma(&e->s->arena, kind, side ? LAYOUT_B : LAYOUT_A, 2, tile, warps);
        if (!p.frag[side]) {
            beyond_registers(e, i, t);
            product_accumulator(e, i);
            return;
        }
        int regs = (int)layout_regs(p.frag[side]) / ((side ? p.nt : p.mt) * p.kt);
        p.words[side] = regs * dtype_bytes(d) / 4;
    }
    (void)tc;
    bool tf32 = ir_attr_int(i, ATTR_PRECISION, 0) == PRECISION_TF32;
    const char *acc = product_accumulator(e, i), *fn = operand_fn(e, &p), *frag[2];
    const char *k = tmp(e, "k");
    line(e, "/* [%lld, %lld] x [%lld, %lld]: %d x %d x %d fragments a warp */", (long long)ta->shape[0],
        (long long)ta->shape[1], (long long)ir_operand(i, 1)->type->shape[0],
        (long long)ir_operand(i, 1)->type->shape[1], p.mt, p.nt, p.kt);
    int reads = 0;
    for (int side = 0; side < 2; side++)
        if (is_hip(e) && ir_operand(i, side)->type->kind == TYPE_SHARED)
            read_again(e, i, ir_operand(i, side));
    const char *step = from ? tmp(e, "step") : k;
    begin_unrolled(e, step, steps);
    if (from) line(e, "const int %s = %s + %d;", k, step, from);
    for (int side = 0; side < 2; side++) {
        Value *v = ir_operand(i, side);
        int tiles = side ? p.nt : p.mt;
        frag[side] = tmp(e, side ? "b" : "a");
        line(e, "u32 %s[%d];", frag[side], tiles * p.words[side]);
        if (v->type->kind == TYPE_SHARED) {
            int n = load_fragments(e, &p, side, v, frag[side], k);
            reads = n && reads >= 0 ? reads + n : -1;
        } else if (side == 0 && layout_regs(layout_of(e, v)) < layout_regs(p.frag[0]))
            load_halves(e, &p, frag[0], registers_of(e, v), k);
        else {
            begin_unrolled(e, "t", tiles);
            begin_unrolled(e, "w", p.words[side]);
            line(e, "%s[t * %d + w] = ((const u32 *)%s)[(%s) * %d + w];", frag[side], p.words[side],
                registers_of(e, v), side ? str(e, "%s * %d + t", k, tiles) : str(e, "t * %d + %s", p.kt, k),
                p.words[side]);
            end_block(e);
            end_block(e);
        }
        zero_beyond(e, &p, side, frag[side], k);
        if (tf32) round_tf32(e, frag[side], tiles * p.words[side]);
    }
    if (p.steps > 1) begin_unrolled(e, "q", p.steps);
    begin_unrolled(e, "m", p.mt);
    begin_unrolled(e, "n", p.nt);
    const char *part = p.steps > 1 ? str(e, " + q * %d", p.words[0] / p.steps) : "";
    if (p.hw)
        line(e, "%s(&%s[(m * %d + n) * %d], &%s[n * %d%s], &%s[m * %d%s]);", fn, acc, p.nt, per_c, frag[1],
            p.words[1], part, frag[0], p.words[0], part);
    else
        line(e, "%s(&%s[(m * %d + n) * %d], &%s[m * %d], &%s[n * %d]);", fn, acc, p.nt, per_c, frag[0],
            p.words[0], frag[1], p.words[1]);
    end_block(e);
    end_block(e);
    if (p.steps > 1) end_block(e);
    end_block(e);
    if (is_hip(e) && reads > 0) interleave(e, reads, p.kt, p.mt * p.nt * p.steps);
    if (is_hip(e) && more_products(i)) {
        begin_unrolled(e, "i", p.mt * p.nt);
        line(e, "%s(%s[i * %d]);", use(e, "stays"), acc, per_c);
        end_block(e);
    }
}
