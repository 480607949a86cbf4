/* multicast: neighbouring programs load what they have in common once, and each of them loads a part.
 *
 *   %i = program_coord %x {axis = 0};   ring_put %B, B[%k, %j]      (B's window does not depend on %i)
 *
 * becomes, for clusters of two along axis 0,
 *
 *   %i' = program_coord (%x * 2 + cta_rank) {axis = 0, cluster = 2};  %i = min %i', grid0 - 1
 *   ring_put %B, B[%k, %j]      a ring {cluster = 2}: each CTA loads half of the tile and sends it to both
 *   if (%i' < grid0) { store .. }
 *
 * The order of programs (remap, raster, heavy first) becomes an order of clusters: the grid's extent along
 * the axis is divided by the cluster's size, rounded up, wherever the order asks for it. Each of those
 * orders is a bijection for every grid, so one CTA of one cluster runs each program. If the extent is no
 * multiple, the last cluster runs its last program again in the remaining CTAs. They take part in the loads
 * of rings and store nothing. Other loads from tensors that the kernel stores they leave out, because the
 * program's own CTA may be storing there at the same time (also behind a load whose token first-reads
 * removed). They use zeros instead, and no branch or loop may depend on these, because they might never end.
 *
 * Requires: warp specialization and a persistent loop; every load of the ring proven to be the same in all
 * CTAs of a cluster. That means that its offsets, and the bounds and conditions around it, are functions
 * of values that are equal there: what does not follow from the axis' coordinate; x / c where the
 * cluster's size divides c; and expressions of the coordinate and constants alone that have been evaluated
 * for every program of a known extent (h * HK / H: heads that share keys). A tile must divide into parts
 * of whole swizzle patterns. Keeps: results. Does not handle: a remap of the user's own; kernels that do
 * more than store, where stores would have to be left out.
 *
 * The hint `cluster = n` asks for it; without `cluster_axis` it takes the axis that saves most bytes. */
#include "passes/kernel/schedule/schedule.h"
#include "passes/kernel/warp_specialization/im2col.h"
#include "ir/interp/scalar.h"

/* PATTERN: the number of bytes after which the widest swizzle repeats. */
enum { MOST_CTAS = 8, MOST_TRIED = 1 << 16, PATTERN = 1024 };

typedef struct Multicast {
    Session *s;
    Func *f;
    KernelPlan *p;
    int axis, ctas;
    int64_t extent;
    const Decision *asked;
} Multicast; /* extent: the extent of the axis, or -1 when it is not known */

/* --- what is equal in a cluster ---------------------------------------------------------------------- */

static bool is_coordinate(const Multicast *c, const Value *v)
{
    while (
        v->def && v->def->op == OP_CAST && dtype_is_int(v->type->dtype) && dtype_bits(v->type->dtype) >= 32)
        v = ir_operand(v->def, 0);
    return v->def && v->def->op == OP_PROGRAM_COORD && ir_attr_int(v->def, ATTR_AXIS, 0) == c->axis;
}

/* The value of v when the coordinate of the axis is x. False: v depends on something else. */
static bool evaluate(const Multicast *c, const Value *v, int64_t x, int depth, Scalar *out)
{
    const Instr *d = v->def;
    Scalar in[4];
    if (!d || depth > 24 || v->type->kind != TYPE_SCALAR) return false;
    if (d->op == OP_PROGRAM_COORD) {
        *out = scalar_int(x);
        return ir_attr_int(d, ATTR_AXIS, 0) == c->axis;
    }
    if (d->op == OP_DIM) {
        *out = scalar_int(c->f->dims[ir_attr_int(d, ATTR_DIM, 0)].extent);
        return out->i >= 0;
    }
    if (d->op == OP_CONST) {
        if (dtype_is_float(v->type->dtype)) return false;
        return ir_is_const(v, &out->i);
    }
    if (!(op_info[d->op].flags & OPF_ELEM) || d->n_operands > 4 || d->n_blocks) return false;
    for (int k = 0; k < d->n_operands; k++)
        if (!evaluate(c, ir_operand(d, k), x, depth + 1, &in[k])) return false;
    const Type *t = ir_operand(d, d->op == OP_WHERE ? 1 : 0)->type;
    if (d->op == OP_CAST) {
        *out = scalar_cast(v->type->dtype, t->dtype, in[0]);
        return !dtype_is_float(v->type->dtype);
    }
    return scalar_op(d->op, t->dtype, in, out) && !dtype_is_float(v->type->dtype);
}

