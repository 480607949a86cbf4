/* artifact.c: compiled kernels as bytes, for the disk cache. Header { magic, layout of this format, size,
 * checksum }, then the payload: numbers as little-endian 8-byte words, texts and blobs with their length. The
 * reader trusts nothing: every length is checked against what is left, every index against its table; a wrong
 * byte makes it say no. */
#include "runtime/cache/artifact.h"

enum { MAX_ITEMS = 4096, MOST_REGISTERS = 1 << 16 }; /* limits that no valid file exceeds */
static const char magic[] = "TILEART7";              /* its first 8 bytes */

/* The version of the format. It changes when the meaning of stored data changes: operations of evaluated
 * code, slots, types. */
static uint64_t format_id(void)
{
    return (uint64_t)TILE_VERSION << 32 | (uint64_t)OP_COUNT << 16 | (uint64_t)DT_COUNT << 8 |
           (uint64_t)SLOT_PRINT;
}

uint64_t artifact_checksum(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t h = 0x9e3779b97f4a7c15ull ^ n;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    for (; n; n--) h = (h ^ *p++) * 1099511628211ull;
    return h ^ h >> 29;
}

static void put(Text *t, int64_t v) { text_write(t, (const char *)&v, 8); }

static void put_bytes(Text *t, const void *p, size_t n)
{
    put(t, (int64_t)n);
    if (n) text_write(t, p, n);
    static const char zeros[8];
    text_write(t, zeros, -n & 7);
}

static void put_string(Text *t, const char *s)
{
    s = s ? s : "";
    put_bytes(t, s, strlen(s) + 1);
}

static void put_shape(Text *t, const LaunchShape *s)
{
    put(t, s->threads);
    put(t, s->cluster);
    put(t, s->cluster_axis);
    put(t, s->clusters);
    put(t, s->persistent);
    put(t, s->shares);
    put(t, s->abreast);
    put(t, s->early_start);
    put(t, s->neighbours);
    put(t, s->shared_bytes);
    put(t, s->scratch_bytes);
    put(t, s->workspace_bytes);
    put(t, s->workspace_per_block);
}

static void put_payload(Text *t, const Compiled *c)
{
    const Artifact *a = &c->artifact;
    put(t, a->kind);
    put_bytes(t, a->data, a->size);
    put_string(t, a->entry);
    put_shape(t, &a->shape);
    put_string(t, a->schedule);
    put(t, a->registers_planned);
    put(t, a->registers);
    put(t, a->spill_bytes);
    put(t, a->stack_bytes);
    put(t, a->static_shared_bytes);
    put(t, a->n_slots);
    for (int i = 0; i < a->n_slots; i++) {
        put(t, a->slots[i].kind);
        put(t, a->slots[i].param);
        put(t, a->slots[i].index);
        put(t, a->slots[i].dtype);
    }
    put(t, a->n_maps);
    for (int i = 0; i < a->n_maps; i++) {
        const TensorMapDesc *m = &a->maps[i];
        put(t, m->param);
        put(t, m->rank);
        put(t, m->swizzle_bytes);
        put(t, m->dtype);
        put(t, m->pixels);
        for (int k = 0; k < 3; k++) {
            put(t, m->lower[k]);
            put(t, m->upper[k]);
        }
        for (int k = 0; k < 5; k++) {
            put(t, m->axes[k]);
            put(t, m->split[k]);
            put(t, m->box[k]);
            put(t, m->step[k]);
        }
    }
    put(t, a->n_messages);
    for (int i = 0; i < a->n_messages; i++) put_string(t, a->messages[i]);
    put(t, c->n_params);
    for (int i = 0; i < c->n_params; i++) {
        put(t, c->params[i].kind);
        put(t, c->params[i].dtype);
        put(t, c->params[i].rank);
        for (int k = 0; k < TILE_MAX_RANK; k++) put(t, c->params[i].dims[k]);
    }
    put(t, c->n_dims);
    for (int i = 0; i < c->n_dims; i++) {
        put(t, c->dims[i].extent);
        put(t, c->dims[i].param);
        put(t, c->dims[i].axis);
        put(t, c->dims[i].derived);
    }
    const EvalCode *codes[] = { c->grid, c->remap, c->extents, c->work };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        put_bytes(t, codes[i], codes[i] ? eval_size(codes[i]) : 0);
    put_string(t, c->spec);
}

