/* serve.c: plain pointers, diagnostics and errors, and a server that compiles nothing once it has started.
 *
 *     ./serve ../kernels/softmax.tile [cpu|cuda|hip] */
#include <stdio.h>
#include <stdlib.h>
#include <tile/tile.h>

static void on_diagnostic(void *user, const tile_diagnostic *d)
{
    (void)user;
    if (d->severity == TILE_SEVERITY_ERROR)
        printf("line %d, column %d: %s\n", d->line, d->column, d->message);
}

/* Prints what went wrong and gives the status back, which says what to do about it. */
static tile_status tell(tile_context *ctx, tile_status status)
{
    char text[2000];
    if (status == TILE_OK) return status;
    tile_context_error(ctx, text, sizeof text);
    printf("%s: %s\n", tile_status_name(status), text);
    return status;
}

/* Softmax of `rows` rows of 1000 floats at `x`. On a GPU these are pointers of the device. */
static tile_status softmax_rows(tile_kernel *k, const float *x, float *y, int64_t rows, void *stream)
{
    int64_t shape[2] = { rows, 1000 }, strides[2] = { 1000, 1 };
    tile_tensor in = { (void *)x, shape, strides, 2, TILE_F32 }, out = { y, shape, NULL, 2, TILE_F32 };
    tile_launch_desc desc = { .struct_size = sizeof desc, .stream = stream };
    return tile_launch(k, (tile_arg[]){ tile_arg_tensor(&in), tile_arg_tensor(&out) }, 2, &desc);
}

int main(int argc, char **argv)
{
    static const char wrong[] = "kernel k(in f32 X[N]) grid (N) { let x = load(Z[0]); }\n";
    tile_context_desc desc = { .struct_size = sizeof desc,
        .target = argc > 2 ? argv[2] : "cpu",
        .flags = TILE_CONTEXT_PINNED, /* the same launch takes the same configuration, whatever ran before */
        .on_diagnostic = on_diagnostic };
    tile_context *ctx;
    tile_module *mod;
    tile_kernel *k;
    char text[2000];
    size_t variants;
    if (argc < 2) return fprintf(stderr, "usage: serve FILE.tile [TARGET]\n"), 2;
    if (tile_context_create_error(&desc, &ctx, text, sizeof text)) return fprintf(stderr, "%s\n", text), 1;
    if (tile_module_load_memory(ctx, "wrong.tile", wrong, sizeof wrong - 1, NULL, &mod) == TILE_ERROR_COMPILE)
        printf("as it should be: the callback had the error\n");

    tile_binding f32 = { "T", TILE_BIND_DTYPE, { .dtype = TILE_F32 } };
    if (tell(ctx, tile_module_load_file(ctx, argv[1], NULL, &mod))) return 1;
    if (tell(ctx, tile_kernel_create(mod, "softmax", &f32, 1, &k))) return 1;

    tile_dim_range ranges[] = { { "M", 1, 64, 1 }, { "N", 1000, 1000, 1 } };
    tile_prepare_desc prepare = { .struct_size = sizeof prepare, .dims = ranges, .n_dims = 2 };
    if (tell(ctx, tile_kernel_prepare(k, &prepare, &variants))) return 1;
    printf("%zu variants serve 64 shapes\n", variants);
    tile_context_seal(ctx, 1);

    float *x, *y;
    size_t bytes = sizeof(float) * 64 * 1000;
    if (tell(ctx, tile_memory_alloc(ctx, TILE_MEMORY_DEVICE, bytes + 256, (void **)&x))) return 1;
    if (tell(ctx, tile_memory_alloc(ctx, TILE_MEMORY_DEVICE, bytes, (void **)&y))) return 1;
    if (tell(ctx, tile_fill(ctx, x, 0, bytes + 256, NULL))) return 1;
    for (int64_t rows = 1; rows <= 64; rows++)
        if (tell(ctx, softmax_rows(k, x, y, rows, NULL))) return 1;
    printf("64 launches, none compiled\n");
    int refused = tell(ctx, softmax_rows(k, x + 1, y, 5, NULL)) == TILE_ERROR_SEALED; /* not aligned */
    tile_context_missing(ctx, text, sizeof text);
    printf("missing:\n%s", text);

    tile_context_synchronize(ctx);
    tile_memory_free(ctx, TILE_MEMORY_DEVICE, x), tile_memory_free(ctx, TILE_MEMORY_DEVICE, y);
    tile_kernel_destroy(k), tile_module_destroy(mod), tile_context_destroy(ctx);
    return !refused;
}
