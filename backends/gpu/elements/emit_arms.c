/* emit_arms.c: computes values that only one arm of a selection needs inside a branch.
 *
 *     y = where(c, f(x), z)    ->   float y = z;   if (c) { t = ..x..;  y = ..t..; }
 *     y = c && g(x) < u        ->   bool y = c;    if (c) { t = ..x..;  y = t < u; }
 *
 * A warp skips the arm if none of its lanes takes it. This pays if the arm is long: random bits for every
 * other site of a lattice, or logarithms of the few elements that pass a threshold. The moved operations are
 * arithmetic on one element of a run, without effects. Requires: no products of matrices. Does not
 * handle: operations that lanes do together or that give several elements, words of several elements, and
 * masks that are bounds of coordinates, as almost all elements are inside of these. */
#include "backends/gpu/elements/emit_run.h"

enum { LEAST_COST = 40, MOST_DEPTH = 8 };

/* About how many instructions of the arithmetic units an element takes. */
static int cost_of(const Instr *i)
{
    enum { SPECIAL = 8, BLOCK = 60 };
    bool quick = i->op == OP_EXP || i->op == OP_EXP2 || i->op == OP_RSQRT || ir_attr_int(i, ATTR_APPROX, 0);
    int cost = op_info[i->op].cost;
    if (op_family(i->op) == OPS_RANDOM) return BLOCK; /* ten rounds of six instructions */
    return quick && cost > SPECIAL ? SPECIAL : cost;
}

static bool of_run(const Arms *r, const Instr *i) { return i->mark == r->mark && is_run_op(i); }

/* Whether the condition compares coordinates with a bound: an edge, of which few elements are outside. */
static bool is_edge(const Value *v, int depth)
{
    const Instr *d = v->type->kind == TYPE_TILE && !v->type->layout ? v->def : NULL;
    if (!d || depth > MOST_DEPTH) return false;
    if (op_family(d->op) == OPS_COMPARE) return d->op != OP_EQ && d->op != OP_NE;
    for (int k = 0; k < d->n_operands; k++)
        if (is_edge(ir_operand(d, k), depth + 1)) return true;
    return false;
}

/* Whether the operation may move into the arm k of `chooser`, if all its users are there. */
static bool may_move(const Arms *r, const Instr *i)
{
    const Value *v = ir_result(i);
    return !r->of[v->id] && i->op != OP_LOOKUP && r->alone(r->user, i) && !run_used_outside(v, r->mark);
}

static bool used_in_arm(const Arms *r, const Value *v, const Instr *chooser, int k)
{
    for (const Use *u = v->uses; u; u = u->next) {
        if (u->user == chooser && u == &chooser->operands[k]) continue;
        if (u->user == chooser || u->user->mark != r->mark || !is_run_op(u->user) ||
            r->of[ir_result(u->user)->id] != chooser)
            return false;
    }
    return v->uses != NULL;
}

/* Moves into arm k of `chooser` what only it needs. Returns what an element of that costs. */
static int claim(Arms *r, const Instr *chooser, int k)
{
    int cost = 0;
    for (const Instr *i = chooser; i != r->first;) {
        i = i->prev;
        if (!of_run(r, i) || !may_move(r, i) || !used_in_arm(r, ir_result(i), chooser, k)) continue;
        r->of[ir_result(i)->id] = chooser;
        cost += cost_of(i);
    }
    return cost;
}

static void give_back(Arms *r, const Instr *chooser)
{
    for (const Instr *i = r->first; i != chooser; i = i->next)
        if (of_run(r, i) && r->of[ir_result(i)->id] == chooser) r->of[ir_result(i)->id] = NULL;
}

static bool may_choose(const Instr *i)
{ return i->op == OP_WHERE || (i->op == OP_AND && ir_result(i)->type->dtype == DT_BOOL); }

