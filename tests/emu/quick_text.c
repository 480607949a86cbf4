/* quick_text.c: see quick_text.h. Works by lines: in emissions each function of the prelude begins with
 * function_head, and its body ends in the same line or with a line that is `}`. */
#include "tests/emu/quick_text.h"
#include "backends/hip/prelude.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char function_head[] = "static __device__ __forceinline__ ";

/* --- lines --- */

typedef struct Line {
    const char *p;
    size_t n;
} Line;

static bool line_next(Line *l, const char *end)
{
    l->p += l->n;
    l->p += *l->p == '\n';
    l->n = strcspn(l->p, "\n");
    return l->p < end && *l->p;
}

static bool begins(Line l, const char *what)
{ return l.n >= strlen(what) && !memcmp(l.p, what, strlen(what)); }

static bool holds(Line l, const char *what)
{
    size_t m = strlen(what);
    for (size_t i = 0; i + m <= l.n; i++)
        if (l.p[i] == *what && !memcmp(l.p + i, what, m)) return true;
    return false;
}

static bool holds_assembly(Line l) { return holds(l, "asm(") || holds(l, "asm "); }
static bool word_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* --- functions of the prelude --- */

typedef struct Signature {
    char result[40], name[80], params[600];
} Signature;

static bool read_signature(Line l, Signature *out)
{
    if (!begins(l, function_head)) return false;
    const char *from = l.p + sizeof function_head - 1, *end = l.p + l.n,
               *open = memchr(from, '(', (size_t)(end - from));
    if (!open) return false;
    const char *name = open, *close = open;
    while (name > from && word_char(name[-1])) name--;
    for (int depth = 0; close < end; close++) {
        depth += (*close == '(') - (*close == ')');
        if (!depth) break;
    }
    if (close == end || (size_t)(close - open) >= sizeof out->params) return false;
    snprintf(out->result, sizeof out->result, "%.*s", (int)(name - from), from);
    snprintf(out->name, sizeof out->name, "%.*s", (int)(open - name), name);
    snprintf(out->params, sizeof out->params, "%.*s", (int)(close - open - 1), open + 1);
    return true;
}

/* The last word of what stands before `end`: a parameter's name. */
static const char *last_word(const char *from, const char *end, int *n)
{
    while (end > from && !word_char(end[-1])) end--;
    const char *at = end;
    while (at > from && word_char(at[-1])) at--;
    *n = (int)(end - at);
    return at;
}

static void write_arguments(FILE *f, const char *params)
{
    if (!strcmp(params, "void")) return;
    for (const char *p = params; *p;) {
        size_t n = strcspn(p, ",");
        int length;
        const char *name = last_word(p, p + n, &length);
        fprintf(f, "%s%.*s", p == params ? "" : ", ", length, name);
        p += n + (p[n] == ',');
    }
}

/* A body of several lines ends with a line of `}`. */
static void skip_body(Line *l)
{
    if (l->n && l->p[l->n - 1] == '}') return;
    const char *end = strstr(l->p, "\n}\n");
    if (end) l->n = (size_t)(end + 2 - l->p);
}

/* --- the library --- */

typedef struct Names {
    Session *s;
    const char *list[4096];
    size_t n;
} Names;

static void add_name(Names *k, const char *name)
{
    if (!*name || k->n == sizeof k->list / sizeof *k->list) return;
    k->list[k->n++] = session_intern(k->s, name, strlen(name));
}

static void visit(void *user, const char *name, const PreludeEntry *e) { add_name(user, name); }

static char *whole_prelude(Session *s, const Target *t)
{
    Names k = { .s = s };
    Text out;
    text_init(&out, &s->arena);
    const PreludeEntry *tables[4];
    int n = prelude_tables(t, tables);
    for (int i = 0; i < n; i++) prelude_each(tables[i], visit, &k);
    if (t->kind == TARGET_HIP)
        for (int i = 0; hip_matrix_name(i); i++)
            if (hip_matrix(s, t, hip_matrix_name(i))) add_name(&k, hip_matrix_name(i));
    gpu_prelude(s, t, k.list, NULL, k.n, &out);
    text_puts(&out, t->kind == TARGET_HIP ? "KERNEL(1, 1)\nvoid " : "extern \"C\" __global__ void\n");
    text_puts(&out, "quick_nothing(void)\n{\n}\n");
    return out.data;
}

