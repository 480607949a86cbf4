/* test_random.c: random kernels of tile IR, run by the interpreter without passes, with all passes, with
 * facts, and with random lists of passes: integers equal, floats within rounding. The programs have what
 * passes work on: windows at affine offsets, masks, loops with carried values, running maxima, ifs, token
 * chains, transposes.
 *
 * test_random [programs] [first seed]         a failure prints the seed and the program */
#include "ir/interp/interp.h"
#include "passes/passes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { R = 8, C = 16, M = 21, N = 37, POOL = 64 };

typedef struct Pool {
    Value *v[POOL];
    int n;
} Pool;
typedef struct Gen {
    Session *s;
    uint64_t seed;
    Func *f;
    Builder b;
    Pool index, tile, row, ints, mask;
    Value *token;
    int depth, budget;
} Gen;

static uint64_t next(uint64_t *s)
{
    *s += 0x9E3779B97F4A7C15ull;
    uint64_t z = *s;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

static int pick(Gen *g, int n) { return (int)(next(&g->seed) >> 33) % n; }
static void put(Pool *p, Value *v)
{
    if (p->n < POOL) p->v[p->n++] = v;
}
static Value *any(Gen *g, Pool *p) /* recent ones more often */
{
    int k = pick(g, p->n), l = pick(g, p->n);
    return p->v[k > l ? k : l];
}

static const Type *shape(Gen *g, DType d, int rows, int cols)
{ return type_tile(g->s, d, 2, (int64_t[]){ rows, cols }); }
static Value *fill(Gen *g, Value *scalar, int rows, int cols)
{ return ir_splat(&g->b, scalar, 2, (int64_t[]){ rows, cols }); }
static Value *bin(Gen *g, Op op, Value *x, Value *y) { return ir_bin(&g->b, op, x, y); }
static Value *fconst(Gen *g, double v, int rows, int cols)
{ return fill(g, ir_const_float(&g->b, DT_F32, v), rows, cols); }
static Value *wide(Gen *g, Value *row)
{ return ir_op(&g->b, OP_BROADCAST, shape(g, row->type->dtype, R, C), NO_ATTRS, row); }

/* --- single operations ------------------------------------------------------------------------------- */

static void make_index(Gen *g)
{
    Value *x = any(g, &g->index), *y = any(g, &g->index), *k = ir_index(&g->b, 1 + pick(g, 20));
    switch (pick(g, 11)) {
    case 0: put(&g->index, ir_index(&g->b, pick(g, 40) - 4)); break;
    case 1: put(&g->index, bin(g, OP_ADD, x, y)); break;
    case 2: put(&g->index, bin(g, OP_SUB, x, y)); break;
    case 3: put(&g->index, bin(g, OP_MUL, x, k)); break;
    case 4: put(&g->index, bin(g, OP_MIN, x, y)); break;
    case 5: put(&g->index, bin(g, OP_MAX, x, y)); break;
    case 6: put(&g->index, bin(g, OP_DIV, x, k)); break;
    case 7: put(&g->index, bin(g, OP_REM, x, k)); break;
    case 8: put(&g->index, bin(g, OP_CDIV, bin(g, OP_MAX, x, ir_index(&g->b, 0)), k)); break;
    case 9: put(&g->index, bin(g, OP_MUL, x, ir_index(&g->b, R))); break;
    default: put(&g->index, ir_emit(&g->b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, pick(g, 2))), NULL)); break;
    }
}

static void make_ints(Gen *g)
{
    bool rows = pick(g, 2);
    int64_t n = rows ? R : C;
    Value *x = any(g, &g->ints), *lane;
    switch (pick(g, 4)) {
    case 0:
        lane =
            ir_emit(&g->b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)), type_tile(g->s, DT_INDEX, 1, &n));
        lane = bin(g, OP_ADD, lane, ir_splat(&g->b, any(g, &g->index), 1, &n));
        put(&g->ints, wide(g, ir_op(&g->b, OP_RESHAPE, shape(g, DT_INDEX, rows ? R : 1, rows ? 1 : C),
                                  NO_ATTRS, lane)));
        break;
    case 1: put(&g->ints, bin(g, OP_ADD, x, any(g, &g->ints))); break;
    case 2: put(&g->ints, bin(g, OP_SUB, x, any(g, &g->ints))); break;
    default: put(&g->ints, fill(g, any(g, &g->index), R, C)); break;
    }
}

