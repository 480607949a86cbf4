/* The record of a launch's accesses: views of any strides, orders of atomics, what lies beyond the limits. */
#include "ir/interp/faults.h"
#include "ir_test.h"

static float memory[64];

/* Fills text with the warnings of a launch of `programs` programs. */
static void report(Faults *f, int64_t programs, char *text, size_t size)
{
    Session s;
    Text out;
    FaultGrid grid = { .rank = 1, .extent = { programs, 1, 1 } };
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) abort();
    faults_report(f, &grid, &s);
    text_init(&out, &s.arena);
    diag_render_all(&s, &out);
    snprintf(text, size, "%s", out.data ? out.data : "");
    session_free(&s);
    faults_free(f);
}

static FaultTensor view(int64_t m, int64_t n, int64_t sm, int64_t sn, float *data)
{
    return (FaultTensor){ .name = "Y",
        .followed = true,
        .out = true,
        .dtype = DT_F32,
        .rank = 2,
        .shape = { m, n },
        .stride = { sm, sn },
        .data = data };
}

static const AccessSite store_site = { .kind = ACCESS_STORE },
                        read_site = { .index = 1, .kind = ACCESS_READ },
                        acquire = { .index = 2, .kind = ACCESS_ATOMIC, .order = SEM_ACQUIRE },
                        release = { .index = 3, .kind = ACCESS_ATOMIC, .order = SEM_RELEASE };

/* Columns of a larger matrix, and one with its rows in reverse: gaps in memory are no elements. */
static void test_views(void)
{
    char text[1000];
    for (int reverse = 0; reverse < 2; reverse++) {
        float *data = memory + (reverse ? 24 : 0);
        int64_t row = reverse ? -8 : 8;
        FaultTensor y = view(4, 3, row, 2, data);
        Faults *f = faults_new(&y, 1, 4);
        AccessWindow w = { .base = (char *)data, .rank = 2, .stride = { 4 * row, 8 }, .hi = { 4, 2 } };
        faults_sink(f)->window(faults_sink(f), &store_site, 1, &w);
        faults_sink(f)->element(faults_sink(f), &store_site, 3, data + 2 * row + 2);
        report(f, 4, text, sizeof text);
        CU_ASSERT_STRING_EQUAL(text, "warning: 33.33% of Y never stored: 4 of 12 elements, Y[:, 2]\n"
                                     "warning: program 1 and program 3 both store Y[2, 1]\n");
    }
}

/* A reader before and after the program that stores; two readers, of which one stores itself. */
static void test_readers(void)
{
    char text[1000];
    for (int first = 0; first < 2; first++) {
        FaultTensor y = view(1, 1, 1, 1, memory);
        Faults *f = faults_new(&y, 1, 8);
        AccessSink *s = faults_sink(f);
        if (first) s->element(s, &store_site, 5, memory);
        s->element(s, &read_site, 5, memory);
        s->element(s, &read_site, 6, memory);
        if (!first) s->element(s, &store_site, 5, memory);
        report(f, 8, text, sizeof text);
        CU_ASSERT_PTR_NOT_NULL(strstr(text, "warning: program 6 reads Y[0, 0], which program 5 stores\n"));
    }
    FaultTensor y = view(1, 1, 1, 1, memory);
    Faults *f = faults_new(&y, 1, 8);
    AccessSink *s = faults_sink(f);
    s->element(s, &store_site, 5, memory);
    s->element(s, &release, 5, memory);
    s->element(s, &acquire, 6, memory);
    s->element(s, &read_site, 6, memory);
    s->element(s, &store_site, 6, memory);
    report(f, 8, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "");
}

/* What is not followed is said. */
static void test_limits(void)
{
    char text[1000];
    FaultTensor y = view(2, 1, FAULTS_MOST_CELLS, 1, memory);
    Faults *f = faults_new(&y, 1, 2);
    faults_sink(f)->element(faults_sink(f), &store_site, 0, memory);
    report(f, 2, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text,
        "warning: which programs store elements of Y is not followed: the tensors span more than 33554432 "
        "elements, or more than 67108864 programs run\n"
        "warning: 50% of Y never stored: 1 of 2 elements, Y[1, :]\n");
    y = view(2, 1, FAULTS_MOST_BITS, 1, memory);
    report(faults_new(&y, 1, 2), 2, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text,
        "warning: which elements of Y are stored is not followed: the tensors span more than 8589934592 "
        "elements\n");
    y = view(2, 2, INT64_MAX, 1, memory);
    report(faults_new(&y, 1, 2), 2, text, sizeof text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "is not followed"));
    y = view(1, 1, 1, 1, memory);
    report(faults_new(&y, 1, FAULTS_MOST_PROGRAMS + 1), FAULTS_MOST_PROGRAMS + 1, text, sizeof text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "which programs store elements of Y is not followed"));
}

UNIT_MAIN("ir_faults", { "views", test_views }, { "readers", test_readers }, { "limits", test_limits })
