/* parse_token.c: the tokens of IR text, and the small things made of one token: names, numbers, strings
 * (parse.h). */
#include "ir/text/parse.h"

void irread_fail(Parser *p, Loc loc, const char *fmt, ...)
{
    if (p->failed) return;
    va_list ap;
    va_start(ap, fmt);
    diag_error(p->s, loc, "%s", arena_vprintf(&p->s->arena, fmt, ap));
    va_end(ap);
    p->failed = true;
    p->pos = (uint32_t)p->src->len;
    p->tok = (Token){ .kind = TOK_END, .at = "", .begin = p->pos, .end = p->pos };
}

static bool skip_space(Parser *p)
{
    bool newline = p->pos == 0;
    for (;; p->pos++) {
        char c = irread_char(p, p->pos);
        if (c == '\n') newline = true;
        else if (c == '/' && irread_char(p, p->pos + 1) == '/') {
            while (p->pos < p->src->len && irread_char(p, p->pos) != '\n') p->pos++;
            newline = true;
        } else if (c != ' ' && c != '\t' && c != '\r') return newline;
        if (p->pos >= p->src->len) return newline;
    }
}

static void lex_value(Parser *p, Token *t)
{
    uint32_t pos = p->pos + 1;
    t->kind = TOK_VALUE;
    t->at = p->src->text + pos;
    while (irtext_name_start(irread_char(p, pos)) ||
           (irtext_digit(irread_char(p, pos)) && pos > p->pos + 1 && irtext_name_start(*t->at)))
        pos++;
    t->len = (size_t)(p->src->text + pos - t->at);
    bool named = t->len > 0;
    if (named && irread_char(p, pos) == '.') pos++;
    else if (named) {
        irread_fail(p, (Loc){ p->file, p->pos, pos }, "a value is %%id or %%name.id");
        return;
    }
    uint64_t id = 0;
    uint32_t digits = pos;
    while (irtext_digit(irread_char(p, pos))) {
        if (id < 1ull << 40) id = id * 10 + (unsigned)(irread_char(p, pos) - '0');
        pos++;
    }
    if (pos == digits) {
        irread_fail(p, (Loc){ p->file, p->pos, pos }, "a value is %%id or %%name.id");
        return;
    }
    if (id >= 1u << 31) {
        irread_fail(p, (Loc){ p->file, p->pos, pos }, "the value's number is too large");
        return;
    }
    t->id = (uint32_t)id;
    p->pos = pos;
}

static void lex_number(Parser *p)
{
    char last = 0;
    bool hex = irread_char(p, p->pos) == '0' && (irread_char(p, p->pos + 1) | 32) == 'x';
    for (;; p->pos++) {
        char c = irread_char(p, p->pos);
        bool exponent = hex ? (last | 32) == 'p' : (last | 32) == 'e';
        if (!irtext_name_char(c) && c != '.' && !((c == '+' || c == '-') && exponent)) return;
        last = c;
    }
}

void irread_next(Parser *p)
{
    if (p->failed) return;
    Token t = { .first_on_line = skip_space(p) };
    t.begin = p->pos;
    t.at = p->src->text + p->pos;
    char c = irread_char(p, p->pos);
    if (p->pos >= p->src->len) t.kind = TOK_END;
    else if (irtext_name_start(c)) {
        t.kind = TOK_NAME;
        while (irtext_name_char(irread_char(p, p->pos)) ||
               (irread_char(p, p->pos) == '.' && irtext_name_start(irread_char(p, p->pos + 1))))
            p->pos++;
        if (p->pos - t.begin == 3 && !memcmp(t.at, "nan", 3) && irread_char(p, p->pos) == ':') {
            t.kind = TOK_NUMBER;
            p->pos++;
            while (irtext_name_char(irread_char(p, p->pos))) p->pos++;
        }
    } else if (c == '%') lex_value(p, &t);
    else if (irtext_digit(c) || (c == '-' && irtext_name_char(irread_char(p, p->pos + 1)))) {
        t.kind = TOK_NUMBER;
        if (c == '-') p->pos++;
        lex_number(p);
    } else if (c == '"') {
        t.kind = TOK_STRING;
        for (p->pos++; irread_char(p, p->pos) != '"'; p->pos++) {
            if (irread_char(p, p->pos) == '\\') p->pos++;
            if (p->pos >= p->src->len || irread_char(p, p->pos) == '\n') {
                irread_fail(p, (Loc){ p->file, t.begin, t.begin + 1 }, "the string does not end on its line");
                return;
            }
        }
        p->pos++;
    } else {
        t.kind = TOK_PUNCT;
        p->pos++;
    }
    if (p->failed) return;
    t.end = p->pos;
    if (t.kind != TOK_VALUE) t.len = t.end - t.begin;
    p->tok = t;
}

