/* sim_formula.c: formulas of `tilec sim --remap`: which program each workgroup runs, and whether every
 * program runs once. */
#include "tools/tilec/sim/sim.h"

Strings sim_remaps(Tool *t, const Args *a)
{
    Strings list = { 0 };
    for (size_t i = 0; i < a->flag[FLAG_REMAP].len; i++) {
        const char *text = a->flag[FLAG_REMAP].data[i];
        for (int depth = 0; *text; depth = 0) {
            size_t n = 0;
            for (; text[n] && (text[n] != ',' || depth > 0); n++)
                depth += (text[n] == '(' || text[n] == '[') - (text[n] == ')' || text[n] == ']');
            if (n) vec_push(&t->arena, &list, arena_strndup(&t->arena, text, n));
            text += n + (text[n] == ',');
        }
    }
    return list;
}

static const EvalCode *compile_formula(
    Input *in, const FrontKernel *k, const FrontBinding *bindings, size_t n, const char *text, Loc *loc)
{
    Session *s = &in->session;
    const char *why = NULL;
    uint32_t file = diag_add_source(s, "--remap", NULL, text, strlen(text));
    *loc = (Loc){ file, 0, (uint32_t)strlen(text) };
    Module *m = frontend_lower_formula(in->ast, k->name, bindings, n, file);
    if (!m) return NULL;
    Func *f = ir_func_find(m, k->name);
    const EvalCode *code = eval_compile(&s->arena, f, f->remap, &why);
    if (!code) diag_error(s, *loc, "the formula cannot be evaluated: %s", why);
    return code;
}

/* The order of all workgroups; the tiles that it runs are counted. */
static void tabulate(Arena *a, const EvalCode *code, const SimTrace *t, const EvalCode *own, SimCase *c)
{
    EvalEnv env = sim_trace_env(t);
    int64_t n = sim_trace_programs(t), to[8];
    int32_t *order = arena_array(a, int32_t, (size_t)n + 1);
    bool *runs = arena_calloc(a, (size_t)n + 1, sizeof *runs);
    for (int64_t w = 0; w < n; w++) {
        env.linear = w;
        bool fits = eval_run(code, &env, to, 8) && to[0] >= 0 && to[0] < n;
        env.linear = to[0];
        if (fits && own) fits = eval_run(own, &env, to, 8) && to[0] >= 0 && to[0] < n;
        order[w] = fits ? (int32_t)to[0] : -1;
        if (!fits || runs[to[0]]) continue;
        runs[to[0]] = true;
        c->tiles++;
    }
    c->order = order;
}

static bool refuse_zero(Input *in, const EvalCode *code, Loc loc, const SimTrace *t)
{
    EvalEnv env = sim_trace_env(t);
    for (env.linear = 0; env.linear < sim_trace_programs(t); env.linear++) {
        if (!eval_divides_by_zero(code, &env)) continue;
        diag_error(&in->session, loc, "the formula divides by zero for program %lld", (long long)env.linear);
        return false;
    }
    return true;
}

/* What is wrong with a placement that is no permutation. */
static const char *reason(Arena *a, const SimCase *c)
{
    long long first = c->clash.a, second = c->clash.b, to = c->clash.to;
    return c->verdict == EVAL_COLLISION
               ? arena_printf(a, "programs %lld and %lld both become %lld", first, second, to)
               : arena_printf(a, "program %lld becomes %lld, which there is not", first, to);
}

bool sim_place(Input *in, const FrontKernel *k, const FrontBinding *bindings, size_t n, const SimTrace *t,
    const EvalCode *own, SimCase *c)
{
    Session *s = &in->session;
    EvalEnv env = sim_trace_env(t);
    Loc loc;
    int64_t programs = sim_trace_programs(t);
    const EvalCode *code = compile_formula(in, k, bindings, n, c->name, &loc);
    if (!code) return false;
    if (programs > EVAL_MAX_CHECKED) {
        diag_error(s, loc, "a grid of %lld programs is too large to check a formula (at most %d)",
            (long long)programs, EVAL_MAX_CHECKED);
        return false;
    }
    if (!refuse_zero(in, code, loc, t)) return false;
    c->verdict = eval_check_remap(code, &env, programs, in->tool->alloc, &c->clash);
    if (c->verdict == EVAL_NO_MEMORY) arena_oom(&s->arena);
    if (c->verdict == EVAL_FAILED) {
        diag_error(s, loc, "the formula does not end for program %lld", (long long)c->clash.a);
        return false;
    }
    tabulate(&s->arena, code, t, own, c);
    if (c->verdict != EVAL_BIJECTION) c->refused = reason(&s->arena, c);
    return true;
}
