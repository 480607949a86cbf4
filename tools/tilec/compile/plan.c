/* plan.c: see plan.h. */
#include "tools/tilec/compile/plan.h"
#include "tile/tile.h"

_Static_assert(PLAN_DATA == (int)SLOT_DATA && PLAN_EXTENT == (int)SLOT_EXTENT &&
                   PLAN_STRIDE == (int)SLOT_STRIDE && PLAN_WORD == (int)SLOT_SCALAR &&
                   PLAN_GRID == (int)SLOT_GRID && PLAN_CHECK == (int)SLOT_CHECK &&
                   PLAN_SMALL == (int)FITS32_EXTENT && PLAN_SCHEDULER == (int)SLOT_SCHEDULER &&
                   PLAN_MAX_DERIVED == (int)EVAL_MAX_RESULTS && PLAN_WORKSPACE == (int)SLOT_WORKSPACE &&
                   PLAN_PRINT == (int)SLOT_PRINT,
    "slots");
_Static_assert(PLAN_IN == (int)PARAM_IN && PLAN_OUT == (int)PARAM_OUT && PLAN_INOUT == (int)PARAM_INOUT &&
                   PLAN_SCALAR == (int)PARAM_SCALAR,
    "parameters");
_Static_assert(PLAN_ANY == (int)ASSUME_ANY && PLAN_ALIGNED == (int)ASSUME_ALIGNED &&
                   PLAN_DIVISIBLE == (int)ASSUME_DIVISIBLE && PLAN_POSITIVE == (int)ASSUME_POSITIVE,
    "promises");

/* --- programs ---------------------------------------------------------------------------------------- */

typedef struct Program {
    Session *s;
    const Func *func;
    VEC(const Value *) values;    /* the words of inputs come first: input i has word i */
    Words inputs, steps, numbers; /* numbers: the word of values[k] */
    int n_inputs, n_steps;
    const char *why;
} Program;

enum { STEP_BASE = 1000 }; /* the words of steps, as long as the number of inputs is not known */

static int word_type(DType d)
{
    switch (d) {
    case DT_BOOL: return WORD_BOOL;
    case DT_I8: return WORD_I8;
    case DT_I16: return WORD_I16;
    case DT_I32: return WORD_I32;
    case DT_I64:
    case DT_INDEX: return WORD_I64;
    case DT_U8: return WORD_U8;
    case DT_U16: return WORD_U16;
    case DT_U32: return WORD_U32;
    case DT_U64: return WORD_U64;
    case DT_F32: return WORD_F32;
    case DT_F64: return WORD_F64;
    case DT_F8E4M3:
    case DT_F8E5M2:
    case DT_F16:
    case DT_BF16:
    case DT_COUNT: return WORD_OTHER;
    }
    return WORD_OTHER;
}

static int step_of(Op op)
{
    static const struct {
        Op op;
        int step;
    } table[] = {
        { OP_NEG, STEP_NEG },
        { OP_ABS, STEP_ABS },
        { OP_ADD, STEP_ADD },
        { OP_SUB, STEP_SUB },
        { OP_MUL, STEP_MUL },
        { OP_DIV, STEP_DIV },
        { OP_REM, STEP_REM },
        { OP_CDIV, STEP_CDIV },
        { OP_MIN, STEP_MIN },
        { OP_MAX, STEP_MAX },
        { OP_MINNUM, STEP_MIN },
        { OP_MAXNUM, STEP_MAX },
        { OP_FMA, STEP_FMA },
        { OP_CLAMP, STEP_CLAMP },
        { OP_AND, STEP_AND },
        { OP_OR, STEP_OR },
        { OP_XOR, STEP_XOR },
        { OP_NOT, STEP_NOT },
        { OP_SHL, STEP_SHL },
        { OP_SHR, STEP_SHR },
        { OP_EQ, STEP_EQ },
        { OP_NE, STEP_NE },
        { OP_LT, STEP_LT },
        { OP_LE, STEP_LE },
        { OP_GT, STEP_GT },
        { OP_GE, STEP_GE },
        { OP_WHERE, STEP_WHERE },
        { OP_CAST, STEP_CAST },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].op == op) return table[i].step;
    return -1;
}

static void push(Session *s, Words *w, int64_t v) { vec_push(&s->arena, w, v); }

static void bind(Program *p, const Value *v, int64_t word)
{
    vec_push(&p->s->arena, &p->values, v);
    push(p->s, &p->numbers, word);
}

static int64_t input(Program *p, int kind, int64_t param, int64_t index, DType d)
{
    push(p->s, &p->inputs, kind);
    push(p->s, &p->inputs, param);
    push(p->s, &p->inputs, index);
    push(p->s, &p->inputs, word_type(d));
    return p->n_inputs++;
}

