/* emit_row_weights.c: vectors of one dimension beside rows that are held from an aligned address on
 * (emit_row_start.c). They begin with the row, not with its first word.
 *
 *     row, from its aligned address on:    |..aaaaaa|bbbbbbbb|cccccccc|
 *     weights:                             |aaaaaabb|bbbbbbcc|cccccc..|
 *
 * Where words have 4 bytes they are read element by element, where words have 16 bytes as the two vectors
 * around what a thread needs. A row in parts has those of the next part on their way meanwhile, so that the
 * vectors are read by the load and put together by an `opaque`, where they are used: in one of four branches,
 * by whole words, which all threads of a program take alike. In each of them only bytes are left to be moved,
 * by as many instructions as there are words. */
#include "backends/gpu/memory/emit_row_start.h"

/* Run v of a vector of weights, element by element; those beside the vector are read from its start. */
static void load_elements(
    Emit *e, const Window *w, const RowPart *p, int v, const char *from, const char *to, DType d)
{
    const RowStart *r = p->r;
    int bytes = r->unit / r->n, first = row_run_first(r, v), in_word = per_word(d);
    const char *word = "", *start = slot_name(e, SLOT_DATA, w->param, 0, d),
               *fn = use(e, bytes == 4 ? "ldg_nc_b32" : str(e, "ldg_%s", dtype_name(bits_type(d))));
    for (int k = 0; k < r->n; k++) {
        const char *inside = row_near_begin(p, v) ? str(e, "%s + %d >= 0", r->coord, first + k) : "",
                   *at = str(e, "%s + %d", from, first + k);
        if (row_near_end(p, v))
            inside =
                both_conditions(e, inside, str(e, "%s + %d < %lld", r->coord, first + k, (long long)p->rest));
        if (*inside) at = str(e, "(%s ? %s : %s)", inside, at, start);
        if (bytes == 4) {
            line(e, "%s(&%s[%d], %s);", fn, to, v * r->n + k, at);
            continue;
        }
        const char *x = str(e, "(u32)(u%d)%s(%s)", 8 * bytes, fn, at);
        word = k % in_word ? str(e, "%s | %s << %d", word, x, 8 * bytes * (k % in_word)) : x;
        if (k % in_word == in_word - 1) line(e, "%s[%d] = %s;", to, (v * r->n + k) / in_word, word);
    }
}

/* Where weights are read around the runs of a row: the part's first element, the thread's first vector, the
 * one before it unless the row begins at a vector, and how many elements that is before. */
typedef struct Around {
    const char *part, *low, *high, *before;
} Around;

static Around around_row(Emit *e, const RowStart *r, const char *ptr, DType d)
{
    Around a = { ptr, tmp(e, "low"), tmp(e, "high"), tmp(e, "before") };
    line(e, "const i32 %s = %s ? %d : 0;", a.before, r->within, r->n);
    line(e, "const %s *const %s = %s + %s, *const %s = %s - %s;", pointee(d), a.high, ptr, r->first, a.low,
        a.high, a.before);
    return a;
}

/* The elements of the vector in which the weights end, which may reach over the end of their tensor: the one
 * or two threads that need them read them one by one, as the vector at or behind their place. */
static void load_last(
    Emit *e, const RowPart *p, const Around *from, const char *place, const char *around, DType d)
{
    int n = p->r->n, bytes = p->r->unit / n, left = (int)((p->rest % n + n) % n), in_word = per_word(d);
    long long begin = (long long)p->rest - left;
    const char *word = "",
               *fn = use(e, bytes == 4 ? "ldg_nc_b32" : str(e, "ldg_%s", dtype_name(bits_type(d))));
    if (!left) return;
    line(e, "if (%s == %lld || %s - %s == %lld) {", place, begin, place, from->before, begin);
    e->indent++;
    for (int k = 0; k < left; k++) {
        const char *at = str(e, "%s + %lld", from->part, begin + k);
        if (bytes == 4) {
            line(e, "%s(&%s[%d], %s);", fn, around, 4 + k, at);
            continue;
        }
        const char *x = str(e, "(u32)(u%d)%s(%s)", 8 * bytes, fn, at);
        word = k % in_word ? str(e, "%s | %s << %d", word, x, 8 * bytes * (k % in_word)) : x;
        if (k % in_word == in_word - 1 || k + 1 == left)
            line(e, "%s[%d] = %s;", around, 4 + k / in_word, word);
    }
    for (int k = 0; k < (left + in_word - 1) / in_word; k++)
        line(e, "%s[%d] = %s - %s == %lld ? %s[%d] : %s[%d];", around, k, place, from->before, begin, around,
            4 + k, around, k);
    end_block(e);
}

