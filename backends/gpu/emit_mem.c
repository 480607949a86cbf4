/* emit_mem.c: global memory: windows, gathers, scatters, atomics. */
#include "backends/gpu/emit.h"

const char *pointee(DType d)
{
    switch (d) {
    case DT_BOOL: case DT_U8: case DT_F8E4M3: case DT_F8E5M2: return "u8";
    case DT_I8: return "i8";
    case DT_I16: return "i16";
    case DT_U16: case DT_F16: case DT_BF16: return "u16";
    case DT_I32: return "i32";
    case DT_U32: return "u32";
    case DT_I64: case DT_INDEX: return "i64";
    case DT_U64: return "u64";
    case DT_F32: return "float";
    case DT_F64: return "double";
    case DT_COUNT: break;
    }
    return "void";
}

static int64_t gcd64(int64_t a, int64_t b)
{
    while (b) { int64_t t = a % b; a = b; b = t; }
    return a < 0 ? -a : a;
}

void window_of(Emit *e, const Instr *i, Window *w)
{
    bool copy = i->op == OP_COPY || i->op == OP_RING_PUT;
    MemParts m;
    *w = (Window){ 0 };
    if (copy) {
        const Value *t = ir_operand(i, 1);
        w->param = t->index;
        w->rank = t->type->rank;
        for (int a = 0; a < w->rank; a++) w->offset[a] = ir_operand(i, 2 + a);
    } else {
        ir_mem_parts(i, &m);
        w->param = m.param;
        w->rank = m.rank;
        for (int a = 0; a < w->rank; a++) w->offset[a] = m.idx[a];
    }
    const Param *p = &e->f->params[w->param];
    const Attr *ext = ir_attr(i, ATTR_EXTENTS), *st = ir_attr(i, ATTR_STEPS), *o = ir_attr(i, ATTR_ORDER);
    int at = 0;
    w->unit = w->unit_tile = -1;
    w->masked = ir_attr_int(i, ATTR_MASKED, 1);
    for (int a = 0; a < w->rank; a++) {
        w->step[a] = st ? st->v[a] : 1;
        w->tile_axis[a] = -1;
        if (p->stride[a] == 1) w->unit = a;
        if (ext->v[a] == -1) continue;
        w->tile_axis[a] = at++;
    }
    if (o)
        for (int a = 0; a < w->rank; a++) {
            if (w->tile_axis[a] < 0) continue;
            for (int k = 0; k < o->n; k++) if (o->v[k] == w->tile_axis[a]) { w->tile_axis[a] = k; break; }
        }
    if (w->unit >= 0) w->unit_tile = w->tile_axis[w->unit];
    int bytes = dtype_bytes(p->type->dtype);
    w->align = p->align;
    for (int a = 0; a < w->rank; a++) {
        int64_t d = p->stride[a] != FACT_UNKNOWN ? p->stride[a] : p->stride_div[a];
        /* The row axis moves by whole strides whatever the offset; the unit axis by its offset. */
        if (a == w->unit) d = kernel_divisor(e->f, w->offset[a]);
        if (d) w->align = gcd64(w->align, d * bytes);
    }
}

static bool is_const_value(const Value *v, int64_t *c) { return ir_is_const(v, c); }

const char *window_stride(Emit *e, int param, int axis)
{
    int64_t s = e->f->params[param].stride[axis];
    return s != FACT_UNKNOWN ? str(e, "%lld", (long long)s) : slot_name(e, SLOT_STRIDE, param, axis, DT_INDEX);
}

static const char *times(Emit *e, const char *x, const char *stride)
{
    if (!strcmp(stride, "1")) return x;
    if (!strcmp(x, "0") || !strcmp(stride, "0")) return "0";
    return str(e, "%s * %s", x, stride);
}

const char *window_pointer(Emit *e, const Window *w)
{
    const Param *p = &e->f->params[w->param];
    const char *name = tmp(e, p->name), *x = slot_name(e, SLOT_DATA, w->param, 0, p->type->dtype);
    for (int a = 0; a < w->rank; a++) {
        int64_t c;
        if (is_const_value(w->offset[a], &c) && c == 0) continue;
        const char *o = is_const_value(w->offset[a], &c) ? str(e, "%lldll", (long long)c) : str(e, "(i64)%s", name_of(e, w->offset[a]));
        x = str(e, "%s + %s", x, times(e, o, window_stride(e, w->param, a)));
    }
    line(e, "%s%s *const %s = %s;", p->kind == PARAM_IN ? "const " : "", pointee(p->type->dtype), name, x);
    return name;
}

