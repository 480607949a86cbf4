/* emit_interleaved.c: two loads that take the two fields of pairs which lie side by side, by vectors of
 * pairs.
 *
 *     memory:     |a b a b a b a b|            16 bytes a lane
 *     registers:  |a a a a|  |b b b b|         a permutation for each word
 *
 * Pairs are a gate and its value, or the two parts of a complex number, of 8 or 16 bits: a kernel loads
 * X[.., 0] and X[.., 1], each of which takes every second element. Alone, such a load accesses element by
 * element. The stride from pair to pair is not known before the launch. So the program tests that pairs lie
 * without gaps and that vectors are aligned, and loads element by element otherwise.
 *
 * Requires: CUDA; two loads in one block, of a tensor that is only read, whose windows differ by one position
 * of the contiguous axis; lanes with runs of pairs that fill vectors of 8 or 16 bytes; no roles, no products,
 * offsets of 32 bits. Where the tensor may end within a vector, the program also tests that the whole window
 * is in range. Wider pairs are records, which join-loads joins. */
#include "backends/gpu/memory/emit_interleaved.h"
#include "passes/kernel/layout/windows.h"

enum { FIELDS = 2, VECTOR = 16 };

typedef struct Pairs {
    Emit *e;
    const Instr *first, *second; /* in the order of the block */
    Window w;                    /* of the field that is lower in memory */
    const Layout *l;
    DType d;
    const Value *pad;
    bool turned; /* the second load takes the lower field */
    int axis;    /* of the tensor, along which pairs follow each other */
    LayoutVector v;
} Pairs;

static bool plain_load(const Emit *e, const Instr *i, MemParts *m)
{
    return i->op == OP_LOAD && ir_mem_parts(i, m) && !ir_attr(i, ATTR_STEPS) && !ir_attr(i, ATTR_ORDER) &&
           !m->mask && !m->token && !kernel_kept(i) && !goes_as_row_block(e, i) &&
           e->f->params[m->param].kind == PARAM_IN && m->result->type->kind == TYPE_TILE &&
           m->result->type->layout;
}

/* The next load of the other field of the same pairs, whose first field is at an even position. */
static const Instr *partner_of(const Emit *e, const Instr *i, int unit, bool *turned)
{
    MemParts m, n;
    int64_t at, other;
    ir_mem_parts(i, &m);
    if (!ir_is_const(m.idx[unit], &at)) return NULL;
    for (const Instr *k = i->next; k; k = k->next) {
        if (!plain_load(e, k, &n) || !window_beside(i, k, unit) || !ir_is_const(n.idx[unit], &other))
            continue;
        *turned = other == at - 1;
        if (other == (at ^ 1)) return k;
    }
    return NULL;
}

/* The axis of the tensor along which a lane has whole vectors of pairs; false: there is none. */
static bool find_runs(Pairs *x)
{
    Emit *e = x->e;
    const Param *p = &e->f->params[x->w.param];
    const int64_t fields = e->f->dims[p->dims[x->w.unit]].extent;
    x->axis = x->w.unit - 1;
    if (fields >= 0 && fields != FIELDS) return false; /* no pairs without gaps */
    if (x->axis < 0 || x->w.tile_axis[x->axis] < 0 || x->w.picked) return false;
    if (p->stride[x->axis] != FACT_UNKNOWN && p->stride[x->axis] != FIELDS) return false;
    uint32_t bytes = FIELDS * (uint32_t)dtype_bytes(x->d);
    for (int a = 0; a < x->w.rank; a++) { /* vectors of other rows are aligned where the first row's are */
        int64_t stride = ir_stride_step(p, a);
        bool row = a != x->axis && x->w.tile_axis[a] >= 0; /* the fields' axis is none of the tile's */
        if (row && (!stride || stride * dtype_bytes(x->d) % VECTOR)) return false;
    }
    layout_vector(x->l, x->w.tile_axis[x->axis], bytes, VECTOR, VECTOR, &x->v);
    for (uint32_t k = 0; k < x->v.n; k++)
        if (x->v.reg[k] != k) return false;
    const bool whole_words = x->v.n >= (uint32_t)per_word(x->d); /* of each field */
    return whole_words && x->v.bytes >= VECTOR / 2 && x->v.bytes <= VECTOR && layout_regs(x->l) % x->v.n == 0;
}

/* Fills x, if the load is the first one of such two. */
static bool find(Pairs *x, Emit *e, const Instr *i)
{
    MemParts m;
    *x = (Pairs){ .e = e, .first = i };
    if (is_hip(e) || e->multiplies || e->guard || e->role >= 0 || !e->f->fits32 || !plain_load(e, i, &m))
        return false;
    x->d = m.tensor->type->dtype;
    x->pad = m.pad;
    window_of(e, i, &x->w);
    if (per_word(x->d) == 1 || x->w.unit < 0 || x->w.unit_tile >= 0) return false;
    x->second = partner_of(e, i, x->w.unit, &x->turned);
    if (!x->second) return false;
    Window other;
    window_of(e, x->second, &other);
    const bool masked = x->w.masked || other.masked; /* the upper field alone may be out of range */
    if (x->turned) x->w = other;
    x->w.masked = masked;
    x->l = layout_of(e, m.result);
    return find_runs(x);
}

