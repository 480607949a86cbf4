/* random_shapes.c: random kernels of tiles with up to eight axes: see random_kernel.h. A program loads its
 * part of a few tensors, and makes tiles of tiles: permuted, reshaped to any factors, reduced along several
 * axes, scanned, sorted, split, joined, shifted, repeated, gathered. Their last ones are stored. Numbers are
 * whole and small, so that all results are exact; integers of 32 bits may wrap. */
#include "arrange.h"
#include <stdio.h>
#include <string.h>

enum { MOST_AXES = 8, MOST_STORED = 4, MOST_ELEMENTS = 4096, MOST_MADE = 30 };

typedef struct Extents {
    int rank, at[MOST_AXES];
} Extents;
/* kind: `f` of f32, `i` of i32, `b` of bool */
typedef struct Made {
    char name[8], kind;
    Extents e;
} Made;
typedef struct Shapes {
    Arranger *a;
    Made made[MOST_MADE];
    int n, tensors;
} Shapes;

static int elements(const Extents *e)
{
    int n = 1;
    for (int k = 0; k < e->rank; k++) n *= e->at[k];
    return n;
}

/* "4, 8, 2", behind `first` */
static void list(const Extents *e, const char *first, const char *before, char *out, size_t size)
{
    snprintf(out, size, "%s", first);
    for (int k = 0; k < e->rank; k++) arrange_append(out, size, "%s%s%d", *out ? ", " : "", before, e->at[k]);
}

static Extents with(const Extents *e, int axis, int extent)
{
    Extents r = *e;
    r.at[axis] = extent;
    return r;
}

static Extents without(const Extents *e, int axis)
{
    Extents r = { .rank = e->rank - 1 };
    for (int k = 0; k < r.rank; k++) r.at[k] = e->at[k + (k >= axis)];
    return r;
}

static bool same(const Extents *x, const Extents *y)
{
    bool is = x->rank == y->rank;
    for (int k = 0; k < x->rank && is; k++) is = x->at[k] == y->at[k];
    return is;
}

/* Names a tile, unless it is too large. */
static void make(Shapes *x, const Extents *e, char kind, const char *expression)
{
    if (x->n == MOST_MADE || e->rank < 1 || e->rank > MOST_AXES || elements(e) > MOST_ELEMENTS) return;
    Made *m = &x->made[x->n];
    snprintf(m->name, sizeof m->name, "t%d", x->n++);
    m->kind = kind;
    m->e = *e;
    arrange_line(
        x->a, kind == 'f' ? "let %s = clamp(%s, -64.0, 64.0);" : "let %s = %s;", m->name, expression);
}

/* A tile of that kind, rather a late one, that `fits`; NULL: none was met. */
static const Made *find(
    Shapes *x, char kind, bool (*fits)(const Extents *, const Extents *), const Extents *e)
{
    for (int tries = 0; tries < 12; tries++) {
        const int k = chance(x->a, 50) && x->n > 5 ? x->n - 1 - below(x->a, 5) : below(x->a, x->n);
        if (x->made[k].kind == kind && (!fits || fits(&x->made[k].e, e))) return &x->made[k];
    }
    return NULL;
}

/* --- what is made of a tile --- */

static void permuted(Shapes *x, const Made *m)
{
    char order[64] = "", e[160];
    Extents r = m->e;
    int from[MOST_AXES];
    arrange_order(x->a, from, r.rank);
    for (int k = 0; k < r.rank; k++) {
        arrange_append(order, sizeof order, k ? ", %d" : "%d", from[k]);
        r.at[k] = m->e.at[from[k]];
    }
    snprintf(e, sizeof e, "permute(%s, (%s))", m->name, order);
    if (r.rank > 1) make(x, &r, m->kind, e);
}

/* The elements in any factors, with extents of 1 among them. */
static void reshaped(Shapes *x, const Made *m)
{
    char extents[80], e[160];
    Extents r = { 0 };
    for (int left = elements(&m->e); r.rank < MOST_AXES && (left > 1 || !r.rank || chance(x->a, 20));
        r.rank++) {
        int factor = r.rank == MOST_AXES - 1 ? left : 1 + below(x->a, left < 64 ? left : 64);
        while (left % factor) factor--;
        r.at[r.rank] = factor;
        left /= factor;
        if (r.rank == MOST_AXES - 2 && left > 1) r.at[r.rank] *= left, left = 1;
    }
    list(&r, "", "", extents, sizeof extents);
    snprintf(e, sizeof e, "reshape(%s, [%s])", m->name, extents);
    make(x, &r, m->kind, e);
}

static void reduced(Shapes *x, const Made *m)
{
    Arranger *a = x->a;
    const int axis = below(a, m->e.rank), more = below(a, m->e.rank);
    const bool several = more > axis && chance(a, 60), places = !several && chance(a, 30),
               drop = !several && m->e.rank > 1 && chance(a, 50);
    const char *f = m->kind == 'b' ? CHOOSE(a, "any", "all")
                    : places       ? CHOOSE(a, "argmax", "argmin")
                                   : CHOOSE(a, "sum", "max", "min");
    char e[160], axes[16];
    Extents r = with(&m->e, axis, 1);
    if (several) r.at[more] = 1;
    snprintf(axes, sizeof axes, several ? "(%d, %d)" : "%d", axis, more);
    snprintf(e, sizeof e, "%s(%s, axis = %s%s)", f, m->name, axes, drop ? ", drop = true" : "");
    if (drop) r = without(&m->e, axis);
    make(x, &r, places && m->kind != 'b' ? 'i' : m->kind, e);
}

