/* pack: lets one CTA do several neighbouring programs, when a program is small.
 *
 *   grid { yield %m }                                          grid { yield cdiv %m, 32 }
 *   %r = program_id                                            %r = mul program_id, 32
 *   %x = load %X[%r, 0] {extents = [-1, 128]}           ->     %x = load %X[%r, 0] {extents = [32, 128]}
 *   %s = reduce_sum %x {axis = 0} : f32[1]                     %s = reduce_sum %x {axis = 1} : f32[32, 1]
 *   %y = mul %x, broadcast %s                                  %y = mul %x, broadcast %s
 *   store %Y[%r, 0] = %y {extents = [-1, 128]}                 store %Y[%r, 0] = %y {extents = [32, 128]}
 *
 * A multiprocessor holds a limited number of CTAs (32), so that small programs have too few bytes in flight
 * to keep memory busy, and cannot fill their warps with vectors of 16 bytes; bench/notes/decisions.md has
 * measurements. What differs between programs gets an axis in front, the programs (pack_rewrite.c). What does
 * not (weights, angles) is computed once for all of them; long functions that programs along one axis share
 * decide for that axis. Windows that lie side by side become one (pack_access.c).
 * If the number of programs is not known to be a multiple, and stores of programs past the last one are not
 * dropped anyway, the programs behind the last whole pack run one by one in a loop (pack_tail.c).
 *
 * Requires: pack_varies.c proves that running programs in step keeps their meaning. It runs before index
 * arithmetic is narrowed and masks are settled. Keeps: every element, except that a reduction may join a
 * program's elements in another order. Does not handle: products, prints, assertions (`--check` has some in
 * most kernels, and the message names the program), atomics that order memory, loops whose beginnings or
 * steps differ between programs, stores and loops of other lengths under a condition that differs; kernels
 * with hints for a cluster, a placement (remap) or a written schedule, which are about programs as they are.
 * Without the hint `pack` it leaves alone: AMD, where nothing was measured; CPUs, whose programs follow each
 * other without a cost; programs with loops, unless all their lengths differ; tiles that it would gather. */
#include "passes/tile/program/pack.h"
#include "ir/layout/layout.h"

enum {
    /* bench/notes/decisions.md, "Behind the decisions", has the measurements. */
    MOST_BYTES = 1600,  /* of a program: with more, CTAs of one warp have enough loads in flight */
    MOST_LOADED = 3200, /* the same of all that a program loads */
    FULL_ELEMS = 800,   /* of a program: more keep the lanes of a warp busy */
    FULL_BESIDE = 900,  /* the same with half of its weights, where rows begin anywhere */
    LANE_BYTES = 64,    /* of the programs that a lane holds; half of it when vectors have 8 bytes */
    LANE_ELEMS = 32,    /* elements of the programs that a lane holds */
    MOST_ELEMS = 48,    /* the same when more elements give each warp whole programs, which saves a barrier */
    SCAN_ELEMS = 12,    /* the same of scans that take rows to runs of other lanes and back */
    SCAN_RUN = 4,       /* elements of an access from which on they do not (kernel_scan_layout) */
    PIECE_ELEMS = 36,   /* the same of rows that begin anywhere, as far as packs begin at vectors */
    PIECE_BYTES = 16384, /* of all programs of such a pack (row_block.c) */
    PIECE_PROGRAMS = 32, /* up to which doubling them was faster */
    MOST_HELD = 56,      /* the same with those of weights, where packs are to begin at vectors */
    FEW_BYTES = 512,     /* smaller programs gain even if warps share programs */
    LONG_GRID = 16,      /* packs, beside which a last one of single programs takes little time */
    FEW_PAST = 8,        /* a program past the last one may stand beside so many that are */
    FEW_PROGRAMS = 32,   /* along an axis: the launch says how many there are at most (launch_facts_most) */
    WARPS = 4,
    FEW_WARPS = 2,        /* of a pack of whole vectors: CTAs of fewer warps make room earlier as they end */
    MOST_OVERLAPPING = 4, /* of programs whose windows overlap */
    SINGLES = 2,          /* from which on one warp takes neighbouring programs */
    LANES = 32,
    STEP_ELEMS = 4,      /* of a lane in a step of loops whose lengths differ */
    LEAST_WORK = 10,     /* of an operation that is worth sharing, as ops.def counts */
    WORK_PER_ELEM = 16,  /* of a program, which programs of a pack share */
    WORK_PER_BYTE = 8,   /* as long as a byte from memory */
    MOST_SHARING = 2048, /* elements of a program that shares work */
};

