/* random_memory.c: see random_program.h: windows of tensors, gathers, scatters, atomics. The first axis of a
 * tensor that is written is the program's; the others lie in it in any order, over each other, and beyond
 * its ends. */
#include "random_program.h"
#include <stdio.h>
#include <string.h>

static const char *fill_of(Program *x, ValueType t)
{
    if (t == T_BOOL) return "int:1";
    if (type_float(t)) return CHOOSE(x->a, "int:3", "int:7");
    if (chance(x->a, 25)) return "bits";
    return type_signed(t) ? CHOOSE(x->a, "int:9", "int:100", "int:5") : "index:FILL";
}

/* A tensor of that kind, either a new one or one that is there. */
const Slice *program_slice(Program *x, bool own, ValueType type, int rank)
{
    Arranger *a = x->a;
    const bool operand = x->matrices && !own && type == x->favourite; /* of products: a matrix */
    const bool full = x->n_slices == MOST_SLICES || (!own && x->n_inputs == MOST_INPUTS);
    for (int tries = 0; tries < (full ? 40 : chance(a, 60) ? 12 : 0) && x->n_slices; tries++) {
        const Slice *s = &x->slices[below(a, x->n_slices)];
        if (s->own == own && (operand ? s->rank == rank : s->rank >= rank) &&
            (s->type == type || (!own && type == N_TYPES)))
            return s;
    }
    if (full || rank > PROGRAM_AXES - 1) return NULL;
    Slice *s = &x->slices[x->n_slices];
    x->n_inputs += !own;
    *s = (Slice){ .type = type, .own = own, .rank = rank + (rank < 3 && !operand ? below(a, 2) : 0) };
    if (type == N_TYPES)
        s->type = (ValueType)ONE_OF(a, T_BOOL, T_I8, T_I16, T_I32, T_I64, T_U8, T_U16, T_U32, T_U64, T_F16,
            T_BF16, T_F32, T_F32, T_F64, T_E4M3, T_E5M2);
    if (!s->rank) s->rank = 1;
    if (own && s->rank == 1) s->strip = ONE_OF(a, 0, 16, 64); /* tensors of moderate size */
    snprintf(s->name, sizeof s->name, "%c%d", own ? 'O' : 'X', x->n_slices);
    snprintf(s->dims, sizeof s->dims, !own ? "" : s->strip == 16 ? "G16" : s->strip ? "G64" : "G");
    for (int k = 0; k < s->rank; k++)
        if (x->matrices && k < s->rank - 2) /* tensors of moderate size */
            arrange_append(s->dims, sizeof s->dims, "%s%s", own || k ? "," : "", CHOOSE(a, "1", "2", "3"));
        else if (operand) arrange_append(s->dims, sizeof s->dims, "%s%s", k ? "," : "", CHOOSE(a, "P", "Q"));
        else
            arrange_append(s->dims, sizeof s->dims, "%s%s", own || k ? "," : "",
                CHOOSE(a, "P", "Q", "R", "P", "Q", "R", "1", "2", "5", "16", "24", "cdiv(P, 4)", "Q + 3",
                    "max(P, Q)", "R * 2"));
    x->tensors[x->n_slices++] =
        (RandomTensor){ own ? "inout" : "in", s->name, s->dims, type_name(s->type), fill_of(x, s->type) };
    return s;
}

/* The program's place on the first axis of what it writes. */
static const char *own_place(Program *x, const Slice *s)
{
    static char out[32];
    snprintf(out, sizeof out, "w");
    if (s->strip) snprintf(out, sizeof out, "w*%d + %d", s->strip, below(x->a, s->strip));
    return out;
}

/* The window's part of a strip, which it takes only if it fits; false: it is one place. */
static bool strip_window(Program *x, const Slice *s, const Axes *e, char *out, size_t size)
{
    if (!s->strip || !e->rank || e->at[0] > s->strip || chance(x->a, 30)) return false;
    const int most = s->strip - e->at[0];
    if (most && chance(x->a, 40))
        arrange_append(
            out, size, "w*%d + index(clamp(%s, 0, %d)) +: %d, ", s->strip, program_place(x), most, e->at[0]);
    else arrange_append(out, size, "w*%d +: %d, ", s->strip, e->at[0]);
    return true;
}

/* Subscripts of a window of these extents, some of the axes of more than the window has at one place. */
static void window(Program *x, const Slice *s, const Axes *e, char *out, size_t size)
{
    Arranger *a = x->a;
    *out = 0;
    int at = s->own && strip_window(x, s, e, out, size), spare = s->rank - e->rank + at;
    if (s->own && !at) arrange_append(out, size, "%s, ", own_place(x, s));
    for (int k = 0; k < s->rank; k++) {
        const char *base = chance(a, 45) ? "0" : program_place(x);
        if (k) arrange_append(out, size, ", ");
        if (spare && (chance(a, 50) || at == e->rank)) arrange_append(out, size, "%s", base), spare--;
        else
            arrange_append(out, size, "%s +: %d%s", base, e->at[at++],
                CHOOSE(a, "", "", "", "", "", "", " : 2", " : 3"));
    }
}

