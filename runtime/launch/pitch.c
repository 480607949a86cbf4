/* pitch.c: inputs whose rows lie where the copy engine (TMA) does not reach, or across what a matrix unit
 * takes.
 *
 *   X: rows of 137 f16, 137 elements apart   --copy-->   X': the same rows, 144 elements apart
 *   launch on X                                         launch on X'
 *
 * TMA takes strides and addresses that are multiples of 16 bytes. Where an input has others, a kernel's own
 * warps bring its elements, in many times as many instructions, and again for each program that reads them.
 * So a launch is estimated in both forms (choose.c), and if the copies pay, they are made first: in memory
 * that is allocated and freed in the order of the stream, by a tile kernel of this file, two tensors a
 * launch where one kernel serves both. Afterwards the kernel itself is launched on the copies, through the
 * ordinary way. In the same manner inputs of two axes and 1 or 4 bytes an element are transposed: of these
 * wgmma takes operands only with K contiguous.
 *
 * Requires: a target with TMA and a driver with memory in the order of streams; a kernel whose configuration
 * is chosen by estimate (a `tune` block, no entry of a table); inputs of 1, 2 or 4 bytes an element with one
 * axis of stride 1, whose other axes form rows at one distance. Not in checked contexts, nor as declared. */
#define _GNU_SOURCE
#include "runtime/launch/pitch.h"
#include "runtime/choice/device_model.h"
#include <math.h>

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

/* SIZES: of an element, 1, 2 and 4 bytes; WIDTHS: of a tile, 64, 128 and 256 columns. */
enum { ROW_GRAIN = 32, PLACE = 256, SIZES = 3, WIDTHS = 3, LEAST_WIDTH = 64, TILE_ELEMENTS = 4096 };
enum { MOST_DECISIONS = 256 }; /* more are made anew by each launch */

/* The kernels that copy: one tensor, by the width of a tile; two; that transpose one. */
enum { TWO = WIDTHS, TRANSPOSE = 2 * WIDTHS, KERNELS };
struct Pitcher {
    tile_module *module;
    tile_kernel *kernel[SIZES][KERNELS];
};

/* What was decided for launches of one key and these extents. */
struct PitchDecision {
    struct PitchDecision *older;
    size_t bytes;
    int number;
    bool copied;         /* tensors out of reach are copied */
    uint64_t transposed; /* a bit for each of the first 64 parameters */
    size_t n;
    uint64_t words[];
};

/* --- which tensors ----------------------------------------------------------------------------------- */

/* Whether some box of the tensor begins where TMA cannot fetch it. */
static bool out_of_reach(const KernelParam *q, const View *v, const int64_t *strides, int unit)
{
    if (!(v->facts & FACT_ALIGNED)) return true;
    for (int a = 0; a < q->rank; a++)
        if (a != unit && v->extent[a] > 1 && strides[a] * q->size % 16) return true;
    return false;
}

/* The axes but the one of stride 1 as rows at one distance. False: they are none, or overlap. */
static bool as_rows(const KernelParam *q, const View *v, const int64_t *strides, int unit, PitchedTensor *t)
{
    int axis[TILE_MAX_RANK], n = 0;
    for (int a = 0; a < q->rank; a++) {
        if (a == unit || v->extent[a] == 1) continue;
        int at = n++;
        for (; at > 0 && strides[axis[at - 1]] < strides[a]; at--) axis[at] = axis[at - 1];
        axis[at] = a;
    }
    if (!n) return false;
    t->columns = v->extent[unit];
    t->rows = 1;
    t->from = strides[axis[n - 1]];
    if (t->from < t->columns) return false;
    for (int k = n - 1; k >= 0; k--) {
        if (strides[axis[k]] != t->from * t->rows) return false;
        t->rows *= v->extent[axis[k]];
    }
    t->to = (t->columns * q->size + ROW_GRAIN - 1) / ROW_GRAIN * ROW_GRAIN / q->size;
    for (int a = 0; a < q->rank; a++)
        t->strides[a] = a == unit ? 1 : v->extent[a] == 1 ? t->to : strides[a] / t->from * t->to;
    return true;
}

