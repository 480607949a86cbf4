/* emit_load.c: windows of tensors into registers: in vectors, in vectors whose registers lie apart, through
 * AMD's buffers, by element. */
#include "backends/gpu/memory/emit_along.h"
#include "backends/gpu/memory/emit_interleaved.h"
#include "backends/gpu/memory/emit_kept.h"
#include "backends/gpu/memory/emit_shift.h"

/* The window's first and last elements decide. */
const char *window_inside(Emit *e, const Window *w, const Layout *l)
{
    const char *x = "";
    for (int a = 0; a < w->rank; a++) {
        x = both_conditions(e, x, axis_condition(e, w, a, "0"));
        if (w->tile_axis[a] >= 0 && l->tile[w->tile_axis[a]] > 1)
            x = both_conditions(e, x, axis_condition(e, w, a, str(e, "%d", l->tile[w->tile_axis[a]] - 1)));
    }
    return x;
}

/* The same in two parts: the part of the thread, and the part of the register. */
static void coords_in_parts(Emit *e, const Layout *l, Index **thread)
{
    for (int a = 0; a < l->rank; a++) thread[a] = thread_coord(e, l, a);
}

static void coords_of_parts(Emit *e, const Layout *l, Index *const *thread, Index *i, Index **c, Index **own)
{
    for (int a = 0; a < l->rank; a++) {
        own[a] = register_coord(e, l, a, i);
        c[a] = index_is(own[a], 0) ? thread[a]
               : index_is(thread[a], 0)
                   ? own[a]
                   : index_other(e, "(%s + %s)", index_text(e, thread[a]), index_text(e, own[a]));
    }
}

/* The condition of a load as one number, so that the load has a predicate: a branch for each of its terms
 * would keep loads from starting together. Kernels with products have few loads at a time in registers. */
static const char *load_condition(Emit *e, const char *cond)
{ return is_hip(e) || e->multiplies ? cond : without_branches(e, cond); }

/* Loads vectors whose registers are not adjacent through a few temporary words. */
static void load_apart(Emit *e, const Window *w, const Layout *l, DType d, const LayoutVector *v,
    const char *ptr, const char *to, const Value *pad)
{
    int words = (int)v->bytes / 4, pw = per_word(d);
    bool follow;
    Index *c[TILE_MAX_RANK];
    const char *t = tmp(e, "w");
    begin_unrolled(e, "v", (int)layout_regs(l) / (int)v->n);
    Index *base = vector_base(e, l, v, "v", &follow);
    coords_at(e, l, base, c);
    const char *in_window = window_condition(e, w, c, false),
               *cond = both_conditions(e, tile_condition(e, l, base, c), in_window);
    line(e, "%s %s[%d];", array_type(d), t, dtype_bytes(d) >= 4 ? (int)v->n : words);
    const char *call =
        str(e, "%s(%s, %s);", window_load_fn(e, w, (int)v->bytes), t, window_place(e, w, ptr, l, base));
    int n = dtype_bytes(d) >= 4 ? (int)v->n : words;
    if (*cond) {
        line(e, "if (%s) %s", load_condition(e, cond), call);
        const char *none = "";
        for (int k = 0; k < n; k++) none = str(e, "%s%s[%d] = ", none, t, k);
        line(e, "else %s%s;", none, dtype_bytes(d) >= 4 ? pad_value(e, pad, d) : pad_word(e, pad, d));
    } else line(e, "%s", call);
    for (int k = 0; k < n; k++) {
        const char *at = index_text(e, vector_reg(e, v, base, pw > 1 ? k * pw : k));
        line(e, "%s[%s] = %s[%d];", to, pw > 1 ? str(e, "(%s) / %d", at, pw) : at, t, k);
    }
    end_block(e);
}

