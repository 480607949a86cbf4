/* emit_cp_async.c: sm_90a: rings that cp.async producers fill
 * (passes/kernel/warp_specialization/cp_async_producer.c says what is done and why).
 *
 *     bytes of a line        |....aaaa|aaaaaaaa|bbbbbbbb|cc......|        aligned vectors in the warp's
 *                            staging area, zeros behind the row's end
 *     of the stage             aaaaaaaaaaaabbbb bbbbcc..                   two of them at a time, funnelled
 *                             into place
 *
 * In a loop the window of the step before is taken from the staging area while this step's is on its way:
 * what that needs to know of it (where its first line began, whether one is there at all) is kept from
 * iteration to iteration, and the last one is done behind the loop. PTX ISA 9.7.9.25 (cp.async), 9.7.13.4
 * (fence.proxy.async). */
#include "backends/gpu/hopper/emit_cp_async.h"
#include "backends/gpu/hopper/emit_roles.h"

static void begin(Emit *e, const Fill *f, CpAsync *x)
{
    const Type *t = ir_operand(f->instr, 0)->type;
    *x = (CpAsync){ .e = e,
        .f = f,
        .way = f->way,
        .stage = layouts_shared(&e->plan->layouts, t),
        .warps = e->plan->cp_async_warps };
    window_of(e, f->instr, &x->w);
    if (!e->ranges) e->ranges = ranges_new(e->f);
    x->aligned = f->way.begins || (!f->way.first && x->w.align % 16 == 0);
    x->heads = x->w.masked && !f->way.first && range_of(e->ranges, x->w.offset[x->w.unit]).lo < 0;
}

const char *cp_async_scaled(Emit *e, const char *x, int64_t by)
{ return by == 1 ? x : str(e, "%s * %lld", x, (long long)by); }

/* The coordinates of line `n`, an expression: those of all axes except the axis of the line, the last one
 * fastest. */
void cp_async_line_coords(const CpAsync *x, const char *n, Index **c)
{
    Emit *e = x->e;
    int64_t below = 1;
    for (int a = x->way.rank - 1; a >= 0; a--) {
        c[a] = index_number(e, 0);
        if (a == x->way.axis || x->way.shape[a] == 1) continue;
        const char *k = below == 1 ? n : str(e, "(%s) / %lld", n, (long long)below);
        below *= x->way.shape[a];
        if (below < x->way.lines) k = str(e, "(%s) %% %lld", k, (long long)x->way.shape[a]);
        c[a] = index_other(e, "(%s)", k);
    }
}

/* Declares a u32 with the offset in the staging of the element at these coordinates, and returns its name. */
const char *cp_async_stage_place(const CpAsync *x, Index *const *c)
{
    Index *m[2];
    for (int side = 0; side < 2; side++) {
        int64_t below = 1;
        const char *sum = NULL;
        for (int a = side ? x->way.rank - 1 : x->way.split - 1; a >= (side ? x->way.split : 0); a--) {
            const char *part = cp_async_scaled(x->e, index_text(x->e, c[a]), below);
            if (!index_is(c[a], 0)) sum = sum ? str(x->e, "%s + %s", sum, part) : part;
            below *= x->way.shape[a];
        }
        m[side] = sum ? index_other(x->e, "(%s)", sum) : index_number(x->e, 0);
    }
    return shared_offset(x->e, x->stage, m);
}

/* The distance of the first byte of a line from the first byte of the window, modulo 2^32. */
const char *cp_async_line_bytes(const CpAsync *x, Index *const *c)
{
    Emit *e = x->e;
    const char *sum = x->f->low;
    for (int a = 0; a < x->w.rank; a++) {
        int t = x->w.tile_axis[a];
        if (t < 0 || t == x->way.axis || index_is(c[t], 0)) continue;
        sum = str(e, "%s + (u32)%s * ((u32)%s * %lldu)", sum, index_text(e, c[t]),
            window_stride(e, x->w.param, a), (long long)(x->w.step[a] * x->way.bytes));
    }
    return sum;
}

