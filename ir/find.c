/* find.c: looking through blocks: which instructions are there, with all that they hold, and which values
 * they use. */
#include "ir/ir.h"
#include <string.h>

void ir_walk(Block *b, void (*fn)(void *, Instr *), void *user)
{
    for (Instr *i = b->first, *next; i; i = next) {
        next = i->next;
        int n = i->n_blocks;
        Block **blocks = i->blocks;
        fn(user, i);
        if (i->block != b) continue; /* erased or moved */
        for (int k = 0; k < n; k++) ir_walk(blocks[k], fn, user);
    }
}

bool ir_any(const Instr *i, InstrTest *test, const void *user)
{
    if (test(user, i)) return true;
    for (int k = 0; k < i->n_blocks; k++)
        if (ir_any_in(i->blocks[k], test, user)) return true;
    return false;
}

bool ir_any_in(const Block *b, InstrTest *test, const void *user)
{
    for (const Instr *i = b->first; i; i = i->next)
        if (ir_any(i, test, user)) return true;
    return false;
}

static bool is_op(const void *op, const Instr *i) { return i->op == *(const Op *)op; }
static bool has_flag(const void *flag, const Instr *i)
{ return (op_info[i->op].flags & *(const unsigned *)flag) != 0; }

bool ir_holds(const Block *b, Op op) { return ir_any_in(b, is_op, &op); }
bool ir_is_or_holds(const Instr *i, Op op) { return ir_any(i, is_op, &op); }
bool ir_holds_flag(const Block *b, unsigned flag) { return ir_any_in(b, has_flag, &flag); }

static bool with_flag(const Instr *i, unsigned flag) { return ir_any(i, has_flag, &flag); }
bool ir_has_effects(const Instr *i) { return with_flag(i, OPF_WRITE); }

void ir_sweep(Block *b)
{
    for (Instr *i = b->last, *prev; i; i = prev) {
        prev = i->prev;
        if (!(op_info[i->op].flags & OPF_TERM) && !ir_is_used(i) && !ir_has_effects(i)) ir_erase(i);
    }
}

static bool carries_for_nobody(const Instr *i, int k)
{
    if (i->results[k].uses || i->results[k].type->kind == TYPE_TOKEN) return false;
    return i->op == OP_IF || (i->op == OP_FOR && !i->blocks[0]->args[k + 1]->uses);
}

/* And what was computed for it alone. */
static void erase_unused(Value *v)
{
    Instr *i = v->def;
    if (!i || !i->block || v->uses || i->n_results != 1 || i->n_blocks || !(op_info[i->op].flags & OPF_PURE))
        return;
    Value *operands[IR_MAX_RESULTS];
    int n = i->n_operands < IR_MAX_RESULTS ? i->n_operands : 0;
    for (int k = 0; k < n; k++) operands[k] = ir_operand(i, k);
    ir_erase(i);
    for (int k = 0; k < n; k++) erase_unused(operands[k]);
}

static void drop_result(Instr *i, int k)
{
    Value *was[3];
    int n = 0;
    if (i->op == OP_FOR) was[n++] = ir_operand(i, k + 3);
    for (int b = 0; b < i->n_blocks; b++) was[n++] = ir_operand(ir_terminator(i->blocks[b]), k);
    ir_drop_carried(i, k);
    for (int b = 0; b < n; b++) erase_unused(was[b]);
}

void ir_drop_unused(Block *b)
{
    for (Instr *i = b->last; i; i = i->prev) {
        for (int k = i->n_results; k-- > 0;)
            if (carries_for_nobody(i, k)) drop_result(i, k);
        for (int k = 0; k < i->n_blocks; k++) ir_drop_unused(i->blocks[k]);
    }
}

bool ir_reads_memory(const Instr *i) { return with_flag(i, OPF_READ); }

typedef struct Collect {
    Arena *arena;
    Op op;
    InstrList *out;
} Collect;

static bool collect(const void *user, const Instr *i)
{
    const Collect *c = user;
    if (i->op == c->op) vec_push(c->arena, c->out, (Instr *)i);
    return false;
}

void ir_collect(Arena *a, const Block *b, Op op, InstrList *out)
{ ir_any_in(b, collect, &(Collect){ a, op, out }); }

