/* emit_fragments.c: fragments of matrix products from shared memory: by ldmatrix, in vectors, by element. */
#include "backends/gpu/product/emit_mma.h"
#include "backends/gpu/memory/emit_offset.h"

/* The coordinate of an ldmatrix row as an expression: the part of the warp, the part of the address lane, and
 * the part of the register as a formula in two loop counters. */
static Index *row_coord(Emit *e, const Layout *l, const LayoutMatrix *m, int axis, const char *reg_part)
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
    /* Runs of lane bits whose strides double become one masked term. */
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
    return index_other(e, "(%s)", x);
}

/* Reads fragments from a shared tile in vectors, if the byte offsets are linear (emit_offset.h). Returns the
 * number of reads, or 0 if they are not. */
static int load_vectors(
    Emit *e, const Product *p, int side, const Value *view, const char *to, Index *k, int per_tile, int tiles)
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
    note_vectors(e, false, l, s, &v);
    uint32_t *constants = arena_array(&e->s->arena, uint32_t, (size_t)(total * p->kt));
    for (int t = 0; t < total; t++)
        for (int q = 0; q < p->kt; q++)
            constants[t * p->kt + q] =
                own[(side ? q * tiles + t / per : t / per * p->kt + q) * per_tile + t % per * (int)v.n];
    OffsetTable of_t, of_k;
    if (!offset_tables(&e->s->arena, constants, seen, total, p->kt, &of_t, &of_k)) return 0;
    Index *coords[2];
    coords_at(e, l, index_number(e, 0), coords);
    const char *o = shared_offset(e, s, coords),
               *at = offset_table_flips(&of_t) || offset_table_flips(&of_k)
                         ? str(e, "(%s ^ %s ^ %s)", o, entry_text(e, of_t.flip, total, "t"),
                               index_text(e, index_entry(e, of_k.flip, p->kt, k)))
                         : o;
    begin_unrolled(e, "t", total);
    line(e, "%s(&%s[t * %d], %s + %s + %s + %s);", use(e, str(e, "lds_b%u", v.bytes * 8)), to,
        (int)v.n * bytes / 4, name_of(e, view), at, entry_text(e, of_t.add, total, "t"),
        index_text(e, index_entry(e, of_k.add, p->kt, k)));
    end_block(e);
    return total;
}

/* The rows that the lanes read by ldmatrix, for the vectors that begin at the given registers. */
typedef struct RowPlace {
    const Layout *l;
    const LayoutShared *s;
    const LayoutMatrix *m;
    const uint32_t *regs;
    int lanes;
} RowPlace;

static uint32_t row_place(const void *user, int r, int t)
{
    const RowPlace *p = user;
    int32_t c[TILE_MAX_RANK];
    layout_matrix_row(p->l, p->m, p->regs[r], (uint32_t)(t % p->lanes), (uint32_t)(t / p->lanes), c);
    return layout_shared_offset(p->s, c);
}

/* The offsets of the rows of `count` fragments of kt steps; false: they are not linear (emit_offset.h). */
static bool row_offsets(Emit *e, const Layout *l, const LayoutShared *s, const LayoutMatrix *m,
    const uint32_t *regs, int count, int kt, OffsetTable *of_t, OffsetTable *of_k)
{
    Arena *a = &e->s->arena;
    RowPlace p = { l, s, m, regs, 8 * m->count };
    uint32_t *constants = arena_array(a, uint32_t, (size_t)(count * kt)), seen;
    for (int x = 0; x < l->rank; x++)
        if (l->cover[x] != l->tile[x]) return false;
    return offsets_split(a, row_place, &p, count * kt, p.lanes * (int)layout_warps(l),
               layout_offsets_linear(l, s), constants, &seen) &&
           offset_tables(a, constants, seen, count, kt, of_t, of_k);
}

/* How a tile in the layout of an accumulator moves between registers and shared memory by ldmatrix (such as a
 * bias that is added to scores) or stmatrix: four 8 x 8 blocks of 16 bits at a time instead of a word. */
typedef struct MatrixMove {
    bool write;
    const Layout *l;
    const LayoutShared *s;
    LayoutMatrix m;
    int bytes;              /* of an element */
    int n;                  /* instructions, */
    uint32_t *base;         /* each of which begins at such a register */
    bool plain;             /* words come in the order of the registers */
    bool swapped;           /* the middle bytes of each word change places */
    OffsetTable rows;       /* where the rows of each instruction lie */
    const char *move, *got; /* the instruction's function; words that come in another order */
} MatrixMove;

