/* check.h: libclang reads an emission, in process, as the vendor's compiler would: syntax, names, types, the
 * constraints of inline assembly. It needs no SDK and no GPU; what only the assembler or the chip knows (PTX,
 * ISA) it does not see. libclang is opened with dlopen: nothing depends on it. */
#pragma once
#include "ir/ir.h"
#include "ir/target.h"

typedef struct EmissionChecker EmissionChecker;

/* In the session's memory. `library` NULL: searched (libclang 15 or later). NULL with a reason in *why when
 * there is none. It is not unloaded: LLVM takes 30 ms to load, and more than one checker at a time is fine.
 */
EmissionChecker *emission_checker(Session *, const char *library, const char **why);
/* Major version of that libclang, 0 when it does not say. Those before EMISSION_VERSION do not know all
 * targets and builtins that emissions use: what they complain about need not be wrong. */
enum { EMISSION_VERSION = 22 };
int emission_checker_version(const EmissionChecker *);
/* True when the text has no fault; else each is an error at its line of the .tile file (where #line says so),
 * with the emitted line as a note. */
bool emission_check(
    EmissionChecker *, Session *, const Target *, const char *text, size_t size, const char *name);
