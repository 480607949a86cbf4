/* scan.c: scans along an axis. A scan runs along its axis one position after another, over vectors of the
 * last axis where that is another one. */
#include "backends/cpu/cpu.h"

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

/* One line along the axis, `lanes` neighbours of the vector axis at a time. */
static void line(Scan *s, int lanes)
{
    Gen *g = s->g;
    DType d = s->from->dtype;
    int64_t n = s->from->shape[s->axis];
    LLVMValueRef cell = gen_alloca(g, gen_type(g, s->acc, lanes), "scan");
    Eval e;
    eval_init(&e, g, lanes);
    bool reverse = ir_attr_int(s->i, ATTR_REVERSE, 0);
    Loop l;
    for (int part = 0; part < 2; part++) { /* the first element is itself */
        LLVMValueRef k = gen_int(g, 0);
        if (part && n == 1) break;
        if (part) k = gen_loop(g, &l, gen_int(g, 1), gen_int(g, n), 1);
        s->coord[s->axis] = reverse ? LLVMBuildSub(g->b, gen_int(g, n - 1), k, "") : k;
        LLVMValueRef x = convert(g, s->acc, d, buf_load(&e, s->from, s->coord, lanes > 1 ? s->va : s->axis));
        if (part) x = combine(s, LLVMBuildLoad2(g->b, gen_type(g, s->acc, lanes), cell, ""), x);
        LLVMBuildStore(g->b, x, cell);
        bool max = s->i->op == OP_SCAN_MAX && s->acc != d;
        buf_store(&e, s->to, max ? from_f32_exact(g, d, x) : convert(g, d, s->acc, x), s->coord,
            lanes > 1 ? s->va : s->axis);
        if (part) gen_loop_end(g, &l);
    }
}

static void line_at(void *user, LLVMValueRef at, int lanes)
{
    Scan *s = user;
    s->coord[s->va] = at;
    line(s, lanes);
}

static void scan_axes(Scan *s, int axis)
{
    Gen *g = s->g;
    if (axis == s->from->rank) {
        if (s->va == s->axis) {
            line(s, 1);
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
