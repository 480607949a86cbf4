/* ops_main.c: tile_ops_test: every operation in every type, at ragged extents and on strided views, against
 * the interpreter without passes.
 *
 *     tile_ops_test --device=cuda --jobs=0         as many processes as there are processors, each with a
 *         share of the kernels
 *     tile_ops_test --device=interp --type=f16 --share=0/4
 *     tile_ops_test --operations                   runs nothing: is there a row of every operation of
 * ops.def?
 *
 * Rows of ops.c with equal bounds share a kernel, up to six outputs each. A failure names the output's
 * expression and prints the kernel. Exit status 0, 1, 2 for wrong options, 77 where the device is not there.
 */
#define _GNU_SOURCE
#include "oracle.h"
#include "ops.h"
#include "ops_covered.h"
#include "ref_type.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_OUTPUTS = 6 };

typedef struct Options {
    const char *device, *type;
    int share, shares, group, jobs;
    bool both, show, operations;
} Options;
typedef struct Kernel {
    OpGroup group;
    RefType type;
    const OpRow *row[MOST_OUTPUTS];
    int n;
} Kernel;
typedef struct Variant {
    int m, n;
    const char *views;
} Variant;
typedef struct Test {
    Options o;
    Oracle z;
    int kernels, problems, failed;
} Test;
typedef struct Out {
    char *at, *end;
} Out;

/* By group: extents, and views of the tensors. */
static const Variant variants[OP_GROUPS][6] = {
    [IN_TILES] = { { 3, 1 }, { 3, 9 }, { 3, 225 }, { 5, 1009 }, { 4, 512 },
        { 3, 225, "A:t B:x C:r Y0:t Y1:s" } },
    [IN_CASTS] = { { 3, 225 }, { 4, 512 } },
    [IN_ROWS] = { { 3, 1 }, { 3, 9, "A:t" }, { 2, 225 }, { 3, 1009, "A:s" }, { 2, 64 } },
    [IN_COLUMNS] = { { 1, 20 }, { 9, 20 }, { 225, 20, "A:s" }, { 1009, 9 } },
    [IN_MEMORY] = { { 3, 9 }, { 5, 1009 }, { 4, 512 }, { 3, 225, "A:t Y0:x Y1:s" } },
    [IN_ATOMICS] = { { 3, 9 }, { 5, 300 } },
};

static void put(Out *o, const char *s)
{
    while (*s && o->at + 1 < o->end) *o->at++ = *s++;
    *o->at = 0;
}

static const char *unsigned_of(RefType t)
{
    static const char *const names[] = { [1] = "u8", [2] = "u16", [4] = "u32", [8] = "u64" };
    return names[ref_type_size(t)];
}

/* Another type of the same width: the other float of 8 or 16 bits, else the integer of the other sign. */
static const char *other_of(RefType t)
{
    static const RefType others[REF_TYPES] = {
        [REF_F8E4M3] = REF_F8E5M2,
        [REF_F8E5M2] = REF_F8E4M3,
        [REF_F16] = REF_BF16,
        [REF_BF16] = REF_F16,
        [REF_I8] = REF_U8,
        [REF_I16] = REF_U16,
        [REF_I32] = REF_U32,
        [REF_I64] = REF_U64,
        [REF_U8] = REF_I8,
        [REF_U16] = REF_I16,
        [REF_U32] = REF_I32,
        [REF_U64] = REF_I64,
    };
    return ref_type_name(others[t]);
}

static const char *result_type(const OpRow *r, RefType t)
{
    return !strcmp(r->result, "T")   ? ref_type_name(t)
           : !strcmp(r->result, "U") ? unsigned_of(t)
           : !strcmp(r->result, "O") ? other_of(t)
                                     : r->result;
}

static int kept(const Variant *v) { return v->n < 5 ? v->n : 5; }

static void window_of(const Kernel *k, const OpRow *r, const Variant *v, char *out, size_t size)
{
    if (k->group == IN_ROWS)
        snprintf(out, size, "[i*2 +: 2, 0 +: %d]",
            r->shape == '1'   ? 1
            : r->shape == '2' ? 2 * v->n
            : r->shape == 'k' ? kept(v)
                              : v->n);
    else if (k->group == IN_COLUMNS) snprintf(out, size, "[0 +: %d, j*8 +: 8]", r->shape == '1' ? 1 : v->m);
    else snprintf(out, size, "[i*4 +: 4, j*256 +: 256]");
}