void fill_begin_some(Emit *e, const char *v, int n)
{
    directive(e, "#pragma unroll %d", CP_ASYNC_AT_ONCE);
    line(e, "for (int %s = 0; %s < %d; %s++) {", v, v, n, v);
    e->indent++;
}

/* Line `j` of the warp's k-th class. */
const char *cp_async_straight_line(const CpAsync *x, const char *k, const char *j)
{ return str(x->e, "warp + %d * (%s) + %d * (%s)", x->warps, k, x->way.classes, j); }

/* Unit `at` of the warp: declares n, the line of this lane, and gives the condition that it exists. */
const char *cp_async_unit_line(const CpAsync *x, const char *at)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    const char *unit = str(e, "(warp * %d + %s)", y->share, at),
               *guard = y->share * x->warps > y->units ? str(e, "%s < %d", unit, y->units) : "",
               *own = y->group > 1 ? str(e, " + lane / %d", y->per) : "";
    if (y->straight) {
        line(e, "const i32 n = %s;",
            cp_async_straight_line(x, str(e, "%s / %d", at, y->of_class),
                str(e, "%s %% %d * %d%s", at, y->of_class, y->group, own)));
        return y->classes % x->warps
                   ? str(e, "warp + %d * (%s / %d) < %d", x->warps, at, y->of_class, y->classes)
                   : "";
    }
    if (y->classes == 1) line(e, "const i32 n = %s * %d%s;", unit, y->group, own);
    else
        line(e, "const i32 n = %s / %d + %d * (%s %% %d * %d%s);", unit, y->of_class, y->classes, unit,
            y->of_class, y->group, own);
    if ((int64_t)y->units * y->group > y->lines)
        guard = both_conditions(e, guard, str(e, "n < %lld", (long long)y->lines));
    return guard;
}

/* The coordinates of line number `k` of row `r` along the axis of blocks. */
void cp_async_block_coords(const CpAsync *x, const char *r, Index *k, Index **c)
{
    Emit *e = x->e;
    int64_t below = 1;
    for (int a = x->way.rank - 1; a >= 0; a--) {
        c[a] = a == x->way.beside ? k : index_number(e, 0);
        if (a == x->way.axis || a == x->way.beside || x->way.shape[a] == 1) continue;
        const char *n = below == 1 ? r : str(e, "(%s) / %lld", r, (long long)below);
        below *= x->way.shape[a];
        if (below < x->way.rows) n = str(e, "(%s) %% %lld", n, (long long)x->way.shape[a]);
        c[a] = index_other(e, "(%s)", n);
    }
}

void cp_async_open_rows(const CpAsync *x)
{
    Emit *e = x->e;
    directive(e, "#pragma unroll 1");
    line(e, "for (int k = 0; k < %d; k++) {", x->way.mine);
    e->indent++;
    line(e, "const i32 row = warp + %d * k;", x->warps);
    if (x->way.rows % x->warps) line(e, "if (row >= %d) break;", x->way.rows);
}

static void finish(const CpAsync *x, const char *staging, int newer)
{
    Emit *e = x->e;
    const char *ring = x->f->ring->name, *stage = x->f->ring->depth > 1 ? str(e, "%s_stage", ring) : "0",
               *to = tmp(e, "to");
    line(e, "%s(%d);", use(e, "cp_async_wait"), newer);
    line(e, "%s();", use(e, "warp_sync"));
    line(e, "%s(%s_empty + 8 * %s, %s_phase ^ 1);", use(e, "mbar_wait"), ring, stage, ring);
    line(e, "const u32 %s = %s + %s * %lld;", to, ring, stage, (long long)x->f->ring->bytes);
    line(e, "{");
    e->indent++;
    if (x->way.blocks) cp_async_take_blocks(x, staging, to);
    else if (x->way.transposed) cp_async_take_transposed(x, staging, to);
    else if (x->way.straight) cp_async_take_straight(x, staging, to);
    else cp_async_take_runs(x, staging, to);
    end_block(e);
    line(e, "%s();", use(e, "warp_sync"));
    line(e, "if (lane == 0) %s(%s_full + 8 * %s);", use(e, "mbar_arrive"), ring, stage);
    if (x->f->ring->depth == 1) line(e, "%s_phase ^= 1;", ring);
    else
        line(
            e, "if (++%s_stage == %d) { %s_stage = 0; %s_phase ^= 1; }", ring, x->f->ring->depth, ring, ring);
}

