/* pieces.h: for the quick form of the model, which keeps windows instead of lines: windows that overlap
 * without being equal (the halos of a convolution) are cut at places of the tensor, so that what two of them
 * share is the same pieces.
 *
 * An axis along which windows start elsewhere than at multiples of their extent is cut into halves of a
 * window; a window touches up to three of them, each with the share of it that it covers. Other axes stay
 * whole. Where anything is cut, the windows of all operations are made of pieces of about one size, as the
 * caches of the quick form want it. */
#pragma once
#include "passes/sim/trace_impl.h"

/* Of one site. axes: of the tensor, the largest stride first. */
typedef struct SimCut {
    bool loose[TILE_MAX_RANK], cut;
    int32_t cell[TILE_MAX_RANK], axes[TILE_MAX_RANK], n_axes, parts;
    double bytes;
} SimCut;

void sim_cut_begin(const SimTrace *, SimCut *); /* zeroed ones, one a site */
void sim_cut_learn(
    const SimTrace *, const SimAccess *, SimCut *); /* an access that happens, and how its site is cut */
void sim_cut_finish(const SimTrace *, SimCut *);    /* all of them: cells and parts */

/* Each piece of the access: a name, and its share of the access's bytes. */
typedef void PieceFn(void *user, uint64_t name, double share);
void sim_cut_pieces(const SimTrace *, const SimAccess *, const SimCut *, PieceFn *, void *user);
