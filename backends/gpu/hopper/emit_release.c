/* emit_release.c: sm_90a: releases of a ring's stages, which tell the producer that it may fill them again.
 *
 * A consumer warp releases a stage by an arrival at the stage's empty mbarrier. Reads of shared memory that
 * the warp has issued before may still be waiting then, because an arrival takes another way than a read and
 * does not wait for it; on an H100 the producer's next copy has overtaken such reads. So an arrival depends
 * on what the warp has read: its address contains the words, masked by a zero that the vendor's compiler does
 * not know. Where a product that takes these words was issued before, they have arrived. */
#include "backends/gpu/hopper/emit_roles.h"

/* Whether threads read the ring, and not only wgmma. Then all lanes of a warp must have read before one of
 * them releases the stage. */
static bool read_by_threads(const Value *ring)
{
    for (const Use *u = ring->uses; u; u = u->next) {
        if (u->user->op != OP_RING_GET) continue;
        for (const Use *w = ir_result(u->user)->uses; w; w = w->next)
            if (w->user->op == OP_SHARED_READ) return true;
    }
    return false;
}

/* Whether the release is an arrival, as only the last of rings that share barriers is. */
static bool arrives(Emit *e, const Instr *i)
{
    return i->op == OP_RING_RELEASE &&
           (!emit_shares_barriers(e, emit_ring_of(e, ir_operand(i, 0))) || emit_is_last_of_joined(e, i));
}

/* Lane 0 releases the stage for its warp, so all lanes must have passed the wait for it. wgmma_wait brings
 * them together, and so does the barrier of an earlier release. A loop between the wait and this place that
 * may not run does not. */
static bool lanes_together(Emit *e, const Instr *release)
{
    for (const Instr *at = release; at && (at == release || at->op == OP_IF); at = at->block->parent)
        for (const Instr *p = at->prev; p; p = p->prev) {
            if (p->op == OP_WGMMA_WAIT || p->op == OP_WGMMA_PROMOTED || arrives(e, p)) return true;
            if (p->op == OP_RING_GET && ir_operand(p, 0) == ir_operand(release, 0)) return false;
        }
    return false;
}

/* Reads of a warp return in their order. So of many words every fourth suffices, where all of them at once
 * would be spilled. */
enum { FEW_WORDS = 16 };

enum { CHAIN = 12 }; /* operations between a read and the product that takes it */

static bool depends(const Instr *i, const Value *on, int chain)
{
    for (int k = 0; k < i->n_operands; k++) {
        const Value *v = ir_operand(i, k);
        if (v == on || (chain && v->def && v->def->block == i->block && depends(v->def, on, chain - 1)))
            return true;
    }
    return false;
}

/* Whether a product that needs what was read was issued between the read and `end`, of the same block. */
static bool arrived(const Instr *read, const Instr *end)
{
    for (const Instr *p = read->next; p && p != end; p = p->next)
        if (op_is_wgmma(p->op) && depends(p, ir_result(read), CHAIN)) return true;
    return false;
}

const char *emit_has_read(Emit *e, const char *after, DType d, const char *array, int words)
{
    const char *all = tmp(e, "read");
    int every = words > FEW_WORDS ? 4 : 1;
    const char *word = d == DT_F32   ? str(e, "%s(%s[i])", use(e, "float_word"), array)
                       : d == DT_F64 ? str(e, "(u32)%s(%s[i])", use(e, "double_word"), array)
                                     : str(e, "(u32)%s[i]", array);
    line(e, "u32 %s = 0;", all);
    directive(e, "#pragma unroll");
    line(e, "for (int i = %d; i < %d; i += %d) %s |= %s;", every - 1, words, every, all, word);
    return str(e, "%s + (%s & %s())", after, all, use(e, "hidden_zero"));
}

/* Where the block of the release takes the stage, or the last one of its ring: stages are released in the
 * order in which they are taken. NULL: it takes none before the release. */
