/* shared_atomics.c: sums in small tensors that many programs add to, gathered in shared memory first.
 *
 *   %p = program; .. atomic_rmw %COUNT[%bin] = %one {rmw = add} ..
 * becomes
 *   atomics_open {param = COUNT, rmw = add, gathered = 32, count = 4096}
 *   for %p = cta_id to num_programs step num_ctas {loop = static} {
 *       .. atomic_rmw %COUNT[%bin] = %one {rmw = add, gathered = 32} ..
 *   }
 *   atomics_close {param = COUNT, rmw = add, gathered = 32, count = 4096}
 *
 * Atomics on few words of memory wait for each other in L2. Those on shared memory do so in one
 * multiprocessor, and not at all where lanes have copies of their own: word w of copy c lies at w * copies +
 * c, and with 32 copies each lane has a bank to itself. A CTA begins with neutral elements, takes many
 * programs, and changes memory once for each word that is no longer neutral.
 *
 * Requires: every access to the tensor in the kernel is an atomic of one kind that combines in any order
 * (add, max, min, and, or, xor), relaxed, whose old value nobody uses; the launch bounds the tensor's
 * extents; no atomic orders other accesses; a CTA that holds one program alone, without warp roles, products
 * and tiles in shared memory. It runs last of all, so that no other pass sees the loop over programs. */
#include "passes/kernel/gather/runs.h"
#include "passes/kernel/kernel.h"
#include "passes/kernel/schedule/live.h"

enum {
    BANKS = 32,            /* words that shared memory serves at once */
    FLOAT_COPIES = 16,     /* as many as float additions to one element need, which are retried */
    SOME_COPIES = 8,       /* as many as keep the lanes of a warp from waiting for each other much */
    ENOUGH_THREADS = 1024, /* of a multiprocessor: copies are given up for the sake of so many */
    MANY_THREADS = 1536,   /* the same where a thread needs no more than 40 registers, */
    EASY_WORDS = 20,       /* as it has no more words of tiles in use at once */
    LEAST_THREADS = 256,   /* with fewer, programs wait longer for loads than for atomics in memory */
    LEAST_ADDED = 64,      /* elements of a program's atomics, below which they hinder nobody */
    ROWS_WORTH = 8,        /* loads for an atomic at most, where those of a warp go to memory together */
    MOST_NARROW = 1 << 15, /* a number so many of which a word of 32 bits holds the sum */
    KEPT_FREE = 8192       /* bytes for what the program itself needs of shared memory */
};

/* What is known of the accesses to a tensor. */
typedef struct Summed {
    bool refused, rows; /* rows: neighbouring elements change neighbouring words */
    int copies;         /* in shared memory; 0: none */
    int64_t rmw;        /* -1: no access was found */
    int64_t added;      /* elements of a program's atomics */
    bool one;           /* all of them add the same number */
    int64_t largest; /* that is added, without its sign; FACT_UNKNOWN: it is not known, or added in loops */
} Summed;

typedef struct Search {
    KernelContext *c;
    Summed *params;
    int64_t loaded; /* elements of a program's loads */
} Search;

static bool combines(int64_t rmw)
{
    return rmw == RMW_ADD || rmw == RMW_MAX || rmw == RMW_MIN || rmw == RMW_AND || rmw == RMW_OR ||
           rmw == RMW_XOR;
}

static bool has_words(DType d)
{ return d == DT_I32 || d == DT_U32 || d == DT_I64 || d == DT_U64 || d == DT_F32 || d == DT_F64; }

/* An atomic that may be gathered. */
static bool may_gather(const Instr *i, const MemParts *m)
{
    return i->op == OP_ATOMIC_RMW && !ir_is_semaphore(i) && !ir_orders(i) &&
           combines(ir_attr_int(i, ATTR_RMW, 0)) && has_words(m->tensor->type->dtype) &&
           !(m->result && m->result->uses);
}

static int64_t elements(const Value *v)
{ return v && v->type->kind == TYPE_TILE ? type_elements(v->type) : 1; }

/* Whether the last index counts along an axis of the tile. */
static bool counts_along(const Func *f, const MemParts *m)
{
    const Value *last = ir_last_index(m);
    bool counts = false;
    for (int a = 0; last && last->type->kind == TYPE_TILE && a < last->type->rank; a++)
        counts |= last->type->shape[a] > 1 && kernel_run(f, last, a, 2) & RUN_COUNTS;
    return counts;
}

