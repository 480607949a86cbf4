/* ref_kernels.c: see ref_kernels.h. */
#include "ref_kernels.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

double ref_sigmoid(double x) { return 1 / (1 + exp(-x)); }
double ref_silu(double x) { return x * ref_sigmoid(x); }
double ref_gelu(double x) { return 0.5 * x * (1 + erf(x * 0.70710678118654752440)); }

void ref_swiglu(const double *x, double *y, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) y[i * n + j] = ref_silu(x[i * 2 * n + j]) * x[i * 2 * n + n + j];
}

/* max that hands NaN on, which fmax does not */
static double max_nan(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }

void ref_softmax(const double *x, double *y, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++, x += n, y += n) {
        double top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < n; j++) top = max_nan(top, x[j]);
        for (int64_t j = 0; j < n; j++) sum += y[j] = exp(x[j] - top);
        for (int64_t j = 0; j < n; j++) y[j] /= sum;
    }
}

void ref_rms_norm(const double *x, const double *w, double *y, int64_t m, int64_t n, double eps)
{
    for (int64_t i = 0; i < m; i++, x += n, y += n) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) sum += x[j] * x[j];
        double scale = 1 / sqrt(sum / (double)n + eps);
        for (int64_t j = 0; j < n; j++) y[j] = x[j] * scale * w[j];
    }
}

void ref_layer_norm(
    const double *x, const double *w, const double *b, double *y, int64_t m, int64_t n, double eps)
{
    for (int64_t i = 0; i < m; i++, x += n, y += n) {
        double mean = 0, var = 0;
        for (int64_t j = 0; j < n; j++) mean += x[j];
        mean /= (double)n;
        for (int64_t j = 0; j < n; j++) var += (x[j] - mean) * (x[j] - mean);
        double scale = 1 / sqrt(var / (double)n + eps);
        for (int64_t j = 0; j < n; j++) y[j] = (x[j] - mean) * scale * w[j] + b[j];
    }
}

void ref_cumsum(const double *x, double *y, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) y[i * n + j] = sum += x[i * n + j];
    }
}

void ref_topk(const double *x, double *value, double *index, int64_t m, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i++, x += n) {
        bool *taken = calloc((size_t)n, sizeof *taken);
        for (int64_t j = 0; j < k; j++) {
            int64_t best = -1;
            for (int64_t c = 0; c < n; c++) {
                if (taken[c]) continue;
                if (best < 0 || (!isnan(x[best]) && (isnan(x[c]) || x[c] > x[best]))) best = c;
            }
            taken[best] = true;
            value[i * k + j] = x[best];
            index[i * k + j] = (double)best;
        }
        free(taken);
    }
}

void ref_max_pool(const double *x, double *y, int64_t images, int64_t h, int64_t w)
{
    int64_t p = (h - 1) / 2 + 1, q = (w - 1) / 2 + 1;
    for (int64_t i = 0; i < images; i++, x += h * w, y += p * q)
        for (int64_t oy = 0; oy < p; oy++)
            for (int64_t ox = 0; ox < q; ox++) {
                double top = -INFINITY;
                for (int64_t iy = 2 * oy - 1; iy <= 2 * oy + 1; iy++)
                    for (int64_t ix = 2 * ox - 1; ix <= 2 * ox + 1; ix++)
                        if (iy >= 0 && iy < h && ix >= 0 && ix < w) top = max_nan(top, x[iy * w + ix]);
                y[oy * q + ox] = top;
            }
}

void ref_blur(const double *x, double *y, int64_t h, int64_t w, int64_t radius)
{
    for (int64_t oy = 0; oy < h; oy++)
        for (int64_t ox = 0; ox < w; ox++) {
            double sum = 0, count = 0;
            for (int64_t iy = oy - radius; iy <= oy + radius; iy++)
                for (int64_t ix = ox - radius; ix <= ox + radius; ix++)
                    if (iy >= 0 && iy < h && ix >= 0 && ix < w) sum += x[iy * w + ix], count++;
            y[oy * w + ox] = sum / count;
        }
}

