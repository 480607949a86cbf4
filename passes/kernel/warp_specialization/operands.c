/* operands.c: of warp-specialization: decides what TMA can load and what wgmma can multiply. */
#include "ir/target/matrix.h"
#include "passes/kernel/warp_specialization/bulk_store.h"
#include "passes/kernel/warp_specialization/warp_specialization.h"
#include <stdarg.h>

bool roles_refuse(Roles *c, Loc loc, const char *why, ...)
{
    va_list args;
    if (c->why) return false;
    va_start(args, why);
    c->why = arena_vprintf(&c->s->arena, why, args);
    va_end(args);
    c->why_loc = loc;
    return false;
}

/* Whether TMA writes the tile of l in the form that the reshape v gives it. All axes except the contiguous
 * one are merged: rows (or columns) of a matrix that span several axes of the tensor. */
static bool merged_by_tma(Roles *c, const Instr *l, const Value *v)
{
    const Type *t = ir_result(l)->type;
    const Attr *o = ir_attr(l, ATTR_ORDER);
    int axis;
    kernel_unit_axis(c->f, l, &axis);
    /* The axes are merged in the order of the tensor, except that the contiguous axis may come first. */
    for (int k = 0; o && k < o->n; k++)
        if (o->v[k] != (k ? k - 1 : o->n - 1)) return false;
    int kept = o ? 0 : t->rank - 1, side = o ? 0 : 1;
    return t->rank >= 2 && axis == kept && t->shape[kept] == v->type->shape[side];
}

Instr *roles_load_behind(Roles *c, const Value *v)
{
    if (v->def && v->def->op == OP_SLICE)
        v = ir_operand(v->def, 0); /* merge_loads.c makes such loads of consecutive rows. */
    Instr *i = v->def;
    if (i && i->op == OP_PERMUTE && v->type->rank == 2) {
        Instr *l = ir_operand(i, 0)->def; /* transposed_views.c makes such loads. */
        return l && l->op == OP_LOAD ? l : NULL;
    }
    if (i && i->op == OP_RESHAPE && v->type->rank == 2) {
        Instr *l = ir_operand(i, 0)->def;
        if (!l || l->op != OP_LOAD || ir_use_count(ir_result(l)) != 1) return NULL;
        return merged_by_tma(c, l, v) || roles_by_cp_async(c, l) ? l : NULL;
    }
    return i && i->op == OP_LOAD ? i : NULL;
}

Value *roles_matrix_of(const Instr *load)
{
    Value *v = ir_result(load);
    Use *u = v->uses;
    bool merged = u && !u->next && u->user->op == OP_RESHAPE && ir_result(u->user)->type->rank <= 2;
    return merged ? ir_result(u->user) : v;
}

const Use *roles_product_of(const Value *matrix)
{
    const Use *u = matrix->uses;
    if (u && (u->user->op == OP_SLICE || u->user->op == OP_PERMUTE)) u = ir_result(u->user)->uses;
    return u && u->user->op == OP_MMA_SYNC ? u : NULL;
}

/* For parts at given positions: one copy for each part, started by one thread. */
enum { MOST_PARTS = 32, LEAST_ROWS = 4 };

static bool picked_fits(Roles *c, const Instr *i, int64_t parts)
{
    int64_t rows = 1;
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    const char *name = c->f->params[ir_operand(i, 0)->index].name;
    int unit = kernel_unit_axis(c->f, i, NULL);
    for (int a = 0; parts && a < e->n; a++)
        if (a != unit && e->v[a] > 0) rows *= e->v[a];
    if (parts && (parts > MOST_PARTS || rows / parts < LEAST_ROWS))
        return roles_refuse(c, i->loc,
            "the window of %s has %lld parts of %lld rows with positions of their own: TMA would be asked "
            "for each",
            name, (long long)parts, (long long)(rows / parts));
    return true;
}

