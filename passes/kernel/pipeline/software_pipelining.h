/* software_pipelining.h: asynchronous products overlapped with the arithmetic that does not
 * need them. */
#pragma once
#include "passes/kernel/pipeline/pingpong.h"

typedef struct Overlap {
    Session *s;
    Func *f;
    KernelPlan *p;
    InstrList loops;
    Text note;
    int loop;
} Overlap; /* loop: the number of the current loop */

/* Loads of the loop's body that go to registers, one step ahead; returns the loop, rebuilt when something
 * changed. */
Instr *kernel_prefetch(Overlap *, Instr *loop);
/* A chain of two products or more a step, of left operands that are computed in registers
 * (computed_operands.c). False: nothing but their order changed. */
bool kernel_chain_computed(Overlap *, Instr *loop, InstrList *products);
/* Releases of the rings that `releases` name, if the loop has run: a step (guarded: in its body, behind the
 * first) or any. */
void kernel_release_before(Overlap *, Builder *, Instr *loop, const InstrList *releases, bool guarded);
/* Rotates the loop around its late product, across the loop over programs where that can be and pays. False:
 * nothing changed. */
bool kernel_rotate(Overlap *, Instr *loop, Instr *product, const Decision *asked, bool *across);
/* Does the product only add to an accumulator that its loop carries, the sum (its result, or that of the wait
 * for it) being the next one? */
bool kernel_adds_to_carried(const Instr *product, const Value *sum);
/* Slots of the ring that the block gets. */
int kernel_gets_of(const Block *, const Value *ring);
/* Marks the block's instructions that follow from `on`, by operations of the block. */
void kernel_mark_dependents(Block *, const Value *on);
/* Order of products within a body (issue_order.c). issue_first: products that need no other's result come
 * first; returns how many do. */
void kernel_join_sums(Block *body);
int kernel_issue_first(Overlap *, Block *body);
bool kernel_interleave(Overlap *, Block *body);