static int64_t add_step(Program *p, int step, DType d, const int64_t abc[3], int64_t value)
{
    push(p->s, &p->steps, step);
    push(p->s, &p->steps, word_type(d));
    for (int i = 0; i < 3; i++) push(p->s, &p->steps, abc[i]);
    push(p->s, &p->steps, value);
    return STEP_BASE + p->n_steps++;
}

static int64_t word_of(Program *p, const Value *v)
{
    for (size_t i = 0; i < p->values.len; i++)
        if (p->values.data[i] == v) return p->numbers.data[i];
    p->why = "a value that only a program knows";
    return 0;
}

static bool translate(Program *, const Block *);

/* Both sides are computed (they are arithmetic only), then selected. */
static bool translate_if(Program *p, const Instr *i)
{
    int64_t cond = word_of(p, ir_operand(i, 0));
    if (!translate(p, i->blocks[0]) || !translate(p, i->blocks[1])) return false;
    for (int k = 0; k < i->n_results; k++) {
        int64_t abc[3] = { cond, word_of(p, ir_operand(ir_terminator(i->blocks[0]), k)),
            word_of(p, ir_operand(ir_terminator(i->blocks[1]), k)) };
        bind(p, &i->results[k], add_step(p, STEP_WHERE, i->results[k].type->dtype, abc, 0));
    }
    return true;
}

static bool translate_instr(Program *p, const Instr *i)
{
    if (i->op == OP_IF) return translate_if(p, i);
    if (i->n_results != 1 || i->results[0].type->kind != TYPE_SCALAR ||
        word_type(i->results[0].type->dtype) >= WORD_F32) {
        p->why = "arithmetic that is not of integers";
        return false;
    }
    const Value *v = ir_result(i);
    DType d = v->type->dtype;
    int64_t abc[3] = { 0, 0, 0 };
    int step = step_of(i->op);
    if (i->op == OP_CONST) bind(p, v, add_step(p, STEP_CONST, d, abc, ir_attr_int(i, ATTR_IVALUE, 0)));
    else if (i->op == OP_DIM) bind(p, v, input(p, PLAN_EXTENT, 0, ir_attr_int(i, ATTR_DIM, 0), d));
    else if (i->op == OP_STRIDE)
        bind(p, v, input(p, PLAN_STRIDE, ir_attr_int(i, ATTR_PARAM, 0), ir_attr_int(i, ATTR_AXIS, 0), d));
    else if (i->op == OP_NUM_PROGRAMS) bind(p, v, input(p, PLAN_GRID, 0, ir_attr_int(i, ATTR_AXIS, 0), d));
    else if (step < 0) p->why = op_info[i->op].name;
    else {
        DType of = d;
        for (int k = 0; k < i->n_operands && k < 3; k++) {
            abc[k] = word_of(p, ir_operand(i, k));
            if (step >= STEP_EQ && step <= STEP_GE)
                of = ir_operand(i, k)->type->dtype; /* Comparisons use the type of their operands. */
        }
        bind(p, v, add_step(p, step, of, abc, 0));
    }
    return !p->why;
}

static bool translate(Program *p, const Block *b)
{
    for (const Instr *i = b->first; i && i != b->last; i = i->next)
        if (!translate_instr(p, i)) return false;
    return !p->why;
}

static int64_t settled(const Program *p, int64_t word)
{ return word >= STEP_BASE ? word - STEP_BASE + p->n_inputs : word; }

/* NULL, or why the block cannot be evaluated at launch. A missing block is a program without results. */
static const char *write_program(Session *s, const Func *f, const Block *b, bool remap, Words *out)
{
    Program p = { .s = s, .func = f };
    Words results = { 0 };
    if (b) {
        if (remap) bind(&p, b->args[0], input(&p, PLAN_LINEAR, 0, 0, DT_INDEX));
        for (int k = 0; k < f->n_params; k++)
            if (f->params[k].kind == PARAM_SCALAR && word_type(f->params[k].type->dtype) < WORD_F32)
                bind(&p, b->args[k + remap], input(&p, PLAN_WORD, k, 0, f->params[k].type->dtype));
        if (!translate(&p, b)) return p.why;
        for (int k = 0; k < b->last->n_operands; k++) push(s, &results, word_of(&p, ir_operand(b->last, k)));
    }
    if (p.why) return p.why;
    if (p.n_inputs + p.n_steps > PLAN_MAX_WORDS) return "too long an expression";
    push(s, out, p.n_inputs);
    push(s, out, p.n_steps);
    push(s, out, (int64_t)results.len);
    for (size_t i = 0; i < p.inputs.len; i++) push(s, out, p.inputs.data[i]);
    for (size_t i = 0; i < p.steps.len; i++)
        push(s, out, i % 6 >= 2 && i % 6 <= 4 ? settled(&p, p.steps.data[i]) : p.steps.data[i]);
    for (size_t i = 0; i < results.len; i++) push(s, out, settled(&p, results.data[i]));
    return NULL;
}

