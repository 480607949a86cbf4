/* scalar.c: slots, scalar instructions, the blocks of reduce, scan and remap, checks and print. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/debug.h"

/* --- slots and scalars ------------------------------------------------------------------------------- */

LLVMValueRef gen_slot(Gen *g, SlotKind kind, int param, int index, DType d)
{
    for (size_t k = 0; k < g->slot_list.len; k++) {
        const Slot *s = &g->slot_list.data[k];
        if (s->kind == kind && s->param == param && s->index == index) return g->slot_values.data[k];
    }
    LLVMBasicBlockRef here = gen_here(g);
    LLVMMetadataRef line = debug_setup(g);
    gen_at(g, g->setup);
    LLVMValueRef p = gen_ptr(g, g->slots, gen_int(g, 8 * (int64_t)g->slot_list.len));
    LLVMValueRef v;
    if (kind == SLOT_SCALAR) {
        v = gen_load(g, d, 1, p);
    } else {
        v = LLVMBuildLoad2(
            g->b, kind == SLOT_DATA || kind == SLOT_CHECK || kind == SLOT_PRINT ? g->ptr : g->i64, p, "");
        LLVMSetAlignment(v, 8);
    }
    gen_at(g, here);
    debug_resume(g, line);
    Slot slot = { kind, param, index, d };
    vec_push(g->arena, &g->slot_list, slot);
    vec_push(g->arena, &g->slot_values, v);
    return v;
}

static LLVMValueRef index_as(Gen *g, LLVMValueRef v, DType d)
{ return dtype_bits(d) < 64 ? LLVMBuildTrunc(g->b, v, gen_type(g, d, 1), "") : v; }

LLVMValueRef gen_scalar(Gen *g, Value *v)
{
    ValInfo *info = plan_info(g->plan, v);
    if (info->llvm) return info->llvm;
    if (!v->def && v->block == g->func->body)
        return info->llvm = gen_slot(g, SLOT_SCALAR, v->index, 0, v->type->dtype);
    if (v->def && (v->def->op == OP_CONST || v->def->op == OP_DIM || v->def->op == OP_STRIDE)) {
        gen_scalar_instr(g, v->def);
        return info->llvm;
    }
    ir_fail(g->session, v->def ? v->def->loc : g->func->loc, "scalar %%%u (%s) is used before it is computed",
        v->id, v->def ? op_info[v->def->op].name : "argument");
}

LLVMValueRef gen_scalar_i64(Gen *g, Value *v)
{
    LLVMValueRef x = gen_scalar(g, v);
    if (dtype_bits(v->type->dtype) == 64) return x;
    return dtype_is_signed(v->type->dtype) ? LLVMBuildSExt(g->b, x, g->i64, "")
                                           : LLVMBuildZExt(g->b, x, g->i64, "");
}

static LLVMValueRef grid_extent(Gen *g, int axis) { return gen_slot(g, SLOT_GRID, 0, axis, DT_INDEX); }

int gen_grid_rank(const Gen *g)
{
    const Block *grid = g->func->grid;
    return grid && grid->last ? grid->last->n_operands : 1;
}

LLVMValueRef gen_program_id(Gen *g, int axis)
{
    LLVMValueRef x = g->linear;
    for (int a = 0; a < axis; a++) x = LLVMBuildUDiv(g->b, x, grid_extent(g, a), "");
    return axis + 1 < gen_grid_rank(g) ? LLVMBuildURem(g->b, x, grid_extent(g, axis), "") : x;
}

LLVMValueRef gen_stride(Gen *g, int param, int axis)
{
    int64_t s = g->func->params[param].stride[axis];
    return s != FACT_UNKNOWN ? gen_int(g, s) : gen_slot(g, SLOT_STRIDE, param, axis, DT_INDEX);
}

LLVMValueRef gen_extent(Gen *g, int dim)
{
    int64_t e = g->func->dims[dim].extent;
    return e >= 0 ? gen_int(g, e) : gen_slot(g, SLOT_EXTENT, 0, dim, DT_INDEX);
}

