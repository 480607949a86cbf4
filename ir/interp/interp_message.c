/* interp_message.c: the interpreter's print and assert. See interp.h. */
#include "ir/interp/interp_impl.h"

static void print_scalar(Text *out, DType d, Scalar v)
{
    if (dtype_is_float(d)) text_printf(out, "%.9g", v.f);
    else if (d == DT_U64) text_printf(out, "%llu", (unsigned long long)v.i);
    else text_printf(out, "%lld", (long long)v.i);
}

static void run_print(Interp *in, const Instr *i)
{
    Text *out = in->opt->prints;
    const Attr *m = ir_attr(i, ATTR_MESSAGE);
    if (!out) return;
    text_puts(out, m ? m->s : "");
    for (int k = 0; k < i->n_operands; k++) {
        const Value *v = ir_operand(i, k);
        if (!type_is_value(v->type)) continue;
        int64_t n = type_elements(v->type);
        interp_count(in, i, n);
        text_puts(out, k || (m && m->s[0]) ? " " : "");
        if (v->type->kind == TYPE_TILE) text_putc(out, '[');
        for (int64_t e = 0; e < n; e++) {
            if (e) text_puts(out, ", ");
            print_scalar(out, v->type->dtype, interp_value(in, v)[e]);
        }
        if (v->type->kind == TYPE_TILE) text_putc(out, ']');
    }
    text_putc(out, '\n');
    if (!in->opt->on_print) return;
    in->opt->on_print(in->opt->on_print_user, out->data, out->len);
    out->len = 0;
}

static void run_assert(Interp *in, const Instr *i)
{
    const Value *v = ir_operand(i, 0);
    const Attr *m = ir_attr(i, ATTR_MESSAGE);
    if (!in->opt->check) return;
    for (int64_t k = 0; k < type_elements(v->type); k++)
        if (!interp_value(in, v)[k].i)
            interp_stop(in, i->loc, "assertion failed in program %lld of @%s%s%s", (long long)in->program,
                in->kernel->name, m ? ": " : "", m ? m->s : "");
}

void interp_message(Interp *in, const Instr *i)
{
    if (i->op == OP_PRINT) run_print(in, i);
    else run_assert(in, i);
}
