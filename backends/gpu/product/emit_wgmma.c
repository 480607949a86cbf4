/* emit_wgmma.c: products of warpgroups by wgmma. The operands lie in shared memory, described by descriptors;
 * A may lie in registers instead. */
#include "ir/target/matrix.h"
#include "backends/gpu/product/emit_wgmma.h"
#include "backends/gpu/hopper/emit_roles.h"

void pin_registers(Emit *e, const char *array, int words, bool is_float)
{
    begin_unrolled(e, "i", words);
    line(e, "%s(%s[i]);", use(e, is_float ? "pin_float" : "pin_word"), array);
    end_block(e);
}

/* The address without the number of the CTA, for a descriptor. In a cluster, the upper byte of a
 * shared-memory address is the number of the CTA, but a descriptor uses these bits for other fields. */
static const char *own_offset(Emit *e, const char *address)
{ return e->plan->cluster > 1 || e->plan->multicast > 1 ? str(e, "(%s & 0x3ffffu)", address) : address; }

/* The number of steps along K that one statement has when there are enough products. NVRTC processes all
 * operands of each statement separately, which takes a tenth of its time for attention with D 128. Shorter
 * products gain little, and the accumulators of a plain product would then be copied once more. */
enum { STEPS_TOGETHER = 8, PRODUCTS_MANY = 3 };

static void count_products(void *user, Instr *i) { *(int *)user += i->op == OP_WGMMA; }

static bool many_products(const Func *f)
{
    int n = 0;
    ir_walk(f->body, count_products, &n);
    return n >= PRODUCTS_MANY;
}

WgmmaOperands wgmma_operands(Emit *e, const Instr *i)
{
    const Value *a = ir_operand(i, 0), *b = ir_operand(i, 1);
    WgmmaOperands o = { .registers = a->type->kind == TYPE_TILE };
    if (!layout_wgmma_view(layouts_shared(&e->plan->layouts, b->type), 0, &o.b) ||
        (!o.registers && !layout_wgmma_view(layouts_shared(&e->plan->layouts, a->type), 1, &o.a)))
        ir_fail(e->s, i->loc, "an operand's shared layout has no wgmma descriptor");
    return o;
}

/* The bytes from the first column of b to column n, which is a multiple of n. A part of a panel's row begins
 * within the swizzle's span, as a step along K does in the other order. */
static int32_t columns_offset(const LayoutWgmma *b, int32_t n)
{
    int32_t within = b->mn_major ? n % b->mn_unit * b->shared->elem_bytes : 0;
    return layout_wgmma_offset(b, n, 0) + within;
}

void wgmma_declare(Emit *e, const Instr *i, const WgmmaOperands *o)
{
    const Value *a = ir_operand(i, 0), *b = ir_operand(i, 1);
    const Layout *c = layout_of(e, ir_result(i));
    int32_t c0[2], c1[2];
    const char *row = "", *column = "";
    layout_element(c, 0, 0, 0, 0, c0);
    layout_element(c, 0, 0, layout_warps(c) > 4 ? 4 : 0, 0, c1);
    if (c1[1] != c0[1]) column = str(e, " + (warp >> 2) * %d", columns_offset(&o->b, c1[1] - c0[1]) / 16);
    line(e, *column ? "const u32 %s = (%s >> 4 | 0x%xu)%s;" : "const u32 %s = %s >> 4 | 0x%xu%s;", o->at_b,
        own_offset(e, name_of(e, b)), o->b.lo_or, column);
    if (o->registers) return;
    if (c1[0] != c0[0]) {
        row = str(e, " + (warp >> 2) * %d", layout_wgmma_offset(&o->a, c1[0] - c0[0], 0) / 16);
    }
    line(e, "const u32 %s = (%s >> 4 | 0x%xu)%s;", o->at_a, own_offset(e, name_of(e, a)), o->a.lo_or, row);
}

int wgmma_column_parts(const Layout *l)
{
    int32_t first[2], other[2];
    layout_element(l, 0, 0, 0, 0, first);
    layout_element(l, 0, 0, layout_warps(l) > 4 ? 4 : 0, 0, other);
    return first[1] == other[1] ? 1 : (int)layout_warps(l) / 4;
}

