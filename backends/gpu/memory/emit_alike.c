/* emit_alike.c: gathers of elements beside each other that have one index, or two, such as weights of
 * channels of many elements each (passes/kernel/gather/few_indices.c).
 *
 *   one index    x = W[at]                       for each vector of a lane
 *   two at most  first = W[at of element 0]      element k: behind > k ? first : last
 *                last  = W[at of the last one]   behind = by - counter of element 0 % by
 *
 * Two elements are those of a vector of a lane, or of a group of elements of a warp: lane k then reads for
 * group k, and a shuffle hands both to all lanes. Elements of 16 bits share a word, and a permutation
 * chooses. Where `opaque` alone reads the gather, as hoist-loads leaves those that start in front of a
 * reduction, elements are chosen there, and registers hold only what was read until then. */
#include "backends/gpu/memory/emit_indexed.h"
#include "passes/kernel/gather/few_indices.h"

/* What is read of a gather whose elements are not chosen yet: arrays with a place for each vector, or
 * variables. */
typedef struct ReadGather {
    const Value *tile;
    const char *first, *last; /* last: NULL where words of `first` have both */
    FewIndices few;
    Indexed x;
} ReadGather;

typedef struct ReadGathers {
    VEC(ReadGather) all;
} ReadGathers;

/* Reads the element at the offset, where a condition holds, to a new variable. */
static void read_one(
    Emit *e, const Indexed *x, const char *base, const char *at, const char *cond, const char *to, Index *r)
{
    const char *p = indexed_pointer(e, x, base, at);
    line(e, "%s %s = %s;", ctype(x->bits), to, indexed_padding(e, x));
    if (*cond) line(e, "if (%s)", cond);
    indexed_access(e, x, to, p, r);
}

/* Whether words of registers hold two elements, of which a permutation chooses. */
static bool in_halves(const Emit *e, const Indexed *x)
{ return e->target->kind == TARGET_CUDA && per_word(x->d) == 2; }

static const char *both_halves(Emit *e, const char *first, const char *last)
{ return str(e, "%s(%s, %s, 0x5410u)", use(e, "byte_perm"), first, last); }

/* --- one index ----------------------------------------------------------------------------------------- */

static void access_alike(Emit *e, const Indexed *x, const LayoutVector *v, const char *base)
{
    Index *c[TILE_MAX_RANK];
    bool follow;
    const int pw = per_word(x->d);
    const char *old = tmp(e, "x"), *at, *same[4] = { old, old, old, old };
    begin_unrolled(e, "v", (int)layout_regs(x->l) / (int)v->n);
    Index *r = vector_base(e, x->l, v, "v", &follow);
    const char *cond = indexed_condition(e, x, r, c, &at), *word = old;
    read_one(e, x, base, at, cond, old, r);
    if (pw > 1)
        line(e, "const %s %s = %s;", array_type(x->d), word = tmp(e, "w"), indexed_word(e, x, same, pw));
    for (int k = 0; k < (int)v->n; k += pw) {
        const char *to = index_text(e, vector_reg(e, v, r, k));
        line(e, "%s[%s] = %s;", x->result, pw > 1 ? str(e, "(%s) / %d", to, pw) : to, word);
    }
    end_block(e);
}

/* --- two of each vector -------------------------------------------------------------------------------- */

/* Reads the first and the last element of each vector. No vector is partly beyond the tile. */
static void read_vectors(Emit *e, ReadGather *g, const char *base)
{
    const Indexed *x = &g->x;
    const LayoutVector *v = &g->few.v;
    bool follow, halves = in_halves(e, x);
    const int vectors = (int)layout_regs(x->l) / (int)v->n;
    const char *one = tmp(e, "x"), *other = tmp(e, "x"), *at, *cond;
    line(e, "%s %s[%d];", halves ? "u32" : ctype(x->bits), g->first, vectors);
    if (!halves) line(e, "%s %s[%d];", ctype(x->bits), g->last, vectors);
    begin_unrolled(e, "v", vectors);
    Index *c[TILE_MAX_RANK], *r = vector_base(e, x->l, v, "v", &follow),
                             *z = vector_reg(e, v, r, (int)v->n - 1);
    cond = indexed_condition(e, x, r, c, &at);
    read_one(e, x, base, at, cond, one, r);
    cond = indexed_condition(e, x, z, c, &at);
    read_one(e, x, base, at, cond, other, z);
    line(e, "%s[v] = %s;", g->first, halves ? both_halves(e, one, other) : one);
    if (!halves) line(e, "%s[v] = %s;", g->last, other);
    end_block(e);
}

