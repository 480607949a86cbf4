/* sink-reductions: a reduction that only one arm of a scalar select needs moves into a branch.
 *
 *   %p = argmax %y                              %w = if %better { %p = argmax %y; yield %base + %p }
 *   %q = add %base, %p                  ->           else { yield %old }
 *   %w = where %better, %q, %old
 *
 * A typical case is a loop over tiles that searches a maximum and its place: only the few steps with a new
 * maximum need the place. The operations that only this arm needs move with it, back to other reductions.
 *
 * Requires: a scalar condition, which all threads of a program have alike, so that they meet in the branch or
 * all stay out of it; pure instructions. Keeps: everything. Does not handle selects of tiles. */
#include "passes/kernel/kernel.h"

enum { MOST_SUNK = 64 }; /* instructions of a branch */

typedef struct Sinking {
    Session *s;
    InstrList selects;
    InstrList sunk; /* of one arm, the last one first */
} Sinking;

static bool meets(const Instr *i) { return op_reduces(i->op) && ir_operand(i, 0)->type->kind == TYPE_TILE; }

static bool is_sunk(const Sinking *c, const Instr *i)
{
    for (size_t k = 0; k < c->sunk.len; k++)
        if (c->sunk.data[k] == i) return true;
    return false;
}

/* Whether arm k of the select, and what is sunk for it, are all that use the instruction's results. */
static bool only_for(const Sinking *c, const Instr *i, const Instr *select, int k)
{
    bool used = false;
    for (int r = 0; r < i->n_results; r++)
        for (const Use *u = i->results[r].uses; u; u = u->next) {
            if (u->user == select ? u != &select->operands[k] : !is_sunk(c, u->user)) return false;
            used = true;
        }
    return used;
}

/* Collects what arm k alone needs; whether threads meet for it. */
static bool collect(Sinking *c, const Instr *select, int k)
{
    bool found = false;
    c->sunk.len = 0;
    for (Instr *i = select->prev; i && c->sunk.len < MOST_SUNK; i = i->prev) {
        if (!op_is_pure(i->op) || i->n_blocks || !only_for(c, i, select, k)) continue;
        vec_push(&c->s->arena, &c->sunk, i);
        found |= meets(i);
    }
    return found;
}

static void yield(Builder *b, Value *v) { ir_build(b, OP_YIELD, &v, 1, NO_ATTRS, NULL, 0); }

static void branch(Sinking *c, Instr *select, int k)
{
    Builder b = ir_before(select);
    Value *cond = ir_operand(select, 0), *arm[2] = { ir_operand(select, 1), ir_operand(select, 2) };
    const Type *t = ir_result(select)->type;
    Instr *choice = ir_build(&b, OP_IF, &cond, 1, NO_ATTRS, &t, 1);
    ir_replace(ir_result(select), ir_result(choice));
    ir_erase(select);
    for (int a = 0; a < 2; a++) {
        Builder in = ir_at_end(choice->blocks[a]);
        for (size_t n = c->sunk.len; a == k - 1 && n-- > 0;) {
            ir_unlink(c->sunk.data[n]);
            ir_place(&in, c->sunk.data[n]);
        }
        yield(&in, arm[a]);
    }
}

static void find(void *user, Instr *i)
{
    Sinking *c = user;
    const Instr *loop = i->block->parent;
    if (i->op == OP_WHERE && ir_result(i)->type->kind == TYPE_SCALAR && loop && loop->op == OP_FOR)
        vec_push(&c->s->arena, &c->selects, i);
}

bool kernel_pass_sink_reductions(KernelContext *k)
{
    uint32_t before = kernel_values(k);
    Sinking c = { .s = k->s };
    ir_walk(k->f->body, find, &c);
    for (size_t n = 0; n < c.selects.len; n++)
        for (int arm = 1; arm <= 2; arm++)
            if (collect(&c, c.selects.data[n], arm)) {
                branch(&c, c.selects.data[n], arm);
                break;
            }
    return kernel_grew(k, before);
}
