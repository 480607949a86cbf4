/* trace.c: the memory accesses of a kernel, as a small program that computes addresses and control flow and
 * nothing else.
 *
 *   for %j: %k = load K[%b, %hk, %o, 0]; %s = mma ..   ->   for %j: %o = mul %j, 128; window K [%b, %hk, %o,
 *       0]; products: 2*128*128*64
 *
 * From each load, store, gather, scatter and atomic the offsets, index tiles and masks are followed backwards
 * through arithmetic, shapes, loops and conditions; what is met is evaluated exactly as the interpreter
 * would, by scalar.h. Tile data is not computed. Where an address, a mask, a bound or a condition comes from
 * data, something is made up, always the same for the same program:
 *   a value read from memory          a hash of where it was read; as an index it is taken modulo the
 *                                     extent, so it is in range and spread evenly
 *   a mask                            true
 *   the condition of an if            true
 *   the bounds of a for, of a while   SIM_ASSUMED_TRIPS rounds
 * and SimTrace.assumptions says so. */
#include "passes/sim/tracing.h"

enum { MAX_SLOTS = 1 << 24 };

bool trace_refuse(Tracing *c, const char *why)
{
    if (!c->why) c->why = why;
    return false;
}

/* --- nodes ------------------------------------------------------------------------------------------- */

static int32_t slot_of(Tracing *c, const Value *v)
{
    if (c->slot[v->id] >= 0) return c->slot[v->id];
    int64_t n = type_elements(v->type);
    if (n > MAX_SLOTS || c->t->n_slots + n > MAX_SLOTS) {
        trace_refuse(c, "the index tiles are too large");
        return 0;
    }
    c->slot[v->id] = (int32_t)c->t->n_slots;
    c->t->n_slots += n;
    return c->slot[v->id];
}

typedef VEC(Node) Nodes;
static NodeList block_nodes(Tracing *c, const Block *b);

static void add_move(Tracing *c, Moves *m, int cap, const Value *to, const Value *from)
{
    if (!c->needed[to->id]) return;
    if (!m->v) m->v = arena_array(&c->s->arena, Move, (size_t)cap);
    int64_t n = type_elements(to->type);
    m->v[m->n++] = (Move){ slot_of(c, to), slot_of(c, from), (int32_t)n };
    m->elements += (int)n;
    if (m->elements > c->t->stage) c->t->stage = m->elements;
}

/* Memory operations that a block holds. */
static int accesses(const Block *b)
{
    int n = 0;
    for (const Instr *i = b->first; i; i = i->next) {
        n += i->op == OP_LOAD || i->op == OP_STORE || i->op == OP_GATHER || i->op == OP_SCATTER ||
             i->op == OP_ATOMIC_RMW || i->op == OP_ATOMIC_CAS;
        for (int k = 0; k < i->n_blocks; k++) n += accesses(i->blocks[k]);
    }
    return n;
}

