/* interpret.c: see interpret.h. */
#include "tools/tilec/run/interpret.h"
#include "tools/tilec/run/input.h"

bool interpret_bind(Input *in, const InterpretJob *job, const FrontKernel *k, FrontBinding *out, size_t *n)
{
    Session *s = &in->session;
    for (size_t i = 0; i < job->n_bindings; i++) {
        const char *name = job->bindings[i].name, *text = job->bindings[i].value.text, *why = "no such value";
        FrontBinding *b = &out[(*n)++];
        b->name = session_intern(s, name, strlen(name));
        if (!frontend_parse_value(s, k, b->name, text, &b->value, &why)) {
            diag_error(s, k->loc, "--set %s=%s: %s", name, text, why);
            return false;
        }
    }
    for (size_t i = 0; i < job->n_absent; i++)
        out[(*n)++] = (FrontBinding){ job->absent[i], { FRONT_BOOL, { .b = false } } };
    for (int key = 0; key < k->n_keys; key++)
        for (size_t i = 0; i < job->known->len; i++)
            if (!strcmp(job->known->data[i].name, k->keys[key])) {
                out[(*n)++] =
                    (FrontBinding){ k->keys[key], { FRONT_INT, { .i = job->known->data[i].value } } };
                break;
            }
    return true;
}

/* What the clauses give: parameters, and the grid. */
typedef struct Clauses {
    Compiled compiled;
    int64_t grid[3];
    bool empty_out, ends; /* an extent and all outputs are empty; the grid could be computed */
} Clauses;

static bool read_clauses(Input *in, const InterpretJob *job, const FrontBinding *b, size_t n,
    const CompileOptions *o, Clauses *out)
{
    Session *s = &in->session;
    Compiled *c = &out->compiled;
    bool outputs = false, elements = false, zero = false;
    *out = (Clauses){ .grid = { 1, 1, 1 } };
    int64_t (*strides)[TILE_MAX_RANK] = arena_alloc(&s->arena, sizeof *strides * (size_t)(job->n_args + 1));
    Scalar *scalars = arena_array(&s->arena, Scalar, (size_t)job->n_args + 1);
    if (!compile_clauses(&(CompileJob){ s, in->ast, job->kernel, b, n, NULL, o }, c)) return false;
    for (int i = 0; i < c->n_params; i++) {
        bool any = true, written = c->params[i].kind == PARAM_OUT || c->params[i].kind == PARAM_INOUT;
        for (int a = 0; a < c->params[i].rank; a++) any &= job->args[i].shape[a] != 0;
        outputs |= written;
        elements |= written && any;
        scalars[i] = job->args[i].scalar;
        memcpy(strides[i], job->args[i].stride, sizeof strides[i]);
    }
    int64_t *dims = arena_array(&s->arena, int64_t, (size_t)c->n_dims + 1);
    for (int d = 0; d < c->n_dims; d++) {
        dims[d] =
            c->dims[d].extent >= 0 ? c->dims[d].extent : job->args[c->dims[d].param].shape[c->dims[d].axis];
        zero |= c->dims[d].extent == 0;
    }
    EvalEnv env = { .dims = dims, .scalars = scalars, .strides = (const int64_t (*)[TILE_MAX_RANK])strides };
    out->ends = eval_run(c->grid, &env, out->grid, 3);
    out->empty_out = zero && outputs && !elements;
    return true;
}

/* As a launch does: where an extent that tiles are made of is 0, there may be nothing to interpret. False
 * after diagnostics. */
static bool nothing(Input *in, const InterpretJob *job, const FrontBinding *b, size_t n,
    const CompileOptions *o, Clauses *c, bool *yes)
{
    bool empty = false;
    *yes = false;
    for (size_t i = 0; i < job->known->len; i++) empty |= job->known->data[i].value == 0;
    if (!empty) return true;
    if (!read_clauses(in, job, b, n, o, c)) return false;
    *yes = c->empty_out || (c->ends && (c->grid[0] <= 0 || c->grid[1] <= 0 || c->grid[2] <= 0));
    return true;
}

/* At once: a kernel that never ends has printed too. */
static void print_line(void *user, const char *line, size_t n)
{
    Tool *t = user;
    fwrite(line, 1, n, t->out);
    fflush(t->out);
}

/* --- faults ------------------------------------------------------------------------------------------ */

typedef struct Followed {
    Faults *faults;
    const InterpretJob *job;
    const InterpOptions *options;
    const Instr *last;
    const AccessSite *last_site;
    Arena *arena;
    VEC(const Instr *) instrs;
    VEC(const AccessSite *) sites;
} Followed;

static const AccessSite *site_of(Followed *f, const Instr *i, int param)
{
    for (size_t k = 0; k < f->instrs.len; k++)
        if (f->instrs.data[k] == i) return f->sites.data[k];
    AccessSite *s = arena_new(f->arena, AccessSite);
    bool reads = i->op == OP_LOAD || i->op == OP_GATHER,
         stores = i->op == OP_SCATTER || (i->op == OP_STORE && !ir_adds(i));
    *s = (AccessSite){ .index = (uint32_t)f->instrs.len,
        .param = (uint32_t)param,
        .kind = reads    ? ACCESS_READ
                : stores ? ACCESS_STORE
                         : ACCESS_ATOMIC,
        .order = (uint32_t)ir_attr_int(i, ATTR_SEM, SEM_RELAXED),
        .file = i->loc.file,
        .begin = i->loc.begin,
        .end = i->loc.end };
    vec_push(f->arena, &f->instrs, i);
    vec_push(f->arena, &f->sites, s);
    return s;
}

