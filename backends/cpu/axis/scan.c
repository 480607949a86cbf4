/* scan.c: scans along an axis. Where the last axis is another one, a scan runs along its axis one position
 * after another, over vectors of the last one. Along the last axis each vector is scanned by itself: its
 * elements are combined with those 1, 2, 4, ... before them, which takes log2 of the lanes steps and depends
 * on no other vector; then with the last element of the vector before it. */
#include "backends/cpu/cpu.h"

/* --- along the vectors' axis --------------------------------------------------------------------------- */

/* The elements of v a distance before (in the order of the scan), and v's own where there is none. */
static LLVMValueRef from_before(const LineScan *s, LLVMValueRef v, int lanes, int distance)
{
    int mask[128];
    for (int k = 0; k < lanes; k++) {
        int from = s->reverse ? k + distance : k - distance;
        mask[k] = from >= 0 && from < lanes ? from : k;
    }
    return gen_shuffle(s->g, v, NULL, mask, lanes);
}

/* `combined` where there is an element a distance before, else v. */
static LLVMValueRef choose(const LineScan *s, LLVMValueRef combined, LLVMValueRef v, int lanes, int distance)
{
    LLVMValueRef there[128];
    for (int k = 0; k < lanes; k++) {
        int from = s->reverse ? k + distance : k - distance;
        there[k] = LLVMConstInt(s->g->i1, from >= 0 && from < lanes, false);
    }
    return LLVMBuildSelect(s->g->b, LLVMConstVector(there, (unsigned)lanes), combined, v, "");
}

/* One vector, or element, from position `at` of the scan on. follows: `last` holds what is before it. */
static void line_chunk(const LineScan *s, LLVMValueRef at, int lanes, LLVMValueRef *last, bool follows)
{
    Gen *g = s->g;
    LLVMValueRef v[IR_MAX_COMBINED], a[IR_MAX_COMBINED], both[IR_MAX_COMBINED];
    if (s->reverse) at = LLVMBuildSub(g->b, gen_int(g, s->extent - lanes), at, "");
    s->load(s->user, at, lanes, v);
    for (int distance = 1; distance < lanes; distance *= 2) {
        for (int k = 0; k < s->n; k++) a[k] = from_before(s, v[k], lanes, distance);
        s->combine(s->user, a, v, both);
        for (int k = 0; k < s->n; k++) v[k] = choose(s, both[k], v[k], lanes, distance);
    }
    for (int k = 0; k < s->n && follows; k++) {
        LLVMTypeRef t = LLVMTypeOf(v[k]);
        if (lanes > 1) t = LLVMGetElementType(t);
        a[k] = gen_splat(g, LLVMBuildLoad2(g->b, t, last[k], ""), lanes);
    }
    if (follows) {
        s->combine(s->user, a, v, both);
        memcpy(v, both, sizeof v);
    }
    s->store(s->user, at, lanes, v);
    for (int k = 0; k < s->n; k++) {
        LLVMValueRef end =
            lanes == 1 ? v[k]
                       : LLVMBuildExtractElement(g->b, v[k], gen_int(g, s->reverse ? 0 : lanes - 1), "");
        if (!last[k]) last[k] = gen_alloca(g, LLVMTypeOf(end), "scan");
        LLVMBuildStore(g->b, end, last[k]);
    }
}

void scan_line(const LineScan *s)
{
    Gen *g = s->g;
    int lanes = s->bytes > 4 ? plan_lanes(g->target) / 2 : plan_lanes(g->target);
    int64_t whole = s->extent / lanes * lanes, done = 0;
    LLVMValueRef last[IR_MAX_COMBINED] = { NULL };
    if (whole) {
        line_chunk(s, gen_int(g, 0), lanes, last, false);
        done = whole;
    }
    if (whole > lanes) {
        Loop l;
        LLVMValueRef at = gen_loop(g, &l, gen_int(g, lanes), gen_int(g, whole), lanes);
        line_chunk(s, at, lanes, last, true);
        gen_loop_end(g, &l);
    }
    for (int w = lanes / 2; w; w /= 2)
        if (s->extent - done >= w) {
            line_chunk(s, gen_int(g, done), w, last, done > 0);
            done += w;
        }
}

/* --- sums, products, maxima ---------------------------------------------------------------------------- */

typedef struct Scan {
    Gen *g;
    Instr *i;
    const Buf *from, *to;
    int axis, va;
    DType acc;
    LLVMValueRef coord[TILE_MAX_RANK];
} Scan;