static const char *dims_of(const Kernel *k, const OpRow *r)
{
    if (k->group == IN_ROWS)
        return r->shape == '1' ? "M,1" : r->shape == '2' ? "M,N2" : r->shape == 'k' ? "M,K" : "M,N";
    return k->group == IN_COLUMNS && r->shape == '1' ? "1,N" : "M,N";
}

/* The row's text with its placeholders filled in. */
static void expand(Out *o, const Kernel *k, int n, const Variant *v)
{
    const OpRow *r = k->row[n];
    char name[8], window[64], number[16];
    window_of(k, r, v, window, sizeof window);
    snprintf(name, sizeof name, "Y%d", n);
    for (const char *p = r->text + (*r->text == '!'); *p; p++) {
        char c[2] = { *p };
        if (*p != '$') {
            put(o, c);
            continue;
        }
        switch (*++p) {
        case 'Y': put(o, name); break;
        case 'T': put(o, ref_type_name(k->type)); break;
        case 'U': put(o, unsigned_of(k->type)); break;
        case 'O': put(o, other_of(k->type)); break;
        case 'W': put(o, window); break;
        case 'N':
            snprintf(number, sizeof number, "%d", v->n);
            put(o, number);
            break;
        case 'K':
            snprintf(number, sizeof number, "%d", kept(v));
            put(o, number);
            break;
        case '1': put(o, k->type == REF_BOOL ? "true" : "1"); break;
        }
    }
}

static void write_kernel(const Kernel *k, const Variant *v, char *text, size_t size)
{
    Out o = { text, text + size };
    const char *t = ref_type_name(k->type);
    char line[256], window[64];
    bool columns = k->group == IN_COLUMNS, rows = k->group == IN_ROWS;
    /* The first is associative and not commutative. For floats of 8 and 16 bits, every step of a user's
     * function rounds. */
    put(&o, "fn latest(a, b) { return b != 0 ? b : a; }\nfn plus(a, b) { return a + b; }\n"
            "fn ends(p, q) { return (p[0], p[1] + q[1], q[2]); }\n");
    snprintf(
        line, sizeof line, "kernel ops(in %s A[M, N], in %s B[M, N], in %s C[N], in i32 I[M, N]", t, t, t);
    put(&o, line);
    for (int n = 0; n < k->n; n++) {
        snprintf(line, sizeof line, ", %s %s Y%d[%s]", k->group == IN_ATOMICS ? "inout" : "out",
            result_type(k->row[n], k->type), n, dims_of(k, k->row[n]));
        put(&o, line);
    }
    snprintf(line, sizeof line, ")\n    grid (%s, %s)\n{\n    let (j, i) = program_id();\n",
        rows      ? "1"
        : columns ? "cdiv(N, 8)"
                  : "cdiv(N, 256)",
        rows      ? "cdiv(M, 2)"
        : columns ? "1"
                  : "cdiv(M, 4)");
    put(&o, line);
    static const OpRow whole = { .shape = ' ' };
    window_of(k, &whole, v, window, sizeof window);
    snprintf(line, sizeof line, "    let a = load(A%s);\n    let b = load(B%s);\n    let x = load(I%s);\n",
        window, window, window);
    put(&o, line);
    if (!columns && !rows)
        put(&o, "    let c = load(C[j*256 +: 256])[None, :];\n    let row = i*4 + arange(4)[:, None];\n    "
                "let col = j*256 + arange(256)[None, :];\n");
    for (int n = 0; n < k->n; n++) {
        window_of(k, k->row[n], v, window, sizeof window);
        put(&o, "    ");
        if (*k->row[n]->text == '!') expand(&o, k, n, v);
        else {
            snprintf(line, sizeof line, "store(Y%d%s, ", n, window);
            put(&o, line);
            expand(&o, k, n, v);
            put(&o, ");");
        }
        put(&o, "\n");
    }
    put(&o, "}\n");
}

