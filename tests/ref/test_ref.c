/* test_ref.c: the references against numbers known from elsewhere: by hand, by definition, or from the
 * published vectors. */
#include "ref_compare.h"
#include "ref_kernels.h"
#include "ref_random.h"
#include "tests/unit/unit.h"
#include <math.h>
#include <stdlib.h>

static uint64_t bits_of(RefType t, double v)
{
    uint64_t b = 0;
    ref_put(t, &b, 0, v);
    return b;
}

static void test_formats(void)
{
    CU_ASSERT_EQUAL(bits_of(REF_F16, 1), 0x3c00);
    CU_ASSERT_EQUAL(bits_of(REF_F16, -2), 0xc000);
    CU_ASSERT_EQUAL(bits_of(REF_F16, 65504), 0x7bff);
    CU_ASSERT_EQUAL(bits_of(REF_F16, 65519.999), 0x7bff);
    CU_ASSERT_EQUAL(bits_of(REF_F16, 65520), 0x7c00); /* half way to 2^16: to even, which is infinity */
    CU_ASSERT_EQUAL(bits_of(REF_F16, 0x1p-24), 0x0001);
    CU_ASSERT_EQUAL(bits_of(REF_F16, 0x1p-25), 0x0000); /* half way to the smallest: to even */
    CU_ASSERT_EQUAL(bits_of(REF_F16, 0x1.8p-25), 0x0001);
    CU_ASSERT_EQUAL(bits_of(REF_F16, 1 + 0x1p-11), 0x3c00); /* tie */
    CU_ASSERT_EQUAL(bits_of(REF_F16, 1 + 0x3p-11), 0x3c02); /* tie */
    CU_ASSERT_EQUAL(bits_of(REF_BF16, 1), 0x3f80);
    CU_ASSERT_EQUAL(bits_of(REF_BF16, 3.140625), 0x4049);
    CU_ASSERT_EQUAL(bits_of(REF_BF16, INFINITY), 0x7f80);
    CU_ASSERT_EQUAL(bits_of(REF_F8E4M3, 448), 0x7e);
    CU_ASSERT_EQUAL(bits_of(REF_F8E4M3, 1e9), 0x7e);
    CU_ASSERT_EQUAL(bits_of(REF_F8E4M3, -INFINITY), 0xfe);
    CU_ASSERT_EQUAL(bits_of(REF_F8E4M3, NAN), 0x7f);
    CU_ASSERT_EQUAL(bits_of(REF_F8E4M3, 0x1p-9), 0x01);
    CU_ASSERT_EQUAL(bits_of(REF_F8E5M2, 57344), 0x7b);
    CU_ASSERT_EQUAL(bits_of(REF_F8E5M2, 1), 0x3c);
    CU_ASSERT_EQUAL(bits_of(REF_F32, 0.1), 0x3dcccccd);
    CU_ASSERT_EQUAL(bits_of(REF_F64, 0.1), 0x3fb999999999999a);
    CU_ASSERT_EQUAL(bits_of(REF_I8, -129), 0x80);
    CU_ASSERT_EQUAL(bits_of(REF_I8, 3.99), 3);
    CU_ASSERT_EQUAL(bits_of(REF_U8, -1), 0);
    CU_ASSERT_EQUAL(bits_of(REF_I32, NAN), 0);
    CU_ASSERT_EQUAL(bits_of(REF_I64, 1e30), (uint64_t)INT64_MAX);
    CU_ASSERT_EQUAL(bits_of(REF_U64, 1e30), UINT64_MAX);
}

/* Every bit pattern of the small formats decodes to a value that encodes to itself; rounding leaves it alone.
 */
static void test_round_trip(void)
{
    static const RefType types[] = { REF_F8E4M3, REF_F8E5M2, REF_F16, REF_BF16 };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        uint32_t n = (uint32_t)1 << (8 * ref_type_size(types[t])), wrong = 0;
        double before = 0;
        for (uint32_t b = 0; b < n; b++) {
            uint64_t bits = b;
            double v = ref_get(types[t], &bits, 0);
            if (isnan(v)) continue;
            if (isfinite(v) && b < n / 2) { /* positive patterns ascend */
                wrong += b > 0 && !(v > before);
                before = v;
            }
            if (types[t] == REF_F8E5M2 && isinf(v)) continue; /* casts saturate, so no value encodes to it */
            wrong += bits_of(types[t], v) != b || ref_round(types[t], v) != v;
        }
        CU_ASSERT_EQUAL(wrong, 0);
    }
}

