/* cost.c: counts what the programs of a launch do: see cost.h. A few programs spread over the grid are walked
 * (cost_walk.c), and their mean is taken; the programs that run at once are walked again for the windows that
 * they share. */
#include "runtime/choice/cost/cost_walk.h"
#include "runtime/drivers/gpu_facts.h"
#include <math.h>

enum { SAMPLES = 5, MOST_WALKED = 1024 };

/* What is summed over the sampled programs, and then divided by their number. */
#define MEANS(F) \
    F(wgmma) \
    F(mma) \
    F(feed) \
    F(shared) \
    F(alu) \
    F(special) \
    F(copies) \
    F(in) \
    F(own) \
    F(fetched) \
    F(pieces) \
    F(parted) \
    F(out) \
    F(stored) \
    F(wasted) \
    F(outside) \
    F(given) \
    F(added) \
    F(queued) \
    F(cp_async) \
    F(cp_classes) \
    F(cp_apart) \
    F(cp_steps) \
    F(torn) \
    F(split) \
    F(ends) \
    F(cut) \
    F(scalar) \
    F(again) \
    F(joins) \
    F(left) \
    F(shared_out) \
    F(puts) \
    F(iterations) \
    F(steps) \
    F(stalls) \
    F(waits) \
    F(trips) \
    F(trips_ahead) \
    F(computed) \
    F(drains) \
    F(meets) \
    F(reductions) \
    F(across)

static int larger(int a, int b) { return a > b ? a : b; }

static void add(Cost *to, const Cost *c)
{
#define ADD(x) to->x += c->x;
    MEANS(ADD)
#undef ADD
    to->panels = fmax(to->panels, c->panels);
    to->held = larger(to->held, c->held);
    to->loaded = larger(to->loaded, c->loaded);
    to->round = larger(to->round, c->round);
    to->before = larger(to->before, c->before);
    to->copied = fmax(to->copied, c->copied);
    if (c->stages && (!to->stages || c->stages < to->stages)) to->stages = c->stages;
    to->ring = c->ring;
    to->ahead = c->ahead;
    to->persistent |= c->persistent;
    to->bulk |= c->bulk;
    to->pixels |= c->pixels;
    to->shifted |= c->shifted;
    to->wide |= c->wide;
    to->fma |= c->fma;
    to->ragged |= c->ragged;
    to->open |= c->open;
    to->tiled |= c->tiled;
    to->chained |= c->chained;
    to->uncertain |= c->uncertain;
}

static double weight(const Cost *c)
{ return c->wgmma + c->mma + 16 * (c->alu + 8 * c->special) + 64 * (c->in + c->out) + 1; }

double cost_tensor_bytes(const Func *f, const EvalEnv *env, int param)
{
    const Param *p = &f->params[param];
    double n = p->type->kind == TYPE_TENSOR ? dtype_bytes(p->type->dtype) : 0;
    for (int a = 0; p->type->kind == TYPE_TENSOR && a < p->type->rank; a++)
        if (!cost_same_along(env, param, a)) n *= (double)env->dims[p->dims[a]];
    return n;
}

static double bytes_touched(const Func *f, const EvalEnv *env)
{
    double all = 0;
    for (int k = 0; k < f->n_params; k++) all += cost_tensor_bytes(f, env, k);
    return all;
}

/* Bytes of each tensor that all programs load and store. */
typedef struct Moved {
    double read[MOST_PARAMS], written[MOST_PARAMS];
} Moved;

/* What comes from memory and goes there if each tensor is moved once: what is changed of one goes both ways,
 * and of one of more than `large` bytes, such as the pages of a cache, in which programs may look things up,
 * no more than they load. */
static double bytes_moved_once(const Func *f, const EvalEnv *env, const Moved *moved, double large)
{
    double all = 0;
    for (int k = 0; k < f->n_params; k++) {
        const double size = cost_tensor_bytes(f, env, k);
        const bool known = size > large && k < MOST_PARAMS && moved->read[k] > 0;
        all += f->params[k].kind == PARAM_IN && known ? fmin(moved->read[k], size) : size;
        if (f->params[k].kind == PARAM_INOUT && k < MOST_PARAMS) all += fmin(moved->written[k], size);
    }
    return all;
}

