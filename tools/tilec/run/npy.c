/* npy.c: see npy.h. The format: numpy.lib.format (NEP 1): "\x93NUMPY", version, length of the header (2 bytes
 * in version 1, 4 in 2 and 3, little-endian), the header: a Python dictionary, padded with blanks and a
 * newline; then the elements. */
#include "tools/tilec/run/npy.h"

enum { MAX_HEADER = 1 << 20 };

typedef struct Reader {
    const char *p, *end;
} Reader;

static bool skip_blanks(Reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r')) r->p++;
    return r->p < r->end;
}

static bool take(Reader *r, char c)
{
    if (!skip_blanks(r) || *r->p != c) return false;
    r->p++;
    return true;
}

/* 'text' or "text" without escapes; at most cap - 1 characters. */
static bool take_string(Reader *r, char *buf, size_t cap)
{
    if (!skip_blanks(r) || (*r->p != '\'' && *r->p != '"')) return false;
    char quote = *r->p++;
    size_t n = 0;
    for (; r->p < r->end && *r->p != quote; r->p++) {
        if (n + 1 == cap || *r->p == '\\' || !*r->p) return false;
        buf[n++] = *r->p;
    }
    buf[n] = 0;
    return r->p < r->end && *r->p++ == quote;
}

static bool take_word(Reader *r, const char *word)
{
    size_t n = strlen(word);
    if (!skip_blanks(r) || (size_t)(r->end - r->p) < n || memcmp(r->p, word, n)) return false;
    r->p += n;
    return true;
}

static bool take_extent(Reader *r, int64_t *value)
{
    if (!skip_blanks(r) || *r->p < '0' || *r->p > '9') return false;
    *value = 0;
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *r->p - '0', value))
            return false;
    if (r->p < r->end && *r->p == 'L') r->p++; /* Python 2 wrote long integers in this form. */
    return true;
}

/* (), (3,), (3, 4), (3, 4,) */
static const char *take_shape(Reader *r, Npy *npy)
{
    if (!take(r, '(')) return "its shape is no tuple";
    npy->rank = 0;
    while (!take(r, ')')) {
        if (npy->rank == TILE_MAX_RANK) return "it has more than 8 axes";
        if (!take_extent(r, &npy->shape[npy->rank])) return "its shape holds something that is no extent";
        npy->rank++;
        if (take(r, ',')) continue;
        if (!take(r, ')')) return "its shape is not closed";
        break;
    }
    return NULL;
}

static const char *parse_descr(Arena *a, const char *descr, Npy *npy)
{
    char order = descr[0];
    npy->kind = order ? descr[1] : 0;
    int digits = npy->kind ? (int)strspn(descr + 2, "0123456789") : 0;
    if (digits < 1 || digits > 2 || descr[2 + digits])
        return arena_printf(a, "its element type `%s` is not understood", descr);
    npy->size = descr[2] - '0';
    if (digits == 2) npy->size = 10 * npy->size + descr[3] - '0';
    if (order == '>' && npy->size > 1)
        return "it is big-endian; save it with array.astype(array.dtype.newbyteorder('<'))";
    if (!strchr("<=|>", order)) return arena_printf(a, "its element type `%s` is not understood", descr);
    bool power = npy->size == 1 || npy->size == 2 || npy->size == 4 || npy->size == 8;
    bool known = (npy->kind == 'b' && npy->size == 1) || (strchr("iu", npy->kind) && power) ||
                 (npy->kind == 'f' && power && npy->size > 1) ||
                 (npy->kind == 'V' && npy->size <= 2 && power);
    return known ? NULL : arena_printf(a, "elements of type `%s` have no counterpart", descr);
}

/* The dictionary: each of the three keys once, in any order. */
static const char *parse_header(Arena *a, Reader *r, Npy *npy)
{
    unsigned seen = 0;
    if (!take(r, '{')) return "its header is no dictionary";
    while (!take(r, '}')) {
        char key[32], descr[32];
        const char *why = NULL;
        if (!take_string(r, key, sizeof key) || !take(r, ':')) return "its header is malformed";
        unsigned bit = !strcmp(key, "descr")           ? 1
                       : !strcmp(key, "fortran_order") ? 2
                       : !strcmp(key, "shape")         ? 4
                                                       : 0;
        if (!bit) return "its header has an unknown key";
        if (seen & bit) return arena_printf(a, "its header has the key `%s` twice", key);
        seen |= bit;
        if (bit == 1 && skip_blanks(r) && *r->p == '[') return "its elements are records; save one field";
        if (bit == 1)
            why =
                take_string(r, descr, sizeof descr) ? parse_descr(a, descr, npy) : "its header is malformed";
        if (bit == 2 && !take_word(r, "False")) {
            npy->fortran = true;
            if (!take_word(r, "True")) return "its header is malformed";
        }
        if (bit == 4) why = take_shape(r, npy);
        if (why) return why;
        if (take(r, ',')) continue;
        if (!take(r, '}')) return "its header is malformed";
        break;
    }
    if (skip_blanks(r)) return "its header is malformed";
    return seen == 7 ? NULL : "its header lacks one of descr, fortran_order, shape";
}

