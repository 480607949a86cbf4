/* A session that is renewed: what it kept stays, with the tables of texts and types as they were, and what
 * came later is gone, however much it was; and what its arena hands out. One that shares what another has
 * gives the same texts and sources, and keeps to itself what it adds. */
#include "ir/type.h"
#include "ir_test.h"

static int n_deferred;
static void deferred(void *p) { n_deferred += p != NULL; }

static const char *text_of(Session *s, const char *prefix, int i)
{
    char text[40];
    format_text(text, sizeof text, "%s%d", prefix, i);
    return session_intern(s, text, strlen(text));
}

/* Enough texts, types, sources and deferred calls for every table to grow. */
static void fill(Session *s, const char *prefix, int n)
{
    for (int i = 0; i < n; i++) {
        CU_ASSERT_PTR_EQUAL(text_of(s, prefix, i), text_of(s, prefix, i));
        type_tile(s, DT_F32, 1, (int64_t[]){ i + 1 });
        session_defer(s, deferred, s);
        diag_add_source(s, text_of(s, prefix, i), NULL, "x", 1);
        memset(arena_alloc(&s->arena, 5000), 1, 5000);
    }
    diag_error(s, (Loc){ 0 }, "%s", prefix);
}

static void check(Session *s, const char *const *texts, const Type *const *types, int n)
{
    for (int i = 0; i < n; i++) {
        CU_ASSERT_PTR_EQUAL(text_of(s, "kept", i), texts[i]);
        CU_ASSERT_PTR_EQUAL(type_tile(s, DT_F32, 1, (int64_t[]){ i + 1 }), types[i]);
    }
    CU_ASSERT_STRING_EQUAL(diag_source(s, (uint32_t)n)->name, texts[n - 1]);
}

static void test_renew(void)
{
    enum { KEPT = 300, LATER = 1000 };
    static const char *texts[KEPT];
    static const Type *types[KEPT];
    Session s;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) exit(2);
    fill(&s, "kept", KEPT);
    for (int i = 0; i < KEPT; i++) {
        texts[i] = text_of(&s, "kept", i);
        types[i] = type_tile(&s, DT_F32, 1, (int64_t[]){ i + 1 });
    }
    session_keep(&s);
    for (int round = 1; round <= 3; round++) {
        check(&s, texts, types, KEPT);
        fill(&s, "later", round * LATER);
        CU_ASSERT_EQUAL(s.n_errors, 2);
        n_deferred = 0;
        session_renew(&s);
        CU_ASSERT_EQUAL(n_deferred, round * LATER);
        CU_ASSERT_EQUAL(s.n_errors, 1);
        CU_ASSERT_PTR_NULL(s.diags->next);
        CU_ASSERT_EQUAL(s.strings.len, KEPT);
        CU_ASSERT_EQUAL(s.sources.len, KEPT + 1);
    }
    check(&s, texts, types, KEPT);
    n_deferred = 0;
    session_free(&s);
    CU_ASSERT_EQUAL(n_deferred, KEPT);
}

int __asan_address_is_poisoned(const volatile void *);

/* What an arena hands out is zero and at a multiple of 16; with an address sanitizer nobody may touch what
 * lies behind it, nor the element 0 of an array of none. */
static void test_gaps(void)
{
    static const size_t sizes[] = { 0, 1, 7, 16, 24, 5000, 70000 };
    static const char zeros[70000];
    Session s;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) exit(2);
    for (size_t k = 0; k < 7 * sizeof sizes / sizeof *sizes; k++) {
        const size_t n = sizes[k % (sizeof sizes / sizeof *sizes)];
        char *p = arena_array(&s.arena, char, n);
        CU_ASSERT_EQUAL((uintptr_t)p % 16, 0);
        CU_ASSERT_EQUAL(memcmp(p, zeros, n), 0);
        memset(p, 1, n);
        if (!ARENA_GAPS) continue;
        CU_ASSERT(__asan_address_is_poisoned(p + n));
        CU_ASSERT(n == 0 || !__asan_address_is_poisoned(p + n - 1));
    }
    session_free(&s);
}

static void test_share(void)
{
    enum { SHARED = 300, LATER = 1000 };
    Session from, s;
    session_init(&from, allocator_libc);
    if (setjmp(from.oom)) exit(2);
    fill(&from, "shared", SHARED);
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) exit(2);
    CU_ASSERT_TRUE(session_share(&s, &from));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < SHARED; i++)
            CU_ASSERT_PTR_EQUAL(text_of(&s, "shared", i), text_of(&from, "shared", i));
        CU_ASSERT_STRING_EQUAL(diag_source(&s, SHARED)->name, text_of(&from, "shared", SHARED - 1));
        CU_ASSERT_EQUAL(from.strings.len, SHARED);
        CU_ASSERT_EQUAL(from.sources.len, SHARED + 1);
        if (!round) fill(&s, "later", LATER);
    }
    CU_ASSERT_FALSE(session_share(&s, &from)); /* it has names of its own */
    session_free(&s);
    CU_ASSERT_STRING_EQUAL(diag_source(&from, SHARED)->name, text_of(&from, "shared", SHARED - 1));
    session_free(&from);
}

UNIT_MAIN("session", { "renew", test_renew }, { "gaps", test_gaps }, { "share", test_share })
