/* emit_reduce.c: reductions: within a thread, across lanes, warps, the CTAs of a cluster, each in a fixed
 * order. */
#include "backends/gpu/axis/emit_best.h"
#include "backends/gpu/hopper/emit_cluster.h"

const char *combine_identity(Emit *e, const Instr *i, DType acc)
{
    switch (op_info[i->op].combine) {
    case COMBINE_SUM: return "0";
    case COMBINE_PROD: return "1";
    case COMBINE_ALL: return "true";
    case COMBINE_ANY: return "false";
    case COMBINE_MAX: return use(e, str(e, "LOWEST_%s", dtype_name(acc)));
    case COMBINE_MIN: return use(e, str(e, "HIGHEST_%s", dtype_name(acc)));
    case COMBINE_NONE: break;
    }
    ir_fail(e->s, i->loc, "%s combines nothing", op_info[i->op].name);
}

const char *combine_expr(Emit *e, Instr *i, DType acc, const char *x, const char *y)
{
    switch (op_info[i->op].combine) {
    case COMBINE_SUM: return dtype_is_float(acc) ? str(e, "%s + %s", x, y) : wrapped(e, acc, "+", x, y);
    case COMBINE_PROD: return dtype_is_float(acc) ? str(e, "%s * %s", x, y) : wrapped(e, acc, "*", x, y);
    case COMBINE_ANY: return str(e, "%s | %s", x, y);
    case COMBINE_ALL: return str(e, "%s & %s", x, y);
    case COMBINE_MAX: return str(e, "%s(%s, %s)", use(e, str(e, "max_%s", dtype_name(acc))), x, y);
    case COMBINE_MIN: return str(e, "%s(%s, %s)", use(e, str(e, "min_%s", dtype_name(acc))), x, y);
    case COMBINE_NONE: break;
    }
    ir_fail(e->s, i->loc, "%s combines nothing", op_info[i->op].name);
}

DType combined_type(const Instr *i, DType acc)
{ return op_has(i->op, OPF_PICKS) ? ir_operand(i, 0)->type->dtype : acc; }

/* The accumulator's type: sums of narrow floats are kept in f32 and rounded once. */
static DType accumulator(const Instr *i)
{
    DType d = ir_operand(i, 0)->type->dtype;
    return dtype_is_float(d) && dtype_bits(d) < 32 ? DT_F32 : d;
}

/* The bits of a CTA's number in the cluster over which the axis is distributed. CTAs that differ in others
 * alone hold the same elements. */
static uint32_t block_bits_along(const Layout *l, int axis)
{
    uint32_t mask = 0;
    int32_t c0[TILE_MAX_RANK], c1[TILE_MAX_RANK];
    layout_element(l, 0, 0, 0, 0, c0);
    for (uint32_t b = 1; b < layout_blocks(l); b <<= 1) {
        layout_element(l, 0, 0, 0, b, c1);
        if (c1[axis] != c0[axis]) mask |= b;
    }
    return mask;
}

/* Joins the parts of the CTAs whose numbers differ in the bits of `mask`, in their order. */
static void join_parts_of_blocks(
    Emit *e, Instr *i, DType acc, const char *a, const char *parts, uint32_t mask, uint32_t blocks)
{
    const char *y = tmp(e, "y"), *sum = str(e, "%s[0]", a), *first = "";
    bool all = mask == blocks - 1;
    if (!all) {
        first = tmp(e, "first");
        line(e,
            "const int %s = block & %u;    /* the CTAs that hold the same elements as this one, left out */",
            first, (blocks - 1) & ~mask);
    }
    line(e, "%s[0] = %s[%s];", a, parts, all ? "0" : first);
    line(e, "for (int p = 1; p < %u; p++) {", blocks);
    e->indent++;
    if (!all) line(e, "if (p & %u) continue;", (blocks - 1) & ~mask);
    line(e, "const %s %s = %s[%s];", ctype(acc), y, parts, all ? "p" : str(e, "%s + p", first));
    line(e, "%s[0] = %s;", a, combine_expr(e, i, acc, sum, y));
    end_block(e);
}

/* A reduction that is being emitted. `array` has `m` registers in each thread with the layout `keep`. `init`
 * is the initial value. */
