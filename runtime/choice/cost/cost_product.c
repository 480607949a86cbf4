/* cost_product.c: of cost: what a matrix product takes, and the registers that products hold. */
#include "runtime/choice/cost/cost_walk.h"
#include <math.h>

/* A product of m x k by k x n, `times` times. */
typedef struct Product {
    const Type *a, *b;
    double m, n, k, size, times; /* size: bytes of an element of the left operand */
    double groups; /* of columns that it takes one after the other, reading the left operand again */
    double beside; /* bytes of sums beside the accumulators */
} Product;

/* A promoted product has a sum of `count` columns of each warpgroup's 64 rows beside its accumulators, which
 * is added to them. */
static Product product_of(CostWalk *w, const Instr *i, double times)
{
    Product p = { .a = ir_operand(i, 0)->type, .b = ir_operand(i, 1)->type, .times = times, .groups = 1 };
    const Attr *part = ir_attr(i, ATTR_PART);
    p.m = (double)p.a->shape[0];
    p.k = (double)(part ? part->v[1] : p.a->shape[1]);
    p.n = (double)p.b->shape[1];
    p.size = dtype_bytes(p.a->dtype);
    if (i->op == OP_WGMMA_PROMOTED) {
        double columns = (double)ir_attr_int(i, ATTR_COUNT, 1);
        p.groups = ceil(p.n / columns);
        p.beside = columns / 2 * w->threads * 4;
        w->c.alu += p.m * p.n * ceil(p.k / (double)ir_attr_int(i, ATTR_PROMOTE, 1)) * times;
    }
    if (i->op == OP_MMA_SYNC && ir_attr(i, ATTR_PROMOTE)) p.beside = cost_bytes(i->results[0].type);
    return p;
}

static bool adds_to_carried(const Instr *i)
{ return i->op == OP_WGMMA && !ir_operand(i, 2)->def && ir_operand(i, 2)->block == i->block; }

/* Whether arithmetic, and no product, adds to the value k that the loop carries. */
static bool arithmetic_adds(const Block *body, int k)
{
    const Instr *sum = ir_operand(ir_terminator(body), k - 1)->def;
    bool adds = false;
    if (body->args[k]->type->kind != TYPE_TILE || !sum || (sum->op != OP_ADD && sum->op != OP_FMA))
        return false;
    for (int o = 0; o < sum->n_operands; o++) adds |= ir_operand(sum, o) == body->args[k];
    return adds;
}

/* The bytes of the sums that the block carries, be it as accumulators of products or beside them. */
static double carried_sums(const Block *b)
{
    double bytes = 0;
    for (const Instr *i = b->first; i; i = i->next)
        if (adds_to_carried(i)) bytes += cost_bytes(i->results[0].type);
    for (int k = 1; b->parent && b->parent->op == OP_FOR && k < b->n_args; k++)
        if (ir_holds(b, OP_WGMMA) && arithmetic_adds(b, k)) bytes += cost_bytes(b->args[k]->type);
    return bytes;
}

/* Whether the product reads a left operand that its step wrote to shared memory before it. */
static bool reads_this_step(const Instr *i)
{
    const Value *a = ir_operand(i, 0);
    if (a->type->kind != TYPE_SHARED || !kernel_reads_written(i)) return false;
    while (a->def && (a->def->op == OP_SHARED_TRANSPOSE || a->def->op == OP_SHARED_SLICE))
        a = ir_operand(a->def, 0);
    if (!a->def || a->def->op != OP_SHARED_STAGE) return false;
    while (i && i->op != OP_SHARED_WRITE) i = i->prev;
    return i != NULL;
}

static bool comes_before(const Instr *a, const Instr *b)
{
    while (b && b != a) b = b->prev;
    return b != NULL;
}

/* Whether an instruction of the block reads the sum of a product at `now` or behind it. */
static bool is_read_from(const Value *sum, const Instr *now)
{
    for (const Use *u = sum->uses; u; u = u->next) {
        const Instr *x = ir_within(now->block, u->user);
        if (!x || !comes_before(x, now) || x == now) return true;
        for (int k = 0; x == u->user && x->op == OP_WGMMA_WAIT && k < x->n_results; k++)
            if (ir_operand(x, k) == sum && is_read_from(&x->results[k], now)) return true;
    }
    return false;
}

/* The bytes of sums of products in front of this one that arithmetic has added to what the loop carries: the
 * next product takes their registers. */
