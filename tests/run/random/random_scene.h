/* random_scene.h: what the files of `--kind=patterns` share: a scene writes statements around one form that
 * a pass looks for (random_patterns.c, random_scenes.c). */
#pragma once
#include "random_head.h"

typedef struct Scene {
    Arranger *a;
    int tm, tn, tk, d, heads, r;
    int matrices, rows, columns, deep; /* of a batch of products: those of a program, and their extents */
} Scene;

/* Bounds of a loop of so many steps, or of fewer, or of none. */
const char *scene_bounds(Scene *, const char *all);
/* The steps along N. */
const char *scene_columns(Scene *);

/* random_scenes.c */
void scene_batch(Scene *);          /* products of a batch of small matrices: batches */
void scene_read_both_ways(Scene *); /* keys that are values, too: transposed stages */
void scene_own_magnitude(Scene *);  /* rows divided by their own magnitude, positions beside a maximum */
void scene_extremes(Scene *);       /* minima and maxima of bytes: half-integers */
