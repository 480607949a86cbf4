/* emit_names.c: lines of text, and the names in them: types, literals, values, parameters, what a target
 * calls its barriers and its CTA. */
#include "backends/gpu/emit.h"
#include "ir/c_names.h"
#include "ir/text/text.h"
#include <math.h>

/* Whether a string among the arguments is NULL. A value without a name must not become text. */
static bool lacks_name(const char *fmt, va_list ap)
{
    for (const char *p = strchr(fmt, '%'); p; p = strchr(p + 1, '%')) {
        int longs = 0;
        for (p++; *p && strchr("-+ #0123456789.*lhz", *p); p++) {
            if (*p == '*') (void)va_arg(ap, int);
            longs += *p == 'l' || *p == 'z';
        }
        if (*p == 's' && !va_arg(ap, const char *)) return true;
        if (*p == 'p') (void)va_arg(ap, void *);
        if (*p && strchr("eEfFgGa", *p)) (void)va_arg(ap, double);
        if (*p && strchr("cdiuoxX", *p)) (void)(longs ? va_arg(ap, long long) : va_arg(ap, int));
    }
    return false;
}

const char *expression(Emit *e, const char *fmt, va_list ap)
{
    va_list copy;
    va_copy(copy, ap);
    const char *text = arena_vprintf(&e->s->arena, fmt, ap);
    /* The arguments are looked at only where the text says what a NULL becomes. */
    if (strstr(text, "(null)") && lacks_name(fmt, copy))
        ir_fail(e->s, e->here ? e->here->loc : e->f->loc,
            "a value without a name would be written into \"%s\"", fmt);
    va_end(copy);
    return text;
}

const char *str(Emit *e, const char *fmt, ...)
{
    va_list ap;
    if (e->measure) return "?"; /* nobody reads it */
    va_start(ap, fmt);
    const char *r = expression(e, fmt, ap);
    va_end(ap);
    return r;
}

bool same_name(const char *a, const char *b) { return a == b || !strcmp(a, b); }

/* All waits at mbarriers have one watched form, which takes the record of a checked launch. */
static const char *watched(Emit *e, const char *name)
{
    if (!e->plan->options.watches || strncmp(name, "mbar_wait", 9) != 0) return name;
    slot_name(e, SLOT_CHECK, 0, 0, DT_U64);
    return "mbar_watch";
}

const char *use(Emit *e, const char *name)
{
    name = watched(e, name);
    if (e->measure) return name;
    for (size_t k = 0; k < e->used.len; k++)
        if (same_name(e->used.data[k].node->name, name)) return e->used.data[k].reference;
    UsedFunction made;
    made.reference = refer_to_function(e, name, &made.node);
    vec_push(&e->s->arena, &e->used, made);
    return made.reference;
}

void use_always(Emit *e, const char *name)
{
    const char *reference = use(e, name);
    for (size_t k = 0; k < e->used.len; k++)
        if (e->used.data[k].reference == reference) e->used.data[k].node->uses++;
}

const char *use_product(Emit *e, const char *name)
{
    size_t before = e->used.len;
    const char *reference = use(e, name);
    if (e->used.len > before) vec_push(&e->s->arena, &e->products, name);
    return reference;
}

const char *tmp(Emit *e, const char *stem)
{ return str(e, "%s_t%d", stem, e->next_tmp++); } /* values end in _number */

const char *ctype(DType d)
{
    static const char *const names[DT_COUNT] = {
        [DT_BOOL] = "bool",
        [DT_I8] = "i8",
        [DT_I16] = "i16",
        [DT_I32] = "i32",
        [DT_I64] = "i64",
        [DT_U8] = "u8",
        [DT_U16] = "u16",
        [DT_U32] = "u32",
        [DT_U64] = "u64",
        [DT_INDEX] = "i64",
        [DT_F8E4M3] = "float",
        [DT_F8E5M2] = "float",
        [DT_F16] = "float",
        [DT_BF16] = "float",
        [DT_F32] = "float",
        [DT_F64] = "double",
    };
    return names[d];
}

/* The size of ctype(d). Small floats are floats in registers, and in scratch memory that is a C array. */
int ctype_bytes(DType d) { return dtype_is_float(d) && d != DT_F64 ? 4 : d == DT_BOOL ? 1 : dtype_bytes(d); }