/* Whether all of this load can use a buffer resource, which needs no branch for masked elements. */
static bool through_buffer(Emit *e, const Instr *i)
{
    MemParts m;
    Window w;
    LayoutVector v;
    if (!is_hip(e) || !e->f->fits32 || i->op != OP_LOAD || !ir_mem_parts(i, &m) || m.pad || m.token ||
        m.result->type->kind != TYPE_TILE || !m.result->type->layout)
        return false;
    window_of(e, i, &w);
    if (window_vector(e, &w, layout_of(e, m.result), m.tensor->type->dtype, &v) == 1) return v.bytes == 4;
    if (!window_whole_vectors(e, &w, (int)v.n)) return false;
    for (uint32_t k = 0; k < v.n; k++)
        if (v.reg[k] != k) return false;
    return true;
}

/* Emits if (c) { tiles = loads } else { tiles = 0 } without a branch, which would divide the block that clang
 * schedules. When c is false, the buffers have no bytes, and a load from them gives 0 without an access to
 * memory. */
bool emit_guarded_loads(Emit *e, Instr *i)
{
    if (!is_hip(e) || e->guard || !i->n_results) return false;
    Instr *then = ir_terminator(i->blocks[0]), *other = ir_terminator(i->blocks[1]);
    for (int k = 0; k < i->n_results; k++) {
        const Instr *load = ir_operand(then, k)->def;
        const Value *none = ir_operand(other, k);
        if (none->def && none->def->op == OP_MATERIALIZE) none = ir_operand(none->def, 0);
        if (!kernel_is_zero(none) || !load || load->block != i->blocks[0] || !through_buffer(e, load) ||
            ir_use_count(ir_operand(then, k)) != 1)
            return false;
    }
    for (const Instr *x = i->blocks[0]->first; x != then; x = x->next)
        if (x->op != OP_LOAD && !((op_info[x->op].flags & OPF_PURE) && x->n_blocks == 0 &&
                                    x->n_results == 1 && x->results[0].type->kind == TYPE_SCALAR))
            return false;
    for (const Instr *x = i->blocks[1]->first; x != other; x = x->next)
        if (!(op_info[x->op].flags & OPF_PURE) && x->op != OP_MATERIALIZE) return false;
    /* Loads return in order. If clang moved a load of this step behind these loads, the wait for it would
     * wait for these loads too. The barrier keeps loads and stores on their side, and nothing else. */
    bool own = false;
    for (const Instr *x = i->prev; x && !own; x = x->prev)
        own = x->op == OP_LOAD && i->block->parent && i->block->parent->op == OP_FOR;
    if (own) line(e, "%s(0x78f);", use(e, "sched_barrier"));
    e->guard = name_of(e, ir_operand(i, 0));
    emit_block(e, i->blocks[0]);
    e->guard = NULL;
    for (int k = 0; k < i->n_results; k++) e->storage[i->results[k].id] = e->storage[ir_operand(then, k)->id];
    return true;
}

/* The vectors of a load, one of which is being emitted: n elements from register n * v on. */
typedef struct Vectors {
    const Window *w;
    const Layout *l;
    DType d;
    const Value *pad;
    const char *ptr, *to;
    int n, bytes;
    Index *c[TILE_MAX_RANK]; /* coordinates of its first element */
    const char *inside;      /* it is in the tile */
} Vectors;

/* Emits the result of a vector that is out of range, or that is partly in range. */
static void load_edge(Emit *e, const Vectors *x, bool whole)
{
    DType d = x->d;
    int n = x->n, pw = per_word(d), pieces = dtype_bytes(d) >= 4 ? n : x->bytes / 4;
    line(e, "else {");
    e->indent++;
    for (int k = 0; whole && k < pieces; k++)
        line(e, "%s[%d * v + %d] = %s;", x->to, pieces, k,
            dtype_bytes(d) >= 4 ? pad_value(e, x->pad, d) : pad_word(e, x->pad, d));
    for (int k = 0; !whole && k < n; k += pw) {
        const char *xs[4];
        for (int q = 0; q < pw; q++) {
            Index *c[TILE_MAX_RANK];
            coords_at(e, x->l, index_linear(e, n, "v", k + q), c);
            const char *pad = pad_value(e, x->pad, d), *index = window_index(e, x->w, c),
                       *cond = both_conditions(e, x->inside, window_condition(e, x->w, c, false));
            xs[q] = str(e, "(%s ? %s(%s + %s) : %s)", cond, use(e, str(e, "ldg_%s", dtype_name(d))), x->ptr,
                index, pad);
        }
        line(e, "%s[%d * v + %d] = %s;", x->to, n / pw, k / pw, pack_expr(e, d, xs, pw));
    }
    end_block(e);
}

