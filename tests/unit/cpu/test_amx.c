/* test_amx.c: products by AMX. They are compiled to calls of the model of its instructions (amx_model.h), run
 * on any x86-64 processor with AVX2, and compared with the interpreter: all types, edges of tiles, operands
 * that lie either way. The assembly for processors with AMX has the instructions; a processor whose operating
 * system refuses the tile registers takes another unit; a caller gets its tile configuration back. On a
 * machine with AMX, its own instructions run too. */
#include "amx_model.h"
#include "op_kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_VALUES = 9000 };
static const char all_amx[] = "+amx-tile,+amx-bf16,+amx-int8,+amx-fp16";
static const DType types[][3] = { { DT_BF16, DT_BF16, DT_F32 }, { DT_F16, DT_F16, DT_F32 },
    { DT_I8, DT_I8, DT_I32 }, { DT_I8, DT_U8, DT_I32 }, { DT_U8, DT_I8, DT_I32 }, { DT_U8, DT_U8, DT_I32 } };
enum { N_TYPES = sizeof types / sizeof *types };
static Scalar a[N_VALUES], b[N_VALUES], c[N_VALUES];

static const BackendOptions by_model = {
    .opt_level = 3, .cpu = "x86-64-v3", .features = all_amx, .amx_model = true
};

static uint32_t next(void)
{
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return state >> 8;
}

/* Of 8 bits all values, whose products must not saturate; floats whose sums are exact. */
static void fill(DType d, Scalar *out)
{
    for (int i = 0; i < N_VALUES; i++)
        out[i] = dtype_is_float(d) ? scalar_float((double)(int)(next() % 33) / 8 - 2)
                                   : scalar_int(scalar_wrap(d, (int64_t)(next() % 256)));
}

static void product(const BackendOptions *o, const DType t[3], const int64_t size[3], int turned,
    void (*then)(Kernel *, const BackendOptions *))
{
    Kernel kernel, *k = &kernel;
    kernel_begin(k);
    kernel_only = o;
    if (!setjmp(k->s.oom)) {
        fill(t[0], a);
        fill(t[1], b);
        fill(t[2], c);
        kernel_product(k, t, size, turned, a, b, c, N_VALUES);
        if (then) then(k, o);
    }
    kernel_end(k);
}

static void expect(bool ok, const char *what)
{
    checks++;
    if (ok) return;
    printf("%s\n", what);
    failures++;
}

static bool released(void)
{
    unsigned char now[64];
    tile_amx_sttilecfg(now);
    return now[0] == 0;
}

static void test_products(void)
{
    static const int64_t sizes[][3] = { { 16, 16, 64 }, { 64, 96, 128 }, { 33, 47, 71 }, { 5, 100, 64 },
        { 64, 9, 40 }, { 90, 50, 96 } };
    const BackendOptions o = {
        .opt_level = 2, .cpu = "x86-64-v3", .features = all_amx, .amx_model = true, .verify_each = true
    };
    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++) {
            int64_t before = amx_products;
            product(&o, types[t], sizes[z], (int)(t + z) % 4, NULL);
            expect(amx_products > before, "a product does not use AMX");
            expect(released(), "tile registers are not released");
        }
}

/* Vectors multiply by four rows or columns in less time than it takes to pack the other operand. */
static void test_few(void)
{
    static const int64_t sizes[][3] = { { 4, 96, 64 }, { 64, 4, 64 } };
    for (size_t t = 0; t < N_TYPES; t++)
        for (size_t z = 0; z < 2; z++) {
            int64_t before = amx_products;
            product(&by_model, types[t], sizes[z], (int)t % 4, NULL);
            expect(amx_products == before, "a product of few rows or columns uses AMX");
        }
}

/* The operands hold nothing but these values. */
static void extreme_product(const BackendOptions *o, const DType t[3], const double *av, const double *bv,
    int n, void (*then)(Kernel *))
{
    static const int64_t size[3] = { 5, 18, 128 };
    Kernel kernel, *k = &kernel;
    kernel_begin(k);
    kernel_only = o;
    if (!setjmp(k->s.oom)) {
        for (int i = 0; i < N_VALUES; i++) {
            double x = av[next() % (uint32_t)n], y = bv[next() % (uint32_t)n];
            a[i] = dtype_is_float(t[0]) ? scalar_float(x) : scalar_int((int64_t)x);
            b[i] = dtype_is_float(t[1]) ? scalar_float(y) : scalar_int((int64_t)y);
            c[i] = dtype_is_float(t[2]) ? scalar_float(-0.0) : scalar_int(i % 2 ? INT32_MAX : INT32_MIN);
        }
        kernel_product(k, t, size, 0, a, b, c, N_VALUES);
        if (then) then(k);
    }
    kernel_end(k);
}

