/* pitch_copy.c: the launches of a copy: by tile kernels of this file, two tensors a launch where one kernel
 * serves both, and then the kernel itself, in memory that is allocated and freed in the order of the stream.
 * Compare pitch.c, which decides. */
#define _GNU_SOURCE
#include "runtime/launch/pitch.h"

static const char pitch_text[] =
    "kernel pitch(in T X[N, C], out T Y[N, C], const type T = i16, const int TN = 16, const int TC = 256)\n"
    "    grid (cdiv(C, TC), cdiv(N, TN))\n"
    "{\n"
    "    let (j, i) = program_id();\n"
    "    store(Y[i*TN +: TN, j*TC +: TC], load(X[i*TN +: TN, j*TC +: TC], cache = stream));\n"
    "}\n"
    "kernel pitch_two(in T X[N, C], out T Y[N, C], in T U[P, D], out T V[P, D], const type T = i16,\n"
    "    const int TN = 16, const int TC = 256) grid (cdiv(N, TN)*cdiv(C, TC) + cdiv(P, TN)*cdiv(D, TC))\n"
    "{\n"
    "    let w = program_id();\n"
    "    let first = cdiv(N, TN)*cdiv(C, TC);\n"
    "    if (w < first) {\n"
    "        let i = w / cdiv(C, TC);\n"
    "        let j = w % cdiv(C, TC);\n"
    "        store(Y[i*TN +: TN, j*TC +: TC], load(X[i*TN +: TN, j*TC +: TC], cache = stream));\n"
    "    } else {\n"
    "        let left = i32(w - first);\n"
    "        let i = left / i32(cdiv(D, TC));\n"
    "        let j = left % i32(cdiv(D, TC));\n"
    "        store(V[i*TN +: TN, j*TC +: TC], load(U[i*TN +: TN, j*TC +: TC], cache = stream));\n"
    "    }\n"
    "}\n"
    "kernel transposed(in T X[N, C], out T Y[C, N], const type T = i16, const int TN = 64, const int TC = "
    "64)\n"
    "    grid (cdiv(C, TC), cdiv(N, TN))\n"
    "{\n"
    "    let (j, i) = program_id();\n"
    "    store(Y[j*TC +: TC, i*TN +: TN], load(X[i*TN +: TN, j*TC +: TC], order = (1, 0)));\n"
    "}\n";

static const char converted_text[] =
    "kernel converted(in S X[N, C], out T Y[N, C], const type S = f32, const type T = bf16,\n"
    "    const int TN = 16, const int TC = 256) grid (cdiv(C, TC), cdiv(N, TN))\n"
    "{\n"
    "    let (j, i) = program_id();\n"
    "    store(Y[i*TN +: TN, j*TC +: TC], T(load(X[i*TN +: TN, j*TC +: TC], cache = stream)));\n"
    "}\n";

/* SIZES: of an element, 1, 2 and 4 bytes; WIDTHS: of a tile, 64, 128 and 256 columns. */
enum { SIZES = 3, WIDTHS = 3, LEAST_WIDTH = 64, TILE_ELEMENTS = 4096 };

/* The kernels that copy: one tensor, by the width of a tile; two; that transpose one. */
enum { TWO = WIDTHS, TRANSPOSE = 2 * WIDTHS, KERNELS };
struct Pitcher {
    tile_module *module;
    tile_kernel *kernel[SIZES][KERNELS];
};

/* The kernels that convert and compute the inputs of a form. */
struct Converter {
    tile_module *module;
    tile_kernel *kernel[MAX_PARAMS]; /* by parameter; NULL: it is not converted */
};

/* The width of the tiles of a copy, as a power of two of LEAST_WIDTH. */
static int width_of(const PitchedTensor *t)
{
    int width = 0;
    while (width < WIDTHS - 1 && LEAST_WIDTH << width < t->columns) width++;
    return width;
}

bool pitch_go_together(const tile_kernel *k, const Pitch *p, int i)
{
    const PitchedTensor *t = &p->tensor[i];
    return i + 1 < p->n && !t[0].converted && !t[1].converted && !t[0].transposed && !t[1].transposed &&
           width_of(&t[0]) == width_of(&t[1]) && k->params[t[0].param].size == k->params[t[1].param].size;
}

/* --- the launch -------------------------------------------------------------------------------------- */

static void close_pitcher(tile_context *c, struct Pitcher *p)
{
    for (int i = 0; i < SIZES * KERNELS; i++) tile_kernel_destroy(p->kernel[i / KERNELS][i % KERNELS]);
    tile_module_destroy(p->module);
    context_free(c, p, sizeof *p);
}

