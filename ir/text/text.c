/* text.c: exact numbers as text; see text.h. */
#include "ir/interp/scalar.h"
#include "ir/text/text.h"
#include <math.h>
#include <stdio.h>

static int hex_digit(char c)
{
    if (irtext_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* An exponent: sign and digits to the end of the text; values beyond +-99999 are cut there. */
static bool read_exponent(const char *s, const char *end, int *out)
{
    bool neg = false;
    if (s < end && (*s == '+' || *s == '-')) neg = *s++ == '-';
    if (s == end) return false;
    int e = 0;
    for (; s < end; s++) {
        if (!irtext_digit(*s)) return false;
        if (e < 99999) e = 10 * e + (*s - '0');
    }
    *out = neg ? -e : e;
    return true;
}

static bool read_hex(const char *s, const char *end, double *out)
{
    uint64_t m = 0;
    int e = 0, exp = 0, digits = 0;
    bool point = false;
    for (; s < end && *s != 'p' && *s != 'P'; s++) {
        if (*s == '.' && !point) {
            point = true;
            continue;
        }
        int h = hex_digit(*s);
        if (h < 0 || m >> 60) return false; /* more than 64 bits: not a double */
        m = m * 16 + (unsigned)h;
        digits++;
        if (point) e -= 4;
    }
    if (!digits || s == end || !read_exponent(s + 1, end, &exp)) return false;
    if (m >> 53) {
        int shift = __builtin_ctzll(m);
        m >>= shift;
        e += shift;
        if (m >> 53) return false;
    }
    *out = scalbn((double)m, e + exp);
    return true;
}

/* m * 10^e with m < 2^53 and |e| <= 22: both factors are exact doubles, so one operation rounds correctly. */
static bool read_decimal(const char *s, const char *end, double *out)
{
    static const double tens[] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13,
        1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    uint64_t m = 0;
    int e = 0, exp = 0, digits = 0;
    bool point = false;
    for (; s < end && *s != 'e' && *s != 'E'; s++) {
        if (*s == '.' && !point) {
            point = true;
            continue;
        }
        if (!irtext_digit(*s)) return false;
        m = m * 10 + (unsigned)(*s - '0');
        if (m > 1ull << 53) return false;
        digits++;
        if (point) e--;
    }
    if (!digits || (s < end && !read_exponent(s + 1, end, &exp))) return false;
    e += exp;
    if (m == 0) {
        *out = 0;
        return true;
    }
    if (e < -22 || e > 22) return false;
    *out = e < 0 ? (double)m / tens[-e] : (double)m * tens[e];
    return true;
}

bool irtext_read_float(const char *s, size_t len, double *out)
{
    const char *end = s + len;
    bool neg = len && *s == '-';
    if (neg) s++;
    size_t n = (size_t)(end - s);
    if (n > 6 && !memcmp(s, "nan:0x", 6) && n <= 22 && !neg) {
        uint64_t u = 0;
        for (s += 6; s < end; s++) {
            if (hex_digit(*s) < 0) return false;
            u = u * 16 + (unsigned)hex_digit(*s);
        }
        memcpy(out, &u, 8);
        return isnan(*out);
    }
    bool ok;
    if (n == 3 && !memcmp(s, "inf", 3)) {
        *out = INFINITY;
        ok = true;
    } else if (n == 3 && !memcmp(s, "nan", 3)) {
        *out = NAN;
        ok = true;
    } else if (n > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) ok = read_hex(s + 2, end, out);
    else ok = read_decimal(s, end, out);
    if (ok && neg) *out = copysign(*out, -1.0);
    return ok;
}

static bool same_bits(double a, double b) { return !memcmp(&a, &b, 8); }

static void write_hex(double x, Text *out)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    uint64_t m = u & ((1ull << 52) - 1);
    int e = (int)(u >> 52 & 0x7ff) - 1023, digits = 13;
    int lead = 1;
    if (e == -1023) {
        lead = 0;
        e = -1022;
    }
    while (digits && !(m & 15)) {
        m >>= 4;
        digits--;
    }
    text_printf(out, "%s0x%d", u >> 63 ? "-" : "", lead);
    if (digits) text_printf(out, ".%0*llx", digits, (unsigned long long)m);
    text_printf(out, "p%+d", e);
}

void irtext_write_float(DType d, double x, Text *out)
{
    if (isnan(x)) {
        uint64_t u;
        memcpy(&u, &x, 8);
        if (same_bits(fabs(x), NAN)) text_puts(out, u >> 63 ? "-nan" : "nan");
        else text_printf(out, "nan:0x%llx", (unsigned long long)u);
        return;
    }
    if (isinf(x)) {
        text_puts(out, x < 0 ? "-inf" : "inf");
        return;
    }
    if (dtype_is_float(d) && same_bits(x, scalar_round(d, x))) {
        for (int precision = 1; precision <= 15; precision++) {
            char buf[64];
            int n = format_text(buf, sizeof buf, "%.*g", precision, x);
            bool whole = true;
            for (int i = 0; i < n; i++) {
                if (buf[i] == '.' || buf[i] == 'e') whole = false;
            }
            double y;
            if (!irtext_read_float(buf, (size_t)n, &y) || !same_bits(scalar_round(d, y), x)) continue;
            text_write(out, buf, (size_t)n);
            if (whole) text_puts(out, ".0");
            return;
        }
    }
    write_hex(x, out);
}
