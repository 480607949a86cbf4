/* tracing.h: the making of a trace: trace.c builds it, trace_needs.c finds the values that it is made of. */
#pragma once
#include "passes/sim/trace_impl.h"

typedef struct Tracing {
    Session *s;
    const Func *f;
    const SimLaunch *launch;
    SimTrace *t;
    int32_t *slot; /* by value id; -1: none yet */
    uint8_t *needed, *tainted;
    VEC(const Value *) work;
    const char *why;
    bool changed;
    int unsure; /* the enclosing conditions and loops that data decides */
} Tracing;

/* The first reason why there is no trace; false. */
bool trace_refuse(Tracing *, const char *why);
static inline bool trace_is_control(const Instr *i)
{ return i->op == OP_FOR || i->op == OP_WHILE || i->op == OP_IF; }
static inline bool trace_is_tainted(const Tracing *c, const Value *v) { return c->tainted[v->id]; }

/* trace_needs.c. Marks the values from which addresses, masks and control flow are computed. */
void trace_find_needs(Tracing *, const Block *);
/* Marks those of them that come from data; to be called until nothing changes. */
void trace_find_tainted(Tracing *, const Block *);
/* Whether a block accesses memory or multiplies matrices. Conditions around such operations matter. */
bool trace_does_something(const Block *);
/* Is the result evaluated as the interpreter would? */
bool trace_evaluated(const Instr *);