bool emit_row_shifts_later(Emit *e, const Instr *load, const Window *w, const Layout *l)
{
    const RowStart *r = row_start(e, l);
    if (!r || r->unit != ROW_VECTOR || w->rank > 1 || row_runs(r) != 1) return false;
    for (const Use *u = ir_result(load)->uses; u; u = u->next)
        if (u->user->op != OP_OPAQUE) return false;
    return true;
}

static const char *read_around(const Emit *e, const Instr *opaque)
{
    const RowsAlike *a = e->row_start.alike;
    if (!a || opaque->op != OP_OPAQUE) return NULL;
    for (size_t k = 0; k < a->weights.len; k++)
        if (a->weights.data[k].of == ir_operand(opaque, 0)) return a->weights.data[k].around;
    return NULL;
}

bool emit_row_take(Emit *e, const Instr *first)
{
    RowStart *r = &e->row_start;
    if (!read_around(e, first)) return false;
    if (e->storage[ir_result(first)->id]) return true; /* with one before it */
    int bytes = r->unit / r->n;
    RowsAlike *a = r->alike;
    if (!a->by) {
        a->by = tmp(e, "by");
        line(e, "const u32 %s = (16 - %s * %d) & 15;", a->by, r->within, bytes);
    }
    for (const Instr *i = first; read_around(e, i); i = i->next) declare_tile(e, ir_result(i));
    for (int q = 0; q < 4; q++) {
        if (q % 2 == 0) line(e, q ? "else {" : "if (%s < 8) {", a->by);
        if (q % 2 == 0) e->indent++;
        line(e, q % 2 ? "else {" : "if ((%s & 4) == 0) {", a->by);
        e->indent++;
        for (const Instr *i = first; read_around(e, i); i = i->next)
            line(e, "%s((u32 *)%s, %s, %d, %s);", use(e, "shift_words"), name_of(e, ir_result(i)),
                read_around(e, i), q, bytes == 4 ? "0x3210" : str(e, "0x3210 + 0x1111 * (%s & 3)", a->by));
        end_block(e);
        if (q % 2) end_block(e);
    }
    return true;
}

/* Run v of a vector of weights by the two aligned vectors around it: the row begins `lead` elements before
 * its part, and weights begin with it. In place of vectors before the weights, or that reach over their end,
 * the first one is read: nothing needs them, but for load_last. to: NULL where they are shifted later. */
static void load_around(
    Emit *e, const Window *w, const RowPart *p, int v, const Around *from, const char *to, DType d)
{
    const RowStart *r = p->r;
    int first = row_run_first(r, v), bytes = r->unit / r->n;
    const char *load = window_load_fn(e, w, r->unit), *low = str(e, "%s + %d", from->low, first),
               *high = str(e, "%s + %d", from->high, first), *next = high, *around = tmp(e, "around"),
               *place = str(e, "%s + %d", r->first, first);
    bool last = row_near_end(p, v);
    if (last) {
        const char *start = slot_name(e, SLOT_DATA, w->param, 0, d);
        long long most = (long long)p->rest - r->n;
        low = str(e, "(%s - %s <= %lld ? %s : %s)", place, from->before, most, low, start);
        next = str(e, "(%s <= %lld ? %s : %s)", place, most, high, start);
    }
    if (row_near_begin(p, v)) {
        if (r->line > r->unit)
            next = str(e, "(%s >= 0 ? %s : %s)", place, next, slot_name(e, SLOT_DATA, w->param, 0, d));
        low = str(e, "(%s >= %d ? %s : %s)", place, r->n, low, next);
    }
    line(e, "u32 %s[8];", around);
    line(e, "%s(%s, %s);", load, around, low);
    line(e, "%s(%s + 4, %s);", load, around, next);
    if (last) load_last(e, p, from, place, around, d);
    if (to) {
        line(e, "%s((u32 *)&%s[%d], %s, (16 - %s * %d) & 15);", use(e, "funnel_b128"), to,
            v * r->n / per_word(d), around, r->within, bytes);
        return;
    }
    vec_push(&e->s->arena, &e->row_start.alike->weights, ((ReadAround){ ir_result(e->here), around }));
}

/* A vector of weights of a row that begins within a word. By elements where words have 4 bytes: neighbouring
 * lanes have neighbouring elements. */
void emit_row_weights(Emit *e, const Window *w, const RowStart *r, const char *ptr, const char *to)
{
    DType d = e->f->params[w->param].type->dtype;
    RowPart p = row_part_of(r, w);
    if (r->unit == ROW_VECTOR) {
        Around from = around_row(e, r, ptr, d);
        for (int v = 0; v < row_runs(r); v++) load_around(e, w, &p, v, &from, to, d);
        return;
    }
    const char *from = row_from(e, ptr, d);
    for (int v = 0; v < row_runs(r); v++) load_elements(e, w, &p, v, from, to, d);
}
