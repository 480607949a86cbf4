/* sort.c: sort and topk of rows.
 *
 * A row becomes an array of keys: the value as an integer of the same order (NaN the largest) with its
 * position below, so that keys differ, equal values keep their order, and values are fetched by position
 * afterwards. Three ways lead to the least keys in order:
 *
 *   few of many    the best so far stand in order; a key that is less than the last of them is inserted
 *   short rows     Batcher's odd-even merge network
 *   long rows      a radix sort from the lowest byte of the value to the highest, between two arrays; a byte
 *                  that is the same in all keys takes no pass */
#include "backends/cpu/cpu.h"

enum {
    MOST_INSERTED = 32, /* results that are kept by insertion */
    LEAST_RADIX = 128,  /* elements of a row that is sorted by bytes */
    BYTE_VALUES = 256,
};

typedef enum SortWay { SORT_INSERT, SORT_NETWORK, SORT_RADIX } SortWay;

typedef struct Sort {
    Gen *g;
    Instr *i;
    const Buf *from, *keys;
    int64_t n, count; /* elements of a row; results */
    bool descending;
    LLVMTypeRef half, key; /* the types of the ordered value, and of the pair of value and position */
    LLVMValueRef coord[TILE_MAX_RANK];
    LLVMValueRef sorted; /* the address of the keys in order, when they are */
} Sort;

static bool is_wide(const Instr *i) { return dtype_bits(ir_operand(i, 0)->type->dtype) == 64; }
static int value_bytes(const Instr *i) { return is_wide(i) ? 8 : 4; }

static int64_t row_elements(const Value *v) { return v->type->shape[v->type->rank - 1]; }

static SortWay way_of(const Instr *i)
{
    int64_t n = row_elements(ir_operand(i, 0)), count = row_elements(&i->results[0]);
    if (count <= MOST_INSERTED && count * 4 <= n) return SORT_INSERT;
    return n < LEAST_RADIX ? SORT_NETWORK : SORT_RADIX;
}

int64_t sort_room(const Instr *i)
{
    int64_t n = row_elements(ir_operand(i, 0)), words = is_wide(i) ? 2 : 1;
    switch (way_of(i)) {
    case SORT_INSERT: return words * row_elements(&i->results[0]);
    case SORT_NETWORK: return words * n;
    case SORT_RADIX: return words * 2 * n + value_bytes(i) * BYTE_VALUES / 2;
    }
    return 0;
}

static LLVMValueRef iadd(Gen *g, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(g->b, a, b, ""); }

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

static LLVMValueRef key_at(Sort *s, LLVMValueRef array, LLVMValueRef k)
{ return LLVMBuildGEP2(s->g->b, s->key, array, &k, 1, ""); }

static LLVMValueRef first_array(Sort *s) { return gen_buf(s->g, s->keys, 0); }

static LLVMValueRef load_key(Sort *s, LLVMValueRef ptr) { return LLVMBuildLoad2(s->g->b, s->key, ptr, ""); }

/* The ordered value of element k of the row, and its key. */
static LLVMValueRef value_of(Sort *s, LLVMValueRef k)
{
    int last = s->from->rank - 1;
    Eval e;
    eval_init(&e, s->g, 1);
    s->coord[last] = k;
    return ordered(s, buf_load(&e, s->from, s->coord, last));
}

static LLVMValueRef key_of(Sort *s, LLVMValueRef value, LLVMValueRef k)
{
    Gen *g = s->g;
    LLVMValueRef bits = LLVMConstInt(s->key, LLVMGetIntTypeWidth(s->half), false);
    LLVMValueRef high = LLVMBuildShl(g->b, LLVMBuildZExt(g->b, value, s->key, ""), bits, "");
    return LLVMBuildOr(g->b, high, LLVMBuildIntCast2(g->b, k, s->key, false, ""), "");
}

/* --- few of many ------------------------------------------------------------------------------------- */

