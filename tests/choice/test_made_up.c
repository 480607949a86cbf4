/* A second card is data alone: a made-up model is compiled in here, and estimates and choices follow its
 * figures.
 *
 *     test_made_up GEMM.tile */
#include "bench/gpu/open.h"
#include <CUnit/Basic.h>
#include <math.h>

static const DeviceModel models[] = {
#include "tests/choice/made_up.inc"
};
enum { H100, MADE_UP };

static double estimate(const Cost *c, int model, Bound *bound)
{
    CostDevice d = device_of_target(target_find("cuda:sm_90a"));
    d.model = &models[model]; /* of both the rates alone */
    return cost_estimate(c, &d, bound);
}

/* Rows that stream through: 2^15 programs of 16 KB. */
static Cost rows(void)
{
    Cost c = {
        .in = 8192, .out = 8192, .alu = 8192, .iterations = 1, .programs = 1 << 15, .groups = 1 << 15
    };
    c.memory = c.unique = 16384.0 * c.programs;
    c.heaviest = 1;
    c.threads = 128;
    c.registers = c.room = 32;
    c.words = 16;
    c.cluster = c.loading = 1;
    return c;
}

/* Tiles of 128 x 256 of a large product. */
static Cost products(void)
{
    Cost c = { .wgmma = 128.0 * 256 * 4096,
        .in = 4096 * 384 * 2,
        .out = 65536,
        .stored = 65536,
        .iterations = 64,
        .programs = 512,
        .groups = 512 };
    c.feed = 4096 * 384 * 2;
    c.memory = c.unique = 1e8;
    c.heaviest = 1;
    c.threads = 384;
    c.registers = 168;
    c.room = 240;
    c.held = c.words = 128;
    c.stages = 4;
    c.consumers = 2;
    c.cluster = c.loading = 1;
    c.persistent = true;
    c.ring = c.shared_bytes = 196608;
    return c;
}

static void memory_bound(void)
{
    Cost c = rows();
    Bound bound[2];
    double fast = estimate(&c, H100, &bound[0]), slow = estimate(&c, MADE_UP, &bound[1]);
    CU_ASSERT_EQUAL(bound[0], BOUND_MEMORY);
    CU_ASSERT_EQUAL(bound[1], BOUND_MEMORY);
    CU_ASSERT(slow > 1.8 * fast && slow < 2.1 * fast);
}

static void matrix_bound(void)
{
    Cost c = products();
    Bound bound[2];
    double fast = estimate(&c, H100, &bound[0]), slow = estimate(&c, MADE_UP, &bound[1]);
    CU_ASSERT_EQUAL(bound[1], BOUND_PRODUCTS);
    CU_ASSERT(slow > 6 * fast && slow < 11 * fast);
}

/* An estimate of products by so many warpgroups of a CTA, by the H100's model as it is and without what one
 * warpgroup alone takes longer: the ratio of the two. */
static double alone_takes_longer(int consumers, double special, int64_t shared_bytes)
{
    Cost c = products();
    DeviceModel equal = models[H100];
    CostDevice d = device_of_model(&models[H100], target_find("cuda:sm_90a"));
    Bound bound;
    c.consumers = consumers;
    c.threads = 128 * (consumers + 1);
    c.held = c.words = 64;
    c.special = special;
    c.persistent = false;
    c.ring = (double)shared_bytes;
    c.shared_bytes = shared_bytes;
    double with = cost_estimate(&c, &d, &bound);
    equal.single_warpgroup = 1;
    d.model = &equal;
    return with / cost_estimate(&c, &d, &bound);
}

/* Only where a multiprocessor has no other warpgroup that multiplies, of its CTA or of another. */
static void one_warpgroup(void)
{
    CU_ASSERT(alone_takes_longer(1, 0, 196608) > 1.05);
    CU_ASSERT(alone_takes_longer(2, 0, 196608) == 1);
    CU_ASSERT(alone_takes_longer(1, 1, 196608) == 1); /* other arithmetic is estimated by itself */
    CU_ASSERT(alone_takes_longer(1, 0, 65536) < alone_takes_longer(1, 0, 196608));
}

static double estimate_by(const Cost *c, const DeviceModel *m)
{
    CostDevice d = device_of_model(m, target_find("cuda:sm_90a"));
    Bound bound;
    return cost_estimate(c, &d, &bound);
}

