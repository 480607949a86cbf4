/* verify.c: whether a module is well-formed IR. Each breach is an error at the instruction's place with the
 * printed instruction as its note; one breach an instruction is reported. Besides the type rule of each
 * operation, the verifier checks:
 *
 * - functions: parameters match the body's arguments; facts are consistent; grid and remap have their shape
 *   and compute scalars without memory;
 * - blocks: one terminator, at the end, of the kind the surrounding operation asks for;
 * - values: defined before use in the same block or in one around it, in the same function, use lists intact,
 *   unique ids;
 * - memory: operations on out and inout tensors are on a token chain, those on `in` tensors are loads without
 *   one; no token is the memory state of two operations on one path; loops carry the tokens they use;
 * - products in flight (kernel IR) are waited for before anything else uses them (flight.c);
 * - roles (kernel IR) agree on their programs and rings (roles.c), give back once each stage that they take,
 * on every path (verify_rings.c), fill and take each stage as often as the others do, and never wait for each
 *   other for ever (ring_stages.c);
 * - barriers (OPF_BARRIER, kernel IR) stand only under conditions that no divergent operation (OPF_DIVERGENT)
 *   feeds.
 *
 * Uses the `mark` of instructions. */
#include "ir/interp/scalar.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"

typedef enum Place { IN_BODY, IN_GRID, IN_REMAP, IN_COMBINE, IN_EXTENTS } Place;

void verify_breach(Verifier *v, const Instr *i, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *why = arena_vprintf(&v->s->arena, fmt, ap);
    va_end(ap);
    v->ok = false;
    v->breaches++;
    Diag *d = diag_error(v->s, i ? i->loc : v->func->loc, "invalid IR in @%s: %s", v->func->name, why);
    if (!d || !i) return;
    Text line;
    text_init(&line, &v->s->arena);
    ir_print_instr(i, &line);
    diag_note(v->s, d, (Loc){ 0 }, "%s", line.data);
}

static bool is_identifier(const char *s)
{
    if (!s || !irtext_name_start(*s)) return false;
    while (irtext_name_char(*s)) s++;
    return !*s;
}

/* --- functions --------------------------------------------------------------------------------------- */

static void check_dim(Verifier *v, int k)
{
    const Func *f = v->func;
    const Dim *d = &f->dims[k];
    const char *name = d->name ? d->name : arena_printf(&v->s->arena, "#%d", k);
    BREACH_IF(d->name && !is_identifier(d->name), NULL, "the dimension `%s` has no valid name", d->name);
    for (int j = 0; j < k; j++)
        BREACH_IF(d->name && f->dims[j].name && !strcmp(d->name, f->dims[j].name), NULL,
            "two dimensions are named %s", d->name);
    BREACH_IF(d->extent < -1, NULL, "the extent of dimension %s is %lld", name, (long long)d->extent);
    BREACH_IF(d->text && d->name, NULL, "the dimension %s is derived and has a name", name);
    BREACH_IF(
        !d->name && !d->text && d->extent < 0, NULL, "the dimension %s has neither name nor extent", name);
    BREACH_IF(d->div < 1 || (d->extent > 0 && d->extent % d->div), NULL,
        "the divisor of dimension %s is %lld", name, (long long)d->div);
    if (d->param < 0) {
        BREACH_IF(f->is_kernel && d->extent < 0, NULL, "the launch cannot know dimension %s", name);
        return;
    }
    const Param *p = d->param < f->n_params ? &f->params[d->param] : NULL;
    BREACH_IF(!p || p->type->kind != TYPE_TENSOR || d->axis < 0 || d->axis >= p->type->rank ||
                  p->dims[d->axis] != k,
        NULL, "dimension %s is not axis %d of parameter %d", name, d->axis, d->param);
}

