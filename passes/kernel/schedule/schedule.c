/* schedule.c: reads, keeps and prints the decisions of a schedule; see schedule.h. The text has sections.
 * Those apply whose head names this kernel, specialization and target, or leaves them out:
 *
 *     schedule attention "D=64, CAUSAL=true" for cuda:sm_90a
 *     load K stages 3          # comments, and `;` in place of a line's end
 *
 * What comes before any head applies to every kernel. */
#include "passes/kernel/schedule/schedule.h"
#include "ir/former_names.h"
#include "ir/text/text.h"
#include <stdarg.h>
#include <stdlib.h>

enum { NOTHING, TENSOR, NUMBER };

static const struct {
    const char *word;
    int of;
    const char *forms;
} decision_info[DECIDE_COUNT] = {
#define DECISION(ID, word, of, forms) { word, of, forms },
#include "passes/kernel/schedule/schedule.def"
#undef DECISION
};

/* --- reading ----------------------------------------------------------------------------------------- */

typedef struct Word {
    const char *text;
    Loc loc;
    bool quoted;
} Word;
typedef VEC(Word) Words;
typedef struct Reader {
    KernelPlan *plan;
    const Func *f;
    const Source *source;
    uint32_t file;
    bool applies, any;
} Reader;

static bool plain(char c) { return irtext_name_char(c) || strchr(".:-", c); }

/* Reads the words of one line and moves *at behind it. */
static bool read_line(Reader *r, size_t *at, Words *line)
{
    Session *s = r->plan->decisions->session;
    const char *t = r->source->text;
    line->len = 0;
    for (; t[*at] && t[*at] != '\n' && t[*at] != ';';) {
        size_t from = *at;
        if (t[from] == '#') {
            *at += strcspn(t + from, "\n");
            break;
        }
        if (strchr(" \t\r\v\f", t[from])) {
            ++*at;
            continue;
        }
        bool quoted = t[from] == '"';
        if (quoted) *at += 1 + strcspn(t + from + 1, "\"\n");
        else
            while (t[*at] && plain(t[*at])) ++*at;
        Loc loc = { r->file, (uint32_t)from, (uint32_t)*at };
        if (*at == from || (quoted && t[*at] != '"')) {
            diag_error(s, (Loc){ r->file, (uint32_t)from, (uint32_t)from + 1 },
                "a schedule has words, numbers and \"..\" here");
            *at += strcspn(t + *at, "\n");
            line->len = 0;
            break;
        }
        vec_push(&s->arena, line,
            ((Word){ arena_strndup(&s->arena, t + from + quoted, *at - from - quoted), loc, quoted }));
        *at += quoted;
    }
    bool more = t[*at] != 0;
    *at += more;
    return more || line->len;
}

static void head(Reader *r, const Words *line)
{
    Session *s = r->plan->decisions->session;
    r->applies = true;
    for (size_t k = 1; k < line->len; k++) {
        const Word *w = &line->data[k];
        if (w->quoted) r->applies &= !strcmp(w->text, r->f->spec ? r->f->spec : "");
        else if (!strcmp(w->text, "for") && k + 1 < line->len) {
            if (!target_find(line->data[++k].text)) {
                diag_error(s, line->data[k].loc, "no target `%s`", line->data[k].text);
                r->applies = false;
            }
            r->applies &= !strcmp(line->data[k].text, r->plan->target->name);
        } else if (k == 1) r->applies &= !strcmp(w->text, r->plan->decisions->kernel);
        else {
            diag_error(s, w->loc, "the head of a schedule is: schedule KERNEL \"SPECIALIZATION\" for TARGET");
            r->applies = false;
        }
    }
    r->any |= r->applies;
}

static bool number(const Word *w, int *out)
{
    char *end;
    long v = strtol(w->text, &end, 10);
    if (w->quoted || *end || end == w->text || v < 0 || v > 1 << 20) return false;
    *out = (int)v;
    return true;
}

/* Whether the words from `from` on match one of the forms. If so, sets its index and its numbers. */
static bool match(const char *forms, const Words *line, size_t from, Decision *d)
{
    for (d->form = 0;; d->form++) {
        size_t k = from;
        int n = 0;
        bool ok = true;
        while (*forms && *forms != '|') {
            size_t len = strcspn(forms, " |");
            bool wants_number = len == 1 && *forms == 'N';
            ok = ok && k < line->len &&
                 (wants_number ? number(&line->data[k], &d->n[n])
                               : !line->data[k].quoted && strlen(line->data[k].text) == len &&
                                     !memcmp(line->data[k].text, forms, len));
            n += wants_number;
            k++;
            forms += len + (forms[len] == ' ');
        }
        if (ok && k == line->len) return true;
        if (!*forms++) return false;
    }
}

