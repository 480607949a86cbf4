/* cp-async-producer: of warp-specialization: rings that TMA cannot fill are filled by warps of their own.
 *
 *   for k { %a = ring_get %ra; %b = ring_get %rb; wgmma .. }  producer: for k { ring_put %ra, A }
 *                                                       cp.async producers: for k { ring_cp_async %rb, B }
 *
 * TMA needs addresses and strides that are multiples of 16 bytes, and does not transpose. A row of 1023
 * f16 begins anywhere; a window of an image begins at column -1; an 8-bit operand that memory has
 * contiguous along N must be transposed. Further producer warps, the cp.async producers, handle
 * these. They copy the rows of a window, in aligned 16-byte vectors around them, to a staging area in
 * shared memory with cp.async, whose size operand leaves zeros behind a row's end, so that nothing outside
 * of the tensor is read. When the rows have arrived, they take from there what a stage holds side by side:
 * two vectors shifted into place, or elements of several rows where the stage runs along another axis. In
 * a loop, they do that for the window before, while this one's rows are in flight; that may be the last one
 * of the program before (ir_cp_async_late_in). A warp has lines of its own, so that these warps never wait
 * for each other. Each arrives at the stage's full mbarrier; the consumers execute the fence for wgmma's
 * proxy.
 *
 * The staging area keeps rows in flight out of registers; in registers they would take 64 values of 16
 * bytes a warp, which consumers need.
 *
 * Requires: a tensor that is only read and aligned to 16 bytes at its base; one axis of stride 1, of which
 * the tile has a part without steps; elements of 1, 2 or 4 bytes; a pad of zero. Keeps: everything. */
#include "passes/kernel/warp_specialization/warp_specialization.h"
#include "ir/analysis/range.h"

/* Lines that are a multiple of 16 bytes apart: all of them, or each 2nd, 4th and so on along the last axis of
 * lines. */
static void classes_of(const Func *f, const Instr *mem, CpAsyncWay *w)
{
    const Param *q = &f->params[ir_operand(mem, kernel_copies(mem->op) ? 1 : 0)->index];
    const Attr *st = ir_attr(mem, ATTR_STEPS);
    int last = -1;
    int64_t by = 16;
    for (int k = 0; k < w->rank; k++)
        if (k != w->axis && w->shape[k] > 1) last = k;
    w->classes = 1;
    w->uniform = true;
    for (int k = 0; k < w->rank; k++) {
        if (k == w->axis || w->shape[k] == 1) continue;
        int a = kernel_tensor_axis(mem, k);
        int64_t each = range_gcd(ir_stride_step(q, a) * (st ? st->v[a] : 1) * w->bytes, 16);
        if (k == last) by = each;
        else if (each != 16) w->uniform = false;
    }
    if (by == 16) return;
    if (w->lines > w->shape[last] && w->shape[last] % (16 / by)) w->uniform = false;
    if (w->uniform) w->classes = (int)(16 / by);
}

/* Where a line begins in the tile of a stage of the ring. */
static void place_line(const CpAsyncWay *w, int64_t n, int32_t *at)
{
    int32_t along[2] = { 1, 1 };
    at[0] = at[1] = 0;
    for (int a = w->rank - 1; a >= 0; a--) {
        int side = a >= w->split;
        if (a != w->axis) {
            at[side] += (int32_t)(n % w->shape[a]) * along[side];
            n /= w->shape[a];
        }
        along[side] *= (int32_t)w->shape[a];
    }
}

/* How far elements of a line are from each other along their axis of that tile. */
static int32_t elements_apart(const CpAsyncWay *w)
{
    int32_t n = 1;
    for (int a = w->axis + 1; a < w->rank; a++)
        if ((a >= w->split) == (w->axis >= w->split)) n *= (int32_t)w->shape[a];
    return n;
}

/* The offset of the first element of a run of a line in the stage. */
static int64_t place_of(
    const CpAsyncWay *w, const LayoutShared *stage, const int32_t *line, int64_t run, int32_t apart)
{
    int32_t m[2] = { line[0], line[1] };
    m[w->axis >= w->split] += (int32_t)(run * w->run / w->bytes) * apart;
    return (int64_t)layout_shared_offset(stage, m);
}

/* Swizzles are linear, so it suffices to test the run at each bit and the last run. */
static int64_t next_run(int64_t r, int64_t runs)
{ return r < runs - 1 && 2 * r + 1 >= runs ? runs - 1 : 2 * r + 1; }

