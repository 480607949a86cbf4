/* emit_fma.c: products that no matrix unit computes: each thread multiplies a block of rows with a block of
 * columns, both read from shared memory, by vectors of 16 bytes where what lies there side by side is the
 * thread's or the next steps' along K. */
#include "backends/gpu/memory/emit_offset.h"

/* The widest row of a panel: a swizzle moves pieces inside it (layout.h). */
enum { PANEL_ROW_BYTES = 128 };

/* One operand as a thread reads it: element (register r of `own`, k) is at (T(thread) ^ R(r) ^ K(k)) + S(k).
 * Bits of R and K that no thread has are added instead (emit_offset.h). S is 0 but where K lies in panels
 * whose bytes are no power of two. */
typedef struct Operand {
    const Layout *own; /* the rows or columns of this operand, with extent 1 along K */
    const LayoutShared *s;
    const char *base;
    int axis, regs;   /* the axis that is not K; registers along it */
    int per_r, per_k; /* the elements of a vector along either axis; one of the numbers is 1 */
    OffsetTable r, k; /* R for each vector along the registers, K and S for each along K */
} Operand;

/* The offset of element (own coordinate, 0) for every register of every thread, the bits by which k changes
 * it, and what k then adds. */
typedef struct Places {
    uint32_t *at, *k, *sum;
    int threads;
} Places;

/* The change by k, from the row at `x` = 0: its bits in `flips` are applied by exclusive or, the others
 * added. False: the change is not the same for all rows or columns, of which `first` receives the offsets at
 * k = 0. */
static bool changed_by_k(const Operand *o, int depth, uint32_t flips, uint32_t *first, Places *p)
{
    int32_t at[2];
    for (int x = 0; x < o->own->tile[o->axis]; x++)
        for (int k = 0; k < depth; k++) {
            at[o->axis] = x;
            at[1 - o->axis] = k;
            uint32_t offset = layout_shared_offset(o->s, at);
            if (k == 0) first[x] = offset;
            if (x == 0) p->k[k] = (offset ^ first[0]) & flips, p->sum[k] = offset - (first[0] ^ p->k[k]);
            if (offset != (first[x] ^ p->k[k]) + p->sum[k]) return false;
        }
    return true;
}

static bool places_of(Arena *a, const Operand *o, int depth, Places *p)
{
    int32_t c[TILE_MAX_RANK];
    int lanes = (int)layout_lanes(o->own);
    p->threads = lanes * (int)layout_warps(o->own);
    p->at = arena_array(a, uint32_t, (size_t)(o->regs * p->threads));
    p->k = arena_array(a, uint32_t, (size_t)depth);
    p->sum = arena_array(a, uint32_t, (size_t)depth);
    uint32_t *first = arena_array(a, uint32_t, (size_t)o->own->tile[o->axis]);
    if (!changed_by_k(o, depth, UINT32_MAX, first, p) &&
        !changed_by_k(o, depth, PANEL_ROW_BYTES - 1, first, p))
        return false;
    for (int r = 0; r < o->regs; r++)
        for (int t = 0; t < p->threads; t++) {
            layout_element(o->own, (uint32_t)r, (uint32_t)(t % lanes), (uint32_t)(t / lanes), 0, c);
            p->at[r * p->threads + t] = first[c[o->axis]];
        }
    return true;
}

/* Whether n elements are adjacent, at a multiple of their bytes, wherever a vector of them begins. */
static bool side_by_side(const Operand *o, const Places *p, int n, bool along_k, int depth)
{
    uint32_t bytes = (uint32_t)o->s->elem_bytes, whole = bytes * (uint32_t)n;
    if ((along_k ? depth : o->regs) % n) return false;
    for (int k = 0; k < depth; k++) {
        uint32_t j = along_k ? (uint32_t)(k % n) : 0;
        if (p->k[k] % whole != j * bytes || p->sum[k] % whole ||
            (j && (p->k[k] != p->k[k - (int)j] + j * bytes || p->sum[k] != p->sum[k - (int)j])))
            return false;
    }
    for (int r = 0; r < o->regs; r++)
        for (int t = 0; t < p->threads; t++) {
            uint32_t j = along_k ? 0 : (uint32_t)(r % n), here = p->at[r * p->threads + t];
            if (here % whole != j * bytes || (j && here != p->at[(r - (int)j) * p->threads + t] + j * bytes))
                return false;
        }
    return true;
}

/* The bits of offsets that are not the same for all threads, or that both a register and K change: these are
 * applied by exclusive or. Few threads along the operand's axis leave bits of a swizzle to its registers,
 * which K changes, too. */
static uint32_t shared_bits(const Operand *o, const Places *p, int nr, int nk)
{
    uint32_t thread = 0, by_r = 0, by_k = 0;
    for (int t = 0; t < p->threads; t++) thread |= p->at[t];
    for (int r = 0; r < nr; r++) by_r |= p->at[r * o->per_r * p->threads] ^ p->at[0];
    for (int k = 0; k < nk; k++) by_k |= p->k[k * o->per_k];
    return thread | (by_r & by_k);
}

