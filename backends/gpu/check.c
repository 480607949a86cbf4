/* check.c: see check.h. Prototypes and numbers are clang-c/Index.h's. */
#define _GNU_SOURCE
#include "backends/gpu/check.h"
#include <dlfcn.h>

typedef struct ClangString {
    const void *data;
    unsigned flags;
} ClangString;
typedef struct ClangLocation {
    const void *data[2];
    unsigned offset;
} ClangLocation;
typedef struct ClangFile {
    const char *name, *text;
    unsigned long size;
} ClangFile;

struct EmissionChecker {
    void *(*create_index)(int, int);
    void (*dispose_index)(void *);
    int (*parse)(void *, const char *, const char *const *, int, ClangFile *, unsigned, unsigned, void **);
    void (*dispose_unit)(void *);
    unsigned (*n_diagnostics)(void *);
    void *(*diagnostic)(void *, unsigned);
    void (*dispose_diagnostic)(void *);
    int (*severity)(void *);
    ClangString (*spelling)(void *);
    ClangLocation (*location)(void *);
    void (*presumed)(ClangLocation, ClangString *, unsigned *, unsigned *);
    void (*spelled)(ClangLocation, void **, unsigned *, unsigned *, unsigned *);
    const char *(*text)(ClangString);
    void (*dispose_string)(ClangString);
    ClangString (*version)(void);
};

static const char *const libraries[] = {
    "libclang-22.so.22",
    "libclang-22.so.1",
    "libclang.so.22",
    "/usr/lib/llvm-22/lib/libclang.so.1",
    "/usr/lib/llvm-22/lib/libclang.so",
    "libclang.so.1",
    "libclang.so",
};

EmissionChecker *emission_checker(Session *s, const char *library, const char **why)
{
    EmissionChecker *c = arena_new(&s->arena, EmissionChecker);
    void *handle = library ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !library && !handle && i < sizeof libraries / sizeof *libraries; i++)
        handle = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    *why = "no libclang on this machine (looked for libclang-22.so.22 and others; TILE_LIBCLANG names one)";
    if (!handle) return NULL;
    const struct {
        void *slot;
        const char *name;
    } symbols[] = {
        { &c->create_index, "clang_createIndex" },
        { &c->dispose_index, "clang_disposeIndex" },
        { &c->parse, "clang_parseTranslationUnit2" },
        { &c->dispose_unit, "clang_disposeTranslationUnit" },
        { &c->n_diagnostics, "clang_getNumDiagnostics" },
        { &c->diagnostic, "clang_getDiagnostic" },
        { &c->dispose_diagnostic, "clang_disposeDiagnostic" },
        { &c->severity, "clang_getDiagnosticSeverity" },
        { &c->spelling, "clang_getDiagnosticSpelling" },
        { &c->location, "clang_getDiagnosticLocation" },
        { &c->presumed, "clang_getPresumedLocation" },
        { &c->spelled, "clang_getSpellingLocation" },
        { &c->text, "clang_getCString" },
        { &c->dispose_string, "clang_disposeString" },
        { &c->version, "clang_getClangVersion" },
    };
    *why = "the libclang here is too old";
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!(*(void **)symbols[i].slot = dlsym(handle, symbols[i].name))) return NULL;
    *why = NULL;
    return c;
}

int emission_checker_version(const EmissionChecker *c)
{
    ClangString words = c->version(); /* "Debian clang version 22.1.8 (...)" */
    const char *at = c->text(words) ? strstr(c->text(words), "version ") : NULL;
    int major = 0;
    for (at += at ? 8 : 0; at && *at >= '0' && *at <= '9' && major < 1000; at++)
        major = 10 * major + (*at - '0');
    c->dispose_string(words);
    return major;
}

/* The names that both compilers give to attributes. */
#define ATTRIBUTES \
    "#define __device__ __attribute__((device))\n#define __global__ __attribute__((global))\n#define " \
    "__shared__ __attribute__((shared))\n" \
    "#define __constant__ __attribute__((constant))\n#define __forceinline__ inline " \
    "__attribute__((always_inline))\n" \
    "#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))\n#define __align__(n) " \
    "__attribute__((aligned(n)))\n"

