/* test_amx_machine.c: each instruction of AMX, in all forms of addresses, with random tiles of any size,
 * against plain C of its own: floats are added in 113 bits and rounded once. The configuration, what a use
 * that the processor refuses does, threads, and the caller's floating-point state. On a machine with AMX its
 * own instructions run, so that it judges the same expectations. */
#define _GNU_SOURCE
#include "amx_machine.h"
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

enum { N_TILES = 8, ROWS = 16, ROW_BYTES = 64, MAX_CODE = 64 };

static _Atomic int failures, checks;

static void expect(bool ok, const char *what)
{
    checks++;
    if (ok) return;
    printf("%s\n", what);
    failures++;
}

static _Thread_local uint32_t seed;
static uint32_t next(uint32_t n)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % n;
}

/* --- instructions as code ---------------------------------------------------------------------------- */

typedef void Stub(const void *base, int64_t index);
static _Thread_local unsigned char *page;

/* Code that puts its arguments into the two registers, executes one instruction and returns. */
typedef struct Code {
    unsigned char byte[MAX_CODE];
    int n;
} Code;

static void put(Code *c, int n, const int *bytes)
{
    for (int k = 0; k < n; k++) c->byte[c->n++] = (unsigned char)bytes[k];
}
#define PUT(c, ...) put(c, (int)(sizeof(int[]){ __VA_ARGS__ } / sizeof(int)), (int[]){ __VA_ARGS__ })

static void pop(Code *c, int r)
{
    if (r >= 8) PUT(c, 0x41);
    PUT(c, 0x58 + (r & 7));
}

/* VEX.pp and the opcode, in the order of AmxOp. */
static const unsigned char codes[N_AMX_OPS][2] = { { 0, 0x49 }, { 1, 0x49 }, { 0, 0x49 }, { 3, 0x49 },
    { 3, 0x4b }, { 1, 0x4b }, { 2, 0x4b }, { 2, 0x5c }, { 3, 0x5c }, { 3, 0x5e }, { 2, 0x5e }, { 1, 0x5e },
    { 0, 0x5e } };

static void instruction(Code *c, const AmxInstruction *i)
{
    int b = i->base, x = i->index, pp = codes[i->op][0], opcode = codes[i->op][1];
    bool product = opcode >= 0x5c, rows = opcode == 0x4b;
    int third = product ? i->tile[2] : 0;
    bool memory = rows || i->op == AMX_LDTILECFG || i->op == AMX_STTILECFG;
    PUT(c, 0xc4, 0x82 | (memory && x >= 8 ? 0 : 0x40) | (memory && b >= 8 ? 0 : 0x20),
        (~third & 15) << 3 | pp, opcode);
    if (!memory) {
        PUT(c, 0xc0 | (i->op == AMX_TILERELEASE ? 0 : i->tile[0] << 3) | (product ? i->tile[1] : 0));
        return;
    }
    int reg = rows ? i->tile[0] : 0;
    bool near = i->displacement >= -128 && i->displacement < 128;
    PUT(c, (near ? 0x40 : 0x80) | reg << 3 | 4, i->scale << 6 | (x & 7) << 3 | (b & 7));
    for (int k = 0; k < (near ? 1 : 4); k++) PUT(c, i->displacement >> 8 * k & 255);
}

static void execute(const AmxInstruction *i, const void *base, int64_t index)
{
    static const int saved[] = { 3, 5, 12, 13, 14, 15 };
    enum { N_SAVED = sizeof saved / sizeof *saved };
    Code c = { .n = 0 };
    for (int k = 0; k < N_SAVED; k++) {
        if (saved[k] >= 8) PUT(&c, 0x41);
        PUT(&c, 0x50 + (saved[k] & 7));
    }
    PUT(&c, 0x56, 0x57); /* the arguments: push rsi, push rdi */
    pop(&c, i->base);
    pop(&c, i->index);
    instruction(&c, i);
    for (int k = N_SAVED; k-- > 0;) pop(&c, saved[k]);
    PUT(&c, 0xc3);
    if (!page) page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || mprotect(page, 4096, PROT_READ | PROT_WRITE)) abort();
    memcpy(page, c.byte, (size_t)c.n);
    if (mprotect(page, 4096, PROT_READ | PROT_EXEC)) abort();
    ((Stub *)(void *)page)(base, index);
}

