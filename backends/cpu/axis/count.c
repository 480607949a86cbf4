/* count.c: counts of keys. In
 *
 *     sum(i32(keys[:, None] == first + arange(N)[None, :]), axis = 0)
 *
 * each key adds one to the count at its place, instead of being compared with N values. A key that is none of
 * the N values adds to one more count behind the others, which is dropped.
 *
 * The keys of a chunk are taken one by one, several in each turn of the loop. Each of these has instructions
 * of its own, so that the processor learns for each of them which earlier store its load has to wait for
 * (bench/notes/cpu_zen4.md, "Counts of keys"). */
#include "backends/cpu/product/mma.h"
#include "backends/cpu/nest.h"
#include "backends/cpu/plan/plan.h"

enum {
    LEAST_KEYS = 16, /* for which clearing the numbers and moving them pays */
    DEPTH = 12,
};

/* --- the plan ---------------------------------------------------------------------------------------- */

/* The axis of several elements, if there is one and no more; -1. */
static int only_axis(const Type *t)
{
    int axis = -1;
    for (int a = 0; a < t->rank; a++) {
        if (t->shape[a] == 1) continue;
        if (axis >= 0) return -1;
        axis = a;
    }
    return axis;
}

static bool renames(const Instr *i)
{
    return (i->op == OP_RESHAPE || i->op == OP_BROADCAST) && is_tile(ir_operand(i, 0)) &&
           plan_same_squeezed(ir_operand(i, 0)->type, ir_result(i)->type);
}

/* Whether a conversion leaves consecutive values so: it takes the low bits, or widens positions, which did
 * not wrap. */
static bool converts(const Instr *i)
{
    if (i->op != OP_CAST || !is_tile(ir_operand(i, 0))) return false;
    const Instr *of = ir_operand(i, 0)->def;
    DType from = ir_operand(i, 0)->type->dtype, to = ir_result(i)->type->dtype;
    if (!dtype_is_int(from) || !dtype_is_int(to)) return false;
    if (dtype_bits(to) <= dtype_bits(from)) return true;
    if (!of || of->op != OP_ARANGE) return false;
    int64_t start = ir_attr_int(of, ATTR_START, 0), n = type_elements(ir_result(of)->type);
    return start >= 0 && start + n <= (int64_t)1 << (dtype_bits(from) - 1);
}

/* Whether the elements along the only axis of several are each one more than the one before. */
static bool consecutive(const Value *v, int depth)
{
    const Instr *i = v->def;
    if (!i || depth > DEPTH || !dtype_is_int(v->type->dtype)) return false;
    if (i->op == OP_ARANGE) return true;
    if (renames(i) || converts(i)) return consecutive(ir_operand(i, 0), depth + 1);
    if (i->op != OP_ADD && i->op != OP_SUB) return false;
    const Value *a = ir_operand(i, 0), *b = ir_operand(i, 1);
    if (b->def && b->def->op == OP_SPLAT) return consecutive(a, depth + 1);
    return i->op == OP_ADD && a->def && a->def->op == OP_SPLAT && consecutive(b, depth + 1);
}

/* What a value that changes along `axis` only is broadcast from; NULL: it changes along others too. */
static Value *along(Value *v, int axis)
{
    if (v->def && v->def->op == OP_BROADCAST && is_tile(ir_operand(v->def, 0))) v = ir_operand(v->def, 0);
    return v->type->rank > axis && only_axis(v->type) == axis ? v : NULL;
}

/* The operands of the comparison that a sum counts: the keys, and the values of the places. */
static bool counted(const Instr *i, Value **keys, Value **places)
{
    Value *v = ir_operand(i, 0);
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0), other = -1;
    if (i->op != OP_REDUCE_SUM || !dtype_is_int(v->type->dtype) || !v->def || v->def->op != OP_CAST)
        return false;
    for (int a = 0; a < v->type->rank; a++) {
        if (a == axis || v->type->shape[a] == 1) continue;
        if (other >= 0) return false;
        other = a;
    }
    const Instr *same = ir_operand(v->def, 0)->def;
    if (other < 0 || !same || same->op != OP_EQ) return false;
    for (int k = 0; k < 2; k++) {
        *keys = along(ir_operand(same, k), axis);
        *places = along(ir_operand(same, 1 - k), other);
        if (*keys && *places && consecutive(*places, 0)) return true;
    }
    return false;
}

