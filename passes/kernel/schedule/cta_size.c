/* cta_size.c: how many warps a CTA has, how many CTAs share a multiprocessor, and how much shared memory is
 * scratch. None of it changes the IR; the plan holds what was decided. lower.c asks for the warps before the
 * first pass, again when products have their instructions, and for the CTAs before shared memory is shared
 * out.
 */
#include "passes/kernel/schedule/cta_size.h"
#include "passes/kernel/schedule/live.h"
#include "passes/kernel/schedule/occupancy.h"

typedef struct Sizes {
    const Func *f;
    const KernelPlan *plan;
    const Target *target;
    const Block *block;     /* the block in which products were counted last */
    int64_t here, products; /* the words of accumulators of this block, and of the block that has the most */
    int64_t tile, bytes;    /* the elements of the largest tile, the bytes of the largest access */
    int64_t gathered;       /* the elements of all gathers of tiles */
    int own;                /* loads of tiles that depend on the program */
    int shifted;            /* of these: by elements or shifted vectors */
    uint64_t tensors;       /* a bit for each tensor that these load from */
    int64_t records;        /* the large records that are put together of components; 0: there are none */
    int64_t folded;         /* the elements of the largest tile that a function of the kernel's combines */
    bool rows, strided;
    bool searched; /* for the largest elements of rows, in rounds in each of which its warps meet */
    bool fma;      /* there is a product that no matrix unit computes as it is written */
    bool nested;   /* one of f32 is in a loop of a loop */
} Sizes;

/* Whether a scalar is computed from the program's coordinates, by at most `deep` operations. */
static bool of_program(const Value *v, int deep)
{
    const Instr *d = v->def;
    if (!d || !deep) return false;
    bool is = d->op == OP_PROGRAM || d->op == OP_PROGRAM_ID || d->op == OP_PROGRAM_COORD;
    for (int k = 0; k < d->n_operands && !is && !d->n_blocks; k++)
        is = of_program(ir_operand(d, k), deep - 1);
    return is;
}

static void measure_records(Sizes *z, const Instr *i)
{
    int64_t n = occupancy_large_records(z->target, i);
    if (n && (!z->records || n < z->records)) z->records = n;
}

static void measure_product(Sizes *z, const Instr *i)
{
    const DType in = ir_operand(i, 0)->type->dtype;
    const Type *sum = ir_result(i)->type;
    int64_t words = type_elements(sum) * dtype_bytes(sum->dtype) / 4;
    if (z->block != i->block) z->here = 0;
    z->block = i->block;
    z->here += kernel_promote_after(z->plan, i, "m16n8k32") ? 2 * words : words;
    const bool exact = in == DT_F32 && ir_attr_int(i, ATTR_PRECISION, 0) != PRECISION_TF32;
    z->fma |= in == DT_F64 || exact;
    z->fma |=
        (in == DT_F8E4M3 || in == DT_F8E5M2) && !target_has(z->target, TF_MMA_FP8); /* widened in registers */
    const Instr *loop = i->block->parent;
    z->nested |=
        exact && loop && loop->op == OP_FOR && loop->block->parent && loop->block->parent->op == OP_FOR;
    if (z->here > z->products) z->products = z->here;
}

/* A load or a store of a tile; m: its parts. */
static void measure_access(Sizes *z, Instr *i, const MemParts *m)
{
    enum { DEEP = 6 };
    const Type *t = (m->result ? m->result : m->values[0])->type;
    const Attr *steps = ir_attr(i, ATTR_STEPS);
    int unit = kernel_unit_axis(z->f, i, NULL);
    bool own = false;
    if (t->kind != TYPE_TILE) return;
    for (int a = 0; a < m->rank && i->op == OP_LOAD; a++) own |= of_program(m->idx[a], DEEP);
    z->own += own;
    z->shifted += own && kernel_may_shift(z->f, z->plan, i) && kernel_access_bytes(z->f, i) < 16;
    if (own) z->tensors |= 1ull << m->param % 64;
    if (type_elements(t) * dtype_bytes(t->dtype) > z->bytes)
        z->bytes = type_elements(t) * dtype_bytes(t->dtype);
    if (steps && unit >= 0 && steps->v[unit] != 1) z->strided = true;
}