/* "K.2": the tensor and which of its accesses. */
static bool subject(Reader *r, const Word *w, int of, Decision *d)
{
    Session *s = r->plan->decisions->session;
    const char *dot = strrchr(w->text, '.');
    d->at = 1;
    if (of == NUMBER) return number(w, &d->at) && d->at > 0;
    if (dot && !number(&(Word){ .text = dot + 1 }, &d->at)) return false;
    d->tensor = session_intern(s, w->text, dot ? (size_t)(dot - w->text) : strlen(w->text));
    for (int p = 0; p < r->f->n_params; p++)
        if (!strcmp(r->f->params[p].name, d->tensor) && r->f->params[p].kind != PARAM_SCALAR)
            return d->at > 0;
    return false;
}

static bool same_subject(const Decision *a, const Decision *b)
{
    return a->kind == b->kind && a->at == b->at &&
           (a->tensor == b->tensor || (a->tensor && b->tensor && !strcmp(a->tensor, b->tensor)));
}

/* Replaces former names of words by those of today, with a warning. */
static void rename_former(Session *s, Word *w)
{
    const char *now = w->quoted ? NULL : former_name(FORMER_SCHEDULE, w->text, strlen(w->text));
    if (!now) return;
    diag_warning(s, w->loc, "in schedules `%s` is called `%s` now; the old word is accepted in this version",
        w->text, now);
    w->text = now;
}

static void read_decision(Reader *r, Words *line)
{
    Schedule *all = r->plan->decisions;
    Session *s = all->session;
    const Word *w = &line->data[0];
    rename_former(s, &line->data[0]);
    Decision d = { .loc = loc_join(w->loc, line->data[line->len - 1].loc) };
    while (d.kind < DECIDE_COUNT && strcmp(decision_info[d.kind].word, w->text)) d.kind++;
    if (d.kind == DECIDE_COUNT) {
        Text words;
        text_init(&words, &s->arena);
        for (int k = 0; k < DECIDE_COUNT; k++)
            text_printf(&words, "%s%s", k ? ", " : "", decision_info[k].word);
        diag_note(s, diag_error(s, w->loc, "a schedule decides nothing called `%s`", w->text), (Loc){ 0 },
            "it decides %s", words.data);
        return;
    }
    int of = decision_info[d.kind].of;
    if (of != NOTHING && (line->len < 2 || !subject(r, &line->data[1], of, &d))) {
        diag_error(s, line->len < 2 ? w->loc : line->data[1].loc,
            of == TENSOR ? "`%s` names a tensor of kernel %s, such as `K`, or `K.2` for its second access"
                         : "`%s` names a loop with products of kernel %s by its number, from 1",
            decision_info[d.kind].word, all->kernel);
        return;
    }
    for (size_t k = of == NOTHING ? 1 : 2; k < line->len; k++) rename_former(s, &line->data[k]);
    if (!match(decision_info[d.kind].forms, line, of == NOTHING ? 1 : 2, &d)) {
        diag_error(s, d.loc, "`%s` is decided as one of: %s", decision_info[d.kind].word,
            decision_info[d.kind].forms);
        return;
    }
    for (size_t k = 0; k < all->asked.len; k++) {
        if (!same_subject(&all->asked.data[k], &d)) continue;
        diag_note(s, diag_error(s, d.loc, "decided twice"), all->asked.data[k].loc, "here first");
        return;
    }
    vec_push(&s->arena, &all->asked, d);
}

static uint32_t source_of(Session *s, const char *name, const char *text)
{
    for (uint32_t k = 1; k < s->sources.len; k++)
        if (!strcmp(s->sources.data[k].name, name) && !strcmp(s->sources.data[k].text, text)) return k;
    return diag_add_source(s, name, NULL, text, strlen(text));
}

void schedule_number_loads(KernelPlan *p, const Func *f)
{
    Schedule *all = p->decisions;
    InstrList loads = { 0 };
    all->loads.len = 0;
    ir_collect(&all->session->arena, f->body, OP_LOAD, &loads);
    for (size_t k = 0; k < loads.len; k++) {
        MemParts m;
        Access a = { loads.data[k], NULL, 1 };
        if (!ir_mem_parts(a.instr, &m) || m.result->type->kind != TYPE_TILE) continue;
        a.tensor = f->params[m.param].name;
        for (size_t j = 0; j < all->loads.len; j++) a.at += all->loads.data[j].tensor == a.tensor;
        vec_push(&all->session->arena, &all->loads, a);
    }
}