static bool equal_by_trial(const Multicast *c, const Value *v)
{
    if (c->extent < 1 || c->extent > MOST_TRIED) return false;
    for (int64_t x = 0; x < c->extent; x++) {
        Scalar first, here;
        if (!evaluate(c, v, x / c->ctas * c->ctas, 0, &first) || !evaluate(c, v, x, 0, &here) ||
            first.i != here.i)
            return false;
    }
    return true;
}

static bool loads_from(const Func *f, const Instr *i, bool written)
{
    MemParts m;
    return (i->op == OP_LOAD || i->op == OP_GATHER) && ir_mem_parts(i, &m) &&
           written == (f->params[m.param].kind != PARAM_IN);
}

static bool equal(const Multicast *c, const Value *v, int depth)
{
    const Instr *d = v->def;
    int64_t k;
    if (v->type->kind == TYPE_TENSOR) return true;
    if (depth > 48 || v->type->kind != TYPE_SCALAR) return false;
    if (!d) {
        const Instr *loop = v->block->parent;
        if (!loop) return true;
        return loop->op == OP_FOR && v->index == 0 && equal(c, ir_operand(loop, 0), depth + 1) &&
               equal(c, ir_operand(loop, 2), depth + 1);
    }
    if (d->op == OP_PROGRAM_COORD) return ir_attr_int(d, ATTR_AXIS, 0) != c->axis;
    if (d->op == OP_PROGRAM || d->op == OP_CTA_ID || d->n_blocks || (op_info[d->op].flags & OPF_WRITE))
        return false;
    /* The range [n x, n x + n) holds all coordinates of a cluster, even of the last one. A multiple of c can
     * only be its first element. */
    if (d->op == OP_DIV && is_coordinate(c, ir_operand(d, 0)) && ir_is_const(ir_operand(d, 1), &k) && k > 0 &&
        k % c->ctas == 0)
        return true;
    if ((op_info[d->op].flags & OPF_READ) && !loads_from(c->f, d, false)) return false;
    bool all = true;
    for (int o = 0; o < d->n_operands && all; o++) all = equal(c, ir_operand(d, o), depth + 1);
    return all || equal_by_trial(c, v);
}

/* Whether every CTA loads the same window, equally often. Returns NULL, or the reason why not. */
static const char *load_differs(const Multicast *c, const Instr *load)
{
    MemParts m;
    ir_mem_parts(load, &m);
    for (int a = 0; a < m.rank; a++)
        if (!equal(c, m.idx[a], 0)) return "its window is not known to be the same";
    for (const Instr *p = load->block->parent; p; p = p->block->parent)
        for (int k = 0; k < (p->op == OP_FOR ? 3 : p->op == OP_IF ? 1 : 0); k++)
            if (!equal(c, ir_operand(p, k), 0)) return "its loop is not known to run as often";
    return NULL;
}

int kernel_multicast_parts(const LayoutShared *s, const Instr *mem, int unit, int ctas, int *axis)
{
    const Attr *ext = ir_attr(mem, ATTR_EXTENTS);
    int panels = (s->tile[s->order[0]] + s->panel - 1) / s->panel;
    int64_t bytes = (int64_t)s->bytes / panels, rows = 1;
    *axis = -1;
    for (int a = 0; a < ext->n; a++)
        if (a != unit && ext->v[a] > 0) rows *= ext->v[a];
    if (s->rank < 2 || rows != s->tile[s->order[1]])
        return -1; /* a vector, or a stage of which only some rows are loaded */
    if (panels % ctas == 0) return 0;
    /* Rows are consecutive, and the first axes are the slowest. */
    for (int a = 0; a < ext->n; a++) {
        if (a == unit || ext->v[a] <= 1) continue;
        *axis = a;
        return ext->v[a] % ctas == 0 && bytes % ((int64_t)ctas * PATTERN) == 0 ? 1 : -1;
    }
    return -1;
}

