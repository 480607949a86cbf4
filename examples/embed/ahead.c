/* ahead.c: the same kernel compiled with the program, by tile_add_library(): no compiler, no libtile and no
 * .tile file at run time. `softmax_f32` and its header softmax.h were written by tilec from
 * ../kernels/softmax.tile. */
#include "softmax.h"
#include <stdio.h>

int main(void)
{
    enum { M = 1000, N = 1024 };
    static float x[M][N], y[M][N];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) x[i][j] = (float)(i * j % 17);

    const int64_t shape[] = { M, N };
    tile_view X = { x, shape, NULL }, Y = { y, shape, NULL };
    int status = softmax(X, Y, NULL);
    if (status) return fprintf(stderr, "softmax: status %d\n", status), 1;

    double worst = 0;
    for (int i = 0; i < M; i++) {
        double sum = -1;
        for (int j = 0; j < N; j++) sum += y[i][j];
        worst = sum > worst ? sum : -sum > worst ? -sum : worst;
    }
    printf("rows sum to 1 within %.1e\n", worst);
    return worst > 1e-5;
}
