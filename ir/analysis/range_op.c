/* range_op.c: ranges of the results of single operations, of those of their operands. See range.h. */
#include "ir/analysis/range_impl.h"
#include "ir/interp/scalar.h"

RangeInfo range_of_dtype(DType d)
{
    if (d == DT_BOOL) return (RangeInfo){ 0, 1, 1 };
    if (!dtype_is_int(d) || dtype_bits(d) == 64) return all;
    return (RangeInfo){ scalar_lowest(d).i, scalar_highest(d).i, 1 };
}

bool range_fits(RangeInfo r, DType d)
{
    RangeInfo t = range_of_dtype(d);
    if (d == DT_U64) t.lo = 0;
    return r.lo >= t.lo && r.hi <= t.hi;
}

int64_t range_gcd(int64_t a, int64_t b)
{
    if (a == INT64_MIN || b == INT64_MIN) return 1;
    if (a < 0) a = -a;
    if (b < 0) b = -b;
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

static int64_t power_of_two_in(int64_t div) { return div == 0 ? 1ll << 62 : div & -div; }

RangeInfo range_in_dtype(DType d, Wide lo, Wide hi, int64_t div)
{
    RangeInfo t = range_of_dtype(d);
    if (d == DT_U64) t.lo = 0;
    if (lo == 0 && hi == 0) return constant(0);
    if (lo >= t.lo && hi <= t.hi) return (RangeInfo){ (int64_t)lo, (int64_t)hi, div ? div : 1 };
    t = range_of_dtype(d);
    t.div = power_of_two_in(div);
    int bits = dtype_bits(d) > 62 ? 62 : dtype_bits(d);
    if (t.div > 1ll << bits) t.div = 1ll << bits;
    return t;
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t r;
    if (!__builtin_mul_overflow(a, b, &r)) return r;
    return a > b ? a : b;
}

static RangeInfo mul(DType d, RangeInfo a, RangeInfo b)
{
    Wide p[4] = { (Wide)a.lo * b.lo, (Wide)a.lo * b.hi, (Wide)a.hi * b.lo, (Wide)a.hi * b.hi };
    Wide lo = wide_min(wide_min(p[0], p[1]), wide_min(p[2], p[3])),
         hi = wide_max(wide_max(p[0], p[1]), wide_max(p[2], p[3]));
    return range_in_dtype(d, lo, hi, times(a.div, b.div));
}

static RangeInfo quotient(DType d, RangeInfo a, RangeInfo b, bool up)
{
    int64_t div = b.lo == b.hi && b.lo > 0 && a.div % b.lo == 0 ? a.div / b.lo : 1;
    bool by_zero = b.lo <= 0 && b.hi >= 0;
    if (b.lo < 0 || (up && a.lo < 0)) {
        Wide most = wide_max(-(Wide)a.lo, a.hi);
        most = wide_max(most, 0) + up;
        return range_in_dtype(d, -most, most, 1);
    }
    if (b.hi == 0) return constant(0);
    Wide least = b.lo > 0 ? b.lo : 1;
    Wide lo = a.lo >= 0 ? (a.lo + (up ? (Wide)b.hi - 1 : 0)) / b.hi : a.lo / least;
    Wide hi = a.hi >= 0 ? (a.hi + (up ? least - 1 : 0)) / least : a.hi / (Wide)b.hi;
    if (by_zero) {
        lo = wide_min(lo, 0);
        hi = wide_max(hi, 0);
    }
    return range_in_dtype(d, lo, hi, div);
}

static RangeInfo remainder_of(RangeInfo a, RangeInfo b)
{
    if (b.lo == b.hi && b.lo > 0 && a.div % b.lo == 0) return constant(0);
    Wide most = wide_max(wide_max(-(Wide)b.lo, b.hi) - 1, 0);
    Wide lo = a.lo < 0 ? wide_max(a.lo, -most) : 0, hi = a.hi > 0 ? wide_min(a.hi, most) : 0;
    /* 0 <= a < b: unchanged */
    if (a.lo >= 0 && b.lo > 0 && a.hi < b.lo) return a;
    return (RangeInfo){ (int64_t)lo, (int64_t)hi, range_gcd(a.div, b.div) ? range_gcd(a.div, b.div) : 1 };
}

static RangeInfo shifted(Op op, DType d, RangeInfo a, RangeInfo b)
{
    int bits = dtype_bits(d);
    if (b.lo != b.hi || b.lo < 0 || b.lo >= bits || b.lo > 61) {
        if (op == OP_SHR && a.lo >= 0) return (RangeInfo){ 0, a.hi, 1 };
        return range_of_dtype(d);
    }
    int64_t factor = 1ll << b.lo;
    if (op == OP_SHL) return mul(d, a, constant(factor));
    if (d == DT_U64 && a.lo < 0) return (RangeInfo){ 0, b.lo ? INT64_MAX >> (b.lo - 1) : INT64_MAX, 1 };
    return range_in_dtype(d, a.lo >> b.lo, a.hi >> b.lo, a.div % factor == 0 ? a.div / factor : 1);
}

static RangeInfo bitwise(Op op, DType d, RangeInfo a, RangeInfo b)
{
    int64_t za = power_of_two_in(a.div), zb = power_of_two_in(b.div);
    if (op == OP_AND) {
        int64_t div = za > zb ? za : zb;
        if (a.lo >= 0 && b.lo >= 0) return (RangeInfo){ 0, a.hi < b.hi ? a.hi : b.hi, div };
        if (a.lo >= 0 || b.lo >= 0) return (RangeInfo){ 0, a.lo >= 0 ? a.hi : b.hi, div };
    } else if (a.lo >= 0 && b.lo >= 0) {
        uint64_t most = (uint64_t)(a.hi | b.hi);
        int n = most ? 64 - __builtin_clzll(most) : 0;
        return (RangeInfo){ 0, n >= 63 ? INT64_MAX : (1ll << n) - 1, za < zb ? za : zb };
    }
    RangeInfo r = range_of_dtype(d);
    r.div = 1;
    return r;
}

/* Of integer arithmetic. */
static RangeInfo range_arithmetic(Op op, DType d, const RangeInfo *v)
{
    RangeInfo a = v[0];
    switch (op_as_arithmetic(op)) {
    case ARITHMETIC_NEG: return range_in_dtype(d, -(Wide)a.hi, -(Wide)a.lo, a.div);
    case ARITHMETIC_ABS: {
        Wide most = wide_max(-(Wide)a.lo, a.hi), least = a.lo > 0 ? a.lo : a.hi < 0 ? -(Wide)a.hi : 0;
        return range_in_dtype(d, least, most, a.div);
    }
    case ARITHMETIC_ADD:
        return range_in_dtype(d, (Wide)a.lo + v[1].lo, (Wide)a.hi + v[1].hi, range_gcd(a.div, v[1].div));
    case ARITHMETIC_SUB:
        return range_in_dtype(d, (Wide)a.lo - v[1].hi, (Wide)a.hi - v[1].lo, range_gcd(a.div, v[1].div));
    case ARITHMETIC_MUL: return mul(d, a, v[1]);
    case ARITHMETIC_FMA: {
        RangeInfo p = mul(d, a, v[1]);
        return range_in_dtype(d, (Wide)p.lo + v[2].lo, (Wide)p.hi + v[2].hi, range_gcd(p.div, v[2].div));
    }
    case ARITHMETIC_DIV: return quotient(d, a, v[1], false);
    case ARITHMETIC_CDIV: return quotient(d, a, v[1], true);
    case ARITHMETIC_REM: return remainder_of(a, v[1]);
    case ARITHMETIC_MIN:
    case ARITHMETIC_MINNUM:
        return (RangeInfo){ a.lo < v[1].lo ? a.lo : v[1].lo, a.hi < v[1].hi ? a.hi : v[1].hi,
            range_gcd(a.div, v[1].div) };
    case ARITHMETIC_MAX:
    case ARITHMETIC_MAXNUM:
        return (RangeInfo){ a.lo > v[1].lo ? a.lo : v[1].lo, a.hi > v[1].hi ? a.hi : v[1].hi,
            range_gcd(a.div, v[1].div) };
    case ARITHMETIC_CLAMP: {
        RangeInfo low[2] = { a, v[1] }, high[2] = { range_op(OP_MAX, d, low), v[2] };
        return range_op(OP_MIN, d, high);
    }
    }
    return range_of_dtype(d);
}

static RangeInfo range_bits(Op op, DType d, const RangeInfo *v)
{
    RangeInfo a = v[0];
    switch (op_as_bits(op)) {
    case BITS_AND:
    case BITS_OR:
    case BITS_XOR: return bitwise(op, d, a, v[1]);
    case BITS_NOT:
        return d == DT_BOOL || !dtype_is_signed(d) ? range_of_dtype(d) : (RangeInfo){ ~a.hi, ~a.lo, 1 };
    case BITS_SHL:
    case BITS_SHR: return shifted(op, d, a, v[1]);
    }
    return range_of_dtype(d);
}

RangeInfo range_op(Op op, DType d, const RangeInfo *v)
{
    RangeInfo a = v[0];
    bool odd = d == DT_U64 && (a.lo < 0 || (op_info[op].n_operands > 1 && v[1].lo < 0));
    if (op_family(op) == OPS_COMPARE) return range_of_dtype(DT_BOOL);
    if (op == OP_WHERE) return join(v[1], v[2]);
    if (op == OP_CAST) {
        if (range_fits(a, d)) return a;
        return range_in_dtype(d, (Wide)1 << 100, (Wide)1 << 100, a.div);
    }
    if (!dtype_is_int(d) && d != DT_BOOL) return all;
    if (odd && op != OP_AND && op != OP_SHR) return all;
    if (op_family(op) == OPS_ARITHMETIC) return range_arithmetic(op, d, v);
    if (op_family(op) == OPS_BITS) return range_bits(op, d, v);
    return range_of_dtype(d);
}