/* What a program moves. */
typedef struct Size {
    int64_t bytes;  /* of the widest tile that it loads or stores */
    int elem_bytes; /* of that tile */
    int64_t elems;  /* of the largest tile that it holds */
    int64_t loaded; /* bytes of all tiles that it loads */
    int64_t beside; /* elements of tiles that it loads and others too */
    int64_t shared; /* work on tiles that are the same for all programs of a pack */
    int singles;    /* loads of one element of each program */
    bool loops, scans;
    bool pieces; /* gathers of positions that lie side by side, of which other passes know more */
} Size;

typedef struct Choice {
    PassContext *c;
    Func *f;
    Pack p; /* of the axis that is looked at */
    Size size;
    Facts *facts;  /* while a program is measured, from the first question on */
    bool *differs; /* by value: whether it is not the same for all programs; NULL: not asked any more */
    int64_t asked; /* programs of a pack, by the hint; 0: not given */
    int warps;
} Choice;

static int64_t elements(const Value *v) { return is_tile(v) ? type_elements(v->type) : 1; }

/* Whether a tile of indices counts the positions of an axis. */
static bool counts_positions(Choice *x, Value *v)
{
    Affine form;
    if (!is_tile(v)) return false;
    if (!x->facts) x->facts = facts_new(x->c->scratch, x->f);
    if (!affine_of(x->facts, v, &form)) return false;
    for (int a = 0; a < v->type->rank; a++)
        if (form.lane[a]) return true;
    return false;
}

/* The work of an operation that takes long and is done once for all programs of a pack, but not for all
 * programs. */
static int64_t shared_work(const Choice *x, const Instr *i)
{
    int cost = op_info[i->op].cost;
    const Value *v = i->n_results == 1 ? ir_result(i) : NULL;
    if (!x->differs || !v || !is_tile(v) || cost < LEAST_WORK || !dtype_is_float(v->type->dtype)) return 0;
    return v->id >= x->p.values || !x->differs[v->id] || x->p.varies[v->id] ? 0 : elements(v) * cost;
}

static void measure(void *choice, Instr *i)
{
    Choice *x = choice;
    Size *s = &x->size;
    MemParts m;
    const int64_t components = pack_components(i);
    s->loops |= is_loop(i);
    s->scans |= op_family(i->op) == OPS_SCAN || i->op == OP_SCAN;
    for (int k = 0; k < i->n_results; k++)
        if (pack_is_varying(&x->p, &i->results[k]) && elements(&i->results[k]) * components > s->elems)
            s->elems = elements(&i->results[k]) * components;
    s->shared += shared_work(x, i);
    if (!ir_mem_parts(i, &m)) return;
    bool varies = false;
    for (int a = 0; a < m.rank; a++) varies |= pack_is_varying(&x->p, m.idx[a]);
    const Value *v = m.result ? m.result : m.values[0];
    int64_t bytes = elements(v) * dtype_bytes(v->type->dtype);
    if (!varies && m.result) s->beside += elements(v);
    if (!varies) return;
    if (m.result) s->loaded += bytes;
    s->singles += i->op == OP_LOAD && elements(v) == 1;
    for (int a = 0; a < m.rank && i->op != OP_LOAD && i->op != OP_STORE; a++)
        s->pieces |= counts_positions(x, m.idx[a]);
    if (bytes <= s->bytes || (i->op != OP_LOAD && i->op != OP_STORE)) return;
    s->bytes = bytes;
    s->elem_bytes = dtype_bytes(v->type->dtype);
}

