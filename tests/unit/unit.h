/* unit.h: a CUnit program in one line. Link with `cunit`.
 *
 *     static void test_add(void) { CU_ASSERT_EQUAL(1 + 1, 2); }
 *     UNIT_MAIN("arithmetic", {"add", test_add}, {"sub", test_sub})
 *
 * Exit status 0 when every assertion held, 1 otherwise. With arguments, only the tests named by them run. */
#pragma once
#include <CUnit/Basic.h>
#include <stdio.h>
#include <string.h>

typedef struct UnitTest {
    const char *name;
    void (*run)(void);
} UnitTest;

static inline int unit_run(const char *suite_name, const UnitTest *tests, int n, int argc, char **argv)
{
    if (CU_initialize_registry() != CUE_SUCCESS) return 1;
    CU_pSuite suite = CU_add_suite(suite_name, NULL, NULL);
    int added = 0;
    for (int i = 0; suite && i < n; i++) {
        int wanted = argc < 2;
        for (int a = 1; a < argc; a++) wanted |= strcmp(argv[a], tests[i].name) == 0;
        if (wanted && CU_add_test(suite, tests[i].name, tests[i].run)) added++;
    }
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    int failed = added == 0 || CU_get_number_of_failures() > 0 || CU_get_number_of_tests_failed() > 0;
    CU_cleanup_registry();
    return failed;
}

#define UNIT_MAIN(suite, ...) \
    int main(int argc, char **argv) \
    { \
        static const UnitTest unit_tests[] = { __VA_ARGS__ }; \
        return unit_run(suite, unit_tests, (int)(sizeof unit_tests / sizeof *unit_tests), argc, argv); \
    }
