/* random_emu: random programs of tile IR, lowered and emitted for sm_80 (or another --device) after all passes or none, executed on the host, against the interpreter.
 *
 *     random_emu [--device=one_gfx942] [--first=SEED] [--count=N] [--emit] [--cut] [FILE.ir...]
 *     random_emu --show=SEED                              the program, and what is emitted for it
 *
 * --emit: emission only, nothing is run; --cut: the first failure is cut down and printed in the form in which it can be kept as a file
 * and run again (minutes). */
#include "tests/emu/exec_emu.h"
#include "tests/fuzz/gen_ir.h"
#include "tests/fuzz/reduce_ir.h"
#include "ir/eval.h"
#include "passes/passes.h"
#include <stdio.h>
#include <stdlib.h>

static const char *device = "one_sm_80";

/* "one_gfx942" is hip:gfx942. */
static const Target *target_of(const char *name)
{
    char full[40];
    snprintf(full, sizeof full, "%s:%s", strncmp(name + 4, "gfx", 3) ? "cuda" : "hip", name + 4);
    return target_find(full);
}

static const unsigned flag_sets[] = { 0, GEN_POW2, GEN_ONLY_EXACT, GEN_NO_WIDE, GEN_BIG_TILES | GEN_ONLY_EXACT };

/* One way of running a program. emu == NULL: emission only. */
typedef struct Way { void *emu; uint64_t seed; bool passes, show, ran, cut; } Way;
typedef struct Outcome { bool ran, same; char why[1000]; } Outcome;

static uint64_t scalar_word(Scalar x, DType d)
{
    uint64_t w = 0;
    float f = (float)x.f;
    if (d == DT_F64) memcpy(&w, &x.f, 8);
    else if (dtype_is_float(d)) memcpy(&w, &f, 4);
    else w = (uint64_t)x.i;
    return w;
}

typedef struct Env { int64_t dims[64], strides[GEN_MAX_PARAMS][TILE_MAX_RANK]; Scalar scalars[GEN_MAX_PARAMS]; EvalEnv env; } Env;

static bool bind(const Func *f, const InterpArg *args, Env *v)
{
    int64_t grid[3] = { 1, 1, 1 };
    for (int d = 0; d < f->n_dims; d++) v->dims[d] = f->dims[d].extent;
    for (int i = 0; i < f->n_params; i++) {
        const Param *p = &f->params[i];
        if (p->kind == PARAM_SCALAR) { v->scalars[i] = args[i].scalar; continue; }
        for (int a = 0; a < p->type->rank; a++) { v->strides[i][a] = args[i].stride[a]; v->dims[p->dims[a]] = args[i].shape[a]; }
    }
    v->env = (EvalEnv){ .dims = v->dims, .scalars = v->scalars, .strides = v->strides, .grid = { 1, 1, 1 } };
    if (f->grid && !ir_eval_block(f, f->grid, &v->env, grid, ir_terminator(f->grid)->n_operands)) return false;
    memcpy(v->env.grid, grid, sizeof grid);
    return true;
}

static const char *run(const Way *way, const GenKernel *k, const GpuCode *code, const Env *v, char *why, size_t why_size)
{
    uint64_t words[128] = { 0 };
    int64_t programs = v->env.grid[0] * v->env.grid[1] * v->env.grid[2];
    static uint64_t check[4];
    if (!programs) return NULL;
    EmuLaunchFn *fn = exec_emu_build(way->emu, code, why, why_size);
    if (!fn) return why;
    for (int i = 0; i < code->n_slots; i++) {
        const Slot *x = &code->slots[i];
        switch (x->kind) {
        case SLOT_DATA: words[i] = (uint64_t)(uintptr_t)k->args[x->param].data; break;
        case SLOT_EXTENT: words[i] = (uint64_t)v->dims[x->index]; break;
        case SLOT_STRIDE: words[i] = (uint64_t)v->strides[x->param][x->index]; break;
        case SLOT_SCALAR: words[i] = scalar_word(v->scalars[x->param], k->func->params[x->param].type->dtype); break;
        case SLOT_GRID: words[i] = (uint64_t)v->env.grid[x->index]; break;
        case SLOT_CHECK: words[i] = (uint64_t)(uintptr_t)check; break;
        case SLOT_TENSOR_MAP: case SLOT_TICKETS: case SLOT_WORKSPACE: case SLOT_PRINT: return "an argument the emulator does not know";
        }
    }
    /* A program that was cut down may depend on the order of CTAs: they run as in the interpreter. */
    return fn(words, programs, code->threads, (int)(way->seed & 3) | (way->cut ? 0 : (int)(way->seed >> 2 & 1) << 4), (int)(way->seed >> 3 & 3));
}

static void print(Session *s, const Module *m, const char *code)
{
    Text t;
    text_init(&t, &s->arena);
    ir_print(m, &t);
    printf("%s\n%s\n", t.data, code);
}

