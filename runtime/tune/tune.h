/* tune.h: tuning tables. `tilec tune` writes them, a module loads one, a launch looks its key up; nothing
 * here measures.
 *
 *     { "format": "tile-tune-1",
 *       "entries": [
 *         { "kernel": "gemm", "target": "cuda:sm_90a", "key": { "M": 4096, "N": 4096, "K": 4096, "T": "f16"
 *             },
 *           "config": { "TM": 128, "TN": 256, "occupancy": 1 }, "ms": 0.21 } ] }
 *
 * Of the entries for the kernel and target whose consts equal the kernel's (types: of the same size, a
 * quarter further off if another), the nearest wins: least sum over the numbers of the key of |log2(ours /
 * the entry's)|, and an eighth for each factor of two up to 16 that one of them has and the other lacks,
 * since code depends on what divides an extent; an entry of another device counts as a half further off.
 * Without one the defaults of choose.c hold. An entry with "promises" was chosen and not measured: it speaks
 * for one launch alone, and before the others. */
#pragma once
#include "frontend/frontend.h"

typedef struct TuneItem {
    const char *name;
    FrontValue value;
} TuneItem;
typedef struct TuneEntry {
    const char *kernel, *target;
    /* The name of the device, "" when it is not known; the remarks of the tuner about it. */
    const char *device, *note;
    const TuneItem *key, *config;
    int n_key, n_config;
    double ms;            /* 0: not told */
    const char *promises; /* "", or the key of the only launch that it speaks for (write_choices.c) */
} TuneEntry;
typedef struct TuneFile {
    const TuneEntry *entries;
    int n;
} TuneFile;

bool tune_same_value(const FrontValue *, const FrontValue *);

/* Reads a table; strings and arrays in the session's arena. False after a diagnostic with the place in the
 * text. */
bool tune_parse(Session *, uint32_t file, TuneFile *out);
