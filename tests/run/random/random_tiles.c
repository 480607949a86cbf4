/* random_tiles.c: see random_program.h: shapes of tiles, and matrix products. */
#include "random_program.h"
#include <stdio.h>
#include <string.h>

/* --- shapes --- */

void program_permute(Program *x)
{
    const Value *v = program_find(x, value_is_tile, NULL);
    char *out = program_text(), order[48] = "";
    if (!v || v->e.rank < 2) return;
    Axes r = v->e;
    int from[PROGRAM_AXES];
    arrange_order(x->a, from, r.rank);
    for (int k = 0; k < r.rank; k++) {
        arrange_append(order, sizeof order, k ? ", %d" : "%d", from[k]);
        r.at[k] = v->e.at[from[k]];
    }
    arrange_write(out, EXPR, "permute(%s, (%s))", value_read(x, v), order);
    program_make(x, v->type, &r, out);
}

/* Any factors of a number of elements, 1 among them. */
static Axes factors(Program *x, int left)
{
    Axes r = { 0 };
    while (r.rank < PROGRAM_AXES - 1 && (left > 1 || !r.rank || chance(x->a, 20))) {
        int factor = 1 + below(x->a, left < 64 ? left : 64);
        while (left % factor) factor--;
        r.at[r.rank++] = factor;
        left /= factor;
    }
    if (left > 1) r.at[r.rank++] = left;
    return r;
}

void program_reshape(Program *x)
{
    const Value *v = program_find(x, value_is_tile, NULL);
    char *out = program_text();
    if (!v) return;
    const Axes r = factors(x, axes_elements(&v->e));
    arrange_write(out, EXPR, "reshape(%s, [%s])", value_read(x, v), axes_list(&r, ""));
    program_make(x, v->type, &r, out);
}

/* More axes, of extent 1, repeated or not. */
void program_widen(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_pick(x);
    char *out = program_text();
    if (v->e.rank == PROGRAM_AXES) return;
    if (!v->e.rank) {
        const Axes r = { .rank = 2, .at = { x->extents[below(a, 4)], x->extents[below(a, 4)] } };
        if (chance(a, 50))
            arrange_write(out, EXPR, "broadcast(%s, [%s])", value_read(x, v), axes_list(&r, ""));
        else arrange_write(out, EXPR, "full([%s], %s)", axes_list(&r, ""), value_read(x, v));
        program_make(x, v->type, &r, out);
        return;
    }
    const int axis = below(a, v->e.rank + 1);
    Axes r = { .rank = v->e.rank + 1 };
    arrange_write(out, EXPR, "%s[", v->name);
    for (int k = 0; k < r.rank; k++) {
        r.at[k] = k == axis ? 1 : v->e.at[k - (k > axis)];
        arrange_append(out, EXPR, "%s%s", k ? ", " : "", k == axis ? "None" : ":");
    }
    arrange_append(out, EXPR, "]");
    if (!v->wild && chance(a, 50)) {
        char kept[EXPR];
        snprintf(kept, sizeof kept, "%s", out);
        r.at[axis] = ONE_OF(a, 2, 3, x->extents[0], x->extents[1]);
        arrange_write(out, EXPR, "broadcast(%s, [%s])", kept, axes_list(&r, ""));
    }
    program_make(x, v->type, &r, out);
}

