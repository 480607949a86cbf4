/* random_ir.c: see random_ir.h. */
#include "random_ir.h"
#include "reduce_ir.h"
#include <stdlib.h>

static const unsigned flag_sets[] = { 0, GEN_POW2, GEN_ONLY_EXACT, GEN_NO_WIDE,
    GEN_BIG_TILES | GEN_ONLY_EXACT };
static unsigned flags_of(const RandomCase *c)
{ return flag_sets[c->seed % (sizeof flag_sets / sizeof *flag_sets)] | (c->brief ? GEN_SHORT : 0u); }

uint64_t random_ir_draw(uint64_t seed, int which)
{
    uint64_t z = (seed + 1) * 0x9E3779B97F4A7C15ull + (uint64_t)which * 0xD1342543DE82EF95ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    return z ^ z >> 31;
}

RandomOutcome random_ir_try(const RandomWay *way, const RandomCase *c, const char *text)
{
    Session s;
    GenKernel k = { 0 };
    RandomOutcome o = { 0 };
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) {
        snprintf(o.why, sizeof o.why, "left early: %s", s.last_diag ? s.last_diag->message : "");
        session_free(&s);
        return o;
    }
    Module *m = text ? ir_parse(&s, diag_add_source(&s, "reduced", NULL, text, strlen(text))) : NULL;
    if (m) gen_replay(&s, m, c->seed, flags_of(c), &k);
    else if (!text) gen_kernel(&s, c->seed, flags_of(c), &k);
    bool ok = (m || !text) && ir_verify(k.module) && interp_run(&s, k.func, k.args, k.n);
    void *want = ok ? gen_save(&s, &k) : NULL;
    PassOptions opt = pass_options_default(way->target);
    if (way->opt_level) opt.opt_level = way->opt_level;
    ok = ok && (!c->passes || passes_run(k.module, &opt, NULL));
    if (ok) gen_fill(&k);
    ok = ok && way->run(way->user, &s, &k, c, o.why, sizeof o.why);
    o.ran = ok;
    if (!ok && !*o.why)
        snprintf(
            o.why, sizeof o.why, "does not run: %s", s.last_diag ? s.last_diag->message : "no diagnostics");
    if (ok) o.same = way->emit_only || gen_same(&k, want, gen_save(&s, &k), o.why, sizeof o.why);
    session_free(&s);
    return o;
}

void random_ir_write(FILE *to, const RandomCase *c)
{
    Session s;
    GenKernel k;
    Text t;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        gen_kernel(&s, c->seed, flags_of(c), &k);
        text_init(&t, &s.arena);
        ir_print(k.module, &t);
        fputs(t.data, to);
    }
    session_free(&s);
}

typedef struct Failure {
    const RandomWay *way;
    RandomCase c;
    bool ran;
} Failure;

static bool still_fails(void *user, const char *text)
{
    const Failure *f = user;
    RandomOutcome o = random_ir_try(f->way, &f->c, text);
    return o.ran == f->ran && !o.same;
}

static void explain(Failure f)
{
    Session s;
    GenKernel k;
    Text t;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) return;
    gen_kernel(&s, f.c.seed, flags_of(&f.c), &k);
    text_init(&t, &s.arena);
    ir_print(k.module, &t);
    char *small = reduce_ir(t.data, still_fails, &f);
    printf("// seed %llu\n%s// %s\n", (unsigned long long)f.c.seed, small,
        random_ir_try(f.way, &f.c, small).why);
    free(small);
    session_free(&s);
}

int random_ir_both(const RandomWay *way, uint64_t seed, const char *text, const char *name, bool *explained)
{
    int bad = 0;
    for (int passes = 0; passes < 2; passes++) {
        RandomCase c = { seed, passes, text };
        RandomOutcome o = random_ir_try(way, &c, text);
        if (o.ran && o.same) continue;
        printf("%s seed %llu, %s passes: %s\n", name, (unsigned long long)seed, passes ? "all" : "no", o.why);
        fflush(stdout);
        bad++;
        c.cut = true;
        if (!text && !*explained) explain((Failure){ way, c, o.ran });
        *explained = true;
    }
    return bad;
}

int random_ir_file(const RandomWay *way, const char *path)
{
    static char text[1 << 16];
    unsigned long long seed;
    bool explained = true;
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    if (sscanf(text, "// seed %llu", &seed) == 1) return random_ir_both(way, seed, text, path, &explained);
    printf("%s: cannot be read, or does not start with its seed\n", path);
    return 1;
}
