/* cluster: spreads a row that is too long for one CTA over the CTAs of a thread block cluster (sm_90 and
 * later).
 *
 *   %x = load X[r, :] : f16[65536]       one CTA: 64 elements a thread of 1024, which spills
 *   %m = reduce_max %x
 *
 * becomes the same text with 8 CTAs of 256 threads and 32 elements a thread. The tile's layout has a block
 * part, loads and stores follow their coordinates, and a reduction hands each CTA's part to the others
 * through distributed shared memory (emit_reduce.c). Several clusters share the multiprocessors, so that
 * one row is loaded while another is reduced or stored.
 *
 * Requires: element-wise operations, loads, stores, reductions and positions of the largest or smallest, at
 * most inside one loop over rows, whose tiles are one row, all of one length, or single elements; at least
 * one reduction along the row, in 32 or 64 bits. Keeps: everything; only KernelPlan.cluster and .warps
 * change. Does not handle: other loops, products, reshapes, scans, atomics and prints, which use the shared
 * memory of one CTA or are done once a program. If a row needs a cluster and the kernel or the target does
 * not allow it, a performance note says why. The hint `cluster = n` asks for another number of CTAs, 1 for
 * none. */
#include "passes/kernel/schedule/schedule.h"

enum {
    BYTES_A_LANE = 64,      /* of the widest access, as in choose_warps */
    MOST_BYTES_A_LANE = 96, /* the same before a CTA has more warps, where all CTAs share an aligned row */
    /* The most warps of one CTA for its row: with more, half of a multiprocessor waits at one barrier
     * (bench/notes/decisions.md, "Behind the decisions"). */
    MOST_WARPS = 8,
    WARPS = 8, /* of a CTA of a cluster */
    /* The same of longer rows: a lane has up to twice as much of the row before a CTA has more, of which a
     * multiprocessor holds one alone. */
    HALF_WARPS = 16,
    /* Elements of 2 bytes of one row for each lane of the largest cluster with a warp for each SIMD:
     * registers hold them as words, and widen them again behind each reduction. */
    HELD_HALVES = 88,
    MOST_STEPS = 256,  /* operations between a load and a store, as far as they are followed */
    WORD_WARPS = 10,   /* of a CTA by itself for a row that is accessed by words (row_start.c) */
    ACCESS = 16,       /* bytes of a lane */
    MOST_ACCESSES = 5, /* of a lane to a row */
    WORD_ACCESSES = 7, /* the same of rows by words with nothing beside them */
    FEW_ACCESSES = 3,  /* the same with weights */
    /* Bytes of a lane to a row of elements of 2 bytes that stands beside several vectors of weights: more of
     * them leave fewer warps, of which each has more work of its own between two meetings
     * (bench/notes/rows.md, "Warps for rows by words beside weights"). */
    WEIGHTED_BYTES = 75,
    /* The threads that a multiprocessor should hold, so that rows overlap. The number sets the register
     * budget (bench/notes/decisions.md, "Behind the decisions"). */
    THREADS = 1024,
};

typedef struct ClusterRows {
    const Func *f;
    InstrList stores;   /* of the program */
    int64_t row, bytes; /* the elements of the row; the bytes of the widest access to it */
    bool reduced;
    int64_t held;  /* elements of all rows that are loaded */
    bool odd;      /* one of them begins at no multiple of 16 bytes */
    bool parts;    /* one of them is loaded in a loop: its elements are not held, others take their place */
    int64_t least; /* the bytes of the narrowest access to the row */
    bool replaces; /* a row is stored where it was loaded */
    bool reads_before; /* elements are stored that another CTA may have loaded before a reduction */
    const char *why;   /* not over a cluster: why */
    Loc loc;
} ClusterRows;

static void refuse(ClusterRows *r, const Instr *i, const char *why)
{
    if (r->why) return;
    r->why = why;
    r->loc = i->loc;
}

static void longest(void *user, Instr *i)
{
    ClusterRows *r = user;
    for (int k = 0; k < i->n_results; k++) {
        const Type *t = i->results[k].type;
        if (t->kind == TYPE_TILE && type_elements(t) > r->row && !kernel_is_cheap(&i->results[k]))
            r->row = type_elements(t);
    }
}

static void product(void *user, Instr *i) { *(bool *)user |= i->op == OP_MMA; }

