/* cost_memory.c: of cost: the bytes that a program's accesses move, how they lie, and what waits for them. */
#include "runtime/choice/cost/cost_walk.h"
#include <math.h>

/* Bytes that one access of a warp reaches at a time, and that come from L2 at least. */
enum { LINE = 128, SECTOR = 32 };

/* Bytes of a window that lie inside the tensor, in the mean over its places. */
double cost_window_bytes(const CostWalk *w, const Instr *i, double *whole)
{
    MemParts m;
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    const Param *p = NULL;
    int at = kernel_copies(i->op) ? 1 : 0;
    if (at) p = &w->f->params[ir_operand(i, 1)->index];
    else if (ir_mem_parts(i, &m)) p = &w->f->params[m.param];
    double n = p ? dtype_bytes(p->type->dtype) : 0, all = n;
    if (!p || p->type->kind != TYPE_TENSOR) return 0;
    for (int a = 0; e && a < e->n && a < p->type->rank; a++) {
        double extent = (double)e->v[a], have = (double)w->env->dims[p->dims[a]];
        if (extent <= 1) continue;
        double places = have > 0 ? ceil(have / extent) : 1;
        bool pixels = ir_attr(i, ATTR_IM2COL) && p->stride[a] != 1; /* they go on in the next image */
        n *= pixels ? extent : have > 0 ? have / places : 1;
        all *= extent;
    }
    if (whole) *whole = all;
    return n;
}

/* Elements of a window that follow each other in memory: those along the contiguous axis, and, where the
 * window has all of that axis, rows that begin where the one before them ends. */
static int64_t window_run(const CostWalk *w, const Instr *i, int param)
{
    const Param *p = &w->f->params[param];
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    int unit = kernel_unit_axis(w->f, i, NULL);
    int64_t run = unit >= 0 && unit < e->n && e->v[unit] > 0 ? e->v[unit] : 1;
    int64_t pitch = unit >= 0 && unit == p->type->rank - 1 ? w->env->dims[p->dims[unit]] : 0;
    for (int a = unit; a > 0 && pitch > 0 && e->v[a] >= w->env->dims[p->dims[a]]; a--) {
        if (w->env->strides && w->env->strides[param][a - 1] != pitch) break;
        run = pitch * (e->v[a - 1] > 0 ? e->v[a - 1] : 1);
        pitch *= w->env->dims[p->dims[a - 1]];
    }
    return run;
}

/* Sectors of 32 bytes are what moves: a window that is narrow along the contiguous axis moves more than it
 * holds. */
static double sectors(const CostWalk *w, const Instr *i, double bytes)
{
    MemParts m;
    if (!ir_attr(i, ATTR_EXTENTS) || !ir_mem_parts(i, &m)) return bytes;
    double have = (double)window_run(w, i, m.param) * dtype_bytes(w->f->params[m.param].type->dtype);
    double moved = ceil(have / 32) * 32;
    return bytes * (moved > have ? moved / have : 1);
}

/* Bytes of a window that lie together in memory. */
static double pieces_bytes(const CostWalk *w, const Instr *i, int param)
{
    bool window = ir_attr(i, ATTR_EXTENTS) && kernel_unit_axis(w->f, i, NULL) >= 0;
    return (double)(window ? window_run(w, i, param) : 1) * dtype_bytes(w->f->params[param].type->dtype);
}

TrafficStep cost_step(const CostWalk *w, const Instr *i)
{
    TrafficStep s = { .i = i, .extents = ir_attr(i, ATTR_EXTENTS) };
    MemParts m;
    if (kernel_copies(i->op)) {
        s.param = ir_operand(i, 1)->index;
        s.first = 2;
        s.rank = w->f->params[s.param].type->rank;
        s.window = true;
    } else if (i->op == OP_LOAD && !w->producer && ir_mem_parts(i, &m)) {
        s.param = m.param;
        s.first = 1;
        s.rank = m.rank;
        s.window = true;
    }
    if (s.window) s.bytes = cost_window_bytes(w, i, NULL);
    if (i->n_operands != 2 || i->n_results != 1 || op_family(i->op) != OPS_ARITHMETIC) return s;
    s.whole = i->results[0].type->kind == TYPE_SCALAR;
    s.dtype = ir_operand(i, 1)->type->dtype;
    s.out = i->results[0].id;
    for (int k = 0; k < 2; k++) s.in[k] = ir_operand(i, k)->id;
    return s;
}

