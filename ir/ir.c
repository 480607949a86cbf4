/* ir.c: construction, reading and change of the IR. See ir.h. */
#include "ir/scalar.h"

#define PURE OPF_PURE
#define ELEM OPF_ELEM
#define COMM OPF_COMM
#define READ OPF_READ
#define WRITE OPF_WRITE
#define TERM OPF_TERM
#define KERNEL OPF_KERNEL
#define BARRIER OPF_BARRIER
#define DIVERGENT OPF_DIVERGENT
const OpInfo op_info[OP_COUNT] = {
#define OP(ID, name, operands, results, blocks, rule, flags, doc) { name, operands, results, blocks, flags, doc },
#include "ir/ops.def"
#undef OP
};
#undef PURE
#undef ELEM
#undef COMM
#undef READ
#undef WRITE
#undef TERM
#undef KERNEL
#undef BARRIER
#undef DIVERGENT

const AttrInfo attr_info[ATTR_N_KEYS] = {
#define ATTR(ID, name, kind, doc) { name, ATTR_KIND_##kind, doc },
#include "ir/attrs.def"
#undef ATTR
};

#define ENUM(E) static const char *const names_##E[] = {
#define VAL(E, ID, name) name,
#define END(E) };
#include "ir/enums.def"
#undef ENUM
#undef VAL
#undef END

static const struct { AttrKey key; const char *const *names; int n; } enums[] = {
#define ENUM(E) { ATTR_##E, names_##E, sizeof names_##E / sizeof *names_##E },
#define VAL(E, ID, name)
#define END(E)
#include "ir/enums.def"
#undef ENUM
#undef VAL
#undef END
};

const char *attr_enum_name(AttrKey k, int64_t v)
{
    for (size_t i = 0; i < sizeof enums / sizeof *enums; i++)
        if (enums[i].key == k) return v >= 0 && v < enums[i].n ? enums[i].names[v] : NULL;
    return NULL;
}

int attr_enum_parse(AttrKey k, const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof enums / sizeof *enums; i++) {
        if (enums[i].key != k) continue;
        for (int v = 0; v < enums[i].n; v++)
            if (strlen(enums[i].names[v]) == len && !memcmp(enums[i].names[v], name, len)) return v;
    }
    return -1;
}

bool op_parse(const char *name, size_t len, Op *out)
{
    for (int i = 0; i < OP_COUNT; i++)
        if (strlen(op_info[i].name) == len && !memcmp(op_info[i].name, name, len)) { *out = (Op)i; return true; }
    return false;
}

static Arena *arena_of(const Module *m) { return &m->session->arena; }

_Noreturn void ir_fail(Session *s, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(&s->arena, fmt, ap);
    va_end(ap);
    if (s->n_errors >= s->error_limit) s->error_limit = s->n_errors + 1;
    diag_error(s, loc, "internal error: %s", text);
    longjmp(s->oom, 2);
}

/* --- construction ---------------------------------------------------------------------------------------------------- */

Module *ir_module_new(Session *s)
{
    Module *m = arena_new(&s->arena, Module);
    m->session = s;
    return m;
}

Func *ir_func_new(Module *m, const char *name, bool is_kernel)
{
    Func *f = arena_new(arena_of(m), Func), **at = &m->funcs;
    f->module = m;
    f->name = session_intern(m->session, name, strlen(name));
    f->is_kernel = is_kernel;
    f->spec = "";
    f->body = ir_block_new(f, NULL);
    while (*at) at = &(*at)->next;
    *at = f;
    return f;
}

Func *ir_func_find(const Module *m, const char *name)
{
    for (Func *f = m->funcs; f; f = f->next)
        if (!strcmp(f->name, name)) return f;
    return NULL;
}

Block *ir_block_new(Func *f, Instr *parent)
{
    Block *b = arena_new(arena_of(f->module), Block);
    b->func = f;
    b->parent = parent;
    return b;
}

