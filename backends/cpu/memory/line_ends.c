/* line_ends.c: rows of a large output that begin and end within lines of the cache. Stores past the caches
 * write whole lines. If two rows of tiles share a line, each would write its part through the caches, and
 * wait for the rest of the line from memory. So the ends of a row are set aside until the other parts come:
 *
 *     | . . . a a a a a | a a a a a a a a | a a a . . . . . |     a row of a tile, in lines
 *       end: aside        past the caches   end: aside
 *
 * Parts of lines lie in a table in scratch memory, at a place that follows from the row's number. A part
 * that completes its line sends it past the caches. One that finds another line in its place writes that
 * line's bytes through the caches, as does the end of the call with what is left. Nothing of the kernel reads
 * the output, and one store alone writes it, so that nobody sees that parts come late.
 *
 * Rows come from a buffer that has them as they are stored: of tiles that are transposed or that were
 * computed before. Others are computed into a row of scratch memory. */
#include "backends/cpu/debug.h"
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/product/mma.h"
#include "backends/cpu/nest.h"

enum {
    KEY_BYTES = 16,     /* of a line's address, and a bit for each of its bytes that are there */
    LEAST_ROW = 1024,   /* bytes of a row that is computed into scratch memory, */
    PART_OF_SECOND = 16 /* and the part of the second cache that it takes at most */
};

/* --- the plan ---------------------------------------------------------------------------------------- */

static bool touches(const void *store, const Instr *i)
{
    MemParts of_store, m;
    ir_mem_parts(store, &of_store);
    return i != store && ir_mem_parts(i, &m) && m.param == of_store.param;
}

/* The only store of the step; NULL: it has none, or several. */
static Sink *store_of(const Step *s)
{
    Sink *store = NULL;
    for (Sink *k = s->kind == STEP_NEST ? s->sinks : NULL; k; k = k->next) {
        if (k->kind != SINK_STORE) continue;
        if (store) return NULL;
        store = k;
    }
    return store;
}

/* Whether the step does nothing but store rows of a buffer. */
static bool stores_buffer(const Plan *p, const Step *s)
{
    const Buf *b = plan_info(p, s->sinks->value)->buf;
    return !s->sinks->next && b && b->form == FORM_DENSE;
}

static bool writes_rows(const Plan *p, const Step *s)
{
    MemParts m;
    const Sink *k = store_of(s);
    if (!k || s->rank < 1 || !ir_mem_parts(k->instr, &m) || ir_adds(k->instr) || m.mask) return false;
    const Type *t = k->value->type;
    const Param *to = &p->func->params[m.param];
    int64_t row = s->shape[s->rank - 1], bytes = row * dtype_bytes(t->dtype);
    int axis = memory_unit_axis(p->func, k->instr);
    if (axis != t->rank - 1 || t->shape[axis] != row || row == 1) return false;
    if (!stores_buffer(p, s) && (bytes < LEAST_ROW || bytes > p->target->second_cache / PART_OF_SECOND))
        return false;
    return to->kind == PARAM_OUT && to->type->dtype == t->dtype && t->dtype != DT_BOOL &&
           !ir_any_in(p->func->body, touches, k->instr);
}

/* As many lines as the second cache has. */
static int64_t places_of(const Gen *g) { return g->target->second_cache / LINE; }

static int64_t table_bytes(const CpuTarget *t) { return t->second_cache / LINE * (KEY_BYTES + LINE); }

/* Only steps of the program's body: they run once in a program, so that no part that lies aside is older than
 * what the same program stores there later. */
void plan_line_ends(Plan *p)
{
    enum { FEWEST_VECTORS = 2 }; /* of a line, so that a part is merged in few instructions */
    if (p->target->vector_bytes * FEWEST_VECTORS < LINE || p->target->second_cache < LINE) return;
    for (Step *s = p->body->first; s; s = s->next) {
        if (!writes_rows(p, s)) continue;
        s->line_ends = ++p->line_ends;
        int64_t bytes = s->shape[s->rank - 1] * dtype_bytes(store_of(s)->value->type->dtype);
        const Instr *stored = store_of(s)->value->def;
        p->neighbours |= stored && stored->op == OP_LOAD;
        if (stores_buffer(p, s)) continue;
        s->row_aside = true;
        if (bytes > p->row_aside) p->row_aside = bytes;
    }
}