const int32_t *wgmma_steps(Emit *e, const LayoutWgmma *view, int row, int from, int n)
{
    int32_t *t = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int k = 0; k < n; k++) t[k] = layout_wgmma_offset(view, row, from + k) / 16;
    return t;
}

const char *wgmma_function(Emit *e, const Instr *i, const WgmmaOperands *o, int columns)
{
    DType a = ir_operand(i, 0)->type->dtype, b = ir_operand(i, 1)->type->dtype;
    return str(e, "wgmma_m64n%dk%d_%s_%s%s%s%s", columns, 32 / dtype_bytes(b), wgmma_type(a)->name,
        a == b ? "" : str(e, "%s_", dtype_name(b)), o->registers ? "rs" : "ss",
        !o->registers && o->a.mn_major ? "_ta" : "", o->b.mn_major ? "_tb" : "");
}

/* A product that is being emitted. `sum` has `blocks` blocks of `per_block` registers. `words` is the array
 * of a's words when a is in registers. */
typedef struct Product {
    WgmmaOperands o;
    const char *sum, *words, *function;
    int blocks, per_block;
    bool fresh; /* nothing to add to */
} Product;

/* The words of a in registers. Floats are passed as words. */
static const char *words_of(Emit *e, const Value *a, int n)
{
    const char *words = registers_of(e, a);
    if (a->type->dtype == DT_F32) {
        const char *floats = words;
        words = tmp(e, "words");
        line(e, "u32 %s[%d];", words, n);
        begin_unrolled(e, "i", n);
        line(e, "%s[i] = %s(%s[i]);", words, use(e, "float_word"), floats);
        end_block(e);
    }
    if (a->def) pin_registers(e, words, n, false);
    return words;
}

/* Emits all steps of K in one statement. */
static void multiply_together(Emit *e, const Product *p)
{
    const WgmmaOperands *o = &p->o;
    int n = o->b.ksteps;
    const char *as = tmp(e, "as"), *bs = tmp(e, "bs");
    line(e, "u32 %s[%d]%s;", bs, n, o->registers ? "" : str(e, ", %s[%d]", as, n));
    begin_unrolled(e, "k", n);
    line(e, "%s[k] = %s + %s;", bs, o->at_b, entry_text(e, wgmma_steps(e, &o->b, 0, 0, n), n, "k"));
    if (!o->registers)
        line(e, "%s[k] = %s + %s;", as, o->at_a, entry_text(e, wgmma_steps(e, &o->a, 0, 0, n), n, "k"));
    end_block(e);
    const char *steps = use_product(e, str(e, "%s_x%d", p->function, n));
    if (o->registers) line(e, "%s(%s, %s, %s, 0x%xu, %d);", steps, p->sum, p->words, bs, o->b.hi, !p->fresh);
    else line(e, "%s(%s, %s, 0x%xu, %s, 0x%xu, %d);", steps, p->sum, as, o->a.hi, bs, o->b.hi, !p->fresh);
}

/* Emits a statement for each step of K and block of rows. */
static void multiply_by_step(Emit *e, const Product *p)
{
    const WgmmaOperands *o = &p->o;
    int n = o->b.ksteps;
    const char *fn = use_product(e, p->function), *first = p->fresh ? "k > 0" : "1";
    begin_unrolled(e, "k", n);
    const char *b_at = entry_text(e, wgmma_steps(e, &o->b, 0, 0, n), n, "k"),
               *b = str(e, "%s + %s, 0x%xu", o->at_b, b_at, o->b.hi);
    for (int m = 0; m < p->blocks; m++) {
        const char *sum = p->blocks > 1 ? str(e, "%s + %d", p->sum, m * p->per_block) : p->sum;
        if (o->registers) {
            const char *block = m ? str(e, "%d + ", m * n * 4) : "";
            line(e, "%s(%s, %s + %s4 * k, %s, %s);", fn, sum, p->words, block, b, first);
            continue;
        }
        const char *block = m ? str(e, " + %d", layout_wgmma_offset(&o->a, 64 * m, 0) / 16) : "",
                   *a = entry_text(e, wgmma_steps(e, &o->a, 0, 0, n), n, "k");
        line(e, "%s(%s, %s + %s%s, 0x%xu, %s, %s);", fn, sum, o->at_a, a, block, o->a.hi, b, first);
    }
    end_block(e);
}