/* --- choices ----------------------------------------------------------------------------------------- */

static int64_t dtype_number(DType d)
{
    static const tile_dtype numbers[DT_COUNT] = {
        [DT_BOOL] = TILE_BOOL,
        [DT_I8] = TILE_I8,
        [DT_I16] = TILE_I16,
        [DT_I32] = TILE_I32,
        [DT_I64] = TILE_I64,
        [DT_U8] = TILE_U8,
        [DT_U16] = TILE_U16,
        [DT_U32] = TILE_U32,
        [DT_U64] = TILE_U64,
        [DT_INDEX] = TILE_INDEX,
        [DT_F8E4M3] = TILE_F8E4M3,
        [DT_F8E5M2] = TILE_F8E5M2,
        [DT_F16] = TILE_F16,
        [DT_BF16] = TILE_BF16,
        [DT_F32] = TILE_F32,
        [DT_F64] = TILE_F64,
    };
    return numbers[d];
}

int64_t plan_value(FrontValue v)
{
    int64_t bits = 0;
    switch (v.kind) {
    case FRONT_TEXT:
    case FRONT_NOTHING: return 0;
    case FRONT_INT:
    case FRONT_UINT: return v.i;
    case FRONT_BOOL: return v.b;
    case FRONT_TYPE: return dtype_number(v.type);
    case FRONT_FLOAT: memcpy(&bits, &v.f, sizeof bits); return bits;
    }
    return bits;
}

/* The value to which a variant binds a parameter; the default if it binds none. */
static int64_t value_in(const Variant *v, const FrontParam *p)
{
    FrontValue value = p->default_value;
    for (size_t i = 0; i < v->n - v->n_config; i++)
        if (!strcmp(v->bindings[i].name, p->name)) value = v->bindings[i].value;
    return plan_value(value);
}

Choices plan_choices(Session *s, const FrontKernel *k, const Builts *b)
{
    Choices choices = { 0 };
    for (int i = 0; i < k->n_params; i++) {
        const FrontParam *p = &k->params[i];
        bool varies = false;
        if (p->kind != FRONT_CONST && p->kind != FRONT_CONST_TYPE) continue;
        for (size_t n = 1; n < b->len; n++)
            varies |= value_in(b->data[n].variant, p) != value_in(b->data[0].variant, p);
        if (varies) vec_push(&s->arena, &choices, ((Choice){ p->name, p }));
    }
    return choices;
}

/* --- the plan ---------------------------------------------------------------------------------------- */

static void write_dims(Session *s, const Func *f, Words *w)
{
    push(s, w, f->n_dims);
    for (int d = 0; d < f->n_dims; d++) {
        int param = -1, axis = 0;
        for (int p = f->n_params; p-- > 0;) /* the first parameter that has the dimension */
            for (int a = f->params[p].kind == PARAM_SCALAR ? 0 : f->params[p].type->rank; a-- > 0;)
                if (f->params[p].dims[a] == d) {
                    param = p;
                    axis = a;
                }
        push(s, w, f->dims[d].text ? -2 : f->dims[d].extent);
        push(s, w, param);
        push(s, w, axis);
    }
    for (int p = 0; p < f->n_params; p++)
        for (int a = 0; f->params[p].kind != PARAM_SCALAR && a < f->params[p].type->rank; a++)
            push(s, w, f->params[p].dims[a]);
}

/* A program without results where the launcher cannot tell how much work there is. */
static void write_work(Session *s, const Built *b, Words *out)
{
    Words work = { 0 };
    bool known = b->work && !write_program(s, b->func, b->work, false, &work);
    if (!known) write_program(s, b->func, NULL, false, out);
    for (size_t i = 0; known && i < work.len; i++) push(s, out, work.data[i]);
}

static bool write_variant(Session *s, const FrontKernel *k, const Built *b, const Choices *choices,
    int64_t *first_message, Words *w)
{
    const Func *f = b->func;
    const Artifact *a = b->artifact;
    size_t begin = w->len;
    const int64_t head[PLAN_VARIANT_HEAD] = { 0, b->level, b->assume, b->entry, *first_message };
    for (int i = 0; i < PLAN_VARIANT_HEAD; i++) push(s, w, head[i]);
    *first_message += a->n_messages;
    for (size_t i = 0; i < choices->len; i++) push(s, w, value_in(b->variant, choices->data[i].param));
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].optional)
            push(s, w, !frontend_absent(b->variant->bindings, b->variant->n, k->params[i].name));
    write_dims(s, f, w);
    push(s, w, a->n_slots);
    for (int i = 0; i < a->n_slots; i++) {
        push(s, w, a->slots[i].kind);
        push(s, w, a->slots[i].param);
        push(s, w, a->slots[i].index);
    }
    push(s, w, a->shape.scratch_bytes);
    push(s, w, a->shape.workspace_bytes);
    push(s, w, a->shape.workspace_per_block);
    push(s, w, a->shape.neighbours);
    const char *why =
        f->n_dims > PLAN_MAX_DIMS || a->n_slots > PLAN_MAX_SLOTS ? "too many dimensions or arguments" : NULL;
    if (!why) why = write_program(s, f, f->extents, false, w);
    if (!why) why = write_program(s, f, f->grid, false, w);
    if (!why) why = write_program(s, f, f->permutes ? NULL : f->remap, true, w);
    if (why)
        diag_error(s, k->loc, "the grid, remap or an extent of `%s` cannot be evaluated by a launcher: %s",
            k->name, why);
    else write_work(s, b, w);
    w->data[begin] = (int64_t)(w->len - begin);
    return !why;
}

