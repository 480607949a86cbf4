/* test_draw.c: pictures are well-formed, texts stay in their room, and a chart is what it was. */
#include "tests/unit/unit.h"
#include "tools/draw/draw.h"
#include <math.h>

static jmp_buf oom;
static Arena arena, *const a = &arena;

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word)) n++;
    return n;
}

static void test_escape(void)
{
    Text t;
    text_init(&t, a);
    draw_escape(&t, "a<b> & \"c\"\x01\x1b[0m");
    CU_ASSERT(!strcmp(t.data, "a&lt;b&gt; &amp; &quot;c&quot;[0m"));
}

/* A text that is too long is cut to its room, at whole characters, and is whole in the tip. */
static void test_fit(void)
{
    Text t;
    text_init(&t, a);
    draw_text_fit(&t, 10, 20, 60, (DrawFont){ 0 }, "Größenordnungen");
    const char *shown = strstr(t.data, "</title>");
    CU_ASSERT(shown && strstr(t.data, "<title>Größenordnungen</title>") && strstr(shown, "...</text>"));
    char cut[64] = "";
    format_text(cut, sizeof cut, "%.*s", (int)strcspn(shown + 8, "<"), shown + 8);
    CU_ASSERT(draw_text_width(cut, 12) <= 60);
    CU_ASSERT(!strncmp(cut, "Gr\xc3\xb6", 4));
    text_init(&t, a);
    text_puts(&t, "");
    draw_text_fit(&t, 10, 20, 3, (DrawFont){ 0 }, "x");
    CU_ASSERT(!t.len);
}

static void test_numbers(void)
{
    static const struct {
        double v;
        bool binary;
        const char *text;
    } cases[] = { { 0, false, "0" }, { 0.25, false, "0.25" }, { 128, true, "128" }, { 1536, true, "1536" },
        { 16384, true, "16Ki" }, { 16000, false, "16k" }, { 2.5e6, false, "2.5M" }, { -3, false, "-3" },
        { 99.96, false, "99.96" }, { 1048576, true, "1Mi" }, { (double)NAN, false, "nan" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CU_ASSERT(!strcmp(draw_number(a, cases[i].v, cases[i].binary), cases[i].text));
}

/* Points that are not there leave a gap: two lines of two points each. */
static void test_chart(void)
{
    const double x[] = { 1024, 2048, 4096, 8192, 16384 }, y[] = { 10, 20, (double)NAN, 30, 25 },
                 low[] = { 9, 18, 0, 29, 24 }, high[] = { 11, 22, 0, 40, 26 };
    const DrawSeries series[] = { { .name = "plain <1>", .x = x, .y = y, .low = low, .high = high, .n = 5 },
        { .name = "roof", .x = x, .y = high, .n = 5, .mark = DRAW_LINE, .dash = "4 3" } };
    const DrawChart chart = { .title = "attention",
        .note = "median of 5 launches",
        .x = { "N", DRAW_LOG2, 0, 0 },
        .y = { "TFLOPS", DRAW_LINEAR, 0, 0 },
        .series = series,
        .n = 2 };
    Text t;
    text_init(&t, a);
    draw_chart(&chart, &t);
    CU_ASSERT(count(t.data, "<circle") == 4 && count(t.data, "stroke-width=\"1.8\"") == 3);
    CU_ASSERT(strstr(t.data, ">16Ki</text>") && strstr(t.data, "plain &lt;1&gt;</text>"));
    CU_ASSERT(count(t.data, "<text") == count(t.data, "</text>") && strstr(t.data, "</svg>\n"));
    CU_ASSERT(!strstr(t.data, "nan") && !strstr(t.data, "inf"));
    /* No point at all: a plane without lines. */
    const double none[] = { (double)NAN };
    const DrawSeries empty = { .name = "none", .x = none, .y = none, .n = 1 };
    text_init(&t, a);
    draw_chart(&(DrawChart){ .series = &empty, .n = 1 }, &t);
    CU_ASSERT(!strstr(t.data, "<circle") && !strstr(t.data, "nan"));
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = { { "escape", test_escape }, { "fit", test_fit },
        { "numbers", test_numbers }, { "chart", test_chart } };
    if (setjmp(oom)) return 1;
    arena_init(a, allocator_libc, &oom);
    int failed = unit_run("draw", tests, sizeof tests / sizeof *tests, argc, argv);
    arena_free(a);
    return failed;
}
