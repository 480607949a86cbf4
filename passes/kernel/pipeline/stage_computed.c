/* stage_computed.c: of multistage: loads of a loop from which an operand of a product is computed, such as
 * codes of 8 bits that become numbers, or rows that are normalized. Their tiles come through rings as
 * operands do, and are read from there to registers where the load stood.
 *
 *   for i { %x = load X[..i..]; %w = cast %x; %c = mma_sync %a, %w, %acc }
 *
 * becomes, with the copies of multistage.c,
 *
 *   for i carrying stage { ...; %x = shared_read (view of this stage); %w = cast %x; ... }
 *
 * A tile in registers would be waited for in each step, since registers are too few to hold the one of the
 * next step beside it. */
#include "passes/kernel/pipeline/multistage.h"

/* The tiles that are computed from one, each once. */
enum { MOST_FOLLOWED = 256 };

typedef struct Followed {
    const Value *all[MOST_FOLLOWED];
    int n;
} Followed;

static bool computes_operand(Followed *x, const Value *v)
{
    for (int k = 0; k < x->n; k++)
        if (x->all[k] == v) return false;
    if (x->n == MOST_FOLLOWED) return false;
    x->all[x->n++] = v;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        if (i->op == OP_MMA_SYNC && u != &i->operands[2]) return true;
        if ((op_is_elementwise(i->op) || i->op == OP_BROADCAST || i->op == OP_PERMUTE ||
                i->op == OP_RESHAPE || i->op == OP_CONCAT) &&
            i->n_results == 1 && computes_operand(x, ir_result(i)))
            return true;
    }
    return false;
}

/* Whether an operand of a product is computed from the tile by element-wise operations, repetition and
 * joins. */
bool kernel_computes_operand(const Value *v) { return computes_operand(&(Followed){ .n = 0 }, v); }

/* Steps of a walk back from an operand. Each use of a value counts. */
enum { MOST_STEPS = 256, NARROWEST = 4 /* bytes, of cp.async */ };

typedef struct Sources {
    const Block *body;
    InstrList *loads;
    Session *s;
    int left;
} Sources;

/* Whether v is computed in the body of loads alone, not of what other products give or the loop carries; the
 * loads go to the list. */
static bool from_loads(Sources *x, Value *v)
{
    if (ir_defined_outside(v, x->body) || v->type->kind == TYPE_SCALAR) return true;
    Instr *i = v->def;
    if (--x->left < 0 || !i || i->block != x->body || i->n_blocks) return false;
    if (i->op == OP_LOAD) {
        vec_push(&x->s->arena, x->loads, i);
        return true;
    }
    if (op_family(i->op) == OPS_PRODUCT || !op_is_pure(i->op)) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (!from_loads(x, ir_operand(i, k))) return false;
    return true;
}

/* Whether its tile can lie in a ring: a matrix that cp.async copies. */
static bool has_ring(Staging *c, const Instr *load)
{
    const Decision *d = schedule_asked_load(c->p, load);
    return (!d || d->form == LOAD_STAGES) && !stage_in_place(c, load) && stage_may(load) &&
           ir_result(load)->type->rank == 2 && stage_runs_ahead(load) &&
           kernel_access_bytes(c->f, load) >= NARROWEST;
}

/* Whether each part of the window has a position of its own. Only copies to shared memory follow these. */
bool stage_has_positions(const Instr *load)
{
    MemParts m;
    for (int a = 0; ir_mem_parts(load, &m) && a < m.rank; a++)
        if (m.idx[a]->type->kind == TYPE_TILE) return true;
    return false;
}

static bool listed(const InstrList *l, const Instr *i)
{
    for (size_t k = 0; k < l->len; k++)
        if (l->data[k] == i) return true;
    return false;
}

void stage_computed_loads(Staging *c)
{
    InstrList products = { 0 }, found = { 0 }, all = { 0 };
    if (stage_amd(c) || !target_has(c->p->target, TF_CP_ASYNC)) return;
    ir_collect(&c->s->arena, c->f->body, OP_LOAD, &all);
    for (size_t k = 0; k < all.len; k++)
        if (!listed(&c->loads, all.data[k]) && stage_has_positions(all.data[k]))
            vec_push(&c->s->arena, &c->loads, all.data[k]);
    ir_collect(&c->s->arena, c->f->body, OP_MMA_SYNC, &products);
    for (size_t k = 0; k < products.len; k++)
        for (int side = 0; side < 2; side++) {
            Instr *product = products.data[k];
            if (!strcmp(ir_attr(product, ATTR_INSTR)->s, "fma")) continue;
            InstrList loads = { 0 };
            Sources x = { product->block, &loads, c->s, MOST_STEPS };
            if (!from_loads(&x, ir_operand(product, side))) continue;
            for (size_t j = 0; j < loads.len; j++) vec_push(&c->s->arena, &found, loads.data[j]);
        }
    for (size_t j = 0; j < found.len; j++)
        if (!listed(&c->loads, found.data[j]) && has_ring(c, found.data[j]))
            vec_push(&c->s->arena, &c->loads, found.data[j]);
}

bool stage_is_operand(const Instr *load)
{
    for (const Use *u = stage_matrix_of(load)->uses; u; u = u->next)
        if ((u->user->op != OP_MMA_SYNC || u == &u->user->operands[2]) && !stage_is_exchanged_operand(u))
            return false;
    return true;
}

void stage_read(Staging *c, Instr *load, Value *view)
{
    Value *tile = stage_matrix_of(load);
    Builder b = ir_before(load);
    if (stage_is_operand(load)) stage_read_exchanged(c, tile, view);
    else view = ir_emit(&b, OP_SHARED_READ, &view, 1, NO_ATTRS, tile->type);
    ir_replace(tile, view);
}
