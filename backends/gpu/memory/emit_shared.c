/* emit_shared.c: shared buffers, and asynchronous copies to them. */
#include "backends/gpu/memory/emit_copy.h"
#include "backends/gpu/memory/emit_gathered.h"

const char *shared_offset(Emit *e, const LayoutShared *s, Index *const *c)
{
    const char *name = tmp(e, "o"), *row = NULL, *fast = index_text(e, c[s->order[0]]), *x;
    int64_t pitch = 1;
    for (int k = 1; k < s->rank; k++) {
        const char *t = index_text(e, c[s->order[k]]);
        if (pitch != 1) t = str(e, "%s * %lld", t, (long long)pitch);
        row = row ? str(e, "%s + %s", row, t) : t;
        pitch *= s->tile[s->order[k]];
    }
    if (s->panel >= s->tile[s->order[0]]) x = str(e, "%s * %d", fast, s->elem_bytes);
    else
        x = str(
            e, "%s / %d * %d + %s %% %d * %d", fast, s->panel, s->panel_bytes, fast, s->panel, s->elem_bytes);
    if (row) x = str(e, "%s + (%s) * %d", x, row, s->pitch);
    line(e, "u32 %s = %s;", name, x);
    int bits, base, shift;
    if (layout_shared_swizzle(s, &bits, &base, &shift)) {
        if (bits) line(e, "%s ^= (%s >> %d & %d) << %d;", name, name, base + shift, (1 << bits) - 1, base);
    } else {
        uint8_t shifts[28];
        uint32_t masks[28];
        int n = layout_shared_terms(s, shifts, masks);
        const char *all = name;
        for (int k = 0; k < n; k++) all = str(e, "%s ^ (%s >> %d & %uu)", all, name, shifts[k], masks[k]);
        if (n) line(e, "%s = %s;", name, all);
    }
    return name;
}

/* Emits a copy that goes directly to LDS (passes/kernel/amd/dma.c). */
static void emit_dma(Emit *e, Instr *i)
{
    const Type *view = ir_operand(i, 0)->type;
    const LayoutShared *s = layouts_shared(&e->plan->layouts, view);
    int size = kernel_dma_bytes(e->target), elem = dtype_bytes(view->dtype), fast = s->order[0],
        slow = s->order[1];
    DmaMap m;
    Window w;
    window_of(e, i, &w);
    if (!kernel_dma_map(&e->s->arena, s, size, e->threads, &m))
        ir_fail(e->s, i->loc, "no way straight to LDS for %s", type_string(e->s, view));
    note_wide(e, WAY_LDS_DMA, false, &w, NULL, size);
    const char *ptr = window_pointer(e, &w), *o = tmp(e, "o"), *x = tmp(e, "x"), *row = tmp(e, "row"),
               *col = tmp(e, "col"), *buffer = tmp(e, "buffer"), *at = tmp(e, "at"),
               *base = name_of(e, ir_operand(i, 0));
    uint8_t shift[28];
    uint32_t mask[28];
    int n = layout_shared_terms(s, shift, mask);
    const char *swizzled = o;
    line(e, "const u32 %s = (u32)%s * %d;", o, e->iteration ? in_iteration(e, "tid") : "tid", size);
    for (int k = 0; k < n; k++) swizzled = str(e, "%s ^ (%s >> %d & %uu)", swizzled, o, shift[k], mask[k]);
    line(e, "const u32 %s = %s;", x, swizzled);
    bool panels = s->panel < s->tile[fast];
    line(e, "const i32 %s = (i32)(%s / %d), %s = (i32)(%s);", row,
        panels ? str(e, "%s %% %d", x, s->panel_bytes) : x, s->pitch, col,
        panels ? str(e, "%s / %d * %d + %s %% %d", x, s->panel_bytes, s->pitch, x, s->pitch)
               : str(e, "%s %% %d", x, s->pitch));
    Index *c[2], *thread[2], *own[2], *counter = index_variable(e, "v");
    thread[slow] = index_variable(e, row);
    thread[fast] = index_number(e, 0);
    line(e, "const Buffer %s = %s(%s, %s);", buffer, use(e, "make_buffer"), ptr,
        e->guard ? str(e, "%s ? 0xfffffff0u : 0u", e->guard) : "0xfffffff0u");
    line(e, "const u32 %s = (u32)(%s) * %du;", at, window_index(e, &w, thread), elem);
    begin_unrolled(e, "v", m.count);
    own[slow] = index_entry(e, m.row, m.count, counter);
    own[fast] = index_number(e, 0);
    const char *q = index_text(e, index_entry(e, m.col, m.count, counter));
    c[slow] = index_other(e, "(%s + %s)", row, index_text(e, own[slow]));
    c[fast] = index_other(e, "(%s ^ %s) / %d", col, q, elem);
    /* The bytes of a lane are consecutive. When elements are not, because of a step or a stride, a lane
     * fetches one element (kernel_access_bytes). */
    bool contiguous = w.unit_tile == fast && w.step[w.unit] == 1;
    if (!contiguous) {
        if (elem != size) ir_fail(e->s, i->loc, "elements straight to LDS that are not contiguous");
        own[fast] = c[fast];
    }
    const char *cond = window_condition(e, &w, c, false),
               *to = str(e, "%s + (u32)(%s) * %du", at, window_index(e, &w, own), elem);
    if (contiguous) to = str(e, "%s + (u32)(%s ^ %s)", to, col, q);
    line(e, "%s(%s + v * %d + (u32)warp * %d, %s, %s);", use(e, str(e, "lds_dma_b%d", size * 8)), base,
        size * e->threads, size * e->target->wave, buffer,
        *cond ? str(e, "%s ? %s : ~0u", without_branches(e, cond), to) : to);
    end_block(e);
}

