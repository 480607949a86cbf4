/* format.c: see format.h. */
#include "ir/support/format.h"
#include "ir/support/number.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The destination of the text: a buffer of `size` bytes, or a file. */
typedef struct Out {
    char *data;
    size_t size, len;
    FILE *file;
} Out;

typedef struct Spec {
    bool left, plus, space, alternate, zero;
    int width, precision; /* precision < 0: none is given */
    char conversion;
} Spec;

static void put(Out *o, const char *s, size_t n)
{
    if (o->file) fwrite(s, 1, n, o->file);
    else if (o->len < o->size) memcpy(o->data + o->len, s, n < o->size - o->len ? n : o->size - o->len);
    o->len += n;
}

static void put_many(Out *o, char c, int n)
{
    for (; n > 0; n--) put(o, &c, 1);
}

enum { DIGITS = 24 }; /* the most digits of a 64-bit integer, and room */

/* Writes the digits of v so that they end at `end`; returns how many. None for zero. */
static int write_digits(char *end, uint64_t v, unsigned base, const char *names)
{
    char *p = end;
    if (base == 10) /* The compiler divides by a constant faster. */
        for (; v; v /= 10) *--p = (char)('0' + v % 10);
    else
        for (; v; v /= base) *--p = names[v % base];
    return (int)(end - p);
}

/* The prefix (sign, 0x), `zeros` zeros, then the body, in the field's width. */
static void put_field(
    Out *o, const Spec *s, const char *prefix, int zeros, const char *body, int n, bool may_zero)
{
    int used = (int)strlen(prefix) + zeros + n, pad = s->width > used ? s->width - used : 0;
    bool fill = s->zero && may_zero && !s->left;
    if (!s->left && !fill) put_many(o, ' ', pad);
    put(o, prefix, strlen(prefix));
    put_many(o, '0', zeros + (fill ? pad : 0));
    put(o, body, (size_t)n);
    if (s->left) put_many(o, ' ', pad);
}

static const char *sign_text(const Spec *s, bool minus)
{ return minus ? "-" : s->plus ? "+" : s->space ? " " : ""; }

static void put_integer(Out *o, const Spec *s, uint64_t v, bool minus)
{
    char digits[DIGITS], c = s->conversion;
    unsigned base = c == 'x' || c == 'X' || c == 'p' ? 16 : c == 'o' ? 8 : 10;
    const char *names = c == 'X' ? "0123456789ABCDEF" : "0123456789abcdef", *prefix = "";
    if (c == 'd' || c == 'i') prefix = sign_text(s, minus);
    else if (c == 'p' || (base == 16 && s->alternate && v)) prefix = c == 'X' ? "0X" : "0x";
    int n = write_digits(digits + DIGITS, v, base, names), least = s->precision < 0 ? 1 : s->precision;
    if (base == 8 && s->alternate && least <= n) least = n + 1;
    put_field(o, s, prefix, least > n ? least - n : 0, digits + DIGITS - n, n, s->precision < 0);
}

/* --- floating point ---------------------------------------------------------------------------------- */

/* A digit behind or before the point, given by its power of ten, relative to the first digit's. */
static char digit_at(const Decimal *d, int i) { return (char)('0' + (i >= 0 && i < d->n ? d->digit[i] : 0)); }

/* A number's parts: the digits before the point, the first digit behind it and how many, and the exponent. */
typedef struct Real {
    char whole[320], exponent[8];
    int n_whole, first, n_fraction, n_exponent;
} Real;

static void fixed(Real *r, const Decimal *d, int precision)
{
    if (d->point <= 0) r->whole[r->n_whole++] = '0';
    for (int i = 0; i < d->point; i++) r->whole[r->n_whole++] = digit_at(d, i);
    r->first = d->n ? d->point : 0;
    r->n_fraction = precision;
}

static void scientific(Real *r, const Decimal *d, int precision, char letter)
{
    int e = d->n ? d->point - 1 : 0, n = 0, at = e < 0 ? -e : e;
    r->whole[r->n_whole++] = digit_at(d, 0);
    r->first = 1;
    r->n_fraction = precision;
    r->exponent[n++] = letter;
    r->exponent[n++] = e < 0 ? '-' : '+';
    if (at > 99) r->exponent[n++] = (char)('0' + at / 100);
    r->exponent[n++] = (char)('0' + at / 10 % 10);
    r->exponent[n++] = (char)('0' + at % 10);
    r->n_exponent = n;
}

/* %g: `precision` digits in all, in the shorter of both forms, without zeros at the end unless `#` says so.
 */
static void general(Real *r, Decimal *d, const Spec *s, int precision, char letter)
{
    if (!precision) precision = 1;
    decimal_round(d, precision);
    int e = d->n ? d->point - 1 : 0;
    bool short_form = e >= -4 && e < precision;
    int fraction = short_form ? precision - 1 - e : precision - 1;
    int given = d->n - (short_form ? d->point : 1);
    if (!s->alternate && fraction > given) fraction = given > 0 ? given : 0;
    if (short_form) fixed(r, d, fraction);
    else scientific(r, d, fraction, letter);
}