Value *ir_block_arg(Block *b, const Type *type, const char *name)
{
    Module *m = b->func->module;
    b->args = arena_grow(arena_of(m), b->args, (size_t)b->n_args * sizeof *b->args, ((size_t)b->n_args + 1) * sizeof *b->args);
    Value *v = arena_new(arena_of(m), Value);
    v->type = type;
    v->block = b;
    v->index = b->n_args;
    v->id = m->next_id++;
    if (name) ir_set_name(v, session_intern(m->session, name, strlen(name)));
    return b->args[b->n_args++] = v;
}

Value *ir_param_new(Func *f, const char *name, ParamKind kind, const Type *type, const int *dims)
{
    Arena *a = arena_of(f->module);
    f->params = arena_grow(a, f->params, (size_t)f->n_params * sizeof *f->params, ((size_t)f->n_params + 1) * sizeof *f->params);
    Param *p = &f->params[f->n_params++];
    *p = (Param){ .name = session_intern(f->module->session, name, strlen(name)), .kind = kind, .type = type,
                  .align = dtype_bytes(type->dtype), .lo = -__builtin_inf(), .hi = __builtin_inf() };
    for (int i = 0; i < TILE_MAX_RANK; i++) {
        p->dims[i] = dims && i < type->rank && type->kind == TYPE_TENSOR ? dims[i] : -1;
        p->stride[i] = FACT_UNKNOWN;
        p->stride_div[i] = 1;
        if (p->dims[i] >= 0 && f->dims[p->dims[i]].param < 0) {
            f->dims[p->dims[i]].param = f->n_params - 1;
            f->dims[p->dims[i]].axis = i;
        }
    }
    return ir_block_arg(f->body, type, p->name);
}

int ir_dim_new(Func *f, const char *name, int64_t extent)
{
    Arena *a = arena_of(f->module);
    f->dims = arena_grow(a, f->dims, (size_t)f->n_dims * sizeof *f->dims, ((size_t)f->n_dims + 1) * sizeof *f->dims);
    f->dims[f->n_dims] = (Dim){ .name = name ? session_intern(f->module->session, name, strlen(name)) : NULL, .extent = extent,
                                .div = extent > 0 ? extent : 1, .param = -1, .axis = -1 };
    return f->n_dims++;
}

Builder ir_at_end(Block *b) { return (Builder){ .module = b->func->module, .block = b }; }
Builder ir_before(Instr *i) { return (Builder){ .module = i->block->func->module, .block = i->block, .before = i, .loc = i->loc }; }
Builder ir_after(Instr *i) { return (Builder){ .module = i->block->func->module, .block = i->block, .before = i->next, .loc = i->loc }; }

void ir_place(Builder *b, Instr *i)
{
    Instr *next = b->before, *prev = next ? next->prev : b->block->last;
    i->block = b->block;
    i->next = next;
    i->prev = prev;
    if (prev) prev->next = i; else b->block->first = i;
    if (next) next->prev = i; else b->block->last = i;
}

void ir_unlink(Instr *i)
{
    Block *b = i->block;
    if (i->prev) i->prev->next = i->next; else b->first = i->next;
    if (i->next) i->next->prev = i->prev; else b->last = i->prev;
    i->prev = i->next = NULL;
    i->block = NULL;
}

static void link_use(Use *u, Value *v)
{
    u->value = v;
    u->next = v->uses;
    u->prev = &v->uses;
    if (v->uses) v->uses->prev = &u->next;
    v->uses = u;
}

static void unlink_use(Use *u)
{
    if (!u->value) return;
    *u->prev = u->next;
    if (u->next) u->next->prev = u->prev;
    u->value = NULL;
}

static Attr copy_attr(Session *s, Attr a)
{
    if (attr_info[a.key].kind == ATTR_KIND_STR) a.s = session_intern(s, a.s, strlen(a.s));
    if (attr_info[a.key].kind == ATTR_KIND_INTS) a.v = arena_grow(&s->arena, a.v, (size_t)a.n * sizeof *a.v, (size_t)a.n * sizeof *a.v);
    return a;
}

