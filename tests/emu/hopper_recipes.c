/* hopper_recipes.c: recipes of kernels that are no examples, for rows of tile_emu_hopper: rows that a cluster
 * replaces, additions in a fixed order by a writer warp, and programs without steps. */
#include "tests/emu/hopper.h"
#include "tests/run/reference_names.h"
#include <math.h>
#include <string.h>

/* Rows of softmax with one subtracted at the label, in place of what they were. */
static void want_in_place(Problem *p)
{
    IN(X);
    IN(LABEL);
    WANT(LOSS);
    SIZE(M);
    SIZE(N);
    double *y = problem_tensor(p, "X")->want;
    for (int64_t r = 0; r < M; r++) {
        const double *x = X + r * N;
        const int64_t label = (int64_t)LABEL[r];
        double most = -INFINITY, s = 0;
        for (int64_t k = 0; k < N; k++) most = fmax(most, x[k]);
        for (int64_t k = 0; k < N; k++) s += exp(x[k] - most);
        for (int64_t k = 0; k < N; k++) y[r * N + k] = exp(x[k] - most) / s - (k == label);
        LOSS[r] = most + log(s) - x[label];
    }
}

/* Of the keys of one batch: P = clamp(K Q^T, -1, 1), DK = P Q, DQ += P^T K. */
static void want_products(Problem *p)
{
    IN(Q);
    IN(K);
    WANT(DK);
    SIZE(B);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    Tensor *dq = problem_tensor(p, "DQ"), *order = problem_tensor(p, "ORDER");
    memcpy(dq->want, dq->values, sizeof(double) * (size_t)dq->count);
    memset(order->want, 0, sizeof(double) * (size_t)order->count);
    memset(DK, 0, sizeof(double) * (size_t)(B * N * D));
    for (int64_t row = 0; row < B * N; row++)
        for (int64_t at = row / N * M; at < (row / N + 1) * M; at++) {
            const double *k = K + row * D, *q = Q + at * D;
            double s = 0;
            for (int64_t d = 0; d < D; d++) s += k[d] * q[d];
            s = fmax(fmin(s, 1), -1);
            for (int64_t d = 0; d < D; d++) {
                DK[row * D + d] += s * q[d];
                dq->want[at * D + d] += s * k[d];
            }
        }
}

/* C = A B in every third tile of 64 x 64, and 0 in the others. */
static void want_some(Problem *p)
{
    IN(A);
    IN(B);
    WANT(C);
    SIZE(M);
    SIZE(N);
    SIZE(K);
    ref_gemm(A, B, C, M, N, K);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++)
            if ((i / 64 + j / 64) % 3) C[i * N + j] = 0;
}

#define KERNELS "../../tests/run/kernels/"
static const Recipe recipes_beside[] = {
    { "cluster_in_place", KERNELS "cluster_in_place",
        "inout X[M,N] f32; in LABEL[M] i32 index:N; out LOSS[M] f32", NULL, NULL,
        { "cluster_in_place X LABEL LOSS" }, want_in_place, 4, 64, 0, FLOOR_ONE },
    { "add_products_in_order", KERNELS "add_products_in_order",
        "in Q[B,M,D] f16 int:2; in K[B,N,D] f16 int:2; inout DQ[B,M,D] f32; out DK[B,N,D] f32; "
        "inout ORDER[B,P] i32 int:0",
        NULL, NULL, { "add_products_in_order Q K DQ DK ORDER" }, want_products, 4, 64, 0, FLOOR_ONE },
    { "products_of_some", KERNELS "products_of_some",
        "in A[M,K] f16 int:2; in B[K,N] f16 int:2; out C[M,N] f32", NULL, NULL, { "products_of_some A B C" },
        want_some, 4, 64, 0, FLOOR_ONE },
};

const Recipe *hopper_recipe(const char *name)
{
    for (size_t k = 0; k < sizeof recipes_beside / sizeof *recipes_beside; k++)
        if (!strcmp(recipes_beside[k].name, name)) return &recipes_beside[k];
    return recipe_find(name);
}
