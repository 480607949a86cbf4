/* gen.c: the LLVM function of a kernel: its frame, the loop over programs and control flow. Scalars are the
 * business of scalar.c, tiles of nest.c. Values that change along control flow go through allocas, which LLVM
 * turns into registers. */
#include "backends/cpu/cpu.h"

/* --- types and small things -------------------------------------------------------------------------- */

LLVMTypeRef gen_vec(LLVMTypeRef t, int lanes) { return lanes == 1 ? t : LLVMVectorType(t, (unsigned)lanes); }

static LLVMTypeRef scalar_type(Gen *g, DType d)
{
    switch (d) {
    case DT_BOOL: return g->i1;
    case DT_I8:
    case DT_U8:
    case DT_F8E4M3:
    case DT_F8E5M2: return g->i8;
    case DT_I16:
    case DT_U16:
    case DT_BF16: return g->i16;
    case DT_I32:
    case DT_U32: return g->i32;
    case DT_I64:
    case DT_U64:
    case DT_INDEX: return g->i64;
    case DT_F16: return g->f16;
    case DT_F32: return g->f32;
    case DT_F64: return g->f64;
    case DT_COUNT: break;
    }
    return NULL;
}

LLVMTypeRef gen_type(Gen *g, DType d, int lanes) { return gen_vec(scalar_type(g, d), lanes); }
LLVMTypeRef gen_mem_type(Gen *g, DType d, int lanes)
{ return gen_vec(d == DT_BOOL ? g->i8 : scalar_type(g, d), lanes); }

int gen_lanes(LLVMValueRef v)
{
    LLVMTypeRef t = LLVMTypeOf(v);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 1;
}

LLVMValueRef gen_int(Gen *g, int64_t v) { return LLVMConstInt(g->i64, (uint64_t)v, true); }

static LLVMValueRef const_splat(Gen *g, LLVMValueRef c, int lanes)
{
    if (lanes == 1) return c;
    LLVMValueRef *v = arena_array(g->arena, LLVMValueRef, (size_t)lanes);
    for (int k = 0; k < lanes; k++) v[k] = c;
    return LLVMConstVector(v, (unsigned)lanes);
}

LLVMValueRef gen_splat(Gen *g, LLVMValueRef v, int lanes)
{
    if (lanes == 1 || gen_lanes(v) > 1) return v;
    if (LLVMIsConstant(v)) return const_splat(g, v, lanes);
    LLVMTypeRef t = gen_vec(LLVMTypeOf(v), lanes);
    LLVMValueRef one = LLVMBuildInsertElement(g->b, LLVMGetPoison(t), v, gen_int(g, 0), "");
    return LLVMBuildShuffleVector(g->b, one, LLVMGetPoison(t), LLVMConstNull(gen_vec(g->i32, lanes)), "");
}

LLVMValueRef gen_const_float(Gen *g, double v, int lanes)
{ return const_splat(g, LLVMConstReal(g->f32, v), lanes); }

LLVMValueRef gen_const(Gen *g, DType d, Scalar v, int lanes)
{
    LLVMValueRef c;
    switch (d) {
    case DT_F32:
    case DT_F64:
    case DT_F16: c = LLVMConstReal(scalar_type(g, d), v.f); break;
    case DT_BF16:
    case DT_F8E4M3:
    case DT_F8E5M2: c = LLVMConstInt(scalar_type(g, d), scalar_bits(d, v), false); break;
    case DT_BOOL: c = LLVMConstInt(g->i1, v.i != 0, false); break;
    case DT_I8:
    case DT_I16:
    case DT_I32:
    case DT_I64:
    case DT_U8:
    case DT_U16:
    case DT_U32:
    case DT_U64:
    case DT_INDEX: c = LLVMConstInt(scalar_type(g, d), (uint64_t)v.i, true); break;
    case DT_COUNT:
    default: c = NULL;
    }
    return const_splat(g, c, lanes);
}

