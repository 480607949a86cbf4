/* cost_cached.c: of cost: what loads of one program share. Windows that lie side by side in a tensor, as
 * those of a stencil's taps, have most of their elements in common: the first load brings their sectors from
 * L2, and the others find them in the multiprocessor's own cache. */
#include "runtime/choice/cost/cost_walk.h"

enum { MOST_ROWS_OF_LOAD = 128, SMALL_PART = 4, SMALL_TENSOR = 2 };

/* Sectors from .. to - 1 of a row of a tensor, which some load of a block has brought. */
typedef struct CostRow {
    uint64_t key; /* of the walk, the block, the tensor and the row; 0: an unused entry */
    int64_t from, to;
} CostRow;

enum { MOST_ROWS = 1 << 11 };
struct CostRows {
    CostRow row[MOST_ROWS];
};

/* An axis of a window that has several elements: bytes from one to the next. */
typedef struct WindowAxis {
    int64_t at, n, pitch;
} WindowAxis;

/* A window of a tensor as the walked program has it: rows, in each of which no sector is left out. */
typedef struct Window {
    int64_t place, first;           /* of its first element, in bytes; of it, what the row's own axes make */
    int64_t span;                   /* bytes from the first to the last of a row */
    int64_t rows;                   /* 0: none of it lies inside the tensor */
    WindowAxis axis[TILE_MAX_RANK]; /* between rows */
    int n_axes;
} Window;

static uint64_t mixed(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0xff51afd7ed558ccdull;
    return h ^ h >> 32;
}

/* Clips elements at + k * step, k < n, to an axis of `extent` elements. */
static void clip(int64_t *at, int64_t *n, int64_t step, int64_t extent)
{
    int64_t before = *at < 0 ? (step - 1 - *at) / step : 0;
    if (before > *n) before = *n;
    *at += before * step;
    *n -= before;
    if (*n > 0 && *at + (*n - 1) * step >= extent) *n = *at < extent ? (extent - 1 - *at) / step + 1 : 0;
}

static void sort_by_pitch(WindowAxis *axis, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && axis[k].pitch < axis[k - 1].pitch; k--) {
            WindowAxis x = axis[k];
            axis[k] = axis[k - 1];
            axis[k - 1] = x;
        }
}

/* Makes rows of those axes whose elements lie so near to each other that hardly a sector between them is left
 * out. */
static void join_axes(Window *x, int64_t size, int sector)
{
    WindowAxis *axis = x->axis;
    int n = 0;
    sort_by_pitch(axis, x->n_axes);
    x->span = size;
    for (int k = 0; k < x->n_axes; k++) {
        if (n == 0 && axis[k].pitch <= x->span + sector) {
            x->span += (axis[k].n - 1) * axis[k].pitch;
            x->first += axis[k].at;
        } else axis[n++] = axis[k];
    }
    x->n_axes = n;
    x->rows = 1;
    for (int k = 0; k < n; k++) x->rows *= axis[k].n;
}

/* False: where the window lies is not known. */
static bool find_window(const CostWalk *w, const Instr *load, const MemParts *m, Window *x)
{
    const Param *p = &w->f->params[m->param];
    const Attr *e = ir_attr(load, ATTR_EXTENTS), *steps = ir_attr(load, ATTR_STEPS);
    int64_t pitch = dtype_bytes(p->type->dtype), size = pitch;
    *x = (Window){ 0 };
    if (!e || p->type->kind != TYPE_TENSOR) return false;
    for (int a = p->type->rank - 1; a >= 0; a--) {
        int64_t extent = w->env->dims[p->dims[a]], at, n = a < e->n && e->v[a] > 0 ? e->v[a] : 1;
        int64_t step = steps && a < steps->n && steps->v[a] > 0 ? steps->v[a] : 1;
        if (!m->idx[a] || m->idx[a]->type->kind != TYPE_SCALAR || !cost_as_int(w, m->idx[a], &at))
            return false;
        clip(&at, &n, step, extent);
        if (n < 1) return true;
        int64_t apart = w->env->strides ? w->env->strides[m->param][a] * size : pitch;
        x->place += at * apart;
        if (a < e->n && e->v[a] > 0) x->axis[x->n_axes++] = (WindowAxis){ at * apart, n, step * apart };
        pitch *= extent;
    }
    join_axes(x, size, w->target->sector_bytes);
    return true;
}

/* The number of sectors from .. to - 1 that no load of the block has brought of this row. */
static double brought(struct CostRows *t, uint64_t key, int64_t from, int64_t to)
{
    uint64_t k = key % MOST_ROWS;
    for (int n = 0; n < 16; n++, k = (k + 1) % MOST_ROWS) {
        CostRow *r = &t->row[k];
        if (!r->key) {
            *r = (CostRow){ key, from, to };
            return (double)(to - from);
        }
        if (r->key != key || from > r->to || to < r->from) continue;
        double before = (double)(r->to - r->from);
        if (from < r->from) r->from = from;
        if (to > r->to) r->to = to;
        return (double)(r->to - r->from) - before;
    }
    return (double)(to - from);
}

/* The bytes of row `number` of the window's that are new. */
static double row_of(CostWalk *w, const Window *x, uint64_t key, int64_t number)
{
    int64_t place = x->place;
    for (int k = 0; k < x->n_axes; k++) {
        place += number % x->axis[k].n * x->axis[k].pitch;
        number /= x->axis[k].n;
    }
    key = mixed(key, (uint64_t)(place - x->first)) | 1;
    const int sector = w->target->sector_bytes;
    return sector * brought(*w->rows, key, place / sector, (place + x->span - 1) / sector + 1);
}

/* Small tensors, and windows that all programs load, such as weights, stay in the multiprocessor's own cache
 * if they are a small part of it. So what walks of several programs load there counts once. */
double cost_fetched(CostWalk *w, const Instr *load, const MemParts *m, double bytes, double times)
{
    Window x;
    double sum = 0;
    if (ir_result(load)->type->kind != TYPE_TILE) return bytes;
    if (cost_tensor_bytes(w->f, w->env, m->param) * SMALL_TENSOR <= (double)w->target->sm_shared_bytes)
        return 0;
    if (!find_window(w, load, m, &x)) return bytes;
    if (!*w->rows) *w->rows = arena_new(&w->s->arena, struct CostRows);
    double own = bytes * times / (w->plan && w->plan->cluster > 1 ? w->plan->cluster : 1); /* of a CTA */
    bool stays = own * SMALL_PART <= (double)w->target->sm_shared_bytes;
    uint64_t key = mixed((uint64_t)m->param << 32 | (stays ? 0 : w->walk), (uint64_t)(uintptr_t)load->block);
    int64_t looked = x.rows < MOST_ROWS_OF_LOAD ? x.rows : MOST_ROWS_OF_LOAD;
    for (int64_t k = 0; k < looked; k++) sum += row_of(w, &x, key, k);
    return looked ? sum * (double)x.rows / (double)looked : 0;
}

/* Rings of one block bring different parts of a tensor, such as the halves of a step or the taps of a filter:
 * what these have in common is still in L2. What the loads of another loop bring of it comes again. */
void cost_reads(CostWalk *w, const Instr *i, int param, double bytes)
{
    w->c.in += bytes;
    if (param >= MOST_PARAMS) return;
    w->read[param] += bytes;
    bool together = op_family(i->op) == OPS_RING && w->site_block[param] == i->block;
    w->site_block[param] = i->block;
    w->site_here[param] = bytes + (together ? w->site_here[param] : 0);
    if (w->site_here[param] > w->site[param]) w->site[param] = w->site_here[param];
}
