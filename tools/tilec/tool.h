/* tool.h: what the commands of tilec share: memory, messages, arguments, files. */
#pragma once
#include "ir/support/arena.h"
#include "ir/type.h"
#include <stdio.h>

/* The actions at the end of a run, also when it ends because memory ran out. */
typedef struct ToolCleanup {
    void (*fn)(void *);
    void *ptr;
    struct ToolCleanup *next;
} ToolCleanup;

/* One run of the command. All memory comes from `alloc` and is freed at the end; running out of it ends the
 * run with a message. */
typedef struct Tool {
    Allocator alloc;
    Arena arena;
    jmp_buf oom;
    ToolCleanup *cleanups; /* the latest first */
    FILE *out, *err;       /* stdout and stderr */
    const char *standard_input;
    size_t standard_input_len; /* the text of `-` after it was read, so that it can be read again */
} Tool;

/* success; an error in the input; an error in the command line */
enum { EXIT_OK = 0, EXIT_INPUT = 1, EXIT_USAGE = 2 };

/* The whole command: an exit code. Nothing of the run is left when it returns. */
int tool_main(int argc, char **argv, Allocator, FILE *out, FILE *err);
/* fn(ptr) is called by tool_end, or at the end of the run. The node must lie in the tool's arena: frames are
 * gone when memory has run out. */
void tool_at_end(Tool *, ToolCleanup *, void (*fn)(void *), void *ptr);
/* Calls what was registered since `c`, and c's own function, the latest first. */
void tool_end(Tool *, ToolCleanup *);

/* `tilec: error: ...` on standard error. Both return their exit code, so that callers can `return
 * tool_error(...)`. */
int tool_error(Tool *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int tool_usage(Tool *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tool_warning(Tool *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tool_note(Tool *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

typedef enum CommandId {
#define COMMAND(ID, name, fn, synopsis, doc) CMD_##ID,
#include "tools/tilec/commands.def"
#undef COMMAND
    CMD_COUNT
} CommandId;

typedef enum FlagId {
#define GROUP(title)
#define FLAG(ID, spelling, form, value, commands, doc) FLAG_##ID,
#include "tools/tilec/flags.def"
#undef FLAG
#undef GROUP
    FLAG_COUNT
} FlagId;

typedef enum FlagForm { FORM_NONE, FORM_VALUE, FORM_SHORT, FORM_JOINED, FORM_OPTIONAL } FlagForm;

typedef struct FlagInfo {
    const char *spelling;
    FlagForm form;
    const char *value;
    unsigned commands;
    const char *doc;
} FlagInfo;
extern const FlagInfo flag_info[FLAG_COUNT];

typedef VEC(const char *) Strings;

/* A parsed command line. A flag's values stand in the order given ("" for flags without one). */
typedef struct Args {
    CommandId command;
    Strings flag[FLAG_COUNT];
    Strings inputs;
} Args;

typedef struct CommandInfo {
    const char *name;
    int (*run)(Tool *, const Args *);
    const char *synopsis, *doc;
} CommandInfo;
extern const CommandInfo command_info[CMD_COUNT];

/* Reads the command line (argv[0] left out), `@file` expanded. Returns an exit code; EXIT_OK with `args`
 * filled. */
int args_parse(Tool *, int argc, char **argv, Args *);
/* EXIT_OK if the command line names one file; else the message says what is wrong. */
int args_one_file(Tool *, const Args *);
/* EXIT_OK unless the first word is the name of no command and of no file, as in `tilec build k.tile`. */
int args_known_word(Tool *, const Args *);
/* The targets that code is compiled for: "cpu, cpu:aarch64, ..". */
const char *args_targets(Tool *);
/* Says that there is no such target, and which one may be meant. EXIT_USAGE. */
int args_no_target(Tool *, const char *name);
static inline bool args_has(const Args *a, FlagId f) { return a->flag[f].len != 0; }
/* The last value given, or `otherwise`. */
const char *args_last(const Args *, FlagId, const char *otherwise);
/* The last value as an integer in [lo, hi]; a message and false when it is none. */
bool args_int(Tool *, const Args *, FlagId, int64_t lo, int64_t hi, int64_t *value);
/* All values, comma-separated lists taken apart. */
Strings args_list(Tool *, const Args *, FlagId);
/* An integer with nothing around it (0x.. too), or false. */
bool text_to_int(const char *, int64_t *);
/* An integer of an integer type, `true` and `false` for bool; u64 above 2^63 - 1 as its bits. NULL, or what
 * is wrong with it: "no value of type u8", "out of range of u8 (0 to 255)". */
const char *text_to_integer(Arena *, const char *, DType, int64_t *);

void help_print(Tool *, CommandId, FILE *);
void help_passes(Tool *, FILE *);
void help_man(Tool *, FILE *);
void help_bash(Tool *, FILE *);

#define COMMAND(ID, name, fn, synopsis, doc) int fn(Tool *, const Args *);
#include "tools/tilec/commands.def"
#undef COMMAND
