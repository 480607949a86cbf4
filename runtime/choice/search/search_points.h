/* search_points.h: between search.c, which decides what to look at, and search_estimate.c, which estimates
 * it. */
#pragma once
#include "ir/hints.h"
#include "ir/layout/layout_memo.h"
#include "runtime/choice/search/search.h"
#include <pthread.h>

enum {
    SEARCH_AGAIN = 3,            /* configurations of different tiles that are looked at in later rounds */
    SEARCH_MOST_OF_A_CLUSTER = 8 /* parts of a loop */
};
/* Ratio of estimates of streams below which they can hardly be told apart. */
#define SEARCH_HARDLY_WORSE 1.02
enum { MOST_NAMES = 12, MOST_VALUES = 16, MOST_FITTED = 24, MOST_POINTS = 2048, MOST_WORKERS = 16 };

/* A name of the tune block. The last value is the declared one, where the domain lacks it (`absent`); for a
 * hint: not given. */
typedef struct SearchName {
    const char *name;
    const HintInfo *hint; /* NULL: a constant */
    int domain;           /* of the tune block; -1: the search has added the name */
    int n, declared;      /* values; which of them is as declared */
    int beside;           /* another name that says something only beside this one, or -1 */
    bool alone;           /* no two of its values say the same (search_said) */
    int alike; /* the listed value of a hint that says what the compiler does where it is not given, or -1 */
    int allowed_by; /* another name, without some value of which this one says nothing, or -1 */
    bool shapes_grid, absent;
    const char *along; /* the dimension that the tiles of an `auto` constant lie along, or NULL */
    /* The value behind those of the domain that is the extent of that dimension: a tile holds the whole axis,
     * loops over it are gone, and code is specialized on the extent. -1: there is none. */
    int whole;
    /* No constant: with the second of its values, code is specialized on the extents by which the kernel
     * divides (FrontKernel.divisors). */
    bool divisors;
    bool derived;    /* an `auto` constant whose domain the compiler made */
    bool order_only; /* it decides only the order of programs: the best sizes do not depend on it */
    bool with_tiles; /* tried in every combination with the other such names */
    bool fixed;      /* left as declared */
    int64_t step; /* between those listed multiples of it may be tried, as the last `fitted` values; or 0 */
    int fitted;
    FrontValue values[MOST_VALUES + 1 + MOST_FITTED];
} SearchName;

/* The values that the domain lists. */
static inline int search_listed(const SearchName *n) { return n->n - n->absent - n->fitted; }

/* The values of a point, to be compared at once: those whose bytes are set in `mask`. */
typedef struct SearchPacked {
    uint64_t first;
    uint32_t rest;
} SearchPacked;
_Static_assert(MOST_NAMES == sizeof(uint64_t) + sizeof(uint32_t), "all values of a point");

static inline SearchPacked search_pack(const uint8_t *at)
{
    SearchPacked x;
    memcpy(&x.first, at, sizeof x.first);
    memcpy(&x.rest, at + sizeof x.first, sizeof x.rest);
    return x;
}

static inline uint32_t search_mixed(SearchPacked x)
{ return (uint32_t)((x.first ^ (uint64_t)x.rest << 32 ^ x.rest) * 0x9E3779B97F4A7C15u >> 32); }

static inline bool search_same_in(SearchPacked mask, SearchPacked a, SearchPacked b)
{ return !(((a.first ^ b.first) & mask.first) | ((a.rest ^ b.rest) & mask.rest)); }

