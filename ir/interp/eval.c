/* eval.c: see eval.h. Values live in numbered registers; structured control flow becomes jumps. */
#include "ir/interp/eval.h"

/* What an instruction does. */
typedef enum EvalKind {
    EV_OP, /* an operation of the IR */
    EV_MOVE,
    EV_JUMP,
    EV_JUMP_IF_NOT,
    EV_LINEAR,
    EV_SCALAR,
    EV_LOOP,
    EV_CHECK_STEP,
    EV_KINDS
} EvalKind;
enum { MAX_REGS = 1024, MAX_CODE = 8192, MAX_ROUNDS = 1 << 20, MAX_RESULTS = EVAL_MAX_RESULTS };

/* It is stored as it is, so it has no padding. */
typedef struct EvalInstr {
    uint8_t kind, op; /* EvalKind, and the Op of an EV_OP: eval_kind and eval_op */
    uint16_t dst, a, b, c;
    uint8_t dtype, from; /* of the operands; cast: the result's, and the operand's */
    uint32_t target;     /* jumps */
    int64_t imm;         /* constant; dimension, parameter, axis */
    int64_t imm2;
} EvalInstr;

_Static_assert(OP_COUNT <= UINT8_MAX + 1, "an operation's number fits EvalInstr.op");

static inline EvalKind eval_kind(const EvalInstr *i) { return (EvalKind)i->kind; }
static inline Op eval_op(const EvalInstr *i) { return (Op)i->op; }

struct EvalCode {
    uint32_t magic, bytes;
    uint32_t n_code, n_regs, n_results;
    uint16_t results[MAX_RESULTS];
    EvalInstr code[];
};
enum { MAGIC = 0x65766133 };

/* --- compile ----------------------------------------------------------------------------------------- */

typedef struct Compiler {
    Arena *arena;
    const Func *func;
    const Block *root;
    VEC(EvalInstr) code;
    const Value *values[MAX_REGS]; /* of each register */
    int n_regs;
    const char *why;
    int depth;
} Compiler;

static void refuse(Compiler *c, const char *why)
{
    if (!c->why) c->why = why;
}

static size_t put(Compiler *c, EvalInstr i)
{
    if (c->code.len >= MAX_CODE) {
        refuse(c, "the block is too large");
        return 0;
    }
    vec_push(c->arena, &c->code, i);
    return c->code.len - 1;
}

static uint16_t fresh(Compiler *c, const Value *v)
{
    if (c->n_regs >= MAX_REGS) {
        refuse(c, "the block has too many values");
        return 0;
    }
    c->values[c->n_regs] = v;
    return (uint16_t)c->n_regs++;
}

static uint16_t reg_of(Compiler *c, const Value *v)
{
    for (int k = c->n_regs - 1; k >= 0; k--)
        if (c->values[k] == v) return (uint16_t)k;
    if (v->type->kind != TYPE_SCALAR) refuse(c, "the block computes more than scalars");
    return fresh(c, v);
}

static void move(Compiler *c, uint16_t to, uint16_t from)
{
    if (to != from) put(c, (EvalInstr){ .kind = EV_MOVE, .dst = to, .a = from });
}

/* to[k] = from[k] at once, through fresh registers when there are several. */
static void move_all(Compiler *c, Value *const *to, const Use *from, int n)
{
    uint16_t held[IR_MAX_RESULTS];
    if (n > IR_MAX_RESULTS) {
        refuse(c, "a loop carries too many values");
        return;
    }
    for (int k = 0; k < n; k++) {
        held[k] = reg_of(c, from[k].value);
        if (n == 1) continue;
        uint16_t copy = fresh(c, NULL);
        move(c, copy, held[k]);
        held[k] = copy;
    }
    for (int k = 0; k < n; k++) move(c, reg_of(c, to[k]), held[k]);
}

static void compile_block(Compiler *c, const Block *b);

static void results_from(Compiler *c, const Instr *i, const Use *from)
{
    for (int k = 0; k < i->n_results; k++) move(c, reg_of(c, &i->results[k]), reg_of(c, from[k].value));
}

