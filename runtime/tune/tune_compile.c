/* tune_compile.c: the candidates of a tuning compiled in threads of their own. Each has a context of its own
 * (context_share), so that reasons do not mix. A candidate whose emitted text equals
 * another one's is not given to the vendor's compiler again. */
#define _GNU_SOURCE
#include "runtime/tune/tuner.h"
#include <sched.h>
#include <stdio.h>

void artifact_digest(const Compiled *c, uint8_t out[32])
{
    Sha256 sha;
    const Artifact *a = &c->artifact;
    sha256_init(&sha);
    sha256_add(&sha, a->data, a->size);
    sha256_add(&sha, &a->shape, sizeof a->shape);
    sha256_end(&sha, out);
}

/* Called while the candidate is compiled. False if another candidate has the same code. */
static bool accept(void *user, const Compiled *compiled)
{
    Candidate *c = user;
    tile_tune *t = c->tune;
    const Candidate *same = NULL;
    uint8_t digest[32];
    artifact_digest(compiled, digest);
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < t->n && !same; i++)
        if (&t->all[i] != c && t->all[i].digested && !memcmp(t->all[i].digest, digest, sizeof digest))
            same = &t->all[i];
    memcpy(c->digest, digest, sizeof digest);
    c->digested = !same;
    pthread_mutex_unlock(&t->lock);
    if (same) tune_fail(c, TILE_TUNE_SAME, "the same code as %s", same->text);
    return !same;
}

static void compile_one(tile_tune *t, Candidate *c)
{
    tile_variant_info v = { .struct_size = sizeof v };
    if (!(c->context = context_share(t->context))) {
        tune_fail(c, TILE_TUNE_FAILED, "out of memory");
        return;
    }
    tile_status st = kernel_create_like(t->kernel, c->context, c->config, c->n_config, &c->kernel);
    if (!st) {
        c->kernel->accept = accept;
        c->kernel->accept_user = c;
        st = tile_kernel_variant(c->kernel, t->args, t->n_args, &v);
    }
    c->registers = v.registers;
    c->spill_bytes = v.spill_bytes;
    c->shared_bytes = v.shared_bytes;
    if (st && c->state != TILE_TUNE_SAME) tune_fail_status(c, st);
    if (st) tune_drop(c);
    else c->state = TILE_TUNE_TIMED;
}

/* The first candidate, the declared defaults, is compiled even when time has run out. */
static void *worker(void *p)
{
    tile_tune *t = p;
    for (;;) {
        pthread_mutex_lock(&t->lock);
        int i = t->next < t->n ? t->next++ : -1;
        pthread_mutex_unlock(&t->lock);
        if (i < 0) return NULL;
        Candidate *c = &t->all[i];
        if (i && tune_past(t, t->compile_deadline)) {
            tune_fail(c, TILE_TUNE_UNTRIED, "the budget was spent");
            continue;
        }
        compile_one(t, c);
        pthread_mutex_lock(&t->lock);
        size_t done = (size_t)++t->done;
        pthread_mutex_unlock(&t->lock);
        tune_report(t, TILE_TUNE_COMPILING, 1, done, (size_t)t->n, c);
    }
}

static int processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

tile_status tune_compile(tile_tune *t)
{
    enum { MOST = 64 };
    pthread_t threads[MOST];
    int n = t->desc.threads > 0 ? t->desc.threads : processors(), started = 0;
    if (n > t->n) n = t->n;
    if (n > MOST) n = MOST;
    while (started < n - 1 && !pthread_create(&threads[started], NULL, worker, t)) started++;
    worker(t);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    return TILE_OK;
}
