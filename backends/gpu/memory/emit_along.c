/* emit_along.c: pointers of loads that go along in a loop of products.
 *
 *   const float *SA_at[2];                                   before the loop
 *   for (v: 0, 1) {                                          what stays the same, for each register
 *       SA_at[v] = SA + row * stride + (c0 + 8 * v) * stride;
 *       pin_pointer(SA_at[v]);
 *   }
 *   for (k ..) { .. x[v] = *(SA_at[v] + (i64)k); .. }
 *
 * Factors of a step that a warp loads between two products have few elements in a thread. The vendor's
 * compiler works out their addresses anew in each step, in 64 bits, and puts that between the instructions of
 * one product, which then wait for it. A scalar would go to a uniform register, and be waited for where it
 * moves there; its pointer differs from lane to lane, as far as that compiler knows. */
#include "backends/gpu/memory/emit_along.h"

/* A load, the register pointers' name, and its window, in which the axes that they leave out are `picked`. */
typedef struct Along {
    const Instr *load;
    const char *name;
    Window of;
    const Layout *l; /* NULL: a scalar */
} Along;

enum { MOST = 4 }; /* registers of a thread, each of which has a pointer of two words */

/* The axes along which the window lies elsewhere in another step, of whose positions it has one alone. All
 * others must be known before the loop. */
static uint32_t axes_along(const Window *w, const Type *tile, const Block *body)
{
    uint32_t along = 0;
    for (int a = 0; a < w->rank; a++) {
        if (ir_defined_outside(w->offset[a], body)) continue;
        if (w->tile_axis[a] >= 0 && tile->shape[w->tile_axis[a]] != 1) return 0;
        along |= 1u << a;
    }
    return w->picked ? 0 : along;
}

/* The pointers that another load of the loop has already. */
static const char *known_pointers(const Emit *e, size_t from, const Along *x)
{
    for (size_t k = from; k < e->along.len; k++) {
        const Along *y = e->along.data[k];
        bool same = y->of.param == x->of.param && y->of.picked == x->of.picked && y->l == x->l;
        for (int a = 0; same && a < x->of.rank; a++)
            same = x->of.picked >> a & 1 ||
                   (y->of.offset[a] == x->of.offset[a] && y->of.step[a] == x->of.step[a] &&
                       y->of.tile_axis[a] == x->of.tile_axis[a]);
        if (same) return y->name;
    }
    return NULL;
}

static void declare_pointers(Emit *e, Along *x)
{
    const Param *p = &e->f->params[x->of.param];
    const char *from = window_pointer(e, &x->of);
    x->name = tmp(e, p->name);
    line(e, "const %s *%s[%d];", pointee(p->type->dtype), x->name, x->l ? (int)layout_regs(x->l) : 1);
    if (!x->l) {
        line(e, "%s[0] = %s + (lane & %s());", x->name, from, use(e, "hidden_zero"));
        line(e, "%s(%s[0]);", use(e, "pin_pointer"), x->name);
        return;
    }
    Index *c[TILE_MAX_RANK];
    begin_unrolled(e, "v", (int)layout_regs(x->l));
    coords_at(e, x->l, index_variable(e, "v"), c);
    line(e, "%s[v] = %s + %s;", x->name, from, window_index(e, &x->of, c));
    line(e, "%s(%s[v]);", use(e, "pin_pointer"), x->name);
    end_block(e);
}

/* Whether a thread loads few elements of four bytes, one at a time. */
static bool loads_few(Emit *e, const Along *x, const Type *t)
{
    LayoutVector v;
    if (dtype_bytes(t->dtype) != 4) return false;
    return !x->l || (layout_regs(x->l) <= MOST && window_vector(e, &x->of, x->l, t->dtype, &v) == 1);
}

static void open_pointers(Emit *e, size_t from, const Instr *loop, const Instr *i)
{
    MemParts m;
    Along *x = arena_array(&e->s->arena, Along, 1);
    if (i->op != OP_LOAD || !ir_mem_parts(i, &m) || m.token || kernel_kept(i) || ir_attr(i, ATTR_SHIFTED) ||
        e->f->params[m.param].kind != PARAM_IN)
        return;
    const Type *t = m.result->type;
    *x = (Along){ .load = i, .l = t->kind == TYPE_TILE ? layout_of(e, m.result) : NULL };
    window_of(e, i, &x->of);
    const uint32_t along = axes_along(&x->of, t, loop->blocks[0]);
    if (!along || !loads_few(e, x, t)) return;
    x->of.picked = along;
    x->name = known_pointers(e, from, x);
    if (!x->name) declare_pointers(e, x);
    vec_push(&e->s->arena, &e->along, x);
}

size_t emit_along_open(Emit *e, const Instr *loop)
{
    const size_t from = e->along.len;
    bool multiplies = false; /* promoted sums leave no registers for pointers */
    for (const Instr *i = loop->blocks[0]->first; i; i = i->next) multiplies |= i->op == OP_WGMMA;
    if (is_hip(e) || !multiplies) return from;
    for (const Instr *i = loop->blocks[0]->first; i; i = i->next) open_pointers(e, from, loop, i);
    return from;
}

static const Along *of_load(const Emit *e, const Instr *load)
{
    for (size_t k = 0; k < e->along.len; k++)
        if (e->along.data[k]->load == load) return e->along.data[k];
    return NULL;
}

/* The address of register v. */
static const char *address(Emit *e, const Along *x, const char *v)
{
    const char *at = str(e, "%s[%s]", x->name, v);
    for (int a = 0; a < x->of.rank; a++) {
        if (!(x->of.picked >> a & 1)) continue;
        /* An offset in range has no sign: one instruction widens, multiplies and adds it. */
        bool inside = !x->of.masked || x->of.inside >> a & 1, small = x->of.offset[a]->type->dtype == DT_I32;
        const char *step = str(e, "(i64)%s%s", inside && small ? "(u32)" : "", name_of(e, x->of.offset[a]));
        at = str(e, "%s + %s", at, window_times(e, step, x->of.param, a));
    }
    return at;
}

static void load_into(Emit *e, const Along *x, const char *to, const char *cond, const char *from)
{
    MemParts m;
    ir_mem_parts(x->load, &m);
    const char *call = str(e, "%s(&%s, %s);", use(e, "ldg_nc_b32"), to, from);
    line(e, *cond ? "if (%s) %s" : "%s%s", cond, call);
    if (*cond) line(e, "else %s = %s;", to, pad_value(e, m.pad, m.result->type->dtype));
}

bool emit_along_load(Emit *e, const Instr *load)
{
    const Along *x = of_load(e, load);
    Index *c[TILE_MAX_RANK] = { 0 };
    if (!x) return false;
    const Value *v = ir_result(load);
    Window w = x->of;
    w.picked = 0;
    note_tensor(e, x->l ? WAY_VECTORS : WAY_ONE, false, &w, x->l, NULL);
    if (!x->l) {
        const char *n = name_of(e, v);
        line(e, "%s %s;", ctype(v->type->dtype), n);
        load_into(e, x, n, window_condition(e, &w, c, false), address(e, x, "0"));
        e->storage[v->id] = n;
        return true;
    }
    const char *to = declare_tile(e, v);
    Index *reg = index_variable(e, "v");
    begin_unrolled(e, "v", (int)layout_regs(x->l));
    coords_at(e, x->l, reg, c);
    const char *in_tile = tile_condition(e, x->l, reg, c);
    load_into(e, x, str(e, "%s[v]", to), both_conditions(e, in_tile, window_condition(e, &w, c, false)),
        address(e, x, "v"));
    end_block(e);
    return true;
}
