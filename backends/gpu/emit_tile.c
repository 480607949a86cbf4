/* emit_tile.c: tiles in registers: coordinates, element-wise runs, reductions, conversions of layout. */
#include "backends/gpu/emit.h"
#include <ctype.h>
#include <stdlib.h>

const Layout *layout_of(Emit *e, const Value *v) { return layouts_get(&e->plan->layouts, v->type); }

/* --- index formulas --------------------------------------------------------------------------------------------------- */

/* A table that is a sum over mixed-radix digits of its index: sizes and strides. Returns the number of digits, -1 if it is not. */
static int digits_of(const int32_t *t, int n, int *size, int *stride)
{
    int d = 1, k = 0;
    if (t[0] != 0) return -1;
    while (d < n) {
        int c = t[d], m = 1;
        for (int j = 2; j * d <= n; j++) {
            bool ok = true;
            for (int x = 0; ok && x < d; x++) ok = t[(j - 1) * d + x] == (j - 1) * c + t[x];
            if (!ok) break;
            if (n % (j * d) == 0) m = j;
        }
        if (m == 1) return -1;
        if (k == 16) return -1;
        size[k] = m;
        stride[k++] = c;
        d *= m;
    }
    return k;
}

static const char *xor_formula(Emit *e, const int32_t *t, int n, const char *i)
{
    if (n & (n - 1)) return NULL;
    for (int x = 0; x < n; x++) {
        int v = 0;
        for (int b = 0; 1 << b < n; b++) if (x >> b & 1) v ^= t[1 << b];
        if (v != t[x]) return NULL;
    }
    const char *r = "0";
    for (int b = 0; 1 << b < n; b++) if (t[1 << b]) r = str(e, "%s ^ ((%s) >> %d & 1) * %d", r, i, b, t[1 << b]);
    return str(e, "(%s)", r);
}

bool linear_index(const char *i, int *scale, const char **name, int *add)
{
    size_t n;
    *scale = 1;
    *add = 0;
    while (*i == '(') i++;
    if (isdigit((unsigned char)*i)) {
        char *end;
        *scale = (int)strtol(i, &end, 10);
        if (strncmp(end, " * ", 3)) return false;
        i = end + 3;
    }
    for (n = 0; isalnum((unsigned char)i[n]) || i[n] == '_'; n++) {}
    if (!n || isdigit((unsigned char)*i)) return false;
    *name = i;
    i += n;
    while (*i == ')') i++;
    if (!strncmp(i, " + ", 3)) {
        char *end;
        *add = (int)strtol(i + 3, &end, 10);
        if (end == i + 3) return false;
        i = end;
        while (*i == ')') i++;
    }
    return !*i && *scale > 0;
}

const char *index_formula(Emit *e, const int32_t *table, int n, const char *i)
{
    char *end;
    long fixed = strtol(i, &end, 10);
    if (!*end && fixed >= 0 && fixed < n) return str(e, "%d", table[fixed]);
    int size[16], stride[16], scale, add, div = 1;
    const char *name;
    /* of a * v + b only every a-th entry counts */
    if (linear_index(i, &scale, &name, &add) && scale < n && add < n) {
        size_t len = 0;
        while (isalnum((unsigned char)name[len]) || name[len] == '_') len++;
        i = str(e, "%.*s", (int)len, name);
        if (scale > 1 || add) {
            int m = (n - add + scale - 1) / scale;
            int32_t *part = arena_array(&e->s->arena, int32_t, (size_t)m);
            for (int k = 0; k < m; k++) part[k] = table[k * scale + add];
            table = part;
            n = m;
        }
    } else i = str(e, "(%s)", i);
    int base = table[0];
    int32_t *t = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int k = 0; k < n; k++) t[k] = table[k] - base;
    int nd = digits_of(t, n, size, stride);
    if (nd < 0) {
        const char *x = xor_formula(e, table, n, i);
        if (x) return x;
        /* no rule: the entries one by one, of which unrolling leaves one */
        x = str(e, "%d", table[n - 1]);
        for (int k = n - 2; k >= 0; k--) if (table[k] != table[n - 1]) x = str(e, "%s == %d ? %d : %s", i, k, table[k], x);
        return str(e, "(%s)", x);
    }
    const char *r = NULL;
    for (int k = 0; k < nd; k++) {
        if (stride[k]) {
            const char *d = i;
            bool whole = div == 1 && size[k] == n;
            if (div > 1) d = str(e, "%s / %d", d, div);
            if ((int64_t)div * size[k] < n) d = str(e, "%s %% %d", d, size[k]);
            if (stride[k] != 1) d = whole ? str(e, "%d * %s", stride[k], d) : str(e, "%s * %d", d, stride[k]);
            r = r ? str(e, "%s + %s", r, d) : d;
        }
        div *= size[k];
    }
    if (base) r = r ? str(e, "%s + %d", r, base) : str(e, "%d", base);
    if (!r) return "0";
    return strchr(r, ' ') ? str(e, "(%s)", r) : r;
}

static int32_t *register_coords(Emit *e, const Layout *l, int axis)
{
    int n = (int)layout_regs(l);
    int32_t *t = arena_array(&e->s->arena, int32_t, (size_t)n), c[TILE_MAX_RANK];
    for (int r = 0; r < n; r++) {
        layout_element(l, (uint32_t)r, 0, 0, 0, c);
        t[r] = c[axis];
    }
    return t;
}

/* AMD: a coordinate as each step of the loop around has it anew. What follows from it (addresses, masks, index tiles) else is held in registers from step
 * to step, more than there are. */
