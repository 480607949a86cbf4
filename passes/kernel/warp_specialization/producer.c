/* producer.c: of warp-specialization: makes the producer, which is the kernel with everything removed but
 * its loads, as puts into rings, and what they need. */
#include "passes/kernel/warp_specialization/warp_specialization.h"

enum { MOST_POSITIONS = 32 }; /* as operands.c allows */

typedef struct Live {
    bool *value;
    uint32_t n;
    Op put;
} Live;

static void mark(Live *l, Value *v);

/* A value that a `while` carries: its way around the loop. The loop itself keeps its test (mark_puts). */
static void mark_carried_by_while(Live *l, Instr *loop, int k)
{
    mark(l, &loop->results[k]);
    mark(l, ir_operand(loop, k));
    mark(l, ir_operand(ir_terminator(loop->blocks[0]), k + 1));
    mark(l, ir_operand(ir_terminator(loop->blocks[1]), k));
    mark(l, ir_operand(ir_terminator(loop->blocks[0]), 0));
}

static void mark(Live *l, Value *v)
{
    if (l->value[v->id]) return;
    l->value[v->id] = true;
    Instr *d = v->def, *loop = d ? d : v->block->parent;
    if (loop && loop->op == OP_WHILE) {
        mark_carried_by_while(l, loop, v->index);
        return;
    }
    if (!d) {
        Instr *p = v->block->parent;
        if (!p) return;
        if (p->op == OP_FOR && v->index > 0) {
            mark(l, ir_operand(p, v->index + 2));
            mark(l, ir_operand(ir_terminator(p->blocks[0]), v->index - 1));
            mark(l, &p->results[v->index - 1]);
        }
        if (p->op == OP_FOR)
            for (int k = 0; k < 3; k++) mark(l, ir_operand(p, k));
        return;
    }
    if (d->op == OP_FOR) {
        mark(l, d->blocks[0]->args[v->index + 1]);
        return;
    }
    if (d->op == OP_IF) {
        mark(l, ir_operand(d, 0));
        for (int b = 0; b < 2; b++) mark(l, ir_operand(ir_terminator(d->blocks[b]), v->index));
        return;
    }
    for (int k = 0; k < d->n_operands; k++) mark(l, ir_operand(d, k));
}

/* Coordinates are passed on with the program by the role that draws it, and read by all others. Therefore the
 * loop over programs stays even if it contains no put. */
static bool is_needed(const Live *l, const Instr *i)
{ return ir_is_or_holds(i, l->put) || ir_is_or_holds(i, OP_PROGRAM_COORD); }

static void mark_puts(Live *l, Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        if (i->op == l->put)
            for (int k = 0; k < i->n_operands; k++) mark(l, ir_operand(i, k));
        if (i->op == OP_PROGRAM_COORD) mark(l, ir_result(i)); /* handed on to the consumers */
        if (!is_needed(l, i)) continue;
        for (int k = 0; k < (i->op == OP_FOR ? 3 : i->op == OP_IF ? 1 : 0); k++) mark(l, ir_operand(i, k));
        if (i->op == OP_WHILE) mark(l, ir_operand(ir_terminator(i->blocks[0]), 0));
        for (int k = 0; k < i->n_blocks; k++) mark_puts(l, i->blocks[k]);
    }
}

static bool is_live(const Live *l, const Instr *i)
{
    if (op_info[i->op].flags & OPF_TERM) return true;
    for (int k = 0; k < i->n_results; k++)
        if (l->value[i->results[k].id]) return true;
    return is_needed(l, i);
}

static void sweep(Live *l, Block *b)
{
    for (Instr *i = b->last, *prev; i; i = prev) {
        prev = i->prev;
        if (is_live(l, i)) {
            for (int k = i->n_results - 1; k >= 0; k--)
                if (!l->value[i->results[k].id] && (i->op == OP_FOR || i->op == OP_WHILE || i->op == OP_IF))
                    ir_drop_carried(i, k);
            for (int k = 0; k < i->n_blocks; k++) sweep(l, i->blocks[k]);
            continue;
        }
        /* Later users, and users in carried values that were dropped, are already gone. */
        ir_erase(i);
    }
}

static bool outside(void *block, Value *v) { return ir_defined_outside(v, block); }