/* Walks program `i` of the kernel's own order for the windows that it loads. Clusters whose programs load
 * together are numbered. */
static void walk_windows(CostWalk *w, int64_t i, int loading)
{
    const int64_t k = i / loading, *grid = w->env->grid;
    int64_t coord[3] = { k % grid[0], k / grid[0] % grid[1], k / grid[0] / grid[1] };
    w->rank = i % loading;
    cost_walk(w, k, coord);
}

/* The programs that run at once, and what they stand for. */
typedef struct Wave {
    double part, /* of their number by that of those that are walked */
        waves;   /* such waves in the launch */
    int parts;   /* of a program, whose first is walked */
    double room; /* L2 keeps tensors of fewer bytes */
} Wave;

/* What all waves load of a tensor, each what the walked programs do. */
static double loaded_by_all(const CostWalk *w, const Wave *x, int param)
{ return w->traffic->bytes[param] * x->part * x->waves * x->parts; }

/* Whether all tensors that are only read come from memory once, whatever else programs load: L2 keeps each,
 * and what was walked already says that all of it is loaded. */
static bool all_come_once(const CostWalk *w, const Wave *x)
{
    for (int p = 0; p < w->f->n_params && p < MOST_PARAMS; p++) {
        if (w->f->params[p].kind != PARAM_IN) continue;
        const double size = cost_tensor_bytes(w->f, w->env, p);
        if (size >= x->room || loaded_by_all(w, x, p) < size) return false;
    }
    return true;
}

/* Whether L2 keeps each tensor that is only read, so that how windows lie over each other does not matter. */
static bool all_stay(const CostWalk *w, double room)
{
    for (int p = 0; p < w->f->n_params && p < MOST_PARAMS; p++)
        if (w->f->params[p].kind == PARAM_IN && cost_tensor_bytes(w->f, w->env, p) >= room) return false;
    return true;
}

/* What comes from memory if programs go in waves that share L2: by tensor, what a wave loads times the waves,
 * or all of the tensor once where L2 keeps it. */
static double bytes_from_memory(CostWalk *w, int64_t together, int parts, int loading, int64_t l2_bytes)
{
    double all = 0;
    Wave x = { .part = 1, .parts = parts, .room = w->model->l2_keeps_tensor * (double)l2_bytes };
    int64_t programs = w->programs, n = together < programs ? together : programs;
    if (n > MOST_WALKED) {
        x.part = (double)n / MOST_WALKED;
        n = MOST_WALKED;
    }
    x.waves = (double)programs / ((double)n * x.part);
    w->traffic = cost_traffic_new(w);
    w->traffic->wants_spans = !all_stay(w, x.room);
    for (int64_t i = 0; i < n && !all_come_once(w, &x); i++) walk_windows(w, i, loading);
    for (int p = 0; p < w->f->n_params && p < MOST_PARAMS; p++) {
        double size = cost_tensor_bytes(w->f, w->env, p), loaded = loaded_by_all(w, &x, p);
        if (w->f->params[p].kind != PARAM_IN) all += size;
        else all += loaded < size ? loaded : size < x.room ? size : loaded;
    }
    return all;
}

/* What comes from memory again in a last round whose shares are no parts of one program each (stream-k): then
 * programs that load the same window do so at different times. Between two of these the others load what
 * comes to `between`, and what L2 does not keep of that is lost. */
static double again_from_memory(CostWalk *w, int64_t left, int64_t l2_bytes)
{
    const Traffic *t = w->traffic = cost_traffic_new(w);
    for (int64_t i = w->programs - left; i < w->programs; i++) walk_windows(w, i, 1);
    double room = w->model->l2_keeps_tensor * (double)l2_bytes, unique = 0, loaded = 0, again = 0;
    for (int p = 0; p < MOST_PARAMS; p++) {
        unique += t->bytes[p];
        loaded += t->loaded[p];
    }
    for (int p = 0; p < MOST_PARAMS; p++) {
        double between = t->loaded[p] > 0 ? fmin(unique, loaded * t->bytes[p] / t->loaded[p]) : 0;
        if (between > room) again += (1 - room / between) * (t->loaded[p] - t->bytes[p]);
    }
    return again;
}

