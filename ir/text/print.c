/* print.c: the IR as text; docs/ir.md is the manual of the form, parse.c reads it. Printing must hold on a
 * module that does not verify too (diagnostics print instructions), so nothing here trusts an instruction to
 * obey its rule: what does not fit an operation's own spelling is written in the generic one, `results = op
 * operands {attributes} : types blocks`. */
#include "ir/text/text.h"
#include <math.h>

typedef struct Printer {
    Text *out;
    const Func *func;
    unsigned flags;
    int depth;
} Printer;

static void name_chars(Text *out, const char *name)
{
    if (!irtext_name_start(name[0])) text_putc(out, '_');
    for (; *name; name++) text_putc(out, irtext_name_char(*name) ? *name : '_');
}

static void print_value(Printer *p, const Value *v)
{
    if (!v) {
        text_puts(p->out, "%<null>");
        return;
    }
    const Block *b = v->block;
    const char *name = v->name;
    if (!v->def && b && b->func && b == b->func->body && v->index < b->func->n_params)
        name = b->func->params[v->index].name;
    text_putc(p->out, '%');
    if (name && name[0]) {
        name_chars(p->out, name);
        text_putc(p->out, '.');
    }
    text_printf(p->out, "%u", v->id);
}

static void print_values(Printer *p, const Instr *i, int from, int to)
{
    for (int k = from; k < to; k++) {
        if (k > from) text_puts(p->out, ", ");
        print_value(p, ir_operand(i, k));
    }
}

static void print_string(Text *out, const char *s)
{
    text_putc(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') text_printf(out, "\\%c", c);
        else if (c == '\n') text_puts(out, "\\n");
        else if (c == '\t') text_puts(out, "\\t");
        else if (c < 32 || c == 127) text_printf(out, "\\x%02x", c);
        else text_putc(out, (char)c);
    }
    text_putc(out, '"');
}

static void print_ints(Text *out, const int64_t *v, int n)
{
    text_putc(out, '[');
    for (int k = 0; k < n; k++) text_printf(out, "%s%lld", k ? ", " : "", (long long)v[k]);
    text_putc(out, ']');
}

static void print_dim(Printer *p, int64_t d)
{
    if (p->func && d >= 0 && d < p->func->n_dims && p->func->dims[d].name)
        name_chars(p->out, p->func->dims[d].name);
    else text_printf(p->out, "#%lld", (long long)d);
}

static void print_attr(Printer *p, const Attr *a)
{
    text_printf(p->out, "%s = ", attr_info[a->key].name);
    switch (attr_info[a->key].kind) {
    case ATTR_KIND_INT:
        if (a->key == ATTR_DIM) print_dim(p, a->i);
        else text_printf(p->out, "%lld", (long long)a->i);
        break;
    case ATTR_KIND_FLOAT: irtext_write_float(DT_F64, a->f, p->out); break;
    case ATTR_KIND_STR: print_string(p->out, a->s); break;
    case ATTR_KIND_INTS: print_ints(p->out, a->v, a->n); break;
    case ATTR_KIND_ENUM: {
        const char *name = attr_enum_name(a->key, a->i);
        if (name) text_puts(p->out, name);
        else text_printf(p->out, "%lld", (long long)a->i);
        break;
    }
    }
}

/* All attributes but those two. */
static void print_attrs_but(Printer *p, const Instr *i, AttrKey one, AttrKey other)
{
    int n = 0;
    for (int k = 0; k < i->n_attrs; k++) {
        if (i->attrs[k].key == one || i->attrs[k].key == other) continue;
        text_puts(p->out, n++ ? ", " : " {");
        print_attr(p, &i->attrs[k]);
    }
    if (n) text_putc(p->out, '}');
}

static void print_attrs(Printer *p, const Instr *i) { print_attrs_but(p, i, ATTR_N_KEYS, ATTR_N_KEYS); }

static void indent(Printer *p)
{
    for (int k = 0; k < p->depth; k++) text_puts(p->out, "  ");
}

static void print_instr(Printer *p, const Instr *i);

static void print_body(Printer *p, const Block *b)
{
    text_puts(p->out, "{\n");
    p->depth++;
    for (const Instr *i = b->first; i; i = i->next) {
        indent(p);
        print_instr(p, i);
        text_putc(p->out, '\n');
    }
    p->depth--;
    indent(p);
    text_putc(p->out, '}');
}

static void print_arg(Printer *p, const Value *v)
{
    print_value(p, v);
    text_puts(p->out, ": ");
    type_print(v->type, p->out);
}

