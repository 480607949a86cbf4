/* emit_writer.c: writer warps, which start bulk additions for the consumers (bulk-store).
 *
 * Each consumer warpgroup has a writer, one thread of a warp of the producer's warpgroup. The warpgroup
 * writes its boxes to its buffers, says where they belong, and arrives at `full`. The writer sends them, and
 * arrives at `empty` when TMA has read them. The proxy fence between the writes and TMA's reads is the
 * writer's, behind its wait for `full`, so that consumers do not wait until their writes are complete (PTX
 * ISA 8.9: the fence is on the path of causality from the writes to the reads).
 *
 * Ordered additions have two writers, which take steps in turn and serve all warpgroups. A writer waits for a
 * semaphore, sends the boxes, gives the buffers back, waits until memory has the sums and the other writer
 * has signaled the step before, and signals the next program; it then arrives at its `done`, for which
 * releases of the consumers wait. So the way to memory and that to the semaphore take the time of two steps.
 * What a writer has read of a semaphore may let several steps pass; if not its next one, it reads again while
 * TMA reads the boxes. Each writer has a `full` and a `done` of its own, since a wait by parity ends at once
 * where it is two phases behind. */
#include "backends/gpu/hopper/emit_bulk.h"
#include "backends/gpu/hopper/emit_roles.h"

/* A warpgroup's words: what is handed on, and behind that the offsets of the window. Ordered, also the
 * step that must have passed, the one that passes then, and the addresses of the two semaphores. */
/* What is handed on: the end; boxes to add; a signal without boxes; one that clears what was waited for. */
enum { END, BOXES, SIGNAL, CLEAR };
enum { STEP = 24, NEXT = 28, BEFORE = 32, OWN = 40, WORDS_BYTES = 48 };

const Writer *emit_writer_of(const Emit *e, const Instr *store)
{ return ir_attr_int(store, ATTR_WRITER, 0) ? &e->writer : NULL; }

static bool in_order(const Emit *e) { return e->writer.store && e->writer.semaphores >= 0; }

/* How many mbarriers of a kind each warpgroup has: one for each writer that serves it. */
static int writers_each(const Emit *e) { return in_order(e) ? 2 : 1; }

static int semaphores_of(const Instr *store)
{
    MemParts m;
    const Instr *wait = ir_semaphore_wait(store);
    return wait && ir_mem_parts(wait, &m) ? m.param : -1;
}

static void find_store(void *user, Instr *i)
{
    Emit *e = user;
    e->writer.signals |= ir_attr_int(i, ATTR_SEMAPHORE, 0) == SEMAPHORE_OF_NONE;
    if (i->op != OP_STORE || !ir_attr_int(i, ATTR_WRITER, 0)) return;
    e->writer.store = i;
    e->writer.signs |= emit_may_begin_before(e, i);
}

void emit_writer_places(Emit *e, Block *consumers)
{
    BulkStore x;
    int groups = e->plan->warps / 4;
    emit_halves_place(e, consumers);
    ir_walk(consumers, find_store, e);
    const Instr *store = e->writer.store;
    if (!store) return;
    const char *n = e->writer.name = tmp(e, "adds");
    e->writer.semaphores = semaphores_of(store);
    line(e, "const u32 %s_full = shared_base + %lld, %s_empty = %s_full + %d, %s_words = %s_full + %d;", n,
        (long long)e->shared_bytes, n, n, 8 * groups * writers_each(e), n, n,
        8 * groups * (writers_each(e) + 1));
    e->shared_bytes += (8 * (writers_each(e) + 1) + WORDS_BYTES) * groups;
    if (in_order(e)) {
        line(e, "const u32 %s_done = shared_base + %lld;", n, (long long)e->shared_bytes);
        e->shared_bytes += 8 * groups * writers_each(e);
    }
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
    int groups = e->plan->warps / 4;
    emit_halves_barriers(e);
    if (e->writer.store)
        line(e, "for (int i = 0; i < %d; i++) { %s(%s_full + 8 * i, 4); %s(%s_empty + 8 * i, 1); }", groups,
            use(e, "mbar_init"), n, use(e, "mbar_init"), n);
    if (in_order(e))
        line(e,
            "for (int i = 0; i < %d; i++) { %s(%s_full + %d + 8 * i, 4); %s(%s_done + 8 * i, 1); "
            "%s(%s_done + %d + 8 * i, 1); }",
            groups, use(e, "mbar_init"), n, 8 * groups, use(e, "mbar_init"), n, use(e, "mbar_init"), n,
            8 * groups);
}

