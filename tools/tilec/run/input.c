/* input.c: see input.h. */
#include "tools/tilec/run/input.h"
#include "backends/gpu/check.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* --- sources and imports ----------------------------------------------------------------------------- */

static const char *folder_of(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_strndup(a, path, slash == path ? 1 : (size_t)(slash - path)) : ".";
}

static const char *join(Arena *a, const char *folder, const char *path)
{ return path[0] == '/' || !strcmp(folder, ".") ? path : arena_printf(a, "%s/%s", folder, path); }

static bool readable(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    bool ok = fgetc(f) != EOF || !ferror(f); /* A folder can be opened, but not read. */
    int why = errno;
    fclose(f);
    errno = why;
    return ok;
}

/* Two spellings of one file are one source: index of the earlier one, or 0. */
static uint32_t loaded(Input *in, const char *path)
{
    char *real = realpath(path, NULL);
    uint32_t found = 0;
    for (size_t i = 0; real && i < in->files.len && !found; i++) {
        char *other = realpath(in->files.data[i], NULL);
        if (other && !strcmp(real, other))
            found = (uint32_t)i + 1; /* sources are added in the order of files */
        free(other);
    }
    free(real);
    return found;
}

static uint32_t add_file(Input *in, const char *path)
{
    FileText text;
    if (!file_read(in->tool, path, MAX_SOURCE, &text)) return 0;
    bool std = !strcmp(path, "-");
    vec_push(&in->tool->arena, &in->files, path);
    uint32_t file = diag_add_source(&in->session, std ? "<stdin>" : path,
        std ? "." : folder_of(&in->tool->arena, path), text.data, text.len);
    in->marked = diag_source(&in->session, file)->len < text.len;
    return file;
}

static uint32_t import(void *user, Session *s, uint32_t from, const char *path)
{
    Input *in = user;
    const Source *source = diag_source(s, from);
    const Strings *dirs = &in->args->flag[FLAG_IMPORT_DIR];
    const char *found = join(&in->tool->arena, source && source->directory ? source->directory : ".", path);
    for (size_t i = 0; !readable(found) && i < dirs->len; i++)
        found = join(&in->tool->arena, dirs->data[i], path);
    if (!readable(found)) return 0;
    uint32_t index = loaded(in, found);
    return index ? index : add_file(in, found);
}

/* --- diagnostics ------------------------------------------------------------------------------------- */

static void print_diagnostics(Input *in)
{
    Text text;
    text_init(&text, &in->session.arena);
    bool perf = args_has(in->args, FLAG_WPERF);
    for (const Diag *d = in->session.diags; d; d = d->next)
        if (d->severity != SEV_PERF || perf) diag_render(&in->session, d, &text);
    if (text.data) fwrite(text.data, 1, text.len, in->tool->err);
    if (in->times.len)
        format_file(in->tool->err, "%-14s      %9.3f ms\n%s", "parse, check", (double)in->parse_ns * 1e-6,
            in->times.data);
    in->session.diags = in->session.last_diag = NULL;
}

/* --- one compilation --------------------------------------------------------------------------------- */

static int process(Input *in, Outputs *outputs, int (*fn)(Input *, Outputs *))
{
    if (!(in->file = add_file(in, in->path))) return EXIT_INPUT;
    if (in->text_only) return fn(in, outputs);
    int64_t begin = clock_ns();
    in->ast = frontend_parse(&in->session, in->file, import, in);
    if (!frontend_check(in->ast) || !compile_check_ladders(&in->session, in->ast)) return EXIT_INPUT;
    in->parse_ns = clock_ns() - begin;
    return fn(in, outputs);
}

Ast *input_parse_again(Input *in, Session *s)
{
    for (size_t i = 1; s != &in->session && i < in->session.sources.len; i++) {
        const Source *f = &in->session.sources.data[i];
        diag_add_source(s, f->name, f->directory, f->text, f->len);
    }
    Ast *ast = frontend_parse(s, in->file, import, in);
    return frontend_check(ast) ? ast : NULL;
}

static void free_session(void *s) { session_free(s); }

/* process and print_diagnostics, from wherever they leave. */
static int guarded(Input *in, Outputs *outputs, int (*fn)(Input *, Outputs *))
{
    volatile int code = EXIT_INPUT, left = 0;
    left = setjmp(in->session.oom);
    if (!left) {
        text_init(&in->times, &in->session.arena);
        code = process(in, outputs, fn);
    }
    if (left != 1) {
        if (setjmp(in->session.oom)) left = 1;
        else print_diagnostics(in);
    }
    if (left == 1) return tool_error(in->tool, "out of memory");
    return left ? tool_error(in->tool, "this is an error of tilec; please report it") : code;
}

