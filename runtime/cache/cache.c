/* cache.c: results on disk: one file an entry, named by the SHA-256 of its key. The key is everything that
 * decides the content; the entry holds the whole of it, and the reader compares it. Entries appear by rename,
 * so readers and other processes see whole files or none. Use moves an entry's modification time; when the
 * folder outgrows its limit, the entries longest unused go.
 *
 * Code that is loaded from here runs in the process, so the reader takes only what its own user can have
 * written: the folder and the entry must belong to the effective user and be writable by nobody else, and the
 * entry must be a regular file, not a link. Files are opened relative to the folder that was looked at,
 * without following links and without waiting, so that a FIFO cannot hold a launch up. What an entry holds is
 * checked by the caller too (artifact.c).
 *
 * Nothing here fails: a cache that does not work is a cache that misses. Why an entry was not taken is a
 * message of TILE_DEBUG=cache. */
#define _GNU_SOURCE
#include "runtime/cache/artifact.h"
#include "runtime/cache/cache.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- SHA-256 (FIPS 180-4) ---------------------------------------------------------------------------- */

static const uint32_t round_constants[64] = {
    0x428a2f98,
    0x71374491,
    0xb5c0fbcf,
    0xe9b5dba5,
    0x3956c25b,
    0x59f111f1,
    0x923f82a4,
    0xab1c5ed5,
    0xd807aa98,
    0x12835b01,
    0x243185be,
    0x550c7dc3,
    0x72be5d74,
    0x80deb1fe,
    0x9bdc06a7,
    0xc19bf174,
    0xe49b69c1,
    0xefbe4786,
    0x0fc19dc6,
    0x240ca1cc,
    0x2de92c6f,
    0x4a7484aa,
    0x5cb0a9dc,
    0x76f988da,
    0x983e5152,
    0xa831c66d,
    0xb00327c8,
    0xbf597fc7,
    0xc6e00bf3,
    0xd5a79147,
    0x06ca6351,
    0x14292967,
    0x27b70a85,
    0x2e1b2138,
    0x4d2c6dfc,
    0x53380d13,
    0x650a7354,
    0x766a0abb,
    0x81c2c92e,
    0x92722c85,
    0xa2bfe8a1,
    0xa81a664b,
    0xc24b8b70,
    0xc76c51a3,
    0xd192e819,
    0xd6990624,
    0xf40e3585,
    0x106aa070,
    0x19a4c116,
    0x1e376c08,
    0x2748774c,
    0x34b0bcb5,
    0x391c0cb3,
    0x4ed8aa4a,
    0x5b9cca4f,
    0x682e6ff3,
    0x748f82ee,
    0x78a5636f,
    0x84c87814,
    0x8cc70208,
    0x90befffa,
    0xa4506ceb,
    0xbef9a3f7,
    0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void sha_block(Sha256 *s, const uint8_t *p)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 |
               p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(v, s->h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t t1 = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & v[5]) ^ (~e & v[6])) +
                      round_constants[i] + w[i];
        uint32_t t2 =
            (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) s->h[i] += v[i];
}

void sha256_init(Sha256 *s)
{
    *s = (Sha256){ { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                       0x5be0cd19 },
        0, { 0 } };
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

/* --- the folder -------------------------------------------------------------------------------------- */

enum { ENTRY_MAX = 256 << 20 };
static const char suffix[] = ".tilec";

/* Makes the folder and its parents (mkdir -p). The folder belongs to the user. */
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
    if (!*root ||
        format_text(c->directory, sizeof c->directory, "%s%s", root, below) >= (int)sizeof c->directory - 100)
        c->directory[0] = 0;
}

CacheKey cache_key(const char *bytes, size_t n)
{
    CacheKey k = { bytes, n, suffix, { 0 } };
    Sha256 sha;
    sha256_init(&sha);
    sha256_add(&sha, bytes, n);
    sha256_end(&sha, k.hash);
    return k;
}

CacheKey cache_note_key(const char *bytes, size_t n)
{
    CacheKey k = cache_key(bytes, n);
    k.suffix = ".note";
    return k;
}

