/* texts_check.c: launches the kernels of texts.tile with each kind of wrong arguments, through libtile,
 * through the launchers of an object and through its functions of tvm-ffi's ABI, and compares status and
 * text. argv[1]: texts.tile. */
#include "texts.h"
#include <stdio.h>
#include <stdlib.h>
#include <tile/tile.h>

typedef int Launch(const int64_t *, int (*const *)(const uint64_t *, int64_t, int64_t, void *, int32_t),
    const tile_launch_arg *, const int64_t *, const tile_threads *);
typedef struct Any {
    int32_t type;
    uint32_t length;
    union {
        int64_t i;
        double f;
        void *p;
    } v;
} Any;
typedef int Function(void *, const Any *, int32_t, Any *);

typedef struct Entry {
    const char *name;
    Launch *launch;
    const int64_t *plan;
    int (*const *entries)(const uint64_t *, int64_t, int64_t, void *, int32_t);
    const char *(*error)(void);
    Function *function;
} Entry;
#define KERNELS(K) \
    K(scale) K(fixed) K(derived) K(optional) K(many) K(planes) K(twice) K(past) K(wide) K(watched)
#define DECLARE(name) extern Function __tvm_ffi_##name;
KERNELS(DECLARE)
#define ROW(name) { #name, name##__launch, name##__plan, name##__entries, name##__error, __tvm_ffi_##name },
static const Entry entries[] = { KERNELS(ROW) };
enum { N_KERNELS = sizeof entries / sizeof *entries };

static char raised_kind[40], raised_text[900];
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *text);
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *text)
{
    snprintf(raised_kind, sizeof raised_kind, "%s", kind);
    snprintf(raised_text, sizeof raised_text, "%s", text);
}

static tile_context *context;
static tile_kernel *kernels[N_KERNELS];
static int failures, compared;
enum { ALL, NOT_THE_LAUNCHER }; /* what the C launcher's arguments cannot say */

static tile_launch_arg plain(const tile_arg *a)
{
    tile_launch_arg out;
    memset(&out, 0, sizeof out);
    if (a->kind == TILE_ARG_DLTENSOR) {
        const DLTensor *t = a->value.dltensor;
        out.view = (tile_view){ t->data, t->shape, t->strides };
    } else if (a->kind == TILE_ARG_INT) out.word = (uint64_t)a->value.i;
    else if (a->kind == TILE_ARG_FLOAT) {
        float f = (float)a->value.f;
        memcpy(&out.word, &f, sizeof f);
    }
    return out;
}

static Any any(const tile_arg *a)
{
    Any out = { 0, 0, { 0 } };
    if (a->kind == TILE_ARG_DLTENSOR) out = (Any){ 7, 0, { .p = (void *)(uintptr_t)a->value.dltensor } };
    if (a->kind == TILE_ARG_INT) out = (Any){ 1, 0, { .i = a->value.i } };
    if (a->kind == TILE_ARG_FLOAT) out = (Any){ 3, 0, { .f = a->value.f } };
    return out;
}

static void differ(const char *what, const char *who, int got, const char *text, int want, const char *said)
{
    printf("%s: %s says (%d) \"%s\", libtile (%d) \"%s\"\n", what, who, got, text, want, said);
    failures++;
}

