/* parse_program.c: a program's files: the one that is named, and what it imports. */
#include <errno.h>
#include "frontend/parse/parse.h"

typedef struct Loading {
    uint32_t file;
    const struct Loading *outer;
    int depth;
} Loading;
typedef struct Program {
    Ast *ast;
    FrontImportFn *fn;
    void *user;
    VEC(uint32_t) done;
} Program;

static bool is_done(const Program *g, uint32_t file)
{
    for (size_t i = 0; i < g->done.len; i++)
        if (g->done.data[i] == file) return true;
    return false;
}

static void parse_one(Program *, const Loading *);

static void follow_import(Program *g, const Loading *here, const Node *import)
{
    Session *s = g->ast->session;
    if (here->depth + 1 >= LIMIT_IMPORT_DEPTH) {
        diag_error(s, import->loc, "imports are nested more than %d deep", LIMIT_IMPORT_DEPTH);
        return;
    }
    errno = 0;
    uint32_t file = g->fn ? g->fn(g->user, s, here->file, import->name) : 0;
    if (!file) {
        diag_error(s, import->name_loc, "cannot read `%s`%s%s", import->name, errno ? ": " : "",
            errno ? strerror(errno) : "");
        return;
    }
    for (const Loading *l = here; l; l = l->outer)
        if (l->file == file) {
            Diag *d = diag_error(s, import->loc, "import of `%s` goes in a circle", import->name);
            diag_note(s, d, (Loc){ 0, 0, 0 }, "move what both files need into a third one");
            return;
        }
    if (is_done(g, file)) return;
    if (g->done.len >= LIMIT_IMPORTS) {
        diag_error(s, import->loc, "a program has more than %d files", LIMIT_IMPORTS);
        return;
    }
    parse_one(g, &(Loading){ file, here, here->depth + 1 });
}

void parse_source(Parse *p)
{
    Session *s = p->session;
    const Source *src = diag_source(s, p->file);
    if (!src) return;
    if (src->len > LIMIT_SOURCE) {
        diag_error(s, (Loc){ p->file, 0, 0 }, "source is larger than %d MiB", LIMIT_SOURCE >> 20);
        return;
    }
    const char *zero = memchr(src->text, 0, src->len);
    if (zero) {
        uint32_t at = (uint32_t)(zero - src->text);
        diag_error(s, (Loc){ p->file, at, at + 1 }, "a zero byte: a program is ASCII text");
        return;
    }
    parse_run(parse_lexer_new(p, src->text, src->len), p);
}

bool parse_alone(Session *s, uint32_t file)
{
    int errors = s->n_errors;
    Parse p = { .session = s, .ast = arena_new(&s->arena, Ast), .file = file };
    p.ast->session = s;
    parse_source(&p);
    return p.result && s->n_errors == errors;
}

static void parse_one(Program *g, const Loading *here)
{
    Session *s = g->ast->session;
    Parse p = { .session = s, .ast = g->ast, .file = here->file };
    vec_push(&s->arena, &g->done, here->file);
    parse_source(&p);
    for (size_t i = 0; i < p.imports.len && !diag_full(s); i++) follow_import(g, here, p.imports.data[i]);
    if (!p.result) return;
    vec_push(&s->arena, &g->ast->files, p.result);
    for (uint32_t i = 0; i < p.result->n; i++) {
        Node *item = p.result->kids[i];
        NameMap *map = item->kind == N_FN         ? &g->ast->fns
                       : item->kind == N_KERNEL   ? &g->ast->kernels
                       : item->kind == N_CONSTANT ? &g->ast->consts
                                                  : NULL;
        vec_push(&s->arena, &g->ast->items, item);
        if (map && item->name && !names_get(map, item->name)) names_put(&s->arena, map, item->name, item);
    }
}

Ast *frontend_share(Session *s, const Ast *of)
{
    if (of->session == s) return (Ast *)of;
    if (!session_share(s, of->session)) return NULL;
    Ast *ast = arena_new(&s->arena, Ast);
    *ast = *of;
    ast->session = s;
    return ast;
}

Ast *frontend_parse(Session *s, uint32_t file, FrontImportFn *fn, void *user)
{
    Program g = { .ast = arena_new(&s->arena, Ast), .fn = fn, .user = user };
    g.ast->session = s;
    parse_one(&g, &(Loading){ file, NULL, 0 });
    return g.ast;
}
