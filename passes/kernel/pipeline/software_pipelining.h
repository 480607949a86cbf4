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

/* Moves loads of the loop's body to registers one step ahead, or two if steps are to come in pairs. Returns
 * the loop, which is rebuilt when something changed. */
Instr *kernel_prefetch(Overlap *, Instr *loop, int steps);
/* Moves loads of factors that stand behind the loop of products, in another loop of the program, before it.
 */
void kernel_load_before(Overlap *, Instr *loop);
/* Moves the loads of `place` and of what stands behind it before it, where their positions allow it and their
 * tensors are only read. */
void kernel_loads_before(Instr *place);
/* Registers of a consumer for addresses, counters and arithmetic; and where each product is waited for before
 * the next is issued, so that nothing of two of them is held at once. */
enum { BESIDE_SUMS = 40, BESIDE_ONE_SUM = 32 };
/* The registers of a consumer's thread that sums hold in a step: those that the loop carries, and those of
 * its products that add to no other sum of the step; where these are there one by one, of the largest. */
int kernel_words_of_sums(const KernelPlan *, const Instr *loop);
/* Whether registers hold what the loop carries and the sum of one of its products, but not those of all. */
bool kernel_sums_one_by_one(const KernelPlan *, const Instr *loop);
/* Makes a loop of two steps each before the loop, which keeps an odd last one, if the body's only product
 * begins a sum of its own and both steps' fit registers and rings (two_steps.c). NULL: nothing changed. */
Instr *kernel_two_steps(Overlap *, Instr *loop, const InstrList *products);
/* Whether the steps of the loop come in such pairs, if it gets no other order. */
bool kernel_steps_pair(const Overlap *, const Instr *loop, const InstrList *products);
/* The same if the only product adds to what the loop carries, and its left operand is computed in registers.
 */
Instr *kernel_two_computed(Overlap *, Instr *loop, const InstrList *products);
/* Handles a chain of two or more products in a step whose left operands are computed in registers
 * (computed_operands.c). False: at most their order changed. */
bool kernel_chain_computed(Overlap *, Instr *loop, InstrList *products);
/* Adds releases of the rings that `releases` name: in each step after the first one (guarded, in the loop's
 * body), or after the loop if it has run. */
void kernel_release_before(Overlap *, Builder *, Instr *loop, const InstrList *releases, bool guarded);
/* Rotates the loop around its late product, and across the loop over programs if that is possible and pays.
 * False: nothing changed. */
bool kernel_rotate(Overlap *, Instr *loop, Instr *product, const Decision *asked, bool *cross_tile);
/* Whether the product only adds to an accumulator that its loop carries, and its sum (the result, or that of
 * the wait for it) is the next carried value. */
bool kernel_adds_to_carried(const Instr *product, const Value *sum);
/* The number of stages of the ring that the block takes. */
int kernel_gets_of(const Block *, const Value *ring);
/* Marks the block's instructions that depend on `on` through operations of the block. */
void kernel_mark_dependents(Block *, const Value *on);
/* The order of products within a body (issue_order.c). issue_first: puts the products first that need no
 * result of another product, and returns their number. */
void kernel_join_sums(Block *body);
int kernel_issue_first(Overlap *, Block *body);
bool kernel_interleave(Overlap *, Block *body);
/* Computes the products that are still in flight after each wait of the body. */
void kernel_set_depths(Overlap *, Block *body);
/* Puts the body into that order, with the product of what a step writes to shared memory a step behind
 * (late_staged.c). Rebuilds the loop. False: at most the order changed. */
bool kernel_late_staged(Overlap *, Instr *loop);