/* Whether the runs of this line are `by` bytes behind those of the first. */
static bool follows_by(
    const CpAsyncWay *w, const LayoutShared *stage, const int64_t *first, int64_t runs, int64_t n, int64_t by)
{
    const int32_t apart = elements_apart(w);
    int32_t line[2];
    place_line(w, n, line);
    for (int64_t r = 0, k = 0; r < runs; r = next_run(r, runs), k++)
        if (place_of(w, stage, line, r, apart) - first[k] != by) return false;
    return true;
}

static bool steps_evenly(CpAsyncWay *w, const LayoutShared *stage, int classes)
{
    int64_t by = (int64_t)classes * w->group, count = w->lines / by, runs = w->line * w->bytes / w->run,
            first[64];
    const int32_t apart = elements_apart(w);
    int32_t line[2], next[2];
    if (w->lines % by || by % w->inner) return false;
    place_line(w, 0, line);
    place_line(w, by, next);
    w->stage_step = count > 1 ? place_of(w, stage, next, 0, apart) - place_of(w, stage, line, 0, apart) : 0;
    for (int64_t n = 0; n < by && count > 1; n++) {
        place_line(w, n, line);
        for (int64_t r = 0, k = 0; r < runs; r = next_run(r, runs))
            first[k++] = place_of(w, stage, line, r, apart);
        for (int64_t g = 1; g < count; g++)
            if (!follows_by(w, stage, first, runs, n + g * by, g * w->stage_step)) return false;
    }
    return true;
}

/* The smallest number of classes of lines with the same begin for which a warp's lines follow each other
 * evenly. */
static void straighten(const KernelPlan *p, const LayoutShared *stage, CpAsyncWay *w)
{
    enum { MOST_CLASSES = 64 };
    w->outer = -1;
    w->inner = 1;
    for (int a = w->rank - 1; a >= 0; a--) {
        if (a == w->axis || w->shape[a] == 1) continue;
        if (w->outer >= 0) w->inner *= (int)w->shape[w->outer];
        w->outer = a;
    }
    if (!w->uniform || w->outer < 0 || w->parts > 1) return;
    for (int k = w->classes; k <= MOST_CLASSES; k *= 2) {
        if (k <= p->cp_async_warps || !steps_evenly(w, stage, k)) continue;
        w->straight = true;
        w->classes = k;
        w->of_class = (int)(w->lines / ((int64_t)k * w->group));
        w->units = w->of_class * k;
        w->mine = (k + p->cp_async_warps - 1) / p->cp_async_warps;
        w->share = w->mine * w->of_class;
        w->staging = w->pitch * w->share * w->group;
        return;
    }
}

static void units_of(const Func *f, const KernelPlan *p, const Instr *mem, CpAsyncWay *w)
{
    int64_t runs = w->line * w->bytes / w->run;
    classes_of(f, mem, w);
    for (w->per = 1; w->per < 32 && w->per < runs;) w->per *= 2;
    w->group = 32 / w->per;
    w->parts = (int)((runs + w->per - 1) / w->per);
    w->of_class = (int)(((w->lines + w->classes - 1) / w->classes + w->group - 1) / w->group);
    w->units = w->of_class * w->classes;
    w->share = (w->units + p->cp_async_warps - 1) / p->cp_async_warps;
    w->staging = w->pitch * w->share * w->group;
}

bool kernel_cp_async_blocks(const Func *f, const Instr *mem, int beside)
{
    const Param *q = &f->params[ir_operand(mem, kernel_copies(mem->op) ? 1 : 0)->index];
    const Attr *x = ir_attr(mem, ATTR_EXTENTS), *st = ir_attr(mem, ATTR_STEPS);
    int a = kernel_tensor_axis(mem, beside);
    return dtype_bytes(q->type->dtype) == 2 && a >= 0 && x->v[a] % 8 == 0 &&
           ir_stride_step(q, a) * (st ? st->v[a] : 1) % 8 == 0;
}

/* The part of a line that can be in range, if the window's position in its row is known, and the distance by
 * which aligned vectors reach beyond a line. */