/* Emits if (c) { copies } without a branch, so that the number of loads in flight is the same in every step.
 * */
bool emit_guarded_copies(Emit *e, Instr *i)
{
    if (!is_hip(e) || e->guard || i->n_results || i->blocks[1]->first != ir_terminator(i->blocks[1]))
        return false;
    int copies = 0;
    for (const Instr *x = i->blocks[0]->first; x != ir_terminator(i->blocks[0]); x = x->next) {
        copies += x->op == OP_COPY;
        if (x->op != OP_COPY && x->op != OP_SHARED_STAGE &&
            !((op_info[x->op].flags & OPF_PURE) && x->n_blocks == 0 && x->n_results == 1 &&
                x->results[0].type->kind == TYPE_SCALAR))
            return false;
    }
    if (!copies) return false;
    e->guard = name_of(e, ir_operand(i, 0));
    emit_block(e, i->blocks[0]);
    e->guard = NULL;
    return true;
}

/* The elements that a thread copies at once by layout l of the window, and their registers. */
static int piece_elements(
    Emit *e, const Window *w, const Layout *l, const LayoutShared *s, DType d, LayoutVector *v)
{
    int n = window_vector(e, w, l, d, v);
    for (uint32_t k = 0; k < v->n; k++)
        if (v->reg[k] != k) n = 1;
    return copy_runs_along(w, l, s) && (n == 1 || window_whole_vectors(e, w, n)) ? n : 1;
}

enum { NARROWEST = 4 }; /* bytes, of cp.async */

/* Where a row is copied by 4 or 8 bytes, neighbours in it are of neighbouring lanes, so that a warp asks for
 * few lines and writes to each bank once. */
CopyLayout copy_layout(Emit *e, const Instr *copy, const Window *w, const LayoutShared *s)
{
    const Type *view = ir_operand(copy, 0)->type;
    Arena *a = &e->s->arena;
    int wave = e->target->wave, warps = e->threads / wave;
    CopyLayout widest = kernel_copy_layout(a, copy, view, s, COPIED_AT_ONCE, wave, warps);
    LayoutVector v;
    int bytes = piece_elements(e, w, widest.window, s, view->dtype, &v) * dtype_bytes(view->dtype);
    if (w->picked || bytes < NARROWEST || bytes >= COPIED_AT_ONCE) return widest;
    return kernel_copy_layout(a, copy, view, s, bytes, wave, warps);
}

