/* hip_need.c: see hip_need.h. */
#include "tests/emit/hip_need.h"
#include "tests/emit/hip_plan.h"
#include <string.h>

/* How much of K one instruction multiplies: by the type and the chip, as the ISA guides list them. */
static int depth_of(const Target *t, const LayoutMmaInfo *m, DType d, bool tf32)
{
    bool exchanged = !strcmp(m->name + strlen(m->name) - 2, "_r");
    if (!exchanged || m->lanes == 32) return m->k;
    if (m->bits == 16) return t->arch == 0x950 ? 16 : 8;
    if (m->bits == 8)
        return t->arch == 0x90a ? 8 : t->arch == 0x942 ? 16 : d == DT_I8 ? 32 : m->k == 64 ? 64 : 16;
    return tf32 && t->arch == 0x942 ? 4 : 2;
}

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Matrix instructions of a wave for one product, from arithmetic alone: 2 M N K over what one instruction
 * computes, shared by the waves. Where the tile is not whole instructions, or the waves do not share them
 * evenly, those of the busiest wave in the best of all arrangements of waves along M and N. No layout is
 * asked. */
static int64_t need_of_product(
    const LayoutMmaInfo *m, int64_t deep, int64_t rows, int64_t columns, int64_t k, int64_t waves)
{
    int64_t flops = 2 * rows * columns * k, one = 2 * (int64_t)m->m * m->n * deep, best = INT64_MAX;
    bool whole = rows % m->m == 0 && columns % m->n == 0 && k % deep == 0;
    if (whole && rows / m->m * (columns / m->n) % waves == 0) return flops / one / waves;
    for (int64_t down = 1; down <= waves; down++) {
        int64_t busiest = waves % down
                              ? INT64_MAX
                              : up(up(rows, m->m), down) * up(up(columns, m->n), waves / down) * up(k, deep);
        if (busiest < best) best = busiest;
    }
    return best;
}

/* The same for all products of one iteration of each block. */
static void need_of(void *user, Instr *i)
{
    HipNeed *u = user;
    const Instr *loop = i->block->parent;
    if (loop && loop->op == OP_FOR && i->op == OP_COPY_WAIT) {
        u->pipelined = true;
        u->depth = (int)ir_attr_int(i, ATTR_DEPTH, 0);
    }
    if (i->op == OP_LOAD && loop && loop->op == OP_IF && loop->n_results && loop->results[0].name &&
        strstr(loop->results[0].name, "_next"))
        *(kernel_access_bytes(u->f, i) < 4 ? &u->packed : &u->pipelined) = true;
    u->adds |= loop && loop->op == OP_FOR && i->op == OP_STORE && ir_attr(i, ATTR_RMW);
    if (i->op != OP_MMA_SYNC) return;
    const char *name = ir_attr(i, ATTR_INSTR)->s;
    for (int k = 0; k < LAYOUT_MMA_COUNT; k++) {
        const LayoutMmaInfo *m = layout_mma_info((LayoutMma)k);
        if (strcmp(m->name, name) || u->n == HIP_NEED_BLOCKS) continue;
        const Type *c = ir_result(i)->type, *a = ir_operand(i, 0)->type;
        int64_t deep = depth_of(u->t, m, a->dtype, ir_attr_int(i, ATTR_PRECISION, 0) == PRECISION_TF32);
        int at = 0;
        while (at < u->n && u->block[at] != i->block) at++;
        if (at == u->n) {
            u->block[u->n] = i->block;
            u->count[u->n++] = 0;
        }
        u->count[at] += need_of_product(m, deep, c->shape[0], c->shape[1], a->shape[1], u->warps);
    }
}

void hip_need(HipNeed *need, const Func *f, const Target *t, int64_t warps)
{
    *need = (HipNeed){ .t = t, .f = f, .warps = warps };
    ir_walk(f->body, need_of, need);
}

const char *hip_need_unmet(
    const HipNeed *need, const HipReport *h, const GpuCode *code, int budget, bool limits)
{
    bool as_needed = !need->n;
    for (int k = 0; k < need->n; k++)
        as_needed |= need->count[k] == h->waits.matrix || need->block[k] == need->f->body;
    if (limits && h->scratch) return "scratch";
    if (limits && h->spills) return "spills";
    if (limits && !hip_plan_holds(code->planned_registers, h->vgprs + h->agprs, budget))
        return "other registers than planned";
    if (h->lds != code->shared_bytes) return "another size of LDS than planned";
    if (!limits) return NULL;
    if (h->occupancy < code->planned_waves) return "fewer waves than planned";
    if (!as_needed) return "not as many matrix instructions as needed";
    if (need->n && need->pipelined && !need->packed && !h->waits.ahead) return "no load runs ahead";
    if ((need->pipelined || need->packed) && !need->adds && h->waits.drained)
        return "waits for what a later step loads before the products end";
    return NULL;
}
