/* ir.c: construction and reading of the IR. See ir.h; change.c has the rest. */
#include "ir/interp/scalar.h"
#include "ir/ir_priv.h"

/* The flags by the names that ops.def has for them. */
#define X(ID) ID = OPF_##ID,
enum { OP_FLAGS(X) };
#undef X

const OpInfo op_info[OP_COUNT] = {
#define OP(ID, name, family, operands, results, blocks, rule, layout, combine, cost, special, flags, doc) \
    { name, OPS_##family, operands, results, blocks, LAYOUT_RULE_##layout, COMBINE_##combine, cost, special, \
        flags, doc },
#include "ir/ops.def"
};

const AttrInfo attr_info[ATTR_N_KEYS] = {
#define ATTR(ID, name, kind, doc) { name, ATTR_KIND_##kind, doc },
#include "ir/attrs.def"
#undef ATTR
};

#define ENUM(E) static const char *const names_##E[] = {
#define VAL(E, ID, name) name,
#define END(E) \
    } \
    ;
#include "ir/enums.def"
#undef ENUM
#undef VAL
#undef END

static const struct {
    AttrKey key;
    const char *const *names;
    int n;
} enums[] = {
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
        if (strlen(op_info[i].name) == len && !memcmp(op_info[i].name, name, len)) {
            *out = (Op)i;
            return true;
        }
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

/* --- construction ------------------------------------------------------------------------------------ */

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
    b->args = arena_grow(
        arena_of(m), b->args, (size_t)b->n_args * sizeof *b->args, ((size_t)b->n_args + 1) * sizeof *b->args);
    Value *v = arena_new(arena_of(m), Value);
    v->type = type;
    v->block = b;
    v->index = b->n_args;
    v->id = m->next_id++;
    if (name) ir_set_name(v, session_intern(m->session, name, strlen(name)));
    return b->args[b->n_args++] = v;
}

enum { MOST_ROW = 1600, WIDEST = 2 }; /* bytes of rows that pack takes several of, and of their elements */
bool ir_gaps_matter(int64_t bytes, int64_t apart, int size)
{ return size <= WIDEST && bytes <= MOST_ROW && apart != bytes && apart % 16; }

Value *ir_param_new(Func *f, const char *name, ParamKind kind, const Type *type, const int *dims)
{
    Arena *a = arena_of(f->module);
    f->params = arena_grow(
        a, f->params, (size_t)f->n_params * sizeof *f->params, ((size_t)f->n_params + 1) * sizeof *f->params);
    Param *p = &f->params[f->n_params++];
    *p = (Param){ .name = session_intern(f->module->session, name, strlen(name)),
        .kind = kind,
        .type = type,
        .align = dtype_bytes(type->dtype),
        .lo = -__builtin_inf(),
        .hi = __builtin_inf() };
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
    f->dims = arena_grow(
        a, f->dims, (size_t)f->n_dims * sizeof *f->dims, ((size_t)f->n_dims + 1) * sizeof *f->dims);
    f->dims[f->n_dims] = (Dim){ .name = name ? session_intern(f->module->session, name, strlen(name)) : NULL,
        .extent = extent,
        .div = extent > 0 ? extent : 1,
        .param = -1,
        .axis = -1 };
    return f->n_dims++;
}

int ir_dim_derive(Func *f, const char *text)
{
    int d = ir_dim_new(f, NULL, -1);
    f->dims[d].text = session_intern(f->module->session, text, strlen(text));
    return d;
}

Value *ir_dim_value(const Func *f, int dim)
{
    int n = 0;
    if (dim < 0 || dim >= f->n_dims || !f->dims[dim].text || !f->extents) return NULL;
    for (int d = 0; d < dim; d++) n += f->dims[d].text != NULL;
    const Instr *y = ir_terminator(f->extents);
    return y && n < y->n_operands ? ir_operand(y, n) : NULL;
}

void ir_dim_promise(Dim *d, int64_t div)
{
    if (d->extent < 0 && d->div < div) d->div = div;
}

Builder ir_at_end(Block *b) { return (Builder){ .module = b->func->module, .block = b }; }
Builder ir_before(Instr *i)
{ return (Builder){ .module = i->block->func->module, .block = i->block, .before = i, .loc = i->loc }; }
Builder ir_after(Instr *i)
{ return (Builder){ .module = i->block->func->module, .block = i->block, .before = i->next, .loc = i->loc }; }

void ir_place(Builder *b, Instr *i)
{
    Instr *next = b->before, *prev = next ? next->prev : b->block->last;
    i->block = b->block;
    i->next = next;
    i->prev = prev;
    if (prev) prev->next = i;
    else b->block->first = i;
    if (next) next->prev = i;
    else b->block->last = i;
}