static Instr *new_instr(Builder *b, Op op, Value *const *operands, int n, Attrs attrs, int n_results, int n_blocks)
{
    Session *s = b->module->session;
    Instr *i = arena_new(&s->arena, Instr);
    i->op = op;
    i->loc = b->loc;
    i->n_operands = n;
    i->operands = arena_array(&s->arena, Use, (size_t)n);
    for (int k = 0; k < n; k++) {
        i->operands[k].user = i;
        link_use(&i->operands[k], operands[k]);
    }
    i->n_results = n_results;
    i->results = arena_array(&s->arena, Value, (size_t)n_results);
    for (int k = 0; k < n_results; k++) i->results[k] = (Value){ .def = i, .index = k, .id = b->module->next_id++ };
    i->n_attrs = attrs.n;
    i->attrs = arena_array(&s->arena, Attr, (size_t)attrs.n);
    for (int k = 0; k < attrs.n; k++) i->attrs[k] = copy_attr(s, attrs.v[k]);
    i->n_blocks = n_blocks;
    i->blocks = arena_array(&s->arena, Block *, (size_t)n_blocks);
    for (int k = 0; k < n_blocks; k++) i->blocks[k] = ir_block_new(b->block->func, i);
    return i;
}

Instr *ir_build_raw(Builder *b, Op op, Value *const *operands, int n, Attrs attrs, const Type *const *types, int n_results)
{
    Instr *i = new_instr(b, op, operands, n, attrs, n_results, op_info[op].n_blocks);
    for (int k = 0; k < n_results; k++) i->results[k].type = types[k];
    ir_place(b, i);
    return i;
}

/* The block arguments that an operation's blocks have by rule. */
static void make_block_args(Session *s, Instr *i)
{
    if (i->op == OP_FOR) {
        ir_block_arg(i->blocks[0], i->operands[0].value->type, NULL);
        for (int k = 3; k < i->n_operands; k++) ir_block_arg(i->blocks[0], i->operands[k].value->type, i->operands[k].value->name);
    } else if (i->op == OP_WHILE) {
        for (int k = 0; k < i->n_operands; k++)
            for (int r = 0; r < 2; r++) ir_block_arg(i->blocks[r], i->operands[k].value->type, i->operands[k].value->name);
    } else if (i->op == OP_REDUCE || i->op == OP_SCAN) {
        for (int r = 0; r < 2; r++) ir_block_arg(i->blocks[0], type_scalar(s, i->operands[0].value->type->dtype), NULL);
    }
}

Instr *ir_build(Builder *b, Op op, Value *const *operands, int n, Attrs attrs, const Type *const *types, int n_types)
{
    Session *s = b->module->session;
    const Type *results[IR_MAX_RESULTS] = { 0 };
    if (n_types > IR_MAX_RESULTS) ir_fail(s, b->loc, "%s with %d results", op_info[op].name, n_types);
    for (int k = 0; k < n_types; k++) results[k] = types[k];
    int n_results = n_types;
    const char *why = ir_infer(s, op, operands, n, attrs, results, &n_results);
    if (why) ir_fail(s, b->loc, "building %s: %s", op_info[op].name, why);
    Instr *i = new_instr(b, op, operands, n, attrs, n_results, op_info[op].n_blocks);
    for (int k = 0; k < n_results; k++) i->results[k].type = results[k];
    ir_place(b, i);
    make_block_args(s, i);
    return i;
}

Value *ir_emit(Builder *b, Op op, Value *const *operands, int n, Attrs attrs, const Type *type)
{
    return ir_result(ir_build(b, op, operands, n, attrs, &type, type ? 1 : 0));
}

Value *ir_un(Builder *b, Op op, Value *x) { return ir_emit(b, op, &x, 1, NO_ATTRS, NULL); }
Value *ir_bin(Builder *b, Op op, Value *x, Value *y) { return ir_emit(b, op, (Value *[]){ x, y }, 2, NO_ATTRS, NULL); }

Value *ir_const_int(Builder *b, DType d, int64_t v)
{
    return ir_emit(b, OP_CONST, NULL, 0, ATTRS(a_int(ATTR_IVALUE, scalar_wrap(d, v))), type_scalar(b->module->session, d));
}

