/* tile-opt: IR text in, passes, IR text out; the driver of the tests of this folder.
 *
 *     tile-opt [--passes=a,b] [--skip-pass=a] [-O2] [--target=cuda:sm_80] [--check] [--approx] [--ftz] [--remap=xcd] [--xcds=8]
 *              [--stats] [--census] [--quiet] file.ir | -
 *
 * Prints the module after the passes (not with --quiet), then statistics. The module is verified before and after every pass and must print
 * the same after being parsed again. Exit 0, or 1 with diagnostics on standard error. */
#include "passes/passes.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct Args { PassOptions options; bool stats, census, quiet, locs; const char *file; } Args;

static const char *value_of(const char *arg, const char *flag)
{
    size_t n = strlen(flag);
    return !strncmp(arg, flag, n) && arg[n] == '=' ? arg + n + 1 : NULL;
}

static bool parse_args(int argc, char **argv, Args *a)
{
    for (int i = 1; i < argc; i++) {
        const char *s = argv[i], *v;
        if ((v = value_of(s, "--passes"))) a->options.passes = v;
        else if ((v = value_of(s, "--skip-pass"))) a->options.skip = v;
        else if ((v = value_of(s, "--dump-after"))) a->options.dump_after = v;
        else if ((v = value_of(s, "--target"))) { if (!(a->options.target = target_find(v))) return false; }
        else if ((v = value_of(s, "--remap"))) a->options.remap = v;
        else if ((v = value_of(s, "--xcds"))) a->options.xcds = atoi(v);
        else if (!strncmp(s, "-O", 2) && s[2]) a->options.opt_level = atoi(s + 2);
        else if (!strcmp(s, "--check")) a->options.check = true;
        else if (!strcmp(s, "--approx")) a->options.approx = true;
        else if (!strcmp(s, "--ftz")) a->options.ftz = true;
        else if (!strcmp(s, "--stats")) a->stats = true;
        else if (!strcmp(s, "--census")) a->census = true;
        else if (!strcmp(s, "--quiet")) a->quiet = true;
        else if (s[0] == '-' && s[1]) return false;
        else if (a->file) return false;
        else a->file = s;
    }
    return a->file != NULL;
}

static char *read_all(const char *path, size_t *len)
{
    FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    size_t cap = 1 << 16, n = 0, got;
    char *text = malloc(cap);
    if (!f || !text) { free(text); return NULL; }
    while ((got = fread(text + n, 1, cap - n, f)) > 0) {
        n += got;
        if (n == cap) {
            char *bigger = realloc(text, cap *= 2);
            if (!bigger) { free(text); return NULL; }
            text = bigger;
        }
    }
    if (f != stdin) fclose(f);
    *len = n;
    return text;
}

static void print_dump(void *user, const char *pass, const char *text)
{
    printf("// after %s\n%s", pass, text);
}

static void print_stats(const PassReport *r)
{
    for (size_t i = 0; i < r->stats.len; i++) {
        const PassStat *s = &r->stats.data[i];
        printf("stat %s: %s: %lld\n", pass_info[s->pass].name, s->what, (long long)s->count);
    }
}

static void print_census(const Module *m)
{
    Census n = passes_census(m);
    printf("census instrs %d tiles %d exp %d exp2 %d div %d permute %d ordered %d\n", n.instrs, n.tile_instrs, n.exps, n.exp2s, n.divs, n.permutes, n.ordered_loads);
    printf("census loads %d stores %d masked %d index64 %d loops %d selects %d\n", n.loads, n.stores, n.masked, n.index64, n.loops, n.selects);
    printf("census in main loops: masked %d selects %d\n", n.loop_masked, n.loop_selects);
}

/* Prints, parses what was printed and prints again: both texts must be the same. */
static bool round_trip(Session *s, const Module *m, Text *out)
{
    Text again;
    text_init(out, &s->arena);
    ir_print(m, out);
    Module *read = ir_parse(s, diag_add_source(s, "<printed>", NULL, out->data, out->len));
    if (!read) return false;
    text_init(&again, &s->arena);
    ir_print(read, &again);
    if (!strcmp(out->data, again.data)) return true;
    diag_error(s, (Loc){ 0 }, "internal error: the printed module reads back differently");
    return false;
}

static bool process(Session *s, const Args *a, const char *text, size_t len)
{
    PassReport report = { 0 };
    Text out;
    Module *m = ir_parse(s, diag_add_source(s, a->file, NULL, text, len));
    if (!m || !ir_verify(m) || !passes_run(m, &a->options, &report) || !ir_verify(m) || !round_trip(s, m, &out)) return false;
    if (!a->quiet) fputs(out.data, stdout);
    if (a->stats) print_stats(&report);
    if (a->census) print_census(m);
    return true;
}

int main(int argc, char **argv)
{
    Args a = { .options = pass_options_default(NULL) };
    size_t len;
    a.options.verify_each = true;
    a.options.on_dump = print_dump;
    if (!parse_args(argc, argv, &a)) { fprintf(stderr, "tile-opt: bad arguments; see the head of tile-opt.c\n"); return 1; }
    char *text = read_all(a.file, &len);
    if (!text) { fprintf(stderr, "tile-opt: cannot read %s\n", a.file); return 1; }
    Session s;
    Text diags;
    volatile bool ok = false;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        ok = process(&s, &a, text, len);
        text_init(&diags, &s.arena);
        diag_render_all(&s, &diags);
        fputs(diags.data, stderr);
    } else fprintf(stderr, "tile-opt: left early: %s\n", s.last_diag ? s.last_diag->message : "out of memory");
    session_free(&s);
    free(text);
    return ok ? 0 : 1;
}
