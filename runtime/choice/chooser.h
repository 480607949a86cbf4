/* chooser.h: the configurations that a kernel's launches have taken without a table. choose.c makes and reads
 * them, write_choices.c puts them into a table. */
#pragma once
#include "runtime/launch/kernel.h"

/* Part i has FIRST_PART << i choices: launches read them without the lock, so they stay where they are. */
enum { FIRST_PART = 128, MOST_PARTS = 16, MEMO_SLOTS = 64 };

typedef struct Choice {
    const FrontBinding *config;
    int n;
} Choice;
typedef struct Chosen {
    struct Chosen *older, *next;
    size_t bytes;
    uint64_t hash;
    int choice;
    double ns; /* its estimate; 0: not known */
    uint64_t words[];
} Chosen; /* the key without its choice, then the extents. `next`: of the same slot */

struct Chooser {
    Session session; /* configurations */
    Choice *part[MOST_PARTS];
    int n; /* number 0: the declared defaults */
    _Atomic(Chosen *) slot[MEMO_SLOTS];
    Chosen *memos;
    int n_memos, searched;
};

static inline int choice_part(int i) { return 31 - __builtin_clz((unsigned)(i / FIRST_PART + 1)); }
static inline Choice *choice_at(const struct Chooser *c, int i)
{
    int part = choice_part(i);
    return &c->part[part][i - FIRST_PART * ((1 << part) - 1)];
}
