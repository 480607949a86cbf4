/* cost.c: counts what one program does: see cost.h. Walks kernel IR once for each of a few programs spread over the grid; scalars are evaluated as far as the launch's
 * extents and the program's coordinates decide them, so that trip counts (of a causal loop, say) are those of that program. */
#include "runtime/cost_walk.h"
#include <math.h>

enum { SAMPLES = 5, MOST_TURNS_GUESSED = 16, MOST_TURNS_NAMED = 64 };

typedef struct Known { bool is; Scalar v; } Known;
typedef struct Kept { uint32_t walk; Scalar v; } Kept;        /* of an earlier walk: not known in this one, unless ALWAYS: what no program's coordinates decide */
#define ALWAYS UINT32_MAX

static bool always(const CostWalk *w, const Value *v) { return w->kept[v->id].walk == ALWAYS; }
static Known get(const CostWalk *w, const Value *v) { return (Known){ w->kept[v->id].walk == w->walk || always(w, v), w->kept[v->id].v }; }
static void put(CostWalk *w, const Value *v, Scalar x) { w->kept[v->id] = (Kept){ w->walk, x }; }
static void put_always(CostWalk *w, const Value *v, Scalar x) { w->kept[v->id] = (Kept){ ALWAYS, x }; }

bool cost_as_int(const CostWalk *w, const Value *v, int64_t *out)
{
    Known k = get(w, v);
    if (!k.is) return false;
    *out = dtype_is_float(v->type->dtype) ? (int64_t)k.v.f : k.v.i;
    return true;
}

/* times: of the way to the first load; around: all in all */
static void evaluate(CostWalk *w, const Instr *i, double times, double around)
{
    const Value *r = &i->results[0];
    Scalar in[4], out;
    const Attr *a;
    int64_t axis;
    if (i->n_results != 1 || r->type->kind != TYPE_SCALAR) return;
    if (i->op != OP_CONST && (w->producer || !w->roles)) {
        int64_t by;
        bool division = i->op == OP_DIV || i->op == OP_REM || i->op == OP_CDIV;
        double n = !division ? 1 : !ir_is_const(ir_operand(i, 1), &by) ? 8 : by > 0 && !(by & (by - 1)) ? 1 : 3;
        if (w->producer && w->loops) w->c.steps += n * around;
        w->c.scalar += times * n;
    }
    if (always(w, r)) return;
    switch ((int)i->op) {
    case OP_CONST:
        if ((a = ir_attr(i, ATTR_IVALUE))) put_always(w, r, scalar_int(a->i));
        else if ((a = ir_attr(i, ATTR_FVALUE))) put_always(w, r, scalar_float(a->f));
        return;
    case OP_DIM: put_always(w, r, scalar_int(w->env->dims[ir_attr_int(i, ATTR_DIM, 0)])); return;
    case OP_STRIDE: put_always(w, r, scalar_int(w->env->strides ? w->env->strides[ir_attr_int(i, ATTR_PARAM, 0)][ir_attr_int(i, ATTR_AXIS, 0)] : 1)); return;
    case OP_NUM_PROGRAMS: axis = ir_attr_int(i, ATTR_AXIS, 0); put_always(w, r, scalar_int(axis < 0 ? w->programs : w->env->grid[axis])); return;
    case OP_PROGRAM_ID: case OP_PROGRAM_COORD:
        if (w->traffic && i->op == OP_PROGRAM_COORD && get(w, ir_operand(i, 0)).is) put(w, r, get(w, ir_operand(i, 0)).v);
        else put(w, r, scalar_int(w->coord[ir_attr_int(i, ATTR_AXIS, 0)]));
        return;
    case OP_CLUSTER_RANK: put(w, r, scalar_int(w->rank)); return;      /* parts differ by a step at most */
    case OP_PROGRAM: case OP_CTA_ID: put(w, r, scalar_int(w->linear)); return;
    case OP_OPAQUE: if (get(w, ir_operand(i, 0)).is) (always(w, ir_operand(i, 0)) ? put_always : put)(w, r, get(w, ir_operand(i, 0)).v); return;
    default: break;
    }
    if (i->n_operands > 4) return;
    void (*keep)(CostWalk *, const Value *, Scalar) = put_always;
    for (int k = 0; k < i->n_operands; k++) {
        Known x = get(w, ir_operand(i, k));
        if (!x.is) return;
        in[k] = x.v;
        if (!always(w, ir_operand(i, k))) keep = put;
    }
    if (i->op == OP_CAST) keep(w, r, scalar_cast(r->type->dtype, ir_operand(i, 0)->type->dtype, in[0]));
    else if ((op_info[i->op].flags & OPF_ELEM) && i->n_operands && scalar_op(i->op, ir_operand(i, i->n_operands - 1)->type->dtype, in, &out)) keep(w, r, out);
}

