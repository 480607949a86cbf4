/* number.c: see number.h. A Decimal is shifted by powers of two, as in the "simple decimal conversion" of
 * Go's strconv. 800 digits hold every double exactly (767 are needed); a flag says that more were read. */
#include "ir/support/number.h"
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { SHIFT_MAX = 59, HEADROOM = 19, MANTISSA = 52, BIAS = 1023 };

static void trim(Decimal *d)
{
    while (d->n && !d->digit[d->n - 1]) d->n--;
    if (!d->n) d->point = 0;
}

/* Divides by 2^by. What does not fit into the digits is remembered as `truncated`. */
static void shift_right(Decimal *d, int by)
{
    int read = 0, write = 0;
    uint64_t rest = 0;
    for (; !(rest >> by); read++) {
        if (read >= d->n && !rest) {
            d->n = d->point = 0;
            return;
        }
        rest = 10 * rest + (read < d->n ? d->digit[read] : 0u);
    }
    d->point -= read - 1;
    uint64_t mask = (1ull << by) - 1;
    for (; read < d->n || rest; read++) {
        unsigned char digit = (unsigned char)(rest >> by);
        if (write < DECIMAL_MAX) d->digit[write++] = digit;
        else if (digit) d->truncated = true;
        rest = 10 * (rest & mask) + (read < d->n ? d->digit[read] : 0u);
    }
    d->n = write;
    trim(d);
}

/* Multiplies by 2^by. */
static void shift_left(Decimal *d, int by)
{
    unsigned char out[DECIMAL_MAX + HEADROOM];
    int at = DECIMAL_MAX + HEADROOM;
    uint64_t carry = 0;
    for (int r = d->n - 1; r >= 0; r--) {
        carry += (uint64_t)d->digit[r] << by;
        out[--at] = (unsigned char)(carry % 10);
        carry /= 10;
    }
    for (; carry; carry /= 10) out[--at] = (unsigned char)(carry % 10);
    int n = DECIMAL_MAX + HEADROOM - at;
    d->point += n - d->n;
    d->n = n < DECIMAL_MAX ? n : DECIMAL_MAX;
    for (int k = d->n; k < n; k++)
        if (out[at + k]) d->truncated = true;
    memcpy(d->digit, out + at, (size_t)d->n);
    trim(d);
}

static void shift(Decimal *d, int by)
{
    for (int k = by; d->n && k > 0; k -= SHIFT_MAX) shift_left(d, k < SHIFT_MAX ? k : SHIFT_MAX);
    for (int k = -by; d->n && k > 0; k -= SHIFT_MAX) shift_right(d, k < SHIFT_MAX ? k : SHIFT_MAX);
}

/* To nearest, ties to even: whether the digits behind the first n add one in the last place. */
static bool rounds_up(const Decimal *d, int n)
{
    if (n < 0 || n >= d->n) return false;
    if (d->digit[n] == 5 && n + 1 == d->n && !d->truncated) return n > 0 && d->digit[n - 1] % 2;
    return d->digit[n] >= 5;
}

void decimal_round(Decimal *d, int n)
{
    if (n >= d->n) return;
    bool up = rounds_up(d, n);
    d->n = n > 0 ? n : 0;
    d->truncated = false;
    if (up) {
        while (d->n && d->digit[d->n - 1] == 9) d->n--;
        if (d->n) d->digit[d->n - 1]++;
        else {
            d->digit[d->n++] = 1;
            d->point++;
        }
    }
    trim(d);
}

void decimal_of(double x, Decimal *d)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> MANTISSA & 0x7ff);
    uint64_t m = bits & ((1ull << MANTISSA) - 1);
    unsigned char digits[20];
    int n = 0;
    if (e) m |= 1ull << MANTISSA;
    else e = 1;
    for (; m; m /= 10) digits[n++] = (unsigned char)(m % 10);
    *d = (Decimal){ .n = n, .point = n };
    for (int i = 0; i < n; i++) d->digit[i] = digits[n - 1 - i];
    trim(d);
    shift(d, e - BIAS - MANTISSA);
}

/* The integer part, rounded; at most 2^53 here. */
static uint64_t rounded_integer(const Decimal *d)
{
    uint64_t v = 0;
    for (int i = 0; i < d->point; i++) v = 10 * v + (i < d->n ? d->digit[i] : 0u);
    return v + rounds_up(d, d->point);
}

