/* emit_bulk.c: stores that go through shared memory and TMA, a warp at a time
 * (passes/kernel/warp_specialization/bulk_store.c). PTX ISA 9.7.9.27 (cp.async.bulk.tensor), 9.7.15.4
 * (stmatrix). */
#include "backends/gpu/hopper/emit_bulk.h"

static int map_for(Emit *e, const Instr *store, const Window *w, const BulkBoxes *b, DType d)
{
    const Attr *pixels = ir_attr(store, ATTR_IM2COL);
    TensorMapDesc m = { .param = w->param, .rank = w->rank, .dtype = d, .swizzle_bytes = b->row_bytes };
    int n = 0;
    m.axes[n++] = w->unit;
    for (int a = w->rank - 1; a >= 0; a--)
        if (a != w->unit) m.axes[n++] = a;
    for (int k = 0; k < w->rank; k++) {
        int t = w->tile_axis[m.axes[k]];
        m.box[k] = t < 0 ? 1 : (uint32_t)b->box[t];
    }
    if (pixels) emit_pixel_axes(pixels, w->unit, w->rank, m.axes);
    for (int k = 0; pixels && k < w->rank; k++) m.box[k] = k ? 0 : m.box[0];
    if (pixels) m.pixels = b->box[1 - b->unit];
    for (size_t k = 0; k < e->maps.len; k++)
        if (!memcmp(&e->maps.data[k], &m, sizeof m)) return (int)k;
    vec_push(&e->s->arena, &e->maps, m);
    return (int)e->maps.len - 1;
}

/* The buffers of a store that belong to this warp: the name of their address. */
static const char *staging(Emit *e, const Instr *i, const BulkBoxes *b, int buffers, DType d)
{
    for (size_t k = 0; k < e->stages.len; k++)
        if (e->stages.data[k].store == i) return e->stages.data[k].name;
    const char *n = tmp(e, "stage");
    const Writer *writer = emit_writer_of(e, i);
    int warps = e->plan->warps;
    vec_push(&e->s->arena, &e->stages, ((Stage){ i, n }));
    if (writer) line_in(e, e->pre, 2, "const u32 %s = %s + warp * %d;", n, writer->name, b->bytes * buffers);
    if (writer) return n;
    const Type *t = type_shared(
        e->s, d, 3, (int64_t[]){ (int64_t)buffers * warps, 16, b->row_bytes / dtype_bytes(d) }, NULL);
    const int64_t bytes = (int64_t)b->bytes * buffers * warps;
    const bool over = e->plan->store_over_rings;
    if (over && bytes > e->rings_to - e->rings_from)
        ir_fail(e->s, i->loc, "rings that the stores do not fit");
    if (!over) e->shared_bytes = (e->shared_bytes + 1023) / 1024 * 1024;
    const int64_t at = over ? e->rings_from : e->shared_bytes;
    vec_push(&e->s->arena, &e->shared_map, ((SharedUse){ "stores", t, at, bytes, i->loc }));
    line_in(
        e, e->pre, 2, "const u32 %s = shared_base + %lld + warp * %d;", n, (long long)at, b->bytes * buffers);
    if (!over) e->shared_bytes += bytes;
    return n;
}

/* The bits that the swizzle changes in the row of a lane. */
static const char *exchanged(Emit *e, const BulkBoxes *b, const char *row)
{
    if (b->row_bytes == 128) return str(e, "((%s & 7) << 4)", row);
    return b->row_bytes == 64 ? str(e, "((%s & 6) << 3)", row) : str(e, "((%s & 4) << 2)", row);
}

