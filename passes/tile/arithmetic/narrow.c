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
 * If a float becomes an index, its users often distinguish only a range of values: clamp(index(x) + 1, 0, n)
 * does, and so does a gather, which gives the pad outside the tensor. If that range fits in 32 bits, the
 * float is converted to 32 bits, which saturates, and clamped to the range.
 *
 *   %i = cast %x : index                             %s = cast %x : i32
 *   %p = add %i, 1                           ->      %i = cast (min (max %s, -1), 510) : index
 *   %c = min (max %p, 0), 511                        %p, %c as before, now in 32 bits
 *
 * Requires: nothing; it runs late, so that other passes see only `index`, and fold removes casts of casts
 * behind it. Keeps: everything. Does not handle: values of type i64, which the program asked for; carried
 * index values; grid and remap blocks, which the host runs. */
#include "passes/tile/analysis/affine.h"

typedef enum Width { WIDE, NARROW, ANY } Width;

typedef struct Narrow {
    PassContext *c;
    Func *f;
    Facts *facts;
    uint8_t *narrow; /* by value id */
    size_t n_ids;
    int64_t narrowed, casts, converted;
} Narrow;

static bool is_index(const Value *v) { return type_is_value(v->type) && v->type->dtype == DT_INDEX; }

/* --- indices of floats ------------------------------------------------------------------------------- */

/* The range outside which the users of a value cannot tell it from the range's nearer end. */
typedef struct Told {
    int64_t lo, hi;
} Told;
static const Told TOLD_ALL = { INT64_MIN, INT64_MAX };
enum { MOST_USERS = 8, MOST_ADDED = 1 << 20 };

static Told told_apart(Narrow *x, const Value *v, int depth);

/* What is told apart by a user that adds c. */
static Told told_before(Told r, int64_t c)
{
    if (c < -MOST_ADDED || c > MOST_ADDED) return TOLD_ALL;
    if (r.lo != INT64_MIN) r.lo -= c;
    if (r.hi != INT64_MAX) r.hi -= c;
    return r;
}

static bool is_constant(RangeInfo r) { return r.lo == r.hi; }

/* Of an operation of two operands, the other of which has range o. */
static Told told_by_pair(Narrow *x, const Instr *i, int k, RangeInfo o, int depth)
{
    if (op_family(i->op) == OPS_COMPARE) {
        if (o.lo < -MOST_ADDED || o.hi > INT32_MAX - 1) return TOLD_ALL;
        return (Told){ o.lo - 1, o.hi + 1 };
    }
    if (i->op == OP_ADD || (i->op == OP_SUB && !k)) {
        if (!is_constant(o)) return TOLD_ALL;
        return told_before(told_apart(x, &i->results[0], depth), i->op == OP_SUB ? -o.lo : o.lo);
    }
    if (i->op != OP_MAX && i->op != OP_MIN) return TOLD_ALL;
    Told r = told_apart(x, &i->results[0], depth);
    if (i->op == OP_MAX && o.lo > r.lo) r.lo = o.lo;
    if (i->op == OP_MIN && o.hi < r.hi) r.hi = o.hi;
    return r;
}

static Told told_by(Narrow *x, const Use *u, int depth)
{
    const Instr *i = u->user;
    int k = (int)(u - i->operands);
    MemParts p;
    if (i->op == OP_BROADCAST || i->op == OP_RESHAPE || i->op == OP_SPLAT || i->op == OP_PERMUTE)
        return told_apart(x, &i->results[0], depth);
    if (i->op == OP_WHERE && k) return told_apart(x, &i->results[0], depth);
    if (i->op == OP_GATHER || i->op == OP_SCATTER) {
        bool position = ir_mem_parts(i, &p) && k >= 1 && k <= p.rank;
        return position ? (Told){ -1, range_of_dim(x->f, x->f->params[p.param].dims[k - 1]).hi } : TOLD_ALL;
    }
    if (i->op == OP_CLAMP && !k) {
        Told r = told_apart(x, &i->results[0], depth);
        int64_t lo = value_range(x->facts, ir_operand(i, 1)).lo,
                hi = value_range(x->facts, ir_operand(i, 2)).hi;
        return (Told){ lo > r.lo ? lo : r.lo, hi < r.hi ? hi : r.hi };
    }
    if (i->n_operands != 2 || i->n_results != 1) return TOLD_ALL;
    return told_by_pair(x, i, k, value_range(x->facts, ir_operand(i, 1 - k)), depth);
}

static Told told_apart(Narrow *x, const Value *v, int depth)
{
    Told all = { INT64_MAX, INT64_MIN };
    if (depth > MOST_USERS) return TOLD_ALL;
    for (const Use *u = v->uses; u; u = u->next) {
        Told r = told_by(x, u, depth + 1);
        if (r.lo > r.hi) return TOLD_ALL;
        if (r.lo < all.lo) all.lo = r.lo;
        if (r.hi > all.hi) all.hi = r.hi;
    }
    return all;
}

static Value *bounded(Builder *b, Op op, Value *v, int64_t by)
{
    Value *c = ir_const_int(b, DT_I32, by);
    return ir_bin(b, op, v, v->type->kind == TYPE_TILE ? ir_splat(b, c, v->type->rank, v->type->shape) : c);
}

static void convert_to_words(Narrow *x, Instr *i)
{
    Value *v = ir_operand(i, 0), *old = &i->results[0];
    Told r = told_apart(x, old, 0);
    if (!old->uses || r.lo > r.hi || r.lo < INT32_MIN || r.hi > INT32_MAX) return;
    Builder b = ir_before(i);
    Value *w = ir_cast(&b, v, DT_I32);
    if (r.lo > INT32_MIN) w = bounded(&b, OP_MAX, w, r.lo);
    if (r.hi < INT32_MAX) w = bounded(&b, OP_MIN, w, r.hi);
    ir_replace(old, ir_cast(&b, w, DT_INDEX));
    x->converted++;
}

static void convert_block(Narrow *x, Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) convert_block(x, i->blocks[k]);
        if (i->op == OP_CAST && is_index(&i->results[0]) && dtype_is_float(ir_operand(i, 0)->type->dtype))
            convert_to_words(x, i);
    }
}

/* --- widths ------------------------------------------------------------------------------------------ */

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
    if (!op_is_elementwise(i->op) || i->op == OP_BITCAST || op_family(i->op) == OPS_RANDOM) return false;
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
        bool cast = !leaf && !x->narrow[ir_operand(i, 0)->id]; /* a narrow one needs a cast then */
        for (const Use *u = i->results[0].uses; !cast && u; u = u->next) any |= ir_mem_parts(u->user, &p);
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
    if (i->op == OP_CAST || op_family(i->op) == OPS_RANDOM || i->op == OP_PRINT) return ANY;
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
    Narrow x = { .c = c, .f = f, .facts = facts_new(c->scratch, f) };
    convert_block(&x, f->body);
    if (x.converted) x.facts = facts_new(c->scratch, f);
    x.n_ids = f->module->next_id;
    x.narrow = arena_alloc(c->scratch, x.n_ids);
    decide_block(&x, f->body);
    follow_users(&x, f->body);
    fit_operands(&x, f->body);
    retype_block(&x, f->body);
    pass_count(c, "index values in 32 bits", x.narrowed);
    pass_count(c, "casts between widths", x.casts);
    pass_count(c, "floats that become indices in 32 bits", x.converted);
    return x.narrowed > 0 || x.converted > 0;
}

bool pass_narrow(PassContext *c, Module *m) { return pass_each_func(c, m, narrow_func); }
