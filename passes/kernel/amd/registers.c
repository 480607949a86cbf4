/* registers.c: plans how many registers a lane of an AMD wave will need, from the layouts alone. Tests
 * compare the plan with what clang makes of it.
 *
 * Tiles live from where they are made to where they are last read. In a loop, those from outside live
 * throughout it, and a carried tile's next value may take the place of the last one. The plan is the most
 * that live at one place, with what a matrix product reads ahead from shared memory (emit_mma.c), and a
 * part for addresses, masks and the compiler's own use. Virtual tiles (masks, index tiles) count nothing.
 * If the plan exceeds what a lane has (kernel_lane_registers), gpu_compile tries other schedules, and its
 * callers try other tiles. tests/emit/hip_plan.h states the margin. */
#include "passes/kernel/kernel.h"

enum {
    /* READ_AHEAD: words of fragments in flight. OWN: words for addresses and similar. OWN_PRODUCT: the same
       for each product after the second. WMMA counts twice the words that come from the other half of the
       wave. */
    READ_AHEAD = 32,
    OWN = 24,
    OWN_PRODUCT = 4
};

typedef struct Life {
    int from, to, words;
} Life;
typedef struct Extra {
    int at, words;
} Extra;
typedef struct RegisterCount {
    int products;
    Session *s;
    KernelPlan *p;
    Life *life;
    uint32_t n;
    int at;
    VEC(Extra) extra;
} RegisterCount;

/* Whether the value is never held, because it is computed where it is read. */
static bool is_alias(const Value *v)
{ return v->def && (v->def->op == OP_BROADCAST || v->def->op == OP_SPLAT); }

static int words_of(RegisterCount *c, const Value *v)
{
    if (v->type->kind == TYPE_SCALAR) return 0;
    if (v->type->kind != TYPE_TILE || !v->type->layout || is_alias(v)) return 0;
    int bytes = dtype_bytes(v->type->dtype);
    return (int)(((int64_t)layout_regs(layouts_get(&c->p->layouts, v->type)) *
                         (bytes < 4 && v->type->dtype == DT_BOOL ? 4 : bytes) +
                     3) /
                 4);
}

static bool in_run(const Instr *i)
{
    if ((op_info[i->op].flags & OPF_ELEM) || i->op == OP_BROADCAST || i->op == OP_SPLAT) return true;
    return (op_info[i->op].flags & OPF_PURE) && !i->n_blocks && i->n_results == 1 &&
           (ir_result(i)->type->kind == TYPE_SCALAR ||
               !ir_result(i)->type->layout); /* emits nothing in between */
}

/* Whether only the element-wise operations that directly follow read the value. Each element then passes
 * through, and no tile is held. */
static bool passes_through(const Value *v)
{
    const Instr *d = v->def, *last = NULL;
    if (!d || !in_run(d) || !v->uses) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = d;
        while (i && i != u->user && in_run(i)) i = i->next;
        if (i != u->user || !in_run(i) || (is_alias(ir_result(i)) && !passes_through(ir_result(i))))
            return false;
        last = i;
    }
    return last != NULL;
}

/* Whether the value is an operand that goes through shared memory to one product, which reads it fragment by
 * fragment like an operand that is there. */
static bool read_in_parts(const Value *v)
{
    const Use *u = v->uses;
    return v->def && v->def->op == OP_CONVERT && u && !u->next && u->user->op == OP_MMA_SYNC &&
           u != &u->user->operands[2] && u->user->block == v->def->block;
}

static void born(RegisterCount *c, const Value *v)
{
    int words = passes_through(v) ? 0 : words_of(c, v);
    if (words > 2 * READ_AHEAD && read_in_parts(v)) words = 2 * READ_AHEAD;
    c->life[v->id] = (Life){ c->at, c->at, words };
}

static void read(RegisterCount *c, const Value *v, int at)
{
    while (is_alias(v)) v = ir_operand(v->def, 0);
    if (c->life[v->id].to < at) c->life[v->id].to = at;
}