/* --- single operations ------------------------------------------------------------------------------------------------------------ */

static bool is_special(Op op, bool *slow)
{
    *slow = false;
    switch ((int)op) {
    case OP_EXP2: case OP_EXP: case OP_LOG: case OP_LOG2: case OP_RSQRT: case OP_SIN: case OP_COS: return true;
    case OP_SQRT: case OP_TANH: case OP_SIGMOID: case OP_ERF: case OP_DIV: *slow = true; return true;
    default: return false;
    }
}

static void product(CostWalk *w, const Instr *i, double times)
{
    const Type *a = ir_operand(i, 0)->type, *b = ir_operand(i, 1)->type;
    const Attr *part = ir_attr(i, ATTR_PART);
    double m = (double)a->shape[0], k = (double)(part ? part->v[1] : a->shape[1]), n = (double)b->shape[1], size = dtype_bytes(a->dtype), work = m * n * k * times;
    const Type *c = i->results[0].type;
    double beside = 0, groups = 1;  /* groups: of columns that it takes one after the other, reading A again */
    if (w->products != i->block) {
        w->held = 0;
        w->slots_only = true;
    }
    w->c.chained |= w->products == i->block && w->slots_only && a->kind == TYPE_TILE;
    w->slots_only &= a->kind == TYPE_SHARED;
    w->products = i->block;
    const Instr *from = ir_operand(i, 2)->def;      /* the next step of the same sum, in the same registers */
    bool goes_on = from && from->block == i->block && from->op == i->op;
    if (!goes_on) w->held += (double)type_elements(c) * dtype_bytes(c->dtype) + (a->kind == TYPE_TILE ? m * k * size : 0);
    if (i->op == OP_WGMMA_PROMOTED) {       /* beside the accumulators a sum of 64 rows of each warpgroup and `count` columns, which is added to them */
        double columns = (double)ir_attr_int(i, ATTR_COUNT, 1);
        groups = ceil(n / columns);
        beside = columns / 2 * w->threads * 4;
        w->c.alu += m * n * ceil(k / (double)ir_attr_int(i, ATTR_PROMOTE, 1)) * times;
    }
    const Use *u = ir_result(i)->uses;              /* mma.sync: the sum that it is added to (promote) */
    if (i->op == OP_MMA_SYNC && u && !u->next && u->user->op == OP_ADD && type_same_shape(u->user->results[0].type, c)) beside = (double)type_elements(c) * 4;
    int words = (int)((w->held + beside) / 4 / w->threads);
    if (words > w->c.held) w->c.held = words;
    bool wgmma = i->op == OP_WGMMA || i->op == OP_WGMMA_PROMOTED, fma = !wgmma && !strcmp(ir_attr(i, ATTR_INSTR)->s, "fma");
    work *= size / 2;               /* a k of 32 bytes an instruction, whatever the type */
    /* Measured beside 16-bit products of 528 TFLOPS (H100): f32 without a matrix unit 47, f64 by m16n8k16 51, by m8n8k4 30. */
    if (fma) work = m * n * k * times * (a->dtype == DT_F64 ? 22 : 11);
    else if (a->dtype == DT_F64) work = m * n * k * times * (!strcmp(ir_attr(i, ATTR_INSTR)->s, "m16n8k16_f64") ? 10 : 17);
    if (fma) {      /* warps of as many rows as columns, whose lanes share what they read */
        w->c.mma += work;
        w->c.feed += 2 * sqrt(m * n * w->threads / 32.0) * k * size * times;
        return;
    }
    if (wgmma) {
        w->c.wgmma += work;
        w->c.feed += times * (m / 64 * n * k * size + (a->kind == TYPE_SHARED ? groups * m * k * size : 0));
        return;
    }
    w->c.wide |= size == 4;
    double along_n = (double)ir_attr_int(i, ATTR_COUNT, 1), warps = w->threads / 32.0, along_m = along_n > 0 && warps > along_n ? warps / along_n : 1;
    w->c.mma += work;
    w->c.feed += times * k * size * ((a->kind == TYPE_SHARED ? m * along_n : 0) + (b->kind == TYPE_SHARED ? n * along_m : 0));
}

