/* emit_indexed.c: gathers, scatters, atomics: element by element, or in vectors of elements whose indices
 * count by ones (passes/kernel/gather/runs.c). */
#include "backends/gpu/hopper/emit_roles.h"
#include "backends/gpu/memory/emit_gathered.h"
#include "backends/gpu/memory/emit_indexed.h"
#include "backends/gpu/memory/emit_within.h"
#include "passes/kernel/gather/runs.h"

const char *indexed_value(Emit *e, const Value *v, const Layout *l, Index *i)
{ return v->type->kind == TYPE_SCALAR ? name_of(e, v) : element(e, v, l, i); }

/* Whether an index is in range for every extent of the tensor. */
static bool in_range(Emit *e, const MemParts *m, int axis)
{
    if (!e->ranges) e->ranges = ranges_new(e->f);
    RangeInfo at = range_of(e->ranges, m->idx[axis]);
    return at.lo >= 0 && at.hi < range_of_dim(e->f, e->f->params[m->param].dims[axis]).lo;
}

/* The layout of all elements, which is that of any tile among the operands. */
static const Layout *layout_of_all(Emit *e, const Instr *i, const MemParts *m)
{
    const Value *shape = m->result ? m->result : m->values[0];
    if (shape->type->kind != TYPE_TILE) return NULL;
    const Value *tiles[TILE_MAX_RANK + 3] = { shape, m->mask, m->values[1] };
    for (int a = 0; a < m->rank; a++) tiles[3 + a] = m->idx[a];
    for (int k = 0; k < m->rank + 3; k++)
        if (tiles[k] && tiles[k]->type->layout) return layout_of(e, tiles[k]);
    ir_fail(e->s, i->loc, "no layout for %s", op_info[i->op].name);
}

/* Where old values go. */
static void declare_old(Emit *e, Indexed *x)
{
    const Value *r = x->m.result;
    if (!r) return;
    if (x->atomic && x->l && r->uses && *unique_holder(e, x->l)) {
        int64_t at = scratch(e, type_elements(r->type) * dtype_bytes(x->d));
        x->shared = tmp(e, "sh");
        line(e, "const u32 %s = shared_base + SCRATCH + %lld;", x->shared, (long long)at);
        barrier(e);
        return;
    }
    if (x->l) x->result = declare_tile(e, r);
    else {
        x->result = name_of(e, r);
        line(e, "%s %s = %s;", ctype(x->d), x->result, pad_value(e, x->m.pad, x->d));
        e->storage[r->id] = x->result;
    }
}

/* What elements hold that are not accessed: bits of their type where gathered elements stay bits. */
const char *indexed_padding(Emit *e, const Indexed *x)
{
    const char *pad = pad_value(e, x->m.pad, x->d);
    if (!x->m.pad || x->bits == x->d) return pad;
    return str(e, "%s(%s)", use(e, str(e, "bits_%s_%s", dtype_name(x->d), dtype_name(x->bits))), pad);
}

/* Emits the access at pointer p. `old` receives the previous value. */
void indexed_access(Emit *e, const Indexed *x, const char *old, const char *p, Index *r)
{
    const MemParts *m = &x->m;
    const char *d = dtype_name(x->instr->op == OP_GATHER ? x->bits : x->d),
               *v = m->values[0] ? indexed_value(e, m->values[0], x->l, r) : NULL;
    if (x->instr->op == OP_GATHER) line(e, "%s = %s(%s);", old, use(e, str(e, "ldg_%s", d)), p);
    else if (x->instr->op == OP_SCATTER) line(e, "%s(%s, %s);", use(e, str(e, "stg_%s", d)), p, v);
    else if (ir_is_semaphore(x->instr) && x->sem == SEM_ACQUIRE)
        line(e, "while (%s(%s, 0) <= %s) { }", use(e, str(e, "atomic_add_%s", d)), p, v);
    else if (x->instr->op == OP_ATOMIC_RMW) {
        int64_t rmw = ir_attr_int(x->instr, ATTR_RMW, 0);
        bool loops = (rmw == RMW_MAX || rmw == RMW_MIN) && (x->d == DT_F32 || x->d == DT_F64);
        const char *stem = loops && x->sem == SEM_RELAXED ? "reach" : "atomic";
        line(e, "%s = %s(%s, %s);", old, use(e, str(e, "%s_%s_%s", stem, attr_enum_name(ATTR_RMW, rmw), d)),
            p, v);
    } else
        line(e, "%s = %s(%s, %s, %s);", old, use(e, str(e, "atomic_cas_%s", d)), p, v,
            indexed_value(e, m->values[1], x->l, r));
}