static void entry_name(const CacheKey *k, char out[80])
{
    for (int i = 0; i < 32; i++) format_text(out + 2 * i, 3, "%02x", k->hash[i]);
    format_text(out + 64, 16, "%s", k->suffix);
}

/* --- what is not trusted ----------------------------------------------------------------------------- */

static void say(const Cache *c, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(const Cache *c, const char *name, const char *fmt, ...)
{
    char text[1400], why[200];
    va_list ap;
    if (!c->debug) return;
    va_start(ap, fmt);
    format_args(why, sizeof why, fmt, ap);
    va_end(ap);
    format_text(text, sizeof text, "cache: %s%s%s is ignored: %s", c->directory, *name ? "/" : "", name, why);
    c->debug(c->debug_user, text);
}

/* Checks the owner of a file, and who else may write it. */
static bool is_ours(const Cache *c, const char *name, const struct stat *st)
{
    if (st->st_uid != geteuid())
        say(c, name, "it belongs to user %ld, not to %ld", (long)st->st_uid, (long)geteuid());
    else if (st->st_mode & (S_IWGRP | S_IWOTH))
        say(c, name, "its mode %03o lets others write to it", (unsigned)st->st_mode & 0777);
    else return true;
    return false;
}

/* Opens the folder, or gives -1. A link to a folder may stand in its place; the folder that it points to is
 * then checked. */
static int open_folder(const Cache *c)
{
    struct stat st;
    int fd = c->directory[0] ? open(c->directory, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0) {
        if (c->directory[0] && errno != ENOENT) say(c, "", "%s", strerror(errno));
        return -1;
    }
    if (!fstat(fd, &st) && is_ours(c, "", &st)) return fd;
    close(fd);
    return -1;
}

/* Opens a regular file that this user owns, or gives -1. */
static int open_file(const Cache *c, int folder, const char *name, struct stat *st)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        if (errno == ELOOP) say(c, name, "it is a symbolic link");
        else if (errno != ENOENT) say(c, name, "%s", strerror(errno));
        return -1;
    }
    bool ok = !fstat(fd, st);
    if (ok && !S_ISREG(st->st_mode)) {
        say(c, name, "it is no regular file");
        ok = false;
    }
    if (ok && is_ours(c, name, st)) return fd;
    close(fd);
    return -1;
}

/* --- entries ----------------------------------------------------------------------------------------- */

/* The header before the key. The content comes after the key. */
typedef struct EntryHead {
    char magic[8];
    uint64_t key_bytes, bytes, checksum;
} EntryHead;
static const char magic[8] = "TILEKEY1";

static bool read_all(int fd, void *to, size_t n)
{
    for (char *p = to; n;) {
        ssize_t r = read(fd, p, n);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) return false;
        p += r;
        n -= (size_t)r;
    }
    return true;
}

static bool same_key(int fd, const CacheKey *k)
{
    char piece[1024];
    for (size_t at = 0, n; at < k->n; at += n) {
        n = k->n - at < sizeof piece ? k->n - at : sizeof piece;
        if (!read_all(fd, piece, n) || memcmp(piece, k->bytes + at, n)) return false;
    }
    return true;
}

/* Opens an entry and reads up to its content, or gives -1. */
static int open_entry(const Cache *c, const CacheKey *k, EntryHead *head)
{
    char name[80];
    struct stat st;
    int folder = open_folder(c);
    if (folder < 0) return -1;
    entry_name(k, name);
    int fd = open_file(c, folder, name, &st);
    close(folder);
    if (fd < 0) return -1;
    uint64_t size = (uint64_t)st.st_size;
    if (!read_all(fd, head, sizeof *head) || memcmp(head->magic, magic, sizeof magic) || size > ENTRY_MAX ||
        head->bytes > size || head->key_bytes > size || sizeof *head + head->key_bytes + head->bytes != size)
        say(c, name, "it is damaged, or of another version");
    else if (head->key_bytes != k->n || !same_key(fd, k)) say(c, name, "it is the entry of another key");
    else {
        futimens(fd, (struct timespec[2]){ { 0, UTIME_NOW }, { 0, UTIME_NOW } });
        return fd;
    }
    close(fd);
    return -1;
}