static void check_param(Verifier *v, int k)
{
    const Func *f = v->func;
    const Param *p = &f->params[k];
    BREACH_IF(!is_identifier(p->name), NULL, "parameter %d has no valid name", k);
    BREACH_IF(!p->type, NULL, "parameter %s has no type", p->name);
    for (int j = 0; j < k; j++)
        BREACH_IF(!strcmp(p->name, f->params[j].name), NULL, "two parameters are named %s", p->name);
    bool tensor = p->type->kind == TYPE_TENSOR;
    BREACH_IF(tensor == (p->kind == PARAM_SCALAR) && (f->is_kernel || tensor), NULL,
        "parameter %s is %s, which does not fit its kind", p->name, type_string(v->s, p->type));
    BREACH_IF(f->is_kernel && !tensor && p->type->kind != TYPE_SCALAR, NULL,
        "parameter %s is %s, must be a tensor or a scalar", p->name, type_string(v->s, p->type));
    BREACH_IF(!(p->lo <= p->hi), NULL, "the range of parameter %s is empty", p->name);
    if (!tensor) return;
    int64_t size = dtype_bytes(p->type->dtype);
    BREACH_IF(p->align < size || (p->align & (p->align - 1)), NULL, "the alignment of parameter %s is %lld",
        p->name, (long long)p->align);
    for (int a = 0; a < p->type->rank; a++) {
        BREACH_IF(p->dims[a] < 0 || p->dims[a] >= f->n_dims, NULL, "axis %d of parameter %s has no dimension",
            a, p->name);
        BREACH_IF(p->stride_div[a] < 1 || (p->stride[a] != FACT_UNKNOWN && p->stride[a] % p->stride_div[a]),
            NULL, "the stride of axis %d of parameter %s does not have the divisor %lld", a, p->name,
            (long long)p->stride_div[a]);
    }
}

/* A block that the launch evaluates: the kernel's arguments behind `own_args` of its own, and from `least` to
 * `most` indices as its values. */
static void check_launch_block(
    Verifier *v, const Block *b, const char *what, int own_args, int least, int most)
{
    const Func *f = v->func;
    BREACH_IF(b->n_args != f->n_params + own_args, NULL, "the %s has %d arguments, must be %d", what,
        b->n_args, f->n_params + own_args);
    for (int k = 0; k < b->n_args; k++) {
        const Type *t = k < own_args ? type_scalar(v->s, DT_INDEX) : f->params[k - own_args].type;
        BREACH_IF(b->args[k]->type != t, NULL, "argument %d of the %s is %s, must be %s", k, what,
            type_string(v->s, b->args[k]->type), type_string(v->s, t));
    }
    const Instr *y = b->last;
    if (!y || y->op != OP_YIELD) return; /* reported with the block */
    BREACH_IF(y->n_operands < least || y->n_operands > most, y, "the %s yields %d values, must be %d%s", what,
        y->n_operands, least, least == most ? "" : arena_printf(&v->s->arena, " to %d", most));
    for (int k = 0; k < y->n_operands; k++)
        BREACH_IF(ir_operand(y, k)->type != type_scalar(v->s, DT_INDEX), y, "the %s yields %s, must be index",
            what, type_string(v->s, ir_operand(y, k)->type));
}

/* --- values ------------------------------------------------------------------------------------------ */

static int number_block(const Block *b, int n)
{
    for (Instr *i = b->first; i; i = i->next) {
        i->mark = (uint32_t)n++;
        for (int k = 0; k < i->n_blocks; k++) n = number_block(i->blocks[k], n);
    }
    return n;
}

/* The instruction of block `b` that is `i` or holds it; NULL when `i` is not inside. */
static const Instr *enclosing_in(const Block *b, const Instr *i)
{
    while (i && i->block != b) i = i->block ? i->block->parent : NULL;
    return i;
}

