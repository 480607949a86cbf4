/* emit_pick.c: a part of a tile, or several tiles one after another, whose elements each lane holds itself,
 * without shared memory: registers are picked, and elements of 8 and 16 bits put together in words.
 *
 *   %e : [64, 2], a lane has [k, 0] and [k, 1]
 *   %a = slice %e {axis = 1, start = 1}             ->   a[0] = pack(get(e[0], 1), get(e[1], 1))
 *
 * On CUDA one instruction picks four bytes of two words, where they become integers of 16 bits. */
#include "backends/gpu/emit.h"

/* Whether thread (lane, warp) of both layouts begins at the same coordinate. Both are separable. */
static bool same_threads(const Layout *a, const Layout *b)
{
    int32_t x[TILE_MAX_RANK], y[TILE_MAX_RANK];
    if (layout_lanes(a) != layout_lanes(b) || layout_warps(a) != layout_warps(b) || layout_blocks(a) != 1 ||
        layout_blocks(b) != 1)
        return false;
    for (uint32_t k = 0; k < layout_lanes(a) * layout_warps(a); k++) {
        uint32_t lane = k % layout_lanes(a), warp = k / layout_lanes(a);
        layout_element(a, 0, lane, warp, 0, x);
        layout_element(b, 0, lane, warp, 0, y);
        for (int d = 0; d < a->rank; d++)
            if (x[d] != y[d]) return false;
    }
    return true;
}

/* The register of `from` that holds what register r of `to` does, `start` further along the axis; -1: another
 * thread's. */
static int register_of(const Layout *from, const Layout *to, uint32_t r, int axis, int64_t start)
{
    int32_t x[TILE_MAX_RANK], y[TILE_MAX_RANK];
    layout_element(to, r, 0, 0, 0, y);
    y[axis] += (int32_t)start;
    for (uint32_t s = 0; s < layout_regs(from); s++) {
        bool same = true;
        layout_element(from, s, 0, 0, 0, x);
        for (int d = 0; d < from->rank && same; d++) same = x[d] == y[d];
        if (same) return (int)s;
    }
    return -1;
}

typedef struct Picked {
    const Value *from;
    int reg;
} Picked;

/* The operand that has element k of the result, and its register there; false: another thread has it. */
static bool picked(Emit *e, const Instr *i, uint32_t k, Picked *p)
{
    const Layout *to = layout_of(e, ir_result(i));
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    int64_t start = ir_attr_int(i, ATTR_START, 0);
    for (int j = 0; j < i->n_operands; j++) {
        const Value *x = ir_operand(i, j);
        p->from = x;
        p->reg = register_of(layout_of(e, x), to, k, axis, start);
        if (p->reg >= 0) return true;
        start -= x->type->shape[axis];
    }
    return false;
}

enum { LEAST_RUN = 8 }; /* words that are copied by a loop */

/* How many whole words from word w on are consecutive words of one operand; 1: too few. */
static int run_of(const Picked *source, int w, int n, int in_word)
{
    const Picked *first = &source[w * in_word];
    int same = 0;
    while (w * in_word + same < n && first[same].from == first->from && first[same].reg == first->reg + same)
        same++;
    int run = first->reg % in_word ? 0 : same / in_word;
    return run >= LEAST_RUN ? run : 1;
}

static void copy_words(Emit *e, const char *out, int w, const Picked *first, int in_word, int run)
{
    int at = first->reg / in_word;
    const char *from = registers_of(e, first->from);
    begin_unrolled(e, "i", run);
    line(e, "%s[%s] = %s[%s];", out, w ? str(e, "i + %d", w) : "i", from, at ? str(e, "i + %d", at) : "i");
    end_block(e);
}

/* Whether operand k of a concatenation, behind which another one comes, ends in one register for some threads
 * and in another for others: then a register of the result would be of either. */
static bool ends_within_threads(Emit *e, const Instr *i, int k)
{
    const Layout *l = layout_of(e, ir_operand(i, k));
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    return i->op == OP_CONCAT && k < i->n_operands - 1 && l->cover[axis] != l->tile[axis];
}

/* Whether words of the bytes are asked for. Single bytes the vendor's compiler takes from where they come. */
static bool asked_by_words(const Value *v)
{
    bool words = false;
    for (const Use *u = v->uses; u && !words; u = u->next)
        words = u->user->op == OP_RESHAPE
                    ? asked_by_words(ir_result(u->user))
                    : u->user->op == OP_CAST && ir_result(u->user)->type->dtype == DT_U16;
    return words;
}

/* Four bytes that come from two words, as one permutation of these; NULL: they come from more. */
static const char *bytes_of_two(Emit *e, const Picked *p)
{
    const Picked *word[2] = { &p[0], NULL };
    unsigned which = 0;
    if (e->target->kind != TARGET_CUDA) return NULL;
    for (unsigned k = 0; k < 4; k++) {
        unsigned w = 0;
        while (w < 2 && word[w] && (word[w]->from != p[k].from || word[w]->reg / 4 != p[k].reg / 4)) w++;
        if (w == 2) return NULL;
        if (!word[w]) word[w] = &p[k];
        which |= (4 * w + (unsigned)p[k].reg % 4) << 4 * k;
    }
    const char *from[2];
    for (int w = 0; w < 2; w++) {
        const Picked *x = word[w] ? word[w] : word[0];
        from[w] = str(e, "%s[%d]", registers_of(e, x->from), x->reg / 4);
    }
    return str(e, "%s(%s, %s, 0x%xu)", use(e, "byte_perm"), from[0], from[1], which);
}

bool emit_pick(Emit *e, Instr *i)
{
    Value *r = ir_result(i);
    if (i->op != OP_SLICE && i->op != OP_CONCAT) return false;
    const Layout *to = layout_of(e, r);
    for (int k = 0; k < i->n_operands; k++) {
        const Value *x = ir_operand(i, k);
        if (!e->storage[x->id] || !layout_of(e, x)->separable || !to->separable ||
            !same_threads(layout_of(e, x), to) || ends_within_threads(e, i, k))
            return false;
    }
    int n = (int)layout_regs(to);
    Picked *source = arena_array(&e->s->arena, Picked, (size_t)n);
    for (int k = 0; k < n; k++)
        if (!picked(e, i, (uint32_t)k, &source[k])) return false;
    DType d = r->type->dtype;
    int in_word = per_word(d);
    const char *out = declare_tile(e, r);
    for (int w = 0, run; w < array_len(d, n); w += run) {
        const char *v[4];
        int here = n - w * in_word < in_word ? n - w * in_word : in_word;
        run = run_of(source, w, n, in_word);
        if (run > 1) {
            copy_words(e, out, w, &source[w * in_word], in_word, run);
            continue;
        }
        const char *two =
            in_word == 4 && here == 4 && asked_by_words(r) ? bytes_of_two(e, &source[w * in_word]) : NULL;
        for (int k = 0; k < here && !two; k++) {
            const Picked *p = &source[w * in_word + k];
            v[k] = element(e, p->from, layout_of(e, p->from), index_number(e, p->reg));
        }
        line(e, "%s[%d] = %s;", out, w, two ? two : pack_expr(e, d, v, here));
    }
    return true;
}