/* --- which axis -------------------------------------------------------------------------------------- */

static const char *name_of(const Multicast *c, const RingLoad *l)
{ return c->f->params[ir_operand(l->load, 0)->index].name; }

/* Marks the loads that a cluster along c->axis would share, and counts the bytes that a program would save,
 * mainly those of loops. A ring serves all loads of one tensor and view. */
static int64_t share(const Multicast *c, RingLoad *l, size_t n)
{
    int64_t saved = 0;
    for (size_t k = 0; k < n; k++) {
        int unit = kernel_unit_axis(c->f, l[k].load, NULL), axis;
        l[k].why = load_differs(c, l[k].load);
        if (!l[k].why && kernel_multicast_parts(l[k].view, l[k].load, unit, c->ctas, &axis) < 0)
            l[k].why = "its tile has no such parts";
        l[k].shared = !l[k].why;
    }
    for (size_t k = 0; k < n; k++)
        for (size_t j = 0; j < n; j++)
            if (!l[j].shared && l[j].view == l[k].view &&
                ir_operand(l[j].load, 0)->index == ir_operand(l[k].load, 0)->index) {
                l[k].shared = false;
                if (!l[k].why) l[k].why = "another load goes through its ring";
            }
    for (size_t k = 0; k < n; k++)
        if (l[k].shared) saved += (int64_t)l[k].view->bytes * (l[k].inner ? 1024 : 1);
    return saved;
}

typedef struct Follow {
    Arena *arena;
    bool *seen; /* by value: followed */
    VEC(const Value *) next;
} Follow;

static void follow(Follow *f, const Value *v)
{
    if (v->type->kind == TYPE_TOKEN || f->seen[v->id]) return;
    f->seen[v->id] = true;
    vec_push(f->arena, &f->next, v);
}

/* What the instruction computes, and what its blocks carry. */
static void follow_all(Follow *f, const Instr *i)
{
    for (int k = 0; k < i->n_results; k++) follow(f, &i->results[k]);
    for (int n = 0; n < i->n_blocks; n++)
        for (int k = 0; k < i->blocks[n]->n_args; k++) follow(f, i->blocks[n]->args[k]);
}

static bool decides_here(const Use *u)
{
    const Instr *i = u->user;
    if (i->op == OP_IF || i->op == OP_ASSERT || i->op == OP_CONDITION) return true;
    for (int k = 0; i->op == OP_FOR && k < 3; k++)
        if (ir_operand(i, k) == u->value) return true;
    return false;
}

/* Whether the value, or what is computed from it, decides what runs. */
static bool decides(Follow *f, const Value *v)
{
    follow(f, v);
    while (f->next.len) {
        v = f->next.data[--f->next.len];
        for (const Use *u = v->uses; u; u = u->next) {
            const Instr *i = u->user, *gives = op_info[i->op].flags & OPF_TERM ? i->block->parent : i;
            if (decides_here(u)) return true;
            if (gives) follow_all(f, gives);
        }
    }
    return false;
}

typedef struct Effects {
    const Func *f;
    const char *what;
    Loc loc;
    Follow read;
} Effects;

