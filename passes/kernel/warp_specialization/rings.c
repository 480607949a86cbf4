/* rings.c: of warp-specialization: decides which loads share a ring, the layout of its stages, and their
 * number. */
#include "passes/kernel/warp_specialization/warp_specialization.h"

/* Whether products read the tile where TMA writes it. A left operand of 32 bits that is contiguous along M
 * goes through registers. */
bool roles_from_stage(Roles *c, const Instr *load)
{
    const Value *v = roles_matrix_of(load);
    const Use *u = roles_product_of(v);
    if (!u) return false;
    return u != &u->user->operands[0] || dtype_bytes(v->type->dtype) == 2 || roles_unit_axis(c, load) == 1;
}

bool roles_is_vector(const Instr *load)
{ return ir_result(load)->type->rank == 1 && !roles_product_of(roles_matrix_of(load)); }

enum {
    MOST_OF_A_BOX = 256, /* elements along an axis of a TMA box */
    MOST_SUMS = 160,     /* registers of a thread: a sum and the one it is added to, beside factors */
    MOST_USES = 64,      /* of a factor and of what is computed from it */
};

/* A vector lies as it does in memory. NULL: TMA moves multiples of 16 bytes. */
static const Type *vector_view(Roles *c, const Type *t)
{
    int32_t n = (int32_t)t->shape[0], order = 0, bytes = dtype_bytes(t->dtype),
            panel = n < MOST_OF_A_BOX ? n : MOST_OF_A_BOX;
    if (panel * bytes % 16) return NULL;
    const LayoutShared *s = layout_shared_make(
        &c->s->arena, 1, &n, &order, bytes, (LayoutRows){ .panel = panel, .pitch = panel * bytes });
    return s ? type_shared(c->s, t->dtype, 1, t->shape, layouts_shared_text(&c->p->layouts, s)) : NULL;
}

/* The layout of a tile with too few rows for a swizzle, which no product reads directly: its rows as in
 * memory. NULL: a row is not a multiple of 16 bytes, which TMA requires. */
static const LayoutShared *few_rows(Roles *c, const int32_t *tile, int axis, int bytes)
{
    int32_t n = tile[axis], panel = n < MOST_OF_A_BOX ? n : MOST_OF_A_BOX, order[2] = { axis, 1 - axis };
    if (panel * bytes % 16 || n % panel) return NULL;
    return layout_shared_make(
        &c->s->arena, 2, tile, order, bytes, (LayoutRows){ .panel = panel, .pitch = panel * bytes });
}

/* The layout that a wgmma descriptor can describe: A [M, K] and B [K, N], contiguous along the tensor's unit
 * axis. */
static const Type *view_type(Roles *c, const Instr *load)
{
    if (roles_is_vector(load)) return vector_view(c, ir_result(load)->type);
    const Value *v = roles_matrix_of(load);
    const Type *t = v->type;
    int axis = roles_unit_axis(c, load), bytes = dtype_bytes(t->dtype);
    int32_t tile[2] = { (int32_t)t->shape[0], (int32_t)t->shape[1] };
    const Use *u = roles_product_of(v);
    bool product = roles_from_stage(c, load), is_a = product && u == &u->user->operands[0];
    int k_axis = !product ? axis : is_a ? 1 : 0;
    bool transposed = product && u->value != v && u->value->def && u->value->def->op == OP_PERMUTE;
    if (transposed) k_axis = 1 - k_axis;
    if (u && u->value->def && u->value->def->op == OP_SLICE)
        tile[1 - k_axis] = (tile[1 - k_axis] + 7) / 8 * 8; /* atoms of 8 rows */
    if (is_a && !transposed && tile[0] < 64)
        tile[0] = 64; /* Rows of the tile below the loaded rows become rows that no consumer reads. */
    const LayoutShared *s = layout_wgmma_shared(
        &c->s->arena, tile, k_axis, axis, bytes, product && bytes == 2 ? roles_panel_bytes(c, load) : 0);
    if (!s && !product) s = few_rows(c, tile, axis, bytes);
    if (!s) return NULL;
    return type_shared(
        c->s, t->dtype, 2, (int64_t[]){ tile[0], tile[1] }, layouts_shared_text(&c->p->layouts, s));
}