static void live_part(const Func *f, const Instr *mem, CpAsyncWay *w)
{
    const int at = kernel_copies(mem->op) ? 2 : 1;
    const Param *q = &f->params[ir_operand(mem, at - 1)->index];
    const Attr *x = ir_attr(mem, ATTR_EXTENTS), *st = ir_attr(mem, ATTR_STEPS);
    int unit = kernel_unit_axis(f, mem, NULL);
    int64_t from, extent = f->dims[q->dims[unit]].extent, grain = 16;
    bool known = ir_is_const(ir_operand(mem, at + unit), &from);
    if (known && from < 0 && -from < w->line) w->first = -from, w->line += from;
    if (known && extent > 0 && from + w->first < extent && from + w->first + w->line > extent)
        w->line = extent - from - w->first;
    for (int a = 0; a < q->type->rank; a++) {
        if (a == unit) continue;
        int64_t stride = ir_stride_step(q, a);
        grain = range_gcd(
            grain, (stride < 0 ? -stride : stride) * (st && x->v[a] != -1 ? st->v[a] : 1) * w->bytes);
    }
    int64_t begins = known ? (((from + w->first) * w->bytes) % grain + grain) % grain : 16 - w->bytes;
    if (known) begins += 16 - grain;
    w->begins = begins == 0;
    w->vectors = (int)((w->line * w->bytes + begins + 15) / 16);
}

static bool in_blocks(
    const Func *f, const KernelPlan *p, const Instr *mem, const LayoutShared *stage, CpAsyncWay *w)
{
    int64_t chans = w->shape[w->beside], rows = w->lines / chans, bytes = stage->panel * 2,
            all = rows * w->width * (w->shifts ? w->shifts->n : 1);
    int side = w->axis < w->split ? 0 : 1;
    if (!kernel_cp_async_blocks(f, mem, w->beside) || w->axis != (side ? w->rank - 1 : w->split - 1) ||
        rows < p->cp_async_warps)
        return false;
    for (int a = side ? 0 : w->split; a < (side ? w->split : w->rank); a++)
        if (a != w->beside && w->shape[a] > 1) return false;
    live_part(f, mem, w);
    for (w->per = 1; w->per < w->vectors;) w->per *= 2;
    if (w->per > 32 || chans % (32 / w->per)) return false;
    for (int32_t n = 0; n < all; n++) {
        int32_t m[2], far[2];
        m[side] = n;
        far[side] = n + 32;
        m[1 - side] = far[1 - side] = 0;
        const int64_t at = layout_shared_offset(stage, m);
        if (n + 32 < all && (int64_t)layout_shared_offset(stage, far) != at + 32 * stage->pitch) return false;
        for (int32_t k = 0; k < chans; k += 8) {
            const int64_t chunk = k * 2 % bytes, panels = k * 2 / bytes;
            m[1 - side] = k;
            if ((int64_t)layout_shared_offset(stage, m) != (at ^ chunk) + panels * stage->panel_bytes)
                return false;
        }
    }
    w->blocks = true;
    w->group = 32 / w->per;
    w->rows = (int)rows;
    w->mine = (w->rows + p->cp_async_warps - 1) / p->cp_async_warps;
    w->pitch = 16 * (w->vectors | 1); /* The pieces of eight lines must be in different banks. */
    w->share = w->mine * (int)chans;
    w->staging = w->pitch * w->share + 512; /* Add 16 bytes for each lane that has nothing to write. */
    return true;
}

int kernel_cp_async_passes(const KernelPlan *p, int64_t rows, int64_t columns, int bytes, int *pieces)
{
    int64_t n = columns * bytes / 16;
    *pieces = (int)n;
    if (!p->cp_async_warps || n < 1 || n > 32 || n & (n - 1) || columns * bytes % 16) return 0;
    int64_t at_once = 32 * p->cp_async_warps / n;
    return (int)((rows + at_once - 1) / at_once);
}

/* The tile as a matrix: its leading axes are the rows (`split` of them), the others the columns. A stage may
 * have more rows than are loaded (few rows of a left operand). False: the axes give no such matrix. */
static bool fill_matrix(const LayoutShared *stage, CpAsyncWay *w)
{
    int64_t flat[2], all = 1, rows = 1;
    for (int k = 0; k < w->rank; k++)
        all *= k == w->axis ? w->width * (w->shifts ? w->shifts->n : 1) : w->shape[k];
    flat[1] = stage->tile[1];
    flat[0] = all / flat[1];
    if (flat[0] * flat[1] != all || flat[0] > stage->tile[0]) return false;
    while (w->split < w->rank && rows < flat[0]) rows *= w->shape[w->split++];
    return rows == flat[0];
}

