/* link.c: see link.h. Prototypes and numbers are nvJitLink.h's (CUDA 12 and later). */
#define _GNU_SOURCE
#include "runtime/drivers/link.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { INPUT_PTX = 2 };

typedef struct Linker {
    int (*create)(void **, uint32_t, const char **);
    int (*destroy)(void **);
    int (*add)(void *, int, const void *, size_t, const char *);
    int (*complete)(void *);
    int (*size)(void *, size_t *);
    int (*get)(void *, void *);
    int (*log_size)(void *, size_t *);
    int (*log)(void *, char *);
} Linker;

static bool find(void *library, Linker *l)
{
    const struct {
        void *slot;
        const char *name;
    } symbols[] = {
        { &l->create, "nvJitLinkCreate" },
        { &l->destroy, "nvJitLinkDestroy" },
        { &l->add, "nvJitLinkAddData" },
        { &l->complete, "nvJitLinkComplete" },
        { &l->size, "nvJitLinkGetLinkedCubinSize" },
        { &l->get, "nvJitLinkGetLinkedCubin" },
        { &l->log_size, "nvJitLinkGetErrorLogSize" },
        { &l->log, "nvJitLinkGetErrorLog" },
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!(*(void **)symbols[i].slot = dlsym(library, symbols[i].name))) return false;
    return true;
}

static void *open_one(const char *path, Linker *l)
{
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library && !find(library, l)) {
        dlclose(library);
        library = NULL;
    }
    return library;
}

static void *open_linker(const char *beside, Linker *l)
{
    static const char *const names[] = { "libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so",
        "/usr/local/cuda/lib64/libnvJitLink.so" };
    const char *named = getenv("TILE_NVJITLINK"), *slash = strrchr(beside, '/');
    char path[600];
    if (named) return open_one(named, l);
    void *library = open_one(beside, l); /* one library with both */
    if (!library && slash &&
        format_text(path, sizeof path, "%.*s/libnvJitLink.so", (int)(slash - beside), beside) <
            (int)sizeof path)
        library = open_one(path, l);
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++) library = open_one(names[i], l);
    return library;
}

static tile_status run(const Linker *l, void *handle, Allocator alloc, DriverBlob *image, DriverError *e)
{
    DriverBlob binary = { 0 };
    size_t n = 0;
    int r = l->add(handle, INPUT_PTX, image->data, image->size + 1, "kernel.ptx");
    if (!r) r = l->complete(handle);
    if (!r) r = l->size(handle, &n);
    if (!r && !driver_blob_resize(alloc, &binary, n + 1)) {
        driver_error(e, "out of memory");
        return TILE_ERROR_OUT_OF_MEMORY;
    }
    if (!r) r = l->get(handle, binary.data);
    if (!r) {
        ((char *)binary.data)[n] = 0;
        binary.size = n;
        driver_blob_free(alloc, image);
        *image = binary;
        return TILE_OK;
    }
    driver_blob_free(alloc, &binary);
    char log[400] = "";
    if (!l->log_size(handle, &n) && n && n <= sizeof log) l->log(handle, log);
    log[strcspn(log, "\n")] = 0;
    driver_error(e, "nvJitLink: error %d%s%s", r, *log ? ": " : "", log);
    return TILE_ERROR_COMPILE;
}

tile_status link_ptx(Allocator alloc, const char *beside, const char *arch, DriverBlob *image, DriverError *e)
{
    Linker l;
    void *library = open_linker(beside, &l), *handle = NULL;
    if (!library) {
        driver_error(
            e, "no nvJitLink on this machine (looked beside NVRTC and for libnvJitLink.so.13 and .12)");
        return TILE_ERROR_UNSUPPORTED;
    }
    char option[40];
    const char *options[] = { option };
    format_text(option, sizeof option, "-arch=%s", arch);
    int r = l.create(&handle, 1, options);
    if (r) driver_error(e, "nvJitLink: error %d for %s", r, option);
    tile_status st = r ? TILE_ERROR_COMPILE : run(&l, handle, alloc, image, e);
    if (handle) l.destroy(&handle);
    dlclose(library);
    return st;
}