int per_word(DType d) { return d == DT_BOOL ? 1 : dtype_bits(d) >= 32 ? 1 : 32 / dtype_bits(d); }

DType bits_type(DType d)
{ return per_word(d) == 1 || !dtype_is_float(d) ? d : per_word(d) == 2 ? DT_U16 : DT_U8; }

const char *array_type(DType d) { return per_word(d) > 1 ? "u32" : ctype(d); }
int array_len(DType d, int regs) { return (regs + per_word(d) - 1) / per_word(d); }

static const char *float_literal(Emit *e, DType d, double x)
{
    if (isnan(x))
        return d == DT_F64 ? str(e, "%s(0x7ff8000000000000ull)", use(e, "double_bits"))
                           : str(e, "%s(0x7fc00000u)", use(e, "float_bits"));
    if (isinf(x))
        return d == DT_F64 ? str(e, "%s(1.0 / 0.0)", x < 0 ? "-" : "")
                           : str(e, "%s(%s)", use(e, "float_bits"), x < 0 ? "0xff800000u" : "0x7f800000u");
    const char *t = str(e, d == DT_F64 ? "%.17g" : "%.9g", x);
    bool dot = strpbrk(t, ".e") != NULL;
    return str(e, "%s%s%s", t, dot ? "" : ".0", d == DT_F64 ? "" : "f");
}

const char *const_expr(Emit *e, DType d, const Instr *i)
{
    const Attr *f = ir_attr(i, ATTR_FVALUE), *v = ir_attr(i, ATTR_IVALUE);
    if (f) return float_literal(e, d, f->f);
    int64_t x = v ? v->i : 0;
    if (d == DT_BOOL) return x ? "true" : "false";
    if (!dtype_is_signed(d) && dtype_bits(d) < 64)
        return str(e, "%uu", (unsigned)(x & (dtype_bits(d) == 32 ? 0xffffffffu : (1u << dtype_bits(d)) - 1)));
    if (!dtype_is_signed(d)) return str(e, "%lluull", (unsigned long long)x);
    if (dtype_bits(d) < 64)
        return x == INT32_MIN ? "(-2147483647 - 1)" : x < 0 ? str(e, "(%d)", (int)x) : str(e, "%d", (int)x);
    return x == INT64_MIN ? "(-9223372036854775807ll - 1)"
           : x < 0        ? str(e, "(%lldll)", (long long)x)
                          : str(e, "%lldll", (long long)x);
}

static bool means_something(Emit *e, const char *name)
{
    return c_name_taken(name, C_KEYWORDS | C_LIBRARY | C_DEVICE | C_EMITTED) ||
           gpu_prelude_has(e->s, e->target, name);
}

/* Whether a tensor or a scalar of this name would hide a name of the emitted code. Names that end in `_` are
 * among them, so that no two names become one. */
static bool hides(Emit *e, const char *n)
{
    size_t len = strlen(n), digits = 0, stem;
    if (n[len - 1] == '_' || means_something(e, n)) return true;
    while (digits < len && irtext_digit(n[len - 1 - digits])) digits++;
    stem = len - digits;
    if (stem <= 1) return *n >= 'a' && *n <= 'z'; /* counters and coordinates: i, v, c0 */
    if (!digits) return false;
    static const char *const numbered[] = { "_", "t", "_stride", "_map", "dim", "grid" };
    for (size_t k = 0; k < sizeof numbered / sizeof *numbered; k++) {
        size_t end = strlen(numbered[k]);
        if (stem >= end && !strncmp(n + stem - end, numbered[k], end)) return true;
    }
    return false;
}

/* A taken name gets a suffix, and so does what would then be the same name. */
const char *entry_name(Emit *e)
{
    static const char suffix[] = "_kernel";
    const size_t n = sizeof suffix - 1;
    const char *name = e->f->name, *stem = name;
    for (size_t len = strlen(stem); len > n && !strcmp(stem + len - n, suffix); len -= n)
        stem = arena_strndup(&e->s->arena, stem, len - n);
    return means_something(e, stem) ? arena_printf(&e->s->arena, "%s%s", name, suffix) : name;
}