/* Sums of extreme products are exact modulo 2^32, in each unit: those of pairs of bytes do not saturate at 16
 * bits. NaN and infinities come through. */
static void test_extremes(void)
{
    static const double i8[] = { -128, -128, 127 }, u8[] = { 255, 255, 254 }, low[] = { 0, -128, -128 };
    static const double floats[][4] = { { 1, -0.0, -INFINITY, INFINITY }, { -0.0, 1, 2, NAN } };
    const BackendOptions host = { .opt_level = 3 }, v3 = { .opt_level = 3, .cpu = "x86-64-v3" };
    const BackendOptions *const options[] = { &by_model, &host, &v3 };
    for (size_t o = 0; o < 3; o++)
        for (size_t t = 0; t < N_TYPES; t++) {
            const double *x = types[t][0] == DT_U8 ? u8 : i8, *y = types[t][1] == DT_U8 ? u8 : i8;
            if (dtype_is_float(types[t][0])) {
                for (int v = 0; v < 2 && o < 2; v++)
                    extreme_product(options[o], types[t], floats[v], floats[v], 4, NULL);
                continue;
            }
            extreme_product(options[o], types[t], x, y, 3, NULL);
            if (types[t][0] == DT_U8 && types[t][1] == DT_I8)
                extreme_product(options[o], types[t], u8, low, 3, NULL);
        }
}

/* The product from zero by AMX, of which the interpreter has a result that is not zero. */
static void is_flushed(Kernel *k)
{
    enum { FROM_ZERO = 4 }; /* the tensor */
    CpuRun r = { 0 };
    size_t n = k->bytes[FROM_ZERO] / sizeof(float);
    const float *y = k->data[FROM_ZERO], *kept = k->copy[FROM_ZERO];
    bool flushed = true, other = true;
    bool ok = cpu_run_compile(&k->s, k->f, &by_model, &r) && cpu_run_bind(&k->s, k->f, k->args, &r) &&
              cpu_run_launch(&r) == 0;
    for (size_t i = 0; i < n && ok; i++) {
        flushed &= y[i] == 0;
        other &= kept[i] != 0;
    }
    expect(ok && flushed && other, "AMX takes denormal numbers of bf16 products as other than zero");
    cpu_run_free(&r);
}

/* docs/language.md, "Small numbers on the CPU": AMX takes denormal operands of bf16, and denormal sums, as
 * zero. It keeps denormal operands of f16, and the units of vectors keep all. */
static void test_denormals(void)
{
    const BackendOptions old = { .opt_level = 3, .cpu = "x86-64-v2" };
    const double denormal[] = { 0x1p-130 }, big[] = { 0x1p20 }, small[] = { 0x1p-70 }, half[] = { 0x1p-20 },
                 one[] = { 1 };
    extreme_product(&old, types[0], denormal, big, 1, is_flushed);
    extreme_product(&old, types[0], big, denormal, 1, is_flushed);
    extreme_product(&old, types[0], small, small, 1, is_flushed);
    extreme_product(&old, types[1], half, one, 1, NULL);
    extreme_product(&by_model, types[1], half, one, 1, NULL);
}

static void test_callers_configuration(void)
{
    static const int64_t size[3] = { 32, 32, 64 };
    const BackendOptions o = { .cpu = "x86-64-v3", .features = all_amx, .amx_model = true };
    _Alignas(64) unsigned char callers[64] = { 1 }, after[64];
    callers[16] = 32; /* the bytes of a row of tile 0, and its rows */
    callers[48] = 7;
    tile_amx_ldtilecfg(callers);
    product(&o, types[0], size, 0, NULL);
    tile_amx_sttilecfg(after);
    expect(!memcmp(callers, after, sizeof after), "the caller's tile configuration is lost");
    tile_amx_tilerelease();
}

/* --- code for processors with AMX -------------------------------------------------------------------- */

static const char *const instructions[N_TYPES] = { "tdpbf16ps", "tdpfp16ps", "tdpbssd", "tdpbsud", "tdpbusd",
    "tdpbuud" };
static const char *wanted;

static void has_instructions(Kernel *k, const BackendOptions *unused)
{
    (void)unused;
    BackendOptions o = { .opt_level = 2, .cpu = "graniterapids", .emit = EMIT_ASM };
    CpuRun r;
    if (!cpu_run_compile(&k->s, k->f, &o, &r)) return;
    expect(strstr(r.artifact.data, wanted) != NULL, wanted);
    expect(strstr(r.artifact.data, "tileloadd") && strstr(r.artifact.data, "tilestored") &&
               strstr(r.artifact.data, "tilerelease") && strstr(r.artifact.data, "ldtilecfg"),
        "instructions on tiles are missing");
    expect(strstr(r.artifact.schedule, "by amx-") != NULL, "the schedule does not name the unit");
}