static void measure(void *user, Instr *i)
{
    Sizes *z = user;
    MemParts m;
    for (int k = 0; k < i->n_results; k++) {
        const Type *t = i->results[k].type;
        if (t->kind == TYPE_TILE && type_elements(t) > z->tile && !kernel_is_cheap(&i->results[k]))
            z->tile = type_elements(t);
    }
    if (i->op == OP_MMA) measure_product(z, i);
    if (i->op >= OP_REDUCE_SUM && i->op <= OP_TOPK) z->rows = true;
    z->searched |= i->op == OP_TOPK;
    measure_records(z, i);
    if (i->op == OP_REDUCE && type_elements(ir_operand(i, 0)->type) > z->folded)
        z->folded = type_elements(ir_operand(i, 0)->type);
    if (i->op == OP_GATHER && ir_result(i)->type->kind == TYPE_TILE)
        z->gathered += type_elements(ir_result(i)->type);
    if ((i->op == OP_LOAD || i->op == OP_STORE) && ir_mem_parts(i, &m)) measure_access(z, i, &m);
}

/* Whether a program should have twice as many warps, because each thread holds so much that few CTAs fit a
 * multiprocessor. This is so if the tiles that are in use at once take more than MANY_BYTES of a thread, and
 * twice as many warps would still load vectors of 16 bytes.
 *
 * Only programs that load several tiles of their own count, and programs that reduce rows only if these come
 * from several tensors: other tiles are intermediate results, of which the vendor's compiler computes one
 * element after the other. A row is in use as a whole until its reduction is known, so it must fit the 64
 * registers that launch bounds then leave (occupancy_wanted). Stencils have launch bounds that follow from
 * their tiles (occupancy_has_windows). */
static bool holds_many(Session *s, const Sizes *z, int warps)
{
    enum { MANY_BYTES = 400, ROW_BYTES = 2 * 224, SEVERAL = 3, VECTOR = 16 };
    int64_t threads = (int64_t)warps * z->target->wave;
    if (z->target->kind != TARGET_CUDA || z->strided || z->own < SEVERAL || z->bytes < 2 * threads * VECTOR)
        return false;
    int64_t bytes = live_most_bytes(&s->arena, z->f);
    if (z->rows && (bytes > threads * ROW_BYTES || __builtin_popcountll(z->tensors) < SEVERAL)) return false;
    return bytes > threads * MANY_BYTES && !occupancy_has_windows(s, z->f);
}

/* How many times as many warps a program should have that holds too much in each thread, though these would
 * load no vectors of 16 bytes any more: several of its loads are at no multiples of these anyway. As many as
 * leave a thread EASY_BYTES, and a word of each tile. */
static int times_as_many(Session *s, const Sizes *z, int warps)
{
    enum { MANY_BYTES = 400, EASY_BYTES = 128, SEVERAL = 3, WORD = 4 };
    int64_t threads = (int64_t)warps * z->target->wave;
    int times = 1;
    if (z->target->kind != TARGET_CUDA || z->strided || z->rows || z->shifted < SEVERAL) return 1;
    int64_t bytes = live_most_bytes(&s->arena, z->f);
    if (bytes <= threads * MANY_BYTES || occupancy_has_windows(s, z->f)) return 1;
    while (bytes > times * threads * EASY_BYTES && z->bytes >= 2 * times * threads * WORD) times *= 2;
    return times;
}

/* Chooses the number of warps. With products, the accumulators take a given part of a thread's registers.
 * With NVIDIA's matrix units that is most of them, because fragments read from shared memory then serve more
 * products (bench/notes/decisions.md, "Behind the decisions"). Fused multiply-adds of one warp of a scheduler
 * issue every other cycle, and where the sums of a loop are steps of another loop, a multiprocessor has few
 * programs, so that there are more warps. Without products, a thread has 64 bytes of a
 * row that is reduced, whose loads in flight hide the latency that a barrier exposes, or else 32 bytes. It
 * has few elements when accesses cannot be wide, gathers at most 64, which can be in flight at once, and
 * combines at most 8 by a function of the kernel's own: more would take longer than the exchanges between the
 * lanes of a warp, which follow in any case. One warp searches the largest elements of a row that it can
 * hold. The number grows where a thread would hold too much (holds_many, times_as_many). */
static int choose_warps(Session *s, const Func *f, const KernelPlan *p)
{
    const Target *t = p->target;
    Sizes z = { .f = f, .plan = p, .target = t };
    int64_t per;
    if (f->hints.warps > 0) return f->hints.warps;
    ir_walk(f->body, measure, &z);
    if (z.products) {
        int64_t words = (int64_t)t->wave * (t->kind != TARGET_CUDA ? 64 : !z.fma ? 160 : z.nested ? 32 : 64);
        per = (z.products + words - 1) / words;
    } else if (z.strided) per = z.tile / (t->wave * 2);
    else {
        per = (z.bytes + t->wave * (z.rows ? 64 : 32) - 1) / (t->wave * (z.rows ? 64 : 32));
        if (z.tile / (t->wave * 32) > per && !(z.searched && per == 1 && z.tile <= t->wave * 64))
            per = z.tile / (t->wave * 32); /* Gathers and tables: no access gives a width. */
        if (z.gathered / (t->wave * 64) > per) per = z.gathered / (t->wave * 64);
        if (z.folded / (t->wave * 8) > per) per = z.folded / (t->wave * 8);
    }
    int w = z.products ? 4 : 1, most = z.products ? 8 : z.strided ? 4 : 32;
    while (w < per && w < most) w *= 2;
    if (!z.products && 2 * w <= most && holds_many(s, &z, w)) w *= 2;
    else if (!z.products && most >= 4) w *= times_as_many(s, &z, w);
    if (w > most) w = most;
    while (z.records && !z.products && w > 1 && w * t->wave > z.records) w /= 2; /* more would repeat them */
    return w * t->wave > t->cta_threads ? t->cta_threads / t->wave : w;
}