void pitch_close_copies(tile_kernel *k)
{
    struct Pitcher *p = atomic_load(&k->pitcher);
    if (p) close_pitcher(k->context, p);
}

static void close_converter(tile_context *c, struct Converter *p)
{
    for (int i = 0; i < MAX_PARAMS; i++) tile_kernel_destroy(p->kernel[i]);
    tile_module_destroy(p->module);
    context_free(c, p, sizeof *p);
}

void pitch_close_converter(tile_context *c, ConvertedForm *f)
{
    struct Converter *p = atomic_load(&f->converter);
    if (p) close_converter(c, p);
}

enum { COMPUTED_NAME = 24 };

static void computed_name(char name[COMPUTED_NAME], int param)
{ format_text(name, COMPUTED_NAME, "computed_%d", param); }

/* The positions of an access: `leading` axes of one element, the rows, and columns from `from` on. */
static void write_place(Text *t, int leading, bool rows, bool columns, int64_t from, int64_t width)
{
    text_puts(t, "[");
    for (int a = 0; a < leading; a++) text_printf(t, "b%d, ", a);
    if (rows) text_puts(t, "i*TN +: TN");
    if (columns) text_printf(t, "%s%lld +: %lld", rows ? ", " : "", (long long)from, (long long)width);
    text_puts(t, "]");
}

static void write_dims(Text *t, int leading, bool rows, const char *columns)
{
    text_puts(t, "[");
    for (int a = 0; a < leading; a++) text_printf(t, "A%d, ", a);
    if (rows) text_puts(t, "N");
    if (*columns) text_printf(t, "%s%s", rows ? ", " : "", columns);
    text_puts(t, "]");
}

/* A kernel that computes whole rows: a program for some rows of each of the leading axes' elements. Tensors
 * of fewer axes have a row for each of the rows, or are vectors for rows or columns. */
static void write_rows(Text *t, const tile_kernel *k, const ComputedInput *c, const char *name)
{
    const KernelParam *host = &k->params[c->from[0].param];
    int leading = host->rank - 2;
    text_printf(t, "kernel %s(", name);
    for (int i = 0; i < c->n; i++) {
        const ComputedFrom *from = &c->from[i];
        const KernelParam *q = &k->params[from->param];
        int own = from->axis == 1 ? 0 : q->rank - (from->axis < 0 ? 2 : 1);
        char columns[COMPUTED_NAME];
        format_text(columns, sizeof columns, from->axis ? "C%d" : "", from->param);
        text_printf(t, "in %s X%d", dtype_name(q->dtype), i);
        write_dims(t, own, from->axis != 1, columns);
        text_puts(t, ", ");
    }
    text_printf(t, "out %s Y", dtype_name(c->to));
    write_dims(t, leading, true, "C");
    text_puts(t, ", const int TN = 16)\n    grid (cdiv(N, TN)");
    for (int a = leading - 1; a >= 0; a--) text_printf(t, ", A%d", a);
    text_puts(t, ")\n{\n    let (i");
    for (int a = leading - 1; a >= 0; a--) text_printf(t, ", b%d", a);
    text_puts(t, ") = program_id();\n");
    for (int i = 0; i < c->n; i++) {
        const ComputedFrom *from = &c->from[i];
        int own = from->axis == 1 ? 0 : k->params[from->param].rank - (from->axis < 0 ? 2 : 1);
        text_printf(t, "    let x%d = load(X%d", i, i);
        write_place(t, own, from->axis != 1, from->axis != 0, from->plus, from->width);
        text_puts(t, ");\n");
    }
    text_printf(t, "%s    store(Y", c->body);
    write_place(t, leading, true, true, 0, c->columns);
    text_puts(t, ", y);\n}\n");
}

/* The kernel that computes the input, as text. */
static void write_computed(Text *t, const tile_kernel *k, const ComputedInput *c)
{
    char name[COMPUTED_NAME];
    computed_name(name, c->from[0].param);
    if (c->columns) {
        write_rows(t, k, c, name);
        return;
    }
    text_printf(t, "kernel %s(", name);
    for (int i = 0; i < c->n; i++)
        text_printf(t, "in %s X%d%s, ", dtype_name(k->params[c->from[i].param].dtype), i,
            c->from[i].axis < 0 ? "[N, C]"
            : c->from[i].axis   ? "[C]"
                                : "[N]");
    text_printf(t, "out %s Y[N, C]", dtype_name(c->to));
    for (int i = 0; i < c->n; i++) text_printf(t, ", index at%d", i);
    text_puts(t, ", const int TN = 16, const int TC = 256)\n    grid (cdiv(C, TC), cdiv(N, TN))\n{\n"
                 "    let (j, i) = program_id();\n");
    for (int i = 0; i < c->n; i++) {
        bool far = c->from[i].dim >= 0 || c->from[i].plus;
        int64_t axis = c->from[i].axis;
        if (axis >= 0)
            text_printf(t, "    let x%d = load(X%d[%s]);\n", i, i, axis ? "j*TC +: TC" : "i*TN +: TN");
        if (axis >= 0) continue;
        text_printf(t, "    let x%d = load(X%d[i*TN +: TN, j*TC", i, i);
        if (far) text_printf(t, " + at%d", i);
        text_puts(t, " +: TC]);\n");
    }
    text_printf(t, "%s    store(Y[i*TN +: TN, j*TC +: TC], y);\n}\n", c->body);
}

