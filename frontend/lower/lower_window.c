/* lower_window.c: which elements of a tensor an access takes: windows (`X[i*16 +: 16, :]`), and tiles of
 * indices. */
#include "frontend/lower/lower_window.h"

/* `X[:, :]`, with a colon for each axis of the tensor. */
static const char *whole_tensor(Lower *l, const KParam *param)
{
    Text t;
    text_init(&t, &l->s->arena);
    text_printf(&t, "%s[", param->var->name);
    for (int i = 0; i < param->type->rank; i++) text_puts(&t, i ? ", :" : ":");
    text_puts(&t, "]");
    return t.data;
}

/* `X[...]` with X a tensor and one subscript an axis. */
static const Node *tensor_of(Lower *l, const Call *c, Window *w)
{
    const Node *n = ARG(c, 0);
    const char *name = c->node->name;
    if (n->kind != N_INDEX) {
        V v = lower_expr(l, n);
        if (lower_is_absent(l, n, v)) return NULL;
        if (v.kind == V_TENSOR)
            lower_error_note(l, n->loc,
                arena_printf(&l->s->arena, "`%s` is the whole tensor", whole_tensor(l, &l->params[v.param])),
                "`%s` takes a window X[...], not a tensor by itself", name);
        else if (v.kind != V_ERROR)
            lower_error(
                l, n->loc, "`%s` takes a window X[...] of a tensor, not %s", name, value_describe(l, v));
        return NULL;
    }
    V v = lower_expr(l, n->kids[0]);
    if (v.kind == V_ERROR || lower_is_absent(l, n->kids[0], v)) return NULL;
    if (v.kind != V_TENSOR) {
        lower_error(
            l, n->kids[0]->loc, "`%s` takes a window of a tensor, not of %s", name, value_describe(l, v));
        return NULL;
    }
    if (l->in_clause) {
        lower_error(l, n->loc, "memory cannot be read in a grid or remap clause");
        return NULL;
    }
    w->param = &l->params[v.param];
    w->operands[w->n++] = l->args[v.param];
    return n;
}

/* Whether one of the subscripts is a tile of indices, which only `gather` and `scatter` take. */
static bool has_index_tile(Lower *l, const Node *n)
{
    bool found = false;
    for (uint32_t i = 1; i < n->n; i++) {
        const Node *a = n->kids[i];
        if (a->kind == N_ALL || a->kind == N_WINDOW || a->kind == N_NONE) continue;
        V v = lower_expr(l, a);
        found |= value_is_number(v) && value_rank(v);
    }
    return found;
}

/* Whether there is one subscript an axis. `window`: of a window, not of a gather. */
static bool fits_rank(Lower *l, const Node *n, const Window *w, bool window)
{
    int rank = w->param->type->rank, given = (int)n->n - 1;
    if (given == rank) return true;
    const char *note = NULL;
    if (window && has_index_tile(l, n)) note = LOWER_GATHER_NOTE;
    else if (given < rank)
        note = arena_printf(&l->s->arena, "each axis has a subscript, and `:` is a whole axis, as in `%s`",
            whole_tensor(l, w->param));
    lower_error_note(l, n->loc, note, "%d subscript%s for a tensor of %d %s", given, given == 1 ? "" : "s",
        rank, rank == 1 ? "axis" : "axes");
    return false;
}

static bool whole_axis(Lower *l, const Node *a, Window *w, int axis)
{
    const Dim *d = &l->func->dims[w->param->dims[axis]];
    if (d->extent < 0) {
        lower_error_note(l, a->loc,
            d->name ? arena_printf(&l->s->arena, "bind it: `instantiate` in the file, or %s %s=...",
                          lower_binder(l), d->name)
                    : NULL,
            "`:` makes the extent `%s` a tile extent, which must be known at compile time",
            d->name   ? d->name
            : d->text ? d->text
                      : "?");
        return false;
    }
    if (d->extent < 1) return lower_no_elements(l, a->loc, d->extent);
    w->extents[axis] = d->extent;
    l->b.loc = a->loc;
    w->operands[w->n++] = ir_index(&l->b, 0);
    return true;
}

