/* fuzz_tune.c: any text as a tuning table: refused with one diagnostic, or entries that can be read. */
#include "runtime/tune/tune.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Session s;
    TuneFile t;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) abort();
    bool ok = tune_parse(&s, diag_add_source(&s, "fuzz.tune", NULL, (const char *)data, size), &t);
    if (ok != (s.n_errors == 0) || s.n_errors > 1) abort();
    size_t total = 0;
    for (int i = 0; i < t.n && ok; i++) {
        total += strlen(t.entries[i].kernel) + strlen(t.entries[i].target);
        for (int k = 0; k < t.entries[i].n_key; k++) total += strlen(t.entries[i].key[k].name);
        for (int k = 0; k < t.entries[i].n_config; k++) total += strlen(t.entries[i].config[k].name);
    }
    if (total > size) abort();
    session_free(&s);
    return 0;
}
