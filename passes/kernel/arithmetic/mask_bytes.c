/* mask-bytes: accesses tensors of bools as tensors of bytes.
 *
 *   in %M: tensor<bool, 2>                                 in %M: tensor<u8, 2>
 *   %m = load %M[..] : bool[64, 128]            ->         %b = load %M[..] : u8[64, 128]
 *                                                          %m = cast %b : bool[64, 128]
 *
 * A bool has a register of its own, since what tests it is a predicate. Bytes lie four in a register, so that
 * they come from memory in vectors, by asynchronous copies and by TMA, and each is tested where it lies. A
 * store converts in the same way. Only this function's parameter changes: the launch has checked the tensor's
 * type before.
 *
 * Requires: every access to the tensor is a load, a store, a gather or a scatter. Keeps: everything; a byte
 * that is neither 0 nor 1 still reads as true. */
#include "passes/kernel/kernel.h"

static bool only_moved(const Value *tensor)
{
    for (const Use *u = tensor->uses; u; u = u->next) {
        Op op = u->user->op;
        if (op != OP_LOAD && op != OP_STORE && op != OP_GATHER && op != OP_SCATTER) return false;
    }
    return tensor->uses;
}

static InstrList users(Arena *a, const Value *v)
{
    InstrList l = { 0 };
    for (const Use *u = v->uses; u; u = u->next) vec_push(a, &l, u->user);
    return l;
}

/* The bools that `i` loads are tests of the bytes that it loads now. */
static void load_bytes(Session *s, Instr *i, Value *loaded)
{
    Builder b = ir_after(i);
    InstrList all = users(&s->arena, loaded);
    loaded->type = type_with_dtype(s, loaded->type, DT_U8);
    Value *mask = ir_cast(&b, loaded, DT_BOOL);
    for (size_t n = 0; n < all.len; n++)
        for (int k = 0; k < all.data[n]->n_operands; k++)
            if (ir_operand(all.data[n], k) == loaded) ir_set_operand(all.data[n], k, mask);
}

static void give_bytes(Instr *i, int operand)
{
    Builder b = ir_before(i);
    ir_set_operand(i, operand, ir_cast(&b, ir_operand(i, operand), DT_U8));
}

/* One value may be what is stored, the mask and the pad, so that operands are told by their places. */
static void access_bytes(Session *s, Instr *i)
{
    MemParts m;
    ir_mem_parts(i, &m);
    int at = 1 + m.rank; /* behind the tensor and the indices */
    if (m.values[0]) give_bytes(i, at++);
    if (m.mask) at++;
    if (m.pad) give_bytes(i, at);
    if (m.result) load_bytes(s, i, m.result);
}

bool kernel_pass_mask_bytes(KernelContext *c)
{
    bool changed = false;
    for (int k = 0; k < c->f->n_params; k++) {
        const Type *t = c->f->params[k].type;
        const Value *tensor = c->f->body->args[k];
        if (t->kind != TYPE_TENSOR || t->dtype != DT_BOOL || !only_moved(tensor)) continue;
        InstrList accesses = users(&c->s->arena, tensor);
        for (size_t a = 0; a < accesses.len; a++) access_bytes(c->s, accesses.data[a]);
        ir_set_element_type(c->s, c->f, k, DT_U8);
        changed = true;
    }
    return changed;
}