static LLVMValueRef combine(Scan *s, LLVMValueRef a, LLVMValueRef b)
{ return elem_reduce(s->g, s->i->op, s->acc, a, b); }

static LLVMValueRef load(Scan *s, int lanes)
{
    Eval e;
    eval_init(&e, s->g, lanes);
    return convert(
        s->g, s->acc, s->from->dtype, buf_load(&e, s->from, s->coord, lanes > 1 ? s->va : s->axis));
}

static void store(Scan *s, LLVMValueRef x, int lanes)
{
    DType d = s->from->dtype;
    bool max = s->i->op == OP_SCAN_MAX && s->acc != d;
    Eval e;
    eval_init(&e, s->g, lanes);
    buf_store(&e, s->to, max ? from_f32_exact(s->g, d, x) : convert(s->g, d, s->acc, x), s->coord,
        lanes > 1 ? s->va : s->axis);
}

/* One line along the axis, `lanes` neighbours of the vector axis at a time. */
static void line(Scan *s, int lanes)
{
    Gen *g = s->g;
    int64_t n = s->from->shape[s->axis];
    LLVMValueRef cell = gen_alloca(g, gen_type(g, s->acc, lanes), "scan");
    bool reverse = ir_attr_int(s->i, ATTR_REVERSE, 0);
    Loop l;
    for (int part = 0; part < 2; part++) { /* the first element is itself */
        LLVMValueRef k = gen_int(g, 0);
        if (part && n == 1) break;
        if (part) k = gen_loop(g, &l, gen_int(g, 1), gen_int(g, n), 1);
        s->coord[s->axis] = reverse ? LLVMBuildSub(g->b, gen_int(g, n - 1), k, "") : k;
        LLVMValueRef x = load(s, lanes);
        if (part) x = combine(s, LLVMBuildLoad2(g->b, gen_type(g, s->acc, lanes), cell, ""), x);
        LLVMBuildStore(g->b, x, cell);
        store(s, x, lanes);
        if (part) gen_loop_end(g, &l);
    }
}

static void line_at(void *user, LLVMValueRef at, int lanes)
{
    Scan *s = user;
    s->coord[s->va] = at;
    line(s, lanes);
}

static void row_load(void *user, LLVMValueRef at, int lanes, LLVMValueRef *v)
{
    Scan *s = user;
    s->coord[s->axis] = at;
    v[0] = load(s, lanes);
}
static void row_combine(void *user, const LLVMValueRef *a, const LLVMValueRef *b, LLVMValueRef *out)
{ out[0] = combine(user, a[0], b[0]); }
static void row_store(void *user, LLVMValueRef at, int lanes, const LLVMValueRef *v)
{
    Scan *s = user;
    s->coord[s->axis] = at;
    store(s, v[0], lanes);
}

static void scan_axes(Scan *s, int axis)
{
    Gen *g = s->g;
    if (axis == s->from->rank) {
        if (s->va == s->axis) {
            scan_line(&(LineScan){ .g = g,
                .n = 1,
                .bytes = dtype_bytes(s->acc),
                .extent = s->from->shape[s->axis],
                .reverse = ir_attr_int(s->i, ATTR_REVERSE, 0),
                .user = s,
                .load = row_load,
                .combine = row_combine,
                .store = row_store });
            return;
        }
        gen_lines(g, s->from->shape[s->va], line_at, s);
        return;
    }
    if (axis == s->axis || axis == s->va) {
        scan_axes(s, axis + 1);
        return;
    }
    Loop l;
    s->coord[axis] = gen_loop(g, &l, gen_int(g, 0), gen_int(g, s->from->shape[axis]), 1);
    scan_axes(s, axis + 1);
    gen_loop_end(g, &l);
}

void scan_emit(Gen *g, Step *st)
{
    Instr *i = st->instr;
    Scan s = { .g = g,
        .i = i,
        .from = plan_info(g->plan, ir_operand(i, 0))->buf,
        .to = plan_info(g->plan, ir_result(i))->buf };
    s.axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    s.va = s.axis;
    for (int a = 0; a < s.from->rank; a++)
        if (s.from->shape[a] > 1) s.va = a;
    DType d = s.from->dtype;
    s.acc = dtype_is_float(d) && dtype_bits(d) < 32 ? DT_F32 : d;
    for (int a = 0; a < TILE_MAX_RANK; a++) s.coord[a] = gen_int(g, 0);
    scan_axes(&s, 0);
}