static void arithmetic(CostWalk *w, const Instr *i, double times)
{
    const Type *t = i->n_results ? i->results[0].type : NULL;
    bool slow;
    if (!t || t->kind != TYPE_TILE || !t->layout) return;
    double n = (double)type_elements(t) * times;
    if (n < w->threads * times) n = w->threads * times;     /* copies of a small tile in every thread */
    if (is_special(i->op, &slow)) { w->c.special += n * (slow ? 2 : 1); w->c.alu += n * (i->op == OP_TANH ? 12 : slow ? 6 : 1); }
    else if (i->op == OP_CAST) w->c.alu += n * (dtype_bytes(t->dtype) == 1 || dtype_bytes(ir_operand(i, 0)->type->dtype) == 1 ? 2 : 0.5);
    else if (op_info[i->op].flags & OPF_ELEM) w->c.alu += n;
}

static void walk(CostWalk *w, const Block *b, double times);

static void loop(CostWalk *w, const Instr *i, double times)
{
    int64_t lo = 0, hi = 0, step = 0, turns = MOST_TURNS_GUESSED;
    const Value *by = ir_operand(i, 2);
    bool programs = by->def && by->def->op == OP_NUM_CTAS, known = cost_as_int(w, ir_operand(i, 0), &lo) & cost_as_int(w, ir_operand(i, 1), &hi) & cost_as_int(w, by, &step);
    if (programs) turns = 1;
    else if (known && step > 0) turns = hi > lo ? (hi - lo + step - 1) / step : 0;
    if (programs) put(w, i->blocks[0]->args[0], scalar_int(w->linear));
    else if (known) put(w, i->blocks[0]->args[0], scalar_int(lo + (w->traffic ? 0 : step * (turns / 2))));      /* the first turn names a window, the one in the middle stands for all */
    w->c.persistent |= programs;
    bool counted = w->counted;
    w->counted = false;
    if (w->producer && !programs && !w->loops) w->rounds = fmax(w->rounds, (double)turns);
    w->loops += !programs;
    int64_t from;
    if (w->traffic && !programs && known && turns > 1 && turns <= MOST_TURNS_NAMED && !ir_is_const(ir_operand(i, 0), &from)) {
        /* loops that begin elsewhere in each program (a sliding window) share some turns' windows with other programs and not others: each is named */
        for (int64_t t = 0; t < turns; t++) {
            put(w, i->blocks[0]->args[0], scalar_int(lo + t * step));
            walk(w, i->blocks[0], times);
        }
    } else if (turns > 0) walk(w, i->blocks[0], times * (double)turns);
    w->loops -= !programs;
    w->counted = counted;
}

static void one(CostWalk *w, const Instr *i, double times);

static const Instr *child(const Block *b, Op op)
{
    for (const Instr *i = b->first; i; i = i->next) if (i->op == op) return i;
    return NULL;
}

/* Of a loop over the steps of all programs (passes/kernel/across.c), where it asks whether this one has ended; NULL: it is no such loop. */
static const Instr *border_of(const CostWalk *w, const Instr *loop)
{
    if (w->roles && !w->producer)
        for (const Instr *i = loop->blocks[1]->first; i; i = i->next) if (i->op == OP_IF && child(i->blocks[0], OP_TICKET)) return i;
    return NULL;
}

