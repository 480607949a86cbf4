/* hoist-loads: starts a load that is behind a reduction, and does not need it, before the reduction.
 *
 *   %x = load X[r, :]; %m = reduce_sum (cast %x)          %x = load X[r, :]; %w = load W[:]
 *   %d = sub (cast %x), %m                          ->    %m = reduce_sum (cast %x)
 *   %w = load W[:]                                        %x1 = opaque %x; %d = sub (cast %x1), %m
 *   store Y, (mul %d, %w)                                 store Y, (mul %d, %w)
 *
 * A reduction makes all threads of a row wait for the slowest one. A load behind it then makes each of
 * them wait for memory, with nothing else to do (bench/notes/rows.md, "Weights of a row").
 *
 * A tile that is loaded early takes registers while rows are reduced. If they do not suffice, the loaded
 * words are held over a reduction instead of values that were widened from 16 or 8 bits, and what is
 * needed of them is computed again behind it: casts, sums and products of rows and row values, a few
 * instructions an element. `opaque` keeps the compiler from holding the wide values all the same.
 *
 * Requires: NVIDIA; a program without loops or branches (programs that reduce rows in loops load ahead by
 * `latency`); a tensor that is only read; offsets that do not follow from a reduction; registers, as many
 * as the launch bounds leave. It runs after `layout`, which says how many each tile takes. Keeps:
 * everything; what is computed again is the same operation on the same values. */
#include "passes/kernel/pipeline/hoist_loads.h"

enum {
    OTHERS = 8, /* registers for addresses and row values */
    PARTS = 8,  /* registers for the parts of a sum: one for each warp, at least so many */
    AGAIN = 4,  /* operations that are worth doing twice */
    FEW_WORDS = 16,
    /* The limits of make_room (bench/notes/decisions.md, "Behind the decisions"). */
    AS_LOADED = 32,   /* words of a row that a thread holds as they were loaded */
    MOST_HELD = 64,   /* words of a row that a thread holds at most */
    MOST_PARTLY = 40, /* the same in a cluster whose tiles reach beyond the end of the row */
};

static bool silent(const Instr *i) { return hoist_silent(i); }

/* The registers of a tile's elements. */
static int words_of_tile(Hoist *c, const Value *v)
{
    if (v->type->kind != TYPE_TILE || !v->type->layout || (v->def && (silent(v->def) || kernel_kept(v->def))))
        return 0;
    int regs = (int)layout_regs(layouts_get(&c->p->layouts, v->type));
    return v->type->dtype == DT_BOOL ? regs : (regs * dtype_bytes(v->type->dtype) + 3) / 4;
}

int hoist_words(Hoist *c, const Value *v)
{
    int all = words_of_tile(c, v);
    return all && v->def && v->def->op == OP_GATHER ? hoist_gather_words(c, v->def) : all;
}

static int words(Hoist *c, const Value *v) { return hoist_words(c, v); }

/* The position of the last instruction that reads v, also through values that are not held. The marks of
 * instructions are their positions. */
static uint32_t last_read(const Value *v)
{
    uint32_t last = 0;
    for (const Use *u = v->uses; u; u = u->next) {
        uint32_t at = silent(u->user) ? last_read(ir_result(u->user)) : u->user->mark;
        if (at > last) last = at;
    }
    return last;
}

static bool crosses(const Value *v, uint32_t at) { return v->def && v->def->mark <= at && last_read(v) > at; }

static bool cheap_again(const Instr *i) { return op_has(i->op, OPF_ELEM | OPF_CHEAP); }

/* Whether v is computed by a few operations from one loaded tile of narrower elements, and otherwise from row
 * values. *leaf: that tile. */
static bool from_words(Hoist *c, Value *v, Value **leaf, int *steps)
{
    const Instr *d = v->def;
    if (v->type->kind != TYPE_TILE || !v->type->layout) return true;
    if (!d) return false;
    if (d->op == OP_LOAD || d->op == OP_OPAQUE) {
        if (words(c, v) <= SMALL && d->op == OP_LOAD) return true;
        if (dtype_bytes(v->type->dtype) > 2 || v->type->dtype == DT_BOOL || (*leaf && *leaf != v))
            return false;
        *leaf = v;
        return true;
    }
    if (silent(d)) {
        Value *x = ir_operand(d, 0);
        return x->type->kind != TYPE_TILE || words(c, x) <= SMALL;
    }
    if (words(c, v) <= SMALL) return true;
    if (!cheap_again(d) || ++*steps > AGAIN) return false;
    for (int k = 0; k < d->n_operands; k++)
        if (!from_words(c, ir_operand(d, k), leaf, steps)) return false;
    return true;
}

