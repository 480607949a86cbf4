/* test_amx.c: products by AMX. They are compiled to calls of the model of its instructions (amx_model.h), run
 * on any x86-64 processor with AVX2, and compared with the interpreter: all types, edges of tiles, operands
 * that lie either way. The assembly for processors with AMX has the instructions; a processor whose operating
 * system refuses the tile registers takes another unit; a caller gets its tile configuration back. On a
 * machine with AMX, its own instructions run too. */
#include "amx_model.h"
#include "op_kernel.h"
#include <stdio.h>
#include <stdlib.h>

enum { N_VALUES = 9000 };
static const char all_amx[] = "+amx-tile,+amx-bf16,+amx-int8,+amx-fp16";
static const DType types[][3] = { { DT_BF16, DT_BF16, DT_F32 }, { DT_F16, DT_F16, DT_F32 },
    { DT_I8, DT_I8, DT_I32 }, { DT_I8, DT_U8, DT_I32 }, { DT_U8, DT_I8, DT_I32 }, { DT_U8, DT_U8, DT_I32 } };
enum { N_TYPES = sizeof types / sizeof *types };
static Scalar a[N_VALUES], b[N_VALUES], c[N_VALUES];

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
    static const int64_t one_row[3] = { 1, 64, 16 }, size[3] = { 64, 64, 64 };
    const BackendOptions old = { .cpu = "x86-64-v2" }, host = { .opt_level = 2, .features = all_amx };
    product(&old, types[0], one_row, 0, chooses_by_rates);
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
    test_callers_configuration();
    test_code();
    test_choice();
    printf("%d checks, %d failures\n", checks, failures);
    return failures || !checks;
}