void copy_coords(Emit *e, const CopyLayout *l, Index *reg, Index **c)
{
    if (l->matrix) {
        coords_at(e, l->matrix, reg, c);
        return;
    }
    Index *own[TILE_MAX_RANK];
    const int last = l->window->rank - 1;
    coords_at(e, l->window, reg, own);
    c[0] = own[0];
    for (int a = 1; a < last; a++)
        c[0] =
            index_other(e, "(%s * %d + %s)", index_text(e, c[0]), l->window->tile[a], index_text(e, own[a]));
    c[1] = own[last];
}

/* Copies n elements from ptr + index, or zeros if the condition does not hold, to the shared address `to`.
 * Uses cp.async if the target has it, and registers otherwise. */
static void copy_vector(Emit *e, const Window *w, DType d, int n, const char *to, const char *ptr,
    const char *index, const char *cond)
{
    int bytes = n * dtype_bytes(d);
    if (target_has(e->target, TF_CP_ASYNC) && !kernel_skips(e->plan, PASS_MULTISTAGE) && bytes >= 4) {
        const char *p = tmp(e, "in"), *hint = window_hint(e, w, ACCESS_CP_ASYNC);
        line(e, "const bool %s = %s;", p, *cond ? cond : "true");
        line(e, "%s(%s, %s + (%s ? %s : 0), %s);", use(e, str(e, "cp_async%s_b%d", hint, bytes * 8)), to, ptr,
            p, index, p);
    } else if (n > 1) {
        const char *t = tmp(e, "w"), *load = window_load_fn(e, w, bytes);
        line(e, "u32 %s[%d] = { 0 };", t, bytes / 4);
        line(e, "%s%s%s%s(%s, %s + %s);", *cond ? "if (" : "", cond, *cond ? ") " : "", load, t, ptr, index);
        line(e, "%s(%s, %s);", use(e, str(e, "sts_b%d", bytes * 8)), to, t);
    } else {
        /* Floats of one and two bytes are copied as bits. */
        const char *bits = d == DT_BOOL || dtype_bytes(d) > 2 ? dtype_name(d) : pointee(d),
                   *x = str(e, "%s(%s + %s)", use(e, str(e, "ldg_%s", bits)), ptr, index);
        if (*cond) x = str(e, "%s ? %s : 0", cond, x);
        line(e, "%s(%s, %s);", use(e, str(e, "sts_%s", bits)), to, x);
    }
}

/* Axes whose positions a tile gives: their condition and their part of the index. */
static void pick_positions(
    Emit *e, const Window *w, const Layout *l, Index *reg, const char **cond, const char **index)
{
    for (int a = 0; a < w->rank; a++) {
        if (!(w->picked >> a & 1)) continue;
        const char *x = tmp(e, "at");
        line(e, "const i64 %s = (i64)%s;", x, element(e, w->offset[a], l, reg));
        *cond = both_conditions(e, *cond, str(e, "(u64)%s < (u64)%s", x, window_extent(e, w->param, a)));
        *index = str(e, "%s + %s", *index, window_times(e, x, w->param, a));
    }
}

/* A copy of a window in pieces of n elements, of which each thread has `count`. */
typedef struct PieceCopy {
    const Window *w;
    const CopyLayout *threads;
    const LayoutShared *s;
    const CopyPlace *place;
    DType d;
    int n, count;
    const char *ptr, *base; /* of the tensor, of the stage */
    const char *holder;     /* the condition that selects one of the threads that hold an element */
    const char *origin;     /* the thread's offset in the stage; NULL: computed from coordinates */
    uint32_t *own, seen;    /* what each piece adds to that */
} PieceCopy;