void ir_unlink(Instr *i)
{
    Block *b = i->block;
    if (i->prev) i->prev->next = i->next;
    else b->first = i->next;
    if (i->next) i->next->prev = i->prev;
    else b->last = i->prev;
    i->prev = i->next = NULL;
    i->block = NULL;
}

/* What an instruction consists of lies in one piece of memory, or apart where gaps find wrong indices. */
static void *part_of(Session *s, char **room, size_t bytes)
{
    if (ARENA_GAPS) return arena_alloc(&s->arena, bytes);
    *room += bytes;
    return *room - bytes;
}

Instr *ir_new_instr(
    Builder *b, Op op, Value *const *operands, int n, Attrs attrs, int n_results, int n_blocks)
{
    Session *s = b->module->session;
    const size_t uses = (size_t)n * sizeof(Use), values = (size_t)n_results * sizeof(Value),
                 attributes = (size_t)attrs.n * sizeof(Attr), blocks = (size_t)n_blocks * sizeof(Block *);
    const size_t beside = ARENA_GAPS ? 0 : uses + values + attributes + blocks;
    Instr *i = arena_alloc(&s->arena, sizeof(Instr) + beside);
    char *room = (char *)(i + 1);
    i->op = op;
    i->loc = b->loc;
    i->n_operands = n;
    i->operands = part_of(s, &room, uses);
    for (int k = 0; k < n; k++) {
        i->operands[k].user = i;
        link_use(&i->operands[k], operands[k]);
    }
    i->n_results = n_results;
    i->results = part_of(s, &room, values);
    for (int k = 0; k < n_results; k++)
        i->results[k] = (Value){ .def = i, .index = k, .id = b->module->next_id++ };
    i->n_attrs = attrs.n;
    i->attrs = part_of(s, &room, attributes);
    for (int k = 0; k < attrs.n; k++) i->attrs[k] = ir_copy_attr(s, attrs.v[k]);
    i->n_blocks = n_blocks;
    i->blocks = part_of(s, &room, blocks);
    for (int k = 0; k < n_blocks; k++) i->blocks[k] = ir_block_new(b->block->func, i);
    return i;
}

Instr *ir_build_raw(
    Builder *b, Op op, Value *const *operands, int n, Attrs attrs, const Type *const *types, int n_results)
{
    Instr *i = ir_new_instr(b, op, operands, n, attrs, n_results, op_info[op].n_blocks);
    for (int k = 0; k < n_results; k++) i->results[k].type = types[k];
    ir_place(b, i);
    return i;
}

/* The block arguments that an operation's blocks have by rule. */
static void make_block_args(Session *s, Instr *i)
{
    if (i->op == OP_FOR) {
        ir_block_arg(i->blocks[0], i->operands[0].value->type, NULL);
        for (int k = 3; k < i->n_operands; k++)
            ir_block_arg(i->blocks[0], i->operands[k].value->type, i->operands[k].value->name);
    } else if (i->op == OP_WHILE) {
        for (int k = 0; k < i->n_operands; k++)
            for (int r = 0; r < 2; r++)
                ir_block_arg(i->blocks[r], i->operands[k].value->type, i->operands[k].value->name);
    } else if (i->op == OP_REDUCE || i->op == OP_SCAN) {
        for (int r = 0; r < 2; r++)
            for (int k = 0; k < i->n_operands; k++)
                ir_block_arg(i->blocks[0], type_scalar(s, i->operands[k].value->type->dtype), NULL);
    }
}

Instr *ir_build(
    Builder *b, Op op, Value *const *operands, int n, Attrs attrs, const Type *const *types, int n_types)
{
    Session *s = b->module->session;
    const Type *results[IR_MAX_RESULTS] = { 0 };
    if (n_types > IR_MAX_RESULTS) ir_fail(s, b->loc, "%s with %d results", op_info[op].name, n_types);
    for (int k = 0; k < n_types; k++) results[k] = types[k];
    int n_results = n_types;
    const char *why = ir_infer(s, op, operands, n, attrs, results, &n_results);
    if (why) ir_fail(s, b->loc, "building %s: %s", op_info[op].name, why);
    Instr *i = ir_new_instr(b, op, operands, n, attrs, n_results, op_info[op].n_blocks);
    for (int k = 0; k < n_results; k++) i->results[k].type = results[k];
    ir_place(b, i);
    make_block_args(s, i);
    return i;
}

Value *ir_emit(Builder *b, Op op, Value *const *operands, int n, Attrs attrs, const Type *type)
{ return ir_result(ir_build(b, op, operands, n, attrs, &type, type ? 1 : 0)); }

Value *ir_un(Builder *b, Op op, Value *x) { return ir_emit(b, op, &x, 1, NO_ATTRS, NULL); }
Value *ir_bin(Builder *b, Op op, Value *x, Value *y)
{ return ir_emit(b, op, (Value *[]){ x, y }, 2, NO_ATTRS, NULL); }

