/* artifact.h: a compiled kernel as plain bytes: header, checksum, payload. Any byte string is safe to read.
 */
#pragma once
#include "runtime/compile/compile.h"

/* The bytes of `c`, in the session's arena. */
void artifact_write(Session *, const Compiled *c, const void **bytes, size_t *size);
/* Everything in *out lies in `arena` or in bytes, which must outlive it. False if the bytes are not a whole
 * artifact of this version. */
bool artifact_read(Arena *, const void *bytes, size_t size, Compiled *out);
/* Do all indices point into the tables? (artifact_read has asked; fuzzers and backends' tests ask too.) */
bool compiled_valid(const Compiled *);
uint64_t artifact_checksum(const void *, size_t);
/* Header and checksum around a payload: for artifact_write, and for fuzzers, which would not guess a
 * checksum. */
void artifact_seal(Arena *, const void *payload, size_t n, const void **bytes, size_t *size);
