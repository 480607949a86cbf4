/* track.c: the calls by which a checked launch learns which program accesses which elements of out and inout
 * tensors (AccessSink of ir/abi.h): one for a window where its address is computed, one for each element of
 * an indexed access. */
#include "backends/cpu/memory/memory.h"

bool track_wanted(const Gen *g, int param)
{
    ParamKind k = g->func->params[param].kind;
    return g->options->tracked && (k == PARAM_OUT || k == PARAM_INOUT);
}

static AccessKind kind_of(const Instr *i)
{
    if (i->op == OP_LOAD || i->op == OP_GATHER) return ACCESS_READ;
    return i->op == OP_SCATTER || (i->op == OP_STORE && !ir_adds(i)) ? ACCESS_STORE : ACCESS_ATOMIC;
}

/* A constant AccessSite. */
static LLVMValueRef site(Gen *g, const Instr *i, int param)
{
    uint32_t order = kind_of(i) == ACCESS_ATOMIC ? (uint32_t)ir_attr_int(i, ATTR_SEM, SEM_RELAXED) : 0;
    const uint32_t words[] = { (uint32_t)g->n_sites++, (uint32_t)param, kind_of(i), order, i->loc.file,
        i->loc.begin, i->loc.end };
    enum { N = sizeof words / sizeof *words };
    _Static_assert(sizeof(AccessSite) == sizeof words, "one word a field");
    LLVMValueRef fields[N];
    for (int k = 0; k < N; k++) fields[k] = LLVMConstInt(g->i32, words[k], false);
    LLVMValueRef v = LLVMConstArray2(g->i32, fields, N);
    LLVMValueRef global = LLVMAddGlobal(g->module, LLVMTypeOf(v), "site");
    LLVMSetInitializer(global, v);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    return global;
}

/* Calls the function at `offset` of the launch's sink, if it has one. */
static void call(Gen *g, size_t offset, LLVMValueRef where, LLVMValueRef what)
{
    LLVMTypeRef type =
        LLVMFunctionType(g->voidt, (LLVMTypeRef[]){ g->ptr, g->ptr, g->i64, g->ptr }, 4, false);
    LLVMValueRef record = gen_slot(g, SLOT_CHECK, 0, 0, DT_U64);
    LLVMValueRef sink =
        LLVMBuildLoad2(g->b, g->ptr, gen_ptr(g, record, gen_int(g, offsetof(CheckRecord, accesses))), "");
    If f;
    LLVMSetAlignment(sink, 8);
    gen_if(g, &f, LLVMBuildIsNotNull(g->b, sink, ""));
    LLVMValueRef fn = LLVMBuildLoad2(g->b, g->ptr, gen_ptr(g, sink, gen_int(g, (int64_t)offset)), "");
    LLVMSetAlignment(fn, 8);
    LLVMBuildCall2(g->b, type, fn, (LLVMValueRef[]){ sink, where, g->linear, what }, 4, "");
    gen_endif(g, &f);
}

static void put(Gen *g, LLVMValueRef to, size_t offset, LLVMValueRef v)
{ LLVMSetAlignment(LLVMBuildStore(g->b, v, gen_ptr(g, to, gen_int(g, (int64_t)offset))), 8); }

void track_window(Gen *g, const Window *w)
{
    If f;
    if (!track_wanted(g, w->m.param)) return;
    LLVMTypeRef type = LLVMArrayType2(g->i64, sizeof(AccessWindow) / 8);
    LLVMValueRef to = gen_alloca(g, type, "window");
    put(g, to, offsetof(AccessWindow, base), w->base);
    put(g, to, offsetof(AccessWindow, rank), gen_int(g, w->rank));
    for (int a = 0; a < w->rank; a++) {
        size_t at = 8 * (size_t)a;
        put(g, to, offsetof(AccessWindow, stride) + at, w->stride[a]);
        put(g, to, offsetof(AccessWindow, lo) + at, w->lo[a] ? w->lo[a] : gen_int(g, 0));
        put(g, to, offsetof(AccessWindow, hi) + at, w->hi[a] ? w->hi[a] : gen_int(g, w->shape[a]));
    }
    if (w->outside) gen_if(g, &f, LLVMBuildNot(g->b, w->outside, ""));
    call(g, offsetof(AccessSink, window), site(g, w->instr, w->m.param), to);
    if (w->outside) gen_endif(g, &f);
}

void track_element(Gen *g, const Instr *i, int param, LLVMValueRef ok, LLVMValueRef ptr, int lanes)
{
    If f;
    if (!track_wanted(g, param)) return;
    LLVMValueRef where = site(g, i, param);
    for (int k = 0; k < lanes; k++) {
        LLVMValueRef at = gen_int(g, k);
        gen_if(g, &f, lanes == 1 ? ok : LLVMBuildExtractElement(g->b, ok, at, ""));
        call(g, offsetof(AccessSink, element), where,
            lanes == 1 ? ptr : LLVMBuildExtractElement(g->b, ptr, at, ""));
        gen_endif(g, &f);
    }
}
