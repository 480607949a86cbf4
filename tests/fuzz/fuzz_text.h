/* fuzz_text.h: what the targets that read .tile files have in common. */
#pragma once
#include "frontend/frontend.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAX_KEYS = 16 };

/* Ends the process with the diagnostics. */
static inline void fuzz_fail(Session *s, const char *what)
{
    Text text;
    text_init(&text, &s->arena);
    diag_render_all(s, &text);
    fprintf(stderr, "%s\n%s", what, text.data ? text.data : "");
    abort();
}

/* What a target does with a text, as it was parsed. */
static void fuzz_text(Session *, Ast *, const uint8_t *text, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Session s;
    session_init(&s, allocator_libc);
    int left = setjmp(s.oom);
    if (left) fuzz_fail(&s, left == 2 ? "internal error" : "out of memory");
    uint32_t file = diag_add_source(&s, "fuzz.tile", NULL, (const char *)data, size);
    fuzz_text(&s, frontend_parse(&s, file, NULL, NULL), data, size);
    session_free(&s);
    return 0;
}

/* Binds the first MAX_KEYS consts and extents that a compile needs to the value. Returns how many. */
static inline size_t fuzz_bind(const FrontKernel *k, int64_t value, FrontBinding *out)
{
    int n = k->n_keys < MAX_KEYS ? k->n_keys : MAX_KEYS;
    for (int i = 0; i < n; i++) out[i] = (FrontBinding){ k->keys[i], { FRONT_INT, .i = value } };
    return (size_t)n;
}
