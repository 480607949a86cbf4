/* gather_rows.c: of gather-windows: gathers row by row on the portable path, where the threads that copy have
 * a position for each row. */
#include "passes/kernel/gather/gather_windows.h"

static bool is_tile(const Value *v) { return v->type->kind == TYPE_TILE; }

/* `left`: steps; each use of a value takes one. */
static bool from_memory(const Value *v, int *left)
{
    const Instr *i = v->def;
    if (!is_tile(v) || !i || --*left < 0) return false;
    if (i->op == OP_LOAD || i->op == OP_GATHER) return true;
    for (int k = 0; k < i->n_operands; k++)
        if (from_memory(ir_operand(i, k), left)) return true;
    return false;
}

/* The same on the portable path, where an operand may also be computed from the rows (stage_computed.c), if
 * memory says which rows these are. Of rows that are counted, such as scales of groups, many are the same. */
static Value *rows_wanted(const Instr *g, bool *transposed)
{
    Value *v = ir_result(g), *matrix = gather_matrix_of(v, transposed);
    MemParts m;
    bool told = false;
    int left = 256;
    if (matrix || v->type->kind != TYPE_TILE || v->type->rank != 2 || !ir_mem_parts(g, &m)) return matrix;
    for (int a = 0; a < m.rank; a++) told = told || from_memory(m.idx[a], &left);
    *transposed = false;
    return told && kernel_computes_operand(v) ? v : NULL;
}

/* Along the last axis of the result, one axis of the tensor, *unit, must grow by ones, and the others (bits
 * of w->picks) must not depend on it. */
static bool rows_of_gather(Session *s, const Func *f, const Instr *g, Picked *w, int *unit)
{
    MemParts m;
    const Type *t = ir_result(g)->type;
    int last = t->rank - 1;
    double fzero;
    int64_t zero;
    *w = (Picked){ .why = "it is no tile of a tensor that is only read" };
    *unit = -1;
    if (!ir_mem_parts(g, &m) || m.token || t->kind != TYPE_TILE || t->rank < 2) return false;
    w->why = "its pad is not zero";
    if (m.pad && !(ir_is_const(m.pad, &zero) && zero == 0) &&
        !(ir_is_const_float(m.pad, &fzero) && fzero == 0))
        return false;
    for (int a = 0; a < m.rank; a++) {
        Depends d;
        w->why =
            "an index is not made of arange, scalars, arithmetic and loads of tensors that are only read";
        if (!gather_depends_on(m.idx[a], &d, 0)) return false;
        for (int k = 0; k < t->rank; k++)
            if (t->shape[k] == 1) d.on &= ~(1u << k);
        w->why = "along the tile's last axis not one axis of the tensor, and that by ones";
        if (d.on >> last & 1) {
            if (*unit >= 0 || d.on != 1u << last || !d.linear || d.slope[last] != 1) return false;
            *unit = a;
        } else if (d.on) w->picks |= 1u << a;
    }
    if (*unit < 0 || f->params[m.param].stride[*unit] != 1 || !w->picks || __builtin_ctz(w->picks) > *unit)
        return false;
    w->why = "its mask says more than that indices are in range, and not row by row";
    return !m.mask || gather_mask_goes(s, f, &m, m.mask, w);
}

static bool outside(void *block, Value *v) { return ir_defined_outside(v, block); }

/* Moves the computation of positions that are the same in every iteration before the loop. */
static Instr *first_place(Instr *g, const Value *v, const Picked *w)
{
    Instr *at = g;
    for (Instr *loop = g->block->parent; loop && loop->op == OP_FOR; loop = loop->block->parent) {
        bool free = kernel_position_of(v, outside, loop->blocks[0]);
        for (size_t k = 0; k < w->cuts.len; k++)
            free = free && kernel_position_of(w->cuts.data[k], outside, loop->blocks[0]);
        if (!free) break;
        at = loop;
    }
    return at;
}

/* For each row of the matrix, its position along the axes of the gather's result, as tiles of shape `line`.
 * */
static void coordinates(Builder *b, const Type *t, const int64_t *line, Value **at)
{
    Session *s = b->module->session;
    int64_t rows = type_elements(t) / t->shape[t->rank - 1], inner = rows;
    Value *none = ir_splat(b, ir_const_int(b, DT_I32, 0), 2, line);
    Value *row = ir_emit(b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)), type_tile(s, DT_I32, 1, &rows));
    row = ir_emit(b, OP_RESHAPE, &row, 1, NO_ATTRS, type_tile(s, DT_I32, 2, line));
    for (int k = 0; k < TILE_MAX_RANK; k++) at[k] = none;
    for (int k = 0; k < t->rank - 1; k++) {
        inner /= t->shape[k];
        at[k] = row;
        if (inner > 1) {
            Value *by = ir_splat(b, ir_const_int(b, DT_I32, inner), 2, line);
            at[k] = ir_bin(b, OP_DIV, at[k], by);
        }
        if (k) {
            Value *by = ir_splat(b, ir_const_int(b, DT_I32, t->shape[k]), 2, line);
            at[k] = ir_bin(b, OP_REM, at[k], by);
        }
    }
}

/* Positions that were made for an earlier gather of the same indices and of elements of as many bytes, whose
 * rows the same threads copy, such as that of the keys for that of the values. */