LLVMValueRef gen_iota(Gen *g, LLVMTypeRef elem, int lanes)
{
    if (lanes == 1) return LLVMConstInt(elem, 0, false);
    LLVMValueRef *v = arena_array(g->arena, LLVMValueRef, (size_t)lanes);
    for (int k = 0; k < lanes; k++) v[k] = LLVMConstInt(elem, (unsigned)k, false);
    return LLVMConstVector(v, (unsigned)lanes);
}

LLVMValueRef gen_shuffle(Gen *g, LLVMValueRef a, LLVMValueRef b, const int *mask, int n)
{
    LLVMValueRef *m = arena_array(g->arena, LLVMValueRef, (size_t)n);
    for (int k = 0; k < n; k++)
        m[k] = mask[k] < 0 ? LLVMGetPoison(g->i32) : LLVMConstInt(g->i32, (unsigned)mask[k], false);
    return LLVMBuildShuffleVector(
        g->b, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)), LLVMConstVector(m, (unsigned)n), "");
}

/* f of each 16 lanes of a and b (b NULL: of a alone): AVX-512's own instructions on vectors of any multiple
 * of 16. */
LLVMValueRef gen_by_16(
    Gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef (*f)(Gen *, LLVMValueRef, LLVMValueRef))
{
    int lanes = gen_lanes(a), mask[64];
    if (lanes == 16) return f(g, a, b);
    LLVMValueRef part[4];
    for (int k = 0; k < lanes / 16; k++) {
        for (int j = 0; j < 16; j++) mask[j] = 16 * k + j;
        part[k] = f(g, gen_shuffle(g, a, NULL, mask, 16), b ? gen_shuffle(g, b, NULL, mask, 16) : NULL);
    }
    for (int j = 0; j < 64; j++) mask[j] = j;
    for (int n = lanes / 16, w = 16; n > 1; n /= 2, w *= 2)
        for (int k = 0; k < n / 2; k++) part[k] = gen_shuffle(g, part[2 * k], part[2 * k + 1], mask, 2 * w);
    return part[0];
}

LLVMBasicBlockRef gen_block(Gen *g, const char *name)
{ return LLVMAppendBasicBlockInContext(g->ctx, g->fn, name); }
LLVMBasicBlockRef gen_here(Gen *g) { return LLVMGetInsertBlock(g->b); }
void gen_at(Gen *g, LLVMBasicBlockRef b) { LLVMPositionBuilderAtEnd(g->b, b); }

LLVMValueRef gen_alloca(Gen *g, LLVMTypeRef t, const char *name)
{
    LLVMBasicBlockRef here = gen_here(g);
    gen_at(g, g->entry);
    LLVMValueRef a = LLVMBuildAlloca(g->b, t, name);
    gen_at(g, here);
    return a;
}

LLVMValueRef gen_intrinsic(
    Gen *g, const char *name, LLVMTypeRef *types, int n_types, LLVMValueRef *args, int n_args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) ir_fail(g->session, g->func->loc, "no intrinsic %s", name);
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(g->module, id, types, (size_t)n_types);
    return LLVMBuildCall2(
        g->b, LLVMIntrinsicGetType(g->ctx, id, types, (size_t)n_types), f, args, (unsigned)n_args, "");
}

LLVMValueRef gen_ptr(Gen *g, LLVMValueRef base, LLVMValueRef byte_offset)
{
    if (LLVMIsAConstantInt(byte_offset) && LLVMConstIntGetZExtValue(byte_offset) == 0) return base;
    return LLVMBuildGEP2(g->b, g->i8, base, &byte_offset, 1, "");
}

LLVMValueRef gen_buf(Gen *g, const Buf *b, int64_t byte_offset)
{ return gen_ptr(g, g->scratch, gen_int(g, buf_root((Buf *)b)->offset + byte_offset)); }