/* False: the layout does not allow it. */
static bool order_matrices(Emit *e, MatrixMove *x)
{
    const LayoutMatrix *m = &x->m;
    const uint32_t all = layout_regs(x->l), per = 4 / (uint32_t)x->bytes;
    x->base = arena_array(&e->s->arena, uint32_t, all);
    for (uint32_t r = 0; r < all; r++)
        if (layout_matrix_base(m, r)) x->base[x->n++] = r;
    x->swapped = x->bytes == 1 && m->elem[1] == 2 && m->elem[2] == 1;
    for (uint32_t k = 0; k < per; k++)
        if (m->elem[k] != k && !x->swapped) return false;
    x->plain = true;
    for (uint32_t w = 0; w < m->count; w++) x->plain &= m->word[w] == w * per;
    return x->n && (uint32_t)x->n * m->count * per == all;
}

/* False: the layout or the target does not allow it. Bools do not: their registers are no words. */
static bool find_matrices(Emit *e, DType d, MatrixMove *x)
{
    OffsetTable steps;
    x->bytes = dtype_bytes(d);
    if (!target_has(e->target, TF_LDMATRIX) || x->bytes * per_word(d) != 4 || x->l->rank != 2 ||
        !layout_matrix(x->l, x->s, true, &x->m) || !order_matrices(e, x) || (x->write && x->swapped))
        return false;
    if (e->measure) return true; /* the rest is text */
    if (x->write && (x->m.count != 4 || !x->plain || x->bytes != 2)) return false;
    return row_offsets(e, x->l, x->s, &x->m, x->base, x->n, 1, &x->rows, &steps);
}

/* One instruction, `move`, between the registers `words` from `first` on and the rows at `at`. */
static void move_matrix(Emit *e, const MatrixMove *x, const char *words, const char *first, const char *at)
{
    if (x->write) line(e, "%s(%s, &%s[%s]);", x->move, at, words, first);
    else if (x->plain && !x->swapped) line(e, "%s(&%s[%s], %s);", x->move, words, first, at);
    else {
        line(e, "u32 %s[%d];", x->got, (int)x->m.count);
        line(e, "%s(%s, %s);", x->move, x->got, at);
        for (uint32_t w = 0; w < x->m.count; w++)
            line(e, x->swapped ? "%s[(%s) ^ %u] = %s(%s[%u], 0, 0x3120u);" : "%s[(%s) ^ %u] = %s%s[%u];",
                words, first, x->m.word[w] * (uint32_t)x->bytes / 4, x->swapped ? use(e, "byte_perm") : "",
                x->got, w);
    }
}

/* Moves the registers `array`, to or from the shared tile `view`. */
static void move_matrices(Emit *e, MatrixMove *x, const char *array, const char *view)
{
    int32_t c[TILE_MAX_RANK], *word = arena_array(&e->s->arena, int32_t, (size_t)x->n);
    Index *coords[2];
    note_matrix(e, x->l, x->s, &x->m);
    x->move =
        use(e, str(e, "%smatrix_x%d%s", x->write ? "st" : "ld", x->m.count, x->m.trans ? "_trans" : ""));
    const char *k = tmp(e, "q");
    x->got = tmp(e, "rows");
    layout_matrix_row(x->l, &x->m, x->base[0], 0, 0, c);
    for (int a = 0; a < 2; a++) coords[a] = row_coord(e, x->l, &x->m, a, str(e, "%d", c[a]));
    const char *row = tmp(e, "row");
    line(e, "const u32 %s = %s;", row, shared_offset(e, x->s, coords));
    begin_unrolled(e, k, x->n);
    for (int r = 0; r < x->n; r++) word[r] = (int32_t)x->base[r] * x->bytes / 4;
    const char *at = str(e, "%s + (%s ^ (%s)) + %s", view, row, entry_text(e, x->rows.flip, x->n, k),
        entry_text(e, x->rows.add, x->n, k));
    /* Registers of 4-byte elements are declared with the element's type, all others as words. */
    const char *words = x->bytes == 4 ? str(e, "((u32 *)%s)", array) : array;
    move_matrix(e, x, words, entry_text(e, word, x->n, k), at);
    end_block(e);
}

