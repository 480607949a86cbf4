/* context.c: contexts: opening a device, options for compiling, counters. report.c has errors and
 * diagnostics. */
#define _GNU_SOURCE
#include "runtime/context/context.h"
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* --- names ------------------------------------------------------------------------------------------- */

int tile_version(void) { return TILE_VERSION; }

const char *tile_status_name(tile_status st)
{
    switch (st) {
#define NAME(x) \
    case x: return #x;
        NAME(TILE_OK)
        NAME(TILE_ERROR_INVALID_ARGUMENT)
        NAME(TILE_ERROR_OUT_OF_MEMORY)
        NAME(TILE_ERROR_IO)
        NAME(TILE_ERROR_COMPILE)
        NAME(TILE_ERROR_NOT_FOUND)
        NAME(TILE_ERROR_UNSUPPORTED)
        NAME(TILE_ERROR_NO_DEVICE)
        NAME(TILE_ERROR_SHAPE)
        NAME(TILE_ERROR_DTYPE)
        NAME(TILE_ERROR_DEVICE)
        NAME(TILE_ERROR_ALIGNMENT)
        NAME(TILE_ERROR_OVERLAP)
        NAME(TILE_ERROR_GRID)
        NAME(TILE_ERROR_REMAP)
        NAME(TILE_ERROR_WORKSPACE)
        NAME(TILE_ERROR_RESOURCES)
        NAME(TILE_ERROR_DRIVER)
        NAME(TILE_ERROR_DEVICE_FAULT)
        NAME(TILE_ERROR_CHECK)
        NAME(TILE_PENDING)
        NAME(TILE_ERROR_INTERNAL)
        NAME(TILE_ERROR_SEALED)
#undef NAME
    }
    return "unknown status";
}

static const struct {
    tile_dtype pub;
    DType ours;
} dtypes[] = {
    { TILE_BOOL, DT_BOOL },
    { TILE_I8, DT_I8 },
    { TILE_I16, DT_I16 },
    { TILE_I32, DT_I32 },
    { TILE_I64, DT_I64 },
    { TILE_U8, DT_U8 },
    { TILE_U16, DT_U16 },
    { TILE_U32, DT_U32 },
    { TILE_U64, DT_U64 },
    { TILE_F8E4M3, DT_F8E4M3 },
    { TILE_F8E5M2, DT_F8E5M2 },
    { TILE_F16, DT_F16 },
    { TILE_BF16, DT_BF16 },
    { TILE_F32, DT_F32 },
    { TILE_F64, DT_F64 },
    { TILE_INDEX, DT_INDEX },
};

DType dtype_of_public(tile_dtype d)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].pub == d) return dtypes[i].ours;
    return DT_COUNT;
}

tile_dtype dtype_to_public(DType d)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].ours == d) return dtypes[i].pub;
    return TILE_NONE;
}

const char *tile_dtype_name(tile_dtype d)
{
    DType ours = dtype_of_public(d);
    return ours == DT_COUNT ? "none" : dtype_name(ours);
}

size_t tile_dtype_size(tile_dtype d)
{
    DType ours = dtype_of_public(d);
    return ours == DT_COUNT ? 0 : (size_t)dtype_bytes(ours);
}

/* --- memory and descriptors -------------------------------------------------------------------------- */

void *context_alloc(tile_context *c, size_t n)
{
    void *p = c->alloc.realloc(c->alloc.user, NULL, 0, n);
    return p ? memset(p, 0, n) : NULL;
}

void context_free(tile_context *c, void *p, size_t n)
{
    if (p) c->alloc.realloc(c->alloc.user, p, n, 0);
}

enum { MOST_DESCRIPTOR = 64 << 10 }; /* the bytes of a descriptor of any version */

bool context_take_desc(void *ours, size_t most, const void *theirs, size_t least)
{
    size_t n;
    memset(ours, 0, most);
    if (!theirs) return true;
    memcpy(&n, theirs, sizeof n);
    if (n < least || n > MOST_DESCRIPTOR) return false;
    memcpy(ours, theirs, n < most ? n : most);
    return true;
}

/* --- what a compilation takes from the context ------------------------------------------------------- */

/* "dump:cse,time,dump:dce" -> "cse,dce". */
static void collect_dumps(tile_context *c)
{
    size_t at = 0;
    for (const char *p = c->debug; *p; p += strcspn(p, ","), p += *p == ',') {
        size_t n = strcspn(p, ",");
        if (n <= 5 || memcmp(p, "dump:", 5)) continue;
        if (at) c->dump[at++] = ',';
        memcpy(c->dump + at, p + 5, n - 5);
        at += n - 5;
    }
}

