/* sort_few.c: the few largest elements of a long row. The best so far stand in order as keys (sort.h). A key
 * that is less than the last of them is inserted. Vectors in which no element is larger than that of the last
 * are passed by. */
#include "backends/cpu/axis/sort.h"
#include <math.h>

enum { VECTORS_COMPARED = 4 }; /* with the least of the results so far */

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
    LLVMValueRef left = sort_add(g, at, gen_int(g, -1)), other = sort_load_key(s, sort_key_at(s, best, left));
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntULT, key, other, ""), move, put);
    gen_at(g, move);
    LLVMBuildStore(g->b, other, sort_key_at(s, best, at));
    LLVMBuildBr(g->b, test);
    LLVMAddIncoming(at, &left, &move, 1);
    gen_at(g, put);
    LLVMBuildStore(g->b, key, sort_key_at(s, best, at));
}

/* Elements of the row from k on, as they are compared. */
static LLVMValueRef elements_at(Sort *s, LLVMValueRef k, int lanes)
{
    int last = s->from->rank - 1;
    DType d = s->from->dtype;
    Eval e;
    eval_init(&e, s->g, lanes);
    s->coord[last] = k;
    LLVMValueRef v = buf_load(&e, s->from, s->coord, last);
    return dtype_is_float(d) && d != DT_F64 ? to_f32(s->g, d, v) : v;
}

/* The least of the results so far, of keys and of elements. */
typedef struct Least {
    LLVMValueRef best, key, element;
    LLVMTypeRef type; /* of the element */
} Least;

/* No key is all ones: its position is below 2^31. Until there are enough results, every element is one. */
static Least least_at_first(Sort *s)
{
    Gen *g = s->g;
    DType d = s->from->dtype;
    LLVMValueRef ones = LLVMConstAllOnes(s->key);
    Least x = { .best = sort_array(s), .key = gen_alloca(g, s->key, "worst") };
    x.type = d == DT_F64 ? g->f64 : dtype_is_float(d) ? g->f32 : gen_type(g, d, 1);
    x.element = gen_alloca(g, x.type, "least");
    Loop l;
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->count), 1);
    LLVMBuildStore(g->b, ones, sort_key_at(s, x.best, k));
    gen_loop_end(g, &l);
    LLVMBuildStore(g->b, ones, x.key);
    LLVMValueRef first = dtype_is_float(d)    ? LLVMConstReal(x.type, NAN)
                         : dtype_is_signed(d) ? LLVMConstInt(x.type, 1ull << (dtype_bits(d) - 1), false)
                                              : LLVMConstNull(x.type);
    LLVMBuildStore(g->b, first, x.element);
    return x;
}

/* Whether one of the elements [k, k + vectors * lanes) may be a result: false only if none is. */
static LLVMValueRef may_be_best(Sort *s, const Least *x, LLVMValueRef k, int lanes, int vectors)
{
    Gen *g = s->g;
    DType d = s->from->dtype;
    LLVMValueRef least = gen_splat(g, LLVMBuildLoad2(g->b, x->type, x->element, ""), lanes), any = NULL;
    for (int j = 0; j < vectors; j++) {
        LLVMValueRef v = elements_at(s, sort_add(g, k, gen_int(g, j * lanes)), lanes);
        LLVMValueRef larger =
            dtype_is_float(d)
                ? LLVMBuildFCmp(g->b, LLVMRealUGT, v, least, "")
                : LLVMBuildICmp(g->b, dtype_is_signed(d) ? LLVMIntSGE : LLVMIntUGE, v, least, "");
        larger = LLVMBuildSExt(g->b, larger, gen_vec(g->i32, lanes), "");
        any = any ? LLVMBuildOr(g->b, any, larger, "") : larger;
    }
    any = LLVMBuildICmp(g->b, LLVMIntSLT, any, LLVMConstNull(LLVMTypeOf(any)), "");
    LLVMTypeRef bits = LLVMIntTypeInContext(g->ctx, (unsigned)lanes);
    return LLVMBuildICmp(g->b, LLVMIntNE, LLVMBuildBitCast(g->b, any, bits, ""), LLVMConstNull(bits), "");
}

/* Element k of the row, if it is one of the best so far. */
static void consider(Sort *s, const Least *x, LLVMValueRef k)
{
    Gen *g = s->g;
    LLVMValueRef key = sort_key(s, sort_value(s, k), k);
    If better, enough;
    gen_if(g, &better, LLVMBuildICmp(g->b, LLVMIntULT, key, sort_load_key(s, x->key), ""));
    insert(s, x->best, key);
    LLVMValueRef last = sort_load_key(s, sort_key_at(s, x->best, gen_int(g, s->count - 1)));
    LLVMBuildStore(g->b, last, x->key);
    gen_if(g, &enough, LLVMBuildICmp(g->b, LLVMIntNE, last, LLVMConstAllOnes(s->key), ""));
    LLVMValueRef at = LLVMBuildZExt(g->b, LLVMBuildTrunc(g->b, last, g->i32, ""), g->i64, "");
    LLVMBuildStore(g->b, elements_at(s, at, 1), x->element);
    gen_endif(g, &enough);
    gen_endif(g, &better);
}

void sort_keep_best(Sort *s)
{
    Gen *g = s->g;
    int lanes = plan_lanes(g->target), together = VECTORS_COMPARED * lanes;
    int64_t whole = s->n / together * together;
    Least x = least_at_first(s);
    Loop l, each;
    If some;
    if (whole) {
        LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, whole), together);
        gen_if(g, &some, may_be_best(s, &x, k, lanes, VECTORS_COMPARED));
        LLVMValueRef j = gen_loop(g, &each, gen_int(g, 0), gen_int(g, together), 1);
        consider(s, &x, sort_add(g, k, j));
        gen_loop_end(g, &each);
        gen_endif(g, &some);
        gen_loop_end(g, &l);
    }
    if (whole < s->n) {
        consider(s, &x, gen_loop(g, &l, gen_int(g, whole), gen_int(g, s->n), 1));
        gen_loop_end(g, &l);
    }
    s->sorted = x.best;
}
