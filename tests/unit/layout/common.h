/* Shared by the layout tests: an arena that must not fail, a fixed random stream, random layouts. */
#pragma once
#include "ir/support/arena.h"
#include "ir/layout/layout.h"
#include "unit.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf out_of_memory;
static Arena arena;

static void arena_start(void)
{
    if (setjmp(out_of_memory)) abort();
    arena_init(&arena, allocator_libc, &out_of_memory);
}

static uint64_t random_state = 0x9E3779B97F4A7C15u;
static uint32_t rnd(uint32_t n)
{ /* 0 .. n-1 */
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % n;
}

#define I(...) ((const int32_t[]){ __VA_ARGS__ })

/* One register of one lane of one warp. `for (Place p = { 0 }; p.warp < layout_warps(l); place_next(l, &p))`
 * visits those of a layout. */
typedef struct Place {
    uint32_t reg, lane, warp;
} Place;

static inline void place_next(const Layout *l, Place *p)
{
    if (++p->reg < layout_regs(l)) return;
    p->reg = 0;
    if (++p->lane < layout_lanes(l)) return;
    p->lane = 0;
    p->warp++;
}

static inline void element_at(const Layout *l, Place p, int32_t *c)
{ layout_element(l, p.reg, p.lane, p.warp, 0, c); }

/* Extents that are whole fragments, parts of them, and neither. */
static const int32_t layout_extents[] = { 96, 176, 80, 48, 64, 128, 16, 24, 40, 8, 1, 100, 7 };

static inline void random_tile(int32_t *tile)
{ tile[0] = layout_extents[rnd(13)], tile[1] = layout_extents[rnd(13)]; }

static inline uint32_t term_value(const LayoutTerm *t, uint32_t lane, uint32_t warp)
{
    uint32_t v = (t->in == LAYOUT_LANE ? lane : t->in == LAYOUT_WARP ? warp : 0) >> t->shift;
    v /= t->div;
    if (t->mod) v %= t->mod;
    return v * t->mul;
}

/* A tile element as one number. */
static inline int64_t flat(const Layout *l, const int32_t *c)
{
    int64_t x = 0;
    for (int d = 0; d < l->rank; d++) x = x * l->cover[d] + c[d];
    return x;
}

/* Every coordinate of the tile is held, equally often, and nothing lies outside the covered box. */
static inline bool covers(const Layout *l, uint32_t *copies)
{
    int64_t n = 1;
    for (int d = 0; d < l->rank; d++) n *= l->cover[d];
    uint32_t *seen = calloc((size_t)n, sizeof *seen);
    bool ok = true;
    for (uint32_t b = 0; b < layout_blocks(l); b++)
        for (uint32_t w = 0; w < layout_warps(l); w++)
            for (uint32_t t = 0; t < layout_lanes(l); t++)
                for (uint32_t r = 0; r < layout_regs(l); r++) {
                    int32_t c[LAYOUT_MAX_RANK];
                    layout_element(l, r, t, w, b, c);
                    for (int d = 0; d < l->rank; d++) ok &= c[d] >= 0 && c[d] < l->cover[d];
                    if (ok) seen[flat(l, c)]++;
                }
    for (int64_t i = 0; i < n; i++) ok &= seen[i] == seen[0] && seen[i] > 0;
    *copies = seen[0];
    free(seen);
    return ok;
}

/* A random layout of a tile of rank 2 with the given numbers of lanes (32) and warps (a multiple of 4). */
static inline const Layout *random_layout(const int32_t *tile, int32_t warps)
{
    for (;;) {
        const Layout *l = NULL;
        int32_t order[2] = { 1, 0 }, per[2] = { 1, 1 }, lanes[2] = { 1, 1 }, w[2] = { 1, 1 };
        if (rnd(2)) order[0] = 0, order[1] = 1;
        w[rnd(2)] = warps;
        if (rnd(3) == 0) w[0] = 2, w[1] = warps / 2;
        switch (rnd(6)) {
        case 0:
        case 1:
            per[rnd(2)] = 1 << rnd(4);
            lanes[0] = 1 << rnd(6), lanes[1] = 32 / lanes[0];
            l = layout_blocked(&arena, 2, tile, per, lanes, w, order);
            break;
        case 2: l = layout_mma(&arena, LAYOUT_M16N8K16, (LayoutRole)rnd(3), 2, tile, w); break;
        case 3: l = layout_mma(&arena, (LayoutMma)(LAYOUT_M16N8K16 + rnd(7)), LAYOUT_C, 2, tile, w); break;
        case 4: {
            int32_t g[2] = { 1, 1 };
            g[rnd(2)] = warps / 4;
            l = layout_mma(&arena, LAYOUT_WGMMA_K16, rnd(2) ? LAYOUT_A : LAYOUT_C, 2, tile, g);
            break;
        }
        case 5: {
            const int32_t swapped[2] = { tile[1], tile[0] };
            const Layout *p = layout_mma(&arena, LAYOUT_M16N8K16, (LayoutRole)rnd(3), 2, swapped, w);
            l = p ? layout_permute(&arena, p, I(1, 0)) : NULL;
            break;
        }
        }
        if (l) return l;
    }
}
