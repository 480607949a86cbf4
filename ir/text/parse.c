/* parse.c: reads the text form of the IR (docs/ir.md has the grammar; print.c writes it). Here:
 * instructions, blocks and functions. Only syntax and names are checked; ir_verify judges what was read. */
#include "ir/interp/scalar.h"
#include "ir/text/parse.h"

/* --- instructions ------------------------------------------------------------------------------------ */

typedef struct Draft { /* an instruction being read */
    Op op;
    Names results;
    ValueList operands;
    AttrList attrs;
    Types types;
    Names args[2]; /* the arguments of its blocks, when the spelling gives them before the block */
    bool own_args; /* args are filled; types of arguments follow the operands */
    Loc loc;
} Draft;

static void instructions(Parser *p, Block *b);

static void flag(Parser *p, Draft *d, AttrKey k)
{
    Attr a = a_int(k, 1);
    vec_push(&p->s->arena, &d->attrs, a);
}

static void operand(Parser *p, Draft *d)
{
    Value *v = irread_use(p);
    if (!p->failed) vec_push(&p->s->arena, &d->operands, v);
}

static void read_const(Parser *p, Draft *d)
{
    if (irread_is_punct(p, '{') || irread_is_punct(p, ':')) return;
    Token t = p->tok;
    uint32_t pos = p->pos;
    bool is_bool = irread_is_name(p, "true") || irread_is_name(p, "false");
    AttrList rest = { 0 };
    irread_next(p);
    irread_optional_attributes(p, &rest);
    irread_expect(p, ':');
    const Type *ty = irread_type(p);
    if (p->failed) return;
    Token after = p->tok;
    uint32_t after_pos = p->pos;
    p->tok = t;
    p->pos = pos;
    Attr a = { .key = ATTR_IVALUE };
    if (is_bool && ty->dtype == DT_BOOL) a.i = irread_text_is(&t, "true");
    else if (dtype_is_float(ty->dtype) && ty->kind == TYPE_SCALAR) {
        a.key = ATTR_FVALUE;
        a.f = irread_number(p);
        /* A decimal is rounded to the nearest value of the dtype. A hexadecimal is kept as it is, so that the
         * verifier can reject it. */
        if (!memchr(t.at, 'x', t.len) && !memchr(t.at, 'n', t.len)) a.f = scalar_round(ty->dtype, a.f);
    } else a.i = irread_integer(p, true);
    if (p->failed) return;
    p->tok = after;
    p->pos = after_pos;
    vec_push(&p->s->arena, &d->attrs, a);
    for (size_t k = 0; k < rest.len; k++) vec_push(&p->s->arena, &d->attrs, rest.data[k]);
    vec_push(&p->s->arena, &d->types, ty);
}

static void read_mem(Parser *p, Draft *d)
{
    operand(p, d);
    if (!irread_accept(p, '[')) {
        if (irread_accept(p, ',')) irread_uses(p, &d->operands);
        return;
    }
    if (!irread_is_punct(p, ']')) irread_uses(p, &d->operands);
    irread_expect(p, ']');
    if (irread_accept(p, '=')) irread_uses(p, &d->operands);
    if (irread_accept_name(p, "mask")) {
        operand(p, d);
        flag(p, d, ATTR_HAS_MASK);
    }
    if (irread_accept_name(p, "pad")) {
        operand(p, d);
        flag(p, d, ATTR_HAS_PAD);
    }
    if (irread_accept_name(p, "token")) operand(p, d);
}

/* (%x = %init, ...): arguments of block 0 and the operands they start from */
static void read_inits(Parser *p, Draft *d)
{
    irread_expect(p, '(');
    if (!irread_is_punct(p, ')')) do {
            Name n = irread_value_name(p);
            if (p->failed) return;
            vec_push(&p->s->arena, &d->args[0], n);
            irread_expect(p, '=');
            operand(p, d);
            if (p->failed) return;
            vec_push(&p->s->arena, &d->types, d->operands.data[d->operands.len - 1]->type);
        } while (irread_accept(p, ','));
    irread_expect(p, ')');
    d->own_args = true;
}

/* `for` in its own spelling; generic ones have a comma where this has the equals sign */
static bool read_for(Parser *p, Draft *d)
{
    if (p->tok.kind != TOK_VALUE) return false;
    Token t = p->tok;
    uint32_t pos = p->pos;
    irread_next(p);
    bool own = irread_is_punct(p, '=');
    if (p->failed) return true;
    p->tok = t;
    p->pos = pos;
    if (!own) return false;
    Name iv = irread_value_name(p);
    vec_push(&p->s->arena, &d->args[0], iv);
    irread_expect(p, '=');
    operand(p, d);
    irread_expect_name(p, "to");
    operand(p, d);
    irread_expect_name(p, "step");
    operand(p, d);
    d->own_args = true;
    if (irread_accept_name(p, "with")) read_inits(p, d);
    return true;
}