/* The steps of one program, as many as the producer's, the one in the middle standing for all; what is done where it ends, once. */
static void steps(CostWalk *w, const Instr *i, const Instr *border, double times)
{
    const Value *last = ir_operand(border, 0);
    const Instr *following = last->def && last->def->n_operands ? ir_operand(last->def, 0)->def : NULL;
    double n = w->rounds;
    for (int k = 0; k < i->n_operands; k++) {
        Known x = get(w, ir_operand(i, k));
        Value *arg = i->blocks[1]->args[k];
        int64_t by;
        if (!x.is) continue;
        if (following && following->op == OP_ADD && ir_operand(following, 0) == arg && ir_is_const(ir_operand(following, 1), &by)) x.v.i += by * (int64_t)(n / 2);
        put(w, arg, x.v);
    }
    w->loops++;
    for (const Instr *x = i->blocks[1]->first; x; x = x->next) {
        bool choice = x->op == OP_IF;
        if (x == border) {
            const Instr *stays = border->blocks[1]->last;
            for (int k = 0; k < stays->n_operands; k++) if (get(w, ir_operand(stays, k)).is) put(w, &border->results[k], get(w, ir_operand(stays, k)).v);
            w->loops--;
            walk(w, border->blocks[0], times);
            w->loops++;
            w->counted = false;
        } else if (choice && ir_operand(x, 0) == last) walk(w, x->blocks[0], times);
        else if (choice && ir_operand(x, 0) == &border->results[0]) walk(w, x->blocks[0], times * n);
        else one(w, x, times * n);
    }
    w->loops--;
}

/* A loop whose late products are carried in flight (passes/kernel/carry.c) counts as it would with its first step peeled: that one with the first value, the others with the one in the middle. */
static bool counted(CostWalk *w, const Instr *i, double times)
{
    Counted c;
    int64_t lo = 0, hi = 0, step = 0, turns = MOST_TURNS_GUESSED;
    if (!ir_counted(i, &c)) return false;
    bool known = cost_as_int(w, c.lo, &lo) & cost_as_int(w, c.hi, &hi) & cost_as_int(w, c.step, &step);
    if (known && step > 0) turns = hi > lo + step ? (hi - lo - 1) / step : 0;
    const Block *head = i->blocks[0], *issue = i->blocks[1];
    if (known) put(w, head->args[c.at], scalar_int(lo));
    bool met = w->c.overlapped;
    walk(w, head, times);
    w->c.overlapped = met;          /* by the other turns' */
    met = w->counted;
    w->counted = false;
    w->loops++;
    for (int k = 0; k < 2 && known; k++) put(w, i->blocks[k]->args[c.at], scalar_int(lo + step + (w->traffic ? 0 : step * (turns / 2))));
    if (turns > 0) walk(w, issue, times * (double)turns);
    if (turns > 0) walk(w, head, times * (double)turns);
    w->loops--;
    w->counted = met;
    return true;
}