typedef struct WholeRows {
    Session *s;
    const KernelPlan *p;
    bool whole, products;
} WholeRows;

static void whole_rows(void *user, Instr *i)
{
    WholeRows *r = user;
    if (i->op != OP_MMA_SYNC) return;
    const char *name = ir_attr(i, ATTR_INSTR)->s;
    r->products = true;
    r->whole = r->whole && strcmp(name, "fma") &&
               ir_result(i)->type->shape[0] %
                       ((int64_t)layout_mma_info(kernel_mma_kind(r->s, name))->m * r->p->warps) ==
                   0;
}

bool kernel_whole_rows(const KernelContext *c)
{
    WholeRows r = { .s = c->s, .p = c->p, .whole = true };
    if (c->specialized) return true;
    ir_walk(c->f->body, whole_rows, &r);
    return r.whole && r.products;
}

/* AMD: if rows are reduced or feed another product, waves are along M. More waves than rows of fragments
 * would repeat each other's work. */
typedef struct Fragments {
    bool chain;
    int products;
    int64_t rows, all, columns;
} Fragments; /* columns: the smallest number of columns of a product */

static void count_rows(void *user, Instr *i)
{
    Fragments *r = user;
    if (i->op >= OP_REDUCE_SUM && i->op <= OP_TOPK && ir_operand(i, 0)->type->kind == TYPE_TILE &&
        ir_operand(i, 0)->type->rank == 2)
        r->chain = true;
    if (i->op != OP_MMA_SYNC) return;
    for (int k = 0; k < LAYOUT_MMA_COUNT; k++) {
        const LayoutMmaInfo *m = layout_mma_info((LayoutMma)k);
        if (strcmp(m->name, ir_attr(i, ATTR_INSTR)->s)) continue;
        const Type *c = ir_result(i)->type;
        int64_t rows = (c->shape[0] + m->m - 1) / m->m, all = rows * ((c->shape[1] + m->n - 1) / m->n);
        r->products++;
        if (rows > r->rows) r->rows = rows;
        if (!r->columns || all / rows < r->columns) r->columns = all / rows;
        if (all > r->all) r->all = all;
    }
}

void cta_size_cap_warps(Session *s, Func *f, KernelPlan *p)
{
    Fragments r = { 0 };
    if (p->target->kind != TARGET_HIP) return;
    ir_walk(f->body, count_rows, &r);
    /* One row of fragments, such as a query against a cache of keys: waves that are side by side share the
     * loaded data, and exchange rows through LDS. */
    int64_t most = r.chain && r.products > 1 ? (r.rows == 1 ? r.columns : r.rows) : r.all;
    int warps = p->warps;
    const Decision *asked = schedule_asked(p, DECIDE_WARPS);
    bool fixed = asked || p->options.warps || f->hints.warps > 0;
    /* Waves that are side by side, as below. */
    if (asked && r.chain && r.products > 1) most = r.rows * r.columns;
    while (r.products && warps > most && warps > 1) warps = warps % 2 ? 1 : warps / 2;
    /* Each wave has a part of the columns, and rows are exchanged through LDS. More waves leave less of the
     * tiles to each lane, unless the waves share a register file. */
    for (int k = 2; k < p->options.thrift && !fixed && r.products; k++)
        if (p->target->wave == 64) warps = warps > 4 && warps % 2 == 0 ? warps / 2 : warps;
        else if (2 * warps <= r.rows * r.columns && 2 * warps * p->target->wave <= p->target->cta_threads)
            warps *= 2;
    if (warps != p->warps && asked)
        schedule_refuse(p, asked, "the products have work for %d waves of %s", (int)most, p->target->name);
    else if (warps != p->warps && f->hints.warps > 0)
        diag_perf(s, f->loc, "warps = %d: the products have work for %d waves of %s; %d are used", p->warps,
            (int)most, p->target->name, warps);
    p->warps = warps;
}