/* The programs of a multiprocessor that follow another one find its instructions in the caches; the first one
 * does not, nor does a persistent program begin again. */
static void later_rounds_begin_warm(void)
{
    Cost c = products();
    DeviceModel cold = models[H100];
    cold.begin_warm = 0;
    CU_ASSERT(estimate_by(&c, &cold) == estimate_by(&c, &models[H100]));
    c.persistent = false;
    c.memory = c.unique = 1;
    double saved = estimate_by(&c, &cold) - estimate_by(&c, &models[H100]);
    CU_ASSERT(fabs(saved - 3 * models[H100].begin_warm) < 1); /* four rounds */
    c.programs = c.groups = 132;
    CU_ASSERT(estimate_by(&c, &cold) == estimate_by(&c, &models[H100]));
}

/* A ring of two stages whose loads take longer than the work: each stage is loaded and worked on in turn,
 * which is longer than half of a load, and shorter than two loads that nothing runs beside. */
static void two_stages_wait_in_turn(void)
{
    Cost c = products();
    DeviceModel slow = models[H100];
    slow.latency = 5000;
    c.stages = 2;
    c.iterations = 64;
    c.programs = c.groups = 132;
    c.memory = c.unique = 1;
    double few = estimate_by(&c, &slow);
    c.stages = 4;
    double many = estimate_by(&c, &slow);
    CU_ASSERT(few > 64 * 2500 && few < 64 * 5000);
    CU_ASSERT(few > 1.7 * many && few < 2.3 * many);
}

/* --- what is chosen ---------------------------------------------------------------------------------- */

static const char *gemm;

/* Shared memory of the configuration that is chosen on this card for a large product; *ns: its estimate. */
static int64_t chosen_bytes(CostDevice device, double *ns)
{
    static char *const words[] = { "T=f16", "M=4096", "N=4096", "K=4096" };
    Problem p;
    ProblemView v;
    ProblemCount c;
    SearchResult r;
    Session s;
    volatile int64_t bytes = -1;
    session_init(&s, allocator_libc);
    CU_ASSERT_FATAL(problem_open(&p, gemm, "gemm", "cuda:sm_90a", 4, words));
    p.device = device;
    if (!setjmp(s.oom) && problem_view(&p, &s, &v) && problem_choose(&v, &s, &r)) {
        problem_count(&v, &s, r.config, r.n, &c);
        bytes = c.ok ? c.cost.shared_bytes : -1;
        *ns = r.ns;
    }
    session_free(&s);
    problem_close(&p);
    return bytes;
}

/* The search reads the card's row: its shared memory bounds the tiles, and its multiprocessors the time. */
static void chosen_for_the_card(void)
{
    const Target *t = target_find("cuda:sm_90a");
    double ns[3] = { 0 };
    CostDevice h100 = device_of_model(&models[H100], t), small = h100,
               card = device_of_model(&models[MADE_UP], t);
    CU_ASSERT_EQUAL(card.units, 20);
    CU_ASSERT_EQUAL(card.l2_bytes, 4 << 20);
    CU_ASSERT_EQUAL(card.shared_bytes, 99 << 10);
    small.shared_bytes = card.shared_bytes; /* the H100 but for that */
    int64_t all = chosen_bytes(h100, &ns[0]), less = chosen_bytes(small, &ns[1]),
            made_up = chosen_bytes(card, &ns[2]);
    CU_ASSERT(all > card.shared_bytes && all <= t->shared_bytes);
    CU_ASSERT(less > 0 && less <= card.shared_bytes);
    CU_ASSERT(made_up > 0 && made_up <= card.shared_bytes);
    CU_ASSERT(ns[1] > ns[0]);
    CU_ASSERT(
        ns[2] > 20 * ns[0]); /* a tenth of the matrix unit's rate, on 20 multiprocessors instead of 132 */
}

/* What a driver says of a card goes before what the models say; a card without a model of its own takes the
 * first that serves its target. */
