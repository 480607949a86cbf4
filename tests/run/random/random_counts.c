/* random_counts.c: random kernels that count: see random_kernel.h. Atomics on small tensors at any level of
 * loops and branches and behind early returns; programs that loop as often as memory says, each another
 * number of times; tensors without axes, optional tensors, records, bytes of rows, pairs of a function that
 * returns early, positions that are none.
 *
 * Statements are templates, in which `$` and a letter stand for something that is drawn:
 *   Q F M S   a tile of i32, f32, bool; a scalar of i32
 *   K         a key, small and at times negative;  B: a bound of a loop;  C: a condition;  D: a digit
 *   A         the atomic of a tensor, which has one kind alone, as sums of several depend on their order
 * Numbers are whole and small, so that all sums are exact. */
#include "random_head.h"
#include <stdio.h>
#include <string.h>

static const RandomTensor tensors[] = {
    { "in", "X", "N", "i32", "int:40" },
    { "in", "KEY", "N", "i32", "index:V" },
    { "in", "FLT", "N", "f32", "int:3" },
    { "in", "REC", "N,6", "i32", "int:9" },
    { "in", "BYTE", "N,R", "u8", "int:99" },
    { "in", "LEN", "P", "i32", "int:5" },
    { "in", "OFF", "P+1", "i32", "offsets:N" },
    { "in", "ONE", "", "i32", "int:4" },
    { "in", "REAL", "", "f32", "int:4" },
    { "in?", "W", "N", "f32", "int:3" },
    { "in?", "ALIVE", "N", "bool", "int:1" },
    { "in?", "LIMIT", "", "i32", "int:9" },
    { "inout", "CI", "V", "i32", "int:5" },
    { "inout", "CJ", "V,3", "i32", "int:5" },
    { "inout", "CL", "V", "i64", "int:5" },
    { "inout", "CF", "V", "f32", "int:5" },
    { "inout", "CG", "2,V", "f32", "int:5" },
    { "inout", "CU", "1", "u32", "int:5" },
    { "inout?", "SEEN", "V", "i32", "int:5" },
    { "inout", "PUT", "N", "i32", "int:5" },
    { "inout", "OWN", "P", "i32", "int:5" },
    { "inout?", "LAST", "", "i32", "int:5" },
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

enum { Q, F, M, S, KINDS };
static const char letters[KINDS + 1] = "qfms";
enum { COUNTED = 7 }; /* tensors of the atomics below, each with a kind of its own */

typedef struct Counts {
    Arranger *a;
    int depth, loops, budget, extent, n[KINDS];
    const char *rmw[COUNTED];
} Counts;

static const char *const made[KINDS][24] = {
    { "load(X[at +: E])", "load(X[at + $D +: E], pad = -1)", "load(REC[at +: E, $D])", "$Q + $Q", "$Q ^ $Q",
        "where($M, $Q, $S)", "i32($F)", "gather(X[index($K)], mask = $K >= 0)", "cumsum($Q, axis = 0)",
        "$Q % 5", "i32(load(BYTE[at +: E, $D % R]))", "$Q & 7", "low($Q)", "i32($M)", "sort($Q)",
        "sum(load(REC[at +: E, 1 +: 3]), axis = 1, drop = true)",
        "i32(max(load(BYTE[at +: E, 0 +: 4 : 2]), axis = 1, drop = true))", "$S - $Q" },
    { "load(FLT[at +: E])", "$F + $F", "$F * $F", "f32($Q % 4)", "where($M, $F, load(REAL[]))",
        "load(FLT[at - $D +: E], pad = 2.0)", "-$F", "weighted($F, W, at, E)" },
    { "$Q > $S", "$F > 0.0", "$Q % 3 == $D % 3", "$M && $K >= 0", "!$M", "at + arange(E) < N",
        "alive($M, ALIVE, at, E)" },
    { "load(ONE[])", "sum($Q, drop = true)", "load(LEN[i])", "i32(any($M, drop = true))",
        "max($Q, drop = true)", "$S + $D", "clamp($S, -9, 9)", "i32(load(REAL[]))", "limit(LIMIT, $S)",
        "sum(i32($M), drop = true)", "i32(argmax($Q, axis = 0, drop = true))", "gather(X[index($S)])" },
};

static const char *const ends[] = { "$ACI[index($K)], $Q);", "$ACI[index($K)], 1, mask = $M);",
    "$ACI[index($K)], i32($M), mask = $K != $D);", "$ACJ[index($K), $D % 3], $Q, mask = $M);",
    "$ACJ[index($K)[:, None], arange(3)[None, :]], load(REC[at +: E, 1 +: 3]));", "$ACL[index($K)], 1);",
    "$ACL[index($K)], i64($Q), mask = $M);", "$ACF[index($K)], $F);", "$ACF[index($K)], 1.0, mask = $M);",
    "$ACG[$D % 2, index($K)], $F);", "$ACG[arange(2), $D % V], 1.0);", "$ACU[0], u32($S));", "$ACU[0], 1);",
    "$ACU[arange(E) * 0], u32($Q), mask = $M);", "const if has(SEEN) { $ASEEN[index($K)], 1, mask = $M); }",
    "if i == 0 { const if has(LAST) { store(LAST[], $S); } }", "store(OWN[i], $S);",
    "store(PUT[at +: E], $Q);", "scatter(PUT[at + arange(E)], $Q, mask = $M);" };

static const char *const counted[COUNTED] = { "CI", "CJ", "CL", "CF", "CG", "CU", "SEEN" };

static void atomic(const Counts *x, const char *tensor, char *out, size_t size)
{
    int k = 0;
    while (k < COUNTED && strcmp(counted[k], tensor)) k++;
    snprintf(out, size, "atomic_%s(%s", x->rmw[k % COUNTED], counted[k % COUNTED]);
}

static const char *part(void *user, char name, char *out, size_t size)
{
    static const char kinds[] = "QFMS";
    Counts *x = user;
    Arranger *a = x->a;
    const char *kind = strchr(kinds, name);
    if (kind) snprintf(out, size, "%c%d", letters[kind - kinds], below(a, x->n[kind - kinds]));
    else switch (name) {
        case 'K':
            return CHOOSE(a, "load(KEY[at +: E])", "load(KEY[at +: E], pad = -1)", "($Q % i32(V))",
                "($Q & 3)", "abs($Q % i32(V))", "i32(arange(E) % V)", "key");
        case 'B':
            return CHOOSE(a, "0 .. 2", "0 .. 0", "0 .. index(load(LEN[i]))", "-1 .. 1", "0 .. 5 : 3",
                "index(load(OFF[i])) / 8 .. index(load(OFF[i + 1])) / 8", "i .. 3",
                "0 .. cdiv(index(load(OFF[i + 1])) - index(load(OFF[i])), E)");
        case 'C':
            return CHOOSE(a, "i % 2 == 0", "load(LEN[i]) > $D - 2", "any($M, drop = true)", "$S > $D",
                "all($M, drop = true)", "load(ONE[]) > 0", "has(W)", "load(OFF[i + 1]) > load(OFF[i])");
        default: snprintf(out, size, "%d", below(a, 5));
        }
    return NULL;
}

/* The template's text; an atomic's kind is its tensor's. */
static void expand(Counts *x, const char *template, char *out, size_t size)
{
    char text[700], op[40];
    const char *at = strstr(template, "$A");
    if (!at) {
        arrange_expand(template, part, x, out, size);
        return;
    }
    char name[8] = "";
    size_t n = 0;
    for (const char *c = at + 2; *c != '[' && n + 1 < sizeof name; c++) name[n++] = *c;
    atomic(x, name, op, sizeof op);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - template), template, op, at + 2 + n);
    arrange_expand(text, part, x, out, size);
}

