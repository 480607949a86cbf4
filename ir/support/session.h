/* session.h: a session holds the memory, sources, diagnostics and options of one compilation. Only one thread
 * may use a session at a time.
 *
 *     Session s;
 *     session_init(&s, allocator);
 *     if (setjmp(s.oom)) { session_free(&s); return OUT_OF_MEMORY; }
 *     ... parse, lower, run passes, emit ...
 *     session_free(&s); */
#pragma once
#include "ir/support/diag.h"

typedef struct Type Type;
typedef struct TypeTable TypeTable;

typedef VEC(Source) SourceList;
typedef VEC(const char *) StringTable;
typedef VEC(struct {
    void (*fn)(void *);
    void *ptr;
}) DeferredList;

struct Session {
    Arena arena;        /* lives as long as the session: sources, AST, IR, types, diagnostics */
    jmp_buf oom;        /* recovery point, set by the owner with setjmp before the first use */
    SourceList sources; /* [0] is unused */
    Diag *diags, *last_diag;
    int n_errors, n_warnings, n_perf;
    int error_limit; /* default 20 */
    bool warnings_as_errors;
    const char *binder; /* for diagnostics: how the user binds a const or an extent; NULL: by -D */
    DiagFn *on_diag;
    void *on_diag_user;
    TypeTable *types;
    DeferredList deferred; /* run in reverse order by session_free */
    StringTable strings;
    struct {
        SourceList sources;
        DeferredList deferred;
        StringTable strings;
        TypeTable *types;
        Diag *diags, *last_diag;
        int n_errors, n_warnings, n_perf;
    } kept; /* session_keep */
};

void session_init(Session *, Allocator);
void session_free(Session *);
/* Forgets what came after session_keep, for another compilation of what came before: a syntax tree that is
 * lowered again and again. The memory stays with the session. */
void session_renew(Session *);
/* What the session has now outlives session_renew. Another call keeps what has come since as well. */
void session_keep(Session *);
/* Gives the session the sources and the interned strings of another one, which nobody changes meanwhile and
 * which outlives it. False: it has some of its own. */
bool session_share(Session *, const Session *from);
int64_t clock_ns(void); /* the time of a clock that never goes backwards */
double clock_ms(void);  /* the same in milliseconds */
/* Runs fn(ptr) when the session is freed. Runs it at once if there is no memory to record it. */
void session_defer(Session *, void (*fn)(void *), void *ptr);
/* Returns an interned copy: equal strings give equal pointers. */
const char *session_intern(Session *, const char *, size_t len);
