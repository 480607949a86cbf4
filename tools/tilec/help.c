/* help.c: --help, the man page and the bash completion, all from the tables of commands and flags. */
#include "tools/tilec/emit.h"

/* flags.def in its order: a title, or a flag. */
static const struct {
    const char *title;
    int flag;
} rows[] = {
#define GROUP(title) { title, -1 },
#define FLAG(ID, spelling, form, value, commands, doc) { NULL, FLAG_##ID },
#include "tools/tilec/flags.def"
#undef FLAG
#undef GROUP
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static bool belongs(int flag, CommandId c) { return flag_info[flag].commands >> c & 1; }

/* `--target=TARGET`, `-o FILE`, `-O0|1|2|3`, `-g` */
static const char *flag_usage(Tool *t, const FlagInfo *f)
{
    const char *between = f->form == FORM_VALUE ? "=" : f->form == FORM_SHORT ? " " : "";
    if (f->form == FORM_OPTIONAL) return arena_printf(&t->arena, "%s[=%s]", f->spelling, f->value);
    return arena_printf(&t->arena, "%s%s%s", f->spelling, between, f->value);
}

static void print_flag(Tool *t, const FlagInfo *f, FILE *out)
{
    const char *usage = flag_usage(t, f), *doc = f->doc;
    format_file(out, "  %-22s", usage);
    if (strlen(usage) > 21) format_file(out, "\n%24s", "");
    for (;;) {
        size_t n = strcspn(doc, "\n");
        format_file(out, "%.*s\n", (int)n, doc);
        doc += n;
        if (!*doc++) return;
        format_file(out, "%24s", "");
    }
}

void help_print(Tool *t, CommandId c, FILE *out)
{
    format_file(out, "usage: tilec %s\n\n%s\n", command_info[c].synopsis, command_info[c].doc);
    if (!c) {
        format_file(out, "\ncommands (`tilec COMMAND --help` for each):\n");
        for (int i = 0; i < CMD_COUNT; i++) format_file(out, "  tilec %s\n", command_info[i].synopsis);
    }
    const char *title = NULL;
    for (int i = 0; i < N_ROWS; i++) {
        if (rows[i].title) {
            title = rows[i].title;
            continue;
        }
        if (!belongs(rows[i].flag, c)) continue;
        if (title) format_file(out, "\n%s:\n", title);
        title = NULL;
        print_flag(t, &flag_info[rows[i].flag], out);
    }
    if (!c) {
        format_file(out, "\nstages:\n");
        for (int s = 0; s < STAGE_COUNT; s++)
            format_file(out, "  %-22s%s\n", stage_info[s].name, stage_info[s].doc);
        format_file(out, "\n`tilec --help=passes` lists the passes.\n");
    }
    if (!c)
        format_file(out, "\n`@FILE` reads arguments from a file. Exit status: 0 done, 1 errors in the input, "
                         "2 a wrong command line.\n");
}

void help_passes(Tool *t, FILE *out)
{
    Text passes;
    text_init(&passes, &t->arena);
    passes_print_list(&passes);
    fputs(passes.data, out);
}

/* --- man page ---------------------------------------------------------------------------------------- */

/* A dash that is not a hyphen, a backslash, a line that starts with a dot: as roff wants them. */
static void roff(FILE *out, const char *s)
{
    bool start = true, code = false;
    for (; *s; s++) {
        if (*s == '`') fputs((code = !code) ? "\\fB" : "\\fR", out);
        else if (*s == '-') fputs("\\-", out);
        else if (*s == '\\') fputs("\\\\", out);
        else if (*s == '\n') fputs("\n.br\n", out);
        else {
            if (start && (*s == '.' || *s == '\'')) fputs("\\&", out);
            fputc(*s, out);
        }
        start = *s == '\n';
    }
}

static void man_option(Tool *t, const FlagInfo *f, FILE *out)
{
    fputs(".TP\n\\fB", out);
    roff(out, f->spelling);
    bool optional = f->form == FORM_OPTIONAL;
    format_file(
        out, "\\fR%s\\fI", optional ? "[=" : f->form == FORM_VALUE ? "=" : f->form == FORM_SHORT ? " " : "");
    roff(out, f->value);
    format_file(out, "\\fR%s\n", optional ? "]" : "");
    roff(out, f->doc);
    fputs("\n.br\n(", out);
    for (int c = 0, n = 0; c < CMD_COUNT; c++)
        if (f->commands >> c & 1) format_file(out, "%s%s", n++ ? ", " : "", command_info[c].name);
    fputs(")\n", out);
}

void help_man(Tool *t, FILE *out)
{
    fputs(".\\\" Written by `tilec help man` from tools/tilec/flags.def; a test compares them.\n"
          ".TH TILEC 1 \"\" \"tilec\" \"User Commands\"\n.SH NAME\ntilec \\- compile and run tile "
          "kernels\n.SH SYNOPSIS\n",
        out);
    for (int c = 0; c < CMD_COUNT; c++) {
        fputs(c ? ".br\n\\fBtilec\\fR " : "\\fBtilec\\fR ", out);
        roff(out, command_info[c].synopsis);
        fputc('\n', out);
    }
    fputs(".SH DESCRIPTION\n"
          "A .tile file holds kernels written over tiles of tensors. \\fBtilec\\fR turns it into an object "
          "file with a typed C header,\n"
          "into CUDA C or HIP C, or into C with the binaries embedded; it also runs a kernel on .npy files, "
          "times it, and prints\n"
          "every stage in between. It needs neither a GPU nor an SDK.\n.SH COMMANDS\n",
        out);
    for (int c = 0; c < CMD_COUNT; c++) {
        format_file(out, ".TP\n\\fB%s\\fR\n", command_info[c].name);
        roff(out, command_info[c].doc);
        fputc('\n', out);
    }
    fputs(".SH OPTIONS\nThe commands that take an option stand in brackets behind it. An argument "
          "\\fB@FILE\\fR stands for the words in that file.\n",
        out);
    for (int i = 0; i < N_ROWS; i++) {
        if (!rows[i].title) {
            man_option(t, &flag_info[rows[i].flag], out);
            continue;
        }
        fputs(".SS ", out);
        roff(out, rows[i].title);
        fputc('\n', out);
    }
    fputs(".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nerrors in the input: a .tile or .npy file, a launch, a "
          "file that cannot be written\n"
          ".TP\n2\nthe command line is wrong\n.PP\nOutput files appear only on success; a failed run leaves "
          "what was there.\n"
          ".SH SEE ALSO\ndocs/language.md, docs/embedding.md\n",
        out);
}

/* --- bash completion --------------------------------------------------------------------------------- */

static void bash_words(CommandId c, FILE *out)
{
    for (int f = 0, n = 0; f < FLAG_COUNT; f++) {
        const FlagInfo *info = &flag_info[f];
        if (!belongs(f, c)) continue;
        if (info->form == FORM_JOINED && strchr(info->value, '|')) {
            for (const char *v = info->value;; v++) {
                size_t len = strcspn(v, "|");
                format_file(out, "%s%s%.*s", n++ ? " " : "", info->spelling, (int)len, v);
                v += len;
                if (!*v) break;
            }
            continue;
        }
        format_file(out, "%s%s%s", n++ ? " " : "", info->spelling, info->form == FORM_VALUE ? "=" : "");
    }
}

/* The words that may stand for an option's value, or NULL: any. */
static const char *closed_set(Tool *t, const FlagInfo *info)
{
    Text words;
    text_init(&words, &t->arena);
    /* The command run accepts interp. The others report that it is no target of theirs. */
    if (!strcmp(info->value, "STAGE"))
        for (int s = 0; s < STAGE_COUNT; s++) text_printf(&words, "%s%s", s ? " " : "", stage_info[s].name);
    else if (!strcmp(info->value, "TARGET"))
        for (size_t i = 0; target_at(i); i++)
            text_printf(&words, "%s%s", i ? " " : "interp ", target_at(i)->name);
    else if (strchr(info->value, '|'))
        for (const char *v = info->value; *v; v++) text_putc(&words, *v == '|' ? ' ' : *v);
    return words.data;
}

void help_bash(Tool *t, FILE *out)
{
    fputs("# Written by `tilec help bash` from tools/tilec/flags.def; a test compares them.\n"
          "_tilec() {\n"
          "    local cur prev words cword command=compile split=\n"
          "    COMPREPLY=()\n"
          "    if declare -F _init_completion >/dev/null; then _init_completion -n = || return; else\n"
          "        cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
          "words=(\"${COMP_WORDS[@]}\") cword=$COMP_CWORD\n"
          "    fi\n",
        out);
    fputs("    local commands='", out);
    for (int c = 0; c < CMD_COUNT; c++) format_file(out, "%s%s", c ? " " : "", command_info[c].name);
    fputs("'\n    if ((cword > 1)); then case ${words[1]} in\n", out);
    for (int c = 0; c < CMD_COUNT; c++)
        format_file(out, "        %s) command=%s ;;\n", command_info[c].name, command_info[c].name);
    fputs("    esac; fi\n    case $prev in\n", out);
    for (int f = 0; f < FLAG_COUNT; f++) {
        const FlagInfo *info = &flag_info[f];
        if (info->form == FORM_NONE || info->form == FORM_JOINED || info->form == FORM_OPTIONAL) continue;
        if (!strcmp(info->value, "FILE"))
            format_file(
                out, "        %s) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", info->spelling);
        if (!strcmp(info->value, "DIR"))
            format_file(
                out, "        %s) COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n", info->spelling);
    }
    fputs("    esac\n    case $cur in\n", out);
    for (int f = 0; f < FLAG_COUNT; f++) {
        const FlagInfo *info = &flag_info[f];
        if (info->form != FORM_VALUE) continue;
        const char *words = closed_set(t, info);
        if (words) {
            format_file(out, "        %s=*) COMPREPLY=($(compgen -W '%s' -- \"${cur#*=}\")); return ;;\n",
                info->spelling, words);
        } else if (!strcmp(info->value, "FILE")) {
            format_file(
                out, "        %s=*) COMPREPLY=($(compgen -f -- \"${cur#*=}\")); return ;;\n", info->spelling);
        }
    }
    fputs("    esac\n    case $cur in\n    -*)\n        case $command in\n", out);
    for (int c = 0; c < CMD_COUNT; c++) {
        format_file(out, "        %s) COMPREPLY=($(compgen -W '", command_info[c].name);
        bash_words((CommandId)c, out);
        fputs("' -- \"$cur\")) ;;\n", out);
    }
    fputs("        esac\n        [[ ${COMPREPLY-} == *= ]] && compopt -o nospace 2>/dev/null\n        return "
          ";;\n    esac\n"
          "    COMPREPLY=($(compgen -f -- \"$cur\"))\n"
          "    ((cword == 1)) && COMPREPLY+=($(compgen -W \"$commands\" -- \"$cur\"))\n"
          "}\n"
          "complete -o filenames -F _tilec tilec\n",
        out);
}