bool ir_all_operands(const Instr *i, ValueTest *test, void *user)
{
    for (int k = 0; k < i->n_operands; k++)
        if (!test(user, ir_operand(i, k))) return false;
    for (int k = 0; k < i->n_blocks; k++)
        for (const Instr *x = i->blocks[k]->first; x; x = x->next)
            if (!ir_all_operands(x, test, user)) return false;
    return true;
}

Instr *ir_within(const Block *b, Instr *i)
{
    while (i && i->block != b) i = i->block->parent;
    return i;
}

Instr *ir_last_use_in(const Block *b, const Value *v)
{
    Instr *last = NULL;
    for (Instr *i = b->first; i; i = i->next)
        for (const Use *u = v->uses; u; u = u->next)
            if (ir_within(b, u->user) == i) last = i;
    return last;
}

bool ir_counted(const Instr *loop, Counted *c)
{
    if (loop->op != OP_WHILE || !loop->blocks[0]->last || !loop->blocks[1]->last ||
        loop->blocks[0]->last->n_operands <= loop->n_results)
        return false;
    const Instr *end = loop->blocks[0]->last, *below = ir_operand(end, 0)->def;
    if (!below || below->op != OP_LT) return false;
    const Value *next = ir_operand(below, 0);
    for (int k = 0; k < loop->n_results; k++) {
        if (!next->def || next->def->op != OP_ADD || ir_operand(next->def, 0) != loop->blocks[0]->args[k] ||
            ir_operand(end, k + 1) != next)
            continue;
        *c = (Counted){ k, ir_operand(loop, k), ir_operand(below, 1), ir_operand(next->def, 1) };
        return ir_operand(loop->blocks[1]->last, k) == loop->blocks[1]->args[k] &&
               ir_defined_outside(c->hi, loop->blocks[0]) && ir_defined_outside(c->step, loop->blocks[0]);
    }
    return false;
}

/* The bound that `test` puts on v: v < bound is one of the things that must hold. */
static Value *bound_in(const Value *test, const Value *v, int depth)
{
    const Instr *i = test->def;
    if (!i || depth > 8) return NULL;
    if (i->op == OP_LT) return ir_operand(i, 0) == v ? ir_operand(i, 1) : NULL;
    if (i->op != OP_AND) return NULL;
    Value *first = bound_in(ir_operand(i, 0), v, depth + 1);
    return first ? first : bound_in(ir_operand(i, 1), v, depth + 1);
}

bool ir_tested(const Instr *loop, int at, Counted *c)
{
    if (loop->op != OP_WHILE || !loop->blocks[0]->last || !loop->blocks[1]->last || at >= loop->n_results)
        return false;
    const Block *test = loop->blocks[0], *body = loop->blocks[1];
    if (test->last->n_operands <= at + 1 || body->last->n_operands <= at ||
        ir_operand(test->last, at + 1) != test->args[at])
        return false;
    Value *hi = bound_in(ir_operand(test->last, 0), test->args[at], 0), *next = ir_operand(body->last, at);
    if (!hi || !next->def || next->def->op != OP_ADD || ir_operand(next->def, 0) != body->args[at])
        return false;
    *c = (Counted){ at, ir_operand(loop, at), hi, ir_operand(next->def, 1) };
    return ir_defined_outside(hi, test) && ir_defined_outside(c->step, body);
}

bool ir_is_rare(const Instr *i) { return i->op == OP_IF && ir_attr_int(i, ATTR_RARE, 0); }

bool ir_loop_is(const Instr *i, int kind) { return ir_attr_int(i, ATTR_LOOP, LOOP_STEPS) == kind; }

Instr *ir_loop_around(const Instr *i)
{
    Instr *p = i->block->parent;
    while (p && p->op != OP_FOR && p->op != OP_WHILE) p = p->block->parent;
    return p && !ir_over_programs(p) ? p : NULL;
}

bool ir_over_programs(const Instr *i) { return ir_loop_is(i, LOOP_STATIC) || ir_loop_is(i, LOOP_DYNAMIC); }

/* --- exponents --------------------------------------------------------------------------------------- */

static bool leads_to_exp(const Value *v, int *left)
{
    for (const Use *u = v->uses; u && --*left > 0; u = u->next) {
        const Instr *i = u->user;
        const Value *to = NULL;
        if (i->op == OP_EXP || i->op == OP_EXP2) return true;
        if (i->op == OP_MUL || i->op == OP_FMA || i->op == OP_NEG || i->op == OP_WHERE ||
            op_has(i->op, OPF_WHOLE))
            to = &i->results[0];
        else if (i->op == OP_YIELD && i->block->parent && i->block->parent->op == OP_IF)
            to = &i->block->parent->results[u - i->operands];
        if (to && leads_to_exp(to, left)) return true;
    }
    return false;
}