static void put_real(Out *o, const Spec *s, const Decimal *d, const Real *r, bool minus)
{
    const char *sign = sign_text(s, minus);
    int point = r->n_fraction > 0 || s->alternate;
    int n = (int)strlen(sign) + r->n_whole + point + r->n_fraction + r->n_exponent;
    int pad = s->width > n ? s->width - n : 0;
    if (!s->left && !s->zero) put_many(o, ' ', pad);
    put(o, sign, strlen(sign));
    if (!s->left && s->zero) put_many(o, '0', pad);
    put(o, r->whole, (size_t)r->n_whole);
    if (point) put(o, ".", 1);
    for (int i = 0; i < r->n_fraction; i++) put_many(o, digit_at(d, r->first + i), 1);
    put(o, r->exponent, (size_t)r->n_exponent);
    if (s->left) put_many(o, ' ', pad);
}

/* %a: the mantissa's bits. A precision rounds to so many hexadecimal digits, ties to even. */
static void put_hex_real(Out *o, const Spec *s, double x, bool minus)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52 & 0x7ff), digits = 13;
    uint64_t m = (bits & 0xfffffffffffffull) | (e ? 1ull << 52 : 0);
    e = m ? (e ? e : 1) - 1023 : 0;
    if (s->precision < 0)
        while (digits && !(m >> (52 - 4 * digits) & 15)) digits--;
    else if (s->precision < 13) {
        int drop = 52 - 4 * s->precision;
        uint64_t half = 1ull << (drop - 1), rest = m & (2 * half - 1);
        m -= rest;
        if (rest > half || (rest == half && m >> drop & 1)) m += 2 * half;
    }
    int n = s->precision < 0 ? digits : s->precision, at = 0;
    char body[64], prefix[4];
    bool capital = s->conversion == 'A';
    const char *names = capital ? "0123456789ABCDEF" : "0123456789abcdef";
    at += format_text(body, sizeof body, "%d%s", (int)(m >> 52), n || s->alternate ? "." : "");
    for (int i = 0; i < n && i < 40; i++) body[at++] = names[i < 13 ? m >> (48 - 4 * i) & 15 : 0];
    at += format_text(body + at, sizeof body - (size_t)at, "%c%+d", capital ? 'P' : 'p', e);
    format_text(prefix, sizeof prefix, "%s0%c", sign_text(s, minus), capital ? 'X' : 'x');
    put_field(o, s, prefix, 0, body, at, true);
}

static void put_double(Out *o, const Spec *s, double x)
{
    bool minus = signbit(x), capital = s->conversion >= 'A' && s->conversion <= 'Z';
    int precision = s->precision < 0 ? 6 : s->precision;
    Decimal d;
    Real r = { .n_whole = 0 };
    if (isnan(x)) {
        put_field(o, s, sign_text(s, minus), 0, capital ? "NAN" : "nan", 3, false);
        return;
    }
    if (isinf(x)) {
        put_field(o, s, sign_text(s, minus), 0, capital ? "INF" : "inf", 3, false);
        return;
    }
    switch (s->conversion | 32) {
    case 'a': put_hex_real(o, s, x, minus); return;
    case 'f':
        decimal_of(x, &d);
        decimal_round(&d, d.point + precision);
        fixed(&r, &d, precision);
        break;
    case 'e':
        decimal_of(x, &d);
        decimal_round(&d, precision + 1);
        scientific(&r, &d, precision, capital ? 'E' : 'e');
        break;
    default:
        decimal_of(x, &d);
        general(&r, &d, s, precision, capital ? 'E' : 'e');
        break;
    }
    put_real(o, s, &d, &r, minus);
}

/* --- conversions ------------------------------------------------------------------------------------- */

typedef enum Length {
    LENGTH_INT,
    LENGTH_CHAR,
    LENGTH_SHORT,
    LENGTH_LONG,
    LENGTH_LLONG,
    LENGTH_SIZE,
    LENGTH_MAX,
    LENGTH_PTRDIFF
} Length;
typedef struct Arguments {
    va_list ap;
} Arguments; /* a va_list may be an array */

static int64_t signed_argument(Arguments *a, Length l)
{
    switch (l) {
    case LENGTH_INT: return va_arg(a->ap, int);
    case LENGTH_CHAR: return (signed char)va_arg(a->ap, int);
    case LENGTH_SHORT: return (short)va_arg(a->ap, int);
    case LENGTH_LONG: return va_arg(a->ap, long);
    case LENGTH_LLONG: return va_arg(a->ap, long long);
    case LENGTH_SIZE: return (int64_t)va_arg(a->ap, size_t);
    case LENGTH_MAX: return va_arg(a->ap, intmax_t);
    case LENGTH_PTRDIFF: return va_arg(a->ap, ptrdiff_t);
    }
    return 0;
}

static uint64_t unsigned_argument(Arguments *a, Length l)
{
    int64_t v = signed_argument(a, l);
    switch (l) {
    case LENGTH_INT: return (unsigned)v;
    case LENGTH_CHAR: return (unsigned char)v;
    case LENGTH_SHORT: return (unsigned short)v;
    case LENGTH_LONG: return (unsigned long)v;
    case LENGTH_LLONG:
    case LENGTH_SIZE:
    case LENGTH_MAX:
    case LENGTH_PTRDIFF: return (uint64_t)v;
    }
    return 0;
}