static int with(
    Tool *t, const Args *a, const char *path, int (*fn)(Input *, Outputs *), void *user, bool text)
{
    Input *in = arena_new(&t->arena, Input);
    Outputs *outputs = arena_new(&t->arena, Outputs);
    int64_t limit = 20;
    if (!args_int(t, a, FLAG_ERROR_LIMIT, 0, 1 << 20, &limit)) return EXIT_USAGE;
    in->tool = t;
    in->args = a;
    in->path = path;
    in->user = user;
    in->text_only = text;
    session_init(&in->session, t->alloc);
    tool_at_end(t, &in->cleanup, free_session, &in->session);
    in->session.error_limit = limit ? (int)limit : 1 << 30;
    in->session.warnings_as_errors = args_has(a, FLAG_WERROR);
    int code = guarded(in, outputs, fn);
    if (in->session.n_errors && code == EXIT_OK) code = EXIT_INPUT;
    for (size_t i = 0; i < in->files.len && code == EXIT_OK && !text; i++)
        if (!outputs_spare(t, outputs, in->files.data[i])) code = EXIT_INPUT;
    if (code == EXIT_OK) code = outputs_commit(t, outputs);
    tool_end(t, &in->cleanup);
    return code;
}

int input_with(Tool *t, const Args *a, const char *path, int (*fn)(Input *, Outputs *), void *user)
{ return with(t, a, path, fn, user, false); }

int input_with_text(Tool *t, const Args *a, const char *path, int (*fn)(Input *, Outputs *), void *user)
{ return with(t, a, path, fn, user, true); }

/* --- options ----------------------------------------------------------------------------------------- */

/* A list given in parts is one list. NULL when the flag is absent. */
static const char *joined(Input *in, FlagId f)
{
    Strings list = args_list(in->tool, in->args, f);
    if (!args_has(in->args, f)) return NULL;
    Text t;
    text_init(&t, &in->tool->arena);
    text_puts(&t, "");
    for (size_t i = 0; i < list.len; i++) text_printf(&t, "%s%s", i ? "," : "", list.data[i]);
    return t.data ? t.data : "";
}

static void dump(void *user, const char *pass, const char *text)
{
    Input *in = user;
    format_file(in->tool->err, "// after %s\n%s", pass, text);
}

bool input_checker(Input *in, bool output, CompileOptions *o)
{
    bool asked = args_has(in->args, FLAG_CHECK_EMISSION);
    const char *why, *library = getenv("TILE_LIBCLANG");
    if (o->target->kind == TARGET_CPU || args_has(in->args, FLAG_NO_CHECK_EMISSION) || (!asked && !output))
        return true;
    if (!in->checker && !in->no_checker) {
        in->checker = emission_checker(&in->session, library, &why);
        if (!in->checker && asked) {
            diag_error(&in->session, (Loc){ 0 }, "--check-emission: %s", why);
            return false;
        }
        /* A checker that no option named is used only if it is recent enough to know what the emitter writes.
         */
        if (in->checker && !asked && !library && emission_checker_version(in->checker) < EMISSION_VERSION)
            in->checker = NULL;
        in->no_checker = !in->checker;
    }
    o->check = in->checker;
    return true;
}

static bool read_schedule(Input *in, CompileOptions *o)
{
    FileText text;
    const char *path = args_last(in->args, FLAG_SCHEDULE, NULL);
    if (!path) return true;
    if (o->target->kind == TARGET_CPU) {
        diag_warning(&in->session, (Loc){ 0 }, "--schedule is for GPU targets; the CPU's plan is derived");
        return true;
    }
    if (!file_read(in->tool, path, MAX_SOURCE, &text)) return false;
    o->passes.schedule = text.data;
    o->passes.schedule_name = strcmp(path, "-") ? path : "<stdin>";
    return true;
}

bool input_options(Input *in, const Target *target, CompileOptions *o)
{
    int64_t level = 2;
    if (!args_int(in->tool, in->args, FLAG_OPT, 0, 3, &level)) return false;
    *o = compile_options_default(target);
    o->backend.opt_level = o->passes.opt_level = (int)level;
    o->backend.debug_info = args_has(in->args, FLAG_DEBUG);
    o->backend.checked = o->passes.check = args_has(in->args, FLAG_CHECK);
    o->passes.print = o->backend.checked || o->backend.debug_info;
    o->backend.early_start = args_has(in->args, FLAG_EARLY_START);
    o->backend.cpu = args_last(in->args, FLAG_CPU, NULL);
    o->backend.verify_each = o->passes.verify_each = args_has(in->args, FLAG_VERIFY_EACH);
    o->passes.approx = args_has(in->args, FLAG_APPROX);
    o->passes.ftz = args_has(in->args, FLAG_FTZ);
    o->passes.remap = args_last(in->args, FLAG_REMAP, NULL);
    o->passes.passes = joined(in, FLAG_PASSES);
    o->passes.skip = joined(in, FLAG_SKIP_PASS);
    o->passes.with = joined(in, FLAG_WITH_PASS);
    o->passes.dump_after = joined(in, FLAG_DUMP_AFTER);
    o->passes.stop_after = args_last(in->args, FLAG_STOP_AFTER, NULL);
    o->passes.any_target = args_has(in->args, FLAG_BUNDLE) || args_has(in->args, FLAG_SHARED);
    o->passes.on_dump = dump;
    o->passes.dump_user = in;
    o->passes.time_passes = args_has(in->args, FLAG_TIME_PASSES);
    if (o->passes.time_passes) o->times = &in->times;
    return read_schedule(in, o);
}

