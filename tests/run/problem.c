/* problem.c: from the table's text to tensors in memory. */
#include "problem.h"
#include "extent_text.h"
#include "ref_random.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, POISON = 0xff };

typedef struct Maker {
    Problem *p;
    char *why;
    size_t why_size;
    RefRandom random;
    char fills[MAX_TENSORS][24]; /* of the tensors so far */
} Maker;

static bool fail(Maker *k, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(k->why, k->why_size, format, args);
    va_end(args);
    return false;
}

/* --- lists of names and values --- */

static const char *skip(const char *s)
{
    while (*s == ' ') s++;
    return s;
}

/* Copies one word (up to a space or one of `stops`) into out; returns what follows it. A word that does not
 * fit ends the program: a shortened name would be looked up as another name. */
static const char *word(const char *s, const char *stops, char *out, size_t size)
{
    size_t n = 0;
    s = skip(s);
    while (*s && *s != ' ' && !strchr(stops, *s)) {
        if (n + 1 == size) {
            fprintf(stderr, "table: a word of more than %zu characters: %.*s...\n", size - 1, (int)n, s - n);
            exit(2);
        }
        out[n++] = *s++;
    }
    out[n] = 0;
    return skip(s);
}

static Bind *bind_find(Bind *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, name)) return &list[i];
    return NULL;
}

/* Reads "NAME=value NAME=value"; later values replace earlier ones. */
static bool read_binds(Maker *k, Bind *list, int *n, const char *s)
{
    for (s = s ? skip(s) : ""; *s;) {
        char name[NAME_SIZE], value[NAME_SIZE];
        s = word(s, "=", name, sizeof name);
        if (*s++ != '=') return fail(k, "table: '=' expected after '%s'", name);
        s = word(s, "", value, sizeof value);
        Bind *b = bind_find(list, *n, name);
        if (!b) {
            if (*n == MAX_BINDS) return fail(k, "table: too many names");
            b = &list[(*n)++];
        }
        memcpy(b->name, name, sizeof name);
        memcpy(b->value, value, sizeof value);
    }
    return true;
}

static const char *find_const(const Problem *p, const char *name)
{
    const Bind *b = bind_find((Bind *)p->consts, p->n_consts, name);
    return b ? b->value : NULL;
}

static bool find_size(const Problem *p, const char *name, int64_t *out)
{
    if (isdigit((unsigned char)*name)) return *out = atoll(name), true;
    const Bind *b = bind_find((Bind *)p->sizes, p->n_sizes, name);
    if (!b) b = bind_find((Bind *)p->consts, p->n_consts, name);
    if (b) *out = atoll(b->value);
    return b != NULL;
}

static bool extent_name(const void *problem, const char *name, int64_t *out)
{ return find_size(problem, name, out); }

/* An extent, up to the "," or "]" behind it, as an expression. */
static const char *extent_of(const Problem *p, const char *s, int64_t *out, bool *good)
{
    char text[96];
    size_t n = 0;
    int depth = 0;
    for (; *s && *s != ']' && (depth || *s != ','); s++) {
        depth += (*s == '(') - (*s == ')');
        if (n + 1 < sizeof text) text[n++] = *s;
    }
    text[n] = 0;
    *good = extent_value(text, extent_name, p, out);
    return s;
}

static bool find_type(const Problem *p, const char *name, RefType *out)
{
    const char *bound = find_const(p, name);
    if (bound) name = bound;
    return ref_type_parse(name, strlen(name), out);
}

/* --- memory --- */

int64_t tensor_offset(const Tensor *t, int64_t linear)
{
    int64_t at = 0;
    for (int a = t->rank - 1; a >= 0; a--) {
        at += linear % t->shape[a] * t->stride[a];
        linear /= t->shape[a];
    }
    return at;
}

static void *view_data(const Tensor *t) { return t->base + t->offset; }

static char view_of(const char *views, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = views ? skip(views) : ""; *s;) {
        char w[24];
        s = word(s, "", w, sizeof w);
        if (!strncmp(w, name, n) && w[n] == ':') return w[n + 1];
    }
    return 'c';
}

