/* keep.c: matrix operands that consecutive programs have in common stay packed.
 *
 *     let (n, m) = program_id()
 *     for k = 0 to steps
 *         a = load A[m, k] ...       the same tiles for all programs of a row of the grid
 *         acc = mma(a, b, acc)
 *
 * A tile that is packed in a loop depends on the loop's counter, on numbers of the launch, and on scalars
 * that are computed before the loop, its keys. The first program with other keys than the one before packs as
 * ever, into one place. The second sees that the keys stay, and packs each step's tile into a place of its
 * own. The next ones find the tiles there. So an operand that differs from program to program costs nothing
 * and takes no room in the caches. Only operands stay that take long to pack, for the unit that multiplies
 * them: what lies side by side in memory is read again as soon as its packed form is fetched from the second
 * cache, unless AMX takes it in groups of rows, which takes as long to make as to multiply. Where rows in
 * pages of their own take long to begin (PACK_FAR of costs.def), operands of such rows do, and all have a
 * part of the third cache too, as their own pages are few. Tiles and keys lie in scratch memory, where the
 * next call of the same launch by the same thread finds them. Nothing stays from launch to launch. */
#include "backends/cpu/debug.h"
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/plan/plan.h"

enum {
    PART_OF_CACHE = 2,
    PART_OF_THIRD = 8, /* which other cores use too, and the operands themselves */
    MAX_DEPTH = 16,
    DEAR = 8, /* instructions for a vector */
    FAR = 3,  /* cycles: a vector that is packed already takes fewer, fetched from the third cache */
};

/* --- the plan ---------------------------------------------------------------------------------------- */

static bool add_key(Keep *k, Value *v)
{
    if (!dtype_is_int(v->type->dtype)) return false;
    for (int i = 0; i < k->n_keys; i++)
        if (k->keys[i] == v) return true;
    if (k->n_keys == MAX_KEYS) return false;
    k->keys[k->n_keys++] = v;
    return true;
}

static bool follows(const Plan *p, Keep *k, Value *v, int depth);

static bool operands_follow(const Plan *p, Keep *k, const Instr *i, int depth)
{
    for (int o = 0; o < i->n_operands; o++)
        if (!follows(p, k, ir_operand(i, o), depth + 1)) return false;
    return true;
}

static bool packs_slowly(const Plan *p) { return p->target->cost[COST_PACK_FAR] >= FAR; }

/* Whether rows of the window may lie in pages of their own: it does not take the whole of the tensor's
 * last axis, as far as is known. */
static bool rows_apart(const Func *f, const Instr *load, const MemParts *m)
{
    const Param *of = &f->params[m->param];
    const int last = m->rank - 1;
    const Attr *e = ir_attr(load, ATTR_EXTENTS);
    const int64_t extent = f->dims[of->dims[last]].extent;
    return !e || extent < 0 || e->v[last] < extent;
}

static bool load_follows(const Plan *p, Keep *k, const Instr *i, int depth)
{
    MemParts m;
    k->dear |= memory_unit_axis(p->func, i) < 0;
    if (i->n_results != 1 || !ir_mem_parts(i, &m) || m.token) return false;
    k->dear |= packs_slowly(p) && !k->buf->in_tiles && rows_apart(p->func, i, &m);
    if (p->func->params[m.param].kind != PARAM_IN) return false;
    for (int a = 0; a < m.rank; a++)
        if (!follows(p, k, m.idx[a], depth + 1)) return false;
    return !m.pad || follows(p, k, m.pad, depth + 1);
}

/* Whether the value follows from the loop's counter, the launch and the keys, to which it may add some. A
 * tile that has a buffer does not. */
