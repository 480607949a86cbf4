/* module.c: sources: reading them with what they import, checking them once, and handing them to each
 * compilation again. A compilation takes the tree in a session of its own, so that compilations need no lock
 * and leave nothing behind; a file changed meanwhile changes nothing. A session that has names of its own
 * parses the kept text again. */
#define _GNU_SOURCE
#include "runtime/context/context.h"
#include "frontend/frontend.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { SOURCE_MAX = 16 << 20, IMPORT_MAX = 1000 };

/* Reads a file into the arena. NULL with errno; memory running out closes the file first. */
static char *read_file(Arena *arena, const char *path, size_t *len)
{
    FILE *f = fopen(path, "rbe");
    if (!f) return NULL;
    size_t n = 0, cap = 1 << 16;
    jmp_buf *outer = arena->on_oom, here;
    arena->on_oom = &here;
    if (setjmp(here)) {
        fclose(f);
        arena->on_oom = outer;
        arena_oom(arena);
    }
    char *text = arena_alloc(arena, cap);
    for (size_t got; (got = fread(text + n, 1, cap - n - 1, f)) > 0;) {
        n += got;
        if (n > SOURCE_MAX) break;
        if (n + 1 == cap) {
            text = arena_grow(arena, text, n, 2 * cap);
            cap *= 2;
        }
    }
    arena->on_oom = outer;
    int bad = ferror(f) ? (errno ? errno : EIO) : n > SOURCE_MAX ? EFBIG : 0;
    fclose(f);
    if (bad) {
        errno = bad;
        return NULL;
    }
    text[n] = 0;
    *len = n;
    return text;
}

static const char *folder_of(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_strndup(a, path, (size_t)(slash - path + (slash == path))) : "";
}

static const char *join(Arena *a, const char *folder, const char *path)
{ return *path == '/' || !*folder ? arena_strdup(a, path) : arena_printf(a, "%s/%s", folder, path); }

/* --- loading: imports come from files ---------------------------------------------------------------- */

typedef struct Loader {
    tile_module *m;
    const tile_module_desc *desc;
} Loader;

static int add_file(tile_module *m, const char *name, const char *text, size_t len)
{
    Arena *a = &m->session.arena;
    uint32_t index = diag_add_source(&m->session, name, folder_of(a, name), text, len);
    const Source *src = diag_source(&m->session, index);
    vec_push(a, &m->sources.files, ((SourceFile){ src->name, src->directory, src->text, src->len }));
    return (int)m->sources.files.len - 1;
}

static int file_named(const tile_module *m, const char *name)
{
    for (size_t i = 0; i < m->sources.files.len; i++)
        if (!strcmp(m->sources.files.data[i].name, name)) return (int)i;
    return -1;
}

/* File i of the set is source i + 1 of every session of the module: they are added in the order in which they
 * were found. */
static uint32_t load_import(void *user, Session *s, uint32_t from, const char *path)
{
    Loader *l = user;
    tile_module *m = l->m;
    if (m->sources.files.len >= IMPORT_MAX) return 0;
    size_t n_dirs = l->desc->import_directories ? l->desc->n_import_directories : 0;
    for (size_t i = 0; i <= n_dirs; i++) {
        const char *folder =
            i ? l->desc->import_directories[i - 1] : m->sources.files.data[from - 1].directory;
        const char *name = join(&s->arena, folder ? folder : "", path);
        int index = file_named(m, name);
        size_t len;
        char *text;
        if (index < 0 && (text = read_file(&s->arena, name, &len))) index = add_file(m, name, text, len);
        if (index < 0) continue;
        vec_push(&s->arena, &m->sources.imports,
            ((SourceImport){ (int)from - 1, arena_strdup(&s->arena, path), index }));
        return (uint32_t)index + 1;
    }
    return 0;
}

static void digest(tile_module *m)
{
    Sha256 sha;
    sha256_init(&sha);
    for (size_t i = 0; i < m->sources.files.len; i++) {
        const SourceFile *f = &m->sources.files.data[i];
        const char *slash = strrchr(f->name, '/');
        /* Names appear in messages of the code, and the folder may be moved. */
        sha256_add_text(&sha, slash ? slash + 1 : f->name);
        sha256_add(&sha, &f->len, sizeof f->len);
        sha256_add(&sha, f->text, f->len);
    }
    for (size_t i = 0; i < m->sources.imports.len; i++) {
        const SourceImport *im = &m->sources.imports.data[i];
        sha256_add(&sha, (int[]){ im->from, im->to }, 2 * sizeof(int));
        sha256_add_text(&sha, im->path);
    }
    sha256_end(&sha, m->digest);
}

