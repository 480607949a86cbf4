/* load.h: what load.c and relocate.c share. */
#pragma once
#include "backends/backend.h"
#include <elf.h>

enum { STUB_BYTES = 16 };

/* Room for jumps to functions that are too far away, and for addresses. */
typedef struct Stubs {
    char *at, *used, *end;
} Stubs;

typedef struct Relocation {
    uint64_t type;
    unsigned char *where; /* the bytes to change, and the address at which they will be */
    uint64_t place, symbol;
    int64_t addend;
} Relocation;

/* The bytes that a relocation of this type changes; 0 if it changes none. */
size_t load_width(unsigned machine, uint64_t type);
/* Fills in an address. NULL, or what is wrong. `machine`: EM_X86_64 or EM_AARCH64. */
const char *load_relocate(unsigned machine, Stubs *, const Relocation *);
