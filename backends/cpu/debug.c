/* debug.c: debug information of a kernel in DWARF: lines of the .tile file, and the names of the frame.
 *
 * Arguments, extents, consts and scalars are stored to a cell of the frame whenever they change, so that a
 * debugger finds them in optimized code too. The stores are volatile and exist only with debug information. A
 * tile is an array type; its value is in the scratch memory while it has a buffer there that nothing has
 * overwritten, and `<optimized out>` otherwise. A value has the name that ir_set_name gave it; values of one
 * name and type are one variable. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/debug.h"

enum { OP_DEREF = 0x06, OP_PLUS_UCONST = 0x23 };                                        /* DW_OP_* */
enum { ENCODED_BOOL = 2, ENCODED_FLOAT = 4, ENCODED_SIGNED = 5, ENCODED_UNSIGNED = 7 }; /* DW_ATE_* */

typedef struct DebugVar DebugVar;
struct DebugVar {
    const char *name;
    const Type *type;
    LLVMMetadataRef info;
    LLVMValueRef cell; /* scalars: the place of the value in the frame */
    const Buf *buf;    /* tiles: the buffer that holds the value now; NULL: none does */
    DebugVar *next;
};

struct DebugName {
    Value *value;
    DebugName *next;
};

struct Debug {
    LLVMMetadataRef types[DT_COUNT];
    DebugVar *vars;
    LLVMValueRef scratch; /* the cell with the address of the scratch memory */
    unsigned line, n_args;
};

struct DebugPlaces {
    const DebugVar *first; /* of the variables that there were */
    const Buf *buf[];
};

/* --- types ------------------------------------------------------------------------------------------- */

static LLVMMetadataRef base_type(Gen *g, const char *name, int bytes, unsigned encoding)
{
    return LLVMDIBuilderCreateBasicType(
        g->di, name, strlen(name), 8 * (uint64_t)bytes, encoding, LLVMDIFlagZero);
}

static LLVMMetadataRef name_type(Gen *g, const char *name, LLVMMetadataRef type)
{
    return LLVMDIBuilderCreateTypedef(
        g->di, type, name, strlen(name), g->di_file, g->debug->line, g->di_scope, 0);
}

/* gdb knows bfloat16 by the name __bf16. It has no type for fp8, which it shows as bits. */
static LLVMMetadataRef element_type(Gen *g, DType d)
{
    LLVMMetadataRef *t = &g->debug->types[d];
    if (*t) return *t;
    int bytes = dtype_bytes(d);
    unsigned encoding = d == DT_BOOL                       ? ENCODED_BOOL
                        : d == DT_F8E4M3 || d == DT_F8E5M2 ? ENCODED_UNSIGNED
                        : dtype_is_float(d)                ? ENCODED_FLOAT
                        : dtype_is_signed(d)               ? ENCODED_SIGNED
                                                           : ENCODED_UNSIGNED;
    if (d == DT_BF16) return *t = name_type(g, dtype_name(d), base_type(g, "__bf16", bytes, encoding));
    return *t = base_type(g, dtype_name(d), bytes, encoding);
}

static LLVMMetadataRef array_type(Gen *g, LLVMMetadataRef of, int bytes, const int64_t *shape, int rank)
{
    LLVMMetadataRef axes[TILE_MAX_RANK];
    uint64_t size = 8 * (uint64_t)bytes;
    for (int a = 0; a < rank; a++) {
        axes[a] = LLVMDIBuilderGetOrCreateSubrange(g->di, 0, shape[a]);
        size *= (uint64_t)shape[a];
    }
    return LLVMDIBuilderCreateArrayType(g->di, size, 0, of, axes, (unsigned)rank);
}

static LLVMMetadataRef value_type(Gen *g, const Type *t)
{
    LLVMMetadataRef of = element_type(g, t->dtype);
    if (t->kind != TYPE_TILE || !t->rank) return of;
    return array_type(g, of, dtype_bytes(t->dtype), t->shape, t->rank);
}