static void fill_box(Emit *e, const BulkBoxes *b, const char *from, const char *to, const char *lanes,
    const char *k, int bytes)
{
    int all = b->n * b->pairs;
    const char *at = tmp(e, "q");
    if (bytes == 2) {
        int32_t *word = arena_array(&e->s->arena, int32_t, (size_t)all / 4),
                *col = arena_array(&e->s->arena, int32_t, (size_t)all / 4);
        for (int q = 0; q < all / 4; q++) {
            word[q] = b->pair[4 * q];
            col[q] = b->col[4 * q] * 2;
        }
        begin_unrolled(e, at, b->pairs / 4);
        const char *i = tmp(e, "at");
        line(e, "const int %s = %s * %d + %s;", i, k, b->pairs / 4, at);
        line(e, "%s(%s + (lane & 15) * %d + (%s ^ %s), &%s[%s]);", use(e, "stmatrix_x4"), to, b->row_bytes,
            entry_text(e, col, all / 4, i), lanes, from, entry_text(e, word, all / 4, i));
    } else {
        int32_t *reg = arena_array(&e->s->arena, int32_t, (size_t)all),
                *col = arena_array(&e->s->arena, int32_t, (size_t)all),
                *row = arena_array(&e->s->arena, int32_t, (size_t)all);
        for (int q = 0; q < all; q++) {
            reg[q] = 2 * b->pair[q];
            col[q] = b->col[q] * 4;
            row[q] = b->half[q] * 8 * b->row_bytes;
        }
        begin_unrolled(e, at, b->pairs);
        const char *i = tmp(e, "at");
        line(e, "const int %s = %s * %d + %s;", i, k, b->pairs, at);
        line(e, "%s(%s + (lane >> 2) * %d + %s + (%s ^ %s), &%s[%s]);", use(e, "sts_b64"), to, b->row_bytes,
            entry_text(e, row, all, i), entry_text(e, col, all, i), lanes, from, entry_text(e, reg, all, i));
    }
    end_block(e);
}

/* --- conversions through a store's buffers ----------------------------------------------------------- */

/* Sorts the vectors of `src` by box. A vector is the registers from first[n] on, eight elements along the
 * rows of the boxes. False: some vector is not, in all lanes and warps, a piece of one row of one box. */
static bool vectors_by_box(
    Emit *e, const Layout *src, const BulkBoxes *b, const LayoutVector *v, int32_t *first, int *each)
{
    int per = b->pairs / 4, *have = arena_array(&e->s->arena, int, (size_t)b->n);
    int32_t c[TILE_MAX_RANK];
    for (uint32_t r = 0; r < layout_regs(src); r++) {
        int box = -1;
        if (!layout_vector_base(v, r)) continue;
        for (uint32_t t = 0; t < 32u * (uint32_t)b->warps; t++) {
            layout_element(src, r, t % 32, t / 32, 0, c);
            int k = 0;
            for (int x = 0; x < src->rank; x++) c[x] = (c[x] - b->warp[t / 32][x]) / b->box[x] * b->box[x];
            while (k < b->n && memcmp(c, b->origin[k], sizeof c[0] * (size_t)src->rank)) k++;
            if (k == b->n || (box >= 0 && box != k)) return false;
            box = k;
        }
        if (have[box] == per) return false;
        first[box * per + have[box]++] = (int32_t)r;
    }
    *each = per;
    for (int k = 0; k < b->n; k++)
        if (have[k] != per) return false;
    return true;
}

/* For rows of 128 bytes: the sixteen bytes that the swizzle selects for row r, with the lowest bit of the row
 * first or last. ldmatrix has no bank conflicts with either. */
static uint32_t turned(bool low_first, uint32_t r)
{ return (low_first ? (r & 1) << 2 | (r & 6) >> 1 : r & 7) << 4; }

/* Whether the write of vector `reg` takes fewer passes with the lowest bit of the row first. */
static bool low_bit_first(const Layout *src, const BulkBoxes *b, int axis, uint32_t reg)
{
    uint32_t at[2][32];
    int32_t c[TILE_MAX_RANK];
    if (b->row_bytes != 128) return false;
    for (uint32_t t = 0; t < 32; t++) {
        layout_element(src, reg, t, 0, 0, c);
        uint32_t row = (uint32_t)c[1 - axis] % 16;
        for (int f = 0; f < 2; f++) at[f][t] = row * 128 + (((uint32_t)c[axis] % 64 * 2) ^ turned(f, row));
    }
    return layout_wavefronts(at[1], 32, 16) < layout_wavefronts(at[0], 32, 16);
}