/* What the CTAs of a group of multiprocessors load, each window once, by their number. CTAs that follow each
 * other fill one group after the other, half of the first one last. */
static double nearby_bytes(CostWalk *w, int64_t programs, int parts)
{
    const int64_t group = (int64_t)w->model->gpc, most = group / parts > 0 ? group / parts : 1,
                  from = programs >= 2 * most ? most / 2 : 0;
    double bytes = 0;
    int64_t n = 0;
    const Traffic *t = w->traffic = cost_traffic_new(w);
    for (; from + n < programs && n < most; n++) walk_windows(w, from + n, 1);
    for (int p = 0; p < MOST_PARAMS; p++) bytes += t->bytes[p];
    return n > 0 ? bytes / (double)n : 0;
}

static CostWalk walk_of(
    Session *s, const Func *f, const GpuCode *code, const EvalEnv *env, const CostDevice *d)
{
    CostWalk w = { .s = s, .f = f, .env = env, .threads = code->threads, .units = d->units };
    w.kept = arena_array(&s->arena, CostKept, f->module->next_id);
    w.cheap = arena_new(&s->arena, CheapValues);
    w.cheap->size = arena_array(&s->arena, uint16_t, f->module->next_id);
    w.plan = code->plan;
    w.model = d->model;
    w.target = d->target;
    w.code = code;
    w.access_lines = arena_new(&s->arena, struct CostLines *);
    w.rows = arena_new(&s->arena, struct CostRows *);
    w.exchanges = arena_array(&s->arena, struct CostExchange *, f->module->next_id);
    return w;
}

/* The sums over SAMPLES programs, and the work of the heaviest as a ratio to their mean. */
static void count_samples(
    const CostWalk *fresh, const EvalEnv *env, int64_t programs, Cost *out, Moved *moved)
{
    double sum = 0, most = 0;
    for (int k = 0; k < SAMPLES; k++) {
        CostWalk w = *fresh;
        double part = (2 * k + 1) / (2.0 * SAMPLES);
        int64_t coord[3];
        for (int a = 0; a < 3; a++) coord[a] = (int64_t)(part * (double)env->grid[a]);
        w.walk = (uint32_t)k;
        w.programs = programs;
        cost_walk(&w, (int64_t)(part * (double)programs), coord);
        w.c.again = w.c.in;
        for (int p = 0; p < MOST_PARAMS; p++) {
            w.c.again -= w.site[p];
            moved->read[p] += w.read[p] * (double)programs / SAMPLES;
            moved->written[p] += w.written[p] * (double)programs / SAMPLES;
        }
        double x = weight(&w.c);
        sum += x;
        if (x > most) most = x;
        add(out, &w.c);
    }
    out->heaviest = most * SAMPLES / sum;
}

/* Clusters whose programs load together: the last one of an axis may lack programs. */
static int64_t groups_of(const GpuCode *code, const EvalEnv *env, int64_t programs, int loading)
{
    if (loading <= 1) return programs;
    int64_t along = env->grid[code->plan->multicast_axis];
    return programs / (along > 0 ? along : 1) * ((along + loading - 1) / loading);
}

/* Programs that run at once. */
static int64_t programs_at_once(const GpuCode *code, const CostDevice *d)
{
    enum { MOST_CTAS = 4 };
    int64_t each = d->shared_bytes / (code->shared_bytes + d->target->cta_shared_bytes);
    if ((code->persistent && !code->plan->resident) || each < 1) each = 1;
    return (int64_t)d->units * (each > MOST_CTAS ? MOST_CTAS : each);
}

/* How the last round is divided: passes/kernel/warp_specialization/stream_k.c. */
static void count_shares(int most, int64_t programs, const CostDevice *d, Cost *out)
{
    int64_t left = programs % d->units, shares = left * most < d->units ? left * most : d->units;
    out->shares = most;
    out->sharing = programs < d->units ? (double)shares : 0;
    out->uneven_shares = left && shares % left;
}