/* The condition that the index ix is in range: in 32 bits where both sides fit. */
const char *indexed_within(Emit *e, const MemParts *m, int axis, const char *ix)
{
    const Dim *d = &e->f->dims[e->f->params[m->param].dims[axis]];
    bool small = e->f->fits32 || (d->extent >= 0 && d->extent < INT32_MAX),
         words = small && dtype_bits(m->idx[axis]->type->dtype) <= 32;
    return str(
        e, words ? "(u32)%s < (u32)%s" : "(u64)(i64)%s < (u64)%s", ix, window_extent(e, m->param, axis));
}

/* Whether all indices are in range if the extents are at least 1. The access then needs no tests of its own.
 * Beside other tests, those of bounded indices stay: one less is no gain there, and ptxas may branch. */
static bool all_within(Emit *e, const MemParts *m)
{
    for (int a = 0; a < m->rank; a++)
        if (!in_range(e, m, a) && !within_if_any(e, m->idx[a], e->f->params[m->param].dims[a])) return false;
    return true;
}

/* Adds the test that index ix of the axis is in range. */
static const char *test_index(
    Emit *e, const MemParts *m, int axis, const char *ix, bool within, const char *cond)
{
    if (in_range(e, m, axis)) return cond;
    if (!within) return both_conditions(e, cond, indexed_within(e, m, axis, ix));
    if (range_of_dim(e->f, e->f->params[m->param].dims[axis]).lo > 0) return cond;
    return both_conditions(e, cond, str(e, "%s > 0", window_extent(e, m->param, axis)));
}

/* The index times the stride. Unsigned, since an index that is out of range may wrap here: the offset of an
 * access that is not made is computed too. */
const char *indexed_distance(Emit *e, const MemParts *m, int axis, const char *ix)
{
    ix = str(e, e->f->fits32 ? "(u32)%s" : "(u64)(i64)%s", ix);
    if (e->f->fits32 && e->f->params[m->param].stride[axis] == FACT_UNKNOWN)
        return str(e, "%s * (u32)%s", ix, window_stride(e, m->param, axis));
    return window_times(e, ix, m->param, axis);
}

/* The offset of register r's element in the tensor. Adds to `cond` that it is in range. */
static const char *offset_of(Emit *e, const Indexed *x, Index *r, const char **cond)
{
    const MemParts *m = &x->m;
    const char *at = NULL;
    bool within = !**cond && all_within(e, m);
    for (int a = 0; a < m->rank; a++) {
        const char *ix = indexed_value(e, m->idx[a], x->l, r), *t = indexed_distance(e, m, a, ix);
        *cond = test_index(e, m, a, ix, within, *cond);
        at = at ? str(e, "%s + %s", at, t) : t;
    }
    /* In parentheses the sum is one of 32 bits, where offsets have as many. */
    return str(e, e->f->fits32 ? "(i32)(%s)" : "(i64)(%s)", at);
}

const char *emit_semaphore_cell(Emit *e, const Instr *atomic)
{
    Indexed x = { .instr = atomic };
    ir_mem_parts(atomic, &x.m);
    const char *cond = x.m.mask ? name_of(e, x.m.mask) : "", *at = offset_of(e, &x, NULL, &cond);
    note_indexed(e, true, x.m.param, NULL, NULL);
    at = str(e, "(u64)(%s + %s)", slot_name(e, SLOT_DATA, x.m.param, 0, x.m.tensor->type->dtype), at);
    return *cond ? str(e, "(%s) ? %s : 0", cond, at) : at;
}

