/* collapse.c: launches on tensors without gaps, as launches on fewer axes.
 *
 *   X[M, N], Y[M, N], rows N elements apart   --collapse-->   X[1, M*N], Y[1, M*N]
 *
 * Rows that follow each other without a gap are one long row. A kernel that treats all elements alike may be
 * given it, and then has no ends of rows inside of its tiles, no rows that begin between two vectors, and one
 * extent to choose its sizes for. Which pairs of axes may become one is read from the kernel's signature when
 * it is made; whether it computes the same is proven (axes_collapse of passes/tile/launch/collapse.h) for the
 * constants of each variant before that is compiled. The key says which pairs a launch has given as one, so
 * the code relies on the extent of 1.
 *
 * Not in checked contexts, which report coordinates; not for what a tuning table speaks of, whose extents are
 * those that were measured; not without the pass `collapse`. */
#define _GNU_SOURCE
#include "passes/tile/launch/collapse.h"
#include "runtime/launch/launch.h"

/* The axis of the tensor that is the dimension; -1: none. *again: there is another. */
static int axis_of(const KernelParam *q, int dim, bool *again)
{
    int found = -1;
    for (int a = 0; a < q->rank; a++) {
        if (q->dim[a] != dim) continue;
        *again |= found >= 0;
        found = a;
    }
    return found;
}

/* Whether every tensor has both dimensions, the inner one right behind the outer one, or neither. */
static bool always_together(const tile_kernel *k, int outer, int inner)
{
    bool again = false, apart = false;
    for (int i = 0; i < k->n_params; i++) {
        if (k->params[i].kind == PARAM_SCALAR) continue;
        int o = axis_of(&k->params[i], outer, &again), n = axis_of(&k->params[i], inner, &again);
        apart |= o < 0 ? n >= 0 : n != o + 1;
    }
    return !again && !apart;
}

/* Whether launches may have another extent for the dimension than the one they give. */
static bool is_free(const tile_kernel *k, int dim)
{ return dim >= 0 && dim < k->front->n_dims && !k->dims[dim].specialized; }

static bool has_pair_of(const tile_kernel *k, int outer)
{
    for (int p = 0; p < k->n_pairs; p++)
        if (k->pairs[p].outer == outer) return true;
    return false;
}

void collapse_open(tile_kernel *k)
{
    CompileOptions o = kernel_compile_options(k);
    PassSet skip = pass_set_of(o.passes.skip);
    k->n_pairs = 0;
    if (k->front->products || pass_in(&skip, PASS_COLLAPSE) || o.passes.passes || o.passes.opt_level < 1 ||
        k->context->flags & TILE_CONTEXT_CHECKED)
        return;
    for (int i = 0; i < k->n_params; i++)
        for (int a = 0; a + 1 < k->params[i].rank && k->params[i].kind != PARAM_SCALAR; a++) {
            int outer = k->params[i].dim[a], inner = k->params[i].dim[a + 1];
            if (k->n_pairs < MOST_PAIRS && outer != inner && is_free(k, outer) && is_free(k, inner) &&
                !has_pair_of(k, outer) && always_together(k, outer, inner))
                k->pairs[k->n_pairs++] = (DimPair){ outer, inner };
        }
}

/* --- one launch ---------------------------------------------------------------------------------------- */

static bool has_elements(const View *v) { return v->word != 0; }

/* Whether the rows of all tensors follow each other without a gap. */
static bool without_gaps(const tile_kernel *k, const LaunchArgs *l, DimPair p)
{
    int64_t m = l->dims[p.outer], n = l->dims[p.inner];
    bool again = false;
    if (m <= 1 || n < 1) return false;
    for (int i = 0; i < k->n_params; i++) {
        if (k->params[i].kind == PARAM_SCALAR || l->views[i].facts & FACT_ABSENT) continue;
        int a = axis_of(&k->params[i], p.outer, &again);
        if (a < 0) continue;
        if (!has_elements(&l->views[i])) return false;
        if (n > 1 && l->strides[i][a] != n * l->strides[i][a + 1]) return false;
    }
    return true;
}