static void compare(const char *what, int mode, int want, const char *name, const tile_arg *args, size_t n)
{
    char said[900];
    tile_launch_arg launch[8];
    Any anys[8], result = { 0, 0, { 0 } };
    int k = 0;
    while (strcmp(entries[k].name, name)) k++;
    const Entry *e = &entries[k];
    for (size_t i = 0; i < n; i++) {
        launch[i] = plain(&args[i]);
        anys[i] = any(&args[i]);
    }
    int status = (int)tile_launch(kernels[k], args, n, NULL);
    tile_context_error(context, said, sizeof said);
    compared++;
    if (status != want) differ(what, "the test", want, "", status, said);
    if (mode == ALL) {
        int got = e->launch(e->plan, e->entries, launch, NULL, NULL);
        if (got != status || strcmp(e->error(), said))
            differ(what, "the launcher", got, e->error(), status, said);
    }
    int code = e->function(NULL, anys, (int32_t)n, &result);
    if (code != -1 || strcmp(raised_text, said)) differ(what, "tvm-ffi", code, raised_text, status, said);
    const char *kind = status == TILE_ERROR_DTYPE   ? "TypeError"
                       : status == TILE_ERROR_CHECK ? "RuntimeError"
                                                    : "ValueError";
    if (strcmp(raised_kind, kind)) differ(what, "the kind", code, raised_kind, status, kind);
}

/* --- arguments --------------------------------------------------------------------------------------- */

static float memory[1 << 16];
#define SHAPE(...) ((int64_t[]){ __VA_ARGS__ })
#define RANK(...) ((int)(sizeof(int64_t[]){ __VA_ARGS__ } / 8))
#define F32(at, strides, ...) tensor(memory + (at), 2, 32, strides, RANK(__VA_ARGS__), SHAPE(__VA_ARGS__))
#define I8(at, strides, ...) tensor(memory + (at), 0, 8, strides, RANK(__VA_ARGS__), SHAPE(__VA_ARGS__))
#define I32(at, strides, ...) tensor(memory + (at), 0, 32, strides, RANK(__VA_ARGS__), SHAPE(__VA_ARGS__))
#define CASE(what, mode, status, kernel, ...) \
    compare(what, mode, status, kernel, (tile_arg[]){ __VA_ARGS__ }, \
        sizeof(tile_arg[]){ __VA_ARGS__ } / sizeof(tile_arg))
#define A_N tile_arg_float(1), tile_arg_int(1), tile_arg_float(0)

static tile_arg tensor(void *data, int code, int bits, int64_t *strides, int rank, int64_t *shape)
{
    static DLTensor all[1000];
    static int64_t extents[1000][4];
    static int used;
    DLTensor *t = &all[used];
    int64_t *e = extents[used++];
    memcpy(e, shape, 8 * (size_t)rank);
    *t = (DLTensor){ .data = data,
        .device = { kDLCPU, 0 },
        .ndim = rank,
        .dtype = { (uint8_t)code, (uint8_t)bits, 1 },
        .shape = e,
        .strides = strides };
    return tile_arg_dltensor(t);
}

static tile_arg with_data(tile_arg a, void *data)
{
    ((DLTensor *)(uintptr_t)a.value.dltensor)->data = data;
    return a;
}
static tile_arg without_shape(tile_arg a)
{
    ((DLTensor *)(uintptr_t)a.value.dltensor)->shape = NULL;
    return a;
}
static tile_arg elsewhere(tile_arg a)
{
    ((DLTensor *)(uintptr_t)a.value.dltensor)->device = (DLDevice){ kDLVulkan, 3 };
    return a;
}

