/* pass.c: what several passes need: walking, replacing, building constants, counting. See pass.h. */
#include "passes/pass.h"

int func_roots(const Func *f, Block *out[FUNC_ROOTS])
{
    int n = 0;
    if (f->body) out[n++] = f->body;
    if (f->grid) out[n++] = f->grid;
    if (f->remap) out[n++] = f->remap;
    if (f->extents) out[n++] = f->extents;
    return n;
}

bool pass_each_func(PassContext *c, Module *m, bool (*fn)(PassContext *, Func *))
{
    bool progress = false;
    for (Func *f = m->funcs; f; f = f->next) progress |= fn(c, f);
    return progress;
}

void replace_value(Value *v, Value *by)
{
    Instr *i = v->def;
    ir_replace(v, by);
    if (i && i->block && !ir_is_used(i)) ir_erase(i);
}

void splice_before(Instr *at, Block *from)
{
    Builder b = ir_before(at);
    for (Instr *i = from->first, *next; i; i = next) {
        next = i->next;
        if (op_info[i->op].flags & OPF_TERM) continue;
        ir_unlink(i);
        ir_place(&b, i);
    }
}

bool is_tile(const Value *v) { return v->type->kind == TYPE_TILE; }
bool is_loop(const Instr *i) { return i->op == OP_FOR || i->op == OP_WHILE; }

Value *build_int(Builder *b, const Type *t, int64_t v)
{ return ir_splat(b, ir_const_int(b, t->dtype, v), t->kind == TYPE_TILE ? t->rank : 0, t->shape); }

Value *build_float(Builder *b, const Type *t, double v)
{ return ir_splat(b, ir_const_float(b, t->dtype, v), t->kind == TYPE_TILE ? t->rank : 0, t->shape); }

bool is_constant_read(const Instr *i)
{
    MemParts p;
    if (i->op != OP_LOAD && i->op != OP_GATHER) return false;
    return ir_mem_parts(i, &p) && !p.token;
}

Value *last_write(Value *token)
{
    while (token->def && (token->def->op == OP_LOAD || token->def->op == OP_GATHER)) {
        MemParts p;
        if (!ir_mem_parts(token->def, &p) || !p.token) break;
        token = p.token;
    }
    return token;
}

/* --- census ------------------------------------------------------------------------------------------ */

static bool loops(const void *user, const Instr *i)
{
    (void)user;
    return is_loop(i);
}
static bool has_loop(const Block *b) { return ir_any_in(b, loops, NULL); }

static bool touches_unproven(const Instr *i)
{ return (i->op == OP_LOAD || i->op == OP_STORE) && ir_attr_int(i, ATTR_MASKED, 1) != 0; }

static void census_block(Census *n, const Block *b, bool innermost, bool loop)
{
    for (const Instr *i = b->first; i; i = i->next) {
        const Type *t = i->n_results ? i->results[0].type : NULL;
        bool tile = t && t->kind == TYPE_TILE, select = i->op == OP_WHERE && tile;
        n->instrs++;
        n->tile_instrs += tile;
        n->exps += i->op == OP_EXP;
        n->exp2s += i->op == OP_EXP2;
        n->permutes += i->op == OP_PERMUTE;
        n->ordered_loads += i->op == OP_LOAD && ir_attr(i, ATTR_ORDER);
        n->one_row += tile && t->rank > 1 && t->shape[0] == 1;
        n->loads += i->op == OP_LOAD;
        n->stores += i->op == OP_STORE;
        n->masked += touches_unproven(i);
        n->index64 += t && type_is_value(t) &&
                      (t->dtype == DT_INDEX || t->dtype == DT_I64 || t->dtype == DT_U64) && i->op != OP_CONST;
        n->loops += is_loop(i);
        n->selects += select;
        n->loop_masked += innermost && touches_unproven(i);
        n->loop_selects += innermost && select;
        n->divs += i->op == OP_DIV && dtype_is_float(t->dtype);
        n->fmas += i->op == OP_FMA;
        n->calls += i->op == OP_CALL;
        n->asserts += i->op == OP_ASSERT;
        n->asks +=
            i->op == OP_PROGRAM_ID || i->op == OP_DIM || i->op == OP_STRIDE || i->op == OP_NUM_PROGRAMS;
        n->approx += ir_attr_int(i, ATTR_APPROX, 0) != 0;
        n->in_loops += loop;
        n->buffers += i->op == OP_LOAD ? (int)ir_attr_int(i, ATTR_LATENCY, 0) : 0;
        for (int k = 0; k < i->n_blocks; k++) {
            bool in = is_loop(i) ? !has_loop(i->blocks[k]) && !ir_loop_is(i, LOOP_EDGE) : innermost;
            census_block(n, i->blocks[k], in, loop || is_loop(i));
        }
    }
}

Census passes_census(const Module *m)
{
    Census n = { 0 };
    for (const Func *f = m->funcs; f; f = f->next) {
        census_block(&n, f->body, false, false);
        n.remaps += f->remap != NULL;
    }
    return n;
}