static void scanned(Shapes *x, const Made *m)
{
    Arranger *a = x->a;
    const int axis = below(a, m->e.rank);
    const char *back = CHOOSE(a, "", ", reverse = true");
    char e[160];
    if (m->kind == 'b') return;
    if (m->kind == 'i' && chance(a, 30))
        snprintf(e, sizeof e, "scan(%s, axis = %d, combine = mix%s)", m->name, axis, back);
    else snprintf(e, sizeof e, "%s(%s, axis = %d%s)", CHOOSE(a, "cumsum", "cummax"), m->name, axis, back);
    make(x, &m->e, m->kind, e);
}

static void sorted(Shapes *x, const Made *m)
{
    Arranger *a = x->a;
    const int last = m->e.rank - 1, most = m->e.at[last] < 8 ? m->e.at[last] : 8, k = 1 + below(a, most);
    const bool few = chance(a, 40), place = few && chance(a, 50);
    const Extents r = with(&m->e, last, few ? k : m->e.at[last]);
    char e[160];
    if (m->kind == 'b') return;
    if (few) snprintf(e, sizeof e, "topk(%s, %d)[%d]", m->name, k, place);
    else snprintf(e, sizeof e, "sort(%s%s)", m->name, CHOOSE(a, "", ", descending = true"));
    make(x, &r, place ? 'i' : m->kind, e);
}

static void joined(Shapes *x, const Made *m)
{
    const int axis = below(x->a, m->e.rank);
    const Made *other = find(x, m->kind, same, &m->e);
    char e[160];
    if (!other) return;
    const Extents r = with(&m->e, axis, 2 * m->e.at[axis]);
    snprintf(e, sizeof e, "concat(%s, %s, axis = %d)", m->name, other->name, axis);
    make(x, &r, m->kind, e);
}

static void parted(Shapes *x, const Made *m)
{
    const int axis = below(x->a, m->e.rank), extent = m->e.at[axis];
    int parts = 2 + below(x->a, 7);
    char e[160];
    while (extent % parts) parts--;
    if (parts < 2) return;
    const Extents r = with(&m->e, axis, extent / parts);
    snprintf(e, sizeof e, "split(%s, %d, axis = %d)[%d]", m->name, parts, axis, below(x->a, parts));
    make(x, &r, m->kind, e);
}

static void shifted(Shapes *x, const Made *m)
{
    char e[160];
    if (m->kind == 'b') return;
    snprintf(e, sizeof e, "shift(%s, %d, axis = %d, fill = %s)", m->name, below(x->a, 7) - 3,
        below(x->a, m->e.rank), m->kind == 'f' ? "1.0" : "1");
    make(x, &m->e, m->kind, e);
}

/* Whether the extents are equal but for those of 1. */
static bool beside(const Extents *x, const Extents *y)
{
    bool is = x->rank == y->rank;
    for (int k = 0; k < x->rank && is; k++) is = x->at[k] == y->at[k] || x->at[k] == 1 || y->at[k] == 1;
    return is;
}

static void combined(Shapes *x, const Made *m)
{
    Arranger *a = x->a;
    const Made *other = find(x, m->kind, beside, &m->e);
    const char *op = m->kind == 'f'   ? CHOOSE(a, "+", "-")
                     : m->kind == 'b' ? CHOOSE(a, "&&", "||", "^")
                                      : CHOOSE(a, "+", "-", "*", "^", "&", "|");
    char e[160];
    if (!other) return;
    Extents r = m->e;
    for (int k = 0; k < r.rank; k++)
        if (other->e.at[k] > r.at[k]) r.at[k] = other->e.at[k];
    snprintf(e, sizeof e, "%s %s %s", m->name, op, other->name);
    make(x, &r, m->kind, e);
}

static void converted(Shapes *x, const Made *m)
{
    Arranger *a = x->a;
    char e[160], kind = m->kind == 'b' ? 'i' : CHOOSE(a, "b", "i", "f")[0];
    if (kind == 'b') snprintf(e, sizeof e, m->kind == 'f' ? "%s > 0.0" : "%s %% 3 == 1", m->name);
    else if (kind == 'i') snprintf(e, sizeof e, "i32(%s)", m->name);
    else snprintf(e, sizeof e, "f32(%s %s)", m->name, m->kind == 'i' ? "% 64" : "");
    make(x, &m->e, kind, e);
}

static void chosen(Shapes *x, const Made *m)
{
    const Made *mask = find(x, 'b', same, &m->e), *other = find(x, m->kind, same, &m->e);
    char e[160];
    if (!mask || !other) return;
    snprintf(e, sizeof e, "where(%s, %s, %s)", mask->name, m->name, other->name);
    make(x, &m->e, m->kind, e);
}