/* A configuration: a value of each name, and what is estimated of it. */
typedef struct SearchPoint {
    uint8_t at[MOST_NAMES];
    double ns, words, held, shared, iterations,
        again;   /* what cost.h counts of a thread and of a program; again: a part of what comes in */
    double live; /* words of a thread that are in use together (cost.h) */
    double full, spilled; /* the part of its registers that tiles take at least; what each byte that a thread
                             spills adds to ns */
    double careful;       /* the careful estimate, as ns is the plain one */
    double nearby;        /* bytes that a CTA adds to what others of its group of multiprocessors load */
    double few, many;     /* without a `tune` block: the careful estimates of launches in which each
                             multiprocessor has one program of the declared configuration, and many; else 0 */
    int64_t programs;
    Bound bound;
    bool known;           /* it has an estimate, be it that it does not fit, or gets none */
    double log_predicted; /* the logarithm of what the estimate may be, where there is none; else 0 */
    int next;             /* in a list of points, one more than its number; 0: none */
    bool uncertain, products, cp_async;
    bool few_warps;             /* products are of single warps, and it reduces tiles, too, or has no loop */
    bool once;                  /* no loop of it runs more than once */
    bool divided;               /* loops are, among CTAs */
    bool loads_together;        /* programs are to load together in clusters, be it that they cannot */
    bool loads_apart;           /* they are to and cannot, as they share nothing */
    bool ragged;                /* its loops walk over ranges between loaded offsets */
    bool open;                  /* data end them, nobody knows after how many rounds */
    bool sure;                  /* it is better than the declared one by more than the estimates count */
    bool warps_given, trips;    /* it is said how many warps there are; loops wait for what they load */
    double waits;               /* how often they do, in a program */
    bool cluster_given;         /* it is said whether they are to */
    bool parts_given;           /* it is said in how many parts, be it one */
    bool few_stages;            /* producers run two steps ahead at most */
    bool one_stage;             /* and not while a step is multiplied */
    bool keeps, kept;           /* rows may stay in shared memory; they do */
    bool may_keep;              /* they would, or begin anywhere, if they might */
    bool rows;                  /* registers hold rows, of whole vectors, while these are reduced */
    bool begins;                /* they begin anywhere, and stay there if there are enough threads */
    int weights;                /* vectors that are read beside such rows */
    int ctas, threads, cluster; /* of a multiprocessor, of a CTA, CTAs of a cluster where they do */
    bool declined;              /* cp.async producers would fill more, if that were asked for */
    const struct SearchPoint *same; /* an earlier point that gives the same code, or NULL */
    bool overfull; /* it fits shared memory, and takes more registers than a lane has: words go to memory */
} SearchPoint;

typedef struct SearchTiles SearchTiles;
typedef struct SearchSurrogate SearchSurrogate;

/* [0]: the caller's thread */
enum { TILE_LISTS = 128, SCRATCH_SLOTS = 512, POINT_LISTS = 1024 };
typedef struct SearchScratch {
    SearchPacked of;
    int64_t bytes;
} SearchScratch;
typedef struct SearchWorker {
    Session s;
    LayoutMemo plans; /* for the session's arena: candidates, of all workers, share most of their layouts */
    Ast *ast;
    const SearchTiles *tiles[TILE_LISTS]; /* search_tiles.c: in the session, kept; by what decides them */
    size_t kept_bytes;                    /* of these */
    SearchScratch scratch[SCRATCH_SLOTS]; /* what conversions of the last point with such tiles took */
    bool open, runs;
    double
        rate[DT_COUNT]; /* of products on the CPU; 0: not asked for. Asking executes `cpuid`, which is slow */
    pthread_t thread;
    struct Search *search;
} SearchWorker;

/* A condition of `require`, and which names it asks for; one that consists of others has their numbers. What
 * it says of the values of these names is kept from when it is first asked, since nothing else decides it: a
 * bit of `known` and of `holds` for each combination, in the order of the names. size: the combinations; 0:
 * too many to be kept. */
enum { MOST_TERMS = 96, MOST_KEPT = 1 << 14 };
typedef struct SearchTerm {
    const FrontCondition *condition;
    FrontJoin join;
    int part[3];
    bool asks[MOST_NAMES];
    uint8_t asked[MOST_NAMES]; /* those names */
    int n_asked, size;
    uint8_t *known, *holds;
    FrontAsk *ask; /* of a condition without parts, and what is bound in it that */
    const FrontBinding *fixed;
    int n_fixed; /* is not chosen */
} SearchTerm;

/* The least estimates of tiles: of the points that are alike in the names that decide between tiles. */
enum { LEAST_SLOTS = 4096 };
_Static_assert(LEAST_SLOTS >= 2 * MOST_POINTS, "few tiles share a slot");
typedef struct SearchTile {
    int used;        /* in which call of search_least, counted from 1; another number: the place is empty */
    SearchPacked of; /* values of these names, 0 of the others */
    double ns;
} SearchTile;
typedef struct SearchLeast {
    SearchPacked mask; /* those names */
    int calls;
    SearchTile tile[LEAST_SLOTS];
} SearchLeast;