/* Takes the number of warps and the scratch memory from the schedule. */
static void asked_sizes(KernelPlan *p)
{
    const Decision *warps = schedule_asked(p, DECIDE_WARPS), *scratch = schedule_asked(p, DECIDE_SCRATCH);
    int most = p->target->cta_threads / p->target->wave;
    if (warps && (warps->n[0] < 1 || warps->n[0] > most))
        schedule_refuse(p, warps, "a CTA has 1 to %d warps", most);
    else if (warps) p->options.warps = warps->n[0];
    if (scratch && scratch->n[0] >= p->target->shared_bytes)
        schedule_refuse(p, scratch, "%s has %lld bytes of shared memory", p->target->name,
            (long long)p->target->shared_bytes);
    else if (scratch && scratch->n[0] > p->options.reserve) p->options.reserve = scratch->n[0];
    if (p->options.reserve) schedule_take(p, DECIDE_SCRATCH, 0, (int)p->options.reserve, 0);
}

void cta_size_unspecialized(Session *s, Func *f, KernelPlan *p)
{
    const Decision *ctas = schedule_asked(p, DECIDE_OCCUPANCY),
                   *programs = schedule_asked(p, DECIDE_PROGRAMS);
    if (!p->min_ctas && !ir_holds(f->body, OP_MMA_SYNC)) p->min_ctas = occupancy_wanted(s, f, p);
    if (p->options.most_ctas && !f->hints.occupancy && p->min_ctas > p->options.most_ctas)
        p->min_ctas = p->options.most_ctas;
    p->streams = !ctas && occupancy_streams(f, p);
    int least = p->options.passes ? p->options.passes->least_ctas : 0;
    if (p->streams && p->min_ctas < least) p->min_ctas = least;
    int most = p->target->sm_threads / (p->warps * p->target->wave);
    if (ctas && (ctas->n[0] < 1 || ctas->n[0] > most))
        schedule_refuse(
            p, ctas, "1 to %d CTAs of %d threads fit a multiprocessor", most, p->warps * p->target->wave);
    else if (ctas) p->min_ctas = ctas->n[0];
    if (programs && programs->form != PROGRAMS_EACH)
        schedule_refuse(p, programs, "only CTAs with roles take several programs");
    schedule_take(p, DECIDE_WARPS, 0, p->warps, 0);
    if (p->min_ctas > 0) schedule_take(p, DECIDE_OCCUPANCY, 0, p->min_ctas, 0);
}

void cta_size_begin(Session *s, Func *f, KernelPlan *p)
{
    asked_sizes(p);
    p->warps = p->options.warps ? p->options.warps : choose_warps(s, f, p);
    p->min_ctas = f->hints.occupancy;
}

/* --- tiles that are too large ------------------------------------------------------------------------ */

void cta_size_refuse_tile(
    Session *s, const Func *f, const Target *t, Loc at, const Type *tile, int64_t words, int threads)
{
    int registers = target_registers_each(t, threads);
    if (registers > t->max_registers) registers = t->max_registers;
    Diag *d = diag_error(s, at,
        "kernel %s: %s tile of %s takes %lld registers of each of %d threads; %s has %d, and at most %d are "
        "compiled for",
        f->name, dtype_name(tile->dtype), type_extents(s, tile, 0), (long long)words, threads, t->name,
        registers, CTA_SIZE_MOST_WORDS);
    diag_note(s, d, at, "make the tile smaller: %lld elements fit registers",
        (long long)registers * threads * 32 / dtype_bits(tile->dtype));
    if (f->hints.warps > 0 && (f->hints.warps + 1) * t->wave <= t->cta_threads)
        diag_note(s, d, at, "or give the program more warps: `warps = %d` asks for %d threads",
            f->hints.warps, threads);
}

typedef struct Largest {
    const Value *tile;
    int64_t elements;
} Largest;

static void larger(Largest *l, const Value *v)
{
    if (v->type->kind != TYPE_TILE || type_elements(v->type) <= l->elements || kernel_is_cheap(v)) return;
    *l = (Largest){ v, type_elements(v->type) };
}

static void largest_of(void *user, Instr *i)
{
    for (int k = 0; k < i->n_results; k++) larger(user, &i->results[k]);
}

bool cta_size_holds_tiles(Session *s, Func *f, const KernelPlan *p)
{
    Largest l = { 0 };
    int threads = p->warps * p->target->wave;
    ir_walk(f->body, largest_of, &l);
    int64_t each = (l.elements + threads - 1) / threads;
    if (each <= LAYOUT_MAX_REGS) return true;
    int64_t words = each * dtype_bits(l.tile->type->dtype) / 32;
    cta_size_refuse_tile(s, f, p->target, l.tile->def->loc, l.tile->type, words, threads);
    return false;
}
