/* typerule.h: what the files of type rules share (typerule*.c). A rule is named by its entry in the `type
 * rule` column of ops.def: typerule.c has the rules of element-wise operations and of control flow,
 * typerule_shape.c those of tiles' shapes, reductions and products, typerule_memory.c those of tensors,
 * typerule_kernel.c those of kernel IR. */
#pragma once
#include "ir/ir.h"

typedef struct Rule {
    Session *s;
    Op op;
    Value *const *v;
    int n;
    Attrs attrs;
    const Type **results;
    int *n_results;
    /* The instruction, when an existing one is checked, so that its blocks count too; otherwise NULL. */
    const Instr *instr;
} Rule;

#define WHY(...) return arena_printf(&r->s->arena, __VA_ARGS__)
#define TRY(x) \
    do { \
        const char *why_ = (x); \
        if (why_) return why_; \
    } while (0)
#define STR(t) type_string(r->s, (t))

const Attr *rule_attr(const Rule *, AttrKey);
int64_t rule_attr_int(const Rule *, AttrKey, int64_t otherwise);
static inline const Type *T(const Rule *r, int k) { return r->v[k]->type; }
static inline bool rule_is_offset(const Type *t) { return t->kind == TYPE_SCALAR && dtype_is_int(t->dtype); }

/* Kernel IR layouts ride on types; shape and dtype rules look at the bare type. */
static inline bool rule_equal_bare(const Type *a, const Type *b)
{ return a->kind == b->kind && a->dtype == b->dtype && type_same_shape(a, b) && a->rank == b->rank; }

/* The steps of rules. Each returns NULL, or why the instruction is malformed. */
const char *rule_give(Rule *, int k, const Type *); /* result k is of this type */
const char *rule_declared(Rule *);                  /* the type of the first result was given */
const char *rule_tile_declared(Rule *);
const char *rule_same_types(Rule *, int from); /* of the operands from this one on */
const char *rule_values_only(Rule *);
const char *rule_check_order(Rule *, const Attr *order, int rank);
const char *rule_need_axis(Rule *, int64_t *axis); /* ATTR_AXIS, which must be an axis of operand 0 */
const char *rule_yields(Rule *, const Block *, int n, const Type *const *types);
const char *rule_args_are(Rule *, const Block *, int n, const Type *const *types);

/* One rule may stand in many rows, so that this declares it as often. */
#define OP(ID, name, family, operands, results, blocks, rule, ...) const char *rule_##rule(Rule *r);
#include "ir/ops.def"
