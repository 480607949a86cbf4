/* reduce_ir.c: see reduce_ir.h. Every attempt has a session of its own, so that nothing it breaks outlives
 * it. */
#include "reduce_ir.h"
#include "ir/ir.h"
#include <stdlib.h>

typedef struct Nth {
    int n;
    Instr *found;
} Nth;

static void count(void *user, Instr *i)
{
    Nth *x = user;
    if (x->n-- == 0) x->found = i;
}

static Instr *nth_instr(Func *f, int n)
{
    Nth x = { n, NULL };
    ir_walk(f->body, count, &x);
    return x.found;
}

static Value *zero(Builder *b, const Type *t)
{
    Value *z = dtype_is_float(t->dtype) ? ir_const_float(b, t->dtype, 0) : ir_const_int(b, t->dtype, 0);
    return t->kind == TYPE_TILE ? ir_splat(b, z, t->rank, t->shape) : z;
}

/* The token an operation's token result follows on. */
static Value *token_before(const Instr *i, int result)
{
    if (i->op == OP_FOR) return ir_operand(i, result + 3);
    if (i->op == OP_WHILE) return ir_operand(i, result);
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k)->type->kind == TYPE_TOKEN) return ir_operand(i, k);
    return NULL;
}

/* A branch's tokens: what the branch was given is not an operand; the last token defined before that has no
 * other use is lost. */
static bool replace_if_by_branch(Instr *i, int which)
{
    Block *b = i->blocks[which];
    for (Instr *x = b->first, *next; x && x != b->last; x = next) {
        next = x->next;
        Builder at = ir_before(i);
        ir_unlink(x);
        ir_place(&at, x);
    }
    for (int k = 0; k < i->n_results; k++) ir_replace(&i->results[k], ir_operand(b->last, k));
    ir_erase(i);
    return true;
}

enum { ERASE, TAKE_THEN, TAKE_ELSE, ZERO, DROP_CARRIED, N_ATTEMPTS };

static bool drop_carried(Instr *i)
{
    bool some = false;
    for (int k = i->n_results - 1; k >= 0; k--) {
        if (i->results[k].uses || (i->op == OP_FOR && i->blocks[0]->args[k + 1]->uses)) continue;
        ir_drop_carried(i, k);
        some = true;
    }
    return some;
}

/* One attempt on an instruction; each leaves fewer things to attempt, so that reducing ends. What is unused
 * stays until its own turn: a failure may hang on dead code. False: nothing to do. */
static bool simplify(Instr *i, int how)
{
    if (op_info[i->op].flags & OPF_TERM) return false;
    if (how == TAKE_THEN || how == TAKE_ELSE)
        return i->op == OP_IF && replace_if_by_branch(i, how == TAKE_ELSE);
    if (how == DROP_CARRIED) return (i->op == OP_IF || i->op == OP_FOR) && drop_carried(i);
    if (how == ERASE) {
        if (ir_is_used(i)) return false;
        ir_erase(i);
        return true;
    }
    if (i->op == OP_CONST || i->op == OP_TOKEN ||
        (i->op == OP_SPLAT && ir_operand(i, 0)->def && ir_operand(i, 0)->def->op == OP_CONST))
        return false;
    Builder b = ir_before(i);
    for (int k = 0; k < i->n_results; k++) {
        const Type *t = i->results[k].type;
        Value *by = type_is_value(t) ? zero(&b, t) : token_before(i, k);
        if (!by) return false;
        ir_replace(&i->results[k], by);
    }
    ir_erase(i);
    return true;
}

/* The text after attempt (n, how), or NULL: `*end` when there is no such instruction. */
static char *attempt(const char *text, int n, int how, bool *end)
{
    Session s;
    char *volatile out = NULL;
    session_init(&s, allocator_libc);
    *end = false;
    if (setjmp(s.oom)) {
        session_free(&s);
        return NULL;
    }
    Module *m = ir_parse(&s, diag_add_source(&s, "reduced", NULL, text, strlen(text)));
    Instr *i = m ? nth_instr(m->funcs, n) : NULL;
    *end = !i;
    if (i && simplify(i, how)) {
        if (ir_verify(m)) {
            Text t;
            text_init(&t, &s.arena);
            ir_print(m, &t);
            out = strdup(t.data);
        }
    }
    session_free(&s);
    return out;
}

char *reduce_ir(const char *text, bool (*fails)(void *user, const char *text), void *user)
{
    char *best = strdup(text);
    for (bool progress = true; progress;) {
        bool end = false;
        progress = false;
        for (int n = 0; !end; n++)
            for (int how = 0; how < N_ATTEMPTS && !end; how++) {
                char *t = attempt(best, n, how, &end);
                if (!t) continue;
                if (fails(user, t)) {
                    free(best);
                    best = t;
                    progress = true;
                    how = N_ATTEMPTS;
                    n--;
                } else free(t);
            }
    }
    return best;
}
