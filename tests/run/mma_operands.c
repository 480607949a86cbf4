/* mma_operands.c: products of every kind of operand and accumulator on the CPU: loaded, transposed, broadcast
 * from a row, a column or a number, chosen by `where`, reduced, computed of positions, gathered, another
 * product's result, the same value twice; at every optimization level and in every matrix type. The values
 * are small integers, so that every result is exact; the reference is the plain triple loop here.
 *
 *     tile_mma_test [--count=N] [--first=SEED] [--show] */
#include "tile/tile.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40, TENSORS = 32 };
typedef double Matrix[MOST][MOST];
typedef struct Tensor {
    char name[16];
    int rank, type;
    int64_t shape[2];
    double v[MOST * MOST];
} Tensor;

enum { T_F32, T_F16, T_BF16, T_F64, T_I8, T_U8, T_E4M3, T_E5M2, TYPES, T_I32 = TYPES };
static const struct {
    const char *name, *acc;
    tile_dtype dtype;
    int acc_type, bytes;
} types[] = {
    { "f32", "f32", TILE_F32, T_F32, 4 },
    { "f16", "f32", TILE_F16, T_F32, 2 },
    { "bf16", "f32", TILE_BF16, T_F32, 2 },
    { "f64", "f64", TILE_F64, T_F64, 8 },
    { "i8", "i32", TILE_I8, T_I32, 1 },
    { "u8", "i32", TILE_U8, T_I32, 1 },
    { "f8e4m3", "f32", TILE_F8E4M3, T_F32, 1 },
    { "f8e5m2", "f32", TILE_F8E5M2, T_F32, 1 },
    { "i32", "i32", TILE_I32, T_I32, 4 },
};

typedef struct Case {
    uint64_t random;
    int type, n_tensors, n_names;
    char text[16384];
    size_t length;
    Tensor tensor[TENSORS];
} Case;

static int below(Case *c, int n)
{
    uint64_t z = c->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int)((z ^ z >> 31) % (unsigned)n);
}

static void say(Case *c, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    c->length += (size_t)vsnprintf(c->text + c->length, sizeof c->text - c->length, format, ap);
    va_end(ap);
    if (c->length >= sizeof c->text) abort();
}

/* A tensor of small integers; the name of its parameter. */
static Tensor *tensor(Case *c, int type, int rank, int rows, int columns)
{
    Tensor *t = &c->tensor[c->n_tensors++];
    if (c->n_tensors > TENSORS) abort();
    snprintf(t->name, sizeof t->name, "X%d", c->n_tensors);
    t->type = type;
    t->rank = rank;
    t->shape[0] = rows;
    t->shape[1] = columns;
    for (int i = 0; i < rows * columns; i++)
        t->v[i] = type == T_U8 || type == T_I32 ? below(c, 3) : below(c, 5) - 2;
    return t;
}

static double at(const Tensor *t, int r, int col)
{
    return r < t->shape[0] && (t->rank < 2 || col < t->shape[1])
               ? t->v[t->rank < 2 ? r : r * t->shape[1] + col]
               : 0;
}

#define EACH \
    for (int i = 0; i < rows; i++) \
        for (int j = 0; j < columns; j++) m[i][j]

/* Writes `let NAME = ..` for a tile [rows, columns] of `type`, and its values. */
typedef enum OperandKind {
    LOADED,
    TRANSPOSED,
    SHIFTED,
    COLUMN,
    ROW,
    SPLAT,
    WHERE,
    ARANGE,
    REDUCED,
    COLUMN_TURNED,
    ROW_TURNED,
    REDUCED_TURNED,
    GATHERED,
    COMPUTED_TURNED,
    OUTER,
    PRODUCT,
    SCANNED
} OperandKind;
enum { KINDS = SCANNED + 1 };

static void operand(Case *c, OperandKind kind, int type, const char *name, int rows, int columns, Matrix m);

