/* hip_waits.c: see hip_waits.h. */
#include "tests/emit/hip_waits.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGISTERS = 1024, MOST = 8192, IN_FLIGHT = 1024 }; /* v0 to v511, then a0 to a511 */

typedef enum Kind { OTHER, MATRIX, LOAD, TO_LDS, STORE, WAIT } Kind;
typedef struct Operand {
    int first, last;
} Operand;
typedef struct Line {
    Kind kind;
    int count;
    Operand op[6];
    int n, reads_from;
    bool early;
} Line; /* count: of a wait; reads_from: the first operand that is read */

static bool starts(const char *p, const char *what) { return !strncmp(p, what, strlen(what)); }

static bool holds(const char *p, const char *end, const char *what)
{
    size_t n = strlen(what);
    for (; p + n <= end; p++)
        if (!memcmp(p, what, n)) return true;
    return false;
}

/* v7, v[4:7], a[0:15] */
static bool operand(const char *p, Operand *o)
{
    int a, b, base = *p == 'a' ? REGISTERS / 2 : 0;
    if (*p != 'v' && *p != 'a') return false;
    if (sscanf(p + 1, "[%d:%d]", &a, &b) == 2) {
        *o = (Operand){ base + a, base + b };
        return true;
    }
    if (p[1] < '0' || p[1] > '9' || sscanf(p + 1, "%d", &a) != 1) return false;
    *o = (Operand){ base + a, base + a };
    return true;
}

static void parse(const char *p, const char *end, Line *l)
{
    *l = (Line){ 0 };
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    const char *name = p, *comment = memchr(p, ';', (size_t)(end - p));
    if (comment) end = comment;
    bool first_read = starts(p, "ds_write") || starts(p, "ds_store") || holds(p, end, "_store_") ||
                      starts(p, "v_cmp") || starts(p, "ds_swizzle") || holds(p, end, "fmac");
    if (starts(p, "v_mfma_") || starts(p, "v_wmma_") || starts(p, "v_smfma")) l->kind = MATRIX;
    else if (starts(p, "buffer_load") || starts(p, "global_load") || starts(p, "flat_load") ||
             starts(p, "scratch_load"))
        l->kind = holds(p, end, " lds") || holds(p, end, "load_lds") ? TO_LDS : LOAD;
    else if (starts(p, "buffer_store") || starts(p, "global_store") || starts(p, "flat_store") ||
             starts(p, "scratch_store") || starts(p, "global_atomic"))
        l->kind = STORE;
    else if (starts(p, "s_waitcnt") && holds(p, end, "vmcnt(")) {
        while (!starts(p, "vmcnt(")) p++;
        l->kind = WAIT;
        l->count = atoi(p + 6);
        return;
    } else if (starts(p, "s_waitcnt 0") || starts(p, "s_waitcnt_depctr")) return;
    while (p < end && *p != ' ' && *p != '\t') p++;
    if (p == name) return;
    int k = 0;
    for (; p < end && l->n < 6; k++) {
        while (p < end && (*p == ' ' || *p == '\t' || *p == ',')) p++;
        if (operand(p, &l->op[l->n])) {
            if (k == 0 && !first_read) l->reads_from = 1;
            l->n++;
        }
        while (p < end && *p != ',') p += *p == '[' ? strcspn(p, "]") : 1;
    }
    if (l->kind == TO_LDS) l->reads_from = 0;
}

static bool meets(Operand a, Operand b) { return a.first <= b.last && b.first <= a.last; }

/* Is what line k loads read before line `until`? Another load over it, or a write, ends it. */
static bool read_before(const Line *l, int k, int until)
{
    for (int i = k + 1; i < until; i++) {
        for (int o = l[i].reads_from; o < l[i].n; o++)
            if (meets(l[i].op[o], l[k].op[0])) return true;
        if (l[i].reads_from == 1 && l[i].op[0].first <= l[k].op[0].first &&
            l[i].op[0].last >= l[k].op[0].last)
            return false;
    }
    return false;
}

void hip_waits(const char *const from[2], const char *const end[2], int depth, HipWaits *w)
{
    static Line l[MOST];
    int n = 0, last = -1;
    *w = (HipWaits){ 0 };
    for (int piece = 0; piece < 2; piece++)
        for (const char *p = from[piece]; p && p < end[piece] && n < MOST;) {
            const char *e = memchr(p, '\n', (size_t)(end[piece] - p));
            if (!e) e = end[piece];
            parse(p, e, &l[n]);
            if (l[n].kind == MATRIX) {
                last = n;
                w->matrix++;
            }
            n++;
            p = e + 1;
        }
    for (int k = 0; k < n; k++) {
        l[k].early =
            l[k].kind == TO_LDS || (l[k].kind == LOAD && l[k].n && k < last && !read_before(l, k, last + 1));
        w->ahead += l[k].early;
    }
    /* iterations of the loop: the loads in flight, the oldest first */
    struct {
        int line, step;
    } q[IN_FLIGHT];
    int len = 0, steps = depth + 4;
    for (int t = 0; t < steps; t++)
        for (int k = 0; k < n; k++) {
            if (l[k].kind == LOAD || l[k].kind == TO_LDS || l[k].kind == STORE) {
                if (len == IN_FLIGHT) {
                    memmove(q, q + 1, sizeof *q * (IN_FLIGHT - 1));
                    len--;
                }
                q[len].line = k;
                q[len].step = t;
                len++;
            }
            if (l[k].kind != WAIT || l[k].count >= len) continue;
            int gone = len - l[k].count;
            for (int i = 0; i < gone && t == steps - 1; i++) {
                const Line *x = &l[q[i].line];
                int age = t - q[i].step;
                /* loads of this and later iterations, before the products end; to LDS: younger than the
                 * iterations for which they may stay */
                bool soon = x->early && k < last && (x->kind == TO_LDS ? age < depth + 1 : age == 0);
                w->drained += soon;
            }
            memmove(q, q + gone, sizeof *q * (size_t)l[k].count);
            len = l[k].count;
        }
}
