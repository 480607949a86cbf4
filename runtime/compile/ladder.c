/* ladder.c: the names of passes in `ladder` blocks; see compile.h. */
#include "runtime/compile/compile.h"

static bool known_beside_passes(const FrontPassName *p)
{ return !p->skip && (!strcmp(p->name, "ftz") || !strcmp(p->name, "approx")); }

bool compile_check_ladders(Session *s, const Ast *ast)
{
    bool ok = true;
    for (int k = 0; k < frontend_kernel_count(ast); k++) {
        const FrontLadder *l = frontend_ladder(ast, frontend_kernel(ast, k)->name);
        for (int i = 0; l && i < l->n; i++)
            for (int n = 0; n < l->steps[i].n_passes; n++) {
                const FrontPassName *p = &l->steps[i].passes[n];
                const char *where = arena_printf(&s->arena, "step `%s`", l->steps[i].name);
                ok &= known_beside_passes(p) || pass_check_name(s, p->loc, where, p->name, p->skip);
            }
    }
    return ok;
}
