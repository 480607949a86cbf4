/* verify_barriers.c: barriers of kernel IR (verify.h). All threads of a program must come to a barrier, so
 * that none may stand under a condition that differs between them. */
#include "ir/verify/verify.h"

/* Values that may differ between threads: results of divergent operations, and what is computed from them,
 * through carried values and the results of divergent branches too. One sweep; true when it found more. */
static bool spread_divergence(Verifier *v, const Block *b);

static bool has_bit(const uint64_t *bits, uint32_t id) { return bits[id / 64] >> (id % 64) & 1; }

static bool add_bit(Verifier *v, const Value *x)
{
    if (has_bit(v->divergent, x->id)) return false;
    v->divergent[x->id / 64] |= 1ull << (x->id % 64);
    return true;
}

static bool spread_to_instr(Verifier *v, const Instr *i)
{
    bool more = false, all = op_info[i->op].flags & OPF_DIVERGENT;
    for (int k = 0; k < i->n_operands; k++) {
        const Value *x = ir_operand(i, k);
        if (!x || x->id >= v->module->next_id || !has_bit(v->divergent, x->id)) continue;
        all = true;
        for (int b = 0; b < i->n_blocks; b++)
            for (int a = 0; a < i->blocks[b]->n_args; a++) more |= add_bit(v, i->blocks[b]->args[a]);
    }
    for (int k = 0; k < i->n_results && all; k++) more |= add_bit(v, &i->results[k]);
    for (int b = 0; b < i->n_blocks; b++) {
        more |= spread_divergence(v, i->blocks[b]);
        const Instr *y = i->blocks[b]->last;
        for (int k = 0; y && k < y->n_operands; k++) {
            if (!ir_operand(y, k) || !has_bit(v->divergent, ir_operand(y, k)->id)) continue;
            for (int r = 0; r < i->n_results; r++) more |= add_bit(v, &i->results[r]);
            for (int c = 0; i->op != OP_IF && c < i->n_blocks; c++)
                for (int a = 0; a < i->blocks[c]->n_args; a++) more |= add_bit(v, i->blocks[c]->args[a]);
        }
    }
    return more;
}

static bool spread_divergence(Verifier *v, const Block *b)
{
    bool more = false;
    for (const Instr *i = b->first; i; i = i->next) more |= spread_to_instr(v, i);
    return more;
}

static bool is_divergent(const Verifier *v, const Value *x) { return x && has_bit(v->divergent, x->id); }

static void check_barrier(Verifier *v, const Instr *i)
{
    for (const Block *b = i->block; b && b->parent; b = b->parent->block) {
        const Instr *p = b->parent;
        bool divergent = false;
        if (p->op == OP_IF) divergent = is_divergent(v, ir_operand(p, 0));
        if (p->op == OP_FOR)
            for (int k = 0; k < 3; k++) divergent |= is_divergent(v, ir_operand(p, k));
        if (p->op == OP_WHILE && p->blocks[0]->last && p->blocks[0]->last->n_operands)
            divergent = is_divergent(v, ir_operand(p->blocks[0]->last, 0));
        BREACH_IF(
            divergent, i, "a barrier under control flow not proven uniform: not all threads may come to it");
    }
}

static void barriers_in(Verifier *v, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (op_info[i->op].flags & OPF_BARRIER) check_barrier(v, i);
        for (int k = 0; k < i->n_blocks; k++) barriers_in(v, i->blocks[k]);
    }
}

void verify_barriers(Verifier *v)
{
    if (!ir_holds_flag(v->func->body, OPF_BARRIER) || !ir_holds_flag(v->func->body, OPF_DIVERGENT)) return;
    v->divergent = arena_array(&v->s->arena, uint64_t, v->module->next_id / 64 + 1);
    while (spread_divergence(v, v->func->body)) {}
    barriers_in(v, v->func->body);
}
