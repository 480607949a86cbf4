/* pack_rewrite.c: of pack: turns what varies between programs into tiles with the programs as first axis. */
#include "passes/tile/program/pack.h"

const Type *pack_type(const Pack *p, const Type *t)
{
    int64_t shape[TILE_MAX_RANK] = { p->n };
    int rank = t->kind == TYPE_TILE ? t->rank : 0;
    for (int a = 0; a < rank; a++) shape[a + 1] = t->shape[a];
    return type_tile(p->c->session, t->dtype, rank + 1, shape);
}

void pack_set(Pack *p, Value *old, Value *tile)
{
    ir_set_name(tile, old->name);
    value_map_set(&p->map, old, tile);
}

/* [n, 1, ..., 1] of one scalar for each program. */
static Value *column(const Pack *p, Builder *b, Value *v, int rank)
{
    int64_t shape[TILE_MAX_RANK] = { p->n };
    for (int a = 1; a < rank; a++) shape[a] = 1;
    return ir_op(b, OP_RESHAPE, type_tile(p->c->session, v->type->dtype, rank, shape), NO_ATTRS, v);
}

/* What does not vary, for all programs. */
static Value *spread(const Pack *p, Builder *b, Value *v)
{
    const Type *all = pack_type(p, v->type);
    int64_t shape[TILE_MAX_RANK];
    if (v->type->kind != TYPE_TILE) return ir_splat(b, v, all->rank, all->shape);
    if (v->def && v->def->op == OP_SPLAT) return ir_splat(b, ir_operand(v->def, 0), all->rank, all->shape);
    memcpy(shape, all->shape, sizeof *shape * (size_t)all->rank);
    shape[0] = 1;
    Value *one =
        ir_op(b, OP_RESHAPE, type_tile(p->c->session, v->type->dtype, all->rank, shape), NO_ATTRS, v);
    return ir_op(b, OP_BROADCAST, all, NO_ATTRS, one);
}

/* base + step * (0, 1, ...) */
static Value *of_form(const Pack *p, Builder *b, PackForm x)
{
    DType d = x.base->type->dtype;
    Value *l = ir_emit(b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)),
              type_tile(p->c->session, DT_INDEX, 1, &p->n)),
          *first = ir_splat(b, x.base, 1, &p->n);
    l = ir_cast(b, l, d);
    if (x.step != 1) l = ir_bin(b, OP_MUL, l, build_int(b, l->type, x.step));
    return ir_bin(b, OP_ADD, first, l);
}

Value *pack_value(Pack *p, Builder *b, Value *v)
{
    if (!pack_is_varying(p, v)) return spread(p, b, v);
    Value *tile = value_map_get(&p->map, v);
    if (tile != v) return tile;
    return of_form(p, b, pack_form(p, v));
}

Value *pack_condition(const Pack *p, Builder *b, Value *cond, const Type *t)
{
    int64_t shape[TILE_MAX_RANK];
    for (int a = 0; a < t->rank; a++) shape[a] = t->shape[a];
    if (t->rank == 1) return cond;
    return ir_op(b, OP_BROADCAST, type_tile(p->c->session, DT_BOOL, t->rank, shape), NO_ATTRS,
        column(p, b, cond, t->rank));
}

PackForm pack_form(const Pack *p, Value *v)
{ return pack_is_varying(p, v) ? p->forms[v->id] : (PackForm){ v, 0 }; }

Value *pack_permuted(Builder *b, Value *v, const int64_t *order)
{
    bool same = true;
    for (int a = 0; a < v->type->rank; a++) same &= order[a] == a;
    return same ? v : ir_op(b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, order, v->type->rank)), v);
}

/* --- scalars that grow by a constant from program to program ----------------------------------------- */

/* x / h and x % h: the quotient is the same for all programs if the base is a multiple of some g that divides
 * h, and the programs' parts stay below g. */
static bool same_quotient(const Pack *p, PackForm x, RangeInfo h)
{
    RangeInfo r = range_of(p->ranges, x.base);
    int64_t g = range_gcd(r.div, h.div),
            most = x.base->type->dtype == DT_INDEX ? INT64_MAX / 2 : INT32_MAX / 2;
    return h.lo > 0 && h.hi <= INT32_MAX && x.step > 0 && x.step <= INT32_MAX && r.lo >= 0 && r.hi <= most &&
           x.step * (p->n - 1) < g;
}

