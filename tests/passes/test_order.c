/* test_order.c: which program a CTA works on, read back from the kernel IR: the coordinates computed from the
 * linear id, or from the tile scheduler of a persistent grid, go through every program of the grid once: with
 * the order derived from the loops, with rasters, with placements on chiplets, with a remap of the kernel's
 * own, and with several of them; in the producer's role and in the consumers'; on both kinds of GPU. */
#include "frontend/frontend.h"
#include "ir/interp/scalar.h"
#include "passes/kernel/kernel.h"
#include "passes/passes.h"
#include "tests/unit/unit.h"
#include <stdlib.h>

static const char source[] =
    "kernel gemm(in f16 A[M, K], in f16 B[K, N], out f16 C[M, N]) grid (cdiv(M, 128), cdiv(N, 128)) @CLAUSE@ "
    "{\n"
    "    let (i, j) = program_id();\n    var acc = zeros([128, 128], f32);\n"
    "    for k in 0 .. cdiv(K, 64) { acc = mma(load(A[i*128 +: 128, k*64 +: 64], latency = 3), load(B[k*64 "
    "+: 64, j*128 +: 128], latency = 3), acc); }\n"
    "    store(C[i*128 +: 128, j*128 +: 128], f16(acc));\n}\n"
    "kernel attention(in f16 Q[B, H, M, D], in f16 K[B, HK, N, D], in f16 V[B, HK, N, D], out f16 O[B, H, M, "
    "D]) grid (cdiv(M, 128), H, B) @CLAUSE@ {\n"
    "    let (i, h, b) = program_id();\n    let q = load(Q[b, h, i*128 +: 128, :]);\n    var acc = "
    "zeros([128, D], f32);\n"
    "    for j in 0 .. cdiv(min(N, (i + 1)*128), 128) {\n"
    "        let s = mma(q, transpose(load(K[b, h*HK/H, j*128 +: 128, :], latency = 2)));\n"
    "        acc = mma(f16(s), load(V[b, h*HK/H, j*128 +: 128, :], latency = 2), acc);\n    }\n"
    "    store(O[b, h, i*128 +: 128, :], f16(acc));\n}\n"
    "kernel changes(in i32 AT[C, N], inout f32 X[C, P]) grid (C, cdiv(N, 128)) @CLAUSE@ {\n"
    "    let (c, i) = program_id();\n"
    "    atomic_add(X[zeros([128], i32) + i32(c), load(AT[c, i*128 +: 128])], zeros([128], f32) + 1.0);\n}\n";

/* --- the value of an expression of the kernel IR ----------------------------------------------------- */

typedef struct Machine {
    const Func *f;
    int64_t grid[3], linear;
    int64_t *dims;
    Scalar *values;
    uint64_t *known;
    uint64_t now;
    bool bad;
} Machine;

static bool is_program(const Value *v)
{
    if (v->def) return v->def->op == OP_PROGRAM;
    const Instr *loop = v->block->parent; /* a persistent grid: of the tile scheduler */
    return loop && loop->op == OP_FOR && v->index == 0 && ir_loop_is(loop, LOOP_DYNAMIC);
}

static Scalar value_of(Machine *m, const Value *v)
{
    Scalar x[3] = { { 0 } }, out = { 0 };
    const Instr *d = v->def;
    if (is_program(v)) return scalar_int(m->linear);
    if (!d || d->n_operands > 3) {
        m->bad = true;
        return out;
    }
    if (m->known[v->id] == m->now) return m->values[v->id];
    for (int k = 0; k < d->n_operands; k++) x[k] = value_of(m, ir_operand(d, k));
    DType from = d->n_operands ? ir_operand(d, d->op == OP_WHERE)->type->dtype : DT_INDEX;
    int64_t axis = ir_attr_int(d, ATTR_AXIS, 0);
    if (d->op == OP_CONST) {
        if (dtype_is_float(v->type->dtype)) out.f = ir_attr(d, ATTR_FVALUE)->f;
        else out.i = ir_attr(d, ATTR_IVALUE)->i;
    } else if (d->op == OP_DIM) {
        out.i = m->dims[ir_attr_int(d, ATTR_DIM, 0)];
    } else if (d->op == OP_NUM_PROGRAMS) {
        out.i = axis < 0 ? m->grid[0] * m->grid[1] * m->grid[2] : m->grid[axis];
    } else if (d->op == OP_OPAQUE || d->op == OP_PROGRAM_COORD) {
        out = x[0];
    } else if (d->op == OP_CAST) {
        out = scalar_cast(v->type->dtype, from, x[0]);
    } else {
        m->bad |= !op_is_elementwise(d->op) || !scalar_op(d->op, from, x, &out);
    }
    m->values[v->id] = out;
    m->known[v->id] = m->now;
    return out;
}

