/* explain_pictures.h: between the pictures of `tilec explain`. */
#pragma once
#include "tools/tilec/explain/explain.h"
#include "tools/draw/draw.h"

/* explain_access_picture.c: which thread moves which elements of each tile, coloured by what its requests
 * move. */
void draw_accesses(Explained *, Text *);
/* explain_memory_picture.c: registers and shared memory against their limits, and the banks of each access.
 */
void draw_resources(Explained *, Text *);

/* A page's width: `least`, or more where its title needs it. The title is never cut. */
double picture_width(double least, const char *title, const char *note);
void picture_title(Text *, const char *title, const char *note);
/* The frame's axes: what runs downwards and to the right, and how far. */
void picture_axes(Text *, double x, double y, double width, double height, const char *down,
    const char *right, int64_t rows, int64_t columns);