const char *in_turn(Emit *e, const char *name)
{
    for (size_t k = 0; k < e->turn->coords.len; k++) if (e->turn->coords.data[k].text == name) return e->turn->coords.data[k].name;
    const char *own = tmp(e, name);
    vec_push(&e->s->arena, &e->turn->coords, ((ThreadCoord){ name, own }));
    text_printf(&e->turn->pre, "%*sconst int %s = %s(%s, (i32)%s);\n", 4 * e->turn->indent, "", own, use(e, "again"), name, e->turn->counter);
    return own;
}

const char *thread_coord(Emit *e, const Layout *l, int axis)
{
    static const char *const inputs[] = { "0", "lane", "warp", "block" };
    LayoutTerm terms[LAYOUT_MAX_TERMS];
    int n = layout_thread_terms(l, axis, terms);
    const char *x = NULL;
    for (int k = 0; k < n; k++) {
        const LayoutTerm *t = &terms[k];
        const char *y = inputs[t->in];
        if (t->shift) y = str(e, "(%s >> %d)", y, t->shift);
        if (t->div > 1) y = str(e, "%s / %u", y, t->div);
        if (t->mod) y = str(e, "%s %% %u", y, t->mod);
        if (t->mul != 1) y = str(e, "%s * %u", y, t->mul);
        x = !x ? y : t->xor_ ? str(e, "(%s) ^ (%s)", x, y) : str(e, "%s + %s", x, y);
    }
    if (!x) return "0";
    const char *name = NULL;
    for (size_t k = 0; k < e->coords.len && !name; k++) if (!strcmp(e->coords.data[k].text, x)) name = e->coords.data[k].name;
    if (!name) {
        name = str(e, "c%d", (int)e->coords.len);
        vec_push(&e->s->arena, &e->coords, ((ThreadCoord){ x, name }));
        text_printf(e->pre, "%s    const int %s = %s;\n", e->role >= 0 ? "    " : "", name, x);
    }
    return e->turn && strstr(x, "lane") ? in_turn(e, name) : name;
}

const char *register_coord(Emit *e, const Layout *l, int axis, const char *i)
{
    return index_formula(e, register_coords(e, l, axis), (int)layout_regs(l), i);
}

const char *coord(Emit *e, const Layout *l, int axis, const char *i)
{
    if (!l->separable) ir_fail(e->s, e->f->loc, "a layout mixes thread and register bits");
    const char *t = thread_coord(e, l, axis), *r = index_formula(e, register_coords(e, l, axis), (int)layout_regs(l), i);
    if (!strcmp(t, "0")) return r;
    if (!strcmp(r, "0")) return t;
    if (*r == '(' && strchr(r + 1, '(') == NULL && r[strlen(r) - 1] == ')' && !strpbrk(r, "^?")) return str(e, "(%s + %.*s)", t, (int)strlen(r) - 2, r + 1);
    return str(e, "(%s + %s)", t, r);
}

static bool coords_equal(int rank, const int32_t *a, const int32_t *b) { return !memcmp(a, b, (size_t)rank * sizeof *a); }

const char *map_register(Emit *e, const Layout *from, const Layout *to, const char *i)
{
    if (from == to || layout_equal(from, to)) return i;
    int n = (int)layout_regs(from), m = (int)layout_regs(to);
    int32_t *t = arena_array(&e->s->arena, int32_t, (size_t)n), c[TILE_MAX_RANK], d[TILE_MAX_RANK];
    for (int r = 0; r < n; r++) {
        int q = m;
        /* Axes of extent 1 on both sides may be padded alike: as they are, before all of their positions count as one. */
        for (int loose = 0; loose < 2 && q == m; loose++) {
            layout_element(from, (uint32_t)r, 0, 0, 0, c);
            for (int a = 0; a < to->rank; a++) if (to->tile[a] == 1 && (loose || from->tile[a] != 1)) c[a] = 0;
            for (q = 0; q < m; q++) {
                layout_element(to, (uint32_t)q, 0, 0, 0, d);
                for (int a = 0; a < to->rank; a++) if (to->tile[a] == 1 && (loose || from->tile[a] != 1)) d[a] = 0;
                if (coords_equal(to->rank, c, d)) break;
            }
        }
        if (q == m) ir_fail(e->s, e->f->loc, "a broadcast does not follow its operand's layout");
        t[r] = q;
    }
    return index_formula(e, t, n, i);
}

/* --- elements ------------------------------------------------------------------------------------------------------------ */

const char *stored_element(Emit *e, const char *array, DType d, const char *i)
{
    int p = per_word(d);
    if (p == 1) return str(e, "%s[%s]", array, i);
    char *end;
    long k = strtol(i, &end, 10);
    int scale, add;
    const char *name, *word = *end ? str(e, "%s[(%s) / %d]", array, i, p) : str(e, "%s[%ld]", array, k / p);
    const char *part = *end ? str(e, "(%s) %% %d", i, p) : str(e, "%ld", k % p);
    if (*end && linear_index(i, &scale, &name, &add) && scale % p == 0) {
        size_t len = 0;
        while (isalnum((unsigned char)name[len]) || name[len] == '_') len++;
        const char *v = scale == p ? str(e, "%.*s", (int)len, name) : str(e, "%d * %.*s", scale / p, (int)len, name);
        word = add / p ? str(e, "%s[%s + %d]", array, v, add / p) : str(e, "%s[%s]", array, v);
        part = str(e, "%d", add % p);
    }
    return str(e, "%s(%s, %s)", use(e, str(e, "get_%s", dtype_name(d))), word, part);
}

