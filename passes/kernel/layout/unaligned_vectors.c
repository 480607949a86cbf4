/* unaligned-vectors: rows that do not begin at a multiple of 16 bytes, such as rows of 1009 f16, are
 * accessed by aligned vectors that are shifted in registers.
 *
 *   load X[r, :]    ->   two aligned 16-byte vectors around each run of 16 bytes, shifted into place
 *   store Y[r, :]   ->   each lane rotates its run, takes what it lacks of an aligned vector from the lane
 *                        before, and stores vectors: of 8 or 4 bytes where it has no more side by side, as
 *                        where elements of 2 bytes become bytes
 *
 * This file decides which accesses to handle so, and in which layout; backends/gpu/memory/emit_shift.c writes
 * the code. Element by element, a warp moves only 64 bytes with an instruction if elements have 2 bytes
 * (bench/notes/products.md, "Rows at odd addresses").
 *
 * Requires: CUDA; elements of 1 to 4 bytes in a row of stride 1; for a load, a tensor that the kernel only
 * reads, because the vectors read what is around a row, within the tensor. Keeps: memory; stores write no
 * byte beside the row. The order of sums changes with the layout.
 *
 * Does not handle AMD. There an instruction loads or stores 16 bytes at any address (LLVM's
 * unaligned-access-mode; clang 22 makes one global_load_dwordx4 of a vector aligned to 2 bytes, gfx90a to
 * gfx1100), so that nothing needs to be shifted. The emission does not use that yet: such rows are
 * accessed element by element. */
#include "passes/kernel/kernel.h"

bool kernel_may_shift(const Func *f, const KernelPlan *p, const Instr *mem)
{
    MemParts m;
    int axis, unit = kernel_unit_axis(f, mem, &axis);
    if (kernel_skips(p, PASS_UNALIGNED_VECTORS) || p->target->kind != TARGET_CUDA ||
        (mem->op != OP_LOAD && mem->op != OP_STORE) || ir_adds(mem) || !ir_mem_parts(mem, &m) || axis < 0)
        return false;
    const Param *q = &f->params[m.param];
    const Type *t = (m.result ? m.result : m.values[0])->type;
    const Attr *steps = ir_attr(mem, ATTR_STEPS);
    int bytes = dtype_bytes(t->dtype);
    if (t->kind != TYPE_TILE || t->dtype == DT_BOOL || bytes > 4 || q->stride[unit] != 1 ||
        (steps && steps->v[unit] != 1) || kernel_row_block(f, p, mem))
        return false;
    return (mem->op == OP_STORE || q->kind == PARAM_IN) && t->shape[axis] * bytes >= 128;
}

/* Costs, in instructions and half as much for each 128 bytes that pass L1. A vector of 16 bytes a lane passes
 * four times 128 bytes, and an element of 2 bytes half of that. The load of a run takes two instructions. A
 * store takes one, four exchanges, and six at each end of a chain; narrower ones take as many exchanges. */
int kernel_shift_cost(
    const Func *f, const KernelPlan *p, const Instr *mem, int chain, int width, int *by_element)
{
    MemParts m;
    ir_mem_parts(mem, &m);
    const Param *q = &f->params[m.param];
    int bytes = dtype_bytes(q->type->dtype), unit = kernel_unit_axis(f, mem, NULL);
    bool aligned = q->align % 16 == 0 && kernel_divisor(f, m.idx[unit]) * bytes % 16 == 0;
    for (int a = 0; a < m.rank; a++)
        if (a != unit) aligned &= ir_row_step(f, q, a) * bytes % 16 == 0;
    *by_element = 16 / bytes * 2 + 4;
    RowStartAccess row = aligned && m.rank > 1 ? (RowStartAccess){ 0 } : kernel_row_start(f, p);
    if (row.bytes) return (m.rank == 1 && row.leads ? 4 : 3) * 16 / row.unit;
    if (aligned) return 6;
    int stores = 16 / width;
    return mem->op == OP_LOAD ? 12 : 4 + 2 * stores + 8 + 12 * stores / chain;
}

static bool same_beside(const Layout *l, int axis, const int32_t *a, const int32_t *b)
{
    for (int d = 0; d < l->rank; d++)
        if (d != axis && a[d] != b[d]) return false;
    return true;
}

