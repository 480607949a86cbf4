/* processor.c: the features of the processor for which code is compiled. A processor that is named has them
 * in processors.def; LLVM detects those of this machine. Features that the target asks for are added. */
#include "backends/cpu/cpu.h"
#include "ir/target/cpu_level.h"
#include <pthread.h>
#include <unistd.h>

typedef enum Architecture { X86, ARM } Architecture;

static const struct {
    const char *name;
    Architecture architecture;
    unsigned features;
} processors[] = {
#define PROCESSOR(NAME, ARCHITECTURE, FEATURES) \
    { \
        NAME \
        , ARCHITECTURE, FEATURES \
    } \
    ,
#include "backends/cpu/processors.def"
#undef PROCESSOR
};
enum { N_PROCESSORS = sizeof processors / sizeof *processors };

static const int usual_cost[] = {
#define COST(NAME, UNIT, USUAL) [COST_##NAME] = (USUAL),
#define ON(PROCESSOR, NAME, VALUE)
#include "backends/cpu/costs.def"
#undef COST
#undef ON
};

static const struct {
    const char *processor;
    CpuCost of;
    int value;
} own_costs[] = {
#define COST(NAME, UNIT, USUAL)
#define ON(PROCESSOR, NAME, VALUE) \
    { \
        PROCESSOR, COST_##NAME \
        , VALUE \
    } \
    ,
#include "backends/cpu/costs.def"
#undef COST
#undef ON
};

static void find_costs(CpuTarget *t)
{
    memcpy(t->cost, usual_cost, sizeof t->cost);
    for (size_t i = 0; i < sizeof own_costs / sizeof *own_costs; i++)
        if (!strcmp(own_costs[i].processor, t->cpu)) t->cost[own_costs[i].of] = own_costs[i].value;
}

static bool has_feature(const char *list, char sign, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p && (p = strstr(p, name)); p += n)
        if (p > list && p[-1] == sign && (p[n] == ',' || p[n] == 0)) return true;
    return false;
}

/* A feature of ours is there if all of LLVM's are that stand in one row. */
static const struct {
    Architecture architecture;
    unsigned feature;
    const char *llvm[4];
} llvm_features[] = {
    { X86, CPU_FMA, { "avx2", "fma" } },
    { X86, CPU_AVX512, { "avx512f", "avx512bw", "avx512vl", "avx512dq" } },
    { X86, CPU_VNNI, { "avx512vnni" } },
    { X86, CPU_AVX_VNNI, { "avxvnni" } },
    { X86, CPU_BF16, { "avx512bf16" } },
    { X86, CPU_AMX_BF16, { "amx-tile", "amx-bf16" } },
    { X86, CPU_AMX_I8, { "amx-tile", "amx-int8" } },
    { X86, CPU_AMX_F16, { "amx-tile", "amx-fp16" } },
    { ARM, CPU_DOT, { "dotprod" } },
    { ARM, CPU_MIXED_DOT, { "i8mm" } },
    { ARM, CPU_BF16, { "bf16" } },
};

/* `known`: what the processor's name says. `complete`: LLVM's list of the features of an x86-64 machine, from
 * which a hypervisor may hide what the name promises. That of an Arm machine never names dot products. */
static unsigned features_of(Architecture a, unsigned known, const char *list, bool complete)
{
    for (size_t i = 0; i < sizeof llvm_features / sizeof *llvm_features; i++) {
        unsigned f = llvm_features[i].feature;
        bool all = true, off = false;
        if (llvm_features[i].architecture != a) continue;
        for (int k = 0; k < 4 && llvm_features[i].llvm[k]; k++) {
            all &= has_feature(list, '+', llvm_features[i].llvm[k]);
            off |= has_feature(list, '-', llvm_features[i].llvm[k]);
        }
        if (all) known |= f;
        else if (complete || off) known &= ~f;
    }
    if (a == X86 && known & CPU_AVX512) known |= CPU_FMA;
    if (a == X86 && !(known & CPU_AVX512)) known &= ~(unsigned)(CPU_VNNI | CPU_BF16);
    if (known & CPU_FMA && !(known & CPU_AVX512) && known & CPU_AVX_VNNI) known |= CPU_VNNI;
    return known;
}

static bool by_name(const char *name, Architecture a, unsigned *features)
{
    for (size_t i = 0; i < N_PROCESSORS; i++)
        if (processors[i].architecture == a && !strcmp(processors[i].name, name)) {
            *features = processors[i].features;
            return true;
        }
    return false;
}

/* A name that is not in the table, of this machine, says nothing but FMA. */
static unsigned features_by_name(Architecture a, const char *name, const char *list, bool complete)
{
    unsigned known = CPU_FMA;
    by_name(name, a, &known);
    return features_of(a, known, list, complete);
}

bool cpu_is_host(const BackendOptions *o, const Target *target)
{ return !target->triple && (!o->cpu || !*o->cpu || !strcmp(o->cpu, "host") || !strcmp(o->cpu, "native")); }

/* What does not change while a process runs, and takes instructions that are slow in a virtual machine. */
static struct {
    long first_cache, second_cache, third_cache;
    const char *name, *features; /* as LLVM says; kept to the end */
    unsigned has;                /* of ours, by both */
} machine;
static pthread_once_t caches_once = PTHREAD_ONCE_INIT, names_once = PTHREAD_ONCE_INIT;