static void look(void *user, Instr *i)
{
    Search *s = user;
    MemParts m;
    if (!ir_mem_parts(i, &m)) return;
    if (i->op == OP_LOAD || i->op == OP_GATHER) s->loaded += elements(m.result);
    Summed *x = &s->params[m.param];
    int64_t rmw = ir_attr_int(i, ATTR_RMW, 0);
    x->refused |= !may_gather(i, &m) || (x->rmw >= 0 && x->rmw != rmw);
    x->rmw = rmw;
    x->added += elements(m.values[0]);
    x->rows |= counts_along(s->c->f, &m);
    const Value *one = m.values[0];
    bool splat = rmw == RMW_ADD && one && one->def && one->def->op == OP_SPLAT;
    int64_t n = FACT_UNKNOWN;
    x->one &= splat;
    if (!splat || !ir_is_const(ir_operand(one->def, 0), &n) || n < -MOST_NARROW || n > MOST_NARROW ||
        i->block != s->c->f->body)
        n = FACT_UNKNOWN;
    if (n == FACT_UNKNOWN || x->largest == FACT_UNKNOWN) x->largest = FACT_UNKNOWN;
    else if ((n < 0 ? -n : n) > x->largest) x->largest = n < 0 ? -n : n;
}

static bool is_narrow(const KernelContext *c, const Summed *x, int param)
{
    const Type *t = c->f->params[param].type;
    return x->largest != FACT_UNKNOWN && !dtype_is_float(t->dtype) && dtype_bytes(t->dtype) == 8;
}

static int word_bytes(const KernelContext *c, const Summed *x, int param)
{ return is_narrow(c, x, param) ? 4 : dtype_bytes(c->f->params[param].type->dtype); }

/* The words that the tensor has at most; 0: not known, or too many. */
static int64_t words_of(const Func *f, int param)
{
    const Param *p = &f->params[param];
    int64_t n = 1;
    for (int a = 0; a < p->type->rank; a++) {
        int64_t hi = range_of_dim(f, p->dims[a]).hi;
        if (hi <= 0 || hi > (1 << 20) / n) return 0;
        n *= hi;
    }
    return n;
}

static int resident(const KernelPlan *p, int64_t shared)
{
    const Target *t = p->target;
    int threads = p->warps * t->wave, by_threads = t->sm_threads / threads;
    int64_t by_shared = t->sm_shared_bytes / (shared + KEPT_FREE / 4 + t->cta_shared_bytes);
    int n = by_shared < by_threads ? (int)by_shared : by_threads;
    return t->sm_ctas && n > t->sm_ctas ? t->sm_ctas : n;
}

/* Whether CTAs with so many bytes leave a multiprocessor so many threads. */
static bool fits(const KernelPlan *p, int64_t bytes, int threads)
{
    const Target *t = p->target;
    return bytes + KEPT_FREE <= t->shared_bytes && resident(p, bytes) * p->warps * t->wave >= threads;
}

/* CTAs of a multiprocessor: enough to keep loads under way, and no more, as each changes memory in the end.
 * The launch bounds ask for them: those for which there is no room would begin when the others have ended. */
static int resident_wanted(const KernelContext *c, int64_t shared)
{
    const KernelPlan *p = c->p;
    int n = resident(p, shared), threads = p->warps * p->target->wave;
    int64_t words = live_most_bytes(&c->s->arena, c->f) / 4 / threads;
    int most = (words > EASY_WORDS ? ENOUGH_THREADS : MANY_THREADS) / threads;
    if (most < n) n = most;
    if (p->options.most_ctas && p->options.most_ctas < n) n = p->options.most_ctas;
    return n > 1 ? n : 1;
}

static bool keeps_apart(const void *user, const Instr *i)
{
    (void)user;
    return i->op == OP_SHARED_ALLOC || op_family(i->op) == OPS_PRODUCT || kernel_kept(i);
}

static void mark(void *user, Instr *i)
{
    Search *s = user;
    MemParts m;
    if (i->op != OP_ATOMIC_RMW || !ir_mem_parts(i, &m)) return;
    const Summed *x = &s->params[m.param];
    if (x->copies) ir_set_attr(s->c->s, i, a_int(ATTR_GATHERED, x->copies));
    if (x->copies && is_narrow(s->c, x, m.param)) ir_set_attr(s->c->s, i, a_int(ATTR_NARROW, x->largest));
}