static const char *use_fault(const Verifier *v, const Instr *i, int k)
{
    const Use *u = &i->operands[k];
    const Value *x = u->value;
    if (!x) return "is missing";
    if (u->user != i || !u->prev || *u->prev != u) return "is not on its value's list of uses";
    if (!x->type || x->type->kind == TYPE_ERROR) return "has no type";
    const Block *home = x->def ? x->def->block : x->block;
    if (!home) return "is the result of an instruction that was removed";
    if (home->func != v->func) return "belongs to another function";
    const Instr *here = enclosing_in(home, i);
    if (!here) return "is not visible here";
    if (x->def && (here == x->def || here->mark < x->def->mark)) return "is used before its definition";
    return NULL;
}

static void check_id(Verifier *v, const Instr *i, const Value *x)
{
    BREACH_IF(!x->type || x->type->kind == TYPE_ERROR, i, "the value %%%u has no type", x->id);
    BREACH_IF(x->id >= v->module->next_id, i, "the id of value %%%u was never given out", x->id);
    BREACH_IF(v->ids[x->id / 64] >> (x->id % 64) & 1, i, "two values have the id %%%u", x->id);
    v->ids[x->id / 64] |= 1ull << (x->id % 64);
    if (x->type->kind != TYPE_TILE && x->type->kind != TYPE_SHARED) return;
    int64_t n = 1;
    for (int k = 0; k < x->type->rank; k++) {
        int64_t e = x->type->shape[k];
        BREACH_IF(e < 1 || e > INT32_MAX || n > ((int64_t)1 << 40) / e, i,
            "the extents of value %%%u are out of range", x->id);
        n *= e;
    }
}

/* --- instructions ------------------------------------------------------------------------------------ */

static void check_call(Verifier *v, const Instr *i)
{
    const Attr *a = ir_attr(i, ATTR_CALLEE);
    const Func *f = a ? ir_func_find(v->module, a->s) : NULL;
    BREACH_IF(!a, i, "the attribute callee is missing");
    BREACH_IF(!f || f->is_kernel, i, "there is no device function @%s", a->s);
    BREACH_IF(i->n_operands != f->n_params || i->n_results != f->n_results, i,
        "@%s takes %d values and gives %d", f->name, f->n_params, f->n_results);
    for (int k = 0; k < f->n_params; k++)
        BREACH_IF(ir_operand(i, k)->type != f->params[k].type, i, "operand %d is %s, must be %s", k,
            type_string(v->s, ir_operand(i, k)->type), type_string(v->s, f->params[k].type));
    for (int k = 0; k < f->n_results; k++)
        BREACH_IF(i->results[k].type != f->results[k], i, "result %d is %s, must be %s", k,
            type_string(v->s, i->results[k].type), type_string(v->s, f->results[k]));
}

static void check_const(Verifier *v, const Instr *i)
{
    DType d = i->results[0].type->dtype;
    if (dtype_is_float(d)) {
        double f = ir_attr(i, ATTR_FVALUE)->f;
        BREACH_IF(!scalar_exact(d, f), i, "the value is not exact in %s", dtype_name(d));
    } else {
        int64_t n = ir_attr_int(i, ATTR_IVALUE, 0);
        BREACH_IF(scalar_wrap(d, n) != n, i, "the value does not fit %s", dtype_name(d));
    }
}

