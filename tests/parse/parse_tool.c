/* parse_tool.c: the front end alone, for the tests of this folder.
 *
 *     parse_tool ast FILE                      the tree
 *     parse_tool check FILE                    parse and check; diagnostics
 *     parse_tool lower FILE KERNEL NAME=V...   the tile IR of one kernel
 *     parse_tool all FILE NAME=V...            checks, lowers every kernel under its defaults and every
 *         `instantiate`; counts
 *     parse_tool meaning FILE                  runs each kernel K(inout T Y[N]) that a comment `// gives K:
 *         v v ...` names on 16
 *                                              zeros in the interpreter, without passes and with them, and
 *                                                  compares Y
 *     parse_tool oom FILE                      lowers every kernel with an allocator that fails at the 1st,
 *         2nd, ... call
 *     parse_tool info FILE                     kernels, parameters, instances, tuning
 * Exit code 1 after diagnostics (printed to stdout so that the order is fixed). */
#include <stdio.h>
#include <stdlib.h>
#include "frontend/frontend.h"
#include "frontend/program.h"
#include "ir/interp/interp.h"
#include "passes/passes.h"

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *data = NULL;
    size_t n = 0, cap = 0, got;
    do {
        if (cap - n < 65536) data = realloc(data, cap += 1 << 17);
        n += got = fread(data + n, 1, 65536, f);
    } while (got);
    fclose(f);
    *len = n;
    return data;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Files are read once and kept: nothing of this tool's own is lost when a session runs out of memory. */
static const char *cached_file(const char *path, size_t *len)
{
    enum { MOST = 128 };
    static struct {
        char *path, *text;
        size_t len;
    } files[MOST];
    int i = 0;
    while (i < MOST && files[i].path && strcmp(files[i].path, path)) i++;
    if (i == MOST) return NULL;
    if (!files[i].path) {
        files[i].path = malloc(strlen(path) + 1);
        strcpy(files[i].path, path);
        files[i].text = read_file(path, &files[i].len);
    }
    *len = files[i].len;
    return files[i].text;
}

static uint32_t add_file(Session *s, const char *path)
{
    size_t len;
    const char *text = cached_file(path, &len);
    if (!text) return 0;
    const char *base = base_name(path);
    char *dir = arena_strndup(&s->arena, path, (size_t)(base - path));
    return diag_add_source(s, base, dir, text, len);
}

static uint32_t import_file(void *user, Session *s, uint32_t from, const char *path)
{
    const char *full = arena_printf(&s->arena, "%s%s", diag_source(s, from)->directory, path);
    for (uint32_t i = 1; i < s->sources.len; i++)
        if (!strcmp(
                arena_printf(&s->arena, "%s%s", s->sources.data[i].directory, s->sources.data[i].name), full))
            return i;
    return add_file(s, full);
}

static int finish(Session *s, Text *out)
{
    int errors = s->n_errors;
    diag_render_all(s, out);
    if (out->data) fputs(out->data, stdout);
    session_free(s);
    return errors != 0;
}

static void print_domain(const FrontDomain *d, Text *out)
{
    text_printf(out, " %s in {", d->name);
    for (int k = 0; k < d->n; k++) {
        text_puts(out, k ? ", " : "");
        frontend_print_value(d->values[k], out);
    }
    text_putc(out, '}');
}

static void info(const Ast *ast, Text *out)
{
    static const char *const kinds[] = { "in", "out", "inout", "scalar", "const", "const type" };
    for (int i = 0; i < frontend_kernel_count(ast); i++) {
        const FrontKernel *k = frontend_kernel(ast, i);
        text_printf(out, "kernel %s grid %d dims", k->name, k->grid_rank);
        for (int d = 0; d < k->n_dims; d++) text_printf(out, " %s", k->dims[d]);
        text_puts(out, " keys");
        for (int d = 0; d < k->n_keys; d++) text_printf(out, " %s", k->keys[d]);
        text_putc(out, '\n');
        for (int p = 0; p < k->n_params; p++) {
            const FrontParam *q = &k->params[p];
            text_printf(out, "  %s %s %s", kinds[q->kind], q->type_name, q->name);
            if (q->kind <= FRONT_INOUT) {
                text_putc(out, '[');
                for (int d = 0; d < q->rank; d++) text_printf(out, "%s%s", d ? ", " : "", q->dims[d].text);
                text_putc(out, ']');
            }
            if (q->default_value.kind) {
                text_puts(out, " = ");
                frontend_print_value(q->default_value, out);
            }
            text_putc(out, '\n');
        }
        const FrontTune *t = frontend_tune(ast, k->name);
        if (!t) continue;
        text_printf(out, "  tune %lld:", (long long)frontend_tune_count(t));
        for (int d = 0; d < t->n; d++) print_domain(&t->domains[d], out);
        text_puts(out, " key");
        for (int d = 0; d < t->n_keys; d++) text_printf(out, " %s", t->keys[d]);
        text_putc(out, '\n');
    }
    for (int i = 0; i < frontend_instance_count(ast); i++) {
        const FrontInstance *x = frontend_instance(ast, i);
        text_printf(out, "instantiate %s", x->kernel);
        for (int d = 0; d < x->n; d++) print_domain(&x->domains[d], out);
        text_putc(out, '\n');
    }
}

