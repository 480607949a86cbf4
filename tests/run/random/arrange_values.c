/* arrange_values.c: see arrange.h. Operands of products and what products are added to. */
#include "arrange.h"
#include <stdio.h>
#include <string.h>

/* --- from a product's type to an operand's --- */

bool convertible(const Tile *t, Elem to) { return !t->loose || !elem_whole(to); }

void arrange_convert(Arranger *a, const Tile *t, Elem to, char *out, size_t size)
{
    const char *T = elem_name(to);
    if (t->type == to && t->small) arrange_write(out, size, "%s", t->name);
    else if (t->small && to == U8) arrange_write(out, size, t->type == U8 ? "%s" : "u8(abs(%s))", t->name);
    else if (t->small) arrange_write(out, size, "%s(%s)", T, t->name);
    else if (t->loose) arrange_write(out, size, "%s(clamp(%s * 0.125, -8.0, 8.0))", T, t->name);
    else if (elem_whole(t->type) && to == U8) arrange_write(out, size, "u8(%s & 7)", t->name);
    else if (elem_whole(t->type))
        arrange_write(out, size, "%s(clamp(%s >> %d, -4, 4))", T, t->name, 1 + below(a, 5));
    else if (to == U8) arrange_write(out, size, "u8(clamp(round(%s * 0.0625), 0.0, 9.0))", t->name);
    else switch (below(a, 3)) {
        case 0: arrange_write(out, size, "%s(clamp(round(%s * 0.125), -4.0, 4.0))", T, t->name); break;
        case 1: arrange_write(out, size, "%s(min(round(max(%s * 0.0625, 0.0)), 4.0))", T, t->name); break;
        default: arrange_write(out, size, "%s(min(round(abs(%s * 0.03125)), 4.0))", T, t->name); break;
        }
}

/* --- operands --- */

typedef struct Wanted {
    Elem type;
    int rows, cols;
} Wanted;

static bool same(const Tile *t, const void *w)
{
    const Wanted *x = w;
    return t->rows == x->rows && t->cols == x->cols && convertible(t, x->type);
}

static bool turned(const Tile *t, const void *w)
{
    const Wanted *x = w;
    return t->rows == x->cols && t->cols == x->rows && convertible(t, x->type);
}

/* The tile itself, converted, turned over. */
static bool known_operand(Arranger *a, Wanted w, Tile *out)
{
    char e[EXPR];
    bool over = chance(a, 35);
    const Tile *t = tile_pick(a, over ? turned : same, &w);
    if (!t) return false;
    bool loose = t->loose;
    if (!over && t->small && t->type == w.type) return *out = *t, true;
    arrange_convert(a, t, w.type, e, sizeof e);
    fresh_name(a, "p", out->name, sizeof out->name);
    arrange_line(a, over ? "let %s = transpose(%s);" : "let %s = %s;", out->name, e);
    *out = *tile_add(a, out->name, w.rows, w.cols, w.type, true, loose);
    if (loose && (!a->loose_bits || elem_bits(w.type) < a->loose_bits)) a->loose_bits = elem_bits(w.type);
    return true;
}

/* Rows or columns repeated, chosen, counted, put together. */
static void computed_operand(Arranger *a, Wanted w, Along r, Along c, char *out, size_t size)
{
    const char *T = elem_name(w.type), *one = elem_whole(w.type) ? "1" : "1.0";
    char x[EXPR], y[EXPR];
    switch (below(a, 9)) {
    case 0:
        load_vector(a, w.type, w.cols, c, x, sizeof x);
        arrange_write(out, size, "broadcast(%s[None, :], [%d, %d])", x, w.rows, w.cols);
        break;
    case 1:
        load_vector(a, w.type, w.rows, r, x, sizeof x);
        arrange_write(out, size, "broadcast(%s[:, None], [%d, %d])", x, w.rows, w.cols);
        break;
    case 2:
        load_tile(a, w.type, w.rows, w.cols, r, c, false, x, sizeof x);
        load_vector(a, w.type, w.rows, r, y, sizeof y);
        arrange_write(out, size, "%s * %s[:, None]", x, y);
        break;
    case 3:
        load_tile(a, w.type, w.rows, w.cols, r, c, false, x, sizeof x);
        arrange_write(out, size, "where((arange(%d)[:, None] + arange(%d)[None, :]) %% 3 != 0, %s, %s)",
            w.rows, w.cols, x, elem_whole(w.type) ? "0" : "0.0");
        break;
    case 4:
        arrange_write(
            out, size, "%s((arange(%d)[:, None] * 3 + arange(%d)[None, :]) %% 5)", T, w.rows, w.cols);
        break;
    case 5:
        load_tile(a, w.type, w.rows, w.cols, r, c, chance(a, 30), x, sizeof x);
        arrange_write(out, size, "max(%s, %s)", x, elem_whole(w.type) ? "0" : "0.0");
        break;
    case 6:
        load_tile(a, w.type == U8 ? U8 : I8, w.rows, w.cols, r, c, chance(a, 20), x, sizeof x);
        arrange_write(out, size, "%s(%s)", T, x);
        break;
    case 7:
        if (w.cols < 2) {
            load_tile(a, w.type, w.rows, 1, r, c, false, out, size);
            break;
        }
        load_tile(a, w.type, w.rows, w.cols / 2, r, c, false, x, sizeof x);
        load_tile(a, w.type, w.rows, w.cols - w.cols / 2, r, c, false, y, sizeof y);
        arrange_write(out, size, "concat(%s, %s, axis = 1)", x, y);
        break;
    default: arrange_write(out, size, "full([%d, %d], %s, %s)", w.rows, w.cols, one, T); break;
    }
}