CompileOptions context_compile_options(tile_context *c)
{
    CompileOptions o = compile_options_default(c->target);
    o.backend.opt_level = o.passes.opt_level = c->opt_level;
    o.backend.debug_info = c->flags & TILE_CONTEXT_DEBUG_INFO;
    o.backend.early_start = c->flags & TILE_CONTEXT_EARLY_START;
    o.backend.checked = o.passes.check = c->flags & TILE_CONTEXT_CHECKED;
    o.backend.tracked = o.backend.checked && c->driver->ops->kind == TARGET_CPU;
    o.passes.print = c->flags & (TILE_CONTEXT_PRINT | TILE_CONTEXT_CHECKED | TILE_CONTEXT_DEBUG_INFO);
    if (c->dump[0]) {
        o.passes.dump_after = c->dump;
        o.passes.on_dump = context_dump;
        o.passes.dump_user = c;
        o.passes.any_target = true; /* TILE_DEBUG is one setting for all devices of the process. */
    }
    o.passes.time_passes = context_debug_has(c, "time");
    return o;
}

/* Hexadecimal digits of the build id among the notes, if it is there. */
static void build_id_of_notes(const char *p, const char *end, char *hex, size_t room)
{
    while (p + sizeof(ElfW(Nhdr)) <= end) {
        const ElfW(Nhdr) *n = (const ElfW(Nhdr) *)p;
        const unsigned char *desc = (const unsigned char *)p + sizeof *n + ((n->n_namesz + 3) & ~3u);
        if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && !memcmp(p + sizeof *n, "GNU", 4))
            for (unsigned k = 0; k < n->n_descsz && 2 * k + 3 < room; k++)
                format_text(hex + 2 * k, 3, "%02x", desc[k]);
        p = (const char *)desc + ((n->n_descsz + 3) & ~3u);
    }
}

/* The headers of the object that contains this code, from the linker; NULL: they are not in memory. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((weak, visibility("hidden")));

/* The build id of that object, which changes with any change of the compiler; "": it has none. The loader's
 * list of objects has it too (dl_iterate_phdr), behind a lock that another thread may hold when the process
 * forks, and that nobody opens in the child. */
static void build_id(char *hex, size_t room)
{
    const ElfW(Ehdr) *e = &__ehdr_start;
    hex[0] = 0;
    if (!e) return;
    const ElfW(Phdr) *h = (const ElfW(Phdr) *)((const char *)e + e->e_phoff);
    const char *base = NULL; /* of address 0 in the headers */
    for (int i = 0; i < e->e_phnum; i++)
        if (h[i].p_type == PT_LOAD && h[i].p_offset == 0) base = (const char *)e - h[i].p_vaddr;
    for (int i = 0; base && i < e->e_phnum; i++)
        if (h[i].p_type == PT_NOTE)
            build_id_of_notes(base + h[i].p_vaddr, base + h[i].p_vaddr + h[i].p_memsz, hex, room);
}