static const Instr *taken(const Instr *release)
{
    const Value *ring = ir_operand(release, 0);
    const Instr *last = NULL;
    int before = 0;
    for (const Instr *p = release->prev; p; p = p->prev)
        before += p->op == OP_RING_RELEASE && ir_operand(p, 0) == ring;
    for (const Instr *p = release->block->first; p != release; p = p->next) {
        if (p->op != OP_RING_GET || ir_operand(p, 0) != ring) continue;
        last = p;
        if (before-- == 0) break;
    }
    return last;
}

/* The ring of whose stage this is a read; NULL: of none. */
static const Value *ring_read(const Instr *i)
{
    const Instr *from = i->op == OP_SHARED_READ ? ir_operand(i, 0)->def : NULL;
    return from && from->op == OP_RING_GET ? ir_operand(from, 0) : NULL;
}

/* What the address of the arrival adds for the reads of the ring since its stage was taken. Where that was in
 * an earlier step, the last read around the release stands for those before it. */
static const char *reads_before(Emit *e, const Instr *release)
{
    const Instr *get = taken(release);
    const char *text = "";
    for (const Instr *at = release; at && (at == release || at->op == OP_IF); at = at->block->parent) {
        for (const Instr *p = at->prev; p && p != get && (at == release || !*text); p = p->prev) {
            if (ring_read(p) != ir_operand(release, 0)) continue;
            if (arrived(p, at)) return text;
            const Value *v = ir_result(p);
            text = emit_has_read(e, text, v->type->dtype, name_of(e, v),
                array_len(v->type->dtype, (int)layout_regs(layout_of(e, v))));
        }
        if (get || *text) break;
    }
    return text;
}

static void set_read(Emit *e, const Value *ring, const char *read)
{
    for (size_t k = 0; k < e->rings.len; k++)
        if (e->rings.data[k].value == ring) e->rings.data[k].read = read;
}

/* The arrival for this stage and others, later in the block, depends on what was read of this one. */
static void join(Emit *e, const Instr *release, const RingInfo *leader)
{
    const char *before = leader->read;
    if (!read_by_threads(ir_operand(release, 0))) return;
    set_read(e, leader->value, str(e, "%s%s", before ? before : "", reads_before(e, release)));
}

void emit_release(Emit *e, Instr *i)
{
    const RingInfo *r = emit_barriers_of(e, emit_ring_of(e, ir_operand(i, 0)));
    if (!arrives(e, i)) {
        join(e, i, r);
        return;
    }
    if (r->read || read_by_threads(ir_operand(i, 0)) || !lanes_together(e, i))
        line(e, "%s();", use(e, "warp_sync"));
    const char *read = str(e, "%s%s", reads_before(e, i), r->read ? r->read : "");
    if (r->read) set_read(e, r->value, NULL);
    bool named = i->n_operands == 2;
    const char *stage =
        named ? str(e, "(%s - %s) / %lld", name_of(e, ir_operand(i, 1)), r->name, (long long)r->bytes / 8)
              : str(e, "8 * %s", r->depth > 1 ? str(e, "%s_free", r->name) : "0");
    /* An arrival for no stage could come to a CTA of the cluster that has ended: nobody waits for it. */
    const char *some = named && r->none ? str(e, " && %s != %s + %lld", name_of(e, ir_operand(i, 1)), r->name,
                                              (long long)r->depth * r->bytes)
                                        : "";
    if (r->ctas > 1)
        line(e, "if (lane < %d%s) %s(%s_empty + %s%s, lane);", r->ctas, some, use(e, "mbar_arrive_at"),
            r->name, stage, read); /* all of them write here */
    else line(e, "if (lane == 0) %s(%s_empty + %s%s);", use(e, "mbar_arrive"), r->name, stage, read);
    if (!named && r->depth > 1) emit_advance(e, r, str(e, "%s_free", r->name), NULL);
}