bool roles_tma_window(Roles *c, const Instr *i)
{
    MemParts m;
    if (!ir_mem_parts(i, &m)) return false;
    const Param *p = &c->f->params[m.param];
    int bytes = dtype_bytes(p->type->dtype), unit = -1;
    if (m.token)
        return roles_refuse(
            c, i->loc, "%s is written too, and TMA does not wait for a program's own stores", p->name);
    if (m.pad) return roles_refuse(c, i->loc, "the load of %s has a pad, and TMA knows zero only", p->name);
    const Attr *steps = ir_attr(i, ATTR_STEPS);
    if (steps && kernel_parts(i, NULL) > 1)
        return roles_refuse(
            c, i->loc, "the window of %s has steps, and parts with positions of their own", p->name);
    if (m.rank > 5) return roles_refuse(c, i->loc, "%s has %d axes, TMA takes at most five", p->name, m.rank);
    for (int a = 0; a < m.rank; a++)
        if (p->stride[a] == 1) unit = a;
    if (unit < 0 || ir_attr(i, ATTR_EXTENTS)->v[unit] == -1)
        return roles_refuse(c, i->loc, "the tile of %s has no axis known to be contiguous", p->name);
    if (p->align % 16)
        return roles_refuse(c, i->loc, "the base of %s is not known to be 16-byte aligned", p->name);
    if (!kernel_tma_begins(c->f, i, unit))
        return roles_refuse(c, i->loc,
            "the tile of %s is not known to begin at a multiple of 16 bytes along its contiguous axis",
            p->name);
    if (!kernel_tma_counts(c->f, p))
        return roles_refuse(c, i->loc,
            "an axis of %s may have 2^31 elements or more, and TMA counts them in 32 bits", p->name);
    for (int a = 0; a < m.rank; a++) {
        int64_t s = ir_stride_step(p, a);
        if (a != unit && (s < 0 || s * bytes % 16))
            return roles_refuse(c, i->loc,
                "a stride of %s is not known to be a multiple of 16 bytes, or runs backwards", p->name);
        int64_t step = steps && ir_attr(i, ATTR_EXTENTS)->v[a] > 0 ? steps->v[a] : 1;
        if (step != 1 && (a == unit || step < 1 || step > MOST_TMA_STEP))
            return roles_refuse(c, i->loc,
                "the window of %s has steps that TMA does not take: from 1 to %d, and none along the "
                "contiguous axis",
                p->name, MOST_TMA_STEP);
        if (a != unit && ir_attr(i, ATTR_EXTENTS)->v[a] * step > 256)
            return roles_refuse(
                c, i->loc, "the tile takes more than 256 elements of an axis of %s, TMA's limit", p->name);
    }
    Im2col run;
    return roles_im2col(c, i, &run) || picked_fits(c, i, kernel_parts(i, NULL));
}

static bool only_products(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->op == OP_PERMUTE || u->user->op == OP_SLICE
                ? !only_products(ir_result(u->user))
                : u->user->op != OP_MMA_SYNC || u == &u->user->operands[2])
            return false;
    return true;
}

static bool tma_load(Roles *c, const Value *v)
{
    const Instr *i = roles_load_behind(c, v);
    if (!i || (!roles_by_cp_async(c, i) && !roles_tma_window(c, i))) return false;
    return only_products(v) && (v == roles_matrix_of(i) || only_products(roles_matrix_of(i)));
}

/* The axis of the load's matrix that is contiguous in memory. */
static int memory_side(Roles *c, const Instr *load)
{
    const Type *t = ir_result(load)->type;
    const Value *v = roles_matrix_of(load);
    int axis, split = 0;
    kernel_unit_axis(c->f, load, &axis);
    if (v == ir_result(load)) return axis;
    for (int64_t rows = 1; split < t->rank && rows < v->type->shape[0]; split++) rows *= t->shape[split];
    return axis < split ? 0 : 1;
}

/* The axis along which a stage must be contiguous, for operands of 8 or 32 bits; -1: it may be either. */
static int wanted_side(const Instr *load)
{
    const Value *v = roles_matrix_of(load);
    const Use *u = roles_product_of(v);
    if (!u || dtype_bytes(v->type->dtype) == 2) return -1;
    return u == &u->user->operands[0] ? 1 : 0;
}

/* Lines of several axes, among which K is an axis of its own, go to a stage that is contiguous along K:
 * ldmatrix and stmatrix transpose blocks of 8 x 8, without a shift (cp_async_producer.c). */