typedef struct Search {
    const SearchProblem *p;
    Session *s;
    Ast *ast;
    const FrontTune *tune;
    const FrontKernel *front;
    SearchName name[MOST_NAMES];
    int n_names;
    int deciding[MOST_NAMES], n_deciding; /* names that are tried with tiles, and cp.async */
    int dividing[MOST_NAMES], n_dividing; /* hints that say in how many parts CTAs divide programs */
    SearchPacked alone;                   /* names that say something by themselves */
    SearchLeast *least;                   /* of search_least; NULL: nobody has asked */
    SearchTerm term[MOST_TERMS];
    int n_terms; /* 0: `require` is asked as a whole */
    uint8_t
        *never; /* bits of the combinations of tiles that `require` rejects whatever the other names are */
    int all_of[MOST_TERMS], n_all_of; /* the terms that all have to hold; first those that did not of late */
    SearchSurrogate *surrogate;       /* of search_predict.c; NULL: nothing is predicted yet */
    SearchPoint point[MOST_POINTS];
    int list[POINT_LISTS], n_listed; /* of points by their values, as `next` has it; how many are in them */
    int n_points, most;              /* most: as many are looked at on the way through `auto` constants */
    SearchWorker worker[MOST_WORKERS];
    int n_workers;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t more, all_finished;
    int queue[MOST_POINTS];     /* points that want an estimate now */
    int next, finished, limit;  /* of these: the first that nobody took, how many have it, all */
    int n_estimated;            /* points that were compiled */
    double least_before;        /* the least estimate when these began; INFINITY: there was none */
    bool quit, short_of_memory; /* the latter: some point has no estimate for want of memory */
} Search;

/* Bindings of a point: each name, the extent of a whole axis, and those by which a kernel divides. */
enum { MOST_DIVISORS = 8, MOST_BOUND = 2 * MOST_NAMES + MOST_DIVISORS };

/* Bindings of a point, with the extents that code is specialized on; those that are as declared are left out
 * unless `all`. Returns their number. */
int search_bindings(const Search *, const SearchPoint *, bool all, FrontBinding *out);

/* search_names.c: fills the names that are chosen; whether bindings, or those of the caller, have a name;
 * whether the target is a CPU; whether the kernel declares `auto` constants; whether `require` allows the
 * point, where values outside their domain count as fixed. */
void search_add_names(Search *);
/* Once more, after names have more values. */
void search_add_terms(Search *);
bool search_binds(const FrontBinding *, int n, const char *name);
bool search_is_bound(const SearchProblem *, const char *name);
bool search_on_cpu(const Search *);
bool search_declares_auto(const Search *);
bool search_allowed(Search *, const SearchPoint *);
/* Whether `require` rejects the point whatever values the names have that may change. If it does not, and
 * there is place for the point's parts, leaves those names of which one alone may make `require` allow it. */
bool search_forbidden(Search *, const uint8_t *at, bool *may_change);
/* search_points.c: whether there is place for parts of loops. They meet in a cluster; more of them, and those
 * of a last round, in the workspace. */
bool search_has_place(const Search *, const uint8_t *at);

/* search_idle.c: whether the value of name `j` says nothing at this point, by an estimate of another value.
 */
bool search_is_idle(const Search *, const uint8_t *at, int j);
/* The point `at` with the smallest cluster, of whatever axis, whose estimate tells whether there is anything
 * to share; NULL: it has none, or is that point. */
const SearchPoint *search_least_cluster(const Search *, const uint8_t *at);
/* A point with an estimate that gives the same code as `at`; NULL: none is known. */
const SearchPoint *search_same_code(const Search *, const uint8_t *at);
/* The value of name `j` that stands for all that say the same at this point. */
uint8_t search_said(const Search *, const uint8_t *at, int j);

/* What is known now of tiles, until the next call. Whether the estimates of this point's tile, of which all
 * points have the same values of names that decide, are so far above the best one that the other names cannot
 * make up for it. One that did not fit may fit with others, and one whose ring has few stages and that waits
 * for loads may wait less with shorter steps, of which more fit. A ring of one stage says nothing of the
 * tile: nothing is loaded while it multiplies. */
SearchLeast *search_least(Search *);
bool search_is_hopeless(SearchLeast *, const uint8_t *at, double best);

/* search_streams.c: the point to take for `best` of those that stream and are estimated alike. */
int search_least_strained(const Search *, int best);
/* The same of tiles whose size is `auto`. */
int search_smallest_ctas(const Search *, int best);
int search_fewest_programs(const Search *, int best);
/* search_kept.c: the point to take for `best`, whose rows may stay in shared memory. */
int search_kept(Search *, int best);

