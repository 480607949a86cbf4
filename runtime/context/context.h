/* context.h: the objects behind tile.h and what the files of the runtime share. */
#pragma once
#include "runtime/cache/cache.h"
#include "runtime/compile/compile.h"
#include "runtime/drivers/driver.h"
#include "runtime/context/fork.h"
#include "runtime/tune/tune.h"
#include <pthread.h>
#include <stdatomic.h>

enum { LAUNCHED = 4 };
enum { STREAM_COUNTERS = 1024, CAPTURED_COUNTERS = 4096 };

/* The workspace that a context keeps for a stream. The lock is held while a launch with it is handed over,
 * and guards the rest. */
typedef struct StreamWorkspace {
    Lock lock;
    void *memory; /* NULL: none yet */
    size_t bytes;
} StreamWorkspace;

/* What the context has for that many streams; where they are all taken, the next ones are in another table.
 */
typedef struct StreamTable {
    void *memory;                              /* the counters */
    _Atomic uintptr_t stream[STREAM_COUNTERS]; /* the key of the stream that has the place, or 0 */
    StreamWorkspace *_Atomic workspace[STREAM_COUNTERS];
    struct StreamTable *_Atomic next;
} StreamTable;

/* Counters of launches that were captured into graphs, which keep theirs until the context ends. */
typedef struct CapturedTable {
    void *memory;    /* CAPTURED_COUNTERS counters */
    atomic_int used; /* of them; may be larger when all are */
    struct CapturedTable *older;
} CapturedTable;

enum { CONTEXT_MESSAGE = 2048 };

/* What workspaces may have together where the context's descriptor names no limit (tile.h). */
enum { WORKSPACE_LIMIT = 256 << 20 };

/* How messages of a kernel say that a user binds a const or an extent (Session.binder). */
#define BINDER "a binding (--set)"

struct tile_context {
    Allocator alloc;
    tile_context *parent; /* for context_share: the context that owns the driver; or NULL */
    Driver *driver;
    const Target *target;
    const Backend *backend; /* NULL: this build has no driver for the target, and launches report that */
    uint32_t flags;
    int opt_level;
    tile_diagnostic_fn *on_diagnostic;
    void *on_diagnostic_user;
    char debug[256], dump[256]; /* TILE_DEBUG, and the names of passes in its dump entries */
    char key[1024];             /* the part of the context that goes into every cache key */
    char compiler_library[512];
    Cache cache;
    atomic_int references;       /* those of the owner, one for each module and kernel */
    Lock lock;                   /* guards error and key */
    Lock report_lock;            /* one call of on_diagnostic at a time */
    char error[CONTEXT_MESSAGE]; /* of the last failure, of whatever thread */
    uint64_t serial;             /* from 1; no two contexts of a process have the same */
    atomic_int sealed;
    char *missing; /* sealed.c: the list of refused variants, under the lock; NULL: none */
    size_t missing_bytes, missing_length;
    int n_missing;
    bool key_made;
    /* The titles of the variants that were launched last, for errors that are reported later. A kernel that
     * is freed removes its own titles, under the lock. */
    _Atomic(const char *) launched[LAUNCHED];
    atomic_uint launched_at;
    /* The counters of persistent kernels, one for each stream. Launches of one stream share a counter,
     * because they run in order. */
    Lock counters_lock; /* one thread at a time makes them */
    StreamTable *_Atomic streams;
    CapturedTable *_Atomic captured; /* the newest one; the older ones are used up */
    atomic_bool has_scratch;         /* the driver has said that there is memory in the order of a stream */
    size_t workspace_limit;          /* bytes that the workspaces of all streams may have together */
    atomic_size_t workspace_kept;    /* bytes that they have */
};

/* One file of a module: as the user named it and its text. */
typedef struct SourceFile {
    const char *name, *directory, *text;
    size_t len;
} SourceFile;
typedef struct SourceImport {
    int from;
    const char *path;
    int to;
} SourceImport;
typedef struct SourceSet {
    VEC(SourceFile) files; /* [0] is the module's own */
    VEC(SourceImport) imports;
} SourceSet;

/* A tuning table and its memory, shared by the module and its kernels. */
typedef struct TuneTable {
    tile_context *context;
    atomic_int references;
    Session session;
    TuneFile file;
} TuneTable;
void tune_release(TuneTable *);

struct tile_module {
    tile_context *context;
    atomic_int references;
    /* holds sources, the syntax tree and the tables below; guarded by the lock once the module is public */
    Session session;
    Lock lock;
    Ast *ast;
    SourceSet sources;
    uint8_t digest[32]; /* of all texts and names */
    TuneTable *tune;    /* counted; guarded by lock */
};

