/* edge-program: programs at the edge of tensors get code of their own, and the others no masks.
 *
 *   %x = load %X[%i*1024] {extents = [1024]}         if ge (N - %i*1024 - 1024), 0 {
 *   store %Y[%i*1024] = f(%x) {..}             ->        %x = load .. {masked = 0} ; store .. {masked = 0}
 *                                                    } else { as before }
 *
 * If an extent is no multiple of a vector, a masked access costs several instructions for each vector, of
 * which the last program alone has need. In a stencil each window costs them, although few programs touch an
 * edge. Those programs take the second block, which is marked as rare.
 *
 * Requires: divisibility before it, which says which accesses are masked and which extents vectors divide;
 * CUDA (on AMD nothing was measured); a body of loads, stores, gathers, element-wise operations and changes
 * of shape, whose masked accesses are in range under at most EDGE_MOST_FORMS conditions. Either LEAST_LOADS
 * of them are loads and there is little arithmetic for each, or there is one condition, on an axis whose
 * extent vectors do not divide, and the grid has one axis. Keeps: everything. Does not handle: masks that are
 * written as comparisons.
 */
#include "passes/tile/program/edge_program.h"

enum {
    VECTOR_BYTES = 16,
    MOST_INSTRS = 256,
    LEAST_LOADS = 5, /* masked ones, whose masks cost more than the test of a program */
    MOST_WORK = 8    /* of an element for each of them: else masks hardly show, and code twice as long does */
};

bool edge_add_form(Edge *e, const Affine *form)
{
    int64_t apart;
    for (int k = 0; k < e->n; k++)
        if (affine_apart(form, &e->within[k], &apart)) {
            if (apart < 0) e->within[k] = *form;
            return true;
        }
    if (e->n == EDGE_MOST_FORMS) return false;
    e->within[e->n++] = *form;
    return true;
}

/* Whether rows end between two vectors. */
static bool cuts_vectors(const Func *f, const MemParts *p, int axis)
{
    const Param *q = &f->params[p->param];
    const Dim *d = &f->dims[q->dims[axis]];
    int64_t bytes = dtype_bytes(q->type->dtype), known = d->extent > 0 ? d->extent : d->div;
    return q->stride[axis] == 1 && bytes < VECTOR_BYTES && known * bytes % VECTOR_BYTES != 0;
}

bool edge_take_window(Edge *e, Instr *i)
{
    MemParts p;
    bool any = false;
    if (!ir_mem_parts(i, &p)) return true;
    if (i->op != OP_LOAD && i->op != OP_STORE) return true;
    if (!ir_attr_int(i, ATTR_MASKED, 1)) return true;
    for (int a = 0; a < p.rank; a++) {
        Affine low, high;
        if (!window_forms(e->facts, i, a, &low, &high)) return false;
        const bool starts = !prove_nonneg(e->facts, &low), ends = !prove_nonneg(e->facts, &high);
        if ((starts && !edge_add_form(e, &low)) || (ends && !edge_add_form(e, &high))) return false;
        any |= starts || ends;
        e->starts |= starts;
        e->cuts |= ends && cuts_vectors(e->f, &p, a);
    }
    if (!any) return true;
    e->steps |= ir_attr(i, ATTR_STEPS) != NULL;
    e->loads += i->op == OP_LOAD;
    vec_push(e->c->scratch, &e->windows, i);
    return true;
}

static bool one_axis(const Func *f)
{
    const Instr *end = f->grid ? ir_terminator(f->grid) : NULL;
    int64_t n, many = 0;
    for (int a = 0; end && a < end->n_operands; a++) many += !ir_is_const(ir_operand(end, a), &n) || n != 1;
    return many == 1;
}

/* Operations that cost no more if they are there twice: nothing crosses threads, and nothing waits. */
static bool is_light(const Instr *i)
{
    OpFamily family = op_family(i->op);
    if (family == OPS_MEMORY) return i->op == OP_LOAD || i->op == OP_STORE || i->op == OP_GATHER;
    return !i->n_blocks && (family <= OPS_SHAPE || family == OPS_TERMINATOR);
}

static bool is_straight(const Block *b)
{
    int n = 0;
    for (const Instr *i = b->first; i; i = i->next, n++)
        if (!is_light(i)) return false;
    return n <= MOST_INSTRS;
}

