/* emit_coord.c: coordinates of registers as C expressions: formulas for tables of numbers, the parts of a
 * thread and of a register. */
#include "backends/gpu/emit.h"
#include "ir/text.h"
#include <stdlib.h>

const Layout *layout_of(Emit *e, const Value *v) { return layouts_get(&e->plan->layouts, v->type); }

/* Expresses a table as a sum over mixed-radix digits of its index: sizes and strides. Returns the number of
 * digits, or -1 if that is not possible. */
static int digits_of(const int32_t *t, int n, int *size, int *stride)
{
    int d = 1, k = 0;
    if (t[0] != 0) return -1;
    while (d < n) {
        int c = t[d], m = 1;
        for (int j = 2; j * d <= n; j++) {
            bool ok = true;
            for (int x = 0; ok && x < d; x++) ok = t[(j - 1) * d + x] == (j - 1) * c + t[x];
            if (!ok) break;
            if (n % (j * d) == 0) m = j;
        }
        if (m == 1) return -1;
        if (k == 16) return -1;
        size[k] = m;
        stride[k++] = c;
        d *= m;
    }
    return k;
}

static const char *xor_formula(Emit *e, const int32_t *t, int n, const char *i)
{
    if (n & (n - 1)) return NULL;
    for (int x = 0; x < n; x++) {
        int v = 0;
        for (int b = 0; 1 << b < n; b++)
            if (x >> b & 1) v ^= t[1 << b];
        if (v != t[x]) return NULL;
    }
    const char *r = "0";
    for (int b = 0; 1 << b < n; b++)
        if (t[1 << b]) r = str(e, "%s ^ ((%s) >> %d & 1) * %d", r, i, b, t[1 << b]);
    return str(e, "(%s)", r);
}

bool linear_index(const char *i, int *scale, const char **name, int *add)
{
    size_t n;
    *scale = 1;
    *add = 0;
    while (*i == '(') i++;
    if (irtext_digit(*i)) {
        char *end;
        *scale = (int)strtol(i, &end, 10);
        if (strncmp(end, " * ", 3)) return false;
        i = end + 3;
    }
    for (n = 0; irtext_name_char(i[n]); n++) {}
    if (!n || irtext_digit(*i)) return false;
    *name = i;
    i += n;
    while (*i == ')') i++;
    if (!strncmp(i, " + ", 3)) {
        char *end;
        *add = (int)strtol(i + 3, &end, 10);
        if (end == i + 3) return false;
        i = end;
        while (*i == ')') i++;
    }
    return !*i && *scale > 0;
}

const char *index_formula(Emit *e, const int32_t *table, int n, const char *i)
{
    char *end;
    long fixed = strtol(i, &end, 10);
    if (!*end && fixed >= 0 && fixed < n) return str(e, "%d", table[fixed]);
    int size[16], stride[16], scale, add, div = 1;
    const char *name;
    /* For an index a * v + b, only every a-th entry is ever used. */
    if (linear_index(i, &scale, &name, &add) && scale < n && add < n) {
        size_t len = 0;
        while (irtext_name_char(name[len])) len++;
        i = str(e, "%.*s", (int)len, name);
        if (scale > 1 || add) {
            int m = (n - add + scale - 1) / scale;
            int32_t *part = arena_array(&e->s->arena, int32_t, (size_t)m);
            for (int k = 0; k < m; k++) part[k] = table[k * scale + add];
            table = part;
            n = m;
        }
    } else i = str(e, "(%s)", i);
    int base = table[0];
    int32_t *t = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int k = 0; k < n; k++) t[k] = table[k] - base;
    int nd = digits_of(t, n, size, stride);
    if (nd < 0) {
        const char *x = xor_formula(e, table, n, i);
        if (x) return x;
        /* No formula fits: select among all entries. Unrolling leaves one of them. */
        x = str(e, "%d", table[n - 1]);
        for (int k = n - 2; k >= 0; k--)
            if (table[k] != table[n - 1]) x = str(e, "%s == %d ? %d : %s", i, k, table[k], x);
        return str(e, "(%s)", x);
    }
    const char *r = NULL;
    for (int k = 0; k < nd; k++) {
        if (stride[k]) {
            const char *d = i;
            bool whole = div == 1 && size[k] == n;
            if (div > 1) d = str(e, "%s / %d", d, div);
            if ((int64_t)div * size[k] < n) d = str(e, "%s %% %d", d, size[k]);
            if (stride[k] != 1) d = whole ? str(e, "%d * %s", stride[k], d) : str(e, "%s * %d", d, stride[k]);
            r = r ? str(e, "%s + %s", r, d) : d;
        }
        div *= size[k];
    }
    if (base) r = r ? str(e, "%s + %d", r, base) : str(e, "%d", base);
    if (!r) return "0";
    return strchr(r, ' ') ? str(e, "(%s)", r) : r;
}

static int32_t *register_coords(Emit *e, const Layout *l, int axis)
{
    int n = (int)layout_regs(l);
    int32_t *t = arena_array(&e->s->arena, int32_t, (size_t)n), c[TILE_MAX_RANK];
    for (int r = 0; r < n; r++) {
        layout_element(l, (uint32_t)r, 0, 0, 0, c);
        t[r] = c[axis];
    }
    return t;
}