typedef struct Positions {
    const Value *of;
    const Block *home;
    Value *rows;
    int bytes;
    bool transposed;
} Positions;
typedef VEC(Positions) PositionsList;

static Value *known_positions(const PositionsList *l, const Positions *want, const int64_t *full)
{
    for (size_t k = 0; k < l->len; k++) {
        const Positions *p = &l->data[k];
        const int64_t *shape = p->rows->type->shape;
        if (p->of == want->of && p->home == want->home && p->bytes == want->bytes &&
            p->transposed == want->transposed && shape[0] == full[0] && shape[1] == full[1])
            return p->rows;
    }
    return NULL;
}

static Value *load_of_rows(
    Session *s, Instr *g, const Picked *w, int unit, bool transposed, PositionsList *known)
{
    MemParts m;
    const Type *t = ir_result(g)->type;
    ir_mem_parts(g, &m);
    int64_t columns = t->shape[t->rank - 1], rows = type_elements(t) / columns;
    int64_t line[2] = { transposed ? 1 : rows, transposed ? rows : 1 },
            full[2] = { transposed ? columns : rows, transposed ? rows : columns };
    Builder b = ir_before(g);
    b.loc = g->loc;
    Value *at[TILE_MAX_RANK], *zeros[TILE_MAX_RANK], *ops[1 + TILE_MAX_RANK] = { m.tensor };
    zeros[0] = ir_const_int(&b, DT_I32, 0);
    for (int k = 1; k < TILE_MAX_RANK; k++) zeros[k] = zeros[0];
    int64_t ext[TILE_MAX_RANK], order[2] = { 1, 0 };
    for (int a = 0; a < m.rank; a++) {
        bool picked = w->picks >> a & 1;
        ext[a] = a == unit ? columns : picked && a == __builtin_ctz(w->picks) ? rows : -1;
        if (!picked) {
            ops[1 + a] = kernel_position(&b, m.idx[a], zeros);
            continue;
        }
        Builder early = ir_before(first_place(g, m.idx[a], w));
        early.loc = g->loc;
        bool cut = w->cuts.len && a == __builtin_ctz(w->picks);
        Positions own = { m.idx[a], early.block, NULL, dtype_bytes(t->dtype), transposed };
        ops[1 + a] = cut ? NULL : known_positions(known, &own, full);
        if (ops[1 + a]) continue;
        coordinates(&early, t, line, at);
        Value *x = position_rows(&early, m.idx[a], at, true);
        for (size_t k = 0; k < w->cuts.len && a == __builtin_ctz(w->picks); k++) {
            Value *mask = position_rows(&early, w->cuts.data[k], at, false),
                  *out = ir_splat(&early, ir_const_int(&early, x->type->dtype, -1), 2, line);
            x = ir_op(&early, OP_WHERE, NULL, NO_ATTRS, mask, x, out);
        }
        ops[1 + a] = ir_emit(&early, OP_BROADCAST, &x, 1, NO_ATTRS, type_tile(s, x->type->dtype, 2, full));
        own.rows = ops[1 + a];
        if (!cut) vec_push(&s->arena, known, own);
    }
    Attr attrs[2] = { a_ints(ATTR_EXTENTS, ext, m.rank), a_ints(ATTR_ORDER, order, 2) };
    const Type *type = type_tile(s, t->dtype, 2, full);
    return ir_result(
        ir_build_raw(&b, OP_LOAD, ops, 1 + m.rank, (Attrs){ attrs, transposed ? 2 : 1 }, &type, 1));
}

static void note_why(Session *s, const Func *f, const Instr *g, const char *why)
{
    diag_perf(s, g->loc, "this gather of %s, an operand of a product, is not started ahead: %s",
        f->params[ir_operand(g, 0)->index].name, why);
}

void kernel_positions_note(Session *s, Func *f)
{
    InstrList all = { 0 };
    ir_collect(&s->arena, f->body, OP_GATHER, &all);
    for (size_t k = 0; k < all.len; k++) {
        Picked w;
        bool transposed;
        int unit;
        if (!gather_matrix_of(ir_result(all.data[k]), &transposed)) continue;
        note_why(s, f, all.data[k],
            rows_of_gather(s, f, all.data[k], &w, &unit) ? "neither TMA nor cp.async producers can copy it"
                                                         : w.why);
    }
}

void gather_windows_by_rows(Session *s, Func *f)
{
    InstrList all = { 0 };
    PositionsList known = { 0 };
    ir_collect(&s->arena, f->body, OP_GATHER, &all);
    for (size_t k = 0; k < all.len; k++) {
        Picked w;
        bool transposed;
        int unit;
        Value *old = rows_wanted(all.data[k], &transposed);
        const Type *t = ir_result(all.data[k])->type;
        if (!old) continue;
        bool fits = rows_of_gather(s, f, all.data[k], &w, &unit);
        if (fits && old->type->shape[transposed ? 0 : 1] != t->shape[t->rank - 1]) {
            fits = false;
            w.why = "its last axis is not one of the matrix";
        }
        if (!fits) {
            if (gather_matrix_of(ir_result(all.data[k]), &transposed)) note_why(s, f, all.data[k], w.why);
            continue;
        }
        Value *made = load_of_rows(s, all.data[k], &w, unit, transposed, &known);
        ir_replace(old, made);
        ir_set_name(made, old->name);
        Block *home = all.data[k]->block;
        gather_erase_chain(old);
        ir_sweep(home);
    }
}
