/* lower_fn.c: calls of `fn` functions. A fn has parameters without types: each call lowers it for the types
 * at hand. A call with run-time values of a function that neither touches memory nor asks about the launch
 * becomes a function of the module, shared by calls of equal types and constants; every other call is
 * expanded where it stands. */
#include "frontend/lower/lower.h"

enum { PURE_UNKNOWN, PURE_BUSY, PURE_YES, PURE_NO };

static int *purity_of(Lower *l, const Node *fn)
{
    int *p = names_get(&l->purity, fn->name);
    if (!p) names_put(&l->s->arena, &l->purity, fn->name, p = arena_new(&l->s->arena, int));
    return p;
}

static bool is_pure(Lower *, const Node *fn, int depth);

static bool pure_node(Lower *l, const Node *n, int depth)
{
    static const char *const impure[] = { "load", "store", "gather", "scatter", "program_id", "num_programs",
        "extent", "stride", "print", "assert" };
    if (!n) return true;
    if (n->kind == N_CALL) {
        const Node *fn = ast_find_fn(l->ast, n->name);
        if (fn && !is_pure(l, fn, depth + 1)) return false;
        if (!strncmp(n->name, "atomic_", 7)) return false;
        for (size_t i = 0; i < sizeof impure / sizeof *impure; i++)
            if (!strcmp(impure[i], n->name)) return false;
    }
    for (uint32_t i = 0; i < n->n; i++)
        if (!pure_node(l, n->kids[i], depth)) return false;
    return true;
}

/* A function that calls itself counts as not pure, as does one at the end of a long chain: they are expanded,
 * and the limit on depth ends them. */
static bool is_pure(Lower *l, const Node *fn, int depth)
{
    int *p = purity_of(l, fn);
    if (*p == PURE_UNKNOWN && depth <= LIMIT_CALLS) {
        *p = PURE_BUSY;
        bool pure = pure_node(l, fn->kids[1], depth);
        *p = pure ? PURE_YES : PURE_NO;
    }
    return *p == PURE_YES;
}

bool lower_fn_is_pure(Lower *l, const Node *fn) { return is_pure(l, fn, 0); }
bool lower_is_pure(Lower *l, const Node *n) { return pure_node(l, n, 0); }

/* --- arguments --------------------------------------------------------------------------------------- */

static int parameter_index(const Node *fn, const char *name)
{
    const Node *params = fn->kids[0];
    for (uint32_t i = 0; i < params->n; i++)
        if (params->kids[i]->name == name) return (int)i;
    return -1;
}

static bool take_arguments(Lower *l, const Node *call, const Node *fn, V *out, const Node **from)
{
    const Node *params = fn->kids[0];
    bool ok = true, *given = arena_array(&l->s->arena, bool, params->n + 1);
    for (uint32_t i = 0; i < call->n; i++) {
        const Node *a = call->kids[i];
        int k = a->kind == N_ARG ? parameter_index(fn, a->name) : (int)i;
        if (k < 0) {
            lower_error(l, a->name_loc, "`%s` has no parameter `%s`", fn->name, a->name);
            return false;
        }
        if (k >= (int)params->n) {
            lower_error(
                l, a->loc, "`%s` takes %d argument%s", fn->name, (int)params->n, params->n == 1 ? "" : "s");
            return false;
        }
        if (given[k]) {
            lower_error(l, a->loc, "argument `%s` is given twice", params->kids[k]->name);
            return false;
        }
        given[k] = true;
        from[k] = a->kind == N_ARG ? a->kids[0] : a;
        out[k] = lower_expr(l, from[k]);
        ok &= out[k].kind != V_ERROR;
    }
    for (uint32_t k = 0; k < params->n; k++) {
        if (given[k]) continue;
        if (!params->kids[k]->kids[0]) {
            lower_error(l, call->loc, "`%s` needs the argument `%s`", fn->name, params->kids[k]->name);
            return false;
        }
        Scope *outer = l->scope;
        l->scope = l->globals;
        from[k] = params->kids[k]->kids[0];
        out[k] = lower_expr(l, from[k]);
        l->scope = outer;
        ok &= out[k].kind != V_ERROR;
    }
    for (uint32_t k = 0; k < params->n && ok; k++)
        if (out[k].kind == V_VOID) {
            lower_error(l, from[k]->loc, "this call gives no value");
            ok = false;
        }
    return ok;
}