/* Copies the piece, whose first register is `reg`. */
static void copy_piece(Emit *e, const PieceCopy *x, Index *reg, Index *piece)
{
    const Layout *l = x->threads->window;
    Index *c[TILE_MAX_RANK], *own[TILE_MAX_RANK];
    coords_at(e, l, reg, c);
    for (int a = 0; a < l->rank; a++) own[a] = x->place ? register_coord(e, l, a, reg) : c[a];
    const char *index = x->place ? copy_index(e, x->place, x->w, own) : window_index(e, x->w, c);
    const char *inside = both_conditions(e, x->holder, tile_condition(e, l, reg, c));
    if (*inside) {
        line(e, "if (%s) {", inside);
        e->indent++;
    }
    const char *cond = window_condition(e, x->w, c, false);
    pick_positions(e, x->w, l, reg, &cond, &index);
    copy_coords(e, x->threads, reg, own);
    const char *off = x->origin ? linear_address(e, x->origin, x->own, x->seen, x->count, x->n, piece)
                                : shared_offset(e, x->s, own);
    copy_vector(e, x->w, x->d, x->n, str(e, "%s + %s", x->base, off), x->ptr, index, cond);
    if (*inside) end_block(e);
}

enum { PIECES_UNROLLED = 16, PIECES_OVERLAPPED = 8 };

/* Whether shifts and masks compute the number. */
static bool shifts_suffice(const Index *x)
{
    if (x->kind != INDEX_DIGITS) return x->kind != INDEX_ENTRY;
    for (int k = 0; k < x->n_digits; k++) {
        const IndexDigit *d = &x->digits[k];
        bool last = (int64_t)d->below * d->size >= x->n;
        if (d->below & (d->below - 1) || (!last && d->size & (d->size - 1))) return false;
    }
    return true;
}

/* How many pieces one iteration of the loop over a thread's pieces copies by lines of their own: as many as
 * make each coordinate linear in the loop's counter, where a piece would divide by other numbers than powers
 * of two otherwise; else 1. */
static int pieces_in_lines(Emit *e, const PieceCopy *x)
{
    const Layout *l = x->threads->window;
    bool plain = true;
    for (int a = 0; a < l->rank; a++)
        plain &= shifts_suffice(register_coord(e, l, a, index_linear(e, x->n, "v", 0)));
    for (int lines = plain ? 1 : PIECES_UNROLLED; lines > 1; lines--) {
        bool linear = x->count % lines == 0;
        for (int k = 0; linear && k < lines * l->rank; k++) {
            Index *reg = index_linear(e, x->n * lines, "v", x->n * (k / l->rank));
            const Index *c = register_coord(e, l, k % l->rank, reg);
            int scale, add;
            const char *name;
            linear = c->kind == INDEX_NUMBER || index_is_linear(c, &scale, &name, &add);
        }
        if (linear) return lines;
    }
    return 1;
}

/* How many pieces a loop over them copies in one iteration, of those that are no whole vectors and are
 * tested; 0: all of them, since the loop is unrolled. Of more than eight tests at once, the vendor's compiler
 * puts the outcomes together bit by bit in one register, a chain of dependent instructions, and keeps the
 * addresses of all pieces in registers. */
static int tested_together(Emit *e, const PieceCopy *x)
{
    Index *c[TILE_MAX_RANK];
    int bytes = x->n * dtype_bytes(x->d), n = PIECES_OVERLAPPED;
    if (x->count <= n || bytes < NARROWEST || bytes >= COPIED_AT_ONCE || x->w->picked) return 0;
    coords_at(e, x->threads->window, index_linear(e, x->n, "v", 0), c);
    if (!*window_condition(e, x->w, c, false)) return 0;
    for (int a = 0; a < x->threads->window->rank; a++)
        if (!shifts_suffice(register_coord(e, x->threads->window, a, index_linear(e, x->n, "v", 0))))
            return 0;
    while (n > 1 && x->count % n) n--;
    return n >= PIECES_OVERLAPPED / 2 ? n : 0;
}

static void copy_pieces(Emit *e, const PieceCopy *x)
{
    int lines = x->count > PIECES_UNROLLED ? pieces_in_lines(e, x) : 1;
    int together = x->count > PIECES_UNROLLED ? lines > 1 ? 1 : PIECES_OVERLAPPED : tested_together(e, x);
    /* No register array is indexed by v, so the loop is unrolled only to overlap the copies. */
    if (together > 0) {
        directive(e, "#pragma unroll %d", together);
        line(e, "for (int v = 0; v < %d; v++) {", x->count / lines);
        e->indent++;
    } else begin_unrolled(e, "v", x->count);
    for (int k = 0; k < lines; k++)
        copy_piece(e, x, index_linear(e, x->n * lines, "v", x->n * k), index_linear(e, lines, "v", k));
    end_block(e);
}

