/* start_together.c: of shared: copies of loads that were staged where they stood start with those before them
 * in their block, across the products between.
 *
 *   barrier; copy %a..; copy_commit; copy_wait 0; barrier          barrier; copy %a..; copy %b..
 *   %c = mma_sync %a, ..                                     ->    copy_commit; copy_wait 0; barrier
 *   barrier; copy %b..; copy_commit; copy_wait 0; barrier          %c = mma_sync %a, ..
 *   %d = mma_sync %b, ..                                           %d = mma_sync %b, ..
 *
 * Each of the products of a batch, say, would otherwise wait for memory by itself. Buffers of such loads have
 * places of their own, so that this takes no more shared memory.
 *
 * Proof. What is copied is a tensor that the kernel only reads, at a place that is computed from what was
 * known before the first copy. Readers of the buffer in an earlier round of a loop are behind the barrier in
 * front of the first copy. Nothing between accesses memory that overlaps the buffer, and no loop, branch or
 * other copy is crossed. */
#include "passes/kernel/pipeline/multistage.h"

enum { MOST_STEPS = 64 }; /* operations that are moved for one copy */

/* The bytes of shared memory that a value is in. */
typedef struct Span {
    int64_t from, to;
} Span;

static Span span_of(Staging *c, const Value *v)
{
    const Instr *i = v->def;
    while (i && i->op == OP_SHARED_STAGE) i = ir_operand(i, 0)->def;
    if (!i || i->op != OP_SHARED_ALLOC) return (Span){ 0, INT64_MAX };
    int64_t at = ir_attr_int(i, ATTR_OFFSET, 0);
    const Type *t = ir_result(i)->type;
    return (Span){ at, at + stage_stage_bytes(c, t) * t->shape[0] };
}

static bool apart(Span a, Span b) { return a.to <= b.from || b.to <= a.from; }

/* Whether the value is there before `at`, an instruction of the same block, or can be moved there. */
static bool can_move(const Value *v, const Block *block, const Instr *at, int *steps)
{
    if (ir_defined_outside(v, block) || !v->def) return true;
    for (const Instr *i = v->def; i; i = i->next)
        if (i == at) return true;
    const unsigned flags = op_info[v->def->op].flags;
    bool moves = v->type->kind == TYPE_SCALAR && flags & OPF_PURE;
    moves |= v->def->op == OP_SHARED_ALLOC || v->def->op == OP_SHARED_STAGE;
    if (--*steps < 0 || !moves || v->def->n_blocks) return false;
    for (int k = 0; k < v->def->n_operands; k++)
        if (!can_move(ir_operand(v->def, k), block, at, steps)) return false;
    return true;
}

static void move(Value *v, const Block *block, Instr *at)
{
    if (ir_defined_outside(v, block) || !v->def) return;
    for (const Instr *i = v->def; i; i = i->next)
        if (i == at) return;
    for (int k = 0; k < v->def->n_operands; k++) move(ir_operand(v->def, k), block, at);
    Builder b = ir_before(at);
    ir_unlink(v->def);
    ir_place(&b, v->def);
}

/* Whether the instruction may run while the copy to the span is under way. */
static bool crosses(Staging *c, const Instr *i, Span buffer)
{
    if (i->n_blocks || i->op == OP_COPY_COMMIT || i->op == OP_COPY_WAIT || op_info[i->op].flags & OPF_TERM)
        return false;
    for (int k = 0; i->op != OP_SHARED_STAGE && k < i->n_operands; k++) /* a view moves nothing */
        if (ir_operand(i, k)->type->kind == TYPE_SHARED && !apart(span_of(c, ir_operand(i, k)), buffer))
            return false;
    return true;
}

/* The copy of a load that was staged by itself and its wait, if the group begins at this barrier. */
static Instr *copy_behind(const Instr *barrier)
{
    Instr *copy = barrier->op == OP_BARRIER ? barrier->next : NULL;
    Instr *wait = copy && copy->op == OP_COPY && copy->next ? copy->next->next : NULL;
    return stage_is_single_wait(wait) ? copy : NULL;
}

/* The next copy behind `from` that can start before `first`; NULL: there is none. */
static Instr *next_copy(Staging *c, Instr *from, const Instr *first)
{
    for (Instr *i = from; i; i = i->next) {
        Instr *copy = copy_behind(i);
        if (!copy) {
            if (!crosses(c, i, (Span){ 0, 0 })) return NULL;
            continue;
        }
        Span buffer = span_of(c, ir_operand(copy, 0));
        int steps = MOST_STEPS;
        for (const Instr *k = from; k != i; k = k->next)
            if (!crosses(c, k, buffer)) return NULL;
        for (int k = 0; k < copy->n_operands; k++)
            if (ir_operand(copy, k)->type->kind != TYPE_TENSOR &&
                !can_move(ir_operand(copy, k), copy->block, first, &steps))
                return NULL;
        return copy;
    }
    return NULL;
}

void stage_start_together(Staging *c, Block *b)
{
    if (stage_amd(c)) return;
    for (Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) stage_start_together(c, i->blocks[k]);
        if (!stage_is_single_wait(i)) continue;
        Instr *commit = i->prev;
        for (Instr *copy; (copy = next_copy(c, i->next->next, commit));) {
            Instr *barrier = copy->prev, *end[] = { copy->next, copy->next->next, copy->next->next->next };
            for (int k = 0; k < copy->n_operands; k++)
                if (ir_operand(copy, k)->type->kind != TYPE_TENSOR) move(ir_operand(copy, k), b, commit);
            Builder before = ir_before(commit);
            ir_unlink(copy);
            ir_place(&before, copy);
            ir_erase(barrier);
            for (int k = 0; k < 3; k++) ir_erase(end[k]);
        }
    }
}