/* The loaded tile from which v is computed again after a reduction; NULL: v is held. */
static Value *leaf_of(Hoist *c, Value *v)
{
    Value *leaf = NULL;
    int steps = 0;
    for (const Use *u = v->uses; u; u = u->next)
        if (silent(u->user)) return NULL;
    if (!v->def || !cheap_again(v->def) || words(c, v) <= SMALL || !from_words(c, v, &leaf, &steps) || !leaf)
        return NULL;
    return words(c, leaf) < words(c, v) ? leaf : NULL;
}

/* The words that are held across a reduction, if `n` of the loads start before all of them. again: loaded
 * words are held, in place of the values computed from them. */
static int held(Hoist *c, const Instr *reduction, size_t n, bool again)
{
    int all = 0;
    for (size_t k = 0; k < n; k++)
        if (last_read(ir_result(c->loads.data[k])) > reduction->mark)
            all += words(c, ir_result(c->loads.data[k]));
    for (Instr *i = c->f->body->first; i && i != reduction; i = i->next) {
        for (int k = 0; k < i->n_results; k++) {
            Value *v = &i->results[k];
            bool here = crosses(v, reduction->mark) && !(again && leaf_of(c, v));
            /* A loaded tile is also held because of the values computed from it. */
            if (again && !here && i->op == OP_LOAD)
                for (Instr *x = i->next; x != reduction && !here; x = x->next)
                    here = x->n_results == 1 && crosses(ir_result(x), reduction->mark) &&
                           leaf_of(c, ir_result(x)) == v;
            if (here) all += words(c, v);
        }
    }
    return all;
}

/* The words of a load in flight. Elements that are loaded by accesses of less than a word take a register
 * each. */
static int under_way(Hoist *c, const Instr *load)
{
    const Value *v = ir_result(load);
    int axis, bytes = v->type->kind == TYPE_TILE ? dtype_bytes(v->type->dtype) : 4;
    if (v->type->kind != TYPE_TILE || !v->type->layout) return 1;
    if (kernel_kept(load)) return 0;
    if (load->op == OP_GATHER) return words(c, v);
    const Layout *l = layouts_get(&c->p->layouts, v->type);
    LayoutVector access = { .bytes = (uint32_t)bytes };
    kernel_unit_axis(c->f, load, &axis);
    if (axis >= 0)
        layout_vector(l, axis, (uint32_t)bytes, (uint32_t)kernel_access_bytes(c->f, load), 16, &access);
    return access.bytes < 4 ? (int)layout_regs(l) : words(c, v);
}

/* The words of the loads for which the first reduction waits: in flight, or as they are then held. */
static int first_loads(Hoist *c, bool in_flight)
{
    int all = 0;
    for (const Instr *i = c->f->body->first; i != c->reductions.data[0]; i = i->next)
        if (i->op == OP_LOAD) all += in_flight ? under_way(c, i) : words(c, ir_result(i));
    return all;
}

/* The words of the largest row that is reduced. */
static int largest_row(Hoist *c)
{
    int most = 0;
    for (size_t k = 0; k < c->reductions.len; k++) {
        int w = words(c, ir_operand(c->reductions.data[k], 0));
        if (w > most) most = w;
    }
    return most;
}

/* Registers for values that are computed again while other loads are held: of long rows the vendor's compiler
 * computes about half at once. */
static int at_once(Hoist *c, size_t n, bool again)
{
    int most = n && again ? largest_row(c) : 0;
    return most > AS_LOADED ? most / 2 : 0;
}

/* Whether what is held over each reduction has registers. */
static bool holds(Hoist *c, int budget, size_t n, bool again)
{
    int more = at_once(c, n, again) + c->others;
    for (size_t k = 0; k < c->reductions.len; k++)
        if (held(c, c->reductions.data[k], n, again) + more > budget) return false;
    return true;
}

static bool fits(Hoist *c, size_t n, bool again)
{
    int all = c->others + first_loads(c, true);
    for (size_t k = 0; k < n; k++) all += under_way(c, c->loads.data[k]);
    return all <= c->budget && holds(c, c->budget, n, again);
}

/* The position for early loads: after `last`, the last one that was moved, and before everything marked
 * `from` and later. */
typedef struct Place {
    Block *block;
    Instr *last;
    uint32_t from;
} Place;

static void move_to(Instr *i, Place *p)
{
    for (int k = 0; k < i->n_operands; k++) {
        Instr *d = ir_operand(i, k)->def;
        if (d && d->mark >= p->from) move_to(d, p);
    }
    ir_unlink(i);
    Builder b = p->last ? ir_after(p->last) : ir_before(p->block->first);
    ir_place(&b, i);
    i->mark = p->from - 1;
    p->last = i;
}

