/* emit_truths.c: comparisons of bytes and the logic on their results, four elements in a word.
 *
 *     digit = x >= 48 && x <= 57         ->  digit = ge4_u8(x, 0x30303030) & ge4_u8(0x39393939, x)
 *     bad = bad || digit && done             bad[i] = bad[i] | digit & done[i]
 *
 * A truth is the top bit of its byte. A comparison takes three instructions for four elements, and `&&`, `||`
 * or `!` take one, as do those of 32 bits. Truths that later runs use are kept in words between the
 * runs, beside the single elements; the vendor's compiler drops the latter if nothing reads them. Other users
 * extract single elements, which takes one test for each. A run uses words if that takes fewer instructions
 * than single elements, as counted by truths_pay. */
#include "backends/gpu/elements/emit_pairs.h"

static bool in_truths(const Paired *r, const Value *v)
{ return paired_in_run(r, v) && r->how[v->id] == TRUTHS; }

/* Whether a run before this one has left the truths in words. */
static bool kept_truths(const Paired *r, const Value *v)
{
    return !paired_in_run(r, v) && v->type->kind == TYPE_TILE && r->e->truths[v->id] && v->type->layout &&
           r->e->storage[v->id] && layout_equal(layout_of(r->e, v), r->l);
}

bool is_truth(const Paired *r, const Value *v) { return in_truths(r, v) || kept_truths(r, v); }

static bool is_logic(const Instr *i)
{
    return ir_result(i)->type->dtype == DT_BOOL &&
           (i->op == OP_NOT || i->op == OP_AND || i->op == OP_OR || i->op == OP_XOR);
}

static bool is_byte(const Value *v) { return v->type->dtype == DT_U8 || v->type->dtype == DT_I8; }

static bool compares_bytes(const Instr *i)
{
    if (op_family(i->op) != OPS_COMPARE) return false;
    DType d = ir_operand(i, 0)->type->dtype;
    return d == DT_U8 || (d == DT_I8 && (i->op == OP_EQ || i->op == OP_NE));
}

/* A selection of bytes by a truth is computed by words, if the bytes are. */
static bool selects_bytes(const Instr *i) { return i->op == OP_WHERE && is_byte(ir_result(i)); }

bool gives_truths(const Paired *r, const Instr *i)
{
    uint32_t bits;
    if (r->p % 4 || ir_result(i)->type->dtype != DT_BOOL || r->asked[ir_result(i)->id]) return false;
    if (compares_bytes(i))
        return paired_bytes(r, ir_operand(i, 0)) &&
               (paired_bytes(r, ir_operand(i, 1)) || paired_constant(r, ir_operand(i, 1), &bits));
    if (!is_logic(i)) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (!is_truth(r, ir_operand(i, k))) return false;
    return true;
}

bool truths_wanted(const Paired *r, const Instr *i)
{
    if (compares_bytes(i)) return true;
    return is_logic(i) && r->e->truths[ir_operand(i, 0)->id];
}

/* --- whether they pay -------------------------------------------------------------------------------- */

/* Whether a use outside of the run takes words: one in another run, of which this is not yet known. */
static bool takes_words(const Paired *r, const Value *v, const Use *u)
{
    const Instr *i = u->user;
    if (!is_run_op(i) || !layout_equal(layout_of(r->e, ir_result(i)), layout_of(r->e, v))) return false;
    return is_logic(i) || (selects_bytes(i) && u == &i->operands[0]);
}

/* How truths are used. */
typedef struct TruthUses {
    bool words;    /* some are by words, in the run or beyond it */
    bool elements; /* some are by elements */
    bool beyond;   /* some are by words in other runs */
} TruthUses;

/* Whether the operation of the run takes its truths by words. */
static bool by_truths(const Paired *r, const Instr *i)
{
    int how = r->how[ir_result(i)->id];
    return how == TRUTHS || (how == WORDS && is_byte(ir_result(i)));
}

static TruthUses uses_of(const Paired *r, const Value *v)
{
    TruthUses t = { 0 };
    for (const Use *u = v->uses; u; u = u->next) {
        bool inside = paired_has(r, u->user), out = !inside && takes_words(r, v, u);
        bool words = inside ? by_truths(r, u->user) : out;
        t.words |= words;
        t.beyond |= out;
        t.elements |= !words;
    }
    return t;
}

bool truths_go_on(const Paired *r, const Value *v) { return in_truths(r, v) && uses_of(r, v).beyond; }

/* Whether logic of elements takes no instruction of its own: a comparison that nobody else uses is computed
 * under the predicate of the other operand, and a negation is another comparison. */
static bool folds(const Paired *r, const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) {
        const Value *x = ir_operand(i, k);
        if (paired_in_run(r, x) && op_family(x->def->op) == OPS_COMPARE && x->uses && !x->uses->next)
            return true;
    }
    return i->op == OP_NOT;
}