/* A conversion through the buffers of a store. A box is `each` vectors of a thread, and vector q begins at
 * register first[k * each + q]. */
typedef struct Staged {
    const Layout *src;
    BulkBoxes b;
    LayoutVector v;
    int axis, each, buffers;
    int32_t *first;
    bool low; /* the low bit of the row comes first, which causes fewer bank conflicts */
    const char *from, *to, *stage, *box, *q, *at, *row;
} Staged;

/* Whether a tile with layout src can be converted to dst through the buffers of `store`. */
static bool staged(Emit *e, const Layout *src, const Layout *dst, const Instr *store, Staged *x)
{
    x->src = src;
    kernel_unit_axis(e->f, store, &x->axis);
    if (!kernel_store_boxes(&e->s->arena, dst, store, x->axis, &x->b) || x->b.overlaps) return false;
    layout_vector(src, x->axis, 2, 16, 16, &x->v);
    x->first = arena_array(&e->s->arena, int32_t, (size_t)(x->b.n * x->b.pairs / 4));
    if (x->v.n != 8 || layout_regs(src) != layout_regs(dst) ||
        !vectors_by_box(e, src, &x->b, &x->v, x->first, &x->each))
        return false;
    for (int k = 0; k < 8; k++)
        if (x->v.reg[k] % 2 != (uint32_t)k % 2) return false;
    x->low = low_bit_first(src, &x->b, x->axis, (uint32_t)x->first[0]);
    x->buffers = (int)ir_attr_int(store, ATTR_BULK, 0);
    return true;
}

/* Writes the vectors of a box to its buffer. */
static void write_rows(Emit *e, const Staged *x, const char *buffer)
{
    int all = x->b.n * x->b.pairs / 4;
    Index *c[TILE_MAX_RANK];
    const char *words[4];
    begin_unrolled(e, x->q, x->each);
    line(e, "const int %s = %s * %d + %s;", x->at, x->box, x->each, x->q);
    coords_at(e, x->src, index_entry(e, x->first, all, index_variable(e, x->at)), c);
    line(e, "const u32 %s = (%s) %% 16;", x->row, index_text(e, c[1 - x->axis]));
    int32_t *word = arena_array(&e->s->arena, int32_t, (size_t)all);
    for (int h = 0; h < 4; h++) {
        for (int n = 0; n < all; n++) word[n] = (int32_t)((uint32_t)x->first[n] ^ x->v.reg[2 * h]) / 2;
        words[h] = str(e, "%s[%s]", x->from, entry_text(e, word, all, x->at));
    }
    const char *w = tmp(e, "w"), *turned = x->low ? str(e, "((%s & 1) << 6 | (%s & 6) << 3)", x->row, x->row)
                                                  : exchanged(e, &x->b, x->row);
    line(e, "const u32 %s[4] = { %s, %s, %s, %s };", w, words[0], words[1], words[2], words[3]);
    line(e, "%s(%s + %s * %d + ((%s) %% %d * 2 ^ %s), %s);", use(e, "sts_b128"), buffer, x->row,
        x->b.row_bytes, index_text(e, c[x->axis]), x->b.row_bytes / 2, turned, w);
    end_block(e);
}

/* Reads the fragments of a box from its buffer. */
static void read_fragments(Emit *e, const Staged *x, const char *buffer)
{
    int all = x->b.n * x->b.pairs / 4;
    int32_t *word = arena_array(&e->s->arena, int32_t, (size_t)all),
            *col = arena_array(&e->s->arena, int32_t, (size_t)all);
    for (int n = 0; n < all; n++) {
        word[n] = x->b.pair[4 * n];
        col[n] = x->b.col[4 * n] * 2;
    }
    begin_unrolled(e, x->q, x->each);
    line(e, "const int %s = %s * %d + %s;", x->at, x->box, x->each, x->q);
    line(e, "%s(&%s[%s], %s + (lane & 15) * %d + (%s ^ (lane & 16) ^ %s));", use(e, "ldmatrix_x4"), x->to,
        entry_text(e, word, all, x->at), buffer, x->b.row_bytes, entry_text(e, col, all, x->at),
        x->low ? "((lane & 1) << 6 | (lane & 6) << 3)" : exchanged(e, &x->b, "lane"));
    end_block(e);
}

