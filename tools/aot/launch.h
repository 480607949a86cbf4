/* launch.h: the part of every generated header that is the same in all of them; tilec copies the text between the marks. */
/* begin */
#ifndef TILE_LAUNCH_H
#define TILE_LAUNCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A tensor: address of its first element, extents, strides in elements (NULL: row-major without gaps). */
typedef struct tile_view { void *data; const int64_t *shape, *strides; } tile_view;

/* How a launch may use threads. NULL, or n = 1: the caller's alone. n = 0: as many as there are processors.
 * run, if not NULL, calls task(arg, 0) .. task(arg, n - 1), in any order and at once if it likes, on the pool's threads, and
 * returns when all are done; else threads are started for the launch. */
typedef struct tile_threads {
    int n;
    void (*run)(void *pool, int n, void (*task)(void *arg, int i), void *arg);
    void *pool;
} tile_threads;

typedef union tile_launch_arg { tile_view view; uint64_t word; } tile_launch_arg;   /* used by the launchers below */

/* What launchers return: the numbers of tile_status in tile/tile.h. */
enum {
    TILE_LAUNCH_OK = 0,
    TILE_LAUNCH_INVALID = 1,        /* a null pointer where there are elements */
    TILE_LAUNCH_OUT_OF_MEMORY = 2,
    TILE_LAUNCH_NO_VARIANT = 5,     /* nothing was compiled for these extents and consts */
    TILE_LAUNCH_UNSUPPORTED = 6,    /* not on this processor */
    TILE_LAUNCH_SHAPE = 8,          /* extents disagree among arguments, or are negative */
    TILE_LAUNCH_ALIGNMENT = 11,     /* an address is no multiple of its element's size */
    TILE_LAUNCH_OVERLAP = 12,       /* an out or inout tensor overlaps another argument */
    TILE_LAUNCH_GRID = 13,          /* too many programs */
    TILE_LAUNCH_REMAP = 14,         /* the kernel's remap is no permutation of this grid */
    TILE_LAUNCH_CHECK = 19          /* a check compiled in with --check failed */
};
#endif
/* end */
