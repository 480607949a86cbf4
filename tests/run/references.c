/* references.c: see references.h. */
#include "references.h"
#include "ref_kernels.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define IN(name) const double *name = problem_tensor(p, #name)->values
#define WANT(name) double *name = problem_tensor(p, #name)->want
#define SIZE(name) const int64_t name = problem_size(p, #name)

void want_vector_add(Problem *p)
{
    IN(X);
    IN(Y);
    WANT(Z);
    SIZE(N);
    for (int64_t i = 0; i < N; i++) Z[i] = X[i] + Y[i];
}

void want_copy_first_column(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    for (int64_t i = 0; i < M; i++) Y[i] = X[i * N];
}

void want_silu(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    for (int64_t i = 0; i < M * N; i++) Y[i] = ref_silu(X[i]);
}

void want_swiglu(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    ref_swiglu(X, Y, M, N);
}

/* M is 1 for the vector */
void want_rms_norm(Problem *p)
{
    IN(X);
    IN(W);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    ref_rms_norm(X, W, Y, M, N, problem_scalar_value(p, "eps"));
}

void want_layer_norm(Problem *p)
{
    IN(X);
    IN(W);
    IN(B);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    ref_layer_norm(X, W, B, Y, M, N, problem_scalar_value(p, "eps"));
}

void want_group_norm(Problem *p)
{
    IN(X);
    IN(W);
    IN(B);
    WANT(Y);
    SIZE(N);
    SIZE(G);
    SIZE(C);
    SIZE(S);
    for (int64_t r = 0; r < N * G; r++) {
        const double *x = X + r * C * S;
        double mean = 0, var = 0;
        for (int64_t i = 0; i < C * S; i++) mean += x[i] / (double)(C * S);
        for (int64_t i = 0; i < C * S; i++) var += (x[i] - mean) * (x[i] - mean) / (double)(C * S);
        for (int64_t i = 0; i < C * S; i++)
            Y[r * C * S + i] =
                ref_silu((x[i] - mean) / sqrt(var + problem_scalar_value(p, "eps")) * W[r % G * C + i / S] +
                         B[r % G * C + i / S]);
    }
}

void want_softmax(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    ref_softmax(X, Y, M, N);
}

void want_sum_rows(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    for (int64_t i = 0; i < M; i++) {
        Y[i] = 0;
        for (int64_t j = 0; j < N; j++) Y[i] += X[i * N + j];
    }
}

void want_sum_columns(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    for (int64_t j = 0; j < N; j++) {
        Y[j] = 0;
        for (int64_t i = 0; i < M; i++) Y[j] += X[i * N + j];
    }
}

void want_argmax_rows(Problem *p)
{
    IN(X);
    WANT(Y);
    WANT(INDEX);
    SIZE(M);
    SIZE(N);
    ref_topk(X, Y, INDEX, M, N, 1); /* the same rules: NaN on top, the lowest position first */
}

void want_max_magnitude(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    for (int64_t i = 0; i < M; i++) {
        Y[i] = 0;
        for (int64_t j = 0; j < N; j++) {
            double x = X[i * N + j];
            if (fabs(x) > fabs(Y[i]) || x == -Y[i]) Y[i] = fabs(x) > fabs(Y[i]) ? x : fabs(x);
        }
    }
}

void want_sum_all(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(N);
    Y[0] = 0;
    for (int64_t i = 0; i < N; i++) Y[0] += X[i];
}

void want_transpose(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) Y[j * M + i] = X[i * N + j];
}

void want_max_pool(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(B);
    SIZE(C);
    SIZE(H);
    SIZE(W);
    ref_max_pool(X, Y, B * C, H, W);
}

void want_blur(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(H);
    SIZE(W);
    const char *r = problem_const(p, "R");
    ref_blur(X, Y, H, W, r ? atoi(r) : 2);
}

