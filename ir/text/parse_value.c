/* parse_value.c: types, layouts, values by their numbers, and attributes in IR text (parse.h). */
#include "ir/text/parse.h"

static int shape(Parser *p, int64_t *extents)
{
    int rank = 0;
    int64_t elements = 1;
    irread_expect(p, '[');
    do {
        Loc loc = irread_here(p);
        if (rank == TILE_MAX_RANK) {
            irread_fail(p, loc, "more than %d axes", TILE_MAX_RANK);
            return 1;
        }
        int64_t e = irread_integer_in(p, 1, INT32_MAX, "an extent");
        if (elements > ((int64_t)1 << 40) / e) {
            irread_fail(p, loc, "a tile of more than 2^40 elements");
            return 1;
        }
        elements *= e;
        extents[rank++] = e;
    } while (irread_accept(p, ','));
    irread_expect(p, ']');
    return rank;
}

/* The layout's text after '@' (the current token): up to the first character outside brackets that cannot
 * belong to it. */
static const char *layout(Parser *p)
{
    static const char open[] = "<([{", close[] = ">)]}";
    uint32_t from = p->tok.end, pos = from;
    char closers[32];
    int depth = 0;
    for (; pos < p->src->len; pos++) {
        char c = irread_char(p, pos);
        const char *o = c ? strchr(open, c) : NULL;
        if (c == '\n' || c == '"' || c == '\0') break;
        if (o) {
            if (depth == (int)sizeof closers) break;
            closers[depth++] = close[o - open];
        } else if (strchr(close, c)) {
            if (depth == 0 || closers[depth - 1] != c) break;
            depth--;
        } else if (!depth && !irtext_name_char(c) && !strchr("#.:+-*/^=", c)) break;
    }
    if (depth) {
        irread_fail(p, (Loc){ p->file, from, pos }, "the layout's brackets do not close");
        return NULL;
    }
    if (pos == from) {
        irread_fail(p, (Loc){ p->file, from, pos + 1 }, "expected a layout after '@'");
        return NULL;
    }
    const char *text = session_intern(p->s, p->src->text + from, pos - from);
    p->pos = pos;
    irread_next(p);
    return text;
}

static DType dtype(Parser *p)
{
    DType d = DT_F32;
    if (p->tok.kind != TOK_NAME || !dtype_parse(p->tok.at, p->tok.len, &d)) {
        irread_fail(p, irread_here(p), "expected a type, found %s", irread_found(p));
        return d;
    }
    irread_next(p);
    return d;
}

const Type *irread_type(Parser *p)
{
    int64_t extents[TILE_MAX_RANK] = { 1 };
    if (irread_accept_name(p, "token")) return type_token(p->s);
    if (irread_accept_name(p, "tensor")) {
        irread_expect(p, '<');
        DType d = dtype(p);
        irread_expect(p, ',');
        int rank = (int)irread_integer_in(p, 0, TILE_MAX_RANK, "the rank");
        irread_expect(p, '>');
        return type_tensor(p->s, d, rank);
    }
    if (irread_accept_name(p, "barrier")) {
        irread_expect(p, '<');
        int64_t n = irread_integer_in(p, 1, INT32_MAX, "the number of barriers");
        irread_expect(p, '>');
        return type_barrier(p->s, n);
    }
    if (irread_accept_name(p, "shared")) {
        irread_expect(p, '<');
        DType d = dtype(p);
        int rank = shape(p, extents);
        const char *l = irread_is_punct(p, '@') ? layout(p) : NULL;
        irread_expect(p, '>');
        return type_shared(p->s, d, rank, extents, l);
    }
    DType d = dtype(p);
    if (!irread_is_punct(p, '[')) return type_scalar(p->s, d);
    int rank = shape(p, extents);
    const Type *t = type_tile(p->s, d, rank, extents);
    if (irread_is_punct(p, '@')) {
        const char *l = layout(p);
        if (l) t = type_with_layout(p->s, t, l);
    }
    return t;
}

/* --- values ------------------------------------------------------------------------------------------ */

static Value **value_slot(Parser *p, uint32_t id)
{
    size_t h = id * 0x9E3779B1u & (p->cap_values - 1);
    while (p->values[h] && p->values[h]->id != id) h = (h + 1) & (p->cap_values - 1);
    return &p->values[h];
}

void irread_define(Parser *p, Value *v, Name n)
{
    if (p->failed) return;
    if (2 * (p->n_values + 1) > p->cap_values) {
        Value **old = p->values;
        size_t cap = p->cap_values;
        p->cap_values = cap ? 2 * cap : 256;
        p->values = arena_array(&p->s->arena, Value *, p->cap_values);
        for (size_t k = 0; k < cap; k++)
            if (old[k]) *value_slot(p, old[k]->id) = old[k];
    }
    v->id = n.id;
    v->name = n.name;
    Value **slot = value_slot(p, n.id);
    if (*slot) {
        irread_fail(p, n.loc, "the value %%%u is defined twice", n.id);
        return;
    }
    *slot = v;
    p->n_values++;
    if (p->module->next_id <= n.id) p->module->next_id = n.id + 1;
}

