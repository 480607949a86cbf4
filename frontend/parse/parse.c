/* parse.c: building the tree: node constructors for the grammar, literals for the scanner, files and their
 * imports. */
#include <stdlib.h>
#include "frontend/parse/habits.h"
#include "frontend/parse/parse.h"
#include "ir/support/number.h"

static const char *const node_names[N_COUNT] = {
#define NODE(ID, name, doc) name,
#include "frontend/parse/ast.def"
};
const char *ast_node_name(NodeKind k) { return node_names[k]; }

const char *ast_operator_text(Operator o)
{
    static const char *const text[] = {
        "",
        "-",
        "+",
        "!",
        "~",
        "+",
        "-",
        "*",
        "/",
        "%",
        "<<",
        ">>",
        "&",
        "|",
        "^",
        "&&",
        "||",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
    };
    return text[o];
}

/* --- scanner ----------------------------------------------------------------------------------------- */

void parse_lex_error(Parse *p, Loc loc, const char *message, const char *note)
{
    p->lex_error = loc.end;
    Diag *d = diag_error(p->session, loc, "%s", message);
    if (note) diag_note(p->session, d, (Loc){ 0, 0, 0 }, "%s", note);
}

const char *parse_name(Parse *p, const char *text, size_t n) { return session_intern(p->session, text, n); }

/* The digits without separators. */
static char *without_separators(Session *s, const char *text, size_t n)
{
    char *out = arena_alloc(&s->arena, n + 1);
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i] != '_') out[len++] = text[i];
    return out;
}

Node *parse_int(Parse *p, Loc loc, const char *text, size_t n)
{
    const char *s = without_separators(p->session, text, n);
    unsigned base = 10;
    if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
        base = 16;
        s += 2;
    } else if (s[0] == '0' && (s[1] == 'b' || s[1] == 'B')) {
        base = 2;
        s += 2;
    }
    uint64_t v = 0;
    for (; *s; s++) {
        unsigned digit = *s <= '9' ? (unsigned)(*s - '0') : (unsigned)((*s | 32) - 'a') + 10;
        if (v > (UINT64_MAX - digit) / base) {
            diag_error(p->session, loc, "integer literal does not fit in 64 bits");
            return parse_node(p, N_ERROR, loc);
        }
        v = v * base + digit;
    }
    Node *node = parse_node(p, N_INT, loc);
    node->u = v;
    node->name = session_intern(p->session, text, n);
    return node;
}

/* Digits with an optional point and exponent: number_read would also take `inf` and hexadecimal digits. */
bool parse_decimal(Session *session, const char *text, size_t n, double *out)
{
    char *s = without_separators(session, text, n), *end;
    if (!*s || s[strspn(s, "0123456789.eE+-")]) return false;
    *out = number_read(s, &end);
    return !*end && end != s;
}

Node *parse_float(Parse *p, Loc loc, const char *text, size_t n)
{
    double v = 0;
    if (!parse_decimal(p->session, text, n, &v) || __builtin_isinf(v)) {
        diag_error(p->session, loc, "number is too large for any floating type");
        return parse_node(p, N_ERROR, loc);
    }
    Node *node = parse_node(p, N_FLOAT, loc);
    node->f = v;
    node->name = session_intern(p->session, text, n);
    return node;
}

Node *parse_string(Parse *p, Loc loc, const char *text, size_t n)
{
    char *out = arena_alloc(&p->session->arena, n + 1);
    size_t len = 0;
    for (size_t i = 1; i + 1 < n; i++) {
        if (text[i] != '\\') {
            out[len++] = text[i];
            continue;
        }
        switch (text[++i]) {
        case 'n': out[len++] = '\n'; break;
        case 't': out[len++] = '\t'; break;
        case '"':
        case '\\': out[len++] = text[i]; break;
        default: {
            Loc at = { loc.file, loc.begin + (uint32_t)i - 1, loc.begin + (uint32_t)i + 1 };
            parse_lex_error(p, at, "unknown escape in a string", "there are \\n, \\t, \\\" and \\\\");
            return parse_node(p, N_ERROR, loc);
        }
        }
    }
    Node *node = parse_node(p, N_STRING, loc);
    node->name = session_intern(p->session, out, len);
    return node;
}