/* The number of the element among all of the tensor. */
static const char *number_of(Emit *e, const Indexed *x, Index *r, const char **cond)
{
    const MemParts *m = &x->m;
    const char *at = NULL;
    bool within = !**cond && all_within(e, m);
    for (int a = 0; a < m->rank; a++) {
        const char *ix = indexed_value(e, m->idx[a], x->l, r);
        *cond = test_index(e, m, a, ix, within, *cond);
        at = at ? str(e, "(%s) * (u32)%s + (u32)%s", at, window_extent(e, m->param, a), ix)
                : str(e, "(u32)%s", ix);
    }
    return at;
}

/* The condition of the access of register r, whose coordinates go to c, and its offset in the tensor. */
const char *indexed_condition(Emit *e, const Indexed *x, Index *r, Index **c, const char **at)
{
    const MemParts *m = &x->m;
    const char *cond = "";
    if (x->l) {
        coords_at(e, x->l, r, c);
        cond = tile_condition(e, x->l, r, c);
    }
    cond = both_conditions(e, x->holder, cond);
    if (m->mask) cond = both_conditions(e, cond, indexed_value(e, m->mask, x->l, r));
    *at = (x->gathered ? number_of : offset_of)(e, x, r, &cond);
    return cond;
}

/* Declares the address of the element at this offset, before its condition is tested: gathers that share
 * indices then share what is computed of these, and the vendor's compiler does not read strides again behind
 * each test. */
const char *indexed_pointer(Emit *e, const Indexed *x, const char *base, const char *at)
{
    const char *p = tmp(e, "p"), *kind = e->f->params[x->m.param].kind == PARAM_IN ? "const " : "";
    line(e, "%s%s *const %s = %s + %s;", kind, pointee(x->d), p, base, at);
    return p;
}

/* Emits the access of register r and returns the name of the old value. */
static const char *access_element(Emit *e, const Indexed *x, const char *base, Index *r)
{
    const MemParts *m = &x->m;
    Index *c[TILE_MAX_RANK];
    const char *at, *cond = indexed_condition(e, x, r, c, &at);
    if (x->gathered) {
        const char *change = emit_gathered_change(e, x->instr, at, indexed_value(e, m->values[0], x->l, r));
        line(e, "%s%s%s%s;", *cond ? "if (" : "", cond, *cond ? ") " : "", change);
        return NULL;
    }
    const char *p = indexed_pointer(e, x, base, at), *old = tmp(e, "x");
    line(e, "%s %s = %s;", ctype(x->bits), old, indexed_padding(e, x));
    line(e, *cond ? "if (%s) {" : "{", cond);
    e->indent++;
    indexed_access(e, x, old, p, r);
    end_block(e);
    if (x->shared) {
        const char *mine = both_conditions(e, x->holder, tile_condition(e, x->l, r, c)),
                   *put = use(e, str(e, "sts_%s", dtype_name(x->d)));
        line(e, "%s%s%s%s(%s + (%s) * %d, %s);", *mine ? "if (" : "", mine, *mine ? ") " : "", put, x->shared,
            row_major(e, c, m->result->type), dtype_bytes(x->d), old);
    }
    return old;
}

/* The word of elements that were accessed. The halves of gathered floats come together where the C compiler
 * does not see it: else it would take the word apart again and keep a register for each of them. */
const char *indexed_word(Emit *e, const Indexed *x, const char *const *xs, int n)
{
    if (x->bits != x->d && n == 2 && per_word(x->d) == 2 && e->target->kind == TARGET_CUDA)
        return str(e, "%s(%s, %s, 0x5410u)", use(e, "byte_perm"), xs[0], xs[1]);
    return pack_expr(e, x->bits, xs, n);
}

