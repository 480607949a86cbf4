/* transpose-products: a product whose right operand is computed becomes the product of the transposes, in
 * which that operand is the left one. On Hopper the matrix unit takes its left operand from registers, where
 * it is computed, and its right one from shared memory only.
 *
 *   %w  = cast %q : f16[64, 128]  (of a load)           %wt = cast (permute %q) : f16[128, 64]
 *   %s1 = mma %a, %w, %s : f32[256, 128]         ->     %s1 = mma %wt, (permute %a), %s : f32[128, 256]
 *   store %C[..] (cast %s1)                             store %C[..] (permute (cast %s1))
 *
 * All that a sum goes through is transposed with it: the values that loops carry, other products that add to
 * it, element-wise operations on it, and their other operands. Stores take the permuted result. load-order
 * behind this pass turns the permutations of loads into orders of the loads. Operands may be reshaped,
 * repeated, joined and cut between load and product, as unpacking of 4-bit weights does. In each tile of such
 * a chain, the pass moves the axes that become the rows of the operand behind the others:
 *
 *   %c = reshape %l : [8, 1, 128]                          %c = reshape (permute %l) : [128, 8, 1]
 *   %r = broadcast %c : [8, 8, 128]              ->        %r = broadcast %c : [128, 8, 8]
 *   %w = reshape %r : [64, 128]                            %w = reshape %r : [128, 64]
 *
 * Requires: a target with wgmma. Keeps: everything, because each element is computed from the same values by
 * the same operations. Does not handle: sums that reductions, ifs, while loops or other products use;
 * gathered operands; operands that are the transpose of such a sum; reshapes in which the rows of the operand
 * end within an axis; tiles that something outside the chain also uses, because they would then be loaded in
 * both forms. */
#include "ir/target/matrix.h"
#include "passes/pass.h"

enum { MAX_DEPTH = 32 };

typedef enum Part {
    OUTSIDE,
    SUM,    /* of the group: gets the transposed type */
    OPERAND /* computed for the group alone, transposed when it is asked for */
} Part;

/* A product, and all that has to be transposed with it. */
typedef struct Group {
    PassContext *c;
    uint32_t ids;  /* of the values before the change */
    uint8_t *part; /* by value id */
    uint8_t
        *split; /* by value id, of tiles of three axes and more: how many axes make the rows; 0: unknown */
    ValueList sums;     /* the values of part SUM, which are visited in this order */
    ValueList operands; /* of part OPERAND */
    InstrList ends;     /* stores and permutations of sums */
    bool fails;
    int gains; /* products whose right operand is computed, and the left one is not */
} Group;

static bool is_matrix(const Value *v) { return v->type->kind == TYPE_TILE && v->type->rank == 2; }

static void take(Group *g, Value *v)
{
    if (g->part[v->id] == SUM) return;
    g->fails |= !is_matrix(v) || g->part[v->id] == OPERAND;
    if (g->fails) return;
    g->part[v->id] = SUM;
    vec_push(g->c->scratch, &g->sums, v);
}

/* --- operands: tiles of several axes, the leading `split` of which make the rows of a matrix ----------- */

static int64_t rows_of(const Type *t, int split)
{
    int64_t n = 1;
    for (int a = 0; a < split; a++) n *= t->shape[a];
    return n;
}

/* The number of leading axes of the reshape's operand that have as many elements as the leading `split` axes
 * of its result; -1: these end within an axis of the operand. */
static int split_before(const Instr *reshape, int split)
{
    const Type *from = ir_operand(reshape, 0)->type;
    int64_t rows = rows_of(ir_result(reshape)->type, split);
    if (from->kind != TYPE_TILE) return -1;
    for (int n = from->rank; n > 0; n--)
        if (rows_of(from, n) == rows) return n;
    return -1;
}

static bool swaps_axes(const Instr *i)
{ return i->op == OP_PERMUTE && ir_result(i)->type->rank == 2 && ir_attr(i, ATTR_ORDER)->v[0] == 1; }

/* Whether the operation commutes with a transposition: it makes the transposed result from transposed
 * operands. */
static bool moves_along(const Instr *i)
{
    return op_is_elementwise(i->op) || i->op == OP_RESHAPE || i->op == OP_CONCAT || i->op == OP_SLICE ||
           (i->op == OP_BROADCAST && ir_result(i)->type->rank > 2);
}