/* Reads which semaphores a step waits for and signals. */
static void read_semaphores(Emit *e)
{
    line(e, "const i64 before = %s(words + %d), own = %s(words + %d);", use(e, "lds_i64"), BEFORE,
        use(e, "lds_i64"), OWN);
    line(e, "const i32 step = %s(words + %d), next = %s(words + %d);", use(e, "lds_i32"), STEP,
        use(e, "lds_i32"), NEXT);
}

/* Waits until the step before has passed, and orders the additions behind it. */
static void wait_semaphore(Emit *e)
{
    line(e, "if (before && (before != from || passed <= step)) {");
    e->indent++;
    line(e, "from = before;");
    line(e, "do passed = %s((i32 *)before, 0); while (passed <= step);", use(e, "atomic_add_i32"));
    line(e, "%s();", use(e, "fence_device"));
    end_block(e);
    line(e, "%s();", use(e, "fence_proxy_async_global"));
}

/* A writer waits for, or arrives at, the mbarriers of every warpgroup that it serves: its own ones, or those
 * that the writers of a warpgroup share. */
static void each_group(Emit *e, const char *what, const char *barrier, bool own, const char *more)
{
    const char *n = e->writer.name;
    int groups = e->plan->warps / 4;
    if (!in_order(e)) line(e, "%s(%s_%s + 8 * group%s);", use(e, what), n, barrier, more);
    for (int g = 0; in_order(e) && g < groups; g++)
        line(e, "%s(%s_%s + %d%s%s);", use(e, what), n, barrier, 8 * g,
            own ? str(e, " + %d * turn", 8 * groups) : "", more);
}

/* Reads the semaphore for the writer's next step, unless what was read last lets that pass. */
static void look_ahead(Emit *e)
{ line(e, "if (before && passed <= step + 2) passed = %s((i32 *)before, 0);", use(e, "atomic_add_i32")); }

static void begin_loop(Emit *e, const char *i, int n, bool unrolled)
{
    if (unrolled) {
        begin_unrolled(e, i, n);
        return;
    }
    directive(e, "#pragma unroll 1");
    line(e, "for (int %s = 0; %s < %d; %s++) {", i, i, n, i);
    e->indent++;
}

/* Starts the additions of the boxes of its warpgroup, or of all warpgroups where they are ordered. */
static void send_boxes(Emit *e, const BulkStore *x, bool signs_matter)
{
    bool ordered = in_order(e);
    begin_loop(e, "w", ordered ? e->plan->warps : 4, !signs_matter);
    line(e, ordered ? "const int warp = w;" : "const int warp = group * 4 + w;");
    begin_loop(e, x->box, x->b.n, !signs_matter);
    emit_box_send(e, x, use(e, str(e, "tma_store_add_%dd", x->w.rank)),
        str(e, "%s + (warp * %d + %s) * %d", e->writer.name, x->buffers, x->box, x->b.bytes),
        emit_box_coordinates(e, x, x->box, "at"), signs_matter);
    end_block(e);
    end_block(e);
}

/* Starts a step's additions and waits until TMA has read the boxes. Their signs are looked at one by one only
 * where the window begins before the tensor. */
static void send(Emit *e, const BulkStore *x)
{
    const char *signs = "";
    for (int q = 0; q < x->w.rank; q++) signs = str(e, "%s%sat_%d", signs, q ? " | " : "", q);
    if (e->writer.signs) {
        line(e, "if ((%s) < 0) {    /* the window begins before the tensor */", signs);
        e->indent++;
        send_boxes(e, x, true);
        e->indent--;
        line(e, "} else {");
        e->indent++;
    }
    send_boxes(e, x, false);
    if (e->writer.signs) end_block(e);
    line(e, "%s();", use(e, "bulk_commit"));
    if (in_order(e)) look_ahead(e);
    line(e, "%s(0);", use(e, "bulk_wait_read"));
}

/* Clears what a program's end waited for. The other writer has no step left that waits for it; it may
 * remember what it read there, because each element is waited for by one program only
 * (ordered_waits_own). */
static void clear(Emit *e)
{
    if (!e->writer.signals) return;
    line(e, "if (what == %d && before) {", CLEAR);
    e->indent++;
    line(e, "%s((i32 *)before, 0);", use(e, "atomic_exch_i32"));
    line(e, "from = 0;");
    end_block(e);
}

