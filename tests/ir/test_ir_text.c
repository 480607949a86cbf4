/* test_ir_text.c: the text form of the IR.
 *
 *     test_ir_text roundtrip a.ir b.ir ...   each file parses, verifies, and prints as it stands (comments
 *         at its head apart)
 *     test_ir_text cases cases.txt           each case's diagnostics are exactly those written below it
 *     test_ir_text manual ir.md              the manual holds the tables of operations, attributes and hints
 *         as the IR has them
 *                                            (with $UPDATE set: prints the manual with them in place)
 *
 * A case: a line `=== name`, the IR, a line `---`, the text of the diagnostics. With $UPDATE set, the second
 * form prints the file as it would have to be, to be read with care before it replaces the old one. */
#include "ir/ir.h"
#include <stdio.h>
#include <stdlib.h>

static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "%s: cannot open\n", path);
        exit(2);
    }
    size_t cap = 1 << 20, n;
    char *text = malloc(cap);
    *len = 0;
    while ((n = fread(text + *len, 1, cap - *len - 1, f)) > 0) {
        *len += n;
        if (cap - *len < 2) text = realloc(text, cap *= 2);
    }
    text[*len] = '\0';
    fclose(f);
    return text;
}

static Module *parse(Session *s, const char *name, const char *text, size_t len)
{ return ir_parse(s, diag_add_source(s, name, NULL, text, len)); }

static void print_diags(Session *s, FILE *to)
{
    Text out;
    text_init(&out, &s->arena);
    diag_render_all(s, &out);
    if (out.len) fputs(out.data, to);
}

/* `from`, the part of `text` after comments, must be what the module prints. */
static int roundtrip_text(const char *path, const char *text, size_t len, const char *from)
{
    Session s;
    session_init(&s, allocator_libc);
    volatile int bad = 1;
    if (setjmp(s.oom)) {
        print_diags(&s, stderr);
        session_free(&s);
        return 1;
    }
    Module *m = parse(&s, path, text, len);
    if (m && ir_verify(m)) {
        Text a, b, c;
        text_init(&a, &s.arena);
        text_init(&b, &s.arena);
        text_init(&c, &s.arena);
        ir_print(m, &a);
        Module *again = parse(&s, "printed", a.data, a.len);
        if (again) ir_print(again, &b);
        ir_print(ir_clone_module(m), &c);
        bad = strcmp(a.data, from) || !again || strcmp(a.data, b.data);
        if (strcmp(a.data, from)) fprintf(stderr, "%s: prints as\n%s", path, a.data);
        else if (bad) fprintf(stderr, "%s: its print prints as\n%s", path, b.data ? b.data : "nothing");
        Module *copy = c.len ? parse(&s, "clone", c.data, c.len) : NULL;
        if (!copy || !ir_verify(copy)) {
            fprintf(stderr, "%s: the clone does not read or verify\n", path);
            bad = 1;
        }
    }
    print_diags(&s, stderr);
    session_free(&s);
    return bad;
}

static int roundtrip(const char *path)
{
    size_t len;
    char *text = read_file(path, &len), *from = text;
    while (!strncmp(from, "//", 2)) from = strchr(from, '\n') + 1;
    int bad = roundtrip_text(path, text, len, from);
    free(text);
    return bad;
}

/* The diagnostics of one case. The caller frees. */
static char *run_case(const char *text, size_t len)
{
    Session s;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) {
        session_free(&s);
        return strdup("left through session.oom\n");
    }
    Module *m = parse(&s, "k.ir", text, len);
    if (m && ir_verify(m)) {
        session_free(&s);
        return strdup("no error\n");
    }
    Text out;
    text_init(&out, &s.arena);
    text_puts(&out, "");
    diag_render_all(&s, &out);
    char *copy = strdup(out.data);
    session_free(&s);
    return copy;
}

static int cases(const char *path)
{
    size_t len;
    char *text = read_file(path, &len), *at = strstr(text, "=== ");
    int bad = 0, n = 0;
    bool update = getenv("UPDATE");
    if (update && at) printf("%.*s", (int)(at - text), text);
    while (at) {
        char *body = strchr(at, '\n') + 1, *split = strstr(body, "---\n"), *end = strstr(body, "\n=== ");
        if (!split || (end && split > end)) {
            fprintf(stderr, "%s: a case without ---\n", path);
            return 1;
        }
        char *want = split + 4;
        if (end) end++;
        size_t want_len = end ? (size_t)(end - want) : strlen(want);
        char *got = run_case(body, (size_t)(split - body));
        if (update) printf("%.*s---\n%s", (int)(split - at), at, got);
        else if (strlen(got) != want_len || memcmp(got, want, want_len)) {
            fprintf(
                stderr, "%.*s\nwanted:\n%.*sgot:\n%s", (int)(body - at - 1), at, (int)want_len, want, got);
            bad++;
        }
        free(got);
        n++;
        at = end;
    }
    free(text);
    if (!update) printf("%d cases, %d failed\n", n, bad);
    return bad != 0 || n == 0;
}