/* Whether each vector of pairs is wholly in range or wholly out of range. */
static bool whole_vectors(const Pairs *x)
{
    const Dim *d = &x->e->f->dims[x->e->f->params[x->w.param].dims[x->axis]];
    int64_t extent = d->extent >= 0 ? d->extent : d->div, n = x->v.n;
    return !x->w.masked || (extent % n == 0 && kernel_divisor(x->e->f, x->w.offset[x->axis]) % n == 0);
}

/* The condition that the pairs lie without gaps and aligned, that the tensor has the upper field, and, unless
 * vectors are whole (whole_vectors), that all of the window is in range. */
static const char *may_load_vectors(const Pairs *x, const char *ptr, bool whole)
{
    Emit *e = x->e;
    const char *c = str(e, "((u64)%s & %d) == 0", ptr, (int)x->v.bytes - 1);
    c = both_conditions(e, str(e, "%s == %d", window_stride(e, x->w.param, x->axis), FIELDS), c);
    if (x->w.masked) c = both_conditions(e, c, axis_condition(e, &x->w, x->w.unit, "1"));
    return whole ? c : both_conditions(e, c, window_inside(e, &x->w, x->l));
}

/* The selectors of byte_perm that take one field of two words: elements of 2 bytes, and of 1 byte. */
static const unsigned halves_of_field[FIELDS] = { 0x5410, 0x7632 },
                      bytes_of_field[FIELDS] = { 0x6420, 0x7531 };

/* Loads vectors to the arrays of the lower and the upper field. */
static void load_pairs(const Pairs *x, const char *ptr, const char *low, const char *high, bool whole)
{
    Emit *e = x->e;
    int n = (int)x->v.n, words = (int)x->v.bytes / 4;
    Index *r = index_linear(e, n, "v", 0), *c[TILE_MAX_RANK];
    const unsigned *select = per_word(x->d) == 4 ? bytes_of_field : halves_of_field;
    Window w = x->w;
    w.masked = w.masked && whole;
    begin_unrolled(e, "v", (int)layout_regs(x->l) / n);
    coords_at(e, x->l, r, c);
    const char *cond = both_conditions(e, tile_condition(e, x->l, r, c), window_condition(e, &w, c, false));
    const char *t = tmp(e, "w"), *none = "";
    line(e, "u32 %s[%d];", t, words);
    const char *call =
        str(e, "%s(%s, %s + %s)", window_load_fn(e, &w, (int)x->v.bytes), t, ptr, window_index(e, &w, c));
    for (int k = 0; k < words; k++) none = str(e, "%s%s[%d] = ", none, t, k);
    if (*cond) {
        line(e, "if (%s) %s;", without_branches(e, cond), call);
        line(e, "else %s%s;", none, pad_word(e, x->pad, x->d));
    } else line(e, "%s;", call);
    for (int k = 0; k < words / 2; k++)
        for (int h = 0; h < FIELDS; h++)
            line(e, "%s[%d * v + %d] = %s(%s[%d], %s[%d], 0x%xu);", h ? high : low, words / 2, k,
                use(e, "byte_perm"), t, 2 * k, t, 2 * k + 1, select[h]);
    end_block(e);
}

bool emit_interleaved_load(Emit *e, const Instr *i)
{
    Pairs x;
    const Value *r = i->n_results ? ir_result(i) : NULL;
    if (e->role < 0 && r && e->beside[r->id]) return true; /* its partner has loaded it */
    if (!find(&x, e, i)) return false;
    /* No vector is noted, because the stride is not known before the launch: the estimate counts elements. */
    note_tensor(e, WAY_VECTORS, false, &x.w, x.l, NULL);
    const Instr *both[FIELDS] = { x.turned ? x.second : x.first, x.turned ? x.first : x.second };
    const char *ptr = window_pointer(e, &x.w), *to[FIELDS];
    for (int h = 0; h < FIELDS; h++) to[h] = declare_tile(e, ir_result(both[h]));
    bool whole = whole_vectors(&x);
    line(e, "if (%s) {", may_load_vectors(&x, ptr, whole));
    e->indent++;
    load_pairs(&x, ptr, to[0], to[1], whole);
    end_block(e);
    line(e, "else {");
    e->indent++;
    for (int h = 0; h < FIELDS; h++) {
        Window w;
        window_of(e, both[h], &w);
        load_elements(e, both[h], &w, x.l, h ? window_pointer(e, &w) : ptr, to[h]);
    }
    end_block(e);
    e->beside[ir_result(x.second)->id] = true;
    return true;
}