Traffic *cost_traffic_new(CostWalk *w)
{
    Traffic *t = arena_new(&w->s->arena, Traffic);
    t->places = FIRST_WINDOWS;
    t->window = arena_array(&w->s->arena, TrafficWindow, t->places);
    return t;
}

/* The place of a window in the table, new or known; NULL: there is none near where it belongs. */
static TrafficWindow *find_place(Traffic *t, uint64_t window)
{
    enum { NEAR = 64 };
    for (uint64_t k = window % t->places, n = 0; n < NEAR; n++, k = (k + 1) % t->places)
        if (!t->window[k].seen || t->window[k].seen == window) return &t->window[k];
    return NULL;
}

static void grow(CostWalk *w, Traffic *t)
{
    const TrafficWindow *before = t->window;
    const uint64_t n = t->places;
    t->places *= 2;
    t->window = arena_array(&w->s->arena, TrafficWindow, t->places);
    for (uint64_t k = 0; k < n; k++) {
        TrafficWindow *place = before[k].seen ? find_place(t, before[k].seen) : NULL;
        if (place) *place = before[k];
    }
}

/* Counts a window that a program loads, of which as many bytes count as the program that loads most of it
 * loads. */
static void count_window(CostWalk *w, Traffic *t, uint64_t window, int param, double bytes)
{
    if (2 * t->n >= t->places && t->places < MOST_WINDOWS) grow(w, t);
    TrafficWindow *place = find_place(t, window);
    const double before = place ? place->of : 0;
    if (place && !place->seen) t->n++;
    if (place) *place = (TrafficWindow){ window, bytes > before ? bytes : before };
    if (bytes > before) t->bytes[param] += bytes - before;
}

