/* interp.c: the run of a kernel, control flow, and element-wise operations. See interp.h. */
#include "ir/interp/interp_impl.h"
#include "ir/interp/eval.h"
#include "ir/analysis/range.h"
#include <math.h>
#include <stdatomic.h>

_Noreturn void interp_stop(Interp *in, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *why = arena_vprintf(&in->s->arena, fmt, ap);
    va_end(ap);
    diag_error(in->s, loc, "%s", why);
    longjmp(in->stop, 1);
}

void interp_count(Interp *in, const Instr *i, int64_t elements)
{
    if (elements > in->steps_left)
        interp_stop(in, i->loc, "the interpreter gave up after %lld steps in @%s",
            (long long)in->opt->max_steps, in->kernel->name);
    in->steps_left -= elements;
}

Scalar *interp_buffer(Interp *in, Loc loc, int64_t n)
{
    if (n > in->bytes_left / (int64_t)sizeof(Scalar))
        interp_stop(in, loc, "the interpreter needs more than %lld bytes for values of @%s",
            (long long)in->opt->max_bytes, in->kernel->name);
    in->bytes_left -= n * (int64_t)sizeof(Scalar);
    return arena_array(&in->arena, Scalar, (size_t)n);
}

Scalar *interp_value(Interp *in, const Value *v)
{
    if (v->id >= in->n_values)
        interp_stop(in, (Loc){ 0 }, "a value of another module in @%s", in->kernel->name);
    Scalar **at = &in->values[v->id];
    if (!*at)
        *at = interp_buffer(
            in, v->def ? v->def->loc : (Loc){ 0 }, type_is_value(v->type) ? type_elements(v->type) : 1);
    return *at;
}

static void copy_value(Interp *in, const Value *to, const Value *from)
{
    if (!type_is_value(to->type) || to == from) return;
    memcpy(interp_value(in, to), interp_value(in, from), (size_t)type_elements(to->type) * sizeof(Scalar));
}

/* to[k] = from[k] for all k at once: a loop may exchange what it carries. */
static void copy_values(Interp *in, Loc loc, Value *const *to, const Use *from, int n)
{
    int64_t total = 0, at = 0;
    for (int k = 0; k < n; k++)
        if (type_is_value(to[k]->type)) total += type_elements(to[k]->type);
    if (total > in->n_stage) {
        in->stage = interp_buffer(in, loc, total);
        in->n_stage = total;
    }
    for (int k = 0; k < n; k++) {
        if (!type_is_value(to[k]->type)) continue;
        int64_t e = type_elements(to[k]->type);
        memcpy(in->stage + at, interp_value(in, from[k].value), (size_t)e * sizeof(Scalar));
        at += e;
    }
    at = 0;
    for (int k = 0; k < n; k++) {
        if (!type_is_value(to[k]->type)) continue;
        int64_t e = type_elements(to[k]->type);
        memcpy(interp_value(in, to[k]), in->stage + at, (size_t)e * sizeof(Scalar));
        at += e;
    }
}

static void copy_to_results(Interp *in, const Instr *i, Value *const *from)
{
    for (int k = 0; k < i->n_results; k++) copy_value(in, &i->results[k], from[k]);
}

static int64_t scalar_operand(Interp *in, const Instr *i, int k)
{ return interp_value(in, ir_operand(i, k))->i; }

static void tell(Interp *in)
{
    if (in->opt->progress)
        atomic_store_explicit(
            &in->opt->progress->steps, in->opt->max_steps - in->steps_left, memory_order_relaxed);
}

/* --- control ----------------------------------------------------------------------------------------- */

static void run_for(Interp *in, const Instr *i)
{
    const Block *b = i->blocks[0];
    DType d = b->args[0]->type->dtype;
    int64_t lo = scalar_operand(in, i, 0), hi = scalar_operand(in, i, 1), step = scalar_operand(in, i, 2);
    bool is_unsigned = !dtype_is_signed(d);
    if (is_unsigned ? step == 0 : step <= 0)
        interp_stop(in, i->loc, "the step of a loop is %lld", (long long)step);
    copy_values(in, i->loc, b->args + 1, i->operands + 3, i->n_results);
    bool some = is_unsigned ? (uint64_t)lo < (uint64_t)hi : lo < hi;
    /* Count in full width, so that a loop to the greatest value of the dtype ends. */
    uint64_t span = (uint64_t)hi - (uint64_t)lo, trips = some ? (span - 1) / (uint64_t)step + 1 : 0;
    for (uint64_t t = 0; t < trips; t++) {
        interp_count(in, i, 1);
        tell(in);
        interp_value(in, b->args[0])->i = (int64_t)((uint64_t)lo + t * (uint64_t)step);
        interp_block(in, b);
        copy_values(in, i->loc, b->args + 1, b->last->operands, i->n_results);
    }
    copy_to_results(in, i, b->args + 1);
}

