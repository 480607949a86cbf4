/* cuda_source.c: the prelude's functions with inline assembly go (device.h has them), wrappers of wgmma are
 * made from the instruction that they hold, statements say in which line they stand. */
#include "tests/emu/cuda_source.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool holds(const char *p, size_t n, const char *what)
{
    size_t m = strlen(what);
    for (; n >= m; p++, n--)
        if (!strncmp(p, what, m)) return true;
    return false;
}

/* --- wgmma ------------------------------------------------------------------------------------------- */

static const char *type_named(const char *p, size_t n)
{
    static const char *const names[][2] = { { "f16", "EMU_F16" }, { "bf16", "EMU_BF16" },
        { "tf32", "EMU_TF32" }, { "e4m3", "EMU_E4M3" }, { "e5m2", "EMU_E5M2" }, { "s8", "EMU_S8" },
        { "u8", "EMU_U8" } };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strlen(names[k][0]) == n && !strncmp(names[k][0], p, n)) return names[k][1];
    return NULL;
}

/* The immediates behind the last register operand: p (scale-d), then for floats two signs, then for 16 bits
 * which operands run along M, N. */
static int immediates(const char *p, int *out)
{
    int n = 0;
    for (p = strstr(p, ", p"), p += p ? 3 : 0; p && *p == ','; n++)
        out[n] = (int)strtol(p + 1, (char **)&p, 10);
    return n;
}

/* wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {...}, a, b, p, 1, 1, 0, 1; False: not in this form. */
bool cuda_write_wgmma(FILE *f, const char *text, size_t n)
{
    const char *at = strstr(text, "wgmma.mma_async.sync.aligned."), *head = memchr(text, '{', n);
    int rows, cols, k, used = 0, im[8] = { 0 };
    if (!head || !at || at >= text + n ||
        sscanf(at, "wgmma.mma_async.sync.aligned.m%dn%dk%d.%n", &rows, &cols, &k, &used) < 3 || !used ||
        rows != 64)
        return false;
    const char *d = at + used, *a = strchr(d, '.') + 1, *b = strchr(a, '.') + 1;
    bool registers = holds(text, (size_t)(head - text), "*a,"), integer = !strncmp(d, "s32", 3);
    const char *ta = type_named(a, (size_t)(b - 1 - a)), *tb = type_named(b, strcspn(b, " "));
    const char *close = strchr(at, '}');
    int n_im = immediates(close, im), at_trans = integer ? 0 : 2;
    if (!ta || !tb || (!integer && (im[0] != 1 || im[1] != 1))) return false;
    int trans_a = !registers && n_im > at_trans ? im[at_trans] : 0,
        trans_b = n_im > at_trans ? im[n_im - 1] : 0;
    fprintf(f, "%.*s{ static const EmuProduct p = { %d, %d, %s, %s, %d, %d, %d }; ", (int)(head - text), text,
        cols, k, ta, tb, trans_a, trans_b, integer);
    int steps = 1;
    for (const char *next = at; (next = strstr(next + 1, "wgmma.mma_async")) && next < text + n;) steps++;
    if (holds(text, (size_t)(head - text), "*blo"))
        fprintf(f, "for (int k = 0; k < %d; k++) emu_wgmma(&p, d, %s, blo[k], bhi, k ? 1 : acc); }\n", steps,
            registers ? "a + 4 * k, 0, 0" : "NULL, alo[k], ahi");
    else fprintf(f, "emu_wgmma(&p, d, %s, blo, bhi, acc); }\n", registers ? "a, 0, 0" : "NULL, alo, ahi");
    return true;
}

/* --- faults ------------------------------------------------------------------------------------------ */