/* --- where ------------------------------------------------------------------------------------------- */

static bool by_rows(const Instr *fill) { return ir_attr_int(fill, ATTR_PARTS, 0) > 0; }

static int late_beside(const Instr *fill)
{
    int n = 0;
    for (const Instr *i = fill->block->first; i; i = i->next)
        n += i->op == OP_RING_CP_ASYNC && !ir_attr_int(i, ATTR_SLOT, 0);
    return n;
}

/* --- rows that lie anywhere
 * ---------------------------------------------------------------------------------------------------------
 * Whole pieces of 16 bytes go from memory straight to the stage, where a thread has one in each pass. A stage
 * is full when its copies have arrived, which the cp.async producers see some iterations later
 * (ir_cp_async_lag): until then they hold it (`head` is the stage that is being filled, `open` how many they
 * hold), and start the next ones'. */

static void publish(Emit *e, const Fill *f, int newer)
{
    const char *ring = f->ring->name;
    line(e, "%s(%d);", use(e, "cp_async_wait"), newer);
    line(e, "%s();", use(e, "fence_proxy_async"));
    line(e, "%s();", use(e, "warp_sync"));
    line(e, "if (lane == 0) %s(%s_full + 8 * %s_stage);", use(e, "mbar_arrive"), ring, ring);
    line(e, "if (++%s_stage == %d) %s_stage = 0;", ring, f->ring->depth, ring);
}

/* Whether a row's extent may end within a piece of `wide` elements. */
static bool ends_within(const Emit *e, const Window *w, int wide)
{
    const Dim *d = &e->f->dims[e->f->params[w->param].dims[w->unit]];
    return w->masked && (d->extent >= 0 ? d->extent : d->div) % wide != 0;
}

/* Copies the piece that begins at `column` of a row to `to`; what is out of range becomes zeros. */
static void copy_row_piece(Emit *e, const Window *w, Index **c, int bytes, const char *to)
{
    const int wide = 16 / bytes;
    const char *in = tmp(e, "in"), *ptr = window_pointer(e, w), *index = window_index(e, w, c),
               *cond = window_condition(e, w, c, false);
    line(e, "const bool %s = %s;", in, *cond ? cond : "true");
    if (!ends_within(e, w, wide)) {
        line(e, "%s(%s, %s + (%s ? %s : 0), %s);", use(e, "cp_async_b128"), to, ptr, in, index, in);
        return;
    }
    const char *left = tmp(e, "left");
    line(e, "const i64 %s = (i64)%s - %s - (%s);", left, window_extent(e, w->param, w->unit),
        name_of(e, w->offset[w->unit]), tile_coord(e, w, w->unit, c));
    const char *size = tmp(e, "size"), *from = tmp(e, "from");
    line(e, "const i32 %s = %s ? %s < %d ? (i32)%s * %d : 16 : 0;", size, in, left, wide, left, bytes);
    line(e, "const void *const %s = %s + (%s ? %s : 0);", from, ptr, in, index);
    /* Tools report a copy of a part as a read of the whole, also beyond the tensor's end. */
    line(e, "if ((u32)(%s - 1) < 15u && (u64)%s + 16 > %s) %s(%s, %s, %s);", size, from,
        cp_async_tensor_end(e, w), use(e, "copy_tail_b128"), to, from, size);
    line(e, "else %s(%s, %s, %s);", use(e, "cp_async_part_b128"), to, from, size);
}

