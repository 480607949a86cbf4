/* emit.c: kernel IR to C for CUDA and HIP: names, scalars, control flow and the frame around a kernel.
 * Tiles, memory and matrix products have files of their own (emit_tile.c, emit_mem.c, emit_shared.c, emit_mma.c, emit_hopper.c); the functions a
 * kernel calls come from the target's prelude (backends/cuda/prelude.c, backends/hip/prelude.c). */
#include "backends/gpu/gpu.h"
#include "backends/gpu/emit.h"
#include <ctype.h>
#include <math.h>

/* --- text ------------------------------------------------------------------------------------------------------------- */

void line(Emit *e, const char *fmt, ...)
{
    va_list ap;
    if (e->measure) return;
    for (int k = 0; k < e->indent; k++) text_puts(e->out, "    ");
    va_start(ap, fmt);
    text_vprintf(e->out, fmt, ap);
    va_end(ap);
    text_putc(e->out, '\n');
}

const char *str(Emit *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *r = arena_vprintf(&e->s->arena, fmt, ap);
    va_end(ap);
    return r;
}

const char *use(Emit *e, const char *name)
{
    for (size_t k = 0; k < e->used.len; k++) if (!strcmp(e->used.data[k], name)) return e->used.data[k];
    vec_push(&e->s->arena, &e->used, name);
    return name;
}

const char *tmp(Emit *e, const char *stem) { return str(e, "%s_t%d", stem, e->next_tmp++); }      /* values end in _number */

const char *ctype(DType d)
{
    static const char *const names[DT_COUNT] = {
        [DT_BOOL] = "bool", [DT_I8] = "i8", [DT_I16] = "i16", [DT_I32] = "i32", [DT_I64] = "i64", [DT_U8] = "u8", [DT_U16] = "u16",
        [DT_U32] = "u32", [DT_U64] = "u64", [DT_INDEX] = "i64", [DT_F8E4M3] = "float", [DT_F8E5M2] = "float", [DT_F16] = "float",
        [DT_BF16] = "float", [DT_F32] = "float", [DT_F64] = "double",
    };
    return names[d];
}

/* sizeof ctype(d): small floats are floats in registers, and in scratch that is a C array */
int ctype_bytes(DType d) { return dtype_is_float(d) && d != DT_F64 ? 4 : d == DT_BOOL ? 1 : dtype_bytes(d); }

int per_word(DType d)
{
    return d == DT_BOOL ? 1 : dtype_bits(d) >= 32 ? 1 : 32 / dtype_bits(d);
}

const char *array_type(DType d) { return per_word(d) > 1 ? "u32" : ctype(d); }
int array_len(DType d, int regs) { return (regs + per_word(d) - 1) / per_word(d); }

static const char *float_literal(Emit *e, DType d, double x)
{
    if (isnan(x)) return d == DT_F64 ? str(e, "%s(0x7ff8000000000000ull)", use(e, "double_bits")) : str(e, "%s(0x7fc00000u)", use(e, "float_bits"));
    if (isinf(x)) return d == DT_F64 ? str(e, "%s(1.0 / 0.0)", x < 0 ? "-" : "") : str(e, "%s(%s)", use(e, "float_bits"), x < 0 ? "0xff800000u" : "0x7f800000u");
    const char *t = str(e, d == DT_F64 ? "%.17g" : "%.9g", x);
    bool dot = strpbrk(t, ".e") != NULL;
    return str(e, "%s%s%s", t, dot ? "" : ".0", d == DT_F64 ? "" : "f");
}

const char *const_expr(Emit *e, DType d, const Instr *i)
{
    const Attr *f = ir_attr(i, ATTR_FVALUE), *v = ir_attr(i, ATTR_IVALUE);
    if (f) return float_literal(e, d, f->f);
    int64_t x = v ? v->i : 0;
    switch ((int)d) {
    case DT_BOOL: return x ? "true" : "false";
    case DT_I8: case DT_I16: case DT_I32:
        return x == INT32_MIN ? "(-2147483647 - 1)" : x < 0 ? str(e, "(%d)", (int)x) : str(e, "%d", (int)x);
    case DT_U8: case DT_U16: case DT_U32: return str(e, "%uu", (unsigned)(x & (dtype_bits(d) == 32 ? 0xffffffffu : (1u << dtype_bits(d)) - 1)));
    case DT_U64: return str(e, "%lluull", (unsigned long long)x);
    default: return x == INT64_MIN ? "(-9223372036854775807ll - 1)" : x < 0 ? str(e, "(%lldll)", (long long)x) : str(e, "%lldll", (long long)x);
    }
}

/* Would a parameter of this name hide what the emitted code calls so? */
static bool reserved(const char *n)
{
    static const char *const words[] = {
        "tid", "lane", "warp", "block", "shared", "shared_base", "check", "tickets", "workspace", "SCRATCH", "NOWHERE", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
        "float", "double", "int", "char", "short", "long", "unsigned", "signed", "bool", "void", "const", "volatile", "static", "extern", "inline", "return", "if", "else", "for",
        "while", "do", "switch", "case", "default", "break", "continue", "goto", "struct", "union", "enum", "typedef", "sizeof", "true", "false", "this", "new", "delete", "class",
        "template", "typename", "namespace", "using", "operator", "public", "private", "protected", "virtual", "friend", "register", "restrict", "auto", "asm", "try", "catch", "throw",
        "exp", "log", "sin", "cos", "tanh", "erf", "sqrt", "rsqrt", "floor", "ceil", "rint", "fabs", "fma", "fmin", "fmax", "printf", "min", "max", "abs", "uniform", "philox", "ex2",
    };
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) if (!strcmp(n, words[k])) return true;
    size_t len = strlen(n), digits = 0;
    while (digits < len && isdigit((unsigned char)n[len - 1 - digits])) digits++;
    if (len - digits <= 1) return islower((unsigned char)*n);                               /* counters and coordinates: i, v, c0 */
    return digits && (n[len - 1 - digits] == '_' || n[len - 1 - digits] == 't');
}

