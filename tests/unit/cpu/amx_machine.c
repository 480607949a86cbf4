/* amx_machine.c: see amx_machine.h. */
#define _GNU_SOURCE
#include "amx_machine.h"
#include "amx_model.h"
#include "fake_permission.h"
#include <cpuid.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <xmmintrin.h>

AmxCounts *amx_counts;

/* CPUID.(7, 0).EDX: AMX-BF16, AMX-TILE, AMX-INT8. */
enum { AMX_BITS = 1 << 22 | 1 << 24 | 1 << 25, TILE_STATES = 3 << 17, SSE_DEFAULT = 0x1f80 };

bool amx_machine_is_real(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BITS) == AMX_BITS;
}

/* --- the instructions -------------------------------------------------------------------------------- */

static void say(const unsigned char *at, const char *why)
{
    fprintf(stderr, "AMX: at %p, %02x %02x %02x %02x %02x %02x: %s\n", (const void *)at, at[0], at[1], at[2],
        at[3], at[4], at[5], why);
}

static int64_t register_of(const ucontext_t *u, const AmxInstruction *i, int number)
{
    static const int greg[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
        REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };
    if (number == AMX_NO_REGISTER) return 0;
    if (number == AMX_NEXT_INSTRUCTION) return u->uc_mcontext.gregs[REG_RIP] + i->length;
    return u->uc_mcontext.gregs[greg[number]];
}

static void carry_out(const AmxInstruction *i, const ucontext_t *u)
{
    char *base = (char *)register_of(u, i, i->base) + i->displacement;
    int64_t index = (int64_t)((uint64_t)register_of(u, i, i->index) << i->scale);
    const int *t = i->tile;
    switch (i->op) {
    case AMX_LDTILECFG: tile_amx_ldtilecfg(base + index); return;
    case AMX_STTILECFG: tile_amx_sttilecfg(base + index); return;
    case AMX_TILERELEASE: tile_amx_tilerelease(); return;
    case AMX_TILEZERO: tile_amx_tilezero(t[0]); return;
    case AMX_TILELOADD:
    case AMX_TILELOADDT1: tile_amx_tileloadd64(t[0], base, index); return;
    case AMX_TILESTORED: tile_amx_tilestored64(t[0], base, index); return;
    case AMX_TDPBF16PS: tile_amx_tdpbf16ps(t[0], t[1], t[2]); return;
    case AMX_TDPFP16PS: tile_amx_tdpfp16ps(t[0], t[1], t[2]); return;
    case AMX_TDPBSSD: tile_amx_tdpbssd(t[0], t[1], t[2]); return;
    case AMX_TDPBSUD: tile_amx_tdpbsud(t[0], t[1], t[2]); return;
    case AMX_TDPBUSD: tile_amx_tdpbusd(t[0], t[1], t[2]); return;
    case AMX_TDPBUUD: tile_amx_tdpbuud(t[0], t[1], t[2]); return;
    case N_AMX_OPS: return;
    }
}

/* --- AVX-VNNI ---------------------------------------------------------------------------------------- */

/* Where a signal's frame keeps the registers (Intel's manual, XSAVE in its standard form): the lower halves,
 * the states that are not in their initial one, and the upper halves. */
enum { AT_LOWER = 160, AT_STATES = 512, AT_UPPER = 576, STATE_SSE = 2, STATE_AVX = 4 };

static void move_vector(ucontext_t *u, int number, int bytes, unsigned char *v, bool write)
{
    unsigned char *area = (unsigned char *)u->uc_mcontext.fpregs, *lower = area + AT_LOWER + 16 * number,
                  *upper = area + AT_UPPER + 16 * number, *states = area + AT_STATES;
    if (write) {
        if (!(*states & STATE_AVX)) memset(area + AT_UPPER, 0, 256);
        *states |= STATE_SSE | STATE_AVX;
        memcpy(lower, v, 16);
        if (bytes == 32) memcpy(upper, v + 16, 16);
        else memset(upper, 0, 16);
        return;
    }
    memcpy(v, lower, 16);
    if (*states & STATE_AVX) memcpy(v + 16, upper, 16);
    else memset(v + 16, 0, 16);
}

