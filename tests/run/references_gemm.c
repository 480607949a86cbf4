/* references_gemm.c: the references of matrix products, of grouped and quantized ones too. */
#include "reference_names.h"

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

/* Position k of a row of groups: byte b of a group holds weights b and b + group / 2. */
static int packed_weight(const double *row, int64_t k, int64_t group)
{
    int64_t in = k % group, half = group / 2;
    int two = (int)row[k / group * half + in % half];
    return in < half ? two & 15 : two >> 4;
}

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
    int64_t group = K / GROUPS;
    double *w = malloc((size_t)(K * N) * sizeof *w);
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) {
            int64_t g = k / group;
            w[k * N + n] =
                (packed_weight(W + n * K / 2, k, group) - ZERO[n * GROUPS + g]) * SCALE[n * GROUPS + g];
        }
    ref_gemm(A, w, C, M, N, K);
    free(w);
}

/* Weights as those of gemm_int4; a zero point takes its multiple of SUM, whatever that is. */
void want_gemm_w4a8(Problem *p)
{
    IN(A);
    IN(SA);
    IN(SUM);
    IN(W);
    IN(SW);
    IN(ZERO);
    WANT(C);
    SIZE(M);
    SIZE(N);
    SIZE(K);
    SIZE(GROUPS);
    int64_t group = K / GROUPS;
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) {
            double sum = 0;
            for (int64_t g = 0; g < GROUPS; g++) {
                double dots = 0;
                for (int64_t k = g * group; k < (g + 1) * group; k++)
                    dots += packed_weight(W + n * K / 2, k, group) * A[m * K + k];
                sum += SW[g * N + n] * (SA[m * GROUPS + g] * dots - ZERO[g * N + n] * SUM[m * GROUPS + g]);
            }
            C[m * N + n] = sum;
        }
}

/* The integers, and times their scale the sums of their groups. */
void want_quantize_groups(Problem *p)
{
    IN(X);
    WANT(A);
    WANT(SA);
    WANT(SUM);
    SIZE(M);
    SIZE(K);
    SIZE(GROUPS);
    int64_t group = K / GROUPS;
    for (int64_t at = 0; at < M * GROUPS; at++) {
        float most = 0;
        double sum = 0;
        for (int64_t k = at * group; k < (at + 1) * group; k++) most = fmaxf(most, fabsf((float)X[k]));
        float times = most > 1e-36f ? 127 / most : 0;
        for (int64_t k = at * group; k < (at + 1) * group; k++) sum += A[k] = nearbyintf((float)X[k] * times);
        SA[at] = most / 127;
        SUM[at] = (double)(most / 127) * sum;
    }
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