static bool read_content(const Cache *c, const CacheKey *k, int fd, const EntryHead *head, char *to)
{
    char name[80];
    if (read_all(fd, to, head->bytes) && artifact_checksum(to, head->bytes) == head->checksum) return true;
    entry_name(k, name);
    say(c, name, "it is damaged");
    return false;
}

bool cache_read(const Cache *c, const CacheKey *k, Arena *arena, const void **bytes, size_t *size)
{
    EntryHead head;
    int fd = open_entry(c, k, &head);
    if (fd < 0) return false;
    jmp_buf *outer = arena->on_oom, here;
    arena->on_oom = &here;
    if (setjmp(here)) {
        close(fd);
        arena->on_oom = outer;
        arena_oom(arena);
    }
    char *p = arena_alloc(arena, head.bytes + 1);
    arena->on_oom = outer;
    bool ok = read_content(c, k, fd, &head, p);
    close(fd);
    *bytes = p;
    *size = head.bytes;
    return ok;
}

bool cache_read_text(const Cache *c, const CacheKey *k, char *out, size_t room)
{
    EntryHead head;
    int fd = open_entry(c, k, &head);
    if (fd < 0) return false;
    bool ok = head.bytes < room && read_content(c, k, fd, &head, out);
    close(fd);
    if (ok) out[head.bytes] = 0;
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

typedef struct Entry {
    char name[80];
    int64_t size, time;
} Entry;

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const Entry *)a)->time, y = ((const Entry *)b)->time;
    return x < y ? -1 : x > y;
}

/* Removes entries, and files that a killed writer left at least an hour ago. */
static size_t list_entries(const Cache *c, DIR *d, Entry *list, size_t room, uint64_t *total)
{
    size_t n = 0;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        size_t len = strlen(e->d_name);
        if (len >= sizeof list->name || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode))
            continue;
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

static void evict(const Cache *c, int folder)
{
    enum { ROOM = 16384 };
    /* A file descriptor of its own, because a stream closes the one that it reads. */
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again < 0 ? NULL : fdopendir(again);
    if (!d && again >= 0) close(again);
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

/* Writes a file as a whole: after a failure, the former file is still there. */
static bool put_file(
    const Cache *c, int folder, const char *name, const EntryHead *head, const CacheKey *k, const void *bytes)
{
    char temporary[64];
    int fd = -1;
    for (unsigned tries = 0; fd < 0 && tries < 16; tries++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        format_text(temporary, sizeof temporary, ".new-%lx-%lx-%x", (long)getpid(), now.tv_nsec, tries);
        fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST) break;
    }
    if (fd < 0) {
        say(c, name, "it cannot be written: %s", strerror(errno));
        return false;
    }
    bool ok = write_all(fd, (const char *)head, sizeof *head) && write_all(fd, k->bytes, k->n) &&
              write_all(fd, bytes, head->bytes);
    ok = close(fd) == 0 && ok && !renameat(folder, temporary, folder, name);
    if (!ok) unlinkat(folder, temporary, 0);
    return ok;
}

void cache_write(const Cache *c, const CacheKey *k, const void *bytes, size_t size)
{
    char name[80], path[sizeof c->directory];
    EntryHead head = { .key_bytes = k->n, .bytes = size, .checksum = artifact_checksum(bytes, size) };
    memcpy(head.magic, magic, sizeof magic);
    if (!c->directory[0] || size > ENTRY_MAX - sizeof head - k->n || size > c->limit) return;
    memcpy(path, c->directory, sizeof path);
    if (!make_folders(path)) return;
    int folder = open_folder(c);
    if (folder < 0) return;
    entry_name(k, name);
    if (put_file(c, folder, name, &head, k, bytes)) evict(c, folder);
    close(folder);
}

void cache_drop(const Cache *c, const CacheKey *k)
{
    char name[80];
    int folder = open_folder(c);
    if (folder < 0) return;
    entry_name(k, name);
    say(c, name, "what it holds does not load");
    unlinkat(folder, name, 0);
    close(folder);
}
