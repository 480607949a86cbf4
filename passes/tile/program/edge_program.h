/* edge_program.h: programs inside a tensor and programs at its edge, between edge_program.c and
 * edge_gathers.c. */
#pragma once
#include "passes/tile/analysis/affine.h"

enum { EDGE_MOST_FORMS = 8 };

/* A gather, and the tile that it is inside. */
typedef struct EdgeGather {
    Instr *gather;
    Value *inside;
} EdgeGather;

typedef struct Edge {
    PassContext *c;
    Func *f;
    Facts *facts;
    Affine within[EDGE_MOST_FORMS]; /* all at least 0 where every access is in range */
    int n, loads;
    bool steps;        /* an access goes by steps, so by element: without masks, all are held at once */
    bool starts;       /* an access may begin before its tensor */
    bool cuts;         /* rows end between two vectors */
    InstrList windows; /* that are in range then */
    InstrList loaded;  /* windows that stand for gathers */
    VEC(EdgeGather) gathers;
} Edge;

/* Adds the condition that the form is at least 0. False: there are too many. */
bool edge_add_form(Edge *, const Affine *);
/* Takes note of a masked access. False: no condition says that it is in range, or there are too many. */
bool edge_take_window(Edge *, Instr *);
/* Builds the windows that gathers load inside, in front of them, and adds their conditions. */
void edge_find_gathers(Edge *);
/* Lets these gathers load their windows. */
void edge_load_gathers(Edge *);
