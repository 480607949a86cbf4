/* gather-windows: a gather that picks whole rows or blocks becomes a load, one of whose axes has positions
 * of its own.
 *
 *   %at = broadcast (reshape %page) : [4, 16, 128]       4 page numbers, the same for everything in a page
 *   %g  = gather K[%at, arange, %h, arange] : [4, 16, 128]
 *   %k  = reshape %g : [64, 128];  mma %q, (permute %k), ..
 *
 * becomes, where a matrix product takes it,
 *
 *   %l  = load K[%at, 0, %h, 0] {extents = [4, 16, -1, 128], order = [2, 0, 1]}
 *   %k  = reshape %l : [128, 64];  mma %q, %k, ..
 *
 * Anything may pick along the first axis of the result. Along each of the others, one axis of the tensor
 * runs on by ones. The load's offset on an axis that is picked is a tile: element n says where part n of
 * the window is. Only warp specialization and multistage handle such a load. The producer asks for the
 * positions one by one, as scalars (kernel_position), and starts a copy of each part (producer.c). If warp
 * specialization is refused, the kernel gets its gathers back together with everything else that the
 * attempt changed (lower.c), and only gathers of a single position become loads; their position is a
 * scalar.
 *
 * Where positions do not come in a few blocks, cp.async producers copy the rows (cp_async_producer.c). The
 * portable path copies to shared memory, and each row has its position (gather_rows.c), in
 * registers of the threads that copy. A position that a loop does not change is computed once.
 *
 * Requires: a mask that only says that indices are in range, or that follows from the first axis alone (a
 * position that is masked off becomes -1, which is out of range); a pad of zero; a tensor that the kernel
 * does not write (no token); index tiles made of arange, scalars, element-wise arithmetic, and
 * loads and gathers of tensors that are not written. Keeps: everything. */
#include "passes/kernel/gather/gather_windows.h"

enum { MOST_DEPTH = 24 };

static bool is_tile(const Value *v) { return v->type->kind == TYPE_TILE; }

static bool load_depends(const Instr *i, const Value *v, Depends *d)
{
    MemParts m;
    int64_t zero;
    if (!ir_mem_parts(i, &m) || m.token || m.mask || (m.pad && !ir_is_const(m.pad, &zero)) ||
        !dtype_is_int(v->type->dtype))
        return false;
    for (int a = 0; a < m.rank; a++)
        if (is_tile(m.idx[a])) return false;
    d->linear = false;
    d->on = (1u << v->type->rank) - 1;
    return true;
}

/* Numbers from a table, such as the page of each key: any element may follow from any index. */
static bool gather_depends(const Instr *i, const Value *v, Depends *d, int depth)
{
    MemParts m;
    Depends x;
    int64_t zero;
    *d = (Depends){ 0 };
    if (!ir_mem_parts(i, &m) || m.token || (m.pad && !(ir_is_const(m.pad, &zero) && zero == 0)) ||
        !dtype_is_int(v->type->dtype))
        return false;
    for (int a = 0; a < m.rank + (m.mask != NULL); a++) {
        if (!gather_depends_on(a < m.rank ? m.idx[a] : m.mask, &x, depth + 1)) return false;
        d->on |= x.on;
        d->masked |= x.masked || a == m.rank;
    }
    return true;
}

/* Of what a broadcast, a permute or a reshape makes of its operand. */
static bool shape_depends(const Instr *i, const Value *v, Depends *d, int depth)
{
    const Type *from = ir_operand(i, 0)->type;
    Depends x = { 0 };
    if (from->kind != TYPE_TILE || !gather_depends_on(ir_operand(i, 0), &x, depth + 1))
        return from->kind == TYPE_SCALAR;
    if (i->op == OP_RESHAPE && position_axis(from, v->type, 0) == -2) {
        int line = position_line(v->type);
        d->linear = !x.on;
        d->masked = x.masked;
        d->on = x.on && line >= 0 ? 1u << line : 0;
        return line >= 0;
    }
    d->linear = x.linear;
    d->masked = x.masked;
    for (int a = 0; a < (i->op == OP_RESHAPE ? from->rank : v->type->rank); a++) {
        int k = i->op == OP_RESHAPE ? position_axis(from, v->type, a) : a,
            own = i->op == OP_PERMUTE ? (int)ir_attr(i, ATTR_ORDER)->v[a] : a;
        if (k == -2) return false;
        if (k < 0 || !(x.on >> own & 1) || from->shape[own] == 1) continue;
        d->on |= 1u << k;
        d->slope[k] = x.slope[own];
    }
    return true;
}

