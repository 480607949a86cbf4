/* pipeline.c: the order of the passes and the runner.
 *
 * The order, and why:
 *   inline, check, specialize        one function, and every fact of the launch a constant, before anything
 *                                    is derived
 *   fold, cse, dce                   the canonical form that the others look for
 *   rows                             programs as the source has them: before anything is moved, and before
 *                                    masks and widths are settled
 *   load-order, exp2                 need the source's shape: products and permutes not yet split over two
 *                                    loops
 *   licm                             before mask-peel, so that invariant values are not copied with the loop
 *   mask-peel, divisibility          the first splits loops, the second proves what is left without a split
 *   fold ... dce again               selects and conditions that became constant
 *   unroll                           after masks are settled, so that it sees the loops that stay
 *   approx, contract, speculate, latency  mark, and choose the last roundings; speculate knows the forms of
 * contract remap, narrow                    last: index arithmetic is complete, and then gets its width */
#define _POSIX_C_SOURCE 199309L
#include "passes/pass.h"
#include "ir/former_names.h"
#include <time.h>

const PassInfo pass_info[PASS_COUNT] = {
#define PASS(ID, name, function, level, on, doc) { name, level, on, doc },
#include "passes/passes.def"
#undef PASS
};

typedef bool PassFn(PassContext *, Module *);
static PassFn *const pass_fn[PASS_COUNT] = {
#define PASS(ID, name, function, level, on, doc) function,
#include "passes/passes.def"
#undef PASS
};

static const PassId pipeline[] = {
    PASS_INLINE,
    PASS_CHECK,
    PASS_SPECIALIZE,
    PASS_FOLD,
    PASS_CSE,
    PASS_DCE,
    PASS_ROWS,
    PASS_LICM,
    PASS_LOAD_ORDER,
    PASS_EXP2,
    PASS_FOLD,
    PASS_CSE,
    PASS_LICM,
    PASS_DCE,
    PASS_MASK_PEEL,
    PASS_DIVISIBILITY,
    PASS_FOLD,
    PASS_CSE,
    PASS_LICM,
    PASS_DCE,
    PASS_UNROLL,
    PASS_APPROX,
    PASS_CONTRACT,
    PASS_SPECULATE,
    PASS_LATENCY,
    PASS_REMAP,
    PASS_NARROW,
    PASS_FOLD,
    PASS_CSE,
    PASS_DCE,
};

PassOptions pass_options_default(const Target *target)
{ return (PassOptions){ .target = target, .opt_level = 2 }; }

bool pass_parse(const char *name, size_t len, PassId *out)
{
    for (int i = 0; i < PASS_COUNT; i++)
        if (strlen(pass_info[i].name) == len && !memcmp(pass_info[i].name, name, len)) {
            *out = (PassId)i;
            return true;
        }
    return false;
}

/* --- names of passes in options ---------------------------------------------------------------------- */

static void report_unknown(Session *s, const char *flag, const char *name, size_t len)
{
    int best = 3;
    const char *near = NULL;
    for (int i = 0; i < PASS_COUNT; i++) {
        int d = diag_distance(name, len, pass_info[i].name);
        if (d < best) {
            best = d;
            near = pass_info[i].name;
        }
    }
    if (near)
        diag_error(
            s, (Loc){ 0 }, "%s: no pass is called '%.*s'; did you mean '%s'?", flag, (int)len, name, near);
    else diag_error(s, (Loc){ 0 }, "%s: no pass is called '%.*s'", flag, (int)len, name);
}

typedef struct PassList {
    VEC(PassId) ids;
    bool given, all;
} PassList;

/* A pass of the kernel IR, which this runner has nothing to do with; one that cannot be left out is said so.
 */
static bool is_kernel_pass(Session *s, const char *flag, const char *name, size_t len)
{
    static const struct {
        const char *name;
        bool optional;
    } all[] = {
#define PASS(ID, name, function, level, on, doc)
#define KERNEL_PASS(name, optional, doc) { name, optional },
#include "passes/passes.def"
#undef PASS
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strlen(all[i].name) != len || memcmp(all[i].name, name, len)) continue;
        if (!all[i].optional && !strcmp(flag, "--skip-pass"))
            diag_warning(s, (Loc){ 0 }, "--skip-pass: '%s' cannot be left out; ignored", all[i].name);
        return true;
    }
    return false;
}

bool pass_skipped(const PassOptions *o, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = o->skip; p && *p;) {
        size_t len = strcspn(p, ", ");
        const char *now = former_name(FORMER_PASS, p, len);
        if (now ? !strcmp(now, name) : len == n && !memcmp(p, name, n)) return true;
        p += len;
        p += strspn(p, ", ");
    }
    return false;
}

/* Today's name of a pass that is given by its former one, with a warning; NULL: it was not renamed. */
static const char *current_name(Session *s, const char *flag, const char *name, size_t len)
{
    const char *now = former_name(FORMER_PASS, name, len);
    if (now)
        diag_warning(s, (Loc){ 0 },
            "%s: the pass '%.*s' is called '%s' now; the old name is accepted in this version", flag,
            (int)len, name, now);
    return now;
}

/* "a,b,c"; empty names are skipped. False after diagnostics. */
static bool parse_list(Session *s, const char *flag, const char *text, bool allow_all, PassList *out)
{
    bool ok = true;
    *out = (PassList){ .given = text != NULL };
    for (const char *p = text; p && *p;) {
        size_t len = strcspn(p, ", ");
        const char *now = current_name(s, flag, p, len), *name = now ? now : p;
        size_t n = now ? strlen(now) : len;
        PassId id;
        if (allow_all && len == 3 && !memcmp(p, "all", 3)) out->all = true;
        else if (n && pass_parse(name, n, &id)) vec_push(&s->arena, &out->ids, id);
        else if (n && !is_kernel_pass(s, flag, name, n)) {
            report_unknown(s, flag, p, len);
            ok = false;
        }
        p += len;
        p += strspn(p, ", ");
    }
    return ok;
}