/* Rows are read by whole lines: also behind the last row. */
int64_t line_ends_bytes(const Plan *p)
{ return p->line_ends ? table_bytes(p->target) + p->row_aside + LINE : 0; }

int64_t line_ends_before(const Plan *p) { return p->line_ends ? LINE : 0; }

/* --- the table --------------------------------------------------------------------------------------- */

static LLVMValueRef keys_of(Gen *g) { return gen_ptr(g, g->scratch, gen_int(g, g->plan->line_ends_at)); }

static LLVMValueRef mask_of(Gen *g, LLVMValueRef bits)
{ return LLVMBuildBitCast(g->b, bits, gen_vec(g->i1, LINE), ""); }

static LLVMValueRef bytes_of(Gen *g) { return LLVMConstInt(g->i64, LINE, false); }

static LLVMValueRef load_bytes(Gen *g, LLVMValueRef at)
{
    LLVMValueRef v = LLVMBuildLoad2(g->b, gen_vec(g->i8, LINE), at, "");
    LLVMSetAlignment(v, 1);
    return v;
}

/* The whole line at `at`, past the caches. */
static void send_line(Gen *g, LLVMValueRef v, LLVMValueRef at)
{
    v = LLVMBuildFreeze(g->b, LLVMBuildBitCast(g->b, v, gen_vec(g->i32, LINE / 4), ""), "");
    LLVMValueRef s = LLVMBuildStore(g->b, v, at);
    LLVMSetAlignment(s, LINE);
    memory_bypass(g, s);
}

/* The bits of the bytes that make whole words of four bytes. */
static LLVMValueRef whole_words(Gen *g, LLVMValueRef bits)
{
    LLVMValueRef all = bits;
    for (int k = 1; k <= 2; k *= 2)
        all = LLVMBuildAnd(g->b, all, LLVMBuildLShr(g->b, all, gen_int(g, k), ""), "");
    all = LLVMBuildAnd(g->b, all, gen_int(g, 0x1111111111111111), "");
    return LLVMBuildMul(g->b, all, gen_int(g, 15), "");
}

static LLVMValueRef bit_function(Gen *g, const char *name, LLVMValueRef x, bool zero_too)
{
    LLVMValueRef v[] = { x, LLVMConstInt(g->i1, 0, false) };
    return gen_intrinsic(g, name, (LLVMTypeRef[]){ g->i64 }, 1, v, zero_too ? 2 : 1);
}

/* One by one. */
static void store_single_bytes(Gen *g, LLVMValueRef from, LLVMValueRef at, LLVMValueRef bits)
{
    Loop l;
    LLVMValueRef left = gen_alloca(g, g->i64, "left");
    LLVMBuildStore(g->b, bits, left);
    gen_loop(g, &l, gen_int(g, 0), bit_function(g, "llvm.ctpop", bits, false), 1);
    LLVMValueRef rest = LLVMBuildLoad2(g->b, g->i64, left, ""), k = bit_function(g, "llvm.cttz", rest, true);
    LLVMBuildStore(g->b, LLVMBuildLoad2(g->b, g->i8, gen_ptr(g, from, k), ""), gen_ptr(g, at, k));
    LLVMBuildStore(g->b, LLVMBuildAnd(g->b, rest, LLVMBuildSub(g->b, rest, gen_int(g, 1), ""), ""), left);
    gen_loop_end(g, &l);
}

/* Writes the bytes of the line at `from` that have their bit: under a mask, which where there is none of
 * bytes is one of words, and then single bytes. Bytes beside them may be another thread's. So a line takes
 * few stores, and the processor asks for several lines at once. */
