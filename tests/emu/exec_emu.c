/* exec_emu.c: compiles problems to CUDA or HIP C and, by a host compiler, to a library, which device.h or
 * hip_machine.c runs thread by thread. Executor "emu", architectures emu_sm_80, emu_gfx942. */
#include "tests/emu/exec_emu.h"
#include "runtime/drivers/gpu_facts.h"
#include "tests/emu/headers.h"
#include "tests/emu/workspace.h"
#include "tests/emu/hip_source.h"
#ifdef EMU_QUICK
#include "tests/emu/quick.h"
#endif
#include "tests/run/launch_facts.h"
#include "ir/interp/eval.h"
#include "ir/interp/scalar.h"
#include "passes/passes.h"
#include "runtime/drivers/driver_gpu.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* -nostdlib: the C library is found in the test program. */
#define FLAGS \
    " -std=gnu++17 -w -fwrapv -ffp-contract=off -fno-strict-aliasing -fstack-reuse=none -fPIC " \
    "-U_FORTIFY_SOURCE " EMU_UNSET " "

/* The environment says where the sources and a place for files are if the program was carried elsewhere. */
static const char *source_folder(void)
{ return getenv("TILE_EMU_SOURCE") ? getenv("TILE_EMU_SOURCE") : EMU_INCLUDE; }
static const char *work_folder(void)
{ return getenv("TILE_EMU_FOLDER") ? getenv("TILE_EMU_FOLDER") : EMU_FOLDER; }

/* For machines whose compiler is too old for device.h: kernels that TinyCC cannot compile are skipped. */
static bool quick_only(void) { return getenv("TILE_EMU_QUICK_ONLY") != NULL; }

enum { MOST_BUILT = 64 };                 /* the oldest go */
enum { MAP_BYTES = 128, MAP_ALIGN = 64 }; /* of a CUtensorMap */
typedef struct Built {
    uint64_t hash;
    EmuLaunchFn *launch;
    void *lib;
} Built;
typedef struct State {
    const Target *target;
    const char *header, *optimize;
    char defines[64], folder[128], headers[160]; /* headers: compiled, or the folder */
    Built built[MOST_BUILT];
    int n, runs;
    bool keep;
    Faults *faults;
    int order, late;
    bool roles;
    KernelOptions options;
    char *text;
    struct Quick *quick; /* TinyCC's way, or NULL */
    bool thorough;       /* not now */
} State;

/* header: whether to compile the header now, once for all kernels. */
static void *open_with(const char *name, const char *optimize, bool header, char *why, size_t why_size)
{
    char target[64];
    State *s = calloc(1, sizeof *s);
    bool hip = !strncmp(name + 4, "gfx", 3);
    if (header && !strncmp(name, "tcc_", 4)) return free(s), exec_emu_open_quick(name, why, why_size);
    snprintf(target, sizeof target, "%s:%.*s", hip ? "hip" : "cuda", (int)strcspn(name + 4, ","), name + 4);
    s->order = s->late = -1;
    exec_emu_take_pass(name, &s->options);
    s->target = target_find(target);
    if (s->target && strstr(name, ",short")) /* fp8 sums as matrix units keep them (ir/target/sums.def) */
        emu_sums = target_unit_sum(s->target, "wgmma_k32") ? EMU_SUMS_SM_90A : EMU_SUMS_SM_89;
    s->optimize = optimize;
    s->header = hip ? "hip_device.h" : "device.h";
    if (hip && s->target)
        snprintf(s->defines, sizeof s->defines, "-DEMU_CHIP=%#x -DEMU_WAVE=%d ", (unsigned)s->target->arch,
            s->target->wave);
    snprintf(s->folder, sizeof s->folder, "%s/run.XXXXXX", work_folder());
    if (s->target && mkdtemp(s->folder)) {
        char command[1024];
        snprintf(s->headers, sizeof s->headers, "%s", s->folder);
        snprintf(command, sizeof command, EMU_COMPILER FLAGS "%s %s-I%s -x c++-header %s/tests/emu/%s -o ",
            optimize, s->defines, source_folder(), source_folder(), s->header);
        /* A header that does not compile does not mean that the compiler is missing: kernels then fail with
         * its errors. */
        if (!header ||
            headers_compile(
                s->header, command, source_folder(), work_folder(), s->headers, sizeof s->headers) ||
            !system(EMU_COMPILER " --version > /dev/null 2>&1"))
            return s;
        rmdir(s->folder);
    }
    snprintf(why, why_size, s->target ? "no host compiler" : "no target %s", target);
    free(s);
    return NULL;
}

