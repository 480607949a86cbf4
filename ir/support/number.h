/* number.h: decimal text and binary numbers, exactly, in integer arithmetic.
 *
 * With format.h this is the only code of the library and the command that turns numbers into text and text
 * into numbers. It depends neither on the locale nor on the floating-point state (rounding mode,
 * flush-to-zero) of the process: the point is always `.`, and every result is rounded to nearest, ties to
 * even. tests/tools/locale.sh checks that no object refers to a function of the C library that depends on
 * them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* The decimal digits of a finite magnitude: 0.d0 d1 d2 .. * 10^point, d0 not zero; zero has no digits. */
enum { DECIMAL_MAX = 800 };
typedef struct Decimal {
    int n, point;
    bool truncated;
    unsigned char digit[DECIMAL_MAX];
} Decimal;

void decimal_of(double, Decimal *);
/* Rounds to the first `n` digits and drops zeros at the end. If n <= 0, none or one digit results. */
void decimal_round(Decimal *, int n);

/* Reads the longest number at the start of `text`: [+-] and digits with an optional point and exponent, `0x`
 * and hexadecimal digits with an optional point and binary exponent, `inf`, `infinity` or `nan`, in either
 * case. *end is behind it, or `text` if there is none. Values too large become infinite. No blanks are
 * skipped. */
double number_read(const char *text, char **end);