static void emit_copy(Emit *e, Instr *i)
{
    if (is_hip(e)) {
        emit_dma(e, i);
        return;
    }
    const Type *view = ir_operand(i, 0)->type;
    const LayoutShared *s = layouts_shared(&e->plan->layouts, view);
    Window w;
    window_of(e, i, &w);
    DType d = view->dtype;
    const CopyLayout threads = copy_layout(e, i, &w, s);
    const Layout *l = threads.window;
    LayoutVector v;
    int n = piece_elements(e, &w, l, s, d, &v);
    if (n == 1 && !w.picked && emit_shifted_copy(e, i, &w, &threads, s)) return;
    note_tensor(e, WAY_COPY, false, &w, l, n > 1 ? &v : NULL);
    if (threads.matrix) note_vectors(e, true, threads.matrix, s, n > 1 ? &v : NULL);
    const CopyPlace *place = copy_place(e, i);
    PieceCopy x = { .w = &w,
        .threads = &threads,
        .s = s,
        .place = place,
        .d = d,
        .n = n,
        .count = (int)layout_regs(l) / n,
        .ptr = place ? place->at : window_pointer(e, &w),
        .base = name_of(e, ir_operand(i, 0)),
        .holder = unique_holder(e, l) };
    /* Compute one offset for each thread and add the constants of each piece, so that the swizzle is not
     * computed for every piece. */
    if (!e->measure && threads.matrix && linear_offsets(e, threads.matrix, s, n, &x.own, &x.seen)) {
        Index *c[TILE_MAX_RANK];
        copy_coords(e, &threads, index_number(e, 0), c);
        x.origin = place && place->to ? place->to : shared_offset(e, s, c);
    }
    copy_pieces(e, &x);
}

static bool behind_products(const Instr *i)
{
    for (i = i->prev; i; i = i->prev)
        if (i->op == OP_MMA_SYNC) return true;
    return false;
}

/* The bytes of one stage of a buffer. Each stage begins at a multiple of *align. */
static int64_t stage_bytes(const LayoutShared *s, int64_t *align)
{
    *align = s->align > 128 ? s->align : 128;
    return ((int64_t)s->bytes + *align - 1) / *align * *align;
}

static void emit_shared_alloc(Emit *e, Instr *i)
{
    const Type *t = ir_result(i)->type;
    int64_t align, bytes = stage_bytes(layouts_shared(&e->plan->layouts, t), &align);
    int64_t at = ir_attr_int(i, ATTR_OFFSET, (e->shared_bytes + align - 1) / align * align),
            end = at + bytes * t->shape[0];
    const char *n = name_of(e, ir_result(i));
    line(e, "const u32 %s = shared_base + %lld;    /* %lld x %lld bytes */", n, (long long)at,
        (long long)t->shape[0], (long long)bytes);
    note_shared(e, i, at, end - at);
    if (end > e->shared_bytes) e->shared_bytes = end;
    e->storage[ir_result(i)->id] = n;
}

static void emit_shared_stage(Emit *e, Instr *i)
{
    int64_t align, bytes = stage_bytes(layouts_shared(&e->plan->layouts, ir_operand(i, 0)->type), &align);
    const char *stage = name_of(e, ir_operand(i, 1));
    declare(e, ir_result(i),
        str(e, "%s + (u32)%s * %lld", name_of(e, ir_operand(i, 0)), stage, (long long)bytes));
}

static bool read_by_wgmma(const Value *view)
{
    for (const Use *u = view->uses; u; u = u->next)
        if (op_is_wgmma(u->user->op) ||
            (u->user->op == OP_SHARED_TRANSPOSE && read_by_wgmma(ir_result(u->user))))
            return true;
    return false;
}

/* Whether the asynchronous proxy reads what threads write to the view, from it or from another view of the
 * same buffer. */
static bool buffer_read_by_wgmma(const Value *view)
{
    const Value *buffer = view->def && view->def->op == OP_SHARED_STAGE ? ir_operand(view->def, 0) : NULL;
    bool read = read_by_wgmma(view);
    for (const Use *u = buffer ? buffer->uses : NULL; u && !read; u = u->next)
        read = u->user->op == OP_SHARED_STAGE && read_by_wgmma(ir_result(u->user));
    return read;
}