static void other_effect(void *user, Instr *i)
{
    Effects *e = user;
    if (!e->what && loads_from(e->f, i, true) && decides(&e->read, &i->results[0])) {
        e->what = "programs past the grid's end would decide by what they do not store";
        e->loc = i->loc;
    }
    Im2col pixels; /* behind the last one, as behind the end of a window, nothing is stored */
    if (i->op == OP_SHARE_COMBINE) return; /* of parts that they have as others do */
    if (i->op == OP_SCATTER && kernel_pixels_in_order(e->f, i, &pixels)) return;
    if (i->op != OP_STORE && i->op != OP_ASSERT && (op_info[i->op].flags & OPF_WRITE) && !e->what) {
        e->what = "programs past the grid's end would do more than store";
        e->loc = i->loc;
    }
}

static int64_t known_extent(Multicast *c, int axis)
{
    Scalar x;
    const Instr *y = c->f->grid ? ir_terminator(c->f->grid) : NULL;
    Multicast none = *c;
    none.axis = -2;
    return y && axis < y->n_operands && evaluate(&none, ir_operand(y, axis), 0, 0, &x) ? x.i : -1;
}

/* --- clusters of programs ---------------------------------------------------------------------------- */

typedef VEC(Instr *) Instrs;

/* Finds the extents from which the coordinates of programs are computed. */
static void extents_behind(Multicast *c, Value *v, bool *seen, Instrs *out, bool *whole)
{
    Instr *d = v->def;
    if (!d || seen[v->id]) return;
    seen[v->id] = true;
    if (d->op == OP_NUM_PROGRAMS) {
        int64_t axis = ir_attr_int(d, ATTR_AXIS, 0);
        *whole |= axis < 0;
        if (axis == c->axis) vec_push(&c->s->arena, out, d);
    }
    for (int k = 0; k < d->n_operands; k++) extents_behind(c, ir_operand(d, k), seen, out, whole);
}

static Value *extent(Builder *b, int axis, DType t)
{
    return ir_emit(
        b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, axis)), type_scalar(b->module->session, t));
}

static void divide(Multicast *c, Instr *i)
{
    Builder b = ir_before(i);
    DType t = ir_result(i)->type->dtype;
    Value *n = ir_bin(&b, OP_CDIV, extent(&b, c->axis, t), ir_const_int(&b, t, c->ctas));
    ir_replace(ir_result(i), n);
    ir_erase(i);
}

/* The coordinate of this CTA's program, and whether that program exists. */
static Value *place_in_cluster(Multicast *c, Instr *coord)
{
    Builder b = ir_before(coord);
    DType t = ir_result(coord)->type->dtype;
    int64_t rank = ir_attr_int(coord, ATTR_COUNT, 1);
    Value *own_rank = ir_emit(&b, OP_CLUSTER_RANK, NULL, 0, NO_ATTRS, type_scalar(c->s, t));
    Value *x =
        ir_bin(&b, OP_ADD, ir_bin(&b, OP_MUL, ir_operand(coord, 0), ir_const_int(&b, t, c->ctas)), own_rank);
    Value *own = ir_emit(&b, OP_PROGRAM_COORD, &x, 1,
        ATTRS(a_int(ATTR_AXIS, c->axis), a_int(ATTR_COUNT, rank), a_int(ATTR_CLUSTER, c->ctas)), NULL);
    own->name = ir_result(coord)->name;
    /* After all coordinates: a consumer has received them by then. */
    Instr *last = coord;
    for (Instr *i = coord->next; i; i = i->next)
        if (i->op == OP_PROGRAM_COORD) last = i;
    b = ir_after(last);
    Value *n = extent(&b, c->axis, t), *within = NULL;
    if (c->extent < 0 || c->extent % c->ctas) {
        within = ir_bin(&b, OP_LT, own, n);
        own = ir_bin(&b, OP_MIN, own, ir_bin(&b, OP_SUB, n, ir_const_int(&b, t, 1)));
    }
    ir_replace(ir_result(coord), own);
    ir_erase(coord);
    return within;
}

static void collect_accesses(void *user, Instr *i)
{
    const Func *f = i->block->func;
    if (i->op == OP_STORE || loads_from(f, i, true)) vec_push(&f->module->session->arena, (Instrs *)user, i);
}