static bool can_transpose(Group *g, Value *v, int split, int depth);

static bool can_transpose_def(Group *g, Instr *i, int split, int depth)
{
    if (i->op == OP_LOAD || swaps_axes(i)) return true;
    if (!moves_along(i)) return false;
    if (i->op == OP_RESHAPE) split = split_before(i, split);
    for (int k = 0; k < i->n_operands; k++)
        if (!can_transpose(g, ir_operand(i, k), split, depth + 1)) return false;
    return true;
}

/* Whether the transpose of the value can be computed in place of the value. Marks all values that would be
 * transposed for it. */
static bool can_transpose(Group *g, Value *v, int split, int depth)
{
    const Type *t = v->type;
    if (t->kind != TYPE_TILE || split < 0 || g->part[v->id] == SUM || depth > MAX_DEPTH) return false;
    if (split == 0 || split == t->rank) return true;
    if (t->rank > 2 && g->split[v->id] && g->split[v->id] != split) return false;
    g->split[v->id] = (uint8_t)split;
    int64_t rows = rows_of(t, split);
    if (g->part[v->id] == OPERAND || rows == 1 || rows == type_elements(t)) return true;
    if (!v->def) return false;
    if (v->def->op == OP_SPLAT || (v->def->op == OP_BROADCAST && t->rank == 2)) return true;
    if (!can_transpose_def(g, v->def, split, depth)) return false;
    g->part[v->id] = OPERAND;
    vec_push(g->c->scratch, &g->operands, v);
    return true;
}

/* Takes an operand of a transposed operation into the group: as an operand that can be computed transposed,
 * or else as a sum. */
static void take_operand(Group *g, Value *v)
{
    if (!is_matrix(v) || !can_transpose(g, v, 1, 0)) take(g, v);
}

/* Takes the k-th value that a loop carries: its initial value, the argument, the yielded value, the result.
 */
static void take_carried(Group *g, Instr *loop, int k)
{
    take_operand(g, ir_operand(loop, 3 + k));
    take(g, loop->blocks[0]->args[1 + k]);
    take(g, ir_operand(ir_terminator(loop->blocks[0]), k));
    take(g, &loop->results[k]);
}

/* Whether the value is loaded, not computed. Permutations and reshapes of a load count as loaded. */
static bool is_loaded(const Value *v)
{
    while (v->def && (v->def->op == OP_PERMUTE || v->def->op == OP_RESHAPE)) v = ir_operand(v->def, 0);
    return v->def && v->def->op == OP_LOAD;
}

enum { BYTES_OF_K = 32 }; /* that one wgmma multiplies, whatever the type (PTX ISA 9.7.15.2) */

/* Whether wgmma computes the transpose of the product. Operands of 16 bits may lie along either axis, others
 * along K alone. */
static bool has_instruction(const Value *a, const Value *b, const Type *result, bool tf32)
{
    DType d = a->type->dtype;
    int rows = layout_mma_info(LAYOUT_WGMMA_K16)->m;
    if (result->shape[1] % rows || !wgmma_has(b->type->dtype, d, result->shape[0])) return false;
    if (a->type->shape[1] * dtype_bytes(d) % BYTES_OF_K || (d == DT_F32 && !tf32)) return false;
    return dtype_bytes(d) == 2 || (a->def && a->def->op == OP_LOAD && !ir_attr(a->def, ATTR_ORDER));
}

static void visit_product(Group *g, Instr *product)
{
    Value *a = ir_operand(product, 0), *b = ir_operand(product, 1);
    bool left = !is_loaded(a), right = !is_loaded(b);
    bool tf32 = ir_attr_int(product, ATTR_PRECISION, 0) == PRECISION_TF32;
    g->fails |= (left && !right) || ir_attr(product, ATTR_PARTS) ||
                !has_instruction(a, b, ir_result(product)->type, tf32) || !can_transpose(g, a, 1, 0) ||
                !can_transpose(g, b, 1, 0);
    g->gains += right && !left;
    take_operand(g, ir_operand(product, 2));
}

static void visit_def(Group *g, Value *v)
{
    Instr *i = v->def, *loop = i ? i : v->block->parent;
    if (i && i->op == OP_MMA) visit_product(g, i);
    else if (loop && loop->op == OP_FOR && (i || v->index > 0))
        take_carried(g, loop, i ? v->index : v->index - 1);
    else if (i && op_is_elementwise(i->op))
        for (int k = 0; k < i->n_operands; k++) take_operand(g, ir_operand(i, k));
    else g->fails = true;
}