#ifdef EMU_QUICK
void *exec_emu_open_quick(const char *name, char *why, size_t why_size)
{
    char compile[800];
    State *s = open_with(name, "-O0", false, why, why_size);
    if (!s) return NULL;
    snprintf(compile, sizeof compile,
        EMU_COMPILER FLAGS "-O1 %s-x c++ -shared -nostdlib -I%s -I%s/tests/emu -Wno-psabi", s->defines,
        source_folder(), source_folder());
    s->quick = quick_open(s->target, source_folder(), s->folder, compile, why, why_size);
    if (s->quick) return s;
    exec_emu_close(s);
    return NULL;
}
static EmuLaunchFn *build_quick(State *s, const GpuCode *code, char *why, size_t why_size)
{ return s->quick && !s->thorough ? quick_build(s->quick, code, s->faults, why, why_size) : NULL; }
static void close_quick(State *s)
{
    if (s->quick) quick_close(s->quick);
}
#else
void *exec_emu_open_quick(const char *name, char *why, size_t why_size)
{
    snprintf(why, why_size, "no TinyCC in this build");
    return NULL;
}
static EmuLaunchFn *build_quick(State *s, const GpuCode *code, char *why, size_t why_size) { return NULL; }
static void close_quick(State *s) {}
#endif

bool exec_emu_thorough(void *state, bool thorough)
{
    State *s = state;
    s->thorough = thorough && !quick_only();
    return s->quick && !quick_only();
}

void *exec_emu_open(const char *name, char *why, size_t why_size)
{ return open_with(name, "-O1", true, why, why_size); }
void *exec_emu_open_once(const char *name, char *why, size_t why_size)
{ return open_with(name, "-O0", true, why, why_size); }

/* Takes away the empty folder, never a tree. It stays after a failed compilation, to be looked at. */
void exec_emu_close(void *state)
{
    State *s = state;
    if (!s->keep) rmdir(s->folder);
    for (int k = 0; k < MOST_BUILT; k++)
        if (s->built[k].lib) dlclose(s->built[k].lib);
    close_quick(s);
    free(s->text);
    free(s);
}

void exec_emu_draw(void *state, int order, int late)
{
    State *s = state;
    s->order = order;
    s->late = late;
}

void exec_emu_options(void *state, const KernelOptions *o)
{
    State *s = state;
    s->options = *o;
}

const char *exec_emu_text(const void *state) { return ((const State *)state)->text; }

bool exec_emu_roles(const void *state) { return ((const State *)state)->roles; }

void exec_emu_plant(void *state, Faults *faults) { ((State *)state)->faults = faults; }

/* --- from source to a library ------------------------------------------------------------------------ */

static uint64_t hash_of(const char *p)
{
    uint64_t h = 1469598103934665603ull;
    for (; *p; p++) h = (h ^ (unsigned char)*p) * 1099511628211ull;
    return h;
}

/* TILE_EMU_KEEP set: the kernels' texts stay where they were compiled. */
static void take_away(const char *base)
{
    static const char *const ends[] = { "cpp", "so", "txt" };
    char path[320];
    for (int e = 0; e < 3 && !getenv("TILE_EMU_KEEP"); e++) {
        snprintf(path, sizeof path, "%s.%s", base, ends[e]);
        unlink(path);
    }
}

/* The compiler's first error. */
static void rejected(const char *kernel, const char *base, char *why, size_t why_size)
{
    char path[320], said[300] = "";
    snprintf(path, sizeof path, "%s.txt", base);
    FILE *f = fopen(path, "r");
    while (f && fgets(said, sizeof said, f) && !strstr(said, "error: ")) {}
    if (f) fclose(f);
    const char *error = strstr(said, "error: ");
    snprintf(why, why_size, "%s: the host compiler rejects %s.cpp: %.*s", kernel, base,
        error ? (int)strcspn(error, "\n") : 0, error ? error : "");
}

