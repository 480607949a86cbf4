/* runner.c: runs a pass of either IR: times, verifies and dumps it, stops behind it, and tells what
 * --skip-pass leaves out. pipeline.c calls it for the tile IR, kernel/lower.c for the kernel IR. */
#define _POSIX_C_SOURCE 199309L
#include "passes/pass.h"
#include "ir/verify/verify.h"

static void free_arena(void *a) { arena_free(a); }

void pass_runner_init(PassRunner *r, Module *m, const PassOptions *o, PassReport *report)
{
    Session *s = m->session;
    PassId stop;
    bool stops = o->stop_after && pass_find(o->stop_after, strlen(o->stop_after), &stop);
    *r = (PassRunner){ .module = m,
        .options = o,
        .report = report,
        .skip = pass_set_of(o->skip),
        .with = pass_set_of(o->with),
        .dump = pass_set_of(o->dump_after),
        .stop = stops ? (int)stop : -1,
        .verify = o->verify_each };
    r->scratch = arena_new(&s->arena, Arena);
    arena_init_within(r->scratch, &s->arena);
    session_defer(s, free_arena, r->scratch);
}

bool pass_runner_skips(const PassRunner *r, PassId id)
{ return pass_in(&r->skip, id) || (!pass_info[id].on && !pass_in(&r->with, id)); }

static void dump(const PassRunner *r, PassId id)
{
    Text text;
    if (!r->options->on_dump || !pass_in(&r->dump, id)) return;
    text_init(&text, r->scratch);
    ir_print_with(r->module, IR_PRINT_LOC, &text);
    r->options->on_dump(r->options->dump_user, pass_info[id].name, text.data);
}

/* --- the verifier ------------------------------------------------------------------------------------ */

/* The verifier numbers instructions by their marks, which passes of the kernel IR hand on to each other. */
typedef struct Marks {
    Arena *arena;
    VEC(uint32_t) saved;
    size_t at;
} Marks;

static void save_mark(void *user, Instr *i)
{
    Marks *m = user;
    vec_push(m->arena, &m->saved, i->mark);
}

static void restore_mark(void *user, Instr *i)
{
    Marks *m = user;
    i->mark = m->saved.data[m->at++];
}

/* The verifier speaks of instructions; add which pass left them so. */
static bool verify(const PassRunner *r, PassId id)
{
    Session *s = r->module->session;
    Marks marks = { .arena = r->scratch };
    for (const Func *f = r->module->funcs; f; f = f->next) ir_walk(f->body, save_mark, &marks);
    bool ok = pass_is_kernel(id) && !r->laid_out ? ir_verify_before_layout(r->module) : ir_verify(r->module);
    for (const Func *f = r->module->funcs; f; f = f->next) ir_walk(f->body, restore_mark, &marks);
    if (!ok)
        diag_error(
            s, (Loc){ 0 }, "internal error: the module does not verify after pass `%s`", pass_info[id].name);
    return ok;
}

/* Calls the pass. *ns: its time without that of its steps, which is added to that of the pass around it. */
static bool timed(PassRunner *r, PassId id, PassCall *call, void *user, int64_t *ns)
{
    int64_t around = r->inner_ns, begin = r->options->time_passes ? clock_ns() : 0;
    r->inner_ns = 0;
    bool progress = call(user, r, id);
    int64_t all = r->options->time_passes ? clock_ns() - begin : 0;
    *ns = all - r->inner_ns;
    r->inner_ns = around + all;
    return progress;
}

/* The pass has run, to its end. */
static void end(PassRunner *r, PassId id, bool progress, int64_t ns)
{
    vec_push(&r->module->session->arena, &r->report->runs, ((PassRecord){ id, progress, ns }));
    pass_add(&r->report->ran, id);
    dump(r, id);
    r->stopped |= (int)id == r->stop;
}