typedef struct Coords {
    const Value *of[8][3];
    const Block *block[8];
    int n;
} Coords;

/* The coordinates of each role. */
static void find(void *user, Instr *i)
{
    Coords *c = user;
    if (i->op != OP_PROGRAM_COORD) return;
    int k = 0;
    while (k < c->n && c->block[k] != i->block) k++;
    if (k == 8) return;
    if (k == c->n) c->block[c->n++] = i->block;
    c->of[k][ir_attr_int(i, ATTR_AXIS, 0)] = ir_result(i);
}

static bool covers(Machine *m, const Value *const coord[3], int64_t programs)
{
    uint8_t *seen = calloc((size_t)programs + 1, 1);
    int64_t found = 0;
    for (m->linear = 0; m->linear < programs && !m->bad; m->linear++) {
        m->now++;
        int64_t at = 0;
        for (int a = 2; a >= 0; a--) {
            int64_t c = coord[a] ? value_of(m, coord[a]).i : 0;
            m->bad |= c < 0 || c >= m->grid[a];
            at = at * m->grid[a] + c;
        }
        if (!m->bad && !seen[at]) {
            seen[at] = 1;
            found++;
        }
    }
    free(seen);
    return !m->bad && found == programs;
}

/* --- cases ------------------------------------------------------------------------------------------- */

typedef struct Expect {
    const char *kernel, *target, *clause, *remap;
    bool dynamic;
} Expect;

static Func *lower(Session *s, const Expect *e)
{
    Text t;
    text_init(&t, &s->arena);
    for (const char *p = source; *p;) {
        if (!strncmp(p, "@CLAUSE@", 8)) {
            text_puts(&t, e->clause);
            p += 8;
        } else text_putc(&t, *p++);
    }
    const Target *target = target_find(e->target);
    Ast *ast = frontend_parse(s, diag_add_source(s, "k.tile", NULL, t.data, t.len), NULL, NULL);
    FrontBinding b[] = { { "D", { FRONT_INT, { .i = 64 } } } };
    if (!frontend_check(ast)) return NULL;
    Module *m = frontend_lower(ast, e->kernel, b, e->kernel[0] == 'a', e->target);
    Func *f = m ? ir_func_find(m, e->kernel) : NULL;
    for (int p = 0; f && p < f->n_params; p++) {
        int last = f->params[p].type->rank - 1;
        f->params[p].align = 16;
        for (int a = 0; a < last; a++) f->params[p].stride_div[a] = 8;
        f->params[p].stride[last] = 1;
    }
    PassOptions o = pass_options_default(target);
    o.opt_level = 3;
    o.remap = e->remap;
    if (f) f->fits32 = true;
    KernelPlan plan = { 0 };
    KernelOptions options = kernel_options_of(&o);
    return f && passes_run(m, &o, NULL) && kernel_lower(s, f, target, &options, &plan) ? f : NULL;
}

static void dynamic(void *user, Instr *i) { *(int *)user += i->op == OP_FOR && ir_loop_is(i, LOOP_DYNAMIC); }