static LLVMValueRef as_lanes(Gen *g, LLVMValueRef v, int lanes)
{ return lanes > 1 ? gen_splat(g, v, lanes) : v; }

/* One pure operation on scalars (lanes 1) or on vectors in their place. */
static LLVMValueRef pure(Gen *g, Instr *i, int lanes)
{
    LLVMValueRef v[4];
    if (i->op == OP_CONST) {
        DType d = ir_result(i)->type->dtype;
        const Attr *f = ir_attr(i, ATTR_FVALUE);
        return gen_const(g, d,
            dtype_is_float(d) && f ? scalar_float(f->f) : scalar_int(ir_attr_int(i, ATTR_IVALUE, 0)), lanes);
    }
    for (int k = 0; k < i->n_operands && k < 4; k++)
        v[k] = as_lanes(g, gen_scalar(g, ir_operand(i, k)), lanes);
    DType d = i->n_operands ? ir_operand(i, i->op == OP_WHERE ? 1 : 0)->type->dtype : DT_INDEX;
    if (i->op == OP_CAST) return convert(g, ir_result(i)->type->dtype, d, v[0]);
    if (i->op == OP_BITCAST) return convert_bits(g, ir_result(i)->type->dtype, d, v[0]);
    if (op_family(i->op) == OPS_RANDOM)
        for (int k = 0; k < 2; k++) v[k] = convert(g, DT_U64, ir_operand(i, k)->type->dtype, v[k]);
    return elem_op(g, i->op, d, v, NEED_ALL);
}

void gen_combine(Gen *g, Block *b, const LLVMValueRef *x, const LLVMValueRef *y, int lanes, LLVMValueRef *out)
{
    int n = b->n_args / 2;
    for (int k = 0; k < n; k++) {
        plan_info(g->plan, b->args[k])->llvm = x[k];
        plan_info(g->plan, b->args[n + k])->llvm = y[k];
    }
    for (Instr *i = b->first; i != b->last; i = i->next)
        plan_info(g->plan, ir_result(i))->llvm = pure(g, i, lanes);
    for (int k = 0; k < n; k++) out[k] = as_lanes(g, gen_scalar(g, ir_operand(b->last, k)), lanes);
}

/* A branch in a remap is pure: both sides, then a choice. */
static void remap_block(Gen *g, Block *b)
{
    for (Instr *i = b->first; i != b->last; i = i->next) {
        if (i->op != OP_IF) {
            gen_scalar_instr(g, i);
            continue;
        }
        for (int k = 0; k < 2; k++) remap_block(g, i->blocks[k]);
        for (int k = 0; k < i->n_results; k++)
            plan_info(g->plan, &i->results[k])->llvm = LLVMBuildSelect(g->b, gen_scalar(g, ir_operand(i, 0)),
                gen_scalar(g, ir_operand(i->blocks[0]->last, k)),
                gen_scalar(g, ir_operand(i->blocks[1]->last, k)), "");
    }
}

LLVMValueRef gen_remap(Gen *g, LLVMValueRef program)
{
    Block *r = g->func->remap;
    plan_info(g->plan, r->args[0])->llvm = index_as(g, program, r->args[0]->type->dtype);
    for (int k = 1; k < r->n_args; k++)
        if (r->args[k]->type->kind == TYPE_SCALAR)
            plan_info(g->plan, r->args[k])->llvm =
                gen_slot(g, SLOT_SCALAR, k - 1, 0, r->args[k]->type->dtype);
    remap_block(g, r);
    return gen_scalar_i64(g, ir_operand(r->last, 0));
}

