/* search_cpu.c: what a configuration should take on a CPU. Nothing is compiled beyond tile IR: the operations
 * of a program are counted there (ir/analysis/work.h), and so are the bytes of the tiles that it holds at
 * once, which caches serve more or less quickly. A product counts with the rate of its unit (units.def), the
 * packing of its operands and the sums that move between memory and registers. The number is in operations of
 * a vector, and serves comparison alone. docs/tuning.md, "On a CPU", has the formulas. */
#include "ir/analysis/work.h"
#include "runtime/choice/search/search_points.h"
#include "runtime/drivers/driver.h"
#include <math.h>

enum {
    BEGIN = 2000, /* operations that the beginning of a program takes */
    NEAR_BYTES =
        24576, /* of the nearest cache that tiles may fill; the next cache has at least SECOND_BYTES */
    SECOND_BYTES = 1 << 20,
    TRANSPOSED_PART =
        16, /* of that cache: a window that is transposed may fill it, if it has more than the nearest */
    VECTOR_BYTES = 64,
    LINE_BYTES = 64,
    TILE_BEGIN = 64, /* elements that take as long as the beginning of a loop over a tile */
    PACK_WORK = 10,  /* of an element of an operand that is packed, in multiply-adds of f32 */
    PACK_DOTS = 3,   /* the same for a dot-product unit, whose pairs and quads move as they are */
    PANEL = 64,      /* columns of a product that are multiplied at once: four vectors of sums */
    SUM_WORK = 1,    /* of a sum that moves from memory to registers and back */
    THIN_WORK = 2,   /* of a multiply-add of few rows, of any type */
    THIN_LOAD = 2,   /* of an element of B that is used for few rows */
    SUMS_PART = 8, /* of the second cache that sums of few rows may fill before they slow down the product */
    FEW_ROWS = 16, /* products of so few rows do not pack B (backends/cpu/product/few_rows.c) */
    RUN_BYTES = 256, /* of a row in memory; shorter ones are read more slowly */
    MOST_SHORT = 4,  /* times as slowly at most */
};
/* Of a window of few rows' weights that is not asked for ahead. */
static const double WAITED_FOR = 2;
static const double NEXT_CACHE = 1.15, BEYOND_CACHES = 2, TRANSPOSED = 1.3, NARROW_PANELS = 1.05;

/* Of the loads, stores and sums of a block. */
typedef struct Tiles {
    double bytes, stored; /* of all of them, and of stores: products store their sums where they are */
    double largest;       /* elements */
    double narrow;        /* the largest ratio of whole vectors to what a row of a tile fills */
    double transposed;    /* bytes of the largest window that is transposed where it is loaded; 0: none is */
    const Instr *store;   /* of the largest matrix */
    const Instr *transposes; /* the load or permute that transposes that window */
    bool products;
} Tiles;

/* What the work of an instruction depends on. */
typedef struct Weights {
    Func *f;
    SearchWorker *worker;
    const Target *target;
    const int64_t *dims;
    Tiles tiles;
    bool few;         /* a product has few rows, and its windows stay in no cache */
    double row_begin; /* of its rows: Backend.row_begin */
    double second;    /* bytes of the second cache */
} Weights;

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

static void count_store(Tiles *t, const Instr *i)
{
    MemParts m;
    double before = t->bytes;
    for (int k = 0; k < i->n_operands; k++) count_tile(t, ir_operand(i, k)->type);
    t->stored += t->bytes - before;
    if (!ir_mem_parts(i, &m) || !m.values[0] || m.values[0]->type->rank != 2 || m.rank != 2) return;
    const Type *now = m.values[0]->type;
    if (!t->store || (ir_mem_parts(t->store, &m) && type_elements(now) > type_elements(m.values[0]->type)))
        t->store = i;
}

static void count_transposed(Tiles *t, const Instr *i)
{
    const Type *type = i->results[0].type;
    bool transposes = ir_attr(i, ATTR_ORDER) && type_is_value(type) && type->rank > 1;
    double bytes = transposes ? (double)(type_elements(type) * dtype_bytes(type->dtype)) : 0;
    if (bytes <= t->transposed) return;
    t->transposed = bytes;
    t->transposes = i;
}

