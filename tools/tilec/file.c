/* file.c: see file.h. */
#include "tools/tilec/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char *file_only(Tool *t, const char *ending)
{
    DIR *folder = opendir(".");
    const char *found = NULL;
    size_t n = strlen(ending), files = 0;
    for (struct dirent *e; folder && (e = readdir(folder));) {
        size_t len = strlen(e->d_name);
        if (len <= n || *e->d_name == '.' || strcmp(e->d_name + len - n, ending)) continue;
        if (!files++) found = arena_strdup(&t->arena, e->d_name);
    }
    if (folder) closedir(folder);
    return files == 1 ? found : NULL;
}

bool file_read(Tool *t, const char *path, size_t limit, FileText *file)
{
    bool std = !strcmp(path, "-");
    if (std && t->standard_input) {
        *file = (FileText){ (char *)(uintptr_t)t->standard_input, t->standard_input_len };
        return true;
    }
    const char *name = std ? "standard input" : path;
    int fd = std ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        tool_error(t, "cannot open %s: %s", name, strerror(errno));
        return false;
    }
    struct stat st;
    size_t cap = 1 << 16, len = 0;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= 0 && (size_t)st.st_size < limit)
        cap = (size_t)st.st_size + 2;
    char *data = arena_alloc(&t->arena, cap);
    ssize_t n;
    while ((n = read(fd, data + len, cap - len - 1)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        len += (size_t)n;
        if (len > limit) break;
        if (len + 1 == cap) {
            data = arena_grow(&t->arena, data, cap, 2 * cap);
            cap *= 2;
        }
    }
    int error = errno;
    if (!std) close(fd);
    if (n < 0) {
        tool_error(t, "cannot read %s: %s", name, strerror(error));
        return false;
    }
    if (len > limit) {
        tool_error(t, "%s is too long (over %zu bytes)", name, limit);
        return false;
    }
    data[len] = 0;
    *file = (FileText){ data, len };
    if (std) {
        t->standard_input = data;
        t->standard_input_len = len;
    }
    return true;
}

void outputs_add(Tool *t, Outputs *o, const char *path, const void *data, size_t len)
{ vec_push(&t->arena, &o->list, ((Output){ .path = path, .data = data, .len = len })); }

static bool write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* like: a file whose permissions the new one takes, or NULL */
static bool write_to(const char *path, int flags, const void *data, size_t len, const char *like)
{
    struct stat st;
    int fd = !strcmp(path, "-") ? dup(STDOUT_FILENO) : open(path, O_WRONLY | O_CLOEXEC | flags, 0666);
    if (fd < 0) return false;
    bool ok = write_all(fd, data, len) && (!like || stat(like, &st) || !fchmod(fd, st.st_mode & 07777));
    int error = errno;
    if (close(fd) && ok) {
        ok = false;
        error = errno;
    }
    errno = error;
    return ok;
}

static bool in_place(const char *path)
{
    struct stat st;
    return !strcmp(path, "-") || (!stat(path, &st) && !S_ISREG(st.st_mode));
}

/* A symbolic link keeps being one: the file it names is replaced. */
static const char *real_target(Tool *t, const char *path)
{
    char real[PATH_MAX];
    return realpath(path, real) ? arena_strdup(&t->arena, real) : path;
}

static bool same_file(const char *a, const char *b)
{
    struct stat s, t;
    return !strcmp(a, b) || (!stat(a, &s) && !stat(b, &t) && S_ISREG(s.st_mode) && s.st_dev == t.st_dev &&
                                s.st_ino == t.st_ino);
}

bool outputs_spare(Tool *t, const Outputs *o, const char *input)
{
    for (size_t i = 0; i < o->list.len; i++)
        if (strcmp(input, "-") && same_file(o->list.data[i].path, input)) {
            tool_error(t, "%s is an input, and would be written to", input);
            return false;
        }
    return true;
}

/* Writes to the temporary file beside the target. */
static bool write_temporary(Output *x)
{
    unlink(x->temporary);
    if (write_to(x->temporary, O_CREAT | O_EXCL, x->data, x->len, x->keeps_mode ? x->target : NULL))
        return true;
    if (errno == EEXIST) x->temporary = NULL; /* It is another one's, and stays. */
    return false;
}

/* Writes all contents: those of files first, then those of devices and pipes, so that no file is in place
 * where one of the latter fails. Returns the output that failed, with errno, or NULL. */
static const Output *write_contents(Outputs *o)
{
    for (size_t i = 0; i < o->list.len; i++)
        if (o->list.data[i].temporary && !write_temporary(&o->list.data[i])) return &o->list.data[i];
    for (size_t i = 0; i < o->list.len; i++) {
        const Output *x = &o->list.data[i];
        if (!x->target && !write_to(x->path, 0, x->data, x->len, NULL)) return x;
    }
    return NULL;
}

int outputs_commit(Tool *t, Outputs *o)
{
    size_t n = o->list.len;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (same_file(o->list.data[i].path, o->list.data[k].path))
                return tool_error(t, "two outputs go to %s", o->list.data[i].path);
    /* Make all names before the first file: memory may run out here, and then no file is left behind. */
    for (size_t i = 0; i < n; i++) {
        Output *x = &o->list.data[i];
        if (in_place(x->path)) continue;
        x->target = real_target(t, x->path);
        x->temporary = arena_printf(&t->arena, "%s.tmp%ld", x->target, (long)getpid());
    }
    const Output *failed = write_contents(o);
    for (size_t i = 0; i < n && !failed; i++) {
        const Output *x = &o->list.data[i];
        if (x->temporary && rename(x->temporary, x->target)) failed = x;
    }
    if (!failed) return EXIT_OK;
    int error = errno;
    for (size_t i = 0; i < n; i++)
        if (o->list.data[i].temporary) unlink(o->list.data[i].temporary);
    const char *name = strcmp(failed->path, "-") ? failed->path : "standard output";
    return tool_error(t, "cannot write %s: %s", name, strerror(error));
}