/* Signals the step, behind the one before, when memory has its sums. The fence also acquires what was read
 * ahead. */
static void signal_in_order(Emit *e)
{
    const char *n = e->writer.name;
    line(e, "%s(%s_done + %d * (turn ^ 1), phase ^ turn ^ 1);", use(e, "mbar_wait"), n,
        8 * (e->plan->warps / 4));
    clear(e);
    line(e, "%s(0);", use(e, "bulk_wait"));
    line(e, "%s();", use(e, "fence_device"));
    line(e, "if (own) %s((i32 *)own, next);", use(e, "atomic_exch_i32"));
    each_group(e, "mbar_arrive", "done", true, "");
}

/* Where nothing is added, words are given back at once. The address is there once all have been read: without
 * boxes to send, nothing else keeps the arrival behind the reads. */
static void give_words_back(Emit *e)
{
    if (!e->writer.signals) return;
    line(e, "if (what != %d) {", BOXES);
    e->indent++;
    line(e, "const u32 read = ((u32)before | (u32)own | (u32)step | (u32)next) & %s();",
        use(e, "hidden_zero"));
    each_group(e, "mbar_arrive", "empty", false, " + read");
    end_block(e);
}

/* Sends what a step adds, if it adds anything, and gives the buffers back. */
static void send_step(Emit *e, const BulkStore *x)
{
    if (e->writer.signals) {
        line(e, "if (what == %d) {", BOXES);
        e->indent++;
    }
    line(e, "%s();", use(e, "fence_proxy_async"));
    send(e, x);
    each_group(e, "mbar_arrive", "empty", false, "");
    if (e->writer.signals) end_block(e);
}

void emit_writer(Emit *e)
{
    const char *n = e->writer.name;
    bool ordered = in_order(e);
    int writers = ordered ? writers_each(e) : e->plan->warps / 4;
    BulkStore x;
    if (!e->writer.store) return;
    emit_bulk_open(e, e->writer.store, &x);
    line(e, "if (warp > 0 && warp <= %d && %s()) {    /* %s */", writers, use(e, "elect_lane"),
        ordered ? "writers, which take steps in turn and add in order"
                : "writers: one for each consumer warpgroup");
    e->indent++;
    if (!ordered) line(e, "const int group = warp - 1;");
    line(e, "const u32 words = %s_words%s;", n, ordered ? "" : str(e, " + group * %d", WORDS_BYTES));
    if (ordered) {
        line(e, "const u32 turn = warp - 1;");
        line(e, "i64 from = 0;    /* the semaphore that was read last */");
        line(e, "i32 passed = 0;    /* what was read there */");
    }
    line(e, "for (u32 phase = 0;; phase ^= 1) {");
    e->indent++;
    each_group(e, "mbar_wait", "full", true, ", phase");
    if (e->writer.signals) line(e, "const i32 what = %s(words);", use(e, "lds_i32"));
    line(e, "if (!%s) break;", e->writer.signals ? "what" : str(e, "%s(words)", use(e, "lds_i32")));
    for (int q = 0; q < x.w.rank; q++)
        line(e, "const i32 at_%d = %s(words + %d);", q, use(e, "lds_i32"), 4 + 4 * q);
    if (ordered) {
        read_semaphores(e);
        give_words_back(e);
        wait_semaphore(e);
    }
    send_step(e, &x);
    if (ordered) signal_in_order(e);
    end_block(e);
    line(e, "%s(0);", use(e, "bulk_wait"));
    end_block(e);
}

void emit_writer_wait(Emit *e)
{
    const char *n = e->writer.name;
    line(e, "%s(%s_empty + 8 * (warp >> 2), %s_phase%s ^ 1);", use(e, "mbar_wait"), n, n,
        in_order(e) ? " & 1" : "");
    line(e, in_order(e) ? "%s_phase++;" : "%s_phase ^= 1;", n);
}

/* The words of the semaphores for which the writer waits and which it signals. */
static void hand_semaphore(Emit *e, const Instr *pass)
{
    MemParts m;
    const char *words = str(e, "%s_words + (warp >> 2) * %d", e->writer.name, WORDS_BYTES);
    ir_mem_parts(pass, &m);
    line(e, "%s(%s + %d, %s);", use(e, "sts_i32"), words, STEP, e->writer.before ? e->writer.step : "0");
    line(e, "%s(%s + %d, %s);", use(e, "sts_i32"), words, NEXT, name_of(e, m.values[0]));
    line(e, "%s(%s + %d, (i64)%s);", use(e, "sts_i64"), words, BEFORE,
        e->writer.before ? e->writer.before : "0");
    line(e, "%s(%s + %d, (i64)(%s));", use(e, "sts_i64"), words, OWN, emit_semaphore_cell(e, pass));
}