/* --- expansion --------------------------------------------------------------------------------------- */

static bool enter_call(Lower *l, Loc loc, const Node *fn)
{
    if (l->depth < LIMIT_CALLS) return true;
    lower_error_note(l, loc, "a fn is expanded at compile time: recursion must end there",
        "calls of fn functions are nested more than %d deep", LIMIT_CALLS);
    l->stopped = true;
    return false;
}

/* Lowers the body with its parameters bound, at the builder's place. */
static V run_body(Lower *l, Loc loc, const Node *fn, const V *args)
{
    Scope *outer = l->scope, inner = { .outer = l->globals };
    Frame frame = lower_frame_new(fn, false), *outer_frame = l->frame;
    Active active = { fn, loc, l->active };
    l->scope = &inner;
    for (uint32_t k = 0; k < fn->kids[0]->n; k++)
        lower_scope_add(l, fn->kids[0]->kids[k]->name, fn->kids[0]->kids[k]->loc, args[k], false);
    l->frame = &frame;
    l->active = &active;
    l->depth++;
    lower_block(l, fn->kids[1], true);
    V result = lower_frame_result(l, &frame);
    l->depth--;
    l->active = active.outer;
    l->frame = outer_frame;
    l->scope = outer;
    return result;
}

V lower_expand_fn(Lower *l, Loc loc, const Node *fn, const V *args)
{
    if (!enter_call(l, loc, fn)) return value_error();
    Loc at = l->b.loc;
    V v = run_body(l, loc, fn, args);
    l->b.loc = at;
    return v;
}

/* --- functions of the module ------------------------------------------------------------------------- */

static const char *call_key(Lower *l, const Node *fn, const V *args)
{
    Text t;
    text_init(&t, &l->s->arena);
    text_puts(&t, fn->name);
    for (uint32_t k = 0; k < fn->kids[0]->n; k++) {
        text_putc(&t, '|');
        switch (args[k].kind) {
        case V_IR: type_print(args[k].value->type, &t); break;
        case V_INT:
            text_printf(&t, "int %llx %llx", (unsigned long long)(args[k].big >> 64),
                (unsigned long long)args[k].big);
            break;
        case V_FLOAT: text_printf(&t, "float %a", args[k].f); break;
        case V_CONST:
            text_printf(&t, "%s %llx", dtype_name(args[k].dtype),
                (unsigned long long)scalar_bits(args[k].dtype, args[k].c));
            break;
        case V_TYPE: text_printf(&t, "type %s", dtype_name(args[k].dtype)); break;
        case V_ERROR:
        case V_VOID:
        case V_TUPLE:
        case V_TENSOR:
        case V_ABSENT:
        case V_NONE:
        case V_STRING:
        case V_TABLE: return NULL;
        }
    }
    return session_intern(l->s, t.data, t.len);
}

typedef struct Specialized {
    Func *func;
    V result;
    int nesting;
} Specialized;

/* The number makes it differ from other functions; only the kernel may have the same name. */
static const char *fresh_name(Lower *l, const char *name)
{
    const char *n = arena_printf(&l->s->arena, "%s_%u", name, ++l->n_functions);
    return strcmp(n, l->module->funcs->name) ? n : arena_printf(&l->s->arena, "%s_fn", n);
}

/* Result values of the body become the function's results; constants among them stay constants of every call.
 */
