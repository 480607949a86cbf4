/* test_memo.c: a launch that is recalled (runtime/launch/memo.c) hands the driver, bit for bit, what the long
 * way hands it, or is refused with the same words: random sequences of launches, each made both ways; what
 * must not be recalled, case by case; many threads on the memos of one kernel. */
#include "api.h"
#include "runtime/launch/kernel.h"
#include <pthread.h>

static FakeState *fake;
static tile_context *ctx;

static void open_context(void)
{
    fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    OK(ctx, tile_context_create(&d, &ctx));
}

/* A descriptor cut behind its stream keeps a launch from being recalled. */
static const struct {
    size_t struct_size;
    void *stream;
} long_way = { 16, NULL };
static tile_status launch_long(tile_kernel *k, const tile_arg *a, size_t n)
{ return tile_launch(k, a, n, (const tile_launch_desc *)(const void *)&long_way); }

/* --- what reaches the driver ------------------------------------------------------------------------- */

enum { MOST_SLOTS = 64, MOST_MAPS = 8 };
typedef struct Seen {
    int launches, n_slots;
    uint64_t slots[MOST_SLOTS];
    unsigned char maps[MOST_MAPS][128];
} Seen;
static __thread Seen seen;
static __thread const Artifact *plan;

static void look(void **params)
{
    const Artifact *a = plan;
    seen.launches++;
    seen.n_slots = a->n_slots;
    for (int i = 0; i < a->n_slots && i < MOST_SLOTS; i++) {
        if (a->slots[i].kind == SLOT_TENSOR_MAP) memcpy(seen.maps[a->slots[i].index], params[i], 128);
        else memcpy(&seen.slots[i], params[i], 8);
    }
}

static const Artifact *artifact_of(tile_kernel *k, const tile_arg *a, size_t n)
{
    LAUNCH_ARGS(l, k);
    uint64_t key[k->key_words];
    if (tile_kernel_compile(k, a, n) || kernel_bind(k, a, n, &l)) return NULL;
    kernel_key(k, &l, key);
    Variant *v = kernel_ready(k, key);
    return v ? &v->compiled.artifact : NULL;
}

/* Launches both ways and compares. True when the first was recalled. */
static bool both(tile_kernel *k, const tile_arg *a, size_t n)
{
    static __thread Seen first;
    static __thread char text[4096];
    tile_status st;
    plan = artifact_of(k, a, n);
    memset(&seen, 0, sizeof seen);
    bool recalled = memo_launch(k, a, n, NULL, &st);
    if (!recalled) st = tile_launch(k, a, n, NULL);
    first = seen;
    snprintf(text, sizeof text, "%s", st ? error_of(ctx) : "");
    memset(&seen, 0, sizeof seen);
    tile_status want = launch_long(k, a, n);
    CU_ASSERT_EQUAL(st, want);
    if (want && strcmp(text, error_of(ctx))) {
        fprintf(stderr, "\"%s\" is not \"%s\"\n", text, error_of(ctx));
        CU_FAIL("other words");
    }
    if (memcmp(&first, &seen, sizeof seen)) {
        for (int i = 0; i < seen.n_slots; i++)
            if (first.slots[i] != seen.slots[i])
                fprintf(stderr, "slot %d: %llx, not %llx\n", i, (unsigned long long)first.slots[i],
                    (unsigned long long)seen.slots[i]);
        CU_FAIL("the driver saw something else");
    }
    return recalled;
}

/* --- random launches --------------------------------------------------------------------------------- */

static const char many_text[] =
    "kernel k(in f32 A[M, N], in f16 C[N], out f32 O[M, N], f32 s, i32 t, inout i32 L[M])\n"
    "    grid (cdiv(M, 32), cdiv(N, 32))\n"
    "{\n"
    "    let (i, j) = program_id();\n"
    "    let c = f32(load(C[j*32 +: 32]))[None, :];\n"
    "    store(O[i*32 +: 32, j*32 +: 32], load(A[i*32 +: 32, j*32 +: 32])*s + c);\n"
    "    if (j == 0) { store(L[i*32 +: 32], load(L[i*32 +: 32]) + t); }\n"
    "}\n";
static const char grid_text[] =
    "kernel k(out f32 O[M], i32 n, f32 s)\n    grid (min(cdiv(M, 32), index(n)))\n{\n    let i = "
    "program_id();\n    store(O[i*32 +: 32], full([32], s, f32));\n}\n";

enum { ARENA = 1 << 20, PARAMS = 6 };
static _Alignas(256) unsigned char memory[ARENA];
static uint32_t state;
static uint32_t draw(uint32_t n)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

