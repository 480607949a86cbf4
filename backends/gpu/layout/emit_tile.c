/* emit_tile.c: tiles in registers: their arrays, and what goes through shared memory element by element. */
#include "backends/gpu/elements/emit_run.h"
#include "passes/kernel/layout/registers.h"

/* --- arrays of registers ----------------------------------------------------------------------------- */

static const char *packed(Emit *e, const char *how, DType d, const char *const *x, int n)
{
    int p = per_word(d);
    if (p == 1) return x[0];
    const char *args = "";
    for (int k = 0; k < p; k++) args = str(e, "%s%s%s", args, k ? ", " : "", k < n ? x[k] : "0");
    return str(e, "%s(%s)", use(e, str(e, "%s_%s", how, dtype_name(d))), args);
}

const char *pack_expr(Emit *e, DType d, const char *const *x, int n) { return packed(e, "pack", d, x, n); }

const char *pack_word_of(Emit *e, const Value *v, const char *const *x, int n)
{
    DType d = v->type->dtype;
    bool computed = v->def && v->def->op == OP_CAST && dtype_is_float(d) && dtype_bits(d) == 8;
    return packed(e, computed ? "narrow" : "pack", d, x, n);
}

const char *declare_tile(Emit *e, const Value *v)
{
    e->truths[v->id] = NULL;
    if (e->place && e->place[v->id]) return e->storage[v->id] = e->place[v->id];
    const Layout *l = layout_of(e, v);
    const char *n = name_of(e, v);
    int words = array_len(v->type->dtype, (int)layout_regs(l));
    line(e, "%s %s[%d];", array_type(v->type->dtype), n, words);
    words *= dtype_bits(v->type->dtype) > 32 ? 2 : 1;
    if (words > e->largest.words)
        e->largest = (RegisterUse){ v->def ? v->def->loc : e->f->loc, v->type, words };
    e->storage[v->id] = n;
    return n;
}

const char *registers_of(Emit *e, const Value *v)
{
    const char *array = e->storage[v->id];
    if (!array)
        ir_fail(e->s, v->def ? v->def->loc : e->f->loc,
            "the registers of %s are asked for, which is held nowhere", type_string(e->s, v->type));
    return array;
}

void begin_unrolled(Emit *e, const char *i, int n)
{
    directive(e, "#pragma unroll");
    line(e, "for (int %s = 0; %s < %d; %s++) {", i, i, n, i);
    e->indent++;
}

void end_block(Emit *e)
{
    e->indent--;
    line(e, "}");
}

/* Evaluates `from` (any tile) into the array `to` of layout l. */
void fill_tile(Emit *e, const char *to, const Value *from, const Layout *l)
{
    int n = (int)layout_regs(l), p = per_word(from->type->dtype), words = array_len(from->type->dtype, n);
    const char *x[4];
    bool loop = n % p == 0 && words > 1;
    if (e->measure) return;
    if (loop) begin_unrolled(e, "i", words);
    for (int w = 0; w < (loop ? 1 : words); w++) {
        int here = n - w * p < p ? n - w * p : p;
        for (int k = 0; k < here; k++)
            x[k] = element(e, from, l, loop ? index_linear(e, p, "i", k) : index_number(e, w * p + k));
        line(e, "%s[%s] = %s;", to, loop ? "i" : str(e, "%d", w), pack_word_of(e, from, x, here));
    }
    if (loop) end_block(e);
}

void emit_materialize(Emit *e, Instr *i)
{
    declare_tile(e, ir_result(i));
    fill_tile(e, e->storage[ir_result(i)->id], ir_operand(i, 0), layout_of(e, ir_result(i)));
}

/* Keeps the same registers, but the compiler must assume that they are read and written here. With `anew`: by
 * an instruction into registers of their own. */