/* A load by a buffer resource (make_buffer), whose base is `ptr`: `at` is the part of the offset in bytes
 * that all vectors of a thread share. */
typedef struct Buffer {
    const char *name, *at;
    Index *thread[TILE_MAX_RANK],
        *own[TILE_MAX_RANK]; /* coordinates: of the thread, and of the vector beside them */
} Buffer;

static void make_buffer(Emit *e, const Vectors *x, Buffer *b)
{
    b->name = tmp(e, "buffer");
    line(e, "const Buffer %s = %s(%s, %s);", b->name, use(e, "make_buffer"), x->ptr,
        e->guard ? str(e, "%s ? 0xfffffff0u : 0u", e->guard) : "0xfffffff0u");
}

/* No branch is needed, because an offset beyond the buffer gives 0. */
static void load_from_buffer(Emit *e, const Vectors *x, const Buffer *b, const char *dst, const char *cond)
{
    const char *from =
                   str(e, "%s + (u32)(%s) * %du", b->at, window_index(e, x->w, b->own), dtype_bytes(x->d)),
               *load = str(e, "buffer_load%s_b%d", window_hint(e, x->w, ACCESS_VECTOR), x->bytes * 8);
    line(e, "%s(%s, %s, %s);", use(e, load), dst, b->name,
        *cond ? str(e, "(%s) ? %s : ~0u", without_branches(e, cond), from) : from);
}

/* Loads the tile in accesses of n elements, whose registers are adjacent. */
static void load_vectors(Emit *e, const Instr *i, Vectors x)
{
    const Window *w = x.w;
    const Layout *l = x.l;
    int n = x.n;
    Buffer b = { 0 };
    if ((w->masked || e->guard) && through_buffer(e, i)) make_buffer(e, &x, &b);
    if (is_hip(e)) coords_in_parts(e, l, b.thread);
    if (b.name) {
        b.at = tmp(e, "at");
        line(e, "const u32 %s = (u32)(%s) * %du;", b.at, window_index(e, w, b.thread), dtype_bytes(x.d));
    }
    begin_unrolled(e, "v", (int)layout_regs(l) / n);
    Index *r = index_linear(e, n, "v", 0);
    if (is_hip(e)) coords_of_parts(e, l, b.thread, r, x.c, b.own);
    else coords_at(e, l, r, x.c);
    x.inside = tile_condition(e, l, r, x.c);
    const char *cond = both_conditions(e, x.inside, window_condition(e, w, x.c, false)),
               *dst = str(e, "&%s[%d * v]", x.to, dtype_bytes(x.d) >= 4 ? n : n / per_word(x.d)),
               *fn = window_load_fn(e, w, x.bytes),
               *call = str(e, "%s(%s, %s)", fn, dst, window_place(e, w, x.ptr, l, r));
    if (b.name) load_from_buffer(e, &x, &b, dst, cond);
    else if (!*cond) line(e, "%s;", call);
    else {
        bool whole = window_whole_vectors(e, w, n);
        if (!whole) cond = both_conditions(e, x.inside, vector_condition(e, w, x.c, n));
        line(e, "if (%s) %s;", load_condition(e, cond), call);
        load_edge(e, &x, whole);
    }
    end_block(e);
}

/* Whether many masked accesses after products should share one branch. Most tiles are inside the tensor, and
 * products use all the power of the card (bench/notes/decisions.md, "The emitter"). In loops, the passes
 * mask-peel and mask-branch have already separated the masked iterations. */
