/* emit_tile.c: tiles in registers: their arrays, element-wise runs, what goes through shared memory element
 * by element. */
#include "backends/gpu/emit_run.h"
#include "passes/kernel/layout/registers.h"

/* --- arrays of registers ----------------------------------------------------------------------------- */

const char *pack_expr(Emit *e, DType d, const char *const *x, int n)
{
    int p = per_word(d);
    if (p == 1) return x[0];
    const char *args = "";
    for (int k = 0; k < p; k++) args = str(e, "%s%s%s", args, k ? ", " : "", k < n ? x[k] : "0");
    return str(e, "%s(%s)", use(e, str(e, "pack_%s", dtype_name(d))), args);
}

const char *declare_tile(Emit *e, const Value *v)
{
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

/* --- element-wise runs ------------------------------------------------------------------------------- */

static bool is_alias(const Instr *i) { return i->op == OP_BROADCAST; }

bool is_run_op(const Instr *i)
{
    return (op_info[i->op].flags & OPF_ELEM) && i->n_results == 1 && ir_result(i)->type->kind == TYPE_TILE &&
           ir_result(i)->type->layout;
}

/* Whether the instruction emits nothing and so does not end a run. Between products, whose neighbours are
 * chosen with care, constants end runs. */
static bool is_silent(const Emit *e, const Instr *i)
{
    return is_alias(i) || (op_family(i->op) == OPS_CONSTANT && !e->multiplies) ||
           (i->n_results == 1 && ir_result(i)->type->kind == TYPE_TILE && !ir_result(i)->type->layout &&
               (op_info[i->op].flags & OPF_PURE));
}

bool run_used_outside(const Value *v, uint32_t mark)
{
    for (const Use *u = v->uses; u; u = u->next) {
        if (u->user->op == OP_BROADCAST && !u->user->operands[0].value->def) return true;
        if (u->user->mark != mark || !is_run_op(u->user)) return true;
    }
    return false;
}

static bool used_inside(const Value *v, uint32_t mark)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->mark == mark && is_run_op(u->user)) return true;
    return false;
}

/* Whether i reads a value of the run as a broadcast, from the array that the run fills only after its last
 * instruction. */
static bool reads_back(const Instr *i, uint32_t mark)
{
    for (int k = 0; k < i->n_operands; k++) {
        const Instr *d = ir_operand(i, k)->def;
        if (!d || !is_alias(d)) continue;
        while (d && is_alias(d)) d = ir_operand(d, 0)->def;
        if (d && d->mark == mark && is_run_op(d)) return true;
    }
    return false;
}

/* A run of element-wise operations from `first` to `last`, which have one layout and are emitted in one loop
 * over registers. `mark` marks its instructions. A step computes `p` elements, which share a word of the
 * narrowest result. */
typedef struct Run {
    Instr *first, *last;
    uint32_t mark;
    const Layout *l;
    int p;
    bool loop;
    const char **names; /* by value id * 4 + the element of the step */
} Run;

static bool in_run(const Run *q, const Instr *i) { return i->mark == q->mark && is_run_op(i); }

/* Finds the last instruction of the run that begins with `first`, and marks its instructions. */
static Instr *mark_run(const Emit *e, Instr *first, uint32_t mark)
{
    const Type *t0 = ir_result(first)->type;
    Instr *last = first;
    for (Instr *i = first; i; i = i->next) {
        if (is_silent(e, i)) continue;
        if (!is_run_op(i) || ir_result(i)->type->layout != t0->layout ||
            !type_same_shape(ir_result(i)->type, t0) || reads_back(i, mark))
            break;
        i->mark = mark;
        last = i;
    }
    return last;
}

/* Whether an operand is computed where it is used, as arithmetic of coordinates. */
static bool is_computed(Emit *e, const Value *v)
{
    while (v->def && op_family(v->def->op) == OPS_SHAPE && v->def->n_operands == 1 && !e->storage[v->id])
        v = ir_operand(v->def, 0);
    return v->type->kind == TYPE_TILE && v->def && op_is_elementwise(v->def->op) && !e->storage[v->id];
}

/* The expression as a statement of its own. As an arm of a selection, the C compiler would branch around it.
 */
static const char *as_statement(Emit *e, DType d, const char *x)
{
    const char *name = tmp(e, "arm");
    line(e, "const %s %s = %s;", ctype(d), name, x);
    return name;
}

