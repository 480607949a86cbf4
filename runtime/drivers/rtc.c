/* rtc.c: see rtc.h. NVRTC and hipRTC have the same functions under two prefixes; hipRTC lies in libamdhip64
 * in HIP 5 and in libhiprtc from HIP 6 on. */
#define _GNU_SOURCE
#include "runtime/drivers/rtc.h"
#include "runtime/context/fork.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct Rtc {
    Allocator alloc;
    TargetKind kind;
    void *library;
    char version[32];
    int major, minor;
    Lock lock; /* guards the list of probed architectures */
    struct {
        char arch[24];
        bool good;
    } probed[16];
    int n_probed;
    int (*get_version)(int *, int *);
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*destroy)(void **);
    int (*log_size)(void *, size_t *);
    int (*log)(void *, char *);
    int (*code_size)(void *, size_t *); /* cubin, code object */
    int (*code)(void *, char *);
    int (*ptx_size)(void *, size_t *); /* NVRTC */
    int (*ptx)(void *, char *);
    int (*n_archs)(int *); /* NVRTC 11.2 and later */
    int (*archs)(int *);
    const char *(*error)(int);
};

static bool find(Rtc *r)
{
    bool nv = r->kind == TARGET_CUDA;
#define SYM(field, nvidia, amd) *(void **)&r->field = dlsym(r->library, nv ? nvidia : amd)
    SYM(get_version, "nvrtcVersion", "hiprtcVersion");
    SYM(create, "nvrtcCreateProgram", "hiprtcCreateProgram");
    SYM(compile, "nvrtcCompileProgram", "hiprtcCompileProgram");
    SYM(destroy, "nvrtcDestroyProgram", "hiprtcDestroyProgram");
    SYM(log_size, "nvrtcGetProgramLogSize", "hiprtcGetProgramLogSize");
    SYM(log, "nvrtcGetProgramLog", "hiprtcGetProgramLog");
    SYM(code_size, "nvrtcGetCUBINSize", "hiprtcGetCodeSize");
    SYM(code, "nvrtcGetCUBIN", "hiprtcGetCode");
    SYM(ptx_size, "nvrtcGetPTXSize", "");
    SYM(ptx, "nvrtcGetPTX", "");
    SYM(n_archs, "nvrtcGetNumSupportedArchs", "");
    SYM(archs, "nvrtcGetSupportedArchs", "");
    SYM(error, "nvrtcGetErrorString", "hiprtcGetErrorString");
#undef SYM
    return r->get_version && r->create && r->compile && r->destroy && r->log_size && r->log && r->code_size &&
           r->code && r->error && (!nv || (r->ptx_size && r->ptx));
}

static const char *const nvrtc_names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
    "libnvrtc.so", NULL };
static const char *const hiprtc_names[] = { "libhiprtc.so", "libhiprtc.so.8", "libhiprtc.so.7",
    "libhiprtc.so.6", "/opt/rocm/lib/libhiprtc.so", "libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.5",
    NULL };

/* A compiler stays in the process: what its C++ library allocated for the process would be lost with it. */
static void *open_compiler(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); }

static void *open_nvrtc_in(const char *root, const char *below)
{
    char path[600];
    if (!root || !*root ||
        format_text(path, sizeof path, "%s%s/libnvrtc.so", root, below) >= (int)sizeof path)
        return NULL;
    return open_compiler(path);
}

static void *open_library(TargetKind kind, const char *path, DriverError *e)
{
    if (path) {
        void *h = open_compiler(path);
        if (!h) driver_error(e, "cannot open the run-time compiler: %s", dlerror());
        return h;
    }
    const char *const *names = kind == TARGET_CUDA ? nvrtc_names : hiprtc_names;
    for (int i = 0; names[i]; i++) {
        void *h = open_compiler(names[i]);
        if (h && (kind == TARGET_CUDA || dlsym(h, "hiprtcCreateProgram"))) return h;
        if (h) dlclose(h);
    }
    void *h = NULL;
    if (kind == TARGET_CUDA && ((h = open_nvrtc_in(getenv("CUDA_PATH"), "/lib64")) ||
                                   (h = open_nvrtc_in(getenv("CUDA_HOME"), "/lib64")) ||
                                   (h = open_nvrtc_in("/usr/local/cuda", "/lib64"))))
        return h;
    driver_error(
        e, kind == TARGET_CUDA
               ? "no NVRTC on this machine (looked for libnvrtc.so.13, .12, .11.2 and under CUDA_PATH)"
               : "no hipRTC on this machine (looked for libhiprtc.so and libamdhip64.so)");
    return NULL;
}