static bool one_branch(const Emit *e, const Instr *i, const Window *w, const Layout *l, int accesses)
{
    enum { MANY = 8 };
    if (!e->plan->producer_warps || !w->masked || accesses < MANY) return false;
    for (int a = 0; a < l->rank; a++)
        if (l->cover[a] != l->tile[a]) return false;
    for (const Instr *p = i->block->parent; p; p = p->block->parent)
        if ((p->op == OP_FOR && !ir_holds(p->blocks[0], OP_PROGRAM_COORD)) || p->op == OP_WHILE) return false;
    for (const Instr *p = i->prev; p; p = p->prev)
        if (ir_is_or_holds(p, OP_WGMMA) || ir_is_or_holds(p, OP_WGMMA_PROMOTED)) return true;
    return false;
}

/* Whether bytes of one register that are next to each other in memory can be loaded two by two: a fragment of
 * a product has two neighbours of a row, and then two of another row. */
static bool in_pairs(Emit *e, const Window *w, const Layout *l, DType d, LayoutVector *v)
{
    bool runs = w->unit_tile >= 0 && w->step[w->unit] == 1;
    if (per_word(d) != 4 || !runs || w->align < 2 || e->guard || !window_whole_vectors(e, w, 2)) return false;
    layout_vector(l, w->unit_tile, 1, 2, 2, v);
    return v->n == 2 && v->reg[0] == 0 && v->reg[1] == 1 && layout_regs(l) % 4 == 0;
}

static void load_pairs(
    Emit *e, const MemParts *m, const Window *w, const Layout *l, const char *ptr, const char *to)
{
    Index *c[TILE_MAX_RANK] = { 0 };
    const char *xs[2], *pad = str(e, "(u16)%s", pad_word(e, m->pad, m->tensor->type->dtype));
    begin_unrolled(e, "v", (int)layout_regs(l) / 4);
    for (int k = 0; k < 2; k++) {
        Index *r = index_linear(e, 4, "v", 2 * k);
        coords_at(e, l, r, c);
        const char *cond = both_conditions(e, tile_condition(e, l, r, c), window_condition(e, w, c, false));
        xs[k] = str(e, "%s((const u16 *)(%s))", use(e, "ldg_u16"), window_place(e, w, ptr, l, r));
        if (*cond) xs[k] = str(e, "(%s ? %s : %s)", cond, xs[k], pad);
    }
    line(e, "%s[v] = %s;", to, pack_expr(e, DT_U16, xs, 2));
    end_block(e);
}

void load_elements(Emit *e, const Instr *i, const Window *w, const Layout *l, const char *ptr, const char *to)
{
    MemParts m;
    ir_mem_parts(i, &m);
    DType d = m.tensor->type->dtype;
    Index *c[TILE_MAX_RANK] = { 0 };
    int regs = (int)layout_regs(l), pw = per_word(d);
    DType bits = bits_type(d);
    const char *pad = pad_value(e, m.pad, d), *fn = use(e, str(e, "ldg_%s", dtype_name(bits)));
    if (m.pad && bits != d)
        pad = str(e, "%s(%s)", use(e, str(e, "bits_%s_%s", dtype_name(d), dtype_name(bits))), pad);
    int words = array_len(d, regs);
    bool loop = regs % pw == 0 && words > 1;
    if (loop) begin_unrolled(e, "v", words);
    for (int g = 0; g < (loop ? 1 : words); g++) {
        const char *xs[4];
        int here = regs - g * pw < pw ? regs - g * pw : pw;
        for (int k = 0; k < here; k++) {
            Index *r = loop ? index_linear(e, pw, "v", k) : index_number(e, g * pw + k);
            coords_at(e, l, r, c);
            const char *in_window = window_condition(e, w, c, false),
                       *cond = both_conditions(e, tile_condition(e, l, r, c), in_window);
            xs[k] = str(e, "%s(%s)", fn, window_place(e, w, ptr, l, r));
            if (*cond) xs[k] = str(e, "(%s ? %s : %s)", cond, xs[k], pad);
        }
        line(e, "%s[%s] = %s;", to, loop ? "v" : str(e, "%d", g), pack_expr(e, bits, xs, here));
    }
    if (loop) end_block(e);
}

