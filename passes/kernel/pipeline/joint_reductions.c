/* joint-reductions: reductions of one block that do not need each other's results let the warps of a CTA, and
 * the CTAs of a cluster, meet once.
 *
 *   %n = reduce_sum %x {axis = 0}               %n = reduce_sum %x {axis = 0, joint = 1}
 *   %y = div %x, splat %n                       %q = mul %x, %x
 *   %q = mul %x, %x                       -->   %s = reduce_sum %q {axis = 0}
 *   %s = reduce_sum %q {axis = 0}               %y = div %x, splat %n
 *
 * Each thread combines what it holds of both, and the lanes of a warp join that. Then the warps write their
 * parts of both to shared memory, meet, and read them. What the later reduction needs is moved up with it.
 *
 * Requires: several warps that have parts of the row; elements of one type; operands that are computed by
 * element-wise operations, or loaded from tensors that are only read. Nothing uses a result between the
 * reductions. Keeps: every result to the bit, as each reduction is done in the order in which it was. Does
 * not handle reductions by functions and searches for positions. A tile that is moved up and that others use
 * stays in registers for longer: at most MOST_WORDS of them. The parts of all of them are in shared memory at
 * once: at most MOST_BYTES. */
#include "passes/kernel/kernel.h"

enum { MOST_WORDS = 32, MOST_BYTES = 4096, MOST_JOINT = 8, MOST_MOVED = 64 };

typedef struct Joint {
    Session *s;
    const Func *f;
    KernelPlan *p;
    uint32_t from; /* the mark of the first reduction; what is behind it in the block has a greater one */
    Instr *group[MOST_JOINT], *moved[MOST_MOVED];
    int n, n_moved;
    int64_t words_left, bytes_left; /* that the group may yet take */
    bool changed;
} Joint;

/* The bytes of the parts that warps have of what is reduced, for which they meet; 0: they do not. */
static int64_t bytes_of_parts(const Joint *j, const Instr *i)
{
    enum { ACCUMULATOR = 4 }; /* at least */
    LayoutReduce r;
    if (op_family(i->op) != OPS_REDUCE || op_info[i->op].combine == COMBINE_NONE || i->n_operands != 1 ||
        !ir_result(i)->uses || ir_attr_int(i, ATTR_LANES, 0))
        return 0;
    const Type *t = ir_operand(i, 0)->type, *to = ir_result(i)->type;
    if (!op_reduces(i->op) || t->kind != TYPE_TILE || !t->layout) return 0;
    const Layout *l = layouts_get(&j->p->layouts, t);
    if (!layout_reduce(&j->s->arena, l, (int)ir_attr_int(i, ATTR_AXIS, 0), true, &r) || r.nwarp <= 1)
        return 0;
    int64_t each = dtype_bytes(t->dtype) > ACCUMULATOR ? dtype_bytes(t->dtype) : ACCUMULATOR;
    return each * r.nwarp * (to->kind == TYPE_TILE ? type_elements(to) : 1);
}

/* Whether the instruction does the same further up. */
static bool may_move(const Joint *j, const Instr *i)
{
    MemParts m;
    if (i->n_blocks) return false;
    if (i->op == OP_LOAD)
        return !kernel_kept(i) && ir_mem_parts(i, &m) && !m.token && j->f->params[m.param].kind == PARAM_IN;
    /* Words that are pinned so that they are widened again behind a reduction. */
    if (i->op == OP_OPAQUE)
        return !ir_attr_int(i, ATTR_ANEW, 0) && ir_operand(i, 0)->def && !kernel_kept(ir_operand(i, 0)->def);
    if (!(op_info[i->op].flags & OPF_PURE)) return false;
    bool scalars = i->n_results > 0;
    for (int k = 0; k < i->n_results; k++) scalars = scalars && i->results[k].type->kind == TYPE_SCALAR;
    return scalars ? !op_reduces(i->op) : (op_info[i->op].flags & (OPF_ELEM | OPF_VIRTUAL)) != 0;
}

static bool is_listed(Instr *const *list, int n, const Instr *i)
{
    for (int k = 0; k < n; k++)
        if (list[k] == i) return true;
    return false;
}