/* Whether warps would share programs, in the layout of tiles that are read in vectors. */
static bool shared_programs(const Choice *x, int64_t n)
{
    int32_t tile[2] = { (int32_t)n, (int32_t)(x->size.bytes / x->size.elem_bytes) }, order[2] = { 1, 0 },
            at[TILE_MAX_RANK];
    const Layout *l =
        layout_coalesced(x->c->scratch, 2, tile, order, x->size.elem_bytes, 16, LANES, x->warps);
    for (int w = 1; l && w < x->warps; w *= 2) {
        layout_element(l, 0, 0, (uint32_t)w, 0, at);
        if (at[1]) return true;
    }
    return false;
}

/* Whether lanes have room for n programs whose rows go through shared memory, and for weights beside them. */
static bool room_for(const Choice *x, int64_t n)
{
    int64_t elems = n * x->size.elems + x->warps * x->size.beside;
    return n * x->size.bytes <= PIECE_BYTES && elems <= (int64_t)x->warps * LANES * MOST_HELD;
}

/* Whether a lane has other columns in one row of a pack than in the next, so that it takes elements of
 * several weights from other lanes (bench/notes/short_rows.md, "Packs of two rows"). */
static bool moves_columns(const Size *s)
{
    int64_t vectors = s->bytes / (s->bytes % 16 ? 8 : 16);
    return s->beside > s->elems && vectors % LANES && LANES % vectors;
}

/* The programs of a CTA each of whose warps has whole rows, of several accesses of a lane for each, as far as
 * lanes have room for them. 0: their layout is another one (of_whole_rows in kernel/layout/blocks.c). */
static int64_t whole_rows(const Choice *x)
{
    const Size *s = &x->size;
    int64_t places, n = x->warps;
    int widest = s->bytes % 16 ? 8 : 16;
    if (s->elem_bytes > 2 || s->bytes % 8 || s->bytes % (LANES * widest) == 0) return 0;
    int width = layout_row_access(s->bytes / s->elem_bytes, s->elem_bytes, widest, LANES, &places);
    if (!width || places <= LANES) return 0;
    const int most = s->scans && width < SCAN_RUN * s->elem_bytes ? SCAN_ELEMS : MOST_ELEMS;
    while (2 * n * places * width <= (int64_t)x->warps * LANES * most * s->elem_bytes) n *= 2;
    return n;
}

/* The number of programs that fill the lanes of a CTA. */
static int64_t fill(const Choice *x)
{
    const Size *s = &x->size;
    int64_t rows = whole_rows(x);
    if (rows) return rows;
    int64_t lanes = (int64_t)x->warps * LANES, n = 1, few, piece = 1;
    int64_t bytes = lanes * (s->bytes % 16 == 8 ? LANE_BYTES / 2 : LANE_BYTES);
    while (n * 2 * s->bytes <= bytes && n * 2 * s->elems <= lanes * LANE_ELEMS) n *= 2;
    few = n;
    bool whole = s->bytes % 16 != 0; /* such tiles have another layout, in which a warp has whole ones */
    /* Packs of odd tiles that begin at vectors go through shared memory as one piece (row_block.c). */
    while (piece * s->bytes % 16) piece *= 2;
    if (piece > n && piece * s->elems <= lanes * MOST_ELEMS && room_for(x, piece)) n = piece;
    while (
        s->bytes % 8 && n < PIECE_PROGRAMS && n * 2 * s->elems <= lanes * PIECE_ELEMS && room_for(x, n * 2))
        n *= 2;
    while (!(whole = whole || !shared_programs(x, n)) && n * 2 * s->elems <= lanes * MOST_ELEMS) n *= 2;
    if (n == 2 && x->warps == 1 && moves_columns(s)) return 4 * s->elems <= lanes * MOST_ELEMS ? 4 : 1;
    return whole ? n : s->bytes < FEW_BYTES ? few : 1; /* else they are too long to share */
}

/* --- one axis ------------------------------------------------------------------------------------------ */