static void print_block(Printer *p, const Block *b)
{
    if (b->n_args) {
        text_putc(p->out, '(');
        for (int k = 0; k < b->n_args; k++) {
            if (k) text_puts(p->out, ", ");
            print_arg(p, b->args[k]);
        }
        text_puts(p->out, ") ");
    }
    print_body(p, b);
}

/* --- spellings of single operations; each says whether the instruction has the form it can write ----- */

static bool print_const(Printer *p, const Instr *i)
{
    if (i->op != OP_CONST || i->n_operands || i->n_results != 1 || i->results[0].type->kind != TYPE_SCALAR)
        return false;
    DType d = i->results[0].type->dtype;
    bool is_float = dtype_is_float(d);
    const Attr *a = ir_attr(i, is_float ? ATTR_FVALUE : ATTR_IVALUE);
    if (!a) return false;
    text_puts(p->out, "const ");
    if (is_float) irtext_write_float(d, a->f, p->out);
    else if (d == DT_BOOL && (a->i == 0 || a->i == 1)) text_puts(p->out, a->i ? "true" : "false");
    else if (d == DT_U64) text_printf(p->out, "%llu", (unsigned long long)a->i);
    else text_printf(p->out, "%lld", (long long)a->i);
    const AttrKey value = is_float ? ATTR_FVALUE : ATTR_IVALUE;
    print_attrs_but(p, i, value, value);
    return true;
}

/* load %X[%i, %j] pad %p token %t      store %Y[%i] = %v mask %m token %t */
static bool print_mem(Printer *p, const Instr *i)
{
    MemParts m;
    if (i->n_operands < 1 || ir_operand(i, 0)->type->kind != TYPE_TENSOR || !ir_mem_parts(i, &m))
        return false;
    int n_values = i->op == OP_LOAD || i->op == OP_GATHER ? 0 : i->op == OP_ATOMIC_CAS ? 2 : 1;
    int n = 1 + m.rank + n_values + (ir_attr_int(i, ATTR_HAS_MASK, 0) != 0) +
            (ir_attr_int(i, ATTR_HAS_PAD, 0) != 0) + (m.token != NULL);
    if (n != i->n_operands) return false;
    text_printf(p->out, "%s ", op_info[i->op].name);
    print_value(p, m.tensor);
    text_putc(p->out, '[');
    print_values(p, i, 1, 1 + m.rank);
    text_putc(p->out, ']');
    if (n_values) text_puts(p->out, " = ");
    print_values(p, i, 1 + m.rank, 1 + m.rank + n_values);
    if (m.mask) {
        text_puts(p->out, " mask ");
        print_value(p, m.mask);
    }
    if (m.pad) {
        text_puts(p->out, " pad ");
        print_value(p, m.pad);
    }
    if (m.token) {
        text_puts(p->out, " token ");
        print_value(p, m.token);
    }
    print_attrs_but(p, i, ATTR_HAS_MASK, ATTR_HAS_PAD);
    return true;
}

static bool carries(const Instr *i, int first_operand, int block, int first_arg)
{
    if (i->n_blocks <= block || i->n_results != i->n_operands - first_operand) return false;
    const Block *b = i->blocks[block];
    if (b->n_args != i->n_results + first_arg) return false;
    for (int k = 0; k < i->n_results; k++) {
        const Type *t = ir_operand(i, first_operand + k)->type;
        if (b->args[first_arg + k]->type != t || i->results[k].type != t) return false;
    }
    return true;
}

static void print_inits(Printer *p, const Instr *i, int first_operand, const Block *b, int first_arg)
{
    text_putc(p->out, '(');
    for (int k = 0; k < i->n_results; k++) {
        if (k) text_puts(p->out, ", ");
        print_value(p, b->args[first_arg + k]);
        text_puts(p->out, " = ");
        print_value(p, ir_operand(i, first_operand + k));
    }
    text_putc(p->out, ')');
}

