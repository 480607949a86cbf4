#include "extent_text.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 31, DEPTH_MOST = 16 };

typedef struct Reader {
    const char *at;
    ExtentName *name;
    const void *context;
    int depth;
    bool bad;
} Reader;

static int64_t sum_of(Reader *);

static bool take(Reader *r, char c)
{
    r->at += strspn(r->at, " ");
    if (*r->at != c) return false;
    r->at++;
    return true;
}

static int64_t quotient(int64_t a, int64_t b) { return b ? a / b : 0; }

static int64_t call(Reader *r, const char *name)
{
    int64_t a = sum_of(r);
    r->bad |= !take(r, ',');
    int64_t b = sum_of(r);
    r->bad |= !take(r, ')');
    if (!strcmp(name, "cdiv")) return quotient(a + b - 1, b);
    if (!strcmp(name, "min")) return a < b ? a : b;
    if (!strcmp(name, "max")) return a > b ? a : b;
    r->bad = true;
    return 0;
}

static int64_t factor(Reader *r)
{
    char name[NAME_MOST + 1], *end;
    int64_t value = 0;
    size_t n = 0;
    if (take(r, '(')) {
        value = sum_of(r);
        r->bad |= !take(r, ')');
        return value;
    }
    if (isdigit((unsigned char)*r->at)) {
        value = strtoll(r->at, &end, 10);
        r->at = end;
        return value;
    }
    while (isalnum((unsigned char)*r->at) || *r->at == '_') {
        if (n < NAME_MOST) name[n++] = *r->at;
        r->at++;
    }
    name[n] = 0;
    if (n && take(r, '(')) return call(r, name);
    r->bad |= !n || !r->name(r->context, name, &value);
    return value;
}

static int64_t product_of(Reader *r)
{
    int64_t value = factor(r);
    while (!r->bad)
        if (take(r, '*')) value *= factor(r);
        else if (take(r, '/')) value = quotient(value, factor(r));
        else break;
    return value;
}

static int64_t sum_of(Reader *r)
{
    r->bad |= ++r->depth > DEPTH_MOST;
    int64_t value = r->bad ? 0 : product_of(r);
    while (!r->bad)
        if (take(r, '+')) value += product_of(r);
        else if (take(r, '-')) value -= product_of(r);
        else break;
    r->depth--;
    return value;
}

bool extent_value(const char *text, ExtentName *name, const void *context, int64_t *out)
{
    Reader r = { .at = text, .name = name, .context = context };
    *out = sum_of(&r);
    r.at += strspn(r.at, " ");
    return !r.bad && !*r.at;
}
