/* references.c: the references of element-wise kernels, norms, reductions, convolutions and the rest
 * (references.h). Those of attention and of matrix products have files of their own. */
#include "reference_names.h"
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
    /* The rules are the same: NaN comes first, and then the lowest position. */
    ref_topk(X, Y, INDEX, M, N, 1);
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
