/* test_pitch.c: inputs with rows where the copy engine does not reach (pitch.c): which launches copy them
 * first, where the copies lie, and what becomes of their memory. Runs on the fake CUDA driver, whose tensor
 * maps refuse strides that are no multiples of 16 bytes. */
#define _GNU_SOURCE
#include "api.h"
#include <dirent.h>
#include <sys/stat.h>
#include <utime.h>

static tile_context *ctx;
static FakeState *fake;
static Counter counter;    /* of the context's memory */
static const char *folder; /* of the disk cache; NULL: none */
static uint16_t memory[4 << 20] __attribute__((aligned(256)));

enum { MOST = 8 };
static int launched;                  /* launches that the callback saw */
static uint64_t first_words[MOST][3]; /* of each: data of its first parameters */

static void on_launch(void **params)
{
    for (int i = 0; i < 3 && launched < MOST; i++) memcpy(&first_words[launched][i], params[i], 8);
    launched++;
}

static const char product_text[] =
    "kernel gemm(in f16 A[M, K], in f16 B[K, N], out f16 C[M, N], const int TM = 128, const int TN = 128,\n"
    "            const int TK = 32) grid (cdiv(M, TM), cdiv(N, TN)) {\n"
    "    let (i, j) = program_id();\n    var acc = zeros([TM, TN], f32);\n"
    "    for k in 0 .. cdiv(K, TK) {\n"
    "        acc = mma(load(A[i*TM +: TM, k*TK +: TK], latency = 4),\n"
    "                  load(B[k*TK +: TK, j*TN +: TN], latency = 4), acc);\n    }\n"
    "    store(C[i*TM +: TM, j*TN +: TN], f16(acc));\n}\n"
    "tune gemm { TM in {64, 128}; TN in {64, 128}; TK in {32, 64}; key (M, N, K); }\n";

static bool begin(uint32_t flags)
{
    fake = fake_open(FAKE_CUDA);
    fake->on_launch = on_launch;
    tile_context_desc cd = fake_desc("cuda", FAKE_CUDA);
    cd.flags |= flags;
    if (folder) cd.flags &= ~(uint32_t)TILE_CONTEXT_NO_CACHE;
    cd.cache_directory = folder;
    counter = (Counter){ 0 };
    cd.allocator = (tile_allocator){ counter_realloc, &counter };
    if (!tile_context_create(&cd, &ctx)) return true;
    CU_FAIL("context");
    return false;
}

static tile_kernel *product(void)
{
    tile_kernel *k;
    OK(ctx, kernel_of(ctx, product_text, "gemm", NULL, 0, &k));
    return k;
}

typedef struct Product {
    int64_t a[2], b[2], c[2], sa[2], sb[2], sc[2];
    tile_tensor t[3];
    tile_arg args[3];
} Product;

/* Operands of M x N x K, rows of A and B so many elements apart; turned: B lies transposed. */
static void operands(
    Product *p, int64_t m, int64_t n, int64_t k, int64_t pitch_a, int64_t pitch_b, bool turned)
{
    *p = (Product){ { m, k }, { k, n }, { m, n }, { pitch_a, 1 },
        { turned ? 1 : pitch_b, turned ? pitch_b : 1 }, { (n + 7) / 8 * 8, 1 }, { { 0 } }, { { 0 } } };
    int64_t *shape[] = { p->a, p->b, p->c }, *strides[] = { p->sa, p->sb, p->sc };
    for (int i = 0; i < 3; i++) {
        p->t[i] = (tile_tensor){ memory + ((size_t)i << 20), shape[i], strides[i], -1, TILE_NONE };
        p->args[i] = tile_arg_tensor(&p->t[i]);
    }
}

/* The launches that one launch makes. */
static int launches_of(tile_kernel *k, const Product *p)
{
    launched = 0;
    OK(ctx, tile_launch(k, p->args, 3, NULL));
    return launched;
}

/* Whether launch i was given the address of operand t. */
static bool reads(int i, const tile_tensor *t)
{
    bool found = false;
    for (int k = 0; k < 3; k++) found |= first_words[i][k] == (uintptr_t)t->data;
    return found;
}

