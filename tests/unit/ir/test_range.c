/* Ranges and divisors: by hand, and against every value that random programs compute. */
#include "ir/analysis/range.h"
#include "ir_test.h"
#include "tests/fuzz/gen_ir.h"

static const char text[] =
    "kernel @k {\n  fits32\n  dim M div 16\n  dim N = 96\n  dim K\n"
    "  in %X.0: tensor<f32, 2>[M, N] stride [?, 1] stride_div [8, 1]\n  in %Z.1: tensor<f32, 1>[K]\n  scalar "
    "%s.2: i32 range [3.0, 9.5]\n"
    "  grid (%900: tensor<f32, 2>, %901: tensor<f32, 1>, %902: i32) { %903 = dim {dim = M} : index %904 = "
    "const 128 : index %905 = cdiv %903, %904 : index yield %905 }\n"
    "  body {\n"
    "    %m.10 = dim {dim = M} : index\n    %n.11 = dim {dim = N} : index\n    %k.12 = dim {dim = K} : "
    "index\n"
    "    %pid.13 = program_id {axis = 0} : index\n    %14 = const 128 : index\n    %row.15 = mul %pid.13, "
    "%14 : index\n"
    "    %16 = arange {start = 0} : index[128]\n    %17 = splat %row.15 : index[128]\n    %rows.18 = add "
    "%17, %16 : index[128]\n"
    "    %st.19 = stride {param = 0, axis = 0} : index\n    %off.20 = mul %row.15, %st.19 : index\n"
    "    %21 = const 0 : index\n    %22 = const 8 : index\n"
    "    %sum.23, %ptr.24 = for %i.25 = %21 to %m.10 step %22 with (%a.26 = %21, %p.27 = %21) {\n"
    "      %28 = add %i.25, %22 : index\n      %29 = add %p.27, %22 : index\n      %30 = mul %a.26, %i.25 : "
    "index\n      yield %30, %29\n    }\n"
    "    %31 = cast %s.2 : index\n    %32 = rem %k.12, %31 : index\n    %33 = min %m.10, %14 : index\n    "
    "%34 = cdiv %n.11, %31 : index\n"
    "    %35 = const -3 : i8\n    %36 = const 100 : i8\n    %37 = add %36, %36 : i8\n    %38 = const 4 : "
    "index\n    %39 = div %m.10, %38 : index\n"
    "    %40 = const 7 : index\n    %41 = and %k.12, %40 : index\n    %42 = sub %m.10, %row.15 : index\n    "
    "%43 = rem %m.10, %22 : index\n"
    "    %44 = shl %m.10, %38 : index\n    %45 = add %k.12, %k.12 {range = [0, 50]} : index\n"
    /* floats that become integers: a NaN becomes 0 */
    "    %61 = cast %k.12 : f32\n    %62 = const 0.0 : f32\n    %63 = const 9.5 : f32\n    %64 = const -4.25 "
    ": "
    "f32\n    %65 = log %61 : f32\n    %66 = max %65, %62 : f32\n    %67 = cast %66 : i32\n    %68 = clamp "
    "%65, "
    "%64, %63 : f32\n    %69 = cast %68 : i32\n    %70 = maxnum %65, %63 : f32\n    %71 = cast %70 : u8\n    "
    "%72 = "
    "mul %68, %68 : f32\n    %73 = round %72 : f32\n    %74 = cast %73 : i32\n    %75 = cast %65 : i32\n"
    /* a `for` that a return may leave: counted, and tested first */
    "    %49 = const false : bool\n"
    "    %50, %51 = while (%i.52 = %21, %d.53 = %49) {\n"
    "      %54 = lt %i.52, %m.10 : bool\n      %55 = not %d.53 : bool\n      %56 = and %54, %55 : bool\n     "
    " condition %56, %i.52, %d.53\n"
    "    } do (%j.57, %e.58) {\n      %59 = add %j.57, %22 : index\n      %60 = eq %j.57, %38 : bool\n      "
    "yield %59, %60\n    }\n"
    "    return\n  }\n}\n";

static Value *find(Block *b, uint32_t id)
{
    for (int k = 0; k < b->n_args; k++)
        if (b->args[k]->id == id) return b->args[k];
    for (Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_results; k++)
            if (i->results[k].id == id) return &i->results[k];
        for (int k = 0; k < i->n_blocks; k++) {
            Value *v = find(i->blocks[k], id);
            if (v) return v;
        }
    }
    return NULL;
}

static void expect(Ranges *r, Func *f, uint32_t id, int64_t lo, int64_t hi, int64_t div)
{
    RangeInfo x = range_of(r, find(f->body, id));
    if (x.lo != lo || x.hi != hi || x.div != div)
        fprintf(stderr, "%%%u is [%lld, %lld] of %lld, not [%lld, %lld] of %lld\n", id, (long long)x.lo,
            (long long)x.hi, (long long)x.div, (long long)lo, (long long)hi, (long long)div);
    CU_ASSERT_TRUE(x.lo == lo && x.hi == hi && x.div == div);
}