static const char *pad(Program *x, ValueType t)
{
    if (!chance(x->a, 25)) return "";
    if (t == T_BOOL) return ", pad = true";
    return type_float(t) ? CHOOSE(x->a, ", pad = 1.0", ", pad = -2.0") : ", pad = 3";
}

static Axes some_axes(Program *x, int most)
{
    Axes e = { .rank = below(x->a, most + 1) };
    for (int k = 0; k < e.rank; k++) e.at[k] = x->extents[below(x->a, 4)];
    while (axes_elements(&e) > x->most) e.rank--;
    return e;
}

void program_load(Program *x)
{
    Arranger *a = x->a;
    char at[EXPR], e[EXPR];
    const Axes r = some_axes(x, 3);
    const bool own = chance(a, 35);
    const Slice *s = program_slice(x, own,
        own ? (ValueType)ONE_OF(a, T_I32, T_F32, T_I64, T_U8, T_F16, T_BOOL, T_BF16) : N_TYPES, r.rank);
    if (!s) return;
    window(x, s, &r, at, sizeof at);
    arrange_write(e, sizeof e, "load(%s[%s]%s%s%s)", s->name, at, pad(x, s->type),
        CHOOSE(a, "", "", "", ", latency = 2", ", latency = 3", ", latency = 1"),
        CHOOSE(a, "", "", "", "", ", cache = stream", ", cache = keep", ", cache = bypass"));
    program_make(x, s->type, &r, e);
}

void program_turned(Program *x)
{
    Arranger *a = x->a;
    char at[EXPR], e[EXPR], order[48] = "";
    int from[PROGRAM_AXES];
    const Axes r = some_axes(x, 3);
    const Slice *s = r.rank ? program_slice(x, false, N_TYPES, r.rank) : NULL;
    if (!s) return;
    window(x, s, &r, at, sizeof at);
    arrange_order(a, from, r.rank);
    Axes turned = r;
    for (int k = 0; k < r.rank; k++) {
        arrange_append(order, sizeof order, k ? ", %d" : "%d", from[k]);
        turned.at[k] = r.at[from[k]];
    }
    arrange_write(e, sizeof e, "load(%s[%s]%s, order = (%s%s)%s)", s->name, at, pad(x, s->type), order,
        r.rank == 1 ? "," : "", CHOOSE(a, "", ", latency = 2", ", cache = stream"));
    program_make(x, s->type, &turned, e);
}

static bool is_place(const Value *v, const void *e)
{
    const Axes *other = e;
    if (type_float(v->type) || v->type == T_BOOL) return false;
    if (!v->e.rank) return true;
    bool is = v->e.rank == other->rank;
    for (int k = 0; k < other->rank && is; k++) is = v->e.at[k] == other->at[k] || v->e.at[k] == 1;
    return is;
}
static bool is_mask_for(const Value *v, const void *e)
{
    const Axes *other = e;
    bool is = v->type == T_BOOL && v->e.rank == other->rank;
    for (int k = 0; k < other->rank && is; k++) is = v->e.at[k] == other->at[k] || v->e.at[k] == 1;
    return is;
}
static bool is_places(const Value *v, const void *none)
{ return v->e.rank && !type_float(v->type) && v->type != T_BOOL; }

/* `, mask = m`, or nothing */
static const char *mask(Program *x, const Axes *e)
{
    static char out[32];
    const Value *m = chance(x->a, 40) ? program_find(x, is_mask_for, e) : NULL;
    snprintf(out, sizeof out, m ? ", mask = %s" : "", m ? m->name : "");
    return out;
}

/* Subscripts that memory or computation tells: repeated, negative, beyond the end. */
static const Value *places(Program *x, const Slice *s, char *out, size_t size)
{
    Arranger *a = x->a;
    const Value *v = program_find(x, is_places, NULL);
    if (!v) return NULL;
    const int first = below(a, s->rank);
    snprintf(out, size, "%s", s->own ? own_place(x, s) : "");
    for (int k = 0; k < s->rank; k++) {
        const Value *w = k == first ? v : program_find(x, is_place, &v->e);
        if (s->own || k) arrange_append(out, size, ", ");
        if (!w) arrange_append(out, size, "%d", below(a, 4));
        else arrange_append(out, size, CHOOSE(a, "%s", "%s %% 5", "%s %% 9", "%s %% 16"), w->name);
    }
    return v;
}

void program_gather(Program *x)
{
    Arranger *a = x->a;
    char at[EXPR], e[EXPR];
    const bool own = chance(a, 25);
    const Slice *s =
        program_slice(x, own, own ? (ValueType)ONE_OF(a, T_I32, T_F32, T_U8) : N_TYPES, 1 + below(a, 3));
    const Value *v = s ? places(x, s, at, sizeof at) : NULL;
    if (!v) return;
    const Axes r = v->e;
    arrange_write(e, sizeof e, "gather(%s[%s]%s%s)", s->name, at, mask(x, &r), pad(x, s->type));
    program_make(x, s->type, &r, e);
}

