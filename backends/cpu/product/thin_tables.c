/* thin_tables.c: elements of few values, of products in dots (thin_dots.c). Where B is computed from integers
 * of 4 bits and from values that are the same along K, as dequantized weights are, the 16 values that an
 * element of a column may have are computed once for the column, by the operations that B is written in, and
 * kept in registers. An element is then
 *
 *     AVX-512    one shuffle of a register (`vpermps`, `vpermw`), which reads no more than the lowest bits of
 *                its index
 *     AVX2       for each byte of a value that may be other than zero a shuffle of bytes (`vpshufb`) of a
 *                register that has this byte of the 16 values; the bytes are interleaved */
#include "backends/cpu/product/thin.h"
#include "backends/cpu/plan/plan.h"
#include "ir/analysis/range.h"

enum {
    TABLE = 16,   /* values: f32 fill a register of 64 bytes, those of 16 bits and bytes are in one twice */
    DEEPEST = 12, /* operations from an element back to its bits */
    TOO_MANY = 7  /* instructions for a vector of elements that might be computed instead */
};

typedef struct Search {
    const Plan *plan;
    Ranges *ranges;
    Value *index;
} Search;

/* Whether `v` changes along its axis only as the index does, which is found. */
static bool is_table(Search *s, Value *v, int axis, int depth)
{
    if (v->type->kind != TYPE_TILE || v->type->shape[axis] == 1 || v == s->index) return true;
    const Instr *i = v->def;
    if (!i || depth > DEEPEST || plan_info(s->plan, v)->buf) return false;
    if (i->op == OP_SPLAT) return true;
    if (i->op == OP_BROADCAST) return ir_operand(i, 0)->type->shape[axis] == 1;
    if (!op_is_elementwise(i->op) || op_family(i->op) == OPS_RANDOM) return false;
    RangeInfo r = range_of(s->ranges, v);
    if (dtype_is_int(v->type->dtype) && dtype_bits(v->type->dtype) == 8 && r.lo >= 0 && r.hi < TABLE) {
        if (s->index) return false;
        s->index = v;
        return true;
    }
    for (int k = 0; k < i->n_operands; k++)
        if (!is_table(s, ir_operand(i, k), axis, depth + 1)) return false;
    return true;
}

/* What the index is made of: a shuffle reads four bits, so that a mask which keeps these is not needed, and a
 * shift of the elements is part of the shift that moves them to the lowest bits. */
static void find_bits(Thin *t)
{
    int64_t c;
    const Instr *i;
    for (t->bits = t->index; (i = t->bits->def) && !plan_info(t->g->plan, t->bits)->buf;) {
        bool constant = i->n_operands == 2 && ir_is_const(ir_operand(i, 1), &c);
        const int64_t read = (int64_t)(TABLE - 1) << t->shift;
        if (constant && i->op == OP_AND && (c & read) == read) t->bits = ir_operand(i, 0);
        else if (constant && i->op == OP_SHR && c >= 0 && t->shift + c <= 4) {
            t->shift += (int)c;
            t->bits = ir_operand(i, 0);
        } else break;
    }
}

Value *mma_table(const Plan *p, MmaKind kind, Value *a)
{
    Search s = { p, NULL, NULL };
    bool bytes = !p->target->arm && p->target->fma; /* AVX2 */
    bool words = kind == MMA_F32 || kind == MMA_BF16_PAIRS || kind == MMA_AMX_BF16;
    bool fits = p->target->avx512 ? words : bytes && kind == MMA_F32;
    if (!fits || a->type->shape[1] % p->target->vector_bytes) return NULL;
    s.ranges = ranges_new(p->func);
    return is_table(&s, a, 1, 0) ? s.index : NULL;
}

void thin_index(Thin *t)
{
    t->index = mma_table(t->g->plan, t->s->mma, t->b);
    if (t->index) find_bits(t);
}

int thin_looked_up(const Thin *t) { return t->g->target->vector_bytes; }

/* As many as an element has bytes. */
int thin_table_vectors(const Thin *t) { return dtype_bytes(t->as); }