EmuLaunchFn *exec_emu_build(void *state, const GpuCode *code, char *why, size_t why_size)
{
    State *st = state;
    char refused[300] = "";
    EmuLaunchFn *quick = build_quick(st, code, refused, sizeof refused);
    if (quick) return quick;
    if (quick_only()) return snprintf(why, why_size, "SKIP: TinyCC: %s", refused), NULL;
    uint64_t h = hash_of(code->text);
    char base[256], path[320], command[1600];
    for (int k = 0; k < MOST_BUILT; k++)
        if (st->built[k].launch && st->built[k].hash == h) return st->built[k].launch;
    snprintf(base, sizeof base, "%s/%s_%d_%d", st->folder, code->name, (int)getpid(),
        st->n); /* processes forked from one share the folder */
    snprintf(path, sizeof path, "%s.cpp", base);
    FILE *f = fopen(path, "wb");
    if (!f) {
        snprintf(why, why_size, "%s cannot be written", path);
        return NULL;
    }
    if (st->target->kind == TARGET_HIP) hip_write_source(f, code, st->faults);
    else cuda_write_source(f, code, st->faults);
    fclose(f);
    snprintf(command, sizeof command,
        EMU_COMPILER FLAGS
        "%s %s-x c++ -shared -nostdlib -I%s -I%s -I%s/tests/emu %s -o %s.so -lgcc 2> %s.txt",
        st->optimize, st->defines, st->headers, source_folder(), source_folder(), path, base, base);
    if (system(command)) {
        rejected(code->name, base, why, why_size);
        st->keep = true;
        return NULL;
    }
    snprintf(path, sizeof path, "%s.so", base);
    Built b = { .hash = h, .lib = dlopen(path, RTLD_NOW | RTLD_LOCAL) },
          *at = &st->built[st->n++ % MOST_BUILT];
    if (b.lib) *(void **)&b.launch = dlsym(b.lib, "emu_launch");
    if (!b.launch) {
        snprintf(why, why_size, "%s", dlerror());
        return NULL;
    }
    take_away(base);
    if (at->lib) dlclose(at->lib);
    *at = b;
    return b.launch;
}

/* --- a launch ---------------------------------------------------------------------------------------- */

static uint64_t scalar_word(const ScalarArg *a, DType d)
{ return dtype_is_float(d) ? scalar_bits(d, (Scalar){ .f = a->value }) : a->whole; }

typedef struct Values {
    int64_t *dims, strides[MAX_ARGS][TILE_MAX_RANK];
    Scalar scalars[MAX_ARGS];
    EvalEnv env;
} Values;

static bool bind_launch(Session *s, const Func *f, const Launch *l, Values *v)
{
    v->dims = arena_array(&s->arena, int64_t, (size_t)f->n_dims + 1);
    for (int d = 0; d < f->n_dims; d++) v->dims[d] = f->dims[d].extent;
    for (int i = 0; i < f->n_params && i < l->n_args; i++) {
        const Arg *a = &l->args[i];
        const Param *p = &f->params[i];
        if (a->scalar) {
            if (dtype_is_float(p->type->dtype)) v->scalars[i].f = a->scalar->value;
            else v->scalars[i].i = (int64_t)a->scalar->whole;
            continue;
        }
        for (int axis = 0; a->tensor && axis < p->type->rank; axis++) {
            v->strides[i][axis] = launch_stride(a->tensor, a->drop + axis);
            v->dims[p->dims[axis]] = a->tensor->shape[a->drop + axis];
        }
    }
    v->env = (EvalEnv){ .dims = v->dims, .scalars = v->scalars, .strides = v->strides, .grid = { 1, 1, 1 } };
    int64_t grid[3] = { 1, 1, 1 };
    int n = f->grid ? ir_terminator(f->grid)->n_operands : 0;
    if (n && !ir_eval_block(f, f->grid, &v->env, grid, n)) {
        diag_error(s, f->loc, "the grid cannot be evaluated");
        return false;
    }
    memcpy(v->env.grid, grid, sizeof grid);
    return true;
}

static int no_context(void **c)
{
    *c = NULL;
    return 0;
}

/* The runtime's own encoding, with the emulator in the driver's place. */
static bool tensor_map(const TensorMapDesc *m, const Launch *l, int64_t (*strides)[TILE_MAX_RANK], void *out,
    char *why, size_t why_size)
{
    const Arg *a = &l->args[m->param];
    GpuDriver driver = {
        .tensor_map = emu_tensor_map, .tensor_map_im2col = emu_tensor_map_im2col, .context_get = no_context
    };
    DriverTensorMap t = { m, a->tensor->base + a->tensor->offset, a->tensor->shape + a->drop,
        strides[m->param] };
    DriverError e = { 0 };
    if (!driver_cuda.tensor_map(&driver.base, &t, out, &e)) return true;
    snprintf(
        why, why_size, "%s: a tensor map of parameter %d that the driver would refuse", l->kernel, m->param);
    return false;
}