const char *pack_expr(Emit *e, DType d, const char *const *x, int n)
{
    int p = per_word(d);
    if (p == 1) return x[0];
    const char *args = "";
    for (int k = 0; k < p; k++) args = str(e, "%s%s%s", args, k ? ", " : "", k < n ? x[k] : "0");
    return str(e, "%s(%s)", use(e, str(e, "pack_%s", dtype_name(d))), args);
}

const char *element_at(Emit *e, const Value *v, const char *const *c)
{
    if (v->type->kind == TYPE_SCALAR) return name_of(e, v);
    const Instr *d = v->def;
    const char *sub[TILE_MAX_RANK], *args[4];
    switch ((int)d->op) {
    case OP_SPLAT: return name_of(e, ir_operand(d, 0));
    case OP_ARANGE: {
        int64_t start = ir_attr_int(d, ATTR_START, 0);
        return start ? str(e, "((%s)%lld + %s)", ctype(v->type->dtype), (long long)start, c[0]) : str(e, "((%s)%s)", ctype(v->type->dtype), c[0]);
    }
    case OP_RESHAPE: {
        const Type *a = ir_operand(d, 0)->type;
        int j = 0;
        for (int i = 0; i < a->rank; i++) {
            sub[i] = "0";
            if (a->shape[i] == 1) continue;
            while (j < v->type->rank && v->type->shape[j] == 1) j++;
            sub[i] = c[j++];
        }
        return element_at(e, ir_operand(d, 0), sub);
    }
    case OP_BROADCAST: {
        const Type *a = ir_operand(d, 0)->type;
        for (int i = 0; i < a->rank; i++) sub[i] = a->shape[i] == 1 ? "0" : c[i];
        return element_at(e, ir_operand(d, 0), sub);
    }
    case OP_PERMUTE: {
        const Attr *o = ir_attr(d, ATTR_ORDER);
        for (int i = 0; i < o->n; i++) sub[o->v[i]] = c[i];
        return element_at(e, ir_operand(d, 0), sub);
    }
    default:
        if (!(op_info[d->op].flags & OPF_ELEM) || d->n_operands > 4) ir_fail(e->s, d->loc, "%s is no function of coordinates", op_info[d->op].name);
        for (int k = 0; k < d->n_operands; k++) args[k] = element_at(e, ir_operand(d, k), c);
        return op_expr(e, d, args);
    }
}

const char *element(Emit *e, const Value *v, const Layout *l, const char *i)
{
    if (v->type->kind == TYPE_SCALAR) return name_of(e, v);
    if (v->def && v->def->op == OP_BROADCAST && !e->storage[v->id] && ir_operand(v->def, 0)->type->layout) {
        const Value *src = ir_operand(v->def, 0);
        return element(e, src, layout_of(e, src), map_register(e, l, layout_of(e, src), i));
    }
    if (e->storage[v->id]) return stored_element(e, e->storage[v->id], v->type->dtype, map_register(e, l, layout_of(e, v), i));
    const char *c[TILE_MAX_RANK];
    for (int a = 0; a < v->type->rank; a++) c[a] = coord(e, l, a, i);
    return element_at(e, v, c);
}

const char *declare_tile(Emit *e, const Value *v)
{
    const Layout *l = layout_of(e, v);
    const char *n = name_of(e, v);
    int words = array_len(v->type->dtype, (int)layout_regs(l));
    line(e, "%s %s[%d];", array_type(v->type->dtype), n, words);
    words *= dtype_bits(v->type->dtype) > 32 ? 2 : 1;
    if (words > e->largest.words) e->largest = (RegisterUse){ v->def ? v->def->loc : e->f->loc, v->type, words };
    e->storage[v->id] = n;
    return n;
}

void begin_unrolled(Emit *e, const char *i, int n)
{
    text_puts(e->out, "#pragma unroll\n");
    line(e, "for (int %s = 0; %s < %d; %s++) {", i, i, n, i);
    e->indent++;
}

void end_block(Emit *e)
{
    e->indent--;
    line(e, "}");
}

/* --- element-wise runs ------------------------------------------------------------------------------------------------------ */

static bool is_alias(const Instr *i) { return i->op == OP_BROADCAST; }

bool is_run_op(const Instr *i)
{
    return (op_info[i->op].flags & OPF_ELEM) && i->n_results == 1 && ir_result(i)->type->kind == TYPE_TILE && ir_result(i)->type->layout;
}

/* Instructions that emit nothing and so do not end a run. */
static bool is_silent(const Instr *i)
{
    return is_alias(i) || (i->n_results == 1 && ir_result(i)->type->kind == TYPE_TILE && !ir_result(i)->type->layout && (op_info[i->op].flags & OPF_PURE));
}

static bool used_outside(const Value *v, uint32_t mark)
{
    for (const Use *u = v->uses; u; u = u->next) {
        if (u->user->op == OP_BROADCAST && !u->user->operands[0].value->def) return true;
        if (u->user->mark != mark || !is_run_op(u->user)) return true;
    }
    return false;
}

static bool used_inside(const Value *v, uint32_t mark)
{
    for (const Use *u = v->uses; u; u = u->next) if (u->user->mark == mark && is_run_op(u->user)) return true;
    return false;
}