/* The lowest bytes of an f32 that every value of the type leaves zero. */
static int zero_bytes(DType t) { return t == DT_F32 ? 0 : t == DT_BF16 ? 2 : 1; }

/* The instructions for a vector of elements of v from those of the index. */
static int from_index(const Thin *t, const Value *v)
{
    const Instr *i = v->def;
    if (v == t->index || v->type->shape[1] == 1 || i->op == OP_SPLAT || i->op == OP_BROADCAST) return 0;
    if (dtype_is_float(v->type->dtype) && v->type->dtype != DT_F32) return TOO_MANY;
    int cost = plan_op_cost(i);
    for (int k = 0; k < i->n_operands && cost < TOO_MANY; k++) {
        Value *x = ir_operand(i, k);
        if (x->type->kind == TYPE_TILE) cost += from_index(t, x);
    }
    return cost;
}

/* Whether the elements are computed, eight at a time, from their indices. On AVX2 the four bytes of 32
 * elements take twelve shuffles, for which only two units are there, and the table as many more. */
static bool is_computed(const Thin *t)
{ return !t->g->target->avx512 && t->from == DT_F32 && from_index(t, t->b) < TOO_MANY; }

/* Whether values of f16 are looked up as such, by two bytes, and widened from memory. A conversion of a
 * register would wait for the same units as the shuffles do. More rows wait for multiply-adds instead. */
static bool is_widened(const Thin *t)
{
    const int *cost = t->g->target->cost;
    bool few = t->m <= MOST_AT_ONCE && !t->g->target->avx512;
    return few && t->from == DT_F16 && cost[COST_WIDEN_LOADED] <= cost[COST_WIDEN];
}

/* Of n vectors of AVX-512, vector j has elements n i + j, so that a shift of words of n bytes makes its
 * indices. Those of AVX2 have elements in the order in which four vectors of bytes are interleaved, or of
 * two, of whose words the even and the odd ones make a vector each. */
int thin_table_element(const Thin *t, int j, int i)
{
    if (t->g->target->avx512 || is_computed(t)) return thin_table_vectors(t) * i + j;
    if (is_widened(t)) return j % 2 * 16 + j / 2 * 8 + i;
    if (zero_bytes(t->from) == 2) return i / 4 * 16 + j / 2 * 8 + i % 4 * 2 + j % 2;
    return i / 4 * 16 + 4 * j + i % 4;
}

/* a and b in turn, of their lower or upper halves: elements of `size` bytes of registers of 16. */
static LLVMValueRef zip(Gen *g, LLVMValueRef a, LLVMValueRef b, int size, bool upper)
{
    int mask[TABLE];
    for (int k = 0; k < TABLE; k++)
        mask[k] = k / size % 2 * TABLE + (upper ? TABLE / 2 : 0) + k / size / 2 * size + k % size;
    return gen_shuffle(g, a, b, mask, TABLE);
}

/* The bytes of 16 values of f32: all lowest ones, .., all highest ones; each twice. */
static void bytes_of(Gen *g, LLVMValueRef x, LLVMValueRef *to)
{
    LLVMValueRef four[4], two[4];
    int mask[2 * TABLE];
    x = LLVMBuildBitCast(g->b, x, gen_vec(g->i8, 4 * TABLE), "");
    for (int v = 0; v < 4; v++) { /* of four values their lowest bytes, .., their highest ones */
        for (int k = 0; k < TABLE; k++) mask[k] = v * TABLE + k % 4 * 4 + k / 4;
        four[v] = gen_shuffle(g, x, x, mask, TABLE);
    }
    for (int v = 0; v < 4; v++) two[v] = zip(g, four[v / 2 * 2], four[v / 2 * 2 + 1], 4, v % 2);
    for (int k = 0; k < 2 * TABLE; k++) mask[k] = k % TABLE;
    for (int k = 0; k < 4; k++) {
        LLVMValueRef one = zip(g, two[k / 2], two[2 + k / 2], 8, k % 2);
        to[k] = gen_shuffle(g, one, one, mask, 2 * TABLE);
    }
}