/* A report, with the text of the lines that it names. */
static void explain(
    const State *st, const GpuCode *code, const char *kernel, const char *err, char *why, size_t why_size)
{
    FILE *f = tmpfile();
    size_t n = (size_t)snprintf(why, why_size, "%s: %s", kernel, err);
    if (!f || st->target->kind != TARGET_CUDA) {
        if (f) fclose(f);
        return;
    }
    cuda_write_source(f, code, NULL);
    for (const char *p = strchr(err, '@'); p && n < why_size; p = strchr(p + 1, '@')) {
        char line[400] = "";
        int number = atoi(p + 1);
        rewind(f);
        for (int k = 0; k < number && fgets(line, sizeof line, f);) k += strchr(line, '\n') != NULL;
        const char *text =
            strstr(line, "; ") && !strncmp(line, "emu_line", 8) ? strstr(line, "; ") + 2 : line;
        text += strspn(text, " ");
        n += (size_t)snprintf(
            why + n, why_size - n, "\n     @%d: %.*s", number, (int)strcspn(text, "\n"), text);
    }
    fclose(f);
}

/* What lies between a tensor's first and last byte may be read. */
static void name_tensor(const Arg *a, const Func *f, int i, const Values *v)
{
    if (!a->tensor || i >= f->n_params) return;
    int64_t lo = 0, hi = 1, bytes = dtype_bytes(f->params[i].type->dtype);
    for (int axis = 0; axis < f->params[i].type->rank; axis++) {
        int64_t n = a->tensor->shape[a->drop + axis], far = (n - 1) * v->strides[i][axis];
        if (!n) return;
        if (far < 0) lo += far;
        else hi += far;
    }
    const unsigned char *at = (const unsigned char *)a->tensor->base + a->tensor->offset;
    emu_global_tensor(at + lo * bytes, at + hi * bytes);
}

/* The launch's parameters, as the runtime would fill them: a word each, and as many tensor maps as the code
 * asks for. */
typedef struct Parameters {
    uint64_t *words;
    uint8_t (*maps)[MAP_BYTES];
    uint64_t scheduler;
    Workspace workspace;
    CheckRecord check;
} Parameters;

static Parameters *parameters_new(Session *s, const GpuCode *code)
{
    Parameters *p = arena_array(&s->arena, Parameters, 1);
    char *maps = arena_array(&s->arena, char, ((size_t)code->n_maps + 1) * MAP_BYTES);
    p->words = arena_array(&s->arena, uint64_t, (size_t)code->n_slots + 1);
    p->maps = (uint8_t (*)[MAP_BYTES])(maps + (-(uintptr_t)maps & (MAP_ALIGN - 1)));
    return p;
}

static bool fill_parameters(
    const Func *f, const Launch *l, const GpuCode *code, Values *v, Parameters *p, char *why, size_t why_size)
{
    for (int i = 0; i < code->n_slots; i++) {
        const Slot *x = &code->slots[i];
        const Arg *a = &l->args[x->param];
        const Tensor *t = a->tensor; /* NULL: an optional one that is left out */
        uint64_t *word = &p->words[i];
        switch (x->kind) {
        case SLOT_DATA: *word = t ? (uint64_t)(uintptr_t)(t->base + t->offset) : 0; break;
        case SLOT_EXTENT: *word = (uint64_t)v->dims[x->index]; break;
        case SLOT_STRIDE: *word = (uint64_t)v->strides[x->param][x->index]; break;
        case SLOT_SCALAR: *word = scalar_word(a->scalar, f->params[x->param].type->dtype); break;
        case SLOT_GRID: *word = (uint64_t)v->env.grid[x->index]; break;
        case SLOT_CHECK: *word = (uint64_t)(uintptr_t)&p->check; break;
        case SLOT_SCHEDULER: *word = (uint64_t)(uintptr_t)&p->scheduler; break;
        case SLOT_TENSOR_MAP:
            if (!tensor_map(&code->maps[x->index], l, v->strides, p->maps[x->index], why, why_size))
                return false;
            *word = (uint64_t)(uintptr_t)p->maps[x->index];
            break;
        case SLOT_WORKSPACE: *word = (uint64_t)(uintptr_t)p->workspace.base; break;
        case SLOT_PRINT:
            snprintf(why, why_size, "%s: no such argument on the emulator", l->kernel);
            return false;
        }
    }
    return true;
}

