/* Text forms of layouts and shared layouts; the grammar is in docs/layouts.md. Printing what was parsed gives
 * the same text. */
#include "ir/layout/layout_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    char *buf;
    size_t cap, len;
} Out;

static void put(Out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(Out *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = o->len < o->cap ? o->cap - o->len : 0;
    int n = format_args(room ? o->buf + o->len : NULL, room, format, args);
    va_end(args);
    if (n > 0) o->len += (size_t)n;
}

static void put_text(Out *o, const char *text, size_t n)
{
    if (o->len < o->cap) memcpy(o->buf + o->len, text, n < o->cap - o->len ? n : o->cap - o->len);
    o->len += n;
}

/* Names of types hold these: the choice among configurations prints some ten thousand, for which printf is
 * slow. */
static void put_list(Out *o, const char *name, const int32_t *v, int n)
{
    put_text(o, name, strlen(name));
    for (int i = 0; i < n; i++) {
        char digits[12], *p = digits + sizeof digits;
        uint32_t x = v[i] < 0 ? 0 - (uint32_t)v[i] : (uint32_t)v[i];
        do *--p = (char)('0' + x % 10);
        while (x /= 10);
        if (v[i] < 0) *--p = '-';
        put_text(o, i ? "," : "[", 1);
        put_text(o, p, (size_t)(digits + sizeof digits - p));
    }
    put_text(o, n ? "]" : "[]", n ? 1 : 2);
}

static const char *const input_names[LAYOUT_INPUTS] = { "reg", "lane", "warp", "block" };
static const char *const role_names[4] = { "a", "b", "c", "h" };

static void put_basis(Out *o, const Layout *l)
{
    put_list(o, "#layout<tile=", l->tile, l->rank);
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        put(o, ", %s=[", input_names[in]);
        for (int i = 0; i < l->nbit[in]; i++) {
            int32_t v[LAYOUT_MAX_RANK];
            layout_unpack(l, l->basis[in][i], v);
            put_list(o, i ? "," : "", v, l->rank);
        }
        put(o, "]");
    }
    put(o, ", digits=[");
    for (int i = 0; i < l->ndigit; i++) {
        const LayoutDigit *x = &l->digit[i];
        put(o, "%s%s %d %dx%d", i ? ", " : "", input_names[x->in], x->axis, x->size, x->stride);
    }
    put(o, "]>");
}

static void put_layout(Out *o, const Layout *l)
{
    const LayoutSpec *s = l->spec;
    if (!s) {
        put_basis(o, l);
        return;
    }
    switch (s->kind) {
    case SPEC_BLOCKED:
        put_list(o, "#blocked<tile=", l->tile, l->rank);
        put_list(o, ", per=", s->per, l->rank);
        put_list(o, ", lanes=", s->lanes, l->rank);
        put_list(o, ", warps=", s->warps, l->rank);
        put_list(o, ", order=", s->order, l->rank);
        put(o, ">");
        break;
    case SPEC_MMA:
        put(o, "#mma<%s, %s", layout_mma_info(s->mma)->name, role_names[s->role]);
        put_list(o, ", tile=", l->tile, l->rank);
        put_list(o, ", warps=", s->warps, 2);
        put(o, ">");
        break;
    case SPEC_SLICE:
        put(o, "#slice<axis=%d, %s", s->axis, s->keep ? "keep, " : "");
        put_layout(o, s->of);
        put(o, ">");
        break;
    case SPEC_PERMUTE:
        put_list(o, "#permute<", s->order, l->rank);
        put(o, ", ");
        put_layout(o, s->of);
        put(o, ">");
        break;
    case SPEC_BROADCAST:
        put(o, "#broadcast<axis=%d, extent=%d, ", s->axis, s->extent);
        put_layout(o, s->of);
        put(o, ">");
        break;
    }
}

static size_t finish(Out *o)
{
    if (o->cap && o->len >= o->cap) o->buf[o->cap - 1] = 0;
    else if (o->cap) o->buf[o->len] = 0;
    return o->len;
}

size_t layout_print(const Layout *l, char *buf, size_t cap)
{
    Out o = { buf, cap, 0 };
    put_layout(&o, l);
    return finish(&o);
}

size_t layout_print_basis(const Layout *l, char *buf, size_t cap)
{
    Out o = { buf, cap, 0 };
    put_basis(&o, l);
    return finish(&o);
}

const char *layout_text(Arena *a, const Layout *l)
{
    size_t n = layout_print(l, NULL, 0) + 1;
    char *s = arena_alloc(a, n);
    layout_print(l, s, n);
    return s;
}

size_t layout_shared_print(const LayoutShared *s, char *buf, size_t cap)
{
    Out o = { buf, cap, 0 };
    int bits, base, shift;
    put_list(&o, "#shared<tile=", s->tile, s->rank);
    put(&o, ", bytes=%d", s->elem_bytes);
    put_list(&o, ", order=", s->order, s->rank);
    put(&o, ", panel=%d, pitch=%d", s->panel, s->pitch);
    if (layout_shared_swizzle(s, &bits, &base, &shift)) {
        if (bits) put(&o, ", swizzle=[%d,%d,%d]", bits, base, shift);
    } else {
        put(&o, ", xor=[%d", s->xor_base);
        for (int i = 0; i < s->nxor; i++) put(&o, ",%u", s->xor_[i]);
        put(&o, "]");
    }
    put(&o, ">");
    return finish(&o);
}

