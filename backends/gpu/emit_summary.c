/* emit_summary.c: the head of an emission: what was derived, for whoever reads the text below it. */
#include "backends/gpu/emit.h"

void note_shared(Emit *e, const Instr *alloc, int64_t offset, int64_t bytes)
{
    const Value *v = ir_result(alloc);
    vec_push(&e->s->arena, &e->shared_map,
        ((SharedUse){ v->name ? v->name : "buffer", v->type, offset, bytes, alloc->loc }));
}

/* The registers that the launch bounds leave to a thread. */
int registers_at_most(const KernelPlan *p, int threads)
{
    int ctas = p->min_ctas > 0 ? p->min_ctas : 1,
        n = p->target->kind == TARGET_CUDA ? target_registers_each(p->target, threads * ctas) : 0;
    return n > p->target->max_registers || n <= 0 ? p->target->max_registers : n;
}

/* The type as "f16[128, 64]", without the axis that counts stages. */
static void print_tile(const Type *t, Text *out)
{
    text_printf(out, "%s[", dtype_name(t->dtype));
    for (int a = 1; a < t->rank; a++) text_printf(out, "%s%lld", a > 1 ? ", " : "", (long long)t->shape[a]);
    text_puts(out, "]");
}

static void print_map(const Emit *e, int64_t scratch_at, int64_t all, Text *t)
{
    text_printf(
        t, " * shared memory: %lld of %lld bytes\n", (long long)all, (long long)e->target->shared_bytes);
    for (size_t k = 0; k < e->shared_map.len; k++) {
        const SharedUse *u = &e->shared_map.data[k];
        text_printf(
            t, " *   %6lld  %-12s %lld x ", (long long)u->offset, u->name, (long long)u->type->shape[0]);
        print_tile(u->type, t);
        text_printf(t, ", %lld bytes\n", (long long)u->bytes);
    }
    if (e->rings.len)
        text_printf(t, " *   behind them the mbarriers of the rings, a full and an empty one a stage\n");
    if (e->scratch_bytes)
        text_printf(t, " *   %6lld  scratch for conversions and reductions, %lld bytes\n",
            (long long)scratch_at, (long long)e->scratch_bytes);
}

/* A window: the tensor, and the extents of the axes that the tile has. */
typedef struct TileNote {
    const char *tensor;
    int rank;
    int64_t extent[TILE_MAX_RANK];
} TileNote;

typedef struct Tiles {
    Emit *e;
    VEC(TileNote) in, out; /* the windows that are read and written, each once */
} Tiles;

static bool same_note(const TileNote *a, const TileNote *b)
{
    return a->tensor == b->tensor && a->rank == b->rank &&
           !memcmp(a->extent, b->extent, (size_t)a->rank * sizeof *a->extent);
}

static void note_tile(void *user, Instr *i)
{
    Tiles *t = user;
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    MemParts m;
    bool put = i->op == OP_STORE, copy = kernel_copies(i->op);
    if (!e || (!copy && !ir_mem_parts(i, &m))) return;
    Arena *arena = &t->e->s->arena;
    TileNote one = { .tensor = t->e->f->params[copy ? ir_operand(i, 1)->index : m.param].name };
    for (int a = 0; a < e->n; a++)
        if (e->v[a] != -1) one.extent[one.rank++] = e->v[a];
    if (!one.rank) return;
    size_t n = put ? t->out.len : t->in.len;
    for (size_t k = 0; k < n; k++)
        if (same_note(put ? &t->out.data[k] : &t->in.data[k], &one)) return;
    if (put) vec_push(arena, &t->out, one);
    else vec_push(arena, &t->in, one);
}

/* "K [128, 64]" */
static void print_note(const TileNote *x, const char *before, Text *t)
{
    text_printf(t, "%s%s [", before, x->tensor);
    for (int a = 0; a < x->rank; a++) text_printf(t, "%s%lld", a ? ", " : "", (long long)x->extent[a]);
    text_puts(t, "]");
}

static void print_tiles(Emit *e, Text *t)
{
    Tiles x = { .e = e };
    ir_walk(e->f->body, note_tile, &x);
    if (!x.in.len && !x.out.len) return;
    text_puts(t, " * tiles: ");
    for (size_t k = 0; k < x.in.len; k++) print_note(&x.in.data[k], k ? ", " : "reads ", t);
    if (x.in.len && x.out.len) text_puts(t, "; ");
    for (size_t k = 0; k < x.out.len; k++) print_note(&x.out.data[k], k ? ", " : "writes ", t);
    text_puts(t, "\n");
}

/* The matrix instructions that the text calls, by the names of their prelude functions. */
static void print_products(const Emit *e, Text *t)
{
    for (size_t k = 0; k < e->products.len; k++)
        text_printf(t, "%s%s", k ? ", " : " * products: ", e->products.data[k]);
    if (e->products.len) text_puts(t, "\n");
}

/* Names with commas between them. */
static void list(Text *names, const char *name) { text_printf(names, "%s%s", names->len ? ", " : "", name); }

