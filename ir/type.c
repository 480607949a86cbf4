/* type.c: see type.h. */
#include "ir/type.h"

const DTypeInfo dtype_info[DT_COUNT] = {
#define DTYPE(ID, name, bits, kind) { name, bits, #kind[0] },
#include "ir/type.def"
#undef DTYPE
};

bool dtype_parse(const char *s, size_t len, DType *out)
{
    for (int i = 0; i < DT_COUNT; i++)
        if (strlen(dtype_info[i].name) == len && !memcmp(s, dtype_info[i].name, len)) {
            *out = (DType)i;
            return true;
        }
    return false;
}

struct TypeTable {
    const Type **slots;
    size_t cap, n;
};

static size_t hash_type(const Type *t)
{
    uint64_t h = (uint64_t)t->kind * 31 + t->dtype;
    h = h * 1099511628211ull + (uint64_t)t->rank;
    for (int i = 0; i < t->rank; i++) h = (h ^ (uint64_t)t->shape[i]) * 1099511628211ull;
    h = (h ^ (uint64_t)(uintptr_t)t->layout) * 1099511628211ull;
    return (size_t)(h ^ h >> 29);
}

static bool same(const Type *a, const Type *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank && a->layout == b->layout &&
           !memcmp(a->shape, b->shape, sizeof a->shape);
}

static const Type *known(const TypeTable *tab, const Type *t)
{
    for (size_t h = hash_type(t) & (tab->cap - 1); tab->slots[h]; h = (h + 1) & (tab->cap - 1))
        if (same(tab->slots[h], t)) return tab->slots[h];
    return NULL;
}

/* A text that is no interned one belongs to no known type, so that texts are interned for new types alone. */
static const Type *intern(Session *s, Type t)
{
    for (int i = t.rank; i < TILE_MAX_RANK; i++) t.shape[i] = 0;
    if (!s->types) s->types = arena_new(&s->arena, TypeTable);
    TypeTable *tab = s->types;
    const Type *old = tab->cap ? known(tab, &t) : NULL;
    if (old) return old;
    if (t.layout) {
        t.layout = session_intern(s, t.layout, strlen(t.layout));
        if (tab->cap && (old = known(tab, &t))) return old;
    }
    if (2 * (tab->n + 1) > tab->cap) {
        size_t cap = tab->cap ? 2 * tab->cap : 64;
        const Type **slots = arena_array(&s->arena, const Type *, cap);
        for (size_t i = 0; i < tab->cap; i++) {
            if (!tab->slots[i]) continue;
            size_t h = hash_type(tab->slots[i]) & (cap - 1);
            while (slots[h]) h = (h + 1) & (cap - 1);
            slots[h] = tab->slots[i];
        }
        tab->slots = slots;
        tab->cap = cap;
    }
    size_t h = hash_type(&t) & (tab->cap - 1);
    while (tab->slots[h]) h = (h + 1) & (tab->cap - 1);
    Type *fresh = arena_new(&s->arena, Type);
    *fresh = t;
    tab->n++;
    return tab->slots[h] = fresh;
}

TypeTable *type_table_copy(Session *s, const TypeTable *tab)
{
    if (!tab) return NULL;
    TypeTable *copy = arena_new(&s->arena, TypeTable);
    *copy = *tab;
    copy->slots = arena_array(&s->arena, const Type *, tab->cap);
    memcpy(copy->slots, tab->slots, tab->cap * sizeof *copy->slots);
    return copy;
}

const Type *type_scalar(Session *s, DType d) { return intern(s, (Type){ .kind = TYPE_SCALAR, .dtype = d }); }
const Type *type_token(Session *s) { return intern(s, (Type){ .kind = TYPE_TOKEN }); }
const Type *type_error(Session *s) { return intern(s, (Type){ .kind = TYPE_ERROR }); }

const Type *type_tensor(Session *s, DType d, int rank)
{ return intern(s, (Type){ .kind = TYPE_TENSOR, .dtype = d, .rank = rank }); }

const Type *type_tile(Session *s, DType d, int rank, const int64_t *shape)
{
    Type t = { .kind = TYPE_TILE, .dtype = d, .rank = rank };
    memcpy(t.shape, shape, (size_t)rank * sizeof *shape);
    return intern(s, t);
}

const Type *type_value(Session *s, DType d, int rank, const int64_t *shape)
{ return rank ? type_tile(s, d, rank, shape) : type_scalar(s, d); }

const Type *type_shared(Session *s, DType d, int rank, const int64_t *shape, const char *layout)
{
    Type t = { .kind = TYPE_SHARED, .dtype = d, .rank = rank, .layout = layout };
    memcpy(t.shape, shape, (size_t)rank * sizeof *shape);
    return intern(s, t);
}

const Type *type_barrier(Session *s, int64_t n)
{ return intern(s, (Type){ .kind = TYPE_BARRIER, .rank = 1, .shape = { n } }); }

const Type *type_with_dtype(Session *s, const Type *t, DType d)
{
    Type c = *t;
    c.dtype = d;
    return intern(s, c);
}

const Type *type_with_layout(Session *s, const Type *t, const char *layout)
{
    Type c = *t;
    c.layout = layout;
    return intern(s, c);
}

int64_t type_elements(const Type *t)
{
    int64_t n = 1;
    if (t->kind != TYPE_SCALAR)
        for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

bool type_same_shape(const Type *a, const Type *b)
{
    int ra = a->kind == TYPE_SCALAR ? 0 : a->rank, rb = b->kind == TYPE_SCALAR ? 0 : b->rank;
    return ra == rb && !memcmp(a->shape, b->shape, (size_t)ra * sizeof *a->shape);
}

static void print_shape(const Type *t, Text *out)
{
    text_putc(out, '[');
    for (int i = 0; i < t->rank; i++) text_printf(out, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    text_putc(out, ']');
    if (t->layout) text_printf(out, "@%s", t->layout);
}

void type_print(const Type *t, Text *out)
{
    switch (t->kind) {
    case TYPE_SCALAR: text_puts(out, dtype_name(t->dtype)); break;
    case TYPE_TILE:
        text_puts(out, dtype_name(t->dtype));
        print_shape(t, out);
        break;
    case TYPE_TENSOR: text_printf(out, "tensor<%s, %d>", dtype_name(t->dtype), t->rank); break;
    case TYPE_TOKEN: text_puts(out, "token"); break;
    case TYPE_SHARED:
        text_printf(out, "shared<%s", dtype_name(t->dtype));
        print_shape(t, out);
        text_putc(out, '>');
        break;
    case TYPE_BARRIER: text_printf(out, "barrier<%lld>", (long long)t->shape[0]); break;
    case TYPE_ERROR: text_puts(out, "error"); break;
    }
}

const char *type_string(Session *s, const Type *t)
{
    Text out;
    text_init(&out, &s->arena);
    type_print(t, &out);
    return out.data;
}

const char *type_extents(Session *s, const Type *t, int from)
{
    Text out;
    text_init(&out, &s->arena);
    for (int a = from; a < t->rank; a++)
        text_printf(&out, "%s%lld", a > from ? " x " : "", (long long)t->shape[a]);
    return out.data ? out.data : "1";
}