void ref_conv2d(const double *x, const double *wt, double *y, const RefConv *v)
{
    for (int64_t b = 0; b < v->b; b++)
        for (int64_t f = 0; f < v->f; f++)
            for (int64_t p = 0; p < v->p; p++)
                for (int64_t q = 0; q < v->q; q++) {
                    double sum = 0;
                    for (int64_t r = 0; r < v->r; r++)
                        for (int64_t s = 0; s < v->s; s++) {
                            int64_t iy = p * v->stride + r - v->pad, ix = q * v->stride + s - v->pad;
                            if (iy < 0 || iy >= v->h || ix < 0 || ix >= v->w) continue;
                            for (int64_t c = 0; c < v->c; c++) {
                                int64_t xi = v->channels_last ? ((b * v->h + iy) * v->w + ix) * v->c + c
                                                              : ((b * v->c + c) * v->h + iy) * v->w + ix;
                                int64_t wi = v->channels_last ? ((f * v->r + r) * v->s + s) * v->c + c
                                                              : ((f * v->c + c) * v->r + r) * v->s + s;
                                sum += x[xi] * wt[wi];
                            }
                        }
                    y[v->channels_last ? ((b * v->p + p) * v->q + q) * v->f + f
                                       : ((b * v->f + f) * v->p + p) * v->q + q] = sum;
                }
}

void ref_gemm(const double *a, const double *b, double *c, int64_t m, int64_t n, int64_t k)
{
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < n; j++) c[i * n + j] += a[i * k + l] * b[l * n + j];
}

/* The score of one query and key, or -inf where the query does not see the key. */
static double score(
    const RefAttention *v, const double *q, const double *k, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int64_t position = i + v->shift;
    if (v->causal && j > position) return -INFINITY;
    if (v->window > 0 && position - j >= v->window) return -INFINITY;
    double s = 0;
    for (int64_t d = 0; d < v->d; d++) s += q[d] * k[d];
    s *= v->scale;
    if (v->cap > 0) s = v->cap * tanh(s / v->cap);
    if (v->slope) s -= v->slope[h] * fabs((double)(position - j));
    if (v->bias) s += v->bias[((b * v->h + h) * v->m + i) * v->n + j];
    return s;
}

void ref_attention(const double *q, const double *k, const double *v, double *o, const RefAttention *a)
{
    double *s = malloc((size_t)a->n * sizeof *s);
    int64_t dv = a->dv ? a->dv : a->d;
    for (int64_t b = 0; b < a->b; b++)
        for (int64_t h = 0; h < a->h; h++)
            for (int64_t i = 0; i < a->m; i++) {
                const double *row = q + ((b * a->h + h) * a->m + i) * a->d;
                const double *keys = k + (b * a->hk + h * a->hk / a->h) * a->n * a->d,
                             *values = v + (b * a->hk + h * a->hk / a->h) * a->n * dv;
                double *out = o + ((b * a->h + h) * a->m + i) * dv;
                double top = a->sink ? a->sink[h] : -INFINITY, sum = 0;
                for (int64_t j = 0; j < a->n; j++)
                    top = max_nan(top, s[j] = score(a, row, keys + j * a->d, b, h, i, j));
                memset(out, 0, (size_t)dv * sizeof *out);
                if (a->l) a->l[(b * a->h + h) * a->m + i] = -INFINITY;
                if (top == -INFINITY) continue; /* a query that sees nothing gives zeros */
                if (a->sink) sum = exp(a->sink[h] - top);
                for (int64_t j = 0; j < a->n; j++) {
                    if (s[j] == -INFINITY) continue;
                    double p = exp(s[j] - top);
                    sum += p;
                    for (int64_t d = 0; d < dv; d++) out[d] += p * values[j * dv + d];
                }
                for (int64_t d = 0; d < dv; d++) out[d] /= sum;
                if (a->l) a->l[(b * a->h + h) * a->m + i] = top + log(sum);
            }
    free(s);
}

/* One query, at `row` of q and g, and one key. */
static void pair_backward(const double *q, const double *k, const double *v, const double *g, double l,
    double delta, double *dq, double *dk, double *dv, const RefAttention *a, int64_t pair)
{
    double s = 0, gv = 0, slope = 1;
    for (int64_t e = 0; e < a->d; e++) s += q[e] * k[e], gv += g[e] * v[e];
    s *= a->scale;
    if (a->cap > 0) {
        double t = tanh(s / a->cap);
        s = a->cap * t;
        slope = 1 - t * t;
    }
    if (a->bias) s += a->bias[pair];
    if (l == -INFINITY) return; /* a query that sees no key */
    double p = exp(s - l), dt = p * (gv - delta), ds = dt * slope * a->scale;
    if (a->dbias) a->dbias[pair] = dt;
    for (int64_t e = 0; e < a->d; e++) {
        if (dq) dq[e] += ds * k[e];
        if (dk) dk[e] += ds * q[e];
        if (dv) dv[e] += p * g[e];
    }
}

