/* backend.c: the CUDA and HIP backends as the runtime and tilec see them. */
#include "backends/backend.h"
#include "backends/gpu/emit.h"
#include "backends/gpu/gpu.h"
#include "passes/kernel/schedule/cta_size.h"

static void name_scratch(Session *s, Diag *d, const ScratchUse *u, const char *when, int64_t have)
{
    if (!u->bytes) return;
    if (!u->type || u->type->kind != TYPE_TILE)
        diag_note(s, d, u->loc, "%s, exchanging values among threads takes %lld bytes of %lld", when,
            (long long)u->bytes, (long long)have);
    else
        diag_note(s, d, u->loc, "%s, %s tile of %s on its way between threads takes %lld bytes of %lld", when,
            dtype_name(u->type->dtype), type_extents(s, u->type, 0), (long long)u->bytes, (long long)have);
}

/* Reports which tiles take the most shared memory, and how many stages of each would fit. */
static void name_buffers(Session *s, Diag *d, const GpuCode *code, int64_t have)
{
    for (int k = 0; k < code->n_shared_map && k < 8; k++) {
        const SharedUse *u = &code->shared_map[k];
        int64_t slot = u->bytes / (u->type->shape[0] ? u->type->shape[0] : 1);
        diag_note(s, d, u->loc, "%s: %lld x %s tile of %s takes %lld bytes; %lld such tiles fill %lld",
            u->name, (long long)u->type->shape[0], dtype_name(u->type->dtype), type_extents(s, u->type, 1),
            (long long)u->bytes, (long long)(slot ? have / slot : 0), (long long)have);
    }
    name_scratch(s, d, &code->beside, "beside them", have);
    name_scratch(s, d, &code->after, "when they are done with", have);
}

/* Warns about tiles that do not fit the registers of their threads. They are kept in local memory, which is
 * slow. Much larger ones are refused. */
static bool registers_suffice(Session *s, const Func *f, const Target *t, const GpuCode *code)
{
    const RegisterUse *u = &code->largest;
    if (u->words <= code->registers) return true;
    const char *shape = type_extents(s, u->type, 0);
    if (u->words <= CTA_SIZE_MOST_WORDS) {
        diag_perf(s, u->loc,
            "%s tile of %s takes %d registers of each of %d threads, which have %d: the rest lies in local "
            "memory",
            dtype_name(u->type->dtype), shape, u->words, code->threads, code->registers);
        return true;
    }
    cta_size_refuse_tile(s, f, t, u->loc, u->type, u->words, code->threads);
    return false;
}

/* Says where the hint `occupancy` asks for more CTAs than a multiprocessor holds, and where it changes
 * nothing. On AMD it becomes a number of waves on each SIMD, which a CTA of few waves has anyway. */
static void note_occupancy(Session *s, const Func *f, const Target *t, const GpuCode *code)
{
    int asked = f->hints.occupancy;
    int64_t each = code->shared_bytes + t->cta_shared_bytes, fit = t->sm_threads / code->threads;
    const char *what = "threads";
    if (asked < 2 || code->plan->producer_warps) return;
    if (each > 0 && t->sm_shared_bytes / each < fit) {
        fit = t->sm_shared_bytes / each;
        what = "bytes of shared memory";
    }
    if (fit < asked) {
        diag_perf(s, f->loc, "occupancy = %d: a multiprocessor of %s holds %lld CTA%s of %lld %s", asked,
            t->name, (long long)fit, fit == 1 ? "" : "s",
            (long long)(*what == 'b' ? code->shared_bytes : code->threads), what);
        return;
    }
    KernelPlan without = *code->plan;
    without.min_ctas = 0;
    if (t->kind == TARGET_HIP && kernel_waves_per_eu(&without, code->shared_bytes) == code->planned_waves)
        diag_perf(s, f->loc,
            "occupancy = %d: the code is the same without it: %d CTAs of %d waves are %d on each SIMD of %s, "
            "which it allows in any case",
            asked, asked, code->plan->warps, code->planned_waves, t->name);
}

static void forget_since(Session *s, Diag *last)
{
    if (last) last->next = NULL;
    else s->diags = NULL;
    s->last_diag = last;
}

typedef enum Fit { FAILED, TOO_LARGE, FITS } Fit;

/* Whether what is reserved and the partial sums leave no byte for buffers, so that the plan is the same
 * whatever else is reserved. */
static bool no_buffers_left(const Target *t, const KernelPlan *plan)
{ return plan->options.reserve + plan->parts_bytes > t->shared_bytes; }

/* Lowers and emits a copy of the module. Tries again with fewer buffers when conversions need more shared
 * memory than the first attempt left. */
static Fit attempt(Session *s, Func *f, const Target *t, KernelOptions options, GpuCode *code, Func **lowered)
{
    enum { MOST_AGAIN = 5 }; /* a step of a ring may be longer than what is missing */
    Diag *before = s->last_diag;
    for (int n = 0;; n++) {
        forget_since(s, before); /* what an earlier attempt could not do */
        Module *copy = ir_clone_module(f->module);
        Func *g = ir_func_find(copy, f->name);
        KernelPlan *plan = arena_new(&s->arena, KernelPlan);
        if (!kernel_lower(s, g, t, &options, plan)) return FAILED;
        if (lowered) *lowered = g;
        (options.measure ? gpu_measure : gpu_emit)(s, g, plan, code);
        code->plan = plan;
        code->schedule = options.measure ? "" : schedule_text(plan, g, plan->schedule);
        if (plan->expects && code->scratch_bytes != options.expected) { /* a wrong guess */
            options.expected = 0;
            n = -1;
            continue;
        }
        if (plan->expects) options.reserve = plan->options.reserve; /* as after a first attempt without it */
        if (code->shared_bytes <= t->shared_bytes) return FITS;
        if (plan->resident) { /* the words of gathered atomics do not fit beside what the program needs */
            pass_add(&options.skip, PASS_SHARED_ATOMICS);
            n = -1;
            continue;
        }
        int64_t over = code->shared_bytes - t->shared_bytes,
                asked = code->scratch_bytes > options.reserve ? cta_size_reserve_for(code->scratch_bytes) : 0;
        /* The partial sums are held in more registers than their elements fill. */
        if (plan->split_k && asked < options.reserve + over) asked = options.reserve + over + 1024;
        if (n == MOST_AGAIN || !asked || no_buffers_left(t, plan)) return TOO_LARGE;
        options.reserve = asked;
    }
}

