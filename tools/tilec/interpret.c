/* interpret.c: see interpret.h. */
#include "tools/tilec/interpret.h"
#include "tools/tilec/input.h"

/* What --set binds, and the extents that specialize the kernel, as a launch takes them from its tensors. */
static bool bind(Input *in, const InterpretJob *job, const FrontKernel *k, FrontBinding *out, size_t *n)
{
    Session *s = &in->session;
    for (size_t i = 0; i < job->n_bindings; i++) {
        const char *name = job->bindings[i].name, *text = job->bindings[i].value.text, *why = "no such value";
        FrontBinding *b = &out[(*n)++];
        b->name = session_intern(s, name, strlen(name));
        if (!frontend_parse_value(s, k, b->name, text, &b->value, &why)) { diag_error(s, k->loc, "--set %s=%s: %s", name, text, why); return false; }
    }
    for (int key = 0; key < k->n_keys; key++)
        for (size_t i = 0; i < job->known->len; i++)
            if (!strcmp(job->known->data[i].name, k->keys[key])) {
                out[(*n)++] = (FrontBinding){ k->keys[key], { FRONT_INT, { .i = job->known->data[i].value } } };
                break;
            }
    return true;
}

static int run(Input *in, Outputs *outputs)
{
    const InterpretJob *job = in->user;
    Session *s = &in->session;
    const FrontKernel *k = frontend_kernel_find(in->ast, job->kernel);
    FrontBinding *b = arena_array(&s->arena, FrontBinding, job->n_bindings + (size_t)k->n_keys + 1);
    CompileOptions o;
    PassReport report = {0};
    Func *f;
    size_t n = 0;
    if (!input_options(in, target_find("cpu"), &o)) return EXIT_USAGE;
    if (!args_has(in->args, FLAG_OPT)) o.passes.opt_level = 0;
    o.passes.print = true;
    if (!bind(in, job, k, b, &n)) return EXIT_INPUT;
    if (!compile_to_ir(s, in->ast, job->kernel, b, n, NULL, &o, &report, &f)) return EXIT_INPUT;
    Text prints;
    text_init(&prints, &s->arena);
    InterpOptions io = { .check = o.passes.check, .prints = &prints, .max_steps = (int64_t)1 << 36 };
    bool ok = interp_run_with(s, f, job->args, job->n_args, &io);
    if (prints.len) fwrite(prints.data, 1, prints.len, in->tool->out);
    return ok ? EXIT_OK : EXIT_INPUT;
}

int interpret(Tool *t, const Args *a, const InterpretJob *job)
{
    return input_with(t, a, a->inputs.data[0], run, (void *)(uintptr_t)job);
}
