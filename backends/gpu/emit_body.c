/* emit_body.c: statements, the values that they declare, and what is left of them when the body is printed.
 *
 * Ranges and masks are folded into the expressions that use them, and consumers take their coordinates from
 * the producer, so intermediate values often have no reader left. The vendor's compiler would drop them,
 * but a person who reads the text should not have to. So their declarations are left out:
 *
 *     const i32 add_371 = (mul_356 + 0);      left out if no statement refers to add_371; then mul_356 too,
 *         if that was its last use
 */
#include "backends/gpu/emit.h"

/* --- marks -------------------------------------------------------------------------------------- */

/* A reference in the text: a byte that no other part of an expression contains, then the node's number in
 * four digits of seven bits, each with the high bit set. */
enum { REFERENCE = 1, DIGITS = 4, DIGIT_BITS = 7, DIGIT_MARK = 1 << DIGIT_BITS };

static const char *reference(Emit *e, uint32_t node)
{
    char *r = arena_alloc(&e->s->arena, DIGITS + 2);
    r[0] = REFERENCE;
    for (int k = 0; k < DIGITS; k++)
        r[1 + k] = (char)(DIGIT_MARK | (node >> DIGIT_BITS * k & (DIGIT_MARK - 1)));
    r[DIGITS + 1] = 0;
    return r;
}

/* Finds the next reference in *text and moves *text behind it. NULL: there is none. */
static ValueNode *next_reference(Emit *e, const char **text)
{
    const char *r = strchr(*text, REFERENCE);
    uint32_t node = 0;
    if (!r) return NULL;
    for (int k = 0; k < DIGITS; k++) node |= ((unsigned char)r[1 + k] & (DIGIT_MARK - 1u)) << DIGIT_BITS * k;
    *text = r + 1 + DIGITS;
    return e->nodes.data[node];
}

static void write_expression(Emit *e, const char *text, Text *out)
{
    static const char marks[] = { REFERENCE, AND[0], ALL_TERMS[0], 0 };
    bool all_terms = false;
    for (size_t n; text_write(out, text, n = strcspn(text, marks)), text[n];) {
        text += n;
        if (*text == REFERENCE) text_puts(out, next_reference(e, &text)->name);
        else if (*text++ == AND[0]) text_puts(out, all_terms ? "& " : "&&");
        else all_terms = !all_terms;
    }
}

const char *spelled(Emit *e, const char *expr)
{
    Text t;
    if (!strchr(expr, REFERENCE)) return expr;
    text_init(&t, &e->s->arena);
    write_expression(e, expr, &t);
    return t.data;
}

/* --- statements -------------------------------------------------------------------------------------- */

static Statement *add(Emit *e, Body *b, StatementKind kind, int indent, const char *text)
{
    Statement *s = arena_new(&e->s->arena, Statement);
    *s = (Statement){ .text = text, .kind = kind, .indent = indent };
    if (b->last) b->last->next = s;
    else b->first = s;
    b->last = s;
    if (kind == STATEMENT_POSITION) return s;
    for (ValueNode *v; (v = next_reference(e, &text));) v->uses++;
    return s;
}

void line(Emit *e, const char *fmt, ...)
{
    va_list ap;
    if (e->measure) return;
    va_start(ap, fmt);
    add(e, e->out, STATEMENT_TEXT, e->indent, expression(e, fmt, ap));
    va_end(ap);
}

void directive(Emit *e, const char *fmt, ...)
{
    va_list ap;
    if (e->measure) return;
    va_start(ap, fmt);
    add(e, e->out, STATEMENT_TEXT, 0, expression(e, fmt, ap));
    va_end(ap);
}

void line_in(Emit *e, Body *b, int indent, const char *fmt, ...)
{
    va_list ap;
    if (e->measure) return;
    va_start(ap, fmt);
    add(e, b, STATEMENT_TEXT, indent, expression(e, fmt, ap));
    va_end(ap);
}

void add_position(Emit *e, const char *text)
{
    if (!e->measure) add(e, e->out, STATEMENT_POSITION, 0, text);
}

void body_append(Body *to, const Body *from)
{
    if (!from->first) return;
    if (to->last) to->last->next = from->first;
    else to->first = from->first;
    to->last = from->last;
}

/* --- values ------------------------------------------------------------------------------------------ */

const char *declare_in(Emit *e, Body *b, int indent, const char *type, const char *name, const char *expr)
{
    if (e->measure) return name;
    ValueNode *v = arena_new(&e->s->arena, ValueNode);
    uint32_t number = (uint32_t)e->nodes.len;
    *v = (ValueNode){ .name = name };
    v->declaration = add(e, b, STATEMENT_VALUE, indent, str(e, "const %s %s = %s;", type, name, expr));
    vec_push(&e->s->arena, &e->nodes, v);
    return reference(e, number);
}

const char *refer_to_function(Emit *e, const char *name, ValueNode **node)
{
    ValueNode *v = arena_new(&e->s->arena, ValueNode);
    *v = (ValueNode){ .name = name };
    vec_push(&e->s->arena, &e->nodes, v);
    *node = v;
    return reference(e, (uint32_t)e->nodes.len - 1);
}

const char *declare(Emit *e, const Value *v, const char *expr)
{
    const char *type = v->type->kind == TYPE_SHARED ? "u32" : ctype(v->type->dtype);
    return e->storage[v->id] = declare_in(e, e->out, e->indent, type, name_of(e, v), expr);
}

/* --- printing ---------------------------------------------------------------------------------------- */

/* An expression refers to earlier nodes only, so that one pass from the last node to the first is enough. */
static void leave_out_values(Emit *e)
{
    for (size_t k = e->nodes.len; k-- > 0;) {
        Statement *s = e->nodes.data[k]->declaration;
        if (!s || e->nodes.data[k]->uses) continue;
        const char *text = s->text;
        s->gone = true;
        for (ValueNode *v; (v = next_reference(e, &text));) v->uses--;
    }
}

/* Leaves out a position whose next statement is a position too. */
static void leave_out_positions(Body *b)
{
    Statement *before = NULL;
    for (Statement *s = b->first; s; s = s->next) {
        if (s->gone) continue;
        if (before && before->kind == STATEMENT_POSITION && s->kind == STATEMENT_POSITION)
            before->gone = true;
        before = s;
    }
}

void body_print(Emit *e, Body *b, Text *out)
{
    leave_out_values(e);
    leave_out_positions(b);
    for (const Statement *s = b->first; s; s = s->next) {
        if (s->gone) continue;
        for (int k = 0; k < s->indent; k++) text_puts(out, "    ");
        if (s->kind == STATEMENT_POSITION) text_puts(out, s->text);
        else write_expression(e, s->text, out);
        text_putc(out, '\n');
    }
}