/* The declarations that NVRTC provides, as far as emitted code uses them. */
static const char cuda_stub[] = ATTRIBUTES
    "#define __grid_constant__ __attribute__((grid_constant))\n#define __cluster_dims__(...)\n"
    "struct tile_index { unsigned x, y, z; };\nextern __device__ const tile_index threadIdx, blockIdx, "
    "blockDim, gridDim;\n"
    "extern \"C\" __device__ int printf(const char *, ...);\n"
    "#define D extern __device__\n"
    "D void __syncthreads(); D void __syncwarp(unsigned = ~0u); D void __threadfence(); D void "
    "__threadfence_block(); D void __threadfence_system(); D void __trap(); D void __nanosleep(unsigned);\n"
    "D float __uint_as_float(unsigned); D unsigned __float_as_uint(float); D int __float_as_int(float); D "
    "float __int_as_float(int);\n"
    "D double __longlong_as_double(long long); D long long __double_as_longlong(double);\n"
    "D float __fdiv_rn(float, float); D float __fsqrt_rn(float); D float __frsqrt_rn(float); D float "
    "__fmaf_rn(float, float, float); D float __fadd_rn(float, float); D float __fmul_rn(float, float); D "
    "double __dmul_rn(double, double); D float __frcp_rn(float);\n"
    "D float __fdividef(float, float); D float __expf(float); D float __logf(float); D float __log2f(float); "
    "D float __sinf(float); D float __cosf(float); D void sincosf(float, float *, float *);\n"
    "D int __float2int_rz(float); D unsigned __float2uint_rz(float); D long long __float2ll_rz(float); D "
    "unsigned long long __float2ull_rz(float);\n"
    "D int __double2int_rz(double); D unsigned __double2uint_rz(double); D long long __double2ll_rz(double); "
    "D unsigned long long __double2ull_rz(double);\n"
    "D float __double2float_rn(double); D float __double2float_rz(double); D double __dadd_rn(double, "
    "double); D double __dmul_rn(double, double);\n"
    "D unsigned __umulhi(unsigned, unsigned); D int __mulhi(int, int); D unsigned long long "
    "__umul64hi(unsigned long long, unsigned long long);\n"
    "D int __clz(int); D int __ffs(int); D int __popc(unsigned); D unsigned __brev(unsigned); D unsigned "
    "__byte_perm(unsigned, unsigned, unsigned); D unsigned __activemask();\n"
    "D unsigned __ballot_sync(unsigned, int); D int __any_sync(unsigned, int); D int "
    "__reduce_add_sync(unsigned, int); D int __reduce_max_sync(unsigned, int); D int "
    "__reduce_min_sync(unsigned, int); D int __all_sync(unsigned, int); D long long clock64();\n"
    "template<class T> D T __shfl_sync(unsigned, T, int, int = 32); template<class T> D T "
    "__shfl_xor_sync(unsigned, T, int, int = 32);\n"
    "template<class T> D T __shfl_up_sync(unsigned, T, unsigned, int = 32); template<class T> D T "
    "__shfl_down_sync(unsigned, T, unsigned, int = 32);\n"
    "template<class T> D T __ldg(const T *); D unsigned long long __cvta_generic_to_shared(const void *);\n"
    "#define A(T) D T atomicAdd(T *, T); D T atomicExch(T *, T); D T atomicMax(T *, T); D T atomicMin(T *, "
    "T); D T atomicAnd(T *, T); D T atomicOr(T *, T); D T atomicXor(T *, T); D T atomicCAS(T *, T, T);\n"
    "A(int) A(unsigned) A(unsigned long long) A(long long)\n#undef A\nD float atomicAdd(float *, float); D "
    "double atomicAdd(double *, double); D float atomicExch(float *, float); D unsigned short "
    "atomicCAS(unsigned short *, unsigned short, unsigned short);\n"
    "#define F(name) D float name##f(float); D double name(double);\n"
    "F(fabs) F(floor) F(ceil) F(rint) F(round) F(trunc) F(sqrt) F(rsqrt) F(exp) F(exp2) F(expm1) F(log) "
    "F(log2) F(log1p) F(sin) F(cos) F(tan) F(tanh) F(erf)\n#undef F\n"
    "D float fmaf(float, float, float); D double fma(double, double, double); D float fminf(float, float); D "
    "float fmaxf(float, float); D double fmin(double, double); D double fmax(double, double);\n"
    "D float ldexpf(float, int); D float copysignf(float, float); D double copysign(double, double); D float "
    "fmodf(float, float); D double fmod(double, double); D int min(int, int); D int max(int, int);\n"
    "#undef D\n";