void emit_opaque_tile(Emit *e, const Instr *i)
{
    const Value *v = ir_operand(i, 0);
    DType d = v->type->dtype;
    const char *array = registers_of(e, v);
    int words = array_len(d, (int)layout_regs(layout_of(e, v)));
    bool is_float = dtype_is_float(d) && per_word(d) == 1 && d != DT_F64;
    if (ir_attr_int(i, ATTR_ANEW, 0)) {
        const char *own = declare_tile(e, ir_result(i));
        begin_unrolled(e, "i", words);
        const char *word =
            str(e, is_float ? "%s(%s[i])" : "%s[i]", is_float ? use(e, "float_word") : array, array);
        word = str(e, "%s(%s)", use(e, "anew_word"), word);
        line(e, "%s[i] = %s;", own, is_float ? str(e, "%s(%s)", use(e, "float_bits"), word) : word);
        end_block(e);
        return;
    }
    begin_unrolled(e, "i", words);
    line(e, "%s(%s[i]);", use(e, is_float ? "pin_float" : "pin_word"), array);
    end_block(e);
    e->storage[ir_result(i)->id] = array;
}

/* --- conversions ------------------------------------------------------------------------------------- */

static void element_to_shared(Emit *e, const char *addr, DType d, const char *x)
{ line(e, "%s(%s, %s);", use(e, str(e, "sts_%s", dtype_name(d))), addr, x); }

static const char *element_from_shared(Emit *e, const char *addr, DType d)
{ return str(e, "%s(%s)", use(e, str(e, "lds_%s", dtype_name(d))), addr); }

/* The condition that coordinates are in the tile, or NULL. */
static const char *plain_condition(Emit *e, const Layout *l, Index *const *c)
{
    const char *x = NULL;
    for (int a = 0; a < l->rank; a++) {
        if (l->cover[a] == l->tile[a]) continue;
        const char *k = index_text(e, c[a]);
        x = x ? str(e, "%s && %s < %d", x, k, l->tile[a]) : str(e, "%s < %d", k, l->tile[a]);
    }
    return x;
}

/* Writes tile v (layout l) to shared memory at row-major positions, which are expressions of coordinates. */
void spill_elements(
    Emit *e, const Value *v, const Layout *l, const char *base, PositionFn *pos, const void *user)
{
    int n = (int)layout_regs(l);
    const char *cond = NULL;
    Index *c[TILE_MAX_RANK], *i = index_variable(e, "i");
    begin_unrolled(e, "i", n);
    coords_at(e, l, i, c);
    cond = plain_condition(e, l, c);
    if (cond) {
        line(e, "if (%s) {", cond);
        e->indent++;
    }
    DType d = v->type->dtype;
    element_to_shared(
        e, str(e, "%s + (%s) * %d", base, pos(e, c, user), dtype_bytes(d)), d, element(e, v, l, i));
    if (cond) end_block(e);
    end_block(e);
}

void fill_elements(Emit *e, const Value *r, const char *base, PositionFn *pos, const void *user)
{
    const Layout *l = layout_of(e, r);
    DType d = r->type->dtype;
    int n = (int)layout_regs(l), p = per_word(d), words = array_len(d, n);
    declare_tile(e, r);
    bool loop = n % p == 0 && words > 1;
    if (loop) begin_unrolled(e, "i", words);
    for (int w = 0; w < (loop ? 1 : words); w++) {
        Index *c[TILE_MAX_RANK];
        const char *x[4];
        int here = n - w * p < p ? n - w * p : p;
        for (int k = 0; k < here; k++) {
            coords_at(e, l, loop ? index_linear(e, p, "i", k) : index_number(e, w * p + k), c);
            const char *cond = plain_condition(e, l, c);
            x[k] = element_from_shared(e, str(e, "%s + (%s) * %d", base, pos(e, c, user), dtype_bytes(d)), d);
            if (cond) x[k] = str(e, "(%s ? %s : 0)", cond, x[k]);
        }
        line(e, "%s[%s] = %s;", e->storage[r->id], loop ? "i" : str(e, "%d", w), pack_expr(e, d, x, here));
    }
    if (loop) end_block(e);
}

const char *row_major(Emit *e, Index *const *c, const void *user)
{
    const Type *t = user;
    const char *x = NULL;
    int64_t pitch = 1;
    for (int a = t->rank - 1; a >= 0; a--) {
        const char *term = index_text(e, c[a]);
        if (pitch != 1) term = str(e, "%s * %lld", term, (long long)pitch);
        x = x ? str(e, "%s + %s", x, term) : term;
        pitch *= t->shape[a];
    }
    return x ? x : "0";
}

