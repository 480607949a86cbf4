/* emit_workspace.c: the parts of a sum from CTAs that are no cluster (passes/kernel/cluster/split_k.c),
 * through the workspace of the launch. Each CTA leaves its part there as its threads hold it, and then draws
 * a number from the counter of its tile. The one that draws the last number reads all parts, in the order of
 * the clusters, and finishes the tile; the others end. Nobody waits for a CTA that has not started.
 *
 *   workspace: the parts, one a CTA in the order of CTAs | counters of 32 bits, one a tile
 *   of several sums, a CTA has the parts of all of them, one behind the other
 *   of shares (stream-k): the counters, to a multiple of PART_GRAIN | the parts in the order of their numbers
 *
 * What the workspace holds before a launch does not matter: the CTA that comes first to the two words of the
 * scheduler's slot zeroes the counters. The first word counts who came, the second has 1 when the counters
 * are zero, and 2 more for each CTA that is done with them; the last one leaves both words zero. */
#include "backends/gpu/hopper/emit_cluster.h"

enum {
    PART_GRAIN = 256, /* bytes of which a part takes a multiple */
    COUNTER_BYTES = 4,
    TOGETHER = 64, /* registers, of several parts, that are asked for before the first one is used */
    FEW = 8,       /* so many parts are joined without loops, */
    AT_ONCE = 16   /* and as many registers of each at a time */
};

typedef struct Parts {
    DType d;
    int n, width, per; /* registers of a thread; bytes that go at a time, and elements in them */
    int64_t bytes;     /* of a CTA's part */
} Parts;

static Parts parts_of(Emit *e, const Value *v)
{
    Parts p = { .d = v->type->dtype, .n = (int)layout_regs(layout_of(e, v)) };
    int size = dtype_bytes(p.d), all = p.n * size;
    p.width = all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : size;
    p.per = p.width / size;
    p.bytes = ((int64_t)all * e->plan->warps * e->target->wave + PART_GRAIN - 1) / PART_GRAIN * PART_GRAIN;
    return p;
}

static const char *scheduler(Emit *e) { return slot_name(e, SLOT_SCHEDULER, 0, 0, DT_U64); }
static const char *workspace(Emit *e) { return slot_name(e, SLOT_WORKSPACE, 0, 0, DT_INDEX); }

static const char *all_ctas(Emit *e)
{ return is_hip(e) ? str(e, "%s()", use(e, "block_count")) : "gridDim.x"; }
static const char *own_cta(Emit *e) { return is_hip(e) ? str(e, "%s()", use(e, "block_id")) : "blockIdx.x"; }

/* Where the counters lie: behind the parts of all CTAs, each of which has so many bytes, or, of shares,
 * before the parts. */
static const char *counters(Emit *e, int64_t bytes)
{
    if (e->plan->shares) return str(e, "(u32 *)%s", workspace(e));
    return str(e, "(u32 *)(%s + (u64)%s * %lld)", workspace(e), all_ctas(e), (long long)bytes);
}

/* What a CTA leaves in the workspace. */
static int64_t bytes_of(Emit *e, const Instr *i)
{
    int64_t bytes = 0;
    for (int k = 0; k < i->n_results; k++) bytes += parts_of(e, &i->results[k]).bytes;
    return bytes;
}

/* Of stream-k: where the part of the program's or cluster's number lies, behind the counters (gpu_workspace).
 */
static const char *share_part(Emit *e, const Parts *p, const char *number)
{
    int ctas = e->plan->multicast > 1 ? e->plan->multicast : 1;
    return str(e, "%s + ((u64)%s * %d + %d) / %d * %d + (u64)((%s) * %d%s) * %lld + tid * %d", workspace(e),
        all_ctas(e), COUNTER_BYTES, PART_GRAIN - 1, PART_GRAIN, PART_GRAIN, number, ctas,
        ctas > 1 ? " + block" : "", (long long)p->bytes, p->width);
}

static void find_combine(void *user, Instr *i)
{
    if (i->op == OP_WORKSPACE_COMBINE || i->op == OP_SHARE_COMBINE) *(const Instr **)user = i;
}

void emit_workspace_enter(Emit *e)
{
    const Instr *i = NULL;
    ir_walk(e->f->body, find_combine, &i);
    if (!i) return;
    const int64_t bytes = bytes_of(e, i);
    e->workspace_per_block = bytes + (e->plan->shares ? 0 : COUNTER_BYTES);
    line(e, "if (tid == 0) %s(%s, %s, %s / %d);", use(e, "workspace_enter"), scheduler(e), counters(e, bytes),
        all_ctas(e), e->plan->clusters > 1 ? e->plan->clusters : 1);
}

static const char *part_access(Emit *e, const Parts *p, bool load)
{ return use(e, str(e, "%s_b%d", load ? "ldg" : "stg", 8 * p->width)); }

/* The registers of a part that are joined before the next ones. Of few parts they are a few, and all of it is
 * unrolled, so that the next ones are under way while these are added; of many parts all. */
