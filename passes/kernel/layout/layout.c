/* layout: gives a layout to every tile that is in registers.
 *
 *   %s = mma_sync %a, %b, %c              ->  f32[128, 64]@#mma<m16n8k16, c, ...>
 *   %m = reduce_max %s {axis = 1}         ->  f32[128, 1]@#slice<axis=1, keep, #mma<...>>
 *
 * Values that meet in element-wise operations, loops and ifs form a group (groups.c). A group gets one
 * family of layouts (family.c): the fragments of its matrix product, or else blocks along the contiguous
 * axis of its widest memory access. Each value gets the family's layout of its own shape. An axis of
 * extent 1 is a slice of the group's box, so that a row's statistic is in the threads that hold its row.
 *
 * Cheap functions of coordinates (masks, index tiles, constants) get no layout: they stay virtual, and
 * each user evaluates them. Where a user needs another layout than a value has, the pass inserts a
 * `convert`, or a `materialize` for virtual tiles and where a user takes a broadcast as a whole
 * (ir/analysis/held.c). Operations that move elements between positions (reshape, permute, concat, slice,
 * sort, scan and so on) take any layouts.
 *
 * Requires: products as matrix instructions, and the plan's number of warps. Keeps: everything. */
#include "passes/kernel/layout/groups.h"
#include "passes/pass.h"

static void assign_all(void *user, Instr *i)
{
    Layouter *c = user;
    for (int k = 0; k < i->n_results; k++) group_assign(c, &i->results[k]);
    for (int b = 0; b < i->n_blocks; b++)
        for (int k = 0; k < i->blocks[b]->n_args; k++) group_assign(c, i->blocks[b]->args[k]);
}

/* --- second walk: operands get the layouts their users need ------------------------------------------ */

static Value *as(Layouter *c, Builder *b, Value *v, const Layout *l)
{
    const Type *t = layouts_typed(&c->p->layouts, type_with_layout(c->s, v->type, NULL), l);
    if (v->type == t) return v;
    if (v->type->layout && layout_equal(layouts_get(&c->p->layouts, v->type), l)) return v;
    if (v->def && v->def->op == OP_CONVERT && ir_operand(v->def, 0)->type == t) return ir_operand(v->def, 0);
    return ir_emit(b, v->type->layout ? OP_CONVERT : OP_MATERIALIZE, &v, 1, NO_ATTRS, t);
}

void layouter_need(Layouter *c, Instr *i, int k, const Layout *l)
{
    Builder b = ir_before(i);
    Value *v = ir_operand(i, k), *w = as(c, &b, v, l);
    if (w != v) ir_set_operand(i, k, w);
}

void layouter_need_any(Layouter *c, Instr *i, int k)
{
    Value *v = ir_operand(i, k);
    if (v->type->kind != TYPE_TILE || v->type->layout) return;
    Group g = { .rank = v->type->rank };
    layouter_need(c, i, k, group_blocked(c, &g, v->type->rank, v->type->shape));
}

/* The result of i is computed in layout `natural`. Its users see the assigned layout. */
void layouter_result_in(Layouter *c, Instr *i, int k, const Layout *natural)
{
    Value *r = &i->results[k];
    const Type *want = r->type,
               *t = layouts_typed(&c->p->layouts, type_with_layout(c->s, want, NULL), natural);
    if (want == t || !want->layout || layout_equal(layouts_get(&c->p->layouts, want), natural)) {
        r->type = t;
        return;
    }
    r->type = t;
    Builder b = ir_after(i);
    Instr *conv = ir_build(&b, OP_CONVERT, &r, 1, NO_ATTRS, &want, 1);
    Value *w = ir_result(conv);
    ir_replace(r, w);
    ir_set_operand(conv, 0, r);
}

static void carried_operands(Layouter *c, Instr *y, int first, Value *const *like, int n)
{
    for (int k = 0; k < n; k++)
        if (like[k]->type->kind == TYPE_TILE)
            layouter_need(c, y, k + first, layouts_get(&c->p->layouts, like[k]->type));
}