static bool follows(const Plan *p, Keep *k, Value *v, int depth)
{
    const Block *body = k->loop->instr->blocks[0];
    const Instr *i = v->def;
    bool tile = v->type->kind == TYPE_TILE;
    if (depth > MAX_DEPTH || (tile && plan_info(p, v)->buf)) return false;
    if (i && op_family(i->op) == OPS_CONSTANT) return true;
    if (ir_defined_outside(v, body) && !tile) return v->type->kind == TYPE_SCALAR && add_key(k, v);
    if (!i) return v == body->args[0];
    if (i->op == OP_LOAD) return load_follows(p, k, i, depth);
    OpFamily family = op_family(i->op);
    if (family == OPS_LAUNCH) return i->op != OP_PROGRAM_ID;
    bool pure = family == OPS_ARITHMETIC || family == OPS_BITS || family == OPS_COMPARE ||
                family == OPS_SELECT || family == OPS_FUNCTION || family == OPS_CONVERSION ||
                family == OPS_SHAPE;
    return pure && i->n_blocks == 0 && operands_follow(p, k, i, depth);
}

/* The buffer of an operand that the step packs, if it does nothing else. */
static Buf *packed_by(const Step *s, Value **value)
{
    if (s->kind == STEP_TRANSPOSE && s->buf->form != FORM_DENSE) {
        *value = s->value;
        return s->buf;
    }
    if (s->kind != STEP_NEST || !s->sinks || s->sinks->next || s->sinks->kind != SINK_PACK) return NULL;
    *value = s->sinks->value;
    return s->sinks->buf;
}

static bool multiplied_in(const Steps *in, const Buf *b)
{
    for (const Step *s = in->first; s; s = s->next)
        if (s->kind == STEP_MMA && s->thin == THIN_NONE && (s->a == b || s->b == b)) return true;
    return false;
}

static int64_t bytes_of_place(const Buf *b) { return (b->bytes + LINE - 1) / LINE * LINE; }

/* The tiles that stay: those of as many steps as fit half of the second cache, or what they have of the
 * third. */
static int64_t choose_places(const Plan *p, const Step *loop, const Buf *b)
{
    int64_t room = p->target->second_cache / PART_OF_CACHE, third = p->target->third_cache / PART_OF_THIRD;
    if (packs_slowly(p) && !b->in_tiles && third > room) room = third; /* AMX waits for far tiles */
    int64_t n = room / bytes_of_place(b), lo, hi, by;
    const Instr *i = loop->instr;
    bool known = ir_is_const(ir_operand(i, 0), &lo) && ir_is_const(ir_operand(i, 1), &hi) &&
                 ir_is_const(ir_operand(i, 2), &by) && by > 0;
    if (known && (hi - lo + by - 1) / by < n) n = (hi - lo + by - 1) / by;
    return n;
}

static void keep_of_loop(Plan *p, Step *loop)
{
    for (Step *s = loop->blocks[0]->first; s; s = s->next) {
        Value *v;
        Buf *b = packed_by(s, &v);
        if (!b || b->home != loop->blocks[0] || !multiplied_in(loop->blocks[0], b)) continue;
        Keep k = { .loop = loop, .buf = b };
        bool same = follows(p, &k, v, 0);
        for (int o = 0; o < 3 && same; o++) same = follows(p, &k, ir_operand(loop->instr, o), 0);
        bool grouped = b->in_tiles && b->form == FORM_GROUPS;
        bool dear = k.dear || grouped || plan_cost(p, v) >= DEAR;
        int64_t places = same && dear ? choose_places(p, loop, b) : 0;
        if (places < 1) continue;
        b->places = places;
        k.number = p->n_kept;
        p->n_kept += 2 + k.n_keys;
        s->keep = arena_new(p->arena, Keep);
        *s->keep = k;
    }
}

static void keep_in(Plan *p, Steps *in)
{
    for (Step *s = in->first; s; s = s->next) {
        if (s->kind == STEP_FOR) keep_of_loop(p, s);
        for (int b = 0; b < 2 && s->kind == STEP_IF; b++)
            if (s->blocks[b]) keep_in(p, s->blocks[b]);
    }
}

