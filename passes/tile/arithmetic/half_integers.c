/* half-integers: on CUDA, arithmetic of 32 bits on tiles of bytes becomes arithmetic of 16 bits where ranges
 * prove that every value fits.
 *
 *   %a = cast %x : i32[8, 512]                  %a = cast %x : u16[8, 512]
 *   %b = cast %y : i32[8, 512]                  %b = cast %y : u16[8, 512]
 *   %s = add %a, %b : i32[8, 512]         ->    %s = add %a, %b : u16[8, 512]
 *   %r = shr %s, 1 : i32[8, 512]                %r = shr %s, 1 : u16[8, 512]
 *   %z = cast %r : u8[8, 512]                   %z = cast %r : u8[8, 512]
 *
 * Two elements lie in a word then, and one instruction computes both (emit_half_integers.c): since no sum
 * leaves its 16 bits, no carry gets from one half into the other. Bytes become halves two at a time, and a
 * word of four bytes is put together from two words.
 *
 * Minima and maxima of bytes do so too, on targets that compute those of two halves at once.
 *
 * Operations that are connected, by bytes that both take too, change together, if they have several sums or
 * products and few results that others want in 32 bits, which a conversion gives them.
 *
 * Proof. A value from 0 to below 2^16 is the same number in both types. Sums, differences and products of
 * such values, minima, maxima and shifts of them, whose results are such values too, do not wrap in either.
 *
 * Requires: ranges (ir/analysis/range.h). It runs behind narrow, as masks and indices are settled then.
 * Keeps: everything. Does not handle: values below 0; values that loops carry. */
#include "passes/pass.h"
#include "ir/analysis/range.h"

enum { MOST = 65535, LEAST_SUMS = 3, SUMS_PER_RESULT = 3 };

typedef struct Halves {
    PassContext *c;
    Func *f;
    Ranges *ranges;
    bool extremes;    /* minima and maxima of two halves are one instruction */
    uint32_t n;       /* values */
    bool *half;       /* by value: it can be computed in 16 bits */
    uint32_t *joined; /* by value: another one of its group; itself: it stands for the group */
    int *sums;        /* by the value that stands for a group: its sums and products */
    int *wide;        /* the same: its results that are wanted in 32 bits */
    ValueMap map;
    InstrList all; /* in the order of the text */
} Halves;

static uint32_t group_of(Halves *x, uint32_t v)
{
    while (x->joined[v] != v) v = x->joined[v] = x->joined[x->joined[v]];
    return v;
}

static bool in_range(RangeInfo r) { return r.lo >= 0 && r.hi < MOST; }

static bool is_half(const Halves *x, const Value *v) { return v->id < x->n && x->half[v->id]; }

static bool is_number(const Value *v, int64_t below)
{
    int64_t c;
    return ir_is_const(v, &c) && c >= 0 && c < below;
}

static bool fits(const Halves *x, const Value *v) { return is_half(x, v) || is_number(v, MOST); }

static bool is_byte(const Value *v) { return v->type->kind == TYPE_TILE && v->type->dtype == DT_U8; }

/* Whether the operation can be one of 16 bits, if its result is in range. */
static bool can_halve(const Halves *x, const Instr *i)
{
    const Value *a = i->n_operands ? ir_operand(i, 0) : NULL,
                *b = i->n_operands == 2 ? ir_operand(i, 1) : NULL;
    bool either = b && (is_half(x, a) || is_half(x, b));
    if (i->op == OP_CAST) return is_byte(a);
    if (i->op == OP_BROADCAST || i->op == OP_RESHAPE) return is_half(x, a);
    if (i->op == OP_ADD || i->op == OP_SUB || i->op == OP_AND || i->op == OP_OR || i->op == OP_XOR)
        return either && fits(x, a) && fits(x, b);
    if (i->op == OP_MIN || i->op == OP_MAX)
        return x->extremes && (is_byte(ir_result(i)) || (either && fits(x, a) && fits(x, b)));
    if (i->op == OP_MUL) return either && (is_number(a, MOST) || is_number(b, MOST));
    if (i->op == OP_SHL || i->op == OP_SHR) return is_half(x, a) && is_number(b, 16);
    return false;
}

static void look_at(void *halves, Instr *i)
{
    Halves *x = halves;
    const Value *v = i->n_results == 1 ? ir_result(i) : NULL;
    if (!v || v->type->kind != TYPE_TILE) return;
    if (is_byte(v) ? i->op != OP_MIN && i->op != OP_MAX
                   : v->type->dtype != DT_I32 && v->type->dtype != DT_U32)
        return;
    if (!can_halve(x, i) || !in_range(range_of(x->ranges, v))) return;
    x->half[v->id] = true;
    vec_push(x->c->scratch, &x->all, i);
    for (int k = 0; k < i->n_operands; k++) {
        const Value *of = ir_operand(i, k);
        if (is_half(x, of) || is_byte(of)) x->joined[group_of(x, of->id)] = group_of(x, v->id);
    }
}