static void control_node(Tracing *c, const Instr *i, Node *n)
{
    const Instr *end = i->op == OP_WHILE ? ir_terminator(i->blocks[0]) : NULL;
    int cap = i->n_results;
    if (i->op == OP_FOR) {
        const Block *b = i->blocks[0];
        n->a = slot_of(c, ir_operand(i, 0));
        n->b = slot_of(c, ir_operand(i, 1));
        n->c = slot_of(c, ir_operand(i, 2));
        n->dst = slot_of(c, b->args[0]);
        n->dtype = (uint8_t)b->args[0]->type->dtype;
        n->assumed = trace_is_tainted(c, ir_operand(i, 0)) || trace_is_tainted(c, ir_operand(i, 1)) ||
                     trace_is_tainted(c, ir_operand(i, 2));
        if (n->assumed) c->t->assumptions |= SIM_ASSUMED_TRIP_COUNT;
        c->unsure += n->assumed;
        for (int k = 0; k < cap; k++) {
            if (!c->needed[b->args[k + 1]->id]) continue;
            add_move(c, &n->enter, cap, b->args[k + 1], ir_operand(i, 3 + k));
            add_move(c, &n->again, cap, b->args[k + 1], ir_operand(ir_terminator(b), k));
            add_move(c, &n->leave, cap, &i->results[k], b->args[k + 1]);
        }
        n->blocks[0] = block_nodes(c, b);
        c->unsure -= n->assumed;
    } else if (i->op == OP_WHILE) {
        n->a = slot_of(c, ir_operand(end, 0));
        n->assumed = trace_is_tainted(c, ir_operand(end, 0));
        if (n->assumed) c->t->assumptions |= SIM_ASSUMED_TRIP_COUNT;
        c->unsure += n->assumed;
        n->blocks[0] = block_nodes(c, i->blocks[0]);
        n->blocks[1] = block_nodes(c, i->blocks[1]);
        c->unsure -= n->assumed;
        /* The arguments of block 1 are the operands of the condition. One slot would suffice for both, but a
         * move is simpler. */
        for (int k = 0; k < cap; k++) {
            add_move(c, &n->enter, cap, i->blocks[0]->args[k], ir_operand(i, k));
            add_move(c, &n->again, cap, i->blocks[0]->args[k], ir_operand(ir_terminator(i->blocks[1]), k));
            add_move(c, &n->leave, 2 * cap, i->blocks[1]->args[k], ir_operand(end, k + 1));
            add_move(c, &n->leave, 2 * cap, &i->results[k], ir_operand(end, k + 1));
        }
    } else {
        n->a = slot_of(c, ir_operand(i, 0));
        n->assumed = trace_is_tainted(c, ir_operand(i, 0));
        if (n->assumed) c->t->assumptions |= SIM_ASSUMED_CONDITION;
        n->other = accesses(i->blocks[1]) > accesses(i->blocks[0]);
        c->unsure += n->assumed;
        for (int b = 0; b < 2; b++) {
            n->blocks[b] = block_nodes(c, i->blocks[b]);
            for (int k = 0; k < cap; k++)
                add_move(c, b ? &n->again : &n->enter, cap, &i->results[k],
                    ir_operand(ir_terminator(i->blocks[b]), k));
        }
        c->unsure -= n->assumed;
    }
}

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }
static bool before(const Axis *a, const Axis *b)
{ return a->dropped != b->dropped ? a->dropped : magnitude(a->by) < magnitude(b->by); }

/* Sorts the axes of a window by the distance of their elements; the dropped ones come first. */
static void window_axes(
    Tracing *c, const Instr *i, const Tensor *x, const int32_t *slots, Node *n, SimSite *site)
{
    const Attr *e = ir_attr(i, ATTR_EXTENTS), *st = ir_attr(i, ATTR_STEPS);
    Axis *axes = arena_array(&c->s->arena, Axis, TILE_MAX_RANK);
    int of[TILE_MAX_RANK];
    for (int a = 0; a < e->n; a++) {
        bool dropped = e->v[a] == -1;
        int64_t step = st && !dropped ? st->v[a] : 1;
        Axis mine = { dropped ? 1 : e->v[a], step, x->stride[a], x->stride[a] * step, x->shape[a], slots[a],
            dropped, n->assumed_axes >> a & 1 };
        int k = n->n_axes++;
        for (; k > 0 && before(&mine, &axes[k - 1]); k--) {
            axes[k] = axes[k - 1];
            of[k] = of[k - 1];
        }
        axes[k] = mine;
        of[k] = a;
    }
    for (int k = 0; k < n->n_axes; k++) {
        if (axes[k].dropped) continue;
        site->axis[site->rank] = of[k];
        site->extent[site->rank] = (int32_t)axes[k].extent;
        site->step[site->rank++] = magnitude(axes[k].by);
    }
    n->axes = axes;
}

static void access_node(Tracing *c, const Instr *i, const MemParts *m, Node *n)
{
    bool window = i->op == OP_LOAD || i->op == OP_STORE;
    const Tensor *x = &c->t->tensors[m->param];
    SimSite site = { .instr = i,
        .param = m->param,
        .write = i->op != OP_LOAD && i->op != OP_GATHER,
        .indexed = !window,
        .unsure = c->unsure > 0,
        .size = dtype_bytes(m->tensor->type->dtype) };
    int32_t *slots = arena_array(&c->s->arena, int32_t, TILE_MAX_RANK + 1);
    for (int a = 0; a < m->rank; a++) {
        slots[a] = slot_of(c, m->idx[a]);
        if (trace_is_tainted(c, m->idx[a])) {
            n->assumed_axes |= 1u << a;
            site.assumed = true;
        }
    }
    slots[m->rank] = m->mask && !trace_is_tainted(c, m->mask) ? slot_of(c, m->mask) : -1;
    if (site.assumed) c->t->assumptions |= SIM_ASSUMED_ADDRESS;
    site.cut = m->mask && trace_is_tainted(c, m->mask);
    if (site.cut) c->t->assumptions |= SIM_ASSUMED_MASK;
    if (window) window_axes(c, i, x, slots, n, &site);
    n->kind = window ? NODE_WINDOW : NODE_INDEXED;
    n->slots = slots;
    n->site = (int32_t)c->t->sites.len;
    n->n = window ? 0 : type_elements(m->idx[0]->type);
    vec_push(&c->s->arena, &c->t->sites, site);
}