/* What is done to a call: left out, or its last argument changed. */
static const struct {
    const char *call, *what, *change;
} planted[] = {
    { "mbar_wait(", "a wait left out" },
    { "mbar_wait(", "the other phase", " ^ (emu_mutant == %d)" },
    { "mbar_wait_acquire(", "a wait left out" },
    { "mbar_wait_acquire(", "the other phase", " ^ (emu_mutant == %d)" },
    { "mbar_test(", "the other phase", " ^ (emu_mutant == %d)" },
    { "mbar_arrive(", "an arrival left out" },
    { "mbar_arrive_at(", "an arrival left out" },
    { "mbar_wait_cluster(", "a wait left out" },
    { "mbar_wait_cluster(", "the other phase", " ^ (emu_mutant == %d)" },
    { "mbar_expect(", "no bytes expected" },
    { "mbar_expect(", "16 bytes more expected", " EMU_PLUS(%d, 16)" },
    { "mbar_expect(", "16 bytes fewer expected", " EMU_PLUS(%d, -16)" },
    { "mbar_init(", "an arrival more", " EMU_PLUS(%d, 1)" },
    { "mbar_init(", "an arrival fewer", " EMU_PLUS(%d, -1)" },
    { "fence_mbarrier_init(", "a fence left out" },
    { "fence_proxy_async(", "a fence left out" },
    { "fence_cluster(", "a fence left out" },
    { "fence_device(", "a fence left out" },
    { "wgmma_fence(", "a fence left out" },
    { "wgmma_commit(", "a commit left out" },
    { "wgmma_wait(", "a wait left out" },
    { "wgmma_wait(", "one group more in flight", " EMU_PLUS(%d, 1)" },
    { "tma_load_", "a copy left out" },
    { "tma_multicast_", "a copy left out" },
    { "tma_store_", "a store left out" },
    { "red_add_", "an addition left out" },
    { "bulk_commit(", "a commit left out" },
    { "bulk_wait(", "a wait left out" },
    { "bulk_wait_read(", "a wait left out" },
    { "bulk_wait_read(", "one group more in flight", " EMU_PLUS(%d, 1)" },
    { "send_", "a part not sent" },
    { "cluster_arrive(", "an arrival left out" },
    { "cluster_wait(", "a wait left out" },
    { "setmaxnreg_dec(", "registers kept" },
    { "scheduler_done(", "the tile scheduler's counter not reset" },
    { "grid_wait(", "a wait left out" },
    { "__syncthreads(", "a barrier left out" },
    { "bar_sync(", "a barrier left out" },
    { "bar_arrive(", "an arrival left out" },
    { "warp_sync(", "a warp barrier left out" },
    { "cp_async_wait(", "a wait left out" },
    { "cp_async_wait(", "one group more in flight", " EMU_PLUS(%d, 1)" },
    { "cp_async_commit(", "a commit left out" },
};

typedef struct Span {
    const char *p;
    size_t n;
} Span;

static void copy_trimmed(char *out, size_t size, Span s)
{
    while (s.n && *s.p == ' ') {
        s.p++;
        s.n--;
    }
    snprintf(out, size, "%.*s", (int)s.n, s.p);
}

static int note(Faults *faults, int line, const char *what, Span here, Span before)
{
    Fault *x = &faults->list[faults->n];
    *x = (Fault){ .line = line, .what = what };
    copy_trimmed(x->text, sizeof x->text, here);
    copy_trimmed(x->before, sizeof x->before, before);
    return faults->n++;
}

FaultsMark faults_mark(const Faults *faults)
{ return faults ? (FaultsMark){ faults->n, faults->emissions, faults->full } : (FaultsMark){ 0 }; }

void faults_forget(Faults *faults, FaultsMark before)
{
    if (!faults) return;
    faults->n = before.n;
    faults->emissions = before.emissions;
    faults->full = before.full;
}

bool faults_whole(const Faults *faults, char *why, size_t size)
{
    if (faults->emissions != 1)
        snprintf(why, size, "faults are in %d texts: the sizes give several kernels", faults->emissions);
    else if (!faults->n) snprintf(why, size, "the text has no place for a fault");
    else if (faults->full) snprintf(why, size, "the text has more places than the %d that fit", MAX_FAULTS);
    else return true;
    return false;
}

static size_t closing(const char *p, size_t i, size_t n)
{
    int depth = 0;
    for (; i < n; i++) {
        depth += p[i] == '(';
        if (p[i] == ')' && !--depth) return i;
    }
    return n;
}

void cuda_plant(FILE *f, Faults *faults, int line, const char *p, size_t n, const char *line_before)
{
    const Span here = { p, n }, before = { line_before, strcspn(line_before, "\n") };
    enum { KINDS = sizeof planted / sizeof *planted };
    for (size_t i = 0; i < n;) {
        int first = KINDS, end = KINDS;
        if (!i || (!isalnum((unsigned char)p[i - 1]) && p[i - 1] != '_'))
            for (int k = KINDS - 1; k >= 0; k--)
                if (!strncmp(p + i, planted[k].call, strlen(planted[k].call))) {
                    first = k;
                    if (end == KINDS) end = k + 1;
                }
        bool room = faults->n + 4 <= MAX_FAULTS;
        faults->full |= first < KINDS && !room;
        if (first == KINDS || !room) {
            fputc(p[i++], f);
            continue;
        }
        size_t close = closing(p, i, n);
        for (int k = first; k < end; k++)
            if (!planted[k].change)
                fprintf(f, "EMU_WITHOUT(%d) ", note(faults, line, planted[k].what, here, before));
        fwrite(p + i, 1, close - i, f);
        for (int k = first; k < end; k++)
            if (planted[k].change) {
                int number = note(faults, line, planted[k].what, here, before);
                fprintf(f, planted[k].change, number, number);
            }
        i = close;
    }
}

/* --- pointers into shared memory --------------------------------------------------------------------- */

/* T *const name = (T *)(shared + x);  ->  const EmuArray<T> name(x);    *(T *)(shared + x)  ->
 * EmuArray<T>(x)[0] */
