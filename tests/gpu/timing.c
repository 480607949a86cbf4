/* timing: the table of kernels by time on one GPU, through the public API alone.
 *
 *     tile_gpu_timing [--target=cuda:sm_80] [--kernels=FOLDER] [--only=TEXT]
 *
 * Each row: median of 21 launches, caches flushed before each by filling 256 MB, measured by events on one
 * stream. Rows bound by memory are compared with the device's own copy of as many bytes; products and
 * attention give TFLOPS. Results are not checked here: tile_run_test --device=cuda does that. Exit 0, 1 when
 * a row fails, 77 where there is no device. */
#include "tile/tile.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 21, MAX_TENSORS = 6, FLUSH = 256 << 20 };

typedef struct Row {
    const char *name, *file, *kernel, *consts; /* consts: "T=f16 TM=64" */
    const char *tensors; /* "f16 32768 4096; f16 4096; ..." in the order of the parameters */
    const char *scalars; /* values behind the tensors: "1e-5", or "" */
    double gflop;        /* 0: bound by memory, which moves every byte of every tensor once */
} Row;

static const Row rows[] = {
    { "copy-like vector_add f32 64M", "vector_add", "vector_add", "T=f32 BLOCK=1024",
        "f32 67108864; f32 67108864; f32 67108864", "", 0 },
    { "silu f16 32768x4096", "silu", "silu", "T=f16", "f16 32768 4096; f16 32768 4096", "", 0 },
    { "softmax f16 32768x4096", "softmax", "softmax", "T=f16", "f16 32768 4096; f16 32768 4096", "", 0 },
    { "softmax f16 131072x1009", "softmax", "softmax", "T=f16", "f16 131072 1009; f16 131072 1009", "", 0 },
    { "softmax f16 256x500000", "softmax", "softmax", "T=f16", "f16 256 500000; f16 256 500000", "", 0 },
    { "rms_norm f16 32768x4096", "rms_norm_matrix", "rms_norm_matrix", "T=f16",
        "f16 32768 4096; f16 4096; f16 32768 4096", "1e-5", 0 },
    { "rms_norm f16 131072x1009", "rms_norm_matrix", "rms_norm_matrix", "T=f16",
        "f16 131072 1009; f16 1009; f16 131072 1009", "1e-5", 0 },
    { "rms_norm f16 256x500000", "rms_norm_matrix", "rms_norm_matrix", "T=f16",
        "f16 256 500000; f16 500000; f16 256 500000", "1e-5", 0 },
    { "layer_norm f16 32768x4096", "layer_norm", "layer_norm", "T=f16",
        "f16 32768 4096; f16 4096; f16 4096; f16 32768 4096", "1e-5", 0 },
    { "layer_norm_long f16 2048x65536", "layer_norm", "layer_norm_long", "T=f16",
        "f16 2048 65536; f16 65536; f16 65536; f16 2048 65536", "1e-5", 0 },
    { "transpose f32 8192x8192", "transpose", "transpose", "T=f32", "f32 8192 8192; f32 8192 8192", "", 0 },
    { "transpose f32 8191x8193", "transpose", "transpose", "T=f32", "f32 8191 8193; f32 8193 8191", "", 0 },
    { "transpose f16 8192x8192", "transpose", "transpose", "T=f16", "f16 8192 8192; f16 8192 8192", "", 0 },
    { "max_pool f16 32x64x224x224", "max_pool", "max_pool", "T=f16", "f16 32 64 224 224; f16 32 64 112 112",
        "", 0 },
    { "gemm f16 4096 128x128x32", "gemm", "gemm", "T=f16 TO=f16 TM=128 TN=128 TK=32 STAGES=4",
        "f16 4096 4096; f16 4096 4096; f16 4096 4096", "", 137.438953472 },
    { "gemm f16 4096 128x128x64", "gemm", "gemm", "T=f16 TO=f16 TM=128 TN=128 TK=64 STAGES=3",
        "f16 4096 4096; f16 4096 4096; f16 4096 4096", "", 137.438953472 },
    { "gemm f16 4096 128x256x32", "gemm", "gemm", "T=f16 TO=f16 TM=128 TN=256 TK=32 STAGES=4",
        "f16 4096 4096; f16 4096 4096; f16 4096 4096", "", 137.438953472 },
    { "gemm f16 4096 256x128x32", "gemm", "gemm", "T=f16 TO=f16 TM=256 TN=128 TK=32 STAGES=4",
        "f16 4096 4096; f16 4096 4096; f16 4096 4096", "", 137.438953472 },
    { "attention f16 full D64 N4096 TN64", "attention", "attention", "T=f16 CAUSAL=false TM=128 TN=64",
        "f16 4 16 4096 64; f16 4 16 4096 64; f16 4 16 4096 64; f16 4 16 4096 64", "0.125", 274.877906944 },
    { "attention f16 full D128 N4096 TN64", "attention", "attention", "T=f16 CAUSAL=false TM=128 TN=64",
        "f16 4 16 4096 128; f16 4 16 4096 128; f16 4 16 4096 128; f16 4 16 4096 128", "0.0883883476",
        549.755813888 },
    { "attention f16 full D128 N4096 TN128", "attention", "attention", "T=f16 CAUSAL=false TM=128 TN=128",
        "f16 4 16 4096 128; f16 4 16 4096 128; f16 4 16 4096 128; f16 4 16 4096 128", "0.0883883476",
        549.755813888 },
    { "attention f16 causal D128 N4096 TN64", "attention", "attention", "T=f16 CAUSAL=true TM=128 TN=64",
        "f16 4 16 4096 128; f16 4 16 4096 128; f16 4 16 4096 128; f16 4 16 4096 128", "0.0883883476",
        274.877906944 },
};

