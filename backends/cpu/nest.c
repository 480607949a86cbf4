/* nest.c: loop nests over tiles. The last axis of more than one element is walked in chunks of vectors (and
 * smaller powers of two for what is left), the others by plain loops. In a chunk every sink takes its value
 * (eval.c). What does not change along the chunk's axis is computed in the row, before the chunks. */
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/nest.h"
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/memory/transpose.h"

typedef void FlatFn(Gen *g, LLVMValueRef at, int lanes, void *user);

/* fn over [0, n) in chunks. */
static void flat(Gen *g, int64_t n, int lanes, FlatFn *fn, void *user)
{
    int64_t done = 0;
    if (n >= lanes) {
        Loop l;
        done = n / lanes * lanes;
        LLVMValueRef i = gen_loop(g, &l, gen_int(g, 0), gen_int(g, done), lanes);
        fn(g, i, lanes, user);
        gen_loop_end(g, &l);
    }
    for (int w = lanes; w; w /= 2)
        for (; n - done >= w; done += w) fn(g, gen_int(g, done), w, user);
}

typedef struct Fill {
    const Sink *sink;
    const Buf *to, *from;
} Fill;

static LLVMValueRef element(Gen *g, const Buf *b, LLVMValueRef at)
{ return gen_ptr(g, gen_buf(g, b, 0), LLVMBuildMul(g->b, at, gen_int(g, dtype_bytes(b->dtype)), "")); }

static void fill_identity(Gen *g, LLVMValueRef at, int lanes, void *user)
{
    Fill *f = user;
    LLVMValueRef v = f->from ? reduce_no_place(g, lanes) : reduce_identity(g, f->sink, lanes);
    if (!f->from && f->to->dtype != reduce_dtype(f->sink)) v = from_f32_exact(g, f->to->dtype, v);
    gen_store(g, f->to->dtype, v, element(g, f->to, at));
}

static void round_results(Gen *g, LLVMValueRef at, int lanes, void *user)
{
    Fill *f = user;
    gen_store(g, f->to->dtype,
        convert(g, f->to->dtype, f->from->dtype, gen_load(g, f->from->dtype, lanes, element(g, f->from, at))),
        element(g, f->to, at));
}

static bool across(const Step *s, const Sink *k)
{ return k->kind == SINK_REDUCE && !reduce_along_chunks(s, k) && k->value->type->shape[reduce_axis(k)] > 1; }

static void before_nest(Nest *n)
{
    Gen *g = n->g;
    int at = 0;
    for (Sink *k = n->step->sinks; k; k = k->next, at++) {
        if (k->kind == SINK_STORE) line_ends_begin(n, n->windows[at] = memory_window(g, k->instr));
        if (k->kind == SINK_PACK) mma_clear_padding(g, k->buf);
        if (k->kind == SINK_COUNT) count_begin(g, k);
        if (!across(n->step, k)) continue;
        Buf *values = k->aux ? k->aux : k->buf;
        int64_t elements = values->bytes / dtype_bytes(values->dtype);
        Fill f = { k, values, NULL };
        flat(g, elements, plan_lanes(g->target), fill_identity, &f);
        if (is_arg(k->instr->op)) {
            Fill p = { k, k->buf, values };
            flat(g, elements, plan_lanes(g->target), fill_identity, &p);
        }
    }
}

static void after_nest(Nest *n)
{
    for (Sink *k = n->step->sinks; k; k = k->next) {
        if (k->kind == SINK_COUNT) count_end(n->g, k);
        if (!across(n->step, k) || !k->aux || is_arg(k->instr->op)) continue;
        Fill f = { k, k->buf, k->aux };
        flat(n->g, k->buf->bytes / dtype_bytes(k->buf->dtype), plan_lanes(n->g->target), round_results, &f);
    }
}

static void sink_buffer(Eval *e, Sink *k, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    bool own = k->value->def && plan_info(g->plan, k->value)->buf == k->buf;
    LLVMValueRef v = own ? eval_fresh(e, k->value, coord, va) : nest_eval(e, k->value, coord, va);
    LLVMValueRef c[TILE_MAX_RANK];
    for (int a = 0; a < k->buf->rank; a++) {
        c[a] = coord[a];
        if (!k->base[a]) continue;
        RowPlace p = { NULL, false };
        if (a != va) p = row_enter(e);
        c[a] = LLVMBuildAdd(g->b, coord[a], gen_int(g, k->base[a]), "");
        row_leave(e, p);
    }
    buf_store(e, k->buf, v, c, va);
}