void want_gemm(Problem *p)
{
    IN(A);
    IN(B);
    WANT(C);
    SIZE(M);
    SIZE(N);
    SIZE(K);
    ref_gemm(A, B, C, M, N, K);
}

void want_gemm_bias_gelu(Problem *p)
{
    IN(A);
    IN(B);
    IN(BIAS);
    WANT(C);
    SIZE(M);
    SIZE(N);
    SIZE(K);
    ref_gemm(A, B, C, M, N, K);
    for (int64_t i = 0; i < M * N; i++) C[i] = ref_gelu(C[i] + BIAS[i % N]);
}

void want_gemm_residual(Problem *p)
{
    IN(A);
    IN(B);
    IN(S);
    IN(R);
    WANT(C);
    SIZE(M);
    SIZE(N);
    SIZE(K);
    ref_gemm(A, B, C, M, N, K);
    for (int64_t i = 0; i < M * N; i++) C[i] = C[i] * S[i / N] + R[i];
}

void want_gemm_gated(Problem *p)
{
    IN(A);
    IN(G);
    IN(U);
    WANT(C);
    SIZE(M);
    SIZE(N);
    SIZE(K);
    double *gate = malloc((size_t)(M * N + 1) * sizeof *gate);
    ref_gemm(A, G, gate, M, N, K);
    ref_gemm(A, U, C, M, N, K);
    for (int64_t i = 0; i < M * N; i++) C[i] *= ref_silu(gate[i]);
    free(gate);
}

static void want_conv2d(Problem *p, bool channels_last)
{
    IN(X);
    IN(WT);
    WANT(Y);
    SIZE(B);
    SIZE(C);
    SIZE(H);
    SIZE(W);
    SIZE(F);
    SIZE(R);
    SIZE(S);
    SIZE(P);
    SIZE(Q);
    const char *stride = problem_const(p, "STRIDE"), *pad = problem_const(p, "PAD");
    RefConv v = { B, C, H, W, F, R, S, P, Q, stride ? atoi(stride) : 1, pad ? atoi(pad) : 1, channels_last };
    ref_conv2d(X, WT, Y, &v);
}

void want_conv2d_nchw(Problem *p) { want_conv2d(p, false); }
void want_conv2d_nhwc(Problem *p) { want_conv2d(p, true); }

/* Pixels last, of an input with its channels last, or outermost. */
static void want_rows(Problem *p, bool channels_last)
{
    IN(X);
    IN(WT);
    WANT(Y);
    SIZE(B);
    SIZE(C);
    SIZE(H);
    SIZE(W);
    SIZE(F);
    SIZE(R);
    SIZE(S);
    SIZE(N);
    const char *pad = problem_const(p, "PAD");
    int64_t border = pad ? atoi(pad) : 1, Q = W + 2 * border - S + 1;
    double *last = malloc((size_t)(B * N * F) * sizeof *last),
           *x = malloc((size_t)(B * H * W * C + 1) * sizeof *x);
    if (!last || !x) abort();
    for (int64_t b = 0; b < B; b++)
        for (int64_t c = 0; c < C; c++)
            for (int64_t n = 0; n < H * W; n++)
                x[(b * H * W + n) * C + c] =
                    channels_last ? X[(b * H * W + n) * C + c] : X[(b * C + c) * H * W + n];
    RefConv v = { B, C, H, W, F, R, S, N / Q, Q, 1, (int)border, true };
    ref_conv2d(x, WT, last, &v);
    for (int64_t b = 0; b < B; b++)
        for (int64_t n = 0; n < N; n++)
            for (int64_t f = 0; f < F; f++) Y[(b * F + f) * N + n] = last[(b * N + n) * F + f];
    free(last);
    free(x);
}

void want_conv2d_rows(Problem *p) { want_rows(p, true); }
void want_conv2d_planes(Problem *p) { want_rows(p, false); }

