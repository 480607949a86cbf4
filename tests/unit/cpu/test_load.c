/* test_load.c: the object loader against damaged objects: cut short at every length, bytes changed. It says
 * no or loads; it never reads or writes out of bounds (sanitizers watch) and never crashes. What it loads is
 * not run. Unknown entries have a reason. */
#include "cpu_run.h"
#include "tests/passes/example_case.h"
#include "passes/passes.h"
#include <stdio.h>
#include <stdlib.h>

static int failures;

static void try_load(const char *object, size_t size)
{
    char err[128] = "";
    CpuKernelFn *fn = NULL;
    CpuModule *m = backend_cpu.load(object, size, "softmax", &fn, err, sizeof err);
    if (m ? !fn : !err[0]) {
        printf("%zu bytes: %s\n", size, m ? "loaded without an entry" : "refused without a reason");
        failures++;
    }
    backend_cpu.unload(m);
}

static void damage(const char *object, size_t size)
{
    char *copy = aligned_alloc(64, (size + 63) & ~(size_t)63);
    for (size_t n = 0; n < size; n += 1 + n / 64) {
        char *cut = malloc(n ? n : 1); /* its end is the end of what may be read */
        memcpy(cut, object, n);
        try_load(cut, n);
        free(cut);
    }
    uint64_t seed = 7;
    for (int round = 0; round < 4000; round++) {
        memcpy(copy, object, size);
        for (int k = 0; k < 1 + round % 3; k++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            /* half of the faults go to the headers, which are at the start and the end */
            size_t at = (seed >> 33) % size;
            if (seed >> 20 & 1) at = seed >> 21 & 1 ? at % 64 : size - 1 - at % 1024 % size;
            copy[at] = (char)(seed >> 50);
        }
        try_load(copy, size);
    }
    free(copy);
}

int main(int argc, char **argv)
{
    Case c = { "softmax", "softmax", "T=f32", "M=3,N=53", "", 0 };
    size_t len = 0;
    char *text = argc > 1 ? case_read(argv[1], "softmax", &len) : NULL;
    Problem *p = calloc(1, sizeof *p);
    volatile bool ok = false;
    if (!text || !p) return 1;
    session_init(&p->s, allocator_libc);
    if (!setjmp(p->s.oom)) {
        Artifact a;
        BackendOptions o = { .opt_level = 2, .debug_info = true };
        ok = case_lower(p, &c, text, len) &&
             backend_cpu.compile(&p->s, p->module, p->func, target_find("cpu"), &o, &a);
        if (ok) {
            char err[128];
            CpuKernelFn *fn;
            ok = !backend_cpu.load(a.data, a.size, "no_such_entry", &fn, err, sizeof err) &&
                 strstr(err, "no_such_entry");
            damage(a.data, a.size);
        }
    }
    printf("%s, %d failures\n", ok ? "done" : "failed", failures);
    session_free(&p->s);
    free(p);
    free(text);
    return failures || !ok;
}