static void store_bytes(Gen *g, LLVMValueRef from, LLVMValueRef at, LLVMValueRef bits)
{
    bool of_bytes = memory_has_masks(g, LINE);
    LLVMTypeRef line = of_bytes ? gen_vec(g->i8, LINE) : gen_vec(g->i32, LINE / 4);
    LLVMValueRef words = whole_words(g, bits), mask = mask_of(g, of_bytes ? bits : words);
    if (!of_bytes) {
        mask = LLVMBuildBitCast(g->b, LLVMBuildSExt(g->b, mask, gen_vec(g->i8, LINE), ""), line, "");
        mask = LLVMBuildICmp(g->b, LLVMIntNE, mask, LLVMConstNull(line), "");
    }
    LLVMValueRef args[] = { LLVMBuildBitCast(g->b, load_bytes(g, from), line, ""), at, mask };
    gen_intrinsic(g, "llvm.masked.store", (LLVMTypeRef[]){ line, g->ptr }, 2, args, 3);
    if (!of_bytes) store_single_bytes(g, from, at, LLVMBuildXor(g->b, bits, words, ""));
}

/* One line of the table: where its key and its bytes are, and what they are. */
typedef struct Place {
    LLVMValueRef key, bits_at, bytes, line, bits;
} Place;

static Place place_at(Gen *g, LLVMValueRef keys, LLVMValueRef number)
{
    Place p;
    p.key = gen_ptr(g, keys, LLVMBuildMul(g->b, number, gen_int(g, KEY_BYTES), ""));
    p.bits_at = gen_ptr(g, p.key, gen_int(g, KEY_BYTES / 2));
    LLVMValueRef first = gen_ptr(g, keys, gen_int(g, places_of(g) * KEY_BYTES));
    p.bytes = gen_ptr(g, first, LLVMBuildMul(g->b, number, gen_int(g, LINE), ""));
    p.line = LLVMBuildLoad2(g->b, g->i64, p.key, "");
    p.bits = LLVMBuildLoad2(g->b, g->i64, p.bits_at, "");
    return p;
}

static LLVMValueRef line_of(Gen *g, const Place *p) { return LLVMBuildIntToPtr(g->b, p->line, g->ptr, ""); }

/* If the place holds another line: writes that line's bytes. */
static void write_through(Gen *g, const Place *p)
{
    If other;
    gen_if(g, &other, icmp(g, LLVMIntNE, p->line, gen_int(g, 0)));
    store_bytes(g, p->bytes, line_of(g, p), p->bits);
    gen_endif(g, &other);
}

/* tile.part(keys, line, bits, bytes, place): puts a part of a line aside. */
static LLVMValueRef put_part(Gen *g, LLVMTypeRef *type)
{
    LLVMTypeRef line = gen_vec(g->i8, LINE), args[] = { g->ptr, g->ptr, g->i64, line, g->i64 };
    *type = LLVMFunctionType(g->voidt, args, 5, false);
    LLVMValueRef f = helper_find(g, "tile.part");
    if (f) return f;
    Helper h;
    If same, whole;
    f = helper_begin(g, &h, "tile.part", *type);
    LLVMValueRef to = LLVMGetParam(f, 1), bits = LLVMGetParam(f, 2), v = LLVMGetParam(f, 3);
    LLVMValueRef at = LLVMBuildPtrToInt(g->b, to, g->i64, "");
    Place p = place_at(g, LLVMGetParam(f, 0), LLVMGetParam(f, 4));
    gen_if(g, &same, icmp(g, LLVMIntEQ, p.line, at));
    LLVMValueRef both_parts = LLVMBuildSelect(g->b, mask_of(g, bits), v, load_bytes(g, p.bytes), "");
    LLVMValueRef all = LLVMBuildOr(g->b, bits, p.bits, "");
    gen_if(g, &whole, icmp(g, LLVMIntEQ, all, gen_int(g, -1)));
    send_line(g, both_parts, to);
    LLVMBuildStore(g->b, gen_int(g, 0), p.key);
    gen_else(g, &whole);
    LLVMBuildStore(g->b, all, p.bits_at);
    LLVMBuildStore(g->b, both_parts, p.bytes);
    gen_endif(g, &whole);
    gen_else(g, &same);
    write_through(g, &p);
    LLVMBuildStore(g->b, at, p.key);
    LLVMBuildStore(g->b, bits, p.bits_at);
    LLVMBuildStore(g->b, v, p.bytes);
    gen_endif(g, &same);
    LLVMBuildRetVoid(g->b);
    helper_end(g, &h);
    return f;
}