void want_channels_last(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(B);
    SIZE(C);
    SIZE(N);
    for (int64_t b = 0; b < B; b++)
        for (int64_t c = 0; c < C; c++)
            for (int64_t n = 0; n < N; n++) Y[(b * N + n) * C + c] = X[(b * C + c) * N + n];
}

static bool has_tensor(const Problem *p, const char *name)
{
    for (int i = 0; i < p->n_tensors; i++)
        if (!strcmp(p->tensors[i].name, name)) return true;
    return false;
}

/* One description for all variants: a feature is on when the problem has its tensor, scalar or const. */
static void attention(Problem *p, bool causal, int64_t shift)
{
    IN(Q);
    IN(K);
    IN(V);
    WANT(O);
    SIZE(B);
    SIZE(H);
    SIZE(HK);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    const char *window = problem_const(p, "WINDOW");
    RefAttention a = {
        .b = B,
        .h = H,
        .hk = HK,
        .m = M,
        .n = N,
        .d = D,
        .scale = problem_scalar_value(p, "scale"),
        .causal = causal,
        .shift = shift,
        .window = window ? atoll(window) : 0,
        .cap = problem_scalar(p, "cap") ? problem_scalar_value(p, "cap") : 0,
        .slope = has_tensor(p, "SLOPE") ? problem_tensor(p, "SLOPE")->values : NULL,
        .bias = has_tensor(p, "BIAS") ? problem_tensor(p, "BIAS")->values : NULL,
        .sink = has_tensor(p, "SINK") ? problem_tensor(p, "SINK")->values : NULL,
    };
    ref_attention(Q, K, V, O, &a);
}

void want_attention(Problem *p)
{
    const char *causal = problem_const(p, "CAUSAL");
    attention(p, problem_const(p, "WINDOW") || (causal && !strcmp(causal, "true")), 0);
}

void want_attention_cross(Problem *p) { attention(p, true, problem_size(p, "N") - problem_size(p, "M")); }

void want_attention_decode(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    WANT(O);
    SIZE(B);
    SIZE(H);
    SIZE(HK);
    SIZE(N);
    SIZE(D);
    RefAttention a = {
        .b = B, .h = H, .hk = HK, .m = 1, .n = N, .d = D, .scale = problem_scalar_value(p, "scale")
    };
    ref_attention(Q, K, V, O, &a);
}

void want_rope_table(Problem *p)
{
    WANT(COS);
    WANT(SIN);
    SIZE(S);
    SIZE(D2);
    ref_rope_table(COS, SIN, S, D2, problem_scalar_value(p, "base"));
}

void want_rope(Problem *p)
{
    IN(X);
    IN(COS);
    IN(SIN);
    WANT(Y);
    SIZE(B);
    SIZE(H);
    SIZE(S);
    SIZE(D2);
    ref_rope(X, COS, SIN, Y, B * H, S, D2);
}

void want_embedding(Problem *p)
{
    IN(ID);
    IN(TABLE);
    WANT(Y);
    SIZE(N);
    SIZE(V);
    SIZE(D);
    for (int64_t i = 0; i < N; i++)
        for (int64_t d = 0; d < D; d++)
            Y[i * D + d] = ID[i] >= 0 && ID[i] < (double)V ? TABLE[(int64_t)ID[i] * D + d] : 0;
}

void want_cumsum(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(M);
    SIZE(N);
    ref_cumsum(X, Y, M, N);
}

void want_topk(Problem *p)
{
    IN(X);
    WANT(VALUE);
    WANT(INDEX);
    SIZE(M);
    SIZE(N);
    SIZE(K);
    ref_topk(X, VALUE, INDEX, M, N, K);
}

void want_dropout(Problem *p)
{
    IN(X);
    WANT(Y);
    SIZE(N);
    ref_dropout(X, Y, N, (float)problem_scalar_value(p, "p"), (uint64_t)problem_scalar_value(p, "seed"));
}