static void block_args(Parser *p, Block *b)
{
    if (!irread_accept(p, '(')) return;
    if (!irread_is_punct(p, ')')) do {
            Name n = irread_value_name(p);
            irread_expect(p, ':');
            const Type *t = irread_type(p);
            if (p->failed) return;
            irread_define(p, ir_block_arg(b, t, NULL), n);
        } while (irread_accept(p, ',') && !p->failed);
    irread_expect(p, ')');
}

static void block(Parser *p, Block *b)
{
    irread_expect(p, '{');
    if (++p->depth > IR_MAX_NESTING)
        irread_fail(p, irread_here(p), "blocks nest deeper than %d", IR_MAX_NESTING);
    instructions(p, b);
    p->depth--;
    irread_expect(p, '}');
}

static void read_blocks(Parser *p, Draft *d, Instr *i)
{
    for (int k = 0; k < i->n_blocks && !p->failed; k++) {
        Block *b = i->blocks[k];
        if (k) (void)(irread_accept_name(p, "else") || irread_accept_name(p, "do"));
        if (d->own_args && k == 1) {
            irread_expect(p, '(');
            if (!irread_is_punct(p, ')')) do {
                    Name n = irread_value_name(p);
                    if (!p->failed) vec_push(&p->s->arena, &d->args[1], n);
                } while (irread_accept(p, ','));
            if (d->args[1].len != d->operands.len)
                irread_fail(p, irread_here(p), "the second block of while takes %zu values", d->operands.len);
            irread_expect(p, ')');
        }
        if (p->failed) return;
        if (d->own_args) {
            size_t shift = d->op == OP_FOR ? 1 : 0, first = d->op == OP_FOR ? 3 : 0;
            for (size_t a = 0; a < d->args[k].len; a++) {
                const Type *t =
                    a < shift ? d->operands.data[0]->type : d->operands.data[first + a - shift]->type;
                irread_define(p, ir_block_arg(b, t, NULL), d->args[k].data[a]);
            }
        } else block_args(p, b);
        block(p, b);
    }
}

static void instruction(Parser *p, Block *b)
{
    Draft d = { .loc = irread_here(p) };
    if (p->tok.kind == TOK_VALUE) {
        do {
            Name n = irread_value_name(p);
            if (p->failed) return;
            vec_push(&p->s->arena, &d.results, n);
        } while (irread_accept(p, ','));
        irread_expect(p, '=');
    }
    if (p->tok.kind != TOK_NAME || !op_parse(p->tok.at, p->tok.len, &d.op)) {
        irread_fail(p, irread_here(p), "expected an operation, found %s", irread_found(p));
        return;
    }
    irread_next(p);
    bool own = false;
    if (d.op == OP_CONST) read_const(p, &d);
    else if (d.op == OP_FOR) own = read_for(p, &d);
    else if (d.op == OP_WHILE && irread_is_punct(p, '(')) {
        read_inits(p, &d);
        own = true;
    }
    bool mem = d.op == OP_LOAD || d.op == OP_STORE || d.op == OP_GATHER || d.op == OP_SCATTER ||
               d.op == OP_ATOMIC_RMW || d.op == OP_ATOMIC_CAS;
    if (!own && d.op != OP_CONST && p->tok.kind == TOK_VALUE && !p->tok.first_on_line) {
        if (mem) read_mem(p, &d);
        else irread_uses(p, &d.operands);
    }
    irread_optional_attributes(p, &d.attrs);
    if (!own && irread_accept(p, ':')) do {
            const Type *t = irread_type(p);
            if (p->failed) return;
            vec_push(&p->s->arena, &d.types, t);
        } while (irread_accept(p, ','));
    if (d.types.len != d.results.len)
        irread_fail(p, d.loc, "%zu results, but %zu types", d.results.len, d.types.len);
    if (d.results.len > IR_MAX_RESULTS) irread_fail(p, d.loc, "more than %d results", IR_MAX_RESULTS);
    if (p->failed) return;
    Builder at_end = ir_at_end(b);
    at_end.loc = d.loc;
    Instr *i = ir_build_raw(&at_end, d.op, d.operands.data, (int)d.operands.len,
        (Attrs){ d.attrs.data, (int)d.attrs.len }, d.types.data, (int)d.types.len);
    read_blocks(p, &d, i);
    for (size_t k = 0; k < d.results.len; k++) irread_define(p, &i->results[k], d.results.data[k]);
    if (irread_accept_name(p, "loc")) {
        irread_expect(p, '(');
        irread_integer(p, false);
        irread_expect(p, ')');
    }
}