/* The two axes of more than one element, exchanged. False: there are others. */
static bool as_transposed(
    const KernelParam *q, const View *v, const int64_t *strides, int unit, PitchedTensor *t)
{
    int other = -1;
    for (int a = 0; a < q->rank; a++) {
        if (a == unit || v->extent[a] == 1) continue;
        if (other >= 0) return false;
        other = a;
    }
    if (other < 0 || v->extent[unit] == 1 || strides[other] < v->extent[unit]) return false;
    t->transposed = true;
    t->columns = v->extent[unit];
    t->rows = v->extent[other];
    t->from = strides[other];
    t->to = (t->rows * q->size + ROW_GRAIN - 1) / ROW_GRAIN * ROW_GRAIN / q->size;
    for (int a = 0; a < q->rank; a++) t->strides[a] = a == other ? 1 : t->to;
    return true;
}

/* The tensors that may be copied: those out of reach; those in `transposed`. */
static void find_tensors(
    const tile_kernel *k, const LaunchArgs *l, bool copied, uint64_t transposed, Pitch *p)
{
    p->n = 0;
    p->bytes = 0;
    for (int i = 0; i < k->n_params && p->n < MOST_PITCHED; i++) {
        const KernelParam *q = &k->params[i];
        const View *v = &l->views[i];
        PitchedTensor *t = &p->tensor[p->n];
        int unit = (int)(v->facts >> FACT_UNIT & 15) - 1;
        bool asked = i < 64 && transposed >> i & 1;
        if (q->kind != PARAM_IN || v->facts & FACT_ABSENT || q->size > 4 || q->rank < 2 || unit < 0) continue;
        t->transposed = false;
        if (!(asked && as_transposed(q, v, l->strides[i], unit, t)) &&
            !(copied && out_of_reach(q, v, l->strides[i], unit) && as_rows(q, v, l->strides[i], unit, t)))
            continue;
        t->param = i;
        t->offset = p->bytes;
        p->bytes +=
            ((size_t)((t->transposed ? t->columns : t->rows) * t->to * q->size) + PLACE - 1) / PLACE * PLACE;
        p->n++;
    }
}

/* The tensors of a kernel with products that find_tensors could transpose, in types of which matrix units
 * take one order alone. */
static uint64_t transposable(const tile_kernel *k, const LaunchArgs *l)
{
    uint64_t found = 0;
    Pitch p;
    for (int i = 0; k->front->products && i < k->n_params && i < 64; i++) {
        if (k->params[i].size != 1 && k->params[i].size != 4) continue;
        find_tensors(k, l, false, (uint64_t)1 << i, &p);
        found |= (uint64_t)p.n << i;
    }
    return found;
}

/* Gives the copies their addresses, from `base` on. */
static void place(Pitch *p, const LaunchArgs *l, char *base)
{
    for (int i = 0; i < p->n; i++) {
        PitchedTensor *t = &p->tensor[i];
        t->tensor = (tile_tensor){ base + t->offset, l->views[t->param].extent, t->strides, -1, TILE_NONE };
        p->args[t->param] = tile_arg_tensor(&t->tensor);
    }
}

/* --- whether they are copied ------------------------------------------------------------------------- */

static bool possible(const tile_kernel *k)
{
    const tile_context *c = k->context;
    return k->chooser && c->driver->ops->scratch_alloc && target_has(c->target, TF_TMA) &&
           !(c->flags & (TILE_CONTEXT_CHECKED | TILE_CONTEXT_AS_DECLARED));
}

/* The estimate of a launch with these arguments; 0: there is none. */
static double estimate(tile_kernel *k, const LaunchArgs *l)
{
    uint64_t key[k->key_words];
    if (kernel_key(k, l, key)) return 0;
    return (key[0] >> 8) > 0 && (int)(key[0] >> 8) <= k->n_rows ? 0 : kernel_choice_estimate(k, l, key);
}

/* The width of the tiles of a copy, as a power of two of LEAST_WIDTH. */
static int width_of(const PitchedTensor *t)
{
    int width = 0;
    while (width < WIDTHS - 1 && LEAST_WIDTH << width < t->columns) width++;
    return width;
}

/* Whether one launch copies tensors i and i + 1. */
static bool go_together(const tile_kernel *k, const Pitch *p, int i)
{
    const PitchedTensor *t = &p->tensor[i];
    return i + 1 < p->n && !t[0].transposed && !t[1].transposed && width_of(&t[0]) == width_of(&t[1]) &&
           k->params[t[0].param].size == k->params[t[1].param].size;
}