void want_histogram(Problem *p)
{
    const Tensor *t = problem_tensor(p, "COUNT");
    IN(X);
    WANT(COUNT);
    SIZE(N);
    SIZE(BINS);
    memcpy(COUNT, t->values, (size_t)t->count * sizeof *COUNT);
    for (int64_t i = 0; i < N; i++)
        if (X[i] >= 0 && X[i] < (double)BINS) COUNT[(int64_t)X[i]]++;
}

/* --- where what is read says where to read, or how long ---------------------------------------------- */

void want_gemm_grouped(Problem *p)
{
    IN(A);
    IN(W);
    IN(START);
    WANT(C);
    SIZE(N);
    SIZE(K);
    SIZE(E);
    for (int64_t e = 0; e < E; e++) {
        int64_t first = (int64_t)START[e];
        ref_gemm(A + first * K, W + e * K * N, C + first * N, (int64_t)START[e + 1] - first, N, K);
    }
}

/* Each token through each of its experts, one after the other. */
void want_moe(Problem *p)
{
    IN(X);
    IN(EXPERT);
    IN(WEIGHT);
    IN(WG);
    IN(WU);
    IN(WD);
    WANT(O);
    SIZE(M);
    SIZE(N);
    SIZE(K);
    SIZE(TOP);
    double *gate = malloc((size_t)N * sizeof *gate), *up = malloc((size_t)N * sizeof *up),
           *y = malloc((size_t)K * sizeof *y);
    memset(O, 0, (size_t)(M * K) * sizeof *O);
    for (int64_t s = 0; s < M * TOP; s++) {
        const int64_t e = (int64_t)EXPERT[s], t = s / TOP;
        ref_gemm(X + t * K, WG + e * K * N, gate, 1, N, K);
        ref_gemm(X + t * K, WU + e * K * N, up, 1, N, K);
        for (int64_t i = 0; i < N; i++) gate[i] = ref_silu(gate[i]) * up[i];
        ref_gemm(gate, WD + e * N * K, y, 1, K, N);
        for (int64_t i = 0; i < K; i++) O[t * K + i] += WEIGHT[s] * y[i];
    }
    free(gate);
    free(up);
    free(y);
}

void want_attention_paged(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    IN(PAGES_OF);
    IN(LEN);
    WANT(O);
    SIZE(B);
    SIZE(H);
    SIZE(HK);
    SIZE(D);
    SIZE(PAGE);
    SIZE(MOST);
    double *k = malloc((size_t)(HK * MOST * PAGE * D) * sizeof *k),
           *v = malloc((size_t)(HK * MOST * PAGE * D) * sizeof *v);
    for (int64_t b = 0; b < B; b++) {
        RefAttention a = { .b = 1,
            .h = H,
            .hk = HK,
            .m = 1,
            .n = (int64_t)LEN[b],
            .d = D,
            .scale = problem_scalar_value(p, "scale") };
        for (int64_t h = 0; h < HK; h++)
            for (int64_t j = 0; j < a.n; j++) {
                int64_t from = (((int64_t)PAGES_OF[b * MOST + j / PAGE] * PAGE + j % PAGE) * HK + h) * D;
                memcpy(k + (h * a.n + j) * D, K + from, (size_t)D * sizeof *k);
                memcpy(v + (h * a.n + j) * D, V + from, (size_t)D * sizeof *v);
            }
        ref_attention(Q + b * H * D, k, v, O + b * H * D, &a);
    }
    free(k);
    free(v);
}

