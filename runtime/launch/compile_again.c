/* compile_again.c: compiles a variant again if the vendor's compiler reports unfavourable register use: with
 * launch bounds for fewer CTAs or for more, or with another configuration than the chosen one. */
#define _GNU_SOURCE
#include "runtime/launch/making.h"
#include <math.h>
#include <stdio.h>

enum { FEW_BYTES = COMPILE_FEW_BYTES, SOME_BYTES = 128 }; /* that a thread spills */

/* The registers of a thread where so many CTAs share a multiprocessor. */
static int registers_of(const Target *t, int threads, int ctas)
{
    int most = t->sm_registers / (threads * ctas) / t->register_step * t->register_step;
    return most < t->max_registers ? most : t->max_registers;
}

/* Half as many, or one less where few words are in memory; three become two, which may do. Then so few that a
 * thread gets more registers. Few words are no reason to leave one CTA alone, which has nothing to do while
 * its warps wait. */
int compile_next_ctas(const Target *t, int threads, int spilled, int ctas)
{
    if (spilled <= FEW_BYTES || ctas <= 1 || (ctas == 2 && spilled <= SOME_BYTES)) return 0;
    int next = spilled > SOME_BYTES && ctas != 3 ? ctas / 2 : ctas - 1;
    const int least = spilled > SOME_BYTES ? 1 : 2, registers = registers_of(t, threads, ctas);
    while (next > least && registers_of(t, threads, next) <= registers) next--;
    return registers_of(t, threads, next) > registers ? next : 0;
}

/* Launch bounds that make a thread spill cost more than fewer CTAs on a multiprocessor: compiles again for
 * fewer, as long as that helps. */
bool compile_for_fewer(Making *m, Ast *ast, Compiled *compiled, Compiled *text)
{
    CompileOptions options = m->options;
    for (int ctas; (ctas = compile_next_ctas(options.target, text->artifact.shape.threads,
                        compiled->artifact.spill_bytes, text->artifact.ctas)) > 0;) {
        Compiled again, of;
        options.passes.most_ctas = ctas;
        CompileJob job = making_job(m, ast, &options);
        if (!compile_kernel(&job, &again)) return false;
        of = again;
        if (!compile_to_binary(m->s, m->k->context->driver, &options, &again)) return false;
        if (again.artifact.spill_bytes >= compiled->artifact.spill_bytes) return true;
        *compiled = again;
        *text = of;
    }
    return true;
}

/* The CTAs of `threads` threads that a multiprocessor holds by its registers alone. */
static int ctas_of(const Target *t, int threads, int registers)
{
    int each = (registers + t->register_step - 1) / t->register_step * t->register_step;
    return each > 0 ? t->sm_registers / (threads * each) : 0;
}

/* Compiles a kernel that streams again with launch bounds for about 1536 threads on a multiprocessor, if
 * these are a third more than its registers allow, then for 1024, if these are more, and shared memory has
 * room. Takes the result if nothing spills and the code is at most 1/32 longer, or a quarter for twice the
 * threads: longer code computes values again. */
bool compile_for_more(Making *m, Ast *ast, Compiled *compiled, Compiled *text)
{
    static const int wanted[] = { 1536, 1024 };
    const Target *t = m->options.target;
    const Artifact *a = &compiled->artifact;
    int threads = a->shape.threads;
    int64_t shared = a->shape.shared_bytes + t->cta_shared_bytes;
    if (!text->artifact.streams || a->spill_bytes || a->registers <= 0) return true;
    if (a->static_shared_bytes > 0) shared += a->static_shared_bytes;
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
        CompileOptions options = m->options;
        Compiled again, of;
        int n = (wanted[k] + threads / 2) / threads, now = ctas_of(t, threads, a->registers);
        if (t->sm_ctas && n > t->sm_ctas) n = t->sm_ctas;
        while (n > 0 && (n * threads > t->sm_threads || n * shared > t->sm_shared_bytes)) n--;
        if (n <= now) return true;
        if (wanted[k] > 1024 && 3 * n < 4 * now) continue;
        options.passes.least_ctas = n;
        CompileJob job = making_job(m, ast, &options);
        if (!compile_kernel(&job, &again)) return false;
        of = again;
        if (!compile_to_binary(m->s, m->k->context->driver, &options, &again)) return false;
        const size_t longer = a->size / (n < 2 * now ? 32 : 4);
        if (again.artifact.spill_bytes || again.artifact.size > a->size + longer) continue;
        *compiled = again;
        *text = of;
        return true;
    }
    return true;
}

/* --- another configuration ---------------------------------------------------------------------------- */

static void configure(Making *m, const FrontBinding *config, int n)
{
    m->bindings = variant_bindings_with(m->k, m->v->key, config, n, &m->s->arena, &m->n_bindings);
    if (m->programs) return; /* whatever is found has the name and the key of what was asked for */
    m->title = compile_title(m->s, m->k->name, m->bindings, m->n_bindings);
    making_key(m);
}