void gen_check(Gen *g, LLVMValueRef bad, Loc loc, const char *message)
{
    int line = 0, column = 0;
    if (loc.file) diag_position(g->session, loc, &line, &column);
    LLVMValueRef record = gen_slot(g, SLOT_CHECK, 0, 0, DT_U64);
    If f, first;
    gen_if(g, &f, bad);
    LLVMBuildStore(g->b, LLVMConstInt(g->i32, 1, false), g->failed);
    LLVMValueRef x = LLVMBuildAtomicCmpXchg(g->b, record, LLVMConstInt(g->i32, 0, false),
        LLVMConstInt(g->i32, 1, false), LLVMAtomicOrderingAcquireRelease, LLVMAtomicOrderingMonotonic, false);
    gen_if(g, &first, LLVMBuildExtractValue(g->b, x, 1, ""));
    gen_store(g, DT_U32, LLVMConstInt(g->i32, (unsigned)line, false),
        gen_ptr(g, record, gen_int(g, offsetof(CheckRecord, line))));
    gen_store(g, DT_I64, g->linear, gen_ptr(g, record, gen_int(g, offsetof(CheckRecord, program))));
    gen_store(g, DT_U32, LLVMConstInt(g->i32, gen_message(g, message), false),
        gen_ptr(g, record, gen_int(g, offsetof(CheckRecord, message))));
    gen_endif(g, &first);
    gen_endif(g, &f);
}

/* --- print: to the launch's PrintSink ---------------------------------------------------------------- */

static LLVMValueRef print_sink(Gen *g) { return gen_slot(g, SLOT_PRINT, 0, 0, DT_U64); }

static LLVMValueRef sink_function(Gen *g, size_t offset)
{
    LLVMValueRef f = LLVMBuildLoad2(g->b, g->ptr, gen_ptr(g, print_sink(g), gen_int(g, (int64_t)offset)), "");
    LLVMSetAlignment(f, 8);
    return f;
}

static void print_edge(Gen *g, size_t offset)
{
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(g->ctx), &g->ptr, 1, false);
    LLVMValueRef sink = print_sink(g);
    LLVMBuildCall2(g->b, type, sink_function(g, offset), &sink, 1, "");
}

static void print_text(Gen *g, const char *format, LLVMValueRef x)
{
    LLVMTypeRef type =
        LLVMFunctionType(LLVMVoidTypeInContext(g->ctx), (LLVMTypeRef[]){ g->ptr, g->ptr }, 2, true);
    LLVMValueRef args[3] = { print_sink(g), LLVMBuildGlobalStringPtr(g->b, format, "text"), x };
    LLVMBuildCall2(g->b, type, sink_function(g, offsetof(PrintSink, put)), args, x ? 3 : 2, "");
}

static void print_element(Gen *g, DType d, LLVMValueRef x)
{
    if (dtype_is_float(d)) print_text(g, "%.9g", convert(g, DT_F64, d, x));
    else print_text(g, d == DT_U64 ? "%llu" : "%lld", convert(g, DT_I64, d, x));
}

static void gen_print(Gen *g, Instr *i)
{
    const Attr *m = ir_attr(i, ATTR_MESSAGE);
    print_edge(g, offsetof(PrintSink, begin));
    print_text(g, "%s", LLVMBuildGlobalStringPtr(g->b, m ? m->s : "", "message"));
    for (int k = 0; k < i->n_operands; k++) {
        Value *v = ir_operand(i, k);
        if (!type_is_value(v->type)) continue;
        if (k || (m && m->s[0])) print_text(g, " ", NULL);
        if (v->type->kind == TYPE_SCALAR) {
            print_element(g, v->type->dtype, gen_scalar(g, v));
            continue;
        }
        const Buf *b = plan_info(g->plan, v)->buf;
        Loop l;
        If f;
        print_text(g, "[", NULL);
        LLVMValueRef at = gen_loop(g, &l, gen_int(g, 0), gen_int(g, type_elements(v->type)), 1);
        gen_if(g, &f, LLVMBuildICmp(g->b, LLVMIntNE, at, gen_int(g, 0), ""));
        print_text(g, ", ", NULL);
        gen_endif(g, &f);
        LLVMValueRef ptr =
            gen_ptr(g, gen_buf(g, b, 0), LLVMBuildMul(g->b, at, gen_int(g, dtype_bytes(b->dtype)), ""));
        print_element(g, b->dtype, gen_load(g, b->dtype, 1, ptr));
        gen_loop_end(g, &l);
        print_text(g, "]", NULL);
    }
    print_edge(g, offsetof(PrintSink, end));
}