/* The largest of nine elements of each row, repeated along the rows or, turned, along the columns. */
static void reduced(Case *c, int type, const char *name, int rows, int columns, bool turned, Matrix m)
{
    int n = turned ? columns : rows;
    Tensor *x = tensor(c, type, 2, n, 9);
    say(c, "    let %s_m = max(load(%s[0 +: %d, 0 +: 9]), axis = 1);\n", name, x->name, n);
    if (turned) say(c, "    let %s = transpose(broadcast(%s_m, [%d, %d]));\n", name, name, columns, rows);
    else say(c, "    let %s = broadcast(%s_m, [%d, %d]);\n", name, name, rows, columns);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            m[i][j] = at(x, turned ? j : i, 0);
            for (int k = 1; k < 9; k++)
                if (at(x, turned ? j : i, k) > m[i][j]) m[i][j] = at(x, turned ? j : i, k);
        }
}

/* Of another product, cut to a few values. */
static void multiplied(Case *c, int type, const char *name, int rows, int columns, Matrix m)
{
    static const OperandKind kinds[] = { LOADED, COLUMN, ROW_TURNED, WHERE };
    enum { DEPTH = 5, MOST = 4 };
    Matrix a, b;
    char left[24], right[24];
    int t = type == T_I32 ? T_I8 : type;
    snprintf(left, sizeof left, "%s_a", name);
    snprintf(right, sizeof right, "%s_b", name);
    operand(c, kinds[below(c, 4)], t, left, rows, DEPTH, a);
    operand(c, kinds[below(c, 4)], t, right, DEPTH, columns, b);
    say(c, "    let %s = %s(min(max(mma(%s, %s), 0), %d));\n", name, types[type].name, left, right, MOST);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            m[i][j] = 0;
            for (int k = 0; k < DEPTH; k++) m[i][j] += a[i][k] * b[k][j];
            m[i][j] = m[i][j] < 0 ? 0 : m[i][j] > MOST ? MOST : m[i][j];
        }
}

