/* prelude.c: picks and prints the prelude functions that a kernel calls, and those that these call. */
#include "backends/gpu/prelude/prelude.h"
#include "backends/gpu/emit.h"
#include "backends/hip/prelude.h"

typedef struct PickedEntry {
    const char *name, *text;
} PickedEntry;
typedef struct Pick {
    Session *s;
    const Target *target;
    const PreludeEntry *tables[4];
    int n_tables;
    VEC(PickedEntry) rows;
} Pick;

/* $d, $t, $o in the text are these. */
static const char *replace(Session *s, const char *text, const char *d, const char *t, const char *o)
{
    Text out;
    if (!strchr(text, '$')) return text;
    text_init(&out, &s->arena);
    for (const char *p = text;;) {
        size_t n = strcspn(p, "$");
        text_write(&out, p, n);
        p += n;
        if (!*p) return out.data;
        const char *by = p[1] == 'd' ? d : p[1] == 't' ? t : p[1] == 'o' ? o : NULL;
        if (by) text_puts(&out, by);
        else text_putc(&out, *p);
        p += by ? 2 : 1;
    }
}

typedef struct Word {
    const char *text;
    size_t n;
} Word;

static bool word(const char **p, char stop, Word *w)
{
    while (**p == ' ') ++*p;
    w->text = *p;
    while (**p && **p != ' ' && **p != stop) ++*p;
    w->n = (size_t)(*p - w->text);
    return w->n > 0;
}

static const char *kept(Session *s, Word w) { return session_intern(s, w.text, w.n); }

/* Is `name` the pattern with this type and operation? */
static bool matches(const char *pattern, Word d, Word o, const char *name)
{
    for (const char *p = pattern; *p;) {
        Word by = p[0] != '$'   ? (Word){ p, 1 }
                  : p[1] == 'd' ? d
                  : p[1] == 'o' ? o
                  : p[1] == 't' ? (Word){ "", 0 }
                                : (Word){ p, 1 };
        if (strncmp(name, by.text, by.n)) return false;
        name += by.n;
        p += p[0] == '$' && (p[1] == 'd' || p[1] == 'o' || p[1] == 't') ? 2 : 1;
    }
    return !*name;
}

void prelude_each(const PreludeEntry *table, PreludeVisit *visit, void *user)
{
    for (const PreludeEntry *e = table; e->name; e++) {
        const char *colon = e->dtypes ? strchr(e->dtypes, ':') : NULL, *ops = colon ? e->dtypes : "-";
        Word o, d;
        if (!e->dtypes) visit(user, e->name, e);
        while (e->dtypes && word(&ops, ':', &o)) {
            const char *ds = colon ? colon + 1 : e->dtypes;
            while (word(&ds, 0, &d)) {
                char name[128] = "";
                for (const char *p = e->name; *p; p += *p == '$' ? 2 : 1) {
                    Word by = p[0] != '$'   ? (Word){ p, 1 }
                              : p[1] == 'd' ? d
                              : p[1] == 'o' ? o
                                            : (Word){ "", 0 };
                    strncat(name, by.text,
                        by.n < sizeof name - 1 - strlen(name) ? by.n : sizeof name - 1 - strlen(name));
                }
                visit(user, name, e);
            }
            if (*ops == ':') break;
        }
    }
}

static bool take(Pick *k, const char *name);

/* A row behind those it calls. */
static void add(Pick *k, const PreludeEntry *e, const char *name, const char *d, const char *o)
{
    DType dt = DT_F32;
    const char *t = d ? (dtype_parse(d, strlen(d), &dt) ? ctype(dt) : d) : "";
    Word w;
    const char *text = replace(k->s, e->text, d ? d : "", t, o ? o : "");
    const char *deps = replace(k->s, e->deps, d ? d : "", t, o ? o : "");
    while (word(&deps, 0, &w))
        if (!take(k, kept(k->s, w)))
            ir_fail(k->s, (Loc){ 0 }, "the prelude lacks %.*s, which %s calls", (int)w.n, w.text, name);
    if (o) take(k, replace(k->s, "$o_$d", d, t, o));
    vec_push(&k->s->arena, &k->rows, ((PickedEntry){ name, text }));
}

