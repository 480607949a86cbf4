/* What the search asks of `require`, condition by condition and of the few constants that each one needs, is
 * what the whole condition says of whole configurations: for operators that decide early, divide by zero or
 * wrap, optional tensors, hints, and constants whose defaults name each other. */
#define _GNU_SOURCE
#include "bench/gpu/open.h"
#include "runtime/choice/search/search_points.h"
#include "tests/unit/unit.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Constants, each of which names all before it: paths through them double with each one. */
enum { CONSTANTS = 28 };

static const char *const conditions[] = {
    "A % B == 0 && (C == 0 || A / C > 8)",
    "(C != 0 && A / C > 8) || warps == 4",
    "C == 0 ? B > 16 : A / C < B",
    "!(A > B) && (FL || stages >= 2)",
    "has(X) ? A > 16 : (B > 16 && warps * 32 < A + B)",
    "E < 17 && F >= C",
    "((A << 3) ^ B) % 7 < (C | 1) + warps",
    "D == 1 && (E - F) * K2 < B * 8",
    "LAST % 3 == 0 || A == B",
};

static void write_kernel(const char *path, const char *condition)
{
    FILE *f = fopen(path, "w");
    if (!f) exit(2);
    fputs(
        "const int K2 = 12;\nkernel k(in f16 S[M, N], out f16 Y[M, N], in f16 X[M]?, const int A = 16,\n"
        "    const int B = 16, const int C = 2, const int E = A + C, const int F = E % 5, const int D = 1,\n"
        "    const bool FL = has(X) && F > 2",
        f);
    for (int k = 0; k <= CONSTANTS; k++) {
        if (k < CONSTANTS) fprintf(f, ",\n    const int c%d = (A / 16", k);
        else fputs(",\n    const int LAST = (B / 16", f);
        for (int j = 0; j < k; j++) fprintf(f, " + c%d", j);
        fputs(") & 7", f);
    }
    fprintf(f,
        ")\n    grid (cdiv(M, A), cdiv(N, B))\n{\n    let (i, j) = program_id();\n"
        "    store(Y[i*A +: A, j*B +: B], load(S[i*A +: A, j*B +: B]));\n}\n"
        "tune k { A in {16, 32, 64}; B in {16, 64, 128}; C in {0, 1, 2, 5}; E in {3, 40};\n"
        "    warps in {1, 2, 4}; stages in {1, 2, 3}; require (%s); }\n",
        condition);
    if (fclose(f)) exit(2);
}

/* Goes through all points; *allowed: how many the condition allows. Returns in how many answers differ. */
static int differing(Search *z, int *all, int *allowed)
{
    const int terms = z->n_terms;
    int bad = 0;
    SearchPoint p = { 0 };
    *all = *allowed = 0;
    for (int i = 0; i < z->n_names;) {
        z->n_terms = terms;
        const bool said = search_allowed(z, &p);
        z->n_terms = 0; /* the whole condition is asked then */
        const bool holds = search_allowed(z, &p);
        bad += said != holds;
        *all += 1;
        *allowed += holds;
        for (i = 0; i < z->n_names && ++p.at[i] == z->name[i].n; i++) p.at[i] = 0;
    }
    return bad;
}

static void compare(const char *condition, char *const *words, int n_words)
{
    char path[] = "require-XXXXXX.tile";
    Problem p;
    ProblemView v;
    Session s;
    int file = mkstemps(path, 5), all, allowed;
    if (file < 0 || close(file)) exit(2);
    write_kernel(path, condition);
    session_init(&s, allocator_libc);
    s.error_limit = INT_MAX;
    if (setjmp(s.oom)) exit(2);
    CU_ASSERT_FATAL(problem_open(&p, path, "k", "cuda:sm_90a", n_words, words) && problem_view(&p, &s, &v));
    CompileOptions options = compile_options_default(p.device.target);
    const SearchProblem q = problem_search(&v, &options);
    Search *z = arena_new(&s.arena, Search);
    *z = (Search){ .p = &q, .s = &s, .ast = v.ast, .tune = v.tune, .front = v.kernel };
    search_add_names(z);
    CU_ASSERT(z->n_terms > 0);
    CU_ASSERT_EQUAL(differing(z, &all, &allowed), 0);
    CU_ASSERT(0 < allowed && allowed < all);
    session_free(&s);
    problem_close(&p);
    unlink(path);
}

static void test_conditions(void)
{
    static char *const absent[] = { "M=640", "N=333", "X=false" }, *const given[] = { "M=640", "N=333",
        "X=true", "D=1" };
    for (size_t k = 0; k < sizeof conditions / sizeof *conditions; k++) {
        compare(conditions[k], absent, 3);
        compare(conditions[k], given, 4);
    }
}

UNIT_MAIN("require", { "conditions", test_conditions })
