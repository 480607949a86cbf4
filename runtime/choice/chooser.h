/* chooser.h: the configurations that a kernel's launches have taken without a table. choose.c makes and reads
 * them, write_choices.c puts them into a table. */
#pragma once
#include "runtime/choice/search/search.h"
#include "runtime/launch/kernel.h"

/* Part i has FIRST_PART << i choices: launches read them without the lock, so they stay where they are. */
enum { FIRST_PART = 128, MOST_PARTS = 16, MEMO_SLOTS = 64 };

/* ns, spilled: as a SearchOther has them; ns 0: not known. */
typedef struct Choice {
    const FrontBinding *config;
    int n, n_others;
    double ns, spilled;
    SearchOther other[SEARCH_OTHERS];
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

/* An estimate as a Choice has it. */
static inline double choice_ns(double ns) { return ns < 1e15 ? ns : 0; }

/* ask.c: searches for the configuration of a launch with this key, and reports the answer, which lies in the
 * session. False: there is nothing to choose. */
bool ask_search(tile_kernel *, Session *, const LaunchArgs *, const uint64_t *key, SearchResult *);
/* choose_programs.c: whether warps and CTAs are chosen for this kernel's variants, and which for the variant
 * of this key, by the launch that it is compiled for. The result lies in the session; NULL: the passes
 * decide. `ended`: nothing was left out for want of memory. */
bool chooses_programs(const tile_kernel *);
const Choice *choose_programs(tile_kernel *, Session *, const LaunchArgs *, const uint64_t *key, bool *ended);
/* choose.c: keeps a copy of the choice, if there is none like it; its number. */
int chooser_add(tile_kernel *, const Choice *);
/* choice_file.c: the entry of the disk cache for what a choice is remembered by; reads the choice from it
 * into the chooser, with its estimate; writes it. */
void chooser_key_device(const tile_kernel *, Text *); /* adds what of the device decides a choice */
CacheKey chooser_key(tile_kernel *, Session *, const uint64_t *words, size_t n);
bool chooser_read(tile_kernel *, Session *, const CacheKey *, int *choice, double *ns);
void chooser_write(tile_kernel *, Session *, const CacheKey *, const Choice *);