/* Shared memory is accessed through the machine, which checks for races. In the C++ sources an array of
 * shared memory is an object; a kernel in C calls a function with the element's address. */
static void write_elements(FILE *f, bool hip)
{
    static const char *const types[] = { "bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64",
        "float", "double" };
    const char *cell = hip ? "(EmuWord<%s>{ a })" : "(EmuCell<%s>(a))";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char element[64];
        snprintf(element, sizeof element, cell, types[i]);
        fprintf(f,
            "extern \"C\" __attribute__((visibility(\"default\"))) %s quick_element_%s(u32 a) { return %s; "
            "}\n",
            types[i], types[i], element);
        fprintf(f,
            "extern \"C\" __attribute__((visibility(\"default\"))) void quick_set_element_%s(u32 a, %s x) { "
            "%s = x; }\n",
            types[i], types[i], element);
    }
}

void quick_write_library(FILE *f, Session *s, const Target *t)
{
    char *text = whole_prelude(s, t);
    const GpuCode code = { .name = "quick_nothing", .text = text };
    char seen[200000] = " ";
    if (t->kind == TARGET_HIP) hip_write_source(f, &code, NULL);
    else cuda_write_source(f, &code, NULL);
    for (Line l = { text, 0 }; line_next(&l, text + strlen(text));) {
        Signature g;
        char word[84];
        if (!read_signature(l, &g)) continue;
        skip_body(&l);
        snprintf(word, sizeof word, " %s ", g.name); /* some functions have two bodies under #if */
        if (strstr(seen, word)) continue;
        strncat(seen, word + 1, sizeof seen - strlen(seen) - 1);
        fprintf(f, "extern \"C\" __attribute__((visibility(\"default\"))) %s quick_%s(%s) { return %s(",
            g.result, g.name, g.params, g.name);
        write_arguments(f, g.params);
        fprintf(f, "); }\n");
    }
    write_elements(f, t->kind == TARGET_HIP);
}

/* --- the kernel: pointers into shared memory --- */

/* T *const name = (T *)(shared + offset);  and  const auto name = LDS(T, offset);  both become
 * const u32 name = address; */
typedef struct Pointers {
    struct {
        char name[48], type[16];
    } list[32];
    int n;
    QuickUses *uses;
    void *user;
} Pointers;

static bool add_pointer(Pointers *k, FILE *f, Line l, bool hip)
{
    char text[400], offset[200];
    snprintf(text, sizeof text, "%.*s", (int)l.n, l.p);
    if (k->n == 32) return false;
    char *name = k->list[k->n].name, *type = k->list[k->n].type;
    if (hip ? sscanf(text, " const auto %47s = LDS(%15[a-z0-9], %199[^;];", name, type, offset) != 3
            : sscanf(text, " %15s *const %47s = (%*[a-z0-9] *)(shared + %199[^;];", type, name, offset) != 3)
        return false;
    offset[strlen(offset) - 1] = 0; /* the bracket */
    char used[48];
    snprintf(used, sizeof used, "quick_element_%s", type), k->uses(k->user, used);
    fprintf(f, "    %s %s(u32);\n", type, used);
    snprintf(used, sizeof used, "quick_set_element_%s", type), k->uses(k->user, used);
    fprintf(f, "    void %s(u32, %s);\n    const u32 %s = %s%s;\n", used, type, name, hip ? "" : "1024 + ",
        offset);
    k->n++;
    return true;
}

static int pointer_at(const Pointers *k, const char *line, const char *p)
{
    if (p > line && word_char(p[-1])) return -1;
    for (int i = 0; i < k->n; i++) {
        size_t n = strlen(k->list[i].name);
        if (!strncmp(p, k->list[i].name, n) && !word_char(p[n])) return i;
    }
    return -1;
}

