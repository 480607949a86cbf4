/* stack.h: compiling on a stack that is known to suffice. A compiler recurses over what it compiles; threads
 * of a host may have any stack, 128 KiB in musl or by `ulimit -s`. Where less than STACK_NEED is left, what
 * is called runs in the same thread on a stack of STACK_BYTES that is made for the call. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { STACK_NEED = 4 << 20, STACK_BYTES = 8 << 20 };

/* fn(p), on this stack or on one made for it; fn must return. False: fn was not called, because no memory for
 * a stack could be had. */
bool stack_call(void (*fn)(void *), void *p);
/* Bytes left on the stack of the thread; 0 when that is not known (a stack that the program made itself). */
size_t stack_left(void);
/* "a compilation needs a stack of 4096 KiB; 120 KiB are left here, and no memory could be had for another".
 * Static parts, for a status's text. */
enum { STACK_TEXT = 160 };
const char *stack_refused(char out[STACK_TEXT]);