/* References to parameters, dimensions and grid axes. */
static void check_launch_value(Verifier *v, const Instr *i)
{
    const Func *f = v->func;
    const Attr *dim = ir_attr(i, ATTR_DIM), *param = ir_attr(i, ATTR_PARAM), *axis = ir_attr(i, ATTR_AXIS);
    if (i->op == OP_DIM)
        BREACH_IF(!dim || dim->i < 0 || dim->i >= f->n_dims, i, "there is no such dimension");
    if (i->op == OP_STRIDE) {
        const Param *p = param && param->i >= 0 && param->i < f->n_params ? &f->params[param->i] : NULL;
        BREACH_IF(!p || p->type->kind != TYPE_TENSOR, i, "there is no such tensor parameter");
        BREACH_IF(!axis || axis->i < 0 || axis->i >= p->type->rank, i, "%s has no such axis", p->name);
    }
    if (i->op == OP_TOKEN) {
        const Param *p = param && param->i >= 0 && param->i < f->n_params ? &f->params[param->i] : NULL;
        BREACH_IF(!p || (p->kind != PARAM_OUT && p->kind != PARAM_INOUT), i,
            "there is no such out or inout parameter");
    }
    if (i->op == OP_PROGRAM_ID || i->op == OP_NUM_PROGRAMS) {
        const Instr *y = f->grid ? f->grid->last : NULL;
        int axes = y && y->op == OP_YIELD ? y->n_operands : 3;
        BREACH_IF(!f->is_kernel, i, "%s outside a kernel", op_info[i->op].name);
        BREACH_IF(!axis || axis->i < (i->op == OP_NUM_PROGRAMS ? -1 : 0) || axis->i >= axes, i,
            "the grid has no such axis");
    }
}

static void check_place(Verifier *v, const Instr *i, Place place)
{
    static const char *const names[] = { "the body", "the grid", "the remap", "a combining block",
        "the extents" };
    if (place == IN_BODY) return;
    if (place == IN_COMBINE) { /* straight-line, so that it can be run on many elements at once */
        BREACH_IF(i->op != OP_CONST && i->op != OP_YIELD && !(op_info[i->op].flags & OPF_ELEM), i,
            "%s does not belong in a combining block, which is element-wise", op_info[i->op].name);
    }
    bool control =
        i->op == OP_FOR || i->op == OP_WHILE || i->op == OP_IF || (op_info[i->op].flags & OPF_TERM);
    BREACH_IF(!control && !(op_info[i->op].flags & OPF_PURE), i, "%s does not belong in %s",
        op_info[i->op].name, names[place]);
    BREACH_IF(i->op == OP_PROGRAM_ID || (place != IN_REMAP && i->op == OP_NUM_PROGRAMS) ||
                  (place == IN_EXTENTS && i->op == OP_STRIDE),
        i, "%s does not belong in %s", op_info[i->op].name, names[place]);
    BREACH_IF(
        place == IN_EXTENTS && i->op == OP_DIM && ir_dim_value(v->func, (int)ir_attr_int(i, ATTR_DIM, -1)), i,
        "the extents depend on one that is derived");
    for (int k = 0; k < i->n_results; k++)
        BREACH_IF(i->results[k].type->kind != TYPE_SCALAR, i, "%s computes scalars only, not %s",
            names[place], type_string(v->s, i->results[k].type));
}

static void check_flights(Verifier *v)
{
    int k = 0;
    const Instr *i = ir_flight_fault(v->s, v->func, &k);
    BREACH_IF(i, i, "operand %d may be a product in flight, which wgmma_wait has not handed on", k);
    i = ir_operand_fault(v->s, v->func);
    BREACH_IF(
        i, i, "the registers of operand 0 may be written before a wgmma_wait has handed on the product");
}

static void check_held(Verifier *v)
{
    int k = 0;
    const Instr *i = ir_held_fault(v->func, &k);
    BREACH_IF(i, i, "operand %d is in no registers: a materialize must put it there", k);
}

static void check_roles(Verifier *v)
{
    const char *why;
    const Instr *i = ir_roles_fault(v->func, &why);
    BREACH_IF(i, i, "%s", why);
    verify_rings(v);
    if (!v->ok) return;
    i = ir_stages_fault(v->s, v->func, &why);
    BREACH_IF(i, i, "%s", why);
}

static void check_block(Verifier *v, const Block *b, Op terminator, Place place, int depth);

static Op terminator_of(const Instr *i, int block)
{ return i->op == OP_WHILE && block == 0 ? OP_CONDITION : OP_YIELD; }

/* Before layouts are chosen a load may have tiles of positions as offsets: gather-windows makes such loads,
 * and warp-specialization and shared turn them into copies. */
