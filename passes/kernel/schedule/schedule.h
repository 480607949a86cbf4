/* schedule.h: what the passes of the kernel IR decide, as text that can be read back (docs/schedule.md).
 *
 * A pass asks whether a decision was written, takes it after checking that it is legal, or refuses it with an
 * error at its place; where nothing is written it derives. Either way it records what it took, so that a
 * schedule printed and read back gives the same code. */
#pragma once
#include "passes/kernel/kernel.h"

typedef enum DecisionKind {
#define DECISION(ID, word, of, forms) DECIDE_##ID,
#include "passes/kernel/schedule/schedule.def"
#undef DECISION
    DECIDE_COUNT
} DecisionKind;

/* The forms of each decision, by their position in schedule.def. */
enum { PROGRAMS_EACH, PROGRAMS_STATIC, PROGRAMS_DYNAMIC, PROGRAMS_SHARES };
enum { ORDER_IDS, ORDER_HEAVY, ORDER_ROWS, ORDER_FIRST, ORDER_REMAP, ORDER_CHAINS, ORDER_TOGETHER };
enum { WARP_SPECIALIZATION_NONE, WARP_SPECIALIZATION_N };
enum { MULTICAST_NONE, MULTICAST_N };
enum { RESCALE_ALWAYS, RESCALE_LAZY };
enum { PINGPONG_OFF, PINGPONG_ON };
enum {
    LOAD_REGISTERS,
    LOAD_PREFETCH,
    LOAD_MULTISTAGE,
    LOAD_STAGES,
    LOAD_STAGES_CP_ASYNC,
    LOAD_HOISTED,
    LOAD_EPILOGUE,
    LOAD_KEPT
};
enum { LOOP_PLAIN, LOOP_CHAIN, LOOP_ISSUE, LOOP_PIPELINED, LOOP_CROSS_TILE, LOOP_PREFETCH };
enum { STORE_REGISTERS, STORE_TMA };

typedef struct Decision {
    DecisionKind kind;
    const char *tensor;
    /* The object of the decision: the at-th access of the tensor, or the at-th loop, counted from 1. */
    int at;
    int form, n[2];
    Loc loc;  /* where it was written */
    bool met; /* somebody asked for it */
} Decision;

/* The number of an instruction among the accesses of its tensor. */
typedef struct Access {
    const Instr *instr;
    const char *tensor;
    int at;
} Access;

struct Schedule {
    Session *session;
    const char *kernel; /* its name in the source */
    VEC(Decision) asked, taken;
    VEC(Access) loads;
};

/* Reads the schedule that was written for this kernel: options.schedule, or the hint. Errors go to the
 * session. */
void schedule_begin(Session *, Func *, KernelPlan *);
/* Numbers the loads among the accesses of their tensors. It runs when no later pass adds loads. */
void schedule_number_loads(KernelPlan *, const Func *);
/* What is decided so far; schedule_restore forgets what was decided since. */
Schedule schedule_save(const KernelPlan *);
void schedule_restore(KernelPlan *, const Schedule *);
/* Reports errors for written decisions that no pass asked for. */
void schedule_end(KernelPlan *);

/* The written decision, or NULL. */
const Decision *schedule_asked(KernelPlan *, DecisionKind);
const Decision *schedule_asked_load(KernelPlan *, const Instr *load);
const Decision *schedule_asked_loop(KernelPlan *, int loop);
const Decision *schedule_asked_store(KernelPlan *, const Func *, const Instr *store);
/* The same of a load, for a pass that may leave the decision to another one: where none asks, it is an error.
 */
const Decision *schedule_look_at_load(const KernelPlan *, const Instr *load);
/* Reports that a written decision is not legal here, at its position. Always returns false. */
bool schedule_refuse(KernelPlan *, const Decision *, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Records the decision that was taken; unused numbers are 0. */
void schedule_take(KernelPlan *, DecisionKind, int form, int n0, int n1);
void schedule_take_load(KernelPlan *, const Instr *load, int form, int stages);
void schedule_take_loop(KernelPlan *, int loop, int form, int product);
void schedule_take_store(KernelPlan *, const Func *, const Instr *store, int form, int buffers);

/* The whole schedule as text: a head, a line for each decision, and `notes` as comments. */
const char *schedule_text(KernelPlan *, const Func *, const char *notes);
