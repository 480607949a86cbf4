/* bench_sweep.c: `--sweep M=N=K=128..4096:128`: the sizes of a bench or a tuning. */
#include "tools/tilec/bench/bench.h"
#include "ir/support/number.h"

enum { MOST_SIZES = 4096, MOST_SWEEPS = 4 };

typedef VEC(int64_t) Values;

static int wrong(Tool *t, const char *text)
{
    return tool_usage(t,
        "--sweep `%s` is not understood; write N=64,128,256, N=128..4096:128 (steps), N=1024..16384*2 "
        "(factors), or M=N=K=.. for several names at once",
        text);
}

/* Digits at *p; false: none, or too many. */
static bool number_at(const char **p, int64_t *v)
{
    size_t n = strspn(*p, "0123456789");
    *v = 0;
    for (size_t i = 0; i < n && n <= 15; i++) *v = 10 * *v + (*p)[i] - '0';
    *p += n;
    return n && n <= 15;
}

/* "64", "128..4096:128", "1024..16384*2"; false: it is none of these. */
static bool range_at(Tool *t, const char **p, Values *out)
{
    int64_t lo, hi, by = 1;
    bool factor = false;
    if (!number_at(p, &lo)) return false;
    hi = lo;
    if (!strncmp(*p, "..", 2)) {
        *p += 2;
        if (!number_at(p, &hi) || hi < lo) return false;
        if (**p == ':' || **p == '*') {
            factor = *(*p)++ == '*';
            if (!number_at(p, &by) || by < (factor ? 2 : 1) || (factor && !lo)) return false;
        }
    }
    for (int64_t v = lo; out->len <= MOST_SIZES; v = factor ? v * by : v + by) {
        vec_push(&t->arena, out, v);
        if (factor ? v > hi / by : v > hi - by) break;
    }
    return true;
}

static bool is_name(const char *s, size_t n)
{
    if (!n || (*s >= '0' && *s <= '9')) return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") >= n;
}

/* One option: its names, and the values that they take together. */
static int read_one(Tool *t, const char *text, Strings *names, Values *values)
{
    const char *p = text, *last = strrchr(text, '=');
    if (!last) return wrong(t, text);
    while (p < last + 1) {
        size_t n = strcspn(p, "=");
        if (!is_name(p, n)) return wrong(t, text);
        vec_push(&t->arena, names, arena_strndup(&t->arena, p, n));
        p += n + 1;
    }
    for (;; p++) {
        if (!range_at(t, &p, values) || (*p && *p != ',')) return wrong(t, text);
        if (!*p) return EXIT_OK;
    }
}

/* Every size so far with every value of one more option. */
static int multiply(Tool *t, Sweep *s, size_t more, const Values *values)
{
    Sweep out = { .names = s->names, .first = s->first };
    if (s->sizes.len * values->len > MOST_SIZES)
        return tool_usage(t, "--sweep gives more than %d sizes", MOST_SIZES);
    size_t n = s->names.len - more;
    for (size_t i = 0; i < s->sizes.len; i++)
        for (size_t v = 0; v < values->len; v++) {
            int64_t *x = arena_array(&t->arena, int64_t, s->names.len + 1);
            if (n) memcpy(x, s->sizes.data[i].values, n * sizeof *x);
            for (size_t k = n; k < s->names.len; k++) x[k] = values->data[v];
            vec_push(&t->arena, &out.sizes, (BenchSize){ x });
        }
    *s = out;
    return EXIT_OK;
}

int sweep_read(Tool *t, const Args *a, Sweep *s)
{
    const Strings *given = &a->flag[FLAG_SWEEP];
    *s = (Sweep){ 0 };
    vec_push(&t->arena, &s->sizes, (BenchSize){ arena_array(&t->arena, int64_t, 1) });
    if (given->len > MOST_SWEEPS) return tool_usage(t, "at most %d --sweep options", MOST_SWEEPS);
    for (size_t i = 0; i < given->len; i++) {
        Values values = { 0 };
        size_t before = s->names.len;
        int code = read_one(t, given->data[i], &s->names, &values);
        if (!i) s->first = s->names.len;
        for (size_t k = before; k < s->names.len && !code; k++)
            for (size_t m = 0; m < k && !code; m++)
                if (!strcmp(s->names.data[m], s->names.data[k]))
                    code = tool_usage(t, "--sweep gives %s twice", s->names.data[k]);
        if (!code) code = multiply(t, s, s->names.len - before, &values);
        if (code) return code;
    }
    return EXIT_OK;
}

const char *sweep_title(Arena *a, const Sweep *s, size_t size)
{
    Text t;
    text_init(&t, a);
    text_puts(&t, "");
    const int64_t *v = s->sizes.data[size].values;
    for (size_t k = 0; k < s->names.len; k++) {
        bool shared = k + 1 < s->names.len && v[k] == v[k + 1]; /* M=N=K=128 */
        text_printf(&t, "%s=", s->names.data[k]);
        if (!shared) text_printf(&t, "%lld%s", (long long)v[k], k + 1 < s->names.len ? ", " : "");
    }
    return t.data ? t.data : "";
}

const char *sweep_axis(const Sweep *s) { return s->names.len ? s->names.data[0] : "size"; }

double sweep_at(const Sweep *s, size_t size)
{ return s->names.len ? (double)s->sizes.data[size].values[0] : 1; }