/* The row of the table that gives `name`, with the type and the operation that it has there; NULL: none. */
static const PreludeEntry *find(const PreludeEntry *table, const char *name, Word *d, Word *o)
{
    for (const PreludeEntry *e = table; e->name; e++) {
        if (*e->name != '$' && *e->name != *name) continue;
        *d = *o = (Word){ NULL, 0 };
        if (!e->dtypes) {
            if (!strcmp(e->name, name)) return e;
            continue;
        }
        const char *colon = strchr(e->dtypes, ':'), *ops = colon ? e->dtypes : "-";
        while (word(&ops, ':', o)) {
            const char *ds = colon ? colon + 1 : e->dtypes;
            while (word(&ds, 0, d)) {
                if (!matches(e->name, *d, *o, name)) continue;
                if (!colon) o->text = NULL;
                return e;
            }
            if (*ops == ':') break;
        }
    }
    return NULL;
}

int prelude_tables(const Target *t, const PreludeEntry *out[4])
{
    int n = 0;
    if (t->kind == TARGET_HIP) return hip_tables(t, out);
    if (target_has(t, TF_MMA_FP8)) out[n++] = cuda_prelude_fp8;
    out[n++] = cuda_prelude;
    return n;
}

/* A function that is not in a table but written for its name; NULL: none. */
static const char *made_text(Session *s, const Target *t, const char *name)
{ return t->kind == TARGET_HIP ? hip_matrix(s, t, name) : cuda_wgmma(s, name); }

bool gpu_prelude_has(Session *s, const Target *t, const char *name)
{
    const PreludeEntry *tables[4];
    Word d, o;
    for (int k = 0, n = prelude_tables(t, tables); k < n; k++)
        if (find(tables[k], name, &d, &o)) return true;
    return made_text(s, t, name) != NULL;
}

static bool take(Pick *k, const char *name)
{
    for (size_t i = 0; i < k->rows.len; i++)
        if (!strcmp(k->rows.data[i].name, name)) return true;
    const char *made = made_text(k->s, k->target, name);
    if (made) {
        vec_push(&k->s->arena, &k->rows, ((PickedEntry){ name, made }));
        return true;
    }
    for (int t = 0; t < k->n_tables; t++) {
        Word d, o;
        const PreludeEntry *e = find(k->tables[t], name, &d, &o);
        if (!e) continue;
        add(k, e, name, d.text ? kept(k->s, d) : NULL, o.text ? kept(k->s, o) : NULL);
        return true;
    }
    return false;
}

static bool in_word(char c)
{ return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

static bool mentions(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = text; (p = strstr(p, name)); p += n)
        if ((p == text || !in_word(p[-1])) && !in_word(p[n])) return true;
    return false;
}

static bool is_called(const char *row, const char *const *names, const bool *called, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if ((!called || called[k]) && same_name(names[k], row)) return true;
    return false;
}

/* Rows that the kernel calls, and those that a needed row mentions. A row that defines nothing of its name is
 * always needed. */
static void print_needed(
    const Pick *k, const char *const *names, const bool *called, size_t n_names, Text *out)
{
    size_t n = k->rows.len;
    bool *needed = arena_array(&k->s->arena, bool, n);
    for (size_t i = 0; i < n; i++) {
        const PickedEntry *row = &k->rows.data[i];
        needed[i] = is_called(row->name, names, called, n_names) || !mentions(row->text, row->name);
    }
    for (bool again = true; again;) {
        again = false;
        for (size_t i = n; i-- > 0;)
            for (size_t j = n; needed[i] && j-- > 0;)
                if (!needed[j] && mentions(k->rows.data[i].text, k->rows.data[j].name))
                    needed[j] = again = true;
    }
    for (size_t i = 0; i < n; i++)
        if (needed[i]) text_printf(out, "%s\n", k->rows.data[i].text);
}

void gpu_prelude(
    Session *s, const Target *t, const char *const *names, const bool *called, size_t n, Text *out)
{
    Pick k = { .s = s, .target = t };
    bool hip = t->kind == TARGET_HIP;
    k.n_tables = prelude_tables(t, k.tables);
    take(&k, "shared_address");
    take(&k, "uniform");
    if (hip) take(&k, "thread_id");
    for (size_t i = 0; i < n; i++)
        if (!take(&k, names[i])) ir_fail(s, (Loc){ 0 }, "%s has no %s in its prelude", t->name, names[i]);
    text_puts(out, hip ? hip_prelude_head : cuda_prelude_head);
    print_needed(&k, names, called, n, out);
}
