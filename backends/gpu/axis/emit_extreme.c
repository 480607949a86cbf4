/* emit_extreme.c: largest and smallest values of rows: by words of two elements, and those that another
 * operation has found.
 *
 * The largest of f16 and bf16 elements is one of them, whatever they are widened to and whether their signs
 * are left out, so that two words become one by one instruction and only the last two elements are widened:
 *
 *     reduce_max abs cast %x      w = max2(w & 0x7fff7fff, x[0] & ..); ..; max(widened w.low, widened w.high)
 *
 * Where all lanes of a warp hold the same row, one instruction finds the largest integer of them, be it the
 * bits of a float.
 *
 * argmax looks for the largest value first. Beside reduce_max of the same tile one of them finds it, and the
 * other one takes it over. */
#include "backends/gpu/axis/emit_best.h"
#include "backends/gpu/memory/emit_row_start.h"

/* --- by words ---------------------------------------------------------------------------------------- */

/* The tile of 16-bit floats in registers of whose elements those of x are the values, or the magnitudes. */
static const Value *words_of(const Emit *e, const Value *x, bool *magnitudes)
{
    *magnitudes = false;
    while (x->def && x->type->kind == TYPE_TILE) {
        const DType d = x->type->dtype;
        if ((d == DT_F16 || d == DT_BF16) && e->storage[x->id]) return x;
        if (x->def->op == OP_ABS) *magnitudes = true;
        else if (x->def->op != OP_CAST || d != DT_F32) return NULL;
        x = ir_operand(x->def, 0);
    }
    return NULL;
}

/* Whether both elements of each word of a row are in the tile, or neither is. */
static bool whole_words(Emit *e, const Layout *l, int axis)
{
    int32_t c[TILE_MAX_RANK], d[TILE_MAX_RANK];
    for (uint32_t r = 0; r < layout_regs(l); r += 2) {
        layout_element(l, r, 0, 0, 0, c);
        layout_element(l, r + 1, 0, 0, 0, d);
        c[axis]++;
        if (!coords_equal(l->rank, c, d)) return false;
    }
    for (int a = 0; a < l->rank; a++)
        if (l->cover[a] != l->tile[a] && (row_start(e, l) || (a == axis && l->tile[a] % 2))) return false;
    return layout_contiguity(l, axis) >= 2;
}

const char *extreme_by_words(Emit *e, const Value *x, const Layout *l, int axis, bool most)
{
    enum { LEAST_WORDS = 4, MOST_CHAINS = 4 };
    bool magnitudes;
    const Value *held = is_hip(e) ? NULL : words_of(e, x, &magnitudes);
    const int n = (int)layout_regs(l) / 2;
    if (!held || layout_of(e, held) != l || n < LEAST_WORDS || !whole_words(e, l, axis)) return NULL;
    const DType d = held->type->dtype;
    const char *lowest = d == DT_F16 ? most ? "0xfc00fc00u" : "0x7c007c00u"
                         : most      ? "0xff80ff80u"
                                     : "0x7f807f80u",
               *join = use(e, str(e, "%s2_%s", most ? "max" : "min", dtype_name(d))), *w = tmp(e, "most");
    const int chains = n >= 4 * MOST_CHAINS ? MOST_CHAINS : 1;
    line(e, "u32 %s[%d];", w, chains);
    begin_unrolled(e, "i", chains);
    line(e, "%s[i] = %s;", w, lowest);
    end_block(e);
    begin_unrolled(e, "i", n);
    const char *in = inside_tile(e, l, index_linear(e, 2, "i", 0)),
               *v = str(e, "%s[i]%s", e->storage[held->id], magnitudes ? " & 0x7fff7fffu" : ""),
               *chain = chains > 1 ? str(e, "%s[i %% %d]", w, chains) : str(e, "%s[0]", w);
    if (*in) v = str(e, "%s ? %s : %s", in, v, lowest);
    line(e, "%s = %s(%s, %s);", chain, join, chain, v);
    end_block(e);
    for (int k = 1; k < chains; k++) line(e, "%s[0] = %s(%s[0], %s[%d]);", w, join, w, w, k);
    const char *half = use(e, str(e, "get_%s", dtype_name(d)));
    return str(e, "%s(%s(%s[0], 0), %s(%s[0], 1))", use(e, most ? "max_f32" : "min_f32"), half, w, half, w);
}

/* --- of all lanes ------------------------------------------------------------------------------------ */

const char *extreme_of_warp(Emit *e, uint32_t lanes, DType d, bool most)
{
    if (is_hip(e) || lanes != (uint32_t)e->target->wave - 1) return NULL;
    if (d == DT_I32) return use(e, most ? "warp_max_i32" : "warp_min_i32");
    return d == DT_F32 && most ? use(e, "warp_max_f32") : NULL;
}

/* --- that are known ---------------------------------------------------------------------------------- */

static bool is_most(Op op) { return op == OP_REDUCE_MAX || op == OP_ARGMAX; }

static bool finds_extreme(const Instr *i)
{ return i->op == OP_REDUCE_MAX || i->op == OP_REDUCE_MIN || i->op == OP_ARGMAX || i->op == OP_ARGMIN; }

static bool alike(const Instr *a, const Instr *b)
{
    return finds_extreme(a) && finds_extreme(b) && a->block == b->block && is_most(a->op) == is_most(b->op) &&
           ir_operand(a, 0) == ir_operand(b, 0) &&
           ir_attr_int(a, ATTR_AXIS, 0) == ir_attr_int(b, ATTR_AXIS, 0);
}

bool extreme_wanted(const Instr *i)
{
    for (const Instr *next = i->next; next; next = next->next)
        if (alike(i, next) && next->op != i->op) return true;
    return false;
}

void extreme_keep(Emit *e, const Instr *i, const char *own, const char *value)
{ vec_push(&e->s->arena, &e->extremes, ((Extreme){ i, own, value })); }

static bool stands_before(const Instr *a, const Instr *b)
{
    while (b && b != a) b = b->prev;
    return b != NULL;
}

/* A block may be emitted again, where what others have found behind this operation is of the time before. A
 * search for a position needs what each thread has found by itself, which another one does not say. */
const Extreme *extreme_known(const Emit *e, const Instr *i)
{
    const bool place = i->op == OP_ARGMAX || i->op == OP_ARGMIN;
    for (size_t k = e->joint ? 0 : e->extremes.len; k; k--) {
        const Extreme *x = &e->extremes.data[k - 1];
        if (alike(x->of, i) && stands_before(x->of, i->prev) && (x->own || !place)) return x;
    }
    return NULL;
}