const char *window_index(Emit *e, const Window *w, const char *const *c)
{
    const char *x = NULL;
    for (int a = 0; a < w->rank; a++) {
        if (w->tile_axis[a] < 0) continue;
        const char *k = c[w->tile_axis[a]];
        if (!strcmp(k, "0")) continue;
        if (w->step[a] != 1) k = str(e, "%s * %lld", k, (long long)w->step[a]);
        const char *s = window_stride(e, w->param, a);
        if (e->f->fits32 && e->f->params[w->param].stride[a] == FACT_UNKNOWN) s = str(e, "(i32)%s", s);
        const char *t = !strcmp(s, "1") ? k : times(e, e->f->fits32 ? k : str(e, "(i64)%s", k), s);
        x = x ? str(e, "%s + %s", x, t) : t;
    }
    return x ? x : "0";
}

const char *window_extent(Emit *e, int param, int axis)
{
    const Dim *d = &e->f->dims[e->f->params[param].dims[axis]];
    if (d->extent >= 0) return str(e, "%lld", (long long)d->extent);
    return slot_name(e, SLOT_EXTENT, 0, e->f->params[param].dims[axis], DT_INDEX);
}

/* Is coordinate k of axis a, from the window's start, in the tensor? "" where it is known. */
const char *axis_condition(Emit *e, const Window *w, int a, const char *k)
{
    if (w->step[a] != 1) k = str(e, "%s * %lld", k, (long long)w->step[a]);
    int64_t off;
    bool con = is_const_value(w->offset[a], &off);
    const Dim *d = &e->f->dims[e->f->params[w->param].dims[a]];
    if (con && w->tile_axis[a] < 0 && d->extent >= 0 && off >= 0 && off < d->extent) return "";
    /* In 32 bits where offset and extent both fit; an extent that no launch key bounds may pass 2^32 though the offset cannot. */
    bool small = e->f->fits32 || (d->extent >= 0 && d->extent < INT32_MAX);
    bool narrow = small && (con ? off > -INT32_MAX / 2 && off < INT32_MAX / 2 : dtype_bits(w->offset[a]->type->dtype) == 32);
    const char *type = narrow ? "u32" : "u64", *from = con ? NULL : name_of(e, w->offset[a]);
    if (from && !narrow && dtype_bits(w->offset[a]->type->dtype) == 32) from = str(e, "(i64)%s", from);
    const char *pos = con && off == 0 ? k : con ? str(e, "%s + %lld", k, (long long)off) : str(e, "%s + %s", from, k);
    return str(e, "(%s)(%s) < (%s)%s", type, pos, type, window_extent(e, w->param, a));
}

const char *both_conditions(Emit *e, const char *a, const char *b)
{
    if (!*a) return b;
    return *b ? str(e, "%s && %s", a, b) : a;
}

const char *window_condition(Emit *e, const Window *w, const char *const *c, bool skip_unit)
{
    const char *x = "";
    for (int a = 0; w->masked && a < w->rank; a++)
        if (!skip_unit || a != w->unit) x = both_conditions(e, x, axis_condition(e, w, a, w->tile_axis[a] < 0 ? "0" : c[w->tile_axis[a]]));
    return x;
}

/* Is all of the window in the tensor? Its first element and its last say so. */
static const char *window_inside(Emit *e, const Window *w, const Layout *l)
{
    const char *x = "";
    for (int a = 0; a < w->rank; a++) {
        x = both_conditions(e, x, axis_condition(e, w, a, "0"));
        if (w->tile_axis[a] >= 0 && l->tile[w->tile_axis[a]] > 1) x = both_conditions(e, x, axis_condition(e, w, a, str(e, "%d", l->tile[w->tile_axis[a]] - 1)));
    }
    return x;
}

int window_vector(Emit *e, const Window *w, const Layout *l, DType d, LayoutVector *v)
{
    int bytes = dtype_bytes(d);
    v->n = 1;
    v->bytes = (uint32_t)bytes;
    v->mask = 0;
    v->reg[0] = 0;
    if (w->unit_tile < 0 || w->step[w->unit] != 1 || w->align < 4 || d == DT_BOOL) return 1;
    uint32_t align = w->align > 16 ? 16 : (uint32_t)w->align;
    layout_vector(l, w->unit_tile, (uint32_t)bytes, align, 16, v);
    /* elements that share a register word must share it in memory too; words may lie anywhere in the register file */
    uint32_t pw = (uint32_t)per_word(d);
    bool plain = (v->n & (v->n - 1)) == 0 && layout_regs(l) % v->n == 0 && v->n % pw == 0 && d != DT_BOOL;
    for (uint32_t k = 0; k < v->n; k++) plain = plain && v->reg[k] % pw == k % pw && v->reg[k] / pw == v->reg[k / pw * pw] / pw;
    if (!plain || v->bytes < 4) { v->n = 1; v->bytes = (uint32_t)bytes; }
    return (int)v->n;
}

/* Register of the first element of vector `v` (a loop counter's name), and whether the vector's registers follow each other. */
static const char *vector_base(Emit *e, const Layout *l, const LayoutVector *v, const char *counter, bool *follow)
{
    int n = (int)layout_regs(l), count = 0;
    int32_t *base = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int r = 0; r < n; r++) if (layout_vector_base(v, (uint32_t)r)) base[count++] = r;
    *follow = true;
    for (uint32_t k = 0; k < v->n; k++) *follow = *follow && v->reg[k] == k;
    return index_formula(e, base, count, counter);
}

