/* bundle.c: see bundle.h. Every variant is compiled for what a launch may promise and for each target; equal
 * texts share an image. Binaries are made by the vendors' compilers, several at a time. */
#define _GNU_SOURCE
#include "tools/tilec/compile/bundle_parts.h"
#include "ir/target/processors.h"
#include "ir/support/stack.h"
#include "tools/tilec/fit.h"
#include "tools/tilec/compile/hip.h"
#include "backends/gpu/check.h"
#include "passes/kernel/kernel.h"
#include "runtime/drivers/rtc.h"
#include <pthread.h>
#include <stdlib.h>

static bool is_exact(const Target *t) { return t->kind == TARGET_HIP || target_has(t, TF_ARCH_SPECIFIC); }

/* --- what to make ------------------------------------------------------------------------------------ */

static void add_aim(Bundle *b, const Target *t, int kind)
{
    for (size_t i = 0; i < b->aims.len; i++)
        if (b->aims.data[i].target == t && b->aims.data[i].kind == kind) return;
    vec_push(&b->in->session.arena, &b->aims, ((Aim){ t, kind }));
}

/* Best first: PTX last, of the row with more shared memory first; an architecture's own code before what is
 * shared; later before earlier. */
static int order(const void *x, const void *y)
{
    const Aim *a = x, *b = y;
    if ((a->kind == IMAGE_PTX) != (b->kind == IMAGE_PTX)) return a->kind == IMAGE_PTX ? 1 : -1;
    if (a->kind == IMAGE_PTX && a->target->shared_bytes != b->target->shared_bytes)
        return a->target->shared_bytes > b->target->shared_bytes ? -1 : 1;
    if (is_exact(a->target) != is_exact(b->target)) return is_exact(a->target) ? -1 : 1;
    return a->target->arch != b->target->arch ? (a->target->arch > b->target->arch ? -1 : 1)
                                              : strcmp(a->target->name, b->target->name);
}

/* The row whose PTX serves devices later than all that were named: of the latest one, without its own
 * instructions. */
static const Target *portable_row(const Bundle *b)
{
    const Target *latest = NULL;
    for (size_t i = 0; i < b->aims.len; i++) {
        const Target *t = b->aims.data[i].target;
        if (t->kind == TARGET_CUDA &&
            (!latest || t->arch > latest->arch || (t->arch == latest->arch && !is_exact(t))))
            latest = t;
    }
    for (size_t i = 0; latest && is_exact(latest) && target_at(i); i++)
        if (target_at(i)->kind == TARGET_CUDA && target_at(i)->arch == latest->arch &&
            !is_exact(target_at(i)))
            latest = target_at(i);
    return latest;
}

/* Parts with little shared memory came in every generation: the latest row not after `portable` with as
 * little as any, or the first such row. */
static const Target *small_row(const Target *portable)
{
    const Target *found = NULL;
    int64_t least = portable->shared_bytes;
    for (size_t i = 0; target_at(i); i++)
        if (target_at(i)->kind == TARGET_CUDA && target_at(i)->shared_bytes < least)
            least = target_at(i)->shared_bytes;
    for (size_t i = 0; target_at(i); i++) {
        const Target *t = target_at(i);
        if (t->kind == TARGET_CUDA && t->shared_bytes == least && !is_exact(t) &&
            (!found || t->arch <= portable->arch))
            found = t;
    }
    return found;
}

static void close_rtc(void *p)
{
    if (*(Rtc **)p) rtc_close(*(Rtc **)p);
}

/* Whether there is a compiler for binaries of this vendor: NVRTC; for HIP clang, or else hipRTC. It is kept
 * for later. */
static bool have_compiler(Input *in, TargetKind kind, Rtc **out, DriverError *e)
{
    char path[1024];
    if (*out || (kind == TARGET_HIP && hip_compiler(path, sizeof path))) return true;
    session_defer(&in->session, close_rtc, out);
    return !rtc_open(
        kind, kind == TARGET_CUDA ? getenv("TILE_NVRTC") : getenv("TILE_HIPRTC"), in->tool->alloc, out, e);
}

