/* one_kernel.h: kernels of one operation, built without a source text, for emit_ops.c and emit_products.c:
 * loads of whole tiles at the origin, the operation, a store of its result, one program. */
#pragma once
#include "backends/gpu/gpu.h"
#include "ir/ir.h"
#include <stdio.h>

/* A tile of `extents` from the origin of a new parameter X<k>, whose axes have the dimensions `dims`. */
static inline Value *kernel_load(
    Builder *b, Func *f, DType d, int k, int rank, const int64_t *extents, int *dims)
{
    Session *s = b->module->session;
    Value *ops[1 + TILE_MAX_RANK] = { ir_param_new(
        f, arena_printf(&s->arena, "X%d", k), PARAM_IN, type_tensor(s, d, rank), dims) };
    for (int a = 0; a < rank; a++) ops[1 + a] = ir_index(b, 0);
    return ir_emit(b, OP_LOAD, ops, 1 + rank, ATTRS(a_ints(ATTR_EXTENTS, extents, rank)), NULL);
}

/* Ends the kernel: stores `tile` to the origin of a new parameter Y, returns, and makes a grid of one. */
static inline void kernel_end(Builder *b, Func *f, Value *tile, int *dims)
{
    Session *s = b->module->session;
    const Type *t = tile->type;
    int64_t extents[TILE_MAX_RANK];
    int n = f->n_params;
    Value *ops[3 + TILE_MAX_RANK] = { ir_param_new(
        f, "Y", PARAM_OUT, type_tensor(s, t->dtype, t->rank), dims) };
    for (int a = 0; a < t->rank; a++) {
        extents[a] = t->shape[a];
        ops[1 + a] = ir_index(b, 0);
    }
    ops[1 + t->rank] = tile;
    ops[2 + t->rank] = ir_emit(b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, n)), NULL);
    ir_emit(b, OP_STORE, ops, 3 + t->rank, ATTRS(a_ints(ATTR_EXTENTS, extents, t->rank)), NULL);
    ir_build(b, OP_RETURN, NULL, 0, NO_ATTRS, NULL, 0);
    f->grid = ir_block_new(f, NULL);
    for (int k = 0; k < f->n_params; k++) ir_block_arg(f->grid, f->params[k].type, f->params[k].name);
    Builder g = ir_at_end(f->grid);
    Value *one = ir_index(&g, 1);
    ir_build(&g, OP_YIELD, &one, 1, NO_ATTRS, NULL, 0);
}

/* Prints `FAIL <what>: ` and the session's diagnostics; `otherwise` where there are none. */
static inline void kernel_failed(Session *s, const char *what, const char *otherwise)
{
    Text t;
    text_init(&t, &s->arena);
    diag_render_all(s, &t);
    printf("FAIL %s: %s\n", what, t.data ? t.data : otherwise);
}