/* Whether columns are multiplied one after the other, and no load moves. LLVM would load the other operand
 * once for all of them and keep it, for which AVX2 has too few registers beside the sums of several rows: it
 * would move sums and tables to memory and back. Words that are widened from memory come in order by
 * themselves. */
static bool is_ordered(const Thin *t) { return t->rows > 1 && !t->g->target->avx512 && !is_widened(t); }

/* The values that are the same along K from which the elements of v are computed. */
static int constants_of(const Thin *t, const Value *v)
{
    int n = 0;
    const Instr *i = v->def;
    if (v == t->index || v->type->kind != TYPE_TILE) return 0;
    if (v->type->shape[1] == 1 || i->op == OP_SPLAT || i->op == OP_BROADCAST) return 1;
    for (int k = 0; k < i->n_operands; k++) n += constants_of(t, ir_operand(i, k));
    return n;
}

/* Of computed elements, what they are computed from, and words unless one column has them at a time. */
int thin_table_parts(const Thin *t)
{
    if (!t->index) return 0;
    if (is_computed(t)) return constants_of(t, t->b) + !is_ordered(t);
    return t->g->target->avx512 ? 1 : is_widened(t) ? 2 : 4 - zero_bytes(t->from);
}

/* The values of a column of B by the index. A shuffle of 16-bit elements reads five bits, so these are there
 * twice. */
Table thin_table(Thin *t, LLVMValueRef column)
{
    Gen *g = t->g;
    Eval e;
    Table table = { { NULL } };
    LLVMValueRef coord[TILE_MAX_RANK] = { column, gen_int(g, 0) };
    int mask[2 * TABLE];
    if (is_computed(t)) return table;
    eval_init(&e, g, TABLE);
    eval_assume(&e, t->index, coord, 1, gen_iota(g, gen_type(g, t->index->type->dtype, 1), TABLE));
    LLVMValueRef x = nest_eval(&e, t->b, coord, 1);
    if (is_widened(t)) {
        x = LLVMBuildBitCast(g->b, x, gen_vec(g->i8, 2 * TABLE), "");
        for (int part = 0; part < 2; part++) {
            for (int k = 0; k < 2 * TABLE; k++) mask[k] = 2 * (k % TABLE) + part;
            table.part[part] = gen_shuffle(g, x, x, mask, 2 * TABLE);
        }
        return table;
    }
    if (t->as == DT_F32) {
        x = convert(g, DT_F32, t->from, x);
        if (g->target->avx512) table.part[0] = x;
        else bytes_of(g, x, table.part);
        for (int k = 0; !g->target->avx512 && k < zero_bytes(t->from); k++) table.part[k] = NULL;
        return table;
    }
    LLVMValueRef halves = upper_halves_of(g, x);
    for (int k = 0; k < 2 * TABLE; k++) mask[k] = halves ? 2 * (k % TABLE) + 1 : k % TABLE;
    if (halves) x = LLVMBuildBitCast(g->b, halves, gen_vec(g->i16, 2 * TABLE), "");
    table.part[0] = gen_shuffle(g, x, x, mask, 2 * TABLE);
    return table;
}

LLVMValueRef thin_look_up(Thin *t, const Table *table, LLVMValueRef index)
{
    bool wide = t->as == DT_F32;
    return gen_intrinsic(t->g, wide ? "llvm.x86.avx512.permvar.sf.512" : "llvm.x86.avx512.permvar.hi.512",
        NULL, 0, (LLVMValueRef[]){ table->part[0], index }, 2);
}

/* The bytes that the indices of a column are in. */
static LLVMValueRef bits_of(Thin *t, LLVMValueRef k, LLVMValueRef column)
{
    Eval e;
    LLVMValueRef coord[TILE_MAX_RANK] = { column, k };
    eval_init(&e, t->g, thin_looked_up(t));
    return nest_eval(&e, t->bits, coord, 1);
}

/* acc[column * rows + row] for vector j of the elements from k on of columns c to `end`, which is b[column].
 */