const char *slot_name(Emit *e, SlotKind kind, int param, int index, DType d)
{
    bool seen = false;
    for (size_t k = 0; k < e->slots.len; k++) {
        const Slot *s = &e->slots.data[k];
        seen |= s->kind == kind && s->param == param && s->index == index;
    }
    if (!seen) vec_push(&e->s->arena, &e->slots, ((Slot){ kind, param, index, d }));
    const Param *p = &e->f->params[param];
    switch (kind) {
    case SLOT_DATA: case SLOT_SCALAR: return reserved(p->name) ? str(e, "%s_", p->name) : p->name;
    case SLOT_EXTENT: return e->f->dims[index].name ? str(e, "%s_", e->f->dims[index].name) : str(e, "dim%d", index);
    case SLOT_STRIDE: return str(e, "%s_stride%d", p->name, index);
    case SLOT_GRID: return str(e, "grid%d", index);
    case SLOT_TENSOR_MAP: return str(e, "%s_map%d", p->name, index);
    case SLOT_CHECK: return "check";
    case SLOT_TICKETS: return "tickets";
    case SLOT_WORKSPACE: return "workspace";
    case SLOT_PRINT: break;     /* the CPU only */
    }
    return "";
}

/* Values without a name in the spec are called after what makes them; those of loops after what they carry. */
static const char *stem_of(const Value *v)
{
    const Instr *d = v->def;
    if (v->name) return v->name;
    if (!d) return v->block && v->block->parent && v->block->parent->op == OP_FOR && v->index == 0 ? "step" : "carried";
    if (d->op == OP_FOR && d->blocks[0]->args[v->index + 1]->name) return d->blocks[0]->args[v->index + 1]->name;
    if (d->op == OP_CONVERT || d->op == OP_CAST)
        if (ir_operand(d, 0)->name) return ir_operand(d, 0)->name;
    return op_info[d->op].name;
}

const char *name_of(Emit *e, const Value *v)
{
    if (e->storage[v->id]) return e->storage[v->id];
    const Instr *d = v->def;
    if (!d && v->block == e->f->body) return slot_name(e, SLOT_SCALAR, v->index, 0, v->type->dtype);
    if (d && v->type->kind == TYPE_SCALAR) {
        const char *cast = v->type->dtype == DT_I32 ? "(i32)" : "";
        switch ((int)d->op) {
        case OP_CONST: return const_expr(e, v->type->dtype, d);
        case OP_DIM: {
            const Dim *dim = &e->f->dims[ir_attr_int(d, ATTR_DIM, 0)];
            if (dim->extent >= 0) return str(e, "%lld%s", (long long)dim->extent, *cast ? "" : "ll");
            return str(e, "%s%s", cast, slot_name(e, SLOT_EXTENT, 0, (int)ir_attr_int(d, ATTR_DIM, 0), DT_INDEX));
        }
        case OP_STRIDE: return str(e, "%s%s", cast, slot_name(e, SLOT_STRIDE, (int)ir_attr_int(d, ATTR_PARAM, 0), (int)ir_attr_int(d, ATTR_AXIS, 0), DT_INDEX));
        case OP_NUM_PROGRAMS: {
            int64_t axis = ir_attr_int(d, ATTR_AXIS, 0);
            if (axis >= 0) return str(e, "%s%s", cast, slot_name(e, SLOT_GRID, 0, (int)axis, DT_INDEX));
            const char *x = NULL;
            int n = e->f->grid ? ir_terminator(e->f->grid)->n_operands : 1;
            for (int a = 0; a < n; a++) {
                const char *g = slot_name(e, SLOT_GRID, 0, a, DT_INDEX);
                x = x ? str(e, "%s * %s", x, g) : g;
            }
            return str(e, "%s(%s)", cast, x);
        }
        case OP_PROGRAM: case OP_CTA_ID: return str(e, "(%s)%s", ctype(v->type->dtype), cta_id(e));
        case OP_CLUSTER_RANK: return str(e, "(%s)block", ctype(v->type->dtype));
        case OP_NUM_CTAS: return str(e, "(%s)%s", ctype(v->type->dtype), cta_count(e));
        default: break;
        }
    }
    return str(e, "%s_%u", stem_of(v), v->id);
}

void barrier(Emit *e)
{
    if (e->barrier_id) line(e, "%s(%d, %d);", use(e, "bar_sync"), e->barrier_id, e->threads);
    else line(e, "%s();", is_hip(e) ? use(e, "block_barrier") : "__syncthreads");
}

void memory_barrier(Emit *e)
{
    if (is_hip(e)) line(e, "%s();", use(e, "memory_barrier"));
    else barrier(e);
}

const char *shared_pointer(Emit *e, const char *type, int64_t at)
{
    const char *n = tmp(e, "part");
    if (is_hip(e)) line(e, "const auto %s = %s(%s, shared_base + SCRATCH + %lld);", n, use(e, "LDS"), type, (long long)at);
    else line(e, "%s *const %s = (%s *)(shared + SCRATCH + %lld);", type, n, type, (long long)at);
    return n;
}

bool is_hip(const Emit *e) { return e->target->kind == TARGET_HIP; }
const char *cta_id(Emit *e) 
{
    int ctas = e->plan->cluster > 1 ? e->plan->cluster : e->plan->multicast;        /* of a cluster, which takes one program or one ticket */
    if (ctas > 1) return str(e, "(blockIdx.x / %d)", ctas);
    return is_hip(e) ? str(e, "%s()", use(e, "block_id")) : "blockIdx.x";
}

const char *cta_count(Emit *e)
{
    int ctas = e->plan->cluster > 1 ? e->plan->cluster : e->plan->multicast;
    if (ctas > 1) return str(e, "(gridDim.x / %d)", ctas);
    return is_hip(e) ? str(e, "%s()", use(e, "block_count")) : "gridDim.x";
}