const char *layout_shared_text(Arena *a, const LayoutShared *s)
{
    size_t n = layout_shared_print(s, NULL, 0) + 1;
    char *t = arena_alloc(a, n);
    layout_shared_print(s, t, n);
    return t;
}

/* --- parsing ----------------------------------------------------------------------------------------- */

enum { NEST_MAX = 16, VALUES_MAX = 24 };
typedef struct {
    Arena *a;
    const char *p, *err;
    int depth;
} In;

static bool fail(In *in, const char *err)
{
    if (!in->err) in->err = err;
    return false;
}

static void blanks(In *in)
{
    while (*in->p == ' ' || *in->p == '\t' || *in->p == '\n' || *in->p == '\r') in->p++;
}

static bool accept(In *in, const char *word)
{
    blanks(in);
    size_t n = strlen(word);
    if (strncmp(in->p, word, n)) return false;
    in->p += n;
    return true;
}

static bool expect(In *in, const char *word) { return accept(in, word) || fail(in, "malformed layout"); }

static bool number(In *in, int32_t *v)
{
    blanks(in);
    if (*in->p < '0' || *in->p > '9') return fail(in, "number expected in layout");
    int64_t n = 0;
    while (*in->p >= '0' && *in->p <= '9') {
        n = n * 10 + (*in->p++ - '0');
        if (n > INT32_MAX) return fail(in, "number too large in layout");
    }
    *v = (int32_t)n;
    return true;
}

static bool list(In *in, int32_t *v, int max, int *n)
{
    *n = 0;
    if (!expect(in, "[")) return false;
    if (accept(in, "]")) return true;
    do {
        if (*n == max) return fail(in, "too many numbers in layout");
        if (!number(in, &v[(*n)++])) return false;
    } while (accept(in, ","));
    return expect(in, "]");
}

static bool list_of(In *in, const char *name, int32_t *v, int want)
{
    int n;
    return expect(in, name) && list(in, v, want, &n) &&
           (n == want || fail(in, "lists of a layout must have one number an axis"));
}

static bool tile_list(In *in, int32_t *tile, int *rank)
{
    return expect(in, "tile=") && list(in, tile, LAYOUT_MAX_RANK, rank) &&
           (*rank >= 1 || fail(in, "a layout needs an axis"));
}

static const Layout *parse_layout(In *in);

static const Layout *refuse(In *in, const Layout *l, const char *err)
{
    if (!l && !in->err) in->err = err;
    return l;
}

static const Layout *parse_blocked(In *in)
{
    int32_t tile[LAYOUT_MAX_RANK], per[LAYOUT_MAX_RANK], lanes[LAYOUT_MAX_RANK], warps[LAYOUT_MAX_RANK],
        order[LAYOUT_MAX_RANK];
    int rank;
    if (!tile_list(in, tile, &rank) || !list_of(in, ", per=", per, rank) ||
        !list_of(in, ", lanes=", lanes, rank) || !list_of(in, ", warps=", warps, rank) ||
        !list_of(in, ", order=", order, rank)) {
        return NULL;
    }
    return refuse(in, layout_blocked(in->a, rank, tile, per, lanes, warps, order), "no such blocked layout");
}

static const Layout *parse_mma(In *in)
{
    int32_t tile[LAYOUT_MAX_RANK], warps[2];
    int rank, kind = 0, role = 0;
    blanks(in);
    size_t n = strcspn(in->p, ",>");
    while (kind < LAYOUT_MMA_COUNT &&
           (strlen(layout_mma_info(kind)->name) != n || strncmp(in->p, layout_mma_info(kind)->name, n)))
        kind++;
    if (kind == LAYOUT_MMA_COUNT) {
        fail(in, "no such matrix instruction");
        return NULL;
    }
    in->p += n;
    if (!expect(in, ",")) return NULL;
    while (role < 4 && !accept(in, role_names[role])) role++;
    if (role == 4) {
        fail(in, "operand a, b, c or h expected");
        return NULL;
    }
    if (!expect(in, ",") || !tile_list(in, tile, &rank) || !list_of(in, ", warps=", warps, 2)) return NULL;
    return refuse(in, layout_mma(in->a, kind, role, rank, tile, warps), "no such matrix operand layout");
}

static const Layout *parse_slice(In *in)
{
    int32_t axis;
    if (!expect(in, "axis=") || !number(in, &axis) || !expect(in, ",")) return NULL;
    bool keep = accept(in, "keep,");
    const Layout *of = parse_layout(in);
    return of ? refuse(in, layout_slice(in->a, of, axis, keep), "no such slice") : NULL;
}