static Instr *coordinate(const Func *f, int axis)
{
    for (Instr *i = f->body->first; i; i = i->next)
        if (i->op == OP_PROGRAM_ID && ir_attr_int(i, ATTR_AXIS, 0) == axis) return i;
    return NULL;
}

/* Rewrites the body. `guard`: programs behind the last whole pack run one by one. */
static bool apply(Pack *p, bool guard)
{
    Instr *id = coordinate(p->f, p->axis);
    Value *whole = NULL;
    bool others = pack_one_coordinate(p, id);
    if (others || guard || pack_counts_programs(p)) {
        ir_unlink(id);
        Builder front = ir_before(p->f->body->first); /* not `id` itself */
        ir_place(&front, id);
    }
    Builder b = ir_after(id);
    p->forms = arena_array(p->c->scratch, PackForm, p->values);
    p->ranges = ranges_new(p->f);
    p->dead = (InstrList){ 0 };
    p->indexed = p->chosen = p->along = 0;
    p->guard = NULL;
    value_map_init(&p->map, p->c->scratch);
    p->base = ir_op(&b, OP_MUL, NULL, NO_ATTRS, ir_result(id), ir_index(&b, p->n));
    if (guard || pack_counts_programs(p)) {
        p->programs = extent_emit(&b, ir_operand(ir_terminator(p->f->grid), p->axis));
        pack_keep_counts(p);
    }
    if (guard) {
        whole = ir_bin(&b, OP_LE, ir_bin(&b, OP_ADD, p->base, ir_index(&b, p->n)), p->programs);
        if (!pack_tail_begin(p, whole)) return false;
    }
    pack_rewrite(p);
    if (guard) pack_tail_end(p, whole);
    ir_sweep(p->f->body);
    return true;
}

/* Whether the last pack, which is incomplete or has programs past the last one, is a small part of all packs.
 * True where the number of programs is not known. Of few programs the launch promises the largest number
 * (launch_facts_most), which then counts. guard: the programs of the last pack run one by one. */
static bool few_behind(const Choice *x, RangeInfo programs, bool guard)
{
    int64_t n = x->p.n, most = programs.hi, last = most % n;
    bool known = programs.lo == most || most <= FEW_PROGRAMS;
    if (x->asked || !known || last == 0) return true;
    return guard ? most / n >= LONG_GRID : (n - last) * FEW_PAST <= most;
}

/* Packs n programs along the axis of x->p if that gives windows; false: nothing has changed. */
static bool pack(Choice *x, int64_t n)
{
    Pack *p = &x->p;
    p->n = n;
    RangeInfo programs = range_of(ranges_new(x->f), ir_operand(ir_terminator(x->f->grid), p->axis));
    bool whole = programs.div % n == 0, guard = !whole && !pack_drops_tail(p);
    p->beyond = !whole && !guard;
    if (!few_behind(x, programs, guard)) return false;
    SavedBody saved = ir_body_save(x->f);
    bool any = x->asked || pack_has_unlike_loops(p);
    bool done = apply(p, guard) && (any || pack_of_windows(p, x->size.bytes));
    if (!done) ir_body_restore(x->f, &saved);
    return done;
}

static bool look_at(Choice *x, int axis)
{
    const Instr *id = coordinate(x->f, axis);
    x->p = (Pack){ .c = x->c, .f = x->f, .axis = axis };
    return id && id->results[0].type->dtype == DT_INDEX && pack_varies(&x->p); /* before narrow */
}

static void add_shared(void *choice, Instr *i)
{
    Choice *x = choice;
    x->size.shared += shared_work(x, i);
}

/* How many bytes of a program's windows lie beside those of the next program along the axis, and what the
 * work that both share takes in bytes; -1: they cannot be packed. */