static int joined_at_once(const Parts *p, int parts)
{
    int most = parts <= FEW ? AT_ONCE : p->n, n = p->per;
    for (int k = p->per; k <= most && k <= p->n; k += p->per)
        if (p->n % k == 0) n = k;
    return n;
}

/* Combines the parts of all clusters, which lie `apart` bytes from one another. Those of some clusters are
 * asked for before the first is used, as many as TOGETHER registers hold. */
static void join_parts(Emit *e, const Parts *p, int rmw, const char *to, const char *from, int64_t apart)
{
    const char *v = tmp(e, "v"), *k = tmp(e, "k"), *y = tmp(e, "y"), *q = tmp(e, "q"), *b = tmp(e, "b"),
               *g = tmp(e, "g");
    int n = e->plan->clusters, some = joined_at_once(p, n), together = TOGETHER / some;
    int64_t stride = (int64_t)e->threads * p->width;
    together = together < 1 ? 1 : together > n ? n : together;
    const char *there = n % together ? str(e, "if (%s + %s < %d) ", q, b, n) : "";
    begin_unrolled(e, g, p->n / some);
    directive(e, n <= FEW ? "#pragma unroll" : "#pragma unroll 1");
    line(e, "for (int %s = 0; %s < %d; %s += %d) {", q, q, n, q, together);
    e->indent++;
    line(e, "%s %s[%d];", ctype(p->d), y, together * some);
    begin_unrolled(e, b, together);
    begin_unrolled(e, v, some / p->per);
    line(e, "%s%s(&%s[%s * %d + %s * %d], %s + (i64)(%s + %s) * %lld + (%s * %d + %s) * %lld);", there,
        part_access(e, p, true), y, b, some, v, p->per, from, q, b, (long long)apart, g, some / p->per, v,
        (long long)stride);
    end_block(e);
    end_block(e);
    begin_unrolled(e, b, together);
    begin_unrolled(e, k, some);
    const char *sum = str(e, "%s[%s * %d + %s]", to, g, some, k),
               *part = str(e, "%s[%s * %d + %s]", y, b, some, k);
    line(e, "%s%s = %s + %s == 0 ? %s : %s;", there, sum, q, b, part, emit_joined(e, rmw, p->d, sum, part));
    end_block(e);
    end_block(e);
    end_block(e);
    end_block(e);
}

/* Writes a part of this CTA. */
static void leave_part(Emit *e, const Parts *p, const char *part, const char *from)
{
    const char *v = tmp(e, "v");
    begin_unrolled(e, v, p->n / p->per);
    line(e, "%s(%s + %s * %lld, &%s[%s * %d]);", part_access(e, p, false), part, v,
        (long long)e->threads * p->width, from, v, p->per);
    end_block(e);
}

/* Draws a number from the tile's counter, when all threads have written what they have. Returns the place of
 * the number. */
static const char *draw_number(Emit *e, int64_t bytes, const char *counter)
{
    memory_barrier(e);
    const char *cell = shared_pointer(e, "u32", scratch(e, COUNTER_BYTES));
    line(e, "if (tid == 0) %s[0] = %s(%s, %s + %s);", cell, use(e, "workspace_draw"), scheduler(e),
        counters(e, bytes), counter);
    memory_barrier(e);
    return cell;
}

void emit_workspace_combine(Emit *e, Instr *i)
{
    const int64_t bytes = bytes_of(e, i);
    const char *own = tmp(e, "own"), *first = tmp(e, "first"), *last = tmp(e, "last");
    const Attr *kinds = ir_attr(i, ATTR_KINDS);
    int ctas = e->plan->cluster > 1 ? e->plan->cluster : 1;
    line(
        e, "/* every CTA leaves its part in the workspace; the last that comes joins them in their order */");
    line(e, "u8 *const %s = %s + (u64)%s * %lld;", own, workspace(e), own_cta(e), (long long)bytes);
    int64_t at = 0;
    for (int k = 0; k < i->n_results; k++) {
        Value *x = ir_operand(i, k);
        Parts p = parts_of(e, &i->results[k]);
        leave_part(e, &p, str(e, "%s + %lld + tid * %d", own, (long long)at, p.width),
            array_of(e, x, layout_of(e, x)));
        at += p.bytes;
    }
    const char *cell = draw_number(e, bytes,
        str(e, "%s / %d * %d + %s %% %d", own_cta(e), ctas * e->plan->clusters, ctas, own_cta(e), ctas));
    line(e, "const bool %s = %s[0] == %d;", last, cell, e->plan->clusters - 1);
    const char **to = arena_array(&e->s->arena, const char *, (size_t)i->n_results);
    for (int k = 0; k < i->n_results; k++) to[k] = declare_tile(e, &i->results[k]);
    line(e, "if (%s) {", last);
    e->indent++;
    e->in_last++;
    line(e, "const u8 *const %s = %s - (u64)(%s / %d %% %d) * %lld;", first, own, own_cta(e), ctas,
        e->plan->clusters, (long long)(ctas * bytes));
    at = 0;
    for (int k = 0; k < i->n_results; k++) {
        Parts p = parts_of(e, &i->results[k]);
        join_parts(e, &p, (int)kinds->v[k], to[k],
            str(e, "(%s + %lld + tid * %d)", first, (long long)at, p.width), ctas * bytes);
        at += p.bytes;
    }
}

