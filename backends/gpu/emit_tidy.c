/* emit_tidy.c: leaves out declarations of scalars that nothing reads. Ranges and masks are folded into the
 * places that use them, a consumer takes its coordinates from the producer, so that what led to them stands
 * in the text for nobody. The compiler would drop it; a reader should not have to.
 *
 *     const i32 add_371 = (mul_356 + 0);      gone, if add_371 occurs nowhere else; then mul_356 too, if
 *         that was its last use
 *
 * Only lines `const TYPE NAME = EXPR;` whose EXPR calls nothing but arithmetic. Names end in _number, or are
 * coordinates (c0, c1, ..), and stand for one value in a kernel, or are counted as if they did. */
#include "backends/gpu/emit.h"
#include "ir/text.h"

typedef struct Name {
    const char *text;
    uint32_t len;
    int uses;
    int next;
} Name;
typedef struct Line {
    const char *text;
    size_t len;
    int declares;
    bool gone;
} Line; /* declares: a name that may go, or -1 */
typedef struct Tidy {
    Arena *arena;
    VEC(Name) names;
    VEC(Line) lines;
    int *bucket;
    uint32_t mask;
} Tidy;

static bool in_word(char c) { return irtext_name_char(c); }

static uint32_t hash(const char *p, uint32_t n)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * 16777619u;
    return h;
}

static int name_at(Tidy *t, const char *p, uint32_t n)
{
    int *b = &t->bucket[hash(p, n) & t->mask];
    for (int i = *b; i >= 0; i = t->names.data[i].next)
        if (t->names.data[i].len == n && !memcmp(t->names.data[i].text, p, n)) return i;
    vec_push(t->arena, &t->names, ((Name){ p, n, 0, *b }));
    return *b = (int)t->names.len - 1;
}

/* The next name of a value, word_123, in [p, end); NULL when there is none. */
static const char *next_name(const char *p, const char *end, uint32_t *n)
{
    while (p < end) {
        if (!in_word(*p)) {
            p++;
            continue;
        }
        const char *b = p;
        while (p < end && in_word(*p)) p++;
        const char *digit = p;
        while (digit > b && irtext_digit(digit[-1])) digit--;
        bool coordinate = digit == b + 1 && *b == 'c'; /* c0, c1, .. of emit_coord.c */
        if (digit < p && (coordinate || (digit > b + 1 && digit[-1] == '_' && !irtext_digit(*b)))) {
            *n = (uint32_t)(p - b);
            return b;
        }
    }
    return NULL;
}

static void count(Tidy *t, const char *p, const char *end, int by)
{
    uint32_t n;
    for (; (p = next_name(p, end, &n)); p += n) {
        int at = name_at(t, p, n);
        t->names.data[at].uses += by;
    }
}

static bool is_arithmetic(const char *p, size_t n)
{
    static const char *const calls[] = { "opaque", "div_", "rem_", "cdiv_", "f32_to_", "f64_to_", "min_",
        "max_", "shl_", "shr_", "float_bits", "fmaf", "round_", "rcp_", "mul_alone_" };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        size_t len = strlen(calls[i]);
        if (n >= len && !memcmp(p, calls[i], len) && (n == len || calls[i][len - 1] == '_')) return true;
    }
    return false;
}

/* Does the expression read nothing but values and call nothing but arithmetic? */
static bool is_pure(const char *p, const char *end)
{
    for (; p < end; p++) {
        if (*p == '[' || *p == '&' || *p == '*' || *p == '"') {
            bool product = (*p == '*' || *p == '&') && p[1] == ' ';
            if (!product) return false;
        }
        if (*p != '(' || !in_word(p[-1])) continue;
        const char *b = p;
        while (in_word(b[-1])) b--;
        if (!is_arithmetic(b, (size_t)(p - b))) return false;
    }
    return true;
}

/* The name declared by `const TYPE NAME = EXPR;` if the line may go. */
static int declared(Tidy *t, const char *p, const char *end)
{
    static const char *const types[] = { "int", "i32", "i64", "u32", "u64", "bool", "float", "double", "i8",
        "u8", "i16", "u16" };
    while (p < end && *p == ' ') p++;
    if (end - p < 12 || memcmp(p, "const ", 6) || end[-1] != ';') return -1;
    p += 6;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t len = strlen(types[i]);
        uint32_t n;
        if (memcmp(p, types[i], len) || p[len] != ' ') continue;
        const char *name = next_name(p + len, end, &n);
        if (!name || name != p + len + 1 || end - (name + n) < 4 || memcmp(name + n, " = ", 3)) return -1;
        return is_pure(name + n + 3, end - 1) ? name_at(t, name, n) : -1;
    }
    return -1;
}

static void split(Tidy *t, const char *text, size_t size)
{
    for (const char *p = text, *end = text + size; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p)), *stop = nl ? nl : end;
        bool directive = *p == '#';
        vec_push(t->arena, &t->lines,
            ((Line){ p, (size_t)(stop - p), directive ? -1 : declared(t, p, stop), false }));
        if (!directive) count(t, p, stop, 1);
        p = nl ? nl + 1 : end;
    }
}

static void drop(Tidy *t)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t i = t->lines.len;
            i-- > 0;) { /* later lines use earlier ones: once backwards finds nearly all */
            Line *l = &t->lines.data[i];
            if (l->gone || l->declares < 0 || t->names.data[l->declares].uses > 1) continue;
            l->gone = again = true;
            count(t, l->text, l->text + l->len, -1);
        }
    }
}

static bool starts(const Line *l, const char *what)
{
    size_t blank = 0, n = strlen(what);
    while (blank < l->len && l->text[blank] == ' ') blank++;
    return l->len - blank >= n && !memcmp(l->text + blank, what, n);
}

/* A #line, and the comment before it, with nothing behind it before the next. */
static void drop_empty_groups(Tidy *t)
{
    size_t n = t->lines.len, next = n;
    for (size_t i = n; i-- > 0;) {
        Line *l = &t->lines.data[i];
        if (l->gone) continue;
        bool marker = starts(l, "#line ");
        bool nothing =
            marker && next < n &&
            (starts(&t->lines.data[next], "#line ") || (starts(&t->lines.data[next], "/* ") && next + 1 < n &&
                                                           starts(&t->lines.data[next + 1], "#line ")));
        if (nothing) {
            l->gone = true;
            if (i && !t->lines.data[i - 1].gone && starts(&t->lines.data[i - 1], "/* ") &&
                !starts(&t->lines.data[i - 1], "/* the buffers"))
                t->lines.data[i - 1].gone = true;
        } else next = i;
    }
}

void emit_tidy(Session *s, const Text *in, Text *out)
{
    Tidy t = { .arena = &s->arena, .mask = 8191 };
    t.bucket = arena_array(&s->arena, int, t.mask + 1);
    for (uint32_t i = 0; i <= t.mask; i++) t.bucket[i] = -1;
    if (!in->len) return;
    split(&t, in->data, in->len);
    drop(&t);
    drop_empty_groups(&t);
    for (size_t i = 0; i < t.lines.len; i++) {
        if (t.lines.data[i].gone) continue;
        text_write(out, t.lines.data[i].text, t.lines.data[i].len);
        text_putc(out, '\n');
    }
}