/* Finds the arm of the selection, or of the conjunction, that is worth a branch. */
static bool choose_arm(Arms *r, const Instr *i)
{
    bool both = i->op == OP_AND;
    if (!may_choose(i) || r->of[ir_result(i)->id] || !r->alone(r->user, i)) return false;
    for (int k = both ? 0 : 1; k < i->n_operands; k++) {
        const Value *cond = ir_operand(i, both ? 1 - k : 0);
        if (ir_operand(i, k) == cond || is_edge(cond, 0)) continue;
        if (claim(r, i, k) >= LEAST_COST && r->of[ir_operand(i, k)->id] == i) {
            r->arm[ir_result(i)->id] = (unsigned char)(k + 1);
            return true;
        }
        give_back(r, i);
    }
    return false;
}

/* Whether the run has a selection, and in front of it enough for an arm. */
static bool may_have_arms(const Arms *r, const Instr *last)
{
    int cost = 0;
    for (const Instr *i = r->first;; i = i->next) {
        if (of_run(r, i) && may_choose(i) && cost >= LEAST_COST) return true;
        if (of_run(r, i)) cost += cost_of(i);
        if (i == last) return false;
    }
}

bool arms_find(Arms *r, Emit *e, const Instr *last)
{
    bool any = false;
    if (e->multiplies || !may_have_arms(r, last)) return false;
    r->of = arena_array(&e->s->arena, const Instr *, e->n_values);
    r->arm = arena_array(&e->s->arena, unsigned char, e->n_values);
    for (const Instr *i = last;; i = i->prev) {
        any |= of_run(r, i) && choose_arm(r, i);
        if (i == r->first) break;
    }
    if (!any) r->of = NULL;
    return any;
}

bool arms_move(const Arms *r, const Instr *i) { return r->of && r->of[ir_result(i)->id]; }

static const Value *scalar_of(const Value *v)
{
    while (v->def && (v->def->op == OP_SPLAT || v->def->op == OP_BROADCAST)) v = ir_operand(v->def, 0);
    return v->type->kind == TYPE_SCALAR ? v : NULL;
}

/* Random numbers in arms take the keys of the rounds from registers. The vendor's compiler would compute the
 * keys of a seed again behind each branch. */
void arms_begin(Arms *r, Emit *e, const Instr *last)
{
    if (!r->of || e->target->kind != TARGET_CUDA) return;
    for (const Instr *i = r->first;; i = i->next) {
        const Value *seed =
            of_run(r, i) && i->op == OP_PHILOX && arms_move(r, i) ? scalar_of(ir_operand(i, 0)) : NULL;
        if (seed) {
            r->seed = seed;
            r->keys = tmp(e, "keys");
            line(e, "u32 %s[20];", r->keys);
            line(e, "%s(%s, (u64)%s);", use(e, "philox_keys"), r->keys, name_of(e, seed));
            return;
        }
        if (i == last) return;
    }
}

const char *arms_expr(const Arms *r, Emit *e, const Instr *i, const char *const *args)
{
    if (!r->seed || i->op != OP_PHILOX || !arms_move(r, i) || scalar_of(ir_operand(i, 0)) != r->seed)
        return op_expr(e, i, args);
    return str(e, "%s(%s, (u64)%s)", use(e, "philox_by_keys"), r->keys, args[1]);
}

bool arms_emit(const Arms *r, Emit *e, const Instr *i, int x)
{
    int k = r->of ? r->arm[ir_result(i)->id] - 1 : -1;
    if (k < 0) return false;
    const char *type = ctype(ir_result(i)->type->dtype),
               *y = str(e, "%s%c", name_of(e, ir_result(i)), "abcd"[x]),
               *cond = r->element(r->user, ir_operand(i, i->op == OP_AND ? 1 - k : 0), x);
    bool when = i->op == OP_AND || k == 1;
    const char *c = tmp(e, "taken");
    line(e, "const bool %s = %s;", c, cond);
    line(e, "%s %s = %s;", type, y, i->op == OP_AND ? c : r->element(r->user, ir_operand(i, 3 - k), x));
    line(e, "if (%s%s) {", when ? "" : "!", c);
    e->indent++;
    for (const Instr *j = r->first; j != i; j = j->next)
        if (of_run(r, j) && r->of[ir_result(j)->id] == i) r->emit(r->user, j, x);
    line(e, "%s = %s;", y, r->element(r->user, ir_operand(i, k), x));
    end_block(e);
    r->name(r->user, ir_result(i), x, y);
    return true;
}