int64_t kernel_ring_align(const LayoutShared *s) { return s->rank == 1 ? 128 : 1024; }

int64_t kernel_ring_bytes(const LayoutShared *s)
{
    int64_t align = kernel_ring_align(s);
    return ((int64_t)s->bytes + align - 1) / align * align;
}

static int64_t view_bytes(Roles *c, const Type *t)
{ return kernel_ring_bytes(layouts_shared(&c->p->layouts, t)); }

static int64_t whole_kilobytes(int64_t bytes) { return (bytes + 1023) / 1024 * 1024; }

/* The memory that so many more stages of this view take. Rings of vectors lie behind each other; what follows
 * them begins at a whole kilobyte. */
static int64_t more_bytes(Roles *c, const Type *view, int stages)
{
    int64_t vectors = 0, more = stages * view_bytes(c, view);
    if (view->rank > 1) return more;
    for (size_t k = 0; k < c->rings.len; k++)
        if (c->rings.data[k].view->rank == 1 && c->rings.data[k].loads)
            vectors += c->rings.data[k].depth * view_bytes(c, c->rings.data[k].view);
    return whole_kilobytes(vectors + more) - whole_kilobytes(vectors);
}

Instr *roles_last_product(const Instr *load)
{
    const Block *b = load->block;
    const Value *matrix = roles_matrix_of(load);
    Instr *last = ir_last_use_in(b, matrix);
    for (const Use *u = matrix->uses; u; u = u->next) {
        if (u->user->op != OP_SLICE && u->user->op != OP_PERMUTE) continue;
        Instr *l = ir_last_use_in(b, ir_result(u->user)), *i = last;
        while (i && i != l) i = i->next;
        if (i) last = l;
    }
    return last;
}

static bool loads_of(const void *param, const Instr *i)
{ return i->op == OP_LOAD && ir_operand(i, 0)->index == *(const int *)param; }

/* Whether the stage is held while a loop or a branch takes other stages for the same tensor. Stages of one
 * ring must be released in the order in which they were taken, so the load then has a ring of its own. */
static bool held_across(Roles *c, const Instr *load)
{
    const int param = ir_operand(load, 0)->index;
    const Instr *last = roles_from_stage(c, load) ? roles_last_product(load) : NULL;
    for (const Instr *i = last ? load->next : NULL; i; i = i == last ? NULL : i->next)
        for (int k = 0; k < i->n_blocks; k++)
            if (ir_any_in(i->blocks[k], loads_of, &param)) return true;
    return false;
}

Ring *roles_ring(Roles *c, const Instr *load)
{
    const Type *view = view_type(c, load);
    int param = ir_operand(load, 0)->index;
    bool by_cp_async = roles_by_cp_async(c, load), own = by_cp_async || held_across(c, load);
    for (size_t k = 0; k < c->rings.len; k++) {
        const Ring *r = &c->rings.data[k];
        if (own ? r->of == load : !r->own && r->param == param && r->view == view) return &c->rings.data[k];
    }
    vec_push(&c->s->arena, &c->rings,
        ((Ring){
            .param = param, .view = view, .depth = 1, .by_cp_async = by_cp_async, .own = own, .of = load }));
    return &c->rings.data[c->rings.len - 1];
}

void roles_take(Roles *c, Instr *load, TakenBy by, size_t at)
{
    vec_push(&c->s->arena, &c->taken, ((TakenLoad){ by, at }));
    load->mark = (uint32_t)c->taken.len;
}

const TakenLoad *roles_taken(const Roles *c, const Instr *load)
{ return load->op == OP_LOAD && load->mark ? &c->taken.data[load->mark - 1] : NULL; }

Ring *roles_taken_ring(Roles *c, const Instr *load) { return &c->rings.data[roles_taken(c, load)->at]; }

static bool in_loop_with_product(const Instr *load)
{
    const Instr *p = load->block->parent;
    for (const Use *u = roles_matrix_of(load)->uses; u; u = u->next)
        if (u->user->block == load->block && p && p->op == OP_FOR) return true;
    return false;
}

static int products_of(const Value *matrix, const Block *step)
{
    int n = 0;
    for (const Use *u = matrix->uses; u; u = u->next)
        if (u->user->op == OP_SLICE || u->user->op == OP_PERMUTE) n += products_of(ir_result(u->user), step);
        else n += u->user->block == step && op_family(u->user->op) == OPS_PRODUCT;
    return n;
}