static void operand(Case *c, OperandKind kind, int type, const char *name, int rows, int columns, Matrix m)
{
    const char *T = types[type].name;
    Tensor *x, *y;
    switch (kind) {
    case LOADED:
        x = tensor(c, type, 2, rows, columns);
        say(c, "    let %s = load(%s[0 +: %d, 0 +: %d]);\n", name, x->name, rows, columns);
        EACH = at(x, i, j);
        return;
    case TRANSPOSED:
        x = tensor(c, type, 2, columns, rows);
        say(c, "    let %s = transpose(load(%s[0 +: %d, 0 +: %d]));\n", name, x->name, columns, rows);
        EACH = at(x, j, i);
        return;
    case SHIFTED: /* cut off at the end */
        x = tensor(c, type, 2, rows, columns);
        say(c, "    let %s = load(%s[1 +: %d, 2 +: %d]);\n", name, x->name, rows, columns);
        EACH = at(x, i + 1, j + 2);
        return;
    case COLUMN:
        x = tensor(c, type, 1, rows, 1);
        say(c, "    let %s = broadcast(load(%s[0 +: %d])[:, None], [%d, %d]);\n", name, x->name, rows, rows,
            columns);
        EACH = at(x, i, 0);
        return;
    case ROW:
        x = tensor(c, type, 1, columns, 1);
        say(c, "    let %s = broadcast(load(%s[0 +: %d])[None, :], [%d, %d]);\n", name, x->name, columns,
            rows, columns);
        EACH = at(x, j, 0);
        return;
    case SPLAT:
        say(c, "    let %s = zeros([%d, %d], %s) + 2;\n", name, rows, columns, T);
        EACH = 2;
        return;
    case WHERE:
        x = tensor(c, type, 2, rows, columns);
        say(c,
            "    let %s = where((arange(%d)[:, None] + arange(%d)[None, :]) %% 3 == 0, load(%s[0 +: %d, 0 +: "
            "%d]), %s(1));\n",
            name, rows, columns, x->name, rows, columns, T);
        EACH = (i + j) % 3 == 0 ? at(x, i, j) : 1;
        return;
    case ARANGE:
        say(c, "    let %s = %s((arange(%d)[:, None] * 2 + arange(%d)[None, :]) %% 5);\n", name, T, rows,
            columns);
        EACH = (2 * i + j) % 5;
        return;
    case REDUCED:
    case REDUCED_TURNED: reduced(c, type, name, rows, columns, kind == REDUCED_TURNED, m); return;
    case COLUMN_TURNED:
        x = tensor(c, type, 1, columns, 1);
        say(c, "    let %s = transpose(broadcast(load(%s[0 +: %d])[:, None], [%d, %d]));\n", name, x->name,
            columns, columns, rows);
        EACH = at(x, j, 0);
        return;
    case ROW_TURNED:
        x = tensor(c, type, 1, rows, 1);
        say(c, "    let %s = transpose(broadcast(load(%s[0 +: %d])[None, :], [%d, %d]));\n", name, x->name,
            rows, columns, rows);
        EACH = at(x, i, 0);
        return;
    case GATHERED:
        x = tensor(c, type, 2, rows, columns);
        say(c, "    let %s = gather(%s[(%d - 1 - arange(%d))[:, None], arange(%d)[None, :]]);\n", name,
            x->name, rows, rows, columns);
        EACH = at(x, rows - 1 - i, j);
        return;
    case COMPUTED_TURNED:
        x = tensor(c, type, 2, columns, rows);
        y = tensor(c, type, 1, columns, 1);
        say(c, "    let %s = transpose(load(%s[0 +: %d, 0 +: %d]) * 2 + load(%s[0 +: %d])[:, None]);\n", name,
            x->name, columns, rows, y->name, columns);
        EACH = 2 * at(x, j, i) + at(y, j, 0);
        return;
    case OUTER:
        x = tensor(c, type, 1, rows, 1);
        y = tensor(c, type, 1, columns, 1);
        say(c, "    let %s = load(%s[0 +: %d])[:, None] * load(%s[0 +: %d])[None, :];\n", name, x->name, rows,
            y->name, columns);
        EACH = at(x, i, 0) * at(y, j, 0);
        return;
    case PRODUCT: multiplied(c, type, name, rows, columns, m); return;
    case SCANNED:
        x = tensor(c, type, 2, rows, columns);
        say(c, "    let %s = cummax(load(%s[0 +: %d, 0 +: %d]), axis = 1);\n", name, x->name, rows, columns);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++)
                m[i][j] = j && m[i][j - 1] > at(x, i, j) ? m[i][j - 1] : at(x, i, j);
        return;
    }
}

static int extent(Case *c)
{ return (const int[]){ 1, 2, 3, 4, 5, 7, 8, 15, 16, 16, 17, 20, 31, 32, 33 }[below(c, 15)]; }

/* The accumulator: none, a row or a column that broadcasts by itself, or any operand; perhaps carried by a
 * loop. */
static void product(
    Case *c, int m, int n, int k, const char *a, const char *b, Matrix left, Matrix right, Matrix want)
{
    const char *A = types[c->type].acc;
    int type = types[c->type].acc_type, form = below(c, 8), times = below(c, 3) ? 1 : 3;
    Matrix acc = { { 0 } };
    const char *sum = "acc";
    bool none = form == 0 && times == 1;
    if (form == 0) {
        say(c, "    let acc = zeros([%d, %d], %s);\n", m, n, A);
    } else if (form <= 2) {
        Tensor *x = tensor(c, type, 1, form == 1 ? n : m, 1);
        say(c, "    let acc = load(%s[0 +: %d])%s;\n", x->name, form == 1 ? n : m,
            form == 1 ? "[None, :]" : "[:, None]");
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) acc[i][j] = at(x, form == 1 ? j : i, 0);
    } else operand(c, (OperandKind)below(c, KINDS), type, "acc", m, n, acc);
    if (times > 1) { /* the loop's own copy, whole */
        say(c,
            "    var s = acc + zeros([%d, %d], %s);\n    for k in 0 .. %d {\n        s = mma(%s, %s, s);\n   "
            " }\n",
            m, n, A, times, a, b);
    } else if (none) say(c, "    let s = mma(%s, %s);\n", a, b);
    else say(c, "    let s = mma(%s, %s, %s);\n", a, b, sum);
    bool twice = !none && below(c, 2); /* the accumulator is read after the product too */
    say(c, "    store(Y[0 +: %d, 0 +: %d], s%s);\n", m, n, twice ? " + acc" : "");
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double v = 0;
            for (int p = 0; p < k; p++) v += left[i][p] * right[p][j];
            want[i][j] = times * v + acc[i][j] * (1 + twice);
        }
}