/* for %i = %lo to %hi step %s with (%acc = %init) {attributes} { ... } */
static bool print_for(Printer *p, const Instr *i, bool blocks)
{
    if (i->op != OP_FOR || i->n_operands < 3 || i->n_blocks != 1 || !carries(i, 3, 0, 1)) return false;
    const Block *b = i->blocks[0];
    for (int k = 0; k < 3; k++)
        if (ir_operand(i, k)->type != b->args[0]->type) return false;
    text_puts(p->out, "for ");
    print_value(p, b->args[0]);
    text_puts(p->out, " = ");
    print_value(p, ir_operand(i, 0));
    text_puts(p->out, " to ");
    print_value(p, ir_operand(i, 1));
    text_puts(p->out, " step ");
    print_value(p, ir_operand(i, 2));
    if (i->n_results) {
        text_puts(p->out, " with ");
        print_inits(p, i, 3, b, 1);
    }
    print_attrs(p, i);
    text_putc(p->out, ' ');
    if (blocks) print_body(p, b);
    else text_puts(p->out, "{ ... }");
    return true;
}

/* while (%x = %init) {attributes} { ... condition %c, %x } do (%y) { ... } */
static bool print_while(Printer *p, const Instr *i, bool blocks)
{
    if (i->op != OP_WHILE || i->n_blocks != 2 || !carries(i, 0, 0, 0) || !carries(i, 0, 1, 0)) return false;
    text_puts(p->out, "while ");
    print_inits(p, i, 0, i->blocks[0], 0);
    print_attrs(p, i);
    text_putc(p->out, ' ');
    if (!blocks) {
        text_puts(p->out, "{ ... } do { ... }");
        return true;
    }
    print_body(p, i->blocks[0]);
    text_puts(p->out, " do (");
    for (int k = 0; k < i->blocks[1]->n_args; k++) {
        if (k) text_puts(p->out, ", ");
        print_value(p, i->blocks[1]->args[k]);
    }
    text_puts(p->out, ") ");
    print_body(p, i->blocks[1]);
    return true;
}

static void print_types(Printer *p, const Instr *i)
{
    for (int k = 0; k < i->n_results; k++) {
        text_puts(p->out, k ? ", " : " : ");
        type_print(i->results[k].type, p->out);
    }
}

static void print_head(Printer *p, const Instr *i, bool blocks)
{
    for (int k = 0; k < i->n_results; k++) {
        if (k) text_puts(p->out, ", ");
        print_value(p, &i->results[k]);
    }
    if (i->n_results) text_puts(p->out, " = ");
    if (print_for(p, i, blocks) || print_while(p, i, blocks)) return;
    if (!print_const(p, i) && !print_mem(p, i)) {
        text_puts(p->out, op_info[i->op].name);
        if (i->n_operands) text_putc(p->out, ' ');
        print_values(p, i, 0, i->n_operands);
        print_attrs(p, i);
    }
    print_types(p, i);
    for (int k = 0; k < i->n_blocks; k++) {
        text_puts(p->out, k && i->op == OP_IF ? " else " : " ");
        if (blocks) print_block(p, i->blocks[k]);
        else text_puts(p->out, "{ ... }");
    }
}

static void print_instr(Printer *p, const Instr *i)
{
    print_head(p, i, true);
    /* A line of an imported file is none of the function's own file. */
    uint32_t own = p->func->loc.file;
    if ((p->flags & IR_PRINT_LOC) && i->loc.file && (!own || i->loc.file == own)) {
        int line, column;
        diag_position(p->func->module->session, i->loc, &line, &column);
        text_printf(p->out, " loc(%d)", line);
    }
}

/* --- functions --------------------------------------------------------------------------------------- */

static void print_func_dims(Printer *p)
{
    for (int k = 0; k < p->func->n_dims; k++) {
        const Dim *d = &p->func->dims[k];
        text_puts(p->out, "  dim ");
        print_dim(p, k);
        if (d->text) {
            text_puts(p->out, " derived ");
            print_string(p->out, d->text);
        }
        if (d->extent >= 0) text_printf(p->out, " = %lld", (long long)d->extent);
        if (d->div != (d->extent > 0 ? d->extent : 1)) text_printf(p->out, " div %lld", (long long)d->div);
        if (d->most > 0) text_printf(p->out, " most %lld", (long long)d->most);
        if (d->param >= 0) text_printf(p->out, " at %d:%d", d->param, d->axis);
        text_putc(p->out, '\n');
    }
}

