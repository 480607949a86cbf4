/* test_check.c: what libclang says of wrong emissions, at lines of the .tile file. SKIP (77) without
 * libclang. */
#include "backends/gpu/check.h"
#include "tests/unit/unit.h"
#include <stdlib.h>

static const char source[] =
    "kernel k(out f32 Y[N]) grid (N)\n{\n    let i = program_id();\n    store(Y[i], 1.0);\n}\n";

/* The diagnostics of `text`, rendered; "" when there are none. Freed by the caller. */
static char *say(const char *target, const char *text)
{
    Session s;
    char *volatile out = NULL;
    const char *why;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Text t;
        diag_add_source(&s, "k.tile", ".", source, sizeof source - 1);
        EmissionChecker *c = emission_checker(&s, getenv("TILE_LIBCLANG"), &why);
        bool good = emission_check(c, &s, target_find(target), text, strlen(text), "k.cu");
        text_init(&t, &s.arena);
        diag_render_all(&s, &t);
        CU_ASSERT_EQUAL(good, s.n_errors == 0);
        out = strdup(t.data ? t.data : "");
    }
    session_free(&s);
    return out;
}

#define SAYS(target, text, part) \
    do { \
        char *said_ = say(target, text); \
        if (!strstr(said_, part)) { \
            fprintf(stderr, "%s:%d: \"%s\" is not in:\n%s\n", __FILE__, __LINE__, part, said_); \
            CU_FAIL("text"); \
        } \
        free(said_); \
    } while (0)
#define GOOD(target, text) \
    do { \
        char *said_ = say(target, text); \
        CU_ASSERT_STRING_EQUAL(said_, ""); \
        free(said_); \
    } while (0)

#define HEAD \
    "extern \"C\" __global__ void __launch_bounds__(128, 1)\nk(float *const Y)\n{\n    const int tid = " \
    "threadIdx.x;\n#line 4 \"k.tile\"\n"

static void test_good(void)
{
    GOOD("cuda:sm_80", HEAD "    Y[blockIdx.x] = __fdiv_rn(1.0f, (float)tid);\n}\n");
    GOOD("cuda:sm_90a", HEAD "    asm volatile(\"st.global.f32 [%0], %1;\" :: \"l\"(Y), \"f\"(1.0f) : "
                             "\"memory\");\n    __syncthreads();\n}\n");
    GOOD("cuda:sm_121", HEAD "    atomicAdd(Y, expf(1.0f));\n}\n");
}

static void test_faults(void)
{
    SAYS("cuda:sm_80", HEAD "    Y[0] = missing;\n}\n",
        "k.tile:4:5: error: the code emitted for cuda:sm_80 is wrong: use of undeclared identifier "
        "'missing'\n      store(Y[i], 1.0);\n");
    SAYS("cuda:sm_80", HEAD "    Y[0] = missing;\n}\n", "note: line 6 of k.cu: Y[0] = missing;");
    SAYS("cuda:sm_90", HEAD "    Y[0] = 1.0f\n}\n",
        "k.tile:4:5: error: the code emitted for cuda:sm_90 is wrong: expected ';'");
    SAYS("cuda:sm_90", HEAD "    asm volatile(\"x %0;\" :: \"l\"(struct_t));\n}\n",
        "use of undeclared identifier 'struct_t'");
    SAYS("cuda:sm_90", HEAD "    asm volatile(\"x %0;\" :: \"Q\"(1));\n}\n",
        "invalid input constraint 'Q' in asm");
    SAYS("cuda:sm_100", HEAD "    float x; Y[0] = x;\n}\n", "variable 'x' is uninitialized");
    SAYS("cuda:sm_80", "nonsense\n",
        "error: the code emitted for cuda:sm_80 is wrong: "); /* before any #line */
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = { { "good", test_good }, { "faults", test_faults } };
    Session s;
    const char *why;
    session_init(&s, allocator_libc);
    bool have = emission_checker(&s, getenv("TILE_LIBCLANG"), &why) != NULL;
    session_free(&s);
    if (!have) {
        printf("SKIP: %s\n", why);
        return 77;
    }
    return unit_run("check", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
}