/* Computes v again, from the words that the map has in place of the loaded ones. Row values are available. */
static Value *once_more(Hoist *c, Builder *b, Value *v, ValueMap *map)
{
    Value *done = value_map_get(map, v);
    if (done != v || !v->def || !cheap_again(v->def) || words(c, v) <= SMALL) return done;
    for (int k = 0; k < v->def->n_operands; k++) once_more(c, b, ir_operand(v->def, k), map);
    Instr *copy = ir_clone(b, v->def, map);
    copy->mark = c->at;
    return ir_result(copy);
}

static void use_instead(Value *old, Value *by, uint32_t behind)
{
    for (Use *u = old->uses, *next; u; u = next) {
        next = u->next;
        if (u->user->mark <= behind) continue;
        for (int k = 0; k < u->user->n_operands; k++)
            if (&u->user->operands[k] == u) {
                ir_set_operand(u->user, k, by);
                break;
            }
    }
}

/* Computes the values that depend on loaded words again after the reduction. */
static void work_out_again(Hoist *c, Instr *reduction)
{
    ValueMap map;
    Builder b = ir_after(reduction);
    ValueList done = { 0 };
    value_map_init(&map, &c->s->arena);
    c->at = reduction->mark;
    for (Instr *i = c->f->body->first; i != reduction; i = i->next) {
        Value *v = i->n_results == 1 ? ir_result(i) : NULL,
              *leaf = v && crosses(v, c->at) ? leaf_of(c, v) : NULL;
        if (!leaf) continue;
        b.loc = i->loc;
        if (value_map_get(&map, leaf) == leaf) {
            Value *o = ir_emit(&b, OP_OPAQUE, &leaf, 1, NO_ATTRS, NULL);
            o->def->mark = c->at;
            value_map_set(&map, leaf, o);
        }
        once_more(c, &b, v, &map);
        vec_push(&c->s->arena, &done, v);
    }
    for (size_t k = 0; k < done.len; k++) use_instead(done.data[k], value_map_get(&map, done.data[k]), c->at);
}

static void number(Block *b)
{
    uint32_t n = 1;
    for (Instr *i = b->first; i; i = i->next) i->mark = n += 2;
}

/* Finds the loads after the first reduction that could come before it. */
static void find_loads(Hoist *c, const Instr *first, const Instr *place)
{
    for (Instr *i = c->f->body->first; i; i = i->next) {
        MemParts m;
        if (i->op != OP_LOAD || i->mark < first->mark || !ir_mem_parts(i, &m) ||
            m.result->type->kind != TYPE_TILE || !m.result->type->layout)
            continue;
        const Decision *d = schedule_asked_load(c->p, i);
        bool can = !m.token && c->f->params[m.param].kind == PARAM_IN;
        for (int k = 0; k < i->n_operands; k++) can = can && hoist_can_precede(ir_operand(i, k), place);
        if (d && d->form == LOAD_HOISTED && !can)
            schedule_refuse(c->p, d,
                "this load cannot stand before a reduction: its tensor is written too, or its offsets follow "
                "from the reduction");
        if (can && d && d->form == LOAD_REGISTERS) schedule_take_load(c->p, i, LOAD_REGISTERS, 0);
        else if (can && (!d || d->form == LOAD_HOISTED)) vec_push(&c->s->arena, &c->loads, i);
    }
}

/* Whether every thread holds only elements of the tile. */
static bool fills(Hoist *c, const Type *t)
{
    const Layout *l = layouts_get(&c->p->layouts, t);
    int64_t ctas = c->p->cluster > 1 ? c->p->cluster : 1;
    return (int64_t)layout_regs(l) * c->p->target->wave * c->p->warps * ctas == type_elements(t);
}

/* Whether no thread holds elements beyond the end of a row that is reduced. */
static bool whole_rows(Hoist *c)
{
    for (size_t k = 0; k < c->reductions.len; k++)
        if (!fills(c, ir_operand(c->reductions.data[k], 0)->type)) return false;
    return true;
}

int hoist_registers_at(const KernelPlan *p, int n)
{
    const Target *t = p->target;
    int all = target_registers_each(t, p->warps * t->wave * (n > 0 ? n : 1));
    return all < t->max_registers ? all : t->max_registers;
}

static int registers_at(const KernelPlan *p, int n) { return hoist_registers_at(p, n); }

