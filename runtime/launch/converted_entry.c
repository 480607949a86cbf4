/* converted_entry.c: what converted.c finds, in the disk cache, so that another process need not lower the
 * kernel for it. An entry has a line with the type of each input in the form ("-" for those that stay), and
 * for each input that is computed a line of numbers (windows, columns of whole rows, and for each one its
 * parameter, dimension, axis columns beside and width), which ends with the length of the statements that
 * follow.
 *
 *     tile-converted-2
 *     bf16 - -
 *     2 0 0 1 -1 0 0 1 1 -1 0 0 57 let g = ..
 */
#define _GNU_SOURCE
#include "runtime/launch/pitch.h"
#include <stdlib.h>

static const char magic[] = "tile-converted-2\n";

static CacheKey entry_key(tile_kernel *k, Session *s, const FrontBinding *b, size_t n)
{
    Text t;
    text_init(&t, &s->arena);
    cache_key_text(&t, magic);
    cache_key_text(&t, context_key(k->context));
    text_write(&t, (const char *)k->module->digest, sizeof k->module->digest);
    cache_key_text(&t, compile_title(s, k->name, b, n));
    kernel_key_passes(k, &t);
    return cache_key(t.data, t.len);
}

static bool number(char **at, char behind, int64_t least, int64_t most, int64_t *out)
{
    char *end;
    *out = strtoll(*at, &end, 10);
    if (end == *at || *end != behind || *out < least || *out > most) return false;
    *at = end + 1;
    return true;
}

static bool read_types(char **at, const tile_kernel *k, ConvertedForm *form)
{
    for (int i = 0; i < k->n_params; i++) {
        size_t len = strcspn(*at, " \n");
        form->to[i] = DT_COUNT;
        if ((*at)[len] != (i + 1 < k->n_params ? ' ' : '\n')) return false;
        bool stays = len == 1 && **at == '-';
        if (!stays && (k->params[i].kind != PARAM_IN || !dtype_parse(*at, len, &form->to[i]))) return false;
        *at += len + 1;
    }
    return true;
}

static bool read_computed(
    Session *s, char **at, const tile_kernel *k, const ConvertedForm *f, ComputedInput *c)
{
    int64_t n, param, dim, bytes;
    if (!number(at, ' ', 1, MOST_COMPUTED_FROM, &n) || !number(at, ' ', 0, INT32_MAX, &c->columns))
        return false;
    c->n = (int)n;
    for (int i = 0; i < c->n; i++) {
        ComputedFrom *from = &c->from[i];
        if (!number(at, ' ', 0, k->n_params - 1, &param) || k->params[param].kind != PARAM_IN ||
            !number(at, ' ', -1, k->front->n_dims - 1, &dim) || !number(at, ' ', -1, 1, &from->axis) ||
            !number(at, ' ', 0, INT64_MAX, &from->plus) || !number(at, ' ', 0, INT64_MAX, &from->width))
            return false;
        from->param = (int)param;
        from->dim = (int)dim;
    }
    c->to = f->to[c->from[0].param];
    if (c->to == DT_COUNT || !number(at, ' ', 0, (int64_t)strlen(*at), &bytes)) return false;
    if (bytes >= (int64_t)strlen(*at) || (*at)[bytes] != '\n') return false;
    c->body = arena_strndup(&s->arena, *at, (size_t)bytes);
    *at += bytes + 1;
    return true;
}

bool converted_read(tile_kernel *k, Session *s, const FrontBinding *b, size_t n, ConvertedForm *form)
{
    const void *bytes;
    size_t size;
    if (k->context->flags & TILE_CONTEXT_NO_CACHE) return false;
    CacheKey key = entry_key(k, s, b, n);
    if (!cache_read(&k->context->cache, &key, &s->arena, &bytes, &size)) return false;
    char *at = arena_strndup(&s->arena, bytes, size);
    if (strncmp(at, magic, sizeof magic - 1)) return false;
    at += sizeof magic - 1;
    form->n_computed = 0;
    if (!read_types(&at, k, form)) return false;
    while (*at) {
        if (form->n_computed == MOST_PITCHED) return false;
        if (!read_computed(s, &at, k, form, &form->computed[form->n_computed++])) return false;
    }
    return true;
}

void converted_write(tile_kernel *k, Session *s, const FrontBinding *b, size_t n, const ConvertedForm *form)
{
    Text t;
    if (k->context->flags & TILE_CONTEXT_NO_CACHE) return;
    text_init(&t, &s->arena);
    text_puts(&t, magic);
    for (int i = 0; i < k->n_params; i++)
        text_printf(&t, "%s%c", form->to[i] == DT_COUNT ? "-" : dtype_name(form->to[i]),
            i + 1 < k->n_params ? ' ' : '\n');
    for (int i = 0; i < form->n_computed; i++) {
        const ComputedInput *c = &form->computed[i];
        text_printf(&t, "%d %lld", c->n, (long long)c->columns);
        for (int j = 0; j < c->n; j++)
            text_printf(&t, " %d %d %lld %lld %lld", c->from[j].param, c->from[j].dim,
                (long long)c->from[j].axis, (long long)c->from[j].plus, (long long)c->from[j].width);
        text_printf(&t, " %zu %s\n", strlen(c->body), c->body);
    }
    CacheKey key = entry_key(k, s, b, n);
    cache_write(&k->context->cache, &key, t.data, t.len);
}
