/* unroll: replaces small loops of constant trip count by their iterations.
 *
 *   %r = for %i = 0 to 3 step 1 with (%a = %x) {           %1 = add %x, (splat 0)
 *     %n = add %a, (splat %i)                       ->     %2 = add %1, (splat 1)
 *     yield %n                                             %r = add %2, (splat 2)
 *   }
 *
 * It handles innermost loops of at most 8 iterations (or what `unroll` asks for), whose iterations
 * together stay under 128 instructions.
 *
 * Requires: fold (constant bounds). Keeps: everything. Does not handle: loops that pipeline loads (latency
 * > 1) or hold a product of 16384 elements and more, from which the kernel passes build a pipeline;
 * partial unrolling, which is left to the backends. */
#include "passes/pass.h"

enum { MAX_TRIPS = 8, MAX_ASKED = 64, MAX_INSTRS = 128, BIG_PRODUCT = 16384 };

typedef struct Unroll {
    PassContext *c;
    int64_t loops;
} Unroll;

static int size_of(const Block *b, bool *refuse)
{
    int n = 0;
    for (const Instr *i = b->first; i; i = i->next) {
        n++;
        if (is_loop(i) || ir_attr_int(i, ATTR_LATENCY, 0) > 1) *refuse = true;
        if (i->op == OP_MMA && type_elements(i->results[0].type) >= BIG_PRODUCT) *refuse = true;
        for (int k = 0; k < i->n_blocks; k++) n += size_of(i->blocks[k], refuse);
    }
    return n;
}

static int64_t trips(const Instr *i)
{
    int64_t lo, hi, step, span;
    if (!ir_is_const(ir_operand(i, 0), &lo) || !ir_is_const(ir_operand(i, 1), &hi) ||
        !ir_is_const(ir_operand(i, 2), &step) || step < 1)
        return -1;
    if (hi <= lo) return 0;
    return __builtin_sub_overflow(hi, lo, &span) ? -1 : (span - 1) / step + 1;
}

static void unroll(Unroll *x, Instr *i, int64_t n)
{
    Block *body = i->blocks[0];
    Instr *end = ir_terminator(body);
    Value *carried[IR_MAX_RESULTS], *next[IR_MAX_RESULTS];
    int64_t lo = 0, step = 1;
    Builder b = ir_before(i);
    ir_is_const(ir_operand(i, 0), &lo);
    ir_is_const(ir_operand(i, 2), &step);
    for (int k = 0; k < i->n_results; k++) carried[k] = ir_operand(i, k + 3);
    for (int64_t t = 0; t < n; t++) {
        ValueMap map;
        value_map_init(&map, x->c->scratch);
        value_map_set(&map, body->args[0], ir_const_int(&b, body->args[0]->type->dtype, lo + t * step));
        for (int k = 0; k < i->n_results; k++) value_map_set(&map, body->args[k + 1], carried[k]);
        ir_clone_block_into(&b, body, &map, false);
        for (int k = 0; k < i->n_results; k++) next[k] = value_map_get(&map, ir_operand(end, k));
        memcpy(carried, next, (size_t)i->n_results * sizeof *next);
    }
    for (int k = 0; k < i->n_results; k++) ir_replace(&i->results[k], carried[k]);
    ir_erase(i);
    x->loops++;
}

static void unroll_block(Unroll *x, Block *b)
{
    for (Instr *i = b->first, *next; i; i = next) {
        next = i->next;
        for (int k = 0; k < i->n_blocks; k++) unroll_block(x, i->blocks[k]);
        if (i->op != OP_FOR) continue;
        bool refuse = false;
        int64_t n = trips(i), asked = ir_attr_int(i, ATTR_UNROLL, 0);
        int size = size_of(i->blocks[0], &refuse);
        if (n < 0 || refuse ||
            n > (asked > MAX_TRIPS ? (asked < MAX_ASKED ? asked : MAX_ASKED) : MAX_TRIPS) ||
            n * size > MAX_INSTRS)
            continue;
        unroll(x, i, n);
    }
}

static bool unroll_func(PassContext *c, Func *f)
{
    Unroll x = { c };
    unroll_block(&x, f->body);
    pass_count(c, "loops unrolled", x.loops);
    return x.loops > 0;
}

bool pass_unroll(PassContext *c, Module *m) { return pass_each_func(c, m, unroll_func); }
