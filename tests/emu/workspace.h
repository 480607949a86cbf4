/* workspace.h: the workspace of an emulated launch, full of what others left. */
#pragma once
#include "backends/gpu/gpu.h"
#include "tests/emu/emu.h"

enum { WORKSPACE_ALIGN = 256 };

typedef struct Workspace {
    char *base;
    int64_t bytes;
} Workspace;

static inline Workspace workspace_new(Arena *a, int64_t bytes)
{
    char *p = arena_alloc(a, (size_t)bytes + WORKSPACE_ALIGN);
    p += -(uintptr_t)p & (WORKSPACE_ALIGN - 1);
    return (Workspace){ memset(p, 0xa5, (size_t)bytes), bytes };
}

/* The launch may read and write it. */
static inline void workspace_allow(const Workspace *w) { emu_global_tensor(w->base, w->base + w->bytes); }