static void count_tiles(Tiles *t, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (i->op == OP_LOAD || i->op == OP_MMA) count_tile(t, i->results[0].type);
        if (i->op == OP_STORE) count_store(t, i);
        if (i->op == OP_LOAD || i->op == OP_PERMUTE) count_transposed(t, i);
        t->products |= i->op == OP_MMA;
        for (int k = 0; k < i->n_blocks; k++) count_tiles(t, i->blocks[k]);
    }
}

static bool same_sides(const Type *a, const Type *b, bool transposed)
{ return a->shape[0] == b->shape[transposed] && a->shape[1] == b->shape[!transposed]; }

/* The extent of the output along the axis of a matrix of the shape that is stored, or of its transpose; 0:
 * not known. */
static int64_t extent_of(const Weights *w, const Type *t, int axis)
{
    MemParts m;
    if (t->rank != 2 || !w->tiles.store || !ir_mem_parts(w->tiles.store, &m)) return 0;
    const Type *stored = m.values[0]->type;
    bool same = same_sides(t, stored, false);
    if (!same && !same_sides(t, stored, true)) return 0;
    return w->dims[w->f->params[m.param].dims[same ? axis : 1 - axis]];
}

/* The rows (axis 0) or columns of such a matrix that lie inside the output, on average over the programs: the
 * backend leaves out the others. */
static double useful(const Weights *w, const Type *t, int axis)
{
    int64_t tile = t->shape[axis], extent = extent_of(w, t, axis);
    return extent > 0 ? (double)extent / (double)((extent + tile - 1) / tile) : (double)tile;
}

static double rate_of(const Weights *w, DType d)
{
    const Backend *b = driver_backend(TARGET_CPU);
    double *rate = &w->worker->rate[d];
    if (*rate <= 0 && b && b->product_rate) *rate = b->product_rate(&w->worker->s, w->target, d);
    return *rate;
}

/* How much faster the unit multiplies this type than f32. */
static double faster_than_f32(const Weights *w, DType d)
{
    if (d == DT_F32) return 1;
    double f32 = rate_of(w, DT_F32), rate = rate_of(w, d);
    return rate > 0 && f32 > 0 ? rate / f32 : 1;
}

/* Is the operand computed again for each product? An operand that is defined outside of the product's loop is
 * packed once. */
static bool packed_each_time(const Instr *product, int operand)
{
    const Value *v = ir_operand(product, operand);
    while (v->def && v->def->block == product->block && op_family(v->def->op) == OPS_SHAPE)
        v = ir_operand(v->def, 0);
    return v->def && v->def->block == product->block;
}

static bool has_few_rows(const Weights *w, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++)
            if (has_few_rows(w, i->blocks[k])) return true;
        if (i->op != OP_MMA || i->results[0].type->rank != 2) continue;
        const Type *sums = i->results[0].type;
        int64_t extent = extent_of(w, sums, useful(w, sums, 1) < useful(w, sums, 0));
        if (extent > 0 && extent <= FEW_ROWS) return true;
    }
    return false;
}

static double row_begin(const Weights *w)
{
    const Backend *b = driver_backend(TARGET_CPU);
    return b && b->row_begin ? b->row_begin(&w->worker->s, w->target) : 0;
}

/* Versions of the kernel for few rows multiply operands where they are loaded
 * (backends/cpu/product/few_rows.c). */
static ProductMoves moves_of(const Weights *w, const Instr *i)
{
    const Backend *b = driver_backend(TARGET_CPU);
    if (!w->few && b && b->product_moves) return b->product_moves(&w->worker->s, w->target, w->f, i);
    return (ProductMoves){ ir_operand(i, 0)->type->shape[1], { 1, 1 } };
}

static double product_work(Weights *w, const Instr *i)
{
    const Type *a = ir_operand(i, 0)->type, *sums = i->results[0].type;
    if (sums->rank != 2) return (double)work_of_instr(NULL, i);
    double m = useful(w, sums, 0), n = useful(w, sums, 1), k = (double)a->shape[1];
    int few = n < m; /* operand 0 has few rows, or operand 1 few columns, which then change places */
    double least = fmin(m, n), most = fmax(m, n);
    double faster = faster_than_f32(w, a->dtype), pack = faster > 1 ? PACK_DOTS : PACK_WORK;
    ProductMoves moves = moves_of(w, i);
    double work = packed_each_time(i, few) ? pack * moves.packed[few] * least * k : 0;
    bool far = least * most * dtype_bytes(sums->dtype) > w->second / SUMS_PART;
    if (least <= FEW_ROWS) return work + (THIN_WORK * least + THIN_LOAD) * most * k * (far ? NEXT_CACHE : 1);
    bool narrow = sums->shape[1] > PANEL && sums->shape[1] % PANEL;
    work += SUM_WORK * m * n * fmin(k / (double)moves.depth, 1) +
            m * n * k / faster * (narrow ? NARROW_PANELS : 1);
    if (packed_each_time(i, 1 - few)) work += pack * moves.packed[1 - few] * most * k;
    return work;
}