static void test_copies(void)
{
    Product p;
    if (!begin(0)) return;
    tile_kernel *k = product();
    operands(&p, 900, 900, 901, 901, 901, false);
    tile_variant_info v = { .struct_size = sizeof v };
    OK(ctx, tile_kernel_variant(k, p.args, 3, &v));
    int compiled = fake->compiles;
    CU_ASSERT_EQUAL(launches_of(k, &p), 2);    /* a copy of A and B, and the product */
    CU_ASSERT_EQUAL(fake->compiles, compiled); /* the question has compiled all of them */
    CU_ASSERT(fake->tensor_maps >= 2);
    CU_ASSERT(reads(0, &p.t[0]) && !reads(1, &p.t[0]) && !reads(1, &p.t[1]));
    int64_t held = fake->live_memory, asked = fake->allocs;
    CU_ASSERT_EQUAL(launches_of(k, &p), 2);
    CU_ASSERT_EQUAL(fake->live_memory, held); /* what was allocated was freed */
    CU_ASSERT_EQUAL(fake->allocs, asked + 1); /* at once, for both copies */
    operands(&p, 900, 100, 901, 901, 101, false);
    CU_ASSERT_EQUAL(launches_of(k, &p), 3); /* by tiles of different widths */
    CU_ASSERT(reads(0, &p.t[0]) && reads(1, &p.t[1]));
    operands(&p, 900, 900, 904, 904, 905, true);
    CU_ASSERT_EQUAL(launches_of(k, &p), 2); /* A is in reach; the rows of B lie along K */
    operands(&p, 900, 904, 904, 904, 904, false);
    CU_ASSERT_EQUAL(launches_of(k, &p), 1);
    operands(&p, 17, 65, 33, 33, 65, false);
    CU_ASSERT_EQUAL(launches_of(k, &p), 1); /* takes no longer than a copy */
    operands(&p, 62, 134, 502, 506, 138, false);
    CU_ASSERT_EQUAL(launches_of(k, &p), 1); /* nor does this, by words of 4 bytes */
    operands(&p, 62, 134, 502, 505, 137, false);
    CU_ASSERT_EQUAL(launches_of(k, &p), 2); /* odd rows take longer */
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
    CU_ASSERT_EQUAL(atomic_load(&counter.live), 0);
}

