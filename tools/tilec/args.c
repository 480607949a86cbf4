/* args.c: the command line: tables, parsing, response files. */
#include "tools/tilec/tool.h"
#include <unistd.h>
#include "ir/support/diag.h"
#include "ir/target/target.h"
#include "tools/tilec/file.h"
#include <errno.h>
#include <stdlib.h>

/* Names for the `commands` column of flags.def. */
enum {
#define COMMAND(ID, name, fn, synopsis, doc) ID = 1u << CMD_##ID,
#include "tools/tilec/commands.def"
#undef COMMAND
    ALL = (1u << CMD_COUNT) - 1
};

const FlagInfo flag_info[FLAG_COUNT] = {
#define GROUP(title)
#define FLAG(ID, spelling, form, value, commands, doc) \
    [FLAG_##ID] = { spelling, FORM_##form, value, commands, doc },
#include "tools/tilec/flags.def"
#undef FLAG
#undef GROUP
};

const CommandInfo command_info[CMD_COUNT] = {
#define COMMAND(ID, name, fn, synopsis, doc) [CMD_##ID] = { name, fn, synopsis, doc },
#include "tools/tilec/commands.def"
#undef COMMAND
};

const char *args_last(const Args *a, FlagId f, const char *otherwise)
{ return a->flag[f].len ? a->flag[f].data[a->flag[f].len - 1] : otherwise; }

bool text_to_int(const char *s, int64_t *value)
{
    char *end;
    if (!*s || *s == ' ' || *s == '+') return false;
    errno = 0;
    long long v = strtoll(s, &end, s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 16 : 10);
    if (errno || *end || end == s) return false;
    *value = v;
    return true;
}

const char *text_to_integer(Arena *a, const char *s, DType d, int64_t *value)
{
    bool truth = d == DT_BOOL && (!strcmp(s, "true") || !strcmp(s, "false")), minus = *s == '-', hex;
    uint64_t v = 0;
    const char *p = s + minus;
    hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    p += hex ? 2 : 0;
    if (truth) {
        *value = *s == 't';
        return NULL;
    }
    size_t digits = strspn(p, hex ? "0123456789abcdefABCDEF" : "0123456789");
    if (!digits || p[digits]) return arena_printf(a, "no value of type %s", dtype_name(d));
    errno = 0;
    v = strtoull(p, NULL, hex ? 16 : 10);
    int bits = d == DT_BOOL ? 1 : 8 * dtype_bytes(d);
    bool with_sign = d != DT_BOOL && dtype_is_signed(d);
    uint64_t most = with_sign ? UINT64_MAX >> (65 - bits) : UINT64_MAX >> (64 - bits);
    if (errno || v > (minus ? (with_sign ? most + 1 : 0) : most)) {
        if (with_sign)
            return arena_printf(a, "out of range of %s (-%llu to %llu)", dtype_name(d),
                (unsigned long long)most + 1, (unsigned long long)most);
        return arena_printf(a, "out of range of %s (0 to %llu)", dtype_name(d), (unsigned long long)most);
    }
    *value = (int64_t)(minus ? 0 - v : v);
    return NULL;
}

bool args_int(Tool *t, const Args *a, FlagId f, int64_t lo, int64_t hi, int64_t *value)
{
    const char *s = args_last(a, f, NULL);
    if (!s) return true;
    int64_t v;
    if (!text_to_int(s, &v) || v < lo || v > hi) {
        tool_usage(t, "%s wants a number from %lld to %lld, not `%s`", flag_info[f].spelling, (long long)lo,
            (long long)hi, s);
        return false;
    }
    *value = v;
    return true;
}

Strings args_list(Tool *t, const Args *a, FlagId f)
{
    Strings list = { 0 };
    for (size_t i = 0; i < a->flag[f].len; i++)
        for (const char *s = a->flag[f].data[i];; s++) {
            size_t n = strcspn(s, ",");
            if (n) vec_push(&t->arena, &list, arena_strndup(&t->arena, s, n));
            s += n;
            if (!*s) break;
        }
    return list;
}

/* --- response files ---------------------------------------------------------------------------------- */

/* Words separated by blanks; '..' and ".." group, a backslash keeps the next character outside '..'. */
static int split_words(Tool *t, const char *file, const char *p, Strings *words)
{
    for (;;) {
        p += strspn(p, " \t\r\n");
        if (!*p) return EXIT_OK;
        Text word;
        text_init(&word, &t->arena);
        text_puts(&word, "");
        for (char quote = 0; *p && (quote || !strchr(" \t\r\n", *p)); p++) {
            if (quote && *p == quote) quote = 0;
            else if (!quote && (*p == '\'' || *p == '"')) quote = *p;
            else if (*p == '\\' && quote != '\'' && p[1]) text_putc(&word, *++p);
            else text_putc(&word, *p);
            if (quote && !p[1]) return tool_usage(t, "%s: a quotation mark is never closed", file);
        }
        vec_push(&t->arena, words, word.data ? word.data : "");
    }
}

static int expand(Tool *t, Strings in, int depth, Strings *out)
{
    for (size_t i = 0; i < in.len; i++) {
        if (in.data[i][0] != '@' || !in.data[i][1]) {
            vec_push(&t->arena, out, in.data[i]);
            continue;
        }
        const char *file = in.data[i] + 1;
        if (depth == 8) return tool_usage(t, "%s: @files are nested more than 8 deep", file);
        FileText text;
        if (!file_read(t, file, 16 << 20, &text)) return EXIT_USAGE;
        Strings words = { 0 };
        int code = split_words(t, file, text.data, &words);
        if (code || (code = expand(t, words, depth + 1, out))) return code;
    }
    return EXIT_OK;
}

/* --- parsing ----------------------------------------------------------------------------------------- */

/* The long option that `word` spells up to a `=`, or would with one more dash. FLAG_COUNT: none. */
static FlagId long_flag(const char *word)
{
    size_t n = strcspn(word, "=");
    bool one_dash = word[1] != '-';
    for (int f = 0; f < FLAG_COUNT; f++) {
        const char *spelling = flag_info[f].spelling + one_dash;
        if (spelling[0] == '-' && strlen(spelling) == n && !strncmp(spelling, word, n)) return (FlagId)f;
    }
    return FLAG_COUNT;
}

static int unknown_flag(Tool *t, CommandId command, const char *word)
{
    const char *name = arena_strndup(&t->arena, word, strcspn(word, "=")), *nearest = NULL;
    int best = 3;
    for (int f = 0; f < FLAG_COUNT; f++) {
        int d = diag_distance(name, strlen(name), flag_info[f].spelling);
        if (flag_info[f].commands >> command & 1 && d < best && strlen(name) > 3) {
            best = d;
            nearest = flag_info[f].spelling;
        }
    }
    if (nearest) return tool_usage(t, "unknown option `%s`; did you mean `%s`?", name, nearest);
    return tool_usage(
        t, "unknown option `%s` (`tilec %s --help` lists them)", name, command_info[command].name);
}

/* A word that find_flag does not know: a value where the option takes none, or another spelling. */
static int refuse_flag(Tool *t, CommandId command, const char *word)
{
    FlagId f = word[1] == '-' ? long_flag(word) : FLAG_COUNT;
    if (f == FLAG_COUNT) return unknown_flag(t, command, word);
    const char *value = strchr(word, '=') + 1;
    if (f == FLAG_HELP)
        return tool_usage(t,
            "there is no help on `%s`; `tilec --help` lists the commands, options and stages, "
            "`tilec COMMAND --help` the options of a command, `tilec --help=passes` the passes",
            value);
    return tool_usage(t, "option `%s` takes no value, found `%s`", flag_info[f].spelling, value);
}

/* Whether `word` is flag f. *value: the text that is joined to it, or NULL. */
static bool spells(const FlagInfo *f, const char *word, const char **value)
{
    size_t n = strlen(f->spelling);
    *value = NULL;
    if (strncmp(word, f->spelling, n)) return false;
    if (!word[n]) return true;
    switch (f->form) {
    case FORM_NONE: return false;
    case FORM_OPTIONAL:
    case FORM_VALUE: *value = word + n + 1; return word[n] == '=';
    case FORM_SHORT:
    case FORM_JOINED: *value = word + n; return true;
    }
    return false;
}

/* The longest spelling that fits: -MF and -MD before -M. FLAG_COUNT: none. */
static FlagId find_flag(const char *word, const char **value)
{
    FlagId found = FLAG_COUNT;
    for (int f = 0; f < FLAG_COUNT; f++) {
        const char *v;
        if (!spells(&flag_info[f], word, &v)) continue;
        if (found != FLAG_COUNT && strlen(flag_info[f].spelling) < strlen(flag_info[found].spelling))
            continue;
        found = (FlagId)f;
        *value = v;
    }
    return found;
}

/* Closed sets (a|b|c) are checked here. */
static bool value_allowed(const char *set, const char *value)
{
    if (!strchr(set, '|')) return true;
    for (size_t n = strlen(value);; set++) {
        size_t len = strcspn(set, "|");
        if (len == n && !strncmp(set, value, n)) return true;
        set += len;
        if (!*set) return false;
    }
}

/* Lists add up, and of several -O the last counts, as compilers have it. */
static bool adds_up(FlagId f, CommandId command)
{
    const FlagInfo *info = &flag_info[f];
    return info->form == FORM_NONE || f == FLAG_OPT || !strcmp(info->value, "LIST") || f == FLAG_IMPORT_DIR ||
           f == FLAG_SWEEP || f == FLAG_PRINT || (f == FLAG_REMAP && command == CMD_SIM) ||
           ((f == FLAG_PLOT || f == FLAG_TARGET) && command == CMD_EXPLAIN) ||
           ((f == FLAG_TARGET || f == FLAG_KERNEL) && command == CMD_COMPILE);
}

/* For other flags, one value is kept, and for NAME=... one for each name. Two different values are an error,
 * because it is unknown which was meant. */
static int refuse_second(Tool *t, const Args *a, FlagId f, const char *value)
{
    const FlagInfo *info = &flag_info[f];
    size_t name = !strncmp(info->value, "NAME=", 5) ? strcspn(value, "=") : 0;
    if (adds_up(f, a->command)) return EXIT_OK;
    for (size_t i = 0; i < a->flag[f].len; i++) {
        const char *before = a->flag[f].data[i];
        if (!name)
            return tool_usage(t, "option `%s` is given twice: `%s` and `%s`", info->spelling, before, value);
        if (!strncmp(before, value, name) && before[name] == '=')
            return tool_usage(t, "option `%s` is given twice for %.*s: `%s` and `%s`", info->spelling,
                (int)name, value, before, value);
    }
    return EXIT_OK;
}

/* An option without its value. next: the option that stands in its place, or NULL. */
static int refuse_value(Tool *t, const FlagInfo *info, const char *next)
{
    if (!next) return tool_usage(t, "option `%s` wants a value: %s", info->spelling, info->value);
    return tool_usage(
        t, "option `%s` wants a value, %s, before the option `%s`", info->spelling, info->value, next);
}

/* An option that other commands take; the one of this command for the same purpose is named. */
static int refuse_for_command(Tool *t, CommandId command, FlagId f)
{
    static const FlagId alike[][2] = { { FLAG_DEFINE, FLAG_SET }, { FLAG_SET, FLAG_DEFINE },
        { FLAG_OUTPUT, FLAG_OUT } };
    const char *name = command_info[command].name, *spelling = flag_info[f].spelling;
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        const FlagInfo *other = &flag_info[alike[i][1]];
        if (alike[i][0] == f && other->commands >> command & 1)
            return tool_usage(t, "`tilec %s` takes no option `%s`; write `%s %s`", name, spelling,
                other->spelling, other->value);
    }
    return tool_usage(t, "`tilec %s` takes no option `%s`", name, spelling);
}