void artifact_seal(Arena *arena, const void *payload, size_t n, const void **bytes, size_t *size)
{
    Text whole;
    text_init(&whole, arena);
    text_write(&whole, magic, 8);
    put(&whole, (int64_t)format_id());
    put(&whole, (int64_t)n);
    put(&whole, (int64_t)artifact_checksum(payload, n));
    if (n) text_write(&whole, payload, n);
    *bytes = whole.data;
    *size = whole.len;
}

void artifact_write(Session *s, const Compiled *c, const void **bytes, size_t *size)
{
    Text payload;
    text_init(&payload, &s->arena);
    put_payload(&payload, c);
    artifact_seal(&s->arena, payload.data, payload.len, bytes, size);
}

typedef struct Reader {
    Arena *arena;
    const unsigned char *p;
    size_t left;
    bool bad;
} Reader;

static int64_t get(Reader *r)
{
    int64_t v = 0;
    if (r->left < 8) {
        r->bad = true;
        return 0;
    }
    memcpy(&v, r->p, 8);
    r->p += 8;
    r->left -= 8;
    return v;
}

static int64_t get_in(Reader *r, int64_t lo, int64_t hi)
{
    int64_t v = get(r);
    if (v < lo || v > hi) {
        r->bad = true;
        return lo;
    }
    return v;
}

static const void *get_bytes(Reader *r, size_t *n)
{
    uint64_t size = (uint64_t)get(r);
    *n = 0;
    if (r->bad || size > r->left || ((size + 7) & ~7ull) > r->left) {
        r->bad = true;
        return "";
    }
    const void *p = r->p;
    *n = size;
    /* The padding is zero, so that one artifact has one encoding. */
    for (; size % 8; size++) r->bad |= r->p[size] != 0;
    if (r->bad) {
        *n = 0;
        return "";
    }
    r->p += size;
    r->left -= size;
    return p;
}

static const char *get_string(Reader *r)
{
    size_t n;
    const char *p = get_bytes(r, &n);
    if (r->bad || n == 0 || p[n - 1] || memchr(p, 0, n) != p + n - 1) {
        r->bad = true;
        return "";
    }
    return p;
}

/* Copied, because the bytes of the file may be at any address, and code needs an alignment of 8 bytes. */
static const EvalCode *get_code(Reader *r, const Compiled *c)
{
    size_t n;
    const void *p = get_bytes(r, &n);
    if (r->bad || !n) return NULL;
    void *copy = arena_alloc(r->arena, n);
    memcpy(copy, p, n);
    if (!eval_valid(copy, n, c->n_dims, c->n_params)) {
        r->bad = true;
        return NULL;
    }
    return copy;
}

