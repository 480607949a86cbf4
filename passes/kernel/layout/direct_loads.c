/* direct-loads: small tiles are loaded into the layout in which they are read. A step of layout.
 *
 *   %x = load X[%i, 0] : i8[16]@A                  %x = load X[%i, 0] : i8[16]@C
 *   %y = cast %x : f32[16]@A                       %y = cast %x : f32[16]@C
 *   %z = reshape %y : f32[4, 2, 2]@B       ->      %z = reshape %y : f32[4, 2, 2]@B
 *
 * The layout of a load is chosen for its accesses: vectors of neighbouring lanes. What reads a small tile,
 * such as scales, high bits or a row that all lanes need, often wants it in another one, with copies in many
 * lanes. The way there is an exchange or a detour through shared memory, with barriers where other warps take
 * part, in each step of a loop. A lane that loads what it reads needs neither: the other lanes' accesses
 * bring the same sectors. C is B taken back through the reshape, which then moves nothing.
 *
 * Requires: CUDA; no producer warps or clusters; a load without a mask or a token, that operations of one
 * operand, reshapes and one conversion alone read, one after the other; a few accesses, which fill the
 * sectors that they touch and cost less than the way that they replace. Keeps: everything. */
#include "passes/kernel/layout/groups.h"

enum {
    MOST_STEPS = 8,    /* from the load to what is moved */
    MOST_ACCESSES = 4, /* of a lane */
    MOST_BYTES = 16,   /* that a lane holds */
    ACCESS = 3,        /* issue slots: with its address and its share of L1 */
    BARRIER = 20,      /* of all warps */
};

static const Layout *layout_of(Layouter *c, const Value *v) { return layouts_get(&c->p->layouts, v->type); }

static const Layout *with_shape(Layouter *c, const Layout *l, const Type *t)
{
    int32_t tile[TILE_MAX_RANK];
    for (int a = 0; a < t->rank; a++) tile[a] = (int32_t)t->shape[a];
    return layout_reshape(&c->s->arena, l, t->rank, tile);
}

/* What alone reads the value and hands its elements on, each at its own place; NULL. */
static Instr *next_step(const Value *v)
{
    Instr *i = v->uses && !v->uses->next ? v->uses->user : NULL;
    if (!i || i->n_operands != 1 || i->n_results != 1 || i->n_blocks || i->block != v->def->block ||
        (!op_is_elementwise(i->op) && i->op != OP_RESHAPE && i->op != OP_CONVERT))
        return NULL;
    return ir_result(i)->type->kind == TYPE_TILE && ir_result(i)->type->layout ? i : NULL;
}

/* How the instruction moves elements to its result; NULL: it moves none, or in no known way. */
static const LayoutConvert *moves(Layouter *c, const Instr *i)
{
    const Value *x = ir_operand(i, 0), *r = ir_result(i);
    if (i->op != OP_RESHAPE && i->op != OP_CONVERT) return NULL;
    const Layout *from = layout_of(c, x), *l = i->op == OP_RESHAPE ? with_shape(c, from, r->type) : from;
    int bytes = dtype_bytes(r->type->dtype);
    if (!l || layout_convert_renames(&c->s->arena, l, layout_of(c, r), bytes)) return NULL;
    const LayoutConvert *way = layout_convert(&c->s->arena, l, layout_of(c, r), bytes);
    return way && way->kind > LAYOUT_CONVERT_REGISTERS ? way : NULL;
}

static int accesses(Layouter *c, const Instr *load, const Layout *l)
{
    LayoutVector v;
    int axis, bytes = dtype_bytes(load->results[0].type->dtype);
    kernel_unit_axis(c->f, load, &axis);
    if (axis < 0) return (int)layout_regs(l);
    layout_vector(l, axis, (uint32_t)bytes, (uint32_t)kernel_access_bytes(c->f, load), 16, &v);
    return (int)(layout_regs(l) / v.n);
}

/* Whether a warp's access fills the sectors that it touches, which a few lanes' copies do too. */
static bool fills_sectors(Layouter *c, const Instr *load, const Layout *l)
{
    int axis, bytes = dtype_bytes(load->results[0].type->dtype);
    kernel_unit_axis(c->f, load, &axis);
    return axis >= 0 && (int)layout_regs(l) * bytes <= MOST_BYTES &&
           layouter_sector_use(c, l, axis, bytes, kernel_access_bytes(c->f, load)) >= 90;
}

/* Whether the accesses in the layout cost less than those of the load and the way. */
static bool pays(Layouter *c, const Instr *load, const Layout *l, const LayoutConvert *way, int steps)
{
    const Layout *own = layout_of(c, &load->results[0]);
    int n = accesses(c, load, l), before = accesses(c, load, own);
    int more = ((int)layout_regs(l) - (int)layout_regs(own)) * steps;
    int cost = (int)way->cost + (way->kind == LAYOUT_CONVERT_SHARED && !way->warp_local ? BARRIER : 0);
    return n <= MOST_ACCESSES && n * ACCESS + more < before * ACCESS + cost;
}

static bool load_directly(Layouter *c, Instr *load)
{
    Instr *step[MOST_STEPS];
    const Layout *to[MOST_STEPS];
    const LayoutConvert *way = NULL;
    int n = 0;
    while (n < MOST_STEPS && !way) {
        Instr *i = next_step(n ? ir_result(step[n - 1]) : &load->results[0]);
        if (!i) return false;
        way = moves(c, i);
        step[n++] = i;
    }
    if (!way) return false;
    const Layout *l = layout_of(c, ir_result(step[n - 1]));
    for (int k = n; k-- > 0; to[k] = l)
        if (step[k]->op == OP_RESHAPE && !(l = with_shape(c, l, ir_operand(step[k], 0)->type))) return false;
    if (!fills_sectors(c, load, l) || !pays(c, load, l, way, n - 1)) return false;
    for (int k = 0; k < n; k++) {
        Value *v = ir_operand(step[k], 0);
        v->type = layouts_typed(&c->p->layouts, type_with_layout(c->s, v->type, NULL), to[k]);
    }
    if (step[n - 1]->op == OP_CONVERT) {
        ir_replace(ir_result(step[n - 1]), ir_operand(step[n - 1], 0));
        ir_erase(step[n - 1]);
    }
    return true;
}

static bool may_load_directly(const Instr *load)
{
    MemParts m;
    return load->n_results == 1 && ir_mem_parts(load, &m) && !m.token && !m.mask && !kernel_kept(load) &&
           m.result->type->kind == TYPE_TILE && m.result->type->layout;
}

bool layouter_direct_loads(void *layouter)
{
    Layouter *c = layouter;
    InstrList loads = { 0 };
    bool changed = false;
    if (c->p->target->kind != TARGET_CUDA || c->p->producer_warps || c->p->cluster > 1 ||
        kernel_skips(c->p, PASS_DIRECT_LOADS))
        return false;
    ir_collect(&c->s->arena, c->f->body, OP_LOAD, &loads);
    for (size_t k = 0; k < loads.len; k++)
        changed |= may_load_directly(loads.data[k]) && load_directly(c, loads.data[k]);
    return changed;
}