static void finish_function(Lower *l, Loc loc, Func *f, V *result)
{
    V *items = result->kind == V_TUPLE ? result->items : result;
    int n = result->kind == V_TUPLE ? result->n : result->kind == V_VOID ? 0 : 1, n_out = 0;
    Value **out = arena_array(&l->s->arena, Value *, (size_t)n + 1);
    f->results = arena_array(&l->s->arena, const Type *, (size_t)n + 1);
    for (int k = 0; k < n; k++)
        if (items[k].kind == V_IR) {
            f->results[n_out] = items[k].value->type;
            out[n_out++] = items[k].value;
        }
    f->n_results = n_out;
    ir_build(&l->b, OP_RETURN, out, n_out, NO_ATTRS, NULL, 0);
}

static const Specialized *specialize(Lower *l, Loc loc, const Node *fn, const V *args, const char *key)
{
    const Specialized *old = names_get(&l->specialized, key);
    if (old) return old;
    Func *f = ir_func_new(l->module, fresh_name(l, fn->name), false), *outer = l->func;
    f->loc = fn->loc;
    Builder at = l->b;
    V *inner = arena_array(&l->s->arena, V, fn->kids[0]->n + 1);
    for (uint32_t k = 0; k < fn->kids[0]->n; k++)
        inner[k] = args[k].kind == V_IR ? value_ir(ir_param_new(f, fn->kids[0]->kids[k]->name, PARAM_SCALAR,
                                              args[k].value->type, NULL))
                                        : args[k];
    int nesting = l->nesting, deepest = l->deepest;
    l->func = f;
    l->b = ir_at_end(f->body);
    l->nesting = l->deepest = 0;
    V result = run_body(l, loc, fn, inner);
    if (result.kind != V_ERROR) finish_function(l, loc, f, &result);
    l->b = at;
    l->func = outer;
    Specialized *new = arena_new(&l->s->arena, Specialized);
    *new = (Specialized){ f, result, l->deepest };
    l->nesting = nesting;
    l->deepest = deepest;
    names_put(&l->s->arena, &l->specialized, key, new);
    return new;
}

static V call_function(Lower *l, const Node *call, const Node *fn, const V *args, const char *key)
{
    const Specialized *s = specialize(l, call->loc, fn, args, key);
    Func *f = s->func;
    V result = s->result;
    if (result.kind == V_ERROR || !lower_enter_blocks(l, call->loc, s->nesting)) return value_error();
    lower_leave_blocks(l, s->nesting);
    Value **operands = arena_array(&l->s->arena, Value *, fn->kids[0]->n + 1);
    int n = 0, used = 0;
    for (uint32_t k = 0; k < fn->kids[0]->n; k++)
        if (args[k].kind == V_IR) operands[n++] = args[k].value;
    if (!f->n_results) return result;
    l->b.loc = call->loc;
    Instr *i =
        ir_build(&l->b, OP_CALL, operands, n, ATTRS(a_str(ATTR_CALLEE, f->name)), f->results, f->n_results);
    if (result.kind != V_TUPLE) return value_ir(&i->results[0]);
    V *items = arena_array(&l->s->arena, V, (size_t)result.n + 1);
    for (int k = 0; k < result.n; k++)
        items[k] = result.items[k].kind == V_IR ? value_ir(&i->results[used++]) : result.items[k];
    return (V){ .kind = V_TUPLE, .n = result.n, .items = items };
}

V lower_fn_call(Lower *l, const Node *call, const Node *fn)
{
    uint32_t n = fn->kids[0]->n;
    V *args = arena_array(&l->s->arena, V, n + 1);
    const Node **from = arena_array(&l->s->arena, const Node *, n + 1);
    if (!take_arguments(l, call, fn, args, from) || !enter_call(l, call->loc, fn)) return value_error();
    bool runtime = false;
    for (uint32_t k = 0; k < n; k++) runtime |= args[k].kind == V_IR;
    const char *key =
        runtime && !l->in_clause && !l->in_combine && l->specialized.n < LIMIT_FUNCTIONS && is_pure(l, fn, 0)
            ? call_key(l, fn, args)
            : NULL;
    return key ? call_function(l, call, fn, args, key) : lower_expand_fn(l, call->loc, fn, args);
}
