/* interpret.c: see interpret.h. */
#include "tools/tilec/interpret.h"
#include "tools/tilec/input.h"

/* The bindings of --set, and the extents that specialize the kernel, as a launch takes them from its tensors.
 * */
static bool bind(Input *in, const InterpretJob *job, const FrontKernel *k, FrontBinding *out, size_t *n)
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

/* As a launch does: where an extent that tiles are made of is 0, there may be nothing to interpret. False
 * after diagnostics. */
static bool nothing(
    Input *in, const InterpretJob *job, const FrontBinding *b, size_t n, const CompileOptions *o, bool *yes)
{
    Session *s = &in->session;
    Compiled c;
    *yes = false;
    bool empty = false, outputs = false, elements = false, zero = false;
    int64_t (*strides)[TILE_MAX_RANK] = arena_alloc(&s->arena, sizeof *strides * (size_t)(job->n_args + 1)),
            grid[3] = { 1, 1, 1 };
    Scalar *scalars = arena_array(&s->arena, Scalar, (size_t)job->n_args + 1);
    for (size_t i = 0; i < job->known->len; i++) empty |= job->known->data[i].value == 0;
    if (!empty) return true;
    if (!compile_clauses(s, in->ast, job->kernel, b, n, o, &c)) return false;
    for (int i = 0; i < c.n_params; i++) {
        bool any = true, out = c.params[i].kind == PARAM_OUT || c.params[i].kind == PARAM_INOUT;
        for (int a = 0; a < c.params[i].rank; a++) any &= job->args[i].shape[a] != 0;
        outputs |= out;
        elements |= out && any;
        scalars[i] = job->args[i].scalar;
        memcpy(strides[i], job->args[i].stride, sizeof strides[i]);
    }
    int64_t *dims = arena_array(&s->arena, int64_t, (size_t)c.n_dims + 1);
    for (int d = 0; d < c.n_dims; d++) {
        dims[d] = c.dims[d].extent >= 0 ? c.dims[d].extent : job->args[c.dims[d].param].shape[c.dims[d].axis];
        zero |= c.dims[d].extent == 0;
    }
    EvalEnv env = { .dims = dims, .scalars = scalars, .strides = (const int64_t (*)[TILE_MAX_RANK])strides };
    bool ends = eval_run(c.grid, &env, grid, 3);
    *yes = (zero && outputs && !elements) || (ends && (grid[0] <= 0 || grid[1] <= 0 || grid[2] <= 0));
    return true;
}

/* At once: a kernel that never ends has printed too. */
static void print_line(void *user, const char *line, size_t n)
{
    Tool *t = user;
    fwrite(line, 1, n, t->out);
    fflush(t->out);
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
    if (!bind(in, job, k, b, &n)) return EXIT_INPUT;
    bool no_work;
    if (!nothing(in, job, b, n, &o, &no_work)) return EXIT_INPUT;
    if (no_work) return EXIT_OK;
    if (!compile_to_ir(s, in->ast, job->kernel, b, n, NULL, &o, &report, &f)) return EXIT_INPUT;
    Text prints;
    text_init(&prints, &s->arena);
    InterpOptions io = { .check = o.passes.check,
        .prints = &prints,
        .max_steps = (int64_t)1 << 36,
        .on_print = print_line,
        .on_print_user = in->tool,
        .progress = job->progress };
    return interp_run_with(s, f, job->args, job->n_args, &io) ? EXIT_OK : EXIT_INPUT;
}

int interpret(Tool *t, const Args *a, const InterpretJob *job)
{ return input_with(t, a, a->inputs.data[0], run, (void *)(uintptr_t)job); }