static const Layout *fragment(Layouter *c, Instr *mma, int k)
{
    const Type *t = ir_operand(mma, k)->type;
    return group_fragment(c, mma, k, (int32_t[]){ (int32_t)t->shape[0], (int32_t)t->shape[1] });
}

static void fix_combine(Layouter *c, Instr *i)
{
    for (int k = 0; k < i->n_results && !ir_attr(i, ATTR_AXIS); k++)
        layouter_need(c, i, k, layouts_get(&c->p->layouts, i->results[k].type));
    if (!ir_attr(i, ATTR_AXIS)) return;
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0), n = (int)ir_attr_int(i, ATTR_COUNT, 1);
    const Layout *l = layouts_get(&c->p->layouts, ir_result(i)->type),
                 *whole = layout_concat(&c->s->arena, l, axis, n);
    if (!whole) {
        l = group_undivided(c, ir_result(i)->type, axis);
        whole = l ? layout_concat(&c->s->arena, l, axis, n) : NULL;
        if (!whole)
            ir_fail(
                c->s, i->loc, "no layout for the slices of %s", type_string(c->s, ir_operand(i, 0)->type));
        layouter_result_in(c, i, 0, l);
    }
    layouter_need(c, i, 0, whole);
}

static void fix(Layouter *c, Block *blk);

/* Gives all tiles of a gather, scatter or atomic operation one layout. Virtual tiles stay virtual unless all
 * of them are. */
static void fix_indexed(Layouter *c, Instr *i)
{
    LayoutTable *lt = &c->p->layouts;
    const Layout *l = NULL;
    int tile = -1;
    for (int k = 0; k < i->n_results && !l; k++)
        if (i->results[k].type->kind == TYPE_TILE && i->results[k].type->layout)
            l = layouts_get(lt, i->results[k].type);
    for (int k = i->n_operands; k-- > 1 && !l;) {
        const Type *t = ir_operand(i, k)->type;
        if (t->kind != TYPE_TILE) continue;
        tile = k;
        if (t->layout) l = layouts_get(lt, t);
    }
    if (!l && tile >= 0) {
        layouter_need_any(c, i, tile);
        l = layouts_get(lt, ir_operand(i, tile)->type);
    }
    for (int k = 1; l && k < i->n_operands; k++)
        if (ir_operand(i, k)->type->kind == TYPE_TILE && ir_operand(i, k)->type->layout)
            layouter_need(c, i, k, l);
}

/* Tiles that a function combines have one layout, in which positions have an order. For a reduction, this is
 * any layout whose registers, lanes and warps count positions one after another, for a scan one of strips. */
static void fix_combined(Layouter *c, Instr *i)
{
    Arena *a = &c->s->arena;
    LayoutAxisPart parts[LAYOUT_MAX_PARTS];
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0), held = 0;
    while (held < i->n_operands && !ir_operand(i, held)->type->layout) held++;
    if (held == i->n_operands) layouter_need_any(c, i, held = 0);
    const Layout *l = layouts_get(&c->p->layouts, ir_operand(i, held)->type);
    if (i->op == OP_SCAN) l = kernel_scan_layout(a, c->p, ir_operand(i, held)->type, axis);
    else if (layout_axis_parts(l, axis, parts) < 0)
        l = kernel_row_layout(a, c->p, ir_operand(i, 0)->type, axis);
    if (!l) ir_fail(c->s, i->loc, "no layout to combine %s", type_string(c->s, ir_operand(i, 0)->type));
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k)->type->layout) layouter_need(c, i, k, l);
    if (i->op == OP_REDUCE) l = layout_slice(a, l, axis, !ir_attr_int(i, ATTR_DROP, 0));
    for (int k = 0; k < i->n_results; k++)
        if (i->results[k].type->kind == TYPE_TILE) layouter_result_in(c, i, k, l);
}

