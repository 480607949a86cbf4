/* device.c: the devices that the model knows, and those that a user describes in a file. */
#include "passes/sim/sim.h"
#include "passes/sim/cache.h"
#include "ir/text/text.h"

static const SimDevice devices[] = {
#define SIM_DEVICE(name, target, chiplets, units, l1, l1_ways, l2, l2_ways, llc, llc_ways, line, l2_tbs, \
    llc_tbs, memory_tbs, shared_tbs, t16, t32) \
    { name, chiplets, units, (l1) * 1024ll, l1_ways, (l2) * 1024ll, l2_ways, (llc) * 1024ll, llc_ways, line, \
        l2_tbs, llc_tbs, memory_tbs, shared_tbs, t16, t32, target },
#include "passes/sim/devices.def"
#undef SIM_DEVICE
};

const SimDevice *sim_device_at(size_t i) { return i < sizeof devices / sizeof *devices ? &devices[i] : NULL; }

const SimDevice *sim_device_find(const char *name)
{
    for (size_t i = 0; sim_device_at(i); i++)
        if (!strcmp(devices[i].name, name)) return &devices[i];
    return NULL;
}

const SimDevice *sim_device_of(const Target *t)
{
    for (size_t i = 0; t && t->chiplets > 1 && sim_device_at(i); i++)
        if (!strcmp(devices[i].target, t->name)) return &devices[i];
    return NULL;
}

/* --- device files ------------------------------------------------------------------------------------ */

typedef struct Key {
    const char *name;
    size_t offset;
    bool real;
    double unit, lo, hi;
} Key;

#define INT_KEY(name, field, unit, lo, hi) { name, offsetof(SimDevice, field), false, unit, lo, hi }
#define REAL_KEY(name, field, hi) { name, offsetof(SimDevice, field), true, 1, 0, hi }
static const Key keys[] = {
    INT_KEY("chiplets", chiplets, 1, 1, 255),
    INT_KEY("units", units, 1, 1, 4096),
    INT_KEY("l1_kib", l1_bytes, 1024, 0, 1 << 20),
    INT_KEY("l1_ways", l1_ways, 1, 1, SIM_MAX_WAYS),
    INT_KEY("l2_kib", l2_bytes, 1024, 1, 1 << 24),
    INT_KEY("l2_ways", l2_ways, 1, 1, SIM_MAX_WAYS),
    INT_KEY("llc_kib", llc_bytes, 1024, 0, 1 << 24),
    INT_KEY("llc_ways", llc_ways, 1, 1, SIM_MAX_WAYS),
    INT_KEY("line", line, 1, 16, 4096),
    REAL_KEY("l2_tbs", l2_tbs, 1e6),
    REAL_KEY("llc_tbs", llc_tbs, 1e6),
    REAL_KEY("memory_tbs", memory_tbs, 1e6),
    REAL_KEY("shared_tbs", shared_tbs, 1e6),
    REAL_KEY("tflops_16", tflops_16, 1e9),
    REAL_KEY("tflops_32", tflops_32, 1e9),
};
enum { N_KEYS = sizeof keys / sizeof *keys };

typedef struct Reader {
    Session *s;
    uint32_t file;
    const char *text, *p;
    uint32_t given;
} Reader;

static Loc span(const Reader *r, const char *from, size_t n)
{ return (Loc){ r->file, (uint32_t)(from - r->text), (uint32_t)(from - r->text + (ptrdiff_t)n) }; }

static void skip_blanks(Reader *r) { r->p += strspn(r->p, " \t\r"); }

static bool is_optional(const Key *k) { return k->offset == offsetof(SimDevice, shared_tbs); }
static bool may_be_zero(const Key *k) { return is_optional(k) || k->offset == offsetof(SimDevice, llc_tbs); }

static bool read_number(Reader *r, const Key *k, const char *word, size_t n, SimDevice *d)
{
    double x;
    char *field = (char *)d + k->offset;
    bool ok = irtext_read_float(word, n, &x) && x >= k->lo && x <= k->hi &&
              (k->real ? x > 0 || may_be_zero(k) : x == (double)(int64_t)x);
    if (!ok) {
        diag_error(r->s, span(r, word, n), "%s wants a %snumber from %g to %g, not `%.*s`", k->name,
            k->real ? "" : "whole ", k->lo, k->hi, (int)n, word);
        return false;
    }
    if (k->real) *(double *)(void *)field = x;
    else *(int64_t *)(void *)field = (int64_t)(x * k->unit);
    return true;
}

