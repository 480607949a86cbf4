/* split_k_order.c: the order of memory accesses under split-k (split_k.c). CTAs that finish different slices
 * have no order among them, so that what one of them stores no other may touch. */
#include "passes/kernel/cluster/split_k.h"

/* Whether each slice accesses the same elements, or no two slices have an element in common. */
static bool agree(const Instr *x, const MemParts *a, const Instr *y, const MemParts *b)
{
    const Attr *ex = ir_attr(x, ATTR_EXTENTS), *ey = ir_attr(y, ATTR_EXTENTS);
    bool same = ex && ey && ir_same_window(x, y);
    for (int k = 0; k < a->rank && ex && ey; k++) {
        int64_t p, q, n = ex->v[k] < 1 ? 1 : ex->v[k], m = ey->v[k] < 1 ? 1 : ey->v[k];
        bool known = ir_is_const(a->idx[k], &p) && ir_is_const(b->idx[k], &q);
        if (known && !ir_attr(x, ATTR_STEPS) && !ir_attr(y, ATTR_STEPS) && (p + n <= q || q + m <= p))
            return true;
        same &= a->idx[k] == b->idx[k] || (known && p == q);
    }
    return same;
}

static bool is_touched(const Division *c, const Instr *i)
{
    for (size_t k = 0; k < c->touched.len; k++)
        if (c->touched.data[k] == i) return true;
    return false;
}

static bool stores_to(const void *param, const Instr *i)
{ return i->op == OP_STORE && ir_operand(i, 0)->index == *(const int *)param; }

/* Whether the instruction accesses a tensor of which the program stores windows. Loads that no store of their
 * block follows have lost their tokens. Of scatters the program says where they are. */
static bool of_stored(const Func *f, const Instr *i, MemParts *m)
{ return ir_mem_parts(i, m) && (m->token || ir_any_in(f->body, stores_to, &m->param)); }

static void find_stored(void *user, Instr *i)
{
    MemParts m;
    *(bool *)user |= of_stored(i->block->func, i, &m);
}

bool split_ordered(Division *c)
{
    MemParts a, b;
    for (Instr *i = c->f->body->first; i; i = i->next) {
        bool inside = false;
        for (int k = 0; k < i->n_blocks; k++) ir_walk(i->blocks[k], find_stored, &inside);
        if (inside)
            return split_refuse(
                c, i->loc, "a tensor that it stores to is read under a condition or in a loop");
        if (!of_stored(c->f, i, &a)) continue;
        /* The sums start from this value, so it is read before any CTA has received all parts, which are sent
         * behind a fence. */
        bool before = i->op == OP_LOAD;
        for (const Use *u = before ? ir_result(i)->uses : NULL; u; u = u->next) before &= split_starts(c, u);
        c->starts_read |= before;
        for (Instr *o = c->f->body->first; o && !before; o = o->next) {
            if (o->op != OP_STORE || o == i || !ir_mem_parts(o, &b) || b.param != a.param) continue;
            if (!agree(i, &a, o, &b))
                return split_refuse(c, i->loc, "a tensor that it stores to is accessed elsewhere too");
            for (const Use *u = i->op == OP_LOAD ? ir_result(i)->uses : NULL; u; u = u->next)
                if (!is_touched(c, u->user) && !split_starts(c, u))
                    return split_refuse(c, i->loc, "a tensor that it stores to is read whole");
        }
    }
    return true;
}

/* Removes a load of the whole tile that has no use any more from its chain of tokens, so that it does not
 * read elements that another CTA stores. What was computed of the whole tile goes first. */
void split_leave_unread(Instr *i)
{
    MemParts m;
    bool dead = i && i->block && !i->results[0].uses;
    if (dead && i->op == OP_LOAD && ir_mem_parts(i, &m) && m.token) ir_replace(m.token_out, m.token);
    else if (dead && (op_info[i->op].flags & OPF_PURE) && !i->n_blocks) ir_erase(i);
}