typedef struct Reduction {
    Instr *i;
    const Layout *l, *keep;
    int axis, n, m; /* registers of the operand, of the result */
    DType acc;
    const char *array, *init, *nan;
    struct Reduction *next;          /* whose threads meet with those of this one (joint-reductions) */
    int parts;                       /* of the axis, which warps have; 1: none meet */
    int64_t rows;                    /* of each part */
    const char *shared, *part, *row; /* the parts in shared memory; this warp's; the row of register i */
} Reduction;

/* Joins the parts of CTAs of all reductions of the list. `first` is that of the first one, `met` says that
 * warps have just met. */
static void join_blocks(Emit *e, const Reduction *q, bool met)
{
    const Instr *first = q->i;
    int n = (int)layout_blocks(q->l), bytes = 0, at = 0;
    BlocksMeet m;
    for (const Reduction *r = q; r; r = r->next)
        if (block_bits_along(r->l, r->axis)) bytes += ctype_bytes(r->acc);
    if (!bytes) return;
    const char *parts = tmp(e, "parts");
    blocks_meet(e, first, n, bytes, met, &m);
    for (const Reduction *r = q; r; r = r->next) {
        if (!block_bits_along(r->l, r->axis)) continue;
        blocks_send(e, &m, n, r->acc, at, str(e, "%s[0]", r->array));
        at += n * ctype_bytes(r->acc);
    }
    blocks_wait(e, &m);
    at = 0;
    for (const Reduction *r = q; r; r = r->next) {
        uint32_t mask = block_bits_along(r->l, r->axis);
        if (!mask) continue;
        const char *own = at ? tmp(e, "parts") : parts, *from = at ? str(e, "%s + %d", m.parts, at) : m.parts;
        line(e, "%s *const %s = (%s *)(%s);", ctype(r->acc), own, ctype(r->acc), from);
        join_parts_of_blocks(e, r->i, r->acc, r->array, own, mask, (uint32_t)n);
        at += n * ctype_bytes(r->acc);
    }
    if (m.round) line(e, "%s++;", m.round);
}

static const char *joined(Emit *e, const Reduction *q, const char *x, const char *y)
{ return combine_expr(e, q->i, q->acc, x, y); }

/* Distributes the elements of a row over the chains in turn, in the order of the registers. */
static int32_t *chain_of(Emit *e, const Reduction *q, int chains)
{
    int32_t *chain = arena_array(&e->s->arena, int32_t, (size_t)q->n), c[TILE_MAX_RANK], k[TILE_MAX_RANK];
    if (chains == 1) return chain;
    int32_t *rows = arena_array(&e->s->arena, int32_t, (size_t)q->m);
    for (int r = 0; r < q->n; r++) {
        layout_element(q->l, (uint32_t)r, 0, 0, 0, c);
        c[q->axis] = 0;
        for (int w = 0; w < q->m; w++) {
            layout_element(q->keep, (uint32_t)w, 0, 0, 0, k);
            k[q->axis] = 0;
            if (coords_equal(q->l->rank, c, k)) {
                chain[r] = rows[w]++ % chains;
                break;
            }
        }
    }
    return chain;
}

/* Several chains for a row, so that additions overlap; rows overlap too, so that many have fewer chains,
 * which take as many registers. */
static int chains_of(const Reduction *q)
{
    enum { LONG_ROW = 16, MOST_CHAINS = 4, MOST_TOGETHER = 32 };
    int chains = q->n / q->m >= LONG_ROW ? MOST_CHAINS : 1;
    while (chains > 1 && chains * q->m > MOST_TOGETHER) chains /= 2;
    return chains;
}

static const char *by_words(Emit *e, const Reduction *q)
{
    const bool most = q->i->op == OP_REDUCE_MAX;
    if (q->m != 1 || q->acc != DT_F32 || q->nan || (!most && q->i->op != OP_REDUCE_MIN)) return NULL;
    return extreme_by_words(e, ir_operand(q->i, 0), q->l, q->axis, most);
}