/* View `a`: lays the input out in an earlier one that is filled alike and holds its extents: as the last of
 * that one's places along the first axis. False: there is none. */
static bool lay_within(Maker *k, Tensor *t, const char *fill)
{
    for (const Tensor *o = k->p->tensors; o < t; o++) {
        bool fits = o->role == ROLE_IN && t->role == ROLE_IN && o->type == t->type && o->rank == t->rank &&
                    t->rank > 0 && !strcmp(k->fills[o - k->p->tensors], fill);
        for (int a = 0; a < t->rank; a++) fits = fits && t->shape[a] <= o->shape[a];
        if (!fits) continue;
        memcpy(t->stride, o->stride, sizeof t->stride);
        t->base = o->base, t->before = o->before, t->bytes = o->bytes;
        const int64_t before = (o->shape[0] - t->shape[0]) * o->stride[0];
        t->offset = (size_t)((int64_t)o->offset + before * (int64_t)ref_type_size(t->type));
        t->within = o->within ? o->within : o;
        t->values = malloc(((size_t)t->count + 1) * sizeof(double));
        t->want = malloc(((size_t)t->count + 1) * sizeof(double));
        for (int64_t i = 0; t->values && i < t->count; i++)
            t->values[i] = ref_get(t->type, view_data(t), tensor_offset(t, i));
        return t->values && t->want;
    }
    return false;
}

/* Strides and allocation of a view: the axes in memory order `order`, each allocated with `room` elements,
 * starting at `start`. */
static bool lay_out(Maker *k, Tensor *t, char view)
{
    int order[MAX_RANK];
    int64_t room[MAX_RANK], start[MAX_RANK] = { 0 }, step[MAX_RANK];
    for (int a = 0; a < t->rank; a++) order[a] = a, room[a] = t->shape[a], step[a] = 1;
    int last = t->rank - 1;
    switch (last < 0 ? 'c' : view) { /* a tensor of rank 0 lies in one way */
    case 'c':
    case 'a': break; /* no other tensor has room for it */
    case 't':
        if (last < 1) return fail(k, "table: view t of a vector");
        order[last] = last - 1, order[last - 1] = last;
        break;
    case 's':
        for (int a = 0; a < t->rank; a++) start[a] = 1, room[a] += a == last ? 3 : 2;
        break;
    case 'w': room[last] = (room[last] + 31) / 16 * 16; break;
    case 'x': room[last] *= 2, step[last] = 2; break;
    case 'r': start[last] = t->shape[last] > 0 ? t->shape[last] - 1 : 0, step[last] = -1; break;
    case 'b': start[0] = t->shape[0] > 0 ? t->shape[0] - 1 : 0, step[0] = -1; break;
    case 'd':
        for (int a = 0; a < t->rank; a++) start[a] = t->shape[a] > 0 ? t->shape[a] - 1 : 0, step[a] = -1;
        break;
    case 'p':
        if (last < 2) return fail(k, "table: view p of rank %d", t->rank);
        for (int a = 1; a < last; a++) order[a] = a + 1;
        order[last] = 1;
        break;
    case 'z': room[0] = 1, step[0] = 0; break;
    case 'o': room[last] = 1, step[last] = 0; break;
    default: return fail(k, "table: view '%c'", view);
    }
    int64_t all = 1, first = 0;
    for (int i = last; i >= 0; i--) {
        int a = order[i];
        t->stride[a] = all * step[a];
        first += start[a] * all;
        all *= room[a];
    }
    size_t size = ref_type_size(t->type);
    t->bytes = ((size_t)all * size + 2 * GUARD + 63) / 64 * 64;
    t->offset = GUARD + (size_t)first * size;
    t->base = aligned_alloc(64, t->bytes);
    t->before = malloc(t->bytes);
    t->values = malloc(((size_t)t->count + 1) * sizeof(double));
    t->want = malloc(((size_t)t->count + 1) * sizeof(double));
    if (!t->base || !t->before || !t->values || !t->want) return fail(k, "out of memory");
    memset(t->base, POISON, t->bytes);
    return true;
}