int64_t scratch(Emit *e, int64_t bytes)
{
    if (bytes <= e->scratch_bytes) return 0;
    const Instr *i = e->here;
    const Type *type = !i ? NULL : i->n_results ? ir_result(i)->type : NULL;
    for (int k = 0; i && !type && k < i->n_operands; k++) if (ir_operand(i, k)->type->kind == TYPE_TILE) type = ir_operand(i, k)->type;
    e->scratch_use = (ScratchUse){ i ? i->loc : (Loc){ 0 }, type, bytes };
    e->scratch_bytes = bytes;
    return 0;
}

/* --- scalar expressions --------------------------------------------------------------------------------------------------- */

const char *round_to(Emit *e, DType d, const char *x)
{
    return dtype_is_float(d) && dtype_bits(d) < 32 && !e->raw ? str(e, "%s(%s)", use(e, str(e, "round_%s", dtype_name(d))), x) : x;
}

const char *cast_expr(Emit *e, DType from, DType to, const char *x)
{
    if (from == to || (to == DT_I32 && !strncmp(x, "(i32)", 5) && !strpbrk(x + 5, " (?"))) return x;
    if (to == DT_BOOL) return str(e, "(%s != 0)", x);
    if (dtype_is_float(to)) {
        if (to == DT_F64) return str(e, "(double)(%s)", x);
        bool exact = dtype_is_float(from) && dtype_bits(from) < dtype_bits(to) && to == DT_F32;
        if (exact) return x;
        if (to == DT_F32) return str(e, "(float)(%s)", x);
        /* narrow floats round once: from f64 and wide integers by a conversion of their own */
        if (from == DT_F64) return str(e, "%s(%s)", use(e, str(e, "round_%s_f64", dtype_name(to))), x);
        if (dtype_is_int(from) && dtype_bits(from) > 16) return str(e, "%s((double)(%s))", use(e, str(e, "round_%s_f64", dtype_name(to))), x);
        if (!dtype_is_float(from) && dtype_bits(from) <= 8 && dtype_bits(to) == 16) return str(e, "(float)(%s)", x);     /* 8 bits fit either's mantissa */
        return round_to(e, to, dtype_is_float(from) ? x : str(e, "(float)(%s)", x));
    }
    if (dtype_is_float(from))
        return str(e, "%s(%s)", use(e, str(e, "%s_to_%s", from == DT_F64 ? "f64" : "f32", to == DT_INDEX ? "i64" : dtype_name(to))), x);
    return str(e, "(%s)(%s)", ctype(to), x);
}

const char *wrapped(Emit *e, DType d, const char *op, const char *a, const char *b)
{
    switch ((int)d) {
    case DT_INDEX: case DT_U32: case DT_U64: return str(e, "(%s %s %s)", a, op, b);
    case DT_I32: return str(e, "(i32)((u32)%s %s (u32)%s)", a, op, b);
    case DT_I64: return str(e, "(i64)((u64)%s %s (u64)%s)", a, op, b);
    default: return str(e, "(%s)(%s %s %s)", ctype(d), a, op, b);
    }
}

static const char *div_expr(Emit *e, const Instr *i, DType d, const char *a, const char *b, const char *op)
{
    int64_t c;
    if (ir_is_const(ir_operand(i, 1), &c) && c != 0 && c != -1) return str(e, "(%s)(%s %s %s)", ctype(d), a, op, b);
    return str(e, "%s(%s, %s)", use(e, str(e, "%s_%s", *op == '/' ? "div" : "rem", d == DT_INDEX ? "i64" : dtype_name(d))), a, b);
}

/* a op b of i32 where ranges prove that it does not wrap reads as it stands. */
static const char *integer(Emit *e, const Instr *i, DType d, const char *op, const char *a, const char *b)
{
    if (d == DT_I32) {
        if (!e->ranges) e->ranges = ranges_new(e->f);
        RangeInfo r = range_of(e->ranges, ir_result(i));
        if (r.lo > INT32_MIN && r.hi < INT32_MAX) return str(e, "(%s %s %s)", a, op, b);
    }
    return wrapped(e, d, op, a, b);
}

