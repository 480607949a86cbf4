/* fake_compiler.c: NVRTC or hipRTC and nvJitLink of the fake libraries (fake_gpu.h). A binary that the
 * compiler makes is the text of the program behind a mark. */
#define _GNU_SOURCE
#include "fake_driver.h"
#include <stdbool.h>
#include <stdio.h>

typedef struct Program {
    char *text, log[512];
} Program;

EXPORT int N(nvrtcVersion, hiprtcVersion)(int *major, int *minor)
{
    WRITE_DOWN(f->versions++);
    *major = 13;
    *minor = 0;
    return 0;
}

EXPORT int N(nvrtcCreateProgram, hiprtcCreateProgram)(
    void **p, const char *text, const char *name, int n, const char *const *h, const char *const *i)
{
    ENTER();
    Program *q = calloc(1, sizeof *q);
    q->text = strdup(text);
    *p = q;
    return 0;
}

/* What ptxas says of a kernel. */
static const char *resources(const char *text)
{
    int threads, ctas = 0;
    const char *bounds = strstr(text, "__launch_bounds__(");
    if (bounds) sscanf(bounds, "__launch_bounds__(%d, %d)", &threads, &ctas);
    static _Thread_local char text_of[100];
    int spills =
        (fake.spills_at && ctas >= fake.spills_at) || (fake.spills_in[0] && strstr(text, fake.spills_in));
    snprintf(text_of, sizeof text_of,
        "    8 bytes stack frame, %d bytes spill stores, 16 bytes spill loads\n",
        spills      ? fake.spills
        : fake.used ? 0
                    : 12);
    return text_of;
}

EXPORT int N(nvrtcCompileProgram, hiprtcCompileProgram)(void *p, int n, const char *const *options)
{
    ENTER();
    Program *q = p;
    char all[512] = "";
    if (strstr(q->text, "void prepare(")) { /* nobody's kernel */
        WRITE_DOWN(f->prepares++);
        return 0;
    }
    for (int i = 0; i < n; i++) {
        size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s ", options[i]);
    }
    if (fake.on_compile) fake.on_compile();
    if (fake.crash_arch[0] && strstr(all, fake.crash_arch)) abort();
    WRITE_DOWN(f->compiles++, memcpy(f->options, all, sizeof all),
        snprintf(f->program, sizeof f->program, "%s", q->text));
    bool fails = fake.compile_error[0] || (fake.fails_at && fake.compiles == fake.fails_at);
    if (fails)
        snprintf(q->log, sizeof q->log, "%s",
            fake.compile_error[0] ? fake.compile_error : "error: no such luck\n");
    else
        snprintf(q->log, sizeof q->log, "%s%sptxas info    : Used %d %s",
            "ptxas info    : Compiling entry function 'k' for 'sm_90a'\nptxas info    : Function "
            "properties for k\n",
            resources(q->text), fake.used ? fake.used : 40,
            "registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]\n");
    return fails ? 6 : 0;
}

EXPORT int N(nvrtcDestroyProgram, hiprtcDestroyProgram)(void **p)
{
    free(((Program *)*p)->text);
    free(*p);
    return 0;
}
EXPORT int N(nvrtcGetProgramLogSize, hiprtcGetProgramLogSize)(void *p, size_t *n)
{
    *n = strlen(((Program *)p)->log) + 1;
    return 0;
}
EXPORT int N(nvrtcGetProgramLog, hiprtcGetProgramLog)(void *p, char *s)
{
    strcpy(s, ((Program *)p)->log);
    return 0;
}
EXPORT int N(nvrtcGetCUBINSize, hiprtcGetCodeSize)(void *p, size_t *n)
{
    *n = 8 + strlen(((Program *)p)->text);
    return 0;
}
EXPORT int N(nvrtcGetCUBIN, hiprtcGetCode)(void *p, char *s)
{
    memcpy(s, "FAKEBIN:", 8);
    memcpy(s + 8, ((Program *)p)->text, strlen(((Program *)p)->text));
    return 0;
}
EXPORT const char *N(nvrtcGetErrorString, hiprtcGetErrorString)(int e) { return "error of the compiler"; }
#ifndef FAKE_HIP
EXPORT int nvrtcGetPTXSize(void *p, size_t *n)
{
    *n = 12;
    return 0;
}
EXPORT int nvrtcGetPTX(void *p, char *s)
{
    memcpy(s, "FAKEBIN-PTX", 12);
    return 0;
}
EXPORT int nvrtcGetNumSupportedArchs(int *n)
{
    *n = fake.n_supported;
    return 0;
}
EXPORT int nvrtcGetSupportedArchs(int *l)
{
    memcpy(l, fake.supported_archs, (size_t)fake.n_supported * sizeof *l);
    return 0;
}

/* --- nvJitLink --------------------------------------------------------------------------------------- */

EXPORT int nvJitLinkCreate(void **h, uint32_t n, const char **options)
{
    *h = calloc(1, 1);
    WRITE_DOWN(f->links++, snprintf(f->options, sizeof f->options, "%s", n ? options[0] : ""));
    return 0;
}
EXPORT int nvJitLinkAddData(void *h, int kind, const void *data, size_t n, const char *name)
{ return fake.refuse_link || kind != 2 || memcmp(data, "FAKEBIN-PTX", 11); }
EXPORT int nvJitLinkComplete(void *h) { return 0; }
EXPORT int nvJitLinkDestroy(void **h)
{
    free(*h);
    *h = NULL;
    return 0;
}
EXPORT int nvJitLinkGetErrorLogSize(void *h, size_t *n)
{
    *n = 16;
    return 0;
}
EXPORT int nvJitLinkGetErrorLog(void *h, char *s)
{
    memcpy(s, "linker's words\n", 16);
    return 0;
}
EXPORT int nvJitLinkGetLinkedCubinSize(void *h, size_t *n)
{
    *n = 16;
    return 0;
}
EXPORT int nvJitLinkGetLinkedCubin(void *h, void *s)
{
    memcpy(s, "FAKEBIN:linked\0", 16);
    return 0;
}
#endif