/* Lowers the number of CTAs of a multiprocessor below `least` when threads hold more of a row than fits their
 * registers, and the remaining CTAs still have enough loads in flight. Rows of up to 32 elements in a thread,
 * held as they were loaded, fit 64 registers, unless threads also hold elements beyond the row's end, or two
 * rows (bench/notes/decisions.md, "Behind the decisions"). */
static void make_room(Hoist *c, Instr *first)
{
    KernelPlan *p = c->p;
    int row = 0, most = largest_row(c), tiles = 0;
    bool whole = whole_rows(c);
    for (Instr *i = c->f->body->first; i != first; i = i->next) {
        if (i->op != OP_LOAD) continue;
        /* With unaligned vectors, each access has two vectors in flight. The best number of CTAs for them is
         * not known. */
        if (kernel_may_shift(c->f, p, i) && kernel_access_bytes(c->f, i) < 16) return;
        if (under_way(c, i) > words(c, ir_result(i))) return; /* likewise by elements */
        row += words(c, ir_result(i));
        tiles += words(c, ir_result(i)) > SMALL;
    }
    for (size_t k = 0; k < c->loads.len; k++)
        if (under_way(c, c->loads.data[k]) > words(c, ir_result(c->loads.data[k]))) return;
    if (most > MOST_HELD || (!whole && c->p->cluster > 1 && most > MOST_PARTLY)) return;
    int64_t under_way = target_bytes_under_way(p->target),
            each = (int64_t)p->warps * p->target->wave * row * 4;
    /* A warp by itself meets no barrier, and the vendor's compiler moves more between its reductions: weights
     * that start early beside a row whose end is tested need a few registers more. */
    bool alone = p->warps == 1 && !whole && c->loads.len > 1;
    for (int spare = alone ? FEW_WORDS / 2 : 0; spare >= 0; spare -= FEW_WORDS / 2)
        for (int n = p->min_ctas; n >= 2 && n * each >= under_way; n--) {
            c->budget = registers_at(p, n) - spare;
            if (!fits(c, c->loads.len, false) &&
                !(whole && tiles == 1 && most <= AS_LOADED && fits(c, c->loads.len, true)))
                continue;
            p->min_ctas = n;
            return;
        }
}

/* The words of tiles that lanes exchange behind the last reduction, between barriers, beside what is held
 * over it. The last of them does not count, since its elements are used as they come. So are those of late
 * loads, and what is computed element by element. */
static int exchanged_behind(Hoist *c)
{
    int all = 0, latest = 0;
    for (Instr *i = c->reductions.data[c->reductions.len - 1]->next; i; i = i->next) {
        bool streams = i->n_results != 1 || op_is_elementwise(i->op) || i->op == OP_LOAD;
        int w = streams ? 0 : words_of_tile(c, ir_result(i));
        if (w <= SMALL) continue;
        all += w;
        latest = w;
    }
    return all - latest;
}

static bool fits_in(Hoist *c, int budget, bool again, int behind)
{
    const Instr *last = c->reductions.data[c->reductions.len - 1];
    c->budget = budget;
    return fits(c, 0, again) && (!behind || held(c, last, 0, again) + behind + c->others <= budget);
}

/* Whether n CTAs leave registers for what is held over reductions, and for `behind` words beside it behind
 * the last one. */
static bool leaves_registers(Hoist *c, int n, int behind)
{
    bool beside = c->loads.len && largest_row(c) > AS_LOADED;
    int all = registers_at(c->p, n), spare = 2 * FEW_WORDS;
    if (beside) spare = FEW_WORDS / 2;
    else if (first_loads(c, false) > AS_LOADED && !whole_rows(c)) spare = -FEW_WORDS;
    return fits_in(c, all + spare, false, behind) || (!beside && fits_in(c, all - FEW_WORDS, true, behind));
}

/* Lowers the number of CTAs where what is held over a reduction leaves words without a register: words in
 * memory cost more than loads in flight gain. The vendor's compiler finds room for a few. Where values are
 * computed again it needs some more, because it computes many at a time. Two CTAs stay, because one alone has
 * nothing to do while its warps meet; where what is held does not fit them either, the number stays. Beside
 * loads that follow the reductions there is little room: that compiler starts many of them together, and
 * words of a long row that have no register take several others to memory with them. A row that is long as
 * it is loaded, and whose end is tested, needs some words more than it has. A row that comes in many parts,
 * as an unrolled loop loads it, is never all under way at once: there only what is held counts. Tiles that
 * lanes exchange behind the reductions are held whole. */