static void write_tensors(const Kernel *k, char *text, size_t size)
{
    const char *t = ref_type_name(k->type);
    int n = snprintf(text, size, "in A[M,N] %s; in B[M,N] %s; in C[N] %s; in I[M,N] i32 index:N", t, t, t);
    for (int y = 0; y < k->n; y++)
        n += snprintf(text + n, size - (size_t)n, "; %s Y%d[%s] %s%s",
            k->group == IN_ATOMICS ? "inout" : "out", y, dims_of(k, k->row[y]),
            result_type(k->row[y], k->type), k->group == IN_ATOMICS ? " int:9" : "");
}

/* Views of outputs that the kernel does not have are left out. */
static void views_of(const Kernel *k, const Variant *v, char *out)
{
    char copy[64], *rest = copy;
    *out = 0;
    snprintf(copy, sizeof copy, "%s", v->views ? v->views : "");
    for (char *w; (w = strtok_r(rest, " ", &rest));)
        if (*w != 'Y' || w[1] - '0' < k->n) {
            strcat(out, w);
            strcat(out, " ");
        }
}

static void report(
    Test *z, const Kernel *k, const Variant *v, const char *views, const char *why, const char *text)
{
    const char *y = strchr(why, 'Y');
    int n = y && y[1] >= '0' && y[1] < '0' + k->n ? y[1] - '0' : -1;
    printf("FAIL %s M=%d N=%d %s: %s: %s\n", ref_type_name(k->type), v->m, v->n, views,
        n >= 0 ? k->row[n]->text : "", why);
    if (z->o.show) printf("%s", text);
    fflush(stdout);
    z->failed++;
}

static void run_variant(Test *z, const Kernel *k, const Variant *v)
{
    static char text[8192];
    char name[32], tensors[600], launch[96] = "ops A B C I", sizes[80], views[64], why[400] = "";
    const OpRow *r = k->row[0];
    write_kernel(k, v, text, sizeof text);
    write_tensors(k, tensors, sizeof tensors);
    views_of(k, v, views);
    for (int y = 0; y < k->n; y++)
        snprintf(launch + strlen(launch), sizeof launch - strlen(launch), " Y%d", y);
    snprintf(sizes, sizeof sizes, "M=%d N=%d N2=%d K=%d", v->m, v->n, 2 * v->n, kept(v));
    snprintf(name, sizeof name, k->group == IN_ROWS || k->group == IN_COLUMNS ? "ops%d_%d" : "ops%d",
        z->kernels, k->group == IN_ROWS ? v->n : v->m);
    /* the oracle's values are rounded, too */
    Recipe recipe = { name, name, tensors, "", "", { launch }, oracle_no_reference, r->narrow,
        r->f32 > 0 ? r->f32 + 0.5 : 0, r->f64 > 0 ? r->f64 + 0.5 : 0, r->floor, r->narrow };
    Problem *p = oracle_write(&z->z, name, text)
                     ? problem_make(&recipe, sizes, NULL, views,
                           r->special && ref_type_is_float(k->type) ? "A" : NULL, 7, why, sizeof why)
                     : NULL;
    Verdict verdict = p ? oracle_check(&z->z, p, z->o.both, true) : (Verdict){ .ok = false };
    if (!p) snprintf(verdict.text, sizeof verdict.text, "%s", why);
    if (!verdict.ok) report(z, k, v, views, verdict.text, text);
    z->problems++;
    problem_free(p);
}

static void run_kernel(Test *z, Kernel *k)
{
    int number = z->kernels++;
    if (z->o.operations) {
        static char text[8192];
        write_kernel(k, &variants[k->group][1], text, sizeof text);
        z->failed += !ops_note(text);
    } else if (k->n && (!z->o.shares || number % z->o.shares == z->o.share))
        for (const Variant *v = variants[k->group]; v < variants[k->group] + 6 && v->m; v++) {
            run_variant(z, k, v);
            char name[32];
            snprintf(name, sizeof name, k->group == IN_ROWS || k->group == IN_COLUMNS ? "ops%d_%d" : "ops%d",
                z->kernels, k->group == IN_ROWS ? v->n : v->m);
            oracle_forget(&z->z, name);
        }
    k->n = 0;
}

static bool alike(const OpRow *a, const OpRow *b)
{
    return a->narrow == b->narrow && a->f32 == b->f32 && a->f64 == b->f64 && a->floor == b->floor &&
           a->special == b->special;
}

