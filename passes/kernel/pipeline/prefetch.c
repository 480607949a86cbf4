/* prefetch: of software-pipelining: issues a load that goes to registers inside a loop of asynchronous
 * products one step ahead, or two where two steps are ordered together (two_steps.c): one step ahead, the
 * second of them would load what the first did not, and wait for it beside its own product.
 *
 *   for j { %s = wgmma ..; %w = wgmma_wait %s; %x = load B[j..]; %t = add %w, %x; ... }
 *
 * becomes
 *
 *   %x0 = load B[lo..]
 *   for j with (%x = %x0) {
 *       %s = wgmma ..; %w = wgmma_wait %s; %t = add %w, %x
 *       %n = load B[j'..]; ...; yield %n              j' is the next step's, or j in the last
 *   }
 *
 * Such a load is where its value is needed, behind the wait for a product, and every step would pay its
 * latency.
 *
 * Requires: a tensor that is only read; offsets that follow from the loop's counter and from outside alone;
 * a latency hint of two or more. A factor of rows, of columns or of the whole tile, as a scale of each block
 * of K, needs no hint where it is needed behind a wait and registers last for it beside the sums. Where such
 * a factor stands behind the whole loop of products, in another loop, it is loaded before the former. Keeps:
 * everything. The last step loads its own window again, so that what is known of the loop's range holds for
 * the load too; the first load has a mask where the loop may have no step. */
#include "passes/kernel/pipeline/steps_ahead.h"
#include "passes/kernel/pipeline/software_pipelining.h"

static bool only_merges(const Value *v, int *kept)
{
    const Type *t = v->type;
    int n = 0;
    for (int a = 0; a < t->rank; a++)
        if (t->shape[a] > 1) *kept = a, n++;
    return n <= 1;
}

/* The registers of a thread that hold a factor of rows, of columns, or of a whole tile; 0: it is another
 * tile. A thread of a fragment has two of 16 rows, and two of each 8 columns. */
static int words_of_factor(const KernelPlan *p, const Value *v)
{
    int axis = 0;
    if (v->type->kind == TYPE_SCALAR) return 1;
    if (!only_merges(v, &axis)) return 0;
    const Value *seen = v;
    while (
        seen->uses && seen->uses->user->op == OP_RESHAPE && only_merges(ir_result(seen->uses->user), &axis))
        seen = ir_result(seen->uses->user);
    int n = (int)type_elements(v->type);
    bool rows = seen->type->rank == 2 && axis == 0;
    return rows ? (n + 8 * p->warps - 1) / (8 * p->warps) : (n + 3) / 4;
}

/* The registers of a thread that hold what the loop carries; those of the sums that its products begin; and
 * of the largest of these. */
typedef struct Sums {
    int carried, begun, largest;
} Sums;

static Sums count_sums(const KernelPlan *p, const Instr *loop)
{
    const Block *body = loop->blocks[0];
    const int threads = 32 * p->warps;
    int64_t carried = 0, begun = 0, largest = 0;
    for (int k = 1; k < body->n_args; k++)
        if (body->args[k]->type->kind == TYPE_TILE && !words_of_factor(p, body->args[k]))
            carried += type_elements(body->args[k]->type);
    for (const Instr *i = body->first; i; i = i->next) {
        const Value *begin = i->op == OP_WGMMA ? ir_operand(i, 2) : NULL;
        const Block *from = begin ? begin->def ? begin->def->block : begin->block : body;
        if (from == body && !(begin && begin->def && begin->def->op == OP_SPLAT)) continue;
        int64_t words = type_elements(ir_result(i)->type);
        begun += words;
        if (words > largest) largest = words;
    }
    return (Sums){ (int)(carried / threads), (int)(begun / threads), (int)(largest / threads) };
}

bool kernel_sums_one_by_one(const KernelPlan *p, const Instr *loop)
{
    Sums s = count_sums(p, loop);
    int room = p->consumer_registers - BESIDE_SUMS - s.carried;
    return s.begun > s.largest && s.begun > room && s.largest <= room;
}

int kernel_words_of_sums(const KernelPlan *p, const Instr *loop)
{
    Sums s = count_sums(p, loop);
    return s.carried + (kernel_sums_one_by_one(p, loop) ? s.largest : s.begun);
}

/* Whether nothing but reshapes takes the value before the first wait for a product of the block. */
static bool needed_behind_wait(const Block *body, const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = body->first, *user = ir_within(body, u->user);
        while (i && i != user && i->op != OP_WGMMA_WAIT) i = i->next;
        if (i && i->op == OP_WGMMA_WAIT) continue;
        bool reshapes = user == u->user && (user->op == OP_RESHAPE || user->op == OP_BROADCAST);
        if (!reshapes || !needed_behind_wait(body, ir_result(user))) return false;
    }
    return true;
}

/* Whether it is a factor that is needed behind the wait for a product, and registers last for those of so
 * many steps. */