static const char *param_name(Emit *e, int param)
{
    const char *n = e->f->params[param].name;
    if (!e->param_names) e->param_names = arena_array(&e->s->arena, const char *, (size_t)e->f->n_params);
    if (!e->param_names[param])
        e->param_names[param] = hides(e, n) ? arena_printf(&e->s->arena, "%s_", n) : n;
    return e->param_names[param];
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
    case SLOT_DATA:
    case SLOT_SCALAR: return param_name(e, param);
    case SLOT_EXTENT:
        return e->f->dims[index].name ? str(e, "%s_", e->f->dims[index].name) : str(e, "dim%d", index);
    case SLOT_STRIDE: return str(e, "%s_stride%d", p->name, index);
    case SLOT_GRID: return str(e, "grid%d", index);
    case SLOT_TENSOR_MAP: return str(e, "%s_map%d", p->name, index);
    case SLOT_CHECK: return "check";
    case SLOT_SCHEDULER: return "scheduler";
    case SLOT_WORKSPACE: return "workspace";
    case SLOT_PRINT: break; /* the CPU only */
    }
    return "";
}

/* Values without a name in the program are named after the operation that makes them, and those of loops
 * after the carried value. */
static const char *stem_of(const Value *v)
{
    const Instr *d = v->def;
    if (v->name) return v->name;
    if (!d)
        return v->block && v->block->parent && v->block->parent->op == OP_FOR && v->index == 0 ? "step"
                                                                                               : "carried";
    if (d->op == OP_FOR && d->blocks[0]->args[v->index + 1]->name)
        return d->blocks[0]->args[v->index + 1]->name;
    if (d->op == OP_CONVERT || d->op == OP_CAST)
        if (ir_operand(d, 0)->name) return ir_operand(d, 0)->name;
    return op_info[d->op].name;
}

const char *all_programs(Emit *e)
{
    const char *x = NULL;
    for (int a = 0, n = e->f->grid ? ir_terminator(e->f->grid)->n_operands : 1; a < n; a++) {
        const char *g = slot_name(e, SLOT_GRID, 0, a, DT_INDEX);
        x = x ? str(e, "%s * %s", x, g) : g;
    }
    return x;
}

static const char *launch_name(Emit *e, const Instr *d, const char *cast)
{
    int64_t axis = ir_attr_int(d, ATTR_AXIS, 0);
    int of = (int)ir_attr_int(d, ATTR_DIM, 0);
    switch (op_as_launch(d->op)) {
    case LAUNCH_DIM:
        if (e->f->dims[of].extent >= 0)
            return str(e, "%lld%s", (long long)e->f->dims[of].extent, *cast ? "" : "ll");
        return str(e, "%s%s", cast, slot_name(e, SLOT_EXTENT, 0, of, DT_INDEX));
    case LAUNCH_STRIDE:
        return str(e, "%s%s", cast,
            slot_name(e, SLOT_STRIDE, (int)ir_attr_int(d, ATTR_PARAM, 0), (int)axis, DT_INDEX));
    case LAUNCH_NUM_PROGRAMS:
        if (axis >= 0) return str(e, "%s%s", cast, slot_name(e, SLOT_GRID, 0, (int)axis, DT_INDEX));
        return str(e, "%s(%s)", cast, all_programs(e));
    /* Kernels without a grid of programs do not ask for it (emit_order.c). */
    case LAUNCH_PROGRAM_ID: return NULL;
    }
    return NULL;
}

static const char *cluster_id(Emit *e, const char *type)
{
    const char *cta = is_hip(e) ? str(e, "%s()", use(e, "block_id")) : "blockIdx.x";
    int ctas = e->plan->cluster > 1 ? e->plan->cluster : 1;
    return str(e, "(%s)(%s / %d %% %d)", type, cta, ctas, e->plan->clusters);
}

static const char *place_name(Emit *e, const Instr *d, const char *type)
{
    int64_t pieces = ir_attr_int(d, ATTR_COUNT, 1);
    switch (op_as_place(d->op)) {
    case PLACE_CP_ASYNC_ROW:
        return str(e, "(tid / %lld + %lld)", (long long)pieces,
            (long long)(ir_attr_int(d, ATTR_SLOT, 0) * e->plan->cp_async_warps * 32 / pieces));
    case PLACE_PROGRAM:
    case PLACE_CTA_ID: return str(e, "(%s)%s", type, cta_id(e));
    case PLACE_CLUSTER_RANK: return str(e, "(%s)block", type);
    case PLACE_CLUSTER_ID: return cluster_id(e, type);
    case PLACE_NUM_CTAS: return str(e, "(%s)%s", type, cta_count(e));
    case PLACE_PROGRAM_COORD: return NULL; /* a variable */
    }
    return NULL;
}