static void add_vector(
    Thin *t, LLVMValueRef k, int j, int c, int end, const LLVMValueRef *b, LLVMValueRef *acc)
{
    int lanes = thin_looked_up(t) / thin_table_vectors(t);
    for (int r = 0; r < t->rows; r++) {
        LLVMValueRef at = thin_a_at(t, r, gen_iadd(t->g, k, gen_int(t->g, j * lanes)));
        LLVMValueRef a = gen_load(t->g, t->as, lanes, at);
        LLVMSetVolatile(a, is_ordered(t));
        for (int n = c; n < end; n++) {
            LLVMValueRef *to = &acc[n * t->rows + r];
            *to = thin_multiply_add(t, *to, a, b[n]);
        }
    }
}

/* One vector of all columns after the other. */
static void step_of_words(
    Thin *t, LLVMValueRef k, LLVMValueRef column, int columns, const Table *table, LLVMValueRef *acc)
{
    Gen *g = t->g;
    int n = thin_table_vectors(t), lanes = thin_looked_up(t) / n;
    LLVMTypeRef word = n == 4 ? g->i32 : g->i16;
    LLVMValueRef x[MAX_SUMS], b[MAX_SUMS];
    for (int c = 0; c < columns; c++)
        x[c] = LLVMBuildBitCast(
            g->b, bits_of(t, k, gen_iadd(g, column, gen_int(g, c))), gen_vec(word, lanes), "");
    for (int j = 0; j < n; j++) {
        unsigned by = (unsigned)(8 * j + t->shift);
        LLVMValueRef shift = gen_splat(g, LLVMConstInt(word, by, false), lanes);
        for (int c = 0; c < columns; c++)
            b[c] = thin_look_up(t, &table[c], by ? LLVMBuildLShr(g->b, x[c], shift, "") : x[c]);
        add_vector(t, k, j, 0, columns, b, acc);
    }
}

/* The four vectors of elements whose upper two bytes these are: words in pairs, of which a shift and a mask
 * make two vectors. Shuffles could as well, but all of them wait for the same units. */
static void words_apart(Thin *t, LLVMValueRef low, LLVMValueRef high, LLVMValueRef *to)
{
    Gen *g = t->g;
    LLVMTypeRef type = gen_vec(g->i32, t->lanes);
    LLVMValueRef half = gen_splat(g, LLVMConstInt(g->i32, 16, false), t->lanes),
                 upper = gen_splat(g, LLVMConstInt(g->i32, 0xffff0000, false), t->lanes);
    for (int k = 0; k < 2; k++) {
        LLVMValueRef words = LLVMBuildBitCast(g->b, thin_interleave(g, low, high, 1, k), type, "");
        to[2 * k] = LLVMBuildBitCast(g->b, LLVMBuildShl(g->b, words, half, ""), t->vec, "");
        to[2 * k + 1] = LLVMBuildBitCast(g->b, LLVMBuildAnd(g->b, words, upper, ""), t->vec, "");
    }
}

/* The four vectors of elements whose lower and upper bytes these are, through memory: from there one
 * instruction widens eight of them, for which LLVM must not see that they were stored just now. */
static void widen_words(Thin *t, LLVMValueRef low, LLVMValueRef high, LLVMValueRef *to)
{
    static const char same[] = "=r,0";
    Gen *g = t->g;
    LLVMTypeRef f = LLVMFunctionType(g->ptr, &g->ptr, 1, false), bytes = gen_vec(g->i8, 2 * TABLE);
    LLVMValueRef at = gen_alloca(g, LLVMArrayType2(bytes, 2), "words");
    LLVMValueRef nothing =
        LLVMGetInlineAsm(f, "", 0, same, sizeof same - 1, false, false, LLVMInlineAsmDialectATT, false);
    for (int k = 0; k < 2; k++)
        LLVMBuildStore(g->b, thin_interleave(g, low, high, 1, k), gen_ptr(g, at, gen_int(g, 2 * TABLE * k)));
    LLVMValueRef from = LLVMBuildCall2(g->b, f, nothing, &at, 1, "");
    for (int j = 0; j < 4; j++)
        to[j] = to_f32(g, DT_F16, gen_load(g, DT_F16, t->lanes, gen_ptr(g, from, gen_int(g, TABLE * j))));
}

