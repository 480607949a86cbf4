/* softmax.c: a tile kernel inside a C program: compiled when first launched, for whatever device there is.
 *
 *     ./softmax ../kernels/softmax.tile [cpu|cuda|hip]                                                      */
#include <stdio.h>
#include <tile/tile.h>

static void show(void *user, const tile_diagnostic *d) { (void)user; fputs(d->rendered, stderr); }

static int fail(tile_context *ctx, const char *what)
{
    char text[1000];
    tile_context_error(ctx, text, sizeof text);
    return fprintf(stderr, "%s: %s\n", what, text), 1;
}

int main(int argc, char **argv)
{
    tile_context_desc desc = { .struct_size = sizeof desc, .target = argc > 2 ? argv[2] : NULL, .on_diagnostic = show };
    tile_context *ctx; tile_module *mod; tile_kernel *softmax;
    char why[500];
    if (argc < 2) return fprintf(stderr, "usage: softmax FILE.tile [TARGET]\n"), 2;
    if (tile_context_create_error(&desc, &ctx, why, sizeof why)) return fprintf(stderr, "%s\n", why), 1;
    if (tile_module_load_file(ctx, argv[1], NULL, &mod)) return fail(ctx, "load");
    tile_binding f32 = { "T", TILE_BIND_DTYPE, { .dtype = TILE_F32 } };
    if (tile_kernel_create(mod, "softmax", &f32, 1, &softmax)) return fail(ctx, "kernel");

    enum { M = 1000, N = 777 };
    static float host[M][N];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) host[i][j] = (float)(i * j % 17);
    DLTensor *x, *y;
    if (tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F32, 2, (int64_t[]){ M, N }, &x)) return fail(ctx, "memory");
    if (tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F32, 2, (int64_t[]){ M, N }, &y)) return fail(ctx, "memory");

    if (tile_copy(ctx, x->data, host, sizeof host, NULL)) return fail(ctx, "copy");
    tile_arg args[] = { tile_arg_dltensor(x), tile_arg_dltensor(y) };
    if (tile_launch(softmax, args, 2, NULL)) return fail(ctx, "launch");
    if (tile_copy(ctx, host, y->data, sizeof host, NULL)) return fail(ctx, "copy");
    if (tile_stream_synchronize(ctx, NULL)) return fail(ctx, "device");

    double worst = 0;
    for (int i = 0; i < M; i++) {
        double sum = -1;
        for (int j = 0; j < N; j++) sum += host[i][j];
        worst = sum > worst ? sum : -sum > worst ? -sum : worst;
    }
    printf("rows sum to 1 within %.1e\n", worst);
    tile_tensor_destroy(ctx, x), tile_tensor_destroy(ctx, y);
    tile_kernel_destroy(softmax), tile_module_destroy(mod), tile_context_destroy(ctx);
    return worst > 1e-5;
}