/* The axis of the tensor along which the elements of a window lie side by side. */
static int unit_axis(const Param *p, int rank)
{
    for (int a = rank - 1; a >= 0; a--)
        if (p->stride[a] == 1) return a;
    return rank - 1;
}

/* How much longer than others it takes to load a window whose rows in memory are short. */
static double shortness(const Weights *w, const Instr *i)
{
    MemParts m;
    if (i->op != OP_LOAD || !ir_mem_parts(i, &m) || m.rank < 2) return 1;
    int64_t along = ir_attr(i, ATTR_EXTENTS)->v[unit_axis(&w->f->params[m.param], m.rank)];
    double run = (double)((along > 0 ? along : 1) * dtype_bytes(i->results[0].type->dtype));
    if (w->few && w->row_begin > 0) return 1 + w->row_begin / run;
    return run < RUN_BYTES ? fmin(RUN_BYTES / run, MOST_SHORT) : 1;
}

/* The part of a window that lies inside its tensor at best. */
static double inside(const Weights *w, const Instr *i)
{
    MemParts m;
    double part = 1;
    if ((i->op != OP_LOAD && i->op != OP_STORE) || !ir_mem_parts(i, &m)) return 1;
    const Attr *window = ir_attr(i, ATTR_EXTENTS);
    for (int a = 0; window && a < m.rank; a++) {
        int64_t extent = w->dims[w->f->params[m.param].dims[a]];
        if (extent > 0 && window->v[a] > extent) part *= (double)extent / (double)window->v[a];
    }
    return part;
}

/* How much longer it takes to load a window of a loop if nothing asks for it before: products of few rows end
 * sooner than memory answers. */
static double waited_for(const Weights *w, const Instr *i)
{
    if (!w->few || i->op != OP_LOAD || i->results[0].type->rank != 2 || !ir_loop_around(i)) return 1;
    return ir_attr_int(i, ATTR_LATENCY, 1) > 1 ? 1 : WAITED_FOR;
}

/* Beside a product an element that is gathered costs what the operation does: its address is computed by
 * itself, while a load moves whole vectors. */
static int64_t gather_work(const Instr *i)
{ return type_elements(i->results[0].type) * op_info[OP_GATHER].cost; }

/* The part of a load that a product of the same loop makes: where the product packs less than the whole
 * window, it is loaded no more often. */
static double loaded(const Weights *w, const Instr *i)
{
    if (i->op != OP_LOAD || ir_use_count(ir_result(i)) != 1) return 1;
    const Instr *user = ir_result(i)->uses->user;
    if (user->op != OP_MMA || user->block != i->block || ir_operand(user, 2) == ir_result(i)) return 1;
    return moves_of(w, user).packed[ir_operand(user, 1) == ir_result(i)];
}

/* WorkOf of kernels with products. */
static int64_t weigh(void *weights, const Instr *i)
{
    Weights *w = weights;
    if (i->op == OP_MMA) return (int64_t)product_work(w, i);
    if (i->op == OP_YIELD && !w->few) return 0; /* Sums that a loop carries stay where they are. */
    const Value *v = i->n_results ? &i->results[0] : i->n_operands ? ir_operand(i, 0) : NULL;
    double part = inside(w, i) * loaded(w, i);
    if (i->op != OP_LOAD && v && type_is_value(v->type) && extent_of(w, v->type, 0) > 0)
        part = useful(w, v->type, 0) * useful(w, v->type, 1) / (double)type_elements(v->type);
    if (i->op == OP_GATHER) return gather_work(i);
    return (int64_t)((double)work_of_instr(NULL, i) * shortness(w, i) * waited_for(w, i) * part);
}

static double second_cache(const CostDevice *d)
{ return d->l2_bytes > 0 ? (double)d->l2_bytes : SECOND_BYTES; }