bool ir_is_exponent(const Value *v)
{
    int left = 32;
    return leads_to_exp(v, &left);
}

static bool same_of_launch(const Func *f, const Value *a, const Value *b, int depth)
{
    int64_t x, y;
    const Instr *i = a->def, *j = b->def;
    if (a == b) return true;
    if (a->type != b->type || !i != !j || depth == 0) return false;
    if (!i)
        return !a->block->parent && !b->block->parent &&
               a->index - (a->block == f->remap) == b->index - (b->block == f->remap);
    if (i->op != j->op || i->n_operands != j->n_operands) return false;
    if (i->op == OP_CONST) return ir_is_const(a, &x) && ir_is_const(b, &y) && x == y;
    if (i->op == OP_DIM) return ir_attr_int(i, ATTR_DIM, 0) == ir_attr_int(j, ATTR_DIM, 0);
    if (i->n_results != 1 || !i->n_operands || op_family(i->op) == OPS_RANDOM ||
        !(op_info[i->op].flags & OPF_ELEM))
        return false;
    for (int n = 0; n < i->n_operands; n++)
        if (!same_of_launch(f, ir_operand(i, n), ir_operand(j, n), depth - 1)) return false;
    return true;
}

bool ir_same_of_launch(const Func *f, const Value *a, const Value *b)
{
    enum { DEPTH = 8 };
    return same_of_launch(f, a, b, DEPTH);
}

static bool same_attr(const Attr *a, const Attr *b)
{
    switch (attr_info[a->key].kind) {
    case ATTR_KIND_INT:
    case ATTR_KIND_ENUM: return a->i == b->i;
    case ATTR_KIND_FLOAT: return !memcmp(&a->f, &b->f, sizeof a->f);
    case ATTR_KIND_STR: return a->s == b->s || !strcmp(a->s, b->s);
    case ATTR_KIND_INTS: return a->n == b->n && !memcmp(a->v, b->v, (size_t)a->n * sizeof *a->v);
    }
    return false;
}

bool ir_same_attrs(const Instr *a, const Instr *b)
{
    if (a->n_attrs != b->n_attrs) return false;
    for (int k = 0; k < a->n_attrs; k++) {
        const Attr *other = ir_attr(b, a->attrs[k].key);
        if (!other || !same_attr(&a->attrs[k], other)) return false;
    }
    return true;
}

/* left: values that may still be compared. */
static bool same_value(const Value *a, const Value *b, int *left)
{
    const Instr *x = a->def, *y = b->def;
    MemParts m;
    if (a == b) return true;
    if (!x || !y || --*left < 0 || x->op != y->op || a->type != b->type || a->index != b->index ||
        x->n_operands != y->n_operands || x->n_blocks || !ir_same_attrs(x, y))
        return false;
    const Func *f = x->block->func;
    const bool input = (x->op == OP_LOAD || x->op == OP_GATHER) && ir_mem_parts(x, &m) &&
                       f->params[m.param].kind == PARAM_IN;
    if (!input && !(op_info[x->op].flags & OPF_PURE)) return false;
    for (int k = 0; k < x->n_operands; k++)
        if (!same_value(ir_operand(x, k), ir_operand(y, k), left)) return false;
    return true;
}

bool ir_same_value(const Value *a, const Value *b)
{
    int left = 256;
    return same_value(a, b, &left);
}

Value *ir_unrepeated(Value *v)
{
    while (v->def && v->def->op == OP_BROADCAST && ir_operand(v->def, 0)->type->kind == TYPE_TILE &&
           ir_operand(v->def, 0)->type->rank == v->type->rank)
        v = ir_operand(v->def, 0);
    return v;
}

Value *ir_repeated(const Value *v)
{
    while (v->def && (v->def->op == OP_SPLAT || v->def->op == OP_BROADCAST)) v = ir_operand(v->def, 0);
    return (Value *)v;
}

bool ir_comes_before(const Instr *x, const Instr *y)
{
    while (x->block != y->block) x = x->block->parent;
    for (; x && x != y; x = x->next) {}
    return x != NULL;
}