/* max and min of pairs of 16-bit floats in one instruction, where both operands lie in registers as they are. */
static bool emit_pairs(Emit *e, const Instr *i)
{
    Value *r = ir_result(i);
    DType d = r->type->dtype;
    if (e->target->kind != TARGET_CUDA || (i->op != OP_MAX && i->op != OP_MIN) || (d != DT_F16 && d != DT_BF16)) return false;
    for (int k = 0; k < 2; k++) {
        const Value *v = ir_operand(i, k);
        if (v->type != r->type || !e->storage[v->id] || (v->def && v->def->op == OP_BROADCAST)) return false;
    }
    const char *to = declare_tile(e, r), *fn = use(e, str(e, "%s2_%s", i->op == OP_MAX ? "max" : "min", dtype_name(d)));
    begin_unrolled(e, "i", array_len(d, (int)layout_regs(layout_of(e, r))));
    line(e, "%s[i] = %s(%s[i], %s[i]);", to, fn, e->storage[ir_operand(i, 0)->id], e->storage[ir_operand(i, 1)->id]);
    end_block(e);
    return true;
}

/* Does i read a value of the run as a broadcast, from the array that the run fills only behind its last instruction? */
static bool reads_back(const Instr *i, uint32_t mark)
{
    for (int k = 0; k < i->n_operands; k++) {
        const Instr *d = ir_operand(i, k)->def;
        if (!d || !is_alias(d)) continue;
        while (d && is_alias(d)) d = ir_operand(d, 0)->def;
        if (d && d->mark == mark && is_run_op(d)) return true;
    }
    return false;
}

Instr *emit_run(Emit *e, Instr *first)
{
    static const char *const letters = "abcd";
    const Type *t0 = ir_result(first)->type;
    const Layout *l = layout_of(e, ir_result(first));
    uint32_t mark = (uint32_t)++e->next_tmp | 0x80000000u;
    Instr *last = first;
    for (Instr *i = first; i; i = i->next) {
        if (is_silent(i)) continue;
        if (!is_run_op(i) || ir_result(i)->type->layout != t0->layout || !type_same_shape(ir_result(i)->type, t0) || reads_back(i, mark)) break;
        i->mark = mark;
        last = i;
    }
    if (last == first && emit_pairs(e, first)) return last;
    int n = (int)layout_regs(l), p = 1;
    for (Instr *i = first;; i = i->next) {
        if (i->mark == mark && is_run_op(i)) {
            if (used_outside(ir_result(i), mark)) {
                declare_tile(e, ir_result(i));
                if (per_word(ir_result(i)->type->dtype) > p) p = per_word(ir_result(i)->type->dtype);
            }
        }
        if (i == last) break;
    }
    const char **tmps = arena_array(&e->s->arena, const char *, e->n_values * 4);
    int groups = (n + p - 1) / p;
    bool loop = n % p == 0 && groups > 1;
    if (loop) begin_unrolled(e, "i", groups);
    for (int g = 0; g < (loop ? 1 : groups); g++) {
        if (!loop) { line(e, "{"); e->indent++; }
        int here = n - g * p < p ? n - g * p : p;
        for (int x = 0; x < here; x++) {
            const char *idx = loop ? (p == 1 ? "i" : x ? str(e, "%d * i + %d", p, x) : str(e, "%d * i", p)) : str(e, "%d", g * p + x);
            for (Instr *i = first;; i = i->next) {
                if (i->mark == mark && is_run_op(i)) {
                    const char *args[4];
                    for (int k = 0; k < i->n_operands; k++) {
                        Value *v = ir_operand(i, k);
                        bool inside = v->def && v->def->mark == mark && is_run_op(v->def);
                        args[k] = inside ? tmps[v->id * 4 + (uint32_t)x] : element(e, v, l, idx);
                    }
                    Value *r = ir_result(i);
                    const char *name = str(e, "%s%c", name_of(e, r), letters[x]);
                    tmps[r->id * 4 + (uint32_t)x] = name;
                    e->raw = per_word(r->type->dtype) > 1 && !used_inside(r, mark);
                    line(e, "const %s %s = %s;", ctype(r->type->dtype), name, op_expr(e, i, args));
                    e->raw = false;
                }
                if (i == last) break;
            }
        }
        for (Instr *i = first;; i = i->next) {
            if (i->mark == mark && is_run_op(i) && e->storage[ir_result(i)->id]) {
                Value *r = ir_result(i);
                int pr = per_word(r->type->dtype);
                for (int x = 0; x < here; x += pr) {
                    const char *slot = loop ? (p == pr ? "i" : str(e, "%d * i + %d", p / pr, x / pr)) : str(e, "%d", (g * p + x) / pr);
                    line(e, "%s[%s] = %s;", e->storage[r->id], slot,
                         pack_expr(e, r->type->dtype, &tmps[r->id * 4 + (uint32_t)x], here - x < pr ? here - x : pr));
                }
            }
            if (i == last) break;
        }
        if (!loop) end_block(e);
    }
    if (loop) end_block(e);
    return last;
}

/* Evaluates `from` (any tile) into the array `to` of layout l. */
void fill_tile(Emit *e, const char *to, const Value *from, const Layout *l)
{
    int n = (int)layout_regs(l), p = per_word(from->type->dtype), words = array_len(from->type->dtype, n);
    const char *x[4];
    bool loop = n % p == 0 && words > 1;
    if (loop) begin_unrolled(e, "i", words);
    for (int w = 0; w < (loop ? 1 : words); w++) {
        int here = n - w * p < p ? n - w * p : p;
        for (int k = 0; k < here; k++)
            x[k] = element(e, from, l, loop ? (p == 1 ? "i" : str(e, "%d * i + %d", p, k)) : str(e, "%d", w * p + k));
        line(e, "%s[%s] = %s;", to, loop ? "i" : str(e, "%d", w), pack_expr(e, from->type->dtype, x, here));
    }
    if (loop) end_block(e);
}

