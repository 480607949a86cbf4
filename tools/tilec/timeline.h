/* timeline.h: one iteration of a kernel's main loop as steps in program order: what is copied, multiplied,
 * computed, waited for, by which role. Steps are not times; a product is drawn from where it is issued to
 * where it is waited for. */
#pragma once
#include "ir/ir.h"

typedef enum Lane { LANE_COPY, LANE_WAIT, LANE_MATRIX, LANE_MATH, LANE_MEMORY, LANE_COUNT } Lane;

typedef struct Span {
    Lane lane;
    int begin, end;          /* steps; end > begin where it lasts until it is waited for */
    bool open;               /* waited for in the next iteration */
    const char *name, *text; /* short, and all there is to say */
    int line;                /* of the .tile file, 0 unknown */
} Span;

/* What one role (or the whole program) does. */
typedef struct Track {
    const char *title;
    int line; /* of the loop, 0: the program has none */
    int steps;
    VEC(Span) spans;
} Track;
typedef VEC(Track) Timeline;

/* Of tile IR after the passes, or of kernel IR. */
void timeline_build(Session *, const Func *, Timeline *);
void timeline_text(const Timeline *, Text *);
void timeline_svg(const char *title, const Timeline *, Text *);