/* Converts a tile of 16-bit elements from a layout by rows to the layout of accumulators, when accumulators
 * are stored in bulk next to it. The warp writes its rows to the store's buffers and reads fragments back by
 * ldmatrix, which is faster than exchanging words between lanes (bench/notes/decisions.md, "The emitter"). */
bool emit_staged_convert(Emit *e, Instr *i)
{
    Value *v = ir_operand(i, 0), *r = ir_result(i);
    const Layout *src = layout_of(e, v), *dst = layout_of(e, r);
    Staged x;
    if (e->role < 0 || e->plan->store_over_rings || dst->rank != 2 || dtype_bytes(r->type->dtype) != 2 ||
        layout_warps(src) != layout_warps(dst))
        return false;
    Instr *store = kernel_bulk_store_like(e->f->body, r->type);
    if (!store || !staged(e, src, dst, store, &x)) return false;
    x.from = array_of(e, v, src);
    x.stage = staging(e, store, &x.b, x.buffers, r->type->dtype);
    line(e, "/* %s to %s: from rows to accumulators' fragments, through the buffers of the warp's store */",
        name_of(e, v), name_of(e, r));
    x.to = declare_tile(e, r);
    x.box = tmp(e, "box");
    x.q = tmp(e, "q");
    x.at = tmp(e, "at");
    x.row = tmp(e, "row");
    line(e, "if (lane == 0) %s(0);", use(e, "bulk_wait_read"));
    line(e, "%s();", use(e, "warp_sync"));
    begin_unrolled(e, x.box, x.b.n);
    const char *buffer =
        x.buffers > 1 ? str(e, "%s + %s %% %d * %d", x.stage, x.box, x.buffers, x.b.bytes) : x.stage;
    if (x.b.n > x.buffers) line(e, "if (%s >= %d) %s();", x.box, x.buffers, use(e, "warp_sync"));
    write_rows(e, &x, buffer);
    line(e, "%s();", use(e, "warp_sync"));
    read_fragments(e, &x, buffer);
    end_block(e);
    line(e, "%s();", use(e, "warp_sync"));
    e->bulk = true;
    return true;
}

const char *emit_bulk_coordinate(Emit *e, const BulkStore *x, int q)
{
    const Value *offset = x->w.offset[e->maps.data[x->map].axes[q]];
    bool wide = dtype_bits(offset->type->dtype) > 32 && !(offset->def && offset->def->op == OP_CONST);
    return str(e, "%s(%s", wide ? use(e, "tma_coordinate") : "(i32)", name_of(e, offset));
}

/* Coordinate q of the pixel whose number is given: digits of it by the extents, the first of axes of pixels
 * fastest. */
static const char *digit(Emit *e, const BulkStore *x, int q, const char *pixel)
{
    const TensorMapDesc *t = &e->maps.data[x->map];
    const Param *p = &e->f->params[t->param];
    int64_t by = 1;
    for (int k = 1; k < q; k++) by *= e->f->dims[p->dims[t->axes[k]]].extent;
    if (q == t->rank - 1) return str(e, "%s(%s / %lld", use(e, "tma_coordinate"), pixel, (long long)by);
    return str(e, "(i32)(%s / %lld %% %lld", pixel, (long long)by,
        (long long)e->f->dims[p->dims[t->axes[q]]].extent);
}

/* The number of the first pixel of box k. */
static const char *pixel_of(Emit *e, const BulkStore *x, const char *k)
{
    const BulkBoxes *b = &x->b;
    const TensorMapDesc *t = &e->maps.data[x->map];
    int rows = 1 - b->unit;
    int32_t *at = arena_array(&e->s->arena, int32_t, (size_t)(b->n > b->warps ? b->n : b->warps));
    for (int n = 0; n < b->n; n++) at[n] = b->origin[n][rows];
    const char *o = index_text(e, index_entry(e, at, b->n, index_variable(e, k)));
    for (int n = 0; n < b->warps; n++) at[n] = b->warp[n][rows];
    const char *w = index_text(e, index_entry(e, at, b->warps, index_variable(e, "warp")));
    return str(e, "((u64)%s + %s + %s)", name_of(e, x->w.offset[t->axes[t->rank - 1]]), o, w);
}