static bool list_has(const PassList *l, PassId id)
{
    for (size_t i = 0; i < l->ids.len; i++)
        if (l->ids.data[i] == id) return true;
    return l->all;
}

/* --- runner ------------------------------------------------------------------------------------------ */

typedef struct Runner {
    Module *module;
    const PassOptions *options;
    PassReport *report;
    PassList skip, dump;
    Arena *scratch;
} Runner;

static void free_arena(void *a) { arena_free(a); }

static void dump(const Runner *r, PassId id)
{
    Text text;
    if (!r->options->on_dump || !list_has(&r->dump, id)) return;
    text_init(&text, r->scratch);
    ir_print(r->module, &text);
    r->options->on_dump(r->options->dump_user, pass_info[id].name, text.data);
}

/* The verifier speaks of instructions; add which pass left them so. */
static bool verify(const Runner *r, PassId id)
{
    Session *s = r->module->session;
    if (ir_verify(r->module)) return true;
    diag_error(
        s, (Loc){ 0 }, "internal error: the module does not verify after pass '%s'", pass_info[id].name);
    return false;
}

static bool run_one(Runner *r, PassId id)
{
    Session *s = r->module->session;
    PassContext c = { s, r->options, r->scratch, r->report, id };
    int errors = s->n_errors;
    int64_t begin = r->options->time_passes ? clock_ns() : 0;
    bool progress = pass_fn[id](&c, r->module);
    int64_t ns = r->options->time_passes ? clock_ns() - begin : 0;
    vec_push(&s->arena, &r->report->runs, ((PassRecord){ id, progress, ns }));
    bool ok = s->n_errors == errors && (!progress || !r->options->verify_each || verify(r, id));
    dump(r, id);
    arena_free(r->scratch);
    return ok;
}

static bool wanted(const PassOptions *o, PassId id)
{
    if (id == PASS_APPROX) return o->approx || o->ftz;
    return o->opt_level >= pass_info[id].level && pass_info[id].on;
}

bool passes_run(Module *m, const PassOptions *o, PassReport *report)
{
    Session *s = m->session;
    PassReport own = { 0 };
    PassList only;
    Runner r = { m, o, report ? report : &own };
    bool ok = parse_list(s, "--passes", o->passes, false, &only);
    ok = parse_list(s, "--skip-pass", o->skip, false, &r.skip) && ok;
    ok = parse_list(s, "--dump-after", o->dump_after, true, &r.dump) && ok;
    if (!ok) return false;
    r.scratch = arena_new(&s->arena, Arena);
    arena_init(r.scratch, s->arena.alloc, &s->oom);
    session_defer(s, free_arena, r.scratch);
    if (only.given) {
        for (size_t i = 0; ok && i < only.ids.len; i++)
            if (!list_has(&r.skip, only.ids.data[i])) ok = run_one(&r, only.ids.data[i]);
        return ok;
    }
    for (size_t i = 0; ok && i < sizeof pipeline / sizeof *pipeline; i++)
        if (wanted(o, pipeline[i]) && !list_has(&r.skip, pipeline[i])) ok = run_one(&r, pipeline[i]);
    return ok;
}

/* --- reports ----------------------------------------------------------------------------------------- */

void pass_count(PassContext *c, const char *what, int64_t n)
{
    PassReport *r = c->report;
    if (!n) return;
    for (size_t i = 0; i < r->stats.len; i++)
        if (r->stats.data[i].pass == c->pass && !strcmp(r->stats.data[i].what, what)) {
            r->stats.data[i].count += n;
            return;
        }
    vec_push(&c->session->arena, &r->stats, ((PassStat){ c->pass, what, n }));
}

int64_t pass_stat(const PassReport *r, PassId id, const char *what)
{
    for (size_t i = 0; i < r->stats.len; i++)
        if (r->stats.data[i].pass == id && !strcmp(r->stats.data[i].what, what))
            return r->stats.data[i].count;
    return 0;
}

void passes_print_times(const PassReport *r, Text *out)
{
    int64_t total = 0;
    for (int id = 0; id < PASS_COUNT; id++) {
        int64_t ns = 0;
        int runs = 0;
        for (size_t i = 0; i < r->runs.len; i++)
            if ((int)r->runs.data[i].pass == id) {
                ns += r->runs.data[i].ns;
                runs++;
            }
        if (!runs) continue;
        total += ns;
        text_printf(out, "%-14s %2d x %9.3f ms", pass_info[id].name, runs, (double)ns * 1e-6);
        const char *sep = "   ";
        for (size_t i = 0; i < r->stats.len; i++) {
            if ((int)r->stats.data[i].pass != id) continue;
            text_printf(out, "%s%s: %lld", sep, r->stats.data[i].what, (long long)r->stats.data[i].count);
            sep = ", ";
        }
        text_putc(out, '\n');
    }
    text_printf(out, "%-14s      %9.3f ms\n", "all passes", (double)total * 1e-6);
}

void passes_print_list(Text *out)
{
    for (int i = 0; i < PASS_COUNT; i++)
        text_printf(out, "  %-14s %s%d  %s\n", pass_info[i].name, pass_info[i].on ? "-O" : "  ",
            pass_info[i].level, pass_info[i].doc);
}