/* A product that has fetched ahead itself has taken `ahead` from its windows. */
static void fetch_ahead(Nest *n, Eval *e)
{
    for (Window *w = n->g->walked; w; w = w->next_walked) {
        if (!w->ahead || !memory_walks(w, n->step)) continue;
        LLVMValueRef coord[TILE_MAX_RANK];
        int va = unsqueeze(n->g, ir_result(w->instr)->type, n->at, n->step->rank, coord);
        if (n->forward) coord[va] = n->forward;
        memory_fetch_part(e, w, n->step, coord, va);
    }
}

/* Packs the chunks of all rows of a group. */
static void pack_group(Nest *n, Eval *e, Sink *k, LLVMValueRef *coord, int va)
{
    LLVMValueRef v[MAX_GROUP], row = coord[0];
    for (int j = 0; j < n->group; j++) {
        coord[0] = n->rows[j];
        v[j] = nest_eval(e, k->value, coord, va);
    }
    mma_pack_group(e, k->buf, k->value->type->dtype, v, row, coord[1]);
}

static void chunk(Nest *n, Eval *e)
{
    Gen *g = n->g;
    int at = 0;
    if (n->step->in == g->plan->body) fetch_ahead(n, e);
    for (Sink *k = n->step->sinks; k; k = k->next, at++) {
        LLVMValueRef coord[TILE_MAX_RANK];
        int va = unsqueeze(g, k->value->type, n->at, n->step->rank, coord);
        if (k->instr) gen_loc(g, k->instr->loc);
        switch (k->kind) {
        case SINK_BUFFER: sink_buffer(e, k, coord, va); break;
        case SINK_PACK:
            if (n->group > 1) {
                pack_group(n, e, k, coord, va);
                break;
            }
            mma_pack_store(
                e, k->buf, k->value->type->dtype, nest_eval(e, k->value, coord, va), coord[0], coord[1]);
            break;
        case SINK_REDUCE: reduce_chunk(e, n, k, &n->acc[at], coord, va); break;
        case SINK_COUNT: count_keys(e, k, coord, va); break;
        case SINK_STORE: memory_store(e, n->windows[at], nest_eval(e, k->value, coord, va), coord, va); break;
        case SINK_SCATTER: memory_scatter(e, k->instr, coord, va); break;
        case SINK_ATOMIC: {
            LLVMValueRef old = memory_atomic(e, k->instr, coord, va);
            if (k->buf) buf_store(e, k->buf, old, coord, va);
            break;
        }
        case SINK_ASSERT: {
            const Attr *m = ir_attr(k->instr, ATTR_MESSAGE);
            gen_check(g, LLVMBuildNot(g->b, nest_eval(e, k->value, coord, va), ""), k->instr->loc,
                m ? m->s : "assertion failed");
            break;
        }
        case SINK_PRINT: break;
        }
    }
}

enum {
    HEAVY = 20,
    COUNTED = 8,         /* keys of a chunk that are counted */
    MOST_HELD = 8,       /* accumulators of a row: half of the registers */
    MOST_HELD_COST = 64, /* instructions of a row that is written out chunk by chunk */
};

/* Whether a matrix product stands among the steps beside this one. */
static bool beside_product(const Step *s)
{
    for (const Step *x = s->in ? s->in->first : NULL; x; x = x->next)
        if (x->kind == STEP_MMA) return true;
    return false;
}

/* Lanes of a chunk. Wider than a register means several registers side by side: independent work, which hides
 * latencies. Short rows with much to do stay at one, as twice the code would only take longer to compile. */