static const char *with_arrays(const char *p, size_t n, char *out, size_t size)
{
    static const char there[] = " *)(shared + ";
    const char *at = p, *type, *equals, *end;
    while (at + sizeof there < p + n && strncmp(at, there, sizeof there - 1)) at++;
    if (at + sizeof there >= p + n) return NULL;
    for (type = at; type > p && type[-1] != '('; type--) {}
    for (equals = type; equals > p && *equals != '='; equals--) {}
    int t = (int)(at - type);
    const char *offset = at + sizeof there - 1, *name = p;
    while (*name == ' ') name++;
    if (!strncmp(name, type, (size_t)t) && !strncmp(name + t, " *const ", 8)) {
        end = p + n - 2; /* ); */
        snprintf(out, size, "    const EmuArray<%.*s> %.*s(%.*s);", t, type,
            (int)(equals - 1 - (name + t + 8)), name + t + 8, (int)(end - offset), offset);
        return out;
    }
    end = p + closing(p, (size_t)(offset - p) - 10, n);
    if (type[-2] != '*') return NULL;
    snprintf(out, size, "%.*sEmuArray<%.*s>(%.*s)[0]%.*s", (int)(type - 2 - p), p, t, type,
        (int)(end - offset), offset, (int)(p + n - end - 1), end + 1);
    return out;
}

/* static .. ldg_u16(const u16 *p) { return *p; }: what is loaded and stored one by one is watched too. */
static bool write_element(FILE *f, const char *p, size_t n)
{
    static const char head[] = "static __device__ __forceinline__ ";
    const char *body = memchr(p, '{', n), *name = body;
    if (!body || strncmp(p, head, sizeof head - 1)) return false;
    for (name = p; name < body && strncmp(name, " ldg_", 5) && strncmp(name, " stg_", 5); name++) {}
    if (name == body) return false;
    fwrite(p, 1, (size_t)(body - p), f);
    for (const char *q = body; q < p + n; q++) {
        if (strncmp(q, "*p", 2) || isalnum((unsigned char)q[2]) || q[2] == '_') {
            fputc(*q, f);
            continue;
        }
        fputs("emu_global(p)", f);
        q++;
    }
    return true;
}

/* --- the whole --------------------------------------------------------------------------------------- */

/* May a statement stand before this line? Then the line before ends one. */
static bool starts_statement(char last) { return last == ';' || last == '{' || last == '}'; }

/* A function of the prelude that orders the parts of a sum: its fences are places for faults too. */
static bool orders_parts(const char *p, size_t n)
{ return holds(p, n, " void workspace_") || holds(p, n, " u32 workspace_"); }

void cuda_write_source(FILE *f, const GpuCode *code, Faults *faults)
{
    int line = 3;
    char last = 0;
    bool body = false;
    const char *before = "";
    if (faults) faults->emissions++;
    fprintf(f, "#include \"device.h\"\n#define %s emu_kernel_%s\n", code->name,
        code->name); /* A kernel may have the name of a function of libc. */
    for (const char *p = code->text; *p;) {
        size_t n = strcspn(p, "\n"), skip = n;
        if (!strncmp(p, "static __device__ __forceinline__ void wgmma_m", 46)) {
            const char *end = strstr(p, ")); }\n");
            if (end) skip = (size_t)(end + 5 - p);
            if (!end || !cuda_write_wgmma(f, p, skip)) fprintf(f, "#error a wgmma in no known form\n");
            line++;
        } else if (!holds(p, n, "asm(") && !holds(p, n, "asm ") && strncmp(p, "#line", 5)) {
            bool call =
                body && memchr(p, '(', n) && starts_statement(last) && *p == ' ' && !holds(p, n, "else ");
            if (call) fprintf(f, "emu_line = %d; ", line);
            char arrays[1000];
            const char *rewritten =
                body && holds(p, n, "(shared + ") ? with_arrays(p, n, arrays, sizeof arrays) : NULL;
            if (rewritten) fputs(rewritten, f);
            else if (!body && write_element(f, p, n)) {
            } else if (faults && (body || orders_parts(p, n))) cuda_plant(f, faults, line, p, n, before);
            else fwrite(p, 1, n, f);
            fputc('\n', f);
            line++;
            if (n == 1 && *p == '{') body = true;
            if (n && !holds(p, n, "#pragma")) {
                const char *end = strstr(p, "/*") && strstr(p, "/*") < p + n ? strstr(p, "/*") : p + n;
                while (end > p && (end[-1] == ' ' || end[-1] == '\t')) end--;
                if (end > p) last = end[-1];
                before = p;
            }
        }
        p += skip;
        p += *p == '\n';
    }
    fprintf(f, "EMU_ENTRY(%s, %lld, %d, %d, %d)\n", code->name,
        (long long)code->shared_bytes * (code->abreast > 1 ? code->abreast : 1), code->persistent,
        code->cluster, code->early_start);
}
