/* fuzz_artifact.c: any bytes as a cache entry, as they are and behind a right header and checksum: refused,
 * or an artifact whose numbers all point somewhere, whose grid and remap run, and which writes back to the
 * same bytes. */
#include "runtime/cache/artifact.h"
#include "ir/interp/scalar.h"
#include <stdlib.h>

static void use(Session *s, const void *bytes, size_t size)
{
    Compiled c;
    if (!artifact_read(&s->arena, bytes, size, &c)) return;
    if (!compiled_valid(&c)) abort();
    int64_t *dims = arena_array(&s->arena, int64_t, (size_t)c.n_dims + 1), out[3];
    Scalar *scalars = arena_array(&s->arena, Scalar, (size_t)c.n_params + 1);
    int64_t (*strides)[TILE_MAX_RANK] = arena_alloc(&s->arena, ((size_t)c.n_params + 1) * sizeof *strides);
    for (int i = 0; i < c.n_dims; i++) dims[i] = c.dims[i].extent >= 0 ? c.dims[i].extent : 100 + i;
    EvalEnv env = { .dims = dims,
        .scalars = scalars,
        .strides = (const int64_t (*)[TILE_MAX_RANK])strides,
        .grid = { 3, 2, 1 } };
    eval_run(c.grid, &env, out, 3);
    if (c.remap) eval_run(c.remap, &env, out, 3);
    size_t total = strlen(c.artifact.entry) + strlen(c.artifact.schedule) + strlen(c.spec);
    for (int i = 0; i < c.artifact.n_messages; i++) total += strlen(c.artifact.messages[i]);
    if (total > size) abort();
    const void *again;
    size_t n;
    artifact_write(s, &c, &again, &n);
    if (n != size || memcmp(bytes, again, n)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Session s;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) abort();
    const void *sealed;
    size_t n;
    use(&s, data, size);
    artifact_seal(&s.arena, data, size, &sealed, &n);
    use(&s, sealed, n);
    session_free(&s);
    return 0;
}