/* Adds a point whose rows may stay in shared memory, if `require` allows it. */
void search_consider_kept(Search *, const uint8_t *at);
int search_hint_name(const Search *, HintId); /* the name of a hint that is searched; -1: it is not */

/* search_others.c: fills what is to be taken instead of point `best`, which `out` has, if that spills. */
void search_others(Search *, int best, SearchResult *out);

/* search_programs.c: the point to take for `best`, whose programs may have other warps, and CTAs other
 * bounds. Whether the source or the bindings say how the programs run: then all of it stays.
 */
bool search_says_of_programs(const FrontKernel *, const FrontBinding *, int n);
int search_programs(Search *, int best);
int search_few_warps(Search *, int best); /* search_few_warps.c */

/* search_rows.c: the point to take for `best`, whose rows registers hold. */
int search_rows(Search *, int best);

/* Opens the workers; closed with the session, or before. */
void search_open_workers(Search *);
void search_close_workers(void *search);
/* Estimates points that have no estimate yet, in threads that stay for the next time: those that may be best
 * where this can be predicted, else all of them. */
void search_estimate(Search *);
/* The same without predictions. */
void search_estimate_all(Search *);
/* All of these points. The point has the estimate of another one, which gives the same code. */
void search_estimate_these(Search *, const int *points, int n);
void search_take_estimate(SearchPoint *, const SearchPoint *of);
/* search_predict.c: whether the estimates of this block are predicted before points are compiled. Estimates
 * the points without an estimate that may be the best by that. */
bool search_predicts(const Search *);
void search_estimate_promising(Search *);
/* What a search of tiles on a CPU estimates: see search_cpu.c. False: nothing can be said. */
bool search_estimate_cpu(const Search *, SearchWorker *, SearchPoint *, const FrontBinding *, size_t n);

/* search_tiles.c: the tile IR of the point, whose bindings are those of the job, with its hints, and what
 * compile_tiles says of it. Later calls may return the same function with other hints. NULL: it does not
 * compile. */
Func *search_tiles(Search *, SearchWorker *, const SearchPoint *, const CompileJob *, Compiled *);

/* search_fit.c: false if some product's operands certainly fit neither shared memory nor the registers of a
 * multiprocessor of the CostDevice, which tile IR tells in a fraction of the time of a compilation. */
bool search_may_fit(const void *device, const Func *);

/* Estimates that differ by less are equal; of equal ones the first is taken. */
static inline bool search_is_less(double a, double b) { return a < b * 0.9999; }

/* search_points.c: adds a point without an estimate, unless `require` rejects it; false: it does.
 * search.c: the best point that is none of these; -1: there is none. */
bool search_add(Search *, const uint8_t *at);
/* The point with these values; NULL: there is none. */
const SearchPoint *search_find(const Search *, const uint8_t *at);
int search_best(const Search *, const int *but, int n);
/* The best points of different tiles, at most so many; how many there are. */
int search_best_of_different_tiles(const Search *, int *tops, int most);
bool search_same_tiles(const Search *, const SearchPoint *, const SearchPoint *);
/* Adds `at` with value `v` of name `j`; one that `require` rejects with another value of one other name. */
void search_consider_value(Search *, const uint8_t *at, int j, int v);
/* Tries the values of each name that does not shape the grid, from each of these points, which become the
 * best with the same tiles. */
void search_improve(Search *, int *from, int n);
/* search_divided.c: the estimate of a point, divided by as many parts as its programs leave room for. */
double search_if_divided(const Search *, const SearchPoint *);
/* The best point where loops of few programs may be divided; `best`: the best so far. */
int search_divided(Search *, int best);
/* The best point where CTAs may share the programs of the last round (stream-k). */
int search_shares(Search *, int best);
/* search_order.c: the point that differs from this one in the order of programs alone, and suits groups of
 * multiprocessors best. */
int search_order(Search *, int best);
/* search_sizes.c: the best point where tiles may have sizes between those that are listed. */
int search_sizes(Search *, int best);
/* The same of a kernel with `auto` constants, whose way search_autos goes; then, where that is better, with
 * neighbouring programs that load together. */
int search_autos_with_hints(Search *);
/* search_auto.c: whether that is the way through this block: it has `auto` constants whose domains the
 * compiler made, or the target is a CPU. The number of the best point. */
bool search_has_autos(const Search *);
int search_autos(Search *);
/* The better of `from` and a point whose tile is longer along one axis and shorter along another: both of the
 * grid, or one of them a loop's step. */
int search_other_shape(Search *, int from, bool grid);