static void compile_if(Compiler *c, const Instr *i)
{
    size_t skip = put(c, (EvalInstr){ .kind = EV_JUMP_IF_NOT, .a = reg_of(c, ir_operand(i, 0)) });
    compile_block(c, i->blocks[0]);
    results_from(c, i, i->blocks[0]->last->operands);
    size_t end = put(c, (EvalInstr){ .kind = EV_JUMP });
    if (c->why) return;
    c->code.data[skip].target = (uint32_t)c->code.len;
    compile_block(c, i->blocks[1]);
    results_from(c, i, i->blocks[1]->last->operands);
    if (!c->why) c->code.data[end].target = (uint32_t)c->code.len;
}

static void compile_for(Compiler *c, const Instr *i)
{
    const Block *b = i->blocks[0];
    uint8_t d = (uint8_t)b->args[0]->type->dtype;
    uint16_t iv = reg_of(c, b->args[0]), hi = reg_of(c, ir_operand(i, 1)), step = reg_of(c, ir_operand(i, 2)),
             test = fresh(c, NULL);
    uint16_t left = fresh(c, NULL);
    put(c, (EvalInstr){ .kind = EV_CHECK_STEP, .a = step, .dtype = d });
    move(c, iv, reg_of(c, ir_operand(i, 0)));
    move_all(c, b->args + 1, i->operands + 3, i->n_results);
    size_t top = put(c, (EvalInstr){ .op = OP_LT, .dst = test, .a = iv, .b = hi, .dtype = d });
    size_t out = put(c, (EvalInstr){ .kind = EV_JUMP_IF_NOT, .a = test });
    compile_block(c, b);
    move_all(c, b->args + 1, b->last->operands, i->n_results);
    /* The range may end at the greatest value of the dtype: stop when no whole step is left before hi. */
    put(c, (EvalInstr){ .op = OP_SUB, .dst = left, .a = hi, .b = iv, .dtype = DT_U64 });
    put(c, (EvalInstr){ .op = OP_LT, .dst = test, .a = step, .b = left, .dtype = DT_U64 });
    put(c, (EvalInstr){ .op = OP_ADD, .dst = iv, .a = iv, .b = step, .dtype = d });
    size_t last = put(c, (EvalInstr){ .kind = EV_JUMP_IF_NOT, .a = test });
    put(c, (EvalInstr){ .kind = EV_LOOP, .target = (uint32_t)top });
    if (c->why) return;
    c->code.data[out].target = c->code.data[last].target = (uint32_t)c->code.len;
    for (int k = 0; k < i->n_results; k++) move(c, reg_of(c, &i->results[k]), reg_of(c, b->args[k + 1]));
}

static void compile_while(Compiler *c, const Instr *i)
{
    const Block *test = i->blocks[0], *body = i->blocks[1];
    move_all(c, test->args, i->operands, i->n_results);
    size_t top = c->code.len;
    compile_block(c, test);
    size_t out = put(c, (EvalInstr){ .kind = EV_JUMP_IF_NOT, .a = reg_of(c, ir_operand(test->last, 0)) });
    move_all(c, body->args, test->last->operands + 1, i->n_results);
    compile_block(c, body);
    move_all(c, test->args, body->last->operands, i->n_results);
    put(c, (EvalInstr){ .kind = EV_LOOP, .target = (uint32_t)top });
    if (c->why) return;
    c->code.data[out].target = (uint32_t)c->code.len;
    results_from(c, i, test->last->operands + 1);
}

static bool compile_leaf(Compiler *c, const Instr *i, EvalInstr *e)
{
    DType d = i->results[0].type->dtype;
    if (i->op == OP_CONST) {
        const Attr *a = ir_attr(i, dtype_is_float(d) ? ATTR_FVALUE : ATTR_IVALUE);
        e->imm = a->i; /* the union's bits */
        return true;
    }
    switch (op_as_launch(i->op)) {
    case LAUNCH_DIM: e->imm = ir_attr_int(i, ATTR_DIM, 0); return true;
    case LAUNCH_STRIDE:
        e->imm = ir_attr_int(i, ATTR_PARAM, 0);
        e->imm2 = ir_attr_int(i, ATTR_AXIS, 0);
        return true;
    case LAUNCH_PROGRAM_ID:
    case LAUNCH_NUM_PROGRAMS: e->imm = ir_attr_int(i, ATTR_AXIS, 0); return true;
    }
    return false;
}

