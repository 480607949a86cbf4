/* ref_kernels.h: what each example computes, in double precision and the plainest C.
 *
 * Tensors are dense row-major arrays of doubles holding exactly what the kernel's inputs hold. No tiling, no
 * online algorithms, no reordering: where a kernel is clever, its reference is not. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* element-wise */
double ref_sigmoid(double x);
double ref_silu(double x);
double ref_gelu(double x);
void ref_swiglu(const double *x, double *y, int64_t m, int64_t n); /* x [m, 2n] */

/* rows */
void ref_softmax(const double *x, double *y, int64_t m, int64_t n);
void ref_rms_norm(const double *x, const double *w, double *y, int64_t m, int64_t n, double eps);
void ref_layer_norm(
    const double *x, const double *w, const double *b, double *y, int64_t m, int64_t n, double eps);
void ref_cumsum(const double *x, double *y, int64_t m, int64_t n);
/* NaN counts as the largest; of equal ones the lowest position first. value and index are [m, k] */
void ref_topk(const double *x, double *value, double *index, int64_t m, int64_t n, int64_t k);

/* images */
void ref_max_pool(const double *x, double *y, int64_t images, int64_t h, int64_t w);
void ref_blur(const double *x, double *y, int64_t h, int64_t w, int64_t radius);
typedef struct RefConv {
    int64_t b, c, h, w, f, r, s, p, q, stride, pad;
    bool channels_last;
} RefConv;
void ref_conv2d(const double *x, const double *wt, double *y, const RefConv *);

/* products: c[m, n] = a[m, k] b[k, n] */
void ref_gemm(const double *a, const double *b, double *c, int64_t m, int64_t n, int64_t k);

/* attention. Tensors [b, h, m, d], [b, hk, n, d]; everything not asked for is off. */
typedef struct RefAttention {
    int64_t b, h, hk, m, n, d;
    int64_t dv; /* > 0: values and outputs have dv elements in place of d */
    double scale;
    bool causal;
    int64_t shift;       /* query i stands at position i + shift */
    int64_t window;      /* > 0: a query sees its own and the window - 1 keys before */
    double cap;          /* > 0: scores become cap tanh(score / cap) */
    const double *slope; /* [h]: score - slope |position - key| */
    const double *bias;  /* [b, h, m, n], added */
    const double *sink;  /* [h]: one more logit without a value */
    double *l;           /* [b, h, m] or NULL: ref_attention gives the logarithm of the sum of exp(score) */
    double *dbias;       /* [b, h, m, n] or NULL: ref_attention_backward gives the bias' gradient */
} RefAttention;
void ref_attention(const double *q, const double *k, const double *v, double *o, const RefAttention *);
/* From o's gradient g, the logarithms l of the sums and delta; causal, window, cap, bias and dbias may be
 * set. Each of dq, dk, dv may be NULL. */
void ref_attention_backward(const double *q, const double *k, const double *v, const double *g,
    const double *l, const double *delta, double *dq, double *dk, double *dv, const RefAttention *);
/* The gradient of the sinks' logits [h], from the same l, which contain them, and delta. */
void ref_attention_sink_backward(
    const double *sink, const double *l, const double *delta, double *dsink, const RefAttention *);

/* state-space scan: x, y [batch, l, h, p], a [batch, l, h], b, c [batch, l, n] */
typedef struct RefScan {
    int64_t batch, l, h, p, n;
} RefScan;
void ref_chunk_scan(
    const double *x, const double *a, const double *b, const double *c, double *y, const RefScan *);

/* rope: table of cosines and sines [s, d2]; x, y [rows, s, 2 d2] */
void ref_rope_table(double *c, double *s, int64_t positions, int64_t d2, double base);
void ref_rope(const double *x, const double *c, const double *s, double *y, int64_t rows, int64_t positions,
    int64_t d2);

/* Philox4x32-10 (Salmon et al. 2011): all four words of the block. */
void ref_philox(uint64_t seed, uint64_t counter, uint32_t out[4]);
void ref_philox_raw(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);
void ref_dropout(const double *x, double *y, int64_t n, float p, uint64_t seed);
