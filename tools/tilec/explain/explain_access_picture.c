/* explain_access_picture.c: one panel for each access of a tensor: the tile's elements, the thread that moves
 * each, and what the requests of the warps move. */
#include "tools/tilec/explain/explain_pictures.h"

enum { LEFT = 64, MOST_ROWS = 32, MOST_COLUMNS = 64, MOST_PANELS = 8, PAGE = 760 };

/* The last two axes of the tile at 0 of the others; a tile of one axis is a row. */
typedef struct Panel {
    const EmittedAccess *access;
    AccessCount count;
    int rows, columns;        /* that are drawn */
    int32_t extent[2];        /* of the tile */
    double cell, cell_height; /* pixels */
} Panel;

static void size_panel(Panel *p)
{
    const Layout *l = p->access->layout;
    p->extent[0] = l->rank > 1 ? l->tile[l->rank - 2] : 1;
    p->extent[1] = l->tile[l->rank - 1];
    p->rows = p->extent[0] < MOST_ROWS ? p->extent[0] : MOST_ROWS;
    p->columns = p->extent[1] < MOST_COLUMNS ? p->extent[1] : MOST_COLUMNS;
    p->cell = (double)(PAGE - LEFT - 24) / p->columns;
    if (p->cell > 40) p->cell = 40;
    p->cell_height = 14;
}

static bool is_drawn(const Explained *x, int k)
{
    const EmittedAccess *a = &x->code.accesses[k];
    if (a->shared || !a->layout) return false;
    for (int i = 0; i < k; i++) { /* another copy of the same access */
        const EmittedAccess *b = &x->code.accesses[i];
        if (!b->shared && b->layout && b->param == a->param && b->write == a->write && b->way == a->way &&
            !strcmp(explain_place(x, a->instr->loc), explain_place(x, b->instr->loc)) &&
            layout_equal(a->layout, b->layout))
            return false;
    }
    return true;
}

static bool owner_of(const Layout *l, int row, int column, LayoutOwner *out)
{
    int32_t c[LAYOUT_MAX_RANK] = { 0 };
    if (l->rank > 1) c[l->rank - 2] = row;
    c[l->rank - 1] = column;
    return layout_owner(l, c, out);
}

static bool same_thread(const LayoutOwner *a, const LayoutOwner *b)
{ return a->in[LAYOUT_LANE] == b->in[LAYOUT_LANE] && a->in[LAYOUT_WARP] == b->in[LAYOUT_WARP]; }

/* One row: neighbours of one thread are one box. The first warp's boxes are filled, those of other warps are
 * pale. */
static void draw_row(const Panel *p, int row, double top, const char *colour, Text *t)
{
    const Layout *l = p->access->layout;
    const char *pale = arena_printf(t->arena, "%s66", colour);
    for (int c = 0, run; c < p->columns; c += run) {
        LayoutOwner own, next;
        run = 1;
        if (!owner_of(l, row, c, &own)) continue;
        while (c + run < p->columns && owner_of(l, row, c + run, &next) && same_thread(&own, &next)) run++;
        uint32_t lane = own.in[LAYOUT_LANE], warp = own.in[LAYOUT_WARP],
                 thread = warp * layout_lanes(l) + lane;
        const char *name = arena_printf(t->arena, "%u", thread);
        double x = LEFT + c * p->cell, w = run * p->cell;
        draw_rect(t, x, top, w, p->cell_height,
            (DrawStyle){ .fill = warp ? pale : colour, .stroke = "white" },
            arena_printf(t->arena, "lane %u of warp %u, register %u", lane, warp, own.in[LAYOUT_REG]));
        if (draw_text_width(name, 9) <= w - 2)
            draw_text(t, x + w / 2, top + 10.5, (DrawFont){ .size = 9, .anchor = DRAW_MIDDLE }, name);
    }
}

static double panel_height(const Panel *p) { return p->rows * p->cell_height + 78; }

static void draw_panel(const Explained *x, const Panel *p, double y, Text *t)
{
    AccessClass class = access_class(&p->count);
    double top = y + 24, requests = p->count.requests > 0 ? p->count.requests : 1;
    draw_text_fit(t, 8, y + 14, PAGE - 16, (DrawFont){ .bold = true },
        arena_printf(t->arena, "%s: %s: %s, %.1f sectors for %.0f bytes a request, %d bytes a lane",
            explain_place(x, p->access->instr->loc), explain_access_name(x, p->access),
            access_class_name[class], p->count.moved / requests, p->count.bytes / requests, p->count.width));
    for (int r = 0; r < p->rows; r++) draw_row(p, r, top + r * p->cell_height, access_class_colour[class], t);
    bool cut = p->rows < p->extent[0] || p->columns < p->extent[1];
    int rank = p->access->layout->rank;
    picture_axes(t, LEFT, top, p->columns * p->cell, p->rows * p->cell_height,
        rank > 1 ? arena_printf(t->arena, "axis %d", rank - 2) : "",
        cut ? arena_printf(t->arena, "axis %d of the tile; %d x %d of %d x %d elements", rank - 1, p->rows,
                  p->columns, p->extent[0], p->extent[1])
            : arena_printf(t->arena, "axis %d of the tile", rank - 1),
        p->rows, p->columns);
}

void draw_accesses(Explained *x, Text *t)
{
    Panel panels[MOST_PANELS];
    int n = 0, left = 0;
    double height = 96;
    for (int k = 0; k < x->code.n_accesses; k++) {
        if (!is_drawn(x, k)) continue;
        if (n == MOST_PANELS) {
            left++;
            continue;
        }
        panels[n] = (Panel){ .access = &x->code.accesses[k] };
        explain_count(x, panels[n].access, &panels[n].count);
        size_panel(&panels[n]);
        height += panel_height(&panels[n++]);
    }
    const char
        *title = arena_printf(t->arena, "%s: threads on the elements of its tiles", x->title),
        *note = n ? arena_printf(t->arena, "numbers are threads of the CTA; the first warp is opaque%s",
                        left ? arena_printf(t->arena, "; %d accesses more are not drawn", left) : "")
                  : "no access of a tensor is made by the threads' own loads and stores: TMA moves the tiles";
    draw_begin(t, picture_width(PAGE, title, note), height);
    picture_title(t, title, note);
    double y = 56;
    for (int k = 0; k < n; k++) {
        draw_panel(x, &panels[k], y, t);
        y += panel_height(&panels[k]);
    }
    DrawKey keys[CLASS_COUNT];
    for (int k = 0; k < CLASS_COUNT; k++)
        keys[k] = (DrawKey){ access_class_name[k], { .fill = access_class_colour[k] } };
    draw_legend(t, LEFT, y + 8, PAGE - LEFT - 16, keys, CLASS_COUNT);
    draw_end(t);
}
