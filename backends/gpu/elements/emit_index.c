/* emit_index.c: indices as nodes: formulas for tables of numbers, what is known of them, their text. */
#include "backends/gpu/emit.h"

/* --- nodes ------------------------------------------------------------------------------------------- */

static Index *node(Emit *e, Index x)
{
    Index *r = arena_new(&e->s->arena, Index);
    *r = x;
    return r;
}

Index *index_number(Emit *e, int number) { return node(e, (Index){ .kind = INDEX_NUMBER, .add = number }); }

Index *index_linear(Emit *e, int scale, const char *name, int add)
{ return node(e, (Index){ .kind = INDEX_VARIABLE, .scale = scale, .text = name, .add = add }); }

Index *index_variable(Emit *e, const char *name) { return index_linear(e, 1, name, 0); }

Index *index_other(Emit *e, const char *fmt, ...)
{
    va_list ap;
    if (e->measure) return index_number(e, 0); /* nobody reads it */
    va_start(ap, fmt);
    const char *text = expression(e, fmt, ap);
    va_end(ap);
    return node(e, (Index){ .kind = INDEX_OTHER, .text = text });
}

Index *index_plus(Emit *e, Index *i, int add)
{ return node(e, (Index){ .kind = INDEX_SUM, .of = i, .add = add }); }

/* --- formulas for tables ----------------------------------------------------------------------------- */

enum { MOST_DIGITS = 16 };

/* Expresses a table as a sum over mixed-radix digits of its index. Returns the number of digits, or -1 if
 * that is not possible. */
static int digits_of(const int32_t *t, int n, IndexDigit *digits)
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
        if (k == MOST_DIGITS) return -1;
        digits[k++] = (IndexDigit){ d, m, c };
        d *= m;
    }
    return k;
}

/* Whether each entry is the exclusive or of the entries at the bits of its index. */
static bool by_bits(const int32_t *t, int n)
{
    if (n & (n - 1)) return false;
    for (int x = 0; x < n; x++) {
        int v = 0;
        for (int b = 0; 1 << b < n; b++)
            if (x >> b & 1) v ^= t[1 << b];
        if (v != t[x]) return false;
    }
    return true;
}

/* The formula for the n entries at `table`, which belong to it. */
static Index *formula(Emit *e, const int32_t *table, int n, Index *of)
{
    Arena *a = &e->s->arena;
    IndexDigit all[MOST_DIGITS];
    int32_t *from_first = arena_array(a, int32_t, (size_t)n);
    for (int k = 0; k < n; k++) from_first[k] = table[k] - table[0];
    int found = digits_of(from_first, n, all);
    if (found < 0)
        return node(
            e, (Index){
                   .kind = by_bits(table, n) ? INDEX_BITS : INDEX_ENTRY, .of = of, .table = table, .n = n });
    IndexDigit *digits = arena_array(a, IndexDigit, (size_t)found + 1);
    int weighted = 0;
    for (int k = 0; k < found; k++)
        if (all[k].weight) digits[weighted++] = all[k];
    if (!weighted) return index_number(e, table[0]);
    return node(e, (Index){ .kind = INDEX_DIGITS,
                       .of = of,
                       .table = table,
                       .n = n,
                       .digits = digits,
                       .n_digits = weighted,
                       .add = table[0] });
}

Index *index_entry(Emit *e, const int32_t *table, int n, Index *i)
{
    int scale = 1, add = 0;
    const char *name;
    if (e->measure) return index_number(e, 0); /* nobody reads it */
    if (i->kind == INDEX_NUMBER && i->add >= 0 && i->add < n) return index_number(e, table[i->add]);
    /* For an index scale * v + add, only every scale-th entry is ever used. */
    if (index_is_linear(i, &scale, &name, &add) && scale < n && add < n) i = index_variable(e, name);
    else scale = 1, add = 0;
    int used = (n - add + scale - 1) / scale;
    int32_t *part = arena_array(&e->s->arena, int32_t, (size_t)used);
    for (int k = 0; k < used; k++) part[k] = table[k * scale + add];
    return formula(e, part, used, i);
}

/* --- what is known ----------------------------------------------------------------------------------- */

bool index_is(const Index *x, int number) { return x->kind == INDEX_NUMBER && x->add == number; }

static bool is_variable(const Index *x) { return x->kind == INDEX_VARIABLE && x->scale == 1 && !x->add; }

/* Whether a digit of x is all of what x depends on. */
static bool is_whole(const Index *x, const IndexDigit *d) { return d->below == 1 && d->size == x->n; }

bool index_value(const Index *x, int v, int *out)
{
    int of;
    switch (x->kind) {
    case INDEX_NUMBER: *out = x->add; return true;
    case INDEX_VARIABLE: *out = x->scale * v + x->add; return true;
    case INDEX_SUM:
        if (!index_value(x->of, v, &of)) return false;
        *out = of + x->add;
        return true;
    case INDEX_DIGITS:
    case INDEX_BITS:
    case INDEX_ENTRY:
        if (!index_value(x->of, v, &of) || of < 0 || of >= x->n) return false;
        *out = x->table[of];
        return true;
    case INDEX_OTHER: break;
    }
    return false;
}

