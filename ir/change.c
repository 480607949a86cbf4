/* change.c: the IR is changed: operands, attributes, values replaced, instructions erased, blocks and modules
 * copied. See ir.h. */
#include "ir/ir_priv.h"

static Arena *arena_of(const Module *m) { return &m->session->arena; }

void ir_set_operand(Instr *i, int k, Value *v)
{
    unlink_use(&i->operands[k]);
    link_use(&i->operands[k], v);
}

void ir_set_operands(Instr *i, Value *const *operands, int n)
{
    Session *s = NULL;
    Block *b = i->block;
    if (b) s = b->func->module->session;
    for (int k = 0; k < i->n_operands; k++) unlink_use(&i->operands[k]);
    if (n > i->n_operands && s) i->operands = arena_array(&s->arena, Use, (size_t)n);
    i->n_operands = n;
    for (int k = 0; k < n; k++) {
        i->operands[k].user = i;
        link_use(&i->operands[k], operands[k]);
    }
}

Attr ir_copy_attr(Session *s, Attr a)
{
    if (attr_info[a.key].kind == ATTR_KIND_STR) a.s = session_intern(s, a.s, strlen(a.s));
    if (attr_info[a.key].kind == ATTR_KIND_INTS)
        a.v = arena_grow(&s->arena, a.v, (size_t)a.n * sizeof *a.v, (size_t)a.n * sizeof *a.v);
    return a;
}

void ir_set_attr(Session *s, Instr *i, Attr a)
{
    a = ir_copy_attr(s, a);
    for (int k = 0; k < i->n_attrs; k++)
        if (i->attrs[k].key == a.key) {
            i->attrs[k] = a;
            return;
        }
    i->attrs =
        arena_grow(&s->arena, i->attrs, (size_t)i->n_attrs * sizeof a, ((size_t)i->n_attrs + 1) * sizeof a);
    i->attrs[i->n_attrs++] = a;
}

void ir_del_attr(Instr *i, AttrKey key)
{
    for (int k = 0; k < i->n_attrs; k++)
        if (i->attrs[k].key == key) {
            i->attrs[k] = i->attrs[--i->n_attrs];
            return;
        }
}

void ir_unprove(Session *s, Instr *i)
{
    ir_set_attr(s, i, a_int(ATTR_MASKED, 1));
    ir_del_attr(i, ATTR_INSIDE);
}

void ir_replace(Value *old, Value *by)
{
    if (old == by) return;
    while (old->uses) {
        Use *u = old->uses;
        unlink_use(u);
        link_use(u, by);
    }
    if (!by->name) by->name = old->name;
}

static void drop_operands(Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) unlink_use(&i->operands[k]);
    for (int b = 0; b < i->n_blocks; b++)
        for (Instr *x = i->blocks[b]->first; x; x = x->next) drop_operands(x);
}

void ir_erase(Instr *i)
{
    drop_operands(i);
    for (int k = 0; k < i->n_results; k++)
        if (i->results[k].uses)
            ir_fail(i->block->func->module->session, i->loc, "erasing %s, whose result is used",
                op_info[i->op].name);
    if (i->block) ir_unlink(i);
}

void ir_set_name(Value *v, const char *name) { v->name = name; }

/* Rebuilds a loop with other operands; blocks move over. Results keep their order up to min(n_results). */
static Instr *rebuild(Instr *old, Value *const *operands, int n, const Type *const *types, int n_results)
{
    Builder b = ir_before(old);
    Instr *i = ir_new_instr(&b, old->op, operands, n, (Attrs){ old->attrs, old->n_attrs }, n_results, 0);
    for (int k = 0; k < n_results; k++) i->results[k].type = types[k];
    i->n_blocks = old->n_blocks;
    i->blocks = old->blocks;
    old->n_blocks = 0;
    for (int k = 0; k < i->n_blocks; k++) i->blocks[k]->parent = i;
    ir_place(&b, i);
    return i;
}

static void append_operand(Instr *i, Value *v)
{
    Arena *a = arena_of(i->block->func->module);
    int n = i->n_operands;
    Value **all = arena_array(a, Value *, (size_t)n + 1);
    for (int k = 0; k < n; k++) all[k] = ir_operand(i, k);
    all[n] = v;
    ir_set_operands(i, all, n + 1);
}

