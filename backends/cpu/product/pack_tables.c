/* pack_tables.c: operands of AMX whose elements come from tables. Dequantized weights are computed from
 * integers of 4 bits and from values that are the same along K. As for products of few columns
 * (thin_tables.c), the 16 values that an element of a row may have are computed once, and `vpermw` takes each
 * element of the row from them. Operands that are packed in one nest are looked up together, so that tables
 * which they share are computed once. */
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/product/thin.h"

enum { MOST_LOOKUPS = 2, LOOKED_UP = 32 /* elements of 16 bits in a register */ };

typedef struct Lookups {
    const Sink *sink[MOST_LOOKUPS];
    Table table[MOST_LOOKUPS];
    LLVMValueRef row;
    int n;
} Lookups;

/* Elements k and on of the row, for as many as the bits have bytes in a register. */
static void look_up_row(Thin *t, const Lookups *l, LLVMValueRef k)
{
    Gen *g = t->g;
    Eval e;
    LLVMValueRef coord[TILE_MAX_RANK] = { l->row, k };
    eval_init(&e, g, thin_looked_up(t));
    for (int s = 0; t; s++, t = t->with) {
        const Buf *to = l->sink[s]->buf;
        LLVMValueRef bits = nest_eval(&e, t->bits, coord, 1);
        for (int at = 0; at < gen_lanes(bits); at += LOOKED_UP) {
            int mask[LOOKED_UP];
            for (int j = 0; j < LOOKED_UP; j++) mask[j] = at + j;
            LLVMValueRef x = gen_shuffle(g, bits, NULL, mask, LOOKED_UP);
            x = LLVMBuildZExt(g->b, x, gen_vec(g->i16, LOOKED_UP), "");
            LLVMValueRef by = gen_splat(g, LLVMConstInt(g->i16, (unsigned)t->shift, false), LOOKED_UP);
            x = thin_look_up(t, &l->table[s], t->shift ? LLVMBuildLShr(g->b, x, by, "") : x);
            LLVMValueRef column = gen_iadd(g, k, gen_int(g, at));
            LLVMValueRef in = gen_iadd(g, gen_imul(g, l->row, to->ld), column);
            LLVMBuildStore(g->b, x, gen_ptr(g, gen_buf(g, to, 0), gen_imul(g, in, 2)));
        }
    }
}

static void look_up_rows(Thin *t, void *user)
{
    Gen *g = t->g;
    Lookups *l = user;
    Loop rows, along;
    l->row = gen_loop(g, &rows, gen_int(g, 0), gen_int(g, t->n), 1);
    int s = 0;
    for (Thin *x = t; x; x = x->with) l->table[s++] = thin_table(x, l->row);
    if (t->k == thin_looked_up(t)) look_up_row(t, l, gen_int(g, 0));
    else {
        look_up_row(t, l, gen_loop(g, &along, gen_int(g, 0), gen_int(g, t->k), thin_looked_up(t)));
        gen_loop_end(g, &along);
    }
    gen_loop_end(g, &rows);
}

/* The sinks are operands A of AMX, and all have tables. */
static bool finds(Gen *g, const Step *s, Lookups *l, Thin *t, Step *product)
{
    if (s->rank != 2 || s->shape[1] % g->target->vector_bytes) return false;
    *product = (Step){ .kind = STEP_MMA, .mma = MMA_AMX_BF16, .thin = THIN_DOTS_OF_A };
    for (const Sink *k = s->sinks; k; k = k->next) {
        const Type *type = k->value->type;
        if (l->n == MOST_LOOKUPS || k->kind != SINK_PACK || !k->buf->in_tiles || type->rank != 2)
            return false;
        if (k->buf->form != FORM_ROWS || type->dtype != DT_BF16 || k->buf->dtype != DT_BF16) return false;
        Thin *x = &t[l->n];
        *x = (Thin){ .g = g, .s = product, .b = k->value, .from = DT_BF16, .as = DT_BF16 };
        x->n = s->shape[0], x->k = s->shape[1];
        thin_index(x);
        if (!x->index) return false;
        if (l->n) t[l->n - 1].with = x;
        l->sink[l->n++] = k;
    }
    return l->n > 0;
}

bool mma_pack_tables(Gen *g, const Step *s)
{
    Lookups l = { .n = 0 };
    Thin t[MOST_LOOKUPS];
    Step product;
    LLVMValueRef whole = NULL;
    if (!finds(g, s, &l, t, &product)) return false;
    for (int k = 0; k < l.n; k++) thin_find_windows(&t[k], &whole);
    thin_guard(t, whole, look_up_rows, &l);
    return true;
}