static bool one_row(const ClusterRows *r, const Type *t)
{
    int wide = 0;
    if (t->kind != TYPE_TILE) return true;
    for (int a = 0; a < t->rank; a++) wide += t->shape[a] > 1;
    return wide == 0 || (wide == 1 && type_elements(t) == r->row);
}

/* Whether each thread reads what it needs of an input, wherever its elements are. */
static bool gathers_input(const Instr *i)
{
    MemParts m;
    return i->op == OP_GATHER && ir_mem_parts(i, &m) && !m.token && !m.token_out;
}

static bool allowed(const Instr *i)
{
    bool combined =
        i->op == OP_REDUCE_SUM || i->op == OP_REDUCE_PROD || i->op == OP_REDUCE_MAX || i->op == OP_REDUCE_MIN;
    if (combined || i->op == OP_ARGMAX || i->op == OP_ARGMIN || op_is_elementwise(i->op) ||
        i->op == OP_LOAD || i->op == OP_STORE || gathers_input(i))
        return true;
    if (i->op == OP_SPLAT || i->op == OP_ARANGE || i->op == OP_BROADCAST) return true;
    if (i->op == OP_RETURN || i->op == OP_YIELD) return true;
    return op_is_pure(i->op) && !i->n_blocks && i->n_results == 1 &&
           (ir_result(i)->type->kind == TYPE_TOKEN || kernel_is_cheap(ir_result(i)));
}

static bool is_row(const Type *t, int64_t row) { return t->kind == TYPE_TILE && type_elements(t) == row; }

/* Whether it combines the elements of the row, so that all CTAs meet: along an axis of one element none do.
 */
static bool reduces_row(const Instr *i, int64_t row)
{
    return row > 1 && op_is_along_axis(i->op) && is_row(ir_operand(i, 0)->type, row) &&
           ir_operand(i, 0)->type->shape[ir_attr_int(i, ATTR_AXIS, 0)] == row;
}

/* Whether something in the block combines the elements of the row. */
static bool holds_reduction(const Block *b, int64_t row)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (reduces_row(i, row)) return true;
        for (int k = 0; k < i->n_blocks; k++)
            if (holds_reduction(i->blocks[k], row)) return true;
    }
    return false;
}

/* Whether the value is computed from the loaded tile element by element. */
static bool follows(const Value *v, const Instr *load, int *steps)
{
    const Instr *d = v->def;
    if (d == load) return true;
    if (!d || !op_is_elementwise(d->op) || --*steps < 0) return false;
    for (int k = 0; k < d->n_operands; k++)
        if (follows(ir_operand(d, k), load, steps)) return true;
    return false;
}

/* Whether each CTA stores the elements of a row that it has loaded, as values of the same tile. Single
 * elements are loaded by all. */
static bool stores_what_it_loaded(const Instr *load, const Instr *store, int64_t row)
{
    MemParts l, s;
    int steps = MOST_STEPS;
    if (load->op != OP_LOAD || !ir_mem_parts(load, &l) || !ir_mem_parts(store, &s) || l.mask || s.mask ||
        !is_row(ir_result(load)->type, row))
        return false;
    for (int a = 0; a < l.rank; a++)
        if (l.idx[a] != s.idx[a]) return false;
    return ir_same_ints(load, store, ATTR_EXTENTS) && ir_same_ints(load, store, ATTR_STEPS) &&
           follows(s.values[0], load, &steps);
}

/* Whether all CTAs meet at a reduction between the load and the store. */
static bool meets_between(const ClusterRows *r, const Instr *load, const Instr *store)
{
    if (load->op != OP_LOAD || load->block != r->f->body || store->block != r->f->body) return false;
    bool met = false;
    for (const Instr *i = load->next; i && i != store; i = i->next) {
        met |= reduces_row(i, r->row);
        if (!i->next) return false;
    }
    return met;
}

/* Threads of different CTAs synchronize only at reductions. Therefore an element that one of them stores must
 * not be stored by another, nor loaded, but before a reduction. */
typedef struct Others {
    ClusterRows *r;
    const Instr *mem;
    int param;
    bool found;
} Others;

static void stores_too(Others *o, Instr *i)
{
    MemParts m;
    if (i == o->mem || !ir_mem_parts(i, &m) || m.param != o->param) return;
    if (stores_what_it_loaded(o->mem, i, o->r->row)) o->r->replaces = true;
    else if (meets_between(o->r, o->mem, i)) o->r->reads_before = true;
    else o->found = true;
}