/* The place where the positions of a load are computed: once, before the loops in which they do not change.
 * */
static Instr *first_place(Instr *load, uint32_t picked)
{
    Instr *at = load;
    MemParts m;
    ir_mem_parts(load, &m);
    for (Instr *loop = load->block->parent; loop && loop->op == OP_FOR && !ir_loop_is(loop, LOOP_DYNAMIC);
        loop = loop->block->parent) {
        for (int a = 0; a < m.rank; a++)
            if (picked >> a & 1 && !kernel_position_of(m.idx[a], outside, loop->blocks[0])) return at;
        at = loop;
    }
    return at;
}

/* Whether the position of a row comes from a load that is proven to be in range, for the rows of the tile. */
static bool reads_unmasked(const Value *v)
{
    const Instr *d = v->def;
    if (v->type->kind != TYPE_TILE) return false;
    if (d->op == OP_LOAD) return !ir_attr_int(d, ATTR_MASKED, 1);
    for (int k = 0; k < d->n_operands; k++)
        if (reads_unmasked(ir_operand(d, k))) return true;
    return false;
}

/* The passes of the cp.async producer threads over the rows of a tile: `pieces` threads share a row, `rows`
 * is the number of rows of the tile, and `at_once` that of one pass. */
typedef struct Passes {
    int pieces;
    int64_t rows, at_once;
} Passes;

/* The row whose position is read. The last pass may go beyond the rows of the tile. A thread without a row
 * copies nothing, and reads the position of the last row. */
static Value *row_to_read(Builder *b, const Passes *over, int pass, Value *row, const Value *position)
{
    if (!over->rows || (pass + 1) * over->at_once <= over->rows || !reads_unmasked(position)) return row;
    return ir_bin(b, OP_MIN, row, ir_const_int(b, DT_I32, over->rows - 1));
}

/* Moves operations from `first` to before `end` out of the loops in which their operands do not change. What
 * a row's position has in common with those of other iterations, as its divisions, is then computed once. */
static void hoist(Instr *first, const Instr *end)
{
    for (Instr *i = first, *next; i && i != end; i = next) {
        next = i->next;
        Instr *before = NULL;
        for (Instr *loop = i->block->parent; loop && loop->op == OP_FOR && !ir_loop_is(loop, LOOP_DYNAMIC);
            loop = loop->block->parent) {
            bool fixed = true;
            for (int k = 0; k < i->n_operands; k++)
                fixed = fixed && ir_defined_outside(ir_operand(i, k), loop->blocks[0]);
            if (!fixed) break;
            before = loop;
        }
        if (!before || !(op_info[i->op].flags & OPF_PURE) || i->n_blocks) continue;
        Builder b = ir_before(before);
        ir_unlink(i);
        ir_place(&b, i);
    }
}

/* Emits a put for each part of a window that has positions: reads all positions first, and then starts the
 * copies. `over`: for rows that cp.async producers copy. */
static void put_parts(Builder *b, const Passes *over, Instr *load, Value **ops, int n_ops, Attr *attrs, int n,
    int64_t parts, uint32_t picked)
{
    int rank = n_ops - 2;
    int64_t ext[TILE_MAX_RANK];
    Value *at[TILE_MAX_RANK], *places[MOST_POSITIONS][TILE_MAX_RANK], *number[MOST_POSITIONS];
    const Type *i32 = type_scalar(b->module->session, DT_I32);
    const Attr *e = ir_attr(load, ATTR_EXTENTS);
    Builder early = ir_before(first_place(load, picked));
    early.loc = load->loc;
    Instr *last = early.before ? early.before->prev : early.block->last;
    for (int a = 0; a < rank; a++) ext[a] = picked >> a & 1 ? -1 : e->v[a];
    for (int p = 0; p < parts; p++) {
        number[p] = over->rows ? ir_emit(&early, OP_CP_ASYNC_ROW, NULL, 0,
                                     ATTRS(a_int(ATTR_SLOT, p), a_int(ATTR_COUNT, over->pieces)), i32)
                               : ir_const_int(&early, DT_I32, p);
        Value *zero = ir_const_int(&early, DT_I32, 0);
        for (int k = 1; k < TILE_MAX_RANK; k++) at[k] = zero;
        for (int a = 0; a < rank; a++) {
            places[p][a] = ops[2 + a];
            if (!(picked >> a & 1)) continue;
            at[0] = row_to_read(&early, over, p, number[p], ops[2 + a]);
            places[p][a] = kernel_position(&early, ops[2 + a], at);
        }
    }
    hoist(last ? last->next : early.block->first, early.before);
    for (int k = 0; k < n; k++)
        if (attrs[k].key == ATTR_EXTENTS) attrs[k] = a_ints(ATTR_EXTENTS, ext, rank);
    attrs[n++] = a_int(ATTR_PARTS, parts);
    for (int p = 0; p < parts; p++) {
        for (int a = 0; a < rank; a++) ops[2 + a] = places[p][a];
        ops[n_ops] = number[p];
        attrs[n] = a_int(ATTR_SLOT, p);
        ir_build(b, over->rows ? OP_RING_CP_ASYNC : OP_RING_PUT, ops, n_ops + 1,
            (Attrs){ attrs, over->rows ? n + 1 : n }, NULL, 0);
    }
}

