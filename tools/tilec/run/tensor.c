/* tensor.c: see tensor.h. */
#include "tools/tilec/run/tensor.h"
#include "tools/tilec/run/npy.h"
#include "ir/support/number.h"
#include <stdlib.h>
#include <unistd.h>

bool dtype_of(tile_dtype t, DType *d)
{ return dtype_parse(tile_dtype_name(t), strlen(tile_dtype_name(t)), d); }

bool split_binding(Tool *t, FlagId flag, const char *text, const char **name, const char **rest)
{
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1]) {
        tool_usage(t, "%s wants %s, not `%s`", flag_info[flag].spelling, flag_info[flag].value, text);
        return false;
    }
    *name = arena_strndup(&t->arena, text, (size_t)(eq - text));
    *rest = eq + 1;
    return true;
}

/* --- extents ----------------------------------------------------------------------------------------- */

const Extent *extent_find(const Extents *known, const char *name)
{
    for (size_t i = 0; i < known->len; i++)
        if (!strcmp(known->data[i].name, name)) return &known->data[i];
    return NULL;
}

bool extent_is_name(const char *s)
{
    return *s && !(*s >= '0' && *s <= '9') &&
           !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")];
}

int tensor_bind(Tool *t, const tile_param_info *p, const HostTensor *h, const char *from, Extents *known)
{
    if (h->rank != p->rank)
        return tool_error(t, "%s: %s has %d ax%s, the kernel's %s has %d", from, p->name, h->rank,
            h->rank == 1 ? "is" : "es", p->name, p->rank);
    for (int a = 0; a < p->rank; a++) {
        if (!extent_is_name(p->dims[a])) continue;
        const Extent *x = extent_find(known, p->dims[a]);
        if (!x) vec_push(&t->arena, known, ((Extent){ p->dims[a], h->shape[a], from }));
        else if (x->value != h->shape[a])
            return tool_error(t, "%s: axis %d of %s is the extent %s, here %lld, but %lld by %s", from, a,
                p->name, p->dims[a], (long long)h->shape[a], (long long)x->value, x->from);
    }
    return EXIT_OK;
}

/* --- memory ------------------------------------------------------------------------------------------ */

static int allocate(Tool *t, const char *name, HostTensor *h)
{
    int64_t n = dtype_bytes(h->dtype), step = 1;
    bool bad = false;
    for (int a = h->rank; a-- > 0;) {
        h->strides[a] = step;
        if (h->shape[a]) bad |= __builtin_mul_overflow(step, h->shape[a], &step);
        bad |= __builtin_mul_overflow(n, h->shape[a], &n);
    }
    h->bytes = bad ? 0 : (size_t)n;
    h->data = bad || n > PTRDIFF_MAX - 64 ? NULL : aligned_alloc(64, ((size_t)n + 127) / 64 * 64);
    if (!h->data) return tool_error(t, "%s: no memory for a tensor of that shape", name);
    memset(h->data, 0, h->bytes);
    return EXIT_OK;
}

int tensor_make(Tool *t, const tile_param_info *p, const ShapeSource *shape, HostTensor *h)
{
    *h = (HostTensor){ .rank = p->rank };
    dtype_of(p->dtype, &h->dtype);
    int code = shape->fn(shape->user, p, h->shape);
    if (!code) code = allocate(t, p->name, h);
    if (!code) memset(h->data, tensor_poison(h->dtype), h->bytes);
    return code;
}

/* --- sources ----------------------------------------------------------------------------------------- */

static int read_npy(Tool *t, const tile_param_info *p, const char *path, HostTensor *h)
{
    FileText file;
    Npy npy;
    if (!file_read(t, path, (size_t)1 << 40, &file)) return EXIT_INPUT;
    const char *why = npy_parse(&t->arena, file.data, file.len, &npy);
    if (why) return tool_error(t, "%s: %s", path, why);
    if (!npy_holds(&npy, h->dtype))
        return tool_error(t, "%s holds elements of type %s, but %s is %s (%s)", path,
            npy_type_name(&t->arena, &npy), p->name, tile_dtype_name(p->dtype), npy_descr(h->dtype));
    h->rank = npy.rank;
    memcpy(h->shape, npy.shape, sizeof h->shape);
    int code = allocate(t, p->name, h);
    if (code) return code;
    npy_strides(&npy, h->strides);
    memcpy(h->data, file.data + npy.offset, npy.bytes);
    for (size_t i = 0; h->dtype == DT_BOOL && i < npy.bytes; i++)
        ((char *)h->data)[i] = ((char *)h->data)[i] != 0;
    return EXIT_OK;
}

/* splitmix64 (Steele, Lea and Flood 2014) */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

typedef struct Fill {
    enum { FILL_RANDOM, FILL_ZEROS, FILL_ONES } kind;
    uint64_t seed;
    bool ranged;
    double lo, hi;
} Fill;

/* Floats are uniform in [lo, hi), -1 to 1 unless given; integers are any of lo .. hi, -8 .. 8 (unsigned 0 ..
 * 8) unless given. */
