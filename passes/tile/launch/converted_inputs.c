/* converted_inputs.c: gives an input of which a kernel takes nothing but a conversion the type of the
 * results.
 *
 *   in %A: tensor<f32, 2>                                  in %A: tensor<bf16, 2>
 *   %x = load %A[..] : f32[64, 128]             ->         %y = load %A[..] : bf16[64, 128]
 *   %y = cast %x : bf16[64, 128]
 *
 * A product whose operands are converted tiles has to bring the wide type to every program and to convert it
 * there, once for each program that reads an element. A launch may convert the whole input once instead
 * (runtime/launch/pitch.c), and then run this form of the kernel on the result. That is a fact of the launch,
 * so that the pass specialize does it, before all that looks at types.
 *
 * Requires: every access to the input is a load or a gather without a token, of which the function takes
 * casts to one type of at most 16 bits alone, directly or behind permutes and reshapes. Keeps: everything, as
 * a cast of an element does not depend on its place; the pad of a load is converted too. Does not handle:
 * scalars, and tensors that are read in two types. */
#include "passes/tile/launch/converted_inputs.h"
#include "passes/tile/launch/computed_inputs.h"
#include "passes/pass.h"

static bool moves_elements(Op op) { return op == OP_PERMUTE || op == OP_RESHAPE; }

/* Whether all that is made of the tile are casts to *to, which the first one decides. */
static bool only_converted(const Value *v, DType *to)
{
    if (!v->uses || v->type->kind != TYPE_TILE) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        if (moves_elements(i->op) && only_converted(ir_result(i), to)) continue;
        if (i->op != OP_CAST) return false;
        DType d = ir_result(i)->type->dtype;
        if (*to != DT_COUNT && *to != d) return false;
        *to = d;
    }
    return true;
}

DType input_converted_to(const Func *f, int param)
{
    DType to = DT_COUNT;
    const Param *p = &f->params[param];
    if (p->kind != PARAM_IN || p->type->kind != TYPE_TENSOR) return DT_COUNT;
    const Value *tensor = f->body->args[param];
    for (const Use *u = tensor->uses; u; u = u->next) {
        MemParts m;
        const Instr *i = u->user;
        if (!is_constant_read(i) || !ir_mem_parts(i, &m) || m.tensor != tensor || m.token ||
            !only_converted(m.result, &to))
            return DT_COUNT;
    }
    bool operand = to != DT_COUNT && to != DT_BOOL && dtype_bytes(to) <= 2;
    return operand && to != p->type->dtype ? to : DT_COUNT;
}

/* Gives the tile, and what moves its elements, the type of the casts, which go away. */
static void convert(Session *s, Value *v, DType to)
{
    v->type = type_with_dtype(s, v->type, to);
    for (Use *u = v->uses, *next; u; u = next) {
        Instr *i = u->user;
        next = u->next;
        if (moves_elements(i->op)) {
            convert(s, ir_result(i), to);
            continue;
        }
        ir_replace(ir_result(i), v);
        ir_erase(i);
    }
}

static void reload(Session *s, Instr *i, DType to)
{
    MemParts m;
    ir_mem_parts(i, &m);
    convert(s, m.result, to);
    for (int k = 0; m.pad && k < i->n_operands; k++) {
        if (ir_operand(i, k) != m.pad) continue;
        Builder b = ir_before(i);
        ir_set_operand(i, k, ir_emit(&b, OP_CAST, &m.pad, 1, NO_ATTRS, type_with_dtype(s, m.pad->type, to)));
    }
}

static void convert_input(Session *s, Func *f, int param, DType to)
{
    InstrList reads = { 0 };
    for (const Use *u = f->body->args[param]->uses; u; u = u->next) vec_push(&s->arena, &reads, u->user);
    for (size_t k = 0; k < reads.len; k++) reload(s, reads.data[k], to);
    ir_set_element_type(s, f, param, to);
    Param *p = &f->params[param];
    if (p->align < dtype_bytes(to)) p->align = dtype_bytes(to);
}

int64_t convert_inputs(Session *s, Func *f, const DType *to)
{
    int64_t made = 0;
    for (int k = 0; k < f->n_params; k++) {
        if (to[k] == DT_COUNT) continue;
        /* Where whole rows can be computed, launches convert nothing alone (runtime/launch/converted.c). */
        bool computed = input_converted_to(f, k) == DT_COUNT || input_computed(s, f, k).columns > 0;
        if (computed && compute_input(s, f, k, to[k])) {
            made++;
            continue;
        }
        if (input_converted_to(f, k) != to[k] && f->body->args[k]->uses) {
            diag_error(s, f->params[k].loc, "`%s` is not converted to %s by all that reads it",
                f->params[k].name, dtype_name(to[k]));
            return made;
        }
        convert_input(s, f, k, to[k]);
        made++;
    }
    return made;
}
