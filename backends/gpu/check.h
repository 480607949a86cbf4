/* check.h: libclang reads an emission, in process, as the vendor's compiler would: syntax, names, types, the
 * constraints of inline assembly. It needs no SDK and no GPU; what only the assembler or the chip knows (PTX,
 * ISA) it does not see. libclang is opened with dlopen: nothing depends on it. */
#pragma once
#include "ir/ir.h"
#include "ir/target/target.h"

typedef struct EmissionChecker EmissionChecker;

/* Makes a checker in the session's memory. A `library` of NULL means that libclang (15 or later) is searched.
 * Returns NULL with a reason in *why when there is none. The library is never unloaded, because LLVM takes
 * noticeable time to load. There may be several checkers at a time. */
EmissionChecker *emission_checker(Session *, const char *library, const char **why);
/* The major version of that libclang, or 0 when it does not tell. Versions before EMISSION_VERSION do not
 * know all targets and builtins of emitted code, so the code that they reject may be correct. */
enum { EMISSION_VERSION = 22 };
int emission_checker_version(const EmissionChecker *);
/* Whether the text has no error. Otherwise each error is reported at its line of the .tile file (which #line
 * gives), with the emitted line as a note. */
bool emission_check(
    EmissionChecker *, Session *, const Target *, const char *text, size_t size, const char *name);
