/* flight.c: products in flight. The result of a wgmma is undefined until a wgmma_wait hands it on: until then
 * it may only be added to by another wgmma, and be carried, by loops and out of ifs, where the same holds.
 * What a loop carries is taken for in flight if it is so in any iteration. */
#include "ir/ir.h"

typedef struct Flight {
    Arena *arena;
    bool *flies;
    ValueList todo;
} Flight;

static void fly(Flight *f, Value *v)
{
    if (f->flies[v->id]) return;
    f->flies[v->id] = true;
    vec_push(f->arena, &f->todo, v);
}

static void begin(void *user, Instr *i)
{
    if (i->op == OP_WGMMA) fly(user, ir_result(i));
}

/* Carried on by a terminator. */
static bool carry(Flight *f, const Instr *end, int k)
{
    const Instr *i = end->block->parent;
    if (!i || (end->op == OP_CONDITION && k == 0)) return false;
    if (op_family(i->op) != OPS_CONTROL) return false;
    switch (op_as_control(i->op)) {
    case CONTROL_FOR:
        fly(f, i->blocks[0]->args[k + 1]);
        fly(f, (Value *)&i->results[k]);
        return true;
    case CONTROL_IF: fly(f, (Value *)&i->results[k]); return true;
    case CONTROL_WHILE:
        if (end->op == OP_YIELD) {
            fly(f, i->blocks[0]->args[k]);
            return true;
        }
        fly(f, i->blocks[1]->args[k - 1]);
        fly(f, (Value *)&i->results[k - 1]);
        return true;
    }
    return false;
}

static bool may_use(Flight *f, const Instr *i, int k)
{
    if (i->op == OP_WGMMA_WAIT) return true;
    return i->op == OP_WGMMA ? k == 2 : i->op == OP_YIELD || i->op == OP_CONDITION ? carry(f, i, k) : false;
}

const Instr *ir_flight_fault(Session *s, const Func *func, int *operand)
{
    if (!ir_holds(func->body, OP_WGMMA)) return NULL;
    Flight f = { .arena = &s->arena, .flies = arena_array(&s->arena, bool, func->module->next_id) };
    ir_walk(func->body, begin, &f);
    while (f.todo.len) {
        const Value *v = f.todo.data[--f.todo.len];
        for (const Use *u = v->uses; u; u = u->next) {
            *operand = (int)(u - u->user->operands);
            if (!may_use(&f, u->user, *operand)) return u->user;
        }
    }
    return NULL;
}