LLVMValueRef gen_load(Gen *g, DType d, int lanes, LLVMValueRef ptr)
{
    LLVMValueRef v = LLVMBuildLoad2(g->b, gen_mem_type(g, d, lanes), ptr, "");
    LLVMSetAlignment(v, (unsigned)dtype_bytes(d));
    if (d == DT_BOOL) v = LLVMBuildICmp(g->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
    return v;
}

LLVMValueRef gen_store(Gen *g, DType d, LLVMValueRef v, LLVMValueRef ptr)
{
    if (d == DT_BOOL) v = LLVMBuildZExt(g->b, v, gen_vec(g->i8, gen_lanes(v)), "");
    LLVMValueRef s = LLVMBuildStore(g->b, v, ptr);
    LLVMSetAlignment(s, (unsigned)dtype_bytes(d));
    return s;
}

/* Debug locations: line and column of the .tile source. */
void gen_loc(Gen *g, Loc loc)
{
    if (!g->di) return;
    int line = 0, column = 0;
    if (loc.file) diag_position(g->session, loc, &line, &column);
    if (!line) return;
    LLVMSetCurrentDebugLocation2(
        g->b, LLVMDIBuilderCreateDebugLocation(g->ctx, (unsigned)line, (unsigned)column, g->di_scope, NULL));
}

unsigned gen_message(Gen *g, const char *text)
{
    for (size_t k = 0; k < g->messages.len; k++)
        if (!strcmp(g->messages.data[k], text)) return (unsigned)k;
    vec_push(g->arena, &g->messages, text);
    return (unsigned)(g->messages.len - 1);
}

/* --- control flow ------------------------------------------------------------------------------------ */

/* The loop is bottom-tested. The block before it stays open until gen_loop_end, so that code can still be put
 * there. */
LLVMValueRef gen_loop(Gen *g, Loop *l, LLVMValueRef from, LLVMValueRef n, int64_t step)
{
    l->before = gen_here(g);
    l->body = gen_block(g, "loop");
    l->from = from;
    l->n = n;
    l->step = step;
    gen_at(g, l->body);
    l->i = LLVMBuildPhi(g->b, LLVMTypeOf(n), "i");
    return l->i;
}

void gen_loop_end(Gen *g, Loop *l)
{
    LLVMValueRef from = l->from;
    LLVMBasicBlockRef done = gen_block(g, "done");
    LLVMTypeRef t = LLVMTypeOf(l->n);
    LLVMValueRef next = LLVMBuildNSWAdd(g->b, l->i, LLVMConstInt(t, (uint64_t)l->step, true), "");
    LLVMBasicBlockRef latch = gen_here(g);
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, next, l->n, ""), l->body, done);
    gen_at(g, l->before);
    bool runs = LLVMIsAConstantInt(from) && LLVMIsAConstantInt(l->n) &&
                LLVMConstIntGetSExtValue(from) < LLVMConstIntGetSExtValue(l->n);
    if (runs) LLVMBuildBr(g->b, l->body);
    else LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, from, l->n, ""), l->body, done);
    LLVMAddIncoming(l->i, (LLVMValueRef[]){ from, next }, (LLVMBasicBlockRef[]){ l->before, latch }, 2);
    gen_at(g, done);
}

void gen_if(Gen *g, If *f, LLVMValueRef cond)
{
    f->then = gen_block(g, "then");
    f->other = gen_block(g, "else");
    f->done = gen_block(g, "endif");
    f->turned = false;
    LLVMBuildCondBr(g->b, cond, f->then, f->other);
    gen_at(g, f->then);
}

void gen_else(Gen *g, If *f)
{
    LLVMBuildBr(g->b, f->done);
    f->turned = true;
    gen_at(g, f->other);
}

void gen_endif(Gen *g, If *f)
{
    LLVMBuildBr(g->b, f->done);
    if (!f->turned) {
        gen_at(g, f->other);
        LLVMBuildBr(g->b, f->done);
    }
    gen_at(g, f->done);
}

/* --- functions of the module's own ------------------------------------------------------------------- */

