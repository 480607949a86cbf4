/* explain_memory_picture.c: registers and shared memory against their limits, and for each access of shared
 * memory the words that its worst request asks of each bank. */
#include "tools/tilec/explain/explain_pictures.h"
#include "passes/kernel/amd/lds.h"

enum { LEFT = 130, WIDTH = 560, BAR = 24, MOST_BANKS = 64, MOST_PANELS = 8, PANEL = 108 };

static void draw_bar(double y, const char *name, double used, double limit, const char *unit, Text *t)
{
    double w = limit > 0 ? WIDTH * (used < limit ? used / limit : 1) : 0;
    draw_text_fit(t, 8, y + 16, LEFT - 12, (DrawFont){ 0 }, name);
    draw_rect(t, LEFT, y, w, BAR, (DrawStyle){ .fill = used > limit ? "#d55e00" : "#56b4e9" }, NULL);
    draw_rect(t, LEFT, y, WIDTH, BAR, (DrawStyle){ .stroke = "#444444" }, NULL);
    draw_text_fit(t, LEFT + 6, y + 16, WIDTH - 12, (DrawFont){ .size = 11 },
        arena_printf(t->arena, "%.0f of %.0f %s", used, limit, unit));
}

/* The buffers of shared memory where they lie. */
static void draw_buffers(const Explained *x, double y, Text *t)
{
    double limit = (double)x->o->target->shared_bytes;
    draw_text(t, 8, y + 16, (DrawFont){ 0 }, "buffers");
    draw_rect(t, LEFT, y, WIDTH, BAR, (DrawStyle){ .fill = "#f4f4f4", .stroke = "#444444" }, NULL);
    for (int k = 0; k < x->code.n_shared_map; k++) {
        const SharedUse *u = &x->code.shared_map[k];
        double from = LEFT + WIDTH * (double)u->offset / limit, w = WIDTH * (double)u->bytes / limit;
        draw_rect(t, from, y, w, BAR, (DrawStyle){ .fill = draw_colour(t->arena, k), .stroke = "white" },
            arena_printf(
                t->arena, "%s: %lld bytes from %lld on", u->name, (long long)u->bytes, (long long)u->offset));
        draw_text_fit(t, from + 3, y + 16, w - 6, (DrawFont){ .size = 10, .fill = "white" }, u->name);
    }
}

/* The axis of the bars above. */
static void draw_scale(double y, Text *t)
{
    for (int k = 0; k <= 100; k += 25) {
        double x = LEFT + WIDTH * k / 100.0;
        draw_line(t, x, y, x, y + 4, (DrawStyle){ .stroke = "#444444" });
        draw_text(
            t, x, y + 15, (DrawFont){ .size = 10, .anchor = DRAW_MIDDLE }, arena_printf(t->arena, "%d%%", k));
    }
    draw_text(t, LEFT - 12, y + 15, (DrawFont){ .size = 10, .anchor = DRAW_END }, "of the limit");
}

/* The lanes that the banks serve together. */
static LdsCycle cycle_of(const Target *t, const EmittedAccess *a, int width)
{
    if (t->kind == TARGET_HIP) return lds_cycle(t->lds, !a->write, width);
    return (LdsCycle){ 32, width <= 4 ? 32 : 128 / width, NULL };
}

/* The most words that the lanes of one cycle ask of each bank; returns the most of all. */
static int bank_words(LdsCycle cycle, int width, const int64_t *addr, int lanes, int words[MOST_BANKS])
{
    int most = 0;
    memset(words, 0, MOST_BANKS * sizeof *words);
    for (int first = 0; first < lanes; first += cycle.group) {
        int64_t seen[MOST_BANKS][64];
        int n[MOST_BANKS] = { 0 };
        for (int k = first; k < first + cycle.group && k < lanes; k++) {
            int64_t at = addr[lds_lane(cycle, k)];
            for (int64_t w = at / 4; at >= 0 && w <= (at + width - 1) / 4; w++) {
                int bank = (int)(w % cycle.banks), j = 0;
                while (j < n[bank] && seen[bank][j] != w) j++;
                if (j == n[bank] && n[bank] < 64) seen[bank][n[bank]++] = w;
            }
        }
        for (int b = 0; b < cycle.banks; b++)
            if (n[b] > words[b]) words[b] = n[b];
    }
    for (int b = 0; b < cycle.banks; b++) most = words[b] > most ? words[b] : most;
    return most;
}