static void op_table(Text *t)
{
    static const struct {
        unsigned flag;
        const char *name;
    } flags[] = {
#define X(ID) { OPF_##ID, #ID },
        OP_FLAGS(X)
#undef X
    };
    text_puts(
        t, "| operation | operands | results | blocks | flags | meaning |\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < OP_COUNT; i++) {
        const int n[3] = { op_info[i].n_operands, op_info[i].n_results, op_info[i].n_blocks };
        text_printf(t, "| `%s` |", op_info[i].name);
        for (int k = 0; k < 3; k++) {
            if (n[k] < 0) text_puts(t, " any |");
            else text_printf(t, " %d |", n[k]);
        }
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
            if (op_info[i].flags & flags[k].flag) {
                text_putc(t, ' ');
                for (const char *c = flags[k].name; *c; c++) text_putc(t, *c == '_' ? '_' : (char)(*c | 32));
            }
        text_puts(t, " | ");
        for (const char *c = op_info[i].doc; *c; c++) {
            if (*c == '|') text_putc(t, '\\');
            text_putc(t, *c);
        }
        text_puts(t, " |\n");
    }
}

static void attr_table(Text *t)
{
    static const char *const kinds[] = { "integer", "float", "string", "integers", "name" };
    text_puts(t, "| attribute | kind | meaning |\n|---|---|---|\n");
    for (int k = 0; k < ATTR_N_KEYS; k++) {
        text_printf(t, "| `%s` | %s | %s", attr_info[k].name, kinds[attr_info[k].kind], attr_info[k].doc);
        for (int64_t v = 0; attr_info[k].kind == ATTR_KIND_ENUM && attr_enum_name((AttrKey)k, v); v++)
            text_printf(t, "%s `%s`", v ? "," : ":", attr_enum_name((AttrKey)k, v));
        text_puts(t, " |\n");
    }
}

/* The part of the manual between `<!-- name -->` and `<!-- end -->` must be the table. */
static int manual(const char *path)
{
    size_t len;
    char *text = read_file(path, &len), *at = text;
    const struct {
        const char *mark;
        void (*make)(Text *);
    } parts[] = { { "<!-- operations -->\n", op_table }, { "<!-- attributes -->\n", attr_table } };
    bool update = getenv("UPDATE");
    char *example = strstr(text, "```\nkernel"), *close = example ? strstr(example + 4, "```") : NULL, *copy;
    if (!close) {
        fprintf(stderr, "%s: the example is gone\n", path);
        free(text);
        return 1;
    }
    copy = strndup(example + 4, (size_t)(close - example - 4));
    int bad = roundtrip_text(path, copy, strlen(copy), copy);
    free(copy);
    for (int k = 0; k < 2; k++) {
        Session s;
        Text t;
        session_init(&s, allocator_libc);
        if (setjmp(s.oom)) return 2;
        text_init(&t, &s.arena);
        parts[k].make(&t);
        char *from = strstr(at, parts[k].mark), *end = from ? strstr(from, "<!-- end -->") : NULL;
        if (!end) {
            fprintf(stderr, "%s: no part %s", path, parts[k].mark);
            session_free(&s);
            free(text);
            return 1;
        }
        from += strlen(parts[k].mark);
        if (update) printf("%.*s%s", (int)(from - at), at, t.data);
        else if ((size_t)(end - from) != t.len || memcmp(from, t.data, t.len)) {
            size_t k2 = 0, line = 0; /* where the first line that differs starts */
            for (; k2 < t.len && from + k2 < end && from[k2] == t.data[k2]; k2++)
                if (t.data[k2] == '\n') line = k2 + 1;
            fprintf(stderr,
                "%s: the table after %sis not the IR's; `UPDATE=1 test_ir_text manual docs/ir.md` prints the "
                "mended page\n  stands:  %.*s\n  must be: %.*s\n",
                path, parts[k].mark, (int)strcspn(from + line, "\n"), from + line,
                (int)strcspn(t.data + line, "\n"), t.data + line);
            bad = 1;
        }
        at = end;
        session_free(&s);
    }
    if (update) fputs(at, stdout);
    free(text);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = argc < 3;
    if (argc >= 3 && !strcmp(argv[1], "roundtrip"))
        for (int k = 2; k < argc; k++) bad |= roundtrip(argv[k]);
    else if (argc == 3 && !strcmp(argv[1], "cases")) bad = cases(argv[2]);
    else if (argc == 3 && !strcmp(argv[1], "manual")) bad = manual(argv[2]);
    else bad = 1;
    return bad;
}