/* NAME=VALUE arguments that kernel `k` knows. */
static int bindings(Session *s, const FrontKernel *k, char **args, int n, FrontBinding *out, bool all_known)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        const char *eq = strchr(args[i], '='), *why = NULL;
        if (!eq) continue;
        FrontBinding b = { session_intern(s, args[i], (size_t)(eq - args[i])), { FRONT_NOTHING } };
        if (frontend_parse_value(s, k, b.name, eq + 1, &b.value, &why)) out[count++] = b;
        else if (all_known) diag_error(s, k->loc, "%s: %s", args[i], why);
    }
    return count;
}

static int lower_one(Ast *ast, Session *s, const char *kernel, const FrontBinding *b, int n,
    const char *target, bool print, Text *out)
{
    Module *m = frontend_lower(ast, kernel, b, (size_t)n, target);
    if (!m || !ir_verify(m)) return 0;
    if (print) ir_print(m, out);
    return 1;
}

static bool has_optional(const FrontKernel *k)
{
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].optional) return true;
    return false;
}

static int lower_all(Ast *ast, Session *s, char **args, int n_args, Text *out)
{
    int done = 0;
    for (int i = 0; i < frontend_kernel_count(ast) && !s->n_errors; i++) {
        const FrontKernel *k = frontend_kernel(ast, i);
        FrontBinding b[128];
        int n = bindings(s, k, args, n_args, b, false);
        for (int d = 0; d < k->n_keys; d++) {
            bool bound = false;
            for (int j = 0; j < n; j++) bound |= !strcmp(b[j].name, k->keys[d]);
            /* Optional tensors are given; other branches are those of the defaults. */
            if (!bound && (has_optional(k) || program_key_always(k, k->keys[d])))
                b[n++] = (FrontBinding){ k->keys[d], { FRONT_INT, { .i = 64 } } };
        }
        done += lower_one(ast, s, k->name, b, n, NULL, false, out);
    }
    for (int i = 0; i < frontend_instance_count(ast) && !s->n_errors; i++) {
        const FrontInstance *x = frontend_instance(ast, i);
        int64_t total = 1;
        for (int d = 0; d < x->n; d++) total *= x->domains[d].n;
        const FrontKernel *k = frontend_kernel_find(ast, x->kernel);
        for (int64_t c = 0; c < total && !s->n_errors; c++) {
            FrontBinding b[128];
            int n = bindings(s, k, args, n_args, b, false);
            for (int64_t d = 0, rest = c; d < x->n; rest /= x->domains[d].n, d++)
                b[n++] = (FrontBinding){ x->domains[d].name, x->domains[d].values[rest % x->domains[d].n] };
            done += lower_one(ast, s, x->kernel, b, n, NULL, false, out);
        }
    }
    return done;
}

enum { MEANING_N = 16 };

static int run_kernel(Ast *ast, Session *s, const char *kernel, const char *values, int opt_level, Text *out)
{
    union {
        double f;
        int64_t i;
        char bytes[8 * MEANING_N];
    } data[MEANING_N];
    Module *m = frontend_lower(ast, kernel, NULL, 0, NULL);
    PassOptions o = pass_options_default(NULL);
    o.opt_level = opt_level;
    o.verify_each = true;
    if (!m || !ir_verify(m) || (opt_level >= 0 && !passes_run(m, &o, NULL))) return 1;
    const Func *f = ir_func_find(m, kernel);
    DType d = f->params[0].type->dtype;
    memset(data, 0, sizeof data);
    InterpArg arg = { .data = data, .shape = { MEANING_N }, .stride = { 1 } };
    if (!interp_run(s, f, &arg, 1)) return 1;
    int failures = 0, n = 0;
    for (char *end;; values = end, n++) {
        double want = strtod(values, &end);
        if (end == values) break;
        Scalar got = scalar_load(d, (const char *)data + n * dtype_bytes(d));
        if (dtype_is_float(d)) want = scalar_round(d, want);
        double value = dtype_is_float(d) ? got.f : d == DT_U64 ? (double)(uint64_t)got.i : (double)got.i;
        if (value == want || (value != value && want != want)) continue;
        text_printf(out, "%s at -O%d: Y[%d] is %.9g, must be %.9g\n", kernel, opt_level, n, value, want);
        failures++;
    }
    if (!n) text_printf(out, "%s: no values to compare with\n", kernel);
    return failures || !n;
}