/* Puts what is behind `from` into both blocks of an `if`. Tokens of the kernel's entry stay in front. */
static void divide(Edge *e, Value *cond)
{
    Block *body = e->f->body;
    Instr *end = ir_terminator(body);
    Builder b = ir_before(end);
    Instr *both = ir_build(&b, OP_IF, &cond, 1, ATTRS(a_int(ATTR_RARE, 1)), NULL, 0);
    ValueMap map;
    value_map_init(&map, e->c->scratch);
    Builder edge = ir_at_end(both->blocks[1]), whole = ir_at_end(both->blocks[0]);
    for (const Instr *i = cond->def->next; i != both; i = i->next)
        if (i->op != OP_TOKEN) ir_clone(&edge, i, &map);
    for (Instr *i = cond->def->next, *next; i != both; i = next) {
        next = i->next;
        if (i->op == OP_TOKEN) continue;
        ir_unlink(i);
        ir_place(&whole, i);
    }
    for (size_t k = 0; k < e->windows.len; k++) /* what is in front of the conditions keeps its mask */
        if (e->windows.data[k]->block != body)
            ir_set_attr(e->c->session, e->windows.data[k], a_int(ATTR_MASKED, 0));
    ir_build(&edge, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    ir_build(&whole, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
}

/* The conditions go in front of the first instruction behind those that compute the atoms of their forms.
 * NULL: one is no number of the launch and not computed in the body. */
static Instr *behind_atoms(const Edge *e)
{
    Instr *at = e->f->body->first;
    for (int k = 0; k < e->n; k++)
        for (int n = 0; n < e->within[k].n; n++) {
            const Value *v = e->within[k].terms[n].atom;
            if (!v->def || (op_family(v->def->op) != OPS_LAUNCH && v->def->block != e->f->body)) return NULL;
        }
    for (Instr *i = at; i; i = i->next)
        for (int k = 0; k < e->n; k++)
            for (int n = 0; n < e->within[k].n; n++)
                if (e->within[k].terms[n].atom->def == i && op_family(i->op) != OPS_LAUNCH) at = i->next;
    return at;
}

static Value *all_within(const Edge *e, Builder *b)
{
    Value *all = NULL;
    for (int k = 0; k < e->n; k++) {
        Value *room = affine_emit(b, &e->within[k]),
              *in = ir_bin(b, OP_GE, room, build_int(b, room->type, 0));
        all = all ? ir_bin(b, OP_AND, all, in) : in;
    }
    return all;
}

/* The simple instructions that the body takes for an element of its tiles. */
static int64_t work_of(const Block *b)
{
    int64_t work = 0;
    for (const Instr *i = b->first; i; i = i->next)
        if (i->n_results && i->results[0].type->kind == TYPE_TILE && op_info[i->op].flags & OPF_ELEM)
            work += op_info[i->op].cost;
    return work;
}

static bool pays(const Edge *e)
{
    if (e->gathers.len) return true; /* which take an address and a test for each element */
    if (e->n == 1 && !e->starts && e->cuts && one_axis(e->f)) return true;
    return e->loads >= LEAST_LOADS && !e->steps && work_of(e->f->body) <= MOST_WORK * e->loads;
}

static bool is_loaded(const Edge *e, const Instr *i)
{
    for (size_t k = 0; k < e->loaded.len; k++)
        if (e->loaded.data[k] == i) return true;
    return false;
}

static bool edge_func(PassContext *c, Func *f)
{
    Edge e = { .c = c, .f = f };
    if (!c->options->target || c->options->target->kind != TARGET_CUDA || !f->is_kernel || f->remap ||
        f->hints.schedule || !is_straight(f->body))
        return false;
    e.facts = facts_new(c->scratch, f);
    edge_find_gathers(&e);
    for (Instr *i = f->body->first; i; i = i->next)
        if (!is_loaded(&e, i) && !edge_take_window(&e, i)) return false;
    Instr *at = e.n && pays(&e) ? behind_atoms(&e) : NULL;
    if (!at) return false;
    Builder b = ir_before(at);
    divide(&e, all_within(&e, &b));
    edge_load_gathers(&e);
    pass_count(c, "accesses without masks but in programs at an edge", (int64_t)e.windows.len);
    return true;
}

bool pass_edge_program(PassContext *c, Module *m) { return pass_each_func(c, m, edge_func); }