typedef struct Loading {
    const tile_kernel *k;
    const ConvertedForm *f; /* NULL: the kernels that copy */
    tile_module **module;
} Loading;

static tile_status load_text(Session *s, void *loading)
{
    Loading *l = loading;
    Text t;
    text_init(&t, &s->arena);
    text_puts(&t, l->f ? converted_text : pitch_text);
    for (int i = 0; l->f && i < l->f->n_computed; i++) write_computed(&t, l->k, &l->f->computed[i]);
    return tile_module_load_memory(l->k->context, "pitch.tile", t.data, t.len, NULL, l->module);
}

static tile_status load_kernels(const tile_kernel *k, const ConvertedForm *f, tile_module **module)
{ return context_in_session(k->context, k->title, load_text, &(Loading){ k, f, module }); }

/* No launch of a copy chooses warps. */
static tile_status copying_kernel(
    tile_module *m, const char *name, const tile_binding *b, size_t n, tile_kernel **out)
{
    tile_status st = tile_kernel_create(m, name, b, n, out);
    if (!st) (*out)->copies = true;
    return st;
}

/* The kernel that converts or computes the input. */
static tile_status make_converting(
    const tile_kernel *k, const ConvertedForm *f, tile_module *m, int param, tile_kernel **out)
{
    const tile_binding b[] = { { "S", TILE_BIND_DTYPE, { .dtype = k->params[param].public } },
        { "T", TILE_BIND_DTYPE, { .dtype = f->kernel->params[param].public } } };
    char name[COMPUTED_NAME];
    if (!converted_by_operations(f, param)) return copying_kernel(m, "converted", b, 2, out);
    computed_name(name, param);
    return copying_kernel(m, name, NULL, 0, out);
}

static tile_status make_converter(const tile_kernel *k, ConvertedForm *f, struct Converter **out)
{
    tile_context *c = k->context;
    struct Converter *p = context_alloc(c, sizeof *p), *other = NULL;
    if (!p) return context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    memset(p, 0, sizeof *p);
    tile_status st = load_kernels(k, f, &p->module);
    for (int i = 0; i < k->n_params && !st; i++)
        if (f->to[i] != DT_COUNT) st = make_converting(k, f, p->module, i, &p->kernel[i]);
    if (st || !atomic_compare_exchange_strong(&f->converter, &other, p)) close_converter(c, p);
    *out = other ? other : p;
    return st;
}

static tile_status make_pitcher(tile_kernel *k, struct Pitcher **out)
{
    static const char *const type[SIZES] = { "i8", "i16", "i32" };
    tile_context *c = k->context;
    struct Pitcher *p = context_alloc(c, sizeof *p), *other = NULL;
    if (!p) return context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    memset(p, 0, sizeof *p);
    tile_status st = load_kernels(k, NULL, &p->module);
    for (int i = 0; i < SIZES * KERNELS && !st; i++) {
        int size = i / KERNELS, w = i % KERNELS;
        int64_t width = LEAST_WIDTH << w % WIDTHS;
        const tile_binding b[] = { { "T", TILE_BIND_TEXT, { .text = type[size] } },
            { "TC", TILE_BIND_INT, { .i = width } },
            { "TN", TILE_BIND_INT, { .i = TILE_ELEMENTS / width } } };
        const char *name = w < TWO ? "pitch" : w < TRANSPOSE ? "pitch_two" : "transposed";
        st = copying_kernel(p->module, name, b, w < TRANSPOSE ? 3 : 1, &p->kernel[size][w]);
    }
    if (st || !atomic_compare_exchange_strong(&k->pitcher, &other, p)) close_pitcher(c, p);
    *out = other ? other : p;
    return st;
}

/* What a copy reads and writes. */
typedef struct Copied {
    int64_t shape[2], written[2], from[2], to[2];
    tile_tensor x, y;
} Copied;

