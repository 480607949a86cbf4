/* arrange_memory.c: see arrange.h. Tensors, windows of them, gathers. */
#include "arrange.h"
#include <stdio.h>
#include <string.h>

static const char *dim_of(Arranger *a, Along along)
{
    static const char *const usual[] = { "M", "N", "K" };
    return chance(a, a->tidy ? 95 : 70) ? usual[along]
                                        : CHOOSE(a, "M", "N", "K", "L", "16", "29", "64", "96", "128", "1");
}

static TensorOf *add(Arranger *a, const char *prefix, Elem type, int rank, bool out)
{
    if (a->n_tensors == MOST_TENSORS - (out ? 0 : 6)) return NULL;
    TensorOf *t = &a->tensors[a->n_tensors++];
    *t = (TensorOf){ .rank = rank, .type = type, .out = out };
    arrange_write(t->name, sizeof t->name, "%s%d", prefix, a->n_tensors - 1);
    return t;
}

const char *tensor_in(Arranger *a, Elem type, int rank, const Along *along, const char *fill)
{
    bool again = chance(a, 35);
    char filled[16];
    arrange_write(filled, sizeof filled, "%s",
        fill                           ? fill
        : a->extremes && chance(a, 40) ? "extremes:2"
                                       : "int:2");
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; again && i < a->n_tensors; i++) {
            const TensorOf *t = &a->tensors[i];
            if (!t->out && t->type == type && t->rank == rank &&
                !strncmp(t->fill, "index", 5) == !(fill && !strncmp(fill, "index", 5)) &&
                (!fill || !strcmp(fill, t->fill)) && (pass || chance(a, 50)))
                return t->name;
        }
        again = true;
        TensorOf *t = pass ? NULL : add(a, fill ? "C" : rank == 1 ? "V" : "A", type, rank, false);
        if (!t) continue;
        memcpy(t->fill, filled, sizeof filled);
        for (int d = 0; d < rank; d++)
            arrange_write(t->dims[d], sizeof t->dims[d], "%s", dim_of(a, along[d]));
        return t->name;
    }
    return NULL;
}

const char *tensor_out(Arranger *a, Elem type, int rank, const char *const *dims)
{
    TensorOf *t = add(a, "Y", type, rank, true);
    if (!t) return NULL;
    for (int d = 0; d < rank; d++) arrange_write(t->dims[d], sizeof t->dims[d], "%s", dims[d]);
    return t->name;
}

void base_of(Arranger *a, Along along, int extent, char *out, size_t size)
{
    const char *inner = a->n_loops ? a->loops[a->n_loops - 1] : NULL,
               *outer = a->n_loops ? a->loops[below(a, a->n_loops)] : NULL;
    if (chance(a, a->tidy ? 97 : 75)) { /* as it is usual */
        if (along == ROWS) arrange_write(out, size, "i*%d", extent);
        else if (along == COLS) arrange_write(out, size, a->axes > 1 ? "j*%d" : "0", extent);
        else if (inner) arrange_write(out, size, "%s*%d", inner, extent);
        else arrange_write(out, size, "0");
        return;
    }
    switch (below(a, 6)) {
    case 0: arrange_write(out, size, "%d", below(a, 9) - 3); break;
    case 1:
        if (outer) {
            arrange_write(out, size, "%s*%d", outer, extent);
            break;
        }
        arrange_write(out, size, "i");
        break;
    case 2:
        if (outer) {
            arrange_write(out, size, "%s", outer);
            break;
        }
        arrange_write(out, size, "0");
        break;
    case 3: arrange_write(out, size, "i*%d + %d", extent, below(a, 19) - 9); break;
    case 4:
        if (inner) {
            arrange_write(out, size, "%s*%d + %d", inner, extent, below(a, 9) - 4);
            break;
        }
        arrange_write(out, size, "i*%d - 2", extent);
        break;
    default: arrange_write(out, size, "%s*%d", a->axes > 1 && chance(a, 50) ? "j" : "i", extent); break;
    }
}

