/* reduce_ir.h: makes a failing program small: instructions are erased, replaced by zeros or by one of their
 * branches, one after the other, as long as `fails` still says so of the text. */
#pragma once
#include <stdbool.h>

/* The reduced text (malloc'd). `fails` gets the text of a module that verifies. */
char *reduce_ir(const char *text, bool (*fails)(void *user, const char *text), void *user);
