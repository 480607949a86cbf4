/* names.c: the table of passes, and the names of passes that options give: which passes they are, and what is
 * wrong with them. */
#include "passes/pass.h"
#include "ir/former_names.h"

const PassInfo pass_info[PASS_COUNT] = {
#define PASS(ID, name, function, level, on, keeps, doc) \
    { name, level, on, KEEPS_##keeps, OPTIONAL, NEEDS_NOTHING, PASS_COUNT, doc },
#define KERNEL_PASS(ID, name, function, needs, presence, on, keeps, doc) \
    { name, 0, on, KEEPS_##keeps, presence, needs, PASS_COUNT, doc },
#define KERNEL_STEP(ID, name, within, needs, on, keeps, doc) \
    { name, 0, on, KEEPS_##keeps, DECIDES, needs, PASS_##within, doc },
#include "passes/passes.def"
};

PassSet pass_set(const PassId *ids, size_t n)
{
    PassSet s = { 0 };
    for (size_t k = 0; k < n; k++) pass_add(&s, ids[k]);
    return s;
}

bool pass_find(const char *name, size_t len, PassId *out)
{
    const char *now = former_name(FORMER_PASS, name, len);
    if (now) name = now, len = strlen(now);
    for (int i = 0; i < PASS_COUNT; i++)
        if (strlen(pass_info[i].name) == len && !memcmp(pass_info[i].name, name, len)) {
            *out = (PassId)i;
            return true;
        }
    return false;
}

/* The next name of "a,b c" from *p on, which moves behind it; 0: there is none. */
static size_t next_name(const char **p, const char **name)
{
    *p += *p ? strspn(*p, ", ") : 0;
    *name = *p;
    size_t len = *p ? strcspn(*p, ", ") : 0;
    *p += len;
    return len;
}

static bool is_all(const char *name, size_t len) { return len == 3 && !memcmp(name, "all", 3); }

PassSet pass_set_of(const char *list)
{
    PassSet s = { 0 };
    const char *name;
    PassId id;
    for (size_t len; (len = next_name(&list, &name));) {
        if (pass_find(name, len, &id)) pass_add(&s, id);
        for (int k = 0; is_all(name, len) && k < PASS_COUNT; k++) pass_add(&s, (PassId)k);
    }
    return s;
}

bool passes_stop_in_tile_ir(const PassOptions *o)
{
    PassId id;
    return o->stop_after && pass_find(o->stop_after, strlen(o->stop_after), &id) && !pass_is_kernel(id);
}

/* --- what is wrong with a name ----------------------------------------------------------------------- */

typedef struct Flag {
    Session *s;
    const PassOptions *o;
    const char *spelling; /* "--skip-pass", or "step `plain`" */
    Loc loc;
} Flag;

static bool unknown(const Flag *f, const char *name, size_t len)
{
    int best = 3;
    const char *near = NULL;
    for (int i = 0; i < PASS_COUNT; i++) {
        int d = diag_distance(name, len, pass_info[i].name);
        if (d < best) {
            best = d;
            near = pass_info[i].name;
        }
    }
    if (near)
        diag_error(f->s, f->loc, "%s: no pass is called `%.*s`; did you mean `%s`?", f->spelling, (int)len,
            name, near);
    else
        diag_error(f->s, f->loc, "%s: no pass is called `%.*s` (`tilec --help=passes` lists them)",
            f->spelling, (int)len, name);
    return false;
}

/* The property that the pass needs and the target lacks; NULL: it lacks nothing. */
static const char *lacks(const Target *t, unsigned needs)
{
    if (t->kind == TARGET_CPU)
        return "code for the CPU is made from tile IR, without passes of the kernel IR";
    if (needs & NEEDS_CUDA && t->kind != TARGET_CUDA) return "it is a pass for CUDA";
    if (needs & NEEDS_HIP && t->kind != TARGET_HIP) return "it is a pass for HIP";
    if (needs & NEEDS_TMA && !target_has(t, TF_TMA | TF_WGMMA)) return "it needs TMA and wgmma";
    return NULL;
}

static bool refuse(const Flag *f, PassId id, const char *why)
{
    diag_error(f->s, f->loc, "%s: the pass `%s` %s", f->spelling, pass_info[id].name, why);
    return false;
}

/* Reports that the pass does not run for this target. */
static bool applies(const Flag *f, PassId id)
{
    const Target *t = f->o->target;
    const char *why = t && !f->o->any_target && pass_is_kernel(id) ? lacks(t, pass_info[id].needs) : NULL;
    return !why || refuse(f, id, arena_printf(&f->s->arena, "does not run for %s: %s", t->name, why));
}

static bool may_run_alone(const Flag *f, PassId id)
{
    return !pass_is_kernel(id) ||
           refuse(f, id,
               "is one of the kernel IR, whose passes run in the order of their pipeline; --stop-after "
               "prints the IR behind it, and --skip-pass leaves it out");
}

static bool may_be_left_out(const Flag *f, PassId id)
{ return pass_info[id].presence != REQUIRED ? applies(f, id) : refuse(f, id, "cannot be left out"); }

bool pass_check_name(Session *s, Loc loc, const char *where, const char *name, bool skip)
{
    const Flag f = { s, NULL, where, loc };
    PassId id;
    if (!pass_find(name, strlen(name), &id)) return unknown(&f, name, strlen(name));
    return !skip || pass_info[id].presence != REQUIRED || refuse(&f, id, "cannot be left out");
}

static bool is_in_pipeline(const Flag *f, PassId id)
{
    const PassOptions *o = f->o;
    PassSet skip = pass_set_of(o->skip), with = pass_set_of(o->with), only = pass_set_of(o->passes);
    const char *a_level = arena_printf(&f->s->arena, "does not run at -O%d", o->opt_level);
    bool asked = pass_in(&with, id) || (id == PASS_APPROX && (o->approx || o->ftz));
    if (!applies(f, id)) return false;
    if (pass_in(&skip, id) && pass_info[id].presence == OPTIONAL)
        return refuse(f, id, "is left out by --skip-pass");
    if (o->passes && !pass_is_kernel(id))
        return pass_in(&only, id) || refuse(f, id, "is not among those of --passes");
    if (!pass_info[id].on && !asked) return refuse(f, id, "is off and was not asked for");
    return asked || o->opt_level >= pass_info[id].level || refuse(f, id, a_level);
}

/* Checks each name of a list with `fits`. */
static bool check_list(Session *s, const PassOptions *o, const char *spelling, const char *list,
    bool (*fits)(const Flag *, PassId))
{
    const Flag f = { s, o, spelling };
    bool ok = true, dumps = list == o->dump_after;
    const char *name;
    for (size_t len; (len = next_name(&list, &name));) {
        const char *now = former_name(FORMER_PASS, name, len);
        PassId id;
        if (now)
            diag_warning(s, (Loc){ 0 },
                "%s: the pass `%.*s` is called `%s` now; the old name is accepted in this version", spelling,
                (int)len, name, now);
        if (dumps && is_all(name, len)) continue;
        ok = (pass_find(name, len, &id) ? fits(&f, id) : unknown(&f, name, len)) && ok;
    }
    return ok;
}

bool pass_options_check(Session *s, const PassOptions *o)
{
    bool ok = check_list(s, o, "--passes", o->passes, may_run_alone);
    ok = check_list(s, o, "--skip-pass", o->skip, may_be_left_out) && ok;
    ok = check_list(s, o, "--with-pass", o->with, applies) && ok;
    ok = check_list(s, o, "--dump-after", o->dump_after, is_in_pipeline) && ok;
    if (o->stop_after && strpbrk(o->stop_after, ", ")) {
        diag_error(s, (Loc){ 0 }, "--stop-after takes one pass, not `%s`", o->stop_after);
        return false;
    }
    return check_list(s, o, "--stop-after", o->stop_after, is_in_pipeline) && ok;
}

void passes_print_list(Text *out)
{
    text_puts(out, "  passes of the tile IR, and the lowest -O level that runs each:\n");
    for (int i = 0; i < TILE_PASS_COUNT; i++)
        text_printf(out, "  %-22s %s%d  %s\n", pass_info[i].name, pass_info[i].on ? "-O" : "  ",
            pass_info[i].level, pass_info[i].doc);
    text_puts(out, "  passes of the kernel IR (GPU targets), and their steps:\n");
    for (int i = TILE_PASS_COUNT; i < PASS_COUNT; i++)
        text_printf(out, "  %s%-*s      %s%s\n", pass_is_step((PassId)i) ? "  " : "",
            pass_is_step((PassId)i) ? 20 : 22, pass_info[i].name, pass_info[i].doc,
            pass_info[i].presence == REQUIRED ? " (cannot be left out)" : "");
}