static bool has_positions(const Verifier *v, const Instr *i)
{
    MemParts m;
    bool tile = false;
    if (v->laid_out || i->op != OP_LOAD || !ir_mem_parts(i, &m)) return false;
    for (int a = 0; a < m.rank; a++)
        tile |= m.idx[a]->type->kind == TYPE_TILE && dtype_is_int(m.idx[a]->type->dtype);
    return tile;
}

static void check_instr(Verifier *v, const Instr *i, Place place)
{
    for (int k = 0; k < i->n_operands; k++) {
        const char *why = use_fault(v, i, k);
        BREACH_IF(why, i, "operand %d %s", k, why);
    }
    for (int k = 0; k < i->n_attrs; k++)
        for (int j = 0; j < k; j++)
            BREACH_IF(i->attrs[j].key == i->attrs[k].key, i, "the attribute %s stands twice",
                attr_info[i->attrs[k].key].name);
    const Attr *range = ir_attr(i, ATTR_RANGE);
    BREACH_IF(range && (range->n != 2 || range->v[0] > range->v[1]), i, "the range must be [lo, hi]");
    for (int k = 0; k < i->n_results; k++) BREACH_IF(!i->results[k].type, i, "result %d has no type", k);
    const char *why = has_positions(v, i) ? NULL : ir_check(v->s, i);
    BREACH_IF(why, i, "%s: %s", op_info[i->op].name, why);
    for (int k = 0; k < i->n_results; k++) check_id(v, i, &i->results[k]);
    int before = v->breaches;
    check_place(v, i, place);
    if (v->breaches == before) check_launch_value(v, i);
    if (v->breaches == before) verify_memory(v, i);
    if (v->breaches == before && i->op == OP_CONST) check_const(v, i);
    if (v->breaches == before && i->op == OP_CALL) check_call(v, i);
    for (int k = 0; k < i->n_results && v->breaches == before; k++)
        if (i->results[k].type->kind == TYPE_TOKEN) verify_token(v, &i->results[k]);
}

static bool check_shape_of_block(Verifier *v, const Block *b, Op terminator)
{
    const Instr *last = b->last, *prev = NULL;
    if (!last || last->op != terminator) {
        verify_breach(v, last ? last : b->parent, "a block must end in %s", op_info[terminator].name);
        return false;
    }
    for (const Instr *i = b->first; i; prev = i, i = i->next) {
        if (i->block != b || i->prev != prev) {
            verify_breach(v, i, "the instruction is not linked into its block");
            return false;
        }
        if ((op_info[i->op].flags & OPF_TERM) && i != last) {
            verify_breach(v, i, "%s stands before the end of its block", op_info[i->op].name);
            return false;
        }
    }
    return true;
}

static void check_block(Verifier *v, const Block *b, Op terminator, Place place, int depth)
{
    if (depth > IR_MAX_NESTING) {
        verify_breach(v, b->parent, "blocks nest deeper than %d", IR_MAX_NESTING);
        return;
    }
    for (int k = 0; k < b->n_args; k++) {
        check_id(v, b->parent, b->args[k]);
        if (b->args[k]->type && b->args[k]->type->kind == TYPE_TOKEN) verify_token(v, b->args[k]);
    }
    if (!check_shape_of_block(v, b, terminator)) return;
    for (const Instr *i = b->first; i && !diag_full(v->s); i = i->next) {
        int before = v->breaches;
        check_instr(v, i, place);
        if (v->breaches != before) continue; /* what is inside would only repeat it */
        Place inner = i->op == OP_REDUCE || i->op == OP_SCAN ? IN_COMBINE : place;
        for (int k = 0; k < i->n_blocks; k++) {
            if (i->blocks[k]->parent != i || i->blocks[k]->func != v->func) {
                verify_breach(v, i, "block %d belongs elsewhere", k);
                continue;
            }
            check_block(v, i->blocks[k], terminator_of(i, k), inner, depth + 1);
        }
    }
}

