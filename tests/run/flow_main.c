/* flow_main.c: tile_flow_test: random arrangements of loops, ifs, calls and early returns on one executor,
 * against a walk of the same tree in C.
 *
 *     tile_flow_test --device=cpu --first=1 --count=40
 *
 * A program has a scalar `a`, a tile `u` and a row of LOG, where it leaves what they are at many places. Some
 * loops would run 10^12 times: a `return` ends them. Conditions depend on the input, on `a` and on loop
 * counters, so that programs of one launch leave at different places. A kernel that fails is printed. Exit
 * status as of tile_random_test. */
#include "oracle.h"
#include "ref_random.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRAMS = 7, INPUTS = 8, PLACES = 64, WIDTH = 4, MOST_NODES = 400, MOST_KIDS = 4, FUNCTIONS = 3 };

typedef enum Kind {
    SET_A,
    SET_U,
    LOG_A,
    LOG_U,
    IF,
    CONST_IF,
    FOR,
    LONG_FOR,
    WHILE,
    TICKING_WHILE,
    CONST_FOR,
    RETURN,
    CALL
} Kind;
typedef enum Test { OF_INPUT, OF_A, OF_COUNTER } Test;

typedef struct Node Node;
struct Node {
    Kind kind;
    Test test;
    int depth, x, y, place, n_kids[2];
    Node *kids[2][MOST_KIDS];
};

typedef struct List {
    Node *nodes[MOST_KIDS];
    int n;
} List;

typedef struct Maker {
    RefRandom random;
    char text[32768];
    size_t length;
    Node nodes[MOST_NODES];
    int n_nodes, indent;
    int function; /* that is being written; FUNCTIONS: the kernel */
    List functions[FUNCTIONS + 1];
    bool pair[FUNCTIONS]; /* returns (a, u), else a */
} Maker;

static Maker maker; /* the reference has no other way to the tree */

static int below(Maker *m, int n) { return (int)ref_random_below(&m->random, (uint64_t)n); }

static void line(Maker *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    m->length += (size_t)snprintf(m->text + m->length, sizeof m->text - m->length, "%*s", 4 * m->indent, "");
    m->length += (size_t)vsnprintf(m->text + m->length, sizeof m->text - m->length, format, args);
    m->length += (size_t)snprintf(m->text + m->length, sizeof m->text - m->length, "\n");
    va_end(args);
}

/* --- the tree ---------------------------------------------------------------------------------------- */

static bool is_loop(Kind k)
{ return k == FOR || k == LONG_FOR || k == WHILE || k == TICKING_WHILE || k == CONST_FOR; }

static List make_list(Maker *m, int depth, int loops);

static Node *make_node(Maker *m, int depth, int loops)
{
    static const Kind flat[] = { SET_A, SET_A, SET_U, LOG_A, LOG_U, CALL }, nested[] = { IF, IF, IF, CONST_IF,
        FOR, FOR, LONG_FOR, WHILE, TICKING_WHILE, CONST_FOR };
    Node *n = &m->nodes[m->n_nodes++];
    bool deep = depth < 4 && m->n_nodes < MOST_NODES - 40 && below(m, 100) < 60;
    *n = (Node){ .kind = deep ? nested[below(m, 10)] : flat[below(m, 6)],
        .depth = depth,
        .x = below(m, 5),
        .y = below(m, 3),
        .place = below(m, PLACES / WIDTH) * WIDTH };
    if (!deep && below(m, 100) < 15) n->kind = RETURN;
    if (n->kind == CALL && m->function == 0) n->kind = SET_A;
    n->test = loops > 0 && below(m, 2) ? OF_COUNTER : (Test)below(m, 2);
    if (n->test == OF_COUNTER) n->y = loops - 1; /* the innermost counter's number */
    if (!deep) return n;
    for (int k = 0; k < (n->kind == IF || n->kind == CONST_IF ? 2 : 1); k++) {
        List l = make_list(m, depth + 1, loops + is_loop(n->kind));
        n->n_kids[k] = l.n;
        memcpy(n->kids[k], l.nodes, sizeof l.nodes);
    }
    return n;
}

