/* sort.c: sort and topk of rows.
 *
 * A row becomes an array of keys: the value as an integer of the same order (NaN the largest) with its
 * position below, so that keys differ, equal values keep their order, and values are fetched by position
 * afterwards. Three ways lead to the least keys in order:
 *
 *   few of many    insertion among the best so far (sort_few.c)
 *   short rows     Batcher's odd-even merge network
 *   long rows      a radix sort from the lowest byte of the value to the highest, between two arrays; a byte
 *                  that is the same in all keys takes no pass
 *
 * Where nothing asks for positions, the keys of long rows are the values alone: integers from which the
 * elements are computed again, bit by bit. -0 is less than 0 then. */
#include "backends/cpu/axis/sort.h"

enum {
    MOST_INSERTED = 32, /* results that are kept by insertion */
    LEAST_RADIX = 128,  /* elements of a row that is sorted by bytes */
    BYTE_VALUES = 256,
    MOST_MOVED = 4, /* keys that move at once */
};

typedef enum SortWay { SORT_INSERT, SORT_NETWORK, SORT_RADIX } SortWay;

static bool is_wide(const Instr *i) { return dtype_bits(ir_operand(i, 0)->type->dtype) == 64; }

static int64_t row_elements(const Value *v) { return v->type->shape[v->type->rank - 1]; }

static SortWay way_of(const Instr *i)
{
    int64_t n = row_elements(ir_operand(i, 0)), count = row_elements(&i->results[0]);
    if (count <= MOST_INSERTED && count * 4 <= n) return SORT_INSERT;
    return n < LEAST_RADIX ? SORT_NETWORK : SORT_RADIX;
}

static bool is_alone(const Instr *i) { return i->op == OP_SORT && way_of(i) == SORT_RADIX; }

static int key_bytes(const Instr *i) { return (is_wide(i) ? 8 : 4) * (is_alone(i) ? 1 : 2); }

/* By which keys are sorted. */
static int value_bytes(const Instr *i)
{
    int bytes = dtype_bytes(ir_operand(i, 0)->type->dtype);
    return bytes < 4 && !is_alone(i) ? 4 : bytes;
}

/* Behind both arrays of keys, in whole words. */
static int64_t counts_at(const Instr *i)
{ return (2 * row_elements(ir_operand(i, 0)) * key_bytes(i) + 7) / 8 * 8; }

int64_t sort_room(const Instr *i)
{
    int64_t n = row_elements(ir_operand(i, 0)), word = (int64_t)sizeof(int64_t);
    switch (way_of(i)) {
    case SORT_INSERT: return row_elements(&i->results[0]) * key_bytes(i) / word;
    case SORT_NETWORK: return n * key_bytes(i) / word;
    case SORT_RADIX: return (counts_at(i) + value_bytes(i) * BYTE_VALUES * 4) / word;
    }
    return 0;
}

static LLVMValueRef ordered(Sort *s, LLVMValueRef v)
{
    Gen *g = s->g;
    DType d = s->from->dtype;
    unsigned bits = LLVMGetIntTypeWidth(s->half);
    LLVMValueRef top = LLVMConstInt(s->half, 1ull << (bits - 1), false), u;
    if (dtype_is_float(d)) {
        if (d != DT_F64) v = to_f32(g, d, v);
        LLVMValueRef nan = LLVMBuildFCmp(g->b, LLVMRealUNO, v, v, "");
        v = LLVMBuildFAdd(g->b, v, LLVMConstNull(LLVMTypeOf(v)), ""); /* -0 counts as 0 */
        u = LLVMBuildBitCast(g->b, v, s->half, "");
        LLVMValueRef flip =
            LLVMBuildOr(g->b, LLVMBuildAShr(g->b, u, LLVMConstInt(s->half, bits - 1, false), ""), top, "");
        u = LLVMBuildSelect(g->b, nan, LLVMConstAllOnes(s->half), LLVMBuildXor(g->b, u, flip, ""), "");
    } else {
        bool sgn = dtype_is_signed(d);
        u = dtype_bits(d) == (int)bits ? v
            : sgn                      ? LLVMBuildSExt(g->b, v, s->half, "")
                                       : LLVMBuildZExt(g->b, v, s->half, "");
        if (sgn) u = LLVMBuildXor(g->b, u, top, "");
    }
    return s->descending ? LLVMBuildNot(g->b, u, "") : u;
}

