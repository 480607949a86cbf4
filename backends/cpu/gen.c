/* gen.c: the LLVM function of a kernel: its frame, the loop over programs and control flow. Scalars are the
 * business of scalar.c, tiles of nest.c. Values that change along control flow go through allocas, which LLVM
 * turns into registers. */
#include "backends/cpu/product/mma.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/debug.h"

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
    l->runs = false;
    gen_at(g, l->body);
    l->i = LLVMBuildPhi(g->b, LLVMTypeOf(n), "i");
    return l->i;
}

/* LLVM's strength reduction takes a tenth of the time of its code generation, and passes over counters that
 * are frozen. x86's instructions add a counter and a multiple of it to an address by themselves, so that
 * loops are as fast without, but for those of products of few rows. */
void gen_loop_end(Gen *g, Loop *l)
{
    LLVMValueRef from = l->from;
    LLVMBasicBlockRef done = gen_block(g, "done");
    LLVMTypeRef t = LLVMTypeOf(l->n);
    LLVMValueRef next = LLVMBuildNSWAdd(g->b, l->i, LLVMConstInt(t, (uint64_t)l->step, true), "");
    if (!g->target->arm && !g->reduces_strength) next = LLVMBuildFreeze(g->b, next, "");
    LLVMBasicBlockRef latch = gen_here(g);
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, next, l->n, ""), l->body, done);
    gen_at(g, l->before);
    bool runs = l->runs || (LLVMIsAConstantInt(from) && LLVMIsAConstantInt(l->n) &&
                               LLVMConstIntGetSExtValue(from) < LLVMConstIntGetSExtValue(l->n));
    if (runs) LLVMBuildBr(g->b, l->body);
    else LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntSLT, from, l->n, ""), l->body, done);
    LLVMAddIncoming(l->i, (LLVMValueRef[]){ from, next }, (LLVMBasicBlockRef[]){ l->before, latch }, 2);
    gen_at(g, done);
}

void gen_lines(Gen *g, int64_t n, LineFn *line, void *user)
{
    int lanes = plan_lanes(g->target);
    int64_t done = 0;
    if (n >= 2 * lanes) {
        Loop l;
        done = n / lanes * lanes;
        line(user, gen_loop(g, &l, gen_int(g, 0), gen_int(g, done), lanes), lanes);
        gen_loop_end(g, &l);
    }
    for (int w = lanes; w; w /= 2)
        for (; n - done >= w; done += w) line(user, gen_int(g, done), w);
}

void gen_if(Gen *g, If *f, LLVMValueRef cond)
{
    f->then = gen_block(g, "then");
    f->other = gen_block(g, "else");
    f->done = gen_block(g, "endif");
    f->has_else = false;
    LLVMBuildCondBr(g->b, cond, f->then, f->other);
    gen_at(g, f->then);
}

void gen_else(Gen *g, If *f)
{
    LLVMBuildBr(g->b, f->done);
    f->has_else = true;
    gen_at(g, f->other);
}

