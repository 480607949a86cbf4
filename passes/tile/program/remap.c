/* remap: chooses which program runs where: it sends the launch's linear id to the linear id to run,
 * through the function's remap block.
 *
 *   hint raster_group = 8                      remap (%w: index, ..) {
 *   grid (cdiv(M, 128), cdiv(N, 128))   ->       .. bands of 8 rows of programs, walked column by column
 *                                                yield %linear
 *                                              }
 *
 * Order of composition: the chiplet's remap (--remap=) is nearest to the hardware, then comes a remap
 * written by the user, then the raster. A composition of permutations is a permutation. Backends and
 * launchers evaluate the block; nothing else changes.
 *
 * The built-in remaps permute [0, P) for every P and every grid. P is the number of programs, X that of
 * chiplets, and n0 x n1 are the first two grid axes, the first one fastest.
 *
 * raster(G): in each plane of n0*n1 programs, band b is the rows [b*G, b*G + s), s = min(G, n0 - b*G). Ids
 * [b*G*n1, b*G*n1 + s*n1) belong to band b. These intervals are disjoint and cover the plane, because all
 * bands but the last have s = G. Within a band, r -> (b*G + r % s, r / s) is a bijection of [0, s*n1) onto
 * its s x n1 programs.
 *
 * xcd: workgroups go to chiplet w % X in turn (the dispatch order of MI300X). Let x = w % X, k = w / X, q
 * = P / X and r = P % X. Chiplet x gets q + (x < r) ids and runs the interval that starts at x*q + min(x,
 * r), the sum of the counts before it; k counts through it. Intervals of consecutive starts are disjoint
 * and cover [0, P).
 *
 * chunk(C): C consecutive programs stay on one chiplet. Ids below F = P - P % (X*C) are permuted within
 * each block of X*C: (x, k) -> x*C + k, with x = u % X, k = u / X, is a bijection of [0, X*C). The rest is
 * an `xcd` of its own over P - F. Without a number, chunk_size computes C from the grid. Any C of at least
 * 1 is valid.
 *
 * head(G): for attention, where axis 0 counts the tiles of a head and the others count heads. A unit is G
 * heads, of n0*G programs. With V = (whole units) / X, the first V*X units go V to a chiplet, all of a
 * unit's programs to the same one: (x, k) -> x*S + k on [0, X*S), S = V*n0*G, is a bijection as above. The
 * rest is an `xcd` of its own. Without a number, heads_together finds G, the heads that share keys. Any G
 * of at least 1 is valid.
 *
 * A user's own expression is checked at launch (eval_check_remap in ir/interp/eval.h), and here already where
 * all extents are known. A function without one is marked `permutes`.
 *
 * Requires: nothing; it runs late. Keeps: everything; it takes hints.raster_group and hints.remap. */
#include "passes/tile/program/remap.h"
#include "ir/interp/eval.h"

typedef struct Emit {
    Builder b;
    PassContext *c;
    Func *f;
    int64_t chiplets;
} Emit;

/* In 32 bits: no launch has 2^31 programs, and nothing here passes their number (sizes are cut to it first).
 */
static Value *num(Emit *e, int64_t v) { return ir_cast(&e->b, ir_index(&e->b, v), DT_I32); }
static Value *bin(Emit *e, Op op, Value *x, Value *y) { return ir_bin(&e->b, op, x, y); }
static Value *programs(Emit *e, int axis)
{
    return ir_cast(
        &e->b, ir_emit(&e->b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, axis)), NULL), DT_I32);
}

static Value *emit_raster(Emit *e, Value *w, int64_t group, int rank)
{
    Value *n0 = programs(e, 0), *n1 = programs(e, 1), *g = bin(e, OP_MIN, num(e, group), n0);
    Value *t = rank > 2 ? bin(e, OP_REM, w, bin(e, OP_MUL, n0, n1)) : w,
          *batch = rank > 2 ? bin(e, OP_SUB, w, t) : NULL;
    Value *band_size = bin(e, OP_MUL, g, n1), *band = bin(e, OP_DIV, t, band_size),
          *r = bin(e, OP_REM, t, band_size);
    Value *first = bin(e, OP_MUL, band, g), *s = bin(e, OP_MIN, g, bin(e, OP_SUB, n0, first));
    Value *i = bin(e, OP_ADD, first, bin(e, OP_REM, r, s)), *j = bin(e, OP_DIV, r, s);
    w = bin(e, OP_ADD, bin(e, OP_MUL, j, n0), i);
    return batch ? bin(e, OP_ADD, batch, w) : w;
}

