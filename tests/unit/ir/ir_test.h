/* ir_test.h: a session and a module from text, for the unit tests of ir/. */
#pragma once
#include "ir/ir.h"
#include "tests/unit/unit.h"
#include <stdlib.h>

/* Parses and verifies; ends the test program with the diagnostics when it cannot. */
static inline Module *ir_test_module(Session *s, const char *text)
{
    session_init(s, allocator_libc);
    if (setjmp(s->oom)) {
        fprintf(stderr, "left through session.oom\n");
        exit(2);
    }
    Module *m = ir_parse(s, diag_add_source(s, "test.ir", NULL, text, strlen(text)));
    if (m && ir_verify(m)) return m;
    Text out;
    text_init(&out, &s->arena);
    diag_render_all(s, &out);
    fprintf(stderr, "%s", out.data);
    exit(2);
}

static inline const char *ir_test_diags(Session *s)
{
    Text out;
    text_init(&out, &s->arena);
    text_puts(&out, "");
    diag_render_all(s, &out);
    return out.data;
}