static void visit_use(Group *g, const Use *u)
{
    Instr *i = u->user;
    int k = (int)(u - i->operands);
    MemParts m;
    if (i->op == OP_MMA && k == 2) take(g, ir_result(i));
    else if (op_is_elementwise(i->op)) take(g, ir_result(i));
    else if (i->op == OP_FOR && k >= 3) take_carried(g, i, k - 3);
    else if (i->op == OP_YIELD && i->block->parent->op == OP_FOR) take_carried(g, i->block->parent, k);
    else if ((i->op == OP_PERMUTE && ir_attr(i, ATTR_ORDER)->v[0] == 1) ||
             (i->op == OP_STORE && ir_mem_parts(i, &m) && m.values[0] == u->value))
        vec_push(g->c->scratch, &g->ends, i);
    else g->fails = true;
}

/* Takes all products that read the operand directly: if one stayed outside the group, the operand would be
 * held in both forms. */
static void visit_operand(Group *g, const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->op == OP_MMA && u != &u->user->operands[2]) take(g, ir_result(u->user));
}

/* Whether the user of an operand is transposed too. */
static bool is_of_group(const Group *g, const Use *u)
{
    const Instr *i = u->user;
    if (i->op == OP_FOR) return g->part[i->results[u - i->operands - 3].id] == SUM;
    return (moves_along(i) || swaps_axes(i) || i->op == OP_MMA) && g->part[ir_result(i)->id] != OUTSIDE;
}

/* Whether nothing but the group uses its operands, and none is the transpose of one of its sums: the product
 * would need that sum as it was, which is in no registers any more. */
static bool owns_operands(const Group *g)
{
    for (size_t n = 0; n < g->operands.len; n++) {
        const Value *v = g->operands.data[n];
        if (swaps_axes(v->def) && g->part[ir_operand(v->def, 0)->id] == SUM) return false;
        for (const Use *u = v->uses; u; u = u->next)
            if (!is_of_group(g, u)) return false;
    }
    return true;
}

static bool find_group(Group *g, Instr *product)
{
    size_t operands = 0;
    take(g, ir_result(product));
    for (size_t n = 0; n < g->sums.len && !g->fails; n++) {
        Value *v = g->sums.data[n];
        visit_def(g, v);
        for (const Use *u = v->uses; u; u = u->next) visit_use(g, u);
        while (operands < g->operands.len) visit_operand(g, g->operands.data[operands++]);
    }
    return !g->fails && g->gains && owns_operands(g);
}

/* --- change ------------------------------------------------------------------------------------------ */

/* The type of the transpose: the axes behind the split come first. */
static const Type *transposed_type(const Group *g, const Type *t, int split)
{
    int64_t shape[TILE_MAX_RANK];
    for (int a = 0; a < t->rank; a++) shape[a] = t->shape[(a + split) % t->rank];
    return type_tile(g->c->session, t->dtype, t->rank, shape);
}

static Value *permuted(Builder *b, Value *v, int split)
{
    int64_t order[TILE_MAX_RANK];
    int n = v->type->rank;
    for (int a = 0; a < n; a++) order[a] = (a + split) % n;
    return ir_op(b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, order, n)), v);
}

static Value *transposed(Group *g, ValueMap *made, Value *v, int split);

/* The same operation on transposed operands. */
static Value *moved_along(Group *g, ValueMap *made, Instr *i, int split)
{
    const Type *t = ir_result(i)->type;
    Value **ops = arena_array(g->c->scratch, Value *, (size_t)i->n_operands + 1);
    Attr attrs[ATTR_N_KEYS];
    int from = i->op == OP_RESHAPE ? split_before(i, split) : split;
    Builder b = ir_after(i);
    for (int k = 0; k < i->n_operands; k++) ops[k] = transposed(g, made, ir_operand(i, k), from);
    for (int k = 0; k < i->n_attrs; k++) {
        attrs[k] = i->attrs[k];
        if (attrs[k].key == ATTR_AXIS) attrs[k].i = (attrs[k].i + t->rank - split) % t->rank;
    }
    return ir_emit(&b, i->op, ops, i->n_operands, (Attrs){ attrs, i->n_attrs }, transposed_type(g, t, split));
}

