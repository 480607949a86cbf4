/* narrow: makes 64-bit index arithmetic 32-bit where ranges prove that every value fits.
 *
 *   %i = program_id : index                          %i = program_id : i32
 *   %o = mul %i, %c128 : index               ->      %o = mul %i, %c128 : i32
 *   %x = load %X[%o, %c0]                            %x = load %X[%o, %c0]
 *
 * Ranges come from constants, extents, grids and loop bounds (affine.h). With the launch fact `fits32`
 * every extent is from 1 to below 2^28, which is enough for most kernels. An operation is narrowed when
 * its result and all of its index operands fit. Where narrow and wide values meet, the pass inserts a
 * cast. A loop's variable also needs its last step, past the end, to fit.
 *
 * Requires: nothing; it runs late, so that other passes see only `index`, and fold removes casts of casts
 * behind it. Keeps: everything. Does not handle: values of type i64, which the program asked for; carried
 * index values; grid and remap blocks, which the host runs. */
#include "passes/affine.h"

typedef enum Width { WIDE, NARROW, ANY } Width;

typedef struct Narrow {
    PassContext *c;
    Facts *facts;
    uint8_t *narrow; /* by value id */
    size_t n_ids;
    int64_t narrowed, casts;
} Narrow;

static bool is_index(const Value *v) { return type_is_value(v->type) && v->type->dtype == DT_INDEX; }

static bool fits(Narrow *x, Value *v) { return range_fits(value_range(x->facts, v), DT_I32); }

static bool operands_fit(Narrow *x, const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++)
        if (is_index(ir_operand(i, k)) && !fits(x, ir_operand(i, k))) return false;
    return true;
}

static bool loop_fits(Narrow *x, const Instr *i)
{
    RangeInfo hi = value_range(x->facts, ir_operand(i, 1)), step = value_range(x->facts, ir_operand(i, 2));
    if (!is_index(i->blocks[0]->args[0])) return false;
    for (int k = 0; k < 3; k++)
        if (!fits(x, ir_operand(i, k))) return false;
    return step.hi > 0 && hi.hi <= INT32_MAX - (step.hi - 1);
}

/* Whether an operation of index values can be computed in 32 bits. */
static bool decide(Narrow *x, const Instr *i)
{
    Value *in = i->n_operands ? ir_operand(i, 0) : NULL;
    if (i->op == OP_CONST || i->op == OP_ARANGE || op_family(i->op) == OPS_LAUNCH)
        return fits(x, &i->results[0]);
    if (i->op == OP_CAST)
        return fits(x, &i->results[0]) && !dtype_is_float(in->type->dtype) && in->type->dtype != DT_U64 &&
               range_fits(value_range(x->facts, in), DT_I32);
    if (i->op == OP_IF) return i->n_results == 1 && fits(x, &i->results[0]);
    if (i->op == OP_FOR) return loop_fits(x, i);
    if (op_has(i->op, OPF_PICKS)) return i->n_results == 1 && fits(x, &i->results[0]) && operands_fit(x, i);
    if (!op_is_elementwise(i->op) || i->op == OP_BITCAST || i->op == OP_PHILOX) return false;
    return operands_fit(x, i) && (!is_index(&i->results[0]) || fits(x, &i->results[0]));
}

static bool touches_index(const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++)
        if (is_index(ir_operand(i, k))) return true;
    for (int k = 0; k < i->n_results; k++)
        if (is_index(&i->results[k])) return true;
    return i->op == OP_FOR;
}

static bool wants_narrow(const Instr *user)
{ return user->mark || (user->op == OP_YIELD && user->block->parent && user->block->parent->op == OP_IF); }

/* Leaves and shapes follow their users: a narrow one among wide users would only add a cast. */
static void follow_users(Narrow *x, Block *b)
{
    for (Instr *i = b->last; i; i = i->prev) {
        bool any = false;
        for (int k = 0; k < i->n_blocks; k++) follow_users(x, i->blocks[k]);
        if (!i->mark || i->n_results != 1) continue;
        bool leaf = i->n_operands == 0;
        if (!leaf && i->op != OP_SPLAT && i->op != OP_BROADCAST && i->op != OP_RESHAPE && i->op != OP_PERMUTE)
            continue;
        for (const Use *u = i->results[0].uses; u; u = u->next) any |= wants_narrow(u->user);
        MemParts p;
        for (const Use *u = i->results[0].uses; leaf && u; u = u->next) any |= ir_mem_parts(u->user, &p);
        if (any) continue;
        i->mark = 0;
        x->narrow[i->results[0].id] = 0;
    }
}

static void decide_block(Narrow *x, Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        i->mark = touches_index(i) && decide(x, i);
        if (i->mark && i->op == OP_FOR) x->narrow[i->blocks[0]->args[0]->id] = 1;
        else if (i->mark)
            for (int k = 0; k < i->n_results; k++) x->narrow[i->results[k].id] = is_index(&i->results[k]);
        for (int k = 0; k < i->n_blocks; k++) decide_block(x, i->blocks[k]);
    }
}

/* What operand k must be. */
static Width needed(const Narrow *x, const Instr *i, int k)
{
    MemParts p;
    const Instr *parent = i->block->parent;
    if (ir_mem_parts(i, &p)) return k >= 1 && k <= p.rank ? ANY : WIDE;
    if (i->op == OP_CAST || i->op == OP_PHILOX || i->op == OP_PRINT) return ANY;
    if (i->op == OP_YIELD)
        return parent && parent->op == OP_IF && x->narrow[parent->results[k].id] ? NARROW : WIDE;
    return i->mark && (i->op != OP_FOR || k < 3) ? NARROW : WIDE;
}

static void fit_operands(Narrow *x, Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_operands; k++) {
            Value *v = ir_operand(i, k);
            if (v->id >= x->n_ids || !is_index(v)) continue;
            Width w = needed(x, i, k);
            if (w == ANY || (w == NARROW) == x->narrow[v->id]) continue;
            Builder at = ir_before(i);
            const Type *t = type_with_dtype(x->c->session, v->type, w == NARROW ? DT_I32 : DT_INDEX);
            ir_set_operand(i, k, ir_emit(&at, OP_CAST, &v, 1, NO_ATTRS, t));
            x->casts++;
        }
        for (int k = 0; k < i->n_blocks; k++) fit_operands(x, i->blocks[k]);
    }
}

static void retype(Narrow *x, Value *v)
{
    if (v->id >= x->n_ids || !x->narrow[v->id]) return;
    v->type = type_with_dtype(x->c->session, v->type, DT_I32);
    x->narrowed++;
}

static void retype_block(Narrow *x, Block *b)
{
    for (int k = 0; k < b->n_args; k++) retype(x, b->args[k]);
    for (Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_results; k++) retype(x, &i->results[k]);
        for (int k = 0; k < i->n_blocks; k++) retype_block(x, i->blocks[k]);
    }
}

static bool narrow_func(PassContext *c, Func *f)
{
    Narrow x = { c, facts_new(c->scratch, f) };
    x.n_ids = f->module->next_id;
    x.narrow = arena_alloc(c->scratch, x.n_ids);
    decide_block(&x, f->body);
    follow_users(&x, f->body);
    fit_operands(&x, f->body);
    retype_block(&x, f->body);
    pass_count(c, "index values in 32 bits", x.narrowed);
    pass_count(c, "casts between widths", x.casts);
    return x.narrowed > 0;
}

bool pass_narrow(PassContext *c, Module *m) { return pass_each_func(c, m, narrow_func); }
