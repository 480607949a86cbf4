/* formula.c: an expression of the command line that says which program runs where another would:
 * `w%8*(n/8) + w/8`. It is parsed, checked and lowered as the expression of a kernel's `remap` clause. */
#include "frontend/check/check.h"
#include "frontend/lower/lower_clauses.h"
#include "frontend/parse/parse.h"
#include "ir/text/text.h"

static const char *const names[] = { "w", "n", "n0", "n1", "n2" };
enum { NAMES = sizeof names / sizeof *names };

bool frontend_is_formula(const char *text)
{
    size_t n = 0;
    while (irtext_name_char(text[n])) n++;
    for (int k = 0; k < NAMES; k++)
        if (strlen(names[k]) == n && !memcmp(names[k], text, n)) return true;
    return text[n] && text[n] != ':' && strncmp(text + n, "+raster", strlen("+raster")) != 0;
}

/* `remap (w, n, n0, n1, n2) = expression` */
static const Node *clause_of(Parse *p, Node *expression)
{
    NodeList list = { 0 };
    for (int k = 0; k < NAMES; k++)
        list = parse_push(p, list, parse_word(p, parse_name(p, names[k], strlen(names[k])), expression->loc));
    Node *kids[] = { parse_list(p, N_LIST, expression->loc, list), expression };
    Node *clause = parse_node_of(p, N_CLAUSE, expression->loc, kids, 2);
    return parse_named(p, clause, parse_name(p, "remap", strlen("remap")), expression->loc);
}

Module *frontend_lower_formula(
    Ast *ast, const char *kernel, const FrontBinding *bindings, size_t n, uint32_t file)
{
    Session *s = ast->session;
    int errors = s->n_errors;
    Parse p = { .session = s, .ast = ast, .file = file, .formula = true };
    parse_source(&p);
    if (!p.result || s->n_errors > errors) return NULL;
    const Node *clause = clause_of(&p, p.result);
    const Node *node = program_kernel_node(ast, frontend_kernel_find(ast, kernel));
    return check_formula(ast, node, clause) ? lower_formula(ast, kernel, bindings, n, clause) : NULL;
}