static bool plan_operand(Emit *e, Operand *o, int depth)
{
    Arena *a = &e->s->arena;
    Places p;
    if (o->own->cover[o->axis] != o->own->tile[o->axis] || !places_of(a, o, depth, &p)) return false;
    bool along_k = o->s->order[0] != o->axis;
    int n = 16 / o->s->elem_bytes;
    while (n > 1 && !side_by_side(o, &p, n, along_k, depth)) n /= 2;
    o->per_k = along_k ? n : 1;
    o->per_r = along_k ? 1 : n;
    int nr = o->regs / o->per_r, nk = depth / o->per_k;
    offset_table(a, &o->r, nr);
    offset_table(a, &o->k, nk);
    uint32_t seen = shared_bits(o, &p, nr, nk);
    for (int k = 0; k < nk; k++) offset_table_set(&o->k, k, p.k[k * o->per_k], seen);
    for (int r = 0; r < nr; r++) {
        const uint32_t *mine = p.at + r * o->per_r * p.threads;
        uint32_t own = mine[0] ^ p.at[0];
        offset_table_set(&o->r, r, own, seen);
        for (int t = 0; t < p.threads; t++)
            if (mine[t] != (p.at[t] ^ own)) return false;
    }
    for (int k = 0; k < nk; k++) o->k.add[k] += (int32_t)p.sum[k * o->per_k];
    return true;
}

/* Writes operands that are in registers to shared memory. */
static void share(Emit *e, Instr *i, Operand *o, const bool *lies)
{
    int64_t bytes = 0;
    for (int side = 0; side < 2; side++) {
        if (lies[side]) continue;
        o[side].base = tmp(e, "sh");
        line(e, "const u32 %s = shared_base + SCRATCH + %lld;", o[side].base, (long long)bytes);
        bytes += ((int64_t)o[side].s->bytes + 127) / 128 * 128;
    }
    scratch(e, bytes);
    barrier(e);
    for (int side = 0; side < 2; side++) {
        Value *v = ir_operand(i, side);
        if (lies[side]) continue;
        const Layout *l = layout_of(e, v);
        Index *c[2], *r = index_variable(e, "i");
        const char *in = NULL;
        note_vectors(e, true, l, o[side].s, NULL);
        begin_unrolled(e, "i", (int)layout_regs(l));
        coords_at(e, l, r, c);
        const char *at = shared_offset(e, o[side].s, c);
        for (int a = 0; a < 2; a++)
            if (l->cover[a] != l->tile[a])
                in = str(e, "%s%s%s < %d", in ? in : "", in ? " && " : "", index_text(e, c[a]), l->tile[a]);
        line(e, "%s%s%s%s(%s + %s, %s);", in ? "if (" : "", in ? in : "", in ? ") " : "",
            use(e, str(e, "sts_%s", dtype_name(v->type->dtype))), o[side].base, at, element(e, v, l, r));
        end_block(e);
    }
    barrier(e);
}

/* Reads a step along K of one operand to the array `to`, where element (r, j) is at [r * step + j], or at [j
 * * regs + r] if vectors go along r. */
static void take_vectors(
    Emit *e, const Operand *o, DType d, const char *origin, const char *to, int step, int depth)
{
    int nr = o->regs / o->per_r, nk = step / o->per_k, vector = o->per_r * o->per_k;
    for (int j = 0; j < nk; j++) {
        const char *at = origin;
        Index *k = index_linear(e, nk, "k", j), *t = index_variable(e, "t");
        begin_unrolled(e, "t", nr);
        Index *flip[2] = { index_entry(e, o->r.flip, nr, t), index_entry(e, o->k.flip, depth / o->per_k, k) };
        Index *add[2] = { index_entry(e, o->r.add, nr, t), index_entry(e, o->k.add, depth / o->per_k, k) };
        const char *place = o->per_r > 1 ? str(e, "%d * t", o->per_r)
                            : step > 1   ? str(e, "%d * t", step)
                                         : "t";
        int first = o->per_r > 1 ? j * o->regs : j * o->per_k;
        for (int x = 0; x < 2; x++)
            if (!index_is(flip[x], 0)) at = str(e, "%s ^ %s", at, index_text(e, flip[x]));
        if (at != origin) at = str(e, "(%s)", at);
        for (int x = 0; x < 2; x++)
            if (!index_is(add[x], 0)) at = str(e, "%s + %s", at, index_text(e, add[x]));
        if (first) place = str(e, "%s + %d", place, first);
        if (vector == 1)
            line(e, "%s[%s] = %s(%s + %s);", to, place, use(e, str(e, "lds_%s", dtype_name(d))), o->base, at);
        else
            line(e, "%s(&%s[%s], %s + %s);", use(e, str(e, "lds_b%d", vector * o->s->elem_bytes * 8)), to,
                place, o->base, at);
        end_block(e);
    }
}

