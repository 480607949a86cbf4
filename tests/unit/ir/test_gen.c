/* Random programs: they verify, their text reads back the same, they run, twice the same, and parsed again
 * the same. */
#include "ir_test.h"
#include "tests/fuzz/gen_ir.h"

static int seen[OP_COUNT];
static void count_op(void *user, Instr *i) { seen[i->op]++; }

static void show(Session *s, const GenKernel *k)
{
    Text t;
    text_init(&t, &s->arena);
    if (k->module) ir_print(k->module, &t);
    fprintf(stderr, "%s\n%s", t.data ? t.data : "", ir_test_diags(s));
}

static void one(uint64_t seed, unsigned flags)
{
    Session s;
    GenKernel k = { 0 };
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) {
        fprintf(stderr, "seed %llu:\n%s", (unsigned long long)seed, ir_test_diags(&s));
        CU_FAIL("left through session.oom");
        session_free(&s);
        return;
    }
    gen_kernel(&s, seed, flags, &k);
    bool ok = ir_verify(k.module);
    if (!ok) {
        fprintf(stderr, "seed %llu: does not verify\n", (unsigned long long)seed);
        show(&s, &k);
    }
    CU_ASSERT_TRUE(ok);
    Text a, b;
    text_init(&a, &s.arena);
    text_init(&b, &s.arena);
    ir_print(k.module, &a);
    Module *again = ir_parse(&s, diag_add_source(&s, "printed", NULL, a.data, a.len));
    if (again) ir_print(again, &b);
    CU_ASSERT_TRUE(again && ir_verify(again) && !strcmp(a.data, b.data));
    /* with lines, it reads back to the same too */
    Text lines, c;
    text_init(&lines, &s.arena);
    text_init(&c, &s.arena);
    if (again) ir_print_with(again, IR_PRINT_LOC, &lines);
    Module *third = again ? ir_parse(&s, diag_add_source(&s, "lines", NULL, lines.data, lines.len)) : NULL;
    if (third) ir_print(third, &c);
    CU_ASSERT_TRUE(third && strstr(lines.data, "return loc(") && !strcmp(a.data, c.data));
    ir_walk(k.func->body, count_op, NULL);
    for (int r = 0; ok && again && r < 2; r++) {
        char why[200] = "";
        bool ran = interp_run(&s, k.func, k.args, k.n);
        void *first = gen_save(&s, &k);
        gen_fill(&k);
        ran &= interp_run(&s, r ? again->funcs : k.func, k.args, k.n);
        void *second = gen_save(&s, &k);
        gen_fill(&k);
        bool same = ran && gen_same(&k, first, second, why, sizeof why);
        if (!same) {
            fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, why);
            show(&s, &k);
        }
        CU_ASSERT_TRUE(same);
    }
    session_free(&s);
}

static void test_many(void)
{
    static const unsigned flags[] = { 0, GEN_POW2, GEN_ONLY_EXACT, GEN_NO_WIDE | GEN_NO_FP8,
        GEN_NO_SORT | GEN_NO_ATOMICS | GEN_NO_WHILE };
    for (uint64_t seed = 0; seed < 300; seed++) one(seed, flags[seed % 5]);
    /* Together they use every operation of tile IR except those that end a kernel, print, or call. */
    for (int op = 0; op < OP_COUNT; op++) {
        bool left_out = (op_info[op].flags & OPF_KERNEL) || op == OP_CALL || op == OP_PRINT ||
                        op == OP_ASSERT || op == OP_STRIDE;
        if (!seen[op] && !left_out) fprintf(stderr, "no random program used %s\n", op_info[op].name);
        CU_ASSERT_TRUE(seen[op] || left_out);
    }
}

UNIT_MAIN("ir_gen", { "many", test_many })