/* Element k of the vector that starts at register `base`. */
static const char *vector_reg(Emit *e, const LayoutVector *v, const char *base, int k)
{
    return v->reg[k] ? str(e, "%s + %u", base, v->reg[k]) : base;
}

bool window_whole_vectors(Emit *e, const Window *w, int n)
{
    if (!w->masked) return true;
    const Dim *d = &e->f->dims[e->f->params[w->param].dims[w->unit]];
    int64_t div = d->extent >= 0 ? d->extent : d->div;
    return div % n == 0 && kernel_divisor(e->f, w->offset[w->unit]) % n == 0;
}

const char *pad_value(Emit *e, const Value *pad, DType d)
{
    if (pad) return name_of(e, pad);
    return d == DT_BOOL ? "false" : "0";
}

const char *pad_word(Emit *e, const Value *pad, DType d)
{
    if (!pad) return "0";
    const char *x = name_of(e, pad), *xs[4] = { x, x, x, x };
    return pack_expr(e, d, xs, per_word(d));
}

const char *window_load_fn(Emit *e, const Window *w, int bytes)
{
    bool nc = e->f->params[w->param].kind == PARAM_IN;
    return use(e, str(e, "%s_b%d", nc ? "ldg_nc" : "ldg", bytes * 8));
}

void coords_at(Emit *e, const Layout *l, const char *i, const char **c)
{
    for (int a = 0; a < l->rank; a++) c[a] = coord(e, l, a, i);
}

/* The same in two parts: what a thread has of the coordinate, and what the register adds. */
static void coords_in_parts(Emit *e, const Layout *l, const char **thread)
{
    for (int a = 0; a < l->rank; a++) thread[a] = thread_coord(e, l, a);
}

static void coords_of_parts(Emit *e, const Layout *l, const char *const *thread, const char *i, const char **c, const char **own)
{
    for (int a = 0; a < l->rank; a++) {
        own[a] = register_coord(e, l, a, i);
        c[a] = !strcmp(own[a], "0") ? thread[a] : !strcmp(thread[a], "0") ? own[a] : str(e, "(%s + %s)", thread[a], own[a]);
    }
}

const char *tile_condition(Emit *e, const Layout *l, const char *const *c)
{
    const char *x = "";
    for (int a = 0; a < l->rank; a++)
        if (l->cover[a] != l->tile[a]) x = str(e, "%s%s%s < %d", x, *x ? " && " : "", c[a], l->tile[a]);
    return x;
}

/* Vectors whose registers lie apart: through a few words of their own. */
static void load_apart(Emit *e, const Window *w, const Layout *l, DType d, const LayoutVector *v, const char *ptr, const char *to, const Value *pad)
{
    int words = (int)v->bytes / 4, pw = per_word(d);
    bool follow;
    const char *c[TILE_MAX_RANK], *t = tmp(e, "w");
    begin_unrolled(e, "v", (int)layout_regs(l) / (int)v->n);
    const char *base = vector_base(e, l, v, "v", &follow);
    coords_at(e, l, base, c);
    const char *in_window = window_condition(e, w, c, false), *cond = both_conditions(e, tile_condition(e, l, c), in_window);
    line(e, "%s %s[%d];", array_type(d), t, dtype_bytes(d) >= 4 ? (int)v->n : words);
    const char *call = str(e, "%s(%s, %s + %s);", window_load_fn(e, w, (int)v->bytes), t, ptr, window_index(e, w, c));
    int n = dtype_bytes(d) >= 4 ? (int)v->n : words;
    if (*cond) {
        line(e, "if (%s) %s", cond, call);
        const char *none = "";
        for (int k = 0; k < n; k++) none = str(e, "%s%s[%d] = ", none, t, k);
        line(e, "else %s%s;", none, dtype_bytes(d) >= 4 ? pad_value(e, pad, d) : pad_word(e, pad, d));
    } else line(e, "%s", call);
    for (int k = 0; k < n; k++) {
        const char *at = vector_reg(e, v, base, pw > 1 ? k * pw : k);
        line(e, "%s[%s] = %s[%d];", to, pw > 1 ? str(e, "(%s) / %d", at, pw) : at, t, k);
    }
    end_block(e);
}

/* Can all of this load go through a buffer resource, which needs no branch for what is masked? */
static bool through_buffer(Emit *e, const Instr *i)
{
    MemParts m;
    Window w;
    LayoutVector v;
    if (!is_hip(e) || !e->f->fits32 || i->op != OP_LOAD || !ir_mem_parts(i, &m) || m.pad || m.token || m.result->type->kind != TYPE_TILE || !m.result->type->layout) return false;
    window_of(e, i, &w);
    if (window_vector(e, &w, layout_of(e, m.result), m.tensor->type->dtype, &v) == 1) return v.bytes == 4;
    if (!window_whole_vectors(e, &w, (int)v.n)) return false;
    for (uint32_t k = 0; k < v.n; k++) if (v.reg[k] != k) return false;
    return true;
}