const char *op_expr(Emit *e, const Instr *i, const char *const *x)
{
    const Value *r = ir_result(i);
    DType d = i->n_operands ? ir_operand(i, 0)->type->dtype : r->type->dtype, rd = r->type->dtype;
    bool fl = dtype_is_float(d), f64 = d == DT_F64;
    const char *sfx = f64 ? "f64" : "f32", *name = dtype_name(d == DT_INDEX ? DT_I64 : d);
#define ROUND(text) round_to(e, rd, (text))
    switch ((int)i->op) {
    case OP_ADD: return fl ? ROUND(str(e, "(%s + %s)", x[0], x[1])) : integer(e, i, d, "+", x[0], x[1]);
    case OP_SUB: return fl ? ROUND(str(e, "(%s - %s)", x[0], x[1])) : integer(e, i, d, "-", x[0], x[1]);
    case OP_MUL: return fl ? ROUND(str(e, "(%s * %s)", x[0], x[1])) : integer(e, i, d, "*", x[0], x[1]);
    case OP_DIV:
        if (!fl) return div_expr(e, i, d, x[0], x[1], "/");
        if (ir_attr_int(i, ATTR_APPROX, 0) && !f64) return ROUND(str(e, "(%s * %s(%s))", x[0], use(e, "rcp_approx"), x[1]));
        return f64 ? str(e, "(%s / %s)", x[0], x[1]) : ROUND(str(e, "%s(%s, %s)", use(e, "div_f32"), x[0], x[1]));
    case OP_REM: return div_expr(e, i, d, x[0], x[1], "%");
    case OP_CDIV: {
        int64_t c;
        if (ir_is_const(ir_operand(i, 1), &c) && c > 0) return str(e, "((%s + %lld) / %s)", x[0], (long long)c - 1, x[1]);
        return str(e, "%s(%s, %s)", use(e, str(e, "cdiv_%s", name)), x[0], x[1]);
    }
    case OP_NEG: return fl ? str(e, "(-%s)", x[0]) : wrapped(e, d, "-", "0", x[0]);
    case OP_ABS: return fl ? str(e, "%s(%s)", use(e, f64 ? "abs_f64" : "abs_f32"), x[0]) : dtype_is_signed(d) ? str(e, "(%s < 0 ? %s : %s)", x[0], wrapped(e, d, "-", "0", x[0]), x[0]) : x[0];
    case OP_FMA: return fl ? ROUND(str(e, "%s(%s, %s, %s)", use(e, f64 ? "fma_f64" : "fma_f32"), x[0], x[1], x[2])) : wrapped(e, d, "+", wrapped(e, d, "*", x[0], x[1]), x[2]);
    case OP_MIN: case OP_MAX: {
        const char *m = i->op == OP_MIN ? "min" : "max";
        if (fl) return str(e, "%s(%s, %s)", use(e, str(e, "%s_%s", m, sfx)), x[0], x[1]);
        return str(e, "(%s %s %s ? %s : %s)", x[0], i->op == OP_MIN ? "<" : ">", x[1], x[0], x[1]);
    }
    case OP_MINNUM: return fl ? str(e, "%s(%s, %s)", use(e, f64 ? "minnum_f64" : "minnum_f32"), x[0], x[1]) : str(e, "(%s < %s ? %s : %s)", x[0], x[1], x[0], x[1]);
    case OP_MAXNUM: return fl ? str(e, "%s(%s, %s)", use(e, f64 ? "maxnum_f64" : "maxnum_f32"), x[0], x[1]) : str(e, "(%s > %s ? %s : %s)", x[0], x[1], x[0], x[1]);
    case OP_CLAMP:
        if (fl) return str(e, "%s(%s(%s, %s), %s)", use(e, str(e, "min_%s", sfx)), use(e, str(e, "max_%s", sfx)), x[0], x[1], x[2]);
        return str(e, "(%s < %s ? (%s < %s ? %s : %s) : (%s > %s ? %s : %s))", x[0], x[1], x[1], x[2], x[1], x[2], x[0], x[2], x[2], x[0]);
    case OP_AND: return d == DT_BOOL ? str(e, "(%s & %s)", x[0], x[1]) : str(e, "(%s)(%s & %s)", ctype(rd), x[0], x[1]);
    case OP_OR: return d == DT_BOOL ? str(e, "(%s | %s)", x[0], x[1]) : str(e, "(%s)(%s | %s)", ctype(rd), x[0], x[1]);
    case OP_XOR: return d == DT_BOOL ? str(e, "(%s != %s)", x[0], x[1]) : str(e, "(%s)(%s ^ %s)", ctype(rd), x[0], x[1]);
    case OP_NOT: return d == DT_BOOL ? str(e, "!(%s)", x[0]) : str(e, "(%s)~%s", ctype(rd), x[0]);
    case OP_SHL: case OP_SHR: return str(e, "%s(%s, %s)", use(e, str(e, "%s_%s", i->op == OP_SHL ? "shl" : "shr", name)), x[0], x[1]);
    case OP_EQ: return str(e, "(%s == %s)", x[0], x[1]);
    case OP_NE: return str(e, "(%s != %s)", x[0], x[1]);
    case OP_LT: return str(e, "(%s < %s)", x[0], x[1]);
    case OP_LE: return str(e, "(%s <= %s)", x[0], x[1]);
    case OP_GT: return str(e, "(%s > %s)", x[0], x[1]);
    case OP_GE: return str(e, "(%s >= %s)", x[0], x[1]);
    case OP_WHERE: return str(e, "(%s ? %s : %s)", x[0], x[1], x[2]);
    case OP_EXP: case OP_EXP2: case OP_LOG: case OP_LOG2: case OP_SQRT: case OP_RSQRT: case OP_SIN: case OP_COS: case OP_TANH: case OP_ERF:
    case OP_SIGMOID: case OP_FLOOR: case OP_CEIL: case OP_ROUND: {
        bool approx = ir_attr_int(i, ATTR_APPROX, 0) && !f64 &&
                      (i->op == OP_EXP || i->op == OP_TANH || i->op == OP_SIGMOID || i->op == OP_SQRT || i->op == OP_RSQRT || i->op == OP_LOG || i->op == OP_LOG2 || i->op == OP_SIN || i->op == OP_COS);
        return ROUND(str(e, "%s(%s)", use(e, str(e, "%s_%s%s", op_info[i->op].name, sfx, approx ? "_approx" : "")), x[0]));
    }
    case OP_CAST: return cast_expr(e, d, rd, x[0]);
    case OP_BITCAST: {
        if (d == rd) return x[0];
        if (fl == dtype_is_float(rd) && dtype_bits(d) >= 32 && !fl) return str(e, "(%s)(%s)", ctype(rd), x[0]);
        return str(e, "%s(%s)", use(e, str(e, "bits_%s_%s", name, dtype_name(rd == DT_INDEX ? DT_I64 : rd))), x[0]);
    }
    case OP_PHILOX: return str(e, "%s((u64)%s, (u64)%s)", use(e, "philox"), x[0], x[1]);
    default: ir_fail(e->s, i->loc, "%s is not element-wise", op_info[i->op].name);
    }
#undef ROUND
}

/* --- control flow ------------------------------------------------------------------------------------------------------------ */

/* Scalars and addresses of views: one C variable. */
static bool by_word(const Value *v) { return v->type->kind == TYPE_SCALAR || v->type->kind == TYPE_SHARED; }
static const char *word_type(const Value *v) { return v->type->kind == TYPE_SHARED ? "u32" : ctype(v->type->dtype); }

static const char *declare_value(Emit *e, const Value *v)
{
    const char *n = name_of(e, v);
    if (v->type->kind == TYPE_TILE) return declare_tile(e, v);
    if (by_word(v)) line(e, "%s %s;", word_type(v), n);
    e->storage[v->id] = n;
    return n;
}

