/* unit.c: which unit of the processor computes a product: the fastest by units.def of those that the
 * processor has and that take the product's types. */
#include "backends/cpu/product/mma.h"

enum { CPU_ANY = 0 };

/* In the order of units.def, which decides between equals. */
static const struct {
    MmaKind kind;
    const char *name;
    unsigned feature;
    int rate;
} units[] = {
#define UNIT(KIND, NAME, FEATURE, PER_CYCLE) \
    { \
        KIND, NAME \
        , FEATURE, PER_CYCLE \
    } \
    ,
#define RATE(PROCESSOR, KIND, PER_CYCLE)
#include "backends/cpu/product/units.def"
#undef UNIT
#undef RATE
};
enum { N_UNITS = sizeof units / sizeof *units };

static const struct {
    const char *processor;
    MmaKind kind;
    int rate;
} rates[] = {
#define UNIT(KIND, NAME, FEATURE, PER_CYCLE)
#define RATE(PROCESSOR, KIND, PER_CYCLE) { PROCESSOR, KIND, PER_CYCLE },
#include "backends/cpu/product/units.def"
#undef UNIT
#undef RATE
};

static bool is_8_bits(DType d) { return d == DT_I8 || d == DT_U8; }

/* Whether the unit computes products of these types, on a processor that has the unit's feature. */
static bool takes(const CpuTarget *t, MmaKind k, DType a, DType b)
{
    switch (k) {
    case MMA_AMX_I8:
    case MMA_I16_PAIRS: return is_8_bits(a);
    case MMA_I8_QUADS: return is_8_bits(a) && (!t->arm || a == b || t->has & CPU_MIXED_DOT);
    case MMA_AMX_BF16:
    case MMA_BF16_PAIRS: return a == DT_BF16 && b == DT_BF16;
    case MMA_AMX_F16: return a == DT_F16 && b == DT_F16;
    case MMA_F32: return !is_8_bits(a) && a != DT_F64;
    case MMA_F64: return a == DT_F64;
    case MMA_I8_PAIRS:
    case MMA_I8_THIN: return false; /* thin.c takes it itself */
    }
    return false;
}

/* The part of `n` that is not padding in whole pieces. */
static double used(int64_t n, int64_t piece) { return (double)n / (double)((n + piece - 1) / piece * piece); }

/* The rate of units.def: the processor's own, if it has a row there. */
static int listed_rate(const CpuTarget *t, size_t u)
{
    int rate = units[u].rate;
    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++)
        if (rates[k].kind == units[u].kind && !strcmp(rates[k].processor, t->cpu)) rate = rates[k].rate;
    return rate;
}

/* The multiply-adds a cycle of unit number `u` where nothing is padding. */
static double full_rate(const CpuTarget *t, size_t u)
{ return mma_is_amx(units[u].kind) ? listed_rate(t, u) : listed_rate(t, u) * t->vector_bytes / 64.0; }

/* The rates of UNIT are of two vectors a cycle. */
double mma_starts(const CpuTarget *t, MmaKind k)
{
    for (size_t u = 0; u < N_UNITS; u++)
        if (units[u].kind == k) return 2.0 * listed_rate(t, u) / units[u].rate;
    return 2;
}

/* The multiply-adds a cycle that it reaches on the product `i`. */
static double rate_of(const CpuTarget *t, size_t u, const Instr *i)
{
    const Type *a = ir_operand(i, 0)->type, *b = ir_operand(i, 1)->type;
    double rate = full_rate(t, u);
    if (!mma_is_amx(units[u].kind)) return rate;
    int64_t deep = AMX_ROW_BYTES / dtype_bytes(a->dtype);
    return rate * used(a->shape[0], AMX_ROWS) * used(b->shape[1], AMX_ROWS) * used(a->shape[1], deep);
}

static bool has_unit_of(const CpuTarget *t, size_t u, DType a, DType b)
{ return (t->has & units[u].feature) == units[u].feature && takes(t, units[u].kind, a, b); }

/* Packing an operand takes longer than vectors take to multiply it by so few rows or columns of the other. */
static bool packs_for_few(const Instr *i)
{
    enum { FEW = 4 };
    return ir_operand(i, 0)->type->shape[0] <= FEW || ir_operand(i, 1)->type->shape[1] <= FEW;
}

/* Products of few rows or columns multiply an operand where it is loaded (thin.c), without packing groups of
 * four along K. */
static bool has_unit(const CpuTarget *t, size_t u, const Instr *i)
{
    const Type *a = ir_operand(i, 0)->type, *b = ir_operand(i, 1)->type;
    if (units[u].kind == MMA_I8_QUADS && !t->arm &&
        (a->shape[0] <= MOST_THIN_ROWS || b->shape[1] <= MOST_THIN_ROWS))
        return false;
    if (mma_is_amx(units[u].kind) && packs_for_few(i)) return false;
    return has_unit_of(t, u, a->dtype, b->dtype);
}

/* Of equal rates, the unit that stands first; but one of vectors before AMX, whose operands are packed also
 * for a single row. */
static size_t choose(const CpuTarget *t, const Instr *i)
{
    size_t best = N_UNITS;
    for (size_t u = 0; u < N_UNITS; u++) {
        if (!has_unit(t, u, i)) continue;
        double more = best == N_UNITS ? 1 : rate_of(t, u, i) - rate_of(t, best, i);
        if (more > 0 || (more == 0 && mma_is_amx(units[best].kind))) best = u;
    }
    return best;
}

double cpu_product_rate(const CpuTarget *t, DType d)
{
    double best = 0;
    for (size_t u = 0; u < N_UNITS; u++)
        if (has_unit_of(t, u, d, d) && full_rate(t, u) > best) best = full_rate(t, u);
    return best;
}

MmaKind mma_kind(const CpuTarget *t, const Instr *i) { return units[choose(t, i)].kind; }

void mma_unit_print(const CpuTarget *t, const Instr *i, Text *out)
{
    size_t best = choose(t, i);
    bool first = true;
    text_printf(out, "by %s: %.1f multiply-adds a cycle", units[best].name, rate_of(t, best, i));
    for (size_t u = 0; u < N_UNITS; u++) {
        if (u == best || !has_unit(t, u, i)) continue;
        text_printf(out, "%s %s %.1f", first ? ";" : ",", units[u].name, rate_of(t, u, i));
        first = false;
    }
}