static LLVMValueRef scalar_launch(Gen *g, const Instr *i)
{
    int axis = (int)ir_attr_int(i, ATTR_AXIS, i->op == OP_NUM_PROGRAMS ? -1 : 0);
    LLVMValueRef n;
    switch (op_as_launch(i->op)) {
    case LAUNCH_DIM: return gen_extent(g, (int)ir_attr_int(i, ATTR_DIM, 0));
    case LAUNCH_STRIDE: return gen_stride(g, (int)ir_attr_int(i, ATTR_PARAM, 0), axis);
    case LAUNCH_PROGRAM_ID: return gen_program_id(g, axis);
    case LAUNCH_NUM_PROGRAMS:
        n = grid_extent(g, axis < 0 ? 0 : axis);
        for (int a = 1; axis < 0 && a < gen_grid_rank(g); a++)
            n = LLVMBuildMul(g->b, n, grid_extent(g, a), "");
        return n;
    }
    ir_fail(g->session, i->loc, "%s is no number of the launch", op_info[i->op].name);
}

/* The value that is loaded, or that was there before; NULL: none. */
static LLVMValueRef scalar_memory(Gen *g, Instr *i)
{
    Eval e;
    Window *w;
    eval_init(&e, g, 1);
    switch (op_as_memory(i->op)) {
    case MEMORY_LOAD: memory_window(g, i); return memory_load(&e, i, NULL, -1);
    case MEMORY_GATHER: return memory_gather(&e, i, NULL, -1);
    case MEMORY_STORE:
        w = memory_window(g, i);
        memory_store(&e, w, gen_scalar(g, w->m.values[0]), NULL, -1);
        return NULL;
    case MEMORY_SCATTER: memory_scatter(&e, i, NULL, -1); return NULL;
    case MEMORY_ATOMIC_RMW:
    case MEMORY_ATOMIC_CAS: return memory_atomic(&e, i, NULL, -1);
    }
    return NULL;
}

/* The one element of a tile, or a scalar as it is. */
static LLVMValueRef scalar_reshape(Gen *g, const Instr *i)
{
    Value *x = ir_operand(i, 0);
    LLVMValueRef coord[TILE_MAX_RANK];
    Eval e;
    eval_init(&e, g, 1);
    for (int k = 0; k < TILE_MAX_RANK; k++) coord[k] = gen_int(g, 0);
    return x->type->kind == TYPE_TILE ? nest_eval(&e, x, coord, -1) : gen_scalar(g, x);
}

void gen_scalar_instr(Gen *g, Instr *i)
{
    Value *r = i->n_results ? ir_result(i) : NULL;
    ValInfo *info = r ? plan_info(g->plan, r) : NULL;
    OpFamily f = op_family(i->op);
    if (f == OPS_LAUNCH) {
        info->llvm = index_as(g, scalar_launch(g, i), r->type->dtype);
    } else if (f == OPS_MEMORY) {
        LLVMValueRef x = scalar_memory(g, i);
        if (x) info->llvm = x;
    } else if (i->op == OP_RESHAPE) {
        info->llvm = scalar_reshape(g, i);
    } else if (i->op == OP_ASSERT) {
        gen_check(g, LLVMBuildNot(g->b, gen_scalar(g, ir_operand(i, 0)), ""), i->loc,
            ir_attr(i, ATTR_MESSAGE) ? ir_attr(i, ATTR_MESSAGE)->s : "assertion failed");
    } else if (i->op == OP_PRINT) {
        gen_print(g, i);
    } else {
        if (i->op != OP_CONST && !op_is_elementwise(i->op))
            ir_fail(g->session, i->loc, "the CPU backend does not take %s here", op_info[i->op].name);
        info->llvm = pure(g, i, 1);
    }
}