static void copy_rows(Emit *e, const Fill *f, const Instr *i)
{
    const Type *t = ir_operand(i, 0)->type;
    const LayoutShared *s = layouts_shared(&e->plan->layouts, t);
    int64_t pass = ir_attr_int(i, ATTR_SLOT, 0), passes = ir_attr_int(i, ATTR_PARTS, 1), rows = s->tile[0];
    int pieces, wide = 16 / dtype_bytes(t->dtype);
    const char *ring = f->ring->name;
    Window w;
    window_of(e, i, &w);
    kernel_cp_async_passes(e->plan, rows, s->tile[1], dtype_bytes(t->dtype), &pieces);
    if (!pass)
        line(e, "%s(%s_empty + 8 * %s_head, %s_head_phase ^ 1);", use(e, "mbar_wait"), ring, ring, ring);
    const char *row = name_of(e, ir_operand(i, 2 + w.rank));
    Index *column = index_other(e, "tid %% %d * %d", pieces, wide), *c[TILE_MAX_RANK] = { column };
    bool last = (pass + 1) * (e->plan->cp_async_warps * 32 / pieces) > rows;
    if (last) {
        line(e, "if (%s < %lld) {", row, (long long)rows);
        e->indent++;
    }
    const char *place = shared_offset(e, s, (Index *[]){ index_variable(e, row), column });
    copy_row_piece(e, &w, c, dtype_bytes(t->dtype),
        str(e, "%s + %s_head * %lld + %s", ring, ring, (long long)f->ring->bytes, place));
    if (last) end_block(e);
    if (pass + 1 < passes) return;
    line(e, "%s();", use(e, "cp_async_commit"));
    line(e, "if (++%s_head == %d) { %s_head = 0; %s_head_phase ^= 1; }", ring, f->ring->depth, ring, ring);
    if (!f->late) {
        publish(e, f, 0);
        return;
    }
    int lag = ir_cp_async_lag(i);
    line(e, "if (%s_open == %d) {", ring, lag);
    e->indent++;
    publish(e, f, lag * late_beside(i));
    end_block(e);
    line(e, "else %s_open++;", ring);
}

void emit_cp_async_stage(Emit *e, Instr *fill, const RingInfo *r)
{
    if (by_rows(fill)) {
        if (!ir_attr_int(fill, ATTR_SLOT, 0))
            vec_push(&e->s->arena, &e->fills,
                ((Fill){ .instr = fill, .ring = r, .late = ir_cp_async_late_in(fill) }));
        return;
    }
    const char *n = r->name;
    Fill f = { .instr = fill,
        .ring = r,
        .staging = str(e, "%s_staging", n),
        .low = str(e, "%s_low", n),
        .first = str(e, "%s_first", n),
        .holds = str(e, "%s_holds", n),
        .late = ir_cp_async_late_in(fill) };
    if (!kernel_cp_async_way(e->f, e->plan, fill, ir_operand(fill, 0)->type, &f.way))
        ir_fail(e->s, fill->loc, "the cp.async producers cannot copy to this stage");
    f.bytes = f.way.staging;
    int64_t bytes = (int64_t)(f.late ? CP_ASYNC_STAGING : 1) * e->plan->cp_async_warps * f.way.staging;
    e->shared_bytes = (e->shared_bytes + 127) / 128 * 128;
    f.at = e->shared_bytes;
    const Type *t = type_shared(e->s, DT_U8, 3,
        (int64_t[]){ f.late ? CP_ASYNC_STAGING : 1,
            f.way.blocks ? f.way.share * e->plan->cp_async_warps
                         : f.way.staging / f.way.pitch * e->plan->cp_async_warps,
            f.way.pitch },
        NULL);
    vec_push(&e->s->arena, &e->shared_map,
        ((SharedUse){ str(e, "rows of %s", n), t, e->shared_bytes, bytes, fill->loc }));
    e->shared_bytes += bytes;
    vec_push(&e->s->arena, &e->fills, f);
}

/* Declares the variables that cp.async producers keep from iteration to iteration. */
void emit_cp_async_state(Emit *e)
{
    for (size_t k = 0; k < e->fills.len; k++) {
        const Fill *f = &e->fills.data[k];
        CpAsync x;
        if (by_rows(f->instr)) {
            line(e, "u32 %s_head = 0, %s_head_phase = 0;", f->ring->name, f->ring->name);
            if (f->late) line(e, "int %s_open = 0;", f->ring->name);
            continue;
        }
        begin(e, f, &x);
        line(e, "const u32 %s = shared_base + %lld + warp * %d;", f->staging, (long long)f->at, f->bytes);
        line(e, "u32 %s = 0, %s = 0;", f->low, f->holds);
        if (x.heads) line(e, "i32 %s = 0;", f->first);
    }
}

