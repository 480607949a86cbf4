/* emit_ops: every element-wise operation of ops.def is emitted for every target, in every type that it takes
 * of f32, f64, i32, u64 and bool; in f32 and f64 where it takes floats at all.
 *
 *     emit_ops                                                              exit status 0, or 1 */
#include "one_kernel.h"
#include <string.h>

static const DType types[] = { DT_F32, DT_F64, DT_I32, DT_U64, DT_BOOL };
enum { TYPES = sizeof types / sizeof *types, TILE = 256 };

/* A kernel that stores the result of the operation on tiles of `d`, of which the first is of `first`; `to`:
 * the result's type where the operation does not say it. NULL: its rule does not allow that. */
static Func *build(Session *s, Op op, DType first, DType d, DType to)
{
    Func *f = ir_func_new(ir_module_new(s), "apply", true);
    int dim = ir_dim_new(f, "N", -1), n = op_info[op].n_operands, n_results = 1;
    int64_t shape[1] = { TILE };
    Value *x[4];
    const Type *given = type_tile(s, to, 1, shape), *results[1] = { NULL };
    bool says = op != OP_CAST && op != OP_BITCAST && op != OP_LOOKUP;
    const int64_t table[2] = { 3, 5 };
    Attrs attrs = op == OP_LOOKUP ? ATTRS(a_ints(ATTR_TABLE, table, 2)) : NO_ATTRS;
    Builder b = ir_at_end(f->body);
    for (int k = 0; k < n; k++) x[k] = kernel_load(&b, f, k ? d : first, k, 1, shape, &dim);
    if (!says) results[0] = given;
    if (ir_infer(s, op, x, n, attrs, results, &n_results)) return NULL;
    Value *r = ir_emit(&b, op, x, n, attrs, says ? NULL : given);
    kernel_end(&b, f, r, &dim);
    return f;
}

typedef enum Outcome { REFUSED, EMITTED, FAILED } Outcome;

static Outcome emit(Op op, const char *target, DType first, DType d, DType to)
{
    Session s;
    GpuCode code;
    volatile Outcome out = FAILED;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Func *f = build(&s, op, first, d, to);
        if (!f) out = REFUSED;
        else if (ir_verify(f->module) && gpu_compile(&s, f, target_find(target), NULL, &code, NULL) &&
                 !s.n_errors && code.text_len)
            out = EMITTED;
    }
    if (out == FAILED)
        kernel_failed(&s,
            arena_printf(&s.arena, "%s %s %s %s", target, op_info[op].name, dtype_name(first), dtype_name(d)),
            "");
    session_free(&s);
    return out;
}

/* All types for one target; how many fail. */
static int check(Op op, const char *target, int *emitted)
{
    int failed = 0, n = 0;
    bool floats[2] = { false };
    for (int k = 0; k < TYPES; k++)
        for (int kind = 0; kind < 2; kind++) { /* the first operand is like the others, or a condition */
            DType d = types[k], first = kind ? DT_BOOL : d;
            DType to = op == OP_BITCAST && d == DT_F32   ? DT_I32
                       : op == OP_BITCAST && d == DT_F64 ? DT_U64
                                                         : DT_F64;
            Outcome o = kind && (d == DT_BOOL || op_info[op].n_operands == 1)
                            ? REFUSED
                            : emit(op, target, first, d, to);
            failed += o == FAILED;
            n += o == EMITTED;
            if (k < 2) floats[k] |= o != REFUSED;
        }
    if (!n && !failed) printf("FAIL %s %s: no types are known that it takes\n", target, op_info[op].name);
    if (floats[0] != floats[1]) printf("FAIL %s takes one of f32 and f64 alone\n", op_info[op].name);
    *emitted += n;
    return failed + (!n && !failed) + (floats[0] != floats[1]);
}

int main(void)
{
    int failed = 0, emitted = 0;
    for (Op op = 0; op < OP_COUNT; op++) {
        size_t n = 0;
        for (const Target *t; op_is_elementwise(op) && (t = target_at(n)); n++)
            if (t->kind != TARGET_CPU) failed += check(op, t->name, &emitted);
    }
    printf("%d emissions of element-wise operations, %d failed\n", emitted, failed);
    return failed > 0;
}
