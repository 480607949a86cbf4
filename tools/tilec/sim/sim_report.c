/* sim_report.c: the results of `tilec sim` as a table and as JSON. */
#include "tools/tilec/json.h"
#include "tools/tilec/sim/sim.h"

static const char *bytes_of(Arena *a, double b)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    int u = 0;
    while (b >= 999.5 && u < 4) {
        b /= 1000;
        u++;
    }
    return arena_printf(a, "%.*f %s", u && b < 99.95 ? 2 : 0, b, units[u]);
}

const char *sim_label(Arena *a, const SimCase *c)
{ return strcmp(c->name, c->placed) ? arena_printf(a, "%s = %s", c->name, c->placed) : c->name; }

const SimCase *sim_reference(const SimReport *r)
{
    for (int k = 0; k < r->n; k++)
        if (!strcmp(r->cases[k].name, "none")) return &r->cases[k];
    for (int k = 0; k < r->n; k++)
        if (!r->cases[k].refused) return &r->cases[k];
    return NULL;
}

/* The speed relative to `none`, with everything overlapped and with nothing overlapped. */
static double ratio(double none, double mine) { return mine > 0 ? none / mine : 1; }

/* --- table ------------------------------------------------------------------------------------------- */

static void print_assumptions(const SimReport *r, Text *t)
{
    unsigned g = sim_trace_assumptions(r->trace);
    if (g & SIM_ASSUMED_ADDRESS)
        text_puts(t, "Some addresses depend on data: they are spread evenly over the tensor.\n");
    if (g & SIM_ASSUMED_MASK) text_puts(t, "Some masks depend on data: all their elements count as set.\n");
    if (g & SIM_ASSUMED_CONDITION)
        text_puts(t, "Some conditions depend on data: the way with more accesses is taken.\n");
    if (g & SIM_ASSUMED_TRIP_COUNT)
        text_printf(t, "Some trip counts depend on data: they count as %d.\n", SIM_ASSUMED_TRIPS);
}

enum { MOST_NAME = 64 };

/* A rate with its error, in brackets where a placement drops tiles. */
static const char *rate_text(Arena *a, const SimCase *c, SimLevel l, double error)
{
    const char *text = arena_printf(a, "%.1f%% +- %4.2f%%", 100 * sim_rate(l), 100 * error);
    return c->refused ? arena_printf(a, "[%s]", text) : text;
}

static void print_case(const SimReport *r, const SimCase *c, int width, Text *t)
{
    Arena *a = t->arena;
    const SimResult *x = &c->result;
    const SimCase *than = sim_reference(r);
    const char *l1 = arena_printf(a, c->refused ? "[%.1f%%]" : "%.1f%%", 100 * sim_rate(x->l1));
    text_printf(t, "%-*s %7s %16s ", width, sim_label(a, c), l1, rate_text(a, c, x->l2, x->l2_error));
    text_printf(t, "%16s", r->device->llc_bytes ? rate_text(a, c, x->llc, x->llc_error) : "-");
    if (c->refused) {
        double tiles = (double)sim_trace_programs(r->trace);
        text_printf(t, "   refused: %s; %lld of %.0f tiles run (%.1f%%)\n", c->refused, (long long)c->tiles,
            tiles, 100 * (double)c->tiles / tiles);
        return;
    }
    text_printf(t, " %12s %12s  %10.4f .. %8.4f %4.2f .. %4.2f  %+6.1f pp %+9.4f ms  %s\n",
        bytes_of(a, x->read_bytes), bytes_of(a, x->write_bytes), x->seconds * 1e3, x->apart * 1e3,
        ratio(than->result.seconds, x->seconds), ratio(than->result.apart, x->apart),
        100 * (sim_rate(x->l2) - sim_rate(than->result.l2)), (x->apart - than->result.apart) * 1e3, x->bound);
}

static void print_moved(const SimReport *r, Text *t)
{
    const SimMoved *m = &r->moved;
    if (m->why_not) {
        text_printf(t, "Sectors and banks are not counted: %s.\n", m->why_not);
        return;
    }
    Arena *a = t->arena;
    text_printf(t, "Of tensors, accesses ask for %s and move %s in sectors of %d bytes",
        bytes_of(a, m->asked), bytes_of(a, m->sectors), m->sector);
    if (m->banks > 0)
        text_printf(t, "; of shared memory they ask for %s, and its banks are busy for %s",
            bytes_of(a, m->shared), bytes_of(a, m->banks));
    text_puts(t, ".\n");
}