static int32_t dot(const VnniInstruction *i, int32_t sum, const unsigned char *a, const unsigned char *b)
{
    int64_t wide = sum;
    int16_t x, y;
    for (int k = 0; k < 4; k += 2) {
        memcpy(&x, a + k, 2);
        memcpy(&y, b + k, 2);
        if (i->words) wide += (int64_t)x * y;
        else wide += a[k] * (signed char)b[k] + a[k + 1] * (signed char)b[k + 1];
    }
    if (!i->saturates) return (int32_t)(uint32_t)wide;
    return wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

static void carry_out_dots(const VnniInstruction *i, ucontext_t *u)
{
    unsigned char sums[32], left[32], right[32];
    const AmxInstruction *m = &i->memory;
    move_vector(u, i->to, 32, sums, false);
    move_vector(u, i->left, 32, left, false);
    if (i->right >= 0) move_vector(u, i->right, 32, right, false);
    else
        memcpy(right,
            (char *)register_of(u, m, m->base) + m->displacement +
                (int64_t)((uint64_t)register_of(u, m, m->index) << m->scale),
            (size_t)i->bytes);
    for (int k = 0; k < i->bytes; k += 4) {
        int32_t sum;
        memcpy(&sum, sums + k, 4);
        sum = dot(i, sum, left + k, right + k);
        memcpy(sums + k, &sum, 4);
    }
    move_vector(u, i->to, i->bytes, sums, true);
    u->uc_mcontext.gregs[REG_RIP] += m->length;
    amx_counts->dots++;
}

/* What stands in the place of `cpuid` is ud2, and of `xgetbv` ud1 %eax, %eax. */
static bool processor_answers(ucontext_t *u, const unsigned char *code)
{
    greg_t *g = u->uc_mcontext.gregs;
    unsigned a = (unsigned)g[REG_RAX], b = 0, c = (unsigned)g[REG_RCX], d = 0, leaf = a, part = c;
    if (code[0] != 0x0f) return false;
    if (code[1] == 0x0b) {
        __cpuid_count(leaf, part, a, b, c, d);
        if (leaf == 7 && part == 0) d |= AMX_BITS;
        g[REG_RBX] = b;
        g[REG_RCX] = c;
        g[REG_RIP] += 2;
    } else if (code[1] == 0xb9 && code[2] == 0xc0) {
        __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(c));
        if (part == 0) a |= TILE_STATES;
        g[REG_RIP] += 3;
    } else return false;
    g[REG_RAX] = a;
    g[REG_RDX] = d;
    return true;
}

static struct sigaction before;

/* The instructions neither consult nor change MXCSR. */
static void on_illegal(int number, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    const unsigned char *code = (const unsigned char *)u->uc_mcontext.gregs[REG_RIP];
    AmxInstruction i;
    VnniInstruction dots;
    const char *fault;
    (void)info;
    _mm_setcsr(SSE_DEFAULT);
    if (vnni_decode(code, &dots)) carry_out_dots(&dots, u);
    else if (amx_decode(code, &i, &fault)) {
        if (!permission_asked || permission_refused) fault = "without the operating system's permission";
        if (fault) {
            say(code, fault);
            abort();
        }
        int64_t configured = amx_model_configured();
        carry_out(&i, u);
        amx_counts->op[i.op]++;
        configured = amx_model_configured() - configured;
        if (configured) amx_counts->configured += configured;
        u->uc_mcontext.gregs[REG_RIP] += i.length;
    } else if (!processor_answers(u, code)) {
        say(code, "no instruction of this processor, nor of AMX");
        sigaction(number, &before, NULL); /* and once more */
    }
}

void amx_machine_start(bool refuses)
{
    permission_refused = refuses;
    permission_passed = amx_machine_is_real() && !refuses;
    struct sigaction a = { .sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO | SA_NODEFER };
    sigemptyset(&a.sa_mask);
    amx_counts = mmap(NULL, sizeof *amx_counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (amx_counts == MAP_FAILED) abort();
    if (!amx_machine_is_real()) sigaction(SIGILL, &a, &before);
}