bool emit_matrix_read(
    Emit *e, const char *to, DType d, const Layout *l, const LayoutShared *s, const char *view)
{
    MatrixMove x = { .l = l, .s = s };
    const bool found = find_matrices(e, d, &x);
    if (found && !e->measure) move_matrices(e, &x, to, view);
    return found;
}

bool emit_matrix_write(
    Emit *e, const char *from, DType d, const Layout *l, const LayoutShared *s, const char *view)
{
    MatrixMove x = { .write = true, .l = l, .s = s };
    const bool found = target_has(e->target, TF_WGMMA) && find_matrices(e, d, &x);
    if (found && !e->measure) move_matrices(e, &x, from, view);
    return found;
}

/* The fragments of one operand that are being read from the shared tile `view`: `tiles` tiles of a warp, with
 * `per_tile` registers each. */
typedef struct Fragments {
    const Product *p;
    int side, tiles, per_tile;
    const Value *view;
    const Layout *l;
    const LayoutShared *s;
    DType d;
    const char *to;
    Index *k; /* the step of K */
} Fragments;

/* The register of element r of tile t at step q. */
static int fragment_register(const Fragments *f, int t, int q, int r)
{
    int steps = f->p->kt / f->p->stacked; /* of one product */
    if (!f->side) q = (q / steps * f->tiles + t) * steps + q % steps;
    else q = q * f->tiles + t;
    return q * f->per_tile + r;
}

/* Reads `count` times by ldmatrix. False: the offsets of the rows are not linear. */
static bool read_linear(Emit *e, const Fragments *f, const LayoutMatrix *m, const char *load, int count)
{
    int kt = f->p->kt, per_instr = m->count * 4 / dtype_bytes(f->d);
    int32_t c[TILE_MAX_RANK];
    Index *coords[2];
    OffsetTable rows, steps;
    if (e->measure) return true; /* either way the rest is text */
    uint32_t *regs = arena_array(&e->s->arena, uint32_t, (size_t)(count * kt));
    for (int t = 0; t < count; t++)
        for (int q = 0; q < kt; q++) {
            int r = t * per_instr;
            regs[t * kt + q] = (uint32_t)fragment_register(f, r / f->per_tile, q, r % f->per_tile);
        }
    if (!row_offsets(e, f->l, f->s, m, regs, count, kt, &rows, &steps)) return false;
    layout_matrix_row(f->l, m, regs[0], 0, 0, c);
    for (int a = 0; a < 2; a++) coords[a] = row_coord(e, f->l, m, a, str(e, "%d", c[a]));
    const char *o = shared_offset(e, f->s, coords),
               *at = offset_table_flips(&rows) || offset_table_flips(&steps)
                         ? str(e, "(%s ^ (%s) ^ (%s))", o, entry_text(e, rows.flip, count, "t"),
                               index_text(e, index_entry(e, steps.flip, kt, f->k)))
                         : o;
    begin_unrolled(e, "t", count);
    line(e, "%s(&%s[t * %d], %s + %s + %s + %s);", load, f->to, (int)m->count, name_of(e, f->view), at,
        entry_text(e, rows.add, count, "t"), index_text(e, index_entry(e, steps.add, kt, f->k)));
    end_block(e);
    return true;
}

/* The same for offsets that are not linear: computes the coordinates of each row. */
static void read_rows(Emit *e, const Fragments *f, const LayoutMatrix *m, const char *load, int count)
{
    int kt = f->p->kt, per_instr = m->count * 4 / dtype_bytes(f->d);
    int32_t *by_t = arena_array(&e->s->arena, int32_t, (size_t)count),
            *by_k = arena_array(&e->s->arena, int32_t, (size_t)kt), c[TILE_MAX_RANK];
    Index *coords[2];
    begin_unrolled(e, "t", count);
    for (int a = 0; a < 2; a++) {
        for (int t = 0; t < count; t++) {
            int r = t * per_instr;
            layout_matrix_row(
                f->l, m, (uint32_t)fragment_register(f, r / f->per_tile, 0, r % f->per_tile), 0, 0, c);
            by_t[t] = c[a];
        }
        for (int q = 0; q < kt; q++) {
            layout_matrix_row(f->l, m, (uint32_t)fragment_register(f, 0, q, 0), 0, 0, c);
            by_k[q] = c[a];
        }
        coords[a] = row_coord(e, f->l, m, a,
            str(e, "%s + %s", entry_text(e, by_t, count, "t"),
                index_text(e, index_entry(e, by_k, kt, f->k))));
        if (f->l->cover[a] != f->l->tile[a]) { /* Registers of the padding read any row of the tile. */
            const char *row = tmp(e, "row");
            line(e, "const int %s = %s;", row, index_text(e, coords[a]));
            coords[a] = index_other(e, "(%s < %d ? %s : 0)", row, f->l->tile[a], row);
        }
    }
    const char *o = shared_offset(e, f->s, coords);
    line(e, "%s(&%s[t * %d], %s + %s);", load, f->to, (int)m->count, name_of(e, f->view), o);
    end_block(e);
}