void gen_endif(Gen *g, If *f)
{
    LLVMBuildBr(g->b, f->done);
    if (!f->has_else) {
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

/* Sets the attributes that profilers and debuggers need: they walk through the code by its unwind tables. */
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

void gen_iteration(Gen *g, const Step *s, LLVMValueRef lo, LLVMValueRef step, LLVMValueRef t)
{
    const Value *counter = s->instr->blocks[0]->args[0];
    DType d = counter->type->dtype;
    LLVMValueRef iv = LLVMBuildAdd(g->b, lo, LLVMBuildMul(g->b, t, step, ""), "");
    plan_info(g->plan, counter)->llvm =
        dtype_bits(d) < 64 ? LLVMBuildTrunc(g->b, iv, gen_type(g, d, 1), "") : iv;
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
    keep_before(g, s);
    thin_loop_begin(g, s);
    if (!thin_blocks(g, s, lo, step, trips)) {
        LLVMValueRef t = gen_loop(g, &l, gen_int(g, 0), trips, 1);
        keep_step(g, s, t);
        gen_iteration(g, s, lo, step, t);
        load_cells(g, cells, i->blocks[0]->args + 1, i->n_results);
        debug_arguments(g, i->blocks[0]);
        gen_steps(g, s->blocks[0]);
        pass_on(g, s->blocks[0]->last, 0, s->carried, cells);
        gen_loop_end(g, &l);
    }
    thin_loop_end(g, s);
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
    debug_arguments(g, i->blocks[0]);
    gen_steps(g, s->blocks[0]);
    pass_on(g, s->blocks[0]->last, 1, s->carried, passed);
    LLVMBuildCondBr(g->b, gen_scalar(g, ir_operand(i->blocks[0]->last, 0)), body, done);
    gen_at(g, body);
    load_cells(g, passed, i->blocks[1]->args, i->n_results);
    debug_arguments(g, i->blocks[1]);
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
    const DebugPlaces *before = debug_places(g);
    If f;
    gen_if(g, &f, gen_scalar(g, ir_operand(i, 0)));
    for (int b = 0; b < 2; b++) {
        if (b) gen_else(g, &f);
        debug_return(g, before);
        gen_steps(g, s->blocks[b]);
        pass_on(g, s->blocks[b]->last, 0, s->carried, cells);
    }
    gen_endif(g, &f);
    load_results(g, cells, i);
}

void gen_steps(Gen *g, Steps *in)
{
    for (Step *s = in->first; s; s = s->next) {
        If packs;
        if (s->instr) gen_loc(g, s->instr->loc);
        LLVMValueRef wanted = in_place_packs(g, s);
        if (s->keep) wanted = wanted ? LLVMBuildAnd(g->b, wanted, s->keep->wanted, "") : s->keep->wanted;
        if (wanted) gen_if(g, &packs, wanted);
        switch (s->kind) {
        case STEP_SCALAR: gen_scalar_instr(g, s->instr); break;
        case STEP_WINDOW: memory_window(g, s->instr); break;
        case STEP_NEST: nest_emit(g, s); break;
        case STEP_TRANSPOSE: transpose_emit(g, s); break;
        case STEP_MMA: mma_emit(g, s); break;
        case STEP_SCAN: scan_emit(g, s); break;
        case STEP_COMBINED: combined_emit(g, s); break;
        case STEP_SORT: sort_emit(g, s); break;
        case STEP_FOR: gen_for(g, s); break;
        case STEP_WHILE: gen_while(g, s); break;
        case STEP_IF: gen_branch(g, s); break;
        case STEP_YIELD: break;
        }
        if (wanted) gen_endif(g, &packs);
        debug_step(g, s);
    }
}

/* --- the function ------------------------------------------------------------------------------------ */

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
    LLVMTypeRef type =
        LLVMFunctionType(g->i32, (LLVMTypeRef[]){ g->ptr, g->i64, g->i64, g->ptr, g->i32 }, 5, false);
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
    debug_frame(g);
    if (p->amx) amx_begin(g);
    Loop l;
    g->linear = gen_loop(g, &l, LLVMGetParam(g->fn, 1), LLVMGetParam(g->fn, 2), 1);
    if (p->func->remap) g->linear = gen_remap(g, g->linear);
    debug_program(g);
    gen_steps(g, p->body);
    gen_loop_end(g, &l);
    line_ends_finish(g);
    if (p->amx) amx_end(g);
    /* Arm's stores past the caches keep the order that its locks ask for. */
    if (g->streams && !g->target->arm) gen_intrinsic(g, "llvm.x86.sse.sfence", NULL, 0, NULL, 0);
    LLVMBuildRet(g->b, LLVMBuildLoad2(g->b, g->i32, g->failed, ""));
    gen_at(g, g->entry);
    LLVMBuildBr(g->b, g->setup);
    gen_at(g, g->setup);
    LLVMBuildBr(g->b, start);
    debug_end(g);
    out->slots = g->slot_list.data;
    out->n_slots = (int)g->slot_list.len;
    out->messages = g->messages.data;
    out->n_messages = (int)g->messages.len;
    out->shape = (LaunchShape){
        .threads = 1, .cluster = 1, .neighbours = p->neighbours, .scratch_bytes = p->scratch_bytes
    };
    return g->module;
}