/* Parts of tiles: by subscripts, by split; shifted; one behind another, also turned by halves. */
void program_part(Program *x)
{
    Arranger *a = x->a;
    const Value *v = program_find(x, value_is_tile, NULL);
    char *out = program_text();
    if (!v) return;
    const int axis = below(a, v->e.rank), extent = v->e.at[axis];
    Axes r = v->e;
    int n = 1 + below(a, 4);
    switch (below(a, 5)) {
    case 0: {
        arrange_write(out, EXPR, "%s[", v->name);
        Axes taken = { 0 };
        for (int k = 0; k < r.rank; k++) {
            const int from = below(a, r.at[k]), most = r.at[k] - from;
            if (k) arrange_append(out, EXPR, ", ");
            if (chance(a, 30)) arrange_append(out, EXPR, "%d", from);
            else if (chance(a, 50)) arrange_append(out, EXPR, ":"), taken.at[taken.rank++] = r.at[k];
            else {
                taken.at[taken.rank] = 1 + below(a, most);
                arrange_append(out, EXPR, "%d +: %d", from, taken.at[taken.rank++]);
            }
        }
        arrange_append(out, EXPR, "]");
        r = taken;
        break;
    }
    case 1:
        while (extent % n) n--;
        r.at[axis] = extent / n;
        arrange_write(out, EXPR, "split(%s, %d, axis = %d)[%d]", value_read(x, v), n, axis, below(a, n));
        break;
    case 2:
        arrange_write(out, EXPR, "shift(%s, %d, axis = %d%s)", value_read(x, v), below(a, 9) - 4, axis,
            v->type == T_BOOL     ? ""
            : type_float(v->type) ? CHOOSE(a, "", ", fill = 1.0")
                                  : ", fill = 1");
        if (v->type == T_BOOL) return;
        break;
    case 3: /* the later part comes first */
        if (extent < 2) return;
        n = 1 + below(a, extent - 1);
        arrange_write(out, EXPR, "concat(%s[", v->name);
        for (int half = 0; half < 2; half++) {
            for (int k = 0; k < r.rank; k++) {
                if (k != axis) arrange_append(out, EXPR, "%s:", k ? ", " : "");
                else if (half) arrange_append(out, EXPR, "%s0 +: %d", k ? ", " : "", n);
                else arrange_append(out, EXPR, "%s%d +: %d", k ? ", " : "", n, extent - n);
            }
            if (!half) arrange_append(out, EXPR, "], %s[", v->name);
        }
        arrange_append(out, EXPR, "], axis = %d)", axis);
        break;
    default: {
        const Value *w = program_find(x, values_beside, &v->e);
        if (!w || !axes_same(&w->e, &v->e)) return;
        r.at[axis] *= 2;
        arrange_write(
            out, EXPR, "concat(%s, %s, axis = %d)", value_read(x, v), value_as(x, w, v->type), axis);
    }
    }
    program_make(x, v->type, &r, out);
}

void program_count(Program *x)
{
    Arranger *a = x->a;
    char *out = program_text();
    const Axes r = { .rank = 1, .at = { x->extents[below(a, 4)] } };
    const Value *v = program_pick(x);
    if (chance(a, 40)) arrange_write(out, EXPR, "arange(%d, start = %d)", r.at[0], below(a, 9) - 4);
    else if (type_whole(v->type) && chance(a, 50)) {
        arrange_write(out, EXPR, "TABLE[%s%s]", v->name, chance(a, 50) ? " % 7" : "");
        program_make(x, T_I32, &v->e, out);
        return;
    } else if (type_whole(v->type)) {
        arrange_write(out, EXPR, "%s(%s, %s)", CHOOSE(a, "philox", "random_bits"), x->v[0].name, v->name);
        program_make(x, T_U32, &v->e, out);
        return;
    } else arrange_write(out, EXPR, "arange(%d)", r.at[0]);
    program_make(x, T_INDEX, &r, out);
}

/* --- products --- */

/* Any tile's elements as a matrix of that many rows, or of any if `rows` is 0; some are turned. */
static const char *matrix_of(Program *x, ValueType t, int *rows, int *cols)
{
    Arranger *a = x->a;
    char *out = program_text();
    for (int tries = 0; tries < 12; tries++) {
        const Value *v = program_find(x, value_is_tile, NULL);
        const int n = v ? axes_elements(&v->e) : 0;
        if (!v || v->type == T_BOOL || (*rows && n % *rows)) continue;
        int r = *rows;
        if (!r && v->e.rank == 2 && chance(a, 70)) r = v->e.at[0];
        if (!r) {
            r = 1 + below(a, n < 64 ? n : 64);
            while (n % r) r--;
        }
        const int c = n / r;
        if (c > 128 || r > 128) continue;
        *rows = r, *cols = c;
        if (v->e.rank == 2 && v->e.at[0] == r) return value_as(x, v, t);
        if (v->e.rank == 2 && v->e.at[1] == r) {
            arrange_write(out, EXPR, "transpose(%s)", value_as(x, v, t));
            return out;
        }
        if (chance(a, 30))
            arrange_write(out, EXPR, "transpose(reshape(%s, [%d, %d]))", value_as(x, v, t), c, r);
        else arrange_write(out, EXPR, "reshape(%s, [%d, %d])", value_as(x, v, t), r, c);
        return out;
    }
    return NULL;
}

static bool is_sum(const Value *v, const void *e)
{
    const Value *as = e;
    bool is = v->type == as->type && v->e.rank == 2;
    for (int k = 0; k < 2 && is; k++) is = v->e.at[k] == as->e.at[k] || v->e.at[k] == 1;
    return is;
}

