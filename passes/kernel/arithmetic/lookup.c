/* lookup: computes what depends on a few bits of an integer alone by a look into a table that the lanes of a
 * warp hold.
 *
 *   %b = ne (and %w, 1), 0; .. %y = where %b, 0.5, 1 : f32   ->   %y = lookup (and %w, 15) {table = [..]}
 *
 * The tile IR writes an entry of a table of constants (frontend/lower/lower_part.c) as a tree of selections,
 * one for each entry. Decoding of a small float is a chain of tests. A lookup is one shuffle: lane k holds
 * entry k.
 *
 * Requires: at least LEAST_OPERATIONS element-wise operations between the bits, of which there are at most
 * five next to each other, or which are all that an integer can have, and a result of 32 bits; elements
 * enough that the table, which takes a selection for each entry in each thread, costs less than half of what
 * it saves. All lanes of a warp reach operations on tiles together. Keeps: everything. */
#include "ir/interp/scalar.h"
#include "passes/kernel/kernel.h"

enum {
    MOST_BITS = 5, /* the lanes of a warp */
    ENTRIES = 1 << MOST_BITS,
    LEAST_OPERATIONS = 8,
    MOST_COUNTED = 64,
    DIVISION_OPERATIONS = 4
};

/* A value that is entries[(from >> shift) & (1 << bits) - 1]. */
typedef struct Decoded {
    Value *from;
    int shift, bits, operations;
    Scalar entries[ENTRIES];
} Decoded;

typedef struct Lookup {
    KernelContext *c;
    Ranges *ranges; /* NULL until they are asked for */
    CheapValues cheap;
    Decoded **known; /* by value id; NULL: something else */
    uint32_t n;
    InstrList made; /* the definitions of known values */
} Lookup;

static Decoded *known(const Lookup *l, const Value *v) { return v->id < l->n ? l->known[v->id] : NULL; }

static bool constant(const Value *v, Scalar *out)
{
    int64_t n;
    if (ir_is_const(v, &n)) *out = scalar_int(n);
    else if (!ir_is_const_float(v, &out->f)) return false;
    return true;
}

/* Bits of an integer that begin a chain: x & mask, or the highest ones of an unsigned x. */
static Decoded *begin(const Lookup *l, const Instr *i)
{
    if (i->op != OP_AND && i->op != OP_SHR) return NULL;
    Value *x = ir_operand(i, 0);
    DType d = x->type->dtype;
    int64_t by;
    if (!dtype_is_int(d) || !ir_is_const(ir_operand(i, 1), &by)) return NULL;
    uint64_t mask = (uint64_t)by;
    int bits, shift = 0, width = dtype_bits(d);
    if (i->op == OP_AND) {
        if (!mask) return NULL;
        shift = __builtin_ctzll(mask);
        bits = 64 - __builtin_clzll(mask) - shift;
    } else {
        if (dtype_is_signed(d) || by < 0 || by >= width) return NULL;
        shift = (int)by;
        bits = width - shift;
    }
    if (bits > MOST_BITS || shift + bits > width || width > 32) return NULL;
    Decoded *r = arena_new(&l->c->s->arena, Decoded);
    *r = (Decoded){ .from = x, .shift = shift, .bits = bits, .operations = 1 };
    for (int k = 0; k < 1 << bits; k++)
        r->entries[k] =
            scalar_int(i->op == OP_SHR ? k : scalar_wrap(d, (int64_t)((uint64_t)k << shift & mask)));
    return r;
}

/* An integer that is known to have few bits, as codes that were put side by side are, begins one, too. A
 * number of a place does not, which each thread knows without a table. */
static Decoded *begin_in_range(Lookup *l, Value *v)
{
    if (v->type->kind != TYPE_TILE || !dtype_is_int(v->type->dtype) || dtype_bits(v->type->dtype) > 32)
        return NULL;
    if (kernel_is_cheap_in(&l->cheap, v)) return NULL;
    if (!l->ranges) l->ranges = ranges_new(l->c->f);
    RangeInfo x = range_of(l->ranges, v);
    if (x.lo < 0 || x.hi < 1 || x.hi >= ENTRIES) return NULL;
    Decoded *r = arena_new(&l->c->s->arena, Decoded);
    *r = (Decoded){ .from = v, .bits = 64 - __builtin_clzll((uint64_t)x.hi) };
    for (int k = 0; k < 1 << r->bits; k++) r->entries[k] = scalar_int(k);
    return r;
}

/* The bits that both depend on; false: bits of two values, or too many. */
static bool join(Decoded *r, const Decoded *x)
{
    if (r->from && r->from != x->from) return false;
    int low = !r->from || x->shift < r->shift ? x->shift : r->shift, a = x->shift + x->bits,
        b = r->from ? r->shift + r->bits : 0, high = a > b ? a : b;
    r->from = x->from;
    r->shift = low;
    r->bits = high - low;
    r->operations += x->operations;
    if (r->operations > MOST_COUNTED)
        r->operations = MOST_COUNTED; /* an operand may be counted again and again */
    return r->bits <= MOST_BITS;
}

