/* wgmma.c: the prelude functions of wgmma, made by their names.
 *
 * wgmma_m64n128k16_f16_ss_tb: d (64 x n) += a b. A lies in registers (rs) or in shared memory, described by a
 * descriptor (ss). _ta and _tb: contiguous in M, in N. _x8: eight steps along K in one statement, with one
 * low word of each descriptor (rs: four words of A) for each step. PTX ISA 9.7.15.5.2; the accumulator's
 * registers are those of the fragment. */
#include "ir/target/matrix.h"
#include "backends/gpu/prelude/prelude.h"
#include "passes/kernel/kernel.h"
#include <stdlib.h>

/* What a name says. */
typedef struct Wgmma {
    const WgmmaType *of[2]; /* types of a and b */
    int n, k, steps;
    bool many; /* a function of several steps */
    bool registers, ta, tb;
} Wgmma;

/* Takes `word` and an underscore from the front of *p, or its end; false: something else stands there. */
static bool takes(const char **p, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*p, word, n) || ((*p)[n] && (*p)[n] != '_')) return false;
    *p += (*p)[n] ? n + 1 : n;
    return true;
}

/* Reads a name; false: not of such a function. */
static bool parse(const char *name, Wgmma *w)
{
    char *end;
    *w = (Wgmma){ .steps = 1 };
    if (strncmp(name, "wgmma_m64n", 10)) return false;
    w->n = (int)strtol(name + 10, &end, 10);
    if (*end == 'k') w->k = (int)strtol(end + 1, &end, 10);
    if (*end != '_') return false;
    const char *p = end + 1;
    for (int t = 0; t < 2; t++) {
        const char *stop = strchr(p, '_');
        if (stop && (w->of[t] = wgmma_named(p, (size_t)(stop - p)))) p = stop + 1;
    }
    if (!w->of[0]) return false;
    if (!w->of[1]) w->of[1] = w->of[0];
    w->registers = takes(&p, "rs");
    if (!w->registers && !takes(&p, "ss")) return false;
    w->ta = takes(&p, "ta");
    w->tb = takes(&p, "tb");
    if (*p == 'x') {
        w->many = true;
        w->steps = (int)strtol(p + 1, &end, 10);
        p = end;
    }
    return !*p && w->steps >= 1 && w->steps <= 64 && wgmma_has(w->of[0]->dtype, w->of[1]->dtype, w->n) &&
           w->k * dtype_bytes(w->of[0]->dtype) == 32;
}

/* Numbers of the operands of the statement: d's registers, of A four words a step or one low word a step and
 * the high one, of B likewise, then whether d is added to. */
typedef struct Operands {
    int a, b, acc;
} Operands;

static Operands operands_of(const Wgmma *w)
{
    int a = w->n / 2, b = a + (w->registers ? 4 * w->steps : w->steps + 1);
    return (Operands){ a, b, b + w->steps + 1 };
}

/* One step along K, up to what follows it. */
static void print_step(const Wgmma *w, int step, Text *o)
{
    Operands at = operands_of(w);
    bool integer = dtype_is_int(w->of[0]->dtype);
    if (step == 1) text_puts(o, "setp.eq.b32 p, 0, 0; ");
    if (!w->registers) text_printf(o, "mov.b64 a, {%%%d, %%%d}; ", at.a + step, at.a + w->steps);
    text_printf(o, "mov.b64 b, {%%%d, %%%d}; wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s {", at.b + step,
        at.b + w->steps, w->n, w->k, integer ? "s32" : "f32", w->of[0]->ptx, w->of[1]->ptx);
    for (int i = 0; i < at.a; i++) text_printf(o, "%s%%%d", i ? "," : "", i);
    text_puts(o, "}, ");
    if (w->registers) {
        int a = at.a + 4 * step;
        text_printf(o, "{%%%d,%%%d,%%%d,%%%d}", a, a + 1, a + 2, a + 3);
    } else text_puts(o, "a");
    text_puts(o, ", b, p");
    if (!integer) text_puts(o, ", 1, 1");
    if (w->k == 16 && w->registers) text_printf(o, ", %d", w->tb);
    else if (w->k == 16) text_printf(o, ", %d, %d", w->ta, w->tb);
}

/* The operands of the statement, behind its text. */
static void print_operands(const Wgmma *w, Text *o)
{
    char d = dtype_is_int(w->of[0]->dtype) ? 'r' : 'f';
    for (int i = 0; i < w->n / 2; i++) text_printf(o, "%s\"+%c\"(d[%d])", i ? ", " : "", d, i);
    text_puts(o, "\n    : ");
    for (int i = 0; w->registers && i < 4 * w->steps; i++) text_printf(o, "\"r\"(a[%d]), ", i);
    for (int i = 0; !w->registers && i < w->steps; i++)
        text_printf(o, w->many ? "\"r\"(alo[%d]), " : "\"r\"(alo), ", i);
    if (!w->registers) text_puts(o, "\"r\"(ahi), ");
    for (int i = 0; i < w->steps; i++) text_printf(o, w->many ? "\"r\"(blo[%d]), " : "\"r\"(blo), ", i);
    text_puts(o, "\"r\"(bhi), \"r\"(acc)); }");
}

const char *cuda_wgmma(Session *s, const char *name)
{
    Wgmma w;
    Text o;
    if (!parse(name, &w)) return NULL;
    const char *word = w.many ? "const u32 *" : "u32 ";
    text_init(&o, &s->arena);
    text_printf(&o, "static __device__ __forceinline__ void %s(%s *d, ", name,
        dtype_is_int(w.of[0]->dtype) ? "i32" : "float");
    if (w.registers) text_puts(&o, "const u32 *a");
    else text_printf(&o, "%salo, u32 ahi", word);
    text_printf(&o,
        ", %sblo, u32 bhi, int acc) {\n  asm volatile(\"{ .reg .pred p; .reg .b64 a, b; setp.ne.b32 p, %%%d, "
        "0; ",
        word, operands_of(&w).acc);
    for (int step = 0; step < w.steps; step++) {
        print_step(&w, step, &o);
        text_puts(&o, step + 1 < w.steps ? "; " : "; }\"\n    : ");
    }
    print_operands(&w, &o);
    return o.data;
}
