/* epilogue-loads: of warp-specialization: a tile that meets the accumulators behind the loop is loaded by
 * TMA through free stages of the operands' ring.
 *
 *   for k { %a = ring_get %ra; %b = ring_get %rb; wgmma .. }
 *   %r = load R[i, j]; store C, (add %acc, %r)
 *
 * becomes
 *
 *   producer:   for k { ring_put %ra, A; ring_put %rb, B }     ring_put %rb, R {count = 2}
 *   consumers:  for k { .. }     %r = ring_read %rb {count = 2}; store C, (add %acc, %r)
 *
 * When the last steps' operands are in flight, the producer only waits for the next program, and the
 * stages that become free meanwhile belong to a ring that the next program needs last. Rows arrive during
 * the last products, without an instruction of a consumer, and ldmatrix reads them in the layout of the
 * accumulators. bench/notes/decisions.md, "Behind the decisions", has measurements.
 *
 * A gather whose rows are consecutive pixels of images (im2col.c), as a residual of a convolution has them,
 * is such a load too.
 *
 * A window of more than two axes comes as the matrix whose rows are all axes but the last one, as a window of
 * an image does that meets the sums of a convolution: TMA writes it to a stage as that matrix. Its uses may
 * be those of the matrix or of the window.
 *
 * Requires: one product, in a loop of the block in which the load is, behind the loop (both roles keep the
 * program's order of stages); a tile or matrix of the accumulators' shape, or of their rows that meets parts
 * of their columns (of_sums.c), in floats of 16 or 32 bits, that TMA can load and that only element-wise
 * operations use; parts side by side that fit a stage each. The tile takes `count` stages, one after the
 * other, whatever the type of the ring's own tiles. In clusters the ring is one that its CTAs do not share
 * (multicast.c), for each has a tile of its own there. Keeps: everything. */
#include "passes/kernel/warp_specialization/im2col.h"
#include "passes/kernel/warp_specialization/warp_specialization.h"

const LayoutShared *kernel_stage_part(Arena *a, int64_t rows, int64_t columns, int parts, int bytes)
{
    int32_t tile[2] = { (int32_t)rows, (int32_t)(columns / parts) };
    return columns % parts ? NULL : layout_wgmma_shared(a, tile, 1, 1, bytes, 0);
}

static int stage_columns(const Instr *read)
{ return (int)(ir_result(read)->type->shape[1] / ir_attr_int(read, ATTR_COUNT, 1)); }

static const Layout *fragments(Session *s, const KernelPlan *p, const Instr *read)
{
    int32_t tile[2] = { (int32_t)ir_result(read)->type->shape[0], stage_columns(read) };
    return layout_mma(&s->arena, kernel_mma_kind(s, ir_attr(read, ATTR_INSTR)->s), LAYOUT_C, 2, tile,
        (int32_t[]){ p->warps / 4, 1 });
}

static const Layout *side_by_side(Session *s, const Instr *read, const Layout *part)
{ return layout_concat(&s->arena, part, 1, (int)ir_attr_int(read, ATTR_COUNT, 1)); }

const Layout *kernel_stage_registers(Session *s, const KernelPlan *p, const Instr *read, const Layout *whole)
{
    const Layout *part = layout_part(&s->arena, whole, 1, stage_columns(read));
    return part && layout_equal(side_by_side(s, read, part), whole) ? part : fragments(s, p, read);
}

const Layout *kernel_stages_registers(Session *s, const KernelPlan *p, const Instr *read, const Layout *own)
{
    const Layout *part = layout_part(&s->arena, own, 1, stage_columns(read)),
                 *whole = part ? side_by_side(s, read, part) : NULL;
    if (whole && layout_equal(side_by_side(s, read, kernel_stage_registers(s, p, read, whole)), whole))
        return whole;
    return side_by_side(s, read, fragments(s, p, read));
}

/* The load's tile as a matrix: the last axis stays, and all others are merged to rows. */
static const Type *matrix_type(Session *s, const Type *t)
{
    int64_t columns = t->shape[t->rank - 1];
    return type_tile(s, t->dtype, 2, (int64_t[]){ type_elements(t) / columns, columns });
}