/* --- rows -------------------------------------------------------------------------------------------- */

/* The bytes [lo, hi) of a line, as bits; 0 <= lo < hi <= 64. */
static LLVMValueRef bits_between(Gen *g, LLVMValueRef lo, LLVMValueRef hi)
{
    LLVMValueRef all = gen_int(g, -1), above = LLVMBuildSub(g->b, bytes_of(g), hi, "");
    return LLVMBuildAnd(g->b, LLVMBuildLShr(g->b, all, above, ""), LLVMBuildShl(g->b, all, lo, ""), "");
}

/* The bytes [lo, hi) of the line `to`, from as many at the same places of `from`, of which the whole line is
 * scratch memory (line_ends_before) and may be read. */
static void put_bytes(Gen *g, LLVMValueRef f, LLVMValueRef to, LLVMValueRef from, LLVMValueRef lo,
    LLVMValueRef hi, LLVMValueRef place)
{
    LLVMTypeRef type;
    LLVMValueRef part = put_part(g, &type), bits = bits_between(g, lo, hi);
    LLVMValueRef args[] = { LLVMGetParam(f, 0), to, bits, load_bytes(g, from), place };
    LLVMBuildCall2(g->b, type, part, args, 5, "");
}

/* tile.row(keys, to, from, bytes, place, next): at least one byte; `place` of its begin, `next` of its end.
 */
static LLVMValueRef row_function(Gen *g, LLVMTypeRef *type)
{
    LLVMTypeRef args[] = { g->ptr, g->ptr, g->ptr, g->i64, g->i64, g->i64 };
    *type = LLVMFunctionType(g->voidt, args, 6, false);
    LLVMValueRef f = helper_find(g, "tile.row");
    if (f) return f;
    Helper h;
    If begins, ends;
    Loop l;
    f = helper_begin(g, &h, "tile.row", *type);
    LLVMValueRef to = LLVMGetParam(f, 1), from = LLVMGetParam(f, 2), zero = gen_int(g, 0),
                 line = gen_int(g, LINE);
    LLVMValueRef before =
        LLVMBuildAnd(g->b, LLVMBuildPtrToInt(g->b, to, g->i64, ""), gen_int(g, LINE - 1), "");
    LLVMValueRef end = LLVMBuildAdd(g->b, before, LLVMGetParam(f, 3), ""),
                 back = LLVMBuildNeg(g->b, before, "");
    to = gen_ptr(g, to, back), from = gen_ptr(g, from, back);
    LLVMValueRef cut = icmp(g, LLVMIntNE, before, zero);
    gen_if(g, &begins, cut);
    put_bytes(g, f, to, from, before, smaller(g, end, line), LLVMGetParam(f, 4));
    gen_endif(g, &begins);
    LLVMValueRef whole = LLVMBuildAnd(g->b, end, gen_int(g, -LINE), "");
    LLVMValueRef at = gen_loop(g, &l, LLVMBuildSelect(g->b, cut, line, zero, ""), whole, LINE);
    send_line(g, load_bytes(g, gen_ptr(g, from, at)), gen_ptr(g, to, at));
    gen_loop_end(g, &l);
    LLVMValueRef rest = LLVMBuildSub(g->b, end, whole, "");
    LLVMValueRef other = LLVMBuildOr(g->b, LLVMBuildNot(g->b, cut, ""), icmp(g, LLVMIntSGT, end, line), "");
    gen_if(g, &ends, both(g, other, icmp(g, LLVMIntNE, rest, zero)));
    put_bytes(g, f, gen_ptr(g, to, whole), gen_ptr(g, from, whole), zero, rest, LLVMGetParam(f, 5));
    gen_endif(g, &ends);
    LLVMBuildRetVoid(g->b);
    helper_end(g, &h);
    return f;
}

