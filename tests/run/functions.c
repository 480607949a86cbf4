/* functions.c: see functions.h. */
#include "functions.h"
#include "ref_type.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS "M=5 K=64"
#define BY_ROWS "grid (M)"
#define GEMM "M=256 N=128 K=128 P2=3 P3=4"
#define BY_TILES "grid (cdiv(M, 128), cdiv(N, 128))"
#define EXACTLY "0 0 0"
/* accesses of one tensor that is read and written, in vectors of $b bits */
#define TURNED(cache) \
    "let x = load(A[i, 0 +: $n]" cache ");\n    store(A[i, 0 +: $n], x + x" cache ");\n" \
    "    store(B[i, 0 +: $n], load(B[i, 0 +: $n]" cache ") + x" cache ");\n"
/* a product whose operands and result have $r axes */
#define PRODUCT(cache) \
    "let (i, j) = program_id();\n    var acc = zeros([128, 128], f32);\n" \
    "    for k in 0 .. cdiv(K, 64) {\n" \
    "        let a = load(A[$li*128 +: 128, k*64 +: 64]" cache ");\n" \
    "        acc = mma(a, load(B[$lk*64 +: 64, j*128 +: 128]" cache "), acc);\n    }\n" \
    "    store(Y[$li*128 +: 128, j*128 +: 128], f16(acc)" cache ");\n"
#define PRODUCT_TENSORS "in A[$dM,K] f16 int:2; in B[$dK,N] f16 int:2; out Y[$dM,N] f16"
/* a product with a vector beside it, which lies along the reduction */
#define SCALED_TENSORS "in A[M,K] f16 int:2; in B[K,N] f16 int:2; in S[K] f16 int:2; out Y[M,N] f16"
#define SCALED(cache) \
    "let (i, j) = program_id();\n    var acc = zeros([128, 128], f32);\n" \
    "    for k in 0 .. cdiv(K, 64) {\n" \
    "        let a = load(A[i*128 +: 128, k*64 +: 64]) * load(S[k*64 +: 64]" cache ")[None, :];\n" \
    "        acc = mma(a, load(B[k*64 +: 64, j*128 +: 128]), acc);\n    }\n" \
    "    store(Y[i*128 +: 128, j*128 +: 128], f16(acc));\n"
#define TURN(text) "let i = program_id();\n    " text
#define EACH(text) TURN("let x = load(A[i, 0 +: 64]);\n    " text)
#define APPROXIMATE(name) "store(Y[i, 0 +: 64], " name "(x, approx = true));\n"

