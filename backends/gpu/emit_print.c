/* emit_print.c: `assert`, which reports its line and the program, and `print`. */
#include "backends/gpu/emit.h"

void emit_assert(Emit *e, Instr *i)
{
    int ln, col;
    diag_position(e->s, i->loc, &ln, &col);
    const char *rec = slot_name(e, SLOT_CHECK, 0, 0, DT_U64), *fn = use(e, "check_failed"), *id = cta_id(e);
    Value *c = ir_operand(i, 0);
    if (c->type->kind == TYPE_SCALAR) {
        line(e, "if (!%s) %s(%s, %d, %s);", name_of(e, c), fn, rec, ln, id);
        return;
    }
    const Layout *l = layout_of(e, c);
    begin_unrolled(e, "i", (int)layout_regs(l));
    const char *in = "true";
    for (int a = 0; a < l->rank; a++)
        if (l->cover[a] != l->tile[a]) in = str(e, "%s && %s < %d", in, coord_text(e, l, a, "i"), l->tile[a]);
    line(e, "if (%s && !%s) %s(%s, %d, %s);", in, element(e, c, l, index_variable(e, "i")), fn, rec, ln, id);
    end_block(e);
}

void emit_print(Emit *e, Instr *i)
{
    const Attr *m = ir_attr(i, ATTR_MESSAGE);
    Text t;
    if (is_hip(e)) use(e, "printf");
    text_init(&t, &e->s->arena);
    for (const char *message = m ? m->s : ""; *message; message++) {
        if (*message == '"' || *message == '\\') text_putc(&t, '\\');
        if (*message == '%') text_putc(&t, '%');
        if ((unsigned char)*message < ' ') text_printf(&t, "\\%03o", (unsigned)*message);
        else text_putc(&t, *message);
    }
    for (int k = 0; k < i->n_operands; k++) {
        Value *v = ir_operand(i, k);
        bool tile = v->type->kind == TYPE_TILE;
        const Layout *l = tile ? layout_of(e, v) : NULL;
        const char *cond = "tid == 0", *x = NULL, *where = "", *args = "";
        if (tile) {
            line(e, "for (int i = 0; i < %d; i++) {", (int)layout_regs(l));
            e->indent++;
            x = element(e, v, l, index_variable(e, "i"));
            cond = "true";
            for (int a = 0; a < l->rank; a++) {
                where = str(e, "%s[%%d]", where);
                args = str(e, "%s, %s", args, coord_text(e, l, a, "i"));
                if (l->cover[a] != l->tile[a])
                    cond = str(e, "%s && %s < %d", cond, coord_text(e, l, a, "i"), l->tile[a]);
            }
        } else x = name_of(e, v);
        bool fl = dtype_is_float(v->type->dtype);
        line(e, "if (%s) printf(\"%s%s %s\\n\"%s, (%s)%s);", cond, t.data, where, fl ? "%g" : "%lld", args,
            fl ? "double" : "long long", x);
        if (tile) end_block(e);
    }
    if (!i->n_operands) line(e, "if (tid == 0) printf(\"%s\\n\");", t.data);
}