static void deepen(Roles *c, Ring *r, int depth, bool inner, int64_t limit, int64_t *used)
{
    int per = r->loads > 0 ? r->loads : 1; /* the number of stages that a step takes at once */
    int64_t more = more_bytes(c, r->view, per);
    if (r->asked || r->inner != inner || r->depth != (depth - 1) * per || *used + more > limit) return;
    r->depth = depth * per;
    *used += more;
}

/* Gives the ring the number of stages that the schedule asks for. */
static void asked_stages(Roles *c, Ring *r, const Decision *d, int64_t *used)
{
    if (r->asked && r->asked->n[0] != d->n[0]) {
        schedule_refuse(
            c->p, d, "this load shares a ring of %d stages with another load of the tensor", r->asked->n[0]);
        return;
    }
    if (r->asked) return;
    r->asked = d;
    *used += more_bytes(c, r->view, d->n[0]);
    r->depth = d->n[0];
    r->loads += r->view->rank == 1;
}

/* Whether an access to memory takes the integers, or what is computed from them: as positions of a load the
 * producer reads them itself. */
static bool is_position(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        if (op_family(i->op) == OPS_MEMORY) return true;
        if (op_is_pure(i->op) && !i->n_blocks && i->n_results == 1 &&
            dtype_is_int(ir_result(i)->type->dtype) && is_position(ir_result(i)))
            return true;
    }
    return false;
}

/* Whether a reshape makes a matrix or a vector of the tile. A reshape to more axes prepares a repetition or a
 * join of its elements (transpose-products). */
static bool merges(const Instr *i) { return i->op == OP_RESHAPE && ir_result(i)->type->rank <= 2; }

/* Whether the load wants buffers: it asks for them, or it says nothing, and a product waits for it. */
static bool wants_ring(const Instr *load)
{
    int64_t latency = ir_attr_int(load, ATTR_LATENCY, 0);
    return latency >= 2 || (!latency && kernel_computes_operand(ir_result(load)));
}

/* Whether all uses of the value make it a factor of rows: it becomes a column, which multiplies. left: how
 * many uses are looked at. */
static bool only_factor_of_rows(const Value *v, int *left)
{
    for (const Use *u = v->uses; u; u = u->next) {
        if (--*left < 0) return false;
        const Instr *i = u->user;
        const Type *t = i->n_results == 1 ? ir_result(i)->type : NULL;
        bool column = t && t->kind == TYPE_TILE && t->rank == 2 && t->shape[1] == 1;
        if (column ? (i->op != OP_RESHAPE && i->op != OP_MUL) || !only_factor_of_rows(ir_result(i), left)
                   : i->op != OP_BROADCAST && i->op != OP_MUL)
            return false;
    }
    return v->uses;
}

/* Registers of a thread for the sum of a product, with a consumer for each 64 rows, or two. */
static int64_t words_of_sum(const Type *t)
{
    int64_t rows = t->shape[0] / 64;
    return type_elements(t) / (128 * (rows < 1 ? 1 : rows > 3 ? 2 : rows));
}

/* Whether the vector scales the rows of products that begin sums of their own, whose results no product of
 * the step takes: a thread needs a few elements of it behind the wait for the product, which prefetch.c loads
 * some steps ahead, and so waits for no stage. */
static bool scales_rows(const Roles *c, const Instr *load)
{
    bool beside = false;
    int left = MOST_USES;
    for (size_t k = 0; k < c->products.len; k++) {
        const Instr *x = c->products.data[k];
        if (ir_attr_int(x, ATTR_CHAINED, 0) || !kernel_is_zero(ir_operand(x, 2))) return false;
        if (2 * words_of_sum(ir_result(x)->type) > MOST_SUMS) return false;
        beside |= x->block == load->block;
    }
    return beside && roles_is_vector(load) && only_factor_of_rows(ir_result(load), &left);
}

/* A load to registers also gets a ring if it wants buffers or is a vector, and the smallest rings leave room,
 * or if a schedule asks for it. Each thread would wait for a vector in each step, or hold it in registers for
 * a step; the producer fetches it ahead for the whole CTA. */