/* The four vectors of 32 elements. The shuffle of bytes makes zero of an index with its highest bit. */
static void look_up_bytes(Thin *t, const Table *table, LLVMValueRef bits, LLVMValueRef *to)
{
    Gen *g = t->g;
    int n = thin_looked_up(t);
    LLVMValueRef by[4], pair[4], low = gen_splat(g, LLVMConstInt(g->i8, TABLE - 1, false), n),
                                 shift = gen_splat(g, LLVMConstInt(g->i8, (unsigned)t->shift, false), n);
    LLVMValueRef index = LLVMBuildAnd(g->b, t->shift ? LLVMBuildLShr(g->b, bits, shift, "") : bits, low, "");
    for (int k = 0; k < 4; k++) {
        LLVMValueRef v[] = { table->part[k], index };
        by[k] = v[0] ? gen_intrinsic(g, "llvm.x86.avx2.pshuf.b", NULL, 0, v, 2)
                     : LLVMConstNull(gen_vec(g->i8, n));
    }
    if (is_widened(t)) {
        widen_words(t, by[0], by[1], to);
        return;
    }
    if (zero_bytes(t->from) == 2) {
        words_apart(t, by[2], by[3], to);
        return;
    }
    for (int k = 0; k < 4; k++) pair[k] = thin_interleave(g, by[k / 2 * 2], by[k / 2 * 2 + 1], 1, k % 2);
    for (int k = 0; k < 4; k++)
        to[k] =
            LLVMBuildBitCast(g->b, thin_interleave(g, pair[k / 2], pair[2 + k / 2], 2, k % 2), t->vec, "");
}

/* All vectors of one column after the other: the bytes of one fill the registers. */
static void step_of_bytes(
    Thin *t, LLVMValueRef k, LLVMValueRef column, int columns, const Table *table, LLVMValueRef *acc)
{
    LLVMValueRef v[4], b[MAX_SUMS];
    for (int c = 0; c < columns; c++) {
        look_up_bytes(t, &table[c], bits_of(t, k, gen_iadd(t->g, column, gen_int(t->g, c))), v);
        for (int j = 0; j < 4; j++) {
            b[c] = v[j];
            add_vector(t, k, j, c, c + 1, b, acc);
        }
    }
}

/* Byte j of each word of a register is moved to its end, so that a vector of words is the indices of as many
 * elements. */
static void computed_step(Thin *t, LLVMValueRef k, LLVMValueRef column, int columns, LLVMValueRef *acc)
{
    Gen *g = t->g;
    LLVMTypeRef words = gen_vec(g->i32, t->lanes), bytes = gen_type(g, t->index->type->dtype, t->lanes);
    LLVMValueRef b[MAX_SUMS], low = gen_splat(g, LLVMConstInt(g->i32, TABLE - 1, false), t->lanes);
    for (int c = 0; c < columns; c++) {
        LLVMValueRef at = gen_iadd(g, column, gen_int(g, c));
        LLVMValueRef x = LLVMBuildBitCast(g->b, bits_of(t, k, at), words, "");
        for (int j = 0; j < 4; j++) {
            Eval e;
            LLVMValueRef by =
                gen_splat(g, LLVMConstInt(g->i32, (unsigned)(8 * j + t->shift), false), t->lanes);
            LLVMValueRef index = LLVMBuildAnd(g->b, LLVMBuildLShr(g->b, x, by, ""), low, "");
            LLVMValueRef coord[TILE_MAX_RANK] = { at, gen_iadd(g, k, gen_int(g, j)) };
            eval_init(&e, g, t->lanes);
            eval_assume(&e, t->index, coord, 1, LLVMBuildTrunc(g->b, index, bytes, ""));
            b[c] = nest_eval(&e, t->b, coord, 1);
            add_vector(t, k, j, c, c + 1, b, acc);
        }
    }
}

void thin_table_step(
    Thin *t, LLVMValueRef k, LLVMValueRef column, int columns, const Table *table, LLVMValueRef *acc)
{
    if (t->g->target->avx512) step_of_words(t, k, column, columns, table, acc);
    else if (is_computed(t)) computed_step(t, k, column, columns, acc);
    else step_of_bytes(t, k, column, columns, table, acc);
}