static Value *zero_of(Builder *b, const Type *t)
{
    Value *zero = dtype_is_float(t->dtype) ? ir_const_float(b, t->dtype, 0) : ir_const_int(b, t->dtype, 0);
    return t->kind == TYPE_TILE ? ir_splat(b, zero, t->rank, t->shape) : zero;
}

/* store, load  ->  if (within) store, load; else what was stored before, zeros */
static void guard(Instr *access, Value *within)
{
    MemParts m;
    const int n = access->n_results;
    const Type *types[2];
    Value *done[2], *left_out[2];
    Builder b = ir_before(access);
    ir_mem_parts(access, &m);
    for (int k = 0; k < n; k++) done[k] = &access->results[k], types[k] = done[k]->type;
    Instr *cond = ir_build(&b, OP_IF, &within, 1, NO_ATTRS, types, n);
    for (int k = 0; k < n; k++) ir_replace(done[k], &cond->results[k]);
    ir_unlink(access);
    b = ir_at_end(cond->blocks[0]);
    ir_place(&b, access);
    ir_build(&b, OP_YIELD, done, n, NO_ATTRS, NULL, 0);
    b = ir_at_end(cond->blocks[1]);
    for (int k = 0; k < n; k++) left_out[k] = done[k] == m.result ? zero_of(&b, types[k]) : m.token;
    ir_build(&b, OP_YIELD, left_out, n, NO_ATTRS, NULL, 0);
}

static void say(Multicast *c, const char *text)
{
    c->p->schedule =
        arena_printf(&c->s->arena, "%s  multicast: %s\n", c->p->schedule ? c->p->schedule : "", text);
}

static void refuse(Multicast *c, Loc loc, const char *why)
{
    if (c->asked) {
        schedule_refuse(c->p, c->asked, "programs do not load together: %s", why);
        return;
    }
    diag_perf(c->s, loc, "cluster = %d: each program loads its tiles by itself: %s", c->ctas, why);
    say(c, arena_printf(&c->s->arena, "none, %s", why));
}

/* Lists the tensors whose loads are shared; or the others, each with the reason. */
static const char *lists(Multicast *c, const RingLoad *l, size_t n, bool shared)
{
    Text t;
    text_init(&t, &c->s->arena);
    for (size_t k = 0; k < n; k++) {
        bool again = l[k].shared != shared;
        for (size_t j = 0; j < k; j++)
            again |= l[j].shared == shared && !strcmp(name_of(c, &l[j]), name_of(c, &l[k]));
        if (!again)
            text_printf(&t, "%s%s%s%s", t.len ? shared ? ", " : "; " : "", name_of(c, &l[k]),
                shared ? "" : " by itself: ", shared ? "" : l[k].why);
    }
    return t.len ? t.data : NULL;
}

/* Why the programs of this kernel form no clusters that load together, or NULL. */
static const char *unsuited(const Multicast *c)
{
    if (c->ctas > MOST_CTAS) return "a cluster has at most 8 CTAs";
    if (c->p->cluster > 1) return "a program is spread over a cluster";
    if (ir_waits_for_programs(c->f)) return "programs that wait for others cannot also load together";
    if (!c->p->persistent) return "the programs of a CTA are not one loop";
    if (c->f->remap && !c->f->permutes)
        return "the kernel has a remap of its own, which is checked for programs, not for clusters of them";
    return NULL;
}

/* The grid axis along which the programs of a cluster share the most bytes, or -1. `only`: the one axis to
 * try, or -1. */
static int best_axis(Multicast *c, RingLoad *l, size_t n, int rank, int only)
{
    int best = -1;
    int64_t most = 0;
    for (c->axis = 0; c->axis < rank; c->axis++) {
        if (only >= 0 && c->axis != only) continue;
        c->extent = known_extent(c, c->axis);
        int64_t saved = c->extent >= 0 && c->extent < c->ctas ? 0 : share(c, l, n);
        if (saved > most) {
            most = saved;
            best = c->axis;
        }
    }
    return best;
}