void parse_bad_number(Parse *p, Loc loc, const char *text, size_t n)
{
    p->lex_error = loc.end;
    Diag *d = diag_error(p->session, loc, "malformed number `%.*s`", (int)(n > 40 ? 40 : n), text);
    diag_note(p->session, d, (Loc){ 0, 0, 0 },
        "literals have no suffix: they take the type of what they meet; `f16(1.5)` names one");
}

static bool begins_line(const Parse *p, Loc loc)
{
    const char *text = diag_source(p->session, loc.file)->text;
    uint32_t at = loc.begin;
    while (at && (text[at - 1] == ' ' || text[at - 1] == '\t')) at--;
    return at == 0 || text[at - 1] == '\n';
}

/* Whether the same byte stands an odd number of times before this place of the line: it closes a text. */
static bool closes_text(Parse *p, Loc loc, char c)
{
    const char *text = diag_source(p->session, loc.file)->text;
    bool open = false;
    for (uint32_t at = loc.begin; at && text[at - 1] != '\n'; at--) open ^= text[at - 1] == c;
    return open;
}

void parse_bad_bytes(Parse *p, Loc loc, const char *text, size_t n)
{
    static const char include[] = "#include";
    unsigned char c = (unsigned char)text[0];
    p->lex_error = loc.end;
    if (c == '\'' && closes_text(p, loc, '\'')) return;
    const Source *src = diag_source(p->session, loc.file);
    bool includes =
        src->len - loc.begin >= sizeof include && !memcmp(src->text + loc.begin, include, sizeof include - 1);
    const char *note = c == '@' && begins_line(p, loc)
                           ? "a kernel is `kernel name(...) grid (...) { ... }`; there are no decorators"
                       : c == '@'  ? habit_note(HABIT_CALL, "matmul", strlen("matmul"))
                       : includes  ? "write `import \"FILE.tile\";`"
                       : c == '#'  ? "a comment begins with `//`"
                       : c == '\'' ? "texts stand between `\"`, in `import`, `print` and `assert`"
                                   : NULL;
    if (c > ' ' && c < 127) {
        Diag *d = diag_error(p->session, loc, "unexpected character `%c`", c);
        if (note) diag_note(p->session, d, (Loc){ 0, 0, 0 }, "%s", note);
    } else
        diag_error(p->session, loc,
            "unexpected byte 0x%02x: a program is ASCII text outside of comments and strings", c);
}

void parse_open(Parse *p, Loc loc)
{
    if (++p->brackets > LIMIT_BRACKETS) parse_too_deep(p, loc);
}

void parse_close(Parse *p)
{
    if (p->brackets > 0) p->brackets--;
}

/* --- nodes ------------------------------------------------------------------------------------------- */

void parse_too_deep(Parse *p, Loc loc)
{
    if (p->too_deep) return;
    p->too_deep = true;
    Diag *d = diag_error(p->session, loc, "nesting is too deep");
    diag_note(p->session, d, (Loc){ 0, 0, 0 },
        "at most %d open brackets and %d levels of operators; name a part with `let`", LIMIT_BRACKETS,
        LIMIT_NESTING);
}

Node *parse_node(Parse *p, NodeKind kind, Loc loc)
{
    Node *n = arena_new(&p->session->arena, Node);
    n->kind = (uint8_t)kind;
    n->loc = loc;
    n->height = 1;
    return n;
}

/* Adopts `kids` (already in the arena). A tree that grows too high is cut off here, so every walk may
 * recurse. */