static void make_mask(Gen *g)
{
    static const Op compare[] = { OP_LT, OP_LE, OP_GT, OP_GE, OP_EQ, OP_NE };
    Value *c = bin(g, compare[pick(g, 6)], any(g, &g->ints), any(g, &g->ints));
    if (g->mask.n && !pick(g, 2)) c = bin(g, pick(g, 3) ? OP_AND : OP_OR, c, any(g, &g->mask));
    put(&g->mask, pick(g, 4) ? c : ir_un(&g->b, OP_NOT, c));
}

static Value *load(Gen *g, bool transposed)
{
    int param = pick(g, 3) ? 0 : 1;
    int64_t extents[2] = { transposed ? C : R, transposed ? R : C };
    Value *ops[5] = { g->f->body->args[param], any(g, &g->index), any(g, &g->index) };
    const int64_t steps[2] = { 1, 2 };
    Attr attrs[3] = { a_ints(ATTR_EXTENTS, extents, 2) };
    int n = 3, n_attrs = 1;
    if (!pick(g, 3)) {
        ops[n++] = ir_const_float(&g->b, DT_F32, pick(g, 2) ? -INFINITY : 2.5);
        attrs[n_attrs++] = a_int(ATTR_HAS_PAD, 1);
    }
    if (!pick(g, 4)) attrs[n_attrs++] = a_ints(ATTR_STEPS, steps, 2);
    if (param == 1) ops[n++] = g->token;
    Instr *i = ir_build(&g->b, OP_LOAD, ops, n, (Attrs){ attrs, n_attrs }, NULL, 0);
    if (param == 1) g->token = &i->results[1];
    return &i->results[0];
}

static Value *bounded(Gen *g, Value *v)
{ return ir_op(&g->b, OP_CLAMP, NULL, NO_ATTRS, v, fconst(g, -8, R, C), fconst(g, 8, R, C)); }

static void make_tile(Gen *g)
{
    Value *x = any(g, &g->tile), *y = any(g, &g->tile), *s = g->f->body->args[3];
    const int64_t swap[] = { 1, 0 };
    switch (pick(g, 13)) {
    case 0:
    case 1: put(&g->tile, load(g, false)); break;
    case 2:
        put(&g->tile, ir_op(&g->b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, swap, 2)), load(g, true)));
        break;
    case 3: put(&g->tile, bin(g, OP_ADD, x, y)); break;
    case 4: put(&g->tile, bounded(g, bin(g, OP_SUB, x, y))); break;
    case 5: put(&g->tile, bin(g, OP_MUL, x, fill(g, s, R, C))); break;
    case 6: put(&g->tile, bounded(g, bin(g, OP_MUL, x, y))); break;
    case 7: put(&g->tile, bin(g, pick(g, 2) ? OP_MAX : OP_MIN, x, y)); break;
    case 8:
        if (g->mask.n)
            put(&g->tile, ir_op(&g->b, OP_WHERE, NULL, NO_ATTRS, any(g, &g->mask), x,
                              pick(g, 2) ? y : fconst(g, -INFINITY, R, C)));
        break;
    case 9: put(&g->tile, ir_un(&g->b, OP_EXP, bin(g, OP_MIN, x, fconst(g, 1, R, C)))); break;
    case 10:
        if (g->row.n) put(&g->tile, wide(g, any(g, &g->row)));
        break;
    case 11:
        if (g->row.n)
            put(&g->tile,
                ir_un(&g->b, OP_EXP,
                    bin(g, OP_MIN, bin(g, OP_SUB, x, wide(g, any(g, &g->row))), fconst(g, 1, R, C))));
        break;
    default: put(&g->tile, bin(g, OP_DIV, x, fconst(g, 1 + pick(g, 5), R, C))); break;
    }
}

/* The product of a tile with another one turned, perhaps turned itself; summed to a row. */
static void make_product(Gen *g)
{
    const int64_t swap[] = { 1, 0 };
    Value *y = pick(g, 2) ? ir_op(&g->b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, swap, 2)),
                                pick(g, 2) ? load(g, false) : any(g, &g->tile))
                          : load(g, true);
    Value *p = ir_op(&g->b, OP_MMA, NULL, NO_ATTRS, pick(g, 3) ? any(g, &g->tile) : load(g, false), y,
        fconst(g, 0.5, R, R));
    if (!pick(g, 3)) p = ir_op(&g->b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, swap, 2)), p);
    Value *r = ir_op(&g->b, OP_REDUCE_SUM, NULL, ATTRS(a_int(ATTR_AXIS, 1)), p);
    put(&g->row, ir_op(&g->b, OP_CLAMP, NULL, NO_ATTRS, bin(g, OP_MUL, r, fconst(g, 0.0078125, R, 1)),
                     fconst(g, -8, R, 1), fconst(g, 8, R, 1)));
}

