/* gen_tensors.c: the tensors of a random program: their extents, strides and first contents, and the
 * comparison of two runs. They follow from the seed and the kernel's parameters alone, so that they stay when
 * the kernel is cut down. */
#include "gen_state.h"
#include <stdio.h>

/* Memory for a tensor: rows or columns first (where the facts leave it open), rows padded; element 0 at the
 * promised alignment. */
static void make_tensor(Gen *g, GenKernel *k, int p)
{
    const Param *q = &g->f->params[p];
    InterpArg *a = &k->args[p];
    int rank = q->type->rank, size = dtype_bytes(q->type->dtype);
    bool columns = rank == 2 && q->stride[1] == FACT_UNKNOWN && q->stride_div[0] == 1 && irgen_chance(g, 50);
    int64_t inner = columns ? 0 : rank - 1, pitch = a->shape[inner];
    if (rank == 2) {
        if (irgen_chance(g, 50)) pitch += irgen_below(g, 5);
        if (q->stride_div[0] > 1) pitch = (pitch + 15) / 16 * 16;
        a->stride[1 - inner] = pitch;
    }
    a->stride[inner] = 1;
    int64_t n = rank == 2 ? pitch * a->shape[1 - inner] : a->shape[0];
    uint64_t own = k->seed * 31 + (uint64_t)p;
    int64_t gap = q->stride[inner] == FACT_UNKNOWN && q->stride_div[inner] == 1 && irgen_random(&own) % 4 == 0
                      ? 1 + (int64_t)(irgen_random(&own) % 3)
                      : 1;
    bool backwards = gap > 1 && !g->f->fits32 && q->align <= size && irgen_random(&own) % 2;
    for (int axis = 0; axis < rank; axis++) a->stride[axis] *= gap;
    n *= gap;
    k->bytes[p] = (size_t)(n * size);
    k->memory[p] = arena_alloc(&g->s->arena, k->bytes[p] + 16);
    a->data = k->memory[p];
    if (backwards) { /* the inner axis from its end */
        a->data = k->memory[p] + (a->shape[inner] - 1) * a->stride[inner] * size;
        a->stride[inner] = -a->stride[inner];
    }
}

void irgen_args(Gen *g, GenKernel *k)
{
    Func *f = g->f;
    g->rng = k->seed * 0xD1342543DE82EF95ull + 7;
    int64_t dims[5] = { 1 + irgen_below(g, 3 * (int)g->tm), 1 + irgen_below(g, 3 * (int)g->tn),
        1 + irgen_below(g, 3 * (int)g->tk), 1 + irgen_below(g, 12), 8 };
    for (int d = 0; d < 2; d++)
        if (f->dims[d].div > 1) dims[d] = (dims[d] + f->dims[d].div - 1) / f->dims[d].div * f->dims[d].div;
    for (int p = 0; p < f->n_params; p++) {
        if (f->params[p].type->kind != TYPE_TENSOR) continue;
        for (int a = 0; a < f->params[p].type->rank; a++) k->args[p].shape[a] = dims[f->params[p].dims[a]];
        make_tensor(g, k, p);
    }
    k->args[P_N].scalar.i = irgen_below(g, 6);
    k->args[P_ALPHA].scalar.f = irgen_below(g, 7) - 3;
}

static bool extremes(uint64_t seed) { return seed >= GEN_EXTREMES && seed % 3 == 0; }
bool irgen_huge(uint64_t seed) { return seed >= GEN_EXTREMES && seed % 9 == 6; }
bool irgen_tiny(uint64_t seed) { return seed >= GEN_EXTREMES && seed % 9 == 0; }

/* One element in 16. Beside denormals (tiny) there is no infinity: its product with a denormal is NaN where a
 * unit takes the latter for zero. */
static double extreme_float(DType d, uint64_t r, bool tiny, bool huge)
{
    static const double usual[] = { NAN, INFINITY, -INFINITY, -0.0 },
                        least[] = { 1e-40, -1e-45, 1.1754942e-38, 6e-8 },
                        largest[DT_COUNT] = { [DT_F8E4M3] = 448,
                            [DT_F8E5M2] = 57344,
                            [DT_F16] = 65504,
                            [DT_BF16] = 3e38,
                            [DT_F32] = 3e38,
                            [DT_F64] = 1.7e308 };
    if (huge && r >> 6 & 1) return r % 2 ? largest[d] : -largest[d];
    if (tiny) return r >> 6 & 1 ? least[r % 4] : usual[r % 2 * 3];
    return usual[r % 4];
}