/* Reports why no axis is suitable, for the loads of the first one. */
static void refuse_axes(Multicast *c, RingLoad *l, size_t n, int rank, int only)
{
    c->axis = only >= 0 && only < rank ? only : 0;
    c->extent = known_extent(c, c->axis);
    share(c, l, n);
    const char *apart = lists(c, l, n, false);
    refuse(c, c->f->loc,
        arena_printf(&c->s->arena, "along axis %d of the grid%s%s%s", c->axis,
            apart ? ", " : " there are fewer programs", apart ? apart : "",
            only >= 0 ? "" : ", and nothing along the others"));
}

/* Counts programs in clusters: divides the extents from which coordinates are computed, adds the place in the
 * cluster to coordinates, and guards the stores of a program beyond the grid. */
static void divide_programs(
    Multicast *c, const Instrs *coords, const Instrs *behind, const RingLoad *l, size_t n)
{
    Value *within = NULL;
    for (size_t k = 0; k < behind->len; k++) divide(c, behind->data[k]);
    for (size_t k = 0; k < coords->len; k++)
        if (ir_attr_int(coords->data[k], ATTR_AXIS, 0) == c->axis)
            within = place_in_cluster(c, coords->data[k]);
    Instrs accesses = { 0 };
    if (within) ir_walk(c->f->body, collect_accesses, &accesses);
    for (size_t k = 0, j; k < accesses.len; k++) {
        for (j = 0; j < n && l[j].load != accesses.data[k];) j++;
        if (j == n) guard(accesses.data[k], within); /* loads of rings stay: the others wait for them */
    }
}

void kernel_multicast(Session *s, Func *f, KernelPlan *p, RingLoad *l, size_t n)
{
    const Decision *d = schedule_asked(p, DECIDE_MULTICAST);
    Multicast c = { .s = s, .f = f, .p = p, .ctas = f->hints.cluster, .asked = d };
    int rank = f->grid ? ir_terminator(f->grid)->n_operands : 1, only = (int)f->hints.cluster_axis - 1;
    if (d) {
        c.ctas = d->form == MULTICAST_N ? d->n[0] : 1;
        only = d->n[1];
    }
    if ((!d && kernel_skips(p, PASS_MULTICAST)) || c.ctas < 2) return;
    const char *why = unsuited(&c);
    if (why) {
        refuse(&c, f->loc, why);
        return;
    }
    int best = best_axis(&c, l, n, rank, only);
    if (best < 0) {
        refuse_axes(&c, l, n, rank, only);
        return;
    }
    c.axis = best;
    c.extent = known_extent(&c, best);

    Instrs coords = { 0 }, behind = { 0 };
    bool whole = false, *seen = arena_array(&s->arena, bool, f->module->next_id);
    for (Instr *i = f->body->first; i; i = i->next) {
        if (i->op != OP_PROGRAM_COORD) continue;
        vec_push(&s->arena, &coords, i);
        extents_behind(&c, ir_operand(i, 0), seen, &behind, &whole);
    }
    Effects e = { .f = f, .read = { &s->arena, arena_array(&s->arena, bool, f->module->next_id), { 0 } } };
    if (c.extent < 0 || c.extent % c.ctas) ir_walk(f->body, other_effect, &e);
    if (whole) e = (Effects){ .f = f, .what = "the order of programs counts all of them", .loc = f->loc };
    if (e.what) {
        refuse(&c, e.loc, e.what);
        return;
    }

    share(&c, l, n);
    divide_programs(&c, &coords, &behind, l, n);
    p->multicast = c.ctas;
    p->multicast_axis = c.axis;
    schedule_take(p, DECIDE_MULTICAST, MULTICAST_N, c.ctas, c.axis);
    const char *apart = lists(&c, l, n, false);
    say(&c, arena_printf(&s->arena,
                "clusters of %d programs along grid axis %d load %s together, a part each%s%s", c.ctas,
                c.axis, lists(&c, l, n, true), apart ? "; " : "", apart ? apart : ""));
}
