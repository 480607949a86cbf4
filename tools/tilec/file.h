/* file.h: reading whole files, and outputs that appear only when everything succeeded. */
#pragma once
#include "tools/tilec/tool.h"

typedef struct FileText {
    char *data;
    size_t len;
} FileText; /* NUL-terminated, in the tool's arena */

/* Reads a file (`-`: standard input) of at most `limit` bytes; a message and false when it cannot. */
bool file_read(Tool *, const char *path, size_t limit, FileText *);

/* The only file of the current folder whose name ends in `ending`. NULL: there is none, or several. */
const char *file_only(Tool *, const char *ending);

/* Outputs are collected in memory and written by outputs_commit: each into a new file beside its target, and
 * only when all are complete are they renamed into place. A run that fails leaves what was there before. */
typedef struct Output {
    const char *path, *target, *temporary;
    const void *data;
    size_t len;
    bool keeps_mode; /* the permissions of the file that it replaces stay */
} Output;            /* target: the file that path names */
typedef struct Outputs {
    VEC(Output) list;
} Outputs;

/* `data` is not copied. `-` is standard output; devices and pipes are written to in place. */
void outputs_add(Tool *, Outputs *, const char *path, const void *data, size_t len);
/* False, after a message, if one of them would replace `input`. */
bool outputs_spare(Tool *, const Outputs *, const char *input);
/* EXIT_OK, or EXIT_INPUT after a message. */
int outputs_commit(Tool *, Outputs *);