/* Of the bits of a float: how many with the sign are NaN. Above these lie -infinity, or the least number. */
static uint64_t negative_nans(DType d)
{
    if (d == DT_F8E4M3) return 1;
    int fraction = d == DT_F64 ? 52 : d == DT_F32 ? 23 : d == DT_F16 ? 10 : d == DT_BF16 ? 7 : 2;
    return (1ull << fraction) - 1;
}

/* The element as a key that stands for it alone: its bits in an order in which every NaN is largest. */
static LLVMValueRef key_of_bits(Sort *s, LLVMValueRef v)
{
    Gen *g = s->g;
    DType d = s->from->dtype;
    unsigned bits = (unsigned)dtype_bits(d);
    LLVMTypeRef type = LLVMIntTypeInContext(g->ctx, bits);
    LLVMValueRef top = LLVMConstInt(type, 1ull << (bits - 1), false), u = LLVMBuildBitCast(g->b, v, type, "");
    if (dtype_is_float(d)) {
        LLVMValueRef sign = LLVMBuildAShr(g->b, u, LLVMConstInt(type, bits - 1, false), "");
        u = LLVMBuildXor(g->b, u, LLVMBuildOr(g->b, sign, top, ""), "");
        u = LLVMBuildSub(g->b, u, LLVMConstInt(type, negative_nans(d), false), "");
    } else if (dtype_is_signed(d)) u = LLVMBuildXor(g->b, u, top, "");
    return LLVMBuildZExt(g->b, s->descending ? LLVMBuildNot(g->b, u, "") : u, s->key, "");
}

/* The element of such a key. */
static LLVMValueRef bits_of_key(Sort *s, LLVMValueRef key)
{
    Gen *g = s->g;
    DType d = s->from->dtype;
    unsigned bits = (unsigned)dtype_bits(d);
    LLVMTypeRef type = LLVMIntTypeInContext(g->ctx, bits);
    LLVMValueRef top = LLVMConstInt(type, 1ull << (bits - 1), false), u = LLVMBuildTrunc(g->b, key, type, "");
    if (s->descending) u = LLVMBuildNot(g->b, u, "");
    if (dtype_is_float(d)) {
        u = LLVMBuildAdd(g->b, u, LLVMConstInt(type, negative_nans(d), false), "");
        LLVMValueRef negative =
            LLVMBuildAShr(g->b, LLVMBuildNot(g->b, u, ""), LLVMConstInt(type, bits - 1, false), "");
        u = LLVMBuildXor(g->b, u, LLVMBuildOr(g->b, negative, top, ""), "");
    } else if (dtype_is_signed(d)) u = LLVMBuildXor(g->b, u, top, "");
    return LLVMBuildBitCast(g->b, u, gen_type(g, d, 1), "");
}

/* The ordered value of element k of the row, and its key. */
LLVMValueRef sort_value(Sort *s, LLVMValueRef k)
{
    int last = s->from->rank - 1;
    Eval e;
    eval_init(&e, s->g, 1);
    s->coord[last] = k;
    LLVMValueRef v = buf_load(&e, s->from, s->coord, last);
    return s->alone ? key_of_bits(s, v) : ordered(s, v);
}

LLVMValueRef sort_key(Sort *s, LLVMValueRef value, LLVMValueRef k)
{
    Gen *g = s->g;
    if (s->alone) return value;
    LLVMValueRef bits = LLVMConstInt(s->key, LLVMGetIntTypeWidth(s->half), false);
    LLVMValueRef high = LLVMBuildShl(g->b, LLVMBuildZExt(g->b, value, s->key, ""), bits, "");
    return LLVMBuildOr(g->b, high, LLVMBuildIntCast2(g->b, k, s->key, false, ""), "");
}

/* --- short rows -------------------------------------------------------------------------------------- */

static void store_keys(Sort *s)
{
    Gen *g = s->g;
    Loop l;
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->n), 1);
    LLVMBuildStore(g->b, sort_key(s, sort_value(s, k), k), sort_key_at(s, sort_array(s), k));
    gen_loop_end(g, &l);
}

