/* paired-rows (a step of layout): chooses the order in which fragments have the rows of left operands that
 * are computed in registers.
 *
 *   wgmma %w, %b, %s {instr = "wgmma_k16"}   ->   wgmma %w, %b, %s {instr = "wgmma_k16_pairs"}
 *
 * A lane of wgmma's fragment has rows r and r + 8 of a warp's 16. Which rows of the tile these are is free,
 * as long as operand and result agree. As neighbours they lie side by side in a tile that is contiguous along
 * the rows: two words are one access, and bytes come by ldmatrix, which transposes elements of 16 bits and so
 * pairs of bytes.
 *
 * Requires: every product of the kernel takes its left operand from registers, by an instruction with K of
 * 16; no tile that comes through a ring in the order of the result's fragments. Keeps: everything. */
#include "passes/kernel/layout/groups.h"
#include <string.h>

#define PLAIN "wgmma_k16"
#define PAIRS "wgmma_k16_pairs"

typedef struct Choice {
    Layouter *c;
    bool fits;
    int64_t accesses;
} Choice;

static bool is_left(const Group *g) { return g->left || g->to_left; }

static void look(void *user, Instr *i)
{
    Choice *x = user;
    if (i->op == OP_WGMMA_PROMOTED || i->op == OP_MMA_SYNC || i->op == OP_RING_READ) x->fits = false;
    if (i->op != OP_WGMMA) return;
    const Value *a = ir_operand(i, 0);
    x->fits &= !strcmp(ir_attr(i, ATTR_INSTR)->s, PLAIN) && a->type->kind == TYPE_TILE &&
               group_takes_now(x->c, a) && !group_of(x->c, a)->mma;
}

static void set_kind(Layouter *c, Instr *i, const char *name)
{
    ir_set_attr(c->s, i, a_str(ATTR_INSTR, name));
    group_of(c, ir_result(i))->kind = kernel_mma_kind(c->s, name);
}

static void set_pairs(void *user, Instr *i)
{
    if (i->op == OP_WGMMA) set_kind(user, i, PAIRS);
}

static void set_plain(void *user, Instr *i)
{
    if (i->op == OP_WGMMA) set_kind(user, i, PLAIN);
}

/* The words of a matrix, or the vectors, by which a warp reads the tile (emit_shared_access in the backend).
 */
static void count_accesses(void *user, Instr *i)
{
    Choice *x = user;
    LayoutMatrix m;
    LayoutVector v;
    if (i->op != OP_SHARED_READ || !group_takes_now(x->c, ir_result(i)) ||
        !is_left(group_of(x->c, ir_result(i))))
        return;
    group_assign(x->c, ir_result(i));
    const Layout *l = layouts_get(&x->c->p->layouts, ir_result(i)->type);
    const LayoutShared *s = layouts_shared(&x->c->p->layouts, ir_operand(i, 0)->type);
    layout_shared_vector(l, s, 16, &v);
    bool matrix = v.bytes <= 4 && layout_matrix(l, s, true, &m);
    x->accesses += layout_regs(l) / (matrix ? 4 / (uint32_t)s->elem_bytes : v.n ? v.n : 1);
}

static void forget(void *user, Instr *i)
{
    Layouter *c = user;
    for (int k = 0; k < i->n_results; k++) {
        Value *v = &i->results[k];
        if (v->type->kind == TYPE_TILE && v->type->layout) v->type = type_with_layout(c->s, v->type, NULL);
    }
}

/* The accesses of a step with the layouts that tiles would get now. */
static int64_t accesses(Layouter *c)
{
    Choice x = { .c = c };
    ir_walk(c->f->body, count_accesses, &x);
    ir_walk(c->f->body, forget, c);
    return x.accesses;
}

bool layouter_pair_rows(void *user)
{
    Layouter *c = user;
    Choice x = { .c = c, .fits = !kernel_skips(c->p, PASS_PAIRED_ROWS) && ir_holds(c->f->body, OP_WGMMA) };
    ir_walk(c->f->body, look, &x);
    if (!x.fits) return false;
    int64_t plain = accesses(c);
    ir_walk(c->f->body, set_pairs, c);
    if (accesses(c) < plain) return true;
    ir_walk(c->f->body, set_plain, c);
    return false;
}