static void test_code(void)
{
    static const int64_t size[3] = { 64, 64, 64 };
    const BackendOptions o = { .cpu = "x86-64-v2" };
    for (size_t t = 0; t < N_TYPES; t++) {
        wanted = instructions[t];
        product(&o, types[t], size, 0, has_instructions);
    }
}

static bool streamed;

static void streams_a(Kernel *k, const BackendOptions *unused)
{
    (void)unused;
    BackendOptions o = { .opt_level = 2, .cpu = "graniterapids", .emit = EMIT_ASM };
    CpuRun r;
    if (!cpu_run_compile(&k->s, k->f, &o, &r)) return;
    expect(!!strstr(r.artifact.data, "tileloaddt1") == streamed,
        streamed ? "a large A displaces the panels of B" : "a small A is not kept in the first cache");
}

/* An A that does not fit the first cache leaves the panels of B there. */
static void test_streams(void)
{
    static const int64_t small[3] = { 64, 64, 64 }, large[3] = { 256, 64, 256 };
    const BackendOptions o = { .cpu = "x86-64-v2" };
    for (int k = 0; k < 2; k++) {
        streamed = k;
        product(&o, types[0], k ? large : small, 0, streams_a);
    }
}

static const char *schedule_for(Kernel *k, const char *cpu)
{
    BackendOptions o = { .opt_level = 2, .cpu = cpu, .emit = EMIT_ASM };
    CpuRun r;
    return cpu_run_compile(&k->s, k->f, &o, &r) ? r.artifact.schedule : "";
}

/* Dot products of bf16 are fast on Zen 4 and slow on Intel's cores. A single row, 16 deep, leaves 31 of 32
 * parts of a tile empty. */
static void chooses_by_rates(Kernel *k, const BackendOptions *unused)
{
    (void)unused;
    expect(strstr(schedule_for(k, "znver4"), "by dot products of bf16: 32.0") != NULL, "znver4: bf16");
    expect(strstr(schedule_for(k, "sapphirerapids"), "by f32: 32.0") != NULL, "sapphirerapids: one row");
    expect(strstr(schedule_for(k, "x86-64-v3"), "by f32: 16.0") != NULL, "x86-64-v3: bf16");
}

/* As fast as tiles of which one row of 16 is used: the unit whose operands need no packing. */
static void chooses_vectors(Kernel *k, const BackendOptions *unused)
{
    (void)unused;
    expect(strstr(schedule_for(k, "sapphirerapids"), "by f32: 32.0") != NULL, "sapphirerapids: equal rates");
}

static void says_refused(Kernel *k, const BackendOptions *o)
{
    CpuRun r;
    BackendOptions text = *o;
    text.emit = EMIT_ASM;
    if (!cpu_run_compile(&k->s, k->f, &text, &r)) return;
    expect(strstr(r.artifact.schedule, "no AMX: ") != NULL, "a refused permission is not in the schedule");
    expect(!strstr(r.artifact.data, "tmm"), "AMX in spite of a refused permission");
    Text t;
    text_init(&t, &k->s.arena);
    diag_render_all(&k->s, &t);
    expect(strstr(t.data, "does not use AMX: ") != NULL, "no warning of a refused permission");
}

static void test_choice(void)
{
    static const int64_t one_row[3] = { 1, 64, 16 }, equal[3] = { 1, 64, 64 }, size[3] = { 64, 64, 64 };
    const BackendOptions old = { .cpu = "x86-64-v2" }, host = { .opt_level = 2, .features = all_amx };
    product(&old, types[0], one_row, 0, chooses_by_rates);
    product(&old, types[0], equal, 0, chooses_vectors);
    /* A machine without AMX refuses; one with AMX runs its instructions. */
    bool amx = __builtin_cpu_supports("amx-bf16") && __builtin_cpu_supports("amx-int8");
    for (size_t t = 0; t < N_TYPES; t++)
        if (!amx || types[t][0] != DT_F16) product(&host, types[t], size, 0, amx ? NULL : says_refused);
}

int main(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        printf("this machine has no AVX2\n");
        return 77;
    }
    test_products();
    test_few();
    test_extremes();
    test_denormals();
    test_callers_configuration();
    test_code();
    test_streams();
    test_choice();
    printf("%d checks, %d failures\n", checks, failures);
    return failures || !checks;
}