static void one(CostWalk *w, const Instr *i, double times)
{
    int64_t c;
    const Instr *inner, *border;
    switch ((int)i->op) {
    case OP_FOR: loop(w, i, times); return;
    case OP_WHILE:
        if (counted(w, i, times)) return;
        if ((border = border_of(w, i))) { steps(w, i, border, times); return; }
        w->c.uncertain |= w->roles && !w->producer;     /* another kind of loop */
        for (int k = 0; k < i->n_blocks; k++) walk(w, i->blocks[k], times * (w->roles ? 1 : MOST_TURNS_GUESSED));
        return;
    case OP_IF:
        if ((inner = child(i->blocks[0], OP_WHILE)) && border_of(w, inner)) {      /* before it, the early part of the very first step */
            for (const Instr *x = i->blocks[0]->first; x; x = x->next) one(w, x, x == inner ? times : 0);
            return;
        }
        if (cost_as_int(w, ir_operand(i, 0), &c)) walk(w, i->blocks[c ? 0 : 1], times);
        else for (int k = 0; k < 2; k++) walk(w, i->blocks[k], times / 2);
        return;
    case OP_ROLES: case OP_FILLED_ROLES:
        w->roles = true;
        w->producer = true;
        walk(w, i->blocks[0], times);
        if (i->n_blocks > 2) walk(w, i->blocks[2], times);
        w->producer = false;
        if (w->traffic) return;
        w->threads -= 128;
        walk(w, i->blocks[1], times);
        w->c.consumers = 1;
        return;
    case OP_TICKET:
        w->c.persistent = true;
        for (int k = 0; k < i->n_results; k++) put(w, &i->results[k], scalar_int(k ? w->coord[k - 1] : 1));
        return;
    case OP_RING_FILL: {
        double whole, bytes = cost_window_bytes(w, i, &whole) * times;
        cost_reads(w, i, ir_operand(i, 1)->index, bytes);
        w->c.wasted += bytes * cost_narrow(w, i);
        w->c.shared += 2 * whole * times;           /* from the stage, to the slot */
        double slower = cost_slower_to_fill(w, i);
        w->c.filled += (whole * slower + (w->filled && w->filled != whole ? 0.8 * (whole * slower + w->filled) : 0)) * times;
        w->filled = whole;
        return;
    }
    case OP_RING_PUT: {
        double bytes = cost_window_bytes(w, i, NULL) * times;
        if (w->traffic) { cost_reads(w, i, ir_operand(i, 1)->index, bytes); return; }
        double waste = cost_narrow(w, i);
        const Instr *ring = ir_operand(i, 0)->def;
        int64_t ctas = ring && ring->op == OP_RING ? ir_attr_int(ring, ATTR_CLUSTER, 1) : 1;
        cost_reads(w, i, ir_operand(i, 1)->index, bytes);
        if (ctas > 1) w->c.given += bytes * (1 - 1 / (double)ctas);
        w->c.wasted += bytes * waste;
        if (cost_row_bytes(w, i) % 128) w->c.panels = fmax(w->c.panels, cost_row_bytes(w, i) > 128 && cost_row_bytes(w, i) % 64 ? 2 : 1);      /* passes/kernel/layouts.c */
        w->c.torn += bytes / (double)(ctas > 1 ? ctas : 1) * cost_torn(w, i) * cost_pieces(w, i);
        return;
    }
    case OP_COPY: cost_copy(w, i, times); return;
    default: break;
    }
    if (w->producer) { evaluate(w, i, times > 1 ? 0 : times, times); return; }
    switch ((int)i->op) {
    case OP_RING: case OP_SHARED_ALLOC: w->c.ring += (double)type_elements(i->results[0].type) * dtype_bytes(i->results[0].type->dtype); break;
    case OP_TURN_WAIT: w->c.by_turns = true; break;
    case OP_RING_GET: cost_slots(w, ir_operand(i, 0)); cost_wait_for_data(w, times); break;
    case OP_SHARED_SLOT: cost_slots(w, ir_operand(i, 0)); break;
    case OP_COPY_WAIT: cost_wait_for_data(w, times); w->c.meets += times; break;
    case OP_BARRIER: w->c.meets += times; break;
    case OP_WGMMA_WAIT: w->c.overlapped |= ir_attr_int(i, ATTR_DEPTH, 0) > 0 && i->n_results > 0; break;
    case OP_WGMMA: case OP_WGMMA_PROMOTED: case OP_MMA_SYNC: product(w, i, times); break;
    case OP_LOAD: case OP_STORE: case OP_GATHER: case OP_SCATTER: case OP_ATOMIC_RMW: case OP_ATOMIC_CAS: cost_memory(w, i, times); break;
    case OP_CLUSTER_COMBINE:
        w->c.shared += 2.0 * (double)type_elements(i->results[0].type) * dtype_bytes(i->results[0].type->dtype) * times;
        w->c.joins += times * (ir_attr(i, ATTR_AXIS) ? 1 : 0.3) * (1 + (double)type_elements(ir_operand(i, 0)->type) * dtype_bytes(ir_operand(i, 0)->type->dtype) / 50000);
        break;
    case OP_PERMUTE: if (ir_operand(i, 0)->type->kind != TYPE_TILE || !ir_operand(i, 0)->type->layout) return;      /* fall through */
    case OP_CONVERT: {
        const Type *t = i->results[0].type;
        w->c.shared += 2.0 * (double)type_elements(t) * dtype_bytes(t->dtype) * times;
        w->c.meets += 2 * times;
        break;
    }
    case OP_RING_READ: cost_wait_for_data(w, times); w->c.shared += (double)type_elements(i->results[0].type) * dtype_bytes(i->results[0].type->dtype) * times; break;
    case OP_SHARED_READ: case OP_SHARED_WRITE: {
        const Type *t = i->op == OP_SHARED_READ ? ir_result(i)->type : ir_operand(i, 1)->type;       /* a read may take a part of what its view shows */
        w->c.shared += (double)type_elements(t) * dtype_bytes(t->dtype) * times;
        break;
    }
    default:
        if (i->op >= OP_REDUCE_SUM && i->op <= OP_TOPK) {
            const Type *t = ir_operand(i, 0)->type;
            w->c.alu += (double)type_elements(t) * times * (i->op >= OP_SCAN_SUM ? 4 : 1);
            w->c.meets += times;
        } else {
            evaluate(w, i, times > 1 ? 0 : times, times);
            arithmetic(w, i, times);
        }
    }
}