static void give_as_one(tile_kernel *k, const LaunchArgs *l, DimPair p)
{
    int64_t n = l->dims[p.inner];
    bool again = false;
    for (int i = 0; i < k->n_params; i++) {
        if (k->params[i].kind == PARAM_SCALAR || l->views[i].facts & FACT_ABSENT) continue;
        int a = axis_of(&k->params[i], p.outer, &again);
        if (a < 0) continue;
        if (n == 1) l->strides[i][a + 1] = l->strides[i][a];
        l->views[i].extent[a + 1] *= l->views[i].extent[a];
        l->views[i].extent[a] = 1;
        launch_reread(k, i, &l->views[i], l->strides[i]);
    }
    l->dims[p.inner] *= l->dims[p.outer];
    l->dims[p.outer] = 1;
}

unsigned collapse_launch(tile_kernel *k, const LaunchArgs *l)
{
    unsigned refused = atomic_load_explicit(&k->refused_pairs, memory_order_relaxed), given = 0;
    for (int p = 0; p < k->n_pairs; p++) {
        if (refused >> p & 1 || !without_gaps(k, l, k->pairs[p])) continue;
        give_as_one(k, l, k->pairs[p]);
        given |= 1u << p;
    }
    return given;
}

uint64_t collapse_ones(const tile_kernel *k, unsigned pairs)
{
    uint64_t ones = 0;
    for (int p = 0; p < k->n_pairs; p++)
        if (pairs >> p & 1 && k->pairs[p].outer < 64) ones |= (uint64_t)1 << k->pairs[p].outer;
    return ones;
}

/* --- the proof ----------------------------------------------------------------------------------------- */

typedef struct Question {
    tile_kernel *k;
    const uint64_t *key;
    unsigned pairs, proven;
} Question;

static int dim_named(const Func *f, const char *name)
{
    for (int d = 0; d < f->n_dims; d++)
        if (f->dims[d].name && !strcmp(f->dims[d].name, name)) return d;
    return -1;
}

static tile_status prove(Session *s, void *question)
{
    Question *q = question;
    tile_kernel *k = q->k;
    size_t n;
    Func *f = NULL;
    CompileOptions o = compile_options_default(k->context->target);
    o.passes.passes = "inline,check,specialize,fold,cse,dce";
    const FrontBinding *b = variant_bindings(k, q->key, &s->arena, &n);
    Ast *ast = module_parse(k->module, s);
    if (!ast || !compile_to_ir(&(CompileJob){ s, ast, k->name, b, n, NULL, &o }, NULL, &f)) return TILE_OK;
    for (int p = 0; p < k->n_pairs; p++) {
        AxisPair found;
        int outer = dim_named(f, k->dims[k->pairs[p].outer].name),
            inner = dim_named(f, k->dims[k->pairs[p].inner].name);
        if (!(q->pairs >> p & 1) || outer < 0 || inner < 0) continue;
        if (axes_collapse(&s->arena, f, outer, inner, &found)) q->proven |= 1u << p;
    }
    return TILE_OK;
}

bool collapse_holds(tile_kernel *k, const uint64_t *key, unsigned pairs)
{
    Question q = { k, key, pairs, 0 };
    if (kernel_ready(k, key)) return true; /* was proven before it was compiled */
    context_in_session(k->context, k->title, prove, &q);
    atomic_fetch_or(&k->refused_pairs, pairs & ~q.proven);
    atomic_fetch_or(&k->proven_pairs, q.proven);
    return q.proven == pairs;
}

bool collapse_may_hold(tile_kernel *k, const uint64_t *key, unsigned pairs)
{ return !(pairs & ~atomic_load(&k->proven_pairs)) || collapse_holds(k, key, pairs); }