/* Whether a launcher can examine scalars of this type. */
static bool has_sign(const FrontParam *p)
{ return p->kind == FRONT_SCALAR && p->type_known && (p->dtype == DT_F32 || p->dtype == DT_F64); }

/* An optional tensor that the variant is not given promises nothing. */
static bool is_absent(const Variant *v, const FrontParam *p)
{ return p->optional && frontend_absent(v->bindings, v->n, p->name); }

static bool bound_to(const Variant *v, const char *dim)
{
    for (size_t b = 0; b < v->n; b++)
        if (!strcmp(v->bindings[b].name, dim)) return true;
    return false;
}

/* The axes in front of the last one whose strides follow from extents that the variant knows, as those of a
 * launch (KernelParam.dense). */
static int dense_axes(const Variant *v, const FrontParam *p)
{
    int n = 0;
    for (int a = p->rank - 1; a > 0 && !v->kernel->products; a--, n++)
        if (!p->dims[a].name || !p->dims[a - 1].name || !bound_to(v, p->dims[a].name) ||
            !bound_to(v, p->dims[a - 1].name))
            break;
    return n;
}

const LaunchFacts *input_facts(Input *in, const Variant *v, unsigned assume)
{
    const FrontKernel *k = v->kernel;
    Arena *a = &in->session.arena;
    LaunchFacts *facts = arena_new(a, LaunchFacts);
    ParamFacts *params = arena_array(a, ParamFacts, (size_t)k->n_params + 1);
    bool *dim16 = arena_array(a, bool, (size_t)(k->n_dims + k->n_derived) + 1),
         aligned = assume & ASSUME_ALIGNED;
    int n = 0;
    if (assume == ASSUME_ANY) return NULL;
    for (int i = 0; i < k->n_params; i++) {
        const FrontParam *p = &k->params[i];
        if (p->kind == FRONT_CONST || p->kind == FRONT_CONST_TYPE) continue;
        if (p->kind == FRONT_SCALAR) {
            params[n++] =
                (ParamFacts){ .unit_axis = -1, .sign = has_sign(p) && (assume & ASSUME_POSITIVE) ? 1 : -1 };
            continue;
        }
        if (is_absent(v, p)) {
            params[n++] = (ParamFacts){ .unit_axis = -1, .sign = -1 };
            continue;
        }
        params[n++] =
            aligned ? (ParamFacts){ .align = 16, .unit_axis = p->rank - 1, .stride_mask = ~0u, .sign = -1 }
                    : (ParamFacts){ .unit_axis = -1, .sign = -1 };
        if (aligned && (assume & ASSUME_DENSE)) params[n - 1].dense = dense_axes(v, p);
        const FrontDim *last = p->rank && (assume & ASSUME_DIVISIBLE) ? &p->dims[p->rank - 1] : NULL;
        for (int d = 0; last && last->name && d < k->n_dims; d++) dim16[d] |= !strcmp(k->dims[d], last->name);
        if (last && last->derived >= 0) dim16[k->n_dims + last->derived] = true;
    }
    *facts = (LaunchFacts){ params, n, dim16, k->n_dims + k->n_derived, aligned, aligned };
    return facts;
}

const char *assume_name(unsigned assume)
{
    static const char *const names[8] = { "any", "aligned", "any", "aligned_divisible", "positive",
        "aligned_positive", "positive", "aligned_divisible_positive" };
    return names[assume & 7];
}

int input_assumptions(const Variant *v, bool divisible, unsigned out[6])
{
    const FrontKernel *k = v->kernel;
    bool sign = false, tensor = false, free_rows = false;
    int n = 0;
    for (int i = 0; i < k->n_params; i++) {
        const FrontParam *p = &k->params[i];
        sign |= has_sign(p);
        if (p->kind > FRONT_INOUT || is_absent(v, p)) continue;
        tensor = true;
        const FrontDim *last = p->rank ? &p->dims[p->rank - 1] : NULL;
        free_rows |= last && ((last->name && !bound_to(v, last->name)) || last->derived >= 0);
    }
    for (int d = divisible && free_rows; tensor && d >= 0; d--)
        for (int s = sign; s >= 0; s--)
            out[n++] = ASSUME_ALIGNED | (d ? ASSUME_DIVISIBLE : 0u) | (s ? ASSUME_POSITIVE : 0u);
    out[n++] = ASSUME_ANY;
    return n;
}
