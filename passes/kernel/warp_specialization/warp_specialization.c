/* warp-specialization: divides a matrix kernel on sm_90a into a producer, which fills rings by TMA, and
 * consumer warpgroups, which multiply with wgmma.
 *
 *   for j { %k = load K[..]; %s = mma_sync %q, %k, %0; ... }
 *
 * becomes
 *
 *   %rk = ring ...
 *   roles {
 *     for j { ring_put %rk, K[..] }                                       one thread
 *   } {
 *     for j { %kv = ring_get %rk; %s = wgmma %q, %kv, %0; wgmma_wait; ring_release %rk; ... }
 *   }
 *
 * Requires, of every product: a shape that wgmma takes (M in multiples of 64, or fewer than 16 rows, which
 * are padded to 64; N of 8 to 256; K of the instruction's, or all of a contiguous axis of both operands: a
 * stage's rows are whole panels of its swizzle, and TMA fills what lies beyond the axis with zeros). Its B
 * operand, and its A operand unless that is computed in registers, come from loads that TMA can do (unit
 * stride inside; base and other strides multiples of 16 bytes, by launch fact; pad zero; step 1; a reshape
 * may merge the window's other axes). Neither the loads' offsets nor the control flow around them depends
 * on a product. Otherwise nothing changes, and a performance note says what was missing.
 *
 * Other loads of the loop whose latency hint asks for it go through rings as well, where memory suffices,
 * and are read into registers from there. The producer is the kernel with all but its loads and what they
 * depend on removed. Both roles keep the program's order of loads, so that a ring needs no names for its
 * stages. Keeps: everything.
 *
 * operands.c has the requirements, rings.c the stages, merge_loads.c one load for several that overlap,
 * epilogue_loads.c loads behind the loop that take stages of its rings, cp_async_producer.c rings that TMA
 * cannot fill, producer.c the producer, and persistent.c the loop over programs. */
#include "passes/kernel/pipeline/software_pipelining.h"
#include "passes/kernel/warp_specialization/warp_specialization.h"

/* The place of the release. Stages are released in the order in which they are taken, so the release comes
 * after those of stages that were taken before and are held longer. */
static Instr *release_after(const Ring *r, Instr *last)
{
    for (Instr *i = last->next; i; i = i->next)
        if (i->op == OP_RING_RELEASE && ir_operand(i, 0) == r->value) last = i;
    return last;
}

/* Replaces the load by a read of its ring's stage. */
static void consume(Roles *c, Instr *load)
{
    Ring *r = roles_taken_ring(c, load);
    Value *matrix = roles_is_vector(load) ? ir_result(load) : roles_matrix_of(load);
    bool product = roles_from_stage(c, load);
    Builder b = ir_before(load);
    Value *view = ir_emit(&b, OP_RING_GET, &r->value, 1, NO_ATTRS, NULL);
    ir_set_name(view, c->f->params[r->param].name);
    Instr *last = product ? roles_last_product(load) : view->def;
    if (!product) view = ir_emit(&b, OP_SHARED_READ, &view, 1, NO_ATTRS, matrix->type), last = view->def;
    if (product) { /* parts and transposes of a tile in registers stay what they are */
        roles_take_parts(c, matrix, view);
        roles_take_transposed(c, matrix, view);
    }
    ir_replace(matrix, view);
    b = ir_after(release_after(r, last));
    ir_build(&b, OP_RING_RELEASE, &r->value, 1, NO_ATTRS, NULL, 0);
    if (matrix->def != load) ir_erase(matrix->def);
    ir_erase(load);
}

/* The registers of a consumer's thread that products hold: those of its sums, to some of which several
 * products add. */
static int words_held(const Roles *c)
{
    int64_t words = 0;
    for (size_t k = 0; k < c->products.len; k++) {
        const Instr *i = c->products.data[k], *sum = ir_operand(i, 2)->def;
        const Type *t = ir_result(i)->type, *a = ir_operand(i, 0)->type;
        if (!sum || (sum->op != OP_MMA_SYNC && sum->op != OP_WGMMA_PROMOTED) || sum->block != i->block)
            words += type_elements(t);
        if (a->kind == TYPE_TILE) words += type_elements(a) * dtype_bytes(a->dtype) / 4;
    }
    return (int)(words / (32 * c->p->warps));
}