static void run_while(Interp *in, const Instr *i)
{
    const Block *test = i->blocks[0], *body = i->blocks[1];
    copy_values(in, i->loc, test->args, i->operands, i->n_results);
    for (;;) {
        interp_count(in, i, 1);
        tell(in);
        interp_block(in, test);
        const Use *passed = test->last->operands;
        bool on = scalar_operand(in, test->last, 0) != 0;
        if (!on) {
            for (int k = 0; k < i->n_results; k++) copy_value(in, &i->results[k], passed[k + 1].value);
            return;
        }
        copy_values(in, i->loc, body->args, passed + 1, i->n_results);
        interp_block(in, body);
        copy_values(in, i->loc, test->args, body->last->operands, i->n_results);
    }
}

static void run_if(Interp *in, const Instr *i)
{
    const Block *b = i->blocks[scalar_operand(in, i, 0) ? 0 : 1];
    interp_block(in, b);
    for (int k = 0; k < i->n_results; k++) copy_value(in, &i->results[k], ir_operand(b->last, k));
}

static void run_call(Interp *in, const Instr *i)
{
    const Func *f = ir_func_find(in->kernel->module, ir_attr(i, ATTR_CALLEE)->s);
    if (++in->calls > 64) interp_stop(in, i->loc, "calls nest deeper than 64: @%s calls itself", f->name);
    for (int k = 0; k < f->n_params; k++) {
        if (f->params[k].type->kind == TYPE_TENSOR)
            interp_stop(in, i->loc, "the interpreter does not pass tensors to functions (@%s)", f->name);
        copy_value(in, f->body->args[k], ir_operand(i, k));
    }
    interp_block(in, f->body);
    for (int k = 0; k < i->n_results; k++) copy_value(in, &i->results[k], ir_operand(f->body->last, k));
    in->calls--;
}

/* --- element-wise operations and values of the launch ------------------------------------------------ */

static bool run_elementwise(Interp *in, const Instr *i)
{
    if (!(op_info[i->op].flags & OPF_ELEM)) return false;
    const Value *r = &i->results[0];
    int64_t n = type_elements(r->type);
    Scalar *out = interp_value(in, r), *v[3] = { NULL, NULL, NULL };
    DType from = ir_operand(i, 0)->type->dtype, to = r->type->dtype;
    interp_count(in, i, n);
    for (int k = 0; k < i->n_operands && k < 3; k++) v[k] = interp_value(in, ir_operand(i, k));
    if (i->op == OP_CAST) {
        for (int64_t k = 0; k < n; k++) out[k] = scalar_cast(to, from, v[0][k]);
        return true;
    }
    if (i->op == OP_BITCAST) {
        for (int64_t k = 0; k < n; k++) out[k] = scalar_bitcast(to, from, v[0][k]);
        return true;
    }
    DType d = i->op == OP_WHERE ? to : from;
    for (int64_t k = 0; k < n; k++) {
        Scalar x[3] = { v[0][k], v[1] ? v[1][k] : v[0][k], v[2] ? v[2][k] : v[0][k] };
        if (!scalar_op(i->op, d, x, &out[k])) return false;
    }
    return true;
}

static int64_t launch_value(Interp *in, const Instr *i)
{
    int64_t axis = ir_attr_int(i, ATTR_AXIS, 0);
    switch (op_as_launch(i->op)) {
    case LAUNCH_DIM: return in->dims[ir_attr_int(i, ATTR_DIM, 0)];
    case LAUNCH_STRIDE: return in->args[ir_attr_int(i, ATTR_PARAM, 0)].stride[axis];
    case LAUNCH_PROGRAM_ID: return in->coord[axis];
    case LAUNCH_NUM_PROGRAMS: return axis < 0 ? in->n_programs : in->grid[axis];
    }
    interp_stop(in, i->loc, "%s is no number of the launch", op_info[i->op].name);
}

static void run_const(Interp *in, const Instr *i)
{
    DType d = i->results[0].type->dtype;
    Scalar *out = interp_value(in, &i->results[0]);
    if (dtype_is_float(d)) out->f = ir_attr(i, ATTR_FVALUE)->f;
    else out->i = ir_attr(i, ATTR_IVALUE)->i;
}

