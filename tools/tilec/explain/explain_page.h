/* explain_page.h: what `tilec explain` writes about all variants together: the roofline, and the page. */
#pragma once
#include "tools/tilec/explain/explain.h"
#include "tools/draw/draw.h"

/* One variant under the roofs. */
typedef struct RoofPoint {
    const char *name;
    double intensity,
        rate;       /* operations for each byte of the tensors; 10^12 operations a second, 0: not known */
    bool estimated; /* by the cost model; else the best case of the cache model */
} RoofPoint;

typedef struct Roofline {
    Explained *first;
    VEC(RoofPoint) points;
} Roofline;

/* Adds the variant. False after a message. */
bool roofline_add(Explained *, Roofline *);
/* Whether roofs are known of a device that runs the target's code. */
bool roofline_known(const Explained *);
/* The picture. False after a message: no roofs are known. */
bool roofline_draw(const Roofline *, Text *);

/* explain_html.c: one page of a variant: source, tile IR, kernel IR and emitted text with their lines linked,
 * what the passes did (`report`), the memory report and all pictures. It uses nothing from outside. */
void explain_page(Explained *, const Timeline *, const Text *report, const Roofline *, Text *);
