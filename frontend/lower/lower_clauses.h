/* lower_clauses.h: the clauses of a kernel (lower_clauses.c), for lower.c. */
#pragma once
#include "frontend/lower/lower.h"

/* From here on names of parameters mean the arguments of `block`, `first` being the first parameter's. */
void lower_enter_block(Lower *, Block *, int first);
const Node *lower_find_clause(const Node *kernel, const char *name);
/* The expressions of the extents that the launch derives, in the order of their dimensions. */
void lower_extents(Lower *, const Node *params, const FrontKernel *front);
void lower_grid(Lower *, const Node *clause);
void lower_remap(Lower *, const Node *clause);
void lower_hints(Lower *, const Node *kernel);
/* lower.c: the kernel's clauses without a body, and this one as its remap (formula.c). */
Module *lower_formula(Ast *, const char *name, const FrontBinding *, size_t n, const Node *clause);
/* lower.c: the binding of this name, or NULL */
const FrontValue *lower_find_binding(const Lower *, const char *name);