void emit_materialize(Emit *e, Instr *i)
{
    declare_tile(e, ir_result(i));
    fill_tile(e, e->storage[ir_result(i)->id], ir_operand(i, 0), layout_of(e, ir_result(i)));
}

/* --- reductions ---------------------------------------------------------------------------------------------------------------- */

const char *combine_identity(Emit *e, const Instr *i, DType acc)
{
    switch ((int)i->op) {
    case OP_REDUCE_PROD: case OP_SCAN_PROD: return "1";
    case OP_REDUCE_ALL: return "true";
    case OP_REDUCE_ANY: return "false";
    case OP_REDUCE_MAX: case OP_REDUCE_MIN: case OP_SCAN_MAX: {
        bool max = i->op != OP_REDUCE_MIN;
        return use(e, str(e, "%s_%s", max ? "LOWEST" : "HIGHEST", dtype_name(acc)));
    }
    default: return "0";
    }
}

/* Code of reduce's block with its arguments bound; returns the combined value. */
static const char *combine_block(Emit *e, Block *b, const char *x, const char *y)
{
    e->storage[b->args[0]->id] = x;
    e->storage[b->args[1]->id] = y;
    for (Instr *i = b->first; i && i->op != OP_YIELD; i = i->next) {
        const char *args[4];
        for (int k = 0; k < i->n_operands; k++) args[k] = name_of(e, ir_operand(i, k));
        if (i->op == OP_CONST) { e->storage[ir_result(i)->id] = const_expr(e, ir_result(i)->type->dtype, i); continue; }
        const char *t = tmp(e, "r");
        line(e, "const %s %s = %s;", ctype(ir_result(i)->type->dtype), t, op_expr(e, i, args));
        e->storage[ir_result(i)->id] = t;
    }
    return name_of(e, ir_operand(b->last, 0));
}

const char *combine_expr(Emit *e, Instr *i, DType acc, const char *x, const char *y)
{
    switch ((int)i->op) {
    case OP_REDUCE_SUM: case OP_SCAN_SUM: return dtype_is_float(acc) ? str(e, "%s + %s", x, y) : wrapped(e, acc, "+", x, y);
    case OP_REDUCE_PROD: case OP_SCAN_PROD: return dtype_is_float(acc) ? str(e, "%s * %s", x, y) : wrapped(e, acc, "*", x, y);
    case OP_REDUCE_ANY: return str(e, "%s | %s", x, y);
    case OP_REDUCE_ALL: return str(e, "%s & %s", x, y);
    case OP_REDUCE_MAX: case OP_SCAN_MAX: return str(e, "%s(%s, %s)", use(e, str(e, "max_%s", dtype_name(acc))), x, y);
    case OP_REDUCE_MIN: return str(e, "%s(%s, %s)", use(e, str(e, "min_%s", dtype_name(acc))), x, y);
    default: return combine_block(e, i->blocks[0], x, y);
    }
}

/* Sums of narrow floats are kept in f32 and rounded once. */
static DType accumulator(const Instr *i)
{
    DType d = ir_operand(i, 0)->type->dtype;
    return dtype_is_float(d) && dtype_bits(d) < 32 && i->op != OP_REDUCE ? DT_F32 : d;
}

/* Lane bits and the warp digits along which the reduced axis is spread. */
static uint32_t lane_bits_along(const Layout *l, int axis)
{
    uint32_t mask = 0;
    int32_t c0[TILE_MAX_RANK], c1[TILE_MAX_RANK];
    layout_element(l, 0, 0, 0, 0, c0);
    for (uint32_t b = 1; b < layout_lanes(l); b <<= 1) {
        layout_element(l, 0, b, 0, 0, c1);
        if (c1[axis] != c0[axis]) mask |= b;
    }
    return mask;
}

/* Across the CTAs of a cluster: each sends its part to all of them, an mbarrier of each counts what has come, and each joins the parts in order. Nothing is fenced: no
 * store to memory need be waited for. Every reduction has its own place and mbarrier, two in turn inside a loop: what is sent for the turn after next is sent by CTAs
 * that have the parts of the next from all, hence after all have read this one's. None leaves before all have sent to it. */