/* struct { T *data; index extent[rank], stride[rank]; }, all words of 8 bytes. */
static LLVMMetadataRef tensor_type(Gen *g, const Type *t)
{
    LLVMMetadataRef members[3],
        pointer = LLVMDIBuilderCreatePointerType(g->di, element_type(g, t->dtype), 64, 64, 0, "", 0);
    static const char *const names[3] = { "data", "extent", "stride" };
    uint64_t at = 0, size;
    int64_t rank = t->rank;
    int n = rank ? 3 : 1;
    for (int k = 0; k < n; k++, at += size) {
        size = 64 * (k ? (uint64_t)rank : 1);
        LLVMMetadataRef type = k ? array_type(g, element_type(g, DT_INDEX), 8, &rank, 1) : pointer;
        members[k] = LLVMDIBuilderCreateMemberType(g->di, g->di_scope, names[k], strlen(names[k]), g->di_file,
            g->debug->line, size, 64, at, LLVMDIFlagZero, type);
    }
    const char *name = type_string(g->session, t);
    return LLVMDIBuilderCreateStructType(g->di, g->di_scope, name, strlen(name), g->di_file, g->debug->line,
        at, 64, LLVMDIFlagZero, NULL, members, (unsigned)n, 0, NULL, "", 0);
}

/* --- variables --------------------------------------------------------------------------------------- */

static LLVMMetadataRef here(Gen *g)
{
    LLVMMetadataRef at = LLVMGetCurrentDebugLocation2(g->b);
    return at ? at : LLVMDIBuilderCreateDebugLocation(g->ctx, g->debug->line, 0, g->di_scope, NULL);
}

LLVMMetadataRef debug_setup(Gen *g)
{
    if (!g->di) return NULL;
    LLVMMetadataRef was = LLVMGetCurrentDebugLocation2(g->b);
    gen_loc(g, g->func->loc);
    return was;
}

void debug_resume(Gen *g, LLVMMetadataRef was)
{
    if (g->di) LLVMSetCurrentDebugLocation2(g->b, was);
}

/* From here on, the variable is where the expression leads from `at`. */
static void locate(Gen *g, const DebugVar *v, LLVMValueRef at, uint64_t *ops, size_t n)
{
    LLVMDIBuilderInsertDbgValueRecordAtEnd(
        g->di, at, v->info, LLVMDIBuilderCreateExpression(g->di, ops, n), here(g), gen_here(g));
}

static LLVMMetadataRef local(Gen *g, const char *name, LLVMMetadataRef type)
{
    return LLVMDIBuilderCreateAutoVariable(
        g->di, g->di_scope, name, strlen(name), g->di_file, g->debug->line, type, true, LLVMDIFlagZero, 0);
}

static LLVMMetadataRef argument(Gen *g, const char *name, LLVMMetadataRef type)
{
    return LLVMDIBuilderCreateParameterVariable(g->di, g->di_scope, name, strlen(name), ++g->debug->n_args,
        g->di_file, g->debug->line, type, true, LLVMDIFlagZero);
}

static LLVMValueRef set_cell(Gen *g, LLVMValueRef to, LLVMValueRef v, DType d)
{
    LLVMValueRef s = d == DT_COUNT ? LLVMBuildStore(g->b, v, to) : gen_store(g, d, v, to);
    LLVMSetVolatile(s, true);
    return s;
}

/* A variable that is in memory for the whole function. */
static void declare(Gen *g, LLVMValueRef cell, LLVMMetadataRef info)
{
    LLVMDIBuilderInsertDeclareRecordAtEnd(
        g->di, cell, info, LLVMDIBuilderCreateExpression(g->di, NULL, 0), here(g), gen_here(g));
}

static void declare_scalar(Gen *g, LLVMMetadataRef info, LLVMValueRef v, DType d)
{
    LLVMValueRef cell = gen_alloca(g, gen_mem_type(g, d, 1), "shown");
    set_cell(g, cell, v, d);
    declare(g, cell, info);
}

static DebugVar *variable(Gen *g, const Value *v)
{
    Debug *d = g->debug;
    for (DebugVar *x = d->vars; x; x = x->next)
        if (x->type == v->type && !strcmp(x->name, v->name)) return x;
    DebugVar *x = arena_new(g->arena, DebugVar);
    *x = (DebugVar){ .name = v->name, .type = v->type, .next = d->vars };
    x->info = local(g, v->name, value_type(g, v->type));
    if (v->type->kind == TYPE_SCALAR) x->cell = gen_alloca(g, gen_mem_type(g, v->type->dtype, 1), v->name);
    return d->vars = x;
}

static bool overlap(const Buf *a, const Buf *b)
{
    const Buf *x = buf_root((Buf *)a), *y = buf_root((Buf *)b);
    return x == y || (x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes);
}

