/* ops_covered.h: which operations of the IR the kernels of ops.c use. */
#pragma once
#include <stdbool.h>

/* The operations of a kernel's text. False after a message: the text does not compile. */
bool ops_note(const char *text);
/* Prints the operations on values and memory that no kernel so far has; how many there are. */
int ops_missing(void);