static void compare_exchange(Sort *s, LLVMValueRef x, LLVMValueRef y)
{
    Gen *g = s->g;
    LLVMValueRef px = sort_key_at(s, sort_array(s), x), py = sort_key_at(s, sort_array(s), y);
    LLVMValueRef a = LLVMBuildLoad2(g->b, s->key, px, ""), b = LLVMBuildLoad2(g->b, s->key, py, "");
    LLVMValueRef less = LLVMBuildICmp(g->b, LLVMIntULT, b, a, "");
    LLVMBuildStore(g->b, LLVMBuildSelect(g->b, less, b, a, ""), px);
    LLVMBuildStore(g->b, LLVMBuildSelect(g->b, less, a, b, ""), py);
}

/* Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M, for any n. */
static void network(Sort *s)
{
    Gen *g = s->g;
    int levels = 0;
    while (1ll << levels < s->n) levels++;
    if (!levels) return;
    Loop lp, lk, lj, li;
    If same;
    LLVMValueRef one = gen_int(g, 1), n = gen_int(g, s->n);
    LLVMValueRef p_log = gen_loop(g, &lp, gen_int(g, 0), gen_int(g, levels), 1);
    LLVMValueRef p = LLVMBuildShl(g->b, one, p_log, "");
    LLVMValueRef q = gen_loop(g, &lk, gen_int(g, 0), sort_add(g, p_log, one), 1);
    LLVMValueRef k = LLVMBuildLShr(g->b, p, q, ""), j0 = LLVMBuildURem(g->b, k, p, ""),
                 two_k = LLVMBuildShl(g->b, k, one, "");
    LLVMValueRef left = LLVMBuildSub(g->b, LLVMBuildSub(g->b, n, k, ""), j0, "");
    LLVMValueRef count =
        LLVMBuildSDiv(g->b, sort_add(g, left, LLVMBuildSub(g->b, two_k, one, "")), two_k, "");
    LLVMValueRef t = gen_loop(g, &lj, gen_int(g, 0), count, 1);
    LLVMValueRef j = sort_add(g, j0, LLVMBuildMul(g->b, t, two_k, ""));
    LLVMValueRef room = LLVMBuildSub(g->b, LLVMBuildSub(g->b, n, j, ""), k, "");
    LLVMValueRef m = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, room, k, ""), room, k, "");
    LLVMValueRef i = gen_loop(g, &li, gen_int(g, 0), m, 1);
    LLVMValueRef x = sort_add(g, i, j), y = sort_add(g, x, k), by = sort_add(g, p_log, one);
    gen_if(g, &same,
        LLVMBuildICmp(g->b, LLVMIntEQ, LLVMBuildLShr(g->b, x, by, ""), LLVMBuildLShr(g->b, y, by, ""), ""));
    compare_exchange(s, x, y);
    gen_endif(g, &same);
    gen_loop_end(g, &li);
    gen_loop_end(g, &lj);
    gen_loop_end(g, &lk);
    gen_loop_end(g, &lp);
}

/* --- long rows --------------------------------------------------------------------------------------- */

/* How many keys have each value of each byte, and then where the next key with that value goes. */
static LLVMValueRef count_ptr(Sort *s, LLVMValueRef byte, LLVMValueRef value)
{
    Gen *g = s->g;
    LLVMValueRef at = sort_add(g, LLVMBuildMul(g->b, byte, gen_int(g, BYTE_VALUES), ""), value),
                 counts = gen_buf(g, s->keys, counts_at(s->i));
    return LLVMBuildGEP2(g->b, g->i32, counts, &at, 1, "");
}

static LLVMValueRef byte_of(Sort *s, LLVMValueRef value, LLVMValueRef byte)
{
    Gen *g = s->g;
    LLVMTypeRef type = LLVMTypeOf(value);
    LLVMValueRef shift =
        LLVMBuildIntCast2(g->b, LLVMBuildShl(g->b, byte, gen_int(g, 3), ""), type, false, "");
    value = LLVMBuildAnd(g->b, LLVMBuildLShr(g->b, value, shift, ""), LLVMConstInt(type, 255, false), "");
    return LLVMBuildIntCast2(g->b, value, g->i64, false, "");
}

