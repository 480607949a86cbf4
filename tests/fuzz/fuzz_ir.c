/* fuzz_ir.c: any text as IR: refused with diagnostics, or a module that, once it verifies, prints to text that reads back the same. */
#include "ir/ir.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Session s;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) abort();
    Text once, twice;
    text_init(&once, &s.arena);
    text_init(&twice, &s.arena);
    Module *m = ir_parse(&s, diag_add_source(&s, "fuzz.ir", NULL, (const char *)data, size));
    if (!m && !s.n_errors) abort();
    if (m && ir_verify(m)) {
        ir_print(m, &once);
        Module *again = ir_parse(&s, diag_add_source(&s, "again.ir", NULL, once.data, once.len));
        if (!again || !ir_verify(again)) abort();
        ir_print(again, &twice);
        if (once.len != twice.len || memcmp(once.data, twice.data, once.len)) abort();
    }
    text_init(&once, &s.arena);
    diag_render_all(&s, &once);
    session_free(&s);
    return 0;
}
