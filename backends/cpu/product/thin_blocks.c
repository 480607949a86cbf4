/* thin_blocks.c: loops over K that do nothing but multiply by few columns (THIN_DOTS_OF_A) go through A row
 * by row, for as many iterations as have their packed operands in a part of the first cache:
 *
 *     for k                                    for blocks of k
 *         pack B of k                              for k of the block: pack B of k
 *         for rows of A                  ->        for rows of A
 *             sums += dots of k                        for k of the block
 *                                                          sums += dots of k
 *
 * Where windows are short, as groups of weights with a scale of their own are, memory then delivers runs as
 * long as all of a block, and sums stay in registers for it. What an iteration computes is the same, and the
 * sums are added in the same order. A block ends with the first iteration whose windows are not whole: that
 * one and those behind it are multiplied one after the other. */
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/product/thin.h"

enum {
    LEAST_TIMES = 4, /* iterations that gain */
    MOST_TIMES = 64,
    MOST_PRODUCTS = 8,
    PART_OF_FIRST = 2 /* the part of the first cache that packed operands take */
};

typedef struct Blocks {
    Gen *g;
    Step *loop, *products[MOST_PRODUCTS];
    int64_t at[MOST_PRODUCTS]; /* where the packed operands of an iteration are in its part of the stage */
    int n;
    int64_t bytes, times;         /* of an iteration; iterations of a block */
    LLVMValueRef lo, step, first; /* of the loop; the number of the block's first iteration */
    LLVMValueRef stage;
} Blocks;

/* The loop's products, if it does nothing else that could not be done again. */
static bool find_products(Blocks *x)
{
    if (x->loop->instr->n_results != 1 || ir_loop_is(x->loop->instr, LOOP_EDGE)) return false;
    for (Step *s = x->loop->blocks[0]->first; s; s = s->next) {
        if (s->kind == STEP_YIELD) continue;
        if (s->kind == STEP_SCALAR || s->kind == STEP_WINDOW) {
            if (s->memory || !cpu_can_be_repeated(s->instr)) return false;
            continue;
        }
        if (s->kind != STEP_MMA || s->thin != THIN_DOTS_OF_A || !s->lanes) return false;
        if (s->keep || s->b->places || x->n == MOST_PRODUCTS) return false;
        x->at[x->n] = x->bytes;
        x->bytes += (s->b->bytes + LINE - 1) / LINE * LINE;
        x->products[x->n++] = s;
    }
    return x->n > 0;
}

static bool fits(Blocks *x)
{
    const Gen *g = x->g;
    if (g->options->tracked || !find_products(x)) return false;
    x->times = MOST_TIMES;
    while (x->times * x->bytes > g->target->first_cache / PART_OF_FIRST) x->times /= 2;
    return x->times >= LEAST_TIMES;
}

/* The scalars and windows of iteration number t of the block, and the places of its packed operands. */
static void enter(Blocks *x, LLVMValueRef t)
{
    Gen *g = x->g;
    gen_iteration(g, x->loop, x->lo, x->step, gen_iadd(g, x->first, t));
    for (Step *s = x->loop->blocks[0]->first; s; s = s->next) {
        gen_loc(g, s->instr->loc);
        if (s->kind == STEP_SCALAR) gen_scalar_instr(g, s->instr);
        if (s->kind == STEP_WINDOW) memory_window(g, s->instr);
    }
    LLVMValueRef part = gen_ptr(g, x->stage, gen_imul(g, t, x->bytes));
    for (int k = 0; k < x->n; k++) x->products[k]->b->place = gen_ptr(g, part, gen_int(g, x->at[k]));
}

static void leave(Blocks *x)
{
    for (int k = 0; k < x->n; k++) x->products[k]->b->place = NULL;
}

/* Packs the operands of n iterations; the number of those from the first on whose windows are whole. */
static LLVMValueRef pack(Blocks *x, LLVMValueRef n)
{
    Gen *g = x->g;
    Loop l;
    LLVMValueRef cell = gen_alloca(g, g->i64, "whole");
    LLVMBuildStore(g->b, gen_int(g, 0), cell);
    LLVMValueRef t = gen_loop(g, &l, gen_int(g, 0), n, 1), whole = NULL;
    enter(x, t);
    for (int k = 0; k < x->n; k++) {
        Thin p;
        thin_init(&p, g, x->products[k]);
        gen_loc(g, x->products[k]->instr->loc);
        thin_columns_as_rows(&p);
        thin_find_windows(&p, &whole);
        if (p.windows.too_many) whole = LLVMConstInt(g->i1, 0, false);
    }
    LLVMValueRef before = LLVMBuildLoad2(g->b, g->i64, cell, "");
    LLVMValueRef all = both(g, whole, icmp(g, LLVMIntEQ, before, t));
    LLVMBuildStore(g->b, LLVMBuildSelect(g->b, all, gen_iadd(g, t, gen_int(g, 1)), before, ""), cell);
    leave(x);
    gen_loop_end(g, &l);
    return LLVMBuildLoad2(g->b, g->i64, cell, "");
}