/* What L2 holds of the copies need not go to memory; but what was written before must leave L2 for them. */
static double copies_take(const tile_kernel *k, const DeviceModel *m, const Pitch *p)
{
    double each = m->launch + m->begin + m->latency + m->memory_latency + m->end, bytes = 0;
    int launches = 0;
    for (int i = 0; i < p->n; i += go_together(k, p, i) ? 2 : 1) launches++;
    for (int i = 0; i < p->n; i++) {
        const PitchedTensor *t = &p->tensor[i];
        bytes += (double)(t->rows * t->to * k->params[t->param].size);
    }
    double most = m->dirty_most * m->l2_bytes;
    double written = fmax(bytes - most, fmin(m->dirty * bytes, most));
    return launches * each + (bytes + written) / (m->copy_memory * m->memory);
}

/* The estimate of the launch on copies, with these; INFINITY: the copies take more than `most`, or there is
 * no estimate. */
static double estimate_copied(
    tile_kernel *k, const DeviceModel *m, const tile_arg *args, const LaunchArgs *l, Pitch *p, double most)
{
    double copies = copies_take(k, m, p);
    if (!p->n || copies > most) return INFINITY;
    memcpy(p->args, args, (size_t)k->n_params * sizeof *args);
    place(p, l,
        (char *)(uintptr_t)4096); /* No address is read: each is aligned, and that is all that counts. */
    LAUNCH_ARGS(copied, k);
    double then = kernel_bind(k, p->args, (size_t)k->n_params, &copied) ? 0 : estimate(k, &copied);
    return then > 0 ? then + copies : INFINITY;
}

/* Transposes one tensor after the other, as long as that is faster. */
static void decide(
    tile_kernel *k, const tile_arg *args, const LaunchArgs *l, uint64_t transposable, struct PitchDecision *d)
{
    const DeviceModel *m = kernel_device_model(k);
    double as_it_is = m ? estimate(k, l) : 0, now = as_it_is;
    Pitch p;
    if (!(as_it_is > 0)) return;
    double most = m->copies_most * as_it_is;
    find_tensors(k, l, true, 0, &p);
    double copied = estimate_copied(k, m, args, l, &p, most);
    d->copied = copied < m->copied_most * as_it_is;
    if (d->copied) now = copied;
    for (int i = 0; i < 64; i++) {
        if (!(transposable >> i & 1)) continue;
        find_tensors(k, l, d->copied, d->transposed | (uint64_t)1 << i, &p);
        double transposed = estimate_copied(k, m, args, l, &p, most);
        if (transposed > m->transposed_most * now) continue;
        d->transposed |= (uint64_t)1 << i;
        now = transposed;
    }
}

/* --- what was decided -------------------------------------------------------------------------------- */

static const struct PitchDecision *recall(const struct PitchDecision *d, const uint64_t *words, size_t n)
{
    while (d && (d->n != n || memcmp(d->words, words, n * sizeof *words))) d = d->older;
    return d;
}

static void remember(tile_kernel *k, struct PitchDecision made, const uint64_t *words, size_t n)
{
    struct PitchDecision *first = atomic_load(&k->decisions), *d = NULL;
    made.bytes = sizeof made + n * sizeof *words;
    made.n = n;
    if (!first || first->number < MOST_DECISIONS) d = context_alloc(k->context, made.bytes);
    if (!d) return;
    *d = made;
    memcpy(d->words, words, n * sizeof *words);
    do {
        d->older = first;
        d->number = first ? first->number + 1 : 1;
    } while (!atomic_compare_exchange_strong(&k->decisions, &first, d));
}