Instr *ir_add_carried(Instr *old, Value *init, Value *next)
{
    Arena *a = arena_of(old->block->func->module);
    int n = old->n_operands, r = old->n_results;
    Value **ops = arena_array(a, Value *, (size_t)n + 1);
    const Type **types = arena_array(a, const Type *, (size_t)r + 1);
    for (int k = 0; k < n; k++) ops[k] = ir_operand(old, k);
    for (int k = 0; k < r; k++) types[k] = old->results[k].type;
    ops[n] = init;
    types[r] = init->type;
    Instr *i = rebuild(old, ops, n + 1, types, r + 1);
    for (int k = 0; k < r; k++) {
        i->results[k].name = old->results[k].name;
        ir_replace(&old->results[k], &i->results[k]);
    }
    i->results[r].name = init->name;
    ir_erase(old);
    Value *arg = NULL;
    for (int k = 0; k < i->n_blocks; k++) arg = ir_block_arg(i->blocks[k], init->type, init->name);
    if (i->op == OP_WHILE) {
        Instr *c = ir_terminator(i->blocks[0]);
        append_operand(c, i->blocks[0]->args[i->blocks[0]->n_args - 1]);
        append_operand(ir_terminator(i->blocks[1]), next ? next : arg);
    } else {
        append_operand(ir_terminator(i->blocks[0]), next ? next : arg);
    }
    return i;
}

static void remove_operand(Instr *i, int at)
{
    Arena *a = arena_of(i->block->func->module);
    int n = i->n_operands;
    Value **all = arena_array(a, Value *, (size_t)n);
    for (int k = 0, j = 0; k < n; k++)
        if (k != at) all[j++] = ir_operand(i, k);
    ir_set_operands(i, all, n - 1);
}

void ir_drop_carried(Instr *i, int k)
{
    bool loop = i->op == OP_FOR;
    for (int b = 0; b < i->n_blocks; b++) {
        Block *blk = i->blocks[b];
        remove_operand(ir_terminator(blk), i->op == OP_WHILE && b == 0 ? k + 1 : k);
        if (i->op == OP_IF) continue;
        int at = loop ? k + 1 : k;
        for (int x = at; x + 1 < blk->n_args; x++) {
            blk->args[x] = blk->args[x + 1];
            blk->args[x]->index = x;
        }
        blk->n_args--;
    }
    if (i->op != OP_IF) remove_operand(i, loop ? k + 3 : k);
    /* Other instructions hold the addresses of the results, which are an array. Therefore shift the uses and
     * not the values. */
    for (int x = k; x + 1 < i->n_results; x++) {
        i->results[x].type = i->results[x + 1].type;
        i->results[x].name = i->results[x + 1].name;
        ir_replace(&i->results[x + 1], &i->results[x]);
    }
    i->n_results--;
}

void ir_set_element_type(Session *s, Func *f, int param, DType to)
{
    Block *blocks[] = { f->body, f->grid, f->extents };
    const Type *t = type_tensor(s, to, f->params[param].type->rank);
    f->params[param].type = t;
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++)
        if (blocks[k]) blocks[k]->args[param]->type = t;
    if (f->remap) f->remap->args[param + 1]->type = t; /* behind the number of the program */
}

void value_map_init(ValueMap *m, Arena *a) { *m = (ValueMap){ .arena = a }; }

static size_t value_hash(const Value *v) { return ((uintptr_t)v >> 4) * 0x9E3779B97F4A7C15ull >> 20; }

void value_map_set(ValueMap *m, const Value *k, Value *v)
{
    if (2 * (m->n + 1) > m->cap) {
        ValueMap old = *m;
        m->cap = old.cap ? 2 * old.cap : 64;
        m->keys = arena_array(m->arena, const Value *, m->cap);
        m->vals = arena_array(m->arena, Value *, m->cap);
        m->n = 0;
        for (size_t i = 0; i < old.cap; i++)
            if (old.keys[i]) value_map_set(m, old.keys[i], old.vals[i]);
    }
    size_t h = value_hash(k) & (m->cap - 1);
    while (m->keys[h] && m->keys[h] != k) h = (h + 1) & (m->cap - 1);
    if (!m->keys[h]) m->n++;
    m->keys[h] = k;
    m->vals[h] = v;
}