const FunctionRow function_rows[] = {
    /* one element a lane: words that hold several stay as they are */
    { "bits_$t_$u", ROWS, "in A[M,K] $t index:9; out Y[M,K] $t", EXACTLY,
        BY_ROWS " hint (pack = 1, warps = 1)",
        TURN("let x = load(A[i, 0 +: 32 : 3]);\n"
             "    store(Y[i, 0 +: 32 : 3], bitcast(bitcast(x + x, $u), $t));\n") },
    /* rows by themselves: several are one piece */
    { "ldg_b$b", "M=5", "inout A[M,$n] u8 int:5; inout B[M,$n] u8 int:5", EXACTLY, BY_ROWS " hint (pack = 1)",
        TURN(TURNED("")) },
    { "ldg_$c_b$b", "M=5", "inout A[M,$n] u8 int:5; inout B[M,$n] u8 int:5", EXACTLY,
        BY_ROWS " hint (pack = 1)", TURN(TURNED(", cache = $c")) },
    { "stg_$c_b$b", "M=5", "inout A[M,$n] u8 int:5; inout B[M,$n] u8 int:5", EXACTLY,
        BY_ROWS " hint (pack = 1)", TURN(TURNED(", cache = $c")) },
    { "stg_if_$c_b128", "M=37 N=1009", "in A[M,N] f16 int:5; out Y[M,N] f16", EXACTLY,
        "grid (cdiv(M, 4)) hint (warps = 1)",
        TURN("let x = load(A[i*4 +: 4, 0 +: 1009]);\n"
             "    store(Y[i*4 +: 4, 0 +: 1009], x * 2.0, cache = $c);\n") },
    { "tma_load_$c_1d", GEMM, SCALED_TENSORS, EXACTLY, BY_TILES, SCALED(", cache = $c") },
    { "tma_load_1d", GEMM, SCALED_TENSORS, EXACTLY, BY_TILES, SCALED("") },
    { "tma_load_$c_$rd", GEMM, PRODUCT_TENSORS, EXACTLY, BY_TILES, PRODUCT(", cache = $c") },
    { "tma_store_$c_$rd", GEMM, PRODUCT_TENSORS, EXACTLY, BY_TILES, PRODUCT(", cache = $c") },
    { "tma_multicast_$c_$rd", GEMM, PRODUCT_TENSORS, EXACTLY, BY_TILES " hint (cluster = 2)",
        PRODUCT(", cache = $c") },
    { "tma_load_$rd", GEMM, PRODUCT_TENSORS, EXACTLY, BY_TILES, PRODUCT("") },
    { "tma_store_$rd", GEMM, PRODUCT_TENSORS, EXACTLY, BY_TILES, PRODUCT("") },
    { "tma_multicast_$rd", GEMM, PRODUCT_TENSORS, EXACTLY, BY_TILES " hint (cluster = 2)", PRODUCT("") },
    { "atomic_exch_$t", ROWS, "inout A[M,K] $t int:5; in B[M,K] $t int:5; out Y[M,K] $t", EXACTLY, BY_ROWS,
        TURN("let b = load(B[i, 0 +: 64]);\n"
             "    store(Y[i, 0 +: 64], atomic_exch(A[i, 63 - arange(64)], b + b));\n") },
    { "atomic_cas_$t", ROWS, "inout A[M,K] $t int:1; in B[M,K] $t int:1; out Y[M,K] $t", EXACTLY, BY_ROWS,
        TURN("let b = load(B[i, 0 +: 64]);\n"
             "    store(Y[i, 0 +: 64], atomic_cas(A[i, 63 - arange(64)], b, b + b));\n") },
    { "fence_device", ROWS, "inout A[M,K] i32 int:5; in B[M,K] i32 int:5", EXACTLY, BY_ROWS,
        TURN("atomic_add(A[i, arange(64)], load(B[i, 0 +: 64]), order = acq_rel);\n") },
    { "send_$t", "M=5", "in A[M,8192] $t int:5; out Y[M,8192] $t", EXACTLY, BY_ROWS " hint (cluster = 2)",
        TURN("let x = load(A[i +: 1, 0 +: 8192]);\n"
             "    store(Y[i +: 1, 0 +: 8192], x - max(x, axis = 1));\n") },
    { "send_index", "M=5", "in A[M,8192] i64 int:5; out Y[M] i32", EXACTLY, BY_ROWS " hint (cluster = 2)",
        TURN("let x = index(load(A[i, 0 +: 8192]));\n"
             "    store(Y[i], argmax(x, axis = 0, drop = true));\n") },
    { "workspace_draw", "M=5 N=4096", "in A[M,N] f32 int:2; out Y[M,64] f32", EXACTLY,
        BY_ROWS " hint (split_k = 16)",
        TURN("var acc = zeros([1, 64], f32);\n"
             "    for k in 0 .. N/64 { acc = acc + load(A[i +: 1, k*64 +: 64]); }\n"
             "    store(Y[i +: 1, 0 +: 64], acc);\n") },
    /* A row of more elements than threads sort in their registers. */
    { "after_index", "M=5 K=4096", "in A[M,K] i32 int:5; out Y[M,K] i64", EXACTLY,
        BY_ROWS " hint (warps = 1)",
        TURN("let x = load(A[i, 0 +: 4096]);\n"
             "    store(Y[i, 0 +: 4096], i64(sort(index(x) * arange(4096))));\n") },
    { "$o_index", ROWS, "in A[M,K] i32 int:5; out Y[M,1] i64", EXACTLY, BY_ROWS,
        EACH("store(Y[i, 0], i64($o(index(x) * arange(64), axis = 0, drop = true)));\n") },
    { "$a_f32_approx", ROWS, "in A[M,K] f16 unit; out Y[M,K] f16", "4 0 0", BY_ROWS,
        EACH("store(Y[i, 0 +: 64], $a(x, approx = true));\n") },
};
const int n_function_rows = sizeof function_rows / sizeof *function_rows;