void program_product(Program *x)
{
    Arranger *a = x->a;
    const ValueType t = (ValueType)ONE_OF(a, T_F16, T_F16, T_BF16, T_F32, T_F64, T_E4M3, T_E5M2, T_I8, T_U8);
    const ValueType u = t == T_I8 && chance(a, 40) ? T_U8 : t == T_E4M3 && chance(a, 40) ? T_E5M2 : t;
    const ValueType sum = type_whole(t) ? T_I32 : t == T_F64 ? T_F64 : T_F32;
    int m = 0, k = 0, n = 0;
    char *out = program_text();
    const char *p = matrix_of(x, t, &m, &k), *q = p ? matrix_of(x, u, &k, &n) : NULL;
    if (!q || m * n > x->most || (long)m * n * k * x->trips > 120000) return;
    const Value as = { .type = sum, .e = { .rank = 2, .at = { m, n } } };
    const Value *acc = chance(a, 60) ? program_find(x, is_sum, &as) : NULL;
    arrange_write(out, EXPR, "mma(%s, %s%s%s%s)", p, q, acc ? ", " : "", acc ? acc->name : "",
        t == T_F32 && chance(a, 30) ? ", precision = tf32" : "");
    if (sum == T_I32) return program_make(x, sum, &as.e, out);
    if (acc && acc->wild && axes_same(&acc->e, &as.e) && !acc->kept) { /* a sum that loops gather */
        arrange_line(a, "%s = %s;", acc->name, out);
        return;
    }
    char *small = program_text();
    *small = 0;
    if (chance(a, 50))
        arrange_write(small, EXPR, "round(%s * %s)", out, CHOOSE(a, "0.125", "0.03125", "0.5"));
    program_make(x, sum, &as.e, *small ? small : out);
}

/* A sum of floats that is clamped only where it is read. */
void program_sum(Program *x)
{
    Arranger *a = x->a;
    const Axes e = { .rank = 2, .at = { x->extents[below(a, 4)], x->extents[below(a, 4)] } };
    if (x->n == MOST_VALUES || axes_elements(&e) > x->most) return;
    Value *v = &x->v[x->n++];
    *v = (Value){ .type = chance(a, 85) ? T_F32 : T_F64, .e = e, .wild = true };
    snprintf(v->name, sizeof v->name, "s%d", a->names++);
    arrange_line(a, "var %s = zeros([%s], %s);", v->name, axes_list(&e, ""), type_name(v->type));
}

/* Where a tile of a product begins: in half of them at a multiple of 16. */
static const char *base(Program *x)
{
    Arranger *a = x->a;
    char *out = program_text();
    if (!chance(a, 70)) return program_place(x);
    if (x->loops && chance(a, 70))
        arrange_write(out, EXPR, "k%d*%d", below(a, x->loops), ONE_OF(a, 16, 32, 64));
    else arrange_write(out, EXPR, "%s", CHOOSE(a, "0", "16", "w*16", "32"));
    return out;
}

/* A tile that memory holds, or an earlier one. */
static const char *loaded(Program *x, ValueType t, int rows, int cols)
{
    Arranger *a = x->a;
    char *out = program_text();
    const bool turned = chance(a, 30);
    const Slice *s = program_slice(x, false, t, 2);
    int r = rows, c = cols;
    const char *known = chance(a, 25) ? matrix_of(x, t, &r, &c) : NULL;
    if (known && c == cols) return known;
    if (!s || s->rank != 2) return NULL;
    arrange_write(out, EXPR,
        turned ? "transpose(load(%s[%s +: %d, %s +: %d]%s))" : "load(%s[%s +: %d, %s +: %d]%s)", s->name,
        base(x), turned ? cols : rows, base(x), turned ? rows : cols,
        CHOOSE(a, "", "", ", latency = 2", ", latency = 3", ", pad = 1.0"));
    return out;
}

static bool is_gathered(const Value *v, const void *none) { return v->wild && !v->kept; }

/* A step of a sum over loops, of whole tiles of memory and of tiles that are computed. */
void program_accumulate(Program *x)
{
    Arranger *a = x->a;
    const ValueType t = chance(a, 80) ? x->favourite : (ValueType)ONE_OF(a, T_F16, T_BF16, T_F32, T_E4M3);
    const int k = ONE_OF(a, 16, 32, 64, 8);
    const Value *s = program_find(x, is_gathered, NULL);
    if (!s) return program_sum(x);
    if (s->type != T_F32 || (long)axes_elements(&s->e) * k * x->trips > 2000000) return;
    const char *p = loaded(x, t, s->e.at[0], k), *q = p ? loaded(x, t, k, s->e.at[1]) : NULL;
    if (q) arrange_line(a, "%s = mma(%s, %s, %s);", s->name, p, q, s->name);
}
