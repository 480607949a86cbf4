/* random_passes.c: random programs, run by the interpreter as generated and after the passes: the tensors
 * must agree (to the bit where every operation is exact), and every access that a pass proved in range must
 * be.
 *
 *     random_passes [first [count]]      seeds; of a failure, the program, the passes one by one, and the
 *                                        difference are shown */
#include "gen_ir.h"
#include "passes/passes.h"
#include <stdio.h>
#include <stdlib.h>

static const unsigned flag_sets[] = { 0, GEN_POW2, GEN_ONLY_EXACT, GEN_POW2 | GEN_ONLY_EXACT,
    GEN_BIG_TILES | GEN_NO_FP8 };

typedef struct Outcome {
    bool ran, same;
    char why[400];
    char *text;
} Outcome;

static char *text_of(Session *s, const Module *m)
{
    Text t;
    text_init(&t, &s->arena);
    ir_print(m, &t);
    return t.data;
}

static void diags_into(Session *s, char *out, size_t n)
{
    Text t;
    text_init(&t, &s->arena);
    diag_render_all(s, &t);
    snprintf(out, n, "%s", t.data ? t.data : "no diagnostics");
}

/* `passes`: NULL for the pipeline of `level`, else a list. */
static Outcome try(uint64_t seed, int level, const char *passes, bool keep_text)
{
    Outcome o = { 0 };
    Session s;
    GenKernel k = { 0 };
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) {
        diags_into(&s, o.why, sizeof o.why);
        session_free(&s);
        return o;
    }
    gen_kernel(&s, seed, flag_sets[seed % (sizeof flag_sets / sizeof *flag_sets)], &k);
    bool ok = ir_verify(k.module) && interp_run(&s, k.func, k.args, k.n);
    void *before = gen_save(&s, &k);
    PassOptions opt = pass_options_default(NULL);
    opt.opt_level = level;
    opt.passes = passes;
    opt.verify_each = true;
    ok = ok && passes_run(k.module, &opt, NULL);
    gen_fill(&k);
    k.func = k.module->funcs;
    ok = ok && interp_run(&s, k.func, k.args, k.n);
    o.ran = ok;
    if (!ok) diags_into(&s, o.why, sizeof o.why);
    else o.same = gen_same(&k, before, gen_save(&s, &k), o.why, sizeof o.why);
    if (keep_text) o.text = strdup(text_of(&s, k.module));
    session_free(&s);
    return o;
}

static void explain(uint64_t seed, const Outcome *o)
{
    printf("seed %llu: %s\n", (unsigned long long)seed, o->why);
    for (int p = 0; p < TILE_PASS_COUNT; p++) {
        Outcome one = try(seed, 2, pass_info[p].name, false);
        if (!one.same) printf("  with %s alone: %s\n", pass_info[p].name, one.why);
    }
    Outcome plain = try(seed, 0, "", true);
    printf("%s\n", plain.text ? plain.text : plain.why);
    free(plain.text);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0,
             count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int bad = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        Outcome o = try(seed, seed % 4 == 3 ? 3 : 2, NULL, false);
        if (o.ran && o.same) continue;
        if (bad < 3) explain(seed, &o);
        else printf("seed %llu: %s\n", (unsigned long long)seed, o.why);
        if (++bad == 20) break;
    }
    printf("%llu random programs, %d differ\n", (unsigned long long)count, bad);
    return bad != 0;
}