/* if (c) { tiles = loads } else { tiles = 0 }: without a branch, which would cut the block that clang schedules: buffers of no bytes where c is
 * false, from which 0 comes without going to memory. */
bool emit_guarded_loads(Emit *e, Instr *i)
{
    if (!is_hip(e) || e->guard || !i->n_results) return false;
    Instr *then = ir_terminator(i->blocks[0]), *other = ir_terminator(i->blocks[1]);
    for (int k = 0; k < i->n_results; k++) {
        const Instr *load = ir_operand(then, k)->def;
        const Value *none = ir_operand(other, k);
        if (none->def && none->def->op == OP_MATERIALIZE) none = ir_operand(none->def, 0);
        if (!kernel_is_zero(none) || !load || load->block != i->blocks[0] || !through_buffer(e, load) || ir_use_count(ir_operand(then, k)) != 1) return false;
    }
    for (const Instr *x = i->blocks[0]->first; x != then; x = x->next)
        if (x->op != OP_LOAD && !((op_info[x->op].flags & OPF_PURE) && x->n_blocks == 0 && x->n_results == 1 && x->results[0].type->kind == TYPE_SCALAR)) return false;
    for (const Instr *x = i->blocks[1]->first; x != other; x = x->next) if (!(op_info[x->op].flags & OPF_PURE) && x->op != OP_MATERIALIZE) return false;
    /* Loads return in order: one of this step that clang put behind these would be waited for together with them. Only loads and stores stay on their side. */
    bool own = false;
    for (const Instr *x = i->prev; x && !own; x = x->prev) own = x->op == OP_LOAD && i->block->parent && i->block->parent->op == OP_FOR;
    if (own) line(e, "%s(0x78f);", use(e, "sched_barrier"));
    e->guard = name_of(e, ir_operand(i, 0));
    emit_block(e, i->blocks[0]);
    e->guard = NULL;
    for (int k = 0; k < i->n_results; k++) e->storage[i->results[k].id] = e->storage[ir_operand(then, k)->id];
    return true;
}

const char *without_branches(Emit *e, const char *cond)
{
    char *x = arena_strdup(&e->s->arena, cond);
    for (char *p = x; (p = strstr(p, "&&")); p += 2) memcpy(p, "& ", 2);
    return x;
}

/* The tile in accesses of n elements, whose registers follow each other. */
static void load_vectors(Emit *e, const Instr *i, const Window *w, const Layout *l, DType d, const LayoutVector *v, int n, const char *ptr, const char *to)
{
    MemParts m;
    ir_mem_parts(i, &m);
    const char *c[TILE_MAX_RANK] = { 0 };
    int regs = (int)layout_regs(l), pw = per_word(d);
    int words = (int)v->bytes / 4, per = dtype_bytes(d) >= 4 ? 1 : pw;
    const char *buffer = NULL;
    if ((w->masked || e->guard) && through_buffer(e, i)) {
        buffer = tmp(e, "buffer");
        line(e, "const Buffer %s = %s(%s, %s);", buffer, use(e, "make_buffer"), ptr, e->guard ? str(e, "%s ? 0xfffffff0u : 0u", e->guard) : "0xfffffff0u");
    }
    const char *thread[TILE_MAX_RANK], *own[TILE_MAX_RANK], *at = NULL;
    if (is_hip(e)) coords_in_parts(e, l, thread);
    if (buffer) {
        at = tmp(e, "at");
        line(e, "const u32 %s = (u32)(%s) * %du;", at, window_index(e, w, thread), dtype_bytes(d));
    }
    begin_unrolled(e, "v", regs / n);
    const char *r = str(e, "%d * v", n);
    if (is_hip(e)) coords_of_parts(e, l, thread, r, c, own);
    else coords_at(e, l, r, c);
    const char *inside = tile_condition(e, l, c), *cond = both_conditions(e, inside, window_condition(e, w, c, false));
    const char *dst = str(e, "&%s[%d * v]", to, dtype_bytes(d) >= 4 ? n : n / per), *fn = window_load_fn(e, w, (int)v->bytes);
    const char *call = str(e, "%s(%s, %s + %s)", fn, dst, ptr, window_index(e, w, c));
    if (buffer) {           /* no branch: an offset beyond the buffer gives 0 */
        const char *to = str(e, "%s + (u32)(%s) * %du", at, window_index(e, w, own), dtype_bytes(d));
        line(e, "%s(%s, %s, %s);", use(e, str(e, "buffer_load_b%d", (int)v->bytes * 8)), dst, buffer, *cond ? str(e, "(%s) ? %s : ~0u", without_branches(e, cond), to) : to);
    } else if (!*cond) line(e, "%s;", call);
    else {
        bool whole = window_whole_vectors(e, w, n);
        if (!whole) {
            const char *last[TILE_MAX_RANK];
            memcpy(last, c, sizeof last);
            last[w->unit_tile] = str(e, "%s + %d", c[w->unit_tile], n - 1);
            cond = both_conditions(e, cond, window_condition(e, w, last, false));
        }
        line(e, "if (%s) %s;", cond, call);
        line(e, "else {");
        e->indent++;
        if (whole) {
            for (int k = 0; k < (dtype_bytes(d) >= 4 ? n : words); k++)
                line(e, "%s[%d * v + %d] = %s;", to, dtype_bytes(d) >= 4 ? n : words, k, dtype_bytes(d) >= 4 ? pad_value(e, m.pad, d) : pad_word(e, m.pad, d));
        } else {
            for (int k = 0; k < n; k += pw) {
                const char *xs[4];
                for (int q = 0; q < pw; q++) {
                    const char *cc[TILE_MAX_RANK];
                    coords_at(e, l, str(e, "%d * v + %d", n, k + q), cc);
                    const char *pad = pad_value(e, m.pad, d), *index = window_index(e, w, cc), *in_window = both_conditions(e, inside, window_condition(e, w, cc, false));
                    xs[q] = str(e, "(%s ? %s(%s + %s) : %s)", in_window, use(e, str(e, "ldg_%s", dtype_name(d))), ptr, index, pad);
                }
                line(e, "%s[%d * v + %d] = %s;", to, n / pw, k / pw, pack_expr(e, d, xs, pw));
            }
        }
        end_block(e);
    }
    end_block(e);
}

