/* arrange_ends.c: see arrange.h. What follows products, and stores. */
#include "arrange.h"
#include <stdio.h>
#include <string.h>

/* Rows of scores become an operand; what is rounded on the way is loose. */
static void softmax(Arranger *a, Tile t)
{
    Elem to = elem_whole(a->type) || a->type == F64 ? F16 : a->type;
    char p[12];
    int n = a->names++;
    arrange_line(a, "let s%d = %s * 0.125;", n, t.name);
    arrange_line(a, "let e%d = exp(s%d - max(s%d, axis = 1));", n, n, n);
    fresh_name(a, "p", p, sizeof p);
    if (chance(a, 50)) arrange_line(a, "let %s = %s(e%d);", p, elem_name(to), n);
    else arrange_line(a, "let %s = %s(e%d / sum(e%d, axis = 1) * 4.0);", p, elem_name(to), n, n);
    tile_add(a, p, t.rows, t.cols, to, true, true);
    if (!a->loose_bits || elem_bits(to) < a->loose_bits) a->loose_bits = elem_bits(to);
}

static void changed(Arranger *a, Tile t)
{
    bool whole = elem_whole(t.type);
    char name[12], v[EXPR];
    fresh_name(a, "q", name, sizeof name);
    switch (below(a, 8)) {
    case 0: arrange_line(a, "let %s = max(%s, %s);", name, t.name, whole ? "0" : "0.0"); break;
    case 1:
        load_vector(a, t.type, t.cols, COLS, v, sizeof v);
        arrange_line(a, "let %s = %s + %s[None, :];", name, t.name, v);
        break;
    case 2:
        load_vector(a, t.type, t.rows, ROWS, v, sizeof v);
        arrange_line(
            a, "let %s = %s * clamp(%s, %s)[:, None];", name, t.name, v, whole ? "-1, 1" : "-1.0, 1.0");
        break;
    case 3: arrange_line(a, "let %s = %s - max(%s, axis = %d);", name, t.name, t.name, below(a, 2)); break;
    case 5: arrange_line(a, "let %s = cumsum(%s, axis = %d);", name, t.name, below(a, 2)); break;
    case 6:
        if (t.cols % 2) {
            arrange_line(a, "let %s = -%s;", name, t.name);
            break;
        }
        arrange_line(a, "let (%s, %sb) = split(%s, 2, axis = 1);", name, name, t.name);
        tile_add(a, name, t.rows, t.cols / 2, t.type, t.small, t.loose);
        return;
    case 4:
        arrange_line(a, "let %s = transpose(%s);", name, t.name);
        tile_add(a, name, t.cols, t.rows, t.type, t.small, t.loose);
        return;
    default:
        arrange_line(a, "let %s = where((arange(%d)[:, None] + arange(%d)[None, :] * 3) %% 5 != 1, %s, %s);",
            name, t.rows, t.cols, t.name, whole ? "1" : "1.0");
        break;
    }
    tile_add(a, name, t.rows, t.cols, t.type, t.small, t.loose);
}

void finish(Arranger *a, Tile t)
{
    if (t.type == F32 && !t.loose && t.cols >= 8 && !a->extremes && chance(a, 12)) softmax(a, t);
    else if (chance(a, 25)) changed(a, t);
}

/* --- stores: each program has a part of its own --- */

static const char *number(int n, char out[8]) { return arrange_write(out, 8, "%d", n), out; }

static Elem stored_type(Arranger *a, const Tile *t)
{
    if (t->loose || chance(a, 40)) return t->type;
    if (elem_whole(t->type)) return chance(a, 50) ? I32 : I8;
    return t->type == F64 ? F64 : (Elem)ONE_OF(a, F32, F16, BF16, E4M3, E5M2, F32);
}

static void stored_value(Arranger *a, const Tile *t, Elem to, char *out, size_t size)
{
    bool scaled = to != t->type && to < F32;
    if (to == t->type) arrange_write(out, size, "%s", t->name);
    else if (scaled)
        arrange_write(
            out, size, "%s(%s * %s)", elem_name(to), t->name, CHOOSE(a, "0.0625", "0.03125", "1.0"));
    else arrange_write(out, size, "%s(%s)", elem_name(to), t->name);
}

static void store_rows(Arranger *a, const Tile *t, const char *value, Elem to)
{
    char rows[8], cols[8], v[EXPR];
    number(t->rows, rows), number(t->cols, cols);
    bool over = chance(a, 20);
    int r = over ? t->cols : t->rows, c = over ? t->rows : t->cols;
    const char *cache = cache_mode(a);
    arrange_write(v, sizeof v, over ? "transpose(%s)" : "%s", value);
    if (chance(a, 7)) {
        const char *y = tensor_out(a, to, 2, (const char *[]){ "M", a->axes > 1 ? "N" : over ? rows : cols });
        if (y)
            arrange_line(a,
                "scatter(%s[(i*%d + %d - arange(%d))[:, None], (%s*%d + arange(%d))[None, :]], %s%s);", y, r,
                r - 1, r, a->axes > 1 ? "j" : "0", c, c, v, cache);
    } else if (a->axes > 1) {
        const char *y = tensor_out(a, to, 2, (const char *[]){ "M", chance(a, 70) ? "N" : "L" });
        if (y) arrange_line(a, "store(%s[i*%d +: %d, j*%d +: %d], %s%s);", y, r, r, c, c, v, cache);
    } else if (chance(a, 60)) {
        const char *y = tensor_out(a, to, 2,
            (const char *[]){ "M", chance(a, 60) ? "N"
                                   : over        ? rows
                                                 : cols });
        if (y) arrange_line(a, "store(%s[i*%d +: %d, 0 +: %d], %s%s);", y, r, r, c, v, cache);
    } else {
        const char *y = tensor_out(
            a, to, 3, (const char *[]){ chance(a, 50) ? "2" : "5", over ? cols : rows, over ? rows : cols });
        if (y) arrange_line(a, "store(%s[i, 0 +: %d, 0 +: %d], %s%s);", y, r, c, v, cache);
    }
}

void store_tile(Arranger *a, const Tile *t)
{
    char v[EXPR];
    Elem to = stored_type(a, t);
    stored_value(a, t, to, v, sizeof v);
    store_rows(a, t, v, to);
}

static void store_reduced(Arranger *a, const Tile *t)
{
    const char *how = CHOOSE(a, "max", "min", "sum");
    if (t->loose) how = "max";
    const char *y = tensor_out(a, t->type, 2, (const char *[]){ "4", "M" });
    if (y)
        arrange_line(a, "store(%s[%s, i*%d +: %d], %s(%s, axis = 1, drop = true));", y,
            a->axes > 1 ? "j" : "0", t->rows, t->rows, how, t->name);
}

void outputs(Arranger *a)
{
    int stored = 0;
    for (int i = a->n_tiles - 1; i >= 0 && stored < 5; i--) {
        const Tile t = a->tiles[i];
        if ((t.small && stored) || (stored && !chance(a, 80))) continue;
        if (!t.small && chance(a, 15) && stored) store_reduced(a, &t);
        else store_tile(a, &t);
        stored++;
    }
}
