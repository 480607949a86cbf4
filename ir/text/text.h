/* text.h: what printer and parser of the IR's text form share. */
#pragma once
#include "ir/ir.h"

/* Reads a whole number text: decimal (`-1.5`, `3e10`), hexadecimal (`0x1.8p+1`), inf, -inf, nan, or a NaN of
 * given bits `nan:0x7ff8000000000001`. Independent of the locale and exactly rounded; decimals whose digits
 * or exponent do not allow that in one step (more than 15 digits or 22 powers of ten) are refused: they are
 * written in hexadecimal. */
bool irtext_read_float(const char *, size_t len, double *);
/* The shortest such text that reads back as `x`; for a narrow dtype, as x after rounding to that dtype. */
void irtext_write_float(DType, double x, Text *);
static inline bool irtext_name_start(char c)
{ return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static inline bool irtext_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool irtext_name_char(char c) { return irtext_name_start(c) || irtext_digit(c); }