static bool read_line(Reader *r, SimDevice *d)
{
    const char *name = r->p;
    size_t n = 0, len;
    while (irtext_name_char(name[n])) n++;
    if (!n) {
        diag_error(r->s, span(r, name, 1), "expected `key = value`");
        return false;
    }
    r->p += n;
    skip_blanks(r);
    if (*r->p != '=') {
        diag_error(r->s, span(r, name, n), "expected `=` after %.*s", (int)n, name);
        return false;
    }
    r->p++;
    skip_blanks(r);
    const char *word = r->p;
    len = strcspn(word, " \t\r\n#");
    r->p += len;
    skip_blanks(r);
    if (!len) {
        diag_error(r->s, span(r, name, n), "%.*s has no value", (int)n, name);
        return false;
    }
    if (*r->p && *r->p != '\n' && *r->p != '#') {
        diag_error(r->s, span(r, r->p, 1), "one value a line");
        return false;
    }
    if (n == 4 && !memcmp(name, "name", 4)) {
        d->name = arena_strndup(&r->s->arena, word, len);
        return true;
    }
    if (n == 4 && !memcmp(name, "like", 4)) {
        const SimDevice *of = sim_device_find(arena_strndup(&r->s->arena, word, len));
        const char *own = d->name;
        if (!of) {
            diag_error(r->s, span(r, word, len), "there is no device `%.*s`", (int)len, word);
            return false;
        }
        if (r->given) {
            diag_error(r->s, span(r, name, n), "`like` goes before what differs");
            return false;
        }
        *d = *of;
        d->name = own;
        r->given = (1u << N_KEYS) - 1;
        return true;
    }
    for (int k = 0; k < N_KEYS; k++)
        if (strlen(keys[k].name) == n && !memcmp(keys[k].name, name, n)) {
            r->given |= 1u << k;
            return read_number(r, &keys[k], word, len, d);
        }
    diag_error(r->s, span(r, name, n), "a device has no `%.*s` (docs/sim.md lists the keys)", (int)n, name);
    return false;
}

static bool whole_cache(Reader *r, const char *what, int64_t bytes, int64_t ways, int64_t line)
{
    if (!bytes || bytes % (ways * line) == 0) return true;
    diag_error(r->s, (Loc){ r->file, 0, 0 }, "%s of %lld bytes are no whole sets of %lld ways of %lld bytes",
        what, (long long)bytes, (long long)ways, (long long)line);
    return false;
}

bool sim_device_parse(Session *s, uint32_t file, SimDevice *d)
{
    const Source *source = diag_source(s, file);
    Reader r = { s, file, source->text, source->text, 0 };
    *d = (SimDevice){ .name = source->name };
    while (*r.p) {
        skip_blanks(&r);
        if (*r.p == '#') r.p += strcspn(r.p, "\n");
        if (*r.p == '\n') {
            r.p++;
            continue;
        }
        if (!*r.p) break;
        if (!read_line(&r, d)) return false;
    }
    for (int k = 0; k < N_KEYS; k++)
        if (!(r.given >> k & 1) && !is_optional(&keys[k])) {
            diag_error(s, (Loc){ file, 0, 0 }, "%s is missing (or `like = mi300x` before what differs)",
                keys[k].name);
            return false;
        }
    if (d->line & (d->line - 1)) {
        diag_error(s, (Loc){ file, 0, 0 }, "a line of %lld bytes is no power of two", (long long)d->line);
        return false;
    }
    if (d->llc_bytes && d->llc_tbs <= 0) {
        diag_error(s, (Loc){ file, 0, 0 }, "llc_tbs of a last-level cache must be above 0");
        return false;
    }
    return whole_cache(&r, "L1", d->l1_bytes, d->l1_ways, d->line) &&
           whole_cache(&r, "L2", d->l2_bytes, d->l2_ways, d->line) &&
           whole_cache(&r, "a last-level cache", d->llc_bytes, d->llc_ways, d->line);
}