const char *emit_box_coordinates(Emit *e, const BulkStore *x, const char *k, const char *kept)
{
    const Window *w = &x->w;
    const TensorMapDesc *t = &e->maps.data[x->map];
    const BulkBoxes *b = &x->b;
    const char *c = "";
    int32_t *at = arena_array(&e->s->arena, int32_t, (size_t)(b->n > b->warps ? b->n : b->warps));
    for (int q = 0; q < w->rank; q++) {
        int ta = w->tile_axis[t->axes[q]];
        const Value *offset = w->offset[t->axes[q]];
        bool wide = dtype_bits(offset->type->dtype) > 32 && !(offset->def && offset->def->op == OP_CONST);
        if (t->pixels && q) {
            c = str(e, "%s, %s)", c, digit(e, x, q, pixel_of(e, x, k)));
            continue;
        }
        c = str(e, "%s, %s", c, kept ? str(e, "(%s_%d", kept, q) : emit_bulk_coordinate(e, x, q));
        if (ta >= 0) {
            for (int n = 0; n < b->n; n++) at[n] = b->origin[n][ta];
            Index *o = index_entry(e, at, b->n, index_variable(e, k));
            for (int n = 0; n < b->warps; n++) at[n] = b->warp[n][ta];
            Index *r = index_entry(e, at, b->warps, index_variable(e, "warp"));
            if (!index_is(o, 0)) c = str(e, "%s + %s", c, index_text(e, o));
            if (!index_is(r, 0)) c = str(e, "%s + %s", c, index_text(e, r));
        }
        /* A saturated coordinate must also be one at which a box may begin (kernel_tma_begins). */
        c = str(e, "%s)%s", c, wide && !q ? str(e, " & -%d", 16 / dtype_bytes(x->type)) : "");
    }
    return c;
}

/* With more boxes than this, each with its own buffer, all boxes are written before the first is stored, so
 * that one fence serves all of them (bench/notes/convolutions.md, "Convolution"). */
enum { FEW_BOXES = 4 };

void emit_bulk_open(Emit *e, const Instr *store, BulkStore *x)
{
    MemParts m;
    *x = (BulkStore){ .store = store,
        .buffers = (int)ir_attr_int(store, ATTR_BULK, 0),
        .late = ir_attr_int(store, ATTR_LATE, 0) != 0,
        .writer = ir_attr_int(store, ATTR_WRITER, 0) != 0 };
    ir_mem_parts(store, &m);
    window_of(e, store, &x->w);
    kernel_unit_axis(e->f, store, &x->axis);
    x->type = m.values[0]->type->dtype;
    if (!kernel_store_boxes(&e->s->arena, layout_of(e, m.values[0]), store, x->axis, &x->b))
        ir_fail(e->s, store->loc, "a bulk store of a layout without boxes");
    x->map = map_for(e, store, &x->w, &x->b, x->type);
    x->at_once = x->buffers == x->b.n && (x->b.n > FEW_BOXES || x->late || x->writer);
    bool sends = x->writer && e->role != ROLE_CONSUMER;
    if (!sends) x->stage = staging(e, store, &x->b, x->buffers, x->type);
    x->box = tmp(e, "box");
    if (sends) return;
    x->to =
        x->buffers > 1 ? str(e, "%s + %s %% %d * %d", x->stage, x->box, x->buffers, x->b.bytes) : x->stage;
    e->bulk |= !x->writer;
}