static void test_by_hand(void)
{
    Session s;
    Module *m = ir_test_module(&s, text);
    Func *f = m->funcs;
    Ranges *r = ranges_new(f);
    const int64_t M = (FITS32_EXTENT - 1) / 16 * 16,
                  programs = (M + 127) / 128; /* the largest extent of 16 k; its programs */
    expect(r, f, 10, 16, M, 16);
    expect(r, f, 11, 96, 96, 96);
    expect(r, f, 12, 1, FITS32_EXTENT - 1, 1);
    expect(r, f, 13, 0, programs - 1, 1);
    expect(r, f, 15, 0, (programs - 1) * 128, 128);
    expect(r, f, 18, 0, (programs - 1) * 128 + 127, 1);
    CU_ASSERT_TRUE(range_fits(range_of(r, find(f->body, 18)), DT_I32));
    expect(r, f, 19, -INT32_MAX, INT32_MAX, 8);
    CU_ASSERT_TRUE(
        range_of(r, find(f->body, 20)).div == 1024 && !range_fits(range_of(r, find(f->body, 20)), DT_I32));
    expect(r, f, 25, 0, (M - 1) / 8 * 8, 8);
    expect(r, f, 28, 8, (M - 1) / 8 * 8 + 8, 8);
    expect(r, f, 24, 0, M, 8);
    expect(r, f, 52, 0, M - 1 + 8, 8);
    expect(r, f, 57, 0, M - 1, 8);
    expect(r, f, 26, INT64_MIN, INT64_MAX, 1);
    expect(r, f, 31, 3, 9, 1);
    expect(r, f, 32, 0, 8, 1);
    expect(r, f, 33, 16, 128, 16);
    expect(r, f, 34, 11, 32, 1);
    expect(r, f, 37, -128, 127, 4);
    expect(r, f, 39, 4, M / 4, 4);
    expect(r, f, 41, 0, 7, 1);
    expect(r, f, 42, 16 - (programs - 1) * 128, M, 16);
    expect(r, f, 43, 0, 0, 0);
    expect(r, f, 44, 256, M * 16, 256);
    expect(r, f, 45, 2, 50, 1);
    expect(r, f, 67, 0, INT32_MAX, 1);
    expect(r, f, 69, -5, 10, 1);
    expect(r, f, 71, 0, 255, 1);
    expect(r, f, 74, -50, 100, 1);
    expect(r, f, 75, INT32_MIN, INT32_MAX, 1);
    session_free(&s);
}

typedef struct Watch {
    Ranges *ranges;
    int64_t values, bad;
} Watch;

static void watch(void *user, const Value *v, const Scalar *x)
{
    Watch *w = user;
    if (!dtype_is_int(v->type->dtype) && v->type->dtype != DT_BOOL) return;
    RangeInfo r = range_of(w->ranges, v);
    for (int64_t k = 0; k < type_elements(v->type); k++) {
        w->values++;
        bool multiple = r.div ? x[k].i % r.div == 0 : x[k].i == 0;
        if (x[k].i >= r.lo && x[k].i <= r.hi && multiple) continue;
        if (w->bad++ < 3)
            fprintf(stderr, "%%%u is %lld, outside [%lld, %lld] of %lld\n", v->id, (long long)x[k].i,
                (long long)r.lo, (long long)r.hi, (long long)r.div);
    }
}

/* Values checked; 0 when the program could not be made. */
static int64_t one_random(uint64_t seed)
{
    Session s;
    GenKernel k = { 0 };
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) {
        fprintf(stderr, "%s", ir_test_diags(&s));
        session_free(&s);
        return 0;
    }
    gen_kernel(&s, seed, 0, &k);
    Watch w = { .ranges = ranges_new(k.func) };
    InterpOptions opt = { .on_value = watch, .on_value_user = &w };
    CU_ASSERT_TRUE(interp_run_with(&s, k.func, k.args, k.n, &opt));
    if (w.bad)
        fprintf(stderr, "seed %llu: %lld values out of their range\n", (unsigned long long)seed,
            (long long)w.bad);
    CU_ASSERT_EQUAL(w.bad, 0);
    session_free(&s);
    return w.values;
}

static void test_random(void)
{
    int64_t values = 0;
    for (uint64_t seed = 1000; seed < 1400; seed++) {
        int64_t n = one_random(seed);
        CU_ASSERT_TRUE(n > 0);
        values += n;
    }
    CU_ASSERT_TRUE(values > 100000);
}

/* range_op against every pair of small operands: all intervals of a small dtype by samples. */
static void test_pairs(void)
{
    static const Op ops[] = { OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_REM, OP_MIN, OP_MAX, OP_AND, OP_OR, OP_XOR,
        OP_SHL, OP_SHR, OP_NEG, OP_ABS, OP_NOT, OP_CDIV };
    static const DType types[] = { DT_I8, DT_U8 };
    static const int64_t at[] = { -128, -127, -9, -8, -1, 0, 1, 2, 3, 7, 8, 12, 64, 127, 128, 200, 255 };
    enum { N = sizeof at / sizeof *at };
    int bad = 0;
    for (int t = 0; t < 2; t++)
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
            for (int c = 0; c < N * N * N * N; c++) {
                RangeInfo v[2] = { { at[c % N], at[c / N % N], 1 },
                    { at[c / N / N % N], at[c / N / N / N], 1 } };
                bool fits = true;
                for (int k = 0; k < 2; k++) fits &= v[k].lo <= v[k].hi && range_fits(v[k], types[t]);
                if (!fits || (c * 7919u) % 11) continue;
                RangeInfo r = range_op(ops[o], types[t], v);
                for (int e = 0; e < N * N; e++) {
                    Scalar x[2] = { { at[e % N] }, { at[e / N] } }, y;
                    if (x[0].i < v[0].lo || x[0].i > v[0].hi || x[1].i < v[1].lo || x[1].i > v[1].hi)
                        continue;
                    if (!scalar_op(ops[o], types[t], x, &y) || y.i < r.lo || y.i > r.hi) bad++;
                }
            }
    CU_ASSERT_EQUAL(bad, 0);
}

UNIT_MAIN("ir_range", { "by_hand", test_by_hand }, { "random", test_random }, { "pairs", test_pairs })