static bool transposed_in_blocks(Roles *c, const Instr *load)
{
    const Value *v = roles_matrix_of(load);
    const Use *u = roles_product_of(v);
    const Type *t = ir_result(load)->type;
    if (v == ir_result(load) || !u || t->rank < 3) return false;
    int k = u == &u->user->operands[0] ? 1 : 0, beside = k ? t->rank - 1 : 0, axis;
    int64_t rows = type_elements(t) / t->shape[beside];
    kernel_unit_axis(c->f, load, &axis);
    return axis >= 0 && axis != beside && memory_side(c, load) != k &&
           t->shape[beside] == v->type->shape[k] && rows / t->shape[axis] >= c->p->cp_async_warps &&
           kernel_cp_async_blocks(c->f, load, beside);
}

int roles_unit_axis(Roles *c, const Instr *load)
{
    int want = wanted_side(load);
    if (want < 0 && roles_by_cp_async(c, load) && transposed_in_blocks(c, load))
        return 1 - memory_side(c, load);
    return want >= 0 && roles_by_cp_async(c, load) ? want : memory_side(c, load);
}

/* A left operand of 32 bits that is contiguous along M is loaded by TMA and read into registers. */
static bool through_registers(const Instr *load)
{
    const Value *v = ir_result(load);
    const Use *u = v->uses;
    return u && !u->next && u->user->op == OP_MMA_SYNC && u == &u->user->operands[0] &&
           dtype_bytes(v->type->dtype) == 4;
}

bool roles_by_cp_async(Roles *c, const Instr *load)
{
    const Value *v = roles_matrix_of(load);
    const Use *u = roles_product_of(v);
    const char *why = c->why;
    Loc loc = c->why_loc;
    if (kernel_skips(c->p, PASS_CP_ASYNC_PRODUCER) || !u || !roles_cp_async_window(c, load)) return false;
    if (kernel_shifts(load)) return true; /* merge-loads merged them because cp.async producers copy them. */
    /* Products of few rows wait for memory, whichever instruction computes them. */
    if (ir_operand(u->user, 0)->type->shape[0] < 64) return false;
    const Decision *d = schedule_asked_load(c->p, load);
    if (d && d->form == LOAD_STAGES_CP_ASYNC) return true;
    int want = wanted_side(load);
    /* A tile that must be transposed element by element is slower with cp.async producers than on the
     * portable path (bench/notes/decisions.md, "Behind the decisions"). */
    if (want >= 0 && want != memory_side(c, load) && !roles_force_cp_async(c->p)) return false;
    bool tma = roles_tma_window(c, load) && (v == ir_result(load) || merged_by_tma(c, load, v)) &&
               (want < 0 || want == memory_side(c, load) || through_registers(load));
    c->why = why;
    c->why_loc = loc;
    return !tma;
}

bool roles_k_major(Roles *c, const Value *v, int k_axis)
{
    bool transposed = v->def && v->def->op == OP_PERMUTE;
    return roles_unit_axis(c, roles_load_behind(c, v)) == (transposed ? 1 - k_axis : k_axis);
}

/* Whether K, an axis of v, is contiguous in the tensor and covers all of that axis. Then TMA pads a stage
 * beyond it with zeros. */
static bool whole_rows(Roles *c, const Value *v, int k_axis, int64_t k)
{
    const Instr *l = roles_load_behind(c, v);
    int64_t from;
    MemParts m;
    if (l && v->def->op == OP_PERMUTE && ir_operand(v->def, 0) == ir_result(l)) {
        v = ir_result(l);
        k_axis = 1 - k_axis;
    }
    if (!l || v != ir_result(l) || roles_by_cp_async(c, l) || !ir_mem_parts(l, &m) ||
        roles_unit_axis(c, l) != k_axis)
        return false;
    int unit = kernel_unit_axis(c->f, l, NULL);
    return c->f->dims[c->f->params[m.param].dims[unit]].extent == k && ir_is_const(m.idx[unit], &from) &&
           from == 0;
}

static void add_load(Roles *c, Instr *load)
{
    for (size_t k = 0; k < c->loads.len; k++)
        if (c->loads.data[k] == load) return;
    vec_push(&c->s->arena, &c->loads, load);
}