static const char *staging_of(Emit *e, const Fill *f, const char *area)
{ return str(e, "%s + %s * %d", f->staging, area, f->bytes * e->plan->cp_async_warps); }

void emit_cp_async(Emit *e, Instr *i)
{
    const Fill *f = NULL;
    CpAsync x;
    for (size_t k = 0; k < e->fills.len; k++)
        if (e->fills.data[k].instr == i || (by_rows(i) && e->fills.data[k].ring->value == ir_operand(i, 0)))
            f = &e->fills.data[k];
    Window w;
    window_of(e, i, &w);
    note_wide(e, WAY_CP_ASYNC, false, &w, NULL, 16);
    if (by_rows(i)) {
        copy_rows(e, f, i);
        return;
    }
    begin(e, f, &x);
    const char *low = tmp(e, "low"), *staging = tmp(e, "staging");
    if (!f->late) {
        cp_async_start_lines(&x, f->staging, low);
        line(e, "%s = %s;", f->low, low);
        if (x.heads) line(e, "%s = %s_now;", f->first, f->first);
        finish(&x, f->staging, 0);
        return;
    }
    /* The variable `holds` is 0 when the staging areas hold nothing yet. Otherwise it is 1 or 2 and says
     * which of them holds the previous window. */
    line(e, "const u32 %s = %s;", staging, staging_of(e, f, str(e, "(%s == 1)", f->holds)));
    cp_async_start_lines(&x, staging, low);
    line(e, "if (%s) {", f->holds);
    e->indent++;
    const char *before = tmp(e, "before");
    line(e, "const u32 %s = %s;", before, staging_of(e, f, str(e, "(%s == 2)", f->holds)));
    finish(&x, before, late_beside(i));
    end_block(e);
    line(e, "%s = %s; %s = %s == 1 ? 2 : 1;", f->low, low, f->holds, f->holds);
    if (x.heads) line(e, "%s = %s_now;", f->first, f->first);
}

/* Whether the loop may have no step. */
static bool may_be_empty(const Emit *e, const Instr *loop)
{ return range_of(e->ranges, ir_operand(loop, 1)).lo <= range_of(e->ranges, ir_operand(loop, 0)).hi; }

/* When windows of the fill that are left are taken behind the loop: an expression; "": always, NULL: never.
 * Behind steps whose last window the next program takes, they are where there was no step: several such
 * programs would need more of them from the scheduler than it hands on before consumers go on. */
static const char *when_left(Emit *e, const Fill *f, const Instr *loop)
{
    if (f->late == loop) return "";
    if (!f->late || f->instr->block->parent != loop || !may_be_empty(e, loop)) return NULL;
    return str(e, "%s >= %s", name_of(e, ir_operand(loop, 0)), name_of(e, ir_operand(loop, 1)));
}

void emit_cp_async_left(Emit *e, const Instr *loop)
{
    for (size_t k = 0; k < e->fills.len && e->role == ROLE_CP_ASYNC; k++) {
        const Fill *f = &e->fills.data[k];
        CpAsync x;
        const char *when = when_left(e, f, loop);
        if (!when) continue;
        if (by_rows(f->instr)) {
            directive(e, "#pragma unroll 1");
            line(e, "for (; %s_open; %s_open--) {", f->ring->name, f->ring->name);
            e->indent++;
            publish(e, f, 0);
            end_block(e);
            continue;
        }
        begin(e, f, &x);
        const char *before = tmp(e, "before");
        line(e, "if (%s) {", both_conditions(e, f->holds, when));
        e->indent++;
        line(e, "const u32 %s = %s;", before, staging_of(e, f, str(e, "(%s == 2)", f->holds)));
        finish(&x, before, 0);
        line(e, "%s = 0;", f->holds);
        end_block(e);
    }
}