static double speed_of_caches(const CostDevice *d, double bytes)
{
    double second = second_cache(d);
    return bytes <= NEAR_BYTES ? 1 : bytes <= second / 2 ? NEXT_CACHE : BEYOND_CACHES;
}

/* How much longer it takes to read or write a window whose rows in memory begin and end within lines, which
 * another window has a part of. */
static double ends_of_rows(const Weights *w, const Instr *i)
{
    MemParts m;
    if (i && i->op == OP_PERMUTE) i = ir_operand(i, 0)->def;
    if (!i || (i->op != OP_LOAD && i->op != OP_STORE) || !ir_mem_parts(i, &m)) return 1;
    const Param *p = &w->f->params[m.param];
    int64_t along = ir_attr(i, ATTR_EXTENTS)->v[unit_axis(p, m.rank)];
    int size = dtype_bytes(p->type->dtype);
    if (w->dims[p->dims[unit_axis(p, m.rank)]] * size % LINE_BYTES == 0) return 1;
    return along > 0 ? 1 + LINE_BYTES / (double)(along * size) : 1;
}

/* How much longer than others a program takes that transposes a window. Where rows have ends within lines,
 * long rows gain more than the nearest cache. */
static double transposing(const Weights *w, const CostDevice *d)
{
    const Tiles *t = &w->tiles;
    double ends = ends_of_rows(w, t->transposes) * ends_of_rows(w, t->store);
    double room = ends > 1 ? fmax(NEAR_BYTES, second_cache(d) / TRANSPOSED_PART) : NEAR_BYTES;
    if (t->transposed <= 0) return 1;
    return (t->transposed > room ? TRANSPOSED : 1) * ends;
}

/* How much longer the program takes than its work. */
static double slowdown(const Weights *w, const CostDevice *d)
{
    const Tiles *t = &w->tiles;
    double begins = 1 + TILE_BEGIN / t->largest;
    if (w->few) return begins;
    double rows = t->products ? 1 : t->narrow * transposing(w, d);
    return rows * begins * speed_of_caches(d, t->products ? t->bytes - t->stored : t->bytes);
}

/* The mean of the two programs in the middle of the grid, which is exact where the work of programs grows
 * evenly, as in causal attention. */
static double work_of_middle(Weights *w, EvalEnv *env)
{
    double sum = 0;
    for (int lower = 0; lower < 2; lower++) {
        const char *too_long;
        int64_t work = 0;
        Block *b = work_of_program(w->f, lower, weigh, w);
        const EvalCode *code = eval_compile(&w->worker->s.arena, w->f, b, &too_long);
        if (code && eval_run(code, env, &work, 1)) sum += (double)work / 2;
    }
    return sum;
}

bool search_estimate_cpu(
    const Search *z, SearchWorker *w, SearchPoint *p, const FrontBinding *bindings, size_t n)
{
    const SearchProblem *q = z->p;
    Compiled compiled;
    Func *f;
    EvalEnv env;
    int64_t programs = 0, counted = 0;
    CompileJob job = { &w->s, w->ast, q->kernel, bindings, n, q->facts, q->options };
    if (!compile_tiles(&job, &compiled, &f)) return false;
    int64_t *dims = arena_array(&w->s.arena, int64_t, (size_t)compiled.n_dims + 1);
    if (!q->shape(q->user, &compiled, dims, &env, &programs) || programs <= 0) return false;
    Weights weights = {
        .f = f, .worker = w, .target = q->device.target, .dims = dims, .tiles = { .largest = 1, .narrow = 1 }
    };
    weights.second = second_cache(&q->device);
    Tiles *t = &weights.tiles;
    count_tiles(t, f->body);
    weights.few = has_few_rows(&weights, f->body);
    weights.row_begin = weights.few ? row_begin(&weights) : 0;
    double work = t->products ? work_of_middle(&weights, &env) : 0;
    if (!t->products && compiled.work && eval_run(compiled.work, &env, &counted, 1)) work = (double)counted;
    int cores = q->device.units > 0 ? q->device.units : 1;
    double rounds = ceil((double)programs / cores);
    p->programs = programs;
    p->bound = BOUND_ARITHMETIC;
    p->ns = rounds * (BEGIN + work * slowdown(&weights, &q->device));
    return true;
}
