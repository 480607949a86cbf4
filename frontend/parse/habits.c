/* habits.c: see habits.h. What the grammar cannot parse is recognized by the text around the token that it
 * stopped at: the token itself, the one before it and the word before that one. */
#include "frontend/parse/habits.h"
#include "frontend/check/call.h"

typedef struct Habit {
    HabitPlace place;
    const char *word, *note;
} Habit;

static const Habit habits[] = {
#define HABIT(place, word, note) { HABIT_##place, word, note },
#include "frontend/parse/habits.def"
#undef HABIT
};
enum { N_HABITS = sizeof habits / sizeof *habits };

static const Loc NOWHERE = { 0, 0, 0 };

static bool same(const char *text, size_t len, const char *word)
{ return strlen(word) == len && !memcmp(text, word, len); }

const char *habit_note(HabitPlace place, const char *word, size_t len)
{
    for (int i = 0; i < N_HABITS; i++)
        if (habits[i].place == place && same(word, len, habits[i].word)) return habits[i].note;
    return NULL;
}

bool habit_of_type(Session *s, Diag *d, const char *name)
{
    const char *type = habit_note(HABIT_TYPE, name, strlen(name));
    if (type) diag_note(s, d, NOWHERE, "the type is called `%s`", type);
    return type != NULL;
}

bool habit_of_call(Session *s, Diag *d, const char *name)
{
    const char *note = habit_note(HABIT_CALL, name, strlen(name));
    const char *type = habit_note(HABIT_TYPE, name, strlen(name));
    if (note) diag_note(s, d, NOWHERE, "%s", note);
    else if (type) diag_note(s, d, NOWHERE, "write `%s(x)`", type);
    return note || type;
}

bool habit_of_name(Session *s, Diag *d, const char *name)
{
    const char *note = habit_note(HABIT_NAME, name, strlen(name));
    if (note) diag_note(s, d, NOWHERE, "%s", note);
    return note || habit_of_type(s, d, name);
}

const char *habit_keyword(const char *word, size_t len)
{
    static const char *const keywords[] = {
#define KEYWORD(word) word,
#include "keywords.inc"
#undef KEYWORD
    };
    const char *best = NULL;
    int distance = 3;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        int d = diag_distance(word, len, keywords[i]);
        if (d >= distance || 2 * d >= (int)strlen(keywords[i]) || 2 * d >= (int)len) continue;
        best = keywords[i];
        distance = d;
    }
    return best;
}

void habit_of_plain_argument(
    Session *s, Diag *d, const Node *call, const Node *argument, const char *parameter)
{
    const Source *src = diag_source(s, argument->loc.file);
    uint32_t len = argument->loc.end - argument->loc.begin;
    if (!strcmp(call->name, "arange"))
        diag_note(s, d, NOWHERE, "`arange(n)` counts from 0, `arange(n, start = a)` from a");
    else if ((!strcmp(call->name, "load") || !strcmp(call->name, "store")) && call->kids[0]->kind == N_NAME)
        diag_note(s, d, NOWHERE, "a window is written as a subscript: `%s[i*16 +: 16]`", call->kids[0]->name);
    else if (parameter && len <= 30)
        diag_note(s, d, NOWHERE, "give it by name: `%s(.., %s = %.*s)`", call->name, parameter, (int)len,
            src->text + argument->loc.begin);
}

/* --- syntax ------------------------------------------------------------------------------------------ */

/* Around a syntax error: the token that does not fit, the one before it, and the word before that. */
typedef struct Around {
    Parse *p;
    const char *text;
    size_t size;
    Loc token, before, word;
} Around;

