/* parse.c: reads the text form of the IR (docs/ir.md has the grammar; print.c writes it). Recursive descent
 * over the text, one token ahead. Only syntax and names are checked here; ir_verify judges what was read. The
 * first error ends the work: the token becomes the end of the text, from which every loop below leaves by
 * itself. */
#include "ir/scalar.h"
#include "ir/text.h"

typedef enum TokenKind { TOK_END, TOK_NAME, TOK_VALUE, TOK_NUMBER, TOK_STRING, TOK_PUNCT } TokenKind;

typedef struct Token {
    TokenKind kind;
    const char *at; /* NAME, NUMBER: the text; VALUE: the name without % and .id; PUNCT: the character */
    size_t len;
    uint32_t begin, end, id;
    bool first_on_line;
} Token;

typedef struct Parser {
    Session *s;
    const Source *src;
    uint32_t file, pos;
    Token tok;
    bool failed;
    int depth;
    Module *module;
    Func *func;
    Value **values;
    size_t n_values, cap_values; /* by id: open addressing */
} Parser;

typedef VEC(Attr) AttrList;
typedef VEC(const Type *) Types;
typedef struct Name {
    const char *name;
    uint32_t id;
    Loc loc;
} Name;
typedef VEC(Name) Names;

static Loc loc_of(const Parser *p, const Token *t) { return (Loc){ p->file, t->begin, t->end }; }
static Loc here(const Parser *p) { return loc_of(p, &p->tok); }

__attribute__((format(printf, 3, 4))) static void fail(Parser *p, Loc loc, const char *fmt, ...)
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

/* --- tokens ------------------------------------------------------------------------------------------ */

static char at(const Parser *p, uint32_t pos) { return pos < p->src->len ? p->src->text[pos] : '\0'; }

