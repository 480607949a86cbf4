/* live.c: see live.h. */
#include "passes/kernel/schedule/live.h"
#include "passes/kernel/kernel.h"

/* By value id: the last operation that reads it. By operation: what nobody reads behind it. */
typedef struct Live {
    const LiveCount *c;
    int *last, n;
    int64_t *dead, now;
} Live;

static void read_at(Live *x, const Value *v)
{
    x->last[v->id] = x->n;
    if (v->def && v->def->op == OP_BROADCAST) read_at(x, ir_operand(v->def, 0));
}

static void find_last(Live *x, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) find_last(x, i->blocks[k]);
        for (int k = 0; k < i->n_operands; k++) read_at(x, ir_operand(i, k));
        x->n++;
    }
}

static void begin(Live *x, const Value *v)
{
    if (x->last[v->id] <= x->n) return;
    int64_t takes = x->c->of(x->c->user, v);
    x->now += takes;
    x->dead[x->last[v->id]] += takes;
}

static void count(Live *x, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) count(x, i->blocks[k]);
        x->now -= x->dead[x->n];
        for (int k = 0; k < i->n_results && i->op != OP_BROADCAST; k++) begin(x, &i->results[k]);
        x->c->at(x->c->user, i, x->now);
        x->n++;
    }
}

void live_count(Arena *a, const Func *f, const LiveCount *c)
{
    Live x = { .c = c, .last = arena_array(a, int, f->module->next_id) };
    find_last(&x, f->body);
    x.dead = arena_array(a, int64_t, (size_t)x.n + 1);
    x.n = 0;
    count(&x, f->body);
}

static int64_t tile_bytes(void *user, const Value *v)
{
    (void)user;
    bool none = v->type->kind != TYPE_TILE || kernel_is_cheap(v);
    return none ? 0 : type_elements(v->type) * dtype_bytes(v->type->dtype);
}

static void note_most(void *user, const Instr *i, int64_t bytes)
{
    int64_t *most = user;
    (void)i;
    if (bytes > *most) *most = bytes;
}

int64_t live_most_bytes(Arena *a, const Func *f)
{
    int64_t bytes = 0;
    live_count(a, f, &(LiveCount){ tile_bytes, note_most, &bytes });
    return bytes;
}