void sim_print(const SimReport *r, Text *t)
{
    const SimDevice *d = r->device;
    const int64_t *g = sim_trace_grid(r->trace);
    text_printf(t, "%s on %s: %lld chiplet%s of %lld compute units, %lld KiB of L2 each", r->title, d->name,
        (long long)d->chiplets, d->chiplets > 1 ? "s" : "", (long long)d->units,
        (long long)d->l2_bytes / 1024);
    if (d->llc_bytes) text_printf(t, ", %lld MiB of last-level cache", (long long)d->llc_bytes >> 20);
    text_printf(t, "\n%lld programs (%lld x %lld x %lld), %lld a compute unit at a time; tensors of %s",
        (long long)sim_trace_programs(r->trace), (long long)g[0], (long long)g[1], (long long)g[2],
        (long long)r->per_unit, bytes_of(t->arena, (double)sim_trace_bytes(r->trace)));
    if (r->n && r->cases[0].result.sample > 1)
        text_printf(t, "; one block of lines in %lld followed", (long long)r->cases[0].result.sample);
    int width = 26;
    for (int k = 0; k < r->n; k++) {
        int n = (int)strlen(sim_label(t->arena, &r->cases[k]));
        if (n > width) width = n > MOST_NAME ? MOST_NAME : n;
    }
    bool to_none = !sim_reference(r) || !strcmp(sim_reference(r)->name, "none");
    text_printf(t, "\n\n%-*s %7s %16s %16s %12s %12s  %22s %12s  %20s  %s\n", width, "remap", "L1 hit",
        "L2 hit", "last-level hit", "from memory", "to memory", "ms, best to worst",
        to_none ? "x none" : "x first", to_none ? "L2, ms to none" : "L2, ms to first", "at best by");
    for (int k = 0; k < r->n; k++) print_case(r, &r->cases[k], width, t);
    print_moved(r, t);
    print_assumptions(r, t);
}

/* --- JSON -------------------------------------------------------------------------------------------- */

static void json_level(Text *t, const char *name, SimLevel l, double error)
{
    text_printf(t, "\"%s\": {\"lines\": %.0f, \"hit_rate\": %.6f, \"error\": %.6f}, ", name, l.accesses,
        sim_rate(l), error);
}

static void json_refused(const SimReport *r, const SimCase *c, Text *t)
{
    text_puts(t, "\"refused\": {\"why\": ");
    json_string(t, c->refused);
    text_printf(t, ", \"programs\": [%lld", (long long)c->clash.a);
    if (c->verdict == EVAL_COLLISION) text_printf(t, ", %lld", (long long)c->clash.b);
    text_printf(t, "], \"become\": %lld, \"tiles_run\": %lld, \"tiles\": %lld}, ", (long long)c->clash.to,
        (long long)c->tiles, (long long)sim_trace_programs(r->trace));
}

static void json_moved(const SimMoved *m, Text *t)
{
    text_printf(t,
        "\"sector_bytes\": %d, \"asked_bytes\": %.0f, \"moved_bytes\": %.0f, \"shared_bytes\": %.0f, "
        "\"bank_bytes\": %.0f,\n ",
        m->sector, m->asked, m->sectors, m->shared, m->banks);
}

void sim_json(const SimReport *r, Text *t)
{
    const int64_t *g = sim_trace_grid(r->trace);
    unsigned assumptions = sim_trace_assumptions(r->trace);
    text_puts(t, "{\"kernel\": ");
    json_string(t, r->title);
    text_puts(t, ", \"device\": ");
    json_string(t, r->device->name);
    text_printf(t,
        ", \"grid\": [%lld, %lld, %lld], \"per_unit\": %lld, \"line_bytes\": %lld, \"tensor_bytes\": %lld,\n "
        "\"guessed\": {\"addresses\": %s, \"masks\": %s, \"conditions\": %s, \"trip_counts\": %s},\n ",
        (long long)g[0], (long long)g[1], (long long)g[2], (long long)r->per_unit, (long long)r->device->line,
        (long long)sim_trace_bytes(r->trace), assumptions & SIM_ASSUMED_ADDRESS ? "true" : "false",
        assumptions & SIM_ASSUMED_MASK ? "true" : "false",
        assumptions & SIM_ASSUMED_CONDITION ? "true" : "false",
        assumptions & SIM_ASSUMED_TRIP_COUNT ? "true" : "false");
    if (!r->moved.why_not) json_moved(&r->moved, t);
    text_puts(t, "\"remaps\": [");
    for (int k = 0; k < r->n; k++) {
        const SimResult *x = &r->cases[k].result;
        text_puts(t, k ? ",\n  {\"name\": " : "\n  {\"name\": ");
        json_string(t, r->cases[k].name);
        text_puts(t, ", \"placed\": ");
        json_string(t, r->cases[k].placed);
        text_printf(
            t, ", \"programs\": %lld, \"sample\": %lld, ", (long long)x->programs, (long long)x->sample);
        if (r->cases[k].refused) json_refused(r, &r->cases[k], t);
        json_level(t, "l1", x->l1, 0);
        json_level(t, "l2", x->l2, x->l2_error);
        json_level(t, "last_level", x->llc, x->llc_error);
        text_printf(t,
            "\"read_bytes\": %.0f, \"written_bytes\": %.0f, \"flops\": %.0f, \"seconds_overlapped\": %.9g, "
            "\"seconds_apart\": %.9g, \"bound\": \"%s\"}",
            x->read_bytes, x->write_bytes, x->flops_8 + x->flops_16 + x->flops_32, x->seconds, x->apart,
            x->bound);
    }
    text_puts(t, "\n ]}\n");
}