static bool can_store(const Value *v, const void *none) { return v->type != T_INDEX && v->e.rank <= 4; }

bool program_put(Program *x, const Value *v)
{
    Arranger *a = x->a;
    char at[EXPR];
    const Slice *s = can_store(v, NULL) ? program_slice(x, true, v->type, v->e.rank) : NULL;
    if (!s) return false;
    Axes e = v->e;
    for (int k = 0; k < e.rank; k++)
        if (e.at[k] == 1 && chance(a, 40)) e.at[k] = 1 + below(a, 5); /* repeated by the store */
    window(x, s, &e, at, sizeof at);
    arrange_line(a, "store(%s[%s], %s%s);", s->name, at, value_read(x, v),
        CHOOSE(a, "", "", "", "", ", cache = stream", ", cache = keep", ", cache = bypass"));
    return true;
}

void program_store(Program *x)
{
    const Value *v = program_find(x, can_store, NULL);
    if (v) program_put(x, v);
}

/* Places that differ: along each axis of the value forwards, backwards or in steps. */
static const char *distinct(Program *x, const Slice *s, const Value *v, char *out, size_t size)
{
    Arranger *a = x->a;
    int at = 0;
    snprintf(out, size, "%s", own_place(x, s));
    for (int k = 0; k < s->rank; k++) {
        arrange_append(out, size, ", ");
        if (at == v->e.rank) {
            arrange_append(out, size, "%s", program_place(x));
            continue;
        }
        arrange_append(
            out, size, CHOOSE(a, "(arange(%d)", "(7 - arange(%d)", "(2*arange(%d) - 1"), v->e.at[at]);
        arrange_append(out, size, ")");
        for (int other = 0; other < v->e.rank && v->e.rank > 1; other++)
            arrange_append(out, size, "%s%s%s", other ? ", " : "[", other == at ? ":" : "None",
                other == v->e.rank - 1 ? "]" : "");
        at++;
    }
    return out;
}

void program_scatter(Program *x)
{
    char at[EXPR];
    const Value *v = program_find(x, can_store, NULL);
    if (!v || !v->e.rank) return;
    const Slice *s = program_slice(x, true, v->type, v->e.rank);
    if (s)
        arrange_line(x->a, "scatter(%s[%s], %s%s);", s->name, distinct(x, s, v, at, sizeof at),
            value_read(x, v), mask(x, &v->e));
}

static bool is_added(const Value *v, const void *none)
{
    return v->e.rank <= 3 &&
           (v->type == T_I32 || v->type == T_I64 || v->type == T_U32 || v->type == T_U64 ||
               v->type == T_F32 || v->type == T_F64 || v->type == T_F16 || v->type == T_BF16);
}

/* Old values are known where places differ; where they do not, the sum is. A sum of f16 and bf16 is rounded,
 * but in the order of the program. */
void program_atomic(Program *x)
{
    Arranger *a = x->a;
    char at[EXPR], e[EXPR];
    const Value *v = program_find(x, is_added, NULL);
    const Slice *s = v ? program_slice(x, true, v->type, v->e.rank) : NULL;
    if (!s) return;
    const bool real = type_float(v->type);
    if (chance(a, 30) && v->e.rank) {
        window(x, s, &v->e, at, sizeof at);
        arrange_line(a, "atomic_add(%s[%s], %s);", s->name, at, value_read(x, v));
        return;
    }
    if (!v->e.rank) {
        char place[EXPR];
        snprintf(at, sizeof at, "%s", own_place(x, s));
        for (int k = 0; k < s->rank; k++) {
            snprintf(place, sizeof place, ", %s", program_place(x));
            arrange_append(at, sizeof at, "%s", place);
        }
    } else if (chance(a, 60)) distinct(x, s, v, at, sizeof at);
    else { /* the same place from many elements: of whole numbers, and nobody asks for the old values */
        const Value *p = places(x, s, at, sizeof at);
        if (!p || real) return;
        arrange_line(a, "%s(%s[%s], %s%s);",
            CHOOSE(a, "atomic_add", "atomic_max", "atomic_min", "atomic_xor", "atomic_or", "atomic_and"),
            s->name, at,
            axes_same(&p->e, &v->e) ? v->name
            : type_float(v->type)   ? "1.0"
                                    : "3",
            mask(x, &p->e));
        return;
    }
    const char *f =
        real ? CHOOSE(a, "atomic_add", "atomic_exch", "atomic_max", "atomic_min")
             : CHOOSE(a, "atomic_add", "atomic_max", "atomic_min", "atomic_xor", "atomic_exch", "atomic_cas");
    arrange_write(e, sizeof e, "%s(%s[%s], %s%s%s)", f, s->name, at, value_read(x, v),
        strstr(f, "cas") ? CHOOSE(a, ", 1", ", 0") : "", v->e.rank ? mask(x, &v->e) : "");
    if (chance(a, 30)) arrange_line(a, "%s;", e);
    else program_make(x, v->type, &v->e, e);
}
