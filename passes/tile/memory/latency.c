/* latency: clips the number of stages that loads ask for to what the target's shared memory holds.
 *
 *   %k = load .. {latency = 8} : f16[128, 128]           %k = load .. {latency = 3} : f16[128, 128]
 *   %v = load .. {latency = 8} : f16[128, 128]    ->     %v = load .. {latency = 3} : f16[128, 128]
 *
 * A load that feeds a matrix product inside a loop is staged through shared memory in as many stages as
 * its latency says; n stages let n - 1 loads be in flight. Operands outside of loops take one. If the sum
 * is too much, the loads with the most stages give one up until it fits, but never the last one. A
 * performance note says what was asked for and what is left.
 *
 * Requires: mask-peel before, because an edge loop counts for itself: loops in sequence share the memory.
 * Keeps: everything; hints never change results. Does not handle: the pipeline itself, which the kernel
 * passes build; their other buffers, for which they clip once more; loads that feed no product, which go
 * to registers and keep their hint; the CPU, which has no shared memory. */
#include "passes/pass.h"

enum { RESERVED = 2048 /* barriers, small reductions */, MAX_SEARCH = 200 };

typedef struct Staged {
    Instr *load;
    int64_t bytes, asked, n;
    bool in_loop;
} Staged;
typedef struct Latency {
    PassContext *c;
    VEC(Staged) loads;
    int64_t clipped;
} Latency;

static bool feeds_product(const Value *v, int *budget)
{
    for (const Use *u = v->uses; u && --*budget >= 0; u = u->next) {
        const Instr *i = u->user;
        if (i->op == OP_MMA && u != &i->operands[2]) return true;
        bool passes_on =
            i->op == OP_PERMUTE || i->op == OP_RESHAPE || i->op == OP_CAST || i->op == OP_BITCAST;
        if (passes_on && feeds_product(&i->results[0], budget)) return true;
    }
    return false;
}

static void collect(Latency *x, Block *b, bool in_loop)
{
    for (Instr *i = b->first; i; i = i->next) {
        int budget = MAX_SEARCH;
        if (i->op == OP_LOAD && is_tile(&i->results[0]) && feeds_product(&i->results[0], &budget)) {
            int64_t bytes = type_elements(i->results[0].type) * dtype_bytes(i->results[0].type->dtype),
                    asked = in_loop ? ir_attr_int(i, ATTR_LATENCY, 1) : 1;
            vec_push(x->c->scratch, &x->loads, ((Staged){ i, bytes, asked, asked < 1 ? 1 : asked, in_loop }));
        }
        for (int k = 0; k < i->n_blocks; k++) collect(x, i->blocks[k], in_loop || is_loop(i));
    }
}

static int64_t total(const Latency *x, const Block *loop)
{
    int64_t sum = 0;
    for (size_t k = 0; k < x->loads.len; k++) {
        const Staged *s = &x->loads.data[k];
        if (!s->in_loop || s->load->block == loop) sum += s->bytes * s->n;
    }
    return sum;
}

static Staged *greediest(Latency *x, const Block *loop)
{
    Staged *most = NULL;
    for (size_t k = 0; k < x->loads.len; k++) {
        Staged *s = &x->loads.data[k];
        if (s->in_loop && s->load->block == loop && s->n > 1 && (!most || s->n > most->n)) most = s;
    }
    return most;
}

/* Loads of a loop that ask for the same latency keep one number of stages: the greatest of theirs. The pass
 * multistage takes a stage from all of them where that is too much. */
static void share(Latency *x)
{
    for (size_t k = 0; k < x->loads.len; k++)
        for (size_t j = 0; j < x->loads.len; j++) {
            const Staged *s = &x->loads.data[k];
            Staged *other = &x->loads.data[j];
            if (s->in_loop && s->load->block == other->load->block && s->asked == other->asked &&
                s->n > other->n)
                other->n = s->n;
        }
}

static bool latency_func(PassContext *c, Func *f)
{
    const Target *t = c->options->target;
    Latency x = { c };
    /* AMD: how much fits depends on whether loads go to LDS through registers or directly. The pass
     * multistage limits the number of stages, with the same note. */
    if (!t || t->kind != TARGET_CUDA || !f->is_kernel) return false;
    collect(&x, f->body, false);
    for (size_t k = 0; k < x.loads.len; k++) {
        Staged *s = &x.loads.data[k], *most;
        while (s->in_loop && total(&x, s->load->block) > t->shared_bytes - RESERVED &&
               (most = greediest(&x, s->load->block)))
            most->n--;
    }
    share(&x);
    for (size_t k = 0; k < x.loads.len; k++) {
        Staged *s = &x.loads.data[k];
        if (s->n >= s->asked) continue;
        /* 1 is what an author asks for: no buffer. The kernel passes clip 2 to what fits beside their own. */
        ir_set_attr(c->session, s->load, a_int(ATTR_LATENCY, s->n < 2 ? 2 : s->n));
        diag_perf(c->session, s->load->loc,
            "latency = %lld asks for %lld buffers of %lld bytes; %lld fit in the shared memory of %s (%lld "
            "bytes)",
            (long long)s->asked, (long long)s->asked, (long long)s->bytes, (long long)s->n, t->name,
            (long long)t->shared_bytes);
        x.clipped++;
    }
    pass_count(c, "loads clipped to shared memory", x.clipped);
    return x.clipped > 0;
}

bool pass_latency(PassContext *c, Module *m) { return pass_each_func(c, m, latency_func); }