static void ring_beside(Roles *c, Instr *i, int64_t limit, int64_t *used)
{
    const Decision *d = schedule_asked_load(c->p, i);
    if (d && (d->form == LOAD_MULTISTAGE || d->form == LOAD_STAGES_CP_ASYNC))
        schedule_refuse(c->p, d, "beside products of wgmma a load goes through a ring, or to registers");
    bool vector = roles_is_vector(i) && !scales_rows(c, i) &&
                  !(dtype_is_int(ir_result(i)->type->dtype) && is_position(ir_result(i)));
    if (d ? d->form != LOAD_STAGES : !vector && !wants_ring(i)) return;
    bool plain = (vector || ir_result(i)->type->rank == 2) && ir_is_used(i);
    for (const Use *u = ir_result(i)->uses; u && !vector; u = u->next) plain &= !merges(u->user);
    c->why = NULL;
    const Type *view = plain && roles_tma_window(c, i) && roles_control_fits(c, i) ? view_type(c, i) : NULL;
    if (d && (!view || d->n[0] < 1))
        schedule_refuse(c->p, d, "TMA does not fetch this tile into a ring: %s",
            c->why ? c->why : "it takes rows of two axes in multiples of 16 bytes, and at least one stage");
    int64_t more = view ? more_bytes(c, view, 1) : 0;
    if (!view || (!d && *used + more > limit)) return;
    Ring *r = roles_ring(c, i);
    r->inner = true;
    if (d) asked_stages(c, r, d, used);
    else {
        *used += more;
        r->depth = ++r->loads;
    }
    vec_push(&c->s->arena, &c->loads, i);
}

/* In the loop of a product and in the loops around it. */
static void add_register_loads(Roles *c, int64_t limit, int64_t *used)
{
    const char *why = c->why; /* Loads that remain loads to registers are no failure. */
    for (size_t k = 0; k < c->products.len; k++)
        for (const Block *body = c->products.data[k]->block; body->parent && body->parent->op == OP_FOR;
            body = body->parent->block)
            for (Instr *i = body->first; i; i = i->next) {
                bool known = i->op != OP_LOAD || ir_result(i)->type->kind != TYPE_TILE;
                for (size_t l = 0; l < c->loads.len; l++) known |= c->loads.data[l] == i;
                if (!known) ring_beside(c, i, limit, used);
            }
    c->why = why;
}

static const Decision *some_asked(const Roles *c)
{
    for (size_t k = 0; k < c->rings.len; k++)
        if (c->rings.data[k].asked) return c->rings.data[k].asked;
    return NULL;
}

/* Whether the loads of some rings of loops ask for another latency than those of others, so that each ring
 * has the number of stages that its own loads ask for. The hint `stages` holds for all rings. */
static bool latencies_differ(const Roles *c)
{
    int first = 0;
    if (c->f->hints.stages > 0) return false;
    for (size_t k = 0; k < c->rings.len; k++) {
        const Ring *r = &c->rings.data[k];
        if (!r->inner || r->latency < 2) continue;
        if (first && r->latency != first) return true;
        first = r->latency;
    }
    return false;
}

/* The bytes that a second stage takes of each ring of a loop. */
static int64_t second_stages(Roles *c)
{
    int64_t bytes = 0;
    for (size_t k = 0; k < c->rings.len; k++) {
        const Ring *r = &c->rings.data[k];
        if (r->inner && !r->asked) bytes += more_bytes(c, r->view, r->loads > 0 ? r->loads : 1);
    }
    return bytes;
}

/* Gives the rings their stages: two for the inner loop's rings, and a third where several products read a
 * stage, which the step gives back late; two for the others, so that the operands of the next tile arrive
 * during this one; then two buffers for each warp's bulk store, which are worth more
 * than a third stage (bench/notes/decisions.md: results staged and stored by TMA); then one more for each
 * inner ring in turn, as long as memory lasts. Where a step of a whole loop is one product, a third and a
 * fourth stage are worth more than a second buffer. Returns the stages of the deepest inner ring. */