static List make_list(Maker *m, int depth, int loops)
{
    List l = { .n = 0 };
    int n = 1 + below(m, MOST_KIDS);
    while (l.n < n && m->n_nodes < MOST_NODES - 20) l.nodes[l.n++] = make_node(m, depth, loops);
    return l;
}

/* --- as text ----------------------------------------------------------------------------------------- */

static void write_list(Maker *m, Node *const *nodes, int n, int loops);

static const char *test_text(const Node *n, int loops)
{
    static char text[64];
    if (n->test == OF_INPUT) snprintf(text, sizeof text, "load(X[p, %d]) > %d", n->x, n->y - 1);
    else if (n->test == OF_A) snprintf(text, sizeof text, "(a & 7) > %d", n->x + 1);
    else snprintf(text, sizeof text, "i%d == %d", n->y, n->x);
    return text;
}

static void write_return(Maker *m)
{
    if (m->function == FUNCTIONS) line(m, "return;");
    else line(m, m->pair[m->function] ? "return (a, u);" : "return a;");
}

static void write_loop(Maker *m, const Node *n, int loops)
{
    switch (n->kind) {
    case FOR:
        if (n->y) line(m, "for i%d in 0 .. %d {", loops, n->x);
        else line(m, "for i%d in 1 .. index(abs(load(X[p, %d]))) + %d : 2 {", loops, n->x, n->x);
        break;
    case LONG_FOR: line(m, "for i%d in 0 .. 1000000000000 : %d {", loops, n->y + 1); break;
    case CONST_FOR: line(m, "const for i%d in 0 .. %d {", loops, n->x); break;
    case WHILE: line(m, "while i%d < %d {", loops, n->x); break;
    case TICKING_WHILE: line(m, "while tick(LOG, p, %d, i%d) < %d {", n->place, loops, n->x); break;
    case SET_A: /* no loops */
    case SET_U:
    case LOG_A:
    case LOG_U:
    case IF:
    case CONST_IF:
    case RETURN:
    case CALL: return;
    }
    m->indent++;
    if (n->kind == WHILE || n->kind == TICKING_WHILE) line(m, "i%d += 1;", loops);
    write_list(m, n->kids[0], n->n_kids[0], loops + 1);
    if (n->kind == LONG_FOR) {
        line(m, "if i%d >= %d {", loops, n->x * (n->y + 1));
        m->indent++;
        write_return(m);
        m->indent--;
        line(m, "}");
    }
    m->indent--;
    line(m, "}");
}

static void write_if(Maker *m, const Node *n, int loops)
{
    if (n->kind == CONST_IF) line(m, "const if %d > 2 {", n->x);
    else line(m, "if %s {", test_text(n, loops));
    m->indent++;
    write_list(m, n->kids[0], n->n_kids[0], loops);
    m->indent--;
    if (n->y != 1) {
        line(m, "} else {");
        m->indent++;
        write_list(m, n->kids[1], n->n_kids[1], loops);
        m->indent--;
    }
    line(m, "}");
}

static void write_node(Maker *m, const Node *n, int loops)
{
    int f = n->x % (m->function ? m->function : 1);
    switch (n->kind) {
    case SET_A: line(m, "a = a * %d + %d;", n->x + 2, n->place + 1); return;
    case SET_U: line(m, "u = u * %d + (a + i32(arange(%d)));", n->x + 1, WIDTH); return;
    case LOG_A: line(m, "store(LOG[p, %d], a);", n->place); return;
    case LOG_U: line(m, "store(LOG[p, %d +: %d], u);", n->place, WIDTH); return;
    case CALL:
        if (m->pair[f]) line(m, "(a, u) = f%d(LOG, X, p, a, u);", f);
        else line(m, "a = f%d(LOG, X, p, a, u);", f);
        return;
    case RETURN: write_return(m); return;
    case IF:
    case CONST_IF: write_if(m, n, loops); return;
    case WHILE:
    case TICKING_WHILE:
        line(m, "var i%d = 0;", loops);
        write_loop(m, n, loops);
        return;
    case FOR:
    case LONG_FOR:
    case CONST_FOR: write_loop(m, n, loops); return;
    }
}