/* f32 rounding against the host's own */
static void test_round_f32(void)
{
    RefRandom r = { 1 };
    int wrong = 0;
    for (int i = 0; i < 20000; i++) {
        double v = ldexp(ref_random_normal(&r), (int)ref_random_below(&r, 300) - 160);
        float f = (float)v;
        wrong += ref_round(REF_F32, v) != (double)f;
        uint32_t b;
        memcpy(&b, &f, 4);
        wrong += bits_of(REF_F32, v) != b;
        double back = ref_get(REF_F32, &f, 0);
        wrong += back != (double)f;
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

static void test_ulp(void)
{
    CU_ASSERT_EQUAL(ref_ulp(REF_F32, 1), 0x1p-23);
    CU_ASSERT_EQUAL(ref_ulp(REF_F32, 1.99), 0x1p-23);
    CU_ASSERT_EQUAL(ref_ulp(REF_F32, 2), 0x1p-22);
    CU_ASSERT_EQUAL(ref_ulp(REF_F16, 0), 0x1p-24);
    CU_ASSERT_EQUAL(ref_ulp(REF_F16, 1e9), 0x1p5);
    CU_ASSERT_EQUAL(ref_ulp(REF_I32, 77), 1);
}

static void test_compare(void)
{
    double want[4] = { 1, 2, NAN, INFINITY }, got[4] = { 1, 2 + 0x1p-22, NAN, INFINITY };
    RefError e = ref_compare(REF_F32, got, want, 4, 0);
    CU_ASSERT_EQUAL(e.misfits, 0);
    CU_ASSERT_EQUAL(e.worst, 1);
    CU_ASSERT_DOUBLE_EQUAL(e.ulp, 1, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(e.norm, 0x1p-22 / sqrt(5), 1e-12);
    got[2] = 0;
    got[3] = -INFINITY;
    e = ref_compare(REF_F32, got, want, 4, 0);
    CU_ASSERT_EQUAL(e.misfits, 2);
    CU_ASSERT_EQUAL(e.first_misfit, 2);
    double big = 65519, inf = INFINITY, far = 60000;
    CU_ASSERT_EQUAL(ref_compare(REF_F16, &inf, &big, 1, 0).misfits, 0); /* within an ulp of overflow */
    CU_ASSERT_EQUAL(ref_compare(REF_F16, &inf, &far, 1, 0).misfits, 1);
    double most = 57344; /* an infinity that is kept, though conversions saturate */
    CU_ASSERT_EQUAL(ref_compare(REF_F8E5M2, &inf, &inf, 1, 0).misfits, 0);
    CU_ASSERT_EQUAL(ref_compare(REF_F8E5M2, &most, &inf, 1, 0).misfits, 1);
    CU_ASSERT_EQUAL(ref_compare(REF_F8E5M2, &inf, &most, 1, 0).misfits, 1);
}

/* Known answers distributed with Random123. */
static void test_philox(void)
{
    uint32_t out[4];
    ref_philox_raw((uint32_t[]){ 0, 0 }, (uint32_t[]){ 0, 0, 0, 0 }, out);
    CU_ASSERT(out[0] == 0x6627e8d5 && out[1] == 0xe169c58d && out[2] == 0xbc57ac4c && out[3] == 0x9b00dbd8);
    uint32_t f = 0xffffffffu;
    ref_philox_raw((uint32_t[]){ f, f }, (uint32_t[]){ f, f, f, f }, out);
    CU_ASSERT(out[0] == 0x408f276d && out[1] == 0x41c83b0e && out[2] == 0xa20bc7c6 && out[3] == 0x6d5451fd);
    ref_philox_raw((uint32_t[]){ 0xa4093822, 0x299f31d0 },
        (uint32_t[]){ 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, out);
    CU_ASSERT(out[0] == 0xd16cfe09 && out[1] == 0x94fdcceb && out[2] == 0x5001e420 && out[3] == 0x24126ea1);
}

static void test_rows(void)
{
    double x[6] = { 0, log(2), log(5), 3, 3, 3 }, y[6];
    ref_softmax(x, y, 2, 3);
    CU_ASSERT_DOUBLE_EQUAL(y[0], 1.0 / 8, 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(y[2], 5.0 / 8, 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(y[4], 1.0 / 3, 1e-15);
    double a[2] = { 3, 4 }, w[2] = { 1, 2 }, b[2] = { 0, 10 };
    ref_rms_norm(a, w, y, 1, 2, 0);
    CU_ASSERT_DOUBLE_EQUAL(y[0], 3 / sqrt(12.5), 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(y[1], 8 / sqrt(12.5), 1e-15);
    ref_layer_norm(a, w, b, y, 1, 2, 0);
    CU_ASSERT_DOUBLE_EQUAL(y[0], -1, 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(y[1], 12, 1e-15);
    ref_cumsum((double[]){ 1, 2, 3, 4 }, y, 2, 2);
    CU_ASSERT(y[0] == 1 && y[1] == 3 && y[2] == 3 && y[3] == 7);
    double v[3], i[3];
    ref_topk((double[]){ 2, 5, NAN, 5 }, v, i, 1, 4, 3);
    CU_ASSERT(isnan(v[0]) && i[0] == 2 && v[1] == 5 && i[1] == 1 && v[2] == 5 && i[2] == 3);
    CU_ASSERT_DOUBLE_EQUAL(ref_silu(1), 0.731058578630005, 1e-14);
    CU_ASSERT_DOUBLE_EQUAL(ref_gelu(1), 0.841344746068543, 1e-14);
}

static void test_images(void)
{
    double x[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, y[9];
    ref_max_pool(x, y, 1, 3, 3);
    CU_ASSERT(y[0] == 5 && y[1] == 6 && y[2] == 8 && y[3] == 9);
    ref_blur(x, y, 3, 3, 1);
    CU_ASSERT(y[0] == 3 && y[1] == 3.5 && y[4] == 5 && y[8] == 7);
    /* A 3x3 filter that picks the right neighbour; both layouts must agree. */
    double w[9] = { 0, 0, 0, 0, 0, 1, 0, 0, 0 };
    RefConv v = { 1, 1, 3, 3, 1, 3, 3, 3, 3, 1, 1, false };
    ref_conv2d(x, w, y, &v);
    CU_ASSERT(y[0] == 2 && y[1] == 3 && y[2] == 0 && y[3] == 5 && y[8] == 0);
    v.channels_last = true;
    ref_conv2d(x, w, y, &v);
    CU_ASSERT(y[0] == 2 && y[8] == 0);
    v = (RefConv){ 1, 1, 3, 3, 1, 3, 3, 2, 2, 2, 1,
        false }; /* stride 2: outputs at (0,0) (0,2) (2,0) (2,2) */
    ref_conv2d(x, w, y, &v);
    CU_ASSERT(y[0] == 2 && y[1] == 0 && y[2] == 8 && y[3] == 0);
}

/* A convolution of one tap over the whole image is a matrix product: two references against each other, both
 * layouts. */
static void test_conv_is_gemm(void)
{
    enum { C = 5, F = 4, PIXELS = 6 };
    RefRandom r = { 2 };
    double x[C * PIXELS], w[F * C], y[F * PIXELS], z[F * PIXELS], apart = 0;
    for (int i = 0; i < C * PIXELS; i++) x[i] = ref_random_normal(&r);
    for (int i = 0; i < F * C; i++) w[i] = ref_random_normal(&r);
    RefConv v = { 1, C, 2, 3, F, 1, 1, 2, 3, 1, 0, false };
    ref_conv2d(x, w, y, &v);
    ref_gemm(w, x, z, F, PIXELS, C);
    for (int i = 0; i < F * PIXELS; i++) apart += fabs(y[i] - z[i]);
    CU_ASSERT(apart < 1e-12);
    double xt[C * PIXELS];
    for (int c = 0; c < C; c++)
        for (int p = 0; p < PIXELS; p++) xt[p * C + c] = x[c * PIXELS + p];
    v.channels_last = true;
    ref_conv2d(xt, w, y, &v);
    apart = 0;
    for (int f = 0; f < F; f++)
        for (int p = 0; p < PIXELS; p++) apart += fabs(y[p * F + f] - z[f * PIXELS + p]);
    CU_ASSERT(apart < 1e-12);
}

static void test_attention(void)
{
    /* One key: the output is its value, whatever the score. */
    double q[2] = { 3, -1 }, k[4] = { 5, 7, 0, 0 }, v[4] = { 2, 4, 6, 8 }, o[4];
    RefAttention a = { .b = 1, .h = 1, .hk = 1, .m = 1, .n = 1, .d = 2, .scale = 1 };
    ref_attention(q, k, v, o, &a);
    CU_ASSERT(o[0] == 2 && o[1] == 4);
    /* Two keys with equal scores: the mean. Causal, the first query sees one key only. */
    double zero[4] = { 0 };
    a.n = a.m = 2;
    a.causal = true;
    ref_attention(zero, k, v, o, &a);
    CU_ASSERT(o[0] == 2 && o[1] == 4 && o[2] == 4 && o[3] == 6);
    a.window = 1; /* each query sees itself only */
    ref_attention(zero, k, v, o, &a);
    CU_ASSERT(o[0] == 2 && o[2] == 6);
    a.window = 0;
    a.m = 1;
    a.shift = 1; /* the one query stands at the end: sees both */
    ref_attention(zero, k, v, o, &a);
    CU_ASSERT(o[0] == 4 && o[1] == 6);
    double sink = 0; /* three equal logits, one without value */
    a.sink = &sink;
    ref_attention(zero, k, v, o, &a);
    CU_ASSERT_DOUBLE_EQUAL(o[0], 8.0 / 3, 1e-15);
    a.sink = NULL;
    double slope = log(3); /* weights 1/3 : 1 */
    a.slope = &slope;
    ref_attention(zero, k, v, o, &a);
    CU_ASSERT_DOUBLE_EQUAL(o[0], 2 * 0.25 + 6 * 0.75, 1e-14);
    a.slope = NULL;
    a.shift = -5; /* before all keys: sees none */
    ref_attention(zero, k, v, o, &a);
    CU_ASSERT(o[0] == 0 && o[1] == 0);
}

static void test_attention_is_softmax_gemm(void)
{
    enum { M = 7, N = 9, D = 4 };
    RefRandom r = { 3 };
    double q[M * D], k[N * D], kt[D * N], v[N * D], s[M * N], p[M * N], o[M * D], want[M * D], apart = 0;
    for (int i = 0; i < M * D; i++) q[i] = ref_random_normal(&r);
    for (int i = 0; i < N * D; i++) k[i] = ref_random_normal(&r), v[i] = ref_random_normal(&r);
    for (int i = 0; i < N; i++)
        for (int d = 0; d < D; d++) kt[d * N + i] = k[i * D + d];
    ref_gemm(q, kt, s, M, N, D);
    for (int i = 0; i < M * N; i++) s[i] *= 0.5;
    ref_softmax(s, p, M, N);
    ref_gemm(p, v, want, M, D, N);
    RefAttention a = { .b = 1, .h = 1, .hk = 1, .m = M, .n = N, .d = D, .scale = 0.5 };
    ref_attention(q, k, v, o, &a);
    for (int i = 0; i < M * D; i++) apart += fabs(o[i] - want[i]);
    CU_ASSERT(apart < 1e-12);
}

/* --- attention's gradients against differences ------------------------------------------------------- */

enum { GB = 2, GH = 4, GHK = 2, GM = 6, GN = 7, GD = 3 };
enum { GQ = GB * GH * GM * GD, GK = GB * GHK * GN * GD, GS = GB * GH * GM * GN, GROWS = GB * GH * GM };
typedef struct Gradients {
    double q[GQ], k[GK], v[GK], bias[GS], sink[GH], g[GQ], o[GQ], l[GROWS];
    RefAttention a;
} Gradients;

/* The sum of g o, of which the gradients are derivatives. */
static double loss(Gradients *x)
{
    double sum = 0;
    ref_attention(x->q, x->k, x->v, x->o, &x->a);
    for (int i = 0; i < GQ; i++) sum += x->g[i] * x->o[i];
    return sum;
}

/* The largest difference between the gradient and (loss(v + h) - loss(v - h)) / 2h, over the elements. */
static double apart_from_differences(Gradients *x, double *v, const double *gradient, int n)
{
    double worst = 0, h = 1e-5;
    for (int i = 0; i < n; i++) {
        double was = v[i], up, down;
        v[i] = was + h, up = loss(x);
        v[i] = was - h, down = loss(x);
        v[i] = was;
        double apart = fabs((up - down) / (2 * h) - gradient[i]);
        if (!(apart <= worst)) worst = apart;
    }
    return worst;
}

static void gradients_agree(Gradients *x)
{
    static double dq[GQ], dk[GK], dv[GK], dbias[GS], dsink[GH], delta[GROWS];
    loss(x);
    for (int i = 0; i < GROWS; i++) {
        delta[i] = 0;
        for (int e = 0; e < GD; e++) delta[i] += x->g[i * GD + e] * x->o[i * GD + e];
    }
    double l[GROWS];
    memcpy(l, x->l, sizeof l);
    x->a.dbias = dbias;
    ref_attention_backward(x->q, x->k, x->v, x->g, l, delta, dq, dk, dv, &x->a);
    CU_ASSERT(apart_from_differences(x, x->q, dq, GQ) < 1e-8);
    CU_ASSERT(apart_from_differences(x, x->k, dk, GK) < 1e-8);
    CU_ASSERT(apart_from_differences(x, x->v, dv, GK) < 1e-8);
    if (x->a.bias) CU_ASSERT(apart_from_differences(x, x->bias, dbias, GS) < 1e-8);
    if (!x->a.sink) return;
    ref_attention_sink_backward(x->sink, l, delta, dsink, &x->a);
    CU_ASSERT(apart_from_differences(x, x->sink, dsink, GH) < 1e-8);
}

static void test_attention_gradients(void)
{
    static Gradients x;
    RefRandom r = { 5 };
    for (int i = 0; i < GQ; i++) x.q[i] = ref_random_normal(&r), x.g[i] = ref_random_normal(&r);
    for (int i = 0; i < GK; i++) x.k[i] = ref_random_normal(&r), x.v[i] = ref_random_normal(&r);
    for (int i = 0; i < GS; i++) x.bias[i] = i % 5 ? ref_random_normal(&r) : -INFINITY;
    for (int j = 0; j < GN; j++) x.bias[j] = -INFINITY; /* the first query sees no key */
    for (int i = 0; i < GH; i++) x.sink[i] = ref_random_normal(&r);
    for (int with = 0; with < 96; with++) {
        x.a =
            (RefAttention){ .b = GB, .h = GH, .hk = GHK, .m = GM, .n = GN, .d = GD, .scale = 0.5, .l = x.l };
        x.a.causal = with & 1;
        x.a.window = with & 2 ? 3 : 0;
        x.a.cap = with & 4 ? 1.5 : 0;
        x.a.bias = with & 8 ? x.bias : NULL;
        x.a.sink = with & 16 ? x.sink : NULL;
        x.a.shift = (int64_t[]){ 0, 3, -2 }[with / 32];
        gradients_agree(&x);
    }
}

static void test_rope(void)
{
    double c[4], s[4], y[8], x[8] = { 1, 2, 3, 4, 1, 0, 0, 0 };
    ref_rope_table(c, s, 2, 2, 10000);
    CU_ASSERT(c[0] == 1 && s[0] == 0);
    CU_ASSERT_DOUBLE_EQUAL(c[2], cos(1), 1e-15);
    CU_ASSERT_DOUBLE_EQUAL(s[3], sin(0.01), 1e-15);
    ref_rope(x, c, s, y, 1, 2, 2);
    CU_ASSERT(y[0] == 1 && y[3] == 4);           /* position 0 is not turned */
    CU_ASSERT_DOUBLE_EQUAL(y[4], cos(1), 1e-15); /* (1, 0) turned by 1 */
    CU_ASSERT_DOUBLE_EQUAL(y[6], sin(1), 1e-15);
}

static void test_random(void)
{
    RefRandom r = { 0 };
    CU_ASSERT_EQUAL(
        ref_random(&r), 0xe220a8397b1dcdaf); /* the generator's published first value for seed 0 */
    double sum = 0, sum2 = 0;
    for (int i = 0; i < 100000; i++) {
        double v = ref_random_normal(&r);
        sum += v;
        sum2 += v * v;
    }
    CU_ASSERT(fabs(sum / 1e5) < 0.02 && fabs(sum2 / 1e5 - 1) < 0.03);
}

UNIT_MAIN("references", { "formats", test_formats }, { "round_trip", test_round_trip },
    { "round_f32", test_round_f32 }, { "ulp", test_ulp }, { "compare", test_compare },
    { "philox", test_philox }, { "rows", test_rows }, { "images", test_images },
    { "conv_is_gemm", test_conv_is_gemm }, { "attention", test_attention },
    { "attention_is_softmax_gemm", test_attention_is_softmax_gemm },
    { "attention_gradients", test_attention_gradients }, { "rope", test_rope }, { "random", test_random })