Value *count_plan(Plan *p, Instr *i, int64_t *places)
{
    Value *keys, *values;
    if (!is_tile(ir_result(i)) || !counted(i, &keys, &values)) return NULL;
    Value *x = ir_operand(i, 0);
    if (plan_has_buffer(p, x) || plan_has_buffer(p, ir_operand(x->def, 0))) return NULL;
    int bits = dtype_bits(keys->type->dtype);
    int64_t n = *places = values->type->shape[only_axis(values->type)],
            lanes = p->target->vector_bytes / dtype_bytes(x->type->dtype);
    /* A key has one place at most. */
    if (bits < 8 || (bits < 32 && n > (int64_t)1 << bits) || n > INT32_MAX - 1) return NULL;
    if (n < 2 * lanes || keys->type->shape[only_axis(keys->type)] < LEAST_KEYS) return NULL;
    return keys;
}

/* --- the code ---------------------------------------------------------------------------------------- */

/* The first of consecutive values. */
static LLVMValueRef first_of(Gen *g, Value *v)
{
    const Instr *i = v->def;
    LLVMTypeRef t = gen_type(g, v->type->dtype, 1);
    if (i->op == OP_ARANGE) return LLVMConstInt(t, (uint64_t)ir_attr_int(i, ATTR_START, 0), true);
    if (renames(i)) return first_of(g, ir_operand(i, 0));
    if (converts(i)) return LLVMBuildIntCast2(g->b, first_of(g, ir_operand(i, 0)), t, true, "");
    LLVMValueRef x[2];
    for (int k = 0; k < 2; k++) {
        Value *o = ir_operand(i, k);
        x[k] = o->def->op == OP_SPLAT ? gen_scalar(g, ir_operand(o->def, 0)) : first_of(g, o);
    }
    return i->op == OP_ADD ? LLVMBuildAdd(g->b, x[0], x[1], "") : LLVMBuildSub(g->b, x[0], x[1], "");
}

void count_begin(Gen *g, const Sink *k)
{
    LLVMValueRef zero = LLVMConstInt(g->i8, 0, false);
    LLVMBuildMemSet(g->b, gen_buf(g, k->aux, 0), zero, gen_int(g, k->aux->bytes), 64);
}

static void count_key(Eval *e, const Sink *k, LLVMValueRef first, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    DType d = k->aux->dtype;
    LLVMValueRef at = LLVMBuildSub(g->b, nest_eval(e, k->value, coord, va), first, "");
    LLVMValueRef none = gen_int(g, k->aux->shape[0] - 1);
    at = LLVMBuildZExtOrBitCast(g->b, at, g->i64, "");
    at = gen_intrinsic(g, "llvm.umin", &g->i64, 1, (LLVMValueRef[]){ at, none }, 2);
    LLVMValueRef cell = gen_ptr(g, gen_buf(g, k->aux, 0), gen_imul(g, at, dtype_bytes(d)));
    LLVMValueRef one = LLVMConstInt(gen_type(g, d, 1), 1, false);
    gen_store(g, d, LLVMBuildAdd(g->b, gen_load(g, d, 1, cell), one, ""), cell);
}

void count_keys(Eval *e, const Sink *k, LLVMValueRef *coord, int va)
{
    Gen *g = e->g;
    Value *keys, *places;
    counted(k->instr, &keys, &places);
    RowPlace p = row_enter(e);
    LLVMValueRef first = first_of(g, places);
    row_leave(e, p);
    for (int j = 0; j < e->lanes; j++) {
        Eval one;
        LLVMValueRef at[TILE_MAX_RANK];
        memcpy(at, coord, sizeof at);
        if (j) at[va] = gen_iadd(g, coord[va], gen_int(g, j));
        eval_init(&one, g, 1);
        one.row_eval = e->row_eval;
        one.step = e->step;
        count_key(&one, k, first, at, va);
    }
}

void count_end(Gen *g, const Sink *k)
{
    int64_t bytes = (k->aux->shape[0] - 1) * dtype_bytes(k->aux->dtype);
    LLVMBuildMemCpy(g->b, gen_buf(g, k->buf, 0), 64, gen_buf(g, k->aux, 0), 64, gen_int(g, bytes));
}
