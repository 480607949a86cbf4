/* tune.c: the reader of tuning tables (tune.h): JSON of two fixed levels. The text is a user's file:
 * everything is checked, nesting cannot run away since only the shapes of the format are followed. */
#include "runtime/tune/tune.h"
#include "ir/support/number.h"
#include <stdlib.h>

bool tune_same_value(const FrontValue *a, const FrontValue *b)
{
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case FRONT_NOTHING: return true;
    case FRONT_INT:
    case FRONT_UINT: return a->i == b->i;
    case FRONT_FLOAT: return a->f == b->f;
    case FRONT_BOOL: return a->b == b->b;
    case FRONT_TYPE: return a->type == b->type;
    case FRONT_TEXT: return !strcmp(a->text, b->text);
    }
    return false;
}

typedef struct Json {
    Session *s;
    uint32_t file;
    const char *text;
    size_t len, at;
    bool bad;
} Json;

static bool complain(Json *j, const char *what)
{
    size_t at = j->at < j->len ? j->at : j->len;
    if (!j->bad) diag_error(j->s, (Loc){ j->file, (uint32_t)at, (uint32_t)at + 1 }, "tuning table: %s", what);
    j->bad = true;
    return false;
}

static char peek(Json *j)
{
    while (j->at < j->len && strchr(" \t\r\n", j->text[j->at]) && j->text[j->at]) j->at++;
    return j->at < j->len ? j->text[j->at] : 0;
}

static bool take(Json *j, char c)
{
    if (j->bad || peek(j) != c) return false;
    j->at++;
    return true;
}

static bool expect(Json *j, char c, const char *what) { return take(j, c) || complain(j, what); }

static const char *string(Json *j)
{
    if (!expect(j, '"', "a string was expected")) return "";
    size_t begin = j->at;
    while (j->at < j->len && j->text[j->at] != '"' && j->text[j->at] != '\\' &&
           (unsigned char)j->text[j->at] >= 32)
        j->at++;
    if (j->at >= j->len || j->text[j->at] != '"') {
        complain(j, "names are plain strings without escapes");
        return "";
    }
    return session_intern(j->s, j->text + begin, j->at++ - begin);
}

static bool word(Json *j, const char *w)
{
    size_t n = strlen(w);
    if (j->len - j->at < n || memcmp(j->text + j->at, w, n)) return false;
    j->at += n;
    return true;
}

/* "f16" is a type if it names one, and a text is a placement of programs under that name; numbers without
 * point and exponent are integers. */
static FrontValue value(Json *j, bool placement)
{
    FrontValue v = { FRONT_NOTHING, { 0 } };
    char c = peek(j);
    if (c == '"') {
        const char *t = string(j);
        if (placement) v = (FrontValue){ FRONT_TEXT, { .text = t } };
        else if (!j->bad && dtype_parse(t, strlen(t), &v.type)) v.kind = FRONT_TYPE;
        else complain(j, "a type such as \"f16\" was expected");
    } else if (word(j, "true")) v = (FrontValue){ FRONT_BOOL, { .b = true } };
    else if (word(j, "false")) v = (FrontValue){ FRONT_BOOL, { .b = false } };
    else {
        char number[64];
        size_t n = 0;
        while (j->at + n < j->len && n < sizeof number - 1 && strchr("+-0123456789.eE", j->text[j->at + n]) &&
               j->text[j->at + n])
            n++;
        memcpy(number, j->text + j->at, n);
        number[n] = 0;
        char *end = number;
        if (n && !strpbrk(number, ".eE")) v = (FrontValue){ FRONT_INT, { .i = strtoll(number, &end, 10) } };
        else if (n) v = (FrontValue){ FRONT_FLOAT, { .f = number_read(number, &end) } };
        if (!n || *end) complain(j, "a number, true, false or a type was expected");
        else j->at += n;
    }
    return v;
}

static int items(Json *j, const TuneItem **out)
{
    VEC(TuneItem) list = { 0 };
    *out = NULL;
    if (!expect(j, '{', "'{' was expected")) return 0;
    while (!j->bad && peek(j) != '}') {
        if (list.len && !expect(j, ',', "',' or '}' was expected")) break;
        TuneItem item = { string(j), { 0 } };
        if (!expect(j, ':', "':' was expected")) break;
        peek(j);
        item.value = value(j, frontend_placement_name(item.name));
        if (list.len >= 256) complain(j, "more than 256 names in one list");
        vec_push(&j->s->arena, &list, item);
    }
    take(j, '}');
    *out = list.data;
    return (int)list.len;
}

static TuneEntry entry(Json *j)
{
    TuneEntry e = { .kernel = "", .target = "", .device = "", .note = "", .promises = "" };
    bool first = true;
    expect(j, '{', "an entry '{' was expected");
    while (!j->bad && peek(j) != '}') {
        if (!first && !expect(j, ',', "',' or '}' was expected")) break;
        first = false;
        const char *name = string(j);
        if (!expect(j, ':', "':' was expected")) break;
        peek(j);
        if (!strcmp(name, "kernel")) e.kernel = string(j);
        else if (!strcmp(name, "target")) e.target = string(j);
        else if (!strcmp(name, "device")) e.device = string(j);
        else if (!strcmp(name, "note")) e.note = string(j);
        else if (!strcmp(name, "promises")) e.promises = string(j);
        else if (!strcmp(name, "ms")) {
            FrontValue v = value(j, false);
            e.ms = v.kind == FRONT_FLOAT ? v.f : v.kind == FRONT_INT ? (double)v.i : 0;
        } else if (!strcmp(name, "key")) e.n_key = items(j, &e.key);
        else if (!strcmp(name, "config")) e.n_config = items(j, &e.config);
        else if (peek(j) == '"') string(j); /* what else somebody noted */
        else value(j, false);
    }
    take(j, '}');
    if (!j->bad && !*e.kernel) complain(j, "an entry without \"kernel\"");
    return e;
}

bool tune_parse(Session *s, uint32_t file, TuneFile *out)
{
    const Source *src = diag_source(s, file);
    Json j = { s, file, src->text, src->len, 0, false };
    VEC(TuneEntry) entries = { 0 };
    bool format = false, first = true;
    expect(&j, '{', "'{' was expected");
    while (!j.bad && peek(&j) != '}') {
        if (!first && !expect(&j, ',', "',' or '}' was expected")) break;
        first = false;
        const char *name = string(&j);
        if (!expect(&j, ':', "':' was expected")) break;
        if (!strcmp(name, "format")) {
            const char *f = string(&j);
            if (!j.bad && strcmp(f, "tile-tune-1")) complain(&j, "not of the format tile-tune-1");
            format = true;
        } else if (!strcmp(name, "entries")) {
            expect(&j, '[', "'[' was expected");
            for (bool head = true; !j.bad && peek(&j) != ']'; head = false) {
                if (!head && !expect(&j, ',', "',' or ']' was expected")) break;
                vec_push(&s->arena, &entries, entry(&j));
            }
            take(&j, ']');
        } else if (peek(&j) == '"') string(&j);
        else value(&j, false);
    }
    if (!j.bad) {
        take(&j, '}');
        if (peek(&j)) complain(&j, "text after the end");
    }
    if (!j.bad && !format) complain(&j, "no \"format\": \"tile-tune-1\"");
    out->entries = entries.data;
    out->n = (int)entries.len;
    return !j.bad;
}