static double used_up(const Instr *now)
{
    const Block *b = now->block;
    double bytes = 0;
    bool adds = false;
    for (int k = 1; b->parent && b->parent->op == OP_FOR && k < b->n_args; k++) adds |= arithmetic_adds(b, k);
    for (const Instr *i = b->first; adds && i != now; i = i->next)
        if (i->op == OP_WGMMA && !adds_to_carried(i) && !is_read_from(ir_result(i), now))
            bytes += cost_bytes(i->results[0].type);
    return bytes;
}

/* Registers that the products of a block hold at once. The next step of the same sum stays in the same
 * registers. Those of sums that the loop carries are held from the first product on. What a step writes to
 * shared memory frees the registers of the sums that it was computed from. */
static void hold(CostWalk *w, const Instr *i, const Product *p)
{
    const Type *c = i->results[0].type;
    if (w->products != i->block) w->sums = w->held = carried_sums(i->block);
    w->products = i->block;
    w->c.chained |= ir_attr_int(i, ATTR_CHAINED, 0) != 0;
    const Instr *from = ir_operand(i, 2)->def;
    bool carried = adds_to_carried(i);
    if (reads_this_step(i)) w->held = w->sums;
    if (!from || from->block != i->block || from->op != i->op) {
        double operand = p->a->kind == TYPE_TILE ? p->m * p->k * p->size : 0;
        w->held += operand + (carried ? 0 : cost_bytes(c));
        w->sums += carried ? operand : 0;
    }
    const double over = used_up(i);
    const double now = over > 0 ? fmax(w->sums + cost_bytes(c), w->held - over) : w->held;
    int words = (int)((now + p->beside) / 4 / w->threads);
    if (words > w->c.held) w->c.held = words;
}

/* Without a matrix unit: warps of as many rows as columns, whose lanes share what they read. */
static void product_fma(CostWalk *w, const Product *p)
{
    double cost = p->a->dtype == DT_F64 ? w->model->fma_f64_cost : w->model->fma_f32_cost;
    w->c.mma += p->m * p->n * p->k * p->times * cost;
    w->c.fma |= p->a->dtype == DT_F32;
    w->c.feed += 2 * sqrt(p->m * p->n * w->threads / 32.0) * p->k * p->size * p->times;
}

/* An instruction multiplies a k of 32 bytes, whatever the type. */
static double matrix_work(const Product *p) { return p->m * p->n * p->k * p->times * (p->size / 2); }

/* Whether the block waits for the product before anything else of it is computed. */
static bool is_waited_for(const Instr *i)
{
    while (i && i->op != OP_WGMMA_WAIT) i = i->next;
    return i && ir_attr_int(i, ATTR_DEPTH, 0) == 0;
}

static void product_wgmma(CostWalk *w, const Instr *i, const Product *p)
{
    double left = p->a->kind == TYPE_SHARED ? p->groups * p->m * p->k * p->size : 0;
    if (p->a->kind == TYPE_TILE && !ir_attr_int(i, ATTR_CHAINED, 0)) {
        w->c.computed += p->times;
        if (w->loops && is_waited_for(i)) w->c.drains += p->times;
    }
    w->c.wgmma += matrix_work(p);
    w->c.feed += p->times * (p->m / 64 * p->n * p->k * p->size + left);
}

static void product_mma(CostWalk *w, const Instr *i, const Product *p)
{
    double work = matrix_work(p), along_n = (double)ir_attr_int(i, ATTR_COUNT, 1), warps = w->threads / 32.0;
    double along_m = along_n > 0 && warps > along_n ? warps / along_n : 1, rows = 0;
    if (p->a->dtype == DT_F64) {
        bool deep = layout_mma_info(kernel_mma_kind(w->s, ir_attr(i, ATTR_INSTR)->s))->k == 16;
        work = p->m * p->n * p->k * p->times * (deep ? w->model->mma_f64_k16_cost : w->model->mma_f64_cost);
    }
    if (p->a->kind == TYPE_SHARED) rows += p->m * along_n;
    const double products = (double)ir_attr_int(i, ATTR_PARTS, 1);
    /* A warp reads the right operands of its own products alone. */
    if (p->b->kind == TYPE_SHARED) rows += p->n * fmax(along_m, products);
    w->c.wide |= p->size == 4;
    w->c.mma += work;
    w->c.feed += p->times * p->k * p->size * rows;
}

void cost_product(CostWalk *w, const Instr *i, double times)
{
    Product p = product_of(w, i, times);
    hold(w, i, &p);
    if (op_is_wgmma(i->op)) product_wgmma(w, i, &p);
    else if (!strcmp(ir_attr(i, ATTR_INSTR)->s, "fma")) product_fma(w, &p);
    else product_mma(w, i, &p);
}