static Value *emit_xcd(Emit *e, Value *w, Value *p)
{
    Value *n = num(e, e->chiplets), *x = bin(e, OP_REM, w, n), *k = bin(e, OP_DIV, w, n);
    Value *q = bin(e, OP_DIV, p, n), *r = bin(e, OP_REM, p, n);
    Value *more = bin(e, OP_MIN, x, r), *start = bin(e, OP_ADD, bin(e, OP_MUL, x, q), more);
    return bin(e, OP_ADD, start, k);
}

/* Ids from `full` on are an `xcd` of their own. */
static Value *or_rest(Emit *e, Value *w, Value *p, Value *full, Value *inside)
{
    Value *left = bin(e, OP_SUB, p, full), *at = bin(e, OP_SUB, w, full),
          *rest = bin(e, OP_ADD, full, emit_xcd(e, at, left));
    return ir_op(&e->b, OP_WHERE, NULL, NO_ATTRS, bin(e, OP_LT, w, full), inside, rest);
}

/* As many programs as a chiplet runs at a time, in whole pieces of what runs along axis 0: a line of the
 * grid, or a column of the raster's band. A line too long is cut into equal pieces. No chiplet goes without:
 * at most P / X. */
static Value *chunk_size(Emit *e, Value *p, int rank, int64_t raster)
{
    int64_t units = remap_at_once(e->c->options, e->f);
    Value *u = num(e, units), *one = num(e, 1), *size = u;
    if (rank >= 2) {
        Value *line = programs(e, 0);
        if (raster > 1) line = bin(e, OP_MIN, line, num(e, raster));
        line = bin(e, OP_MAX, line, one);
        Value *whole = bin(e, OP_MUL, bin(e, OP_DIV, u, line), line),
              *piece = bin(e, OP_CDIV, line, bin(e, OP_CDIV, line, u));
        size = ir_op(&e->b, OP_WHERE, NULL, NO_ATTRS, bin(e, OP_LE, line, u), whole, piece);
    }
    return bin(e, OP_MAX, one, bin(e, OP_MIN, size, bin(e, OP_DIV, p, num(e, e->chiplets))));
}

static Value *emit_chunk(Emit *e, Value *w, Value *p, Value *chunk)
{
    Value *n = num(e, e->chiplets), *block = bin(e, OP_MUL, n, chunk),
          *full = bin(e, OP_SUB, p, bin(e, OP_REM, p, block));
    Value *u = bin(e, OP_REM, w, block), *base = bin(e, OP_SUB, w, u);
    Value *nth = bin(e, OP_DIV, u, n), *to = bin(e, OP_ADD, bin(e, OP_MUL, bin(e, OP_REM, u, n), chunk), nth);
    return or_rest(e, w, p, full, bin(e, OP_ADD, base, to));
}

static Value *emit_head(Emit *e, Value *w, Value *p, Value *group)
{
    Value *n = num(e, e->chiplets), *n0 = programs(e, 0), *lines = bin(e, OP_DIV, p, n0),
          *most = bin(e, OP_MAX, num(e, 1), lines);
    Value *unit = bin(e, OP_MUL, n0, bin(e, OP_MIN, group, most));
    Value *share = bin(e, OP_MUL, bin(e, OP_DIV, bin(e, OP_DIV, p, unit), n), unit);
    Value *nth = bin(e, OP_DIV, w, n),
          *inside = bin(e, OP_ADD, bin(e, OP_MUL, bin(e, OP_REM, w, n), share), nth);
    return or_rest(e, w, p, bin(e, OP_MUL, share, n), inside);
}

/* --- heads that share keys --------------------------------------------------------------------------- */

typedef struct Share {
    Func *f;
    int dim;
} Share;

/* Is v computed from grid axis 1 by way of a division? 1: from the axis; 2: divided. */
static int from_head(const Value *v, int depth)
{
    const Instr *d = v->def;
    int most = 0;
    if (!d || depth > 16) return 0;
    if (d->op == OP_PROGRAM_ID) return ir_attr_int(d, ATTR_AXIS, 0) == 1;
    if (v->type->kind != TYPE_SCALAR || !(op_info[d->op].flags & OPF_ELEM)) return 0;
    for (int k = 0; k < d->n_operands; k++) {
        int x = from_head(ir_operand(d, k), depth + 1);
        if (x > most) most = x;
    }
    return most && (d->op == OP_DIV || d->op == OP_SHR) ? 2 : most;
}

static void find_sharing(void *user, Instr *i)
{
    Share *s = user;
    MemParts m;
    if (s->dim >= 0 || i->op != OP_LOAD || !ir_mem_parts(i, &m)) return;
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    for (int a = 0; a < m.rank; a++)
        if (e->v[a] == -1 && from_head(m.idx[a], 0) == 2) {
            s->dim = s->f->params[m.param].dims[a];
            return;
        }
}