/* Rows at one distance are copied, whatever the order of the axes; others, and rows that overlap, are not. */
static void test_rows(void)
{
    Product p;
    if (!begin(0)) return;
    tile_kernel *k = product();
    operands(&p, 900, 904, 901, 1001, 904, false);
    CU_ASSERT_EQUAL(launches_of(k, &p), 2); /* rows further apart than they are long */
    CU_ASSERT(reads(0, &p.t[0]));
    p.t[0].data = memory + 1;
    p.sa[0] = 904;
    CU_ASSERT_EQUAL(launches_of(k, &p), 2); /* strides in reach, an address that is not */
    p.t[0].data = memory;
    p.sa[0] = 0;
    CU_ASSERT_EQUAL(launches_of(k, &p), 1); /* one row for all */
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* Products of tf32 and 8-bit types, of which wgmma takes operands with K contiguous alone. */
static void test_transposed(void)
{
    static const char text[] =
        "kernel gemm(in f32 A[M, K], in f32 B[K, N], out f32 C[M, N], const int TM = 128, const int TN = "
        "128)\n"
        "    grid (cdiv(M, TM), cdiv(N, TN)) {\n"
        "    let (i, j) = program_id();\n    var acc = zeros([TM, TN], f32);\n"
        "    for k in 0 .. cdiv(K, 32) {\n"
        "        acc = mma(load(A[i*TM +: TM, k*32 +: 32], latency = 4),\n"
        "                  load(B[k*32 +: 32, j*TN +: TN], latency = 4), acc, precision = tf32);\n    }\n"
        "    store(C[i*TM +: TM, j*TN +: TN], acc);\n}\n"
        "tune gemm { TM in {64, 128}; TN in {64, 128}; key (M, N, K); }\n";
    tile_kernel *k;
    Product p;
    if (!begin(0)) return;
    OK(ctx, kernel_of(ctx, text, "gemm", NULL, 0, &k));
    operands(&p, 768, 768, 768, 768, 768, false);
    for (int i = 0; i < 3; i++) p.t[i].data = memory + (size_t)i * 1310720;
    CU_ASSERT_EQUAL(launches_of(k, &p), 2); /* B, then the product */
    CU_ASSERT(reads(0, &p.t[1]));
    operands(&p, 768, 768, 768, 768, 768, true);
    for (int i = 0; i < 3; i++) p.t[i].data = memory + (size_t)i * 1310720;
    CU_ASSERT_EQUAL(launches_of(k, &p), 1); /* B lies so */
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

static const char converted_text[] =
    "kernel gemm(in f32 A[M, K], in f32 B[N, K], out f32 C[M, N], const int TM = 128, const int TN = "
    "128,\n"
    "            const bool BOTH = false) grid (cdiv(M, TM), cdiv(N, TN)) {\n"
    "    let (i, j) = program_id();\n    var acc = zeros([TM, TN], f32);\n"
    "    for k in 0 .. cdiv(K, 64) {\n"
    "        let a = load(A[i*TM +: TM, k*64 +: 64]);\n        let b = load(B[j*TN +: TN, k*64 +: 64]);\n"
    "        acc = mma(bf16(a), transpose(bf16(b)), acc);\n"
    "        const if (BOTH) { acc = acc + sum(b); }\n    }\n"
    "    store(C[i*TM +: TM, j*TN +: TN], acc);\n}\n"
    "tune gemm { TM in {64, 128}; TN in {64, 128}; key (M, N, K); }\n";

/* Operands of which a product takes nothing but a conversion. */
static void test_converted(void)
{
    tile_kernel *k;
    Product p;
    if (!begin(0)) return;
    for (int both = 0; both < 2; both++) {
        OK(ctx, kernel_of(ctx, converted_text, "gemm",
                    (tile_binding[]){ { "BOTH", TILE_BIND_BOOL, { .i = both } } }, 1, &k));
        operands(&p, 768, 768, 768, 768, 768, false);
        for (int i = 0; i < 3; i++) p.t[i].data = memory + (size_t)i * 1310720;
        tile_variant_info v = { .struct_size = sizeof v };
        OK(ctx, tile_kernel_variant(k, p.args, 3, &v));
        int compiled = fake->compiles;
        CU_ASSERT_EQUAL(
            launches_of(k, &p), both ? 2 : 3); /* BOTH: B is read as f32 too, A alone is converted */
        CU_ASSERT_EQUAL(fake->compiles, compiled);
        CU_ASSERT(reads(0, &p.t[0]) && !reads(launched - 1, &p.t[0]));
        CU_ASSERT(both || (reads(1, &p.t[1]) && !reads(2, &p.t[1])));
        operands(&p, 16, 64, 64, 64, 64, false);
        for (int i = 0; i < 3; i++) p.t[i].data = memory + (size_t)i * 1310720;
        CU_ASSERT_EQUAL(launches_of(k, &p), 1); /* the conversion takes as long as the product */
        tile_kernel_destroy(k);
    }
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
    CU_ASSERT_EQUAL(atomic_load(&counter.live), 0);
}

/* An allocation of a first launch fails, another one each time: the next launch converts nevertheless. */
static void test_short_of_memory(void)
{
    Product p;
    bool failed = true;
    if (!begin(0)) return;
    for (long nth = 1; failed; nth += 1 + nth / 8) {
        tile_kernel *k;
        OK(ctx, kernel_of(ctx, converted_text, "gemm", NULL, 0, &k));
        operands(&p, 768, 768, 768, 768, 768, false);
        for (int i = 0; i < 3; i++) p.t[i].data = memory + (size_t)i * 1310720;
        atomic_store(&counter.fail_at, atomic_load(&counter.calls) + nth);
        (void)tile_launch(k, p.args, 3, NULL);
        failed = atomic_load(&counter.calls) >= atomic_load(&counter.fail_at);
        atomic_store(&counter.fail_at, 0);
        CU_ASSERT_EQUAL(launches_of(k, &p), 3);
        tile_kernel_destroy(k);
    }
    tile_context_destroy(ctx);
}

static const char computed_text[] =
    "kernel gemm(in f16 G[M, K], in f16 U[M, K], in f16 B[K, N], out f16 C[M, N], const int TM = 128,\n"
    "            const int TN = 128, const bool TWICE = false) grid (cdiv(M, TM), cdiv(N, TN)) {\n"
    "    let (i, j) = program_id();\n    var acc = zeros([TM, TN], f32);\n"
    "    for k in 0 .. cdiv(K, 32) {\n"
    "        let g = f32(load(G[i*TM +: TM, k*32 +: 32]));\n"
    "        let u = load(U[i*TM +: TM, k*32 +: 32]);\n"
    "        acc = mma(f16(g / (1.0 + exp(-g))) * u, load(B[k*32 +: 32, j*TN +: TN]), acc);\n"
    "        const if (TWICE) { acc = acc + sum(g) + f32(sum(u)); }\n    }\n"
    "    store(C[i*TM +: TM, j*TN +: TN], f16(acc));\n}\n"
    "tune gemm { TM in {64, 128}; TN in {64, 128, 256}; key (M, N, K); }\n";

/* An operand that is computed from two inputs. */
static void test_computed(void)
{
    enum { N = 4096 };
    int64_t shape[2] = { N, N }, strides[2] = { N, 1 };
    tile_tensor t[4];
    tile_arg args[4];
    tile_kernel *k;
    if (!begin(0)) return;
    for (int i = 0; i < 4; i++) { /* no launch of the fake driver reads them */
        t[i] = (tile_tensor){ (char *)memory + (size_t)i * N * N * 2, shape, strides, -1, TILE_NONE };
        args[i] = tile_arg_tensor(&t[i]);
    }
    for (int twice = 0; twice < 2; twice++) {
        OK(ctx, kernel_of(ctx, computed_text, "gemm",
                    (tile_binding[]){ { "TWICE", TILE_BIND_BOOL, { .i = twice } } }, 1, &k));
        tile_variant_info v = { .struct_size = sizeof v };
        OK(ctx, tile_kernel_variant(k, args, 4, &v));
        int compiled = fake->compiles;
        launched = 0;
        OK(ctx, tile_launch(k, args, 4, NULL));
        CU_ASSERT_EQUAL(fake->compiles, compiled);
        CU_ASSERT_EQUAL(launched, twice ? 1 : 2); /* TWICE: G and U are also read as they are */
        if (!twice) CU_ASSERT(reads(0, &t[0]) && reads(0, &t[1]) && !reads(1, &t[0]));
        tile_kernel_destroy(k);
    }
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
    CU_ASSERT_EQUAL(atomic_load(&counter.live), 0);
}

static const char rows_text[] =
    "kernel scores(in f16 Q[B, H, M, D], in f16 X[B, HK, N, D], in f32 C[N, D2], in f16 S[B, HK, N],\n"
    "              in f16 V[B, HK, N, D], out f16 O[B, H, M, D], const int TM = 128, const int TN = 64)\n"
    "    grid (cdiv(M, TM), H, B) {\n"
    "    let (i, h, b) = program_id();\n    let q = load(Q[b, h, i*TM +: TM, :]);\n"
    "    var acc = zeros([TM, D], f32);\n"
    "    for j in 0 .. cdiv(N, TN) {\n"
    "        let n = f32(load(X[b, h*HK/H, j*TN +: TN, 0 +: D/2]));\n"
    "        let f = f32(load(X[b, h*HK/H, j*TN +: TN, D/2 +: D/2]));\n"
    "        let by = rsqrt(sum(n*n, axis = 1) + sum(f*f, axis = 1) + 1.0);\n"
    "        let c = load(C[j*TN +: TN, :]) * f32(load(S[b, h*HK/H, j*TN +: TN]))[:, None];\n"
    "        let k = f16(concat(n*by*c, f*by - n*c, axis = 1));\n"
    "        acc = mma(f16(mma(q, transpose(k))), load(V[b, h*HK/H, j*TN +: TN, :]), acc);\n    }\n"
    "    store(O[b, h, i*TM +: TM, :], f16(acc));\n}\n"
    "tune scores { TM in {64, 128}; TN in {32, 64, 128}; key (M, N, D); }\n";

/* Rows of keys that are normalized and rotated, for all heads that share them. */
static void test_computed_rows(void)
{
    enum { B = 2, H = 32, HK = 8, N = 4096, D = 128 };
    int64_t q[4] = { B, H, N, D }, qs[4] = { H * N * D, N * D, D, 1 }, x[4] = { B, HK, N, D },
            xs[4] = { HK * N * D, N * D, D, 1 }, c[2] = { N, D / 2 }, cs[2] = { D / 2, 1 },
            s[3] = { B, HK, N }, ss[3] = { HK * N, N, 1 };
    char *at[6];
    for (int i = 0; i < 6; i++) at[i] = (char *)((uintptr_t)memory + ((uintptr_t)i << 28));
    tile_tensor t[6] = { { at[0], q, qs, -1, TILE_NONE }, { at[1], x, xs, -1, TILE_NONE },
        { at[2], c, cs, -1, TILE_NONE }, { at[3], s, ss, -1, TILE_NONE }, { at[4], x, xs, -1, TILE_NONE },
        { at[5], q, qs, -1, TILE_NONE } };
    tile_arg args[6];
    tile_kernel *k;
    if (!begin(0)) return;
    for (int i = 0; i < 6; i++) args[i] = tile_arg_tensor(&t[i]);
    OK(ctx, kernel_of(ctx, rows_text, "scores", NULL, 0, &k));
    launched = 0;
    OK(ctx, tile_launch(k, args, 6, NULL));
    CU_ASSERT_EQUAL(launched, 2);
    CU_ASSERT(reads(0, &t[1]) && !reads(1, &t[1]));
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(atomic_load(&counter.live), 0);
}

/* The entries of the disk cache that say what is converted: how many there are, and of those whose time is
 * long ago (`age`: gets such a time) how many files of `inode` were not written anew, and were read. */
static int entries(bool age, ino_t inode[MOST], int *read_again)
{
    static const char kind[] = "tile-converted-2";
    char path[600], text[1 << 12];
    int n = 0;
    struct dirent *e;
    struct stat st;
    DIR *d = opendir(folder);
    *read_again = 0;
    while (d && (e = readdir(d))) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        FILE *f = fopen(path, "rb");
        size_t size = f ? fread(text, 1, sizeof text, f) : 0;
        if (f) fclose(f);
        if (!memmem(text, size, kind, sizeof kind - 1) || n == MOST || stat(path, &st)) continue;
        if (age) CU_ASSERT(!utime(path, &(struct utimbuf){ 1000000, 1000000 }));
        for (int i = 0; !age && i < MOST; i++) *read_again += inode[i] == st.st_ino && st.st_mtime > 1000000;
        if (age) inode[n] = st.st_ino;
        n++;
    }
    if (d) closedir(d);
    return n;
}

/* The launches of both kernels above in a context of their own. */
static void launch_both(int converted, int computed)
{
    enum { N = 4096 };
    int64_t shape[2] = { N, N }, strides[2] = { N, 1 };
    tile_tensor t[4];
    tile_arg args[4];
    tile_kernel *k;
    Product p;
    if (!begin(0)) return;
    OK(ctx, kernel_of(ctx, converted_text, "gemm", NULL, 0, &k));
    operands(&p, 768, 768, 768, 768, 768, false);
    for (int i = 0; i < 3; i++) p.t[i].data = memory + (size_t)i * 1310720;
    CU_ASSERT_EQUAL(launches_of(k, &p), converted);
    tile_kernel_destroy(k);
    OK(ctx, kernel_of(ctx, computed_text, "gemm", NULL, 0, &k));
    for (int i = 0; i < 4; i++) {
        t[i] = (tile_tensor){ (char *)memory + (size_t)i * N * N * 2, shape, strides, -1, TILE_NONE };
        args[i] = tile_arg_tensor(&t[i]);
    }
    launched = 0;
    OK(ctx, tile_launch(k, args, 4, NULL));
    CU_ASSERT_EQUAL(launched, computed);
    CU_ASSERT(reads(0, &t[0]) && reads(0, &t[1]) && !reads(1, &t[0]));
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(atomic_load(&counter.live), 0);
}

/* What is converted is found once and then read from the disk cache. */
static void test_kept(void)
{
    char made[] = "/tmp/tile-pitch-XXXXXX", command[64];
    ino_t inode[MOST] = { 0 };
    int read_again;
    folder = mkdtemp(made);
    CU_ASSERT_PTR_NOT_NULL(folder);
    launch_both(3, 2);
    CU_ASSERT_EQUAL(entries(true, inode, &read_again), 2);
    launch_both(3, 2);
    CU_ASSERT_EQUAL(entries(false, inode, &read_again), 2);
    CU_ASSERT_EQUAL(read_again, 2);
    folder = NULL;
    snprintf(command, sizeof command, "rm -r '%s'", made);
    CU_ASSERT_EQUAL(system(command), 0);
}

/* Without memory, and where configurations are as declared, a launch takes the tensors as they are. */
static void test_as_they_are(void)
{
    Product p;
    if (!begin(0)) return;
    tile_kernel *k = product();
    operands(&p, 900, 900, 901, 901, 901, false);
    snprintf(fake->fail_name, sizeof fake->fail_name, "cuMemAllocFromPoolAsync");
    fake->fail_code = 2;
    CU_ASSERT_EQUAL(launches_of(k, &p), 1);
    fake->fail_code = 0;
    fake->fail_name[0] = 0;
    CU_ASSERT_EQUAL(launches_of(k, &p), 2); /* the next one copies */
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    if (!begin(TILE_CONTEXT_AS_DECLARED)) return;
    k = product();
    CU_ASSERT_EQUAL(launches_of(k, &p), 1);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* Some devices have no memory in the order of streams: there, what is compiled is what a launch takes. */
static void test_no_pool(void)
{
    Product p;
    if (!begin(0)) return;
    snprintf(fake->fail_name, sizeof fake->fail_name, "cuMemPoolCreate");
    fake->fail_code = 801;
    tile_kernel *k = product();
    operands(&p, 900, 900, 901, 901, 901, false);
    OK(ctx, tile_kernel_compile(k, p.args, 3));
    int compiled = fake->compiles;
    CU_ASSERT_EQUAL(launches_of(k, &p), 1);
    CU_ASSERT_EQUAL(fake->compiles, compiled);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    fake->fail_code = 0;
    fake->fail_name[0] = 0;
}

/* tile_kernel_prepare compiles what a launch on copies takes, also where the variant for the tensors as they
 * are is there already. */
static void test_prepared(void)
{
    static const tile_dim_range dims[] = { { "M", 900, 900, 1 }, { "N", 904, 904, 1 }, { "K", 901, 901, 1 } };
    const tile_prepare_desc d = { .struct_size = sizeof d, .dims = dims, .n_dims = 3 };
    Product p;
    if (!begin(0)) return;
    tile_kernel *k = product();
    operands(&p, 900, 904, 901, 901, 904, false);
    snprintf(fake->fail_name, sizeof fake->fail_name, "cuMemAllocFromPoolAsync");
    fake->fail_code = 2;
    CU_ASSERT_EQUAL(launches_of(k, &p), 1);
    fake->fail_code = 0;
    fake->fail_name[0] = 0;
    OK(ctx, tile_context_seal(ctx, 1));
    CHECK_STATUS(ctx, tile_kernel_prepare(k, &d, NULL), TILE_ERROR_SEALED);
    OK(ctx, tile_context_seal(ctx, 0));
    OK(ctx, tile_kernel_prepare(k, &d, NULL));
    tile_kernel *fresh = product();
    OK(ctx, tile_kernel_prepare(fresh, &d, NULL));
    OK(ctx, tile_context_seal(ctx, 1));
    OK(ctx, tile_kernel_prepare(fresh, &d, NULL));
    CU_ASSERT_EQUAL(tile_context_missing(ctx, NULL, 0), 0);
    CU_ASSERT_EQUAL(launches_of(fresh, &p), 2);
    tile_kernel_destroy(fresh);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = {
        { "copies", test_copies },
        { "rows", test_rows },
        { "transposed", test_transposed },
        { "converted", test_converted },
        { "short_of_memory", test_short_of_memory },
        { "computed", test_computed },
        { "computed_rows", test_computed_rows },
        { "kept", test_kept },
        { "as_they_are", test_as_they_are },
        { "no_pool", test_no_pool },
        { "prepared", test_prepared },
    };
    return unit_run("pitch", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
}