static void let(Counts *x)
{
    static const char *const close[KINDS] = { "clamp(%s, -99, 99)", "clamp(%s, -8.0, 8.0)", "%s", "%s" };
    Arranger *a = x->a;
    const int kind = ONE_OF(a, Q, Q, Q, F, F, M, M, S, S);
    int count = 0;
    char e[600], whole[660];
    while (count < 24 && made[kind][count]) count++;
    expand(x, made[kind][below(a, count)], e, sizeof e);
    arrange_write(whole, sizeof whole, close[kind], e);
    if (x->depth && chance(a, 50)) /* what loops carry */
        arrange_line(a, "%c%d = %s;", letters[kind], below(a, x->n[kind]), whole);
    else if (x->n[kind] < 9) {
        arrange_line(a, "var %c%d = %s;", letters[kind], x->n[kind], whole);
        x->n[kind]++;
    }
}

static void put(Counts *x)
{
    char e[700];
    expand(x, ends[below(x->a, (int)(sizeof ends / sizeof *ends))], e, sizeof e);
    arrange_line(x->a, "%s", e);
}

static void pair(Counts *x)
{
    Arranger *a = x->a;
    char e[600];
    if (x->n[Q] > 7) return;
    expand(x,
        CHOOSE(a, "parted($Q, $S)", "parted(turned = true, n = $S, x = $Q)", "topk($Q, E)",
            "($C ? ($Q, $Q) : ($Q, $Q))"),
        e, sizeof e);
    arrange_line(a, "var (q%d, q%d) = %s;", x->n[Q], x->n[Q] + 1, e);
    x->n[Q] += 2;
}

static void statements(Counts *x, int n);

