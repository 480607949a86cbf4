/* launch.c: the launcher inside every object for the CPU that tilec writes. It is compiled when tilec is
 * built; tilec merges its code with the kernels'. It needs the C library and nothing else, and keeps nothing
 * but the processor's level, verdicts on remaps and, for each thread, the text of its last error.
 *
 * A launch reads the plan (plan.h) for the first variant that fits the arguments and the processor, fills the
 * kernel's slots, evaluates the grid, and lets threads take the programs in chunks. */
#define _GNU_SOURCE
#include "tools/aot/args.h"
#include "ir/target/cpu_level.h"
#include "ir/support/float_state.h"
#include "ir/target/processors.h"
#include "ir/analysis/threads.h"
#include <dlfcn.h>
#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#endif

typedef int Kernel(const uint64_t *slots, int64_t begin, int64_t end, void *scratch, int32_t again);

int tile_aot_launch(const int64_t *plan, Kernel *const *entries, const tile_launch_arg *args,
    const int64_t *consts, const tile_threads *threads);
const char *tile_aot_error(void);

/* Weak: objects do not ask for the library of the dynamic linker where that is a library of its own. */
extern __typeof(dlopen) dlopen __attribute__((weak));
extern __typeof(dlsym) dlsym __attribute__((weak));
extern __typeof(dlclose) dlclose __attribute__((weak));
static void *find_loaded(const char *name)
{
    void *library = dlopen && dlsym ? dlopen("libtvm_ffi.so", RTLD_NOW | RTLD_NOLOAD) : NULL,
         *found = library ? dlsym(library, name) : NULL;
    if (library && dlclose) dlclose(library); /* whoever opened it keeps it */
    return found;
}
#include "tools/aot/ffi.h"

/* What a function of tvm-ffi's ABI calls (ffi_entry.c): the launchers of one kernel, one for each choice of
 * types. */
typedef struct FfiKernel {
    int64_t n;
    struct {
        const int64_t *plan;
        Kernel *const *entries;
    } of[];
} FfiKernel;
int tile_aot_call(const FfiKernel *, const FfiAny *args, int32_t n);

/* --- the processor ----------------------------------------------------------------------------------- */

/* Whether the operating system lets this process use AMX. It is asked once, and only if there is code that
 * would use it, because signal frames become larger. */
static bool amx_allowed(void)
{
#if defined(__x86_64__) && defined(__linux__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18, UNKNOWN = -1 };
    static int allowed = UNKNOWN;
    int answer = __atomic_load_n(&allowed, __ATOMIC_RELAXED);
    if (answer == UNKNOWN) {
        answer = !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
        __atomic_store_n(&allowed, answer, __ATOMIC_RELAXED);
    }
    return answer;
#else
    return false;
#endif
}

/* The instruction `cpuid` takes microseconds in a virtual machine, so it is asked once. Threads that ask at
 * the same time get the same answer. -1: the launch has failed, with a message. */
static int processor_level(void)
{
    static int known = -1;
    int level = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (level >= 0) return level;
    char error[200];
    level = cpu_level_read();
    const CpuLevel *asked = cpu_level_asked(level, error, sizeof error);
    if (asked) level = asked->level;
    if (error[0]) {
        fail(TILE_LAUNCH_UNSUPPORTED, "%s", error);
        return -1;
    }
    __atomic_store_n(&known, level, __ATOMIC_RELAXED);
    return level;
}

typedef struct Job {
    Kernel *kernel;
    const uint64_t *slots;
    char *scratch;
    int64_t programs, threads, scratch_bytes, next;
    bool neighbours;
    int failed;
} Job;

/* In the default floating-point state. */
static void run_share(Job *j, int thread)
{
    void *scratch = j->scratch + thread * j->scratch_bytes;
    int64_t begin, end;
    for (bool again = false; threads_take(&j->next, j->programs, j->threads, j->neighbours, &begin, &end);
        again = true)
        if (j->kernel(j->slots, begin, end, scratch, again))
            __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
}

/* Threads of a pool may have any floating-point state. */
static void work(void *arg, int thread)
{
    FLOAT_STATE_DEFAULT();
    run_share(arg, thread);
}

typedef struct Start {
    Job *job;
    int thread;
    pthread_t id;
    bool runs;
} Start;
static void *start(void *p)
{
    work(((Start *)p)->job, ((Start *)p)->thread);
    return NULL;
}

/* A thread that cannot be started leaves its share to the others. */
static void run_threads(Job *j, int n)
{
    Start s[256];
    for (int i = 1; i < n; i++) {
        s[i] = (Start){ j, i, 0, false };
        s[i].runs = !pthread_create(&s[i].id, NULL, start, &s[i]);
    }
    run_share(j, 0);
    for (int i = 1; i < n; i++)
        if (s[i].runs) pthread_join(s[i].id, NULL);
}

/* Objects made with -g or --check print to standard output. The layout is PrintSink's of ir/abi.h. A line is
 * written in the C locale, which the thread has for as long: a locale with a decimal comma must not change
 * what kernels print. */
typedef struct Sink Sink;
struct Sink {
    void (*begin)(Sink *), (*put)(Sink *, const char *format, ...), (*end)(Sink *);
    locale_t plain, callers;
};

static void print_begin(Sink *s)
{
    flockfile(stdout); /* From here on, only this thread uses the sink. */
    if (!s->plain) s->plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (s->plain) s->callers = uselocale(s->plain);
}

static void print_end(Sink *s)
{
    if (s->plain) uselocale(s->callers);
    putchar('\n');
    funlockfile(stdout);
}