static void subscript(Arranger *a, Along along, int extent, char *out, size_t size)
{
    char base[40];
    base_of(a, along, extent, base, sizeof base);
    if (chance(a, a->tidy ? 1 : 6)) arrange_write(out, size, "%s +: %d : %d", base, extent, 2 + below(a, 2));
    else arrange_write(out, size, "%s +: %d", base, extent);
}

const char *cache_mode(Arranger *a)
{ return chance(a, 20) ? CHOOSE(a, ", cache = keep", ", cache = stream", ", cache = bypass") : ""; }

static void options(Arranger *a, Elem type, char *out, size_t size)
{
    arrange_write(out, size, "%s%s%s",
        chance(a, 50) ? CHOOSE(a, ", latency = 2", ", latency = 3", ", latency = 4", ", latency = 1") : "",
        cache_mode(a), chance(a, a->tidy ? 1 : 5) ? elem_whole(type) ? ", pad = 1" : ", pad = 1.0" : "");
}

/* turned: the window is [cols, rows], the tile [rows, cols] by transpose or order. */
void load_tile(
    Arranger *a, Elem type, int rows, int cols, Along r, Along c, bool turned, char *out, size_t size)
{
    if (a->swift && type != F16 && type != BF16 && chance(a, 95)) turned = r == DEEP; /* contiguous in K */
    const Along along[2] = { turned ? c : r, turned ? r : c };
    const char *name = tensor_in(a, type, 2, along, NULL);
    char at[2][64], with[80];
    if (!name) {
        arrange_write(
            out, size, "full([%d, %d], %s, %s)", rows, cols, elem_whole(type) ? "1" : "1.0", elem_name(type));
        return;
    }
    subscript(a, along[0], turned ? cols : rows, at[0], sizeof at[0]);
    subscript(a, along[1], turned ? rows : cols, at[1], sizeof at[1]);
    options(a, type, with, sizeof with);
    if (!turned) arrange_write(out, size, "load(%s[%s, %s]%s)", name, at[0], at[1], with);
    else if (chance(a, 70))
        arrange_write(out, size, "transpose(load(%s[%s, %s]%s))", name, at[0], at[1], with);
    else arrange_write(out, size, "load(%s[%s, %s], order = (1, 0)%s)", name, at[0], at[1], with);
}

void load_vector(Arranger *a, Elem type, int extent, Along along, char *out, size_t size)
{
    const char *name = tensor_in(a, type, 1, &along, NULL);
    char at[64];
    if (!name) {
        arrange_write(
            out, size, "full([%d], %s, %s)", extent, elem_whole(type) ? "2" : "2.0", elem_name(type));
        return;
    }
    subscript(a, along, extent, at, sizeof at);
    arrange_write(out, size, "load(%s[%s])", name, at);
}

/* A scalar from 0 to 3 that memory holds. */
void load_count(Arranger *a, char *out, size_t size)
{
    const Along along = ROWS;
    const char *name = tensor_in(a, I32, 1, &along, "index:4");
    if (name) arrange_write(out, size, "load(%s[%s])", name, chance(a, 80) ? "i" : "i / 2");
    else arrange_write(out, size, "2");
}

void gather_rows(Arranger *a, Elem type, int rows, int cols, Along c, char *out, size_t size)
{
    const Along along[2] = { ROWS, c };
    const char *ids = tensor_in(a, I32, 1, along, "index:70"),
               *table = ids ? tensor_in(a, type, 2, along, NULL) : NULL;
    char base[40], at[40], id[12], mask[64] = "";
    const char *cache = cache_mode(a);
    if (!table) {
        load_tile(a, type, rows, cols, ROWS, c, false, out, size);
        return;
    }
    base_of(a, ROWS, rows, base, sizeof base);
    base_of(a, c, cols, at, sizeof at);
    fresh_name(a, "g", id, sizeof id);
    arrange_line(
        a, "let %s = load(%s[%s +: %d], pad = %s);", id, ids, base, rows, CHOOSE(a, "-1", "1000", "0"));
    if (chance(a, 40)) arrange_write(mask, sizeof mask, ", mask = (%s %% 3 != 1)[:, None]", id);
    arrange_write(out, size, "gather(%s[%s[:, None], (%s + arange(%d))[None, :]]%s%s)", table, id, at, cols,
        mask, cache);
}