static void flops_node(const Instr *i, Node *n)
{
    const Type *a = ir_operand(i, 0)->type, *r = i->results[0].type;
    int bits = dtype_bits(a->dtype);
    n->kind = NODE_FLOPS;
    n->flops = n->operations = 2.0 * (double)type_elements(r) * (double)a->shape[a->rank - 1];
    n->imm = bits == 8 ? 0 : bits == 16 || ir_attr_int(i, ATTR_PRECISION, 0) == PRECISION_TF32 ? 1 : 2;
    n->n = n->imm == 1 && bits == 32 ? 2 : 1;
    n->flops *= (double)n->n; /* tf32 has half the rate of 16-bit types. */
}

/* Operations on floats of an element-wise operation or reduction: one an element, two of an fma. */
static double operations_of(const Instr *i)
{
    bool elementwise =
        op_info[i->op].flags & OPF_ELEM && i->op != OP_CAST && i->op != OP_BITCAST && i->op != OP_WHERE;
    if (!i->n_results || !i->n_operands || (!elementwise && !op_reduces(i->op))) return 0;
    const Type *t = ir_operand(i, 0)->type;
    if (t->kind != TYPE_TILE || !dtype_is_float(t->dtype)) return 0;
    return (double)type_elements(t) * (i->op == OP_FMA ? 2 : 1);
}

static bool any_needed(const Tracing *c, const Instr *i)
{
    for (int k = 0; k < i->n_results; k++)
        if (c->needed[i->results[k].id]) return true;
    return false;
}

/* Values that are the same in every program get their slots filled here. */
static bool start_value(Tracing *c, const Instr *i, Scalar *out)
{
    DType d = i->results[0].type->dtype;
    int64_t axis = ir_attr_int(i, ATTR_AXIS, 0);
    if (i->op == OP_CONST) {
        if (dtype_is_float(d)) out->f = ir_attr(i, ATTR_FVALUE)->f;
        else out->i = ir_attr(i, ATTR_IVALUE)->i;
        return true;
    }
    switch (op_as_launch(i->op)) {
    case LAUNCH_DIM: out->i = c->launch->dims[ir_attr_int(i, ATTR_DIM, 0)]; return true;
    case LAUNCH_STRIDE: {
        int p = (int)ir_attr_int(i, ATTR_PARAM, 0);
        out->i = c->t->tensors[p].stride[axis] / dtype_bytes(c->f->params[p].type->dtype);
        return true;
    }
    case LAUNCH_NUM_PROGRAMS: out->i = axis < 0 ? c->t->programs : c->t->grid[axis]; return true;
    case LAUNCH_PROGRAM_ID: return false;
    }
    return false;
}

static void set_start(Tracing *c, int32_t slot, Scalar v) { c->t->start[slot] = v; }

static void value_node(Tracing *c, const Instr *i, Node *n)
{
    const Type *r = i->results[0].type;
    n->op = i->op;
    n->n = type_elements(r);
    n->dst = slot_of(c, &i->results[0]);
    n->dtype = (uint8_t)r->dtype;
    if (!trace_evaluated(i)) {
        n->kind = i->op == OP_LOAD ? NODE_LOAD_DATA : NODE_MADE_UP;
        n->imm = i->results[0].id;
    }
    if (i->op == OP_PROGRAM_ID) {
        n->kind = NODE_COORD;
        n->imm = ir_attr_int(i, ATTR_AXIS, 0);
    }
    if (i->op == OP_LOAD) {
        MemParts m;
        ir_mem_parts(i, &m);
        int32_t *at = arena_array(&c->s->arena, int32_t, TILE_MAX_RANK);
        for (int a = 0; a < m.rank; a++) at[a] = slot_of(c, m.idx[a]);
        n->slots = at;
    }
    if (!trace_evaluated(i) || !i->n_operands) return;
    int32_t *slots = arena_array(&c->s->arena, int32_t, (size_t)i->n_operands);
    for (int k = 0; k < i->n_operands; k++) slots[k] = slot_of(c, ir_operand(i, k));
    n->slots = slots;
    n->a = slots[0];
    n->b = i->n_operands > 1 ? slots[1] : 0;
    n->c = i->n_operands > 2 ? slots[2] : 0;
    n->from = (uint8_t)ir_operand(i, 0)->type->dtype;
    if (op_info[i->op].flags & OPF_ELEM && i->op != OP_CAST && i->op != OP_BITCAST && i->op != OP_WHERE)
        n->dtype = n->from;
}