/* Whether something at or behind the place reads these registers of v. What was made of v before the place
 * may be in the same registers, or be nowhere, and then be computed where it is used. */
static bool is_used_behind(const Emit *e, const Value *v, const char *registers, const Instr *place)
{
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *user = u->user, *i = place;
        if (user->block != place->block) return true;
        while (i && i != user) i = i->next;
        if (i) return true;
        for (int k = 0; k < user->n_results; k++) {
            const char *held = e->storage[user->results[k].id];
            if ((!held || held == registers) && is_used_behind(e, &user->results[k], registers, place))
                return true;
        }
    }
    return false;
}

/* A product before this one in its block whose sum has the same registers and is needed no more. This one
 * takes them: with registers of its own, the vendor's compiler could issue it before the arithmetic that
 * takes the former sum, and run out of registers. */
static const Value *former_sum(Emit *e, const Instr *product)
{
    for (const Instr *i = product->prev; i; i = i->prev) {
        const Value *sum = i->op == OP_WGMMA ? ir_result(i) : NULL;
        const Instr *wait = sum && sum->uses ? sum->uses->user : NULL;
        if (!sum) continue;
        bool alike = sum->type == ir_result(product)->type && !ir_operand(i, 2)->type->layout;
        if (!alike || !wait || sum->uses->next || wait->op != OP_WGMMA_WAIT || wait->n_results != 1 ||
            is_used_behind(e, sum, registers_of(e, sum), product))
            return NULL;
        return sum;
    }
    return NULL;
}

static const char *begun_sum(Emit *e, Instr *product)
{
    const Value *former = former_sum(e, product);
    const bool placed = e->place && e->place[ir_result(product)->id]; /* in those that a loop carries */
    if (!former || placed) return declare_tile(e, ir_result(product));
    return e->storage[ir_result(product)->id] = registers_of(e, former);
}

void emit_wgmma(Emit *e, Instr *i)
{
    Value *acc = ir_operand(i, 2), *r = ir_result(i);
    const Layout *l = layout_of(e, r);
    int columns = (int)r->type->shape[1] / wgmma_column_parts(l), words = (int)layout_regs(l);
    Product p = { .o = wgmma_operands(e, i),
        .blocks = words / (columns / 2),
        .per_block = columns / 2,
        .fresh = !acc->type->layout };
    p.sum = p.fresh ? begun_sum(e, i) : product_accumulator(e, i);
    /* Registers that arithmetic has just written must be complete before the fence. Registers of a product in
     * flight must not be accessed. */
    if (!p.fresh && acc->def && acc->def->op != OP_WGMMA && acc->def->op != OP_WGMMA_WAIT &&
        acc->def->op != OP_OPAQUE)
        pin_registers(e, p.sum, words, dtype_is_float(r->type->dtype));
    if (p.o.registers) p.words = words_of(e, ir_operand(i, 0), p.blocks * p.o.b.ksteps * 4);
    if (!p.o.registers) note_unit(e, false, p.o.a.shared, ir_operand(i, 0));
    note_unit(e, false, p.o.b.shared, ir_operand(i, 1));
    line(e, "%s();", use(e, "wgmma_fence"));
    p.o.at_b = tmp(e, "b");
    p.o.at_a = tmp(e, "a");
    wgmma_declare(e, i, &p.o);
    p.function = wgmma_function(e, i, &p.o, columns);
    if (p.blocks == 1 && p.o.b.ksteps >= STEPS_TOGETHER && (p.fresh || acc->def) && many_products(e->f))
        multiply_together(e, &p);
    else multiply_by_step(e, &p);
    line(e, "%s();", use(e, "wgmma_commit"));
}

void emit_wgmma_wait(Emit *e, Instr *i)
{
    line(e, "%s(%lld);", use(e, "wgmma_wait"), (long long)ir_attr_int(i, ATTR_DEPTH, 0));
    for (int k = 0; k < i->n_results; k++) {
        Value *v = ir_operand(i, k);
        e->storage[i->results[k].id] = registers_of(e, v);
        pin_registers(
            e, e->storage[v->id], (int)layout_regs(layout_of(e, v)), dtype_is_float(v->type->dtype));
    }
}
