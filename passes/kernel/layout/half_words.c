/* half-words: left operands of 4 bits, eight rows of which lie in a word, are read as half words, which lanes
 * have in the order of their fragments.
 *
 *   %w = shared_read %W : i32[words, k]; %r = %w repeated eight times : i32[8 words, k]
 *   %n = and (shr %r, %shift), 15
 *
 * becomes
 *
 *   %h = shared_read %W : u16[2 words, k]; %r = %h repeated four times : u16[8 words, k]
 *   %n = cast (and (shr %r, %shift & 12), 15)
 *
 * and products take their rows in the order `wgmma_k16_halves`. ldmatrix transposes elements of 16 bits, so
 * that one of them brings a lane four positions of K where it would read a word for each, and a word of
 * registers has the same half of two positions of K, of which one shift and one mask make two elements of 16
 * bits.
 *
 * Row r of eight must be in half r % 2 of its word, the r / 2th from the right there, as AWQ packs weights. A
 * fragment's two rows are neighbours of such a half.
 *
 * Requires: every product takes its left operand from registers, by an instruction with K of 16, and is
 * computed from such a tile; shifts that follow from the row alone; no tile that comes through a ring in the
 * order of the result's fragments. Keeps: everything. */
#include "ir/interp/scalar.h"
#include "passes/kernel/kernel.h"
#include <string.h>

#define PLAIN "wgmma_k16"
#define HALVES "wgmma_k16_halves"

enum { ROWS = 8, BITS = 4, HALF = 16 }; /* rows in a word; bits of each; of half a word */

/* The instructions by which rows come out of words. */
typedef struct Unpacked {
    Instr *read, *shr, *and;
    Value *rows;  /* the words, each repeated */
    Value *shift; /* one for each row: a tile of one column */
} Unpacked;

static Instr *made_by(const Value *v, Op op) { return v->def && v->def->op == op ? v->def : NULL; }

/* The read of words that `rows` repeats; NULL: it is no such tile. */
static Instr *read_of(const Value *rows)
{
    Instr *merged = made_by(rows, OP_RESHAPE),
          *repeated = merged ? made_by(ir_operand(merged, 0), OP_BROADCAST) : NULL,
          *split = repeated ? made_by(ir_operand(repeated, 0), OP_RESHAPE) : NULL,
          *read = split ? made_by(ir_operand(split, 0), OP_SHARED_READ) : NULL;
    if (!read || ir_result(read)->type->rank != 2 || rows->type->rank != 2) return NULL;
    const Type *t = ir_result(read)->type, *by = ir_result(repeated)->type;
    bool each =
        by->rank == 3 && by->shape[0] == t->shape[0] && by->shape[1] == ROWS && by->shape[2] == t->shape[1];
    return each && rows->type->shape[1] == t->shape[1] && dtype_is_int(t->dtype) && dtype_bytes(t->dtype) == 4
               ? read
               : NULL;
}

static bool find(Instr *and, Unpacked *u)
{
    int64_t mask;
    Instr *kept = made_by(ir_operand(and, 1), OP_SPLAT);
    *u = (Unpacked){ .and = and, .shr = made_by(ir_operand(and, 0), OP_SHR) };
    if (!u->shr || !kept || !ir_is_const(ir_operand(kept, 0), &mask) || mask != (1 << BITS) - 1) return false;
    Instr *by = made_by(ir_operand(u->shr, 1), OP_BROADCAST);
    u->rows = ir_operand(u->shr, 0);
    u->read = read_of(u->rows);
    u->shift = by ? ir_operand(by, 0) : NULL;
    return u->read && by && u->shift->type->rank == 2 && u->shift->type->shape[1] == 1 &&
           u->shift->type->shape[0] == u->rows->type->shape[0];
}

/* --- what a row's shift is ---------------------------------------------------------------------------- */

/* An integer that is known, or known up to multiples of `step`; not at all where `step` is 1. */
typedef struct Known {
    int64_t step, value;
} Known;

static const Known unknown = { 1, 0 };

static Known known(Ranges *r, const Value *v, int64_t row);

static Known remainder_of(Known a, Known b, bool below_zero)
{
    if (b.step || b.value <= 0 || below_zero || a.step % b.value || a.value < 0) return unknown;
    return (Known){ 0, a.value % b.value };
}

/* What an operation makes of numbers one of which is known up to multiples. */
static Known of_multiples(Ranges *r, const Instr *i, const Known *k)
{
    if (i->op == OP_CAST && range_fits(range_of(r, ir_operand(i, 0)), ir_result(i)->type->dtype)) return k[0];
    if (i->op == OP_REM) return remainder_of(k[0], k[1], range_of(r, ir_operand(i, 0)).lo < 0);
    if (i->op == OP_ADD && range_exact(r, ir_result(i)))
        return (Known){ range_gcd(k[0].step, k[1].step), k[0].value + k[1].value };
    return unknown;
}

static Known computed(Ranges *r, const Instr *i, int64_t row)
{
    Known k[3];
    Scalar at[3], x;
    const DType d = ir_result(i)->type->dtype, from = ir_operand(i, 0)->type->dtype;
    bool exact = dtype_is_int(d) || d == DT_BOOL;
    for (int n = 0; n < i->n_operands; n++) {
        k[n] = known(r, ir_operand(i, n), row);
        exact &= !k[n].step;
        at[n] = scalar_int(k[n].value);
    }
    if (!exact) return of_multiples(r, i, k);
    if (i->op == OP_CAST) return (Known){ 0, scalar_cast(d, from, at[0]).i };
    return scalar_op(i->op, op_family(i->op) == OPS_COMPARE ? from : d, at, &x) ? (Known){ 0, x.i } : unknown;
}

