/* test_scalars.c: the words of scalars of every type that reach a fake CUDA driver, and the numbers that a
 * launch refuses or rounds. */
#include "api.h"
#include <math.h>

static FakeState *fake;
static tile_context *ctx;

static uint64_t last_word;
static unsigned char place[8];

static void begin(void (*on_launch)(void **))
{
    fake = fake_open(FAKE_CUDA);
    tile_context_desc d = fake_desc("cuda", FAKE_CUDA);
    CU_ASSERT_EQUAL_FATAL(tile_context_create(&d, &ctx), TILE_OK);
    fake->on_launch = on_launch;
}

static void end(void)
{
    fake->on_launch = NULL;
    tile_context_destroy(ctx);
    CU_ASSERT_EQUAL(fake->live_modules, 0);
}

/* A kernel of one tensor and one scalar: what is no address is the scalar. */
static void read_word(void **params)
{
    for (int i = 0; i < 2; i++) {
        uint64_t w;
        memcpy(&w, params[i], 8);
        if (w != (uint64_t)(uintptr_t)place) last_word = w;
    }
}

typedef struct Word {
    const char *type;
    tile_dtype dtype;
    int bytes;
    tile_arg arg;
    uint64_t want;
} Word;

static tile_arg whole(int64_t i) { return tile_arg_int(i); }
static tile_arg real(double f) { return tile_arg_float(f); }

static tile_status launch_word(const Word *w)
{
    char text[200];
    int64_t n = 1;
    tile_kernel *k;
    snprintf(text, sizeof text, "kernel k(out %s Y[1], %s s) grid (1) { store(Y[0], s); }", w->type, w->type);
    OK(ctx, kernel_of(ctx, text, "k", NULL, 0, &k));
    tile_tensor t = { place, &n, NULL, 1, w->dtype };
    last_word = ~0ull;
    tile_status st = tile_launch(k, (tile_arg[]){ tile_arg_tensor(&t), w->arg }, 2, NULL);
    tile_kernel_destroy(k);
    return st;
}

/* Every type by its word; floats are rounded once from the f64 that the caller gives, and fp8 saturates. */
static void test_words(void)
{
    const Word words[] = {
        { "bool", TILE_BOOL, 1, whole(1), 1 },
        { "bool", TILE_BOOL, 1, whole(0), 0 },
        { "i8", TILE_I8, 1, whole(-128), 0x80 },
        { "i16", TILE_I16, 2, whole(-2), 0xfffe },
        { "i32", TILE_I32, 4, whole(INT32_MIN), 0x80000000 },
        { "i64", TILE_I64, 8, whole(INT64_MIN), 0x8000000000000000 },
        { "u8", TILE_U8, 1, whole(255), 255 },
        { "u16", TILE_U16, 2, whole(65535), 65535 },
        { "u32", TILE_U32, 4, whole(4294967295), 0xffffffff },
        { "u64", TILE_U64, 8, whole(-1), UINT64_MAX },
        { "f16", TILE_F16, 2, real(1.0), 0x3c00 },
        { "f16", TILE_F16, 2, real(-0.0), 0x8000 },
        { "f16", TILE_F16, 2, real(65520), 0x7c00 },
        { "f16", TILE_F16, 2, real(0x1p-24), 1 },
        { "f16", TILE_F16, 2, real(1 + 0x1p-11 + 0x1p-40), 0x3c01 },
        { "f16", TILE_F16, 2, whole(3), 0x4200 },
        { "bf16", TILE_BF16, 2, real(1.0), 0x3f80 },
        { "bf16", TILE_BF16, 2, real(1 + 0x1p-8 + 0x1p-40), 0x3f81 },
        { "bf16", TILE_BF16, 2, real(-INFINITY), 0xff80 },
        { "f32", TILE_F32, 4, real(1 + 0x1p-24 + 0x1p-40), 0x3f800001 },
        { "f32", TILE_F32, 4, whole(-2), 0xc0000000 },
        { "f64", TILE_F64, 8, real(0.1), 0x3fb999999999999a },
        { "f8e4m3", TILE_F8E4M3, 1, real(1.0), 0x38 },
        { "f8e4m3", TILE_F8E4M3, 1, real(1e9), 0x7e },
        { "f8e4m3", TILE_F8E4M3, 1, real(-INFINITY), 0xfe },
        { "f8e4m3", TILE_F8E4M3, 1, real(0x1p-9), 1 },
        { "f8e5m2", TILE_F8E5M2, 1, real(1.0), 0x3c },
        { "f8e5m2", TILE_F8E5M2, 1, real(1e9), 0x7b },
        { "f8e5m2", TILE_F8E5M2, 1, real(1 + 0x1p-3 + 0x1p-40), 0x3d },
    };
    begin(read_word);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const Word *w = &words[i];
        uint64_t mask = w->bytes == 8 ? ~0ull : (1ull << 8 * w->bytes) - 1;
        OK(ctx, launch_word(w));
        if ((last_word & mask) != w->want)
            printf("%s, case %zu: %#llx, want %#llx\n", w->type, i, (unsigned long long)(last_word & mask),
                (unsigned long long)w->want);
        CU_ASSERT_EQUAL(last_word & mask, w->want);
    }
    end();
}

/* A NaN stays one in every type of floats. */
static void test_nan(void)
{
    static const struct {
        Word w;
        uint64_t above; /* what the magnitude's bits are larger than */
    } nans[] = {
        { { "f16", TILE_F16, 2, { 0 }, 0x7fff }, 0x7c00 },
        { { "bf16", TILE_BF16, 2, { 0 }, 0x7fff }, 0x7f80 },
        { { "f32", TILE_F32, 4, { 0 }, 0x7fffffff }, 0x7f800000 },
        { { "f8e4m3", TILE_F8E4M3, 1, { 0 }, 0x7f }, 0x7e },
        { { "f8e5m2", TILE_F8E5M2, 1, { 0 }, 0x7f }, 0x7c },
    };
    begin(read_word);
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        Word w = nans[i].w;
        w.arg = real(NAN);
        OK(ctx, launch_word(&w));
        CU_ASSERT((last_word & w.want) > nans[i].above);
    }
    end();
}

/* Whole numbers that a type cannot hold, and floats where a whole number is wanted, launch nothing. */
static void test_refused(void)
{
    const Word words[] = {
        { "bool", TILE_BOOL, 1, whole(2), 0 },
        { "i8", TILE_I8, 1, whole(128), 0 },
        { "i16", TILE_I16, 2, whole(-32769), 0 },
        { "u8", TILE_U8, 1, whole(-1), 0 },
        { "u16", TILE_U16, 2, whole(65536), 0 },
        { "u32", TILE_U32, 4, whole(1ll << 32), 0 },
        { "i32", TILE_I32, 4, real(1.0), 0 },
        { "bool", TILE_BOOL, 1, real(1.0), 0 },
        { "f16", TILE_F16, 2, tile_arg_none(), 0 },
    };
    begin(NULL);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        CHECK_STATUS(ctx, launch_word(&words[i]), TILE_ERROR_DTYPE);
        CHECK_TEXT(error_of(ctx), "k: argument 2 (s): ");
    }
    CHECK_STATUS(ctx, launch_word(&words[4]), TILE_ERROR_DTYPE);
    CHECK_TEXT(error_of(ctx), "65536 does not fit u16");
    CU_ASSERT_EQUAL(fake->launches, 0);
    end();
}

UNIT_MAIN("scalars", { "words", test_words }, { "nan", test_nan }, { "refused", test_refused })
