/* bundle_parts.h: what bundle.c makes and bundle_write.c writes. */
#pragma once
#include "tools/tilec/compile/bundle.h"
#include "tools/aot/bundle.h"

/* One form of code for one target: what an image is made for. */
typedef struct Aim {
    const Target *target;
    int kind;
} Aim; /* kind: IMAGE_.. of tools/aot/bundle.h */

typedef struct MadeImage {
    Aim aim;
    const char *source, *title; /* C text; of the first variant that needs it */
    const char *entry;
    const void *bytes;
    size_t size;                /* the image; 0: it must still be made from the source */
    size_t packed;              /* the size of its compressed form, or 0: it is stored as it is */
    int stored;                 /* the image whose bytes it shares; itself for the first of equal ones */
    int registers, spill_bytes; /* -1: not known */
} MadeImage;

/* A kernel in an image; Built.entry counts these. */
typedef struct MadeEntry {
    int image;
    const Artifact *artifact;
} MadeEntry;

typedef struct Bundle {
    Input *in;
    VEC(Aim) aims; /* best first */
    VEC(MadeImage) images;
    VEC(MadeEntry) entries;
    Launchers launchers;     /* variants: those of the GPUs */
    Launchers cpu_launchers; /* those of the object for the CPU */
    const Target *cpu;       /* of the object for the CPU; NULL: none */
    const char *stem;        /* "k" of k.c, as an identifier */
} Bundle;

/* The C file; false after diagnostics. */
bool bundle_write_c(Bundle *, const char *header, Text *);
void bundle_write_manifest(Bundle *, Text *);
