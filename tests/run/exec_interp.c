/* exec_interp.c: problems through the front end, the passes and the interpreter of the tile IR: no backend,
 * no runtime.
 *
 * With passes, the kernel first gets the launch facts a runtime would give it: alignment, strides, divisors
 * of extents, and, for every other problem, the extents themselves. */
#include "exec_interp.h"
#include "launch_facts.h"
#include "ir/interp/interp.h"
#ifdef RUN_WITH_PASSES
#include "passes/passes.h"
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct State {
    char *text;
    size_t length;
    char path[512];
} State; /* the source file used last */

void *exec_interp_open(const char *name, char *why, size_t why_size) { return calloc(1, sizeof(State)); }

void exec_interp_close(void *state)
{
    State *s = state;
    free(s->text);
    free(s);
}

static bool read_source(State *s, const char *path, char *why, size_t why_size)
{
    if (!strcmp(s->path, path)) return true;
    FILE *f = fopen(path, "rb");
    if (!f) return snprintf(why, why_size, "%s cannot be read", path), false;
    fseek(f, 0, SEEK_END);
    s->length = (size_t)ftell(f);
    rewind(f);
    s->text = realloc(s->text, s->length + 1);
    bool ok = s->text && fread(s->text, 1, s->length, f) == s->length;
    fclose(f);
    snprintf(s->path, sizeof s->path, "%s", ok ? path : "");
    return ok || (snprintf(why, why_size, "%s cannot be read", path), false);
}

/* --- lowering --- */

static const Func *lower(Session *s, State *state, const Run *run, const Launch *l)
{
    FrontBinding bindings[64];
    uint32_t file = diag_add_source(s, run->path, NULL, state->text, state->length);
    Ast *ast = frontend_parse(s, file, launch_import, NULL);
    if (!frontend_check(ast)) return NULL;
    const FrontKernel *k = frontend_kernel_find(ast, l->kernel);
    if (!k) return diag_error(s, (Loc){ 0 }, "no kernel %s", l->kernel), NULL;
    int n = launch_bind(s, k, l, bindings);
    if (s->n_errors) return NULL;
    Module *m = frontend_lower(ast, l->kernel, bindings, (size_t)n, "cpu");
    return m && ir_verify(m) ? ir_func_find(m, l->kernel) : NULL;
}

/* --- passes --- */

#ifdef RUN_WITH_PASSES
static bool optimize(Session *s, Func *f, const Launch *l, bool exact)
{
    PassOptions o = pass_options_default(NULL);
    o.opt_level = 3;
    o.verify_each = true;
    launch_facts(f, l, exact);
    return passes_run(f->module, &o, NULL);
}
#endif

/* --- running --- */

static bool interpret(Session *s, State *state, const Run *run, const Launch *l)
{
    const Func *f = lower(s, state, run, l);
    if (!f) return false;
#ifdef RUN_WITH_PASSES
    if (run->passes && !optimize(s, (Func *)f, l, run->problem->tensors[0].count & 2)) return false;
#endif
    InterpArg args[MAX_ARGS];
    memset(args, 0, sizeof args);
    for (int i = 0; i < l->n_args; i++) {
        const Arg *a = &l->args[i];
        if (a->scalar) {
            if (ref_type_is_float(a->scalar->type)) args[i].scalar.f = a->scalar->value;
            else args[i].scalar.i = (int64_t)a->scalar->whole;
            continue;
        }
        const Tensor *t = a->tensor;
        static char nothing[64] __attribute__((aligned(64)));
        if (!t) args[i].data = nothing;
        if (!t) continue;
        args[i].data = t->base + t->offset;
        for (int axis = 0; axis < t->rank - a->drop; axis++) {
            args[i].shape[axis] = t->shape[a->drop + axis];
            args[i].stride[axis] = launch_stride(t, a->drop + axis);
        }
    }
    InterpOptions o = { .max_steps = (int64_t)1 << 36 };
    return interp_run_with(s, f, args, l->n_args, &o);
}

static bool run_launch(State *state, const Run *run, const Launch *l, char *why, size_t why_size)
{
    Session s;
    session_init(&s, allocator_libc);
    volatile bool ok = false;
    if (!setjmp(s.oom)) {
        ok = interpret(&s, state, run, l);
        if (!ok) {
            Text text;
            text_init(&text, &s.arena);
            diag_render_all(&s, &text);
            snprintf(why, why_size, "%s: %.*s", l->kernel, (int)text.len, text.data);
        }
    } else {
        snprintf(why, why_size, "%s: out of memory or an internal error", l->kernel);
    }
    session_free(&s);
    return ok;
}

bool exec_interp_run(void *state, const Run *run, char *why, size_t why_size)
{
    State *s = state;
    if (!read_source(s, run->path, why, why_size)) return false;
    for (int i = 0; i < run->n_launches; i++)
        if (!run_launch(s, run, &run->launches[i], why, why_size)) return false;
    return true;
}