static bool window_axis(Lower *l, const Node *a, Window *w, int axis)
{
    w->steps[axis] = 1;
    if (a->kind == N_ALL) return whole_axis(l, a, w, axis);
    if (a->kind == N_NONE) {
        lower_error_note(
            l, a->loc, "load first, then add an axis: load(X[...])[:, None]", "a window takes no `None`");
        return false;
    }
    bool window = a->kind == N_WINDOW;
    Value *base =
        lower_index_value(l, window ? a->kids[0] : a, window ? "the base of a window" : "a subscript");
    if (!base) return false;
    w->operands[w->n++] = base;
    w->extents[axis] = -1;
    if (!window) return true;
    if (!lower_const_int(l, a->kids[1], "the extent of a window", 1, INT64_MAX, &w->extents[axis]))
        return false;
    if (a->kids[2] && !lower_const_int(l, a->kids[2], "the step of a window", 1, INT32_MAX, &w->steps[axis]))
        return false;
    w->strided |= w->steps[axis] != 1;
    return true;
}

bool lower_window(Lower *l, const Call *c, Window *w)
{
    *w = (Window){ .n = 0 };
    const Node *n = tensor_of(l, c, w);
    if (!n || !fits_rank(l, n, w, true)) return false;
    bool ok = true;
    for (int i = 0; i < w->param->type->rank; i++) ok &= window_axis(l, n->kids[i + 1], w, i);
    if (!ok) return false;
    for (int i = 0; i < w->param->type->rank; i++)
        if (w->extents[i] != -1) w->shape[w->rank++] = w->extents[i];
    return w->rank == 0 || lower_tile_type(l, n->loc, w->param->type->dtype, w->rank, w->shape);
}

bool lower_indices(Lower *l, const Call *c, Window *w)
{
    *w = (Window){ .n = 0 };
    const Node *n = tensor_of(l, c, w);
    if (!n || !fits_rank(l, n, w, false)) return false;
    int rank = w->param->type->rank;
    V v[TILE_MAX_RANK + 1];
    if (rank == 0) {
        lower_error_note(l, n->loc, lower_no_axis_note(l, c->node->name, w->param->var->name),
            "`%s` needs a tensor of at least one axis", c->node->name);
        return false;
    }
    for (int i = 0; i < rank; i++) {
        const Node *a = n->kids[i + 1];
        if (a->kind == N_ALL || a->kind == N_WINDOW || a->kind == N_NONE) {
            lower_error_note(l, a->loc, "arange(n) with an offset is such a tile",
                "`%s` takes tiles of indices, one an axis", c->node->name);
            return false;
        }
        v[i] = lower_expr(l, a);
        if (v[i].kind == V_ERROR) return false;
        if (value_is_untyped(v[i])) v[i] = lower_adapt(l, v[i], DT_INDEX, a->loc);
        if (v[i].kind == V_ERROR) return false;
        if ((v[i].kind != V_CONST && v[i].kind != V_IR) || !dtype_is_int(value_dtype(v[i]))) {
            const bool floats = value_is_number(v[i]) && dtype_is_float(value_dtype(v[i]));
            lower_error_note(l, a->loc,
                floats ? "write `i32(...)` around it, which rounds towards zero" : NULL,
                "an index must be of integers, not %s", value_describe(l, v[i]));
            return false;
        }
        v[i] = lower_cast(l, v[i], DT_INDEX, a->loc);
    }
    int n_v = rank;
    if (!lower_join_shapes(l, n->loc, "the subscripts", v, n_v, &w->rank, w->shape)) return false;
    if (w->rank && !lower_tile_type(l, n->loc, DT_INDEX, w->rank, w->shape)) return false;
    for (int i = 0; i < rank; i++) {
        Value *x = lower_materialize(l, v[i], n->kids[i + 1]->loc);
        if (!x) return false;
        w->operands[w->n++] = lower_to_shape(l, x, w->rank, w->shape);
    }
    return true;
}