/* Many masked accesses behind products that take all the power there is: one branch for all of them, for most tiles lie inside (H100, GEMM 4096 with a
 * residual: 721 TFLOPS masked, 728 without). In loops masks are split off before (mask-peel, mask-branch). */
static bool one_branch(const Emit *e, const Instr *i, const Window *w, const Layout *l, int accesses)
{
    enum { MANY = 8 };
    if (!e->plan->producer_warps || !w->masked || accesses < MANY) return false;
    for (int a = 0; a < l->rank; a++) if (l->cover[a] != l->tile[a]) return false;
    for (const Instr *p = i->block->parent; p; p = p->block->parent) if ((p->op == OP_FOR && !ir_holds(p->blocks[0], OP_PROGRAM_COORD)) || p->op == OP_WHILE) return false;
    for (const Instr *p = i->prev; p; p = p->prev) if (ir_is_or_holds(p, OP_WGMMA)) return true;
    return false;
}

/* Element by element. */
static void load_elements(Emit *e, const MemParts *m, const Window *w, const Layout *l, const char *ptr, const char *to)
{
    DType d = m->tensor->type->dtype;
    const char *c[TILE_MAX_RANK] = { 0 };
    int regs = (int)layout_regs(l), pw = per_word(d);
    /* elements of less than a word travel as their bits */
    DType bits = pw == 1 || !dtype_is_float(d) ? d : pw == 2 ? DT_U16 : DT_U8;
    const char *pad = pad_value(e, m->pad, d), *fn = use(e, str(e, "ldg_%s", dtype_name(bits)));
    if (m->pad && bits != d) pad = str(e, "%s(%s)", use(e, str(e, "bits_%s_%s", dtype_name(d), dtype_name(bits))), pad);
    int words = array_len(d, regs);
    bool loop = regs % pw == 0 && words > 1;
    if (loop) begin_unrolled(e, "v", words);
    for (int g = 0; g < (loop ? 1 : words); g++) {
        const char *xs[4];
        int here = regs - g * pw < pw ? regs - g * pw : pw;
        for (int k = 0; k < here; k++) {
            coords_at(e, l, loop ? (pw == 1 ? "v" : str(e, "%d * v + %d", pw, k)) : str(e, "%d", g * pw + k), c);
            const char *in_window = window_condition(e, w, c, false), *cond = both_conditions(e, tile_condition(e, l, c), in_window);
            xs[k] = str(e, "%s(%s + %s)", fn, ptr, window_index(e, w, c));
            if (*cond) xs[k] = str(e, "(%s ? %s : %s)", cond, xs[k], pad);
        }
        line(e, "%s[%s] = %s;", to, loop ? "v" : str(e, "%d", g), pack_expr(e, bits, xs, here));
    }
    if (loop) end_block(e);
}