static const Layout *parse_permute(In *in)
{
    int32_t perm[LAYOUT_MAX_RANK];
    int n;
    if (!list(in, perm, LAYOUT_MAX_RANK, &n) || !expect(in, ",")) return NULL;
    const Layout *of = parse_layout(in);
    if (!of) return NULL;
    return refuse(
        in, n == of->rank ? layout_permute(in->a, of, perm) : NULL, "not a permutation of the axes");
}

static const Layout *parse_broadcast(In *in)
{
    int32_t axis, extent;
    if (!expect(in, "axis=") || !number(in, &axis) || !expect(in, ", extent=") || !number(in, &extent) ||
        !expect(in, ","))
        return NULL;
    const Layout *of = parse_layout(in);
    return of ? refuse(in, layout_broadcast(in->a, of, axis, extent), "no such broadcast") : NULL;
}

static bool parse_input(In *in, LayoutInput *which)
{
    for (int i = 0; i < LAYOUT_INPUTS; i++) {
        if (accept(in, input_names[i])) {
            *which = i;
            return true;
        }
    }
    return fail(in, "reg, lane, warp or block expected");
}

static const Layout *parse_basis(In *in)
{
    int32_t tile[LAYOUT_MAX_RANK];
    int rank;
    LayoutBuild b;
    if (!tile_list(in, tile, &rank)) return NULL;
    layout_build_init(&b, rank, tile);
    for (int i = 0; i < LAYOUT_INPUTS; i++) {
        if (!expect(in, ",") || !expect(in, input_names[i]) || !expect(in, "=[")) return NULL;
        if (accept(in, "]")) continue;
        do {
            int32_t v[LAYOUT_MAX_RANK];
            if (!list_of(in, "", v, rank)) return NULL;
            layout_build_bit(&b, i, v);
        } while (accept(in, ","));
        if (!expect(in, "]")) return NULL;
    }
    if (!expect(in, ", digits=[")) return NULL;
    if (!accept(in, "]")) {
        do {
            LayoutInput which;
            int32_t axis, size, stride;
            if (!parse_input(in, &which) || !number(in, &axis) || !number(in, &size) || !expect(in, "x") ||
                !number(in, &stride))
                return NULL;
            if (axis >= rank) {
                fail(in, "no such axis");
                return NULL;
            }
            layout_build_digit(&b, which, axis, size, stride);
        } while (accept(in, ","));
        if (!expect(in, "]")) return NULL;
    }
    return refuse(
        in, layout_build(in->a, &b, NULL), "the layout does not cover its tile exactly, or is too large");
}

static const Layout *parse_layout(In *in)
{
    static const struct {
        const char *name;
        const Layout *(*parse)(In *);
    } forms[] = {
        { "#blocked<", parse_blocked },
        { "#mma<", parse_mma },
        { "#slice<", parse_slice },
        { "#permute<", parse_permute },
        { "#broadcast<", parse_broadcast },
        { "#layout<", parse_basis },
    };
    if (++in->depth > NEST_MAX) {
        fail(in, "layouts nested too deeply");
        return NULL;
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (!accept(in, forms[i].name)) continue;
        const Layout *l = forms[i].parse(in);
        in->depth--;
        return l && expect(in, ">") ? l : NULL;
    }
    fail(in, "layout expected");
    return NULL;
}

const Layout *layout_parse(Arena *a, const char *text, const char **end, const char **err)
{
    In in = { .a = a, .p = text };
    const Layout *l = parse_layout(&in);
    if (in.err) l = NULL;
    if (end) *end = in.p;
    if (err) *err = in.err;
    return l;
}

const LayoutShared *layout_shared_parse(Arena *a, const char *text, const char **end, const char **err)
{
    In in = { .a = a, .p = text };
    int32_t tile[LAYOUT_MAX_RANK], order[LAYOUT_MAX_RANK], v[VALUES_MAX], bytes, panel, pitch;
    uint32_t masks[8];
    int rank, n = 0, base = 0, nxor = 0;
    const LayoutShared *s = NULL;
    bool ok = expect(&in, "#shared<") && tile_list(&in, tile, &rank) && expect(&in, ", bytes=") &&
              number(&in, &bytes) && list_of(&in, ", order=", order, rank) && expect(&in, ", panel=") &&
              number(&in, &panel) && expect(&in, ", pitch=") && number(&in, &pitch);
    if (ok && accept(&in, ", swizzle=")) {
        ok = list(&in, v, 3, &n) && n == 3 && v[0] <= 8 && v[1] < 24 && v[2] < 24;
        for (int i = 0; ok && i < v[0]; i++)
            masks[nxor++] = v[1] + v[2] + i < 32 ? 1u << (v[1] + v[2] + i) : 0;
        base = ok ? v[1] : 0;
    } else if (ok && accept(&in, ", xor=")) {
        ok = list(&in, v, 9, &n) && n >= 1;
        base = ok ? v[0] : 0;
        for (int i = 1; ok && i < n; i++) masks[nxor++] = (uint32_t)v[i];
    }
    if (ok && expect(&in, ">"))
        s = layout_shared_make(a, rank, tile, order, bytes, (LayoutRows){ panel, pitch, base, nxor, masks });
    if (!s) fail(&in, "no such shared layout");
    if (end) *end = in.p;
    if (err) *err = in.err;
    return s;
}
