/* hoist_loads.h: what a thread holds while rows are reduced (hoist_loads.c), for the step that keeps rows in
 * shared memory instead (keep_rows.c). */
#pragma once
#include "ir/analysis/range.h"
#include "passes/kernel/schedule/schedule.h"

enum { SMALL = 2 }; /* words of a row value */

/* What is known of a gather (hoist_gathers.c). */
typedef struct EarlyGather {
    const Instr *instr;
    int words; /* registers for what is read */
    bool both; /* of two elements, one is chosen later */
} EarlyGather;

typedef struct Hoist {
    Session *s;
    Func *f;
    KernelPlan *p;
    InstrList loads, reductions; /* loads: the loads that may be started early */
    VEC(EarlyGather) gathers;    /* those that were asked about */
    Ranges *ranges;              /* NULL until they are asked for */
    int budget, others;
    uint32_t at; /* the number of the reduction after which values are computed again */
} Hoist;

/* Whether no register holds the value, because its users read the operand. */
static inline bool hoist_silent(const Instr *i) { return i->op == OP_BROADCAST || i->op == OP_SPLAT; }

/* Whether the place of what is loaded is known in front of a reduction; NULL: where it is loaded. */
static inline bool hoist_known_at(const Instr *load, const Instr *reduction)
{
    for (int n = 0; reduction && n < load->n_operands; n++) {
        const Instr *d = ir_operand(load, n)->def;
        if (d && d->mark >= reduction->mark) return false;
    }
    return true;
}

/* The registers that a thread holds the value in. */
int hoist_words(Hoist *, const Value *);
/* Whether v is available before `place`, or the operations that compute it can be moved there. */
bool hoist_can_precede(const Value *v, const Instr *place);
/* Of gathers (hoist_gathers.c): the registers of a thread for what is read, until elements are chosen. */
int hoist_gather_words(Hoist *, const Instr *gather);
/* The gathers that can start in front of a reduction, to `all`. */
void hoist_find_gathers(Hoist *, const Instr *first, const Instr *place, InstrList *all);
/* Leaves to `opaque`, in front of the first that reads it, what registers need not hold over reductions. */
void hoist_choose_late(Hoist *, Instr *gather);
/* The registers of a thread when a multiprocessor holds n of these CTAs. */
int hoist_registers_at(const KernelPlan *, int n);
/* Keeps rows in shared memory where that is better than in registers (keep_rows.c). beside: the words of
 * loads that follow the reductions of a long row, of which some stay there. fits: what is held has registers.
 * Returns whether rows are kept, or the runner has ended. */
bool hoist_keep_rows(Hoist *, int beside, bool fits);
