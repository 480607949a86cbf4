/* Printing and parsing are inverse; malformed text is refused with a reason and never read past its end. */
#include "common.h"

static void round_trip(const Layout *l)
{
    static char text[20000], again[20000];
    const char *end, *err;
    size_t n = layout_print(l, text, sizeof text);
    CU_ASSERT_FATAL(n < sizeof text && n == strlen(text));
    const Layout *p = layout_parse(&arena, text, &end, &err);
    if (!p) printf("\n%s: %s\n", text, err);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT(layout_equal(l, p) && !*end && !err);
    layout_print(p, again, sizeof again);
    CU_ASSERT_STRING_EQUAL(text, again);
    layout_print_basis(l, text, sizeof text);
    p = layout_parse(&arena, text, &end, &err);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT(layout_equal(l, p) && !*end);
    layout_print(p, again, sizeof again);
    CU_ASSERT_STRING_EQUAL(text, again);
    char small[8];
    CU_ASSERT(layout_print(l, small, sizeof small) == layout_print(l, NULL, 0) && strlen(small) == 7);
}

static void test_round_trip(void)
{
    static const int32_t extents[] = { 96, 176, 80, 48, 64, 128, 16, 8, 1, 100 };
    for (int i = 0; i < 400; i++) {
        int32_t tile[2] = { extents[rnd(10)], extents[rnd(10)] };
        const Layout *l = random_layout(tile, rnd(2) ? 4 : 12);
        if (rnd(4) == 0) l = layout_permute(&arena, l, I(1, 0));
        if (rnd(4) == 0) l = layout_slice(&arena, l, (int)rnd(2), rnd(2));
        CU_ASSERT_PTR_NOT_NULL_FATAL(l);
        if (rnd(4) == 0 && l->cover[l->rank - 1] == 1 && layout_regs(l) * 24 <= LAYOUT_MAX_REGS)
            l = layout_broadcast(&arena, l, l->rank - 1, 24);
        round_trip(l);
    }
}

static void same(const char *text)
{
    char again[600];
    const char *end, *err;
    const Layout *l = layout_parse(&arena, text, &end, &err);
    if (!l) printf("\n%s: %s\n", text, err);
    CU_ASSERT_PTR_NOT_NULL_FATAL(l);
    layout_print(l, again, sizeof again);
    CU_ASSERT_STRING_EQUAL(text, again);
}

static void test_forms(void)
{
    same("#blocked<tile=[96,64], per=[1,8], lanes=[4,8], warps=[4,1], order=[1,0]>");
    same("#mma<m16n8k16, c, tile=[128,128], warps=[2,2]>");
    same("#mma<wgmma_k16, c, tile=[192,80], warps=[3,1]>");
    same("#slice<axis=1, keep, #mma<mfma_32x32x8, c, tile=[128,64], warps=[4,1]>>");
    same("#permute<[1,0], #mma<m16n8k32, b, tile=[64,96], warps=[1,4]>>");
    same("#layout<tile=[192,80], reg=[[0,1],[8,0],[0,8]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], "
         "warp=[[16,0],[32,0]], block=[], "
         "digits=[reg 1 5x16, warp 0 3x64]>");
    const char *end, *err;
    const Layout *a = layout_parse(&arena, "#mma<wgmma_k16, c, tile=[192,80], warps=[3,1]> rest", &end, &err);
    CU_ASSERT_FATAL(a != NULL);
    CU_ASSERT_STRING_EQUAL(end, " rest");
}