Value *value_map_get(const ValueMap *m, Value *k)
{
    if (!m->cap) return k;
    for (size_t h = value_hash(k) & (m->cap - 1); m->keys[h]; h = (h + 1) & (m->cap - 1))
        if (m->keys[h] == k) return m->vals[h];
    return k;
}

Instr *ir_clone(Builder *b, const Instr *old, ValueMap *map)
{
    Arena *a = arena_of(b->module);
    Value **ops = arena_array(a, Value *, (size_t)old->n_operands);
    for (int k = 0; k < old->n_operands; k++) ops[k] = value_map_get(map, ir_operand(old, k));
    Builder at = *b;
    at.loc = old->loc;
    Instr *i = ir_new_instr(&at, old->op, ops, old->n_operands, (Attrs){ old->attrs, old->n_attrs },
        old->n_results, old->n_blocks);
    for (int k = 0; k < old->n_results; k++) {
        i->results[k].type = old->results[k].type;
        i->results[k].name = old->results[k].name;
        value_map_set(map, &old->results[k], &i->results[k]);
    }
    ir_place(b, i);
    for (int k = 0; k < old->n_blocks; k++) {
        const Block *from = old->blocks[k];
        for (int x = 0; x < from->n_args; x++)
            value_map_set(
                map, from->args[x], ir_block_arg(i->blocks[k], from->args[x]->type, from->args[x]->name));
        Builder inner = ir_at_end(i->blocks[k]);
        ir_clone_block_into(&inner, from, map, true);
    }
    return i;
}

void ir_clone_block_into(Builder *b, const Block *from, ValueMap *map, bool with_terminator)
{
    for (const Instr *x = from->first; x; x = x->next)
        if (with_terminator || !(op_info[x->op].flags & OPF_TERM)) ir_clone(b, x, map);
}

static Block *clone_block(Func *f, const Block *from, ValueMap *map)
{
    if (!from) return NULL;
    Block *b = ir_block_new(f, NULL);
    for (int k = 0; k < from->n_args; k++)
        value_map_set(map, from->args[k], ir_block_arg(b, from->args[k]->type, from->args[k]->name));
    Builder at = ir_at_end(b);
    ir_clone_block_into(&at, from, map, true);
    return b;
}

/* Values of a copy get the numbers of those that they are copies of. */
static void number_alike(const Block *from, Block *to)
{
    for (int k = 0; k < from->n_args; k++) to->args[k]->id = from->args[k]->id;
    const Instr *x = from->first;
    for (Instr *y = to->first; x && y; x = x->next, y = y->next) {
        for (int k = 0; k < x->n_results; k++) y->results[k].id = x->results[k].id;
        for (int k = 0; k < x->n_blocks; k++) number_alike(x->blocks[k], y->blocks[k]);
    }
}

SavedBody ir_body_save(Func *f)
{
    SavedBody saved = { .next_id = f->module->next_id };
    ValueMap map;
    value_map_init(&map, arena_of(f->module));
    saved.body = clone_block(f, f->body, &map);
    number_alike(f->body, saved.body);
    f->module->next_id = saved.next_id;
    return saved;
}

void ir_body_restore(Func *f, const SavedBody *saved)
{
    f->body = saved->body;
    f->module->next_id = saved->next_id;
}

Module *ir_clone_module(const Module *m)
{
    Module *c = ir_module_new(m->session);
    Arena *a = arena_of(m);
    for (const Func *f = m->funcs; f; f = f->next) {
        Func *g = ir_func_new(c, f->name, f->is_kernel);
        Func *next = g->next;
        *g = *f;
        g->module = c;
        g->next = next;
        g->params = arena_grow(
            a, f->params, (size_t)f->n_params * sizeof *f->params, (size_t)f->n_params * sizeof *f->params);
        g->dims =
            arena_grow(a, f->dims, (size_t)f->n_dims * sizeof *f->dims, (size_t)f->n_dims * sizeof *f->dims);
        ValueMap map;
        value_map_init(&map, a);
        g->body = clone_block(g, f->body, &map);
        g->grid = clone_block(g, f->grid, &map);
        g->remap = clone_block(g, f->remap, &map);
        g->extents = clone_block(g, f->extents, &map);
    }
    return c;
}