static bool stored_besides(ClusterRows *r, const Instr *mem)
{
    MemParts m;
    ir_mem_parts(mem, &m);
    Others o = { r, mem, m.param, false };
    for (size_t k = 0; k < r->stores.len; k++) stores_too(&o, r->stores.data[k]);
    return o.found;
}

/* Whether a loop over rows has a reduction in each iteration, so that the cluster synchronizes between the
 * stores of two iterations. */
static bool reduces(const Block *b, int64_t row)
{
    for (const Instr *i = b->first; i; i = i->next)
        if (reduces_row(i, row)) return true;
    return false;
}

static void inspect(ClusterRows *r, const Instr *i)
{
    MemParts m;
    if (i->op == OP_FOR && i->block == r->f->body && reduces(i->blocks[0], r->row)) {
        for (const Instr *x = i->blocks[0]->first; x; x = x->next) inspect(r, x);
        return;
    }
    if (!allowed(i)) {
        refuse(r, i, "something in it is done by one CTA");
        return;
    }
    for (int k = 0; k < i->n_results; k++)
        if (!one_row(r, i->results[k].type) && !kernel_is_cheap(&i->results[k]))
            refuse(r, i, "its tiles differ in more than one axis");
    for (int k = 0; k < i->n_operands; k++)
        if (!one_row(r, ir_operand(i, k)->type)) refuse(r, i, "its tiles differ in more than one axis");
    if (op_is_along_axis(i->op) && is_row(ir_operand(i, 0)->type, r->row)) {
        DType d = ir_operand(i, 0)->type->dtype;
        r->reduced |= reduces_row(i, r->row);
        if (!dtype_is_float(d) && dtype_bits(d) < 32)
            refuse(r, i, "it reduces elements of fewer than 32 bits");
    }
    if ((i->op == OP_LOAD || i->op == OP_STORE) && ir_mem_parts(i, &m)) {
        const Type *t = (m.result ? m.result : m.values[0])->type;
        int64_t bytes = t->kind == TYPE_TILE ? type_elements(t) * dtype_bytes(t->dtype) : 0;
        if (bytes > r->bytes) r->bytes = bytes;
        if (is_row(t, r->row) && (!r->least || bytes < r->least)) r->least = bytes;
        if (is_row(t, r->row) && i->op == OP_LOAD && m.rank > 1) {
            r->held += r->row;
            r->odd |= kernel_access_bytes(r->f, i) < ACCESS;
            r->parts |= i->block != r->f->body;
        }
        if (stored_besides(r, i)) refuse(r, i, "a tensor that it stores to is accessed twice");
    }
}

/* The warps of each CTA, at most `most`, that leave the fewest lanes without elements in the last access. */
static int fitting_warps(int64_t bytes, int64_t lanes, int ctas, int most)
{
    int64_t pieces = (bytes + lanes * ACCESS - 1) / (lanes * ACCESS), least = INT64_MAX;
    int best = WARPS;
    for (int each = most; each > WARPS / 2; each--) {
        int64_t accesses = (pieces + each * ctas - 1) / (each * ctas), held = accesses * each * ctas;
        if (accesses > MOST_ACCESSES || held + held / 16 >= least) continue;
        least = held;
        best = each;
    }
    return best;
}

/* Whether rows go by words of one element, and several vectors of such elements stand beside them: a lane
 * that holds more of the row has no registers for these (bench/notes/rows.md, "Sizes of long rows"). */
static bool wide_beside(const RowStartAccess *words) { return words->bytes == 4 && words->weights > 1; }

/* The warps of one CTA for a row of so many bytes beside several vectors of weights. Seven and nine warps
 * leave layouts of odd parts. */
static int weighted_warps(int64_t bytes, int64_t lanes)
{
    int64_t warps = (bytes + lanes * WEIGHTED_BYTES - 1) / (lanes * WEIGHTED_BYTES);
    if (warps > MOST_WARPS - 2) warps += warps % 2;
    return (int)(warps < WORD_WARPS ? warps : WORD_WARPS);
}

/* Whether one CTA holds the row: of up to eight warps, or, where the row is accessed by words, of those that
 * fit it, up to ten (bench/notes/rows.md, "Rows by words"). Registers hold elements as words. */
