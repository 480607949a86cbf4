/* cache.c: compiled kernels on disk: one file an entry, named by the SHA-256 of everything that decides its content. Entries
 * appear by rename, so readers and other processes see whole files or none; what a file holds is checked by its reader (artifact.c). Use moves
 * an entry's modification time; when the folder outgrows its limit, the entries longest unused go. Nothing here reports errors: a cache that does not
 * work is a cache that misses. */
#define _GNU_SOURCE
#include "runtime/context.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- SHA-256 (FIPS 180-4) ------------------------------------------------------------------------------------------------------ */

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void sha_block(Sha256 *s, const uint8_t *p)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++) w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(v, s->h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t t1 = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + round_constants[i] + w[i];
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) s->h[i] += v[i];
}

void sha256_init(Sha256 *s)
{
    *s = (Sha256){ { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 }, 0, { 0 } };
}

void sha256_add(Sha256 *s, const void *data, size_t n)
{
    const uint8_t *p = data;
    while (n) {
        size_t at = s->n % 64, take = 64 - at < n ? 64 - at : n;
        memcpy(s->block + at, p, take);
        s->n += take;
        p += take;
        n -= take;
        if (s->n % 64 == 0) sha_block(s, s->block);
    }
}

void sha256_add_text(Sha256 *s, const char *t) { sha256_add(s, t, strlen(t) + 1); }

void sha256_end(Sha256 *s, uint8_t out[32])
{
    uint64_t bits = s->n * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(s, (uint8_t[]){ 0x80 }, 1);
    while (s->n % 64 != 56) sha256_add(s, (uint8_t[]){ 0 }, 1);
    sha256_add(s, length, 8);
    for (int i = 0; i < 32; i++) out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

/* --- the folder ----------------------------------------------------------------------------------------------------------------- */

enum { ENTRY_MAX = 256 << 20 };
static const char suffix[] = ".tilec";

/* mkdir -p; the folder is the user's own. */
static bool make_folders(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        int r = mkdir(path, 0700);
        *p = '/';
        if (r && errno != EEXIST) return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

void cache_open(Cache *c, Allocator alloc, const char *directory, uint64_t limit)
{
    const char *root, *below = "";
    c->alloc = alloc;
    c->limit = limit ? limit : 1ull << 30;
    if (directory) root = directory;
    else if ((root = getenv("TILE_CACHE_DIR")) && *root) {
    } else if ((root = getenv("XDG_CACHE_HOME")) && *root) below = "/tile";
    else if ((root = getenv("HOME")) && *root) below = "/.cache/tile";
    else root = "";
    if (!*root || format_text(c->directory, sizeof c->directory, "%s%s", root, below) >= (int)sizeof c->directory - 100) c->directory[0] = 0;
}

static void entry_path(const Cache *c, const uint8_t key[32], char *out, size_t room)
{
    char hex[65];
    for (int i = 0; i < 32; i++) format_text(hex + 2 * i, 3, "%02x", key[i]);
    format_text(out, room, "%s/%s%s", c->directory, hex, suffix);
}

static bool read_all(int fd, char *p, size_t n)
{
    while (n) {
        ssize_t r = read(fd, p, n);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) return false;
        p += r;
        n -= (size_t)r;
    }
    return true;
}

/* The file is closed by the session if memory runs out between. */
static void close_fd(void *fd) { close((int)(intptr_t)fd - 1); }

bool cache_read(const Cache *c, const uint8_t key[32], Arena *arena, const void **bytes, size_t *size)
{
    char path[1200];
    struct stat st;
    if (!c->directory[0]) return false;
    entry_path(c, key, path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > ENTRY_MAX) { close(fd); return false; }
    jmp_buf *outer = arena->on_oom, here;
    arena->on_oom = &here;
    if (setjmp(here)) { close_fd((void *)(intptr_t)(fd + 1)); arena->on_oom = outer; arena_oom(arena); }
    char *p = arena_alloc(arena, (size_t)st.st_size);
    arena->on_oom = outer;
    bool ok = read_all(fd, p, (size_t)st.st_size);
    if (ok) futimens(fd, (struct timespec[2]){ { 0, UTIME_NOW }, { 0, UTIME_NOW } });
    close(fd);
    *bytes = p;
    *size = (size_t)st.st_size;
    return ok;
}

static bool write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t r = write(fd, p, n);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) return false;
        p += r;
        n -= (size_t)r;
    }
    return true;
}

