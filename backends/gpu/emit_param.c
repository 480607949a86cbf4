/* emit_param.c: the parameters of a kernel, and the scalars that it makes of them. */
#include "backends/gpu/emit_param.h"

/* Launches pass floats of 8 and 16 bits as their bits. */
static bool comes_as_bits(const Emit *e, const Slot *s)
{
    return s->kind == SLOT_SCALAR &&
           bits_type(e->f->params[s->param].type->dtype) != e->f->params[s->param].type->dtype;
}

/* The prelude's function that makes a number of them. */
static const char *bits_function(Emit *e, DType d)
{ return str(e, "bits_%s_%s", dtype_name(bits_type(d)), dtype_name(d)); }

void emit_param(Emit *e, Text *t, const Slot *s)
{
    const Param *p = &e->f->params[s->param];
    const char *n = slot_name(e, s->kind, s->param, s->index, s->dtype);
    switch (s->kind) {
    case SLOT_DATA:
        text_printf(t, "%s%s *const %s%s", p->kind == PARAM_IN ? "const " : "", pointee(p->type->dtype),
            p->kind == PARAM_IN ? "__restrict__ " : "", n);
        return;
    case SLOT_SCALAR:
        if (comes_as_bits(e, s)) text_printf(t, "const %s %sbits", ctype(bits_type(p->type->dtype)), n);
        else text_printf(t, "const %s %s", ctype(p->type->dtype), n);
        return;
    case SLOT_EXTENT:
    case SLOT_STRIDE:
    case SLOT_GRID: text_printf(t, "const i64 %s", n); return;
    case SLOT_TENSOR_MAP: text_printf(t, "const __grid_constant__ TensorMap %s", n); return;
    case SLOT_CHECK: text_printf(t, "CheckRecord *const %s", n); return;
    case SLOT_SCHEDULER: text_printf(t, "u32 *const %s", n); return;
    case SLOT_WORKSPACE: text_printf(t, "u8 *const %s", n); return;
    case SLOT_PRINT: return;
    }
}

void emit_use_scalars(Emit *e)
{
    for (size_t k = 0; k < e->slots.len; k++)
        if (comes_as_bits(e, &e->slots.data[k]))
            use_always(e, bits_function(e, e->f->params[e->slots.data[k].param].type->dtype));
}

void emit_scalars(Emit *e, Text *t)
{
    for (size_t k = 0; k < e->slots.len; k++) {
        const Slot *s = &e->slots.data[k];
        if (!comes_as_bits(e, s)) continue;
        const char *n = slot_name(e, SLOT_SCALAR, s->param, s->index, s->dtype);
        text_printf(t, "    const float %s = %s(%sbits);\n", n,
            bits_function(e, e->f->params[s->param].type->dtype), n);
    }
}
