/* program.h: what program.c and lower.c offer to the rest of the front end. */
#pragma once
#include "frontend/parse/ast.h"

typedef struct Lower Lower;

/* Fills ast->program; errors in domain values and defaults are reported. */
void program_build(Ast *);
const Node *program_kernel_node(const Ast *, const FrontKernel *);
/* Whether it is the name of one of the kernel's scalar parameters. It is then no dimension. */
bool program_is_scalar(const Node *kernel, const char *name);
/* Whether a value may be bound to the parameter's name before a launch: it is a const, or an optional tensor.
 * */
bool program_takes_value(const Node *param);
/* The place where dimension `name` is first used as a tile extent, or NULL. */
Loc *program_key_location(const Ast *, const FrontKernel *, const char *name);
/* Whether the key is one whatever branches of `const if` are taken. */
bool program_key_always(const FrontKernel *, const char *name);

/* Evaluation of constants apart from a lowering: globals, and with `kernel` its consts under the bindings. */
Lower *lower_eval_begin(Ast *, const Node *kernel, const FrontBinding *, size_t n);
/* A fresh scope under the globals; with `kernel` its consts by their defaults. */
void lower_eval_scope(Lower *, const Node *kernel);
/* The same for other bindings, with those of a kernel's consts that are `consts`. */
void lower_eval_again(Lower *, const Node *kernel, const Node *consts, const FrontBinding *, size_t n);
/* require.c: whether the condition holds. */
bool program_condition_holds(Lower *, const Node *);
/* A parameter's default (FRONT_NOTHING without one); the parameter is then in scope for the next. */
FrontValue lower_eval_param(Lower *, const Node *param);
/* A value of a domain; `param` is the const or optional tensor it is for, or NULL for a dimension or hint,
 * which take integers. placement: the name of a placement of programs instead. */
FrontValue lower_eval_domain_value(Lower *, bool placement, const Node *param, const Node *value);
