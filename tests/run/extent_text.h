/* extent_text.h: the extents of a table's tensors: numbers, names, + - * / with their usual precedence,
 * parentheses, and cdiv, min and max. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* The value of a name; false: there is none. */
typedef bool ExtentName(const void *context, const char *name, int64_t *out);

/* False if the text is no such expression, or has a name without a value. */
bool extent_value(const char *text, ExtentName *, const void *context, int64_t *out);