/* Emits the put of a window whose rows are consecutive pixels. */
static void put_pixels(Roles *c, Builder *b, const Im2col *run, Value **ops, Attr *attrs, int n)
{
    Instr *last = b->before->prev;
    attrs[n++] = roles_im2col_operands(c, b, run, ops + 2);
    hoist(last ? last->next : b->block->first, b->before);
    ir_build(b, OP_RING_PUT, ops, 2 + 2 * run->n + 2, (Attrs){ attrs, n }, NULL, 0);
}

static void puts_from_loads(Roles *c, Block *b, Op put)
{
    for (Instr *i = b->first, *next; i; i = next) {
        next = i->next;
        for (int k = 0; k < i->n_blocks; k++) puts_from_loads(c, i->blocks[k], put);
        const TakenLoad *taken = roles_taken(c, i);
        if (!taken || (taken->by == BY_CP_ASYNC) != (put == OP_RING_CP_ASYNC)) continue;
        MemParts m;
        ir_mem_parts(i, &m);
        const EpilogueLoad *epilogue =
            taken->by == BY_PRODUCER_IN_FREE_STAGES ? &c->epilogue.data[taken->at] : NULL;
        Value *ops[3 + 2 * TILE_MAX_RANK] = { c->rings.data[epilogue ? epilogue->ring : taken->at].value,
            m.tensor };
        for (int a = 0; a < m.rank; a++) ops[2 + a] = m.idx[a];
        Attr attrs[10];
        int n = 0;
        uint32_t picked;
        int64_t parts = kernel_parts(i, &picked);
        static const AttrKey kept[] = { ATTR_EXTENTS, ATTR_STEPS, ATTR_ORDER, ATTR_CACHE, ATTR_MASKED,
            ATTR_SHIFTS };
        for (size_t k = 0; k < (put == OP_RING_CP_ASYNC ? 6 : 4); k++)
            if (ir_attr(i, kept[k])) attrs[n++] = *ir_attr(i, kept[k]);
        if (epilogue) attrs[n++] = a_int(ATTR_COUNT, epilogue->parts);
        Builder at = ir_before(i);
        Im2col run;
        if (parts && put == OP_RING_PUT && roles_im2col(c, i, &run)) {
            put_pixels(c, &at, &run, ops, attrs, n);
            continue;
        }
        Passes over = { 0 };
        if (parts && put == OP_RING_CP_ASYNC) {
            const Type *t = ir_result(i)->type;
            parts =
                kernel_cp_async_passes(c->p, t->shape[0], t->shape[1], dtype_bytes(t->dtype), &over.pieces);
            over.rows = t->shape[0];
            over.at_once = 32 * c->p->cp_async_warps / over.pieces;
        }
        if (parts) put_parts(&at, &over, i, ops, 2 + m.rank, attrs, n, parts, picked);
        else ir_build(&at, put, ops, 2 + m.rank, (Attrs){ attrs, n }, NULL, 0);
    }
}

void roles_make_producer(Roles *c, Block *b, Op put)
{
    puts_from_loads(c, b, put);
    Live live = { .n = c->f->module->next_id, .put = put };
    live.value = arena_array(&c->s->arena, bool, live.n);
    mark_puts(&live, b);
    sweep(&live, b);
}