static int nest_lanes(const Gen *g, const Step *s, int64_t extent)
{
    int base = plan_lanes(g->target), lanes = base, work = 0, buffered = 0;
    bool along = false, narrow = false, stores = !g->target->avx512, lengthy = extent >= 16 * base;
    for (const Sink *k = s->sinks; k; k = k->next) {
        work += plan_cost(g->plan, k->value);
        if (k->kind == SINK_BUFFER && k->value->def) buffered += plan_op_cost(k->value->def);
        along |= reduce_along_chunks(s, k);
        stores &= k->kind == SINK_STORE;
    }
    for (const Sink *k = s->sinks; k; k = k->next) {
        if (k->kind == SINK_PACK && k->value->type->shape[1] == 1) return 1;
        if (k->kind == SINK_COUNT) return COUNTED;
        narrow |= k->kind == SINK_STORE && dtype_bits(k->value->type->dtype) <= 16;
    }
    if ((narrow && extent >= 2 * base) || (along && extent >= 4 * base)) lanes = 2 * base;
    if (work > HEAVY) lanes = base;
    if (s->rank == 1 && beside_product(s)) lanes = base; /* little beside the product's matrix */
    else if (lengthy && !(s->in && plan_rare(s->in)))
        lanes = (along || narrow || stores) && (g->target->avx512 || work + buffered <= HEAVY) ? 4 * base
                                                                                               : 2 * base;
    return s->scalar_lanes ? 1 : lanes;
}

/* --- reductions along the loop around the rows ------------------------------------------------------------
 */

static int chunks_of(int64_t extent, int lanes)
{
    int n = (int)(extent / lanes);
    return n + __builtin_popcountll((uint64_t)(extent % lanes));
}

static bool holds(const Nest *n)
{
    const Step *s = n->step;
    int lanes = plan_lanes(n->g->target), held = 0, cost = 0;
    int64_t extent = s->rank < 2 ? INT32_MAX : s->shape[s->rank - 1];
    if (extent > MOST_HELD * lanes) return false;
    for (const Sink *k = s->sinks; k; k = k->next) {
        bool moves = k->kind == SINK_BUFFER || k->kind == SINK_STORE;
        if (!moves && !reduce_can_be_held(s, k)) return false;
        if (!moves) held += dtype_bytes(reduce_dtype(k)) > 4 ? 2 : 1;
        cost += plan_cost(n->g->plan, k->value);
    }
    int chunks = chunks_of(extent, lanes);
    return held && held * chunks <= MOST_HELD && cost * chunks <= MOST_HELD_COST;
}

/* Takes the accumulators of all chunks of a row from the buffers, or puts them back. */
static void move_held(Nest *n, bool back)
{
    Gen *g = n->g;
    const Step *s = n->step;
    int64_t extent = s->shape[s->rank - 1], done = 0;
    n->at[s->rank - 2] = gen_int(g, 0);
    for (int w = plan_lanes(g->target), number = 0; w; w /= 2)
        for (; extent - done >= w; done += w, number++) {
            int at = 0;
            Eval e;
            eval_init(&e, g, w);
            n->at[s->rank - 1] = gen_int(g, done);
            for (Sink *k = s->sinks; k; k = k->next, at++) {
                LLVMValueRef coord[TILE_MAX_RANK];
                if (k->kind != SINK_REDUCE) continue;
                int va = unsqueeze(g, k->value->type, n->at, s->rank, coord);
                if (back) reduce_release(&e, k, &n->acc[at], number, coord, va);
                else reduce_hold(&e, k, &n->acc[at], coord, va);
            }
        }
}

static void restart_held(Nest *n)
{
    int at = 0;
    for (const Sink *k = n->step->sinks; k && n->held; k = k->next) n->acc[at++].n = 0;
}

/* --- rows -------------------------------------------------------------------------------------------------
 */

/* Where the last store of the row ends, if the row does nothing but store, and may be cut off: 0 where
 * nothing is stored. NULL: chunks behind it do something. */
static LLVMValueRef end_of_stores(Nest *n, Eval *r)
{
    Gen *g = n->g;
    LLVMValueRef end = NULL;
    int at = 0;
    bool out = true;
    for (Sink *k = n->step->sinks; k; k = k->next, at++) {
        LLVMValueRef coord[TILE_MAX_RANK];
        Eval e;
        if (r->assume || k->kind != SINK_STORE) return NULL;
        eval_init(&e, g, 1);
        e.row_eval = r;
        n->at[n->step->rank - 1] = gen_int(g, 0);
        int va = unsqueeze(g, k->value->type, n->at, n->step->rank, coord);
        WindowRow *w = memory_row(&e, n->windows[at], coord, va);
        if (!w->hi) return NULL;
        out &= memory_row_is_out(r, w);
        RowPlace p = row_enter(&e);
        end = end ? larger(g, end, w->hi) : w->hi;
        row_leave(&e, p);
    }
    return out ? gen_int(g, 0) : end;
}

/* Whether chunks of a row that may be cut off are worth a test that all their windows are in range: from
 * WINDOWS windows on, as stencils have them. One test is cheaper then than their masks. */
