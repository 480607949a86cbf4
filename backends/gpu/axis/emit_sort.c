/* emit_sort.c: sort, as a bitonic network.
 *
 * Elements become keys: integers of 32 or 64 bits in the order of the elements, NaN largest. A thread holds a
 * run of `per` positions, lanes and then warps the runs after it (kernel_row_layout). A comparison of two
 * positions of a run takes place within the thread, one of two lanes takes one exchange between lanes, and
 * only one of two warps goes through shared memory.
 *
 *   runs of 2, 4, .. per / 2 positions    up and down alternate by register
 *   t = 1, 2, .. runs merged at a time    warps, lanes, registers: all ascend, because the keys of those that
 *                                         are to descend are inverted for the length of the step
 *
 * The network sorts whatever order it begins with. So the operand may have any layout in which the threads of
 * a row hold that row. Rows that are too long for registers, and warps that are no power of two, take the
 * network whose every step goes through shared memory.
 *
 * The largest k of a row (topk) are taken from such a network of pairs, if k is large. */
#include "backends/gpu/emit.h"

/* --- in registers ------------------------------------------------------------------------------------ */

enum { EXCHANGE_BYTES = 16384 }; /* of shared memory, unless one key of each thread has more */

typedef struct Network {
    const Layout *l;
    Runs runs;
    int n, parts; /* the keys of a thread, and the warps that share a row */
    int warp_bit; /* the lowest bit of the warp's number that counts along the row */
    const char *key, *type, *at;
    bool words; /* keys of 32 bits */
} Network;

static bool power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

/* Whether the warps of a row are told apart by consecutive bits of the warp's number, in order. */
static bool warps_in_order(Emit *e, Network *w, int axis)
{
    int32_t c[TILE_MAX_RANK];
    int run = w->runs.per * w->runs.lanes;
    warp_rank(e, w->l, axis, &w->parts);
    if (!power_of_two(w->parts) || !power_of_two((int)layout_warps(w->l))) return false;
    w->warp_bit = 0;
    for (int bit = 1, rank = 1; rank < w->parts; bit *= 2) {
        if (bit >= (int)layout_warps(w->l)) return false;
        layout_element(w->l, 0, 0, (uint32_t)bit, 0, c);
        if (rank == 1 && c[axis] == 0) continue;
        if (c[axis] != rank * run) return false;
        if (rank == 1) w->warp_bit = bit;
        rank *= 2;
    }
    return true;
}

/* Whether the network can sort x in the threads that l gives its rows to. */
static bool in_registers(Emit *e, const Value *x, const Layout *l, bool words, Network *w)
{
    int axis = x->type->rank - 1;
    if (!l || !x->type->layout) return false;
    *w = (Network){ .l = l, .words = words, .n = (int)layout_regs(l) };
    w->type = ctype(words ? DT_I32 : DT_I64);
    return w->n <= KERNEL_MOST_SORTED && runs_of(l, axis, &w->runs) && power_of_two(w->runs.per) &&
           warps_in_order(e, w, axis) && w->runs.per * w->runs.lanes * w->parts >= x->type->shape[axis] &&
           kernel_same_rows(layout_of(e, x), l, axis);
}

static void load_keys(Emit *e, const Instr *i, Network *w, bool down)
{
    const Value *x = ir_operand(i, 0);
    const Layout *l = layout_of(e, x);
    DType d = x->type->dtype, wide = combined_wide(d);
    line(e, "%s %s[%d];", w->type, w->key, w->n);
    begin_unrolled(e, "i", w->n);
    Index *r = index_variable(e, "i");
    const char *inside = inside_tile(e, l, r),
               *k = str(e, "%s%s(%s)", down ? "~" : "", use(e, str(e, "sort_key_%s", dtype_name(wide))),
                   cast_expr(e, d, wide, element(e, x, l, r))),
               *last = w->words ? "0x7fffffff" : "0x7fffffffffffffffll";
    line(e, "%s[i] = %s;", w->key, *inside ? str(e, "%s ? %s : %s", inside, k, last) : k);
    end_block(e);
}