/* --- values --- */

/* What a sum of products shows without losing a bit: NaN, infinities, -0, the ends of small integers, numbers
 * much larger than others. */
static double rare(RefRandom *r, RefType type)
{
    static const double floats[] = { NAN, INFINITY, -INFINITY, -0.0, 240, -240 },
                        wholes[] = { -128, 127, 255, 0 };
    bool eighth = ref_type_is_float(type) && ref_type_size(type) == 1; /* no infinity but by saturation */
    if (eighth) return ref_random_below(r, 2) ? NAN : -0.0;
    return ref_type_is_float(type) ? floats[ref_random_below(r, 6)] : wholes[ref_random_below(r, 4)];
}

static double draw(Maker *k, const Tensor *t, const char *fill, int64_t i, int64_t limit)
{
    RefRandom *r = &k->random;
    bool is_float = ref_type_is_float(t->type);
    if (!strcmp(fill, "normal")) {
        if (is_float) return ref_random_normal(r);
        return t->type == REF_BOOL
                   ? (double)ref_random_below(r, 2)
                   : (double)ref_random_below(r, 101) - (t->type >= REF_I8 && t->type <= REF_I64 ? 50 : 0);
    }
    if (!strcmp(fill, "unit")) return ref_random_unit(r);
    if (!strcmp(fill, "ones")) return 1;
    if (!strncmp(fill, "int:", 4))
        return (double)ref_random_below(r, (uint64_t)(2 * limit + 1)) - (double)limit;
    if (!strncmp(fill, "extremes:", 9) && ref_random_below(r, 40) == 0) return rare(r, t->type);
    if (!strncmp(fill, "extremes:", 9))
        return (double)ref_random_below(r, (uint64_t)(2 * limit + 1)) - (double)limit;
    if (!strncmp(fill, "index:", 6)) return (double)ref_random_below(r, (uint64_t)limit);
    if (!strncmp(fill, "offsets:", 8))
        return i == 0              ? 0
               : i == t->count - 1 ? (double)limit
                                   : (double)ref_random_below(r, (uint64_t)limit + 1);
    if (!strcmp(fill, "mask")) return ref_random_below(r, 4) == 0 ? -INFINITY : ref_random_normal(r);
    if (!strcmp(fill, "masked-start")) {
        int64_t n = t->shape[t->rank - 1];
        return i % n < n / 2 ? -INFINITY : ref_random_normal(r);
    }
    return NAN;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool begins(const char *s, const char *with)
{
    while (*with && *s == *with) s++, with++;
    return !*with;
}

/* Bits of any pattern, among them small numbers and both ends of the type, for integers of any width. */
static void fill_bits(Maker *k, Tensor *t)
{
    const size_t size = ref_type_size(t->type);
    for (int64_t i = 0; i < t->count; i++) {
        const uint64_t any = ref_random(&k->random), kind = ref_random_below(&k->random, 8);
        uint64_t w = kind < 4 ? any : kind == 4 ? any % 8 : kind == 5 ? UINT64_MAX : any >> (any & 63);
        if (kind == 7) w = (UINT64_C(1) << (8 * size - 1)) - (any & 1);
        unsigned char *at = (unsigned char *)view_data(t) + tensor_offset(t, i) * (int64_t)size;
        for (size_t b = 0; b < size; b++) at[b] = (unsigned char)(w >> (8 * b));
        t->values[i] = ref_get(t->type, view_data(t), tensor_offset(t, i));
    }
}

static bool fill_tensor(Maker *k, Tensor *t, const char *fill, bool special)
{
    static const char *const known[] = { "normal", "unit", "ones",
        "int:", "extremes:", "index:", "offsets:", "mask", "masked-start", "bits" };
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) found |= begins(fill, known[i]);
    if (!found) return fail(k, "table: fill '%s'", fill);
    if (!strcmp(fill, "bits")) {
        if (ref_type_is_float(t->type) || t->type == REF_BOOL) return fail(k, "table: bits of %s", t->name);
        return fill_bits(k, t), true;
    }
    int64_t limit = 0;
    const char *colon = strchr(fill, ':');
    if (colon && !find_size(k->p, colon + 1, &limit)) return fail(k, "table: size '%s'", colon + 1);
    for (int64_t i = 0; i < t->count; i++) t->values[i] = draw(k, t, fill, i, limit);
    if (begins(fill, "offsets:")) qsort(t->values, (size_t)t->count, sizeof *t->values, ascending);
    for (int64_t i = 0; i < t->count; i++) {
        ref_put(t->type, view_data(t), tensor_offset(t, i), t->values[i]);
        /* The NaN that the arithmetic of this machine makes. Where emulated lanes hold copies of a sum, they
         * are equal bit for bit. */
        size_t size = ref_type_size(t->type);
        if (begins(fill, "extremes:") && isnan(t->values[i]))
            ((unsigned char *)view_data(t))[(tensor_offset(t, i) + 1) * (int64_t)size - 1] |= 0x80;
    }
    /* In this order, so that of a few elements the first is NaN: element 0, then others far apart. */
    static const double odd[] = { NAN, INFINITY, -INFINITY };
    for (int i = 0; special && i < 3; i++) {
        int64_t at = t->count * i / 3;
        if (t->count) ref_put(t->type, view_data(t), tensor_offset(t, at), odd[i]);
    }
    for (int64_t i = 0; i < t->count; i++) t->values[i] = ref_get(t->type, view_data(t), tensor_offset(t, i));
    return true;
}

