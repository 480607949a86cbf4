/* tool.c: one run of the command: parse the command line, hand over to the command. See tool.h. */
#include "tools/tilec/tool.h"
#include "ir/support/stack.h"
#include <stdlib.h>

static void message(Tool *t, const char *kind, const char *fmt, va_list ap)
{
    format_file(t->err, "tilec: %s: ", kind);
    format_file_args(t->err, fmt, ap);
    fputc('\n', t->err);
}

#define MESSAGE(kind) \
    do { \
        va_list ap; \
        va_start(ap, fmt); \
        message(t, kind, fmt, ap); \
        va_end(ap); \
    } while (0)

int tool_error(Tool *t, const char *fmt, ...)
{
    MESSAGE("error");
    return EXIT_INPUT;
}
int tool_usage(Tool *t, const char *fmt, ...)
{
    MESSAGE("error");
    return EXIT_USAGE;
}
void tool_warning(Tool *t, const char *fmt, ...) { MESSAGE("warning"); }
void tool_note(Tool *t, const char *fmt, ...) { MESSAGE("note"); }

int cmd_help(Tool *t, const Args *a)
{
    const char *topic = a->inputs.len ? a->inputs.data[0] : command_info[CMD_COMPILE].name;
    if (a->inputs.len > 1) return tool_usage(t, "`tilec help` takes one name");
    if (!strcmp(topic, "man")) {
        help_man(t, t->out);
        return EXIT_OK;
    }
    if (!strcmp(topic, "bash")) {
        help_bash(t, t->out);
        return EXIT_OK;
    }
    for (int c = 0; c < CMD_COUNT; c++)
        if (!strcmp(topic, command_info[c].name)) {
            help_print(t, (CommandId)c, t->out);
            return EXIT_OK;
        }
    return tool_usage(t, "there is no command `%s` (`tilec help` lists them)", topic);
}

static int run(Tool *t, int argc, char **argv)
{
    Args args;
    int code = args_parse(t, argc - 1, argv + 1, &args);
    if (code) return code;
    if (args_has(&args, FLAG_HELP_PASSES)) {
        help_passes(t, t->out);
        return EXIT_OK;
    }
    if (args_has(&args, FLAG_HELP)) {
        help_print(t, args.command, t->out);
        return EXIT_OK;
    }
    return command_info[args.command].run(t, &args);
}

void tool_at_end(Tool *t, ToolCleanup *c, void (*fn)(void *), void *ptr)
{
    *c = (ToolCleanup){ fn, ptr, t->cleanups };
    t->cleanups = c;
}

void tool_end(Tool *t, ToolCleanup *c)
{
    while (t->cleanups) {
        ToolCleanup *last = t->cleanups;
        t->cleanups = last->next;
        last->fn(last->ptr);
        if (last == c) return;
    }
}

typedef struct Main {
    int argc;
    char **argv;
    Tool t;
    int code;
} Main;

static void run_guarded(void *p)
{
    Main *m = p;
    m->code = setjmp(m->t.oom) ? tool_error(&m->t, "out of memory") : run(&m->t, m->argc, m->argv);
    tool_end(&m->t, NULL);
}

int tool_main(int argc, char **argv, Allocator alloc, FILE *out, FILE *err)
{
    Main m = { argc, argv, { .alloc = alloc, .out = out, .err = err }, EXIT_INPUT };
    char text[STACK_TEXT];
    arena_init(&m.t.arena, alloc, &m.t.oom);
    if (!stack_call(run_guarded, &m)) tool_error(&m.t, "%s", stack_refused(text));
    if (fflush(out) || ferror(out))
        m.code = m.code ? m.code : tool_error(&m.t, "cannot write standard output");
    arena_free(&m.t.arena);
    return m.code;
}