bool pitch_wanted(tile_kernel *k, const tile_arg *args, size_t n, const LaunchArgs *l, Pitch *p)
{
    if (!possible(k)) return false;
    uint64_t asked = transposable(k, l);
    find_tensors(k, l, true, 0, p);
    if (!p->n && !asked) return false;
    size_t n_words = (size_t)(k->key_words + k->n_dims) + 2;
    uint64_t words[n_words];
    if (kernel_key(k, l, words)) return false;
    memcpy(words + k->key_words, l->dims, (size_t)k->n_dims * sizeof *l->dims);
    words[n_words - 2] = asked;
    words[n_words - 1] = p->bytes;
    const struct PitchDecision *known =
        recall(atomic_load_explicit(&k->decisions, memory_order_acquire), words, n_words);
    struct PitchDecision made = { .copied = known && known->copied,
        .transposed = known ? known->transposed : 0 };
    if (!known) {
        decide(k, args, l, asked, &made);
        remember(k, made, words, n_words);
    }
    find_tensors(k, l, made.copied, made.transposed, p);
    memcpy(p->args, args, n * sizeof *args);
    place(p, l, (char *)(uintptr_t)4096);
    return p->n > 0 && k->context->driver->ops->scratch_there(k->context->driver);
}

/* --- the launch -------------------------------------------------------------------------------------- */

static void close_pitcher(tile_context *c, struct Pitcher *p)
{
    for (int i = 0; i < SIZES * KERNELS; i++) tile_kernel_destroy(p->kernel[i / KERNELS][i % KERNELS]);
    tile_module_destroy(p->module);
    context_free(c, p, sizeof *p);
}

void pitch_close(tile_kernel *k)
{
    struct Pitcher *p = atomic_load(&k->pitcher);
    if (p) close_pitcher(k->context, p);
    for (struct PitchDecision *d = atomic_load(&k->decisions), *older; d; d = older) {
        older = d->older;
        context_free(k->context, d, d->bytes);
    }
}

static tile_status make_pitcher(tile_kernel *k, struct Pitcher **out)
{
    static const char *const type[SIZES] = { "i8", "i16", "i32" };
    tile_context *c = k->context;
    struct Pitcher *p = context_alloc(c, sizeof *p), *other = NULL;
    if (!p) return context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    memset(p, 0, sizeof *p);
    tile_status st =
        tile_module_load_memory(c, "pitch.tile", pitch_text, sizeof pitch_text - 1, NULL, &p->module);
    for (int i = 0; i < SIZES * KERNELS && !st; i++) {
        int size = i / KERNELS, w = i % KERNELS;
        int64_t width = LEAST_WIDTH << w % WIDTHS;
        const tile_binding b[] = { { "T", TILE_BIND_TEXT, { .text = type[size] } },
            { "TC", TILE_BIND_INT, { .i = width } },
            { "TN", TILE_BIND_INT, { .i = TILE_ELEMENTS / width } } };
        const char *name = w < TWO ? "pitch" : w < TRANSPOSE ? "pitch_two" : "transposed";
        st = tile_kernel_create(p->module, name, b, w < TRANSPOSE ? 3 : 1, &p->kernel[size][w]);
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

/* Launches the copies, or compiles them where `d` is NULL. */
static tile_status copy_all(tile_kernel *k, const Pitch *p, const LaunchArgs *l, const tile_launch_desc *d)
{
    struct Pitcher *pitcher = atomic_load_explicit(&k->pitcher, memory_order_acquire);
    tile_status st = pitcher ? TILE_OK : make_pitcher(k, &pitcher);
    for (int i = 0, n; i < p->n && !st; i += n) {
        const PitchedTensor *t = &p->tensor[i];
        Copied c[2];
        n = go_together(k, p, i) ? 2 : 1;
        for (int j = 0; j < n; j++) copied_of(t + j, l, &c[j]);
        const tile_arg args[] = { tile_arg_tensor(&c[0].x), tile_arg_tensor(&c[0].y),
            tile_arg_tensor(&c[n - 1].x), tile_arg_tensor(&c[n - 1].y) };
        int size = k->params[t->param].size, which = t->transposed ? TRANSPOSE : width_of(t);
        if (n == 2) which += TWO;
        tile_kernel *copy = pitcher->kernel[size == 4 ? 2 : size - 1][which];
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
    if (ops->scratch_alloc(driver, p->bytes, desc->stream, &memory, &e)) return false;
    tile_launch_desc plain = { .struct_size = sizeof plain, .stream = desc->stream }, own = *desc;
    own.struct_size = sizeof own;
    place(p, l, memory);
    *st = copy_all(k, p, l, &plain);
    if (!*st) *st = launch_as_given(k, p->args, n_args, &own);
    tile_status freed = ops->scratch_free(driver, memory, desc->stream, &e);
    if (freed && !*st) *st = context_driver_fail(k->context, freed, &e, k->title);
    return true;
}
