/* random_emu: random programs of tile IR, lowered and emitted for sm_80 (or another --device) after all
 * passes or none, executed on the host, against the interpreter.
 *
 *     random_emu [--device=one_gfx942] [--first=SEED] [--count=N] [--emit] [--cut] [FILE.ir...]
 *     random_emu --device=tcc_sm_90a --jobs=16 --seconds=500 --first=SEED [--save=DIR]
 *     random_emu --show=SEED                              the program, and what is emitted for it
 *
 * With --jobs a campaign runs (ir_campaign.h). A device tcc_.. compiles with TinyCC (quick.h), and what fails
 * there is repeated with the host's compiler.
 * --emit: emission only, nothing is run; --cut: the first failure is cut down and printed in the form in
 * which it can be kept as a file and run again (minutes). */
#include "tests/emu/exec_emu.h"
#include "tests/emu/workspace.h"
#include "tests/fuzz/ir_campaign.h"
#include "ir/interp/eval.h"
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

/* emu NULL: emission only. show: prints it. */
typedef struct Emulator {
    void *emu;
    bool show;
} Emulator;

static uint64_t scalar_word(Scalar x, DType d)
{
    uint64_t w = 0;
    float f = (float)x.f;
    if (d == DT_F64) memcpy(&w, &x.f, 8);
    else if (dtype_is_float(d)) memcpy(&w, &f, 4);
    else w = (uint64_t)x.i;
    return w;
}

typedef struct Env {
    int64_t dims[64], strides[GEN_MAX_PARAMS][TILE_MAX_RANK];
    Scalar scalars[GEN_MAX_PARAMS];
    EvalEnv env;
} Env;

static bool bind(const Func *f, const InterpArg *args, Env *v)
{
    int64_t grid[3] = { 1, 1, 1 };
    for (int d = 0; d < f->n_dims; d++) v->dims[d] = f->dims[d].extent;
    for (int i = 0; i < f->n_params; i++) {
        const Param *p = &f->params[i];
        if (p->kind == PARAM_SCALAR) {
            v->scalars[i] = args[i].scalar;
            continue;
        }
        for (int a = 0; a < p->type->rank; a++) {
            v->strides[i][a] = args[i].stride[a];
            v->dims[p->dims[a]] = args[i].shape[a];
        }
    }
    v->env = (EvalEnv){ .dims = v->dims, .scalars = v->scalars, .strides = v->strides, .grid = { 1, 1, 1 } };
    if (f->grid && !ir_eval_block(f, f->grid, &v->env, grid, ir_terminator(f->grid)->n_operands))
        return false;
    memcpy(v->env.grid, grid, sizeof grid);
    return true;
}

static const char *launch(void *emu, const RandomCase *c, const GenKernel *k, const GpuCode *code,
    const Env *v, char *why, size_t why_size)
{
    uint64_t words[128] = { 0 };
    int64_t programs = v->env.grid[0] * v->env.grid[1] * v->env.grid[2] * code->clusters;
    static uint64_t check[4], scheduler;
    if (!programs) return NULL;
    EmuLaunchFn *fn = exec_emu_build(emu, code, why, why_size);
    if (!fn) return why;
    Workspace workspace =
        workspace_new(&k->func->module->session->arena, code->workspace_per_block * programs * code->cluster);
    for (int i = 0; i < code->n_slots; i++) {
        const Slot *x = &code->slots[i];
        switch (x->kind) {
        case SLOT_DATA: words[i] = (uint64_t)(uintptr_t)k->args[x->param].data; break;
        case SLOT_EXTENT: words[i] = (uint64_t)v->dims[x->index]; break;
        case SLOT_STRIDE: words[i] = (uint64_t)v->strides[x->param][x->index]; break;
        case SLOT_SCALAR:
            words[i] = scalar_word(v->scalars[x->param], k->func->params[x->param].type->dtype);
            break;
        case SLOT_GRID: words[i] = (uint64_t)v->env.grid[x->index]; break;
        case SLOT_CHECK: words[i] = (uint64_t)(uintptr_t)check; break;
        case SLOT_SCHEDULER: words[i] = (uint64_t)(uintptr_t)&scheduler; break;
        case SLOT_WORKSPACE: words[i] = (uint64_t)(uintptr_t)workspace.base; break;
        case SLOT_TENSOR_MAP:
        case SLOT_PRINT: return "an argument the emulator does not know";
        }
    }
    /* A program that was reduced may depend on the order of CTAs, so they run in the order of the
     * interpreter. */
    const char *fault = fn(words, programs, code->threads,
        (int)(c->seed & 3) | (c->cut ? 0 : (int)(c->seed >> 2 & 1) << 4), (int)(c->seed >> 3 & 3));
    return fault ? fault : scheduler ? "the counter of the scheduler is not zero at the end" : NULL;
}

