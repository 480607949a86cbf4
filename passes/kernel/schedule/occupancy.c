/* occupancy.c: see occupancy.h. */
#include "passes/kernel/schedule/occupancy.h"
#include "passes/kernel/layout/windows.h"
#include "passes/kernel/schedule/live.h"

enum { SHIFTED = 3 }; /* a load that shifts unaligned vectors holds so much more */

typedef struct Loops {
    const Func *f;
    const KernelPlan *p;
    int64_t bytes;           /* of the values that loops carry and of what an iteration loads, all threads */
    int64_t loaded, reduced; /* bytes of the largest tile that is loaded, and of the largest one reduced */
    bool product;
} Loops;

static int64_t bytes_of(const Type *t)
{ return t->kind == TYPE_TILE ? type_elements(t) * dtype_bytes(t->dtype) : 0; }

static bool reduces_tile(const Instr *i)
{ return op_reduces(i->op) && ir_operand(i, 0)->type->kind == TYPE_TILE; }

static void most(int64_t *of, int64_t x)
{
    if (x > *of) *of = x;
}

static void look_into(void *user, Instr *i)
{
    Loops *x = user;
    x->product |= i->op == OP_MMA || i->op == OP_MMA_SYNC;
    if (reduces_tile(i)) most(&x->reduced, bytes_of(ir_operand(i, 0)->type));
    if (i->op == OP_LOAD) most(&x->loaded, bytes_of(ir_result(i)->type));
    if (i->op == OP_LOAD && kernel_may_shift(x->f, x->p, i) && kernel_access_bytes(x->f, i) < 16)
        x->bytes += SHIFTED * bytes_of(ir_result(i)->type);
    for (int k = 0; k < i->n_results && (i->op == OP_FOR || i->op == OP_WHILE || i->op == OP_LOAD); k++)
        x->bytes += bytes_of(i->results[k].type);
}

/* The threads of a multiprocessor to which the loops' carried values and loads leave half of the registers;
 * 0: to 512 they do not, or there are products. *rows: a loop reduces rows as it loads them. */
static int threads_of_loops(const Func *f, const KernelPlan *p, bool *rows)
{
    enum { MOST = 1024, LEAST = 512 };
    int64_t bytes = 0, all = (int64_t)p->target->sm_registers * 4;
    bool product = false;
    for (Instr *i = f->body->first; i; i = i->next) {
        if (i->op != OP_FOR && i->op != OP_WHILE) continue;
        Loops x = { .f = f, .p = p };
        look_into(&x, i);
        for (int k = 0; k < i->n_blocks; k++) ir_walk(i->blocks[k], look_into, &x);
        most(&bytes, x.bytes);
        product |= x.product;
        *rows |= x.reduced > 0 && x.reduced <= x.loaded;
    }
    int64_t each = bytes / (p->warps * p->target->wave);
    int n = MOST;
    while (n >= LEAST && each * n > all / 2) n /= 2;
    return product || n < LEAST ? 0 : n;
}

/* The bytes of a value in registers. A window with steps is made of vectors with what lies between. */
static int64_t held_bytes(void *user, const Value *v)
{
    (void)user;
    const Attr *steps = v->def && v->def->op == OP_LOAD ? ir_attr(v->def, ATTR_STEPS) : NULL;
    int64_t bytes = kernel_is_cheap(v) ? 0 : bytes_of(v->type);
    for (int k = 0; steps && k < steps->n; k++) bytes *= steps->v[k] > 1 ? steps->v[k] : 1;
    return bytes;
}

static void note_in_use(void *user, const Instr *i, int64_t in_use)
{
    (void)i;
    most(user, in_use);
}

/* Whether the windows of two loads overlap along an axis that is not contiguous. */
static bool overlap(const Func *f, const Instr *a, const Instr *b)
{
    MemParts m;
    int unit, axis;
    if (!ir_mem_parts(a, &m)) return false;
    kernel_unit_axis(f, a, &unit);
    for (int k = 0; k < m.rank; k++) {
        int64_t apart = window_apart(a, b, k);
        if (apart && window_tile_axis(a, k, &axis) && axis != unit && apart < m.result->type->shape[axis])
            return true;
    }
    return false;
}

typedef struct Windows {
    const Func *f;
    const Instr **first; /* by parameter: its first load of a tile in the block */
    bool overlap;
} Windows;

static void find_windows(void *user, Instr *i)
{
    Windows *w = user;
    MemParts m;
    if (i->op != OP_LOAD || ir_result(i)->type->kind != TYPE_TILE || !ir_mem_parts(i, &m)) return;
    const Instr **first = &w->first[m.param];
    if (*first && (*first)->block == i->block) w->overlap |= overlap(w->f, *first, i);
    else *first = i;
}

bool occupancy_has_windows(Session *s, const Func *f)
{
    Windows w = { .f = f, .first = arena_array(&s->arena, const Instr *, (size_t)f->n_params) };
    ir_walk(f->body, find_windows, &w);
    return w.overlap;
}