typedef struct Placed {
    const Type *type;
    int axis;
    int64_t start;
    const int64_t *order;
    int rank;
} Placed;

static const char *placed(Emit *e, Index *const *c, const void *user)
{
    const Placed *p = user;
    Index *d[TILE_MAX_RANK];
    for (int a = 0; a < p->rank; a++) {
        Index *x = c[a];
        if (a == p->axis && p->start)
            x = index_other(e, "(%s + %lld)", index_text(e, x), (long long)p->start);
        d[p->order ? p->order[a] : a] = x;
    }
    return row_major(e, d, p->type);
}

/* Writes the operands element by element to where the result, or the operand that a slice or permutation
 * takes elements of, has them in shared memory. */
static void put_operands(Emit *e, Instr *i, const char *base)
{
    DType d = ir_result(i)->type->dtype;
    Placed p = { .axis = (int)ir_attr_int(i, ATTR_AXIS, 0) };
    for (int k = 0; k < i->n_operands; k++) {
        Value *x = ir_operand(i, k);
        if (x->type->kind == TYPE_SCALAR) {
            element_to_shared(e, base, d, name_of(e, x));
            continue;
        }
        p.type = i->op == OP_CONCAT ? ir_result(i)->type : x->type;
        p.rank = x->type->rank;
        note_elements(e, true, layout_of(e, x), p.type, NULL);
        spill_elements(e, x, layout_of(e, x), base, placed, &p);
        if (i->op == OP_CONCAT) p.start += x->type->shape[p.axis];
    }
}

static void take_result(Emit *e, Instr *i, const char *base)
{
    Value *r = ir_result(i);
    if (r->type->kind == TYPE_SCALAR) {
        const char *out = name_of(e, r);
        line(
            e, "const %s %s = %s;", ctype(r->type->dtype), out, element_from_shared(e, base, r->type->dtype));
        e->storage[r->id] = out;
        return;
    }
    Placed p = { .type = r->type, .axis = (int)ir_attr_int(i, ATTR_AXIS, 0), .rank = r->type->rank };
    if (i->op == OP_SLICE || i->op == OP_PERMUTE) p.type = ir_operand(i, 0)->type;
    if (i->op == OP_SLICE) p.start = ir_attr_int(i, ATTR_START, 0);
    if (i->op == OP_PERMUTE) {
        p.order = ir_attr(i, ATTR_ORDER)->v;
        p.axis = -1;
    }
    note_elements(e, false, layout_of(e, r), i->op == OP_SLICE ? p.type : r->type, p.order);
    fill_elements(e, r, base, placed, &p);
}

/* The result in the registers of its operand: the same array, or elements of a smaller tile, repeated. */
static bool emit_in_place(Emit *e, Instr *i)
{
    Value *r = ir_result(i), *x = ir_operand(i, 0);
    if (!kernel_same_registers(&e->s->arena, e->plan, i)) return false;
    if (e->storage[x->id]) {
        e->storage[r->id] = e->storage[x->id];
        return true;
    }
    if (!x->def || x->def->op != OP_BROADCAST) return false;
    declare_tile(e, r);
    fill_tile(e, e->storage[r->id], x, layout_of(e, x));
    return true;
}

void emit_by_position(Emit *e, Instr *i)
{
    const Type *t = ir_result(i)->type;
    if (emit_in_place(e, i)) return;
    if (emit_half(e, i) || emit_pick(e, i) || emit_transposed(e, i)) return;
    if (emit_left_to_shift(e, i) || emit_shifted(e, i)) return;
    int64_t elems = type_elements(t);
    for (int k = 0; k < i->n_operands; k++)
        if (type_elements(ir_operand(i, k)->type) > elems) elems = type_elements(ir_operand(i, k)->type);
    int64_t at = scratch(e, elems * dtype_bytes(t->dtype));
    const char *base = tmp(e, "sh");
    line(e, "const u32 %s = shared_base + SCRATCH + %lld;", base, (long long)at);
    barrier(e);
    put_operands(e, i, base);
    barrier(e);
    take_result(e, i, base);
}
