/* cost_walk.h: between the parts of cost: cost.c takes the mean of some programs, cost_walk.c walks one,
 * cost_scalars.c evaluates its scalars, and cost_memory.c counts what its accesses move. */
#pragma once
#include "runtime/choice/cost/cost.h"

enum { MOST_PARAMS = 64 };

/* A scalar's value: of an earlier walk it is not known in this one, unless `walk` is COST_ALWAYS: no
 * program's coordinates decide it. */
typedef struct CostKept {
    uint32_t walk;
    Scalar v;
} CostKept;
#define COST_ALWAYS UINT32_MAX

typedef struct CostKnown {
    bool is;
    Scalar v;
} CostKnown;

/* What the lines of the source take of each resource, for the advice about a launch. */
enum { MOST_LINES = 64 };
typedef struct CostLine {
    Loc at; /* of the first operation of the line */
    int line;
    double of[BOUND_COUNT];
} CostLine;

/* The innermost loop around whose counter is known: `n` iterations from lo on. */
typedef struct CostCounter {
    const Value *at; /* NULL: there is none */
    int64_t lo, step, n;
} CostCounter;

typedef struct CostWalk {
    Session *s;
    const Func *f;
    Ranges *ranges; /* NULL until they are asked for */
    const EvalEnv *env;
    CostKept *kept;                           /* by value id */
    CheapValues *cheap;                       /* of all walks */
    uint32_t walk;                            /* this one, from 1 */
    int64_t coord[3], programs, linear, rank; /* rank: in its cluster */
    Cost c;
    struct Traffic *traffic; /* not NULL: only what is loaded is of interest, and programs are those of the
                                kernel's own order */
    int loops;               /* around, those over programs aside */
    double rounds;           /* of the producer's loop */
    CostCounter counter;
    int far;                       /* loops around this place whose bounds are loaded */
    bool producer, roles, counted; /* counted: this loop's round has waited already */
    int threads;                   /* that share the work of a tile */
    int units;                     /* multiprocessors of the device */
    KernelPlan *plan;
    const DeviceModel *model;
    const Target *target;
    const GpuCode *code;
    struct CostExchange **exchanges; /* by value id, of all walks: cost_exchange.c */
    double site[MOST_PARAMS];        /* by parameter: what the loads of a block that read most of it read */
    double site_here[MOST_PARAMS];   /* the same of the block that is walked, site_block */
    const Block *site_block[MOST_PARAMS];
    struct CostTaps *taps;           /* vectors that a thread has loaded: cost_taps.c */
    struct CostLines **access_lines; /* what accesses reach, of all walks: cost_lines.c */
    struct CostRows **rows;          /* that programs have loaded, of all walks: cost_cached.c */
    double written[MOST_PARAMS];     /* bytes of the tensor that are stored */
    double read[MOST_PARAMS]; /* the same of those that are loaded; of gathered elements their sectors */
    CostLine *lines;          /* room for MOST_LINES; NULL: not of interest */
    int n_lines;
    const Block *products; /* where products were counted last, and the bytes that they hold there: all of
                            * them, and those of carried sums and their operands */
    double held, sums;
    const Block *waits; /* where a wait for what is loaded and multiplied in one iteration was counted last */
    int together;       /* words of a thread that these loads take there */
} CostWalk;

/* A step of a walk for windows. window: it loads one of the tensor `param`, whose places are `rank` operands
 * from `first` on; bytes: that lie inside the tensor. whole: it takes values `in` to `out`, and scalar_whole
 * may say how. */
typedef struct TrafficStep {
    const Instr *i;
    const Attr *extents;
    bool window, whole;
    DType dtype;
    uint32_t in[2], out;
    int param, first, rank;
    double bytes;
} TrafficStep;

/* What a walk for windows does in a block, found when it comes there for the second time: accesses, control
 * flow, and scalars that differ between programs. */
typedef struct TrafficBlock {
    const Block *block;
    bool trimmed;
    VEC(TrafficStep) steps;
} TrafficBlock;

/* Windows that programs under way together load, each once. Hundreds of programs are walked for them, and
 * most of these load what others load, so that the table begins small. */