/* Orders the pairs of registers that are `half` apart; those of every second `size` descend (0: none). */
static void compare_registers(Emit *e, const Network *w, int half, int size)
{
    const char *lo = tmp(e, "lo"), *hi = tmp(e, "hi"), *a = tmp(e, "a"), *b = tmp(e, "b");
    begin_unrolled(e, "i", w->n / 2);
    line(e, "const int %s = 2 * %d * (i / %d) + i %% %d, %s = %s + %d;", lo, half, half, half, hi, lo, half);
    line(e, "const %s %s = %s[%s], %s = %s[%s];", w->type, a, w->key, lo, b, w->key, hi);
    const char *least = str(e, "(%s < %s ? %s : %s)", b, a, b, a),
               *most = str(e, "(%s < %s ? %s : %s)", b, a, a, b);
    if (size) {
        line(e, "%s[%s] = %s & %d ? %s : %s;", w->key, lo, lo, size, most, least);
        line(e, "%s[%s] = %s & %d ? %s : %s;", w->key, hi, lo, size, least, most);
    } else {
        line(e, "%s[%s] = %s;", w->key, lo, least);
        line(e, "%s[%s] = %s;", w->key, hi, most);
    }
    end_block(e);
}

/* Keeps the smaller or the larger of the own key i and the other thread's, as the place in the pair says. */
static void keep_key(Emit *e, const Network *w, const char *other, const char *upper)
{ line(e, "if ((%s < %s[i]) != %s) %s[i] = %s;", other, w->key, upper, w->key, other); }

/* Orders the keys of lanes `half` runs apart. */
static void compare_lanes(Emit *e, const Network *w, int half)
{
    const char *upper = tmp(e, "upper"), *y = tmp(e, "y");
    line(e, "const bool %s = (%s & %d) != 0;", upper, w->at, half);
    begin_unrolled(e, "i", w->n);
    line(e, "const %s %s = %s(%s[i], %d);", w->type, y,
        use(e, w->words ? "shuffle_xor_i32" : "shuffle_xor_i64"), w->key, half);
    keep_key(e, w, y, upper);
    end_block(e);
}

/* Orders the keys of warps `half` runs apart, through shared memory, as many registers at a time as fit. */
static void compare_warps(Emit *e, const Network *w, int half)
{
    int bytes = w->words ? 4 : 8, chunk = w->n, wave = e->plan->target->wave,
        other = half / w->runs.lanes * w->warp_bit * wave;
    while (chunk % 2 == 0 && (int64_t)chunk * e->threads * bytes > EXCHANGE_BYTES) chunk /= 2;
    const char *upper = tmp(e, "upper"), *y = tmp(e, "y"), *c = tmp(e, "c");
    scratch(e, (int64_t)chunk * e->threads * bytes);
    const char *sh = shared_pointer(e, w->type, 0);
    line(e, "const bool %s = (%s & %d) != 0;", upper, w->at, half);
    begin_unrolled(e, c, w->n / chunk);
    barrier(e);
    begin_unrolled(e, "k", chunk);
    line(e, "%s[k * %d + tid] = %s[%s * %d + k];", sh, e->threads, w->key, c, chunk);
    end_block(e);
    barrier(e);
    begin_unrolled(e, "k", chunk);
    line(e, "const int i = %s * %d + k;", c, chunk);
    line(e, "const %s %s = %s[k * %d + (tid ^ %d)];", w->type, y, sh, e->threads, other);
    keep_key(e, w, y, upper);
    end_block(e);
    end_block(e);
}

/* The steps that merge runs which threads hold. */
static void merge_threads(Emit *e, const Network *w, const char *merged)
{
    for (int half = w->runs.lanes * w->parts / 2; half > 0; half /= 2) {
        line(e, "if (%s >= %d) {", merged, 2 * half);
        e->indent++;
        if (half >= w->runs.lanes) compare_warps(e, w, half);
        else compare_lanes(e, w, half);
        end_block(e);
    }
}

/* Sorts the keys of rows along the axis. */
static void sort_keys(Emit *e, Network *w, int axis)
{
    int per = w->runs.per, threads = w->runs.lanes * w->parts, parts;
    const char *t = tmp(e, "merged"), *was = tmp(e, "was"), *now = tmp(e, "now");
    w->at = tmp(e, "at");
    line(e, "const u32 %s = (lane & %d) + %d * %s;", w->at, w->runs.lanes - 1, w->runs.lanes,
        warp_rank(e, w->l, axis, &parts));
    for (int size = 2; size < per; size *= 2)
        for (int half = size / 2; half > 0; half /= 2) compare_registers(e, w, half, size);
    line(e, "%s %s = 0;", w->type, was);
    directive(e, "#pragma unroll 1");
    line(e, "for (u32 %s = 1; %s <= %d; %s *= 2) {", t, t, threads, t);
    e->indent++;
    line(e, "const %s %s = %s & %s & %d ? -1 : 0;", w->type, now, w->at, t, threads - 1);
    begin_unrolled(e, "i", w->n);
    line(e, "%s[i] ^= %s ^ %s;", w->key, was, now);
    end_block(e);
    line(e, "%s = %s;", was, now);
    merge_threads(e, w, t);
    for (int half = per / 2; half > 0; half /= 2) compare_registers(e, w, half, 0);
    end_block(e);
}