static void on_access(void *user, const Instr *i, int param, int64_t offset)
{
    Followed *f = user;
    if (i != f->last) f->last_site = site_of(f, i, param);
    f->last = i;
    AccessSink *sink = faults_sink(f->faults);
    sink->element(sink, f->last_site, f->options->program, (char *)f->job->args[param].data + offset);
}

static void free_faults(void *f) { faults_free(f); }

static Followed *follow(Input *in, const InterpretJob *job, const Clauses *clauses)
{
    const Compiled *c = &clauses->compiled;
    int64_t programs = 0;
    if (!clauses->ends || !eval_grid_size(clauses->grid, 3, &programs)) programs = 0;
    Session *s = &in->session;
    const FrontKernel *k = frontend_kernel_find(in->ast, job->kernel);
    FaultTensor *t = arena_array(&s->arena, FaultTensor, (size_t)job->n_args + 1);
    Followed *f = arena_new(&s->arena, Followed);
    for (int i = 0; i < job->n_args && i < c->n_params; i++) {
        const CompiledParam *p = &c->params[i];
        t[i] = (FaultTensor){ .name = job->names[i],
            .followed = (p->kind == PARAM_OUT || p->kind == PARAM_INOUT) && !job->left_out[i],
            .out = p->kind == PARAM_OUT,
            .dtype = p->dtype,
            .rank = p->rank,
            .data = job->args[i].data };
        memcpy(t[i].shape, job->args[i].shape, sizeof t[i].shape);
        memcpy(t[i].stride, job->args[i].stride, sizeof t[i].stride);
        for (int q = 0; q < k->n_params; q++)
            if (!strcmp(k->params[q].name, t[i].name)) t[i].loc = k->params[q].loc;
    }
    *f = (Followed){ .faults = faults_new(t, job->n_args, programs), .job = job, .arena = &s->arena };
    if (!f->faults) arena_oom(&s->arena);
    session_defer(s, free_faults, f->faults);
    return f;
}

static void report_faults(Input *in, const Followed *f, const Clauses *c)
{
    FaultGrid grid;
    frontend_fault_grid(in->ast, f->job->kernel, &in->session, c->grid, &grid);
    faults_report(f->faults, &grid, &in->session);
}

/* Runs the kernel, and adds what the job's accesses show. */
static int run_followed(Input *in, const Func *f, const Clauses *c, InterpOptions *io)
{
    const InterpretJob *job = in->user;
    Followed *followed = c ? follow(in, job, c) : NULL;
    if (followed) {
        followed->options = io;
        io->on_access = on_access;
        io->on_access_user = followed;
    }
    if (f && !interp_run_with(&in->session, f, job->args, job->n_args, io)) return EXIT_INPUT;
    if (followed) report_faults(in, followed, c);
    return in->session.n_errors ? EXIT_INPUT : EXIT_OK;
}

static int run(Input *in, Outputs *outputs)
{
    const InterpretJob *job = in->user;
    Session *s = &in->session;
    const FrontKernel *k = frontend_kernel_find(in->ast, job->kernel);
    size_t most = job->n_bindings + job->n_absent + (size_t)k->n_keys + 1;
    FrontBinding *b = arena_array(&s->arena, FrontBinding, most);
    CompileOptions o;
    PassReport report = { 0 };
    Func *f;
    size_t n = 0;
    if (!input_options(in, target_find("cpu"), &o)) return EXIT_USAGE;
    if (!args_has(in->args, FLAG_OPT)) o.passes.opt_level = 0;
    o.passes.print = true;
    s->diags = s->last_diag =
        NULL; /* The context, which has read the program before, has told the warnings. */
    if (!interpret_bind(in, job, k, b, &n)) return EXIT_INPUT;
    bool no_work;
    Clauses clauses;
    InterpOptions none = { 0 };
    if (!nothing(in, job, b, n, &o, &clauses, &no_work)) return EXIT_INPUT;
    if (no_work) return run_followed(in, NULL, job->follow ? &clauses : NULL, &none);
    if (!compile_to_ir(&(CompileJob){ s, in->ast, job->kernel, b, n, NULL, &o }, &report, &f))
        return EXIT_INPUT;
    Text prints;
    text_init(&prints, &s->arena);
    InterpOptions io = { .check = o.passes.check,
        .prints = &prints,
        .max_steps = (int64_t)1 << 36,
        .on_print = print_line,
        .on_print_user = in->tool,
        .progress = job->progress };
    if (job->follow && !read_clauses(in, job, b, n, &o, &clauses)) return EXIT_INPUT;
    return run_followed(in, f, job->follow ? &clauses : NULL, &io);
}

int interpret(Tool *t, const Args *a, const InterpretJob *job)
{ return input_with(t, a, a->inputs.data[0], run, (void *)(uintptr_t)job); }
