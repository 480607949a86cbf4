/* emit_copy.c: where copies to shared memory stand in a loop: addresses that go along from turn to turn.
 *
 * A copy of a loop of products reads a window that moves by the same distance in every turn. A thread's address of it is one pointer, set before the loop and moved at the
 * end of each turn; what the pieces of a thread add to it and to its place in the slot does not change. Worked out anew in each turn it is 45 of 110 instructions beside the 64
 * products of a step of GEMM, and the chain is long enough for ptxas to put the wait for the next step behind all products (H100: 395 TFLOPS). */
#include "backends/gpu/emit.h"

/* v with the loop's counter at its first value; slope_in_loop has said that it is made of sums and products. */
static const char *at_start(Emit *e, const Value *v, const Instr *loop)
{
    const Block *body = loop->blocks[0];
    int64_t c;
    if (v == body->args[0]) return str(e, "(i64)%s", name_of(e, ir_operand(loop, 0)));
    if (ir_is_const(v, &c)) return str(e, "%lldll", (long long)c);
    if (ir_defined_outside(v, body)) return str(e, "(i64)%s", name_of(e, v));
    if (v->def->n_operands == 1) return at_start(e, ir_operand(v->def, 0), loop);
    const char *a = at_start(e, ir_operand(v->def, 0), loop), *b = at_start(e, ir_operand(v->def, 1), loop);
    return str(e, "(%s %s %s)", a, v->def->op == OP_ADD ? "+" : v->def->op == OP_SUB ? "-" : "*", b);
}

static void place(Emit *e, const Instr *copy, const Instr *loop)
{
    const Type *view = ir_operand(copy, 0)->type;
    const LayoutShared *s = layouts_shared(&e->plan->layouts, view);
    Window w;
    int64_t step, slopes[TILE_MAX_RANK];
    window_of(e, copy, &w);
    if (!ir_is_const(ir_operand(loop, 2), &step)) return;
    for (int a = 0; a < w.rank; a++) if (!slope_in_loop(w.offset[a], loop->blocks[0], &slopes[a])) return;
    const Layout *l = copy_layout(e, view, s);
    const Param *p = &e->f->params[w.param];
    const char *c[TILE_MAX_RANK], *at = slot_name(e, SLOT_DATA, w.param, 0, p->type->dtype), *by = NULL;
    for (int a = 0; a < w.rank; a++) {
        const char *stride = p->stride[a] != FACT_UNKNOWN ? str(e, "%lldll", (long long)p->stride[a]) : slot_name(e, SLOT_STRIDE, w.param, a, DT_INDEX);
        at = str(e, "%s + %s * %s", at, at_start(e, w.offset[a], loop), stride);
        if (!slopes[a]) continue;
        const char *part = str(e, "%lldll * %s", (long long)(slopes[a] * step), stride);
        by = by ? str(e, "%s + %s", by, part) : part;
    }
    for (int a = 0; a < view->rank; a++) c[a] = thread_coord(e, l, a);
    CopyPlace x = { copy, tmp(e, p->name), by, NULL, { NULL } };
    /* strides in registers: left to itself ptxas reads them from constant memory again before each piece */
    for (int a = 0; a < w.rank; a++) {
        if (w.tile_axis[a] < 0 || p->stride[a] != FACT_UNKNOWN || !e->f->fits32) continue;
        x.stride[a] = tmp(e, "stride");
        line(e, "i32 %s = (i32)%s;", x.stride[a], slot_name(e, SLOT_STRIDE, w.param, a, DT_INDEX));
        line(e, "%s(%s);", use(e, "pin_word"), x.stride[a]);
    }
    uint32_t *own, seen;
    if (linear_offsets(e, l, s, 1, &own, &seen)) {
        const char *zero[TILE_MAX_RANK];
        for (int a = 0; a < view->rank; a++) zero[a] = coord(e, l, a, "0");
        x.to = shared_offset(e, s, zero);
        line(e, "%s(%s);", use(e, "pin_word"), x.to);
    }
    line(e, "const %s *%s = %s + %s;", pointee(p->type->dtype), x.at, at, window_index(e, &w, c));
    vec_push(&e->s->arena, &e->places, x);
}

static void places_in(Emit *e, const Block *b, const Instr *loop)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (i->op == OP_COPY) place(e, i, loop);
        else if (i->op == OP_IF) for (int k = 0; k < i->n_blocks; k++) places_in(e, i->blocks[k], loop);
    }
}

/* How many places there were before: for copies_moved. */
size_t copies_placed(Emit *e, const Instr *loop)
{
    size_t before = e->places.len;
    if (!is_hip(e) && e->role < 0 && target_has(e->target, TF_CP_ASYNC) && ir_holds(loop->blocks[0], OP_COPY_WAIT)) places_in(e, loop->blocks[0], loop);
    return before;
}

void copies_moved(Emit *e, size_t before)
{
    for (size_t k = before; k < e->places.len; k++) if (e->places.data[k].by) line(e, "%s += %s;", e->places.data[k].at, e->places.data[k].by);
    e->places.len = before;
}

const CopyPlace *copy_place(const Emit *e, const Instr *copy)
{
    for (size_t k = 0; k < e->places.len; k++) if (e->places.data[k].copy == copy) return &e->places.data[k];
    return NULL;
}

const char *copy_index(Emit *e, const CopyPlace *p, const Window *w, const char *const *own)
{
    const char *x = NULL, *rest[TILE_MAX_RANK];
    bool any = false;
    for (int a = 0; a < w->rank; a++) {
        int t = w->tile_axis[a];
        if (t < 0) continue;
        rest[t] = p->stride[a] ? "0" : own[t];
        any |= strcmp(rest[t], "0") != 0;
        if (!p->stride[a] || !strcmp(own[t], "0")) continue;
        const char *part = str(e, "%s * %s", w->step[a] != 1 ? str(e, "(%s * %lld)", own[t], (long long)w->step[a]) : own[t], p->stride[a]);
        x = x ? str(e, "%s + %s", x, part) : part;
    }
    const char *y = any ? window_index(e, w, rest) : "0";
    return !x ? y : !strcmp(y, "0") ? x : str(e, "%s + %s", x, y);
}
