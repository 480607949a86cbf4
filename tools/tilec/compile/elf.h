/* elf.h: puts relocatable ELF objects and data together into one, as `ld -r` does, so that tilec needs no
 * linker. 64-bit, little-endian. Sections are kept apart, not merged by name; the linker does that later. */
#pragma once
#include "ir/support/arena.h"

typedef struct Elf Elf;
typedef struct ElfReloc {
    size_t offset;
    const char *symbol;
} ElfReloc; /* an address of 8 bytes */
typedef struct ElfName {
    const char *from, *to;
} ElfName;

Elf *elf_new(Arena *);
/* Adds an object's sections and symbols. Its global symbols named in `local` (NULL-terminated, or NULL)
 * become local to it. Several additions may name one undefined symbol; defining one twice is an error. NULL,
 * or what is wrong. */
const char *elf_add_object(Elf *, const void *bytes, size_t size, const char *const *local);
/* The same, with other names for some of the object's symbols; `names` ends with NULL. */
const char *elf_add_renamed(
    Elf *, const void *bytes, size_t size, const char *const *local, const ElfName *names);
/* Adds read-only data under a global symbol; with relocations it goes to .data.rel.ro. NULL, or what is
 * wrong. */
const char *elf_add_data(
    Elf *, const char *symbol, const void *bytes, size_t size, const ElfReloc *, size_t n);
/* Another global name, visible from outside of a shared library, for what `symbol` names, which must have
 * been added (it may be local). NULL, or what is wrong. */
const char *elf_add_alias(Elf *, const char *name, const char *symbol);
/* The object, in the arena; NULL: more sections than the format can number. */
const void *elf_write(Elf *, size_t *size);