/* The value of a key's byte. */
static LLVMValueRef digit(Sort *s, LLVMValueRef key, LLVMValueRef byte)
{
    if (s->alone) return byte_of(s, key, byte);
    LLVMValueRef bits = LLVMConstInt(s->key, LLVMGetIntTypeWidth(s->half), false);
    return byte_of(s, LLVMBuildTrunc(s->g->b, LLVMBuildLShr(s->g->b, key, bits, ""), s->half, ""), byte);
}

static LLVMValueRef add_to(Sort *s, LLVMValueRef ptr, LLVMValueRef by)
{
    LLVMValueRef old = LLVMBuildLoad2(s->g->b, s->g->i32, ptr, "");
    LLVMBuildStore(s->g->b, sort_add(s->g, old, by), ptr);
    return old;
}

/* Stores the keys and counts their bytes in one walk over the row. */
static void count_bytes(Sort *s)
{
    Gen *g = s->g;
    LLVMValueRef one = LLVMConstInt(g->i32, 1, false);
    Loop l;
    LLVMBuildMemSet(g->b, count_ptr(s, gen_int(g, 0), gen_int(g, 0)), LLVMConstInt(g->i8, 0, false),
        gen_int(g, value_bytes(s->i) * BYTE_VALUES * 4), 4);
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->n), 1);
    LLVMValueRef value = sort_value(s, k);
    LLVMBuildStore(g->b, sort_key(s, value, k), sort_key_at(s, sort_array(s), k));
    for (int byte = 0; byte < value_bytes(s->i); byte++)
        add_to(s, count_ptr(s, gen_int(g, byte), byte_of(s, value, gen_int(g, byte))), one);
    gen_loop_end(g, &l);
}

/* The numbers of keys become the places of the first keys. */
static void count_places(Sort *s, LLVMValueRef byte, LLVMValueRef sum)
{
    Gen *g = s->g;
    Loop l;
    LLVMBuildStore(g->b, LLVMConstNull(g->i32), sum);
    LLVMValueRef value = gen_loop(g, &l, gen_int(g, 0), gen_int(g, BYTE_VALUES), 1);
    LLVMValueRef ptr = count_ptr(s, byte, value), n = LLVMBuildLoad2(g->b, g->i32, ptr, "");
    LLVMBuildStore(g->b, add_to(s, sum, n), ptr);
    gen_loop_end(g, &l);
}

/* Moves the keys [begin, end) to where the counts say, `at_once` at a time: their places are found before the
 * first of them is stored, because a processor that cannot tell where a store goes lets later loads of counts
 * wait. */
static void move_keys(
    Sort *s, LLVMValueRef from, LLVMValueRef to, LLVMValueRef byte, int64_t begin, int64_t end, int at_once)
{
    Gen *g = s->g;
    LLVMValueRef key[MOST_MOVED], place[MOST_MOVED];
    Loop l;
    if (begin == end) return;
    LLVMValueRef counts = count_ptr(s, byte, gen_int(g, 0));
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, begin), gen_int(g, end), at_once);
    for (int j = 0; j < at_once; j++)
        key[j] = sort_load_key(s, sort_key_at(s, from, sort_add(g, k, gen_int(g, j))));
    for (int j = 0; j < at_once; j++) {
        LLVMValueRef value = digit(s, key[j], byte);
        place[j] =
            add_to(s, LLVMBuildGEP2(g->b, g->i32, counts, &value, 1, ""), LLVMConstInt(g->i32, 1, false));
    }
    for (int j = 0; j < at_once; j++)
        LLVMBuildStore(g->b, key[j], sort_key_at(s, to, LLVMBuildZExt(g->b, place[j], g->i64, "")));
    gen_loop_end(g, &l);
}