static NodeList block_nodes(Tracing *c, const Block *b)
{
    Nodes nodes = { 0 };
    Arena *a = &c->s->arena;
    Node work = { .kind = NODE_FLOPS, .n = 1 };
    for (const Instr *i = b->first; i && !c->why; i = i->next) {
        Node n = { .instr = i, .op = i->op };
        MemParts m;
        bool active = any_needed(c, i), access = ir_mem_parts(i, &m);
        Scalar v;
        work.operations += operations_of(i);
        if (trace_is_control(i)) {
            for (int k = 0; k < i->n_blocks; k++) active |= trace_does_something(i->blocks[k]);
            if (!active) continue;
            n.loop = (int32_t)c->t->loops.len;
            if (i->op != OP_IF) vec_push(a, &c->t->loops, i);
            control_node(c, i, &n);
            vec_push(a, &nodes, n);
            continue;
        }
        if (access) {
            access_node(c, i, &m, &n);
            vec_push(a, &nodes, n);
            n = (Node){ .instr = i };
        }
        if (i->op == OP_MMA) {
            flops_node(i, &n);
            vec_push(a, &nodes, n);
            n = (Node){ .instr = i };
        }
        if (!active || op_info[i->op].flags & OPF_TERM) continue;
        if (start_value(c, i, &v)) continue; /* filled in by fill_start */
        for (int k = 1; k < i->n_results; k++)
            if (c->needed[i->results[k].id] && type_is_value(i->results[k].type))
                trace_refuse(c, "an operation of several results gives an address");
        if (i->n_results && type_is_value(i->results[0].type)) {
            value_node(c, i, &n);
            vec_push(a, &nodes, n);
        }
    }
    if (work.operations > 0) vec_push(a, &nodes, work);
    return (NodeList){ nodes.data, (int)nodes.len };
}

/* --- the launch -------------------------------------------------------------------------------------- */

static bool place_tensors(Tracing *c)
{
    const Func *f = c->f;
    int64_t at = 0;
    for (int p = 0; p < f->n_params; p++) {
        const Param *q = &f->params[p];
        if (q->type->kind != TYPE_TENSOR) continue;
        Tensor *x = &c->t->tensors[p];
        int64_t size = dtype_bytes(q->type->dtype), step = size, low = 0, high = 0, elements = 1;
        for (int a = q->type->rank - 1; a >= 0; a--) {
            int64_t e = c->launch->dims[q->dims[a]], by;
            if (e < 0) return trace_refuse(c, "an extent is not known");
            x->shape[a] = e;
            x->stride[a] = q->stride[a] == FACT_UNKNOWN ? step : q->stride[a] * size;
            if (__builtin_mul_overflow(step, e ? e : 1, &step) || step > 1ll << 50)
                return trace_refuse(c, "a tensor is larger than any memory");
            if (__builtin_mul_overflow(e - 1, x->stride[a], &by) || by > 1ll << 50 || by < -(1ll << 50))
                return trace_refuse(c, "a tensor is larger than any memory");
            if (!e) elements = 0;
            else *(by < 0 ? &low : &high) += by;
        }
        x->base = at - low;
        if (elements) at += (high - low + size + 4095) / 4096 * 4096;
    }
    c->t->bytes = at;
    return true;
}