/* --- two of each group of a warp ----------------------------------------------------------------------- */

/* The coordinate of lane 0 in front of its groups. */
static const char *warp_begin(Emit *e, const ReadGather *g)
{ return str(e, "(%s - lane * %d)", index_text(e, thread_coord(e, g->x.l, 0)), g->few.n); }

/* Reads the element that the tile has at the coordinate. It may lie behind the tile, so that nothing is known
 * of its indices but that those behind the last element are of use only if they are in range. */
static void read_at(Emit *e, const ReadGather *g, const char *base, const char *place, const char *to)
{
    const Indexed *x = &g->x;
    Index *c[] = { index_variable(e, place) };
    const char *at = NULL, *cond = str(e, "lane < %d", g->few.groups);
    for (int a = 0; a < x->m.rank; a++) {
        const char *ix = element_at(e, x->m.idx[a], c), *t = indexed_distance(e, &x->m, a, ix);
        cond = both_conditions(e, cond, indexed_within(e, &x->m, a, ix));
        at = at ? str(e, "%s + %s", at, t) : t;
    }
    read_one(e, x, base, str(e, e->f->fits32 ? "(i32)(%s)" : "(i64)(%s)", at), cond, to, NULL);
}

static void read_groups(Emit *e, ReadGather *g, const char *base)
{
    const FewIndices *w = &g->few;
    bool halves = in_halves(e, &g->x);
    const char *one = halves ? tmp(e, "x") : g->first, *other = halves ? tmp(e, "x") : g->last,
               *near = tmp(e, "at"), *far = tmp(e, "at");
    line(e, "const int %s = %s + %d + lane * %d;", near, warp_begin(e, g), w->first, w->apart);
    line(e, "const int %s = %s + %d;", far, near, w->n * e->target->wave - 1);
    read_at(e, g, base, near, one);
    read_at(e, g, base, far, other);
    if (halves) line(e, "const u32 %s = %s;", g->first, both_halves(e, one, other));
}

/* --- the choice ---------------------------------------------------------------------------------------- */

/* The word of the elements of a vector from k on, of which the first `behind` have the first index. Gathers
 * of the same indices share the choice of a permutation. */
static const char *chosen(
    Emit *e, const ReadGather *g, const char *first, const char *last, const char *behind, int k)
{
    const char *xs[4];
    const int pw = per_word(g->x.d);
    if (!last && g->few.alike)
        return str(e, "%s(%s, 0, %s > 0 ? 0x1010u : 0x3232u)", use(e, "byte_perm"), first, behind);
    if (!last)
        return str(e, "%s(%s, 0, %s > %d ? 0x1010u : %s > %d ? 0x3210u : 0x3232u)", use(e, "byte_perm"),
            first, behind, k + 1, behind, k);
    for (int j = 0; j < pw; j++)
        xs[j] = str(e, "(%s > %d ? %s : %s)", behind, g->few.alike ? 0 : k + j, first, last);
    return pw > 1 ? indexed_word(e, &g->x, xs, pw) : xs[0];
}

static void choose_in_vectors(Emit *e, const ReadGather *g, const char *result, const char *behind)
{
    bool follow;
    const int pw = per_word(g->x.d);
    const LayoutVector *v = &g->few.v;
    const char *first = str(e, "%s[v]", g->first), *last = g->last ? str(e, "%s[v]", g->last) : NULL;
    begin_unrolled(e, "v", (int)layout_regs(g->x.l) / (int)v->n);
    Index *c[TILE_MAX_RANK], *r = vector_base(e, g->x.l, v, "v", &follow);
    coords_at(e, g->x.l, r, c);
    line(e, "const int %s = %lld - (int)((u32)(%s) %% %lldu);", behind, (long long)g->few.step.by,
        element_at(e, g->few.step.counter, c), (long long)g->few.step.by);
    for (int k = 0; k < (int)v->n; k += pw) {
        const char *to = index_text(e, vector_reg(e, v, r, k));
        line(e, "%s[%s] = %s;", result, pw > 1 ? str(e, "(%s) / %d", to, pw) : to,
            chosen(e, g, first, last, behind, k));
    }
    end_block(e);
}