enum { MOST_WINDOWS = 4096, FIRST_WINDOWS = 256 };
typedef struct TrafficWindow {
    uint64_t seen; /* 0: nothing is here */
    double of;     /* what the program that loads most of it loads */
} TrafficWindow;
/* The places of a window in the iterations of its loop: the least and the greatest of each operand. */
enum { MOST_ITERATIONS_NAMED = 64, MOST_SPANS = 8, MOST_PLACES = TILE_MAX_RANK + 3 };
typedef struct TrafficSpan {
    const Instr *i;
    bool known;
    double times;
    int64_t place[MOST_PLACES][2];
} TrafficSpan;
typedef struct Traffic {
    VEC(TrafficBlock) blocks;
    TrafficSpan span[MOST_SPANS];
    int n_spans;
    bool wants_spans, spans; /* they are to be found; a program is walked for these alone */
    TrafficWindow *window;
    uint64_t places, n;                             /* of the table, a power of two; windows in it */
    double bytes[MOST_PARAMS], loaded[MOST_PARAMS]; /* loaded: by all programs */
} Traffic;
Traffic *cost_traffic_new(CostWalk *); /* cost_memory.c */

/* The tensor is one and the same all along this axis. */
static inline bool cost_same_along(const EvalEnv *env, int param, int axis)
{ return env->strides && env->strides[param][axis] == 0; }

static inline bool cost_always(const CostWalk *w, const Value *v)
{ return w->kept[v->id].walk == COST_ALWAYS; }
static inline CostKnown cost_get(const CostWalk *w, const Value *v)
{ return (CostKnown){ w->kept[v->id].walk == w->walk || cost_always(w, v), w->kept[v->id].v }; }
static inline void cost_put(CostWalk *w, const Value *v, Scalar x)
{ w->kept[v->id] = (CostKept){ w->walk, x }; }
static inline void cost_put_always(CostWalk *w, const Value *v, Scalar x)
{ w->kept[v->id] = (CostKept){ COST_ALWAYS, x }; }

static inline double cost_bytes(const Type *t) { return (double)type_elements(t) * dtype_bytes(t->dtype); }

/* cost_walk.c: walks the program with this number and these coordinates, and adds to w->c. */
void cost_walk(CostWalk *, int64_t linear, const int64_t *coord);

/* cost_registers.c: words of a thread that a tile takes, 0: it is none; what the loop carries, and what one
 * of its rounds loads, since all of that is under way or in use at once; the most words that are in use where
 * a gather loads element by element: the vendor's compiler orders the accesses of different elements as they
 * are written, so that it keeps what lies around them. */
int cost_words(const CostWalk *, const Type *);
void cost_round_words(CostWalk *, const Instr *loop);
int cost_gathered_words(const CostWalk *);
/* Of the largest tile that has to be held: those that are computed where they are used are not. */
int cost_held_words(const CostWalk *);
/* Whether the vendor's compiler need not hold the tile: each element is computed where the only use of it is.
 */
bool cost_is_fused(const CostWalk *, const Value *);
/* cost_live.c: the words of a thread that tiles take where the most of them are in use at once. */
int cost_live_words(CostWalk *);

/* cost_product.c: counts a product on matrix units or without them. times: how often the program does it */
void cost_product(CostWalk *, const Instr *, double times);

/* cost_exchange.c: tiles whose elements go from thread to thread: from one layout to another, and by their
 * positions in reshapes, slices, concatenations and permutations. */
void cost_convert(CostWalk *, const Instr *, double times);
bool cost_is_by_position(const Instr *);
void cost_by_position(CostWalk *, const Instr *, double times);
/* Whether the result of such an operation lies in the registers of its operands. */
bool cost_stays(CostWalk *, const Instr *);

/* cost_scalars.c: evaluates what the instruction gives, where that is decided. times: how often it runs
 * before the first load; around: in all. */
void cost_evaluate(CostWalk *, const Instr *, double times, double around);
/* Such a step on two integers that are known in this walk; false: it is none. */
bool cost_whole_step(CostWalk *, const TrafficStep *);
/* The value, where the launch's extents and the program's coordinates decide it. */
bool cost_as_int(const CostWalk *, const Value *, int64_t *out);

/* cost.c: of a tensor, all of it. */
double cost_tensor_bytes(const Func *, const EvalEnv *, int param);

/* cost_taps.c: the part of what a load brings to a thread that no load of the block has brought to it before.
 */
double cost_new_part(CostWalk *, const Instr *load, const MemParts *);

/* cost_lines.c: lane operations that a lane's access of a tile takes beside the access: those of as many
 * cycles as a warp's access reaches more lines than the fewest that hold as much. */