static void check_return(Verifier *v)
{
    const Func *f = v->func;
    const Instr *r = f->body->last;
    if (!r || r->op != OP_RETURN) return;
    BREACH_IF(
        r->n_operands != f->n_results, r, "%d values returned, must be %d", r->n_operands, f->n_results);
    for (int k = 0; k < f->n_results; k++)
        BREACH_IF(ir_operand(r, k)->type != f->results[k], r, "value %d is %s, must be %s", k,
            type_string(v->s, ir_operand(r, k)->type), type_string(v->s, f->results[k]));
}

/* The block of extents yields one value for each derived dimension. */
static void check_extents(Verifier *v)
{
    const Func *f = v->func;
    int derived = 0;
    for (int k = 0; k < f->n_dims; k++) derived += f->dims[k].text != NULL;
    BREACH_IF(derived && !f->extents, NULL, "a dimension is derived, and there is no block of extents");
    BREACH_IF(!derived && f->extents, NULL, "there is a block of extents, and no dimension is derived");
    if (!f->extents) return;
    check_block(v, f->extents, OP_YIELD, IN_EXTENTS, 0);
    if (v->ok) check_launch_block(v, f->extents, "block of extents", 0, derived, derived);
}

static void check_func(Verifier *v)
{
    const Func *f = v->func;
    BREACH_IF(!is_identifier(f->name), NULL, "the function has no valid name");
    BREACH_IF(ir_func_find(v->module, f->name) != f, NULL, "two functions are named %s", f->name);
    BREACH_IF(f->is_kernel && f->n_results, NULL, "a kernel returns nothing");
    BREACH_IF(f->is_kernel && !f->grid, NULL, "a kernel needs a grid");
    BREACH_IF(!f->is_kernel && (f->grid || f->remap || f->extents), NULL, "a device function has no grid");
    BREACH_IF(f->body->n_args != f->n_params, NULL, "the body has %d arguments, but there are %d parameters",
        f->body->n_args, f->n_params);
    for (int k = 0; k < f->n_params; k++) {
        check_param(v, k);
        BREACH_IF(f->body->args[k]->type != f->params[k].type, NULL,
            "argument %d of the body is not of the type of %s", k, f->params[k].name);
    }
    for (int k = 0; k < f->n_dims; k++) check_dim(v, k);
    if (!v->ok) return;
    int n = number_block(f->body, 1);
    if (f->grid) n = number_block(f->grid, n);
    if (f->remap) n = number_block(f->remap, n);
    if (f->extents) number_block(f->extents, n);
    check_block(v, f->body, OP_RETURN, IN_BODY, 0);
    if (v->ok) check_return(v);
    if (v->ok) verify_barriers(v);
    if (v->ok) verify_late(v);
    if (v->ok) check_flights(v);
    if (v->ok && v->laid_out) check_held(v);
    if (v->ok) check_roles(v);
    if (f->grid) {
        check_block(v, f->grid, OP_YIELD, IN_GRID, 0);
        if (v->ok) check_launch_block(v, f->grid, "grid", 0, 1, 3);
    }
    if (f->remap) {
        check_block(v, f->remap, OP_YIELD, IN_REMAP, 0);
        if (v->ok) check_launch_block(v, f->remap, "remap", 1, 1, 1);
    }
    check_extents(v);
}

static bool verify(Module *m, bool laid_out)
{
    Verifier v = { .s = m->session, .module = m, .laid_out = laid_out };
    bool ok = true;
    v.ids = arena_array(&m->session->arena, uint64_t, m->next_id / 64 + 1);
    for (const Func *f = m->funcs; f; f = f->next) {
        v.func = f;
        v.ok = true;
        check_func(&v);
        ok &= v.ok;
    }
    return ok;
}

bool ir_verify(Module *m) { return verify(m, true); }
bool ir_verify_before_layout(Module *m) { return verify(m, false); }
