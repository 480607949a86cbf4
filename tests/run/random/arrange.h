/* arrange.h: the parts of random_arrangement (random_kernel.h): kernels of one to four products in every
 * arrangement.
 *
 * Operands are small whole numbers, and what a product made is divided by a power of two, rounded and
 * clamped before it is an operand again: all sums are exact, so that results must be
 * equal whatever the order of additions. Only after a softmax values are rounded (`loose`): such a tile
 * never meets a rounding to whole numbers, and the kernel says its bounds. */
#pragma once
#include "random_kernel.h"
#include "ref_random.h"

typedef enum Elem { F16, BF16, E4M3, E5M2, F32, F64, I8, U8, I32, N_ELEMS } Elem;

/* What a window's axis runs along: the program's rows, its columns, a product's depth. */
typedef enum Along { ROWS, COLS, DEEP } Along;

enum { MOST_TILES = 48, MOST_TENSORS = 20, MOST_LOOPS = 3, EXPR = 400 };

/* A named tile; small: of whole numbers that may be operands as they are; loose: rounded on the way. */
typedef struct Tile {
    char name[12];
    int rows, cols;
    Elem type;
    bool small, loose;
} Tile;
typedef struct TensorOf {
    char name[8], dims[3][8], fill[16];
    int rank;
    Elem type;
    bool out;
} TensorOf;

typedef struct Arranger {
    RandomKernel *k;
    RefRandom random;
    char body[12000];
    size_t length;
    int indent, names, n_tiles, n_tensors, n_loops, products;
    Tile tiles[MOST_TILES];
    TensorOf tensors[MOST_TENSORS];
    char loops[MOST_LOOPS][8];    /* variables of the loops around */
    int axes, shape[4], depth[2]; /* of the grid; extents of tiles, of products */
    Elem type;                    /* the kernel's favourite */
    bool extremes;
    /* whole tiles and windows like those of products, for which targets have fast paths */
    bool tidy;
    bool small;     /* few and small tiles, for emulators, which take long for each product */
    bool swift;     /* tidy, and with one type and one number of rows, as products by wgmma need */
    bool eighths;   /* products of fp8, because some matrix units keep only 14 bits of their sums */
    int loose_bits; /* of the narrowest type to which a loose value was rounded; 0: none */
    double work;    /* the multiplications of one program, when each loop runs three times */
} Arranger;

/* The text of an expression or a name. It ends the test where `out` has no room for all of it. */
void arrange_write(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int below(Arranger *, int n);
bool chance(Arranger *, int percent);
void arrange_line(Arranger *, const char *format, ...);
/* Writes behind the text that is there. */
__attribute__((format(printf, 3, 4))) void arrange_append(char *out, size_t size, const char *format, ...);
/* Writes what `$NAME` of a template stands for, or returns a template for it, else NULL. */
typedef const char *ArrangePart(void *user, char name, char *out, size_t size);
/* The template with its `$NAME`s replaced, those of inner templates too. */
void arrange_expand(const char *template, ArrangePart *part, void *user, char *out, size_t size);
/* Writes `if CONDITION {` with a return in so many of a hundred, or else what `inside` writes, and at times
 * an `else` with what it writes then. */
void arrange_branch(Arranger *, const char *condition, int returns, void (*inside)(void *), void *user);
/* A random order of 0 to n - 1. */
void arrange_order(Arranger *, int *order, int n);
#define AMONG(a, type, ...) \
    ((const type[]){ __VA_ARGS__ })[below(a, (int)(sizeof((const type[]){ __VA_ARGS__ }) / sizeof(type)))]
#define CHOOSE(a, ...) AMONG(a, char *const, __VA_ARGS__)
#define ONE_OF(a, ...) AMONG(a, int, __VA_ARGS__)

const char *elem_name(Elem);
Elem elem_sum(Elem); /* the accumulator's type */
bool elem_whole(Elem);
int elem_bits(Elem); /* of the significand */

/* Tiles known so far. */
Tile *tile_add(Arranger *, const char *name, int rows, int cols, Elem, bool small, bool loose);
const Tile *tile_pick(Arranger *, bool (*wanted)(const Tile *, const void *), const void *);
/* A kind of view (cases.h) that a tensor of that rank may have; 0: none. */
char arrange_view(Arranger *, int rank, bool in);
void fresh_name(Arranger *, const char *prefix, char *out, size_t size);

/* arrange_memory.c: an input tensor's name (NULL: there are too many); expressions of windows of inputs. */
const char *tensor_in(Arranger *, Elem, int rank, const Along *, const char *fill);
const char *tensor_out(Arranger *, Elem, int rank, const char *const *dims);
void base_of(Arranger *, Along, int extent, char *out, size_t size);
void load_tile(Arranger *, Elem, int rows, int cols, Along r, Along c, bool turned, char *out, size_t size);
void load_vector(Arranger *, Elem, int extent, Along, char *out, size_t size);
void load_count(Arranger *, char *out, size_t size);
const char *cache_mode(Arranger *); /* an option of an access, or "" */
void gather_rows(Arranger *, Elem, int rows, int cols, Along c, char *out, size_t size);

/* arrange_values.c */
void arrange_convert(Arranger *, const Tile *, Elem to, char *out, size_t size);
bool convertible(const Tile *, Elem to);
/* writes a `let`, or finds a tile */
void operand(Arranger *, Elem, int rows, int cols, Along r, Along c, Tile *out);
void accumulator(Arranger *, Elem sum, int rows, int cols, bool whole_shape, char *out, size_t size);

/* arrange_ends.c */
void finish(Arranger *, Tile); /* what follows a product, within its block */
void outputs(Arranger *);
void store_tile(Arranger *, const Tile *); /* the program's own part of an output of its own */
