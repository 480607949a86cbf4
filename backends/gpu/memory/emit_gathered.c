/* emit_gathered.c: atomics that change words of shared memory (passes/kernel/program/shared_atomics.c).
 *
 *     word w, copy c, at (w * copies + c) * size:    |w0 c0|w0 c1|..|w1 c0|w1 c1|..
 *
 * A lane has the copy of its number, so that with 32 copies of a word of 4 bytes every lane has a bank. A
 * launch whose CTAs would change fewer elements than there are words leaves them alone, and its atomics go to
 * memory. */
#include "backends/gpu/memory/emit_gathered.h"
#include "backends/gpu/gpu.h"

/* The names of the variables. No value has such a name: those end in their numbers. */
static const char *words_name(Emit *e, int param) { return str(e, "words_of_p%d", param); }
static const char *base_name(Emit *e, int param) { return str(e, "gathered_p%d", param); }
const char *emit_gathers(Emit *e, int param) { return str(e, "gathers_p%d", param); }

static int param_of(const Instr *i)
{
    MemParts m;
    return ir_mem_parts(i, &m) ? m.param : (int)ir_attr_int(i, ATTR_PARAM, 0);
}

static DType type_of(const Emit *e, int param) { return e->f->params[param].type->dtype; }
static DType word_of(const Emit *e, const Instr *i)
{ return ir_attr(i, ATTR_NARROW) ? DT_I32 : type_of(e, param_of(i)); }

/* The elements of the tensor at most; 0: not known. */
static int64_t most_words(const Emit *e, int param)
{
    const Param *p = &e->f->params[param];
    int64_t n = 1;
    for (int a = 0; a < p->type->rank; a++) n *= range_of_dim(e->f, p->dims[a]).hi;
    return n;
}

static const Instr *opening(const Emit *e, int param)
{
    for (const Instr *i = e->f->body->first; i; i = i->next)
        if (i->op == OP_ATOMICS_OPEN && ir_attr_int(i, ATTR_PARAM, 0) == param) return i;
    ir_fail(e->s, e->f->loc, "atomics are gathered that nobody opened");
}

bool emit_gathered_some(Emit *e, const Instr *atomic)
{
    int param = param_of(atomic);
    const Instr *i = opening(e, param);
    return ir_attr(i, ATTR_NARROW) || ir_attr_int(i, ATTR_COUNT, 0) < most_words(e, param);
}

/* Whether the words of this launch are fewer than what changes them, and have room for its sums. */
static void declare_gathers(Emit *e, const Instr *i)
{
    int param = param_of(i);
    int64_t count = ir_attr_int(i, ATTR_COUNT, 0), largest = ir_attr_int(i, ATTR_NARROW, 0);
    const char *cond = str(e, "(u64)%s * %lld >= (u64)%s * %s", all_programs(e), (long long)count,
        words_name(e, param), cta_count(e));
    if (largest)
        cond = str(e, "%s && ((u64)%s / %s + 1) * %lldull < 0x80000000u", cond, all_programs(e), cta_count(e),
            (long long)(count * largest));
    line(e, "const bool %s = %s;", emit_gathers(e, param), cond);
}

/* What an operation leaves as it is. Of float sums this is -0, since 0 + -0 is 0. */
static const char *neutral(Emit *e, int64_t rmw, DType d)
{
    const char *t = dtype_name(d);
    if (rmw == RMW_MAX) return use(e, str(e, "LOWEST_%s", t));
    if (rmw == RMW_MIN) return use(e, str(e, "HIGHEST_%s", t));
    if (rmw == RMW_AND) return str(e, "(%s)~0ull", ctype(d));
    if (d == DT_F32) return str(e, "%s(0x80000000u)", use(e, "float_bits"));
    if (d == DT_F64) return str(e, "%s((i64)0x8000000000000000ull)", use(e, "double_bits"));
    return str(e, "(%s)0", ctype(d));
}

static const char *combined(Emit *e, int64_t rmw, DType d, const char *x, const char *y)
{
    const char *t = dtype_name(d);
    if (rmw == RMW_MAX) return str(e, "%s(%s, %s)", use(e, str(e, "max_%s", t)), x, y);
    if (rmw == RMW_MIN) return str(e, "%s(%s, %s)", use(e, str(e, "min_%s", t)), x, y);
    return str(e, "%s %s %s", x, rmw == RMW_AND ? "&" : rmw == RMW_OR ? "|" : rmw == RMW_XOR ? "^" : "+", y);
}

/* Whether x differs from the neutral element, by bits. */
static const char *changed(Emit *e, DType d, const char *x, const char *than)
{
    if (!dtype_is_float(d)) return str(e, "%s != %s", x, than);
    const char *word = use(e, d == DT_F32 ? "float_word" : "double_word");
    return str(e, "%s(%s) != %s(%s)", word, x, word, than);
}