/* Puts a key to its place among those in order; the last of them goes. */
static void insert(Sort *s, LLVMValueRef best, LLVMValueRef key)
{
    Gen *g = s->g;
    LLVMBasicBlockRef before = gen_here(g), test = gen_block(g, "place"), look = gen_block(g, "look"),
                      move = gen_block(g, "move"), put = gen_block(g, "put");
    LLVMValueRef start = gen_int(g, s->count - 1);
    LLVMBuildBr(g->b, test);
    gen_at(g, test);
    LLVMValueRef at = LLVMBuildPhi(g->b, g->i64, "at");
    LLVMAddIncoming(at, &start, &before, 1);
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntEQ, at, gen_int(g, 0), ""), put, look);
    gen_at(g, look);
    LLVMValueRef left = iadd(g, at, gen_int(g, -1)), other = load_key(s, key_at(s, best, left));
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntULT, key, other, ""), move, put);
    gen_at(g, move);
    LLVMBuildStore(g->b, other, key_at(s, best, at));
    LLVMBuildBr(g->b, test);
    LLVMAddIncoming(at, &left, &move, 1);
    gen_at(g, put);
    LLVMBuildStore(g->b, key, key_at(s, best, at));
}

/* No key is all ones: its position is below 2^31. */
static void keep_best(Sort *s)
{
    Gen *g = s->g;
    LLVMValueRef best = first_array(s), ones = LLVMConstAllOnes(s->key),
                 worst = gen_alloca(g, s->key, "worst");
    Loop l;
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->count), 1);
    LLVMBuildStore(g->b, ones, key_at(s, best, k));
    gen_loop_end(g, &l);
    LLVMBuildStore(g->b, ones, worst);
    k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->n), 1);
    LLVMValueRef key = key_of(s, value_of(s, k), k);
    If better;
    gen_if(g, &better, LLVMBuildICmp(g->b, LLVMIntULT, key, load_key(s, worst), ""));
    insert(s, best, key);
    LLVMBuildStore(g->b, load_key(s, key_at(s, best, gen_int(g, s->count - 1))), worst);
    gen_endif(g, &better);
    gen_loop_end(g, &l);
    s->sorted = best;
}

/* --- short rows -------------------------------------------------------------------------------------- */

static void store_keys(Sort *s)
{
    Gen *g = s->g;
    Loop l;
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->n), 1);
    LLVMBuildStore(g->b, key_of(s, value_of(s, k), k), key_at(s, first_array(s), k));
    gen_loop_end(g, &l);
}

static void compare_exchange(Sort *s, LLVMValueRef x, LLVMValueRef y)
{
    Gen *g = s->g;
    LLVMValueRef px = key_at(s, first_array(s), x), py = key_at(s, first_array(s), y);
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
    LLVMValueRef q = gen_loop(g, &lk, gen_int(g, 0), iadd(g, p_log, one), 1);
    LLVMValueRef k = LLVMBuildLShr(g->b, p, q, ""), j0 = LLVMBuildURem(g->b, k, p, ""),
                 two_k = LLVMBuildShl(g->b, k, one, "");
    LLVMValueRef left = LLVMBuildSub(g->b, LLVMBuildSub(g->b, n, k, ""), j0, "");
    LLVMValueRef count = LLVMBuildSDiv(g->b, iadd(g, left, LLVMBuildSub(g->b, two_k, one, "")), two_k, "");
    LLVMValueRef t = gen_loop(g, &lj, gen_int(g, 0), count, 1);
    LLVMValueRef j = iadd(g, j0, LLVMBuildMul(g->b, t, two_k, ""));
    LLVMValueRef room = LLVMBuildSub(g->b, LLVMBuildSub(g->b, n, j, ""), k, "");
    LLVMValueRef m = LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, room, k, ""), room, k, "");
    LLVMValueRef i = gen_loop(g, &li, gen_int(g, 0), m, 1);
    LLVMValueRef x = iadd(g, i, j), y = iadd(g, x, k), by = iadd(g, p_log, one);
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
    LLVMValueRef at = iadd(g, LLVMBuildMul(g->b, byte, gen_int(g, BYTE_VALUES), ""), value),
                 counts = gen_buf(g, s->keys, (is_wide(s->i) ? 16 : 8) * 2 * s->n);
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
    LLVMValueRef bits = LLVMConstInt(s->key, LLVMGetIntTypeWidth(s->half), false);
    return byte_of(s, LLVMBuildTrunc(s->g->b, LLVMBuildLShr(s->g->b, key, bits, ""), s->half, ""), byte);
}