static void make_row(Gen *g)
{
    if (!pick(g, 3)) {
        make_product(g);
        return;
    }
    Op op = pick(g, 2) ? OP_REDUCE_MAX : OP_REDUCE_SUM;
    Value *r = ir_op(&g->b, op, NULL, ATTRS(a_int(ATTR_AXIS, 1)), any(g, &g->tile));
    put(&g->row, op == OP_REDUCE_MAX ? r : bin(g, OP_MUL, r, fconst(g, 0.0625, R, 1)));
}

static void make_store(Gen *g)
{
    int64_t extents[2] = { R, C };
    Value *v[] = { g->f->body->args[1], any(g, &g->index), any(g, &g->index), bounded(g, any(g, &g->tile)),
        g->token };
    g->token = &ir_build(&g->b, OP_STORE, v, 5, ATTRS(a_ints(ATTR_EXTENTS, extents, 2)), NULL, 0)->results[0];
}

/* --- control flow ------------------------------------------------------------------------------------ */

static void statements(Gen *g, int n);

typedef struct Scope {
    Pool index, tile, row, ints, mask;
    Builder b;
} Scope;
static Scope enter(Gen *g, Block *b)
{
    Scope s = { g->index, g->tile, g->row, g->ints, g->mask, g->b };
    g->b = ir_at_end(b);
    g->depth++;
    return s;
}
static void leave(Gen *g, const Scope *s)
{
    g->index = s->index;
    g->tile = s->tile;
    g->row = s->row;
    g->ints = s->ints;
    g->mask = s->mask;
    g->b = s->b;
    g->depth--;
}

/* One step of a softmax that runs over the loop: what exp2 rewrites. */
static void softmax_step(Gen *g, Value **m, Value **l)
{
    Value *s = bin(g, OP_MUL, any(g, &g->tile), fill(g, g->f->body->args[3], R, C));
    if (g->mask.n && pick(g, 4))
        s = ir_op(&g->b, OP_WHERE, NULL, NO_ATTRS, any(g, &g->mask), s, fconst(g, -INFINITY, R, C));
    Value *mn = bin(g, OP_MAX, *m, ir_op(&g->b, OP_REDUCE_MAX, NULL, ATTRS(a_int(ATTR_AXIS, 1)), s));
    Value *p = ir_un(&g->b, OP_EXP, bin(g, OP_SUB, s, wide(g, mn))),
          *alpha = ir_un(&g->b, OP_EXP, bin(g, OP_SUB, *m, mn));
    *l = bin(g, OP_ADD, bin(g, OP_MUL, *l, alpha),
        ir_op(&g->b, OP_REDUCE_SUM, NULL, ATTRS(a_int(ATTR_AXIS, 1)), p));
    *m = mn;
}

static void make_loop(Gen *g)
{
    Value *zero = ir_index(&g->b, pick(g, 3) ? 0 : pick(g, 3)), *one = ir_index(&g->b, pick(g, 6) ? 1 : 2);
    Value *hi = bin(g, OP_MIN,
        pick(g, 3) ? bin(g, OP_CDIV, bin(g, OP_MAX, any(g, &g->index), zero), ir_index(&g->b, R))
                   : ir_index(&g->b, pick(g, 6)),
        ir_index(&g->b, 7));
    Value *row0 = pick(g, 3) ? fconst(g, -INFINITY, R, 1) : fconst(g, 0.5, R, 1);
    Value *ops[] = { zero, hi, one, any(g, &g->tile), row0, fconst(g, 0, R, 1), any(g, &g->index), g->token };
    const Type *types[5];
    for (int k = 0; k < 5; k++) types[k] = ops[3 + k]->type;
    Instr *i = ir_build(&g->b, OP_FOR, ops, 8, NO_ATTRS, types, 5);
    Scope s = enter(g, i->blocks[0]);
    Value **a = i->blocks[0]->args, *m = a[2], *l = a[3];
    put(&g->index, a[0]);
    put(&g->index, bin(g, OP_MUL, a[0], ir_index(&g->b, pick(g, 2) ? R : C)));
    put(&g->tile, a[1]);
    if (pick(g, 2)) put(&g->index, a[4]);
    g->token = a[5];
    make_ints(g);
    make_mask(g);
    statements(g, 4 + pick(g, 8));
    if (pick(g, 2)) softmax_step(g, &m, &l);
    Value *next[] = { bounded(g, any(g, &g->tile)), m, l, pick(g, 2) ? any(g, &g->index) : a[4], g->token };
    ir_build(&g->b, OP_YIELD, next, 5, NO_ATTRS, NULL, 0);
    leave(g, &s);
    put(&g->tile, &i->results[0]);
    put(&g->row, &i->results[1]);
    put(&g->row, &i->results[2]);
    put(&g->index, bin(g, OP_REM, &i->results[3], ir_index(&g->b, 50)));
    g->token = &i->results[4];
}

