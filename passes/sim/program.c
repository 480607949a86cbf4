/* program.c: runs the nodes of a SimTrace for one program and collects what it touches. See trace.c. */
#include "passes/sim/trace_impl.h"

enum { MAX_STEPS = 1 << 26 };

struct SimProgram {
    const SimTrace *t;
    Allocator alloc;
    Scalar *v, *stage;
    SimAccess *access;
    int64_t n, cap;
    int64_t *elements;
    int64_t n_elements, cap_elements;
    int64_t coord[3], program, steps, made_up, evaluated;
    double flops[3], all_flops, operations;
    bool no_memory, full;
    int64_t limit, step_limit, *rounds; /* rounds: of each loop */
};

static void *grow(Allocator a, void *p, int64_t old, int64_t n, size_t size)
{ return a.realloc(a.user, p, (size_t)old * size, (size_t)n * size); }

SimProgram *sim_program_new(const SimTrace *t, Allocator a)
{
    SimProgram *p = a.realloc(a.user, NULL, 0, sizeof *p);
    if (!p) return NULL;
    *p = (SimProgram){ .t = t, .alloc = a };
    p->v = grow(a, NULL, 0, t->n_slots + 1, sizeof *p->v);
    p->stage = grow(a, NULL, 0, t->stage + 1, sizeof *p->stage);
    p->rounds = grow(a, NULL, 0, (int64_t)t->loops.len + 1, sizeof *p->rounds);
    if (!p->v || !p->stage || !p->rounds) {
        sim_program_free(p);
        return NULL;
    }
    memcpy(p->v, t->start, (size_t)(t->n_slots + 1) * sizeof *p->v);
    return p;
}

void sim_program_limit(SimProgram *p, int64_t accesses, int64_t steps)
{
    p->limit = accesses;
    p->step_limit = steps;
}

void sim_program_free(SimProgram *p)
{
    if (!p) return;
    Allocator a = p->alloc;
    if (p->v) grow(a, p->v, p->t->n_slots + 1, 0, sizeof *p->v);
    if (p->stage) grow(a, p->stage, p->t->stage + 1, 0, sizeof *p->stage);
    if (p->rounds) grow(a, p->rounds, (int64_t)p->t->loops.len + 1, 0, sizeof *p->rounds);
    if (p->access) grow(a, p->access, p->cap, 0, sizeof *p->access);
    if (p->elements) grow(a, p->elements, p->cap_elements, 0, sizeof *p->elements);
    a.realloc(a.user, p, sizeof *p, 0);
}

/* --- accesses ---------------------------------------------------------------------------------------- */

