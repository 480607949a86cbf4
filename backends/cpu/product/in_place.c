/* in_place.c: an operand A of AMX that already lies as a product reads it is not packed.
 *
 * A tile register takes 16 rows of 64 bytes that are side by side, and rows may be any number of bytes apart.
 * So a dense buffer of whole tiles serves as it is, also through a reshape, and so does a window of a tensor
 * whose elements are side by side along K, if all of it is in range. That is known when the kernel runs: code
 * to pack the window is there too. Only a window that one product reads once is taken from memory, because a
 * packed operand is read from the first cache again and again. */
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/product/mma.h"
#include "backends/cpu/plan/plan.h"

/* Rows that are a multiple of so many bytes apart share few sets of the first cache. */
enum { ALIASING = 512 };

static bool is_whole_tiles(int64_t rows, int64_t depth, DType d)
{ return rows % AMX_ROWS == 0 && depth * dtype_bytes(d) % AMX_ROW_BYTES == 0; }

Buf *plan_in_place(Plan *p, Value *v, DType d)
{
    int64_t row = v->type->shape[1] * dtype_bytes(d);
    if (v->type->dtype != d || !is_whole_tiles(v->type->shape[0], v->type->shape[1], d) ||
        row % ALIASING == 0)
        return NULL;
    const Value *x = v;
    while (!plan_info(p, x)->buf && x->def && x->def->op == OP_RESHAPE && is_tile(ir_operand(x->def, 0)))
        x = ir_operand(x->def, 0);
    Buf *b = plan_info(p, x)->buf;
    if (!b || b->form != FORM_DENSE || b->dtype != d || (b->ld && b->ld != v->type->shape[1])) return NULL;
    b->ld = v->type->shape[1];
    return b;
}

bool in_place_window(const Func *f, const Instr *mma, int64_t depth)
{
    const Instr *load = ir_operand(mma, 0)->def;
    MemParts m;
    if (!load || load->op != OP_LOAD || memory_product(load) != mma || !ir_mem_parts(load, &m)) return false;
    const Type *t = ir_result(load)->type;
    return !m.token && f->params[m.param].kind == PARAM_IN && is_whole_tiles(t->shape[0], depth, t->dtype) &&
           memory_unit_axis(f, load) == 1;
}

LLVMValueRef in_place_packs(Gen *g, const Step *s)
{
    const Sink *k = s->kind == STEP_NEST ? s->sinks : NULL;
    if (!k || k->next || k->kind != SINK_PACK || !k->buf->in_memory) return NULL;
    const Window *w = g->windows[k->value->id];
    LLVMValueRef in = w->outside ? LLVMBuildNot(g->b, w->outside, "") : NULL;
    if (!w->is_unit[1]) in = both(g, in, w->unit[1]);
    for (int a = 0; a < 2; a++) {
        if (!w->hi[a]) continue;
        in = both(g, in, icmp(g, LLVMIntEQ, w->lo[a], gen_int(g, 0)));
        in = both(g, in, icmp(g, LLVMIntEQ, w->hi[a], gen_int(g, w->shape[a])));
    }
    k->buf->in_range = in ? in : LLVMConstInt(g->i1, 1, false);
    return LLVMBuildNot(g->b, k->buf->in_range, "");
}

void in_place_operand(Gen *g, const Step *s, LLVMValueRef *at, LLVMValueRef *row)
{
    Buf *b = s->a;
    *at = gen_buf(g, b, 0);
    *row = gen_int(g, b->ld * dtype_bytes(b->dtype));
    if (!b->in_range) return;
    const Window *w = g->windows[ir_operand(s->instr, 0)->id];
    *at = LLVMBuildSelect(g->b, b->in_range, w->base, *at, "");
    *row = LLVMBuildSelect(g->b, b->in_range, w->stride[0], *row, "");
}
