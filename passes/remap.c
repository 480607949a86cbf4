/* remap.c: which program runs where: the launch's linear id is sent to the linear id to run, through the function's remap block.
 *
 *     hint raster_group = 8                      remap (%w: index, ..) {
 *     grid (cdiv(M, 128), cdiv(N, 128))   ->       .. bands of 8 rows of programs, walked column by column
 *                                                  yield %linear
 *                                                }
 * Order of composition: the chiplet's remap (--remap=) is nearest the hardware, then a remap written by the user, then the raster. A
 * composition of permutations is one. Backends and launchers evaluate the block; nothing else changes.
 *
 * The built-in ones permute [0, P) for every P and every grid. P programs, X chiplets, n0 x n1 the first two grid axes, first fastest:
 *
 *   raster(G)     In each plane of n0*n1 programs, band b is the rows [b*G, b*G + s), s = min(G, n0 - b*G). Ids [b*G*n1, b*G*n1 + s*n1) belong
 *                 to band b: these intervals are disjoint and cover the plane, because all bands but the last have s = G. Within a band,
 *                 r -> (b*G + r % s, r / s) is a bijection of [0, s*n1) onto its s x n1 programs.
 *   xcd           Workgroups go to chiplet w % X in turn (dispatch order of MI300X). x = w % X, k = w / X: chiplet x gets q + (x < r) ids, q = P / X, r =
 *                 P % X, and runs the interval that starts at x*q + min(x, r), the sum of the counts before it; k counts through it. Intervals of
 *                 consecutive starts are disjoint and cover [0, P).
 *   chunk(C)      C consecutive programs (by default as many as a chiplet has compute units) stay on one chiplet. Ids below F = P - P % (X*C) are permuted within each block of X*C: (x, k) ->
 *                 x*C + k, with x = u % X, k = u / X, is a bijection of [0, X*C). The rest is an `xcd` of its own over P - F.
 *   head          Attention: axis 0 counts the tiles of a head, the others heads. With U = whole units (heads) and V = U / X, the first V*X units go
 *                 V to a chiplet, all of a unit's programs to the same: (x, k) -> x*V*n0 + k on [0, V*X*n0), a bijection as above; what is left is
 *                 an `xcd` of its own, which splits at most X - 1 heads. Heads that share keys are neighbours and so stay together.
 *
 * A user's own expression is checked at launch (ir/eval.h, eval_check_remap), not here.
 *
 * Requires: nothing; runs late. Keeps: everything; hints.raster_group and hints.remap are taken. Does not do: placement from a cache model. */
#include "passes/pass.h"

typedef struct Emit { Builder b; } Emit;

static Value *num(Emit *e, int64_t v) { return ir_index(&e->b, v); }
static Value *bin(Emit *e, Op op, Value *x, Value *y) { return ir_bin(&e->b, op, x, y); }
static Value *programs(Emit *e, int axis)
{
    return ir_emit(&e->b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, axis)), NULL);
}

/* In 32 bits: no launch has 2^31 programs, and with the band's height cut to the grid's nothing here passes their number. */
static Value *emit_raster(Emit *e, Value *w, int64_t group, int rank)
{
    Value *n0 = ir_cast(&e->b, programs(e, 0), DT_I32), *n1 = ir_cast(&e->b, programs(e, 1), DT_I32);
    Value *g = bin(e, OP_MIN, ir_cast(&e->b, num(e, group), DT_I32), n0);
    w = ir_cast(&e->b, w, DT_I32);
    Value *t = rank > 2 ? bin(e, OP_REM, w, bin(e, OP_MUL, n0, n1)) : w, *batch = rank > 2 ? bin(e, OP_SUB, w, t) : NULL;
    Value *band_size = bin(e, OP_MUL, g, n1), *band = bin(e, OP_DIV, t, band_size), *r = bin(e, OP_REM, t, band_size);
    Value *first = bin(e, OP_MUL, band, g), *s = bin(e, OP_MIN, g, bin(e, OP_SUB, n0, first));
    Value *i = bin(e, OP_ADD, first, bin(e, OP_REM, r, s)), *j = bin(e, OP_DIV, r, s);
    w = bin(e, OP_ADD, bin(e, OP_MUL, j, n0), i);
    return ir_cast(&e->b, batch ? bin(e, OP_ADD, batch, w) : w, DT_INDEX);
}

static Value *emit_xcd(Emit *e, Value *w, Value *p, int64_t xcds)
{
    Value *n = num(e, xcds), *x = bin(e, OP_REM, w, n), *k = bin(e, OP_DIV, w, n);
    Value *q = bin(e, OP_DIV, p, n), *r = bin(e, OP_REM, p, n);
    Value *start = bin(e, OP_ADD, bin(e, OP_MUL, x, q), bin(e, OP_MIN, x, r));
    return bin(e, OP_ADD, start, k);
}

/* Ids from `full` on are an `xcd` of their own. */
static Value *or_rest(Emit *e, Value *w, Value *p, Value *full, Value *inside, int64_t xcds)
{
    Value *rest = bin(e, OP_ADD, full, emit_xcd(e, bin(e, OP_SUB, w, full), bin(e, OP_SUB, p, full), xcds));
    return ir_op(&e->b, OP_WHERE, NULL, NO_ATTRS, bin(e, OP_LT, w, full), inside, rest);
}

static Value *emit_chunk(Emit *e, Value *w, Value *p, int64_t xcds, int64_t chunk)
{
    Value *n = num(e, xcds), *block = num(e, xcds * chunk), *full = bin(e, OP_SUB, p, bin(e, OP_REM, p, block));
    Value *u = bin(e, OP_REM, w, block), *base = bin(e, OP_SUB, w, u);
    Value *to = bin(e, OP_ADD, bin(e, OP_MUL, bin(e, OP_REM, u, n), num(e, chunk)), bin(e, OP_DIV, u, n));
    return or_rest(e, w, p, full, bin(e, OP_ADD, base, to), xcds);
}