static SimAccess *add_access(SimProgram *p)
{
    if (p->n == p->cap) {
        int64_t cap = p->cap ? 2 * p->cap : 256;
        SimAccess *q = grow(p->alloc, p->access, p->cap, cap, sizeof *q);
        if (!q) {
            p->no_memory = true;
            return NULL;
        }
        p->access = q;
        p->cap = cap;
    }
    return &p->access[p->n++];
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* Elements c of [0, extent) with 0 <= off + c * step < shape: [*lo, *hi). */
static void clip(int64_t off, const Axis *x, int64_t *lo, int64_t *hi)
{
    int64_t step = x->step, last = x->shape - 1 - off, first, end;
    if (step == 1) {
        first = -off;
        end = last + 1;
    } else if (step > 0) {
        first = -floor_div(off, step);
        end = floor_div(last, step) + 1;
    } else if (step < 0) {
        first = -floor_div(last, -step);
        end = floor_div(off, -step) + 1;
    } else {
        first = 0;
        end = off >= 0 && last >= 0 ? 1 : 0;
    }
    *lo = first > 0 ? first : 0;
    *hi = end < x->extent ? end : x->extent;
}

static bool window(SimProgram *p, const Node *n)
{
    SimAccess box = { .at = p->t->tensors[p->t->sites.data[n->site].param].base, .site = n->site };
    int rank = 0;
    for (const Axis *x = n->axes, *end = x + n->n_axes; x < end; x++) {
        int64_t lo, hi, off = p->v[x->slot].i;
        if (x->assumed) { /* An invented offset is changed so that the whole window fits. */
            int64_t room = x->shape - (x->extent - 1) * x->step;
            off = room > 1 ? (int64_t)((uint64_t)off % (uint64_t)room) : 0;
        }
        if (off > INT64_MAX / 4 || off < -(INT64_MAX / 4)) return true;
        clip(off, x, &lo, &hi);
        if (lo >= hi) return true;
        box.at += (off + lo * x->step) * x->stride + (x->by < 0 ? (hi - lo - 1) * x->by : 0);
        if (!x->dropped) box.n[rank++] = (int32_t)(hi - lo);
    }
    SimAccess *out = add_access(p);
    if (out) *out = box;
    return out != NULL;
}

/* A made-up index becomes one that the tensor has. */
static int64_t index_of(const Node *n, int axis, int64_t i, int64_t extent)
{
    if (!(n->assumed_axes >> axis & 1) || extent < 1) return i;
    return (int64_t)((uint64_t)i % (uint64_t)extent);
}

static bool indexed(SimProgram *p, const Node *n)
{
    const SimSite *site = &p->t->sites.data[n->site];
    const Tensor *x = &p->t->tensors[site->param];
    int rank = p->t->func->params[site->param].type->rank;
    const Scalar *mask = n->slots[rank] >= 0 ? p->v + n->slots[rank] : NULL;
    if (p->n_elements + n->n > p->cap_elements) {
        int64_t cap = 2 * p->cap_elements > p->n_elements + n->n ? 2 * p->cap_elements : p->n_elements + n->n;
        int64_t *q = grow(p->alloc, p->elements, p->cap_elements, cap, sizeof *q);
        if (!q) {
            p->no_memory = true;
            return false;
        }
        p->elements = q;
        p->cap_elements = cap;
    }
    int64_t first = p->n_elements;
    for (int64_t k = 0; k < n->n; k++) {
        int64_t at = x->base;
        bool in = !mask || mask[k].i;
        for (int a = 0; a < rank && in; a++) {
            int64_t i = index_of(n, a, p->v[n->slots[a] + k].i, x->shape[a]);
            in = i >= 0 && i < x->shape[a];
            if (in) at += i * x->stride[a];
        }
        if (in) p->elements[p->n_elements++] = at;
    }
    if (p->n_elements == first) return true;
    SimAccess *out = add_access(p);
    if (out) *out = (SimAccess){ .site = n->site, .n = { (int32_t)(p->n_elements - first) }, .first = first };
    return out != NULL;
}

/* --- values ------------------------------------------------------------------------------------------ */

static Scalar made_up(DType d, uint64_t key)
{
    uint64_t h = sim_hash(key);
    if (dtype_is_float(d)) return scalar_float((double)(h >> 12) * 0x1p-52);
    return scalar_int(d == DT_BOOL
                          ? 1
                          : (int64_t)(h >> 2 & (dtype_bits(d) >= 64 ? UINT64_MAX >> 2
                                                                    : (1ull << (dtype_bits(d) - 1)) - 1)));
}

/* The value that a load reads, as far as an address depends on it: always the same from the same place. */
static void load_data(SimProgram *p, const Node *n)
{
    MemParts m;
    ir_mem_parts(n->instr, &m);
    const Tensor *x = &p->t->tensors[m.param];
    const Attr *e = ir_attr(n->instr, ATTR_EXTENTS), *st = ir_attr(n->instr, ATTR_STEPS),
               *o = ir_attr(n->instr, ATTR_ORDER);
    int axes[TILE_MAX_RANK], rank = 0;
    int64_t shape[TILE_MAX_RANK], step[TILE_MAX_RANK], base = x->base, c[TILE_MAX_RANK] = { 0 };
    for (int a = 0; a < m.rank; a++) {
        base += p->v[n->slots[a]].i * x->stride[a];
        if (e->v[a] != -1) axes[rank++] = a;
    }
    for (int k = 0; k < rank; k++) {
        int a = axes[o ? o->v[k] : k];
        shape[k] = e->v[a];
        step[k] = x->stride[a] * (st ? st->v[a] : 1);
    }
    for (int64_t k = 0; k < n->n; k++) {
        int64_t at = base;
        for (int a = 0; a < rank; a++) at += c[a] * step[a];
        p->v[n->dst + k] = made_up((DType)n->dtype, (uint64_t)at);
        for (int a = rank - 1; a >= 0 && ++c[a] == shape[a]; a--) c[a] = 0;
    }
}

static bool element(const Node *n, Scalar a, Scalar b, Scalar c, Scalar *out)
{
    if (n->op == OP_CAST) {
        *out = scalar_cast((DType)n->dtype, (DType)n->from, a);
        return true;
    }
    if (n->op == OP_BITCAST) {
        *out = scalar_bitcast((DType)n->dtype, (DType)n->from, a);
        return true;
    }
    Scalar x[3] = { a, b, c };
    return scalar_op(n->op, (DType)n->dtype, x, out);
}

/* The commonest integer operations without a detour. */
static inline bool quick(const Node *n, const Scalar *a, const Scalar *b, Scalar *out)
{
    if (n->op != OP_LT || (n->dtype != DT_I32 && n->dtype != DT_INDEX && n->dtype != DT_I64))
        return scalar_whole(n->op, (DType)n->dtype, a->i, b->i, out);
    out->i = a->i < b->i;
    return true;
}

/* Position of element c of the result in the operand, or which operand: shapes, from their types. */
static void reshape_tile(SimProgram *p, const Node *n)
{
    const Instr *i = n->instr;
    const Type *r = i->results[0].type;
    int rank = r->kind == TYPE_TILE ? r->rank : 0;
    int64_t c[TILE_MAX_RANK] = { 0 }, axis = ir_attr_int(i, ATTR_AXIS, 0),
            start = ir_attr_int(i, ATTR_START, 0);
    const Attr *o = ir_attr(i, ATTR_ORDER);
    for (int64_t k = 0; k < n->n; k++) {
        int which = 0;
        int64_t d[TILE_MAX_RANK], at = 0;
        for (int a = 0; a < rank; a++) d[a] = c[a];
        if (i->op == OP_PERMUTE)
            for (int a = 0; a < rank; a++) d[o->v[a]] = c[a];
        if (i->op == OP_SLICE) d[axis] += start;
        if (i->op == OP_CONCAT)
            while (d[axis] >= ir_operand(i, which)->type->shape[axis])
                d[axis] -= ir_operand(i, which++)->type->shape[axis];
        const Type *from = ir_operand(i, which)->type;
        for (int a = 0; a < rank; a++) at = at * from->shape[a] + (from->shape[a] == 1 ? 0 : d[a]);
        p->v[n->dst + k] = p->v[n->slots[which] + at];
        for (int a = rank - 1; a >= 0 && ++c[a] == r->shape[a]; a--) c[a] = 0;
    }
}

/* False: the operation does not only arrange elements. */
static bool shape(SimProgram *p, const Node *n, Scalar *out)
{
    int64_t start = ir_attr_int(n->instr, ATTR_START, 0);
    switch (op_as_shape(n->op)) {
    case SHAPE_SPLAT:
        for (int64_t k = 0; k < n->n; k++) out[k] = p->v[n->a];
        return true;
    case SHAPE_ARANGE:
        for (int64_t k = 0; k < n->n; k++) out[k].i = scalar_wrap((DType)n->dtype, start + k);
        return true;
    case SHAPE_RESHAPE: memcpy(out, p->v + n->a, (size_t)n->n * sizeof *out); return true;
    case SHAPE_BROADCAST:
    case SHAPE_PERMUTE:
    case SHAPE_CONCAT:
    case SHAPE_SLICE: reshape_tile(p, n); return true;
    }
    return false;
}

static void value(SimProgram *p, const Node *n)
{
    Scalar *out = p->v + n->dst;
    if (n->n == 1 && quick(n, p->v + n->a, p->v + n->b, out)) return;
    if (shape(p, n, out)) return;
    const Scalar *a = p->v + n->a, *b = p->v + n->b, *c = p->v + n->c;
    int operands = n->instr->n_operands;
    for (int64_t k = 0; k < n->n; k++) {
        const Scalar *y = operands > 1 ? b + k : a, *z = operands > 2 ? c + k : a;
        if (operands == 2 && quick(n, a + k, y, out + k)) continue;
        if (!element(n, a[k], *y, *z, out + k)) out[k] = made_up((DType)n->dtype, (uint64_t)k);
    }
}

static void made_up_value(SimProgram *p, const Node *n)
{
    p->made_up++;
    for (int64_t k = 0; k < n->n; k++)
        p->v[n->dst + k] =
            made_up((DType)n->dtype, (uint64_t)(p->program * 1000003 + p->made_up * 8191 + n->imm * 127 + k));
}

/* --- control ----------------------------------------------------------------------------------------- */

static void move(SimProgram *p, const Moves *m)
{
    Scalar *s = p->stage;
    if (m->n == 1) {
        memmove(p->v + m->v[0].to, p->v + m->v[0].from, (size_t)m->v[0].n * sizeof *s);
        p->evaluated += m->v[0].n;
        return;
    }
    for (int k = 0; k < m->n; s += m->v[k++].n) memcpy(s, p->v + m->v[k].from, (size_t)m->v[k].n * sizeof *s);
    p->evaluated += s - p->stage;
    s = p->stage;
    for (int k = 0; k < m->n; s += m->v[k++].n) memcpy(p->v + m->v[k].to, s, (size_t)m->v[k].n * sizeof *s);
}

/* SimStep.steps: elements are cheaper than operations. */
static int64_t steps_of(const SimProgram *p) { return p->steps + p->evaluated / 16; }

static bool run(SimProgram *p, const NodeList *l);

static bool run_for(SimProgram *p, const Node *n)
{
    int64_t lo = p->v[n->a].i, hi = p->v[n->b].i, step = p->v[n->c].i;
    if (n->assumed) {
        step = step > 0 ? step : 1;
        lo = 0;
        hi = SIM_ASSUMED_TRIPS * (step < 1 << 20 ? step : (step = 1));
    }
    move(p, &n->enter);
    if (step <= 0) return false;
    for (int64_t i = lo; i < hi; i += step) {
        p->v[n->dst].i = i;
        p->rounds[n->loop]++;
        if (!run(p, &n->blocks[0])) return false;
        move(p, &n->again);
        if (hi - i <= step) break; /* Avoid an overflow at the end of the type's range. */
    }
    move(p, &n->leave);
    return true;
}

static bool run_while(SimProgram *p, const Node *n)
{
    move(p, &n->enter);
    for (int64_t round = 0;; round++) {
        if (!run(p, &n->blocks[0])) return false;
        move(p, &n->leave);
        if (n->assumed ? round == SIM_ASSUMED_TRIPS : !p->v[n->a].i) return true;
        p->rounds[n->loop]++;
        if (!run(p, &n->blocks[1])) return false;
        move(p, &n->again);
    }
}

static bool run_if(SimProgram *p, const Node *n)
{
    int b = n->assumed ? n->other : !p->v[n->a].i;
    bool ok = run(p, &n->blocks[b]);
    move(p, b ? &n->again : &n->enter);
    return ok;
}

static bool operation(SimProgram *p, const Node *n)
{
    switch (op_as_control(n->op)) {
    case CONTROL_FOR: return run_for(p, n);
    case CONTROL_WHILE: return run_while(p, n);
    case CONTROL_IF: return run_if(p, n);
    }
    value(p, n);
    return true;
}

static bool run_node(SimProgram *p, const Node *n)
{
    switch (n->kind) {
    case NODE_OP: return operation(p, n);
    case NODE_WINDOW: return window(p, n);
    case NODE_INDEXED: return indexed(p, n);
    case NODE_FLOPS:
        p->flops[n->imm] += n->flops;
        p->all_flops += n->flops / (double)n->n;
        p->operations += n->operations;
        return true;
    case NODE_COORD: p->v[n->dst].i = p->coord[n->imm]; return true;
    case NODE_LOAD_DATA: load_data(p, n); return true;
    case NODE_MADE_UP: made_up_value(p, n); return true;
    }
    return false;
}

static bool run(SimProgram *p, const NodeList *l)
{
    if ((p->steps += l->n + 1) > MAX_STEPS) return false;
    for (const Node *n = l->v, *end = n + l->n; n < end; n++) {
        p->evaluated += n->n;
        if (!run_node(p, n)) return false;
        if ((p->limit && p->n >= p->limit) || (p->step_limit && steps_of(p) >= p->step_limit)) {
            p->full = true;
            return false;
        }
    }
    return true;
}

SimStatus sim_program_run(SimProgram *p, int64_t linear, SimStep *out)
{
    const int64_t *g = p->t->grid;
    p->program = linear;
    p->coord[0] = linear % g[0];
    p->coord[1] = linear / g[0] % g[1];
    p->coord[2] = linear / g[0] / g[1];
    p->n = p->n_elements = p->steps = p->made_up = p->evaluated = 0;
    memset(p->flops, 0, sizeof p->flops);
    memset(p->rounds, 0, p->t->loops.len * sizeof *p->rounds);
    p->all_flops = p->operations = 0;
    p->no_memory = p->full = false;
    if (!run(p, &p->t->body) && !p->full) return p->no_memory ? SIM_NO_MEMORY : SIM_FAILED;
    *out = (SimStep){ p->access, p->n, p->elements, p->flops[0], p->flops[1], p->flops[2], p->all_flops,
        p->operations, steps_of(p), p->full, p->rounds };
    return SIM_OK;
}