static void what_the_driver_says(void)
{
    const Target *t = target_find("cuda:sm_90a");
    const DeviceModel *m = device_model_find("h100");
    CostDevice silent = device_of_card(t, "NVIDIA H100 80GB HBM3", 0, 0, 0),
               says = device_of_card(t, "Some Other Card", 66, 1 << 20, 64 << 10),
               more = device_of_card(t, "NVIDIA H100 80GB HBM3", 132, 0, 1 << 30);
    CU_ASSERT_PTR_EQUAL(silent.model, m);
    CU_ASSERT_EQUAL(silent.units, (int)m->multiprocessors);
    CU_ASSERT_EQUAL(silent.l2_bytes, (int64_t)m->l2_bytes);
    CU_ASSERT_PTR_EQUAL(says.model, m);
    CU_ASSERT_EQUAL(says.units, 66);
    CU_ASSERT_EQUAL(says.l2_bytes, 1 << 20);
    CU_ASSERT_EQUAL(says.shared_bytes, 64 << 10);
    CU_ASSERT_EQUAL(more.shared_bytes, t->shared_bytes); /* Code uses no more than its target allows. */
    CU_ASSERT_PTR_NULL(device_of_card(target_find("hip:gfx942"), "AMD Instinct MI300X", 304, 0, 0).model);
}

/* An H200 differs from an H100 in its memory alone, and is found by the driver's name. */
static void one_target_two_cards(void)
{
    const Target *t = target_find("cuda:sm_90a");
    CostDevice h100 = device_of_card(t, "NVIDIA H100 80GB HBM3", 0, 0, 0),
               h200 = device_of_card(t, "NVIDIA H200", 0, 0, 0);
    CU_ASSERT_STRING_EQUAL(h100.model->name, "h100");
    CU_ASSERT_STRING_EQUAL(h200.model->name, "h200");
    CU_ASSERT_STRING_EQUAL(device_of_card(t, "NVIDIA H20", 0, 0, 0).model->name, "h100"); /* another card */
    Cost streams = rows(), multiplies = products();
    Bound bound;
    double faster = cost_estimate(&streams, &h100, &bound) / cost_estimate(&streams, &h200, &bound);
    CU_ASSERT(faster > 1.25 && faster < h200.model->memory / h100.model->memory);
    faster = cost_estimate(&multiplies, &h100, &bound) / cost_estimate(&multiplies, &h200, &bound);
    CU_ASSERT(faster >= 1 && faster < 1.02);
}

/* All of the registry's models: named, found by their targets, finite. */
static void compiled_in(void)
{
    for (size_t i = 0; device_model_at(i); i++) {
        const DeviceModel *m = device_model_at(i);
        CU_ASSERT_PTR_EQUAL(device_model_find(m->name), m);
        CU_ASSERT_PTR_NOT_NULL_FATAL(device_model_target(m));
        CU_ASSERT(device_model_serves(m, device_model_target(m)));
        CU_ASSERT(m->shared_bytes <= (double)device_model_target(m)->shared_bytes);
#define CARD(name, fitted, unit, meaning) CU_ASSERT(isfinite(m->name) && m->name > 0);
#define FIELD(name, fitted, unit, meaning) CU_ASSERT(isfinite(m->name) && m->name >= 0);
#include "runtime/choice/estimate/device_model.def"
    }
    CU_ASSERT_PTR_NULL(device_model_find("made_up"));
    CU_ASSERT_STRING_EQUAL(device_model_find("NVIDIA A100-SXM4-80GB")->name, "a100");
    CU_ASSERT_PTR_NULL(device_model_find("NVIDIA A1000")); /* another card */
    CU_ASSERT_PTR_NULL(device_model(target_find("cpu")));
    CU_ASSERT_STRING_EQUAL(device_model(target_find("cuda:sm_90a"))->name, "h100");
    CU_ASSERT_STRING_EQUAL(device_model(target_find("cuda:sm_90"))->name, "h100_portable");
    CU_ASSERT_STRING_EQUAL(device_model(target_find("cuda:sm_100a"))->name, "b200");
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    gemm = argv[1];
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("made_up", NULL, NULL);
    CU_add_test(s, "memory bound", memory_bound);
    CU_add_test(s, "matrix bound", matrix_bound);
    CU_add_test(s, "one warpgroup", one_warpgroup);
    CU_add_test(s, "later rounds begin warm", later_rounds_begin_warm);
    CU_add_test(s, "two stages wait in turn", two_stages_wait_in_turn);
    CU_add_test(s, "compiled in", compiled_in);
    CU_add_test(s, "chosen for the card", chosen_for_the_card);
    CU_add_test(s, "what the driver says", what_the_driver_says);
    CU_add_test(s, "one target, two cards", one_target_two_cards);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    int failed = (int)CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed > 0;
}
