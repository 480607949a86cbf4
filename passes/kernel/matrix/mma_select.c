/* mma-select: chooses a matrix instruction for every mma.
 *
 *   %c = mma %a, %b, %acc        ->   %c = mma_sync %a, %b, %acc {instr = "m16n8k16"}
 *
 * The instruction is the first row of ir/target/matrix.def that fits target, type and tile. A product without
 * a row is "fma": f32 without tf32, for instance, since no unit computes it exactly. Where the target lacks
 * the unit for fp8, the pass widens the operands to f16 (gfx90a: bf16), which holds every fp8 value
 * exactly, and a performance note says so. A permute between a load and an operand becomes the load's
 * order.
 *
 * Requires: nothing. Keeps: everything else. Does not handle: wgmma, which warp specialization chooses
 * later, where whole warpgroups fit. */
#include "ir/target/matrix.h"
#include "passes/kernel/kernel.h"

typedef struct MmaSelection {
    Session *s;
    Func *f;
    KernelPlan *p;
} MmaSelection;

static bool feeds_products(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        if (i->op == OP_PERMUTE ? !feeds_products(ir_result(i))
                                : (i->op != OP_MMA && i->op != OP_MMA_SYNC) || u == &i->operands[2])
            return false;
    }
    return true;
}

static Value *fold_permute(MmaSelection *c, Value *v)
{
    Instr *perm = v->def;
    if (!perm || perm->op != OP_PERMUTE) return v;
    Instr *load = ir_operand(perm, 0)->def;
    if (!load || load->op != OP_LOAD) return v;
    if (ir_use_count(ir_operand(perm, 0)) != 1) {
        MemParts m;
        if (!feeds_products(ir_operand(perm, 0)) || !ir_mem_parts(load, &m) || m.token) return v;
        ValueMap none;
        value_map_init(&none, &c->s->arena);
        Builder b = ir_after(load);
        load = ir_clone(&b, load, &none);
        ir_set_operand(perm, 0, ir_result(load));
    }
    const Attr *o = ir_attr(load, ATTR_ORDER), *q = ir_attr(perm, ATTR_ORDER);
    int64_t order[TILE_MAX_RANK];
    for (int i = 0; i < q->n; i++) order[i] = o ? o->v[q->v[i]] : q->v[i];
    ir_set_attr(c->s, load, a_ints(ATTR_ORDER, order, q->n));
    Value *r = ir_operand(perm, 0);
    r->type = v->type;
    ir_replace(v, r);
    ir_erase(perm);
    return r;
}

static bool is_fp8(DType d) { return d == DT_F8E4M3 || d == DT_F8E5M2; }

static const char *pick(const Target *t, DType d, bool tf32, int64_t m, int64_t n, int64_t k)
{
    const MatrixInstr *r = matrix_instr(t, d, tf32, m, n, k);
    return r ? layout_mma_info(r->fragment)->name : "fma";
}

static void visit(void *user, Instr *i)
{
    MmaSelection *c = user;
    if (i->op != OP_MMA) return;
    Value *v[3] = { fold_permute(c, ir_operand(i, 0)), fold_permute(c, ir_operand(i, 1)), ir_operand(i, 2) };
    const Target *t = c->p->target;
    Builder b = ir_before(i);
    if (is_fp8(v[0]->type->dtype) && !matrix_has(t, v[0]->type->dtype)) {
        /* On a unit that treats subnormal f16 as zero, small values of e5m2 would become subnormal. bf16
         * holds every fp8 value as a normal number. */
        DType wide = target_has(t, TF_F16_FLUSHES) ? DT_BF16 : DT_F16;
        diag_perf(c->s, i->loc, "%s has no matrix unit for %s: operands are widened to %s", t->name,
            dtype_name(v[0]->type->dtype), dtype_name(wide));
        for (int k = 0; k < 2; k++) v[k] = ir_cast(&b, v[k], wide);
    }
    int64_t precision = ir_attr_int(i, ATTR_PRECISION, PRECISION_FULL);
    bool tf32 = precision == PRECISION_TF32;
    DType d = v[0]->type->dtype;
    if (target_has(t, TF_MFMA) && v[1]->type->dtype == DT_U8) d = DT_U8; /* MFMA has signed bytes only. */
    const int64_t *shape = ir_result(i)->type->shape, batches = ir_attr_int(i, ATTR_PARTS, 1);
    Instr *m = ir_build(&b, OP_MMA_SYNC, v, 3,
        ATTRS(a_str(ATTR_INSTR, pick(t, d, tf32, shape[0] / batches, shape[1], v[0]->type->shape[1])),
            a_int(ATTR_PRECISION, precision)),
        NULL, 0);
    if (batches > 1) ir_set_attr(c->s, m, a_int(ATTR_PARTS, batches));
    ir_replace(ir_result(i), ir_result(m));
    ir_result(m)->name = ir_result(i)->name;
    ir_erase(i);
}

typedef struct ProductSearch {
    const Block *step;
    bool *seen;
} ProductSearch;

/* True: v needs no product of the step. */
static bool needs_no_product(void *user, Value *v)
{
    ProductSearch *p = user;
    const Instr *d = v->def;
    if (!d || p->seen[v->id]) return true;
    p->seen[v->id] = true;
    return !(d->op == OP_MMA_SYNC && d->block == p->step) && ir_all_operands(d, needs_no_product, p);
}

static void record_chained(void *user, Instr *i)
{
    MmaSelection *c = user;
    if (i->op != OP_MMA_SYNC) return;
    ProductSearch p = { i->block, arena_array(&c->s->arena, bool, c->f->module->next_id) };
    if (!needs_no_product(&p, ir_operand(i, 0))) ir_set_attr(c->s, i, a_int(ATTR_CHAINED, 1));
}

bool kernel_pass_mma_select(KernelContext *k)
{
    MmaSelection c = { k->s, k->f, k->p };
    uint32_t before = kernel_values(k);
    ir_walk(k->f->body, visit, &c);
    ir_walk(k->f->body, record_chained, &c);
    return kernel_grew(k, before);
}