/* Whether the use takes the value in 16 bits as it does in 32. */
static bool takes_half(const Halves *x, const Use *u)
{
    const Instr *i = u->user;
    if (i->n_results != 1 || ir_result(i)->type->kind != TYPE_TILE) return false;
    if (is_half(x, ir_result(i))) return true;
    DType d = ir_result(i)->type->dtype;
    return i->op == OP_CAST && (dtype_is_int(d) || d == DT_F32);
}

static void count(Halves *x, const Instr *i)
{
    const Value *v = ir_result(i);
    uint32_t g = group_of(x, v->id);
    bool wide = false;
    x->sums[g] += i->op == OP_ADD || i->op == OP_SUB || i->op == OP_MUL || i->op == OP_MIN || i->op == OP_MAX;
    for (const Use *u = v->uses; u && !is_byte(v); u = u->next) wide |= !takes_half(x, u);
    x->wide[g] += wide;
}

static bool pays(Halves *x, const Value *v)
{
    uint32_t g = group_of(x, v->id);
    return x->sums[g] >= LEAST_SUMS && x->sums[g] >= SUMS_PER_RESULT * x->wide[g];
}

static Value *halved(Halves *x, Builder *b, Value *v)
{
    int64_t c;
    if (ir_is_const(v, &c)) return build_int(b, type_with_dtype(x->c->session, v->type, DT_U16), c);
    if (is_half(x, v) && pays(x, v)) return value_map_get(&x->map, v);
    return ir_cast(b, v, DT_U16); /* a byte */
}

static void halve(Halves *x, Instr *i)
{
    Value *old = ir_result(i), *ops[2], *made;
    Builder b = ir_before(i);
    if (i->op == OP_CAST) made = halved(x, &b, ir_operand(i, 0));
    else {
        for (int k = 0; k < i->n_operands; k++) ops[k] = halved(x, &b, ir_operand(i, k));
        made = ir_emit(&b, i->op, ops, i->n_operands, (Attrs){ i->attrs, i->n_attrs },
            type_with_dtype(x->c->session, old->type, DT_U16));
    }
    ir_set_name(made, old->name);
    value_map_set(&x->map, old, made);
}

/* Users of 32 bits get a conversion, and conversions of the value convert what it is now. */
static void hand_over(Halves *x, Instr *i)
{
    Value *old = ir_result(i), *made = value_map_get(&x->map, old), *wide = NULL;
    Builder b = ir_after(made->def);
    for (Use *u = old->uses, *next; u; u = next) {
        Instr *user = u->user;
        int k = (int)(u - user->operands);
        next = u->next;
        if (user->n_results == 1 && is_half(x, ir_result(user)) && pays(x, ir_result(user))) continue;
        if (takes_half(x, u)) {
            ir_set_operand(user, k, made);
            continue;
        }
        if (!wide) wide = ir_cast(&b, made, old->type->dtype);
        ir_set_operand(user, k, wide);
    }
}

static bool halve_func(PassContext *c, Func *f)
{
    Halves x = { .c = c, .f = f, .n = f->module->next_id };
    int64_t done = 0;
    if (!c->options->target || c->options->target->kind != TARGET_CUDA) return false;
    x.extremes = target_has(c->options->target, TF_HALF_EXTREMES);
    x.ranges = ranges_new(f);
    x.half = arena_array(c->scratch, bool, x.n);
    x.joined = arena_array(c->scratch, uint32_t, x.n);
    x.sums = arena_array(c->scratch, int, x.n);
    x.wide = arena_array(c->scratch, int, x.n);
    for (uint32_t v = 0; v < x.n; v++) x.joined[v] = v;
    value_map_init(&x.map, c->scratch);
    ir_walk(f->body, look_at, &x);
    for (size_t k = 0; k < x.all.len; k++) count(&x, x.all.data[k]);
    for (size_t k = 0; k < x.all.len; k++) {
        if (!pays(&x, ir_result(x.all.data[k]))) continue;
        halve(&x, x.all.data[k]);
        done++;
    }
    for (size_t k = 0; k < x.all.len; k++)
        if (pays(&x, ir_result(x.all.data[k]))) hand_over(&x, x.all.data[k]);
    for (size_t k = x.all.len; k-- > 0;)
        if (pays(&x, ir_result(x.all.data[k]))) ir_erase(x.all.data[k]);
    pass_count(c, "operations in 16 bits", done);
    return done > 0;
}

bool pass_half_integers(PassContext *c, Module *m) { return pass_each_func(c, m, halve_func); }
