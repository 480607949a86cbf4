/* tune.h: tuning tables. `tilec tune` writes them, a module loads one, a launch looks its key up; nothing
 * here measures.
 *
 *     { "format": "tile-tune-1",
 *       "entries": [
 *         { "kernel": "gemm", "target": "cuda:sm_90a", "key": { "M": 4096, "N": 4096, "K": 4096, "T": "f16"
 *             },
 *           "config": { "TM": 128, "TN": 256, "occupancy": 1 }, "ms": 0.21 } ] }
 *
 * A launch considers the entries for its kernel and target whose consts equal the kernel's (types must have
 * the same size), and takes the nearest. The distance is the sum of |log2(ours / the entry's)| over the
 * numbers of the key; an eighth for each factor of two up to 16 that divides only one of them, since code
 * depends on what divides an extent; a quarter for each type that is another one; and a half for another
 * device. Without an entry, choose.c chooses. An entry with "promises" was chosen and not measured: it
 * applies to one launch alone, and comes before the others. */
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