/* name[index] = value;  ->  quick_set_element_T(name + sizeof(T) * (index), value);
 * name[index]           ->  quick_element_T(name + sizeof(T) * (index))
 * False: the name is used in another way. */
static bool write_elements_of(FILE *f, const Pointers *k, Line l)
{
    bool store = false;
    for (const char *p = l.p, *end = l.p + l.n; p < end; p++) {
        int i = pointer_at(k, l.p, p);
        if (i < 0) {
            if (store && *p == ';') fputc(')', f), store = false;
            fputc(*p, f);
            continue;
        }
        const char *open = p + strlen(k->list[i].name), *close = open;
        for (int depth = 0; close < end; close++) {
            depth += (*close == '[') - (*close == ']');
            if (!depth) break;
        }
        if (*open != '[' || close == end) return false;
        bool put = !strncmp(close + 1, " = ", 3);
        const Line index = { open + 1, (size_t)(close - open - 1) };
        if (!strncmp(close + 1, "++", 2) ||
            (close[1] == ' ' && close[2] && close[3] == '=' && strchr("+-|&^*", close[2])))
            return false;
        fprintf(f, "quick_%s_%s(%s + sizeof(%s) * (u32)(", put ? "set_element" : "element", k->list[i].type,
            k->list[i].name, k->list[i].type);
        if (!write_elements_of(f, k, index)) return false;
        fprintf(f, put ? "), " : "))");
        store |= put;
        p = close + (put ? 3 : 0);
    }
    return true;
}

/* --- the kernel --- */

/* Parameter i as a variable: pointers and integers by conversion, others by their bytes, a tensor map where
 * it lies. */
static void write_parameter(FILE *f, const char *p, int n, int i)
{
    int length, type;
    const char *name = last_word(p, p + n, &length);
    while (n && isspace((unsigned char)*p)) p++, n--;
    type = (int)(name - p);
    const Line l = { p, (size_t)type };
    if (holds(l, "TensorMap"))
        fprintf(f, "#define %.*s (*(const TensorMap *)emu_words[%d])\n", length, name, i);
    else if (holds(l, "*")) fprintf(f, "    %.*s = (void *)emu_words[%d];\n", (int)(name + length - p), p, i);
    else if (holds(l, "float") || holds(l, "double"))
        fprintf(f, "    %.*s = *(%.*s*)(emu_words + %d);\n", (int)(name + length - p), p, type, p, i);
    else fprintf(f, "    %.*s = (%.*s)emu_words[%d];\n", (int)(name + length - p), p, type, p, i);
}

static const char *write_parameters(FILE *f, const char *p)
{
    const char *end = strstr(p, ")\n{\n");
    for (int i = 0; end && p < end; i++) {
        size_t n = strcspn(p, ",");
        if (p + n > end) n = (size_t)(end - p);
        if (n != 4 || memcmp(p, "void", 4)) write_parameter(f, p, (int)n, i);
        p += n + (p[n] == ',');
    }
    return end ? end + 4 : NULL;
}

/* The prelude as far as the emission holds it: functions become declarations, macros and types stay. */
static void write_declarations(FILE *f, const char *text, const char *end, QuickUses *uses, void *user)
{
    for (Line l = { text, 0 }; line_next(&l, end);) {
        Signature g;
        char name[100];
        if (begins(l, "static __device__ __forceinline__ void wgmma_m")) {
            l.n = (size_t)(strstr(l.p, ")); }\n") + 5 - l.p);
            if (!cuda_write_wgmma(f, l.p, l.n)) fprintf(f, "#error a wgmma in no known form\n");
        } else if (read_signature(l, &g)) {
            snprintf(name, sizeof name, "quick_%s", g.name);
            fprintf(f, "%s %s(%s);\n#define %s %s\n", g.result, name, g.params, g.name, name);
            uses(user, name);
            skip_body(&l);
        } else if (begins(l, "#")) {
            if (!holds_assembly(l) && !holds(l, "#line")) fprintf(f, "%.*s\n", (int)l.n, l.p);
        } else if (begins(l, "typedef ") && !holds(l, "vector_size") && !holds(l, "bf16") &&
                   !holds(l, "_Float16"))
            fprintf(f, "%.*s\n", (int)l.n, l.p);
    }
}

