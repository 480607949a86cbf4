/* test_deep.c: programs that would make a careless pass run for ever or blow up: values that double at each
 * level. Each must end at once (ctest gives the limit), with the module still valid or with a diagnostic. */
#include "passes/passes.h"
#include "tests/unit/unit.h"

static const char head[] = "kernel @deep {\n  dim N at 0:0\n  in %X.0: tensor<f32, 1>[N]\n  scalar %n.1: "
                           "index range [0.0, 1.0]\n  scalar %s.2: f32 range [0.5, 1.0]\n"
                           "  grid (%3: tensor<f32, 1>, %4: index, %5: f32) {\n    %6 = const 1 : index\n    "
                           "yield %6\n  }\n  body {\n"
                           "    %10 = const 0 : index\n    %11 = const 1 : index\n    %12 = load %X.0[%10] "
                           "{extents = [2048]} : f32[2048]\n    %13 = arange {start = 0} : index[2048]\n";

/* Parses, runs all passes; true when the module verifies afterwards. *said: the first diagnostic. */
static bool passes(Session *s, const char *text, const char **said)
{
    volatile bool ok = false;
    if (!setjmp(s->oom)) {
        Module *m = ir_parse(s, diag_add_source(s, "deep.ir", NULL, text, strlen(text)));
        PassOptions o = pass_options_default(NULL);
        o.opt_level = 3;
        o.verify_each = true;
        ok = m && ir_verify(m) && passes_run(m, &o, NULL) && ir_verify(m);
    }
    *said = s->diags ? s->diags->message : "";
    return ok;
}

static void expect_ok(Session *s, Text *t)
{
    const char *said;
    text_puts(t, "    return\n  }\n}\n");
    bool ok = passes(s, t->data, &said);
    if (!ok) puts(said);
    CU_ASSERT(ok);
    session_free(s);
}

static void begin(Session *s, Text *t)
{
    session_init(s, allocator_libc);
    if (setjmp(s->oom)) CU_FAIL_FATAL("out of memory");
    text_init(t, &s->arena);
    text_puts(t, head);
}

static void test_offsets(void)
{
    Session s;
    Text t;
    begin(&s, &t);
    text_puts(&t, "    %100 = min %n.1, %11 : index\n");
    for (int k = 100; k < 160; k++)
        text_printf(&t, "    %%%d = %s %%%d, %%%d : index\n", k + 1, k % 3 ? "add" : "min", k, k);
    text_puts(
        &t, "    %200 = load %X.0[%160] {extents = [16]} : f32[16]\n    print %200 {message = \"x\"}\n");
    for (int k = 0; k < 60; k++)
        text_printf(&t, "    %%%d = max %%%d, %%%d : index\n", 301 + k, k ? 300 + k : 160, 160 - k % 50);
    text_puts(
        &t, "    %400 = load %X.0[%360] {extents = [16]} : f32[16]\n    print %400 {message = \"x\"}\n");
    expect_ok(&s, &t);
}

static void test_maxima(void)
{
    Session s;
    Text t;
    begin(&s, &t);
    text_puts(&t, "    %100 = abs %12 : f32[2048]\n");
    for (int k = 100; k < 160; k++)
        text_printf(&t, "    %%%d = max %%%d, %%%d : f32[2048]\n", k + 1, k, k - (k > 100));
    text_puts(&t,
        "    %200 = reduce_max %160 {axis = 0} : f32[1]\n    %201 = broadcast %200 : f32[2048]\n    %202 = "
        "sub %160, %201 : f32[2048]\n    %203 = exp %202 : f32[2048]\n    print %203 {message = \"x\"}\n");
    expect_ok(&s, &t);
}

static void test_invariant_tiles(void)
{
    Session s;
    Text t;
    begin(&s, &t);
    text_puts(&t, "    for %j.90 = %10 to %n.1 step %11 {\n      %100 = add %12, %12 : f32[2048]\n");
    for (int k = 100; k < 160; k++)
        text_printf(&t, "      %%%d = add %%%d, %%%d : f32[2048]\n", k + 1, k, k - (k > 100));
    text_puts(
        &t, "      %200 = exp %160 : f32[2048]\n      print %200 {message = \"x\"}\n      yield\n    }\n");
    expect_ok(&s, &t);
}

static void test_calls(void)
{
    Session s;
    Text t;
    const char *said;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) CU_FAIL_FATAL("out of memory");
    text_init(&t, &s.arena);
    text_puts(&t, "func @f0 {\n  scalar %a.0: f32\n  result f32\n  body {\n    %1 = neg %a.0 : f32\n    "
                  "return %1\n  }\n}\n");
    for (int k = 1; k < 40; k++)
        text_printf(&t,
            "func @f%d {\n  scalar %%a.%d: f32\n  result f32\n  body {\n    %%%d = call %%a.%d {callee = "
            "\"f%d\"} : f32\n    %%%d = call %%%d {callee = \"f%d\"} : f32\n    return %%%d\n  }\n}\n",
            k, 10 * k, 10 * k + 1, 10 * k, k - 1, 10 * k + 2, 10 * k + 1, k - 1, 10 * k + 2);
    text_puts(&t, "kernel @deep {\n  scalar %s.1000: f32\n  grid (%1001: f32) {\n    %1002 = const 1 : "
                  "index\n    yield %1002\n  }\n  body {\n    %1003 = call %s.1000 {callee = \"f39\"} : "
                  "f32\n    print %1003 {message = \"x\"}\n    return\n  }\n}\n");
    CU_ASSERT_FALSE(passes(&s, t.data, &said));
    CU_ASSERT_STRING_EQUAL(said, "`deep` grows by more than 262144 instructions when its calls are expanded");
    session_free(&s);
}

static void test_recursion(void)
{
    Session s;
    const char *said;
    session_init(&s, allocator_libc);
    CU_ASSERT_FALSE(passes(&s,
        "func @f {\n  scalar %a.0: f32\n  result f32\n  body {\n    %1 = call %a.0 {callee = \"f\"} : f32\n  "
        "  return %1\n  }\n}\n"
        "kernel @deep {\n  scalar %s.2: f32\n  grid (%3: f32) {\n    %4 = const 1 : index\n    yield %4\n  "
        "}\n  body {\n    %5 = call %s.2 {callee = \"f\"} : f32\n    print %5 {message = \"x\"}\n    "
        "return\n  }\n}\n",
        &said));
    CU_ASSERT_PTR_NOT_NULL(strstr(said, "recursive"));
    session_free(&s);
}

UNIT_MAIN("deep", { "offsets", test_offsets }, { "maxima", test_maxima },
    { "invariant_tiles", test_invariant_tiles }, { "calls", test_calls }, { "recursion", test_recursion })