static bool one_cta(
    const Func *f, KernelPlan *p, const RowStartAccess *words, const ClusterRows *r, int64_t warps)
{
    int64_t lanes = p->target->wave, bytes = words->bytes ? 2 * r->bytes / words->bytes : r->bytes,
            pieces = (bytes + lanes * ACCESS - 1) / (lanes * ACCESS);
    bool few = warps <= MOST_WARPS, chosen = p->options.warps || f->hints.warps > 0;
    if (!words->bytes || bytes > WORD_WARPS * MOST_ACCESSES * lanes * ACCESS) return few;
    if (words->bytes == 2 && words->weights > 1 && bytes > MOST_ACCESSES * lanes * ACCESS) {
        if (!chosen) p->warps = weighted_warps(bytes, lanes);
        return true;
    }
    if (!chosen && !few) p->warps = fitting_warps(bytes, lanes, 1, WORD_WARPS);
    int64_t held = words->weights ? FEW_ACCESSES : MOST_ACCESSES, fit = (pieces + held - 1) / held;
    if (!chosen && few && 2 * warps > MOST_WARPS && fit <= MOST_WARPS) p->warps = (int)fit;
    if (!chosen && fit > MOST_WARPS && wide_beside(words))
        p->warps = (int)(fit < HALF_WARPS ? fit : HALF_WARPS);
    /* A warp by itself meets no other at the reductions of a short row. */
    if (!chosen && warps == 2 && words->weights > 1 && pieces <= MOST_ACCESSES) p->warps = 1;
    return true;
}

/* The warps of each CTA of a cluster, and its CTAs where nobody has chosen them. `warps`: of the whole row.
 */
static int warps_of(
    const ClusterRows *r, const KernelPlan *p, const RowStartAccess *words, int64_t warps, int *ctas)
{
    int each = 1, most = p->target->cluster_ctas, hint = r->f->hints.warps;
    if (!*ctas) {
        if ((words->bytes && !words->weights) || wide_beside(words))
            warps = (warps * 4 + WORD_ACCESSES - 1) / WORD_ACCESSES;
        for (*ctas = 2; *ctas < most && warps > (int64_t)*ctas * WARPS; *ctas *= 2) {}
    }
    /* 48 elements of 2 bytes: registers have no room for more, widened. */
    const int64_t held = r->row ? r->held * (r->bytes / r->row) : 0;
    if (*ctas == most && !r->odd && !words->bytes && warps > (int64_t)*ctas * WARPS &&
        held <= (int64_t)*ctas * WARPS * p->target->wave * MOST_BYTES_A_LANE)
        warps = (int64_t)*ctas * WARPS;
    int most_warps = warps > (int64_t)*ctas * 2 * HALF_WARPS ? 2 * HALF_WARPS : HALF_WARPS;
    while (each < most_warps && (int64_t)each * *ctas < warps) each *= 2;
    if (each == WARPS && !((words->leads || wide_beside(words)) && words->weights > 1) &&
        !(words->bytes && !words->weights))
        each = fitting_warps(r->bytes, p->target->wave, *ctas, WARPS);
    return p->options.warps ? p->options.warps : hint > 0 ? hint : each;
}

/* How many CTAs with a warp for each SIMD hold an aligned row, for which nobody has chosen warps or CTAs; 0:
 * too few of a cluster do, or a loop reads the row part by part. By measurement these are the best
 * (runtime/choice/search/search_rows.c), and a kernel without a `tune` block has no search. */
static int ctas_of_simds(const ClusterRows *r, const KernelPlan *p)
{
    int64_t threads = (int64_t)p->target->simds * p->target->wave;
    if (p->options.warps || r->f->hints.warps > 0 || r->odd || r->parts || !r->held || r->why) return 0;
    if (r->least != r->bytes) return 0; /* narrower elements change lanes, which few layouts allow */
    for (int ctas = 1; ctas <= p->target->cluster_ctas; ctas *= 2)
        if (r->held <= ctas * threads * KERNEL_HELD_WORDS) return ctas;
    const int most = p->target->cluster_ctas;
    const bool halves = r->held == r->row && r->bytes == 2 * r->row &&
                        r->bytes > (int64_t)most * WARPS * p->target->wave * BYTES_A_LANE;
    return halves && r->held <= most * threads * HELD_HALVES ? most : 0;
}