static Node *with_kids(Parse *p, NodeKind kind, Loc loc, Node **kids, uint32_t n)
{
    Node *node = parse_node(p, kind, loc);
    uint16_t height = 0;
    for (uint32_t i = 0; i < n; i++)
        if (kids[i] && kids[i]->height > height) height = kids[i]->height;
    if (height >= LIMIT_NESTING && kind != N_FILE) {
        parse_too_deep(p, loc);
        node->kind = N_ERROR;
        return node;
    }
    node->height = (uint16_t)(height + 1);
    node->kids = kids;
    node->n = n;
    return node;
}

Node *parse_node_of(Parse *p, NodeKind kind, Loc loc, Node **kids, size_t n)
{
    Node **copy = arena_array(&p->session->arena, Node *, n ? n : 1);
    memcpy(copy, kids, n * sizeof *kids);
    return with_kids(p, kind, loc, copy, (uint32_t)n);
}

Node *parse_named(Parse *p, Node *n, const char *name, Loc loc)
{
    n->name = name;
    n->name_loc = loc;
    return n;
}

Node *parse_oper(Node *n, int op)
{
    n->op = (uint8_t)op;
    return n;
}

Node *parse_word(Parse *p, const char *name, Loc loc)
{ return parse_named(p, parse_node(p, N_NAME, loc), name, loc); }

Node *parse_bool(Parse *p, Loc loc, int v)
{
    Node *n = parse_node(p, N_BOOL, loc);
    n->u = (uint64_t)v;
    return n;
}

Node *parse_auto(Parse *p, Node *param)
{
    Node *value = param->kids[1];
    if (value->kind != N_NAME || strcmp(value->name, "auto")) return param;
    bool flag = !strcmp(param->kids[0]->name, "bool");
    param->kids[1] =
        parse_named(p, parse_node(p, flag ? N_BOOL : N_INT, value->loc), value->name, value->loc);
    param->op = 1;
    return param;
}

NodeList parse_push(Parse *p, NodeList list, Node *n)
{
    if (list.len == list.cap) {
        uint32_t cap = list.cap ? 2 * list.cap : 4;
        list.data =
            arena_grow(&p->session->arena, list.data, list.len * sizeof(Node *), cap * sizeof(Node *));
        list.cap = cap;
    }
    list.data[list.len++] = n;
    return list;
}

Node *parse_append(Parse *p, Node *list, Node *n)
{
    NodeList kids = { list->kids, list->n, list->n };
    kids = parse_push(p, kids, n);
    list->kids = kids.data;
    list->n = kids.len;
    list->loc = loc_join(list->loc, n->loc);
    return list;
}

Node *parse_list(Parse *p, NodeKind kind, Loc loc, NodeList list)
{ return with_kids(p, kind, loc, list.data, list.len); }

static NodeList prepend(Parse *p, Node *first, const Node *const *rest, uint32_t n)
{
    NodeList out = parse_push(p, (NodeList){ 0 }, first);
    for (uint32_t i = 0; i < n; i++) out = parse_push(p, out, (Node *)rest[i]);
    return out;
}

Node *parse_tuple(Parse *p, Loc loc, Node *first, NodeList rest)
{ return parse_list(p, N_TUPLE, loc, prepend(p, first, (const Node *const *)rest.data, rest.len)); }

Node *parse_table(Parse *p, Loc loc, Node *length, NodeList entries)
{ return parse_list(p, N_TABLE, loc, prepend(p, length, (const Node *const *)entries.data, entries.len)); }

Node *parse_tensor(
    Parse *p, Loc loc, int io, const char *type, Loc type_loc, const char *name, Loc name_loc, NodeList dims)
{
    NodeList kids = prepend(p, parse_word(p, type, type_loc), (const Node *const *)dims.data, dims.len);
    return parse_oper(parse_named(p, parse_list(p, N_PTENSOR, loc, kids), name, name_loc), io);
}

Node *parse_optional(Node *tensor, int optional)
{
    tensor->u = (uint64_t)optional;
    return tensor;
}