static void walk(CostWalk *w, const Block *b, double times)
{
    for (const Instr *i = b->first; i; i = i->next) {
        bool known = w->traffic && i->n_results == 1 && i->results[0].type->kind == TYPE_SCALAR && always(w, &i->results[0]);      /* hundreds of programs are walked for their windows */
        if (!known) one(w, i, times);
    }
}

/* --- the mean of some programs ------------------------------------------------------------------------------------------------------- */

static void add(Cost *to, const Cost *c)
{
    to->wgmma += c->wgmma; to->mma += c->mma; to->feed += c->feed; to->shared += c->shared; to->alu += c->alu; to->special += c->special;
    to->in += c->in; to->out += c->out; to->wasted += c->wasted; to->given += c->given; to->filled += c->filled; to->torn += c->torn; to->panels = fmax(to->panels, c->panels); to->scalar += c->scalar; to->again += c->again; to->joins += c->joins; to->turns += c->turns; to->stalls += c->stalls; to->steps += c->steps; to->meets += c->meets;
    to->held = c->held > to->held ? c->held : to->held; to->loaded = c->loaded > to->loaded ? c->loaded : to->loaded; to->ring = c->ring; if (c->slots && (!to->slots || c->slots < to->slots)) to->slots = c->slots; to->ahead = c->ahead;
    to->consumers = c->consumers; to->persistent |= c->persistent; to->overlapped |= c->overlapped; to->bulk |= c->bulk; to->shifted |= c->shifted; to->by_turns |= c->by_turns; to->wide |= c->wide; to->chained |= c->chained; to->uncertain |= c->uncertain;
}

static double weight(const Cost *c) { return c->wgmma + c->mma + 16 * (c->alu + 8 * c->special) + 64 * (c->in + c->out) + 1; }

static double tensor_bytes(const Func *f, const EvalEnv *env, int param)
{
    const Param *p = &f->params[param];
    double n = p->type->kind == TYPE_TENSOR ? dtype_bytes(p->type->dtype) : 0;
    for (int a = 0; p->type->kind == TYPE_TENSOR && a < p->type->rank; a++) if (!cost_same_along(env, param, a)) n *= (double)env->dims[p->dims[a]];
    return n;
}

static double bytes_touched(const Func *f, const EvalEnv *env)
{
    double all = 0;
    for (int k = 0; k < f->n_params; k++) all += tensor_bytes(f, env, k);
    return all;
}

static void start(CostWalk *w, int64_t linear, const int64_t *coord)
{
    w->walk++;
    w->linear = linear;
    memcpy(w->coord, coord, sizeof w->coord);
    for (int p = 0; p < w->f->n_params; p++)
        if (w->f->params[p].kind == PARAM_SCALAR && w->env->scalars) put_always(w, w->f->body->args[p], w->env->scalars[p]);
    walk(w, w->f->body, 1);
}