/* "role NAME[dims] type fill" */
static bool make_tensor(Maker *k, const char *s, const char *views, const char *special)
{
    static const char *const roles[] = { "in", "out", "inout", "work" };
    Problem *p = k->p;
    if (p->n_tensors == MAX_TENSORS) return fail(k, "table: too many tensors");
    Tensor *t = &p->tensors[p->n_tensors++];
    char role[8], type[16], fill[24];
    s = word(s, "", role, sizeof role);
    for (t->role = ROLE_IN; strcmp(roles[t->role], role); t->role++)
        if (t->role == ROLE_WORK) return fail(k, "table: role '%s'", role);
    s = word(s, "[", t->name, sizeof t->name);
    if (*s != '[') return fail(k, "table: '[' expected after %s", t->name);
    t->count = 1;
    if (s[1] == ']') s++; /* of rank 0 */
    while (*s && *s != ']') {
        bool good = t->rank < MAX_RANK;
        const char *dim = s + 1;
        if (good) s = extent_of(p, dim, &t->shape[t->rank], &good);
        if (!good) return fail(k, "table: %s: size '%.*s'", t->name, (int)(s - dim), dim);
        t->count *= t->shape[t->rank++];
    }
    s = word(*s ? s + 1 : s, "", type, sizeof type);
    if (!find_type(p, type, &t->type)) return fail(k, "table: %s: type '%s'", t->name, type);
    word(s, "", fill, sizeof fill);
    memcpy(k->fills[p->n_tensors - 1], fill, sizeof fill);
    const char view = view_of(views, t->name);
    if (view == 'a' && lay_within(k, t, fill)) return true;
    if (!lay_out(k, t, view)) return false;
    if (t->role == ROLE_IN || t->role == ROLE_INOUT)
        if (!fill_tensor(k, t, *fill ? fill : "normal", special && !strcmp(special, t->name))) return false;
    memcpy(t->before, t->base, t->bytes);
    return true;
}

ScalarArg scalar_arg_whole(const char *name, RefType type, int64_t value)
{
    ScalarArg v = { .type = type, .value = (double)value, .whole = (uint64_t)value };
    snprintf(v.name, sizeof v.name, "%s", name);
    return v;
}