/* Adds what holds for the names, if there are some, behind what was said before. */
static void say(Text *all, const char *between, const Text *names, const char *holds)
{
    if (names->len) text_printf(all, "%s%s%s", all->len ? between : "", names->data, holds);
}

static bool has_dense_rows(const Param *p)
{
    const int rank = p->type->rank;
    bool dense = rank > 0 && p->stride[rank - 1] == 1;
    for (int a = 0; a + 1 < rank; a++)
        dense &= p->stride[a] >= 0 || p->stride_div[a] * dtype_bytes(p->type->dtype) >= 16;
    return dense;
}

/* The facts that a launch must have checked before it uses this code (the runtime's key, a bundle's
 * promises). */
static void print_assumptions(const Emit *e, Text *t)
{
    const Func *f = e->f;
    Text rows, dims, signs, small, all, *const texts[] = { &rows, &dims, &signs, &small, &all };
    int aligned = 0, tensors = 0;
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) text_init(texts[k], &e->s->arena);
    for (int k = 0; k < f->n_params; k++) {
        const Param *p = &f->params[k];
        if (p->kind == PARAM_SCALAR) {
            if (p->lo > 0 && dtype_is_float(p->type->dtype)) list(&signs, p->name);
            if (p->lo == 0 && p->hi == FITS32_EXTENT - 1) list(&small, p->name);
            continue;
        }
        tensors++;
        aligned += p->align >= 16;
        if (has_dense_rows(p)) list(&rows, p->name);
    }
    for (int d = 0; d < f->n_dims; d++)
        if (f->dims[d].extent < 0 && f->dims[d].div >= 16 && f->dims[d].name) list(&dims, f->dims[d].name);
    if (tensors && aligned == tensors) text_puts(&all, "addresses at multiples of 16 bytes");
    say(&all, ", ", &rows, " with last stride 1 and rows at multiples of 16 bytes");
    say(&all, "; ", &dims, " multiples of 16");
    say(&all, "; ", &signs, " above 0");
    say(&all, "; ", &small, " from 0 to 2^28 - 1");
    if (f->fits32) text_printf(&all, "%sextents from 1 to 2^28 - 1", all.len ? "; " : "");
    text_printf(t, " * assumes: %s\n", all.len ? all.data : "nothing of its arguments");
}

void emit_summary(Emit *e, int64_t scratch_at, int64_t all, Text *t)
{
    const Func *f = e->f;
    const KernelPlan *p = e->plan;
    int wave = e->target->wave, threads = kernel_cta_warps(p) * wave;
    text_printf(t, "/* %s%s%s%s for %s\n", f->name, *f->spec ? " (" : "", f->spec, *f->spec ? ")" : "",
        e->target->name);
    text_printf(t, " * programs: %s\n",
        p->resident
            ? arena_printf(&e->s->arena, "%d CTAs of a multiprocessor take one after the other", p->resident)
        : p->persistent
            ? "persistent: as many CTAs as fit take one after the other, by the dynamic tile scheduler"
        : p->clusters > 1
            ? arena_printf(&e->s->arena, "one for %d clusters, whose sums meet in the workspace", p->clusters)
        : p->cluster > 1 ? "one a cluster"
        : p->abreast > 1 ? arena_printf(&e->s->arena, "one a warp, up to %d of which share a CTA", p->abreast)
                         : "one a CTA");
    if (p->cluster > 1 && !p->split_k)
        text_printf(t,
            " * cluster: %d CTAs, each with a part of the row; partial results meet in distributed shared "
            "memory\n",
            p->cluster);
    if (p->multicast)
        text_printf(t,
            " * cluster: %d CTAs, programs side by side along grid axis %d, which take their programs "
            "together and load "
            "together\n",
            p->multicast, p->multicast_axis);
    text_printf(t, " * threads: %d", threads);
    if (p->cp_async_warps)
        text_printf(t,
            ": %d producers, which start copies, and %d cp.async producers (%d registers), %d consumers (%d "
            "registers)\n",
            p->producer_warps * wave, p->cp_async_warps * wave, p->cp_async_registers, p->warps * wave,
            p->consumer_registers);
    else if (p->producer_warps)
        text_printf(t, ": %d producers, which start copies (%d registers), %d consumers (%d registers)\n",
            p->producer_warps * wave, p->producer_registers, p->warps * wave, p->consumer_registers);
    else text_printf(t, ", at most %d registers each\n", registers_at_most(p, threads));
    print_assumptions(e, t);
    print_tiles(e, t);
    print_products(e, t);
    if (all) print_map(e, scratch_at, all, t);
    for (const char *schedule = p->schedule ? p->schedule : ""; *schedule;) {
        schedule += strspn(schedule, " ");
        int n = (int)strcspn(schedule, "\n");
        if (n) text_printf(t, " * %.*s\n", n, schedule);
        schedule += n;
        schedule += *schedule == '\n';
    }
    text_puts(t, " */\n");
}