void cost_count(Session *s, const Func *f, const GpuCode *code, const EvalEnv *env, int64_t programs,
    const CostDevice *d, Cost *out)
{
    *out = (Cost){ 0 };
    CostWalk w = walk_of(s, f, code, env, d);
    Moved moved = { 0 };
    count_samples(&w, env, programs, out, &moved);
#define DIVIDE(x) out->x /= SAMPLES;
    MEANS(DIVIDE)
#undef DIVIDE
    bool loops = ir_holds(f->body, OP_FOR) || ir_holds(f->body, OP_WHILE);
    out->loops = loops;
    out->shifted &= !loops; /* passes/kernel/lower.c, rows_at_once */
    out->unique = bytes_touched(f, env);
    const bool products = out->ring > 0 || out->wgmma + out->mma > 0;
    out->memory = bytes_moved_once(f, env, &moved, products ? INFINITY : (double)d->l2_bytes);
    out->loading = code->plan->multicast > 1 ? code->plan->multicast : 1;
    out->groups = groups_of(code, env, programs, out->loading);
    w.walk = SAMPLES; /* what samples found out is not known in the walks that follow */
    /* programs that all run at once share what they load, unless they load it for one tile after the other */
    if (out->ring > 0 && (programs > d->units || out->tiled)) {
        int parts =
            code->plan->split_k > 1 ? code->plan->split_k : 1; /* of a program, whose first is walked */
        w.programs = out->groups * out->loading;
        out->memory =
            bytes_from_memory(&w, programs_at_once(code, d) / parts, parts, out->loading, d->l2_bytes);
    }
    if (out->ring > 0 && out->loading <= 1 && code->plan->cluster <= 1) {
        w.programs = programs;
        out->nearby = nearby_bytes(&w, programs, code->plan->split_k > 1 ? code->plan->split_k : 1);
    }
    if (code->shares > 1) {
        count_shares(code->shares, programs, d, out);
        w.programs = programs;
        if (out->uneven_shares) out->memory += again_from_memory(&w, programs % d->units, d->l2_bytes);
    }
    out->programs = programs;
    out->threads = code->threads;
    out->registers = code->registers;
    out->room = code->consumer_registers ? code->consumer_registers : code->registers;
    out->words = larger(0, code->largest.words);
    if (out->words > cost_held_words(&w)) out->words = cost_held_words(&w);
    out->live = cost_live_words(&w);
    out->gathered = cost_gathered_words(&w);
    out->abreast = gpu_abreast(code->plan->abreast, programs, (int64_t)d->units * d->target->sm_ctas);
    out->cluster = code->plan->cluster > 1 ? code->plan->cluster : 1;
    out->waiting = code->plan->parts_over_rings ? out->cluster - 2 : 0;
    out->clusters = code->plan->clusters > 1 ? code->plan->clusters : 1;
    out->shared_bytes = code->shared_bytes;
    out->persistent = code->persistent && !code->plan->resident;
    out->packed = f->packed > 0;
    out->pingpong = code->plan->pingpong;
    out->consumers = code->plan->producer_warps ? code->plan->warps / 4 : 0;
}

Cost cost_with_programs(const Cost *c, int64_t programs)
{
    Cost out = *c;
    const double times = (double)programs / (double)c->programs;
    out.programs = programs;
    out.groups = (int64_t)ceil((double)c->groups * times);
    out.unique *= times;
    out.memory *= times;
    return out;
}

Loc cost_line(Session *s, const Func *f, const GpuCode *code, const EvalEnv *env, int64_t programs,
    const CostDevice *d, Bound of)
{
    CostWalk w = walk_of(s, f, code, env, d);
    int64_t coord[3];
    double most = 0;
    Loc at = { 0 };
    for (int a = 0; a < 3; a++) coord[a] = env->grid[a] / 2;
    w.programs = programs;
    w.lines = arena_array(&s->arena, CostLine, MOST_LINES);
    cost_walk(&w, programs / 2, coord);
    for (int n = 0; n < w.n_lines; n++)
        if (w.lines[n].of[of] > most) {
            most = w.lines[n].of[of];
            at = w.lines[n].at;
        }
    return at;
}
