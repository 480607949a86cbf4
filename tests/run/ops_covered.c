/* ops_covered.c: see ops_covered.h. The front end lowers the kernels; what must be there comes from ops.def.
 */
#include "ops_covered.h"
#include "frontend/frontend.h"
#include "ir/ir.h"
#include <stdio.h>
#include <string.h>

static bool found[OP_COUNT];

static void note(void *user, Instr *i)
{
    (void)user;
    found[i->op] = true;
}

bool ops_note(const char *text)
{
    Session s;
    volatile bool ok = false;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Ast *ast = frontend_parse(&s, diag_add_source(&s, "ops.tile", NULL, text, strlen(text)), NULL, NULL);
        Module *m = frontend_check(ast) ? frontend_lower(ast, "ops", NULL, 0, NULL) : NULL;
        for (Func *f = m ? m->funcs : NULL; f; f = f->next) ir_walk(f->body, note, NULL);
        ok = m != NULL;
    }
    if (!ok) {
        Text t;
        text_init(&t, &s.arena);
        diag_render_all(&s, &t);
        printf("%s%s", text, t.data ? t.data : "");
    }
    session_free(&s);
    return ok;
}

/* Operations that a row of ops.c can show: those that compute values of values, or read and write tensors. */
static bool is_wanted(Op op)
{
    OpFamily f = op_family(op);
    if (op_has(op, OPF_KERNEL)) return false;
    return op_is_elementwise(op) || op_is_along_axis(op) || f == OPS_SHAPE || f == OPS_MEMORY;
}

int ops_missing(void)
{
    int n = 0;
    for (Op op = 0; op < OP_COUNT; op++)
        if (is_wanted(op) && !found[op]) {
            printf("FAIL tests/run/ops.c has no row of the operation %s\n", op_info[op].name);
            n++;
        }
    return n;
}