/* Reads an integer of the type; false where the text is no integer or the type cannot hold it. */
static bool read_whole(ScalarArg *v, const char *text)
{
    char *end;
    bool negative = *text == '-';
    errno = 0;
    v->whole = negative ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
    if (errno || end == text || *end) return false;
    v->value = negative ? (double)(int64_t)v->whole : (double)v->whole;
    return v->type == REF_U64   ? !negative
           : v->type == REF_I64 ? negative || v->whole <= INT64_MAX
                                : ref_round(v->type, v->value) == v->value;
}

/* "type NAME=value" */
static bool make_scalar(Maker *k, const char *s)
{
    Problem *p = k->p;
    if (p->n_scalars == MAX_SCALARS) return fail(k, "table: too many scalars");
    ScalarArg *v = &p->scalars[p->n_scalars++];
    char type[16], value[32];
    s = word(s, "", type, sizeof type);
    s = word(s, "=", v->name, sizeof v->name);
    if (*s != '=' || !find_type(p, type, &v->type)) return fail(k, "table: scalar '%s'", v->name);
    word(s + 1, "", value, sizeof value);
    if (ref_type_is_float(v->type)) v->value = ref_round(v->type, atof(value));
    else if (!read_whole(v, value)) return fail(k, "table: %s is no %s", value, type);
    return true;
}

/* Makes a tensor or a scalar of each part of a list separated by ';'. */
static bool each_part(Maker *k, bool tensors, const char *list, const char *views, const char *special)
{
    while (list && *list) {
        char part[96];
        size_t n = strcspn(list, ";");
        if (n >= sizeof part) return fail(k, "table: '%s' is too long", list);
        memcpy(part, list, n);
        part[n] = 0;
        if (!(tensors ? make_tensor(k, part, views, special) : make_scalar(k, part))) return false;
        list += n + (list[n] == ';');
        list = skip(list);
    }
    return true;
}

Problem *problem_make(const Recipe *recipe, const char *sizes, const char *consts, const char *views,
    const char *special, uint64_t seed, char *why, size_t why_size)
{
    Problem *p = calloc(1, sizeof *p);
    Maker k = { p, why, why_size, { seed } };
    if (!p) return NULL;
    p->recipe = recipe;
    bool ok = read_binds(&k, p->sizes, &p->n_sizes, sizes) &&
              read_binds(&k, p->consts, &p->n_consts, recipe->consts) &&
              read_binds(&k, p->consts, &p->n_consts, consts) &&
              each_part(&k, true, recipe->tensors, views, special) &&
              each_part(&k, false, recipe->scalars, NULL, NULL);
    if (!ok) {
        problem_free(p);
        return NULL;
    }
    recipe->reference(p);
    return p;
}

void problem_free(Problem *p)
{
    for (int i = 0; p && i < p->n_tensors; i++) {
        Tensor *t = &p->tensors[i];
        if (!t->within) free(t->base), free(t->before);
        free(t->values);
        free(t->want);
    }
    free(p);
}

void problem_reset(Problem *p)
{
    for (int i = 0; i < p->n_tensors; i++)
        memcpy(p->tensors[i].base, p->tensors[i].before, p->tensors[i].bytes);
}

/* --- access by name --- */

static _Noreturn void no_such(const char *what, const char *name)
{
    fprintf(stderr, "the table has no %s '%s'\n", what, name);
    abort();
}

Tensor *problem_tensor(const Problem *p, const char *name)
{
    for (int i = 0; i < p->n_tensors; i++)
        if (!strcmp(p->tensors[i].name, name)) return (Tensor *)&p->tensors[i];
    no_such("tensor", name);
}

const ScalarArg *problem_scalar(const Problem *p, const char *name)
{
    for (int i = 0; i < p->n_scalars; i++)
        if (!strcmp(p->scalars[i].name, name)) return &p->scalars[i];
    return NULL;
}

double problem_scalar_value(const Problem *p, const char *name)
{
    const ScalarArg *s = problem_scalar(p, name);
    if (!s) no_such("scalar", name);
    return s->value;
}

int64_t problem_size(const Problem *p, const char *name)
{
    int64_t n;
    if (!find_size(p, name, &n)) no_such("size", name);
    return n;
}

const char *problem_const(const Problem *p, const char *name) { return find_const(p, name); }