static void run_control(Interp *in, const Instr *i)
{
    switch (op_as_control(i->op)) {
    case CONTROL_FOR: run_for(in, i); return;
    case CONTROL_WHILE: run_while(in, i); return;
    case CONTROL_IF: run_if(in, i); return;
    }
}

static void run_instr(Interp *in, const Instr *i)
{
    switch (op_family(i->op)) {
    case OPS_CONSTANT: run_const(in, i); return;
    case OPS_LAUNCH: interp_value(in, &i->results[0])->i = launch_value(in, i); return;
    case OPS_TOKEN:
    case OPS_TERMINATOR: return;
    case OPS_CONTROL: run_control(in, i); return;
    case OPS_CALL: run_call(in, i); return;
    case OPS_MESSAGE: interp_message(in, i); return;
    case OPS_ARITHMETIC:
    case OPS_BITS:
    case OPS_COMPARE:
    case OPS_SELECT:
    case OPS_FUNCTION:
    case OPS_CONVERSION:
    case OPS_RANDOM:
        if (run_elementwise(in, i)) return;
        break;
    case OPS_SHAPE:
        if (interp_shape_op(in, i)) return;
        break;
    case OPS_REDUCE:
    case OPS_ARG:
    case OPS_COMBINED:
    case OPS_SCAN:
    case OPS_SORT:
    case OPS_PRODUCT:
        if (interp_reduce_op(in, i)) return;
        break;
    case OPS_MEMORY:
        if (interp_mem_op(in, i)) return;
        break;
    case OPS_REGISTERS:
    case OPS_SHARED:
    case OPS_RING:
    case OPS_ROLES:
    case OPS_ORDER:
    case OPS_PLACE:
    case OPS_COLLECTIVE: break;
    }
    interp_stop(in, i->loc, "the interpreter does not run %s", op_info[i->op].name);
}

static void report(Interp *in, const Value *v)
{
    if (type_is_value(v->type)) in->opt->on_value(in->opt->on_value_user, v, interp_value(in, v));
}

void interp_block(Interp *in, const Block *b)
{
    for (int k = 0; k < b->n_args && in->opt->on_value; k++) report(in, b->args[k]);
    for (const Instr *i = b->first; i; i = i->next) {
        interp_count(in, i, 1);
        run_instr(in, i);
        for (int k = 0; k < i->n_results && in->opt->on_value; k++) report(in, &i->results[k]);
    }
}

/* --- the launch -------------------------------------------------------------------------------------- */

static const char *dim_name(Interp *in, int k)
{
    const Dim *d = &in->kernel->dims[k];
    return d->name ? d->name : d->text ? d->text : arena_printf(&in->s->arena, "#%d", k);
}

static void bind_dims(Interp *in)
{
    const Func *f = in->kernel;
    in->dims = arena_array(&in->arena, int64_t, (size_t)f->n_dims);
    for (int k = 0; k < f->n_dims; k++) in->dims[k] = f->dims[k].extent;
    for (int p = 0; p < f->n_params; p++) {
        const Param *q = &f->params[p];
        if (q->type->kind != TYPE_TENSOR) continue;
        for (int a = 0; a < q->type->rank; a++) {
            int64_t e = in->args[p].shape[a], *d = &in->dims[q->dims[a]];
            if (e < 0)
                interp_stop(in, q->loc, "the extent of axis %d of %s is %lld", a, q->name, (long long)e);
            if (*d < 0) *d = e;
            if (*d != e)
                interp_stop(in, q->loc, "dimension %s is %lld, but axis %d of %s has %lld",
                    dim_name(in, q->dims[a]), (long long)*d, a, q->name, (long long)e);
        }
    }
    for (int k = 0; k < f->n_dims; k++) {
        if (in->dims[k] < 0) interp_stop(in, f->loc, "dimension %s is not known", dim_name(in, k));
        if (in->dims[k] % f->dims[k].div)
            interp_stop(in, f->loc, "dimension %s is %lld, promised a multiple of %lld", dim_name(in, k),
                (long long)in->dims[k], (long long)f->dims[k].div);
        if (f->dims[k].most > 0 && (in->dims[k] < 1 || in->dims[k] > f->dims[k].most))
            interp_stop(in, f->loc, "dimension %s is %lld, promised from 1 to %lld", dim_name(in, k),
                (long long)in->dims[k], (long long)f->dims[k].most);
    }
}