static bool barrier_follows(const Instr *i)
{
    while (i && i->op != OP_BARRIER) i = i->next;
    return i;
}

void emit_due_fence(Emit *e)
{
    if (e->fence_due) line(e, "%s();", use(e, "fence_proxy_async"));
    e->fence_due = false;
}

/* A read or a write of a whole tile by the threads that hold it. The proxy fence of a write stands in front
 * of the barrier behind it, or of an earlier wait for a product, so that products are issued before it. */
static void emit_shared_access(Emit *e, Instr *i)
{
    bool write = i->op == OP_SHARED_WRITE;
    if (ir_attr(i, ATTR_INSTR)) {
        emit_fragments(e, i);
        return;
    }
    /* The barrier keeps the wait for the written data, and with it the loads of a later step, behind the
     * products. */
    if (write && is_hip(e)) line(e, "%s(0);", use(e, "sched_barrier"));
    Value *view = ir_operand(i, 0), *x = write ? ir_operand(i, 1) : ir_result(i);
    const Layout *l = layout_of(e, x);
    const LayoutShared *s = layouts_shared(&e->plan->layouts, view->type);
    DType d = x->type->dtype;
    LayoutVector v;
    if (d == DT_U16 && dtype_bytes(view->type->dtype) == 4) s = layout_shared_halves(&e->s->arena, s);
    layout_shared_vector(l, s, 16, &v);
    if (write) {
        bool product = buffer_read_by_wgmma(view);
        if (!product || !emit_matrix_write(e, array_of(e, x, l), d, l, s, name_of(e, view)))
            put_shared(e, x, l, s, &v, name_of(e, view));
        e->fence_due |= product;
        if (!barrier_follows(i)) emit_due_fence(e);
        return;
    }
    const char *to = declare_tile(e, x);
    if (v.bytes > 4 || !emit_matrix_read(e, to, d, l, s, name_of(e, view)))
        take_shared(e, to, d, l, s, &v, name_of(e, view));
}

static void emit_copy_wait(Emit *e, Instr *i)
{
    /* Products access no memory, so clang may move the wait, or what must come before it, past them. */
    if (is_hip(e) && behind_products(i)) line(e, "%s(0);", use(e, "sched_barrier"));
    if (is_hip(e))
        line(e, "%s(%lld);", use(e, "wait_loads"),
            (long long)(ir_attr_int(i, ATTR_DEPTH, 0) * ir_attr_int(i, ATTR_COUNT, 1)));
    if (target_has(e->target, TF_CP_ASYNC))
        line(e, "%s(%lld);", use(e, "cp_async_wait"), (long long)ir_attr_int(i, ATTR_DEPTH, 0));
}

void emit_shared(Emit *e, Instr *i)
{
    switch (op_as_shared(i->op)) {
    case KERNEL_SHARED_ALLOC: emit_shared_alloc(e, i); return;
    case KERNEL_SHARED_STAGE: emit_shared_stage(e, i); return;
    case KERNEL_SHARED_WRITE:
    case KERNEL_SHARED_READ: emit_shared_access(e, i); return;
    case KERNEL_COPY: emit_copy(e, i); return;
    case KERNEL_COPY_COMMIT:
        if (target_has(e->target, TF_CP_ASYNC)) line(e, "%s();", use(e, "cp_async_commit"));
        return;
    case KERNEL_COPY_WAIT: emit_copy_wait(e, i); return;
    case KERNEL_BULK_FLUSH: emit_bulk_flush(e, i); return;
    case KERNEL_ATOMICS_OPEN: emit_atomics_open(e, i); return;
    case KERNEL_ATOMICS_CLOSE: emit_atomics_close(e, i); return;
    case KERNEL_SHARED_SLICE: /* emit.c */
    case KERNEL_SHARED_TRANSPOSE:
    case KERNEL_BARRIER: break;
    }
    ir_fail(e->s, i->loc, "%s is no shared-memory operation", op_info[i->op].name);
}