static bool launch(Session *s, State *st, const Run *run, const Launch *l, char *why, size_t why_size)
{
    FrontBinding b[64];
    Text text;
    if (!launch_read(s, run->path, &text)) {
        snprintf(why, why_size, "%s cannot be read", run->path);
        return false;
    }
    uint32_t file = diag_add_source(s, run->path, NULL, text.data, text.len);
    Ast *ast = frontend_parse(s, file, launch_import, NULL);
    const FrontKernel *k = frontend_check(ast) ? frontend_kernel_find(ast, l->kernel) : NULL;
    int n = k ? launch_bind(s, k, l, b) : 0;
    Module *m = k ? frontend_lower(ast, l->kernel, b, (size_t)n, st->target->name) : NULL;
    Func *f = m ? ir_func_find(m, l->kernel) : NULL;
    if (!f) return false;
    if (run->passes || (st->order >= 0 ? st->order : st->runs) & 8) launch_facts(f, l, false);
    PassOptions o = pass_options_default(st->target);
    KernelOptions options = st->options;
    o.verify_each = o.any_target = true;
    if (!run->passes) o.opt_level = 0;
    else options.skip = pass_set_of(o.skip = run->skip);
    if (!passes_run(m, &o, NULL) || !(f = ir_func_find(m, l->kernel))) return false;
    GpuCode code;
    Values v = { 0 };
    if (!bind_launch(s, f, l, &v) || !gpu_compile(s, f, st->target, &options, &code, NULL)) return false;
    int64_t programs = v.env.grid[0] * v.env.grid[1] * v.env.grid[2] * code.clusters;
    if (!programs) return true;
    EmuLaunchFn *fn = exec_emu_build(st, &code, why, why_size);
    if (!fn) return false;
    free(st->text);
    st->text = strdup(code.text);
    Parameters *q = parameters_new(s, &code);
    int shares = code.shares > 1 ? code.shares : 1;
    st->runs++;
    int order = st->order >= 0 ? st->order : st->runs ^ st->runs << 5,
        late = st->late >= 0 ? st->late : st->runs >> 1;
    /* Programs that wait need those of lower numbers to have started. */
    if (ir_waits_for_programs(f)) order &= st->target->kind == TARGET_HIP ? ~1 : ~16;
    st->roles = code.n_maps > 0 || code.cluster > 1 || strstr(code.text, "wgmma_fence(");
    if (code.persistent) programs = (programs + code.cluster - 1) / code.cluster; /* clusters, or CTAs */
    programs *= shares;
    int ctas = 1 + (order >> 2) % (shares > 1 ? 4 : 3);
    GpuGrid grid = { v.env.grid[0] * v.env.grid[1] * v.env.grid[2], v.env.grid[code.plan->multicast_axis],
        code.persistent, code.cluster, code.clusters, code.shares, 0 };
    if (code.persistent && programs > ctas) programs = ctas;
    q->workspace =
        workspace_new(&s->arena, gpu_workspace(&grid, code.workspace_per_block, programs * code.cluster));
    if (!fill_parameters(f, l, &code, &v, q, why, why_size)) return false;
    for (int i = 0; i < l->n_args; i++) name_tensor(&l->args[i], f, i, &v);
    emu_global_tensor(&q->check, &q->check + 1);
    emu_global_tensor(&q->scheduler, &q->scheduler + 1);
    workspace_allow(&q->workspace);
    /* Programs that may share a CTA do so in half of the runs. */
    int abreast = code.abreast > 1 && order & 1 ? code.abreast : 1;
    const char *err = fn(q->words, (programs + abreast - 1) / abreast, code.threads * abreast, order, late);
    emu_global_tensor(NULL, NULL);
    if (err) return explain(st, &code, l->kernel, err, why, why_size), false;
    if (q->scheduler) {
        snprintf(why, why_size, "%s: the tile scheduler's counter is left at %llx", l->kernel,
            (unsigned long long)q->scheduler);
        return false;
    }
    if (q->check.failed) {
        snprintf(why, why_size, "%s: the assert of line %u failed", l->kernel, q->check.line);
        return false;
    }
    return true;
}

bool exec_emu_run(void *state, const Run *run, char *why, size_t why_size)
{
    for (volatile int i = 0; i < run->n_launches; i++) {
        Session s;
        session_init(&s, allocator_libc);
        volatile bool ok = false;
        *why = 0;
        int left = setjmp(s.oom);
        if (!left) ok = launch(&s, state, run, &run->launches[i], why, why_size);
        if (!ok && !*why && left != 1 && !setjmp(s.oom)) {
            Text text;
            const char *refused = s.last_diag ? s.last_diag->message : "";
            text_init(&text, &s.arena);
            text_puts(&text, "");
            diag_render_all(&s, &text);
            if (executor_too_large(refused)) snprintf(why, why_size, "SKIP: %s", refused);
            else { /* the refusal, which notes on performance may precede */
                const char *from = strstr(text.data, "error: ");
                while (from && from > text.data && from[-1] != '\n') from--;
                snprintf(why, why_size, "%s: %s", run->launches[i].kernel, from ? from : text.data);
            }
        }
        session_free(&s);
        if (!ok) return false;
    }
    return true;
}
