/* emit_combine.c: the parts of a sum from all CTAs of a cluster (passes/kernel/cluster/split_k.c). Each CTA
 * sends every other one its slice straight from registers to the place where the thread of the same number
 * looks for it, sixteen bytes at a time (st.async, PTX ISA 9.7.9.12), counted by an mbarrier there; then it
 * joins what came with its own, in the order of the CTAs. The layout of the whole is that of a slice with the
 * slices side by side in registers, so that a slice is a run of them. The places are used once: nothing is
 * waited for but the parts. Without an axis every CTA sends and joins the whole tile. */
#include "backends/gpu/hopper/emit_cluster.h"

const char *emit_joined(Emit *e, int rmw, DType d, const char *x, const char *y)
{
    if (rmw == RMW_ADD) return dtype_is_float(d) ? str(e, "%s + %s", x, y) : wrapped(e, d, "+", x, y);
    return str(e, "%s(%s, %s)", use(e, str(e, "%s_%s", rmw == RMW_MAX ? "max" : "min", dtype_name(d))), x, y);
}

/* An exchange that is being emitted. Each thread sends `n` registers to each CTA and receives as many from
 * each, `width` bytes at a time, with `per` elements each. */
typedef struct Exchange {
    DType d;
    int parts, rmw, n, width, per;
    bool sliced;
    int64_t bytes, stride; /* of the data that one CTA sends; between the pieces of a thread */
    const char *from, *to; /* the arrays of the operand and the result */
    /* the place where this thread's pieces arrive; the mbarrier; a counter of pieces */
    const char *place, *mbar, *v;
} Exchange;

/* Whether the parts lie over the stages of rings (passes/kernel/warp_specialization/rings.c): then no CTA
 * sends any before all warps of all CTAs have read their last stage. */
static bool lies_over_rings(const Emit *e, const Exchange *x)
{
    return e->plan->parts_over_rings && e->role == ROLE_CONSUMER && !e->cluster_met &&
           x->bytes * (x->parts - 1) <= e->rings_to - e->rings_from;
}

/* Every warp says to all CTAs that it has read its last stage, and waits until all have said so. */
static void all_have_read(Emit *e, int ctas)
{
    e->cluster_read = (e->shared_bytes + 7) / 8 * 8;
    e->cluster_reads = e->threads / 32 * ctas;
    e->shared_bytes = e->cluster_read + 8;
    line(e, "if (lane < %d) %s(shared_base + %lld, lane);    /* the parts come over the stages */", ctas,
        use(e, "mbar_arrive_at"), (long long)e->cluster_read);
    line(e, "%s(shared_base + %lld, 0);", use(e, "mbar_wait_cluster"), (long long)e->cluster_read);
}

/* Reserves shared memory for the parts of the other CTAs and an mbarrier after it. Returns the offset of the
 * mbarrier. */
static int64_t reserve(Emit *e, const Instr *i, const Exchange *x, int64_t at)
{
    int64_t all = x->bytes * (x->parts - 1),
            bar = at < e->shared_bytes ? (e->shared_bytes + 7) / 8 * 8 : at + all;
    const Type *t = type_shared(e->s, x->d, 2, (int64_t[]){ x->parts - 1, (int64_t)x->n * e->threads }, NULL);
    e->shared_bytes = bar + 16;
    vec_push(&e->s->arena, &e->shared_map, ((SharedUse){ "parts", t, at, all, i->loc }));
    vec_push(&e->s->arena, &e->cluster_bars, bar);
    return bar;
}

static void send_parts(Emit *e, const Exchange *x)
{
    const char *send = use(e, x->width == 16  ? "send_b128"
                              : x->width == 8 ? "send_b64"
                                              : str(e, "send_%s", dtype_name(x->d)));
    bool by_address = x->per > 1 || x->width == 8;
    for (int q = 0; q < x->parts; q++) {
        line(e, "if (block != %d) {", q);
        e->indent++;
        begin_unrolled(e, x->v, x->n / x->per);
        const char *el = str(e, "%s[%d + %s * %d]", x->from, x->sliced ? q * x->n : 0, x->v, x->per);
        line(e, "%s(%s + (block - (block > %d)) * %lld + %s * %lld, %d, %s%s, %s);", send, x->place, q,
            (long long)x->bytes, x->v, (long long)x->stride, q, by_address ? "&" : "", el, x->mbar);
        end_block(e);
        end_block(e);
    }
}

