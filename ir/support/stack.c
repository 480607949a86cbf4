/* stack.c: see stack.h. The thread stays the same (makecontext), so thread-local state, locks and what a
 * driver holds current are those of the caller. */
#define _GNU_SOURCE
#include "ir/support/stack.h"
#include "ir/support/format.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* Bounds of the thread's stack, which stay. Asking for them is slow in the main thread: it reads the
 * process's map. */
static __thread uintptr_t low, high;

static void find_bounds(void)
{
    pthread_attr_t a;
    void *address;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &a)) return;
    if (!pthread_attr_getstack(&a, &address, &size)) {
        low = (uintptr_t)address;
        high = low + size;
    }
    pthread_attr_destroy(&a);
}

size_t stack_left(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (!high) find_bounds();
    return here >= low && here < high ? (size_t)(here - low) : 0;
}

typedef struct Call {
    void (*fn)(void *);
    void *p;
} Call;

/* makecontext passes ints: the address of the call goes in two. */
static void enter(unsigned upper, unsigned lower)
{
    Call *c = (Call *)(uintptr_t)((uint64_t)upper << 32 | lower);
    c->fn(c->p);
}

static bool on_another(Call *c)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = STACK_BYTES + page;
    char *stack = mmap(
        NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) return false;
    ucontext_t here, there;
    uint64_t at = (uintptr_t)c;
    bool ok = !mprotect(stack, page, PROT_NONE) &&
              !getcontext(&there); /* The lowest page stops a stack that grows too deep nevertheless. */
    if (ok) {
        there.uc_stack.ss_sp = stack + page;
        there.uc_stack.ss_size = STACK_BYTES;
        there.uc_link = &here;
        makecontext(&there, (void (*)(void))enter, 2, (unsigned)(at >> 32), (unsigned)at);
        ok = !swapcontext(&here, &there);
    }
    munmap(stack, bytes);
    return ok;
}

bool stack_call(void (*fn)(void *), void *p)
{
    Call c = { fn, p };
    if (stack_left() < STACK_NEED) return on_another(&c);
    fn(p);
    return true;
}

const char *stack_refused(char out[STACK_TEXT])
{
    format_text(out, STACK_TEXT,
        "a compilation needs a stack of %d KiB; %zu KiB are left here, and no memory could be had for "
        "another",
        STACK_NEED / 1024, stack_left() / 1024);
    return out;
}