/* The identity of a library's file: its path, size and time of writing. "" when there is none. */
static void file_identity(const char *path, char *out, size_t room)
{
    struct stat st;
    out[0] = 0;
    if (*path && !stat(path, &st))
        format_text(out, room, "%s %lld %lld.%09ld", path, (long long)st.st_size,
            (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* The version of the vendor's compiler. Loading the compiler takes longer than everything else for a cached
 * kernel. Therefore the cache stores the version for the search path, as long as the file that was found is
 * unchanged. */
static void compiler_version(tile_context *c, char *out, size_t room)
{
    static const char kind[] = "tile-compiler";
    char note[1200], path[600] = "", identity[700], key[sizeof kind + 32];
    Sha256 sha;
    out[0] = 0;
    if (!c->driver->ops->compiler_version) return;
    static const char *const search[] = { "LD_LIBRARY_PATH", "CUDA_PATH", "CUDA_HOME" };
    sha256_init(&sha);
    sha256_add_text(&sha, c->driver->ops->name);
    sha256_add_text(&sha, c->compiler_library);
    for (int i = 0; i < 3; i++) sha256_add_text(&sha, getenv(search[i]) ? getenv(search[i]) : "");
    memcpy(key, kind, sizeof kind);
    sha256_end(&sha, (uint8_t *)key + sizeof kind);
    CacheKey name = cache_note_key(key, sizeof key);
    char *line = cache_read_text(&c->cache, &name, note, sizeof note) ? strchr(note, '\n') : NULL;
    if (line && line - note < (ptrdiff_t)sizeof path) {
        *line = 0; /* The text has the version, then the identity: "path size time". */
        const char *space = strchr(line + 1, ' ');
        if (space && (size_t)(space - line - 1) < sizeof path) {
            format_text(path, sizeof path, "%.*s", (int)(space - line - 1), line + 1);
            file_identity(path, identity, sizeof identity);
            if (*identity && !strcmp(identity, line + 1)) {
                format_text(out, room, "%.63s", note);
                return;
            }
        }
    }
    path[0] = 0;
    format_text(out, room, "%s", c->driver->ops->compiler_version(c->driver, path, sizeof path));
    file_identity(path, identity, sizeof identity);
    if (!*out || !*identity || strchr(path, ' ')) return;
    format_text(note, sizeof note, "%s\n%s", out, identity);
    cache_write(&c->cache, &name, note, strlen(note));
}

const char *context_key(tile_context *c)
{
    lock_enter(&c->lock);
    bool made = c->key_made;
    lock_leave(&c->lock);
    if (made) return c->key;
    char key[sizeof c->key], compiler[64], id[80];
    build_id(id, sizeof id);
    compiler_version(c, compiler, sizeof compiler);
    format_text(key, sizeof key, "%d %s %s|%s|%s|%s|%u|%d|%s", TILE_VERSION, TILE_BUILD_KIND, id,
        c->target->name, c->driver->info.target, compiler,
        c->flags &
            (TILE_CONTEXT_CHECKED | TILE_CONTEXT_DEBUG_INFO | TILE_CONTEXT_PRINT | TILE_CONTEXT_EARLY_START),
        c->opt_level, c->driver->info.name);
    lock_enter(&c->lock);
    /* Written once, because other threads may be reading it. */
    if (!c->key_made) memcpy(c->key, key, sizeof key);
    /* A compiler that could not be queried is queried again. */
    c->key_made |= *compiler || !c->driver->ops->compiler_version;
    lock_leave(&c->lock);
    return c->key;
}

/* --- create and destroy ------------------------------------------------------------------------------ */

static tile_status complain(char *error, size_t room, tile_status st, const char *text)
{
    if (room) format_text(error, room, "%s", text);
    return st;
}

/* "cuda" -> kind; "cuda:sm_80" -> kind and row. */
static bool parse_target(const char *text, TargetKind *kind, const Target **row)
{
    *row = target_find(text);
    if (*row) {
        *kind = (*row)->kind;
        return true;
    }
    if (!strcmp(text, "cuda")) *kind = TARGET_CUDA;
    else if (!strcmp(text, "hip")) *kind = TARGET_HIP;
    else if (!strcmp(text, "cpu")) *kind = TARGET_CPU;
    else return false;
    return true;
}

static tile_status open_driver(
    const tile_context_desc *d, const DriverDesc *dd, Driver **out, const Target **row, DriverError *e)
{
    static const TargetKind all[] = { TARGET_CUDA, TARGET_HIP, TARGET_CPU };
    *row = NULL;
    if (!d->target || !*d->target) {
        tile_status st = TILE_ERROR_NO_DEVICE;
        for (int i = 0; i < 3; i++) {
            if (!driver_backend(all[i])) continue;
            if (!(st = driver_ops(all[i])->open(dd, out, e))) return TILE_OK;
            if (st == TILE_ERROR_OUT_OF_MEMORY) return st;
        }
        if (st == TILE_ERROR_NO_DEVICE && !driver_backend(TARGET_CPU))
            driver_error(e, "no CUDA or HIP device answers, and this build has no CPU backend");
        return st;
    }
    TargetKind kind;
    if (!parse_target(d->target, &kind, row)) {
        driver_error(
            e, "unknown target `%.100s`: cpu, cuda, hip, or a full name such as cuda:sm_90a", d->target);
        return TILE_ERROR_INVALID_ARGUMENT;
    }
    return driver_ops(kind)->open(dd, out, e);
}

/* Whether code for `row` runs on the device. */
static bool runs_on(const Target *row, const Target *device)
{
    if (row == device) return true;
    if (row->kind != device->kind || row->kind != TARGET_CUDA) return false;
    return row->arch <= device->arch && (!target_has(row, TF_ARCH_SPECIFIC) || row->arch == device->arch);
}

static void free_context(tile_context *c)
{
    if (c->parent) context_release(c->parent);
    else if (c->driver) {
        context_free_workspaces(c);
        context_free_counters(c);
        c->driver->ops->close(c->driver);
    }
    lock_destroy(&c->lock);
    lock_destroy(&c->report_lock);
    lock_destroy(&c->counters_lock);
    context_free(c, c->missing, c->missing_bytes);
    context_free(c, c, sizeof *c);
}

static uint64_t next_serial(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static void cache_debug(void *c, const char *text) { context_debug(c, text, NULL); }

static DriverDesc driver_desc(const tile_context_desc *d, Allocator alloc)
{
    return (DriverDesc){ .alloc = alloc,
        .device = d->device,
        .threads = d->threads,
        .run_threads = d->run_threads,
        .run_threads_user = d->run_threads_user,
        .native_context = d->native_context,
        .driver_library = d->driver_library,
        .compiler_library = d->compiler_library };
}

tile_status tile_context_create_error(
    const tile_context_desc *desc, tile_context **out, char *error, size_t room)
{
    FLOAT_STATE_DEFAULT();
    tile_context_desc d;
    if (!out) return complain(error, room, TILE_ERROR_INVALID_ARGUMENT, "tile_context_create: out is NULL");
    *out = NULL;
    if (!context_take_desc(&d, sizeof d, desc, offsetof(tile_context_desc, target)))
        return complain(error, room, TILE_ERROR_INVALID_ARGUMENT,
            "tile_context_create: struct_size of the descriptor is not set");
    if (d.opt_level < -1 || d.opt_level > 3 || d.threads < 0 || d.threads > 4096 || d.workspace_limit < -1)
        return complain(error, room, TILE_ERROR_INVALID_ARGUMENT,
            "tile_context_create: opt_level, threads or workspace_limit out of range");
    Allocator alloc = allocator_libc;
    if (d.allocator.realloc) alloc = (Allocator){ d.allocator.realloc, d.allocator.user };
    tile_context *c = alloc.realloc(alloc.user, NULL, 0, sizeof *c);
    if (!c) return complain(error, room, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    memset(c, 0, sizeof *c);
    c->serial = next_serial();
    c->alloc = alloc;
    lock_init(&c->lock);
    lock_init(&c->report_lock);
    lock_init(&c->counters_lock);
    atomic_store(&c->references, 1);
    c->flags = d.flags;
    c->workspace_limit = d.workspace_limit == 0  ? WORKSPACE_LIMIT
                         : d.workspace_limit < 0 ? 0
                                                 : (size_t)d.workspace_limit;
    c->opt_level = d.opt_level == 0 ? 3 : d.opt_level < 0 ? 0 : d.opt_level;
    c->on_diagnostic = d.on_diagnostic;
    c->on_diagnostic_user = d.on_diagnostic_user;
    const char *debug = d.debug ? d.debug : getenv("TILE_DEBUG");
    if (debug) format_text(c->debug, sizeof c->debug, "%s", debug);
    collect_dumps(c);
    if (d.compiler_library)
        format_text(c->compiler_library, sizeof c->compiler_library, "%s", d.compiler_library);
    DriverError e = { "" };
    const Target *row;
    DriverDesc dd = driver_desc(&d, alloc);
    tile_status st = open_driver(&d, &dd, &c->driver, &row, &e);
    if (st) {
        free_context(c);
        return complain(error, room, st, e.text);
    }
    const Target *device = target_find(c->driver->info.target);
    c->target = row ? row : device;
    c->backend = driver_backend(c->target->kind);
    if (!runs_on(c->target, device)) {
        format_text(e.text, sizeof e.text, "code for %s does not run on %s (%s)", c->target->name,
            c->driver->info.name, device->name);
        free_context(c);
        return complain(error, room, TILE_ERROR_UNSUPPORTED, e.text);
    }
    if (!(c->flags & TILE_CONTEXT_NO_CACHE)) {
        cache_open(&c->cache, alloc, d.cache_directory, d.cache_limit);
        if (context_debug_has(c, "cache")) {
            c->cache.debug = cache_debug;
            c->cache.debug_user = c;
        }
    }
    *out = c;
    return TILE_OK;
}

tile_status tile_context_create(const tile_context_desc *desc, tile_context **out)
{ return tile_context_create_error(desc, out, NULL, 0); }

void context_release(tile_context *c)
{
    if (atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel) == 1) free_context(c);
}

tile_context *context_share(tile_context *of)
{
    tile_context *c = context_alloc(of, sizeof *c);
    if (!c) return NULL;
    c->serial = next_serial();
    c->alloc = of->alloc;
    c->parent = of;
    c->driver = of->driver;
    c->target = of->target;
    c->backend = of->backend;
    c->flags = of->flags;
    c->opt_level = of->opt_level;
    c->cache = of->cache;
    memcpy(c->compiler_library, of->compiler_library, sizeof c->compiler_library);
    memcpy(c->key, context_key(of), sizeof c->key);
    c->key_made = of->key_made;
    lock_init(&c->lock);
    lock_init(&c->report_lock);
    lock_init(&c->counters_lock);
    atomic_store(&c->references, 1);
    atomic_fetch_add(&of->references, 1);
    return c;
}

void tile_context_destroy(tile_context *c)
{
    if (c) context_release(c);
}