/* Sequence by sequence; a query before the first key sees none. */
void want_attention_paged_prefill(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    IN(PAGES_OF);
    IN(LEN);
    IN(START);
    WANT(O);
    SIZE(B);
    SIZE(H);
    SIZE(HK);
    SIZE(D);
    SIZE(PAGE);
    SIZE(MOST);
    double *s = malloc((size_t)(MOST * PAGE + 1) * sizeof *s);
    for (int64_t b = 0; b < B; b++)
        for (int64_t r = (int64_t)START[b]; r < (int64_t)START[b + 1]; r++)
            for (int64_t h = 0; h < H; h++) {
                int64_t at = (int64_t)LEN[b] - ((int64_t)START[b + 1] - r);
                double top = -INFINITY, sum = 0, *o = O + (r * H + h) * D;
                for (int64_t d = 0; d < D; d++) o[d] = 0;
                for (int64_t j = 0; j <= at; j++) {
                    int64_t from =
                        (((int64_t)PAGES_OF[b * MOST + j / PAGE] * PAGE + j % PAGE) * HK + h * HK / H) * D;
                    s[j] = 0;
                    for (int64_t d = 0; d < D; d++) s[j] += Q[(r * H + h) * D + d] * K[from + d];
                    s[j] *= problem_scalar_value(p, "scale");
                    if (s[j] > top) top = s[j];
                }
                for (int64_t j = 0; j <= at; j++) sum += s[j] = exp(s[j] - top);
                for (int64_t j = 0; j <= at; j++) {
                    int64_t from =
                        (((int64_t)PAGES_OF[b * MOST + j / PAGE] * PAGE + j % PAGE) * HK + h * HK / H) * D;
                    for (int64_t d = 0; d < D; d++) o[d] += s[j] / sum * V[from + d];
                }
            }
    free(s);
}

void want_spmv_ell(Problem *p)
{
    IN(VALUE);
    IN(COLUMN);
    IN(X);
    WANT(Y);
    SIZE(M);
    SIZE(W);
    SIZE(N);
    for (int64_t i = 0; i < M; i++) {
        Y[i] = 0;
        for (int64_t e = i * W; e < (i + 1) * W; e++)
            Y[i] += COLUMN[e] >= 0 && COLUMN[e] < (double)N ? VALUE[e] * X[(int64_t)COLUMN[e]] : 0;
    }
}

void want_spmv_csr(Problem *p)
{
    IN(VALUE);
    IN(COLUMN);
    IN(START);
    IN(X);
    WANT(Y);
    SIZE(M);
    for (int64_t i = 0; i < M; i++) {
        Y[i] = 0;
        for (int64_t e = (int64_t)START[i]; e < (int64_t)START[i + 1]; e++)
            Y[i] += VALUE[e] * X[(int64_t)COLUMN[e]];
    }
}

/* --- parts of models --------------------------------------------------------------------------------- */

void want_attention_delta(Problem *p)
{
    IN(O);
    IN(DO);
    WANT(DELTA);
    SIZE(B);
    SIZE(H);
    SIZE(M);
    SIZE(D);
    for (int64_t i = 0; i < B * H * M; i++) {
        DELTA[i] = 0;
        for (int64_t d = 0; d < D; d++) DELTA[i] += O[i * D + d] * DO[i * D + d];
    }
}

void want_attention_backward(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    IN(DO);
    IN(L);
    IN(DELTA);
    SIZE(B);
    SIZE(H);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    const char *causal = problem_const(p, "CAUSAL");
    RefAttention a = { .b = B,
        .h = H,
        .hk = H,
        .m = M,
        .n = N,
        .d = D,
        .scale = problem_scalar_value(p, "scale"),
        .causal = !causal || !strcmp(causal, "true") };
    bool keys = has_tensor(p, "DK");
    ref_attention_backward(Q, K, V, DO, L, DELTA, keys ? NULL : problem_tensor(p, "DQ")->want,
        keys ? problem_tensor(p, "DK")->want : NULL, keys ? problem_tensor(p, "DV")->want : NULL, &a);
}