/* Sets the context's last error and returns `status`. */
tile_status context_fail(tile_context *, tile_status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
tile_status context_driver_fail(tile_context *, tile_status, const DriverError *, const char *doing);
/* Records a launch. `title` must stay valid until context_forget. */
static inline void context_launched(tile_context *c, const char *title)
{
    unsigned at = atomic_load_explicit(&c->launched_at, memory_order_relaxed);
    if (atomic_load_explicit(&c->launched[at % LAUNCHED], memory_order_relaxed) == title) return;
    atomic_store_explicit(&c->launched[(at + 1) % LAUNCHED], title, memory_order_release);
    atomic_store_explicit(&c->launched_at, at + 1, memory_order_relaxed);
}
void context_forget(tile_context *, const char *title);
void context_release(tile_context *);
/* Makes a context of the same device and options that has its own last error and reports to nobody, for one
 * of many compilations at a time. NULL when out of memory. The caller releases it. */
tile_context *context_share(tile_context *);
void module_release(tile_module *);
void *context_alloc(tile_context *, size_t); /* zeroed; NULL when out of memory */
void context_free(tile_context *, void *, size_t);
static inline bool context_sealed(const tile_context *c)
{ return atomic_load_explicit(&c->sealed, memory_order_relaxed) != 0; }
/* Passes the diagnostics of a session to the callback. The first error becomes the context's last error. */
void context_report(tile_context *, Session *, const char *kernel);
void context_print(tile_context *, const char *line, const char *with_newline, const char *kernel);
void context_debug(tile_context *, const char *text, const char *kernel);
/* Passes the dump of a pass to the diagnostics callback. */
void context_dump(void *context, const char *pass, const char *text);
bool context_debug_has(const tile_context *, const char *what); /* "time" */
/* The context's part of a cache key, made at the first use, because it asks the vendor's compiler for its
 * version. */
const char *context_key(tile_context *);
CompileOptions context_compile_options(tile_context *);
/* --- counters.c --- */

/* Takes the memory of counters before the first launch; false with the error set: there is none. */
bool context_makes_counters(tile_context *);
void context_free_counters(tile_context *);
/* Address of the counter for a launch on `stream`; NULL with the error set when there are no more. */
void *context_counter(tile_context *, void *stream);
/* The same for a stream that is known by its number (DriverOps.stream_number); *workspace: the place of its
 * workspace. */
void *context_numbered_counter(tile_context *, uint64_t number, StreamWorkspace *_Atomic **workspace);

/* --- workspace.c --- */

/* Whether a launch can take memory in the order of its stream. Makes the pool for it. */
bool context_has_scratch(tile_context *);
/* What a launch that needs a workspace and is given none works with. */
typedef struct Borrowed {
    void *workspace, *counter;
    StreamWorkspace *kept; /* the workspace is this one, whose lock is held; NULL: it is the launch's own */
} Borrowed;
/* To be given back when the launch has been handed to the driver. `title` is for the context's error. */
tile_status context_borrow(tile_context *, void *stream, size_t bytes, const char *title, Borrowed *);
tile_status context_give_back(tile_context *, void *stream, const char *title, const Borrowed *);
/* Frees what is kept for a stream that is about to be destroyed, or of all of them. */
void context_forget_stream(tile_context *, void *stream);
void context_free_workspaces(tile_context *);

/* The address of a tensor's first element, computed with integers: the pointer may be NULL or on a device,
 * and byte_offset may be any number. */
static inline char *dl_address(const DLTensor *t)
{ return t->data ? (char *)((uintptr_t)t->data + t->byte_offset) : NULL; }

DType dtype_of_public(tile_dtype); /* DT_COUNT for TILE_NONE or an invalid value */
tile_dtype dtype_to_public(DType);
/* Size of a caller's descriptor that is at least `least` and at most `most` bytes long, copied to a zeroed
 * one of ours. */
bool context_take_desc(void *ours, size_t most, const void *theirs, size_t least);

/* Calls fn(p) on a stack that is large enough for compilations (ir/support/stack.h). If there is no memory
 * for a stack, fn is not called, and the status is that of the context's failure. */
tile_status context_on_stack(tile_context *, void (*fn)(void *), void *p);
/* Calls fn(session, p) on such a stack, with a session that begins and ends here. The status is fn's, or that
 * of the failure: no memory for the stack, or a jump to the session's recovery point. kernel: for its text.
 */
tile_status context_in_session(
    tile_context *, const char *kernel, tile_status (*fn)(Session *, void *), void *p);
/* The status, with its text, of a jump to the session's recovery point. */
tile_status context_session_failed(tile_context *, Session *, int jumped, const char *kernel);
/* Parses and checks a module's text in a fresh session. NULL after diagnostics. */
Ast *module_parse(tile_module *, Session *);