/* Chains are combined in a fixed order. */
static void join_registers(Emit *e, const Reduction *q)
{
    const Value *x = ir_operand(q->i, 0);
    const char *a = q->array;
    int chains = chains_of(q);
    DType d = x->type->dtype;
    bool padded = q->l->cover[q->axis] != q->l->tile[q->axis];
    const char *found = by_words(e, q);
    if (found) {
        line(e, "float %s[1] = { %s };", a, found);
        return;
    }
    line(e, "%s %s[%d];", ctype(q->acc), a, q->m * chains);
    begin_unrolled(e, "i", q->m * chains);
    line(e, "%s[i] = %s;", a, q->init);
    end_block(e);
    begin_unrolled(e, "i", q->n);
    Index *i = index_variable(e, "i");
    const char *v = element(e, x, q->l, i), *to = index_text(e, map_register(e, q->l, q->keep, i));
    if (d != q->acc) v = cast_expr(e, d, q->acc, v);
    if (padded)
        v = str(
            e, "(%s ? %s : %s)", inside_axis(e, q->l, q->axis, i, coord(e, q->l, q->axis, i)), v, q->init);
    const char *slot = tmp(e, "k"), *el = tmp(e, "x");
    int32_t *chain = chain_of(e, q, chains);
    line(e, "const %s %s = %s;", ctype(q->acc), el, v);
    line(e, "const int %s = %s%s;", slot, to,
        chains > 1 ? str(e, " + %d * %s", q->m, entry_text(e, chain, q->n, "i")) : "");
    if (q->nan) {
        line(e, "%s[%s] = %s(%s[%s], %s);", a, slot,
            use(e, q->i->op == OP_REDUCE_MAX ? "max_ordered" : "min_ordered"), a, slot, el);
        line(e, "%s[%s] = %s[%s] | (%s != %s);", q->nan, to, q->nan, to, el, el);
    } else line(e, "%s[%s] = %s;", a, slot, joined(e, q, str(e, "%s[%s]", a, slot), el));
    end_block(e);
    for (int k = 1; k < chains; k++) {
        begin_unrolled(e, "i", q->m);
        line(e, "%s[i] = %s;", a, joined(e, q, str(e, "%s[i]", a), str(e, "%s[i + %d]", a, q->m * k)));
        end_block(e);
    }
}

/* Combines red[i] with that of lane ^ mask. */
static void join_lane(Emit *e, const Reduction *q, const char *mask)
{
    begin_unrolled(e, "i", q->m);
    const char *y = tmp(e, "y");
    line(e, "const %s %s = %s(%s[i], %s);", ctype(q->acc), y,
        use(e, str(e, "shuffle_xor_%s", dtype_name(q->acc))), q->array, mask);
    line(e, "%s[i] = %s;", q->array, joined(e, q, str(e, "%s[i]", q->array), y));
    end_block(e);
}

/* On NVIDIA, one loop over the masks, because the shuffle takes any mask. On AMD, each mask has an
 * instruction of its own. */
static void join_lanes(Emit *e, const Reduction *q)
{
    bool held =
        ir_attr_int(q->i, ATTR_LANES, 0) == LANES_JOINED; /* as parts, by lanes that hold copies else */
    uint32_t lanes = held ? layout_lane_copies(q->l) : layout_lanes_along(q->l, q->axis),
             low = lanes & -lanes, high = low;
    while (lanes & high << 1) high <<= 1;
    const bool most = q->i->op == OP_REDUCE_MAX;
    const char *all = most || q->i->op == OP_REDUCE_MIN ? extreme_of_warp(e, lanes, q->acc, most) : NULL;
    if (all) {
        begin_unrolled(e, "i", q->m);
        line(e, "%s[i] = %s(%s[i]);", q->array, all, q->array);
        end_block(e);
        return;
    }
    if (!is_hip(e) && low && high > 2 * low && lanes == 2 * high - low) {
        directive(e, "#pragma unroll");
        line(e, "for (int apart = %u; apart <= %u; apart *= 2) {", low, high);
        e->indent++;
        join_lane(e, q, "apart");
        end_block(e);
        return;
    }
    for (uint32_t b = 1; b < layout_lanes(q->l); b <<= 1)
        if (lanes & b) join_lane(e, q, str(e, "%u", b));
}

/* The number of parts of the axis that warps have; rank: the position of each warp's part. */
static int parts_of_warps(Emit *e, const Reduction *q, int32_t *rank)
{
    int32_t c[TILE_MAX_RANK];
    VEC(int32_t) seen = { 0 };
    for (uint32_t w = 0; w < layout_warps(q->l); w++) {
        layout_element(q->l, 0, 0, w, 0, c);
        bool found = false;
        for (size_t k = 0; k < seen.len; k++) found |= seen.data[k] == c[q->axis];
        if (!found) vec_push(&e->s->arena, &seen, c[q->axis]);
    }
    for (uint32_t w = 0; w < layout_warps(q->l); w++) {
        layout_element(q->l, 0, 0, w, 0, c);
        for (size_t k = 0; k < seen.len; k++) rank[w] += seen.data[k] < c[q->axis];
    }
    return (int)seen.len;
}