/* Combines part q, which arrived at `slot`, with the result so far. */
static void join_part(Emit *e, const Exchange *x, int q, const char *load, const char *k, const char *y)
{
    const char *slot = str(e, "%s + (%d - (%d > block)) * %lld + %s * %lld", x->place, q, q,
        (long long)x->bytes, x->v, (long long)x->stride);
    begin_unrolled(e, x->v, x->n / x->per);
    if (q == 0) line(e, "%s(&%s[%s * %d], %s);", load, x->to, x->v, x->per, slot);
    else {
        line(e, "%s %s[%d];", ctype(x->d), y, x->per);
        line(e, "%s(%s, %s);", load, y, slot);
        begin_unrolled(e, k, x->per);
        const char *sum = str(e, "%s[%s * %d + %s]", x->to, x->v, x->per, k);
        line(e, "%s = %s;", sum, emit_joined(e, x->rmw, x->d, sum, str(e, "%s[%s]", y, k)));
        end_block(e);
    }
    end_block(e);
}

static void join_parts(Emit *e, const Exchange *x)
{
    const char *load = use(e, x->width == 16  ? "lds_b128"
                              : x->width == 8 ? "lds_b64"
                                              : "lds_b32"),
               *k = tmp(e, "k"), *y = tmp(e, "y");
    for (int q = 0; q < x->parts; q++) {
        line(e, "if (block == %d) {", q);
        e->indent++;
        begin_unrolled(e, k, x->n);
        const char *own = str(e, "%s[%d + %s]", x->from, x->sliced ? q * x->n : 0, k),
                   *sum = str(e, "%s[%s]", x->to, k);
        line(e, "%s = %s;", sum, q ? emit_joined(e, x->rmw, x->d, sum, own) : own);
        end_block(e);
        e->indent--;
        line(e, "} else {");
        e->indent++;
        join_part(e, x, q, load, k, y);
        end_block(e);
    }
}

void emit_combine(Emit *e, Instr *i)
{
    Value *v = ir_operand(i, 0), *r = ir_result(i);
    const Layout *whole = layout_of(e, v);
    int n = (int)layout_regs(layout_of(e, r)), size = dtype_bytes(r->type->dtype);
    Exchange x = { .d = r->type->dtype,
        .parts = (int)ir_attr_int(i, ATTR_COUNT, 1),
        .rmw = (int)ir_attr_int(i, ATTR_RMW, RMW_ADD),
        .n = n,
        .sliced = ir_attr(i, ATTR_AXIS),
        .width = n * size % 16 == 0  ? 16
                 : n * size % 8 == 0 ? 8
                                     : size,
        .bytes = (int64_t)n * size * e->threads };
    x.per = x.width / size;
    x.stride = (int64_t)e->threads * x.width;
    if ((int)layout_regs(whole) != (x.sliced ? n * x.parts : n))
        ir_fail(e->s, i->loc, "slices that are no runs of registers");
    bool over = lies_over_rings(e, &x);
    int64_t at = over ? e->rings_from : (e->shared_bytes + 127) / 128 * 128, bar = reserve(e, i, &x, at);
    x.from = array_of(e, v, whole);
    x.to = declare_tile(e, r);
    x.place = tmp(e, "place");
    x.mbar = str(e, "shared_base + %lld", (long long)bar);
    x.v = tmp(e, "v");
    line(e, "%s",
        x.sliced ? "/* every CTA sends each other its slice, and joins its own slice's parts in the order of "
                   "the CTAs */"
                 : "/* every CTA sends its tile to each other, and joins all in the order of the CTAs */");
    line(e, "const u32 %s = shared_base + %lld + tid * %d;", x.place, (long long)at, x.width);
    if (!e->cluster_met) line(e, "%s();", use(e, "cluster_wait"));
    if (over) all_have_read(e, x.parts);
    e->cluster_met = true;
    line(e, "if (tid == 0) %s(%s, %lld);", use(e, "mbar_expect"), x.mbar, (long long)x.bytes * (x.parts - 1));
    bool orders = ir_attr_int(i, ATTR_SEM, SEM_RELAXED) == SEM_ACQ_REL;
    if (orders)
        line(e, "%s();    /* what this CTA has read, others may write when they have its part */",
            use(e, "fence_cluster"));
    send_parts(e, &x);
    line(e, "%s(%s, 0);", use(e, orders ? "mbar_wait_acquire" : "mbar_wait"), x.mbar);
    join_parts(e, &x);
}
