/* cpu_level.h: the level of the processor that this process runs on, and the lower one that the environment
 * variable TILE_CPU_LEVEL asks for. The launcher of objects (tools/aot/launch.c) includes this file too, so
 * it needs the C library alone. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

/* The micro-architecture levels of x86-64, the last with dot products of 16 bits (AVX512-VNNI and
 * AVX512-BF16) too, and with products of tiles of bf16 and 8 bits (AMX); on AArch64 dot products of 8 bits,
 * and those and bf16 and dot products of mixed signs. A level has what lower ones have. */
enum { LEVEL_ANY, LEVEL_V3, LEVEL_V4, LEVEL_V4_DOT, LEVEL_AMX, LEVEL_DOT = 1, LEVEL_BF16 };

#if defined(__x86_64__)
/* Of a processor of LEVEL_V4. `saved`: the states that the operating system saves (XCR0). */
static inline int cpu_level_of_products(unsigned saved)
{
    enum { VNNI = 1u << 11, BF16 = 1u << 5, AMX_BF16 = 1u << 22, AMX_TILE = 1u << 24, AMX_INT8 = 1u << 25 };
    const unsigned amx = AMX_BF16 | AMX_TILE | AMX_INT8, tiles = 3u << 17;
    unsigned a, b, c, d, a1, b1, c1, d1;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !__get_cpuid_count(7, 1, &a1, &b1, &c1, &d1))
        return LEVEL_V4;
    if (!(c & VNNI) || !(a1 & BF16)) return LEVEL_V4;
    return (d & amx) == amx && (saved & tiles) == tiles ? LEVEL_AMX : LEVEL_V4_DOT;
}
#endif

/* The processor's own level, by its features and the operating system's saving of their registers, as the
 * x86-64 psABI defines the levels; on AArch64 what Linux reports (its document "ARM64 ELF hwcaps" has the
 * bits). Each `cpuid` takes microseconds in a virtual machine: callers keep the answer. */
static inline int cpu_level_read(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return LEVEL_ANY;
    const unsigned v3_1c = bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_FMA | bit_MOVBE | bit_POPCNT |
                           bit_AVX | bit_F16C | bit_OSXSAVE;
    if ((c & v3_1c) != v3_1c) return LEVEL_ANY;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return LEVEL_ANY;
    const unsigned v3_7b = bit_AVX2 | bit_BMI | bit_BMI2,
                   v4_7b = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
    unsigned leaf7 = b;
    if ((leaf7 & v3_7b) != v3_7b || !__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & bit_LZCNT))
        return LEVEL_ANY;
    if ((leaf7 & v4_7b) != v4_7b || (low & 0xe6) != 0xe6) return LEVEL_V3;
    return cpu_level_of_products(low);
#elif defined(__aarch64__)
    const unsigned long asimddp = 1ul << 20, i8mm = 1ul << 13, bf16 = 1ul << 14, second = i8mm | bf16;
    if (!(getauxval(AT_HWCAP) & asimddp)) return LEVEL_ANY;
    return (getauxval(AT_HWCAP2) & second) == second ? LEVEL_BF16 : LEVEL_DOT;
#else
    return LEVEL_ANY;
#endif
}

/* The levels of the machine that this is compiled for. */
typedef struct CpuLevel {
    int level;
    const char *name, *cpu, *features; /* the last two are LLVM's */
} CpuLevel;
static const CpuLevel cpu_levels[] = {
#define CPU_LEVEL(LEVEL, NAME, CPU, FEATURES, OBJECTS) \
    { \
        LEVEL, NAME \
        , CPU, FEATURES \
    } \
    ,
#define NO_CPU_LEVEL(LEVEL, NAME, CPU, FEATURES, OBJECTS)
#if defined(__aarch64__)
#define CPU_LEVEL_X86 NO_CPU_LEVEL
#define CPU_LEVEL_ARM CPU_LEVEL
#else
#define CPU_LEVEL_X86 CPU_LEVEL
#define CPU_LEVEL_ARM NO_CPU_LEVEL
#endif
#include "ir/target/cpu_levels.def"
#undef CPU_LEVEL
#undef NO_CPU_LEVEL
#undef CPU_LEVEL_X86
#undef CPU_LEVEL_ARM
};
enum { N_CPU_LEVELS = sizeof cpu_levels / sizeof *cpu_levels };

/* Appends at most `most` bytes of `more` to the text in `out`, as far as there is room. */
static inline void cpu_level_say(char *out, size_t room, const char *more, size_t most)
{
    size_t at = strlen(out), n = strlen(more);
    if (n > most) n = most;
    if (n > room - at - 1) n = room - at - 1;
    memcpy(out + at, more, n);
    out[at + n] = 0;
}

/* The level that the environment variable TILE_CPU_LEVEL names, among those up to `own`, the processor's.
 * NULL where the variable is unset or empty; where it names no level, or one above `own`, also a message of
 * at most `room` bytes, which is at least 1. */
static inline const CpuLevel *cpu_level_asked(int own, char *error, size_t room)
{
    const char *named = getenv("TILE_CPU_LEVEL");
    const CpuLevel *found = NULL;
    error[0] = 0;
    if (!named || !*named) return NULL;
    for (int k = 0; k < N_CPU_LEVELS; k++)
        if (!strcmp(cpu_levels[k].name, named)) found = &cpu_levels[k];
    if (found && found->level <= own) return found;
    cpu_level_say(error, room, "TILE_CPU_LEVEL: ", room);
    cpu_level_say(error, room, found ? "this processor lacks the level `" : "there is no level `", room);
    cpu_level_say(error, room, named, 40);
    cpu_level_say(error, room, "`; there are ", room);
    for (int k = N_CPU_LEVELS - 1; k >= 0; k--) {
        if (cpu_levels[k].level > own) continue;
        if (cpu_levels[k].level) cpu_level_say(error, room, ", ", 2);
        cpu_level_say(error, room, cpu_levels[k].name, room);
    }
    return NULL;
}