bool irread_is_punct(const Parser *p, char c) { return p->tok.kind == TOK_PUNCT && *p->tok.at == c; }

bool irread_text_is(const Token *t, const char *s)
{ return strlen(s) == t->len && !memcmp(t->at, s, t->len); }
bool irread_is_name(const Parser *p, const char *s)
{ return p->tok.kind == TOK_NAME && irread_text_is(&p->tok, s); }

const char *irread_found(Parser *p)
{
    if (p->tok.kind == TOK_END) return "the end of the text";
    return arena_printf(&p->s->arena, "'%.*s'",
        (int)(p->tok.end - p->tok.begin > 40 ? 40 : p->tok.end - p->tok.begin), p->src->text + p->tok.begin);
}

bool irread_accept(Parser *p, char c)
{
    if (!irread_is_punct(p, c)) return false;
    irread_next(p);
    return true;
}

bool irread_accept_name(Parser *p, const char *s)
{
    if (!irread_is_name(p, s)) return false;
    irread_next(p);
    return true;
}

void irread_expect(Parser *p, char c)
{
    if (!irread_accept(p, c)) irread_fail(p, irread_here(p), "expected '%c', found %s", c, irread_found(p));
}

void irread_expect_name(Parser *p, const char *s)
{
    if (!irread_accept_name(p, s))
        irread_fail(p, irread_here(p), "expected '%s', found %s", s, irread_found(p));
}

const char *irread_name(Parser *p, const char *what)
{
    if (p->tok.kind != TOK_NAME) {
        irread_fail(p, irread_here(p), "expected %s, found %s", what, irread_found(p));
        return "";
    }
    const char *n = session_intern(p->s, p->tok.at, p->tok.len);
    irread_next(p);
    return n;
}

int64_t irread_integer(Parser *p, bool wide)
{
    const Token t = p->tok;
    bool neg = t.kind == TOK_NUMBER && *t.at == '-', ok = t.kind == TOK_NUMBER;
    uint64_t v = 0, limit = neg ? 1ull << 63 : wide ? UINT64_MAX : INT64_MAX;
    for (size_t k = neg; ok && k < t.len; k++) {
        unsigned d = (unsigned)(t.at[k] - '0');
        ok = irtext_digit(t.at[k]) && v <= (limit - d) / 10;
        v = v * 10 + d;
    }
    if (!ok) {
        irread_fail(p, irread_here(p),
            t.kind == TOK_NUMBER ? "%s is not an integer of 64 bits" : "expected an integer, found %s",
            irread_found(p));
        return 0;
    }
    irread_next(p);
    return (int64_t)(neg ? 0 - v : v);
}

int64_t irread_integer_in(Parser *p, int64_t lo, int64_t hi, const char *what)
{
    Loc loc = irread_here(p);
    int64_t v = irread_integer(p, false);
    if (v < lo || v > hi) {
        irread_fail(p, loc, "%s must be in %lld .. %lld", what, (long long)lo, (long long)hi);
        return lo;
    }
    return v;
}

double irread_number(Parser *p)
{
    double v = 0;
    if (p->tok.kind != TOK_NUMBER && p->tok.kind != TOK_NAME) {
        irread_fail(p, irread_here(p), "expected a number, found %s", irread_found(p));
        return 0;
    }
    if (!irtext_read_float(p->tok.at, p->tok.len, &v))
        irread_fail(p, irread_here(p),
            "%s is not a number of the text form (more than 15 digits or 22 powers of ten are written in "
            "hexadecimal)",
            irread_found(p));
    irread_next(p);
    return v;
}

static int hex(char c)
{
    return irtext_digit(c)        ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

const char *irread_string(Parser *p)
{
    if (p->tok.kind != TOK_STRING) {
        irread_fail(p, irread_here(p), "expected a string, found %s", irread_found(p));
        return "";
    }
    Text out;
    text_init(&out, &p->s->arena);
    text_puts(&out, "");
    const char *s = p->tok.at + 1, *end = p->tok.at + p->tok.len - 1;
    for (; s < end; s++) {
        char c = *s;
        if (c == '\\') {
            c = *++s;
            if (c == 'n') c = '\n';
            else if (c == 't') c = '\t';
            else if (c == 'x' && end - s > 2 && hex(s[1]) >= 0 && hex(s[2]) >= 0 &&
                     (s[1] != '0' || s[2] != '0')) {
                c = (char)(hex(s[1]) * 16 + hex(s[2]));
                s += 2;
            } else if (c != '"' && c != '\\') {
                irread_fail(p, irread_here(p), "unknown escape '\\%c' in a string", c);
                return "";
            }
        } else if (c == '\0') {
            irread_fail(p, irread_here(p), "a zero byte in a string");
            return "";
        }
        text_putc(&out, c);
    }
    irread_next(p);
    return out.data;
}