static void make(Case *c, int *m, int *n, Matrix want)
{
    static Matrix left, right;
    int k = extent(c);
    OperandKind kind = (OperandKind)below(c, KINDS);
    *m = extent(c);
    *n = extent(c);
    int same = below(c, 6); /* 0: the left operand and its own transpose; 1: the left operand twice */
    if (same == 0) *n = *m;
    if (same == 1) *n = k = *m;
    operand(c, kind, c->type, "a", *m, k, left);
    if (same == 0) {
        say(c, "    let b = transpose(a);\n");
        for (int p = 0; p < k; p++)
            for (int j = 0; j < *n; j++) right[p][j] = left[j][p];
    } else if (same == 1) memcpy(right, left, sizeof right);
    else operand(c, (OperandKind)below(c, KINDS), c->type, "b", k, *n, right);
    product(c, *m, *n, k, "a", same == 1 ? "a" : "b", left, right, want);
}

/* --- running ----------------------------------------------------------------------------------------- */

/* A small integer in the type's bits. */
static void encode(int type, double v, void *out)
{
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    int e = (int)(u >> 23 & 255) - 127;
    uint32_t sign = u >> 31, fraction = u & 0x7fffff;
    switch (type) {
    case T_F32: memcpy(out, &f, 4); return;
    case T_F64: memcpy(out, &v, 8); return;
    case T_I32: *(int32_t *)out = (int32_t)v; return;
    case T_I8:
    case T_U8: *(uint8_t *)out = (uint8_t)(int)v; return;
    case T_BF16: *(uint16_t *)out = (uint16_t)(u >> 16); return;
    case T_F16:
        *(uint16_t *)out = (uint16_t)(v == 0 ? 0 : sign << 15 | (uint32_t)(e + 15) << 10 | fraction >> 13);
        return;
    case T_E4M3:
        *(uint8_t *)out = (uint8_t)(v == 0 ? 0 : sign << 7 | (uint32_t)(e + 7) << 3 | fraction >> 20);
        return;
    default:
        *(uint8_t *)out = (uint8_t)(v == 0 ? 0 : sign << 7 | (uint32_t)(e + 15) << 2 | fraction >> 21);
        return;
    }
}

static double decode(int type, const void *p, size_t i)
{
    return type == T_F32   ? ((const float *)p)[i]
           : type == T_F64 ? ((const double *)p)[i]
                           : ((const int32_t *)p)[i];
}

static void show(void *user, const tile_diagnostic *d)
{
    (void)user;
    if (d->severity <= TILE_SEVERITY_WARNING) fputs(d->rendered, stderr);
}

/* The text of a whole kernel: the parameters are known once its body is. */
static char *whole(const Case *c, int m, int n)
{
    static char text[32768];
    int at = snprintf(text, sizeof text, "kernel p(");
    for (int i = 0; i < c->n_tensors; i++) {
        const Tensor *t = &c->tensor[i];
        at += snprintf(text + at, sizeof text - (size_t)at,
            t->rank > 1 ? "in %s %s[%d, %d], " : "in %s %s[%d], ", types[t->type].name, t->name,
            (int)t->shape[0], (int)t->shape[1]);
    }
    snprintf(text + at, sizeof text - (size_t)at, "out %s Y[%d, %d]) grid (1)\n{\n%s}\n", types[c->type].acc,
        m, n, c->text);
    return text;
}