static void sort_in_registers(Emit *e, const Instr *i, Network *w)
{
    const Value *r = ir_result(i);
    bool down = ir_attr_int(i, ATTR_REVERSE, 0);
    DType wide = combined_wide(r->type->dtype);
    w->key = tmp(e, "key");
    load_keys(e, i, w, down);
    sort_keys(e, w, r->type->rank - 1);
    const char *sorted = tmp(e, "sorted");
    line(e, "%s %s[%d];", ctype(wide), sorted, w->n);
    begin_unrolled(e, "i", w->n);
    line(e, "%s[i] = %s(%s%s[i]);", sorted, use(e, str(e, "sort_value_%s", dtype_name(wide))),
        down ? "~" : "", w->key);
    end_block(e);
    pack_registers(e, r, sorted, combined_type(i, wide));
}

/* --- the largest of a row ---------------------------------------------------------------------------- */

/* Keys of 64 bits: the element above, the complement of twice its position below, so that of equal elements
 * the one at the lowest position comes first. They are inverted, as the largest come first. Zeros of both
 * signs are equal, so the key of -0.0, which is -1, becomes that of 0.0, and the lowest bit says which it
 * was. */
static void load_places(Emit *e, const Value *x, Network *w)
{
    const Layout *l = layout_of(e, x);
    DType d = x->type->dtype, wide = combined_wide(d);
    w->key = tmp(e, "key");
    line(e, "%s %s[%d];", w->type, w->key, w->n);
    begin_unrolled(e, "i", w->n);
    Index *r = index_variable(e, "i");
    const char *inside = inside_tile(e, l, r), *v = cast_expr(e, d, wide, element(e, x, l, r)),
               *word = tmp(e, "word"), *minus = tmp(e, "minus"), *k;
    line(e, "const i32 %s = %s(%s);", word, use(e, str(e, "sort_key_%s", dtype_name(wide))), v);
    line(e, "const i32 %s = %s;", minus, dtype_is_float(wide) ? str(e, "%s == -1", word) : "0");
    k = str(e, "~((i64)(%s + %s) << 32 | (u32)~(2 * (%s) + %s))", word, minus,
        coord_text(e, l, x->type->rank - 1, "i"), minus);
    line(e, "%s[i] = %s;", w->key, *inside ? str(e, "%s ? %s : 0x7fffffffffffffffll", inside, k) : k);
    end_block(e);
}

/* Writes the first of each row, and their positions, to shared memory as row-major tiles. */
static void spill_places(Emit *e, const Network *w, const Type *t, const char *values, const char *places)
{
    DType d = t->dtype, wide = combined_wide(d);
    Index *c[TILE_MAX_RANK];
    begin_unrolled(e, "i", w->n);
    coords_at(e, w->l, index_variable(e, "i"), c);
    const char *cond = str(e, "%s < %lld", index_text(e, c[t->rank - 1]), (long long)t->shape[t->rank - 1]);
    for (int a = 0; a < t->rank - 1; a++)
        if (w->l->cover[a] != w->l->tile[a])
            cond = str(e, "%s && %s < %d", cond, index_text(e, c[a]), w->l->tile[a]);
    line(e, "if (%s) {", cond);
    e->indent++;
    const char *cell = row_major(e, c, t),
               *v = str(e, "%s((i32)(~%s[i] >> 32) - (i32)(%s[i] & 1))",
                   use(e, str(e, "sort_value_%s", dtype_name(wide))), w->key, w->key);
    line(e, "%s(%s + (%s) * %d, %s);", use(e, str(e, "sts_%s", dtype_name(d))), values, cell, dtype_bytes(d),
        dtype_is_float(wide) ? v : cast_expr(e, wide, d, v)); /* an element as it was: nothing saturates */
    line(e, "%s(%s + (%s) * 4, (i32)((u32)%s[i] >> 1));", use(e, "sts_i32"), places, cell, w->key);
    end_block(e);
    end_block(e);
}