/* The worst request of the access. */
static int worst_request(LdsCycle cycle, const EmittedAccess *a, int width, int words[MOST_BANKS])
{
    int64_t addr[LAYOUT_MAX_LANES];
    int best = 0, now[MOST_BANKS];
    memset(words, 0, MOST_BANKS * sizeof *words);
    for (uint32_t warp = 0; warp < layout_warps(a->layout); warp++)
        for (uint32_t r = 0; r < layout_regs(a->layout); r++) {
            if (!access_begins(a, r)) continue;
            int lanes = access_lanes(a, NULL, r, warp, addr), n = bank_words(cycle, width, addr, lanes, now);
            if (n <= best) continue;
            best = n;
            memcpy(words, now, sizeof now);
        }
    return best;
}

static void draw_banks(const Explained *x, const EmittedAccess *a, const AccessCount *c, double y, Text *t)
{
    LdsCycle cycle = cycle_of(x->o->target, a, c->width);
    int words[MOST_BANKS], most = worst_request(cycle, a, c->width, words), banks = cycle.banks;
    double cell = (double)WIDTH / banks, top = y + 24, height = 40;
    draw_text_fit(t, 8, y + 14, LEFT + WIDTH - 8, (DrawFont){ .bold = true },
        arena_printf(t->arena, "%s: %s, %s of %d bytes a lane: %s", explain_place(x, a->instr->loc),
            explain_access_name(x, a), a->write ? "write" : "read", c->width,
            c->moved > c->fewest
                ? arena_printf(t->arena, "%.1f times the fewest wavefronts", c->moved / c->fewest)
                : "no bank conflicts"));
    for (int b = 0; b < banks; b++) {
        double h = most ? height * words[b] / most : 0;
        draw_rect(t, LEFT + b * cell, top, cell, height,
            (DrawStyle){ .fill = "#f4f4f4", .stroke = "#cccccc" },
            arena_printf(t->arena, "bank %d: %d words at once", b, words[b]));
        draw_rect(t, LEFT + b * cell + 1, top + height - h, cell - 2, h,
            (DrawStyle){ .fill = words[b] > 1 ? "#d55e00" : "#009e73" }, NULL);
    }
    draw_text(t, LEFT - 5, top + 10, (DrawFont){ .size = 11, .anchor = DRAW_END },
        arena_printf(t->arena, "%d word%s", most, most == 1 ? "" : "s"));
    draw_text(t, LEFT - 5, top + height, (DrawFont){ .size = 11, .anchor = DRAW_END }, "0");
    for (int b = 0; b < banks; b += 8)
        draw_text(t, LEFT + (b + 0.5) * cell, top + height + 14,
            (DrawFont){ .size = 11, .anchor = DRAW_MIDDLE }, arena_printf(t->arena, "%d", b));
    draw_text(t, LEFT + WIDTH / 2, top + height + 28, (DrawFont){ .size = 11, .anchor = DRAW_MIDDLE },
        "bank of 4 bytes");
}

void draw_resources(Explained *x, Text *t)
{
    const Target *target = x->o->target;
    const EmittedAccess *shown[MOST_PANELS];
    AccessCount counts[MOST_PANELS];
    int n = 0, left = 0;
    for (int k = 0; k < x->code.n_accesses; k++) {
        const EmittedAccess *a = &x->code.accesses[k];
        if (!a->shared || !a->layout) continue; /* wgmma and TMA move tiles without the lanes */
        if (n == MOST_PANELS) left++;
        else {
            explain_count(x, a, &counts[n]);
            shown[n++] = a;
        }
    }
    const char *title = arena_printf(t->arena, "%s: registers, shared memory and its banks", x->title),
               *note = arena_printf(t->arena, "as planned; banks show the worst request of each access%s",
                   left ? arena_printf(t->arena, "; %d accesses more are not drawn", left) : "");
    double y = 56, bars = 3 * (BAR + 10) + 20;
    draw_begin(t, picture_width(LEFT + WIDTH + 24, title, note), y + bars + n * PANEL + 40);
    picture_title(t, title, note);
    draw_bar(y, "largest tile", x->code.largest.words, explain_registers(x), "registers of a thread", t);
    draw_bar(y + BAR + 10, "shared memory", (double)x->code.shared_bytes, (double)target->shared_bytes,
        "bytes of a CTA", t);
    draw_buffers(x, y + 2 * (BAR + 10), t);
    draw_scale(y + 2 * (BAR + 10) + BAR, t);
    for (int k = 0; k < n; k++) draw_banks(x, shown[k], &counts[k], y + bars + k * PANEL, t);
    DrawKey keys[] = { { "one word of the bank", { .fill = "#009e73" } },
        { "several words, one after the other", { .fill = "#d55e00" } }, { "used", { .fill = "#56b4e9" } },
        { "free", { .fill = "#f4f4f4", .stroke = "#444444" } } };
    draw_legend(t, LEFT, y + bars + n * PANEL + 4, WIDTH, keys, 4);
    draw_end(t);
}