static bool skip_space(Parser *p)
{
    bool newline = p->pos == 0;
    for (;; p->pos++) {
        char c = at(p, p->pos);
        if (c == '\n') newline = true;
        else if (c == '/' && at(p, p->pos + 1) == '/') {
            while (p->pos < p->src->len && at(p, p->pos) != '\n') p->pos++;
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
    while (irtext_name_start(at(p, pos)) ||
           (irtext_digit(at(p, pos)) && pos > p->pos + 1 && irtext_name_start(*t->at)))
        pos++;
    t->len = (size_t)(p->src->text + pos - t->at);
    bool named = t->len > 0;
    if (named && at(p, pos) == '.') pos++;
    else if (named) {
        fail(p, (Loc){ p->file, p->pos, pos }, "a value is %%id or %%name.id");
        return;
    }
    uint64_t id = 0;
    uint32_t digits = pos;
    while (irtext_digit(at(p, pos))) {
        if (id < 1ull << 40) id = id * 10 + (unsigned)(at(p, pos) - '0');
        pos++;
    }
    if (pos == digits) {
        fail(p, (Loc){ p->file, p->pos, pos }, "a value is %%id or %%name.id");
        return;
    }
    if (id >= 1u << 31) {
        fail(p, (Loc){ p->file, p->pos, pos }, "the value's number is too large");
        return;
    }
    t->id = (uint32_t)id;
    p->pos = pos;
}

static void lex_number(Parser *p)
{
    char last = 0;
    bool hex = at(p, p->pos) == '0' && (at(p, p->pos + 1) | 32) == 'x';
    for (;; p->pos++) {
        char c = at(p, p->pos);
        bool exponent = hex ? (last | 32) == 'p' : (last | 32) == 'e';
        if (!irtext_name_char(c) && c != '.' && !((c == '+' || c == '-') && exponent)) return;
        last = c;
    }
}

static void next(Parser *p)
{
    if (p->failed) return;
    Token t = { .first_on_line = skip_space(p) };
    t.begin = p->pos;
    t.at = p->src->text + p->pos;
    char c = at(p, p->pos);
    if (p->pos >= p->src->len) t.kind = TOK_END;
    else if (irtext_name_start(c)) {
        t.kind = TOK_NAME;
        while (
            irtext_name_char(at(p, p->pos)) || (at(p, p->pos) == '.' && irtext_name_start(at(p, p->pos + 1))))
            p->pos++;
        if (p->pos - t.begin == 3 && !memcmp(t.at, "nan", 3) && at(p, p->pos) == ':') {
            t.kind = TOK_NUMBER;
            p->pos++;
            while (irtext_name_char(at(p, p->pos))) p->pos++;
        }
    } else if (c == '%') lex_value(p, &t);
    else if (irtext_digit(c) || (c == '-' && irtext_name_char(at(p, p->pos + 1)))) {
        t.kind = TOK_NUMBER;
        if (c == '-') p->pos++;
        lex_number(p);
    } else if (c == '"') {
        t.kind = TOK_STRING;
        for (p->pos++; at(p, p->pos) != '"'; p->pos++) {
            if (at(p, p->pos) == '\\') p->pos++;
            if (p->pos >= p->src->len || at(p, p->pos) == '\n') {
                fail(p, (Loc){ p->file, t.begin, t.begin + 1 }, "the string does not end on its line");
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

static bool is_punct(const Parser *p, char c) { return p->tok.kind == TOK_PUNCT && *p->tok.at == c; }

static bool text_is(const Token *t, const char *s)
{ return strlen(s) == t->len && !memcmp(t->at, s, t->len); }
static bool is_name(const Parser *p, const char *s) { return p->tok.kind == TOK_NAME && text_is(&p->tok, s); }

static const char *found(Parser *p)
{
    if (p->tok.kind == TOK_END) return "the end of the text";
    return arena_printf(&p->s->arena, "'%.*s'",
        (int)(p->tok.end - p->tok.begin > 40 ? 40 : p->tok.end - p->tok.begin), p->src->text + p->tok.begin);
}

static bool accept(Parser *p, char c)
{
    if (!is_punct(p, c)) return false;
    next(p);
    return true;
}

static bool accept_name(Parser *p, const char *s)
{
    if (!is_name(p, s)) return false;
    next(p);
    return true;
}

static void expect(Parser *p, char c)
{
    if (!accept(p, c)) fail(p, here(p), "expected '%c', found %s", c, found(p));
}

static void expect_name(Parser *p, const char *s)
{
    if (!accept_name(p, s)) fail(p, here(p), "expected '%s', found %s", s, found(p));
}

static const char *name(Parser *p, const char *what)
{
    if (p->tok.kind != TOK_NAME) {
        fail(p, here(p), "expected %s, found %s", what, found(p));
        return "";
    }
    const char *n = session_intern(p->s, p->tok.at, p->tok.len);
    next(p);
    return n;
}

/* Decimal integers of 64 bits; those above the largest signed one are kept as their two's complement bits if
 * `wide`. */
static int64_t integer(Parser *p, bool wide)
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
        fail(p, here(p),
            t.kind == TOK_NUMBER ? "%s is not an integer of 64 bits" : "expected an integer, found %s",
            found(p));
        return 0;
    }
    next(p);
    return (int64_t)(neg ? 0 - v : v);
}

static int64_t integer_in(Parser *p, int64_t lo, int64_t hi, const char *what)
{
    Loc loc = here(p);
    int64_t v = integer(p, false);
    if (v < lo || v > hi) {
        fail(p, loc, "%s must be in %lld .. %lld", what, (long long)lo, (long long)hi);
        return lo;
    }
    return v;
}

static double number(Parser *p)
{
    double v = 0;
    if (p->tok.kind != TOK_NUMBER && p->tok.kind != TOK_NAME) {
        fail(p, here(p), "expected a number, found %s", found(p));
        return 0;
    }
    if (!irtext_read_float(p->tok.at, p->tok.len, &v))
        fail(p, here(p),
            "%s is not a number of the text form (more than 15 digits or 22 powers of ten are written in "
            "hexadecimal)",
            found(p));
    next(p);
    return v;
}

static int hex(char c)
{
    return irtext_digit(c)        ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static const char *string(Parser *p)
{
    if (p->tok.kind != TOK_STRING) {
        fail(p, here(p), "expected a string, found %s", found(p));
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
                fail(p, here(p), "unknown escape '\\%c' in a string", c);
                return "";
            }
        } else if (c == '\0') {
            fail(p, here(p), "a zero byte in a string");
            return "";
        }
        text_putc(&out, c);
    }
    next(p);
    return out.data;
}

/* --- types ------------------------------------------------------------------------------------------- */

static int shape(Parser *p, int64_t *extents)
{
    int rank = 0;
    int64_t elements = 1;
    expect(p, '[');
    do {
        Loc loc = here(p);
        if (rank == TILE_MAX_RANK) {
            fail(p, loc, "more than %d axes", TILE_MAX_RANK);
            return 1;
        }
        int64_t e = integer_in(p, 1, INT32_MAX, "an extent");
        if (elements > ((int64_t)1 << 40) / e) {
            fail(p, loc, "a tile of more than 2^40 elements");
            return 1;
        }
        elements *= e;
        extents[rank++] = e;
    } while (accept(p, ','));
    expect(p, ']');
    return rank;
}

/* The layout's text after '@' (the current token): up to the first character outside brackets that cannot
 * belong to it. */
static const char *layout(Parser *p)
{
    static const char open[] = "<([{", close[] = ">)]}";
    uint32_t from = p->tok.end, pos = from;
    char closers[32];
    int depth = 0;
    for (; pos < p->src->len; pos++) {
        char c = at(p, pos);
        const char *o = c ? strchr(open, c) : NULL;
        if (c == '\n' || c == '"' || c == '\0') break;
        if (o) {
            if (depth == (int)sizeof closers) break;
            closers[depth++] = close[o - open];
        } else if (strchr(close, c)) {
            if (depth == 0 || closers[depth - 1] != c) break;
            depth--;
        } else if (!depth && !irtext_name_char(c) && !strchr("#.:+-*/^=", c)) break;
    }
    if (depth) {
        fail(p, (Loc){ p->file, from, pos }, "the layout's brackets do not close");
        return NULL;
    }
    if (pos == from) {
        fail(p, (Loc){ p->file, from, pos + 1 }, "expected a layout after '@'");
        return NULL;
    }
    const char *text = session_intern(p->s, p->src->text + from, pos - from);
    p->pos = pos;
    next(p);
    return text;
}

static DType dtype(Parser *p)
{
    DType d = DT_F32;
    if (p->tok.kind != TOK_NAME || !dtype_parse(p->tok.at, p->tok.len, &d)) {
        fail(p, here(p), "expected a type, found %s", found(p));
        return d;
    }
    next(p);
    return d;
}

static const Type *type(Parser *p)
{
    int64_t extents[TILE_MAX_RANK] = { 1 };
    if (accept_name(p, "token")) return type_token(p->s);
    if (accept_name(p, "tensor")) {
        expect(p, '<');
        DType d = dtype(p);
        expect(p, ',');
        int rank = (int)integer_in(p, 0, TILE_MAX_RANK, "the rank");
        expect(p, '>');
        return type_tensor(p->s, d, rank);
    }
    if (accept_name(p, "barrier")) {
        expect(p, '<');
        int64_t n = integer_in(p, 1, INT32_MAX, "the number of barriers");
        expect(p, '>');
        return type_barrier(p->s, n);
    }
    if (accept_name(p, "shared")) {
        expect(p, '<');
        DType d = dtype(p);
        int rank = shape(p, extents);
        const char *l = is_punct(p, '@') ? layout(p) : NULL;
        expect(p, '>');
        return type_shared(p->s, d, rank, extents, l);
    }
    DType d = dtype(p);
    if (!is_punct(p, '[')) return type_scalar(p->s, d);
    int rank = shape(p, extents);
    const Type *t = type_tile(p->s, d, rank, extents);
    if (is_punct(p, '@')) {
        const char *l = layout(p);
        if (l) t = type_with_layout(p->s, t, l);
    }
    return t;
}

/* --- values ------------------------------------------------------------------------------------------ */

static Value **value_slot(Parser *p, uint32_t id)
{
    size_t h = id * 0x9E3779B1u & (p->cap_values - 1);
    while (p->values[h] && p->values[h]->id != id) h = (h + 1) & (p->cap_values - 1);
    return &p->values[h];
}

static void define(Parser *p, Value *v, Name n)
{
    if (p->failed) return;
    if (2 * (p->n_values + 1) > p->cap_values) {
        Value **old = p->values;
        size_t cap = p->cap_values;
        p->cap_values = cap ? 2 * cap : 256;
        p->values = arena_array(&p->s->arena, Value *, p->cap_values);
        for (size_t k = 0; k < cap; k++)
            if (old[k]) *value_slot(p, old[k]->id) = old[k];
    }
    v->id = n.id;
    v->name = n.name;
    Value **slot = value_slot(p, n.id);
    if (*slot) {
        fail(p, n.loc, "the value %%%u is defined twice", n.id);
        return;
    }
    *slot = v;
    p->n_values++;
    if (p->module->next_id <= n.id) p->module->next_id = n.id + 1;
}

static Name value_name(Parser *p)
{
    Name n = { .loc = here(p), .id = p->tok.id };
    if (p->tok.kind != TOK_VALUE) {
        fail(p, here(p), "expected a value, found %s", found(p));
        return n;
    }
    if (p->tok.len) n.name = session_intern(p->s, p->tok.at, p->tok.len);
    next(p);
    return n;
}

static Value *use(Parser *p)
{
    Name n = value_name(p);
    Value *v = p->failed || !p->cap_values ? NULL : *value_slot(p, n.id);
    if (v && (v->def ? v->def->block->func : v->block->func) != p->func) v = NULL;
    if (!v) fail(p, n.loc, "unknown value %%%s%s%u", n.name ? n.name : "", n.name ? "." : "", n.id);
    else if (v->name != n.name)
        fail(p, n.loc, "%%%s%s%u was defined with another name", n.name ? n.name : "", n.name ? "." : "",
            n.id);
    return v;
}

static void uses(Parser *p, ValueList *out)
{
    do {
        Value *v = use(p);
        if (p->failed) return;
        vec_push(&p->s->arena, out, v);
    } while (accept(p, ','));
}

/* --- attributes -------------------------------------------------------------------------------------- */

static int64_t dim_ref(Parser *p)
{
    if (accept(p, '#')) return integer_in(p, 0, p->func->n_dims - 1, "the dimension's number");
    if (p->tok.kind == TOK_NAME)
        for (int k = 0; k < p->func->n_dims; k++)
            if (p->func->dims[k].name && text_is(&p->tok, p->func->dims[k].name)) {
                next(p);
                return k;
            }
    fail(p, here(p), "expected a dimension, found %s", found(p));
    return 0;
}

static int integers(Parser *p, const int64_t **out)
{
    VEC(int64_t) v = { 0 };
    expect(p, '[');
    if (!is_punct(p, ']')) do
            vec_push(&p->s->arena, &v, integer(p, false));
        while (accept(p, ',') && v.len < 1024);
    expect(p, ']');
    *out = v.data;
    return (int)v.len;
}

static void attributes(Parser *p, AttrList *out)
{
    expect(p, '{');
    do {
        Attr a = { .key = ATTR_N_KEYS };
        for (int k = 0; k < ATTR_N_KEYS; k++)
            if (p->tok.kind == TOK_NAME && text_is(&p->tok, attr_info[k].name)) a.key = (AttrKey)k;
        if (a.key == ATTR_N_KEYS) {
            fail(p, here(p), "unknown attribute %s", found(p));
            return;
        }
        for (size_t k = 0; k < out->len; k++)
            if (out->data[k].key == a.key)
                fail(p, here(p), "the attribute %s is given twice", attr_info[a.key].name);
        next(p);
        expect(p, '=');
        switch (attr_info[a.key].kind) {
        case ATTR_KIND_INT:
            a.i = a.key == ATTR_DIM && p->tok.kind != TOK_NUMBER ? dim_ref(p) : integer(p, false);
            break;
        case ATTR_KIND_FLOAT: a.f = number(p); break;
        case ATTR_KIND_STR: a.s = string(p); break;
        case ATTR_KIND_INTS: a.n = integers(p, &a.v); break;
        case ATTR_KIND_ENUM: {
            int v = p->tok.kind == TOK_NAME ? attr_enum_parse(a.key, p->tok.at, p->tok.len) : -1;
            if (v < 0) {
                fail(p, here(p), "%s is no value of %s", found(p), attr_info[a.key].name);
                return;
            }
            a.i = v;
            next(p);
            break;
        }
        }
        if (p->failed) return;
        vec_push(&p->s->arena, out, a);
    } while (accept(p, ','));
    expect(p, '}');
}

/* `{` opens attributes when a name and `=` follow, else a block. */
static void optional_attributes(Parser *p, AttrList *out)
{
    if (!is_punct(p, '{')) return;
    Token t = p->tok;
    uint32_t pos = p->pos;
    next(p);
    bool attrs = p->tok.kind == TOK_NAME;
    if (attrs) {
        next(p);
        attrs = is_punct(p, '=');
    }
    if (p->failed) return;
    p->tok = t;
    p->pos = pos;
    if (attrs) attributes(p, out);
}

/* --- instructions ------------------------------------------------------------------------------------ */

typedef struct Draft { /* an instruction being read */
    Op op;
    Names results;
    ValueList operands;
    AttrList attrs;
    Types types;
    Names args[2]; /* of its blocks, when the spelling gives them before the block */
    bool own_args; /* args are filled; types of arguments follow the operands */
    Loc loc;
} Draft;

static void instructions(Parser *p, Block *b);

static void flag(Parser *p, Draft *d, AttrKey k)
{
    Attr a = a_int(k, 1);
    vec_push(&p->s->arena, &d->attrs, a);
}

static void operand(Parser *p, Draft *d)
{
    Value *v = use(p);
    if (!p->failed) vec_push(&p->s->arena, &d->operands, v);
}

static void read_const(Parser *p, Draft *d)
{
    if (is_punct(p, '{') || is_punct(p, ':')) return;
    Token t = p->tok;
    uint32_t pos = p->pos;
    bool is_bool = is_name(p, "true") || is_name(p, "false");
    AttrList rest = { 0 };
    next(p);
    optional_attributes(p, &rest);
    expect(p, ':');
    const Type *ty = type(p);
    if (p->failed) return;
    Token after = p->tok;
    uint32_t after_pos = p->pos;
    p->tok = t;
    p->pos = pos;
    Attr a = { .key = ATTR_IVALUE };
    if (is_bool && ty->dtype == DT_BOOL) a.i = text_is(&t, "true");
    else if (dtype_is_float(ty->dtype) && ty->kind == TYPE_SCALAR) {
        a.key = ATTR_FVALUE;
        a.f = number(p);
        /* decimals stand for the nearest value of the dtype; hexadecimal is kept, so that the verifier sees
         * what is wrong */
        if (!memchr(t.at, 'x', t.len) && !memchr(t.at, 'n', t.len)) a.f = scalar_round(ty->dtype, a.f);
    } else a.i = integer(p, true);
    if (p->failed) return;
    p->tok = after;
    p->pos = after_pos;
    vec_push(&p->s->arena, &d->attrs, a);
    for (size_t k = 0; k < rest.len; k++) vec_push(&p->s->arena, &d->attrs, rest.data[k]);
    vec_push(&p->s->arena, &d->types, ty);
}

static void read_mem(Parser *p, Draft *d)
{
    operand(p, d);
    if (!accept(p, '[')) {
        if (accept(p, ',')) uses(p, &d->operands);
        return;
    }
    if (!is_punct(p, ']')) uses(p, &d->operands);
    expect(p, ']');
    if (accept(p, '=')) uses(p, &d->operands);
    if (accept_name(p, "mask")) {
        operand(p, d);
        flag(p, d, ATTR_HAS_MASK);
    }
    if (accept_name(p, "pad")) {
        operand(p, d);
        flag(p, d, ATTR_HAS_PAD);
    }
    if (accept_name(p, "token")) operand(p, d);
}

/* (%x = %init, ...): arguments of block 0 and the operands they start from */
static void read_inits(Parser *p, Draft *d)
{
    expect(p, '(');
    if (!is_punct(p, ')')) do {
            Name n = value_name(p);
            if (p->failed) return;
            vec_push(&p->s->arena, &d->args[0], n);
            expect(p, '=');
            operand(p, d);
            if (p->failed) return;
            vec_push(&p->s->arena, &d->types, d->operands.data[d->operands.len - 1]->type);
        } while (accept(p, ','));
    expect(p, ')');
    d->own_args = true;
}

/* `for` in its own spelling; generic ones have a comma where this has the equals sign */
static bool read_for(Parser *p, Draft *d)
{
    if (p->tok.kind != TOK_VALUE) return false;
    Token t = p->tok;
    uint32_t pos = p->pos;
    next(p);
    bool own = is_punct(p, '=');
    if (p->failed) return true;
    p->tok = t;
    p->pos = pos;
    if (!own) return false;
    Name iv = value_name(p);
    vec_push(&p->s->arena, &d->args[0], iv);
    expect(p, '=');
    operand(p, d);
    expect_name(p, "to");
    operand(p, d);
    expect_name(p, "step");
    operand(p, d);
    d->own_args = true;
    if (accept_name(p, "with")) read_inits(p, d);
    return true;
}

static void block_args(Parser *p, Block *b)
{
    if (!accept(p, '(')) return;
    if (!is_punct(p, ')')) do {
            Name n = value_name(p);
            expect(p, ':');
            const Type *t = type(p);
            if (p->failed) return;
            define(p, ir_block_arg(b, t, NULL), n);
        } while (accept(p, ',') && !p->failed);
    expect(p, ')');
}

static void block(Parser *p, Block *b)
{
    expect(p, '{');
    if (++p->depth > IR_MAX_NESTING) fail(p, here(p), "blocks nest deeper than %d", IR_MAX_NESTING);
    instructions(p, b);
    p->depth--;
    expect(p, '}');
}

static void read_blocks(Parser *p, Draft *d, Instr *i)
{
    for (int k = 0; k < i->n_blocks && !p->failed; k++) {
        Block *b = i->blocks[k];
        if (k) (void)(accept_name(p, "else") || accept_name(p, "do"));
        if (d->own_args && k == 1) {
            expect(p, '(');
            if (!is_punct(p, ')')) do {
                    Name n = value_name(p);
                    if (!p->failed) vec_push(&p->s->arena, &d->args[1], n);
                } while (accept(p, ','));
            if (d->args[1].len != d->operands.len)
                fail(p, here(p), "the second block of while takes %zu values", d->operands.len);
            expect(p, ')');
        }
        if (p->failed) return;
        if (d->own_args) {
            size_t shift = d->op == OP_FOR ? 1 : 0, first = d->op == OP_FOR ? 3 : 0;
            for (size_t a = 0; a < d->args[k].len; a++) {
                const Type *t =
                    a < shift ? d->operands.data[0]->type : d->operands.data[first + a - shift]->type;
                define(p, ir_block_arg(b, t, NULL), d->args[k].data[a]);
            }
        } else block_args(p, b);
        block(p, b);
    }
}

static void instruction(Parser *p, Block *b)
{
    Draft d = { .loc = here(p) };
    if (p->tok.kind == TOK_VALUE) {
        do {
            Name n = value_name(p);
            if (p->failed) return;
            vec_push(&p->s->arena, &d.results, n);
        } while (accept(p, ','));
        expect(p, '=');
    }
    if (p->tok.kind != TOK_NAME || !op_parse(p->tok.at, p->tok.len, &d.op)) {
        fail(p, here(p), "expected an operation, found %s", found(p));
        return;
    }
    next(p);
    bool own = false;
    if (d.op == OP_CONST) read_const(p, &d);
    else if (d.op == OP_FOR) own = read_for(p, &d);
    else if (d.op == OP_WHILE && is_punct(p, '(')) {
        read_inits(p, &d);
        own = true;
    }
    bool mem = d.op == OP_LOAD || d.op == OP_STORE || d.op == OP_GATHER || d.op == OP_SCATTER ||
               d.op == OP_ATOMIC_RMW || d.op == OP_ATOMIC_CAS;
    if (!own && d.op != OP_CONST && p->tok.kind == TOK_VALUE && !p->tok.first_on_line) {
        if (mem) read_mem(p, &d);
        else uses(p, &d.operands);
    }
    optional_attributes(p, &d.attrs);
    if (!own && accept(p, ':')) do {
            const Type *t = type(p);
            if (p->failed) return;
            vec_push(&p->s->arena, &d.types, t);
        } while (accept(p, ','));
    if (d.types.len != d.results.len)
        fail(p, d.loc, "%zu results, but %zu types", d.results.len, d.types.len);
    if (d.results.len > IR_MAX_RESULTS) fail(p, d.loc, "more than %d results", IR_MAX_RESULTS);
    if (p->failed) return;
    Builder at_end = ir_at_end(b);
    at_end.loc = d.loc;
    Instr *i = ir_build_raw(&at_end, d.op, d.operands.data, (int)d.operands.len,
        (Attrs){ d.attrs.data, (int)d.attrs.len }, d.types.data, (int)d.types.len);
    read_blocks(p, &d, i);
    for (size_t k = 0; k < d.results.len; k++) define(p, &i->results[k], d.results.data[k]);
    if (accept_name(p, "loc")) {
        expect(p, '(');
        integer(p, false);
        expect(p, ')');
    }
}

static void instructions(Parser *p, Block *b)
{
    while (!p->failed && !is_punct(p, '}') && p->tok.kind != TOK_END) instruction(p, b);
}

/* --- functions --------------------------------------------------------------------------------------- */

static void func_dim(Parser *p)
{
    Func *f = p->func;
    const char *n = NULL;
    Loc loc = here(p);
    if (accept(p, '#')) integer_in(p, f->n_dims, f->n_dims, "the number of this dimension");
    else {
        n = name(p, "a dimension's name");
        for (int k = 0; k < f->n_dims; k++)
            if (f->dims[k].name == n) fail(p, loc, "the dimension %s is declared twice", n);
    }
    const char *text = !n && accept_name(p, "derived") ? string(p) : NULL;
    int64_t extent = accept(p, '=') ? integer_in(p, 0, INT64_MAX, "the extent") : -1;
    if (p->failed) return;
    int index = ir_dim_new(f, n, extent);
    if (text) f->dims[index].text = session_intern(p->s, text, strlen(text));
    Dim *d = &f->dims[index];
    if (accept_name(p, "div")) d->div = integer(p, false);
    if (accept_name(p, "at")) {
        d->param = (int)integer_in(p, 0, 1 << 20, "the parameter");
        expect(p, ':');
        d->axis = (int)integer_in(p, 0, TILE_MAX_RANK - 1, "the axis");
    }
}

static void per_axis(Parser *p, int rank, int64_t *out, bool unknown)
{
    expect(p, '[');
    for (int k = 0; k < rank && !p->failed; k++) {
        if (k) expect(p, ',');
        out[k] = unknown && accept(p, '?') ? FACT_UNKNOWN : integer(p, false);
    }
    expect(p, ']');
}

static void func_param(Parser *p, ParamKind kind)
{
    Func *f = p->func;
    Loc loc = here(p);
    Name n = value_name(p);
    expect(p, ':');
    const Type *t = type(p);
    int dims[TILE_MAX_RANK] = { 0 };
    if (p->failed) return;
    if (!n.name) {
        fail(p, loc, "a parameter needs a name");
        return;
    }
    if (t->kind == TYPE_TENSOR) {
        expect(p, '[');
        for (int k = 0; k < t->rank && !p->failed; k++) {
            if (k) expect(p, ',');
            dims[k] = (int)dim_ref(p);
        }
        expect(p, ']');
    }
    if (p->failed) return;
    Value *v = ir_param_new(f, n.name, kind, t, dims);
    define(p, v, n);
    Param *q = &f->params[f->n_params - 1];
    q->loc = loc;
    if (accept_name(p, "align")) q->align = integer(p, false);
    if (accept_name(p, "stride")) per_axis(p, t->kind == TYPE_TENSOR ? t->rank : 0, q->stride, true);
    if (accept_name(p, "stride_div")) per_axis(p, t->kind == TYPE_TENSOR ? t->rank : 0, q->stride_div, false);
    if (accept_name(p, "range")) {
        expect(p, '[');
        q->lo = number(p);
        expect(p, ',');
        q->hi = number(p);
        expect(p, ']');
    }
}

static void func_hints(Parser *p)
{
    Hints *h = &p->func->hints;
    const struct {
        const char *name;
        int *v, most, base;
    } all[] = {
#define HINT(name, most, base, search) { #name, &h->name, most, base },
#include "ir/hints.def"
#undef HINT
    };
    do {
        Token t = p->tok;
        size_t v = 0, n = sizeof all / sizeof *all;
        while (v < n && !(t.kind == TOK_NAME && text_is(&t, all[v].name))) v++;
        const char **text = is_name(p, "schedule") ? &h->schedule : is_name(p, "remap") ? &h->remap : NULL;
        if (v == n && !text) {
            fail(p, here(p), "unknown hint %s", found(p));
            return;
        }
        next(p);
        expect(p, '=');
        if (v < n)
            *all[v].v = (int)integer_in(p, 0, all[v].base ? all[v].most : 1 << 20, "the hint") + all[v].base;
        else *text = string(p);
    } while (accept(p, ','));
}

static void func_results(Parser *p)
{
    Types types = { 0 };
    do {
        const Type *t = type(p);
        if (p->failed) return;
        vec_push(&p->s->arena, &types, t);
    } while (accept(p, ','));
    p->func->results = types.data;
    p->func->n_results = (int)types.len;
}

static void region(Parser *p, Block **at, const char *what)
{
    if (*at) {
        fail(p, here(p), "%s is given twice", what);
        return;
    }
    *at = ir_block_new(p->func, NULL);
    block_args(p, *at);
    block(p, *at);
}

static void func_item(Parser *p, bool *has_body)
{
    Func *f = p->func;
    Loc loc = here(p);
    if (accept_name(p, "spec")) {
        const char *s = string(p);
        f->spec = session_intern(p->s, s, strlen(s));
    } else if (accept_name(p, "fits32")) f->fits32 = true;
    else if (accept_name(p, "extents31")) f->extents31 = true;
    else if (accept_name(p, "permutes")) f->permutes = true;
    else if (accept_name(p, "hint")) func_hints(p);
    else if (accept_name(p, "dim")) func_dim(p);
    else if (accept_name(p, "in")) func_param(p, PARAM_IN);
    else if (accept_name(p, "out")) func_param(p, PARAM_OUT);
    else if (accept_name(p, "inout")) func_param(p, PARAM_INOUT);
    else if (accept_name(p, "scalar")) func_param(p, PARAM_SCALAR);
    else if (accept_name(p, "result")) func_results(p);
    else if (accept_name(p, "grid")) region(p, &f->grid, "the grid");
    else if (accept_name(p, "remap")) region(p, &f->remap, "the remap");
    else if (accept_name(p, "extents")) region(p, &f->extents, "the block of extents");
    else if (accept_name(p, "body")) {
        if (*has_body) fail(p, loc, "the body is given twice");
        *has_body = true;
        block(p, f->body);
    } else
        fail(p, loc,
            "expected spec, fits32, extents31, permutes, hint, dim, a parameter, result, grid, remap, "
            "extents or body, found %s",
            found(p));
}

static void function(Parser *p)
{
    bool kernel = is_name(p, "kernel"), has_body = false;
    Loc loc = here(p);
    if (!kernel && !is_name(p, "func")) {
        fail(p, here(p), "expected 'kernel' or 'func', found %s", found(p));
        return;
    }
    next(p);
    expect(p, '@');
    Loc at_name = here(p);
    const char *n = name(p, "the function's name");
    if (!p->failed && ir_func_find(p->module, n)) fail(p, at_name, "the function @%s is defined twice", n);
    if (p->failed) return;
    p->func = ir_func_new(p->module, n, kernel);
    p->func->loc = at_name;
    expect(p, '{');
    while (!p->failed && !is_punct(p, '}') && p->tok.kind != TOK_END) func_item(p, &has_body);
    if (!has_body) fail(p, loc, "the function @%s has no body", n);
    expect(p, '}');
}

Module *ir_parse(Session *s, uint32_t file)
{
    const Source *src = diag_source(s, file);
    if (!src) return NULL;
    Parser p = { .s = s, .src = src, .file = file };
    if (src->len >= 1u << 31) {
        diag_error(s, (Loc){ file, 0, 0 }, "the text is too long (2 GiB at most)");
        return NULL;
    }
    p.module = ir_module_new(s);
    next(&p);
    while (!p.failed && p.tok.kind != TOK_END) function(&p);
    return p.failed ? NULL : p.module;
}
