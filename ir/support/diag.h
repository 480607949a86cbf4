/* diag.h: source locations and diagnostics. A diagnostic is kept as data (a list in the session) and, when
 * the owner set a callback, handed out at once; text in the compiler's usual form comes from diag_render. */
#pragma once
#include "ir/support/arena.h"

typedef struct Session Session;

/* A span of bytes [begin, end) of source `file` (index into the session's sources; 0 = no location). */
typedef struct Loc {
    uint32_t file, begin, end;
} Loc;

typedef struct Source {
    const char *name; /* as the user gave it, for diagnostics and #line */
    const char *text; /* NUL-terminated copy */
    size_t len;
    const char *directory; /* the folder in which its imports are looked up; may be NULL */
    size_t begins;         /* of the line that was asked for last: its first byte */
    int before;            /* lines before that one */
} Source;

typedef enum Severity { SEV_ERROR, SEV_WARNING, SEV_PERF, SEV_NOTE } Severity;

typedef struct Diag {
    Severity severity;
    Loc loc;
    const char *message; /* one line, no trailing newline, no location prefix */
    struct Diag *notes;  /* notes that belong to it */
    struct Diag *next;
} Diag;

/* Called for each error, warning or performance note, before its notes are known. */
typedef void DiagFn(void *user, Session *, const Diag *);

/* Copies text and name into the session. Returns the file index (>= 1). */
uint32_t diag_add_source(Session *, const char *name, const char *directory, const char *text, size_t len);
const Source *diag_source(Session *, uint32_t file);
/* 1-based line and column (bytes) of the span's begin; 0, 0 without a location. */
void diag_position(Session *, Loc, int *line, int *column);
Loc loc_join(Loc a, Loc b);

/* The number of letters by which a name of n letters and another one differ, up to 3, for "did you mean". Two
 * swapped letters count once, and names longer than 32 letters are never near. */
int diag_distance(const char *name, size_t n, const char *other);

Diag *diag_error(Session *, Loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* NULL, and nothing is added, when the session has the same warning of the same place. */
Diag *diag_warning(Session *, Loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A performance note: what was not done, why, and what would mend it (`--wperf`). */
Diag *diag_perf(Session *, Loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Adds a note to the diagnostic `to` (ignored when `to` is NULL, as after the error limit). */
void diag_note(Session *, Diag *to, Loc, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* True once the error limit (session.error_limit) is reached: stop soon. */
bool diag_full(Session *);
/* Drops the diagnostics behind `last` (NULL: all), as if there had been `errors` errors. */
void diag_forget(Session *, Diag *last, int errors);
/* `k.tile:12:17: error: ...`, the source line, `^~~~`, then the notes in the same form. */
void diag_render(Session *, const Diag *, Text *out);
void diag_render_all(Session *, Text *out);