bool emit_largest(Emit *e, const Instr *i)
{
    Network w;
    const Value *x = ir_operand(i, 0), *values = &i->results[0], *places = &i->results[1];
    int axis = x->type->rank - 1;
    const Layout *l =
        kernel_sorts_largest(i) ? kernel_row_layout(&e->s->arena, e->plan, x->type, axis) : NULL;
    if (!in_registers(e, x, l, false, &w)) return false;
    int64_t cells = type_elements(values->type), at = (cells * dtype_bytes(x->type->dtype) + 15) / 16 * 16;
    load_places(e, x, &w);
    sort_keys(e, &w, axis);
    scratch(e, at + cells * 4);
    const char *base = tmp(e, "sh"), *second = tmp(e, "sh");
    line(e, "const u32 %s = shared_base + SCRATCH, %s = %s + %lld;", base, second, base, (long long)at);
    barrier(e);
    spill_places(e, &w, values->type, base, second);
    barrier(e);
    fill_elements(e, values, base, row_major, values->type);
    fill_elements(e, places, second, row_major, places->type);
    return true;
}

/* --- in shared memory -------------------------------------------------------------------------------- */

typedef struct Padded {
    const Type *type;
    int64_t pitch;
} Padded;

/* A row-major position, with rows `pitch` apart. */
static const char *padded_position(Emit *e, Index *const *c, const void *user)
{
    const Padded *p = user;
    Type t = *p->type;
    t.shape[t.rank - 1] = p->pitch;
    return row_major(e, c, &t);
}

static void sort_in_memory(Emit *e, const Instr *i)
{
    const Value *x = ir_operand(i, 0), *r = ir_result(i);
    const Type *t = x->type;
    DType d = t->dtype;
    bool down = ir_attr_int(i, ATTR_REVERSE, 0);
    int64_t n = t->shape[t->rank - 1], pitch = 1, rows = type_elements(t) / n;
    while (pitch < n) pitch *= 2;
    scratch(e, rows * pitch * dtype_bytes(d));
    const char *base = tmp(e, "sh"), *get = use(e, str(e, "lds_%s", dtype_name(d))),
               *put = use(e, str(e, "sts_%s", dtype_name(d)));
    Padded place = { t, pitch };
    line(e, "const u32 %s = shared_base + SCRATCH;", base);
    barrier(e);
    spill_elements(e, x, layout_of(e, x), base, padded_position, &place);
    if (pitch != n) {
        const char *last = down ? use(e, str(e, "LOWEST_%s", dtype_name(combined_wide(d))))
                           : dtype_is_float(d)
                               ? str(e, d == DT_F64 ? "%s(0x7ff8000000000000ull)" : "%s(0x7fc00000u)",
                                     use(e, d == DT_F64 ? "double_bits" : "float_bits"))
                               : use(e, str(e, "HIGHEST_%s", dtype_name(d)));
        line(e,
            "for (int i = tid; i < %lld; i += %d) %s(%s + (i / %lld * %lld + %lld + i %% %lld) * %d, %s);",
            (long long)(rows * (pitch - n)), e->threads, put, base, (long long)(pitch - n), (long long)pitch,
            (long long)n, (long long)(pitch - n), dtype_bytes(d), last);
    }
    if (pitch > 1) {
        directive(e, "#pragma unroll 1");
        line(e, "for (int size = 2; size <= %lld; size *= 2) {", (long long)pitch);
        e->indent++;
        directive(e, "#pragma unroll 1");
        line(e, "for (int half = size / 2; half > 0; half /= 2) {");
        e->indent++;
        barrier(e);
        line(e, "for (int i = tid; i < %lld; i += %d) {", (long long)(rows * pitch / 2), e->threads);
        e->indent++;
        line(e, "const int lo = 2 * half * (i / half) + i %% half, hi = lo + half;");
        line(e, "const %s a = %s(%s + lo * %d), b = %s(%s + hi * %d);", ctype(d), get, base, dtype_bytes(d),
            get, base, dtype_bytes(d));
        line(e, "const bool up = ((lo & %lld & size) == 0) != %s;", (long long)pitch - 1,
            down ? "true" : "false");
        line(e, "if (up ? %s(a, b) : %s(b, a)) { %s(%s + lo * %d, b); %s(%s + hi * %d, a); }",
            use(e, str(e, "after_%s", dtype_name(combined_wide(d)))),
            str(e, "after_%s", dtype_name(combined_wide(d))), put, base, dtype_bytes(d), put, base,
            dtype_bytes(d));
        end_block(e);
        end_block(e);
        end_block(e);
    }
    barrier(e);
    fill_elements(e, r, base, padded_position, &place);
}

void emit_sort(Emit *e, Instr *i)
{
    Network w;
    const Value *x = ir_operand(i, 0);
    if (in_registers(e, x, layout_of(e, ir_result(i)), dtype_bytes(x->type->dtype) <= 4, &w))
        sort_in_registers(e, i, &w);
    else sort_in_memory(e, i);
}