/* A cast to fewer bits wraps the base as it wraps the sum. A cast to more bits needs a sum that did not wrap,
 * which its range says. */
static bool cast_keeps(const Pack *p, const Instr *i)
{
    const Value *x = ir_operand(i, 0);
    DType from = x->type->dtype, to = ir_result(i)->type->dtype;
    if (!dtype_is_int(from)) return false;
    if (dtype_bits(to) <= dtype_bits(from)) return true;
    RangeInfo r = range_of(p->ranges, x), all = range_of_dtype(from);
    return r.lo > all.lo || r.hi < all.hi;
}

/* The step of a sum, difference, product with a constant, quotient or remainder by a constant. */
static bool step_of(const Pack *p, const Instr *i, const PackForm *x, int64_t *step)
{
    int64_t k;
    if (i->op == OP_ADD) *step = x[0].step + x[1].step;
    else if (i->op == OP_SUB) *step = x[0].step - x[1].step;
    else if (i->op == OP_MUL) {
        int a = x[0].step == 0;
        if (x[1 - a].step || !ir_is_const(x[1 - a].base, &k) || k > INT32_MAX || k < INT32_MIN) return false;
        *step = x[a].step * k;
    } else if (i->op == OP_DIV || i->op == OP_REM) {
        if (x[1].step || !same_quotient(p, x[0], range_of(p->ranges, x[1].base))) return false;
        *step = i->op == OP_REM ? x[0].step : 0;
    } else return false;
    return true;
}

static bool form_of(const Pack *p, Builder *b, const Instr *i, PackForm *out)
{
    PackForm x[2] = { 0 };
    const Type *t = ir_result(i)->type;
    int64_t step;
    if (i->n_operands < 1 || i->n_operands > 2 || t->kind != TYPE_SCALAR || !dtype_is_int(t->dtype) ||
        dtype_bits(t->dtype) < 32)
        return false;
    for (int a = 0; a < i->n_operands; a++) {
        x[a] = pack_form(p, ir_operand(i, a));
        if (!x[a].base || x[a].step > INT32_MAX || x[a].step < INT32_MIN) return false;
    }
    if (i->op == OP_CAST && cast_keeps(p, i)) *out = (PackForm){ ir_cast(b, x[0].base, t->dtype), x[0].step };
    else if (i->n_operands == 2 && step_of(p, i, x, &step))
        *out = (PackForm){ ir_bin(b, i->op, x[0].base, x[1].base), step };
    else return false;
    return true;
}

/* --- operations on tiles ----------------------------------------------------------------------------- */

/* The attributes of an operation on tiles with one more axis in front. */
static int attributes(const Instr *i, Attr *attrs, int64_t *order)
{
    for (int k = 0; k < i->n_attrs; k++) {
        attrs[k] = i->attrs[k];
        if (attrs[k].key == ATTR_AXIS) attrs[k].i++;
        if (attrs[k].key != ATTR_ORDER) continue;
        order[0] = 0;
        for (int a = 0; a < attrs[k].n; a++) order[a + 1] = attrs[k].v[a] + 1;
        attrs[k] = a_ints(ATTR_ORDER, order, attrs[k].n + 1);
    }
    return i->n_attrs;
}

static void rewrite_tile(Pack *p, Builder *b, Instr *i)
{
    Attr attrs[ATTR_N_KEYS];
    int64_t order[TILE_MAX_RANK];
    const Type *types[IR_MAX_COMBINED] = { 0 };
    Value **ops = arena_array(p->c->scratch, Value *, (size_t)i->n_operands);
    int n = attributes(i, attrs, order);
    for (int k = 0; k < i->n_operands; k++) ops[k] = pack_value(p, b, ir_operand(i, k));
    for (int k = 0; k < i->n_results; k++) types[k] = pack_type(p, i->results[k].type);
    Instr *made = ir_build(b, i->op, ops, i->n_operands, (Attrs){ attrs, n }, types, i->n_results);
    if (i->n_blocks) { /* combines elements, as before */
        ValueMap map;
        value_map_init(&map, p->c->scratch);
        for (int k = 0; k < i->blocks[0]->n_args; k++)
            value_map_set(&map, i->blocks[0]->args[k], made->blocks[0]->args[k]);
        Builder in = ir_at_end(made->blocks[0]);
        ir_clone_block_into(&in, i->blocks[0], &map, true);
    }
    for (int k = 0; k < i->n_results; k++) pack_set(p, &i->results[k], &made->results[k]);
}