static void repeated(Shapes *x, const Made *m)
{
    const int axis = below(x->a, m->e.rank);
    char extents[80], e[160];
    if (m->e.at[axis] != 1) return;
    const Extents r = with(&m->e, axis, ONE_OF(x->a, 2, 3, 4, 8));
    list(&r, "", "", extents, sizeof extents);
    snprintf(e, sizeof e, "broadcast(%s, [%s])", m->name, extents);
    make(x, &r, m->kind, e);
}

static void gathered(Shapes *x, const Made *m)
{
    char e[160];
    if (m->kind != 'i') return;
    snprintf(e, sizeof e, "gather(TABLE[clamp(index(%s & 15), 0, L - 1)])", m->name);
    make(x, &m->e, 'i', e);
}

/* --- the kernel --- */

static void parameter(
    Shapes *x, const char *role, const char *name, const char *dims, const char *type, const char *fill)
{
    RandomKernel *k = x->a->k;
    const char *comma = x->tensors++ ? ", " : "";
    arrange_append(k->text, sizeof k->text, "%s%s %s %s[%s]", comma, role, type, name, dims);
    arrange_append(
        k->tensors, sizeof k->tensors, "%s%s %s[%s] %s %s", *comma ? "; " : "", role, name, dims, type, fill);
    arrange_append(k->launch, sizeof k->launch, " %s", name);
}

static void load_some(Shapes *x)
{
    Arranger *a = x->a;
    for (int t = 0, n = 1 + below(a, 3); t < n; t++) {
        const char *type = CHOOSE(a, "i32", "i32", "f32", "f16", "i8", "u8", "i64");
        const bool odd = chance(a, 50), real = *type == 'f';
        char name[8], dims[80], window[120], e[160];
        Extents r = { .rank = 1 + below(a, 4) };
        for (int k = 0; k < r.rank; k++)
            r.at[k] = odd ? ONE_OF(a, 2, 3, 5, 7, 1, 9) : ONE_OF(a, 1, 2, 4, 8, 16, 4);
        while (elements(&r) > MOST_ELEMENTS) r.rank--;
        snprintf(name, sizeof name, "X%d", t % 10);
        list(&r, "G", "", dims, sizeof dims);
        list(&r, "p", "0 +: ", window, sizeof window);
        snprintf(e, sizeof e, "%s(load(%s[%s]))", real ? "f32" : "i32", name, window);
        make(x, &r, real ? 'f' : 'i', e);
        parameter(x, "in", name, dims, type, CHOOSE(a, "int:2", "int:9", "int:60"));
    }
}

static void store_last(Shapes *x)
{
    int stored = 0;
    for (int k = x->n - 1; k >= 0 && stored < MOST_STORED; k--) {
        const Made *m = &x->made[k];
        char name[8], dims[80], window[120];
        if (m->e.rank > 5) continue; /* the axes of a test's tensor */
        snprintf(name, sizeof name, "O%d", stored++ % 10);
        list(&m->e, "G", "", dims, sizeof dims);
        list(&m->e, "p", "0 +: ", window, sizeof window);
        arrange_line(x->a, "store(%s[%s], %s);", name, window, m->name);
        parameter(x, "out", name, dims, m->kind == 'f' ? "f32" : m->kind == 'i' ? "i32" : "bool", "");
    }
}

void random_shapes(uint64_t seed, RandomKernel *out)
{
    static void (*const all[])(Shapes *, const Made *) = { permuted, permuted, reshaped, reshaped, reduced,
        reduced, reduced, scanned, sorted, joined, parted, shifted, combined, combined, combined, converted,
        converted, chosen, repeated, gathered };
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 7 + 5 } }, *a = &arranger;
    Shapes shapes = { .a = a }, *x = &shapes;
    const char *hint = chance(a, 40) ? CHOOSE(a, " hint (warps = 1)", " hint (warps = 2)",
                                           " hint (warps = 8)", " hint (pack = 2)")
                                     : "";
    arrange_append(out->text, sizeof out->text, "fn mix(a, b) { return a ^ b; }\nkernel random(");
    arrange_append(out->launch, sizeof out->launch, "random");
    a->indent = 1;
    arrange_line(a, "grid (G)%s", hint);
    a->indent = 0;
    arrange_line(a, "{");
    a->indent = 1;
    arrange_line(a, "let p = program_id();");
    load_some(x);
    parameter(x, "in", "TABLE", "L", "i32", "int:50");
    for (int k = 0, n = 5 + below(a, 22); k < n; k++)
        all[below(a, (int)(sizeof all / sizeof *all))](x, &x->made[below(a, x->n)]);
    store_last(x);
    a->indent = 0;
    arrange_line(a, "}");
    arrange_append(out->text, sizeof out->text, ")\n%s", a->body);
    snprintf(out->sizes, sizeof out->sizes, "G=%d L=%d", 1 + below(a, 4), 1 + below(a, 16));
    snprintf(out->bounds, sizeof out->bounds, "0 0 0");
}