/* Values in this memory are no longer there. */
static void overwritten(Gen *g, const Buf *b)
{
    for (DebugVar *x = b ? g->debug->vars : NULL; x; x = x->next)
        if (x->buf && overlap(x->buf, b)) {
            locate(g, x, LLVMGetPoison(g->ptr), NULL, 0);
            x->buf = NULL;
        }
}

/* The variable that has the name of `v` shows `v` from here on. */
static void show(Gen *g, Value *v)
{
    if (!v->name || (v->type->kind != TYPE_SCALAR && v->type->kind != TYPE_TILE)) return;
    const ValInfo *info = plan_info(g->plan, v);
    DebugVar *x = variable(g, v);
    if (x->cell) {
        if (!info->llvm) return;
        set_cell(g, x->cell, info->llvm, v->type->dtype);
        locate(g, x, x->cell, (uint64_t[]){ OP_DEREF }, 1);
        return;
    }
    const Buf *b = info->buf;
    if (!b || b->form != FORM_DENSE || b->dtype != v->type->dtype) {
        if (x->buf) locate(g, x, LLVMGetPoison(g->ptr), NULL, 0);
        x->buf = NULL;
        return;
    }
    overwritten(g, b);
    x->buf = b;
    uint64_t offset = (uint64_t)buf_root((Buf *)b)->offset;
    locate(g, x, g->debug->scratch, (uint64_t[]){ OP_DEREF, OP_PLUS_UCONST, offset, OP_DEREF }, 4);
}

/* --- the frame --------------------------------------------------------------------------------------- */

/* Notes each named value at the step that makes it available, and declares those that no step does. */
static void collect(Gen *g, const Block *b);

static void collect_value(Gen *g, Value *v)
{
    if (!v->name || (v->type->kind != TYPE_SCALAR && v->type->kind != TYPE_TILE)) return;
    Step *s = plan_info(g->plan, v)->avail;
    variable(g, v);
    if (!s) return;
    DebugName *n = arena_new(g->arena, DebugName);
    *n = (DebugName){ v, s->names };
    s->names = n;
}

static void collect(Gen *g, const Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_results; k++) collect_value(g, &i->results[k]);
        if (i->op != OP_FOR && i->op != OP_WHILE && i->op != OP_IF) continue;
        for (int k = 0; k < i->n_blocks; k++) collect(g, i->blocks[k]);
    }
}

static void show_consts(Gen *g)
{
    for (int k = 0; k < g->func->n_consts; k++) {
        const KernelConst *c = &g->func->consts[k];
        Scalar v = dtype_is_float(c->dtype) ? scalar_float(c->f) : scalar_int(c->i);
        declare_scalar(
            g, local(g, c->name, element_type(g, c->dtype)), gen_const(g, c->dtype, v, 1), c->dtype);
    }
}

static void show_tensor(Gen *g, int p)
{
    const Param *param = &g->func->params[p];
    int rank = param->type->rank;
    LLVMValueRef cell = gen_alloca(g, LLVMArrayType2(g->i64, 1 + 2 * (unsigned)rank), param->name);
    set_cell(g, cell, gen_slot(g, SLOT_DATA, p, 0, DT_U64), DT_COUNT);
    for (int a = 0; a < rank; a++) {
        set_cell(g, gen_ptr(g, cell, gen_int(g, 8 + 8 * a)), gen_extent(g, param->dims[a]), DT_COUNT);
        set_cell(g, gen_ptr(g, cell, gen_int(g, 8 + 8 * (rank + a))), gen_stride(g, p, a), DT_COUNT);
    }
    declare(g, cell, argument(g, param->name, tensor_type(g, param->type)));
}

void debug_frame(Gen *g)
{
    if (!g->di) return;
    const Func *f = g->func;
    LLVMBasicBlockRef back = gen_here(g);
    gen_at(g, g->setup);
    g->debug->scratch = gen_alloca(g, g->ptr, "scratch");
    set_cell(g, g->debug->scratch, g->scratch, DT_COUNT);
    for (int p = 0; p < f->n_params; p++) {
        const Param *param = &f->params[p];
        DType d = param->type->dtype;
        if (param->type->kind == TYPE_SCALAR)
            declare_scalar(
                g, argument(g, param->name, element_type(g, d)), gen_slot(g, SLOT_SCALAR, p, 0, d), d);
        else if (param->type->kind == TYPE_TENSOR) show_tensor(g, p);
    }
    for (int k = 0; k < f->n_dims; k++)
        if (f->dims[k].name)
            declare_scalar(
                g, local(g, f->dims[k].name, element_type(g, DT_INDEX)), gen_extent(g, k), DT_INDEX);
    show_consts(g);
    collect(g, g->func->body);
    gen_at(g, back);
}