static bool find_grid(Tracing *c)
{
    int64_t (*strides)[TILE_MAX_RANK] =
        arena_calloc(&c->s->arena, (size_t)c->f->n_params + 1, sizeof *strides);
    for (int p = 0; p < c->f->n_params; p++)
        for (int a = 0; a < c->f->params[p].type->rank && c->f->params[p].type->kind == TYPE_TENSOR; a++)
            strides[p][a] = c->t->tensors[p].stride[a] / dtype_bytes(c->f->params[p].type->dtype);
    EvalEnv env = { .dims = c->launch->dims,
        .scalars = c->launch->scalars,
        .strides = (const int64_t (*)[TILE_MAX_RANK])strides,
        .grid = { 1, 1, 1 } };
    Scalar *zeros = arena_array(&c->s->arena, Scalar, (size_t)c->f->n_params + 1);
    if (!env.scalars) env.scalars = zeros;
    const char *why;
    EvalCode *code = c->f->grid ? eval_compile(&c->s->arena, c->f, c->f->grid, &why) : NULL;
    int64_t out[8];
    if (!code || eval_results(code) > 3 || !eval_run(code, &env, out, 8))
        return trace_refuse(c, "the grid cannot be evaluated");
    c->t->programs = 1;
    for (int k = 0; k < 3; k++) {
        c->t->grid[k] = k < eval_results(code) ? out[k] : 1;
        if (c->t->grid[k] < 0 || __builtin_mul_overflow(c->t->programs, c->t->grid[k], &c->t->programs) ||
            c->t->programs > INT32_MAX)
            return trace_refuse(c, "the grid is too large");
        env.grid[k] = c->t->grid[k];
    }
    c->t->env = env;
    return true;
}

static void fill_block(Tracing *c, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        Scalar v = { 0 };
        if (i->n_results == 1 && c->slot[i->results[0].id] >= 0 && start_value(c, i, &v))
            set_start(c, c->slot[i->results[0].id], v);
        for (int k = 0; trace_is_control(i) && k < i->n_blocks; k++) fill_block(c, i->blocks[k]);
    }
}

static void fill_start(Tracing *c)
{
    c->t->start = arena_array(&c->s->arena, Scalar, (size_t)c->t->n_slots + 1);
    for (int p = 0; p < c->f->n_params; p++) {
        const Value *v = c->f->body->args[p];
        if (v->type->kind == TYPE_SCALAR && c->slot[v->id] >= 0 && c->launch->scalars)
            set_start(c, c->slot[v->id], c->launch->scalars[p]);
    }
    fill_block(c, c->f->body);
}

SimTrace *sim_trace(const Func *f, const SimLaunch *launch, const char **why)
{
    Session *s = f->module->session;
    Tracing *c = arena_new(&s->arena, Tracing);
    size_t n = f->module->next_id;
    *c = (Tracing){ .s = s, .f = f, .launch = launch, .t = arena_new(&s->arena, SimTrace) };
    c->t->func = f;
    c->t->tensors = arena_array(&s->arena, Tensor, (size_t)f->n_params + 1);
    c->slot = arena_array(&s->arena, int32_t, n);
    c->needed = arena_array(&s->arena, uint8_t, n);
    c->tainted = arena_array(&s->arena, uint8_t, n);
    for (size_t k = 0; k < n; k++) c->slot[k] = -1;
    if (place_tensors(c) && find_grid(c)) {
        trace_find_needs(c, f->body);
        do {
            c->changed = false;
            trace_find_tainted(c, f->body);
        } while (c->changed);
        if (!c->why) c->t->body = block_nodes(c, f->body);
        if (!c->why) fill_start(c);
    }
    *why = c->why;
    return c->why ? NULL : c->t;
}

const int64_t *sim_trace_grid(const SimTrace *t) { return t->grid; }
EvalEnv sim_trace_env(const SimTrace *t) { return t->env; }
int64_t sim_trace_programs(const SimTrace *t) { return t->programs; }
int sim_trace_sites(const SimTrace *t) { return (int)t->sites.len; }
const SimSite *sim_trace_site(const SimTrace *t, int k) { return &t->sites.data[k]; }
int sim_trace_loops(const SimTrace *t) { return (int)t->loops.len; }
const Instr *sim_trace_loop(const SimTrace *t, int k) { return t->loops.data[k]; }
int64_t sim_trace_bytes(const SimTrace *t) { return t->bytes; }
int64_t sim_trace_tensor(const SimTrace *t, int param) { return t->tensors[param].base; }
unsigned sim_trace_assumptions(const SimTrace *t) { return t->assumptions; }
