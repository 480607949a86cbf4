/* emit_paired_elements.c: what runs that compute on words (emit_pairs.c) compute element by element all the
 * same. */
#include "backends/gpu/elements/emit_pairs.h"

static bool asked_by_element(const Paired *r, const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (paired_has(r, u->user) && r->how[ir_result(u->user)->id] == ELEMENTS) return true;
    return false;
}

static const char *element_expr(Paired *r, const Instr *i, int x, const char *const *args)
{
    Emit *e = r->e;
    double plus;
    const Value *v = byte_to_float_plus(e, i, &plus);
    const char *whole = NULL;
    if (v && !paired_in_run(r, v)) whole = byte_to_float(e, v, plus, r->l, paired_place(r, x));
    else if (v && r->how[v->id] == WORDS) {
        DType d = v->type->dtype;
        whole = str(e, "%s(%s, %d)", byte_float_fn(e, d, plus), paired_word(r, v, x / 4), x % 4);
        whole = byte_float_plus(e, d, whole, plus);
    }
    return whole ? whole : arms_expr(&r->arms, e, i, args);
}

static void emit_element(Paired *r, const Instr *i, int x)
{
    Emit *e = r->e;
    const Value *v = ir_result(i);
    const char *args[4], *name = str(e, "%s%c", name_of(e, v), "abcd"[x]);
    if (arms_emit(&r->arms, e, i, x)) return;
    for (int k = 0; k < i->n_operands; k++) args[k] = paired_element(r, ir_operand(i, k), x);
    e->raw = per_word(v->type->dtype) > 1 && !asked_by_element(r, v);
    line(e, "const %s %s = %s;", ctype(v->type->dtype), name, element_expr(r, i, x, args));
    e->raw = false;
    r->elem[v->id * 4 + (uint32_t)x] = name;
}

/* What emit_arms.c asks of a run. */
static bool is_alone(void *user, const Instr *i)
{
    const Paired *r = user;
    int how = r->how[ir_result(i)->id];
    for (int k = 0; k < i->n_operands; k++)
        if (paired_in_run(r, ir_operand(i, k)) && r->how[ir_operand(i, k)->id] == DOTS) return false;
    return (how == ELEMENTS || how == QUOTIENTS) && random_elements_of_block(r->e, i, r->l) == 1 &&
           !sincos_partner(r->e, i, r->mark);
}

static void emit_in_arm(void *user, const Instr *i, int x) { emit_element(user, i, x); }
static const char *element_for_arm(void *user, const Value *v, int x) { return paired_element(user, v, x); }
static void name_element(void *user, const Value *v, int x, const char *name)
{ ((Paired *)user)->elem[v->id * 4 + (uint32_t)x] = name; }

void paired_elements(Paired *r, const Instr *i)
{
    Emit *e = r->e;
    const Value *v = ir_result(i);
    const char *args[4];
    int of_block = random_elements_of_block(e, i, r->l);
    const Instr *partner = sincos_partner(e, i, r->mark);
    if (partner && sincos_is_done(i, partner)) return;
    if (emit_dots(r, i)) return;
    for (int x = 0; x < r->p; x += of_block) {
        if (of_block == 1 && !partner) {
            emit_element(r, i, x);
            continue;
        }
        for (int k = 0; k < i->n_operands; k++) args[k] = paired_element(r, ir_operand(i, k), x);
        if (of_block > 1) {
            emit_random_block(e, i, r->l, r->loop ? "i" : "0", args, &r->elem[v->id * 4 + (uint32_t)x]);
            continue;
        }
        const char **other = &r->elem[ir_result(partner)->id * 4 + (uint32_t)x];
        r->elem[v->id * 4 + (uint32_t)x] = emit_sincos(e, i, partner, x, args[0], other);
    }
}

void paired_arms(Paired *r)
{
    r->arms = (Arms){ .first = r->first,
        .mark = r->mark,
        .user = r,
        .alone = is_alone,
        .emit = emit_in_arm,
        .element = element_for_arm,
        .name = name_element };
    arms_find(&r->arms, r->e, r->last);
}