void operand(Arranger *a, Elem type, int rows, int cols, Along r, Along c, Tile *out)
{
    const Wanted w = { type, rows, cols };
    char e[2 * EXPR];
    int how = below(a, 100);
    if (how < (a->tidy ? 20 : 35) && known_operand(a, w, out)) return;
    if (how < (a->tidy ? 92 : 75)) load_tile(a, type, rows, cols, r, c, chance(a, 30), e, sizeof e);
    else if (how < (a->tidy ? 95 : 83)) gather_rows(a, type, rows, cols, c, e, sizeof e);
    else computed_operand(a, w, r, c, e, sizeof e);
    fresh_name(a, "a", out->name, sizeof out->name);
    arrange_line(a, "let %s = %s;", out->name, e);
    *out = *tile_add(a, out->name, rows, cols, type, true, false);
}

/* --- what a product is added to --- */

static bool sum_of(const Tile *t, const void *w)
{
    const Wanted *x = w;
    return t->rows == x->rows && t->cols == x->cols && t->type == x->type && !t->small;
}

/* A tile of rows x cols: no repetition is needed. */
static void whole(Arranger *a, Elem sum, int rows, int cols, char *out, size_t size)
{
    const Wanted w = { sum, rows, cols };
    const char *S = elem_name(sum);
    const Tile *t = tile_pick(a, sum_of, &w);
    char x[EXPR];
    switch (below(a, 9)) {
    case 0:
    case 1: arrange_write(out, size, "zeros([%d, %d], %s)", rows, cols, S); break;
    case 2:
        arrange_write(out, size, "full([%d, %d], %s, %s)", rows, cols, elem_whole(sum) ? "-3" : "-3.0", S);
        break;
    case 3: load_tile(a, sum, rows, cols, ROWS, COLS, chance(a, 20), out, size); break;
    case 4:
        load_tile(a, a->type, rows, cols, ROWS, COLS, false, x, sizeof x);
        if (elem_whole(a->type) == elem_whole(sum)) arrange_write(out, size, "%s(%s)", S, x);
        else arrange_write(out, size, "zeros([%d, %d], %s)", rows, cols, S);
        break;
    case 5:
        load_tile(a, sum, rows, cols, ROWS, COLS, false, x, sizeof x);
        arrange_write(out, size, "where((arange(%d)[:, None] + arange(%d)[None, :]) %% 4 < 2, %s, %s)", rows,
            cols, x, elem_whole(sum) ? "5" : "5.0");
        break;
    case 6:
        arrange_write(out, size, "%s((arange(%d)[:, None] - arange(%d)[None, :]) %% 7)", S, rows, cols);
        break;
    default:
        if (!t) arrange_write(out, size, "zeros([%d, %d], %s)", rows, cols, S);
        else if (chance(a, 60)) arrange_write(out, size, "%s", t->name);
        else arrange_write(out, size, "max(%s, %s)", t->name, elem_whole(sum) ? "-9" : "-9.0");
        break;
    }
}

/* One row, one column, one element. */
static void part(Arranger *a, Elem sum, int rows, int cols, char *out, size_t size)
{
    char x[EXPR];
    switch (below(a, 6)) {
    case 0:
    case 1:
        load_vector(a, sum, cols, COLS, x, sizeof x);
        arrange_write(out, size, "%s[None, :]", x);
        break;
    case 2:
    case 3:
        load_vector(a, sum, rows, ROWS, x, sizeof x);
        arrange_write(out, size, "%s[:, None]", x);
        break;
    case 4:
        load_tile(a, sum, rows, cols, ROWS, COLS, false, x, sizeof x);
        arrange_write(out, size, "%s(%s, axis = %d)", CHOOSE(a, "max", "min", "sum"), x, below(a, 2));
        break;
    default:
        arrange_write(out, size, "full([1, 1], %s, %s)", elem_whole(sum) ? "2" : "2.0", elem_name(sum));
        break;
    }
}

void accumulator(Arranger *a, Elem sum, int rows, int cols, bool whole_shape, char *out, size_t size)
{
    char x[EXPR];
    if (chance(a, 60)) {
        whole(a, sum, rows, cols, out, size);
        return;
    }
    part(a, sum, rows, cols, x, sizeof x);
    if (whole_shape) arrange_write(out, size, "broadcast(%s, [%d, %d])", x, rows, cols);
    else arrange_write(out, size, "%s", x);
}