/* Whether the lanes of a warp join the parts of warps between them, each reading one: where the parts that
 * each thread would read are many, and all lanes hold the same rows. */
static bool lanes_join_parts(Emit *e, const Reduction *q, int parts)
{
    enum { MANY = 64 };
    int wave = e->target->wave;
    return !is_hip(e) && !q->nan && parts * q->m >= MANY && parts <= wave && !(parts & (parts - 1)) &&
           (int)layout_lanes_along(q->l, q->axis) == wave - 1;
}

/* Plans where in the scratch area, from `at` on, the parts of warps are; returns where they end. */
static int64_t place_parts(Emit *e, Reduction *q, int64_t at)
{
    int32_t *rank = arena_array(&e->s->arena, int32_t, layout_warps(q->l));
    const Layout *keep = q->keep;
    q->parts = parts_of_warps(e, q, rank);
    q->rows = 1;
    if (q->parts == 1) return at;
    q->part = entry_text(e, rank, (int)layout_warps(q->l), "warp");
    for (int k = 0; k < keep->rank; k++)
        if (k != q->axis) q->rows *= keep->cover[k];
    int64_t bytes = q->rows * q->parts * ctype_bytes(q->acc);
    scratch(e, at + bytes);
    q->shared = shared_pointer(e, ctype(q->acc), at);
    return (at + bytes + 7) / 8 * 8;
}

/* Writes the part of each warp to shared memory. */
static void write_parts(Emit *e, Reduction *q)
{
    const Layout *keep = q->keep;
    int64_t pitch = 1;
    begin_unrolled(e, "i", q->m);
    for (int k = keep->rank - 1; k >= 0; k--) {
        if (k == q->axis) continue;
        const char *ck = coord_text(e, keep, k, "i"),
                   *term = pitch == 1 ? ck : str(e, "%s * %lld", ck, (long long)pitch);
        q->row = q->row ? str(e, "%s + %s", q->row, term) : term;
        pitch *= keep->cover[k];
    }
    if (!q->row) q->row = "0";
    line(e, "%s[%s * %lld + %s] = %s[i];", q->shared, q->part, (long long)q->rows, q->row, q->array);
    end_block(e);
}

/* Combines the parts of all warps in the order of their positions. */
static void read_parts(Emit *e, const Reduction *q)
{
    if (lanes_join_parts(e, q, q->parts)) {
        begin_unrolled(e, "i", q->m);
        line(e, "%s[i] = %s[(lane & %d) * %lld + %s];", q->array, q->shared, q->parts - 1, (long long)q->rows,
            q->row);
        end_block(e);
        for (int b = 1; b < q->parts; b *= 2) join_lane(e, q, str(e, "%d", b));
        return;
    }
    begin_unrolled(e, "i", q->m);
    line(e, "%s[i] = %s[%s];", q->array, q->shared, q->row);
    line(e, "for (int p = 1; p < %d; p++) {", q->parts);
    e->indent++;
    const char *y = tmp(e, "y");
    line(e, "const %s %s = %s[p * %lld + %s];", ctype(q->acc), y, q->shared, (long long)q->rows, q->row);
    line(e, "%s[i] = %s;", q->array, joined(e, q, str(e, "%s[i]", q->array), y));
    end_block(e);
    end_block(e);
}

/* Joins the parts of warps of all reductions of the list. Returns whether the warps have met, because they
 * hold parts of rows. */
static bool join_warps(Emit *e, Reduction *first)
{
    int64_t bytes = 0;
    for (Reduction *q = first; q; q = q->next) bytes = place_parts(e, q, bytes);
    if (!bytes) return false;
    barrier(e);
    for (Reduction *q = first; q; q = q->next)
        if (q->parts > 1) write_parts(e, q);
    barrier(e);
    for (Reduction *q = first; q; q = q->next)
        if (q->parts > 1) read_parts(e, q);
    return true;
}

