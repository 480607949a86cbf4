/* ir_priv.h: what ir.c and change.c share. */
#pragma once
#include "ir/ir.h"

static inline void link_use(Use *u, Value *v)
{
    u->value = v;
    u->next = v->uses;
    u->prev = &v->uses;
    if (v->uses) v->uses->prev = &u->next;
    v->uses = u;
}

static inline void unlink_use(Use *u)
{
    if (!u->value) return;
    *u->prev = u->next;
    if (u->next) u->next->prev = u->prev;
    u->value = NULL;
}

Attr ir_copy_attr(Session *, Attr); /* into the session's arena */
Instr *ir_new_instr(Builder *b, Op op, Value *const *operands, int n, Attrs attrs, int n_results,
    int n_blocks); /* in no block yet */