static void access_all(Emit *e, const Indexed *x, const char *base)
{
    int regs = x->l ? (int)layout_regs(x->l) : 1, pw = x->m.result && x->l ? per_word(x->d) : 1,
        groups = (regs + pw - 1) / pw;
    bool loop = regs % pw == 0 && groups > 1;
    if (loop) begin_unrolled(e, "v", groups);
    for (int g = 0; g < (loop ? 1 : groups); g++) {
        const char *xs[4];
        if (!loop) {
            line(e, "{");
            e->indent++;
        }
        int here = regs - g * pw < pw ? regs - g * pw : pw;
        for (int k = 0; k < here; k++) {
            Index *r = index_number(e, g * pw + k);
            if (loop) r = pw == 1 ? index_variable(e, "v") : index_plus(e, index_linear(e, pw, "v", 0), k);
            xs[k] = access_element(e, x, base, r);
        }
        if (x->gathered) { /* nobody asks for old values */
        } else if (x->result && x->l)
            line(e, "%s[%s] = %s;", x->result, loop ? "v" : str(e, "%d", g), indexed_word(e, x, xs, here));
        else if (x->result) line(e, "%s = %s;", x->result, xs[0]);
        if (!loop) end_block(e);
    }
    if (loop) end_block(e);
}

/* Emits the accesses to the words in shared memory, and opens the block of those to memory where a launch
 * of few programs makes these instead. False: no launch does. */
static bool access_gathered(Emit *e, Indexed *x)
{
    bool others = emit_gathered_some(e, x->instr);
    x->gathered = true;
    if (others) line(e, "if (%s) {", emit_gathers(e, x->m.param));
    e->indent += others;
    access_all(e, x, NULL);
    x->gathered = false;
    if (!others) return false;
    e->indent--;
    line(e, "} else {");
    e->indent++;
    return true;
}

/* The vector of elements that one access moves. v->n is 1 where elements go one by one. */
static int vector_of(Emit *e, const Indexed *x, LayoutVector *v)
{
    int axis, n = 1;
    const Instr *i = x->instr;
    *v = (LayoutVector){ .n = 1 };
    bool red = i->op == OP_ATOMIC_RMW && ir_attr_int(i, ATTR_RMW, 0) == RMW_ADD && x->d == DT_F32 &&
               target_has(e->target, TF_RED_VECTOR) && !ir_is_semaphore(i) &&
               !(x->m.result && x->m.result->uses);
    if (x->l && (i->op == OP_GATHER || i->op == OP_SCATTER || red))
        n = kernel_indexed_run(e->f, &e->ranges, i, &axis);
    if (n > 1 && vector_along(x->l, axis, x->d, (int64_t)n * dtype_bytes(x->d), v) > 1) return (int)v->n;
    *v = (LayoutVector){ .n = 1 };
    return 1;
}

/* The function that moves a vector. */
static const char *vector_fn(Emit *e, const Indexed *x, const LayoutVector *v)
{
    bool only_read = e->f->params[x->m.param].kind == PARAM_IN;
    Window w = { .cache = ir_attr_int(x->instr, ATTR_CACHE, CACHE_DEFAULT) };
    const char *stem = x->instr->op == OP_GATHER    ? only_read ? "ldg_nc" : "ldg"
                       : x->instr->op == OP_SCATTER ? "stg"
                                                    : "red_add_f32",
               *hint = x->instr->op == OP_ATOMIC_RMW ? "" : window_hint(e, &w, ACCESS_VECTOR);
    return use(e, str(e, "%s%s_b%d", stem, hint, (int)v->bytes * 8));
}

