/* retype: gives a tensor that is read as bits the type of its values.
 *
 *   in %A: tensor<u8, 2>                                   in %A: tensor<f8e4m3, 2>
 *   %x = load %A[..] : u8[64, 128]              ->         %y = load %A[..] : f8e4m3[64, 128]
 *   %y = bitcast %x : f8e4m3[64, 128]
 *
 * Products then have loaded operands, which go through shared memory without registers between. Only this
 * function's parameter changes: the launch has checked the tensor's type before.
 *
 * Requires: every access to the tensor is a load or a gather of a tile that the function only reinterprets,
 * each time as the same type, and no access writes it. Keeps: everything. Does not handle: kernels without
 * products; tensors that are read both as bits and as values. */
#include "passes/kernel/kernel.h"

/* Whether all uses of the tile are bitcasts to *to, which the first one decides. */
static bool only_reinterpreted(const Value *v, DType *to, bool *known)
{
    if (!v->uses || v->type->kind != TYPE_TILE) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        if (u->user->op != OP_BITCAST) return false;
        DType d = ir_result(u->user)->type->dtype;
        if (*known && *to != d) return false;
        *to = d;
        *known = true;
    }
    return true;
}

/* The type as which the function reads the tensor; false: not one type, or it does more than read it. */
static bool read_as(const Value *tensor, DType *to)
{
    bool known = false;
    for (const Use *u = tensor->uses; u; u = u->next) {
        MemParts m;
        const Instr *i = u->user;
        if ((i->op != OP_LOAD && i->op != OP_GATHER) || !ir_mem_parts(i, &m) || m.tensor != tensor ||
            m.token || !only_reinterpreted(m.result, to, &known))
            return false;
    }
    return known;
}

static void reload(Session *s, Instr *i, DType to)
{
    MemParts m;
    ir_mem_parts(i, &m);
    for (Use *u = m.result->uses, *next; u; u = next) {
        Instr *cast = u->user;
        next = u->next;
        ir_replace(ir_result(cast), m.result);
        ir_erase(cast);
    }
    m.result->type = type_with_dtype(s, m.result->type, to);
    for (int k = 0; m.pad && k < i->n_operands; k++) {
        if (ir_operand(i, k) != m.pad) continue;
        Builder b = ir_before(i);
        ir_set_operand(i, k, ir_emit(&b, OP_BITCAST, &m.pad, 1, NO_ATTRS, type_scalar(s, to)));
    }
}

static void retype(Session *s, Func *f, int param, DType to)
{
    InstrList accesses = { 0 };
    for (const Use *u = f->body->args[param]->uses; u; u = u->next) vec_push(&s->arena, &accesses, u->user);
    for (size_t k = 0; k < accesses.len; k++) reload(s, accesses.data[k], to);
    ir_set_element_type(s, f, param, to);
}

bool kernel_pass_retype(KernelContext *c)
{
    bool changed = false;
    DType to = DT_U8;
    if (!ir_holds(c->f->body, OP_MMA)) return false;
    for (int k = 0; k < c->f->n_params; k++) {
        if (c->f->params[k].type->kind != TYPE_TENSOR || !read_as(c->f->body->args[k], &to)) continue;
        retype(c->s, c->f, k, to);
        changed = true;
    }
    return changed;
}