/* op 1: a tuple pattern */
Node *parse_bind(Parse *p, NodeKind kind, Loc loc, Node *target, Node *value)
{
    bool tuple = target->kind == N_TUPLE;
    NodeList kids =
        prepend(p, value, (const Node *const *)(tuple ? target->kids : &target), tuple ? target->n : 1);
    return parse_oper(parse_list(p, kind, loc, kids), tuple);
}

Node *parse_for(Parse *p, Loc loc, int is_const, const char *name, Loc name_loc, Node *lo, Node *hi,
    Node *step, Node *hint, Node *body)
{
    return parse_oper(parse_named(p, parse_node_of(p, N_FOR, loc, (Node *[]){ lo, hi, step, hint, body }, 5),
                          name, name_loc),
        is_const);
}

/* `const if` holds for the whole chain of else-ifs. */
Node *parse_const_if(Node *n)
{
    for (Node *i = n; i && i->kind == N_IF; i = i->kids[2]) i->op = 1;
    return n;
}

Node *parse_index(Parse *p, Loc loc, Node *base, NodeList axes)
{ return parse_list(p, N_INDEX, loc, prepend(p, base, (const Node *const *)axes.data, axes.len)); }

Node *parse_arg(Parse *p, Loc loc, const char *target, const char *name, Loc name_loc, Node *value)
{
    Node *n = parse_named(p, parse_node_of(p, N_ARG, loc, &value, 1), name, name_loc);
    n->text2 = target;
    return n;
}

Node *parse_import(Parse *p, Loc loc, Node *path)
{
    Node *n = parse_node(p, N_IMPORT, loc);
    n->name = path->name;
    n->name_loc = path->loc;
    if (path->kind == N_STRING) vec_push(&p->session->arena, &p->imports, n);
    return n;
}

void parse_file(Parse *p, Loc loc, NodeList items) { p->result = parse_list(p, N_FILE, loc, items); }

/* --- errors ------------------------------------------------------------------------------------------ */

/* Lines between two offsets of the source. */
static int lines_between(const Source *src, uint32_t from, uint32_t to)
{
    int lines = 0;
    for (uint32_t i = from; i < to && i < src->len; i++) lines += src->text[i] == '\n';
    return lines;
}

static bool same_text(const Source *src, Loc loc, const char *word)
{ return strlen(word) == loc.end - loc.begin && !memcmp(src->text + loc.begin, word, strlen(word)); }