const char *index_name(const Index *x)
{
    while (x->of) x = x->of;
    return x->kind == INDEX_VARIABLE ? x->text : NULL;
}

bool index_is_linear(const Index *x, int *scale, const char **name, int *add)
{
    switch (x->kind) {
    case INDEX_VARIABLE:
        *scale = x->scale;
        *name = x->text;
        *add = x->add;
        return true;
    case INDEX_DIGITS:
        *scale = x->digits[0].weight;
        *name = x->of->text;
        *add = x->add;
        return is_variable(x->of) && is_whole(x, &x->digits[0]) && *scale > 0 && *add >= 0;
    case INDEX_SUM:
        if (!index_is_linear(x->of, scale, name, add) || *add) return false;
        *add = x->add;
        return true;
    case INDEX_NUMBER:
    case INDEX_BITS:
    case INDEX_ENTRY:
    case INDEX_OTHER: break;
    }
    return false;
}

bool index_equal(const Index *a, const Index *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->add != b->add) return false;
    switch (a->kind) {
    case INDEX_NUMBER: return true;
    case INDEX_VARIABLE: return a->scale == b->scale && same_name(a->text, b->text);
    case INDEX_DIGITS:
    case INDEX_BITS:
    case INDEX_ENTRY:
        return a->n == b->n && !memcmp(a->table, b->table, (size_t)a->n * sizeof *a->table) &&
               index_equal(a->of, b->of);
    case INDEX_SUM: return index_equal(a->of, b->of);
    case INDEX_OTHER: break;
    }
    return false;
}

/* --- text -------------------------------------------------------------------------------------------- */

static const char *linear_text(Emit *e, const Index *x)
{
    const char *r = x->scale == 1 ? x->text : str(e, "%d * %s", x->scale, x->text);
    return x->add ? str(e, "%s + %d", r, x->add) : r;
}

/* What a formula depends on, as an operand. */
static const char *operand(Emit *e, Index *of)
{ return is_variable(of) ? of->text : str(e, "(%s)", index_text(e, of)); }

static const char *digits_text(Emit *e, const Index *x)
{
    const char *of = operand(e, x->of), *r = NULL;
    for (int k = 0; k < x->n_digits; k++) {
        const IndexDigit *d = &x->digits[k];
        const char *part = of;
        if (d->below > 1) part = str(e, "%s / %d", part, d->below);
        if ((int64_t)d->below * d->size < x->n) part = str(e, "%s %% %d", part, d->size);
        if (d->weight != 1)
            part = is_whole(x, d) ? str(e, "%d * %s", d->weight, part) : str(e, "%s * %d", part, d->weight);
        r = r ? str(e, "%s + %s", r, part) : part;
    }
    return x->add ? str(e, "%s + %d", r, x->add) : r;
}

static const char *bits_text(Emit *e, const Index *x)
{
    const char *of = operand(e, x->of), *r = "0";
    for (int b = 0; 1 << b < x->n; b++)
        if (x->table[1 << b]) r = str(e, "%s ^ ((%s) >> %d & 1) * %d", r, of, b, x->table[1 << b]);
    return str(e, "(%s)", r);
}

/* Selects among all entries. Unrolling leaves one of them. */
static const char *choice_text(Emit *e, const Index *x)
{
    int last = x->table[x->n - 1];
    const char *of = operand(e, x->of), *r = str(e, "%d", last);
    for (int k = x->n - 2; k >= 0; k--)
        if (x->table[k] != last) r = str(e, "%s == %d ? %d : %s", of, k, x->table[k], r);
    return str(e, "(%s)", r);
}

/* Whether x is the value of a variable itself. */
static bool is_bare(const Index *x)
{
    return is_variable(x->of) && x->n_digits == 1 && is_whole(x, &x->digits[0]) && x->digits[0].weight == 1 &&
           !x->add;
}

static const char *write_index(Emit *e, const Index *x)
{
    switch (x->kind) {
    case INDEX_NUMBER: return str(e, "%d", x->add);
    case INDEX_VARIABLE: return linear_text(e, x);
    case INDEX_DIGITS: return is_bare(x) ? x->of->text : str(e, "(%s)", digits_text(e, x));
    case INDEX_BITS: return bits_text(e, x);
    case INDEX_ENTRY: return choice_text(e, x);
    case INDEX_SUM: return str(e, "%s + %d", index_text(e, x->of), x->add);
    case INDEX_OTHER: return x->text;
    }
    return "";
}

const char *index_text(Emit *e, Index *x)
{
    if (!x->written) x->written = write_index(e, x);
    return x->written;
}

const char *index_summand(Emit *e, Index *x)
{ return x->kind == INDEX_DIGITS && is_variable(x->of) ? digits_text(e, x) : index_text(e, x); }

const char *entry_text(Emit *e, const int32_t *table, int n, const char *variable)
{ return index_text(e, index_entry(e, table, n, index_variable(e, variable))); }