/* One argument as a test makes it. */
typedef struct Made {
    DLTensor dl;
    tile_tensor raw;
    int64_t shape[4], strides[4];
    int kind;
    double real;
    int64_t whole;
} Made;
typedef struct Launch {
    Made m[PARAMS];
} Launch;

static const struct {
    int rank;
    tile_dtype dtype;
    DLDataType dl;
    bool scalar;
} wanted[PARAMS] = {
    { 2, TILE_F32, { kDLFloat, 32, 1 }, false },
    { 1, TILE_F16, { kDLFloat, 16, 1 }, false },
    { 2, TILE_F32, { kDLFloat, 32, 1 }, false },
    { 0, TILE_F32, { 0 }, true },
    { 0, TILE_I32, { 0 }, true },
    { 1, TILE_I32, { kDLInt, 32, 1 }, false },
};

static void sizes(Launch *l, int64_t m, int64_t n)
{
    for (int i = 0; i < PARAMS; i++) {
        int64_t *s = l->m[i].shape;
        if (wanted[i].rank == 2) {
            s[0] = m;
            s[1] = n;
        } else s[0] = i == 1 ? n : m;
        l->m[i].strides[0] = wanted[i].rank == 2 ? n : 1;
        l->m[i].strides[1] = 1;
    }
}

static void start(Launch *l)
{
    memset(l, 0, sizeof *l);
    for (int i = 0; i < PARAMS; i++) {
        Made *m = &l->m[i];
        m->kind = wanted[i].scalar ? i == 3 ? TILE_ARG_FLOAT : TILE_ARG_INT : TILE_ARG_TENSOR;
        m->real = 1.5;
        m->whole = 2;
        m->raw = (tile_tensor){ memory + i * (ARENA / PARAMS / 256 * 256), NULL, NULL, wanted[i].rank,
            wanted[i].dtype };
        m->dl = (DLTensor){ m->raw.data, { kDLCUDA, 0 }, wanted[i].rank, wanted[i].dl, NULL, NULL, 0 };
    }
    sizes(l, 64, 96);
}

static void change(Launch *l)
{
    static const int64_t extents[] = { 64, 65, 96, 1, 0, 33 };
    static const double reals[] = { 1.5, 0, -1, 2.25, 1e-50 };
    static const int64_t wholes[] = { 2, 0, -3, 7, (int64_t)1 << 40 };
    Made *m = &l->m[draw(PARAMS)];
    int i = (int)(m - l->m);
    switch (draw(14)) {
    case 0: sizes(l, extents[draw(6)], extents[draw(6)]); break;
    case 1: m->shape[draw(2)] = extents[draw(6)]; break;
    case 2: m->raw.data = m->dl.data = memory + draw(64) * 1024 + i * (ARENA / PARAMS / 256 * 256); break;
    case 3:
        m->raw.data = m->dl.data = (void *)((uintptr_t)m->raw.data + 4 * draw(8));
        break; /* by number: NULL too */
    case 4: m->raw.data = m->dl.data = draw(3) ? memory : NULL; break;
    case 5:
        m->raw.strides = m->dl.strides = draw(2) ? (int64_t *)1 : NULL;
        break; /* The pointers are set when the arguments are made. */
    case 6: m->strides[draw(2)] = draw(3) ? (int64_t)draw(200) : 1; break;
    case 7: m->kind = draw(4) ? (wanted[i].scalar ? TILE_ARG_INT : TILE_ARG_DLTENSOR) : (int)draw(6); break;
    case 8: m->raw.dtype = draw(2) ? TILE_NONE : draw(2) ? wanted[i].dtype : TILE_F64; break;
    case 9:
        m->dl.dtype.bits = draw(2) ? wanted[i].dl.bits : 8;
        m->dl.device.device_id = draw(3) == 0;
        break;
    case 10:
        m->raw.rank = draw(2) ? -1 : draw(2) ? wanted[i].rank : 3;
        m->dl.ndim = draw(3) ? wanted[i].rank : 1;
        break;
    case 11: m->dl.byte_offset = 16 * draw(3) + (draw(4) == 0); break;
    case 12: l->m[3].real = reals[draw(5)]; break;
    case 13: l->m[4].whole = wholes[draw(5)]; break;
    }
}