/* The number of a row. Rows that follow each other have numbers that do. */
static LLVMValueRef number_of(Gen *g, const Window *w, LLVMValueRef *coord, int va)
{
    enum { APART = 1021 }; /* a prime, so that rows along other axes meet in few places of the table */
    LLVMValueRef number = gen_int(g, 0);
    for (int t = 0; t < w->rank; t++) {
        if (t == va) continue;
        LLVMValueRef at = gen_iadd(g, gen_scalar_i64(g, w->m.idx[w->axis[t]]), coord[t]);
        number = gen_iadd(g, gen_imul(g, number, APART), at);
    }
    return number;
}

static LLVMValueRef place_of(Gen *g, const Step *s, LLVMValueRef number)
{
    number = gen_iadd(g, gen_imul(g, number, g->plan->line_ends), gen_int(g, s->line_ends - 1));
    return LLVMBuildURem(g->b, number, gen_int(g, places_of(g)), "");
}

/* The elements [lo, hi) of the row that are stored. */
static void range_of_row(Gen *g, const WindowRow *r, LLVMValueRef *lo, LLVMValueRef *hi)
{
    *lo = r->hi ? r->lo : gen_int(g, 0);
    *hi = r->hi ? r->hi : gen_int(g, r->w->shape[r->va]);
}

static LLVMValueRef bytes_in(Gen *g, const Window *w, LLVMValueRef elements)
{ return LLVMBuildMul(g->b, elements, gen_int(g, dtype_bytes(w->dtype)), ""); }

/* Whether the row at `to` is of a large output, is not empty, and begins within a line. */
static LLVMValueRef is_cut(Gen *g, const WindowRow *r, LLVMValueRef to)
{
    const Window *w = r->w;
    LLVMValueRef lo, hi;
    range_of_row(g, r, &lo, &hi);
    LLVMValueRef at = LLVMBuildPtrToInt(g->b, gen_ptr(g, to, bytes_in(g, w, lo)), g->i64, "");
    LLVMValueRef low = LLVMBuildAnd(g->b, at, gen_int(g, LINE - 1), "");
    LLVMValueRef some = both(g, w->stream, icmp(g, LLVMIntSGT, hi, lo));
    if (!w->is_unit[r->va]) some = both(g, some, w->unit[r->va]);
    return both(g, some, icmp(g, LLVMIntNE, low, gen_int(g, 0)));
}

/* Sends the row, whose elements lie at `from`. Behind the end of a row of the tensor the next one begins. */
static void send_row(
    Gen *g, const Step *s, const WindowRow *r, LLVMValueRef to, LLVMValueRef from, LLVMValueRef *coord)
{
    const Window *w = r->w;
    LLVMTypeRef type;
    LLVMValueRef lo, hi, number = number_of(g, w, coord, r->va), f = row_function(g, &type);
    range_of_row(g, r, &lo, &hi);
    LLVMValueRef first = bytes_in(g, w, lo), bytes = bytes_in(g, w, LLVMBuildSub(g->b, hi, lo, ""));
    LLVMValueRef end = gen_iadd(g, gen_scalar_i64(g, w->m.idx[w->axis[r->va]]), hi);
    LLVMValueRef last = icmp(g, LLVMIntSGE, end, memory_extent(g, w->m.param, w->axis[r->va]));
    LLVMValueRef next = gen_iadd(g, number, LLVMBuildZExt(g->b, last, g->i64, ""));
    LLVMValueRef args[] = { keys_of(g), gen_ptr(g, to, first), gen_ptr(g, from, first), bytes,
        place_of(g, s, number), place_of(g, s, next) };
    LLVMBuildCall2(g->b, type, f, args, 6, "");
    LLVMBuildStore(g->b, LLVMConstInt(g->i1, 1, false), g->line_ends);
    g->streams = true;
}

/* Clears the keys where the first call of a thread begins, if the output is large: each call leaves them
 * clear. */