/* A warp arrives, of the first one with the words of its warpgroup. */
static void arrive(Emit *e, const BulkStore *x, const Instr *pass)
{
    const char *n = e->writer.name;
    int what = x ? BOXES : !pass ? END : e->writer.before ? CLEAR : SIGNAL;
    line(e, "if (lane == 0) {");
    e->indent++;
    line(e, "if (warp %% 4 == 0) {");
    e->indent++;
    line(e, "%s(%s_words + (warp >> 2) * %d, %d);", use(e, "sts_i32"), n, WORDS_BYTES, what);
    for (int q = 0; x && q < x->w.rank; q++)
        line(e, "%s(%s_words + (warp >> 2) * %d + %d, %s));", use(e, "sts_i32"), n, WORDS_BYTES, 4 + 4 * q,
            emit_bulk_coordinate(e, x, q));
    if (pass) hand_semaphore(e, pass);
    end_block(e);
    if (!in_order(e)) line(e, "%s(%s_full + 8 * (warp >> 2));", use(e, "mbar_arrive"), n);
    const int told = !in_order(e) ? 0 : what == END ? writers_each(e) : 1; /* the end concerns both writers */
    for (int t = 0; t < told; t++)
        line(e, "%s(%s_full + %d * (%s_phase & 1%s) + 8 * (warp >> 2));", use(e, "mbar_arrive"), n,
            8 * (e->plan->warps / 4), n, t ? "" : " ^ 1");
    end_block(e);
}

void emit_writer_hand(Emit *e, const BulkStore *x)
{
    line(e, "%s();", use(e, "warp_sync"));
    if (!in_order(e)) arrive(e, x, NULL); /* ordered: where it is signaled */
}

/* The store behind which the atomic signals. */
static const Instr *store_before(const Instr *pass)
{
    const Instr *i = pass->prev;
    while (i && !(i->op == OP_STORE && ir_semaphore_signal(i) == pass)) i = i->prev;
    return i;
}

void emit_writer_semaphore(Emit *e, Instr *atomic)
{
    BulkStore x;
    MemParts m;
    ir_mem_parts(atomic, &m);
    if (ir_attr_int(atomic, ATTR_SEM, 0) == SEM_ACQUIRE) {
        e->writer.before = tmp(e, "before");
        e->writer.step = name_of(e, m.values[0]);
        line(e, "const u64 %s = %s;", e->writer.before, emit_semaphore_cell(e, atomic));
        return;
    }
    if (ir_attr_int(atomic, ATTR_SEMAPHORE, 0) == SEMAPHORE_OF_NONE) {
        emit_writer_wait(e); /* the words of the step before have been read */
        emit_writer_hand(e, NULL);
        arrive(e, NULL, atomic);
    } else {
        const Instr *store = store_before(atomic);
        if (!store) ir_fail(e->s, atomic->loc, "a semaphore is signaled without an addition");
        emit_bulk_open(e, store, &x);
        arrive(e, &x, atomic);
    }
    e->writer.before = NULL;
}

void emit_writer_done(Emit *e, int param)
{
    const char *n = e->writer.name;
    if (!in_order(e) || e->role != ROLE_CONSUMER || (param >= 0 && param != e->writer.semaphores)) return;
    line(e, "%s(%s_empty + 8 * (warp >> 2), %s_phase & 1 ^ 1);", use(e, "mbar_wait"), n, n);
    for (int t = 0; t < writers_each(e); t++) /* the last of the steps that this writer had */
        line(e, "%s(%s_done + %d + 8 * (warp >> 2), (%s_phase + %d) / 2 & 1 ^ 1);", use(e, "mbar_wait"), n,
            8 * (e->plan->warps / 4) * t, n, 1 - t);
}

void emit_writer_end(Emit *e)
{
    if (!e->writer.store) return;
    line_in(
        e, e->pre, 2, "u32 %s_phase = 0;%s", e->writer.name, in_order(e) ? "    /* counts the steps */" : "");
    emit_writer_wait(e);
    arrive(e, NULL, NULL);
}