void emit_load(Emit *e, Instr *i)
{
    MemParts m;
    Window w;
    ir_mem_parts(i, &m);
    keep_order(e, i);
    window_of(e, i, &w);
    DType d = m.tensor->type->dtype;
    const char *ptr = window_pointer(e, &w), *c[TILE_MAX_RANK] = { 0 };
    if (m.result->type->kind == TYPE_SCALAR) {
        const char *cond = window_condition(e, &w, c, false), *x = str(e, "%s(%s)", use(e, str(e, "ldg_%s", dtype_name(d))), ptr), *n = name_of(e, m.result);
        if (*cond) line(e, "%s %s = %s;\n    if (%s) %s = %s;", ctype(d), n, pad_value(e, m.pad, d), cond, n, x);
        else line(e, "const %s %s = %s;", ctype(d), n, x);
        e->storage[m.result->id] = n;
        return;
    }
    const Layout *l = layout_of(e, m.result);
    const char *to = declare_tile(e, m.result);
    ShiftDone shifted = emit_shifted_load(e, &w, l, ptr, to, m.pad);
    if (shifted != SHIFT_NONE) {
        if (shifted == SHIFT_PART) { load_elements(e, &m, &w, l, ptr, to); end_block(e); }
        return;
    }
    LayoutVector v;
    int n = window_vector(e, &w, l, d, &v), regs = (int)layout_regs(l);
    bool follow = true;
    for (uint32_t k = 0; k < v.n; k++) follow = follow && v.reg[k] == k;
    if (n > 1 && !follow && (window_whole_vectors(e, &w, n) || !w.masked)) {
        load_apart(e, &w, l, d, &v, ptr, to, m.pad);
        return;
    }
    if (!follow) n = 1;
    if (n > 1 && one_branch(e, i, &w, l, regs / n)) {
        Window inside = w;
        inside.masked = false;
        line(e, "if (%s) {", window_inside(e, &w, l));
        e->indent++;
        load_vectors(e, i, &inside, l, d, &v, n, ptr, to);
        end_block(e);
        line(e, "else {");
        e->indent++;
        load_vectors(e, i, &w, l, d, &v, n, ptr, to);
        end_block(e);
        return;
    }
    if (n > 1 || ((w.masked || e->guard) && through_buffer(e, i))) {
        load_vectors(e, i, &w, l, d, &v, n, ptr, to);
        return;
    }
    load_elements(e, &m, &w, l, ptr, to);
}

const char *unique_holder(Emit *e, const Layout *l)
{
    static const char *const inputs[] = { "0", "lane", "warp", "block" };
    LayoutTerm t[LAYOUT_MAX_TERMS];
    int n = layout_unique_terms(l, t);
    const char *x = "";
    for (int k = 0; k < n; k++) {
        const char *y = str(e, "(%s >> %d)", inputs[t[k].in], t[k].shift);
        if (t[k].div > 1) y = str(e, "%s / %u", y, t[k].div);
        if (t[k].mod) y = str(e, "%s %% %u", y, t[k].mod);
        x = both_conditions(e, x, str(e, "%s == 0", y));
    }
    return x;
}

/* Address of the vector's words in order: the registers themselves, or a copy when they lie apart. */
static const char *vector_words(Emit *e, const LayoutVector *v, const char *from, DType d, const char *base, bool follow)
{
    int pw = per_word(d), words = (int)v->n / pw;
    const char *at = pw > 1 ? str(e, "(%s) / %d", base, pw) : base;
    if (follow) return str(e, "&%s[%s]", from, at);
    const char *t = tmp(e, "w"), *init = "";
    for (int k = 0; k < words; k++) init = str(e, "%s%s%s[%s + %u]", init, k ? ", " : "", from, at, v->reg[k * pw] / (unsigned)pw);
    line(e, "const %s %s[%d] = { %s };", array_type(d), t, words, init);
    return t;
}

static const char *first_thread(Emit *e) { (void)e; return "tid == 0"; }

