/* sealed.c: contexts that compile nothing, and the list of the variants that they refused. */
#define _GNU_SOURCE
#include "runtime/launch/kernel.h"

enum { MOST_MISSING = 256, MOST_LINE = 1500 };

/* Is the line in the list? Both end in a newline. */
static bool listed(const tile_context *c, const char *line)
{
    const char *at = c->missing;
    for (const char *found; at && (found = strstr(at, line)); at = found + 1)
        if (found == c->missing || found[-1] == '\n') return true;
    return false;
}

/* Without memory the list stays as it is: the launch's own error says what is missing. */
static void add_missing(tile_context *c, const char *line)
{
    size_t n = strlen(line), bytes = c->missing_length + n + 1;
    if (bytes > c->missing_bytes) {
        bytes *= 2;
        char *more = c->alloc.realloc(c->alloc.user, c->missing, c->missing_bytes, bytes);
        if (!more) return;
        c->missing = more;
        c->missing_bytes = bytes;
    }
    memcpy(c->missing + c->missing_length, line, n + 1);
    c->missing_length += n;
    c->n_missing++;
}

static void note_missing(tile_context *c, const char *line)
{
    lock_enter(&c->lock);
    if (c->n_missing <= MOST_MISSING && !listed(c, line))
        add_missing(c, c->n_missing < MOST_MISSING ? line : "...\n");
    lock_leave(&c->lock);
}

typedef struct Refused {
    const tile_kernel *k;
    const uint64_t *key;
    char *out;
    size_t room;
} Refused;

/* "attention<D=64>": the kernel with everything that the key binds. */
static tile_status title(Session *s, void *p)
{
    Refused *r = p;
    size_t n;
    const FrontBinding *b = variant_bindings(r->k, r->key, &s->arena, &n);
    format_text(r->out, r->room, "%s", compile_title(s, r->k->name, b, n));
    return TILE_OK;
}

tile_status kernel_refuse(tile_kernel *k, const uint64_t *key, const int64_t *dims)
{
    char line[MOST_LINE], promises[MOST_LINE / 2];
    size_t n = 0, room = sizeof line - sizeof promises - 2;
    Refused r = { k, key, line, room };
    if (!dims) {
        if (context_in_session(k->context, k->title, title, &r)) format_text(line, room, "%s", k->title);
    } else {
        n = (size_t)format_text(line, room, "%s, configuration of", k->title);
        for (int d = 0; d < k->front->n_dims && n < room; d++)
            if (dims[d] >= 0)
                n += (size_t)format_text(line + n, room - n, " %s=%lld", k->dims[d].name, (long long)dims[d]);
    }
    n = strlen(line);
    launch_promises(k, key, promises, sizeof promises);
    format_text(line + n, sizeof line - n, "%s\n", promises);
    note_missing(k->context, line);
    return context_fail(k->context, TILE_ERROR_SEALED,
        "the context is sealed, and this is not compiled: %.*s", (int)strlen(line) - 1, line);
}

tile_status tile_context_seal(tile_context *c, int sealed)
{
    if (!c) return TILE_ERROR_INVALID_ARGUMENT;
    lock_enter(&c->lock);
    atomic_store(&c->sealed, sealed != 0);
    if (!sealed) {
        context_free(c, c->missing, c->missing_bytes);
        c->missing = NULL;
        c->missing_bytes = c->missing_length = 0;
        c->n_missing = 0;
    }
    lock_leave(&c->lock);
    return TILE_OK;
}

size_t tile_context_missing(tile_context *c, char *buf, size_t size)
{
    if (!c) return 0;
    lock_enter(&c->lock);
    size_t n = c->missing_length, copied = !buf || !size ? 0 : n < size ? n : size - 1;
    if (copied) memcpy(buf, c->missing, copied);
    if (buf && size) buf[copied] = 0;
    lock_leave(&c->lock);
    return n;
}