static void rewrite_value(Pack *p, Builder *b, Instr *i)
{
    PackForm x;
    Value *r = i->n_results ? ir_result(i) : NULL;
    if (r && form_of(p, b, i, &x)) p->forms[r->id] = x;
    else if (i->op == OP_BROADCAST)
        pack_set(p, r,
            ir_op(b, OP_BROADCAST, pack_type(p, r->type), NO_ATTRS, pack_value(p, b, ir_operand(i, 0))));
    else if (i->op == OP_SPLAT)
        pack_set(p, r,
            ir_op(b, OP_BROADCAST, pack_type(p, r->type), NO_ATTRS,
                column(p, b, pack_value(p, b, ir_operand(i, 0)), r->type->rank + 1)));
    else rewrite_tile(p, b, i);
}

/* --- control flow ------------------------------------------------------------------------------------ */

static void rewrite_block(Pack *p, Block *blk);

static void move_block(Block *from, Block *to)
{
    Builder b = ir_at_end(to);
    for (Instr *i = from->first, *next; i; i = next) {
        next = i->next;
        ir_unlink(i);
        ir_place(&b, i);
    }
}

/* What a block hands on, in the types of what takes it. */
static void rewrite_yield(Pack *p, Block *blk, const Value *results)
{
    Instr *y = ir_terminator(blk);
    Builder b = ir_before(y);
    for (int k = 0; k < y->n_operands; k++)
        if (pack_is_varying(p, &results[k])) ir_set_operand(y, k, pack_value(p, &b, ir_operand(y, k)));
}

static void take_over(Pack *p, Value *old, Value *now)
{
    if (pack_is_varying(p, old)) pack_set(p, old, now);
    else {
        ir_set_name(now, old->name);
        ir_replace(old, now);
    }
}

/* A program that has run all of its steps keeps what it carries. */
static void keep_behind(Pack *p, const Instr *made)
{
    Block *body = made->blocks[0];
    Instr *y = ir_terminator(body);
    Builder b = ir_before(y);
    for (int k = 0; k < y->n_operands; k++) {
        const Type *t = made->results[k].type;
        if (t->kind == TYPE_TILE)
            ir_set_operand(y, k,
                ir_op(&b, OP_WHERE, NULL, NO_ATTRS, pack_condition(p, &b, p->runs, t), ir_operand(y, k),
                    body->args[k + 1]));
    }
}

/* Which programs run a step of a loop; `ends`: where their steps end, and the first of them is the same. */
static Value *running(const Pack *p, Instr *made, Value *ends)
{
    Builder b = ir_at_end(made->blocks[0]);
    Value *now = ir_op(&b, OP_LT, NULL, NO_ATTRS, ir_splat(&b, made->blocks[0]->args[0], 1, &p->n), ends);
    return p->runs ? ir_bin(&b, OP_AND, now, p->runs) : now;
}

static void rewrite_for(Pack *p, Builder *b, Instr *i)
{
    Value **ops = arena_array(p->c->scratch, Value *, (size_t)i->n_operands);
    for (int k = 0; k < i->n_operands; k++)
        ops[k] = k >= 3 && pack_is_varying(p, &i->results[k - 3]) ? pack_value(p, b, ir_operand(i, k))
                                                                  : ir_operand(i, k);
    Value *ends = pack_loop_differs(p, i) ? pack_value(p, b, ops[1]) : NULL;
    if (ends) ops[1] = ir_op(b, OP_REDUCE_MAX, NULL, ATTRS(a_int(ATTR_AXIS, 0), a_int(ATTR_DROP, 1)), ends);
    Instr *made = ir_build(b, OP_FOR, ops, i->n_operands, (Attrs){ i->attrs, i->n_attrs }, NULL, 0);
    for (int k = 0; k < i->blocks[0]->n_args; k++)
        take_over(p, i->blocks[0]->args[k], made->blocks[0]->args[k]);
    Value *outer = p->runs;
    if (ends) p->runs = running(p, made, ends);
    move_block(i->blocks[0], made->blocks[0]);
    rewrite_block(p, made->blocks[0]);
    rewrite_yield(p, made->blocks[0], i->results);
    if (ends) keep_behind(p, made);
    p->runs = outer;
    for (int k = 0; k < i->n_results; k++) take_over(p, &i->results[k], &made->results[k]);
    vec_push(p->c->scratch, &p->dead, i);
}