/* Computes element x of step g. */
static void compute_element(Emit *e, const Run *q, int g, int x)
{
    Index *idx = !q->loop ? index_number(e, g * q->p + x) : index_linear(e, q->p, "i", x);
    for (Instr *i = q->first;; i = i->next) {
        int of_block = in_run(q, i) ? random_elements_of_block(e, i, q->l) : 1;
        const Instr *partner = in_run(q, i) ? sincos_partner(e, i, q->mark) : NULL;
        if (in_run(q, i) && x % of_block == 0 && !(partner && sincos_is_done(i, partner))) {
            const char *args[4];
            for (int k = 0; k < i->n_operands; k++) {
                Value *v = ir_operand(i, k);
                bool inside = v->def && in_run(q, v->def);
                args[k] = inside ? q->names[v->id * 4 + (uint32_t)x] : element(e, v, q->l, idx);
                if (i->op == OP_WHERE && k > 0 && !inside && is_computed(e, v))
                    args[k] = as_statement(e, v->type->dtype, args[k]);
            }
            Value *r = ir_result(i);
            const char *name = str(e, "%s%c", name_of(e, r), "abcd"[x]);
            e->raw = per_word(r->type->dtype) > 1 && !used_inside(r, q->mark);
            if (of_block > 1) emit_random_block(e, args, of_block, &q->names[r->id * 4 + (uint32_t)x]);
            else if (partner)
                q->names[r->id * 4 + (uint32_t)x] = emit_sincos(
                    e, i, partner, x, args[0], &q->names[ir_result(partner)->id * 4 + (uint32_t)x]);
            else {
                q->names[r->id * 4 + (uint32_t)x] = name;
                line(e, "const %s %s = %s;", ctype(r->type->dtype), name, op_expr(e, i, args));
            }
            e->raw = false;
        }
        if (i == q->last) return;
    }
}

/* Writes the `here` elements of step g to the arrays of the results that are read outside of the run. */
static void keep_results(Emit *e, const Run *q, int g, int here)
{
    int p = q->p;
    for (Instr *i = q->first;; i = i->next) {
        Value *r = in_run(q, i) ? ir_result(i) : NULL;
        int pr = r ? per_word(r->type->dtype) : 1;
        for (int x = 0; r && e->storage[r->id] && x < here; x += pr) {
            const char *slot = !q->loop  ? str(e, "%d", (g * p + x) / pr)
                               : p == pr ? "i"
                                         : str(e, "%d * i + %d", p / pr, x / pr);
            const char *const *elements = &q->names[r->id * 4 + (uint32_t)x];
            line(e, "%s[%s] = %s;", e->storage[r->id], slot,
                pack_expr(e, r->type->dtype, elements, here - x < pr ? here - x : pr));
        }
        if (i == q->last) return;
    }
}

Instr *emit_run(Emit *e, Instr *first)
{
    Run q = { .first = first,
        .mark = (uint32_t)++e->next_tmp | 0x80000000u,
        .l = layout_of(e, ir_result(first)),
        .p = 1 };
    q.last = mark_run(e, first, q.mark);
    for (Instr *i = first; !e->measure; i = i->next) {
        if (i->op == OP_LOOKUP) declare_table(e, i);
        if (i == q.last) break;
    }
    if (emit_paired_run(e, first, q.last, q.mark)) return q.last;
    for (Instr *i = first;; i = i->next) {
        if (in_run(&q, i) && run_used_outside(ir_result(i), q.mark)) {
            declare_tile(e, ir_result(i));
            if (per_word(ir_result(i)->type->dtype) > q.p) q.p = per_word(ir_result(i)->type->dtype);
        }
        int of_block = in_run(&q, i) ? random_elements_of_block(e, i, q.l) : 1;
        if (of_block > q.p) q.p = of_block;
        if (i == q.last) break;
    }
    if (e->measure) return q.last;
    q.names = arena_array(&e->s->arena, const char *, e->n_values * 4);
    int n = (int)layout_regs(q.l), groups = (n + q.p - 1) / q.p;
    q.loop = n % q.p == 0 && groups > 1;
    if (q.loop) begin_unrolled(e, "i", groups);
    for (int g = 0; g < (q.loop ? 1 : groups); g++) {
        if (!q.loop) {
            line(e, "{");
            e->indent++;
        }
        int here = n - g * q.p < q.p ? n - g * q.p : q.p;
        for (int x = 0; x < here; x++) compute_element(e, &q, g, x);
        keep_results(e, &q, g, here);
        if (!q.loop) end_block(e);
    }
    if (q.loop) end_block(e);
    return q.last;
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
        line(e, "%s[%s] = %s;", to, loop ? "i" : str(e, "%d", w), pack_expr(e, from->type->dtype, x, here));
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
