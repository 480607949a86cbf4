/* A second card is data alone: a made-up model is compiled in here, and estimates follow its figures. */
#include "runtime/choice/cost.h"
#include <CUnit/Basic.h>
#include <math.h>

static const DeviceModel models[] = {
#include "tests/choice/made_up.inc"
};
enum { H100, MADE_UP };

static double estimate(const Cost *c, int model, Bound *bound)
{
    const Target *t = target_find("cuda:sm_90a");
    CostDevice d = { &models[model], t, t->n_sms, t->l2_bytes };
    return cost_estimate(c, &d, bound);
}

/* Rows that stream through: 2^15 programs of 16 KB. */
static Cost rows(void)
{
    Cost c = { .in = 8192, .out = 8192, .alu = 8192, .turns = 1, .programs = 1 << 15, .groups = 1 << 15 };
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
        .turns = 64,
        .programs = 512,
        .groups = 512 };
    c.feed = 4096 * 384 * 2;
    c.memory = c.unique = 1e8;
    c.heaviest = 1;
    c.threads = 384;
    c.registers = 168;
    c.room = 240;
    c.held = c.words = 128;
    c.slots = 4;
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

/* All of the registry's models: named, found by their targets, finite. */
static void compiled_in(void)
{
    for (size_t i = 0; device_model_at(i); i++) {
        const DeviceModel *m = device_model_at(i);
        CU_ASSERT_PTR_EQUAL(device_model_find(m->name), m);
#define FIELD(name, unit, meaning) CU_ASSERT(isfinite(m->name) && m->name >= 0);
#include "runtime/choice/device_model.def"
    }
    CU_ASSERT_PTR_NULL(device_model_find("made_up"));
    CU_ASSERT_PTR_NULL(device_model(target_find("cpu")));
    CU_ASSERT_STRING_EQUAL(device_model(target_find("cuda:sm_90a"))->name, "h100");
    CU_ASSERT_STRING_EQUAL(device_model(target_find("cuda:sm_90"))->name, "h100_portable");
    CU_ASSERT_STRING_EQUAL(device_model(target_find("cuda:sm_100a"))->name, "b200");
}

int main(void)
{
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("made_up", NULL, NULL);
    CU_add_test(s, "memory bound", memory_bound);
    CU_add_test(s, "matrix bound", matrix_bound);
    CU_add_test(s, "compiled in", compiled_in);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    int failed = (int)CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed > 0;
}