static void ask_caches(void)
{
#if defined(_SC_LEVEL1_DCACHE_SIZE)
    machine.first_cache = sysconf(_SC_LEVEL1_DCACHE_SIZE);
#endif
#if defined(_SC_LEVEL2_CACHE_SIZE)
    machine.second_cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
#if defined(_SC_LEVEL3_CACHE_SIZE)
    machine.third_cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
}

#if defined(__aarch64__)
static const Architecture own = ARM;
#else
static const Architecture own = X86;
#endif

static void ask_names(void)
{
    machine.name = LLVMGetHostCPUName();
    machine.features = LLVMGetHostCPUFeatures();
    machine.has = features_by_name(own, machine.name, machine.features, own == X86);
}

/* Of the processors of which nothing is known but a name: 32 KB or more. */
static int64_t first_cache(bool host)
{
    pthread_once(&caches_once, ask_caches);
    return host && machine.first_cache > 0 ? machine.first_cache : 32 << 10;
}

/* Of the processors of which nothing is known but a name: those with AMX have 2 MB, and others 512 KB or
 * more. */
static int64_t second_cache(bool host, unsigned features)
{
    pthread_once(&caches_once, ask_caches);
    if (host && machine.second_cache > 0) return machine.second_cache;
    return features & CPU_AMX ? 2 << 20 : 512 << 10;
}

static int64_t third_cache(bool host)
{
    pthread_once(&caches_once, ask_caches);
    return host && machine.third_cache > 0 ? machine.third_cache : 0;
}

void cpu_caches(Text *t)
{
    text_printf(t, "; %lld, %lld, %lld", (long long)first_cache(true), (long long)second_cache(true, 0),
        (long long)third_cache(true));
}

/* The level that TILE_CPU_LEVEL asks for; NULL: none. `cpuid` is slow in a virtual machine, so the processor
 * is asked only where the variable is set. */
static const CpuLevel *asked_level(Session *s, CpuTarget *t)
{
    char error[200];
    const char *named = getenv("TILE_CPU_LEVEL");
    const CpuLevel *level = named && *named ? cpu_level_asked(cpu_level_read(), error, sizeof error) : NULL;
    if (named && *named && !level) t->level_error = arena_strdup(&s->arena, error);
    return level;
}

void cpu_resolve(Session *s, const BackendOptions *o, const Target *target, const char *triple, CpuTarget *t)
{
    bool host = cpu_is_host(o, target);
    Architecture a = strncmp(triple, "aarch64", 7) && strncmp(triple, "arm64", 5) ? X86 : ARM;
    unsigned features;
    *t = (CpuTarget){ .triple = triple };
    const CpuLevel *level = host ? asked_level(s, t) : NULL;
    if (level) {
        t->cpu = level->cpu;
        t->features = level->features ? level->features : "";
        if (o->features && *o->features)
            t->features =
                arena_printf(&s->arena, "%s%s%s", t->features, *t->features ? "," : "", o->features);
    } else if (host) {
        pthread_once(&names_once, ask_names);
        t->cpu = machine.name;
        t->features = machine.features;
        if (o->features && *o->features)
            t->features = arena_printf(&s->arena, "%s,%s", t->features, o->features);
    } else {
        t->cpu = o->cpu && *o->cpu ? o->cpu : "generic";
        t->features = o->features ? o->features : "";
    }
    /* The search asks for this machine many times, and LLVM's list of its features is long. */
    if (host && t->features == machine.features && a == own) features = machine.has;
    else features = features_by_name(a, t->cpu, t->features, host && !level && a == X86);
    if (features & CPU_AMX && !o->amx_model) {
        const char *refused = amx_permission();
        if (refused && host) {
            features &= ~(unsigned)CPU_AMX;
            t->amx_refused = refused;
        }
    }
    t->has = features;
    t->arm = a == ARM;
    t->fma = features & CPU_FMA;
    t->avx512 = features & CPU_AVX512;
    t->amx_model = o->amx_model;
    t->first_cache = first_cache(host);
    t->second_cache = second_cache(host, features);
    t->third_cache = third_cache(host);
    t->vector_bytes = a == ARM ? 16 : t->avx512 ? 64 : t->fma ? 32 : 16;
    find_costs(t);
    t->n_vector_regs = a == ARM || t->avx512 ? 32 : 16;
}

/* LLVM would print a message for a name that it does not know, and end the process if the name means 32 bits.
 */
bool cpu_check_name(Session *s, const CpuTarget *t)
{
    Architecture a = t->arm ? ARM : X86;
    unsigned features;
    Text text;
    if (t->level_error) diag_error(s, (Loc){ 0 }, "%s", t->level_error);
    if (t->level_error || by_name(t->cpu, a, &features)) return !t->level_error;
    text_init(&text, &s->arena);
    for (size_t i = 0; i < N_PROCESSORS; i++)
        if (processors[i].architecture == a)
            text_printf(&text, "%s%s", text.len ? ", " : "", processors[i].name);
    diag_error(s, (Loc){ 0 }, "there is no processor `%s`; there are %s%s", t->cpu, t->arm ? "" : "host, ",
        text.data);
    return false;
}