static void make_if(Gen *g)
{
    Value *c = bin(g, OP_LT, any(g, &g->index), any(g, &g->index)), *before = g->token;
    const Type *types[] = { shape(g, DT_F32, R, C), type_token(g->s) };
    Instr *i = ir_build(&g->b, OP_IF, &c, 1, NO_ATTRS, types, 2);
    for (int k = 0; k < 2; k++) {
        Scope s = enter(g, i->blocks[k]);
        g->token = before;
        statements(g, 1 + pick(g, 5));
        ir_build(&g->b, OP_YIELD, (Value *[]){ any(g, &g->tile), g->token }, 2, NO_ATTRS, NULL, 0);
        leave(g, &s);
    }
    put(&g->tile, &i->results[0]);
    g->token = &i->results[1];
}

static void statements(Gen *g, int n)
{
    for (int k = 0; k < n && g->budget-- > 0; k++) {
        switch (pick(g, 16)) {
        case 0:
        case 1:
        case 2: make_index(g); break;
        case 3:
        case 4: make_ints(g); break;
        case 5:
        case 6: make_mask(g); break;
        case 7: make_row(g); break;
        case 8: make_store(g); break;
        case 9:
            if (g->depth < 2) make_loop(g);
            break;
        case 10:
            if (g->depth < 3) make_if(g);
            break;
        default: make_tile(g); break;
        }
    }
}

static void make_grid(Gen *g)
{
    Func *f = g->f;
    f->grid = ir_block_new(f, NULL);
    for (int k = 0; k < f->n_params; k++) ir_block_arg(f->grid, f->params[k].type, NULL);
    Builder b = ir_at_end(f->grid);
    Value *m = ir_emit(&b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, 0)), NULL);
    Value *y[] = { ir_bin(&b, OP_CDIV, m, ir_index(&b, R)), ir_index(&b, 2) };
    ir_build(&b, OP_YIELD, y, 2, NO_ATTRS, NULL, 0);
}

static Module *generate(Session *s, uint64_t seed)
{
    Module *m = ir_module_new(s);
    Gen g = { .s = s, .seed = seed, .f = ir_func_new(m, "random", true), .budget = 90 };
    Func *f = g.f;
    int dims[] = { ir_dim_new(f, "M", -1), ir_dim_new(f, "N", -1) };
    ir_param_new(f, "X", PARAM_IN, type_tensor(s, DT_F32, 2), dims);
    ir_param_new(f, "Y", PARAM_INOUT, type_tensor(s, DT_F32, 2), dims);
    ir_param_new(f, "Z", PARAM_OUT, type_tensor(s, DT_I64, 2), dims);
    ir_param_new(f, "s", PARAM_SCALAR, type_scalar(s, DT_F32), NULL);
    ir_param_new(f, "n", PARAM_SCALAR, type_scalar(s, DT_INDEX), NULL);
    make_grid(&g);
    g.b = ir_at_end(f->body);
    g.token = ir_emit(&g.b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, 1)), NULL);
    Value *out = ir_emit(&g.b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, 2)), NULL);
    Value *pid = ir_emit(&g.b, OP_PROGRAM_ID, NULL, 0, ATTRS(a_int(ATTR_AXIS, 0)), NULL);
    put(&g.index, f->body->args[4]);
    put(&g.index, pid);
    put(&g.index, ir_bin(&g.b, OP_MUL, pid, ir_index(&g.b, R)));
    put(&g.tile, fconst(&g, 0.75, R, C));
    put(&g.ints, fill(&g, pid, R, C));
    make_ints(&g);
    statements(&g, 40);
    make_store(&g);
    int64_t extents[2] = { R, C };
    Value *z = ir_cast(&g.b, any(&g, &g.ints), DT_I64),
          *v[] = { f->body->args[2], any(&g, &g.index), ir_index(&g.b, 3), z, out };
    ir_build(&g.b, OP_STORE, v, 5, ATTRS(a_ints(ATTR_EXTENTS, extents, 2)), NULL, 0);
    ir_build(&g.b, OP_RETURN, NULL, 0, NO_ATTRS, NULL, 0);
    return m;
}

/* --- running ----------------------------------------------------------------------------------------- */

static PassStat totals[256]; /* what the passes did, over all programs */
static int n_totals;