bool kernel_cp_async_way(
    const Func *f, const KernelPlan *p, const Instr *mem, const Type *view, CpAsyncWay *w)
{
    const LayoutShared *stage = layouts_shared((LayoutTable *)&p->layouts, view);
    const Attr *x = ir_attr(mem, ATTR_EXTENTS);
    *w = (CpAsyncWay){ .bytes = dtype_bytes(view->dtype) };
    kernel_unit_axis(f, mem, &w->axis);
    if (w->axis < 0 || !p->cp_async_warps) return false;
    int pieces, passes;
    /* cp.async writes directly to the ring, without a staging area. */
    if (kernel_parts(mem, NULL) || ir_attr_int(mem, ATTR_PARTS, 0)) {
        passes = kernel_cp_async_passes(p, stage->tile[0], stage->tile[1], w->bytes, &pieces);
        return passes > 0 && passes <= MOST_CP_ASYNC_PASSES && stage->order[0] == 1;
    }
    for (int a = 0; a < x->n; a++) w->rank += x->v[a] != -1;
    for (int k = 0; k < w->rank; k++) w->shape[k] = x->v[kernel_tensor_axis(mem, k)];
    w->shifts = kernel_shifts(mem);
    w->width = w->shape[w->axis] - (w->shifts ? w->shifts->v[w->shifts->n - 1] : 0);
    if (!fill_matrix(stage, w)) return false;
    w->line = w->shape[w->axis];
    w->lines = 1;
    for (int k = 0; k < w->rank; k++)
        if (k != w->axis) w->lines *= w->shape[k];
    int fast = stage->order[0], side = w->axis < w->split ? 0 : 1;
    w->transposed = fast != side && w->line > 1;
    /* The elements that are adjacent in the ring are either a part of a line, or the same element of
     * consecutive lines. In the second case the lines follow each other along the fast axis of the ring's
     * tile, and only their last axis differs. */
    int inner = fast ? w->rank - 1 : w->split - 1;
    if (!w->transposed) {
        if (inner != w->axis) return false;
        w->run = (int)range_gcd(w->line * w->bytes, 16);
    } else {
        if (inner < 0) return false;
        w->run = (int)range_gcd(w->shape[inner] * w->bytes, 16);
        w->beside = inner;
    }
    if (w->run < 4 || w->bytes > 4 || (int64_t)stage->panel * w->bytes % w->run) return false;
    w->vectors = (int)((w->line * w->bytes + 15) / 16 + 1);
    w->pitch = w->vectors * 16;
    if (!w->transposed) {
        units_of(f, p, mem, w);
        straighten(p, stage, w);
        return !w->shifts;
    }
    CpAsyncWay plain = *w;
    if (in_blocks(f, p, mem, stage, w)) return true;
    *w = plain;
    if (w->shifts) return false;
    int64_t group = w->run / w->bytes; /* the lines that a warp needs together */
    if (inner != (w->axis == w->rank - 1 ? w->rank - 2 : w->rank - 1))
        return false; /* the lines follow each other along `inner` */
    w->share = (int)((w->lines / group + p->cp_async_warps - 1) / p->cp_async_warps * group);
    w->staging = w->pitch * w->share;
    return true;
}

/* Whether only the rules of TMA prevent the load. */
bool roles_cp_async_window(Roles *c, const Instr *i)
{
    MemParts m;
    if (!ir_mem_parts(i, &m)) return false;
    const Param *p = &c->f->params[m.param];
    const Attr *steps = ir_attr(i, ATTR_STEPS), *x = ir_attr(i, ATTR_EXTENTS);
    int unit = -1;
    for (int a = 0; a < m.rank; a++)
        if (p->stride[a] == 1) unit = a;
    int64_t parts = kernel_parts(i, NULL);
    /* Rows that begin at multiples of 16 bytes are copied as they are, if only products read them and there
     * are many rows. A piece that a row ends within is copied in part. */
    if (parts) {
        const Type *t = ir_result(i)->type;
        int pieces;
        if (t->rank != 2 || ir_attr(i, ATTR_ORDER) || steps || roles_matrix_of(i) != ir_result(i) ||
            kernel_access_bytes_at(c->f, i, NULL, false) < 16 || x->v[m.rank - 1] == -1 || unit != m.rank - 1)
            return false;
        int passes = kernel_cp_async_passes(c->p, t->shape[0], t->shape[1], dtype_bytes(t->dtype), &pieces);
        if (!passes || passes > MOST_CP_ASYNC_PASSES) return false;
    }
    return !m.token && !m.pad && unit >= 0 && x->v[unit] != -1 && (!steps || steps->v[unit] == 1) &&
           p->align % 16 == 0 && p->kind == PARAM_IN && dtype_bytes(p->type->dtype) <= 4 &&
           p->type->dtype != DT_BOOL;
}

