/* emit_writer.c: writer warps, which start bulk additions for the consumers (bulk-store).
 *
 * Each consumer warpgroup has a writer, one thread of a warp of the producer's warpgroup. The warpgroup
 * writes its boxes to its buffers, says where they belong, and arrives at `full`. The writer sends them, and
 * arrives at `empty` when TMA has read them. The proxy fence between the writes and TMA's reads is the
 * writer's, behind its wait for `full`, so that consumers do not wait until their writes are complete (PTX
 * ISA 8.9: the fence is on the path of causality from the writes to the reads). */
#include "backends/gpu/emit_bulk.h"

/* A warpgroup's words: whether it goes on, and behind that the offsets of the window. */
enum { WORDS_BYTES = 32 };

const Writer *emit_writer_of(const Emit *e, const Instr *store)
{ return ir_attr_int(store, ATTR_WRITER, 0) ? &e->writer : NULL; }

static void find(void *user, Instr *i)
{
    const Instr **store = user;
    if (i->op == OP_STORE && ir_attr_int(i, ATTR_WRITER, 0)) *store = i;
}

void emit_writer_places(Emit *e, Block *consumers)
{
    BulkStore x;
    int groups = e->plan->warps / 4;
    const Instr *store = NULL;
    emit_halves_place(e, consumers);
    ir_walk(consumers, find, &store);
    if (!store) return;
    e->writer = (Writer){ store, tmp(e, "adds") };
    const char *n = e->writer.name;
    line(e, "const u32 %s_full = shared_base + %lld, %s_empty = %s_full + %d, %s_words = %s_full + %d;", n,
        (long long)e->shared_bytes, n, n, 8 * groups, n, n, 16 * groups);
    e->shared_bytes += (16 + WORDS_BYTES) * groups;
    emit_bulk_open(e, store, &x);
    int64_t all = (int64_t)x.b.bytes * x.buffers * e->plan->warps;
    e->shared_bytes = (e->shared_bytes + 1023) / 1024 * 1024;
    vec_push(&e->s->arena, &e->shared_map,
        ((SharedUse){ "stores",
            type_shared(e->s, x.type, 3,
                (int64_t[]){ (int64_t)x.buffers * e->plan->warps, 16, x.b.row_bytes / dtype_bytes(x.type) },
                NULL),
            e->shared_bytes, all, store->loc }));
    line(e, "const u32 %s = shared_base + %lld;", n, (long long)e->shared_bytes);
    e->shared_bytes += all;
}

void emit_writer_barriers(Emit *e)
{
    const char *n = e->writer.name;
    emit_halves_barriers(e);
    if (e->writer.store)
        line(e, "for (int i = 0; i < %d; i++) { %s(%s_full + 8 * i, 4); %s(%s_empty + 8 * i, 1); }",
            e->plan->warps / 4, use(e, "mbar_init"), n, use(e, "mbar_init"), n);
}

void emit_writer(Emit *e)
{
    const char *n = e->writer.name;
    int groups = e->plan->warps / 4;
    BulkStore x;
    if (!e->writer.store) return;
    emit_bulk_open(e, e->writer.store, &x);
    line(e, "if (warp > 0 && warp <= %d && %s()) {    /* writers: one for each consumer warpgroup */", groups,
        use(e, "elect_lane"));
    e->indent++;
    line(e, "const int group = warp - 1;");
    line(e, "const u32 words = %s_words + group * %d;", n, WORDS_BYTES);
    line(e, "for (u32 phase = 0;; phase ^= 1) {");
    e->indent++;
    line(e, "%s(%s_full + 8 * group, phase);", use(e, "mbar_wait"), n);
    line(e, "if (!%s(words)) break;", use(e, "lds_i32"));
    for (int q = 0; q < x.w.rank; q++)
        line(e, "const i32 at_%d = %s(words + %d);", q, use(e, "lds_i32"), 4 + 4 * q);
    line(e, "%s();", use(e, "fence_proxy_async"));
    begin_unrolled(e, "w", 4);
    line(e, "const int warp = group * 4 + w;");
    begin_unrolled(e, x.box, x.b.n);
    line(e, "%s(&%s, %s + (warp * %d + %s) * %d%s);", use(e, str(e, "tma_store_add_%dd", x.w.rank)),
        slot_name(e, SLOT_TENSOR_MAP, x.w.param, x.map, x.type), n, x.buffers, x.box, x.b.bytes,
        emit_box_coordinates(e, &x, x.box, "at"));
    end_block(e);
    end_block(e);
    line(e, "%s();", use(e, "bulk_commit"));
    line(e, "%s(0);", use(e, "bulk_wait_read"));
    line(e, "%s(%s_empty + 8 * group);", use(e, "mbar_arrive"), n);
    end_block(e);
    line(e, "%s(0);", use(e, "bulk_wait"));
    end_block(e);
}

void emit_writer_wait(Emit *e, const BulkStore *x)
{
    const char *n = e->writer.name;
    (void)x;
    line(e, "%s(%s_empty + 8 * (warp >> 2), %s_phase ^ 1);", use(e, "mbar_wait"), n, n);
    line(e, "%s_phase ^= 1;", n);
}

/* A warp arrives, of the first one with the words of its warpgroup. */
static void arrive(Emit *e, const BulkStore *x)
{
    const char *n = e->writer.name;
    line(e, "if (lane == 0) {");
    e->indent++;
    line(e, "if (warp %% 4 == 0) {");
    e->indent++;
    line(e, "%s(%s_words + (warp >> 2) * %d, %d);", use(e, "sts_i32"), n, WORDS_BYTES, x != NULL);
    for (int q = 0; x && q < x->w.rank; q++)
        line(e, "%s(%s_words + (warp >> 2) * %d + %d, %s));", use(e, "sts_i32"), n, WORDS_BYTES, 4 + 4 * q,
            emit_bulk_coordinate(e, x, q));
    end_block(e);
    line(e, "%s(%s_full + 8 * (warp >> 2));", use(e, "mbar_arrive"), n);
    end_block(e);
}

void emit_writer_hand(Emit *e, const BulkStore *x)
{
    line(e, "%s();", use(e, "warp_sync"));
    arrive(e, x);
}

void emit_writer_end(Emit *e)
{
    if (!e->writer.store) return;
    line_in(e, e->pre, 2, "u32 %s_phase = 0;", e->writer.name);
    emit_writer_wait(e, NULL);
    arrive(e, NULL);
}