/* Values that a block passes on have the layout of the arguments and results that they become. */
static void fix_carried(Layouter *c, Instr *i)
{
    Instr *p = i->block->parent;
    if (i->op == OP_FOR) carried_operands(c, i, 3, i->blocks[0]->args + 1, i->n_results);
    if (i->op == OP_WHILE) carried_operands(c, i, 0, i->blocks[0]->args, i->n_results);
    if (i->op == OP_CONDITION) carried_operands(c, i, 1, p->blocks[1]->args, i->n_operands - 1);
    if (i->op != OP_YIELD || !p || op_family(p->op) == OPS_COMBINED) return;
    if (p->op == OP_FOR) carried_operands(c, i, 0, p->blocks[0]->args + 1, p->n_results);
    else if (p->op == OP_WHILE) carried_operands(c, i, 0, p->blocks[0]->args, p->n_results);
    else
        for (int k = 0; k < p->n_results; k++)
            if (p->results[k].type->kind == TYPE_TILE)
                layouter_need(c, i, k, layouts_get(&c->p->layouts, p->results[k].type));
}

static void fix_broadcast(Layouter *c, Instr *i)
{
    const Type *from = ir_operand(i, 0)->type, *to = ir_result(i)->type;
    if (!to->layout) return;
    const Layout *l = layouts_get(&c->p->layouts, to);
    for (int x = 0; x < to->rank; x++)
        if (from->shape[x] == 1 && to->shape[x] != 1) l = layout_slice(&c->s->arena, l, x, true);
    if (from->layout) layouter_need(c, i, 0, l);
}

static void fix_reduced(Layouter *c, Instr *i)
{
    layouter_need_any(c, i, 0);
    const Layout *l = layouts_get(&c->p->layouts, ir_operand(i, 0)->type);
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    if (ir_result(i)->type->kind == TYPE_TILE)
        layouter_result_in(c, i, 0, layout_slice(&c->s->arena, l, axis, !ir_attr_int(i, ATTR_DROP, 0)));
}

static void fix_scanned(Layouter *c, Instr *i)
{
    const Type *t = ir_operand(i, 0)->type;
    const Layout *l = kernel_scan_layout(&c->s->arena, c->p, t, (int)ir_attr_int(i, ATTR_AXIS, 0));
    if (!l) ir_fail(c->s, i->loc, "no layout to scan %s", type_string(c->s, t));
    layouter_need(c, i, 0, l);
    layouter_result_in(c, i, 0, l);
}

/* Sorts in registers where they suffice (backends/gpu/axis/emit_sort.c); the order that a row begins with
 * does not matter. */
static void fix_sorted(Layouter *c, Instr *i)
{
    const Type *t = ir_operand(i, 0)->type;
    int axis = t->rank - 1;
    const Layout *l = kernel_row_layout(&c->s->arena, c->p, t, axis);
    layouter_need_any(c, i, 0);
    if (!l || layout_regs(l) > KERNEL_MOST_SORTED || (i->op == OP_TOPK && !kernel_sorts_largest(i))) return;
    if (!kernel_same_rows(layouts_get(&c->p->layouts, ir_operand(i, 0)->type), l, axis))
        layouter_need(c, i, 0, l);
    if (i->op == OP_SORT) layouter_result_in(c, i, 0, l);
}

static void fix_any(Layouter *c, Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) layouter_need_any(c, i, k);
}

static void fix_same(Layouter *c, Instr *i)
{
    if (!i->n_results || !ir_result(i)->type->layout) return;
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k)->type->layout)
            layouter_need(c, i, k, layouts_get(&c->p->layouts, ir_result(i)->type));
}

typedef struct Stored {
    Layouter *c;
    Instr *store;
    bool bulk;
} Stored;

static bool store_in_bulk(void *user)
{
    Stored *s = user;
    return s->bulk = kernel_bulk_store(s->c->s, s->c->f, s->c->p, s->store);
}

static void fix_stored(Layouter *c, Instr *i)
{
    Stored s = { .c = c, .store = i };
    fix_any(c, i);
    if (c->p->producer_warps) kernel_part(c->p, PASS_BULK_STORE, store_in_bulk, &s);
    if (s.bulk) return;
    layouter_store_layout(c, i);
    layouter_fix_store(c, i);
}