/* Kernels of one group and type: rows that are alike, six at a time. */
static void run_type(Test *z, OpGroup group, RefType type)
{
    bool done[256] = { 0 };
    for (int i = 0; i < n_op_rows; i++) {
        Kernel k = { .group = group, .type = type };
        for (int j = i; j < n_op_rows; j++) {
            const OpRow *r = &op_rows[j];
            if (done[j] || r->group != group || !(r->types >> type & 1) || (k.n && !alike(k.row[0], r)))
                continue;
            if (!k.n && j != i) break;
            done[j] = true;
            k.row[k.n++] = r;
            if (k.n == MOST_OUTPUTS) run_kernel(z, &k);
        }
        if (k.n) run_kernel(z, &k);
    }
}

/* --- matrix products --------------------------------------------------------------------------------- */

/* Types of operands and sum, and the bound in ulp of the typical sum: products of narrow operands are exact,
 * tf32 keeps 11 bits of each operand. */
static const struct {
    const char *a, *b, *sum, *precision;
    double bound;
} products[] = {
    { "f16", "f16", "f32", "", 64 },
    { "bf16", "bf16", "f32", "", 64 },
    { "f32", "f32", "f32", "", 64 },
    { "f32", "f32", "f32", ", precision = tf32", 1 << 15 },
    { "f64", "f64", "f64", "", 64 },
    { "i8", "i8", "i32", "", 0 },
    { "u8", "u8", "i32", "", 0 },
    { "i8", "u8", "i32", "", 0 },
    { "u8", "i8", "i32", "", 0 },
    { "f8e4m3", "f8e4m3", "f32", "", 64 },
    { "f8e5m2", "f8e5m2", "f32", "", 64 },
    { "f8e4m3", "f8e5m2", "f32", "", 64 },
    { "f8e5m2", "f8e4m3", "f32", "", 64 },
};

/* Tiles of 32 x 16 x 32 of C = A B + C, its rows scaled; the second time B's window is read across. */
static void write_product(int k, bool across, char *text, size_t size)
{
    bool integer = !strcmp(products[k].sum, "i32");
    snprintf(text, size,
        "kernel ops(in %s A[M, K], in %s B[%s], inout %s C[M, N])\n    grid (cdiv(N, 16), cdiv(M, 32))\n{\n  "
        "  let (j, i) = program_id();\n"
        "    var acc = load(C[i*32 +: 32, j*16 +: 16]);\n    for k in 0 .. cdiv(K, 32) {\n        let a = "
        "load(A[i*32 +: 32, k*32 +: 32], latency = 2);\n"
        "        let b = %s;\n        acc = mma(a, b, acc%s);\n    }\n    store(C[i*32 +: 32, j*16 +: 16], "
        "acc * %s);\n}\n",
        products[k].a, products[k].b, across ? "N, K" : "K, N", products[k].sum,
        across ? "transpose(load(B[j*16 +: 16, k*32 +: 32], latency = 2))"
               : "load(B[k*32 +: 32, j*16 +: 16], latency = 2)",
        products[k].precision, integer ? "2" : "0.5");
}

static void run_products(Test *z)
{
    static const struct {
        const char *sizes, *views;
        bool special;
    } forms[] = {
        { "M=1 N=1 K=1" },
        { "M=9 N=9 K=9", "A:t C:t" },
        { "M=33 N=17 K=225", NULL, true },
        { "M=64 N=32 K=64" },
        { "M=40 N=24 K=1009", "B:t" },
        { "M=40 N=24 K=80", "A:x B:s" },
    };
    static char text[2048];
    for (size_t k = 0; k < sizeof products / sizeof *products; k++)
        for (int across = 0; across < 2; across++) {
            int number = z->kernels++;
            char name[32], tensors[160], why[400] = "";
            if ((z->o.shares && number % z->o.shares != z->o.share) ||
                (z->o.type && strcmp(z->o.type, products[k].a)))
                continue;
            snprintf(name, sizeof name, "product%d", number); /* executors know a source by its name */
            snprintf(tensors, sizeof tensors, "in A[M,K] %s; in B[%s] %s; inout C[M,N] %s int:9",
                products[k].a, across ? "N,K" : "K,N", products[k].b, products[k].sum);
            write_product((int)k, across, text, sizeof text);
            bool integer = products[k].bound == 0;
            Recipe recipe = { name, name, tensors, "", "", { "ops A B C" }, oracle_no_reference, 0,
                products[k].bound, products[k].bound, FLOOR_RMS };
            for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
                Problem *p = oracle_write(&z->z, name, text)
                                 ? problem_make(&recipe, forms[f].sizes, NULL, forms[f].views,
                                       forms[f].special && !integer ? "A" : NULL, 7, why, sizeof why)
                                 : NULL;
                Verdict v = p ? oracle_check(&z->z, p, z->o.both, true) : (Verdict){ .ok = false };
                if (!p) snprintf(v.text, sizeof v.text, "%s", why);
                if (!v.ok)
                    printf("FAIL product %s %s%s%s %s %s: %s\n%s", products[k].a, products[k].b,
                        products[k].precision, across ? " across" : "", forms[f].sizes,
                        forms[f].views ? forms[f].views : "", v.text, z->o.show ? text : "");
                z->failed += !v.ok;
                z->problems++;
                problem_free(p);
            }
            oracle_forget(&z->z, name);
        }
}