void schedule_begin(Session *s, Func *f, KernelPlan *p)
{
    const char *text = p->options.schedule ? p->options.schedule : f->hints.schedule;
    p->decisions = arena_new(&s->arena, Schedule);
    p->decisions->session = s;
    p->decisions->kernel = p->options.source_name ? p->options.source_name : f->name;
    if (!text) return;
    bool file = p->options.schedule != NULL;
    Reader r = { .plan = p,
        .f = f,
        .applies = true,
        .file = source_of(s,
            file ? p->options.schedule_name : arena_printf(&s->arena, "schedule of %s", p->decisions->kernel),
            text) };
    Words line = { 0 };
    r.source = diag_source(s, r.file);
    for (size_t at = 0; read_line(&r, &at, &line) || r.source->text[at];) {
        if (!line.len) continue;
        if (!strcmp(line.data[0].text, "schedule")) head(&r, &line);
        else if (r.applies) {
            read_decision(&r, &line);
            r.any = true;
        }
    }
    if (file && !r.any)
        diag_warning(s, f->loc, "%s has no schedule for %s%s%s%s on %s: it is derived",
            p->options.schedule_name, p->decisions->kernel, f->spec && *f->spec ? " (" : "",
            f->spec ? f->spec : "", f->spec && *f->spec ? ")" : "", p->target->name);
}

Schedule schedule_save(const KernelPlan *p)
{
    const Schedule *all = p->decisions;
    Schedule saved = *all;
    saved.asked.len = saved.asked.cap = saved.taken.len = saved.taken.cap = 0;
    for (size_t k = 0; k < all->asked.len; k++)
        vec_push(&all->session->arena, &saved.asked, all->asked.data[k]);
    for (size_t k = 0; k < all->taken.len; k++)
        vec_push(&all->session->arena, &saved.taken, all->taken.data[k]);
    return saved;
}

void schedule_restore(KernelPlan *p, const Schedule *saved) { *p->decisions = *saved; }

void schedule_end(KernelPlan *p)
{
    Schedule *all = p->decisions;
    for (size_t k = 0; k < all->asked.len; k++) {
        const Decision *d = &all->asked.data[k];
        if (d->met) continue;
        int loads = 0;
        for (size_t j = 0; d->kind == DECIDE_LOAD && j < all->loads.len; j++)
            loads += !strcmp(all->loads.data[j].tensor, d->tensor);
        if (d->kind == DECIDE_LOAD && d->form == LOAD_REGISTERS && d->at <= loads)
            continue; /* the default place of everything that no decision names */
        if (d->kind == DECIDE_LOAD && d->at > loads)
            diag_error(
                all->session, d->loc, "kernel %s loads %d tiles of `%s`", all->kernel, loads, d->tensor);
        else if (d->kind == DECIDE_LOAD)
            diag_error(all->session, d->loc,
                "kernel %s does nothing but load this tile to registers where it stands, on %s: no loop with "
                "products needs it, or it has a pad, a mask or other users than products",
                all->kernel, p->target->name);
        else
            diag_error(all->session, d->loc, "there is nothing like that to decide in kernel %s for %s",
                all->kernel, p->target->name);
    }
}

/* --- asking, refusing, recording --------------------------------------------------------------------- */

static Decision *look_at(const KernelPlan *p, const Decision *like)
{
    Schedule *all = p->decisions;
    for (size_t k = 0; k < all->asked.len; k++)
        if (same_subject(&all->asked.data[k], like)) return &all->asked.data[k];
    return NULL;
}

static const Decision *find(const KernelPlan *p, const Decision *like)
{
    Decision *d = look_at(p, like);
    if (d) d->met = true;
    return d;
}

static Decision of_load(const KernelPlan *p, const Instr *load)
{
    const Schedule *all = p->decisions;
    for (size_t k = 0; k < all->loads.len; k++)
        if (all->loads.data[k].instr == load)
            return (Decision){
                .kind = DECIDE_LOAD, .tensor = all->loads.data[k].tensor, .at = all->loads.data[k].at
            };
    return (Decision){ .kind = DECIDE_LOAD };
}

static Decision of_store(const Func *f, const Instr *store)
{
    MemParts m;
    ir_mem_parts(store, &m);
    return (Decision){ .kind = DECIDE_STORE, .tensor = f->params[m.param].name, .at = 1 };
}