static void join_blocks(Emit *e, Instr *i, const Layout *l, int axis, DType acc, const char *a)
{
    int32_t c0[TILE_MAX_RANK], c1[TILE_MAX_RANK];
    int n = (int)layout_blocks(l), bytes = ctype_bytes(acc), slot = (n * bytes + 15) / 16 * 16;
    bool along = false, again = i->block != e->f->body;
    layout_element(l, 0, 0, 0, 0, c0);
    for (int b = 1; b < n; b++) { layout_element(l, 0, 0, 0, (uint32_t)b, c1); along |= c1[axis] != c0[axis]; }
    if (!along) return;
    int64_t at = (e->shared_bytes + 15) / 16 * 16, bar = at + slot * (again ? 2 : 1);
    e->shared_bytes = bar + 16;
    const char *place = str(e, "shared_base + %lld", (long long)at), *mbar = str(e, "shared_base + %lld", (long long)bar), *turn = NULL, *parts = tmp(e, "parts"), *y = tmp(e, "y");
    line(e, "/* every CTA sends its part to all of the cluster */");
    if (!e->cluster_met && again) text_printf(e->pre, "    %s();\n", use(e, "cluster_wait"));         /* in front of the loop */
    else if (!e->cluster_met) line(e, "%s();", use(e, "cluster_wait"));
    e->cluster_met = true;
    for (int k = 0; k < (again ? 2 : 1); k++) vec_push(&e->s->arena, &e->cluster_bars, bar + 8 * k);
    if (again) {
        turn = tmp(e, "turn");
        text_printf(e->pre, "    u32 %s = 0;\n", turn);
        place = str(e, "%s + (%s & 1) * %d", place, turn, slot);
        mbar = str(e, "%s + (%s & 1) * 8", mbar, turn);
    }
    line(e, "if (tid == 0) %s(%s, %d);", use(e, "mbar_expect"), mbar, n * bytes);
    line(e, "if (tid < %d) %s(%s + block * %d, tid, %s[0], %s);", n, use(e, str(e, "send_%s", dtype_name(acc))), place, bytes, a, mbar);
    line(e, "%s(%s, %s);", use(e, "mbar_wait"), mbar, again ? str(e, "%s >> 1 & 1", turn) : "0");
    line(e, "%s *const %s = (%s *)(shared + %lld%s);", ctype(acc), parts, ctype(acc), (long long)at, again ? str(e, " + (%s & 1) * %d", turn, slot) : "");
    line(e, "%s[0] = %s[0];", a, parts);
    line(e, "for (int p = 1; p < %d; p++) {", n);
    e->indent++;
    line(e, "const %s %s = %s[p];", ctype(acc), y, parts);
    line(e, "%s[0] = %s;", a, combine_expr(e, i, acc, str(e, "%s[0]", a), y));
    end_block(e);
    if (again) line(e, "%s++;", turn);
}