static bool tests_chunks(const Eval *r)
{
    enum { WINDOWS = 3 };
    return !r->assume && r->upto && !r->apart && r->n_cut >= WINDOWS;
}

/* A chunk of a row that may be cut off: most of its chunks are not, which are computed as in a row that is
 * in range. */
static void chunk_in_range(Nest *n, Eval *r, Eval *e)
{
    Gen *g = n->g;
    LLVMValueRef c = n->at[n->step->rank - 1], end = LLVMBuildAdd(g->b, c, gen_int(g, e->lanes), "");
    LLVMValueRef in = both(g, icmp(g, LLVMIntSLE, r->from, c), icmp(g, LLVMIntSLE, end, r->upto));
    If f;
    Eval cut = *e;
    gen_if(g, &f, both(g, r->side, in));
    LLVMSetValueName2(LLVMBasicBlockAsValue(f.then), "in_range", strlen("in_range"));
    r->assume = true;
    chunk(n, e);
    r->assume = false;
    gen_else(g, &f);
    chunk(n, &cut);
    gen_endif(g, &f);
}

/* Whether the row is walked from its end. A nest that reads a row which a nest before has walked, and writes
 * as much to a buffer, finds more of it in the first cache so, where that does not hold both: what was read
 * last is there. The nest that reads the buffer next finds its beginning. */
static bool from_the_end(const Nest *n)
{
    int64_t bytes = 0, row = 0;
    for (const Sink *k = n->step->sinks; k; k = k->next) {
        if (k->kind == SINK_BUFFER) bytes += k->buf->bytes;
        else if (k->kind != SINK_REDUCE || is_arg(k->instr->op)) return false;
    }
    for (const Window *w = n->step->in == n->g->plan->body ? n->g->walked : NULL; w; w = w->next_walked)
        if (w->done && memory_walks(w, n->step)) row += w->shape[w->rank - 1] * dtype_bytes(w->dtype);
    return row && bytes && n->step->rank == 1 && 8 * (bytes + row) > 7 * n->g->target->first_cache;
}

/* All chunks of a row. */
static void chunks(Nest *n, Eval *r, int lanes)
{
    Gen *g = n->g;
    int last = n->step->rank - 1;
    int64_t extent = n->step->shape[last], done = 0;
    LLVMValueRef end = end_of_stores(n, r);
    if (end && LLVMIsNull(end)) return;
    restart_held(n);
    if (extent >= 2 * lanes && !n->held) {
        Loop l;
        Eval e;
        done = extent / lanes * lanes;
        LLVMValueRef upto = end ? smaller(g, end, gen_int(g, done)) : gen_int(g, done);
        n->at[last] = gen_loop(g, &l, gen_int(g, 0), upto, lanes);
        if (from_the_end(n)) {
            n->forward = n->at[last];
            n->at[last] = LLVMBuildSub(g->b, gen_int(g, done - lanes), n->at[last], "");
        }
        eval_init(&e, g, lanes);
        e.row_eval = r;
        e.step = n->step;
        e.at = n->at[last];
        if (tests_chunks(r)) chunk_in_range(n, r, &e);
        else chunk(n, &e);
        gen_loop_end(g, &l);
        n->forward = NULL;
    }
    for (int w = lanes; w; w /= 2)
        for (; extent - done >= w; done += w) {
            Eval e;
            eval_init(&e, g, w);
            e.row_eval = r;
            e.step = n->step;
            e.at = n->at[last] = gen_int(g, done);
            chunk(n, &e);
        }
}

/* If windows may be cut off or strided, the row is emitted twice: with chunks that test nothing, and with
 * chunks that test. */