static LLVMValueRef add_to(Sort *s, LLVMValueRef ptr, LLVMValueRef by)
{
    LLVMValueRef old = LLVMBuildLoad2(s->g->b, s->g->i32, ptr, "");
    LLVMBuildStore(s->g->b, iadd(s->g, old, by), ptr);
    return old;
}

/* Stores the keys and counts their bytes in one walk over the row. */
static void count_bytes(Sort *s)
{
    Gen *g = s->g;
    LLVMValueRef one = LLVMConstInt(g->i32, 1, false), zero = LLVMConstNull(g->i32);
    Loop l;
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, value_bytes(s->i) * BYTE_VALUES), 1);
    LLVMBuildStore(g->b, zero, count_ptr(s, gen_int(g, 0), k));
    gen_loop_end(g, &l);
    k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->n), 1);
    LLVMValueRef value = value_of(s, k);
    LLVMBuildStore(g->b, key_of(s, value, k), key_at(s, first_array(s), k));
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

static void radix(Sort *s)
{
    Gen *g = s->g;
    LLVMValueRef n = gen_int(g, s->n), which = gen_alloca(g, g->i64, "which"),
                 sum = gen_alloca(g, g->i32, "sum");
    Loop bytes, l;
    If differs;
    count_bytes(s);
    LLVMBuildStore(g->b, gen_int(g, 0), which); /* the array that holds the keys now */
    LLVMValueRef byte = gen_loop(g, &bytes, gen_int(g, 0), gen_int(g, value_bytes(s->i)), 1);
    LLVMValueRef now = LLVMBuildLoad2(g->b, g->i64, which, ""),
                 then = LLVMBuildSub(g->b, gen_int(g, 1), now, "");
    LLVMValueRef from = key_at(s, first_array(s), LLVMBuildMul(g->b, now, n, "")),
                 to = key_at(s, first_array(s), LLVMBuildMul(g->b, then, n, ""));
    LLVMValueRef some =
        LLVMBuildLoad2(g->b, g->i32, count_ptr(s, byte, digit(s, load_key(s, from), byte)), "");
    gen_if(
        g, &differs, LLVMBuildICmp(g->b, LLVMIntNE, some, LLVMConstInt(g->i32, (uint64_t)s->n, false), ""));
    count_places(s, byte, sum);
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), n, 1), key = load_key(s, key_at(s, from, k));
    LLVMValueRef place = add_to(s, count_ptr(s, byte, digit(s, key, byte)), LLVMConstInt(g->i32, 1, false));
    LLVMBuildStore(g->b, key, key_at(s, to, LLVMBuildZExt(g->b, place, g->i64, "")));
    gen_loop_end(g, &l);
    LLVMBuildStore(g->b, then, which);
    gen_endif(g, &differs);
    gen_loop_end(g, &bytes);
    now = LLVMBuildLoad2(g->b, g->i64, which, "");
    s->sorted = key_at(s, first_array(s), LLVMBuildMul(g->b, now, n, ""));
}

/* --- rows -------------------------------------------------------------------------------------------- */

static void sort_keys(Sort *s)
{
    switch (way_of(s->i)) {
    case SORT_INSERT: keep_best(s); return;
    case SORT_NETWORK:
        store_keys(s);
        network(s);
        s->sorted = first_array(s);
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
    sort_keys(s);
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->count), 1);
    LLVMValueRef key = load_key(s, key_at(s, s->sorted, k));
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
    s.key = is_wide(i) ? LLVMIntTypeInContext(g->ctx, 128) : g->i64;
    sort_axes(&s, 0);
}