void debug_program(Gen *g)
{
    if (!g->di) return;
    int64_t rank = gen_grid_rank(g);
    LLVMMetadataRef type = element_type(g, DT_INDEX);
    if (rank > 1) type = array_type(g, type, 8, &rank, 1);
    LLVMValueRef cell = gen_alloca(g, LLVMArrayType2(g->i64, (uint64_t)rank), "program_id");
    for (int a = 0; a < rank; a++)
        set_cell(g, gen_ptr(g, cell, gen_int(g, 8 * a)), gen_program_id(g, a), DT_COUNT);
    declare(g, cell, local(g, "program_id", type));
}

void debug_arguments(Gen *g, const Block *b)
{
    for (int k = 0; g->di && k < b->n_args; k++) show(g, b->args[k]);
}

void debug_step(Gen *g, const Step *s)
{
    if (!g->di) return;
    for (const Sink *k = s->sinks; k; k = k->next) {
        overwritten(g, k->buf);
        overwritten(g, k->aux);
    }
    overwritten(g, s->buf);
    overwritten(g, s->aux);
    for (const DebugName *n = s->names; n; n = n->next) show(g, n->value);
}

const DebugPlaces *debug_places(Gen *g)
{
    if (!g->di) return NULL;
    size_t n = 0;
    for (const DebugVar *x = g->debug->vars; x; x = x->next) n++;
    DebugPlaces *p = arena_alloc(g->arena, sizeof *p + n * sizeof *p->buf);
    p->first = g->debug->vars;
    n = 0;
    for (const DebugVar *x = g->debug->vars; x; x = x->next) p->buf[n++] = x->buf;
    return p;
}

void debug_return(Gen *g, const DebugPlaces *p)
{
    if (!g->di) return;
    size_t n = 0;
    bool was = false;
    for (DebugVar *x = g->debug->vars; x; x = x->next) {
        was |= x == p->first;
        x->buf = was ? p->buf[n++] : NULL;
    }
}

void debug_begin(Gen *g, const char *symbol)
{
    const Source *src = g->func->loc.file ? diag_source(g->session, g->func->loc.file) : NULL;
    if (!g->options->debug_info || !src) return;
    int line, column;
    diag_position(g->session, g->func->loc, &line, &column);
    const char *slash = strrchr(src->name, '/'), *base = slash ? slash + 1 : src->name;
    const char *dir = slash            ? arena_strndup(g->arena, src->name, (size_t)(slash - src->name))
                      : src->directory ? src->directory
                                       : ".";
    g->debug = arena_new(g->arena, Debug);
    *g->debug = (Debug){ .line = (unsigned)line };
    g->di = LLVMCreateDIBuilder(g->module);
    LLVMAddModuleFlag(g->module, LLVMModuleFlagBehaviorWarning, "Debug Info Version", 18,
        LLVMValueAsMetadata(LLVMConstInt(g->i32, LLVMDebugMetadataVersion(), false)));
    LLVMAddModuleFlag(g->module, LLVMModuleFlagBehaviorWarning, "Dwarf Version", 13,
        LLVMValueAsMetadata(LLVMConstInt(g->i32, 4, false)));
    g->di_file = LLVMDIBuilderCreateFile(g->di, base, strlen(base), dir, strlen(dir));
    LLVMDIBuilderCreateCompileUnit(g->di, LLVMDWARFSourceLanguageC, g->di_file, "tilec", 5, true, "", 0, 0,
        "", 0, LLVMDWARFEmissionFull, 0, false, false, "", 0, "", 0);
    LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(g->di, g->di_file, NULL, 0, LLVMDIFlagZero);
    g->di_scope = LLVMDIBuilderCreateFunction(g->di, g->di_file, g->func->name, strlen(g->func->name), symbol,
        strlen(symbol), g->di_file, (unsigned)line, type, false, true, (unsigned)line, LLVMDIFlagZero, true);
    LLVMSetSubprogram(g->fn, g->di_scope);
    gen_loc(g, g->func->loc);
}

void debug_end(Gen *g)
{
    if (!g->di) return;
    LLVMDIBuilderFinalize(g->di);
    LLVMDisposeDIBuilder(g->di);
}
