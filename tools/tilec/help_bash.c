/* help_bash.c: the completion for bash, from the tables of commands, flags, stages, targets, devices and
 * passes. */
#include "passes/sim/sim.h"
#include "runtime/choice/estimate/device_model.h"
#include "tools/tilec/emit.h"

static bool belongs(int flag, CommandId c) { return flag_info[flag].commands >> c & 1; }

/* The options of a command as words. */
static void put_options(CommandId c, FILE *out)
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

static bool takes_value(const FlagInfo *info) { return info->form == FORM_VALUE || info->form == FORM_SHORT; }

/* The spellings of the flags that take a value (of this name, unless NULL), joined by `|`. False: there are
 * none. */
static bool put_spellings(const char *value, FILE *out)
{
    int n = 0;
    for (int f = 0; f < FLAG_COUNT; f++) {
        const FlagInfo *info = &flag_info[f];
        if (!takes_value(info) || (value && strcmp(info->value, value))) continue;
        format_file(out, "%s%s", n++ ? "|" : "        ", info->spelling);
    }
    return n > 0;
}

static void put_targets(FILE *out)
{
    /* The command run accepts interp. The others report that it is no target of theirs. */
    fputs(" interp", out);
    for (size_t i = 0; target_at(i); i++) format_file(out, " %s", target_at(i)->name);
}

/* The options that take passes, each with those that it takes. */
static void put_passes(FILE *out)
{
    fputs("        --passes) echo", out);
    for (int i = 0; i < TILE_PASS_COUNT; i++) format_file(out, " %s", pass_info[i].name);
    fputs(" ;;\n        --skip-pass) echo", out);
    for (int i = 0; i < PASS_COUNT; i++)
        if (i < TILE_PASS_COUNT || pass_info[i].presence != REQUIRED)
            format_file(out, " %s", pass_info[i].name);
    fputs(" ;;\n        --with-pass|--stop-after|--dump-after)\n            [[ $1 == --dump-after ]] && echo "
          "all\n"
          "            echo",
        out);
    for (int i = 0; i < PASS_COUNT; i++) format_file(out, " %s", pass_info[i].name);
    fputs(" ;;\n", out);
}

/* `_tilec_words OPTION COMMAND`: the words that may stand for an option's value. */
static void put_words(FILE *out)
{
    fputs(
        "# The words that may stand for the value of option $1 of command $2; $3...: the words of the line.\n"
        "_tilec_words() {\n    case $1 in\n        --target) echo",
        out);
    put_targets(out);
    fputs(" ;;\n        --emit) echo", out);
    for (int s = 0; s < STAGE_COUNT; s++) format_file(out, " %s", stage_info[s].name);
    fputs(" ;;\n        --device)\n            case $2 in\n                explain) echo", out);
    for (size_t i = 0; device_model_at(i); i++) format_file(out, " %s", device_model_at(i)->name);
    fputs(" ;;\n                sim) echo", out);
    for (size_t i = 0; sim_device_at(i); i++) format_file(out, " %s", sim_device_at(i)->name);
    fputs(" ;;\n            esac ;;\n", out);
    put_passes(out);
    for (int f = 0; f < FLAG_COUNT; f++) {
        const FlagInfo *info = &flag_info[f];
        if (info->form != FORM_VALUE || !strchr(info->value, '|')) continue;
        format_file(out, "        %s) echo", info->spelling);
        for (const char *v = info->value; *v; v += strcspn(v, "|"), v += *v == '|')
            format_file(out, " %.*s", (int)strcspn(v, "|"), v);
        fputs(" ;;\n", out);
    }
    fputs("        --kernel)\n"
          "            local word\n"
          "            for word in \"${@:3}\"; do\n"
          "                if [[ $word == *.tile && -r $word ]]; then\n"
          "                    sed -nE 's/^[[:space:]]*kernel[[:space:]]+([A-Za-z_][A-Za-z0-9_]*).*/\\1/p' "
          "\"$word\"\n"
          "                fi\n"
          "            done ;;\n"
          "    esac\n}\n",
        out);
}

