/* format.h: printf for strings, files and argument lists, the same in every locale.
 *
 * The conversions are those of C: flags `-+ #0`, width and precision (also `*`), the lengths hh h l ll z j t,
 * and d i u x X o c s p % f F e E g G a A. Numbers are exact, see number.h. Text, arena_printf (arena.h) and
 * diagnostics call these functions; those of <stdio.h> that format are not to be used
 * (tests/tools/locale.sh). */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* As snprintf: at most `size` bytes with the final 0; returns the length that the whole text has. */
int format_text(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int format_args(char *out, size_t size, const char *fmt, va_list);
/* As fprintf. */
int format_file(FILE *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int format_file_args(FILE *, const char *fmt, va_list);