static tile_module *module_new(tile_context *c)
{
    tile_module *m = context_alloc(c, sizeof *m);
    if (!m) {
        context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
        return NULL;
    }
    m->context = c;
    atomic_store(&m->references, 1);
    atomic_fetch_add(&c->references, 1);
    lock_init(&m->lock);
    session_init(&m->session, c->alloc);
    return m;
}

void module_release(tile_module *m)
{
    if (atomic_fetch_sub_explicit(&m->references, 1, memory_order_acq_rel) != 1) return;
    tile_context *c = m->context;
    tune_release(m->tune);
    session_free(&m->session);
    lock_destroy(&m->lock);
    context_free(c, m, sizeof *m);
    context_release(c);
}

/* Longjmp value 2 is an error of the compiler itself, which left a diagnostic. */
tile_status context_session_failed(tile_context *c, Session *s, int jumped, const char *kernel)
{
    if (jumped == 2) {
        /* Reporting allocates memory. If memory runs out here, control must not return to the same point. */
        if (!setjmp(s->oom)) context_report(c, s, kernel);
        return TILE_ERROR_INTERNAL;
    }
    return context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory%s%s", kernel ? " while compiling " : "",
        kernel ? kernel : "");
}

typedef struct InSession {
    tile_context *c;
    const char *kernel;
    tile_status (*fn)(Session *, void *);
    void *p;
    tile_status status;
} InSession;

static void in_session(void *p)
{
    InSession *call = p;
    Session s;
    session_init(&s, call->c->alloc);
    s.binder = BINDER;
    int jumped = setjmp(s.oom);
    call->status = jumped ? context_session_failed(call->c, &s, jumped, call->kernel) : call->fn(&s, call->p);
    session_free(&s);
}

tile_status context_in_session(
    tile_context *c, const char *kernel, tile_status (*fn)(Session *, void *), void *p)
{
    InSession call = { c, kernel, fn, p, TILE_OK };
    tile_status st = context_on_stack(c, in_session, &call);
    return st ? st : call.status;
}

static tile_status load_body(
    tile_module *m, const char *name, const char *text, size_t len, const tile_module_desc *d)
{
    tile_context *c = m->context;
    Session *s = &m->session;
    if (!text) {
        text = read_file(&s->arena, name, &len);
        if (!text) return context_fail(c, TILE_ERROR_IO, "cannot read %s: %s", name, strerror(errno));
    }
    add_file(m, name, text, len);
    Loader l = { m, d };
    m->ast = frontend_parse(s, 1, load_import, &l);
    bool ok = m->ast && frontend_check(m->ast) && compile_check_ladders(s, m->ast) && s->n_errors == 0;
    context_report(c, s, NULL);
    if (!ok) return TILE_ERROR_COMPILE;
    digest(m);
    return TILE_OK;
}

typedef struct Load {
    tile_module *m;
    const char *name, *text;
    size_t len;
    const tile_module_desc *d;
    tile_status status;
} Load;

static void load_guarded(void *p)
{
    Load *l = p;
    int jumped = setjmp(l->m->session.oom);
    l->status = jumped ? context_session_failed(l->m->context, &l->m->session, jumped, NULL)
                       : load_body(l->m, l->name, l->text, l->len, l->d);
}

static tile_status load(tile_context *c, const char *name, const char *text, size_t len,
    const tile_module_desc *desc, tile_module **out)
{
    FLOAT_STATE_DEFAULT();
    tile_module_desc d;
    if (!c || !out) return TILE_ERROR_INVALID_ARGUMENT;
    *out = NULL;
    if (!name || !context_take_desc(&d, sizeof d, desc, sizeof(size_t)))
        return context_fail(c, TILE_ERROR_INVALID_ARGUMENT, "loading a module: %s",
            name ? "struct_size of the descriptor is not set" : "no name");
    tile_module *m = module_new(c);
    if (!m) return TILE_ERROR_OUT_OF_MEMORY;
    Load l = { m, name, text, len, &d, TILE_OK };
    tile_status st = context_on_stack(c, load_guarded, &l);
    if (!st) st = l.status;
    if (!st && !(d.tune_file && !*d.tune_file)) {
        char path[4096];
        size_t n = strlen(name), ext = n > 5 && !strcmp(name + n - 5, ".tile") ? 5 : 0;
        if (d.tune_file) st = tile_module_load_tune(m, d.tune_file);
        else if (!text &&
                 format_text(path, sizeof path, "%.*s.tune", (int)(n - ext), name) < (int)sizeof path) {
            FILE *f = fopen(path, "rbe");
            if (f) {
                fclose(f);
                st = tile_module_load_tune(m, path);
            }
        }
    }
    if (st) {
        module_release(m);
        return st;
    }
    *out = m;
    return TILE_OK;
}