/* What comes from memory if programs go in waves that share L2: by tensor, what a wave loads times the waves, or all of the tensor once where L2 keeps it. */
static double bytes_from_memory(CostWalk *w, int64_t together, int parts, int loading, int64_t l2_bytes)
{
    Traffic *t = w->traffic = arena_new(&w->s->arena, Traffic);
    double all = 0, part = 1;
    int64_t programs = w->programs, n = together < programs ? together : programs;
    const EvalEnv *env = w->env;
    if (n > 1024) { part = (double)n / 1024; n = 1024; }
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i / loading;        /* clusters whose programs load together are numbered */
        w->rank = i % loading;
        int64_t coord[3] = { k % env->grid[0], k / env->grid[0] % env->grid[1], k / env->grid[0] / env->grid[1] };
        start(w, k, coord);
    }
    double waves = (double)programs / ((double)n * part);
    for (int p = 0; p < w->f->n_params && p < MOST_PARAMS; p++) {
        double size = tensor_bytes(w->f, env, p), loaded = t->bytes[p] * part * waves * parts;
        if (w->f->params[p].kind != PARAM_IN) { all += size; continue; }
        all += loaded < size ? loaded : size < 0.4 * (double)l2_bytes ? size : loaded;
    }
    return all;
}

void cost_count(Session *s, const Func *f, const GpuCode *code, const EvalEnv *env, int64_t programs, int units, int64_t l2_bytes, Cost *out)
{
    double sum = 0, most = 0;
    *out = (Cost){ 0 };
    Kept *kept = arena_array(&s->arena, Kept, f->module->next_id);
    for (int k = 0; k < SAMPLES; k++) {
        CostWalk w = { .s = s, .f = f, .env = env, .kept = kept, .walk = (uint32_t)k, .programs = programs, .threads = code->threads, .plan = code->plan };
        int64_t coord[3];
        for (int a = 0; a < 3; a++) coord[a] = (int64_t)((2 * k + 1) / (2.0 * SAMPLES) * (double)env->grid[a]);
        start(&w, (int64_t)((2 * k + 1) / (2.0 * SAMPLES) * (double)programs), coord);
        w.c.again = w.c.in;
        for (int p = 0; p < MOST_PARAMS; p++) w.c.again -= w.site[p];
        double x = weight(&w.c);
        sum += x;
        if (x > most) most = x;
        add(out, &w.c);
    }
    double *mean[] = { &out->wgmma, &out->mma, &out->feed, &out->shared, &out->alu, &out->special, &out->in, &out->out, &out->wasted, &out->given, &out->filled, &out->torn, &out->scalar, &out->again, &out->joins, &out->turns, &out->steps, &out->stalls, &out->meets };
    for (size_t k = 0; k < sizeof mean / sizeof *mean; k++) *mean[k] /= SAMPLES;
    out->heaviest = most * SAMPLES / sum;
    out->shifted &= !ir_holds(f->body, OP_FOR) && !ir_holds(f->body, OP_WHILE);       /* passes/kernel/lower.c, rows_at_once */
    out->unique = bytes_touched(f, env);
    out->loading = code->cluster > 1 && code->persistent ? code->cluster : 1;
    out->groups = programs;
    if (out->loading > 1) {             /* the last one of an axis may lack programs */
        int64_t along = env->grid[code->plan->multicast_axis];
        out->groups = programs / (along > 0 ? along : 1) * ((along + out->loading - 1) / out->loading);
    }
    out->memory = out->unique;
    if (out->ring > 0 && programs > units) {
        CostWalk w = { .s = s, .f = f, .env = env, .kept = kept, .walk = SAMPLES, .programs = out->groups * out->loading, .threads = code->threads, .plan = code->plan };
        int64_t each = 232448 / (code->shared_bytes + 1024);
        int parts = out->joins > 0 && code->cluster > 1 ? code->cluster : 1;       /* of a program, whose first is walked */
        out->memory = bytes_from_memory(&w, (int64_t)units * (code->persistent || each < 1 ? 1 : each > 4 ? 4 : each) / parts, parts, out->loading, l2_bytes);
    }
    out->programs = programs;
    out->threads = code->threads;
    out->registers = code->registers;
    out->room = code->consumer_registers ? code->consumer_registers : code->registers;
    out->words = code->largest.words;
    out->cluster = code->cluster > 1 && !code->persistent ? code->cluster : 1;
    out->shared_bytes = code->shared_bytes;
    out->persistent = code->persistent;
    out->consumers = out->consumers ? code->threads / 128 - 1 : 0;
}