static bool choose_aims(Bundle *b, const Strings *names, Rtc *rtc[TARGET_HIP + 1])
{
    Session *s = &b->in->session;
    const char *source = args_last(b->in->args, FLAG_BUNDLE_SOURCE, "never");
    for (size_t i = 0; i < names->len; i++) {
        const Target *t = target_find(names->data[i]);
        DriverError e = { "" };
        if (t->kind == TARGET_CPU) {
            if (b->cpu && b->cpu != t) {
                diag_error(s, (Loc){ 0 }, "a bundle is for one host: either %s or %s", b->cpu->name, t->name);
                return false;
            }
            b->cpu = t;
            continue;
        }
        bool always = !strcmp(source, "always"),
             have = !always && have_compiler(b->in, t->kind, &rtc[t->kind], &e);
        if (!always && !have && !strcmp(source, "never")) {
            Diag *d = diag_error(s, (Loc){ 0 }, "no binary for %s can be made here: %s", t->name, e.text);
            diag_note(s, d, (Loc){ 0 },
                "TILE_NVRTC or TILE_HIPRTC names the compiler's library; with --bundle-source=missing the "
                "bundle holds source text, which is compiled where the program runs");
            return false;
        }
        add_aim(b, t, have ? IMAGE_BINARY : IMAGE_TEXT);
    }
    const Target *portable = portable_row(b);
    if (portable) {
        add_aim(b, portable, rtc[TARGET_CUDA] ? IMAGE_PTX : IMAGE_TEXT);
        add_aim(b, small_row(portable), rtc[TARGET_CUDA] ? IMAGE_PTX : IMAGE_TEXT);
    }
    qsort(b->aims.data, b->aims.len, sizeof(Aim), order);
    return true;
}

/* --- variants ---------------------------------------------------------------------------------------- */

typedef struct Lowered {
    const Func *func;
    const Artifact *artifact;
    const Variant *smaller;
} Lowered;

static bool lower(Bundle *b, const Variant *v, unsigned assume, const Target *t, Lowered *out)
{
    Session *s = &b->in->session;
    CompileOptions o;
    Func *f;
    Artifact *a = arena_new(&s->arena, Artifact);
    if (!driver_backend(t->kind)) {
        diag_error(s, (Loc){ 0 }, "this build has no backend for %s", t->name);
        return false;
    }
    bool text = false; /* It is in the bundle as it is, because nothing compiles it before delivery. */
    for (size_t i = 0; i < b->aims.len; i++)
        text |= b->aims.data[i].target == t && b->aims.data[i].kind == IMAGE_TEXT;
    if (!input_options(b->in, t, &o) || !input_checker(b->in, text, &o)) return false;
    KernelOptions kernel = kernel_options_of(&o.passes);
    o.backend.kernel = &kernel;
    const LaunchFacts *facts = input_facts(b->in, v, assume);
    const Variant *whole = v;
    v = fit_autos(b->in, v, facts, &o);
    const Diag *before = s->last_diag;
    CompileJob job = input_job(b->in, v, facts, &o);
    Module *m = compile_to_ir(&job, NULL, &f);
    bool ok = m && compile_backend(s, m, f, &o, a);
    const Variant *smaller = m ? fit_smaller(b->in, v, facts, &o, a, before) : NULL;
    if (smaller) {
        *a = (Artifact){ .registers = -1 };
        job = input_job(b->in, smaller, facts, &o);
        m = compile_to_ir(&job, NULL, &f);
        ok = m && compile_backend(s, m, f, &o, a);
    }
    if (!ok) {
        if (m) diag_error(s, v->kernel->loc, "%s does not compile for %s", v->title, t->name);
        return false;
    }
    if (o.check && a->kind == ARTIFACT_TEXT &&
        !emission_check(o.check, s, t, a->data, a->size, arena_printf(&s->arena, "%s.cu", a->entry)))
        return false;
    for (int i = 0; i < a->n_slots; i++)
        if (a->slots[i].kind == SLOT_CHECK) {
            diag_error(s, v->kernel->loc,
                "--check is not for bundles: run the kernel with `tilec run --check` or through libtile");
            return false;
        }
    *out = (Lowered){ f, a, smaller ? smaller : v != whole ? v : NULL };
    return true;
}

static int find_image(Bundle *b, Aim aim, const Artifact *a, const char *title)
{
    for (size_t i = 0; i < b->images.len; i++) {
        const MadeImage *m = &b->images.data[i];
        if (m->aim.target == aim.target && m->aim.kind == aim.kind && m->source &&
            !strcmp(m->source, a->data))
            return (int)i;
    }
    MadeImage m = {
        .aim = aim, .source = a->data, .title = title, .entry = a->entry, .registers = -1, .spill_bytes = -1
    };
    if (a->kind == ARTIFACT_BINARY) {
        m.source = NULL;
        m.bytes = a->data;
        m.size = a->size;
    } else if (aim.kind == IMAGE_TEXT) {
        m.bytes = a->data;
        m.size = a->size + 1;
    }
    vec_push(&b->in->session.arena, &b->images, m);
    return (int)b->images.len - 1;
}