/* Takes the configuration with this number, or the chosen one for -1. */
static void take(Making *m, int other)
{
    const Choice *c = m->chosen;
    if (other < 0) configure(m, c->config, c->n);
    else configure(m, c->other[other].config, c->other[other].n);
    m->v->other = other + 1;
}

void making_programs(Making *m)
{
    bool ended;
    m->chosen = choose_programs(m->k, m->s, m->launch, m->v->key, &ended);
    m->cut_short = !ended;
    m->programs = m->chosen != NULL;
    if (m->programs) take(m, -1);
}

/* The disk cache keeps a note for each chosen configuration: which configuration was taken instead, or "as
 * chosen". note_key names the note, and note_of is its text. The text spells the configuration out, so that
 * it stays valid if the list of others changes. */
static CacheKey note_key(Making *m)
{
    char *name = arena_alloc(&m->s->arena, 5 + sizeof m->cache_key.hash);
    memcpy(name, "other", 5);
    memcpy(name + 5, m->cache_key.hash, sizeof m->cache_key.hash);
    return cache_note_key(name, 5 + sizeof m->cache_key.hash);
}

static const char *note_of(Making *m, int other)
{
    const Choice *c = m->chosen;
    if (other < 0) return "as chosen";
    return search_text(m->s, &(SearchResult){ .config = c->other[other].config, .n = c->other[other].n });
}

/* Whether another configuration may be taken. Not after two axes were collapsed into one, which was proven
 * for the chosen configuration alone, and not where the caller tunes (k->accept), as it asks for this one. */
static bool may_change(const Making *m)
{
    bool collapsed = m->v->key[0] >> KEY_COLLAPSED & ((1u << MOST_PAIRS) - 1);
    return m->chosen && m->chosen->n_others && (m->programs || !collapsed) && !m->k->accept;
}

void making_recall(Making *m)
{
    const tile_context *c = m->k->context;
    char said[512];
    if (!may_change(m) || (c->flags & TILE_CONTEXT_NO_CACHE)) return;
    CacheKey key = note_key(m);
    if (!cache_read_text(&c->cache, &key, said, sizeof said)) return;
    for (int i = -1; i < m->chosen->n_others && !m->settled; i++) {
        m->settled = !strcmp(said, note_of(m, i));
        if (m->settled && i >= 0) take(m, i);
    }
}

bool making_is_open(const Making *m, const Compiled *c)
{ return may_change(m) && !m->settled && c->artifact.spill_bytes > FEW_BYTES; }

/* Compiles configuration number `other`; false: it does not compile. */
static bool compile_other(Making *m, Ast *ast, int other, Compiled *compiled, Compiled *text)
{
    take(m, other);
    CompileJob job = making_job(m, ast, &m->options);
    if (!compile_kernel(&job, compiled)) return false;
    *text = *compiled;
    return compile_to_binary(m->s, m->k->context->driver, &m->options, compiled) &&
           compile_for_fewer(m, ast, compiled, text);
}

/* The estimate of a configuration of which a thread spills so many bytes. Many bytes cost more than their way
 * to memory: loads that the vendor's compiler could otherwise begin early wait for registers. The factor for
 * that is no measurement. It is of the size by which estimates err. */
double compile_with_spills(double ns, double of_byte, int bytes)
{
    const double MANY = 1.0625;
    return (bytes > FEW_BYTES ? MANY : 1) * ns + of_byte * bytes;
}

/* If the chosen configuration spills more than its estimate assumed, compiles the configurations that may be
 * taken instead. Takes the one whose estimate, with the bytes that it really spills, is least, and leaves a
 * note for other processes. */
bool compile_for_other(Making *m, Ast *ast, Compiled *compiled, Compiled *text)
{
    const Choice *c = m->chosen;
    tile_context *context = m->k->context;
    int taken = -1, bytes = compiled->artifact.spill_bytes;
    if (!making_is_open(m, compiled)) return true;
    CacheKey note = note_key(m);
    double least = compile_with_spills(c->ns, c->spilled, bytes);
    for (int i = 0; i < c->n_others; i++) {
        const SearchOther *o = &c->other[i];
        Compiled again, of;
        if (o->ns >= least) continue;
        Diag *last = m->s->last_diag;
        int errors = m->s->n_errors;
        bool ok = compile_other(m, ast, i, &again, &of);
        diag_forget(m->s, last, errors);
        double ns = ok && again.artifact.spill_bytes >= 0
                        ? compile_with_spills(o->ns, o->spilled, again.artifact.spill_bytes)
                        : INFINITY;
        if (ns >= least) continue;
        least = ns;
        taken = i;
        *compiled = again;
        *text = of;
    }
    take(m, taken);
    if (taken >= 0)
        diag_perf(m->s, m->k->front->loc,
            "the estimate did not count that %d bytes of each thread would go "
            "to memory: %s is taken, of which %d do",
            bytes, note_of(m, taken), compiled->artifact.spill_bytes);
    const char *said = note_of(m, taken);
    if (!m->programs && !(context->flags & TILE_CONTEXT_NO_CACHE))
        cache_write(&context->cache, &note, said, strlen(said));
    return true;
}
