/* machine_global.c: tests of what the emulated CUDA machine reports of global memory between CTAs. */
#include "tests/emu/test_machine.h"

static uint32_t global[256], flag;
static uint32_t ldg(int k)
{
    emu_global_read(&global[k], 4);
    return global[k];
}
static void stg(int k, uint32_t x)
{
    emu_global_write(&global[k], &x, 4);
    global[k] = x;
}
static uint32_t add(uint32_t *p, uint32_t x)
{
    emu_global_atomic(p, 4);
    uint32_t old = *p;
    *p += x;
    return old;
}
static uint32_t swap(uint32_t *p, uint32_t was, uint32_t x)
{
    emu_global_swap(p, &was, &x, 4);
    uint32_t old = *p;
    if (old == was) *p = x;
    return old;
}
static int block(void) { return (int)blockIdx.x; }

typedef enum Scene {
    APART,
    SAME_VALUE,
    ATOMIC_SUM,
    ONE_ELEMENT,
    HALVES,
    WRITES,
    READ_AND_WRITE,
    MODIFY,
    ATOMIC_AND_READ,
    HALF_AND_READ,
    IN_A_BLOCK,
    IN_A_WARP,
    HANDED_ON,
    NOT_FENCED,
    NOT_ASKED
} Scene;
static void globals(const uint64_t *args)
{
    int t = tid();
    switch ((Scene)args[0]) {
    case APART:
        stg(block() * 64 + t, (uint32_t)t);
        ldg(128 + t % 64);
        break;
    case SAME_VALUE: stg(t, 7); break;
    case ATOMIC_SUM: add(&global[t % 5], 1); break;
    case ONE_ELEMENT: /* Lanes that do nothing but add to it go on. */
        for (int k = 0; k < 1700; k++) add(&global[0], 1);
        break;
    case HALVES:
    case HALF_AND_READ: /* one half of a word is swapped, and the other half or the same one is read */
        if (t) break;
        if (block() == 0) emu_global_read((char *)global + (args[0] == HALVES ? 0 : 2), 2);
        else swap(&global[0], global[0], global[0] ^ 0x50000u);
        break;
    case WRITES:
        if (!t) stg(0, (uint32_t)block() + 1);
        break;
    case READ_AND_WRITE:
        if (block() == 0) ldg(t);
        else stg(t, 5);
        break;
    case MODIFY:
        if (!t) stg(0, ldg(0) + 1);
        break;
    case ATOMIC_AND_READ:
        if (block() == 0) ldg(0);
        else if (!t) add(&global[0], 1);
        break;
    case IN_A_BLOCK:
        if (block()) break;
        stg(t, (uint32_t)t);
        meet();
        ldg(t ^ 33);
        break;
    case IN_A_WARP:
        if (block()) break;
        stg(t, (uint32_t)t);
        meet();
        ldg(t ^ 1);
        break;
    case HANDED_ON:
    case NOT_FENCED:
    case NOT_ASKED: /* The last block that arrives sums the results of all. */
        stg(block() * 64 + t, (uint32_t)block() + 1);
        emu_syncthreads();
        if (args[0] != NOT_FENCED) emu_global_fence();
        if (!t && args[0] != NOT_ASKED) global[250 + block()] = add(&flag, 1);
        emu_syncthreads();
        emu_global_fence();
        if (args[0] == NOT_ASKED ? block() == 1 : global[250 + block()] == 1)
            expect(ldg(t) + ldg(64 + t) == 3, "both values");
        break;
    }
}

/* Two blocks, one after the other or at once. */
static void globally(int what, const char *report)
{
    look = !report;
    for (int k = 0; k < DRAWS; k++) {
        memset(global, 0, sizeof global);
        flag = 0;
        bool ok = run(64, 2, globals, (const void *)(uintptr_t)what, k);
        if (ok != !report || (report && !strstr(why, report))) {
            printf(" [case %d, draw %d: %s] ", what, k, ok ? "nothing" : why);
            CU_FAIL("not as expected");
            return;
        }
    }
}

void test_global(void)
{
    static const char race[] = "race: ";
    between = 0;
    for (int k = APART; k <= HALVES; k++) globally(k, NULL);
    for (int k = WRITES; k <= IN_A_WARP; k++) globally(k, race);
    between = WARP_BARRIER;
    globally(IN_A_WARP, NULL);
    globally(IN_A_BLOCK, race);
    between = BARRIER;
    globally(IN_A_BLOCK, NULL);
    globally(HANDED_ON, NULL);
    globally(NOT_FENCED, race);
    globally(NOT_ASKED, race);
}