void ref_attention_backward(const double *q, const double *k, const double *v, const double *g,
    const double *l, const double *delta, double *dq, double *dk, double *dv, const RefAttention *a)
{
    int64_t d = a->d;
    for (int64_t e = 0; dq && e < a->b * a->h * a->m * d; e++) dq[e] = 0;
    for (int64_t e = 0; dk && e < a->b * a->hk * a->n * d; e++) dk[e] = 0;
    for (int64_t e = 0; dv && e < a->b * a->hk * a->n * d; e++) dv[e] = 0;
    for (int64_t e = 0; a->dbias && e < a->b * a->h * a->m * a->n; e++) a->dbias[e] = 0;
    for (int64_t bh = 0; bh < a->b * a->h; bh++)
        for (int64_t i = 0; i < a->m; i++)
            for (int64_t j = 0; j < a->n; j++) {
                int64_t kv = bh / a->h * a->hk + bh % a->h / (a->h / a->hk);
                int64_t row = (bh * a->m + i) * d, key = (kv * a->n + j) * d, at = i + a->shift;
                if ((a->causal && j > at) || (a->window && at >= j + a->window)) continue;
                pair_backward(q + row, k + key, v + key, g + row, l[bh * a->m + i], delta[bh * a->m + i],
                    dq ? dq + row : NULL, dk ? dk + key : NULL, dv ? dv + key : NULL, a,
                    (bh * a->m + i) * a->n + j);
            }
}

void ref_attention_sink_backward(
    const double *sink, const double *l, const double *delta, double *dsink, const RefAttention *a)
{
    for (int64_t h = 0; h < a->h; h++) dsink[h] = 0;
    for (int64_t i = 0; i < a->b * a->h * a->m; i++) {
        int64_t h = i / a->m % a->h;
        dsink[h] -= exp(sink[h] - l[i]) * delta[i];
    }
}

void ref_chunk_scan(
    const double *x, const double *a, const double *b, const double *c, double *y, const RefScan *z)
{
    double *state = malloc((size_t)(z->n * z->p) * sizeof *state);
    for (int64_t w = 0; w < z->batch; w++)
        for (int64_t h = 0; h < z->h; h++) {
            memset(state, 0, (size_t)(z->n * z->p) * sizeof *state);
            for (int64_t t = w * z->l; t < (w + 1) * z->l; t++) {
                const double *in = x + (t * z->h + h) * z->p;
                double *out = y + (t * z->h + h) * z->p, keep = exp(-a[t * z->h + h]);
                memset(out, 0, (size_t)z->p * sizeof *out);
                for (int64_t n = 0; n < z->n; n++)
                    for (int64_t e = 0; e < z->p; e++) {
                        double *s = &state[n * z->p + e];
                        *s = keep * *s + b[t * z->n + n] * in[e];
                        out[e] += c[t * z->n + n] * *s;
                    }
            }
        }
    free(state);
}

void ref_rope_table(double *c, double *s, int64_t positions, int64_t d2, double base)
{
    for (int64_t i = 0; i < positions; i++)
        for (int64_t k = 0; k < d2; k++) {
            double angle = (double)i * pow(base, -(double)k / (double)d2);
            c[i * d2 + k] = cos(angle);
            s[i * d2 + k] = sin(angle);
        }
}

void ref_rope(
    const double *x, const double *c, const double *s, double *y, int64_t rows, int64_t positions, int64_t d2)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < positions; i++)
            for (int64_t k = 0; k < d2; k++) {
                int64_t at = (r * positions + i) * 2 * d2 + k;
                double u = x[at], v = x[at + d2], cs = c[i * d2 + k], sn = s[i * d2 + k];
                y[at] = u * cs - v * sn;
                y[at + d2] = v * cs + u * sn;
            }
}

void ref_philox_raw(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1], c[4];
    memcpy(c, counter, sizeof c);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53u * c[0], p1 = (uint64_t)0xcd9e8d57u * c[2];
        uint32_t next[4] = { (uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
            (uint32_t)p0 };
        memcpy(c, next, sizeof c);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    memcpy(out, c, sizeof c);
}

void ref_philox(uint64_t seed, uint64_t counter, uint32_t out[4])
{
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t c[4] = { (uint32_t)counter, (uint32_t)(counter >> 32), 0, 0 };
    ref_philox_raw(key, c, out);
}

void ref_dropout(const double *x, double *y, int64_t n, float p, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t w[4];
        ref_philox(seed, (uint64_t)i, w);
        y[i] = (double)(w[0] >> 8) * 0x1p-24 >= (double)p ? x[i] / (1.0 - (double)p) : 0;
    }
}