tile_status rtc_open(TargetKind kind, const char *path, Allocator alloc, Rtc **out, DriverError *e)
{
    *out = NULL;
    Rtc *r = alloc.realloc(alloc.user, NULL, 0, sizeof *r);
    if (!r) {
        driver_error(e, "out of memory");
        return TILE_ERROR_OUT_OF_MEMORY;
    }
    memset(r, 0, sizeof *r);
    r->alloc = alloc;
    r->kind = kind;
    lock_init(&r->lock);
    r->library = open_library(kind, path, e);
    if (!r->library) {
        rtc_close(r);
        return TILE_ERROR_UNSUPPORTED;
    }
    if (!find(r) || r->get_version(&r->major, &r->minor)) {
        driver_error(e, "the run-time compiler is too old or no %s",
            kind == TARGET_CUDA ? "NVRTC (11.1 or later)" : "hipRTC");
        rtc_close(r);
        return TILE_ERROR_UNSUPPORTED;
    }
    format_text(r->version, sizeof r->version, "%s %d.%d", kind == TARGET_CUDA ? "nvrtc" : "hiprtc", r->major,
        r->minor);
    *out = r;
    return TILE_OK;
}

void rtc_close(Rtc *r)
{
    if (!r) return;
    if (r->library) dlclose(r->library);
    lock_destroy(&r->lock);
    r->alloc.realloc(r->alloc.user, r, sizeof *r, 0);
}

const char *rtc_version(const Rtc *r) { return r->version; }

void rtc_path(const Rtc *r, char *out, size_t room)
{
    Dl_info info;
    format_text(out, room, "%s",
        dladdr(*(void *const *)&r->get_version, &info) && info.dli_fname ? info.dli_fname : "");
}

