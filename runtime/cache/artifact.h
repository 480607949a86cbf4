/* artifact.h: a compiled kernel as plain bytes: header, checksum, payload. Any byte string is safe to read.
 */
#pragma once
#include "runtime/compile/compile.h"

/* Writes the bytes of `c` to the session's arena. */
void artifact_write(Session *, const Compiled *c, const void **bytes, size_t *size);
/* Reads an artifact. Everything in *out is in `arena` or in `bytes`, which must outlive it. False if the
 * bytes are not a whole artifact of this version. */
bool artifact_read(Arena *, const void *bytes, size_t size, Compiled *out);
/* Whether all indices point into the tables. artifact_read checks this; fuzzers and tests of the backends
 * check it too. */
bool compiled_valid(const Compiled *);
uint64_t artifact_checksum(const void *, size_t);
/* Adds a header and a checksum to a payload: for artifact_write, and for fuzzers, which could not guess a
 * checksum. */
void artifact_seal(Arena *, const void *payload, size_t n, const void **bytes, size_t *size);
