/* emit_coord.c: coordinates of registers: the parts of a thread and of a register, and the registers of
 * another layout. */
#include "backends/gpu/emit.h"

const Layout *layout_of(Emit *e, const Value *v) { return layouts_get(&e->plan->layouts, v->type); }

static int32_t *register_coords(Emit *e, const Layout *l, int axis)
{
    int n = (int)layout_regs(l);
    int32_t *t = arena_array(&e->s->arena, int32_t, (size_t)n), c[TILE_MAX_RANK];
    for (int r = 0; r < n; r++) {
        layout_element(l, (uint32_t)r, 0, 0, 0, c);
        t[r] = c[axis];
    }
    return t;
}

/* A coordinate that each step of the enclosing loop computes again. Otherwise the values that depend on
 * it (addresses, masks, index tiles) are held in registers from step to step, which needs more registers than
 * there are: on AMD, and where rounds hold a long row. */
const char *in_iteration(Emit *e, const char *name)
{
    for (size_t k = 0; k < e->iteration->coords.len; k++)
        if (e->iteration->coords.data[k].of == name) return e->iteration->coords.data[k].name;
    const char *own = tmp(e, spelled(e, name));
    vec_push(&e->s->arena, &e->iteration->coords, ((AgainCoord){ name, own }));
    if (is_hip(e))
        line_in(e, &e->iteration->pre, e->iteration->indent, "const int %s = %s(%s, (i32)%s);", own,
            use(e, "again"), name, e->iteration->counter);
    else
        line_in(e, &e->iteration->pre, e->iteration->indent, "int %s = %s; %s(%s);", own, name,
            use(e, "pin_word"), own);
    return own;
}

static bool same_term(const LayoutTerm *a, const LayoutTerm *b)
{
    return a->in == b->in && a->shift == b->shift && a->xor_ == b->xor_ && a->div == b->div &&
           a->mod == b->mod && a->mul == b->mul;
}

/* The name that the sum of these terms was given, or NULL. */
static const char *coord_name(const Emit *e, const LayoutTerm *terms, int n)
{
    for (size_t k = 0; k < e->coords.len; k++) {
        const ThreadCoord *c = &e->coords.data[k];
        bool same = c->n == n;
        for (int t = 0; same && t < n; t++) same = same_term(&c->terms[t], &terms[t]);
        if (same) return c->name;
    }
    return NULL;
}

static const char *terms_text(Emit *e, const LayoutTerm *terms, int n)
{
    static const char *const inputs[] = { "0", "lane", "warp", "block" };
    const char *x = NULL;
    for (int k = 0; k < n; k++) {
        const LayoutTerm *t = &terms[k];
        const char *y = inputs[t->in];
        if (t->shift) y = str(e, "(%s >> %d)", y, t->shift);
        if (t->div > 1) y = str(e, "%s / %u", y, t->div);
        if (t->mod) y = str(e, "%s %% %u", y, t->mod);
        if (t->mul != 1) y = str(e, "%s * %u", y, t->mul);
        x = !x ? y : t->xor_ ? str(e, "(%s) ^ (%s)", x, y) : str(e, "%s + %s", x, y);
    }
    return x;
}

Index *thread_coord(Emit *e, const Layout *l, int axis)
{
    LayoutTerm terms[LAYOUT_MAX_TERMS];
    int n = layout_thread_terms(l, axis, terms);
    bool by_lane = false;
    if (e->row_start.coord && layout_equal(l, e->row_start.layout))
        return index_other(e, "%s", e->row_start.coord);
    if (!n) return index_number(e, 0);
    for (int k = 0; k < n; k++) by_lane |= terms[k].in == LAYOUT_LANE;
    const char *name = coord_name(e, terms, n);
    if (!name) {
        LayoutTerm *kept = arena_array(&e->s->arena, LayoutTerm, (size_t)n);
        for (int k = 0; k < n; k++) kept[k] = terms[k];
        name = str(e, "c%d", (int)e->coords.len);
        name = declare_in(e, e->pre, e->role >= 0 ? 2 : 1, "int", name, terms_text(e, terms, n));
        vec_push(&e->s->arena, &e->coords, ((ThreadCoord){ kept, n, name }));
    }
    return index_other(e, "%s", e->iteration && by_lane ? in_iteration(e, name) : name);
}

Index *register_coord(Emit *e, const Layout *l, int axis, Index *i)
{
    int n = (int)layout_regs(l);
    int32_t c[TILE_MAX_RANK];
    if (e->measure) return index_number(e, 0); /* nobody reads it */
    if (i->kind != INDEX_NUMBER || i->add < 0 || i->add >= n)
        return index_entry(e, register_coords(e, l, axis), n, i);
    layout_element(l, (uint32_t)i->add, 0, 0, 0, c); /* of a table, this entry is all that is needed */
    return index_number(e, c[axis]);
}

Index *coord(Emit *e, const Layout *l, int axis, Index *i)
{
    if (!l->separable) ir_fail(e->s, e->f->loc, "a layout mixes thread and register bits");
    Index *t = thread_coord(e, l, axis), *r = register_coord(e, l, axis, i);
    if (index_is(t, 0)) return r;
    if (index_is(r, 0)) return t;
    return index_other(e, "(%s + %s)", index_text(e, t), index_summand(e, r));
}

const char *coord_text(Emit *e, const Layout *l, int axis, const char *variable)
{ return index_text(e, coord(e, l, axis, index_variable(e, variable))); }

bool coords_equal(int rank, const int32_t *a, const int32_t *b)
{ return !memcmp(a, b, (size_t)rank * sizeof *a); }

/* A number for the position of each register of layout `l`, the same for the same positions in `from` and
 * `to`. Axes of extent 1 on both sides may be padded in the same way; loose: all positions along them are
 * one. */
static int64_t *register_keys(Emit *e, const Layout *l, const Layout *from, const Layout *to, bool loose)
{
    int n = (int)layout_regs(l);
    int64_t *key = arena_array(&e->s->arena, int64_t, (size_t)n);
    int32_t c[TILE_MAX_RANK] = { 0 };
    for (int r = 0; r < n; r++) {
        layout_element(l, (uint32_t)r, 0, 0, 0, c);
        key[r] = 0;
        for (int a = 0; a < to->rank; a++) {
            bool one = to->tile[a] == 1 && (loose || from->tile[a] != 1);
            int64_t extent = from->cover[a] > to->cover[a] ? from->cover[a] : to->cover[a];
            key[r] = key[r] * extent + (one ? 0 : c[a]);
        }
    }
    return key;
}

int32_t *register_map(Emit *e, const Layout *from, const Layout *to)
{
    if (from == to || layout_equal(from, to)) return NULL;
    int n = (int)layout_regs(from), m = (int)layout_regs(to), missing = n;
    int32_t *t = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int r = 0; r < n; r++) t[r] = m;
    for (int loose = 0; loose < 2 && missing; loose++) {
        const int64_t *of = register_keys(e, from, from, to, loose),
                      *at = register_keys(e, to, from, to, loose);
        for (int r = 0; r < n; r++) {
            if (t[r] < m) continue;
            for (t[r] = 0; t[r] < m && at[t[r]] != of[r];) t[r]++;
            missing -= t[r] < m;
        }
    }
    if (missing) ir_fail(e->s, e->f->loc, "a broadcast does not follow its operand's layout");
    return t;
}

Index *map_register(Emit *e, const Layout *from, const Layout *to, Index *i)
{
    const int32_t *t = register_map(e, from, to);
    return t ? index_entry(e, t, (int)layout_regs(from), i) : i;
}
