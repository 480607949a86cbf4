/* verdict.c: compares the outputs of a problem with the wanted ones, and everything else with what it was. */
#include "problem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double bound_of(const Recipe *r, RefType t)
{
    if (!ref_type_is_float(t)) return 0;
    return t == REF_F64 ? r->f64 : t == REF_F32 ? r->f32 : r->narrow;
}

static void describe_index(const Tensor *t, int64_t linear, char *out, size_t size)
{
    int64_t index[MAX_RANK];
    for (int a = t->rank - 1; a >= 0; a--) index[a] = linear % t->shape[a], linear /= t->shape[a];
    size_t n = (size_t)snprintf(out, size, "%s[", t->name);
    for (int a = 0; a < t->rank && n < size; a++)
        n += (size_t)snprintf(out + n, size - n, a ? ", %lld" : "%lld", (long long)index[a]);
    if (n < size) snprintf(out + n, size - n, "]");
}

/* Keeps the worst of several outputs: by how far the bound is used up. */
static void judge(
    Verdict *v, const Problem *p, const Tensor *t, const double *got, const double *want, double slack)
{
    double floor = p->recipe->floor == FLOOR_RMS   ? ref_rms(want, t->count)
                   : p->recipe->floor == FLOOR_ONE ? 1
                                                   : 0;
    if (floor < t->terms) floor = t->terms;
    RefError e = ref_compare(t->type, got, want, t->count, floor);
    double bound = slack * bound_of(p->recipe, t->type);
    double norm =
        (p->recipe->norm > 0 && ref_type_size(t->type) < 4 ? slack * p->recipe->norm : 0.7 * bound) *
        ref_epsilon(t->type);
    char where[96];
    /* If every element is within `bound` ulp, the norm of the error is within bound * epsilon of the norm of
     * the values. The test asks for less, because errors spread over many elements: rounding to nearest alone
     * gives 0.2 to 0.29 epsilon. */
    bool norm_counts = t->count >= 64 && p->recipe->floor != FLOOR_ONE && bound > 0;
    if (e.misfits) {
        describe_index(t, e.first_misfit, where, sizeof where);
        snprintf(v->text, sizeof v->text,
            "%lld elements are NaN or infinite on one side only, first %s = %g, want %g",
            (long long)e.misfits, where, got[e.first_misfit], want[e.first_misfit]);
        v->ok = false;
    } else if (e.ulp > bound) {
        describe_index(t, e.worst, where, sizeof where);
        snprintf(v->text, sizeof v->text, "%s = %.9g, want %.9g: %.3g ulp, bound %g", where, e.got, e.want,
            e.ulp, bound);
        v->ok = false;
    } else if (norm_counts && e.norm > norm) {
        snprintf(v->text, sizeof v->text, "%s: relative norm of the error %.3g, bound %.3g", t->name, e.norm,
            norm);
        v->ok = false;
    }
    if (v->error.worst < 0 || e.ulp * (v->bound + 1e-9) > v->error.ulp * (bound + 1e-9) || !v->ok)
        v->error = e, v->bound = bound;
}

static double *gather_values(const Tensor *t, const unsigned char *base)
{
    double *x = malloc(((size_t)t->count + 1) * sizeof *x);
    for (int64_t i = 0; i < t->count; i++) x[i] = ref_get(t->type, base + t->offset, tensor_offset(t, i));
    return x;
}

/* First byte outside the elements that changed, or -1. */
static int64_t stray_write(const Tensor *t)
{
    if (t->role == ROLE_IN) {
        for (size_t i = 0; i < t->bytes; i++)
            if (t->base[i] != t->before[i]) return (int64_t)i;
        return -1;
    }
    size_t size = ref_type_size(t->type);
    unsigned char *mine = calloc(t->bytes, 1);
    for (int64_t i = 0; i < t->count; i++)
        memset(mine + ((int64_t)t->offset + tensor_offset(t, i) * (int64_t)size), 1, size);
    int64_t at = -1;
    for (size_t i = 0; i < t->bytes && at < 0; i++)
        if (!mine[i] && t->base[i] != t->before[i]) at = (int64_t)i;
    free(mine);
    return at;
}

Verdict problem_check(const Problem *p)
{
    Verdict v = { .ok = true, .error = { .worst = -1 } };
    for (int i = 0; i < p->n_tensors && v.ok; i++) {
        const Tensor *t = &p->tensors[i];
        int64_t stray = stray_write(t);
        if (stray >= 0) {
            snprintf(v.text, sizeof v.text,
                "%s: byte %lld from its first element was written, which is no element of an output", t->name,
                (long long)stray - (long long)t->offset);
            v.ok = false;
        } else if (t->role == ROLE_OUT || t->role == ROLE_INOUT) {
            double *got = gather_values(t, t->base);
            judge(&v, p, t, got, t->want, 1);
            free(got);
        }
    }
    return v;
}

double *problem_outputs(const Problem *p, int64_t *count)
{
    int64_t n = 0;
    for (int i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].role == ROLE_OUT || p->tensors[i].role == ROLE_INOUT) n += p->tensors[i].count;
    double *all = malloc(((size_t)n + 1) * sizeof *all), *at = all;
    for (int i = 0; i < p->n_tensors; i++) {
        const Tensor *t = &p->tensors[i];
        if (t->role != ROLE_OUT && t->role != ROLE_INOUT) continue;
        for (int64_t e = 0; e < t->count; e++)
            *at++ = ref_get(t->type, t->base + t->offset, tensor_offset(t, e));
    }
    *count = n;
    return all;
}

Verdict problem_agree(const Problem *p, const double *a, const double *b)
{
    Verdict v = { .ok = true, .error = { .worst = -1 } };
    for (int i = 0; i < p->n_tensors && v.ok; i++) {
        const Tensor *t = &p->tensors[i];
        if (t->role != ROLE_OUT && t->role != ROLE_INOUT) continue;
        judge(&v, p, t, a, b, 2); /* Each may be on another side of the true value. */
        a += t->count;
        b += t->count;
    }
    return v;
}
