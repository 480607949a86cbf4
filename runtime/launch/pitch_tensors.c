/* pitch_tensors.c: which tensors of a launch are copied first, as rows at one distance, and where the copies
 * lie; pitch.c decides whether they are. */
#include "runtime/launch/pitch.h"

enum { ROW_GRAIN = 32, PLACE = 256 };

/* Whether some box of the tensor begins where TMA cannot fetch it. */
static bool out_of_reach(const KernelParam *q, const View *v, const int64_t *strides, int unit)
{
    if (!(v->facts & FACT_ALIGNED)) return true;
    for (int a = 0; a < q->rank; a++)
        if (a != unit && v->extent[a] > 1 && strides[a] * q->size % 16) return true;
    return false;
}

/* The elements from one row of so many to the next. */
static int64_t in_rows(int64_t elements, int size)
{ return (elements * size + ROW_GRAIN - 1) / ROW_GRAIN * ROW_GRAIN / size; }

/* The axes but the one of stride 1 as rows at one distance. False: they are none, or overlap. */
static bool as_rows(const KernelParam *q, const View *v, const int64_t *strides, int unit, PitchedTensor *t)
{
    int axis[TILE_MAX_RANK], n = 0;
    for (int a = 0; a < q->rank; a++) {
        if (a == unit || v->extent[a] == 1) continue;
        int at = n++;
        for (; at > 0 && strides[axis[at - 1]] < strides[a]; at--) axis[at] = axis[at - 1];
        axis[at] = a;
    }
    if (!n && !t->converted) return false;
    t->columns = v->extent[unit];
    t->rows = 1;
    t->from = n ? strides[axis[n - 1]] : t->columns;
    if (t->from < t->columns) return false;
    for (int k = n - 1; k >= 0; k--) {
        if (strides[axis[k]] != t->from * t->rows) return false;
        t->rows *= v->extent[axis[k]];
    }
    t->to = in_rows(t->columns, t->size);
    for (int a = 0; a < q->rank; a++)
        t->strides[a] = a == unit ? 1 : v->extent[a] == 1 ? t->to : strides[a] / t->from * t->to;
    return true;
}

/* The two axes of more than one element, exchanged. False: there are others. */
static bool as_transposed(
    const KernelParam *q, const View *v, const int64_t *strides, int unit, PitchedTensor *t)
{
    int other = -1;
    for (int a = 0; a < q->rank; a++) {
        if (a == unit || v->extent[a] == 1) continue;
        if (other >= 0) return false;
        other = a;
    }
    if (other < 0 || v->extent[unit] == 1 || strides[other] < v->extent[unit]) return false;
    t->transposed = true;
    t->columns = v->extent[unit];
    t->rows = v->extent[other];
    t->from = strides[other];
    t->to = in_rows(t->rows, t->size);
    for (int a = 0; a < q->rank; a++) t->strides[a] = a == other ? 1 : t->to;
    return true;
}

/* Whether the form copies the tensor of parameter i, and how. */
static bool is_copied(const tile_kernel *k, const LaunchArgs *l, const PitchForm *f, int i, PitchedTensor *t)
{
    const KernelParam *q = &k->params[i];
    const View *v = &l->views[i];
    int unit = (int)(v->facts >> FACT_UNIT & 15) - 1;
    if (q->kind != PARAM_IN || v->facts & FACT_ABSENT || q->rank < 2 || unit < 0) return false;
    *t = (PitchedTensor){ .param = i, .size = q->size };
    t->converted = f->converted && f->converted->to[i] != DT_COUNT;
    if (t->converted) {
        t->size = dtype_bytes(f->converted->to[i]);
        const ComputedInput *c = converted_by_operations(f->converted, i);
        for (int j = 0; c && j < c->n; j++)
            if (l->views[c->from[j].param].facts & FACT_ABSENT) return false;
        return as_rows(q, v, l->strides[i], unit, t);
    }
    if (q->size > 4) return false;
    return (i < 64 && f->transposed >> i & 1 && as_transposed(q, v, l->strides[i], unit, t)) ||
           (f->copied && out_of_reach(q, v, l->strides[i], unit) && as_rows(q, v, l->strides[i], unit, t));
}

void pitch_find(tile_kernel *k, const LaunchArgs *l, const PitchForm *f, Pitch *p)
{
    int left = 0; /* tensors that are to be converted and cannot be */
    p->n = 0;
    p->bytes = 0;
    p->converted = f->converted;
    p->kernel = f->converted ? f->converted->kernel : k;
    for (int i = 0; i < k->n_params; i++) {
        PitchedTensor t;
        bool found = p->n < MOST_PITCHED && is_copied(k, l, f, i, &t);
        left += !found && f->converted && f->converted->to[i] != DT_COUNT;
        if (!found) continue;
        t.offset = p->bytes;
        p->bytes +=
            ((size_t)((t.transposed ? t.columns : t.rows) * t.to * t.size) + PLACE - 1) / PLACE * PLACE;
        p->tensor[p->n++] = t;
    }
    if (left) p->n = 0;
}

uint64_t pitch_transposable(tile_kernel *k, const LaunchArgs *l)
{
    uint64_t found = 0;
    Pitch p;
    for (int i = 0; k->front->products && i < k->n_params && i < 64; i++) {
        if (k->params[i].size != 1 && k->params[i].size != 4) continue;
        pitch_find(k, l, &(PitchForm){ .transposed = (uint64_t)1 << i }, &p);
        found |= (uint64_t)p.n << i;
    }
    return found;
}

void pitch_place(Pitch *p, const LaunchArgs *l, char *base)
{
    for (int i = 0; i < p->n; i++) {
        PitchedTensor *t = &p->tensor[i];
        t->tensor = (tile_tensor){ base + t->offset, l->views[t->param].extent, t->strides, -1, TILE_NONE };
        p->args[t->param] = tile_arg_tensor(&t->tensor);
    }
}
