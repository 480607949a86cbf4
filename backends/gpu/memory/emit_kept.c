/* emit_kept.c: tiles that stay in shared memory as they were loaded (passes/kernel/pipeline/keep_rows.c).
 *
 *     access v of thread t lies at (v * threads + t) * bytes:    |t0|t1|t2|..|t0|t1|t2|..
 *
 * Each thread writes and reads its own words alone, so that no barrier is needed, and the lanes of a warp
 * read neighbouring places, without bank conflicts. Accesses of at least 4 bytes are copied by cp.async.
 * Others come through registers, which are free again when they are written. */
#include "backends/gpu/memory/emit_kept.h"
#include "backends/gpu/memory/emit_shift.h"

/* A tile in shared memory: the name of the thread's first place, and the accesses of a thread. */
typedef struct KeptTile {
    const Value *tile;
    const char *at;
    int bytes, vectors; /* of an access; accesses */
} KeptTile;

typedef struct KeptTiles {
    VEC(KeptTile) all;
    bool under_way; /* copies have been started, and nobody has waited for them */
} KeptTiles;

static const KeptTile *find_tile(const Emit *e, const Value *v)
{
    for (size_t k = 0; e->kept && k < e->kept->all.len; k++)
        if (e->kept->all.data[k].tile == v) return &e->kept->all.data[k];
    return NULL;
}

static const KeptTile *kept_tile(const Emit *e, const Value *v)
{
    const KeptTile *k = find_tile(e, v);
    if (!k) ir_fail(e->s, v->def->loc, "a tile is read from shared memory that is not kept there");
    return k;
}

static const KeptTile *begin(Emit *e, const Instr *load, int bytes)
{
    const Value *v = ir_result(load);
    int words = array_len(v->type->dtype, (int)layout_regs(layout_of(e, v)));
    int64_t all = (int64_t)words * 4 * e->threads, from = (e->shared_bytes + 127) / 128 * 128;
    KeptTile k = { .tile = v, .at = tmp(e, "kept"), .bytes = bytes, .vectors = words * 4 / bytes };
    line(e, "const u32 %s = shared_base + %lld + tid * %d;    /* %lld bytes */", k.at, (long long)from, bytes,
        (long long)all);
    note_shared(e, load, from, all);
    e->shared_bytes = from + all;
    if (!e->kept) e->kept = arena_new(&e->s->arena, KeptTiles);
    vec_push(&e->s->arena, &e->kept->all, k);
    return kept_tile(e, v);
}

static const char *place(Emit *e, const KeptTile *k, const char *v)
{ return str(e, "%s + %s * %d", k->at, v, k->bytes * e->threads); }

bool emit_kept_copies(
    Emit *e, const Instr *i, const Window *w, const Layout *l, const char *ptr, const Value *pad)
{
    LayoutVector v;
    DType d = e->f->params[w->param].type->dtype;
    int n = window_vector(e, w, l, d, &v), regs = (int)layout_regs(l);
    for (uint32_t k = 0; n > 1 && k < v.n; k++)
        if (v.reg[k] != k) return false;
    int bytes = n * dtype_bytes(d);
    Index *c[TILE_MAX_RANK], *r = index_linear(e, n, "v", 0);
    if (bytes < 4 || regs % n || e->guard || (n > 1 && w->masked && !window_whole_vectors(e, w, n)))
        return false;
    coords_at(e, l, r, c);
    const char *in = both_conditions(e, tile_condition(e, l, r, c), window_condition(e, w, c, false));
    if (pad && *in) return false;
    const KeptTile *k = begin(e, i, bytes);
    const char *copy = use(e, str(e, "cp_async_b%d", 8 * bytes)), *to = place(e, k, "v");
    note_wide(e, WAY_CP_ASYNC, false, w, NULL, bytes);
    begin_unrolled(e, "v", k->vectors);
    if (*in) {
        line(e, "const bool in = %s;", in);
        line(e, "%s(%s, %s + (in ? %s : 0), in);", copy, to, ptr, window_index(e, w, c));
    } else line(e, "%s(%s, %s + %s, true);", copy, to, ptr, window_index(e, w, c));
    end_block(e);
    e->kept->under_way = true;
    return true;
}

ShiftDone emit_kept_words(Emit *e, const Instr *i, const Window *w, const Layout *l, const char *ptr)
{
    int bytes = emit_row_words(e, l);
    if (!bytes) return SHIFT_NONE;
    const KeptTile *k = begin(e, i, bytes);
    note_shifted(e, false, w, l);
    ShiftDone done = emit_row_copies(e, w, l, ptr, k->at, bytes * e->threads);
    e->kept->under_way = true;
    return done;
}

void emit_kept_put(Emit *e, const Instr *load, const char *from)
{
    const Value *v = ir_result(load);
    int words = array_len(v->type->dtype, (int)layout_regs(layout_of(e, v)));
    const KeptTile *k = find_tile(e, v);
    if (!k) k = begin(e, load, words % 4 == 0 ? 16 : words % 2 == 0 ? 8 : 4);
    begin_unrolled(e, "v", k->vectors);
    line(e, "%s(%s, &%s[%d * v]);", use(e, str(e, "sts_b%d", 8 * k->bytes)), place(e, k, "v"), from,
        k->bytes / 4);
    end_block(e);
}

void emit_kept_take(Emit *e, const Instr *opaque)
{
    const KeptTile *k = kept_tile(e, ir_operand(opaque, 0));
    if (e->kept->under_way) {
        line(e, "%s();", use(e, "cp_async_commit"));
        line(e, "%s(0);", use(e, "cp_async_wait"));
        e->kept->under_way = false;
    }
    const char *to = declare_tile(e, ir_result(opaque));
    begin_unrolled(e, "v", k->vectors);
    line(e, "%s(&%s[%d * v], %s);", use(e, str(e, "lds_b%d", 8 * k->bytes)), to, k->bytes / 4,
        place(e, k, "v"));
    end_block(e);
}
