/* call.h: how the arguments of a call meet the parameters of an operation. Used by check (with messages) and
 * lowering. */
#pragma once
#include "frontend/parse/ast.h"

enum { CALL_SLOTS = 8 };

/* Arguments in the signature's order; NULL: not given. `rest` are those that `...` took. */
typedef struct CallArgs {
    const Node *slot[CALL_SLOTS];
    const Node *const *rest;
    int n_rest;
} CallArgs;

typedef struct Builtin Builtin;
const Builtin *builtin_find(const char *name);
const char *builtin_name(const Builtin *);
/* A call with the plain arguments that it needs, such as `where(condition, a, b)`. */
const char *builtin_example(Session *, const Builtin *);
int builtin_count(void);
int builtin_index(const Builtin *);
const Builtin *builtin_at(int);

/* Sorts the call's arguments by the builtin's signature. Reports wrong ones when `report`; false then.
 * `target` chooses among arguments given per target (`cuda.latency = 4`): a chip before its family before the
 * plain one. */
bool call_match(Session *, const Node *call, const Builtin *, const char *target, bool report, CallArgs *out);
/* How well a per-target name fits the target: 2 the chip, 1 the family, 0 not at all. */
int call_target_match(const char *name, const char *target);
bool call_target_known(const char *name);