static void compile_instr(Compiler *c, const Instr *i)
{
    if (op_info[i->op].flags & OPF_TERM) return;
    if (i->op == OP_IF) {
        compile_if(c, i);
        return;
    }
    if (i->op == OP_FOR) {
        compile_for(c, i);
        return;
    }
    if (i->op == OP_WHILE) {
        compile_while(c, i);
        return;
    }
    if (i->n_results != 1 || i->results[0].type->kind != TYPE_SCALAR) {
        refuse(c, "the block computes more than scalars");
        return;
    }
    EvalInstr e = { .op = (uint8_t)i->op, .dtype = (uint8_t)i->results[0].type->dtype };
    bool leaf = compile_leaf(c, i, &e);
    if (!leaf && i->op != OP_RESHAPE && !(op_info[i->op].flags & OPF_ELEM)) {
        refuse(c, "the block does more than scalar arithmetic");
        return;
    }
    uint16_t v[3] = { 0, 0, 0 };
    for (int k = 0; k < i->n_operands && k < 3; k++) v[k] = reg_of(c, ir_operand(i, k));
    e.a = v[0];
    e.b = v[1];
    e.c = v[2];
    if (i->n_operands) e.from = (uint8_t)ir_operand(i, 0)->type->dtype;
    if (!leaf && i->op != OP_CAST && i->op != OP_BITCAST && i->op != OP_WHERE) e.dtype = e.from;
    if (i->op == OP_RESHAPE) e.kind = EV_MOVE;
    e.dst = reg_of(c, &i->results[0]);
    put(c, e);
}

static void compile_block(Compiler *c, const Block *b)
{
    if (++c->depth > IR_MAX_NESTING) refuse(c, "the block nests too deeply");
    for (const Instr *i = b->first; i && !c->why; i = i->next) compile_instr(c, i);
    c->depth--;
}

static void compile_args(Compiler *c)
{
    const Func *f = c->func;
    bool own = c->root == f->remap;
    for (int k = 0; k < c->root->n_args; k++) {
        const Value *v = c->root->args[k];
        if (!v->uses || v->type->kind != TYPE_SCALAR) continue;
        if (own && k == 0) put(c, (EvalInstr){ .kind = EV_LINEAR, .dst = reg_of(c, v) });
        else put(c, (EvalInstr){ .kind = EV_SCALAR, .dst = reg_of(c, v), .imm = k - own });
    }
}

EvalCode *eval_compile(Arena *arena, const Func *f, const Block *b, const char **why)
{
    Compiler *c = arena_new(arena, Compiler);
    c->arena = arena;
    c->func = f;
    c->root = b;
    compile_args(c);
    compile_block(c, b);
    const Instr *y = b->last;
    if (!c->why && (!y || y->op != OP_YIELD || y->n_operands > MAX_RESULTS))
        refuse(c, "the block does not yield up to 64 values");
    uint16_t results[MAX_RESULTS] = { 0 };
    for (int k = 0; !c->why && k < y->n_operands; k++) results[k] = reg_of(c, ir_operand(y, k));
    *why = c->why;
    if (c->why) return NULL;
    size_t bytes = sizeof(EvalCode) + c->code.len * sizeof(EvalInstr);
    EvalCode *e = arena_alloc(arena, bytes);
    e->magic = MAGIC;
    e->bytes = (uint32_t)bytes;
    e->n_code = (uint32_t)c->code.len;
    e->n_regs = (uint32_t)c->n_regs;
    e->n_results = (uint32_t)y->n_operands;
    memcpy(e->results, results, sizeof results);
    if (c->code.len) memcpy(e->code, c->code.data, c->code.len * sizeof(EvalInstr));
    return e;
}

int eval_results(const EvalCode *e) { return (int)e->n_results; }

bool eval_reads_scalars(const EvalCode *e)
{
    for (uint32_t k = 0; k < e->n_code; k++)
        if (eval_kind(&e->code[k]) == EV_SCALAR) return true;
    return false;
}
size_t eval_size(const EvalCode *e) { return e->bytes; }

/* --- run --------------------------------------------------------------------------------------------- */