static void row(Nest *n)
{
    Gen *g = n->g;
    int last = n->step->rank - 1, at = 0;
    int lanes = n->held ? plan_lanes(g->target) : nest_lanes(g, n->step, n->step->shape[last]);
    Eval r;
    eval_init(&r, g, 1);
    r.row = gen_here(g);
    r.step = n->step;
    r.assume = true;
    LLVMBasicBlockRef first = gen_block(g, "chunks"), second = NULL;
    gen_at(g, first);
    chunks(n, &r, lanes);
    LLVMBasicBlockRef end = gen_here(g);
    if (r.plain) {
        bool along = false;
        for (Sink *k = n->step->sinks; k; k = k->next) along |= reduce_along_chunks(n->step, k);
        int base = plan_lanes(g->target);
        if (!along && lanes > base) lanes = base; /* Otherwise the accumulators are the same. */
        r.assume = false;
        second = gen_block(g, "cut");
        gen_at(g, second);
        chunks(n, &r, lanes);
        LLVMBasicBlockRef done = gen_block(g, "row");
        LLVMBuildBr(g->b, done);
        gen_at(g, end);
        LLVMBuildBr(g->b, done);
        end = done;
    }
    gen_at(g, r.row);
    if (second) LLVMBuildCondBr(g->b, r.plain, first, second);
    else LLVMBuildBr(g->b, first);
    gen_at(g, end);
    if (n->step->row_aside) line_ends_put(n, &r);
    Eval fin;
    eval_init(&fin, g, 1);
    n->at[last] = gen_int(g, 0);
    for (Sink *k = n->step->sinks; k; k = k->next, at++) {
        LLVMValueRef coord[TILE_MAX_RANK];
        if (!reduce_along_chunks(n->step, k)) continue;
        int va = unsqueeze(g, k->value->type, n->at, n->step->rank, coord);
        reduce_finish(&fin, n, k, &n->acc[at], coord, va);
    }
}

static void loops(Nest *n, int axis)
{
    Gen *g = n->g;
    if (axis >= n->step->rank - 1) {
        if (n->step->line_ends) line_ends_row(n, row);
        else row(n);
        return;
    }
    Loop l;
    bool held = n->held && axis == n->step->rank - 2;
    if (held) move_held(n, false);
    n->at[axis] = gen_loop(g, &l, gen_int(g, 0), gen_int(g, n->step->shape[axis]), n->group);
    if (axis == 0) transpose_fetch(g, n->step, n->at[axis]);
    for (int j = 0; j < n->group; j++)
        n->rows[j] = j ? LLVMBuildAdd(g->b, n->at[axis], gen_int(g, j), "") : n->at[axis];
    loops(n, axis + 1);
    gen_loop_end(g, &l);
    if (held) move_held(n, true);
}

/* The rows that the nest takes at a time: those of a group of matrix operands, if it does nothing but pack
 * such, else one. */
static int rows_at_once(const Step *s)
{
    int group = 1;
    for (const Sink *k = s->sinks; k; k = k->next) {
        if (s->rank != 2 || k->kind != SINK_PACK || k->buf->form != FORM_GROUPS) return 1;
        int of_sink = mma_group(k->buf->dtype);
        if ((group > 1 && of_sink != group) || s->shape[0] % of_sink) return 1;
        group = of_sink;
    }
    return group;
}

/* A buffer of zeros and nothing else. */
static bool only_zeros(Gen *g, const Step *s)
{
    const Sink *k = s->sinks;
    if (!k || k->next || k->kind != SINK_BUFFER || !k->value->def || k->value->def->op != OP_SPLAT)
        return false;
    for (int a = 0; a < k->buf->rank; a++)
        if (k->base[a] || k->buf->shape[a] != k->value->type->shape[a]) return false;
    LLVMValueRef x = gen_scalar(g, ir_operand(k->value->def, 0));
    return LLVMIsNull(x) && k->buf->bytes >= 256;
}

void nest_emit(Gen *g, Step *s)
{
    if (only_zeros(g, s)) {
        LLVMBuildMemSet(g->b, gen_buf(g, s->sinks->buf, 0), LLVMConstInt(g->i8, 0, false),
            gen_int(g, s->sinks->buf->bytes), 64);
        return;
    }
    int n_sinks = 0;
    for (Sink *k = s->sinks; k; k = k->next) n_sinks++;
    Nest n = { .g = g, .step = s, .group = rows_at_once(s) };
    n.acc = arena_array(g->arena, Acc, (size_t)n_sinks);
    n.windows = arena_array(g->arena, Window *, (size_t)n_sinks);
    n.held = holds(&n);
    before_nest(&n);
    if (s->rank == 0) {
        Eval e;
        eval_init(&e, g, 1);
        e.step = s;
        chunk(&n, &e);
    } else if (!mma_pack_tables(g, s)) {
        loops(&n, 0);
    }
    for (Window *w = s->in == g->plan->body ? g->walked : NULL; w; w = w->next_walked)
        if (memory_walks(w, s)) w->done += memory_work(g, s);
    after_nest(&n);
}
