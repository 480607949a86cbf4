/* random_emu: random programs of tile IR, lowered and emitted for sm_80 after all passes or none, executed on the host, against the interpreter.
 *
 *     random_emu [first [count [--emit]]]      seeds; --emit: emission only */
#include "tests/emu/exec_emu.h"
#include "tests/fuzz/gen_ir.h"
#include "ir/eval.h"
#include "passes/passes.h"
#include <stdio.h>
#include <stdlib.h>

static const unsigned flag_sets[] = { 0, GEN_POW2, GEN_ONLY_EXACT, GEN_NO_WIDE, GEN_BIG_TILES | GEN_ONLY_EXACT };

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

static const char *run(void *emu, const Func *f, const GenKernel *k, const GpuCode *code, const Env *v, uint64_t seed, char *why, size_t why_size)
{
    uint64_t words[128] = { 0 };
    int64_t programs = v->env.grid[0] * v->env.grid[1] * v->env.grid[2];
    static uint64_t check[4];
    if (!programs) return NULL;
    EmuLaunchFn *fn = exec_emu_build(emu, code, why, why_size);
    if (!fn) return why;
    for (int i = 0; i < code->n_slots; i++) {
        const Slot *x = &code->slots[i];
        switch (x->kind) {
        case SLOT_DATA: words[i] = (uint64_t)(uintptr_t)k->args[x->param].data; break;
        case SLOT_EXTENT: words[i] = (uint64_t)v->dims[x->index]; break;
        case SLOT_STRIDE: words[i] = (uint64_t)v->strides[x->param][x->index]; break;
        case SLOT_SCALAR: words[i] = scalar_word(v->scalars[x->param], f->params[x->param].type->dtype); break;
        case SLOT_GRID: words[i] = (uint64_t)v->env.grid[x->index]; break;
        case SLOT_CHECK: words[i] = (uint64_t)(uintptr_t)check; break;
        case SLOT_TENSOR_MAP: case SLOT_TICKETS: case SLOT_WORKSPACE: case SLOT_PRINT: return "an argument the emulator does not know";
        }
    }
    return fn(words, programs, code->threads, (int)(seed & 1), (int)(seed >> 1 & 1));
}

static bool try(void *emu, uint64_t seed, bool passes, bool emit_only)
{
    Session s;
    GenKernel k;
    char why[1000] = "";
    volatile bool ok = false;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Env v = { 0 };
        GpuCode code;
        KernelOptions options = { .no_roles = true };
        const Target *t = target_find("cuda:sm_80");
        gen_kernel(&s, seed, flag_sets[seed % (sizeof flag_sets / sizeof *flag_sets)], &k);
        bool ran = ir_verify(k.module) && bind(k.func, k.args, &v) && interp_run(&s, k.func, k.args, k.n);
        void *want = gen_save(&s, &k);
        PassOptions opt = pass_options_default(t);
        ran = ran && (!passes || passes_run(k.module, &opt, NULL)) && gpu_compile(&s, k.func, t, &options, &code, NULL);
        if (!ran) snprintf(why, sizeof why, "does not compile: %s", s.last_diag ? s.last_diag->message : "no diagnostics");
        else if (emit_only) ok = true;
        else {
            gen_fill(&k);
            const char *err = run(emu, k.func, &k, &code, &v, seed, why, sizeof why);
            if (err) snprintf(why, sizeof why, "%.900s", err == why ? strdup(why) : err);
            else ok = gen_same(&k, want, gen_save(&s, &k), why, sizeof why);
        }
    } else snprintf(why, sizeof why, "left early: %s", s.last_diag ? s.last_diag->message : "");
    if (!ok) printf("seed %llu, %s passes: %s\n", (unsigned long long)seed, passes ? "all" : "no", why);
    session_free(&s);
    return ok;
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    bool emit_only = argc > 3 && !strcmp(argv[3], "--emit");
    char why[200];
    int bad = 0;
    void *emu = emit_only ? NULL : exec_emu_open("emu_sm_80", why, sizeof why);
    if (!emu && !emit_only) { printf("SKIP: %s\n", why); return 77; }
    for (uint64_t seed = first; seed < first + count && bad < 40; seed++)
        for (int passes = 0; passes < 2; passes++) bad += !try(emu, seed, passes, emit_only);
    if (emu) exec_emu_close(emu);
    printf("%llu random programs, %d runs differ\n", (unsigned long long)count, bad);
    return bad != 0;
}