tile_status tile_module_load_file(
    tile_context *c, const char *path, const tile_module_desc *desc, tile_module **out)
{ return load(c, path, NULL, 0, desc, out); }

tile_status tile_module_load_memory(tile_context *c, const char *name, const char *text, size_t len,
    const tile_module_desc *desc, tile_module **out)
{
    if (c && !text)
        return context_fail(c, TILE_ERROR_INVALID_ARGUMENT, "tile_module_load_memory: text is NULL");
    return load(c, name, text, len, desc, out);
}

void tile_module_destroy(tile_module *m)
{
    if (m) module_release(m);
}

size_t tile_module_kernel_count(const tile_module *m)
{ return m ? (size_t)frontend_kernel_count(m->ast) : 0; }

const char *tile_module_kernel_name(const tile_module *m, size_t i)
{ return m && i < (size_t)frontend_kernel_count(m->ast) ? frontend_kernel(m->ast, (int)i)->name : NULL; }

/* --- compiling: imports come from the set ------------------------------------------------------------ */

static uint32_t replay_import(void *user, Session *s, uint32_t from, const char *path)
{
    const tile_module *m = user;
    for (size_t i = 0; i < m->sources.imports.len; i++) {
        const SourceImport *im = &m->sources.imports.data[i];
        if (im->from == (int)from - 1 && !strcmp(im->path, path)) return (uint32_t)im->to + 1;
    }
    return 0;
}

Ast *module_parse(tile_module *m, Session *s)
{
    Ast *shared = frontend_share(s, m->ast);
    if (shared) return shared;
    for (size_t i = 0; i < m->sources.files.len; i++) {
        const SourceFile *f = &m->sources.files.data[i];
        diag_add_source(s, f->name, f->directory, f->text, f->len);
    }
    Ast *ast = frontend_parse(s, 1, replay_import, m);
    bool ok = ast && frontend_check(ast);
    if (ok) s->diags = s->last_diag = NULL; /* Warnings were reported when the module was loaded. */
    return ok ? ast : NULL;
}

/* --- tuning table ------------------------------------------------------------------------------------ */

void tune_release(TuneTable *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->references, 1, memory_order_acq_rel) != 1) return;
    tile_context *c = t->context;
    session_free(&t->session);
    context_free(c, t, sizeof *t);
}

tile_status tile_module_load_tune(tile_module *m, const char *path)
{
    FLOAT_STATE_DEFAULT();
    if (!m) return TILE_ERROR_INVALID_ARGUMENT;
    tile_context *c = m->context;
    if (!path) return context_fail(c, TILE_ERROR_INVALID_ARGUMENT, "tile_module_load_tune: path is NULL");
    TuneTable *t = context_alloc(c, sizeof *t);
    if (!t) return context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    t->context = c;
    atomic_store(&t->references, 1);
    session_init(&t->session, c->alloc);
    tile_status st = TILE_OK;
    int jumped = setjmp(t->session.oom);
    if (jumped) st = context_session_failed(c, &t->session, jumped, NULL);
    else {
        size_t len;
        char *text = read_file(&t->session.arena, path, &len);
        if (!text) st = context_fail(c, TILE_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
        else if (!tune_parse(&t->session, diag_add_source(&t->session, path, NULL, text, len), &t->file)) {
            context_report(c, &t->session, NULL);
            st = TILE_ERROR_COMPILE;
        }
    }
    if (st) {
        tune_release(t);
        return st;
    }
    lock_enter(&m->lock);
    TuneTable *old = m->tune;
    m->tune = t;
    lock_leave(&m->lock);
    tune_release(old);
    return TILE_OK;
}

const char *tile_language_words(tile_word_kind kind) { return frontend_words((FrontWords)kind); }