static tile_status launch(tile_kernel *k, const Case *c, int64_t m, int64_t n, void *y)
{
    static _Alignas(64) unsigned char data[TENSORS][MOST * MOST * 8];
    tile_tensor t[TENSORS + 1];
    tile_arg a[TENSORS + 1];
    int64_t shape[2] = { m, n };
    for (int i = 0; i < c->n_tensors; i++) {
        const Tensor *x = &c->tensor[i];
        for (int64_t e = 0; e < x->shape[0] * x->shape[1]; e++)
            encode(x->type, x->v[e], data[i] + e * types[x->type].bytes);
        t[i] = (tile_tensor){ data[i], x->shape, NULL, x->rank, types[x->type].dtype };
        a[i] = tile_arg_tensor(&t[i]);
    }
    t[c->n_tensors] = (tile_tensor){ y, shape, NULL, 2, types[types[c->type].acc_type].dtype };
    a[c->n_tensors] = tile_arg_tensor(&t[c->n_tensors]);
    return tile_launch(k, a, (size_t)c->n_tensors + 1, NULL);
}

static bool run(tile_context *ctx, const Case *c, int m, int n, Matrix want, uint64_t seed, int level)
{
    static _Alignas(64) double y[MOST * MOST];
    char error[4096];
    const char *text = whole(c, m, n);
    tile_module *module = NULL;
    tile_kernel *k = NULL;
    tile_status st = tile_module_load_memory(ctx, "p.tile", text, strlen(text), NULL, &module);
    memset(y, 0x55, sizeof y);
    if (!st) st = tile_kernel_create(module, "p", NULL, 0, &k);
    if (!st) st = launch(k, c, m, n, y);
    if (st) {
        tile_context_error(ctx, error, sizeof error);
        printf("seed %llu, -O%d: %s\n%s", (unsigned long long)seed, level, error, text);
    }
    bool ok = !st;
    for (int i = 0; i < m && ok; i++)
        for (int j = 0; j < n && ok; j++) {
            double v = decode(types[c->type].acc_type, y, (size_t)(i * n + j));
            if (v == want[i][j]) continue;
            printf("seed %llu, -O%d: [%d, %d] is %g, not %g\n%s", (unsigned long long)seed, level, i, j, v,
                want[i][j], text);
            ok = false;
        }
    if (k) tile_kernel_destroy(k);
    if (module) tile_module_destroy(module);
    return ok;
}

int main(int argc, char **argv)
{
    static const int levels[] = { -1, 1, 2, 3 };
    static Case c;
    static Matrix want;
    tile_context *ctx[4];
    unsigned long long first = 1, count = 200;
    bool print = false;
    int bad = 0;
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--count=", 8)) count = strtoull(argv[i] + 8, NULL, 10);
        else if (!strncmp(argv[i], "--first=", 8)) first = strtoull(argv[i] + 8, NULL, 10);
        else if (!strcmp(argv[i], "--show")) print = true;
        else {
            fprintf(stderr, "usage: %s [--first=SEED] [--count=N] [--show]\n", argv[0]);
            return 2;
        }
    }
    for (int l = 0; l < 4; l++) {
        tile_context_desc d = { .struct_size = sizeof d,
            .target = "cpu",
            .flags = TILE_CONTEXT_NO_CACHE,
            .opt_level = levels[l],
            .threads = 1,
            .on_diagnostic = show };
        if (tile_context_create(&d, &ctx[l])) {
            puts("SKIP: no CPU backend");
            return 77;
        }
    }
    for (unsigned long long seed = first; seed < first + count; seed++) {
        int m, n;
        memset(&c, 0, sizeof c);
        c.random = seed * 0x2545f4914f6cdd1du;
        c.type = (int)(seed % TYPES);
        make(&c, &m, &n, want);
        if (print) fputs(whole(&c, m, n), stdout);
        int l = (int)(seed / TYPES % 4);
        bad += !run(ctx[l], &c, m, n, want, seed, levels[l] < 0 ? 0 : levels[l]);
    }
    for (int l = 0; l < 4; l++) tile_context_destroy(ctx[l]);
    printf("%llu products, %d wrong\n", count, bad);
    return bad > 0;
}