static bool contains(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

/* A keyword with a slip: the token that does not fit, or the one before it. */
static void suggest_keyword(Parse *p, Diag *d, const Source *src, Loc token)
{
    const Loc at[] = { p->before, token };
    for (int i = 0; i < 2; i++) {
        const char *keyword = habit_keyword(src->text + at[i].begin, at[i].end - at[i].begin);
        if (!keyword || same_text(src, at[i], keyword)) continue;
        diag_note(p->session, d, (Loc){ 0, 0, 0 }, "did you mean `%s`?", keyword);
        return;
    }
}

/* n // 2; -- the rest of the line behind `at` is a comment that ends with the `;` of the statement. */
static bool comment_ends_statement(const Source *src, uint32_t at)
{
    while (at < src->len && (src->text[at] == ' ' || src->text[at] == '\t')) at++;
    if (at + 1 >= src->len || src->text[at] != '/' || src->text[at + 1] != '/') return false;
    uint32_t end = at;
    while (end < src->len && src->text[end] != '\n') end++;
    while (end > at && (src->text[end - 1] == ' ' || src->text[end - 1] == '\r')) end--;
    return src->text[end - 1] == ';';
}

/* What begins an item and no statement. */
static const char *const item_keywords[] = { "`kernel`", "`fn`", "`import`", "`instantiate`", "`tune`" };

/* An item where a statement could stand; or the file's end, which an open block comes to. */
static bool item_in_block(const char *token, const char *const *expected, int n)
{
    if (!token) return false;
    if (!strcmp(token, "end of file")) return contains(expected, n, "`}`");
    return contains(item_keywords, sizeof item_keywords / sizeof *item_keywords, token) &&
           contains(expected, n, "a statement");
}

/* A `fn` that is indented, as one within a kernel is. */
static bool nested_fn(const Source *src, const char *token, Loc at)
{ return !strcmp(token, "`fn`") && at.begin && src->text[at.begin - 1] != '\n'; }

/* A note to the unexpected token at `at`, from what the grammar expects there. */
static void note_expected(Parse *p, Diag *d, Loc at, const char *token, const char *const *expected, int n)
{
    const Source *src = diag_source(p->session, p->before.file);
    const Loc nowhere = { 0, 0, 0 };
    bool colon = token && !strcmp(token, "`:`"), end = token && !strcmp(token, "`;`");
    if (colon && contains(expected, n, "`]`"))
        diag_note(p->session, d, nowhere, "a window is `base +: extent`, as in X[i*16 +: 16]");
    else if (n == 1 && !strcmp(expected[0], "`(`"))
        diag_note(p->session, d, nowhere, "write `%.*s (...)`", (int)(p->before.end - p->before.begin),
            src->text + p->before.begin);
    else if (token && contains(expected, n, "`{`") && (n == 1 || colon || end))
        diag_note(p->session, d, nowhere, "a block or a list of values stands in braces: `{ ... }`");
    else if (token && (!strcmp(token, "`let`") || !strcmp(token, "`var`")))
        diag_note(p->session, d, nowhere,
            "`let` and `var` stand in a block; `const int NAME = ...;` is a constant of the file");
    else if (item_in_block(token, expected, n) && strcmp(token, "end of file"))
        diag_note(p->session, d, nowhere, "%s",
            nested_fn(src, token, at) ? "a `fn` stands beside kernels, not within them"
                                      : "a `}` is missing before it");
    else if (end && n == 2 && contains(expected, n, "`=`") && contains(expected, n, "`[`"))
        diag_note(
            p->session, d, nowhere, "a variable begins with a value, whose type it has: `var x = 0.0;`");
}

void parse_syntax_error(Parse *p, Loc loc, const char *token, const char *const *expected, int n)
{
    const Source *src = diag_source(p->session, loc.file);
    const bool unclosed = item_in_block(token, expected, n);
    Text t;
    text_init(&t, &p->session->arena);
    if (unclosed && p->unclosed) return;
    p->unclosed |= unclosed;
    /* A token that the scanner refused is the cause of further errors next to it. */
    if (p->lex_error && lines_between(src, p->lex_error, loc.begin) <= 1) {
        p->lex_error = 0;
        return;
    }
    if (contains(expected, n, "`;`") && p->before.end && lines_between(src, p->before.end, loc.begin)) {
        Loc end = { loc.file, p->before.end, p->before.end };
        Diag *d = diag_error(p->session, end, "expected `;` at the end of the statement");
        if (comment_ends_statement(src, p->before.end))
            diag_note(p->session, d, (Loc){ 0, 0, 0 }, "`//` begins a comment; integers divide by `/`");
        return;
    }
    if (habit_of_syntax(p, loc)) return;
    bool article = token && !strncmp(token, "a ", 2);
    text_printf(&t, "unexpected %s", !token ? "input" : article ? token + 2 : token);
    if (article && loc.end - loc.begin <= 40)
        text_printf(&t, " `%.*s`", (int)(loc.end - loc.begin), src->text + loc.begin);
    for (int i = 0; i < n; i++)
        text_printf(&t, "%s%s", i == 0 ? ", expected " : i == n - 1 ? " or " : ", ", expected[i]);
    Diag *d = diag_error(p->session, loc, "%s", t.data);
    note_expected(p, d, loc, token, expected, n);
    suggest_keyword(p, d, src, loc);
}
