/* inline: replaces calls of device functions by their bodies, and removes the functions.
 *
 *   fn @sq(%x: f32[64]) { %y = mul %x, %x ; return %y }
 *   %b = call @sq(%a)                  ->   %b = mul %a, %a
 *
 * A callee's `dim` and `stride` name its own parameters. The pass renumbers them to the caller's, by the
 * tensor that was passed.
 *
 * Requires: nothing. Keeps: everything, and leaves no `call`. Does not handle: recursion, which is an
 * error that names the function. */
#include "passes/pass.h"

/* How many calls deep one call site may expand: catches recursion, direct or not. */
enum { MAX_DEPTH = 64, MAX_INSTRS = 1 << 18 }; /* the most operations by which one kernel may grow */

static int caller_param(const Instr *call, int param)
{ return param < call->n_operands ? ir_operand(call, param)->index : 0; }

/* Rewrites the parameter and dimension numbers of a copied instruction (nested ones too). */
static void renumber(Session *s, Instr *i, const Func *callee, const Func *caller, const Instr *call)
{
    int64_t n;
    if (i->op == OP_STRIDE || i->op == OP_TOKEN) {
        n = ir_attr_int(i, ATTR_PARAM, 0);
        ir_set_attr(s, i, a_int(ATTR_PARAM, caller_param(call, (int)n)));
    } else if (i->op == OP_DIM) {
        const Dim *d = &callee->dims[ir_attr_int(i, ATTR_DIM, 0)];
        const Param *p = &caller->params[caller_param(call, d->param)];
        ir_set_attr(s, i, a_int(ATTR_DIM, p->dims[d->axis]));
    }
    for (int b = 0; b < i->n_blocks; b++)
        for (Instr *x = i->blocks[b]->first; x; x = x->next) renumber(s, x, callee, caller, call);
}

static int size_of(const Block *b)
{
    int n = 0;
    for (const Instr *i = b->first; i; i = i->next) {
        n++;
        for (int k = 0; k < i->n_blocks; k++) n += size_of(i->blocks[k]);
    }
    return n;
}

static bool inline_call(PassContext *c, Func *caller, Instr *call, int *room)
{
    const Attr *name = ir_attr(call, ATTR_CALLEE);
    const Func *callee = name ? ir_func_find(caller->module, name->s) : NULL;
    const Instr *end = callee ? ir_terminator(callee->body) : NULL;
    if (!callee || !end || end->op != OP_RETURN || end->n_operands != call->n_results ||
        callee->body->n_args != call->n_operands) {
        diag_error(c->session, call->loc,
            "call of `%s`, which is not a function of %d arguments and %d results", name ? name->s : "",
            call->n_operands, call->n_results);
        return false;
    }
    if ((*room -= size_of(callee->body)) < 0) {
        diag_error(c->session, call->loc,
            "`%s` grows by more than %d instructions when its calls are expanded", caller->name, MAX_INSTRS);
        return false;
    }
    ValueMap map;
    value_map_init(&map, c->scratch);
    for (int k = 0; k < call->n_operands; k++)
        value_map_set(&map, callee->body->args[k], ir_operand(call, k));
    Builder b = ir_before(call);
    for (const Instr *i = callee->body->first; i != end; i = i->next)
        renumber(c->session, ir_clone(&b, i, &map), callee, caller, call);
    for (int k = 0; k < call->n_results; k++)
        ir_replace(&call->results[k], value_map_get(&map, ir_operand(end, k)));
    ir_erase(call);
    return true;
}

/* Inlines the calls in the block, one level at a time. Returns the number of calls that it met, -1 after an
 * error. */
static int inline_block(PassContext *c, Func *f, Block *b, int *room)
{
    int n = 0;
    for (Instr *i = b->first, *next; i; i = next) {
        next = i->next;
        for (int k = 0; k < i->n_blocks; k++) {
            int inner = inline_block(c, f, i->blocks[k], room);
            if (inner < 0) return -1;
            n += inner;
        }
        if (i->op != OP_CALL) continue;
        if (!inline_call(c, f, i, room)) return -1;
        n++;
    }
    return n;
}

static bool inline_func(PassContext *c, Func *f)
{
    Block *roots[FUNC_ROOTS];
    int n_roots = func_roots(f, roots), total = 0, room = MAX_INSTRS;
    for (int r = 0; r < n_roots; r++) {
        for (int depth = 0, n = 1; n > 0; depth++) {
            if (depth == MAX_DEPTH) {
                diag_error(c->session, f->loc, "`%s` calls functions more than %d deep; is one recursive?",
                    f->name, MAX_DEPTH);
                return false;
            }
            n = inline_block(c, f, roots[r], &room);
            if (n < 0) return false;
            total += n;
        }
    }
    pass_count(c, "calls inlined", total);
    return total > 0;
}

bool pass_inline(PassContext *c, Module *m)
{
    bool progress = false;
    int errors = c->session->n_errors;
    for (Func *f = m->funcs; f; f = f->next)
        if (f->is_kernel) progress |= inline_func(c, f);
    if (c->session->n_errors > errors) return progress;
    for (Func **f = &m->funcs; *f;) {
        if ((*f)->is_kernel) {
            f = &(*f)->next;
            continue;
        }
        *f = (*f)->next;
        progress = true;
    }
    return progress;
}
