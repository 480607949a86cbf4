/* launch_check.c: calls the launchers that tilec made of launch.tile. */
#include "expect.h"
#include "k.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = 137, N = 403 };

static void serial(void *pool, int n, void (*task)(void *, int), void *arg)
{
    ++*(int *)pool;
    for (int i = n - 1; i >= 0; i--) task(arg, i);
}

/* Rows of `pitch` elements, the matrix `offset` elements into its memory: aligned, misaligned, with gaps,
 * transposed. */
static void check_axpy(int64_t row, int64_t column, int offset, const tile_threads *threads)
{
    static float xs[2 * M * N + 64], ys[2 * M * N + 64], want[2 * M * N + 64];
    int64_t shape[2] = { M, N }, strides[2] = { row, column };
    for (int i = 0; i < 2 * M * N + 64; i++) {
        xs[i] = (float)(i % 101) - 50;
        ys[i] = want[i] = (float)(i % 7);
    }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            want[offset + i * row + j * column] += 1.5f * 2 * xs[offset + i * row + j * column];
    EXPECT("axpy",
        axpy_f32((tile_view){ xs + offset, shape, strides }, (tile_view){ ys + offset, shape, strides }, 1.5f,
            2, threads),
        TILE_LAUNCH_OK);
    for (int i = 0; i < 2 * M * N + 64; i++)
        if (ys[i] != want[i]) {
            printf("axpy with strides %d, %d at %d: element %d is %g, not %g\n", (int)row, (int)column,
                offset, i, ys[i], want[i]);
            failures++;
            return;
        }
}

static void check_dot(int64_t d, bool negate, int want_status)
{
    static float x[M * 64], y[M * 64], z[M];
    int64_t shape[2] = { M, d }, out[1] = { M };
    for (int i = 0; i < M * 64; i++) {
        x[i] = (float)(i % 13);
        y[i] = (float)(i % 5) - 2;
    }
    int status = dot((tile_view){ x, shape, NULL }, (tile_view){ y, shape, NULL },
        (tile_view){ z, out, NULL }, negate, NULL);
    EXPECT("dot", status, want_status);
    for (int i = 0; i < M && !status; i++) {
        double s = 0;
        for (int64_t k = 0; k < d; k++) s += x[i * d + k] * y[i * d + k];
        if (fabs(z[i] - (negate ? -s : s)) > 1e-3) {
            printf("dot: row %d is %g, not %g\n", i, z[i], negate ? -s : s);
            failures++;
            return;
        }
    }
}

static void check_swap(int64_t n, int want_status)
{
    static int32_t y[64];
    int status = swap((tile_view){ y, &n, NULL }, NULL);
    EXPECT("swap", status, want_status);
    for (int64_t i = 0; i < n && !status; i++) EXPECT("swap's element", y[i], i);
}

static void check_errors(void)
{
    static float x[M * N + 1], y[M * N + 1];
    int64_t shape[2] = { M, N }, other[2] = { M, N - 1 }, negative[2] = { -1, N }, none[2] = { 0, N };
    tile_view X = { x, shape, NULL }, Y = { y, shape, NULL };
    EXPECT("other extents", axpy_f32(X, (tile_view){ y, other, NULL }, 1, 1, NULL), TILE_LAUNCH_SHAPE);
    EXPECT("negative extent",
        axpy_f32((tile_view){ x, negative, NULL }, (tile_view){ y, negative, NULL }, 1, 1, NULL),
        TILE_LAUNCH_SHAPE);
    EXPECT("no extents", axpy_f32((tile_view){ x, NULL, NULL }, Y, 1, 1, NULL), TILE_LAUNCH_INVALID);
    EXPECT("an odd address", axpy_f32((tile_view){ (char *)x + 1, shape, NULL }, Y, 1, 1, NULL),
        TILE_LAUNCH_ALIGNMENT);
    EXPECT("overlap", axpy_f32((tile_view){ y + 1, shape, NULL }, Y, 1, 1, NULL), TILE_LAUNCH_OVERLAP);
    EXPECT("an output that repeats its rows",
        axpy_f32(X, (tile_view){ y, shape, (int64_t[]){ 0, 1 } }, 1, 1, NULL), TILE_LAUNCH_OVERLAP);
    EXPECT("an input that does", axpy_f32((tile_view){ x, shape, (int64_t[]){ 0, 1 } }, Y, 1, 1, NULL),
        TILE_LAUNCH_OK);
    EXPECT("no programs",
        axpy_f32((tile_view){ NULL, none, NULL }, (tile_view){ NULL, none, NULL }, 1, 1, NULL),
        TILE_LAUNCH_OK);
}

/* Every status of a launcher has a text of its own. */
static void check_names(void)
{
    static const int all[] = { 0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19 };
    enum { N_STATUSES = sizeof all / sizeof *all };
    for (int i = 0; i < N_STATUSES; i++)
        for (int k = 0; k < i; k++)
            EXPECT("two statuses with one text",
                strcmp(tile_launch_status_name(all[i]), tile_launch_status_name(all[k])) == 0, 0);
    EXPECT("the text of a bad shape",
        strncmp(tile_launch_status_name(TILE_LAUNCH_SHAPE), "shape: extents disagree", 23), 0);
    EXPECT("the text of no status", strcmp(tile_launch_status_name(-1), "an unknown status"), 0);
}

int main(void)
{
    check_names();
    int calls = 0;
    const tile_threads modes[] = { { 1, NULL, NULL }, { 0, NULL, NULL }, { 5, NULL, NULL },
        { 3, serial, &calls } };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        check_axpy(408, 1, 0, &modes[i]);   /* rows 16-byte aligned */
        check_axpy(N, 1, 1, &modes[i]);     /* nothing aligned */
        check_axpy(2 * N, 2, 3, &modes[i]); /* every other element */
        check_axpy(1, M, 4, &modes[i]);     /* transposed */
    }
    check_axpy(N, 1, 0, NULL);
    EXPECT("calls of the pool", calls, 4);
    uint16_t hx[2] = { 0x3c00, 0x4000 }, hy[2] = { 0, 0x3c00 }; /* 1, 2; 0, 1 */
    int64_t pair[2] = { 1, 2 };
    EXPECT("axpy in f16", axpy_f16((tile_view){ hx, pair, NULL }, (tile_view){ hy, pair, NULL }, 1, 1, NULL),
        TILE_LAUNCH_OK);
    EXPECT("1 * 1 + 0", hy[0], 0x3c00);
    EXPECT("1 * 2 + 1", hy[1], 0x4200);
    for (int negate = 0; negate < 2; negate++) {
        check_dot(16, negate, TILE_LAUNCH_OK);
        check_dot(48, negate, TILE_LAUNCH_OK);
        check_dot(32, negate, TILE_LAUNCH_NO_VARIANT);
    }
    check_swap(64, TILE_LAUNCH_OK);
    check_swap(2, TILE_LAUNCH_OK);
    check_swap(63, TILE_LAUNCH_REMAP);
    check_swap(64, TILE_LAUNCH_OK); /* Results are kept, one for each grid. */
    check_swap(63, TILE_LAUNCH_REMAP);
    check_errors();
    if (!failures) puts("all launches as expected");
    return failures != 0;
}
