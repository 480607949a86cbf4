/* lower_flow.h: statements to structured IR (lower_flow.c, lower_if.c, lower_loop.c, lower_stmt.c). A `var`
 * is an SSA value that changes; loops and ifs carry those that their bodies change.
 *
 * A return inside a loop ends the loop: its test asks for the flag. An early return sets the frame's `done`
 * flag and the frame's return values, which are carried like variables. What follows a statement that may
 * have returned stands under `if !done`. Where nothing follows the whole (tail position),
 *     if c { ...; return; }  rest     becomes     if c { ... } else { rest }     and no flag is needed. */
#pragma once
#include "frontend/lower/lower.h"

typedef VEC(Var *) Vars;
/* A statement, then those of a list from `from` on; either may be missing. */
typedef struct Branch {
    const Node *body;
    Node *const *rest;
    uint32_t from, n;
} Branch;

/* lower_flow.c */
bool flow_returns(const Node *); /* on some path */
bool flow_branch_returns(Branch);
/* Whether every path returns, whatever the conditions are. */
bool flow_always_returns(const Node *);
Vars flow_changeable(Lower *, const Branch *, int n); /* variables assigned in the branches, every token, and
                                                         the return state where there is a return */
V *flow_values(Lower *, Vars);
void flow_set_values(Vars, const V *);
bool flow_same(V, V);
bool flow_done_known(
    const Lower *, bool *value); /* whether it is known that the path has returned, or has not */
bool flow_done(const Lower *);   /* it has */
/* Whether there are too many variables to carry, after a message. */
bool flow_too_many(Lower *, Loc, size_t n);
V flow_zero(Lower *, const Type *);
const Type *flow_type(Lower *, V); /* NULL: a constant without a type, or no number */
void flow_attach(Instr *, int k, Block *);
bool flow_condition(Lower *, const Node *, const char *what, V *out); /* a scalar bool, as IR or known */

/* lower_if.c */
void lower_branch(Lower *, Branch, bool tail);
void lower_guarded(
    Lower *, Branch, bool tail); /* lowered under `if !done` when the path may have returned already */
/* A condition that has effects is evaluated only where the path has not returned; elsewhere it is false. */
bool lower_guarded_condition(Lower *, const Node *, const char *what, V *out);
void lower_if(Lower *, const Node *, Branch rest, bool tail);
const Node *lower_const_if(Lower *, const Node *); /* the branch that is chosen, or NULL */

/* lower_loop.c */
void lower_for(Lower *, const Node *);
void lower_while(Lower *, const Node *);
void lower_const_for(Lower *, const Node *);

/* lower_stmt.c */
void lower_stmt(Lower *, const Node *, bool tail);
void lower_list(Lower *, Node *const *kids, uint32_t from, uint32_t n, bool tail);