/* Product number k of the iteration that is entered, in whole windows. */
static Thin whole_product(Blocks *x, int k, int rows, LLVMValueRef row)
{
    Thin p;
    LLVMValueRef whole = NULL;
    thin_init(&p, x->g, x->products[k]);
    thin_find_windows(&p, &whole);
    thin_assume_whole(&p);
    for (int i = 0; i < p.windows.n; i++) p.windows.w[i]->ahead = NULL, p.windows.w[i]->locality = 2;
    p.rows = rows;
    p.row = row;
    p.in_order = true;
    return p;
}

/* Adds the dots of n iterations to the sums of some columns and rows. */
static void dots(Blocks *x, const Thin *of, LLVMValueRef n, LLVMValueRef column, int columns)
{
    Gen *g = x->g;
    Loop l;
    LLVMValueRef acc[MAX_SUMS], phi[MAX_SUMS], first[MAX_SUMS];
    int sums = columns * of->rows;
    Thin lanes = *of;
    thin_load_lanes(&lanes, column, columns, first);
    LLVMValueRef t = gen_loop(g, &l, gen_int(g, 0), n, 1);
    l.runs = true;
    for (int c = 0; c < sums; c++) {
        acc[c] = phi[c] = LLVMBuildPhi(g->b, of->vec, "");
        LLVMAddIncoming(phi[c], &first[c], &l.before, 1);
    }
    enter(x, t);
    for (int k = 0; k < x->n; k++) {
        if (x->products[k]->joined) continue;
        bool two = x->products[k]->with != NULL;
        Thin p = whole_product(x, two ? k - 1 : k, of->rows, of->row), next;
        if (two) {
            next = whole_product(x, k, of->rows, of->row);
            p.with = &next;
        }
        thin_add_dots(&p, column, columns, acc);
    }
    leave(x);
    LLVMBasicBlockRef latch = gen_here(g);
    for (int c = 0; c < sums; c++) LLVMAddIncoming(phi[c], &acc[c], &latch, 1);
    gen_loop_end(g, &l);
    thin_store_lanes(&lanes, column, columns, acc);
}

/* Column by column, and for each the n iterations. */
static void by_columns(Blocks *x, Thin *of, LLVMValueRef n)
{
    Gen *g = x->g;
    If some;
    int columns = thin_columns(of);
    int64_t done = of->n / columns * columns;
    gen_if(g, &some, icmp(g, LLVMIntSGT, n, gen_int(g, 0)));
    for (int64_t from = 0, to = done; from < of->n; from = to, to = of->n, columns = 1) {
        Loop along, rows;
        LLVMValueRef column = gen_loop(g, &along, gen_int(g, from), gen_int(g, to), columns);
        of->row = gen_loop(g, &rows, gen_int(g, 0), gen_int(g, of->m), of->rows);
        dots(x, of, n, column, columns);
        gen_loop_end(g, &rows);
        gen_loop_end(g, &along);
    }
    gen_endif(g, &some);
}

/* Iterations [from, n) one after the other. */
static void one_by_one(Blocks *x, LLVMValueRef from, LLVMValueRef n)
{
    Gen *g = x->g;
    Loop l;
    enter(x, gen_loop(g, &l, from, n, 1));
    for (int k = 0; k < x->n; k++) {
        Thin p;
        LLVMValueRef whole = NULL;
        thin_init(&p, g, x->products[k]);
        thin_find_windows(&p, &whole);
        for (int i = 0; i < p.windows.n; i++) p.windows.w[i]->ahead = NULL;
        thin_dots(&p);
    }
    leave(x);
    gen_loop_end(g, &l);
}

/* What all products have in common: the rows whose sums are in registers at once are those of the one that
 * takes the fewest, and so are the columns. */
static Thin common(Blocks *x)
{
    Thin of;
    thin_init(&of, x->g, x->products[0]);
    of.whole = true;
    for (int k = 1; k < x->n; k++) {
        Thin p;
        thin_init(&p, x->g, x->products[k]);
        if (p.rows < of.rows) of.rows = p.rows;
        if (thin_table_parts(&p) > thin_table_parts(&of)) of.index = p.index, of.from = p.from;
    }
    return of;
}

bool thin_blocks(Gen *g, Step *loop, LLVMValueRef lo, LLVMValueRef step, LLVMValueRef trips)
{
    Blocks x = { .g = g, .loop = loop, .lo = lo, .step = step };
    Loop l;
    if (!fits(&x)) return false;
    g->reduces_strength = true;
    Thin of = common(&x);
    x.stage = gen_alloca(
        g, LLVMArrayType2(of.vec, (uint64_t)(x.times * x.bytes / g->target->vector_bytes)), "stage");
    x.first = gen_loop(g, &l, gen_int(g, 0), trips, x.times);
    LLVMValueRef n = smaller(g, LLVMBuildSub(g->b, trips, x.first, ""), gen_int(g, x.times));
    LLVMValueRef whole = pack(&x, n);
    by_columns(&x, &of, whole);
    one_by_one(&x, whole, n);
    gen_loop_end(g, &l);
    g->reduces_strength = false;
    return true;
}