static int deepen_rings(Roles *c, int64_t limit, int most, int64_t *used)
{
    enum { BEFORE_BUFFERS = 4 }; /* stages of plain products, before a warp has a second buffer */
    int64_t staged = c->p->store_over_rings ? 0 : c->store_bytes;
    const bool beside = c->p->cluster > 1 && !c->p->parts_over_rings; /* the parts of a divided loop */
    const bool adds = roles_adds_a_tile(c);
    /* Where warpgroups share all products, each adds as many boxes as it has columns: registers would go to
     * memory word by word. */
    const bool first = c->by_columns && roles_added_bytes(c);
    const bool plain = c->products.len == 1 && !c->merged.len && !adds && !beside;
    const int64_t least = plain ? staged / 2 : staged;
    int fit = 1;
    bool held = false;
    const bool own = latencies_differ(c);
    for (int depth = 2; depth <= most; depth++) {
        for (size_t k = 0; k < c->rings.len; k++) {
            Ring *r = &c->rings.data[k];
            if (!own || depth <= 2 || r->latency < 2 || depth <= r->latency)
                deepen(c, r, depth, true,
                    depth > 2 || first ? limit - (depth <= BEFORE_BUFFERS ? least : staged) : limit, used);
        }
        for (size_t k = 0; depth == 2 && most > 2 && k < c->rings.len; k++) {
            Ring *r = &c->rings.data[k];
            held |= r->inner && r->held;
            if (r->held) deepen(c, r, 3, true, limit - staged, used);
        }
        /* Buffers of a store that every step waits for come before the next program's operands, and so does
         * one buffer a warp where a third stage does much of what these operands would. */
        int64_t rest = limit - (adds ? staged : held ? staged / 2 : 0);
        if (depth == 2 && c->p->persistent)
            for (size_t k = 0; k < c->rings.len; k++) deepen(c, &c->rings.data[k], 2, false, rest, used);
    }
    for (size_t k = 0; k < c->rings.len; k++)
        if (c->rings.data[k].inner && c->rings.data[k].view->rank > 1 && c->rings.data[k].depth > fit)
            fit = c->rings.data[k].depth;
    return fit;
}

/* The stages that loads ask for by their latency: the most, and where. */
typedef struct AskedStages {
    int most;
    Loc at;
} AskedStages;

/* Puts a load to its ring, with the stages that a schedule asks for; *used grows by the bytes of these and of
 * the staging of cp.async. False: the load cannot go through a ring, or not as it is asked. */
static bool plan_load(Roles *c, const Instr *l, AskedStages *asked, int64_t *used)
{
    if (!view_type(c, l)) return roles_refuse(c, l->loc, "the tile's rows are not multiples of 16 bytes");
    Ring *r = roles_ring(c, l);
    r->inner |= in_loop_with_product(l);
    r->held |= products_of(roles_matrix_of(l), l->block) > 1;
    const Decision *d = schedule_asked_load(c->p, l);
    CpAsyncWay way;
    if (r->by_cp_async && !kernel_cp_async_way(c->f, c->p, l, r->view, &way))
        return roles_refuse(c, l->loc,
            "cp.async producer warps cannot bring a tile of this shape to a stage that wgmma reads");
    if (r->by_cp_async) *used += (int64_t)CP_ASYNC_STAGING * c->p->cp_async_warps * way.staging;
    if (d && d->form == LOAD_STAGES && r->by_cp_async)
        return schedule_refuse(c->p, d, "TMA cannot load this tile: write `stages N by cp_async`");
    if (d && ((d->form != LOAD_STAGES && d->form != LOAD_STAGES_CP_ASYNC) || d->n[0] < 1 ||
                 (d->form == LOAD_STAGES_CP_ASYNC && !r->by_cp_async)))
        return schedule_refuse(c->p, d, "wgmma and TMA take this tile through at least one stage");
    r->loads++;
    if (d) asked_stages(c, r, d, used);
    int want = (int)ir_attr_int(l, ATTR_LATENCY, 0);
    if (want > asked->most && !d) *asked = (AskedStages){ want, l->loc };
    if (want > r->latency) r->latency = want;
    return true;
}

/* Gives each ring for which no schedule asks a stage for each of its loads. False: one that is asked for has
 * fewer. */
static bool first_stages(Roles *c, int64_t *used)
{
    for (size_t k = 0; k < c->rings.len; k++) {
        Ring *r = &c->rings.data[k];
        if (r->asked && r->depth < r->loads)
            return schedule_refuse(c->p, r->asked,
                "%d loads share this ring, and each may hold a stage while the others wait for theirs",
                r->loads);
        if (r->asked) continue;
        r->depth = r->loads;
        *used += view_bytes(c, r->view) * r->depth;
    }
    return true;
}

