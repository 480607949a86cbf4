/* value_text.c: values of bindings as text: what -D and tables give to consts, dimensions and hints, and
 * back. */
#include "frontend/frontend.h"
#include "frontend/parse/habits.h"
#include "frontend/parse/parse.h"
#include "ir/support/number.h"

/* An integer of i64 or u64; one above 2^63 - 1 is FRONT_UINT. */
static bool read_int(const char *text, FrontValue *out)
{
    bool minus = *text == '-';
    uint64_t v = 0, most = minus ? (uint64_t)INT64_MAX + 1 : UINT64_MAX;
    unsigned base = 10;
    text += minus || *text == '+';
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        base = 16;
        text += 2;
    }
    if (!*text) return false;
    for (; *text; text++) {
        char c = *text;
        unsigned d = c >= '0' && c <= '9'                 ? (unsigned)(c - '0')
                     : (c | 32) >= 'a' && (c | 32) <= 'f' ? (unsigned)((c | 32) - 'a') + 10
                                                          : 99;
        if (d >= base || v > (most - d) / base) return false;
        v = v * base + d;
    }
    *out = (FrontValue){ !minus && v > INT64_MAX ? FRONT_UINT : FRONT_INT,
        { .i = (int64_t)(minus ? 0 - v : v) } };
    return true;
}

static bool read_float(Session *s, const char *text, double *out)
{
    bool minus = *text == '-';
    text += minus || *text == '+';
    size_t len = strspn(text, "0123456789.eE+-");
    if (!strcmp(text, "inf")) *out = __builtin_inf();
    else if (!strcmp(text, "nan")) *out = __builtin_nan("");
    else if (!*text || text[len] || !((*text >= '0' && *text <= '9') || *text == '.') ||
             !parse_decimal(s, text, len, out))
        return false;
    if (minus) *out = -*out;
    return true;
}

static bool read_value(Session *s, FrontValueKind kind, const char *text, FrontValue *out)
{
    out->kind = kind;
    switch (kind) {
    case FRONT_INT:
    case FRONT_UINT: return read_int(text, out);
    case FRONT_FLOAT: return read_float(s, text, &out->f);
    case FRONT_BOOL:
        out->b = !strcmp(text, "true") || !strcmp(text, "1");
        return out->b || !strcmp(text, "false") || !strcmp(text, "0");
    case FRONT_TYPE: return dtype_parse(text, strlen(text), &out->type);
    case FRONT_TEXT: out->text = session_intern(s, text, strlen(text)); return *text != 0;
    case FRONT_NOTHING: return false;
    }
    return false;
}

bool frontend_parse_value(
    Session *s, const FrontKernel *k, const char *name, const char *text, FrontValue *out, const char **why)
{
    static const char *const wants[] = { "", "an integer from -2^63 to 2^64 - 1", "a number", "true or false",
        "a type like f32", "", "a placement of programs" };
    FrontValueKind kind = FRONT_NOTHING;
    *out = (FrontValue){ FRONT_NOTHING };
    for (int i = 0; i < k->n_params; i++) {
        const FrontParam *p = &k->params[i];
        if (strcmp(p->name, name) || (p->kind < FRONT_CONST && !p->optional)) continue;
        if (p->optional) kind = FRONT_BOOL;
        else if (p->kind == FRONT_CONST_TYPE) kind = FRONT_TYPE;
        else if (!strcmp(p->type_name, "bool")) kind = FRONT_BOOL;
        else if (!strcmp(p->type_name, "int") || (p->type_known && dtype_is_int(p->dtype))) kind = FRONT_INT;
        else
            kind = p->type_known || !strcmp(p->type_name, "float") || !read_value(s, FRONT_INT, text, out)
                       ? FRONT_FLOAT
                       : FRONT_INT;
    }
    for (int d = 0; d < k->n_dims && !kind; d++)
        if (!strcmp(k->dims[d], name)) kind = FRONT_INT;
    if (!kind && frontend_placement_name(name)) kind = FRONT_TEXT;
    if (!kind && frontend_hint_name(name)) kind = FRONT_INT;
    if (!kind) {
        *why = arena_printf(&s->arena, "kernel `%s` has no const, type or dimension `%s`", k->name, name);
        return false;
    }
    if (read_value(s, kind, text, out)) return true;
    const char *type = kind == FRONT_TYPE ? habit_note(HABIT_TYPE, text, strlen(text)) : NULL;
    *why = arena_printf(&s->arena, "`%s` must be %s, not `%s`", name, wants[kind], text);
    if (type) *why = arena_printf(&s->arena, "%s; the type is called `%s`", *why, type);
    return false;
}

/* The shortest decimal that reads back as the value: as a float where it is one, since most constants are of
 * f32. */
static void print_float(double v, Text *out)
{
    char buf[40], *end;
    bool single = (double)(float)v == v;
    if (!__builtin_isfinite(v)) {
        text_puts(out, v != v ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        format_text(buf, sizeof buf, "%.*g", digits, v);
        double back = number_read(buf, &end);
        if (single ? (float)back == (float)v : back == v) break;
    }
    text_puts(out, buf);
}

void frontend_print_value(FrontValue v, Text *out)
{
    switch (v.kind) {
    case FRONT_INT: text_printf(out, "%lld", (long long)v.i); return;
    case FRONT_UINT: text_printf(out, "%llu", (unsigned long long)v.i); return;
    case FRONT_FLOAT: print_float(v.f, out); return;
    case FRONT_BOOL: text_puts(out, v.b ? "true" : "false"); return;
    case FRONT_TYPE: text_puts(out, dtype_name(v.type)); return;
    case FRONT_TEXT: text_puts(out, v.text); return;
    case FRONT_NOTHING: text_puts(out, "?"); return;
    }
}