static void print(Session *s, const Module *m, const char *code)
{
    Text t;
    text_init(&t, &s->arena);
    ir_print(m, &t);
    printf("%s\n%s\n", t.data, code);
}

static bool run(void *user, Session *s, GenKernel *k, const RandomCase *c, char *why, size_t why_size)
{
    const Emulator *e = user;
    GpuCode code;
    Env v = { 0 };
    KernelOptions options = { .skip = PASS_SET(PASS_WARP_SPECIALIZATION) };
    if (!bind(k->func, k->args, &v)) return false;
    if (!gpu_compile(s, k->func, target_of(device), &options, &code, NULL)) {
        if (s->last_diag && executor_too_large(s->last_diag->message))
            snprintf(why, why_size, "SKIP: %s", s->last_diag->message);
        return false;
    }
    if (e->show) print(s, k->module, code.text);
    const char *err = e->emu ? launch(e->emu, c, k, &code, &v, why, why_size) : NULL;
    if (err && err != why) snprintf(why, why_size, "%s", err);
    return !err;
}

static bool thorough(void *user) { return exec_emu_thorough(((Emulator *)user)->emu, true); }

static void *open_emulator(char *why, size_t why_size) { return exec_emu_open_once(device, why, why_size); }

int main(int argc, char **argv)
{
    IrCampaign campaign = { .count = 1, .limit = 120 };
    unsigned long long show = 0;
    bool emit_only = false, shown = false, explained = true;
    char why[200];
    int bad = 0, files = 0;
    for (int i = 1; i < argc; i++) {
        if (ir_campaign_option(&campaign, argv[i])) continue;
        if (!strncmp(argv[i], "--device=", 9)) device = argv[i] + 9;
        else if (sscanf(argv[i], "--show=%llu", &show) == 1) shown = true;
        else if (!strcmp(argv[i], "--emit")) emit_only = true;
        else if (!strcmp(argv[i], "--cut")) explained = false;
        else if (*argv[i] == '-')
            return fputs("usage: random_emu [--device=NAME] [--first=SEED] [--count=N] [--emit] [--cut] "
                         "[--show=SEED] [--jobs=N [--seconds=N] [--limit=N] [--save=DIR]] [FILE...]\n",
                       stderr),
                   2;
        else files++;
    }
    if (shown) {
        const RandomWay way = {
            .target = target_of(device), .run = run, .user = &(Emulator){ .show = true }, .emit_only = true
        };
        for (int passes = 0; passes < 2; passes++)
            printf("// %s\n", random_ir_try(&way, &(RandomCase){ .seed = show, .passes = passes }, NULL).why);
        return 0;
    }
    void *emu = emit_only ? NULL : open_emulator(why, sizeof why);
    if (!emu && !emit_only) {
        printf("SKIP: %s\n", why);
        return 77;
    }
    const RandomWay way = { .target = target_of(device),
        .run = run,
        .user = &(Emulator){ .emu = emu },
        .emit_only = !emu,
        .thorough = thorough };
    campaign.way = &way;
    campaign.device = device + 4;
    if (emu && campaign.jobs) {
        bad = ir_campaign(&campaign);
        exec_emu_close(emu);
        return bad;
    }
    const uint64_t first = campaign.first, count = campaign.count;
    for (int i = 1; i < argc; i++)
        if (*argv[i] != '-') bad += random_ir_file(&way, argv[i]);
    for (uint64_t seed = first; !files && seed < first + count && bad < 40; seed++)
        bad += random_ir_both(&way, seed, NULL, "", &explained);
    if (emu) exec_emu_close(emu);
    printf(
        "%llu random programs, %d runs differ\n", (unsigned long long)(files ? (uint64_t)files : count), bad);
    return bad != 0;
}
