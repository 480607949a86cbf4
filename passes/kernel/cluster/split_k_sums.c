/* split_k_sums.c: of split-k: finds the loops of a kernel that only add to what they carry, so that each
 * CTA can do a part of their steps, and says which of their results continue in another such loop as they
 * are, and which must be joined. */
#include "passes/kernel/cluster/split_k.h"

const char *const split_no_parts = "the tile has no axis that divides into so many parts";

bool split_refuse(Division *c, Loc loc, const char *why)
{
    if (!c->why || c->why == split_no_parts) {
        c->why = why;
        c->loc = loc;
    }
    return false;
}

enum { NO_SUM = -1 };

/* How the loop computes the next carried value k: RMW_ADD, RMW_MAX, RMW_MIN, or NO_SUM. */
static int kind_of(const Instr *loop, int k, int depth)
{
    const Block *body = loop->blocks[0];
    const Value *v = body->args[k + 1];
    int kind = NO_SUM;
    for (int steps = 0; steps < 256 && depth < 8; steps++) {
        if (!v->uses || v->uses->next) return NO_SUM;
        const Use *u = v->uses;
        const Instr *i = u->user;
        const int at = (int)(u - i->operands);
        int own = NO_SUM;
        if (i == ir_terminator(body)) return at == k ? kind : NO_SUM;
        if (i->block != body) return NO_SUM;
        if (((i->op == OP_MMA || i->op == OP_MMA_SYNC) && at == 2) || i->op == OP_ADD ||
            (i->op == OP_SUB && at == 0) || (i->op == OP_FMA && at == 2))
            own = RMW_ADD;
        else if (i->op == OP_MAX) own = RMW_MAX;
        else if (i->op == OP_MIN) own = RMW_MIN;
        else if (i->op == OP_FOR && at >= 3) own = kind_of(i, at - 3, depth + 1);
        if (own == NO_SUM || (kind != NO_SUM && kind != own)) return NO_SUM;
        kind = own;
        v = i->op == OP_FOR ? &i->results[at - 3] : ir_result(i);
    }
    return NO_SUM;
}

const Online *split_online_of(const Division *c, const Instr *loop)
{
    for (size_t k = 0; k < c->online.len; k++)
        if (c->online.data[k].loop == loop) return &c->online.data[k];
    return NULL;
}

int split_sum_kind(const Division *c, const Instr *loop, int k)
{
    const Online *o = split_online_of(c, loop);
    return o && k == o->max ? RMW_MAX : o && o->under[k] ? RMW_ADD : kind_of(loop, k, 0);
}

static void find_online(Division *c, Instr *loop)
{
    Online o = { .loop = loop, .under = arena_array(&c->s->arena, bool, (size_t)loop->n_results) };
    for (o.max = 0; o.max < loop->n_results; o.max++) {
        o.scale = kernel_online(c->s, loop, o.max, o.under, &o.guarded);
        if (!o.scale) continue;
        if (!o.scale->def || o.scale->def->block == c->f->body) vec_push(&c->s->arena, &c->online, o);
        return;
    }
}

static bool wide_enough(const Type *t)
{ return type_is_value(t) && t->dtype != DT_BOOL && dtype_bits(t->dtype) >= 32; }

/* Whether the loop computes nothing except sums. */
static bool only_sums(Division *c, Instr *loop)
{
    if (!loop->n_results) return false;
    find_online(c, loop);
    for (int k = 0; k < loop->n_results; k++)
        if (!wide_enough(loop->results[k].type) || split_sum_kind(c, loop, k) == NO_SUM)
            return split_refuse(
                c, loop->loc, "the loop carries more than sums, maxima or minima of 32 or 64 bits");
    return !ir_has_effects(loop) || split_refuse(c, loop->loc, "the loop has other effects");
}

bool split_is_cut(const Division *c, const Instr *i)
{
    for (size_t k = 0; k < c->loops.len; k++)
        if (c->loops.data[k] == i) return true;
    return false;
}

/* The initial value of a carried value. */
bool split_starts(const Division *c, const Use *u)
{ return u->user->op == OP_FOR && split_is_cut(c, u->user) && u - u->user->operands >= 3; }

/* Whether a sum that continues in another such loop needs no combination in between: both must be sums of one
 * kind, under the same maximum if under any. */
bool split_goes_on(const Division *c, const Use *u)
{
    const Value *v = u->value;
    if (!split_starts(c, u) || !v->def || !split_is_cut(c, v->def)) return false;
    const Online *x = split_online_of(c, v->def), *y = split_online_of(c, u->user);
    int k = v->index, j = (int)(u - u->user->operands) - 3;
    bool under = x && x->under[k];
    if (under != (y && y->under[j]) || split_sum_kind(c, v->def, k) != split_sum_kind(c, u->user, j))
        return false;
    return !under || ir_operand(u->user, 3 + y->max) == &v->def->results[x->max];
}

/* Whether it accesses the tensor of this parameter. */
static bool accesses(const void *param, const Instr *i)
{
    MemParts m;
    return ir_mem_parts(i, &m) && m.param == *(const int *)param;
}

/* Whether every scatter comes behind the loops that are divided, and only these access its tensor. */
static bool scatters_last(Division *c)
{
    bool scatters = false;
    for (Instr *i = c->f->body->first; i; i = i->next) {
        MemParts m;
        if (scatters && split_is_cut(c, i)) return split_refuse(c, i->loc, "a loop follows a scatter");
        if (i->op != OP_SCATTER) continue;
        scatters = true;
        for (Instr *o = c->f->body->first; o && ir_mem_parts(i, &m); o = o->next)
            if (o != i && !split_is_cut(c, o) && ir_any(o, accesses, &m.param))
                return split_refuse(c, o->loc, "a tensor that it scatters to is accessed elsewhere too");
    }
    return true;
}

bool split_find_sums(Division *c)
{
    for (Instr *i = c->f->body->first; i; i = i->next) {
        if (i->op == OP_FOR && only_sums(c, i)) {
            vec_push(&c->s->arena, &c->loops, i);
            continue;
        }
        if (i->op != OP_STORE && i->op != OP_SCATTER && ir_has_effects(i))
            return split_refuse(c, i->loc, "it has other effects than stores of what was summed");
    }
    if (!scatters_last(c)) return false;
    for (size_t l = 0; l < c->loops.len; l++)
        for (int k = 0; k < c->loops.data[l]->n_results; k++) {
            bool ends = false;
            for (const Use *u = c->loops.data[l]->results[k].uses; u; u = u->next)
                ends |= !split_goes_on(c, u);
            if (ends)
                vec_push(&c->s->arena, &c->sums,
                    ((Sum){ c->loops.data[l], k, split_sum_kind(c, c->loops.data[l], k) }));
        }
    return c->sums.len || split_refuse(c, c->f->loc, "it has no loop that only adds to what it carries");
}