/* Lists what `i` needs of what stands behind the first reduction, operands first. */
static bool list_needed(Joint *j, const Instr *i, const Block *block)
{
    for (int k = 0; k < i->n_operands; k++) {
        Instr *d = ir_operand(i, k)->def;
        if (!d || d->block != block) continue;
        if (is_listed(j->group, j->n, d)) return false;
        if (d->mark <= j->from || is_listed(j->moved, j->n_moved, d)) continue;
        if (!may_move(j, d) || !list_needed(j, d, block) || j->n_moved == MOST_MOVED) return false;
        j->moved[j->n_moved++] = d;
    }
    return true;
}

static int64_t words_of(Joint *j, const Type *t)
{
    if (t->kind != TYPE_TILE || !t->layout) return 1;
    return ((int64_t)layout_regs(layouts_get(&j->p->layouts, t)) * dtype_bits(t->dtype) + 31) / 32;
}

/* The registers that tiles take between their new place and uses that stay. */
static int64_t words_held(Joint *j, const Instr *reduction)
{
    int64_t words = words_of(j, ir_result(reduction)->type);
    for (int k = 0; k < j->n_moved; k++) {
        const Instr *i = j->moved[k];
        bool stays = false;
        if (i->n_results != 1 || kernel_is_cheap(ir_result(i))) continue;
        for (const Use *u = ir_result(i)->uses; u; u = u->next)
            stays |= u->user != reduction && !is_listed(j->moved, j->n_moved, u->user);
        if (stays) words += words_of(j, ir_result(i)->type);
    }
    return words;
}

static void move_behind(Joint *j, Instr *last, Instr *i)
{
    ir_unlink(i);
    Builder b = ir_after(last);
    ir_place(&b, i);
    i->mark = j->from;
}

/* Lets `i` meet with the reductions of the group, if it can. */
static void join(Joint *j, Instr *i, int64_t bytes)
{
    Instr *last = j->group[j->n - 1];
    j->n_moved = 0;
    if (ir_operand(i, 0)->type->dtype != ir_operand(last, 0)->type->dtype) return;
    if (!list_needed(j, i, i->block)) return;
    int64_t words = words_held(j, i);
    if (words > j->words_left || bytes > j->bytes_left) return;
    j->words_left -= words;
    j->bytes_left -= bytes;
    ir_set_attr(j->s, last, a_int(ATTR_JOINT, 1));
    for (int k = 0; k < j->n_moved; k++) {
        move_behind(j, last, j->moved[k]);
        last = j->moved[k];
    }
    move_behind(j, last, i);
    j->group[j->n++] = i;
    j->changed = true;
}

/* Whether it reads what the kernel also stores. The CTAs of a cluster meet at the reduction behind it, before
 * one of them stores what another has read (KernelPlan.reads_before). */
static bool reads_stored(const Joint *j, const Instr *i)
{
    MemParts m;
    return i->op == OP_LOAD && ir_mem_parts(i, &m) && j->f->params[m.param].kind != PARAM_IN;
}

static void join_from(Joint *j, Instr *first)
{
    const Instr *end = ir_terminator(first->block);
    uint32_t mark = 0;
    for (Instr *i = first->block->first; i; i = i->next) i->mark = ++mark;
    j->from = first->mark;
    j->group[0] = first;
    j->n = 1;
    j->words_left = MOST_WORDS;
    j->bytes_left = MOST_BYTES - bytes_of_parts(j, first);
    for (Instr *i = first->next, *next; i && i != end && !i->n_blocks && j->n < MOST_JOINT; i = next) {
        next = i->next;
        if (j->p->reads_before && reads_stored(j, i)) return;
        int64_t bytes = bytes_of_parts(j, i);
        if (bytes) join(j, i, bytes);
    }
}

static void visit(Joint *j, Block *block)
{
    for (Instr *i = block->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) visit(j, i->blocks[k]);
        if (!bytes_of_parts(j, i)) continue;
        join_from(j, i);
        i = j->group[j->n - 1];
    }
}

bool kernel_pass_joint_reductions(KernelContext *c)
{
    Joint j = { .s = c->s, .f = c->f, .p = c->p };
    if (!c->specialized && c->p->warps > 1) visit(&j, c->f->body);
    return j.changed;
}