/* Any two registers but rsp, and any displacement; the rows are `stride` apart, a multiple of 8. */
static void in_memory(AmxOp op, int tile, const void *at, int64_t stride)
{
    AmxInstruction i = { .op = op, .tile = { tile }, .scale = (int)next(4) };
    do i.base = (int)next(16);
    while (i.base == 4);
    do i.index = (int)next(16);
    while (i.index == 4 || i.index == i.base);
    i.displacement = next(2) ? (int)next(256) - 128 : (int)next(1 << 20) - (1 << 19);
    execute(&i, (const char *)at - i.displacement, stride >> i.scale);
}

static void on_tiles(AmxOp op, int to, int a, int b)
{
    AmxInstruction i = { .op = op, .tile = { to, a, b }, .base = 0, .index = 1 };
    execute(&i, NULL, 0);
}

/* --- what they do ------------------------------------------------------------------------------------ */

typedef struct Machine {
    _Alignas(64) unsigned char config[64];
    unsigned char tile[N_TILES][ROWS][ROW_BYTES];
} Machine;

static void set_size(Machine *m, int t, int rows, int bytes)
{
    m->config[16 + 2 * t] = (unsigned char)bytes;
    m->config[48 + t] = (unsigned char)rows;
}
static int rows_of(const Machine *m, int t) { return m->config[48 + t]; }
static int bytes_of(const Machine *m, int t) { return m->config[16 + 2 * t]; }

static float zero_if_denormal(float x) { return x != 0 && fabsf(x) < FLT_MIN ? copysignf(0, x) : x; }

static float number(AmxOp op, const unsigned char *at)
{
    uint16_t h;
    memcpy(&h, at, 2);
    if (op == AMX_TDPBF16PS) {
        uint32_t bits = (uint32_t)h << 16;
        float x;
        memcpy(&x, &bits, 4);
        return zero_if_denormal(x);
    }
    int e = h >> 10 & 31, m = h & 1023;
    double x = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return (float)(h >> 15 ? -x : x);
}

static float add_product(float sum, float a, float b)
{ return zero_if_denormal((float)((__float128)a * b + sum)); }

static void product(Machine *m, AmxOp op, int to, int a, int b)
{
    for (int r = 0; r < rows_of(m, to); r++)
        for (int n = 0; n < bytes_of(m, to) / 4; n++) {
            unsigned char *c = m->tile[to][r] + 4 * n;
            float even = 0, odd = 0, x;
            uint32_t sum;
            memcpy(&sum, c, 4);
            memcpy(&x, c, 4);
            for (int k = 0; k < bytes_of(m, a) / 4; k++) {
                const unsigned char *p = m->tile[a][r] + 4 * k, *q = m->tile[b][k] + 4 * n;
                if (op == AMX_TDPBF16PS || op == AMX_TDPFP16PS) {
                    even = add_product(even, number(op, p), number(op, q));
                    odd = add_product(odd, number(op, p + 2), number(op, q + 2));
                    continue;
                }
                bool sa = op == AMX_TDPBSSD || op == AMX_TDPBSUD, sb = op == AMX_TDPBSSD || op == AMX_TDPBUSD;
                for (int j = 0; j < 4; j++)
                    sum += (uint32_t)((sa ? (signed char)p[j] : p[j]) * (sb ? (signed char)q[j] : q[j]));
            }
            x = zero_if_denormal(zero_if_denormal(x) + zero_if_denormal(even + odd));
            memcpy(c, op == AMX_TDPBF16PS || op == AMX_TDPFP16PS ? (void *)&x : (void *)&sum, 4);
        }
}

/* --- comparison -------------------------------------------------------------------------------------- */

static bool same_words(const unsigned char *got, const unsigned char *want, int bytes, bool floats)
{
    for (int k = 0; k + 4 <= bytes; k += 4) {
        float x, y;
        memcpy(&x, got + k, 4);
        memcpy(&y, want + k, 4);
        if (memcmp(&x, &y, 4) && !(floats && isnan(x) && isnan(y))) return false;
    }
    return !memcmp(got + bytes / 4 * 4, want + bytes / 4 * 4, (size_t)bytes % 4);
}