static void get_artifact(Reader *r, Artifact *a)
{
    LaunchShape *s = &a->shape;
    a->kind = (ArtifactKind)get_in(r, 0, ARTIFACT_BINARY);
    a->data = get_bytes(r, &a->size);
    a->entry = get_string(r);
    s->threads = (int)get_in(r, 0, 4096);
    s->cluster = (int)get_in(r, 0, 64);
    s->cluster_axis = (int)get_in(r, 0, 2);
    s->clusters = (int)get_in(r, 0, 1024);
    s->persistent = (int)get_in(r, 0, 1 << 20);
    s->shares = (int)get_in(r, 0, 64);
    s->abreast = (int)get_in(r, 0, 32);
    s->early_start = (int)get_in(r, 0, 1);
    s->neighbours = (int)get_in(r, 0, 1);
    s->shared_bytes = get_in(r, 0, 1 << 30);
    s->scratch_bytes = get_in(r, 0, (int64_t)1 << 32);
    s->workspace_bytes = get_in(r, 0, (int64_t)1 << 48);
    s->workspace_per_block = get_in(r, 0, (int64_t)1 << 40);
    a->schedule = get_string(r);
    a->registers_planned = (int)get_in(r, 0, MOST_REGISTERS);
    a->registers = (int)get_in(r, -1, MOST_REGISTERS);
    a->spill_bytes = (int)get_in(r, -1, INT32_MAX);
    a->stack_bytes = (int)get_in(r, -1, INT32_MAX);
    a->static_shared_bytes = (int)get_in(r, -1, INT32_MAX);
    a->n_slots = (int)get_in(r, 0, MAX_ITEMS);
    Slot *slots = arena_array(r->arena, Slot, (size_t)a->n_slots);
    for (int i = 0; i < a->n_slots && !r->bad; i++)
        slots[i] = (Slot){ (SlotKind)get_in(r, 0, SLOT_PRINT), (int)get_in(r, -1, MAX_ITEMS),
            (int)get_in(r, -1, MAX_ITEMS), (DType)get_in(r, 0, DT_COUNT - 1) };
    a->slots = slots;
    a->n_maps = (int)get_in(r, 0, MAX_ITEMS);
    TensorMapDesc *maps = arena_array(r->arena, TensorMapDesc, (size_t)a->n_maps);
    for (int i = 0; i < a->n_maps && !r->bad; i++) {
        TensorMapDesc *m = &maps[i];
        m->param = (int)get_in(r, 0, MAX_ITEMS);
        m->rank = (int)get_in(r, 1, 5);
        m->swizzle_bytes = (int)get_in(r, 0, 128);
        m->dtype = (DType)get_in(r, 0, DT_COUNT - 1);
        m->pixels = (int)get_in(r, 0, 1024);
        for (int k = 0; k < 3; k++) {
            m->lower[k] = (int)get_in(r, INT16_MIN, INT16_MAX);
            m->upper[k] = (int)get_in(r, INT16_MIN, INT16_MAX);
        }
        for (int k = 0; k < 5; k++) {
            m->axes[k] = (int)get_in(r, 0, TILE_MAX_RANK - 1);
            m->split[k] = get_in(r, 0, (int64_t)1 << 31);
            m->box[k] = (uint32_t)get_in(r, 0, UINT32_MAX);
            m->step[k] = (uint32_t)get_in(r, 0, UINT32_MAX);
        }
    }
    a->maps = maps;
    a->n_messages = (int)get_in(r, 0, MAX_ITEMS);
    const char **messages = arena_array(r->arena, const char *, (size_t)a->n_messages);
    for (int i = 0; i < a->n_messages && !r->bad; i++) messages[i] = get_string(r);
    a->messages = messages;
}

static void get_params(Reader *r, Compiled *c)
{
    c->n_params = (int)get_in(r, 0, MAX_ITEMS);
    CompiledParam *params = arena_array(r->arena, CompiledParam, (size_t)c->n_params);
    for (int i = 0; i < c->n_params && !r->bad; i++) {
        CompiledParam *p = &params[i];
        p->kind = (ParamKind)get_in(r, 0, PARAM_SCALAR);
        p->dtype = (DType)get_in(r, 0, DT_COUNT - 1);
        p->rank = (int)get_in(r, 0, TILE_MAX_RANK);
        for (int k = 0; k < TILE_MAX_RANK; k++) p->dims[k] = (int)get_in(r, -1, MAX_ITEMS);
    }
    c->params = params;
    c->n_dims = (int)get_in(r, 0, MAX_ITEMS);
    CompiledDim *dims = arena_array(r->arena, CompiledDim, (size_t)c->n_dims);
    for (int i = 0; i < c->n_dims && !r->bad; i++)
        dims[i] = (CompiledDim){ get_in(r, -1, INT64_MAX), (int)get_in(r, -1, MAX_ITEMS),
            (int)get_in(r, -1, TILE_MAX_RANK - 1), get_in(r, 0, 1) != 0 };
    c->dims = dims;
}