/* Hands what lane v has read to all lanes. */
static const char *handed(Emit *e, const ReadGather *g, const char *of)
{
    const char *to = tmp(e, "x"), *type = g->last ? ctype(g->x.bits) : "u32",
               *fn = use(e, str(e, "shuffle_from_%s", g->last ? dtype_name(g->x.bits) : "u32"));
    line(e, "const %s %s = %s(%s, v);", type, to, fn, of);
    return to;
}

static void choose_in_groups(Emit *e, const ReadGather *g, const char *result, const char *behind)
{
    const FewIndices *w = &g->few;
    const int pw = per_word(g->x.d);
    const char *place = tmp(e, "at"), *first, *last;
    Index *c[] = { index_variable(e, place) };
    begin_unrolled(e, "v", w->groups);
    line(e, "const int %s = %s + %d + v * %d;", place, warp_begin(e, g), w->first, w->apart);
    line(e, "const int %s = %lld - (int)((u32)(%s) %% %lldu) - lane * %d;", behind, (long long)w->step.by,
        element_at(e, w->step.counter, c), (long long)w->step.by, w->n);
    first = handed(e, g, g->first);
    last = g->last ? handed(e, g, g->last) : NULL;
    for (int k = 0; k < w->n; k += pw)
        line(e, "%s[%s] = %s;", result, index_text(e, index_linear(e, w->n / pw, "v", k / pw)),
            chosen(e, g, first, last, behind, k));
    end_block(e);
}

static void choose(Emit *e, const ReadGather *g, const char *result)
{
    const char *behind = tmp(e, "behind");
    if (g->few.way == GATHER_LANES) choose_in_groups(e, g, result, behind);
    else choose_in_vectors(e, g, result, behind);
}

/* Whether only `opaque` reads the tile. */
static bool waits_for_opaque(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->op != OP_OPAQUE || ir_attr_int(u->user, ATTR_ANEW, 0)) return false;
    return v->uses != NULL;
}

bool emit_alike(Emit *e, const Indexed *x, const char *base)
{
    if (!x->l || !x->result) return false;
    ReadGather g = { .tile = x->m.result, .x = *x };
    g.few = kernel_few_indices(e->f, &e->ranges, x->instr, x->l, e->target);
    /* Lanes of rows that begin anywhere have coordinates in front of the row. */
    bool moved = e->row_start.coord && layout_equal(x->l, e->row_start.layout);
    if (g.few.way == GATHER_EACH || (g.few.way == GATHER_LANES && moved)) return false;
    if (g.few.way == GATHER_ALIKE) {
        access_alike(e, x, &g.few.v, base);
        return true;
    }
    g.first = tmp(e, "first");
    if (!in_halves(e, x)) g.last = tmp(e, "last");
    if (g.few.way == GATHER_LANES) read_groups(e, &g, base);
    else read_vectors(e, &g, base);
    if (!waits_for_opaque(g.tile)) choose(e, &g, x->result);
    else {
        if (!e->read) e->read = arena_new(&e->s->arena, ReadGathers);
        vec_push(&e->s->arena, &e->read->all, g);
    }
    return true;
}

bool emit_alike_take(Emit *e, const Instr *opaque)
{
    const Value *v = ir_operand(opaque, 0);
    /* The latest: where warps of several roles compute the tile, each has read it for itself. */
    for (size_t k = e->read ? e->read->all.len : 0; k > 0; k--) {
        const ReadGather *g = &e->read->all.data[k - 1];
        if (g->tile != v) continue;
        choose(e, g, declare_tile(e, ir_result(opaque)));
        return true;
    }
    return false;
}