bool gather_depends_on(const Value *v, Depends *d, int depth)
{
    const Instr *i = v->def;
    Depends y = { 0 };
    *d = (Depends){ .linear = true };
    if (!is_tile(v)) return v->type->kind == TYPE_SCALAR;
    if (!i || depth > MOST_DEPTH) return false;
    if (i->op == OP_LOAD) return load_depends(i, v, d);
    if (i->op == OP_GATHER) return gather_depends(i, v, d, depth);
    switch (op_as_shape(i->op)) {
    case SHAPE_SPLAT: return true;
    case SHAPE_ARANGE:
        d->on = 1;
        d->slope[0] = 1;
        return true;
    case SHAPE_BROADCAST:
    case SHAPE_PERMUTE:
    case SHAPE_RESHAPE: return shape_depends(i, v, d, depth);
    case SHAPE_CONCAT:
    case SHAPE_SLICE: return false;
    }
    if (!op_has(i->op, OPF_ELEM | OPF_PURE) || i->n_operands > 3) return false;
    bool sum = i->op == OP_ADD || i->op == OP_SUB,
         same = i->op == OP_CAST && dtype_is_int(v->type->dtype) && dtype_bits(v->type->dtype) >= 32;
    d->linear = sum || same;
    for (int k = 0; k < i->n_operands; k++) {
        if (!gather_depends_on(ir_operand(i, k), &y, depth + 1)) return false;
        d->on |= y.on;
        d->linear &= y.linear;
        d->masked |= y.masked;
        for (int a = 0; a < TILE_MAX_RANK; a++)
            d->slope[a] += k && i->op == OP_SUB ? -y.slope[a] : y.slope[a];
    }
    return true;
}

/* The same numbers, or fewer of them: without the operations that repeat, move or widen them. */
static const Value *bare(const Value *v)
{
    for (const Instr *i = v->def; i; i = v->def) {
        bool widens = i->op == OP_CAST && dtype_is_int(ir_operand(i, 0)->type->dtype) &&
                      dtype_bits(v->type->dtype) >= dtype_bits(ir_operand(i, 0)->type->dtype);
        if (i->op != OP_BROADCAST && i->op != OP_SPLAT && !widens &&
            !(i->op == OP_RESHAPE && is_tile(ir_operand(i, 0)) &&
                position_axis(ir_operand(i, 0)->type, v->type, 0) != -2))
            break;
        v = ir_operand(i, 0);
    }
    return v;
}

static bool is_extent(const Func *f, const Param *p, int axis, const Value *v)
{
    int64_t n;
    const Dim *d = &f->dims[p->dims[axis]];
    return (v->def && v->def->op == OP_DIM && ir_attr_int(v->def, ATTR_DIM, -1) == p->dims[axis]) ||
           (ir_is_const(v, &n) && d->extent >= 0 && n == d->extent);
}

static bool same_numbers(const Value *a, const Value *b) { return bare(a) == bare(b); }