static void test_refused(void)
{
    static const struct {
        const char *text, *err;
    } rows[] = {
        { "", "layout expected" },
        { "#blocked", "layout expected" },
        { "#blocked<tile=[8,8], per=[1,1], lanes=[8,4], warps=[1,1], order=[1,1]>",
            "no such blocked layout" },
        { "#blocked<tile=[8,8], per=[1], lanes=[8,4], warps=[1,1], order=[1,0]>",
            "lists of a layout must have one number an axis" },
        { "#blocked<tile=[], per=[]", "a layout needs an axis" },
        { "#mma<m16n8k99, c, tile=[16,8], warps=[1,1]>", "no such matrix instruction" },
        { "#mma<m16n8k16, d, tile=[16,8], warps=[1,1]>", "operand a, b, c or h expected" },
        { "#mma<wgmma_k16, b, tile=[16,8], warps=[1,1]>", "no such matrix operand layout" },
        { "#mma<m16n8k16, c, tile=[16,99999999999], warps=[1,1]>", "number too large in layout" },
        { "#layout<tile=[4], reg=[[1]], lane=[], warp=[], block=[], digits=[]>",
            "the layout does not cover its tile exactly, or is too large" },
        { "#layout<tile=[4], reg=[[1]], lane=[], warp=[], block=[], digits=[reg 9 2x2]>", "no such axis" },
        { "#layout<tile=[4], reg=[[1]], lane=[], warp=[], block=[], digits=[rag 0 2x2]>",
            "reg, lane, warp or block expected" },
        { "#slice<axis=7, #mma<m16n8k16, c, tile=[16,8], warps=[1,1]>>", "no such slice" },
        { "#permute<[0], #mma<m16n8k16, c, tile=[16,8], warps=[1,1]>>", "not a permutation of the axes" },
        { "#mma<m16n8k16, c, tile=[16,8], warps=[1,1]", "malformed layout" },
        { "#slice<axis=0,#slice<axis=0,#slice<axis=0,#slice<axis=0,#slice<axis=0,#slice<axis=0,#slice<axis=0,"
          "#slice<axis=0,#slice<"
          "axis=0,"
          "#slice<axis=0,#slice<axis=0,#slice<axis=0,#slice<axis=0,#slice<axis=0,#slice<axis=0,#slice<axis=0,"
          "#slice<axis=0,",
            "layouts nested too deeply" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *end, *err = NULL;
        CU_ASSERT_PTR_NULL(layout_parse(&arena, rows[i].text, &end, &err));
        CU_ASSERT_PTR_NOT_NULL_FATAL(err);
        if (strcmp(err, rows[i].err)) printf("\n  '%s': %s, not %s\n", rows[i].text, err, rows[i].err);
        CU_ASSERT_STRING_EQUAL(err, rows[i].err);
    }
}

/* Damaged text: characters changed, removed, doubled. Whatever is accepted must print and parse again. */
static void test_damaged(void)
{
    static const char alphabet[] = "0123456789[]<>,= #xabcdeglmnoprstwy-";
    static const char *const seeds[] = {
        "#blocked<tile=[96,64], per=[1,8], lanes=[4,8], warps=[4,1], order=[1,0]>",
        "#slice<axis=1, keep, #mma<wgmma_k16, c, tile=[192,80], warps=[3,1]>>",
        "#permute<[1,0], #mma<m16n8k16, b, tile=[64,96], warps=[1,4]>>",
        "#layout<tile=[192,80], reg=[[0,1],[8,0],[0,8]], lane=[[0,2],[0,4],[1,0],[2,0],[4,0]], "
        "warp=[[16,0],[32,0]], block=[], "
        "digits=[reg 1 5x16, warp 0 3x64]>",
        "#shared<tile=[128,64], bytes=2, order=[1,0], panel=64, pitch=128, swizzle=[3,4,3]>",
    };
    int accepted = 0;
    for (int i = 0; i < 40000; i++) {
        const char *seed = seeds[rnd(5)];
        size_t n = strlen(seed);
        /* Allocated with the exact size, so that a sanitizer detects a read beyond the end. */
        char *text = malloc(n + 8);
        memcpy(text, seed, n + 1);
        for (uint32_t k = 1 + rnd(3); k; k--) {
            size_t at = rnd((uint32_t)n);
            switch (rnd(3)) {
            case 0: text[at] = alphabet[rnd(sizeof alphabet - 1)]; break;
            case 1: memmove(text + at, text + at + 1, n - at), n--; break;
            case 2:
                if (n < strlen(seed) + 4) memmove(text + at + 1, text + at, n - at + 1), n++;
                break;
            }
        }
        const char *end, *err;
        char *tight = malloc(n + 1);
        memcpy(tight, text, n + 1);
        if (seed == seeds[4]) {
            const LayoutShared *s = layout_shared_parse(&arena, tight, &end, &err);
            CU_ASSERT(s ? layout_shared_offset(s, (int32_t[8]){ 0 }) < s->bytes : err != NULL);
        } else {
            const Layout *l = layout_parse(&arena, tight, &end, &err);
            CU_ASSERT(l || err);
            if (l && accepted++ % 8 == 0) round_trip(l);
        }
        free(text), free(tight);
        if (i % 512 == 0) arena_free(&arena), arena_start();
    }
    CU_ASSERT(accepted > 100);
}

int main(int argc, char **argv)
{
    arena_start();
    static const UnitTest tests[] = { { "round trip", test_round_trip }, { "forms", test_forms },
        { "refused", test_refused }, { "damaged", test_damaged } };
    int status = unit_run("layout text", tests, (int)(sizeof tests / sizeof *tests), argc, argv);
    arena_free(&arena);
    return status;
}
