/* fuzz_device.c: any text as a device file: refused with one diagnostic, or a device whose caches are whole
 * sets and whose rates are numbers. */
#include "passes/sim/sim.h"
#include <math.h>
#include <stdlib.h>

static bool whole(int64_t bytes, int64_t ways, int64_t line)
{ return bytes >= 0 && ways > 0 && line > 0 && bytes % (ways * line) == 0; }
static bool rate(double x) { return isfinite(x) && x >= 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Session s;
    SimDevice d;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) abort();
    bool ok = sim_device_parse(&s, diag_add_source(&s, "fuzz.device", NULL, (const char *)data, size), &d);
    if (ok != (s.n_errors == 0) || s.n_errors > 1) abort();
    if (ok && (!d.name || d.chiplets < 1 || d.units < 1 || !whole(d.l1_bytes, d.l1_ways, d.line) ||
                  !whole(d.l2_bytes, d.l2_ways, d.line) || !whole(d.llc_bytes, d.llc_ways, d.line) ||
                  !rate(d.l2_tbs) || !rate(d.llc_tbs) || !rate(d.memory_tbs) || !rate(d.tflops_16)))
        abort();
    Text t;
    text_init(&t, &s.arena);
    diag_render_all(&s, &t);
    session_free(&s);
    return 0;
}
