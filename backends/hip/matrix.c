/* matrix.c: the functions of matrix instructions, d += a b of one wave: "machine" functions like those of
 * prelude.c.
 *
 *     void mfma_32x32x8_f16(float *d, const u32 *a, const u32 *b)
 *
 * d, a and b hold the registers of one fragment of ir/layout/layout_mma.c, a and b packed in words. tests/emu
 * computes the same from AMD's matrix instruction calculator. gfx90a takes and gives denormals of f16 and
 * bf16 as zero (CDNA2 ISA 7.3). */
#include "backends/hip/prelude.h"
#include <stdlib.h>

enum {
    CDNA2 = MATRIX_CDNA2,
    CDNA3 = MATRIX_CDNA3,
    CDNA4 = MATRIX_CDNA4,
    RDNA3 = MATRIX_RDNA3,
    CDNA = CDNA2 | CDNA3 | CDNA4,
    CDNA23 = CDNA2 | CDNA3,
    CDNA34 = CDNA3 | CDNA4
};

typedef struct Matrix {
    const char *name;
    int units; /* MatrixUnit: those that have it */
    const char *d;
    int n;                       /* C type and number of accumulators of a lane */
    int words;                   /* 32-bit words of a and of b in a lane */
    const char *operand;         /* what the builtin takes: "type" or "type elements" */
    const char *builtin, *after; /* after: arguments behind c */
    const char *a_sign, *b_sign; /* WMMA of integers: whether signed */
} Matrix;

#define MFMA(name, units, d, n, words, operand, builtin) \
    { name, units, d, n, words, operand, "mfma_" builtin, ", 0, 0, 0", NULL, NULL }
/* f8f6f4, the formats of a and b as numbers; scales of literal 0 mean the instruction without scales. */
#define SCALED(name, n, shape, formats) \
    { name, CDNA4, "float", n, 8, "i32 8", "mfma_scale_f32_" shape "_f8f6f4", ", " formats ", 0, 0, 0, 0", \
        NULL, NULL }
static const Matrix matrices[] = {
    MFMA("mfma_32x32x8_f16", CDNA23, "float", 16, 2, "_Float16 4", "f32_32x32x8f16"),
    MFMA("mfma_16x16x16_f16", CDNA23, "float", 4, 2, "_Float16 4", "f32_16x16x16f16"),
    MFMA("mfma_32x32x8_bf16", CDNA23, "float", 16, 2, "i16 4", "f32_32x32x8bf16_1k"),
    MFMA("mfma_16x16x16_bf16", CDNA23, "float", 4, 2, "i16 4", "f32_16x16x16bf16_1k"),
    MFMA("mfma_32x32x16_f16", CDNA4, "float", 16, 4, "_Float16 8", "f32_32x32x16_f16"),
    MFMA("mfma_16x16x32_f16", CDNA4, "float", 4, 4, "_Float16 8", "f32_16x16x32_f16"),
    MFMA("mfma_32x32x16_bf16", CDNA4, "float", 16, 4, "__bf16 8", "f32_32x32x16_bf16"),
    MFMA("mfma_16x16x32_bf16", CDNA4, "float", 4, 4, "__bf16 8", "f32_16x16x32_bf16"),
    MFMA("mfma_32x32x2_f32", CDNA, "float", 16, 1, "float", "f32_32x32x2f32"),
    MFMA("mfma_16x16x4_f32", CDNA, "float", 4, 1, "float", "f32_16x16x4f32"),
    MFMA("mfma_32x32x4_xf32", CDNA3, "float", 16, 2, "float 2", "f32_32x32x4_xf32"),
    MFMA("mfma_16x16x8_xf32", CDNA3, "float", 4, 2, "float 2", "f32_16x16x8_xf32"),
    MFMA("mfma_16x16x4_f64", CDNA, "double", 4, 2, "double", "f64_16x16x4f64"),
    MFMA("mfma_32x32x8_i8", CDNA2, "i32", 16, 1, "i32", "i32_32x32x8i8"),
    MFMA("mfma_16x16x16_i8", CDNA2, "i32", 4, 1, "i32", "i32_16x16x16i8"),
    MFMA("mfma_32x32x16_i8", CDNA3, "i32", 16, 2, "long", "i32_32x32x16_i8"),
    MFMA("mfma_16x16x32_i8", CDNA34, "i32", 4, 2, "long", "i32_16x16x32_i8"),
    MFMA("mfma_32x32x32_i8", CDNA4, "i32", 16, 4, "i32 4", "i32_32x32x32_i8"),
    MFMA("mfma_16x16x64_i8", CDNA4, "i32", 4, 4, "i32 4", "i32_16x16x64_i8"),
    MFMA("mfma_32x32x16_f8e4m3", CDNA4, "float", 16, 2, "long",
        "f32_32x32x16_fp8_fp8"), /* FNUZ on gfx942, so not there */
    MFMA("mfma_32x32x16_f8e5m2", CDNA4, "float", 16, 2, "long", "f32_32x32x16_bf8_bf8"),
    MFMA("mfma_32x32x16_f8e4m3_f8e5m2", CDNA4, "float", 16, 2, "long", "f32_32x32x16_fp8_bf8"),
    MFMA("mfma_32x32x16_f8e5m2_f8e4m3", CDNA4, "float", 16, 2, "long", "f32_32x32x16_bf8_fp8"),
    MFMA("mfma_16x16x32_f8e4m3", CDNA4, "float", 4, 2, "long", "f32_16x16x32_fp8_fp8"),
    MFMA("mfma_16x16x32_f8e5m2", CDNA4, "float", 4, 2, "long", "f32_16x16x32_bf8_bf8"),
    MFMA("mfma_16x16x32_f8e4m3_f8e5m2", CDNA4, "float", 4, 2, "long", "f32_16x16x32_fp8_bf8"),
    MFMA("mfma_16x16x32_f8e5m2_f8e4m3", CDNA4, "float", 4, 2, "long", "f32_16x16x32_bf8_fp8"),
    SCALED("mfma_32x32x64_f8e4m3", 16, "32x32x64", "0, 0"),
    SCALED("mfma_32x32x64_f8e5m2", 16, "32x32x64", "1, 1"),
    SCALED("mfma_32x32x64_f8e4m3_f8e5m2", 16, "32x32x64", "0, 1"),
    SCALED("mfma_32x32x64_f8e5m2_f8e4m3", 16, "32x32x64", "1, 0"),
    SCALED("mfma_16x16x128_f8e4m3", 4, "16x16x128", "0, 0"),
    SCALED("mfma_16x16x128_f8e5m2", 4, "16x16x128", "1, 1"),
    SCALED("mfma_16x16x128_f8e4m3_f8e5m2", 4, "16x16x128", "0, 1"),
    SCALED("mfma_16x16x128_f8e5m2_f8e4m3", 4, "16x16x128", "1, 0"),
    { "wmma_16x16x16_f16", RDNA3, "float", 8, 8, "_Float16 16", "wmma_f32_16x16x16_f16_w32", "", NULL, NULL },
    { "wmma_16x16x16_bf16", RDNA3, "float", 8, 8, "i16 16", "wmma_f32_16x16x16_bf16_w32", "", NULL, NULL },
    { "wmma_16x16x16_i8", RDNA3, "i32", 8, 4, "i32 4", "wmma_i32_16x16x16_iu8_w32", ", false", "true, ",
        "true, " },
    { "wmma_16x16x16_u8", RDNA3, "i32", 8, 4, "i32 4", "wmma_i32_16x16x16_iu8_w32", ", false", "false, ",
        "false, " },
    { "wmma_16x16x16_i8_u8", RDNA3, "i32", 8, 4, "i32 4", "wmma_i32_16x16x16_iu8_w32", ", false", "true, ",
        "false, " },
    { "wmma_16x16x16_u8_i8", RDNA3, "i32", 8, 4, "i32 4", "wmma_i32_16x16x16_iu8_w32", ", false", "false, ",
        "true, " },
};