static void tensors(void)
{
    int64_t far[] = { (int64_t)1 << 47, 1 }, farther[] = { INT64_MAX, 1 }, zero[] = { 0, 1 },
            back[] = { -((int64_t)1 << 47), 1 };
    tile_arg x = F32(0, NULL, 8, 70), y = F32(1000, NULL, 8, 70);
    CASE("null", ALL, TILE_ERROR_INVALID_ARGUMENT, "scale", with_data(F32(0, NULL, 8, 70), NULL), y, A_N);
    CASE("no shape", ALL, TILE_ERROR_INVALID_ARGUMENT, "scale", x, without_shape(F32(0, NULL, 8, 70)), A_N);
    CASE("negative", ALL, TILE_ERROR_SHAPE, "scale", F32(0, NULL, 8, -70), y, A_N);
    CASE("far", ALL, TILE_ERROR_SHAPE, "scale", F32(0, far, 8, 70), y, A_N);
    CASE("farther", ALL, TILE_ERROR_SHAPE, "scale", x, F32(0, farther, 8, 70), A_N);
    CASE("far below", ALL, TILE_ERROR_SHAPE, "scale", x, F32(0, back, 8, 70), A_N);
    CASE("long", ALL, TILE_ERROR_SHAPE, "scale", F32(0, zero, (int64_t)1 << 50, 70), y, A_N);
    CASE("repeated", ALL, TILE_ERROR_OVERLAP, "scale", x, F32(1000, zero, 8, 70), A_N);
    CASE("odd", ALL, TILE_ERROR_ALIGNMENT, "scale", x, with_data(F32(0, NULL, 8, 70), (char *)memory + 4002),
        A_N);
    CASE("overlap", ALL, TILE_ERROR_OVERLAP, "scale", F32(990, NULL, 8, 70), y, A_N);
    CASE("one address", ALL, TILE_ERROR_OVERLAP, "scale", F32(1000, SHAPE(90, 1), 8, 70),
        F32(1000, SHAPE(80, 1), 8, 70), A_N);
    CASE("within", ALL, TILE_ERROR_OVERLAP, "scale", F32(1003, SHAPE(71, 1), 8, 70), y, A_N);
    CASE("two outputs", ALL, TILE_ERROR_OVERLAP, "derived", F32(0, NULL, 8, 70), F32(1000, NULL, 8, 2),
        F32(1002, NULL, 3), F32(2000, NULL, 2), tile_arg_int(0));
    CASE("rows", ALL, TILE_ERROR_SHAPE, "scale", F32(0, NULL, 9, 70), y, A_N);
    CASE("columns", ALL, TILE_ERROR_SHAPE, "scale", F32(0, NULL, 8, 1037), F32(20000, NULL, 8, 1036), A_N);
    CASE("bound", ALL, TILE_ERROR_SHAPE, "fixed", F32(0, NULL, 8, 17), F32(1000, NULL, 8), );
    CASE("left out", ALL, TILE_ERROR_SHAPE, "optional", F32(0, NULL, 5), tile_arg_none(), F32(1000, NULL, 6));
    CASE("an optional one", ALL, TILE_ERROR_SHAPE, "optional", F32(0, NULL, 5), F32(50, NULL, 4),
        F32(1000, NULL, 5));
    CASE("the first of two faults", ALL, TILE_ERROR_SHAPE, "scale", F32(0, NULL, 8, -1),
        with_data(F32(0, NULL, 8, 70), NULL), A_N);
    CASE("rows before an address", ALL, TILE_ERROR_SHAPE, "derived", F32(0, NULL, 8, 70),
        F32(1000, NULL, 9, 2), with_data(F32(0, NULL, 3), NULL), F32(2000, NULL, 2), tile_arg_int(0));
}

static void extents(void)
{
    tile_arg x = F32(0, NULL, 8, 70), s = F32(1000, NULL, 8, 2), t = F32(1100, NULL, 3),
             u = F32(1200, NULL, 2), k = tile_arg_int(0);
    int64_t still[] = { 0 }, flat[] = { 0, 0 };
    CASE("derived", ALL, TILE_ERROR_SHAPE, "derived", x, F32(1000, NULL, 8, 3), t, F32(1200, NULL, 3), k);
    CASE("derived, of two", ALL, TILE_ERROR_SHAPE, "derived", x, s, t, F32(1200, NULL, 3), k);
    CASE("constant", ALL, TILE_ERROR_SHAPE, "derived", x, s, F32(1100, NULL, 4), u, k);
    CASE("programs", ALL, TILE_ERROR_GRID, "many", I8(0, still, (int64_t)1 << 31), I32(1000, NULL, 1), );
    CASE("planes", ALL, TILE_ERROR_GRID, "planes", I8(0, flat, 65536, 65536), I32(1000, NULL, 1), );
    CASE("one place twice", ALL, TILE_ERROR_REMAP, "twice", I32(0, NULL, 7), );
    CASE("too many to check", ALL, TILE_ERROR_REMAP, "wide", I8(0, NULL, (int64_t)1 << 25), );
    CASE("past the end", ALL, TILE_ERROR_REMAP, "past", I32(0, NULL, 7), );
}