const char *roles_instr(DType d, bool tf32)
{
    const WgmmaType *t = wgmma_type(d);
    return t && (d != DT_F32 || tf32) ? t->instr : NULL;
}

/* Few rows wait for memory, and a computed operand would be written to shared memory for them alone. */
static bool right_fits(Roles *c, Instr *i)
{
    Value *b = ir_operand(i, 1);
    if (ir_operand(i, 0)->type->shape[0] > FEW_ROWS && roles_staged_right(c, i)) return true;
    if (!roles_load_behind(c, b))
        return roles_refuse(c, i->loc,
            "the product's right operand is computed, not loaded, and consumers cannot write it to shared "
            "memory, from where wgmma reads it");
    if (!tma_load(c, b)) return roles_refuse(c, i->loc, "the product's right operand is not loaded by TMA");
    add_load(c, roles_load_behind(c, b));
    if (!roles_k_major(c, b, 0) && dtype_bytes(b->type->dtype) != 2)
        return roles_refuse(c, i->loc, "operands of 8 and 32 bits must be contiguous in K");
    return true;
}

bool roles_product_fits(Roles *c, Instr *i)
{
    Value *a = ir_operand(i, 0), *b = ir_operand(i, 1);
    DType d = a->type->dtype;
    bool tf32 = ir_attr_int(i, ATTR_PRECISION, 0) == PRECISION_TF32;
    int64_t m = a->type->shape[0], k = a->type->shape[1], n = b->type->shape[1];
    if (!roles_instr(d, tf32))
        return roles_refuse(c, i->loc,
            d == DT_F32 ? "wgmma multiplies %s only as tf32" : "wgmma does not multiply %s", dtype_name(d));
    if (ir_attr(i, ATTR_PARTS))
        return roles_refuse(
            c, i->loc, "products of a batch are computed by warps that have matrices of their own");
    int kinst = 32 / dtype_bytes(d);
    if (m <= FEW_ROWS) m = 64;
    int64_t most = m == 64 ? 2 * WGMMA_COLUMNS : WGMMA_COLUMNS; /* two warpgroups may share them */
    if (m % 64 || n % 8 || n > most || (n > WGMMA_COLUMNS && n % 16))
        return roles_refuse(c, i->loc,
            "a product of %lld x %lld: wgmma wants rows in multiples of 64 or fewer than 16, columns in "
            "multiples of 8 up to 256",
            (long long)m, (long long)n);
    if (!wgmma_has(d, b->type->dtype, n > WGMMA_COLUMNS ? n / 2 : n))
        return roles_refuse(c, i->loc, "a product of %lld columns: of %s wgmma has 8, 24 or a multiple of 16",
            (long long)n, dtype_name(d));
    if (k % kinst && !(whole_rows(c, a, 1, k) && whole_rows(c, b, 0, k)))
        return roles_refuse(c, i->loc,
            "K is no multiple of an instruction's, nor all of a contiguous axis of both operands, which TMA "
            "would pad with zeros");
    if (m > c->rows) c->rows = m;
    if (!right_fits(c, i)) return false;
    if (tma_load(c, a)) {
        bool a_k = roles_k_major(c, a, 1);
        if (!a_k && a->type->shape[0] != m)
            return roles_refuse(c, i->loc, "few rows that lie side by side in memory");
        if (!a_k && through_registers(roles_load_behind(c, a))) return true;
        if (!a_k && dtype_bytes(d) != 2)
            return roles_refuse(c, i->loc, "operands of 8 and 32 bits must be contiguous in K");
        add_load(c, roles_load_behind(c, a));
    } else if (roles_load_behind(c, a))
        return roles_refuse(c, i->loc, "the product's left operand is not loaded by TMA");
    return true;
}

static bool scalar_only(Roles *c, const Value *v);

static bool scalar_test(void *c, Value *v) { return scalar_only(c, v); }

/* Value k of those that a `while` carries: what its test takes from before the loop and from the step before,
 * or what its test hands to the body and, in the end, to the results. */
static bool while_from_scalars(Roles *c, const Instr *loop, int k, bool tested)
{
    const Instr *test = ir_terminator(loop->blocks[0]);
    if (tested) return scalar_only(c, ir_operand(test, k + 1));
    return scalar_only(c, ir_operand(loop, k)) &&
           scalar_only(c, ir_operand(ir_terminator(loop->blocks[1]), k));
}