/* H query heads on axis 1 read key head h * HK / H of HK: H / HK of them share one. 1 where no load looks
 * like that. */
static Value *heads_together(Emit *e, int rank)
{
    Share s = { e->f, -1 };
    if (rank >= 2) ir_walk(e->f->body, find_sharing, &s);
    if (s.dim < 0) return num(e, 1);
    int64_t extent = e->f->dims[s.dim].extent;
    Value *keys = extent >= 0 ? ir_index(&e->b, extent)
                              : ir_emit(&e->b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, s.dim)), NULL);
    keys = ir_cast(&e->b, bin(e, OP_MIN, keys, ir_index(&e->b, INT32_MAX)), DT_I32);
    Value *sharing = bin(e, OP_DIV, programs(e, 1), keys);
    return bin(e, OP_MAX, num(e, 1), sharing);
}

/* --- names ------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = { "none", "xcd", "chunk", "head", "auto" };

int64_t remap_chiplets(const PassOptions *o)
{
    if (o->xcds > 0) return o->xcds;
    const Target *t = o->target;
    return t ? t->chiplets : 1;
}

int64_t remap_at_once(const PassOptions *o, const Func *f)
{
    enum { UNITS_UNKNOWN = 38 }; /* the multiprocessors of a chiplet of MI300X (passes/sim/devices.def) */
    int64_t units = o->target && o->target->n_sms ? o->target->n_sms / remap_chiplets(o) : UNITS_UNKNOWN;
    return (units < 1 ? 1 : units) * (f->hints.occupancy > 0 ? f->hints.occupancy : 1);
}

const char *remap_text(Arena *a, RemapSpec s)
{
    Text t;
    text_init(&t, a);
    text_puts(&t, kind_names[s.kind]);
    if (s.number) text_printf(&t, ":%lld", (long long)s.number);
    if (s.raster > 1) text_printf(&t, "+raster:%lld", (long long)s.raster);
    return t.data;
}

/* ":N" at *p. False: no number from 1 to 2^20. */
static bool parse_number(const char **p, int64_t *n)
{
    if (**p != ':') return true;
    *n = 0;
    for (++*p; **p >= '0' && **p <= '9' && *n <= 1 << 20; ++*p) *n = 10 * *n + (**p - '0');
    return *n >= 1 && *n <= 1 << 20;
}

static bool parse_spec(PassContext *c, const Func *f, const char *text, RemapSpec *s)
{
    const char *p = text;
    int k = 0, n = sizeof kind_names / sizeof *kind_names;
    size_t len = strcspn(text, ":+");
    while (k < n && (strlen(kind_names[k]) != len || memcmp(kind_names[k], text, len))) k++;
    if (k == n) goto bad;
    s->kind = (RemapKind)k;
    p += len;
    if (*p == ':' && s->kind != REMAP_CHUNK && s->kind != REMAP_HEAD) goto bad;
    if (!parse_number(&p, &s->number)) goto number;
    if (!strncmp(p, "+raster:", 8)) {
        p += 7;
        if (!parse_number(&p, &s->raster)) goto number;
    }
    if (!*p) return true;
bad:
    diag_error(c->session, f->loc,
        "--remap=%s: expected none, xcd, chunk, chunk:N, head, head:N or auto, then perhaps +raster:N", text);
    return false;
number:
    diag_error(c->session, f->loc, "--remap=%s: %s", text,
        s->kind == REMAP_CHUNK && !strchr(text, '+') ? "a chunk has at least one program"
                                                     : "expected a number from 1 to 1048576");
    return false;
}

/* --- the block --------------------------------------------------------------------------------------- */

/* The user's remap, applied to `w`. */
static Value *emit_user(Emit *e, Value *w)
{
    Func *f = e->f;
    ValueMap map;
    value_map_init(&map, e->c->scratch);
    value_map_set(&map, f->remap->args[0], ir_cast(&e->b, w, f->remap->args[0]->type->dtype));
    for (int k = 1; k < f->remap->n_args; k++) value_map_set(&map, f->remap->args[k], e->b.block->args[k]);
    ir_clone_block_into(&e->b, f->remap, &map, false);
    return ir_cast(&e->b, value_map_get(&map, ir_operand(ir_terminator(f->remap), 0)), DT_I32);
}

static Block *new_block(Func *f)
{
    Session *s = f->module->session;
    Block *b = ir_block_new(f, NULL);
    ir_block_arg(b, type_scalar(s, DT_INDEX), "w");
    for (int k = 0; k < f->body->n_args; k++) ir_block_arg(b, f->body->args[k]->type, f->params[k].name);
    return b;
}