void emit_store(Emit *e, Instr *i)
{
    MemParts m;
    Window w;
    ir_mem_parts(i, &m);
    keep_order(e, i);
    window_of(e, i, &w);
    Value *x = m.values[0];
    DType d = m.tensor->type->dtype;
    const char *ptr = window_pointer(e, &w), *c[TILE_MAX_RANK] = { 0 };
    if (x->type->kind == TYPE_SCALAR) {
        const char *what = name_of(e, x), *in_window = window_condition(e, &w, c, false);
        line(e, "if (%s) %s(%s, %s);", both_conditions(e, first_thread(e), in_window), use(e, str(e, "stg_%s", dtype_name(d))), ptr, what);
        return;
    }
    const Layout *l = layout_of(e, x);
    const char *from = e->storage[x->id];
    if (!from) {
        from = tmp(e, "val");
        line(e, "%s %s[%d];", array_type(d), from, array_len(d, (int)layout_regs(l)));
        int nr = (int)layout_regs(l), p = per_word(d);
        for (int wd = 0; wd < array_len(d, nr); wd++) {
            const char *xs[4];
            int here = nr - wd * p < p ? nr - wd * p : p;
            for (int k = 0; k < here; k++) xs[k] = element(e, x, l, str(e, "%d", wd * p + k));
            line(e, "%s[%d] = %s;", from, wd, pack_expr(e, d, xs, here));
        }
    }
    ShiftDone shifted = emit_shifted_store(e, &w, l, d, ptr, from);
    if (shifted == SHIFT_ALL) return;
    LayoutVector v;
    /* elements of less than a word travel as their bits */
    DType bits = per_word(d) == 1 || !dtype_is_float(d) ? d : per_word(d) == 2 ? DT_U16 : DT_U8;
    const char *put = use(e, str(e, "stg_%s", dtype_name(bits)));
    int n = window_vector(e, &w, l, d, &v), regs = (int)layout_regs(l);
    bool follow = true;
    const char *holder = unique_holder(e, l);
    if (n > 1 && !window_whole_vectors(e, &w, n)) {
        /* ragged in the unit axis: whole vectors where they fit, single elements at the edge */
        begin_unrolled(e, "v", regs / n);
        const char *base = vector_base(e, l, &v, "v", &follow);
        coords_at(e, l, base, c);
        const char *last[TILE_MAX_RANK];
        memcpy(last, c, sizeof last);
        last[w.unit_tile] = str(e, "%s + %d", c[w.unit_tile], n - 1);
        const char *inside = both_conditions(e, holder, tile_condition(e, l, c)), *words = vector_words(e, &v, from, d, base, follow);
        const char *index = window_index(e, &w, c), *last_in = window_condition(e, &w, last, false), *both_in = both_conditions(e, window_condition(e, &w, c, false), last_in);
        line(e, "if (%s) %s(%s + %s, %s);", both_conditions(e, inside, both_in), use(e, str(e, "stg_b%d", (int)v.bytes * 8)), ptr, index, words);
        line(e, "else {");
        e->indent++;
        for (int k = 0; k < n; k++) {
            const char *cc[TILE_MAX_RANK], *r = vector_reg(e, &v, base, k);
            coords_at(e, l, r, cc);
            const char *what = stored_element(e, from, bits, r), *at = window_index(e, &w, cc), *in_window = window_condition(e, &w, cc, false);
            line(e, "if (%s) %s(%s + %s, %s);", both_conditions(e, inside, in_window), put, ptr, at, what);
        }
        end_block(e);
        end_block(e);
        if (shifted == SHIFT_PART) end_block(e);
        return;
    }
    begin_unrolled(e, "v", regs / n);
    const char *base = n > 1 ? vector_base(e, l, &v, "v", &follow) : "v";
    coords_at(e, l, base, c);
    const char *in_window = window_condition(e, &w, c, false), *cond = both_conditions(e, both_conditions(e, holder, tile_condition(e, l, c)), in_window);
    const char *what = n > 1 ? vector_words(e, &v, from, d, base, follow) : stored_element(e, from, bits, "v"), *index = window_index(e, &w, c);
    const char *st = str(e, "%s(%s + %s, %s)", n > 1 ? use(e, str(e, "stg_b%d", (int)v.bytes * 8)) : put, ptr, index, what);
    if (*cond) line(e, "if (%s) %s;", cond, st);
    else line(e, "%s;", st);
    end_block(e);
    if (shifted == SHIFT_PART) end_block(e);
}

/* --- gathers, scatters, atomics ---------------------------------------------------------------------------------------- */

static const char *indexed_value(Emit *e, const Value *v, const Layout *l, const char *i)
{
    return v->type->kind == TYPE_SCALAR ? name_of(e, v) : element(e, v, l, i);
}