static void over_programs(KernelContext *c)
{
    const Type *i32 = type_scalar(c->s, DT_I32);
    Instr *ret = ir_terminator(c->f->body), *first = c->f->body->first;
    Builder b = ir_before(ret);
    Value *bounds[3] = { ir_emit(&b, OP_CTA_ID, NULL, 0, NO_ATTRS, i32),
        ir_emit(&b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, -1)), i32),
        ir_emit(&b, OP_NUM_CTAS, NULL, 0, NO_ATTRS, i32) };
    Instr *loop = ir_build(&b, OP_FOR, bounds, 3, ATTRS(a_int(ATTR_LOOP, LOOP_STATIC)), NULL, 0);
    Value *program = loop->blocks[0]->args[0];
    ir_set_name(program, "program");
    Builder in = ir_at_end(loop->blocks[0]);
    for (Instr *i = first, *next; i != bounds[0]->def; i = next) {
        next = i->next;
        ir_unlink(i);
        if (i->op == OP_PROGRAM) ir_replace(ir_result(i), program);
        else ir_place(&in, i);
    }
    in = ir_at_end(loop->blocks[0]);
    ir_build(&in, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
}

static void begin_and_end(KernelContext *c, int param, const Summed *x)
{
    Attrs attrs = ATTRS(a_int(ATTR_PARAM, param), a_int(ATTR_RMW, x->rmw), a_int(ATTR_GATHERED, x->copies),
        a_int(ATTR_COUNT, x->added), a_int(ATTR_NARROW, x->largest));
    attrs.n -= !is_narrow(c, x, param);
    Builder first = ir_before(c->f->body->first), last = ir_before(ir_terminator(c->f->body));
    ir_build(&first, OP_ATOMICS_OPEN, NULL, 0, attrs, NULL, 0);
    ir_build(&last, OP_ATOMICS_CLOSE, NULL, 0, attrs, NULL, 0);
}

/* The copies of a tensor's words where there may be `most`. Additions of one number to words of 4 bytes are
 * counted for the whole warp by one instruction, wherever they meet. Others of a lane wait for those of other
 * lanes at the same word; those of 8 bytes and of floats are loops of compare and swap on NVIDIA. */
static int copies_of(const KernelContext *c, const Summed *x, int param, int most)
{
    DType d = c->f->params[param].type->dtype;
    int wanted = word_bytes(c, x, param) > 4 ? BANKS
                 : dtype_is_float(d)         ? FLOAT_COPIES
                 : !x->one                   ? SOME_COPIES
                                             : 1;
    return wanted < most ? wanted : most;
}

static int64_t bytes_of(const KernelContext *c, const Summed *params, int most)
{
    int64_t all = 0;
    for (int k = 0; k < c->f->n_params; k++)
        if (params[k].copies)
            all += words_of(c->f, k) * word_bytes(c, &params[k], k) * copies_of(c, &params[k], k, most);
    return all;
}

/* Decides for which tensors there are how many copies. Returns the bytes that all of them have. */
static int64_t choose(KernelContext *c, Summed *params, int64_t loaded)
{
    int64_t all = 0;
    for (int k = 0; k < c->f->n_params; k++) {
        Summed *x = &params[k];
        if (x->refused || x->rmw < 0 || x->added < LEAST_ADDED) continue;
        if (x->rows && x->added * ROWS_WORTH < loaded) continue;
        int64_t bytes = words_of(c->f, k) * word_bytes(c, x, k);
        x->copies = bytes && fits(c->p, all + bytes, LEAST_THREADS);
        all += bytes * x->copies;
    }
    int copies = BANKS;
    while (copies > 1 && !fits(c->p, bytes_of(c, params, copies), ENOUGH_THREADS)) copies /= 2;
    all = bytes_of(c, params, copies);
    for (int k = 0; k < c->f->n_params; k++)
        if (params[k].copies) params[k].copies = copies_of(c, &params[k], k, copies);
    return all;
}

bool kernel_pass_shared_atomics(KernelContext *c)
{
    KernelPlan *p = c->p;
    Func *f = c->f;
    bool divided = p->cluster > 1 || p->clusters > 1 || p->multicast > 1 || p->split_k || p->shares > 1;
    if (c->specialized || p->persistent || divided || ir_orders_memory(f)) return false;
    if (ir_any_in(f->body, keeps_apart, NULL)) return false;
    Search s = { c, arena_array(&c->s->arena, Summed, (size_t)f->n_params + 1) };
    for (int k = 0; k < f->n_params; k++) s.params[k] = (Summed){ .rmw = -1, .one = true };
    ir_walk(f->body, look, &s);
    int64_t bytes = choose(c, s.params, s.loaded);
    if (!bytes) return false;
    ir_walk(f->body, mark, &s);
    over_programs(c);
    for (int k = 0; k < f->n_params; k++)
        if (s.params[k].copies) begin_and_end(c, k, &s.params[k]);
    p->persistent = true;
    p->resident = resident_wanted(c, bytes);
    if (p->target->kind == TARGET_CUDA && p->min_ctas < p->resident) p->min_ctas = p->resident;
    return true;
}
