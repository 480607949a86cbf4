/* access.c: what the accesses that the emitter recorded move: see access.h. */
#include "backends/gpu/access.h"
#include "passes/kernel/amd/lds.h"
#include <stdlib.h>

enum { NOTHING = INT64_MIN, BASE = 256 };

const char *access_way_name(AccessWay way)
{
    static const char *const names[WAY_COUNT] = { "registers", "shifted vectors", "cp.async", "LDS copy",
        "TMA", "cp.async producers", "one thread", "by index", "registers", "ldmatrix", "unit" };
    return names[way];
}

int64_t access_offset(const EmittedAccess *a, const int64_t *strides, const int32_t *coord)
{
    int64_t at = 0;
    for (int x = 0; x < TILE_MAX_RANK; x++)
        if (a->tile_axis[x] >= 0 && !(a->picked >> x & 1))
            at += strides[x] * a->step[x] * coord[a->tile_axis[x]] * a->bytes;
    /* Rows at positions that data gives lie apart. */
    for (int x = 0; x < TILE_MAX_RANK; x++)
        if (a->tile_axis[x] >= 0 && (a->picked >> x & 1)) at += ((int64_t)coord[a->tile_axis[x]] << 32);
    return at;
}

bool access_begins(const EmittedAccess *a, uint32_t r)
{ return a->way == WAY_MATRIX ? layout_matrix_base(&a->matrix, r) : layout_vector_base(&a->vector, r); }

int access_lanes(const EmittedAccess *a, const int64_t *strides, uint32_t base, uint32_t warp, int64_t *addr)
{
    int32_t of[LAYOUT_MAX_LANES][LAYOUT_MAX_RANK];
    const Layout *l = a->layout;
    bool matrix = a->way == WAY_MATRIX, exchanges = !matrix && a->other && a->exchange;
    int lanes = matrix ? 8 * a->matrix.count : (int)layout_lanes(l);
    if (!matrix && !exchanges) layout_lane_elements(l, base, warp, of);
    for (int lane = 0; lane < lanes; lane++) {
        int32_t *c = of[lane];
        if (matrix) layout_matrix_row(l, &a->matrix, base, (uint32_t)lane, warp, c);
        else if (exchanges)
            layout_element(
                l, base ^ ((uint32_t)lane & a->other ? a->exchange : 0), (uint32_t)lane, warp, 0, c);
        bool moves = layout_in_tile(l, c);
        if (a->write && !a->shared) moves = moves && layout_is_unique(l, (uint32_t)lane, warp, 0);
        addr[lane] = !moves      ? NOTHING
                     : a->shared ? (int64_t)layout_shared_offset(a->shared, c)
                                 : access_offset(a, strides, c);
    }
    return lanes;
}

