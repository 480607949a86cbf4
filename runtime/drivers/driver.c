/* driver.c: the list of drivers and backends of this build, and small things that drivers share. */
#include "runtime/drivers/driver.h"
#include <stdarg.h>
#include <stdio.h>

void driver_error(DriverError *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    format_args(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
}

const DriverOps *driver_ops(TargetKind kind)
{
    switch (kind) {
    case TARGET_CPU: return &driver_cpu;
    case TARGET_CUDA: return &driver_cuda;
    case TARGET_HIP: return &driver_hip;
    }
    return NULL;
}

const Backend *driver_backend(TargetKind kind)
{
    switch (kind) {
    case TARGET_CPU:
#ifdef TILE_HAVE_BACKEND_CPU
        return &backend_cpu;
#else
        return NULL;
#endif
    case TARGET_CUDA:
#ifdef TILE_HAVE_BACKEND_CUDA
        return &backend_cuda;
#else
        return NULL;
#endif
    case TARGET_HIP:
#ifdef TILE_HAVE_BACKEND_HIP
        return &backend_hip;
#else
        return NULL;
#endif
    }
    return NULL;
}

bool driver_blob_resize(Allocator a, DriverBlob *b, size_t size)
{
    if (size > b->capacity) {
        size_t capacity = size < 256 ? 256 : size + size / 2;
        void *p = a.realloc(a.user, b->data, b->capacity, capacity);
        if (!p) return false;
        b->data = p;
        b->capacity = capacity;
    }
    b->size = size;
    return true;
}

void driver_blob_free(Allocator a, DriverBlob *b)
{
    if (b->data) a.realloc(a.user, b->data, b->capacity, 0);
    *b = (DriverBlob){ 0 };
}