static void calls(void)
{
    tile_arg x = F32(0, NULL, 8, 70), y = F32(1000, NULL, 8, 70), one = tile_arg_int(1),
             half = tile_arg_float(0.5);
    CASE("type", NOT_THE_LAUNCHER, TILE_ERROR_DTYPE, "scale", x, I32(1000, NULL, 8, 70), A_N);
    CASE("width", NOT_THE_LAUNCHER, TILE_ERROR_DTYPE, "scale", tensor(memory, 4, 16, NULL, 2, SHAPE(8, 70)),
        y, A_N);
    CASE("device", NOT_THE_LAUNCHER, TILE_ERROR_DEVICE, "scale", elsewhere(F32(0, NULL, 8, 70)), y, A_N);
    CASE("rank", NOT_THE_LAUNCHER, TILE_ERROR_SHAPE, "scale", F32(0, NULL, 8, 70, 1), y, A_N);
    CASE("none", NOT_THE_LAUNCHER, TILE_ERROR_INVALID_ARGUMENT, "scale", x, tile_arg_none(), A_N);
    CASE("no tensor", NOT_THE_LAUNCHER, TILE_ERROR_DTYPE, "scale", x, one, A_N);
    CASE("count", NOT_THE_LAUNCHER, TILE_ERROR_INVALID_ARGUMENT, "scale", x, y, one);
    CASE("no number", NOT_THE_LAUNCHER, TILE_ERROR_DTYPE, "scale", x, y, x, one, half);
    CASE("no integer", NOT_THE_LAUNCHER, TILE_ERROR_DTYPE, "scale", x, y, half, half, half);
    CASE("too large", NOT_THE_LAUNCHER, TILE_ERROR_DTYPE, "scale", x, y, half, tile_arg_int(128), half);
    CASE("rows before a type", NOT_THE_LAUNCHER, TILE_ERROR_SHAPE, "derived", F32(0, NULL, 8, 70),
        F32(1000, NULL, 9, 2), I8(0, NULL, 3), F32(1200, NULL, 2), one);
}

static void checks(void)
{
    for (int i = 0; i < 7; i++) ((int32_t *)memory)[i] = i == 4 ? -1 : 1;
    CASE("the first check", ALL, TILE_ERROR_CHECK, "watched", I32(0, NULL, 7), I32(1000, NULL, 7), );
    ((int32_t *)memory)[4] = 100;
    CASE("the second check", ALL, TILE_ERROR_CHECK, "watched", I32(0, NULL, 7), I32(1000, NULL, 7), );
    memset(memory, 0, 100);
}

int main(int argc, char **argv)
{
    tile_context_desc d = { .struct_size = sizeof d, .target = "cpu", .flags = TILE_CONTEXT_CHECKED };
    tile_binding sixteen = { "D", TILE_BIND_INT, { .i = 16 } };
    tile_module *module;
    if (argc < 2 || tile_context_create(&d, &context) ||
        tile_module_load_file(context, argv[1], NULL, &module))
        return puts("no module"), 1;
    for (int k = 0; k < N_KERNELS; k++) {
        bool bound = !strcmp(entries[k].name, "fixed");
        if (tile_kernel_create(module, entries[k].name, bound ? &sixteen : NULL, bound, &kernels[k]))
            return puts("no kernel"), 1;
    }
    tensors();
    extents();
    calls();
    checks();
    for (int k = 0; k < N_KERNELS; k++) tile_kernel_destroy(kernels[k]);
    tile_module_destroy(module);
    tile_context_destroy(context);
    if (!failures) printf("%d texts as in libtile\n", compared);
    return failures != 0;
}
