/* pack_overlap.c: of pack: along which axis of the grid the windows of neighbouring programs overlap.
 *
 *   grid (W/TW, H)                                       each row of X is loaded by three programs:
 *   let a = load(X[h - 1, w*TW +: TW]);                  h - 1, h and h + 1
 *   let b = load(X[h,     w*TW +: TW]);
 *   let c = load(X[h + 1, w*TW +: TW]);
 *
 * A program with k windows of one tensor at k positions of an axis shares k - 1 of them with the next program
 * along it. A pack of n has n k windows, but of n + k - 1 positions: where the layout gives a lane all
 * programs of a pack, equal accesses are loaded and converted once, and L2 hands out each row (n + k - 1) / n
 * times in place of k times. */
#include "passes/tile/program/pack.h"

enum { MOST_WINDOWS = 64 };

/* A window of one position along the axis of a tensor along which the programs lie. */
typedef struct Row {
    const Instr *load;
    int axis;
    int64_t bytes;
    Affine at[TILE_MAX_RANK]; /* its offsets; that along the axis without the constant */
    int64_t constant;
} Row;

typedef struct Rows {
    const Pack *p;
    Facts *facts;
    Row rows[MOST_WINDOWS];
    int n;
    int64_t all; /* bytes of windows that differ between programs */
    bool fits;
} Rows;

/* Whether the windows are the same but for their constants along the axis. */
static bool beside(const Row *a, const Row *b)
{
    MemParts m, n;
    int64_t apart;
    if (!ir_mem_parts(a->load, &m) || !ir_mem_parts(b->load, &n) || m.param != n.param ||
        a->axis != b->axis || m.result->type != n.result->type || !ir_same_window(a->load, b->load))
        return false;
    for (int k = 0; k < m.rank; k++)
        if (!affine_apart(&a->at[k], &b->at[k], &apart) || apart) return false;
    return true;
}

/* Notes a load that is a row. */
static void note_row(Rows *x, const Instr *i, const MemParts *m, int64_t bytes)
{
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    if (x->n == MOST_WINDOWS) return;
    Row *r = &x->rows[x->n];
    *r = (Row){ .load = i, .axis = -1, .bytes = bytes };
    if (i->op != OP_LOAD || !e || ir_attr(i, ATTR_STEPS)) return;
    for (int a = 0; a < m->rank; a++) {
        if (m->idx[a]->type->kind != TYPE_SCALAR || !affine_of(x->facts, m->idx[a], &r->at[a])) return;
        if (!pack_is_varying(x->p, m->idx[a])) continue;
        if (r->axis >= 0) return;
        r->axis = a;
    }
    if (r->axis < 0 || r->axis == m->rank - 1 || e->v[r->axis] > 1) return;
    r->constant = r->at[r->axis].constant;
    r->at[r->axis].constant = 0;
    x->n++;
}

static void note_window(void *rows, Instr *i)
{
    Rows *x = rows;
    MemParts m;
    bool varies = false;
    x->fits = x->fits && !is_loop(i);
    if (!ir_mem_parts(i, &m)) return;
    x->fits = x->fits && (i->op == OP_LOAD || i->op == OP_STORE);
    for (int a = 0; a < m.rank; a++) varies |= pack_is_varying(x->p, m.idx[a]);
    if (!varies || !m.result) return;
    const Type *t = m.result->type;
    int64_t bytes = (t->kind == TYPE_TILE ? type_elements(t) : 1) * dtype_bytes(t->dtype);
    x->all += bytes;
    note_row(x, i, &m, bytes);
}

/* Whether a pack has at most half as many positions along the axis as windows that are like row k. */
static bool overlap(const Rows *x, int k, int programs)
{
    int64_t at[MOST_WINDOWS];
    int n = 0, positions = 0;
    for (int j = 0; j < x->n; j++)
        if (beside(&x->rows[j], &x->rows[k])) at[n++] = x->rows[j].constant;
    for (int w = 0; w < n * programs; w++) {
        bool is_new = true;
        for (int v = 0; v < w && is_new; v++)
            is_new = at[w / programs] + w % programs != at[v / programs] + v % programs;
        positions += is_new;
    }
    return 2 * positions <= n * programs;
}

bool pack_overlaps(const Pack *p, int programs)
{
    Rows *x = arena_new(p->c->scratch, Rows);
    int64_t shared = 0;
    x->p = p;
    x->facts = facts_new(p->c->scratch, p->f);
    x->fits = true;
    ir_walk(p->f->body, note_window, x);
    for (int k = 0; k < x->n && x->fits; k++)
        if (overlap(x, k, programs)) shared += x->rows[k].bytes;
    return x->fits && 2 * shared > x->all;
}