/* One lane starts the copies of the warp's boxes. */
static void send_boxes(Emit *e, const BulkStore *x)
{
    line(e, "%s();", use(e, "fence_proxy_async"));
    line(e, "%s();", use(e, "warp_sync"));
    const char *c = emit_box_coordinates(e, x, x->box, x->late ? str(e, "%s_at", x->stage) : NULL);
    line(e, "if (lane == 0) {");
    e->indent++;
    if (x->at_once) begin_unrolled(e, x->box, x->b.n);
    const char *how = e->maps.data[x->map].pixels ? "_im2col"
                      : ir_adds(x->store)         ? "_add"
                                                  : window_hint(e, &x->w, ACCESS_TMA);
    emit_box_send(e, x, use(e, str(e, "tma_store%s_%dd", how, x->w.rank)), x->to, c,
        emit_may_begin_before(e, x->store));
    if (x->at_once) end_block(e);
    line(e, "%s();", use(e, "bulk_commit"));
    end_block(e);
}

/* Declares, at the role's begin, what a late store keeps until the next bulk_flush: whether there is
 * something to send, and where to. */
static void declare_kept(Emit *e, const BulkStore *x)
{
    line_in(e, e->pre, 2, "bool %s_full = false;", x->stage);
    for (int q = 0; q < x->w.rank; q++) line_in(e, e->pre, 2, "i32 %s_at_%d = 0;", x->stage, q);
}

static void keep(Emit *e, const BulkStore *x)
{
    for (int q = 0; q < x->w.rank; q++)
        line(e, "%s_at_%d = %s);", x->stage, q, emit_bulk_coordinate(e, x, q));
    line(e, "%s_full = true;", x->stage);
}

static void flush(Emit *e, const Instr *store)
{
    BulkStore x;
    size_t stages = e->stages.len;
    emit_bulk_open(e, store, &x);
    if (e->stages.len > stages) declare_kept(e, &x);
    line(e, "if (%s_full) {    /* what the step before has left in the buffers */", x.stage);
    e->indent++;
    send_boxes(e, &x);
    line(e, "%s_full = false;", x.stage);
    end_block(e);
}

void emit_bulk_flush(Emit *e, const Instr *i)
{
    const Block *steps = i->prev && i->prev->op == OP_FOR ? i->prev->blocks[0] : i->block;
    for (const Instr *store = steps->first; store; store = store->next)
        if (store->op == OP_STORE && ir_attr_int(store, ATTR_LATE, 0)) flush(e, store);
}

bool emit_bulk_store(Emit *e, Instr *store)
{
    BulkStore x;
    if (!ir_attr_int(store, ATTR_BULK, 0)) return false;
    emit_bulk_open(e, store, &x);
    note_tensor(e, WAY_TMA, true, &x.w, NULL, NULL);
    MemParts m;
    ir_mem_parts(store, &m);
    Value *v = m.values[0];
    const char *from = array_of(e, v, layout_of(e, v)), *lanes = tmp(e, "lanes");
    int bytes = dtype_bytes(x.type);
    line(e, "/* a warp's rows in boxes of %d: to shared memory, from there by TMA%s */", x.b.box[x.axis],
        ir_adds(store) ? ", which adds them" : "");
    if (bytes == 2) line(e, "const u32 %s = (lane & 16) ^ %s;", lanes, exchanged(e, &x.b, "lane"));
    else line(e, "const u32 %s = lane %% 4 * 8 ^ %s;", lanes, exchanged(e, &x.b, "(lane >> 2)"));
    if (e->plan->store_over_rings) {
        line(e, "/* the buffers lie over the stages, which all warps have read now */");
        barrier(e);
    }
    if (!x.at_once) begin_unrolled(e, x.box, x.b.n);
    if (x.writer) emit_writer_wait(e);
    else
        line(e, "if (lane == 0) %s(%d);", use(e, "bulk_wait_read"),
            x.at_once ? 0 : kernel_bulk_depth(x.b.n, x.buffers) - 1);
    if (!x.writer) line(e, "%s();", use(e, "warp_sync"));
    if (x.at_once) begin_unrolled(e, x.box, x.b.n);
    fill_box(e, &x.b, from, x.to, lanes, x.box, bytes);
    if (x.at_once) end_block(e);
    if (x.writer) emit_writer_hand(e, &x);
    else if (x.late) keep(e, &x);
    else send_boxes(e, &x);
    if (!x.at_once) end_block(e);
    return true;
}