static bool factor_behind_wait(const KernelPlan *p, const Instr *loop, const Instr *load, int steps)
{
    const bool behind =
        ir_holds(loop->blocks[0], OP_WGMMA_WAIT) && needed_behind_wait(loop->blocks[0], ir_result(load));
    int words = steps * words_of_factor(p, ir_result(load));
    int beside = kernel_sums_one_by_one(p, loop) ? BESIDE_ONE_SUM : BESIDE_SUMS;
    return behind && words && !p->registers_full &&
           kernel_words_of_sums(p, loop) + words + beside <= p->consumer_registers;
}

/* Whether the value comes from behind `place`: from one of the marked instructions of its block. Marks of
 * other blocks say nothing. */
static bool is_behind(const Instr *place, const Value *v)
{ return v->def && v->def->block == place->block && v->def->mark; }

/* Whether v is there before `place`, or can be computed there. */
static bool can_precede(const Instr *place, const Value *v, int depth)
{
    const Instr *d = v->def;
    if (!is_behind(place, v)) return true;
    if (depth > 40 || d->n_blocks || !(op_info[d->op].flags & OPF_PURE)) return false;
    for (int k = 0; k < d->n_operands; k++)
        if (!can_precede(place, ir_operand(d, k), depth + 1)) return false;
    return true;
}

static void move_before(Instr *loop, Instr *i)
{
    for (int k = 0; k < i->n_operands; k++)
        if (is_behind(loop, ir_operand(i, k))) move_before(loop, ir_operand(i, k)->def);
    Builder b = ir_before(loop);
    ir_unlink(i);
    ir_place(&b, i);
    i->mark = 0;
}

void kernel_loads_before(Instr *place)
{
    for (Instr *i = place->block->first; i; i = i->next) i->mark = 0;
    for (Instr *i = place, *next; i; i = next) {
        MemParts m;
        bool can = i->op == OP_LOAD && ir_mem_parts(i, &m) && !m.token;
        next = i->next;
        i->mark = 1;
        for (int k = 0; can && k < i->n_operands; k++) can = can_precede(place, ir_operand(i, k), 0);
        if (can) move_before(place, i);
    }
}

/* Factors that meet the sums of a loop of products behind it, within a loop of the program: they are loaded
 * before the loop, and arrive while it runs. */
void kernel_load_before(Overlap *c, Instr *loop)
{
    const Instr *around = loop->block->parent;
    if (!around || around->op != OP_FOR || ir_over_programs(around)) return;
    for (Instr *i = loop->block->first; i; i = i->next) i->mark = 0;
    int words = kernel_words_of_sums(c->p, loop) + kernel_words_of_sums(c->p, around) + BESIDE_SUMS;
    loop->mark = 1;
    for (Instr *i = loop->next, *next; i; i = next) {
        MemParts m;
        next = i->next;
        i->mark = 1;
        if (i->op != OP_LOAD || !ir_mem_parts(i, &m)) continue;
        const Decision *d = schedule_asked_load(c->p, i);
        int own = words_of_factor(c->p, ir_result(i));
        bool wanted = d ? d->form == LOAD_HOISTED
                        : own && !c->p->registers_full && words + own <= c->p->consumer_registers &&
                              !kernel_skips(c->p, PASS_SOFTWARE_PIPELINING);
        bool can = !m.token && !m.mask && c->f->params[m.param].kind == PARAM_IN;
        for (int k = 0; k < i->n_operands; k++) can = can && can_precede(loop, ir_operand(i, k), 0);
        if (d && wanted && !can)
            schedule_refuse(c->p, d,
                "this load cannot stand before the loop of products: its tensor is written too, or its "
                "offsets follow from the loop");
        if (!wanted || !can) continue;
        move_before(loop, i);
        words += own;
        schedule_take_load(c->p, i, LOAD_HOISTED, 0);
    }
}

Instr *kernel_prefetch(Overlap *c, Instr *loop, int steps)
{
    for (Instr *i = loop->blocks[0]->first, *next; i; i = next) {
        next = i->next;
        AheadSlice list = { 0 };
        if (i->op != OP_LOAD) continue;
        const Decision *d = schedule_asked_load(c->p, i);
        bool wanted = d ? d->form == LOAD_PREFETCH
                        : !kernel_skips(c->p, PASS_SOFTWARE_PIPELINING) &&
                              (ir_attr(i, ATTR_LATENCY) ? ir_attr_int(i, ATTR_LATENCY, 1) >= 2
                                                        : factor_behind_wait(c->p, loop, i, steps)),
             can = ahead_possible(c->f, loop, i, &list);
        if (d && wanted && !can)
            schedule_refuse(c->p, d,
                "this load cannot run a step ahead: its tensor is written too, or its offsets follow from "
                "more than the loop's counter");
        if (d || can) schedule_take_load(c->p, i, wanted && can ? LOAD_PREFETCH : LOAD_REGISTERS, 0);
        if (!wanted || !can) continue;
        loop = ahead_load(c->s, loop, i, &list, steps, false);
        next = loop->blocks[0]->first; /* the body moved */
    }
    return loop;
}