void cost_meet(CostWalk *w, const TrafficStep *s, double times)
{
    const Attr *e = s->extents;
    int param = s->param;
    if (param >= MOST_PARAMS) return;
    if (w->traffic->spans) {
        cost_span_meet(w, s);
        return;
    }
    double bytes = s->bytes * times * cost_span_part(w, s);
    uint64_t h = (uint64_t)param * 0x9e3779b97f4a7c15ull + 1;
    w->traffic->loaded[param] += s->bytes * times;
    for (int a = 0; a < s->rank; a++) {
        if (cost_same_along(w->env, param, a)) continue;
        int64_t at = 0;
        bool walks = w->far && e && a < e->n && e->v[a] > 1; /* as far as the axis is long */
        if (!cost_as_int(w, ir_operand(s->i, s->first + a), &at)) at = walks ? 0 : w->linear;
        h = (h ^ (uint64_t)at) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    count_window(w, w->traffic, h + !h, param, bytes);
}

int64_t cost_row_bytes(const CostWalk *w, const Instr *put)
{
    const Attr *e = ir_attr(put, ATTR_EXTENTS);
    int unit = kernel_unit_axis(w->f, put, NULL);
    return (unit >= 0 && unit < e->n ? e->v[unit] : 1) * dtype_bytes(ir_operand(put, 0)->type->dtype);
}

/* That one access of a thread moves, as the layout pass recorded it. */
static double access_bytes(const CostWalk *w, const Instr *i)
{
    MemParts m;
    int param = kernel_copies(i->op) ? ir_operand(i, 1)->index : ir_mem_parts(i, &m) ? m.param : 0;
    return (double)ir_attr_int(i, ATTR_VECTOR, 1) * dtype_bytes(w->f->params[param].type->dtype);
}

/* Bytes beyond one that is asked for: a request fetches up to 128 of a row. */
double cost_narrow(const CostWalk *w, const Instr *put)
{
    double row = (double)cost_row_bytes(w, put);
    return row < 128 ? 128 / (row < 16 ? 16 : row) - 1 : 0;
}

/* The part of a window's rows of 128 bytes that begin within a sector of 32 bytes, where the tensor's base
 * does not: every other one, if their pitch is no multiple of 32 (bench/notes/decisions.md, "Behind the
 * decisions"). */
double cost_torn(const CostWalk *w, const Instr *put)
{
    int param = ir_operand(put, 1)->index, unit = kernel_unit_axis(w->f, put, NULL);
    const Param *p = &w->f->params[param];
    const Attr *e = ir_attr(put, ATTR_EXTENTS);
    int64_t pitch = 1;
    bool within = false;
    for (int a = p->type->rank - 1; a >= 0; a--) {
        int64_t stride = w->env->strides ? w->env->strides[param][a] : pitch;
        pitch *= w->env->dims[p->dims[a]];
        within |= a != unit && a < e->n && w->env->dims[p->dims[a]] > 1 &&
                  stride * dtype_bytes(p->type->dtype) % 32;
    }
    return within ? 0.5 : 0;
}

/* The part of a window's rows of 128 bytes that lie across two lines of L2, though they begin at sectors: as
 * many as the pitches of the tensor's rows put within a line. */
double cost_split(const CostWalk *w, const Instr *put)
{
    int param = ir_operand(put, 1)->index, unit = kernel_unit_axis(w->f, put, NULL);
    const Param *p = &w->f->params[param];
    const Attr *e = ir_attr(put, ATTR_EXTENTS);
    int64_t pitch = 1, step = LINE;
    if (cost_torn(w, put) > 0) return 0;
    for (int a = p->type->rank - 1; a >= 0; a--) {
        int64_t stride = w->env->strides ? w->env->strides[param][a] : pitch;
        pitch *= w->env->dims[p->dims[a]];
        if (a == unit || a >= e->n || w->env->dims[p->dims[a]] <= 1) continue;
        while (stride * dtype_bytes(p->type->dtype) % step) step /= 2;
    }
    return 1 - (double)step / LINE;
}

/* Rows of a window that reach over the end of the tensor's rows, in the mean over its places. TMA brings each
 * of them several times as slowly as a whole one (bench/notes/convolutions.md, "Rows cut by the tensor's
 * end"). */
double cost_cut(const CostWalk *w, const Instr *put)
{
    const Param *p = &w->f->params[ir_operand(put, 1)->index];
    int unit = kernel_unit_axis(w->f, put, NULL);
    const Attr *e = ir_attr(put, ATTR_EXTENTS);
    if (!e || unit < 0 || unit >= e->n || e->v[unit] <= 1) return 0;
    int64_t extent = w->env->dims[p->dims[unit]], rows = 1;
    if (extent <= 0 || extent % e->v[unit] == 0) return 0;
    for (int a = 0; a < e->n; a++)
        if (a != unit) rows *= e->v[a];
    return (double)rows / ceil((double)extent / (double)e->v[unit]);
}

/* Rows in several pieces of 64 bytes: as many times their bytes as pieces of 128 would have. One that begins
 * within a sector takes as long (D 72, three of 64: 2.8 ns; products, of 128: 2.75). */
double cost_pieces(const CostWalk *w, const Instr *put)
{
    int64_t row = cost_row_bytes(w, put);
    const LayoutShared *stage =
        w->plan && row > 128 ? layouts_shared(&w->plan->layouts, ir_operand(put, 0)->type) : NULL;
    return stage && stage->pitch < 128 ? ceil((double)row / stage->pitch) * 128 / (double)row : 1;
}

/* The part of a copied window's places that reach over the end of rows. */
static double over_the_end(const CostWalk *w, const Instr *i)
{
    const Param *p = &w->f->params[ir_operand(i, 1)->index];
    int unit = kernel_unit_axis(w->f, i, NULL);
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    if (!e || unit < 0 || unit >= e->n || e->v[unit] <= 1) return 0;
    int64_t extent = w->env->dims[p->dims[unit]], n = e->v[unit];
    return extent % n ? (double)n / (double)(extent + n - extent % n) : 0;
}

/* Whether each of the copies has places of its own along some axis. */
static bool is_gathered(const Instr *copy)
{
    for (int o = 2; o < copy->n_operands; o++)
        if (ir_operand(copy, o)->type->kind == TYPE_TILE) return true;
    return false;
}

/* Elements whose rows are at no multiples of four bytes go through registers, with four accesses of 16 bytes
 * under way at once; vectors over a row's end go one after the other, by elements
 * (backends/gpu/memory/emit_copy.c). */
void cost_copy(CostWalk *w, const Instr *i, double times)
{
    double whole, bytes = cost_window_bytes(w, i, &whole) * times;
    cost_reads(w, i, ir_operand(i, 1)->index, bytes);
    double width = access_bytes(w, i);
    w->c.wasted += bytes * cost_narrow(w, i);
    w->c.torn += bytes * cost_torn(w, i);
    w->c.split += bytes * cost_split(w, i);
    const DeviceModel *m = w->model;
    double own = is_gathered(i)                   ? m->copy_gathered
                 : ir_attr_int(i, ATTR_MASKED, 1) ? m->copy_masked
                                                  : m->copy;
    double work = (width < 4 ? whole / 16 * m->copy_unaligned : whole / width * own) * times;
    w->c.alu += work;
    if (width < 16) w->c.copies += work;
    if (width < 4)
        w->c.stalls +=
            (ceil(whole / (64.0 * w->threads)) + over_the_end(w, i) * ceil(whole / (16.0 * w->threads))) *
            times;
}

double cost_small_copies(CostWalk *w, const Instr *i)
{
    double whole, width = access_bytes(w, i);
    cost_window_bytes(w, i, &whole);
    return width >= 4 && width < 16 ? whole / width / w->threads : 0;
}

/* Lane operations of an access by aligned vectors that are shifted in registers; 0: it does not go so. */
static double shifted(const CostWalk *w, const Instr *i)
{
    MemParts m;
    int64_t cost = ir_attr_int(i, ATTR_SHIFTED, 0);
    if (!cost || !ir_mem_parts(i, &m)) return 0;
    const Type *t = (m.result ? m.result : m.values[0])->type;
    uint32_t vectors =
        layout_regs(layouts_get(&w->plan->layouts, t)) / (16 / (uint32_t)dtype_bytes(t->dtype));
    return (double)w->threads * vectors * (double)cost;
}

void cost_wrote(CostWalk *w, int param, double bytes)
{
    w->c.out += bytes;
    w->c.stored += bytes;
    if (param < MOST_PARAMS) w->written[param] += bytes;
}

/* A load, or a store, of a window, which the program does `times` times. */
static void window_access(CostWalk *w, const Instr *i, const MemParts *m, double times)
{
    double whole = 0, bytes = cost_window_bytes(w, i, &whole), moved = sectors(w, i, bytes),
           width = access_bytes(w, i), shift = shifted(w, i),
           fresh = i->op == OP_LOAD ? cost_new_part(w, i, m) : 1;
    const int size = dtype_bytes(w->f->params[m->param].type->dtype);
    if (kernel_row_block(w->f, w->plan, i)) { /* by element or word from and to shared memory */
        moved = bytes;
        w->c.alu += whole / kernel_access_bytes(w->f, i) * w->model->access * times;
    }
    const double pieces = bytes / pieces_bytes(w, i, m->param);
    w->c.pieces += pieces * times;
    if (i->op == OP_LOAD) {
        cost_reads(w, i, m->param, bytes * times);
        w->c.own += fresh * bytes * times;
        w->c.fetched += cost_fetched(w, i, m, bytes, times) * times;
        cost_wait_for_it(w, i, times);
        cost_load_before_product(w, i);
        if (whole > 256) cost_wait_for_data(w, times);
        w->c.ahead += whole;
        /* Elements by themselves take a register each until they are put together. */
        int words = (int)(whole / (width < 4 ? size : 4) / w->threads);
        if (w->roles && w->loops && words > w->c.loaded) w->c.loaded = words;
    } else {
        cost_wrote(w, m->param, bytes * times);
        w->c.stored += bytes * (cost_sectors_written(w, i, m) - 1) * times;
        /* What a program stores beside a row, or beside a tile in a loop, is its own as a rule. */
        if (pieces > 1) w->c.parted += pieces * cost_sectors_parted(w, i, m) * fmin(times, 1);
    }
    if (ir_attr(i, ATTR_RMW) && !ir_attr_int(i, ATTR_BULK, 0)) w->c.added += bytes / size * times;
    w->c.wasted += (moved - bytes) * times;
    w->c.bulk |= i->op == OP_STORE && ir_attr_int(i, ATTR_BULK, 0);
    double access = w->model->access + cost_lines_beside(w, i, m);
    const Type *tile = i->op == OP_LOAD ? ir_result(i)->type : m->values[0]->type;
    const double idle =
        w->roles || tile->kind != TYPE_TILE ? 1 : cost_lanes(w, tile) / (double)type_elements(tile);
    w->c.alu += fresh * (shift > 0 ? shift : idle * whole / (width > 1 ? width : 1) * access) * times;
    w->c.shifted |= shift > 0 && i->op == OP_LOAD;
}

void cost_memory(CostWalk *w, const Instr *i, double times)
{
    MemParts m;
    if (w->traffic || !ir_mem_parts(i, &m)) return;
    if (i->op == OP_LOAD || i->op == OP_STORE) window_access(w, i, &m, times);
    else cost_indexed(w, i, &m, times);
}
