/* print_ast.c: the tree as text, for `--emit=ast` and tests: `(kind name op value` and its children, one node
 * a line, indented. */
#include <math.h>
#include "frontend/parse/ast.h"

static void print_string(const char *s, Text *out)
{
    text_putc(out, '"');
    for (; *s; s++) {
        if (*s == '\n') text_puts(out, "\\n");
        else if (*s == '\t') text_puts(out, "\\t");
        else {
            if (*s == '"' || *s == '\\') text_putc(out, '\\');
            text_putc(out, *s);
        }
    }
    text_putc(out, '"');
}

static void print_operator(const Node *n, Text *out)
{
    static const char *const io[] = { "in", "out", "inout" };
    if (n->kind == N_PTENSOR) text_printf(out, " %s%s", io[n->op], n->u ? " optional" : "");
    else if (n->kind == N_PCONST) text_puts(out, n->op ? " auto" : "");
    else if (n->kind == N_FOR || n->kind == N_IF) text_puts(out, n->op ? " const" : "");
    else if (n->kind == N_ASSIGN) text_printf(out, " %s=", ast_operator_text((Operator)n->op));
    else if (n->kind == N_LET || n->kind == N_VAR) text_puts(out, n->op ? " tuple" : "");
    else if (n->op) text_printf(out, " %s", ast_operator_text((Operator)n->op));
}

static void print_node(const Node *n, int indent, Text *out)
{
    text_printf(out, "%*s", 2 * indent, "");
    if (!n) {
        text_puts(out, "-\n");
        return;
    }
    text_printf(out, "(%s", ast_node_name((NodeKind)n->kind));
    if (n->kind == N_ARG && n->text2) text_printf(out, " %s.%s", n->text2, n->name);
    else if (n->name && (n->kind == N_STRING || n->kind == N_IMPORT)) {
        text_putc(out, ' ');
        print_string(n->name, out);
    } else if (n->name) text_printf(out, " %s", n->name);
    else if (n->kind == N_BOOL) text_puts(out, n->u ? " true" : " false");
    print_operator(n, out);
    if (n->n) {
        text_putc(out, '\n');
        for (uint32_t i = 0; i < n->n; i++) print_node(n->kids[i], indent + 1, out);
        while (out->len && out->data[out->len - 1] == '\n') out->data[--out->len] = 0;
    }
    text_puts(out, ")\n");
}

void frontend_print_ast(const Ast *ast, Text *out)
{
    for (size_t i = 0; i < ast->files.len; i++) print_node(ast->files.data[i], 0, out);
}