/* The first two programs with the same tiles pack them. */
double keep_grouped_part(const Func *f, const Instr *mma)
{
    enum { PROGRAMS = 8 }; /* with the same tiles, by `raster` */
    MemParts m;
    const Instr *load = ir_operand(mma, 1)->def;
    bool in_loop = mma->block->parent && mma->block->parent->op == OP_FOR;
    bool same = in_loop && load && load->op == OP_LOAD && load->block == mma->block &&
                ir_mem_parts(load, &m) && !m.token && f->params[m.param].kind == PARAM_IN;
    return same ? 2.0 / PROGRAMS : 1;
}

void plan_keep(Plan *p) { keep_in(p, p->body); }

int64_t keep_bytes(const Buf *b) { return b->places ? (b->places + 1) * bytes_of_place(b) : b->bytes; }

/* --- the code ---------------------------------------------------------------------------------------- */

/* A number of the launch and the thread, which begins as 0: what the call before left, if there was one. */
static LLVMValueRef cell_of(Gen *g, int64_t number)
{
    int64_t at = g->plan->kept_at + number * (int64_t)sizeof(int64_t);
    LLVMBasicBlockRef here = gen_here(g);
    LLVMMetadataRef line = debug_setup(g);
    gen_at(g, g->setup);
    LLVMValueRef cell = gen_ptr(g, g->scratch, gen_int(g, at));
    LLVMValueRef old = LLVMBuildLoad2(g->b, g->i64, cell, "");
    LLVMBuildStore(g->b, LLVMBuildSelect(g->b, gen_again(g), old, gen_int(g, 0), ""), cell);
    gen_at(g, here);
    debug_resume(g, line);
    return cell;
}

static LLVMValueRef exchange(Gen *g, int64_t number, LLVMValueRef value)
{
    LLVMValueRef cell = cell_of(g, number), old = LLVMBuildLoad2(g->b, g->i64, cell, "");
    LLVMBuildStore(g->b, value, cell);
    return old;
}

static LLVMValueRef is_set(Gen *g, LLVMValueRef number) { return icmp(g, LLVMIntNE, number, gen_int(g, 0)); }

void keep_before(Gen *g, const Step *loop)
{
    for (Step *s = loop->blocks[0]->first; s; s = s->next) {
        Keep *k = s->keep;
        if (!k) continue;
        k->same = is_set(g, exchange(g, k->number, gen_int(g, 1)));
        for (int i = 0; i < k->n_keys; i++) {
            LLVMValueRef now = gen_scalar_i64(g, k->keys[i]);
            LLVMValueRef old = exchange(g, k->number + 2 + i, now);
            k->same = both(g, k->same, icmp(g, LLVMIntEQ, old, now));
        }
        LLVMValueRef same = LLVMBuildZExt(g->b, k->same, g->i64, "");
        k->packed = both(g, k->same, is_set(g, exchange(g, k->number + 1, same)));
    }
}

void keep_step(Gen *g, const Step *loop, LLVMValueRef number)
{
    for (Step *s = loop->blocks[0]->first; s; s = s->next) {
        Keep *k = s->keep;
        if (!k) continue;
        LLVMValueRef has_place = icmp(g, LLVMIntSLT, number, gen_int(g, k->buf->places));
        LLVMValueRef place =
            LLVMBuildSelect(g->b, both(g, k->same, has_place), number, gen_int(g, k->buf->places), "");
        LLVMValueRef at = LLVMBuildMul(g->b, place, gen_int(g, bytes_of_place(k->buf)), "");
        k->buf->place = gen_ptr(g, g->scratch, LLVMBuildAdd(g->b, at, gen_int(g, k->buf->offset), ""));
        k->wanted = LLVMBuildNot(g->b, both(g, k->packed, has_place), "");
        k->buf->wanted = k->wanted;
    }
}

void keep_fetch(Gen *g, const Buf *b, LLVMValueRef *at, LLVMValueRef *stride)
{
    if (!b || !b->wanted) return;
    *at = LLVMBuildSelect(g->b, b->wanted, *at, b->place, "");
    *stride = LLVMBuildSelect(g->b, b->wanted, *stride, gen_int(g, 0), "");
}