static void avoid_spills(Hoist *c)
{
    KernelPlan *p = c->p;
    int behind = exchanged_behind(c);
    for (int n = p->min_ctas; behind && n >= 2; n--)
        if (leaves_registers(c, n, behind)) {
            p->min_ctas = n;
            return;
        }
    for (int n = p->min_ctas; n >= 2; n /= 2)
        if (leaves_registers(c, n, 0)) {
            p->min_ctas = n;
            return;
        }
    for (int n = p->min_ctas; n >= 2; n /= 2)
        if (holds(c, registers_at(p, n), 0, false) || holds(c, registers_at(p, n), 0, true)) {
            p->min_ctas = n;
            return;
        }
}

/* Finds what there is to do, and the place in front of which loads may start. False: nothing. */
static bool begin(Hoist *c, Instr **place)
{
    *c = (Hoist){ .s = c->s, .f = c->f, .p = c->p };
    for (Instr *i = c->f->body->first; i; i = i->next) {
        if (i->n_blocks || i->op == OP_BARRIER || i->op == OP_MMA_SYNC) return false;
        if (op_reduces(i->op) && ir_operand(i, 0)->type->kind == TYPE_TILE && words(c, ir_operand(i, 0)))
            vec_push(&c->s->arena, &c->reductions, i);
    }
    if (!c->reductions.len) return false;
    number(c->f->body);
    /* After the loads for which the first reduction waits, because those must come first. */
    Instr *first = c->reductions.data[0];
    *place = first;
    for (Instr *i = c->f->body->first; i != first; i = i->next)
        if (i->op == OP_LOAD) *place = i->next;
    find_loads(c, first, *place);
    c->others = OTHERS + (c->p->warps > PARTS ? c->p->warps : PARTS);
    return true;
}

/* Decides how many loads start early. *again: values are computed again. */
static size_t plan(Hoist *c, bool *again)
{
    KernelPlan *p = c->p;
    if (!c->f->hints.occupancy && p->min_ctas > 2) make_room(c, c->reductions.data[0]);
    if (!c->f->hints.occupancy && p->min_ctas > 1) avoid_spills(c);
    c->budget = registers_at(p, p->min_ctas);
    size_t n = c->loads.len;
    *again = false;
    for (; n && !fits(c, n, false); n--)
        if (fits(c, n, true)) {
            *again = true;
            break;
        }
    if (!c->loads.len) *again = p->min_ctas > 0 && !fits(c, 0, false) && fits(c, 0, true);
    return n;
}

/* Adds gathers that start early too, as many as have registers, where all loads do. Nothing is computed again
 * for them. */
static size_t with_gathers(Hoist *c, const Instr *place, size_t n, bool again)
{
    if (n < c->loads.len) return n;
    hoist_find_gathers(c, c->reductions.data[0], place, &c->loads);
    size_t all = c->loads.len;
    c->budget -= FEW_WORDS / 2; /* for addresses of gathers, and their tests */
    while (all > n && !fits(c, all, again)) all--;
    for (size_t k = n; k < all; k++) hoist_choose_late(c, c->loads.data[k]);
    return all;
}

/* Returns whether a load was moved, or a value is computed again. */
static bool hoist(Session *s, Func *f, KernelPlan *p)
{
    Hoist c = { .s = s, .f = f, .p = p };
    Instr *place;
    bool again;
    if (!begin(&c, &place)) return false;
    size_t n = plan(&c, &again);
    int beside = 0;
    for (size_t k = 0; n < c.loads.len && k < c.loads.len && largest_row(&c) > AS_LOADED; k++)
        beside += words(&c, ir_result(c.loads.data[k]));
    if (hoist_keep_rows(&c, beside, holds(&c, c.budget, 0, false) || holds(&c, c.budget, 0, true)))
        return true;
    for (size_t k = 0; k < c.loads.len; k++) {
        const Decision *d = schedule_asked_load(p, c.loads.data[k]);
        if (k >= n && d)
            schedule_refuse(p, d,
                "registers do not last for this tile while rows are reduced: a thread has %d", c.budget);
        else if (k >= n)
            diag_perf(s, c.loads.data[k]->loc,
                "this load waits behind a reduction that it does not need: a thread has %d registers, and "
                "its tile does not fit beside what is reduced",
                c.budget);
        else schedule_take_load(p, c.loads.data[k], LOAD_HOISTED, 0);
    }
    n = with_gathers(&c, place, n, again);
    Place to = { f->body, place->prev, place->mark };
    for (size_t k = 0; k < n; k++) move_to(c.loads.data[k], &to);
    if (!again) return n > 0;
    number(f->body);
    for (size_t k = 0; k < c.reductions.len; k++) work_out_again(&c, c.reductions.data[k]);
    ir_sweep(f->body);
    return true;
}

bool kernel_pass_hoist_loads(KernelContext *c) { return !c->specialized && hoist(c->s, c->f, c->p); }
