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

enum {
    BANKS = 32,            /* words that shared memory serves at once */
    SOME_COPIES = 8,       /* as many as a warp's float additions to one element need, which are retried */
    ENOUGH_THREADS = 1024, /* of a multiprocessor: copies are given up for the sake of so many */
    ENOUGH_BYTES = 32768,  /* that its programs load at a time */
    LEAST_THREADS = 256,   /* with fewer, programs wait longer for loads than for atomics in memory */
    LEAST_ADDED = 64,      /* elements of a program's atomics, below which they hinder nobody */
    ROWS_WORTH = 8,        /* loads for an atomic at most, where those of a warp go to memory together */
    KEPT_FREE = 8192       /* bytes for what the program itself needs of shared memory */
};

/* What is known of the accesses to a tensor. */
typedef struct Summed {
    bool refused, rows; /* rows: neighbouring elements change neighbouring words */
    int copies;         /* in shared memory; 0: none */
    int64_t rmw;        /* -1: no access was found */
    int64_t added;      /* elements of a program's atomics */
    bool one;           /* all of them add the same number */
} Summed;

typedef struct Search {
    KernelContext *c;
    Summed *params;
    int64_t loaded, bytes; /* elements of a program's loads, and their bytes */
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
    const Value *last = m->idx[m->rank - 1];
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
    if (i->op == OP_LOAD || i->op == OP_GATHER) {
        s->loaded += elements(m.result);
        s->bytes += elements(m.result) * dtype_bytes(m.result->type->dtype);
    }
    Summed *x = &s->params[m.param];
    int64_t rmw = ir_attr_int(i, ATTR_RMW, 0);
    x->refused |= !may_gather(i, &m) || (x->rmw >= 0 && x->rmw != rmw);
    x->rmw = rmw;
    x->added += elements(m.values[0]);
    x->rows |= counts_along(s->c->f, &m);
    x->one &= rmw == RMW_ADD && m.values[0] && m.values[0]->def && m.values[0]->def->op == OP_SPLAT;
}

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

/* CTAs of a multiprocessor: no more than keep enough loads under way, as each changes memory in the end. */
static int resident_wanted(const KernelPlan *p, int64_t shared, int64_t loaded)
{
    int n = resident(p, shared), threads = p->warps * p->target->wave,
        enough = (ENOUGH_THREADS + threads - 1) / threads;
    int64_t more = loaded > 0 ? (ENOUGH_BYTES + loaded - 1) / loaded : n;
    if (more > enough) enough = more < n ? (int)more : n;
    return enough < n ? enough : n;
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
        a_int(ATTR_COUNT, x->added));
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
    int wanted = dtype_bytes(d) > 4 ? BANKS : dtype_is_float(d) || !x->one ? SOME_COPIES : 1;
    return wanted < most ? wanted : most;
}

static int64_t bytes_of(const KernelContext *c, const Summed *params, int most)
{
    int64_t all = 0;
    for (int k = 0; k < c->f->n_params; k++)
        if (params[k].copies)
            all += words_of(c->f, k) * dtype_bytes(c->f->params[k].type->dtype) *
                   copies_of(c, &params[k], k, most);
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
        int64_t bytes = words_of(c->f, k) * dtype_bytes(c->f->params[k].type->dtype);
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
    p->resident = resident_wanted(p, bytes, s.bytes);
    return true;
}
