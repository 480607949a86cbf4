/* test_amx_permission.c: an operating system that grants AMX (`granted`) or refuses it (`refused`), for a
 * processor with AMX. It is asked once in a process, whatever the number of threads. Refused, a kernel takes
 * another unit, with a warning and a line in its schedule; granted, it takes AMX. Only the text of the code
 * is looked at, so any x86-64 machine will do. */
#include "fake_permission.h"
#include "op_kernel.h"
#include "backends/cpu/processor.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void expect(bool ok, const char *what)
{
    checks++;
    if (ok) return;
    printf("%s\n", what);
    failures++;
}

static void *ask(void *answer)
{
    *(const char **)answer = amx_permission();
    return NULL;
}

static void look(Kernel *k)
{
    const BackendOptions o = {
        .opt_level = 2, .features = "+amx-tile,+amx-bf16,+amx-int8", .emit = EMIT_ASM
    };
    CpuRun r;
    Text t;
    text_init(&t, &k->s.arena);
    if (!cpu_run_compile(&k->s, k->f, &o, &r)) {
        expect(false, "it does not compile");
        return;
    }
    diag_render_all(&k->s, &t);
    bool uses = strstr(r.artifact.data, "tdpbf16ps") != NULL,
         plans = strstr(r.artifact.schedule, "by amx-bf16") != NULL,
         says = strstr(r.artifact.schedule, "no AMX: the operating system refuses") != NULL,
         warns = strstr(t.data, "does not use AMX: the operating system refuses") != NULL;
    expect(uses == !permission_refused && plans == uses, "the unit");
    expect(says == permission_refused && warns == says, "what is said of the permission");
}

int main(int argc, char **argv)
{
    enum { N_THREADS = 8, N_VALUES = 4096 };
    static const DType types[3] = { DT_BF16, DT_BF16, DT_F32 };
    static const int64_t size[3] = { 64, 64, 64 };
    static const Scalar zeros[N_VALUES];
    const BackendOptions plain = { .opt_level = 0, .cpu = "x86-64" };
    const char *answers[N_THREADS];
    pthread_t threads[N_THREADS];
    permission_refused = argc > 1 && !strcmp(argv[1], "refused");
    for (int i = 0; i < N_THREADS; i++)
        if (pthread_create(&threads[i], NULL, ask, &answers[i])) return 1;
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        expect((answers[i] != NULL) == permission_refused, "the answer");
    }
    for (int twice = 0; twice < 2; twice++) {
        Kernel kernel, *k = &kernel;
        kernel_begin(k);
        kernel_only = &plain;
        if (!setjmp(k->s.oom)) {
            kernel_product(k, types, size, 0, zeros, zeros, zeros, N_VALUES);
            look(k);
        }
        kernel_end(k);
    }
    expect(permission_asked == 1, "the operating system is not asked exactly once");
    printf("%d checks, %d failures\n", checks, failures);
    return failures || !checks;
}
