/* timeline.h: one iteration of a kernel's main loop as steps in program order: what is copied, multiplied,
 * computed, waited for, by which role. Steps are not times; a product is drawn from where it is issued to
 * where it is waited for. */
#pragma once
#include "ir/ir.h"

typedef enum Lane { LANE_COPY, LANE_WAIT, LANE_MATRIX, LANE_MATH, LANE_MEMORY, LANE_COUNT } Lane;

typedef struct Span {
    Lane lane;
    int begin, end;          /* in steps; end > begin when the span lasts until an operation waits for it */
    bool open;               /* waited for in the next iteration */
    const char *name, *text; /* a short text, and the full one */
    int line;                /* the line of the .tile file; 0: unknown */
} Span;

/* The steps of one role, or of the whole program. */
typedef struct Track {
    const char *title;
    int line; /* the line of the loop; 0: the program has no loop */
    int steps;
    VEC(Span) spans;
} Track;
typedef VEC(Track) Timeline;

/* Builds the timeline of tile IR after the passes, or of kernel IR. */
void timeline_build(Session *, const Func *, Timeline *);
void timeline_text(const Timeline *, Text *);
void timeline_svg(const char *title, const Timeline *, Text *);