const char *name_of(Emit *e, const Value *v)
{
    if (e->storage[v->id]) return e->storage[v->id];
    const Instr *d = v->def;
    const char *n = NULL;
    if (!d && v->block == e->f->body) return slot_name(e, SLOT_SCALAR, v->index, 0, v->type->dtype);
    if (d && v->type->kind == TYPE_SCALAR) {
        if (d->op == OP_CONST) n = const_expr(e, v->type->dtype, d);
        if (op_family(d->op) == OPS_LAUNCH) n = launch_name(e, d, v->type->dtype == DT_I32 ? "(i32)" : "");
        if (op_family(d->op) == OPS_PLACE) n = place_name(e, d, ctype(v->type->dtype));
    }
    return n ? n : str(e, "%s_%u", stem_of(v), v->id);
}

void barrier(Emit *e)
{
    /* The threads of one warp need not meet all threads of the CTA, which may have other programs. */
    bool warp = !is_hip(e) && e->threads == e->target->wave && !e->plan->producer_warps;
    if (warp) line(e, "%s();", use(e, "warp_sync"));
    else if (e->barrier_id) line(e, "%s(%d, %d);", use(e, "bar_sync"), e->barrier_id, e->threads);
    else line(e, "%s();", is_hip(e) ? use(e, "block_barrier") : "__syncthreads");
}

/* Behind a loop of atomic operations that some lanes leave before others, a warp stays apart (measured on an
 * H200). What follows then runs once for either part, in uniform registers that both share: ptxas takes the
 * lanes for together again behind a barrier. */
void lanes_meet(Emit *e)
{
    if (!is_hip(e)) line(e, "%s();", use(e, "warp_sync"));
}

void memory_barrier(Emit *e)
{
    if (is_hip(e)) line(e, "%s();", use(e, "memory_barrier"));
    else barrier(e);
}

const char *shared_pointer(Emit *e, const char *type, int64_t at)
{
    const char *n = tmp(e, "part");
    if (is_hip(e))
        line(e, "const auto %s = %s(%s, shared_base + SCRATCH + %lld);", n, use(e, "LDS"), type,
            (long long)at);
    else line(e, "%s *const %s = (%s *)(shared + SCRATCH + %lld);", type, n, type, (long long)at);
    return n;
}

bool is_hip(const Emit *e) { return e->target->kind == TARGET_HIP; }
const char *cta_id(Emit *e)
{
    /* The CTAs of a cluster that take one program, or draw one, together. */
    int ctas = e->plan->cluster > 1 ? e->plan->cluster : e->plan->multicast;
    if (e->plan->clusters > 1) ctas = e->plan->clusters * (ctas > 1 ? ctas : 1);
    if (ctas > 1) return str(e, "(blockIdx.x / %d)", ctas);
    if (e->abreast) return "program";
    return is_hip(e) ? str(e, "%s()", use(e, "block_id")) : "blockIdx.x";
}

const char *cta_count(Emit *e)
{
    int ctas = e->plan->cluster > 1 ? e->plan->cluster : e->plan->multicast;
    if (e->plan->clusters > 1) ctas = e->plan->clusters * (ctas > 1 ? ctas : 1);
    if (ctas > 1) return str(e, "(gridDim.x / %d)", ctas);
    return is_hip(e) ? str(e, "%s()", use(e, "block_count")) : "gridDim.x";
}

int64_t scratch(Emit *e, int64_t bytes)
{
    if (bytes <= e->scratch_bytes) return 0;
    const Instr *i = e->here;
    const Type *type = !i ? NULL : i->n_results ? ir_result(i)->type : NULL;
    for (int k = 0; i && !type && k < i->n_operands; k++)
        if (ir_operand(i, k)->type->kind == TYPE_TILE) type = ir_operand(i, k)->type;
    e->scratch_use = (ScratchUse){ i ? i->loc : (Loc){ 0 }, type, bytes };
    e->scratch_bytes = bytes;
    return 0;
}
