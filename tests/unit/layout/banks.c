/* Wavefronts of accesses to shared memory, counted word by word, and where a swizzle moves whole units. */
#include "common.h"
#include "ir/layout/layout_priv.h"

static void test_wavefronts(void)
{
    uint32_t a[32];
    for (int i = 0; i < 32; i++) a[i] = 4 * (uint32_t)i;
    CU_ASSERT_EQUAL(layout_wavefronts(a, 32, 4), 1);
    for (int i = 0; i < 32; i++) a[i] = 128 * (uint32_t)i;
    CU_ASSERT_EQUAL(layout_wavefronts(a, 32, 4), 32);
    for (int i = 0; i < 32; i++) a[i] = 64; /* broadcast */
    CU_ASSERT_EQUAL(layout_wavefronts(a, 32, 4), 1);
    for (int i = 0; i < 32; i++) a[i] = 2 * (uint32_t)i; /* two lanes a word */
    CU_ASSERT_EQUAL(layout_wavefronts(a, 32, 2), 1);
    for (int i = 0; i < 32; i++) a[i] = 8 * (uint32_t)i;
    CU_ASSERT_EQUAL(layout_wavefronts(a, 32, 8), 2);
    CU_ASSERT_EQUAL(layout_wavefronts(a, 32, 4), 2);
    for (int i = 0; i < 32; i++) a[i] = 16 * (uint32_t)i;
    CU_ASSERT_EQUAL(layout_wavefronts(a, 32, 16), 4);
    for (int i = 0; i < 32; i++) a[i] = 128 * (uint32_t)i;
    CU_ASSERT_EQUAL(layout_wavefronts(a, 32, 16), 32);
    for (int i = 0; i < 32; i++) a[i] = 144 * (uint32_t)i; /* 16 bytes of padding a row */
    CU_ASSERT_EQUAL(layout_wavefronts(a, 32, 16), 4);
    for (int i = 0; i < 32; i++) a[i] = i & 1 ? UINT32_MAX : 128 * (uint32_t)i;
    CU_ASSERT_EQUAL(layout_wavefronts(a, 32, 4), 16);
}

/* Wavefronts counted by words, whatever the vectors' alignment. */
static uint32_t wavefronts_by_words(const uint32_t *addr, uint32_t width)
{
    uint32_t group = 128 / width, all = 0;
    for (uint32_t first = 0; first < 32; first += group) {
        uint32_t most = 0;
        for (uint32_t bank = 0; bank < 32; bank++) {
            uint32_t seen[128], n = 0;
            for (uint32_t i = first * (width / 4); i < (first + group) * (width / 4); i++) {
                uint32_t word = addr[i / (width / 4)] / 4 + i % (width / 4), k = 0;
                if (word % 32 != bank) continue;
                while (k < n && seen[k] != word) k++;
                if (k == n) seen[n++] = word;
            }
            if (n > most) most = n;
        }
        all += most;
    }
    return all;
}

static void test_wavefronts_of_vectors(void)
{
    uint32_t a[32], seed = 7;
    for (int round = 0; round < 400; round++) {
        uint32_t width = 4u << round % 3, grain = round % 5 ? width : 4;
        for (int i = 0; i < 32; i++) {
            seed = seed * 1664525u + 1013904223u;
            a[i] = (seed >> 20) / grain * grain;
        }
        CU_ASSERT_EQUAL(layout_wavefronts(a, 32, width), wavefronts_by_words(a, width));
    }
}

/* A swizzle of units of `unit` bytes, drawn at random; none now and then. */
static LayoutShared drawn_swizzle(uint32_t unit, uint32_t *seed)
{
    LayoutShared s = { .nxor = (uint8_t)(*seed >> 8 & 3),
        .xor_base = (uint8_t)(__builtin_ctz(unit) + (*seed & 1)) };
    uint32_t base = (uint32_t)s.xor_base + s.nxor;
    for (int i = 0; i < s.nxor; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        s.xor_[i] = ((*seed >> 16 & 15) + 1) << base;
    }
    return s;
}

/* Units of addresses, half of which the bits of a lane's number decide one by one, and some at no multiples
 * of the size; swizzled, and all of them moved on before. */
static void test_wavefronts_of_units(void)
{
    for (uint32_t round = 0, seed = 11, a[64], known = 0; round < 6000; round++) {
        uint32_t width = 1u << round % 5, lanes = round % 7 ? 32 : 64, unit = width < 4 ? 4 : width, n = 0,
                 stays = 0, grain = round % 11 ? width : 4, more = round % 13 ? (round & 6) * unit : 2;
        for (uint32_t i = 0; i < lanes; i++) {
            seed = seed * 1664525u + 1013904223u;
            bool of_bits = round % 2 && i & (i - 1);
            a[i] = of_bits ? a[i & (i - 1)] ^ a[i & -i] ^ a[0] : (seed >> 21) / grain * grain;
            if (round % 6 == 4 && i % 5 == 3) a[i] = UINT32_MAX;
        }
        LayoutShared s = drawn_swizzle(unit, &seed);
        LayoutTerms t = { .base = s.nxor ? s.xor_base : 31 };
        LayoutUnits u;
        t.n = layout_shared_terms(&s, t.shift, t.mask);
        memcpy(u.of, a, lanes * sizeof *a);
        u.lanes = lanes;
        layout_units(&u, width);
        bool is_known = layout_units_wavefronts(&u, &t, more, &n);
        known += is_known;
        CU_ASSERT(is_known || grain < width || more % unit);
        for (uint32_t i = 0; i < lanes; i++)
            if (a[i] != UINT32_MAX) a[i] = layout_shared_swizzled_offset(&s, a[i] + more);
        CU_ASSERT(!is_known || n == layout_wavefronts(a, lanes, width));
        bool moves =
            is_known && layout_units_move(&u, &t, more) && layout_units_wavefronts(&u, &t, 0, &stays);
        CU_ASSERT(!moves || n == stays);
        CU_ASSERT(round + 1 < 6000 || known > 4000);
    }
}

int main(int argc, char **argv)
{
    arena_start();
    static const UnitTest tests[] = { { "wavefronts", test_wavefronts },
        { "vectors", test_wavefronts_of_vectors }, { "units", test_wavefronts_of_units } };
    int status = unit_run("layout banks", tests, sizeof tests / sizeof *tests, argc, argv);
    arena_free(&arena);
    return status;
}