const char *args_targets(Tool *t)
{
    Text names;
    text_init(&names, &t->arena);
    for (size_t i = 0; target_at(i); i++) text_printf(&names, "%s%s", i ? ", " : "", target_at(i)->name);
    return names.data;
}

int args_no_target(Tool *t, const char *name)
{
    for (size_t i = 0; target_at(i); i++) {
        const char *chip = strchr(target_at(i)->name, ':');
        if (chip && !strcmp(chip + 1, name)) /* sm_90a */
            return tool_usage(t, "there is no target `%s`; did you mean `%s`?", name, target_at(i)->name);
    }
    for (size_t i = 0; target_at(i); i++) {
        const char *chip = strchr(target_at(i)->name, ':');
        size_t family = chip ? (size_t)(chip - target_at(i)->name) : 0;
        if (chip && strlen(name) == family && !strncmp(target_at(i)->name, name, family)) /* cuda */
            return tool_usage(t,
                "`%s` stands for the GPU of this machine, in run, bench and tune; here name one of %s", name,
                args_targets(t));
    }
    return tool_usage(t, "there is no target `%s`; there are %s", name, args_targets(t));
}

static int take_flag(Tool *t, Args *a, const Strings *words, size_t *i)
{
    const char *word = words->data[*i], *value = NULL, *joined;
    /* `-help` is `--help` with a slip, and not `-h` with the file `elp`. */
    bool slip = word[1] != '-' && long_flag(word) != FLAG_COUNT;
    FlagId f = slip ? FLAG_COUNT : find_flag(word, &value);
    if (f == FLAG_COUNT) return refuse_flag(t, a->command, word);
    const FlagInfo *info = &flag_info[f];
    if (!(info->commands >> a->command & 1)) return refuse_for_command(t, a->command, f);
    if (info->form == FORM_NONE || (info->form == FORM_OPTIONAL && !value)) value = "";
    else if (!value && info->form != FORM_JOINED && *i + 1 < words->len) {
        value = words->data[++*i];
        if (value[0] == '-' && find_flag(value, &joined) != FLAG_COUNT) return refuse_value(t, info, value);
    }
    if (!value || (!*value && info->form != FORM_NONE && info->form != FORM_OPTIONAL))
        return refuse_value(t, info, NULL);
    if (!value_allowed(info->value, value))
        return tool_usage(t, "option `%s` takes %s, not `%s`", info->spelling, info->value, value);
    int code = refuse_second(t, a, f, value);
    vec_push(&t->arena, &a->flag[f], value);
    return code;
}