Value *ir_const_float(Builder *b, DType d, double v)
{
    return ir_emit(b, OP_CONST, NULL, 0, ATTRS(a_float(ATTR_FVALUE, scalar_exact(d, v) ? v : scalar_round(d, v))), type_scalar(b->module->session, d));
}

Value *ir_index(Builder *b, int64_t v) { return ir_const_int(b, DT_INDEX, v); }

Value *ir_cast(Builder *b, Value *v, DType d)
{
    if (v->type->dtype == d) return v;
    return ir_emit(b, OP_CAST, &v, 1, NO_ATTRS, type_with_dtype(b->module->session, v->type, d));
}

Value *ir_splat(Builder *b, Value *scalar, int rank, const int64_t *shape)
{
    if (rank == 0) return scalar;
    return ir_emit(b, OP_SPLAT, &scalar, 1, NO_ATTRS, type_tile(b->module->session, scalar->type->dtype, rank, shape));
}

/* --- reading ---------------------------------------------------------------------------------------------------------- */

const Attr *ir_attr(const Instr *i, AttrKey k)
{
    for (int a = 0; a < i->n_attrs; a++)
        if (i->attrs[a].key == k) return &i->attrs[a];
    return NULL;
}

int64_t ir_attr_int(const Instr *i, AttrKey k, int64_t otherwise)
{
    const Attr *a = ir_attr(i, k);
    return a ? a->i : otherwise;
}

static const Instr *const_of(const Value *v)
{
    while (v->def && (v->def->op == OP_SPLAT || v->def->op == OP_BROADCAST)) v = ir_operand(v->def, 0);
    return v->def && v->def->op == OP_CONST ? v->def : NULL;
}

bool ir_is_const(const Value *v, int64_t *out)
{
    const Instr *c = const_of(v);
    const Attr *a = c ? ir_attr(c, ATTR_IVALUE) : NULL;
    if (a && out) *out = a->i;
    return a != NULL;
}

bool ir_is_const_float(const Value *v, double *out)
{
    const Instr *c = const_of(v);
    const Attr *a = c ? ir_attr(c, ATTR_FVALUE) : NULL;
    if (a && out) *out = a->f;
    return a != NULL;
}

bool ir_is_used(const Instr *i)
{
    for (int k = 0; k < i->n_results; k++)
        if (i->results[k].uses) return true;
    return false;
}

int ir_use_count(const Value *v)
{
    int n = 0;
    for (const Use *u = v->uses; u; u = u->next) n++;
    return n;
}

bool ir_is_ancestor(const Block *outer, const Block *inner)
{
    for (; inner; inner = inner->parent ? inner->parent->block : NULL)
        if (inner == outer) return true;
    return false;
}

bool ir_defined_outside(const Value *v, const Block *b)
{
    return !ir_is_ancestor(b, v->def ? v->def->block : v->block);
}

bool ir_mem_parts(const Instr *i, MemParts *p)
{
    int n_values = 0;
    switch ((int)i->op) {
    case OP_LOAD: case OP_GATHER: break;
    case OP_STORE: case OP_SCATTER: case OP_ATOMIC_RMW: n_values = 1; break;
    case OP_ATOMIC_CAS: n_values = 2; break;
    default: return false;
    }
    *p = (MemParts){ 0 };
    int k = 0, n = i->n_operands;
    /* the verifier asks before it has checked every instruction */
    if (n < 1 || !ir_operand(i, 0) || ir_operand(i, 0)->type->kind != TYPE_TENSOR) return false;
    p->tensor = ir_operand(i, k++);
    p->param = p->tensor->index;
    p->rank = p->tensor->type->rank;
    for (int a = 0; a < p->rank && k < n; a++) p->idx[a] = ir_operand(i, k++);
    for (int v = 0; v < n_values && k < n; v++) p->values[v] = ir_operand(i, k++);
    if (ir_attr_int(i, ATTR_HAS_MASK, 0) && k < n) p->mask = ir_operand(i, k++);
    if (ir_attr_int(i, ATTR_HAS_PAD, 0) && k < n) p->pad = ir_operand(i, k++);
    if (k < n && ir_operand(i, k)->type->kind == TYPE_TOKEN) p->token = ir_operand(i, k);
    for (int r = 0; r < i->n_results; r++) {
        if (i->results[r].type->kind == TYPE_TOKEN) p->token_out = &i->results[r];
        else p->result = &i->results[r];
    }
    return true;
}