/* A tile in memory of guard bytes. */
static void stored_is_right(const Machine *m, int t, bool floats, const char *what)
{
    enum { ROOM = 8192, GUARD = 0x5a };
    static _Thread_local unsigned char memory[ROOM];
    int64_t stride = 64 + 8 * (int64_t)next(40);
    bool back = next(2), ok = true;
    memset(memory, GUARD, sizeof memory);
    unsigned char *at = back ? memory + ROWS * stride : memory + next(8);
    if (back) stride = -stride;
    in_memory(AMX_TILESTORED, t, at, stride);
    for (int r = 0; r < rows_of(m, t); r++) {
        ok &= same_words(at + r * stride, m->tile[t][r], bytes_of(m, t), floats);
        memset(at + r * stride, GUARD, (size_t)bytes_of(m, t));
    }
    for (int k = 0; k < ROOM; k++) ok &= memory[k] == GUARD;
    expect(ok, what);
}

/* Bytes; halves or floats near one, or of bf16 so small that products and sums are denormal or hardly not; in
 * some rounds of all sizes, infinite and NaN. */
static void fill(unsigned char *at, int bytes, AmxOp op, bool sums, int kind)
{
    enum { ANY, SMALL };
    bool brief = op == AMX_TDPBF16PS;
    for (int k = 0; k < bytes; k++) at[k] = (unsigned char)next(256);
    if ((!brief && op != AMX_TDPFP16PS) || kind == ANY) return;
    for (int k = 0; k + 2 <= bytes; k += 2) {
        unsigned low = brief ? kind == SMALL ? 0x1e80 : 0x3e00 : 0x3400, range = brief ? 0x200 : 0xe00;
        uint16_t h = (uint16_t)(next(2) << 15 | (low + next(range)));
        if (!next(200)) h &= brief ? 0x807f : 0x83ff;
        if (!brief && kind == SMALL) h &= 0x8000; /* no product of f16 is denormal, but sums are */
        if (!sums) memcpy(at + k, &h, 2);
        else if (k % 4 == 2) at[k + 1] = (unsigned char)(kind == SMALL ? next(2) << 7 : 0x3d + next(5));
    }
}

static void load(Machine *m, int t, AmxOp op, bool sums, int kind)
{
    static _Thread_local unsigned char memory[8192];
    int64_t stride = 64 + 8 * (int64_t)next(40);
    for (int r = 0; r < ROWS; r++) {
        memset(m->tile[t][r], 0, ROW_BYTES);
        if (r >= rows_of(m, t)) continue;
        fill(m->tile[t][r], bytes_of(m, t), op, sums, kind);
        memcpy(memory + r * stride, m->tile[t][r], (size_t)bytes_of(m, t));
    }
    in_memory(next(2) ? AMX_TILELOADD : AMX_TILELOADDT1, t, memory, stride);
}

/* --- the tests --------------------------------------------------------------------------------------- */

static const AmxOp products[] = { AMX_TDPBF16PS, AMX_TDPFP16PS, AMX_TDPBSSD, AMX_TDPBSUD, AMX_TDPBUSD,
    AMX_TDPBUUD };
enum { N_PRODUCTS = sizeof products / sizeof *products };

static bool has_halves(void)
{
    unsigned a, b, c, d;
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(1));
    return !amx_machine_is_real() || a >> 21 & 1;
}