static void instructions(Parser *p, Block *b)
{
    while (!p->failed && !irread_is_punct(p, '}') && p->tok.kind != TOK_END) instruction(p, b);
}

/* --- functions --------------------------------------------------------------------------------------- */

static void func_dim(Parser *p)
{
    Func *f = p->func;
    const char *n = NULL;
    Loc loc = irread_here(p);
    if (irread_accept(p, '#')) irread_integer_in(p, f->n_dims, f->n_dims, "the number of this dimension");
    else {
        n = irread_name(p, "a dimension's name");
        for (int k = 0; k < f->n_dims; k++)
            if (f->dims[k].name == n) irread_fail(p, loc, "the dimension %s is declared twice", n);
    }
    const char *text = !n && irread_accept_name(p, "derived") ? irread_string(p) : NULL;
    int64_t extent = irread_accept(p, '=') ? irread_integer_in(p, 0, INT64_MAX, "the extent") : -1;
    if (p->failed) return;
    int index = ir_dim_new(f, n, extent);
    if (text) f->dims[index].text = session_intern(p->s, text, strlen(text));
    Dim *d = &f->dims[index];
    if (irread_accept_name(p, "div")) d->div = irread_integer(p, false);
    if (irread_accept_name(p, "most"))
        d->most = irread_integer_in(p, d->div, INT32_MAX, "the largest extent");
    if (irread_accept_name(p, "at")) {
        d->param = (int)irread_integer_in(p, 0, 1 << 20, "the parameter");
        irread_expect(p, ':');
        d->axis = (int)irread_integer_in(p, 0, TILE_MAX_RANK - 1, "the axis");
    }
}

static void per_axis(Parser *p, int rank, int64_t *out, bool unknown)
{
    irread_expect(p, '[');
    for (int k = 0; k < rank && !p->failed; k++) {
        if (k) irread_expect(p, ',');
        out[k] = unknown && irread_accept(p, '?') ? FACT_UNKNOWN : irread_integer(p, false);
    }
    irread_expect(p, ']');
}

static void func_param(Parser *p, ParamKind kind)
{
    Func *f = p->func;
    Loc loc = irread_here(p);
    Name n = irread_value_name(p);
    irread_expect(p, ':');
    const Type *t = irread_type(p);
    int dims[TILE_MAX_RANK] = { 0 };
    if (p->failed) return;
    if (!n.name) {
        irread_fail(p, loc, "a parameter needs a name");
        return;
    }
    if (t->kind == TYPE_TENSOR) {
        irread_expect(p, '[');
        for (int k = 0; k < t->rank && !p->failed; k++) {
            if (k) irread_expect(p, ',');
            dims[k] = (int)irread_dim_ref(p);
        }
        irread_expect(p, ']');
    }
    if (p->failed) return;
    Value *v = ir_param_new(f, n.name, kind, t, dims);
    irread_define(p, v, n);
    Param *q = &f->params[f->n_params - 1];
    q->loc = loc;
    if (irread_accept_name(p, "align")) q->align = irread_integer(p, false);
    if (irread_accept_name(p, "stride")) per_axis(p, t->kind == TYPE_TENSOR ? t->rank : 0, q->stride, true);
    if (irread_accept_name(p, "stride_div"))
        per_axis(p, t->kind == TYPE_TENSOR ? t->rank : 0, q->stride_div, false);
    q->gaps = irread_accept_name(p, "gaps");
    if (irread_accept_name(p, "joined")) {
        const int last = t->kind == TYPE_TENSOR && t->rank ? t->rank - 1 : 0;
        q->joined_from = (int)irread_integer_in(p, 0, last, "the first axis that is joined");
        q->joined_to = (int)irread_integer_in(p, q->joined_from, last, "the last axis that is joined");
    }
    if (irread_accept_name(p, "range")) {
        irread_expect(p, '[');
        q->lo = irread_number(p);
        irread_expect(p, ',');
        q->hi = irread_number(p);
        irread_expect(p, ']');
    }
}