static void check_tensor(Interp *in, int p)
{
    const Param *q = &in->kernel->params[p];
    const InterpArg *a = &in->args[p];
    int64_t elements = 1, reach = 0;
    /* An optional tensor that is not given has no elements in any launch, and nothing is promised about it.
     */
    const Dim *first = q->type->rank ? &in->kernel->dims[q->dims[0]] : NULL;
    if (first && !first->name && first->extent == 0) return;
    for (int k = 0; k < q->type->rank; k++) {
        int64_t st = a->stride[k], span;
        if (q->stride[k] != FACT_UNKNOWN && st != q->stride[k])
            interp_stop(in, q->loc, "the stride of axis %d of %s is %lld, promised %lld", k, q->name,
                (long long)st, (long long)q->stride[k]);
        if (st % q->stride_div[k])
            interp_stop(in, q->loc, "the stride of axis %d of %s is %lld, promised a multiple of %lld", k,
                q->name, (long long)st, (long long)q->stride_div[k]);
        if (a->shape[k] == 0) elements = 0;
        if (elements && (__builtin_mul_overflow(a->shape[k] - 1, st < 0 ? -st : st, &span) ||
                            __builtin_add_overflow(reach, span, &reach) || reach > INT64_MAX / 16))
            interp_stop(in, q->loc, "%s spans more memory than there is", q->name);
        if (in->kernel->fits32 && (a->shape[k] < 1 || a->shape[k] >= FITS32_EXTENT))
            interp_stop(
                in, q->loc, "the extent of axis %d of %s is not from 1 to 2^28, as promised", k, q->name);
        if (in->kernel->fits32 && st < 0 && a->shape[k] > 1)
            interp_stop(
                in, q->loc, "the stride of axis %d of %s is negative, against what was promised", k, q->name);
        if (in->kernel->extents31 && a->shape[k] > INT32_MAX)
            interp_stop(in, q->loc, "the extent of axis %d of %s is not below 2^31, as promised", k, q->name);
    }
    if (!elements) return;
    if (in->kernel->fits32 && reach * dtype_bytes(q->type->dtype) > INT32_MAX)
        interp_stop(in, q->loc, "offsets of %s do not fit 32 bits, as promised", q->name);
    if (!a->data) interp_stop(in, q->loc, "%s has no data", q->name);
    if ((uintptr_t)a->data % (uintptr_t)q->align)
        interp_stop(in, q->loc, "%s is not aligned to %lld bytes, as promised", q->name, (long long)q->align);
}

static void bind_args(Interp *in, const Block *b, int from)
{
    const Func *f = in->kernel;
    for (int p = 0; p < f->n_params; p++) {
        const Param *q = &f->params[p];
        if (q->type->kind == TYPE_TENSOR) continue;
        DType d = q->type->dtype;
        Scalar v = in->args[p].scalar;
        if (dtype_is_float(d)) v.f = scalar_exact(d, v.f) ? v.f : scalar_round(d, v.f);
        else v.i = scalar_wrap(d, v.i);
        double x = dtype_is_float(d) ? v.f : (double)v.i;
        if (x < q->lo || x > q->hi)
            interp_stop(in, q->loc, "%s is %g, promised in [%g, %g]", q->name, x, q->lo, q->hi);
        *interp_value(in, b->args[from + p]) = v;
    }
}

/* The extents that the launch derives are those that the tensors have. */
static void check_extents(Interp *in)
{
    const Func *f = in->kernel;
    if (!f->extents) return;
    bind_args(in, f->extents, 0);
    interp_block(in, f->extents);
    for (int k = 0; k < f->n_dims; k++) {
        const Value *v = ir_dim_value(f, k);
        const Dim *d = &f->dims[k];
        int64_t wanted = v ? interp_value(in, v)->i : in->dims[k];
        if (wanted != in->dims[k])
            interp_stop(in, f->params[d->param].loc, "axis %d of %s (%s) has %lld elements, not %lld",
                d->axis, f->params[d->param].name, d->text, (long long)in->dims[k], (long long)wanted);
    }
}