static void put_values(FILE *out)
{
    fputs("    if [[ $option ]]; then\n"
          "        local before=${cur%\"$value\"}\n"
          "        case $option in\n",
        out);
    if (put_spellings("FILE", out))
        fputs(") mapfile -t COMPREPLY < <(compgen -P \"$before\" -f -- \"$value\"); files=1 ;;\n", out);
    if (put_spellings("DIR", out))
        fputs(") mapfile -t COMPREPLY < <(compgen -P \"$before\" -d -- \"$value\"); files=1 ;;\n", out);
    fputs("        *)\n"
          "            # Of a list, the last word is completed.\n"
          "            [[ $value == *,* ]] && before+=${value%,*},\n"
          "            mapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"$(_tilec_words \"$option\" "
          "$command \"${all[@]}\")\" "
          "-- \"${value##*,}\") ;;\n"
          "        esac\n",
        out);
}

void help_bash(Tool *t, FILE *out)
{
    fputs("# Written by `tilec help bash` from tools/tilec/flags.def; a test compares them.\n\n", out);
    put_words(out);
    fputs(
        "\n_tilec() {\n"
        "    local line=${COMP_LINE:0:COMP_POINT} words all cur prev command=compile option= value= files=\n"
        "    COMPREPLY=()\n"
        "    read -ra words <<<\"$line\"\n"
        "    read -ra all <<<\"$COMP_LINE\"\n"
        "    [[ $line == *[[:space:]] ]] && words+=('')\n"
        "    local n=${#words[@]}\n"
        "    cur=${words[n - 1]} prev=${words[n - 2]}\n"
        "    if ((n > 2)); then case ${words[1]} in ",
        out);
    for (int c = 0; c < CMD_COUNT; c++) format_file(out, "%s%s", c ? "|" : "", command_info[c].name);
    fputs(") command=${words[1]} ;; esac; fi\n"
          "    case $cur in\n"
          "    --*=*) option=${cur%%=*} value=${cur#*=} ;;\n"
          "    *)\n"
          "        case $prev in\n",
        out);
    put_spellings(NULL, out);
    fputs(") option=$prev value=$cur ;;\n        esac ;;\n    esac\n", out);
    put_values(out);
    fputs("    elif [[ $cur == -* ]]; then\n        case $command in\n", out);
    for (int c = 0; c < CMD_COUNT; c++) {
        format_file(out, "        %s) mapfile -t COMPREPLY < <(compgen -W '", command_info[c].name);
        put_options((CommandId)c, out);
        fputs("' -- \"$cur\") ;;\n", out);
    }
    fputs(
        "        esac\n        [[ ${COMPREPLY-} == *= ]] && compopt -o nospace 2>/dev/null\n    else\n", out);
    fputs("        local commands='", out);
    for (int c = 0; c < CMD_COUNT; c++) format_file(out, "%s%s", c ? " " : "", command_info[c].name);
    fputs(
        "'\n"
        "        if [[ $command == help ]]; then\n"
        "            mapfile -t COMPREPLY < <(compgen -W \"$commands man bash\" -- \"$cur\")\n"
        "        else\n"
        "            mapfile -t COMPREPLY < <(compgen -f -X '!*.tile' -- \"$cur\"; compgen -d -- \"$cur\")\n"
        "            files=1\n"
        "            ((n == 2)) && mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W \"$commands\" -- "
        "\"$cur\")\n"
        "        fi\n"
        "    fi\n"
        "    [[ $files ]] && compopt -o filenames 2>/dev/null\n"
        "    # Bash replaces what follows the last `=` or `:` of the word, where these end words.\n"
        "    local breaks=\n"
        "    [[ $COMP_WORDBREAKS == *=* ]] && breaks+==\n"
        "    [[ $COMP_WORDBREAKS == *:* ]] && breaks+=:\n"
        "    [[ $breaks && $cur == *[$breaks]* ]] && "
        "COMPREPLY=(\"${COMPREPLY[@]#\"${cur%\"${cur##*[$breaks]}\"}\"}\")\n"
        "    return 0\n"
        "}\n"
        "complete -F _tilec tilec\n",
        out);
}