static void assign(Emit *e, const Value *to, const Value *from)
{
    const char *dst = e->storage[to->id];
    if (by_word(to)) {
        const char *src = name_of(e, from);
        if (strcmp(src, dst)) line(e, "%s = %s;", dst, src);
        return;
    }
    if (to->type->kind != TYPE_TILE) return;
    const char *src = e->storage[from->id];
    if (src && !strcmp(src, dst)) return;
    const Layout *l = layout_of(e, to);
    int words = array_len(to->type->dtype, (int)layout_regs(l));
    if (src) {
        begin_unrolled(e, "i", words);
        line(e, "%s[i] = %s[i];", dst, src);
        end_block(e);
        return;
    }
    int n = (int)layout_regs(l), p = per_word(to->type->dtype);
    bool loop = n % p == 0 && words > 1;
    if (loop) begin_unrolled(e, "i", words);
    for (int w = 0; w < (loop ? 1 : words); w++) {
        const char *x[4];
        int here = n - w * p < p ? n - w * p : p;
        for (int k = 0; k < here; k++) x[k] = element(e, from, l, loop ? (p == 1 ? "i" : str(e, "%d * i + %d", p, k)) : str(e, "%d", w * p + k));
        line(e, "%s[%s] = %s;", dst, loop ? "i" : str(e, "%d", w), pack_expr(e, to->type->dtype, x, here));
    }
    if (loop) end_block(e);
}

/* args[k] <- values[k], as if at once. */
static void assign_all(Emit *e, Value *const *args, Value *const *values, int n)
{
    const char **saved = arena_array(&e->s->arena, const char *, (size_t)n);
    for (int k = 0; k < n; k++) {
        bool clash = false;
        if (args[k]->type->kind == TYPE_TOKEN) continue;
        for (int j = 0; j < k; j++) {
            const char *src = by_word(values[k]) ? name_of(e, values[k]) : e->storage[values[k]->id];
            clash |= src && e->storage[args[j]->id] && !strcmp(src, e->storage[args[j]->id]);
        }
        if (!clash) continue;
        saved[k] = tmp(e, "old");
        const char *src = name_of(e, values[k]);
        if (by_word(values[k])) line(e, "const %s %s = %s;", word_type(values[k]), saved[k], src);
        else {
            int words = array_len(values[k]->type->dtype, (int)layout_regs(layout_of(e, values[k])));
            line(e, "%s %s[%d];", array_type(values[k]->type->dtype), saved[k], words);
            begin_unrolled(e, "i", words);
            line(e, "%s[i] = %s[i];", saved[k], e->storage[values[k]->id]);
            end_block(e);
        }
    }
    for (int k = 0; k < n; k++) {
        if (args[k]->type->kind == TYPE_TOKEN) continue;
        const char *keep = e->storage[values[k]->id];
        if (saved[k]) e->storage[values[k]->id] = saved[k];
        assign(e, args[k], values[k]);
        e->storage[values[k]->id] = keep;
    }
}

static void uses_of(const Instr *i, Value **out, int from)
{
    for (int k = from; k < i->n_operands; k++) out[k - from] = ir_operand(i, k);
}

static void emit_for(Emit *e, Instr *i)
{
    Block *b = i->blocks[0];
    Value *vals[IR_MAX_RESULTS];
    for (int k = 0; k < i->n_results; k++) {
        if (b->args[k + 1]->type->kind == TYPE_TOKEN) continue;
        declare_value(e, b->args[k + 1]);
        assign(e, b->args[k + 1], ir_operand(i, k + 3));
    }
    const char *iv = name_of(e, b->args[0]), *t = ctype(b->args[0]->type->dtype);
    e->storage[b->args[0]->id] = iv;
    int64_t step;
    const char *inc = ir_is_const(ir_operand(i, 2), &step) && step == 1 ? str(e, "%s++", iv) : str(e, "%s += %s", iv, name_of(e, ir_operand(i, 2)));
    size_t places = copies_placed(e, i);
    text_puts(e->out, "#pragma unroll 1\n");
    if (ir_attr_int(i, ATTR_TICKETS, 0) && e->role >= 0) emit_ticket_loop(e, i);
    else {
        const char *end = name_of(e, ir_operand(i, 1)), *start = name_of(e, ir_operand(i, 0));
        line(e, "for (%s %s = %s; %s < %s; %s) {", t, iv, start, iv, end, inc);
    }
    Turn turn = { .counter = iv }, *around = e->turn;
    Text body, *out = e->out;
    e->indent++;
    if (is_hip(e)) {
        text_init(&turn.pre, &e->s->arena);
        text_init(&body, &e->s->arena);
        turn.indent = e->indent;
        e->turn = &turn;
        e->out = &body;
    }
    emit_block(e, b);
    uses_of(ir_terminator(b), vals, 0);
    assign_all(e, b->args + 1, vals, i->n_results);
    copies_moved(e, places);
    if (is_hip(e)) {
        e->turn = around;
        e->out = out;
        text_write(out, turn.pre.data ? turn.pre.data : "", turn.pre.len);
        text_write(out, body.data ? body.data : "", body.len);
    }
    end_block(e);
    if (ir_attr_int(i, ATTR_TICKETS, 0) && e->role == 0) line(e, "%s(%s, gridDim.x);", use(e, "ticket_done"), slot_name(e, SLOT_TICKETS, 0, 0, DT_U64));
    for (int k = 0; k < i->n_results; k++) e->storage[i->results[k].id] = e->storage[b->args[k + 1]->id];
}

static void emit_while(Emit *e, Instr *i)
{
    Block *c = i->blocks[0], *b = i->blocks[1];
    Value *vals[IR_MAX_RESULTS + 1];
    for (int k = 0; k < i->n_results; k++) {
        if (c->args[k]->type->kind == TYPE_TOKEN) continue;
        declare_value(e, c->args[k]);
        assign(e, c->args[k], ir_operand(i, k));
        e->storage[b->args[k]->id] = e->storage[c->args[k]->id];
    }
    text_puts(e->out, "#pragma unroll 1\n");
    line(e, "for (;;) {");
    e->indent++;
    emit_block(e, c);
    const Instr *t = ir_terminator(c);
    const char *cond = tmp(e, "go");
    line(e, "const bool %s = %s;", cond, name_of(e, ir_operand(t, 0)));
    uses_of(t, vals, 1);
    assign_all(e, c->args, vals, i->n_results);
    line(e, "if (!%s) break;", cond);
    emit_block(e, b);
    uses_of(ir_terminator(b), vals, 0);
    assign_all(e, c->args, vals, i->n_results);
    end_block(e);
    for (int k = 0; k < i->n_results; k++) e->storage[i->results[k].id] = e->storage[c->args[k]->id];
}