void emit_reduce(Emit *e, Instr *i)
{
    Value *x = ir_operand(i, 0), *r = ir_result(i);
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    bool drop = ir_attr_int(i, ATTR_DROP, 0);
    const Layout *l = layout_of(e, x), *keep = layout_slice(&e->s->arena, l, axis, true);
    DType acc = accumulator(i), d = x->type->dtype;
    int n = (int)layout_regs(l), m = (int)layout_regs(keep), chains = n / m >= 16 ? 4 : 1;
    const char *a = tmp(e, "red"), *init = i->op == OP_REDUCE ? name_of(e, ir_operand(i, 1)) : combine_identity(e, i, acc);
    bool padded = false;
    for (int k = 0; k < l->rank; k++) if (l->cover[k] != l->tile[k]) padded = k == axis || padded;

    /* AMD before gfx950: the maximum that keeps NaN takes four instructions; so NaN is looked for beside it, two elements at once */
    const char *nan = NULL;
    if (is_hip(e) && acc == DT_F32 && e->target->arch != 0x950 && (i->op == OP_REDUCE_MAX || i->op == OP_REDUCE_MIN) && n / m >= 4) {
        nan = tmp(e, "nan");
        line(e, "bool %s[%d];", nan, m);
        begin_unrolled(e, "i", m);
        line(e, "%s[i] = false;", nan);
        end_block(e);
    }

    /* within the thread: several chains, so that additions overlap; joined in fixed order */
    line(e, "%s %s[%d];", ctype(acc), a, m * chains);
    begin_unrolled(e, "i", m * chains);
    line(e, "%s[i] = %s;", a, init);
    end_block(e);
    begin_unrolled(e, "i", n);
    const char *v = element(e, x, l, "i"), *to = map_register(e, l, keep, "i");
    if (d != acc) v = cast_expr(e, d, acc, v);
    if (padded) v = str(e, "(%s < %d ? %s : %s)", coord(e, l, axis, "i"), l->tile[axis], v, init);
    const char *slot = tmp(e, "k"), *el = tmp(e, "x");
    /* elements of one row are counted by their order in the register file */
    int32_t *turn = arena_array(&e->s->arena, int32_t, (size_t)n);
    if (chains > 1) {
        int32_t *rows = arena_array(&e->s->arena, int32_t, (size_t)m), c[TILE_MAX_RANK], k[TILE_MAX_RANK];
        for (int q = 0; q < n; q++) {
            layout_element(l, (uint32_t)q, 0, 0, 0, c);
            c[axis] = 0;
            for (int w = 0; w < m; w++) {
                layout_element(keep, (uint32_t)w, 0, 0, 0, k);
                k[axis] = 0;
                if (coords_equal(l->rank, c, k)) { turn[q] = rows[w]++ % chains; break; }
            }
        }
    }
    line(e, "const %s %s = %s;", ctype(acc), el, v);
    line(e, "const int %s = %s%s;", slot, to, chains > 1 ? str(e, " + %d * %s", m, index_formula(e, turn, n, "i")) : "");
    if (nan) {
        line(e, "%s[%s] = %s(%s[%s], %s);", a, slot, use(e, i->op == OP_REDUCE_MAX ? "max_ordered" : "min_ordered"), a, slot, el);
        line(e, "%s[%s] = %s[%s] | (%s != %s);", nan, to, nan, to, el, el);
    } else line(e, "%s[%s] = %s;", a, slot, combine_expr(e, i, acc, str(e, "%s[%s]", a, slot), el));
    end_block(e);
    for (int k = 1; k < chains; k++) {
        begin_unrolled(e, "i", m);
        line(e, "%s[i] = %s;", a, combine_expr(e, i, acc, str(e, "%s[i]", a), str(e, "%s[i + %d]", a, m * k)));
        end_block(e);
    }

    if (nan) {
        begin_unrolled(e, "i", m);
        line(e, "if (%s[i]) %s[i] = %s(0x7fc00000u);", nan, a, use(e, "float_bits"));
        end_block(e);
    }

    /* across lanes */
    uint32_t lanes = lane_bits_along(l, axis);
    for (uint32_t b = 1; b < layout_lanes(l); b <<= 1) {
        if (!(lanes & b)) continue;
        begin_unrolled(e, "i", m);
        const char *y = tmp(e, "y");
        line(e, "const %s %s = %s(%s[i], %u);", ctype(acc), y, use(e, str(e, "shuffle_xor_%s", dtype_name(acc))), a, b);
        line(e, "%s[i] = %s;", a, combine_expr(e, i, acc, str(e, "%s[i]", a), y));
        end_block(e);
    }

    /* across warps: each warp's part goes to shared memory, all are joined in order of position */
    LayoutTerm terms[LAYOUT_MAX_TERMS];
    int nt = layout_thread_terms(l, axis, terms), parts = 1;
    const char *part = NULL;
    int32_t c[TILE_MAX_RANK];
    VEC(int32_t) seen = { 0 };
    for (uint32_t w = 0; w < layout_warps(l); w++) {
        layout_element(l, 0, 0, w, 0, c);
        bool found = false;
        for (size_t k = 0; k < seen.len; k++) found |= seen.data[k] == c[axis];
        if (!found) vec_push(&e->s->arena, &seen, c[axis]);
    }
    parts = (int)seen.len;
    if (parts > 1) {
        /* position of this warp's part: its coordinate, ranked */
        int32_t *rank = arena_array(&e->s->arena, int32_t, layout_warps(l));
        for (uint32_t w = 0; w < layout_warps(l); w++) {
            layout_element(l, 0, 0, w, 0, c);
            for (size_t k = 0; k < seen.len; k++) rank[w] += seen.data[k] < c[axis];
        }
        part = index_formula(e, rank, (int)layout_warps(l), "warp");
        int64_t rows = 1;
        for (int k = 0; k < keep->rank; k++) if (k != axis) rows *= keep->cover[k];
        int64_t at = scratch(e, rows * parts * ctype_bytes(acc));
        const char *sh = shared_pointer(e, ctype(acc), at);
        barrier(e);
        const char *row = NULL;
        begin_unrolled(e, "i", m);
        int64_t pitch = 1;
        for (int k = keep->rank - 1; k >= 0; k--) {
            if (k == axis) continue;
            const char *ck = coord(e, keep, k, "i");
            const char *term = pitch == 1 ? ck : str(e, "%s * %lld", ck, (long long)pitch);
            row = row ? str(e, "%s + %s", row, term) : term;
            pitch *= keep->cover[k];
        }
        if (!row) row = "0";
        line(e, "%s[%s * %lld + %s] = %s[i];", sh, part, (long long)rows, row, a);
        end_block(e);
        barrier(e);
        begin_unrolled(e, "i", m);
        line(e, "%s[i] = %s[%s];", a, sh, row);
        line(e, "for (int p = 1; p < %d; p++) {", parts);
        e->indent++;
        const char *y = tmp(e, "y");
        line(e, "const %s %s = %s[p * %lld + %s];", ctype(acc), y, sh, (long long)rows, row);
        line(e, "%s[i] = %s;", a, combine_expr(e, i, acc, str(e, "%s[i]", a), y));
        end_block(e);
        end_block(e);
    }
    (void)nt;
    join_blocks(e, i, l, axis, acc, a);

    if (r->type->kind == TYPE_SCALAR) {
        const char *out = name_of(e, r);
        line(e, "const %s %s = %s;", ctype(d), out, d == acc ? str(e, "%s[0]", a) : cast_expr(e, acc, d, str(e, "%s[0]", a)));
        e->storage[r->id] = out;
        return;
    }
    declare_tile(e, r);
    const Layout *lr = layout_of(e, r);
    if ((int)layout_regs(lr) != m) ir_fail(e->s, i->loc, "a reduction's result has %u registers, must have %d", layout_regs(lr), m);
    (void)drop;
    int pw = per_word(d), words = array_len(d, m);
    for (int w = 0; w < words; w++) {
        const char *xs[4];
        int here = m - w * pw < pw ? m - w * pw : pw;
        for (int k = 0; k < here; k++) xs[k] = d == acc ? str(e, "%s[%d]", a, w * pw + k) : cast_expr(e, acc, d, str(e, "%s[%d]", a, w * pw + k));
        line(e, "%s[%d] = %s;", e->storage[r->id], w, pack_expr(e, d, xs, here));
    }
}

/* --- conversions ---------------------------------------------------------------------------------------------------------------- */

static void element_to_shared(Emit *e, const char *addr, DType d, const char *x)
{
    line(e, "%s(%s, %s);", use(e, str(e, "sts_%s", dtype_name(d))), addr, x);
}

static const char *element_from_shared(Emit *e, const char *addr, DType d)
{
    return str(e, "%s(%s)", use(e, str(e, "lds_%s", dtype_name(d))), addr);
}

/* Tile v (layout l) to shared memory at row-major positions: position expression from coordinates. */
void spill_elements(Emit *e, const Value *v, const Layout *l, const char *base, PositionFn *pos, const void *user)
{
    int n = (int)layout_regs(l);
    const char *c[TILE_MAX_RANK], *cond = NULL;
    begin_unrolled(e, "i", n);
    for (int a = 0; a < l->rank; a++) {
        c[a] = coord(e, l, a, "i");
        if (l->cover[a] != l->tile[a]) cond = cond ? str(e, "%s && %s < %d", cond, c[a], l->tile[a]) : str(e, "%s < %d", c[a], l->tile[a]);
    }
    if (cond) { line(e, "if (%s) {", cond); e->indent++; }
    DType d = v->type->dtype;
    element_to_shared(e, str(e, "%s + (%s) * %d", base, pos(e, c, user), dtype_bytes(d)), d, element(e, v, l, "i"));
    if (cond) end_block(e);
    end_block(e);
}