static void inside(void *user)
{
    Counts *x = user;
    int n[KINDS];
    memcpy(n, x->n, sizeof n);
    x->a->indent++;
    x->depth++;
    statements(x, 1 + below(x->a, 3));
    x->depth--;
    x->a->indent--;
    memcpy(x->n, n, sizeof n);
}

static void loop(Counts *x)
{
    char e[200];
    if (chance(x->a, 25)) {
        const int t = x->loops++;
        arrange_line(x->a, "var t%d = i32(0);", t);
        expand(x, CHOOSE(x->a, "load(LEN[i])", "($S & 3)", "2"), e, sizeof e);
        arrange_line(x->a, "while t%d < %s {", t, e);
        arrange_line(x->a, "    t%d += 1;", t);
    } else {
        expand(x, part(x, 'B', e, sizeof e), e, sizeof e);
        arrange_line(x->a, "for k%d in %s {", x->loops++, e);
    }
    inside(x);
    arrange_line(x->a, "}");
}

static void branch(Counts *x)
{
    char e[200];
    expand(x, part(x, 'C', e, sizeof e), e, sizeof e);
    arrange_branch(x->a, e, 30, inside, x);
}

static void statements(Counts *x, int n)
{
    static void (*const all[])(Counts *) = { let, let, let, put, put, pair, loop, branch };
    enum { ALL = sizeof all / sizeof *all, NESTED = 2 };
    for (int k = 0; k < n && x->budget > 0 && x->a->length < sizeof x->a->body - 3000; k++, x->budget--)
        all[below(x->a, x->depth > 2 ? ALL - NESTED : ALL)](x);
}

static const char *const functions =
    "fn low(x) { if any(x > 3, drop = true) { return x & 3; } return x; }\n"
    "fn parted(x, n, turned = false) {\n"
    "    if n < 0 { return (x, x); }\n"
    "    const if turned { return (x >> 2, x & 3); } else { return (x & 3, x >> 2); }\n}\n"
    "fn weighted(x, W, at, E) { return has(W) ? x * load(W[at +: E]) : x; }\n"
    "fn alive(m, A, at, E) { const if has(A) { return m && load(A[at +: E]); } else { return m; } }\n"
    "fn limit(L, s) { return has(L) ? min(s, load(L[])) : s; }\n";

static void body(Counts *x)
{
    static const char *const first[KINDS] = { "load(X[at +: E])", "load(FLT[at +: E])", "q0 > 1",
        "load(LEN[i])" };
    Arranger *a = x->a;
    a->indent = 1;
    arrange_line(a, "const int E = %d;", x->extent);
    arrange_line(a, "let i = program_id();");
    arrange_line(a, "let at = i*E;");
    arrange_line(a, "let key = load(KEY[at +: E]);");
    for (int k = 0; k < KINDS; k++) {
        arrange_line(a, "var %c0 = %s;", letters[k], first[k]);
        x->n[k] = 1;
    }
    while (x->budget > 0) statements(x, 3);
    put(x);
    arrange_line(a, "store(PUT[at +: E], q%d);", below(a, x->n[Q]));
    a->indent = 0;
    arrange_line(a, "}");
}

void random_counts(uint64_t seed, RandomKernel *out)
{
    static const char *const kinds[] = { "add", "add", "add", "add", "max", "min" };
    memset(out, 0, sizeof *out);
    Arranger arranger = { .k = out, .random = { seed * 7 + 11 } }, *a = &arranger;
    Counts counts = { .a = a }, *x = &counts;
    a->type = F32;
    x->budget = 3 + below(a, 14);
    x->extent = ONE_OF(a, 1, 2, 8, 16, 17, 32, 64, 64, 128, 128, 256, 256);
    for (int k = 0; k < COUNTED; k++) x->rmw[k] = kinds[below(a, 6)];
    const int programs = ONE_OF(a, 1, 2, 3, 5, 9, 20), v = ONE_OF(a, 1, 2, 3, 9, 16, 100),
              n = x->extent * programs - below(a, x->extent);
    const char *hint = CHOOSE(a, "", "", "", " hint (warps = 1)", " hint (warps = 2)", " hint (warps = 4)",
        " hint (pack = 2)", " hint (pack = 4)", " hint (persistent = 1)", " hint (occupancy = 2)");
    body(x);
    char clauses[80];
    snprintf(clauses, sizeof clauses, "    grid (extent(LEN, 0))%s\n{\n", hint);
    random_head(a,
        &(RandomHead){ .tensors = tensors,
            .count = TENSORS,
            .functions = functions,
            .always = " X KEY LEN OFF FLT PUT CI W ALIVE LIMIT SEEN LAST BYTE ",
            .views = 25 },
        clauses);
    snprintf(out->sizes, sizeof out->sizes, "N=%d P=%d V=%d R=%d", n, programs, v, 4 + below(a, 9));
}