const Decision *schedule_asked(KernelPlan *p, DecisionKind k) { return find(p, &(Decision){ .kind = k }); }
const Decision *schedule_asked_loop(KernelPlan *p, int loop)
{ return find(p, &(Decision){ .kind = DECIDE_LOOP, .at = loop }); }

const Decision *schedule_asked_load(KernelPlan *p, const Instr *load)
{
    Decision d = of_load(p, load);
    return d.tensor ? find(p, &d) : NULL;
}

const Decision *schedule_look_at_load(const KernelPlan *p, const Instr *load)
{
    Decision d = of_load(p, load);
    return d.tensor ? look_at(p, &d) : NULL;
}

const Decision *schedule_asked_store(KernelPlan *p, const Func *f, const Instr *store)
{
    Decision d = of_store(f, store);
    return find(p, &d);
}

bool schedule_refuse(KernelPlan *p, const Decision *d, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *why = arena_vprintf(&p->decisions->session->arena, fmt, args);
    va_end(args);
    diag_error(p->decisions->session, d->loc, "%s", why);
    return false;
}

static void take(KernelPlan *p, Decision d, int form, int n0, int n1)
{
    Schedule *all = p->decisions;
    d.form = form;
    d.n[0] = n0;
    d.n[1] = n1;
    for (size_t k = 0; k < all->taken.len; k++)
        if (same_subject(&all->taken.data[k], &d)) {
            all->taken.data[k] = d;
            return;
        }
    vec_push(&all->session->arena, &all->taken, d);
}

void schedule_take(KernelPlan *p, DecisionKind k, int form, int n0, int n1)
{ take(p, (Decision){ .kind = k }, form, n0, n1); }
void schedule_take_loop(KernelPlan *p, int loop, int form, int product)
{ take(p, (Decision){ .kind = DECIDE_LOOP, .at = loop }, form, product, 0); }
void schedule_take_store(KernelPlan *p, const Func *f, const Instr *store, int form, int buffers)
{ take(p, of_store(f, store), form, buffers, 0); }

void schedule_take_load(KernelPlan *p, const Instr *load, int form, int stages)
{
    Decision d = of_load(p, load);
    if (d.tensor) take(p, d, form, stages, 0);
}

/* --- printing ---------------------------------------------------------------------------------------- */

static void print_form(const Decision *d, Text *out)
{
    const char *f = decision_info[d->kind].forms;
    for (int k = d->form, n = 0; *f; f++) {
        if (*f == '|') {
            if (!k--) return;
            continue;
        }
        if (k) continue;
        if (*f == 'N') text_printf(out, "%d", d->n[n++]);
        else text_putc(out, *f);
    }
}

/* Sorts loads and loops in the order of the kernel, whatever the order of their decisions was. */
static int place(const Schedule *all, const Decision *d)
{
    for (size_t k = 0; k < all->loads.len; k++)
        if (d->kind == DECIDE_LOAD && all->loads.data[k].tensor == d->tensor &&
            all->loads.data[k].at == d->at)
            return (int)k;
    return d->kind == DECIDE_LOOP ? d->at : (int)(d - all->taken.data);
}

const char *schedule_text(KernelPlan *p, const Func *f, const char *notes)
{
    const Schedule *all = p->decisions;
    Text t;
    text_init(&t, &all->session->arena);
    text_printf(&t, "schedule %s", all->kernel);
    if (f->spec && *f->spec) text_printf(&t, " \"%s\"", f->spec);
    text_printf(&t, " for %s\n", p->target->name);
    for (int kind = 0; kind < DECIDE_COUNT; kind++)
        for (int at = -1;;) {
            const Decision *next = NULL;
            for (size_t k = 0; k < all->taken.len; k++) {
                const Decision *d = &all->taken.data[k];
                if ((int)d->kind == kind && place(all, d) > at && (!next || place(all, d) < place(all, next)))
                    next = d;
            }
            if (!next) break;
            at = place(all, next);
            text_printf(&t, "%s ", decision_info[kind].word);
            if (decision_info[kind].of == NUMBER) text_printf(&t, "%d ", next->at);
            else if (next->tensor) text_printf(&t, next->at > 1 ? "%s.%d " : "%s ", next->tensor, next->at);
            print_form(next, &t);
            text_putc(&t, '\n');
        }
    for (const char *s = notes ? notes : ""; *s; s += strcspn(s, "\n"), s += *s == '\n') {
        s += strspn(s, " ");
        if (strcspn(s, "\n")) text_printf(&t, "# %.*s\n", (int)strcspn(s, "\n"), s);
    }
    return t.data;
}