/* Each statement in a block of its own, so that counters may have the same name. */
static void write_list(Maker *m, Node *const *nodes, int n, int loops)
{
    for (int i = 0; i < n; i++) {
        bool counter = nodes[i]->kind == WHILE || nodes[i]->kind == TICKING_WHILE;
        if (counter) line(m, "{");
        m->indent += counter;
        write_node(m, nodes[i], loops);
        m->indent -= counter;
        if (counter) line(m, "}");
    }
}

static void write_functions(Maker *m)
{
    line(m, "fn tick(LOG, p, place, i) { store(LOG[p, place], 1000 + i32(i)); return i; }");
    for (m->function = 0; m->function <= FUNCTIONS; m->function++) {
        if (m->function < FUNCTIONS) line(m, "fn f%d(LOG, X, p, a0, u0)", m->function);
        else line(m, "kernel flow(in i32 X[P, %d], out i32 LOG[P, %d]) grid (P)", INPUTS, PLACES);
        line(m, "{");
        m->indent = 1;
        if (m->function == FUNCTIONS) line(m, "let p = program_id();");
        line(m, m->function < FUNCTIONS ? "var a = a0;" : "var a = i32(p);");
        line(m, m->function < FUNCTIONS ? "var u = u0;" : "var u = i32(arange(%d));", WIDTH);
        write_list(m, m->functions[m->function].nodes, m->functions[m->function].n, 0);
        if (m->function < FUNCTIONS) write_return(m);
        else line(m, "store(LOG[p, 0], a);");
        m->indent = 0;
        line(m, "}");
    }
}

static void make(Maker *m, uint64_t seed)
{
    memset(m, 0, sizeof *m);
    m->random = (RefRandom){ seed };
    for (m->function = 0; m->function <= FUNCTIONS; m->function++) {
        if (m->function < FUNCTIONS) m->pair[m->function] = below(m, 2);

        m->functions[m->function] = make_list(m, m->function < FUNCTIONS ? 2 : 0, 0);
    }
    write_functions(m);
}

/* --- the reference ----------------------------------------------------------------------------------- */

typedef struct Walk {
    const Maker *m;
    const double *input;
    double *log;
    int function;
    uint32_t a, u[WIDTH];
    int64_t i[16];
    bool done;
} Walk;

static void walk_list(Walk *w, Node *const *nodes, int n, int loops);

static bool holds(const Walk *w, const Node *n)
{
    if (n->test == OF_INPUT) return w->input[n->x] > n->y - 1;
    return n->test == OF_A ? (int)(w->a & 7) > n->x + 1 : w->i[n->y] == n->x;
}

static bool goes_on(Walk *w, const Node *n, int loops, int64_t end)
{
    if (w->done) return false;
    if (n->kind == TICKING_WHILE) w->log[n->place] = 1000.0 + (double)w->i[loops];
    return w->i[loops] < end;
}

static void walk_loop(Walk *w, const Node *n, int loops)
{
    bool counts = n->kind == WHILE || n->kind == TICKING_WHILE, drawn = n->kind == FOR && !n->y;
    int64_t step = drawn ? 2 : n->kind == LONG_FOR ? n->y + 1 : 1, end = n->x;
    if (drawn) end += (int64_t)(w->input[n->x] < 0 ? -w->input[n->x] : w->input[n->x]);
    if (n->kind == LONG_FOR) end = 1000000000000;
    for (int64_t i = w->i[loops] = drawn; goes_on(w, n, loops, end);) {
        if (counts) w->i[loops]++;
        else w->i[loops] = i;
        walk_list(w, n->kids[0], n->n_kids[0], loops + 1);
        if (n->kind == LONG_FOR && i >= n->x * (n->y + 1)) w->done = true;
        i += step;
        if (!counts) w->i[loops] = i;
    }
}

static void walk_call(Walk *w, const Node *n)
{
    int f = n->x % w->function;
    Walk inner = *w;
    inner.function = f;
    walk_list(&inner, w->m->functions[f].nodes, w->m->functions[f].n, 0);
    w->a = inner.a;
    if (w->m->pair[f]) memcpy(w->u, inner.u, sizeof w->u);
}