static bool letter(char c)
{ return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

static bool is(const Around *a, Loc loc, const char *word)
{ return same(a->text + loc.begin, loc.end - loc.begin, word); }

static bool is_name(const Around *a, Loc loc)
{
    return loc.end > loc.begin && letter(a->text[loc.begin]) &&
           (a->text[loc.begin] < '0' || a->text[loc.begin] > '9');
}

static bool is_type(const Around *a, Loc loc)
{
    DType d;
    size_t len = loc.end - loc.begin;
    const char *text = a->text + loc.begin;
    return loc.end > loc.begin && (dtype_parse(text, len, &d) || habit_note(HABIT_TYPE, text, len) ||
                                      same(text, len, "int") || same(text, len, "float"));
}

static Loc word_from(const Around *a, uint32_t begin)
{
    uint32_t end = begin;
    while (end < a->size && letter(a->text[end])) end++;
    return (Loc){ a->token.file, begin, end };
}

/* The word that ends before `end`, blanks skipped; empty where there is none. */
static Loc word_to(const Around *a, uint32_t end)
{
    while (end && (a->text[end - 1] == ' ' || a->text[end - 1] == '\n')) end--;
    uint32_t begin = end;
    while (begin && letter(a->text[begin - 1])) begin--;
    return (Loc){ a->token.file, begin, end };
}

static bool explain(const Around *a, Loc loc, const char *message, const char *note)
{
    Diag *d = diag_error(a->p->session, loc, "%s", message);
    diag_note(a->p->session, d, NOWHERE, "%s", note);
    return true;
}

static bool explain_word(const Around *a, Loc loc, const char *note)
{
    int len = (int)(loc.end - loc.begin);
    Diag *d = diag_error(a->p->session, loc, "there is no `%.*s`", len, a->text + loc.begin);
    diag_note(a->p->session, d, NOWHERE, "%s", note);
    return true;
}

/* x.sum(), tl.load(..), X.shape[0]: the grammar stops at the point or, among arguments, behind the word. */
static bool method(const Around *a)
{
    uint32_t point = a->token.begin;
    if (!is(a, a->token, ".")) {
        if (!is_name(a, a->before) || !a->before.begin || a->text[a->before.begin - 1] != '.') return false;
        point = a->before.begin - 1;
        if (point && a->text[point - 1] == '.') return false; /* 0..n is a range */
    }
    Loc owner = word_to(a, point), word = word_from(a, point + 1);
    while (word.end < a->size && a->text[word.end] == '.' && word_from(a, word.end + 1).end > word.end + 1)
        word = word_from(a, word.end + 1);
    const char *name = a->text + word.begin;
    size_t len = word.end - word.begin;
    if (!len) return false;
    const char *note = habit_note(HABIT_NAME, a->text + owner.begin, owner.end - owner.begin);
    if (!note) note = habit_note(HABIT_METHOD, name, len);
    if (!note) note = habit_note(HABIT_CALL, name, len);
    const char *here = arena_printf(&a->p->session->arena, "%.*s", (int)(len <= 40 ? len : 0), name);
    const Builtin *builtin = note ? NULL : builtin_find(here);
    if (builtin)
        note = arena_printf(&a->p->session->arena, "write `%s`", builtin_example(a->p->session, builtin));
    if (!note) note = "a function stands by itself, as in `exp(x)`, and a type's name converts: `f16(x)`";
    return explain(a, (Loc){ a->token.file, point, word.end }, "there are no methods or modules", note);
}

/* The word of `word(..) {`, where the grammar stops at the brace; empty where it is another place. */
static Loc called_before_block(const Around *a)
{
    uint32_t at = a->before.begin;
    if (!is(a, a->token, "{") || !is(a, a->before, ")")) return (Loc){ a->token.file, at, at };
    for (int open = 1; at && open; at--) open += a->text[at - 1] == ')' ? 1 : a->text[at - 1] == '(' ? -1 : 0;
    return word_to(a, at);
}

/* Whether the line of the token begins with `for` or `const for`. */
static bool in_for_line(const Around *a)
{
    uint32_t at = a->token.begin;
    while (at && a->text[at - 1] != '\n') at--;
    while (at < a->token.begin && (a->text[at] == ' ' || a->text[at] == '\t')) at++;
    Loc first = word_from(a, at);
    if (is(a, first, "const") && a->text[first.end] == ' ') first = word_from(a, first.end + 1);
    return is(a, first, "for");
}

/* for (int j = 0; ..), for j = 0 .. n, for j in 0 .. n step 2, for j in range(..) */
static bool loop(const Around *a)
{
    static const char form[] = "write `for j in 0 .. n { }`, or `for j in 0 .. n : step { }`";
    if (is(a, a->before, "for") && is(a, a->token, "("))
        return explain(a, a->token, "a loop goes over a range, without parentheses", form);
    if (is(a, a->word, "for") && is(a, a->token, "="))
        return explain(a, a->token, "a loop goes over a range", form);
    bool step = is(a, a->before, "step") || is(a, a->before, "by");
    if ((step || is(a, a->token, "to")) && in_for_line(a))
        return explain_word(a, step ? a->before : a->token, form);
    Loc word = called_before_block(a);
    if (!is(a, word, "range") && !is(a, word, "static_range")) return false;
    return explain_word(a, word, habit_note(HABIT_CALL, a->text + word.begin, word.end - word.begin));
}

/* elif (c) { .. }, whlie (c) { .. }: calls, up to their block */
static bool block_of_word(const Around *a)
{
    Loc word = called_before_block(a);
    const char *text = a->text + word.begin, *note = habit_note(HABIT_WORD, text, word.end - word.begin),
               *keyword = note ? NULL : habit_keyword(text, word.end - word.begin);
    if (keyword) note = arena_printf(&a->p->session->arena, "did you mean `%s`?", keyword);
    return note && (!keyword || !is(a, word, keyword)) && explain_word(a, word, note);
}

/* (f16)x */
static bool cast(const Around *a)
{
    if (!is(a, a->before, ")") || !is_type(a, a->word) || !a->word.begin) return false;
    if (a->text[a->word.begin - 1] != '(') return false;
    const char *name = a->text + a->word.begin;
    size_t len = a->word.end - a->word.begin;
    const char *type = habit_note(HABIT_TYPE, name, len), *call = habit_note(HABIT_CALL, name, len);
    const char *note = call   ? call
                       : type ? arena_printf(&a->p->session->arena, "write `%s(x)`", type)
                              : arena_printf(&a->p->session->arena, "write `%.*s(x)`", (int)len, name);
    return explain(a, (Loc){ a->word.file, a->word.begin - 1, a->before.end },
        "a type converts as a function does", note);
}

/* fn f(f32 x), fn f(x: f32), fn f(x) -> f32: whether the token stands in the head of a fn. */
static bool in_fn_head(const Around *a)
{
    uint32_t at = a->token.begin;
    while (at && a->text[at - 1] != '\n' && a->text[at - 1] != '{' && a->text[at - 1] != '}') at--;
    while (at < a->token.begin && a->text[at] == ' ') at++;
    return is(a, word_from(a, at), "fn");
}

static bool fn_of_types(const Around *a)
{
    static const char note[] =
        "write `fn f(x, y = 2) { return ...; }`: each call compiles it for its arguments";
    if (!in_fn_head(a)) return false;
    if (is(a, a->token, "-") && is(a, a->before, ")"))
        return explain(a, a->token, "the result of a fn has no type", note);
    if (is_name(a, a->before) && (is(a, a->token, ":") || (is_name(a, a->token) && is_type(a, a->before))))
        return explain(
            a, is(a, a->token, ":") ? a->token : a->before, "a parameter of a fn has no type", note);
    return false;
}

/* kernel k(B: tl.constexpr = 64), kernel k(n: i32) */
static bool annotation(const Around *a)
{
    if (!is(a, a->token, ":") || !is_name(a, a->before) || a->before.end - a->before.begin > 40) return false;
    uint32_t at = a->token.end;
    while (at < a->size && a->text[at] == ' ') at++;
    Loc type = word_from(a, at);
    if (type.end < a->size && a->text[type.end] == '.') type = word_from(a, type.end + 1);
    bool constant = is(a, type, "constexpr");
    if (!constant && !is_type(a, type)) return false;
    int len = (int)(a->before.end - a->before.begin);
    const char *name = a->text + a->before.begin;
    return explain(a, a->token, "a type stands before the name",
        constant
            ? arena_printf(&a->p->session->arena,
                  "write `const int %.*s`, or `const int %.*s = auto` for a size that the compiler chooses",
                  len, name, len, name)
            : "a number is `i32 n` or `f32 x`, a tensor `in f32 X[N]`, or `out` or `inout`");
}

/* kernel k(float *x), kernel k(inn f32 X[N]) */
static bool parameter(const Around *a)
{
    if (is(a, a->token, "*") && is_type(a, a->before))
        return explain(a, a->token, "there are no pointers",
            "a tensor is `in f32 X[N]`, or `out` or `inout` if it is written");
    if (!is_name(a, a->token) || !is_type(a, a->before) || !is_name(a, a->word)) return false;
    if (a->token.end >= a->size || a->text[a->token.end] != '[') return false;
    return explain_word(a, a->word, "a tensor is declared with its direction: `in`, `out` or `inout`");
}

/* x if c else y, import triton */
static bool out_of_place(const Around *a)
{
    if (is(a, a->token, "if") && (is_name(a, a->before) || is(a, a->before, ")") || is(a, a->before, "]")))
        return explain(a, a->token, "`if` begins a statement",
            "write `c ? a : b` for one condition, `where(c, a, b)` for a tile of them");
    if (is(a, a->before, "import") && is_name(a, a->token))
        return explain(a, a->token, "an import names a file", "write `import \"FILE.tile\";`");
    if (is(a, a->before, "}") && (is(a, a->token, "grid") || is(a, a->token, "hint")))
        return explain(a, a->token, "a clause stands before the body of its kernel",
            "write `kernel name(...) grid (...) { ... }`");
    return false;
}

/* let x: f32 = 3; let i, j = program_id(); let (i) = program_id(); */
static bool let_of_more(const Around *a)
{
    uint32_t at = a->before.begin;
    if (is(a, a->token, ")") && at && a->text[at - 1] == '(') {
        Loc let = word_to(a, at - 1);
        return (is(a, let, "let") || is(a, let, "var")) &&
               explain(a, a->token, "one name stands without parentheses",
                   "write `let i = program_id();`; a tuple of several values is `let (i, j) = ...;`");
    }
    if (!is(a, a->word, "let") && !is(a, a->word, "var")) return false;
    if (is(a, a->token, ":"))
        return explain(a, a->token, "a variable is declared without a type",
            "it takes the type of its value, and a type's name converts: `let x = f32(3);`");
    return is(a, a->token, ",") &&
           explain(a, a->token, "names of a tuple's parts stand in parentheses", "write `let (i, j) = ...;`");
}

/* int n = 3; const B = 16; kernel k(f32 X[N]) */
static bool declaration(const Around *a)
{
    if (!is_name(a, a->before)) return false;
    if (let_of_more(a)) return true;
    int len = (int)(a->token.end - a->token.begin), name = (int)(a->before.end - a->before.begin);
    Arena *arena = &a->p->session->arena;
    if (is_name(a, a->token) && len <= 40 && is_type(a, a->before))
        return explain(a, a->before, "a variable is declared without a type",
            arena_printf(arena, "write `let %.*s = ...;`, or `var %.*s = ...;` if it is assigned later", len,
                a->text + a->token.begin, len, a->text + a->token.begin));
    if (is(a, a->token, "=") && is(a, a->word, "const") && !is_type(a, a->before) && name <= 40)
        return explain(a, a->before, "a constant is declared with its type",
            arena_printf(arena, "write `const int %.*s = ...`, or `float`, `bool`, `type`, `f32`, ...", name,
                a->text + a->before.begin));
    if (is(a, a->token, "[") && is_type(a, a->word) && name <= 40)
        return explain(a, a->word, "a tensor is declared with its direction",
            arena_printf(arena, "write `in %.*s %.*s[...]`, or `out`, `inout`",
                (int)(a->word.end - a->word.begin), a->text + a->word.begin, name,
                a->text + a->before.begin));
    return false;
}

/* x ** 2, j++, ++j */
static bool doubled_operator(const Around *a)
{
    uint32_t at = a->before.begin;
    if (is(a, a->token, "*") && is(a, a->before, "*") && a->before.end == a->token.begin)
        return explain_word(a, (Loc){ a->token.file, at, a->token.end }, habit_note(HABIT_CALL, "pow", 3));
    bool plus = is(a, a->before, "+"), minus = is(a, a->before, "-");
    if ((!plus && !minus) || !at || a->text[at - 1] != a->text[at]) return false;
    Loc name = word_to(a, at - 1);
    bool named = is_name(a, name) && name.end - name.begin <= 40;
    return explain_word(a, (Loc){ a->token.file, at - 1, a->before.end },
        arena_printf(&a->p->session->arena, "write `%.*s %c= 1`%s", named ? (int)(name.end - name.begin) : 1,
            named ? a->text + name.begin : "j", plus ? '+' : '-',
            plus ? "; a loop `for j in 0 .. n { }` counts by itself" : ""));
}

static bool foreign_word(const Around *a)
{
    for (int i = 0; i < 2; i++) {
        Loc loc = i ? a->before : a->token;
        const char *note = habit_note(HABIT_WORD, a->text + loc.begin, loc.end - loc.begin);
        if (note) return explain_word(a, loc, note);
    }
    return false;
}

bool habit_of_syntax(Parse *p, Loc loc)
{
    const Source *src = diag_source(p->session, loc.file);
    Around a = { .p = p, .text = src->text, .size = src->len, .token = loc, .before = p->before };
    a.word = word_to(&a, a.before.begin);
    return method(&a) || loop(&a) || cast(&a) || fn_of_types(&a) || parameter(&a) || declaration(&a) ||
           annotation(&a) || doubled_operator(&a) || foreign_word(&a) || out_of_place(&a) ||
           block_of_word(&a);
}
