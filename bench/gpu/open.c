/* open.c: see open.h. */
#include "bench/gpu/open.h"
#include "bench/gpu/source.h"

static Ast *parse(void *user, Session *s)
{
    const Problem *p = user;
    Ast *ast = frontend_parse(s, diag_add_source(s, p->path, "", p->text, p->size), NULL, NULL);
    return frontend_check(ast) ? ast : NULL;
}

bool problem_open(
    Problem *p, const char *path, const char *kernel, const char *target, int n_words, char *const *words)
{
    const Target *t = target_find(target);
    *p = (Problem){
        .parse = parse, .user = p, .kernel = kernel, .n_words = n_words, .words = words, .path = path
    };
    p->text = read_all(path, &p->size);
    if (t) p->device = device_of_target(t);
    return p->text && t;
}

void problem_close(Problem *p)
{
    free(p->text);
    p->text = NULL;
}
