/* emit_random.c: random bits of four or two elements from one block, or of four from two blocks, of which the
 * second is the first of the four elements behind them:
 *
 *     counter c + 1    | c0 [c1 c2 c3 | d0]     d1 d2 d3 | e0         element by element: a block for each
 *     block            |  philox4(c)  |  philox4(d)      | ..         now: one for four, and one at the end
 *
 * Rows of an odd length begin anywhere in a block. */
#include "backends/gpu/elements/emit_run.h"
#include "passes/kernel/gather/runs.h"

enum { BLOCK = 4, MOST_STEPS = 4 };

/* Whether so many registers in order hold elements that lie side by side along the axis, or beyond the end of
 * the tile, where their values do not matter. */
static bool lie_in_order(Emit *e, const Layout *l, int axis, int n)
{
    int32_t tile[LAYOUT_MAX_RANK];
    LayoutVector v;
    if (layout_contiguity(l, axis) < (uint32_t)n) return false;
    for (int a = 0; a < l->rank; a++) tile[a] = l->tile[a];
    tile[axis] = (tile[axis] + n - 1) / n * n;
    const Layout *whole = layout_with_tile(&e->s->arena, l, tile);
    if (!whole) return false;
    layout_vector(whole, axis, 1, (uint32_t)n, (uint32_t)n, &v);
    bool order = v.n == (uint32_t)n;
    for (int k = 1; order && k < n; k *= 2) order = v.reg[k] == (uint32_t)k;
    return order;
}

/* The axis along which so many registers in order hold elements side by side, and the seed is one; -1: there
 * is none. */
static int axis_of_run(Emit *e, const Instr *i, const Layout *l, int n)
{
    for (int a = 0; a < l->rank; a++)
        if (lie_in_order(e, l, a, n) && kernel_run(e->f, ir_operand(i, 0), a, n) & RUN_EQUAL) return a;
    return -1;
}

static bool shares_block(Emit *e, const Instr *i, const Layout *l, int n)
{
    int a = axis_of_run(e, i, l, n);
    return a >= 0 && kernel_run(e->f, ir_operand(i, 1), a, n) & RUN_COUNTS;
}

int random_steps(Emit *e, const Instr *i, const Layout *l)
{
    if (i->op != OP_RANDOM_BITS || shares_block(e, i, l, BLOCK)) return 0;
    for (int steps = MOST_STEPS; steps; steps /= 2) {
        int n = steps * BLOCK, a = axis_of_run(e, i, l, n);
        if (a >= 0 && kernel_counts_on(e->f, &e->ranges, ir_operand(i, 1), a, n)) return steps;
    }
    return 0;
}

int random_elements_of_block(Emit *e, const Instr *i, const Layout *l)
{
    if (i->op != OP_RANDOM_BITS) return 1;
    if (shares_block(e, i, l, BLOCK) || random_steps(e, i, l)) return BLOCK;
    return shares_block(e, i, l, 2) ? 2 : 1;
}

static const char *last_block(Emit *e, const Instr *i)
{ return str(e, "%s_block", name_of(e, ir_result(i))); }

void declare_random_blocks(Emit *e, const Instr *first, const Instr *last, uint32_t mark, const Layout *l)
{
    for (const Instr *i = first;; i = i->next) {
        if (i->mark == mark && is_run_op(i) && random_steps(e, i, l)) line(e, "u32 %s[4];", last_block(e, i));
        if (i == last) return;
    }
}

/* Four elements that begin anywhere in a block. */
static void emit_across(
    Emit *e, const Instr *i, int steps, const char *step, const char *const *args, const char **words)
{
    const char *w = tmp(e, "bits"), *counter = tmp(e, "counter"), *block = last_block(e, i),
               *begins = steps > 1 ? str(e, "if (%s %% %d == 0) ", step, steps) : "";
    line(e, "const u64 %s = (u64)%s;", counter, args[1]);
    line(e, "%s%s(%s, (u64)%s, %s >> 2);", begins, use(e, "philox4"), block, args[0], counter);
    line(e, "u32 %s[4];", w);
    line(e, "%s(%s, %s, (u64)%s, %s);", use(e, "random_across"), w, block, args[0], counter);
    for (int k = 0; k < BLOCK; k++) words[k] = str(e, "%s[%d]", w, k);
}

void emit_random_block(
    Emit *e, const Instr *i, const Layout *l, const char *step, const char *const *args, const char **words)
{
    int n = random_elements_of_block(e, i, l), steps = random_steps(e, i, l);
    if (steps) {
        emit_across(e, i, steps, step, args, words);
        return;
    }
    const char *w = tmp(e, "bits"), *counter = tmp(e, "counter");
    line(e, "const u64 %s = (u64)%s;", counter, args[1]);
    line(e, "u32 %s[4];", w);
    line(e, "%s(%s, (u64)%s, %s >> 2);", use(e, "philox4"), w, args[0], counter);
    for (int k = 0; k < n; k++)
        words[k] =
            n == 4 ? str(e, "%s[%d]", w, k) : str(e, "(%s & 2 ? %s[%d] : %s[%d])", counter, w, k + 2, w, k);
}
