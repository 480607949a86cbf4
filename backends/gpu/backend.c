/* backend.c: the CUDA backend as the runtime and tilec see it. */
#include "backends/backend.h"
#include "backends/gpu/gpu.h"

static bool compile(Session *s, Module *m, Func *f, const Target *t, const BackendOptions *o, Artifact *out)
{
    KernelPlan plan;
    GpuCode code;
    (void)m;
    if (!kernel_lower(s, f, t, o ? o->kernel : NULL, &plan) || !gpu_emit(s, f, &plan, &code)) return false;
    *out = (Artifact){ .kind = ARTIFACT_TEXT, .data = code.text, .size = code.text_len, .entry = code.name, .slots = code.slots, .n_slots = code.n_slots,
                       .maps = code.maps, .n_maps = code.n_maps, .schedule = code.schedule, .registers = -1, .spill_bytes = -1, .stack_bytes = -1,
                       .static_shared_bytes = -1 };
    out->shape = (LaunchShape){ .threads = code.threads, .cluster = code.cluster, .persistent = code.persistent ? 1 : 0, .shared_bytes = code.shared_bytes };
    return true;
}

static const char *fingerprint(Session *s, const Target *t, const BackendOptions *o)
{
    (void)s; (void)t; (void)o;
    return "gpu 1";
}

const Backend backend_cuda = { .name = "cuda", .kind = TARGET_CUDA, .compile = compile, .fingerprint = fingerprint };