/* Numbers that point into tables of the same artifact. */
static bool input_fits(const Compiled *c, SlotKind kind, int param, int index)
{
    bool p = param >= 0 && param < c->n_params;
    switch (kind) {
    case SLOT_DATA: return p && c->params[param].kind != PARAM_SCALAR;
    case SLOT_SCALAR: return p && c->params[param].kind == PARAM_SCALAR;
    case SLOT_EXTENT: return index >= 0 && index < c->n_dims;
    case SLOT_STRIDE:
        return p && c->params[param].kind != PARAM_SCALAR && index >= 0 && index < c->params[param].rank;
    case SLOT_GRID: return index >= -1 && index < 3;
    case SLOT_TENSOR_MAP: return index >= 0 && index < c->artifact.n_maps;
    case SLOT_CHECK:
    case SLOT_SCHEDULER:
    case SLOT_WORKSPACE:
    case SLOT_PRINT: return true;
    }
    return false;
}

bool compiled_valid(const Compiled *c)
{
    const Artifact *a = &c->artifact;
    for (int i = 0; i < c->n_params; i++)
        for (int k = 0; k < c->params[i].rank; k++)
            if (c->params[i].dims[k] >= c->n_dims) return false;
    int derived = 0;
    for (int i = 0; i < c->n_dims; i++) {
        const CompiledDim *d = &c->dims[i];
        derived += d->derived;
        if (d->param >= c->n_params || (d->extent < 0 && (d->param < 0 || d->axis < 0)) ||
            (d->param >= 0 && d->extent < 0 &&
                (c->params[d->param].kind == PARAM_SCALAR || d->axis >= c->params[d->param].rank)))
            return false;
    }
    for (int i = 0; i < a->n_slots; i++)
        if (!input_fits(c, a->slots[i].kind, a->slots[i].param, a->slots[i].index)) return false;
    for (int i = 0; i < a->n_maps; i++) {
        const TensorMapDesc *m = &a->maps[i];
        if (m->param < 0 || m->param >= c->n_params || c->params[m->param].kind == PARAM_SCALAR) return false;
        for (int k = 0; k < m->rank; k++)
            if (m->axes[k] < 0 || m->axes[k] >= c->params[m->param].rank) return false;
    }
    return c->grid && eval_results(c->grid) >= 1 && eval_results(c->grid) <= 3 &&
           (!c->remap || eval_results(c->remap) == 1) && (!c->work || eval_results(c->work) == 1) &&
           derived == (c->extents ? eval_results(c->extents) : 0);
}

bool artifact_read(Arena *arena, const void *bytes, size_t size, Compiled *out)
{
    Reader r = { arena, bytes, size, false };
    *out = (Compiled){ 0 };
    if (size < 32 || memcmp(bytes, magic, 8)) return false;
    r.p += 8;
    r.left -= 8;
    if ((uint64_t)get(&r) != format_id() || (uint64_t)get(&r) != size - 32) return false;
    uint64_t sum = (uint64_t)get(&r);
    if (sum != artifact_checksum(r.p, r.left)) return false;
    get_artifact(&r, &out->artifact);
    if (!r.bad) get_params(&r, out);
    if (!r.bad) out->grid = get_code(&r, out);
    if (!r.bad) out->remap = get_code(&r, out);
    if (!r.bad) out->extents = get_code(&r, out);
    if (!r.bad) out->work = get_code(&r, out);
    if (!r.bad) out->spec = get_string(&r);
    return !r.bad && r.left == 0 && compiled_valid(out);
}