static int64_t gain(Choice *x, int axis)
{
    if (!look_at(x, axis)) return -1;
    x->size.shared = 0;
    if (!x->asked) ir_walk(x->f->body, add_shared, x);
    int64_t shared = x->size.shared / WORK_PER_BYTE;
    bool gathers = x->asked || pack_has_unlike_loops(&x->p);
    SavedBody saved = ir_body_save(x->f);
    x->p.n = 2;
    bool may = apply(&x->p, false) && (gathers || pack_of_windows(&x->p, x->size.bytes));
    ir_body_restore(x->f, &saved);
    return may ? x->p.along + shared : -1;
}

static int best_axis(Choice *x, unsigned used)
{
    int best = -1, axes = ir_terminator(x->f->grid)->n_operands, left = 0, only = -1;
    int64_t most = -1;
    for (int a = 0; a < axes; a++) {
        if (used >> a & 1 || !coordinate(x->f, a)) continue;
        left++;
        only = a;
    }
    if (left <= 1) return only;
    for (int a = 0; a < axes; a++) {
        int64_t g = used >> a & 1 ? -1 : gain(x, a);
        if (g <= most) continue;
        most = g;
        best = a;
    }
    return best;
}

/* --- how many ------------------------------------------------------------------------------------------ */

void pack_shrink_grid(Func *f, int axis, int64_t n)
{
    Instr *grid = ir_terminator(f->grid);
    Builder b = ir_before(grid);
    ir_set_operand(grid, axis, ir_bin(&b, OP_CDIV, ir_operand(grid, axis), ir_index(&b, n)));
}

/* The number of warps that a pack is planned for; fewer remain if its programs do not fill them. Tiles that
 * are not whole vectors keep all warps, because these copy them together through shared memory
 * (row_block.c). */
static int pack_warps(const Choice *x)
{
    int most = x->c->options->pack_warps;
    if (x->f->hints.warps > 0) return x->f->hints.warps;
    return most && x->size.bytes % 16 == 0 && most < WARPS ? most : WARPS;
}

/* Whether most of what a program computes is the same for its neighbours. */
static bool shares_work(const Size *s)
{
    return s->shared >= WORK_PER_ELEM * s->elems && s->elems <= MOST_SHARING && s->bytes % 16 == 0 &&
           (s->elems & (s->elems - 1)) == 0;
}

/* The programs of a pack that share work, and the warps for them: a program, or what one warp accesses at
 * once, fills the warps. What is shared is then in the same registers for all programs. */
static int64_t sharing(Choice *x)
{
    const Size *s = &x->size;
    int64_t access = LANES * (16 / s->elem_bytes), n = 1;
    if (x->f->hints.warps <= 0)
        while (x->warps > 1 && x->warps * access > s->elems) x->warps /= 2;
    while (2 * n * s->elems <= (int64_t)x->warps * LANES * LANE_ELEMS) n *= 2;
    return n;
}

/* The programs that one warp does together where each runs a loop of its own length: as many as give a lane a
 * few elements in a step. They wait for memory together, and the shorter ones for the longest. */
static int64_t of_unlike_loops(Choice *x)
{
    int64_t n = 1;
    x->warps = x->f->hints.warps > 0 ? x->f->hints.warps : 1;
    while (2 * n * x->size.elems <= (int64_t)x->warps * LANES * STEP_ELEMS) n *= 2;
    return n;
}

/* The programs that a pack should have; 1: packing gains nothing. */
static int64_t wanted(Choice *x)
{
    if (x->asked) return x->asked;
    x->size = (Size){ 0 };
    x->facts = NULL;
    ir_walk(x->f->body, measure, x);
    x->warps = pack_warps(x);
    const Size *s = &x->size;
    if (s->loops) return pack_has_unlike_loops(&x->p) ? of_unlike_loops(x) : 1;
    if (s->pieces || !s->bytes || !s->loaded) return 1;
    if (shares_work(s)) return sharing(x);
    if (s->bytes > MOST_BYTES || s->loaded > MOST_LOADED || s->elems > FULL_ELEMS) return 1;
    if (s->bytes % 16 && s->elems + s->beside / 2 > FULL_BESIDE) return 1;
    return fill(x);
}

