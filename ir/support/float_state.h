/* float_state.h: the floating-point state of a thread: rounding mode, flush-to-zero, denormals-are-zero,
 * exception masks and flags. It belongs to the caller of the library and must not change results: whatever
 * the library or the launcher of an object computes, folded constants included, is computed in the default
 * state (round to nearest, denormals kept, exceptions masked). One pair of functions, at the entry points and
 * in the threads of a launch:
 *
 *     FloatState caller = float_state_enter();
 *     ...
 *     float_state_leave(&caller);                  the caller's state, its flags too, as it was
 *
 * FLOAT_STATE_DEFAULT() does both for the block that it stands in, however the block is left. The callbacks
 * of the caller (diagnostics, allocators, thread pools) run in the default state. Registers are written only
 * when they differ: reading them costs a few cycles, writing them more. */
#pragma once
#include <stdint.h>

#if defined(__x86_64__)
/* SSE and AVX. No code of ours uses the x87 unit: its state neither matters nor changes. */
typedef struct FloatState {
    uint32_t sse;
} FloatState;
enum { SSE_DEFAULT = 0x1f80, SSE_FLAGS = 0x3f };

static inline uint32_t float_state_sse(void)
{
    uint32_t sse;
    __asm__ volatile("stmxcsr %0" : "=m"(sse) : : "memory");
    return sse;
}

static inline FloatState float_state_enter(void)
{
    FloatState s = { float_state_sse() };
    uint32_t sse = SSE_DEFAULT;
    if ((s.sse & ~(uint32_t)SSE_FLAGS) != sse) __asm__ volatile("ldmxcsr %0" : : "m"(sse) : "memory");
    return s;
}

static inline void float_state_leave(const FloatState *s)
{
    if (float_state_sse() != s->sse) __asm__ volatile("ldmxcsr %0" : : "m"(s->sse) : "memory");
}

#elif defined(__aarch64__)
typedef struct FloatState {
    uint64_t control, status;
} FloatState;

static inline FloatState float_state_enter(void)
{
    FloatState s;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(s.control), "=r"(s.status));
    if (s.control) __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return s;
}

static inline void float_state_leave(const FloatState *s)
{
    uint64_t status;
    __asm__ volatile("mrs %0, fpsr" : "=r"(status) : : "memory");
    if (status != s->status) __asm__ volatile("msr fpsr, %0" : : "r"(s->status) : "memory");
    if (s->control) __asm__ volatile("msr fpcr, %0" : : "r"(s->control) : "memory");
}

#else
#include <fenv.h>
typedef struct FloatState {
    fenv_t all;
} FloatState;

static inline FloatState float_state_enter(void)
{
    FloatState s;
    fegetenv(&s.all);
    fesetenv(FE_DFL_ENV);
    return s;
}

static inline void float_state_leave(const FloatState *s) { fesetenv(&s->all); }
#endif

#define FLOAT_STATE_DEFAULT() \
    __attribute__((cleanup(float_state_leave))) const FloatState float_state_of_caller = float_state_enter()