void fill_elements(Emit *e, const Value *r, const char *base, PositionFn *pos, const void *user)
{
    const Layout *l = layout_of(e, r);
    DType d = r->type->dtype;
    int n = (int)layout_regs(l), p = per_word(d), words = array_len(d, n);
    declare_tile(e, r);
    bool loop = n % p == 0 && words > 1;
    if (loop) begin_unrolled(e, "i", words);
    for (int w = 0; w < (loop ? 1 : words); w++) {
        const char *x[4], *c[TILE_MAX_RANK];
        int here = n - w * p < p ? n - w * p : p;
        for (int k = 0; k < here; k++) {
            const char *idx = loop ? (p == 1 ? "i" : str(e, "%d * i + %d", p, k)) : str(e, "%d", w * p + k);
            const char *cond = NULL;
            for (int a = 0; a < l->rank; a++) {
                c[a] = coord(e, l, a, idx);
                if (l->cover[a] != l->tile[a]) cond = cond ? str(e, "%s && %s < %d", cond, c[a], l->tile[a]) : str(e, "%s < %d", c[a], l->tile[a]);
            }
            x[k] = element_from_shared(e, str(e, "%s + (%s) * %d", base, pos(e, c, user), dtype_bytes(d)), d);
            if (cond) x[k] = str(e, "(%s ? %s : 0)", cond, x[k]);
        }
        line(e, "%s[%s] = %s;", e->storage[r->id], loop ? "i" : str(e, "%d", w), pack_expr(e, d, x, here));
    }
    if (loop) end_block(e);
}

const char *row_major(Emit *e, const char *const *c, const void *user)
{
    const Type *t = user;
    const char *x = NULL;
    int64_t pitch = 1;
    for (int a = t->rank - 1; a >= 0; a--) {
        const char *term = pitch == 1 ? c[a] : str(e, "%s * %lld", c[a], (long long)pitch);
        x = x ? str(e, "%s + %s", x, term) : term;
        pitch *= t->shape[a];
    }
    return x ? x : "0";
}

typedef struct Placed { const Type *type; int axis; int64_t start; const int64_t *order; int rank; } Placed;

static const char *placed(Emit *e, const char *const *c, const void *user)
{
    const Placed *p = user;
    const char *d[TILE_MAX_RANK];
    for (int a = 0; a < p->rank; a++) {
        const char *x = c[a];
        if (a == p->axis && p->start) x = str(e, "(%s + %lld)", x, (long long)p->start);
        d[p->order ? p->order[a] : a] = x;
    }
    return row_major(e, d, p->type);
}

/* A reshape whose result lies in the same registers. */
static bool same_registers(Emit *e, const Instr *i)
{
    const Value *x = ir_operand(i, 0), *r = ir_result(i);
    if (i->op != OP_RESHAPE || x->type->kind != TYPE_TILE || r->type->kind != TYPE_TILE) return false;
    int32_t tile[TILE_MAX_RANK];
    for (int a = 0; a < r->type->rank; a++) tile[a] = (int32_t)r->type->shape[a];
    const Layout *l = layout_reshape(&e->s->arena, layout_of(e, x), r->type->rank, tile);
    return l && layout_equal(l, layout_of(e, r));
}

void emit_by_position(Emit *e, Instr *i)
{
    Value *r = ir_result(i);
    DType d = r->type->dtype;
    if (same_registers(e, i) && e->storage[ir_operand(i, 0)->id]) { e->storage[r->id] = e->storage[ir_operand(i, 0)->id]; return; }
    int64_t elems = type_elements(r->type);
    for (int k = 0; k < i->n_operands; k++) if (type_elements(ir_operand(i, k)->type) > elems) elems = type_elements(ir_operand(i, k)->type);
    int64_t at = scratch(e, elems * dtype_bytes(d));
    const char *base = tmp(e, "sh");
    line(e, "const u32 %s = shared_base + SCRATCH + %lld;", base, (long long)at);
    barrier(e);
    int64_t start = 0;
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    for (int k = 0; k < i->n_operands; k++) {
        Value *x = ir_operand(i, k);
        if (x->type->kind == TYPE_SCALAR) { element_to_shared(e, base, d, name_of(e, x)); continue; }
        Placed p = { .type = i->op == OP_CONCAT ? r->type : x->type, .axis = axis, .start = start, .rank = x->type->rank };
        spill_elements(e, x, layout_of(e, x), base, placed, &p);
        if (i->op == OP_CONCAT) start += x->type->shape[axis];
    }
    barrier(e);
    if (r->type->kind == TYPE_SCALAR) {
        const char *out = name_of(e, r);
        line(e, "const %s %s = %s;", ctype(d), out, element_from_shared(e, base, d));
        e->storage[r->id] = out;
        return;
    }
    Placed p = { .type = r->type, .axis = axis, .rank = r->type->rank };
    if (i->op == OP_SLICE) { p.type = ir_operand(i, 0)->type; p.start = ir_attr_int(i, ATTR_START, 0); }
    if (i->op == OP_PERMUTE) { p.type = ir_operand(i, 0)->type; p.order = ir_attr(i, ATTR_ORDER)->v; p.axis = -1; }
    fill_elements(e, r, base, placed, &p);
}
