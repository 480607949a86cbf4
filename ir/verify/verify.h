/* verify.h: what the parts of the verifier share: verify.c checks functions, blocks, values and instructions,
 * verify_tokens.c memory and its tokens, verify_barriers.c the barriers, verify_rings.c the rings
 * and verify_late.c the late stores of kernel IR and those for writer warps. */
#pragma once
#include "ir/ir.h"

typedef struct Verifier {
    Session *s;
    const Module *module;
    const Func *func;
    uint64_t *ids;       /* bit set: value id seen */
    uint64_t *divergent; /* bit set: values that may differ between the threads of a program */
    bool laid_out;       /* tiles that must lie in registers have layouts */
    bool ok;
    int breaches;
} Verifier;

/* As ir_verify, of kernel IR that the layout pass has not seen yet: tiles that must lie in registers may have
 * no layout, and loads may have tiles of positions as offsets. */
bool ir_verify_before_layout(Module *);

/* Reports a breach at `i`, or at the function where it is NULL. */
__attribute__((format(printf, 3, 4))) void verify_breach(Verifier *, const Instr *i, const char *fmt, ...);
#define BREACH(i, ...) \
    do { \
        verify_breach(v, (i), __VA_ARGS__); \
        return; \
    } while (0)
#define BREACH_IF(cond, i, ...) \
    do { \
        if (cond) BREACH(i, __VA_ARGS__); \
    } while (0)

/* verify_tokens.c: a token is the memory state of one operation on each path, and a loop carries the tokens
 * it uses. */
void verify_token(Verifier *, const Value *token);
void verify_memory(Verifier *, const Instr *);

/* verify_rings.c: on every path each role gives back once each stage of a ring that it takes, and fills its
 * parts in order. */
void verify_rings(Verifier *);

/* verify_barriers.c: barriers stand only under control flow that is uniform. */
void verify_barriers(Verifier *);

/* verify_late.c: what late bulk stores leave in buffers is sent before the next step's, and behind the loop.
 */
void verify_late(Verifier *);