static void add_totals(const PassReport *r)
{
    for (size_t k = 0; k < r->stats.len; k++) {
        int t = 0;
        while (t < n_totals &&
               (totals[t].pass != r->stats.data[k].pass || strcmp(totals[t].what, r->stats.data[k].what)))
            t++;
        if (t == n_totals && n_totals < 256)
            totals[n_totals++] = (PassStat){ r->stats.data[k].pass, r->stats.data[k].what, 0 };
        totals[t].count += r->stats.data[k].count;
    }
}

typedef struct Result {
    float y[M * N];
    int64_t z[M * N];
} Result;

static void add_facts(Func *f)
{
    f->fits32 = true;
    f->dims[0].div = M;
    for (int k = 0; k < 3; k++) f->params[k].stride[1] = 1;
    f->params[3].lo = 0x1p-100;
    f->params[4].lo = 0;
    f->params[4].hi = 64;
}

static bool run(uint64_t seed, const PassOptions *o, bool facts, Result *r)
{
    Session s;
    static float x[M * N];
    uint64_t rnd = seed ^ 77;
    volatile bool ok = false;
    PassReport report = { 0 };
    memset(r, 0, sizeof *r);
    for (int k = 0; k < M * N; k++) {
        x[k] = (float)((double)(next(&rnd) >> 40) * 0x1p-23 - 1);
        r->y[k] = (float)((double)(next(&rnd) >> 40) * 0x1p-23 - 1);
    }
    InterpArg args[5] = { { x, { M, N }, { N, 1 } }, { r->y, { M, N }, { N, 1 } },
        { r->z, { M, N }, { N, 1 } }, { .scalar = { .f = 0.25 } }, { .scalar = { .i = 5 } } };
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Module *m = generate(&s, seed);
        if (facts) add_facts(m->funcs);
        ok = ir_verify(m) && (!o || passes_run(m, o, &report)) && interp_run(&s, m->funcs, args, 5);
    }
    add_totals(&report);
    Text t;
    if (!ok && !setjmp(s.oom)) {
        text_init(&t, &s.arena);
        diag_render_all(&s, &t);
        fputs(t.data, stderr);
    }
    session_free(&s);
    return ok;
}

static bool same(const Result *a, const Result *b)
{
    for (int k = 0; k < M * N; k++) {
        float x = a->y[k], y = b->y[k];
        bool near =
            isnan(x) || isnan(y) ? isnan(x) && isnan(y) : x == y || fabsf(x - y) <= 1e-3f * (1 + fabsf(y));
        if (!near) {
            fprintf(stderr, "Y[%d] is %g, without passes %g\n", k, x, y);
            return false;
        }
        if (a->z[k] != b->z[k]) {
            fprintf(
                stderr, "Z[%d] is %lld, without passes %lld\n", k, (long long)a->z[k], (long long)b->z[k]);
            return false;
        }
    }
    return true;
}

static const char *random_list(uint64_t *seed, char *out, size_t size)
{
    size_t len = 0;
    out[0] = 0;
    for (int k = 0; k < 12; k++) {
        PassId id = (PassId)((next(seed) >> 33) % TILE_PASS_COUNT);
        if (id != PASS_APPROX)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len ? "," : "", pass_info[id].name);
    }
    return out;
}

static bool test_seed(uint64_t seed)
{
    static Result plain, r;
    char list[256];
    uint64_t rnd = seed * 31 + 5;
    PassOptions o = pass_options_default(target_find("cuda:sm_80"));
    o.verify_each = true;
    if (!run(seed, NULL, false, &plain)) {
        fprintf(stderr, "seed %llu does not run\n", (unsigned long long)seed);
        return false;
    }
    for (int k = 0; k < 4; k++) {
        o.opt_level = k < 2 ? 3 : 1;
        o.passes = k == 3 ? random_list(&rnd, list, sizeof list) : NULL;
        if (run(seed, &o, k != 1, &r) && same(&r, &plain)) continue;
        fprintf(stderr, "seed %llu, %s%s\n", (unsigned long long)seed,
            o.passes ? o.passes
            : k == 2 ? "-O1"
                     : "-O3",
            k != 1 ? ", facts" : "");
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 100, bad = 0;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    for (int k = 0; k < n && bad < 3; k++) bad += !test_seed(first + (uint64_t)k);
    for (int t = 0; t < n_totals; t++)
        printf(
            "%-14s %8lld %s\n", pass_info[totals[t].pass].name, (long long)totals[t].count, totals[t].what);
    printf("%d programs, %d failures\n", n, bad);
    return bad != 0;
}