/* Both parts of queries and keys side by side; all heads share one key part. */
void want_attention_mla(Problem *p)
{
    IN(Q);
    IN(QR);
    IN(K);
    IN(KR);
    IN(V);
    WANT(O);
    SIZE(B);
    SIZE(H);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    SIZE(R);
    SIZE(DV);
    const char *causal = problem_const(p, "CAUSAL");
    RefAttention a = { .b = B,
        .h = H,
        .hk = H,
        .m = M,
        .n = N,
        .d = D + R,
        .dv = DV,
        .scale = problem_scalar_value(p, "scale"),
        .causal = !causal || !strcmp(causal, "true") };
    double *q = malloc((size_t)(B * H * M * a.d) * sizeof *q),
           *k = malloc((size_t)(B * H * N * a.d) * sizeof *k);
    for (int64_t i = 0; i < B * H * M; i++)
        for (int64_t d = 0; d < a.d; d++) q[i * a.d + d] = d < D ? Q[i * D + d] : QR[i * R + d - D];
    for (int64_t i = 0; i < B * H * N; i++)
        for (int64_t d = 0; d < a.d; d++)
            k[i * a.d + d] = d < D ? K[i * D + d] : KR[(i / N / H * N + i % N) * R + d - D];
    ref_attention(q, k, V, O, &a);
    free(q);
    free(k);
}

void want_chunk_scan(Problem *p)
{
    IN(X);
    IN(A);
    IN(B);
    IN(C);
    WANT(Y);
    SIZE(BATCH);
    SIZE(L);
    SIZE(H);
    SIZE(P);
    SIZE(N);
    RefScan z = { .batch = BATCH, .l = L, .h = H, .p = P, .n = N };
    ref_chunk_scan(X, A, B, C, Y, &z);
}

/* Two attentions; Q and K hold both in axis 2. */
void want_attention_differential(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    WANT(O);
    SIZE(B);
    SIZE(H);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    SIZE(DV);
    const char *causal = problem_const(p, "CAUSAL");
    RefAttention a = { .b = 1,
        .h = 1,
        .hk = 1,
        .m = M,
        .n = N,
        .d = D,
        .dv = DV,
        .scale = problem_scalar_value(p, "scale"),
        .causal = !causal || !strcmp(causal, "true") };
    double *second = malloc((size_t)(M * DV) * sizeof *second), lambda = problem_scalar_value(p, "lambda");
    for (int64_t bh = 0; bh < B * H; bh++) {
        ref_attention(Q + bh * 2 * M * D, K + bh * 2 * N * D, V + bh * N * DV, O + bh * M * DV, &a);
        ref_attention(Q + (bh * 2 + 1) * M * D, K + (bh * 2 + 1) * N * D, V + bh * N * DV, second, &a);
        for (int64_t e = 0; e < M * DV; e++) O[bh * M * DV + e] -= lambda * second[e];
    }
    free(second);
}

/* Groups of TK; byte b of a group holds weights b and b + TK/2. */
void want_gemm_int4(Problem *p)
{
    IN(A);
    IN(W);
    IN(SCALE);
    IN(ZERO);
    WANT(C);
    SIZE(M);
    SIZE(N);
    SIZE(K);
    SIZE(GROUPS);
    int64_t group = K / GROUPS, half = group / 2;
    double *w = malloc((size_t)(K * N) * sizeof *w);
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) {
            int64_t g = k / group, in = k % group;
            int two = (int)W[n * K / 2 + g * half + in % half];
            w[k * N + n] = ((in < half ? two & 15 : two >> 4) - ZERO[n * GROUPS + g]) * SCALE[n * GROUPS + g];
        }
    ref_gemm(A, w, C, M, N, K);
    free(w);
}

/* A scale for each column of C. */
void want_gemm_w8(Problem *p)
{
    IN(A);
    IN(W);
    IN(SCALE);
    WANT(C);
    SIZE(M);
    SIZE(N);
    SIZE(K);
    double *w = malloc((size_t)(K * N) * sizeof *w);
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) w[k * N + n] = W[n * K + k] * SCALE[n];
    ref_gemm(A, w, C, M, N, K);
    free(w);
}