/* --- change ----------------------------------------------------------------------------------------------------------- */

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

void ir_set_attr(Session *s, Instr *i, Attr a)
{
    a = copy_attr(s, a);
    for (int k = 0; k < i->n_attrs; k++)
        if (i->attrs[k].key == a.key) { i->attrs[k] = a; return; }
    i->attrs = arena_grow(&s->arena, i->attrs, (size_t)i->n_attrs * sizeof a, ((size_t)i->n_attrs + 1) * sizeof a);
    i->attrs[i->n_attrs++] = a;
}

void ir_del_attr(Instr *i, AttrKey key)
{
    for (int k = 0; k < i->n_attrs; k++)
        if (i->attrs[k].key == key) { i->attrs[k] = i->attrs[--i->n_attrs]; return; }
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
        if (i->results[k].uses) ir_fail(i->block->func->module->session, i->loc, "erasing %s, whose result is used", op_info[i->op].name);
    if (i->block) ir_unlink(i);
}

void ir_set_name(Value *v, const char *name) { v->name = name; }

/* Rebuilds a loop with other operands; blocks move over. Results keep their order up to min(n_results). */
static Instr *rebuild(Instr *old, Value *const *operands, int n, const Type *const *types, int n_results)
{
    Builder b = ir_before(old);
    Instr *i = new_instr(&b, old->op, operands, n, (Attrs){ old->attrs, old->n_attrs }, n_results, 0);
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
    for (int k = 0, j = 0; k < n; k++) if (k != at) all[j++] = ir_operand(i, k);
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
        for (int x = at; x + 1 < blk->n_args; x++) { blk->args[x] = blk->args[x + 1]; blk->args[x]->index = x; }
        blk->n_args--;
    }
    if (i->op != OP_IF) remove_operand(i, loop ? k + 3 : k);
    /* Results are an array of values whose addresses others hold: shift their uses, not the values. */
    for (int x = k; x + 1 < i->n_results; x++) {
        i->results[x].type = i->results[x + 1].type;
        i->results[x].name = i->results[x + 1].name;
        ir_replace(&i->results[x + 1], &i->results[x]);
    }
    i->n_results--;
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
        for (size_t i = 0; i < old.cap; i++) if (old.keys[i]) value_map_set(m, old.keys[i], old.vals[i]);
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
    Instr *i = new_instr(&at, old->op, ops, old->n_operands, (Attrs){ old->attrs, old->n_attrs }, old->n_results, old->n_blocks);
    for (int k = 0; k < old->n_results; k++) {
        i->results[k].type = old->results[k].type;
        i->results[k].name = old->results[k].name;
        value_map_set(map, &old->results[k], &i->results[k]);
    }
    ir_place(b, i);
    for (int k = 0; k < old->n_blocks; k++) {
        const Block *from = old->blocks[k];
        for (int x = 0; x < from->n_args; x++)
            value_map_set(map, from->args[x], ir_block_arg(i->blocks[k], from->args[x]->type, from->args[x]->name));
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
        g->params = arena_grow(a, f->params, (size_t)f->n_params * sizeof *f->params, (size_t)f->n_params * sizeof *f->params);
        g->dims = arena_grow(a, f->dims, (size_t)f->n_dims * sizeof *f->dims, (size_t)f->n_dims * sizeof *f->dims);
        ValueMap map;
        value_map_init(&map, a);
        g->body = clone_block(g, f->body, &map);
        g->grid = clone_block(g, f->grid, &map);
        g->remap = clone_block(g, f->remap, &map);
    }
    return c;
}
