/* cost_elements.c: of cost: what element-wise operations take. */
#include "runtime/choice/cost/cost_walk.h"

/* Whether one operation of a lane computes two elements, which lie in a word (emit_half_integers.c). */
static bool in_halves(const CostWalk *w, const Instr *i)
{
    DType d = ir_result(i)->type->dtype, from = i->n_operands ? ir_operand(i, 0)->type->dtype : d;
    if (!w->plan || w->plan->target->kind != TARGET_CUDA) return false;
    return i->op == OP_CAST ? (d == DT_U16 && from == DT_U8) || (d == DT_U8 && from == DT_U16) : d == DT_U16;
}

void cost_elements(CostWalk *w, const Instr *i, double n)
{
    int special = op_info[i->op].special;
    if ((op_info[i->op].flags & OPF_ELEM) && in_halves(w, i)) w->c.alu += n / 2;
    else if (special) {
        w->c.special += n * special;
        w->c.alu += n * (i->op == OP_TANH ? w->model->tanh_alu : special > 1 ? w->model->special_alu : 1);
    } else if (i->op == OP_CAST) {
        bool byte =
            dtype_bytes(ir_result(i)->type->dtype) == 1 || dtype_bytes(ir_operand(i, 0)->type->dtype) == 1;
        w->c.alu += n * (byte ? w->model->cast_byte : w->model->cast);
    } else if (i->op == OP_LOOKUP) w->c.alu += n * w->model->exchange_step;
    else if (op_info[i->op].flags & OPF_ELEM) w->c.alu += n;
}