static bool scatter_in_bulk(void *user)
{
    Stored *s = user;
    return s->bulk = kernel_bulk_scatter(s->c->s, s->c->f, s->c->p, s->store);
}

/* A scatter of consecutive pixels becomes a store by TMA. */
static bool fix_scattered(Layouter *c, Instr *i)
{
    Stored s = { .c = c, .store = i };
    if (i->op == OP_SCATTER && c->p->producer_warps) kernel_part(c->p, PASS_BULK_STORE, scatter_in_bulk, &s);
    return s.bulk;
}

static void fix_copy(Layouter *c, Instr *i)
{
    for (int k = 2; k < i->n_operands; k++)
        if (group_takes(ir_operand(i, k)))
            layouter_need(c, i, k,
                kernel_copy_layout(&c->s->arena, i, ir_operand(i, 0)->type, group_copied(c, i),
                    COPIED_AT_ONCE, c->p->target->wave, c->p->warps)
                    .matrix);
}

/* The layout in which a transposed tile of words is where its elements are; NULL: not known. A conversion
 * that follows is free of bank conflicts (swizzle.c). Half words have a way of their own, stmatrix
 * (backends/gpu/layout/emit_transpose.c). */
static const Layout *transposed_in_place(Layouter *c, const Instr *i)
{
    const Type *from = ir_operand(i, 0)->type;
    int32_t axes[TILE_MAX_RANK];
    if (i->op != OP_PERMUTE || from->kind != TYPE_TILE || !from->layout || dtype_bytes(from->dtype) < 4)
        return NULL;
    for (int k = 0; k < from->rank; k++) axes[k] = (int32_t)ir_attr(i, ATTR_ORDER)->v[k];
    return layout_permute(&c->s->arena, layouts_get(&c->p->layouts, from), axes);
}

/* What changes its shape alone, of a value that follows another one (family.c), by a permutation or by
 * joining two tiles, is computed where its elements are, and converted afterwards if need be: a conversion
 * moves vectors, where each operand of a join would be written element by element. */
static void fix_moved(Layouter *c, Instr *i)
{
    const Value *v = ir_operand(i, 0); /* perhaps made by this pass, and then in no group */
    const Group *from = v->id < c->n && group_takes(v) ? group_of(c, v) : NULL;
    bool moves = (from && from->followed) || i->op == OP_CONCAT;
    const Layout *l = moves && ir_result(i)->type->layout ? group_moved(c, i) : NULL;
    if (!l && ir_result(i)->type->layout) l = transposed_in_place(c, i);
    if (l && layout_convert(&c->s->arena, l, layouts_get(&c->p->layouts, ir_result(i)->type),
                 dtype_bytes(ir_result(i)->type->dtype)))
        layouter_result_in(c, i, 0, l);
}

/* A half that warps tell from the other, in the layout that it follows: the whole goes through shared memory
 * once, for both halves. */
static void fix_half(Layouter *c, Instr *i)
{
    const Layout *whole = group_whole_of(c, i);
    LayoutHalf h;
    if (!whole || !layout_equal(layout_half(&c->s->arena, whole, (int)ir_attr_int(i, ATTR_AXIS, 0), &h),
                      layouts_get(&c->p->layouts, ir_result(i)->type)))
        return;
    for (const Use *u = ir_operand(i, 0)->uses; u; u = u->next)
        if (u->user->op == OP_CONVERT && u->user->block == i->block &&
            layout_equal(layouts_get(&c->p->layouts, ir_result(u->user)->type), whole)) {
            ir_set_operand(i, 0, ir_result(u->user));
            return;
        }
    layouter_need(c, i, 0, whole);
}

