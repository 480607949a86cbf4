/* cost_exchange.c: of cost: tiles whose elements go from thread to thread through shared memory, as the
 * emitter recorded their accesses: reshapes, slices, concatenations and permutations whose result other
 * threads hold. */
#include "runtime/choice/cost/cost_walk.h"
#include "passes/kernel/layout/registers.h"
#include <math.h>

/* Bytes that one pass over the banks of shared memory moves (32 banks of 4 bytes, as ir/layout/layout_banks.c
 * has them); of an element that the vendor's compiler joins with its neighbours in an access, and the most of
 * one. */
enum { PASS = 128, WORD = 4, WIDEST = 16 };

/* What the accesses of one operation take. */
typedef struct CostExchange {
    bool counted;
    double requests, passes; /* instructions of warps, and passes over the banks */
    double narrow;           /* of the requests: elements of less than a word, which are taken from words and
                                put into words */
    int sides;               /* whether there is any */
} CostExchange;

/* Whether registers r .. r + n - 1 of the threads, for each multiple r of n, are words that follow each other
 * in memory, of which the first has an address that n words may have. */
static bool in_vectors(const EmittedAccess *a, uint32_t n)
{
    int64_t first[LAYOUT_MAX_LANES], next[LAYOUT_MAX_LANES];
    if (layout_regs(a->layout) % n) return false;
    for (uint32_t r = 0; r < layout_regs(a->layout); r += n) {
        int lanes = access_lanes(a, NULL, r, 0, first);
        for (uint32_t k = 0; k < n; k++) {
            access_lanes(a, NULL, r + k, 0, next);
            for (int lane = 0; lane < lanes; lane++)
                if (first[lane] < 0 || first[lane] % (n * WORD) || next[lane] != first[lane] + k * WORD)
                    return false;
        }
    }
    return true;
}

/* The access as the vendor's compiler makes it of accesses of single words: by vectors where they lie so. */
static EmittedAccess joined(const EmittedAccess *a)
{
    EmittedAccess x = *a;
    uint32_t n = WIDEST / WORD;
    if (a->bytes != WORD || a->vector.n != 1) return x;
    while (n > 1 && !in_vectors(a, n)) n /= 2;
    x.vector = (LayoutVector){ .n = n, .mask = n - 1, .bytes = n * WORD };
    for (uint32_t k = 0; k < n; k++) x.vector.reg[k] = k;
    return x;
}

static void count(const CostWalk *w, const Instr *i, CostExchange *x)
{
    x->counted = true;
    for (int k = 0; k < w->code->n_accesses; k++) {
        if (w->code->accesses[k].instr != i || w->code->accesses[k].way != WAY_SHARED) continue;
        EmittedAccess a = joined(&w->code->accesses[k]);
        AccessCount n;
        access_count(&a, w->target, NULL, &n);
        x->sides++;
        x->requests += n.requests;
        x->passes += n.moved;
        if (n.width < WORD) x->narrow += n.requests;
    }
}

/* The operation's counts, which all walks of a kernel share. */
static const CostExchange *counts_of(const CostWalk *w, const Instr *i)
{
    CostExchange **at = &w->exchanges[ir_result(i)->id];
    if (!*at) *at = arena_new(&w->s->arena, CostExchange);
    if (!(*at)->counted) count(w, i, *at);
    return *at;
}

static bool exchange(CostWalk *w, const Instr *i, double times)
{
    if (w->traffic) return true;
    const CostExchange *x = counts_of(w, i);
    if (!x->sides) return false;
    w->c.shared += x->passes * PASS * times;
    w->c.alu += (x->requests + x->narrow) * w->target->wave * times;
    w->c.meets += 2 * times; /* barriers before its elements are written and before they are read */
    return true;
}

/* Whether the tile is an operand of a product by warp instructions. */
static bool goes_to_product(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->op == OP_MMA_SYNC && u != &u->user->operands[2]) return true;
    return false;
}

/* The operand of a product in another layout than its arithmetic had, through shared memory. An operand that
 * is contiguous along the other axis goes by elements of 16 bits, each of which takes as long as a word, and
 * warps that share rows read them both. */
static bool convert_operand(CostWalk *w, const Instr *i, double times)
{
    const LayoutConvert *plan =
        goes_to_product(ir_result(i)) ? kernel_conversion(&w->s->arena, w->plan, i) : NULL;
    if (!plan || plan->kind != LAYOUT_CONVERT_SHARED) return false;
    double warps = w->threads / 32.0;
    double requests =
        (double)layout_regs(plan->src) / plan->store.n + (double)layout_regs(plan->dst) / plan->load.n;
    w->c.shared += fmax(requests, plan->cost - requests) * warps * PASS * times;
    w->c.alu += requests * w->threads * times;
    w->c.meets += 2 * times;
    return true;
}

/* Whether the conversion only renames registers. Those through shared memory have a swizzle (swizzle.c). */
static bool renames(CostWalk *w, const Instr *i)
{
    if (i->op != OP_CONVERT || ir_attr_int(i, ATTR_SWIZZLE, 0)) return false;
    const LayoutConvert *plan = kernel_conversion(&w->s->arena, w->plan, i);
    return plan && plan->kind <= LAYOUT_CONVERT_REGISTERS;
}

void cost_convert(CostWalk *w, const Instr *i, double times)
{
    if (renames(w, i) || convert_operand(w, i, times)) return;
    w->c.shared += 2.0 * cost_bytes(i->results[0].type) * times;
    w->c.meets += 2 * times;
}

/* A tile whose elements are those of others by their positions, which other threads may hold. */
bool cost_is_by_position(const Instr *i)
{
    bool moves = i->op == OP_RESHAPE || i->op == OP_PERMUTE || i->op == OP_CONCAT || i->op == OP_SLICE;
    return moves && ir_operand(i, 0)->type->kind == TYPE_TILE;
}

static bool same_registers(CostWalk *w, const Instr *i)
{ return !ir_operand(i, 0)->type->layout || kernel_same_registers(&w->s->arena, w->plan, i); }

bool cost_stays(CostWalk *w, const Instr *i)
{ return cost_is_by_position(i) && !counts_of(w, i)->sides && (i->op != OP_PERMUTE || same_registers(w, i)); }

/* Matrices that the emitter transposes by instructions of their own have no record of their elements. */
void cost_by_position(CostWalk *w, const Instr *i, double times)
{
    bool told = exchange(w, i, times);
    if (!told && i->op == OP_PERMUTE && !same_registers(w, i)) cost_convert(w, i, times);
}
