/* combined.c: reductions and scans by a fn, of one tile or of several of one shape.
 *
 * The fn is only known to be associative. So positions are combined in their order, and a result begins with
 * its first position, because there is no neutral element. If the axis lies across the vectors, positions are
 * combined one after the other, whole vectors at a time. A reduction along it takes blocks of neighbouring
 * vectors: even and odd elements are combined, which leaves half as many values in the same order, until one
 * is left. A scan along it is that of scan.c, unless the fn is long. */
#include "backends/cpu/cpu.h"

enum {
    BLOCK_VECTORS = 4,
    MOST_COPIED = 128 /* instructions of a fn that is written out for each step of a scan of a vector */
};

typedef struct Combined {
    Gen *g;
    Instr *i;
    int n, axis, va; /* the values; the axis along which they are combined; the axis of the vectors */
    const Buf *from[IR_MAX_COMBINED], *to[IR_MAX_COMBINED]; /* to: NULL when the result is a scalar */
    LLVMValueRef coord[TILE_MAX_RANK];
} Combined;

/* The n values at one position, or at as many neighbours as vectors have lanes. */
typedef struct Position {
    LLVMValueRef v[IR_MAX_COMBINED];
} Position;

static Position load(Combined *c, int lanes)
{
    Position p;
    Eval e;
    eval_init(&e, c->g, lanes);
    for (int k = 0; k < c->n; k++) p.v[k] = buf_load(&e, c->from[k], c->coord, lanes > 1 ? c->va : c->axis);
    return p;
}

static Position apply(Combined *c, Position a, Position b)
{
    Position r;
    gen_combine(c->g, c->i->blocks[0], a.v, b.v, gen_lanes(a.v[0]), r.v);
    return r;
}

/* Memory cells that hold a position from one iteration of a loop to the next. */
static Position cells(Combined *c, int lanes)
{
    Position p;
    for (int k = 0; k < c->n; k++)
        p.v[k] = gen_alloca(c->g, gen_type(c->g, c->from[k]->dtype, lanes), "combined");
    return p;
}

static void put(Combined *c, Position cell, Position p)
{
    for (int k = 0; k < c->n; k++) LLVMBuildStore(c->g->b, p.v[k], cell.v[k]);
}

static Position get(Combined *c, Position cell, int lanes)
{
    Position p;
    for (int k = 0; k < c->n; k++)
        p.v[k] = LLVMBuildLoad2(c->g->b, gen_type(c->g, c->from[k]->dtype, lanes), cell.v[k], "");
    return p;
}

/* The results of a scan at the position where `coord` is, of a reduction at that of the row. */
static void store(Combined *c, Position p, int lanes)
{
    bool drop = ir_attr_int(c->i, ATTR_DROP, 0), scan = c->i->op == OP_SCAN;
    LLVMValueRef at[TILE_MAX_RANK];
    int n = 0, va = lanes > 1 ? c->va : c->axis;
    Eval e;
    eval_init(&e, c->g, lanes);
    for (int a = 0; a < c->from[0]->rank; a++) {
        if (a == c->axis && drop) continue;
        if (a == c->va && lanes > 1) va = n;
        at[n++] = a == c->axis && !scan ? gen_int(c->g, 0) : c->coord[a];
    }
    for (int k = 0; k < c->n; k++) {
        if (c->to[k]) buf_store(&e, c->to[k], p.v[k], at, va < n ? va : n - 1);
        else plan_info(c->g->plan, &c->i->results[k])->llvm = p.v[k];
    }
}

/* One position after another, `lanes` neighbours of the vectors' axis at a time. */
static void line(Combined *c, int lanes)
{
    Gen *g = c->g;
    bool scan = c->i->op == OP_SCAN, reverse = scan && ir_attr_int(c->i, ATTR_REVERSE, 0);
    int64_t n = c->from[0]->shape[c->axis];
    Position cell = cells(c, lanes), p;
    Loop l;
    c->coord[c->axis] = gen_int(g, reverse ? n - 1 : 0);
    p = load(c, lanes);
    if (scan) store(c, p, lanes);
    if (n > 1) {
        put(c, cell, p);
        LLVMValueRef k = gen_loop(g, &l, gen_int(g, 1), gen_int(g, n), 1);
        c->coord[c->axis] = reverse ? LLVMBuildSub(g->b, gen_int(g, n - 1), k, "") : k;
        p = apply(c, get(c, cell, lanes), load(c, lanes));
        put(c, cell, p);
        if (scan) store(c, p, lanes);
        gen_loop_end(g, &l);
        if (!scan) p = get(c, cell, lanes);
    }
    if (!scan) store(c, p, lanes);
}

/* Elements of a, then of b (NULL: of a alone), that have an even (odd) place. */
static Position every_second(Combined *c, Position a, const Position *b, int odd)
{
    Position r;
    int mask[128], lanes = gen_lanes(a.v[0]), n = b ? lanes : lanes / 2;
    for (int k = 0; k < n; k++) mask[k] = 2 * k + odd;
    for (int k = 0; k < c->n; k++) {
        if (n == 1 && !b) r.v[k] = LLVMBuildExtractElement(c->g->b, a.v[k], gen_int(c->g, odd), "");
        else r.v[k] = gen_shuffle(c->g, a.v[k], b ? b->v[k] : NULL, mask, n);
    }
    return r;
}