bool gather_mask_goes(Session *s, const Func *f, const MemParts *m, Value *mask, Picked *w)
{
    Instr *i = mask->def;
    Depends d;
    int64_t k;
    bool all;
    if (!i) return false;
    if (i->op == OP_BROADCAST && gather_mask_goes(s, f, m, ir_operand(i, 0), w)) return true;
    if (i->op == OP_AND && mask->type->dtype == DT_BOOL)
        return gather_mask_goes(s, f, m, ir_operand(i, 0), w) &&
               gather_mask_goes(s, f, m, ir_operand(i, 1), w);
    if (ir_is_const(mask, &k) && k) return true;
    for (int a = 0; a < m->rank; a++) {
        const Value *x = i->n_operands == 2 ? bare(ir_operand(i, 0)) : NULL,
                    *y = x ? bare(ir_operand(i, 1)) : NULL;
        all = (i->op == OP_LT && is_extent(f, &f->params[m->param], a, y)) ||
              (i->op == OP_GE && ir_is_const(y, &k) && k == 0);
        if (all && same_numbers(x, m->idx[a])) return true;
    }
    if (!w->picks || ir_result(m->result->def)->type->shape[0] == 1 ||
        mask->type->rank != m->result->type->rank || mask->type->shape[0] != m->result->type->shape[0] ||
        !gather_depends_on(mask, &d, 0) || d.masked)
        return false;
    for (int a = 1; a < mask->type->rank; a++)
        if (d.on >> a & 1 && mask->type->shape[a] > 1) return false;
    if (dtype_bits(m->idx[__builtin_ctz(w->picks)]->type->dtype) < 32) return false; /* -1 may be in range */
    vec_push(&s->arena, &w->cuts, mask);
    return true;
}

static bool window_of_gather(Session *s, const Func *f, const Instr *g, Picked *w)
{
    MemParts m;
    const Type *t = ir_result(g)->type;
    double fzero;
    int64_t zero;
    *w = (Picked){ 0 };
    if (!ir_mem_parts(g, &m) || m.token || t->kind != TYPE_TILE || t->rank < 2) return false;
    if (m.pad && !(ir_is_const(m.pad, &zero) && zero == 0) &&
        !(ir_is_const_float(m.pad, &fzero) && fzero == 0))
        return false;
    int next = 1;
    for (int a = 0; a < m.rank; a++) {
        Depends d;
        w->along[a] = -1;
        if (!gather_depends_on(m.idx[a], &d, 0) || d.masked) return false;
        for (int k = 0; k < t->rank; k++)
            if (t->shape[k] == 1) d.on &= ~(1u << k);
        if (!d.on) continue;
        if (d.on == 1) {
            w->picks |= 1u << a;
            continue;
        }
        while (next < t->rank && t->shape[next] == 1) next++;
        if (d.on != 1u << next || !d.linear || d.slope[next] != 1) return false; /* in the tensor's order */
        w->along[a] = next++;
    }
    while (next < t->rank && t->shape[next] == 1) next++;
    return next == t->rank && (w->picks || t->shape[0] == 1) &&
           (!m.mask || gather_mask_goes(s, f, &m, m.mask, w));
}

Value *gather_matrix_of(Value *v, bool *transposed)
{
    const Use *u = v->uses;
    *transposed = false;
    if (u && !u->next && u->user->op == OP_RESHAPE) {
        v = ir_result(u->user);
        u = v->uses;
    }
    if (!u || v->type->kind != TYPE_TILE || v->type->rank != 2) return NULL;
    if (!u->next && u->user->op == OP_PERMUTE) {
        *transposed = true;
        v = ir_result(u->user);
        u = v->uses;
    }
    for (; u; u = u->next)
        if (u->user->op != OP_MMA_SYNC || u == &u->user->operands[2]) return NULL;
    return v->uses ? v : NULL;
}

