/* cse: computes equal values once (common subexpression elimination).
 *
 *   %3 = mul %1, %2                        %3 = mul %1, %2
 *   %4 = mul %2, %1               ->       %5 = add %3, %3
 *   %5 = add %3, %4
 *
 * Two instructions are equal when their operation, attributes, result types and operands are equal;
 * operands of a commutative operation may be in any order. The earlier one replaces the later one where it
 * dominates it: in the same block, or in one around it. Loads and gathers from `in` parameters count as
 * pure. Loads on a token chain are equal when no write lies between them: reads hand tokens on, so the
 * pass compares the token of the last write.
 *
 * Requires: nothing. Keeps: everything. Does not handle: operations with blocks; atomics; values that are
 * equal but not written alike. */
#include "passes/pass.h"

typedef struct Entry {
    Instr *instr;
    uint64_t hash;
    struct Entry *next, *scope_next;
} Entry;
enum { LEAST_BUCKETS = 64, MOST_BUCKETS = 4096 }; /* for functions of few values and of many; powers of two */
typedef struct Cse {
    PassContext *c;
    Entry **table;
    uint32_t buckets;
    Entry *scope;
    int64_t removed;
} Cse;

static bool reads_only(const Instr *i) { return i->op == OP_LOAD || i->op == OP_GATHER; }

static bool eligible(const Instr *i)
{
    if (i->n_blocks || !i->n_results) return false;
    return reads_only(i) || ((op_info[i->op].flags & OPF_PURE) && i->op != OP_JOIN_TOKENS);
}

/* The operand as it is compared: a token counts as the write it follows. */
static const Value *compared(const Instr *i, int k)
{
    Value *v = ir_operand(i, k);
    return v->type->kind == TYPE_TOKEN ? last_write(v) : v;
}

static bool swappable(const Instr *i) { return (op_info[i->op].flags & OPF_COMM) && i->n_operands >= 2; }

static uint64_t mix(uint64_t h, uint64_t x) { return (h ^ x) * 0x9E3779B97F4A7C15ull ^ h >> 29; }

/* Selects by the upper bits, because many hashes (of floating constants) have equal lower bits. */
static uint32_t bucket_of(const Cse *x, uint64_t h)
{ return (uint32_t)(h * 0x9E3779B97F4A7C15ull >> 32) & (x->buckets - 1); }

static uint64_t hash_attr(const Attr *a)
{
    uint64_t x = 0;
    AttrKind kind = attr_info[a->key].kind;
    if (kind == ATTR_KIND_INT || kind == ATTR_KIND_ENUM) x = (uint64_t)a->i;
    if (kind == ATTR_KIND_FLOAT) memcpy(&x, &a->f, sizeof x);
    return mix(a->key, x);
}

static uint64_t hash_instr(const Instr *i)
{
    uint64_t h = mix(1, i->op);
    int first = 0;
    if (swappable(i)) {
        h = mix(h, (uint64_t)compared(i, 0)->id + compared(i, 1)->id);
        first = 2;
    }
    for (int k = first; k < i->n_operands; k++) h = mix(h, compared(i, k)->id);
    h = mix(h, (uint64_t)(uintptr_t)i->results[0].type);
    for (int k = 0; k < i->n_attrs; k++) h += hash_attr(&i->attrs[k]); /* in any order */
    return h;
}

static bool equal(const Instr *a, const Instr *b)
{
    if (a->op != b->op || a->n_operands != b->n_operands || a->n_results != b->n_results) return false;
    for (int k = 0; k < a->n_results; k++)
        if (a->results[k].type != b->results[k].type) return false;
    int first = 0;
    if (swappable(a)) {
        bool straight = compared(a, 0) == compared(b, 0) && compared(a, 1) == compared(b, 1);
        bool crossed = compared(a, 0) == compared(b, 1) && compared(a, 1) == compared(b, 0);
        if (!straight && !crossed) return false;
        first = 2;
    }
    for (int k = first; k < a->n_operands; k++)
        if (compared(a, k) != compared(b, k)) return false;
    return ir_same_attrs(a, b);
}

static void reuse(Cse *x, Instr *i, Instr *earlier)
{
    MemParts p;
    for (int k = 0; k < i->n_results; k++) {
        bool token = i->results[k].type->kind == TYPE_TOKEN && reads_only(i);
        ir_replace(&i->results[k], token && ir_mem_parts(i, &p) ? p.token : &earlier->results[k]);
    }
    ir_erase(i);
    x->removed++;
}

static void cse_block(Cse *x, Block *b)
{
    Entry *outer = x->scope;
    for (Instr *i = b->first, *next; i; i = next) {
        next = i->next;
        for (int k = 0; k < i->n_blocks; k++) cse_block(x, i->blocks[k]);
        if (!eligible(i)) continue;
        uint64_t h = hash_instr(i);
        Entry **bucket = &x->table[bucket_of(x, h)], *e = *bucket;
        while (e && !(e->hash == h && equal(e->instr, i))) e = e->next;
        if (e) {
            reuse(x, i, e->instr);
            continue;
        }
        e = arena_new(x->c->scratch, Entry);
        *e = (Entry){ i, h, *bucket, x->scope };
        *bucket = x->scope = e;
    }
    for (; x->scope != outer; x->scope = x->scope->scope_next)
        x->table[bucket_of(x, x->scope->hash)] = x->scope->next;
}

static bool cse_func(PassContext *c, Func *f)
{
    Block *roots[FUNC_ROOTS];
    int n = func_roots(f, roots);
    Cse *x = arena_new(c->scratch, Cse);
    x->c = c;
    for (x->buckets = LEAST_BUCKETS; x->buckets < f->module->next_id && x->buckets < MOST_BUCKETS;)
        x->buckets *= 2;
    x->table = arena_array(c->scratch, Entry *, x->buckets);
    for (int k = 0; k < n; k++) cse_block(x, roots[k]);
    pass_count(c, "equal values", x->removed);
    return x->removed > 0;
}

bool pass_cse(PassContext *c, Module *m) { return pass_each_func(c, m, cse_func); }