static void func_hints(Parser *p)
{
    Hints *h = &p->func->hints;
    const struct {
        const char *name;
        int *v, most, base;
    } all[] = {
#define HINT(name, most, base, search, reader) { #name, &h->name, most, base },
#include "ir/hints.def"
#undef HINT
    };
    do {
        Token t = p->tok;
        size_t v = 0, n = sizeof all / sizeof *all;
        while (v < n && !(t.kind == TOK_NAME && irread_text_is(&t, all[v].name))) v++;
        const char **text = irread_is_name(p, "schedule") ? &h->schedule
                            : irread_is_name(p, "remap")  ? &h->remap
                                                          : NULL;
        if (v == n && !text) {
            irread_fail(p, irread_here(p), "unknown hint %s", irread_found(p));
            return;
        }
        irread_next(p);
        irread_expect(p, '=');
        if (v < n)
            *all[v].v =
                (int)irread_integer_in(p, 0, all[v].base ? all[v].most : 1 << 20, "the hint") + all[v].base;
        else *text = irread_string(p);
    } while (irread_accept(p, ','));
}

static void func_results(Parser *p)
{
    Types types = { 0 };
    do {
        const Type *t = irread_type(p);
        if (p->failed) return;
        vec_push(&p->s->arena, &types, t);
    } while (irread_accept(p, ','));
    p->func->results = types.data;
    p->func->n_results = (int)types.len;
}

static void region(Parser *p, Block **at, const char *what)
{
    if (*at) {
        irread_fail(p, irread_here(p), "%s is given twice", what);
        return;
    }
    *at = ir_block_new(p->func, NULL);
    block_args(p, *at);
    block(p, *at);
}

static void func_item(Parser *p, bool *has_body)
{
    Func *f = p->func;
    Loc loc = irread_here(p);
    if (irread_accept_name(p, "spec")) {
        const char *s = irread_string(p);
        f->spec = session_intern(p->s, s, strlen(s));
    } else if (irread_accept_name(p, "fits32")) f->fits32 = true;
    else if (irread_accept_name(p, "extents31")) f->extents31 = true;
    else if (irread_accept_name(p, "permutes")) f->permutes = true;
    else if (irread_accept_name(p, "hint")) func_hints(p);
    else if (irread_accept_name(p, "dim")) func_dim(p);
    else if (irread_accept_name(p, "in")) func_param(p, PARAM_IN);
    else if (irread_accept_name(p, "out")) func_param(p, PARAM_OUT);
    else if (irread_accept_name(p, "inout")) func_param(p, PARAM_INOUT);
    else if (irread_accept_name(p, "scalar")) func_param(p, PARAM_SCALAR);
    else if (irread_accept_name(p, "result")) func_results(p);
    else if (irread_accept_name(p, "grid")) region(p, &f->grid, "the grid");
    else if (irread_accept_name(p, "remap")) region(p, &f->remap, "the remap");
    else if (irread_accept_name(p, "extents")) region(p, &f->extents, "the block of extents");
    else if (irread_accept_name(p, "body")) {
        if (*has_body) irread_fail(p, loc, "the body is given twice");
        *has_body = true;
        block(p, f->body);
    } else
        irread_fail(p, loc,
            "expected spec, fits32, extents31, permutes, hint, dim, a parameter, result, grid, remap, "
            "extents or body, found %s",
            irread_found(p));
}

static void function(Parser *p)
{
    bool kernel = irread_is_name(p, "kernel"), has_body = false;
    Loc loc = irread_here(p);
    if (!kernel && !irread_is_name(p, "func")) {
        irread_fail(p, irread_here(p), "expected 'kernel' or 'func', found %s", irread_found(p));
        return;
    }
    irread_next(p);
    irread_expect(p, '@');
    Loc at_name = irread_here(p);
    const char *n = irread_name(p, "the function's name");
    if (!p->failed && ir_func_find(p->module, n))
        irread_fail(p, at_name, "the function @%s is defined twice", n);
    if (p->failed) return;
    p->func = ir_func_new(p->module, n, kernel);
    p->func->loc = at_name;
    irread_expect(p, '{');
    while (!p->failed && !irread_is_punct(p, '}') && p->tok.kind != TOK_END) func_item(p, &has_body);
    if (!has_body) irread_fail(p, loc, "the function @%s has no body", n);
    irread_expect(p, '}');
}

Module *ir_parse(Session *s, uint32_t file)
{
    const Source *src = diag_source(s, file);
    if (!src) return NULL;
    Parser p = { .s = s, .src = src, .file = file };
    if (src->len >= 1u << 31) {
        diag_error(s, (Loc){ file, 0, 0 }, "the text is too long (2 GiB at most)");
        return NULL;
    }
    p.module = ir_module_new(s);
    irread_next(&p);
    while (!p.failed && p.tok.kind != TOK_END) function(&p);
    return p.failed ? NULL : p.module;
}
