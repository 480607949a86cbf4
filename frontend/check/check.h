/* check.h: what the files of the check share. frontend_check (frontend.h) is in check.c. */
#pragma once
#include "frontend/lower/lower.h"
#include "frontend/program.h"

/* A variable, a constant or a parameter that is in scope. */
typedef struct Name Name;
struct Name {
    const char *name;
    Loc loc;
    bool is_var;  /* can be assigned */
    int level;    /* of the block that declares it */
    Name *outer;  /* the name that was declared before this one */
    Name *hidden; /* the outer declaration of the same name, or NULL */
    bool is_array;
    bool is_parameter; /* of a fn */
};

typedef struct Check {
    Session *s;
    Ast *ast;
    Name *names;     /* in scope, innermost first */
    NameMap map;     /* the innermost declaration of each name */
    NameMap unknown; /* names that were reported, each once in a kernel or fn */
    NameMap ended;   /* the last declaration of each name whose block has ended; of this kernel or fn */
    NameMap items;   /* kernels, functions and constants */
    NameMap tuned;   /* tune blocks by kernel */
    NameMap ladders; /* ladder blocks by kernel */
    int level;
    const Node *kernel;  /* or NULL */
    const Node *tensors; /* the kernel whose optional tensors `has` may name, or NULL */
    bool in_fn, in_extent;
} Check;

/* --- check_names.c ----------------------------------------------------------------------------------- */

/* Reports an error and returns it, so that notes can follow. */
Diag *check_fault(Check *, Loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Adds a note without a place to an error. */
void check_note(Check *, Diag *, const char *text);

/* The innermost declaration of a name, or NULL. */
Name *check_find(const Check *, const char *name);
/* Declares a name in the current block. Reports an error if the block already declares it. */
void check_declare(Check *, const char *name, Loc, bool is_var);
/* Leaves scopes: `outer` is the value of Check.names when they were entered. */
void check_leave_to(Check *, Name *outer);

bool check_is_type(const char *name);
/* Whether an axis of one of the kernel's tensors has this name as its extent. */
bool check_is_extent(const Node *kernel, const char *name);
/* The same for a name that is no scalar parameter: the extent then defines it. */
bool check_is_dimension(const Node *kernel, const char *name);
/* The kernel's tensor parameter of this name, or NULL. */
const Node *check_find_tensor(const Node *kernel, const char *name);

/* Adds a note that says which name the author may have meant. */
void check_suggest(Check *, Diag *, const char *wanted, bool function);
void check_name(Check *, const Node *);
void check_type_name(Check *, const Node *type, bool is_const);

/* --- check.c ----------------------------------------------------------------------------------------- */

/* Checks a remap clause that stands outside of the kernel it is for (formula.c). */
bool check_formula(Ast *, const Node *kernel, const Node *clause);

/* --- check_expr.c ------------------------------------------------------------------------------------ */

void check_expr(Check *, const Node *);
/* Checks a clause whose arguments are given by name and must be among the known ones. */
void check_hint_arguments(Check *, const Node *clause, const char *const *known, int n_known);

/* --- check_stmt.c ------------------------------------------------------------------------------------ */

void check_block(Check *, const Node *);

/* --- check_unused.c ---------------------------------------------------------------------------------- */

/* Warns about outputs that no path stores, and grid axes whose program id nothing uses. */
void check_unused(Check *, const Node *kernel);

/* --- check_tune.c ------------------------------------------------------------------------------------ */

void check_tune(Check *, const Node *);
/* tune_configs.c: the `config (...)` entries of a tune block. */
void check_configs(Check *, const Node *block, const Node *kernel);
/* tune_fit.c: its entry `fit (...)`. */
void check_fit(Check *, const Node *block, const Node *entry);
/* ladder.c */
void check_ladder(Check *, const Node *);
/* Checks the domains of a tune block (which may set hints) or of `instantiate`. */
void check_domains(Check *, const Node *, const Node *kernel, bool hints);
/* Whether the name, of a tune block, is `remap` and no const or dimension of the kernel; a value of it. */
bool check_is_placement(const Node *kernel, const char *name);
void check_placement(Check *, const Node *value);