static Value *load_of(Session *s, Instr *g, const Picked *w, Value *matrix, bool transposed)
{
    MemParts m;
    const Type *t = ir_result(g)->type;
    ir_mem_parts(g, &m);
    Builder b = ir_before(g);
    Value *zero[TILE_MAX_RANK], *ops[1 + TILE_MAX_RANK] = { m.tensor };
    int64_t ext[TILE_MAX_RANK], shape[TILE_MAX_RANK], order[TILE_MAX_RANK];
    int rank = 0;
    for (int a = 0; a < m.rank; a++) {
        bool parts = (w->picks >> a & 1) && t->shape[0] > 1;
        ext[a] = w->along[a] >= 0                        ? t->shape[w->along[a]]
                 : parts && a == __builtin_ctz(w->picks) ? t->shape[0]
                                                         : -1;
        /* The parts are the slowest axis of the loaded tile. */
        if (parts && ext[a] != -1 && rank) return NULL;
        if (ext[a] != -1) shape[rank++] = ext[a];
    }
    if (rank < 2) return NULL;
    zero[0] = ir_const_int(&b, DT_I32, 0);
    for (int k = 1; k < TILE_MAX_RANK; k++) zero[k] = zero[0];
    for (int a = 0; a < m.rank; a++)
        ops[1 + a] = (w->picks >> a & 1) && t->shape[0] > 1 ? m.idx[a] : kernel_position(&b, m.idx[a], zero);
    for (size_t k = 0; k < w->cuts.len; k++) {
        Value **at = &ops[1 + __builtin_ctz(w->picks)], *mask = w->cuts.data[k];
        const Type *full = (*at)->type;
        if (mask->type != type_tile(s, DT_BOOL, full->rank, full->shape))
            mask =
                ir_emit(&b, OP_BROADCAST, &mask, 1, NO_ATTRS, type_tile(s, DT_BOOL, full->rank, full->shape));
        Value *none = ir_splat(&b, ir_const_int(&b, full->dtype, -1), full->rank, full->shape);
        *at = ir_op(&b, OP_WHERE, NULL, NO_ATTRS, mask, *at, none);
    }
    Attr attrs[3] = { a_ints(ATTR_EXTENTS, ext, m.rank) };
    int n = 1;
    int64_t laid[TILE_MAX_RANK];
    for (int k = 0; k < rank; k++) {
        order[k] = transposed ? (k ? k - 1 : rank - 1) : k;
        laid[k] = shape[order[k]];
    }
    if (transposed) attrs[n++] = a_ints(ATTR_ORDER, order, rank);
    const Type *type = type_tile(s, t->dtype, rank, laid);
    b.loc = g->loc;
    Value *v = ir_result(ir_build_raw(&b, OP_LOAD, ops, 1 + m.rank, (Attrs){ attrs, n }, &type, 1));
    if (rank > 2)
        v = ir_emit(&b, OP_RESHAPE, &v, 1, NO_ATTRS, type_tile(s, t->dtype, 2, matrix->type->shape));
    return v;
}

void gather_erase_chain(Value *v)
{
    for (Instr *i = v->def; i && !ir_is_used(i);) {
        Instr *from = ir_operand(i, 0)->type->kind == TYPE_TENSOR ? NULL : ir_operand(i, 0)->def;
        ir_erase(i);
        i = from;
    }
}

static void windows_of_gathers(Session *s, Func *f, bool parts)
{
    InstrList all = { 0 };
    ir_collect(&s->arena, f->body, OP_GATHER, &all);
    for (size_t k = 0; k < all.len; k++) {
        Instr *g = all.data[k];
        Picked w;
        bool transposed;
        Value *old = gather_matrix_of(ir_result(g), &transposed), *made;
        if (!old || (!parts && ir_result(g)->type->shape[0] > 1) || !window_of_gather(s, f, g, &w) ||
            !(made = load_of(s, g, &w, old, transposed)))
            continue;
        ir_replace(old, made);
        ir_set_name(made, old->name);
        gather_erase_chain(old);
    }
}

Instr *kernel_load_of_gather(Session *s, const Func *f, Instr *gather)
{
    Picked w;
    Value *v = window_of_gather(s, f, gather, &w) ? load_of(s, gather, &w, ir_result(gather), false) : NULL;
    return v && v->def->op == OP_LOAD ? v->def : NULL;
}

bool kernel_pass_gather_windows(KernelContext *c)
{
    uint32_t before = kernel_values(c);
    windows_of_gathers(c->s, c->f, c->specialized);
    if (!c->specialized && c->p->target->kind == TARGET_CUDA) gather_windows_by_rows(c->s, c->f);
    return kernel_grew(c, before);
}