/* As DLPack counts element types. */
static int dlpack_code(DType d)
{
    switch (d) {
    case DT_BOOL: return 6;
    case DT_BF16: return 4;
    case DT_F8E4M3: return 10;
    case DT_F8E5M2: return 12;
    case DT_F16:
    case DT_F32:
    case DT_F64: return 2;
    case DT_I8:
    case DT_I16:
    case DT_I32:
    case DT_I64:
    case DT_INDEX: return 0;
    case DT_U8:
    case DT_U16:
    case DT_U32:
    case DT_U64:
    case DT_COUNT: return 1;
    }
    return 1;
}

static int dim_of(const FrontKernel *k, const FrontDim *d)
{
    for (int i = 0; d->name && i < k->n_dims; i++)
        if (!strcmp(k->dims[i], d->name)) return i;
    return d->derived >= 0 ? k->n_dims + d->derived : -1;
}

static void write_param(Session *s, const FrontKernel *k, const FrontParam *p, const Param *q, Words *w)
{
    bool scalar = q->kind == PARAM_SCALAR,
         real = scalar && p->type_known && (p->dtype == DT_F32 || p->dtype == DT_F64);
    DType d = q->type->dtype;
    const int64_t head[] = { q->kind, word_type(d), dtype_bytes(d), scalar ? 0 : q->type->rank, real,
        p->optional, dlpack_code(d) };
    _Static_assert(sizeof head / sizeof *head + PLAN_MAX_RANK == PLAN_PARAM_WORDS, "words of a parameter");
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) push(s, w, head[i]);
    for (int a = 0; a < PLAN_MAX_RANK; a++) push(s, w, a < p->rank ? dim_of(k, &p->dims[a]) : -1);
}

static void write_choice(Session *s, const FrontParam *p, Words *w)
{
    push(s, w,
        p->type_known && dtype_is_float(p->dtype) ? CHOICE_FLOAT
        : p->type_known && p->dtype == DT_BOOL    ? CHOICE_BOOL
                                                  : CHOICE_INT);
}

static bool too_many(Session *s, const FrontKernel *k, int most, const char *what)
{
    diag_error(s, k->loc, "kernel `%s` has more than %d %s", k->name, most, what);
    return false;
}

bool plan_write(Session *s, const FrontKernel *k, const Builts *b, const Choices *choices, Words *w)
{
    const Func *f = b->data[0].func;
    int64_t messages = 0;
    size_t n_dims = (size_t)(k->n_dims + k->n_derived);
    if (f->n_params > PLAN_MAX_PARAMS) return too_many(s, k, PLAN_MAX_PARAMS, "arguments");
    if (n_dims > PLAN_MAX_DIMS) return too_many(s, k, PLAN_MAX_DIMS, "dimensions");
    if (choices->len > PLAN_MAX_CONSTS) return too_many(s, k, PLAN_MAX_CONSTS, "consts to choose by");
    const int64_t head[PLAN_HEAD] = { PLAN_VERSION, f->n_params, (int64_t)choices->len, (int64_t)b->len,
        (int64_t)n_dims, 0 };
    for (int i = 0; i < PLAN_HEAD; i++) push(s, w, head[i]);
    for (int i = 0, n = 0; i < k->n_params; i++)
        if (k->params[i].kind != FRONT_CONST && k->params[i].kind != FRONT_CONST_TYPE)
            write_param(s, k, &k->params[i], &f->params[n++], w);
    for (int d = 0; d < k->n_dims; d++) push(s, w, plan_common_extent(b, k->dims[d]));
    for (int d = 0; d < k->n_derived; d++) push(s, w, -2);
    for (size_t i = 0; i < choices->len; i++) write_choice(s, choices->data[i].param, w);
    for (size_t i = 0; i < b->len; i++)
        if (!write_variant(s, k, &b->data[i], choices, &messages, w)) return false;
    w->data[5] = (int64_t)w->len;
    plan_write_names(s, k, b, choices, w);
    return true;
}