static void take_elements(Emit *e, const Operand *o, DType from, DType to, const char *array)
{
    begin_unrolled(e, "i", o->regs);
    Index *own = coord(e, o->own, o->axis, index_variable(e, "i")), *k = index_variable(e, "k"),
          *c[2] = { k, k };
    c[o->axis] = own;
    /* Registers of the padding read a row that exists. */
    if (o->own->cover[o->axis] != o->own->tile[o->axis])
        c[o->axis] = index_other(
            e, "(%s < %d ? %s : 0)", index_text(e, own), o->own->tile[o->axis], index_text(e, own));
    const char *at = shared_offset(e, o->s, c);
    line(e, "%s[i] = (%s)%s(%s + %s);", array, ctype(to), use(e, str(e, "lds_%s", dtype_name(from))), o->base,
        at);
    end_block(e);
}

static const char *multiply(Emit *e, DType d, const char *a, const char *b, const char *acc)
{
    return dtype_is_float(d)
               ? str(e, "%s(%s, %s, %s)", use(e, d == DT_F64 ? "fma_f64" : "fma_f32"), a, b, acc)
               : str(e, "%s + %s * %s", acc, a, b);
}

enum {
    /* the most multiplications of a thread in the body of the loop, so that the body fits the instruction
       cache */
    LOOP_PRODUCTS = 2048
};

/* How many of the loop's iterations, of so many products each, make its body: a divisor of their number where
 * one is not far below the most, since the compiler repeats the body for what is left over. */
static int unrolled(int products, int iterations)
{
    int most = LOOP_PRODUCTS / products, n = most;
    while (n > 1 && 2 * n > most && iterations % n) n--;
    return most < 1 ? 1 : iterations % n ? most : n;
}

void emit_fma(Emit *e, Instr *i)
{
    const Layout *l = layout_of(e, ir_result(i));
    DType d[2] = { ir_operand(i, 0)->type->dtype, ir_operand(i, 1)->type->dtype },
          rd = ir_result(i)->type->dtype;
    const char *acc = product_accumulator(e, i), *to[2], *origin[2];
    int depth = (int)ir_operand(i, 0)->type->shape[1], step = 1;
    Operand o[2] = { 0 };
    bool lies[2], vectors = d[0] == rd && d[1] == rd && dtype_bytes(rd) >= 4;
    for (int side = 0; side < 2; side++) {
        Value *v = ir_operand(i, side);
        lies[side] = v->type->kind == TYPE_SHARED;
        o[side].own = layout_slice(&e->s->arena, l, 1 - side, true);
        o[side].axis = side;
        o[side].regs = (int)layout_regs(o[side].own);
        if (lies[side]) o[side].base = name_of(e, v);
        o[side].s = lies[side] ? layouts_shared(&e->plan->layouts, v->type)
                               : layout_shared_rows(&e->s->arena, 2,
                                     (int32_t[]){ (int32_t)v->type->shape[0], (int32_t)v->type->shape[1] },
                                     (int32_t[]){ 1, 0 }, dtype_bytes(d[side]), 0);
    }
    if (!lies[0] || !lies[1]) share(e, i, o, lies);
    if (e->measure) return; /* What follows is text. */
    for (int side = 0; side < 2; side++) vectors = vectors && plan_operand(e, &o[side], depth);
    for (int side = 0; side < 2 && vectors; side++) {
        Index *c[2], *zero = index_number(e, 0);
        c[side] = coord(e, o[side].own, side, zero);
        c[1 - side] = zero;
        origin[side] = shared_offset(e, o[side].s, c);
        if (o[side].per_k > step) step = o[side].per_k;
    }
    int regs = (int)layout_regs(l);
    for (int side = 0; side < 2; side++) to[side] = tmp(e, side ? "b" : "a");
    directive(e, "#pragma unroll %d", vectors ? unrolled(regs * step, depth / step) : 4);
    line(e, "for (int k = 0; k < %d; k++) {", depth / step);
    e->indent++;
    line(e, "%s %s[%d], %s[%d];", ctype(rd), to[0], o[0].regs * step, to[1], o[1].regs * step);
    for (int side = 0; side < 2; side++) {
        if (vectors) take_vectors(e, &o[side], rd, origin[side], to[side], step, depth);
        else take_elements(e, &o[side], d[side], rd, to[side]);
    }
    for (int j = 0; j < step; j++) {
        begin_unrolled(e, "i", regs);
        const char *x[2];
        for (int side = 0; side < 2; side++) {
            const char *r = index_text(e, map_register(e, l, o[side].own, index_variable(e, "i")));
            x[side] = step == 1           ? str(e, "%s[%s]", to[side], r)
                      : o[side].per_r > 1 ? str(e, "%s[%d + %s]", to[side], j * o[side].regs, r)
                                          : str(e, "%s[%d * %s + %d]", to[side], step, r, j);
        }
        line(e, "%s[i] = %s;", acc, multiply(e, rd, x[0], x[1], str(e, "%s[i]", acc)));
        end_block(e);
    }
    end_block(e);
}