static void fix_mma(Layouter *c, Instr *i)
{
    LayoutTable *lt = &c->p->layouts;
    if (!strcmp(ir_attr(i, ATTR_INSTR)->s, "fma")) {
        layouter_need(c, i, 2, layouts_get(lt, ir_result(i)->type));
        for (int k = 0; k < 2; k++) layouter_need_any(c, i, k);
        return;
    }
    for (int k = 0; k < 3; k++) {
        Value *v = ir_operand(i, k);
        if (v->type->kind != TYPE_TILE) continue;
        /* AMD: the lanes of a fragment hold 16 bytes along K, so the operand is loaded with its own layout.
         */
        if (k < 2 && c->p->target->kind == TARGET_HIP && v->def && v->def->op == OP_LOAD &&
            ir_use_count(v) == 1)
            v->type = layouts_typed(lt, type_with_layout(c->s, v->type, NULL), fragment(c, i, k));
        layouter_need(c, i, k, fragment(c, i, k));
    }
    layouter_result_in(c, i, 0, fragment(c, i, 2));
    ir_set_attr(c->s, i, a_int(ATTR_COUNT, group_of(c, ir_result(i))->warps[1]));
}

static void fix_wgmma(Layouter *c, Instr *i)
{
    LayoutTable *lt = &c->p->layouts;
    Value *v = ir_operand(i, 0);
    if (!kernel_is_zero(
            ir_operand(i, 2))) /* The first step does not add the accumulator if it is a virtual zero. */
        layouter_need(c, i, 2, layouts_get(lt, ir_result(i)->type));
    if (v->type->kind != TYPE_TILE) return;
    /* The operand is read from a stage for this product alone, in the layout that the product needs. */
    if (v->def && v->def->op == OP_SHARED_READ && ir_use_count(v) == 1)
        v->type = layouts_typed(lt, type_with_layout(c->s, v->type, NULL), fragment(c, i, 0));
    layouter_need(c, i, 0, fragment(c, i, 0));
}

static void fix_ring_read(Layouter *c, Instr *i)
{
    const Layout *own = layouts_get(&c->p->layouts, ir_result(i)->type),
                 *l = kernel_stages_registers(c->s, c->p, i, own);
    if (!layout_equal(l, own)) layouter_result_in(c, i, 0, l);
}

static void fix_instr(Layouter *c, Instr *i)
{
    const Type *type = i->n_results ? ir_result(i)->type : NULL;
    const Layout *own =
        type && type->kind == TYPE_TILE && type->layout ? layouts_get(&c->p->layouts, type) : NULL;
    switch (op_info[i->op].layout) {
    case LAYOUT_RULE_ANY:
        fix_any(c, i);
        if (i->op == OP_TOPK) fix_sorted(c, i);
        if (own && (i->op == OP_SLICE || i->op == OP_CONCAT)) fix_moved(c, i);
        if (own && i->op == OP_SLICE) fix_half(c, i);
        break;
    case LAYOUT_RULE_SAME: fix_same(c, i); break;
    case LAYOUT_RULE_FREE:
    case LAYOUT_RULE_GIVEN: break;
    case LAYOUT_RULE_KEPT:
        if (own) layouter_need(c, i, 0, own);
        break;
    case LAYOUT_RULE_MOVED:
        if (own) layouter_need_any(c, i, 0);
        if (own) fix_moved(c, i);
        break;
    case LAYOUT_RULE_BROADCAST: fix_broadcast(c, i); break;
    case LAYOUT_RULE_REDUCED: fix_reduced(c, i); break;
    case LAYOUT_RULE_COMBINED: fix_combined(c, i); return; /* its block computes elements */
    case LAYOUT_RULE_SCANNED: fix_scanned(c, i); break;
    case LAYOUT_RULE_SORTED: fix_sorted(c, i); break;
    case LAYOUT_RULE_CARRIED: fix_carried(c, i); break;
    case LAYOUT_RULE_LOAD:
        fix_any(c, i);
        layouter_fix_load(c, i);
        break;
    case LAYOUT_RULE_STORE: fix_stored(c, i); break;
    case LAYOUT_RULE_COPY: fix_copy(c, i); break;
    case LAYOUT_RULE_INDEXED:
        if (fix_scattered(c, i)) return;
        fix_indexed(c, i);
        break;
    case LAYOUT_RULE_MMA: fix_mma(c, i); break;
    case LAYOUT_RULE_WGMMA: fix_wgmma(c, i); break;
    case LAYOUT_RULE_CLUSTER: fix_combine(c, i); break;
    case LAYOUT_RULE_RING_READ: fix_ring_read(c, i); break;
    }
    for (int k = 0; k < i->n_blocks; k++) fix(c, i->blocks[k]);
}