static double from_parts(uint64_t mantissa, int exponent)
{
    uint64_t bits = mantissa & ((1ull << MANTISSA) - 1);
    if (mantissa >> MANTISSA) bits |= (uint64_t)(exponent + BIAS) << MANTISSA;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double decimal_value(Decimal *d)
{
    int e = 0;
    if (!d->n || d->point < -330) return 0;
    if (d->point > 310) return INFINITY;
    while (d->point > 0) {
        int by = d->point < 18 ? (10 * d->point + 2) / 3 : SHIFT_MAX;
        shift(d, -by);
        e += by;
    }
    while (d->point < 0 || d->digit[0] < 5) {
        int by = d->point == 0 ? 1 : d->point > -18 ? -3 * d->point : SHIFT_MAX;
        shift(d, by);
        e -= by;
    }
    e--; /* d is in [1/2, 1): the value is 2d * 2^e */
    if (e < 1 - BIAS) {
        shift(d, e - (1 - BIAS));
        e = 1 - BIAS;
    }
    if (e > BIAS) return INFINITY;
    shift(d, MANTISSA + 1);
    uint64_t m = rounded_integer(d);
    if (m >> (MANTISSA + 1)) {
        m >>= 1;
        e++;
    }
    return e > BIAS ? INFINITY : from_parts(m, e);
}

/* --- reading ----------------------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static int hex_digit(char c)
{ return is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; }

/* The word in either case; the characters that it has, or 0. */
static size_t word(const char *s, const char *name)
{
    size_t n = 0;
    while (name[n] && (s[n] | 32) == name[n]) n++;
    return name[n] ? 0 : n;
}

/* An exponent behind its letter; without digits nothing is read. Large ones are cut. */
static const char *read_exponent(const char *s, int *out)
{
    const char *p = s + 1;
    bool minus = *p == '-';
    int e = 0;
    if (*p == '-' || *p == '+') p++;
    if (!is_digit(*p)) return s;
    for (; is_digit(*p); p++)
        if (e < 9999) e = 10 * e + (*p - '0');
    *out = minus ? -e : e;
    return p;
}

static const char *read_decimal(const char *s, double *out)
{
    Decimal d = { 0 };
    bool point = false, any = false;
    int e = 0;
    for (; is_digit(*s) || (*s == '.' && !point); s++) {
        if (*s == '.') {
            point = true;
            continue;
        }
        any = true;
        if (!d.n && *s == '0') {
            if (point && d.point > INT_MIN / 2) d.point--;
            continue;
        }
        if (!point && d.point < INT_MAX / 2) d.point++;
        if (d.n < DECIMAL_MAX) d.digit[d.n++] = (unsigned char)(*s - '0');
        else if (*s != '0') d.truncated = true;
    }
    if (!any) return NULL;
    if ((*s | 32) == 'e') s = read_exponent(s, &e);
    if (d.n) d.point += e;
    trim(&d);
    *out = decimal_value(&d);
    return s;
}

/* m * 2^e, rounded to nearest, ties to even. */
static double binary_value(uint64_t m, int e)
{
    if (!m) return 0;
    int top = 63 - __builtin_clzll(m) + e, least = 1 - BIAS; /* the value is in [2^top, 2^(top + 1)) */
    int at = top < least ? least : top, drop = at - e - MANTISSA;
    if (top > BIAS) return INFINITY;
    if (drop > 63) return 0;
    if (drop > 0) {
        uint64_t half = 1ull << (drop - 1), rest = m & (2 * half - 1);
        m = drop > 62 ? 0 : m >> drop;
        if (rest > half || (rest == half && m & 1)) m++;
    } else m <<= -drop;
    if (m >> (MANTISSA + 1)) {
        m >>= 1;
        at++;
    }
    return at > BIAS ? INFINITY : from_parts(m, at);
}

/* Hexadecimal digits behind `0x`. 60 bits are kept; a digit behind them sets the last one: ties stay apart.
 */
static const char *read_hex(const char *s, double *out)
{
    uint64_t m = 0;
    bool point = false, any = false;
    int e = 0, exponent = 0;
    for (; hex_digit(*s) >= 0 || (*s == '.' && !point); s++) {
        if (*s == '.') {
            point = true;
            continue;
        }
        int h = hex_digit(*s);
        any = true;
        if (m >> 56) {
            m |= h != 0;
            e += point || e > INT_MAX / 2 ? 0 : 4;
        } else {
            m = 16 * m + (unsigned)h;
            e -= point ? 4 : 0;
        }
    }
    if (!any) return NULL;
    if ((*s | 32) == 'p') s = read_exponent(s, &exponent);
    e += exponent;
    *out = binary_value(m, e);
    return s;
}

double number_read(const char *text, char **end)
{
    const char *s = text, *p;
    bool minus = *s == '-';
    double x = 0;
    size_t n;
    if (*s == '-' || *s == '+') s++;
    if ((n = word(s, "infinity")) || (n = word(s, "inf"))) {
        x = INFINITY;
        p = s + n;
    } else if ((n = word(s, "nan"))) {
        x = NAN;
        p = s + n;
    } else if (s[0] == '0' && (s[1] | 32) == 'x' && (p = read_hex(s + 2, &x))) {
    } else p = read_decimal(s, &x);
    *end = (char *)(p ? p : text);
    return minus && p ? -x : x;
}
