/* kernel_file.c: see kernel_file.h. */
#include "kernel_file.h"
#include "launch_facts.h"
#include "ref_random.h"
#include "frontend/frontend.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- text --- */

static void put(char *out, size_t size, const char *format, ...)
{
    size_t n = strlen(out);
    va_list args;
    va_start(args, format);
    if (n < size) vsnprintf(out + n, size - n, format, args);
    va_end(args);
}

/* The rest of the line of `text` that starts with `key`. */
static bool field(const char *text, const char *key, char *out, size_t size)
{
    const char *at = strstr(text, key);
    if (at) snprintf(out, size, "%.*s", (int)strcspn(at + strlen(key), "\n"), at + strlen(key));
    return at != NULL;
}

char *kernel_file_cut(char **s, char *out, size_t size)
{
    size_t n = strcspn(*s, "|");
    char *next = (*s)[n] ? *s + n + 1 : NULL;
    while (n && **s == ' ') {
        ++*s;
        n--;
    }
    while (n && (*s)[n - 1] == ' ') n--;
    snprintf(out, size, "%.*s", (int)n, *s);
    return next;
}

/* --- what follows from the parameters --- */

/* "ID index:V; X int:20": the fill of one name. */
static void fill_of(const char *list, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    *out = 0;
    for (const char *s = list; *s; s += strcspn(s, ";"), s += *s == ';') {
        s += strspn(s, " ");
        if (!strncmp(s, name, n) && s[n] == ' ')
            snprintf(out, size, " %.*s", (int)strcspn(s + n + 1, ";"), s + n + 1);
    }
}

static void from_parameters(const FrontKernel *k, KernelFile *f, bool tensors, bool scalars, bool launch)
{
    static const char *const roles[] = { "in", "out", "inout" };
    if (launch) snprintf(f->launch[0], sizeof f->launch[0], "%s", k->name);
    for (int i = 0; i < k->n_params; i++) {
        const FrontParam *p = &k->params[i];
        if (p->kind == FRONT_CONST_TYPE && p->default_value.kind == FRONT_TYPE)
            put(f->defaults, sizeof f->defaults, "%s=%s ", p->name, dtype_name(p->default_value.type));
        if (p->kind == FRONT_CONST || p->kind == FRONT_CONST_TYPE) continue;
        const char *type = p->type_name;
        if (launch) put(f->launch[0], sizeof f->launch[0], " %s", p->name);
        if (p->kind == FRONT_SCALAR) {
            bool whole = *type == 'i' || *type == 'u';
            if (!scalars) continue;
            put(f->scalars, sizeof f->scalars, "%s%s %s=", *f->scalars ? "; " : "",
                strcmp(type, "index") ? type : "i64", p->name);
            if (p->default_value.kind == FRONT_INT)
                put(f->scalars, sizeof f->scalars, "%lld", (long long)p->default_value.i);
            else if (p->default_value.kind == FRONT_FLOAT)
                put(f->scalars, sizeof f->scalars, "%.17g", p->default_value.f);
            else put(f->scalars, sizeof f->scalars, whole ? "3" : "0.375");
            continue;
        }
        if (!tensors) continue;
        char fill[48];
        fill_of(f->fill, p->name, fill, sizeof fill);
        put(f->tensors, sizeof f->tensors, "%s%s %s[", *f->tensors ? "; " : "", roles[p->kind], p->name);
        for (int a = 0; a < p->rank; a++)
            put(f->tensors, sizeof f->tensors, "%s%s", a ? "," : "",
                p->dims[a].name ? p->dims[a].name : p->dims[a].text);
        put(f->tensors, sizeof f->tensors, "] %s%s", type, fill);
    }
}

static bool derive(const char *path, KernelFile *f, char *why, size_t why_size)
{
    bool tensors = !*f->tensors, scalars = !*f->scalars, launch = !*f->launch[0];
    Session s;
    session_init(&s, allocator_libc);
    volatile bool ok = false;
    if (!setjmp(s.oom)) {
        Ast *ast = frontend_parse(
            &s, diag_add_source(&s, path, NULL, f->text, strlen(f->text)), launch_import, NULL);
        if (ast && frontend_check(ast) && frontend_kernel_count(ast)) {
            from_parameters(frontend_kernel(ast, 0), f, tensors, scalars, launch);
            ok = true;
        } else {
            Text t;
            text_init(&t, &s.arena);
            text_puts(&t, "");
            diag_render_all(&s, &t);
            snprintf(why, why_size, "%.*s", (int)t.len, t.data);
        }
    } else snprintf(why, why_size, "out of memory");
    session_free(&s);
    return ok;
}

/* The text is written to another folder to be run: what it imports beside its file is imported by its whole
 * path. */
static bool whole_imports(const char *path, KernelFile *f)
{
    char folder[4096], text[sizeof f->text];
    static const char import[] = "import \"";
    size_t n = 0;
    if (!realpath(path, folder)) return false;
    *strrchr(folder, '/') = 0;
    for (const char *p = f->text, *line; *p; p = line) {
        line = p + strcspn(p, "\n");
        line += *line == '\n';
        bool beside = !strncmp(p, import, sizeof import - 1) && p[sizeof import - 1] != '/';
        int more = beside ? snprintf(text + n, sizeof text - n, "%s%s/%.*s", import, folder,
                                (int)(line - p - (int)sizeof import + 1), p + sizeof import - 1)
                          : snprintf(text + n, sizeof text - n, "%.*s", (int)(line - p), p);
        n += (size_t)more;
        if (n >= sizeof text) return false;
    }
    memcpy(f->text, text, n + 1);
    return true;
}