static bool has_product(const Func *f) { return ir_holds(f->body, OP_MMA); }

bool gpu_compile(Session *s, Func *f, const Target *t, const KernelOptions *o, GpuCode *code, Func **lowered)
{
    enum { MOST_THRIFT = 4 };
    KernelOptions options = o ? *o : (KernelOptions){ 0 };
    Diag *before = s->last_diag;
    int best = -1, least = 0, last = t->kind == TARGET_HIP && has_product(f) ? MOST_THRIFT : 0;
    Fit fit;
    for (options.thrift = 0;; options.thrift++) {
        fit = attempt(s, f, t, options, code, lowered);
        if (fit == FAILED) return false;
        int over = code->planned_registers - code->lane_registers;
        if (fit == FITS && (best < 0 || over < least)) {
            best = options.thrift;
            least = over;
        }
        if (options.thrift == last || (best >= 0 && (least <= 0 || t->kind != TARGET_HIP))) break;
        forget_since(s, before);
    }
    /* Either no attempt fits, and the kernel is compiled as declared, or an earlier attempt was better. */
    const int taken = best < 0 ? 0 : best;
    if (taken != options.thrift) {
        options.thrift = taken;
        forget_since(s, before);
        fit = attempt(s, f, t, options, code, lowered);
    }
    if (fit == FITS) {
        if (t->kind == TARGET_HIP && least > 0)
            diag_perf(s, f->loc,
                "the tiles of kernel %s take about %d registers a lane, %s has %d: some will be spilled; "
                "make tiles smaller",
                f->name, code->planned_registers, t->name, code->lane_registers);
        note_occupancy(s, f, t, code);
        return registers_suffice(s, f, t, code) && s->n_errors == 0;
    }
    Diag *d = diag_error(s, f->loc, "kernel %s needs %lld bytes of shared memory, %s has %lld", f->name,
        (long long)code->shared_bytes, t->name, (long long)t->shared_bytes);
    name_buffers(s, d, code, t->shared_bytes);
    diag_note(s, d, f->loc, "make tiles smaller or ask for fewer stages (latency)");
    return false;
}

static bool compile(Session *s, Module *m, Func *f, const Target *t, const BackendOptions *o, Artifact *out)
{
    GpuCode code = { 0 };
    (void)m;
    KernelOptions options = o && o->kernel ? *o->kernel : (KernelOptions){ 0 };
    options.early_start |= o && o->early_start;
    options.watches |= o && o->checked;
    options.source_name = f->name;
    if (o && o->symbol) f->name = session_intern(s, o->symbol, strlen(o->symbol));
    bool ok = gpu_compile(s, f, t, &options, &code, NULL);
    bool too_large = code.shared_bytes > t->shared_bytes || code.planned_registers > code.lane_registers;
    if (!ok) {
        *out = (Artifact){ .too_large = too_large, .shape.shared_bytes = code.shared_bytes };
        return false;
    }
    *out = (Artifact){ .kind = ARTIFACT_TEXT,
        .too_large = too_large,
        .data = code.text,
        .size = code.text_len,
        .entry = code.name,
        .registers_planned = code.planned_registers,
        .ctas = f->hints.occupancy ? 0 : code.plan->min_ctas,
        .streams = code.plan->streams,
        .slots = code.slots,
        .n_slots = code.n_slots,
        .maps = code.maps,
        .n_maps = code.n_maps,
        .schedule = code.schedule,
        .registers = -1,
        .spill_bytes = -1,
        .stack_bytes = -1,
        .static_shared_bytes = -1 };
    out->shape = (LaunchShape){ .threads = code.threads,
        .cluster = code.cluster,
        .cluster_axis = code.plan->multicast_axis,
        .clusters = code.clusters,
        .persistent = code.persistent,
        .shares = code.shares,
        .abreast = code.abreast,
        .early_start = code.early_start,
        .shared_bytes = code.shared_bytes,
        .workspace_per_block = code.workspace_per_block };
    /* In HIP, LDS is a static array. Its size is in the code object, and the launch asks for none. */
    if (t->kind == TARGET_HIP) {
        out->static_shared_bytes = (int)code.shared_bytes;
        out->shape.shared_bytes = 0;
    }
    return true;
}

static const char *fingerprint(Session *s, const Target *t, const BackendOptions *o)
{
    (void)s;
    (void)t;
    (void)o;
    return "gpu 1";
}

const Backend backend_hip = {
    .name = "hip", .kind = TARGET_HIP, .compile = compile, .fingerprint = fingerprint
};
const Backend backend_cuda = {
    .name = "cuda", .kind = TARGET_CUDA, .compile = compile, .fingerprint = fingerprint
};