/* Waits at most 30 s for a child. True if it ended with status 0. */
static bool child_succeeds(pid_t pid)
{
    const struct timespec nap = { 0, 2000000 };
    for (int i = 0; i < 15000; i++) {
        int status;
        pid_t r = waitpid(pid, &status, WNOHANG);
        if (r == pid) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (r < 0 && errno != EINTR) return false;
        nanosleep(&nap, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return false;
}

/* Whether this hipRTC can compile for the chip. HIP 5.2 ends the whole process for chips that it does not
 * know. */
static bool probe(Rtc *r, const char *arch)
{
    pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        if (null >= 0) {
            dup2(null, 0);
            dup2(null, 1);
            dup2(null, 2);
        }
        char option[40];
        format_text(option, sizeof option, "--offload-arch=%s", arch);
        const char *options[] = { option };
        void *p = NULL;
        int bad = r->create(&p, "extern \"C\" __attribute__((global)) void k(int *x) { *x = 1; }", "probe", 0,
                      NULL, NULL) ||
                  r->compile(p, 1, options);
        _exit(bad ? 1 : 0);
    }
    return child_succeeds(pid);
}

static bool trusted(Rtc *r, const char *arch)
{
    bool good = false, known = false;
    lock_enter(&r->lock);
    for (int i = 0; i < r->n_probed && !known; i++)
        if (!strcmp(r->probed[i].arch, arch)) {
            good = r->probed[i].good;
            known = true;
        }
    if (!known) {
        good = probe(r, arch);
        if (r->n_probed < (int)(sizeof r->probed / sizeof *r->probed)) {
            format_text(r->probed[r->n_probed].arch, sizeof r->probed->arch, "%s", arch);
            r->probed[r->n_probed++].good = good;
        }
    }
    lock_leave(&r->lock);
    return good;
}

/* The number after `word` before `from`'s end of line, scanning the text backwards from `from`; -1 if absent.
 */
static int number_before(const char *line, const char *after)
{
    const char *p = strstr(line, after);
    if (!p) return -1;
    const char *q = p;
    while (q > line && q[-1] == ' ') q--;
    const char *end = q;
    while (q > line && q[-1] >= '0' && q[-1] <= '9') q--;
    return q == end ? -1 : atoi(q);
}

/* ptxas -v: "Used 168 registers, ..., 400 bytes smem" and "0 bytes stack frame, 0 bytes spill stores, 0 bytes
 * spill loads". */
static void read_ptxas(DriverCompile *c)
{
    char line[512];
    const char *p = c->log.data;
    while (p && *p) {
        size_t n = strcspn(p, "\n"), keep = n < sizeof line - 1 ? n : sizeof line - 1;
        memcpy(line, p, keep);
        line[keep] = 0;
        int v;
        if ((v = number_before(line, "bytes stack frame")) > c->stack_bytes) c->stack_bytes = v;
        if ((v = number_before(line, "bytes spill stores")) > c->spill_bytes) c->spill_bytes = v;
        if ((v = number_before(line, "registers")) > c->registers && strstr(line, "Used")) c->registers = v;
        if ((v = number_before(line, "bytes smem")) > c->static_shared_bytes) c->static_shared_bytes = v;
        p += n + (p[n] == '\n');
    }
    if (c->registers >= 0 && c->static_shared_bytes < 0) c->static_shared_bytes = 0;
}

typedef struct Options {
    char text[8][64];
    const char *list[8];
    int n;
    bool ptx;
} Options;

static void add_option(Options *o, const char *fmt, const char *arg)
{
    format_text(o->text[o->n], sizeof o->text[0], fmt, arg);
    o->list[o->n] = o->text[o->n];
    o->n++;
}

/* NVRTC lists the architectures for which it can make binaries. For a later device it makes PTX of its newest
 * one, which the driver compiles. */
static void choose_arch(Rtc *r, const char *arch, RtcForm form, Options *o)
{
    int wanted = atoi(arch + 3), n = 0, list[64], best = 0;
    o->ptx = form == RTC_PTX;
    if (r->n_archs && r->archs && !r->n_archs(&n) && n > 0 && n <= 64 && !r->archs(list)) {
        bool known = false;
        for (int i = 0; i < n; i++) {
            known |= list[i] == wanted;
            if (list[i] <= wanted && list[i] > best) best = list[i];
        }
        if (!known && best) {
            char virtual_arch[24];
            format_text(virtual_arch, sizeof virtual_arch, "compute_%d", best);
            add_option(o, "--gpu-architecture=%s", virtual_arch);
            o->ptx = true;
            return;
        }
    }
    if (form == RTC_PTX) add_option(o, "--gpu-architecture=compute_%s", arch + 3);
    else add_option(o, "--gpu-architecture=%s", arch);
}

/* Whether NVRTC has a cache of its own that an option switches off. What comes from there has no log, so that
 * nothing tells of the registers by which variants are compiled again; libtile's cache keeps that with the
 * code. */
static bool has_cache(const Rtc *r) { return r->major >= 13; }

static void options_of(Rtc *r, const DriverCompile *c, const char *arch, RtcForm form, Options *o)
{
    *o = (Options){ .ptx = false };
    if (r->kind == TARGET_HIP) {
        add_option(o, "--offload-arch=%s", arch);
        add_option(o, "%s", "-O3");
        return;
    }
    choose_arch(r, arch, form, o);
    add_option(o, "%s", "--std=c++17");
    if (!o->ptx) add_option(o, "%s", "--ptxas-options=-v");
    if (!o->ptx && has_cache(r)) add_option(o, "%s", "--no-cache");
    if (c->debug_info) add_option(o, "%s", "--generate-line-info");
}

static tile_status take(Rtc *r, void *program, int (*size_fn)(void *, size_t *), int (*read)(void *, char *),
    DriverBlob *b, bool text)
{
    size_t n = 0;
    if (size_fn(program, &n)) return TILE_ERROR_DRIVER;
    if (!driver_blob_resize(r->alloc, b, n + 1)) return TILE_ERROR_OUT_OF_MEMORY;
    ((char *)b->data)[0] = ((char *)b->data)[n] = 0;
    if (n && read(program, b->data)) return TILE_ERROR_DRIVER;
    b->size = text ? strnlen(b->data, n) : n;
    return TILE_OK;
}

void rtc_prepare(Rtc *r, const char *arch)
{
    Options o = { .ptx = false };
    void *program = NULL;
    if (r->kind != TARGET_CUDA) return;
    choose_arch(r, arch, RTC_BINARY, &o);
    if (r->create(&program, "extern \"C\" __global__ void prepare(int *x) { *x = 1; }", "prepare.cu", 0, NULL,
            NULL))
        return;
    r->compile(program, o.n, o.list);
    r->destroy(&program);
}

/* The first line of a log that contains an error. */
static void first_error(const char *log, DriverError *e)
{
    const char *p = log, *found = log;
    for (; p && *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (memmem(p, strcspn(p, "\n"), "error", 5)) {
            found = p;
            break;
        }
    driver_error(e, "%.*s", (int)strcspn(found, "\n"), found);
}

tile_status rtc_compile(Rtc *r, DriverCompile *c, const char *arch, RtcForm form, DriverError *e)
{
    c->registers = c->spill_bytes = c->stack_bytes = c->static_shared_bytes = -1;
    if (r->kind == TARGET_HIP && !trusted(r, arch)) {
        driver_error(
            e, "%s cannot compile for %s (tried in a child process); a newer ROCm can", r->version, arch);
        return TILE_ERROR_UNSUPPORTED;
    }
    Options o;
    options_of(r, c, arch, form, &o);
    void *program = NULL;
    int res = r->create(&program, c->text, c->name, 0, NULL, NULL);
    if (res) {
        driver_error(e, "%s: %s", r->version, r->error(res));
        return TILE_ERROR_DRIVER;
    }
    res = r->compile(program, o.n, o.list);
    tile_status st = take(r, program, r->log_size, r->log, &c->log, true);
    if (!st && res) {
        if (c->log.size) first_error(c->log.data, e);
        else driver_error(e, "%s: %s", r->version, r->error(res));
        st = TILE_ERROR_COMPILE;
    } else if (!st) {
        st = o.ptx ? take(r, program, r->ptx_size, r->ptx, &c->binary, true)
                   : take(r, program, r->code_size, r->code, &c->binary, false);
        if (!st && r->kind == TARGET_CUDA) read_ptxas(c);
    }
    r->destroy(&program);
    if (st == TILE_ERROR_OUT_OF_MEMORY) driver_error(e, "out of memory");
    else if (st == TILE_ERROR_DRIVER) driver_error(e, "%s gave no result", r->version);
    return st;
}