/* Converts from the accumulator's type to the result's. */
static void store_result(Emit *e, const Reduction *q)
{
    Value *r = ir_result(q->i);
    DType d = ir_operand(q->i, 0)->type->dtype, from = combined_type(q->i, q->acc);
    const char *a = q->array;
    if (r->type->kind == TYPE_SCALAR) {
        const char *out = name_of(e, r);
        line(e, "const %s %s = %s;", ctype(d), out, cast_expr(e, from, d, str(e, "%s[0]", a)));
        e->storage[r->id] = out;
        return;
    }
    declare_tile(e, r);
    const Layout *lr = layout_of(e, r);
    if ((int)layout_regs(lr) != q->m)
        ir_fail(
            e->s, q->i->loc, "a reduction's result has %u registers, must have %d", layout_regs(lr), q->m);
    int pw = per_word(d), words = array_len(d, q->m);
    for (int w = 0; w < words; w++) {
        const char *xs[4];
        int here = q->m - w * pw < pw ? q->m - w * pw : pw;
        for (int k = 0; k < here; k++) xs[k] = cast_expr(e, from, d, str(e, "%s[%d]", a, w * pw + k));
        line(e, "%s[%d] = %s;", e->storage[r->id], w, pack_expr(e, d, xs, here));
    }
}

/* Lets warps and CTAs meet for the reductions that wait for it, the last of which is the one being emitted.
 */
static void meet(Emit *e)
{
    Reduction *first = e->joint;
    e->joint = NULL;
    if (!first) return;
    const bool met = join_warps(e, first);
    join_blocks(e, first, met);
    for (const Reduction *q = first; q; q = q->next) store_result(e, q);
}

/* For a search for the position of what is found: only threads that have found it by themselves look for it.
 */
static void keep_own(Emit *e, const Reduction *q)
{
    const char *own = tmp(e, "own");
    if (q->m == 1) line(e, "const %s %s = %s[0];", ctype(q->acc), own, q->array);
    extreme_keep(e, q->i, own, q->array);
}

/* A reduction that is marked `joint` waits for the next ones of its block, up to one that is not. */
void emit_reduce(Emit *e, Instr *i)
{
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    const Layout *l = layout_of(e, ir_operand(i, 0)), *keep = layout_slice(&e->s->arena, l, axis, true);
    Reduction *q = arena_alloc(&e->s->arena, sizeof *q), **end = &e->joint;
    *q = (Reduction){ .i = i,
        .l = l,
        .keep = keep,
        .axis = axis,
        .n = (int)layout_regs(l),
        .m = (int)layout_regs(keep),
        .acc = accumulator(i),
        .array = tmp(e, "red") };
    q->init = combine_identity(e, i, q->acc);
    const Extreme *known = ir_attr_int(i, ATTR_LANES, 0) ? NULL : extreme_known(e, i);
    if (known) {
        q->array = known->value;
        store_result(e, q);
        if (!ir_attr_int(i, ATTR_JOINT, 0)) meet(e);
        return;
    }
    if (emit_one_hot(e, i, l, keep, q->array)) {
        store_result(e, q);
        if (!ir_attr_int(i, ATTR_JOINT, 0)) meet(e);
        return;
    }
    /* AMD before CDNA 4: a maximum that keeps NaN takes four instructions. Therefore NaN is tested for
     * separately, two elements at a time. */
    if (is_hip(e) && q->acc == DT_F32 && !target_has(e->target, TF_MAX_OF_NANS) &&
        (i->op == OP_REDUCE_MAX || i->op == OP_REDUCE_MIN) && q->n / q->m >= 4) {
        q->nan = tmp(e, "nan");
        line(e, "bool %s[%d];", q->nan, q->m);
        begin_unrolled(e, "i", q->m);
        line(e, "%s[i] = false;", q->nan);
        end_block(e);
    }
    join_registers(e, q);
    if (q->nan) {
        begin_unrolled(e, "i", q->m);
        line(e, "if (%s[i]) %s[i] = %s(0x7fc00000u);", q->nan, q->array, use(e, "float_bits"));
        end_block(e);
    }
    if (ir_attr_int(i, ATTR_LANES, 0) == LANES_APART) {
        store_result(e, q);
        return;
    }
    if (extreme_wanted(i)) keep_own(e, q);
    join_lanes(e, q);
    while (*end) end = &(*end)->next;
    *end = q;
    if (!ir_attr_int(i, ATTR_JOINT, 0)) meet(e);
}
