/* headers.h: the emulators' headers, for which g++ takes seconds: compiled once by the first process that
 * needs them, and kept under a name that tells their content. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the text, the command and all headers of tests/emu in the folder of the sources. */
uint64_t headers_hash(const char *text, const char *source, const char *command);
/* Compiles a header of tests/emu. The command lacks the output's name, which it ends before; `work`: where
 * folders of a build lie; `folder`: the one to include from. */
bool headers_compile(
    const char *header, const char *command, const char *source, const char *work, char *folder, size_t size);
