/* verify_tokens.c: memory and its tokens (verify.h). */
#include "ir/verify/verify.h"

/* How many tensors' chains a token stands for. Joined chains part again by several uses of one token, one a
 * chain. */
static int token_width(const Value *t, int depth)
{
    const Instr *i = t->def;
    if (depth > 64) return 1;
    if (!i) {
        const Instr *loop = t->block->parent;
        int k = !loop ? -1 : loop->op == OP_FOR ? t->index + 2 : loop->op == OP_WHILE ? t->index : -1;
        return k >= 0 && k < loop->n_operands && ir_operand(loop, k)->type->kind == TYPE_TOKEN
                   ? token_width(ir_operand(loop, k), depth + 1)
                   : 1;
    }
    if (i->op == OP_JOIN_TOKENS) {
        int n = 0;
        for (int k = 0; k < i->n_operands && n < 1024; k++) n += token_width(ir_operand(i, k), depth + 1);
        return n;
    }
    MemParts m;
    if (ir_mem_parts(i, &m)) return ir_orders(i) && m.token ? token_width(m.token, depth + 1) : 1;
    if (i->op == OP_FOR && t->index + 3 < i->n_operands)
        return token_width(ir_operand(i, t->index + 3), depth + 1);
    if (i->op == OP_WHILE && t->index < i->n_operands) return token_width(ir_operand(i, t->index), depth + 1);
    if (i->op == OP_IF && i->n_blocks == 2) {
        const Instr *y = i->blocks[0]->last;
        if (y && y->op == OP_YIELD && t->index < y->n_operands)
            return token_width(ir_operand(y, t->index), depth + 1);
    }
    return 1;
}

/* The most uses of `t` on one path through the uses inside `b`; *param_twice when two of them access one
 * tensor. */
static int uses_on_path(
    const Verifier *v, const Block *b, const Value *t, uint64_t *params, const Instr **culprit)
{
    int n = 0;
    for (const Instr *i = b->first; i; i = i->next) {
        int before = n;
        MemParts m;
        bool mem = ir_mem_parts(i, &m) && m.token == t;
        for (int k = 0; k < i->n_operands; k++) n += ir_operand(i, k) == t;
        if (mem && !ir_orders(i) && m.param < 64) {
            if (*params >> m.param & 1) {
                *culprit = i;
                return 1 << 20;
            }
            *params |= 1ull << m.param;
        }
        uint64_t seen[2] = { *params, *params };
        int inner[2] = { 0, 0 };
        for (int k = 0; k < i->n_blocks; k++) {
            int r = uses_on_path(v, i->blocks[k], t, &seen[k & 1], culprit);
            if (r >= 1 << 20) return r;
            if (r > inner[k & 1]) inner[k & 1] = r;
        }
        *params = seen[0] | seen[1];
        n += inner[0] > inner[1] ? inner[0] : inner[1];
        if (n > before) *culprit = i;
    }
    return n;
}

void verify_token(Verifier *v, const Value *t)
{
    const Block *home = t->def ? t->def->block : t->block;
    for (const Use *u = t->uses; u; u = u->next) {
        for (const Block *b = u->user->block; b && b != home; b = b->parent ? b->parent->block : NULL)
            BREACH_IF(b->parent && b->parent->op != OP_IF && (op_info[b->parent->op].flags & OPF_KERNEL) == 0,
                u->user, "the token %%%u comes from outside the loop, which must carry it", t->id);
    }
    if (!t->uses || !t->uses->next) return;
    uint64_t params = 0;
    const Instr *culprit = NULL;
    int n = uses_on_path(v, home, t, &params, &culprit);
    BREACH_IF(n > token_width(t, 0), culprit,
        "the token %%%u is the memory state of two operations on one path", t->id);
}

/* Whether `write` comes before `i` in the program, or in an earlier iteration of a loop around both. */
static bool precedes(Instr *write, const Instr *i)
{
    for (const Instr *at = i; at; at = at->block->parent) {
        const Instr *w = ir_within(at->block, write), *before = at->prev;
        if (!w) continue;
        if (w == at && (at->op == OP_FOR || at->op == OP_WHILE) && !ir_over_programs(at)) return true;
        while (before && before != w) before = before->prev;
        if (before) return true;
    }
    return false;
}

/* If no write of the tensor precedes it, a load without a token reads what the program found (first-reads).
 */
static bool write_precedes(const Instr *i, const Value *tensor)
{
    for (const Use *u = tensor->uses; u; u = u->next) {
        MemParts m;
        bool write = u->user->op != OP_LOAD && u->user->op != OP_GATHER && ir_mem_parts(u->user, &m);
        if (write && precedes(u->user, i)) return true;
    }
    return false;
}

void verify_memory(Verifier *v, const Instr *i)
{
    MemParts m;
    if (!ir_mem_parts(i, &m)) return;
    BREACH_IF(m.tensor->def || m.tensor->block != v->func->body, i, "the tensor is not a parameter");
    const Param *p = &v->func->params[m.param];
    bool load = i->op == OP_LOAD || i->op == OP_GATHER;
    BREACH_IF(p->kind == PARAM_IN && !load, i, "%s writes the parameter %s, which is in", op_info[i->op].name,
        p->name);
    BREACH_IF(p->kind == PARAM_IN && m.token, i, "a load from %s, which is in, takes no token", p->name);
    BREACH_IF(p->kind != PARAM_IN && !m.token && write_precedes(i, m.tensor), i,
        "a load from %s, which is written, needs a token", p->name);
}