static int meaning(Ast *ast, Session *s, uint32_t file, Text *out)
{
    int failures = 0, done = 0;
    for (const char *at = diag_source(s, file)->text; (at = strstr(at, "// gives ")); done++) {
        at += strlen("// gives ");
        size_t len = strcspn(at, ":\n");
        for (int level = -1; level <= 3; level += 2)
            failures += run_kernel(ast, s, session_intern(s, at, len), at + len + 1, level, out);
    }
    text_printf(out, "%d kernels, %d wrong\n", done, failures);
    return failures;
}

typedef struct Failing {
    long left;
    long live;
} Failing;

static void *failing_realloc(void *user, void *p, size_t old_size, size_t new_size)
{
    Failing *f = user;
    if (!new_size) {
        free(p);
        f->live -= p != NULL;
        return NULL;
    }
    if (f->left-- <= 0) return NULL;
    void *q = realloc(p, new_size);
    if (q && !p) f->live++;
    return q;
}

/* True when the whole front end ran through with that many allocations. */
static bool survives(const char *path, Failing *f)
{
    Session s;
    session_init(&s, (Allocator){ failing_realloc, f });
    volatile bool done = false;
    if (!setjmp(s.oom)) {
        uint32_t file = add_file(&s, path);
        Ast *ast = frontend_parse(&s, file, import_file, NULL);
        Text out;
        text_init(&out, &s.arena);
        if (frontend_check(ast)) lower_all(ast, &s, NULL, 0, &out);
        done = true;
    }
    session_free(&s);
    return done;
}

static int out_of_memory(const char *path)
{
    long n = 0;
    for (;; n++) {
        Failing f = { n, 0 };
        bool done = survives(path, &f);
        if (f.live) {
            printf("%ld blocks lost when allocation %ld fails\n", f.live, n + 1);
            return 1;
        }
        if (done) break;
    }
    printf("survived %ld failing allocations\n", n);
    return n == 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    if (!strcmp(argv[1], "oom")) return out_of_memory(argv[2]);
    Session s;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) {
        Text out;
        if (s.n_errors) {
            text_init(&out, &s.arena);
            return finish(&s, &out) + 1;
        }
        return 2;
    }
    Text out;
    text_init(&out, &s.arena);
    const char *mode = argv[1], *target = getenv("PARSE_TARGET");
    uint32_t file = add_file(&s, argv[2]);
    if (!file) {
        fprintf(stderr, "cannot read %s\n", argv[2]);
        return 2;
    }
    Ast *ast = frontend_parse(&s, file, import_file, NULL);
    if (!strcmp(mode, "ast")) {
        frontend_print_ast(ast, &out);
        return finish(&s, &out);
    }
    if (!frontend_check(ast) || !strcmp(mode, "check")) return finish(&s, &out);
    s.diags = s.last_diag = NULL; /* The mode `check` shows the warnings about the whole program. */
    if (!strcmp(mode, "info")) info(ast, &out);
    else if (!strcmp(mode, "meaning")) {
        int wrong = meaning(ast, &s, file, &out);
        return finish(&s, &out) || wrong;
    } else if (!strcmp(mode, "lower") && argc > 3) {
        const FrontKernel *k = frontend_kernel_find(ast, argv[3]);
        FrontBinding b[128];
        if (!k) {
            fprintf(stderr, "no kernel %s\n", argv[3]);
            return 2;
        }
        int n = bindings(&s, k, argv + 4, argc - 4 < 128 ? argc - 4 : 128, b, true);
        if (!s.n_errors) lower_one(ast, &s, argv[3], b, n, target, true, &out);
    } else if (!strcmp(mode, "all")) {
        text_printf(&out, "lowered %d\n", lower_all(ast, &s, argv + 3, argc - 3, &out));
    }
    return finish(&s, &out);
}
