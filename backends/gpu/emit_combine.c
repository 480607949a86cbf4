/* emit_combine.c: the parts of a sum from all CTAs of a cluster (passes/kernel/cluster/split_k.c). Each CTA
 * sends every other one its slice straight from registers to the place where the thread of the same number
 * looks for it, sixteen bytes at a time (st.async, PTX ISA 9.7.9.12), counted by an mbarrier there; then it
 * joins what came with its own, in the order of the CTAs. The layout of the whole is that of a slice with the
 * slices side by side in registers, so that a slice is a run of them. The places are used once: nothing is
 * waited for but the parts. Without an axis every CTA sends and joins the whole tile. */
#include "backends/gpu/emit.h"

static const char *combined(Emit *e, int rmw, DType d, const char *x, const char *y)
{
    if (rmw == RMW_ADD) return dtype_is_float(d) ? str(e, "%s + %s", x, y) : wrapped(e, d, "+", x, y);
    return str(e, "%s(%s, %s)", use(e, str(e, "%s_%s", rmw == RMW_MAX ? "max" : "min", dtype_name(d))), x, y);
}

void emit_combine(Emit *e, Instr *i)
{
    Value *x = ir_operand(i, 0), *r = ir_result(i);
    const Layout *whole = layout_of(e, x), *part = layout_of(e, r);
    DType d = r->type->dtype;
    int parts = (int)ir_attr_int(i, ATTR_COUNT, 1), rmw = (int)ir_attr_int(i, ATTR_RMW, RMW_ADD),
        n = (int)layout_regs(part), size = dtype_bytes(d);
    int width = n * size % 16 == 0 ? 16 : n * size % 8 == 0 ? 8 : size, per = width / size, vectors = n / per;
    int64_t bytes = (int64_t)n * size * e->threads, at = (e->shared_bytes + 127) / 128 * 128,
            bar = at + bytes * (parts - 1);
    const bool sliced = ir_attr(i, ATTR_AXIS);
    if ((int)layout_regs(whole) != (sliced ? n * parts : n))
        ir_fail(e->s, i->loc, "slices that are no runs of registers");
    e->shared_bytes = bar + 16;
    vec_push(&e->s->arena, &e->shared_map,
        ((SharedUse){ "parts",
            type_shared(e->s, d, 2, (int64_t[]){ parts - 1, (int64_t)n * e->threads }, NULL), at,
            bytes * (parts - 1), i->loc }));
    vec_push(&e->s->arena, &e->cluster_bars, bar);
    const char *from = array_of(e, x, whole), *to = declare_tile(e, r), *place = tmp(e, "place"),
               *mbar = str(e, "shared_base + %lld", (long long)bar), *v = tmp(e, "v");
    line(e, "%s",
        sliced ? "/* every CTA sends each other its slice, and joins its own slice's parts in the order of "
                 "the CTAs */"
               : "/* every CTA sends its tile to each other, and joins all in the order of the CTAs */");
    line(e, "const u32 %s = shared_base + %lld + tid * %d;", place, (long long)at, width);
    if (!e->cluster_met) line(e, "%s();", use(e, "cluster_wait"));
    e->cluster_met = true;
    line(e, "if (tid == 0) %s(%s, %lld);", use(e, "mbar_expect"), mbar, (long long)bytes * (parts - 1));
    const char *send = use(e, width == 16  ? "send_b128"
                              : width == 8 ? "send_b64"
                                           : str(e, "send_%s", dtype_name(d)));
    for (int q = 0; q < parts; q++) {
        line(e, "if (block != %d) {", q);
        e->indent++;
        begin_unrolled(e, v, vectors);
        const char *el = str(e, "%s[%d + %s * %d]", from, sliced ? q * n : 0, v, per);
        line(e, "%s(%s + (block - (block > %d)) * %lld + %s * %d, %d, %s%s, %s);", send, place, q,
            (long long)bytes, v, e->threads * width, q, width > size || width == 8 ? "&" : "", el, mbar);
        end_block(e);
        end_block(e);
    }
    line(e, "%s(%s, 0);", use(e, "mbar_wait"), mbar);
    const char *load = use(e, width == 16  ? "lds_b128"
                              : width == 8 ? "lds_b64"
                                           : "lds_b32"),
               *k = tmp(e, "k"), *y = tmp(e, "y");
    for (int q = 0; q < parts; q++) {
        const char *slot = str(e, "%s + (%d - (%d > block)) * %lld + %s * %d", place, q, q, (long long)bytes,
            v, e->threads * width);
        line(e, "if (block == %d) {", q);
        e->indent++;
        begin_unrolled(e, k, n);
        const char *own = str(e, "%s[%d + %s]", from, sliced ? q * n : 0, k), *sum = str(e, "%s[%s]", to, k);
        line(e, "%s = %s;", sum, q ? combined(e, rmw, d, sum, own) : own);
        end_block(e);
        e->indent--;
        line(e, "} else {");
        e->indent++;
        begin_unrolled(e, v, vectors);
        if (q == 0) line(e, "%s(&%s[%s * %d], %s);", load, to, v, per, slot);
        else {
            line(e, "%s %s[%d];", ctype(d), y, per);
            line(e, "%s(%s, %s);", load, y, slot);
            begin_unrolled(e, k, per);
            sum = str(e, "%s[%s * %d + %s]", to, v, per, k);
            line(e, "%s = %s;", sum, combined(e, rmw, d, sum, str(e, "%s[%s]", y, k)));
            end_block(e);
        }
        end_block(e);
        end_block(e);
    }
}