/* `vectors` neighbouring vectors from position `at` on, combined to one value. */
static Position block(Combined *c, LLVMValueRef at, int lanes, int vectors)
{
    Gen *g = c->g;
    Position p[BLOCK_VECTORS];
    for (int k = 0; k < vectors; k++) {
        c->coord[c->axis] = LLVMBuildAdd(g->b, at, gen_int(g, (int64_t)k * lanes), "");
        p[k] = load(c, lanes);
    }
    for (; vectors > 1; vectors /= 2)
        for (int k = 0; k < vectors / 2; k++) {
            Position *two = &p[2 * k];
            p[k] = apply(c, every_second(c, two[0], &two[1], 0), every_second(c, two[0], &two[1], 1));
        }
    for (; lanes > 1; lanes /= 2)
        p[0] = apply(c, every_second(c, p[0], NULL, 0), every_second(c, p[0], NULL, 1));
    return p[0];
}

/* Handles a row along the vectors' axis: whole blocks in a loop, and the rest in ever narrower vectors. */
static void row(Combined *c)
{
    Gen *g = c->g;
    int lanes = plan_lanes(g->target);
    int64_t n = c->from[0]->shape[c->axis], step = (int64_t)lanes * BLOCK_VECTORS, done = 0;
    Position all;
    if (n >= 2 * step) {
        Position cell = cells(c, 1);
        Loop l;
        done = n / step * step;
        put(c, cell, block(c, gen_int(g, 0), lanes, BLOCK_VECTORS));
        LLVMValueRef at = gen_loop(g, &l, gen_int(g, step), gen_int(g, done), step);
        Position next = block(c, at, lanes, BLOCK_VECTORS);
        put(c, cell, apply(c, get(c, cell, 1), next));
        gen_loop_end(g, &l);
        all = get(c, cell, 1);
    }
    for (int64_t w = step; w; w /= 2)
        for (; n - done >= w; done += w) {
            Position next = w > lanes ? block(c, gen_int(g, done), lanes, (int)(w / lanes))
                                      : block(c, gen_int(g, done), (int)w, 1);
            all = done ? apply(c, all, next) : next;
        }
    store(c, all, 1);
}

/* Handles a line across the vectors' axis. */
static void line_at(void *user, LLVMValueRef at, int lanes)
{
    Combined *c = user;
    c->coord[c->va] = at;
    line(c, lanes);
}

static void scan_load(void *user, LLVMValueRef at, int lanes, LLVMValueRef *v)
{
    Combined *c = user;
    c->coord[c->axis] = at;
    Position p = load(c, lanes);
    memcpy(v, p.v, (size_t)c->n * sizeof *v);
}
static void scan_combine(void *user, const LLVMValueRef *a, const LLVMValueRef *b, LLVMValueRef *out)
{
    Combined *c = user;
    gen_combine(c->g, c->i->blocks[0], a, b, gen_lanes(a[0]), out);
}
static void scan_store(void *user, LLVMValueRef at, int lanes, const LLVMValueRef *v)
{
    Combined *c = user;
    Position p;
    c->coord[c->axis] = at;
    memcpy(p.v, v, (size_t)c->n * sizeof *v);
    store(c, p, lanes);
}

static void scan(Combined *c)
{
    int body = 0, bytes = 0;
    for (int k = 0; k < c->n; k++)
        if (dtype_bytes(c->from[k]->dtype) > bytes) bytes = dtype_bytes(c->from[k]->dtype);
    for (const Instr *i = c->i->blocks[0]->first; i; i = i->next) body++;
    if (body > MOST_COPIED) {
        line(c, 1);
        return;
    }
    scan_line(&(LineScan){ .g = c->g,
        .n = c->n,
        .bytes = bytes,
        .extent = c->from[0]->shape[c->axis],
        .reverse = ir_attr_int(c->i, ATTR_REVERSE, 0),
        .user = c,
        .load = scan_load,
        .combine = scan_combine,
        .store = scan_store });
}

static void over_axes(Combined *c, int axis)
{
    Loop l;
    if (axis == c->from[0]->rank) {
        if (c->va != c->axis) gen_lines(c->g, c->from[0]->shape[c->va], line_at, c);
        else if (c->i->op == OP_SCAN) scan(c);
        else row(c);
        return;
    }
    bool own = axis == c->axis || axis == c->va;
    if (!own)
        c->coord[axis] = gen_loop(c->g, &l, gen_int(c->g, 0), gen_int(c->g, c->from[0]->shape[axis]), 1);
    over_axes(c, axis + 1);
    if (!own) gen_loop_end(c->g, &l);
}

void combined_emit(Gen *g, Step *st)
{
    Instr *i = st->instr;
    Combined c = { .g = g, .i = i, .n = i->n_operands, .axis = (int)ir_attr_int(i, ATTR_AXIS, 0) };
    for (int k = 0; k < c.n; k++) {
        c.from[k] = plan_info(g->plan, ir_operand(i, k))->buf;
        c.to[k] = plan_info(g->plan, &i->results[k])->buf;
    }
    c.va = c.axis;
    for (int a = 0; a < c.from[0]->rank; a++)
        if (c.from[0]->shape[a] > 1) c.va = a;
    for (int a = 0; a < TILE_MAX_RANK; a++) c.coord[a] = gen_int(g, 0);
    over_axes(&c, 0);
}