static inline bool is_signed(uint8_t d) { return d == DT_INDEX || d == DT_I64 || d == DT_I32; }
static inline int64_t wrap(uint8_t d, uint64_t v) { return d == DT_I32 ? (int32_t)v : (int64_t)v; }

/* Comparisons of 32 and 64-bit integers, without a detour. */
static inline bool quick_compare(const EvalInstr *i, Scalar *r, int64_t a, int64_t b)
{
    switch (op_as_compare(eval_op(i))) {
    case COMPARE_LT: r[i->dst].i = a < b; return true;
    case COMPARE_LE: r[i->dst].i = a <= b; return true;
    case COMPARE_EQ: r[i->dst].i = a == b; return true;
    case COMPARE_NE:
    case COMPARE_GT:
    case COMPARE_GE: return false;
    }
    return false;
}

static inline bool run_quick(const EvalInstr *i, Scalar *r)
{
    int64_t a = r[i->a].i, b = r[i->b].i;
    Op op = eval_op(i);
    if (!is_signed(i->dtype)) return false;
    if (scalar_whole(op, (DType)i->dtype, a, b, &r[i->dst]) || quick_compare(i, r, a, b)) return true;
    if (op == OP_WHERE) r[i->dst] = r[a ? i->b : i->c];
    else if (op == OP_CAST && is_signed(i->from)) r[i->dst].i = wrap(i->dtype, (uint64_t)a);
    else return false;
    return true;
}

static bool run_launch(const EvalInstr *i, const EvalEnv *env, Scalar *out)
{
    switch (op_as_launch(eval_op(i))) {
    case LAUNCH_DIM: out->i = env->dims[i->imm]; return true;
    case LAUNCH_STRIDE: out->i = env->strides[i->imm][i->imm2]; return true;
    case LAUNCH_PROGRAM_ID: out->i = env->coord[i->imm]; return true;
    case LAUNCH_NUM_PROGRAMS:
        out->i = i->imm < 0 ? env->grid[0] * env->grid[1] * env->grid[2] : env->grid[i->imm];
        return true;
    }
    return false;
}

static bool run_op(const EvalInstr *i, const EvalEnv *env, Scalar *r)
{
    Op op = eval_op(i);
    DType d = (DType)i->dtype, from = (DType)i->from;
    if (run_quick(i, r)) return true;
    Scalar *out = &r[i->dst], v[3] = { r[i->a], r[i->b], r[i->c] };
    if (op == OP_CONST) out->i = i->imm;
    else if (op == OP_CAST) *out = scalar_cast(d, from, v[0]);
    else if (op == OP_BITCAST) *out = scalar_bitcast(d, from, v[0]);
    else return run_launch(i, env, out) || scalar_op(op, d, v, out);
    return true;
}

/* Whether a value rests on a division by zero. Of a selection only the side that is taken counts. */
static bool rests_on_zero(const EvalInstr *i, const Scalar *r, const bool *zero)
{
    Op op = eval_op(i);
    int n = op_info[op].n_operands;
    if (n > 0 && zero[i->a]) return true;
    if (op == OP_WHERE) return zero[r[i->a].i ? i->b : i->c];
    if ((op == OP_DIV || op == OP_REM || op == OP_CDIV) && !dtype_is_float((DType)i->dtype) && !r[i->b].i)
        return true;
    return (n > 1 && zero[i->b]) || (n > 2 && zero[i->c]);
}

/* zero: NULL, or receives for each register whether it rests on a division by zero, and [0] of `decided`
 * whether a branch does. */