/* The declarations that hipRTC provides. For everything else, emitted code calls builtins of the compiler. */
static const char hip_stub[] = ATTRIBUTES "extern \"C\" __device__ int printf(const char *, ...);\n";

/* Finds the source of this name and the position of a line in it. Gives no location if the session does not
 * have the source. */
static Loc place(Session *s, const char *name, unsigned line)
{
    for (uint32_t f = 1; diag_source(s, f); f++) {
        const Source *src = diag_source(s, f);
        if (strcmp(src->name, name)) continue;
        uint32_t at = 0;
        for (; line > 1 && at < src->len; at++) line -= src->text[at] == '\n';
        while (at < src->len && (src->text[at] == ' ' || src->text[at] == '\t')) at++;
        uint32_t end = at;
        while (end < src->len && src->text[end] != '\n') end++;
        return (Loc){ f, at, end > at ? end : at + 1 };
    }
    return (Loc){ 0 };
}

static void note_line(Session *s, Diag *d, const char *text, const char *name, unsigned line)
{
    for (unsigned k = 1; k < line && text; k++) text = (text = strchr(text, '\n')) ? text + 1 : NULL;
    if (!text) return;
    size_t n = strcspn(text, "\n"), blank = strspn(text, " ");
    if (blank < n)
        diag_note(s, d, (Loc){ 0 }, "line %u of %s: %.*s", line, name,
            (int)(n - blank > 160 ? 160 : n - blank), text + blank);
}

static bool report(
    EmissionChecker *c, Session *s, const Target *t, void *unit, const char *text, const char *name)
{
    bool good = true;
    for (unsigned i = 0, n = c->n_diagnostics(unit); i < n; i++) {
        void *d = c->diagnostic(unit, i);
        if (c->severity(d) >= 3 && !diag_full(s)) { /* errors; 4: fatal */
            ClangString words = c->spelling(d), file;
            ClangLocation at = c->location(d);
            unsigned line, column, real, offset;
            void *handle;
            c->presumed(at, &file, &line, &column);
            c->spelled(at, &handle, &real, &column, &offset);
            Diag *e = diag_error(s, place(s, c->text(file) ? c->text(file) : "", line),
                "the code emitted for %s is wrong: %s", t->name, c->text(words));
            note_line(s, e, text, name, real);
            c->dispose_string(words);
            c->dispose_string(file);
            good = false;
        }
        c->dispose_diagnostic(d);
    }
    return good;
}

bool emission_check(
    EmissionChecker *c, Session *s, const Target *t, const char *text, size_t size, const char *name)
{
    bool cuda = t->kind == TARGET_CUDA;
    const char *arch = arena_printf(
                   &s->arena, cuda ? "--cuda-gpu-arch=%s" : "--offload-arch=%s", strchr(t->name, ':') + 1),
               *stub = cuda ? cuda_stub : hip_stub;
    const char *const args[] = { "-x", cuda ? "cuda" : "hip", "--cuda-device-only", arch,
        cuda ? "-nocudainc" : "-nogpuinc", cuda ? "-nocudalib" : "-nogpulib", "-std=c++17", "-fms-extensions",
        "-Wno-everything", "-Wuninitialized", "-Werror=uninitialized", "-Wformat", "-Werror=format",
        "-include", "/tile_stub.h" };
    ClangFile files[] = { { name, text, size }, { "/tile_stub.h", stub, strlen(stub) } };
    void *index = c->create_index(0, 0), *unit = NULL;
    int failed = c->parse(index, name, args, sizeof args / sizeof *args, files, 2, 0, &unit);
    bool good = !failed && report(c, s, t, unit, text, name);
    if (failed)
        diag_error(s, (Loc){ 0 }, "libclang cannot read the code emitted for %s (%d)", t->name, failed);
    if (unit) c->dispose_unit(unit);
    c->dispose_index(index);
    return good;
}
