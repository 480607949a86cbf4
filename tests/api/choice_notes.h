/* choice_notes.h: what tests of choices have in common. */
#pragma once
#include "api.h"

/* Performance notes of choices: how many, and the last one's text; and how many say that a launch is far from
 * the roofline. */
typedef struct Notes {
    int n, far;
    char last[400];
} Notes;

static void note(void *user, const tile_diagnostic *d)
{
    Notes *n = user;
    n->far += d->severity == TILE_SEVERITY_PERFORMANCE && strstr(d->message, "of the roofline of");
    if (d->severity != TILE_SEVERITY_PERFORMANCE || !strstr(d->message, "no table speaks")) return;
    n->n++;
    snprintf(n->last, sizeof n->last, "%s", d->message);
}

static const char auto_text[] =
    "kernel copy(in f32 X[N], out f32 Y[N], const int BLOCK = auto) grid (cdiv(N, BLOCK)) {\n"
    "    let i = program_id();\n    store(Y[i*BLOCK +: BLOCK], load(X[i*BLOCK +: BLOCK]) + 1.0);\n}\n"
    "tune copy { require (BLOCK <= 2048); }\n";