/* Sets the n words of a gathered vector whose address is `to` to the pad. */
static void pad_words(Emit *e, const Indexed *x, const char *to, int n)
{
    const char *pad = dtype_bytes(x->d) >= 4 ? pad_value(e, x->m.pad, x->d) : pad_word(e, x->m.pad, x->d);
    line(e, "else {");
    e->indent++;
    for (int k = 0; k < n; k++) line(e, "(%s)[%d] = %s;", to, k, pad);
    end_block(e);
}

static void access_vectors(Emit *e, const Indexed *x, const char *base, const LayoutVector *v)
{
    bool gathers = x->instr->op == OP_GATHER, follow;
    int pw = per_word(x->d), n = (int)v->n / pw;
    const char *from = gathers ? x->result : array_of(e, x->m.values[0], x->l), *at, *words = NULL;
    Index *c[TILE_MAX_RANK];
    begin_unrolled(e, "v", (int)layout_regs(x->l) / (int)v->n);
    Index *r = vector_base(e, x->l, v, "v", &follow);
    const char *cond = indexed_condition(e, x, r, c, &at);
    if (!gathers || follow) words = vector_words(e, v, from, x->d, r, follow);
    else line(e, "%s %s[%d];", array_type(x->d), words = tmp(e, "w"), n);
    const char *p = indexed_pointer(e, x, base, at), *fn = vector_fn(e, x, v),
               *call = gathers ? str(e, "%s(%s, %s);", fn, words, p) : str(e, "%s(%s, %s);", fn, p, words);
    if (*cond) line(e, "if (%s) %s", cond, call);
    else line(e, "%s", call);
    if (*cond && gathers) pad_words(e, x, words, n);
    for (int k = 0; k < n && gathers && !follow; k++) {
        const char *to = index_text(e, vector_reg(e, v, r, k * pw));
        line(e, "%s[%s] = %s[%d];", from, pw > 1 ? str(e, "(%s) / %d", to, pw) : to, words, k);
    }
    end_block(e);
}

/* Gathers records of three words by two accesses each, for all three gathers at the first of them. False:
 * these are others. */
static bool access_threes(Emit *e, const Indexed *x, const char *base)
{
    const Instr *of[GATHERED_WORDS];
    if (e->target->kind != TARGET_CUDA || !x->l || !kernel_gathers_threes(e->f, x->instr, of)) return false;
    const char *to[GATHERED_WORDS] = { x->result }, *at, *words = tmp(e, "w");
    for (int k = 1; k < GATHERED_WORDS; k++) to[k] = declare_tile(e, ir_result(of[k]));
    Index *c[TILE_MAX_RANK];
    begin_unrolled(e, "v", (int)layout_regs(x->l));
    const char *cond = indexed_condition(e, x, index_variable(e, "v"), c, &at),
               *p = indexed_pointer(e, x, base, at),
               *call = str(e, "%s(%s, %s);", use(e, "ldg_nc_b96"), words, p);
    line(e, "%s %s[%d];", array_type(x->d), words, GATHERED_WORDS);
    if (*cond) line(e, "if (%s) %s", cond, call);
    else line(e, "%s", call);
    if (*cond) pad_words(e, x, words, GATHERED_WORDS);
    for (int k = 0; k < GATHERED_WORDS; k++) line(e, "%s[v] = %s[%d];", to[k], words, k);
    end_block(e);
    return true;
}

/* Whether the gather has been read with another one before it. */
static bool is_read(Emit *e, const Instr *i)
{
    const Instr *of[GATHERED_WORDS];
    return e->target->kind == TARGET_CUDA && ir_result(i)->type->kind == TYPE_TILE &&
           kernel_gathers_threes(e->f, i, of) && i != of[0];
}

/* Passes old values to the threads that did not do the atomic operation. */
static void share_old(Emit *e, const Indexed *x)
{
    const Value *r = x->m.result;
    if (x->shared) {
        barrier(e);
        fill_elements(e, r, x->shared, row_major, r->type);
    }
    if (!x->atomic || x->l || !r || !r->uses) return;
    int64_t at = scratch(e, 8);
    barrier(e);
    const char *cell = shared_pointer(e, ctype(x->d), at);
    line(e, "if (tid == 0) *%s = %s;", cell, x->result);
    barrier(e);
    line(e, "%s = *%s;", x->result, cell);
}