bool kernel_shift_chain(Arena *a, const Layout *l, int axis, int elem_bytes, int width, ShiftChain *s)
{
    int32_t c[TILE_MAX_RANK] = { 0 }, from[TILE_MAX_RANK] = { 0 };
    int n = width / elem_bytes, regs = (int)layout_regs(l);
    *s = (ShiftChain){ .width = width, .n = n, .vectors = regs / n, .lanes = 1 };
    if (regs % n || !l->separable) return false;
    for (int r = 0; r < regs; r++) {
        layout_element(l, (uint32_t)r, 0, 0, 0, c);
        if (r % n == 0) memcpy(from, c, sizeof from);
        if (c[axis] != from[axis] + r % n || from[axis] % n || !same_beside(l, axis, c, from)) return false;
    }
    for (uint32_t lane = 1; lane < layout_lanes(l); lane *= 2) {
        layout_element(l, 0, lane, 0, 0, c);
        layout_element(l, 0, 0, 0, 0, from);
        if (c[axis] == s->lanes * n && same_beside(l, axis, c, from) && (int)lane == s->lanes) s->lanes *= 2;
        else if (c[axis] != from[axis] || same_beside(l, axis, c, from)) return false;
    }
    s->before = arena_array(a, int32_t, (size_t)s->vectors);
    int32_t (*first)[TILE_MAX_RANK] = arena_alloc(a, (size_t)s->vectors * sizeof *first);
    for (int v = 0; v < s->vectors; v++) layout_element(l, (uint32_t)(v * n), 0, 0, 0, first[v]);
    for (int v = 0; v < s->vectors; v++) {
        s->before[v] = -1;
        for (int w = 0; w < s->vectors; w++) {
            const bool ends = first[w][axis] == first[v][axis] - n * s->lanes;
            if (ends && same_beside(l, axis, first[v], first[w])) s->before[v] = w;
        }
    }
    return true;
}

int kernel_plain_bytes(const Func *f, const KernelPlan *p, const Instr *store)
{
    MemParts m;
    int axis, bytes = kernel_access_bytes(f, store);
    RowStartAccess words = kernel_row_start(f, p);
    kernel_unit_axis(f, store, &axis);
    if (words.bytes || axis < 0 || !ir_mem_parts(store, &m)) return words.bytes ? words.unit : bytes;
    const Type *t = m.values[0]->type;
    int64_t row = t->shape[axis] * dtype_bytes(t->dtype);
    return row % bytes ? dtype_bytes(t->dtype) : bytes;
}

bool kernel_store_chain(Arena *a, const Layout *l, int axis, int elem_bytes, int plain, ShiftChain *s)
{
    for (int width = 16; width >= 4; width /= 2) {
        /* Wider elements side by side are those of products, for which better layouts are looked for. */
        if (width < 16 && (plain >= 4 || elem_bytes > 1)) return false;
        if (kernel_shift_chain(a, l, axis, elem_bytes, width, s)) return true;
    }
    return false;
}

/* A layout in which each warp has a contiguous part of one row, so that the extra work at the ends of a part
 * is done once for each warp. */
static const Layout *parts_of_row(Arena *a, int32_t tile, int n, int lanes, int warps)
{
    enum { BITS = 16 };
    int32_t reg[BITS], lane[BITS];
    int nbit[LAYOUT_INPUTS] = { 0 }, run = n * lanes, each = (tile + run * warps - 1) / (run * warps);
    for (int k = 1; k < n; k *= 2) reg[nbit[LAYOUT_REG]++] = k;
    for (int k = n; k < run; k *= 2) lane[nbit[LAYOUT_LANE]++] = k;
    const int32_t *basis[LAYOUT_INPUTS] = { reg, lane, NULL, NULL };
    LayoutDigit d[2] = { { LAYOUT_REG, 0, each, run }, { LAYOUT_WARP, 0, warps, run * each } };
    if (each == 1) return layout_from_basis(a, 1, &tile, nbit, basis, 1, d + 1);
    return layout_from_basis(a, 1, &tile, nbit, basis, 2, d);
}

const Layout *kernel_shift_layout(Arena *a, const KernelPlan *p, int rank, const int32_t *tile,
    const int32_t *order, int elem_bytes, int ctas)
{
    int32_t whole[TILE_MAX_RANK];
    int n = 16 / elem_bytes, unit = order[0], lanes = p->target->wave, warps = p->warps * ctas;
    if (rank == 1 && warps > 1 && tile[0] > n * lanes * warps)
        return parts_of_row(a, tile[0], n, lanes, warps);
    for (int d = 0; d < rank; d++) whole[d] = tile[d];
    whole[unit] = (tile[unit] + n - 1) / n * n;
    const Layout *l = layout_coalesced(a, rank, whole, order, elem_bytes, 16, lanes, warps);
    LayoutVector v;
    if (!l) return NULL;
    layout_vector(l, unit, (uint32_t)elem_bytes, 16, 16, &v);
    return v.bytes == 16 ? layout_with_tile(a, l, tile) : NULL;
}