/* The decision for one kernel, from question to question. */
typedef struct Spread {
    Session *s;
    Func *f;
    KernelPlan *p;
    const Decision *asked; /* of a schedule; NULL: it says nothing */
    ClusterRows rows;
    int ctas; /* of a cluster; 0: nobody has chosen them */
    int each; /* warps of each */
} Spread;

/* Takes the CTAs that the schedule or the hint asks for. False: there are to be no clusters. */
static bool clusters_asked(Spread *x)
{
    const int most = x->p->target->cluster_ctas;
    x->asked = schedule_asked(x->p, DECIDE_CLUSTER);
    x->ctas = x->asked ? x->asked->n[0] : x->f->hints.cluster;
    if (x->asked && (x->ctas < 1 || (most > 1 && x->ctas > most) || (x->ctas & (x->ctas - 1)))) {
        schedule_refuse(x->p, x->asked, "a cluster has 1, 2, 4 or %d CTAs", most);
        return false;
    }
    if (x->ctas == 1) return false;
    return x->asked || (!kernel_skips(x->p, PASS_CLUSTER) && x->p->target->kind == TARGET_CUDA);
}

/* Looks at the kernel's rows, and at what forbids clusters (rows.why). False: it has none to spread. */
static bool has_rows(Spread *x)
{
    ClusterRows *r = &x->rows;
    bool products = false;
    r->f = x->f;
    ir_walk(x->f->body, product, &products);
    if (products && !x->asked) return false; /* Their programs may share a cluster (multicast.c). */
    ir_walk(x->f->body, longest, r);
    if (!x->asked && !holds_reduction(x->f->body, r->row)) return false;
    ir_collect(&x->s->arena, x->f->body, OP_STORE, &r->stores);
    for (const Instr *i = x->f->body->first; i; i = i->next) inspect(r, i);
    if (x->asked && !r->reduced && !r->why) refuse(r, x->f->body->first, "no row is reduced");
    return x->asked || r->reduced;
}

/* Chooses CTAs and warps. False: one CTA has the row; its warps are in the plan, if this pass chose them. */
static bool needs_cluster(Spread *x)
{
    KernelPlan *p = x->p;
    const ClusterRows *r = &x->rows;
    const int64_t piece = (int64_t)p->target->wave * BYTES_A_LANE, warps = (r->bytes + piece - 1) / piece;
    const RowStartAccess words = kernel_row_start(x->f, p);
    const bool free = !x->asked && !x->ctas;
    if (free && one_cta(x->f, p, &words, r, warps)) return false;
    const int simds = free ? ctas_of_simds(r, p) : 0;
    if (simds) x->ctas = simds;
    x->each = simds ? p->target->simds : warps_of(r, p, &words, warps, &x->ctas);
    if (simds == 1) p->warps = x->each;
    return simds != 1;
}

/* Whether rows that need a cluster get none; says why. */
static bool forbidden(Spread *x)
{
    ClusterRows *r = &x->rows;
    const int64_t accesses = (int64_t)x->ctas * x->each * x->p->target->wave;
    if (x->p->target->cluster_ctas < 2) refuse(r, x->f->body->first, "clusters begin with sm_90");
    if ((r->replaces || r->reads_before) && r->least < accesses * ACCESS)
        refuse(r, x->f->body->first, "its rows are so short that CTAs hold copies of what it replaces");
    if (r->why && x->asked)
        schedule_refuse(x->p, x->asked, "no row of this kernel can be spread over a cluster: %s", r->why);
    else if (r->why)
        diag_perf(x->s, r->loc,
            "rows of %lld elements are much for one CTA, and are not spread over a cluster: %s",
            (long long)r->row, r->why);
    return r->why != NULL;
}

static void plan_cluster(const Spread *x)
{
    KernelPlan *p = x->p;
    p->cluster = x->ctas;
    p->reads_before = x->rows.reads_before;
    schedule_take(p, DECIDE_CLUSTER, 0, x->ctas, 0);
    p->warps = x->each;
    if (!x->f->hints.occupancy && p->warps * p->target->wave < THREADS)
        p->min_ctas = THREADS / (p->warps * p->target->wave);
}

bool kernel_pass_cluster(KernelContext *c)
{
    Spread x = { .s = c->s, .f = c->f, .p = c->p };
    if (clusters_asked(&x) && has_rows(&x) && needs_cluster(&x) && !forbidden(&x)) plan_cluster(&x);
    return false; /* The plan records it, and the pass layout distributes the tiles. */
}