/* Where memory beside the partial sums is enough for few stages alone, the sums lie over the rings, and the
 * CTAs of the cluster meet before they send them. The more there are, the longer they wait for the last. */
static void lay_parts_over(Roles *c, int64_t *limit, int most, int64_t *used, int *fit)
{
    enum { PAIR = 2, MANY = 5 /* CTAs */, ENOUGH = 4, ENOUGH_OF_PAIRS = 6 /* stages */, BARRIER = 1024 };
    const int enough = c->p->cluster > PAIR ? ENOUGH : ENOUGH_OF_PAIRS;
    int64_t parts = c->p->parts_bytes - BARRIER, all = *used;
    int *before = arena_array(&c->s->arena, int, c->rings.len + 1);
    if (parts <= 0 || *fit >= most || *fit >= enough || c->p->cluster >= MANY || !roles_parts_may_lie_over(c))
        return;
    for (size_t k = 0; k < c->rings.len; k++) before[k] = c->rings.data[k].depth;
    c->p->parts_over_rings = true;
    int deeper = deepen_rings(c, *limit + parts, most, &all);
    if (deeper > *fit && all >= parts) {
        *limit += parts;
        *used = all;
        *fit = deeper;
        return;
    }
    c->p->parts_over_rings = false;
    for (size_t k = 0; k < c->rings.len; k++) c->rings.data[k].depth = before[k];
}

/* Whether the rings lie one behind the other without gaps. */
static bool is_one_run(Roles *c)
{
    enum { ALIGNED = 1024 }; /* bytes: where a ring begins (layout_wgmma_shared) */
    for (size_t k = 0; k < c->rings.len; k++)
        if (view_bytes(c, c->rings.data[k].view) % ALIGNED) return false;
    return true;
}

bool roles_plan_rings(Roles *c)
{
    const int64_t reserve = c->p->options.reserve > 1024 ? c->p->options.reserve : 1024;
    int64_t limit = c->p->target->shared_bytes - c->p->parts_bytes - 1024 - roles_staged_bytes(c) - reserve,
            used = 0;
    AskedStages asked = { 0, c->f->loc };
    for (size_t k = 0; k < c->loads.len; k++)
        if (!plan_load(c, c->loads.data[k], &asked, &used)) return false;
    if (!first_stages(c, &used)) return false;
    if (used > limit && !some_asked(c))
        return roles_refuse(c, c->f->loc, "the tiles do not fit shared memory");
    add_register_loads(c, limit, &used);
    if (used > limit)
        return schedule_refuse(c->p, some_asked(c),
            "rings of %lld bytes do not fit: %lld bytes of shared memory are left for them", (long long)used,
            (long long)limit);
    int most = c->f->hints.stages > 0 ? c->f->hints.stages : asked.most > 4 ? asked.most : 4;
    c->store_bytes = roles_store_bytes(c);
    int64_t added = c->by_columns ? roles_added_bytes(c) : 0;
    if (added > c->store_bytes && used + second_stages(c) + added <= limit) c->store_bytes = added;
    c->p->store_over_rings = c->store_bytes > 0 && is_one_run(c) && roles_store_may_lie_over(c);
    int fit = deepen_rings(c, limit, most, &used);
    /* With fewer stages than the buffers take, few are asked for, and there is room beside the rings. */
    c->p->store_over_rings &= used >= c->store_bytes;
    lay_parts_over(c, &limit, most, &used, &fit);
    for (size_t k = 0; k < c->rings.len; k++)
        if (c->rings.data[k].by_cp_async && kernel_parts(c->rings.data[k].of, NULL) &&
            c->rings.data[k].depth < 2)
            return roles_refuse(c, c->rings.data[k].of->loc,
                "rows at arbitrary addresses need two stages: one is filled while the other one arrives");
    /* The limit leaves a kilobyte for mbarriers and the tile scheduler. */
    c->p->spare_shared = c->p->store_over_rings ? used : limit - used;
    c->p->beside_rings = limit - used + reserve;
    if (fit < asked.most && fit < most)
        diag_perf(c->s, asked.at, "%d buffers a load were asked for, %d fit shared memory", asked.most, fit);
    return true;
}