/* Computes the transpose of a value that is not a sum of the group, directly behind the value. */
static Value *transposed_operand(Group *g, ValueMap *made, Value *v, int split)
{
    Instr *i = v->def;
    Builder b = i ? ir_after(i) : ir_before(v->block->first);
    const Type *type = transposed_type(g, v->type, split);
    if (i && i->op == OP_SPLAT) return ir_splat(&b, ir_operand(i, 0), type->rank, type->shape);
    if (i && i->op == OP_BROADCAST && type->rank == 2)
        return ir_op(&b, OP_BROADCAST, type, NO_ATTRS, transposed(g, made, ir_operand(i, 0), split));
    if (i && swaps_axes(i)) return ir_operand(i, 0);
    if (g->part[v->id] != OPERAND || !moves_along(i)) return permuted(&b, v, split);
    return moved_along(g, made, i, split);
}

static Value *transposed(Group *g, ValueMap *made, Value *v, int split)
{
    if (split == 0 || split == v->type->rank || (v->id < g->ids && g->part[v->id] == SUM)) return v;
    Value *t = value_map_get(made, v);
    if (t != v) return t;
    t = transposed_operand(g, made, v, split);
    if (!t->name) ir_set_name(t, v->name);
    value_map_set(made, v, t);
    return t;
}

static void transpose_sum(Group *g, ValueMap *made, Value *v)
{
    Instr *i = v->def;
    if (!i) return;
    if (i->op == OP_FOR) {
        ir_set_operand(i, 3 + v->index, transposed(g, made, ir_operand(i, 3 + v->index), 1));
        return;
    }
    Value *ops[3];
    for (int k = 0; k < i->n_operands; k++)
        ops[k] = transposed(g, made, ir_operand(i, i->op == OP_MMA && k < 2 ? 1 - k : k), 1);
    for (int k = 0; k < i->n_operands; k++) ir_set_operand(i, k, ops[k]);
}

/* Adapts a user outside the group to a sum that is now transposed. */
static void end_sum(Instr *i)
{
    if (i->op == OP_PERMUTE) {
        replace_value(ir_result(i), ir_operand(i, 0));
        return;
    }
    Builder b = ir_before(i);
    MemParts m;
    ir_mem_parts(i, &m);
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k) == m.values[0]) ir_set_operand(i, k, permuted(&b, m.values[0], 1));
}

static void transpose_group(Group *g)
{
    ValueMap made;
    value_map_init(&made, g->c->scratch);
    for (size_t n = 0; n < g->sums.len; n++) transpose_sum(g, &made, g->sums.data[n]);
    for (size_t n = 0; n < g->sums.len; n++)
        g->sums.data[n]->type = transposed_type(g, g->sums.data[n]->type, 1);
    for (size_t n = 0; n < g->ends.len; n++) end_sum(g->ends.data[n]);
}

/* Whether the product still stands in the function: what nobody uses is erased with a group before it. */
static bool stands(const Func *f, const Instr *i)
{
    const Block *b = i->block;
    while (b && b != f->body) b = b->parent ? b->parent->block : NULL;
    return b;
}

static bool transpose_products_func(PassContext *c, Func *f)
{
    const Target *t = c->options->target;
    InstrList products = { 0 };
    int64_t changed = 0;
    if (!t || !target_has(t, TF_WGMMA) || f->hints.schedule) return false;
    ir_collect(c->scratch, f->body, OP_MMA, &products);
    for (size_t n = 0; n < products.len; n++) {
        Group g = { .c = c, .ids = f->module->next_id };
        g.part = arena_array(c->scratch, uint8_t, g.ids);
        g.split = arena_array(c->scratch, uint8_t, g.ids);
        if (!stands(f, products.data[n]) || !find_group(&g, products.data[n])) continue;
        transpose_group(&g);
        /* What is not needed any more must not count as a use of a load. */
        for (Block *b = products.data[n]->block; b; b = b->parent ? b->parent->block : NULL) ir_sweep(b);
        changed += g.gains;
    }
    pass_count(c, "products transposed", changed);
    return changed > 0;
}

bool pass_transpose_products(PassContext *c, Module *m)
{ return pass_each_func(c, m, transpose_products_func); }