/* Fewer programs than fill the lanes get fewer warps, and so do fewer records: warps would repeat them. */
static int fitting_warps(const Choice *x, int64_t missing)
{
    int warps = x->warps;
    int64_t records = pack_fewest_records(x->f);
    for (; warps > 1 && missing > 1; missing /= 2) warps /= 2;
    while (records >= LANES && warps > 1 && records < (int64_t)warps * LANES) warps /= 2;
    return warps;
}

/* Divides a pack whose warps have whole programs among CTAs of fewer warps. Single elements of neighbouring
 * programs lie side by side: one warp loads them as vectors, while several warps take programs in turns and
 * load each by itself. Records keep the number that fits them. */
static int64_t divided(Choice *x, int64_t n)
{
    int64_t records = pack_fewest_records(x->f);
    int warps = x->size.singles >= SINGLES ? 1 : FEW_WARPS;
    if (x->asked || x->f->hints.warps > 0 || x->size.bytes % 16 || shares_work(&x->size) || records) return n;
    for (; x->warps > warps && n % 2 == 0 && n > 2; n /= 2) x->warps /= 2;
    return n;
}

/* Finds which values are not the same for all programs. */
static void find_differences(Choice *x)
{
    int axes = ir_terminator(x->f->grid)->n_operands;
    for (int a = 0; a < axes && axes > 1; a++) {
        if (!coordinate(x->f, a)) continue;
        look_at(x, a);
        if (!x->differs) x->differs = arena_array(x->c->scratch, bool, x->p.values);
        for (uint32_t v = 0; v < x->p.values; v++) x->differs[v] |= x->p.varies[v];
    }
}

/* Packs programs whose windows overlap, as many as leave a lane room; how many became one. */
static int64_t overlapping(Choice *x, unsigned *used)
{
    int axes = ir_terminator(x->f->grid)->n_operands;
    for (int a = 0; a < axes; a++) {
        if (!look_at(x, a) || !pack_overlaps(&x->p, MOST_OVERLAPPING)) continue;
        x->size = (Size){ 0 };
        x->facts = NULL;
        ir_walk(x->f->body, measure, x);
        int64_t n = MOST_OVERLAPPING, lanes = (int64_t)x->warps * LANES;
        while (n > 1 && n * x->size.elems > lanes * LANE_ELEMS) n /= 2;
        for (; n > 1 && !pack(x, n); n /= 2) {}
        if (n <= 1) continue;
        pack_shrink_grid(x->f, a, n);
        x->differs = NULL;
        *used |= 1u << a;
        return n;
    }
    return 1;
}

static bool pack_func(PassContext *c, Func *f)
{
    Choice x = { .c = c, .f = f, .asked = f->hints.pack };
    bool cuda = c->options->target && c->options->target->kind == TARGET_CUDA;
    unsigned used = 0;
    int64_t want = 0, done = 1, n;
    if (!f->is_kernel || !f->grid || f->remap || f->hints.remap || f->hints.schedule || f->hints.cluster > 1)
        return false;
    if (x.asked == 1 || (!x.asked && !cuda)) return false;
    x.warps = f->hints.warps > 0 ? f->hints.warps : WARPS;
    if (!x.asked) find_differences(&x);
    if (!x.asked) done = overlapping(&x, &used);
    for (int axis; want != 1 && (axis = best_axis(&x, used)) >= 0; used |= 1u << axis) {
        if (!look_at(&x, axis)) continue;
        if (!want) want = divided(&x, wanted(&x));
        bool shares = !x.asked && shares_work(&x.size);
        for (n = want; n > 1 && !pack(&x, n); n = x.asked ? 1 : n / 2) {}
        if (n <= 1) continue;
        pack_shrink_grid(f, axis, n);
        done *= n;
        x.differs = NULL; /* values have changed */
        want = shares ? 1 : want / n;
    }
    if (done == 1) return false;
    f->packed = done;
    pass_count(c, "programs in one", done);
    if (!x.asked && f->hints.warps <= 0) f->hints.warps = fitting_warps(&x, want);
    return true;
}

bool pass_pack(PassContext *c, Module *m) { return pass_each_func(c, m, pack_func); }