/* The threads of a multiprocessor whose registers have room for the tiles of a stencil; 0: of 512 they do
 * not. In the order of the text more is in use at once than the vendor's compiler needs for elements one
 * after the other, which leaves room for addresses. */
static int threads_of_windows(Session *s, const Func *f, const KernelPlan *p)
{
    enum { MOST = 1024, LEAST = 512 };
    int64_t bytes = 0;
    live_count(&s->arena, f, &(LiveCount){ held_bytes, note_in_use, &bytes });
    int64_t each = bytes / (p->warps * p->target->wave);
    int n = MOST;
    while (n >= LEAST && each * n > (int64_t)p->target->sm_registers * 4) n /= 2;
    return n < LEAST ? 0 : n;
}

int64_t occupancy_large_records(const Target *target, const Instr *concat)
{
    enum { LARGE = 32, LARGEST = 64, HALVES = 2 }; /* elements: their arithmetic outweighs their accesses */
    const Type *t = concat->op == OP_CONCAT ? ir_result(concat)->type : NULL;
    int axis = (int)ir_attr_int(concat, ATTR_AXIS, 0);
    int64_t records = 1, elements = 1;
    if (!t || t->kind != TYPE_TILE || concat->n_operands != t->shape[axis] || concat->n_operands == HALVES)
        return 0;
    for (int a = 0; a < t->rank; a++) *(a < axis ? &records : &elements) *= t->shape[a];
    return elements >= LARGE && elements <= LARGEST && records >= target->wave ? records : 0;
}

static bool joins_large_records(const void *user, const Instr *i)
{ return occupancy_large_records(user, i) > 0; }

/* Programs that reduce rows wait for memory and then for each other, in each step of a loop too. With 1024
 * threads on a multiprocessor, other programs fill the gap; loops that carry and load more than fits half of
 * their registers have 512, and of more than that none. Without bounds, the compiler gives each thread as
 * many registers as it can use, and fewer CTAs fit: often not all of a launch at once, so that a few run
 * behind the others. The same holds for CTAs of 16 warps, and for programs without a reduction in which a few
 * loads use unaligned vectors (bench/notes/decisions.md, "Behind the decisions"), or windows overlap, as
 * those of stencils: the compiler issues all of their loads first, so that programs of one phase would wait
 * for memory together. Records of many elements take half of a thread's registers, before and after they are
 * transformed; the compiler would give it all that there are, for many divisions at once, say. */
int occupancy_wanted(Session *s, const Func *f, const KernelPlan *p)
{
    enum { THREADS = 1024, RECORD_THREADS = 512, MOST_WARPS = 16, FEW = 4 };
    bool reduces = false, loops = false;
    int shifted = 0, by_element, threads = THREADS;
    /* Resident CTAs are a power of two, like the number of threads of a CTA. */
    int most_ctas = 1;
    while (2 * most_ctas <= p->target->sm_ctas) most_ctas *= 2;
    if (p->target->kind != TARGET_CUDA || p->warps > MOST_WARPS) return 0;
    for (const Instr *i = f->body->first; i; i = i->next) {
        reduces |= reduces_tile(i);
        loops |= i->op == OP_FOR || i->op == OP_WHILE;
        shifted += i->op == OP_LOAD && kernel_may_shift(f, p, i) && kernel_access_bytes(f, i) < 16 &&
                   !kernel_slides(f, p, i) && kernel_shift_cost(f, p, i, 1, 16, &by_element) < by_element;
    }
    reduces |= shifted > 0 && shifted <= FEW;
    if (loops) threads = threads_of_loops(f, p, &reduces);
    else if (!reduces && occupancy_has_windows(s, f)) reduces = (threads = threads_of_windows(s, f, p)) > 0;
    if (!reduces && !loops && ir_any_in(f->body, joins_large_records, p->target)) {
        threads = RECORD_THREADS;
        reduces = true;
    }
    int n = threads / (p->warps * p->target->wave);
    return !reduces ? 0 : n < most_ctas ? n : most_ctas;
}

typedef struct Once {
    bool loads, loops, reduces, products; /* of tiles */
} Once;

/* Looks into blocks, but not into those that hardly ever run, as that of a pack of programs which is not
 * full. */
static void find_once(const Block *block, Once *o)
{
    for (const Instr *i = block->first; i; i = i->next) {
        o->loads |= i->op == OP_LOAD && ir_result(i)->type->kind == TYPE_TILE;
        o->loops |= i->op == OP_FOR || i->op == OP_WHILE;
        o->products |= i->op == OP_MMA || i->op == OP_MMA_SYNC;
        o->reduces |= reduces_tile(i);
        for (int k = 0; k < i->n_blocks && !(k && ir_attr_int(i, ATTR_RARE, 0)); k++)
            find_once(i->blocks[k], o);
    }
}

bool occupancy_streams(const Func *f, const KernelPlan *p)
{
    Once o = { 0 };
    if (p->target->kind != TARGET_CUDA || f->hints.occupancy) return false;
    find_once(f->body, &o);
    /* Rows that are reduced without a product have launch bounds already (occupancy_wanted). */
    return o.loads && !o.loops && (!o.reduces || o.products);
}