Block *remap_block(PassContext *c, Func *f, RemapSpec s)
{
    int rank = ir_terminator(f->grid)->n_operands;
    bool raster = rank >= 2 && s.raster > 1;
    if (s.kind == REMAP_NONE && !raster) return f->remap;
    Emit e = { ir_at_end(new_block(f)), c, f, remap_chiplets(c->options) };
    e.b.loc = f->loc;
    Value *w = ir_cast(&e.b, e.b.block->args[0], DT_I32), *p = s.kind == REMAP_NONE ? NULL : programs(&e, -1);
    switch (s.kind) {
    case REMAP_NONE:
    case REMAP_AUTO: break;
    case REMAP_XCD: w = emit_xcd(&e, w, p); break;
    case REMAP_CHUNK:
        w = emit_chunk(&e, w, p, s.number ? num(&e, s.number) : chunk_size(&e, p, rank, s.raster));
        break;
    case REMAP_HEAD: w = emit_head(&e, w, p, s.number ? num(&e, s.number) : heads_together(&e, rank)); break;
    }
    if (f->remap) w = emit_user(&e, w);
    if (raster) w = emit_raster(&e, w, s.raster, rank);
    w = ir_cast(&e.b, w, DT_INDEX);
    ir_build(&e.b, OP_YIELD, &w, 1, NO_ATTRS, NULL, 0);
    return e.b.block;
}

/* --- a user's remap on a grid that is known ---------------------------------------------------------- */

enum { MOST_CHECKED_HERE = 1 << 18 };

static bool check_known(PassContext *c, Func *f)
{
    const char *why;
    EvalClash clash = { 0 };
    int64_t programs = 1, *dims = arena_array(c->scratch, int64_t, (size_t)f->n_dims + 1), out[8];
    const Instr *end = ir_terminator(f->remap);
    for (int d = 0; d < f->n_dims; d++)
        if ((dims[d] = f->dims[d].extent) < 0) return true;
    const EvalCode *grid = eval_compile(c->scratch, f, f->grid, &why),
                   *code = eval_compile(c->scratch, f, f->remap, &why);
    if (!grid || !code || eval_reads_scalars(grid) || eval_reads_scalars(code) ||
        ir_holds(f->grid, OP_STRIDE) || ir_holds(f->remap, OP_STRIDE))
        return true;
    EvalEnv env = { .dims = dims, .grid = { 1, 1, 1 } };
    if (!eval_run(grid, &env, out, 8)) return true;
    for (int k = 0; k < eval_results(grid) && k < 3; k++)
        if ((env.grid[k] = out[k]) < 0 || __builtin_mul_overflow(programs, out[k], &programs) ||
            programs > MOST_CHECKED_HERE)
            return true;
    switch (eval_check_remap(code, &env, programs, c->session->arena.alloc, &clash)) {
    case EVAL_BIJECTION:
    case EVAL_NOT_CHECKED: return true;
    case EVAL_NO_MEMORY: arena_oom(&c->session->arena);
    case EVAL_COLLISION:
        diag_error(c->session, end->loc,
            "the remap is no permutation of the %lld programs: programs %lld and %lld both become %lld",
            (long long)programs, (long long)clash.a, (long long)clash.b, (long long)clash.to);
        return false;
    case EVAL_OUT_OF_RANGE:
        diag_error(c->session, end->loc, "the remap sends program %lld to %lld, outside of the %lld programs",
            (long long)clash.a, (long long)clash.to, (long long)programs);
        return false;
    case EVAL_FAILED:
        diag_error(
            c->session, end->loc, "the remap's expression does not end for program %lld", (long long)clash.a);
        return false;
    }
    return true;
}

static bool remap_func(PassContext *c, Func *f)
{
    RemapSpec s = { .raster = f->hints.raster_group };
    const Instr *end = f->grid ? ir_terminator(f->grid) : NULL;
    const char *name = c->options->remap ? c->options->remap : f->hints.remap;
    if (!f->is_kernel || !end || (name && !parse_spec(c, f, name, &s))) return false;
    if (f->remap && !f->permutes && !check_known(c, f)) return false;
    if (remap_chiplets(c->options) < 2) s.kind = REMAP_NONE;
    if (s.kind == REMAP_AUTO) s = remap_choose(c, f, end->n_operands, s.raster);
    c->report->remap = remap_text(&c->session->arena, s);
    Block *b = remap_block(c, f, s);
    if (b == f->remap) return false;
    if (!f->remap) f->permutes = true;
    f->remap = b;
    pass_count(c, "programs placed by chiplet", s.kind != REMAP_NONE);
    pass_count(c, "grids rastered in bands", end->n_operands >= 2 && s.raster > 1);
    f->hints.raster_group = 0;
    f->hints.remap = NULL;
    return true;
}

bool pass_remap(PassContext *c, Module *m) { return pass_each_func(c, m, remap_func); }