static void emit_if(Emit *e, Instr *i)
{
    bool other = ir_terminator(i->blocks[1]) != i->blocks[1]->first;
    for (int k = 0; k < i->n_results; k++) other |= i->results[k].type->kind != TYPE_TOKEN;
    for (int k = 0; k < i->n_results; k++) if (i->results[k].type->kind != TYPE_TOKEN) declare_value(e, &i->results[k]);
    for (int b = 0; b < (other ? 2 : 1); b++) {
        if (b == 0) line(e, "if (%s) {", name_of(e, ir_operand(i, 0)));
        else line(e, "} else {");
        e->indent++;
        emit_block(e, i->blocks[b]);
        const Instr *y = ir_terminator(i->blocks[b]);
        for (int k = 0; k < i->n_results; k++) if (i->results[k].type->kind != TYPE_TOKEN) assign(e, &i->results[k], ir_operand(y, k));
        if (other && b == 0) e->indent--;
        else end_block(e);
    }
}

static void emit_assert(Emit *e, Instr *i)
{
    int ln, col;
    diag_position(e->s, i->loc, &ln, &col);
    const char *rec = slot_name(e, SLOT_CHECK, 0, 0, DT_U64), *fn = use(e, "check_failed"), *id = cta_id(e);
    Value *c = ir_operand(i, 0);
    if (c->type->kind == TYPE_SCALAR) { line(e, "if (!%s) %s(%s, %d, %s);", name_of(e, c), fn, rec, ln, id); return; }
    const Layout *l = layout_of(e, c);
    begin_unrolled(e, "i", (int)layout_regs(l));
    const char *in = "true";
    for (int a = 0; a < l->rank; a++) if (l->cover[a] != l->tile[a]) in = str(e, "%s && %s < %d", in, coord(e, l, a, "i"), l->tile[a]);
    line(e, "if (%s && !%s) %s(%s, %d, %s);", in, element(e, c, l, "i"), fn, rec, ln, id);
    end_block(e);
}

static void emit_print(Emit *e, Instr *i)
{
    const Attr *m = ir_attr(i, ATTR_MESSAGE);
    Text t;
    if (is_hip(e)) use(e, "printf");
    text_init(&t, &e->s->arena);
    for (const char *p = m ? m->s : ""; *p; p++) {
        if (*p == '"' || *p == '\\') text_putc(&t, '\\');
        if (*p == '%') text_putc(&t, '%');
        text_putc(&t, *p);
    }
    for (int k = 0; k < i->n_operands; k++) {
        Value *v = ir_operand(i, k);
        bool tile = v->type->kind == TYPE_TILE;
        const Layout *l = tile ? layout_of(e, v) : NULL;
        const char *cond = "tid == 0", *x = NULL, *where = "", *args = "";
        if (tile) {
            line(e, "for (int i = 0; i < %d; i++) {", (int)layout_regs(l));
            e->indent++;
            x = element(e, v, l, "i");
            cond = "true";
            for (int a = 0; a < l->rank; a++) {
                where = str(e, "%s[%%d]", where);
                args = str(e, "%s, %s", args, coord(e, l, a, "i"));
                if (l->cover[a] != l->tile[a]) cond = str(e, "%s && %s < %d", cond, coord(e, l, a, "i"), l->tile[a]);
            }
        } else x = name_of(e, v);
        bool fl = dtype_is_float(v->type->dtype);
        line(e, "if (%s) printf(\"%s%s %s\\n\"%s, (%s)%s);", cond, t.data, where, fl ? "%g" : "%lld", args, fl ? "double" : "long long", x);
        if (tile) end_block(e);
    }
    if (!i->n_operands) line(e, "if (tid == 0) printf(\"%s\\n\");", t.data);
}

/* The line of the spec that the statements behind it do, as a comment: before #line, which counts from there. */
static void quote(Emit *e, const Source *src, uint32_t at)
{
    while (at > 0 && src->text[at - 1] != '\n') at--;
    while (src->text[at] == ' ' || src->text[at] == '\t') at++;
    size_t n = strcspn(src->text + at, "\n");
    for (size_t k = 0; k + 1 < n; k++)
        if (src->text[at + k] == '/' && (src->text[at + k + 1] == '/' || src->text[at + k + 1] == '*')) n = k;
    while (n && (src->text[at + n - 1] == ' ' || src->text[at + n - 1] == '\r')) n--;
    for (size_t k = 0; k + 1 < n; k++) if (src->text[at + k] == '*' && src->text[at + k + 1] == '/') return;
    if (!strncmp(src->text + at, "kernel ", 7)) { line(e, "/* which programs, in which order */"); return; }
    if (n > 2) line(e, "/* %.*s */", (int)(n > 120 ? 120 : n), src->text + at);
}

static void source_line(Emit *e, const Instr *i)
{
    const Source *src = diag_source(e->s, i->loc.file);
    int ln, col;
    if (!src || e->measure) return;
    diag_position(e->s, i->loc, &ln, &col);
    if (ln == e->line && i->loc.file == e->file) return;
    e->line = ln;
    e->file = i->loc.file;
    if (i->op != OP_SHARED_ALLOC && i->op != OP_RING && i->op != OP_ROLES && i->loc.begin < src->len) quote(e, src, i->loc.begin);
    text_printf(e->out, "#line %d \"%s\"\n", ln, src->name);
}