/* Whether every role covers every grid. */
static bool covered(const Expect *e)
{
    volatile bool all = true;
    static const int64_t grids[][3] = { { 1, 1, 1 }, { 7, 1, 1 }, { 1, 9, 2 }, { 5, 3, 1 }, { 16, 16, 1 },
        { 13, 11, 3 }, { 32, 12, 2 }, { 3, 40, 5 }, { 64, 9, 1 } };
    Session s;
    session_init(&s, allocator_libc);
    Func *f = setjmp(s.oom) ? NULL : lower(&s, e);
    if (!f) {
        CU_FAIL("does not lower");
        printf("%s on %s, \"%s\": %s\n", e->kernel, e->target, e->clause, s.diags ? s.diags->message : "");
        session_free(&s);
        return false;
    }
    Coords c = { 0 };
    int loops = 0;
    ir_walk(f->body, find, &c);
    ir_walk(f->body, dynamic, &loops);
    CU_ASSERT(c.n > 0);
    CU_ASSERT_EQUAL(loops > 0, e->dynamic);
    Machine m = { .f = f,
        .values = calloc(f->module->next_id, sizeof(Scalar)),
        .known = calloc(f->module->next_id, sizeof(uint64_t)),
        .dims = calloc((size_t)f->n_dims + 1, sizeof(int64_t)) };
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
        memcpy(m.grid, grids[g], sizeof m.grid);
        if (ir_terminator(f->grid)->n_operands == 2) m.grid[2] = 1;
        for (int d = 0; d < f->n_dims; d++) {
            const char *name = f->dims[d].name ? f->dims[d].name : "";
            bool heads = !strcmp(name, "H") || !strcmp(name, "HK");
            m.dims[d] = f->dims[d].extent >= 0 ? f->dims[d].extent
                        : heads                ? m.grid[1]
                        : !strcmp(name, "B")   ? m.grid[2]
                        : !strcmp(name, "P") ? (g % 2 ? 100 : 1 << 24) /* of "changes": short and long rows */
                                             : 128 * m.grid[!strcmp(name, "N") && e->kernel[0] == 'g'];
            if (!strcmp(name, "HK") && m.grid[1] % 3 == 0) m.dims[d] = m.grid[1] / 3;
        }
        for (int k = 0; k < c.n; k++) {
            m.bad = false;
            bool ok = covers(&m, c.of[k], m.grid[0] * m.grid[1] * m.grid[2]);
            if (!ok) all = false;
        }
    }
    free(m.values);
    free(m.known);
    free(m.dims);
    session_free(&s);
    return all;
}

static void check(const Expect *e)
{
    bool ok = covered(e);
    CU_ASSERT(ok);
    if (!ok)
        printf("%s on %s, \"%s\", %s: not all programs run\n", e->kernel, e->target, e->clause,
            e->remap ? e->remap : "-");
}

#define REVERSE "remap (w) = num_programs() - 1 - w"
#define SHUFFLE "remap (w) = num_programs() > 1 && w < num_programs()/2*2 ? w/2 + w%2*(num_programs()/2) : w"

static void test_persistent(void)
{
    static const char *const clauses[] = { "", "raster (group = 3)", REVERSE, SHUFFLE,
        REVERSE " raster (group = 4)" };
    for (int k = 0; k < 5; k++) {
        check(&(Expect){ "gemm", "cuda:sm_90a", clauses[k], NULL, true });
        check(&(Expect){ "attention", "cuda:sm_90a", clauses[k], NULL, true });
    }
}

static void test_plain(void)
{
    static const char *const clauses[] = { "", "raster (group = 5)", SHUFFLE " raster (group = 2)" };
    for (int k = 0; k < 3; k++) {
        check(&(Expect){ "gemm", "cuda:sm_80", clauses[k], NULL, false });
        check(&(Expect){ "attention", "cuda:sm_80", clauses[k], NULL, false });
    }
    check(&(Expect){ "changes", "cuda:sm_90a", "", NULL, false });
}

/* What is no permutation is seen here too (a launch refuses it). */
static void test_bad(void)
{
    static const char *const clauses[] = { "remap (w) = w / 2",
        "remap (w) = (w%8)*(num_programs()/8) + w/8 raster (group = 4)" };
    for (int k = 0; k < 2; k++) {
        CU_ASSERT(!covered(&(Expect){ "gemm", "cuda:sm_90a", clauses[k], NULL, true }));
        CU_ASSERT(!covered(&(Expect){ "attention", "hip:gfx942", clauses[k], "head", false }));
    }
}

static void test_chiplets(void)
{
    static const char *const clauses[] = { "", "raster (group = 5)", REVERSE, SHUFFLE " raster (group = 2)" },
                             *const remaps[] = { "xcd", "chunk", "chunk:7", "head", "head:2",
                                 "chunk+raster:4", "auto" };
    for (int k = 0; k < 4; k++)
        for (int r = 0; r < 7; r++) {
            check(&(Expect){ "gemm", "hip:gfx942", clauses[k], remaps[r], false });
            check(
                &(Expect){ "attention", r % 2 ? "hip:gfx950" : "hip:gfx942", clauses[k], remaps[r], false });
        }
}

UNIT_MAIN("order", { "persistent", test_persistent }, { "plain", test_plain }, { "bad", test_bad },
    { "chiplets", test_chiplets })