/* Three sums, three left and two right operands in any registers. */
static void one_round(AmxOp op)
{
    Machine m = { .config = { 1 } };
    _Alignas(64) unsigned char back[64];
    int order[N_TILES], rows = 1 + (int)next(ROWS), columns = 1 + (int)next(16), depth = 1 + (int)next(16);
    int kind = (int)next(4);
    for (int k = 0; k < N_TILES; k++) order[k] = k;
    for (int k = N_TILES; k-- > 1;) {
        int j = (int)next((uint32_t)k + 1), t = order[k];
        order[k] = order[j];
        order[j] = t;
    }
    for (int k = 0; k < N_TILES; k++)
        set_size(&m, order[k], k < 6 ? rows : depth, k < 3 || k >= 6 ? 4 * columns : 4 * depth);
    in_memory(AMX_LDTILECFG, 0, m.config, 0);
    in_memory(AMX_STTILECFG, 0, back, 0);
    expect(!memcmp(m.config, back, sizeof back), "sttilecfg does not give what ldtilecfg took");
    stored_is_right(&m, order[0], false, "ldtilecfg does not clear tiles");
    for (int k = 0; k < N_TILES; k++) load(&m, order[k], op, k < 3, kind);
    for (int k = 0; k < 4; k++) {
        int to = order[next(3)], a = order[3 + next(3)], b = order[6 + next(2)];
        on_tiles(op, to, a, b);
        product(&m, op, to, a, b);
    }
    int none = (int)next(N_TILES);
    on_tiles(AMX_TILEZERO, none, 0, 0);
    memset(m.tile[none], 0, sizeof m.tile[none]);
    for (int k = 0; k < N_TILES; k++)
        stored_is_right(&m, k, op == AMX_TDPBF16PS || op == AMX_TDPFP16PS, amx_op_names[op]);
    if (next(2)) on_tiles(AMX_TILERELEASE, 0, 0, 0);
    else {
        memset(m.config, 0, sizeof m.config);
        in_memory(AMX_LDTILECFG, 0, m.config, 0);
    }
    memset(back, 1, sizeof back);
    in_memory(AMX_STTILECFG, 0, back, 0);
    for (int k = 0; k < 64; k++) expect(back[k] == 0, "the tile registers are not released");
}

static void *rounds(void *first)
{
    seed = *(const uint32_t *)first;
    for (int n = 0; n < 25; n++)
        for (int p = 0; p < N_PRODUCTS; p++)
            if (products[p] != AMX_TDPFP16PS || has_halves()) one_round(products[p]);
    return NULL;
}

static void test_threads(void)
{
    enum { N_THREADS = 3 };
    pthread_t threads[N_THREADS];
    uint32_t first[N_THREADS];
    for (int k = 0; k < N_THREADS; k++) {
        first[k] = 77 + (uint32_t)k;
        if (pthread_create(&threads[k], NULL, rounds, &first[k])) abort();
    }
    for (int k = 0; k < N_THREADS; k++) pthread_join(threads[k], NULL);
}

/* Rounding, flush-to-zero and masks of the caller change no result, and stay as they were. */
static void test_float_state(void)
{
    static const unsigned states[] = { 0x5f80, 0x3f80, 0x7f80, 0xffc0, 0x1f80 };
    for (unsigned k = 0; k < sizeof states / sizeof *states; k++) {
        Machine m = { .config = { 1 } };
        for (int t = 0; t < 3; t++) set_size(&m, t, 16, 64);
        in_memory(AMX_LDTILECFG, 0, m.config, 0);
        for (int t = 0; t < 3; t++) load(&m, t, AMX_TDPBF16PS, t == 0, 2);
        _mm_setcsr(states[k]);
        on_tiles(AMX_TDPBF16PS, 0, 1, 2);
        unsigned after = _mm_getcsr();
        _mm_setcsr(0x1f80);
        product(&m, AMX_TDPBF16PS, 0, 1, 2);
        expect(after == states[k], "the caller's floating-point state changes");
        stored_is_right(&m, 0, true, "the caller's floating-point state changes a product");
        on_tiles(AMX_TILERELEASE, 0, 0, 0);
    }
}

/* Uses that the processor refuses. */
static void refused(int which)
{
    static const signed char sizes[][3] = { { 17, 64, 0 }, { 16, 68, 0 }, { 0, 4, 0 }, { 4, 0, 0 } };
    Machine m = { .config = { 1 } };
    for (int t = 0; t < 4; t++) set_size(&m, t, 16 - (t == 3), 64);
    if (which < 4) set_size(&m, 5, sizes[which][0], sizes[which][1]);
    if (which == 4) m.config[0] = 2;
    if (which == 5) m.config[9] = 1;
    if (which == 6) m.config[56] = 16; /* a ninth tile */
    if (which != 7) in_memory(AMX_LDTILECFG, 0, m.config, 0);
    switch (which) {
    case 7: on_tiles(AMX_TILEZERO, 0, 0, 0); break;
    case 8: on_tiles(AMX_TILEZERO, 6, 0, 0); break;
    case 9: on_tiles(AMX_TDPBSSD, 0, 1, 1); break;
    case 10: on_tiles(AMX_TDPBSSD, 0, 0, 1); break;
    case 11: on_tiles(AMX_TDPBF16PS, 0, 3, 1); break;
    case 12: on_tiles(AMX_TDPBF16PS, 0, 1, 3); break;
    case 13: in_memory(AMX_TILELOADD, 7, m.config, 0); break;
    default: break;
    }
}