static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

static const char usage[] = "usage: tile_ops_test [--device=NAME] [--type=T] [--group=N] [--share=K/N] "
                            "[--jobs=N] [--both] [--show] [--operations]\n";

/* Before a device is opened: those do not survive a fork. In the children: false, and a share of what was to
 * be done. In the parent the worst status of all, where some may find no device only if all do. */
static bool divide(Options *o, int *status)
{
    enum { MOST = 64 };
    pid_t child[MOST];
    int n = o->jobs > 0 ? o->jobs : (int)sysconf(_SC_NPROCESSORS_ONLN), skipped = 0, share = o->share,
        shares = o->shares ? o->shares : 1;
    if (n > MOST) n = MOST;
    fflush(stdout);
    for (int i = 0; i < n; i++) {
        child[i] = fork();
        if (child[i]) continue;
        o->share = share + shares * i;
        o->shares = shares * n;
        return false;
    }
    *status = 0;
    for (int i = 0; i < n; i++) {
        int how = 0, code = child[i] > 0 && waitpid(child[i], &how, 0) == child[i] && WIFEXITED(how)
                                ? WEXITSTATUS(how)
                                : 1;
        skipped += code == 77;
        if (code && code != 77) *status = *status > code ? *status : code;
    }
    if (skipped == n) *status = 77;
    else if (skipped && !*status) *status = 1;
    return true;
}

int main(int argc, char **argv)
{
    Test z = { .o = { .device = "interp", .group = -1, .jobs = 1 } };
    const char *v;
    int status = 0;
    for (int i = 1; i < argc; i++) {
        if ((v = value_of(argv[i], "--device"))) z.o.device = v;
        else if ((v = value_of(argv[i], "--type"))) z.o.type = v;
        else if ((v = value_of(argv[i], "--group"))) z.o.group = atoi(v);
        else if ((v = value_of(argv[i], "--share")) && sscanf(v, "%d/%d", &z.o.share, &z.o.shares) == 2) {
        } else if ((v = value_of(argv[i], "--jobs"))) z.o.jobs = atoi(v);
        else if (!strcmp(argv[i], "--both")) z.o.both = true;
        else if (!strcmp(argv[i], "--show")) z.o.show = true;
        else if (!strcmp(argv[i], "--operations")) z.o.operations = true;
        else return fputs(usage, stderr), 2;
    }
    if (z.o.jobs != 1 && divide(&z.o, &status)) return status;
    if (!z.o.operations && (status = oracle_open(&z.z, z.o.device))) return status;
    for (int g = 0; g < OP_GROUPS; g++)
        for (int t = 0; t < REF_TYPES; t++)
            if ((z.o.group < 0 || g == z.o.group) &&
                (!z.o.type || !strcmp(z.o.type, ref_type_name((RefType)t))))
                run_type(&z, (OpGroup)g, (RefType)t);
    if (z.o.operations) {
        z.failed += ops_missing();
        printf("%d operations in %d kernels, %d failed\n", n_op_rows, z.kernels, z.failed);
        return z.failed > 0;
    }
    if (z.o.group < 0 || z.o.group == OP_GROUPS) run_products(&z);
    oracle_close(&z.z);
    printf("%d operations, %d kernels, %d problems on %s, %d failed\n", n_op_rows, z.kernels, z.problems,
        z.o.device, z.failed);
    return z.failed > 0;
}