static void radix(Sort *s)
{
    Gen *g = s->g;
    LLVMValueRef n = gen_int(g, s->n), which = gen_alloca(g, g->i64, "which"),
                 sum = gen_alloca(g, g->i32, "sum");
    Loop bytes;
    If differs;
    count_bytes(s);
    LLVMBuildStore(g->b, gen_int(g, 0), which); /* the array that holds the keys now */
    LLVMValueRef byte = gen_loop(g, &bytes, gen_int(g, 0), gen_int(g, value_bytes(s->i)), 1);
    LLVMValueRef now = LLVMBuildLoad2(g->b, g->i64, which, ""),
                 then = LLVMBuildSub(g->b, gen_int(g, 1), now, "");
    LLVMValueRef from = sort_key_at(s, sort_array(s), LLVMBuildMul(g->b, now, n, "")),
                 to = sort_key_at(s, sort_array(s), LLVMBuildMul(g->b, then, n, ""));
    LLVMValueRef some =
        LLVMBuildLoad2(g->b, g->i32, count_ptr(s, byte, digit(s, sort_load_key(s, from), byte)), "");
    gen_if(
        g, &differs, LLVMBuildICmp(g->b, LLVMIntNE, some, LLVMConstInt(g->i32, (uint64_t)s->n, false), ""));
    count_places(s, byte, sum);
    int64_t whole = s->n / MOST_MOVED * MOST_MOVED;
    move_keys(s, from, to, byte, 0, whole, MOST_MOVED);
    move_keys(s, from, to, byte, whole, s->n, 1);
    LLVMBuildStore(g->b, then, which);
    gen_endif(g, &differs);
    gen_loop_end(g, &bytes);
    now = LLVMBuildLoad2(g->b, g->i64, which, "");
    s->sorted = sort_key_at(s, sort_array(s), LLVMBuildMul(g->b, now, n, ""));
}

/* --- rows -------------------------------------------------------------------------------------------- */

static void order_keys(Sort *s)
{
    switch (way_of(s->i)) {
    case SORT_INSERT: sort_keep_best(s); return;
    case SORT_NETWORK:
        store_keys(s);
        network(s);
        s->sorted = sort_array(s);
        return;
    case SORT_RADIX: radix(s); return;
    }
}

static void sort_row(Sort *s)
{
    Gen *g = s->g;
    int last = s->from->rank - 1;
    const Buf *values = plan_info(g->plan, ir_result(s->i))->buf;
    Eval e;
    Loop l;
    eval_init(&e, g, 1);
    order_keys(s);
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->count), 1);
    LLVMValueRef key = sort_load_key(s, sort_key_at(s, s->sorted, k));
    if (s->alone) {
        s->coord[last] = k;
        buf_store(&e, values, bits_of_key(s, key), s->coord, last);
        gen_loop_end(g, &l);
        return;
    }
    LLVMValueRef at = LLVMBuildZExt(g->b, LLVMBuildTrunc(g->b, key, g->i32, ""), g->i64, "");
    s->coord[last] = at;
    LLVMValueRef x = buf_load(&e, s->from, s->coord, last);
    s->coord[last] = k;
    buf_store(&e, values, x, s->coord, last);
    if (s->i->op == OP_TOPK)
        buf_store(&e, plan_info(g->plan, &s->i->results[1])->buf, LLVMBuildTrunc(g->b, at, g->i32, ""),
            s->coord, last);
    gen_loop_end(g, &l);
}

static void sort_axes(Sort *s, int axis)
{
    if (axis == s->from->rank - 1) {
        sort_row(s);
        return;
    }
    Loop l;
    s->coord[axis] = gen_loop(s->g, &l, gen_int(s->g, 0), gen_int(s->g, s->from->shape[axis]), 1);
    sort_axes(s, axis + 1);
    gen_loop_end(s->g, &l);
}

void sort_emit(Gen *g, Step *st)
{
    Instr *i = st->instr;
    Sort s = { .g = g, .i = i, .from = plan_info(g->plan, ir_operand(i, 0))->buf, .keys = st->aux };
    s.n = row_elements(ir_operand(i, 0));
    s.count = row_elements(&i->results[0]);
    s.descending = i->op == OP_TOPK || ir_attr_int(i, ATTR_REVERSE, 0);
    s.half = is_wide(i) ? g->i64 : g->i32;
    s.alone = is_alone(i);
    s.key = s.alone ? s.half : is_wide(i) ? LLVMIntTypeInContext(g->ctx, 128) : g->i64;
    sort_axes(&s, 0);
}