int roles_cp_async_rings(const Roles *c)
{
    int n = 0;
    for (size_t k = 0; k < c->rings.len; k++) n += c->rings.data[k].by_cp_async;
    return n;
}

/* Whether cp.async producers are faster than the portable path. When TMA can fetch neither operand, and the
 * rows of both begin at multiples of 4 bytes, the portable path is faster, because cp.async copies such rows
 * word by word (bench/notes/decisions.md, "Behind the decisions"). */
bool roles_cp_async_gains(Roles *c)
{
    bool gain = roles_cp_async_rings(c) < 2;
    for (size_t k = 0; k < c->loads.len && !gain; k++) {
        const Decision *d = schedule_asked_load(c->p, c->loads.data[k]);
        gain = (d && d->form == LOAD_STAGES_CP_ASYNC) || (roles_ring(c, c->loads.data[k])->by_cp_async &&
                                                             kernel_access_bytes(c->f, c->loads.data[k]) < 4);
    }
    return gain || roles_force_cp_async(c->p) ||
           roles_refuse(c, c->f->loc,
               "two tensors that TMA cannot fetch, with rows at multiples of 4 bytes: mma.sync is "
               "faster than cp.async producer warps for both");
}

/* --- how many warps ---------------------------------------------------------------------------------- */

enum { CP_ASYNC_REGISTERS = 88 };

static const char *cp_async_wrong(const Decision *d)
{
    if (d->n[0] != CP_ASYNC_WARPS && d->n[0] != MOST_CP_ASYNC_WARPS)
        return "cp_async_producer takes 3 or 7 warps: with the producer's they make whole warpgroups, which "
               "hand over registers together";
    return roles_handed_over(d->n[1]) ? NULL : "registers are handed over in eights, from 24 to 240 a thread";
}

int roles_warpgroups_of(int64_t rows, bool four)
{
    int n = (int)(rows / 64);
    if (n > 4) n = n % 4 == 0 ? 4 : n % 3 == 0 ? 3 : 2;
    return n == 4 && !four ? 2 : n;
}

/* Whether the consumers have enough registers beside seven cp.async producers: ptxas wants room for the
 * widest product in the registers that the launch gives each thread, and all sums must fit into those that
 * the producers leave. */
static bool more_have_room(const KernelPlan *p, const InstrList *products)
{
    enum { BESIDE_PRODUCT = 24, BESIDE_SUM = 40 }; /* registers for addresses, operands and the epilogue */
    int64_t sums = 0, rows = 0, widest = 0;
    for (size_t k = 0; k < products->len; k++) {
        const Type *t = ir_result(products->data[k])->type;
        int64_t words = dtype_bytes(t->dtype) / 4;
        sums += t->shape[0] * t->shape[1] * words;
        if (t->shape[0] > rows) rows = t->shape[0];
        if (64 * t->shape[1] * words > widest) widest = 64 * t->shape[1] * words;
    }
    int warps = 4 * roles_warpgroups_of(rows, false), producers = 1 + MOST_CP_ASYNC_WARPS;
    int threads = 32 * (warps + producers);
    /* One warpgroup of 64 rows consumes less than three warps bring. */
    if (warps < 8 || threads > p->target->cta_threads) return false;
    int each = target_registers_each(p->target, threads),
        left = (each * threads - 32 * CP_ASYNC_REGISTERS * producers) / (32 * warps);
    return widest / 128 + BESIDE_PRODUCT <= each &&
           sums / (32 * warps) + BESIDE_SUM * (int)products->len <= left;
}

int roles_cp_async_warps(KernelPlan *p, const InstrList *products)
{
    const Decision *d = schedule_asked(p, DECIDE_CP_ASYNC);
    if (d && !cp_async_wrong(d)) return d->n[0];
    return more_have_room(p, products) ? MOST_CP_ASYNC_WARPS : CP_ASYNC_WARPS;
}

void roles_ask_cp_async(KernelPlan *p, const InstrList *products)
{
    const Decision *d = schedule_asked(p, DECIDE_CP_ASYNC);
    const char *wrong = d ? cp_async_wrong(d) : NULL;
    p->cp_async_warps = roles_cp_async_warps(p, products);
    p->cp_async_registers = d && !wrong ? d->n[1] : CP_ASYNC_REGISTERS;
    if (wrong) schedule_refuse(p, d, "%s", wrong);
}