double cost_lines_beside(const CostWalk *, const Instr *, const MemParts *);
/* The bytes of the sectors that a store of a tile writes to those of the tile; a sector that several accesses
 * write counts for each. */
double cost_sectors_written(const CostWalk *, const Instr *, const MemParts *);

/* Sectors that a row of the stored tile shares with what lies beside it in memory, in the mean over the
 * places where rows may begin: 0 to 2. */
double cost_sectors_parted(const CostWalk *, const Instr *, const MemParts *);

/* cost_walk.c: lane operations of one operation on a tile: every thread computes each of the registers that
 * it holds, and lanes of a warp that hold none wait for the others. Of a row of statistics several lanes hold
 * copies. */
double cost_lanes(const CostWalk *, const Type *);
/* An element-wise operation of n elements (cost_elements.c). */
void cost_elements(CostWalk *, const Instr *, double n);

/* cost_waits.c: counts how often threads wait for loads to registers in so many rounds of a loop: loads of
 * rounds that are taken together, or issued so many rounds ahead, are under way at once. */
void cost_loop_waits(CostWalk *, const Instr *loop, double rounds);
/* Every iteration of the loop waits for what it loads, which counts once. */
void cost_wait_for_data(CostWalk *, double times);
void cost_wait_for_it(CostWalk *, const Instr *load, double times);
void cost_load_before_product(CostWalk *, const Instr *load);
void cost_stages(CostWalk *, const Instr *take); /* of a buffer's stage */

/* cost_loops.c: about how often a loop with this body runs, whose bounds are loaded. */
enum { COST_UNKNOWN_ITERATIONS = 16 };
double cost_unknown_iterations(CostWalk *, Block *body);
/* The same of a kernel's own `while`. */
double cost_open_iterations(CostWalk *, const Instr *loop);
/* cost_offsets.c: about how often the loop runs, if it has loops of its own and its bounds follow from
 * loaded offsets; 0: not known. */
double cost_mean_iterations(CostWalk *, const Instr *loop);

/* cost_cached.c: the bytes of sectors that come from L2 for a load of `bytes` bytes in one of the
 * `times` that its block runs, beside what other loads of the block have brought. */
double cost_fetched(CostWalk *, const Instr *load, const MemParts *, double bytes, double times);

/* cost_cp_async.c */
void cost_cp_async(CostWalk *, const Instr *fill, double times);

/* cost_walk.c: so many times that the block runs. */
void cost_walk_block(CostWalk *, const Block *, double times);

/* cost_spans.c. In front of a walk of a loop for windows, in the first program that comes there. */
void cost_spans(CostWalk *, const Block *, int64_t lo, int64_t step, int64_t iterations);
void cost_span_meet(CostWalk *, const TrafficStep *);         /* a walk for spans meets the window */
double cost_span_part(const CostWalk *, const TrafficStep *); /* that memory brings of the loop's windows */

/* cost_memory.c. times: how often the program does it */
double cost_window_bytes(
    const CostWalk *, const Instr *, double *whole); /* of a window that lie inside the tensor, in the mean
                                                        over its places; *whole: of all of it */
void cost_reads(CostWalk *, const Instr *, int param, double bytes);
TrafficStep cost_step(const CostWalk *, const Instr *);
void cost_meet(CostWalk *, const TrafficStep *, double times); /* of a walk for windows: it loads one */
int64_t cost_row_bytes(const CostWalk *, const Instr *put);    /* of a window's rows, as TMA brings them */
double cost_narrow(const CostWalk *, const Instr *put);
double cost_torn(const CostWalk *, const Instr *put);
double cost_split(const CostWalk *, const Instr *put);
double cost_cut(const CostWalk *, const Instr *put);
double cost_pieces(const CostWalk *, const Instr *put);
void cost_copy(CostWalk *, const Instr *, double times);
double cost_small_copies(CostWalk *, const Instr *copy); /* of 4 or 8 bytes, by a thread */
void cost_wrote(CostWalk *, int param, double bytes);
void cost_memory(CostWalk *, const Instr *, double times); /* loads, stores, gathers, scatters, atomics */
/* cost_indexed.c: gathers, scatters, atomics */
void cost_indexed(CostWalk *, const Instr *, const MemParts *, double times);
/* cost_gathered.c: atomics_open and atomics_close; atomics on few words */
void cost_gathered_words_of(CostWalk *, const Instr *);
void cost_crowded(CostWalk *, const Instr *, int param, double n);