/* Joins `count` parts that lie one behind the other from `first` on, `apart` bytes between. */
static void join_counted(
    Emit *e, const Parts *p, int rmw, const char *to, const char *first, int64_t apart, const char *count)
{
    enum { MOST_AT_ONCE = 64 };
    const char *v = tmp(e, "v"), *k = tmp(e, "k"), *y = tmp(e, "y"), *q = tmp(e, "q"), *g = tmp(e, "g");
    int some = p->n;
    int64_t stride = (int64_t)e->threads * p->width;
    while (some > MOST_AT_ONCE && some % 2 == 0 && some / 2 % p->per == 0) some /= 2;
    begin_unrolled(e, v, p->n / p->per);
    line(e, "%s(&%s[%s * %d], %s + %s * %lld);", part_access(e, p, true), to, v, p->per, first, v,
        (long long)stride);
    end_block(e);
    directive(e, "#pragma unroll 1");
    line(e, "for (i32 %s = 1; %s < %s; %s++) {", q, q, count, q);
    e->indent++;
    begin_unrolled(e, g, p->n / some);
    line(e, "%s %s[%d];", ctype(p->d), y, some);
    begin_unrolled(e, v, some / p->per);
    line(e, "%s(&%s[%s * %d], %s + (i64)%s * %lld + (%s * %d + %s) * %lld);", part_access(e, p, true), y, v,
        p->per, first, q, (long long)apart, g, some / p->per, v, (long long)stride);
    end_block(e);
    begin_unrolled(e, k, some);
    const char *sum = str(e, "%s[%s * %d + %s]", to, g, some, k);
    line(e, "%s = %s;", sum, emit_joined(e, rmw, p->d, sum, str(e, "%s[%s]", y, k)));
    end_block(e);
    end_block(e);
    end_block(e);
}

/* The part of a share (stream-k). A CTA of a cluster that loads together has parts and counters of its own.
 */
void emit_share_combine(Emit *e, Instr *i)
{
    enum { PART = 1, FIRST, COUNT, TILE, OPERANDS }; /* numbers: of the part, of the tile's first one, .. */
    Value *x = ir_operand(i, 0), *r = ir_result(i);
    Parts p = parts_of(e, r);
    int ctas = e->plan->multicast > 1 ? e->plan->multicast : 1;
    const char *rank = ctas > 1 ? str(e, " + block") : "", *from = array_of(e, x, layout_of(e, x)),
               *last = tmp(e, "last"), *part = tmp(e, "part"), *k = tmp(e, "k"), *number[OPERANDS];
    for (int o = PART; o < OPERANDS; o++) number[o] = name_of(e, ir_operand(i, o));
    const char *count = number[COUNT];
    line(e, "/* a part that is not the whole goes to the workspace; the last that comes joins them */");
    line(e, "bool %s = %s == 1;", last, count);
    line(e, "if (!%s) {", last);
    e->indent++;
    line(e, "u8 *const %s = %s;", part, share_part(e, &p, number[PART]));
    leave_part(e, &p, part, from);
    const char *cell = draw_number(e, p.bytes, str(e, "(%s) * %d%s", number[TILE], ctas, rank));
    line(e, "%s = %s[0] == %s - 1;", last, cell, count);
    end_block(e);
    const char *to = declare_tile(e, r);
    line(e, "if (%s) {", last);
    e->indent++;
    e->in_last++;
    line(e, "if (%s == 1) {", count);
    e->indent++;
    begin_unrolled(e, k, p.n);
    line(e, "%s[%s] = %s[%s];", to, k, from, k);
    end_block(e);
    e->indent--;
    line(e, "} else {");
    e->indent++;
    const char *first = tmp(e, "first");
    line(e, "const u8 *const %s = %s;", first, share_part(e, &p, number[FIRST]));
    join_counted(e, &p, (int)ir_attr_int(i, ATTR_RMW, RMW_ADD), to, first, (int64_t)ctas * p.bytes, count);
    end_block(e);
}

void emit_shares_end(Emit *e)
{
    if (e->plan->shares)
        line(e, "if (tid == 0) %s(%s, %s);", use(e, "workspace_leave"), scheduler(e), all_ctas(e));
}

void emit_workspace_leave(Emit *e)
{
    end_block(e);
    e->in_last--;
    if (e->plan->shares) return; /* for each program; emit_shares_end comes once */
    line(e, "if (tid == 0) %s(%s, %s);", use(e, "workspace_leave"), scheduler(e), all_ctas(e));
}
