/* search_cpu.c: what a configuration of a kernel with `auto` constants should take on a CPU. Nothing is
 * compiled beyond tile IR: the operations of a program are counted there (ir/work.h), and so are the bytes of
 * the tiles that it holds at once, which caches serve more or less quickly. The number is in operations of a
 * vector, and serves comparison alone. */
#include "ir/work.h"
#include "runtime/choice/search_points.h"
#include <math.h>

enum {
    BEGIN = 2000,       /* operations that the beginning of a program takes */
    NEAR_BYTES = 24576, /* of the nearest cache that tiles may fill; the next cache has at least FAR_BYTES */
    FAR_BYTES = 1 << 20,
    VECTOR_BYTES = 64,
    TILE_BEGIN = 64, /* elements that take as long as the beginning of a loop over a tile */
};
static const double NEXT_CACHE = 1.15, BEYOND_CACHES = 2;

/* Of the loads, stores and sums of a block. */
typedef struct Tiles {
    double bytes;   /* of all of them */
    double largest; /* elements */
    double narrow;  /* the largest ratio of whole vectors to what a row of a tile fills */
} Tiles;

static void count_tile(Tiles *t, const Type *type)
{
    int64_t elements = 1, row = type->rank ? type->shape[type->rank - 1] : 1;
    int bytes = dtype_bytes(type->dtype);
    if (type->kind != TYPE_TILE) return;
    for (int a = 0; a < type->rank; a++) elements *= type->shape[a];
    double filled = (double)(row * bytes), vectors = ceil(filled / VECTOR_BYTES) * VECTOR_BYTES;
    t->bytes += (double)(elements * bytes);
    if ((double)elements > t->largest) t->largest = (double)elements;
    if (vectors / filled > t->narrow) t->narrow = vectors / filled;
}

static void count_tiles(Tiles *t, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (i->op == OP_LOAD || i->op == OP_MMA) count_tile(t, i->results[0].type);
        for (int k = 0; i->op == OP_STORE && k < i->n_operands; k++) count_tile(t, ir_operand(i, k)->type);
        for (int k = 0; k < i->n_blocks; k++) count_tiles(t, i->blocks[k]);
    }
}

static double speed_of_caches(const CostDevice *d, double bytes)
{
    double far = d->l2_bytes > 0 ? (double)d->l2_bytes : FAR_BYTES;
    return bytes <= NEAR_BYTES ? 1 : bytes <= far / 2 ? NEXT_CACHE : BEYOND_CACHES;
}

bool search_estimate_cpu(
    const Search *z, SearchWorker *w, SearchPoint *p, const FrontBinding *bindings, size_t n)
{
    const SearchProblem *q = z->p;
    Compiled compiled;
    Func *f;
    EvalEnv env;
    int64_t programs = 0, work = 0;
    if (!compile_tiles(&w->s, w->ast, q->kernel, bindings, n, q->facts, q->options, &compiled, &f))
        return false;
    int64_t *dims = arena_array(&w->s.arena, int64_t, (size_t)compiled.n_dims + 1);
    if (!q->shape(q->user, &compiled, dims, &env, &programs) || programs <= 0) return false;
    if (!compiled.work || !eval_run(compiled.work, &env, &work, 1)) work = 0;
    Tiles t = { 0, 1, 1 };
    count_tiles(&t, f->body);
    int cores = q->device.units > 0 ? q->device.units : 1;
    double rounds = ceil((double)programs / cores);
    p->programs = programs;
    p->bound = BOUND_ARITHMETIC;
    p->ns = rounds * (BEGIN + (double)work * t.narrow * speed_of_caches(&q->device, t.bytes) *
                                  (1 + TILE_BEGIN / t.largest));
    return true;
}