/* AMD: a coordinate that each step of the enclosing loop computes again. Otherwise the values that depend on
 * it (addresses, masks, index tiles) are held in registers from step to step, which needs more registers than
 * there are. */
const char *in_iteration(Emit *e, const char *name)
{
    for (size_t k = 0; k < e->iteration->coords.len; k++)
        if (e->iteration->coords.data[k].text == name) return e->iteration->coords.data[k].name;
    const char *own = tmp(e, spelled(e, name));
    vec_push(&e->s->arena, &e->iteration->coords, ((ThreadCoord){ name, own }));
    line_in(e, &e->iteration->pre, e->iteration->indent, "const int %s = %s(%s, (i32)%s);", own,
        use(e, "again"), name, e->iteration->counter);
    return own;
}

const char *thread_coord(Emit *e, const Layout *l, int axis)
{
    static const char *const inputs[] = { "0", "lane", "warp", "block" };
    LayoutTerm terms[LAYOUT_MAX_TERMS];
    int n = layout_thread_terms(l, axis, terms);
    const char *x = NULL;
    bool by_lane = false;
    for (int k = 0; k < n; k++) {
        const LayoutTerm *t = &terms[k];
        const char *y = inputs[t->in];
        by_lane |= t->in == LAYOUT_LANE;
        if (t->shift) y = str(e, "(%s >> %d)", y, t->shift);
        if (t->div > 1) y = str(e, "%s / %u", y, t->div);
        if (t->mod) y = str(e, "%s %% %u", y, t->mod);
        if (t->mul != 1) y = str(e, "%s * %u", y, t->mul);
        x = !x ? y : t->xor_ ? str(e, "(%s) ^ (%s)", x, y) : str(e, "%s + %s", x, y);
    }
    if (!x) return "0";
    const char *name = NULL;
    for (size_t k = 0; k < e->coords.len && !name; k++)
        if (!strcmp(e->coords.data[k].text, x)) name = e->coords.data[k].name;
    if (!name) {
        name = str(e, "c%d", (int)e->coords.len);
        name = declare_in(e, e->pre, e->role >= 0 ? 2 : 1, "int", name, x);
        vec_push(&e->s->arena, &e->coords, ((ThreadCoord){ x, name }));
    }
    return e->iteration && by_lane ? in_iteration(e, name) : name;
}

const char *register_coord(Emit *e, const Layout *l, int axis, const char *i)
{ return index_formula(e, register_coords(e, l, axis), (int)layout_regs(l), i); }

const char *coord(Emit *e, const Layout *l, int axis, const char *i)
{
    if (!l->separable) ir_fail(e->s, e->f->loc, "a layout mixes thread and register bits");
    const char *t = thread_coord(e, l, axis),
               *r = index_formula(e, register_coords(e, l, axis), (int)layout_regs(l), i);
    if (!strcmp(t, "0")) return r;
    if (!strcmp(r, "0")) return t;
    if (*r == '(' && strchr(r + 1, '(') == NULL && r[strlen(r) - 1] == ')' && !strpbrk(r, "^?"))
        return str(e, "(%s + %.*s)", t, (int)strlen(r) - 2, r + 1);
    return str(e, "(%s + %s)", t, r);
}

bool coords_equal(int rank, const int32_t *a, const int32_t *b)
{ return !memcmp(a, b, (size_t)rank * sizeof *a); }

int32_t *register_map(Emit *e, const Layout *from, const Layout *to)
{
    if (from == to || layout_equal(from, to)) return NULL;
    int n = (int)layout_regs(from), m = (int)layout_regs(to);
    int32_t *t = arena_array(&e->s->arena, int32_t, (size_t)n), c[TILE_MAX_RANK], d[TILE_MAX_RANK];
    for (int r = 0; r < n; r++) {
        int q = m;
        /* Axes of extent 1 on both sides may be padded in the same way. Compare the positions exactly first,
         * and then with all positions along such axes treated as one. */
        for (int loose = 0; loose < 2 && q == m; loose++) {
            layout_element(from, (uint32_t)r, 0, 0, 0, c);
            for (int a = 0; a < to->rank; a++)
                if (to->tile[a] == 1 && (loose || from->tile[a] != 1)) c[a] = 0;
            for (q = 0; q < m; q++) {
                layout_element(to, (uint32_t)q, 0, 0, 0, d);
                for (int a = 0; a < to->rank; a++)
                    if (to->tile[a] == 1 && (loose || from->tile[a] != 1)) d[a] = 0;
                if (coords_equal(to->rank, c, d)) break;
            }
        }
        if (q == m) ir_fail(e->s, e->f->loc, "a broadcast does not follow its operand's layout");
        t[r] = q;
    }
    return t;
}

const char *map_register(Emit *e, const Layout *from, const Layout *to, const char *i)
{
    const int32_t *t = register_map(e, from, to);
    return t ? index_formula(e, t, (int)layout_regs(from), i) : i;
}