/* Whether only element-wise operations use the value, or such of its matrix. */
static bool only_elements(const Value *v, const Type *matrix)
{
    for (const Use *u = v->uses; u; u = u->next) {
        const Value *by = u->user->n_results == 1 ? ir_result(u->user) : NULL;
        if (by && u->user->op == OP_RESHAPE && type_same_shape(by->type, matrix) &&
            !type_same_shape(by->type, v->type)) {
            if (!only_elements(by, matrix)) return false;
        } else if (!(op_info[u->user->op].flags & OPF_ELEM) || !type_same_shape(by->type, v->type))
            return false;
    }
    return v->uses != NULL;
}

/* The number of stages of the ring that the load takes; 0: it does not fit them. */
static int parts_for(Roles *c, const Ring *r, const Instr *load)
{
    const Type *t = matrix_type(c->s, ir_result(load)->type);
    if (r->view->rank != 2 || r->shared || r->by_cp_async) return 0;
    int64_t stage = kernel_ring_bytes(layouts_shared(&c->p->layouts, r->view));
    for (int n = 1; n <= r->depth; n *= 2) {
        const LayoutShared *s =
            kernel_stage_part(&c->s->arena, t->shape[0], t->shape[1], n, dtype_bytes(t->dtype));
        if (!s) return 0;
        if ((int64_t)s->bytes <= stage) return n;
    }
    return 0;
}

enum { MOST_STEPS = 8 }; /* of operations between the sums and a tile that meets them */

/* Whether the value is computed of the sums element by element, of parts of their columns too (of_sums.c). */
static bool is_of_sums(const Value *v, const Instr *loop, int steps)
{
    const Instr *i = v->def;
    if (i == loop) return true;
    if (!i || !steps) return false;
    if (!(op_info[i->op].flags & OPF_ELEM) && i->op != OP_SLICE && i->op != OP_RESHAPE && i->op != OP_CONCAT)
        return false;
    for (int k = 0; k < i->n_operands; k++)
        if (is_of_sums(ir_operand(i, k), loop, steps - 1)) return true;
    return false;
}

/* Whether the tile, or what is computed of it, meets the sums of the loop element by element. */
static bool meets_sums(const Value *v, const Instr *loop, int steps)
{
    for (const Use *u = v->uses; u && steps; u = u->next) {
        const Instr *by = u->user;
        if (!(op_info[by->op].flags & OPF_ELEM) || by->n_results != 1) continue;
        for (int k = 0; k < by->n_operands; k++)
            if (is_of_sums(ir_operand(by, k), loop, MOST_STEPS)) return true;
        if (meets_sums(ir_result(by), loop, steps - 1)) return true;
    }
    return false;
}

static bool can_borrow(Roles *c, const Instr *load, const Instr *product)
{
    const Type *t = ir_result(load)->type, *sums = ir_result(product)->type;
    int bytes = dtype_bytes(t->dtype), axis;
    if (t->kind != TYPE_TILE || t->rank < 2 || (bytes != 2 && bytes != 4) || !dtype_is_float(t->dtype))
        return false;
    const Type *matrix = matrix_type(c->s, t);
    Im2col run;
    if (matrix->shape[0] % 64 || matrix->shape[0] != sums->shape[0] ||
        (!type_same_shape(matrix, sums) && !meets_sums(ir_result(load), product->block->parent, MOST_STEPS)))
        return false;
    if (ir_attr(load, ATTR_ORDER) || !only_elements(ir_result(load), matrix) || !roles_tma_window(c, load) ||
        !roles_control_fits(c, load) || (kernel_parts(load, NULL) && !roles_im2col(c, load, &run)))
        return false;
    kernel_unit_axis(c->f, load, &axis);
    return axis == t->rank - 1;
}