static void emit_instr(Emit *e, Instr *i)
{
    switch ((int)i->op) {
    case OP_CONST: case OP_DIM: case OP_STRIDE: case OP_PROGRAM_ID: case OP_NUM_PROGRAMS: case OP_TOKEN: case OP_JOIN_TOKENS:
    case OP_PROGRAM: case OP_CTA_ID: case OP_NUM_CTAS: case OP_CLUSTER_RANK: case OP_SPLAT: case OP_ARANGE: case OP_BROADCAST:
        return;
    case OP_FOR: emit_for(e, i); return;
    case OP_WHILE: emit_while(e, i); return;
    case OP_IF: if (!emit_guarded_loads(e, i) && !emit_guarded_copies(e, i)) emit_if(e, i); return;
    case OP_LOAD: emit_load(e, i); return;
    case OP_STORE: if (!emit_bulk_store(e, i)) emit_store(e, i); return;
    case OP_GATHER: case OP_SCATTER: case OP_ATOMIC_RMW: case OP_ATOMIC_CAS: emit_indexed(e, i); return;
    case OP_REDUCE_SUM: case OP_REDUCE_PROD: case OP_REDUCE_MAX: case OP_REDUCE_MIN: case OP_REDUCE_ANY: case OP_REDUCE_ALL: case OP_REDUCE:
        emit_reduce(e, i); return;
    case OP_RESHAPE: case OP_PERMUTE: case OP_CONCAT: case OP_SLICE: emit_by_position(e, i); return;
    case OP_CONVERT: emit_convert(e, i); return;
    case OP_MATERIALIZE: emit_materialize(e, i); return;
    case OP_BARRIER: barrier(e); return;
    case OP_CLUSTER_COMBINE: emit_combine(e, i); return;
    case OP_SHARED_ALLOC: case OP_SHARED_SLOT: case OP_SHARED_READ: case OP_SHARED_WRITE: case OP_COPY: case OP_COPY_COMMIT: case OP_COPY_WAIT:
        emit_shared(e, i); return;
    case OP_MMA_SYNC: emit_mma_sync(e, i); return;
    case OP_OPAQUE: {
        if (ir_result(i)->type->kind == TYPE_TILE) { emit_opaque_tile(e, i); return; }
        const char *n = name_of(e, ir_result(i));
        line(e, "const i32 %s = %s(%s);", n, use(e, "opaque"), cast_expr(e, DT_INDEX, DT_I32, name_of(e, ir_operand(i, 0))));
        e->storage[ir_result(i)->id] = n;
        return;
    }
    case OP_PROGRAM_COORD:
        if (!emit_program_coord(e, i)) e->storage[ir_result(i)->id] = name_of(e, ir_operand(i, 0));
        return;
    case OP_TICKET: case OP_RING: case OP_RING_PUT: case OP_RING_GET: case OP_RING_READ: case OP_RING_RELEASE: case OP_WGMMA: case OP_WGMMA_WAIT: case OP_ROLES:
    case OP_WARPGROUP_ANY: case OP_TURN_WAIT: case OP_TURN_PASS:
        emit_hopper(e, i); return;
    case OP_ASSERT: emit_assert(e, i); return;
    case OP_PRINT: emit_print(e, i); return;
    default: break;
    }
    if (emit_rows(e, i)) return;
    if ((op_info[i->op].flags & OPF_ELEM) && ir_result(i)->type->kind == TYPE_SCALAR) {
        const char *args[4], *n = name_of(e, ir_result(i));
        for (int k = 0; k < i->n_operands; k++) args[k] = name_of(e, ir_operand(i, k));
        /* a division of parameters has a branch and waits for nothing: it stays where it stands, for one that moves between the instructions of a product cuts that in two (ptxas's C7519) */
        bool stay = i->op == OP_DIV && ir_result(i)->type->dtype == DT_F32 && e->role == 1 && !ir_operand(i, 0)->def && !ir_operand(i, 1)->def;
        line(e, "%s%s %s = %s;", stay ? "" : "const ", ctype(ir_result(i)->type->dtype), n, op_expr(e, i, args));
        if (stay) line(e, "%s(%s);", use(e, "pin_float"), n);
        e->storage[ir_result(i)->id] = n;
        return;
    }
    ir_fail(e->s, i->loc, "the GPU emitter has no form for %s", op_info[i->op].name);
}

void emit_block(Emit *e, Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        if (op_info[i->op].flags & OPF_TERM) return;
        if (i->n_results == 1 && ir_result(i)->type->kind == TYPE_TILE && !ir_result(i)->type->layout && (op_info[i->op].flags & OPF_PURE)) continue;
        source_line(e, i);
        e->here = i;
        if (is_run_op(i)) i = emit_run(e, i);
        else emit_instr(e, i);
        if (i == e->last_buffer) {
            line(e, "/* the buffers are done with: their space is scratch from here on */");
            text_puts(e->out, "#undef SCRATCH\n#define SCRATCH 0\n");
            e->scratch_early = e->scratch_bytes;
            e->scratch_use_early = e->scratch_use;
            e->scratch_use = (ScratchUse){ { 0 }, NULL, 0 };
            e->scratch_bytes = 0;
        }
    }
}

static bool is_no_buffer(void *user, Value *v) { (void)user; return v->type->kind != TYPE_SHARED; }

/* The last instruction of the body that has to do with buffers, without roles (a producer keeps its own time). */
static const Instr *last_buffer(Emit *e)
{
    const Instr *last = NULL;
    for (Instr *i = e->f->body->first; i; i = i->next) {
        if (i->op == OP_ROLES) return NULL;
        if (!ir_all_operands(i, is_no_buffer, NULL)) last = i;
    }
    return last;
}

/* --- the frame ------------------------------------------------------------------------------------------------------------------ */

static void print_param(Emit *e, Text *t, const Slot *s)
{
    const Param *p = &e->f->params[s->param];
    const char *n = slot_name(e, s->kind, s->param, s->index, s->dtype);
    switch (s->kind) {
    case SLOT_DATA: text_printf(t, "%s%s *const %s%s", p->kind == PARAM_IN ? "const " : "", pointee(p->type->dtype), p->kind == PARAM_IN ? "__restrict__ " : "", n); return;
    case SLOT_SCALAR: text_printf(t, "const %s %s", ctype(p->type->dtype), n); return;
    case SLOT_EXTENT: case SLOT_STRIDE: case SLOT_GRID: text_printf(t, "const i64 %s", n); return;
    case SLOT_TENSOR_MAP: text_printf(t, "const __grid_constant__ TensorMap %s", n); return;
    case SLOT_CHECK: text_printf(t, "CheckRecord *const %s", n); return;
    case SLOT_TICKETS: text_printf(t, "u32 *const %s", n); return;
    case SLOT_WORKSPACE: text_printf(t, "u8 *const %s", n); return;
    case SLOT_PRINT: return;
    }
}