static void test_refused(void)
{
    for (int which = 0; which < 14; which++) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            fclose(stderr);
            refused(which);
            _exit(0);
        }
        bool killed = child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status);
        if (!killed) printf("case %d: ", which);
        expect(killed, "a use that the processor refuses is accepted");
    }
}

/* --- AVX-VNNI ---------------------------------------------------------------------------------------- */

/* The instruction with this opcode on registers 9, 10 and 11, or memory in the place of the last. */
#define VNNI(BYTES) \
    __asm__ volatile( \
        "vmovdqu (%0), %%ymm9\n\tvmovdqu (%1), %%ymm10\n\tvmovdqu (%2), %%ymm11\n\t.byte " BYTES \
        "\n\tvmovdqu %%ymm9, (%0)" \
        : \
        : "r"(sums), "r"(a), "a"(b) \
        : "memory", "xmm9", "xmm10", "xmm11")
#define VNNI_FORMS(OPCODE) \
    if (form == 0) VNNI("0xc4, 0x42, 0x2d, " OPCODE ", 0xcb"); \
    else if (form == 1) VNNI("0xc4, 0x62, 0x2d, " OPCODE ", 0x08"); \
    else VNNI("0xc4, 0x42, 0x29, " OPCODE ", 0xcb")

static void execute_dots(int opcode, int form, int32_t *sums, const unsigned char *a, const unsigned char *b)
{
    switch (opcode) {
    case 0x50: VNNI_FORMS("0x50"); break;
    case 0x51: VNNI_FORMS("0x51"); break;
    case 0x52: VNNI_FORMS("0x52"); break;
    default: VNNI_FORMS("0x53"); break;
    }
}

static int32_t dots_of(int opcode, int32_t sum, const unsigned char *a, const unsigned char *b)
{
    int64_t all = sum;
    for (int k = 0; k < 4 && opcode < 0x52; k++) all += a[k] * (signed char)b[k];
    for (int k = 0; k < 4 && opcode >= 0x52; k += 2)
        all += (int64_t)(int16_t)(a[k] | a[k + 1] << 8) * (int16_t)(b[k] | b[k + 1] << 8);
    if (opcode & 1) return all > INT32_MAX ? INT32_MAX : all < INT32_MIN ? INT32_MIN : (int32_t)all;
    return (int32_t)(uint32_t)all;
}

static void test_dots(void)
{
    for (int n = 0; n < 600; n++) {
        unsigned char a[32], b[32];
        int32_t sums[8], want[8];
        int opcode = 0x50 + n % 4, form = n / 4 % 3;
        bool ends = next(2);
        for (int k = 0; k < 32; k++) {
            a[k] = (unsigned char)(ends ? 255 * next(2) : next(256));
            b[k] = (unsigned char)(ends ? 127 + next(2) : next(256));
        }
        for (int k = 0; k < 8; k++) {
            sums[k] = (int32_t)(next(1 << 16) << 16 | next(1 << 16));
            if (ends) sums[k] = next(2) ? INT32_MAX - (int32_t)next(99) : INT32_MIN + (int32_t)next(99);
            want[k] = form == 2 && k >= 4 ? 0 : dots_of(opcode, sums[k], a + 4 * k, b + 4 * k);
        }
        execute_dots(opcode, form, sums, a, b);
        expect(!memcmp(sums, want, sizeof want), "AVX-VNNI");
    }
}

int main(void)
{
    uint32_t first = 1;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        printf("this machine has no AVX2\n");
        return 77;
    }
    amx_machine_start(false);
    if (syscall(SYS_arch_prctl, 0x1023, 18)) {
        printf("the operating system refuses the state of tile registers\n");
        return 77;
    }
    rounds(&first);
    test_dots();
    test_float_state();
    test_threads();
    test_refused();
    for (int k = 0; k < N_AMX_OPS; k++)
        expect(amx_machine_is_real() || amx_counts->op[k] > 0, "an instruction was never executed");
    printf("%d checks, %d failures\n", checks, failures);
    return failures || !checks;
}