static Length read_length(const char **p)
{
    switch (*(*p)++) {
    case 'h':
        if (**p == 'h') {
            ++*p;
            return LENGTH_CHAR;
        }
        return LENGTH_SHORT;
    case 'l':
        if (**p == 'l') {
            ++*p;
            return LENGTH_LLONG;
        }
        return LENGTH_LONG;
    case 'z': return LENGTH_SIZE;
    case 'j': return LENGTH_MAX;
    case 't': return LENGTH_PTRDIFF;
    default: --*p; return LENGTH_INT;
    }
}

static int read_count(const char **p, Arguments *a)
{
    int n = 0;
    if (**p == '*') {
        ++*p;
        return va_arg(a->ap, int);
    }
    for (; **p >= '0' && **p <= '9'; ++*p) n = 10 * n + (**p - '0');
    return n;
}

static Spec read_spec(const char **p, Arguments *a)
{
    Spec s = { .precision = -1 };
    for (;; ++*p) {
        if (**p == '-') s.left = true;
        else if (**p == '+') s.plus = true;
        else if (**p == ' ') s.space = true;
        else if (**p == '#') s.alternate = true;
        else if (**p == '0') s.zero = true;
        else break;
    }
    s.width = read_count(p, a);
    if (s.width < 0) {
        s.left = true;
        s.width = -s.width;
    }
    if (**p == '.') {
        ++*p;
        s.precision = read_count(p, a);
    }
    return s;
}

static void put_string(Out *o, const Spec *s, const char *text)
{
    if (!text) text = "(null)";
    size_t n = s->precision < 0 ? strlen(text) : strnlen(text, (size_t)s->precision);
    put_field(o, s, "", 0, text, (int)n, false);
}

static void convert(Out *o, const char **p, Arguments *a)
{
    Spec s = read_spec(p, a);
    Length l = read_length(p);
    s.conversion = *(*p)++;
    switch (s.conversion) {
    case 'd':
    case 'i': {
        int64_t v = signed_argument(a, l);
        put_integer(o, &s, v < 0 ? -(uint64_t)v : (uint64_t)v, v < 0);
        return;
    }
    case 'u':
    case 'x':
    case 'X':
    case 'o': put_integer(o, &s, unsigned_argument(a, l), false); return;
    case 'p': put_integer(o, &s, (uintptr_t)va_arg(a->ap, void *), false); return;
    case 'c': {
        char c = (char)va_arg(a->ap, int);
        put_field(o, &s, "", 0, &c, 1, false);
        return;
    }
    case 's': put_string(o, &s, va_arg(a->ap, const char *)); return;
    case '%': put(o, "%", 1); return;
    case 'a':
    case 'A':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': put_double(o, &s, va_arg(a->ap, double)); return;
    default: __builtin_trap(); /* The C compiler checks formats, so no other conversion occurs. */
    }
}

/* %s, %d and %u without width and precision, which are nearly all conversions of a compiler. Whether *p is
 * one. */
static bool convert_plain(Out *o, const char **p, Arguments *a)
{
    char digits[DIGITS];
    if (**p == 's') {
        const char *text = va_arg(a->ap, const char *);
        if (!text) text = "(null)";
        put(o, text, strlen(text));
    } else if (**p == 'd' || **p == 'u') {
        int64_t v = **p == 'd' ? va_arg(a->ap, int) : (int64_t)va_arg(a->ap, unsigned);
        int n = v ? write_digits(digits + DIGITS, (uint64_t)(v < 0 ? -v : v), 10, NULL) : 0;
        if (!n) digits[DIGITS - ++n] = '0';
        if (v < 0) digits[DIGITS - ++n] = '-';
        put(o, digits + DIGITS - n, (size_t)n);
    } else return false;
    ++*p;
    return true;
}

static int format_out(Out *o, const char *fmt, va_list ap)
{
    Arguments a;
    va_copy(a.ap, ap);
    for (const char *p = fmt; *p;) {
        const char *begin = p;
        while (*p && *p != '%') p++;
        if (p > begin) put(o, begin, (size_t)(p - begin));
        if (*p) {
            p++;
            if (!convert_plain(o, &p, &a)) convert(o, &p, &a);
        }
    }
    va_end(a.ap);
    return (int)o->len;
}

int format_args(char *out, size_t size, const char *fmt, va_list ap)
{
    Out o = { .data = out, .size = size ? size - 1 : 0 };
    int n = format_out(&o, fmt, ap);
    if (size) out[o.len < o.size ? o.len : o.size] = 0;
    return n;
}

int format_text(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = format_args(out, size, fmt, ap);
    va_end(ap);
    return n;
}

int format_file_args(FILE *f, const char *fmt, va_list ap)
{
    Out o = { .file = f };
    return format_out(&o, fmt, ap);
}

int format_file(FILE *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = format_file_args(f, fmt, ap);
    va_end(ap);
    return n;
}