/* What $ and a letter stand for. */
typedef struct Meaning {
    char of[128][48];
} Meaning;

static bool is_type(const char *s)
{
    for (int t = 0; t < REF_TYPES; t++)
        if (!strcmp(ref_type_name((RefType)t), s)) return true;
    return false;
}

static bool fits(char letter, const char *s)
{
    switch (letter) {
    case 't':
    case 'u': return is_type(s);
    case 'c': return !strcmp(s, "stream") || !strcmp(s, "keep") || !strcmp(s, "bypass");
    case 'o': return !strcmp(s, "max") || !strcmp(s, "min");
    case 'a': return *s && !strpbrk(s, "_");
    default: return isdigit((unsigned char)*s) != 0;
    }
}

static bool match(const char *pattern, const char *name, Meaning *m)
{
    for (const char *p = pattern; *p;) {
        if (*p != '$') {
            if (*p++ != *name++) return false;
            continue;
        }
        char *to = m->of[(int)p[1]];
        size_t n = isdigit((unsigned char)*name) ? strspn(name, "0123456789") : strcspn(name, "_");
        snprintf(to, sizeof m->of[0], "%.*s", (int)n, name);
        if (!fits(p[1], to)) return false;
        p += 2;
        name += n;
    }
    return !*name;
}

/* What follows from the widths and ranks of a name. */
static void derive(Meaning *m)
{
    static const char *const extents[] = { "P2,", "P3,", "P2," };
    static const char *const places[] = { "1, ", "2, ", "0, " };
    int bits = atoi(m->of['b']), axes = atoi(m->of['r']);
    snprintf(m->of['n'], sizeof m->of[0], "%d", bits / 8 * 129);
    for (int a = 2; a < axes && a < 5; a++) {
        strcat(m->of['d'], extents[a - 2]);
        strcat(m->of['l'], places[a - 2]);
    }
}

static void expand(const Meaning *m, const char *text, char *out, size_t size)
{
    size_t n = strlen(out);
    for (const char *p = text; *p && n + 1 < size; p++) {
        if (*p != '$') out[n++] = *p;
        else n += (size_t)snprintf(out + n, size - n, "%s", m->of[(int)*++p & 127]);
    }
    out[n < size ? n : size - 1] = 0;
}

/* "role NAME[dims] type fill; ..." as the kernel's parameters and the launch's arguments. */
static void parameters(RandomKernel *k, size_t size)
{
    char copy[sizeof k->tensors], *rest = copy;
    snprintf(copy, sizeof copy, "%s", k->tensors);
    snprintf(k->launch, sizeof k->launch, "random");
    size_t n = (size_t)snprintf(k->text, size, "kernel random(");
    for (char *one, *sign = ""; (one = strtok_r(rest, ";", &rest)); sign = ", ") {
        char role[8], name[64], type[16];
        if (sscanf(one, " %7s %63s %15s", role, name, type) != 3) abort();
        n += (size_t)snprintf(k->text + n, size - n, "%s%s %s %s", sign, role, type, name);
        *strchr(name, '[') = 0;
        size_t l = strlen(k->launch);
        snprintf(k->launch + l, sizeof k->launch - l, " %s", name);
    }
}

bool function_kernel(const FunctionRow *r, const char *name, RandomKernel *k)
{
    Meaning m = { 0 };
    if (!match(r->pattern, name, &m)) return false;
    derive(&m);
    memset(k, 0, sizeof *k);
    expand(&m, r->sizes, k->sizes, sizeof k->sizes);
    expand(&m, r->tensors, k->tensors, sizeof k->tensors);
    snprintf(k->bounds, sizeof k->bounds, "%s", r->bounds);
    parameters(k, sizeof k->text);
    size_t n = strlen(k->text);
    snprintf(k->text + n, sizeof k->text - n, ")\n    ");
    expand(&m, r->head, k->text, sizeof k->text);
    n = strlen(k->text);
    snprintf(k->text + n, sizeof k->text - n, "\n{\n    ");
    expand(&m, r->body, k->text, sizeof k->text);
    n = strlen(k->text);
    snprintf(k->text + n, sizeof k->text - n, "}\n");
    return true;
}
