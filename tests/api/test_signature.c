/* test_signature.c: the parameters of a kernel as its source declares them. */
#define _GNU_SOURCE
#include "api.h"

static tile_context *ctx;

/* Parameters as declared, before anything is bound. */
static void test_module_param(void)
{
    static const char text[] =
        "kernel k(in T X[M, 2*D], in f32 B[M]?, out U Y[M], i32 n = 3, const type T, const type U = bf16,\n"
        "         const int D = 4, const bool c = true)\n    grid (M)\n{\n"
        "    store(Y[program_id() +: 1], full([1], 0.0, U));\n}\n";
    static const struct {
        const char *name, *type;
        tile_param_kind kind;
        tile_dtype dtype;
        int rank, has_default, optional;
    } want[] = { { "X", "T", TILE_PARAM_IN, TILE_NONE, 2, 0, 0 },
        { "B", "f32", TILE_PARAM_IN, TILE_F32, 1, 0, 1 }, { "Y", "U", TILE_PARAM_OUT, TILE_NONE, 1, 0, 0 },
        { "n", "i32", TILE_PARAM_SCALAR, TILE_I32, 0, 1, 0 },
        { "T", "", TILE_PARAM_TYPE, TILE_NONE, 0, 0, 0 }, { "U", "", TILE_PARAM_TYPE, TILE_BF16, 0, 1, 0 },
        { "D", "int", TILE_PARAM_CONST, TILE_NONE, 0, 1, 0 },
        { "c", "bool", TILE_PARAM_CONST, TILE_BOOL, 0, 1, 0 } };
    tile_module *m;
    tile_param_info p = { .struct_size = sizeof p };
    fake_open(FAKE_CUDA);
    tile_context_desc cd = fake_desc("cuda", FAKE_CUDA);
    CU_ASSERT_EQUAL_FATAL(tile_context_create(&cd, &ctx), TILE_OK);
    OK(ctx, tile_module_load_memory(ctx, "k.tile", text, strlen(text), NULL, &m));
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        OK(ctx, tile_module_param(m, "k", i, &p));
        CU_ASSERT_STRING_EQUAL(p.name, want[i].name);
        CU_ASSERT_STRING_EQUAL(p.type_name, want[i].type);
        CU_ASSERT_EQUAL(p.kind, want[i].kind);
        CU_ASSERT_EQUAL(p.dtype, want[i].dtype);
        CU_ASSERT_EQUAL(p.rank, want[i].rank);
        CU_ASSERT_EQUAL(p.has_default, want[i].has_default);
        CU_ASSERT_EQUAL(p.optional, want[i].optional);
        if (i == 0) CU_ASSERT_STRING_EQUAL(p.dims[1], "2*D");
        if (i == 3) CU_ASSERT_EQUAL(p.default_value.i, 3);
    }
    CU_ASSERT_EQUAL(tile_module_param(m, "k", 8, &p), TILE_ERROR_NOT_FOUND);
    CU_ASSERT_EQUAL(tile_module_param(m, "none", 0, &p), TILE_ERROR_NOT_FOUND);
    CU_ASSERT_EQUAL(tile_module_param(m, NULL, 0, &p), TILE_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_EQUAL(tile_module_param(NULL, "k", 0, &p), TILE_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_EQUAL(tile_module_param(m, "k", 0, &(tile_param_info){ 0 }), TILE_ERROR_INVALID_ARGUMENT);
    tile_module_destroy(m);
    tile_context_destroy(ctx);
}

int main(int argc, char **argv)
{
    static const UnitTest tests[] = { { "module_param", test_module_param } };
    return unit_run("signature", tests, 1, argc, argv);
}