Name irread_value_name(Parser *p)
{
    Name n = { .loc = irread_here(p), .id = p->tok.id };
    if (p->tok.kind != TOK_VALUE) {
        irread_fail(p, irread_here(p), "expected a value, found %s", irread_found(p));
        return n;
    }
    if (p->tok.len) n.name = session_intern(p->s, p->tok.at, p->tok.len);
    irread_next(p);
    return n;
}

Value *irread_use(Parser *p)
{
    Name n = irread_value_name(p);
    Value *v = p->failed || !p->cap_values ? NULL : *value_slot(p, n.id);
    if (v && (v->def ? v->def->block->func : v->block->func) != p->func) v = NULL;
    if (!v) irread_fail(p, n.loc, "unknown value %%%s%s%u", n.name ? n.name : "", n.name ? "." : "", n.id);
    else if (v->name != n.name)
        irread_fail(p, n.loc, "%%%s%s%u was defined with another name", n.name ? n.name : "",
            n.name ? "." : "", n.id);
    return v;
}

void irread_uses(Parser *p, ValueList *out)
{
    do {
        Value *v = irread_use(p);
        if (p->failed) return;
        vec_push(&p->s->arena, out, v);
    } while (irread_accept(p, ','));
}

/* --- attributes -------------------------------------------------------------------------------------- */

int64_t irread_dim_ref(Parser *p)
{
    if (irread_accept(p, '#')) return irread_integer_in(p, 0, p->func->n_dims - 1, "the dimension's number");
    if (p->tok.kind == TOK_NAME)
        for (int k = 0; k < p->func->n_dims; k++)
            if (p->func->dims[k].name && irread_text_is(&p->tok, p->func->dims[k].name)) {
                irread_next(p);
                return k;
            }
    irread_fail(p, irread_here(p), "expected a dimension, found %s", irread_found(p));
    return 0;
}

static int integers(Parser *p, const int64_t **out)
{
    VEC(int64_t) v = { 0 };
    irread_expect(p, '[');
    if (!irread_is_punct(p, ']')) do
            vec_push(&p->s->arena, &v, irread_integer(p, false));
        while (irread_accept(p, ',') && v.len < 1024);
    irread_expect(p, ']');
    *out = v.data;
    return (int)v.len;
}

static void attributes(Parser *p, AttrList *out)
{
    irread_expect(p, '{');
    do {
        Attr a = { .key = ATTR_N_KEYS };
        for (int k = 0; k < ATTR_N_KEYS; k++)
            if (p->tok.kind == TOK_NAME && irread_text_is(&p->tok, attr_info[k].name)) a.key = (AttrKey)k;
        if (a.key == ATTR_N_KEYS) {
            irread_fail(p, irread_here(p), "unknown attribute %s", irread_found(p));
            return;
        }
        for (size_t k = 0; k < out->len; k++)
            if (out->data[k].key == a.key)
                irread_fail(p, irread_here(p), "the attribute %s is given twice", attr_info[a.key].name);
        irread_next(p);
        irread_expect(p, '=');
        switch (attr_info[a.key].kind) {
        case ATTR_KIND_INT:
            a.i =
                a.key == ATTR_DIM && p->tok.kind != TOK_NUMBER ? irread_dim_ref(p) : irread_integer(p, false);
            break;
        case ATTR_KIND_FLOAT: a.f = irread_number(p); break;
        case ATTR_KIND_STR: a.s = irread_string(p); break;
        case ATTR_KIND_INTS: a.n = integers(p, &a.v); break;
        case ATTR_KIND_ENUM: {
            int v = p->tok.kind == TOK_NAME ? attr_enum_parse(a.key, p->tok.at, p->tok.len) : -1;
            if (v < 0) {
                irread_fail(
                    p, irread_here(p), "%s is no value of %s", irread_found(p), attr_info[a.key].name);
                return;
            }
            a.i = v;
            irread_next(p);
            break;
        }
        }
        if (p->failed) return;
        vec_push(&p->s->arena, out, a);
    } while (irread_accept(p, ','));
    irread_expect(p, '}');
}

void irread_optional_attributes(Parser *p, AttrList *out)
{
    if (!irread_is_punct(p, '{')) return;
    Token t = p->tok;
    uint32_t pos = p->pos;
    irread_next(p);
    bool attrs = p->tok.kind == TOK_NAME;
    if (attrs) {
        irread_next(p);
        attrs = irread_is_punct(p, '=');
    }
    if (p->failed) return;
    p->tok = t;
    p->pos = pos;
    if (attrs) attributes(p, out);
}