static CommandId find_command(const char *word)
{
    for (int c = 0; c < CMD_COUNT; c++)
        if (!strcmp(word, command_info[c].name)) return (CommandId)c;
    return CMD_COUNT;
}

/* A word without a point or slash where the file stands: a command with a slip. */
static int check_command(Tool *t, const char *word)
{
    int best = 3;
    const char *nearest = NULL;
    if (strpbrk(word, "./")) return EXIT_OK;
    for (int c = 0; c < CMD_COUNT; c++) {
        int d = diag_distance(word, strlen(word), command_info[c].name);
        if (d >= best || 2 * d >= (int)strlen(command_info[c].name)) continue;
        best = d;
        nearest = command_info[c].name;
    }
    if (!nearest || !access(word, F_OK)) return EXIT_OK;
    return tool_usage(t, "there is no command `%s`; did you mean `tilec %s`?", word, nearest);
}

int args_parse(Tool *t, int argc, char **argv, Args *a)
{
    Strings raw = { 0 }, words = { 0 };
    for (int i = 0; i < argc; i++) vec_push(&t->arena, &raw, argv[i]);
    int code = expand(t, raw, 0, &words);
    if (code) return code;
    memset(a, 0, sizeof *a);
    size_t i = 0;
    bool command = words.len && find_command(words.data[0]) != CMD_COUNT;
    if (words.len == 1 + (size_t)command && !strcmp(words.data[command], "-h"))
        words.data[command] = "--help";
    if (words.len && find_command(words.data[0]) != CMD_COUNT) a->command = find_command(words.data[i++]);
    for (bool flags = true; i < words.len; i++) {
        const char *w = words.data[i];
        if (flags && !strcmp(w, "--")) flags = false;
        else if (flags && w[0] == '-' && w[1]) {
            if ((code = take_flag(t, a, &words, &i))) return code;
        } else vec_push(&t->arena, &a->inputs, w);
    }
    return command || !a->inputs.len ? EXIT_OK : check_command(t, a->inputs.data[0]);
}