static inline __attribute__((always_inline)) bool run_code(
    const EvalCode *e, const EvalEnv *env, Scalar *r, bool *zero, bool *decided)
{
    int rounds = 0;
    memset(r, 0, e->n_regs * sizeof *r);
    for (uint32_t pc = 0; pc < e->n_code; pc++) {
        const EvalInstr *i = &e->code[pc];
        switch (eval_kind(i)) {
        case EV_OP:
            if (zero) zero[i->dst] = rests_on_zero(i, r, zero);
            if (!run_op(i, env, r)) return false;
            break;
        case EV_LINEAR: r[i->dst].i = env->linear; break;
        case EV_SCALAR: r[i->dst] = env->scalars[i->imm]; break;
        case EV_MOVE:
            r[i->dst] = r[i->a];
            if (zero) zero[i->dst] = zero[i->a];
            break;
        case EV_JUMP: pc = i->target - 1; break;
        case EV_JUMP_IF_NOT:
            if (zero && zero[i->a]) *decided = true;
            if (!r[i->a].i) pc = i->target - 1;
            break;
        case EV_LOOP:
            if (++rounds > MAX_ROUNDS) return false;
            pc = i->target - 1;
            break;
        case EV_CHECK_STEP:
            if (r[i->a].i == 0 || (r[i->a].i < 0 && dtype_is_signed((DType)i->dtype))) return false;
            break;
        case EV_KINDS: return false;
        }
    }
    return true;
}

bool eval_run(const EvalCode *e, const EvalEnv *env, int64_t *out, int capacity)
{
    Scalar r[MAX_REGS];
    if (e->n_results > (uint32_t)capacity || !run_code(e, env, r, NULL, NULL)) return false;
    for (uint32_t k = 0; k < e->n_results; k++) out[k] = r[e->results[k]].i;
    return true;
}

bool eval_divides_by_zero(const EvalCode *e, const EvalEnv *env)
{
    Scalar r[MAX_REGS];
    bool zero[MAX_REGS] = { false }, found = false;
    if (!run_code(e, env, r, zero, &found)) return found;
    for (uint32_t k = 0; k < e->n_results; k++) found |= zero[e->results[k]];
    return found;
}

bool ir_eval_block(const Func *f, const Block *b, const EvalEnv *env, int64_t *out, int n)
{
    const char *why;
    EvalCode *e = eval_compile(&f->module->session->arena, f, b, &why);
    return e && eval_results(e) == n && eval_run(e, env, out, n);
}

/* --- what came from a file --------------------------------------------------------------------------- */

static bool op_valid(const EvalInstr *i, int n_dims, int n_params)
{
    if (eval_op(i) >= OP_COUNT) return false;
    switch (op_as_launch(eval_op(i))) {
    case LAUNCH_DIM: return i->imm >= 0 && i->imm < n_dims;
    case LAUNCH_STRIDE: return i->imm >= 0 && i->imm < n_params && i->imm2 >= 0 && i->imm2 < TILE_MAX_RANK;
    case LAUNCH_PROGRAM_ID: return i->imm >= 0 && i->imm < 3;
    case LAUNCH_NUM_PROGRAMS: return i->imm >= -1 && i->imm < 3;
    }
    return true;
}

static bool instr_valid(const EvalCode *e, const EvalInstr *i, uint32_t pc, int n_dims, int n_params)
{
    if (i->dtype >= DT_COUNT || i->from >= DT_COUNT) return false;
    if (i->dst >= e->n_regs || i->a >= e->n_regs || i->b >= e->n_regs || i->c >= e->n_regs) return false;
    switch (eval_kind(i)) {
    case EV_OP: return op_valid(i, n_dims, n_params);
    case EV_SCALAR: return i->imm >= 0 && i->imm < n_params;
    case EV_JUMP:
    case EV_JUMP_IF_NOT: return i->target > pc && i->target <= e->n_code;
    case EV_LOOP: return i->target <= pc;
    case EV_MOVE:
    case EV_LINEAR:
    case EV_CHECK_STEP: return true;
    case EV_KINDS: break;
    }
    return false;
}

bool eval_valid(const void *p, size_t bytes, int n_dims, int n_params)
{
    const EvalCode *e = p;
    if (bytes < sizeof *e || e->magic != MAGIC || e->bytes != bytes) return false;
    if (e->n_code > MAX_CODE || bytes != sizeof *e + e->n_code * sizeof(EvalInstr)) return false;
    if (e->n_regs < 1 || e->n_regs > MAX_REGS || e->n_results > MAX_RESULTS) return false;
    for (uint32_t k = 0; k < e->n_results; k++)
        if (e->results[k] >= e->n_regs) return false;
    for (uint32_t k = 0; k < e->n_code; k++)
        if (!instr_valid(e, &e->code[k], k, n_dims, n_params)) return false;
    return true;
}