static Value *emit_head(Emit *e, Value *w, Value *p, int64_t xcds)
{
    Value *n = num(e, xcds), *n0 = programs(e, 0), *share = bin(e, OP_MUL, bin(e, OP_DIV, bin(e, OP_DIV, p, n0), n), n0);
    Value *inside = bin(e, OP_ADD, bin(e, OP_MUL, bin(e, OP_REM, w, n), share), bin(e, OP_DIV, w, n));
    return or_rest(e, w, p, bin(e, OP_MUL, share, n), inside, xcds);
}

/* --- choosing --------------------------------------------------------------------------------------------------------------------- */

typedef enum Kind { KIND_NONE, KIND_XCD, KIND_CHUNK, KIND_HEAD } Kind;

/* Accelerator complex dies that share the dispatch of one grid. AMD CDNA 3 and 4: MI300X and MI355X have eight. */
static int64_t chiplets(const PassOptions *o)
{
    if (o->xcds > 0) return o->xcds;
    const Target *t = o->target;
    return t && t->kind == TARGET_HIP && (t->arch == 0x942 || t->arch == 0x950) ? 8 : 1;
}

/* What one chiplet runs at a time, a program a compute unit: neighbours in time are then neighbours in the grid. */
static int64_t programs_at_once(const PassOptions *o)
{
    int64_t units = o->target && o->target->n_sms ? o->target->n_sms / chiplets(o) : 64;
    return units < 1 ? 1 : units;
}

static bool parse_kind(PassContext *c, const Func *f, int rank, Kind *kind, int64_t *chunk)
{
    const char *name = c->options->remap ? c->options->remap : f->hints.remap;
    *kind = KIND_NONE;
    *chunk = 0;
    if (!name || !strcmp(name, "none")) return true;
    if (!strcmp(name, "xcd")) *kind = KIND_XCD;
    else if (!strcmp(name, "head")) *kind = KIND_HEAD;
    else if (!strcmp(name, "auto")) *kind = rank == 3 ? KIND_HEAD : KIND_XCD;
    else if (!strncmp(name, "chunk", 5) && (!name[5] || name[5] == ':')) {
        *kind = KIND_CHUNK;
        if (!name[5]) *chunk = programs_at_once(c->options);
        for (const char *p = name[5] ? name + 6 : ""; *p >= '0' && *p <= '9' && *chunk < 1 << 20; p++) *chunk = 10 * *chunk + (*p - '0');
    } else {
        diag_error(c->session, f->loc, "--remap=%s: expected none, xcd, chunk, chunk:N, head or auto", name);
        return false;
    }
    if (*kind == KIND_CHUNK && *chunk < 1) {
        diag_error(c->session, f->loc, "--remap=%s: a chunk has at least one program", name);
        return false;
    }
    return true;
}

static Block *new_block(Func *f)
{
    Session *s = f->module->session;
    Block *b = ir_block_new(f, NULL);
    ir_block_arg(b, type_scalar(s, DT_INDEX), "w");
    for (int k = 0; k < f->body->n_args; k++) ir_block_arg(b, f->body->args[k]->type, f->params[k].name);
    return b;
}

/* The user's remap, applied to `w`. */
static Value *emit_user(PassContext *c, Emit *e, Func *f, Value *w)
{
    ValueMap map;
    value_map_init(&map, c->scratch);
    value_map_set(&map, f->remap->args[0], ir_cast(&e->b, w, f->remap->args[0]->type->dtype));
    for (int k = 1; k < f->remap->n_args; k++) value_map_set(&map, f->remap->args[k], e->b.block->args[k]);
    ir_clone_block_into(&e->b, f->remap, &map, false);
    return ir_cast(&e->b, value_map_get(&map, ir_operand(ir_terminator(f->remap), 0)), DT_INDEX);
}

static bool remap_func(PassContext *c, Func *f)
{
    Kind kind;
    int64_t chunk, xcds = chiplets(c->options);
    const Instr *end = f->grid ? ir_terminator(f->grid) : NULL;
    int rank = end ? end->n_operands : 0;
    if (!f->is_kernel || !end || !parse_kind(c, f, rank, &kind, &chunk)) return false;
    bool raster = rank >= 2 && f->hints.raster_group > 1;
    if (xcds < 2) kind = KIND_NONE;
    if (kind == KIND_NONE && !raster) return false;
    Block *b = new_block(f);
    Emit e = { ir_at_end(b) };
    e.b.loc = f->loc;
    Value *w = b->args[0], *p = kind == KIND_NONE ? NULL : programs(&e, -1);
    switch (kind) {
    case KIND_NONE: break;
    case KIND_XCD: w = emit_xcd(&e, w, p, xcds); break;
    case KIND_CHUNK: w = emit_chunk(&e, w, p, xcds, chunk); break;
    case KIND_HEAD: w = emit_head(&e, w, p, xcds); break;
    }
    if (f->remap) w = emit_user(c, &e, f, w);
    if (raster) w = emit_raster(&e, w, f->hints.raster_group, rank);
    ir_build(&e.b, OP_YIELD, &w, 1, NO_ATTRS, NULL, 0);
    f->remap = b;
    pass_count(c, "programs placed by chiplet", kind != KIND_NONE);
    pass_count(c, "grids rastered in bands", raster);
    if (raster) f->hints.raster_group = 0;
    f->hints.remap = NULL;
    return true;
}

bool pass_remap(PassContext *c, Module *m) { return pass_each_func(c, m, remap_func); }