static void end_parts(PassRunner *r, PassId around)
{
    const PassSet none = { 0 };
    if (!memcmp(&r->parts, &none, sizeof none)) return;
    for (int id = TILE_PASS_COUNT; id < PASS_COUNT; id++) {
        if (pass_info[id].within != (int)around || !pass_in(&r->parts, (PassId)id)) continue;
        pass_change(&r->parts, (PassId)id, false);
        if (!r->stopped) end(r, (PassId)id, r->part[id].progress, r->part[id].ns);
        r->part[id] = (struct PassPart){ 0 };
    }
}

bool pass_runner_call(PassRunner *r, PassId id, PassCall *call, void *user)
{
    Session *s = r->module->session;
    if (pass_runner_ended(r)) return false;
    int errors = s->n_errors;
    int64_t ns;
    bool progress = timed(r, id, call, user, &ns);
    if (pass_runner_ended(r)) return progress; /* within one of its steps */
    bool ok = s->n_errors == errors;
    r->failed = (!ok && !r->carry_on) || (ok && progress && r->verify && !verify(r, id));
    end_parts(r, id);
    if ((int)id == r->stop && pass_is_step(id)) end_parts(r, (PassId)pass_info[id].within);
    if (!r->stopped) end(r, id, progress, ns);
    arena_clear(r->scratch);
    return progress;
}

bool pass_runner_part(PassRunner *r, PassId id, PassCall *call, void *user)
{
    int64_t ns;
    if (pass_runner_ended(r)) return false;
    bool progress = timed(r, id, call, user, &ns);
    pass_add(&r->parts, id);
    r->part[id].progress |= progress;
    r->part[id].ns += ns;
    return progress;
}

/* --- reports ----------------------------------------------------------------------------------------- */

void pass_count(PassContext *c, const char *what, int64_t n)
{
    PassReport *r = c->report;
    if (!n) return;
    for (size_t i = 0; i < r->stats.len; i++)
        if (r->stats.data[i].pass == c->pass && !strcmp(r->stats.data[i].what, what)) {
            r->stats.data[i].count += n;
            return;
        }
    vec_push(&c->session->arena, &r->stats, ((PassStat){ c->pass, what, n }));
}

void passes_print_times(const PassReport *r, Text *out)
{
    int64_t total = 0;
    for (int id = 0; id < PASS_COUNT; id++) {
        int64_t ns = 0;
        int runs = 0;
        for (size_t i = 0; i < r->runs.len; i++)
            if ((int)r->runs.data[i].pass == id) {
                ns += r->runs.data[i].ns;
                runs++;
            }
        if (!runs) continue;
        total += ns;
        text_printf(out, "%-22s %2d x %9.3f ms", pass_info[id].name, runs, (double)ns * 1e-6);
        const char *sep = "   ";
        for (size_t i = 0; i < r->stats.len; i++) {
            if ((int)r->stats.data[i].pass != id) continue;
            text_printf(out, "%s%s: %lld", sep, r->stats.data[i].what, (long long)r->stats.data[i].count);
            sep = ", ";
        }
        text_putc(out, '\n');
    }
    text_printf(out, "%-22s      %9.3f ms\n", "all passes", (double)total * 1e-6);
}

void passes_warn_unrun(Session *s, const PassOptions *o, const PassReport *r, const char *kernel)
{
    PassSet dumped = pass_set_of(o->dump_after);
    for (int id = TILE_PASS_COUNT; o->dump_after && strcmp(o->dump_after, "all") && id < PASS_COUNT; id++)
        if (pass_in(&dumped, (PassId)id) && !pass_in(&r->ran, (PassId)id))
            diag_warning(s, (Loc){ 0 }, "--dump-after: the pass `%s` did not run for the kernel `%s`",
                pass_info[id].name, kernel);
    PassId stop;
    if (o->stop_after && pass_find(o->stop_after, strlen(o->stop_after), &stop) && pass_is_kernel(stop) &&
        !pass_in(&r->ran, stop))
        diag_warning(s, (Loc){ 0 }, "--stop-after: the pass `%s` did not run for the kernel `%s`",
            pass_info[stop].name, kernel);
}