static const char *count_bytes(Npy *npy)
{
    int64_t n = npy->size;
    bool empty = false;
    for (int i = 0; i < npy->rank; i++) empty |= npy->shape[i] == 0;
    for (int i = 0; i < npy->rank && !empty; i++)
        if (__builtin_mul_overflow(n, npy->shape[i], &n))
            return "its shape has more elements than fit into memory";
    npy->bytes = empty ? 0 : (size_t)n;
    return NULL;
}

const char *npy_parse(Arena *a, const char *data, size_t len, Npy *npy)
{
    memset(npy, 0, sizeof *npy);
    if (len < 6 || memcmp(data, "\x93NUMPY", 6)) return "it is no .npy file";
    if (len < 10) return "it is cut off in its header";
    const unsigned char *u = (const unsigned char *)data;
    if (u[6] < 1 || u[6] > 3)
        return arena_printf(a, "it is of version %d.%d of the format; 1 to 3 are understood", u[6], u[7]);
    size_t start = u[6] == 1 ? 10 : 12, n = u[8] | (size_t)u[9] << 8;
    if (len < start) return "it is cut off in its header";
    if (u[6] > 1) n |= (size_t)u[10] << 16 | (size_t)u[11] << 24;
    if (n > MAX_HEADER) return "its header is over 1 MiB long";
    if (len - start < n) return "it is cut off in its header";
    const char *why = parse_header(a, &(Reader){ data + start, data + start + n }, npy);
    if (why || (why = count_bytes(npy))) return why;
    npy->offset = start + n;
    size_t have = len - npy->offset;
    if (have < npy->bytes)
        return arena_printf(
            a, "it is cut off: its shape wants %zu bytes of elements, %zu are there", npy->bytes, have);
    if (have > npy->bytes) return arena_printf(a, "%zu bytes follow its last element", have - npy->bytes);
    return NULL;
}

static const char *const descrs[DT_COUNT] = {
    [DT_BOOL] = "|b1",
    [DT_I8] = "|i1",
    [DT_I16] = "<i2",
    [DT_I32] = "<i4",
    [DT_I64] = "<i8",
    [DT_U8] = "|u1",
    [DT_U16] = "<u2",
    [DT_U32] = "<u4",
    [DT_U64] = "<u8",
    [DT_INDEX] = "<i8",
    [DT_F8E4M3] = "|u1",
    [DT_F8E5M2] = "|u1",
    [DT_F16] = "<f2",
    [DT_BF16] = "<u2",
    [DT_F32] = "<f4",
    [DT_F64] = "<f8",
};

const char *npy_descr(DType d) { return descrs[d]; }

bool npy_holds(const Npy *npy, DType d)
{
    const char *want = descrs[d];
    if (want[2] - '0' != npy->size) return false;
    bool raw = d == DT_BF16 || d == DT_F8E4M3 || d == DT_F8E5M2;
    return npy->kind == want[1] || (raw && npy->kind == 'V');
}

const char *npy_type_name(Arena *a, const Npy *npy) { return arena_printf(a, "%c%d", npy->kind, npy->size); }

const char *npy_header(Arena *a, DType d, int rank, const int64_t *shape, size_t *len)
{
    Text t;
    text_init(&t, a);
    text_printf(&t, "{'descr': '%s', 'fortran_order': False, 'shape': (", descrs[d]);
    for (int i = 0; i < rank; i++)
        text_printf(&t, i + 1 < rank || rank == 1 ? "%lld," : "%lld", (long long)shape[i]);
    text_puts(&t, "), }");
    while ((10 + t.len + 1) % 64) text_putc(&t, ' '); /* The elements must start at a multiple of 64. */
    text_putc(&t, '\n');
    char *head = arena_alloc(a, 10 + t.len);
    memcpy(head, "\x93NUMPY\x01", 8);
    head[8] = (char)(t.len & 255);
    head[9] = (char)(t.len >> 8);
    memcpy(head + 10, t.data, t.len);
    *len = 10 + t.len;
    return head;
}

void npy_strides(const Npy *npy, int64_t *strides)
{
    int64_t step = 1;
    for (int k = 0; k < npy->rank; k++) {
        int axis = npy->fortran ? k : npy->rank - 1 - k;
        strides[axis] = step;
        if (npy->shape[axis] > 1 && npy->bytes) step *= npy->shape[axis];
    }
}