static bool add_variant(Bundle *b, const Variants *all, const Variant *v)
{
    Arena *a = &b->in->session.arena;
    Launcher *l = object_launcher(b->in, &b->launchers, all, v);
    Lowered *lowered = arena_array(a, Lowered, b->aims.len);
    unsigned assume[6];
    int n = input_assumptions(v, true, assume);
    for (int p = 0; p < n; p++)
        for (size_t i = 0; i < b->aims.len; i++) {
            size_t same = 0; /* A target with two forms is compiled once. */
            while (b->aims.data[same].target != b->aims.data[i].target) same++;
            if (same < i) lowered[i] = lowered[same];
            else if (!lower(b, v, assume[p], b->aims.data[i].target, &lowered[i])) return false;
            const Artifact *code = lowered[i].artifact;
            vec_push(a, &b->entries, ((MadeEntry){ find_image(b, b->aims.data[i], code, v->title), code }));
            vec_push(a, &l->variants,
                ((Built){ v, 0, (int)assume[p], (int)b->entries.len - 1, lowered[i].func, code, NULL,
                    lowered[i].smaller }));
        }
    return true;
}

/* --- binaries ---------------------------------------------------------------------------------------- */

typedef struct Task {
    MadeImage *image;
    Rtc *rtc;
    DriverCompile compile;
    tile_status status;
    DriverError error;
} Task;
typedef struct Work {
    Tool *tool;
    Task *tasks;
    int n, next;
} Work;

static void work_there(void *p)
{
    Work *w = p;
    for (int i; (i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED)) < w->n;) {
        Task *t = &w->tasks[i];
        const char *arch = strchr(t->image->aim.target->name, ':') + 1;
        t->status = rtc_compile(
            t->rtc, &t->compile, arch, t->image->aim.kind == IMAGE_PTX ? RTC_PTX : RTC_BINARY, &t->error);
    }
}

/* Without a stack for a compiler this thread leaves the tasks to the others. */
static void *work(void *p)
{
    stack_call(work_there, p);
    return NULL;
}

static void run_tasks(Work *w)
{
    pthread_t threads[64];
    int cores = processors_usable(), n = 0;
    while (n < 64 && n + 1 < cores && n + 1 < w->n && !pthread_create(&threads[n], NULL, work, w)) n++;
    work_there(w);
    while (n > 0) pthread_join(threads[--n], NULL);
}

static bool finish(Bundle *b, Task *t)
{
    Session *s = &b->in->session;
    MadeImage *m = t->image;
    char *copy = t->status ? NULL : arena_alloc(&s->arena, t->compile.binary.size + 1);
    if (copy) {
        memcpy(copy, t->compile.binary.data, t->compile.binary.size);
        copy[t->compile.binary.size] = 0;
        m->bytes = copy;
        m->size = t->compile.binary.size + (m->aim.kind == IMAGE_PTX);
        m->registers = t->compile.registers;
        m->spill_bytes = t->compile.spill_bytes;
    } else diag_error(s, (Loc){ 0 }, "%s for %s: %s", m->title, m->aim.target->name, t->error.text);
    return copy != NULL;
}

static void free_tasks(void *p)
{
    Work *w = p;
    for (int i = 0; i < w->n; i++) {
        driver_blob_free(w->tool->alloc, &w->tasks[i].compile.binary);
        driver_blob_free(w->tool->alloc, &w->tasks[i].compile.log);
    }
}

static bool make_images(Bundle *b, Rtc *rtc[TARGET_HIP + 1])
{
    Arena *a = &b->in->session.arena;
    Work *w = arena_new(a, Work);
    *w = (Work){ b->in->tool, arena_array(a, Task, b->images.len), 0, 0 };
    session_defer(&b->in->session, free_tasks, w);
    bool ok = true;
    for (size_t i = 0; i < b->images.len; i++) {
        MadeImage *m = &b->images.data[i];
        if (m->size) continue;
        if (m->aim.target->kind == TARGET_HIP && !rtc[TARGET_HIP]) {
            HipCode code;
            if (hip_compile(&b->in->session, m->aim.target, m->source, strlen(m->source), HIP_CODE_OBJECT,
                    args_has(b->in->args, FLAG_DEBUG), &code)) {
                m->bytes = code.data;
                m->size = code.size;
                m->registers = code.registers;
                m->spill_bytes = code.spill_bytes;
                continue;
            }
            diag_error(&b->in->session, (Loc){ 0 }, "%s for %s: %s", m->title, m->aim.target->name, code.why);
            return false;
        }
        DriverCompile c = { .text = m->source,
            .name = arena_printf(a, "%s.cu", m->entry),
            .entry = m->entry,
            .target = m->aim.target,
            .debug_info = args_has(b->in->args, FLAG_DEBUG) };
        w->tasks[w->n++] = (Task){ m, rtc[m->aim.target->kind], c, TILE_OK, { "" } };
    }
    run_tasks(w);
    for (int i = 0; i < w->n; i++) ok &= finish(b, &w->tasks[i]);
    return ok;
}