/* The line before, and the line's number, describe a fault. */
typedef struct Body {
    FILE *f;
    bool hip;
    Faults *faults;
    Pointers pointers;
    const char *before;
    int line;
} Body;

static bool write_line(Body *b, FILE *f, Line l)
{
    if (holds(l, "(shared + ") || holds(l, "LDS(")) return add_pointer(&b->pointers, f, l, b->hip);
    return write_elements_of(f, &b->pointers, l);
}

/* TYPE name, other[N];  with neither value nor call? */
static bool declares(Line l)
{
    static const char *const others[] = { "typedef ", "return ", "goto ", "else ", "extern ", "static " };
    size_t words = 0;
    while (l.n && *l.p == ' ') l.p++, l.n--;
    if (l.n < 2 || l.p[l.n - 1] != ';' || !isalpha((unsigned char)*l.p)) return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (begins(l, others[i])) return false;
    for (size_t i = 0; i + 1 < l.n; i++) {
        if (!word_char(l.p[i]) && !strchr(" ,*[]", l.p[i])) return false;
        words += l.p[i] == ' ' && (word_char(l.p[i + 1]) || l.p[i + 1] == '*');
    }
    return words > 0;
}

/* Fills what the line declares with the pattern of quick_unset. */
static void write_unset(FILE *f, Line l)
{
    if (!declares(l)) return;
    for (const char *p = l.p, *end = l.p + l.n - 1; p < end;) {
        int length;
        size_t n = strcspn(p, ",;");
        const char *open = memchr(p, '[', n), *name = last_word(p, open ? open : p + n, &length);
        fprintf(f, " quick_unset_variable((void *)&%.*s, sizeof %.*s);", length, name, length, name);
        p += n + 1;
    }
}

static bool write_body_line(Body *b, Line l)
{
    char *text = NULL;
    size_t n;
    b->line++;
    if (holds_assembly(l) || begins(l, "#pragma") || begins(l, "#line")) return true;
    FILE *f = b->faults ? open_memstream(&text, &n) : b->f;
    if (!f) return false;
    bool ok = write_line(b, f, l);
    if (b->faults) {
        ok &= !fclose(f);
        if (ok) (b->hip ? hip_plant : cuda_plant)(b->f, b->faults, b->line, text, n, b->before);
        free(text);
    }
    write_unset(b->f, l);
    fputc('\n', b->f);
    if (l.n && !(b->hip && holds(l, "/* "))) b->before = l.p;
    return ok;
}

bool quick_write_kernel(FILE *f, const GpuCode *code, bool hip, Faults *faults, QuickUses *uses, void *user)
{
    char opening[200];
    Body b = {
        .f = f, .hip = hip, .faults = faults, .pointers = { .uses = uses, .user = user }, .before = ""
    };
    const char *kernel = strstr(code->text, hip ? "\nKERNEL(" : "\nextern \"C\" __global__");
    snprintf(opening, sizeof opening, hip ? "void %s(" : "\n%s(", code->name);
    const char *params = kernel ? strstr(kernel, opening) : NULL;
    if (!params) return false;
    write_declarations(f, code->text, kernel + 1, uses, user);
    if (faults) faults->emissions++;
    fprintf(f, "static void emu_body(const u64 *emu_words)\n{\n");
    const char *body = write_parameters(f, params + strlen(opening));
    if (!body) return false;
    for (Line l = { body, 0 }; *l.p; l.p += l.n, l.p += *l.p == '\n') {
        l.n = strcspn(l.p, "\n");
        if (!write_body_line(&b, l)) return false;
    }
    fprintf(f, "void quick_unset(void);\nvoid emu_thread(const u64 *w) { quick_unset(); emu_body(w); }\n");
    return true;
}
