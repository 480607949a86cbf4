/* peer.c: what the figures are held against: OpenBLAS, PyTorch, and memcpy and reads by as many
 * threads. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- OpenBLAS: found at run time, so that the benchmark builds without it --- */

typedef void SgemmFn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
    const float *b, int ldb, float beta, float *c, int ldc);
static SgemmFn *sgemm;
static char sgemm_name[128] = "OpenBLAS";

bool peer_sgemm_open(int threads)
{
    void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!lib) return false;
    *(void **)&sgemm = dlsym(lib, "cblas_sgemm");
    void (*set_threads)(int);
    char *(*config)(void);
    *(void **)&set_threads = dlsym(lib, "openblas_set_num_threads");
    *(void **)&config = dlsym(lib, "openblas_get_config");
    if (set_threads) set_threads(threads);
    if (config)
        snprintf(sgemm_name, sizeof sgemm_name, "%.*s", (int)strcspn(config() + 9, " ") + 9, config());
    return sgemm != NULL;
}

const char *peer_sgemm_name(void) { return sgemm_name; }

void peer_sgemm(
    int64_t m, int64_t n, int64_t k, const float *a, bool turned_a, const float *b, bool turned_b, float *c)
{
    enum { ROW_MAJOR = 101, AS_IT_LIES = 111, TRANSPOSED = 112 };
    sgemm(ROW_MAJOR, turned_a ? TRANSPOSED : AS_IT_LIES, turned_b ? TRANSPOSED : AS_IT_LIES, (int)m, (int)n,
        (int)k, 1, a, (int)(turned_a ? m : k), b, (int)(turned_b ? k : n), 0, c, (int)n);
}

/* --- PyTorch: a process that is asked for one call at a time --- */

static struct {
    pid_t pid;
    FILE *to, *from;
    char name[64];
} torch = { .name = "PyTorch" };

bool peer_torch_open(const Bench *b)
{
    int in[2], out[2];
    char count[16], script[512];
    snprintf(count, sizeof count, "%d", b->threads);
    snprintf(script, sizeof script, "%s/torch_peer.py", b->folder);
    if (pipe(in)) return false;
    if (pipe(out)) return close(in[0]), close(in[1]), false;
    signal(SIGPIPE, SIG_IGN);
    torch.pid = fork();
    if (torch.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        if (!freopen("/dev/null", "w", stderr)) _exit(126);
        execlp(b->python, b->python, script, count, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    torch.to = fdopen(in[1], "w");
    torch.from = fdopen(out[0], "r");
    if (torch.pid > 0 && torch.to && torch.from && fgets(torch.name, sizeof torch.name, torch.from)) {
        torch.name[strcspn(torch.name, "\n")] = 0;
        return true;
    }
    fprintf(stderr, "no PyTorch beside ours: \"%s %s %s\" does not start it\n", b->python, script, count);
    peer_torch_close();
    return false;
}

double peer_torch(void *row)
{
    char line[64];
    if (!torch.to || fprintf(torch.to, "%s\n", (const char *)row) < 0 || fflush(torch.to) ||
        !fgets(line, sizeof line, torch.from))
        return 0;
    return atof(line);
}

const char *peer_torch_name(void) { return torch.name; }

void peer_torch_close(void)
{
    if (torch.to) fclose(torch.to);
    if (torch.from) fclose(torch.from);
    if (torch.pid > 0) waitpid(torch.pid, NULL, 0);
    torch.to = torch.from = NULL;
    torch.pid = 0;
}

/* --- copies and reads: threads that wait for work, as starting them would cost more than a small copy --- */

enum { MAX_THREADS = 256 };
typedef struct Part {
    void *dst; /* NULL: a read */
    const void *src;
    size_t bytes;
} Part;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t threads[MAX_THREADS];
    Part parts[MAX_THREADS];
    int n, pending, round;
    bool quit;
} pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER
};

typedef long long Wide __attribute__((vector_size(32)));
static _Thread_local Wide read_bits; /* so that the loads are needed */

/* Four independent sums, so that the loads wait for memory alone. */
static void do_part(Part p)
{
    if (p.dst) {
        memcpy(p.dst, p.src, p.bytes);
        return;
    }
    const Wide *x = p.src;
    Wide a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    for (size_t n = p.bytes / sizeof(Wide), i = 0; i + 4 <= n; i += 4)
        a |= x[i], b |= x[i + 1], c |= x[i + 2], d |= x[i + 3];
    read_bits |= a | b | c | d;
}

static void *worker(void *arg)
{
    int me = (int)(intptr_t)arg, seen = 0;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.round == seen && !pool.quit) pthread_cond_wait(&pool.work, &pool.lock);
        if (pool.quit) break;
        seen = pool.round;
        Part p = pool.parts[me];
        pthread_mutex_unlock(&pool.lock);
        do_part(p);
        pthread_mutex_lock(&pool.lock);
        if (--pool.pending == 0) pthread_cond_signal(&pool.done);
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

static void share(void *dst, const void *src, size_t bytes, int threads)
{
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    for (; pool.n < threads - 1; pool.n++)
        pthread_create(&pool.threads[pool.n], NULL, worker, (void *)(intptr_t)pool.n);
    size_t part = (bytes / (size_t)threads + 127) / 128 * 128;
    pthread_mutex_lock(&pool.lock);
    for (int i = 0; i < pool.n; i++) {
        size_t from = part * (size_t)(i + 1), to = from + part;
        if (from > bytes) from = bytes;
        if (to > bytes) to = bytes;
        pool.parts[i] = (Part){ dst ? (char *)dst + from : NULL, (const char *)src + from, to - from };
    }
    pool.pending = pool.n;
    pool.round++;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    do_part((Part){ dst, src, part < bytes ? part : bytes });
    pthread_mutex_lock(&pool.lock);
    while (pool.pending) pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

void peer_copy(void *dst, const void *src, size_t bytes, int threads) { share(dst, src, bytes, threads); }
void peer_read(const void *src, size_t bytes, int threads) { share(NULL, src, bytes, threads); }

void peer_close(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.quit = true;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < pool.n; i++) pthread_join(pool.threads[i], NULL);
}