static void print_param(Printer *p, int k)
{
    static const char *const kinds[] = { "in", "out", "inout", "scalar" };
    const Param *q = &p->func->params[k];
    text_printf(p->out, "  %s ", kinds[q->kind]);
    if (k < p->func->body->n_args) print_value(p, p->func->body->args[k]);
    else text_printf(p->out, "%%<no argument for %s>", q->name);
    text_puts(p->out, ": ");
    type_print(q->type, p->out);
    if (q->type->kind == TYPE_TENSOR) {
        int rank = q->type->rank;
        bool strides = false, divs = false;
        text_putc(p->out, '[');
        for (int a = 0; a < rank; a++) {
            if (a) text_puts(p->out, ", ");
            print_dim(p, q->dims[a]);
            strides |= q->stride[a] != FACT_UNKNOWN;
            divs |= q->stride_div[a] != 1;
        }
        text_putc(p->out, ']');
        if (q->align != dtype_bytes(q->type->dtype)) text_printf(p->out, " align %lld", (long long)q->align);
        if (strides) {
            text_puts(p->out, " stride [");
            for (int a = 0; a < rank; a++) {
                if (a) text_puts(p->out, ", ");
                if (q->stride[a] == FACT_UNKNOWN) text_putc(p->out, '?');
                else text_printf(p->out, "%lld", (long long)q->stride[a]);
            }
            text_putc(p->out, ']');
        }
        if (divs) {
            text_puts(p->out, " stride_div ");
            print_ints(p->out, q->stride_div, rank);
        }
        if (q->gaps) text_puts(p->out, " gaps");
        if (q->joined_from < q->joined_to) text_printf(p->out, " joined %d %d", q->joined_from, q->joined_to);
    }
    if (!(q->lo == -INFINITY && q->hi == INFINITY)) {
        text_puts(p->out, " range [");
        irtext_write_float(DT_F64, q->lo, p->out);
        text_puts(p->out, ", ");
        irtext_write_float(DT_F64, q->hi, p->out);
        text_putc(p->out, ']');
    }
    text_putc(p->out, '\n');
}

static void print_hints(Printer *p)
{
    const Hints *h = &p->func->hints;
    const struct {
        const char *name;
        int v, base;
    } all[] = {
#define HINT(name, most, base, search, reader) { #name, h->name, base },
#include "ir/hints.def"
#undef HINT
    };
    int n = 0;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k].v)
            text_printf(p->out, "%s%s = %d", n++ ? ", " : "  hint ", all[k].name, all[k].v - all[k].base);
    const struct {
        const char *name, *v;
    } texts[] = { { "schedule", h->schedule }, { "remap", h->remap } };
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        if (!texts[k].v) continue;
        text_printf(p->out, "%s%s = ", n++ ? ", " : "  hint ", texts[k].name);
        print_string(p->out, texts[k].v);
    }
    if (n) text_putc(p->out, '\n');
}

static void print_region(Printer *p, const char *name, const Block *b, bool with_args)
{
    if (!b) return;
    text_printf(p->out, "  %s ", name);
    p->depth = 1;
    if (with_args) print_block(p, b);
    else print_body(p, b);
    text_putc(p->out, '\n');
}

static void print_func(Printer *p, const Func *f)
{
    p->func = f;
    text_printf(p->out, "%s @", f->is_kernel ? "kernel" : "func");
    name_chars(p->out, f->name);
    text_puts(p->out, " {\n");
    if (f->spec && f->spec[0]) {
        text_puts(p->out, "  spec ");
        print_string(p->out, f->spec);
        text_putc(p->out, '\n');
    }
    if (f->fits32) text_puts(p->out, "  fits32\n");
    if (f->extents31) text_puts(p->out, "  extents31\n");
    if (f->permutes) text_puts(p->out, "  permutes\n");
    print_hints(p);
    print_func_dims(p);
    for (int k = 0; k < f->n_params; k++) print_param(p, k);
    for (int k = 0; k < f->n_results; k++) {
        text_puts(p->out, k ? ", " : "  result ");
        type_print(f->results[k], p->out);
    }
    if (f->n_results) text_putc(p->out, '\n');
    print_region(p, "grid", f->grid, true);
    print_region(p, "remap", f->remap, true);
    print_region(p, "extents", f->extents, true);
    print_region(p, "body", f->body, false);
    text_puts(p->out, "}\n");
}

void ir_print_with(const Module *m, unsigned flags, Text *out)
{
    Printer p = { .out = out, .flags = flags };
    for (const Func *f = m->funcs; f; f = f->next) {
        if (f != m->funcs) text_putc(out, '\n');
        print_func(&p, f);
    }
}

void ir_print(const Module *m, Text *out) { ir_print_with(m, 0, out); }

void ir_print_instr(const Instr *i, Text *out)
{
    Printer p = { .out = out, .func = i->block ? i->block->func : NULL };
    print_head(&p, i, false);
}