/* The instructions that four elements of the operation take by words, and those by elements. */
static void count(const Paired *r, const Instr *i, int *words, int *elements)
{
    /* Instructions: of a comparison of words; of four bytes that are selected one by one and packed; of four
     * elements that are tested, compared or combined one by one. */
    enum { COMPARED = 3, MADE_BYTES = 8, ELEMENTS_OF_WORD = 4 };
    const Value *v = ir_result(i);
    if (r->how[v->id] == WORDS && (i->op == OP_CAST || i->op == OP_WHERE) && is_truth(r, ir_operand(i, 0))) {
        *words += i->op == OP_CAST ? 1 : 2;
        *elements += MADE_BYTES;
    }
    if (r->how[v->id] != TRUTHS) return;
    TruthUses t = uses_of(r, v);
    bool compared = op_family(i->op) == OPS_COMPARE;
    *words += compared ? COMPARED : 1;
    *elements += compared || !folds(r, i) ? ELEMENTS_OF_WORD : 0;
    if (t.elements) *words += ELEMENTS_OF_WORD;
    if (t.beyond) *elements += ELEMENTS_OF_WORD; /* to keep them: there are not so many predicates */
}

bool truths_pay(const Paired *r)
{
    int words = 0, elements = 0;
    for (const Instr *i = r->first;; i = i->next) {
        if (paired_has(r, i)) count(r, i, &words, &elements);
        if (i == r->last) return words < elements;
    }
}

/* Whether the operation is a comparison, or logic of nothing but comparisons of the run. The tests of its
 * word would take as many instructions as the comparisons by elements. */
static bool only_compares(const Paired *r, const Instr *i)
{
    if (op_family(i->op) == OPS_COMPARE) return true;
    for (int k = 0; k < i->n_operands; k++) {
        const Value *x = ir_operand(i, k);
        if (!paired_in_run(r, x) || op_family(x->def->op) != OPS_COMPARE) return false;
    }
    return true;
}

bool truths_leave(Paired *r, bool all)
{
    bool left = false;
    for (const Instr *i = r->first;; i = i->next) {
        const Value *v = ir_result(i);
        if (paired_has(r, i) && in_truths(r, v) && (all || (!uses_of(r, v).words && only_compares(r, i))))
            left = r->asked[v->id] = true;
        if (i == r->last) return left;
    }
}

/* --- text -------------------------------------------------------------------------------------------- */

void declare_truths(Emit *e, const Value *v, int regs)
{
    e->truths[v->id] = str(e, "%s_truths", name_of(e, v));
    line(e, "u32 %s[%d];", e->truths[v->id], regs / 4);
}

/* a < b is not a >= b, and a <= b is b >= a. */
static const char *compared(Paired *r, const Instr *i)
{
    Emit *e = r->e;
    bool equal = i->op == OP_EQ || i->op == OP_NE, turned = i->op == OP_LE || i->op == OP_GT,
         not = i->op == OP_EQ || i->op == OP_LT || i->op == OP_GT;
    const char *a = paired_word(r, ir_operand(i, turned), 0), *b = paired_word(r, ir_operand(i, !turned), 0);
    return str(e, "%s(%s, %s)%s", use(e, equal ? "ne4_u8" : "ge4_u8"), a, b, not ? " ^ 0x80808080u" : "");
}

const char *truths_expr(Paired *r, const Instr *i)
{
    Emit *e = r->e;
    if (op_family(i->op) == OPS_COMPARE) return compared(r, i);
    const char *a = paired_word(r, ir_operand(i, 0), 0);
    if (i->op == OP_NOT) return str(e, "%s ^ 0x80808080u", a);
    const char *b = paired_word(r, ir_operand(i, 1), 0);
    return str(e, "%s %s %s", a, i->op == OP_AND ? "&" : i->op == OP_OR ? "|" : "^", b);
}

const char *truth_element(Paired *r, const Value *v, int x)
{
    Emit *e = r->e;
    const Instr *i = v->def;
    if (op_family(i->op) != OPS_COMPARE)
        return str(e, "%s(%s, %d)", use(e, "truth_of"), paired_word(r, v, 0), x);
    const char *args[2] = { paired_element(r, ir_operand(i, 0), x), paired_element(r, ir_operand(i, 1), x) };
    return op_expr(e, i, args);
}

const char *chosen_bytes(Paired *r, const Instr *i)
{
    Emit *e = r->e;
    const char *a = paired_word(r, ir_operand(i, 1), 0), *b = paired_word(r, ir_operand(i, 2), 0);
    const char *m = tmp(e, "mask");
    line(e, "const u32 %s = %s(%s);", m, use(e, "byte_masks"), paired_word(r, ir_operand(i, 0), 0));
    return str(e, "%s & %s | %s & ~%s", a, m, b, m);
}

void store_truths(Paired *r, const Value *v, const char *slot)
{
    Emit *e = r->e;
    if (e->truths[v->id]) line(e, "%s[%s] = %s;", e->truths[v->id], slot, paired_word(r, v, 0));
    for (int x = 0; x < r->p; x++) {
        const char *at = r->loop ? str(e, "%d * i + %d", r->p, x) : str(e, "%d", r->at + x);
        line(e, "%s[%s] = %s;", e->storage[v->id], at, truth_element(r, v, x));
    }
}