const Layout *kernel_shift_runs(Arena *a, const Layout *l, int axis)
{
    int32_t basis[LAYOUT_INPUTS][LAYOUT_MAX_BITS][LAYOUT_MAX_RANK],
        flat[LAYOUT_INPUTS][LAYOUT_MAX_BITS * LAYOUT_MAX_RANK];
    const int32_t *in[LAYOUT_INPUTS];
    int nbit[LAYOUT_INPUTS];
    if (!l) return NULL;
    for (int k = 0; k < LAYOUT_INPUTS; k++) {
        nbit[k] = l->nbit[k];
        for (int b = 0; b < nbit[k]; b++)
            for (int d = 0; d < l->rank; d++)
                basis[k][b][d] = (int32_t)(l->basis[k][b] >> l->fshift[d] & ((1ull << l->fbit[d]) - 1));
    }
    for (int to = 0; to < 4; to++) /* The lowest bits, in order, move along the axis by 1, 2, 4 and so on. */
        for (int b = to + 1; b < nbit[LAYOUT_REG]; b++) {
            int32_t moved[LAYOUT_MAX_RANK];
            bool pure = basis[LAYOUT_REG][b][axis] == 1 << to;
            for (int d = 0; d < l->rank; d++) pure = pure && (d == axis || !basis[LAYOUT_REG][b][d]);
            if (!pure) continue;
            memcpy(moved, basis[LAYOUT_REG][b], sizeof moved);
            memmove(basis[LAYOUT_REG][to + 1], basis[LAYOUT_REG][to], (size_t)(b - to) * sizeof moved);
            memcpy(basis[LAYOUT_REG][to], moved, sizeof moved);
        }
    for (int k = 0; k < LAYOUT_INPUTS; k++) {
        for (int b = 0; b < nbit[k]; b++)
            memcpy(flat[k] + b * l->rank, basis[k][b], (size_t)l->rank * sizeof(int32_t));
        in[k] = flat[k];
    }
    return layout_from_basis(a, l->rank, l->tile, nbit, in, l->ndigit, l->digit);
}

typedef struct AccessRecorder {
    Session *s;
    const Func *f;
    KernelPlan *p;
    uint64_t named; /* parameters that the note has named */
    Text note;
} AccessRecorder;

/* Halves of an instruction for 16 bytes of a lane; 0: the access is not shifted. */
static int shifted_cost(const AccessRecorder *r, const Instr *i, int bytes)
{
    MemParts m;
    ShiftChain chain;
    int axis, heads = 0, by_element;
    if (!kernel_may_shift(r->f, r->p, i) || ir_attr_int(i, ATTR_BULK, 0) || !ir_mem_parts(i, &m)) return 0;
    const Type *t = (m.result ? m.result : m.values[0])->type;
    int elem = dtype_bytes(t->dtype);
    kernel_unit_axis(r->f, i, &axis);
    if ((bytes >= 16 && t->shape[axis] * elem % 16 == 0) || !t->layout) return 0;
    const Layout *l = layouts_get(&r->p->layouts, t);
    if (i->op == OP_STORE
            ? !kernel_store_chain(&r->s->arena, l, axis, elem, kernel_plain_bytes(r->f, r->p, i), &chain)
            : !kernel_shift_chain(&r->s->arena, l, axis, elem, 16, &chain))
        return 0;
    for (int v = 0; v < chain.vectors; v++) heads += chain.before[v] < 0;
    return kernel_shift_cost(r->f, r->p, i, chain.vectors / heads, chain.width, &by_element);
}

static void name_in_note(AccessRecorder *r, int param)
{
    if (r->f->n_params > 64 || r->named >> param & 1) return;
    text_printf(&r->note, "%s%s", r->named ? ", " : "", r->f->params[param].name);
    r->named |= 1ull << param;
}

static void record_access(void *user, Instr *i)
{
    AccessRecorder *r = user;
    MemParts m;
    bool access = i->op == OP_LOAD || i->op == OP_STORE, copies = kernel_copies(i->op);
    int bytes = access || copies ? kernel_access_bytes(r->f, i) : 0;
    if (!bytes) return;
    if (access && kernel_row_block(r->f, r->p, i)) bytes = 16;
    int param = copies                ? ir_operand(i, 1)->index
                : ir_mem_parts(i, &m) ? m.param
                                      : 0,
        cost = access ? shifted_cost(r, i, bytes) : 0;
    ir_set_attr(r->s, i, a_int(ATTR_VECTOR, bytes / dtype_bytes(r->f->params[param].type->dtype)));
    if (!cost) return;
    ir_set_attr(r->s, i, a_int(ATTR_SHIFTED, cost));
    name_in_note(r, param);
}

bool kernel_record_accesses(Session *s, const Func *f, KernelPlan *p)
{
    AccessRecorder r = { .s = s, .f = f, .p = p };
    text_init(&r.note, &s->arena);
    ir_walk(f->body, record_access, &r);
    if (r.named)
        p->schedule = arena_printf(&s->arena,
            "%s  shift: rows of %s by vectors of 16 bytes, shifted in registers where they begin anywhere\n",
            p->schedule ? p->schedule : "", r.note.data);
    return r.named != 0;
}