static bool evaluate(const Instr *i, Scalar *in, Scalar *out)
{
    DType to = ir_result(i)->type->dtype, from = ir_operand(i, 0)->type->dtype;
    if (i->op == OP_CAST) *out = scalar_cast(to, from, in[0]);
    else if (i->op == OP_BITCAST) *out = scalar_bitcast(to, from, in[0]);
    else return scalar_op(i->op, ir_operand(i, i->n_operands - 1)->type->dtype, in, out);
    return true;
}

/* An element-wise operation whose operands are constants and values that are known from the same bits. */
static Decoded *follow(Lookup *l, const Instr *i)
{
    Scalar in[4];
    const Decoded *of[4] = { 0 };
    Decoded *r = arena_new(&l->c->s->arena, Decoded);
    *r = (Decoded){ .operations = op_info[i->op].cost > 1 ? DIVISION_OPERATIONS : 1 };
    for (int k = 0; k < i->n_operands; k++) {
        Value *v = ir_operand(i, k);
        of[k] = known(l, v);
        if (!of[k] && constant(v, &in[k])) continue;
        if (!of[k]) of[k] = begin_in_range(l, v);
        if (!of[k] || !join(r, of[k])) return NULL;
    }
    for (int e = 0; r->from && e < 1 << r->bits; e++) {
        for (int k = 0; k < i->n_operands; k++)
            if (of[k]) in[k] = of[k]->entries[(e >> (of[k]->shift - r->shift)) & ((1 << of[k]->bits) - 1)];
        if (!evaluate(i, in, &r->entries[e])) return NULL;
    }
    return r->from ? r : NULL;
}

static void visit(void *user, Instr *i)
{
    Lookup *l = user;
    if (!op_is_elementwise(i->op) || !op_is_pure(i->op) || i->n_results != 1 || i->n_operands < 1 ||
        i->n_operands > 4 || ir_result(i)->type->kind != TYPE_TILE || op_family(i->op) == OPS_FUNCTION ||
        op_family(i->op) == OPS_RANDOM || ir_attr_int(i, ATTR_APPROX, 0) || ir_attr_int(i, ATTR_FTZ, 0))
        return;
    Decoded *r = follow(l, i);
    if (!r) r = begin(l, i);
    if (!r) return;
    l->known[ir_result(i)->id] = r;
    vec_push(&l->c->s->arena, &l->made, i);
}

/* Whether something else than a known value needs this one. */
static bool needed(const Lookup *l, const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->n_results != 1 || !known(l, &u->user->results[0])) return true;
    return false;
}

/* Of a thread. */
static int64_t elements(const Lookup *l, const Type *t)
{ return type_elements(t) / ((int64_t)l->c->p->warps * l->c->p->target->wave); }

static bool pays(const Lookup *l, const Value *v, const Decoded *d)
{
    DType t = v->type->dtype;
    return (t == DT_F32 || t == DT_I32 || t == DT_U32) && d->operations >= LEAST_OPERATIONS &&
           elements(l, v->type) * d->operations >= 2 * (1 << d->bits) && needed(l, v);
}

static void replace(Instr *i, const Decoded *d)
{
    Builder b = ir_after(i);
    Value *v = ir_result(i), *x = d->from;
    const Type *t = x->type;
    int64_t table[ENTRIES];
    for (int k = 0; k < 1 << d->bits; k++) table[k] = (int64_t)scalar_bits(v->type->dtype, d->entries[k]);
    if (d->shift)
        x = ir_bin(&b, OP_SHR, x, ir_splat(&b, ir_const_int(&b, t->dtype, d->shift), t->rank, t->shape));
    if (dtype_is_signed(t->dtype) || d->shift + d->bits < dtype_bits(t->dtype))
        x = ir_bin(
            &b, OP_AND, x, ir_splat(&b, ir_const_int(&b, t->dtype, (1 << d->bits) - 1), t->rank, t->shape));
    Value *y = ir_op(&b, OP_LOOKUP, v->type, ATTRS(a_ints(ATTR_TABLE, table, 1 << d->bits)), x);
    ir_replace(v, y);
}

bool kernel_pass_lookup(KernelContext *c)
{
    uint32_t before = kernel_values(c);
    VEC(Block *) blocks = { 0 };
    Lookup l = { .c = c, .n = c->f->module->next_id };
    l.cheap.size = arena_array(&c->s->arena, uint16_t, l.n);
    l.known = arena_array(&c->s->arena, Decoded *, l.n);
    ir_walk(c->f->body, visit, &l);
    for (size_t k = l.made.len; k--;) { /* users before what they use */
        Value *v = ir_result(l.made.data[k]);
        const Decoded *d = known(&l, v);
        if (pays(&l, v, d)) {
            replace(l.made.data[k], d);
            vec_push(&c->s->arena, &blocks, l.made.data[k]->block);
        } else if (needed(&l, v)) l.known[v->id] = NULL; /* it stays, and needs its operands */
    }
    for (size_t k = 0; k < blocks.len; k++)
        for (Block *b = blocks.data[k]; b; b = b->parent ? b->parent->block : NULL) ir_sweep(b);
    return kernel_grew(c, before);
}