/* `to` stands in place of `from`. */
static void put_in_place(Session *s, Instr *from, Value *to, Value *result)
{
    if (ir_attr_int(from, ATTR_CHAINED, 0)) ir_set_attr(s, to->def, a_int(ATTR_CHAINED, 1));
    to->name = ir_result(from)->name;
    ir_replace(ir_result(from), result);
    ir_erase(from);
}

static void to_wgmma(Roles *c, Instr *i, int held)
{
    Builder b = ir_before(i);
    Value *v[3] = { ir_operand(i, 0), ir_operand(i, 1), ir_operand(i, 2) };
    bool tf32 = ir_attr_int(i, ATTR_PRECISION, 0) == PRECISION_TF32;
    const char *instr = roles_instr(v[0]->type->dtype, tf32);
    int after = kernel_promote_after(c->p, i, instr),
        columns = kernel_promote_columns(c->p, (int)ir_result(i)->type->shape[1], held);
    if (after) {
        Value *w = ir_emit(&b, OP_WGMMA_PROMOTED, v, 3,
            ATTRS(a_str(ATTR_INSTR, instr), a_int(ATTR_PROMOTE, after), a_int(ATTR_COUNT, columns)), NULL);
        put_in_place(c->s, i, w, w);
        return;
    }
    Value *w = ir_emit(&b, OP_WGMMA, v, 3, ATTRS(a_str(ATTR_INSTR, instr)), NULL);
    Instr *wait = ir_build(&b, OP_WGMMA_WAIT, &w, 1, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    put_in_place(c->s, i, w, ir_result(wait));
}

static void clear_mark(void *user, Instr *i)
{
    (void)user;
    i->mark = 0;
}

/* Copies the marks to a clone, which has none, by traversing both blocks in step. */
static void copy_marks(const Block *from, Block *to)
{
    const Instr *i = from->first;
    Instr *j = to->first;
    for (; i && j; i = i->next, j = j->next) {
        j->mark = i->mark;
        for (int k = 0; k < i->n_blocks; k++) copy_marks(i->blocks[k], j->blocks[k]);
    }
}

/* multicast: finds the rings that the programs of a cluster have in common. */
static bool share_loads(void *user)
{
    Roles *c = user;
    size_t n = c->loads.len;
    RingLoad *l = arena_array(&c->s->arena, RingLoad, n);
    if (c->p->cp_async_warps) return false; /* cp.async producers fill the rings of their own CTA only. */
    for (size_t k = 0; k < n; k++)
        l[k] = (RingLoad){ c->loads.data[k],
            layouts_shared(&c->p->layouts, roles_ring(c, c->loads.data[k])->view),
            roles_ring(c, c->loads.data[k])->inner, false, NULL };
    kernel_multicast(c->s, c->f, c->p, l, n);
    for (size_t k = 0; k < n && c->p->multicast; k++) roles_ring(c, l[k].load)->shared = l[k].shared;
    return c->p->multicast > 1;
}

/* Of a producer's thread. */
static int registers_for(int consumers) { return consumers <= 2 ? 40 : consumers == 3 ? 32 : 24; }

static bool asked_consumers(Roles *c, const Decision *d, int *consumers)
{
    int n = d->n[0];
    if (n < 1 || n > 4 || c->rows / 64 % n)
        return schedule_refuse(c->p, d,
            "%lld rows are %lld blocks of 64, which %d warpgroups cannot share evenly (at most 4 of them)",
            (long long)c->rows, (long long)c->rows / 64, n);
    *consumers = n;
    return true;
}

/* setmaxnreg moves registers in multiples of eight, from 24 on (PTX ISA 9.7.20). A consumer with more than
 * 240 leaves the others fewer than they need. A single warpgroup that takes more than 232 waits for ever,
 * because the launch gave the CTA no more. */
enum { LEAST_HANDED = 24, MOST_HANDED = 240, HANDED_ALONE = 232 };

bool roles_handed_over(int registers)
{ return registers % 8 == 0 && registers >= LEAST_HANDED && registers <= MOST_HANDED; }

/* Gives the consumers the registers of the launch that the producer and the cp.async producers leave. */
static void registers_beside_cp_async(KernelPlan *p, int each, int all)
{
    if (p->cp_async_registers > each) p->cp_async_registers = each;
    int left = (all - 32 * p->cp_async_registers * (p->producer_warps + p->cp_async_warps)) /
               (32 * p->warps) / 8 * 8;
    p->producer_registers = p->cp_async_registers;
    p->consumer_registers = left < MOST_HANDED ? left : MOST_HANDED;
}

/* Checks that all threads together have the registers that the launch gave them. held: the registers that a
 * consumer's products hold at once; if a consumer has not so many, the producer gets the fewest. */
static void choose_registers(KernelPlan *p, int consumers, int held)
{
    const Decision *d = schedule_asked(p, DECIDE_REGISTERS);
    int threads = 32 * kernel_cta_warps(p), each = target_registers_each(p->target, threads),
        all = each * threads;
    p->registers_full = held > MOST_HANDED;
    p->producer_registers = p->registers_full && consumers == 2 ? LEAST_HANDED : registers_for(consumers);
    p->consumer_registers = p->warps > 4
                                ? (all / 32 - p->producer_registers * p->producer_warps) / p->warps / 8 * 8
                                : HANDED_ALONE;
    if (p->cp_async_warps) registers_beside_cp_async(p, each, all);
    if (d && p->cp_async_warps)
        schedule_refuse(p, d,
            "`cp_async_producer N R` says what they and the producer have, and consumers have the rest");
    if (d && p->warps <= 4)
        schedule_refuse(p, d, "with one consumer warpgroup registers are not handed over");
    else if (d && (!roles_handed_over(d->n[0]) || !roles_handed_over(d->n[1])))
        schedule_refuse(p, d, "registers are handed over in eights, from 24 to 240 a thread");
    else if (d && (d->n[0] > each || d->n[1] < each))
        schedule_refuse(p, d,
            "the launch gives %d to each thread, of which a producer gives some away and a consumer takes "
            "some",
            each);
    else if (d && 32 * (d->n[0] * p->producer_warps + d->n[1] * p->warps) > all)
        schedule_refuse(p, d, "%d threads of %d registers and %d of %d take %d, and the launch gives %d",
            32 * p->producer_warps, d->n[0], 32 * p->warps, d->n[1],
            32 * (d->n[0] * p->producer_warps + d->n[1] * p->warps), all);
    else if (d) {
        p->producer_registers = d->n[0];
        p->consumer_registers = d->n[1];
    }
    if (p->warps > 4 && !p->cp_async_warps)
        schedule_take(p, DECIDE_REGISTERS, 0, p->producer_registers, p->consumer_registers);
}

static void take_programs(Roles *c)
{
    KernelPlan *p = c->p;
    int form = !p->persistent                         ? PROGRAMS_EACH
               : c->shares.combine                    ? PROGRAMS_SHARES
               : kernel_skips(p, PASS_TILE_SCHEDULER) ? PROGRAMS_STATIC
                                                      : PROGRAMS_DYNAMIC;
    schedule_take(p, DECIDE_PROGRAMS, form, form == PROGRAMS_SHARES ? p->shares : 0, 0);
}

static void take_roles(Roles *c, int consumers)
{
    KernelPlan *p = c->p;
    const Decision *warps = schedule_asked(p, DECIDE_WARPS), *ctas = schedule_asked(p, DECIDE_OCCUPANCY);
    if (warps)
        schedule_refuse(p, warps,
            "with warp specialization the consumer warpgroups hold the tiles: `warp_specialization N` gives "
            "their number");
    if (ctas && ctas->n[0] != 1)
        schedule_refuse(p, ctas, "with warp specialization one CTA fills a multiprocessor");
    schedule_take(p, DECIDE_WARP_SPECIALIZATION, WARP_SPECIALIZATION_N, consumers, 0);
    for (size_t k = 0; k < c->loads.len; k++) {
        const Ring *r = roles_ring(c, c->loads.data[k]);
        schedule_take_load(
            p, c->loads.data[k], r->by_cp_async ? LOAD_STAGES_CP_ASYNC : LOAD_STAGES, r->depth);
    }
    if (p->cp_async_warps) schedule_take(p, DECIDE_CP_ASYNC, 0, p->cp_async_warps, p->cp_async_registers);
}

void roles_find_loads(Roles *c)
{
    c->loads.len = 0;
    c->n_scalar = 0; /* what is known of values was known of the program as it was */
    for (size_t k = 0; k < c->products.len; k++) roles_product_fits(c, c->products.data[k]);
}

/* The number of steps that the inner loop's rings would hold; 0: not even one. */
static int steps_that_fit(Roles *c)
{
    Roles trial = *c;
    int least = 0;
    trial.rings.data = NULL, trial.rings.len = trial.rings.cap = 0;
    roles_find_loads(&trial);
    if (!roles_plan_rings(&trial)) return 0;
    for (size_t k = 0; k < trial.rings.len; k++) {
        const Ring *r = &trial.rings.data[k];
        if (r->inner && r->loads && (!least || r->depth / r->loads < least)) least = r->depth / r->loads;
    }
    return least;
}

/* merge-loads: merges several loads into one if two steps of it fit, or if nothing fits otherwise. */
static bool join_windows(void *user)
{
    Roles *c = user;
    if (kernel_skips(c->p, PASS_MERGE_LOADS)) return false;
    int steps[2] = { 0, 0 };
    bool kept = false;
    for (int columns = 1; columns >= 0 && !kept; columns--) {
        if (!roles_join_windows(c, columns)) return false;
        steps[columns] = steps_that_fit(c);
        kept = steps[columns] >= 2;
        if (!kept) roles_part_windows(c);
    }
    if (!kept && (steps[1] || steps[0]) && !steps_that_fit(c)) roles_join_windows(c, steps[1] > 0);
    roles_keep_windows(c);
    roles_find_loads(c);
    c->why = NULL;
    return true;
}

typedef struct ProductSearch {
    bool *seen;
} ProductSearch;

/* Whether the value depends on a product of the same iteration. */
static bool from_product(void *user, Value *v)
{
    ProductSearch *w = user;
    Instr *d = v->def;
    if (!d || w->seen[v->id]) return true; /* true: go on looking */
    w->seen[v->id] = true;
    return d->op != OP_MMA_SYNC && d->op != OP_FOR && ir_all_operands(d, from_product, w);
}

/* Whether the registers of four warpgroups suffice. Four warpgroups hide more of the arithmetic between
 * products than two with two row blocks each, but each thread has half of the registers. They are chosen when
 * those hold the products of one row block and the arithmetic between them (bench/notes/attention.md, "D
 * 64"). */
static bool four_have_room(Roles *c)
{
    enum { ROOM = 84 }; /* of the 112 registers of a thread, without those for addresses and exponents */
    int64_t words = 0;
    bool between = false;
    for (size_t k = 0; k < c->products.len; k++) {
        const Instr *i = c->products.data[k], *sum = ir_operand(i, 2)->def;
        const Type *a = ir_operand(i, 0)->type, *r = ir_result(i)->type;
        ProductSearch w = { arena_array(&c->s->arena, bool, c->f->module->next_id) };
        bool computed = !from_product(&w, ir_operand(i, 0));
        if (!sum || sum->op != i->op || sum->block != i->block) words += r->shape[1] / 2;
        if (computed) words += a->shape[1] * dtype_bytes(a->dtype) / 8;
        between |= computed;
        for (const Instr *l = computed ? i->block->first : NULL; l; l = l->next) /* a bias, say */
            if (l->op == OP_LOAD && ir_result(l)->type->kind == TYPE_TILE &&
                type_elements(ir_result(l)->type) >= 16 * c->rows && roles_product_of(ir_result(l)) == NULL)
                words +=
                    type_elements(ir_result(l)->type) / c->rows * dtype_bytes(ir_result(l)->type->dtype) / 8;
    }
    return between && words <= ROOM;
}

/* Whether seven cp.async producers fill a ring of theirs. */
static bool beside_more(Roles *c)
{
    for (size_t k = 0; k < c->loads.len && c->p->cp_async_warps == MOST_CP_ASYNC_WARPS; k++)
        if (roles_by_cp_async(c, c->loads.data[k])) return true;
    return false;
}

/* Decides the number of consumer warpgroups and the rings; 0: no warp specialization, and a note or an error
 * gives the reason. */
static int plan(Roles *c)
{
    KernelPlan *p = c->p;
    const Decision *asked = schedule_asked(p, DECIDE_WARP_SPECIALIZATION);
    int errors = c->s->n_errors;
    bool ok = true;
    kernel_choose_programs(c->f, p);
    roles_ask_cp_async(p, &c->products);
    for (size_t k = 0; k < c->products.len && ok; k++) ok = roles_product_fits(c, c->products.data[k]);
    for (size_t k = 0; k < c->loads.len && ok; k++) ok = roles_control_fits(c, c->loads.data[k]);
    /* A tile of rows that lie in the stage once for each tap is not whole before its operands are read. */
    if (ok) kernel_part(p, PASS_MERGE_LOADS, join_windows, c);
    bool four = ok && !beside_more(c) && four_have_room(c);
    int consumers = ok ? roles_warpgroups_of(c->rows, four) : 0;
    if (ok && asked) ok = asked_consumers(c, asked, &consumers);
    if (ok && !asked && roles_share_columns(c)) consumers = 2;
    c->consumers = consumers;
    if (ok) kernel_part(p, PASS_WIDE_COLUMNS, roles_widen_columns, c);
    for (size_t k = 0; k < c->products.len && ok; k++) ok = roles_rows_fit(c, c->products.data[k], consumers);
    if (ok && roles_plan_rings(c) && roles_cp_async_gains(c)) {
        if (!roles_cp_async_rings(c)) p->cp_async_warps = 0;
        return consumers;
    }
    p->cp_async_warps = 0;
    if (asked && c->why) schedule_refuse(p, asked, "no TMA and wgmma here: %s", c->why);
    else if (c->s->n_errors == errors)
        diag_perf(c->s, c->why_loc, "no TMA and wgmma here: %s", c->why ? c->why : "unsuitable product");
    p->persistent = false;
    return 0;
}

static void make_rings(Roles *c)
{
    Func *f = c->f;
    Builder b = { .module = f->module, .block = f->body, .before = f->body->first, .loc = f->loc };
    for (size_t k = 0; k < c->rings.len; k++) {
        Ring *r = &c->rings.data[k];
        int64_t shape[3] = { r->depth, r->view->shape[0], r->view->rank > 1 ? r->view->shape[1] : 0 };
        Attr attrs[3] = { a_int(ATTR_DEPTH, r->depth), a_int(ATTR_COUNT, c->p->warps),
            a_int(ATTR_CLUSTER, c->p->multicast) };
        r->value = ir_emit(&b, OP_RING, NULL, 0, (Attrs){ attrs, r->shared ? 3 : 2 },
            type_shared(c->s, r->view->dtype, r->view->rank + 1, shape, r->view->layout));
        ir_set_name(r->value, arena_printf(&c->s->arena, "%s_ring", f->params[r->param].name));
    }
}

static void copy_role(Roles *c, Block *from, Block *to)
{
    ValueMap map;
    Builder in = ir_at_end(to);
    value_map_init(&map, &c->s->arena);
    ir_clone_block_into(&in, from, &map, true);
    copy_marks(from, to);
}

/* Moves everything after the rings into the consumers' block, and copies of it into the blocks of the
 * producer and the cp.async producers. */
static Instr *make_roles(Roles *c)
{
    Func *f = c->f;
    Builder b =
        c->rings.len ? ir_after(c->rings.data[c->rings.len - 1].value->def) : ir_before(f->body->first);
    b.loc = f->loc;
    Instr *roles =
              ir_build(&b, c->p->cp_async_warps ? OP_CP_ASYNC_ROLES : OP_ROLES, NULL, 0, NO_ATTRS, NULL, 0),
          *ret = ir_terminator(f->body);
    Builder in = ir_at_end(roles->blocks[1]);
    for (Instr *i = roles->next, *next; i && i != ret; i = next) {
        next = i->next;
        ir_unlink(i);
        ir_place(&in, i);
    }
    ir_build(&in, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    /* A nested block records its function and its parent instruction. Its instructions record only the block.
     */
    copy_role(c, roles->blocks[1], roles->blocks[0]);
    if (c->p->cp_async_warps) copy_role(c, roles->blocks[1], roles->blocks[2]);
    return roles;
}

/* cp-async-producer: what is a copy of the consumers' block so far. */
static bool make_cp_async_producers(void *user)
{
    Roles *c = user;
    roles_make_producer(c, c->cp_async, OP_RING_CP_ASYNC);
    return true;
}

/* Makes products of wgmma of the consumers' products. held: the registers that they hold. */
static void to_products(Roles *c, Block *consumers, int held)
{
    InstrList barriers = { 0 };
    for (size_t k = 0; k < c->products.len; k++) to_wgmma(c, c->products.data[k], held);
    ir_collect(&c->s->arena, consumers, OP_BARRIER, &barriers);
    for (size_t k = 0; k < barriers.len; k++)
        if (ir_attr_int(barriers.data[k], ATTR_HALF, 0) == BARRIER_ARRIVES)
            roles_wait_behind_writes(c, barriers.data[k]);
}

static bool specialize(Session *s, Func *f, KernelPlan *p)
{
    Roles c = { .s = s, .f = f, .p = p, .consumers = 1 };
    /* Erase products that nobody uses first: a later sweep would leave their rings without a reader. */
    ir_drop_unused(f->body);
    ir_collect(&s->arena, f->body, OP_MMA_SYNC, &c.products);
    kernel_part(p, PASS_TRANSPOSED_VIEWS, roles_transpose_views, &c);
    int consumers = c.products.len ? plan(&c) : 0;
    if (!consumers) return false;
    kernel_positions_note(s, f);
    p->warps = 4 * consumers;
    p->producer_warps = p->cp_async_warps ? 1 : 4;
    /* A product with a staged operand runs while the sums of all other products are held. */
    choose_registers(p, consumers, roles_staged_bytes(&c) ? words_held(&c) : 0);
    p->min_ctas = 1;
    if (f->hints.occupancy > 1)
        diag_perf(s, f->loc,
            "occupancy = %d: a CTA with producer warps has the registers of a multiprocessor by itself; "
            "without them "
            "(warp_specialize = 0) %d run at a time",
            (int)f->hints.occupancy, (int)f->hints.occupancy);
    take_roles(&c, consumers);
    kernel_part(p, PASS_STREAM_K, roles_stream_k, &c);
    if (!c.shares.combine) p->shares = 0;
    kernel_part(p, PASS_MULTICAST, share_loads, &c);
    if (!c.shares.combine) kernel_part(p, PASS_EPILOGUE_LOADS, roles_epilogue_loads, &c);
    take_programs(&c);
    roles_over_programs(&c);
    ir_walk(f->body, clear_mark, NULL);
    for (size_t k = 0; k < c.loads.len; k++) {
        const Ring *r = roles_ring(&c, c.loads.data[k]);
        roles_take(
            &c, c.loads.data[k], r->by_cp_async ? BY_CP_ASYNC : BY_PRODUCER, (size_t)(r - c.rings.data));
    }
    for (size_t k = 0; k < c.epilogue.len; k++)
        roles_take(&c, c.epilogue.data[k].load, BY_PRODUCER_IN_FREE_STAGES, k);
    make_rings(&c);
    Instr *roles = make_roles(&c);
    roles_make_producer(&c, roles->blocks[0], OP_RING_PUT);
    c.cp_async = roles->blocks[2 * (p->cp_async_warps > 0)];
    if (p->cp_async_warps) kernel_part(p, PASS_CP_ASYNC_PRODUCER, make_cp_async_producers, &c);

    VEC(Block *) swept = { 0 };
    c.loads.len = c.products.len = 0;
    ir_collect(&s->arena, roles->blocks[1], OP_LOAD, &c.loads);
    for (size_t k = 0; k < c.loads.len; k++) {
        Instr *l = c.loads.data[k];
        const TakenLoad *taken = roles_taken(&c, l);
        if (!taken) continue;
        /* The block still contains the positions of a window with parts, which only the producer needs. */
        if (kernel_parts(l, NULL) > 0) vec_push(&s->arena, &swept, l->block);
        if (taken->by == BY_PRODUCER_IN_FREE_STAGES)
            roles_read_epilogue_load(&c, l, &c.epilogue.data[taken->at]);
        else consume(&c, l);
    }
    for (size_t k = 0; k < swept.len; k++) ir_sweep(swept.data[k]);
    ir_collect(&s->arena, roles->blocks[1], OP_MMA_SYNC, &c.products);
    kernel_part(p, PASS_STAGED_OPERANDS, roles_stage_operands, &c);
    kernel_part(p, PASS_ORDERED_ADDS, roles_order_adds, &c);
    int held = words_held(&c);
    to_products(&c, roles->blocks[1], held);
    return true;
}

bool kernel_pass_warp_specialization(KernelContext *c)
{ return c->specialized && specialize(c->s, c->f, c->p); }