static void fill(const Fill *f, HostTensor *h)
{
    uint64_t state = f->seed;
    bool real = dtype_is_float(h->dtype);
    size_t size = (size_t)dtype_bytes(h->dtype);
    double lo = f->ranged ? f->lo : real ? -1 : h->dtype == DT_BOOL || !dtype_is_signed(h->dtype) ? 0 : -8;
    double hi = f->ranged ? f->hi : h->dtype == DT_BOOL || real ? 1 : 8;
    for (size_t i = 0; i < h->bytes / size; i++) {
        double unit = (double)(next_random(&state) >> 11) * 0x1p-53, v = f->kind;
        if (f->kind == FILL_RANDOM)
            v = real ? lo + unit * (hi - lo) : lo + (double)(int64_t)(unit * (hi - lo + 1));
        else v = f->kind == FILL_ONES;
        Scalar s =
            real ? scalar_float(scalar_round(h->dtype, v)) : scalar_int(scalar_wrap(h->dtype, (int64_t)v));
        scalar_store(h->dtype, s, (char *)h->data + i * size);
    }
}

void tensor_draw(HostTensor *h, int64_t lo, int64_t hi)
{ fill(&(Fill){ FILL_RANDOM, h->seed, true, (double)lo, (double)hi }, h); }

static bool take_number(const char **p, double *v)
{
    char *end;
    if (**p != ':') return false;
    *v = number_read(*p + 1, &end);
    if (end == *p + 1 || !(*v >= -0x1p53 && *v <= 0x1p53)) return false;
    *p = end;
    return true;
}

static int not_understood(Tool *t, const tile_param_info *p, const char *source)
{
    return tool_usage(t,
        "%s: `%s` is not understood; write random:%s[2, 64]:SEED, random:SEED:LO:HI, zeros:%s[2, 64], or a "
        "file",
        p->name, source, tile_dtype_name(p->dtype), tile_dtype_name(p->dtype));
}

/* [:TYPE[extents]][:SEED[:LO:HI]] behind `random`, `zeros`, `ones` */
static int made_up(Tool *t, const tile_param_info *p, const char *source, const char *rest, Fill f,
    const ShapeSource *shape, HostTensor *h)
{
    int code = EXIT_OK;
    const char *open = strchr(rest, '[');
    double seed = 0;
    if (open) {
        DType d;
        if (*rest != ':' || !dtype_parse(rest + 1, (size_t)(open - rest) - 1, &d))
            return not_understood(t, p, source);
        if (d != h->dtype)
            return tool_error(t, "%s: `%s` is not of the kernel's type %s; write `%.*s:%s%s`", p->name,
                source, tile_dtype_name(p->dtype), (int)strcspn(source, ":"), source,
                tile_dtype_name(p->dtype), open);
        h->rank = 0;
        for (rest = open + 1; *rest != ']'; rest += strspn(rest, ", ")) {
            size_t n = strspn(rest, "0123456789");
            if (!n || n > 18 || h->rank == TILE_MAX_RANK) return not_understood(t, p, source);
            h->shape[h->rank++] = strtoll(rest, NULL, 10);
            rest += n;
        }
        rest++;
        code = allocate(t, p->name, h);
    } else {
        code = tensor_make(t, p, shape, h);
    }
    if (code) return code;
    if (*rest && !take_number(&rest, &seed)) return not_understood(t, p, source);
    if (*rest && !(take_number(&rest, &f.lo) && take_number(&rest, &f.hi) && !*rest && f.lo <= f.hi))
        return not_understood(t, p, source);
    f.ranged = f.lo != f.hi || f.lo != 0;
    f.seed = (uint64_t)(int64_t)seed;
    h->seed = f.seed;
    h->drawn = f.kind == FILL_RANDOM && !f.ranged;
    fill(&f, h);
    return EXIT_OK;
}

int tensor_read(
    Tool *t, const tile_param_info *p, const char *source, const ShapeSource *shape, HostTensor *h)
{
    static const char *const kinds[] = {
        [FILL_RANDOM] = "random", [FILL_ZEROS] = "zeros", [FILL_ONES] = "ones"
    };
    *h = (HostTensor){ .rank = p->rank };
    dtype_of(p->dtype, &h->dtype);
    for (int k = 0; k < 3; k++) {
        size_t n = strlen(kinds[k]);
        if (!strncmp(source, kinds[k], n) && (!source[n] || source[n] == ':'))
            return made_up(t, p, source, source + n, (Fill){ .kind = k }, shape, h);
    }
    if (strchr(source, ':') && access(source, F_OK)) return not_understood(t, p, source);
    return read_npy(t, p, source, h);
}

void tensor_write(Tool *t, const HostTensor *h, const char *path, Outputs *o)
{
    size_t n;
    const char *head = npy_header(&t->arena, h->dtype, h->rank, h->shape, &n);
    char *bytes = arena_alloc(&t->arena, n + h->bytes);
    memcpy(bytes, head, n);
    memcpy(bytes + n, h->data, h->bytes);
    outputs_add(t, o, path, bytes, n + h->bytes);
}