static void walk_node(Walk *w, const Node *n, int loops)
{
    switch (n->kind) {
    case SET_A: w->a = w->a * (uint32_t)(n->x + 2) + (uint32_t)n->place + 1; return;
    case SET_U:
        for (int k = 0; k < WIDTH; k++) w->u[k] = w->u[k] * (uint32_t)(n->x + 1) + (w->a + (uint32_t)k);
        return;
    case LOG_A: w->log[n->place] = (int32_t)w->a; return;
    case LOG_U:
        for (int k = 0; k < WIDTH; k++) w->log[n->place + k] = (int32_t)w->u[k];
        return;
    case CALL: walk_call(w, n); return;
    case RETURN: w->done = true; return;
    case IF:
    case CONST_IF: {
        bool c = n->kind == IF ? holds(w, n) : n->x > 2;
        if (c) walk_list(w, n->kids[0], n->n_kids[0], loops);
        else if (n->y != 1) walk_list(w, n->kids[1], n->n_kids[1], loops);
        return;
    }
    case FOR:
    case LONG_FOR:
    case WHILE:
    case TICKING_WHILE:
    case CONST_FOR: walk_loop(w, n, loops); return;
    }
}

static void walk_list(Walk *w, Node *const *nodes, int n, int loops)
{
    for (int k = 0; k < n && !w->done; k++) walk_node(w, nodes[k], loops);
}

static void reference(Problem *p)
{
    const Tensor *x = problem_tensor(p, "X"), *log = problem_tensor(p, "LOG");
    for (int64_t i = 0; i < log->count; i++) log->want[i] = -1;
    for (int program = 0; program < PROGRAMS; program++) {
        Walk w = { .m = &maker,
            .input = x->values + program * INPUTS,
            .log = log->want + program * PLACES,
            .function = FUNCTIONS,
            .a = (uint32_t)program,
            .u = { 0, 1, 2, 3 } };
        walk_list(&w, maker.functions[FUNCTIONS].nodes, maker.functions[FUNCTIONS].n, 0);
        if (!w.done) w.log[0] = (int32_t)w.a;
    }
}

/* --- running ----------------------------------------------------------------------------------------- */

/* Executors keep a file by its name: each kernel has its own. */
static bool run_seed(Oracle *z, uint64_t seed)
{
    char why[400] = "", name[32], sizes[16], path[160];
    snprintf(name, sizeof name, "flow%llu", (unsigned long long)seed);
    snprintf(sizes, sizeof sizes, "P=%d", PROGRAMS);
    Recipe r = { name, name, "in X[P,8] i32 int:3; out LOG[P,64] i32", "", "", { "flow X LOG" }, reference, 0,
        0, 0, FLOOR_NONE };
    Run run;
    make(&maker, seed);
    Problem *p = oracle_write(z, name, maker.text)
                     ? problem_make(&r, sizes, NULL, NULL, NULL, seed, why, sizeof why)
                     : NULL;
    Verdict v = { .ok = p && run_prepare(&run, p, z->folder, path, sizeof path, why, sizeof why) };
    int passes = 0;
    for (; v.ok && passes < 2; passes++) {
        problem_reset(p);
        run.passes = passes;
        v.ok = z->executor->run(z->state, &run, why, sizeof why);
        if (v.ok) v = problem_check(p);
    }
    if (!v.ok)
        printf("FAIL seed %llu, passes %s: %s%s\n%s", (unsigned long long)seed, passes > 1 ? "on" : "off",
            why, v.text, maker.text);
    oracle_forget(z, name);
    problem_free(p);
    return v.ok;
}

int main(int argc, char **argv)
{
    unsigned long long first = 1, count = 40, failed = 0;
    const char *device = "interp";
    Oracle z;
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--device=", 9)) device = argv[i] + 9;
        else if (sscanf(argv[i], "--first=%llu", &first) != 1 && sscanf(argv[i], "--count=%llu", &count) != 1)
            return fputs("usage: tile_flow_test [--device=NAME] [--first=SEED] [--count=N]\n", stderr), 2;
    }
    int status = oracle_open(&z, device);
    if (status) return status;
    for (unsigned long long seed = first; seed < first + count; seed++) failed += !run_seed(&z, seed);
    oracle_close(&z);
    printf("%llu kernels of loops and returns on %s, %llu failed\n", count, device, failed);
    return failed > 0;
}