typedef struct Data {
    tile_tensor t;
    int64_t shape[8];
    size_t bytes;
} Data;

static int compare(const void *a, const void *b)
{ return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static tile_dtype dtype_named(const char *s, size_t n)
{
    for (int d = TILE_BOOL; d <= TILE_F64; d++) {
        const char *name = tile_dtype_name((tile_dtype)d);
        if (strlen(name) == n && !memcmp(name, s, n)) return (tile_dtype)d;
    }
    return TILE_NONE;
}

/* Small numbers of either sign: bits of f16 and f32 in [-2, 2]. */
static tile_status fill(tile_context *c, const Data *d)
{
    enum { CHUNK = 1 << 20 };
    static unsigned char host[CHUNK];
    static uint32_t x = 12345;
    for (size_t k = 0; k + 4 <= CHUNK; k += 4) {
        x = x * 1664525u + 1013904223u;
        float f = (float)(int32_t)x / 2147483648.0f;
        uint32_t w;
        memcpy(&w, &f, 4);
        if (d->t.dtype == TILE_F16)
            w = ((x >> 16 & 0x83ff) | 0x3800) | ((uint32_t)((x & 0x83ff) | 0x3800) << 16);
        memcpy(host + k, &w, 4);
    }
    tile_status s = TILE_OK;
    for (size_t at = 0; s == TILE_OK && at < d->bytes; at += CHUNK)
        s = tile_copy(c, (char *)d->t.data + at, host, d->bytes - at < CHUNK ? d->bytes - at : CHUNK, NULL);
    return s;
}

static tile_status make(tile_context *c, const char **text, Data *d)
{
    const char *p = *text + strspn(*text, " ;");
    size_t n = strcspn(p, " ;");
    d->t = (tile_tensor){ .shape = d->shape, .dtype = dtype_named(p, n) };
    d->bytes = tile_dtype_size(d->t.dtype);
    for (p += n; *p && *p != ';' && d->t.rank < 8;) {
        char *end;
        d->shape[d->t.rank] = strtoll(p, &end, 10);
        d->bytes *= (size_t)d->shape[d->t.rank++];
        p = end;
    }
    *text = p;
    tile_status s = tile_memory_alloc(c, TILE_MEMORY_DEVICE, d->bytes, &d->t.data);
    return s == TILE_OK ? fill(c, d) : s;
}

typedef struct Bench {
    tile_context *c;
    void *stream, *start, *end, *flush;
    const char *folder;
    double copy_gbs;
} Bench;
typedef struct Work {
    tile_kernel *k;
    const tile_arg *args;
    size_t n;
    void *to;
    const void *from;
    size_t bytes;
} Work;

static tile_status once(Bench *b, const Work *w, double *ms)
{
    tile_launch_desc desc = { .struct_size = sizeof desc, .stream = b->stream };
    tile_status s = tile_fill(b->c, b->flush, 0, FLUSH, b->stream);
    if (s == TILE_OK) s = tile_event_record(b->c, b->start, b->stream);
    if (s == TILE_OK)
        s = w->k ? tile_launch(w->k, w->args, w->n, &desc)
                 : tile_copy(b->c, w->to, w->from, w->bytes, b->stream);
    if (s == TILE_OK) s = tile_event_record(b->c, b->end, b->stream);
    if (s == TILE_OK) s = tile_event_synchronize(b->c, b->end);
    return s == TILE_OK ? tile_event_elapsed(b->c, b->start, b->end, ms) : s;
}

static tile_status median(Bench *b, const Work *w, double *out)
{
    double t[ROUNDS];
    tile_status s = TILE_OK;
    for (int k = -3; k < ROUNDS && s == TILE_OK; k++) s = once(b, w, k < 0 ? &t[0] : &t[k]);
    qsort(t, ROUNDS, sizeof *t, compare);
    *out = t[ROUNDS / 2];
    return s;
}

static tile_status kernel_of(Bench *b, const Row *r, tile_module **m, tile_kernel **k)
{
    char path[512], names[8][32], values[8][32];
    tile_binding bind[8];
    size_t n = 0;
    int used;
    snprintf(path, sizeof path, "%s/%s.tile", b->folder, r->file);
    for (const char *p = r->consts;
        n < 8 && sscanf(p, " %31[^= ]=%31[^ ]%n", names[n], values[n], &used) == 2; p += used, n++)
        bind[n] = (tile_binding){ .name = names[n], .kind = TILE_BIND_TEXT, .value.text = values[n] };
    tile_status s = tile_module_load_file(b->c, path, NULL, m);
    return s == TILE_OK ? tile_kernel_create(*m, r->kernel, bind, n, k) : s;
}

static bool run_row(Bench *b, const Row *r)
{
    Data d[MAX_TENSORS] = { 0 };
    tile_arg args[MAX_TENSORS + 2];
    size_t n = 0, bytes = 0;
    tile_module *m = NULL;
    tile_kernel *k = NULL;
    double ms = 0;
    tile_status s = kernel_of(b, r, &m, &k);
    for (const char *p = r->tensors; s == TILE_OK && *p && n < MAX_TENSORS; n++) {
        s = make(b->c, &p, &d[n]);
        args[n] = tile_arg_tensor(&d[n].t);
        bytes += d[n].bytes;
    }
    size_t tensors = n;
    if (*r->scalars) args[n++] = tile_arg_float(atof(r->scalars));
    Work w = { .k = k, .args = args, .n = n };
    if (s == TILE_OK) s = median(b, &w, &ms);
    if (s != TILE_OK) {
        char why[600] = "";
        tile_context_error(b->c, why, sizeof why);
        printf("%-40s FAIL %s: %s\n", r->name, tile_status_name(s), why);
    } else if (r->gflop) printf("%-40s %9.4f ms %8.1f TFLOPS\n", r->name, ms, r->gflop / ms);
    else
        printf("%-40s %9.4f ms %8.1f GB/s  %.3f of copy\n", r->name, ms, (double)bytes / ms * 1e-6,
            (double)bytes / ms * 1e-6 / b->copy_gbs);
    fflush(stdout);
    for (size_t i = 0; i < tensors; i++) tile_memory_free(b->c, TILE_MEMORY_DEVICE, d[i].t.data);
    tile_kernel_destroy(k);
    tile_module_destroy(m);
    return s == TILE_OK;
}

int main(int argc, char **argv)
{
    Bench b = { .folder = "examples/kernels" };
    const char *target = "cuda", *only = "";
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--target=", 9)) target = argv[i] + 9;
        else if (!strncmp(argv[i], "--kernels=", 10)) b.folder = argv[i] + 10;
        else if (!strncmp(argv[i], "--only=", 7)) only = argv[i] + 7;
        else {
            fprintf(stderr, "tile_gpu_timing: bad arguments; see the head of timing.c\n");
            return 2;
        }
    }
    char why[400];
    tile_context_desc desc = { .struct_size = sizeof desc, .target = target };
    if (tile_context_create_error(&desc, &b.c, why, sizeof why) != TILE_OK) {
        printf("SKIP: %s\n", why);
        return 77;
    }
    void *from, *to;
    size_t bytes = (size_t)256 << 20;
    double ms;
    if (tile_stream_create(b.c, &b.stream) || tile_event_create(b.c, &b.start) ||
        tile_event_create(b.c, &b.end) || tile_memory_alloc(b.c, TILE_MEMORY_DEVICE, FLUSH, &b.flush) ||
        tile_memory_alloc(b.c, TILE_MEMORY_DEVICE, bytes, &from) ||
        tile_memory_alloc(b.c, TILE_MEMORY_DEVICE, bytes, &to) ||
        median(&b, &(Work){ .to = to, .from = from, .bytes = bytes }, &ms)) {
        printf("FAIL: the device cannot be set up\n");
        return 1;
    }
    b.copy_gbs = 2.0 * (double)bytes / ms * 1e-6;
    printf("%-40s %9.4f ms %8.1f GB/s\n", "copy of 256 MB", ms, b.copy_gbs);
    tile_memory_free(b.c, TILE_MEMORY_DEVICE, from);
    tile_memory_free(b.c, TILE_MEMORY_DEVICE, to);
    int failed = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(rows[i].name, only)) failed += !run_row(&b, &rows[i]);
    tile_memory_free(b.c, TILE_MEMORY_DEVICE, b.flush);
    tile_event_destroy(b.c, b.start);
    tile_event_destroy(b.c, b.end);
    tile_stream_destroy(b.c, b.stream);
    tile_context_destroy(b.c);
    return failed != 0;
}
