/* prefetch.c: the window of the next step or program, fetched while this one is worked on. */
#include "backends/cpu/memory/memory.h"

enum { PAGE = 4096 };

/* How far the window has moved since it was last computed: the next one is as far away again (`latency`). */
LLVMValueRef memory_distance(Gen *g, LLVMValueRef base)
{
    LLVMValueRef last = gen_alloca(g, g->i64, "last");
    LLVMBasicBlockRef here = gen_here(g);
    gen_at(g, g->entry);
    LLVMBuildStore(g->b, gen_int(g, 0), last);
    gen_at(g, here);
    LLVMValueRef at = LLVMBuildPtrToInt(g->b, base, g->i64, ""), old = LLVMBuildLoad2(g->b, g->i64, last, "");
    LLVMBuildStore(g->b, at, last);
    return LLVMBuildSelect(
        g->b, icmp(g, LLVMIntEQ, old, gen_int(g, 0)), gen_int(g, 0), LLVMBuildSub(g->b, at, old, ""), "");
}

void memory_prefetch(Gen *g, LLVMValueRef ptr, int locality)
{
    LLVMValueRef v[] = { ptr, LLVMConstInt(g->i32, 0, false), LLVMConstInt(g->i32, (unsigned)locality, false),
        LLVMConstInt(g->i32, 1, false) };
    gen_intrinsic(g, "llvm.prefetch", (LLVMTypeRef[]){ g->ptr }, 1, v, 4);
}

/* Whether the scalar changes from program to program. */
static bool varies(const Value *v, int depth)
{
    if (!v->def) return v->block->parent != NULL;
    if (v->def->op == OP_PROGRAM_ID || depth > 12) return true;
    for (int k = 0; k < v->def->n_operands; k++)
        if (varies(ir_operand(v->def, k), depth + 1)) return true;
    return false;
}

/* Is the next window worth fetching while this one is worked on, and how near: 3 into the first cache, 2 into
 * the second, -1 not. In a loop if `latency` asks for it. From one program to the next where the processor
 * cannot see where the rows of a tile lead, and for long rows, whose later walks leave memory idle; into the
 * second cache, as lines a power of two apart would displace each other in the first. */
int memory_next(Gen *g, const Instr *i, const Window *w)
{
    if (w->rank == 0) return -1;
    int unit = memory_unit_axis(g->func, i), last = w->rank - 1;
    bool turned = unit >= 0 && unit != last, asked = ir_attr_int(i, ATTR_LATENCY, 0) > 1, moves = false;
    if (i->block != g->func->body) return turned || asked ? 3 : -1;
    for (int a = 0; a < w->m.rank; a++) moves |= varies(w->m.idx[a], 0);
    bool long_rows = w->shape[last] * dtype_bytes(w->dtype) >= PAGE,
         rows = last > 0 && w->shape[last - 1] > 1;
    return moves && (turned || asked || rows || long_rows) ? 2 : -1;
}

const Instr *memory_product(const Instr *load)
{
    const Value *v = ir_result(load);
    for (const Instr *i = load; v->uses && !v->uses->next; v = ir_result(i)) {
        i = v->uses->user;
        if (i->block != load->block) return NULL;
        if (i->op == OP_MMA) return v == ir_operand(i, 2) ? NULL : i;
        if (i->op != OP_PERMUTE && i->op != OP_CAST) return NULL;
    }
    return NULL;
}

bool memory_walks(const Window *w, const Step *s)
{
    int64_t shape[TILE_MAX_RANK];
    return s->kind == STEP_NEST && s->rank == squeeze(ir_result(w->instr)->type, shape) &&
           !memcmp(shape, s->shape, (size_t)s->rank * sizeof *shape);
}

/* An estimate of the time of a nest for a vector: its operations, and the memory time of the elements that it
 * writes. */
int memory_work(Gen *g, const Step *s)
{
    int work = 1;
    for (const Sink *k = s->sinks; k; k = k->next) {
        work += plan_cost(g->plan, k->value) + (k->kind == SINK_STORE ? 6 : 0);
        if (k->kind == SINK_BUFFER && k->value->def) work += plan_op_cost(k->value->def);
    }
    return work;
}

void memory_note_walks(Gen *g, const Instr *i, Window *w)
{
    const Step *s = g->plan->body->first;
    while (s && s->instr != i) s = s->next;
    for (; s; s = s->next) {
        if (!memory_walks(w, s)) continue;
        w->walks++;
        int work = memory_work(g, s);
        w->work += work;
        if (work > w->most) w->most = work;
    }
    if (w->walks < 2) {
        w->walks = 0;
        return;
    }
    w->next_walked = g->walked;
    g->walked = w;
}

/* In 64ths of the row, rounded so that the parts of all walks are the row. Where a vector is a whole line,
 * the short walks are over before memory has answered, so a walk with three quarters of the work fetches it
 * all (bench/notes/cpu.md, "Rows and transposes on Zen 3", compares). */
void memory_fetch_part(Eval *e, Window *w, const Step *s, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    int work = memory_work(g, s);
    int64_t bytes = dtype_bytes(w->dtype), from = 64 * w->done / w->work,
            part = 64 * (w->done + work) / w->work - from;
    if (g->target->vector_bytes == LINE && 4 * w->most >= 3 * w->work) {
        from = 0;
        part = work == w->most ? 64 : 0;
    }
    if (e->lanes == 1 || part == 0) return;
    WindowRow *r = memory_row(e, w, coord, va);
    LLVMValueRef at =
        LLVMBuildLShr(g->b, LLVMBuildMul(g->b, coord[va], gen_int(g, bytes * part), ""), gen_int(g, 6), "");
    LLVMValueRef ptr = gen_ptr(g, gen_ptr(g, r->ptr, w->ahead),
        LLVMBuildAdd(g->b, at, gen_int(g, w->shape[va] * bytes * from / 64), ""));
    for (int64_t line = 0; 64 * line < e->lanes * bytes * part; line += LINE)
        memory_prefetch(g, gen_ptr(g, ptr, gen_int(g, line)), w->locality);
}