static int by_address(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* --- tensors ----------------------------------------------------------------------------------------- */

/* The places within a sector at which windows may begin: every multiple of the result. */
static int64_t begins_at(const EmittedAccess *a, const int64_t *strides)
{
    int64_t grain = BASE;
    for (int x = 0; x < TILE_MAX_RANK; x++) {
        if (a->tile_axis[x] < 0 && !a->begins[x]) continue;
        int64_t by = strides[x] * a->begins[x] * a->bytes;
        while (by % grain) grain /= 2;
    }
    return grain;
}

/* Sectors of sorted pieces of `width` bytes that begin `shift` bytes later. */
static double sectors_of(const int64_t *addr, int n, int width, int64_t shift, int sector)
{
    int64_t last = NOTHING;
    double all = 0;
    for (int k = 0; k < n; k++) {
        int64_t first = (addr[k] + shift) >> (sector == 64 ? 6 : 5),
                end = (addr[k] + shift + width - 1) >> (sector == 64 ? 6 : 5);
        if (first <= last) first = last + 1;
        if (end >= first) {
            all += (double)(end - first + 1);
            last = end;
        }
    }
    return all;
}

/* Adds one request, whose active lanes have these addresses. */
static void add_request(AccessCount *out, int64_t *addr, int n, int width, int64_t grain, int sector)
{
    int64_t distinct = 0, until = NOTHING, begin = NOTHING;
    double mean = 0;
    int places = 0;
    qsort(addr, (size_t)n, sizeof *addr, by_address);
    for (int k = 0; k < n; k++) {
        if (addr[k] > until) {
            if (k) out->apart += (double)((until - begin + sector - 1) / sector);
            out->runs++;
            begin = addr[k];
        }
        distinct += addr[k] >= until ? width : addr[k] + width > until ? addr[k] + width - until : 0;
        if (addr[k] + width > until) until = addr[k] + width;
    }
    out->apart += (double)((until - begin + sector - 1) / sector);
    for (int64_t shift = 0; shift < sector; shift += grain < sector ? grain : sector, places++)
        mean += sectors_of(addr, n, width, shift, sector);
    mean /= places;
    out->moved += mean;
    out->fewest += (double)((distinct + sector - 1) / sector);
    if (mean > out->worst) out->worst = mean;
}

/* The distance between lanes, and the axis along which they follow each other: of the first lane bit that
 * moves. */
static void lane_step(const EmittedAccess *a, const int64_t *strides, AccessCount *out)
{
    int32_t zero[LAYOUT_MAX_RANK], c[LAYOUT_MAX_RANK];
    out->lane_axis = -1;
    layout_element(a->layout, 0, 0, 0, 0, zero);
    for (uint32_t bit = 1; bit < layout_lanes(a->layout); bit *= 2) {
        layout_element(a->layout, 0, bit, 0, 0, c);
        for (int x = 0; x < a->layout->rank; x++) {
            if (c[x] == zero[x] || !layout_in_tile(a->layout, c)) continue;
            out->lane_axis = x;
            out->stride = access_offset(a, strides, c) - access_offset(a, strides, zero);
            return;
        }
    }
}

static void count_tensor(const EmittedAccess *a, const Target *t, const int64_t *strides, AccessCount *out)
{
    int64_t addr[LAYOUT_MAX_LANES], grain = begins_at(a, strides);
    int sector = t->request_bytes;
    lane_step(a, strides, out);
    for (uint32_t warp = 0; warp < layout_warps(a->layout); warp++)
        for (uint32_t r = 0; r < layout_regs(a->layout); r++) {
            if (!access_begins(a, r)) continue;
            int lanes = access_lanes(a, strides, r, warp, addr), n = 0;
            for (int k = 0; k < lanes; k++)
                if (addr[k] != NOTHING) addr[n++] = addr[k];
            if (!n) continue;
            out->requests++;
            out->lanes += lanes;
            out->active += n;
            out->bytes += (double)n * out->width;
            add_request(out, addr, n, out->width, grain, sector);
        }
}

/* A box of TMA: its rows along the contiguous axis. */
static void count_boxes(const EmittedAccess *a, const Target *t, const int64_t *strides, AccessCount *out)
{
    const Attr *e = ir_attr(a->instr, ATTR_EXTENTS);
    int sector = t->request_bytes, unit = -1;
    double rows = 1;
    int64_t run = a->bytes;
    for (int x = 0; e && x < e->n; x++) {
        if (e->v[x] <= 0) continue;
        if (strides[x] * a->step[x] == 1 && unit < 0) {
            unit = x;
            run = e->v[x] * a->bytes;
        } else rows *= (double)e->v[x];
    }
    out->requests = 1;
    out->lanes = out->active = 1;
    out->width = (int)run;
    out->bytes = rows * (double)run;
    out->runs = rows;
    out->fewest = (double)(((int64_t)out->bytes + sector - 1) / sector);
    out->apart = rows * (double)((run + sector - 1) / sector);
    int64_t grain = begins_at(a, strides), row = 0;
    int places = 0;
    for (int64_t shift = 0; shift < sector; shift += grain < sector ? grain : sector, places++)
        out->moved += rows * sectors_of(&row, 1, (int)run, shift, sector);
    out->moved /= places;
    out->worst = out->moved;
    out->lane_axis = -1;
}

/* A window whose rows all lanes fetch by vectors straight to shared memory. */
static void count_rows(const EmittedAccess *a, const Target *t, const int64_t *strides, AccessCount *out)
{
    int width = out->width;
    count_boxes(a, t, strides, out);
    out->width = width;
    out->active = out->bytes / width;
    out->requests = (double)(((int64_t)out->active + t->wave - 1) / t->wave);
    if (out->requests < 1) out->requests = 1;
    out->lanes = out->requests * t->wave;
    out->worst = out->moved / out->requests;
}

/* Each element, or vector of elements, at an address of its own. */
static void count_indexed(const EmittedAccess *a, const Target *t, AccessCount *out)
{
    int lanes = a->layout ? (int)layout_lanes(a->layout) : t->wave;
    double n = 1;
    for (int x = 0; a->layout && x < a->layout->rank; x++) n *= a->layout->tile[x];
    n /= a->vector.n;
    out->data = a->way == WAY_INDEXED;
    out->requests = a->layout ? n / lanes < 1 ? 1 : n / lanes : 1;
    out->lanes = out->requests * lanes;
    out->active = n;
    out->bytes = n * out->width;
    out->moved = out->runs = out->apart = n;
    out->fewest = (double)(((int64_t)out->bytes + t->request_bytes - 1) / t->request_bytes);
    out->worst = n < lanes ? n : lanes;
    out->lane_axis = -1;
}

/* --- shared memory ----------------------------------------------------------------------------------- */

/* Passes over the banks of one request, and the fewest. */
static double wavefronts(
    const EmittedAccess *a, const Target *t, const int64_t *addr, int lanes, int width, double *least)
{
    uint32_t at[LAYOUT_MAX_LANES];
    if (t->kind == TARGET_HIP) {
        LdsCycle cycle = lds_cycle(t->lds, !a->write, width);
        *least = (double)((lanes + cycle.group - 1) / cycle.group);
        return *least + lds_extra_cycles(cycle, addr, lanes, width);
    }
    for (int k = 0; k < lanes; k++) at[k] = addr[k] == NOTHING ? UINT32_MAX : (uint32_t)addr[k];
    int group = width <= 4 ? 32 : 128 / width;
    double n = layout_wavefronts(at, (uint32_t)lanes, (uint32_t)width);
    *least = (double)((lanes + group - 1) / group);
    if (*least > n) *least = n;
    return n;
}

/* A request to shared memory: lanes, those that move something, passes over the banks and the fewest. */
typedef struct SharedRequest {
    int lanes, active;
    double passes, least;
} SharedRequest;

static SharedRequest shared_request(
    const EmittedAccess *a, const Target *t, uint32_t reg, uint32_t warp, int width)
{
    int64_t addr[LAYOUT_MAX_LANES];
    SharedRequest x = { .lanes = access_lanes(a, NULL, reg, warp, addr) };
    for (int k = 0; k < x.lanes; k++) x.active += addr[k] != NOTHING;
    if (x.active) x.passes = wavefronts(a, t, addr, x.lanes, width, &x.least);
    return x;
}

/* Whether all of a warp's lanes take part in each request, and the addresses of two requests differ by what
 * their registers alone add. Whole words only rotate the banks: then both take equally many passes. */
static bool registers_add(const EmittedAccess *a)
{ return !a->shared->nxor && layout_offsets_add(a->layout, a->shared); }

static uint32_t offset_in_first_thread(const EmittedAccess *a, uint32_t reg)
{
    int32_t c[LAYOUT_MAX_RANK];
    layout_element(a->layout, reg, 0, 0, 0, c);
    return layout_shared_offset(a->shared, c);
}

static void add_shared(AccessCount *out, const SharedRequest *x)
{
    if (!x->active) return;
    out->requests++;
    out->lanes += x->lanes;
    out->active += x->active;
    out->bytes += (double)x->active * out->width;
    out->moved += x->passes;
    out->fewest += x->least;
    if (x->passes - x->least > out->worst) out->worst = x->passes - x->least;
}

static void count_shared(const EmittedAccess *a, const Target *t, AccessCount *out)
{
    enum { WORD = 4 };
    const bool plain = t->kind == TARGET_CUDA && a->way != WAY_MATRIX && !(a->other && a->exchange),
               linear = plain && layout_offsets_linear(a->layout, a->shared),
               adds = plain && !linear && registers_add(a);
    SharedRequest x = { 0 };
    out->lane_axis = -1;
    out->width = a->way == WAY_MATRIX ? 16 : (int)a->vector.n * a->shared->elem_bytes;
    for (uint32_t warp = 0; warp < layout_warps(a->layout); warp++) {
        uint32_t known = 0; /* the offset of the register that `x` is of */
        bool any = linear && x.lanes;
        for (uint32_t r = 0; r < layout_regs(a->layout); r++) {
            if (!access_begins(a, r)) continue;
            const uint32_t offset = adds ? offset_in_first_thread(a, r) : 0;
            if (!any || (!linear && !adds) || (offset - known) % WORD) {
                x = shared_request(a, t, r, warp, out->width);
                known = offset;
                any = true;
            }
            add_shared(out, &x);
        }
    }
}

/* What wgmma or TMA moves, without the threads: pieces of 16 bytes, eight at a time. wgmma reads those of
 * eight rows that lie above each other (a core matrix), TMA writes those that follow each other along a row.
 */
static void count_unit(const EmittedAccess *a, AccessCount *out)
{
    enum { PIECE = 16, TOGETHER = 8 };
    const LayoutShared *s = a->shared;
    int unit = s->order[0], other = s->order[s->rank > 1 ? 1 : 0];
    int32_t wide = PIECE / s->elem_bytes, columns = (s->tile[unit] + wide - 1) / wide,
            rows = s->rank > 1 ? s->tile[other] : 1, panel = s->panel / wide > 0 ? s->panel / wide : 1;
    uint32_t at[TOGETHER];
    int n = 0;
    out->lane_axis = -1;
    out->width = PIECE;
    for (int32_t k = 0; k < rows * columns; k++) {
        int32_t c[LAYOUT_MAX_RANK] = { 0 }, first = k / (rows * panel) * panel,
                across = columns - first < panel ? columns - first : panel, in = k - first * rows;
        int32_t column = first + (a->write ? in % across : in / rows),
                row = a->write ? in / across : in % rows;
        c[unit] = column * wide;
        if (other != unit) c[other] = row;
        at[n++] = layout_shared_offset(s, c);
        if (n < TOGETHER && k + 1 < rows * columns) continue;
        uint32_t passes = layout_wavefronts(at, (uint32_t)n, PIECE);
        out->requests++;
        out->lanes += n;
        out->active += n;
        out->bytes += (double)n * PIECE;
        out->moved += passes;
        out->fewest++;
        if (passes - 1 > out->worst) out->worst = passes - 1;
        n = 0;
    }
}

void access_count(const EmittedAccess *a, const Target *t, const int64_t *strides, AccessCount *out)
{
    *out = (AccessCount){ .width = (int)a->vector.n * a->bytes };
    if (a->way == WAY_UNIT) count_unit(a, out);
    else if (a->shared) count_shared(a, t, out);
    else if (a->way == WAY_TMA) count_boxes(a, t, strides, out);
    else if (a->way == WAY_LDS_DMA || a->way == WAY_CP_ASYNC) count_rows(a, t, strides, out);
    else if (a->way == WAY_INDEXED || a->way == WAY_ONE || !a->layout) count_indexed(a, t, out);
    else count_tensor(a, t, strides, out);
}