static void list(Text *o, const char *array, int n)
{
    text_puts(o, "{ ");
    for (int i = 0; i < n; i++) text_printf(o, "%s%s[%d]", i ? ", " : "", array, i);
    text_puts(o, " }");
}

const char *hip_matrix_name(int i)
{ return (size_t)i < sizeof matrices / sizeof *matrices ? matrices[i].name : NULL; }

const char *hip_matrix(Session *s, const Target *t, const char *name)
{
    const Matrix *m = NULL;
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        if (!strcmp(matrices[i].name, name) && matrices[i].units & t->matrix) m = &matrices[i];
    if (!m) return NULL;
    int len = (int)strcspn(m->operand, " "), elements = atoi(m->operand + len);
    Text o;
    text_init(&o, &s->arena);
    text_printf(&o,
        "/* machine */\nstatic __device__ __forceinline__ void %s(%s *d, const u32 *a, const u32 *b)\n{\n",
        name, m->d);
    text_printf(
        &o, "    typedef %s D __attribute__((vector_size(%d)));\n", m->d, m->n * (*m->d == 'd' ? 8 : 4));
    if (m->words > 1) text_printf(&o, "    typedef u32 W __attribute__((vector_size(%d)));\n", m->words * 4);
    else text_puts(&o, "    typedef u32 W;\n");
    if (elements)
        text_printf(
            &o, "    typedef %.*s T __attribute__((vector_size(%d)));\n", len, m->operand, m->words * 4);
    else text_printf(&o, "    typedef %.*s T;\n", len, m->operand);
    text_puts(&o, "    D c = ");
    list(&o, "d", m->n);
    text_puts(&o, ";\n    const W x = ");
    list(&o, "a", m->words);
    text_puts(&o, ", y = ");
    list(&o, "b", m->words);
    text_printf(&o,
        ";\n    c = __builtin_amdgcn_%s(%s__builtin_bit_cast(T, x), %s__builtin_bit_cast(T, y), "
        "c%s);\n#pragma unroll\n",
        m->builtin, m->a_sign ? m->a_sign : "", m->b_sign ? m->b_sign : "", m->after);
    text_printf(&o, "    for (int i = 0; i < %d; i++) d[i] = c[i];\n}", m->n);
    return o.data;
}
