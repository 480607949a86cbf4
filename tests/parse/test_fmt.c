/* test_fmt.c: the formatter on programs whose blanks, line ends and comments, or whose bytes, are changed at
 * random. test_fmt SECONDS FILE.tile...: what is formatted has the characters of the source, blanks left out,
 * and formatting it again changes nothing. What does not parse is refused, and its bytes need only not crash
 * it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "frontend/fmt/fmt.h"

static uint64_t state = 1;
static unsigned below(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % n;
}

typedef struct Buffer {
    char *data;
    size_t len;
} Buffer;

static Buffer read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    Buffer b = { malloc(1 << 20), 0 };
    if (!file || !b.data) exit(2);
    b.len = fread(b.data, 1, 1 << 20, file);
    fclose(file);
    return b;
}

static Buffer copy(const char *data, size_t len)
{
    Buffer b = { malloc(len + 1), len };
    if (!b.data) exit(2);
    memcpy(b.data, data, len);
    return b;
}

/* Blanks, a line end, or a comment, as they may stand wherever a blank may. */
static const char *gap(void)
{
    static const char *const gaps[] = { " ", "  ", "\n", "\t", "\r\n", "\n\n\n\n", " // remark\n",
        " /* inside */", " /* of two\n      lines */ ", "\n   // alone\n", "\n\n/* alone */\n", "      ",
        " //\n", "\n\t\t" };
    return gaps[below(sizeof gaps / sizeof *gaps)];
}

/* The source with some of its blanks outside of comments and strings replaced. One in `rare` is. */
static Buffer other_blanks(Buffer source, unsigned rare)
{
    Buffer out = copy("", 0);
    size_t cap = 40 * source.len + 100;
    bool string = false, line = false, block = false;
    free(out.data);
    out.data = malloc(cap);
    if (!out.data) exit(2);
    for (size_t i = 0; i < source.len; i++) {
        char c = source.data[i], next = i + 1 < source.len ? source.data[i + 1] : 0;
        if (c == '"' && !line && !block) string = !string;
        if (c == '/' && next == '/' && !string && !block) line = true;
        if (c == '/' && next == '*' && !string && !line) block = true;
        if (block) {
            out.data[out.len++] = c;
            block = c != '/' || !i || source.data[i - 1] != '*';
            continue;
        }
        bool blank = (c == ' ' || c == '\n') && !string && (!line || c == '\n');
        bool mark = !string && !line && strchr("(),;[]{}", c) && c;
        if (c == '\n') line = false;
        if ((blank || mark) && !below(rare)) {
            const char *text = gap();
            if (c != ' ') out.data[out.len++] = c;
            if (c == '\n' && below(2)) out.data[out.len - 1] = ' ';
            if (c == '\n') out.data[out.len - 1] = '\n';
            memcpy(out.data + out.len, text, strlen(text));
            out.len += strlen(text);
        } else out.data[out.len++] = c;
    }
    return out;
}

static Buffer other_bytes(Buffer source)
{
    Buffer out = copy(source.data, source.len);
    for (unsigned n = 1 + below(4); n && out.len; n--) {
        size_t at = below((unsigned)out.len), len = below(12);
        if (at + len > out.len) len = out.len - at;
        if (below(2)) out.data[at] = (char)below(256);
        else {
            memmove(out.data + at, out.data + at + len, out.len - at - len);
            out.len -= len;
        }
    }
    return out;
}

/* Formats into `out`; false when it is refused. */
static bool format(Buffer source, int width, Buffer *out)
{
    Session s;
    Text text;
    volatile bool ok = false;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        text_init(&text, &s.arena);
        text_puts(&text, "");
        ok = frontend_format(&s, diag_add_source(&s, "k.tile", NULL, source.data, source.len), width, &text);
        for (const Diag *d = s.diags; d; d = d->next)
            if (strstr(d->message, "other tokens")) {
                printf("FAIL: other tokens\n%.*s\n", (int)source.len, source.data);
                exit(1);
            }
        if (ok) *out = copy(text.data ? text.data : "", text.len);
    } else if (!s.n_errors) exit(2);
    session_free(&s);
    return ok;
}

static bool is_blank(char c)
{ return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

static bool same_characters(Buffer a, Buffer b)
{
    size_t i = 0, k = 0;
    for (;; i++, k++) {
        while (i < a.len && is_blank(a.data[i])) i++;
        while (k < b.len && is_blank(b.data[k])) k++;
        if (i == a.len || k == b.len) return i == a.len && k == b.len;
        if (a.data[i] != b.data[k]) return false;
    }
}

static void fail(const char *what, Buffer source, Buffer a, Buffer b)
{
    printf("FAIL: %s\n--- source\n%.*s\n--- formatted\n%.*s\n--- again\n%.*s\n", what, (int)source.len,
        source.data, (int)a.len, a.data, (int)b.len, b.data);
    exit(1);
}

/* Whether the source was formatted, and well. */
static bool try_one(Buffer source, int width)
{
    Buffer once, twice;
    if (!format(source, width, &once)) return false;
    if (!format(once, width, &twice)) fail("what was formatted is refused", source, once, once);
    if (!same_characters(source, once)) fail("other characters", source, once, twice);
    if (once.len != twice.len || memcmp(once.data, twice.data, once.len))
        fail("not idempotent", source, once, twice);
    free(once.data);
    free(twice.data);
    return true;
}

int main(int argc, char **argv)
{
    double seconds = argc > 2 ? atof(argv[1]) : 0;
    int formatted = 0, refused = 0;
    clock_t begin = clock();
    if (argc < 3) return 2;
    do {
        for (int i = 2; i < argc; i++) {
            Buffer source = read_file(argv[i]), blanks = other_blanks(source, 1 + below(30));
            Buffer bytes = other_bytes(below(2) ? source : blanks);
            int width = below(3) ? FMT_WIDTH : 40 + (int)below(100);
            if (!try_one(source, width)) return printf("FAIL: %s is refused\n", argv[i]), 1;
            if (!try_one(blanks, width)) fail("refused with other blanks", blanks, blanks, blanks);
            if (try_one(bytes, width)) formatted++;
            else refused++;
            free(source.data);
            free(blanks.data);
            free(bytes.data);
        }
    } while ((double)(clock() - begin) < seconds * CLOCKS_PER_SEC);
    printf("%d programs with other bytes were formatted, %d refused\n", formatted, refused);
    return formatted && refused ? 0 : 1;
}