static void arguments(Launch *l, tile_arg *a)
{
    for (int i = 0; i < PARAMS; i++) {
        Made *m = &l->m[i];
        m->raw.shape = m->dl.shape = m->shape;
        if (m->raw.strides) m->raw.strides = m->dl.strides = m->strides;
        a[i].kind = (tile_arg_kind)m->kind;
        if (m->kind == TILE_ARG_DLTENSOR) a[i].value.dltensor = &m->dl;
        else if (m->kind == TILE_ARG_TENSOR) a[i].value.tensor = &m->raw;
        else if (m->kind == TILE_ARG_FLOAT) a[i].value.f = m->real;
        else a[i].value.i = m->whole;
    }
}

static void test_random(void)
{
    enum { KEPT = 2, ROUNDS = 3000 };
    static Launch kept[KEPT];
    tile_kernel *k;
    int recalled = 0, good = 0;
    open_context();
    OK(ctx, kernel_of(ctx, many_text, "k", NULL, 0, &k));
    fake->on_launch = look;
    for (int i = 0; i < KEPT; i++) start(&kept[i]);
    state = 7;
    for (int i = 0; i < ROUNDS; i++) {
        int at = (int)draw(KEPT);
        Launch l = kept[at];
        tile_arg a[PARAMS];
        for (int n = (int)draw(3); n > 0; n--) change(&l);
        int before = fake->launches;
        arguments(&l, a);
        recalled += both(k, a, PARAMS);
        bool ran = fake->launches > before;
        good += ran;
        if (draw(8) == 0 && ran) kept[at] = l;
        if (draw(300) == 0) start(&kept[at]);
    }
    CU_ASSERT(good > ROUNDS / 3);
    CU_ASSERT(recalled > good / 4);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* --- case by case ------------------------------------------------------------------------------------ */

static void test_grid_of_scalars(void)
{
    tile_kernel *k;
    int64_t m = 320;
    tile_tensor o = { memory, &m, NULL, 1, TILE_F32 };
    tile_arg a[3] = { tile_arg_tensor(&o), tile_arg_int(4), tile_arg_float(1) };
    open_context();
    fake->on_launch = look;
    OK(ctx, kernel_of(ctx, grid_text, "k", NULL, 0, &k));
    CU_ASSERT_FALSE(both(k, a, 3));
    CU_ASSERT_EQUAL(fake->last.grid[0], 4);
    CU_ASSERT_TRUE(both(k, a, 3));
    a[1] = tile_arg_int(7);
    CU_ASSERT_FALSE(both(k, a, 3)); /* another grid */
    CU_ASSERT_EQUAL(fake->last.grid[0], 7);
    CU_ASSERT_TRUE(both(k, a, 3));
    a[1] = tile_arg_int(0);
    int before = fake->launches;
    OK(ctx, tile_launch(k, a, 3, NULL)); /* nothing to do */
    CU_ASSERT_EQUAL(fake->launches, before);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
}

/* As many sets of tensors as a variant has memos, launched in turns: the maps of each set are encoded once,
 * and the driver sees what the long way gives. */
static void test_sets(void)
{
    enum { SETS = MEMOS, FIRST = 0, LATER = 1, LONG = 2, ROUNDS };
    tile_module *mod;
    tile_kernel *k;
    int64_t shape[4] = { 1, 2, 64, 128 };
    tile_tensor t[4];
    tile_arg a[5] = { [4] = tile_arg_float(0.125) };
    static Seen recalled[SETS];
    tile_binding b[] = { { "CAUSAL", TILE_BIND_BOOL, { .i = 0 } } };
    open_context();
    OK(ctx, tile_module_load_file(ctx, TILE_KERNELS "/attention.tile", NULL, &mod));
    OK(ctx, tile_kernel_create(mod, "attention", b, 1, &k));
    fake->on_launch = look;
    for (int round = FIRST; round < ROUNDS; round++)
        for (int set = 0; set < SETS; set++) {
            for (int i = 0; i < 4; i++) {
                t[i] = (tile_tensor){ memory + (4 * set + i) * (32 << 10), shape, NULL, 4, TILE_F16 };
                a[i] = tile_arg_tensor(&t[i]);
            }
            plan = artifact_of(k, a, 5);
            memset(&seen, 0, sizeof seen);
            tile_status st;
            int before = fake->tensor_maps;
            bool by_memo = round != LONG && memo_launch(k, a, 5, NULL, &st);
            if (!by_memo) st = launch_long(k, a, 5);
            CU_ASSERT_EQUAL(st, TILE_OK);
            CU_ASSERT_EQUAL(by_memo, round == LATER || (round == FIRST && set > 0));
            CU_ASSERT_EQUAL(fake->tensor_maps - before, round == LATER ? 0 : plan->n_maps);
            if (round == LONG) CU_ASSERT_EQUAL(memcmp(&recalled[set], &seen, sizeof seen), 0);
            recalled[set] = seen;
        }
    CU_ASSERT_NOT_EQUAL(memcmp(&recalled[0], &recalled[1], sizeof seen), 0);
    tile_kernel_destroy(k);
    tile_module_destroy(mod);
    tile_context_destroy(ctx);
}

typedef struct CounterOf {
    tile_kernel *kernel;
    const tile_arg *args;
    size_t n_args;
    void *stream;
    uint64_t counter;
} CounterOf;

/* Launches from a memo, and notes the counter that the launch was given. */
static void *launch_for_counter(void *of)
{
    CounterOf *c = of;
    tile_launch_desc d = { .struct_size = sizeof d, .stream = c->stream };
    tile_status st;
    plan = artifact_of(c->kernel, c->args, c->n_args);
    CU_ASSERT_TRUE(memo_launch(c->kernel, c->args, c->n_args, &d, &st) && st == TILE_OK);
    CU_ASSERT_PTR_EQUAL(fake->last.stream, c->stream);
    for (int s = 0; s < plan->n_slots; s++)
        if (plan->slots[s].kind == SLOT_SCHEDULER) c->counter = seen.slots[s];
    CU_ASSERT_NOT_EQUAL(c->counter, 0);
    return NULL;
}

/* Launches that may run beside each other have different counters. The handle of the per-thread default
 * stream names another stream in each thread. */
static void check_counters(tile_kernel *k, const tile_arg *a, size_t n_args)
{
    enum { N = 5, MANY = 5000 };
    static void *streams[MANY];
    void *const per_thread = (void *)(uintptr_t)2;
    for (int i = 0; i < MANY; i++) OK(k->context, tile_stream_create(k->context, &streams[i]));
    CounterOf of[N] = { { k, a, n_args, streams[0], 0 }, { k, a, n_args, streams[1], 0 },
        { k, a, n_args, per_thread, 0 }, { k, a, n_args, per_thread, 0 }, { k, a, n_args, per_thread, 0 } };
    for (int i = 0; i < N; i++) {
        pthread_t other;
        if (i < 3) launch_for_counter(&of[i]);
        else if (!pthread_create(&other, NULL, launch_for_counter, &of[i])) pthread_join(other, NULL);
        for (int j = 0; j < i; j++) CU_ASSERT_NOT_EQUAL(of[i].counter, of[j].counter);
    }
    /* More streams than a table of counters has, as when threads come and go, while a graph is captured. */
    static uint64_t counters[MANY];
    fake->captured_globally = 1;
    for (int i = 0; i < MANY; i++) {
        CounterOf next = { k, a, n_args, streams[i], 0 };
        launch_for_counter(&next);
        counters[i] = next.counter;
    }
    fake->captured_globally = 0;
    CU_ASSERT_TRUE(all_differ(counters, MANY));
    CounterOf again = of[2];
    launch_for_counter(&again);
    CU_ASSERT_EQUAL(again.counter, of[2].counter);
    for (int i = 0; i < MANY; i++) OK(k->context, tile_stream_destroy(k->context, streams[i]));
}

/* Attention has tensor maps and a tile scheduler: maps are encoded again for what moved, and only for that;
 * the counter is the stream's. */
static void test_maps(void)
{
    tile_module *mod;
    tile_kernel *k;
    int64_t shape[4] = { 1, 2, 256, 128 };
    tile_tensor t[4];
    tile_arg a[5];
    tile_binding b[] = { { "CAUSAL", TILE_BIND_BOOL, { .i = 0 } },
        { "persistent", TILE_BIND_INT, { .i = 1 } } };
    open_context();
    OK(ctx, tile_module_load_file(ctx, TILE_KERNELS "/attention.tile", NULL, &mod));
    OK(ctx, tile_kernel_create(mod, "attention", b, 2, &k));
    for (int i = 0; i < 4; i++) {
        t[i] = (tile_tensor){ memory + i * (256 << 10), shape, NULL, 4, TILE_F16 };
        a[i] = tile_arg_tensor(&t[i]);
    }
    a[4] = tile_arg_float(0.125);
    OK(ctx, tile_launch(k, a, 5, NULL));
    fake->on_launch = look;
    int maps = fake->tensor_maps;
    CU_ASSERT_TRUE(maps >= 3);
    CU_ASSERT_TRUE(both(k, a, 5));
    CU_ASSERT_EQUAL(fake->tensor_maps - maps, maps); /* those of the long way */
    /* K moves to the place after itself, where nothing else is. */
    t[1].data = memory + (256 << 10) + (128 << 10);
    int before = fake->tensor_maps;
    CU_ASSERT_TRUE(both(k, a, 5));
    CU_ASSERT_EQUAL(fake->tensor_maps - before, 1 + maps);
    t[1].data = memory + (768 << 10); /* onto O */
    CU_ASSERT_FALSE(both(k, a, 5));
    CHECK_STATUS(ctx, tile_launch(k, a, 5, NULL), TILE_ERROR_OVERLAP);
    t[1].data = memory + (256 << 10) + 2;
    fake->on_launch = NULL;
    before = fake->launches;
    OK(ctx, tile_launch(k, a, 5, NULL)); /* less aligned: K is copied first */
    CU_ASSERT_EQUAL(fake->launches - before, 2);
    fake->on_launch = look;
    t[1].data = memory + (256 << 10);
    a[4] = tile_arg_float(-0.125);
    CU_ASSERT_FALSE(both(k, a, 5)); /* the sign is in the key */
    a[4] = tile_arg_float(0.125);
    OK(ctx, tile_launch(k, a, 5, NULL)); /* The launches between have taken the places of the first ones. */
    a[4] = tile_arg_float(0.25);
    CU_ASSERT_TRUE(both(k, a, 5));
    check_counters(k, a, 5);
    snprintf(fake->fail_name, sizeof fake->fail_name, "cuLaunchKernel");
    fake->fail_code = 700;
    CHECK_STATUS(ctx, tile_launch(k, a, 5, NULL), TILE_ERROR_DEVICE_FAULT);
    CHECK_TEXT(error_of(ctx), "attention<");
    fake->fail_name[0] = 0;
    tile_kernel_destroy(k);
    tile_module_destroy(mod);
    tile_context_destroy(ctx);
}

static void test_nothing_allocated(void)
{
    Counter count = { 0 };
    tile_kernel *k;
    int64_t n = 4096;
    tile_tensor t[3];
    tile_arg a[3];
    fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    d.allocator = (tile_allocator){ counter_realloc, &count };
    OK(ctx, tile_context_create(&d, &ctx));
    OK(ctx, kernel_of(ctx, vector_add_text, "vector_add", NULL, 0, &k));
    for (int i = 0; i < 3; i++) {
        t[i] = (tile_tensor){ memory + i * 65536, &n, NULL, 1, TILE_F32 };
        a[i] = tile_arg_tensor(&t[i]);
    }
    OK(ctx, tile_launch(k, a, 3, NULL));
    long calls = count.calls;
    for (int i = 0; i < 100; i++) {
        n = 16 * (i % 9 + 1);
        t[0].data = memory + 16 * i;
        OK(ctx, tile_launch(k, a, 3, NULL));
    }
    CU_ASSERT_EQUAL(count.calls, calls);
    tile_kernel_destroy(k);
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(count.live, 0);
}

/* --- threads ----------------------------------------------------------------------------------------- */

static tile_kernel *shared;

/* More shapes than there are memos: they are rewritten all the time while others read them. */
static void *worker(void *arg)
{
    long self = (long)(intptr_t)arg, hits = 0;
    for (int i = 0; i < 200; i++) {
        Launch l;
        tile_arg a[PARAMS];
        start(&l);
        sizes(&l, 32 * (1 + i / 20 % 3), 32 * (1 + self % 2));
        l.m[0].raw.data = memory + 256 * (self + i % 2);
        l.m[4].whole = self;
        arguments(&l, a);
        hits += both(shared, a, PARAMS);
    }
    return (void *)(intptr_t)hits;
}

static void test_threads(void)
{
    pthread_t t[8];
    long hits = 0;
    open_context();
    OK(ctx, kernel_of(ctx, many_text, "k", NULL, 0, &shared));
    fake->on_launch = look;
    for (int i = 0; i < 8; i++) pthread_create(&t[i], NULL, worker, (void *)(intptr_t)i);
    for (int i = 0; i < 8; i++) {
        void *p;
        pthread_join(t[i], &p);
        hits += (long)(intptr_t)p;
    }
    CU_ASSERT(hits > 0);
    tile_kernel_destroy(shared);
    tile_context_destroy(ctx);
}

UNIT_MAIN("memo", { "random", test_random }, { "grid_of_scalars", test_grid_of_scalars },
    { "maps", test_maps }, { "sets", test_sets }, { "nothing_allocated", test_nothing_allocated },
    { "threads", test_threads })