typedef struct Entry { char name[80]; int64_t size, time; } Entry;

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const Entry *)a)->time, y = ((const Entry *)b)->time;
    return x < y ? -1 : x > y;
}

/* Entries, and what a killed writer left behind an hour ago. */
static size_t list_entries(const Cache *c, DIR *d, Entry *list, size_t room, uint64_t *total)
{
    size_t n = 0;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        size_t len = strlen(e->d_name);
        if (len >= sizeof list->name || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode)) continue;
        if (!strncmp(e->d_name, ".new-", 5)) {
            if (st.st_mtim.tv_sec + 3600 < now.tv_sec) unlinkat(dirfd(d), e->d_name, 0);
            continue;
        }
        if (len < sizeof suffix || strcmp(e->d_name + len - sizeof suffix + 1, suffix)) continue;
        *total += (uint64_t)st.st_size;
        if (n == room) continue;
        memcpy(list[n].name, e->d_name, len + 1);
        list[n].size = st.st_size;
        list[n++].time = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    }
    return n;
}

static void evict(const Cache *c)
{
    enum { ROOM = 16384 };
    DIR *d = opendir(c->directory);
    Entry *list = d ? c->alloc.realloc(c->alloc.user, NULL, 0, ROOM * sizeof *list) : NULL;
    uint64_t total = 0;
    if (list) {
        size_t n = list_entries(c, d, list, ROOM, &total);
        if (total > c->limit) {
            qsort(list, n, sizeof *list, by_time);
            for (size_t i = 0; i < n && total > c->limit / 10 * 9; i++)
                if (!unlinkat(dirfd(d), list[i].name, 0)) total -= (uint64_t)list[i].size;
        }
    }
    if (list) c->alloc.realloc(c->alloc.user, list, ROOM * sizeof *list, 0);
    if (d) closedir(d);
}

/* A whole file at `path`, or what was there before. */
static bool put_file(const Cache *c, const char *path, const void *bytes, size_t size)
{
    char temporary[1200];
    format_text(temporary, sizeof temporary, "%s", c->directory);
    if (!make_folders(temporary)) return false;
    format_text(temporary, sizeof temporary, "%s/.new-XXXXXX", c->directory);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) return false;
    bool ok = write_all(fd, bytes, size);
    ok = close(fd) == 0 && ok && !rename(temporary, path);
    if (!ok) unlink(temporary);
    return ok;
}

void cache_write(const Cache *c, const uint8_t key[32], const void *bytes, size_t size)
{
    char path[1200];
    if (!c->directory[0] || size > ENTRY_MAX || size > c->limit) return;
    entry_path(c, key, path, sizeof path);
    if (put_file(c, path, bytes, size)) evict(c);
}

bool cache_note_read(const Cache *c, const char *name, char *out, size_t room)
{
    char path[1200];
    if (!c->directory[0]) return false;
    format_text(path, sizeof path, "%s/%s", c->directory, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, out, room - 1);
    if (fd >= 0) close(fd);
    if (n < 0) return false;
    out[n] = 0;
    return true;
}

void cache_note_write(const Cache *c, const char *name, const char *text)
{
    char path[1200];
    if (!c->directory[0]) return;
    format_text(path, sizeof path, "%s/%s", c->directory, name);
    put_file(c, path, text, strlen(text));
}

void cache_drop(const Cache *c, const uint8_t key[32])
{
    char path[1200];
    if (!c->directory[0]) return;
    entry_path(c, key, path, sizeof path);
    unlink(path);
}