static void fix(Layouter *c, Block *blk)
{
    for (Instr *i = blk->first, *next; i; i = next) {
        next = i->next;
        fix_instr(c, i);
    }
}

/* --- third walk: what an operation takes whole is put into registers (ir/analysis/held.c) ------------- */

/* The first product that may be in flight at product i, as far back as its sum is known; i: none is. ptxas
 * waits for those in flight where the registers of another product's sum are written behind their issue.
 * `opaque` keeps the C compiler from writing them there. */
static Instr *first_in_flight(Instr *i)
{
    Instr *first = i;
    for (Instr *x = i->prev; x && x != ir_operand(i, 2)->def; x = x->prev) {
        if (x->op == OP_WGMMA) first = x;
        if (x->op == OP_WGMMA_WAIT && !ir_attr_int(x, ATTR_DEPTH, 0)) break;
    }
    return first;
}

static void hold(void *user, Instr *i)
{
    (void)user;
    for (int k = 0; k < i->n_operands; k++) {
        Value *v = ir_operand(i, k);
        if (!ir_held_operand(i, k) || ir_is_held(v)) continue;
        Instr *at = i->op == OP_WGMMA && k == 2 ? first_in_flight(i) : i;
        Builder b = ir_before(at);
        v = ir_emit(&b, OP_MATERIALIZE, &v, 1, NO_ATTRS, v->type);
        ir_set_operand(i, k, at == i ? v : ir_emit(&b, OP_OPAQUE, &v, 1, NO_ATTRS, NULL));
    }
}

static bool behind_bulk_stores(void *user)
{
    Layouter *c = user;
    return kernel_hand_ends(c->s, c->f) | kernel_bulk_loads(c->s, c->f, c->p);
}

static bool join_loads(void *user)
{
    Layouter *c = user;
    return kernel_join_loads(c->s, c->f, c->p);
}

static bool join_stores(void *user)
{
    Layouter *c = user;
    return kernel_join_stores(c->s, c->f, c->p);
}

static bool densify_windows(void *user)
{
    Layouter *c = user;
    return kernel_densify_windows(c->s, c->f, c->p);
}

static bool slide_windows(void *user)
{
    Layouter *c = user;
    return kernel_slide_windows(c->s, c->f, c->p);
}

static bool record_accesses(void *user)
{
    Layouter *c = user;
    return kernel_record_accesses(c->s, c->f, c->p);
}

bool kernel_pass_layout(KernelContext *k)
{
    Session *s = k->s;
    Func *f = k->f;
    KernelPlan *p = k->p;
    Layouter c = { .s = s, .f = f, .p = p };
    ir_drop_unused(f->body); /* a value that a rotated loop carried for a product that has moved */
    if (!kernel_step(p, PASS_JOIN_LOADS, join_loads, &c)) return true;
    if (!kernel_step(p, PASS_JOIN_GATHERS, layouter_join_gathers, &c)) return true;
    if (!kernel_step(p, PASS_JOIN_STORES, join_stores, &c)) return true;
    group_all(&c);
    if (!kernel_step(p, PASS_PAIRED_ROWS, layouter_pair_rows, &c)) return true;
    ir_walk(f->body, assign_all, &c);
    fix(&c, f->body);
    ir_walk(f->body, hold, NULL);
    p->runner->laid_out = true;
    if (p->producer_warps) kernel_part(p, PASS_BULK_STORE, behind_bulk_stores, &c);
    if (!kernel_step(p, PASS_DENSE_WINDOWS, densify_windows, &c)) return true;
    if (!kernel_step(p, PASS_DIRECT_LOADS, layouter_direct_loads, &c)) return true;
    if (!kernel_step(p, PASS_SLIDING_WINDOWS, slide_windows, &c)) return true;
    kernel_step(p, PASS_UNALIGNED_VECTORS, record_accesses, &c);
    return true;
}