static void fn_flag(Gen *g, LLVMValueRef f, const char *name)
{
    LLVMAttributeRef a =
        LLVMCreateEnumAttribute(g->ctx, LLVMGetEnumAttributeKindForName(name, strlen(name)), 0);
    LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void fn_text(Gen *g, LLVMValueRef f, const char *k, const char *v)
{
    LLVMAttributeRef a = LLVMCreateStringAttribute(g->ctx, k, (unsigned)strlen(k), v, (unsigned)strlen(v));
    LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

/* What code in a file and code for a debugger needs: profilers and debuggers walk through it by its unwind
 * tables. */
static void fn_unwind(Gen *g, LLVMValueRef f)
{
    enum { ASYNCHRONOUS = 2 };
    if (g->options->emit != EMIT_OBJECT && !g->options->debug_info) return;
    LLVMAttributeRef a =
        LLVMCreateEnumAttribute(g->ctx, LLVMGetEnumAttributeKindForName("uwtable", 7), ASYNCHRONOUS);
    LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void fn_vectors(Gen *g, LLVMValueRef f)
{
    fn_unwind(g, f);
    if (g->target->vector_bytes != 64) return;
    fn_text(g, f, "prefer-vector-width", "512");
    fn_text(g, f, "min-legal-vector-width", "512");
}

LLVMValueRef helper_find(Gen *g, const char *name) { return LLVMGetNamedFunction(g->module, name); }

LLVMValueRef helper_begin(Gen *g, Helper *h, const char *name, LLVMTypeRef type)
{
    h->outer = g->fn;
    h->here = gen_here(g);
    h->entry = g->entry;
    h->di = g->di ? LLVMGetCurrentDebugLocation2(g->b) : NULL;
    if (g->di) LLVMSetCurrentDebugLocation2(g->b, NULL);
    LLVMValueRef f = g->fn = LLVMAddFunction(g->module, name, type);
    LLVMSetLinkage(f, LLVMInternalLinkage);
    fn_flag(g, f, "noinline");
    fn_flag(g, f, "nounwind");
    fn_vectors(g, f);
    g->entry = gen_block(g, "entry");
    h->body = gen_block(g, "body");
    gen_at(g, h->body);
    return f;
}

void helper_end(Gen *g, Helper *h)
{
    gen_at(g, g->entry);
    LLVMBuildBr(g->b, h->body);
    g->fn = h->outer;
    g->entry = h->entry;
    gen_at(g, h->here);
    if (g->di) LLVMSetCurrentDebugLocation2(g->b, h->di);
}

/* --- steps ------------------------------------------------------------------------------------------- */

static void copy_buf(Gen *g, Buf *to, Buf *from)
{
    if (buf_root(to) == buf_root(from)) return;
    LLVMBuildMemCpy(g->b, gen_buf(g, to, 0), 64, gen_buf(g, from, 0), 64, gen_int(g, to->bytes));
}

/* Writes a tile value, wherever it is, to a buffer. */
static void put_tile(Gen *g, Buf *to, Value *v)
{
    Buf *from = plan_info(g->plan, v)->buf;
    if (from) {
        copy_buf(g, to, from);
        return;
    }
    Sink k = { .kind = SINK_BUFFER, .value = v, .buf = to };
    Step s = { .kind = STEP_NEST, .sinks = &k };
    s.rank = squeeze(v->type, s.shape);
    nest_emit(g, &s);
}

/* Hands the operands of a block's last step to the carried tiles and scalars. */
static void pass_on(Gen *g, Step *yield, int from, Buf **to, LLVMValueRef *scalars)
{
    const Instr *y = yield->instr;
    int n = y->n_operands - from;
    LLVMValueRef *v = arena_array(g->arena, LLVMValueRef, (size_t)n);
    for (int k = 0; k < n; k++) {
        Value *x = ir_operand(y, k + from);
        if (x->type->kind == TYPE_SCALAR) v[k] = gen_scalar(g, x);
        if (x->type->kind == TYPE_TILE && yield->carried[k + from])
            copy_buf(g, yield->carried[k + from], plan_info(g->plan, x)->buf);
    }
    for (int k = 0; k < n; k++) {
        Value *x = ir_operand(y, k + from);
        if (x->type->kind == TYPE_SCALAR) LLVMBuildStore(g->b, v[k], scalars[k]);
        if (x->type->kind == TYPE_TILE) {
            if (yield->carried[k + from]) copy_buf(g, to[k], yield->carried[k + from]);
            else put_tile(g, to[k], x);
        }
    }
}

static LLVMValueRef *scalar_cells(Gen *g, const Value *values, int n)
{
    LLVMValueRef *c = arena_array(g->arena, LLVMValueRef, (size_t)n);
    for (int k = 0; k < n; k++)
        if (values[k].type->kind == TYPE_SCALAR)
            c[k] = gen_alloca(g, gen_type(g, values[k].type->dtype, 1), "carried");
    return c;
}

static void load_cells(Gen *g, LLVMValueRef *cells, Value *const *values, int n)
{
    for (int k = 0; k < n; k++)
        if (cells[k])
            plan_info(g->plan, values[k])->llvm =
                LLVMBuildLoad2(g->b, gen_type(g, values[k]->type->dtype, 1), cells[k], "");
}

static void load_results(Gen *g, LLVMValueRef *cells, Instr *i)
{
    for (int k = 0; k < i->n_results; k++) {
        Value *r = &i->results[k];
        load_cells(g, cells + k, &r, 1);
    }
}

static void init_carried(Gen *g, Instr *i, int skip, Buf **to, LLVMValueRef *cells)
{
    for (int k = 0; k < i->n_results; k++) {
        Value *x = ir_operand(i, k + skip);
        if (x->type->kind == TYPE_SCALAR) LLVMBuildStore(g->b, gen_scalar(g, x), cells[k]);
        if (x->type->kind == TYPE_TILE) put_tile(g, to[k], x);
    }
}

static void gen_for(Gen *g, Step *s)
{
    Instr *i = s->instr;
    DType d = ir_operand(i, 0)->type->dtype;
    LLVMValueRef *cells = scalar_cells(g, i->results, i->n_results);
    init_carried(g, i, 3, s->carried, cells);
    LLVMValueRef lo = gen_scalar_i64(g, ir_operand(i, 0)), hi = gen_scalar_i64(g, ir_operand(i, 1)),
                 step = gen_scalar_i64(g, ir_operand(i, 2));
    LLVMValueRef any = LLVMBuildICmp(g->b, dtype_is_signed(d) ? LLVMIntSGT : LLVMIntUGT, hi, lo, "");
    LLVMValueRef span =
        LLVMBuildAdd(g->b, LLVMBuildSub(g->b, hi, lo, ""), LLVMBuildSub(g->b, step, gen_int(g, 1), ""), "");
    LLVMValueRef trips = LLVMIsAConstantInt(step) && LLVMConstIntGetSExtValue(step) == 1
                             ? span
                             : LLVMBuildUDiv(g->b, span, step, "");
    trips = LLVMBuildSelect(g->b, any, trips, gen_int(g, 0), "");
    Loop l;
    LLVMValueRef t = gen_loop(g, &l, gen_int(g, 0), trips, 1);
    LLVMValueRef iv = LLVMBuildAdd(g->b, lo, LLVMBuildMul(g->b, t, step, ""), "");
    Block *body = i->blocks[0];
    plan_info(g->plan, body->args[0])->llvm =
        dtype_bits(d) < 64 ? LLVMBuildTrunc(g->b, iv, gen_type(g, d, 1), "") : iv;
    load_cells(g, cells, body->args + 1, i->n_results);
    gen_steps(g, s->blocks[0]);
    pass_on(g, s->blocks[0]->last, 0, s->carried, cells);
    gen_loop_end(g, &l);
    load_results(g, cells, i);
}

static void gen_while(Gen *g, Step *s)
{
    Instr *i = s->instr;
    LLVMValueRef *cells = scalar_cells(g, i->results, i->n_results),
                 *passed = scalar_cells(g, i->results, i->n_results);
    init_carried(g, i, 0, s->carried2, cells);
    LLVMBasicBlockRef head = gen_block(g, "while"), body = gen_block(g, "body"), done = gen_block(g, "done");
    LLVMBuildBr(g->b, head);
    gen_at(g, head);
    load_cells(g, cells, i->blocks[0]->args, i->n_results);
    gen_steps(g, s->blocks[0]);
    pass_on(g, s->blocks[0]->last, 1, s->carried, passed);
    LLVMBuildCondBr(g->b, gen_scalar(g, ir_operand(i->blocks[0]->last, 0)), body, done);
    gen_at(g, body);
    load_cells(g, passed, i->blocks[1]->args, i->n_results);
    gen_steps(g, s->blocks[1]);
    pass_on(g, s->blocks[1]->last, 0, s->carried2, cells);
    LLVMBuildBr(g->b, head);
    gen_at(g, done);
    load_results(g, passed, i);
}

static void gen_branch(Gen *g, Step *s)
{
    Instr *i = s->instr;
    LLVMValueRef *cells = scalar_cells(g, i->results, i->n_results);
    If f;
    gen_if(g, &f, gen_scalar(g, ir_operand(i, 0)));
    for (int b = 0; b < 2; b++) {
        if (b) gen_else(g, &f);
        gen_steps(g, s->blocks[b]);
        pass_on(g, s->blocks[b]->last, 0, s->carried, cells);
    }
    gen_endif(g, &f);
    load_results(g, cells, i);
}

void gen_steps(Gen *g, Steps *in)
{
    for (Step *s = in->first; s; s = s->next) {
        if (s->instr) gen_loc(g, s->instr->loc);
        switch (s->kind) {
        case STEP_SCALAR: gen_scalar_instr(g, s->instr); break;
        case STEP_WINDOW: memory_window(g, s->instr); break;
        case STEP_NEST: nest_emit(g, s); break;
        case STEP_TURN: turn_emit(g, s); break;
        case STEP_MMA: mma_emit(g, s); break;
        case STEP_SCAN: scan_emit(g, s); break;
        case STEP_COMBINED: combined_emit(g, s); break;
        case STEP_SORT: sort_emit(g, s); break;
        case STEP_FOR: gen_for(g, s); break;
        case STEP_WHILE: gen_while(g, s); break;
        case STEP_IF: gen_branch(g, s); break;
        case STEP_YIELD: break;
        }
    }
}

/* --- the function ------------------------------------------------------------------------------------ */

static void debug_begin(Gen *g, const char *symbol)
{
    const Source *src = g->func->loc.file ? diag_source(g->session, g->func->loc.file) : NULL;
    if (!g->options->debug_info || !src) return;
    int line, column;
    diag_position(g->session, g->func->loc, &line, &column);
    const char *slash = strrchr(src->name, '/'), *base = slash ? slash + 1 : src->name;
    const char *dir = slash            ? arena_strndup(g->arena, src->name, (size_t)(slash - src->name))
                      : src->directory ? src->directory
                                       : ".";
    g->di = LLVMCreateDIBuilder(g->module);
    LLVMAddModuleFlag(g->module, LLVMModuleFlagBehaviorWarning, "Debug Info Version", 18,
        LLVMValueAsMetadata(LLVMConstInt(g->i32, LLVMDebugMetadataVersion(), false)));
    LLVMAddModuleFlag(g->module, LLVMModuleFlagBehaviorWarning, "Dwarf Version", 13,
        LLVMValueAsMetadata(LLVMConstInt(g->i32, 4, false)));
    g->di_file = LLVMDIBuilderCreateFile(g->di, base, strlen(base), dir, strlen(dir));
    LLVMDIBuilderCreateCompileUnit(g->di, LLVMDWARFSourceLanguageC, g->di_file, "tilec", 5, true, "", 0, 0,
        "", 0, LLVMDWARFEmissionLineTablesOnly, 0, false, false, "", 0, "", 0);
    LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(g->di, g->di_file, NULL, 0, LLVMDIFlagZero);
    g->di_scope = LLVMDIBuilderCreateFunction(g->di, g->di_file, g->func->name, strlen(g->func->name), symbol,
        strlen(symbol), g->di_file, (unsigned)line, type, false, true, (unsigned)line, LLVMDIFlagZero, true);
    LLVMSetSubprogram(g->fn, g->di_scope);
    gen_loc(g, g->func->loc);
}

static void types_init(Gen *g)
{
    LLVMContextRef c = g->ctx;
    g->i1 = LLVMInt1TypeInContext(c);
    g->i8 = LLVMInt8TypeInContext(c);
    g->i16 = LLVMInt16TypeInContext(c);
    g->i32 = LLVMInt32TypeInContext(c);
    g->i64 = LLVMInt64TypeInContext(c);
    g->f16 = LLVMHalfTypeInContext(c);
    g->f32 = LLVMFloatTypeInContext(c);
    g->f64 = LLVMDoubleTypeInContext(c);
    g->ptr = LLVMPointerTypeInContext(c, 0);
    g->voidt = LLVMVoidTypeInContext(c);
}

static void param_attr(Gen *g, unsigned param, const char *name)
{
    LLVMAttributeRef a =
        LLVMCreateEnumAttribute(g->ctx, LLVMGetEnumAttributeKindForName(name, strlen(name)), 0);
    LLVMAddAttributeAtIndex(g->fn, param + 1, a);
}

LLVMModuleRef cpu_generate(
    Session *s, Plan *p, const BackendOptions *o, LLVMContextRef ctx, const char *symbol, Artifact *out)
{
    Gen gen = { .session = s,
        .arena = &s->arena,
        .plan = p,
        .func = p->func,
        .target = p->target,
        .options = o,
        .ctx = ctx },
        *g = &gen;
    types_init(g);
    g->module = LLVMModuleCreateWithNameInContext(p->func->name, ctx);
    g->b = LLVMCreateBuilderInContext(ctx);
    session_defer(s, (void (*)(void *))LLVMDisposeBuilder, g->b);
    g->windows = arena_array(g->arena, Window *, p->n_info);
    LLVMTypeRef type = LLVMFunctionType(g->i32, (LLVMTypeRef[]){ g->ptr, g->i64, g->i64, g->ptr }, 4, false);
    g->fn = LLVMAddFunction(g->module, symbol, type);
    param_attr(g, 0, "noalias");
    param_attr(g, 0, "readonly");
    param_attr(g, 3, "noalias");
    fn_vectors(g, g->fn);
    g->slots = LLVMGetParam(g->fn, 0);
    g->scratch = LLVMGetParam(g->fn, 3);
    g->entry = gen_block(g, "entry");
    g->setup = gen_block(g, "setup");
    gen_at(g, g->entry);
    debug_begin(g, symbol);
    g->failed = LLVMBuildAlloca(g->b, g->i32, "failed");
    LLVMBuildStore(g->b, LLVMConstInt(g->i32, 0, false), g->failed);
    LLVMBasicBlockRef start = gen_block(g, "start");
    gen_at(g, start);
    Loop l;
    g->linear = gen_loop(g, &l, LLVMGetParam(g->fn, 1), LLVMGetParam(g->fn, 2), 1);
    if (p->func->remap) g->linear = gen_remap(g, g->linear);
    gen_steps(g, p->body);
    gen_loop_end(g, &l);
    if (g->streams) gen_intrinsic(g, "llvm.x86.sse.sfence", NULL, 0, NULL, 0);
    LLVMBuildRet(g->b, LLVMBuildLoad2(g->b, g->i32, g->failed, ""));
    gen_at(g, g->entry);
    LLVMBuildBr(g->b, g->setup);
    gen_at(g, g->setup);
    LLVMBuildBr(g->b, start);
    if (g->di) {
        LLVMDIBuilderFinalize(g->di);
        LLVMDisposeDIBuilder(g->di);
    }
    out->slots = g->slot_list.data;
    out->n_slots = (int)g->slot_list.len;
    out->messages = g->messages.data;
    out->n_messages = (int)g->messages.len;
    out->shape = (LaunchShape){ .threads = 1, .cluster = 1, .scratch_bytes = p->scratch_bytes };
    return g->module;
}