/* Runs the program of the seed, or `text` in its place on the seed's tensors. */
static Outcome try(const Way *way, const char *text)
{
    Session s;
    GenKernel k;
    GpuCode code;
    Env v = { 0 };
    Outcome o = { 0 };
    KernelOptions options = { .no_roles = true };
    const Target *t = target_of(device);
    unsigned flags = flag_sets[way->seed % (sizeof flag_sets / sizeof *flag_sets)];
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) {
        snprintf(o.why, sizeof o.why, "left early: %s", s.last_diag ? s.last_diag->message : "");
        session_free(&s);
        return o;
    }
    Module *m = text ? ir_parse(&s, diag_add_source(&s, "reduced", NULL, text, strlen(text))) : NULL;
    if (m) gen_replay(&s, m, way->seed, flags, &k);
    else if (!text) gen_kernel(&s, way->seed, flags, &k);
    bool ok = (m || !text) && ir_verify(k.module) && bind(k.func, k.args, &v) && interp_run(&s, k.func, k.args, k.n);
    void *want = ok ? gen_save(&s, &k) : NULL;
    PassOptions opt = pass_options_default(t);
    ok = ok && (!way->passes || passes_run(k.module, &opt, NULL)) && gpu_compile(&s, k.func, t, &options, &code, NULL);
    if (ok && way->show) print(&s, k.module, code.text);
    o.ran = ok;
    if (!ok) snprintf(o.why, sizeof o.why, "does not compile: %s", s.last_diag ? s.last_diag->message : "no diagnostics");
    else if (!way->emu) o.same = true;
    else {
        gen_fill(&k);
        const char *err = run(way, &k, &code, &v, o.why, sizeof o.why);
        if (err && err != o.why) snprintf(o.why, sizeof o.why, "%s", err);
        o.ran = !err;
        if (!err) o.same = gen_same(&k, want, gen_save(&s, &k), o.why, sizeof o.why);
    }
    session_free(&s);
    return o;
}

static bool still_fails(void *user, const char *text)
{
    const Way *way = user;
    Outcome o = try(way, text);
    return o.ran == way->ran && !o.same;
}

static void explain(Way way)
{
    Session s;
    GenKernel k;
    Text t;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) return;
    gen_kernel(&s, way.seed, flag_sets[way.seed % (sizeof flag_sets / sizeof *flag_sets)], &k);
    text_init(&t, &s.arena);
    ir_print(k.module, &t);
    char *small = reduce_ir(t.data, still_fails, &way);
    printf("// seed %llu\n%s// %s\n", (unsigned long long)way.seed, small, try(&way, small).why);
    free(small);
    session_free(&s);
}

static int both_ways(void *emu, uint64_t seed, const char *text, const char *name, bool *explained)
{
    int bad = 0;
    for (int passes = 0; passes < 2; passes++) {
        Way way = { .emu = emu, .seed = seed, .passes = passes, .cut = text };
        Outcome o = try(&way, text);
        if (o.ran && o.same) continue;
        printf("%s seed %llu, %s passes: %s\n", name, (unsigned long long)seed, passes ? "all" : "no", o.why);
        fflush(stdout);
        bad++;
        way.ran = o.ran;
        way.cut = true;
        if (!text && !*explained) explain(way);
        *explained = true;
    }
    return bad;
}

static int run_file(void *emu, const char *path)
{
    static char text[1 << 16];
    unsigned long long seed;
    bool explained = true;
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    if (sscanf(text, "// seed %llu", &seed) == 1) return both_ways(emu, seed, text, path, &explained);
    printf("%s: cannot be read, or does not start with its seed\n", path);
    return 1;
}

int main(int argc, char **argv)
{
    unsigned long long first = 0, count = 1, show = 0;
    bool emit_only = false, shown = false, explained = true;
    char why[200];
    int bad = 0, files = 0;
    for (int i = 1; i < argc; i++) {
        if (sscanf(argv[i], "--first=%llu", &first) == 1 || sscanf(argv[i], "--count=%llu", &count) == 1) continue;
        if (!strncmp(argv[i], "--device=", 9)) device = argv[i] + 9;
        else if (sscanf(argv[i], "--show=%llu", &show) == 1) shown = true;
        else if (!strcmp(argv[i], "--emit")) emit_only = true;
        else if (!strcmp(argv[i], "--cut")) explained = false;
        else if (*argv[i] == '-') return fputs("usage: random_emu [--device=NAME] [--first=SEED] [--count=N] [--emit] [--cut] [--show=SEED] [FILE...]\n", stderr), 2;
        else files++;
    }
    if (shown) {
        for (int passes = 0; passes < 2; passes++) printf("// %s\n", try(&(Way){ .seed = show, .passes = passes, .show = true }, NULL).why);
        return 0;
    }
    void *emu = emit_only ? NULL : exec_emu_open_once(device, why, sizeof why);
    if (!emu && !emit_only) { printf("SKIP: %s\n", why); return 77; }
    for (int i = 1; i < argc; i++) if (*argv[i] != '-') bad += run_file(emu, argv[i]);
    for (uint64_t seed = first; !files && seed < first + count && bad < 40; seed++) bad += both_ways(emu, seed, NULL, "", &explained);
    if (emu) exec_emu_close(emu);
    printf("%llu random programs, %d runs differ\n", files ? (unsigned long long)files : count, bad);
    return bad != 0;
}
