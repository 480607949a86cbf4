#include "frontend/lower.h"
#include "frontend/program.h"

bool frontend_check(Ast *ast)
{
    if (ast->session->n_errors) return false;
    program_build(ast);
    return ast->session->n_errors == 0;
}