void emit_atomics_open(Emit *e, const Instr *i)
{
    int param = param_of(i);
    DType d = word_of(e, i);
    const Param *p = &e->f->params[param];
    int64_t copies = ir_attr_int(i, ATTR_GATHERED, 1), words = most_words(e, param),
            bytes = words * copies * dtype_bytes(d), at = (e->shared_bytes + 127) / 128 * 128;
    const char *n = "1", *k = tmp(e, "k"), *base = base_name(e, param), *all = words_name(e, param);
    for (int a = 0; a < p->type->rank; a++) n = str(e, "%s * (u32)%s", n, window_extent(e, param, a));
    vec_push(&e->s->arena, &e->shared_map,
        ((SharedUse){ p->name, type_tile(e->s, d, 1, (int64_t[]){ words * copies }), at, bytes, i->loc }));
    e->shared_bytes = at + bytes;
    line(e, "const u32 %s = shared_base + %lld, %s = %s;    /* %lld copies of %s */", base, (long long)at,
        all, n, (long long)copies, p->name);
    bool some = emit_gathered_some(e, i);
    if (some) declare_gathers(e, i);
    line(e, "for (u32 %s = tid; %s%s < %s * %lld; %s += %d)", k,
        some ? str(e, "%s && ", emit_gathers(e, param)) : "", k, all, (long long)copies, k, e->threads);
    line(e, "    %s(%s + %s * %d, %s);", use(e, str(e, "sts_%s", dtype_name(d))), base, k, dtype_bytes(d),
        neutral(e, ir_attr_int(i, ATTR_RMW, 0), d));
    barrier(e);
}

const char *emit_gathered_change(Emit *e, const Instr *atomic, const char *number, const char *by)
{
    int param = param_of(atomic);
    DType d = word_of(e, atomic);
    int64_t copies = ir_attr_int(atomic, ATTR_GATHERED, 1);
    const char *fn = use(
        e, str(e, "shared_%s_%s", attr_enum_name(ATTR_RMW, ir_attr_int(atomic, ATTR_RMW, 0)), dtype_name(d)));
    if (copies > 1)
        number = str(e, "(%s) * %lld + (lane & %lld)", number, (long long)copies, (long long)copies - 1);
    if (d != type_of(e, param)) by = str(e, "(%s)(%s)", ctype(d), by);
    return str(e, "%s(%s + (%s) * %d, %s)", fn, base_name(e, param), number, dtype_bytes(d), by);
}

/* The offset in memory of the element with this number. */
static const char *offset_of(Emit *e, int param, const char *number)
{
    const Param *p = &e->f->params[param];
    const char *at = NULL, *t = e->f->fits32 ? "i32" : "i64";
    for (int a = p->type->rank - 1; a >= 0; a--) {
        const char *extent = str(e, "(u32)%s", window_extent(e, param, a)),
                   *ix = a ? str(e, "%s %% %s", number, extent) : number,
                   *part = window_times(e, str(e, "(%s)(%s)", t, ix), param, a);
        at = at ? str(e, "%s + %s", at, part) : part;
        number = str(e, "(%s / %s)", number, extent);
    }
    return at;
}

void emit_atomics_close(Emit *e, const Instr *i)
{
    int param = param_of(i);
    DType d = word_of(e, i), own = type_of(e, param);
    int size = dtype_bytes(d);
    int64_t copies = ir_attr_int(i, ATTR_GATHERED, 1), rmw = ir_attr_int(i, ATTR_RMW, 0);
    const char *k = tmp(e, "k"), *x = tmp(e, "x"), *c = tmp(e, "c"), *base = base_name(e, param),
               *get = use(e, str(e, "lds_%s", dtype_name(d))), *all = words_name(e, param);
    bool some = emit_gathered_some(e, i);
    barrier(e);
    line(e, "for (u32 %s = tid; %s%s < %s; %s += %d) {", k,
        some ? str(e, "%s && ", emit_gathers(e, param)) : "", k, all, k, e->threads);
    e->indent++;
    if (copies > 1) {
        line(e, "%s %s = %s(%s + (%s * %lld + (tid & %lld)) * %d);", ctype(d), x, get, base, k,
            (long long)copies, (long long)copies - 1, size);
        const char *next = str(e, "%s(%s + (%s * %lld + ((tid + %s) & %lld)) * %d)", get, base, k,
            (long long)copies, c, (long long)copies - 1, size);
        line(e, "for (int %s = 1; %s < %lld; %s++) %s = %s;", c, c, (long long)copies, c, x,
            combined(e, rmw, d, x, next));
    } else line(e, "const %s %s = %s(%s + %s * %d);", ctype(d), x, get, base, k, size);
    bool loops = (rmw == RMW_MAX || rmw == RMW_MIN) && dtype_is_float(d);
    const char *fn = use(
        e, str(e, "%s_%s_%s", loops ? "reach" : "atomic", attr_enum_name(ATTR_RMW, rmw), dtype_name(own)));
    line(e, "if (%s) %s(%s + %s, %s);", changed(e, d, x, neutral(e, rmw, d)), fn,
        slot_name(e, SLOT_DATA, param, 0, own), offset_of(e, param, k),
        own == d ? x : str(e, "(%s)%s", ctype(own), x));
    end_block(e);
    note_indexed(e, true, param, NULL, NULL);
}