/* Whether instructions of so many matrices give whole fragments of a step, or parts of one, and their words
 * in the order of the registers. */
static bool takes_matrices(const Fragments *f, const LayoutMatrix *m, int bytes)
{
    int per_instr = m->count * 4 / bytes, per_tile = f->per_tile,
        group = per_instr / per_tile > 0 ? per_instr / per_tile : 1;
    bool plain =
        per_tile % per_instr == 0 || (per_instr % per_tile == 0 && f->tiles % group == 0 && f->side == 1);
    for (int w = 0; w < m->count && plain; w++) plain = m->word[w] == (uint32_t)(w * 4 / bytes);
    return plain;
}

/* Reads fragments by ldmatrix. False: the layouts or the target do not allow it. */
static bool read_matrices(Emit *e, const Fragments *f)
{
    LayoutMatrix m;
    int bytes = dtype_bytes(f->d), along_k = f->side ? 0 : 1;
    /* ldmatrix cannot leave out elements beyond K. */
    if (!target_has(e->target, TF_LDMATRIX) || f->l->cover[along_k] != f->l->tile[along_k] || bytes > 4 ||
        !layout_matrix(f->l, f->s, true, &m))
        return false;
    /* Fewer matrices at a time where four would be of several steps, as those of a right operand are of which
     * a warp has one fragment of columns, or three. */
    while (m.count > 1 && !takes_matrices(f, &m, bytes)) m.count /= 2;
    if (!takes_matrices(f, &m, bytes)) return false;
    note_matrix(e, f->l, f->s, &m);
    int count = f->tiles * f->per_tile / (m.count * 4 / bytes);
    const char *load = use(e, str(e, "ldmatrix_x%d%s", m.count, m.trans ? "_trans" : ""));
    if (!read_linear(e, f, &m, load, count)) read_rows(e, f, &m, load, count);
    return true;
}

/* The places of elements, computed from the thread's place of the first one. */
typedef struct Origin {
    const char *at; /* NULL: each place is computed by itself */
    OffsetTable of_r, of_k;
} Origin;

/* Takes the places from one, which is pinned, where there are many of them and they are linear in it. */
static void find_origin(Emit *e, const Fragments *f, int total, Origin *o)
{
    int kt = f->p->kt;
    uint32_t *own, seen, *constants = arena_array(&e->s->arena, uint32_t, (size_t)(total * kt));
    Index *coords[2];
    *o = (Origin){ 0 };
    if (e->measure || !emit_many_places(e, total * kt) || !linear_offsets(e, f->l, f->s, 1, &own, &seen))
        return;
    for (int r = 0; r < total; r++)
        for (int q = 0; q < kt; q++)
            constants[r * kt + q] = own[fragment_register(f, r / f->per_tile, q, r % f->per_tile)];
    if (!offset_tables(&e->s->arena, constants, seen, total, kt, &o->of_r, &o->of_k)) return;
    coords_at(e, f->l, index_number(e, 0), coords);
    o->at = shared_offset(e, f->s, coords);
    line(e, "%s(%s);", use(e, "pin_word"), o->at);
}

/* The place of the element r of the step. */
static const char *element_place(Emit *e, const Fragments *f, const Origin *o, int total, Index *r)
{
    int kt = f->p->kt;
    Index *flip = index_entry(e, o->of_r.flip, total, r), *step = index_entry(e, o->of_k.flip, kt, f->k);
    const char *at = o->at;
    if (!index_is(flip, 0)) at = str(e, "(%s ^ %s)", at, index_text(e, flip));
    if (!index_is(step, 0)) at = str(e, "(%s ^ %s)", at, index_text(e, step));
    return str(e, "%s + %s + %s", at, index_text(e, index_entry(e, o->of_r.add, total, r)),
        index_text(e, index_entry(e, o->of_k.add, kt, f->k)));
}