/* What is known of the element of a row, of a tile of one column or axis, or of a scalar. */
static Known known(Ranges *r, const Value *v, int64_t row)
{
    int64_t c;
    if (v->type->kind == TYPE_SCALAR) {
        if (ir_is_const(v, &c)) return (Known){ 0, c };
        return (Known){ range_of(r, v).div, 0 };
    }
    const Instr *i = v->def;
    if (!i || dtype_is_float(v->type->dtype)) return unknown;
    if (i->op == OP_ARANGE) return (Known){ 0, ir_attr_int(i, ATTR_START, 0) + row };
    if (i->op == OP_SPLAT || i->op == OP_RESHAPE || i->op == OP_OPAQUE || i->op == OP_MATERIALIZE)
        return known(r, ir_operand(i, 0), row);
    return i->n_operands <= 3 && (op_is_elementwise(i->op) || i->op == OP_CAST) ? computed(r, i, row)
                                                                                : unknown;
}

/* Whether each row has its place in its word. */
static bool places_fit(Ranges *r, const Value *shift)
{
    for (int64_t row = 0; row < shift->type->shape[0]; row++) {
        Known k = known(r, shift, row);
        if (k.step || k.value != row % 2 * HALF + row % ROWS / 2 * BITS) return false;
    }
    return true;
}

/* --- the change ----------------------------------------------------------------------------------------- */

/* The half words, each as often as it has rows: row r of eight has half r % 2. */
static Value *repeat_halves(Session *s, Builder *b, Value *halves)
{
    const int64_t words = halves->type->shape[0] / 2, k = halves->type->shape[1];
    const DType d = halves->type->dtype;
    Value *v = ir_op(b, OP_RESHAPE, type_tile(s, d, 4, (int64_t[]){ words, 1, 2, k }), NO_ATTRS, halves);
    v = ir_op(b, OP_BROADCAST, type_tile(s, d, 4, (int64_t[]){ words, ROWS / 2, 2, k }), NO_ATTRS, v);
    return ir_op(b, OP_RESHAPE, type_tile(s, d, 2, (int64_t[]){ ROWS * words, k }), NO_ATTRS, v);
}

/* The shift within the half, where the shift itself is computed. */
static Value *within_half(Value *shift)
{
    Builder b = shift->def ? ir_after(shift->def) : ir_before(shift->block->first);
    const Type *t = shift->type;
    Value *most = ir_splat(&b, ir_const_int(&b, t->dtype, HALF - BITS), t->rank, t->shape);
    return ir_cast(&b, ir_bin(&b, OP_AND, shift, most), DT_U16);
}

static void change(Session *s, const Unpacked *u)
{
    const Type *words = ir_result(u->read)->type, *rows = u->rows->type;
    Builder b = ir_after(u->read);
    Value *view = ir_operand(u->read, 0);
    Value *halves = ir_emit(&b, OP_SHARED_READ, &view, 1, NO_ATTRS,
        type_tile(s, DT_U16, 2, (int64_t[]){ 2 * words->shape[0], words->shape[1] }));
    halves->name = ir_result(u->read)->name;
    Value *by = within_half(u->shift);
    b = ir_before(u->and);
    b.loc = u->and->loc;
    by = ir_op(&b, OP_BROADCAST, type_tile(s, DT_U16, 2, rows->shape), NO_ATTRS, by);
    Value *kept = ir_splat(&b, ir_const_int(&b, DT_U16, (1 << BITS) - 1), 2, rows->shape),
          *v = repeat_halves(s, &b, halves);
    v = ir_bin(&b, OP_AND, ir_bin(&b, OP_SHR, v, by), kept);
    ir_replace(ir_result(u->and), ir_cast(&b, v, ir_result(u->and)->type->dtype));
    ir_sweep(u->and->block);
}

typedef struct Fit {
    InstrList products, ands;
    bool all;
    Session *s;
} Fit;

static void look(void *user, Instr *i)
{
    Fit *x = user;
    if (i->op == OP_WGMMA_PROMOTED || i->op == OP_MMA_SYNC || i->op == OP_RING_READ) x->all = false;
    if (i->op == OP_AND) vec_push(&x->s->arena, &x->ands, i);
    if (i->op != OP_WGMMA) return;
    x->all &= ir_operand(i, 0)->type->kind == TYPE_TILE && !strcmp(ir_attr(i, ATTR_INSTR)->s, PLAIN);
    vec_push(&x->s->arena, &x->products, i);
}

/* Whether the words of a view lie beside each other. */
static bool rows_along_words(KernelPlan *p, const Instr *read)
{ return layouts_shared(&p->layouts, ir_operand(read, 0)->type)->order[0] == 0; }

bool kernel_pass_half_words(KernelContext *k)
{
    Block *consumers = kernel_consumers(k->f);
    Fit x = { .all = true, .s = k->s };
    VEC(Unpacked) found = { 0 };
    Unpacked u;
    ir_walk(consumers, look, &x);
    if (!x.all || !x.products.len) return false;
    Ranges *r = ranges_new(k->f);
    for (size_t i = 0; i < x.ands.len; i++)
        if (find(x.ands.data[i], &u) && u.rows->type->shape[0] % 64 == 0 && rows_along_words(k->p, u.read) &&
            places_fit(r, u.shift))
            vec_push(&k->s->arena, &found, u);
    if (found.len != x.products.len) return false;
    for (size_t i = 0; i < found.len; i++) change(k->s, &found.data[i]);
    for (size_t i = 0; i < x.products.len; i++)
        ir_set_attr(k->s, x.products.data[i], a_str(ATTR_INSTR, HALVES));
    return true;
}
