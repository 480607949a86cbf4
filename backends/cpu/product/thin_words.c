/* thin_words.c: short dots (thin_dots.c) of 8-bit integers on AVX-512. A vector has a word of four elements
 * of each of 16 columns, and is multiplied by the same four elements of a row of the packed operand in all
 * lanes. So no lanes are added, and the sums lie along the columns:
 *
 *     a line each of 16 columns  --transposed by words-->  16 vectors, in the first cache
 *     for some rows: for words k: sums[row] += vector k . word k of the row
 *
 * Where elements are computed from the bytes of a window, as those of 4 bits are, the bytes are transposed
 * and the elements are computed behind it. Two products that are computed at once have the same vectors if
 * both are computed from the same bytes. */
#include "backends/cpu/memory/transpose.h"
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/product/thin.h"

enum {
    WORD = 4,           /* elements */
    WORDS_AT_ONCE = 4,  /* by which a row is multiplied in an iteration */
    MOST_ROWS = 8,      /* at once */
    DEEP_FOR_A_ROW = 32 /* elements along K: to transpose more takes longer than to add the lanes of a row */
};

bool thin_by_words(const Thin *t)
{
    const CpuTarget *c = t->g->target;
    bool unit = t->s->mma == MMA_I8_THIN || t->s->mma == MMA_I8_PAIRS;
    return c->avx512 && unit && t->s->thin == THIN_DOTS && t->whole && t->n % t->lanes == 0 &&
           t->k % c->vector_bytes == 0 && t->k <= DEEP_FOR_A_ROW * t->m;
}

/* The bytes that are transposed, and whether K is their last axis. */
typedef struct Bytes {
    Value *v;
    bool transposed;
    LLVMValueRef stage; /* their vectors */
} Bytes;

/* The tile of bytes from which alone v is computed element by element; NULL: there is none. */
static Value *computed_from(const Instr *i)
{
    Value *from = NULL;
    if (!op_is_elementwise(i->op) || i->n_results != 1 || op_family(i->op) == OPS_RANDOM) return NULL;
    for (int k = 0; k < i->n_operands; k++) {
        Value *x = ir_operand(i, k);
        if (x->type->kind != TYPE_TILE || (x->def && x->def->op == OP_SPLAT)) continue;
        if ((from && x != from) || dtype_bits(x->type->dtype) != 8) return NULL;
        from = x;
    }
    return from;
}

static Bytes bytes_of(const Thin *t)
{
    Bytes b = { t->b, false, NULL };
    for (;;) {
        const Instr *i = b.v->def;
        if (!i || plan_info(t->g->plan, b.v)->buf) return b;
        bool transposes = i->op == OP_PERMUTE && ir_attr(i, ATTR_ORDER)->v[0] == 1;
        Value *from = transposes ? ir_operand(i, 0) : computed_from(i);
        if (!from) return b;
        b.v = from;
        b.transposed ^= transposes;
    }
}

/* Where the vector of word k / WORD of the columns is: it has an element of each column for each byte. */
static LLVMValueRef vector_at(Thin *t, const Bytes *of, LLVMValueRef k)
{ return gen_ptr(t->g, of->stage, gen_imul(t->g, k, t->lanes)); }

/* Transposes the bytes of a block of columns. */
static void stage_words(Thin *t, const Bytes *of, LLVMValueRef column)
{
    Gen *g = t->g;
    Loop l;
    int n = t->lanes;
    LLVMValueRef x[MAX_SUMS], coord[TILE_MAX_RANK];
    LLVMValueRef first = gen_loop(g, &l, gen_int(g, 0), gen_int(g, t->k), WORD * n);
    coord[of->transposed] = first;
    for (int c = 0; c < n; c++) {
        Eval e;
        coord[!of->transposed] = gen_iadd(g, column, gen_int(g, c));
        eval_init(&e, g, WORD * n);
        x[c] = LLVMBuildBitCast(g->b, nest_eval(&e, of->v, coord, of->transposed), gen_vec(g->i32, n), "");
    }
    transpose_vectors(g, x, n, 1);
    for (int k = 0; k < n; k++)
        LLVMBuildStore(g->b, x[k], vector_at(t, of, gen_iadd(g, first, gen_int(g, WORD * k))));
    gen_loop_end(g, &l);
}