bool kernel_file_read(const char *path, KernelFile *f, char *why, size_t why_size)
{
    char seed[32] = "1", launch[512] = "";
    memset(f, 0, sizeof *f);
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(f->text, 1, sizeof f->text - 1, file) : 0;
    if (file) fclose(file);
    if (!n || n == sizeof f->text - 1)
        return snprintf(why, why_size, "cannot be read, or is too long"), false;
    if (!field(f->text, "// sizes: ", f->sizes, sizeof f->sizes))
        return snprintf(why, why_size, "has no line of sizes"), false;
    field(f->text, "// consts: ", f->consts, sizeof f->consts);
    field(f->text, "// views: ", f->views, sizeof f->views);
    field(f->text, "// special: ", f->special, sizeof f->special);
    field(f->text, "// fill: ", f->fill, sizeof f->fill);
    field(f->text, "// scalars: ", f->scalars, sizeof f->scalars);
    field(f->text, "// tensors: ", f->tensors, sizeof f->tensors);
    field(f->text, "// bounds: ", f->bounds, sizeof f->bounds);
    field(f->text, "// seed: ", seed, sizeof seed);
    f->exact = strstr(f->text, "// exact\n") != NULL;
    f->drawn = strstr(f->sizes, "..") != NULL;
    f->seed = strtoull(seed, NULL, 0);
    if (field(f->text, "// launch: ", launch, sizeof launch)) {
        char *at = launch;
        for (int i = 0; i < 4 && *at; i++) {
            at += strspn(at, " ;");
            size_t length = strcspn(at, ";");
            snprintf(f->launch[i], sizeof f->launch[i], "%.*s", (int)length, at);
            at += length;
        }
    }
    if (!whole_imports(path, f)) return snprintf(why, why_size, "imports by paths that are too long"), false;
    return derive(path, f, why, why_size);
}

/* --- what is drawn --- */

typedef struct Sized {
    char name[16];
    int64_t value;
} Sized;

static bool term(const char **s, const Sized *known, int n, RefRandom *r, int64_t *out)
{
    char *end;
    if (isdigit((unsigned char)**s)) {
        *out = strtoll(*s, &end, 10);
        *s = end;
        if (strncmp(*s, "..", 2)) return true;
        int64_t to = strtoll(*s + 2, &end, 10);
        *s = end;
        *out += (int64_t)ref_random_below(r, (uint64_t)(to - *out + 1));
        return true;
    }
    size_t length = strspn(*s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    for (int i = 0; i < n; i++)
        if (strlen(known[i].name) == length && !strncmp(known[i].name, *s, length))
            return *out = known[i].value, *s += length, true;
    return false;
}

/* value: term { ("*" | "+" | "-" | "/") term }, from left to right */
bool kernel_file_sizes(const char *alternative, uint64_t draw, char *out, size_t size)
{
    RefRandom r = { draw * 77 + 5 };
    Sized known[24];
    int n = 0;
    *out = 0;
    for (const char *s = alternative + strspn(alternative, " "); *s; s += strspn(s, " ")) {
        size_t length = strcspn(s, "=");
        int64_t v, w;
        if (n == 24 || s[length] != '=' || length >= sizeof known->name) return false;
        snprintf(known[n].name, sizeof known->name, "%.*s", (int)length, s);
        s += length + 1;
        if (!term(&s, known, n, &r, &v)) return false;
        while (*s && *s != ' ') {
            char op = *s++;
            if (!term(&s, known, n, &r, &w)) return false;
            switch (op) {
            case '*': v *= w; break;
            case '+': v += w; break;
            case '-': v -= w; break;
            case '/': v = w ? v / w : 0; break;
            default: return false;
            }
        }
        known[n].value = v;
        put(out, size, "%s%s=%lld", n ? " " : "", known[n].name, (long long)v);
        n++;
    }
    return true;
}

void kernel_file_views(const KernelFile *f, uint64_t draw, char *out, size_t size)
{
    RefRandom r = { draw * 31 + 11 };
    *out = 0;
    for (const char *s = f->tensors; *s; s += strcspn(s, ";"), s += *s == ';') {
        s += strspn(s, " ");
        size_t role = strcspn(s, " "), name = strcspn(s + role + 1, "["), to = strcspn(s, "]");
        int rank = to > role + name + 2, depth = 0;
        for (size_t k = role + name; k < to; k++) {
            depth += (s[k] == '(') - (s[k] == ')');
            rank += s[k] == ',' && !depth;
        }
        static const char kinds[] = "cccccsxrbtpz";
        char kind = kinds[ref_random_below(&r, sizeof kinds - 1)];
        bool read = !strncmp(s, "in ", 3);
        if (kind == 'c' || rank < 1 || (kind == 't' && rank < 2) || (kind == 'p' && rank < 3) ||
            (kind == 'z' && (!read || rank < 2)))
            continue;
        put(out, size, "%s%.*s:%c", *out ? " " : "", (int)name, s + role + 1, kind);
    }
}