static bool is_bulk(const void *user, const Instr *i)
{
    (void)user;
    return i->op == OP_STORE && ir_attr_int(i, ATTR_BULK, 0) > 0;
}

static bool stores_in_bulk(const Emit *e)
{
    const Block *consumers = kernel_consumers(e->f);
    return consumers && e->role == ROLE_CONSUMER && ir_any_in(consumers, is_bulk, NULL);
}

/* What the warps of this role have stored by TMA must be in memory before a release says so. The wait that
 * frees their buffers asks for less (PTX ISA, cp.async.bulk.wait_group). */
static void release(Emit *e)
{
    if (stores_in_bulk(e)) line(e, "if (lane == 0) %s(0);", use(e, "bulk_wait"));
    emit_writer_done(e, -1);
    memory_barrier(e);
    line(e, "%s();", use(e, "fence_device"));
}

/* TMA writes by another proxy, which the fence of the threads does not order (PTX ISA, fence.proxy). */
static void acquire(Emit *e)
{
    line(e, "%s();", use(e, "fence_device"));
    if (stores_in_bulk(e)) line(e, "%s();", use(e, "fence_proxy_async_global"));
    memory_barrier(e);
}

/* Whether a lane repeats the operation until it succeeds: a loop of compare and swap, or a wait. */
static bool repeats(const Indexed *x)
{
    if (!x->atomic || x->instr->op != OP_ATOMIC_RMW) return false;
    int64_t rmw = ir_attr_int(x->instr, ATTR_RMW, 0);
    return (ir_is_semaphore(x->instr) && x->sem == SEM_ACQUIRE) || dtype_bits(x->d) == 16 ||
           (dtype_is_float(x->d) && (rmw == RMW_MAX || rmw == RMW_MIN));
}

void emit_indexed(Emit *e, Instr *i)
{
    if (ir_is_semaphore(i) && ir_attr(i, ATTR_WRITER)) {
        emit_writer_semaphore(e, i);
        return;
    }
    if (i->op == OP_GATHER && is_read(e, i)) return;
    Indexed x = { .instr = i, .atomic = i->op == OP_ATOMIC_RMW || i->op == OP_ATOMIC_CAS };
    ir_mem_parts(i, &x.m);
    keep_order(e, i);
    emit_writer_done(e, x.m.param);
    x.d = x.m.tensor->type->dtype;
    x.l = layout_of_all(e, i, &x.m);
    x.bits = i->op == OP_GATHER && x.l ? bits_type(x.d) : x.d;
    LayoutVector v;
    vector_of(e, &x, &v);
    note_indexed(e, i->op != OP_GATHER, x.m.param, x.l, &v);
    x.sem = ir_attr_int(i, ATTR_SEM, SEM_RELAXED);
    const char *base = slot_name(e, SLOT_DATA, x.m.param, 0, x.d);
    declare_old(e, &x);
    if (x.atomic && (x.sem == SEM_RELEASE || x.sem == SEM_ACQ_REL)) release(e);
    x.holder = i->op == OP_GATHER ? "" : x.l ? unique_holder(e, x.l) : "tid == 0";
    bool gathered = ir_attr_int(i, ATTR_GATHERED, 0) > 0, both = gathered && access_gathered(e, &x);
    if (gathered && !both) { /* all of them went to shared memory */
    } else if (v.n > 1) access_vectors(e, &x, base, &v);
    else if (!access_threes(e, &x, base) && !emit_alike(e, &x, base)) access_all(e, &x, base);
    if (both) end_block(e);
    if (repeats(&x)) lanes_meet(e);
    share_old(e, &x);
    if (x.atomic && (x.sem == SEM_ACQUIRE || x.sem == SEM_ACQ_REL)) acquire(e);
}