static void clear_keys(Gen *g, LLVMValueRef large)
{
    LLVMBasicBlockRef here = gen_here(g);
    LLVMMetadataRef line = debug_setup(g);
    gen_at(g, g->setup);
    LLVMValueRef n = gen_int(g, places_of(g) * KEY_BYTES), none = gen_int(g, 0);
    n = LLVMBuildSelect(g->b, both(g, large, LLVMBuildNot(g->b, gen_again(g), "")), n, none, "");
    LLVMBuildMemSet(g->b, keys_of(g), LLVMConstInt(g->i8, 0, false), n, LINE);
    if (!g->line_ends) {
        g->line_ends = gen_alloca(g, g->i1, "parts");
        LLVMBuildStore(g->b, LLVMConstInt(g->i1, 0, false), g->line_ends);
    }
    gen_at(g, here);
    debug_resume(g, line);
}

static bool may_be_cut(const Window *w, int va) { return w->stream && !w->not_unit[va]; }

/* The row at n->at; otherwise(n) where it begins with a line, or the output is not large. */
void line_ends_row(Nest *n, void (*otherwise)(Nest *))
{
    Gen *g = n->g;
    const Step *s = n->step;
    const Sink *k = s->sinks;
    LLVMValueRef coord[TILE_MAX_RANK];
    Eval e;
    If cut;
    eval_init(&e, g, 1);
    n->at[s->rank - 1] = gen_int(g, 0);
    int va = unsqueeze(g, k->value->type, n->at, s->rank, coord);
    if (s->row_aside || !may_be_cut(n->windows[0], va)) {
        otherwise(n);
        return;
    }
    if (!n->line_ends) clear_keys(g, n->windows[0]->stream);
    n->line_ends = true;
    WindowRow *r = memory_row(&e, n->windows[0], coord, va);
    gen_if(g, &cut, is_cut(g, r, r->ptr));
    send_row(g, s, r, r->ptr, buf_address(&e, plan_info(g->plan, k->value)->buf, coord), coord);
    gen_else(g, &cut);
    otherwise(n);
    gen_endif(g, &cut);
}

void line_ends_begin(Nest *n, Window *w)
{
    Gen *g = n->g;
    if (!n->step->row_aside || !may_be_cut(w, w->rank - 1)) return;
    clear_keys(g, w->stream);
    w->aside = gen_ptr(g, keys_of(g), gen_int(g, table_bytes(g->target)));
}

void line_ends_aside(Gen *g, WindowRow *r)
{
    r->to = r->ptr;
    r->cut = is_cut(g, r, r->to);
    r->ptr = LLVMBuildSelect(g->b, r->cut, r->w->aside, r->to, "");
}

void line_ends_put(Nest *n, const Eval *row)
{
    Gen *g = n->g;
    LLVMValueRef coord[TILE_MAX_RANK];
    If cut;
    for (WindowRow *r = row->rows; r; r = r->next) {
        if (!r->cut) continue;
        n->at[n->step->rank - 1] = gen_int(g, 0);
        unsqueeze(g, store_of(n->step)->value->type, n->at, n->step->rank, coord);
        gen_if(g, &cut, r->cut);
        send_row(g, n->step, r, r->to, r->w->aside, coord);
        gen_endif(g, &cut);
    }
}

/* At the end of the call: writes the parts whose lines no other part completed, and clears their keys. */
void line_ends_finish(Gen *g)
{
    enum {
        AHEAD = 8
    }; /* places; behind the last key there are bytes, and what they name may be prefetched */
    If some;
    Loop l;
    if (!g->line_ends) return;
    gen_if(g, &some, LLVMBuildLoad2(g->b, g->i1, g->line_ends, ""));
    LLVMValueRef i = gen_loop(g, &l, gen_int(g, 0), gen_int(g, places_of(g)), 1);
    Place later = place_at(g, keys_of(g), gen_iadd(g, i, gen_int(g, AHEAD)));
    memory_prefetch(g, line_of(g, &later), 3);
    Place p = place_at(g, keys_of(g), i);
    write_through(g, &p);
    LLVMBuildStore(g->b, gen_int(g, 0), p.key);
    gen_loop_end(g, &l);
    gen_endif(g, &some);
}