static void read_elements(Emit *e, const Fragments *f)
{
    const Layout *l = f->l;
    int kt = f->p->kt, total = f->tiles * f->per_tile, pw = per_word(f->d), words = (total + pw - 1) / pw;
    int32_t *by_r[2], *by_k[2], c[TILE_MAX_RANK];
    for (int a = 0; a < 2; a++) {
        by_r[a] = arena_array(&e->s->arena, int32_t, (size_t)total);
        by_k[a] = arena_array(&e->s->arena, int32_t, (size_t)kt);
        for (int r = 0; r < total; r++) {
            uint32_t reg = (uint32_t)fragment_register(f, r / f->per_tile, 0, r % f->per_tile);
            layout_element(l, reg, 0, 0, 0, c);
            by_r[a][r] = c[a];
        }
        for (int q = 0; q < kt; q++) {
            layout_element(l, (uint32_t)fragment_register(f, 0, q, 0), 0, 0, 0, c);
            by_k[a][q] = c[a];
        }
    }
    Origin origin;
    find_origin(e, f, total, &origin);
    begin_unrolled(e, "t", words);
    const char *x[4];
    /* fp8 is copied as bytes, without a conversion to f32 and back. */
    bool bytes = dtype_is_float(f->d) && dtype_bytes(f->d) == 1;
    for (int h = 0; h < pw; h++) {
        Index *coords[2], *r = index_linear(e, pw, "t", h);
        const char *cond = NULL;
        for (int a = 0; a < 2; a++)
            coords[a] = index_other(e, "(%s + %s + %s)", index_text(e, thread_coord(e, l, a)),
                index_text(e, index_entry(e, by_r[a], total, r)),
                index_text(e, index_entry(e, by_k[a], kt, f->k)));
        const char *o = origin.at ? element_place(e, f, &origin, total, r) : shared_offset(e, f->s, coords);
        x[h] = str(e, "%s(%s + %s)", use(e, bytes ? "lds_b8" : str(e, "lds_%s", dtype_name(f->d))),
            name_of(e, f->view), o);
        for (int a = 0; a < 2; a++)
            if (l->cover[a] != l->tile[a])
                cond = str(e, "%s%s%s < %d", cond ? cond : "", cond ? " && " : "", index_text(e, coords[a]),
                    l->tile[a]);
        if (cond) x[h] = str(e, "(%s ? %s : 0)", cond, x[h]);
    }
    line(e, "((%s *)%s)[t] = %s;", array_type(f->d), f->to,
        bytes ? str(e, "%s(%s, %s, %s, %s)", use(e, "pack_bytes"), x[0], x[1], x[2], x[3])
              : pack_expr(e, f->d, x, pw));
    end_block(e);
}

int load_fragments(Emit *e, const Product *p, int side, const Value *view, const char *to, Index *k)
{
    Fragments f = { .p = p,
        .side = side,
        .tiles = side ? p->nt : p->mt,
        .view = view,
        .l = p->frag[side],
        .s = layouts_shared(&e->plan->layouts, view->type),
        .d = view->type->dtype,
        .to = to,
        .k = k };
    f.per_tile = (int)layout_regs(f.l) / (f.tiles * p->kt);
    if (read_matrices(e, &f)) return 0;
    int reads = is_hip(e) ? load_vectors(e, p, side, view, to, k, f.per_tile, f.tiles) : 0;
    if (!reads) {
        note_vectors(e, false, f.l, f.s, NULL);
        read_elements(e, &f);
    }
    return reads;
}

/* Reads the fragments of one step into registers, ahead of their product
 * (passes/kernel/pipeline/fragment_prefetch.c). */
void emit_fragments(Emit *e, Instr *i)
{
    const Value *from = ir_operand(i, 0);
    const Type *view = from->type;
    int side = ir_attr_int(i, ATTR_AXIS, 0) == 0;
    int32_t tile[2] = { (int32_t)view->shape[0], (int32_t)view->shape[1] },
            along_n = (int32_t)ir_attr_int(i, ATTR_COUNT, 1);
    LayoutMma kind = kernel_mma_kind(e->s, ir_attr(i, ATTR_INSTR)->s);
    Product p = { .instr = i, .info = layout_mma_info(kind), .stacked = 1 };
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
        index_number(e, (int)ir_attr_int(i, ATTR_DEPTH, 0)));
}