/* The elements of all columns that the vector of word k / WORD has. */
static LLVMValueRef elements_of(Thin *t, const Bytes *of, LLVMValueRef k, LLVMValueRef column)
{
    Gen *g = t->g;
    Eval e;
    int n = WORD * t->lanes;
    LLVMValueRef coord[2][TILE_MAX_RANK] = { { k, column }, { column, k } };
    eval_init(&e, g, n);
    LLVMValueRef x = LLVMBuildLoad2(g->b, gen_vec(g->i8, n), vector_at(t, of, k), "");
    eval_assume(&e, of->v, coord[of->transposed], of->transposed, x);
    return thin_invert(t, nest_eval(&e, t->b, coord[0], 0));
}

/* Adds the products of a word to the sums of some rows. */
static void add_word(Thin *t, LLVMValueRef k, LLVMValueRef b, LLVMValueRef *acc)
{
    Gen *g = t->g;
    for (int r = 0; r < t->rows; r++) {
        LLVMValueRef a = LLVMBuildLoad2(g->b, g->i32, thin_a_at(t, r, k), "");
        LLVMSetAlignment(a, 1);
        a = gen_splat(g, a, t->lanes);
        acc[r] =
            t->pairs ? thin_add_pairs(t, &t->waiting[r], acc[r], a, b) : thin_multiply_add(t, acc[r], a, b);
    }
}

static void put_sum(Thin *t, int row, LLVMValueRef column, LLVMValueRef x)
{
    Gen *g = t->g;
    DType type = t->s->buf->dtype;
    if (t->s->acc) x = thin_add(t, gen_load(g, type, t->lanes, thin_sum_at(t, t->s->acc, row, column)), x);
    gen_store(g, type, x, thin_sum_at(t, t->s->buf, row, column));
}

/* The sums of some rows and of as many columns as a vector has lanes. */
static void rows_of_columns(Thin *t, const Bytes *bytes, LLVMValueRef column)
{
    Gen *g = t->g;
    Loop l;
    Thin *both[] = { t, t->with };
    LLVMValueRef acc[MAX_SUMS], phi[MAX_SUMS], first[MAX_SUMS];
    Waiting waiting[MAX_SUMS] = { { NULL, 0 } };
    t->waiting = waiting;
    if (t->with) t->with->waiting = waiting, t->with->row = t->row;
    for (int r = 0; r < t->rows; r++)
        first[r] = t->inverts ? LLVMBuildNeg(g->b, thin_offset_of(t, r), "") : LLVMConstNull(t->vec);
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, t->k), WORD * WORDS_AT_ONCE);
    for (int r = 0; r < t->rows; r++) {
        acc[r] = phi[r] = LLVMBuildPhi(g->b, t->vec, "");
        LLVMAddIncoming(phi[r], &first[r], &l.before, 1);
    }
    for (int word = 0; word < WORDS_AT_ONCE; word++)
        for (int p = 0; p < 2 && both[p]; p++) {
            LLVMValueRef at = gen_iadd(g, k, gen_int(g, WORD * word));
            add_word(both[p], at, elements_of(both[p], &bytes[p], at, column), acc);
        }
    for (int r = 0; t->pairs && r < t->rows; r++) acc[r] = thin_add_waiting(t, &waiting[r], acc[r]);
    LLVMBasicBlockRef latch = gen_here(g);
    for (int r = 0; r < t->rows; r++) LLVMAddIncoming(phi[r], &acc[r], &latch, 1);
    gen_loop_end(g, &l);
    for (int r = 0; r < t->rows; r++) put_sum(t, r, column, acc[r]);
}

void thin_words(Thin *t, LLVMValueRef column)
{
    Gen *g = t->g;
    Loop l;
    int rows = t->rows;
    Bytes bytes[2] = { bytes_of(t) };
    LLVMTypeRef vectors = LLVMArrayType2(t->vec, (uint64_t)(t->k / WORD));
    bytes[0].stage = gen_alloca(g, vectors, "words");
    stage_words(t, &bytes[0], column);
    if (t->with) {
        bytes[1] = bytes_of(t->with);
        bool same = bytes[1].v == bytes[0].v && bytes[1].transposed == bytes[0].transposed;
        bytes[1].stage = same ? bytes[0].stage : gen_alloca(g, vectors, "words");
        if (!same) stage_words(t->with, &bytes[1], column);
    }
    for (t->rows = MOST_ROWS; t->m % t->rows; t->rows--);
    if (t->with) t->with->rows = t->rows;
    t->row = gen_loop(g, &l, gen_int(g, 0), gen_int(g, t->m), t->rows);
    thin_fetch_lines(t, gen_int(g, 0), column, t->lanes, (int)t->k);
    rows_of_columns(t, bytes, column);
    gen_loop_end(g, &l);
    t->rows = rows;
    if (t->with) t->with->rows = rows;
}