/* A word that is neither a command nor a file, nor looks like the name of one. */
static bool is_unknown_command(const char *word)
{ return !strpbrk(word, "./-") && find_command(word) == CMD_COUNT && access(word, F_OK); }

int args_known_word(Tool *t, const Args *a)
{
    const char *word = a->inputs.len ? a->inputs.data[0] : ".";
    if (a->command || !is_unknown_command(word)) return EXIT_OK;
    return tool_usage(t, "there is no command or file `%s` (`tilec help` lists the commands)", word);
}

int args_one_file(Tool *t, const Args *a)
{
    Text names;
    if (a->inputs.len == 1) return EXIT_OK;
    int code = args_known_word(t, a);
    if (code) return code;
    if (!a->inputs.len)
        return tool_usage(t, "no .tile file given (`tilec%s%s --help` shows how)", a->command ? " " : "",
            a->command ? command_info[a->command].name : "");
    text_init(&names, &t->arena);
    for (size_t i = 0; i < a->inputs.len; i++) {
        const char *word = a->inputs.data[i];
        if (find_command(word) != CMD_COUNT && access(word, F_OK))
            return tool_usage(t, "the command stands first: `tilec %s FILE.tile ...`", word);
        text_printf(&names, "%s%s", i ? ", " : "", word);
    }
    return tool_usage(t, "one .tile file at a time, not %zu: %s", a->inputs.len, names.data);
}