/* A tile in registers. */
static void load_tile(
    Emit *e, const Instr *i, const Window *w, const Layout *l, const char *ptr, const char *to)
{
    MemParts m;
    ir_mem_parts(i, &m);
    DType d = m.tensor->type->dtype;
    if (emit_row_block_load(e, i, w, l, ptr, to)) return;
    ShiftDone shifted = emit_shifted_load(e, w, l, ptr, to, m.pad);
    if (shifted != SHIFT_NONE) {
        note_shifted(e, false, w, l);
        if (shifted == SHIFT_PART) {
            load_elements(e, i, w, l, ptr, to);
            end_block(e);
        }
        return;
    }
    LayoutVector v;
    int n = window_vector(e, w, l, d, &v), regs = (int)layout_regs(l);
    bool follow = true;
    for (uint32_t k = 0; k < v.n; k++) follow = follow && v.reg[k] == k;
    bool apart = n > 1 && !follow && (window_whole_vectors(e, w, n) || !w->masked),
         pairs = n == 1 && in_pairs(e, w, l, d, &v);
    note_tensor(e, WAY_VECTORS, false, w, l, follow || apart ? &v : NULL);
    if (pairs) {
        load_pairs(e, &m, w, l, ptr, to);
        return;
    }
    if (apart) {
        load_apart(e, w, l, d, &v, ptr, to, m.pad);
        return;
    }
    if (!follow) n = 1;
    const Vectors x = {
        .w = w, .l = l, .d = d, .pad = m.pad, .ptr = ptr, .to = to, .n = n, .bytes = (int)v.bytes
    };
    if (n > 1 && one_branch(e, i, w, l, regs / n)) {
        Window inside = *w;
        Vectors unmasked = x;
        inside.masked = false;
        unmasked.w = &inside;
        line(e, "if (%s) {", window_inside(e, w, l));
        e->indent++;
        load_vectors(e, i, unmasked);
        end_block(e);
        line(e, "else {");
        e->indent++;
        load_vectors(e, i, x);
        end_block(e);
        return;
    }
    if (n > 1 || ((w->masked || e->guard) && through_buffer(e, i))) {
        load_vectors(e, i, x);
        return;
    }
    load_elements(e, i, w, l, ptr, to);
}

/* A tile in shared memory. */
static void load_kept(Emit *e, const Instr *i, const Window *w, const Layout *l, const char *ptr)
{
    MemParts m;
    ir_mem_parts(i, &m);
    ShiftDone words = emit_kept_words(e, i, w, l, ptr);
    if (words == SHIFT_ALL || (words == SHIFT_NONE && emit_kept_copies(e, i, w, l, ptr, m.pad))) return;
    const char *to = declare_tile(e, m.result);
    if (words == SHIFT_PART) load_elements(e, i, w, l, ptr, to);
    else load_tile(e, i, w, l, ptr, to);
    emit_kept_put(e, i, to);
    if (words == SHIFT_PART) end_block(e);
}

void emit_load(Emit *e, Instr *i)
{
    MemParts m;
    Window w;
    ir_mem_parts(i, &m);
    keep_order(e, i);
    if (emit_along_load(e, i) || emit_interleaved_load(e, i)) return;
    window_of(e, i, &w);
    DType d = m.tensor->type->dtype;
    const char *ptr = window_pointer(e, &w);
    Index *c[TILE_MAX_RANK] = { 0 };
    if (m.result->type->kind == TYPE_SCALAR) {
        note_tensor(e, WAY_ONE, false, &w, NULL, NULL);
        const char *cond = window_condition(e, &w, c, false),
                   *x = str(e, "%s(%s)", use(e, str(e, "ldg_%s", dtype_name(d))), ptr),
                   *n = name_of(e, m.result);
        if (*cond)
            line(e, "%s %s = %s;\n    if (%s) %s = %s;", ctype(d), n, pad_value(e, m.pad, d), cond, n, x);
        else line(e, "const %s %s = %s;", ctype(d), n, x);
        e->storage[m.result->id] = n;
        return;
    }
    const Layout *l = layout_of(e, m.result);
    if (kernel_kept(i)) load_kept(e, i, &w, l, ptr);
    else load_tile(e, i, &w, l, ptr, emit_row_shifts_later(e, i, &w, l) ? NULL : declare_tile(e, m.result));
}