Value *ir_const_int(Builder *b, DType d, int64_t v)
{
    return ir_emit(b, OP_CONST, NULL, 0, ATTRS(a_int(ATTR_IVALUE, scalar_wrap(d, v))),
        type_scalar(b->module->session, d));
}

Value *ir_const_float(Builder *b, DType d, double v)
{
    return ir_emit(b, OP_CONST, NULL, 0,
        ATTRS(a_float(ATTR_FVALUE, scalar_exact(d, v) ? v : scalar_round(d, v))),
        type_scalar(b->module->session, d));
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
    return ir_emit(
        b, OP_SPLAT, &scalar, 1, NO_ATTRS, type_tile(b->module->session, scalar->type->dtype, rank, shape));
}

/* --- reading ----------------------------------------------------------------------------------------- */

const Attr *ir_attr(const Instr *i, AttrKey k)
{
    for (int a = 0; a < i->n_attrs; a++)
        if (i->attrs[a].key == k) return &i->attrs[a];
    return NULL;
}

bool ir_same_ints(const Instr *a, const Instr *b, AttrKey k)
{
    const Attr *x = ir_attr(a, k), *y = ir_attr(b, k);
    return x && y ? x->n == y->n && !memcmp(x->v, y->v, (size_t)x->n * sizeof *x->v) : x == y;
}

bool ir_same_window(const Instr *a, const Instr *b)
{
    return ir_same_ints(a, b, ATTR_EXTENTS) && ir_same_ints(a, b, ATTR_ORDER) &&
           ir_same_ints(a, b, ATTR_STEPS);
}

int64_t ir_attr_int(const Instr *i, AttrKey k, int64_t otherwise)
{
    const Attr *a = ir_attr(i, k);
    return a ? a->i : otherwise;
}

static const Instr *const_of(const Value *v)
{
    v = ir_repeated(v);
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
{ return !ir_is_ancestor(b, v->def ? v->def->block : v->block); }

bool ir_mem_parts(const Instr *i, MemParts *p)
{
    int n_values = 0;
    if (op_family(i->op) != OPS_MEMORY) return false;
    switch (op_as_memory(i->op)) {
    case MEMORY_LOAD:
    case MEMORY_GATHER: break;
    case MEMORY_STORE:
    case MEMORY_SCATTER:
    case MEMORY_ATOMIC_RMW: n_values = 1; break;
    case MEMORY_ATOMIC_CAS: n_values = 2; break;
    }
    /* Compilers clear the whole by a `rep` instruction, which takes longer than the parts. */
    memset(p->idx, 0, sizeof p->idx);
    memset(p->values, 0, sizeof p->values);
    p->mask = p->pad = p->token = NULL;
    p->tensor = p->result = p->token_out = NULL;
    p->rank = p->param = 0;
    int k = 0, n = i->n_operands;
    /* The verifier calls this before it has checked every instruction. */
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

bool ir_adds(const Instr *i) { return i->op == OP_STORE && ir_attr(i, ATTR_RMW) != NULL; }

bool ir_orders(const Instr *i)
{
    return (i->op == OP_ATOMIC_RMW || i->op == OP_ATOMIC_CAS) &&
           ir_attr_int(i, ATTR_SEM, SEM_RELAXED) != SEM_RELAXED;
}

bool ir_is_semaphore(const Instr *i) { return ir_orders(i) && ir_attr_int(i, ATTR_SEMAPHORE, 0) != 0; }

Instr *ir_semaphore_wait(const Instr *store)
{
    MemParts m;
    Instr *i = ir_mem_parts(store, &m) && m.token ? m.token->def : NULL;
    return i && ir_is_semaphore(i) ? i : NULL;
}

Instr *ir_semaphore_signal(const Instr *store)
{
    const Use *u = store->op == OP_STORE ? store->results[0].uses : NULL;
    if (u && u->user->op == OP_JOIN_TOKENS) u = u->user->results[0].uses;
    return u && ir_is_semaphore(u->user) ? u->user : NULL;
}

static bool orders(const void *user, const Instr *i)
{
    (void)user;
    return ir_orders(i);
}

bool ir_orders_memory(const Func *f) { return ir_any_in(f->body, orders, NULL); }

static void find_wait(void *found, Instr *i)
{
    if (!ir_orders(i)) return;
    *(bool *)found |= ir_is_semaphore(i);
    for (const Block *b = i->block; b->parent; b = b->parent->block)
        if (b->parent->op == OP_WHILE && !ir_over_programs(b->parent)) *(bool *)found = true;
}

bool ir_waits_for_programs(const Func *f)
{
    bool waits = false;
    ir_walk(f->body, find_wait, &waits);
    return waits;
}