static void print_put(Sink *s, const char *format, ...)
{
    (void)s;
    va_list ap;
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
}

/* The threads of a launch: those that the caller offers, as far as the work is worth them. In a parallel
 * region the launch starts none, but uses those of the caller's pool. */
static int count_threads(const Launch *l, const tile_threads *t)
{
    enum { MOST = 256 };
    int64_t most = !t ? 1 : t->n > 0 && t->n < MOST ? t->n : MOST, work = -1;
    if (most > 1 && l->work[2]) evaluate(l, l->work, 0, &work);
    int64_t n = threads_worth(work, l->programs, most, t && t->run ? THREAD_WAKE_WORK : THREAD_START_WORK);
    if (n > 1 && !t->run && threads_in_region(dlsym)) n = 1;
    if (n == 1 || t->n > 0) return (int)n;
    int processors = processors_usable(); /* takes microseconds */
    return n < processors ? (int)n : processors;
}

/* What a kernel that was compiled with --check writes when a check fails: CheckRecord of ir/abi.h. */
typedef struct Record {
    uint32_t failed, line;
    int64_t program;
    uint32_t message, reserved;
} Record;

/* `first`: the number of the variant's first message among those of the plan. */
static int check_failed(const Launch *l, const int64_t *own, int64_t first)
{
    const int64_t *plan = l->plan, file = param_number(plan, plan[1]) + plan[4] + plan[2];
    Record r;
    memcpy(&r, own, sizeof r);
    return fail(TILE_LAUNCH_CHECK, "%s:%u: %s: %s (program %lld)", name_at(plan, file), r.line,
        name_at(plan, 0), name_at(plan, file + 1 + first + r.message), (long long)r.program);
}

/* `v` is a variant, and `p` stands behind its dims. */
static int launch_variant(
    Launch *l, Kernel *kernel, const int64_t *v, const int64_t *p, const tile_threads *t)
{
    enum { SMALL = 4096 }; /* To allocate takes a tenth of a microsecond, as long as a small kernel. */
    _Alignas(64) char small[SMALL];
    uint64_t slots[PLAN_MAX_SLOTS];
    int64_t own[8] = { 0 }; /* a check record, or a counter */
    Sink sink = { print_begin, print_put, print_end, (locale_t)0, (locale_t)0 };
    const int64_t *s = p + 1, n_slots = *p, *sizes = s + 3 * n_slots;
    int status = find_programs(l, p, "cpu");
    if (status || !l->programs) return status;
    int n = count_threads(l, t);
    int64_t scratch = (sizes[0] + 63) / 64 * 64, workspace = (sizes[1] + n * sizes[2] + 63) / 64 * 64,
            bytes = scratch * n + workspace;
    char *block = bytes <= SMALL ? small : aligned_alloc(64, (size_t)bytes);
    if (!block) return fail(TILE_LAUNCH_OUT_OF_MEMORY, "out of memory");
    for (int64_t i = 0; i < n_slots; i++)
        slots[i] = s[3 * i] == PLAN_WORKSPACE ? (uint64_t)(uintptr_t)(block + scratch * n)
                                              : slot(l, s + 3 * i, own, &sink);
    Job job = { kernel, slots, block, l->programs, n, scratch, 0, sizes[3] != 0, 0 };
    if (n == 1) run_share(&job, 0);
    else if (t->run) t->run(t->pool, n, work, &job);
    else run_threads(&job, n);
    if (block != small) free(block);
    if (sink.plain) freelocale(sink.plain);
    return job.failed ? check_failed(l, own, v[4]) : TILE_LAUNCH_OK;
}

int tile_aot_launch(const int64_t *plan, Kernel *const *entries, const tile_launch_arg *args,
    const int64_t *consts, const tile_threads *threads)
{
    FLOAT_STATE_DEFAULT();
    Launch l; /* 40 KB: read_params and find_programs set what a launch reads. Clearing it would take most of
                 the time. */
    l.args = args;
    l.level = processor_level();
    const int64_t *p, *v = plan_variants(plan);
    bool fits = false;
    if (l.level < 0) return TILE_LAUNCH_UNSUPPORTED;
    if (error_text[0]) error_text[0] = 0;
    int status = read_params(&l, plan);
    for (int64_t i = 0; i < plan[3] && !status; i++, v += v[0]) {
        if (match_variant(&l, v, consts, plan[2], &p)) continue;
        if (v[1] <= l.level && (v[1] != LEVEL_AMX || amx_allowed()))
            return launch_variant(&l, entries[v[3]], v, p, threads);
        fits = true;
    }
    if (status) return status;
    return fits ? breach(plan, TILE_LAUNCH_UNSUPPORTED, -1, "nothing was compiled for this processor")
                : no_variant(plan);
}

/* The text of the last launch of this object's kernels by this thread. */
const char *tile_aot_error(void) { return error_text; }

/* On all processors. Of the launchers, the first whose element types are the tensors'. */
int tile_aot_call(const FfiKernel *k, const FfiAny *args, int32_t n)
{
    static const tile_threads all = { 0, NULL, NULL };
    tile_launch_arg out[PLAN_MAX_PARAMS];
    int64_t consts[PLAN_MAX_CONSTS] = { 0 }, of = 0;
    for (int64_t i = k->n; i-- > 0;)
        if (ffi_types_fit(k->of[i].plan, args, n)) of = i;
    int status = ffi_read(k->of[of].plan, args, n, (FfiPlace){ FFI_CPU, 0 }, out, consts);
    if (!status) status = tile_aot_launch(k->of[of].plan, k->of[of].entries, out, consts, &all);
    return status ? ffi_raise(status) : 0;
}