/* Names the code that spills registers, as far as the compilers tell. */
static void report_spills(Bundle *b)
{
    for (size_t i = 0; i < b->images.len; i++) {
        const MadeImage *m = &b->images.data[i];
        if (m->spill_bytes > 0)
            diag_perf(&b->in->session, (Loc){ 0 }, "%s for %s%s spills %d bytes of registers a thread",
                m->title, m->aim.target->name, m->aim.kind == IMAGE_PTX ? " (PTX)" : "", m->spill_bytes);
    }
}

/* Images for one target that came out equal, though their sources differ, become one. */
static void merge_images(Bundle *b)
{
    MadeImage *m = b->images.data;
    int *moved = arena_array(&b->in->session.arena, int, b->images.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < b->images.len; i++) {
        size_t k = 0;
        while (k < n && (m[k].aim.target != m[i].aim.target || m[k].aim.kind != m[i].aim.kind ||
                            m[k].size != m[i].size || memcmp(m[k].bytes, m[i].bytes, m[i].size)))
            k++;
        if (k == n) m[n++] = m[i];
        moved[i] = (int)k;
    }
    b->images.len = n;
    for (size_t e = 0; e < b->entries.len; e++) b->entries.data[e].image = moved[b->entries.data[e].image];
}

/* --- the command ------------------------------------------------------------------------------------- */

static const char *replace_suffix(Arena *a, const char *path, const char *suffix)
{
    size_t n = strlen(path);
    return arena_printf(a, "%.*s%s", (int)(n > 2 && !strcmp(path + n - 2, ".c") ? n - 2 : n), path, suffix);
}

static const char *identifier(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = arena_printf(a, "%s", slash ? slash + 1 : path);
    name[strcspn(name, ".")] = 0;
    for (char *p = name; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9' && p > name)))
            *p = '_';
    return name;
}

static bool add_cpu(Bundle *b, const Variants *list, Outputs *outputs, const char *path)
{
    CompileOptions o;
    size_t size = 0;
    if (!input_options(b->in, b->cpu, &o)) return false;
    const void *bytes = object_bytes(b->in, list, &o, false, &b->cpu_launchers, &size);
    if (bytes)
        outputs_add(b->in->tool, outputs, replace_suffix(&b->in->tool->arena, path, ".cpu.o"), bytes, size);
    return bytes != NULL;
}

int bundle_compile(Input *in, const Variants *list, const Strings *targets, const char *path,
    const char *header, Outputs *outputs)
{
    Session *s = &in->session;
    Arena *kept = &in->tool->arena;
    Bundle b = { .in = in, .stem = identifier(&s->arena, path) };
    Rtc **rtc = arena_array(&s->arena, Rtc *, TARGET_HIP + 1); /* the session closes them */
    if (!choose_aims(&b, targets, rtc)) return EXIT_INPUT;
    for (size_t i = 0; i < list->len; i++)
        if (!add_variant(&b, list, &list->data[i])) return EXIT_INPUT;
    if (!make_images(&b, rtc) || (b.cpu && !add_cpu(&b, list, outputs, path))) return EXIT_INPUT;
    merge_images(&b);
    report_spills(&b);
    for (size_t i = 0; i < b.launchers.len; i++)
        b.launchers.data[i].choices =
            plan_choices(s, b.launchers.data[i].kernel, &b.launchers.data[i].variants);
    Text c, h, json;
    text_init(&c, kept);
    text_init(&h, kept);
    text_init(&json, kept);
    if (!bundle_write_c(&b, header, &c)) return EXIT_INPUT;
    header_write_bundle(in, &b.launchers, header, b.stem, &h);
    bundle_write_manifest(&b, &json);
    outputs_add(in->tool, outputs, path, c.data, c.len);
    outputs_add(in->tool, outputs, header, h.data, h.len);
    outputs_add(in->tool, outputs, replace_suffix(kept, path, ".json"), json.data, json.len);
    return EXIT_OK;
}