static void find_grid(Interp *in)
{
    const Func *f = in->kernel;
    bind_args(in, f->grid, 0);
    interp_block(in, f->grid);
    int axes = f->grid->last->n_operands;
    for (int k = 0; k < 3; k++) {
        in->grid[k] = k < axes ? interp_value(in, ir_operand(f->grid->last, k))->i : 1;
        if (in->grid[k] < 0)
            interp_stop(in, f->loc, "axis %d of the grid is %lld", k, (long long)in->grid[k]);
        in->opt->grid[k] = in->grid[k];
    }
    char text[EVAL_GRID_TEXT];
    if (!eval_grid_size(in->grid, axes, &in->n_programs))
        interp_stop(in, f->loc, "the grid of %s is too large; at most %d programs run in one launch",
            eval_grid_text(in->grid, axes, text), RANGE_MAX_PROGRAMS);
}

static int64_t remapped(Interp *in, int64_t w)
{
    const Block *b = in->kernel->remap;
    if (!b) return w;
    interp_value(in, b->args[0])->i = w;
    interp_block(in, b);
    int64_t r = interp_value(in, ir_operand(b->last, 0))->i;
    if (r < 0 || r >= in->n_programs)
        interp_stop(in, in->kernel->loc, "the remap sends program %lld of %lld to %lld", (long long)w,
            (long long)in->n_programs, (long long)r);
    return r;
}

static void run_programs(Interp *in)
{
    bind_dims(in);
    for (int p = 0; p < in->kernel->n_params; p++)
        if (in->kernel->params[p].type->kind == TYPE_TENSOR) check_tensor(in, p);
    check_extents(in);
    find_grid(in);
    bind_args(in, in->kernel->body, 0);
    if (in->kernel->remap) bind_args(in, in->kernel->remap, 1);
    int64_t first = in->opt->first, end = in->opt->count ? first + in->opt->count : in->n_programs;
    InterpProgress *p = in->opt->progress;
    if (p) atomic_store(&p->total, (end < in->n_programs ? end : in->n_programs) - first);
    for (int64_t w = first; w < end && w < in->n_programs; w++) {
        in->program = in->opt->program = remapped(in, w);
        in->coord[0] = in->program % in->grid[0];
        in->coord[1] = in->program / in->grid[0] % in->grid[1];
        in->coord[2] = in->program / in->grid[0] / in->grid[1];
        interp_block(in, in->kernel->body);
        tell(in);
        if (p) atomic_store_explicit(&p->done, w + 1 - first, memory_order_relaxed);
    }
}

static void free_arena(void *a) { arena_free(a); }

/* The arguments as the code sees them: axes that it has as one (Param.joined_from). */
static const InterpArg *joined_args(Session *s, const Func *f, const InterpArg *args)
{
    InterpArg *to = NULL;
    for (int p = 0; p < f->n_params; p++) {
        const Param *q = &f->params[p];
        if (q->joined_from >= q->joined_to) continue;
        if (!to) {
            to = arena_array(&s->arena, InterpArg, (size_t)f->n_params);
            memcpy(to, args, (size_t)f->n_params * sizeof *to);
        }
        for (int a = q->joined_from; a < q->joined_to; a++) {
            if (args[p].stride[a] != args[p].shape[a + 1] * args[p].stride[a + 1])
                diag_error(
                    s, q->loc, "axes %d and %d of %s are not one axis, as promised", a, a + 1, q->name);
            to[p].shape[q->joined_to] *= args[p].shape[a];
            to[p].shape[a] = 1;
        }
    }
    return to ? to : args;
}

bool interp_run_with(Session *s, const Func *f, const InterpArg *args, int n, InterpOptions *opt)
{
    if (!f->is_kernel || !f->grid || n != f->n_params) {
        diag_error(s, f->loc, "@%s takes %d arguments, given %d", f->name, f->n_params, n);
        return false;
    }
    Interp *in = arena_new(&s->arena, Interp);
    if (!opt->max_steps) opt->max_steps = 1ll << 32;
    if (!opt->max_bytes) opt->max_bytes = 1ll << 32;
    *in = (Interp){ .s = s,
        .kernel = f,
        .args = joined_args(s, f, args),
        .opt = opt,
        .steps_left = opt->max_steps,
        .bytes_left = opt->max_bytes };
    arena_init(&in->arena, s->arena.alloc, &s->oom);
    session_defer(s, free_arena, &in->arena);
    in->n_values = f->module->next_id;
    in->values = arena_array(&in->arena, Scalar *, in->n_values);
    bool ok = setjmp(in->stop) == 0;
    if (ok) run_programs(in);
    opt->steps = opt->max_steps - in->steps_left;
    arena_free(&in->arena);
    return ok;
}

bool interp_run(Session *s, const Func *f, const InterpArg *args, int n)
{
    InterpOptions opt = { 0 };
    return interp_run_with(s, f, args, n, &opt);
}