/* The words of an operand in shared memory that are in registers at once. */
static int fragments(RegisterCount *c, const Instr *i)
{
    const char *name = ir_attr(i, ATTR_INSTR)->s;
    if (!strcmp(name, "fma")) return READ_AHEAD;
    const LayoutMmaInfo *m = layout_mma_info(kernel_mma_kind(c->s, name));
    const Layout *l = layouts_get(&c->p->layouts, ir_result(i)->type);
    int per = m->m * m->n / m->lanes, tiles = (int)layout_regs(l) / per, words = 0, side_tiles[2] = { 1, 1 };
    int32_t at[TILE_MAX_RANK], far[2] = { 0, 0 };
    for (uint32_t r = 0; r < layout_regs(l); r++) {
        layout_element(l, r, 0, 0, 0, at);
        for (int a = 0; a < 2; a++)
            if (at[a] > far[a]) far[a] = at[a];
    }
    side_tiles[0] = far[0] / m->m + 1;
    side_tiles[1] = tiles / side_tiles[0];
    for (int k = 0; k < 2; k++) {
        int one = m->k * (k ? m->n : m->m) * m->bits / 8 / 4 / m->lanes * (m->lanes == 32 ? 2 : 1);
        if (ir_operand(i, k)->type->kind == TYPE_SHARED) words += one * side_tiles[k];
        /* The fragment is composed from both halves of the wave. A right operand that is read in parts
         * already has that layout and is counted by itself. */
        else if (m->lanes == 32 && !(k && read_in_parts(ir_operand(i, k)))) words += one * side_tiles[k];
    }
    return words < 2 * READ_AHEAD ? words : 2 * READ_AHEAD;
}

static void walk(RegisterCount *c, const Block *b);

static void walk_instr(RegisterCount *c, const Instr *i)
{
    c->at++;
    for (int k = 0; k < i->n_operands; k++) read(c, ir_operand(i, k), c->at);
    if (i->op == OP_MMA_SYNC) {
        int w = fragments(c, i);
        c->products++;
        vec_push(&c->s->arena, &c->extra, ((Extra){ c->at, w }));
    }
    int start = c->at;
    for (int k = 0; k < i->n_blocks; k++) walk(c, i->blocks[k]);
    /* A value that is defined before the loop and read in it is read in every iteration. */
    if (i->op == OP_FOR || i->op == OP_WHILE)
        for (uint32_t v = 0; v < c->n; v++) {
            Life *l = &c->life[v];
            if (l->words && l->from <= start && l->to > start) l->to = c->at;
        }
    c->at += i->n_blocks > 0;
    for (int k = 0; k < i->n_results; k++) born(c, &i->results[k]);
}

static void walk(RegisterCount *c, const Block *b)
{
    c->at++;
    for (int k = 0; k < b->n_args; k++) born(c, b->args[k]);
    for (const Instr *i = b->first; i; i = i->next) {
        if (!(op_info[i->op].flags & OPF_TERM)) {
            walk_instr(c, i);
            continue;
        }
        c->at++;
        for (int k = 0; k < i->n_operands; k++) read(c, ir_operand(i, k), c->at);
    }
}

static int count_registers(Session *s, const Func *f, KernelPlan *p)
{
    RegisterCount c = { .s = s, .p = p, .n = f->module->next_id + 1 };
    int most = 0;
    c.life = arena_array(&s->arena, Life, c.n);
    walk(&c, f->body);
    int32_t *change = arena_array(&s->arena, int32_t, (size_t)c.at + 2);
    for (uint32_t v = 0; v < c.n; v++) {
        if (!c.life[v].words) continue;
        change[c.life[v].from + 1] += c.life[v].words;
        change[c.life[v].to + 1] -= c.life[v].words;
    }
    int32_t *extra = arena_array(&s->arena, int32_t, (size_t)c.at + 2);
    for (size_t k = 0; k < c.extra.len; k++) extra[c.extra.data[k].at] = c.extra.data[k].words;
    for (int t = 0, now = 0; t <= c.at; t++) {
        now += change[t];
        if (now + extra[t] > most) most = now + extra[t];
    }
    return most + OWN + (c.products > 2 ? c.products - 2 : 0) * OWN_PRODUCT * 64 / p->target->wave;
}

bool kernel_pass_registers(KernelContext *c)
{
    c->p->registers = count_registers(c->s, c->f, c->p);
    return false;
}
