/* fake_driver.h: what the files of the fake libraries share (fake_gpu.h): their state, how an exported
 * function begins, and its name in CUDA or HIP. */
#pragma once
#include "fake_gpu.h"
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#ifdef FAKE_HIP
#define N(cuda, hip) hip
#else
#define N(cuda, hip) cuda
#endif

/* What the test has set. It may be read without the lock, since tests set it while no call runs. */
const FakeState *fake_settings(void);
#define fake (*fake_settings())

/* Calls come from many threads, so what they write down is reached in one way: `WRITE_DOWN(f->field = value)`
 * holds the lock of the state `f` for the statements in the parentheses. */
FakeState *fake_begin_writing(void);
void fake_end_writing(void);
#define WRITE_DOWN(...) \
    do { \
        FakeState *f = fake_begin_writing(); \
        __VA_ARGS__; \
        fake_end_writing(); \
    } while (0)

/* 0, or the code that the test wants this call to give. */
int fake_enter(const char *name);
#define ENTER() \
    do { \
        int r_ = fake_enter(__func__); \
        if (r_) return r_; \
    } while (0)

/* The error of a call that a capture by another thread forbids, or 0. */
int fake_unsafe(void);

/* Returns `p`. An object that a library leaves on a lost device (a failure that the test asked for) is no
 * leak of the host, so the leak checker ignores it. */
void *fake_on_device(void *p);