void emit_indexed(Emit *e, Instr *i)
{
    MemParts m;
    ir_mem_parts(i, &m);
    keep_order(e, i);
    DType d = m.tensor->type->dtype;
    const Value *shape = m.result ? m.result : m.values[0];
    const Layout *l = NULL;
    if (shape->type->kind == TYPE_TILE) {
        const Value *tiles[TILE_MAX_RANK + 3] = { shape, m.mask, m.values[1] };
        for (int a = 0; a < m.rank; a++) tiles[3 + a] = m.idx[a];
        for (int k = 0; !l && k < m.rank + 3; k++) if (tiles[k] && tiles[k]->type->layout) l = layout_of(e, tiles[k]);
        if (!l) ir_fail(e->s, i->loc, "no layout for %s", op_info[i->op].name);
    }
    const char *base = slot_name(e, SLOT_DATA, m.param, 0, d), *result = NULL;
    bool atomic = i->op == OP_ATOMIC_RMW || i->op == OP_ATOMIC_CAS, writes = i->op != OP_GATHER;
    /* Where several threads hold an element, one of them does the atomic: the others get the old value through shared memory. */
    const char *shared_base = NULL;
    if (atomic && l && m.result->uses && *unique_holder(e, l)) {
        int64_t at = scratch(e, type_elements(m.result->type) * dtype_bytes(d));
        shared_base = tmp(e, "sh");
        line(e, "const u32 %s = shared_base + SCRATCH + %lld;", shared_base, (long long)at);
        barrier(e);
    }
    if (m.result && !shared_base) {
        if (l) result = declare_tile(e, m.result);
        else { result = name_of(e, m.result); line(e, "%s %s = %s;", ctype(d), result, pad_value(e, m.pad, d)); e->storage[m.result->id] = result; }
    }
    int64_t sem = ir_attr_int(i, ATTR_SEM, SEM_RELAXED);
    if (atomic && (sem == SEM_RELEASE || sem == SEM_ACQ_REL)) { memory_barrier(e); line(e, "%s();", use(e, "fence_device")); }
    int regs = l ? (int)layout_regs(l) : 1, pw = m.result && l ? per_word(d) : 1, groups = (regs + pw - 1) / pw;
    bool loop = regs % pw == 0 && groups > 1;
    const char *holder = !writes ? "" : l ? unique_holder(e, l) : first_thread(e);
    if (loop) begin_unrolled(e, "v", groups);
    for (int g = 0; g < (loop ? 1 : groups); g++) {
        const char *xs[4];
        if (!loop) { line(e, "{"); e->indent++; }
        int here = regs - g * pw < pw ? regs - g * pw : pw;
        for (int k = 0; k < here; k++) {
            const char *r = loop ? (pw == 1 ? "v" : str(e, "%d * v + %d", pw, k)) : str(e, "%d", g * pw + k), *cond = "", *at = NULL, *c[TILE_MAX_RANK];
            if (l) { coords_at(e, l, r, c); cond = tile_condition(e, l, c); }
            cond = both_conditions(e, holder, cond);
            if (m.mask) cond = both_conditions(e, cond, indexed_value(e, m.mask, l, r));
            const char *p = tmp(e, "p"), *x = tmp(e, "x");
            for (int a = 0; a < m.rank; a++) {
                const char *ix = str(e, "(i64)%s", indexed_value(e, m.idx[a], l, r));
                cond = both_conditions(e, cond, str(e, "(u64)(%s) < (u64)%s", ix, window_extent(e, m.param, a)));
                const char *t = times(e, ix, window_stride(e, m.param, a));
                at = at ? str(e, "%s + %s", at, t) : t;
            }
            line(e, "%s %s = %s;", ctype(d), x, pad_value(e, m.pad, d));
            line(e, "if (%s) {", cond);
            e->indent++;
            line(e, "%s%s *const %s = %s + %s;", e->f->params[m.param].kind == PARAM_IN ? "const " : "", pointee(d), p, base, at);
            const char *v0 = m.values[0] ? indexed_value(e, m.values[0], l, r) : NULL;
            if (i->op == OP_GATHER) line(e, "%s = %s(%s);", x, use(e, str(e, "ldg_%s", dtype_name(d))), p);
            else if (i->op == OP_SCATTER) line(e, "%s(%s, %s);", use(e, str(e, "stg_%s", dtype_name(d))), p, v0);
            else if (i->op == OP_ATOMIC_RMW)
                line(e, "%s = %s(%s, %s);", x, use(e, str(e, "atomic_%s_%s", attr_enum_name(ATTR_RMW, ir_attr_int(i, ATTR_RMW, 0)), dtype_name(d))), p, v0);
            else line(e, "%s = %s(%s, %s, %s);", x, use(e, str(e, "atomic_cas_%s", dtype_name(d))), p, v0, indexed_value(e, m.values[1], l, r));
            end_block(e);
            if (shared_base) {
                const char *mine = both_conditions(e, holder, tile_condition(e, l, c));
                line(e, "%s%s%s%s(%s + (%s) * %d, %s);", *mine ? "if (" : "", mine, *mine ? ") " : "", use(e, str(e, "sts_%s", dtype_name(d))), shared_base,
                     row_major(e, c, m.result->type), dtype_bytes(d), x);
            }
            xs[k] = x;
        }
        if (shared_base) {}
        else if (m.result && l) line(e, "%s[%s] = %s;", result, loop ? "v" : str(e, "%d", g), pack_expr(e, d, xs, here));
        else if (m.result) line(e, "%s = %s;", result, xs[0]);
        if (!loop) end_block(e);
    }
    if (loop) end_block(e);
    if (shared_base) {
        barrier(e);
        fill_elements(e, m.result, shared_base, row_major, m.result->type);
    }
    if (atomic && !l && m.result && m.result->uses) {
        /* one thread did it: everyone gets the old value */
        int64_t at = scratch(e, 8);
        barrier(e);
        const char *cell = shared_pointer(e, ctype(d), at);
        line(e, "if (tid == 0) *%s = %s;", cell, result);
        barrier(e);
        line(e, "%s = *%s;", result, cell);
    }
    if (atomic && (sem == SEM_ACQUIRE || sem == SEM_ACQ_REL)) { line(e, "%s();", use(e, "fence_device")); memory_barrier(e); }
}
