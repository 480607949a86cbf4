/* softmax.c: a tile kernel inside a C program: compiled when first launched, for whatever device there is.
 *
 *     ./softmax ../kernels/softmax.tile [cpu|cuda|hip] */
#include <stdio.h>
#include <stdlib.h>
#include <tile/tile.h>

static void check(tile_context *ctx, tile_status status)
{
    char text[1000];
    if (status == TILE_OK) return;
    tile_context_error(ctx, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    exit(1);
}

int main(int argc, char **argv)
{
    tile_context_desc desc = { .struct_size = sizeof desc, .target = argc > 2 ? argv[2] : NULL };
    tile_context *ctx;
    tile_module *mod;
    tile_kernel *softmax;
    char why[500];
    if (argc < 2) return fprintf(stderr, "usage: softmax FILE.tile [TARGET]\n"), 2;
    if (tile_context_create_error(&desc, &ctx, why, sizeof why)) return fprintf(stderr, "%s\n", why), 1;
    check(ctx, tile_module_load_file(ctx, argv[1], NULL, &mod));
    tile_binding f32 = { "T", TILE_BIND_DTYPE, { .dtype = TILE_F32 } };
    check(ctx, tile_kernel_create(mod, "softmax", &f32, 1, &softmax));

    enum { M = 1000, N = 777 };
    static float host[M * N];
    for (int i = 0; i < M * N; i++) host[i] = (float)(i % 17);
    DLTensor *x, *y;
    check(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F32, 2, (int64_t[]){ M, N }, &x));
    check(ctx, tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F32, 2, (int64_t[]){ M, N }, &y));

    check(ctx, tile_copy(ctx, x->data, host, sizeof host, NULL));
    check(ctx, tile_launch(softmax, (tile_arg[]){ tile_arg_dltensor(x), tile_arg_dltensor(y) }, 2, NULL));
    check(ctx, tile_copy(ctx, host, y->data, sizeof host, NULL));
    check(ctx, tile_stream_synchronize(ctx, NULL));

    double sum = 0;
    for (int i = 0; i < M * N; i++) sum += host[i];
    printf("%d rows sum to %.4f\n", M, sum);
    tile_tensor_destroy(ctx, x), tile_tensor_destroy(ctx, y);
    tile_kernel_destroy(softmax), tile_module_destroy(mod), tile_context_destroy(ctx);
    return sum < M - 0.01 || sum > M + 0.01;
}
