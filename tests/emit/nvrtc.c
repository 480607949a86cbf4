/* nvrtc.c: see nvrtc.h. */
#include "tests/emit/nvrtc.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

bool nvrtc_open(Nvrtc *n)
{
    static const char *const names[] = {
        "libnvrtc.so",
        "libnvrtc.so.13",
        "libnvrtc.so.12",
        "/usr/local/cuda/lib64/libnvrtc.so",
    };
    void *lib = NULL;
    for (size_t k = 0; !lib && k < sizeof names / sizeof *names; k++) lib = dlopen(names[k], RTLD_NOW);
    if (!lib) return false;
    *(void **)&n->create = dlsym(lib, "nvrtcCreateProgram");
    *(void **)&n->compile = dlsym(lib, "nvrtcCompileProgram");
    *(void **)&n->destroy = dlsym(lib, "nvrtcDestroyProgram");
    *(void **)&n->log_size = dlsym(lib, "nvrtcGetProgramLogSize");
    *(void **)&n->log = dlsym(lib, "nvrtcGetProgramLog");
    *(void **)&n->ptx_size = dlsym(lib, "nvrtcGetPTXSize");
    *(void **)&n->ptx = dlsym(lib, "nvrtcGetPTX");
    *(void **)&n->cubin_size = dlsym(lib, "nvrtcGetCUBINSize"); /* may be missing */
    return n->ptx_size && n->ptx && n->create && n->compile && n->destroy && n->log_size && n->log;
}

/* ptx, image: NULL, if they are not asked for. */
static bool compile(
    const Nvrtc *nvrtc, const char *text, const char *arch, char **log, char **ptx, size_t *image)
{
    char option[32];
    void *program = NULL;
    size_t n = 0;
    snprintf(option, sizeof option, "-arch=%s", arch);
    const char *const options[] = { option, "--ptxas-options=-v", "-std=c++17" };
    *log = NULL;
    if (ptx) *ptx = NULL;
    if (image) *image = 0;
    if (nvrtc->create(&program, text, "kernel.cu", 0, NULL, NULL)) return false;
    bool ok = !nvrtc->compile(program, 3, options);
    nvrtc->log_size(program, &n);
    *log = calloc(n + 1, 1);
    if (*log) nvrtc->log(program, *log);
    n = 0;
    if (ok && ptx && !nvrtc->ptx_size(program, &n) && (*ptx = calloc(n + 1, 1))) nvrtc->ptx(program, *ptx);
    if (ok && image && nvrtc->cubin_size) nvrtc->cubin_size(program, image);
    nvrtc->destroy(&program);
    return ok && *log;
}

bool nvrtc_compile(const Nvrtc *nvrtc, const char *text, const char *arch, char **log)
{ return compile(nvrtc, text, arch, log, NULL, NULL); }

bool nvrtc_compile_ptx(const Nvrtc *nvrtc, const char *text, const char *arch, char **log, char **ptx)
{ return compile(nvrtc, text, arch, log, ptx, NULL); }

bool nvrtc_compile_image(const Nvrtc *nvrtc, const char *text, const char *arch, char **log, size_t *image)
{ return compile(nvrtc, text, arch, log, NULL, image); }