static int64_t extreme_int(DType d, uint64_t r)
{
    const int bits = 8 * dtype_bytes(d);
    const int64_t least = bits < 64 ? -((int64_t)1 << (bits - 1)) : INT64_MIN;
    const int64_t all[] = { least, -(least + 1), -1, least + 1 };
    return all[r % 4];
}

void gen_fill(GenKernel *k)
{
    const bool odd = extremes(k->seed), tiny = irgen_tiny(k->seed), big = irgen_huge(k->seed);
    for (int p = 0; p < k->n; p++) {
        const Type *t = k->func->params[p].type;
        if (t->kind != TYPE_TENSOR) continue;
        uint64_t rng = k->seed ^ (uint64_t)(p + 1) * 0x1234567;
        size_t size = (size_t)dtype_bytes(t->dtype);
        for (size_t at = 0; at + size <= k->bytes[p]; at += size) {
            uint64_t r = irgen_random(&rng);
            bool small = dtype_is_float(t->dtype) || p == P_I || r >> 60 < 8;
            int64_t v = small ? (int64_t)(r % 9) - 4 : (int64_t)r;
            bool rare = odd && p != P_I && t->dtype != DT_BOOL && r >> 40 & 1 && (r >> 41 & 7) == 0;
            double x =
                rare && dtype_is_float(t->dtype) ? extreme_float(t->dtype, r >> 44, tiny, big) : (double)v;
            if (rare && !dtype_is_float(t->dtype)) v = extreme_int(t->dtype, r >> 44);
            scalar_store(t->dtype,
                dtype_is_float(t->dtype) ? scalar_float(x) : scalar_int(scalar_wrap(t->dtype, v)),
                k->memory[p] + at);
        }
    }
}

void *gen_save(Session *s, const GenKernel *k)
{
    size_t n = 0;
    for (int p = 0; p < k->n; p++) n += k->bytes[p];
    char *copy = arena_alloc(&s->arena, n + 1), *at = copy;
    for (int p = 0; p < k->n; p++) {
        if (!k->bytes[p]) continue;
        memcpy(at, k->memory[p], k->bytes[p]);
        at += k->bytes[p];
    }
    return copy;
}

static double tolerance(DType d) { return d == DT_BF16 ? 0.1 : d == DT_F16 ? 0.02 : 1e-4; }

bool gen_same(const GenKernel *k, const void *a, const void *b, char *why, size_t n)
{
    const char *pa = a, *pb = b;
    for (int p = 0; p < k->n; p++) {
        const Param *q = &k->func->params[p];
        size_t size = (size_t)dtype_bytes(q->type->dtype);
        for (size_t at = 0; k->bytes[p] && at + size <= k->bytes[p]; at += size) {
            DType d = q->type->dtype;
            Scalar x = scalar_load(d, pa + at), y = scalar_load(d, pb + at);
            bool same = scalar_bits(d, x) == scalar_bits(d, y);
            if (dtype_is_float(d) && !same) {
                same = isnan(x.f) ? isnan(y.f) : x.f == y.f; /* NaN of any kind; zeros of either sign */
                if ((!k->exact[p] || irgen_tiny(k->seed)) && isfinite(x.f) && isfinite(y.f))
                    same |= fabs(x.f - y.f) <= tolerance(d) * (1 + fabs(x.f));
            }
            if (same) continue;
            if (dtype_is_float(d))
                snprintf(why, n, "%s, element %zu of memory: %.9g and %.9g%s", q->name, at / size, x.f, y.f,
                    k->exact[p] ? " (exact)" : "");
            else
                snprintf(why, n, "%s, element %zu of memory: %lld and %lld", q->name, at / size,
                    (long long)x.i, (long long)y.i);
            return false;
        }
        pa += k->bytes[p];
        pb += k->bytes[p];
    }
    return true;
}