static void rewrite_if(Pack *p, Builder *b, Instr *i)
{
    const Type *types[IR_MAX_RESULTS];
    for (int k = 0; k < i->n_results; k++)
        types[k] = pack_is_varying(p, &i->results[k]) ? pack_type(p, i->results[k].type) : i->results[k].type;
    Value *cond = ir_operand(i, 0);
    Instr *made = ir_build(b, OP_IF, &cond, 1, (Attrs){ i->attrs, i->n_attrs }, types, i->n_results);
    for (int k = 0; k < 2; k++) {
        move_block(i->blocks[k], made->blocks[k]);
        rewrite_block(p, made->blocks[k]);
        rewrite_yield(p, made->blocks[k], i->results);
    }
    for (int k = 0; k < i->n_results; k++) take_over(p, &i->results[k], &made->results[k]);
    vec_push(p->c->scratch, &p->dead, i);
}

/* Both blocks run, and each program takes the results of its own. */
static void rewrite_choice(Pack *p, Builder *b, Instr *i)
{
    for (int k = 0; k < 2; k++) {
        rewrite_block(p, i->blocks[k]);
        splice_before(i, i->blocks[k]);
    }
    for (int k = 0; k < i->n_results; k++) {
        Value *cond =
            pack_condition(p, b, pack_value(p, b, ir_operand(i, 0)), pack_type(p, i->results[k].type));
        Value *x[2];
        for (int n = 0; n < 2; n++) x[n] = pack_value(p, b, ir_operand(ir_terminator(i->blocks[n]), k));
        pack_set(p, &i->results[k], ir_op(b, OP_WHERE, NULL, NO_ATTRS, cond, x[0], x[1]));
    }
    vec_push(p->c->scratch, &p->dead, i);
}

static bool any_varying(const Pack *p, const Value *v, int n)
{
    bool any = false;
    for (int k = 0; k < n; k++) any |= pack_is_varying(p, &v[k]);
    return any;
}

static void rewrite_control(Pack *p, Builder *b, Instr *i)
{
    if (i->op == OP_IF && pack_is_varying(p, ir_operand(i, 0))) rewrite_choice(p, b, i);
    else if (!any_varying(p, i->results, i->n_results))
        for (int k = 0; k < i->n_blocks; k++) rewrite_block(p, i->blocks[k]);
    else if (i->op == OP_FOR) rewrite_for(p, b, i);
    else rewrite_if(p, b, i);
}

static void rewrite_instr(Pack *p, Instr *i)
{
    Builder b = ir_before(i);
    bool any = any_varying(p, i->results, i->n_results);
    for (int k = 0; k < i->n_operands; k++) any |= pack_is_varying(p, ir_operand(i, k));
    b.loc = i->loc;
    if (i == p->base->def || i == p->guard) return;
    if (op_family(i->op) == OPS_CONTROL) rewrite_control(p, &b, i);
    else if (op_family(i->op) == OPS_MEMORY) {
        if (any || ir_adds(i)) pack_access(p, &b, i);
    } else if (i->op == OP_PROGRAM_ID) {
        if (any) p->forms[ir_result(i)->id] = (PackForm){ p->base, 1 };
    } else if (any) {
        rewrite_value(p, &b, i);
        vec_push(p->c->scratch, &p->dead, i);
    }
}

static void rewrite_block(Pack *p, Block *blk)
{
    for (Instr *i = blk->first, *next; i; i = next) {
        next = i->next;
        if (!(op_info[i->op].flags & OPF_TERM)) rewrite_instr(p, i);
    }
}

void pack_rewrite(Pack *p)
{
    rewrite_block(p, p->f->body);
    while (p->dead.len) ir_erase(p->dead.data[--p->dead.len]);
}
