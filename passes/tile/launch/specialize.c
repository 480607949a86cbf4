/* specialize: turns what the launch promised into constants.
 *
 *   dim N = 4096 ; out %Y: .. stride [4096, 1]                  const 4096
 *   %n = dim {dim = N} ; %s = stride {axis = 0, param = 1}  ->  const 4096
 *
 * This covers extents of dimensions, strides of tensors, scalar parameters known to have one value, and
 * extents of a constant grid. The program's number on an axis of one program is 0. A derived dimension
 * gets the power of two that divides its expression.
 *
 * Inputs that the launch has converted ahead get the type that they have then (converted_inputs.c).
 *
 * Requires: Func.dims and Func.params as the launch filled them. Keeps: everything. Does not handle: facts
 * short of equality (divisors, ranges), which divisibility.c and narrow.c read at their place. */
#include "passes/tile/analysis/affine.h"
#include "passes/tile/launch/converted_inputs.h"
#include <math.h>

typedef struct Specialize {
    PassContext *c;
    Func *f;
    Facts *facts;
    int64_t n;
} Specialize;

static void put(Specialize *x, Instr *i, int64_t v)
{
    Builder b = ir_before(i);
    const Type *t = i->results[0].type;
    replace_value(&i->results[0], build_int(&b, t, v));
    x->n++;
}

static void specialize_instr(void *user, Instr *i)
{
    Specialize *x = user;
    if (i->op != OP_DIM && i->op != OP_STRIDE && i->op != OP_NUM_PROGRAMS && i->op != OP_PROGRAM_ID) return;
    if (!ir_is_used(i)) return;
    RangeInfo r = value_range(x->facts, &i->results[0]);
    if (r.lo == r.hi) put(x, i, r.lo);
}

static void specialize_params(Specialize *x, Block *b, int first)
{
    for (int k = 0; k < x->f->n_params && k + first < b->n_args; k++) {
        const Param *p = &x->f->params[k];
        Value *v = b->args[k + first];
        if (p->kind != PARAM_SCALAR || !(p->lo == p->hi) || !isfinite(p->lo) || !v->uses) continue;
        bool is_float = dtype_is_float(v->type->dtype);
        /* Do not specialize on zero, because of its sign, or on integers that a double cannot hold. */
        if (is_float ? p->lo == 0 : fabs(p->lo) > 9007199254740992.0) continue;
        Builder at = { .module = x->f->module, .block = b, .before = b->first, .loc = p->loc };
        ir_replace(v, is_float ? build_float(&at, v->type, p->lo) : build_int(&at, v->type, (int64_t)p->lo));
        x->n++;
    }
}

static void specialize_derived(Specialize *x)
{
    for (int d = 0; d < x->f->n_dims; d++) {
        Value *v = ir_dim_value(x->f, d);
        int64_t div = v ? value_range(x->facts, v).div : 1;
        if (div > 1) ir_dim_promise(&x->f->dims[d], div & -div);
    }
}

static bool specialize_func(PassContext *c, Func *f)
{
    Block *roots[FUNC_ROOTS];
    int n = func_roots(f, roots);
    const DType *to = f->is_kernel ? c->options->converted : NULL;
    int64_t converted = to ? convert_inputs(c->session, f, to) : 0;
    Specialize x = { c, f, facts_new(c->scratch, f) };
    specialize_derived(&x);
    for (int k = 0; k < n; k++) {
        specialize_params(&x, roots[k], roots[k] == f->remap);
        ir_walk(roots[k], specialize_instr, &x);
    }
    pass_count(c, "launch facts made constant", x.n);
    if (converted) pass_count(c, "inputs that the launch converted", converted);
    return x.n + converted > 0;
}

bool pass_specialize(PassContext *c, Module *m) { return pass_each_func(c, m, specialize_func); }