static void copied_of(const PitchedTensor *t, const LaunchArgs *l, Copied *c)
{
    *c = (Copied){ { t->rows, t->columns }, { t->rows, t->columns }, { t->from, 1 }, { t->to, 1 }, { 0 },
        { 0 } };
    if (t->transposed) c->written[0] = t->columns, c->written[1] = t->rows;
    c->x = (tile_tensor){ l->views[t->param].data, c->shape, c->from, 2, TILE_NONE };
    c->y = (tile_tensor){ t->tensor.data, c->written, c->to, 2, TILE_NONE };
}

/* The kernel that copies the tensor, or two of the same kind, in the type of the copy. */
static tile_kernel *copying(const struct Pitcher *p, const PitchedTensor *t, int n)
{
    int which = t->transposed ? TRANSPOSE : width_of(t) + (n == 2 ? TWO : 0);
    return p->kernel[t->size == 4 ? 2 : t->size - 1][which];
}

/* Computes the tensor `y` of its inputs, whatever the order of its axes in memory, or compiles that where `d`
 * is NULL. */
static tile_status compute(
    tile_kernel *by, const ComputedInput *c, const LaunchArgs *l, tile_tensor y, const tile_launch_desc *d)
{
    tile_tensor x[MOST_COMPUTED_FROM];
    tile_arg args[2 * MOST_COMPUTED_FROM + 1];
    for (int i = 0; i < c->n; i++) {
        int p = c->from[i].param, dim = c->from[i].dim;
        x[i] = (tile_tensor){ l->views[p].data, l->views[p].extent, l->strides[p],
            c->columns            ? -1
            : c->from[i].axis < 0 ? 2
                                  : 1,
            TILE_NONE };
        args[i] = tile_arg_tensor(&x[i]);
        args[c->n + 1 + i] = tile_arg_int(c->from[i].plus + (dim < 0 ? 0 : l->dims[dim]));
    }
    args[c->n] = tile_arg_tensor(&y);
    size_t n = c->columns ? (size_t)c->n + 1 : 2 * (size_t)c->n + 1;
    return d ? tile_launch(by, args, n, d) : tile_kernel_compile(by, args, n);
}

/* Launches the copies, or compiles them where `d` is NULL. */
static tile_status copy_all(tile_kernel *k, const Pitch *p, const LaunchArgs *l, const tile_launch_desc *d)
{
    struct Pitcher *pitcher = atomic_load_explicit(&k->pitcher, memory_order_acquire);
    struct Converter *converter = p->converted ? atomic_load(&p->converted->converter) : NULL;
    tile_status st = pitcher ? TILE_OK : make_pitcher(k, &pitcher);
    if (!st && p->converted && !converter) st = make_converter(k, p->converted, &converter);
    for (int i = 0, n; i < p->n && !st; i += n) {
        const PitchedTensor *t = &p->tensor[i];
        Copied c[2];
        n = pitch_go_together(k, p, i) ? 2 : 1;
        for (int j = 0; j < n; j++) copied_of(t + j, l, &c[j]);
        tile_kernel *copy = t->converted ? converter->kernel[t->param] : copying(pitcher, t, n);
        const ComputedInput *computed = t->converted ? converted_by_operations(p->converted, t->param) : NULL;
        if (computed) {
            st = compute(copy, computed, l, t->tensor, d);
            continue;
        }
        const tile_arg args[] = { tile_arg_tensor(&c[0].x), tile_arg_tensor(&c[0].y),
            tile_arg_tensor(&c[n - 1].x), tile_arg_tensor(&c[n - 1].y) };
        st = d ? tile_launch(copy, args, (size_t)n * 2, d) : tile_kernel_compile(copy, args, (size_t)n * 2);
    }
    return st;
}

tile_status pitch_compile(tile_kernel *k, const LaunchArgs *l, const Pitch *p)
{ return copy_all(k, p, l, NULL); }

bool pitch_launch(tile_kernel *k, size_t n_args, const LaunchArgs *l, Pitch *p, const tile_launch_desc *desc,
    tile_status *st)
{
    const DriverOps *ops = k->context->driver->ops;
    Driver *driver = k->context->driver;
    void *memory;
    DriverError e;
    p->for_now = true;
    if (ops->scratch_alloc(driver, p->bytes, desc->stream, &memory, &e)) return false;
    tile_launch_desc plain = { .struct_size = sizeof plain, .stream = desc->stream }, own = *desc;
    own.struct_size = sizeof own;
    pitch_place(p, l, memory);
    *st = copy_all(k, p, l, &plain);
    if (!*st) *st = launch_as_given(p->kernel, p->args, n_args, &own);
    tile_status freed = ops->scratch_free(driver, memory, desc->stream, &e);
    if (freed && !*st) *st = context_driver_fail(k->context, freed, &e, k->title);
    else if (pitch_gives_up(p, *st)) return false;
    if (!*st) pitch_succeeded(p);
    return true;
}