static bool from_scalars(Roles *c, const Value *v)
{
    const Instr *d = v->def, *loop = d ? d : v->block->parent;
    if (!loop) return true;
    if (loop->op == OP_WHILE)
        return while_from_scalars(c, loop, v->index, d || v->block != loop->blocks[0]) &&
               (!d || scalar_only(c, ir_operand(ir_terminator(loop->blocks[0]), 0)));
    if (loop->op == OP_FOR && d) { /* The results of a loop also depend on its number of iterations. */
        for (int k = 0; k < 3; k++)
            if (!scalar_only(c, ir_operand(d, k))) return false;
        return scalar_only(c, loop->blocks[0]->args[v->index + 1]);
    }
    if (!d) {
        if (loop->op != OP_FOR) return false;
        return v->index == 0 || (scalar_only(c, ir_operand(loop, v->index + 2)) &&
                                    scalar_only(c, ir_operand(ir_terminator(loop->blocks[0]), v->index - 1)));
    }
    /* The producer does no writes, and would read a tensor that the kernel writes at another time than the
     * consumers, with a token or without (first-reads). */
    MemParts m;
    if (ir_mem_parts(d, &m) && c->f->params[m.param].kind != PARAM_IN) return false;
    for (int k = 0; k < d->n_operands; k++)
        if (ir_operand(d, k)->type->kind == TYPE_TOKEN || !scalar_only(c, ir_operand(d, k))) return false;
    if (d->op == OP_IF)
        return scalar_only(c, ir_operand(ir_terminator(d->blocks[0]), v->index)) &&
               scalar_only(c, ir_operand(ir_terminator(d->blocks[1]), v->index));
    return !d->n_blocks && (op_info[d->op].flags & OPF_WRITE) == 0;
}

/* Whether v is computed from scalars only, and never from a product or another tile. Each value is examined
 * once, because carried values of a loop may depend on themselves. */
static bool scalar_only(Roles *c, const Value *v)
{
    enum { UNKNOWN, YES, NO };
    if (v->type->kind != TYPE_SCALAR) return v->type->kind == TYPE_TENSOR;
    if (v->id >= c->n_scalar) { /* the pass makes values between its questions */
        const size_t n = c->f->module->next_id;
        c->scalar = arena_grow(&c->s->arena, c->scalar, c->n_scalar, n);
        c->n_scalar = n;
    }
    if (c->scalar[v->id] == UNKNOWN) {
        c->scalar[v->id] = YES;
        if (!from_scalars(c, v)) {
            /* Some values were marked because this one was. */
            for (size_t k = 0; !v->def && k < c->n_scalar; k++)
                if (c->scalar[k] == YES) c->scalar[k] = UNKNOWN;
            c->scalar[v->id] = NO;
        }
    }
    return c->scalar[v->id] == YES;
}

bool roles_control_fits(Roles *c, const Instr *load)
{
    MemParts m;
    ir_mem_parts(load, &m);
    for (int a = 0; a < m.rank; a++)
        if (!kernel_position_of(m.idx[a], scalar_test, c))
            return roles_refuse(
                c, load->loc, "an offset depends on computed tiles, or on a tensor that the kernel writes");
    for (const Instr *p = load->block->parent; p; p = p->block->parent) {
        if (p->op == OP_FOR) {
            for (int k = 0; k < 3; k++)
                if (!scalar_only(c, ir_operand(p, k)))
                    return roles_refuse(c, p->loc,
                        "a loop's bounds depend on computed tiles, or on a tensor that the kernel writes");
        } else if (p->op == OP_IF) {
            if (!scalar_only(c, ir_operand(p, 0)))
                return roles_refuse(c, p->loc,
                    "a condition depends on computed tiles, or on a tensor that the kernel writes");
        } else if (p->op != OP_WHILE || !scalar_only(c, ir_operand(ir_terminator(p->blocks[0]), 0)))
            return roles_refuse(c, p->loc,
                "the test of a while loop depends on computed tiles, or on a tensor that the kernel writes");
    }
    return true;
}
