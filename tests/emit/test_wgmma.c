/* test_wgmma: NVRTC, and with it ptxas, takes every product of wgmma that the compiler's table offers
 * (passes/kernel/matrix/wgmma.c): of every pair of types, with every number of columns, the left operand in
 * registers and in shared memory, operands of 16 bits as they lie and turned over, in one step and in
 * several. And none that PTX does not have is offered: integers with 40 columns.
 *
 *     test_wgmma [--no-compile] [FIRST_TYPE...]      only products whose left operand is of these types.
 *
 * --no-compile: their text is made and not compiled. Exit 77: no NVRTC. */
#include "ir/target/matrix.h"
#include "backends/gpu/prelude/prelude.h"
#include "passes/kernel/kernel.h"
#include "tests/emit/nvrtc.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static const DType types[] = { DT_F16, DT_BF16, DT_F32, DT_F8E4M3, DT_F8E5M2, DT_I8, DT_U8 };
enum { TYPES = sizeof types / sizeof *types, MOST_NAMES = 512, FORMS = 7 };

/* The forms of an instruction: what its function's name says behind the types. */
static const struct {
    const char *suffix;
    bool registers, turned, steps;
} forms[FORMS] = {
    { "ss", false, false, false },
    { "rs", true, false, false },
    { "ss_x8", false, false, true },
    { "rs_x8", true, false, true },
    { "ss_tb", false, true, false },
    { "ss_ta_tb", false, true, false },
    { "rs_tb", true, true, false },
};

typedef struct Unit {
    Session *s;
    Text code;
    const char *names[MOST_NAMES];
    size_t n;
} Unit;

static void add_product(Unit *u, DType a, DType b, int n, int form)
{
    const char *type = dtype_is_int(a) ? "i32" : "float", *in = "", *left = "a[0], in[40]", *right = "b[0]";
    if (a != b) in = arena_printf(&u->s->arena, "%s_", wgmma_type(b)->name);
    if (forms[form].steps) {
        left = "a, in[40]";
        right = "b";
    }
    if (forms[form].registers) left = "a";
    const char *name = arena_printf(&u->s->arena, "wgmma_m64n%dk%d_%s_%s%s", n, 32 / dtype_bytes(a),
        wgmma_type(a)->name, in, forms[form].suffix);
    u->names[u->n++] = name;
    text_printf(&u->code, "extern \"C\" __global__ void k%zu(%s *out, const u32 *in) {\n", u->n, type);
    text_printf(&u->code, "  %s d[%d];\n  u32 a[32], b[8];\n", type, n / 2);
    text_printf(&u->code, "  for (int i = 0; i < %d; i++) d[i] = out[i * 128 + threadIdx.x];\n", n / 2);
    text_printf(&u->code, "  for (int i = 0; i < 32; i++) a[i] = in[i];\n");
    text_printf(&u->code, "  for (int i = 0; i < 8; i++) b[i] = in[32 + i];\n");
    text_printf(&u->code, "  wgmma_fence();\n  %s(d, %s, %s, in[41], 1);\n", name, left, right);
    text_printf(&u->code, "  wgmma_commit();\n  wgmma_wait(0);\n");
    text_printf(&u->code, "  for (int i = 0; i < %d; i++) out[i * 128 + threadIdx.x] = d[i];\n}\n", n / 2);
}

static bool has_form(DType a, int n, int form)
{ return (dtype_bytes(a) == 2 || !forms[form].turned) && (!forms[form].steps || n == 64); }

/* All products of two types, in one translation unit. Without nvrtc, its text alone. */
static bool pair(const Nvrtc *nvrtc, DType a, DType b)
{
    Session s;
    session_init(&s, allocator_libc);
    volatile bool ok = false;
    if (!setjmp(s.oom)) {
        Unit u = { .s = &s };
        Text head;
        text_init(&u.code, &s.arena);
        text_init(&head, &s.arena);
        for (int n = 8; n <= 256; n += 8)
            for (int f = 0; f < FORMS; f++)
                if (wgmma_has(a, b, n) && has_form(a, n, f)) add_product(&u, a, b, n, f);
        size_t products = u.n;
        u.names[u.n++] = "wgmma_fence";
        u.names[u.n++] = "wgmma_commit";
        u.names[u.n++] = "wgmma_wait";
        gpu_prelude(&s, target_find("cuda:sm_90a"), u.names, NULL, u.n, &head);
        text_write(&head, u.code.data, u.code.len);
        char *log = NULL;
        ok = !nvrtc || nvrtc_compile(nvrtc, head.data, "sm_90a", &log);
        printf("%s: %zu products of %s and %s\n", ok ? "ok" : "FAIL", products, dtype_name(a), dtype_name(b));
        if (!ok && log) printf("%.2000s", log);
        free(log);
    } else {
        for (const Diag *d = s.diags; d; d = d->next) printf("FAIL %s\n", d->message);
    }
    session_free(&s);
    return ok;
}

int main(int argc, char **argv)
{
    Nvrtc nvrtc;
    bool ok = wgmma_has(DT_I8, DT_U8, 24) && wgmma_has(DT_F8E4M3, DT_F8E5M2, 40);
    ok &= !wgmma_has(DT_I8, DT_I8, 40) && !wgmma_has(DT_U8, DT_I8, 56);
    ok &= !wgmma_has(DT_F16, DT_BF16, 64) && !wgmma_has(DT_F64, DT_F64, 8);
    ok &= !wgmma_has(DT_F16, DT_F16, 264);
    if (!ok) printf("FAIL: the table offers what PTX does not have, or lacks what it has\n");
    bool compile = argc < 2 || strcmp(argv[1], "--no-compile") != 0;
    int first = compile ? 1 : 2;
    if (compile && !nvrtc_open(&nvrtc)) return ok ? 77 : 1;
    for (int a = 0; a < TYPES; a++) {
        bool asked = argc == first;
        for (int k = first; k < argc; k++) asked |= !strcmp(argv[k], dtype_name(types[a]));
        for (int b = 0; asked && b < TYPES; b++)
            if (wgmma_has(types[a], types[b], 8)) ok &= pair(compile ? &nvrtc : NULL, types[a], types[b]);
    }
    return !ok;
}