/* `measure`: no text, but all else that code has. */
static void emit(Session *s, Func *f, KernelPlan *plan, GpuCode *out, bool measure)
{
    void (*init)(Text *, Arena *) = measure ? text_sink : text_init;
    Text body, pre, text;
    Emit *e = arena_new(&s->arena, Emit);
    init(&body, &s->arena);
    init(&pre, &s->arena);
    init(&text, &s->arena);
    *e = (Emit){ .s = s, .f = f, .plan = plan, .target = plan->target, .out = &body, .pre = &pre, .indent = 1, .role = -1, .measure = measure };
    e->n_values = f->module->next_id + 1;
    e->storage = arena_array(&s->arena, const char *, e->n_values);
    e->threads = plan->warps * plan->target->wave;
    e->scratch_early = -1;
    e->last_buffer = plan->split ? NULL : last_buffer(e);         /* what other CTAs send may come at any time */
    emit_block(e, f->body);
    int threads = kernel_cta_warps(plan) * plan->target->wave;
    int64_t scratch_at = (e->shared_bytes + 127) / 128 * 128;
    int64_t late = e->scratch_early < 0 ? 0 : e->scratch_bytes;
    if (e->scratch_early >= 0) e->scratch_bytes = e->scratch_early;
    int64_t all = scratch_at + e->scratch_bytes > late ? scratch_at + e->scratch_bytes : late;
    bool shared = all > 0;

    if (!measure) emit_summary(e, scratch_at, all, &text);
    bool hip = is_hip(e);
    int ctas = plan->cluster > 1 ? plan->cluster : plan->multicast;
    if (ctas > 1) use(e, "cluster_rank");
    if (e->cluster_met) { use(e, "mbar_init"); use(e, "fence_mbarrier_init"); use(e, "warp_sync"); use(e, "cluster_arrive"); }
    if (hip && shared) use(e, "LDS");
    Text head = text;
    init(&text, &s->arena);
    text_printf(&text, "\n#define SCRATCH %lld\n\n", (long long)scratch_at);
    int at_once = plan->min_ctas > 0 ? plan->min_ctas : 1;
    if (hip) text_printf(&text, "KERNEL(%d, %d)\nvoid %s(", threads, kernel_waves_per_eu(plan, all), f->name);
    else {
        text_printf(&text, "extern \"C\" __global__ void ");
        if (ctas > 1) text_printf(&text, "__cluster_dims__(%d, 1, 1) ", ctas);
        text_printf(&text, "__launch_bounds__(%d, %d)\n%s(", threads, at_once, f->name);
    }
    for (size_t k = 0; k < e->slots.len; k++) {
        if (k) text_puts(&text, ",\n    ");
        print_param(e, &text, &e->slots.data[k]);
    }
    text_puts(&text, ")\n{\n");
    if (shared) {
        if (hip) text_printf(&text, "    __shared__ __attribute__((aligned(1024))) u8 shared[%lld];\n", (long long)all);
        else text_puts(&text, "    extern __shared__ __align__(1024) u8 shared[];\n");
        text_printf(&text, "    const u32 shared_base = shared_address(shared);\n    (void)shared_base;\n");
    }
    text_printf(&text, "    const int tid = %s, lane = tid & %d, warp = uniform(tid >> %d);\n    (void)tid; (void)lane; (void)warp;\n", hip ? "thread_id()" : "threadIdx.x",
                plan->target->wave - 1, plan->target->wave == 64 ? 6 : 5);
    if (ctas > 1) {
        text_puts(&text, "    const int block = cluster_rank();\n    (void)block;\n");
        if (e->cluster_met) {
            text_puts(&text, "    if (tid == 0) {\n");
            for (size_t k = 0; k < e->cluster_bars.len; k++) text_printf(&text, "        mbar_init(shared_base + %lld, 1);\n", (long long)e->cluster_bars.data[k]);
            text_puts(&text, "        fence_mbarrier_init();\n    }\n    warp_sync();\n    cluster_arrive();        /* this CTA has started: the others may send to its shared memory */\n");
        }
    }
    if (!measure) {
        text_write(&pre, body.data, body.len);
        emit_tidy(s, &pre, &text);
    }
    text_puts(&text, "}\n#undef SCRATCH\n");
    if (!measure) {
        gpu_prelude(s, plan->target, e->used.data, e->used.len, text.data, &head);
        text_write(&head, text.data, text.len);
        text = head;
    }
    *out = (GpuCode){ .text = text.data, .text_len = text.len, .name = f->name, .planned_registers = plan->registers, .threads = threads, .shared_bytes = all, .scratch_bytes = e->scratch_bytes,
                      .largest = e->largest, .registers = registers_at_most(plan, threads), .consumer_registers = plan->producer_warps ? plan->consumer_registers : 0,
                      .beside = e->scratch_early < 0 ? e->scratch_use : e->scratch_use_early, .after = e->scratch_early < 0 ? (ScratchUse){ { 0 }, NULL, 0 } : e->scratch_use,
                      .slots = e->slots.data, .n_slots = (int)e->slots.len, .maps = e->maps.data, .n_maps = (int)e->maps.len,
                      .persistent = plan->persistent, .cluster = ctas > 0 ? ctas : 1,
                      .shared_map = e->shared_map.data, .n_shared_map = (int)e->shared_map.len };
}

void gpu_emit(Session *s, Func *f, KernelPlan *plan, GpuCode *out) { emit(s, f, plan, out, false); }
void gpu_measure(Session *s, Func *f, KernelPlan *plan, GpuCode *out) { emit(s, f, plan, out, true); }
