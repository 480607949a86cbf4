/* explain_resources.c: what a kernel takes of a multiprocessor, and how much it computes with each byte. */
#include "tools/tilec/explain/explain.h"
#include "tools/tilec/compile/hip.h"

typedef struct Resources {
    const char *source; /* "NVRTC", or NULL: planned */
    const char *why;    /* why nothing was measured */
    int registers, spill_bytes;
} Resources;

/* The vendor's compiler reads the emitted text. */
static Resources measure(Explained *x)
{
    Input *in = x->in;
    const Target *t = x->o->target;
    const void *data;
    size_t size;
    if (t->kind == TARGET_CUDA) {
        Compiled c = { .artifact = {
                           .data = x->code.text, .size = x->code.text_len, .entry = x->code.name } };
        if (!emit_compiler(in, t)) return (Resources){ .why = "NVRTC was not found" };
        if (!emit_binary(in, x->v, x->o, &c, false, &data, &size))
            return (Resources){ .why = "NVRTC failed" };
        return (Resources){ "NVRTC", NULL, c.artifact.registers, c.artifact.spill_bytes };
    }
    char path[1024];
    HipCode code;
    if (!hip_compiler(path, sizeof path)) return (Resources){ .why = "clang was not found" };
    if (!hip_compile(&in->session, t, x->code.text, x->code.text_len, HIP_CODE_OBJECT, false, &code))
        return (Resources){ .why = "clang failed" };
    return (Resources){ "clang", NULL, code.registers, code.spill_bytes };
}

int explain_registers(const Explained *x)
{
    return x->o->target->kind == TARGET_HIP && x->code.planned_registers ? x->code.planned_registers
                                                                         : x->code.registers;
}

int explain_occupancy(const Explained *x, int registers, const char **bound)
{
    const Target *t = x->o->target;
    int64_t each = x->code.shared_bytes + t->cta_shared_bytes, step = t->register_step;
    int64_t held = (registers + step - 1) / step * step * x->code.threads;
    int64_t ctas = t->sm_threads / x->code.threads;
    *bound = "threads";
    if (t->sm_ctas && t->sm_ctas < ctas) {
        ctas = t->sm_ctas;
        *bound = "the CTAs that a multiprocessor holds";
    }
    if (held > 0 && t->sm_registers / held < ctas) {
        ctas = t->sm_registers / held;
        *bound = "registers";
    }
    if (each > 0 && t->sm_shared_bytes / each < ctas) {
        ctas = t->sm_shared_bytes / each;
        *bound = "shared memory";
    }
    return (int)ctas;
}

static void amount(Text *t, double v, const char *unit)
{
    static const char *const prefixes[] = { "", "k", "M", "G", "T", "P" };
    int u = 0;
    for (; v >= 999.5 && u < 5; u++) v /= 1000;
    text_printf(t, "%.*f %s%s", u && v < 99.95 ? 1 : 0, v, prefixes[u], unit);
}

static void print_intensity(Explained *x, Text *t)
{
    const ExplainLaunch *l = &x->launch;
    text_puts(t, "  intensity      ");
    if (!l->trace) {
        text_printf(t, "not known: %s\n", l->why_not);
        return;
    }
    text_printf(t, "%.2f FLOP a byte: ", l->bytes > 0 ? l->operations / l->bytes : 0);
    amount(t, l->operations, "FLOP");
    text_puts(t, " with ");
    amount(t, l->bytes, "B");
    text_puts(t, " of tensors");
    if (l->assumed) text_printf(t, ", for %s", l->assumed);
    if (l->counted < sim_trace_programs(l->trace) || l->cut)
        text_printf(t, "; counted in %s%lld of %lld programs", l->cut ? "the beginnings of " : "",
            (long long)l->counted, (long long)sim_trace_programs(l->trace));
    text_putc(t, '\n');
}

/* A CPU has neither shared memory nor an occupancy: a thread runs program after program. */
static void print_cpu(Explained *x, Text *t)
{
    CpuUse use;
#ifdef TILE_HAVE_BACKEND_CPU
    if (!emit_cpu_use(x->in, x->v, x->o, &use)) return;
#else
    text_puts(t, "resources: not known: this tilec was built without LLVM\n");
    return;
#endif
    text_puts(t, "resources, as LLVM gives them:\n");
    text_printf(t, "  registers      %d of %d vector registers of %d bytes\n", use.vector_registers,
        use.vector_registers_had, use.vector_bytes);
    if (!x->o->backend.opt_level) text_puts(t, "  spills         not counted at -O0\n");
    else if (use.spills + use.reloads)
        text_printf(t,
            "  spills         %lld stores to the stack and %lld loads from it, in the whole text\n",
            (long long)use.spills, (long long)use.reloads);
    else text_puts(t, "  spills         none\n");
    text_printf(t, "  stack          %lld bytes a thread\n", (long long)use.stack_bytes);
    text_puts(t, "  shared memory  none: a CPU has caches instead\n");
    text_puts(t, "  occupancy      one program at a time on each thread");
    if (x->launch.trace)
        text_printf(t, "; programs in all: %lld", (long long)sim_trace_programs(x->launch.trace));
    text_putc(t, '\n');
}

void explain_resources(Explained *x, bool ask, Text *t)
{
    const Target *target = x->o->target;
    explain_launch(x);
    if (target->kind == TARGET_CPU) {
        print_cpu(x, t);
        print_intensity(x, t);
        return;
    }
    if (!x->kernel) {
        text_printf(t, "resources: the kernel takes %lld bytes of shared memory as declared, %s has %lld\n",
            (long long)x->code.shared_bytes, target->name, (long long)target->shared_bytes);
        print_intensity(x, t);
        return;
    }
    Resources r = ask ? measure(x) : (Resources){ .why = "NVRTC or clang is asked for one variant alone" };
    if (r.source) text_printf(t, "resources, as %s gives them:\n", r.source);
    else text_printf(t, "resources, as planned (%s):\n", r.why);
    int registers = r.source && r.registers > 0 ? r.registers : explain_registers(x);
    text_printf(t, "  registers      %d a thread%s\n", registers, r.source ? "" : " at most");
    if (r.source && r.spill_bytes >= 0) text_printf(t, "  spills         %d bytes a thread\n", r.spill_bytes);
    else {
        int words = x->code.largest.words,
            have = x->code.consumer_registers ? x->code.consumer_registers : registers;
        text_printf(t, "  spills         %s; the largest tile takes %d of %d registers\n",
            words > have ? "expected" : "none expected", words, have);
    }
    text_printf(t, "  shared memory  %lld of %lld bytes\n", (long long)x->code.shared_bytes,
        (long long)target->shared_bytes);
    const char *bound;
    int ctas = explain_occupancy(x, registers, &bound), warps = ctas * x->code.threads / target->wave,
        most = target->sm_threads / target->wave;
    text_printf(t,
        "  occupancy      %s%d CTA%s of %d threads a multiprocessor: %d of %d warps (%d%%), bound by %s\n",
        r.source ? "" : "at least ", ctas, ctas == 1 ? "" : "s", x->code.threads, warps, most,
        100 * warps / most, bound);
    print_intensity(x, t);
}