/* The load as a tile of the ring of which it takes the fewest stages; parts 0: of none. */
static EpilogueLoad in_stages(Roles *c, Instr *load, const Instr *product)
{
    bool tf32 = ir_attr_int(product, ATTR_PRECISION, 0) == PRECISION_TF32;
    EpilogueLoad e = { .load = load, .instr = roles_instr(ir_operand(product, 0)->type->dtype, tf32) };
    for (size_t k = 0; k < c->rings.len && can_borrow(c, load, product); k++) {
        int n = c->rings.data[k].inner ? parts_for(c, &c->rings.data[k], load) : 0;
        if (n && (!e.parts || n < e.parts)) {
            e.parts = n;
            e.ring = k;
        }
    }
    return e;
}

static void take_load(Roles *c, Instr *load, const Instr *product)
{
    const Decision *d = schedule_asked_load(c->p, load);
    EpilogueLoad e = in_stages(c, load, product);
    if (d && d->form == LOAD_EPILOGUE && e.parts != d->n[0]) {
        if (e.parts) schedule_refuse(c->p, d, "this tile takes %d stages of the operands' ring", e.parts);
        else
            schedule_refuse(c->p, d,
                "the operands' ring has no stages for this tile: it takes tiles of the accumulators' "
                "shape, or of parts of their columns, that TMA can load");
    }
    if (d && d->form == LOAD_REGISTERS && e.parts) schedule_take_load(c->p, load, LOAD_REGISTERS, 0);
    if (!e.parts || (d ? d->form != LOAD_EPILOGUE : kernel_skips(c->p, PASS_EPILOGUE_LOADS))) return;
    schedule_take_load(c->p, load, LOAD_EPILOGUE, e.parts);
    vec_push(&c->s->arena, &c->epilogue, e);
}

/* A gather of pixels becomes the load that it is, if that comes so. */
static void take_gather(Roles *c, Instr *gather, const Instr *product)
{
    Im2col run;
    if (kernel_skips(c->p, PASS_EPILOGUE_LOADS) || !kernel_pixels_in_order(c->f, gather, &run)) return;
    Instr *load = kernel_load_of_gather(c->s, c->f, gather);
    if (!load) return;
    c->n_scalar = 0; /* What is known by value says nothing of the load's offsets. */
    c->ranges = NULL;
    ir_replace(ir_result(gather), ir_result(load));
    EpilogueLoad e = in_stages(c, load, product);
    if (e.parts) {
        ir_set_name(ir_result(load), ir_result(gather)->name);
        ir_erase(gather);
        vec_push(&c->s->arena, &c->epilogue, e);
    } else {
        ir_replace(ir_result(load), ir_result(gather));
        ir_erase(load);
    }
}

bool roles_epilogue_loads(void *roles)
{
    Roles *c = roles;
    if (c->products.len != 1 || c->p->split_k > 1) return false;
    const Instr *product = c->products.data[0], *loop = product->block->parent;
    if (!loop || loop->op != OP_FOR) return false;
    const char *why = c->why;
    for (Instr *i = loop->next, *next; i; i = next) {
        next = i->next;
        if (i->op == OP_LOAD) take_load(c, i, product);
        else if (i->op == OP_GATHER) take_gather(c, i, product);
    }
    c->why = why;
    return c->epilogue.len > 0;
}

void roles_read_epilogue_load(Roles *c, Instr *load, const EpilogueLoad *l)
{
    Builder b = ir_before(load);
    Value *tile = ir_result(load);
    Value *v = ir_emit(&b, OP_RING_READ, &c->rings.data[l->ring].value, 1,
        ATTRS(a_int(ATTR_COUNT, l->parts), a_str(ATTR_INSTR, l->instr)), matrix_type(c->s, tile->type));
    v->name = tile->name;
    for (Use *u = tile->uses, *next; u; u = next) {
        Instr *by = u->user;
        next = u->next;
        if (by->op != OP_RESHAPE) continue;
        ir_replace(ir_result(by), v);
        ir_erase(by);
    }
    if (tile->uses)
        ir_replace(tile, tile->type->rank == 2 ? v : ir_op(&b, OP_RESHAPE, tile->type, NO_ATTRS, v));
    ir_erase(load);
}
